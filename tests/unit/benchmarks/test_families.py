"""Families of problems: cells are kept, peers are compared with, medians are told."""

import os

import numpy as np
import pytest

from benchmarks import cells, families, families_table
from benchmarks.families import Cell
from policies.solvers import Verdict
from tests.unit.policies.tiny import Tiny, step


def small():
    return Tiny(4, 2, [step(0, 1), step(2, 3)], hi=[2] * 4).problem()


def cell(solver, seconds=120.0):
    sizes = {"n": 4, "m": 2, "k": 2, "t": 2, "seed": 0}
    key = {"family": "step", **sizes, "solver": solver}
    return Cell(key, small, families.PEERS.get(solver, "auto"), seconds)


def test_a_run_that_was_cut_goes_on_where_it_stopped(tmp_path, capsys):
    """Ours, a peer, and then the time at which ours has the peer's gap."""
    path = tmp_path / "cells.csv"
    wanted = (
        families.FIELDS,
        iter([cell("ours"), cell("reach")]),
        families.run,
        ("value",),
    )
    cells.fill(path, *wanted)
    first = path.read_text()
    assert [r["solver"] for r in cells.rows_of(path)] == ["ours"]  # no peer yet
    with path.open("a") as file:
        file.write(
            "step,4,2,2,2,0,cp-sat,SOLVED,4,4,0,0,.1,gap,1"
        )  # one sign is lacking
    wanted = [cell("ours"), cell("highs"), cell("reach")]
    cells.fill(path, families.FIELDS, iter(wanted), families.run, ("value",))
    rows = cells.rows_of(path)
    assert path.read_text().startswith(first)
    assert [r["solver"] for r in rows] == ["ours", "highs", "reach"]
    assert {r["value"] for r in rows} == {"4.0000000000"}
    assert float(rows[2]["seconds"]) < float("inf")  # it has reached that gap
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 5
    assert told[-1].endswith("cells.csv: 2 cells were run, 1 were there")


def test_a_process_whose_work_fails_gives_nothing_and_never_cleans_up(tmp_path, capfd):
    """Its parent's processes are not its own: it must not end them."""
    parent, cleaned = os.getpid(), tmp_path / "cleaned"
    try:
        found = cells.forked(lambda: {"value": 1 / 0})
    finally:
        if os.getpid() != parent:
            cleaned.touch()
            os._exit(1)
    assert found == {}
    assert not cleaned.exists()
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize("shape", families.SPARSE[:3])
def test_sparse_sets_are_small_distinct_and_must_not_be_whole(shape):
    problem = families.sparse(shape, 0)
    n, m, k, t, least, most = shape
    size = np.diff(problem.sets.start)
    assert (problem.n_entries, problem.n_adversaries, len(size)) == (n, k, m)
    assert (size >= least).all()
    assert (size <= most).all()
    assert len({tuple(problem.sets.members(i)) for i in range(m)}) == m
    assert (problem.sets.cap == size - 1).all()
    assert (problem.hi == t).all()


def test_every_family_has_seeds_peers_and_a_note():
    """Peers only where they say something."""
    for family in families.DUE:
        made = list(families.cells(family, 1, 1)) if family != "cosine" else []
        assert family in families_table.NOTES
        names = [one.name for one in made]
        assert len(set(names)) == len(names)
        for one in made:
            assert one.solver in ("auto", "milp", "cp-sat")


def test_medians_gaps_and_verdicts_stand_in_a_table(tmp_path):
    """Three seeds: one without a plan; medians of the gaps of the two others."""
    base = dict.fromkeys(families.FIELDS, "0") | {"family": "sparse", "solver": "ours"}
    rows = [
        base | {"gap": "0.5", "seconds": "1", "verdict": str(Verdict.SOLVED)},
        base | {"gap": "1.5", "seconds": "3", "verdict": str(Verdict.SOLVED)},
        base | {"gap": "", "seconds": "2", "verdict": str(Verdict.INFEASIBLE)},
    ]
    families_table.write(rows, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| 1 %, 1 x no plan exists; 2 s (3 seeds) |" in text
    leaking = [rows[0] | {"complete": "2"}]
    assert "1 x LEAK" in families_table.table(leaking)


def test_how_much_sooner_is_a_median_over_seeds_against_the_better_peer():
    """2, 30 and never: twice as soon; of two peers the one with the lesser gap counts."""
    peers = [("highs", "1.0", "60"), ("cp-sat", "2.0", "5")]
    rows = [
        {"seed": seed, "solver": solver, "gap": gap, "seconds": seconds}
        for seed, reach in (("0", "30"), ("1", "2"), ("2", "inf"))
        for solver, gap, seconds in (*peers, ("reach", "1.0", reach))
    ]
    assert families_table.sooner(rows) == "; 2 x"
    reach = [r for r in rows if r["solver"] == "reach"]
    assert families_table.sooner(reach) == ""
    told = families_table.cell(reach)
    assert told == "30 s (3 seeds, 1 of them never)"  # no median hides it
    assert families_table.cell(reach[:2]) == "16 s (2 seeds)"
    assert families_table.cell(reach[2:]) == "not reached (1 seed)"


def test_the_page_is_that_of_the_cells_in_the_tree(tmp_path):
    page = tmp_path / "page.md"
    families_table.write(cells.rows_of(families.PATH), page)
    assert page.read_text() == families_table.PATH.read_text()
