"""The demo's end: by itself, and soon, where no more answers come. Its people."""

import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dispatcher.surfaces.demo.forms import WrittenBox, digest
from dispatcher.surfaces.demo.people import Diary, Habits, PageWorker, Reader
from dispatcher.surfaces.demo.show import Scenario, Stage, watch
from tests.contract.receiver import receiving
from tests.patience import PATIENCE

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
    assert "no answer has come for a while: the rest cannot be done" in told
    assert seconds < clock.now <= seconds + 1


def test_a_worker_who_is_told_that_the_store_is_busy_looks_at_the_picture_again():
    picture, file = Image.new("L", (20, 10), 7), io.BytesIO()
    picture.save(file, "PNG")
    known = {digest(picture): WrittenBox("rx-1", "p-1", "zip", "04109")}
    diary, stop = Diary("inhouse/ann"), threading.Event()
    html = {"content-type": "text/html"}
    crops = [
        (503, html, b"<p data-page=message>"),
        (200, {"content-type": "image/png"}, file.getvalue()),
    ]
    said = []

    def respond(request):
        if request.path.startswith("/crop/"):
            return crops.pop(0)
        if request.path.endswith("/answer"):
            said.append(request.body)
            stop.set()
        page = "ready" if request.path == "/" or stop.is_set() else "task"
        body = f'<main data-page={page} data-token=5a><img src="/crop/1">'
        return 200, html, body.encode()

    reader = Reader(known, Habits(0, 0), diary, np.random.default_rng(1))
    with receiving() as server:
        server.respond = respond
        worker = PageWorker(server.url, f"{server.url}/#k=x", reader, stop, [])
        worker.start()
        worker.join(PATIENCE)
    assert worker.fault is None
    assert said == [b"answer=04109&outcome=answered"]
    assert (diary.answered, diary.unreadable) == (1, 0)
