"""Several solvers at once or in turn, and one answer of all."""

import time
from fractions import Fraction

import pytest

from policies.model.problem import Plan
from policies.solvers.interfaces import Limits, Solution, Verdict
from policies.solvers.parallel_portfolio import merged, race, sure
from tests.patience import until


def solved(value, bound, stopped=""):
    return Solution(
        Verdict.SOLVED,
        Plan(),
        value=Fraction(value),
        bound=Fraction(bound),
        stopped=stopped,
    )


def test_a_sure_answer_ends_the_others():
    """The second waits for whoever is done; the first is."""

    def quick(limits, done):
        return solved(3, 3, "optimal")

    def patient(limits, done):
        until(done, "it is told to end")
        return solved(1, 9)

    limits = Limits(seconds=600, clock=time.perf_counter, threads=2)
    found = race([quick, patient], limits)
    assert [f.value for f in found] == [3, 1]


def test_without_a_clock_they_take_turns_and_shares():
    """Work 9 of two: 3 for the first, then all for the last."""
    seen = []

    def task(limits, done):
        seen.append(limits.work)
        return solved(1, 2)

    race([task, task], Limits(work=9, threads=2))
    assert seen == [pytest.approx(3), 9]


def test_a_fault_in_a_thread_is_raised():
    """It is not lost."""

    def broken(limits, done):
        raise RuntimeError("broken")

    limits = Limits(seconds=5, clock=time.perf_counter, threads=2)
    with pytest.raises(RuntimeError, match="broken"):
        race([broken, lambda limits, done: solved(1, 2)], limits)


def test_the_best_plan_goes_with_the_lowest_bound():
    """Values 3 and 2, bounds 5 and 4."""
    one = merged([solved(3, 5), solved(2, 4)], "time")
    assert (one.value, one.bound, one.stopped) == (3, 4, "time")


def test_a_proof_by_bounds_of_two_is_a_proof():
    """One has the plan of value 3, the other the bound 3."""
    assert sure(merged([solved(3, 5), solved(2, 3)], "time"))


def test_infeasible_goes_before_all_and_no_plan_is_unknown():
    """A proof ends it; two without a plan are UNKNOWN."""
    none = Solution(Verdict.UNKNOWN, bound=Fraction(7))
    proof = Solution(Verdict.INFEASIBLE)
    assert merged([none, proof], "time") is proof
    assert merged([none, none], "work").verdict is Verdict.UNKNOWN


def test_a_judged_plan_goes_before_a_claim_that_there_is_none():
    """The plan was judged, so the claim is wrong; and it is no proof of anything else."""
    one = merged([solved(3, 5), Solution(Verdict.INFEASIBLE)], "time")
    assert (one.verdict, one.value, one.bound) == (Verdict.SOLVED, 3, 5)
    assert one.stopped == "time"
