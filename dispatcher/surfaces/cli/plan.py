"""``dispatcher plan``: who is to be shown what, judged before anything is shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import EXIT_PARTLY, Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    Output,
    Seed,
    TimeLimit,
    leave,
    told_moment,
)
from dispatcher.surfaces.cli.previews import people
from policies.model.objective import Preference

if TYPE_CHECKING:
    from dispatcher.stages.planning import Drafted
    from policies.planning.frontier import Frontier

FRONTIER: Final = 60.0
"""Seconds of search for all points of a frontier."""

BACKLOG: Final = Path("backlog.json")
"""Where the backlog is written."""

Number = Annotated[
    int | None,
    typer.Argument(min=1, help="As plan list shows it (default: the latest draft)."),
]

app = typer.Typer(
    help="Plan who is to be shown what.",
    invoke_without_command=True,
    no_args_is_help=False,
)


@app.callback()
def plan(
    ctx: typer.Context,
    dry_run: DryRun = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Plan the rest where something has none.")
    ] = False,
    seed: Seed = None,
    algorithm: Annotated[
        str, typer.Option(help="auto, or a solver: docs/reference/instances.md.")
    ] = "auto",
    time_limit: TimeLimit = None,
    prefer: Annotated[
        Preference | None,
        typer.Option(help="Which plan is wanted (default: as in dispatcher.toml)."),
    ] = None,
) -> None:
    """Plan whatever misses answers; nothing is sent before the plan is applied.

    Where no plan meets the policy the exit status is 7, and the message says what
    clashes and how many workers would do; with --partial the rest is planned, and the
    exit status is 3.
    """
    if ctx.invoked_subcommand is not None:
        return
    from dispatcher.operations import plans

    context: CliContext = ctx.obj
    with context.open_store() as store:
        drafted = plans.draft(
            context,
            store,
            partial=partial,
            dry_run=dry_run,
            seed=seed,
            algorithm=algorithm,
            time_limit=time_limit,
            prefer=prefer,
        )
    document = {
        "schema": "dispatcher.plan/1",
        "plan": drafted.plan_id,
        "verdict": drafted.verdict,
        **drafted.summary,
    }
    context.show(
        document, lay_out(drafted, dry_run=dry_run, auto=context.config.plans == "auto")
    )
    if drafted.verdict != "SOLVED":
        leave(EXIT_PARTLY)


@app.command("apply")
def apply_plan(
    ctx: typer.Context, number: Number = None, dry_run: DryRun = False
) -> None:
    """Let a plan take effect: `up` books and sends it, the task page serves it."""
    from dispatcher.operations import plans

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        done = plans.apply(context, store, number)
    planned = count(done.pairs, "showing is", "showings are")
    context.show(
        {"schema": "dispatcher.plan/1", "plan": done.plan_id, "pairs": done.pairs},
        f"plan {done.plan_id} is applied: {planned} planned now",
    )


@app.command("list")
def list_plans(ctx: typer.Context) -> None:
    """List plans, newest first."""
    from dispatcher.operations import plans

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = plans.list_plans(store)
    header = ("plan", "state", "verdict", "policy", "pairs", "held", "made")
    lines = [
        (
            plan.row.id,
            plan.row.state,
            plan.row.verdict,
            plan.row.policy_version,
            plan.summary["pairs"],
            plan.summary["held"],
            told_moment(plan.row.created_at),
        )
        for plan in found
    ]
    context.show(
        {
            "schema": "dispatcher.plans/1",
            "plans": [dict(zip(header, line, strict=True)) for line in lines],
        },
        context.table(lines, header),
    )


@app.command("show")
def show_plan(ctx: typer.Context, number: Number = None) -> None:
    """Show a plan's numbers."""
    from dispatcher.operations import plans

    context: CliContext = ctx.obj
    with context.open_store() as store:
        kept = plans.show(store, number)
    found, numbers = kept.row, dict(kept.summary)
    head = f"plan {found.id}: {found.state}, {found.verdict}, by {found.algorithm}\n"
    if "sha256" in numbers:  # not in a plan made before it was kept
        head += f"  sha256       {numbers['sha256']}\n"
    context.show(
        {
            "schema": "dispatcher.plan/1",
            "plan": found.id,
            "state": found.state,
            "verdict": found.verdict,
            "seed": found.seed,
            **numbers,
        },
        head + numbers_of(numbers),
    )


