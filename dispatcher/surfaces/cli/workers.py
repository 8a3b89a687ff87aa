"""``dispatcher workers``: accounts, their adversaries, groups and invite links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import EXIT_PARTLY, Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion, previews
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    AcceptPast,
    CliContext,
    DryRun,
    Limit,
    OnlyConnector,
    Reason,
    leave,
    read_file,
    told_moment,
)
from policies.document.diagnostic import listed

if TYPE_CHECKING:
    from connectors.base import Inviting
    from dispatcher.ledger.explain import RuleUsage
    from dispatcher.ledger.identity_changes import AddedAccounts
    from dispatcher.operations.workers import Merge, Worker, WorkerQuality
    from dispatcher.store import Store
    from dispatcher.store.accounts import AccountRow

app = typer.Typer(
    help="Add workers, list them, invite them, block them, merge them.",
    no_args_is_help=True,
)

Invite = Annotated[
    bool, typer.Option("--invite", help="Print invite links to the task page.")
]
OneAccount = Annotated[
    str,
    typer.Argument(
        metavar="ACCOUNT", help="CONNECTOR/NAME", autocompletion=completion.workers
    ),
]
Days = Annotated[
    int, typer.Option(min=1, max=3650, help="Days for which an invite link is valid.")
]


From = Annotated[
    Path | None,
    typer.Option("--from", dir_okay=False, help="A file: CSV, JSONL or a list."),
]


@app.command()
def add(
    ctx: typer.Context,
    accounts: Annotated[
        list[str] | None, typer.Argument(help="CONNECTOR/NAME ...")
    ] = None,
    source: From = None,
    invite: Invite = False,
    days: Days = 90,
    accept_past: AcceptPast = 0,
    dry_run: DryRun = False,
) -> None:
    """Add workers. Each is an adversary of its own, or part of its groups' one.

    With --from all workers of a file are added; rows that name none are listed, and
    the exit status is 3.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    if bool(accounts) == (source is not None):
        raise Usage(
            "which workers?",
            why="they are named, or a file with them is",
            fix="dispatcher workers add inhouse/ann, or --from team.csv",
        )
    partly = False
    if source is None:
        names = workers.read_names(accounts or [])
        workers.check_connectors(context, names)
    else:
        found = workers.read_file(context, read_file(source))
        names, partly = found.names, bool(found.rejected or found.unknown)
        for line, why in found.rejected:
            context.say(f"{source}:{line}: {why}")
        for connector, name in found.unknown:
            context.say(f"{connector}/{name}: no connector {connector} is set up")
    invited = names if invite and not dry_run else []
    with context.open_to_book() as store:
        markets = workers.inviting(context, store, {name for name, _ in invited})
        if dry_run:
            context.say(DRY_RUN)
            added = workers.preview_add(context, store, names)
        else:
            added = workers.add(context, store, names, accept_past=accept_past)
        _show(context, store, added, invited, days, markets)
    if partly:
        leave(EXIT_PARTLY)


@app.command("list")
def list_workers(
    ctx: typer.Context,
    connector: OnlyConnector = None,
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
        context.table(lines, header),
    )


@app.command()
def invite(
    ctx: typer.Context,
    accounts: Annotated[
        list[str],
        typer.Argument(help="CONNECTOR/NAME ...", autocompletion=completion.workers),
    ],
    days: Days = 90,
    dry_run: DryRun = False,
) -> None:
    """Print new invite links; earlier ones of these workers end."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        links = dict(workers.invite(context, store, accounts, days).links)
    context.show(
        {"schema": "dispatcher.invites/1", "invites": links},
        context.table(list(links.items()), ("worker", "link")),
    )


@app.command()
def block(ctx: typer.Context, account: OneAccount, dry_run: DryRun = False) -> None:
    """Show a worker nothing more, and withdraw what they were offered.

    What they were shown stays in the ledger.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        _show_state(context, workers.block(context, store, account))


