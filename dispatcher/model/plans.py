"""Who may see, and what is planned."""

from sqlalchemy import Column, Index, String, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, states_of, word


class Chain(SQLModel, table=True):
    """A ledger chain and its head. All but ``system`` (id 0) are adversaries.

    ``survivor_id`` is set when the chain ended in a join: the adversary that goes on
    (always the last one, never a chain that ended itself).
    """

    __tablename__ = "chain"
    __table_args__ = (Index(None, "survivor_id"),)
    id: int = Field(sa_column=number())
    name: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    seq: int = Field(default=0, sa_column=big())
    head: str = Field(default="0" * 64, sa_column=word(64))
    at: int = Field(default=0, sa_column=big())
    policy_version: int = Field(default=0, sa_column=big())
    sealed_seq: int = Field(default=0, sa_column=big())
    survivor_id: int | None = Field(default=None, sa_column=big(null=True))


class Account(SQLModel, table=True):
    """A worker's or advertiser's account: ``CONNECTOR/NAME``, of one adversary.

    ``judged_from`` is set when an operator lifted a stop: answers to made-up questions
    count towards the floor from that moment on. ``language`` is what its worker chose on
    the task page.
    """

    __tablename__ = "account"
    __table_args__ = (
        states_of("account"),
        UniqueConstraint("connector", "name"),
        Index(None, "adversary_id"),
    )
    id: int = Field(sa_column=number())
    connector: str = Field(sa_column=word(40))
    name: str = Field(sa_column=Column(Text, nullable=False))
    adversary_id: int = Field(sa_column=big())
    groups: str = Field(default="[]", sa_column=Column(Text, nullable=False))  # JSON
    state: str = Field(default="active", sa_column=word(12))
    invite: int = Field(default=1, sa_column=big())  # number of the valid invite
    quality: float = Field(default=0.8)  # estimated accuracy, 0..1
    judged_from: int | None = Field(default=None, sa_column=big(null=True))
    language: str | None = Field(default=None, sa_column=word(40, null=True))


class Recusal(SQLModel, table=True):
    """A worker said "I know this person": nothing of the unit is shown to them again.

    One row for the record and one for its subject, where it has one.
    """

    __tablename__ = "recusal"
    adversary_id: int = Field(sa_column=number())
    unit_id: int = Field(sa_column=number())


class Plan(SQLModel, table=True):
    """An intention: who is to be shown what; ``summary`` is JSON of numbers.

    ``refused`` counts pairs that the gate refused to book for good: they left the plan and
    are to be planned anew.
    """

    __tablename__ = "plan"
    __table_args__ = (states_of("plan"),)
    id: int = Field(sa_column=number())
    policy_version: int = Field(sa_column=big())
    state: str = Field(default="draft", sa_column=word(12))
    verdict: str = Field(sa_column=word(12))
    algorithm: str = Field(sa_column=word(40))
    seed: int = Field(sa_column=big())
    summary: str = Field(sa_column=Column(Text, nullable=False))
    created_at: int = Field(sa_column=big())
    applied_at: int | None = Field(default=None, sa_column=big(null=True))
    refused: int | None = Field(default=None, sa_column=big(null=True))


class Assignment(SQLModel, table=True):
    """What a plan still means to show to one account: pairs not booked yet.

    ``entries`` is packed: little-endian signed 64-bit entry ids, ascending. One row a
    pair would cost as much as the ledger itself, and a plan is only an intention.
    Booking and serving take out what they book, and what the gate refuses, in the
    transaction that does it; so copies in flight = pairs left here in applied plans +
    live tasks. Pairs of the push connectors are booked by the booking stage, those of
    the pull connectors by serving, when the worker presses Start.
    """

    __tablename__ = "assignment"
    __table_args__ = (Index(None, "adversary_id"),)
    plan_id: int = Field(sa_column=number(of="plan.id"))
    account_id: int = Field(sa_column=number())
    adversary_id: int = Field(sa_column=big())
    entries: bytes = Field(sa_column=content())


class Held(SQLModel, table=True):
    """Entries that the last plan held back, with the reason (no values)."""

    __tablename__ = "held_back"
    entry_id: int = Field(sa_column=number())
    reason: str = Field(sa_column=Column(Text, nullable=False))
