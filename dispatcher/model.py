"""The tables, in flow order: record -> entry -> plan -> ledger -> task -> answer.

Conventions that hold for every table:

* Moments are integers: microseconds since 1970-01-01 UTC. Columns named ``at`` or
  ending in ``_at``, ``_until`` or ``due`` hold one.
* Values of records are bytes with a nullable ``key_id`` (None: stored in clear), so
  that encryption changes no schema.
* States are text with a CHECK, and :data:`TRANSITIONS` is the one table of what may
  follow what.
* Ids are integers reserved in blocks (table ``id_block``), so that bulk writes know
  them before the database does.
* A **unit** is what one sensitive set is made for: a record or a subject. Its id is
  ``2 * record_id`` or ``2 * subject_id + 1`` (:func:`record_unit`,
  :func:`subject_unit`).

SQLModel does not validate tables: values are checked at the door, and by the CHECK
constraints here.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata: MetaData = SQLModel.metadata

SYSTEM_CHAIN: Final = 0
"""Id of the ledger's ``system`` chain; every other chain is an adversary's."""

TRANSITIONS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "run": {
        "active": frozenset({"paused", "cancelled"}),
        "paused": frozenset({"active", "cancelled"}),
        "cancelled": frozenset(),
    },
    "load": {
        "loading": frozenset({"done"}),
        "done": frozenset({"loading"}),  # the same file once more
    },
    "plan": {
        "draft": frozenset({"applied", "dropped"}),
        "applied": frozenset({"superseded"}),
        "dropped": frozenset(),
        "superseded": frozenset(),
    },
    "outbox": {
        "ready": frozenset({"leased", "cancelled", "dead"}),
        "leased": frozenset({"ready", "sent", "dead"}),
        "sent": frozenset(),
        "dead": frozenset({"ready", "cancelled"}),
        "cancelled": frozenset(),
    },
    # Every state but "offered" counts as seen (design decision 4: handed = seen).
    "task": {
        "booked": frozenset(
            {"sent", "published", "answered", "returned", "expired", "dead"}
        ),
        "sent": frozenset({"answered", "returned", "expired", "dead"}),
        "shown": frozenset({"answered", "returned", "expired"}),
        "expired": frozenset({"shown", "answered"}),  # the same worker, late
        "returned": frozenset({"shown", "answered"}),
        "dead": frozenset(
            {"booked", "sent", "published", "answered"}
        ),  # it may have arrived after all
        "published": frozenset(),  # a feed has it; no answer comes of it
        "answered": frozenset(),
    },
    "result": {
        "open": frozenset({"answered", "conflict"}),
        "conflict": frozenset({"open", "answered"}),
        "answered": frozenset({"open", "conflict"}),  # a late answer may change it
        "erased": frozenset(),  # born so: the values are gone, nothing is asked
    },
    # What is released or refused is room in the budget again.
    "payment": {
        "reserved": frozenset({"due", "released", "held", "paid", "refused"}),
        "released": frozenset({"reserved"}),  # it came in after all
        "due": frozenset({"paid", "unknown", "held", "refused"}),
        "held": frozenset({"due", "paid", "refused"}),  # a person looks
        "unknown": frozenset({"due", "paid", "refused"}),  # a person looks
        "refused": frozenset({"reserved"}),  # a person asked for it once more
        "paid": frozenset(),
    },
    "account": {
        "active": frozenset({"blocked", "stopped", "left"}),
        "blocked": frozenset({"active"}),
        "stopped": frozenset({"active", "blocked", "left"}),  # below the floor
        "left": frozenset({"active", "blocked"}),  # by the worker's own wish
    },
    "probe_task": {
        "shown": frozenset({"answered", "returned", "expired"}),
        "expired": frozenset({"shown", "answered"}),
        "returned": frozenset({"shown", "answered"}),
        "answered": frozenset(),
    },
    "qualification": {
        "open": frozenset({"passed", "failed"}),
        "failed": frozenset({"open"}),  # one more try
        "passed": frozenset(),
    },
}
"""State tables: table -> state -> states that may follow."""

LIVE_TASK_STATES: Final = ("booked", "sent", "shown")
"""A task in one of these may still bring an answer: it counts as a planned copy."""


def record_unit(record_id: int) -> int:
    """Unit id of a record."""
    return 2 * record_id


def subject_unit(subject_id: int) -> int:
    """Unit id of a subject."""
    return 2 * subject_id + 1


def link_unit(link_id: int) -> int:
    """Unit id of a link: negative, so that it is no record's and no subject's."""
    return -link_id


def _states(table: str) -> CheckConstraint:
    # The state that rows are born with comes first, on its own: SQLite looks a list up
    # in a tree that it builds, which costs as much as the rest of a bulk insert.
    born, *later = TRANSITIONS[table]
    listed = ", ".join(f"'{state}'" for state in later)
    return CheckConstraint(f"state = '{born}' OR state IN ({listed})", name="state")


def _id() -> Column[int]:
    # INTEGER makes a single key SQLite's rowid itself: one tree instead of two.
    number = BigInteger().with_variant(Integer(), "sqlite")
    return Column(number, primary_key=True, autoincrement=False)


def _big(*, null: bool = False) -> Column[int]:
    return Column(BigInteger, nullable=null)


def _text(length: int, *, null: bool = False) -> Column[str]:
    return Column(String(length), nullable=null)


def _bytes(*, null: bool = False) -> Column[bytes]:
    return Column(LargeBinary, nullable=null)


# -- the ground ----------------------------------------------------------------


class IdBlock(SQLModel, table=True):
    """Next free id of each table: ids are handed out in blocks."""

    __tablename__ = "id_block"
    name: str = Field(sa_column=Column(String(40), primary_key=True))
    next_id: int = Field(sa_column=_big())


class Setting(SQLModel, table=True):
    """Facts and keys of this store (``pseudonym-key``, ``task-key``, ...)."""

    __tablename__ = "setting"
    name: str = Field(sa_column=Column(String(40), primary_key=True))
    value: bytes = Field(sa_column=_bytes())


class ValueKey(SQLModel, table=True):
    """Data keys of values, wrapped by a key outside the store (``kek`` is its id).

    One a subject, or one a record where there is no subject. A row that is deleted
    takes what was sealed with it along, wherever copies of it lie.
    """

    __tablename__ = "value_key"
    id: int = Field(sa_column=_id())
    kek: str = Field(sa_column=_text(16))
    wrapped: bytes = Field(sa_column=_bytes())


class FieldName(SQLModel, table=True):
    """Small stable numbers of field names, over all policy versions."""

    __tablename__ = "field"
    id: int = Field(sa_column=_id())
    name: str = Field(sa_column=Column(Text, nullable=False, unique=True))


class PolicyVersion(SQLModel, table=True):
    """Applied policy files, counted 1, 2, 3 ...; the last one is in force."""

    __tablename__ = "policy"
    version: int = Field(sa_column=_id())
    name: str = Field(sa_column=Column(Text, nullable=False))
    source: bytes = Field(sa_column=_bytes())
    sha256: str = Field(sa_column=_text(64))
    applied_at: int = Field(sa_column=_big())


class Barrier(SQLModel, table=True):
    """One row (id 1): bookings hold it shared, ``policy apply`` exclusively."""

    __tablename__ = "barrier"
    id: int = Field(sa_column=_id())
    policy_version: int = Field(sa_column=_big())  # 0: none yet


# -- records -------------------------------------------------------------------


class Run(SQLModel, table=True):
    """A set of records with its connectors and budget.

    ``pilot`` is set while only so many of its records may be shown, ``piloted`` how
    many of them were let go (of the others ``record.waits_since`` is set).
    """

    __tablename__ = "run"
    __table_args__ = (_states("run"),)
    id: int = Field(sa_column=_id())
    name: str = Field(sa_column=Column(Text, nullable=False, unique=True))
    state: str = Field(default="active", sa_column=_text(12))
    created_at: int = Field(sa_column=_big())
    pilot: int | None = Field(default=None, sa_column=_big(null=True))
    piloted: int | None = Field(default=None, sa_column=_big(null=True))


class Load(SQLModel, table=True):
    """One loaded file: its columns in order and its counts."""

    __tablename__ = "load"
    __table_args__ = (_states("load"),)
    id: int = Field(sa_column=_id())
    run_id: int = Field(sa_column=_big())
    source: str = Field(sa_column=Column(Text, nullable=False))
    columns: str = Field(sa_column=Column(Text, nullable=False))  # JSON list
    records: int = Field(default=0, sa_column=_big())
    rejected: int = Field(default=0, sa_column=_big())
    state: str = Field(default="loading", sa_column=_text(12))
    started_at: int = Field(sa_column=_big())
    finished_at: int | None = Field(default=None, sa_column=_big(null=True))


class Subject(SQLModel, table=True):
    """A person. ``pseudonym`` is a keyed hash, the id in ledger and evidence.

    ``erased_at`` is set when the person's values were erased on request: then the row
    stays, without the value, so that the person is known again and refused.
    """

    __tablename__ = "subject"
    id: int = Field(sa_column=_id())
    pseudonym: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    value: bytes = Field(sa_column=_bytes())
    key_id: int | None = Field(default=None, sa_column=_big(null=True))
    erased_at: int | None = Field(default=None, sa_column=_big(null=True))


class Record(SQLModel, table=True):
    """One loaded row, whole: ``columns`` is a JSON array in the load's order.

    ``erased_at`` is set when its values were erased (on request, or by age): the row
    stays, so that the record is known again and its entries keep their history.
    ``lost_at`` is set besides when they were not erased, but went down with a store:
    only its ledger is left, and the record may be loaded again. ``waits_since`` is set
    while the record waits for its run's pilot to be accepted: nothing of it is shown.
    """

    __tablename__ = "record"
    __table_args__ = (
        Index(None, "run_id"),
        Index(None, "subject_id"),
        Index(
            "ix_record_waiting",
            "run_id",
            sqlite_where=text("waits_since IS NOT NULL"),
            postgresql_where=text("waits_since IS NOT NULL"),
        ),
    )
    id: int = Field(sa_column=_id())
    run_id: int = Field(sa_column=_big())
    load_id: int = Field(sa_column=_big())
    pseudonym: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    key: bytes = Field(sa_column=_bytes())
    columns: bytes = Field(sa_column=_bytes())
    key_id: int | None = Field(default=None, sa_column=_big(null=True))
    subject_id: int | None = Field(default=None, sa_column=_big(null=True))
    loaded_at: int | None = Field(default=None, sa_column=_big(null=True))
    erased_at: int | None = Field(default=None, sa_column=_big(null=True))
    lost_at: int | None = Field(default=None, sa_column=_big(null=True))
    waits_since: int | None = Field(default=None, sa_column=_big(null=True))


class Suppression(SQLModel, table=True):
    """The key of an erased person or record, however it is spelled: a keyed hash.

    Of the key without case, spaces and leading zeros: what differs from it in spelling
    only is not taken in as somebody new.
    """

    __tablename__ = "suppression"
    name: str = Field(sa_column=Column(String(64), primary_key=True))


class Entry(SQLModel, table=True):
    """One field of one record that has a value: the paper's d.

    ``shown`` is the form that may be shown (text after redaction, or the crop), made
    once at load; ``media`` its type. ``subject_id``, ``time``, ``vector`` and
    ``visits`` are the facts that rules need. The entry's ledger name is derived from
    its record's pseudonym and its field, see ``keys.entry_name``.
    """

    __tablename__ = "entry"
    __table_args__ = (
        UniqueConstraint("record_id", "field_id"),
        Index(None, "subject_id"),
    )
    id: int = Field(sa_column=_id())
    record_id: int = Field(sa_column=_big())
    field_id: int = Field(sa_column=_big())
    subject_id: int | None = Field(default=None, sa_column=_big(null=True))
    time: int | None = Field(default=None, sa_column=_big(null=True))
    vector: str | None = Field(default=None, sa_column=_text(64, null=True))
    visits: int | None = Field(default=None, sa_column=_big(null=True))
    shown: bytes = Field(sa_column=_bytes())
    media: str = Field(sa_column=_text(40))
    key_id: int | None = Field(default=None, sa_column=_big(null=True))


# -- who may see ---------------------------------------------------------------


class Chain(SQLModel, table=True):
    """A ledger chain and its head. All but ``system`` (id 0) are adversaries.

    ``survivor_id`` is set when the chain ended in a join: the adversary that goes on
    (always the last one, never a chain that ended itself).
    """

    __tablename__ = "chain"
    __table_args__ = (Index(None, "survivor_id"),)
    id: int = Field(sa_column=_id())
    name: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    seq: int = Field(default=0, sa_column=_big())
    head: str = Field(default="0" * 64, sa_column=_text(64))
    at: int = Field(default=0, sa_column=_big())
    policy_version: int = Field(default=0, sa_column=_big())
    sealed_seq: int = Field(default=0, sa_column=_big())
    survivor_id: int | None = Field(default=None, sa_column=_big(null=True))


class Account(SQLModel, table=True):
    """A worker's or advertiser's account: ``CONNECTOR/NAME``, of one adversary.

    ``judged_from`` is set when an operator lifted a stop: answers to made-up questions
    count towards the floor from that moment on.
    """

    __tablename__ = "account"
    __table_args__ = (
        _states("account"),
        UniqueConstraint("connector", "name"),
        Index(None, "adversary_id"),
    )
    id: int = Field(sa_column=_id())
    connector: str = Field(sa_column=_text(40))
    name: str = Field(sa_column=Column(Text, nullable=False))
    adversary_id: int = Field(sa_column=_big())
    groups: str = Field(default="[]", sa_column=Column(Text, nullable=False))  # JSON
    state: str = Field(default="active", sa_column=_text(12))
    invite: int = Field(default=1, sa_column=_big())  # number of the valid invite
    quality: float = Field(default=0.8)  # estimated accuracy, 0..1
    added_at: int = Field(sa_column=_big())
    judged_from: int | None = Field(default=None, sa_column=_big(null=True))


class Recusal(SQLModel, table=True):
    """A worker said "I know this person": nothing of the unit is shown to them again.

    One row for the record and one for its subject, where it has one.
    """

    __tablename__ = "recusal"
    adversary_id: int = Field(sa_column=_id())
    unit_id: int = Field(sa_column=_id())
    at: int = Field(sa_column=_big())


# -- plan ----------------------------------------------------------------------


class Plan(SQLModel, table=True):
    """An intention: who is to be shown what; ``summary`` is JSON of numbers.

    ``refused`` counts pairs that the gate refused to book for good: they left the plan and
    are to be planned anew.
    """

    __tablename__ = "plan"
    __table_args__ = (_states("plan"),)
    id: int = Field(sa_column=_id())
    policy_version: int = Field(sa_column=_big())
    state: str = Field(default="draft", sa_column=_text(12))
    verdict: str = Field(sa_column=_text(12))
    algorithm: str = Field(sa_column=_text(40))
    seed: int = Field(sa_column=_big())
    summary: str = Field(sa_column=Column(Text, nullable=False))
    created_at: int = Field(sa_column=_big())
    applied_at: int | None = Field(default=None, sa_column=_big(null=True))
    refused: int | None = Field(default=None, sa_column=_big(null=True))


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
    plan_id: int = Field(sa_column=_id())
    account_id: int = Field(sa_column=_id())
    adversary_id: int = Field(sa_column=_big())
    entries: bytes = Field(sa_column=_bytes())


class Held(SQLModel, table=True):
    """Entries that the last plan held back, with the reason (no values)."""

    __tablename__ = "held_back"
    entry_id: int = Field(sa_column=_id())
    plan_id: int = Field(sa_column=_big())
    reason: str = Field(sa_column=Column(Text, nullable=False))


# -- ledger --------------------------------------------------------------------


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
        {"sqlite_with_rowid": False},
    )
    chain_id: int = Field(sa_column=_id())
    seq: int = Field(sa_column=_id())
    kind: str = Field(sa_column=_text(8))
    at: int = Field(sa_column=_big())
    policy_version: int = Field(sa_column=_big())
    account_id: int | None = Field(default=None, sa_column=_big(null=True))
    entry_id: int | None = Field(default=None, sa_column=_big(null=True))
    cause: str | None = Field(default=None, sa_column=_text(20, null=True))
    showing: int | None = Field(
        default=None, sa_column=Column(SmallInteger, nullable=True)
    )
    body: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    hash: bytes = Field(sa_column=_bytes())


class Holding(SQLModel, table=True):
    """What each adversary holds of each unit: the gate's summary.

    ``entries`` counts distinct entries. ``time`` is the entries' moment where a
    windowed rule needs it, else 0. Kept in the transaction of the exposure, and
    rebuildable from the ledger lines. Only units that a rule of the policy in force
    judges have rows.
    """

    __tablename__ = "holding"
    __table_args__ = (
        CheckConstraint("entries >= 1", name="entries"),
        {"sqlite_with_rowid": False},
    )
    adversary_id: int = Field(sa_column=_id())
    unit_id: int = Field(sa_column=_id())
    field_id: int = Field(sa_column=_id())
    time: int = Field(default=0, sa_column=_id())
    entries: int = Field(sa_column=_big())


class Link(SQLModel, table=True):
    """A pair of subjects in a relation: holds from a version on, and never lapses.

    ``one < other`` are pseudonyms of subjects, of whom nothing may be loaded yet. The
    link's unit id is :func:`link_unit`.
    """

    __tablename__ = "link"
    __table_args__ = (
        UniqueConstraint("relation", "one", "other"),
        Index(None, "relation", "other"),
    )
    id: int = Field(sa_column=_id())
    relation: str = Field(sa_column=Column(String(400), nullable=False))
    one: str = Field(sa_column=_text(64))
    other: str = Field(sa_column=_text(64))
    version: int = Field(sa_column=_big())  # of the policy that brought it


class Visit(SQLModel, table=True):
    """Summary: where an adversary has seen a subject; ``visits`` are added up.

    Rebuildable from the exposures, as ``holding`` is. Kept for fields that a relation
    rule looks at.
    """

    __tablename__ = "visit"
    __table_args__ = (
        CheckConstraint("visits >= 1", name="visits"),
        {"sqlite_with_rowid": False},
    )
    adversary_id: int = Field(sa_column=_id())
    subject_id: int = Field(sa_column=_id())
    field_id: int = Field(sa_column=_id())
    place: str = Field(sa_column=Column(String(64), primary_key=True))
    visits: int = Field(sa_column=_big())


class RuleTable(SQLModel, table=True):
    """What a function of a rule says of every set of its fields, as it was applied.

    ``levels`` is JSON: field names and exact fractions. A version is judged by it for
    good, whatever becomes of the file or the package that it was made from, of which
    ``sha256`` is kept.
    """

    __tablename__ = "rule_table"
    version: int = Field(sa_column=_id())
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    source: str = Field(sa_column=Column(Text, nullable=False))
    sha256: str = Field(sa_column=_text(64))
    levels: str = Field(sa_column=Column(Text, nullable=False))


class SetCount(SQLModel, table=True):
    """How many sets of a rule could disclose something: kept where a mean is capped."""

    __tablename__ = "set_count"
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    sets: int = Field(sa_column=_big())


class DisclosureSum(SQLModel, table=True):
    """Sum of f over the sets of a rule for one adversary, where a mean is capped.

    ``total`` is the exact fraction, ``N/D``. Rebuildable from holdings and entries.
    """

    __tablename__ = "disclosure_sum"
    adversary_id: int = Field(sa_column=_id())
    property: str = Field(sa_column=Column(String(400), primary_key=True))
    total: str = Field(sa_column=Column(Text, nullable=False))


class KeyLine(SQLModel, table=True):
    """Lines of ``keys.jsonl`` by load, so that evidence repeats them to the byte.

    A load's lines are kept as one blob of raw lines (pseudonyms and facts only, no
    value); ``chain system`` holds their count and digest. ``repeats`` counts the lines
    about entries that had one before (a later policy needed more facts).
    """

    __tablename__ = "key_lines"
    seq: int = Field(sa_column=_id())  # seq of the `keys` line in chain system
    keys: bytes = Field(sa_column=_bytes())
    relations: bytes = Field(sa_column=_bytes())
    repeats: int = Field(default=0, sa_column=_big())


# -- out and back --------------------------------------------------------------


class Outbox(SQLModel, table=True):
    """One message for one connector; its id is the idempotency key."""

    __tablename__ = "outbox"
    __table_args__ = (
        _states("outbox"),
        CheckConstraint("kind IN ('publish','offer','withdraw')", name="kind"),
        Index(None, "state", "due", "id"),
    )
    id: int = Field(sa_column=_id())
    connector: str = Field(sa_column=_text(40))
    account_id: int = Field(sa_column=_big())
    kind: str = Field(sa_column=_text(8))
    state: str = Field(default="ready", sa_column=_text(12))
    due: int = Field(sa_column=_big())
    attempts: int = Field(default=0, sa_column=_big())
    epoch: int = Field(default=0, sa_column=_big())  # of the daemon that leased it
    leased_until: int | None = Field(default=None, sa_column=_big(null=True))
    handle: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    error: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    created_at: int = Field(sa_column=_big())


class Task(SQLModel, table=True):
    """One showing of one entry to one account, with what became of it.

    Its public name is an opaque token made from the id (``keys.task_token``). Push
    tasks carry the outbox message they leave with; pull tasks are born when served.
    """

    __tablename__ = "task"
    __table_args__ = (
        _states("task"),
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
    id: int = Field(sa_column=_id())
    entry_id: int = Field(sa_column=_big())
    account_id: int = Field(sa_column=_big())
    adversary_id: int = Field(sa_column=_big())
    connector: str = Field(sa_column=_text(40))
    outbox_id: int | None = Field(default=None, sa_column=_big(null=True))
    state: str = Field(sa_column=_text(12))
    created_at: int = Field(sa_column=_big())
    leased_until: int | None = Field(default=None, sa_column=_big(null=True))
    draft: bytes | None = Field(default=None, sa_column=_bytes(null=True))
    key_id: int | None = Field(default=None, sa_column=_big(null=True))


class Answer(SQLModel, table=True):
    """What one account answered to one task; one answer a task.

    ``counted`` turns 1 when assembly has looked at the answer: those with 0 are its
    work, however late their transaction came.
    """

    __tablename__ = "answer"
    __table_args__ = (
        Index(None, "entry_id"),
        Index(
            "ix_answer_uncounted",
            "entry_id",
            sqlite_where=text("counted = 0"),
            postgresql_where=text("counted = 0"),
        ),
    )
    task_id: int = Field(sa_column=_id())
    entry_id: int = Field(sa_column=_big())
    account_id: int = Field(sa_column=_big())
    raw: bytes = Field(sa_column=_bytes())
    normal: bytes | None = Field(default=None, sa_column=_bytes(null=True))
    key_id: int | None = Field(default=None, sa_column=_big(null=True))
    valid: int = Field(sa_column=Column(SmallInteger, nullable=False))
    reason: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    at: int = Field(sa_column=_big())
    counted: int = Field(default=0, sa_column=Column(SmallInteger, nullable=False))


class Result(SQLModel, table=True):
    """The consensus of an entry's answers."""

    __tablename__ = "result"
    __table_args__ = (_states("result"),)
    entry_id: int = Field(sa_column=_id())
    value: bytes | None = Field(default=None, sa_column=_bytes(null=True))
    key_id: int | None = Field(default=None, sa_column=_big(null=True))
    confidence: float = Field(default=0.0)
    answers: int = Field(default=0, sa_column=_big())
    wanted: int = Field(default=0, sa_column=_big())  # answers wanted by now
    state: str = Field(default="open", sa_column=_text(12))
    at: int = Field(sa_column=_big())


