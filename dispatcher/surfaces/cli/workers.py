"""``dispatcher workers``: accounts, their adversaries, groups and invite links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import EXIT_PARTLY
from dispatcher.surfaces.cli import merging, questions
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    read_file,
    table,
)
from dispatcher.surfaces.cli.merging import AcceptPast
from dispatcher.surfaces.cli.rehearsal import DRY_RUN, count

if TYPE_CHECKING:
    from connectors.base import Inviting
    from dispatcher.ledger.identity_changes import Added
    from dispatcher.store import Store
    from dispatcher.store.accounts import Account

app = typer.Typer(
    help="Add workers, list them, invite them, block them, merge them.",
    no_args_is_help=True,
)
app.command("show")(merging.show)
app.command("merge")(merging.merge)
app.command("groups")(merging.groups)
app.add_typer(questions.qualification, name="qualification")
app.add_typer(questions.gold, name="gold")

Invite = Annotated[
    bool, typer.Option("--invite", help="Print invite links to the task page.")
]
OneAccount = Annotated[str, typer.Argument(metavar="ACCOUNT", help="CONNECTOR/NAME")]
Days = Annotated[
    int, typer.Option(min=1, max=3650, help="Days that an invite link holds.")
]


@app.command()
def add(
    ctx: typer.Context,
    accounts: Annotated[list[str], typer.Argument(help="CONNECTOR/NAME ...")],
    invite: Invite = False,
    days: Days = 90,
    accept_past: AcceptPast = 0,
) -> None:
    """Add workers. Each is an adversary of its own, or part of its groups' one."""
    from dispatcher.identity import account_of
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    names = [account_of(text) for text in accounts]
    workers.check_connectors(context, names)
    invited = names if invite else []
    with context.open_to_book() as store:
        markets = workers.inviting(context, store, {name for name, _ in invited})
        added = workers.add(context, store, names, accept_past=accept_past)
        _show(context, store, added, invited, days, markets)


@app.command("import")
def import_workers(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(dir_okay=False, help="CSV, JSONL or a list.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Change nothing.")
    ] = False,
    invite: Invite = False,
    days: Days = 90,
    accept_past: AcceptPast = 0,
) -> None:
    """Add all workers of a file; rows that name none are told, exit 3."""
    from dispatcher.identity import read_accounts
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    found = read_accounts(read_file(file))
    names = [name for name in found.names if name[0] in context.config.connectors]
    strange = [name for name in found.names if name[0] not in context.config.connectors]
    for line, reason in found.rejected:
        context.say(f"{file}:{line}: {reason}")
    for connector, name in strange:
        context.say(f"{connector}/{name}: no connector {connector} is set up")
    invited = names if invite and not dry_run else []
    with context.open_to_book() as store:
        markets = workers.inviting(context, store, {name for name, _ in invited})
        if dry_run:
            added = workers.preview_add(context, store, names)
            context.say(DRY_RUN)
        else:
            added = workers.add(context, store, names, accept_past=accept_past)
        _show(context, store, added, invited, days, markets)
    if found.rejected or strange:
        leave(EXIT_PARTLY)


@app.command("list")
def list_workers(
    ctx: typer.Context,
    connector: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
) -> None:
    """List workers with their adversary and groups."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = workers.list_accounts(store, connector)
    header = ("worker", "state", "adversary", "groups")
    rows = [
        (a.text, a.state, a.adversary_id, list(workers.groups_of(a))) for a in found
    ]
    lines = [(*row[:3], ", ".join(row[3]) or "-") for row in rows]
    context.show(
        {
            "schema": "dispatcher.workers/1",
            "workers": [dict(zip(header, row, strict=True)) for row in rows],
        },
        table(lines, header),
    )


@app.command()
def invite(
    ctx: typer.Context,
    accounts: Annotated[list[str], typer.Argument(help="CONNECTOR/NAME ...")],
    days: Days = 90,
) -> None:
    """Print new invite links; earlier ones of these workers end."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        links = dict(workers.invite(context, store, accounts, days).links)
    context.show(
        {"schema": "dispatcher.invites/1", "invites": links},
        table(list(links.items()), ("worker", "link")),
    )


@app.command()
def block(ctx: typer.Context, account: OneAccount) -> None:
    """Show a worker nothing more; what it was shown stays in the ledger."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        _show_state(context, workers.block(store, account))


@app.command()
def unblock(ctx: typer.Context, account: OneAccount) -> None:
    """Let a worker work again who is blocked, stopped below the floor, or left.

    Who was stopped is judged anew, by what is answered from now on.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        _show_state(context, workers.unblock(context, store, account))


def _show_state(context: CliContext, account: Account) -> None:
    context.show(
        {
            "schema": "dispatcher.workers/1",
            "worker": account.text,
            "state": account.state,
        },
        f"{account.text} is {account.state}",
    )


def _show(
    context: CliContext,
    store: Store,
    added: Added,
    invited: list[tuple[str, str]],
    days: int,
    markets: Mapping[str, Inviting],
) -> None:
    """Tell what was added; invite those who work at the task page."""
    from dispatcher.operations import workers

    for text in added.known:
        context.say(f"{text} is here already")
    joined = count(added.joined, "adversary", "adversaries")
    context.say(
        f"{count(len(added.accounts), 'worker')} added"
        + (f", {joined} joined by groups" if added.joined else "")
    )
    told = {account.connector for account in added.accounts}
    with store.read() as tx:
        for one in context.preflight(store).look(tx).obstacles:
            if one.connector in told:
                context.say(str(one))
    if added.accepted:
        past = count(len(added.accepted), "set is", "sets are")
        context.say(f"{past} past a limit by it: --accept-past {len(added.accepted)}")
    page = [
        f"{connector}/{name}" for connector, name in invited if connector in markets
    ]
    made = workers.links(context, store, page, days, markets)
    for account in made.closed:
        context.say(f"{account.text} is {account.state}: it gets no link")
    links = dict(made.links)
    if len(page) < len(invited):
        context.say(
            f"{len(invited) - len(page)} get no link: they get tasks through their "
            "connector"
        )
    context.show(
        {
            "schema": "dispatcher.workers/1",
            "added": [account.text for account in added.accounts],
            "known": list(added.known),
            "adversaries_joined": added.joined,
            "past": len(added.accepted),
            "invites": links,
        },
        table(list(links.items()), ("worker", "link")),
    )
