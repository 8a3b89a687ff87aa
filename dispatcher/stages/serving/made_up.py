"""Made-up questions: a test before the first real field, and gold among real ones.

Nothing of a record is in them, so nothing is booked and no rule is touched. Gold is
shown as a real field is: the same form, a name of the same shape, after the same look
at what the gate would allow and the same waits for the disk; and, as a real field, to so
many adversaries at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from dispatcher import money
from dispatcher.core import keys
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import lock_adversaries
from dispatcher.stages.serving.asking import compose, judged
from dispatcher.stages.serving.floor import stop_by_gold
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
    out,
    redrafted,
    showing_of,
)
from dispatcher.store import (
    Clock,
    Store,
    Tx,
    events,
    gold_questions,
    lease,
    unshipped,
)
from dispatcher.store import money as purse
from dispatcher.store import serving as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed
from dispatcher.store.gold_questions import HandedRow, StandingRow
from dispatcher.store.serving import ServedAccount
from policies.answers.validation import Invalid, Valid, check

LOOK: Final = 128
"""Questions looked at for one that may be asked, at most."""


class MadeUp:
    """Hands made-up questions to workers and marks them.

    Parameters
    ----------
    store : Store
    clock : Clock
    terms : ServingTerms
    fence : callable
        Lease under which something is shown now; None where nobody leads. Raises StaleLease.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        terms: ServingTerms,
        fence: Callable[[], lease.Fence | None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        self._fence = fence
        self._task_key = store.key("task-key")

    # -- handing out ---------------------------------------------------------------

    def in_hand(self, tx: Tx, who: Present, now: int) -> Showing | None:
        """Return the question in the worker's hands."""
        task = gold_questions.in_hand(tx, who.account_id, now)
        return None if task is None else self._showing(tx, task, now)

    def lapsed(self, tx: Tx, who: Present, now: int) -> bool:
        """Whether a question's time ran out that may be given back."""
        return gold_questions.lapsed(tx, who.account_id, now - DAY, now) is not None

    def reopen(self, who: Present) -> Showing | None:
        """Give back the question whose time ran out, as a real field is given back."""
        now = self._clock()
        with self._store.read() as tx:
            if not self.lapsed(tx, who, now):
                return None
        with self._store.write() as tx:
            self._hold(tx, who)
            task = gold_questions.lapsed(tx, who.account_id, now - DAY, now)
            if task is None or self._busy(tx, who, now):
                return None
            return self._again(tx, task, now)

    def test(self, who: Present, field_id: int) -> Showing | None:
        """Hand out the next question of a field's test; None if there is none."""
        return committed(self._store, partial(self._test_in, who, field_id))

    def _test_in(self, who: Present, field_id: int, tx: Tx) -> Showing | None:
        now = self._clock()
        self._hold(tx, who)
        found = {one.field_id: one for one in gold_questions.tests(tx, who.account_id)}
        test = found.get(field_id)
        if test is None or not due(test, now) or self._busy(tx, who, now):
            return None
        attempt = test.attempt + (test.state == "failed" or not test.attempt)
        if attempt != test.attempt:
            gold_questions.stand(
                tx, who.account_id, field_id, state="open", attempt=attempt
            )
            self._note(tx, who, "test.began", field_id, attempt)
        begun = gold_questions.unmarked(tx, who.account_id, field_id, attempt)
        if begun is not None:  # days ago, or before the worker left and came back
            return self._again(tx, begun, now)
        done = gold_questions.attempted(tx, who.account_id, field_id, attempt)
        left = [
            n
            for n in gold_questions.active(tx, field_id, gold_questions.TEST)
            if n not in done
        ]
        if not left:
            return None
        return self._hand(tx, who, left[0], tx.reserve("task"), attempt, now)

    def gold(
        self, who: Present, field_id: int, run_id: int, rng: np.random.Generator
    ) -> Showing | None:
        """Hand out gold of a field in place of a real one; None if there is none.

        It earns what the real one of its run would have earned.
        """
        with self._store.read() as tx:
            account = rows.account(tx, who.account_id)
            most = _showings_of(tx, field_id)
            chosen = (
                _unseen(tx, field_id, account.adversary_id, most, rng)
                if account is not None and most
                else None
            )
        if chosen is None:  # there is nothing to write, nor to wait for
            return None
        giving = partial(self._gold_in, who, field_id, run_id, chosen)
        return committed(self._store, giving)

    def _gold_in(
        self, who: Present, field_id: int, run_id: int, chosen: int, tx: Tx
    ) -> Showing | None:
        now = self._clock()
        adversary = self._hold(tx, who)
        account = rows.account(tx, who.account_id)
        most = _showings_of(tx, field_id)
        if account is None or not _still_unseen(tx, field_id, chosen, adversary, most):
            return None
        if self._busy(tx, who, now):
            return None
        task_id = tx.reserve("task")
        if not earns(tx, task_id, account, run_id, now):
            return None
        tx.waits = True  # as a real field, whose exposure is shipped before it is shown
        return self._hand(tx, who, chosen, task_id, 0, now)

    def _hold(self, tx: Tx, who: Present) -> int:
        """Keep other desks from handing to this adversary meanwhile; return its id."""
        lease.check(tx, self._fence())
        accounts, _ = lock_adversaries(tx, [who.account_id])
        return accounts[who.account_id].adversary_id

    def _busy(self, tx: Tx, who: Present, now: int) -> bool:
        """Whether the worker is given nothing now, as the gate would say of a field.

        They are out or stopped, the work is paused, or they have something in hand.
        """
        account = rows.account(tx, who.account_id)
        if account is None or out(account, who.number) or account.state != "active":
            return True
        scopes = {"all", f"connector:{account.connector}"}
        return (
            not scopes.isdisjoint(rows.paused(tx))
            or task_rows.leased_task(tx, who.account_id, now) is not None
            or gold_questions.in_hand(tx, who.account_id, now) is not None
        )

    def _hand(
        self,
        tx: Tx,
        who: Present,
        gold_question_id: int,
        task_id: int,
        attempt: int,
        now: int,
    ) -> Showing | None:
        question = gold_questions.question(tx, gold_question_id)
        assert question is not None  # it was found in this transaction
        task = HandedRow(
            id=task_id,
            gold_question_id=gold_question_id,
            field_id=question.field_id,
            account_id=who.account_id,
            purpose=question.purpose,
            state="shown",
            created_at=now,
            leased_until=now + self._terms.lease_micros,
            draft=None,
            attempt=attempt,
        )
        showing = self._showing(tx, task, now)
        if showing is not None:
            gold_questions.hand(tx, task)
        return showing

    def _again(self, tx: Tx, task: HandedRow, now: int) -> Showing | None:
        """Put a question into its worker's hands once more, if it may be seen."""
        until = now + self._terms.lease_micros
        lent = replace(task, state="shown", leased_until=until)
        showing = self._showing(tx, lent, now)
        if showing is not None:  # in hand and not to be seen it would stop all others
            gold_questions.lease(tx, task.id, until)
        return showing

    def _showing(self, tx: Tx, task: HandedRow, now: int) -> Showing | None:
        """Return a question as a real field is shown; a test says that it is one."""
        # as for a real field: what stops those stops these
        self._store.settle(tx, unshipped.NO_LINE.chain_id)
        return self._unsettled(tx, task, now)

    def _unsettled(self, tx: Tx, task: HandedRow, now: int) -> Showing | None:
        return showing_of(
            current_policy(tx),
            task,
            gold_questions.question(tx, task.gold_question_id),
            key=self._task_key,
            now=now,
            of_test=task.purpose == gold_questions.TEST,
        )

    # -- taking back ---------------------------------------------------------------

    def owned(self, who: Present, token: str) -> int | None:
        """Id of the showing that a token names, if it is this worker's made-up one."""
        task_id = keys.task_id_of(self._task_key, token)
        if task_id is None:
            return None
        with self._store.read() as tx:
            task = gold_questions.handed(tx, task_id)
        mine = task is not None and task.account_id == who.account_id
        return task_id if mine else None

    def answer(self, who: Present, task_id: int, given: Given) -> Saved | Wrong | None:
        """Mark an answer, once; what is no answer at all is given back as ever."""
        return committed(self._store, partial(self._answer_in, who, task_id, given))

    def _answer_in(
        self, who: Present, task_id: int, given: Given, tx: Tx
    ) -> Saved | Wrong | None:
        now = self._clock()
        task = self._locked(tx, who, task_id)
        if task.state == "answered" or _over(task):
            return ANSWERED_BEFORE
        showing = self._showing(tx, task, now)
        if showing is None:
            return None
        typed = compose(showing.field, given.form)
        _, verdict = judged(showing.field, showing.words, typed, given.mark)
        if isinstance(verdict, Invalid):
            if task.state == "returned":
                return None
            gold_questions.save_draft(tx, task.id, typed.encode())
            task = replace(task, draft=typed.encode())
            held = task.state == "shown" and (task.leased_until or 0) > now
            again = self._showing(tx, task, now) if held else self._again(tx, task, now)
            return None if again is None else Wrong(verdict.reason, again)
        self._end(tx, who, task, "answered", self._right(tx, task, showing, verdict))
        of_test = task.purpose == gold_questions.TEST  # its marks stand
        return Saved(undo=self._terms.undo > 0 and not of_test)

    def take_back(self, who: Present, task_id: int) -> Showing | None:
        """Take the answer to gold back, as that to a real field; None if it is too late."""
        return committed(self._store, partial(self._take_back_in, who, task_id))

    def _take_back_in(self, who: Present, task_id: int, tx: Tx) -> Showing | None:
        now = self._clock()
        task = self._locked(tx, who, task_id)
        since = self._terms.undoable_since(now)
        if task.state != "answered" or task.purpose == gold_questions.TEST:
            return None
        if not gold_questions.is_fresh(tx, task.id, since) or not unsettle(
            tx, task.id, now
        ):
            return None
        until = foremost(tx, who.account_id, now, self._terms)
        showing = self._showing(
            tx, replace(task, state="shown", leased_until=until), now
        )
        if showing is not None:
            gold_questions.reopen(tx, task.id, until)
        return showing

    def give_back(self, who: Present, task_id: int) -> bool:
        """Take a question back unanswered: in a test this is no right answer."""
        with self._store.write() as tx:
            task = self._locked(tx, who, task_id)
            if task.state in ("shown", "expired"):
                wrong = 0 if task.purpose == gold_questions.TEST else None
                self._end(tx, who, task, "returned", wrong)
        return True

    def save_draft(
        self, who: Present, task_id: int, form: Mapping[str, str], seen: str | None
    ) -> Draft | None:
        """Keep what was typed, as for a real field; None if it is not in hand any more."""
        now = self._clock()
        with self._store.write() as tx:
            task = self._locked(tx, who, task_id)
            showing = self._unsettled(tx, task, now)  # a real draft waits for nothing
            held = task.state == "shown" and (task.leased_until or 0) > now
            if showing is None or not held:
                return None
            typed = compose(showing.field, form).encode()
            draft = redrafted(self._task_key, task, typed, seen)
            if draft.kept:
                gold_questions.save_draft(tx, task.id, typed)
        return draft

    def extend(self, who: Present, task_id: int) -> Showing | None:
        """Give more time, as for a real field."""
        now = self._clock()
        with self._store.write() as tx:
            task = self._locked(tx, who, task_id)
            if task.state != "shown" or (task.leased_until or 0) <= now:
                return None
            until = self._terms.until(task.created_at, now)
            if until > (task.leased_until or 0):
                gold_questions.lease(tx, task.id, until)
                task = replace(task, leased_until=until)
            return self._showing(tx, task, now)

    def _locked(self, tx: Tx, who: Present, task_id: int) -> HandedRow:
        """Return the question locked, and the adversary before it: always that order."""
        lock_adversaries(tx, [who.account_id])
        task = gold_questions.lock_handed(tx, task_id)
        assert task is not None  # rows of showings are never deleted
        return task

    def _right(self, tx: Tx, task: HandedRow, showing: Showing, given: Valid) -> int:
        """1 if an answer says what the right one says, else 0."""
        question = gold_questions.question(tx, task.gold_question_id)
        assert question is not None
        right = check(showing.field, question.answer.decode())
        return int(isinstance(right, Valid) and right.key == given.key)

    def _end(
        self, tx: Tx, who: Present, task: HandedRow, state: str, correct: int | None
    ) -> None:
        now = self._clock()
        gold_questions.end(tx, task.id, state, correct, now)
        if task.purpose == gold_questions.TEST:
            self._end_test(tx, who, task, now)
            return
        settle(tx, task.id, state, now)
        if correct is not None:
            stop_by_gold(tx, who.account_id, self._terms, now)

    def _end_test(self, tx: Tx, who: Present, task: HandedRow, now: int) -> None:
        """Mark the attempt when its last question came back."""
        field_id, attempt = task.field_id, task.attempt
        found = {one.field_id: one for one in gold_questions.tests(tx, who.account_id)}
        test = found.get(field_id)
        if test is None or (test.state, test.attempt) != ("open", attempt):
            return  # the test was dropped or set anew meanwhile
        asked = gold_questions.active(tx, field_id, gold_questions.TEST)
        done = gold_questions.attempted(tx, who.account_id, field_id, attempt)
        marks = [done.get(number) for number in asked]
        if None in marks or not marks:
            return
        right = sum(mark or 0 for mark in marks)
        passed = right >= Fraction(str(test.pass_share)) * len(marks)
        gold_questions.stand(
            tx,
            who.account_id,
            field_id,
            state="passed" if passed else "failed",
            attempt=attempt,
            asked=len(marks),
            correct=right,
            ended_at=now,
        )
        action = "test.passed" if passed else "test.failed"
        self._note(tx, who, action, field_id, attempt)

    def _note(
        self, tx: Tx, who: Present, action: str, field_id: int, attempt: int
    ) -> None:
        detail = {"field": field_id, "attempt": attempt}
        actor = f"account:{who.account_id}"
        events.add_event(tx, self._clock(), actor, action, detail)


def due(test: StandingRow, now: int) -> bool:
    """Whether a worker may be asked the next question of a test now."""
    if test.state != "failed":
        return bool(test.state == "open")
    tries_left = test.attempt < gold_questions.ATTEMPTS
    return bool(tries_left and (test.ended_at or 0) + DAY <= now)


def _showings_of(tx: Tx, field_id: int) -> int:
    """How many adversaries may be shown a field; 0 if it is not sent."""
    force = current_policy(tx)
    standing = None if force is None else force.fields.get(field_id)
    return standing.showings if standing is not None and standing.sent else 0


def _unseen(
    tx: Tx, field_id: int, adversary_id: int, showings: int, rng: np.random.Generator
) -> int | None:
    """Pick gold by chance that an adversary was never asked, and not too many were.

    A real field has the same limit of adversaries: people who compare would recognise
    what is seen more often. When nearly all is used up, the search may miss what is
    left; then a real field is shown.
    """
    seen = gold_questions.asked_of(tx, adversary_id)
    active = gold_questions.active(tx, field_id, gold_questions.GOLD)
    ids = rng.permutation([n for n in active if n not in seen])[:LOOK].tolist()
    asked = gold_questions.adversaries(tx, ids)
    return next((n for n in ids if asked.get(n, 0) < showings), None)


def _still_unseen(
    tx: Tx, field_id: int, chosen: int, adversary_id: int, showings: int
) -> bool:
    """Whether gold may be shown to an adversary that is locked, and lock the gold."""
    gold_questions.lock(tx, chosen)  # as an entry: who was quicker is counted now
    return (
        chosen in gold_questions.active(tx, field_id, gold_questions.GOLD)
        and chosen not in gold_questions.asked_of(tx, adversary_id)
        and gold_questions.adversaries(tx, [chosen]).get(chosen, 0) < showings
    )


def _over(task: HandedRow) -> bool:
    """Whether a question of a test was handed back: that is its mark."""
    return task.purpose == gold_questions.TEST and task.state == "returned"


def earns(tx: Tx, task_id: int, account: ServedAccount, run_id: int, now: int) -> bool:
    """Take what gold earns out of a run's budget; False: it may not be shown.

    A worker whom a market pays for a piece of work is asked gold only where fields earn
    nothing beside it: a market's bonus is for what was answered in earnest.
    """
    budget = purse.budget(tx, run_id)
    if budget is None or not budget.bonus:
        return True
    if purse.piece_in_hand(tx, account.id) is not None:
        return False
    row = purse.CarryingTask(task_id, run_id, account.id, account.connector, 0)
    return money.hand_out(tx, row, now)


def settle(tx: Tx, task_id: int, state: str, now: int) -> None:
    """Let gold that was answered be owed, and give back what was not.

    One that is answered late, after its money was given back, takes it again, if there
    is any.
    """
    paid = purse.lock_payments(tx, "field", [task_id]).get(task_id)
    if paid is None:
        return
    if state == "answered" and paid.state == "released":
        if not purse.reserve_again(tx, paid, now=now, actor=money.ACTOR):
            return
        paid = purse.lock_payments(tx, "field", [task_id])[task_id]
    if paid.state == "reserved":
        after = "due" if state == "answered" else "released"
        purse.move(tx, [paid], after, now=now)


def unsettle(tx: Tx, task_id: int, now: int) -> bool:
    """Keep what an answered task earns until it is answered again.

    Returns
    -------
    bool
        False: it was paid, or is being looked at.
    """
    paid = purse.lock_payments(tx, "field", [task_id]).get(task_id)
    if paid is not None and paid.state == "due":
        purse.move(tx, [paid], "reserved", now=now)
        return True
    return paid is None or paid.state == "reserved"


def give_back(tx: Tx, since: int, now: int) -> None:
    """Give back what was taken for gold that nobody answered since a moment."""
    lapsed = gold_questions.unpaid_lapsed(tx, since)
    found = purse.lock_payments(tx, "field", lapsed).values() if lapsed else ()
    purse.move(
        tx, [row for row in found if row.state == "reserved"], "released", now=now
    )
