"""``dispatcher init``: settings, a first policy and an empty store, all private."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.surfaces.cli.context import CliContext


class Template(StrEnum):
    """The example policies that a new directory may start from."""

    PRESCRIPTIONS = "prescriptions"
    RECEIPTS = "receipts"
    CHECKINS = "checkins"
    TICKETS = "tickets"


def init(
    ctx: typer.Context,
    template: Annotated[
        Template, typer.Option(help="The example policy to start from.")
    ] = Template.PRESCRIPTIONS,
) -> None:
    """Write dispatcher.toml, policy.toml, an empty store, its key and .gitignore."""
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    done = database.init(context, template.value)
    context.show(
        {
            "schema": "dispatcher.init/1",
            "written": [str(path) for path in done.written],
            "store": done.store,
            "key_file": str(context.key_file.path),
        },
        "",
    )
    context.say(
        f"wrote {', '.join(map(str, done.written))} and the store {done.store}\n"
        f"values are encrypted under {context.key_file.path}: keep a copy in another "
        "safe place, apart from backups; without it they cannot be read\n"
        "next: dispatcher records preview FILE, then write the policy: "
        f"dispatcher policy init --from FILE, or edit {context.policy_path}, which is "
        "an example until then"
    )
