"""Files of made-up questions, by the commands that take them."""

import contextlib
import json
import sqlite3

import pytest

from dispatcher.store import events, gold_questions, open_store
from dispatcher.store.vault import KeyFile
from tests import builders
from tests.integration.serving_house import png

POLICY = """
version = 1
name = "forms"

[budget]
t = 3

[entity.form]
key = "id"

[entity.form.fields]
name = { ask = "transcribe", redact = ["phone"] }
kind = { ask = "choose", choices = ["flu", "gout"] }
parts = { ask = "spans", question = "Which?" }
scan = { ask = "transcribe", image = "page" }
age = {}
"""


@pytest.fixture
def place(run, tmp_path):
    """A store with one record; the commands' directory."""
    assert run("init").code == 0
    (tmp_path / "policy.toml").write_text(POLICY)
    assert run("policy", "apply").code == 0
    (tmp_path / "page.png").write_bytes(png(1))
    (tmp_path / "forms.csv").write_text(
        "id,name,kind,parts,page,age\nr1,Canary Smith,flu,take one,page.png,36\n"
    )
    assert run("records", "load", "forms.csv").code == 0
    return tmp_path


def write(place, name: str, *lines: str) -> str:
    (place / name).write_text("\n".join(lines) + "\n")
    return name


def store_of(place):
    key_file = KeyFile(place / "dispatcher.key")
    return open_store(place / "dispatcher.db", key_file=key_file)


@contextlib.contextmanager
def opened(place):
    database = sqlite3.connect(place / "dispatcher.db")
    with contextlib.closing(database), database:
        yield database


def count(place, statement: str):
    with opened(place) as database:
        return database.execute(statement).fetchone()[0]


def test_a_test_is_set_listed_and_dropped(run, place):
    file = write(place, "test.csv", "shown,answer", "Jo Doe,Jo Doe", "Al Roe,Al Roe")
    done = run("questions", "add", "name", file, "--purpose", "test", "--pass", "0.5")
    assert (done.code, done.out) == (0, "name: 2 questions added, 50% right passes\n")
    told = json.loads(run("questions", "list", "--json").out)
    assert told["questions"] == [
        {"field": "name", "purpose": "test", "questions": 2, "pass": 0.5, "passed": 0,
         "failed": 0, "open": 0, "answered": None, "right": None, "left": None}
    ]  # fmt: skip
    assert run("questions", "drop", "name", "--purpose", "test").code == 0
    assert json.loads(run("questions", "list", "--json").out)["questions"] == []
    assert run("questions", "drop", "name", "--purpose", "test").code == 1
    assert count(place, "SELECT count(*) FROM event WHERE action LIKE 'test.%'") == 2
    by_us = "SELECT count(*) FROM event WHERE action LIKE 'test.%' AND actor = 'cli'"
    assert count(place, by_us) == 2


def test_a_test_set_anew_replaces_the_earlier_one(run, place):
    for name in ("Jo", "Al"):
        file = write(place, "test.csv", "shown,answer", f"{name},{name}")
        assert run("questions", "add", "name", file, "--purpose", "test").code == 0
    assert (
        count(place, "SELECT count(*) FROM gold_question WHERE retired_at IS NULL") == 1
    )


def test_gold_that_is_there_is_not_added_twice(run, place):
    file = write(place, "gold.jsonl", '{"shown": "Jo", "answer": "Jo"}')
    assert (
        run("questions", "add", "name", file, "--purpose", "gold").out
        == "name: 1 question added\n"
    )
    file = write(
        place,
        "gold.jsonl",
        '{"shown":"Jo","answer":"Jo"}',
        '{"shown":"Al","answer":"Al"}',
    )
    assert run("questions", "add", "name", file, "--purpose", "gold").out == (
        "name: 1 question added, 1 were there already\n"
    )
    told = json.loads(run("questions", "list", "--json").out)
    assert told["questions"] == [
        {"field": "name", "purpose": "gold", "questions": 2, "pass": None,
         "passed": None, "failed": None, "open": None, "answered": 0, "right": 0,
         "left": 2}
    ]  # fmt: skip
    assert (
        run("questions", "drop", "name", "--purpose", "gold").out
        == "name: 2 questions dropped\n"
    )


def test_gold_that_was_asked_of_as_many_as_may_see_a_field_is_used_up(run, place):
    """t = 3: three adversaries."""
    run("workers", "add", "inhouse/ann", "inhouse/bob", "inhouse/cat")
    file = write(place, "gold.csv", "shown,answer", "Jo,Jo")
    assert run("questions", "add", "name", file, "--purpose", "gold").code == 0
    for n in (1, 2, 3):
        assert "used up" not in run("status").out
        with store_of(place) as store:
            builders.answer_gold(store, 1, n, correct=0)
    assert "the made-up questions of name are used up" in run("status").out
    assert run("questions", "drop", "name", "--purpose", "gold").code == 0
    assert "used up" not in run("status").out


def test_what_is_shown_is_masked_as_a_records_field_is(run, place):
    file = write(
        place, "gold.csv", "shown,answer", '"Jo, call +49 171 1234567","Jo, call"'
    )
    assert run("questions", "add", "name", file, "--purpose", "gold").code == 0
    shown = bytes(count(place, "SELECT shown FROM gold_question"))
    assert b"1234567" not in shown
    assert shown.startswith(b"Jo, call ")


