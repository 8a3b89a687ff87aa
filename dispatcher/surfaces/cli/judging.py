"""``dispatcher judge``: what a finished plan of an instance is worth, and what it breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import EXIT_FAILED
from dispatcher.surfaces.cli.context import CliContext, leave
from dispatcher.surfaces.cli.instance_files import (
    Adversaries,
    Copies,
    Friendships,
    InstanceFile,
    functions_named,
    invalid,
    own_stdout,
    read_document,
    read_json,
    read_problem,
)
from dispatcher.surfaces.cli.solutions import worth

if TYPE_CHECKING:
    from policies.instances.instance_file import Instance
    from policies.model.problem import Plan


def judge(
    ctx: typer.Context,
    instance: InstanceFile,
    plan: Annotated[
        Path,
        typer.Argument(
            help="Output of solve -o, or a JSON list of adversaries for each entry."
        ),
    ],
    adversaries: Adversaries = None,
    copies: Copies = 1,
    friendships: Friendships = None,
) -> None:
    """Judge a finished plan of an instance: what it is worth, and all that it breaks.

    JSON goes to stdout. The exit status is 0 where every limit is kept, 1 where one is
    not (violations say which), 5 for a file that is no instance, or no plan of it.
    """
    context: CliContext = ctx.obj
    document = read_document(instance, adversaries, copies, friendships)
    with own_stdout(), functions_named(str(instance)):
        found = read_problem(document, str(instance))
        told = _judged(found, _read_plan(plan, found))
    print(json.dumps(told, ensure_ascii=False), flush=True)
    if not context.json:
        context.say(_lay_out(told))
    if not told["feasible"]:
        leave(EXIT_FAILED)


def _read_plan(path: Path, found: Instance) -> Plan:
    """Read the plan of a file for this instance.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to mend it.
    """
    from policies.instances.json_values import InvalidInstance
    from policies.instances.plan_document import read_plan

    problem = found.problem
    try:
        return read_plan(read_json(path), problem.n_entries, problem.n_adversaries)
    except InvalidInstance as error:
        raise invalid(str(path), error) from None


def _judged(found: Instance, plan: Plan) -> dict[str, Any]:
    """Return the document: floats for reading, the verdict from exact numbers."""
    from policies.judging.judge import judge as judge_plan

    judged = judge_plan(found.problem, plan)
    return {
        "schema": "dispatcher.judgement/1",
        "feasible": judged.feasible,
        "objective": float(judged.objective),
        **worth(judged),
        "violations": list(judged.violations),
        "notes": list(found.notes),
    }


def _lay_out(told: dict[str, Any]) -> str:
    """Lay the judgement out for people."""
    kept = "every limit is kept" if told["feasible"] else "not every limit is kept"
    lines = [
        f"{kept}: objective {told['objective']:.9g}",
        f"  utility {told['utility']:.9g}   disclosure {told['disclosure']:.9g}   "
        f"complete sets {told['complete_sets']}",
    ]
    lines += [f"  {what}" for what in (*told["violations"], *told["notes"])]
    return "\n".join(lines)
