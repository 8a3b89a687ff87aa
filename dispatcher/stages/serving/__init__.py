"""Serving: a worker arrives, presses Start, sees one field, and answers.

Reads the plan, books through the gate and writes tasks and answers. The exposure is
durable before :meth:`Serving.start` returns the bytes of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dispatcher.core import keys, meters
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.decision import decide
from dispatcher.model import TaskAnswer, record_unit, subject_unit
from dispatcher.stages.serving import made_up
from dispatcher.stages.serving.arrivals import Arrivals, SessionTerms
from dispatcher.stages.serving.asking import AskedField, asked, compose, judged, spread
from dispatcher.stages.serving.choice import Card, cards
from dispatcher.stages.serving.floor import stop_by_agreement
from dispatcher.stages.serving.own_work import (
    DAYS,
    KINDS,
    OTHER,
    OwnWork,
    WorkSummary,
    leave,
    own_work,
    pace,
)
from dispatcher.stages.serving.task_assignment import TaskAssignment
from dispatcher.stages.serving.values import (
    ANSWERED_BEFORE,
    DAY,
    Draft,
    Given,
    Present,
    Saved,
    ServingTerms,
    Showing,
    Wrong,
    foremost,
    redrafted,
)
from dispatcher.store import (
    Clock,
    Store,
    Tx,
    accounts,
    answers,
    events,
    gold_questions,
    lease,
)
from dispatcher.store import serving as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed
from dispatcher.store.tasks import TaskRow
from policies.answers.validation import Invalid
from policies.policy import Field

__all__ = [
    "ANSWERED_BEFORE",
    "DAYS",
    "KINDS",
    "OTHER",
    "Arrivals",
    "AskedField",
    "Card",
    "Draft",
    "Given",
    "OwnWork",
    "Present",
    "Saved",
    "Serving",
    "ServingTerms",
    "SessionTerms",
    "Showing",
    "WorkSummary",
    "Wrong",
    "asked",
    "compose",
    "expire",
    "judged",
    "leave",
    "own_work",
    "spread",
    "stop_by_agreement",
]


ANSWERABLE = ("shown", "expired", "returned")
"""States from which the same worker may still answer, late too."""


class Serving(TaskAssignment):
    """All that a worker can do: see :class:`TaskAssignment` for what comes before a task."""

    @property
    def undo(self) -> float:
        """Seconds for which an answer can be taken back."""
        return self._terms.undo

    @property
    def chooses(self) -> bool:
        """Whether workers choose among kinds of work."""
        return self._terms.choose > 0

    def kinds(self) -> list[int]:
        """Ids of the fields of the policy in force: what a choice may name."""
        with self._store.read() as tx:
            force = current_policy(tx)
            return [] if force is None else list(force.fields)

    def choices(self, who: Present) -> list[Card]:
        """Kinds of work to offer, some of them by chance, in the order of the policy.

        Nothing is booked, and nothing is asked of the gate: see
        :mod:`~dispatcher.stages.serving.choice`.
        """
        if not self.chooses:
            return []
        with self._store.read() as tx:
            force = current_policy(tx)
            plan = None if force is None else self._plans.in_force(tx, force.version)
            if force is None or plan is None:
                return []
            _, barred = self._tests(tx, who.account_id, self._clock())
            kinds = self._plans.kinds(tx, plan).keys() - barred
            found = cards(tx, force, kinds, rows.idle_runs(tx, rows.paused(tx)))
        drawn = self._shuffler().permutation(len(found))[: self._terms.choose]
        return [found[place] for place in sorted(drawn.tolist())]

    def pace(self, who: Present, showing: Showing) -> WorkSummary:
        """What a worker is told beside a task: how many, what it earns, how long."""
        return pace(self._store, self._clock, who, showing.task_id)

    def owns(self, who: Present, token: str) -> bool:
        """Whether a token names a task of this worker; if not, an event says so."""
        task_id = keys.task_id_of(self._task_key, token) or 0
        with self._store.read() as tx:  # both, in any case: the time reveals nothing
            found = task_rows.task_of(tx, task_id), gold_questions.handed(tx, task_id)
        if any(task and task.account_id == who.account_id for task in found):
            return True
        with self._store.write() as tx:
            return self._own(tx, who, token) is not None

    def answer(self, who: Present, token: str, given: Given) -> Saved | Wrong | None:
        """Take the answer to a task.

        Returns
        -------
        Saved, Wrong or None
            ``ANSWERED_BEFORE`` for a task that has its answer: there is one a task.
            None if the task is not this worker's.
        """
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.answer(who, made_up, given)
        moved: list[TaskRow] = []
        answering = partial(self._answer_in, who, token, given, moved)
        saved = committed(self._store, answering)
        state = "answered" if isinstance(saved, Saved) else "shown"
        meters.count_moves((task.state, state, task.connector) for task in moved)
        if isinstance(saved, Saved):
            for task in moved:
                meters.note_turnaround(self._clock() - task.created_at)
        return saved

    def _answer_in(
        self, who: Present, token: str, given: Given, moved: list[TaskRow], tx: Tx
    ) -> Saved | Wrong | None:
        moved.clear()  # of a transaction that was not kept
        now = self._clock()
        task = self._own(tx, who, token)
        if task is None:
            return None
        if task.state == "answered":
            return ANSWERED_BEFORE
        showing = self.showing(tx, task, now)
        if showing is None or task.state not in ANSWERABLE:
            return None
        typed = compose(showing.field, given.form)
        raw, verdict = judged(showing.field, showing.words, typed, given.mark)
        if isinstance(verdict, Invalid):
            again = self._shown_again(tx, task, typed.encode(), now)
            if again is None:
                return None
            moved.append(task)
            return Wrong(verdict.reason, again)
        row = TaskAnswer(
            task_id=task.id,
            entry_id=task.entry_id,
            account_id=task.account_id,
            raw=raw.encode(),
            valid=1,
            at=now,
        )
        answers.add_answer(tx, row)
        task_rows.end(tx, [task.id], "answered")
        moved.append(task)
        return Saved(undo=self._terms.undo > 0)

    def take_back(self, who: Present, token: str) -> Showing | None:
        """Take an answer back, a few seconds after it was given; its task is in hand again.

        Nothing new is disclosed and nothing is booked: the worker holds the field. What
        came after it stays in hand as well, and is given once this one is answered.

        Returns
        -------
        Showing or None
            None: it is too late, or there is no such answer.
        """
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.take_back(who, made_up)
        moved: list[TaskRow] = []
        back = committed(self._store, partial(self._take_back_in, who, token, moved))
        meters.count_moves(("answered", "shown", task.connector) for task in moved)
        return back

    def _take_back_in(
        self, who: Present, token: str, moved: list[TaskRow], tx: Tx
    ) -> Showing | None:
        moved.clear()  # of a transaction that was not kept
        now = self._clock()
        task, force = self._own(tx, who, token), current_policy(tx)
        if task is None or force is None or task.state != "answered":
            return None
        if decide(tx, force, task.entry_id, task.account_id).refusal is not None:
            return None
        since = self._terms.undoable_since(now)
        fresh = answers.is_fresh(tx, task.id, since)
        if not fresh or not made_up.unsettle(tx, task.id, now):
            return None
        answers.withdraw(tx, task.id)
        moved.append(task)
        until = foremost(tx, who.account_id, now, self._terms)
        task_rows.lease(tx, task.id, until)
        return self.showing(tx, task._replace(state="shown", leased_until=until), now)

    def save_draft(
        self, who: Present, token: str, form: Mapping[str, str], seen: str | None = None
    ) -> Draft | None:
        """Keep what was typed; None if the task is not in this worker's hands.

        With ``seen``, the mark of the draft that the worker's window knows, what another
        window saved since is not written over.
        """
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.save_draft(who, made_up, form, seen)
        with self._store.write() as tx:
            task = self._own(tx, who, token)
            field = None if task is None else self._field(tx, task)
            if task is None or field is None or not self._leased(task):
                return None
            typed = compose(field, form).encode()
            draft = redrafted(self._task_key, task, typed, seen)
            if draft.kept:
                task_rows.save_draft(tx, task.id, typed)
        return draft

    def extend(self, who: Present, token: str) -> Showing | None:
        """Give more time, while the extensions last; None if it is not in hand."""
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.extend(who, made_up)
        now = self._clock()
        with self._store.write() as tx:
            task = self._own(tx, who, token)
            if task is None or not self._leased(task):
                return None
            until = self._terms.until(task.created_at, now)
            if until > (task.leased_until or 0):
                task_rows.lease(tx, task.id, until)
                task = task._replace(leased_until=until)
            return self.showing(tx, task, now)

    def give_back(self, who: Present, token: str) -> bool:
        """Return a task unanswered; what was seen stays seen."""
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.give_back(who, made_up)
        with self._store.write() as tx:
            task = self._own(tx, who, token)
            if task is None:
                return False
            moves = _hand_back(tx, task)
        meters.count_moves(moves)
        return True

    def recuse(self, who: Present, token: str) -> bool:
        """End a task because the worker knows the person, and show them no more of it."""
        made_up = self._made_up.owned(who, token)
        if made_up is not None:
            return self._made_up.give_back(who, made_up)
        with self._store.write() as tx:
            task = self._own(tx, who, token)
            entry = None if task is None else rows.shown_entry(tx, task.entry_id)
            if task is None or entry is None:
                return False
            units = [record_unit(entry.record_id)]
            if entry.subject_id is not None:
                units.append(subject_unit(entry.subject_id))
            account = rows.account(tx, who.account_id)
            adversary = task.adversary_id if account is None else account.adversary_id
            accounts.add_recusals(tx, [(adversary, unit) for unit in units])
            moves = _hand_back(tx, task)
            self._note(tx, who, "task.recused", task.id)
        meters.count_moves(moves)
        return True

    def note_stray(self, who: Present) -> None:
        """Record as an event a request for an image of no task in hand."""
        with self._store.write() as tx:
            self._note(tx, who, "task.stray", 0)

    def _own(self, tx: Tx, who: Present, token: str) -> TaskRow | None:
        """Return the worker's own task, locked; else leave an event."""
        task_id = keys.task_id_of(self._task_key, token)
        task = None if task_id is None else task_rows.lock_task(tx, task_id)
        if task is not None and task.account_id == who.account_id:
            return task
        action = "task.unknown" if task is None else "task.foreign"
        self._note(tx, who, action, 0 if task is None else task.id)
        return None

    def _note(self, tx: Tx, who: Present, action: str, task_id: int) -> None:
        detail = {"task": task_id} if task_id else {}
        events.add_event(tx, self._clock(), f"account:{who.account_id}", action, detail)

    def _leased(self, task: TaskRow) -> bool:
        return task.state == "shown" and (task.leased_until or 0) > self._clock()

    def _shown_again(
        self, tx: Tx, task: TaskRow, draft: bytes, now: int
    ) -> Showing | None:
        """Show a task whose answer was no answer once more, with what was typed.

        None if it was handed back, perhaps for knowing the person, or if its time was
        over and the gate would not allow it by now.
        """
        force = current_policy(tx)
        if task.state == "returned" or force is None:
            return None
        if not self._leased(task):
            ask = decide(tx, force, task.entry_id, task.account_id)
            if ask.refusal is not None:
                return None
            task = self.lease(tx, task, now)
        task_rows.save_draft(tx, task.id, draft)
        return self.showing(tx, task._replace(draft=draft), now)

    def _field(self, tx: Tx, task: TaskRow) -> Field | None:
        force, entry = current_policy(tx), rows.shown_entry(tx, task.entry_id)
        if force is None or entry is None or entry.field_id not in force.fields:
            return None
        return force.policy.entity.fields[force.fields[entry.field_id].name]


def _hand_back(tx: Tx, task: TaskRow) -> list[meters.Move]:
    """Return an unanswered task from its worker."""
    if task.state not in ("shown", "expired"):
        return []
    task_rows.end(tx, [task.id], "returned")
    return [(task.state, "returned", task.connector)]


def expire(store: Store, clock: Clock, epoch: int | None = None) -> int:
    """End the leases that are over; the drafts go. A tick of the daemon.

    Returns
    -------
    int
        How many tasks expired. The same workers may still answer them.

    Raises
    ------
    StaleLease
        ``epoch`` is given and another daemon leads.
    """
    with store.write() as tx:
        if epoch is not None:
            lease.check_epoch(tx, lease.SHARD, epoch)
        now = clock()
        expired = task_rows.expire_tasks(tx, now)
        gold_questions.expire(tx, now)
        made_up.give_back(tx, now - DAY, now)
    meters.count_moves(("shown", "expired", connector) for connector in expired)
    return len(expired)
