"""Serving on both databases: who is shown what, booked first, answered once."""

import itertools
import threading

import numpy as np
import pytest

from dispatcher.core.errors import Refused, StaleLease
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.model.states import record_unit
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.serving import (
    ANSWERED_BEFORE,
    Given,
    Present,
    Saved,
    Serving,
    ServingTerms,
    Wrong,
    expire,
    task_assignment,
)
from dispatcher.store import Store, lease
from dispatcher.store import serving as rows
from policies.answers.validation import Mark
from tests import builders, edits
from tests.integration.serving_house import POLICY, House, png
from tests.patience import PATIENCE


@pytest.fixture
def house(store: Store, clock) -> House:
    return House(store, clock)


def answer(text: str) -> Given:
    return Given({"answer": text})


# -- start ---------------------------------------------------------------------------


def test_the_planned_entry_is_booked_and_then_shown(house):
    entries = house.record(1, name="Ada", disease="flu")
    ann = house.account("ann")
    house.plan((ann, [entries["disease"]]))

    showing = house.serving(lease=60).start(ann)

    assert (showing.content, showing.media) == (b"flu", "text/plain")
    assert showing.field.name == "disease"
    assert showing.left == 60
    assert house.exposures() == 1
    assert (
        house.ask("SELECT cause FROM ledger_line WHERE kind = 'exposure'") == "served"
    )
    assert house.ask("SELECT state FROM task WHERE id = ?", showing.task_id) == "shown"


def test_a_worker_with_a_task_in_hand_gets_that_one_again(house):
    entries = house.record(1, name="Ada", age="36")
    ann = house.account("ann")
    house.plan((ann, list(entries.values())))
    serving = house.serving()

    first, again = serving.start(ann), serving.start(ann)

    assert first.task_id == again.task_id
    assert house.exposures() == 1
    assert serving.has_task(ann)


def test_a_start_asks_the_gate_once_and_looks_up_few_of_many_planned(
    house, monkeypatch
):
    """An account may have thousands of planned entries: a Start must not feel them."""
    asked, looked_up = [], []
    decide, entry_rows = task_assignment.decide, rows.entry_rows
    monkeypatch.setattr(
        task_assignment,
        "decide",
        lambda tx, force, *ask: asked.append(ask) or decide(tx, force, *ask),
    )
    monkeypatch.setattr(
        rows,
        "entry_rows",
        lambda tx, ids: looked_up.append(len(ids)) or entry_rows(tx, ids),
    )
    ann = house.account("ann")
    records = [house.record(number, age=str(number)) for number in range(1, 60)]
    house.plan((ann, [entries["age"] for entries in records]))

    assert house.serving().start(ann) is not None
    assert len(asked) == 1
    assert looked_up == [task_assignment.FIRST]


def test_a_planned_pair_that_is_unsafe_by_now_is_not_shown(house):
    entries = house.record(1, name="Ada", disease="flu")
    other = house.record(2, age="36")
    ann = house.account("ann")
    house.plan((ann, [entries["disease"], other["age"]]))
    with house.store.write() as tx:
        book(tx, [Asks(ann.account_id, [entries["name"]])], delivery=Pull(1), at=1,
             cause="test")  # fmt: skip
    builders.answer_tasks(house.store)
    serving = house.serving()

    assert serving.start(ann).content == b"36"
    serving.answer(ann, house.token(2), answer("36"))
    assert serving.start(ann) is None
    with pytest.raises(Refused), house.store.write() as tx:
        book(tx, [Asks(ann.account_id, [entries["disease"]])], delivery=Pull(1), at=1,
             cause="test")  # fmt: skip


def test_a_pair_that_the_gate_refuses_leaves_the_plan_and_is_free_for_others(house):
    entries = house.record(1, name="Ada", disease="flu")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, [entries["disease"]]), (bob, []))
    with house.store.write() as tx:
        book(tx, [Asks(ann.account_id, [entries["name"]])], delivery=Pull(1), at=1,
             cause="test")  # fmt: skip
    builders.answer_tasks(house.store)
    serving = house.serving()

    assert serving.start(ann) is None
    serving.take_out_refused()  # once the answer is on its way
    left = house.ask(
        "SELECT entries FROM assignment WHERE account_id = ?", ann.account_id
    )
    assert bytes(left) == b""
    assert serving.start(bob).content == b"flu"


