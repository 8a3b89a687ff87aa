"""``dispatcher purge``: erasing by age."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from dispatcher.core.errors import Usage
from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.rehearsal import DRY_RUN
from dispatcher.surfaces.cli.subject import show_erasure

_UNITS: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


def purge(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option(help="Age since loading: 90d, 12w, 48h.", metavar="AGE")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say how much would go.")
    ] = False,
    confirm: Annotated[str, typer.Option(help="purge-AGE, such as purge-90d.")] = "",
) -> None:
    """Erase the values of records loaded so long ago; ledger and evidence stay.

    What the policy's `retain` says is done by the daemon; this is for more.
    """
    from dispatcher.operations import subjects

    context: CliContext = ctx.obj
    moment = context.clock() - _micros(older_than)
    word = f"purge-{older_than}"
    with context.open_store() as store:
        count = subjects.count_older(store, moment)
        if dry_run:
            context.show(
                {"schema": "dispatcher.purge/1", "dry_run": True, "records": count},
                f"{DRY_RUN}\nwould erase the values of {count:,} records",
            )
            return
        if confirm != word:
            raise Usage(
                f"erasing the values of {count:,} records cannot be undone",
                why="it was not confirmed",
                fix=f"repeat the command with --confirm={word}",
            )
        done = subjects.purge(context, store, moment)
    show_erasure(context, done, f"records older than {older_than}")


def _micros(age: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([hdw])", age)
    if found is None:
        raise Usage(
            f"--older-than is {age[:40]!r}",
            why="an age is a whole number and h, d or w",
            fix="say for instance --older-than 90d",
        )
    return int(found[1]) * _UNITS[found[2]] * 1_000_000