@app.command()
def unblock(ctx: typer.Context, account: OneAccount, dry_run: DryRun = False) -> None:
    """Let a worker work again who is blocked, stopped below the floor, or left.

    Who was stopped is judged anew, by what is answered from now on.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        _show_state(context, workers.unblock(context, store, account))


def _show_state(context: CliContext, account: AccountRow) -> None:
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
    added: AddedAccounts,
    invited: list[tuple[str, str]],
    days: int,
    markets: Mapping[str, Inviting],
) -> None:
    """Say what was added; invite those who work at the task page."""
    from dispatcher.operations import workers

    for text in added.known:
        context.say(f"{text} is here already")
    joined = count(added.joined, "worker")
    context.say(
        f"{count(len(added.accounts), 'worker')} added"
        + (f", {joined} joined by groups" if added.joined else "")
    )
    for obstacle in workers.obstacles(context, store, added):
        context.say(str(obstacle))
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
        context.table(list(links.items()), ("worker", "link")),
    )


@app.command()
def merge(
    ctx: typer.Context,
    reason: Reason,
    accounts: Annotated[
        list[str] | None,
        typer.Argument(
            help="CONNECTOR/NAME, two or more.", autocompletion=completion.workers
        ),
    ] = None,
    source: From = None,
    dry_run: DryRun = False,
    accept_past: AcceptPast = 0,
) -> None:
    """Take accounts as one worker, for good: what each saw counts for all of them.

    What becomes complete by it cannot be undone: the merge is refused (exit 6) unless
    --accept-past says just as many sets as --dry-run shows. Open tasks that the joint
    worker may not finish are recalled.

    With --from the accounts that a file of worker and group puts in one group become
    one worker; groups that share an account are one.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    if bool(accounts) == (source is not None):
        raise Usage(
            "which accounts?",
            why="they are named, or a file of groups is",
            fix="dispatcher workers merge inhouse/ann folder/ann --reason TEXT, or "
            "--from groups.csv",
        )
    if source is None:
        workers.read_names(accounts or [])
        _merge(context, [accounts or []], reason, dry_run, accept_past)
        return
    found = workers.read_groups(read_file(source))
    for line, why in found.rejected:
        context.say(f"{source}:{line}: {why}")
    if found.parts:
        _merge(context, found.parts, reason, dry_run, accept_past)
    else:
        context.say("no group of the file has two accounts: nothing to merge")
    if found.rejected:
        leave(EXIT_PARTLY)


@app.command()
def groups(ctx: typer.Context) -> None:
    """List the groups of the policy in force, and who is trusted with what."""
    _list_groups(ctx.obj)


@app.command()
def suspects(
    ctx: typer.Context,
    limit: Limit = 20,
) -> None:
    """List accounts that may be one person, and what a merge of them would do.

    They arrived at the task page with one browser.
    """
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_to_book() as store:
        found = workers.suspects(context, store, limit)
    lines = []
    for one in found:
        first, second = one.accounts
        lines += [
            f"{first} and {second} may be one person, noted {told_moment(one.noted)}",
            _lay_out(one.merge, ahead=True),
            f"  one person   dispatcher workers merge {first} {second} --reason TEXT",
            f"  two people   dispatcher workers distinct {first} {second} --reason TEXT",
        ]
    context.show(
        {
            "schema": "dispatcher.suspects/1",
            "suspects": [
                {
                    "accounts": list(one.accounts),
                    "noted": told_moment(one.noted),
                    "merge": _document(one.merge, dry_run=True),
                }
                for one in found
            ],
        },
        "\n".join(lines),
    )


