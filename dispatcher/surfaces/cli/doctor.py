"""``dispatcher doctor``: what may be wrong, found before it hurts, and how to mend it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import EXIT_FAILED, DispatcherError
from dispatcher.surfaces.cli import doctor_files
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    wall_clock,
    write_private,
)
from dispatcher.surfaces.cli.findings import Finding, Findings, Part, Word

if TYPE_CHECKING:
    from dispatcher.store import Store

MINUTE: Final = 60_000_000
LATE: Final = 10  # minutes that a message may wait
TAIL: Final = 100  # lines of each chain that are hashed again


def doctor(
    ctx: typer.Context,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write a file for a bug report: no values, no names."),
    ] = None,
    only: Annotated[list[Part] | None, typer.Option(help="Look at this alone.")] = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Mend what is safe to mend, after a question."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="With --fix: tell what it would do.")
    ] = False,
) -> None:
    """Look at store, ledger, queue, connectors, clock and permissions.

    Exit 1 if something fails; what only warns leaves it at 0. The whole ledger is
    checked by: ledger verify. With --fix files are closed to others and lines that the
    shipped ledger lacks are appended: each repair is told first, and nothing else is
    touched.
    """
    context: CliContext = ctx.obj
    wanted = set(only or Part)
    found = [f for f in _all(context) if f.part in wanted]
    if fix and _mended(context, found, dry_run=dry_run):
        found = [f for f in _all(context) if f.part in wanted]
    told = {
        "schema": "dispatcher.doctor/1",
        "findings": [one.document for one in found],
    }
    if bundle is not None:
        context.spare(bundle)
        write_private(bundle, _bundle(found))
        context.say(f"wrote {bundle} (0600): no values, no names; look into it first")
    context.show(told, "\n".join(_lay_out(f) for f in found))
    if any(f.word is Word.FAIL for f in found):
        leave(EXIT_FAILED)


def _mended(context: CliContext, found: list[Finding], *, dry_run: bool) -> bool:
    """Tell the repairs, ask, and do them; False where nothing was done."""
    repairs = [one.repair for one in found if one.repair is not None]
    for repair in repairs:
        context.say(f"{'would ' if dry_run else ''}{repair.what}")
    if not repairs:
        context.say("there is nothing to mend that is safe to be mended by itself")
    if not repairs or dry_run:
        return False
    context.confirm(f"do {'this' if len(repairs) == 1 else f'these {len(repairs)}'}?")
    for repair in repairs:
        repair.do()
        context.say(f"done: {repair.what}")
    return True


def _all(context: CliContext) -> Findings:
    yield from doctor_files.permissions(
        context
    )  # first: to open it closes it to others
    try:
        with context.open_store() as store:
            for look in (_store, _ledger, _queue, _clock):
                yield from _watched(look, store)
            yield from _watched(doctor_files.shipped, context, store)
            yield from _watched(doctor_files.anchored, context, store)
            yield from _watched(doctor_files.erased, context)
            yield from _watched(doctor_files.room, context, store)
            yield from _watched(_connectors, context, store)
    except DispatcherError as error:
        yield Finding(
            Part.STORE,
            Word.FAIL,
            f"the store cannot be opened ({error.code})",
            error.why,
            error.fix,
            private=error.what,
        )


def _watched(look: Callable[..., Findings], *parts: object) -> Findings:
    """Go on with the next look where one fails by itself."""
    try:
        yield from look(*parts)
    except DispatcherError as error:
        yield Finding(
            Part.STORE, Word.FAIL, f"a look failed ({error.code})", error.why, error.fix
        )


def _store(store: Store) -> Findings:
    from dispatcher.store import checks, schema

    with store.read() as tx:
        bad = checks.integrity(tx)
        head = schema.version(tx)
        unguarded = checks.missing_guards(tx)
    if bad:
        yield Finding(
            Part.STORE,
            Word.FAIL,
            f"the database is damaged ({bad} faults)",
            "pages of the file are not as they were written: a disk or a copy failed",
            "stop the daemon, keep the file, restore the last backup: dispatcher restore",
        )
    else:
        yield Finding(
            Part.STORE, Word.OK, f"store opens ({store.dialect}), integrity ok"
        )
    yield Finding(Part.STORE, Word.OK, f"migrations at head ({head})")
    if unguarded:
        yield Finding(
            Part.STORE,
            Word.FAIL,
            f"nothing refuses changes of the ledger: no {', '.join(unguarded)}",
            "somebody dropped triggers, or copied the tables without them",
            "stop the daemon, dispatcher ledger verify, then restore a backup",
        )


def _ledger(store: Store) -> Findings:
    from dispatcher.ledger import comparison
    from dispatcher.store import checks, moments, statistics

    with store.read() as tx:
        chains, lines, _ = statistics.lines(tx)
        good = comparison.chain_ends_hold(tx, lines=TAIL, every=True)
        wrong = comparison.compare(tx).differences
        # A store that is not a day old could not have been verified a day ago.
        verified = moments.moment(tx, moments.LEDGER_VERIFIED) or checks.first_moment(
            tx
        )
    if good:
        text = (
            f"ledger: {lines:,} lines in {chains:,} chains, their ends read as written"
        )
        yield Finding(Part.LEDGER, Word.OK, text)
    else:
        yield Finding(
            Part.LEDGER,
            Word.FAIL,
            "ledger: a chain's last lines do not follow from each other",
            "somebody wrote into the tables past the program",
            "stop the daemon, keep the store as it is: dispatcher ledger verify",
        )
    if wrong:
        yield Finding(
            Part.LEDGER,
            Word.FAIL,
            f"the store is not as its ledger says: {'; '.join(map(str, wrong))}",
            "somebody wrote into the tables past the program",
            "keep the store as it is; restore a backup from before the change: "
            "dispatcher restore BACKUP --replay-ledger",
        )
    if verified is not None and wall_clock() - verified > 24 * 60 * MINUTE:
        yield Finding(
            Part.LEDGER,
            Word.WARN,
            "the whole ledger was not verified within 24 h",
            fix="dispatcher ledger verify",
        )


def _queue(store: Store) -> Findings:
    from dispatcher.store import statistics

    now = wall_clock()
    with store.read() as tx:
        waiting, dead = statistics.waiting(tx), statistics.dead(tx)
    late = [row for row in waiting if now - row.oldest > LATE * MINUTE]
    for row in late:
        yield Finding(
            Part.QUEUE,
            Word.FAIL,
            f"outbox: oldest message {(now - row.oldest) // MINUTE:,} min (limit {LATE}), "
            f"{row.messages:,} waiting for one connector, {row.tries} tries",
            "nothing leads, it is paused, or its market refuses",
            "dispatcher status, then: dispatcher queue list --state ready",
            private=row.connector,
        )
    if not late:
        total = sum(row.messages for row in waiting)
        yield Finding(Part.QUEUE, Word.OK, f"outbox: {total:,} waiting, none for long")
    if dead:
        yield Finding(
            Part.QUEUE,
            Word.WARN,
            f"outbox: {sum(count for *_, count in dead):,} messages were given up",
            fix="dispatcher queue dead list",
        )


def _connectors(context: CliContext, store: Store) -> Findings:
    for number, name in enumerate(sorted(context.config.connectors), start=1):
        try:
            context.open_connectors(store, [name])
        except DispatcherError as error:
            yield Finding(
                Part.CONNECTORS,
                Word.FAIL,
                f"connector {number} cannot be opened ({error.code})",
                private=f"{name}: {error.what}; {error.fix}",
            )
        else:
            text = f"connector {number} opens"
            yield Finding(Part.CONNECTORS, Word.OK, text, private=name)
    with store.read() as tx:
        obstacles = context.preflight(store).look(tx).obstacles
    for one in obstacles:
        yield Finding(
            Part.CONNECTORS,
            Word.WARN,
            f"a connector is given nothing for {one.accounts:,} accounts",
            fix=one.fix,
            private=f"{one.connector}: {one.what}",
        )


def _clock(store: Store) -> Findings:
    from dispatcher.store import checks

    before = wall_clock()
    with store.read() as tx:
        last, there = checks.last_moment(tx), checks.server_clock(tx)
    now = wall_clock()
    if last - now > MINUTE:
        yield Finding(
            Part.CLOCK,
            Word.FAIL,
            f"the clock is {(last - now) // MINUTE:,} min behind the ledger's last line",
            "the clock of this machine, or of one that led before, is wrong",
            "set it by NTP; the ledger goes on with its own last moment until then",
        )
    elif there is not None and not before - MINUTE < there < now + MINUTE:
        yield Finding(
            Part.CLOCK,
            Word.WARN,
            f"the database server's clock is {abs(there - now) // 1_000_000:,} s off ours",
            fix="set both by NTP",
        )
    else:
        yield Finding(Part.CLOCK, Word.OK, "clock is not behind the ledger")


def _lay_out(found: Finding) -> str:
    aside = f"   [{found.private}]" if found.private else ""
    lines = [f"{found.word.value:4}  {found.text}{aside}"]
    lines += [
        f"      {word}: {text}"
        for word, text in (("why", found.why), ("fix", found.fix))
        if text
    ]
    return "\n".join(lines)


def _bundle(found: list[Finding]) -> str:
    """Put down the findings and the program; nothing that names anybody or anything."""
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
            {k: v for k, v in asdict(one).items() if k in ("part", "word", "text")}
            for one in found
        ],
    }
    return json.dumps(document, indent=1) + "\n"
