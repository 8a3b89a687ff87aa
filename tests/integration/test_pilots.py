"""Pilots on both databases: so many records first, and nothing of the others."""

import threading

import numpy as np
import pytest

from dispatcher.core.errors import Conflict, Invalid, NotFound, Refused, Usage
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.stages.intake import runs
from dispatcher.stages.intake.loading import load
from dispatcher.stages.planning import Planning
from dispatcher.stages.serving import Given
from dispatcher.store import Store, lease, pilots, records
from tests import builders, sql
from tests.integration.ledger_cases import Case, policy
from tests.integration.serving_house import House


@pytest.fixture
def case(store: Store) -> Case:
    made = Case(store)
    made.apply(policy(""))
    made.add("x/ann", "x/bob")
    return made


def load_rows(case, tmp_path, first: int, count: int, **options):
    file = tmp_path / f"{first}.csv"
    header = "id,person,when,a,b,c,d"
    lines = [f"k{n},p{n},2026-01-01,1,2,3,4" for n in range(first, first + count)]
    file.write_text("\n".join([header, *lines]) + "\n")
    return load(case.store, file, clock=case.tick, run="nov", **options)


def shown(case) -> set[str]:
    """Records that do not wait."""
    with case.store.read() as tx:
        rows = sql.rows(tx, "SELECT pseudonym FROM record WHERE waits_since IS NULL")
    return {row[0] for row in rows}


def waiting(case) -> int:
    with case.store.read() as tx:
        return int(sql.value(tx, "SELECT count(*) FROM record WHERE waits_since > 0"))


def test_only_so_many_records_go_out_until_it_is_accepted(case, tmp_path):
    runs.begin(case.store, "nov", 2, 1, "ann")
    load_rows(case, tmp_path, 0, 5)
    assert (len(shown(case)), waiting(case)) == (2, 3)
    first = shown(case)
    load_rows(case, tmp_path, 5, 4)
    assert (shown(case), waiting(case)) == (first, 7)

    assert runs.accept(case.store, "nov", 2, "ann") == 7
    assert waiting(case) == 0
    with case.store.read() as tx:
        noted = sql.rows(tx, "SELECT actor, action FROM event ORDER BY id")
    assert [tuple(row) for row in noted if row[1].startswith("pilot.")] == [
        ("ann", "pilot.begun"),
        ("ann", "pilot.accepted"),
    ]
    load_rows(case, tmp_path, 9, 1)
    assert waiting(case) == 0


def test_records_that_are_loaded_already_are_picked_from(case, tmp_path):
    load_rows(case, tmp_path, 0, 5)
    runs.begin(case.store, "nov", 3, 1, "ann")
    assert (len(shown(case)), waiting(case)) == (3, 2)


def test_a_pilot_may_grow_and_never_shrinks_below_what_went_out(case, tmp_path):
    load_rows(case, tmp_path, 0, 5)
    runs.begin(case.store, "nov", 2, 1, "ann")
    first = shown(case)
    runs.begin(case.store, "nov", 4, 1, "ann")
    assert first < shown(case)
    with pytest.raises(Conflict, match="4 records already"):
        runs.begin(case.store, "nov", 3, 1, "ann")


def test_a_load_that_was_killed_lets_nothing_slip_out(case, tmp_path, monkeypatch):
    runs.begin(case.store, "nov", 2, 1, "ann")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fill", killed)
    with pytest.raises(KeyboardInterrupt):
        load_rows(case, tmp_path, 0, 5)
    assert waiting(case) == 5
    monkeypatch.undo()
    load_rows(case, tmp_path, 0, 5)  # the same file again: nothing is new
    assert (len(shown(case)), waiting(case)) == (2, 3)