@app.command()
def distinct(
    ctx: typer.Context,
    first: Annotated[
        str, typer.Argument(help="CONNECTOR/NAME.", autocompletion=completion.workers)
    ],
    second: Annotated[
        str, typer.Argument(help="CONNECTOR/NAME.", autocompletion=completion.workers)
    ],
    reason: Reason,
    dry_run: DryRun = False,
) -> None:
    """Say that two accounts are two people, though they arrived with one browser."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        workers.distinguish(context, store, first, second, reason)
    context.show(
        {"schema": "dispatcher.distinct/1", "accounts": [first, second]},
        f"{first} and {second} are two people",
    )


def _merge(
    context: CliContext,
    parts: Sequence[Sequence[str]],
    reason: str,
    dry_run: bool,
    accept_past: int,
) -> None:
    from dispatcher.operations import workers

    with context.open_to_book() as store:
        done = workers.preview_merge(context, store, parts, reason)
        if dry_run:
            context.say(DRY_RUN)
            context.show(_document(done, dry_run=True), _lay_out(done, ahead=True))
            return
        if len(done.merged.accepted) != accept_past or not context.yes:
            context.say(_lay_out(done, ahead=True))
        workers.check_accepted(done, accept_past)
        context.confirm("a merge cannot be undone; merge them?")
        done = workers.merge(context, store, parts, reason, accept_past=accept_past)
    context.show(_document(done, dry_run=False), _lay_out(done, ahead=False))


def _document(done: Merge, *, dry_run: bool) -> dict[str, Any]:
    merged = done.merged
    return {
        "schema": "dispatcher.merge/1",
        "accounts": [list(part) for part in done.accounts],
        "adversaries": [f"a{number}" for number in merged.adversaries],
        "joined": merged.joined,
        "fields": merged.entries,
        "past": len(merged.accepted),
        "by_rule": dict(done.by_rule),
        "sets": previews.findings(done.findings),
        "open_tasks": previews.open_numbers(merged.recall, merged.recalled),
        "dry_run": dry_run,
    }


def _lay_out(shown: Merge, *, ahead: bool) -> str:
    done = shown.merged
    by_rule = ", ".join(f"{rule} {n}" for rule, n in shown.by_rule.items())
    past = len(done.accepted)
    verb = "becomes" if past == 1 else "become"
    lines = [
        f"  joint view  {count(done.entries, 'field')}; "
        f"{count(past, 'set')} {verb if ahead else 'became'} complete or "
        f"past a limit{f' ({by_rule})' if by_rule else ''}",
        *previews.lines(previews.findings(shown.findings)),
        f"  {previews.open_words(done.recall, done.recalled, ahead=ahead)}",
    ]
    if not ahead:
        ends = count(done.joined, "worker")
        names = ", ".join(f"a{number}" for number in done.adversaries)
        goes = "goes" if len(done.adversaries) == 1 else "go"
        lines.insert(0, f"merged: {ends} ended; {names} {goes} on")
    elif past:
        lines.append(f"  to merge them all the same: --accept-past {past}")
    return "\n".join(lines)


def _list_groups(context: CliContext) -> None:
    from dispatcher.operations import workers

    with context.open_store() as store:
        found = workers.list_groups(store)
    context.show(
        {
            "schema": "dispatcher.groups/1",
            "groups": [
                {"name": g.name, "accounts": g.accounts, "trusted": g.trusted}
                for g in found
            ],
        },
        context.table(
            [
                (g.name, ", ".join(g.trusted) or "-", " ".join(g.accounts) or "-")
                for g in found
            ],
            ("group", "trusted with", "accounts"),
        ),
    )


@app.command()
def show(
    ctx: typer.Context,
    account: OneAccount,
) -> None:
    """Show how near a worker is to each limit, and what it would be refused next."""
    from dispatcher.operations import workers

    context: CliContext = ctx.obj
    with context.open_store() as store:
        worker = workers.show(context, store, account)
    show_worker(context, worker)


def show_worker(context: CliContext, worker: Worker) -> None:
    """Print a worker's standing, groups, exposure and quality."""
    found, seen, quality = worker.account, worker.seen, worker.quality
    context.show(
        {
            "schema": "dispatcher.worker/1",
            "worker": found.text,
            "state": found.state,
            "adversary": seen.chain,
            "accounts": list(seen.accounts),
            "groups": list(worker.groups),
            "joins": list(seen.joins),
            "may_be_one_person_with": list(worker.may_be),
            "fields_seen": seen.entries,
            "records_seen": seen.records,
            "open_tasks": seen.open_tasks,
            **_quality(quality),
            "exposure": [_near(near) for near in seen.nearness],
        },
        "\n".join(
            [
                f"{found.text}   {found.state}   worker {seen.chain}",
                f"  with      {_list(a for a in seen.accounts if a != found.text)}",
                f"  groups    {_list(worker.groups)}",
                f"  joins     {'; '.join(seen.joins) or '-'}",
                *(
                    f"  may be one person with {other}: dispatcher workers suspects"
                    for other in worker.may_be
                ),
                f"  saw       {count(seen.entries, 'field')} of "
                f"{count(seen.records, 'record')}, "
                f"{count(seen.open_tasks, 'open task')}",
                *([] if worker.is_feed else _quality_words(found.text, quality)),
                *(f"  {_near_words(near)}" for near in seen.nearness),
            ]
        ),
    )


def _quality(quality: WorkerQuality) -> dict[str, Any]:
    return {
        "agreement": round(quality.agreement, 4),
        "gold": {
            **quality.gold._asdict(),
            "accuracy": round(quality.gold_accuracy, 4),
        },
        "tests": [row._asdict() for row in quality.tests],
        "stopped": None if quality.stopped is None else asdict(quality.stopped),
    }


def _quality_words(account: str, quality: WorkerQuality) -> list[str]:
    gold, why = quality.gold, quality.stopped
    tests = (
        f"{one.field} {one.state}"
        + (f" ({one.correct} of {one.asked})" if one.asked else "")
        for one in quality.tests
    )
    lines = [
        f"  accuracy  {quality.agreement:.2f} by agreement, {quality.gold_accuracy:.2f} by "
        f"made-up questions ({gold.right} of {gold.asked} right)",
        f"  tests     {_list(tests)}",
    ]
    if why is not None:
        by = "made-up questions" if why.by == "gold" else "agreement with others"
        lines.append(
            f"  stopped   below the floor by {by} ({why.percent} %): given nothing "
            f"new until dispatcher workers unblock {account}"
        )
    return lines


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "-"


def _near(near: RuleUsage) -> dict[str, Any]:
    return {
        "rule": near.rule,
        "f": str(near.f),
        "limit": "none" if near.tau is None else f"f < {near.tau}",
        "share": round(float(near.share), 4),
        "units": near.units,
        "full": near.full,
        "refused": list(near.refused),
        "left": near.left,
        "nearest": near.nearest,
    }


_UNIT: Final = ("record or person", "records or people")


def _near_words(near: RuleUsage) -> str:
    limit = "no limit" if near.tau is None else f"limit f < {near.tau}"
    next_ = "nothing would be refused next"
    if near.full:
        of = count(near.full, *_UNIT)
        next_ = f"{listed(near.refused, 8)} of {of} would be refused next"
    if near.left is not None:
        of = count(near.nearest, *_UNIT)
        left = count(near.left, "field") if near.left else "no field"
        next_ = f"{left} left to the refusal in {of}; {next_}"
    share = f"{float(near.share):.2f}"
    return f"{near.rule}: nearest f = {near.f}, {limit} ({share} of it); {next_}"