class Budget(SQLModel, table=True):
    """What a run may cost. All amounts are millionths of the currency's unit.

    ``reward`` is what one piece of work at a market that pays is offered for, ``bonus``
    what one answered field earns; ``fee`` is what such a market adds, in millionths of
    what it pays. ``taken`` is all that is promised, owed or paid; ``day_taken`` what was
    of it on day ``day`` (days since 1970 UTC). Rebuildable from the payments.
    """

    __tablename__ = "budget"
    __table_args__ = (
        CheckConstraint("cap >= 0 AND reward >= 0 AND bonus >= 0", name="amounts"),
        CheckConstraint("taken >= paid AND paid >= 0", name="taken"),
    )
    run_id: int = Field(sa_column=_id())
    currency: str = Field(sa_column=_text(3))
    cap: int = Field(sa_column=_big())
    per_day: int | None = Field(default=None, sa_column=_big(null=True))
    reward: int = Field(default=0, sa_column=_big())
    bonus: int = Field(default=0, sa_column=_big())
    fee: int = Field(default=0, sa_column=_big())
    taken: int = Field(default=0, sa_column=_big())
    paid: int = Field(default=0, sa_column=_big())
    day: int = Field(default=0, sa_column=_big())
    day_taken: int = Field(default=0, sa_column=_big())
    set_at: int = Field(sa_column=_big())


