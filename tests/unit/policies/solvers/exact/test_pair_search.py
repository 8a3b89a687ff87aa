"""Small components of pairs: the optimum by brute force, to the last unit."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.solvers import Verdict
from policies.solvers.exact.pair_search import searched, small
from tests.unit.policies.tiny import Tiny, pairs_of, step


@given(seed=st.integers(0, 10**6))
@settings(max_examples=80)
def test_the_optimum_is_brute_force_and_none_means_no_plan(seed):
    """5 entries, 3 workers, 4 pairs, singles and barred pairs among them."""
    rng = np.random.default_rng(seed)
    pairs = [step(*rng.permutation(5)[:2].tolist()) for _ in range(4)]
    tiny = Tiny(
        5,
        3,
        [*pairs, step(int(rng.integers(5)))][: int(rng.integers(1, 6))],
        lo=rng.integers(0, 2, 5).tolist(),
        hi=rng.integers(1, 4, 5).tolist(),
        weights=rng.integers(0, 9, (5, 3)).tolist(),
        forbidden=[(0, 1), (3, 2)],
    )
    assert small(tiny.problem())
    found, best = searched(tiny.problem()), tiny.best()
    if best is None:
        assert found is None
        return
    assert found is not None
    assert (found.verdict, found.value, found.bound) == (Verdict.SOLVED, best, best)
    assert tiny.feasible(pairs_of(found.plan))
    assert tiny.objective(pairs_of(found.plan)) == best


def test_what_it_ignores_it_declines():
    """Larger sets, history, capacities and trust are for others."""
    tiny = Tiny(3, 2, [step(0, 1)])
    assert small(tiny.problem())
    assert not small(replace(tiny, sets=[step(0, 1, 2)]).problem())
    assert not small(replace(tiny, history=[(0, 0)]).problem())
    assert not small(replace(tiny, capacity=[9, 9]).problem())
    assert not small(replace(tiny, trusted=[[True, False]]).problem())


def test_it_gives_up_and_does_not_guess():
    """40 entries who all meet and 12 workers: no plan, not to be refuted in few nodes."""
    ring = [step(a, b) for a in range(40) for b in range(a)]
    assert searched(Tiny(40, 12, ring).problem()) is None
