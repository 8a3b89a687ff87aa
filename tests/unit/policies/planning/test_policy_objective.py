"""What showings are worth by the policy: fields, workers, and cells of the record."""

from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from policies.model.objective import Objective
from policies.model.problem import Average
from policies.planning.policy_objective import averages_of, policy_goal, weights_of
from policies.policy import Budget, Entity, Field, Policy, UtilityRow


class Worker(NamedTuple):
    text: str
    quality: float = 0.8


ANN, BOB, EVE = Worker("x/ann", 0.5), Worker("x/bob", 0.9), Worker("y/eve")
FIELDS = {"name": Field("name"), "drug": Field("drug", utility=Fraction(2))}


def policy(*rows, **budget):
    entity = Entity("form", "id", FIELDS, "person")
    return Policy("p", entity, utilities=rows, budget=Budget(**budget))


def worth(rows, people, match=(0, 0)):
    """Worth of one name and one drug for each adversary."""
    kind = np.array([0, 1], np.int64)
    bits = np.array(match, np.int64)
    weights = weights_of(policy(*rows), ("name", "drug"), kind, bits, people)
    entry, adversary = np.indices((2, len(people)))
    found = weights.of(entry, adversary) * weights.unit
    return [[float(f) for f in row] for row in found.tolist()]


def test_without_rows_a_showing_is_worth_its_field():
    assert worth((), [[ANN], [BOB]]) == [[1, 1], [2, 2]]


def test_rows_that_match_multiply():
    rows = (
        UtilityRow("x/*", weight=Fraction(3)),
        UtilityRow("*", fields=("drug",), weight=Fraction(1, 2)),
    )
    assert worth(rows, [[ANN], [EVE]]) == [[3, 1], [3, 1]]


def test_a_row_may_weigh_by_how_well_a_worker_answers():
    assert worth((UtilityRow(from_="quality"),), [[ANN], [BOB]]) == [
        [0.5, 0.9],
        [1.0, 1.8],
    ]


def test_several_accounts_are_worth_their_mean():
    rows = (UtilityRow("x/bob", weight=Fraction(3)),)
    assert worth(rows, [[ANN, BOB]]) == [[2], [4]]


@pytest.mark.parametrize(("match", "name", "drug"), [((1, 0), 5, 2), ((0, 1), 1, 10)])
def test_a_row_with_where_weighs_the_entries_whose_record_it_matches(match, name, drug):
    rows = (
        UtilityRow(where={"city": "x"}, weight=Fraction(5)),
        UtilityRow(weight=Fraction(1)),
    )
    assert worth(rows, [[ANN]], match) == [[name], [drug]]


def test_the_goal_is_the_budgets():
    goal = policy_goal(
        policy(objective=Objective.TRADEOFF, lambda_=Fraction(3), tau=None)
    )
    assert (goal.objective, goal.lambda_, goal.tau) == (Objective.TRADEOFF, 3, 0)


def test_averages_are_capped_over_all_rules_and_by_rule():
    rules = [SimpleNamespace(average=a) for a in (None, Fraction(1, 4))]
    expansion = SimpleNamespace(rules=rules)
    whole = policy(average=Fraction(1, 3))
    assert list(averages_of(whole, expansion)) == [
        Average((0, 1), Fraction(1, 3)),
        Average((1,), Fraction(1, 4)),
    ]
    assert list(averages_of(policy(), expansion)) == [Average((1,), Fraction(1, 4))]