class Payment(SQLModel, table=True):
    """What one thing is paid: there is one payment of each kind for it, ever.

    ``kind`` is ``reward`` (of a piece of work; ``about`` is the message that offered it)
    or ``field`` (one answered field; ``about`` is the task). ``piece`` is the message of
    the piece of work that it belongs to: with a market that pays; else None. ``fee`` is
    what the market adds to ``amount``; ``day`` the day whose allowance it took.
    ``reference``, ``submission`` and ``progress`` are the market's, of rewards.
    """

    __tablename__ = "payment"
    __table_args__ = (
        _states("payment"),
        CheckConstraint("kind IN ('reward','field')", name="kind"),
        CheckConstraint("amount >= 0 AND fee >= 0", name="amount"),
        # In the order of the looks, which page through a state; with what is counted.
        Index(None, "state", "kind", "about", "connector"),
        Index(None, "account_id", "kind"),
        Index(None, "piece"),
        Index(None, "run_id"),
        Index(None, "reference"),
    )
    kind: str = Field(sa_column=Column(String(8), primary_key=True))
    about: int = Field(sa_column=_id())
    run_id: int = Field(sa_column=_big())
    account_id: int = Field(sa_column=_big())
    connector: str = Field(sa_column=_text(40))
    piece: int | None = Field(default=None, sa_column=_big(null=True))
    amount: int = Field(sa_column=_big())
    fee: int = Field(sa_column=_big())
    state: str = Field(default="reserved", sa_column=_text(12))
    day: int = Field(sa_column=_big())
    attempts: int = Field(default=0, sa_column=_big())
    due: int = Field(default=0, sa_column=_big())
    reference: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    submission: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    progress: str | None = Field(default=None, sa_column=_text(12, null=True))
    why: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    created_at: int = Field(sa_column=_big())
    at: int = Field(sa_column=_big())


