"""Diagnosis of a store and its environment, with a remedy for each fault."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from dispatcher.access.oidc import LEEWAY, ProviderError
from dispatcher.core import plurals
from dispatcher.core.errors import DispatcherError, Invalid, LedgerBroken
from dispatcher.custody import erasure_list
from dispatcher.ledger import comparison
from dispatcher.ledger.shipping.shipper import look as look_at_shipped
from dispatcher.operations.notices import MAIL_NAME, list_receivers
from dispatcher.operations.people import open_provider
from dispatcher.operations.workspace import Workspace
from dispatcher.store import (
    Store,
    audit_log,
    checks,
    migrations,
    settings,
    statistics,
)

MINUTE: Final = 60_000_000
LATE: Final = 10
"""Minutes that a message may wait."""

TAIL: Final = 100
"""Lines at the end of each chain that are hashed again."""

ACTS: Final = 1000
"""Lines at the end of the audit log that are hashed again."""

FULL: Final = (0.9, 0.97)
"""Shares of a disk in use: WARN from the first, FAIL from the second."""

SETTLING: Final = 1.0
"""Seconds between two checks of lines that may be in transit."""


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "WARN"
    FAIL = "FAIL"


class DoctorPart(StrEnum):
    """A part that can be checked alone."""

    STORE = "store"
    LEDGER = "ledger"
    QUEUE = "queue"
    CONNECTORS = "connectors"
    CLOCK = "clock"
    PERMISSIONS = "permissions"
    PROVIDER = "provider"


@dataclass(frozen=True)
class Repair:
    """A repair that needs no decision and loses nothing.

    Attributes
    ----------
    what : str
        What is done, for the operator.
    do : callable
    """

    what: str
    do: Callable[[], object]


@dataclass(frozen=True)
class Finding:
    """Result of one check, without values and, except in ``private``, without names.

    Attributes
    ----------
    part : DoctorPart
    severity : Severity
    text : str
        May be passed on to others.
    why, fix : str
    private : str
        Details for the operator only: a path, a connector.
    repair : Repair, optional
        What ``--fix`` does about it.
    """

    part: DoctorPart
    severity: Severity
    text: str
    why: str = ""
    fix: str = ""
    private: str = ""
    repair: Repair | None = None


Findings = Iterator[Finding]


def diagnose(workspace: Workspace, only: Collection[DoctorPart] = ()) -> list[Finding]:
    """Check everything, or some parts only.

    Parameters
    ----------
    workspace : Workspace
    only : collection of DoctorPart
        Empty: all parts.
    """
    wanted = only or tuple(DoctorPart)
    return [one for one in _all(workspace) if one.part in wanted]


def _all(workspace: Workspace) -> Findings:
    yield from _permissions(workspace)  # first: opening a store closes it to others
    try:
        with workspace.open_store() as store:
            for check in (
                *(_store, _ledger, _queue, _clock, _shipped),
                *(_anchored, _erased, _room, _connectors, _provider),
            ):
                yield from _guarded(check, workspace, store)
    except DispatcherError as error:
        yield Finding(
            DoctorPart.STORE,
            Severity.FAIL,
            f"the store cannot be opened ({error.code})",
            error.why,
            error.fix,
            private=error.what,
        )


def _guarded(
    check: Callable[[Workspace, Store], Findings], workspace: Workspace, store: Store
) -> Findings:
    """Go on with the next check if one raises an error."""
    try:
        yield from check(workspace, store)
    except DispatcherError as error:
        yield Finding(
            DoctorPart.STORE,
            Severity.FAIL,
            f"a check failed ({error.code})",
            error.why,
            error.fix,
        )


def _store(_: Workspace, store: Store) -> Findings:

    with store.read() as tx:
        bad = checks.integrity(tx)
        head = migrations.version(tx)
        unguarded = checks.missing_guards(tx)
    if bad:
        yield Finding(
            DoctorPart.STORE,
            Severity.FAIL,
            f"the database is damaged ({bad} faults)",
            "pages of the file are not as they were written: a disk or a copy failed",
            "stop the daemon, keep the file, restore the last backup: dispatcher backup restore",
        )
    else:
        yield Finding(
            DoctorPart.STORE,
            Severity.OK,
            f"store opens ({store.dialect}), integrity ok",
        )
    yield Finding(DoctorPart.STORE, Severity.OK, f"migrations at head ({head})")
    if unguarded:
        yield Finding(
            DoctorPart.STORE,
            Severity.FAIL,
            f"nothing refuses changes of the ledger: no {', '.join(unguarded)}",
            "somebody dropped triggers, or copied the tables without them",
            "stop the daemon, dispatcher ledger verify, then restore a backup",
        )


def _ledger(workspace: Workspace, store: Store) -> Findings:

    with store.read() as tx:
        chains, lines, _ = statistics.lines(tx)
        good = comparison.chain_ends_hold(tx, lines=TAIL, every=True)
        broken = [] if good else ["a chain"]
        try:
            audit_log.check_chain(tx, last=ACTS)
        except LedgerBroken:
            broken.append("the audit log")
        wrong = comparison.compare(tx).differences
        # A store younger than a day could not have been verified a day ago.
        verified = settings.moment(tx, settings.LEDGER_VERIFIED) or checks.first_moment(
            tx
        )
    if not broken:
        text = (
            f"ledger: {lines:,} lines in {chains:,} chains, their ends read as written"
        )
        yield Finding(DoctorPart.LEDGER, Severity.OK, text)
    for what in broken:
        yield Finding(
            DoctorPart.LEDGER,
            Severity.FAIL,
            f"ledger: {what}'s last lines do not follow from each other",
            "somebody wrote into the tables past the program",
            "stop the daemon, keep the store as it is: dispatcher ledger verify",
        )
    if wrong:
        yield Finding(
            DoctorPart.LEDGER,
            Severity.FAIL,
            f"the store is not as its ledger says: {'; '.join(map(str, wrong))}",
            "somebody wrote into the tables past the program",
            "keep the store as it is; restore a backup from before the change: "
            "dispatcher backup restore BACKUP --replay-ledger",
        )
    if verified is not None and workspace.clock() - verified > 24 * 60 * MINUTE:
        yield Finding(
            DoctorPart.LEDGER,
            Severity.WARN,
            "the whole ledger was not verified within 24 h",
            fix="dispatcher ledger verify",
        )


def _queue(workspace: Workspace, store: Store) -> Findings:

    now = workspace.clock()
    with store.read() as tx:
        waiting, dead = statistics.waiting(tx), statistics.dead(tx)
    late = [row for row in waiting if now - row.oldest > LATE * MINUTE]
    for row in late:
        yield Finding(
            DoctorPart.QUEUE,
            Severity.FAIL,
            f"outbox: oldest message {(now - row.oldest) // MINUTE:,} min (limit {LATE}), "
            f"{row.messages:,} waiting for one connector, {row.tries} tries",
            "nothing leads, it is paused, or its market refuses",
            "dispatcher status, then: dispatcher queue list --state ready",
            private=row.connector,
        )
    if not late:
        total = sum(row.messages for row in waiting)
        yield Finding(
            DoctorPart.QUEUE, Severity.OK, f"outbox: {total:,} waiting, none for long"
        )
    if dead:
        gone = sum(messages for *_, messages in dead)
        yield Finding(
            DoctorPart.QUEUE,
            Severity.WARN,
            f"outbox: {plurals.count(gone, 'message was', 'messages were')} given up",
            fix="dispatcher queue list --state dead",
        )
    receivers = list_receivers(workspace, store)
    for one in receivers.webhooks:
        if one.state == "disabled":
            yield Finding(
                DoctorPart.QUEUE,
                Severity.WARN,
                f"notices: webhook {one.id} is disabled",
                "it answered 410 Gone: nobody takes notices there",
                f"dispatcher notices test {one.id}, or: dispatcher notices remove {one.id}",
            )
    failed = {str(one.id): one.failed for one in receivers.webhooks}
    failed |= {MAIL_NAME: receivers.mail.failed} if receivers.mail else {}
    for receiver, number in failed.items():
        if number:
            yield Finding(
                DoctorPart.QUEUE,
                Severity.WARN,
                f"notices: {number:,} were given up in the last 30 days",
                fix=f"dispatcher notices deliveries {receiver} --failed",
            )


def _connectors(workspace: Workspace, store: Store) -> Findings:
    for number, name in enumerate(sorted(workspace.config.connectors), start=1):
        try:
            workspace.open_connectors(store, [name])
        except DispatcherError as error:
            yield Finding(
                DoctorPart.CONNECTORS,
                Severity.FAIL,
                f"connector {number} cannot be opened ({error.code})",
                private=f"{name}: {error.what}; {error.fix}",
            )
        else:
            text = f"connector {number} opens"
            yield Finding(DoctorPart.CONNECTORS, Severity.OK, text, private=name)
    with store.read() as tx:
        obstacles = workspace.preflight(store).look(tx).obstacles
    for one in obstacles:
        yield Finding(
            DoctorPart.CONNECTORS,
            Severity.WARN,
            f"a connector is given nothing for {one.accounts:,} accounts",
            fix=one.fix,
            private=f"{one.connector}: {one.what}",
        )


def _provider(workspace: Workspace, _: Store) -> Findings:
    try:
        provider = open_provider(workspace)
        if provider is None:
            return
        with closing(provider):
            ahead = provider.clock_difference(workspace.clock)
    except Invalid as error:
        yield _failed(
            DoctorPart.PROVIDER, "users cannot sign in by the provider", error
        )
        return
    except ProviderError as error:
        yield Finding(
            DoctorPart.PROVIDER,
            Severity.FAIL,
            "the OpenID provider cannot be used: nobody signs in by it",
            "its description or its keys were read in vain",
            "check [oidc] and the provider; meanwhile: dispatcher console link",
            private=error.what,
        )
        return
    if ahead is not None and abs(ahead) > LEEWAY:
        yield Finding(
            DoctorPart.PROVIDER,
            Severity.FAIL,
            f"the OpenID provider's clock is {abs(ahead):,} s off ours",
            f"what it signs is refused from {LEEWAY} s on",
            "set both by NTP",
        )
    else:
        yield Finding(DoctorPart.PROVIDER, Severity.OK, "the OpenID provider answers")


def _clock(workspace: Workspace, store: Store) -> Findings:

    before = workspace.clock()
    with store.read() as tx:
        last, there = checks.last_moment(tx), checks.server_clock(tx)
    now = workspace.clock()
    if last - now > MINUTE:
        yield Finding(
            DoctorPart.CLOCK,
            Severity.FAIL,
            f"the clock is {(last - now) // MINUTE:,} min behind the ledger's last line",
            "the clock of this machine, or of one that led before, is wrong",
            "set it by NTP; the ledger goes on with its own last moment until then",
        )
    elif there is not None and not before - MINUTE < there < now + MINUTE:
        yield Finding(
            DoctorPart.CLOCK,
            Severity.WARN,
            f"the database server's clock is {abs(there - now) // 1_000_000:,} s off ours",
            fix="set both by NTP",
        )
    else:
        yield Finding(DoctorPart.CLOCK, Severity.OK, "clock is not behind the ledger")


def _permissions(workspace: Workspace) -> Findings:
    """Check that only the owner may read the store's files."""
    loose = [path for path in _files(workspace) if _mode(path) & 0o077]
    for path in loose:
        yield Finding(
            DoctorPart.PERMISSIONS,
            Severity.FAIL,
            f"a file is open to others (mode {_mode(path):04o})",
            "it holds values of records, or a key to them",
            f"chmod go= {path}",
            private=str(path),
            repair=Repair(f"close {path} to others", partial(_close, path)),
        )
    if not loose:
        yield Finding(
            DoctorPart.PERMISSIONS, Severity.OK, "files are for their owner alone"
        )


