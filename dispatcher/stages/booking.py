"""Booking: what the plan means for push connectors is booked and put into the outbox.

Reads ``assignment``, writes the ledger, ``task`` and ``outbox`` in one transaction a
piece. A plan covers the whole backlog; booking meters it by what each account may have
open, per day and per hour. What the gate refuses for good leaves the plan (planning
will find another adversary for it); what is only paused stays. For pull connectors a
content-free offer is written: "there is work". No exposure comes of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.ledger import barrier, refusals
from dispatcher.ledger.book import Asks, Booked, Push, book
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.log import get_logger
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import booking as rows
from dispatcher.store import ledger as gate_rows
from dispatcher.store.booking import LoadRow, PlannedRow

PIECE: Final = 20_000
"""Pairs booked in one transaction, about; others wait for it on SQLite."""

TURN: Final = 50
"""Pieces booked in one turn, at most."""

MESSAGE: Final = 500
"""Tasks that go in one message, at most."""

OFFER_EVERY: Final = 3600 * 1_000_000
"""Microseconds in which an account is told at most once that there is work."""

Ids = npt.NDArray[np.int64]
PASSING: Final = frozenset({refusals.PAUSE, refusals.ACCOUNT})


class Booking:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    pushed, pulled : sequence of str
        Names of the connectors whose content leaves with the task, and of those whose
        content we serve.
    clock : Clock
    """

    def __init__(
        self,
        store: Store,
        pushed: Sequence[str],
        pulled: Sequence[str],
        clock: Clock,
    ) -> None:
        self._store = store
        self._pushed = list(pushed)
        self._pulled = list(pulled)
        self._clock = clock
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
            with self._store.write() as tx:
                booked = self._book(tx, piece, epoch)
            if booked is None:
                break  # another policy came into force: its plan is the next turn's
            for rule, count in Counter(r.rule for r in booked.refused).items():
                self._log.warning("planned-pairs-refused", count=count, rule=rule)
            done += len(booked.tasks)
        return done

    def _pieces(self) -> Iterator[list[PlannedRow]]:
        """Rows of the plans that have something left, about ``PIECE`` pairs a time.

        A row's own share of a piece is ``PIECE`` pairs at most; its rest waits for the
        next turn.
        """
        with self._store.read() as tx:
            force = current_policy(tx)
            if force is None or gate_rows.stopped_scopes(tx) & {"all"}:
                return
            planned = rows.planned(tx, self._pushed, force.version)
            accounts = sorted({row.account_id for row in planned})
            used = rows.loads(tx, accounts, self._clock())
        planned = [row for row in planned if _room(force, row, used) != 0]
        piece: list[PlannedRow] = []
        size = turn = 0
        for row in planned:
            piece.append(row)
            size += min(len(row.entries) // 8, PIECE)
            if size >= PIECE:
                yield piece
                piece, size, turn = [], 0, turn + 1
                if turn == TURN:
                    return
        if piece:
            yield piece

    def _book(self, tx: Tx, piece: Sequence[PlannedRow], epoch: int) -> Booked | None:
        """Book a piece of the plan and take it out of the plan.

        None if it was planned under a policy that is not in force any more.
        """
        lease.check_epoch(tx, lease.SHARD, epoch)
        force = barrier.hold(tx)
        if any(row.version != force.version for row in piece):
            return None
        now = self._clock()
        used = rows.loads(tx, sorted({row.account_id for row in piece}), now)
        asks: list[Asks] = []
        left: list[Ids] = []
        for row in piece:
            packed = rows.lock_planned(tx, row.plan_id, row.account_id)
            entries = np.frombuffer(packed, "<i8")
            room = _room(force, row, used)
            count = min(len(entries), PIECE, len(entries) if room is None else room)
            asks.append(Asks(row.account_id, entries[:count].tolist()))
            left.append(entries[count:])
            _use(used, row.account_id, count)
        booked = book(
            tx,
            asks,
            delivery=Push(tasks_per_message=MESSAGE),
            at=now,
            cause="planned",
            epoch=epoch,
            skip_refused=True,
        )
        rows.keep_planned(tx, _kept(piece, left, booked))
        return booked

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


def _room(force: InForce, row: PlannedRow, used: dict[int, LoadRow]) -> int | None:
    load = used.get(row.account_id, LoadRow(0, 0, 0, 0))
    return force.policy.capacity(row.account).room(*load)


def _use(used: dict[int, LoadRow], account_id: int, count: int) -> None:
    load = used.get(account_id, LoadRow(0, 0, 0, 0))
    used[account_id] = LoadRow(*(number + count for number in load))


def _kept(
    piece: Sequence[PlannedRow], left: Sequence[Ids], booked: Booked
) -> Iterator[tuple[int, int, bytes]]:
    """What stays in the plan: what there was no room for, and what is only paused."""
    passing: dict[int, list[int]] = {}
    for refusal in booked.refused:
        if refusal.rule in PASSING:
            passing.setdefault(refusal.account_id, []).append(refusal.entry_id)
    for row, entries in zip(piece, left, strict=True):
        again = np.array(passing.get(row.account_id, []), dtype=np.int64)
        again = again[np.isin(again, np.frombuffer(row.entries, "<i8"))]
        kept = np.sort(np.concatenate([entries, again])).astype("<i8")
        yield row.plan_id, row.account_id, kept.tobytes()
