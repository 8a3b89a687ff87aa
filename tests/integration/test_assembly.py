"""Assembly: answers become results, disagreement one more showing, records whole."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import polars as pl
import pytest

from dispatcher.core.errors import Conflict, Invalid, NotFound
from dispatcher.export_format import Layout
from dispatcher.stages.assembly import reassemble, write_records
from dispatcher.store import records
from tests import builders
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case, policy

RECORDS = ("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "ab")


@pytest.fixture
def empty(store, clock):
    made = Exchange(Case(store), clock)
    made.workers("ann", "bob", "cem", "dan")
    return made


@pytest.fixture
def exchange(empty):
    empty.case.load(*RECORDS)
    return empty


def answer(exchange, who: str, entry: str, value: str) -> None:
    """Book, send, answer and collect one task."""
    [task] = exchange.book((who, entry)).tasks
    exchange.sending().tick(exchange.epoch)
    exchange.market.give(exchange.token(task), who, value)
    exchange.collecting().tick(exchange.epoch)


def result(exchange, entry: str):
    """(state, value, valid answers in it, wanted) of an entry."""
    found = exchange.rows(
        "SELECT state, value, (SELECT count(*) FROM answer a WHERE counted = 1"
        " AND valid = 1 AND a.entry_id = r.entry_id), wanted"
        " FROM result r WHERE entry_id = ?",
        exchange.case.entries[entry],
    )
    if not found:
        return None
    state, value, answers, wanted = found[0]
    return state, None if value is None else bytes(value).decode(), answers, wanted


def test_one_answer_is_accepted_where_one_is_wanted(exchange):
    answer(exchange, "ann", "r1.d", " Anna ")
    assert exchange.assembly().tick(exchange.epoch) == 1
    assert result(exchange, "r1.d") == ("answered", "Anna", 1, 1)
    assert 0.5 < exchange.ask("SELECT confidence FROM result") < 1


def test_a_second_answer_is_waited_for(exchange):
    answer(exchange, "ann", "r1.a", "Anna")
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.a") == ("open", None, 1, 2)
    answer(exchange, "bob", "r1.a", " Anna ")
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.a") == ("answered", "Anna", 2, 2)


def test_disagreement_asks_for_one_more_and_the_third_settles_it(exchange):
    assembly = exchange.assembly()
    answer(exchange, "ann", "r1.a", "Anna")
    answer(exchange, "bob", "r1.a", "Berta")
    assembly.tick(exchange.epoch)
    state, _, answers, wanted = result(exchange, "r1.a")
    assert (state, answers, wanted) == ("open", 2, 3)
    answer(exchange, "cem", "r1.a", "Anna ")
    assembly.tick(exchange.epoch)
    assert result(exchange, "r1.a") == ("answered", "Anna", 3, 2)


def test_disagreement_at_the_last_showing_is_a_conflict_with_a_best_guess(exchange):
    for who, value in (
        ("ann", "Main Stret"),
        ("bob", "Main Street"),
        ("cem", "Main Streets 5"),
    ):
        answer(exchange, who, "r1.a", value)  # t = 3: the last showing
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.a") == ("conflict", "Main Street", 3, 2)


def test_what_waits_for_nothing_any_more_is_a_conflict(exchange):
    assembly = exchange.assembly()
    for who in ("ann", "bob"):
        exchange.book((who, "r1.a"))
    builders.end_tasks(exchange.store)
    answer(exchange, "cem", "r1.a", "Anna")
    assembly.tick(exchange.epoch)  # the third and last showing: no second answer
    assert result(exchange, "r1.a")[0] == "conflict"


def test_a_task_in_flight_is_waited_for_though_no_showing_is_left(exchange):
    assembly = exchange.assembly()
    exchange.book(("ann", "r1.a"))
    exchange.book(("bob", "r1.a"))
    answer(exchange, "cem", "r1.a", "Anna")
    assembly.tick(exchange.epoch)
    assert result(exchange, "r1.a")[0] == "open"
    builders.end_tasks(exchange.store)
    assembly.tick(exchange.epoch)  # no new answer: the sweep finds it
    assert result(exchange, "r1.a")[0] == "conflict"


def test_an_invalid_answer_does_not_count(exchange):
    answer(exchange, "ann", "r1.b", "many")
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.b") == ("open", None, 0, 1)


def test_a_late_answer_reopens_what_was_settled(exchange):
    assembly = exchange.assembly()
    answer(exchange, "ann", "r1.d", "Anna")
    assembly.tick(exchange.epoch)
    answer(exchange, "bob", "r1.d", "Berta")
    assembly.tick(exchange.epoch)
    assert result(exchange, "r1.d")[0] == "open"
    assert result(exchange, "r1.d")[3] == 3


def test_every_answer_is_looked_at_once(exchange):
    answer(exchange, "ann", "r1.d", "Anna")
    assembly = exchange.assembly()
    assert [assembly.tick(exchange.epoch) for _ in range(3)] == [1, 0, 0]
    assert exchange.ask("SELECT min(counted) FROM answer") == 1


def test_workers_who_agree_are_trusted_more_than_the_one_who_does_not(exchange):
    exchange.case.load(*((f"x{n}", f"q{n}", 1, "c") for n in range(12)))
    for n in range(12):
        asks = [(who, f"x{n}.c") for who in ("ann", "bob", "cem")]
        tasks = exchange.book(*asks, per_message=1).tasks
        for (who, _), task in zip(asks, tasks, strict=True):
            value = "blue" if who == "cem" else "red"
            exchange.market.give(exchange.token(task), who, value)
    exchange.collecting().tick(exchange.epoch)
    exchange.assembly().tick(exchange.epoch)
    quality = dict(exchange.rows("SELECT name, quality FROM account"))
    assert quality["ann"] > 0.8 > 0.6 > quality["cem"]
    assert quality["dan"] == 0.8


def test_looking_again_at_what_is_open_teaches_nothing_and_writes_nothing(exchange):
    answer(exchange, "ann", "r1.a", "Anna")
    answer(exchange, "bob", "r1.a", "Berta")
    assembly = exchange.assembly()
    assembly.tick(exchange.epoch)
    before = exchange.rows("SELECT name, quality FROM account ORDER BY id")
    at = exchange.ask("SELECT at FROM result")
    for _ in range(5):
        exchange.clock.advance(seconds=1)
        assembly.tick(exchange.epoch)
    assert exchange.rows("SELECT name, quality FROM account ORDER BY id") == before
    assert exchange.ask("SELECT at FROM result") == at


# -- records, whole again --------------------------------------------------------


def load(exchange, columns: list[str], *cells: list[str]) -> None:
    """Load the records with the cells that they have in a file."""
    with exchange.store.write() as tx:
        records.run(tx, "default", 1)
        assert records.begin_load(tx, 1, "f.csv", json.dumps(columns), 1) == 1
    for facts, row in zip(RECORDS, cells, strict=False):
        exchange.case.load(facts, cells=row)


@pytest.fixture
def answered(empty):
    """r1: a is illegible, b answered, c in conflict, d a formula; r2: all open."""
    exchange = empty
    load(exchange, ["id", "d", "page"], ["r1", "=1+1", "p.png"], ["r2", "007"])
    for who in ("ann", "bob"):
        answer(exchange, who, "r1.a", "[illegible]")
    answer(exchange, "ann", "r1.b", "7.50")
    answer(exchange, "ann", "r1.d", "=2+2")
    for who, value in (("ann", "red"), ("bob", "blue")):
        answer(exchange, who, "r1.c", value)
    exchange.assembly().tick(exchange.epoch)
    entry = exchange.case.entries["r1.c"]
    builders.save_results(exchange.store, [entry], "conflict", value=b"red")
    return exchange


COLUMNS = list(Layout.of(["id", "d", "page"], "abcd").names)


def test_jsonl_has_the_loaded_columns_then_each_asked_field(answered):
    stream = io.BytesIO()
    done = write_records(answered.store, "default", stream, "jsonl")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert list(first) == COLUMNS
    assert (first["id"], first["d"], first["page"]) == ("r1", "=1+1", "p.png")
    assert (first["a"], first["a_state"]) == ("", "illegible")
    assert (first["b"], first["b_state"]) == ("7.50", "answered")
    assert first["c_state"] == "conflict"
    assert (first["d_answer"], first["d_state"]) == ("=2+2", "answered")
    assert 0 < first["b_confidence"] <= 1
    assert (second["d"], second["page"]) == ("007", "")
    assert (second["a_state"], second["c_state"]) == ("open", "empty")
    assert second["a_confidence"] is None
    assert (done.records, done.whole) == (2, 0)
    assert done.states == {
        "answered": 2, "illegible": 1, "not_present": 0, "conflict": 1, "open": 2,
        "empty": 2,
    }  # fmt: skip


def test_a_record_is_whole_without_an_answer_to_a_field_that_is_never_sent(store):
    """b has an ask and send = false: its loaded value stands, and no column is added."""
    case = Case(store)
    sent = 'a = { ask = "transcribe" }\nb = { ask = "transcribe", send = false }'
    case.apply(policy("", sent))
    with store.write() as tx:
        loaded = records.run(tx, "default", 0).id
        records.begin_load(tx, loaded, "f.csv", '["id", "b"]', 0)
    case.load(("r1", "p1", 1, "ab"), cells=("r1", "A123"))
    builders.save_results(store, [case.entries["r1.a"]], value=b"Anna")
    stream = io.BytesIO()
    done = write_records(store, "default", stream, "jsonl")
    written = json.loads(stream.getvalue())
    assert list(written) == list(Layout.of(["id", "b"], "a").names)
    assert (written["id"], written["b"], written["a"]) == ("r1", "A123", "Anna")
    assert (written["a_confidence"], written["a_state"]) == (1.0, "answered")
    assert (done.records, done.whole) == (1, 1)
    assert {state: n for state, n in done.states.items() if n} == {"answered": 1}


def test_safety_17_csv_guards_formulas_and_can_be_told_not_to(answered, tmp_path):
    target = tmp_path / "out.csv"
    reassemble(answered.store, "default", target)
    rows = list(csv.DictReader(io.StringIO(target.read_text("utf-8"))))
    assert list(rows[0]) == COLUMNS
    assert (rows[0]["d"], rows[0]["d_answer"]) == ("'=1+1", "'=2+2")
    reassemble(answered.store, "default", target, excel_guard=False)
    rows = list(csv.DictReader(io.StringIO(target.read_text("utf-8"))))
    assert (rows[0]["d"], rows[1]["d"]) == ("=1+1", "007")


def test_parquet_keeps_texts_as_texts(answered, tmp_path):
    target = tmp_path / "out.parquet"
    reassemble(answered.store, "default", target)
    frame = pl.read_parquet(target)
    assert frame.columns == COLUMNS
    assert frame["d"].to_list() == ["=1+1", "007"]
    assert frame["b_confidence"].dtype == pl.Float64
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == [
        "out.parquet"
    ]


def test_safety_33_the_file_is_private_and_replaced_whole(answered, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    before = os.umask(0)
    try:
        reassemble(answered.store, "default", target)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o600
    assert "old" not in target.read_text()


def test_names_that_are_taken_give_way(empty):
    exchange = empty
    load(exchange, ["id", "a_state", "d", "d_answer"], ["1", "x", "y", "z"])
    stream = io.BytesIO()
    write_records(exchange.store, "default", stream, "jsonl")
    first = json.loads(stream.getvalue().splitlines()[0])
    assert (first["a_state"], first["a_state_"]) == ("x", "open")
    assert (first["d_answer"], first["d_answer_"]) == ("z", "")


def test_a_run_without_records_is_an_empty_table(exchange, tmp_path):
    builders.add_run(exchange.store, "n")
    for name in ("o.csv", "o.jsonl", "o.parquet"):
        assert reassemble(exchange.store, "n", tmp_path / name).records == 0
    assert pl.read_parquet(tmp_path / "o.parquet").height == 0
    header = ",".join(Layout.of([], "abcd").names)
    assert (tmp_path / "o.csv").read_text().splitlines() == [header]


def test_what_can_not_be_written_says_why_and_leaves_nothing(answered, tmp_path):
    with pytest.raises(NotFound, match="no run"):
        reassemble(answered.store, "other", tmp_path / "o.csv")
    with pytest.raises(Invalid, match="'xlsx'"):
        reassemble(answered.store, "default", tmp_path / "o.xlsx")
    with pytest.raises(Invalid, match="streamed as csv or jsonl"):
        write_records(answered.store, "default", io.BytesIO(), "parquet")
    with pytest.raises(Invalid, match="cannot be written"):
        reassemble(answered.store, "default", Path("/nowhere/o.csv"))
    assert [path for path in tmp_path.iterdir() if ".o" in path.name] == []


def test_records_before_a_policy_are_a_clear_error(sqlite_store):
    builders.add_run(sqlite_store, "n")
    with pytest.raises(Conflict, match="no policy"):
        write_records(sqlite_store, "n", io.BytesIO(), "csv")


def test_records_split_and_put_together_are_the_same(answered):
    stream = io.BytesIO()
    write_records(answered.store, "default", stream, "csv")
    text = io.StringIO(stream.getvalue().decode(), newline="")
    for row in csv.DictReader(text):
        cells = json.loads(
            bytes(
                answered.ask(
                    "SELECT columns FROM record WHERE id = ?",
                    answered.case.records[row["id"]],
                )
            )
        )
        got = [row["id"], row["d"].removeprefix("'"), row["page"]]
        assert got[: len(cells)] == cells
