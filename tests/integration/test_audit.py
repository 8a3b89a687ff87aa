"""Evidence written by the engine, checked by the verifier as a process of its own."""

import json
import os
import shutil
import stat

import pytest

from dispatcher.access import Act
from dispatcher.core.errors import Conflict
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.chains import seal
from tests import edits
from tests.integration.ledger_cases import GROUPS, HISTORY, PAIR, Case, policy


@pytest.fixture
def case(store):
    """Two versions, groups that join, entries that come again, seals in between."""
    made = Case(store)
    made.add("x/ann", "x/O'Hara \\ 🦉")
    made.apply(policy(PAIR, groups=GROUPS))
    made.add("x/g1", "x/1h")
    made.load(("r1", "p1", 0, "abcd"), ("r2", "p1", 5, "abc"), ("r3", "p2", 9, "ab"))
    made.book(("x/ann", "r1.a r2.a r3.b"), ("x/O'Hara \\ 🦉", "r1.b"))
    with store.write() as tx:
        seal(tx, at=made.tick())
    made.book(("x/g1", "r1.a"), ("x/1h", "r1.a r1.c"))
    made.apply(policy(PAIR + HISTORY, groups=GROUPS, name="two"))
    made.add("x/gh")
    made.book(("x/gh", "r1.a r1.d"))
    made.load(("r4", "p3", 1, "ab"))
    made.book(("x/ann", "r4.a"))
    return made


def test_the_verifier_agrees_with_what_the_engine_wrote(case, tmp_path, clock):
    bundle = export(case.store, tmp_path / "one", clock=clock)
    verdict = verify(bundle.folder, [bundle.root])
    assert (verdict.status, verdict.first[:8]) == (0, "VERIFIED"), verdict.text
    assert json.loads(verdict.first[9:]) == bundle.counts
    assert bundle.counts["entries"] == 11
    assert bundle.counts["joins"] == 1
    assert bundle.counts["exposures"] == 10
    cert = json.loads((bundle.folder / "cert.json").read_text("utf-8"))
    # Two entries of p1 within an hour: (2 x 0.25)^2 / 0.6; the third would be 0.9375.
    assert cert["worst"]["history"]["share"] == "5/12"
    assert cert["worst"]["a-b"] == {"share": "0"}


def test_no_value_and_no_key_of_a_record_is_in_the_evidence(case, tmp_path, clock):
    bundle = export(case.store, tmp_path / "one", clock=clock)
    text = b"".join(path.read_bytes() for path in bundle.folder.glob("*.json*"))
    for secret in (b'"r1"', b"shown", b'"p1"'):
        assert secret not in text


def test_a_second_export_repeats_what_was_said(case, tmp_path, clock):
    one = export(case.store, tmp_path / "one", clock=clock)
    case.book(("x/ann", "r4.a"))
    two = export(case.store, tmp_path / "two", clock=clock)
    assert verify(two.folder, [one.root, two.root]).status == 0
    for name in ("keys.jsonl", "policy-1.toml", "policy-2.toml"):
        assert (two.folder / name).read_bytes() == (one.folder / name).read_bytes()


def test_an_empty_store_has_evidence_too(store, tmp_path, clock):
    case = Case(store)
    assert verify(export(store, tmp_path / "none", clock=clock).folder).status == 0
    case.apply(policy(PAIR))
    case.add("x/ann")
    assert verify(export(store, tmp_path / "one", clock=clock).folder).status == 0


def test_means_are_judged_alike(store, tmp_path, clock):
    case = Case(store)
    rules = '[property.m]\nof = ["a", "b"]\naverage = 0.25\ndisclosure = "linear"\n'
    case.apply(policy(rules, budget="average = 0.2"))
    case.add("x/ann")
    case.load(*((f"r{i}", None, None, "ab") for i in range(5)))
    everything = " ".join(f"r{i}.{f}" for i in range(5) for f in "ab")
    assert case.book(("x/ann", everything), skip=True).new == 2  # 2 x 0.5 / 5 = 0.2
    assert verify(export(store, tmp_path / "one", clock=clock).folder).status == 0


SUM = (
    '[property.sum]\nof = ["a", "b", "c"]\n'
    'disclosure = { kind = "linear", weights = { a = 0.4, b = 0.4, c = 0.2 } }\n'
)


def worst(bundle):
    verdict = verify(bundle.folder)
    assert verdict.status == 0, verdict.text
    return json.loads((bundle.folder / "cert.json").read_text("utf-8"))["worst"]


