"""``dispatcher connectors add|set-secret|enable|disable|new``: what changes the set-up."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from getpass import getpass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import Conflict, Invalid, NotFound, Usage
from dispatcher.surfaces.cli.context import CliContext, read_file, wall_clock

if TYPE_CHECKING:
    from connectors.base import Feed, Market

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
FRESH: Final = "added and not enabled yet"
SKELETON: Final = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "{package}/__init__.py": "plugin.py.txt",
    "tests/test_contract.py": "test_contract.py.txt",
}
RESTART: Final = "a daemon that runs reads it when it is started again"

OneName = Annotated[str, typer.Argument(metavar="NAME", help="Of the connector.")]
SecretFrom = Annotated[
    str | None,
    typer.Option("--secret-from", help="File with its secret; - is stdin."),
]


def add(
    ctx: typer.Context,
    name: OneName,
    kind: Annotated[
        str | None, typer.Option(help="Its kind; as the name if not told.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, once for each.")
    ] = None,
    secret_from: SecretFrom = None,
) -> None:
    """Add a connector to dispatcher.toml; it stays disabled until `connectors enable`.

    It is opened first: where a setting or the secret is wrong, nothing is changed. A
    secret is kept beside the settings in NAME.secret, for its owner only.
    """
    from dispatcher.store import pause

    context: CliContext = ctx.obj
    _check_name(name)
    if name in context.config.connectors:
        raise Conflict(
            f"there is a connector {name!r} already",
            why="a name is one account's half: workers and the ledger go by it",
            fix="choose another name, or mend its section in dispatcher.toml",
        )
    values = {"kind": kind or name} | dict(_pair(text) for text in settings or ())
    secret = b"" if secret_from is None else _read_secret(secret_from)
    if secret_from is not None:
        values["secret_file"] = f"{name}.secret"
    text = _with_section(context, name, values)
    _open(context, name, values, secret)
    with context.open_store() as store, store.write() as tx:
        pause.pause(tx, f"connector:{name}", FRESH, wall_clock())
    if secret_from is not None:
        _write(context.directory / values["secret_file"], secret)
    _write(_settings_file(context), text.encode())
    context.show(
        {"schema": "dispatcher.connectors.add/1", "name": name, "kind": values["kind"]},
        f"added {name}, disabled; next: dispatcher connectors test {name}, then "
        f"dispatcher connectors enable {name}",
    )
    context.say(RESTART)


def set_secret(
    ctx: typer.Context,
    name: OneName,
    source: Annotated[
        str, typer.Option("--from-file", help="File with the secret; - is stdin.")
    ] = "-",
) -> None:
    """Put another secret into a connector's secret_file; a wrong one changes nothing.

    It is opened with the new secret before the old one is replaced. On a terminal the
    secret is asked for and not shown.
    """
    context: CliContext = ctx.obj
    values = values_of(context, name)
    if "secret_file" not in values:
        raise Conflict(
            f"connector {name!r} names no secret_file",
            why="a secret lies in a file of its own, never among the settings",
            fix=f'add secret_file = "{name}.secret" to [connectors.{name}]',
        )
    secret = _read_secret(source)
    _open(context, name, values, secret)
    _write(context.directory / values["secret_file"], secret)
    context.show(
        {"schema": "dispatcher.connectors.secret/1", "name": name},
        f"the secret of {name} is replaced",
    )
    context.say(RESTART)


def disable(
    ctx: typer.Context,
    name: OneName,
    reason: Annotated[str, typer.Option(help="Why; kept and shown.")] = "disabled",
) -> None:
    """Send and show nothing more through a connector, at once; answers are taken."""
    from dispatcher.store import pause

    context: CliContext = ctx.obj
    values_of(context, name)
    with context.open_store() as store, store.write() as tx:
        pause.pause(tx, f"connector:{name}", reason, wall_clock())
    _show_state(context, name, "disabled")


def new(
    ctx: typer.Context,
    name: OneName,
    directory: Annotated[
        Path | None, typer.Option("--into", help="A new directory for the package.")
    ] = None,
) -> None:
    """Write a package with a connector that works, and the contract test of it."""
    context: CliContext = ctx.obj
    _check_name(name)
    package = f"connector_{name.replace('-', '_')}"
    words = {
        "name": name,
        "package": package,
        "market": "".join(part.title() for part in re.split("[-_]", name)),
    }
    into = directory or Path(f"sparsi-{package}")
    if into.exists():
        raise Conflict(
            f"{into} is here already",
            why="nothing is written over",
            fix="name a new directory with --into",
        )
    written = []
    for place, source in SKELETON.items():
        template = files("dispatcher.surfaces.cli") / "skeleton" / source
        path = into / place.format(package=package)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template(template.read_text(encoding="utf-8")).substitute(words)
        path.write_text(text, encoding="utf-8")
        written.append(str(path))
    context.show(
        {"schema": "dispatcher.connectors.new/1", "written": written},
        "\n".join(written),
    )
    context.say(f"next: cd {into} && pip install -e . pytest && pytest")


def enable_now(context: CliContext, name: str) -> None:
    """End what keeps a connector disabled."""
    from dispatcher.store import pause

    with context.open_store() as store, store.write() as tx:
        pause.resume(tx, f"connector:{name}")
    _show_state(context, name, "enabled")


def values_of(context: CliContext, name: str) -> dict[str, str]:
    """Settings of one connector.

    Raises
    ------
    NotFound
        There is none of that name.
    """
    configured = context.config.connectors
    if name not in configured:
        raise NotFound(
            f"there is no connector {name!r}",
            why=f"set up: {', '.join(sorted(configured)) or 'none'}",
            fix=f"dispatcher connectors add {name} --kind KIND",
        )
    return dict(configured[name])


def _show_state(context: CliContext, name: str, state: str) -> None:
    context.show(
        {"schema": "dispatcher.connectors.state/1", "name": name, "state": state},
        f"{name} is {state}",
    )


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Usage(
            f"{name!r} is no name of a connector",
            why="it stands before the slash of every worker's name",
            fix="a lower-case letter, then up to 39 of a-z, 0-9, - and _",
        )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    plain = value.isprintable() and key.replace("_", "").isalnum() and key.isascii()
    if not equals or not plain or key == "kind":
        raise Usage(
            "--set takes KEY=VALUE, both printable",
            why="each becomes a line of dispatcher.toml",
            fix="--set url=https://market.example.org",
        )
    return key, value


def _read_secret(source: str) -> bytes:
    if source == "-" and sys.stdin.isatty():
        secret = getpass("secret: ").encode()
    else:
        secret = sys.stdin.buffer.read() if source == "-" else read_file(Path(source))
    if not secret.strip():
        raise Invalid(
            "the secret is empty",
            why="nothing was read",
            fix="name the file that holds it, or - and give it to stdin",
        )
    return secret


def _open(
    context: CliContext, name: str, values: dict[str, str], secret: bytes
) -> Market | Feed:
    """Open a connector with a secret that is not in its file yet."""
    from dispatcher.core.plugins import open_connector

    own = {key: text for key, text in values.items() if key != "secret_file"}
    if "secret_file" in values and not secret:
        own = values
    if own.get("kind", name) == "inhouse" and not secret:
        secret = bytes(32)  # the store gives it one of its own
    return open_connector(name, own, directory=context.directory, secret=secret.strip())


def _settings_file(context: CliContext) -> Path:
    from dispatcher.core.config import CONFIG_NAME

    return context.config_file or context.directory / CONFIG_NAME


def _with_section(context: CliContext, name: str, values: dict[str, str]) -> str:
    """Text of the settings with one more connector; it is read once more to be sure.

    Without any section the defaults hold: they are written out, else they would end.
    """
    path = _settings_file(context)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    sections: dict[str, Any] = {name: values}
    if "connectors" not in tomllib.loads(text):
        sections = {**context.config.connectors, **sections}
    for section, own in sections.items():
        lines = [f"{key} = {_quoted(value)}" for key, value in own.items()]
        text = "\n".join([text.rstrip("\n"), "", f"[connectors.{section}]", *lines, ""])
    read = tomllib.loads(text)["connectors"]
    if read.get(name) != values:
        raise Invalid(
            f"{path} can not be added to",
            why="its connectors are written in a way that no section fits behind",
            fix=f"write [connectors.{name}] into it by hand",
        )
    return text.lstrip("\n")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write(path: Path, content: bytes) -> None:
    """Replace a file whole, readable for its owner only where it is new."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