def test_a_pause_leaves_the_plan_as_it_is(house):
    entries = house.record(1, name="Ada")
    ann = house.account("ann")
    house.plan((ann, [entries["name"]]))
    serving = house.serving()
    builders.pause(house.store)
    assert serving.start(ann) is None
    builders.resume(house.store)
    assert serving.start(ann).content == b"Ada"


def test_a_plan_for_another_version_of_the_policy_is_not_served(house):
    entries = house.record(1, name="Ada")
    ann = house.account("ann")
    house.plan((ann, [entries["name"]]), version=2)
    assert house.serving().start(ann) is None


def test_a_daemon_that_leads_no_more_shows_nothing_new(house):
    entries = house.record(1, name="Ada")
    ann = house.account("ann")
    house.plan((ann, [entries["name"]]))

    def stale() -> int:
        raise StaleLease("nothing new is shown by this daemon")

    for fence in (
        stale,
        lambda: lease.Fence(lease.SHARD, 4),
    ):  # 4 is not the epoch of any lease
        serving = Serving(
            house.store,
            clock=house.clock,
            rng=np.random.default_rng(1),
            terms=ServingTerms(),
            fence=fence,
        )
        assert serving.start(ann) is None
    assert house.exposures() == 0
    assert house.count("task") == 0


def test_without_a_plan_nothing_is_shown(house):
    house.record(1, name="Ada")
    assert house.serving().start(house.account("ann")) is None


def test_an_answered_entry_is_not_shown_to_anybody(house):
    entries = house.record(1, name="Ada")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, [entries["name"]]), (bob, [entries["name"]]))
    serving = house.serving()
    showing = serving.start(ann)

    assert serving.start(bob) is None  # in flight
    assert serving.answer(ann, showing.token, answer("Ada")) == Saved()
    assert serving.start(bob) is None  # answered


def test_a_returned_task_goes_to_a_worker_it_was_not_planned_for(house):
    entries = house.record(1, name="Ada")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, [entries["name"]]), (bob, []))
    serving = house.serving()
    showing = serving.start(ann)
    assert serving.give_back(ann, showing.token)

    assert serving.start(ann) is None  # never twice
    assert serving.start(bob).content == b"Ada"
    assert house.exposures() == 2


def test_what_is_planned_for_others_is_taken_only_after_the_patience(house, clock):
    entries = house.record(1, name="Ada")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, [entries["name"]]), (bob, []))
    serving = house.serving(patience=100)

    assert serving.start(bob) is None
    clock.advance(100)
    assert serving.start(bob).content == b"Ada"


def test_what_was_planned_for_a_blocked_worker_is_free_at_once(house):
    entries = house.record(1, name="Ada")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, [entries["name"]]), (bob, []))
    builders.block(house.store, "inhouse/ann")

    assert house.serving().start(bob).content == b"Ada"


def test_two_fields_of_one_record_never_come_in_a_row(house, clock):
    one = house.record(1, age="36", born="2001-02-03")
    two = house.record(2, age="41")
    ann = house.account("ann")
    house.plan((ann, [*one.values(), *two.values()]))
    serving = house.serving(apart=300)
    records = []
    for _ in range(3):
        showing = serving.start(ann)
        if showing is None:  # two of record 1 are left: they wait
            clock.advance(301)
            records.append("pause")
            showing = serving.start(ann)
        entry = house.ask("SELECT entry_id FROM task WHERE id = ?", showing.task_id)
        records.append(house.ask("SELECT record_id FROM entry WHERE id = ?", entry))
        serving.answer(ann, showing.token, Given({}, Mark.ILLEGIBLE))
    assert all(a != b for a, b in itertools.pairwise(records))
    assert records.count(1) == 2


def test_a_paused_store_connector_or_run_shows_nothing(house):
    entries = house.record(1, name="Ada")
    ann = house.account("ann")
    house.plan((ann, [entries["name"]]))
    serving = house.serving()
    for scope in ("all", "connector:inhouse", "run:default"):
        builders.pause(house.store, scope)
        assert serving.start(ann) is None
        builders.resume(house.store)
    with house.store.write() as tx:
        edits.lose_runs(tx)
    assert serving.start(ann) is None
    assert house.exposures() == 0
    with house.store.write() as tx:
        edits.find_runs(tx)
    assert serving.start(ann).content == b"Ada"


