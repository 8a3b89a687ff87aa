"""`dispatcher` alone says where the operator is, and which command comes next."""

import json

import pytest

from dispatcher.operations.next_step import Step, find_position
from dispatcher.operations.workspace import Workspace
from dispatcher.store import lease, open_store
from tests import builders, edits
from tests.unit.dispatcher.surfaces.cli.test_tree import wrong_in

FAR = 9 * 10**15


@pytest.fixture
def here(run):
    """What `dispatcher` alone says here; every command that it names exists."""

    def position():
        done = run("--json")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        for line in (found["next"], *found["also"]):
            assert line.startswith("dispatcher ")
            assert wrong_in(line.partition("    ")[0]) == []
        words = run()
        assert f"next: {found['next']}\n" in words.out
        assert found["text"] in words.out
        return Step(found["step"]), found["next"]

    return position


def test_the_first_hour_step_by_step(run, here, tmp_path):
    assert here() == (Step.NO_STORE, "dispatcher init")
    run("init")
    policy = tmp_path / "policy.toml"
    assert here()[0] is Step.EXAMPLE_POLICY
    policy.unlink()
    assert here()[0] is Step.NO_POLICY_FILE
    policy.write_text(builders.FORMS.replace("version = 1", "version = 99"))
    assert here() == (Step.INVALID_POLICY, "dispatcher policy check policy.toml")
    policy.write_text(builders.FORMS)
    assert here() == (Step.POLICY_NOT_APPLIED, "dispatcher policy apply")
    run("policy", "apply")
    assert here() == (Step.NO_RECORDS, "dispatcher records load FILE")
    (tmp_path / "forms.csv").write_text("id,name,disease\nf1,Ann,gout\n")
    run("records", "load", "forms.csv")
    assert here()[0] is Step.NO_WORKERS
    run("workers", "add", "folder/ann", "folder/bob")
    assert here() == (Step.NOT_RUNNING, "dispatcher up")


@pytest.fixture
def loaded(set_up, tmp_path):
    set_up(
        builders.FORMS, "id,name,disease\nf1,Ann,gout\n", ("folder/ann", "folder/bob")
    )
    return tmp_path


def test_what_needs_the_operator_comes_before_the_work(loaded, run, here):
    with open_store(loaded / "dispatcher.db") as store, store.write() as tx:
        lease.take(tx, lease.SHARD, "host-a/b/4121/9", FAR, FAR + 1)
    assert here() == (Step.WORKING, "dispatcher status --watch 5")
    run("pause", "--reason", "lunch")
    assert here() == (Step.NEEDS_YOU, "dispatcher status")


def test_a_policy_file_that_is_not_in_force_is_noted(loaded, run):
    assert "policy diff" not in run().out
    (loaded / "policy.toml").write_text(builders.FORMS + "# changed\n")
    assert "dispatcher policy diff" in run().out


def test_all_answered_is_the_end(loaded, here):
    with open_store(loaded / "dispatcher.db") as store:
        builders.save_results(store, [1, 2])
    assert here() == (Step.DONE, "dispatcher records reassemble -o whole.csv")


def test_a_field_that_is_never_sent_leaves_the_record_whole(set_up, run, here):
    ask = 'disease = { ask = "transcribe", '
    kept = builders.FORMS.replace(ask, ask + "send = false, ").split("[property")[0]
    workers = ("folder/ann",)
    set_up(kept, "id,name,disease\nf1,Ann,gout\n", workers)
    assert "1 record, 1 worker, 0 of 1 field done" in run().out
    with open_store("dispatcher.db") as store:
        builders.save_results(store, [1], value=b"Ann")
    assert here()[0] is Step.DONE
    assert "1 record, 1 worker, 1 of 1 field done" in run().out
    done = run("records", "reassemble", "-o", "whole.csv")
    assert "1 record, 1 whole  (1 answered)" in done.out


@pytest.mark.parametrize(
    ("found", "next_"),
    [("0000", "dispatcher db upgrade --backup"), ("9999", "dispatcher --version")],
)
def test_a_store_of_another_program_is_not_opened(loaded, found, next_):
    with open_store(loaded / "dispatcher.db") as store, store.write() as tx:
        edits.set_schema(tx, found)
    position = find_position(Workspace(loaded))
    assert (position.step, position.next) == (Step.OTHER_SCHEMA, next_)
