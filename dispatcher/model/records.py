"""Runs, files, people, records and their entries; policies and keys."""

from sqlalchemy import Column, Index, String, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from dispatcher.model.columns import big, content, number, states_of, word


class IdBlock(SQLModel, table=True):
    """Next free id of each table: ids are handed out in blocks."""

    __tablename__ = "id_block"
    name: str = Field(sa_column=Column(String(40), primary_key=True))
    next_id: int = Field(sa_column=big())


class Setting(SQLModel, table=True):
    """Facts and keys of this store (``pseudonym-key``, ``task-key``, ...)."""

    __tablename__ = "setting"
    name: str = Field(sa_column=Column(String(40), primary_key=True))
    value: bytes = Field(sa_column=content())


class ValueKey(SQLModel, table=True):
    """Data keys of values, wrapped by a key outside the store (``kek`` is its id).

    One a subject, or one a record where there is no subject. A row that is deleted
    takes what was sealed with it along, wherever copies of it lie.
    """

    __tablename__ = "value_key"
    id: int = Field(sa_column=number())
    kek: str = Field(sa_column=word(16))
    wrapped: bytes = Field(sa_column=content())


class FieldName(SQLModel, table=True):
    """Small stable numbers of field names, over all policy versions."""

    __tablename__ = "field"
    id: int = Field(sa_column=number())
    name: str = Field(sa_column=Column(Text, nullable=False, unique=True))


class PolicyVersion(SQLModel, table=True):
    """Applied policy files, counted 1, 2, 3 ...; the last one is in force."""

    __tablename__ = "policy"
    version: int = Field(sa_column=number())
    name: str = Field(sa_column=Column(Text, nullable=False))
    source: bytes = Field(sa_column=content())
    sha256: str = Field(sa_column=word(64))
    applied_at: int = Field(sa_column=big())


class PolicyLock(SQLModel, table=True):
    """One row (id 1): bookings hold it shared, ``policy apply`` exclusively."""

    __tablename__ = "policy_lock"
    id: int = Field(sa_column=number())
    policy_version: int = Field(sa_column=big())  # 0: none yet


class Run(SQLModel, table=True):
    """A set of records with its connectors and budget.

    ``state`` is ``active``, or ``lost`` for the run of records that only the shipped
    ledger knows; pauses are rows of ``pause``. ``pilot`` is set while only so many
    of its records may be shown, ``piloted`` how many of them were released (of the others
    ``record.waits_since`` is set).
    """

    __tablename__ = "run"
    __table_args__ = (states_of("run"),)
    id: int = Field(sa_column=number())
    name: str = Field(sa_column=Column(Text, nullable=False, unique=True))
    state: str = Field(default="active", sa_column=word(12))
    created_at: int = Field(sa_column=big())
    pilot: int | None = Field(default=None, sa_column=big(null=True))
    piloted: int | None = Field(default=None, sa_column=big(null=True))


class Load(SQLModel, table=True):
    """One loaded file: its columns in order and its counts."""

    __tablename__ = "load"
    __table_args__ = (states_of("load"),)
    id: int = Field(sa_column=number())
    run_id: int = Field(sa_column=big(of="run.id"))
    source: str = Field(sa_column=Column(Text, nullable=False))
    columns: str = Field(sa_column=Column(Text, nullable=False))  # JSON list
    records: int = Field(default=0, sa_column=big())
    rejected: int = Field(default=0, sa_column=big())
    state: str = Field(default="loading", sa_column=word(12))
    started_at: int = Field(sa_column=big())


class Subject(SQLModel, table=True):
    """A person. ``pseudonym`` is a keyed hash, the id in ledger and evidence.

    ``erased_at`` is set when the person's values were erased on request: then the row
    stays, without the value, so that the person is known again and refused.
    """

    __tablename__ = "subject"
    id: int = Field(sa_column=number())
    pseudonym: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    value: bytes = Field(sa_column=content())
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    erased_at: int | None = Field(default=None, sa_column=big(null=True))


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
    id: int = Field(sa_column=number())
    run_id: int = Field(sa_column=big())
    load_id: int = Field(sa_column=big())
    pseudonym: str = Field(sa_column=Column(String(64), nullable=False, unique=True))
    key: bytes = Field(sa_column=content())
    columns: bytes = Field(sa_column=content())
    key_id: int | None = Field(default=None, sa_column=big(null=True))
    subject_id: int | None = Field(default=None, sa_column=big(null=True))
    loaded_at: int | None = Field(default=None, sa_column=big(null=True))
    erased_at: int | None = Field(default=None, sa_column=big(null=True))
    lost_at: int | None = Field(default=None, sa_column=big(null=True))
    waits_since: int | None = Field(default=None, sa_column=big(null=True))


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
    id: int = Field(sa_column=number())
    record_id: int = Field(sa_column=big())
    field_id: int = Field(sa_column=big())
    subject_id: int | None = Field(default=None, sa_column=big(null=True))
    time: int | None = Field(default=None, sa_column=big(null=True))
    vector: str | None = Field(default=None, sa_column=word(64, null=True))
    visits: int | None = Field(default=None, sa_column=big(null=True))
    shown: bytes = Field(sa_column=content())
    media: str = Field(sa_column=word(40))
    key_id: int | None = Field(default=None, sa_column=big(null=True))