def test_a_join_may_be_the_worst_moment(store, tmp_path, clock):
    # 0.4 each, and 0.8 together: reached by the join, the fourth line of its chain.
    case = Case(store)
    case.apply(policy(SUM, groups=GROUPS))
    case.add("x/g1", "x/1h")
    case.load(("r1", None, None, "abc"))
    case.book(("x/g1", "r1.a"), ("x/1h", "r1.b"))
    case.add("x/gh")
    found = worst(export(store, tmp_path / "e", clock=clock))
    assert found == {"sum": {"share": "4/5", "chain": "a1", "seq": 4}}


def test_the_end_of_trust_may_be_the_worst_moment(store, tmp_path, clock):
    case = Case(store)
    groups = (
        '[workers.groups.g]\nmembers = ["x/g*"]\ntrusted = ["sum"]\n'
        '[workers.groups.h]\nmembers = ["x/g1", "x/h"]'
    )
    case.apply(policy(SUM, groups=groups))
    case.add("x/g1")
    case.load(("r1", None, None, "abc"))
    case.book(("x/g1", "r1.a r1.b"))
    assert worst(export(store, tmp_path / "e", clock=clock)) == {"sum": {"share": "0"}}
    case.add("x/h")
    found = worst(export(store, tmp_path / "f", clock=clock))
    assert found == {"sum": {"share": "4/5", "chain": "a1", "seq": 4}}


def test_a_new_version_may_be_the_worst_moment(store, tmp_path, clock):
    case = Case(store)
    case.apply(policy(SUM))
    case.add("x/ann", "x/bob")
    case.load(("r1", None, None, "abc"))
    case.book(("x/bob", "r1.a"), ("x/ann", "r1.c"))
    case.apply(policy(SUM + "tau = 0.5", name="two"))
    found = worst(export(store, tmp_path / "e", clock=clock))
    assert found == {"sum": {"share": "4/5", "chain": "a2", "seq": 2}}


@pytest.mark.parametrize("edit", edits.LEDGER_EDITS)
def test_an_edit_behind_the_engine_is_found(case, tmp_path, clock, edit):
    good = export(case.store, tmp_path / "good", clock=clock)
    with case.store.write() as tx, edits.unguarded(tx):
        assert edits.LEDGER_EDITS[edit](tx)
    try:
        bad = export(case.store, tmp_path / "bad", clock=clock)
    except Conflict:
        return  # what cannot be read is not exported as if it could
    assert verify(bad.folder, [good.root]).status == 2


def test_a_folder_with_something_in_it_is_left_alone(case, tmp_path, clock):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(Conflict):
        export(case.store, tmp_path, clock=clock)
    assert (tmp_path / "mine").read_text() == "x"
    (tmp_path / "e.partial").mkdir()
    with pytest.raises(Conflict):
        export(case.store, tmp_path / "e", clock=clock)


def test_safety_33_evidence_is_its_owners_alone_under_any_umask(case, tmp_path, clock):
    before = os.umask(0)
    try:
        folder = export(case.store, tmp_path / "one", clock=clock).folder
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_edited_bundle_is_broken(case, tmp_path, clock):
    bundle = export(case.store, tmp_path / "one", clock=clock)
    for name in ("ledger.jsonl", "keys.jsonl", "cert.json", "policy-2.toml"):
        copy = tmp_path / name
        shutil.copytree(bundle.folder, copy)
        text = (copy / name).read_bytes()
        (copy / name).write_bytes(text[:-4] + b"#" + text[-3:])
        assert verify(copy).status == 2


def test_safety_36_the_audit_log_goes_along_and_no_edit_of_it_goes_unseen(
    case, tmp_path, clock
):
    for number in range(3):
        act = Act("ann", "command", f"runs.{number}", clock, reason="asked")
        act.end(case.store)
    bundle = export(case.store, tmp_path / "one", clock=clock)
    assert bundle.acts == 3
    verdict = verify(bundle.folder, heads=[bundle.last_act, bundle.root])
    assert verdict.status == 0
    assert f"ACTS 3, the last {bundle.last_act}\n" in verdict.text
    path = bundle.folder / "audit.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for edited in (
        [lines[0].replace("ann", "eve"), *lines[1:]],
        [lines[0], lines[2]],
        [lines[1], lines[0], lines[2]],
        lines[1:],
        [lines[0].replace('"at"', ' "at"'), *lines[1:]],
        [*lines, lines[2]],
    ):
        path.write_text("".join(edited))
        found = verify(bundle.folder)
        assert (found.status, '"file":"audit.jsonl"' in found.text) == (2, True)
    path.write_text("".join(lines[:2]))  # cut off: found by whoever noted its end
    assert verify(bundle.folder).status == 0
    assert verify(bundle.folder, heads=[bundle.last_act]).status == 2
    path.unlink()
    assert verify(bundle.folder).status == 0
