"""The ledger, and what the gate reads of it."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Index,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, word


class LedgerLine(SQLModel, table=True):
    """Every line of every chain, append-only (triggers refuse update and delete).

    Exposures use ``account_id``, ``entry_id``, ``cause`` and ``showing`` (1 when the
    adversary did not hold the entry before, else 0); other kinds keep the rest of
    their members in ``body`` (canonical JSON). ``hash`` is the raw SHA-256.
    """

    __tablename__ = "ledger_line"
    __table_args__ = (
        CheckConstraint(
            "kind = 'exposure'"
            " OR kind IN ('member','join','policy','keys','unburn','seal')",
            name="kind",
        ),
        CheckConstraint("seq >= 1", name="seq"),
        # With ``showing``, so that counting an entry's showings reads the index alone.
        Index(None, "entry_id", "showing"),
        # The few lines that are no exposure, so that those are counted without a look.
        Index(
            "ix_ledger_line_other",
            "chain_id",
            sqlite_where=text("kind <> 'exposure'"),
            postgresql_where=text("kind <> 'exposure'"),
        ),
        {"sqlite_with_rowid": False},
    )
    chain_id: int = Field(sa_column=number())
    seq: int = Field(sa_column=number())
    kind: str = Field(sa_column=word(8))
    at: int = Field(sa_column=big())
    policy_version: int = Field(sa_column=big())
    account_id: int | None = Field(default=None, sa_column=big(null=True))
    entry_id: int | None = Field(default=None, sa_column=big(null=True))
    cause: str | None = Field(default=None, sa_column=word(20, null=True))
    showing: int | None = Field(
        default=None, sa_column=Column(SmallInteger, nullable=True)
    )
    body: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    hash: bytes = Field(sa_column=content())


class ExposureCount(SQLModel, table=True):
    """What each adversary holds of each unit: the gate's summary.

    ``entries`` counts distinct entries. ``time`` is the entries' moment where a
    windowed rule needs it, else 0. Kept in the transaction of the exposure, and
    rebuildable from the ledger lines. Only units that a rule of the policy in force
    judges have rows.
    """

    __tablename__ = "exposure_count"
    __table_args__ = (
        CheckConstraint("entries >= 1", name="entries"),
        {"sqlite_with_rowid": False},
    )
    adversary_id: int = Field(sa_column=number())
    unit_id: int = Field(sa_column=number())
    field_id: int = Field(sa_column=number())
    time: int = Field(default=0, sa_column=number())
    entries: int = Field(sa_column=big())


class Link(SQLModel, table=True):
    """A pair of subjects in a relation: holds from a version on, and never lapses.

    ``one < other`` are pseudonyms of subjects, of whom nothing may be loaded yet. The
    link's unit id is :func:`link_unit`.
    """

    __tablename__ = "link"
    __table_args__ = (
        UniqueConstraint("relation", "one", "other"),
        # with "one": else SQLite takes the constraint's index, and reads all links
        Index(None, "relation", "other", "one"),
    )
    id: int = Field(sa_column=number())
    relation: str = Field(sa_column=Column(String(400), nullable=False))
    one: str = Field(sa_column=word(64))
    other: str = Field(sa_column=word(64))
    version: int = Field(sa_column=big())  # of the policy that brought it


class VisitCount(SQLModel, table=True):
    """Summary: where an adversary has seen a subject; ``visits`` are added up.

    Rebuildable from the exposures, as ``exposure_count`` is. Kept for fields that a
    relation rule looks at.
    """

    __tablename__ = "visit"
    __table_args__ = (
        CheckConstraint("visits >= 1", name="visits"),
        {"sqlite_with_rowid": False},
    )
    adversary_id: int = Field(sa_column=number())
    subject_id: int = Field(sa_column=number())
    field_id: int = Field(sa_column=number())
    place: str = Field(sa_column=Column(String(64), primary_key=True))
    visits: int = Field(sa_column=big())


class RuleTable(SQLModel, table=True):
    """What a function of a rule says of every set of its fields, as it was applied.

    ``levels`` is JSON: field names and exact fractions. A version is judged by it for
    good, whatever becomes of the file or the package that it was made from, of which
    ``sha256`` is kept. ``worlds`` is a finite table as evidence tells it, without its
    values; empty for a function.
    """

    __tablename__ = "rule_table"
    version: int = Field(sa_column=number())
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    source: str = Field(sa_column=Column(Text, nullable=False))
    sha256: str = Field(sa_column=word(64))
    levels: str = Field(sa_column=Column(Text, nullable=False))
    worlds: str = Field(sa_column=Column(Text, nullable=False))


class SetCount(SQLModel, table=True):
    """How many sets of a rule could disclose something: kept where a mean is capped."""

    __tablename__ = "set_count"
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    sets: int = Field(sa_column=big())


class DisclosureSum(SQLModel, table=True):
    """Sum of f over the sets of a rule for one adversary, where a mean is capped.

    ``total`` is the exact fraction, ``N/D``. Rebuildable from counts and entries.
    """

    __tablename__ = "disclosure_sum"
    adversary_id: int = Field(sa_column=number())
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    total: str = Field(sa_column=Column(Text, nullable=False))


class KeyLine(SQLModel, table=True):
    """Lines of ``keys.jsonl`` by load, so that evidence repeats them to the byte.

    A load's lines are kept as one blob of raw lines (pseudonyms and facts only, no
    value); ``chain system`` holds their count and digest. ``facts`` has a line for each
    new entry with all that the store knows of it, whether a rule needs it or not; of
    them ``chain system`` holds the digest, and evidence nothing else. ``repeats``
    counts the lines about entries that had one before (a later policy needed more).
    """

    __tablename__ = "key_lines"
    seq: int = Field(sa_column=number())  # seq of the `keys` line in chain system
    keys: bytes = Field(sa_column=content())
    relations: bytes = Field(sa_column=content())
    facts: bytes = Field(sa_column=content())
    repeats: int = Field(default=0, sa_column=big())
