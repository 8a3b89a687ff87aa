"""Sealed problems of adversaries who pool: annealing and neighbourhoods come first."""

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.solvers import SOLVERS, Limits, Solution, Verdict, portfolio
from policies.solvers.search import budget_starts


def pooling(n=40, k=5, sets=24):
    """Whole sets of four entries, up to two copies each, and any two pool."""
    rng = np.random.default_rng(7)
    members = [sorted(rng.choice(n, 4, replace=False).tolist()) for _ in range(sets)]
    return read_instance(
        {
            "schema": "sparsi-instance/1",
            "name": "pooling",
            "n_entries": n,
            "n_adversaries": k,
            "t": 2,
            "weights": rng.random((n, k)).round(3).tolist(),
            "properties": [{"entries": one} for one in members],
            "disclosure": {"kind": "step", "aggregation": "worst"},
            "problem": "zero_step",
            "lambda": 1.0,
            "tau": 0.0,
            "any_m": 2,
        }
    ).problem


def starts(problem):
    """Plans that the search starts from."""
    rng, limits = np.random.default_rng(0), Limits(work=1.0, prove=True)
    one = portfolio._Portfolio(SOLVERS, problem, rng, limits)
    return list(one._starts(problem, limits))


@pytest.mark.parametrize("first", [True, False])
def test_the_search_starts_without_cp_sat(monkeypatch, first):
    """CP-SAT took a third of the time for a start that annealing betters in no time."""
    if not first:  # the first draw fails: annealing finds a plan by itself
        monkeypatch.setattr(budget_starts, "made", lambda *_: [])
    refused = lambda *_: pytest.fail("CP-SAT first")  # noqa: E731
    monkeypatch.setattr(budget_starts, "exactly", refused)
    *greedy, annealed = starts(pooling())
    assert len(greedy) == first
    assert annealed.verdict is Verdict.SOLVED
    assert annealed.judged.f == 0
    assert annealed.value > 0.87 * annealed.bound
    assert all(one.value < annealed.value for one in greedy)


def test_where_no_start_is_found_cp_sat_is_asked(monkeypatch):
    """What no draw finds may still be there."""
    made = Solution(Verdict.SOLVED, stopped="optimal")
    nothing = Solution(Verdict.UNKNOWN)
    monkeypatch.setattr(budget_starts, "made", lambda *_: [])
    monkeypatch.setattr(budget_starts, "anneal_hands", lambda *_: nothing)
    assert starts(pooling()) == [nothing]
    monkeypatch.setattr(portfolio, "exactly", lambda *_: made)
    rng, limits = np.random.default_rng(0), Limits(work=1.0, prove=True)
    one = portfolio._Portfolio(SOLVERS, pooling(), rng, limits)
    first = next(one._provers(pooling(), None))
    assert first(limits, lambda: False) is made
