"""One value out of several answers: laws, and small cases worked by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers.consensus import (
    Consensus,
    Given,
    Next,
    decide,
    one_coin,
    possible_values,
    weigh,
)
from policies.answers.validation import Mark, Valid, check
from policies.policy import Field

NAME = Field("name", ask="transcribe", answers=2)
SIGNED = Field("signed", ask="yes_no", answers=2)


def answers(field: Field, *raws: str) -> list[Given]:
    made = []
    for number, raw in enumerate(raws):
        found = check(field, raw)
        assert isinstance(found, Valid)
        made.append(Given(f"w{number}", found))
    return made


def decided(field: Field, *raws: str, left: int = 1) -> Consensus:
    given = answers(field, *raws)
    return decide(field, given, weigh([(field, given)]).confidence[0], left)


def table(edges, values):
    rows = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return one_coin(rows[:, 0], rows[:, 1], rows[:, 2], np.array(values))


def test_one_coin_of_two_against_one_by_hand():
    # K = 2, all p start equal at p = (won + 16) / (given + 20); by symmetry the two
    # that agree share one p, the third has q, and the fixed point obeys Bayes' rule.
    found = table([(0, 0, 1), (0, 1, 1), (0, 2, 0)], [2])
    p, _, q = found.right
    right, wrong = p * p * (1 - q), (1 - p) * (1 - p) * q
    assert found.posterior[0] == pytest.approx(right / (right + wrong), abs=1e-5)
    assert found.posterior[0] + found.posterior[2] == pytest.approx(1)


def test_one_coin_believes_the_workers_who_agree_elsewhere():
    # Workers 0 and 1 are right on ten tasks where 2 is wrong; on task 10 they differ.
    edges = [(t, w, int(w == 2)) for t, w in product(range(10), range(3))]
    edges += [(10, 0, 0), (10, 2, 1)]
    found = table(edges, [2] * 11)
    assert found.right[0] > 0.85 > 0.6 > found.right[2]
    assert found.posterior[-2] > 0.7


def test_values_that_nobody_gave_keep_their_share():
    # One worker, K = 1000: posterior = p, the rest is spread over 999 values.
    found = table([(0, 0, 0)], [1000])
    assert found.posterior[0] == pytest.approx(found.right[0], abs=1e-5)


def test_two_strangers_who_write_the_same_free_text_are_right():
    assert table([(0, 0, 5), (0, 1, 5)], [1000]).posterior[0] > 0.999


@given(st.integers(0, 2**32 - 1))
def test_one_coin_is_deterministic_and_blind_to_the_order_of_rows(seed):
    rng = np.random.default_rng(seed)
    edges = [(t, w, int(rng.integers(3))) for t in range(8) for w in range(4)]
    first = table(edges, [3] * 8)
    order = rng.permutation(len(edges))
    second = table([edges[i] for i in order], [3] * 8)
    assert np.allclose(first.posterior[order], second.posterior, atol=1e-9)
    assert np.allclose(first.right, second.right, atol=1e-9)
    assert ((first.posterior >= 0) & (first.posterior <= 1)).all()


def test_one_coin_recovers_workers_that_were_drawn():
    rng = np.random.default_rng(3)
    truth = rng.integers(4, size=400)
    skills = np.array([0.95, 0.9, 0.7, 0.5, 0.3])
    edges = []
    for task, worker in product(range(400), range(5)):
        right = rng.random() < skills[worker]
        label = truth[task] if right else (truth[task] + rng.integers(1, 4)) % 4
        edges.append((task, worker, int(label)))
    found = table(edges, [4] * 400)
    assert np.abs(found.right - skills).max() < 0.07
    best = {}
    for (task, _, label), share in zip(edges, found.posterior, strict=True):
        best[task] = max(best.get(task, (0.0, 0)), (share, label))
    assert np.mean([best[t][1] == truth[t] for t in range(400)]) > 0.95


def test_nothing_in_gives_nothing_out():
    assert table([], []).posterior.size == 0
    assert weigh([]).confidence == []
    assert weigh([(NAME, [])]).confidence == [[]]


def test_arrays_that_do_not_fit_are_refused():
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="same"):
        one_coin(one, one, np.zeros(2, dtype=np.int64), one + 2)
    with pytest.raises(ValueError, match="expected >= 2"):
        one_coin(one, one, one, one)


def test_marks_count_among_the_possible_values():
    assert possible_values(SIGNED) == 4
    assert possible_values(Field("c", ask="choose", choices=("a", "b", "c"))) == 5


def test_two_equal_answers_are_accepted():
    found = decided(NAME, "Anna Lee", "Anna  Lee")
    assert (found.next, found.text) == (Next.ACCEPT, "Anna Lee")
    assert found.confidence > 0.99


def test_one_answer_is_enough_where_one_is_wanted():
    found = decided(Field("n", ask="transcribe"), "Anna")
    assert (found.next, found.text) == (Next.ACCEPT, "Anna")
    assert 0.5 < found.confidence < 1


def test_a_missing_answer_is_waited_for_while_showings_are_left():
    assert decided(NAME, "Anna").next is Next.WAIT
    assert decided(NAME, "Anna", left=0).next is Next.CONFLICT
    assert decided(NAME, left=0).next is Next.WAIT


def test_disagreement_is_shown_once_more_and_then_is_a_conflict():
    assert decided(NAME, "Anna", "Bert", left=2).next is Next.ONE_MORE
    assert decided(NAME, "Anna", "Bert", left=0).next is Next.CONFLICT


def test_two_of_three_are_accepted():
    found = decided(NAME, "Anna", "Bert", "Anna ", left=0)
    assert (found.next, found.text) == (Next.ACCEPT, "Anna")


def test_of_three_different_texts_the_one_in_the_middle_is_the_guess():
    found = decided(NAME, "Main Stret 5", "Main Street 5", "Main Streets 51", left=0)
    assert (found.next, found.text) == (Next.CONFLICT, "Main Street 5")
    assert found.confidence < 0.6


def test_a_mark_that_most_gave_is_the_answer():
    found = decided(NAME, "[illegible]", "[illegible]")
    assert (found.next, found.text, found.mark) == (Next.ACCEPT, "", Mark.ILLEGIBLE)


def test_a_mark_against_a_text_is_disagreement():
    assert decided(NAME, "Anna", "[illegible]").next is Next.ONE_MORE


def test_a_majority_of_workers_who_are_mostly_wrong_is_shown_once_more():
    # w0 and w1 contradict three good workers on twenty tasks, and outvote w2 here.
    tasks = []
    yes, no = Valid("yes", "yes"), Valid("no", "no")
    for number in range(20):
        liar = Given(f"w{number % 2}", no)
        tasks.append((SIGNED, [*(Given(f"w{i}", yes) for i in (2, 3, 4)), liar]))
    here = [Given("w0", no), Given("w1", no), Given("w2", yes)]
    tasks.append((SIGNED, here))
    found = decide(SIGNED, here, weigh(tasks).confidence[-1], 1)
    assert found.next is Next.ONE_MORE


def test_what_is_known_of_a_worker_decides_between_two():
    good, bad = Given("good", Valid("yes", "yes")), Given("bad", Valid("no", "no"))
    found = weigh([(SIGNED, [good, bad])], {"good": 0.95, "bad": 0.3})
    assert found.confidence[0][0] > 0.9
    assert found.right["good"] > 0.9 > 0.4 > found.right["bad"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(0, 2))
def test_more_than_half_always_carries_the_accepted_value(raws, left):
    found = decided(NAME, *raws, left=left)
    if found.next is Next.ACCEPT:
        assert 2 * raws.count(found.text) > len(raws) >= NAME.answers
    if found.next is Next.ONE_MORE:
        assert left > 0
