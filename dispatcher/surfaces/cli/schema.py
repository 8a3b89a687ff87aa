"""``dispatcher schema``: the forms of the policy file and of what ``--json`` prints."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any, Final

import typer

from dispatcher.core.errors import NotFound
from dispatcher.surfaces.cli.context import CliContext

POLICY: Final = "policy-file"


def schema(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="policy-file, or a document's name (default: list them)."),
    ] = None,
) -> None:
    """Print the JSON Schema of policy files, or of a document that --json prints.

    A document names itself in its first key: "dispatcher.records/1" is the schema
    `records`. With --jsonl a list comes row by row, each as its `items` say.
    """
    context: CliContext = ctx.obj
    known = published()
    if name is None:
        names = [POLICY, *known]
        context.show(
            {"schema": "dispatcher.schemas/1", "schemas": [{"name": n} for n in names]},
            context.table([[one] for one in names], ["name"]),
        )
        return
    if name == POLICY:
        from policies.document import json_schema

        found = json_schema()
    elif name in known:
        found = known[name]
    else:
        raise NotFound(
            f"there is no schema {name[:40]!r}",
            why="schemas have the names that documents say first, without "
            "`dispatcher.` and the version",
            fix="dispatcher schema lists them",
            name=name,
            known=[POLICY, *known],
        )
    print(json.dumps(found, indent=2, ensure_ascii=False))


def published() -> dict[str, dict[str, Any]]:
    """Return the schemas of documents by name."""
    text = files("dispatcher.surfaces.cli").joinpath("schemas.json").read_text("utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found
