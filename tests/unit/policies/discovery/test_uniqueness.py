"""How many people columns single out, and what tells what: against counting by hand."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.discovery import exhaustive
from policies.discovery.coded_table import TableSampler
from policies.discovery.dependencies import dependencies
from policies.discovery.uniqueness import Uniqueness


def coded(names, rows, **bounds):
    sampler = TableSampler(**bounds)
    sampler.add(names, rows)
    return sampler.finish(names)


def singled_out(rows, people, places):
    """People of whom some values are theirs alone, counted with dictionaries."""
    owners = defaultdict(set)
    for row, person in zip(rows, people, strict=True):
        values = tuple(row[place] for place in places)
        if all(values):
            owners[values].add(person)
    return len({next(iter(who)) for who in owners.values() if len(who) == 1})


CELLS = st.sampled_from(["", "a", "b", "c", "d"])


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS, st.sampled_from("pqrs")), min_size=1))
def test_every_combination_singles_out_whom_a_count_by_hand_does(rows):
    names = ["x", "y", "z", "who"]
    table = coded(names, rows)
    for person in (None, "who"):
        people = [row[3] for row in rows] if person else list(range(len(rows)))
        uniqueness = Uniqueness(table, person)
        for size in (1, 2, 3):
            for places in combinations(range(3), size):
                found = uniqueness.measure([names[place] for place in places])
                assert found.singled_out == singled_out(rows, people, places)
                assert found.share == found.singled_out / len(set(people))
                keys = [tuple(row[place] for place in places) for row in rows]
                whole = all(all(key) for key in keys)
                assert found.is_key == (whole and len(set(keys)) == len(rows))


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1), st.floats(0.01, 1))
def test_the_search_finds_the_smallest_combinations_and_no_other(rows, least):
    names = ["w", "x", "y", "z"]
    uniqueness = Uniqueness(coded(names, rows))
    found = {c.columns for c in uniqueness.search(names, least)}

    def enough(columns):
        measured = uniqueness.measure(columns)
        return measured.is_key if least == 1 else measured.share >= least

    several = [n for i, n in enumerate(names) if len({r[i] for r in rows} - {""}) > 1]
    wanted = set()
    for size in (1, 2, 3):
        for columns in combinations(several, size):
            inner = any(set(one) < set(columns) for one in wanted)
            if enough(columns) and not inner:
                wanted.add(columns)
    assert found == wanted


def test_a_persons_own_records_do_not_hide_the_person():
    rows = [("1961", "p1"), ("1961", "p1"), ("1970", "p2"), ("1970", "p3")]
    table = coded(["born", "person"], rows)
    assert Uniqueness(table).measure(["born"]).singled_out == 0
    assert Uniqueness(table, "person").measure(["born"]).share == pytest.approx(1 / 3)


def test_a_long_table_is_sampled_evenly_and_its_share_is_estimated_from_above():
    rows = [(str(i % 30_000), str(i)) for i in range(40_000)]
    table = coded(["pairs", "own"], rows, most_rows=8_000)
    assert table.is_sample
    assert 4_000 <= table.rows <= 8_000
    assert table.total == 40_000
    kept = np.array([int(table["own"].values[c]) for c in table["own"].codes])
    assert abs(kept.mean() - 20_000) < 1_000  # from the whole file, not its beginning
    found = Uniqueness(table).measure(["pairs"])
    assert found.share > 0.8  # most pairs are cut: alone in the sample
    assert 0.5 <= found.beyond < 0.75  # half of all rows are alone in the whole file
    whole = coded(["pairs", "own"], rows)
    assert Uniqueness(whole).measure(["pairs"]).beyond == 0.5


def test_columns_that_come_late_are_empty_before():
    sampler = TableSampler()
    sampler.add(["a"], [["1"], ["2"]])
    sampler.add(["a", "b"], [["3", "x"]])
    table = sampler.finish(["a", "b", "c"])
    assert table["b"].codes.tolist() == [-1, -1, 0]
    assert table["c"].values == ()


@settings(deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=40, max_size=80))
def test_what_tells_what_is_the_chance_that_two_equal_rows_agree(rows):
    found = dependencies(coded(["x", "y"], rows), ["y"], ["x"])
    filled = [row for row in rows if all(row)]
    sizes = Counter(x for x, _ in filled)
    chance = [
        sum(other == y for other_x, other in filled if other_x == x) - 1
        for x, y in filled
    ]
    shared = [
        wins / (sizes[x] - 1)
        for wins, (x, _) in zip(chance, filled, strict=True)
        if sizes[x] > 1
    ]
    for dependency in found:
        assert dependency.share == pytest.approx(sum(shared) / len(shared))
        assert dependency.share >= 0.8


def test_name_and_drug_together_tell_the_disease():
    rows = [
        (name, drug, disease)
        for name, drug, disease in [
            ("ann", "a", "gout"), ("ann", "b", "flu"), ("ben", "a", "flu"), ("ben", "b", "gout"),
        ]
        for _ in range(10)
    ]  # fmt: skip
    rows[0] = ("ann", "a", "flu")
    (found,) = dependencies(
        coded(["name", "drug", "disease"], rows), ["disease"], ["name", "drug"]
    )
    assert found.columns == ("name", "drug")
    assert str(found) == "name + drug tell disease in 95 % of cases"


def test_a_key_tells_nothing_that_others_could_learn():
    rows = [(str(i), "abc"[i % 3]) for i in range(60)]
    assert dependencies(coded(["id", "disease"], rows), ["disease"], ["id"]) == []


def test_desbordante_agrees_with_the_count_and_goes_beyond_triples():
    rng = np.random.default_rng(7)
    rows = [tuple(str(v) for v in row) for row in rng.integers(0, 4, (60, 6))]
    rows = sorted(set(rows))
    names = list("abcdef")
    table = coded(names, rows)
    found = exhaustive.minimal_keys(table, names)
    small = {c.columns for c in Uniqueness(table).search(names, 1.0)}
    assert small == {one for one in found if len(one) <= 3}
    assert any(len(one) > 3 for one in found)
    assert all(Uniqueness(table).measure(one).is_key for one in found)
