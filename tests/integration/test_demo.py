"""The demo's end: by itself, and soon, where no more answers come."""

from types import SimpleNamespace

import pytest

from dispatcher.surfaces.demo.show import Scenario, Stage, watch

RUNNING = SimpleNamespace(poll=lambda: None)


class Steady:
    """A clock that only waiting moves."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(("sizes", "seconds"), [({}, 30), ({"patience": 7.0}, 7)])
def test_a_demo_to_which_no_answer_comes_ends_and_says_so(
    sqlite_path, monkeypatch, sizes, seconds
):
    told, clock = [], Steady()
    monkeypatch.setattr("dispatcher.surfaces.demo.show.time", clock)
    stage = Stage(sqlite_path.parent, told.append)
    assert not watch(stage, RUNNING, Scenario(stage.directory, **sizes), 0.0)
    assert "no answer has come for a while: the rest can not be done" in told
    assert seconds < clock.now <= seconds + 1
