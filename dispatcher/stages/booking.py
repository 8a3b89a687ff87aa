"""Booking: book the plan for push connectors and put its messages into the outbox.

Reads ``assignment``, writes the ledger, ``task`` and ``outbox`` in one transaction a
piece. A plan covers the whole backlog; booking meters it by what each account may have
open, per day and per hour. What the gate refuses for good leaves the plan (planning
will find another adversary for it); what is only paused stays. For pull connectors a
content-free offer is written: "there is work". It exposes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from connectors.base import Content
from dispatcher import money
from dispatcher.core import meters
from dispatcher.core.log import get_logger
from dispatcher.ledger import refusals
from dispatcher.ledger.active_policy import ActivePolicy, current_policy, lock_policy
from dispatcher.ledger.book import Asks, Booked, Push, book
from dispatcher.preflight import Clearance, Obstacle, Preflight
from dispatcher.store import Clock, Store, Tx, events, lease, planning
from dispatcher.store import booking as rows
from dispatcher.store import ledger as gate_rows
from dispatcher.store.booking import LoadRow, PlannedRow
from dispatcher.store.engine import committed

PIECE: Final = 4_000
"""Pairs booked in the first transaction, and in one part of a row of the plan, about."""

LEAST, MOST = 0.125, 5.0
"""A transaction shrinks and grows to so many times ``PIECE``, at most.

The first one is the smallest: under rules about relations the gate books pair by pair,
a hundred times slower than by the piece, and only booking shows which it is.
"""

BUSY: Final = 400_000
"""Microseconds that one transaction may take, about: on SQLite workers wait for it."""

TURN: Final = 50
"""Pieces booked in one turn, at most."""

MESSAGE: Final = 500
"""Tasks that go in one message, at most."""

PARTS: Final = 16
"""Most parts in which a row of the plan is booked: each rewrites the remainder."""

WINDOW: Final = 2_000
"""Entries of one account that are shuffled together, about.

