"""``dispatcher connectors``: what is set up, what it declares, and whether it works."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli import connector_setup as setup
from dispatcher.surfaces.cli.context import CliContext, table
from dispatcher.surfaces.cli.reconcile import reconcile

if TYPE_CHECKING:
    from connectors.base import Manifest, Tried

app = typer.Typer(
    help="Markets and feeds: what they declare, whether they work.",
    no_args_is_help=True,
)

app.command("add")(setup.add)
app.command("set-secret")(setup.set_secret)
app.command("disable")(setup.disable)
app.command("new")(setup.new)
app.command("reconcile")(reconcile)

EXIT_TEMPORARY = 75
MICRO = 1_000_000
WALLS = ("identity", "binding", "preview", "content")


@app.command("list")
def list_connectors(
    ctx: typer.Context,
    available: Annotated[
        bool, typer.Option("--available", help="All kinds that could be set up.")
    ] = False,
) -> None:
    """List the connectors of the settings, or all kinds."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    found = (
        connectors.list_kinds() if available else connectors.list_connectors(context)
    )
    rows = [
        {"name": one.name, "kind": one.kind, "from": one.origin}
        | _declared(one.manifest)
        for one in found
    ]
    columns = ("name", "kind", "role", "binding", "identity", "content", "from")
    context.show(
        {"schema": "dispatcher.connectors/1", "connectors": rows},
        table([[row[c] for c in columns] for row in rows], columns),
    )


@app.command("capabilities")
def capabilities(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A connector of the settings.")],
) -> None:
    """Tell all that a connector declares of itself, and what of it was tried.

    Tried is by `dispatcher connectors test NAME --as OTHER`.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connector = connectors.show(context, name)
    told = _declared(connector.manifest)
    last = connectors.last_tried(context, name)
    width = max(map(len, told))
    lines = [
        f"{key:<{width}}  {value!s:<11}  {_wall_words(last, key)}".rstrip()
        for key, value in told.items()
    ]
    context.show(
        {"schema": "dispatcher.connector/1", "name": name, "kind": connector.kind, **told,
         "tried": last},
        "\n".join(lines),
    )  # fmt: skip


@app.command("test")
def try_connector(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A connector of the settings.")],
    other: Annotated[
        str | None,
        typer.Option("--as", help="Try as this worker to open what is another's."),
    ] = None,
    worker: Annotated[
        str | None, typer.Option(help="Whom the synthetic work is for.")
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option("--as-secret", help="File: the other worker's password there."),
    ] = None,
) -> None:
    """Open a connector and ask the outside for a message that there is not.

    Nothing is sent and nothing is shown. A feed that cannot be asked (`finds` is no in
    its capabilities) is only opened. With --as, synthetic work is offered to one worker,
    another one and nobody at all try to open it, and it is taken back: each try that is
    let in is told as FAIL. What was found is kept for `connectors capabilities`.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    if other is None and (worker, secret) != (None, None):
        raise Usage("--worker and --as-secret go with --as", why="they say how to try it",
                    fix="add --as OTHER")  # fmt: skip
    answer = connectors.ask(connectors.open_one(context, name))
    lines = ["ok    the settings and the secret are well formed"]
    state, why = answer.state.value, answer.why
    lines.append(f"{state:<5} {why}")
    tried = []
    if other is not None and state == "ok":
        password = "" if secret is None else _password(secret)
        tried = connectors.try_walls(
            context, name, other, worker=worker, password=password
        )
        lines += [f"{_held(one):<5} {one.wall}: {one.told}" for one in tried]
        state = "ok" if all(one.held for one in tried) else "FAIL"
    told = [{"wall": t.wall, "held": t.held, "told": t.told} for t in tried]
    context.show(
        {"schema": "dispatcher.connectors.test/1", "name": name, "state": state,
         "told": why, "tried": told},
        "\n".join(lines),
    )  # fmt: skip
    if state == "FAIL":
        raise typer.Exit(1)
    if state == "LATER":
        raise typer.Exit(EXIT_TEMPORARY)


def _held(one: Tried) -> str:
    return "ok" if one.held else "FAIL"


@app.command("enable")
def enable(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A connector of the settings.")],
    untested: Annotated[
        bool, typer.Option("--untested", help="Do not test it first.")
    ] = False,
) -> None:
    """Let work go through a connector, if its test passes."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    opened = connectors.open_one(context, name)
    if not untested:
        connectors.check_answer(name, connectors.ask(opened))
    with context.open_store() as store:
        connectors.enable(store, name)
    setup.show_state(context, name, "enabled")


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Usage(
            "the other worker's password cannot be read",
            why=type(error).__name__,
            fix="name a text file that holds it, and nothing else",
        ) from error


def _wall_words(last: dict[str, Any] | None, wall: str) -> str:
    """What the last try of a wall came to, in words; empty where it is none."""
    if wall not in WALLS:
        return ""
    if last is None or wall not in last["walls"]:
        return "not tried"
    state = "holds" if last["walls"][wall] else "FAILS"
    at = datetime.fromtimestamp(last["at"] / MICRO, UTC).isoformat(timespec="seconds")
    return f"{state} ({at}, as {last['as']})"


def _declared(manifest: Manifest) -> dict[str, Any]:
    """The manifest in words and numbers."""
    limits = manifest.limits
    return {
        "role": manifest.role.value,
        "binding": manifest.binding.value,
        "identity": manifest.identity.value,
        "content": manifest.content.value,
        "preview": manifest.preview.value,
        "idempotency": manifest.idempotency.value,
        "finds": "yes" if manifest.finds else "no",
        "withdraws": "yes" if manifest.withdraws else "no",
        "items": limits.items,
        "content_bytes": limits.content_bytes,
        "per_minute": limits.per_minute or "no limit known",
        "tested_against": manifest.tested_against,
    }
