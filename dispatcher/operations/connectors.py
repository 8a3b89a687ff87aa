"""Connectors: set up, test, enable, disable and reconcile them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from connectors import isolation
from connectors.base import (
    ConnectorError,
    Content,
    Feed,
    Funded,
    Inviting,
    Listing,
    Manifest,
    Market,
    Probing,
    Stranger,
    Tried,
    TryLater,
)
from dispatcher.core.config import CONFIG_NAME
from dispatcher.core.errors import (
    Conflict,
    DispatcherError,
    Invalid,
    MarketUnavailable,
    NoStore,
    NotFound,
    Usage,
)
from dispatcher.core.plugins import available, load_plugin, open_connector
from dispatcher.core.private_files import write_private
from dispatcher.identity import HOME
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.reconciling import Drift, Mending, Reconciling
from dispatcher.store import Store, Tx, accounts, pause, settings
from dispatcher.store import reconciling as rows

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")  # TOML's bare key
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
FRESH: Final = "added and not enabled yet"
ABSENT: Final = "dispatcher-connectors-test"
"""A key that no message has: real ones are 32 hex digits."""

MICRO: Final = 1_000_000
NO_SETTINGS: Final[Mapping[str, str]] = {}
SKELETON: Final = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "{package}/__init__.py": "plugin.py.txt",
    "tests/test_contract.py": "test_contract.py.txt",
}


@dataclass(frozen=True)
class Health:
    """How a connector fares, as the daemon and the last test of it left word.

    Attributes
    ----------
    circuit : str
        ``closed``: it is called; ``open``: it rests after failures until ``next_try``;
        ``half-open``: the next call decides.
    since, next_try : int or None
        Since when it is not closed, and when it is called again.
    failures : int
        In a row.
    error : str
        The last one, without a value; empty while it is closed.
    balance : str
        What was left in its account, ``GBP:214.10``; empty: nobody asked, or it cannot
        tell.
    balance_at : int or None
        When it said so.
    """

    circuit: str = "closed"
    since: int | None = None
    next_try: int | None = None
    failures: int = 0
    error: str = ""
    balance: str = ""
    balance_at: int | None = None


@dataclass(frozen=True)
class Connector:
    """A configured connector, or an available kind, with its manifest.

    How it fares is filled in by :func:`health`.
    """

    name: str
    kind: str
    origin: str
    manifest: Manifest
    health: Health = Health()


class CheckState(StrEnum):
    """Result of asking a connector."""

    WORKS = "ok"
    LATER = "LATER"
    FAILS = "FAIL"


@dataclass(frozen=True)
class ConnectorCheck:
    """How a connector answers, or why it does not."""

    state: CheckState
    why: str
    balance: str = ""


def health(workspace: Workspace, store: Store) -> dict[str, Health]:
    """Return how each connector of the settings fares."""
    now = workspace.clock()
    with store.read() as tx:
        return {name: _health(tx, name, now) for name in workspace.config.connectors}


def last_health(workspace: Workspace) -> dict[str, Health]:
    """As :func:`health`, where a store need not be there yet."""
    try:
        with workspace.open_store() as store:
            return health(workspace, store)
    except NoStore:
        return {name: Health() for name in workspace.config.connectors}


def _health(tx: Tx, name: str, now: int) -> Health:
    found, left = settings.circuit(tx, name), settings.balance(tx, name)
    balance, at = ("", None) if left is None else left
    if found is None:
        return Health(balance=balance, balance_at=at)
    return Health(
        "open" if found.until > now else "half-open",
        found.since,
        found.until,
        found.failures,
        found.error,
        balance,
        at,
    )


def note_balance(workspace: Workspace, name: str, found: ConnectorCheck) -> None:
    """Keep what a connector said is left in its account, if it did."""
    if found.balance:
        with workspace.open_store() as store, store.write() as tx:
            settings.note_balance(tx, name, found.balance, workspace.clock())


def values_of(workspace: Workspace, name: str) -> dict[str, str]:
    """Settings of one connector.

    Raises
    ------
    NotFound
        There is none of that name.
    """
    configured = workspace.config.connectors
    if name not in configured:
        raise NotFound(
            f"there is no connector {name!r}",
            why=f"set up: {', '.join(sorted(configured)) or 'none'}",
            fix=f"dispatcher connectors add {name} --kind KIND",
            name=name,
            known=configured,
        )
    return dict(configured[name])


def list_connectors(workspace: Workspace) -> list[Connector]:
    """Connectors of the settings."""
    origins = available()
    return [
        _connector(name, values.get("kind", name), values, origins)
        for name, values in workspace.config.connectors.items()
    ]


def list_kinds() -> list[Connector]:
    """List all available kinds, by their own names."""
    origins = available()
    return [_connector(kind, kind, NO_SETTINGS, origins) for kind in origins]


def show(workspace: Workspace, name: str) -> Connector:
    """Return a configured connector with all that it declares."""
    values = values_of(workspace, name)
    return _connector(name, values.get("kind", name), values, available())


def _connector(
    name: str, kind: str, values: Mapping[str, str], origins: Mapping[str, str]
) -> Connector:
    manifest = load_plugin(kind).declared(values)
    return Connector(name, kind, origins.get(kind, "unknown"), manifest)


def last_tried(workspace: Workspace, name: str) -> dict[str, Any] | None:
    """Return the result of the last isolation test; None if there is none."""
    try:
        with workspace.open_store() as store, store.read() as tx:
            return settings.isolation_result(tx, name)
    except NoStore:
        return None


def open_one(workspace: Workspace, name: str) -> Market | Feed:
    """Open a configured connector; open the store only if needed."""
    values = values_of(workspace, name)
    if values.get("kind", name) != HOME:
        return open_connector(name, values, directory=workspace.directory)
    with workspace.open_store() as store:
        return workspace.open_connectors(store, [name])[name]


def ask(opened: Market | Feed) -> ConnectorCheck:
    """Ask a connector for a nonexistent message, and close it."""
    if not opened.manifest.finds:
        return ConnectorCheck(
            CheckState.WORKS,
            "it cannot be asked without sending; the first message will tell",
        )
    balance = ""
    try:
        opened.find(ABSENT)
        if isinstance(opened, Funded):
            balance = str(opened.balance())
    except TryLater as error:
        return ConnectorCheck(CheckState.LATER, error.what)
    except ConnectorError as error:
        why = f"{error.what}: {error.fix}" if error.fix else error.what
        return ConnectorCheck(CheckState.FAILS, why)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported by type
        return ConnectorCheck(
            CheckState.FAILS, f"the connector failed: {type(error).__name__}"
        )
    finally:
        _close(opened)
    return ConnectorCheck(CheckState.WORKS, "the outside answers", balance)


def _close(opened: Market | Feed) -> None:
    close = getattr(opened, "close", None)
    if close is not None:
        close()


def try_walls(
    workspace: Workspace,
    name: str,
    other: str,
    *,
    worker: str | None = None,
    password: str = "",
) -> list[Tried]:
    """Test the isolation of workers at a market, and store the result.

    Parameters
    ----------
    workspace : Workspace
    name : str
        The connector.
    other : str
        The worker who must not see synthetic work.
    worker : str, optional
        Its recipient; None: the first of the connector's workers.
    password : str
        The other worker's at the market.
    """
    with workspace.open_store() as store:
        opened = workspace.open_connectors(store, [name])[name]
        if not isinstance(opened, Market):
            raise Usage(
                f"connector {name!r} is a feed",
                why="nobody arrives at a feed: whoever reads there has seen all",
                fix="test it without --as",
            )
        account = worker or _first_worker(store, name, other)
        try:
            tried = list(_tried(workspace, opened, account, Stranger(other, password)))
        except ConnectorError as error:
            raise Conflict(
                f"connector {name!r} cannot be tried: {error.what}",
                why=error.why,
                fix=error.fix,
            ) from error
        except DispatcherError:
            raise
        except (Exception, SystemExit) as error:  # a plugin's fault is reported by type
            raise Conflict(
                f"connector {name!r} failed while it was tried",
                why=type(error).__name__,
                fix="tell its author: connectors.testing.suite would have found it",
            ) from error
        finally:
            _close(opened)
        _keep(workspace, store, name, other, tried)
    return tried


def _first_worker(store: Store, name: str, other: str) -> str:
    with store.read() as tx:
        found = [
            account.name
            for account in accounts.all_accounts(tx)
            if account.connector == name and account.name != other
            if account.state == "active"  # not stopped, has not left
        ]
    if not found:
        raise Usage(
            f"connector {name!r} has no active worker to offer synthetic work to",
            why="it is offered to one worker, and another one tries to open it",
            fix="name one: --worker ACCOUNT",
        )
    return found[0]


def _tried(
    workspace: Workspace, opened: Market, account: str, other: Stranger
) -> Iterator[Tried]:
    now = datetime.fromtimestamp(workspace.clock() / MICRO, UTC)
    link = workspace.config.surfaces.task_page
    yield from isolation.try_claims(opened.arrive, other.account, now)
    if isinstance(opened, Inviting):
        yield from isolation.try_links(
            opened.arrive, opened.invite, account, other.account, now
        )
    if opened.manifest.content is Content.OURS:
        yield from isolation.try_content(opened.publish, opened.withdraw, account, link)
    if isinstance(opened, Probing):
        yield from opened.probe(account, other, link)


def _keep(
    workspace: Workspace, store: Store, name: str, other: str, tried: Sequence[Tried]
) -> None:
    walls = {
        wall: all(one.held for one in tried if one.wall == wall)
        for wall in {one.wall.value for one in tried}
    }
    result = {"at": workspace.clock(), "as": other, "walls": walls}
    with store.write() as tx:
        settings.note_isolation(tx, name, result)


def add(
    workspace: Workspace,
    name: str,
    values: Mapping[str, str],
    secret: bytes | None,
    *,
    dry_run: bool = False,
    inside: bool = False,
) -> None:
    """Add a connector to the settings; it stays disabled until it is enabled.

    It is opened first: where a setting or the secret is wrong, nothing is changed. A
    secret is kept beside the settings, for its owner only.

    Parameters
    ----------
    workspace : Workspace
    name : str
    values : Mapping[str, str]
        Its settings, ``kind`` among them.
    secret : bytes or None
    dry_run : bool
        Open it only.
    inside : bool
        Whether its folders must lie in the workspace: whoever asks is elsewhere.

    Raises
    ------
    Usage, Conflict
        The name cannot be used, or is in use.
    Invalid
        A setting does not fit on one line.
    """
    _check_name(name)
    if name in workspace.config.connectors:
        raise Conflict(
            f"there is a connector {name!r} already",
            why="a name is one account's half: workers and the ledger go by it",
            fix="choose another name, or correct its section in dispatcher.toml",
        )
    values = dict(values)
    if secret is not None:
        values["secret_file"] = f"{name}.secret"
    _check_lines(name, values)
    text = _with_section(workspace, name, values)
    _open_with(workspace, name, values, secret or b"", inside=inside)
    if dry_run:
        return
    with workspace.open_store() as store:
        disable(workspace, store, name, FRESH)
    if secret is not None:
        _write(workspace.directory / values["secret_file"], secret)
    _write(_settings_file(workspace), text.encode())


def secret_file_of(workspace: Workspace, name: str) -> str:
    """The file of the settings that holds a connector's secret.

    Raises
    ------
    Conflict
        The connector names none.
    """
    values = values_of(workspace, name)
    if "secret_file" not in values:
        raise Conflict(
            f"connector {name!r} names no secret_file",
            why="a secret lies in a file of its own, never among the settings",
            fix=f'add secret_file = "{name}.secret" to [connectors.{name}]',
        )
    return values["secret_file"]


def set_secret(
    workspace: Workspace, name: str, secret: bytes, *, dry_run: bool = False
) -> None:
    """Replace a connector's secret, once it opens with the new one."""
    file = secret_file_of(workspace, name)
    _open_with(workspace, name, values_of(workspace, name), secret)
    if not dry_run:
        _write(workspace.directory / file, secret)