Each transaction writes all over a window's pages of the indexes by entry, for all accounts:
with 8,000, booking 1,600,000 pairs took 39 s of CPU, with 2,000 it takes 24.
"""

OFFER_EVERY: Final = 3600 * 1_000_000
"""Microseconds in which an account is offered work at most once."""

Ids = npt.NDArray[np.int64]
Place = tuple[int, int]  # plan and account


NOTHING_GIVEN: Final[LoadRow] = (0, 0, 0, 0)


@dataclass(frozen=True)
class RowPart:
    """A part of a row of the plan, in the order in which its entries leave.

    ``turn`` sorts the parts of all accounts: by plan, by the first entry of the window,
    by their number in it.
    """

    row: PlannedRow
    entries: Ids
    turn: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SeparateEntries:
    """Entries that leave in messages of their own, for one account."""

    place: Place
    connector: str
    entries: Ids


class _Outbid(Exception):
    """The money for a piece was taken while it was booked."""


class Booking:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    preflight : Preflight
        Knows the connectors, and what they could not send: none of that is booked.
    clock : Clock
    rng : Generator
        Shuffles the entries before they leave.
    """

    def __init__(
        self,
        store: Store,
        preflight: Preflight,
        clock: Clock,
        rng: np.random.Generator,
    ) -> None:
        self._store = store
        self._rng = rng
        self._preflight = preflight
        manifests = preflight.manifests
        self._pushed = [n for n, m in manifests.items() if m.content is Content.MARKET]
        self._pulled = [n for n, m in manifests.items() if m.content is Content.OURS]
        self._most = {name: m.limits.items for name, m in manifests.items()}
        self._bytes = {n: m.limits.offer_bytes for n, m in manifests.items()}
        self._clock = clock
        self._said: frozenset[Obstacle] = frozenset()
        self._pace = LEAST  # size of the next piece, in pieces
        self._log = get_logger("booking")

    def tick(self, epoch: int) -> int:
        """Book the tasks that may leave now, and write offers.

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
        """Count the tasks of a piece by connector, and log refusals."""
        for rule, count in Counter(r.rule for r in booked.refused).items():
            self._log.warning("planned-pairs-refused", count=count, rule=rule)
            meters.GATE_DECISIONS.labels("deny", rule).inc(count)
        meters.GATE_DECISIONS.labels(*meters.ALLOWED).inc(len(booked.tasks))
        refused = Counter(r.account.partition("/")[0] for r in booked.refused)
        for connector, count in (asked - refused).items():
            meters.TRANSITIONS.labels(meters.NEW, "booked", connector).inc(count)

    def _keep_pace(self, piece: Sequence[RowPart], took: int) -> None:
        """Choose the size of the next piece, so that it takes about ``BUSY``.

        A clock that jumped meanwhile can only make it as small or large as it may be.
        """
        fitting = (
            sum(len(parcel.entries) for parcel in piece) / PIECE * BUSY / max(took, 1)
        )
        self._pace = min(max(fitting, LEAST), 2 * self._pace, MOST)

    def _pieces(self) -> Iterator[list[RowPart]]:
        """Yield pieces: the parcels that there is room for, as many as the pace allows.

        They go window by window, over all accounts, so that a piece touches few pages
        of the indexes by entry; and each fills whole messages.
        """
        with self._store.read() as tx:
            force = current_policy(tx)
            if force is None or gate_rows.stopped_scopes(tx) & {"all"}:
                return
            clear = self._preflight.look(tx)
            self._say(clear.obstacles)
            planned = [
                row
                for row in rows.planned(tx, self._pushed, force.version)
                if row.account_id not in clear.barred
            ]
            used = _loads(tx, force, planned, self._clock())
        parcels = [
            parcel
            for row in planned
            for parcel in _parcels(row, _room(force, row, used), self._rng)
        ]
        parcels.sort(key=lambda parcel: parcel.turn)
        piece: list[RowPart] = []
        size = turn = 0
        for parcel in parcels:
            piece.append(parcel)
            size += len(parcel.entries)
            if size >= self._pace * PIECE:
                yield piece
                piece, size, turn = [], 0, turn + 1
                if turn == TURN:
                    return
        if piece:
            yield piece

    def _say(self, obstacles: Sequence[Obstacle]) -> None:
        """Log each obstacle once for as long as it lasts."""
        for one in obstacles:
            if one not in self._said:
                self._log.warning("connector-refused", **asdict(one))
        self._said = frozenset(obstacles)

    def _book(
        self, piece: Sequence[RowPart], epoch: int, tx: Tx
    ) -> tuple[Booked, Counter[str]] | None:
        """Book a piece of the plan and remove it from the plan.

        Returns what was booked, and how many were asked for each connector; None if it
        was planned under a policy that is not in force any more, or there is no money.

        Raises
        ------
        _Outbid
            Somebody took the money meanwhile; nothing was booked.
        """
        lease.check_epoch(tx, lease.SHARD, epoch)
        force = lock_policy(tx)
        if any(parcel.row.version != force.version for parcel in piece):
            return None
        now = self._clock()
        clear = self._preflight.look(tx)
        asked, left, unsent, short = self._asked(tx, force, clear, piece, now)
        by_connector: Counter[str] = Counter()
        for ask in asked:
            by_connector[ask.connector] += len(ask.entries)
        if short and not by_connector.total() and not unsent:
            return None
        booked = book(
            tx,
            [Asks(one.place[1], one.entries.tolist()) for one in asked],
            delivery=Push(tasks_per_message=MESSAGE, most=self._most),
            at=now,
            cause="planned",
            fence=lease.Fence(lease.SHARD, epoch),
            skip_refused=True,
        )
        planning.keep_all_planned(tx, _kept(asked, left, booked))
        if not money.book_fields(tx, booked.tasks, clear.feeds, now):
            raise _Outbid
        gone = sum(one.cause not in refusals.PASSING for one in booked.refused)
        gone += unsent
        if gone:
            planning.count_refused(tx, piece[0].row.plan_id, gone)
        if past := sum(one.cause in refusals.OF_LIMITS for one in booked.refused):
            detail = {"plan": piece[0].row.plan_id, "showings": past}
            events.add_event(tx, now, "booking", "plan.refused", detail)
        return booked, by_connector

    def _asked(
        self,
        tx: Tx,
        force: ActivePolicy,
        clear: Clearance,
        piece: Sequence[RowPart],
        now: int,
    ) -> tuple[list[SeparateEntries], dict[Place, Ids], int, bool]:
        """Split a piece into what is booked now and what stays planned.

        Also return how many pairs leave the plan because they cannot be sent, and
        whether money ran short. What stays with accounts that are barred stays planned.
        """
        used = _loads(tx, force, [parcel.row for parcel in piece], now)
        allowance = money.Allowance(tx, now)
        asked: list[SeparateEntries] = []
        left: dict[Place, Ids] = {}
        unsent, short = 0, False
        lengths = _Lengths(tx, force, clear, piece)
        for parcel in piece:
            row = parcel.row
            place = row.plan_id, row.account_id
            if row.account_id in clear.barred:
                continue
            if place not in left:
                left[place] = np.frombuffer(planning.lock_planned(tx, *place), "<i8")
            room = _room(force, row, used)
            mine, left[place] = _taken(left[place], parcel, room)
            fits = lengths.fit(mine, row.connector)
            unsent += len(mine) - int(fits.sum())
            mine = mine[fits]
            if row.connector not in clear.feeds:
                paid = allowance.takes(mine)
                if not paid.all():
                    short = True
                    left[place] = np.union1d(left[place], mine[~paid])
                    mine = mine[paid]
            parts = lengths.cut(mine, self._bytes[row.connector])
            asked += [SeparateEntries(place, row.connector, part) for part in parts]
            _use(used, row.account_id, len(mine))
        return asked, left, unsent, short

    def _offer(self, epoch: int) -> int:
        since = self._clock() - OFFER_EVERY
        with self._store.read() as tx:
            stopped = gate_rows.stopped_scopes(tx)
            open_ = [n for n in self._pulled if f"connector:{n}" not in stopped]
            if "all" in stopped or not self._idle(tx, open_, since):
                return 0
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            accounts = self._idle(tx, open_, since)
            rows.add_offers(tx, accounts, self._clock())
        return len(accounts)

    def _idle(self, tx: Tx, pulled: Sequence[str], since: int) -> list[tuple[int, str]]:
        """Find idle accounts that can be offered work."""
        barred = self._preflight.look(tx).barred
        found = rows.without_offer(tx, pulled, since)
        return [one for one in found if one[0] not in barred]


class _Lengths:
    """Kind and byte length of what is sent of each entry of a piece.

    Nearly all are short and of a kind that the connector takes: only the others are
    read.
    """

    def __init__(
        self, tx: Tx, force: ActivePolicy, clear: Clearance, piece: Sequence[RowPart]
    ) -> None:
        self._clear = clear
        names = {parcel.row.connector for parcel in piece}
        self._alien = {
            name: [
                number
                for number, standing in force.fields.items()
                if not clear.carries(
                    name, force.policy.entity.fields[standing.name].ask
                )
            ]
            for name in names
        }
        limits = [clear.manifests[name].limits for name in names]
        short = min(
            min(one.content_bytes, one.offer_bytes // MESSAGE) for one in limits
        )
        self._ids = np.unique(np.concatenate([parcel.entries for parcel in piece]))
        self._field = np.full(len(self._ids), -1)
        self._size = np.full(len(self._ids), short)  # or less
        alien = sorted(
            {number for numbers in self._alien.values() for number in numbers}
        )
        table = rows.to_send(tx, self._ids.tolist(), short, alien)
        at = np.searchsorted(self._ids, table[:, 0])
        self._field[at], self._size[at] = table[:, 1], table[:, 2]

    def fit(self, entries: Ids, connector: str) -> npt.NDArray[np.bool_]:
        """Flag the entries that a connector can send."""
        at = np.searchsorted(self._ids, entries)
        field, size = self._field[at], self._size[at]
        most = self._clear.most_bytes(connector)
        fits = np.ones(len(entries), np.bool_) if most is None else size <= most
        return fits & ~np.isin(field, self._alien[connector])

    def cut(self, entries: Ids, most: int) -> Iterator[Ids]:
        """Cut entries into parts of so many bytes at most, one entry at least."""
        ends = np.cumsum(self._size[np.searchsorted(self._ids, entries)])
        start = 0
        while start < len(entries):
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + most, "right"))
            stop = max(stop, start + 1)
            yield entries[start:stop]
            start = stop


def _parcels(
    row: PlannedRow, room: int | None, rng: np.random.Generator
) -> Iterator[RowPart]:
    """Cut what an account has room for into parcels of whole messages.

    Entries of one record are adjacent, and two receivers could infer from their order
    which of theirs belong together: so the entries that there is room for are drawn at
    random and shuffled within each window.
    """
    entries = np.frombuffer(row.entries, "<i8")
    if room is not None and room < len(entries):
        entries = np.sort(rng.permutation(entries)[:room])
    messages = -(-len(entries) // (PARTS * MESSAGE))
    step = max(1, min(PIECE, messages * MESSAGE))
    window = max(1, WINDOW // step) * step
    for begin in range(0, len(entries), window):
        mixed = rng.permutation(entries[begin : begin + window])
        first = int(entries[begin])
        for number, start in enumerate(range(0, len(mixed), step)):
            turn = row.plan_id, first, number
            yield RowPart(row, mixed[start : start + step], turn)


def _taken(entries: Ids, parcel: RowPart, room: int | None) -> tuple[Ids, Ids]:
    """Split a parcel's entries into those still planned that fit, and all others."""
    at = np.searchsorted(entries, parcel.entries)
    there = at < len(entries)
    there[there] = entries[at[there]] == parcel.entries[there]
    at = at[there][:room]
    return entries[at], np.delete(entries, at)


