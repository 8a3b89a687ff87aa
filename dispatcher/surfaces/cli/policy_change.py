"""``dispatcher policy diff|plan|apply|list``: from one version to the next."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_FINDINGS, Usage
from dispatcher.ledger.recall import InFlightAction
from dispatcher.surfaces.cli import rehearsal
from dispatcher.surfaces.cli.context import CliContext, leave, table
from dispatcher.surfaces.cli.policy_files import valid_policy

if TYPE_CHECKING:
    from dispatcher.ledger.versions import Applied
    from dispatcher.stages.planning.impact import Impact

File = Annotated[
    Path | None,
    typer.Argument(dir_okay=False, help="A policy file (default: policy.toml)."),
]
IfActive = Annotated[
    str | None,
    typer.Option(metavar="V", help="Only if version V is in force now (0: none)."),
]
Flight = Annotated[
    InFlightAction,
    typer.Option(
        help="Open tasks that the version would not allow: take all of them back, those "
        "that have not left yet, or none."
    ),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 9 if there are any.")]


def diff(
    ctx: typer.Context,
    file: File = None,
    version: Annotated[
        int | None,
        typer.Option(min=1, max=2**31, help="Against this one (default: in force)."),
    ] = None,
    exit_code: ExitCode = False,
) -> None:
    """Show what a policy file says otherwise than the version in force."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    path = file or context.policy_path
    policy = valid_policy(path).policy
    with context.open_store() as store:
        comparison = policies.compare(store, policy, version)
    number, found = comparison.against, comparison.differences
    context.say(f"{path} against {f'version {number}' if number else 'no version'}")
    context.show(
        {
            "schema": "dispatcher.policy-diff/1",
            "against": number,
            "differences": [
                {
                    "sign": one.sign,
                    "part": one.part,
                    "name": one.name,
                    "changes": list(one.changes),
                    "looser": one.looser,
                }
                for one in found
            ],
        },
        "\n".join(one.line for one in found),
    )
    if not found:
        context.say("they say the same")
    elif exit_code:
        leave(EXIT_FINDINGS)


def plan(
    ctx: typer.Context,
    file: File = None,
    in_flight: Flight = InFlightAction.RECALL,
    breaches: Annotated[
        bool, typer.Option("--breaches", help="List what is past the new limits.")
    ] = False,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds of search for a plan, at most.")
    ] = 30.0,
    exit_code: ExitCode = False,
) -> None:
    """Show what putting a policy file in force would do; changes nothing.

    The version is put in force in a transaction that is rolled back: bookings wait for
    that, not for the search for a plan.
    """
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    checked = valid_policy(file or context.policy_path)
    with context.open_store() as store:
        preview = policies.preview(
            context, store, checked, in_flight=in_flight, time_limit=time_limit
        )
    applied, seen = preview.applied, preview.impact
    past = rehearsal.findings(preview.findings)
    if not applied.changed:
        context.say(
            f"version {applied.version} is this very file: nothing would change"
        )
    document = _planned(applied, seen, past, preview.in_force)
    context.show(document, _lay_out(applied, seen, past, breaches))
    if exit_code and (past or seen.verdict != "SOLVED" or applied.recall.unsafe):
        leave(EXIT_FINDINGS)


def apply(
    ctx: typer.Context,
    file: File = None,
    if_active: IfActive = None,
    in_flight: Flight = InFlightAction.RECALL,
    accept_past: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="As many sets past its limits as plan shows."
        ),
    ] = 0,
    reason: Annotated[
        str, typer.Option(help="Why, for the audit log. No field value.")
    ] = "",
    sample: Annotated[
        bool, typer.Option("--sample", help="Apply an unchanged example as it is.")
    ] = False,
) -> None:
    """Put a policy file in force, after its checks and its tests.

    What was shown already and is past a limit of the version cannot be undone: then
    nothing changes and the exit status is 6, unless --accept-past says just how many
    sets that are (see: policy plan) and --reason why.
    """
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    checked = valid_policy(file or context.policy_path)
    policies.check_reason(accept_past, reason)
    with context.open_to_book() as store:
        applied = policies.apply(
            context,
            store,
            checked,
            in_flight=in_flight,
            if_active=_version(if_active),
            accept_past=accept_past,
            reason=reason,
            sample=sample,
        )
    context.show(_applied(applied), _applied_words(applied))