def test_a_picture_is_encoded_anew_as_a_page_is(run, place):
    (place / "made-up.png").write_bytes(png(2))
    file = write(place, "gold.csv", "image,answer", "made-up.png,Jo")
    assert run("questions", "add", "scan", file, "--purpose", "gold").code == 0
    assert count(place, "SELECT media FROM gold_question") == "image/png"


def test_passages_are_copied_word_for_word(run, place):
    file = write(place, "gold.csv", "shown,answer", "take two daily,two")
    assert run("questions", "add", "parts", file, "--purpose", "gold").code == 0
    assert bytes(count(place, "SELECT answer FROM gold_question")) == b"[[5, 8]]"


def test_a_question_taken_from_a_record_is_refused(run, place):
    file = write(place, "gold.csv", "shown,answer", "Jo,Jo", "Canary Smith,Smith")
    refused = run("questions", "add", "name", file, "--purpose", "gold")
    assert refused.code == 5
    assert "1 row shows what a loaded record shows (line 3)" in refused.err
    assert count(place, "SELECT count(*) FROM gold_question") == 0


def test_a_picture_taken_from_a_record_is_refused(run, place):
    file = write(place, "gold.csv", "image,answer", "page.png,Jo")
    assert run("questions", "add", "scan", file, "--purpose", "gold").code == 5


def test_equal_values_of_a_field_with_few_are_accepted_by_their_number(run, place):
    file = write(place, "gold.csv", "shown,answer", "flu,flu", "gout,gout")
    assert run("questions", "add", "kind", file, "--purpose", "gold").code == 5
    assert (
        run(
            "questions", "add", "kind", file, "--purpose", "gold", "--accept-equal", "2"
        ).code
        == 5
    )
    assert (
        run(
            "questions", "add", "kind", file, "--purpose", "gold", "--accept-equal", "1"
        ).code
        == 0
    )


@pytest.mark.parametrize(
    ("field", "lines", "told"),
    [
        ("name", ["shown,answer"], "no question"),
        ("name", ["text,answer", "Jo,Jo"], "no column `shown`"),
        ("scan", ["shown,answer", "Jo,Jo"], "no column `image`"),
        ("scan", ["image,answer", "../x.png,Jo"], "leads out of"),
        ("scan", ["image,answer", "gone.png,Jo"], "missing or unreadable"),
        ("name", ["shown,answer", "Jo,Jo", " ,Al"], "line 3 is no made-up question"),
        ("name", ["shown,answer", "Jo,"], "its answer is none"),
        ("kind", ["shown,answer", "cold,cold"], "none of the choices"),
        ("parts", ["shown,answer", "take two,three"], "is not in the text"),
        ("name", ["shown,answer", "Jo,Jo", "Jo,Al"], "shows what an earlier row shows"),
        ("name", ["shown,answer", "Jo,Jo", "Al,Al", "Cy,Cy,Cy"], "line 4 is no"),
        ("age", ["shown,answer", "1,1"], "nobody is asked"),
        ("agee", ["shown,answer", "1,1"], "has no field agee"),
    ],
)
def test_a_bad_file_is_refused_whole_and_says_where(run, place, field, lines, told):
    file = write(place, "bad.csv", *lines)
    for purpose in ("gold", "test"):
        refused = run("questions", "add", field, file, "--purpose", purpose)
        assert refused.code in (1, 5), refused.err
        assert told in " ".join(refused.err.split())
    assert count(place, "SELECT count(*) FROM gold_question") == 0
    assert count(place, "SELECT count(*) FROM field_test") == 0


@pytest.mark.parametrize("share", ["0", "1.01", "-1", "nan"])
def test_a_share_that_nobody_or_everybody_reaches_is_refused(run, place, share):
    file = write(place, "test.csv", "shown,answer", "Jo,Jo")
    assert (
        run("questions", "add", "name", file, "--purpose", "test", "--pass", share).code
        == 5
    )


def test_without_a_policy_there_is_no_field_to_ask(run, tmp_path):
    run("init")
    file = write(tmp_path, "test.csv", "shown,answer", "Jo,Jo")
    assert run("questions", "add", "name", file, "--purpose", "gold").code != 0


def test_a_stopped_worker_is_told_of_and_lifted(run, place):
    assert run("workers", "add", "inhouse/ann").code == 0
    file = write(place, "test.csv", "shown,answer", "Jo,Jo")
    assert run("questions", "add", "name", file, "--purpose", "test").code == 0
    with store_of(place) as store:
        builders.rate(store, "inhouse/ann", 0.41)
        with store.write() as tx:
            gold_questions.stand(
                tx, 1, 1, state="failed", attempt=1, asked=5, correct=3, ended_at=1
            )
            events.add_event(
                tx, 1, "floor", "account.stopped",
                {"account": 1, "by": "agreement", "percent": 41},
            )  # fmt: skip
        builders.move_account(store, "inhouse/ann", "stopped")
    needs = json.loads(run("status", "--json").out)["needs_you"]
    assert any("1 worker is below the accuracy floor" in told for told in needs)
    shown = run("workers", "show", "inhouse/ann").out
    assert "accuracy  0.41 by agreement, 0.80 by made-up questions (0 of 0" in shown
    assert "tests     name failed (3 of 5)" in shown
    assert "stopped   below the floor by agreement with others (41 %)" in shown
    assert run("workers", "unblock", "inhouse/ann").out == "inhouse/ann is active\n"
    told = json.loads(run("workers", "show", "inhouse/ann", "--json").out)
    assert (told["agreement"], told["stopped"]) == (0.8, None)
    assert count(place, "SELECT judged_from FROM account") > 0
