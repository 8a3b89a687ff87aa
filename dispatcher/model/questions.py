"""Made-up questions: no part of any record."""

from sqlalchemy import CheckConstraint, Column, Index, SmallInteger, text
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, states_of, word


class GoldQuestion(SQLModel, table=True):
    """A made-up question with its right answer: no part of any record.

    ``purpose`` is ``test`` (of a field's qualification test) or ``gold`` (mixed among
    the real ones). What is in it was declared synthetic, so it is stored in clear.
    """

    __tablename__ = "gold_question"
    __table_args__ = (
        CheckConstraint("purpose IN ('test','gold')", name="purpose"),
        Index(None, "field_id"),
    )
    id: int = Field(sa_column=number())
    field_id: int = Field(sa_column=big(of="field.id"))
    purpose: str = Field(sa_column=word(4))
    shown: bytes = Field(sa_column=content())
    media: str = Field(sa_column=word(40))
    answer: bytes = Field(sa_column=content())
    retired_at: int | None = Field(default=None, sa_column=big(null=True))


class FieldTest(SQLModel, table=True):
    """A field that asks for a passed qualification test, and the share that passes."""

    __tablename__ = "field_test"
    __table_args__ = (
        CheckConstraint("pass_share > 0 AND pass_share <= 1", name="pass_share"),
    )
    field_id: int = Field(sa_column=number(of="field.id"))
    pass_share: float = Field()


class Qualification(SQLModel, table=True):
    """How far an account is with a field's test; ``attempt`` counts from 1."""

    __tablename__ = "qualification"
    __table_args__ = (states_of("qualification"),)
    account_id: int = Field(sa_column=number())
    field_id: int = Field(sa_column=number(of="field.id"))
    state: str = Field(default="open", sa_column=word(12))
    attempt: int = Field(default=1, sa_column=big())
    asked: int = Field(default=0, sa_column=big())
    correct: int = Field(default=0, sa_column=big())
    ended_at: int | None = Field(default=None, sa_column=big(null=True))


class GoldTask(SQLModel, table=True):
    """One showing of a made-up question to one account: no exposure, no answer.

    Its id is of the same block as a task's, so that its public name has the same shape.
    Only whether the answer was right is kept of it.
    """

    __tablename__ = "gold_task"
    __table_args__ = (
        states_of("gold_task"),
        Index(None, "account_id"),
        Index(None, "gold_question_id"),
        Index(
            "ix_gold_task_shown",
            "account_id",
            "leased_until",
            sqlite_where=text("state = 'shown'"),
            postgresql_where=text("state = 'shown'"),
        ),
    )
    id: int = Field(sa_column=number())
    gold_question_id: int = Field(sa_column=big(of="gold_question.id"))
    account_id: int = Field(sa_column=big())
    state: str = Field(sa_column=word(12))
    created_at: int = Field(sa_column=big())
    leased_until: int | None = Field(default=None, sa_column=big(null=True))
    draft: bytes | None = Field(default=None, sa_column=content(null=True))
    attempt: int = Field(default=0, sa_column=big())  # of a test; 0 for gold
    correct: int | None = Field(
        default=None, sa_column=Column(SmallInteger, nullable=True)
    )
    ended_at: int | None = Field(default=None, sa_column=big(null=True))
