"""HiGHS is given the time that is left, not the time that there was."""

import numpy as np
import pytest

from policies.solvers import highs
from policies.solvers.model import build
from policies.solvers.role import Limits
from tests.unit.policies.tiny import Tiny, step


@pytest.mark.parametrize(("seconds", "left"), [(10.0, 7.5), (2.0, 0.01)])
def test_loading_the_library_takes_of_the_time_too(seconds, left, monkeypatch):
    """2.5 s for the first import: the search gets the rest, and ends in any case."""
    now, told = [0.0], []
    engine, configure = highs.engine, highs._configure

    def slowly():
        now[0] += 2.5
        return engine()

    def noted(core, limits, seed, gap):
        told.append(limits.seconds)
        configure(core, limits, seed, gap)

    monkeypatch.setattr(highs, "engine", slowly)
    monkeypatch.setattr(highs, "_configure", noted)
    problem = Tiny(2, 2, [step(0, 1)], weights=[[3, 1], [2, 2]]).problem()
    limits = Limits(seconds=seconds, clock=lambda: now[0])
    found = highs.run(build(problem), limits)
    assert told == [left]
    assert found.status == highs.OPTIMAL
    assert np.isclose(found.bound, found.values @ build(problem).cost)