def test_a_file_that_can_not_be_loaded_begins_no_pilot(case, tmp_path):
    (tmp_path / "bad.csv").write_text("id,other\n1,2\n")
    with pytest.raises(Invalid):
        load(case.store, tmp_path / "bad.csv", clock=case.tick, run="nov", pilot=2)
    load_rows(case, tmp_path, 0, 5)
    assert waiting(case) == 0


def test_a_load_may_bring_its_pilot_along(case, tmp_path):
    load_rows(case, tmp_path, 0, 5, pilot=2)
    assert (len(shown(case)), waiting(case)) == (2, 3)
    load_rows(case, tmp_path, 5, 2, pilot=2)  # the same pilot still
    assert (len(shown(case)), waiting(case)) == (2, 5)


def test_a_pilot_comes_before_the_first_showing(case):
    case.load(("r", None, 0, "ab"))
    case.book(("x/ann", "r.a"))
    with pytest.raises(Conflict, match="past a pilot"):
        runs.begin(case.store, "default", 1, 1, "ann")


def test_a_booking_under_way_is_a_showing_or_sees_the_pilot(case, tmp_path):
    load_rows(case, tmp_path, 0, 3)
    asks = [Asks(case.accounts["x/ann"], entries_of(case, waiting=False)[:1])]
    booked = threading.Event()

    def booking():
        with case.store.write() as tx:
            book(tx, asks, delivery=Push(), at=1, cause="test")
            booked.set()
            threading.Event().wait(0.3)

    thread = threading.Thread(target=booking)
    thread.start()
    booked.wait()
    with pytest.raises(Conflict, match="past a pilot"):
        runs.begin(case.store, "nov", 1, 1, "ann")
    thread.join()
    assert waiting(case) == 0


def test_what_is_no_pilot_is_told(case, tmp_path):
    with pytest.raises(NotFound):
        runs.accept(case.store, "nov", 1, "ann")
    load_rows(case, tmp_path, 0, 1)
    with pytest.raises(Conflict, match="has no pilot"):
        runs.accept(case.store, "nov", 1, "ann")
    with pytest.raises(Usage):
        runs.begin(case.store, " nov", 1, 1, "ann")


def entries_of(case, *, waiting: bool) -> list[int]:
    word = "NOT NULL" if waiting else "NULL"
    with case.store.read() as tx:
        rows = sql.rows(
            tx,
            "SELECT e.id FROM entry e JOIN record r ON r.id = e.record_id"
            f" WHERE r.waits_since IS {word} ORDER BY e.id",
        )
    return [row[0] for row in rows]


@pytest.mark.parametrize("delivery", [Pull(10**18), Push()])
def test_the_gate_refuses_what_waits_one_by_one_and_in_bulk(case, tmp_path, delivery):
    runs.begin(case.store, "nov", 1, 1, "ann")
    load_rows(case, tmp_path, 0, 3)
    held, free = entries_of(case, waiting=True), entries_of(case, waiting=False)
    ann = case.accounts["x/ann"]
    with pytest.raises(Refused, match="may not see"), case.store.write() as tx:
        book(tx, [Asks(ann, held[:1])], delivery=delivery, at=1, cause="test")
    with case.store.write() as tx:
        asks = [Asks(ann, [*held, *free])]
        booked = book(
            tx, asks, delivery=delivery, at=1, cause="test", skip_refused=True
        )
    assert booked.new == len(free)
    assert {refusal.rule for refusal in booked.refused} == {"pilot"}


def test_only_the_pilot_is_planned_and_then_the_rest(case, tmp_path):
    runs.begin(case.store, "nov", 1, 1, "ann")
    load_rows(case, tmp_path, 0, 3)
    planning = Planning(case.store, case.tick, rest=0)
    with case.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "t", case.tick(), 10**18)
    planning.tick(epoch)
    assert planned(case) == set(entries_of(case, waiting=False))
    planning.tick(epoch)
    runs.accept(case.store, "nov", 1, "ann")
    planning.tick(epoch)
    assert planned(case) == set(entries_of(case, waiting=False))
    assert len(planned(case)) == 12


