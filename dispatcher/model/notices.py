"""Notices: what programs and people outside are told, and how far that got.

:data:`NOTICES` is the one table of what there is to tell; code, documentation and tests
read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import Column, Index, String, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, word


class Webhook(SQLModel, table=True):
    """An address that notices are posted to; its secret is sealed.

    ``types`` are separated by spaces; empty: all but heartbeats. Until ``old_until``
    messages are signed with the secret of before as well.
    """

    __tablename__ = "webhook"
    id: int = Field(sa_column=number())
    url: str = Field(sa_column=Column(Text, nullable=False))
    types: str = Field(sa_column=Column(Text, nullable=False))
    secret: bytes = Field(sa_column=content())
    old_secret: bytes | None = Field(default=None, sa_column=content(null=True))
    old_until: int | None = Field(default=None, sa_column=big(null=True))
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    made_at: int = Field(sa_column=big())
    disabled_at: int | None = Field(default=None, sa_column=big(null=True))


class Notice(SQLModel, table=True):
    """Something to tell, written in the transaction in which it happened.

    ``message`` is random: no two notices share it, not even in a store that was put
    back. ``data`` is JSON: ids and names that the operator chose. ``fanned`` is 1 once
    each receiver has its delivery.
    """

    __tablename__ = "notice"
    __table_args__ = (UniqueConstraint("message"), Index(None, "fanned"))
    id: int = Field(sa_column=number())
    message: str = Field(sa_column=word(40))
    type: str = Field(sa_column=word(40))
    at: int = Field(sa_column=big())
    data: str = Field(sa_column=Column(Text, nullable=False))
    fanned: int = Field(sa_column=big())


class NoticeDelivery(SQLModel, table=True):
    """One notice on its way to one webhook, or by mail (``webhook_id`` 0).

    ``state`` is ``ready``, ``sent`` or ``failed``. An attempt counts before it is made,
    and ``due`` is then when the next one would be.
    """

    __tablename__ = "notice_delivery"
    __table_args__ = (Index(None, "state", "due"), Index(None, "webhook_id", "id"))
    id: int = Field(sa_column=number())
    notice_id: int = Field(sa_column=big())
    webhook_id: int = Field(sa_column=big())
    state: str = Field(sa_column=word(12))
    attempts: int = Field(sa_column=big())
    due: int = Field(sa_column=big())
    status: int | None = Field(default=None, sa_column=big(null=True))
    error: str | None = Field(default=None, sa_column=Column(String(200)))
    ended_at: int | None = Field(default=None, sa_column=big(null=True))


Mail = Literal["night", "day", "no"]
"""Whether a notice is mailed: at once, once quiet hours are over, or not at all."""
Source = Literal["event", "act", "state", "direct"]
"""Where it comes from: a row of ``event``, a line of the audit chain, a state that the
daemon looks at, or the code that does it."""


@dataclass(frozen=True)
class NoticeType:
    """A kind of notice.

    Attributes
    ----------
    source : Source
    mail : Mail
    data : tuple of str
        Members of its data: ids, names that the operator chose, codes. Never a value.
    text : str
        One sentence, with the members in braces.
    fix : str
        The command to look with, or to mend it.
    """

    source: Source
    mail: Mail
    data: tuple[str, ...]
    text: str
    fix: str = ""


ALIVE: Final = "daemon.alive"
"""Heartbeat of the daemon that leads: only webhooks that name it get it."""
TEST: Final = "notices.test"

NOTICES: Final[Mapping[str, NoticeType]] = {
    "record.loaded": NoticeType(
        "direct", "no", ("load",), "file {load} was loaded", "dispatcher runs list"
    ),
    "run.completed": NoticeType(
        "state",
        "no",
        ("run",),
        "every field of run {run} has its answer",
        "dispatcher records reassemble --run {run} -o FILE",
    ),
    "worker.registered": NoticeType(
        "act",
        "no",
        ("act",),
        "workers were added (line {act} of the audit log)",
        "dispatcher workers list",
    ),
    "worker.merged": NoticeType(
        "event",
        "no",
        ("event",),
        "accounts became one worker (event {event})",
        "dispatcher audit events",
    ),
    "policy.activated": NoticeType(
        "event",
        "no",
        ("event",),
        "another policy is in force (event {event})",
        "dispatcher policy list",
    ),
    "plan.infeasible": NoticeType(
        "state",
        "day",
        ("code",),
        "new records have no plan ({code})",
        "dispatcher plan --dry-run",
    ),
    "plan.refused": NoticeType(
        "event",
        "night",
        ("event",),
        "the gate refused showings that a plan meant (event {event})",
        "dispatcher ledger verify, then: dispatcher plan --dry-run",
    ),
    "field.burnt": NoticeType(
        "state",
        "no",
        ("field",),
        "more fields {field} were shown as often as t allows, without enough answers",
        "dispatcher fields list --burnt",
    ),
    "answer.disputed": NoticeType(
        "state",
        "no",
        (),
        "answers of more fields are in conflict",
        "dispatcher records list --state conflict",
    ),
    "limit.near": NoticeType(
        "state",
        "day",
        ("rule",),
        "somebody is near the limit of rule {rule}",
        "dispatcher status",
    ),
    "limit.crossed": NoticeType(
        "event",
        "night",
        ("event",),
        "a change put somebody past a limit (event {event})",
        "dispatcher audit events, then: dispatcher ledger tail",
    ),
    "connector.down": NoticeType(
        "state",
        "day",
        ("connector",),
        "connector {connector} is down",
        "dispatcher connectors test {connector}",
    ),
    "connector.recovered": NoticeType(
        "state",
        "day",
        ("connector",),
        "connector {connector} works again",
    ),
    "deadletter.created": NoticeType(
        "state",
        "day",
        ("connector",),
        "messages for {connector} were given up",
        "dispatcher queue list --state dead",
    ),
    "budget.near": NoticeType(
        "state",
        "day",
        ("run",),
        "80 % of the budget of run {run} is promised or paid",
        "dispatcher runs show {run}",
    ),
    "budget.spent": NoticeType(
        "state",
        "day",
        ("run",),
        "the budget of run {run} is used up, and nothing new is begun",
        "dispatcher runs budget {run} --cap AMOUNT",
    ),
    "certificate.issued": NoticeType(
        "act",
        "no",
        ("act",),
        "evidence was exported (line {act} of the audit log)",
        "dispatcher audit log",
    ),
    "subject.erased": NoticeType(
        "event",
        "no",
        ("event",),
        "a person was erased (event {event})",
        "dispatcher audit events",
    ),
    "backup.failed": NoticeType(
        "event",
        "day",
        ("event",),
        "a backup failed (event {event})",
        "dispatcher backup create",
    ),
    "backup.overdue": NoticeType(
        "state",
        "day",
        (),
        "no backup was made for more than 26 hours",
        "dispatcher backup create",
    ),
    "daemon.failing": NoticeType(
        "state",
        "day",
        ("tick", "code"),
        "the daemon cannot do its {tick} ({code})",
        "dispatcher doctor",
    ),
    "daemon.stopped": NoticeType(
        "direct",
        "night",
        ("code",),
        "the daemon stopped by itself ({code}): nothing is shown or sent",
        "dispatcher explain {code}",
    ),
    "daemon.lost": NoticeType(
        "direct",
        "night",
        ("epoch",),
        "the daemon of epoch {epoch} ended without stopping; another one leads now",
        "dispatcher status",
    ),
    ALIVE: NoticeType("direct", "no", (), "the daemon leads"),
    "webhook.disabled": NoticeType(
        "direct",
        "day",
        ("webhook",),
        "webhook {webhook} answered 410 Gone and gets nothing any more",
        "dispatcher notices list",
    ),
    TEST: NoticeType("direct", "night", (), "this is a test of the notices"),
}
"""Every notice that there is, by its type."""

OF_ACTS: Final[Mapping[str, str]] = {
    "workers.add": "worker.registered",
    "audit.export": "certificate.issued",
}
"""Operations whose lines in the audit chain are notices."""
