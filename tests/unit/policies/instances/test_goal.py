"""What an instance file may say of aggregation, and what it is told when it is off."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.instances.json_values import InvalidInstance
from policies.judging.judge import judge
from policies.model.aggregates import Aggregate, Shape
from policies.model.problem import Average, Goal, Plan
from policies.model.sets import InvalidProblem
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.adversary_reduction import needed
from policies.solvers.exact.lexicographic import countable
from policies.solvers.explain.messages import sentences
from policies.solvers.explain.withholding import cheapest, without

SAMPLE = Path(__file__).parents[3] / "data" / "instances" / "linear_average.json"


def document(aggregation="worst", **how):
    """Two entries for two adversaries: 0 and 1 together, and each by itself."""
    keys = {k: how.pop(k) for k in ("problem", "tau", "kind") if k in how}
    return {
        "schema": "sparsi-instance/1",
        "n_entries": 2,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[1, 0], [1, 0]],
        "utility_norm": 1,
        "properties": [
            {"entries": [0, 1], "a": [0.5, 0.5]},
            {"entries": [0], "a": [1]},
            {"entries": [1], "a": [0.4]},
        ],
        "disclosure": {
            "kind": keys.get("kind", "linear"),
            "aggregation": aggregation,
            **how,
        },
        "problem": keys.get("problem", "tradeoff"),
        "tau": keys.get("tau", 0),
    }


TOGETHER = Plan.of([(0, 0), (1, 0)])  # 0 sees 1, 1 and 2/5
APART = Plan.of([(0, 0), (1, 1)])  # 0 sees 1/2 and 1; 1 sees 1/2 and 2/5


@pytest.mark.parametrize(
    ("asked", "together", "apart"),
    [
        (document("worst", property_weights=[1, 0.5, 1]), 1, Fraction(1, 2)),
        (document("worst", adversaries="sum"), 1, Fraction(3, 2)),
        (
            document("average", property_weights=[2, 0, 1]),
            Fraction(4, 5),
            Fraction(7, 15),
        ),
        (document("average", adversaries="sum"), Fraction(4, 5), Fraction(4, 5)),
        (document("count", level=0.4), 2, 2),
        (document("count", level=0.4, adversaries="sum"), 2, 3),
        (document("count", level=0.5, property_weights=[3, 1, 1]), 4, 1),
        (document("soft-max", q=1), Fraction(4, 5), Fraction(1, 2)),
    ],
)
def test_disclosure_is_told_in_the_terms_of_the_file(asked, together, apart):
    """Both plans of a small file, by hand."""
    problem = read_instance(asked).problem
    assert judge(problem, TOGETHER).f_goal == together
    assert judge(problem, APART).f_goal == apart


@pytest.mark.parametrize(
    ("asked", "average"),
    [
        (document("worst", adversaries="max"), False),
        (document("average", adversaries=None), True),
        (document("average", property_weights=[1, 1.0, 1]), True),
        (document("average", property_weights=[0.25, 0.25, 0.25]), True),
        (document("soft-max", q=1, property_weights=[7, 7, 7]), True),
        (document("soft-max", q=1), True),
        (document("worst", property_weights=None, level=None, q=None), False),
    ],
)
def test_what_says_worst_or_average_in_other_words_is_just_that(asked, average):
    """So every solver of those takes it."""
    goal = read_instance(asked).problem.goal
    assert (goal.aggregate, goal.average) == (None, average)


@pytest.mark.parametrize(
    ("asked", "where", "what"),
    [
        (document("mean"), "disclosure.aggregation", "worst, average, count, soft-max"),
        (document("count"), "disclosure", "level is missing, which the aggregation"),
        (document("count", level=None), "disclosure", "level is missing"),
        (document("count", level="low"), "disclosure.level", "found a string"),
        (document("count", level=float("nan")), "disclosure.level", "found NaN"),
        (document("count", level=-0.1), "disclosure.level", "-0.1 is out of range"),
        (document("count", level=1), "disclosure.level", "no f is above 1"),
        (document("count", level=1.5), "disclosure.level", "expected 0 to below 1"),
        (document("count", level=0, q=2), "disclosure.q", "q is given for"),
        (document("worst", level=0.5), "disclosure.level", "for the aggregation worst"),
        (document("soft-max"), "disclosure", "q is missing, which the aggregation"),
        (document("soft-max", q=2.0), "disclosure.q", "expected an integer"),
        (document("soft-max", q=True), "disclosure.q", "found true"),
        (document("soft-max", q=0), "disclosure.q", "expected 1 to 32"),
        (document("soft-max", q=33), "disclosure.q", "33 is out of range"),
        (document(adversaries="all"), "disclosure.adversaries", "one of max, sum"),
        (document(adversaries=["sum"]), "disclosure.adversaries", "a list of 1"),
        (
            document(property_weights=[1, 1e10, 1]),
            "disclosure.property_weights[1]",
            "expected 0 to 1e+09",
        ),
        (
            document(property_weights=[1, 1, 5e-324]),
            "disclosure.property_weights[2]",
            "expected 0, or 1e-09 to 1e+09",
        ),
        (
            document(property_weights=[1, 1]),
            "disclosure.property_weights",
            "length 2, expected 3",
        ),
        (
            document(property_weights=3),
            "disclosure.property_weights",
            "expected a list",
        ),
        (
            document(property_weights=[1, -1, 1]),
            "disclosure.property_weights[1]",
            "-1.0 is out of range",
        ),
        (
            document(property_weights=[1, float("inf"), 1]),
            "disclosure.property_weights[1]",
            "found NaN or infinity",
        ),
        (
            document(property_weights=[0, 0, 0]),
            "disclosure.property_weights",
            "all weights",
        ),
        (
            document(property_weight=[1, 1, 1]),
            "disclosure",
            "'property_weight' is unknown",
        ),
    ],
)
def test_an_aggregation_that_is_off_is_refused_with_place_and_remedy(
    asked, where, what
):
    with pytest.raises(InvalidInstance) as told:
        read_instance(asked)
    assert told.value.where == where
    assert what in told.value.what
    assert told.value.mend.endswith(".")


def test_weights_that_are_alike_weigh_nothing_in_a_mean():
    """But a count and a worst set are in their units."""
    for aggregation, how, weights in (
        ("soft-max", {"q": 2}, ()),
        ("average", {"adversaries": "sum"}, ()),
        ("count", {"level": 0.5}, (5, 5, 5)),
        ("worst", {}, (5, 5, 5)),
    ):
        asked = document(aggregation, property_weights=[5, 5, 5], **how)
        made = read_instance(asked).problem.aggregate
        assert made.weights == weights
        assert made.shape not in ("soft-max", "average") or made.over == 3


@pytest.mark.parametrize(
    ("lambda_", "tau", "weights"),
    [(1e308, 1e308, None), (1e308, 0, None), (1e292, 0, [1, 1, 1e9]), (1, 1e300, None)],
)
def test_what_disclosure_costs_is_a_number_that_can_be_written(lambda_, tau, weights):
    """A limit alone prices nothing: there both may be any number."""
    asked = document(tau=tau, property_weights=weights) | {"lambda": lambda_}
    with pytest.raises(InvalidInstance, match="lambda") as told:
        read_instance(asked)
    assert told.value.where == "lambda"
    asked |= {"problem": "discbudget", "tau": 1e308}
    assert judge(read_instance(asked).problem, TOGETHER).objective == 2
    asked |= {"problem": "tradeoff", "tau": 1e99, "lambda": 1e200}
    assert float(judge(read_instance(asked).problem, APART).objective) == 1e299


@pytest.mark.parametrize(
    ("asked", "u"),
    [
        (document("worst", property_weights=[1, 0.5, 1], tau=0.6), 1),
        (document("average", adversaries="sum", tau=0.8), None),  # 4/5 always
        (document("average", adversaries="sum", tau=0.81), 2),
        (document("count", level=0.4, adversaries="sum", tau=3), 2),
        (document("count", level=0.9, tau=2), 1),
        (document("soft-max", q=2, property_weights=[0, 0, 1], tau=0.4), None),
        (document("soft-max", q=2, property_weights=[0, 0, 1], tau=0.41), 2),
        (document("soft-max", q=32, property_weights=[1, 0, 0], tau=0.51), 1),
    ],
)
def test_a_limit_on_an_aggregate_is_kept_exactly(asked, u):
    """f < tau: together is worth 2, apart 1; None: neither is within the limit."""
    problem = read_instance(asked | {"problem": "discbudget"}).problem
    for name in ("auto", "milp"):
        limits = Limits(work=5)
        found = SOLVERS[name](problem, np.random.default_rng(0), limits)
        assert found.verdict is (Verdict.INFEASIBLE if u is None else Verdict.SOLVED)
        assert u is None or (found.value, found.stopped) == (u, "optimal")


def test_a_utility_that_is_no_sum_keeps_a_limit_on_an_aggregate():
    """Solvers of such utilities do not know the limit; auto still gives a plan within."""
    asked = document("count", level=0.9, tau=2, problem="discbudget")
    asked |= {"utility": {"kind": "concave", "curve": "root"}}
    problem = read_instance(asked).problem
    assert not SOLVERS["submodular"].supports(problem)
    limits = Limits(work=5)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert judge(problem, found.plan).f_goal < 2


@pytest.mark.parametrize(
    ("asked", "why", "entries"),
    [
        (document("count", level=0.5, tau=1), "in all", (0,)),  # entry 1 alone: 1/2
        (document("count", level=0.3, tau=1), "in all", (0, 1)),
        (document("average", tau=0.4), "to every adversary", (0,)),  # 0 alone: 1/2
        (document("average", adversaries="sum", tau=0.4), "in all", (0,)),
    ],
)
def test_where_nothing_is_within_a_limit_reason_and_remedy_are_told(
    asked, why, entries
):
    """What must be withheld, at a price of 3 for entry 0 and 4 for 1, by hand."""
    asked |= {"problem": "discbudget", "withhold": [3, 4]}
    problem = read_instance(asked).problem
    limits = Limits(work=5)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert f"disclosure {why} below tau" in sentences(problem, found.core)[0]
    least = cheapest(problem, np.random.default_rng(0), limits)
    assert (least.entries, least.proven) == (entries, True)
    assert judge(without(problem, entries), least.plan).feasible


def test_adversaries_are_left_out_only_where_hands_are_not_added_up():
    """A thousand adversaries and two entries: one more who sees something adds to a sum."""
    for adversaries, few in (("max", True), ("sum", False)):
        asked = document("worst", property_weights=[1, 2, 3], adversaries=adversaries)
        asked |= {"n_adversaries": 1000, "weights": [[1] * 1000] * 2}
        assert (needed(read_instance(asked).problem) is not None) is few


def test_a_problem_has_one_aggregate_that_weighs_all_its_properties():
    """Whoever builds a problem by hand is told."""
    problem = read_instance(json.loads(SAMPLE.read_text())).problem
    count = Aggregate(Shape.COUNT, level=Fraction(1, 2))
    worst = Aggregate(Shape.WORST, weights=(Fraction(1),))
    cap = Average((), Fraction(1), aggregate=count)
    friends = json.loads((SAMPLE.parent / "cosine_tradeoff.json").read_text())
    friends["disclosure"] |= {"aggregation": "count", "level": 0.5}
    linked = read_instance(friends | {"problem": "discbudget", "tau": 2}).problem
    for bad in (
        lambda: replace(problem, goal=Goal(aggregate=worst)),
        lambda: replace(problem, goal=Goal(aggregate=worst), averages=(cap,)),
        lambda: replace(problem, averages=(cap,)),
        lambda: replace(linked, goal=Goal()),
        lambda: replace(linked, averages=(cap,), goal=Goal()),
        lambda: replace(linked, averages=(cap,), goal=Goal(aggregate=count)),
        lambda: Goal(average=True, aggregate=count),
    ):
        with pytest.raises(InvalidProblem):
            bad()
    assert replace(problem, goal=Goal(), averages=(cap,)).aggregate is count
    assert not countable(linked)
