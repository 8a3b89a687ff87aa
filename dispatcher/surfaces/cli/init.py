"""``dispatcher init``: settings, a first policy and an empty store, all private."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.errors import Conflict
from dispatcher.surfaces.cli.context import CliContext


class Template(StrEnum):
    """The example policies that a new directory may start from."""

    PRESCRIPTIONS = "prescriptions"
    RECEIPTS = "receipts"
    CHECKINS = "checkins"
    TICKETS = "tickets"


def template_text(name: str) -> str:
    """Text of an example policy, from the installed package."""
    folder = files("policies.document") / "examples"
    return (folder / f"{name}.toml").read_text(encoding="utf-8")


def init(
    ctx: typer.Context,
    template: Annotated[
        Template, typer.Option(help="The example policy to start from.")
    ] = Template.PRESCRIPTIONS,
) -> None:
    """Write dispatcher.toml, policy.toml, an empty store and .gitignore."""
    from dispatcher.config import CONFIG_NAME, STARTER
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
    written = [_write(settings, STARTER)]
    if not context.policy_path.exists():
        written.append(_write(context.policy_path, template_text(template.value)))
    ignore = directory / ".gitignore"
    if not ignore.exists():
        written.append(_write(ignore, "*.db*\nspool/\n*.rejected.csv\n"))
    open_store(
        context.store_url, create=True, password_allowed=context.store_is_private
    ).close()
    context.say(
        "wrote "
        + ", ".join(str(path) for path in written)
        + " and the store\nnext: dispatcher records preview FILE, edit "
        f"{context.policy_path}, then: dispatcher policy apply"
    )


def _write(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