def list_versions(ctx: typer.Context) -> None:
    """List the versions that were applied: which one held when, and why it came."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = policies.list_versions(store)
    listed = [
        {
            "version": one.row.version,
            "name": one.row.name,
            "from": _moment(one.row.applied_at),
            "until": _moment(one.until) if one.until is not None else None,
            "sha256": one.row.sha256,
            "accepted_past": one.row.accepted,
            "reason": one.row.reason,
        }
        for one in found
    ]
    header = ("version", "from", "until", "sha256", "accepted past", "reason")
    context.show(
        {"schema": "dispatcher.policies/1", "versions": listed},
        table(
            [
                (
                    one["version"],
                    one["from"],
                    one["until"] or "in force",
                    str(one["sha256"])[:12],
                    one["accepted_past"],
                    one["reason"] or "-",
                )
                for one in listed
            ],
            header,
        ),
    )


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version(text: str | None) -> int | None:
    """Read a version as people write it: 7 or v7."""
    if text is None:
        return None
    digits = text.removeprefix("v")
    if not (digits.isascii() and digits.isdigit()):
        raise Usage(
            f"{text[:20]!r} is no version of the policy",
            why="versions are counted 1, 2, 3 ... as they are applied",
            fix="write it like 7 or v7; see: dispatcher policy list",
        )
    return int(digits)


def _planned(
    applied: Applied, seen: Impact, past: list[dict[str, Any]], before: int
) -> dict[str, Any]:
    from dispatcher.ledger.violations import totals

    return {
        "schema": "dispatcher.policy-plan/1",
        "active": before,
        "version": applied.version,
        "changed": applied.changed,
        "adversaries_joined": applied.joined,
        "past": len(past),
        "by_property": totals(applied.accepted),
        "sets": past,
        "open_tasks": rehearsal.open_numbers(applied.recall, applied.recalled),
        "planned": seen.planned,
        "refused": seen.refused,
        "verdict": seen.verdict,
        "adversaries": seen.present,
        "needed": seen.needed,
        "held": seen.held,
        "safe_with": seen.safe_with,
        "why": list(seen.why),
    }


def _lay_out(
    applied: Applied, seen: Impact, past: list[dict[str, Any]], breaches: bool
) -> str:
    from dispatcher.ledger.violations import totals

    open_ = rehearsal.open_words(applied.recall, applied.recalled, ahead=True)
    planned = rehearsal.count(seen.planned, "planned showing")
    lines = [
        f"version {applied.version} would",
        f"  open         {open_}",
        f"  planned      refuse {seen.refused:,} of {planned}; all are planned anew",
        f"  feasible     {_feasible(seen)}",
        *(f"    {why}" for why in seen.why),
    ]
    if applied.joined:
        ended = rehearsal.count(applied.joined, "adversary", "adversaries")
        lines.append(f"  groups       {ended} would end in another one")
    if past:
        rules = ", ".join(f"{k} {n}" for k, n in totals(applied.accepted).items())
        sets = rehearsal.count(len(past), "set of an adversary", "sets of adversaries")
        lines.append(
            f"ALREADY PAST its limits: {sets} ({rules}); what was seen cannot be undone"
        )
        lines += (
            rehearsal.spoken(past) if breaches else ["  list: policy plan --breaches"]
        )
        lines.append(
            f"next: dispatcher policy apply --accept-past {len(past)} --reason TEXT"
        )
    else:
        lines.append("nothing that was shown is past its limits")
    return "\n".join(lines)


def _feasible(seen: Impact) -> str:
    present = rehearsal.count(seen.present, "adversary", "adversaries")
    if seen.verdict == "SOLVED":
        safe = f"; from {seen.safe_with:,} on whoever comes first, all can be shown"
        return f"yes, by a plan ({present} present{safe if seen.safe_with else ''})"
    held = rehearsal.count(seen.held, "field")
    if seen.verdict != "INFEASIBLE":
        return f"unknown: {held} without a plan so far ({present} present)"
    needed = f"{seen.needed:,} needed" if seen.needed else "no number would do"
    return f"no: {held} held back ({needed}, {seen.present:,} present)"


def _applied(applied: Applied) -> dict[str, Any]:
    return {
        "schema": "dispatcher.policy/1",
        "version": applied.version,
        "sha256": applied.sha256,
        "changed": applied.changed,
        "adversaries_judged": applied.judged,
        "adversaries_joined": applied.joined,
        "accepted_past": len(applied.accepted),
        "open_tasks": rehearsal.open_numbers(applied.recall, applied.recalled),
    }


def _applied_words(applied: Applied) -> str:
    if not applied.changed:
        return f"version {applied.version} was in force already"
    lines = [f"version {applied.version} is in force"]
    if applied.accepted:
        sets = rehearsal.count(len(applied.accepted), "set")
        lines.append(f"  {sets} past its limits accepted; the ledger says which")
    if applied.recall.unsafe:
        words = rehearsal.open_words(applied.recall, applied.recalled, ahead=False)
        lines.append(f"  {words}")
    return "\n".join(lines)