def planned(case) -> set[int]:
    with case.store.read() as tx:
        rows = sql.rows(
            tx,
            "SELECT s.entries FROM assignment s JOIN plan p ON p.id = s.plan_id"
            " WHERE p.state = 'applied'",
        )
    return {int(n) for row in rows for n in np.frombuffer(bytes(row[0]), "<i8")}


def test_loads_and_an_acceptance_at_once_leave_nothing_waiting(case, tmp_path):
    """What a load writes either sees the pilot and is let go with it, or no pilot."""
    runs.begin(case.store, "nov", 1, 1, "ann")
    load_rows(case, tmp_path, 0, 2)
    threads = [
        threading.Thread(target=load_rows, args=(case, tmp_path, 100 * n, 20))
        for n in (1, 2)
    ]
    for thread in threads:
        thread.start()
    runs.accept(case.store, "nov", 1, "ann")
    for thread in threads:
        thread.join()
    assert waiting(case) == 0
    assert len(shown(case)) == 42


def test_serving_shows_nothing_that_waits(store, clock):
    house = House(store, clock)
    first, other = house.record(1, name="Ada"), house.record(2, name="Bob")
    ann = house.account("ann")
    house.plan((ann, [first["name"], other["name"]]))
    with store.write() as tx:
        records.begin_pilot(tx, 1, 1, 1)
        records.choose_records(tx, 1, 1)  # the first by pseudonym
    serving = house.serving()
    assert serving.start(ann).content == b"Ada"
    assert serving.give_back(ann, serving.in_hand(ann).token)
    assert serving.start(ann) is None
    with store.write() as tx:
        records.accept_pilot(tx, 1)
    assert serving.start(ann).content == b"Bob"


# -- commands --------------------------------------------------------------------------


def test_a_pilot_from_load_to_acceptance_by_commands(run, tmp_path):
    assert run("init").code == 0
    (tmp_path / "policy.toml").write_text(
        'version = 1\nname = "f"\n[entity.f]\nkey = "id"\n'
        '[entity.f.fields]\nname = { ask = "transcribe" }\n'
    )
    assert run("policy", "apply").code == 0
    rows = "\n".join(f"r{n},Canary {n}" for n in range(9))
    (tmp_path / "f.csv").write_text(f"id,name\n{rows}\n")
    assert run("records", "load", "f.csv", "--pilot", "4").code == 0
    told = run("runs", "show", "default").out
    assert "pilot of 4 records: 4 let go, 5 wait for: dispatcher runs accept" in told
    assert "name: 0 of 4 fields answered" in told
    needs = run("status").out
    assert "run default has a pilot, 5 records wait" in needs
    assert "6 let go, 3 wait" in run("runs", "pilot", "default", "6").out
    assert run("runs", "pilot", "default", "5").code != 0
    done = run("runs", "accept", "default")
    assert done.out == "default: the pilot is accepted, 3 records more may be shown\n"
    assert run("runs", "accept", "default").code != 0
    assert run("runs", "show", "other").code != 0
    assert "no pilot" in run("runs", "show", "default").out


def test_the_report_tells_confidence_time_and_what_is_in_conflict(store, clock):
    house = House(store, clock)
    entries = [house.record(n, name="Ada")["name"] for n in (1, 2, 3)]
    ann = house.account("ann")
    house.plan((ann, entries))
    serving = house.serving(gold=0)
    for _ in range(2):
        showing = serving.start(ann)
        clock.advance(6)
        serving.answer(ann, showing.token, Given({"answer": "Ada"}))
    builders.save_results(store, [1], confidence=0.9)
    builders.save_results(store, [2], "conflict", confidence=0.4)
    with store.read() as tx:
        (row,) = pilots.by_field(tx, 1)
    assert row == pilots.PilotField("name", 3, 1, 1, 2, 0.9, 6.0)