@pytest.mark.parametrize(
    ("limit", "wait"), [("per_hour", 3600), ("per_day", 86_400), ("total", None)]
)
def test_capacities_are_metered(store, clock, limit, wait):
    house = House(
        store, clock, POLICY + f'\n[capacity]\n"inhouse/*" = {{ {limit} = 1 }}'
    )
    one, two = house.record(1, name="Ada"), house.record(2, name="Bo")
    ann = house.account("ann")
    house.plan((ann, [one["name"], two["name"]]))
    serving = house.serving()
    showing = serving.start(ann)
    serving.answer(ann, showing.token, answer("x"))

    assert serving.start(ann) is None
    if wait is not None:
        clock.advance(wait - 1)
        assert serving.start(ann) is None
        clock.advance(2)
        assert serving.start(ann) is not None


@pytest.mark.parametrize(("limit", "left"), [("open", 1), ("total", 0)])
def test_what_is_handed_back_was_seen_and_is_open_no_more(store, clock, limit, left):
    house = House(
        store, clock, POLICY + f'\n[capacity]\n"inhouse/*" = {{ {limit} = 1 }}'
    )
    one, two = house.record(1, name="Ada"), house.record(2, name="Bo")
    ann = house.account("ann")
    house.plan((ann, [one["name"], two["name"]]))
    serving = house.serving()
    assert serving.give_back(ann, serving.start(ann).token)

    assert (serving.start(ann) is not None) == bool(left)
    assert house.exposures() == 1 + left


def test_a_worker_who_was_blocked_or_uninvited_gets_nothing(house):
    entries = house.record(1, name="Ada")
    ann = house.account("ann")
    house.plan((ann, [entries["name"]]))
    serving = house.serving()
    builders.revoke_invites(house.store, "inhouse/ann")
    assert serving.start(ann) is None
    again = Present(ann.account_id, 2)
    builders.block(house.store, "inhouse/ann")
    assert serving.start(again) is None
    assert house.exposures() == 0


def test_two_workers_racing_for_the_last_copy_never_both_get_it(house):
    entries = [house.record(n, name=f"value {n}")["name"] for n in range(1, 7)]
    workers = [house.account("ann"), house.account("bob")]
    house.plan(*((who, entries) for who in workers))
    serving = house.serving()
    shown: list[bytes] = []
    gate = threading.Barrier(2)

    def work(who: Present) -> None:
        gate.wait()
        for _ in range(6):
            showing = serving.start(who)
            if showing is not None:
                shown.append(showing.content)
                serving.answer(who, showing.token, answer("x"))

    threads = [threading.Thread(target=work, args=(who,)) for who in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(shown) == [f"value {n}".encode() for n in range(1, 7)]
    assert house.exposures() == 6
    assert house.count("answer") == 6


def test_safety_43_parallel_tabs_of_one_worker_book_once(house):
    entries = [house.record(n, name=f"value {n}")["name"] for n in range(1, 5)]
    ann = house.account("ann")
    house.plan((ann, entries))
    serving = house.serving()
    tasks: set[int] = set()
    gate = threading.Barrier(4)

    def press() -> None:
        gate.wait()
        showing = serving.start(ann)
        if showing is not None:
            tasks.add(showing.task_id)

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(tasks) == 1
    assert house.exposures() == 1


def test_safety_44_a_second_tab_gets_nothing_past_a_capacity(store, clock, monkeypatch):
    house = House(store, clock, POLICY + '\n[capacity]\n"inhouse/*" = { total = 1 }')
    entries = [house.record(n, name=f"value {n}")["name"] for n in (1, 2)]
    ann = house.account("ann")
    house.plan((ann, entries))
    slow, quick = house.serving(), house.serving()
    choice = slow._choice

    def beside(*whom):
        chosen = choice(*whom)
        if house.exposures():  # the second look
            return chosen
        showing = quick.start(ann)
        quick.answer(ann, showing.token, answer("x"))
        shown = house.ask("SELECT entry_id FROM task")
        other = next(entry for entry in entries if entry != shown)
        return task_assignment.Chosen(other, house.fields["name"], 1, untested=False)

    monkeypatch.setattr(slow, "_choice", beside)
    assert slow.start(ann) is None
    assert house.exposures() == 1


# -- answers -------------------------------------------------------------------------


def start_one(house, serving=None, **values):
    entries = house.record(1, **values)
    ann = house.account("ann")
    house.plan((ann, list(entries.values())))
    serving = serving or house.serving()
    return serving, ann, serving.start(ann)


def counted(house) -> tuple[str, str]:
    """The one answer as it was given, and as it counts."""
    with house.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "test", house.clock(), house.clock() + 1000)
    Assembly(house.store, house.clock).tick(epoch)
    return tuple(
        bytes(house.ask(f"SELECT {column}")).decode()
        for column in ("raw FROM answer", "value FROM result")
    )