class MoneyLine(SQLModel, table=True):
    """Every change of every payment, append-only (triggers refuse update and delete)."""

    __tablename__ = "money_line"
    id: int = Field(sa_column=_id())
    kind: str = Field(sa_column=_text(8))
    about: int = Field(sa_column=_big())
    run_id: int = Field(sa_column=_big())
    state: str = Field(sa_column=_text(12))
    amount: int = Field(sa_column=_big())
    fee: int = Field(sa_column=_big())
    at: int = Field(sa_column=_big())
    actor: str = Field(sa_column=Column(Text, nullable=False))
    why: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class Quarantine(SQLModel, table=True):
    """What came from outside and fits no task: kept, never acted on.

    An operator who has looked at it dismisses it; it is kept all the same, so that what
    is delivered again stays known.
    """

    __tablename__ = "quarantine"
    id: int = Field(sa_column=_id())
    connector: str = Field(sa_column=_text(40))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    payload: bytes = Field(sa_column=_bytes())
    key_id: int | None = Field(default=None, sa_column=_big(null=True))
    at: int = Field(sa_column=_big())
    dismissed_at: int | None = Field(default=None, sa_column=_big(null=True))
    dismissed_why: str | None = Field(
        default=None, sa_column=Column(Text, nullable=True)
    )