def disable(workspace: Workspace, store: Store, name: str, reason: str) -> None:
    """Stop sending and showing through a connector; answers are still taken."""
    with store.write() as tx:
        pause.pause(tx, f"connector:{name}", reason, workspace.clock())


def enable(store: Store, name: str) -> None:
    """Enable a disabled connector."""
    with store.write() as tx:
        pause.resume(tx, f"connector:{name}")


def check_answer(name: str, answer: ConnectorCheck) -> None:
    """Refuse to enable a connector that does not work.

    Raises
    ------
    Conflict
    """
    if answer.state is not CheckState.WORKS:
        raise Conflict(
            f"connector {name!r} does not work: {answer.why}",
            why="what is enabled is given work at once",
            fix=f"fix it (dispatcher connectors test {name}), or add --untested",
        )


def reconcile(
    workspace: Workspace,
    store: Store,
    name: str,
    *,
    mend: bool = False,
    trust: bool = False,
) -> Drift:
    """Compare what a market has of this store with what the store knows.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    name : str
        A market of the settings.
    mend : bool
        Repair differences, as the daemon does.
    trust : bool
        Trust the market's list even if most of what was sent is missing there.

    Raises
    ------
    Conflict
        The connector cannot list, or cannot be called at all.
    MarketUnavailable
        It cannot be asked now.
    """
    how = Mending(mend=mend, trust=trust, actor=workspace.actor)
    market = workspace.open_connectors(store, [name])[name]
    if not (isinstance(market, Market) and isinstance(market, Listing)):
        raise Conflict(
            f"connector {name!r} cannot tell what it has of us",
            why="its kind does not list; a feed never does",
            fix="nothing is to be done: what is asked of it is asked one by one",
        )
    try:
        return Reconciling(store, name, market, workspace.clock).reconcile(how)
    except TryLater as error:
        raise MarketUnavailable(
            f"connector {name!r}: {error.what}", why=error.why, fix=error.fix
        ) from error
    except ConnectorError as error:
        raise Conflict(
            f"connector {name!r}: {error.what}", why=error.why, fix=error.fix
        ) from error


