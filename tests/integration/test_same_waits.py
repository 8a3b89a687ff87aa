"""What a request waits for tells nothing of what it is about, on both databases.

Commits, waits for the disk and for the shipped ledger are counted, not timed. What differs
in work is small beside these, and the task page lets its answers leave in steps.
"""

import os
from collections import Counter
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from connectors.base import Arrival
from dispatcher.ledger.shipping import attach
from dispatcher.stages.serving import Arrivals, Given, SessionTerms
from tests.integration.serving_house import House


class Waits:
    """Counts what a store's requests wait for."""

    def __init__(self, store, folder, monkeypatch) -> None:
        self.counted = Counter()
        shipper = attach(store, folder)
        store.settle(afresh=True)
        with store.write() as tx:  # PostgreSQL reserves 128 ids aside, now and then
            for table in ("task", "event", "gold_task"):
                tx.reserve(table)
        for writes, engine in store._engines.items():
            kind = "commits" if writes else "reads"
            event.listen(engine, "commit", lambda _, k=kind: self.note(k))
        sync, settle = os.fdatasync, shipper.settle

        def synced(file: int) -> None:
            self.note("syncs")
            sync(file)

        def settled(*what: Any, afresh: bool = False) -> None:
            self.note("settles")
            settle(*what, afresh=afresh)

        monkeypatch.setattr(os, "fdatasync", synced)
        monkeypatch.setattr(shipper, "settle", settled)

    def note(self, kind: str) -> None:
        self.counted[kind] += 1

    @contextmanager
    def of(self):
        """Count what happens within: (commits, syncs, settles)."""
        self.counted.clear()
        found: list[int] = []
        yield found
        found += [self.counted[kind] for kind in ("commits", "syncs", "settles")]


@pytest.fixture
def house(store, clock) -> House:
    return House(store, clock)


@pytest.fixture
def waits(house, tmp_path, monkeypatch) -> Waits:
    return Waits(house.store, tmp_path / "shipped", monkeypatch)


def worker(house: House, name: str, *texts: str):
    """A worker with a field planned in a record for each text."""
    numbers = range(house.count("record") + 1, 10**6)
    entries = [
        house.record(number, name=text)["name"]
        for number, text in zip(numbers, texts, strict=False)
    ]
    who = house.account(name)
    house.plan((who, entries), beside=True)
    return who


def made_up(showing) -> bool:
    return showing.text.startswith("Gold")


def both_kinds(house: House, most: int = 24):
    """Serve a worker real fields and made-up questions, by halves."""
    ann = worker(house, "ann", *["Ada"] * most)
    house.made_up("gold", *((f"Gold {n}", f"Gold {n}") for n in range(most)))
    serving = house.serving(gold=0.5)
    return serving, ann


def test_a_start_of_a_made_up_question_waits_as_that_of_a_real_field(house, waits):
    serving, ann = both_kinds(house)
    seen = {True: set(), False: set()}
    for _ in range(16):
        with waits.of() as counts:
            showing = serving.start(ann)
        seen[made_up(showing)].add(tuple(counts))
        serving.answer(ann, showing.token, Given({"answer": "x"}))
    assert seen[True] == seen[False] == {(1, 1, 1)}


ACTS = {
    "answer": lambda serving, who, task: serving.answer(
        who, task.token, Given({"answer": "Ada"})
    ),
    "no answer": lambda serving, who, task: serving.answer(
        who, task.token, Given({"answer": ""})
    ),
    "draft": lambda serving, who, task: serving.save_draft(
        who, task.token, {"answer": "A"}
    ),
    "extend": lambda serving, who, task: serving.extend(who, task.token),
    "return": lambda serving, who, task: serving.give_back(who, task.token),
    "known": lambda serving, who, task: serving.recuse(who, task.token),
    "look": lambda serving, who, task: serving.owns(who, task.token),
    "again": lambda serving, who, task: serving.start(who),
}


def test_where_no_gold_is_left_a_start_waits_as_without_any(house, waits):
    """What is looked for and not found is no commit."""
    ann, serving = worker(house, "ann", *["Ada"] * 8), house.serving(gold=0.5)
    for _ in range(8):
        with waits.of() as counts:
            showing = serving.start(ann)
        assert (made_up(showing), counts) == (False, [1, 1, 1])
        serving.answer(ann, showing.token, Given({"answer": "x"}))


@pytest.mark.parametrize("act", ACTS)
def test_what_follows_waits_the_same_for_both(house, waits, act):
    serving, ann = both_kinds(house)
    seen = {True: set(), False: set()}
    for _ in range(16):
        showing = serving.start(ann)
        with waits.of() as counts:
            ACTS[act](serving, ann, showing)
        seen[made_up(showing)].add(tuple(counts))
        serving.give_back(ann, showing.token)
    assert len(seen[True]) == len(seen[False]) == 1
    assert seen[True] == seen[False]


def test_where_all_is_refused_a_start_waits_as_where_nothing_is_planned(house, waits):
    both = house.record(1, name="Ada", disease="flu")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, list(both.values())))
    serving = house.serving()
    shown = serving.start(ann)
    serving.answer(ann, shown.token, Given({"answer": "flu"}))

    with waits.of() as refused:
        assert serving.start(ann) is None
    with waits.of() as nothing:
        assert serving.start(bob) is None
    assert refused == nothing
    with waits.of() as afterwards:
        serving.take_out_refused()
    assert afterwards[0] == 1  # it was refused, and leaves the plan in a commit


def test_what_was_refused_before_is_not_seen_in_the_wait_for_what_is_shown(
    house, waits
):
    both = house.record(1, name="Ada", disease="flu")
    other = house.record(2, name="Bob")["name"]
    ann = house.account("ann")
    house.plan((ann, list(both.values())))
    serving = house.serving()
    with waits.of() as plain:
        shown = serving.start(ann)
    serving.answer(ann, shown.token, Given({"answer": "flu"}))
    left = [
        each for each in both.values() if not house.count("task", f"entry_id = {each}")
    ]
    house.plan((ann, [*left, other]))

    with waits.of() as counts:
        assert serving.start(ann).text == "Bob"
    assert counts == plain


def test_a_token_of_anothers_task_waits_as_one_of_nothing(house, waits):
    serving, ann = both_kinds(house)
    bob = house.account("bob")
    seen = set()
    for _ in range(8):
        showing = serving.start(ann)
        with waits.of() as counts:
            assert not serving.owns(bob, showing.token)
        seen.add(tuple(counts))
        serving.give_back(ann, showing.token)
    with waits.of() as counts:
        assert not serving.owns(bob, "0" * 32)
    assert seen == {tuple(counts)}


def test_a_link_that_was_revoked_waits_as_one_of_nobody(house, waits, clock):
    house.account("ann")
    arrivals = Arrivals(house.store, clock, SessionTerms())
    with waits.of() as known:
        assert arrivals.identify("inhouse", Arrival("ann", "7")) is None
    with waits.of() as unknown:
        assert arrivals.identify("inhouse", Arrival("nobody", "7")) is None
    assert known == unknown == [0, 0, 0]


def test_the_padding_begins_anew_where_a_file_of_the_ledger_is_followed(
    store, tmp_path
):
    segments = attach(store, tmp_path / "shipped", limit=1000).segments
    store.settle(afresh=True)
    sizes = []
    for _ in range(5):
        with segments.locked():
            segments.pad()
        sizes.append((tmp_path / "shipped" / "padding").stat().st_size)
    assert sizes == [480, 960, 1440, 480, 960]