class ExportFile(SQLModel, table=True):
    """Files of whole records that were written, so that an erasure finds them."""

    __tablename__ = "export_file"
    id: int = Field(sa_column=_id())
    run_id: int = Field(sa_column=_big())
    path: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=_big())


# -- made-up questions ---------------------------------------------------------


class Probe(SQLModel, table=True):
    """A made-up question with its right answer: no part of any record.

    ``purpose`` is ``test`` (of a field's qualification test) or ``gold`` (mixed among
    the real ones). What is in it was declared synthetic, so it is stored in clear.
    """

    __tablename__ = "probe"
    __table_args__ = (
        CheckConstraint("purpose IN ('test','gold')", name="purpose"),
        Index(None, "field_id"),
    )
    id: int = Field(sa_column=_id())
    field_id: int = Field(sa_column=_big())
    purpose: str = Field(sa_column=_text(4))
    shown: bytes = Field(sa_column=_bytes())
    media: str = Field(sa_column=_text(40))
    answer: bytes = Field(sa_column=_bytes())
    added_at: int = Field(sa_column=_big())
    retired_at: int | None = Field(default=None, sa_column=_big(null=True))


class FieldTest(SQLModel, table=True):
    """A field that asks for a passed qualification test, and the share that passes."""

    __tablename__ = "field_test"
    __table_args__ = (
        CheckConstraint("pass_share > 0 AND pass_share <= 1", name="pass_share"),
    )
    field_id: int = Field(sa_column=_id())
    pass_share: float = Field()
    set_at: int = Field(sa_column=_big())


