"""``dispatcher doctor``: what is wrong is found, told how to mend, and named to nobody."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from dispatcher.store import settings
from dispatcher.surfaces.cli.context import CliContext, wall_clock
from tests import edits
from tests.integration.ledger_cases import PAIR, Case, policy

CANARIES = ("canary-key", "canary-person", "canary-worker", "canary-value")


@pytest.fixture
def doctor(run):
    """Run the command; its exit status is looked at."""

    def look(*words, code):
        done = run("doctor", *words)
        assert done.code == code, done.out + done.err
        return done

    return look


@pytest.fixture
def place(run, tmp_path) -> Path:
    """A directory with a store in which something was shown, a moment ago."""
    assert run("init").code == 0
    with CliContext(tmp_path).open_store() as store:
        case = Case(store, wall_clock() - 60_000_000)
        case.apply(policy(PAIR))
        case.add("x/canary-worker")
        facts = ("canary-key", "canary-person", 1, "abcd")
        case.load(facts, shown=b"canary-value")
        case.book(("x/canary-worker", "canary-key.a canary-key.c"))
        with store.write() as tx:
            settings.note_moment(tx, settings.LEDGER_VERIFIED, wall_clock())
    return tmp_path


@contextmanager
def edited(place):
    with CliContext(place).open_store() as store, store.write() as tx:
        yield tx


def test_safety_33_a_file_that_others_may_read_fails_with_its_cure(place, doctor):
    (place / "dispatcher.db").chmod(0o644)
    done = doctor("--only", "permissions", code=1)
    assert "FAIL  a file is open to others (mode 0644)" in done.out
    assert f"fix: chmod go= {place / 'dispatcher.db'}" in done.out


def test_a_message_that_waits_too_long_fails(place, doctor):
    with edited(place) as tx:
        edits.age_messages(tx, attempts=4)
    done = doctor("--only", "queue", code=1)
    assert "FAIL  outbox: oldest message" in done.out
    assert "4 tries   [x]" in done.out


def test_a_summary_that_was_written_past_the_gate_fails(place, doctor):
    with edited(place) as tx:
        edits.miscount(tx)
    done = doctor("--only", "ledger", code=1)
    assert "the store is not as its ledger says: exposure_count (a1)" in done.out


def test_a_ledger_that_nothing_guards_from_changes_fails(place, doctor):
    with edited(place) as tx:
        edits.drop_guard(tx, "ledger_line_no_update")
        edits.drop_guard(tx, "payment_event_no_delete")
    seen = doctor(code=1)
    assert "no ledger_line_no_update, payment_event_no_delete" in seen.out


def test_a_list_of_erasures_with_a_broken_line_fails(place, doctor):
    (place / "erasures.jsonl").write_text("canary-person\n{}\n")
    (place / "erasures.jsonl").chmod(0o600)
    seen = doctor(code=1)
    assert "the list of erasures cannot be read (E003)" in seen.out
    assert "canary" not in seen.out


def test_a_head_that_is_no_lines_hash_fails(place, doctor):
    with edited(place) as tx:
        edits.break_heads(tx)
    done = doctor("--only", "ledger", code=1)
    assert "a chain's last lines do not follow from each other" in done.out


# -- the shipped ledger ----------------------------------------------------------------


def test_a_fresh_store_whose_ledger_is_shipped_has_nothing_to_be_told_of(place, doctor):
    done = doctor("--only", "ledger", code=0)
    assert "WARN" not in done.out
    assert "ok    shipped ledger: 1 file, has every line of the store" in done.out


def test_a_store_that_was_not_verified_for_a_day_is_told_of(place, doctor):
    with CliContext(place).open_store() as store, store.write() as tx:
        settings.note_moment(tx, settings.LEDGER_VERIFIED, 1)
    done = doctor("--only", "ledger", code=0)
    assert "WARN  the whole ledger was not verified within 24 h" in done.out


def cut_last_line(place) -> bytes:
    """Take the last line off the shipped ledger, as if its writer had died before it."""
    [file] = (place / "ledger").glob("ledger-*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    return whole


def test_lines_that_were_not_shipped_are_told_and_appended_when_asked(place, doctor):
    whole = cut_last_line(place)
    done = doctor("--only", "ledger", code=0)
    assert "WARN  the shipped ledger lacks 1 lines of the store" in done.out
    [file] = (place / "ledger").glob("ledger-*.jsonl")
    assert file.read_bytes() != whole

    told = doctor("--only", "ledger", "--fix", "--dry-run", code=0)
    assert "would append 1 lines to" in told.err
    asked = doctor("--only", "ledger", "--fix", code=2)
    assert "--yes" in asked.err
    assert file.read_bytes() != whole

    mended = doctor("--only", "ledger", "--fix", "--yes", code=0)
    assert "done: append 1 lines to" in mended.err
    assert "has every line of the store" in mended.out
    assert file.read_bytes() == whole


def test_open_files_are_closed_by_fix_and_nothing_else_is_changed(place, doctor):
    for name in ("dispatcher.db", "ledger"):
        (place / name).chmod(0o755)
    done = doctor("--only", "permissions", "--fix", "--yes", code=0)
    assert done.err.count("done: close") == 2
    assert (place / "ledger").stat().st_mode & 0o777 == 0o700
    assert (place / "dispatcher.db").stat().st_mode & 0o077 == 0
    assert "ok    files are for their owner alone" in done.out


def test_what_is_not_safe_to_mend_is_left_to_the_operator(place, doctor):
    with edited(place) as tx:
        edits.miscount(tx)
    done = doctor("--only", "ledger", "--fix", "--yes", code=1)
    assert "there is nothing that is safe to fix" in done.err
    assert "the store is not as its ledger says: exposure_count (a1)" in done.out


@pytest.mark.parametrize(
    ("hurt", "code"),
    [
        ("foreign", "E133"),
        ("gap", "E134"),
        ("ahead", "E132"),
        ("missing", "E134"),
    ],
)
def test_a_shipped_ledger_that_is_not_this_stores_own_fails(place, doctor, hurt, code):
    folder = place / "ledger"
    [file] = folder.glob("ledger-*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    if hurt == "foreign":
        head = json.loads(lines[0]) | {"store": "0" * 64}
        lines[0] = (json.dumps(head) + "\n").encode()
    elif hurt == "gap":
        del lines[-2]
    elif hurt == "ahead":
        last = json.loads(lines[-1])
        after = last | {"seq": last["seq"] + 1, "prev": last["hash"]}
        lines.append((json.dumps(after) + "\n").encode())
    else:
        file = file.rename(folder / "ledger-000002.jsonl")
    before = b"".join(lines)
    file.write_bytes(before)
    done = doctor("--only", "ledger", "--fix", "--yes", code=1)
    assert f"FAIL  the shipped ledger cannot be gone on with ({code})" in done.out
    assert "fix: " in done.out
    assert file.read_bytes() == before


def test_a_folder_that_can_not_be_written_fails(place, doctor):
    (place / "ledger").rename(place / "elsewhere")
    (place / "ledger").write_text("a file is in the way")
    done = doctor("--only", "ledger", code=1)
    assert "FAIL  the shipped ledger cannot be gone on with" in done.out
    assert "may not be written" in done.out


def test_a_ledger_that_is_shipped_nowhere_is_told_of(place, doctor):
    with (place / "dispatcher.toml").open("a") as file:
        file.write('[ledger]\nship = ""\n')
    done = doctor("--only", "ledger", code=0)
    assert "WARN  the ledger is not shipped" in done.out


def test_a_clock_behind_the_ledger_fails(place, doctor):
    with edited(place) as tx:
        edits.date_chains(tx, 4_000_000_000_000_000)
    done = doctor("--only", "clock", code=1)
    assert "behind the ledger's last line" in done.out


def test_a_connector_that_can_not_be_opened_fails(place, doctor):
    with (place / "dispatcher.toml").open("a") as file:
        file.write('[connectors.nowhere]\nmore = "x"\n')
    done = doctor("--only", "connectors", code=1)
    assert "cannot be opened (E" in done.out
    assert "nowhere" in done.out


def test_a_directory_without_a_store_says_so(doctor):
    done = doctor(code=1)
    assert "FAIL  the store cannot be opened (E" in done.out
    assert "dispatcher init" in done.out


def test_the_bundle_and_all_that_is_said_name_nobody(place, doctor):
    with edited(place) as tx:
        edits.age_messages(tx, error="canary-value")
    done = doctor("--bundle", str(place / "bundle.json"), code=1)
    bundle = place / "bundle.json"
    assert bundle.stat().st_mode & 0o777 == 0o600
    text = bundle.read_text()
    for canary in CANARIES:
        assert canary not in text + done.out + done.err
    for name in (str(place), "inhouse", "folder"):
        assert name not in text
    found = json.loads(text)
    assert found["schema"] == "dispatcher.doctor-bundle/1"
    assert {"part", "severity", "text"} == set(found["findings"][0])


def test_the_bundle_is_not_written_over_the_store(place, doctor):
    done = doctor("--bundle", str(place / "dispatcher.db"), code=2)
    assert "in use by this very command" in done.err
