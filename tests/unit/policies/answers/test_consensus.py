"""One value out of several answers: laws, and small cases worked by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers.consensus import (
    CLASS_PRIOR,
    CORRELATION,
    Consensus,
    Given,
    Next,
    decide,
    estimate,
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
    return estimate(rows[:, 0], rows[:, 1], rows[:, 2], np.array(values))


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


def closed_table(edges, values, tasks, **options):
    rows = np.array(edges, dtype=np.int64)
    kinds = np.zeros(tasks, dtype=np.int64)
    return estimate(*rows.T, np.full(tasks, values), closed=kinds, **options)


def best_labels(edges, posterior):
    best = {}
    for (task, _, label), share in zip(edges, posterior, strict=True):
        best[task] = max(best.get(task, (0.0, 0)), (share, label))
    return {task: label for task, (_, label) in best.items()}


def test_first_round_in_a_closed_field_is_bayes_rule_over_all_truths():
    edges = [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 2), (2, 0, 1)]
    found = closed_table(edges, 3, 3, max_rounds=1)
    shares = {0: [0.5, 0.5, 0.0], 1: [0.0, 0.0, 1.0], 2: [0.0, 1.0, 0.0]}
    frequent = np.array(list(shares.values())).sum(axis=0) + CLASS_PRIOR
    frequent /= frequent.sum()
    joint = np.zeros((3, 3))  # task, true value
    for truths in product(range(3), repeat=3):
        chance = np.prod([frequent[truth] for truth in truths])
        for task, worker, label in edges:
            chance *= found.confusions[0][worker, truths[task], label]
        for task, truth in enumerate(truths):
            joint[task, truth] += chance
    joint /= joint.sum(axis=1, keepdims=True)
    counts = np.array([2, 2, 1])
    joint **= (1 / (1 + (counts - 1) * CORRELATION))[:, None]
    joint /= joint.sum(axis=1, keepdims=True)
    expected = [joint[task, label] for task, _, label in edges]
    assert found.posterior == pytest.approx(expected)


def test_workers_who_confuse_two_values_are_seen():
    # Workers 4 to 6 give 0 for half of the 1s; the others are right nine times in ten.
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=300)
    edges = []
    for task, worker in product(range(300), range(7)):
        label = truth[task]
        if worker >= 4 and label == 1:
            label = rng.integers(2)
        elif worker < 4 and rng.random() < 0.1:
            label = (label + rng.integers(1, 3)) % 3
        edges.append((task, worker, int(label)))
    confusions = closed_table(edges, 3, 300).confusions[0]
    for worker in (4, 5, 6):
        assert confusions[worker, 1, 0] == pytest.approx(0.5, abs=0.12)
        assert confusions[worker, 0, 0] > 0.9 < confusions[worker, 2, 2]
    assert (confusions[:4, [0, 1, 2], [0, 1, 2]] > 0.8).all()


def test_a_worker_who_is_always_wrong_is_turned_round_after_enough_answers_only():
    def adversary(tasks):
        edges = [(t, w, t % 2) for t, w in product(range(tasks), range(4))]
        edges += [(t, 4, 1 - t % 2) for t in range(tasks)]
        edges.append((tasks, 4, 0))  # alone
        return closed_table(edges, 2, tasks + 1).posterior[-1]

    assert adversary(4) > 0.5
    assert adversary(100) < 0.2


@pytest.mark.parametrize("tasks", [3, 12, 20, 40, 100, 400])
def test_two_against_one_on_every_task_are_trusted_though_one_value_is_always_true(
    tasks,
):
    edges = [(t, w, int(w == 2)) for t, w in product(range(tasks), range(3))]
    found = closed_table(edges, 4, tasks)
    assert found.right[0] > 0.8 > found.right[2]
    assert found.posterior[0] > 0.65 > 0.35 > found.posterior[2]


@pytest.mark.parametrize("seed", range(6))
def test_a_value_that_is_always_true_is_found_as_often_as_by_the_majority(seed):
    # Eight workers of 0.6 to 0.95, three a task; the other two of K = 4 nobody gives.
    rng = np.random.default_rng(seed)
    skills = rng.uniform(0.6, 0.95, 8)
    asked = [(t, int(w)) for t in range(200) for w in rng.permutation(8)[:3]]
    edges = [(t, w, int(rng.random() > skills[w])) for t, w in asked]
    best = best_labels(edges, closed_table(edges, 4, 200).posterior)
    wrong = np.bincount([t for t, _, label in edges if label], minlength=200) >= 2
    assert sum(best.values()) <= wrong.sum() + 4


@pytest.mark.parametrize("seed", range(5))
def test_few_answers_fall_back_to_the_majority(seed):
    rng = np.random.default_rng(seed)
    edges = [(t, w, int(rng.random() < 0.3)) for t in range(8) for w in range(3)]
    best = best_labels(edges, closed_table(edges, 2, 8).posterior)
    for task in range(8):
        votes = [label for t, _, label in edges if t == task]
        assert best[task] == int(sum(votes) >= 2)


def test_of_two_closed_answers_agreement_counts_and_a_tie_stays_one():
    found = closed_table([(0, 0, 1), (0, 1, 1), (1, 2, 0), (1, 3, 1)], 2, 2).posterior
    assert found[0] == found[1] > 0.8
    assert found[2:] == pytest.approx([0.5, 0.5], abs=0.02)


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 0, 0)],
        [(t, 0, 1) for t in range(50)],
        [(t, w, 0) for t in range(20) for w in range(3)],
        [(0, w, w % 2) for w in range(4000)],
        [(0, w, 0) for w in range(4000)],
    ],
    ids=["one answer", "one worker", "one value", "a long tie", "a long agreement"],
)
def test_extreme_closed_answers_have_finite_estimates(edges):
    tasks = 1 + max(task for task, _, _ in edges)
    found = closed_table(edges, 4, tasks)
    assert ((found.posterior >= 0) & (found.posterior <= 1)).all()
    confusions = found.confusions[0]
    assert (confusions > 0).all()
    assert np.allclose(confusions.sum(axis=2), 1)


def test_closed_estimates_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(11)
    edges = [(t, w, int(rng.integers(3))) for t in range(40) for w in range(5)]
    first = closed_table(edges, 3, 40)
    order = rng.permutation(len(edges))
    second = closed_table([edges[i] for i in order], 3, 40)
    assert np.allclose(first.posterior[order], second.posterior, atol=1e-6)


def test_labels_outside_a_closed_field_are_refused():
    with pytest.raises(ValueError, match="outside 0 to K - 1"):
        closed_table([(0, 0, 2)], 2, 1)


def test_an_open_field_with_few_values_in_fact_is_closed():
    # Open, two who write the same are right (K = 1000); closed, they may share an error.
    few = weigh([(NAME, answers(NAME, "A", "A"))] * 20)
    many = weigh([(NAME, answers(NAME, f"A{n}", f"A{n}")) for n in range(20)])
    assert few.confidence[0][0] < 0.99 < many.confidence[0][0]


def test_a_long_list_of_choices_is_weighed_by_one_coin_a_worker():
    field = Field("c", ask="choose", choices=tuple(f"c{n}" for n in range(40)))
    assert weigh([(field, answers(field, "c7", "c7", "c8"))]).confidence[0][0] > 0.9


def test_a_declared_value_is_accepted_against_the_majority_only_when_it_is_sure():
    given = answers(SIGNED, "no", "no", "yes")
    sure = decide(SIGNED, given, [0.1, 0.1, 0.85], 1)
    assert (sure.next, sure.text, sure.confidence) == (Next.ACCEPT, "yes", 0.85)
    unsure = decide(SIGNED, given, [0.3, 0.3, 0.65], 0)
    assert (unsure.next, unsure.text) == (Next.CONFLICT, "yes")


def test_nothing_in_gives_nothing_out():
    assert table([], []).posterior.size == 0
    assert weigh([]).confidence == []
    assert weigh([(NAME, [])]).confidence == [[]]


def test_arrays_that_do_not_fit_are_refused():
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="same"):
        estimate(one, one, np.zeros(2, dtype=np.int64), one + 2)
    with pytest.raises(ValueError, match="expected >= 2"):
        estimate(one, one, one, one)


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


def test_a_majority_of_workers_who_are_mostly_wrong_does_not_carry_its_value():
    # w0 and w1 contradict three good workers on twenty tasks, and outvote w2 here.
    tasks = []
    yes, no = Valid("yes", "yes"), Valid("no", "no")
    for number in range(20):
        liar = Given(f"w{number % 2}", no)
        tasks.append((SIGNED, [*(Given(f"w{i}", yes) for i in (2, 3, 4)), liar]))
    here = [Given("w0", no), Given("w1", no), Given("w2", yes)]
    tasks.append((SIGNED, here))
    found = decide(SIGNED, here, weigh(tasks).confidence[-1], 1)
    assert (found.next, found.text) == (Next.ACCEPT, "yes")


def test_what_is_known_of_a_worker_decides_between_two():
    good, bad = Given("good", Valid("yes", "yes")), Given("bad", Valid("no", "no"))
    found = weigh([(SIGNED, [good, bad])], {"good": 0.95, "bad": 0.3})
    assert found.confidence[0][0] > 0.8
    assert found.right["good"] > 0.9 > 0.4 > found.right["bad"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(0, 2))
def test_more_than_half_always_carries_the_accepted_value(raws, left):
    found = decided(NAME, *raws, left=left)
    if found.next is Next.ACCEPT:
        assert 2 * raws.count(found.text) > len(raws) >= NAME.answers
    if found.next is Next.ONE_MORE:
        assert left > 0