def _loads(
    tx: Tx, force: ActivePolicy, planned: Sequence[PlannedRow], now: int
) -> dict[int, LoadRow]:
    """Tasks of the accounts that the policy sets a limit (grows with their tasks)."""
    limited = {row.account_id for row in planned if _room(force, row, {}) is not None}
    return rows.loads(tx, sorted(limited), now) if limited else {}


def _room(force: ActivePolicy, row: PlannedRow, used: dict[int, LoadRow]) -> int | None:
    load = used.get(row.account_id, NOTHING_GIVEN)
    return force.policy.capacity(row.account).room(*load)


def _use(used: dict[int, LoadRow], account_id: int, count: int) -> None:
    ever, live, day, hour = used.get(account_id, NOTHING_GIVEN)
    used[account_id] = (ever + count, live + count, day + count, hour + count)


def _kept(
    asked: Sequence[SeparateEntries], left: dict[Place, Ids], booked: Booked
) -> Iterator[tuple[int, int, bytes]]:
    """Select what stays in the plan: what was not booked, and what is only paused."""
    passing: dict[int, list[int]] = defaultdict(list)
    for refusal in booked.refused:
        if refusal.cause in refusals.PASSING:
            passing[refusal.account_id].append(refusal.entry_id)
    again: dict[Place, list[Ids]] = defaultdict(list)
    for one in asked:
        account_id = one.place[1]
        if account_id in passing:
            mine = one.entries
            again[one.place].append(mine[np.isin(mine, passing[account_id])])
    for place, entries in left.items():
        kept = np.sort(np.concatenate([entries, *again[place]])).astype("<i8")
        yield (*place, kept.tobytes())