@app.command("export")
def export(ctx: typer.Context, output: Output = BACKLOG) -> None:
    """Write what is to be planned as an instance file, for `solve` and other solvers.

    It has numbers only: no name, no value, no key of the store; but whoever knows the
    records could tell some by how many fields they have.
    """
    from dispatcher.operations import plans

    context: CliContext = ctx.obj
    output = output or BACKLOG
    with context.open_store() as store:
        context.spare(output)
        done = plans.export(context, store, output)
    lines = [
        f"wrote {output}: {count(done.entries, 'field')}, "
        f"{count(done.adversaries, 'worker')}, "
        f"{count(done.properties, 'set')} that nobody may hold whole",
        *(f"  {note}" for note in done.notes),
    ]
    context.show(
        {
            "schema": "dispatcher.instance/1",
            "output": str(output),
            "entries": done.entries,
            "adversaries": done.adversaries,
            "properties": done.properties,
            "notes": list(done.notes),
        },
        "\n".join(lines),
    )


@app.command("frontier")
def sweep(
    ctx: typer.Context,
    instance: Annotated[
        Path | None,
        typer.Argument(
            dir_okay=False, help="An instance file (default: the store's backlog)."
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=2, max=200, help="Limits on f, from none to 0.")
    ] = 11,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated.")] = False,
    output: Output = None,
    time_limit: TimeLimit = None,
    seed: Seed = None,
) -> None:
    """Show what a stricter policy would cost: workers, utility, worst disclosure.

    One limit on f for every rule, from none to 0, and the policy itself: the utility
    that the workers present can give, and how many workers all answers take, each with
    what is proven. Nothing is planned. --output draws it: a file .svg or .html.
    """
    from dispatcher.operations import instances, plans
    from dispatcher.surfaces import picture

    context: CliContext = ctx.obj
    seconds = time_limit or FRONTIER
    if output is not None:
        if output.suffix.lower() not in (".svg", ".html"):
            raise Usage(
                f"{output} ends in neither .svg nor .html",
                why="the ending says what is drawn: the plots, or a page with a table",
                fix="-o frontier.svg",
            )
        context.spare(output, *filter(None, [instance]))
        instances.check_place(output)
    if instance is not None:
        file = instances.InstanceFile(instance)
        found = instances.sweep(file, points, seed=seed or 0, time_limit=seconds)
    else:
        with context.open_store() as store:
            found = plans.sweep(context, store, points, seed=seed, time_limit=seconds)
    if output is not None:
        drawn = picture.frontier_svg(found)
        if output.suffix.lower() == ".html":
            drawn = picture.frontier_page(found, told_moment(context.clock()))
        instances.write_whole(output, drawn)
        context.say(f"wrote {output}")
    header, rows = frontier_rows(found)
    if csv and not context.json:
        print("\n".join(",".join(map(str, row)) for row in [header, *rows]))
        return
    document = {
        "schema": "dispatcher.frontier/1",
        "adversaries": found.adversaries,
        "answers": found.answers,
        "points": [dict(zip(header, row, strict=True)) for row in rows],
    }
    context.show(document, context.table([_cells(row) for row in rows], header))


