"""A task as its worker sees it: one hand makes real fields and made-up ones alike."""

from __future__ import annotations

from typing import Protocol

from dispatcher.core import keys
from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.stages.serving.values import SECOND, Showing


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


class Seen(Protocol):
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
    seen: Seen | None,
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
    seen : Seen or None
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
        left=max(0, ((task.leased_until or now) - now) // SECOND),
        of_test=of_test,
    )
