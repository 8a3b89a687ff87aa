"""From one version to the next, and who is one worker: as an operator types it."""

import json

import pytest

from dispatcher.ledger.book import Asks, Push, book
from dispatcher.store import open_store
from tests import sql

POLICY = """
version = 1
name = "forms"
[budget]
t = 3
[entity.form]
key = "rx_id"
[entity.form.fields]
patient_name = { ask = "transcribe" }
disease = { ask = "transcribe" }
drug = { ask = "transcribe" }
[property.all]
of = ["patient_name", "disease", "drug"]
"""
STRICT = POLICY + '[property.two]\nof = ["patient_name", "disease"]\n'
FORMS = "rx_id,patient_name,disease,drug\n" + "".join(
    f"f{i},Canary {i},Secret {i},Secret pill {i}\n" for i in (1, 2)
)
FOUR = ("folder/ann", "folder/bob", "inhouse/cat", "inhouse/dan")


@pytest.fixture
def house(run, set_up, tmp_path):
    set_up(POLICY, FORMS, FOUR)
    (tmp_path / "strict.toml").write_text(STRICT)
    return run


def ask(tmp_path, statement):
    with open_store(tmp_path / "dispatcher.db") as store, store.read() as tx:
        return sql.rows(tx, statement)


def show(tmp_path, *asks):
    """Book (account number, entry number) pairs, as the daemon would."""
    with open_store(tmp_path / "dispatcher.db") as store, store.write() as tx:
        entries = [row[0] for row in sql.rows(tx, "SELECT id FROM entry ORDER BY id")]
        accounts = [
            row[0] for row in sql.rows(tx, "SELECT id FROM account ORDER BY id")
        ]
        book(
            tx,
            [Asks(accounts[who], [entries[what]]) for who, what in asks],
            delivery=Push(),
            at=1_800_000_000_000_000,
            cause="test",
        )


def test_a_store_without_a_policy_lists_none(run):
    assert run("init").code == 0
    assert json.loads(run("--json", "policy", "list").out)["versions"] == []
    assert run("policy", "list").code == 0


def test_diff_tells_what_a_file_says_otherwise(house):
    done = house("policy", "diff", "strict.toml")
    assert done.code == 0
    assert done.out == "+ property two  of patient_name+disease\n"
    assert house("policy", "diff", "strict.toml", "--exit-code").code == 9
    same = house("policy", "diff", "--exit-code")
    assert (same.code, same.out) == (0, "")
    assert "the same" in same.err


def test_plan_changes_nothing_and_tells_all(house, tmp_path):
    show(tmp_path, (0, 0), (0, 1))
    assert house("plan").code == 0
    assert house("plan", "apply").code == 0
    done = house("--json", "policy", "apply", "--dry-run", "strict.toml")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["active"], told["version"]) == (1, 2)
    assert (told["past"], told["by_rule"]) == (1, {"two": 1})
    assert told["sets"] == [{"adversary": "a1", "rule": "two", "record": "f1"}]
    assert (told["open_tasks"]["unsafe"], told["open_tasks"]["unsent"]) == (2, 2)
    assert told["planned"] == 4
    assert told["verdict"] == "SOLVED"
    assert ask(tmp_path, "SELECT count(*) FROM policy") == [(1,)]
    text = house("policy", "apply", "--dry-run", "strict.toml", "--breaches").out
    assert "--accept-past 1" in text
    assert "a1  two  record f1" in text


def test_plan_says_how_many_planned_showings_the_version_refuses(house, tmp_path):
    for worker in FOUR[2:]:
        assert house("workers", "block", worker).code == 0
    assert house("plan").code == 0
    assert house("plan", "apply").code == 0
    told = json.loads(
        house("--json", "policy", "apply", "--dry-run", "strict.toml").out
    )
    assert told["planned"] == 6
    one = POLICY.replace("[entity.form]", "tau = 0.3\n[entity.form]").replace(
        'of = ["patient_name", "disease", "drug"]',
        'of = ["patient_name", "disease", "drug"]\n'
        'disclosure = { kind = "step", at = 2 }',
    )
    (tmp_path / "one.toml").write_text(one)
    told = json.loads(house("--json", "policy", "apply", "--dry-run", "one.toml").out)
    assert told["refused"] >= 2  # six fields, two workers, one of each record
    assert told["verdict"] == "INFEASIBLE"
    assert told["needed"] == 3
    assert "no: " in house("policy", "apply", "--dry-run", "one.toml").out


def test_apply_needs_the_number_the_version_and_a_reason(house, tmp_path):
    show(tmp_path, (0, 0), (0, 1))
    for words, code, error in (
        ([], 6, "E204"),
        (["--accept-past", "2", "--reason", "x"], 6, "E204"),
        (["--accept-past", "1"], 2, "E002"),
        (["--if-active", "v7"], 1, "E006"),
        (["--if-active", "seven"], 2, "E002"),
    ):
        done = house("policy", "apply", "strict.toml", *words)
        assert (done.code, done.out) == (code, ""), words
        assert f"error[{error}]" in done.err
    done = house(
        *("policy", "apply", "strict.toml", "--if-active", "v1"),
        *("--accept-past", "1", "--reason", "DPO 2026-31"),
    )
    assert done.code == 0, done.err
    assert "version 2 is in force" in done.out
    assert ask(tmp_path, "SELECT state, count(*) FROM task GROUP BY state") == [
        ("returned", 2)
    ]
    listed = json.loads(house("--json", "policy", "list").out)["versions"]
    assert [one["accepted_past"] for one in listed] == [0, 1]
    assert listed[1]["reason"] == "DPO 2026-31"
    assert listed[0]["until"] == listed[1]["from"]
    assert house("policy", "show", "1").out == POLICY
    assert house("audit", "export", "evidence").code == 0
    verdict = house("audit", "verify", "evidence")
    assert verdict.code == 0, verdict.out