def test_an_answer_is_kept_once_however_often_it_is_submitted(house):
    serving, ann, showing = start_one(house, name="Ada")

    assert serving.answer(ann, showing.token, answer("Ada ")) == Saved()
    assert serving.answer(ann, showing.token, answer("Bob")) == ANSWERED_BEFORE

    assert counted(house) == ("Ada ", "Ada")
    assert house.ask("SELECT state FROM task") == "answered"
    assert house.ask("SELECT draft FROM task") is None


@pytest.mark.parametrize(
    ("field", "form", "normal"),
    [
        ("name", {"answer": " Ada\r\nLovelace"}, "Ada\nLovelace"),
        ("disease", {"answer": "gout"}, "gout"),
        ("age", {"answer": "36"}, "36"),
        ("born", {"answer": "2001-02-03"}, "2001-02-03"),
        ("ok", {"answer": "yes"}, "yes"),
        ("parts", {"answer": "aspirin\r\nzinc"}, "[[0, 7], [12, 16]]"),
        ("parts", {"answer": "0-7; 12-16"}, "[[0, 7], [12, 16]]"),
        ("lines", {"cell-0-0": "zinc", "cell-0-1": "2", "cell-3-0": "", "cell-4-1": "9"},
         '[["zinc", "2"], ["", "9"]]'),
        ("lines", {"answer": "zinc|2"}, '[["zinc", "2"]]'),
    ],
)  # fmt: skip
def test_every_ask_takes_its_answer(house, field, form, normal):
    serving, ann, showing = start_one(house, **{field: "aspirin and zinc"})
    assert serving.answer(ann, showing.token, Given(form)) == Saved()
    assert counted(house)[1] == normal


@pytest.mark.parametrize("mark", list(Mark))
def test_a_mark_is_an_answer(house, mark):
    serving, ann, showing = start_one(house, age="36")
    assert serving.answer(ann, showing.token, Given({"answer": "9"}, mark)) == Saved()
    assert counted(house) == (f"[{mark.value}]",) * 2


@pytest.mark.parametrize(
    ("field", "text"),
    [("age", "131"), ("age", "old"), ("disease", "ague"), ("name", " "),
     ("parts", "iron"), ("born", "2001-02-31")],
)  # fmt: skip
def test_a_wrong_answer_is_told_and_nothing_typed_is_lost(house, field, text):
    serving, ann, showing = start_one(house, **{field: "aspirin and zinc"})
    wrong = serving.answer(ann, showing.token, answer(text))
    assert isinstance(wrong, Wrong)
    assert wrong.showing.draft == text
    assert not text.strip() or text not in wrong.reason
    assert house.count("answer") == 0
    assert serving.in_hand(ann).draft == text


def test_the_draft_survives_and_goes_with_the_answer(house):
    serving, ann, showing = start_one(house, lines="x")
    assert serving.save_draft(ann, showing.token, {"cell-1-0": "zi"})
    assert serving.start(ann).draft == '[["zi", ""]]'
    serving.answer(ann, showing.token, Given({}, Mark.NOT_PRESENT))
    assert house.ask("SELECT draft FROM task") is None
    assert not serving.save_draft(ann, showing.token, {"cell-1-0": "zinc"})


# -- leases --------------------------------------------------------------------------


def test_a_lease_expires_its_draft_goes_and_another_worker_may_have_the_entry(
    house, clock
):
    serving, ann, showing = start_one(house, house.serving(lease=60), name="Ada")
    bob = house.account("bob")
    serving.save_draft(ann, showing.token, {"answer": "Ad"})
    clock.advance(59)
    assert expire(house.store, clock) == 0
    clock.advance(1)
    assert expire(house.store, clock) == 1
    assert expire(house.store, clock) == 0
    assert house.ask("SELECT state FROM task") == "expired"
    assert house.ask("SELECT draft FROM task") is None
    assert serving.in_hand(ann) is None
    assert serving.start(bob).content == b"Ada"


def test_a_late_answer_of_the_same_worker_is_accepted(house, clock):
    serving, ann, showing = start_one(house, house.serving(lease=60), name="Ada")
    clock.advance(61)
    expire(house.store, clock)
    assert serving.answer(ann, showing.token, answer("Ada")) == Saved()
    assert house.ask("SELECT state FROM task") == "answered"


