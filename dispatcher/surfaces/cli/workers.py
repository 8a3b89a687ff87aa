"""``dispatcher workers``: accounts, their adversaries, groups and invite links."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.core.errors import EXIT_PARTLY, Conflict, Usage
from dispatcher.surfaces.cli import merging, questions
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    read_file,
    table,
    wall_clock,
)
from dispatcher.surfaces.cli.merging import AcceptPast
from dispatcher.surfaces.cli.rehearsal import DRY_RUN, count, rehearsal

if TYPE_CHECKING:
    from connectors.base import Inviting
    from dispatcher.ledger.members import Added
    from dispatcher.store import Store, Tx
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

    context: CliContext = ctx.obj
    names = [account_of(text) for text in accounts]
    for name in names:
        _check_connector(context, name)
    with context.open_store() as store:
        doors = _doors(context, store, accounts) if invite else {}
        with store.write() as tx:
            added = _add(tx, names, accept_past)
        _show(context, store, added, names if invite else [], days, doors)


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

    context: CliContext = ctx.obj
    found = read_accounts(read_file(file))
    names = [name for name in found.names if name[0] in context.config.connectors]
    strange = [name for name in found.names if name[0] not in context.config.connectors]
    for line, reason in found.rejected:
        context.say(f"{file}:{line}: {reason}")
    for connector, name in strange:
        context.say(f"{connector}/{name}: no connector {connector} is set up")
    invited = names if invite and not dry_run else []
    with context.open_store() as store:
        doors = _doors(context, store, (connector for connector, _ in invited))
        if dry_run:
            with rehearsal(store) as tx:
                added = _add(tx, names, None)
            context.say(DRY_RUN)
        else:
            with store.write() as tx:
                added = _add(tx, names, accept_past)
        _show(context, store, added, invited, days, doors)
    if found.rejected or strange:
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
    rows = [(a.text, a.state, a.adversary_id, json.loads(a.groups)) for a in found]
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
    from dispatcher import identity

    context: CliContext = ctx.obj
    with context.open_store() as store:
        doors = _doors(context, store, accounts)
        with store.write() as tx:
            for text in accounts:
                account = identity.find(tx, text)
                if account.state != "active":
                    raise Conflict(
                        f"{text} is {account.state}: no link would let it in",
                        why="a blocked worker is shown nothing",
                        fix=f"first: dispatcher workers unblock {text}",
                    )
                if account.connector not in doors:
                    raise Conflict(
                        f"{text} can not be invited to the task page",
                        why=f"connector {account.connector} has no personal links",
                        fix="its tasks reach it through its own connector",
                    )
                identity.revoke_invites(tx, text)
        links = _links(context, store, accounts, days, doors)
    context.show(
        {"schema": "dispatcher.invites/1", "invites": links},
        table(list(links.items()), ("worker", "link")),
    )


@app.command()
def block(ctx: typer.Context, account: OneAccount) -> None:
    """Show a worker nothing more; what it was shown stays in the ledger."""
    _move(ctx.obj, account, "block")


@app.command()
def unblock(ctx: typer.Context, account: OneAccount) -> None:
    """Let a worker work again who is blocked, stopped below the floor, or left.

    Who was stopped is judged anew, by what is answered from now on.
    """
    _move(ctx.obj, account, "unblock")


def _move(context: CliContext, text: str, verb: str) -> None:
    from dispatcher import identity

    with context.open_store() as store, store.write() as tx:
        if verb == "block":
            account = identity.block(tx, text)
        else:
            account = identity.unblock(tx, text, wall_clock())
    context.show(
        {"schema": "dispatcher.workers/1", "worker": text, "state": account.state},
        f"{text} is {account.state}",
    )


def _check_connector(context: CliContext, account: tuple[str, str]) -> None:
    connector, name = account
    known = context.config.connectors
    if connector not in known:
        raise Usage(
            f"{connector}/{name} is of no connector that is set up",
            why=f"set up: {', '.join(sorted(known)) or 'none'}",
            fix=f"add [connectors.{connector}] to dispatcher.toml, or write "
            "another connector",
        )


def _add(tx: Tx, names: list[tuple[str, str]], accept: int | None) -> Added:
    from dispatcher.ledger.members import add_accounts

    return add_accounts(tx, names, at=wall_clock(), accept=accept)


def _show(
    context: CliContext,
    store: Store,
    added: Added,
    invited: list[tuple[str, str]],
    days: int,
    doors: Mapping[str, Inviting],
) -> None:
    """Tell what was added; invite those who work at the task page."""
    for text in added.known:
        context.say(f"{text} is here already")
    joined = count(added.joined, "adversary", "adversaries")
    context.say(
        f"{count(len(added.accounts), 'worker')} added"
        + (f", {joined} joined by groups" if added.joined else "")
    )
    if added.accepted:
        past = count(len(added.accepted), "set is", "sets are")
        context.say(f"{past} past a limit by it: --accept-past {len(added.accepted)}")
    page = [f"{connector}/{name}" for connector, name in invited if connector in doors]
    links = _links(context, store, page, days, doors)
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


def _doors(
    context: CliContext, store: Store, accounts: Iterable[str]
) -> dict[str, Inviting]:
    """Connectors of accounts whose workers come to our page by personal links.

    Feeds are not opened for it: nobody comes by them, and their secret may be elsewhere.
    """
    from connectors.base import Inviting
    from dispatcher.core.plugins import feeds_of

    named = {text.partition("/")[0] for text in accounts}
    known = {n: v for n, v in context.config.connectors.items() if n in named}
    opened = context.open_connectors(store, known.keys() - feeds_of(known))
    return {n: market for n, market in opened.items() if isinstance(market, Inviting)}


def _links(
    context: CliContext,
    store: Store,
    accounts: list[str],
    days: int,
    doors: Mapping[str, Inviting],
) -> dict[str, str]:
    from dispatcher import identity

    with store.read() as tx:
        found = [identity.find(tx, text) for text in dict.fromkeys(accounts)]
    for account in found:
        if account.state != "active":
            context.say(f"{account.text} is {account.state}: it gets no link")
    return {
        account.text: _link(context, doors[account.connector], account, days)
        for account in found
        if account.state == "active"
    }


def _link(context: CliContext, door: Inviting, account: Account, days: int) -> str:
    """The link opens the page for whoever has it: it is the worker's key."""
    from dispatcher.identity import invite_link

    expires = datetime.fromtimestamp(wall_clock() // 10**6, UTC) + timedelta(days=days)
    code = door.invite(account.name, str(account.invite), expires)
    page = context.config.surfaces.task_page
    return invite_link(page, code, account.connector)