def test_a_merge_is_shown_first_and_then_done(house, tmp_path):
    assert house("policy", "apply", "strict.toml").code == 0
    show(tmp_path, (0, 0), (1, 1))
    words = ["workers", "merge", "folder/ann", "folder/bob", "--reason", "same phone"]
    tried = house(*words, "--dry-run")
    assert tried.code == 0
    assert "1 set becomes complete" in tried.out
    assert "2 open tasks may not be finished: 2 will be recalled" in tried.out
    assert ask(tmp_path, "SELECT count(DISTINCT adversary_id) FROM account") == [(4,)]
    refused = house(*words, "--yes")
    assert (refused.code, refused.out) == (6, "")
    unasked = house("--no-input", *words, "--accept-past", "1")
    assert unasked.code == 2
    done = house(*words, "--accept-past", "1", "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith("merged: 1 worker ended; a1 goes on")
    seen = house("workers", "show", "folder/bob")
    assert "folder/ann" in seen.out
    assert "same phone" in seen.out
    assert "two: nearest f = 1" in seen.out
    assert house("audit", "export", "evidence").code == 0
    assert house("audit", "verify", "evidence").code == 0


def test_a_file_of_groups_merges_each_of_them(house, tmp_path):
    (tmp_path / "groups.csv").write_text(
        "worker,group\nfolder/ann,one\ninhouse/cat,one\nfolder/bob,two\n"
        "inhouse/dan,two\nnobody,two\nfolder/ann,\n"
    )
    words = ["workers", "merge", "--from", "groups.csv"]
    assert house(*words).code == 2
    tried = house(*words, "--reason", "agency list", "--dry-run")
    assert tried.code == 3
    assert "groups.csv:6: " in tried.err
    assert "groups.csv:7: it names no group" in tried.err
    done = house(*words, "--reason", "agency list", "--yes")
    assert done.code == 3
    assert ask(tmp_path, "SELECT count(DISTINCT adversary_id) FROM account") == [(2,)]
    assert house("workers", "groups").code == 0
    assert house("workers", "merge", "--reason", "x").code == 2
    both = ("folder/ann", "folder/bob", "--from", "groups.csv")
    assert house("workers", "merge", *both, "--reason", "x").code == 2
    missing = ("--from", "none.csv", "--reason", "x")
    assert house("workers", "merge", *missing).code == 5


def test_a_file_of_groups_that_names_a_stranger_changes_nothing(house, tmp_path):
    (tmp_path / "groups.jsonl").write_text(
        '{"worker": "folder/ann", "group": "g"}\n{"worker": "x/zoe", "group": "g"}\n'
    )
    done = house("workers", "merge", "--from", "groups.jsonl", "--reason", "x", "--yes")
    assert done.code == 1
    assert ask(tmp_path, "SELECT count(DISTINCT adversary_id) FROM account") == [(4,)]


def test_a_worker_shows_what_it_would_be_refused_next(house, tmp_path):
    assert house("policy", "apply", "strict.toml").code == 0
    show(tmp_path, (0, 0))
    told = json.loads(house("--json", "workers", "show", "folder/ann").out)
    assert (told["fields_seen"], told["records_seen"], told["open_tasks"]) == (1, 1, 1)
    assert [(one["rule"], one["refused"]) for one in told["exposure"]] == [
        ("two", ["disease"]),
        ("all", []),
    ]
    assert house("workers", "show", "folder/zoe").code == 1


def test_a_record_named_without_a_field_is_told_its_fields(house):
    told = house("explain", "f1")
    assert told.code == 0
    for field in ("patient_name", "disease", "drug"):
        assert field in told.out
    for words in (["f1", "--who"], ["f1", "--worker", "folder/ann"]):
        assert house("explain", *words).code == 2, words
    assert house("explain", "f9").code == 1
    assert house("explain", "f9", "--who").code == 1


def test_a_plan_is_the_latest_draft_where_none_is_named(house):
    assert house("plan", "apply").code == 1
    assert house("plan").code == 0
    assert house("plan").code == 0
    assert house("plan", "show").out.startswith("plan 2: draft")
    assert "plan 2 is applied: 6 showings are planned now" in house("plan", "apply").out
    assert "no draft" in house("plan", "show").err
    assert "plan     2 in force   6 showings planned" in house("status").out


def test_an_algorithm_that_can_not_is_refused_with_those_that_can(house):
    done = house("plan", "--algorithm", "makespan")
    assert (done.code, done.out) == (2, "")
    assert "makespan cannot plan this backlog" in done.err
    assert "cp-sat" in done.err
    assert "makespan" not in done.err.partition("take one of")[2]


def test_apply_warns_of_rules_that_no_auditor_can_check(house, monkeypatch):
    """The verifier knows linear rules only: the rule of a whole set is named."""
    assert "WARN" not in house("policy", "apply", "strict.toml").err
    monkeypatch.setattr("dispatcher.operations.policies.CHECKED", ("linear",))
    done = house("policy", "apply")
    assert done.code == 0
    assert "WARN no auditor can check" in done.err
    assert "NOT CHECKED; the gate keeps its limit" in done.err
