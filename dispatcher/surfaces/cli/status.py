"""``dispatcher status``: the state of the work, and what needs the operator."""

from __future__ import annotations

import time
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import EXIT_FINDINGS
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import CliContext, ExitCode, leave
from dispatcher.surfaces.cli.previews import people

if TYPE_CHECKING:
    from dispatcher.operations.status import PlanInForce, Status
    from dispatcher.store.settings import SafeWorkers

MINUTE: Final = 60_000_000
SECOND: Final = 1_000_000
STATES: Final = ("open", "answered", "in_doubt")


def status(
    ctx: typer.Context,
    watch: Annotated[
        float | None, typer.Option(min=0.5, help="Repeat every so many seconds.")
    ] = None,
    exit_code: ExitCode = False,
) -> None:
    """Show counts by state, who leads, and what needs you.

    With --watch and --json each look is one document on a line of its own.
    """
    from dispatcher.operations import status as operation

    context: CliContext = ctx.obj
    with context.open_store() as store:
        look = operation.repeated(context.preflight(store))
        while True:
            found = look(store, context.clock())
            context.show(document(found), lay_out(found))
            if watch is None:
                break
            time.sleep(watch)
    if exit_code and found.needs_you:
        leave(EXIT_FINDINGS)


def document(found: Status) -> dict[str, Any]:
    """Write the numbers as ``--json`` has them."""
    named = {one.name: getattr(found, one.name) for one in fields(found)}
    for name in ("connectors", "down", "refused", "held_back", "pilots", "budgets"):
        named[name] = [asdict(one) for one in named[name]]
    for name in ("failing", "paused"):
        named[name] = {key: asdict(one) for key, one in named[name].items()}
    for name in ("plan", "safe_workers", "limits"):
        if named[name] is not None:
            named[name] = asdict(named[name])
    return {
        "schema": "dispatcher.status/1",
        **named,
        "needs_you": found.needs_you,
    }


def lay_out(found: Status) -> str:
    """Lay the numbers out for people."""

    def states(by_state: dict[str, int]) -> str:
        parts = [f"{number:,} {state}" for state, number in by_state.items() if number]
        return " · ".join(parts) or "none"

    counts = found.counts
    sealed = found.sealed_minutes_ago
    lines = [
        f"leader   {found.leader or 'none'}   policy version "
        f"{found.policy_version or 'none'}   ledger "
        + ("not sealed yet" if sealed is None else f"sealed {sealed} min ago"),
        f"records  {count(counts['records'], 'record')} · "
        f"{count(counts['entries'], 'field')} · "
        f"{people(counts['adversaries'], counts.get('feeds', 0))} "
        f"({count(counts['accounts'], 'account')})",
        f"ledger   {count(counts['exposures'], 'exposure')}{_limits(found)}",
        f"tasks    {states(dict(found.tasks))}",
        *_by_connector(found),
        f"fields   {states(found.fields)}   ({count(counts['answers'], 'answer')})",
        f"outbox   {states(dict(found.outbox))}",
    ]
    if found.servers:
        lines.insert(1, "servers  " + ", ".join(sorted(found.servers)))
    if (safe := found.safe_workers) is not None and safe.needed != 0:
        lines.insert(2, f"workers  {_safe(safe, placed=found.is_safe_by_plan)}")
    if found.plan is not None:
        lines.insert(2, f"plan     {_plan(found, found.plan)}")
    if found.planning_since is not None:
        lasted = (found.at - found.planning_since) // SECOND
        lines.insert(2, f"planning for {lasted} s …")
    for one in found.budgets:
        today = "   today's allowance is used up" if one.used_up == "day" else ""
        lines.append(
            f"money    {one.run}: {one.paid} paid · {one.promised} promised or "
            f"owed · room {one.room} of {one.cap}{today}"
        )
    if found.needs_you:
        lines.append("needs you")
        lines += [f"  - {sentence}" for sentence in found.needs_you]
    return "\n".join(lines)


def _limits(found: Status) -> str:
    """Say how near what was shown came to a limit."""
    limits = found.limits
    if found.is_beyond_judging:
        return "   limits: too many to judge here, see the console"
    if limits is None:
        return ""
    parts = [f"limits reached: {', '.join(limits.crossed) or 'none'}"]
    if limits.worst.share:
        parts.append(f"worst share {limits.worst.share:.2f} ({limits.worst.rule})")
    if limits.left is not None:
        soon = limits.left < 2
        near = "the next field" if soon else f"one of the next {limits.left:,} fields"
        of = count(limits.units, "record or person", "records or people")
        parts.append(f"nearest: {limits.rule} may refuse {near} of {of}")
    return "   " + "   ".join(parts)


def _plan(found: Status, plan: PlanInForce) -> str:
    """Say what is planned, so that it cannot be taken for what was shown."""
    parts = [f"{plan.plan} in force"]
    if found.held:
        open_ = count(found.fields["open"], "open field")
        parts.append(f"{found.placed:,} of {open_} placed")
    parts.append(f"{count(plan.pairs, 'showing')} planned")
    if plan.outdated:
        parts.append("made before a merge, to be planned again: dispatcher plan")
    else:
        whole = count(plan.planned_complete, "sensitive set")
        parts.append(f"{whole} would be whole with one worker")
        if worst := plan.planned_worst:
            parts.append(f"planned worst share {worst.share:.2f} ({worst.rule})")
        if plan.gap is not None:
            best = "best for what can be placed" if found.held else "best plan"
            parts.append(f"within {plan.gap:.2%} of the {best}")
        if plan.moves:
            parts.append(f"moved {count(plan.moves, 'showing')}")
    return "   ".join(parts)


def _safe(safe: SafeWorkers, *, placed: bool) -> str:
    """Say how many workers must stay active; `placed`: by the plan all fields are."""
    if safe.needed is None:
        return (
            f"{safe.present:,} active   no number of them is proven safe, since an "
            "average is limited"
        )
    if placed:
        workers = count(safe.present, "worker")
        return (
            f"the plan in force places every field with your {workers}   "
            f"safe in any order from {count(safe.needed, 'worker')}"
        )
    least = count(safe.needed, "active worker")
    return (
        f"safe to go on with at least {least}; you have {safe.present:,}   "
        "with fewer, a field may be left that nobody may see"
    )


def _by_connector(found: Status) -> list[str]:
    """Lay out the work of each connector."""
    lines = []
    for row in found.connectors:
        numbers = ((name.replace("_", " "), getattr(row, name)) for name in STATES)
        parts = [f"{number:,} {name}" for name, number in numbers if number]
        if row.retry_at:
            parts.append(f"retries in {(row.retry_at - found.at) // MINUTE + 1} min")
        lines.append(f"  {row.connector}: {' · '.join(parts) or 'nothing open'}")
    return lines
