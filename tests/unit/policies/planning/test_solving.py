"""The algorithm that was asked for, and what it leaves untold."""

import numpy as np

from policies.model.problem import Problem
from policies.model.weights import Weights
from policies.planning.solving import answer_of
from policies.solvers import Cause, Clash, Core, Limits, Solution, Verdict
from tests.unit.policies.tiny import system


def test_what_a_solver_of_all_or_nothing_refutes_is_held_back_by_its_core():
    """Of 7 entries 6 are owed: 1 and 2 clash, 2 and 4; of 5 and 6 nothing is said."""

    def core(*entries):
        clash = Clash(Cause.SET, entries=entries, answers=2, needed=2)
        return Core(entries, (clash,), 2, exact=True, available=1)

    def refuting(problem, rng, limits):
        return Solution(Verdict.INFEASIBLE, cores=(core(1, 2), core(2, 4)))

    owed = np.array([0, 1, 1, 1, 1, 1, 1])
    problem = Problem(system(7, [], ()), owed, owed, Weights.flat(7, 1))
    found = answer_of(refuting, problem, np.random.default_rng(1), Limits())
    assert found.verdict is Verdict.INFEASIBLE
    assert found.held.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.reason.tolist() == [0, 0, -1, 1, -1, -1]