class Qualification(SQLModel, table=True):
    """How an account stands with a field's test; ``attempt`` counts from 1."""

    __tablename__ = "qualification"
    __table_args__ = (_states("qualification"),)
    account_id: int = Field(sa_column=_id())
    field_id: int = Field(sa_column=_id())
    state: str = Field(default="open", sa_column=_text(12))
    attempt: int = Field(default=1, sa_column=_big())
    asked: int = Field(default=0, sa_column=_big())
    correct: int = Field(default=0, sa_column=_big())
    ended_at: int | None = Field(default=None, sa_column=_big(null=True))


class ProbeTask(SQLModel, table=True):
    """One showing of a made-up question to one account: no exposure, no answer.

    Its id is of the same block as a task's, so that its public name has the same shape.
    Only whether the answer was right is kept of it.
    """

    __tablename__ = "probe_task"
    __table_args__ = (
        _states("probe_task"),
        Index(None, "account_id"),
        Index(None, "probe_id"),
        Index(
            "ix_probe_task_shown",
            "account_id",
            "leased_until",
            sqlite_where=text("state = 'shown'"),
            postgresql_where=text("state = 'shown'"),
        ),
    )
    id: int = Field(sa_column=_id())
    probe_id: int = Field(sa_column=_big())
    account_id: int = Field(sa_column=_big())
    state: str = Field(sa_column=_text(12))
    created_at: int = Field(sa_column=_big())
    leased_until: int | None = Field(default=None, sa_column=_big(null=True))
    draft: bytes | None = Field(default=None, sa_column=_bytes(null=True))
    attempt: int = Field(default=0, sa_column=_big())  # of a test; 0 for gold
    correct: int | None = Field(
        default=None, sa_column=Column(SmallInteger, nullable=True)
    )
    ended_at: int | None = Field(default=None, sa_column=_big(null=True))


