"""Gate, outbox and daemons walk at random beside an oracle; long form: make torture."""

import numpy as np
import pytest

from dispatcher.store import lease
from tests.e2e.torture.ground import databases, files
from tests.e2e.torture.outside import Outside
from tests.e2e.torture.walk import Walk, walk


@pytest.fixture
def ground(tmp_path):
    """Files of SQLite."""
    with files(tmp_path) as made:
        yield made


def dice(seed):
    return np.random.default_rng(seed)


def test_whatever_happens_ledger_outbox_and_oracle_agree(ground):
    done = walk(ground, 400, dice(17))
    assert done["granted"] > 40
    assert done["sent"] > 20
    assert done["join"] > 0
    assert done["keep"] > 3
    assert done["lose"] > 2
    assert done["lose_all"] > 1


def test_the_walk_sees_a_store_that_shows_more_though_nobody_knows_what_was_shown(
    ground, monkeypatch
):
    monkeypatch.setattr(
        "dispatcher.custody.restore.accounts.add_recusals", lambda *_: 0
    )
    monkeypatch.setattr(Walk, "lose", Walk.lose_all)
    with pytest.raises(AssertionError, match="was granted"):
        walk(ground, 1000, dice(3))


def test_whatever_happens_they_agree_on_postgresql(postgres_cluster, tmp_path):
    with databases(tmp_path, postgres_cluster) as ground:
        done = walk(ground, 200, dice(4))
    assert done["sent"] > 10
    assert done["lose"] > 0


def test_the_walk_sees_a_daemon_that_is_not_fenced(ground, monkeypatch):
    monkeypatch.setattr(lease, "check_epoch", lambda *_: None)
    with pytest.raises(AssertionError, match="wrote under epoch"):
        walk(ground, 400, dice(3))


def test_the_walk_sees_what_is_sent_again_without_asking(ground, monkeypatch):
    monkeypatch.setattr(Outside, "find", lambda *_: None)
    with pytest.raises(AssertionError, match="sent twice"):
        walk(ground, 400, dice(3))


def test_the_walk_sees_numbers_that_a_restored_store_gives_again(ground, monkeypatch):
    monkeypatch.setattr("dispatcher.custody.restore.make_ready", lambda *_: None)
    with pytest.raises(AssertionError, match=r"again|twice"):
        walk(ground, 400, dice(3))
