"""Booking: what the plan means for push connectors is booked and put into the outbox.

Reads ``assignment``, writes the ledger, ``task`` and ``outbox`` in one transaction a
piece. A plan covers the whole backlog; booking meters it by what each account may have
open, per day and per hour. What the gate refuses for good leaves the plan (planning
will find another adversary for it); what is only paused stays. For pull connectors a
content-free offer is written: "there is work". No exposure comes of that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher import money
from dispatcher.core import meters
from dispatcher.core.log import get_logger
from dispatcher.ledger import barrier, refusals
from dispatcher.ledger.book import Asks, Booked, Push, book
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import booking as rows
from dispatcher.store import ledger as gate_rows
from dispatcher.store.booking import LoadRow, PlannedRow
from dispatcher.store.repeating import committed

PIECE: Final = 4_000
"""Pairs booked in the first transaction, and in one part of a row of the plan, about."""

LEAST, MOST = 0.125, 5.0
"""A transaction shrinks and grows to so many times ``PIECE``, at most.

The first one is the least: under rules of relations the gate books pair by pair, a
hundred times slower than by the piece, and which it is shows only then.
"""

BUSY: Final = 400_000
"""Microseconds that one transaction may take, about: on SQLite workers wait for it."""

TURN: Final = 50
"""Pieces booked in one turn, at most."""

MESSAGE: Final = 500
"""Tasks that go in one message, at most."""

PARTS: Final = 16
"""A row of the plan is booked in so many parts, at most: each writes its rest anew."""

OFFER_EVERY: Final = 3600 * 1_000_000
"""Microseconds in which an account is told at most once that there is work."""

Ids = npt.NDArray[np.int64]
Place = tuple[int, int]  # plan and account


@dataclass(frozen=True)
class Parcel:
    """A part of a row of the plan: its entries from one to another, both included."""

    row: PlannedRow
    first: int
    last: int
    size: int


class _Outbid(Exception):
    """The money for a piece was taken while it was booked."""


class Booking:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    pushed, pulled : sequence of str
        Names of the connectors whose content leaves with the task, and of those whose
        content we serve.
    clock : Clock
    most : Mapping
        Connector -> tasks that it takes in one message.
    feeds : frozenset of str
        Those of the pushed ones that are feeds: nobody earns anything there.
    """

    def __init__(
        self,
        store: Store,
        pushed: Sequence[str],
        pulled: Sequence[str],
        clock: Clock,
        most: Mapping[str, int] | None = None,
        *,
        feeds: frozenset[str] = frozenset(),
    ) -> None:
        self._store = store
        self._pushed = list(pushed)
        self._pulled = list(pulled)
        self._feeds = feeds
        self._clock = clock
        self._most = dict(most or {})
        self._pace = LEAST  # size of the next piece, in pieces
        self._log = get_logger("booking")

    def tick(self, epoch: int) -> int:
        """Book what may leave now.

        Returns
        -------
        int
            Tasks booked and offers written.
        """
        done = self._offer(epoch)
        for piece in self._pieces():
            began = self._clock()
            with meters.GATE_DURATION.time():
                try:
                    booked = committed(self._store, partial(self._book, piece, epoch))
                except _Outbid:
                    break
            self._keep_pace(piece, self._clock() - began)
            if booked is None:
                break  # another policy, or no money: it is for the next turn to see
            self._tell(*booked)
            done += len(booked[0].tasks)
        return done

    def _tell(self, booked: Booked, asked: Counter[str]) -> None:
        """Count what a piece came to, by connector, and log what was refused."""
        for rule, count in Counter(r.rule for r in booked.refused).items():
            self._log.warning("planned-pairs-refused", count=count, rule=rule)
            meters.GATE_DECISIONS.labels("deny", rule).inc(count)
        meters.GATE_DECISIONS.labels(*meters.ALLOWED).inc(len(booked.tasks))
        refused = Counter(r.account.partition("/")[0] for r in booked.refused)
        for connector, count in (asked - refused).items():
            meters.TRANSITIONS.labels(meters.NEW, "booked", connector).inc(count)

    def _keep_pace(self, piece: Sequence[Parcel], took: int) -> None:
        """Choose the size of the next piece, so that it takes about ``BUSY``.

        A clock that jumped meanwhile can only make it as small or large as it may be.
        """
        fitting = sum(parcel.size for parcel in piece) / PIECE * BUSY / max(took, 1)
        self._pace = min(max(fitting, LEAST), 2 * self._pace, MOST)

    def _pieces(self) -> Iterator[list[Parcel]]:
        """Parcels of what there is room for, as many a time as the pace allows.

        They go in order of their entries, over all accounts, so that a piece touches
        few pages of the indexes by entry; and each fills whole messages.
        """
        with self._store.read() as tx:
            force = current_policy(tx)
            if force is None or gate_rows.stopped_scopes(tx) & {"all"}:
                return
            planned = rows.planned(tx, self._pushed, force.version)
            used = _loads(tx, force, planned, self._clock())
        parcels = [
            parcel
            for row in planned
            for parcel in _parcels(row, _room(force, row, used))
        ]
        parcels.sort(key=lambda parcel: (parcel.row.plan_id, parcel.first))
        piece: list[Parcel] = []
        size = turn = 0
        for parcel in parcels:
            piece.append(parcel)
            size += parcel.size
            if size >= self._pace * PIECE:
                yield piece
                piece, size, turn = [], 0, turn + 1
                if turn == TURN:
                    return
        if piece:
            yield piece

    def _book(
        self, piece: Sequence[Parcel], epoch: int, tx: Tx
    ) -> tuple[Booked, Counter[str]] | None:
        """Book a piece of the plan and take it out of the plan.

        Returns what was booked, and how many were asked for each connector; None if it
        was planned under a policy that is not in force any more, or there is no money.

        Raises
        ------
        _Outbid
            Somebody took the money meanwhile; nothing was booked.
        """
        lease.check_epoch(tx, lease.SHARD, epoch)
        force = barrier.hold(tx)
        if any(parcel.row.version != force.version for parcel in piece):
            return None
        now = self._clock()
        asked, left, by_connector, short = self._asked(tx, force, piece, now)
        if short and not by_connector.total():
            return None
        booked = book(
            tx,
            [Asks(account_id, mine.tolist()) for (_, account_id), mine in asked],
            delivery=Push(tasks_per_message=MESSAGE, most=self._most),
            at=now,
            cause="planned",
            epoch=epoch,
            skip_refused=True,
        )
        rows.keep_planned(tx, _kept(asked, left, booked))
        if not money.book_fields(tx, booked.tasks, self._feeds, now):
            raise _Outbid
        gone = sum(one.rule not in refusals.PASSING for one in booked.refused)
        if gone:
            rows.count_refused(tx, piece[0].row.plan_id, gone)
        return booked, by_connector

    def _asked(
        self, tx: Tx, force: InForce, piece: Sequence[Parcel], now: int
    ) -> tuple[list[tuple[Place, Ids]], dict[Place, Ids], Counter[str], bool]:
        """Part a piece into what is booked now and what stays planned.

        Also how many are booked of each connector, and whether money was short for some.
        """
        used = _loads(tx, force, [parcel.row for parcel in piece], now)
        allowance = money.Allowance(tx, now)
        asked: list[tuple[Place, Ids]] = []
        left: dict[Place, Ids] = {}
        by_connector: Counter[str] = Counter()
        short = False
        for parcel in piece:
            row = parcel.row
            place = row.plan_id, row.account_id
            if place not in left:
                left[place] = np.frombuffer(rows.lock_planned(tx, *place), "<i8")
            room = _room(force, row, used)
            mine, left[place] = _taken(left[place], parcel, room)
            if row.connector not in self._feeds:
                paid = allowance.takes(mine)
                if not paid.all():
                    short = True
                    left[place] = np.union1d(left[place], mine[~paid])
                    mine = mine[paid]
            asked.append((place, mine))
            _use(used, row.account_id, len(mine))
            by_connector[row.connector] += len(mine)
        return asked, left, by_connector, short

    def _offer(self, epoch: int) -> int:
        since = self._clock() - OFFER_EVERY
        with self._store.read() as tx:
            stopped = gate_rows.stopped_scopes(tx)
            open_ = [n for n in self._pulled if f"connector:{n}" not in stopped]
            if "all" in stopped or not rows.without_offer(tx, open_, since):
                return 0
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            accounts = rows.without_offer(tx, open_, since)
            rows.add_offers(tx, accounts, self._clock())
        return len(accounts)


