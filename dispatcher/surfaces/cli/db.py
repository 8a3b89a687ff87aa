"""``dispatcher init`` and ``dispatcher db``: the store is made, and its schema kept up."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import EXIT_MIGRATE, EXIT_NO_STORE, DispatcherError
from dispatcher.surfaces.cli.context import DRY_RUN, CliContext, DryRun, leave

if TYPE_CHECKING:
    from dispatcher.custody.key_rotation import Rekeyed

app = typer.Typer(help="Look at the store's schema and bring it up to date.")


@app.command()
def upgrade(
    ctx: typer.Context,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements; change nothing.")
    ] = False,
    backup: Annotated[
        bool,
        typer.Option(
            "--backup",
            help="Make a backup in backups/ first, proven; else change nothing.",
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Apply the migrations that the store lacks, all or none."""
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    if sql:
        print(database.upgrade_script(context), end="")
        return
    kept = _backed_up(context) if backup and not dry_run else None
    before = database.state(context) if dry_run else database.upgrade(context)
    applied = ", ".join(before.steps) or "none, it was up to date"
    if dry_run:
        context.say(DRY_RUN)
    context.show(
        {
            "schema": "dispatcher.upgrade/1",
            "found": before.found,
            "wanted": before.wanted,
            "applied": list(before.steps),
            "backup": kept,
        },
        f"schema {before.wanted}  migrations applied: {applied}",
    )


def _backed_up(context: CliContext) -> str | None:
    """Make a backup of what an upgrade would change; None if that is nothing."""
    from dispatcher.operations import database

    try:
        made = database.back_up_before_upgrade(context)
    except DispatcherError:
        context.say("nothing was upgraded: the backup could not be made")
        raise
    if made is None:
        context.say("no backup: there is nothing to upgrade")
        return None
    context.say(f"{made.path}  {made.lines:,} ledger lines, verified by restoring it")
    return made.id


@app.command()
def status(ctx: typer.Context) -> None:
    """Say which schema the store has; exit 13 when it is not this program's."""
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    now = database.state(context)
    context.show(
        {
            "schema": "dispatcher.store/1",
            "store": now.place,
            "found": now.found,
            "wanted": now.wanted,
            "steps": list(now.steps),
            "ready": now.ready,
        },
        f"store {now.found or 'empty'}, this program wants {now.wanted}"
        f" ({len(now.steps)} {'step' if len(now.steps) == 1 else 'steps'})",
    )
    if now.ready:
        return
    if now.newer:
        context.say("A newer program has changed the store: run that one.")
        leave(EXIT_MIGRATE)
    context.say("Run: dispatcher db upgrade")
    leave(EXIT_NO_STORE if now.found is None else EXIT_MIGRATE)


@app.command()
def rekey(
    ctx: typer.Context,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make a new key first.")
    ] = False,
    forget_old_keys: Annotated[
        bool,
        typer.Option(
            help="At the end take old keys out of the file; backups made under them "
            "cannot be read then."
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Encrypt values that are in clear, and wrap data keys under the current key.

    The daemon may run meanwhile. Broken off, it goes on where it was.
    """
    from dispatcher.operations import database

    context: CliContext = ctx.obj

    if dry_run:
        found = database.keys_in_use(context)
        context.say(DRY_RUN)
        context.show(
            {
                "schema": "dispatcher.rekey-preview/1",
                "in_clear": found.in_clear,
                "keys": list(found.keys),
            },
            f"{found.in_clear:,} values in clear would be encrypted; data keys are "
            f"wrapped under {', '.join(found.keys) or 'no key'}",
        )
        return

    def show_progress(done: Rekeyed) -> None:
        rows = sum(done.sealed.values())
        context.say(f"{rows:,} rows encrypted, {done.rewrapped:,} keys wrapped")

    done = database.rekey(
        context, new_key=new_key, forget_old=forget_old_keys, progress=show_progress
    )
    rows = sum(done.sealed.values())
    context.show(
        {
            "schema": "dispatcher.rekeyed/1",
            "key": done.key,
            "key_file": str(context.key_file.path),
            "encrypted": done.sealed,
            "rewrapped": done.rewrapped,
            "forgotten": done.forgotten,
        },
        f"key {done.key}: {rows:,} rows encrypted, {done.rewrapped:,} data keys wrapped"
        f" anew, {done.forgotten} old keys taken out of {context.key_file.path}",
    )
    context.say("keep a copy of the key file in another safe place, apart from backups")


@app.command()
def scrub(ctx: typer.Context, dry_run: DryRun = False) -> None:
    """Leave nothing of deleted values in the store's files (after an erasure)."""
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    if dry_run:
        context.say(DRY_RUN)
        context.show(
            {"schema": "dispatcher.scrub/1", "dry_run": True},
            "the store's files would be written anew",
        )
        return
    database.scrub(context)
    context.show(
        {"schema": "dispatcher.scrub/1", "dry_run": False},
        "the store's files hold nothing of what was deleted",
    )


@app.command()
def check(ctx: typer.Context) -> None:
    """Compare the store's tables with this program's, and their rows with the ledger.

    Exit 13 when the tables are others, 1 when rows that the gate trusts were edited.
    """
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    database.check(context)
    context.show(
        {"schema": "dispatcher.store-check/1", "ok": True},
        "the store's tables are as this program has them, and as the ledger says",
    )


# -- ``dispatcher init``: settings, a first policy and an empty store, all private -----


class Template(StrEnum):
    """The example policies that a new directory may start from."""

    PRESCRIPTIONS = "prescriptions"
    RECEIPTS = "receipts"
    CHECKINS = "checkins"
    TICKETS = "tickets"


def init(
    ctx: typer.Context,
    template: Annotated[
        Template, typer.Option("--example", help="The example policy to start from.")
    ] = Template.PRESCRIPTIONS,
    dry_run: DryRun = False,
) -> None:
    """Write dispatcher.toml, policy.toml, an empty store, its key and .gitignore."""
    from dispatcher.operations import database

    context: CliContext = ctx.obj
    done = database.init(context, template.value, dry_run=dry_run)
    context.show(
        {
            "schema": "dispatcher.init/1",
            "written": [str(path) for path in done.written],
            "store": done.store,
            "key_file": str(context.key_file.path),
        },
        "",
    )
    files = ", ".join(map(str, done.written))
    made = f"{files} and the store {done.store}" if files else f"the store {done.store}"
    if dry_run:
        context.say(f"{DRY_RUN}: {made}")
        return
    context.say(
        f"wrote {made}\n"
        f"values are encrypted under {context.key_file.path}: keep a copy in another "
        "safe place, apart from backups; without it they cannot be read\n"
        "next: dispatcher records preview FILE, then write the policy: "
        f"dispatcher policy suggest FILE, or edit {context.policy_path}, which is "
        "an example until then"
    )