def _close(path: Path) -> None:
    path.chmod(_mode(path) & ~0o077)


def _shipped(workspace: Workspace, store: Store) -> Findings:
    """Check that the shipped ledger is writable, this store's, and complete."""
    folder = workspace.shipped
    if folder is None:
        yield Finding(
            DoctorPart.LEDGER,
            Severity.WARN,
            "the ledger is not shipped: a store put back from a backup would forget",
            fix='set [ledger] ship = "DIR" in dispatcher.toml, on another disk',
        )
        return
    try:
        seen = look_at_shipped(store, folder)
        if seen.behind:  # a daemon may be writing them
            time.sleep(SETTLING)
            seen = look_at_shipped(store, folder)
    except DispatcherError as error:
        yield _failed(
            DoctorPart.LEDGER, "the shipped ledger cannot be gone on with", error
        )
        return
    if not seen.behind:
        files = f"{seen.files:,} {'file' if seen.files == 1 else 'files'}"
        text = f"shipped ledger: {files}, has every line of the store"
        yield Finding(DoctorPart.LEDGER, Severity.OK, text, private=str(folder))
        return
    yield Finding(
        DoctorPart.LEDGER,
        Severity.WARN,
        f"the shipped ledger lacks {seen.behind:,} lines of the store",
        "whoever wrote them ended before they were shipped; nothing of them was shown",
        "dispatcher doctor --fix; a daemon that starts appends them too",
        private=str(folder),
        repair=Repair(
            f"append {seen.behind:,} lines to {folder}", partial(_ship, workspace)
        ),
    )


