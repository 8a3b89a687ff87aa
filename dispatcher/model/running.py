"""What the daemon and the surfaces keep of themselves."""

from sqlalchemy import Column, Index, LargeBinary, String, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, number, word


class Cursor(SQLModel, table=True):
    """How far each connector's answers are collected."""

    __tablename__ = "cursor"
    connector: str = Field(sa_column=Column(String(40), primary_key=True))
    value: str = Field(sa_column=Column(Text, nullable=False))


class Lease(SQLModel, table=True):
    """Who leads a shard; ``epoch`` is the fencing token of its gate writes.

    ``serves`` is NULL for a shard's leader; rows of servers beside it say what they serve.
    """

    __tablename__ = "lease"
    shard: int = Field(sa_column=number())
    holder: str = Field(sa_column=Column(Text, nullable=False))
    epoch: int = Field(sa_column=big())
    leased_until: int = Field(sa_column=big())
    serves: str | None = Field(default=None, sa_column=word(40, null=True))


class UnshippedPiece(SQLModel, table=True):
    """Lines of the ledger that a server committed and the leader has yet to ship.

    The row is written with the lines and deleted when they are shipped; ``chain`` is empty
    for a made-up question, which waits as long and has no line.
    """

    __tablename__ = "unshipped_piece"
    id: int = Field(sa_column=number())
    chain: str = Field(sa_column=word(80))
    chain_id: int = Field(sa_column=big())
    first: int = Field(sa_column=big())
    prev: str = Field(sa_column=word(64))
    last: int = Field(sa_column=big())
    head: str = Field(sa_column=word(64))
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Pause(SQLModel, table=True):
    """What is paused: ``all``, ``connector:NAME`` or ``run:NAME``."""

    __tablename__ = "pause"
    scope: str = Field(sa_column=Column(String(120), primary_key=True))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=big())


class SignInLink(SQLModel, table=True):
    """A link that opens the operators' console once; only its digest is kept.

    ``purpose`` is NULL where it opens a session at once, ``enrol`` where ``user_id``
    chooses a password with it, ``first-admin`` where that is the first of all users.
    ``oidc``, ``oidc-enrol`` and ``oidc-prove`` are ways to an OpenID provider and back,
    which begin in one browser and end there: to sign in, to enrol, and to give again
    what opens a session.
    """

    __tablename__ = "sign_in_link"
    digest: str = Field(sa_column=Column(String(64), primary_key=True))
    made_at: int = Field(sa_column=big())
    ends_at: int = Field(sa_column=big())
    used_at: int | None = Field(default=None, sa_column=big(null=True))
    purpose: str | None = Field(default=None, sa_column=word(12, null=True))
    user_id: int | None = Field(default=None, sa_column=big(null=True))


class OperatorSession(SQLModel, table=True):
    """A browser that signed in to the console; only its cookie's digest is kept.

    ``user_id`` is NULL where a link opened it. ``proven_at`` is when its person last gave
    what opens one: some acts ask for it again.
    """

    __tablename__ = "operator_session"
    digest: str = Field(sa_column=Column(String(64), primary_key=True))
    opened_at: int = Field(sa_column=big())
    seen_at: int = Field(sa_column=big())
    ended_at: int | None = Field(default=None, sa_column=big(null=True))
    user_id: int | None = Field(default=None, sa_column=big(null=True))
    proven_at: int | None = Field(default=None, sa_column=big(null=True))


class WorkerSession(SQLModel, table=True):
    """A browser that a worker arrived with; only its cookie's digest is kept."""

    __tablename__ = "worker_session"
    __table_args__ = (Index(None, "account_id"),)
    digest: str = Field(sa_column=Column(String(64), primary_key=True))
    account_id: int = Field(sa_column=big())
    invite: int = Field(sa_column=big())  # number of the invite that opened it
    opened_at: int = Field(sa_column=big())
    seen_at: int = Field(sa_column=big())
    ends_at: int = Field(sa_column=big())


class BrowserArrival(SQLModel, table=True):
    """An account that arrived with a browser, known by a keyed digest of its cookie."""

    __tablename__ = "browser_arrival"
    browser: str = Field(sa_column=Column(String(64), primary_key=True))
    account_id: int = Field(sa_column=number())
    at: int = Field(sa_column=big())  # of the last arrival


class SuspectPair(SQLModel, table=True):
    """Two accounts that arrived with one browser: they may be one person."""

    __tablename__ = "suspect_pair"
    first_id: int = Field(sa_column=number())  # the lesser account
    second_id: int = Field(sa_column=number())
    noted_at: int = Field(sa_column=big())
    at: int = Field(sa_column=big())  # of the last such arrival
    dismissed_at: int | None = Field(default=None, sa_column=big(null=True))


class WebhookDelivery(SQLModel, table=True):
    """Webhook calls of markets that were verified, for a day: each counts once."""

    __tablename__ = "webhook_delivery"
    connector: str = Field(sa_column=Column(String(40), primary_key=True))
    call: str = Field(sa_column=Column(String(64), primary_key=True))
    at: int = Field(sa_column=big())


class Event(SQLModel, table=True):
    """What happened, and by whom: ids and numbers only, no values.

    The acts of people stand in :class:`dispatcher.model.AuditLine` as well.
    """

    __tablename__ = "event"
    id: int = Field(sa_column=number())
    at: int = Field(sa_column=big())
    actor: str = Field(sa_column=Column(Text, nullable=False))
    action: str = Field(sa_column=word(40))
    detail: str = Field(default="{}", sa_column=Column(Text, nullable=False))


class Sample(SQLModel, table=True):
    """A figure as it was at a moment: the past of what other tables show as it is now.

    ``at`` is the beginning of a period. ``measure`` is a word of the program's, ``label``
    the connector or field that it is about; empty: all.
    """

    __tablename__ = "sample"
    __table_args__ = ({"sqlite_with_rowid": False},)
    measure: str = Field(sa_column=Column(String(24), primary_key=True))
    at: int = Field(sa_column=number())
    label: str = Field(sa_column=Column(String(400), primary_key=True))
    value: int = Field(sa_column=big())


class ApiRequest(SQLModel, table=True):
    """A request of the API that acts, for two days: what was asked, what came of it.

    ``key`` is the caller's Idempotency-Key; NULL for what is worked on after the answer.
    """

    __tablename__ = "api_request"
    __table_args__ = (UniqueConstraint("caller", "key"),)
    id: str = Field(sa_column=Column(String(40), primary_key=True))
    caller: str = Field(sa_column=Column(String(200), nullable=False))
    operation: str = Field(sa_column=word(60))
    key: str | None = Field(default=None, sa_column=Column(String(255)))
    digest: str = Field(sa_column=word(64))
    state: str = Field(sa_column=word(12))  # running, done, failed, interrupted
    process: str = Field(sa_column=word(16))
    status: int = Field(sa_column=big())
    body: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    started_at: int = Field(sa_column=big())
    ended_at: int | None = Field(default=None, sa_column=big(null=True))
