"""The desk: who may work here, and which field they are shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from connectors.base import Arrival
from dispatcher import money
from dispatcher.core import meters
from dispatcher.core.errors import Refused, StaleLease
from dispatcher.ledger import refusals
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.decision import decide
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.stages.serving.allowance import IN, SECOND, full, lapsed, out
from dispatcher.stages.serving.made_up import MadeUp, due
from dispatcher.stages.serving.plans import Plans
from dispatcher.stages.serving.selection import Question, candidates, missing
from dispatcher.stages.serving.sight import showing_of
from dispatcher.stages.serving.values import Present, Showing, Terms
from dispatcher.store import Clock, Store, Tx, hooks, lease, probes
from dispatcher.store import money as purse
from dispatcher.store import serving as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.repeating import committed
from dispatcher.store.tasks import TaskRow

DECISIONS: Final = 48
"""Candidates that the gate is asked about for one Start, at most."""

TRIES: Final = 4
"""Times that a Start looks again after another worker was quicker."""


class Chosen(NamedTuple):
    """An entry that could be shown now; ``untested``: its test comes first."""

    entry_id: int
    field_id: int
    run_id: int
    untested: bool


class _Taken(Exception):
    """Another worker was quicker; nothing was booked."""


class Desk:
    """Arrivals, and the choice of what is shown.

    Parameters
    ----------
    store : Store
    clock : Clock
    rng : Generator
        Shuffles what is shown.
    terms : Terms
    epoch : callable, optional
        Fencing token of the daemon that serves; raises StaleLease when it shows
        nothing new any more. None: no daemon leads (tests, tools).
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        rng: np.random.Generator,
        terms: Terms,
        epoch: Callable[[], int] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        self._epoch = epoch
        self._plans = Plans(store)
        self._rng = rng
        self._rng_lock = threading.Lock()
        self._task_key = store.key("task-key")
        self._made_up = MadeUp(store, clock, terms, self._fence)

    # -- who ---------------------------------------------------------------------

    def arrive(
        self, connector: str, arrival: Arrival, *, invited: bool = True
    ) -> Present | None:
        """Let a resolved visitor in, if the account is active.

        Parameters
        ----------
        connector : str
        arrival : Arrival
        invited : bool
            Whether the ticket is of a personal link of ours, which must be the valid
            one; otherwise the market alone says who comes.
        """
        with self._store.read() as tx:
            account = rows.account_named(tx, connector, arrival.account)
        if account is None or account.state not in IN:
            return None
        if invited and arrival.ticket != str(account.invite):
            return None
        return Present(account.id, account.invite)

    def present(self, account_id: int, number: int) -> Present | None:
        """Ask whether a session still holds."""
        with self._store.read() as tx:
            account = rows.account(tx, account_id)
        return None if out(account, number) else Present(account_id, number)

    def account(self, who: Present) -> tuple[str, str]:
        """Connector and name of a worker's account."""
        with self._store.read() as tx:
            account = rows.account(tx, who.account_id)
        return ("", "") if account is None else (account.connector, account.name)

    def note_call(self, connector: str, call: str) -> None:
        """Remember a market's checked call; one that came before changes nothing."""
        with self._store.write() as tx:
            hooks.note(tx, connector, call, self._clock())

    def has_task(self, who: Present) -> bool:
        """Whether the worker has a task in hand."""
        now = self._clock()
        with self._store.read() as tx:
            made_up = probes.in_hand(tx, who.account_id, now)
            return made_up is not None or (
                task_rows.leased_task(tx, who.account_id, now) is not None
            )

    def in_hand(self, who: Present) -> Showing | None:
        """Return the task in the worker's hands; nothing is booked."""
        now = self._clock()
        with self._store.read() as tx:
            task = task_rows.leased_task(tx, who.account_id, now)
            if task is None:
                return self._made_up.in_hand(tx, who, now)
            return self.showing(tx, task, now)

    # -- what --------------------------------------------------------------------

    def start(self, who: Present) -> Showing | None:
        """Show the worker a field: the one in hand, or a new one, booked first.

        Returns
        -------
        Showing or None
            None for every reason alike: nothing to do, refused, paused, at capacity.
        """
        showing = self.in_hand(who)
        if showing is not None:
            return showing
        try:
            return self._made_up.reopen(who) or self._reopen(who) or self._new(who)
        except StaleLease:
            return None

    def _new(self, who: Present) -> Showing | None:
        """Book a field that the worker has not seen, and show it; or a made-up one."""
        for _ in range(TRIES):
            chosen = self._choice(who)
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
            except _Taken:
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

    def _fence(self) -> int | None:
        """Return the fencing token for what is shown now; None where nobody leads.

        Raises
        ------
        StaleLease
            Nothing is to be shown any more.
        """
        return None if self._epoch is None else self._epoch()

    def _choice(self, who: Present) -> Chosen | None:
        """Pick the best entry that the gate allows now."""
        allowed: Chosen | None = None
        refused: list[int] = []
        with self._store.read() as tx:
            question = self._question(tx, who)
            if question is None:
                return None
            found = candidates(tx, question, self._shuffler())
            for entry_id, _ in zip(found, range(DECISIONS), strict=False):
                said = decide(tx, question.force, entry_id, who.account_id)
                refusal, entry = said.refusal, said.facts.entry
                if refusal is None:
                    field_id = entry.field_id
                    untested = field_id in question.untested
                    allowed = Chosen(entry_id, field_id, entry.run_id, untested)
                    break
                meters.GATE_DECISIONS.labels("deny", refusal.rule).inc()
                if refusal.cause not in refusals.PASSING:
                    refused.append(entry_id)
        if refused:
            never = np.intersect1d(np.array(refused, np.int64), question.own)
            if len(never):
                self._plans.take_out(
                    question.plan.plan_id, who.account_id, never, self._fence()
                )
        return allowed

    def _question(self, tx: Tx, who: Present) -> Question | None:
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
        last = task_rows.last_task(tx, account.id)
        apart = round(self._terms.apart * SECOND)
        last_record = None
        if last is not None and last.created_at + apart > now:
            shown = rows.shown_entry(tx, last.entry_id)
            last_record = None if shown is None else shown.record_id
        tests = [one for one in probes.tests(tx, account.id) if one.state != "passed"]
        untested = frozenset(one.field_id for one in tests if due(one, now))
        return Question(
            account=account,
            force=force,
            plan=plan,
            own=planned[~np.isin(planned, given)],
            idle_runs=rows.idle_runs(tx, scopes) | shut,
            last_record=last_record,
            untested=untested,
            barred=frozenset(one.field_id for one in tests) - untested,
            taking=plan.applied_at + round(self._terms.patience * SECOND) <= now,
        )

    def _book(self, who: Present, entry_id: int) -> Showing:
        """Book one showing; the commit lies behind us when this returns.

        Raises
        ------
        Refused, StaleLease, _Taken
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
            epoch=self._fence(),
        )
        task = task_rows.task_of(tx, booked.tasks[0])
        account, force = rows.account(tx, who.account_id), current_policy(tx)
        assert task is not None
        assert account is not None
        assert force is not None  # the gate has judged by it
        # The booking holds the locks of the adversary and of the entry, so what is
        # read now stands: nobody was quicker, in another tab or at another desk.
        if (
            out(account, who.number)
            or task_rows.has_other_task(tx, task, now)
            or probes.in_hand(tx, task.account_id, now) is not None
            or self._misses(tx, task) <= 0
            or full(tx, account, force, now, booked=1)
        ):
            raise _Taken
        showing = self.showing(tx, task, now)
        if showing is None or not self._afford(tx, task, now):
            raise _Taken
        moves[:] = [(meters.NEW, "shown", task.connector)]
        return showing

    def _afford(self, tx: Tx, task: TaskRow, now: int) -> bool:
        """Take what a new task earns out of the budget; False if it is used up."""
        run_id = purse.run_of_entry(tx, task.entry_id)
        row = purse.FieldRow(task.id, run_id, task.account_id, task.connector, 0)
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

        The worker holds it already, so nothing new is disclosed and nothing is booked.
        """
        now = self._clock()
        with self._store.read() as tx:
            if not lapsed(task_rows.last_task(tx, who.account_id), now):
                return None
        epoch = self._fence()
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            account = rows.account(tx, who.account_id)
            last = task_rows.last_task(tx, who.account_id)
            in_hand = probes.in_hand(tx, who.account_id, now)
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
        self._store.settle()
        entry = rows.shown_entry(tx, task.entry_id)
        return showing_of(current_policy(tx), task, entry, key=self._task_key, now=now)

    def _shuffler(self) -> np.random.Generator:
        with self._rng_lock:  # a Generator is for one thread at a time
            return np.random.default_rng(self._rng.integers(2**63))
