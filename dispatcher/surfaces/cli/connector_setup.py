"""``dispatcher connectors add|set-secret|enable|disable|new``: what changes the set-up."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Final

import typer

from dispatcher.core.errors import Invalid, Usage
from dispatcher.surfaces.cli.context import CliContext, read_file

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
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    values = {"kind": kind or name} | dict(_pair(text) for text in settings or ())
    secret = None if secret_from is None else _read_secret(secret_from)
    connectors.add(context, name, values, secret)
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
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connectors.secret_file_of(context, name)  # before anybody types a secret
    connectors.set_secret(context, name, _read_secret(source))
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
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connectors.values_of(context, name)
    with context.open_store() as store:
        connectors.disable(context, store, name, reason)
    show_state(context, name, "disabled")


def new(
    ctx: typer.Context,
    name: OneName,
    directory: Annotated[
        Path | None, typer.Option("--into", help="A new directory for the package.")
    ] = None,
) -> None:
    """Write a package with a connector that works, and the contract test of it."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    into = directory or Path(f"sparsi-{connectors.package_of(name)}")
    written = [str(path) for path in connectors.write_package(name, into)]
    context.show(
        {"schema": "dispatcher.connectors.new/1", "written": written},
        "\n".join(written),
    )
    context.say(f"next: cd {into} && pip install -e . pytest && pytest")


def show_state(context: CliContext, name: str, state: str) -> None:
    """Say whether a connector is enabled now."""
    context.show(
        {"schema": "dispatcher.connectors.state/1", "name": name, "state": state},
        f"{name} is {state}",
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
