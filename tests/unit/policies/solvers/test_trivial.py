"""What a search left open: a plan by expectation, or a proof, or open still."""

from policies.solvers.interfaces import Solution, Verdict
from policies.solvers.trivial import settled
from tests.unit.policies.tiny import Tiny, step

OPEN = Solution(Verdict.UNKNOWN, tried=("nothing",), stopped="time")


def test_less_than_one_crossing_expected_gives_a_plan():
    """A triple and three workers: 3 / 27, so it is SOLVED without any search."""
    problem = Tiny(3, 3, [step(0, 1, 2)]).problem()
    found = settled(problem, OPEN)
    assert found.verdict is Verdict.SOLVED
    assert found.judged.disclosed == 0
    assert found.stopped == "time"


def test_the_local_lemma_certifies_without_a_plan():
    """1,000 triples in a row, four workers: 62 crossings expected, and yet a plan."""
    chain = [step(2 * i, 2 * i + 1, 2 * i + 2) for i in range(1000)]
    found = settled(Tiny(2001, 4, chain).problem(), OPEN)
    assert found.verdict is Verdict.CERTIFIED
    assert not len(found.plan)


def test_what_counting_says_nothing_of_stays_open():
    """A triangle and two workers: nothing is said that is not so."""
    sets = [step(0, 1), step(1, 2), step(0, 2)]
    found = settled(Tiny(3, 2, sets).problem(), OPEN)
    assert found.verdict is Verdict.UNKNOWN
    assert found.tried == ("nothing", "expected crossings and the local lemma")
