"""Relax a problem that is stricter than the policy until it is no stricter.

A plan of the strict problem keeps the policy. Its infeasibility proves nothing where it
is stricter: cosines of 0, weights that were rounded up, averages over sets of which a
link has several. Every plan within the policy is a plan of the relaxed problem: if that
has none, there is none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Average, Goal, Problem
from policies.model.sets import NO_CAP, SetSystem
from policies.planning.caps_on_averages import AverageCaps
from policies.planning.problem import PlanningProblem
from policies.rules.expand import LARGEST_SCALE
from policies.rules.link_rules import LinkRule
from policies.rules.record_rules import Rule
from policies.rules.tabulated import TabulatedRule

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COSINES: Final = "no plan keeps all cosines at 0, and none below the limit was found"
ROUNDED: Final = "no plan keeps a limit on weights of so many digits, rounded up"
TOO_MUCH: Final = "no plan was found that keeps the caps on means"

_POWERS: Final = 3
"""Each rounded weight raises f by less than this, in the smallest unit."""


@dataclass(frozen=True, eq=False)
class RelaxedProblem:
    """A problem without what is stricter than the policy.

    Attributes
    ----------
    problem : Problem
    kept : int64 array, shape (sets,)
        Its sets, in the numbering of the strict problem.
    beyond : tuple of str
        Messages for when only the strict problem has no plan.
    averages : Problem or None
        Relaxed only in caps on means: its plans keep all limits. None if those are not
        stricter.
    """

    problem: Problem
    kept: Ints
    beyond: tuple[str, ...]
    averages: Problem | None


def relax(made: PlanningProblem, averages: AverageCaps) -> RelaxedProblem | None:
    """Return the problem no stricter than the policy; None if it is not stricter."""
    problem, sets = made.problem, made.problem.sets
    cosine = np.isin(sets.owner, sorted(made.stricter))
    repeated = _repeated(made, averages)
    rough = [i for i, rule in enumerate(made.expansion.rules) if _rounded(rule)]
    caps = averages.caps(relaxed=True)
    counted = caps != averages.caps() or bool(repeated.any())
    asked = (cosine.any(), np.isin(sets.owner, rough).any(), counted)
    if not any(asked):
        return None
    kept = np.flatnonzero(~(cosine | repeated))
    looser = replace(
        problem,
        sets=_raised(sets.select(np.arange(problem.n_entries), kept), made),
        averages=tuple(_eased(cap, sets, rough) for cap in caps),
        utilities=None,
        goal=Goal(),
    )
    reasons = zip((COSINES, ROUNDED, TOO_MUCH), asked, strict=True)
    return RelaxedProblem(
        looser,
        kept,
        tuple(text for text, more in reasons if more),
        _with_relaxed_caps(made, caps, cosine, repeated) if counted else None,
    )


def _with_relaxed_caps(
    made: PlanningProblem, caps: tuple[Average, ...], cosine: Flags, repeated: Flags
) -> Problem:
    """Return the problem with only the caps relaxed."""
    base = made.problem if made.loose is None else made.loose
    gone = repeated if made.loose is None else repeated | cosine
    kept = np.flatnonzero(~gone)
    sets = made.problem.sets.select(np.arange(base.n_entries), kept)
    return replace(base, sets=sets, averages=caps)


def _repeated(made: PlanningProblem, averages: AverageCaps) -> Flags:
    """Mask of a link's further sets, for rules of which each link needs only one."""
    owner, unit = made.problem.sets.owner, made.expansion.unit
    found = np.zeros(len(owner), np.bool_)
    for number in range(len(made.expansion.rules)):
        if averages.has_several_sets_of_a_link(number):
            rows = np.flatnonzero(owner == number)
            _, first = np.unique(unit[rows], return_index=True)
            found[np.delete(rows, first)] = True
    return found


def _rounded(rule: Rule | LinkRule) -> bool:
    """Whether a rule's weights do not fit its sets exactly."""
    if isinstance(rule, LinkRule | TabulatedRule) or rule.need is not None:
        return False
    return rule.unit.denominator > LARGEST_SCALE


def _raised(sets: SetSystem, made: PlanningProblem) -> SetSystem:
    """Raise the caps of rounded weights by all that was rounded up."""
    cap, size = sets.cap.copy(), np.diff(sets.start)
    for number, rule in enumerate(made.expansion.rules):
        if isinstance(rule, LinkRule) or not _rounded(rule) or rule.by_entry:
            continue  # weights per entry are equal, and the cap is a number of them
        if rule.cap is not None:
            mine = sets.owner == number
            exact = int(rule.cap * rule.unit * LARGEST_SCALE)
            cap[mine] = np.minimum(exact + size[mine], NO_CAP)
    return replace(sets, cap=cap)


def _eased(cap: Average, sets: SetSystem, rough: Sequence[int]) -> Average:
    """Raise a cap on a mean by what rounded weights may add to it."""
    mine = np.isin(sets.owner, np.intersect1d(cap.properties, rough))
    most = int(np.diff(sets.start)[mine].max(initial=0))
    slack = Fraction(_POWERS * most, LARGEST_SCALE)
    return replace(cap, limit=cap.limit + slack)
