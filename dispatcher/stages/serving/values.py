"""Values of serving: the present worker, what is shown, and the result of an answer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Final, Protocol

from dispatcher.core import keys
from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.store import Tx, gold_questions
from dispatcher.store import tasks as task_rows
from dispatcher.store.serving import ServedAccount
from dispatcher.store.tasks import TaskRow
from policies.answers.skill import EXPECTED_RIGHT
from policies.answers.validation import Mark
from policies.policy import Field

# A browser drops most control characters silently; a worker is to see that they are
# there. Their pictures stand in Unicode at 2400 onwards.
_PICTURES: Final = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"},
    127: "\u2421",
}


MOST_GOLD: Final = 0.5
"""Share of new tasks that may be made up."""


@dataclass(frozen=True)
class ServingTerms:
    """Settings of leasing and choosing tasks.

    Attributes
    ----------
    lease : float
        Seconds that a worker has for one task, > 0.
    extensions : int
        How often the worker may have as much time again, >= 0.
    patience : float
        Seconds for which a new plan's pairs are kept for their own workers.
    apart : float
        Seconds that must lie between two tasks of one record for one worker, unless
        another task lay between them: in a row they could be linked. Not for ever: the
        last fields of a record would else never be asked.
    gold : float
        Share of new tasks that are made up, 0 <= gold <= 0.5; those whose field has no
        gold left are real all the same.
    floor : float
        Accuracy below which a worker is given nothing new, 0 <= floor < 0.8: that much
        is expected of one of whom nothing is known. 0 stops nobody.
    floor_after : int
        Answers after which the floor is asked about, >= 1.
    undo : float
        Seconds for which an answer can be taken back; 0: not at all.
    choose : int
        Kinds of work among which a worker may choose; 0: what is shown is assigned.
    """

    lease: float = 600.0
    extensions: int = 10
    patience: float = 900.0
    apart: float = 15.0
    gold: float = 0.1
    floor: float = 0.0
    floor_after: int = 20
    undo: float = 10.0
    choose: int = 0

    def __post_init__(self) -> None:
        if not self.lease > 0:
            msg = f"lease is {self.lease}, expected seconds > 0"
            raise ValueError(msg)
        for name in ("extensions", "patience", "apart", "undo", "choose"):
            if not getattr(self, name) >= 0:
                msg = f"{name} is {getattr(self, name)}, expected >= 0"
                raise ValueError(msg)
        if not 0 <= self.gold <= MOST_GOLD:
            msg = f"gold is {self.gold}, expected 0 <= gold <= {MOST_GOLD}"
            raise ValueError(msg)
        if not 0 <= self.floor < EXPECTED_RIGHT:
            msg = f"floor is {self.floor}, expected 0 <= floor < {EXPECTED_RIGHT}"
            raise ValueError(msg)
        if self.floor_after < 1:
            msg = f"floor_after is {self.floor_after}, expected >= 1"
            raise ValueError(msg)

    @property
    def lease_micros(self) -> int:
        """The lease in microseconds."""
        return round(self.lease * 1_000_000)

    def undoable_since(self, now: int) -> int:
        """Moment since which an answer was given that can be taken back now."""
        return now - held_back(self.undo) if self.undo else now + 1

    def until(self, created_at: int, now: int) -> int:
        """When a lease ends that is extended now, as far as the extensions reach."""
        last = created_at + self.lease_micros * (1 + self.extensions)
        return min(now + self.lease_micros, last)


GRACE: Final = 5.0
"""Seconds that a slow line may take to bring an answer's page, and the undo back."""


def held_back(undo: float) -> int:
    """Microseconds for which nothing is made of an answer, since it may be taken back."""
    return round((undo + GRACE) * 1_000_000) if undo else 0


@dataclass(frozen=True)
class Present:
    """A worker who has arrived and may work.

    Attributes
    ----------
    account_id : int
    number : int
        Of the invite; when the account's is raised the worker is out.
    stopped : bool
        Whether nothing new is shown, below the floor.
    language : str or None
        What they chose to read in.
    """

    account_id: int
    number: int
    stopped: bool = False
    language: str | None = None


@dataclass(frozen=True)
class Showing:
    """One field as it is shown to one worker; its exposure is durable.

    Attributes
    ----------
    task_id : int
    token : str
        Opaque public name of the task.
    field : Field
        How it is asked for.
    media : str
        ``text/plain`` or an image type.
    content : bytes
        The shown form.
    draft : str
        What was typed so far, as :func:`~dispatcher.stages.serving.compose` made it.
    draft_mark : str
        Which draft that is: see :class:`Draft`.
    left : int
        Whole seconds of the lease that remain.
    of_test : bool
        Whether it is a made-up question of a test, and says so.
    """

    task_id: int
    token: str
    field: Field
    media: str
    content: bytes = dataclass_field(repr=False)
    draft: str = dataclass_field(repr=False)
    draft_mark: str = ""
    left: int = 0
    of_test: bool = False

    @property
    def words(self) -> str | None:
        """The text to read; None for an image."""
        return None if self.media.startswith("image/") else self.text

    @property
    def text(self) -> str:
        """The content as text, with control characters made visible, one for one."""
        return self.content.decode("utf-8", "replace").translate(_PICTURES)


@dataclass(frozen=True)
class Given:
    """What a worker submits: the form's fields, or one of the two marks."""

    form: Mapping[str, str] = dataclass_field(repr=False)
    mark: Mark | None = None


@dataclass(frozen=True)
class Draft:
    """What the store has of a task's draft.

    Attributes
    ----------
    mark : str
        Equal for equal texts; reveals nothing of them without the store's key.
    kept : bool
        False: another window had saved another text, which was left as it is.
    """

    mark: str
    kept: bool = True


