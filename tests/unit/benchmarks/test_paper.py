"""The paper's experiments: cells are kept, figures are drawn, check-ins are read."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from benchmarks import paper, paper_data, paper_report
from benchmarks.cells import fill, rows_of
from benchmarks.charts import Series, chart
from policies.judging.judge import judge
from policies.model.measures import Measure
from policies.model.problem import Plan


def small():
    return paper_data.synthetic(0, 12, 3, 2, 1, Measure.LINEAR, average=True)


def cells(*names):
    return iter(
        paper._cell(0, "synthetic", 12, 2, 1, "tradeoff", name, small) for name in names
    )


def test_a_run_that_was_cut_goes_on_where_it_stopped(tmp_path, capsys):
    """The second run makes one cell alone and keeps the first as it was."""
    path, run = tmp_path / "results" / "paper-x.csv", partial(paper.run, 60.0)
    fill(path, paper.FIELDS, cells("greedyl"), run, paper.SHOWN)
    first = path.read_text()
    with path.open("a") as file:
        file.write("0,synthetic,12,2")  # a line that was cut
    fill(path, paper.FIELDS, cells("greedyl", "ours"), run, paper.SHOWN)
    assert path.read_text().startswith(first)
    rows = rows_of(path)
    assert [row["algorithm"] for row in rows] == ["greedyl", "ours"]
    assert float(rows[0]["objective"]) <= float(rows[1]["objective"])
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 4
    assert told[-1].endswith("1 cells were run, 1 were there")


def test_budgets_and_seals_are_limits_of_the_same_entries():
    """Everything to one adversary breaks them, and not the tradeoff."""
    problem = small()
    every = Plan.of((d, 0) for d in range(12))
    assert judge(problem, every).feasible
    assert not judge(paper_data.budget(problem, Fraction(9, 10)), every).feasible
    step = paper_data.synthetic(0, 12, 3, 2, 1, Measure.STEP)
    assert not judge(paper_data.sealed(step), every).feasible
    assert judge(step, every).disclosed == 3


def test_the_page_and_its_figures_are_those_of_the_cells_in_the_tree(tmp_path):
    names = ("step", "budget", "linear", "cosine")
    found = {n: rows_of(paper.RESULTS / f"paper-{n}.csv") for n in names}
    paper_report.write(found, tmp_path)
    made = [p.relative_to(tmp_path) for p in tmp_path.rglob("*.*")]
    assert len(made) > 10
    for name in made:
        assert (tmp_path / name).read_text() == (paper_report.DOCS / name).read_text()


def test_drawn_checkins_have_the_sizes_asked_for():
    """Every visit once; friends are two people."""
    data = paper_data.drawn_checkins(0, users=40, entries=150, friendships=30)
    assert len(data.user) == 150
    assert len({*zip(data.user.tolist(), data.place.tolist(), strict=True)}) == 150
    assert data.friends.shape == (30, 2)
    assert (data.friends[:, 0] != data.friends[:, 1]).all()


def test_checkins_of_files_and_their_cosine(tmp_path):
    """Two friends who were at one place: seen together f is 1, apart 0."""
    (tmp_path / "t_entries.csv").write_text("user,location,count\n7,3,2\n9,3,1\n")
    (tmp_path / "t_edges.csv").write_text("user_a,user_b\n9,7\n7,9\n8,7\n")
    (data,) = paper_data.read_checkins(tmp_path)
    assert data.friends.tolist() == [[0, 1]]
    problem = paper_data.cosine(data, 0, 2, 1, zero=False)
    assert judge(problem, Plan.of([(0, 0), (1, 0)])).f == 1
    assert judge(problem, Plan.of([(0, 0), (1, 1)])).f == 0
    hard = paper_data.cosine(data, 0, 2, 1, zero=True)
    assert not judge(hard, Plan.of([(0, 0), (1, 0)])).feasible


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.93, 0.99), (3.0, 50.0), (-1.0, 0.2)])
def test_a_chart_holds_every_point_inside_its_frame(values):
    """Names are escaped; circles lie between the axes."""
    from xml.etree import ElementTree

    points = tuple(zip((2.0, 10.0), values, strict=True))
    text = chart("a < b", "k", "u", [Series("x & y", points)], zero=values[0] >= 0)
    root = ElementTree.fromstring(text)
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 2
    for one in circles:
        assert 0 < float(one.get("cx")) < 640
        assert 39.9 < float(one.get("cy")) < 348.1
    assert "x &amp; y" in text
    assert np.isfinite([float(c.get("cy")) for c in circles]).all()
