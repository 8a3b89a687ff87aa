"""``dispatcher init``: settings, a first policy and an empty store, all private."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.core.errors import Conflict
from dispatcher.surfaces.cli.context import CliContext, write_private


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
    from dispatcher.core.config import CONFIG_NAME, STARTER
    from dispatcher.operations.policies import sample_text
    from dispatcher.store import open_store

    context: CliContext = ctx.obj
    directory = context.directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = directory / CONFIG_NAME
    if settings.exists():
        raise Conflict(
            f"{settings} is here already",
            why="init never overwrites a directory in use",
            fix="choose another directory with --dir, or delete the file yourself",
        )
    # The store first: if it cannot be, nothing is left that a second try would trip on.
    with open_store(
        context.store_url,
        create=True,
        password_allowed=context.store_is_private,
        key_file=context.key_file,
    ) as store:
        place = store.place
    written = [write_private(settings, STARTER, replace=False)]
    if not context.policy_path.exists():
        example = sample_text(template.value)
        written.append(write_private(context.policy_path, example, replace=False))
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignored = "*.db*\n*.key\nspool/\nledger/\nbackups/\n*.rejected.csv\n"
        written.append(write_private(ignore, ignored, replace=False))
    context.show(
        {
            "schema": "dispatcher.init/1",
            "written": [str(path) for path in written],
            "store": place,
            "key_file": str(context.key_file.path),
        },
        "",
    )
    context.say(
        f"wrote {', '.join(str(path) for path in written)} and the store {place}\n"
        f"values are encrypted under {context.key_file.path}: keep a copy in another "
        "safe place, apart from backups; without it they cannot be read\n"
        "next: dispatcher records preview FILE, then write the policy: "
        f"dispatcher policy init --from FILE, or edit {context.policy_path}, which is "
        "an example until then"
    )
