"""``dispatcher workers``: accounts, their adversaries, groups and invite links."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.errors import EXIT_PARTLY, Conflict, Invalid, Usage
from dispatcher.surfaces.cli.context import CliContext, leave, table, wall_clock

if TYPE_CHECKING:
    from dispatcher.ledger.members import Added
    from dispatcher.store import Store
    from dispatcher.store.accounts import Account

app = typer.Typer(
    help="Add workers, list them, invite them, block them.", no_args_is_help=True
)

Invite = Annotated[
    bool, typer.Option("--invite", help="Print invite links to the task page.")
]
Days = Annotated[
    int, typer.Option(min=1, max=3650, help="Days that an invite link holds.")
]


@app.command()
def add(
    ctx: typer.Context,
    accounts: Annotated[list[str], typer.Argument(help="CONNECTOR/NAME ...")],
    invite: Invite = False,
    days: Days = 90,
) -> None:
    """Add workers. Each is an adversary of its own, or part of its groups' one."""
    from dispatcher.identity import account_of

    context: CliContext = ctx.obj
    names = [account_of(text) for text in accounts]
    with context.open_store() as store:
        added = _add(context, store, names)
        _show(context, store, added, accounts if invite else [], days)


@app.command("import")
def import_workers(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(dir_okay=False, help="CSV, JSONL or a list.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n")] = False,
    invite: Invite = False,
    days: Days = 90,
) -> None:
    """Add all workers of a file; rows that name none are told, exit 3."""
    from dispatcher.identity import read_accounts

    context: CliContext = ctx.obj
    try:
        found = read_accounts(file.read_bytes())
    except OSError as error:
        raise Invalid(
            f"{file}: {error.strerror}",
            why="the file can not be read",
            fix="check the path and its permissions",
        ) from None
    for line, reason in found.rejected:
        context.say(f"{file}:{line}: {reason}")
    if dry_run:
        context.show(
            {"schema": "dispatcher.workers/1", "would_add": len(found.names)},
            f"DRY RUN - nothing was changed: {len(found.names)} workers in the file",
        )
    else:
        with context.open_store() as store:
            added = _add(context, store, list(found.names))
            texts = [f"{connector}/{name}" for connector, name in found.names]
            _show(context, store, added, texts if invite else [], days)
    if found.rejected:
        leave(EXIT_PARTLY)


@app.command("list")
def list_workers(
    ctx: typer.Context,
    connector: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
) -> None:
    """List workers with their adversary and groups."""
    from dispatcher import identity

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = identity.list_accounts(tx, connector)
    header = ("worker", "state", "adversary", "groups")
    rows = [(a.text, a.state, a.adversary_id, a.groups) for a in found]
    context.show(
        {
            "schema": "dispatcher.workers/1",
            "workers": [dict(zip(header, row, strict=True)) for row in rows],
        },
        table(rows, header),
    )


@app.command()
def groups(ctx: typer.Context) -> None:
    """List the groups of the policy in force: each is one adversary."""
    from dispatcher import identity
    from dispatcher.ledger.standing import current_policy, no_policy

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        force = current_policy(tx)
        if force is None:
            raise no_policy()
        found = identity.list_groups(tx, force.policy)
    context.show(
        {
            "schema": "dispatcher.groups/1",
            "groups": [
                {"name": g.name, "accounts": g.accounts, "trusted": g.trusted}
                for g in found
            ],
        },
        table(
            [
                (g.name, ", ".join(g.trusted) or "-", " ".join(g.accounts) or "-")
                for g in found
            ],
            ("group", "trusted with", "accounts"),
        ),
    )


@app.command()
def invite(ctx: typer.Context, accounts: list[str], days: Days = 90) -> None:
    """Print new invite links; earlier ones of these workers end."""
    from dispatcher import identity

    context: CliContext = ctx.obj
    with context.open_store() as store:
        with store.write() as tx:
            for text in accounts:
                identity.revoke_invites(tx, text)
        _show_invites(context, store, accounts, days)


@app.command()
def block(ctx: typer.Context, account: str) -> None:
    """Show a worker nothing more; what it was shown stays in the ledger."""
    _move(ctx.obj, account, "block")


@app.command()
def unblock(ctx: typer.Context, account: str) -> None:
    """Let a blocked worker work again."""
    _move(ctx.obj, account, "unblock")


def _move(context: CliContext, text: str, verb: str) -> None:
    from dispatcher import identity

    act = identity.block if verb == "block" else identity.unblock
    with context.open_store() as store, store.write() as tx:
        account = act(tx, text)
    context.show(
        {"schema": "dispatcher.workers/1", "worker": text, "state": account.state},
        f"{text} is {account.state}",
    )


def _add(context: CliContext, store: Store, names: list[tuple[str, str]]) -> Added:
    from dispatcher.ledger.members import add_accounts

    known = set(context.config.connectors)
    for connector, name in names:
        if connector not in known:
            raise Usage(
                f"{connector}/{name} is of no connector that is set up",
                why=f"set up: {', '.join(sorted(known)) or 'none'}",
                fix=f"add [connectors.{connector}] to dispatcher.toml, or write "
                "another connector",
            )
    with store.write() as tx:
        return add_accounts(tx, names, at=wall_clock())


def _show(
    context: CliContext, store: Store, added: Added, invited: list[str], days: int
) -> None:
    for text in added.known:
        context.say(f"{text} is here already")
    context.say(
        f"{len(added.accounts)} workers added"
        + (f", {added.joined} adversaries joined by groups" if added.joined else "")
    )
    if invited:
        _show_invites(context, store, invited, days)


def _show_invites(
    context: CliContext, store: Store, accounts: list[str], days: int
) -> None:
    from dispatcher import identity

    with store.read() as tx:
        found = [identity.find(tx, text) for text in dict.fromkeys(accounts)]
    links = {a.text: _link(context, store, a, days) for a in found}
    context.show(
        {"schema": "dispatcher.invites/1", "invites": links},
        table(list(links.items()), ("worker", "link")),
    )


def _link(context: CliContext, store: Store, account: Account, days: int) -> str:
    """The link opens the page for whoever has it: it is the worker's key."""
    from connectors.inhouse.tokens import Ticket, sign

    if account.connector != "inhouse":
        raise Conflict(
            f"{account.text} can not be invited to the task page",
            why="only workers of connector inhouse work there",
            fix="its tasks reach it through its own connector",
        )
    expires = datetime.fromtimestamp(wall_clock() // 10**6, UTC) + timedelta(days=days)
    ticket = Ticket(account.name, str(account.invite), expires)
    page = context.config.surfaces.worker_url
    page = page or f"http://{context.config.surfaces.workers}"
    return f"{page.rstrip('/')}/#k={sign(store.key('token-key'), ticket)}"
