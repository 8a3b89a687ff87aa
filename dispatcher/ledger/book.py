"""Booking: the only way to make an exposure.

A booking judges each ask anew against the whole history, under lock, and writes
exposure lines, summaries, tasks and outgoing messages in the caller's transaction: all
or none of them. Only what was booked may leave afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from dispatcher.core import keys
from dispatcher.core.errors import StoreLocked
from dispatcher.ledger import averages, chains, refusals, relations
from dispatcher.ledger.active_policy import (
    ActivePolicy,
    known_policy,
    lock_policy,
    locked_policy,
)
from dispatcher.ledger.bulk import BookingBatch, Verdicts, runs
from dispatcher.ledger.count_updates import counts_added, counts_of
from dispatcher.ledger.decision import AskFacts, decide, judge, missing, read_facts
from dispatcher.ledger.refusals import Refusal
from dispatcher.store import decisions, exposure_counts, lease, outbox
from dispatcher.store import ledger as rows
from dispatcher.store import relations as visits
from dispatcher.store import tasks as task_rows
from dispatcher.store.column_blocks import Block
from dispatcher.store.decisions import AskRow, Known
from dispatcher.store.ledger import ChainRow, GateAccount
from dispatcher.store.transaction import Tx


@dataclass(frozen=True)
class Asks:
    """Entries to be shown to one account, in order.

    Attributes
    ----------
    account_id : int
    entry_ids : Sequence of int
        A list, an array, a packed assignment read with numpy.
    """

    account_id: int
    entry_ids: Sequence[int]


@dataclass(frozen=True)
class Push:
    """The entries leave in messages: tasks are ``booked``, messages ``ready``.

    Attributes
    ----------
    tasks_per_message : int, optional
        At most so many tasks go in one message; None: all of an ``Asks`` together.
    most : Mapping
        Connector -> tasks that it takes in one message; those not named take any number.
    due : int, optional
        When the messages may leave; None: at once.
    """

    tasks_per_message: int | None = None
    most: Mapping[str, int] = field(default_factory=dict)
    due: int | None = None


@dataclass(frozen=True)
class Pull:
    """The entry is shown by us, now: the task is ``shown`` until its lease ends."""

    leased_until: int


@dataclass(frozen=True)
class Booked:
    """What was booked.

    Attributes
    ----------
    tasks : range
        Ids of the new tasks: one for each ask that was allowed, in order.
    messages : list of int
        Ids of the new outbox messages.
    new : int
        Showings: exposures of entries that their adversary did not hold.
    refused : list of Refusal
        What was refused and skipped, in order.
    """

    tasks: range
    messages: list[int] = field(default_factory=list)
    new: int = 0
    refused: list[Refusal] = field(default_factory=list)


def book(
    tx: Tx,
    asks: Sequence[Asks],
    *,
    delivery: Push | Pull,
    at: int,
    cause: str,
    fence: lease.Fence | None = None,
    skip_refused: bool = False,
) -> Booked:
    """Book exposures, or refuse them.

    Parameters
    ----------
    tx : Tx
        A write transaction. Nothing may leave before it has committed.
    asks : Sequence of Asks
        An account may come several times. Granted in order.
    delivery : Push or Pull
        What is written with the exposures, so that they can be delivered.
    at : int
        Now, microseconds UTC.
    cause : str
        A word for the ledger: why these entries are shown (at most 20 characters).
    fence : Fence, optional
        Lease of the process that asks; refused if it is over.
    skip_refused : bool
        False: one refusal refuses all. True: book the others and report the refusals.

    Returns
    -------
    Booked

    Raises
    ------
    Refused
        A limit would be reached, the account is blocked, or work is paused; ``facts``
        has property, adversary, value and limit. Nothing was written by this call.
    NotFound
        An entry or account is not in the store. Nothing was written.
    Conflict
        No policy is in force.
    StaleLease
        The lease is over: another daemon leads, or the leader has fenced a server off.
    """
    asks = [ask for ask in asks if len(ask.entry_ids)]
    if sum(len(ask.entry_ids) for ask in asks) == 1:
        one = asks[0]
        locked = lock_ask(tx, int(one.entry_ids[0]), one.account_id, fence)
        heads = {locked.head.id: locked.head}
        booking = _Booking(tx, locked.force, heads, delivery, at, cause)
        return booking.single(locked, skip_refused=skip_refused)
    lease.check(tx, fence)
    force = lock_policy(tx)
    if not asks:
        return Booked(tasks=range(0))
    accounts, heads = lock_adversaries(tx, [ask.account_id for ask in asks])
    booking = _Booking(tx, force, heads, delivery, at, cause)
    every = [(accounts[ask.account_id], ask.entry_ids) for ask in asks]
    if force.averages:
        return booking.one_by_one(every, skip_refused=skip_refused)
    return booking.bulk(every, skip_refused=skip_refused)


@dataclass
class _Booking:
    """One booking in progress, with everything locked."""

    tx: Tx
    force: ActivePolicy
    heads: dict[int, ChainRow]
    delivery: Push | Pull
    at: int
    cause: str

    def single(self, locked: _Locked, *, skip_refused: bool) -> Booked:
        """Book one ask."""
        if self.force.averages:
            averages.refresh(self.tx, self.force)
        facts = read_facts(self.tx, self.force, locked.ask, locked.known)
        refusal = judge(self.force, facts)
        if refusal is not None:
            if skip_refused:
                return Booked(tasks=range(0), refused=[refusal])
            raise refusal.error()
        with self.tx.journey():
            new = self._grant(facts)
            tasks, messages = self._deliver([(facts.account, [facts.entry.id])])
        return Booked(tasks, messages, new)

    def one_by_one(
        self, asks: Sequence[tuple[GateAccount, Sequence[int]]], *, skip_refused: bool
    ) -> Booked:
        """Book asks one after another: where a mean is capped, each changes the next."""
        asked = np.concatenate([np.asarray(ids, np.int64) for _, ids in asks])
        rows.lock_entries(self.tx, np.unique(asked).tolist())
        averages.refresh(self.tx, self.force)
        with self.tx.savepoint():
            booked, new, refused = self._grant_all(asks, skip_refused=skip_refused)
        tasks, messages = self._deliver(booked)
        return Booked(tasks, messages, new, refused)

    def _grant_all(
        self, asks: Sequence[tuple[GateAccount, Sequence[int]]], *, skip_refused: bool
    ) -> tuple[list[tuple[GateAccount, list[int]]], int, list[Refusal]]:
        """Judge and write asks one by one; return bookings, showings, refusals."""
        refused: list[Refusal] = []
        booked: list[tuple[GateAccount, list[int]]] = []
        new = 0
        for account, entry_ids in asks:
            mine: list[int] = []
            for entry_id in map(int, entry_ids):
                facts, refusal = decide(self.tx, self.force, entry_id, account.id)
                if refusal is None:
                    new += self._grant(facts)
                    mine.append(entry_id)
                elif skip_refused:
                    refused.append(refusal)
                else:
                    raise refusal.error()
            booked.append((account, mine))
        return booked, new, refused

    def bulk(
        self, asks: Sequence[tuple[GateAccount, Sequence[int]]], *, skip_refused: bool
    ) -> Booked:
        """Book many asks at once."""
        batch = BookingBatch(self.tx, self.force, asks)
        verdicts = batch.decide()
        if verdicts.refused and not skip_refused:
            raise verdicts.refused[0].error()
        self._expose_all(batch, verdicts)
        begun, more = counts_added(batch, np.flatnonzero(verdicts.new))
        exposure_counts.begin_counts(self.tx, begun)
        exposure_counts.add_counts(self.tx, more)
        visits.add_visits(self.tx, batch.visits())
        ends = np.cumsum([len(ids) for _, ids in asks])
        booked = [
            (account, np.asarray(ids, np.int64)[allowed].tolist())
            for (account, ids), allowed in zip(
                asks, np.split(verdicts.allowed, ends[:-1]), strict=True
            )
        ]
        tasks, messages = self._deliver(booked)
        return Booked(tasks, messages, int(verdicts.new.sum()), verdicts.refused)

    def _grant(self, facts: AskFacts) -> int:
        """Write one exposure with its summaries; return 1 if it is a showing."""
        entry, account, new = facts.entry, facts.account, int(not facts.held)
        adversary = account.adversary_id
        name = keys.entry_name(entry.record, entry.field_id)
        showing = chains.Showings(account.id, account.text, [entry.id], [name], [new])
        self._append([(self.heads[adversary], [showing])])
        if new:
            exposure_counts.add_counts(self.tx, counts_of(self.force, adversary, entry))
            field = self.force.fields[entry.field_id]
            visits.add_visits(self.tx, relations.visit_of(field, entry, adversary))
            if facts.averages is not None:
                averages.keep(self.tx, adversary, facts.averages)
        return new

    def _append(
        self, grown: Iterable[tuple[ChainRow, Iterable[chains.Showings]]]
    ) -> None:
        heads = chains.expose(
            self.tx,
            grown,
            at=self.at,
            policy=self.force.version,
            cause=self.cause,
        )
        self.heads |= {head.id: head for head in heads}

    def _expose_all(self, batch: BookingBatch, verdicts: Verdicts) -> None:
        """Write the exposure lines of a batch, chain by chain."""
        names = batch.names()
        allowed = np.flatnonzero(verdicts.allowed)
        order = allowed[np.argsort(batch.ask_adversary[allowed], kind="stable")]
        grown = []
        for adversary, mine in runs(order, batch.ask_adversary):
            parts = []
            for place, part in runs(mine, batch.ask_account):
                account, entries = batch.accounts[place], batch.ask_entry[part]
                parts.append(
                    chains.Showings(
                        account.id,
                        account.text,
                        batch.ids[entries],
                        [names[i] for i in entries.tolist()],
                        verdicts.new[part].astype(np.int64),
                    )
                )
            grown.append((self.heads[int(batch.adversaries[adversary])], parts))
        self._append(grown)

    def _deliver(
        self, booked: Sequence[tuple[GateAccount, list[int]]]
    ) -> tuple[range, list[int]]:
        """Write the tasks and, for a push, their messages."""
        total = sum(len(ids) for _, ids in booked)
        if not total:
            return range(0), []
        first = self.tx.reserve("task", total)
        tasks = range(first, first + total)
        if isinstance(self.delivery, Pull):
            until = repeat(self.delivery.leased_until)
            task_rows.add_pulled(self.tx, self._tasks(first, booked, "shown", until))
            return tasks, []
        parts = list(_messages(booked, self.delivery))
        start = self.tx.reserve("outbox", len(parts))
        due = self.at if self.delivery.due is None else self.delivery.due
        outbox.add(
            self.tx,
            [
                (start + i, account.connector, account.id, "publish", due, self.at)
                for i, (account, _) in enumerate(parts)
            ],
        )
        carried = range(start, start + len(parts))
        task_rows.add_pushed(self.tx, self._tasks(first, parts, "booked", carried))
        return tasks, list(carried)

    def _tasks(
        self,
        first: int,
        parts: Iterable[tuple[GateAccount, list[int]]],
        state: str,
        last: Iterable[int],
    ) -> Iterator[Block]:
        """New tasks, part by part; ``last`` has the last column of each."""
        for (account, ids), own in zip(parts, last, strict=False):
            if ids:
                columns = (
                    range(first, first + len(ids)),
                    ids,
                    account.id,
                    account.adversary_id,
                    account.connector,
                    state,
                    self.at,
                    own,
                )
                yield Block(len(ids), columns)
                first += len(ids)


def _messages(
    booked: Sequence[tuple[GateAccount, list[int]]], delivery: Push
) -> Iterator[tuple[GateAccount, list[int]]]:
    for account, ids in booked:
        size = delivery.tasks_per_message or len(ids) or 1
        step = min(size, delivery.most.get(account.connector, size))
        for i in range(0, len(ids), step):
            yield account, ids[i : i + step]


ATTEMPTS: Final = 5
"""Most retries when accounts change their adversary while it is being locked."""


class _Locked(NamedTuple):
    """One ask with all inputs of its decision, locked."""

    force: ActivePolicy
    head: ChainRow
    ask: AskRow
    known: Known


def lock_ask(
    tx: Tx, entry_id: int, account_id: int, fence: lease.Fence | None
) -> _Locked:
    """Lock and read the inputs of one decision, in two round trips to the server.

    The first reads what is to be locked; the second locks it, in order, and reads it
    again. Both are repeated if it changed meanwhile.

    Raises
    ------
    NotFound, Conflict, StaleLease, StoreLocked
        As of :func:`book`.
    """
    for _ in range(ATTEMPTS):
        before = decisions.look(tx, entry_id, account_id)
        if before is None:
            lock_policy(tx)  # a missing policy is reported first
            raise missing(tx, entry_id, account_id)
        seen = known_policy(tx, before.version, before.sha256)
        adversary, record, subject = before[2:]
        leases = [] if fence is None else [(lease.EPOCH, {"of_shard": fence.shard})]
        *epochs, locks, asks, known = tx.driver_answers(
            [
                *leases,
                decisions.lock_question(entry_id, adversary, alone=seen.averages),
                decisions.ask_question(entry_id, account_id),
                decisions.known_question(entry_id, adversary, record, subject),
            ]
        )
        if fence is not None:
            lease.compare_epoch(epochs[0], *fence)
        if not locks or not asks:
            continue  # it was deleted meanwhile
        version, sha256, *head = locks[0]
        force = locked_policy(tx, seen, version, sha256)
        ask = decisions.ask(asks[0])
        entry = ask.entry
        now = (ask.account.adversary_id, entry.record_id, entry.subject_id)
        if now == before[2:]:
            return _Locked(force, ChainRow._make(head), ask, decisions.known(known))
    raise _restless()


def lock_adversaries(
    tx: Tx, account_ids: Sequence[int]
) -> tuple[dict[int, GateAccount], dict[int, ChainRow]]:
    """Lock the adversaries of some accounts; what is read afterwards stays valid.

    Raises
    ------
    NotFound, StoreLocked
    """
    wanted = sorted(set(account_ids))
    for _ in range(ATTEMPTS):
        before = _accounts(tx, wanted)
        heads = chains.lock(tx, {row.adversary_id for row in before.values()})
        accounts = _accounts(tx, wanted)
        if all(row.adversary_id in heads for row in accounts.values()):
            return accounts, heads
    raise _restless()


def _accounts(tx: Tx, ids: list[int]) -> dict[int, GateAccount]:
    found = rows.accounts(tx, ids)
    for number in ids:
        if number not in found:
            raise refusals.unknown("account", number)
    return found


def _restless() -> StoreLocked:
    return StoreLocked(
        "the accounts keep changing hands",
        why="Accounts are being joined at this moment.",
        fix="Try again; nothing was booked.",
    )
