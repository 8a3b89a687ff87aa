"""Gate, outbox and daemons walk at random beside an oracle; long form: make torture."""

import itertools
import shutil
from contextlib import nullcontext

import pytest

from dispatcher.store import lease, open_store
from tests.e2e.torture.walk import Outside, walk


@pytest.fixture
def fresh(sqlite_template, tmp_path):
    """Makes stores, one an episode."""
    numbers = itertools.count()

    def make(_episode):
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(sqlite_template, path)
        return open_store(path)

    return make


def test_whatever_happens_ledger_outbox_and_oracle_agree(fresh):
    done = walk(fresh, steps=400, seed=3)
    assert done["granted"] > 40
    assert done["sent"] > 20
    assert done["join"] > 0


def test_whatever_happens_they_agree_on_postgresql(postgres_store):
    done = walk(lambda _: nullcontext(postgres_store), steps=200, seed=4)
    assert done["sent"] > 10


def test_the_walk_sees_a_daemon_that_is_not_fenced(fresh, monkeypatch):
    monkeypatch.setattr(lease, "check_epoch", lambda *_: None)
    with pytest.raises(AssertionError, match="wrote under epoch"):
        walk(fresh, steps=400, seed=3)


def test_the_walk_sees_what_is_sent_again_without_asking(fresh, monkeypatch):
    monkeypatch.setattr(Outside, "find", lambda *_: None)
    with pytest.raises(AssertionError, match="sent twice"):
        walk(fresh, steps=400, seed=3)