def test_a_worker_who_comes_back_late_gets_the_same_task_without_a_second_booking(
    house, clock
):
    serving, ann, showing = start_one(house, house.serving(lease=60), name="Ada")
    for ticked in (False, True):
        clock.advance(61)
        if ticked:
            expire(house.store, clock)
        again = serving.start(ann)
        assert (again.task_id, again.left) == (showing.task_id, 60)
    assert house.exposures() == 1


def test_more_time_is_given_until_the_extensions_are_spent(house, clock):
    serving, ann, showing = start_one(
        house, house.serving(lease=60, extensions=2), name="Ada"
    )
    clock.advance(50)
    assert serving.extend(ann, showing.token).left == 60
    clock.advance(50)
    assert serving.extend(ann, showing.token).left == 60
    clock.advance(50)
    assert serving.extend(ann, showing.token).left == 30
    clock.advance(31)
    assert serving.extend(ann, showing.token) is None


# -- what is not theirs --------------------------------------------------------------


def test_safety_7_another_workers_task_and_an_edited_token_do_nothing_but_an_audit_line(
    house,
):
    serving, ann, showing = start_one(house, name="Ada")
    bob = house.account("bob")
    edited = showing.token[:-1] + ("0" if showing.token[-1] != "0" else "1")

    for token in (showing.token, edited, "", "é" * 32):
        assert serving.answer(bob, token, answer("x")) is None
        assert not serving.owns(bob, token)
        assert not serving.save_draft(bob, token, {"answer": "x"})
        assert serving.extend(bob, token) is None
        assert not serving.give_back(bob, token)
        assert not serving.recuse(bob, token)

    assert house.count("answer") == 0
    assert house.ask("SELECT state FROM task") == "shown"
    assert house.count("event", "action = 'task.foreign'") == 6
    assert house.count("event", "action = 'task.unknown'") == 18
    actor = house.ask("SELECT actor FROM event LIMIT 1")
    assert actor == f"account:{bob.account_id}"
    assert serving.in_hand(ann) is not None


def test_who_knows_the_person_is_shown_nothing_more_of_them(house):
    one = house.record(1, subject=9, name="Ada", age="36")
    two = house.record(2, subject=9, age="37")
    three = house.record(3, subject=8, age="50")
    ann = house.account("ann")
    house.plan((ann, [*one.values(), *two.values()]))
    serving = house.serving()
    showing = serving.start(ann)
    assert serving.recuse(ann, showing.token)
    assert serving.recuse(ann, showing.token)  # pressed twice

    assert serving.start(ann) is None
    assert house.ask("SELECT state FROM task") == "returned"
    house.plan((ann, [*two.values(), *three.values()]))
    assert serving.start(ann).content == b"50"


def test_what_was_handed_back_is_never_shown_again_by_a_wrong_answer(house):
    serving, ann, showing = start_one(house, age="36")
    serving.recuse(ann, showing.token)
    assert serving.answer(ann, showing.token, answer("old")) is None
    assert serving.in_hand(ann) is None


def test_a_wrong_answer_after_the_lease_gets_a_new_lease(house, clock):
    serving, ann, showing = start_one(house, house.serving(lease=60), age="36")
    clock.advance(61)
    expire(house.store, clock)
    wrong = serving.answer(ann, showing.token, answer("old"))
    assert (wrong.showing.left, wrong.showing.draft) == (60, "old")
    assert house.exposures() == 1


def test_an_image_is_handed_out_as_its_stored_bytes(house):
    crop = png(3)
    serving, ann, showing = start_one(house, scan=crop)
    assert (showing.media, showing.content) == ("image/png", crop)
    assert serving.in_hand(ann).content == crop


def test_a_late_answer_shows_nothing_again_of_a_person_the_worker_knows(house, clock):
    one = house.record(1, subject=None, name="Ada", age="36")
    ann = house.account("ann")
    house.plan((ann, [one["name"], one["age"]]))
    serving = house.serving(lease=60)
    first = serving.start(ann)
    clock.advance(seconds=61)
    assert expire(house.store, clock) == 1
    builders.recuse(house.store, "inhouse/ann", record_unit(1))
    assert (
        serving.answer(ann, house.token(first.task_id), Given({"answer": ""})) is None
    )
    assert serving.in_hand(ann) is None