# -- running -------------------------------------------------------------------


class Cursor(SQLModel, table=True):
    """Where collecting stands with each connector."""

    __tablename__ = "cursor"
    connector: str = Field(sa_column=Column(String(40), primary_key=True))
    value: str = Field(sa_column=Column(Text, nullable=False))


class Lease(SQLModel, table=True):
    """Who leads a shard; ``epoch`` is the fencing token of its gate writes."""

    __tablename__ = "lease"
    shard: int = Field(sa_column=_id())
    holder: str = Field(sa_column=Column(Text, nullable=False))
    epoch: int = Field(sa_column=_big())
    leased_until: int = Field(sa_column=_big())


class Pause(SQLModel, table=True):
    """What is paused: ``all``, ``connector:NAME`` or ``run:NAME``."""

    __tablename__ = "pause"
    scope: str = Field(sa_column=Column(String(120), primary_key=True))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=_big())


class SignInLink(SQLModel, table=True):
    """A link that opens the operators' console once; only its digest is kept."""

    __tablename__ = "sign_in_link"
    digest: str = Field(sa_column=Column(String(64), primary_key=True))
    made_at: int = Field(sa_column=_big())
    ends_at: int = Field(sa_column=_big())
    used_at: int | None = Field(default=None, sa_column=_big(null=True))


class OperatorSession(SQLModel, table=True):
    """A browser that signed in to the console; only its cookie's digest is kept."""

    __tablename__ = "operator_session"
    digest: str = Field(sa_column=Column(String(64), primary_key=True))
    opened_at: int = Field(sa_column=_big())
    seen_at: int = Field(sa_column=_big())
    ended_at: int | None = Field(default=None, sa_column=_big(null=True))


class Hook(SQLModel, table=True):
    """Calls of markets that were checked, for a day: each counts once."""

    __tablename__ = "hook"
    connector: str = Field(sa_column=Column(String(40), primary_key=True))
    call: str = Field(sa_column=Column(String(64), primary_key=True))
    at: int = Field(sa_column=_big())


class Event(SQLModel, table=True):
    """The audit log: who did what (ids and numbers only, no values)."""

    __tablename__ = "event"
    id: int = Field(sa_column=_id())
    at: int = Field(sa_column=_big())
    actor: str = Field(sa_column=Column(Text, nullable=False))
    action: str = Field(sa_column=_text(40))
    detail: str = Field(default="{}", sa_column=Column(Text, nullable=False))
