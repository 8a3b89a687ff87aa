"""Kinds of columns, and how constraints are named."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
)
from sqlmodel import SQLModel

from dispatcher.model.states import TRANSITIONS

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata: MetaData = SQLModel.metadata


def states_of(table: str) -> CheckConstraint:
    """Return the CHECK that a table's states are those of :data:`TRANSITIONS`."""
    # The state that rows are born with comes first, on its own: SQLite looks a list up
    # in a tree that it builds, which costs as much as the rest of a bulk insert.
    born, *later = TRANSITIONS[table]
    listed = ", ".join(f"'{state}'" for state in later)
    return CheckConstraint(f"state = '{born}' OR state IN ({listed})", name="state")


def number(*, of: str | None = None) -> Column[int]:
    """Make the column of a single integer key; ``of`` is what it refers to."""
    # INTEGER makes a single key SQLite's rowid itself: one tree instead of two.
    kind = BigInteger().with_variant(Integer(), "sqlite")
    refers = [] if of is None else [ForeignKey(of)]
    return Column(kind, *refers, primary_key=True, autoincrement=False)


def big(*, null: bool = False, of: str | None = None) -> Column[int]:
    """Make a column of 64-bit integers, moments too; ``of`` is what it refers to."""
    refers = [] if of is None else [ForeignKey(of)]
    return Column(BigInteger, *refers, nullable=null)


def word(length: int, *, null: bool = False) -> Column[str]:
    """Make a column of short text of the program's own."""
    return Column(String(length), nullable=null)


def content(*, null: bool = False) -> Column[bytes]:
    """Make a column of bytes."""
    return Column(LargeBinary, nullable=null)
