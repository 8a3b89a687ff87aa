"""The plan in force, looked up by account and by entry."""

import tracemalloc

import numpy as np

from dispatcher.stages.serving.task_assignment import PlanIndex


def pack(*ids: int) -> bytes:
    return np.array(ids, "<i8").tobytes()


INDEX = PlanIndex(1, 0, [(10, pack(1, 2, 3)), (11, pack(2, 5)), (12, b"")])


def test_an_entry_finds_its_accounts():
    assert INDEX.accounts_of(2) == {10, 11}
    assert INDEX.accounts_of(5) == {11}
    assert INDEX.accounts_of(4) == frozenset()


def test_a_sample_has_planned_entries_only_and_none_twice(rng):
    sample = INDEX.sample(rng, 50)
    assert set(sample) == {1, 2, 3, 5}
    assert len(sample) == 4


def test_an_empty_plan_has_nothing_for_anybody(rng):
    empty = PlanIndex(2, 0, [])
    assert empty.sample(rng, 5) == []
    assert empty.accounts_of(1) == frozenset()


def test_a_pair_that_left_the_plan_is_forgotten():
    index = PlanIndex(1, 0, [(10, pack(1, 2)), (11, pack(2))])
    index.drop(10, np.array([2, 7]))
    assert index.accounts_of(2) == {11}
    assert index.accounts_of(1) == {10}


def test_pairs_that_leave_the_plan_take_no_memory():
    """However many are refused: the answers of a year do not make the index larger."""
    accounts, entries = 20, np.arange(2_000)
    packed = pack(*entries.tolist())
    index = PlanIndex(1, 0, [(number, packed) for number in range(accounts)])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for account in range(accounts - 1):
            index.drop(account, entries)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert index.accounts_of(7) == {accounts - 1}
    assert after - before < 20_000
