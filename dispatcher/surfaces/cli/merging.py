"""``dispatcher workers merge|groups``: accounts that are one worker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_PARTLY, PastLimit, Usage
from dispatcher.surfaces.cli import rehearsal
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    read_file,
    table,
    wall_clock,
)

if TYPE_CHECKING:
    from dispatcher.ledger.exposure import Near
    from dispatcher.ledger.members import Merged
    from dispatcher.store import Store, Tx
    from dispatcher.store.accounts import Account

Because = Annotated[
    str, typer.Option(help="Why; auditors read it in the ledger. No field value.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Show what it would do; change nothing.")
]
AcceptPast = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="As many sets past a limit as were shown, exactly."
    ),
]


def merge(
    ctx: typer.Context,
    accounts: Annotated[list[str], typer.Argument(help="CONNECTOR/NAME, two or more.")],
    because: Because,
    dry_run: DryRun = False,
    accept_past: AcceptPast = 0,
) -> None:
    """Take accounts as one worker, for good: what each saw counts for all of them.

    What becomes complete by it can not be undone: the merge is refused (exit 6) unless
    --accept-past says just as many sets as --dry-run shows. Open tasks that the joint
    worker may not finish are recalled.
    """
    from dispatcher.identity import account_of

    for text in accounts:
        account_of(text)
    _merge(ctx.obj, [accounts], because, dry_run, accept_past)


def groups(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(dir_okay=False, help="CSV or JSONL of worker and group."),
    ] = None,
    because: Annotated[
        str, typer.Option(help="Why, with FILE; auditors read it in the ledger.")
    ] = "",
    dry_run: DryRun = False,
    accept_past: AcceptPast = 0,
) -> None:
    """List the groups of the policy in force; with FILE, merge the groups in it.

    The accounts that FILE puts in one group become one worker, for good, as by workers
    merge. Groups that share an account are one.
    """
    from dispatcher.identity import read_groups

    context: CliContext = ctx.obj
    if file is None:
        if because or dry_run or accept_past:
            raise Usage(
                "these options go with a FILE",
                why="without one, the groups of the policy are listed",
                fix="dispatcher workers groups FILE --because TEXT --dry-run",
            )
        _list_groups(context)
        return
    if not because:
        raise Usage(
            "say why these accounts are one worker each",
            why="the reason is a line of the ledger that auditors read",
            fix='--because "list of the agency, 2026-11"',
        )
    found = read_groups(read_file(file))
    for line, reason in found.rejected:
        context.say(f"{file}:{line}: {reason}")
    if found.parts:
        _merge(context, found.parts, because, dry_run, accept_past)
    else:
        context.say("no group of the file has two accounts: nothing to merge")
    if found.rejected:
        leave(EXIT_PARTLY)


def _merge(
    context: CliContext,
    parts: Sequence[Sequence[str]],
    because: str,
    dry_run: bool,
    accept_past: int,
) -> None:
    with context.open_store() as store:
        done, document = _rehearse(context, store, parts, because)
        if dry_run:
            context.say(rehearsal.DRY_RUN)
            context.show({**document, "dry_run": True}, _lay_out(document, done, True))
            return
        if len(done.accepted) != accept_past:
            context.say(_lay_out(document, done, True))
            raise _unaccepted(len(done.accepted), accept_past)
        if not context.yes:
            context.say(_lay_out(document, done, True))
        context.confirm("a merge can not be undone; merge them?")
        with store.write() as tx:
            done = _apply(context, tx, parts, because, accept_past)
            document = _document(tx, done, parts)
    context.show({**document, "dry_run": False}, _lay_out(document, done, False))


def _rehearse(
    context: CliContext, store: Store, parts: Sequence[Sequence[str]], because: str
) -> tuple[Merged, dict[str, Any]]:
    with rehearsal.rehearsal(store) as tx:
        done = _apply(context, tx, parts, because, None)
        document = _document(tx, done, parts)
    return done, document


def _apply(
    context: CliContext,
    tx: Tx,
    parts: Sequence[Sequence[str]],
    because: str,
    accept: int | None,
) -> Merged:
    from dispatcher.ledger.members import merge as merge_accounts

    return merge_accounts(
        tx,
        parts,
        because=because,
        at=wall_clock(),
        accept=accept,
        withdrawing=rehearsal.withdrawing(context),
        actor="cli",
    )


def _unaccepted(found: int, accepted: int) -> PastLimit:
    sets = rehearsal.count(found, "set is", "sets are")
    return PastLimit(
        f"the merge is refused: {sets} past a limit by it, and {accepted} accepted",
        why="what these accounts saw together can not be undone, so the number must be "
        "the one shown",
        fix=f"if it is true that they are one worker: --accept-past {found}",
        facts={"found": found, "accepted": accepted},
    )


def _document(tx: Tx, done: Merged, parts: Sequence[Sequence[str]]) -> dict[str, Any]:
    from dispatcher.ledger.acceptance import totals

    return {
        "schema": "dispatcher.merge/1",
        "accounts": [sorted(set(part)) for part in parts],
        "adversaries": [f"a{number}" for number in done.adversaries],
        "joined": done.joined,
        "fields": done.entries,
        "past": len(done.accepted),
        "by_property": totals(done.accepted),
        "sets": rehearsal.findings(tx, done.accepted),
        "open_tasks": rehearsal.open_numbers(done.recall, done.recalled),
    }


def _lay_out(document: dict[str, Any], done: Merged, ahead: bool) -> str:
    by_rule = ", ".join(f"{rule} {n}" for rule, n in document["by_property"].items())
    past = len(done.accepted)
    verb = "becomes" if past == 1 else "become"
    lines = [
        f"  joint view  {rehearsal.count(done.entries, 'field')}; "
        f"{rehearsal.count(past, 'set')} {verb if ahead else 'became'} complete or "
        f"past a limit{f' ({by_rule})' if by_rule else ''}",
        *rehearsal.spoken(document["sets"]),
        f"  {rehearsal.open_words(done.recall, done.recalled, ahead=ahead)}",
    ]
    if not ahead:
        ends = rehearsal.count(done.joined, "adversary", "adversaries")
        lines.insert(0, f"merged: {ends} ended; {', '.join(document['adversaries'])} "
                     f"{'goes' if len(done.adversaries) == 1 else 'go'} on")  # fmt: skip
    elif past:
        lines.append(f"  to merge them all the same: --accept-past {past}")
    return "\n".join(lines)


def _list_groups(context: CliContext) -> None:
    from dispatcher import identity
    from dispatcher.ledger.standing import current_policy, no_policy

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


def show(
    ctx: typer.Context,
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="CONNECTOR/NAME")],
) -> None:
    """Show how near a worker is to each limit, and what it would be refused next."""
    from dispatcher import identity
    from dispatcher.ledger.exposure import exposure

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = identity.find(tx, account)
        seen = exposure(tx, found.adversary_id)
        quality = _quality(tx, found)
    groups_ = json.loads(found.groups)
    context.show(
        {
            "schema": "dispatcher.worker/1",
            "worker": found.text,
            "state": found.state,
            "adversary": seen.chain,
            "accounts": list(seen.accounts),
            "groups": groups_,
            "joins": list(seen.joins),
            "fields_seen": seen.entries,
            "records_seen": seen.records,
            "open_tasks": seen.open_tasks,
            **quality,
            "exposure": [_near(near) for near in seen.nearness],
        },
        "\n".join(
            [
                f"{found.text}   {found.state}   adversary {seen.chain}",
                f"  with      {_list(a for a in seen.accounts if a != found.text)}",
                f"  groups    {_list(groups_)}",
                f"  joins     {'; '.join(seen.joins) or '-'}",
                f"  saw       {rehearsal.count(seen.entries, 'field')} of "
                f"{rehearsal.count(seen.records, 'record')}, "
                f"{rehearsal.count(seen.open_tasks, 'open task')}",
                *_quality_words(found.text, quality),
                *(f"  {_near_words(near)}" for near in seen.nearness),
            ]
        ),
    )


def _quality(tx: Tx, account: Account) -> dict[str, Any]:
    """How good a worker is, by agreement and by made-up questions, and its tests."""
    from dispatcher.store import proficiency
    from policies.answers.skill import gold_accuracy

    gold = proficiency.gold(tx, account.id)
    why = proficiency.stopped(tx, account.id) if account.state == "stopped" else None
    return {
        "agreement": round(account.quality, 4),
        "gold": {
            **gold._asdict(),
            "accuracy": round(gold_accuracy(gold.right, gold.asked), 4),
        },
        "tests": [row._asdict() for row in proficiency.tried(tx, [account.id])],
        "stopped": None if why is None else why._asdict(),
    }


def _quality_words(account: str, quality: dict[str, Any]) -> list[str]:
    gold, why = quality["gold"], quality["stopped"]
    tests = (
        f"{one['field']} {one['state']}"
        + (f" ({one['correct']} of {one['asked']})" if one["asked"] else "")
        for one in quality["tests"]
    )
    lines = [
        f"  accuracy  {quality['agreement']:.2f} by agreement, {gold['accuracy']:.2f} by "
        f"made-up questions ({gold['right']} of {gold['asked']} right)",
        f"  tests     {_list(tests)}",
    ]
    if why is not None:
        by = "made-up questions" if why["by"] == "gold" else "agreement with others"
        lines.append(
            f"  stopped   below the floor by {by} ({why['percent']} %): given nothing "
            f"new until dispatcher workers unblock {account}"
        )
    return lines


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "-"


def _near(near: Near) -> dict[str, Any]:
    return {
        "property": near.rule,
        "f": str(near.f),
        "limit": "none" if near.tau is None else f"f < {near.tau}",
        "share": round(float(near.share), 4),
        "units": near.units,
        "full": near.full,
        "refused": list(near.refused),
    }


def _near_words(near: Near) -> str:
    limit = "no limit" if near.tau is None else f"limit f < {near.tau}"
    next_ = "nothing would be refused next"
    if near.full:
        units = rehearsal.count(near.full, "unit")
        next_ = f"{', '.join(near.refused)} of {units} would be refused next"
    share = f"{float(near.share):.2f}"
    return f"{near.rule}: nearest f = {near.f}, {limit} ({share} of it); {next_}"
