"""Recall of tasks in progress that a change made unsafe.

A delivered task counts as seen, and a recall does not undo that. It keeps a worker from
reading further what, together with earlier entries, is now past a limit. A late answer
still counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dispatcher.ledger.active_policy import ActivePolicy, trusted_rules_of
from dispatcher.ledger.violations import past_units
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import exposure_queries as rows
from dispatcher.store import outbox
from dispatcher.store import tasks as task_rows
from dispatcher.store.tasks import OpenTask
from dispatcher.store.transaction import Tx


class InFlightAction(StrEnum):
    """What happens to tasks in progress that a change made unsafe.

    ``recall`` withdraws them, ``drain`` only those that have not left yet, ``keep``
    none.
    """

    RECALL = "recall"
    DRAIN = "drain"
    KEEP = "keep"


@dataclass(frozen=True)
class Recall:
    """Unsafe tasks in progress, by what can be done about them.

    Attributes
    ----------
    unsent : tuple of OpenTask
        Not delivered yet: they are not sent.
    shown : tuple of OpenTask
        On our own page: they are removed from it.
    outside : tuple of OpenTask
        With a connector that can withdraw tasks.
    lost : tuple of OpenTask
        With a connector that cannot.
    """

    unsent: tuple[OpenTask, ...] = ()
    shown: tuple[OpenTask, ...] = ()
    outside: tuple[OpenTask, ...] = ()
    lost: tuple[OpenTask, ...] = ()

    @property
    def unsafe(self) -> int:
        """Number of tasks that may not be finished."""
        return sum(map(len, (self.unsent, self.shown, self.outside, self.lost)))

    @property
    def lost_at(self) -> tuple[str, ...]:
        """Connectors that cannot withdraw their tasks."""
        return tuple(sorted({task.connector for task in self.lost}))


@dataclass(frozen=True)
class Recalled:
    """Result of a recall.

    Attributes
    ----------
    tasks : int
        Tasks ended, including safe ones in the same messages.
    beside : int
        Safe tasks that ended because they left in one message with an unsafe one.
    messages : int
        Messages withdrawn, or cancelled before they left.
    left : int
        Unsafe tasks that continue.
    """

    tasks: int = 0
    beside: int = 0
    messages: int = 0
    left: int = 0


NOTHING_OPEN: Final = Recall()
NOTHING_RECALLED: Final = Recalled()


def foresee(
    tx: Tx,
    force: ActivePolicy | None,
    withdrawing: Collection[str],
    adversary_ids: Sequence[int] | None = None,
) -> Recall:
    """Find the tasks in progress that the gate would not allow now.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy or None
        The version to judge by; the summary of exposure counts must be that version's.
    withdrawing : Collection of str
        Connectors that can withdraw tasks.
    adversary_ids : Sequence of int, optional
        Only of these; None: of all. Grows with what they hold.
    """
    if force is None:
        return Recall()
    tasks = task_rows.open_tasks(tx, adversary_ids)
    past = {
        who: _past_fields(tx, force, who) for who in {t.adversary_id for t in tasks}
    }
    sorted_: dict[str, list[OpenTask]] = defaultdict(list)
    for task in tasks:
        if _unsafe(force, task, past[task.adversary_id]):
            sorted_[_place(task, withdrawing)].append(task)
    return Recall(**{place: tuple(found) for place, found in sorted_.items()})


def revive(
    tx: Tx, force: ActivePolicy | None, outbox_ids: Sequence[int], now: int
) -> tuple[int, int]:
    """Requeue dead messages, without tasks that have become unsafe since.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy or None
        The version in force.
    outbox_ids : Sequence of int
    now : int
        Microseconds UTC.

    Returns
    -------
    messages, kept_back : int
        Messages requeued, and their tasks that the gate would not allow now and that
        are not sent.
    """
    messages = outbox.revive(tx, outbox_ids, now)
    mine = set(outbox_ids)
    found = foresee(tx, force, (), outbox.adversaries_of_messages(tx, outbox_ids))
    every = found.unsent + found.shown + found.outside + found.lost
    unsafe = [task.id for task in every if task.outbox_id in mine]
    return messages, task_rows.end_live(tx, unsafe)


def withdraw(
    tx: Tx, outbox_ids: Sequence[int], withdrawing: Collection[str], *, at: int
) -> tuple[int, int, list[int]]:
    """Take messages back: those that never left, those given up, and what can be recalled.

    What they showed stays booked.

    Parameters
    ----------
    tx : Tx
    outbox_ids : Sequence of int
    withdrawing : Collection of str
        Connectors that can withdraw tasks.
    at : int
        Microseconds UTC.

    Returns
    -------
    messages, tasks : int
        Messages taken back, and their tasks that ended.
    left : list of int
        Messages that go on: they may be at a connector that cannot withdraw tasks.
    """
    found = outbox.states_of(tx, outbox_ids)
    dead = [row.id for row in found if row.state == "dead"]
    unsent = [row.id for row in found if row.state == "ready" and not row.attempts]
    sent = [
        row.id for row in found if row.state == "sent" and row.connector in withdrawing
    ]
    ended = task_rows.end_live(tx, task_rows.tasks_of_messages(tx, unsent + sent))
    messages = (
        outbox.drop_dead(tx, dead)
        + outbox.cancel_empty(tx, unsent)
        + outbox.withdraw(tx, sent, at)
    )
    return messages, ended, sorted(set(outbox_ids).difference(dead, unsent, sent))


def release(
    tx: Tx, tasks: Sequence[OpenTask], withdrawing: Collection[str], *, at: int
) -> Recalled:
    """Take back tasks that are not needed any more, as far as nobody has begun them.

    What a worker has on our page is finished, and so is what shares a message with
    tasks that are needed, once it is outside.

    Parameters
    ----------
    tx : Tx
    tasks : Sequence of OpenTask
    withdrawing : Collection of str
        Connectors that can withdraw tasks.
    at : int
        Microseconds UTC.
    """
    mine = {task.id for task in tasks}
    places: dict[str, list[OpenTask]] = defaultdict(list)
    for task in tasks:
        place = _place(task, withdrawing)
        if place == "outside" and task.outbox_id is not None:
            others = set(task_rows.tasks_of_messages(tx, [task.outbox_id])) - mine
            place = "lost" if others else place
        places["lost" if place == "shown" else place].append(task)
    found = Recall(**{place: tuple(some) for place, some in places.items()})
    return take_back(tx, found, InFlightAction.RECALL, at=at)


def take_back(tx: Tx, found: Recall, how: InFlightAction, *, at: int) -> Recalled:
    """Recall what :func:`foresee` found, in the transaction of the change."""
    if how is InFlightAction.KEEP:
        return Recalled(left=found.unsafe)
    # A message that may have left is kept from leaving: a late answer still counts.
    waiting = [task for task in found.outside + found.lost if _waits(task)]
    recalled = [*found.unsent, *waiting]
    sent: list[int] = []
    if how is InFlightAction.RECALL:
        recalled += [*found.shown, *found.outside]
        sent = [task.outbox_id for task in found.outside if task.outbox_id is not None]
    unsafe = {task.id for task in recalled}
    beside = sorted(set(task_rows.tasks_of_messages(tx, sent)) - unsafe)
    ended = task_rows.end_live(tx, sorted(unsafe))
    also = task_rows.end_live(tx, beside)
    unsent = [t.outbox_id for t in found.unsent if t.outbox_id is not None]
    messages = outbox.cancel_empty(tx, unsent) + outbox.withdraw(tx, sent, at)
    return Recalled(ended + also, also, messages, found.unsafe - len(unsafe))


def _past_fields(tx: Tx, force: ActivePolicy, adversary: int) -> dict[int, set[str]]:
    """Return the fields no longer allowed to the adversary, by record or subject."""
    past = past_units(tx, force, adversary, trusted_rules_of(tx, force, adversary))
    ends = {
        unit: [subject_unit(end) for end in both if end is not None]
        for unit, *both in rows.links(tx, [unit for _, unit in past if unit < 0])
    }
    fields: dict[int, set[str]] = defaultdict(set)
    for rule, unit in past:
        for one in ends.get(unit, [unit]):
            fields[one] |= force.policy.properties[rule].fields
    return fields


def _unsafe(force: ActivePolicy, task: OpenTask, past: dict[int, set[str]]) -> bool:
    standing = force.fields.get(task.field_id)
    if standing is None or not standing.sent:
        return True
    units = [record_unit(task.record_id)]
    if task.subject_id is not None:
        units.append(subject_unit(task.subject_id))
    return any(standing.name in past.get(unit, ()) for unit in units)


def _waits(task: OpenTask) -> bool:
    """Whether a task's message may still leave: it was tried, or is being sent."""
    return task.state == "booked" and task.message_state in ("ready", "leased")


def _place(task: OpenTask, withdrawing: Collection[str]) -> str:
    if task.state == "shown":
        return "shown"
    if task.state == "booked" and task.message_state == "ready" and not task.attempts:
        return "unsent"
    return "outside" if task.connector in withdrawing else "lost"
