"""The ledger and the audit log."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, Final, cast
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from fastapi import Header, Query
from starlette.responses import JSONResponse, Response, StreamingResponse

from dispatcher.core.plurals import count
from dispatcher.operations import backups, ledger, people, subjects
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import (
    MOST,
    Called,
    Named,
    Only,
    Parted,
    take,
)
from dispatcher.surfaces.api.problems import ProblemError, parse

MEMBERS: Final = 100
"""Most files of a bundle that is checked."""
DOCUMENT: Final = 16 << 20
LARGEST: Final = 2 << 30
UNPACKED: Final = 1 << 20
RATIO: Final = 200
"""Most bytes that a packed one gives, beyond the first mebibyte (as for other files)."""

# -- ledger --------------------------------------------------------------------------------


def show_root(call: Called) -> d.Root:
    """Show the root of the last seal."""
    return take(d.Root, ledger.last_root(call.workspace, call.store))


def list_audit(
    call: Called, part: Parted, actor: Only = None, operation: Only = None
) -> d.Page[d.AuditLine]:
    """List who did what, the newest first."""
    found = people.audit_lines(
        call.store,
        actor=actor,
        operation=operation,
        before=part.after or 2**63 - 1,
        limit=part.limit + 1,
    )
    return part.page(found, lambda one: one.seq, lambda one: take(d.AuditLine, one))


def list_events(
    call: Called, part: Parted, actor: Only = None, action: Only = None
) -> d.Page[d.EventLine]:
    """List what happened, also by workers and the daemon, the newest first."""
    found = ledger.list_events(
        call.store,
        actor=actor,
        action=action,
        limit=part.limit + 1,
        before=part.after or 2**63 - 1,
    )
    return part.page(found, lambda one: one.id, lambda one: take(d.EventLine, one))


async def follow_events(
    call: Called,
    last_event_id: Annotated[
        str | None, Header(pattern="^[0-9]{1,18}$", description="Where to go on.")
    ] = None,
) -> Response:
    """Follow what happens, as server-sent events: ids, moments and actions."""
    stream = call.shared.stream
    reader = call.principal.name
    if stream.is_full(reader):
        raise ProblemError(
            429,
            "too many readers follow the events",
            "come again later, or poll GET /audit-log",
            headers={"retry-after": "30"},
        )
    after = None if last_event_id is None else int(last_event_id)
    return StreamingResponse(stream.read(after, reader), media_type="text/event-stream")


def verify_ledger(call: Called, body: d.VerifyLedger) -> JSONResponse:
    """Check every line and seal, in the store and as shipped, and that both agree."""

    def work(_: str) -> d.LedgerCheck:
        found = ledger.verify(call.workspace, call.store, body.heads)
        return d.LedgerCheck(
            ok=found.holds,
            lines=found.lines,
            chains=found.chains,
            seals=found.seals,
            root=found.root,
            shipped=found.shipped,
            missing_heads=found.missing,
            edited=len(found.edited),
        )

    return call.later(d.LedgerCheck, work)


def export_ledger(call: Called) -> Response:
    """Write out the ledger, one line of JSON each; ids only, no value."""
    # written first: a client that reads slowly would hold the database's transaction
    with call.shared.workplace() as place:
        file = cast(BinaryIO, TemporaryFile(dir=place))  # noqa: SIM115 - sent, then closed
    try:
        file.writelines(line.encode() for line in ledger.export(call.store))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return StreamingResponse(_pieces(file), media_type="application/x-ndjson")


def show_tail(
    call: Called, limit: Annotated[int, Query(ge=1, le=MOST)] = 20
) -> Sequence[Mapping[str, Any]]:
    """Show the last lines of the ledger as they were shipped; ids only, no value."""
    lines, _ = ledger.last_lines(ledger.shipped_folder(call.workspace), limit)
    return [json.loads(line) for line in lines]


def prove_showings(call: Called, body: d.ProveRequest) -> d.Proof:
    """Prove who saw a field (RECORD.FIELD), or anything of a person (by pseudonym)."""
    return take(d.Proof, ledger.prove(call.store, body.about))


def export_evidence(call: Called) -> JSONResponse:
    """Make the evidence bundle, a zip without a value in it; fetch it once."""
    call.refuse_trial("a seal is written")

    def work(number: str) -> d.Evidence:
        with call.shared.workplace() as place:
            folder = place / "evidence"
            done = ledger.export_evidence(call.workspace, call.store, folder)
            file = call.shared.requests.file(number, "evidence.zip", call.act)
            with ZipFile(file, "w", ZIP_DEFLATED) as archive:
                for path in sorted(folder.rglob("*")):
                    archive.write(path, path.relative_to(folder))
        return d.Evidence(root=done.root, lines=done.lines, counts=done.counts)

    return call.later(d.Evidence, work)


HANDED_OUT: Final = {"application/zip": ".zip", "application/json": ".json"}
"""What a check takes: a bundle, or a proof or receipt."""


def verify_evidence(
    call: Called,
    head: Annotated[
        str | None,
        Query(pattern="^[0-9a-f]{64}$", description="Root that was noted down."),
    ] = None,
) -> JSONResponse:
    """Check what was handed out: an evidence bundle (zip), a proof, or a receipt."""
    upload, heads = call.file(), [head] if head else []

    def work(_: str) -> d.Verdict:
        with upload as path:
            if path.suffix == ".zip":
                with call.shared.workplace() as place:
                    _unpack(path, place / "bundle")
                    found = ledger.verify_evidence(place / "bundle", heads)
                text, ok = found.text.replace(str(place), "."), found.status == 0
                return d.Verdict(about="evidence", ok=ok, text=text)
            if path.stat().st_size > DOCUMENT:
                raise ProblemError(
                    422,
                    f"a proof or receipt has at most {DOCUMENT:,} bytes",
                    "send the file that was handed out",
                )
            document = parse(path.read_bytes())
            if isinstance(document, dict) and document.get("schema") == ledger.PROOF:
                proof = ledger.check_proof(document, heads)
                many = count(len(proof.showings), "showing")
                text = f"{many} under root {proof.root}"
                return d.Verdict(about="proof", ok=True, text=text)
            receipt = subjects.check_receipt(call.workspace, path)
            text = str(receipt.receipt.get("receipt", ""))
            return d.Verdict(about="receipt", ok=receipt.holds, text=text)

    return call.later(d.Verdict, work)


def _unpack(path: Path, folder: Path) -> None:
    """Unpack a bundle: plain members only, no more than a bundle of that size has."""
    most = min(LARGEST, max(UNPACKED, RATIO * path.stat().st_size))
    try:
        with ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) > MEMBERS:
                raise _no_bundle()
            for one in members:
                to = folder / one.filename
                if not to.resolve().is_relative_to(folder.resolve()):
                    raise _no_bundle()
                to.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(one) as packed, to.open("xb") as file:
                    while piece := packed.read(1 << 16):
                        most -= len(piece)
                        if most < 0:
                            raise _no_bundle()
                        file.write(piece)
    except (
        BadZipFile,
        NotImplementedError,
        OSError,
        RuntimeError,
        ValueError,
        zlib.error,
    ):
        raise _no_bundle() from None


def _no_bundle() -> ProblemError:
    return ProblemError(
        422,
        "the file is no evidence bundle",
        f"send the zip of POST /evidence: at most {MEMBERS} plain members, packed at most "
        f"{RATIO} to 1",
    )


# -- backups, and operations that take long --------------------------------------------------


def list_backups(call: Called) -> Sequence[d.Backup]:
    """List the backups of this store."""
    good, _ = backups.found_in(backups.folder_of(call.workspace))
    return [take(d.Backup, one) for one in good]


def create_backup(call: Called) -> JSONResponse:
    """Write a backup, sealed by the key file, and try whether it can be restored."""
    call.refuse_trial("a backup is written")

    def work(_: str) -> object:
        space, folder = call.workspace, backups.folder_of(call.workspace)
        return backups.create(space, backups.key_secret(space), folder).backup

    return call.later(d.Backup, work)


def verify_backups(call: Called) -> JSONResponse:
    """Check whether each backup can be restored."""

    def work(_: str) -> d.BackupCheck:
        folder, secret = (
            backups.folder_of(call.workspace),
            backups.key_secret(call.workspace),
        )
        return d.BackupCheck(
            backups=[
                d.BackupProof(file=one.path.name, ok=one.error is None, lines=one.lines)
                for one in backups.verify_all(folder, secret)
            ]
        )

    return call.later(d.BackupCheck, work)


def prune_backups(call: Called, body: d.PruneBackups) -> Sequence[d.Backup]:
    """Delete all backups but the newest; those that went are returned."""
    folder = backups.folder_of(call.workspace)
    gone = backups.prune(folder, body.keep, dry_run=call.dry_run)
    return [take(d.Backup, one) for one in gone]


def show_operation(call: Called, operation: Named) -> d.Operation:
    """Show the state of an operation, and its result or problem at the end."""
    return call.shared.requests.show(call.principal.name, operation)


def fetch_content(call: Called, operation: Named) -> Response:
    """Fetch the file that an operation wrote, once: it is kept nowhere."""
    return sent(*call.shared.requests.take(call.principal, operation))


def sent(file: BinaryIO, name: str) -> Response:
    """Send a file that an operation wrote."""
    return StreamingResponse(
        _pieces(file),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(1 << 16):
            yield piece
