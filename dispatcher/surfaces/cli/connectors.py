"""``dispatcher connectors``: what is set up, what it declares, and whether it works."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import Conflict, Usage
from dispatcher.surfaces.cli import connector_setup as setup
from dispatcher.surfaces.cli import walls
from dispatcher.surfaces.cli.connector_setup import enable_now, values_of
from dispatcher.surfaces.cli.context import CliContext, table
from dispatcher.surfaces.cli.reconcile import reconcile

if TYPE_CHECKING:
    from connectors.base import Feed, Manifest, Market, Tried

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
NO_SETTINGS: Mapping[str, str] = {}
PROBE = "dispatcher-connectors-test"
"""A key that no message has: those are 32 hex digits."""


@app.command("list")
def list_connectors(
    ctx: typer.Context,
    available: Annotated[
        bool, typer.Option("--available", help="All kinds that could be set up.")
    ] = False,
) -> None:
    """List the connectors of the settings, or all kinds."""
    from dispatcher.core.plugins import available as kinds
    from dispatcher.core.plugins import load_plugin

    context: CliContext = ctx.obj
    if available:
        named = {kind: (kind, NO_SETTINGS, origin) for kind, origin in kinds().items()}
    else:
        settings = context.config.connectors
        origins = kinds()
        named = {
            name: (kind, values, origins.get(kind, "unknown"))
            for name, values in settings.items()
            for kind in [values.get("kind", name)]
        }
    rows = [
        {"name": name, "kind": kind, "from": origin}
        | _declared(load_plugin(kind).declared(values))
        for name, (kind, values, origin) in named.items()
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
    from dispatcher.core.plugins import load_plugin

    context: CliContext = ctx.obj
    values = values_of(context, name)
    kind = values.get("kind", name)
    told = _declared(load_plugin(kind).declared(values))
    last = walls.last_tried(context, name)
    width = max(map(len, told))
    lines = [
        f"{key:<{width}}  {value!s:<11}  {walls.as_told(last, key)}".rstrip()
        for key, value in told.items()
    ]
    context.show(
        {"schema": "dispatcher.connector/1", "name": name, "kind": kind, **told,
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

    Nothing is sent and nothing is shown. A feed that can not be asked (`finds` is no in
    its capabilities) is only opened. With --as, synthetic work is offered to one worker,
    another one and nobody at all try to open it, and it is taken back: each try that is
    let in is told as FAIL. What was found is kept for `connectors capabilities`.
    """
    context: CliContext = ctx.obj
    if other is None and (worker, secret) != (None, None):
        raise Usage("--worker and --as-secret go with --as", why="they say how to try it",
                    fix="add --as OTHER")  # fmt: skip
    opened = _open(context, name)
    lines = ["ok    the settings and the secret are well formed"]
    state, why = _probe(opened)
    lines.append(f"{state:<5} {why}")
    tried = []
    if other is not None and state == "ok":
        tried = walls.try_walls(context, name, other, worker, secret)
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
    context: CliContext = ctx.obj
    opened = _open(context, name)
    state, why = ("ok", "") if untested else _probe(opened)
    if state != "ok":
        raise Conflict(
            f"connector {name!r} does not work: {why}",
            why="what is enabled is given work at once",
            fix=f"mend it (dispatcher connectors test {name}), or add --untested",
        )
    enable_now(context, name)


def _open(context: CliContext, name: str) -> Market | Feed:
    """Open a connector of the settings; the store is touched only where it must be."""
    from dispatcher.core.plugins import open_connector

    values = values_of(context, name)
    if values.get("kind", name) != "inhouse":
        return open_connector(name, values, directory=context.directory)
    with context.open_store() as store:
        return context.open_connectors(store, [name])[name]


def _probe(opened: Market | Feed) -> tuple[str, str]:
    """Ask for a message that there is not: (ok, LATER or FAIL; why)."""
    from connectors.base import ConnectorError, TryLater

    if not opened.manifest.finds:
        return "ok", "it can not be asked without sending; the first message will tell"
    try:
        opened.find(PROBE)
    except TryLater as error:
        return "LATER", error.what
    except ConnectorError as error:
        return "FAIL", f"{error.what}: {error.fix}" if error.fix else error.what
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told by its type
        return "FAIL", f"the connector failed: {type(error).__name__}"
    finally:
        close = getattr(opened, "close", None)
        if close is not None:
            close()
    return "ok", "the outside answers"


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
