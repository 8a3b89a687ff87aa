"""Two stores that share one place outside: neither takes the other's for its own."""

from __future__ import annotations

import csv
import shutil
from contextlib import closing

import pytest

from connectors.base import Settings
from connectors.folder import Folder
from connectors.s3 import CONNECTOR as S3
from dispatcher.core.keys import offer_key
from dispatcher.store import open_store
from tests.contract.buckets import SECRET, bucket_server, objects
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    """Two stores as two operators make them: each with random keys of its own."""
    home = tmp_path_factory.mktemp("stores")
    paths = [home / "one.db", home / "two.db"]
    for path in paths:
        open_store(path, create=True).close()
    return paths


@pytest.fixture
def stores(two_files, tmp_path):
    paths = [shutil.copy(path, tmp_path / path.name) for path in two_files]
    with open_store(paths[0]) as one, open_store(paths[1]) as two:
        yield one, two


def sent(store, clock, connector, name):
    """Book and send one message."""
    exchange = Exchange(Case(store), clock, connector, name=name)
    exchange.workers("ann")
    exchange.case.load(("r1", "p1", 1, "abcd"))
    exchange.book(("ann", "r1.a"))
    assert exchange.sending().tick(exchange.epoch) == 1
    return exchange


def message(exchange):
    """Id of the message that was sent, and the handle that it got."""
    return exchange.rows("SELECT id, handle FROM outbox")[0]


def test_a_folder_of_two_stores_gets_the_messages_of_both(stores, clock, tmp_path):
    spool = tmp_path / "spool"
    told = [
        message(sent(one, clock, Folder(spool, settle=0), "folder")) for one in stores
    ]
    assert told[0][0] == told[1][0]  # the outbox ids of both begin alike
    batches = {f"ann/{path.name}" for path in (spool / "ann").glob("batch-*")}
    assert batches == {handle for _, handle in told}
    assert len(batches) == 2


def test_each_of_two_stores_gets_its_own_answers_from_a_folder(stores, clock, tmp_path):
    spool = tmp_path / "spool"
    exchanges = [
        sent(store, clock, Folder(spool, settle=0), "folder") for store in stores
    ]
    for number, batch in enumerate(sorted((spool / "ann").glob("batch-*"))):
        text = (batch / "tasks.csv").read_text("utf-8-sig")
        rows = list(csv.DictReader(text.splitlines()))
        with (batch / "answers.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["task", "answer"])
            writer.writerows([row["task"], f"said {number}"] for row in rows)
    assert [one.collecting().tick(one.epoch) for one in exchanges] == [1, 1]
    for one in exchanges:
        assert one.ask("SELECT count(*) FROM answer") == 1
        # the other store's answer fits no task here: it is set aside, and no more
        assert one.ask("SELECT count(*) FROM quarantine") == 1


def test_a_bucket_of_two_stores_gets_the_messages_of_both(stores, clock):
    with bucket_server("shared") as url:
        values = {"bucket": "shared", "endpoint": url, "allow_private": "127.0.0.1"}
        with closing(S3.open(Settings(values, SECRET))) as feed:
            told = [message(sent(one, clock, feed, "s3")) for one in stores]
        assert told[0][0] == told[1][0]
        held = {f"s3://shared/{name}" for name in objects(url, "shared")}
    assert held == {handle for _, handle in told}
    assert len(held) == 2


def test_the_key_of_a_message_is_the_same_in_every_copy_of_its_store(stores, two_files):
    told = {offer_key(store.key("task-key"), 7) for store in stores}
    with open_store(two_files[0]) as again:
        assert offer_key(again.key("task-key"), 7) in told
    assert len(told) == 2
