"""Messages out, tasks, answers back, results and files."""

from sqlalchemy import CheckConstraint, Column, Index, SmallInteger, Text, text
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, states_of, word


class Outbox(SQLModel, table=True):
    """One message for one connector; its id is the idempotency key."""

    __tablename__ = "outbox"
    __table_args__ = (
        states_of("outbox"),
        CheckConstraint("kind IN ('publish','offer','withdraw')", name="kind"),
        Index(None, "state", "due", "id"),
    )
    id: int = Field(sa_column=number())
    connector: str = Field(sa_column=word(40))
    account_id: int = Field(sa_column=big())
    kind: str = Field(sa_column=word(8))
    state: str = Field(default="ready", sa_column=word(12))
    due: int = Field(sa_column=big())
    attempts: int = Field(default=0, sa_column=big())
    epoch: int = Field(default=0, sa_column=big())  # of the daemon that leased it
    leased_until: int | None = Field(default=None, sa_column=big(null=True))
    handle: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    error: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    created_at: int = Field(sa_column=big())


class Task(SQLModel, table=True):
    """One showing of one entry to one account, with what became of it.

    Its public name is an opaque token made from the id (``keys.task_token``). Push
    tasks carry the outbox message they leave with; pull tasks are born when served.
    """

    __tablename__ = "task"
    __table_args__ = (
        states_of("task"),
        Index(None, "entry_id"),
        Index(None, "account_id", "created_at"),
        Index(None, "outbox_id"),
        # Only pull tasks are ever "shown", and only while leased: a handful of rows,
        # so that arriving, and expiry, never walk an account's history.
        Index(
            "ix_task_shown",
            "account_id",
            "leased_until",
            sqlite_where=text("state = 'shown'"),
            postgresql_where=text("state = 'shown'"),
        ),
    )
    id: int = Field(sa_column=number())
    entry_id: int = Field(sa_column=big())
    account_id: int = Field(sa_column=big())
    adversary_id: int = Field(sa_column=big())
    connector: str = Field(sa_column=word(40))
    outbox_id: int | None = Field(default=None, sa_column=big(null=True))
    state: str = Field(sa_column=word(12))
    created_at: int = Field(sa_column=big())
    leased_until: int | None = Field(default=None, sa_column=big(null=True))
    draft: bytes | None = Field(default=None, sa_column=content(null=True))
    key_id: int | None = Field(default=None, sa_column=big(null=True))


class TaskAnswer(SQLModel, table=True):
    """What one account answered to one task; one answer a task.

    ``counted`` turns 1 when assembly has looked at the answer: those with 0 are its
    work, however late their transaction came.
    """

    __tablename__ = "answer"
    __table_args__ = (
        Index(None, "entry_id"),
        # What came in since a moment is counted by this index alone.
        Index(None, "at", "account_id", "valid"),
        Index(
            "ix_answer_uncounted",
            "entry_id",
            sqlite_where=text("counted = 0"),
            postgresql_where=text("counted = 0"),
        ),
    )
    task_id: int = Field(sa_column=number())
    entry_id: int = Field(sa_column=big())
    account_id: int = Field(sa_column=big())
    raw: bytes = Field(sa_column=content())
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    valid: int = Field(sa_column=Column(SmallInteger, nullable=False))
    reason: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    at: int = Field(sa_column=big())
    counted: int = Field(default=0, sa_column=Column(SmallInteger, nullable=False))


class Result(SQLModel, table=True):
    """The consensus of an entry's answers, or what an operator decided instead.

    ``judged_by`` is the operator; where it is set, later answers change nothing.
    """

    __tablename__ = "result"
    __table_args__ = (
        states_of("result"),
        # A few of millions: the queue of those who judge reads nothing else.
        Index(
            "ix_result_conflict",
            "entry_id",
            sqlite_where=text("state = 'conflict'"),
            postgresql_where=text("state = 'conflict'"),
        ),
    )
    entry_id: int = Field(sa_column=number())
    value: bytes | None = Field(default=None, sa_column=content(null=True))
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    confidence: float = Field(default=0.0)
    wanted: int = Field(default=0, sa_column=big())  # answers wanted by now
    state: str = Field(default="open", sa_column=word(12))
    at: int = Field(sa_column=big())
    judged_by: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class Quarantine(SQLModel, table=True):
    """What came from outside and fits no task: kept, never acted on.

    An operator who has looked at it dismisses it; it is kept all the same, so that what
    is delivered again stays known.
    """

    __tablename__ = "quarantine"
    __table_args__ = (
        Index(
            "ix_quarantine_waiting",
            "id",
            sqlite_where=text("dismissed_at IS NULL"),
            postgresql_where=text("dismissed_at IS NULL"),
        ),
    )
    id: int = Field(sa_column=number())
    connector: str = Field(sa_column=word(40))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    payload: bytes = Field(sa_column=content())
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    at: int = Field(sa_column=big())
    dismissed_at: int | None = Field(default=None, sa_column=big(null=True))
    dismissed_why: str | None = Field(
        default=None, sa_column=Column(Text, nullable=True)
    )


class ExportFile(SQLModel, table=True):
    """Files of whole records that were written, so that an erasure finds them."""

    __tablename__ = "export_file"
    id: int = Field(sa_column=number())
    run_id: int = Field(sa_column=big(of="run.id"))
    path: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=big())