def _anchored(workspace: Workspace, store: Store) -> Findings:
    """Check that the store has every anchored root."""
    try:
        roots = workspace.check_anchor(store)
    except DispatcherError as error:
        what = "the store and its anchored roots do not agree"
        yield _failed(DoctorPart.LEDGER, what, error)
        return
    if roots:
        yield Finding(
            DoctorPart.LEDGER, Severity.OK, f"all {roots:,} anchored roots are its own"
        )


def _erased(workspace: Workspace, _: Store) -> Findings:
    """Check that the list of erasures is readable: ``up`` and ``restore`` need it."""
    try:
        erasure_list.read(*erasure_list.places(workspace.directory, workspace.shipped))
    except DispatcherError as error:
        yield _failed(DoctorPart.STORE, "the list of erasures cannot be read", error)


def _failed(part: DoctorPart, what: str, error: DispatcherError) -> Finding:
    """Turn an error of a check into a finding with the error's remedy."""
    details = _one_line(f"{error.what}. {error.why}")
    return Finding(
        part, Severity.FAIL, f"{what} ({error.code})", fix=error.fix, private=details
    )


def _ship(workspace: Workspace) -> None:
    with workspace.open_store() as store:
        store.settle(afresh=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _files(workspace: Workspace) -> list[Path]:
    config = workspace.config
    named = [workspace.directory / config.key_file]
    place = workspace.store_url.removeprefix("sqlite:///")
    if "://" not in place:
        named += [Path(f"{place}{tail}") for tail in ("", "-wal", "-shm")]
    folder = workspace.shipped
    if folder is not None and folder.is_dir():
        named += [folder, *(path for path in folder.iterdir() if path.is_file())]
    return [path for path in named if path.exists()]


def _room(workspace: Workspace, store: Store) -> Findings:
    """Check for free space on the disks that are written to."""
    places = {"the store's disk": store.path.parent if store.path else None}
    places["the ledger's disk"] = workspace.shipped
    for name, place in places.items():
        if place is None or not place.exists():
            continue
        usage = shutil.disk_usage(place)
        share = 1 - usage.free / usage.total if usage.total else 0.0
        text = f"{name} is {share:.0%} full"
        if share < FULL[0]:
            yield Finding(DoctorPart.STORE, Severity.OK, text, private=str(place))
        else:
            yield Finding(
                DoctorPart.STORE,
                Severity.WARN if share < FULL[1] else Severity.FAIL,
                text,
                "a full disk stops all bookings (nothing is lost by it)",
                "make room, or move the store to a larger disk",
                private=str(place),
            )


def _mode(path: Path) -> int:
    """Permission bits of a file or directory."""
    return stat.S_IMODE(path.stat().st_mode)