def _parcels(row: PlannedRow, room: int | None) -> Iterator[Parcel]:
    """Cut what an account has room for into parcels of whole messages."""
    entries = np.frombuffer(row.entries, "<i8")[:room]
    messages = -(-len(entries) // (PARTS * MESSAGE))
    step = min(PIECE, messages * MESSAGE)
    for start in range(0, len(entries), step or 1):
        part = entries[start : start + step]
        yield Parcel(row, int(part[0]), int(part[-1]), len(part))


def _taken(entries: Ids, parcel: Parcel, room: int | None) -> tuple[Ids, Ids]:
    """Entries of a parcel that are still planned and fit, and all others."""
    start, end = np.searchsorted(entries, [parcel.first, parcel.last + 1]).tolist()
    if room is not None:
        end = min(end, start + room)
    return entries[start:end], np.delete(entries, slice(start, end))


def _loads(
    tx: Tx, force: InForce, planned: Sequence[PlannedRow], now: int
) -> dict[int, LoadRow]:
    """Tasks of the accounts that the policy sets a limit (grows with their tasks)."""
    limited = {row.account_id for row in planned if _room(force, row, {}) is not None}
    return rows.loads(tx, sorted(limited), now) if limited else {}


def _room(force: InForce, row: PlannedRow, used: dict[int, LoadRow]) -> int | None:
    load = used.get(row.account_id, LoadRow(0, 0, 0, 0))
    return force.policy.capacity(row.account).room(*load)


def _use(used: dict[int, LoadRow], account_id: int, count: int) -> None:
    load = used.get(account_id, LoadRow(0, 0, 0, 0))
    used[account_id] = LoadRow(*(number + count for number in load))


def _kept(
    asked: Sequence[tuple[Place, Ids]], left: dict[Place, Ids], booked: Booked
) -> Iterator[tuple[int, int, bytes]]:
    """What stays in the plan: what was not asked for, and what is only paused."""
    passing: dict[int, list[int]] = defaultdict(list)
    for refusal in booked.refused:
        if refusal.rule in refusals.PASSING:
            passing[refusal.account_id].append(refusal.entry_id)
    again: dict[Place, list[Ids]] = defaultdict(list)
    for place, mine in asked:
        if place[1] in passing:
            again[place].append(mine[np.isin(mine, passing[place[1]])])
    for place, entries in left.items():
        kept = np.sort(np.concatenate([entries, *again[place]])).astype("<i8")
        yield (*place, kept.tobytes())