def collect_again(store: Store, name: str) -> None:
    """Collect all answers at a market again; known ones are not duplicated."""
    with store.write() as tx:
        rows.save_cursor(tx, name, "")


def write_package(name: str, into: Path, *, dry_run: bool = False) -> list[Path]:
    """Write a package with a working connector and its contract test.

    Raises
    ------
    Usage, Conflict
        The name cannot be used, or the directory is there already.
    """
    _check_name(name)
    package = package_of(name)
    words = {
        "name": name,
        "package": package,
        "market": "".join(part.title() for part in re.split("[-_]", name)),
    }
    if into.exists():
        raise Conflict(
            f"{into} is here already",
            why="nothing is written over",
            fix="name a new directory with --output",
        )
    written = []
    for place, source in SKELETON.items():
        template = files("dispatcher.operations") / "skeleton" / source
        path = into / place.format(package=package)
        written.append(path)
        if dry_run:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template(template.read_text(encoding="utf-8")).substitute(words)
        path.write_text(text, encoding="utf-8")
    return written


def package_of(name: str) -> str:
    """Python name of the package of a new connector."""
    return f"connector_{name.replace('-', '_')}"


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Usage(
            f"{name!r} is no name of a connector",
            why="it is the part before the slash in every worker's name",
            fix="a lower-case letter, then up to 39 of a-z, 0-9, - and _",
        )


