"""Ledger, evidence, audit log, erasure and backups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from dispatcher.surfaces.api.documents.base import Document, Moment, Name, Request


class Root(Document):
    """The root of the last seal."""

    root: str
    seq: int
    at: Moment


class LedgerCheck(Document):
    """What a check of the ledger found."""

    ok: bool
    lines: int
    chains: int
    seals: int
    root: str | None
    shipped: int | None
    missing_heads: Sequence[str]
    edited: int


class VerifyLedger(Request):
    """Heads and roots that auditors have, and that the ledger must contain."""

    heads: Annotated[
        list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], Field(max_length=1000)
    ] = []


class Proof(Document):
    """A proof of what was shown of a record or worker, for the verifier."""

    document: Mapping[str, Any]
    showings: Sequence[Mapping[str, Any]]


class ProveRequest(Request):
    """Whose showings are proven: a worker, or RECORD.FIELD."""

    about: Annotated[str, Field(min_length=1, max_length=4200)]


class AuditLine(Document):
    """Who did what, when and why, and what came of it."""

    seq: int
    at: Moment
    actor: str
    surface: str
    operation: str
    target: str
    reason: str
    outcome: str


class EventLine(Document):
    """What happened, also by workers and the daemon: ids and numbers, no value."""

    id: int
    at: Moment
    actor: str
    action: str
    detail: Mapping[str, Any]


class Verdict(Document):
    """What the check of something handed out found."""

    about: Literal["evidence", "proof", "receipt"]
    ok: bool
    text: str


class Subject(Document):
    """What the store has of a person or record, by pseudonym."""

    id: str
    counts: Mapping[str, int]
    open_tasks: Mapping[str, int]
    showings: int
    adversaries: int


class Erased(Document):
    """What was deleted, and what cannot be."""

    deleted: Mapping[str, int]
    recalled: Mapping[str, int] = {}
    not_recalled: Mapping[str, int] = {}
    scrubbed: bool = False
    receipt: str | None = None


class Backup(Document):
    """A backup that can be restored."""

    id: str
    at: Moment
    bytes: int = Field(validation_alias="size")
    ledger_lines: int = Field(validation_alias="lines")


class FindSubject(Request):
    """The key of a person or record, which no address ever contains."""

    key: Annotated[str, Field(min_length=1, max_length=4000)]


class EraseSubject(Request):
    """The pseudonym once more, as a confirmation."""

    confirm: Name


class PurgeRecords(Request):
    """Records loaded so many days ago, or before, lose their values."""

    older_than_days: Annotated[int, Field(ge=1, le=36_500)]


class ReportSubject(Request):
    """Whether the report names the workers who saw something."""

    with_names: bool = False


class Reported(Document):
    """What the report has in it; ``GET /operations/{id}/content`` gives it once."""

    counts: Mapping[str, int]


class Evidence(Document):
    """The bundle that was made; ``GET /operations/{id}/content`` gives it once."""

    root: str
    lines: int
    counts: Mapping[str, int]


class BackupProof(Document):
    """Whether a backup can be restored."""

    file: str
    ok: bool
    lines: int


class PruneBackups(Request):
    """How many of the newest backups are kept."""

    keep: Annotated[int, Field(ge=1, le=10_000)]


class BackupCheck(Document):
    """Whether each backup can be restored."""

    backups: Sequence[BackupProof]
