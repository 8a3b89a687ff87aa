"""Answers side by side, judged by an operator; and refused ones: list, reveal, dismiss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from enum import StrEnum
from typing import Final

from dispatcher.core.errors import Conflict, Invalid, NotFound, Usage
from dispatcher.export_format import CONSENSUS, OPERATOR
from dispatcher.ledger import exhausted_fields as exhausted
from dispatcher.ledger import recall
from dispatcher.ledger.exhausted_fields import Shown, unburn
from dispatcher.ledger.lines import adversary_name
from dispatcher.operations.dry_run import rolled_back, withdrawing
from dispatcher.operations.fields import find_entry
from dispatcher.operations.workspace import Workspace
from dispatcher.stages import assembly
from dispatcher.stages.assembly import Reading, alike, readings
from dispatcher.store import (
    Store,
    Tx,
    accounts,
    events,
    planning,
    record_states,
    serving,
)
from dispatcher.store import answers as given
from dispatcher.store import collecting as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.accounts import AccountRow
from dispatcher.store.collecting import RefusedRow
from policies.answers.consensus import DECLARED
from policies.answers.validation import Mark, Valid, check
from policies.policy import Field


def list_refused(
    store: Store, *, dismissed: bool = False, limit: int = 100
) -> Sequence[RefusedRow]:
    """List answers that fit no task, newest first; values stay hidden."""
    with store.read() as tx:
        return rows.listed(tx, limit, dismissed=dismissed)


@dataclass(frozen=True)
class GivenAnswer:
    """A task of a field: whose it is, and which answers mean the same; no value.

    Attributes
    ----------
    entry_id, task : int
    worker : str
        Pseudonym of the adversary.
    connector, state : str
    shown_at : int
        When it was booked.
    answered_at : int or None
    alike : str
        ``A``, ``B``…: the same for answers to this field that mean the same; empty where
        there is none, or it is not valid.
    """

    entry_id: int
    task: int
    worker: str
    connector: str
    state: str
    shown_at: int
    answered_at: int | None
    alike: str


def side_by_side(store: Store, entry_ids: Sequence[int]) -> list[GivenAnswer]:
    """Return the tasks of entries with which of their answers agree; values stay hidden."""
    with store.read() as tx:
        names = alike(tx, entry_ids)
        return [
            GivenAnswer(
                entry_id=row.entry_id,
                task=row.id,
                worker=adversary_name(row.adversary_id),
                connector=row.connector,
                state=row.state,
                shown_at=row.created_at,
                answered_at=row.answered_at,
                alike=names.get(row.id, ""),
            )
            for row in given.tasks_of(tx, entry_ids)
        ]


# -- conflicts ------------------------------------------------------------------------------


class FieldDecision(StrEnum):
    """What an operator decides on a field.

    ``choose`` one of its answers; ``value``: another one; ``unreadable`` or ``absent``:
    there is nothing to give; ``ask`` one more worker; ``consensus``: what was decided by
    hand before is withdrawn.
    """

    CHOOSE = "choose"
    VALUE = "value"
    UNREADABLE = "unreadable"
    ABSENT = "absent"
    ASK = "ask"
    CONSENSUS = "consensus"


_MARKS: Final = {
    FieldDecision.UNREADABLE: Mark.ILLEGIBLE,
    FieldDecision.ABSENT: Mark.NOT_PRESENT,
}


@dataclass(frozen=True)
class Giver:
    """Who gave an answer: pseudonym, connector, and how often they are right."""

    worker: str
    connector: str
    quality: float


@dataclass(frozen=True)
class Choice:
    """Answers to a field that mean the same: their letter, and who gave them; no value."""

    letter: str
    givers: tuple[Giver, ...]


@dataclass(frozen=True)
class Disputed:
    """A field in conflict; no value.

    Attributes
    ----------
    entry_id : int
    id : str
        PSEUDONYM.FIELD.
    record, field, run, question : str
    options : tuple of str
        What may be answered, where the policy says it.
    choices : tuple of Choice
        The answers that most workers gave first.
    showings, limit, open_tasks : int
    """

    entry_id: int
    id: str
    record: str
    field: str
    run: str
    question: str
    options: tuple[str, ...]
    choices: tuple[Choice, ...]
    showings: int
    limit: int
    open_tasks: int


def list_conflicts(store: Store, *, limit: int = 100, after: int = 0) -> list[Disputed]:
    """Fields in conflict above an id, with who gave which answer; values stay hidden."""
    with store.read() as tx:
        ids = given.in_conflict(tx, after, limit)
        shown = exhausted.shown(tx, ids)
        names = record_states.pseudonyms(tx, [one.record_id for one in shown])
        asked, answers = assembly.asked_of(tx, ids), readings(tx, ids)
        tasks: dict[int, int] = {
            row.id: row.adversary_id for row in given.tasks_of(tx, ids)
        }
        people = accounts.accounts_of(
            tx, {n for found in answers.values() for one in found for n in one.accounts}
        )
    return [
        Disputed(
            entry_id=one.entry_id,
            id=f"{names[one.record_id]}.{one.field}",
            record=names[one.record_id],
            field=one.field,
            run=one.run,
            question=asked[one.entry_id].asked if one.entry_id in asked else "",
            options=_options(asked.get(one.entry_id)),
            choices=_choices(answers[one.entry_id], tasks, people),
            showings=one.showings,
            limit=one.limit,
            open_tasks=one.live,
        )
        for one in shown
    ]


def _options(asked: Field | None) -> tuple[str, ...]:
    if asked is None or asked.ask not in DECLARED:
        return ()
    return asked.choices or ("yes", "no")


def _choices(
    found: Sequence[Reading],
    adversaries: Mapping[int, int],
    people: Mapping[int, AccountRow],
) -> tuple[Choice, ...]:
    choices = [
        Choice(
            one.letter,
            tuple(
                Giver(
                    adversary_name(adversaries[task]),
                    people[account].connector,
                    people[account].quality,
                )
                for task, account in zip(one.tasks, one.accounts, strict=True)
            ),
        )
        for one in found
    ]
    return tuple(sorted(choices, key=lambda one: (-len(one.givers), one.letter)))


@dataclass(frozen=True)
class Revealed:
    """What a field's answers say, beside what its workers saw.

    Attributes
    ----------
    id, question : str
    answers : Mapping of str to str
        By letter; a mark stands in brackets.
    media : str
        ``text/plain`` or an image type.
    content : bytes
        The shown form.
    """

    id: str
    question: str
    answers: Mapping[str, str] = dataclass_field(repr=False)
    media: str
    content: bytes = dataclass_field(repr=False)


def reveal_conflict(
    workspace: Workspace, store: Store, field: str, reason: str
) -> Revealed:
    """Show a field's answers, and what was shown; the audit log has it before that.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such field, or its values were erased.
    """
    check_reason(reason, "values are shown")
    with store.write() as tx:
        entry_id = find_entry(store, tx, field)
        found, asked = _judgeable(tx, entry_id)
        row = serving.shown_entry(tx, entry_id)
        assert row is not None  # its record was not erased
        name = _name(tx, found)
        answers = {
            one.letter: one.value.decode("utf-8", "replace")
            for one in readings(tx, [entry_id])[entry_id]
        }
        detail: dict[str, object] = {"field": name, "reason": reason}
        events.add_event(
            tx, workspace.clock(), workspace.actor, "answer.revealed", detail
        )
    return Revealed(name, asked.asked, answers, row.media, row.shown)


@dataclass(frozen=True)
class Judged:
    """What a judgement did.

    Attributes
    ----------
    id : str
        PSEUDONYM.FIELD.
    decision : FieldDecision
    before, after : str
        State of the field: ``open``, ``conflict`` or ``answered``.
    decided_by : str
        ``operator`` or ``consensus``.
    tasks : int
        Open tasks that were taken back.
    unplanned : int
        Planned showings that are not needed any more.
    going_on : int
        Tasks that a worker finishes all the same; they are paid.
    extra_showings : int
        Showings granted beyond t.
    """

    id: str
    decision: FieldDecision
    before: str
    after: str
    decided_by: str
    tasks: int = 0
    unplanned: int = 0
    going_on: int = 0
    extra_showings: int = 0


def judge(
    workspace: Workspace,
    store: Store,
    field: str,
    decision: FieldDecision,
    reason: str,
    *,
    letter: str = "",
    value: str = "",
    dry_run: bool = False,
) -> Judged:
    """Decide a field by hand; the next judgement of it replaces this one.

    Later answers do not change what was decided. Payments stay as they are: whoever
    answered is paid, whatever was decided.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    field : str
        RECORD.FIELD.
    decision : FieldDecision
    reason : str
        One line for the audit log.
    letter : str
        Of the answer to choose.
    value : str
        What the field says; it must be a valid answer to it.
    dry_run : bool
        Change nothing.

    Raises
    ------
    Usage
        The reason is empty or not one line; a letter or a value is missing, or given
        where none belongs.
    NotFound
        There is no such field or answer, or the values were erased.
    Invalid
        The value is no valid answer to the field.
    Conflict
        Nobody asks for this field, it needs no more workers, or nothing of it was
        decided by hand.
    """
    check_reason(reason, "a field is judged")
    if bool(letter) != (decision is FieldDecision.CHOOSE) or (
        bool(value) != (decision is FieldDecision.VALUE)
    ):
        raise Usage(
            f"{decision.value} does not fit what is given with it",
            why="a letter belongs to choose, a value to value, and to the others neither",
            fix="name the letter of an answer, or the value, and the decision that fits",
        )
    with rolled_back(store) if dry_run else store.write() as tx:
        entry_id = find_entry(store, tx, field)
        found, asked = _judgeable(tx, entry_id)
        # Assembly waits for what is decided.
        given.answers_of(tx, [entry_id], lock=True)
        before, by_hand = given.result_of(tx, entry_id)
        now = workspace.clock()
        done = Judged(_name(tx, found), decision, before, "open", CONSENSUS)
        if decision is FieldDecision.ASK:
            done = _ask_one_more(tx, found, done, reason.strip(), now)
        elif decision is FieldDecision.CONSENSUS:
            if not by_hand:
                raise Conflict(
                    f"{done.id} was not decided by hand",
                    why="there is no judgement to withdraw",
                    fix="choose an answer, or give a value",
                )
            given.reopen(tx, entry_id)
        else:
            text = _decided(tx, entry_id, asked, decision, letter, value)
            given.judge(tx, entry_id, text, workspace.actor, now)
            done = _release(workspace, tx, entry_id, done, now)
        detail: dict[str, object] = {
            "field": done.id,
            "decision": decision.value,
            "before": before,
        }
        events.add_event(tx, now, workspace.actor, "field.judged", detail)
    return done


def _judgeable(tx: Tx, entry_id: int) -> tuple[Shown, Field]:
    """Return a field that may be judged, and how it is asked for."""
    found = exhausted.shown(tx, [entry_id])
    if not found:
        raise NotFound(
            "the field is of a record that was erased",
            why="nothing of it is left to be judged",
            fix="leave it out",
        )
    asked = assembly.asked_of(tx, [entry_id]).get(entry_id)
    if asked is None or asked.ask is None:
        raise Conflict(
            f"nobody is asked for {found[0].field}",
            why="the policy in force does not ask for it",
            fix="see the asked fields: dispatcher policy show",
        )
    return found[0], asked


def _name(tx: Tx, found: Shown) -> str:
    record = record_states.pseudonyms(tx, [found.record_id])[found.record_id]
    return f"{record}.{found.field}"


def _decided(
    tx: Tx,
    entry_id: int,
    asked: Field,
    decision: FieldDecision,
    letter: str,
    value: str,
) -> bytes:
    """Return the value that was decided on, as a result stores it."""
    if decision is FieldDecision.CHOOSE:
        found = readings(tx, [entry_id])[entry_id]
        for one in found:
            if one.letter == letter:
                return one.value
        raise NotFound(
            "there is no such answer to this field",
            why=f"its valid answers are {', '.join(r.letter for r in found) or 'none'}",
            fix="dispatcher answers conflicts",
        )
    valid = check(asked, value, _MARKS.get(decision))
    if not isinstance(valid, Valid):
        raise Invalid(
            f"the value is no valid answer to {asked.name}: {valid.reason}",
            why="what is decided by hand is held to the same rules as answers",
            fix="correct it, or mark the field as unreadable",
        )
    return assembly.stored(valid)


def _ask_one_more(tx: Tx, found: Shown, done: Judged, reason: str, now: int) -> Judged:
    if done.before == "answered" or (
        done.before == "open" and found.showings < found.limit
    ):
        raise Conflict(
            f"{done.id} is {done.before}: there is no more worker to ask",
            why="one more is asked of a field in conflict, or shown t times without enough "
            "answers",
            fix="wait for its tasks, or choose consensus if it was decided by hand",
        )
    unburn(tx, found.entry_id, extra=1, because=reason, at=now)
    return replace(done, extra_showings=1)


def _release(
    workspace: Workspace, tx: Tx, entry_id: int, done: Judged, now: int
) -> Judged:
    """Take back what is not needed any more of a field that was decided."""
    open_ = task_rows.open_tasks_on(tx, entry_id)
    recalled = recall.release(tx, open_, withdrawing(workspace), at=now)
    return replace(
        done,
        after="answered",
        decided_by=OPERATOR,
        tasks=recalled.tasks,
        unplanned=planning.unplan(tx, [entry_id]).total(),
        going_on=recalled.left,
    )


# -- refused answers ------------------------------------------------------------------------


def reveal(
    workspace: Workspace, store: Store, ids: Sequence[int], reason: str
) -> Mapping[int, bytes]:
    """Return the content of refused answers; the audit log records who looked, and why.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    """
    check_reason(reason, "values are shown")
    if not ids:
        return {}
    with store.write() as tx:
        contents = rows.payloads(tx, ids)
        detail: dict[str, object] = {"answers": len(contents), "reason": reason}
        events.add_event(
            tx, workspace.clock(), workspace.actor, "answer.revealed", detail
        )
    return contents


def dismiss(
    workspace: Workspace, store: Store, ids: Sequence[int] | None, reason: str
) -> int:
    """Mark refused answers as reviewed; all of them if none is named.

    Returns
    -------
    int
        How many.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such unreviewed answer.
    """
    check_reason(reason, "refused answers are dismissed")
    because = reason.strip()
    with store.write() as tx:
        now, waiting = workspace.clock(), rows.waiting(tx)
        missing = sorted(set(ids or ()) - set(waiting))
        if missing:
            raise NotFound(
                f"there is no refused answer {missing[0]} to dismiss",
                why="there is none of this number, or it was dismissed before",
                fix="dispatcher answers list",
            )
        done = rows.dismiss(tx, waiting if ids is None else ids, because, now)
        if done:
            detail: dict[str, object] = {"answers": done, "reason": because}
            events.add_event(tx, now, workspace.actor, "answer.dismissed", detail)
    return done


def check_reason(reason: str, what: str) -> None:
    """Refuse a reason that is empty, or not one line.

    Raises
    ------
    Usage
    """
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            f"{what} only for a reason, one line of text",
            why="the audit log keeps who looked, and why",
            fix='--reason "spreadsheet of the agency was mixed up"',
        )