def _check_lines(name: str, values: Mapping[str, str]) -> None:
    """Refuse what does not fit on one line of the settings."""
    for key, text in values.items():
        if not _KEY.fullmatch(key):
            raise Invalid(
                f"a setting of connector {name!r} has a name that none has",
                why="a setting is named by letters, digits, - and _",
                fix="write it as the settings of its kind are written, such as url",
            )
        if _CONTROL.search(text):
            raise Invalid(
                f"setting {key} of connector {name!r} has a control character",
                why="a setting is one line of text",
                fix=f"leave line feeds, tabs and the like out of {key}",
                facts={"setting": key},
            )


def _open_with(
    workspace: Workspace,
    name: str,
    values: Mapping[str, str],
    secret: bytes,
    *,
    inside: bool = False,
) -> Market | Feed:
    """Open a connector with a secret that is not in its file yet."""
    own = {key: text for key, text in values.items() if key != "secret_file"}
    if "secret_file" in values and not secret:
        own = dict(values)
    if own.get("kind", name) == HOME and not secret:
        secret = bytes(32)  # the store gives it one of its own
    return open_connector(
        name,
        own,
        directory=workspace.directory,
        secret=secret.strip(),
        inside=inside,
    )


def _settings_file(workspace: Workspace) -> Path:
    return workspace.config_file or workspace.directory / CONFIG_NAME


def _with_section(workspace: Workspace, name: str, values: Mapping[str, str]) -> str:
    """Return the settings with one more connector, validated by parsing them again.

    Without any section the defaults apply: they are written out, else they would end.
    """
    path = _settings_file(workspace)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    sections: dict[str, Any] = {name: values}
    if "connectors" not in tomllib.loads(text):
        sections = {**workspace.config.connectors, **sections}
    for section, own in sections.items():
        lines = [f"{key} = {_quoted(value)}" for key, value in own.items()]
        text = "\n".join([text.rstrip("\n"), "", f"[connectors.{section}]", *lines, ""])
    read = tomllib.loads(text)["connectors"]
    if read.get(name) != values:
        raise Invalid(
            f"{path} cannot be added to",
            why="its connectors are written in a way that no section fits behind",
            fix=f"write [connectors.{name}] into it by hand",
        )
    return text.lstrip("\n")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically; create it readable only for its owner."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    write_private(path, content, mode=mode)
