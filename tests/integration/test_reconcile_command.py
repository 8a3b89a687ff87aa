"""``dispatcher connectors reconcile``: told first, mended when asked."""

import json

import pytest

from connectors.base import Form, Item, Offer
from connectors.folder import Folder
from dispatcher.core.keys import offer_key
from dispatcher.store import open_store
from dispatcher.store.collecting import cursor, save_cursor


@pytest.fixture
def house(run, tmp_path, sqlite_template):
    """A store with an empty outbox, a spool in which one batch lies, and its key."""
    (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())
    settings = '[connectors.folder]\nspool = "spool"\n[connectors.inhouse]\n'
    (tmp_path / "dispatcher.toml").write_text(settings)
    with open_store(tmp_path / "dispatcher.db") as store:
        key = offer_key(store.key("task-key"), 7)
    item = Item("0" * 32, Form("transcribe"), b"Canary")
    Folder(tmp_path / "spool").publish(Offer(key, account="ann", items=(item,)))
    return lambda *words: run("connectors", "reconcile", *words)


def batches(tmp_path):
    return list((tmp_path / "spool").glob("ann/batch-*"))


def test_what_differs_is_told_and_left_as_it_is(house, tmp_path):
    done = house("folder", "--json")
    told = json.loads(done.out)
    assert (done.code, told["listed"], told["unknown"], told["mended"]) == (
        1,
        1,
        1,
        False,
    )
    assert len(batches(tmp_path)) == 1


def test_what_differs_is_mended_when_asked_and_then_nothing_differs(house, tmp_path):
    done = house("folder", "--mend")
    assert done.code == 0, done.err
    assert "withdraw" in done.out
    assert batches(tmp_path) == []
    again = house("folder")
    assert (again.code, "nothing differs" in again.out) == (0, True)


def test_all_answers_are_read_again_when_asked(house, tmp_path):
    with open_store(tmp_path / "dispatcher.db") as store, store.write() as tx:
        save_cursor(tx, "folder", "12")
    house("folder", "--answers")
    with open_store(tmp_path / "dispatcher.db") as store, store.read() as tx:
        assert cursor(tx, "folder") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inhouse"], "cannot tell"),
        (["nowhere"], "nowhere"),
        (["folder", "--trust"], "--mend"),
    ],
)
def test_what_can_not_be_done_is_told(house, words, said):
    done = house(*words)
    assert done.code != 0
    assert said in done.err
    assert done.out == ""