@dataclass(frozen=True)
class Saved:
    """The task has its answer.

    Attributes
    ----------
    words : str
        What the worker is told.
    repeated : bool
        Whether it had it before: what was sent now is not kept. Made-up questions do
        not know what was answered, so that the words are the same for the same answer.
    undo : bool
        Whether it can be taken back for some seconds.
    """

    words: str = "Your answer was saved."
    repeated: bool = False
    undo: bool = dataclass_field(default=False, compare=False)


ANSWERED_BEFORE: Final = Saved(
    "This task was finished before, perhaps in another window. What you sent first "
    "counts; what you sent now was not kept.",
    repeated=True,
)


@dataclass(frozen=True)
class Wrong:
    """The answer is not valid for what is asked; nothing was lost.

    Attributes
    ----------
    reason : str
        For the worker; does not repeat the answer.
    showing : Showing
        The same task again, with what was typed.
    """

    reason: str
    showing: Showing


SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR

IN: Final = frozenset({"active", "stopped"})
"""States of accounts that are let in: who is stopped may end what is in hand."""


def out(account: ServedAccount | None, number: int) -> bool:
    """Whether an account is let in no more, or not by this invite."""
    return account is None or account.state not in IN or account.invite != number


def lapsed(task: TaskRow | None, now: int) -> bool:
    """Whether the lease of a task is over, and not long ago."""
    if task is None or task.leased_until is None or task.leased_until > now:
        return False
    return task.state in ("shown", "expired") and task.created_at > now - DAY


def foremost(tx: Tx, account_id: int, now: int, terms: ServingTerms) -> int:
    """End of a lease that is later than those of all that an account has in hand.

    Of several tasks the one with the latest end is the one that the page shows.
    """
    ends = [
        task.leased_until or 0
        for task in (
            task_rows.leased_task(tx, account_id, now),
            gold_questions.in_hand(tx, account_id, now),
        )
        if task is not None
    ]
    return max([now + terms.lease_micros, *(end + 1 for end in ends)])


def full(
    tx: Tx, account: ServedAccount, force: ActivePolicy, now: int, *, booked: int = 0
) -> bool:
    """Whether a capacity of the policy stops the account for now.

    ``booked``: how many of its tasks were booked in this transaction, to be judged.
    Gold counts in a day and an hour: the moment when room is again would tell of each
    task whether it was gold. In all it does not, for real fields are planned by that.
    """
    allowed = force.policy.capacity(f"{account.connector}/{account.name}")
    given = 0 if allowed.total is None else task_rows.tasks_since(tx, account.id, -1)
    day, hour = (
        0
        if limit is None
        else task_rows.tasks_since(tx, account.id, since)
        + gold_questions.gold_since(tx, account.id, since)
        for limit, since in (
            (allowed.per_day, now - DAY),
            (allowed.per_hour, now - HOUR),
        )
    )
    # Nothing is in hand: whoever has a task in hand gets that one again.
    return allowed.room(given - booked, 0, day - booked, hour - booked) == 0


# -- a task as its worker sees it: one hand makes real fields and made-up ones alike ---


class Handed(Protocol):
    """What a worker has in hand."""

    @property
    def id(self) -> int:
        """Number of the task."""

    @property
    def draft(self) -> bytes | None:
        """What was typed so far."""

    @property
    def leased_until(self) -> int | None:
        """When the time is over, microseconds UTC."""


class ShownContent(Protocol):
    """What is shown of it: an entry of a record, or a made-up question."""

    @property
    def field_id(self) -> int:
        """The field that is asked for."""

    @property
    def media(self) -> str:
        """``text/plain`` or an image type."""

    @property
    def shown(self) -> bytes:
        """The shown form."""


def showing_of(
    force: ActivePolicy | None,
    task: Handed,
    seen: ShownContent | None,
    *,
    key: bytes,
    now: int,
    of_test: bool = False,
) -> Showing | None:
    """Make what is shown of a task; None if the policy sends its field no more.

    Parameters
    ----------
    force : ActivePolicy or None
    task : Handed
    seen : ShownContent or None
        None: it is gone.
    key : bytes
        Names tasks outside.
    now : int
        Microseconds UTC.
    of_test : bool
        Whether the page says that it is a question of a test.
    """
    if force is None or seen is None:
        return None
    field = force.fields.get(seen.field_id)
    if field is None or not field.sent:
        return None
    return Showing(
        task_id=task.id,
        token=keys.task_token(key, task.id),
        field=force.policy.entity.fields[field.name],
        media=seen.media,
        content=seen.shown,
        draft=(task.draft or b"").decode("utf-8", "replace"),
        draft_mark=draft_mark(key, task.id, task.draft),
        left=max(0, ((task.leased_until or now) - now) // SECOND),
        of_test=of_test,
    )


def draft_mark(key: bytes, task_id: int, draft: bytes | None) -> str:
    """Version of a draft, by which a window detects a save by another one."""
    text = task_id.to_bytes(8, "big") + (draft or b"")
    return hmac.digest(key, b"draft\0" + text, "sha256").hex()[:32]


def redrafted(key: bytes, task: Handed, typed: bytes, seen: str | None) -> Draft:
    """What becomes of a task's draft when a window saves what was typed there.

    Parameters
    ----------
    key : bytes
        Names tasks outside.
    task : Handed
        Locked.
    typed : bytes
    seen : str or None
        Mark of the draft that the window knows; None: it saves in any case.
    """
    now, then = (draft_mark(key, task.id, text) for text in (task.draft, typed))
    kept = seen in (None, now) or now == then
    return Draft(then if kept else now, kept)
