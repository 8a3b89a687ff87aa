"""Worst f of the rules that compute it set by set: tables and users' functions.

Plans keep such a rule below its limit by step sets, whose f is 0 or 1; the actual f of
a plan is computed by the rule itself.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from policies.model.problem import Pairs
from policies.planning.problem import PlanningProblem
from policies.policy import Scope
from policies.rules.link_rules import value
from policies.rules.record_rules import ZERO
from policies.rules.shared_places import matched
from policies.rules.tabulated import TabulatedRule
from policies.rules.tabulated_links import TabulatedLinkRule

Ints = npt.NDArray[np.int64]


def worst_disclosures(made: PlanningProblem, plan: Pairs) -> dict[int, Fraction]:
    """Return the highest f of each such rule, over what was shown and is planned.

    Returns
    -------
    dict of int to Fraction
        By the rule's index in the expansion, without rules that slide a window.
    """
    problem, judged = made.problem, made.problem.judged()
    every = problem.held(plan).union(problem.held(problem.history))
    found = {}
    for number, rule in enumerate(made.expansion.rules):
        if (
            not isinstance(rule, TabulatedRule | TabulatedLinkRule)
            or rule.window is not None
        ):
            continue
        of = np.full(len(made.fields), -1, np.int64)
        for bit, name in enumerate(sorted(rule.fields & set(made.fields))):
            of[made.fields.index(name)] = bit
        mine = of[made.kind[every.entry]] >= 0
        if judged is not None:
            mine &= judged[number, every.adversary]
        held = Pairs(every.entry[mine], every.adversary[mine])
        bits = of[made.kind[held.entry]]
        if not len(held):
            found[number] = ZERO
        elif isinstance(rule, TabulatedRule):
            found[number] = _of_units(rule, made, held, bits)
        else:
            found[number] = _of_links(rule, made, held, bits)
    return found


def _of_units(
    rule: TabulatedRule, made: PlanningProblem, held: Pairs, bits: Ints
) -> Fraction:
    record = rule.scope is Scope.RECORD
    unit = (made.backlog.record if record else made.backlog.subject)[held.entry]
    _, masks = _masks(held.adversary, unit, bits)
    scores = (
        rule.score(dict.fromkeys(_names(rule, mask), 1))
        for mask in np.unique(masks).tolist()
    )
    return rule.fraction(max(scores, default=0))


def _of_links(
    rule: TabulatedLinkRule, made: PlanningProblem, held: Pairs, bits: Ints
) -> Fraction:
    people = made.backlog.subject[held.entry]
    whose, masks = _masks(held.adversary, people, bits)
    twice = _several(held.adversary, people, made.backlog.record[held.entry])
    masks |= twice << len(rule.fields)
    pairs = made.backlog.links[rule.relation]
    met = [
        _met(whose, masks, mine, other)
        for mine, other in ((pairs.one, pairs.other), (pairs.other, pairs.one))
    ]
    ends = np.unique(np.concatenate(met), axis=0)
    both = ([_end(rule, mask) for mask in row] for row in ends.tolist())
    return max((value(rule.reached(one, other)) for one, other in both), default=ZERO)


def _masks(holder: Ints, unit: Ints, bits: Ints) -> tuple[Ints, Ints]:
    """Return the (unit, holder) that hold something, sorted, and their fields."""
    whose, place = np.unique(
        np.column_stack([unit, holder]), axis=0, return_inverse=True
    )
    masks = np.zeros(len(whose), np.int64)
    np.bitwise_or.at(masks, place.reshape(-1), 1 << bits)
    return whose, masks


def _several(holder: Ints, unit: Ints, record: Ints) -> Ints:
    """1 if several records of a (unit, holder) are held, else 0; sorted by them."""
    of_record = np.unique(np.column_stack([unit, holder, record]), axis=0)[:, :2]
    _, count = np.unique(of_record, axis=0, return_counts=True)
    return (count > 1).astype(np.int64)


def _met(whose: Ints, masks: Ints, mine: Ints, other: Ints) -> Ints:
    """Return fields held of an end of each link, and of the other by the same holder."""
    number, at = matched(whose[:, 0], mine)
    span = int(whose.max(initial=0)) + 1
    key = whose[:, 0] * span + whose[:, 1]
    wanted = other[number] * span + whose[at, 1]
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    theirs = np.where(key[place] == wanted, masks[place], 0)
    return np.column_stack([masks[at], theirs])


def _names(rule: TabulatedRule | TabulatedLinkRule, mask: int) -> list[str]:
    return [n for bit, n in enumerate(sorted(rule.fields)) if mask >> bit & 1]


def _end(rule: TabulatedLinkRule, mask: int) -> dict[tuple[int, str], int]:
    """Return what is held of one end, spread over two records if there are several."""
    several = mask >> len(rule.fields) & 1
    names = _names(rule, mask)
    return {(record, name): 1 for name in names for record in range(1 + several)}
