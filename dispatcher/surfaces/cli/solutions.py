"""What ``dispatcher solve`` tells of a solution: its document, and that for people."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.instances.instance_file import Instance
    from policies.judging.judge import Judgement
    from policies.solvers import Limits, Solution


def withheld(
    found: Instance, solution: Solution, seed: int, limits: Limits
) -> dict[str, Any]:
    """Say what to withhold, if there is no plan and the file says what that costs."""
    import numpy as np

    from policies.instances.instance_file import rows_of
    from policies.solvers import Verdict
    from policies.solvers.explain.withholding import cheapest

    problem = found.problem
    if solution.verdict is not Verdict.INFEASIBLE or problem.prices is None:
        return {}
    least = cheapest(problem, np.random.default_rng(seed), limits)
    if least is None:
        return {"withheld": None}
    return {
        "withheld": {
            "entries": list(least.entries),
            "price": least.price,
            "bound": least.bound,
            "assignment": rows_of(least.plan, problem.n_entries),
        }
    }


def worth(judged: Judgement | None) -> dict[str, Any]:
    """Return what a plan is worth beside its objective; nulls without a plan."""
    return {
        "utility": float(judged.u) if judged else None,
        "disclosure": float(judged.f_goal) if judged else None,
        "complete_sets": judged.disclosed if judged else None,
    }


def report(found: Instance, solution: Solution, algorithm: str) -> dict[str, Any]:
    """Return the document: floats for reading, the verdict from exact numbers."""
    from policies.instances.instance_file import rows_of
    from policies.solvers import Verdict
    from policies.solvers.explain.messages import certificate, sentences

    problem = found.problem
    solved = solution.verdict is Verdict.SOLVED
    judged = solution.judged if solved else None
    value = float(solution.value) if solved else None
    bound: float | None = float(solution.bound)
    if solution.verdict is Verdict.INFEASIBLE:
        bound = None
    if value is not None and bound is not None:
        bound = max(bound, value)
    core = solution.core
    return {
        "schema": "dispatcher.solution/1",
        "verdict": str(solution.verdict),
        "algorithm": algorithm,
        "objective": value,
        **worth(judged),
        "bound": bound,
        "gap": bound - value if value is not None and bound is not None else None,
        "stopped": solution.stopped or _ended(solution),
        "assignment": rows_of(solution.plan, problem.n_entries) if solved else None,
        "core": None
        if core is None or solved
        else {
            "why": sentences(problem, core),
            "entries": sorted({d for c in core.clashes for d in c.entries}),
            "properties": sorted({p for c in core.clashes for p in c.properties}),
            "needed": core.needed,
            "exact": core.exact,
            "available": core.available,
        },
        "certified": [
            {
                "why": certificate(problem, proof),
                "ground": str(proof.ground),
                "entries": list(proof.entries),
                "components": proof.components,
            }
            for proof in solution.proofs
        ],
        "tried": [*found.notes, *solution.tried],
    }


def _ended(solution: Solution) -> str:
    """Why a search ended whose solver does not say."""
    from policies.solvers import Verdict

    if solution.verdict is Verdict.SOLVED:
        return "optimal" if solution.value == solution.bound else "gap"
    return "optimal" if solution.core is not None else "work"


def report_front(
    found: Instance,
    points: Sequence[tuple[Fraction | None, Solution]],
    algorithm: str,
) -> dict[str, Any]:
    """Return the document of a front: one answer a level, the loosest first."""
    told = [report(found, solution, algorithm) for _, solution in points]
    keys = ("verdict", "utility", "disclosure", "complete_sets", "bound", "stopped")
    front = [
        {"level": None if level is None else float(level)}
        | {key: one[key] for key in (*keys, "assignment")}
        for (level, _), one in zip(points, told, strict=True)
    ]
    shared = ("verdict", "algorithm", "assignment", "core", "tried")
    return {
        "schema": "dispatcher.front/1",
        **{key: told[0][key] for key in shared},
        "front": front,
    }


def lay_out(told: dict[str, Any]) -> str:
    """Lay the answer out for people."""
    least = told.get("complete_sets_bound")
    if told.get("front") and told["assignment"] is not None:
        lines = [
            f"{told['verdict']}: {len(told['front'])} levels ({told['seconds']:.1f} s)"
        ]
        lines += [_level(one) for one in told["front"]]
        return "\n".join(lines)
    if told["assignment"] is not None:
        return (
            f"{told['verdict']}: objective {told['objective']:.9g}, at most "
            f"{told['bound']:.9g} ({told['stopped']}, {told['seconds']:.1f} s)\n"
            f"  utility {told['utility']:.9g}   disclosure {told['disclosure']:.9g}   "
            f"complete sets {told['complete_sets']}"
            + (f" (at least {least})" if least is not None else "")
        )
    lines = [f"{told['verdict']} ({told['stopped']}, {told['seconds']:.1f} s)"]
    if told["core"]:
        lines += [f"  {why}" for why in told["core"]["why"]]
    else:
        lines += [f"  tried: {what}" for what in told["tried"]]
    lines += [f"  certified: {proof['why']}" for proof in told["certified"]]
    if told.get("withheld"):
        choice = told["withheld"]
        many = len(choice["entries"])
        named = ", ".join(map(str, choice["entries"][:12])) + ", ..." * (many > 12)
        lines.append(
            f"  withhold {many} {'entry' if many == 1 else 'entries'} ({named}) at a price "
            f"of {choice['price']}; no choice costs less than {choice['bound']}"
        )
    return "\n".join(lines)


def _level(one: dict[str, Any]) -> str:
    """One line of a front."""
    within = "any" if one["level"] is None else f"{one['level']:.6g}"
    if one["assignment"] is None:
        return f"  disclosure at most {within}: {one['verdict']}"
    return (
        f"  disclosure {one['disclosure']:.6g} (at most {within}): utility "
        f"{one['utility']:.9g} of at most {one['bound']:.9g}, complete sets "
        f"{one['complete_sets']}"
    )
