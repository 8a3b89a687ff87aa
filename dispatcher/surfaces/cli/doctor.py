"""``dispatcher doctor``: what may be wrong, found before it hurts, and how to fix it."""

from __future__ import annotations

import os
import shutil
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_FAILED
from dispatcher.core.private_files import write_private
from dispatcher.surfaces.cli.context import CliContext, DryRun, leave

if TYPE_CHECKING:
    from dispatcher.operations.doctor import Finding


class PartChoice(StrEnum):
    """What can be checked alone: the values of ``operations.doctor.DoctorPart``."""

    STORE = "store"
    LEDGER = "ledger"
    QUEUE = "queue"
    CONNECTORS = "connectors"
    CLOCK = "clock"
    PERMISSIONS = "permissions"
    PROVIDER = "provider"


def doctor(
    ctx: typer.Context,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write a file for a bug report: no values, no names."),
    ] = None,
    only: Annotated[
        list[PartChoice] | None, typer.Option(help="Look at this alone.")
    ] = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Fix what is safe to fix, after a question."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Look at store, ledger, queue, connectors, clock and permissions.

    Exit 1 if something fails; what only warns leaves it at 0. The whole ledger is
    checked by: ledger verify. With --fix files are closed to others and lines that the
    shipped ledger lacks are appended: each repair is named first, and nothing else is
    touched.
    """
    from dispatcher.operations import doctor as operation

    context: CliContext = ctx.obj
    parts = [operation.DoctorPart(one) for one in only or ()]
    found = operation.diagnose(context, parts)
    if fix and _repair(context, found, dry_run=dry_run):
        found = operation.diagnose(context, parts)
    if bundle is not None:
        context.spare(bundle)
        write_private(bundle, _bundle(found))
        context.say(f"wrote {bundle} (0600): no values, no names; look into it first")
    context.show(
        {
            "schema": "dispatcher.doctor/1",
            "findings": [_document(one) for one in found],
        },
        "\n".join(_lay_out(one) for one in found),
    )
    if any(one.severity is operation.Severity.FAIL for one in found):
        leave(EXIT_FAILED)


def _repair(context: CliContext, found: list[Finding], *, dry_run: bool) -> bool:
    """Name the repairs, ask, and do them; False where nothing was done."""
    repairs = [one.repair for one in found if one.repair is not None]
    for repair in repairs:
        context.say(f"{'would ' if dry_run else ''}{repair.what}")
    if not repairs:
        context.say("there is nothing that is safe to fix automatically")
    if not repairs or dry_run:
        return False
    context.confirm(f"do {'this' if len(repairs) == 1 else f'these {len(repairs)}'}?")
    for repair in repairs:
        repair.do()
        context.say(f"done: {repair.what}")
    return True


def _document(found: Finding) -> dict[str, Any]:
    return {
        "part": found.part,
        "severity": found.severity,
        "text": found.text,
        "why": found.why,
        "fix": found.fix,
        "private": found.private,
        "repairs": found.repair.what if found.repair else None,
    }


def _lay_out(found: Finding) -> str:
    aside = f"   [{found.private}]" if found.private else ""
    lines = [f"{found.severity.value:4}  {found.text}{aside}"]
    lines += [
        f"      {word}: {text}"
        for word, text in (("why", found.why), ("fix", found.fix))
        if text
    ]
    return "\n".join(lines)


def _bundle(found: list[Finding]) -> str:
    """Write down the findings and the program; nothing that names anybody or anything."""
    import json
    import platform
    from importlib.metadata import distributions, version

    ours = ("sqlmodel", "sqlalchemy", "apscheduler", "starlette", "uvicorn", "ortools",
            "numpy", "scipy", "psycopg", "cryptography", "pysqlite3")  # fmt: skip
    installed: dict[str, Any] = {
        name: one.version
        for one in distributions()
        if (name := (one.metadata["Name"] or "").lower()) in ours
    }
    disk = shutil.disk_usage("/")
    document = {
        "schema": "dispatcher.doctor-bundle/1",
        "program": version("sparsi-dispatcher"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "disk_bytes": disk.total,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "packages": dict(sorted(installed.items())),
        "findings": [
            {"part": one.part, "severity": one.severity, "text": one.text}
            for one in found
        ],
    }
    return json.dumps(document, indent=1) + "\n"
