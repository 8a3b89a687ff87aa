"""Task assignment: who may work here, and which field they are shown."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatcher import money
from dispatcher.core import meters
from dispatcher.core.errors import DispatcherError, Refused, StaleLease
from dispatcher.ledger import refusals
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.decision import decide
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.stages.serving.made_up import MadeUp, due
from dispatcher.stages.serving.values import (
    SECOND,
    Present,
    ServingTerms,
    Showing,
    full,
    lapsed,
    out,
    showing_of,
)
from dispatcher.store import (
    Clock,
    Store,
    Tx,
    collecting,
    gold_questions,
    lease,
    planning,
)
from dispatcher.store import money as purse
from dispatcher.store import serving as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed
from dispatcher.store.lease import Fence
from dispatcher.store.serving import CandidateEntry, ServedAccount, Standing
from dispatcher.store.tasks import TaskRow

DECISIONS: Final = 48
"""Most candidates judged by the gate for one Start."""

TRIES: Final = 4
"""Most retries of a Start after another worker was quicker."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """An entry that could be shown now; ``untested``: its test comes first."""

    entry_id: int
    field_id: int
    run_id: int
    untested: bool


class _AlreadyTaken(Exception):
    """Another worker was quicker; nothing was booked."""


class TaskAssignment:
    """Chooses what is shown to a worker.

    Parameters
    ----------
    store : Store
    clock : Clock
    rng : Generator
        Shuffles what is shown.
    terms : ServingTerms
    fence : callable, optional
        Lease of the process that serves; raises StaleLease when it shows nothing new
        any more. None: no daemon leads (tests, tools).
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        rng: np.random.Generator,
        terms: ServingTerms,
        fence: Callable[[], Fence] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        self._lease = fence
        self._plans = Plans(store)
        self._refused: deque[tuple[int, int, Ids]] = deque(maxlen=CHUNK)
        self._rng = rng
        self._rng_lock = threading.Lock()
        self._task_key = store.key("task-key")
        self._made_up = MadeUp(store, clock, terms, self._fence)

    # -- who ---------------------------------------------------------------------

    def account(self, who: Present) -> tuple[str, str]:
        """Connector and name of a worker's account."""
        with self._store.read() as tx:
            account = rows.account(tx, who.account_id)
        return ("", "") if account is None else (account.connector, account.name)

    def note_call(self, connector: str, call: str) -> None:
        """Record a market's checked call; a repetition changes nothing."""
        with self._store.write() as tx:
            collecting.note_call(tx, connector, call, self._clock())

    def has_task(self, who: Present) -> bool:
        """Whether the worker has a task in hand."""
        now = self._clock()
        with self._store.read() as tx:
            made_up = gold_questions.in_hand(tx, who.account_id, now)
            return made_up is not None or (
                task_rows.leased_task(tx, who.account_id, now) is not None
            )

    def in_hand(self, who: Present) -> Showing | None:
        """Return the task in the worker's hands; nothing is booked."""
        now = self._clock()
        with self._store.read() as tx:
            task = task_rows.leased_task(tx, who.account_id, now)
            made_up = gold_questions.in_hand(tx, who.account_id, now)
            ends = [
                0 if one is None else one.leased_until or 0 for one in (task, made_up)
            ]
            if task is None or ends[1] > ends[0]:  # it was taken back last
                return self._made_up.in_hand(tx, who, now)
            return self.showing(tx, task, now)

    def waiting(self, who: Present) -> int:
        """About how many tasks wait for the worker: 0 only where Start shows none."""
        if self.has_task(who):
            return 1
        now = self._clock()
        with self._store.read() as tx:
            question = self._question(tx, who)
            if question is not None and any(
                decide(tx, question.force, entry_id, who.account_id).refusal is None
                for entry_id in self._candidates(tx, question)
            ):
                return max(1, len(question.own))
            last = task_rows.last_task(tx, who.account_id)
            again = (
                last is not None and lapsed(last, now) and self._misses(tx, last) > 0
            )
            return int(again or self._made_up.lapsed(tx, who, now))

    # -- what --------------------------------------------------------------------

    def start(self, who: Present, kind: int | None = None) -> Showing | None:
        """Show the worker a field: the one in hand, or a new one, booked first.

        Parameters
        ----------
        who : Present
        kind : int, optional
            The field of the policy that the worker chose: a new one is of this kind. One
            that is not there is as one of which nothing is left.

        Returns
        -------
        Showing or None
            None for every reason alike: nothing to do, refused, paused, at capacity.
        """
        showing = self.in_hand(who)
        if showing is not None:
            return showing
        try:
            return (
                self._made_up.reopen(who) or self._reopen(who) or self._new(who, kind)
            )
        except StaleLease:
            return None

    def _new(self, who: Present, kind: int | None) -> Showing | None:
        """Book a field that the worker has not seen, and show it; or a made-up one."""
        for _ in range(TRIES):
            chosen = self._choice(who, kind)
            if chosen is None:
                return None
            try:
                made_up = self._instead(who, chosen)
                if made_up is not None or chosen.untested:
                    return made_up or self.in_hand(who)
                return self._book(who, chosen.entry_id)
            except Refused as refused:
                meters.GATE_DECISIONS.labels(
                    "deny", str(refused.facts["property"])
                ).inc()
            except _AlreadyTaken:
                showing = self.in_hand(who)
                if showing is not None:
                    return showing
        return None

    def _instead(self, who: Present, chosen: Chosen) -> Showing | None:
        """Give a made-up question in place of a field that could be shown now."""
        if chosen.untested:
            return self._made_up.test(who, chosen.field_id)
        rng = self._shuffler()
        if rng.random() >= self._terms.gold:
            return None
        return self._made_up.gold(who, chosen.field_id, chosen.run_id, rng)

    def _fence(self) -> Fence | None:
        """Return the lease under which something is shown now; None where nobody leads.

        Raises
        ------
        StaleLease
            Nothing is to be shown any more.
        """
        return None if self._lease is None else self._lease()

    def _choice(self, who: Present, kind: int | None) -> Chosen | None:
        """Pick the best entry that the gate allows now."""
        allowed: Chosen | None = None
        refused: list[int] = []
        with self._store.read() as tx:
            question = self._question(tx, who, kind)
            if question is None:
                return None
            for entry_id in self._candidates(tx, question):
                decision = decide(tx, question.force, entry_id, who.account_id)
                refusal, entry = decision.refusal, decision.facts.entry
                if refusal is None:
                    field_id = entry.field_id
                    untested = field_id in question.untested
                    allowed = Chosen(entry_id, field_id, entry.run_id, untested)
                    break
                meters.GATE_DECISIONS.labels("deny", refusal.rule).inc()
                if refusal.cause not in refusals.PASSING:
                    refused.append(entry_id)
        never = np.intersect1d(np.array(refused, np.int64), question.own)
        if len(never):
            self._refused.append((question.plan.plan_id, who.account_id, never))
        return allowed

    def take_out_refused(self) -> None:
        """Take out of the plan what the gate refused lately.

        To be called when the answer is on its way: the wait for this commit would tell
        the worker that something was refused. What stays in the plan is refused again.
        """
        while self._refused:
            try:
                plan_id, account_id, never = self._refused.popleft()
                self._plans.take_out(plan_id, account_id, never, self._fence())
            except (IndexError, DispatcherError):  # another thread was quicker; busy
                return

    def _candidates(self, tx: Tx, question: EntrySearch) -> Iterator[int]:
        """Entries that the gate is asked about, best first."""
        return islice(candidates(tx, question, self._shuffler()), DECISIONS)

    def _question(
        self, tx: Tx, who: Present, kind: int | None = None
    ) -> EntrySearch | None:
        now = self._clock()
        account = rows.account(tx, who.account_id)
        scopes = rows.paused(tx)
        if account is None or account.state != "active" or out(account, who.number):
            return None
        if not scopes.isdisjoint(("all", f"connector:{account.connector}")):
            return None
        force = current_policy(tx)
        shut = money.shut_runs(tx, account.id, now)
        if shut is None:
            return None
        plan = None if force is None else self._plans.in_force(tx, force.version)
        if force is None or plan is None or full(tx, account, force, now):
            return None
        packed = rows.planned_entries(tx, plan.plan_id, account.id)
        planned = np.frombuffer(packed, "<i8").astype(np.int64)
        given = np.array(task_rows.entries_given(tx, account.id), np.int64)
        among = None if kind is None else self._plans.kinds(tx, plan).get(kind, NONE)
        if among is not None:
            planned = planned[np.isin(planned, among)]
        last = task_rows.last_task(tx, account.id)
        apart = round(self._terms.apart * SECOND)
        last_record = None
        if last is not None and last.created_at + apart > now:
            shown = rows.shown_entry(tx, last.entry_id)
            last_record = None if shown is None else shown.record_id
        untested, barred = self._tests(tx, account.id, now)
        return EntrySearch(
            account=account,
            force=force,
            plan=plan,
            own=planned[~np.isin(planned, given)],
            idle_runs=rows.idle_runs(tx, scopes) | shut,
            last_record=last_record,
            untested=untested,
            barred=barred,
            taking=plan.applied_at + round(self._terms.patience * SECOND) <= now,
            kind=kind,
            among=among,
        )

    def _tests(
        self, tx: Tx, account_id: int, now: int
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Fields whose test comes first now, and fields whose test was not passed."""
        tests = [
            one for one in gold_questions.tests(tx, account_id) if one.state != "passed"
        ]
        untested = frozenset(one.field_id for one in tests if due(one, now))
        return untested, frozenset(one.field_id for one in tests) - untested

    def _book(self, who: Present, entry_id: int) -> Showing:
        """Book one showing; the commit lies behind us when this returns.

        Raises
        ------
        Refused, StaleLease, _AlreadyTaken
            Nothing was booked.
        """
        moves: list[meters.Move] = []
        with meters.GATE_DURATION.time():
            booking = partial(self._book_in, who, entry_id, moves)
            showing = committed(self._store, booking)
        meters.GATE_DECISIONS.labels(*meters.ALLOWED).inc()
        meters.count_moves(moves)
        return showing

    def _book_in(
        self, who: Present, entry_id: int, moves: list[meters.Move], tx: Tx
    ) -> Showing:
        now = self._clock()
        booked = book(
            tx,
            [Asks(who.account_id, [entry_id])],
            delivery=Pull(leased_until=now + self._terms.lease_micros),
            at=now,
            cause="served",
            fence=self._fence(),
        )
        task = task_rows.task_of(tx, booked.tasks[0])
        account, force = rows.account(tx, who.account_id), current_policy(tx)
        assert task is not None
        assert account is not None
        assert force is not None  # the gate has judged by it
        # The booking holds the locks of the adversary and of the entry, so what is
        # read now stands: nobody was quicker, in another tab or at another assignment.
        if (
            out(account, who.number)
            or task_rows.has_other_task(tx, task, now)
            or gold_questions.in_hand(tx, task.account_id, now) is not None
            or self._misses(tx, task) <= 0
            or full(tx, account, force, now, booked=1)
        ):
            raise _AlreadyTaken
        showing = self.showing(tx, task, now)
        if showing is None or not self._afford(tx, task, now):
            raise _AlreadyTaken
        moves[:] = [(meters.NEW, "shown", task.connector)]
        return showing

    def _afford(self, tx: Tx, task: TaskRow, now: int) -> bool:
        """Take what a new task earns out of the budget; False if it is used up."""
        run_id = purse.run_of_entry(tx, task.entry_id)
        row = purse.CarryingTask(task.id, run_id, task.account_id, task.connector, 0)
        return money.hand_out(tx, row, now)

    def _misses(self, tx: Tx, task: TaskRow) -> int:
        """How many answers the entry of a task misses, this task left out."""
        force, entry = current_policy(tx), rows.shown_entry(tx, task.entry_id)
        if force is None or entry is None:
            return 0
        standing = rows.standings(tx, [task.entry_id], LIVE_TASK_STATES)[task.entry_id]
        own = int(task.state in LIVE_TASK_STATES)
        others = standing._replace(live=standing.live - own)
        return missing(force, entry.field_id, others)

    def _reopen(self, who: Present) -> Showing | None:
        """Give back the task whose time ran out last, if its answer is still missed.

        The worker already holds it, so nothing new is disclosed and nothing is booked.
        """
        now = self._clock()
        with self._store.read() as tx:
            if not lapsed(task_rows.last_task(tx, who.account_id), now):
                return None
        fence = self._fence()
        with self._store.write() as tx:
            lease.check(tx, fence)
            account = rows.account(tx, who.account_id)
            last = task_rows.last_task(tx, who.account_id)
            in_hand = gold_questions.in_hand(tx, who.account_id, now)
            if out(account, who.number) or last is None or in_hand is not None:
                return None
            task = task_rows.lock_task(tx, last.id)
            if not lapsed(task, now) or self._misses(tx, last) <= 0:
                return None
            force = current_policy(tx)
            assert force is not None  # something was missed of it
            if decide(tx, force, last.entry_id, who.account_id).refusal is not None:
                return None
            if not money.hand_out_again(tx, last.id, who.account_id, now):
                return None
            showing = self.showing(tx, self.lease(tx, last, now), now)
        meters.count_moves([(last.state, "shown", last.connector)])
        return showing

    def lease(self, tx: Tx, task: TaskRow, now: int) -> TaskRow:
        """Put a task into its worker's hands for a full lease."""
        until = now + self._terms.lease_micros
        task_rows.lease(tx, task.id, until)
        return task._replace(state="shown", leased_until=until)

    def showing(self, tx: Tx, task: TaskRow, now: int) -> Showing | None:
        """Return a task as it is shown; None if the policy sends its field no more.

        The exposure of a task that is found here may still be on its way to the shipped
        ledger: nothing is shown before it is there.
        """
        self._store.settle(tx, task.adversary_id)
        entry = rows.shown_entry(tx, task.entry_id)
        return showing_of(current_policy(tx), task, entry, key=self._task_key, now=now)

    def _shuffler(self) -> np.random.Generator:
        with self._rng_lock:  # a Generator is for one thread at a time
            return np.random.default_rng(self._rng.integers(2**63))


Ids = NDArray[np.int64]
NONE: Final[Ids] = np.empty(0, np.int64)


class PlanIndex:
    """Index of the planned pairs, as of the first reading of the plan.

    A plan only ever loses pairs: those that were booked, which have tasks, and those
    that the gate refused, reported by :meth:`drop`. So one index serves until the next
    plan: 16 bytes a pair, sorted once.

    Parameters
    ----------
    plan_id, applied_at : int
    packed : sequence of (account id, little-endian 64-bit entry ids)
    """

    def __init__(
        self, plan_id: int, applied_at: int, packed: Sequence[tuple[int, bytes]]
    ) -> None:
        self.plan_id = plan_id
        self.applied_at = applied_at
        parts = [np.frombuffer(raw, "<i8") for _, raw in packed]
        entries = np.concatenate([*parts, np.empty(0, np.int64)])
        owners = np.array([account_id for account_id, _ in packed], np.int64)
        accounts = np.repeat(owners, [len(part) for part in parts])
        order = np.argsort(entries, kind="stable")
        self._entries: Ids = entries[order].astype(np.int64)
        self._accounts: Ids = accounts[order]
        self._left = np.ones(len(self._entries), np.bool_)
        self.kinds: Mapping[int, Ids] | None = None  # once somebody chose

    @property
    def entries(self) -> Ids:
        """All planned entries, ascending, each once."""
        return np.unique(self._entries)

    def accounts_of(self, entry_id: int) -> frozenset[int]:
        """Accounts that an entry is planned for, booked or not."""
        first, last = np.searchsorted(self._entries, [entry_id, entry_id + 1])
        planned = self._accounts[first:last][self._left[first:last]]
        return frozenset(planned.tolist())

    def drop(self, account_id: int, entry_ids: Ids) -> None:
        """Forget pairs that left the plan."""
        begins = np.searchsorted(self._entries, entry_ids)
        ends = np.searchsorted(self._entries, entry_ids, "right")
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            others = self._accounts[first:last] != account_id
            self._left[first:last] &= others

    def sample(
        self, rng: np.random.Generator, count: int, among: Ids | None = None
    ) -> list[int]:
        """At most so many of the planned entries, by chance, without repeats.

        ``among``: those of one kind, of :attr:`kinds`.
        """
        entries = self._entries if among is None else among
        if not len(entries):
            return []
        picked = rng.integers(0, len(entries), size=count)
        return list(dict.fromkeys(entries[picked].tolist()))


class Plans:
    """Caches the index of the plan in force; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._index: PlanIndex | None = None
        self._looking_up = threading.Lock()
        self._fields: Ids = np.empty((0, 2), np.int64)  # (entry, field)

    def in_force(self, tx: Tx, version: int) -> PlanIndex | None:
        """Return the index of the applied plan, or None while there is none."""
        plan = rows.plan_in_force(tx, version)
        if plan is None:
            return None
        with self._lock:
            index = self._index
            if index is None or index.plan_id != plan.id:
                packed = rows.planned_rows(tx, plan.id)
                index = PlanIndex(plan.id, plan.applied_at, packed)
                self._index = index
        return index

    def kinds(self, tx: Tx, index: PlanIndex) -> Mapping[int, Ids]:
        """Return the planned entries of each field; looked up once an entry."""
        with self._looking_up:  # of its own: whoever chose nothing does not wait
            if index.kinds is None:
                planned, known = index.entries, self._fields
                known = known[np.isin(known[:, 0], planned)]
                new = np.setdiff1d(planned, known[:, 0])
                known = np.concatenate([known, rows.fields_of(tx, new.tolist())])
                self._fields = known[np.argsort(known[:, 1], kind="stable")]
                fields, begins = np.unique(self._fields[:, 1], return_index=True)
                parts = np.split(self._fields[:, 0], begins[1:])
                index.kinds = dict(zip(fields.tolist(), parts, strict=False))
            return index.kinds

    def take_out(
        self, plan_id: int, account_id: int, gone: Ids, fence: Fence | None = None
    ) -> None:
        """Take pairs out of a plan, so that planning may find others for them.

        Raises
        ------
        StaleLease
            The lease that is given is over.
        """
        with self._store.write() as tx:
            lease.check(tx, fence)
            planned = np.frombuffer(
                planning.lock_planned(tx, plan_id, account_id), "<i8"
            )
            left = np.setdiff1d(planned, gone).astype("<i8")
            if len(left) < len(planned):
                planning.keep_planned(tx, plan_id, account_id, left.tobytes())
        with self._lock:
            if self._index is not None and self._index.plan_id == plan_id:
                self._index.drop(account_id, gone)


FIRST: Final = 8
"""Candidates looked up at first: nearly always one of an account's own is free."""

CHUNK: Final = 128
"""Candidates looked up at once, after these."""

CHUNKS: Final = 16
"""Chunks of the account's own planned entries looked at, at most."""

LATELY: Final = 2048
"""Latest tasks of the store in which leftovers are looked for."""

SAMPLE: Final = 256
"""Planned entries looked at for leftovers, at most."""


@dataclass(frozen=True)
class EntrySearch:
    """For whom, and under which conditions, an entry is searched.

    Attributes
    ----------
    account : ServedAccount
    force : ActivePolicy
        The policy in force.
    plan : PlanIndex
    own : int64 array
        Entries planned for the account and not given to it yet.
    idle_runs : frozenset of int
        Runs from which nothing is shown now.
    untested : frozenset of int
        Fields before whose first entry a test comes.
    barred : frozenset of int
        Fields that the account is not shown: it did not pass their test.
    last_record : int or None
        Record of the task before; nothing of it is shown next.
    taking : bool
        Whether what is planned for others may be taken.
    kind : int or None
        The field that the worker chose; None: any.
    among : int64 array or None
        Planned entries of that kind, anybody's.
    """

    account: ServedAccount
    force: ActivePolicy
    plan: PlanIndex
    own: Ids
    idle_runs: frozenset[int]
    untested: frozenset[int]
    barred: frozenset[int]
    last_record: int | None
    taking: bool
    kind: int | None = None
    among: Ids | None = None


def missing(force: ActivePolicy, field_id: int, standing: Standing) -> int:
    """Return how many answers an entry still lacks, counting open tasks as answers.

    0 or less: none. A field that asks nothing, or is not sent, misses none.
    """
    field = force.fields.get(field_id)
    if field is None or not field.sent or standing.settled:
        return 0
    asked = force.policy.entity.fields[field.name]
    if asked.ask is None:
        return 0
    return max(asked.answers, standing.wanted) - standing.valid - standing.live


def candidates(
    tx: Tx, question: EntrySearch, rng: np.random.Generator
) -> Iterator[int]:
    """Entries to try for the account, best first; whether they are safe is not asked.

    Parameters
    ----------
    tx : Tx
    question : EntrySearch
    rng : Generator
        Shuffles, so that the order reveals nothing about the records.

    Yields
    ------
    int
        Entry ids without repeats.
    """
    own = rng.permutation(question.own)[: CHUNK * CHUNKS]
    for chunk in _own_chunks(own.tolist()):
        for entry, standing in _open(tx, question, chunk):
            if missing(question.force, entry.field_id, standing) > 0:
                yield entry.id
    yield from _left_over(tx, question, rng, set(own.tolist()))


def _left_over(
    tx: Tx, question: EntrySearch, rng: np.random.Generator, known: set[int]
) -> Iterator[int]:
    lately = task_rows.entries_touched_lately(tx, LATELY)
    sample = question.plan.sample(rng, SAMPLE, question.among)
    pool = list(dict.fromkeys([*lately, *sample]))
    pool = [entry_id for entry_id in pool if entry_id not in known]
    pool = [pool[place] for place in rng.permutation(len(pool))]
    chose = question.kind is not None
    if chose:  # few of the latest are of that kind
        pool.sort(key=set(sample).__contains__, reverse=True)
    gone = rows.idle_accounts(tx)
    taken: list[tuple[float, int]] = []
    for chunk in _chunks(pool):
        free: list[tuple[float, int]] = []
        for entry, standing in _open(tx, question, chunk):
            misses = missing(question.force, entry.field_id, standing)
            planned = question.plan.accounts_of(entry.id) - standing.accounts - gone
            if misses > 0:
                group = free if misses > len(planned) else taken
                group.append((_worth(question.force, entry), entry.id))
        yield from _best_first(free)
        if chose:  # a choice would mean little if it ended at what others were to get
            yield from _best_first(taken)
            taken = []
    if question.taking:
        yield from _best_first(taken)


def _open(
    tx: Tx, question: EntrySearch, entry_ids: list[int]
) -> list[tuple[CandidateEntry, Standing]]:
    """Those of the entries that this account may be given at all, in order."""
    standings = rows.standings(tx, entry_ids, LIVE_TASK_STATES)
    found = {row.id: row for row in rows.entry_rows(tx, entry_ids)}
    kept = []
    for entry_id in entry_ids:
        entry = found.get(entry_id)
        standing = standings.get(entry_id, rows.NOTHING_YET)
        if (
            entry is not None
            and entry.run_id not in question.idle_runs
            and not entry.waiting
            and entry.field_id not in question.barred
            and question.kind in (None, entry.field_id)
            and entry.record_id != question.last_record
            # A second answer of the same adversary would add nothing.
            and question.account.adversary_id not in standing.adversaries
        ):
            kept.append((entry, standing))
    return kept


def _worth(force: ActivePolicy, entry: CandidateEntry) -> float:
    name = force.fields[entry.field_id].name
    return float(force.policy.entity.fields[name].utility)


def _best_first(group: list[tuple[float, int]]) -> Iterable[int]:
    return (entry_id for _, entry_id in sorted(group, key=lambda pair: -pair[0]))


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(ids), CHUNK):
        yield ids[first : first + CHUNK]


def _own_chunks(ids: list[int]) -> Iterator[list[int]]:
    if ids:
        yield ids[:FIRST]
    yield from _chunks(ids[FIRST:])