def frontier_rows(
    found: Frontier,
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return a frontier as rows under names; the limit of the policy itself is empty."""
    header = (
        "limit",
        "verdict",
        "utility",
        "utility_at_most",
        "worst_f",
        "workers_at_least",
        "workers_enough",
    )

    def number(value: Fraction | None) -> float | None:
        return None if value is None else round(float(value), 6)

    rows: list[tuple[object, ...]] = [
        (
            "policy" if point is found.policy else number(point.limit),
            point.verdict.value,
            number(point.utility),
            number(point.bound),
            number(point.f),
            None if point.needed.never else point.needed.least,
            None if point.needed.never else point.needed.enough,
        )
        for point in (*found.points, found.policy)
    ]
    return header, rows


def _cells(row: tuple[object, ...]) -> list[object]:
    return ["-" if cell is None else cell for cell in row]


def lay_out(drafted: Drafted, *, dry_run: bool, auto: bool) -> str:
    """Lay a new plan out for people; ``auto``: the daemon plans by itself too."""
    from dispatcher.operations import plans

    lines = [DRY_RUN] if dry_run else []
    if not drafted.summary["fields"] and drafted.plan_id is None:  # no numbers to show
        lines.append(
            "  nothing is left to plan: what is in force is in dispatcher plan list and "
            "dispatcher status"
        )
        if drafted.summary["burnt"]:
            burnt = count(drafted.summary["burnt"], "field is", "fields are")
            lines.append(f"  {burnt} burnt: dispatcher fields list --burnt")
        lines += [f"  {sentence}" for sentence in plans.refused(drafted)]
        return "\n".join(lines)
    lines.append(numbers_of(drafted.summary))
    lines += [f"  {sentence}" for sentence in plans.refused(drafted)]
    lines += [f"  {line}" for line in plans.held_back(drafted)]
    if drafted.plan_id is None:
        lines.append("  nothing was kept" if dry_run else "  nothing is left to plan")
    else:
        lines.append(
            f"  next: dispatcher plan apply {drafted.plan_id}   (nothing has been sent)"
        )
        if auto:
            lines.append(
                '  `dispatcher up` plans and applies by itself: plans = "manual" in '
                "dispatcher.toml leaves it to you"
            )
    return "\n".join(lines)


PREFERRED: Final = {
    "fewest-workers": "fewest workers: {value} used, and no plan uses fewer than {bound}",
    "fairest-load": "fairest load: {value} showings of one at most, and in no plan fewer "
    "than {bound}",
    "most-agreement": "most agreement for the money: utility is right answers to be "
    "expected, over what they cost",
}


def _preferred(numbers: dict[str, Any]) -> list[str]:
    """Say what was preferred to utility, and how near it comes to the best."""
    prefer = numbers.get("prefer")
    if prefer is None:
        return []
    return [f"  preferred    {PREFERRED[prefer['objective']].format(**prefer)}"]


def _moved(numbers: dict[str, Any]) -> list[str]:
    """Say how it differs from the plan that it replaced."""
    if not numbers.get("moves"):
        return []
    moved = count(numbers["moves"], "showing")
    return [
        f"  moved        {moved} to other workers, worth {numbers['gain']:.2%} more"
    ]


def _reserve(numbers: dict[str, Any]) -> list[str]:
    """Say what t leaves for answers that do not come."""
    if "spare" not in numbers:  # a plan made before it was counted
        return []
    none = count(numbers["no_spare"], "field has", "fields have")
    return [
        f"  reserve      {count(numbers['spare'], 'showing')} kept for returned and "
        f"disagreeing answers; {none} none"
    ]


def _proven(numbers: dict[str, Any]) -> str:
    """Say how far the best plan can be away."""
    if "gap" not in numbers:  # a plan made before it was kept
        return ""
    gap = numbers["gap"]
    return f"; proven within {gap:.2%} of the best plan" if gap else "; proven best"


def _cost(one: dict[str, Any]) -> str:
    """Say what a plan costs one run."""
    work = count(one["fields"], "field")
    if one["pieces"]:
        work += f", {count(one['pieces'], 'piece')} of work at least"
    lacks = "" if one["enough"] else "   NOT ENOUGH: dispatcher runs budget"
    if one["enough"] and not one["enough_today"]:
        lacks = "   more than today's allowance"
    return f"  cost         {one['run']}: {one['total']} ({work}), room {one['room']}{lacks}"


def numbers_of(numbers: dict[str, Any]) -> str:
    """Lay the numbers of a plan out for people."""
    best = Fraction(numbers["best"])
    share = float(Fraction(numbers["utility"]) / best) if best else 1.0
    by = f", by {numbers['utility_by']}" if numbers.get("utility_by") else ""
    worst = numbers["worst"]
    nearest = (
        f"{worst['share']:.2f} of a limit ({worst['rule']}: f = {worst['f']}, "
        f"limit f < {worst['limit']})"
        if worst
        else "no rule has a limit"
    )
    return "\n".join(
        [
            f"  {count(numbers['records'], 'record')} · "
            f"{count(numbers['fields'], 'field')} · "
            f"{count(numbers['answers'], 'answer')} wanted · "
            f"{people(numbers['adversaries'], numbers.get('feeds', 0))} · "
            f"{count(numbers['sets'], 'sensitive set')}",
            f"  planned      {count(numbers['pairs'], 'showing')} · "
            f"{count(numbers['held'], 'field')} held back",
            *_moved(numbers),
            *_preferred(numbers),
            *_reserve(numbers),
            f"  utility      {share:.3f} of the best without limits{by}{_proven(numbers)}",
            f"  worst share  {nearest}   "
            f"{count(numbers['complete'], 'sensitive set')} whole with one worker",
            *(_cost(one) for one in numbers.get("costs", [])),
        ]
    )
