"""``dispatcher ledger`` and its parts: checks, anchors, proofs of who saw what."""

import copy
import io
import json
import sqlite3

import psycopg
import pytest

from dispatcher.core.errors import Conflict, Invalid, LedgerAhead, LedgerBroken
from dispatcher.ledger import proofs
from dispatcher.ledger.chains import seal
from dispatcher.ledger.shipping import attach, checking, store_id
from dispatcher.ledger.shipping.anchors import anchor, anchored, check_anchor
from dispatcher.surfaces.cli.start import main
from tests import edits, sql
from tests.integration.ledger_cases import PAIR, Case, policy, set_up_one_record


@pytest.fixture
def case(store, tmp_path):
    """Two workers, three records; some showings are sealed, one is not."""
    attach(store, tmp_path / "shipped")
    made = Case(store)
    made.apply(policy(PAIR))
    made.add("x/ann", "x/bob", "x/cat")
    made.load(("r1", "p1", 0, "abcd"), ("r2", "p1", 5, "abc"), ("r3", "p2", 9, "ab"))
    made.book(("x/ann", "r1.a r2.a r3.b"), ("x/bob", "r1.b"))
    made.book(("x/cat", "r3.a"), ("x/ann", "r1.c"))
    with store.write() as tx:
        seal(tx, at=made.tick())
    return made


def entry_ids(case, *names):
    return [case.entries[name] for name in names]


def proof_of(case, *names, subject=None):
    with case.store.read() as tx:
        return proofs.prove(tx, entry_ids(case, *names), subject)


def test_a_proof_names_who_saw_what_and_checks_by_itself(case):
    document = json.loads(json.dumps(proof_of(case, "r1.a", "r1.b", "r1.c")))
    found = proofs.check(document)
    assert [line["account"] for line in found] == ["x/ann", "x/bob", "x/ann"]
    with case.store.read() as tx:
        assert document["seal"]["root"] == checking.check_store(tx).root


def test_a_field_that_nobody_saw_has_a_proof_without_showings(case):
    assert proofs.check(proof_of(case, "r2.b")) == []


def changed(document):
    """Every document that differs from this one in one leaf."""

    def walk(node, path):
        if isinstance(node, dict):
            for name, part in node.items():
                yield from walk(part, [*path, name])
        elif isinstance(node, list):
            for place, part in enumerate(node):
                yield from walk(part, [*path, place])
        else:
            yield path, node

    for path, leaf in list(walk(document, [])):
        copied = copy.deepcopy(document)
        part = copied
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = leaf + 1 if isinstance(leaf, int) else f"{leaf}0"
        yield path, copied


def test_no_changed_proof_shows_the_same(case):
    document = json.loads(json.dumps(proof_of(case, "r1.a", "r3.b")))
    root, told = document["seal"]["root"], proofs.check(document)
    for path, other in changed(document):
        try:
            same = proofs.check(other) == told and other["seal"]["root"] == root
        except Invalid:
            continue
        # The size of the tree is judged with the path; a name asked for, by its line.
        assert not same or path[0] in ("size", "entries"), path


def test_what_is_newer_than_the_last_seal_is_not_proven_yet(case):
    case.book(("x/bob", "r1.d"))
    with pytest.raises(Conflict, match="newer than the last seal"):
        proof_of(case, "r1.d")
    assert len(proofs.check(proof_of(case, "r1.a"))) == 1


def test_files_and_store_are_checked_alike(case, tmp_path):
    case.book(("x/bob", "r1.d"))
    with case.store.write() as tx:
        seal(tx, at=case.tick())
    files = checking.check_files(tmp_path / "shipped", store=store_id(case.store))
    with case.store.read() as tx:
        found = checking.check_store(tx)
        assert checking.compare(tx, files) == []
    assert (found.lines, found.seals, found.root) == (files.lines, 2, files.root)
    assert found.heads == files.heads
    assert checking.missing_roots(found, [found.root, "00" * 32]) == ["00" * 32]


@pytest.mark.parametrize("member", ["account", "entry", "hash", "root", "extra"])
def test_safety_36_an_edited_line_of_the_files_is_found(case, tmp_path, member):
    path = tmp_path / "shipped" / "ledger-000001.jsonl"
    lines = path.read_bytes().splitlines(True)
    for number, line in enumerate(lines):
        members = json.loads(line)
        if "chain" in members and (member in members or member == "extra"):
            members[member] = "0" * 64
            lines[number] = (json.dumps(members) + "\n").encode()
            break
    path.write_bytes(b"".join(lines))
    with pytest.raises(LedgerBroken):
        checking.check_files(tmp_path / "shipped")


def test_safety_36_a_line_taken_from_the_end_of_the_store_is_found(case):
    with case.store.write() as tx:
        edits.shift_ends(tx, -1, "a1")
    with case.store.read() as tx, pytest.raises(LedgerBroken):
        checking.check_store(tx)


def test_roots_are_anchored_once_each(case, tmp_path):
    file, owner = tmp_path / "roots.jsonl", store_id(case.store)
    assert anchor(case.store, file, owner=owner) == 1
    assert anchor(case.store, file, owner=owner) == 0
    case.book(("x/bob", "r1.d"))
    with case.store.write() as tx:
        seal(tx, at=case.tick())
    assert anchor(case.store, file, owner=owner) == 1
    with case.store.read() as tx:
        assert set(anchored(file, owner=owner)) == checking.check_store(tx).roots
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Invalid, match="anchor"):
        anchored(file, owner="i-other")
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"at":1,"ro')  # a crash cut it off
    case.book(("x/bob", "r2.b"))
    with case.store.write() as tx:
        seal(tx, at=case.tick())
    assert anchor(case.store, file, owner=owner) == 1
    assert check_anchor(case.store, file, owner=owner) == 3
    file.write_text("nonsense\n")
    with pytest.raises(Invalid, match="anchor"):
        anchor(case.store, file, owner=owner)


@pytest.mark.parametrize("change", ["another root", "a later seal"])
def test_a_store_without_an_anchored_root_anchors_nothing_more(case, tmp_path, change):
    file, owner = tmp_path / "roots.jsonl", store_id(case.store)
    anchor(case.store, file, owner=owner)
    line = json.loads(file.read_text())
    line |= {"root": "0" * 64} if change == "another root" else {"seq": 10**6}
    file.write_text(json.dumps(line) + "\n")
    case.book(("x/bob", "r1.d"))
    with case.store.write() as tx:
        seal(tx, at=case.tick())
    before = file.read_bytes()
    for look in (anchor, check_anchor):
        with pytest.raises(LedgerAhead, match="lacks 1 roots"):
            look(case.store, file, owner=owner)
    assert file.read_bytes() == before


# -- exposures cannot be changed, by triggers and by privileges ---------------------


@pytest.mark.parametrize("statement", edits.LEDGER_REWRITES)
def test_safety_36_no_update_and_no_delete_of_an_exposure(case, statement, store_url):
    if case.store.dialect == "sqlite":
        connection = sqlite3.connect(store_url)
        with pytest.raises(sqlite3.DatabaseError, match="append-only"):
            connection.execute(statement)
        connection.close()
    else:
        with (
            psycopg.connect(store_url) as connection,
            pytest.raises(psycopg.Error, match="append-only"),
        ):
            connection.execute(statement)


GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
REVOKE UPDATE, DELETE, TRUNCATE ON ledger_line, policy, key_lines FROM {role};
"""


def test_a_role_without_the_privilege_works_and_can_not_change_the_ledger(
    postgres_own_url, postgres_cluster, tmp_path
):
    # As docs/howto/operators/ledger.md says: the owner migrates, the daemon's role works.
    from dispatcher.store import open_store

    with psycopg.connect(postgres_own_url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS dispatcher_daemon")
        owner.execute("CREATE ROLE dispatcher_daemon LOGIN")
        owner.execute(GRANTS.format(role="dispatcher_daemon"))
    try:
        url = postgres_own_url.replace(
            f"//{postgres_cluster.user}@", "//dispatcher_daemon@"
        )
        with open_store(url) as store:
            attach(store, tmp_path / "shipped")
            made = Case(store)
            made.apply(policy(PAIR))
            made.add("x/ann")
            made.load(("r1", "p1", 0, "ab"))
            made.book(("x/ann", "r1.a"))
            with store.write() as tx:
                seal(tx, at=made.tick())
        for words in edits.FORBIDDEN:
            with (
                psycopg.connect(url) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(words)
    finally:
        with psycopg.connect(postgres_own_url, autocommit=True) as owner:
            owner.execute("DROP OWNED BY dispatcher_daemon")
            owner.execute("DROP ROLE dispatcher_daemon")


# -- as an operator meets it ---------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a directory with a store of one sealed showing."""
    from dispatcher.ledger.book import Asks, Push, book
    from dispatcher.surfaces.cli.context import CliContext

    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main(list(words))
        told = capsys.readouterr()
        return code, told.out, told.err

    set_up_one_record(tmp_path, call)
    with CliContext().open_store() as store, store.write() as tx:
        account = sql.value(tx, "SELECT id FROM account")
        entry = sql.value(tx, "SELECT min(id) FROM entry")
        book(tx, [Asks(account, [entry])], delivery=Push(), at=9, cause="test")
    return call


def test_the_commands_tell_check_and_prove(run, tmp_path, monkeypatch):
    assert run("ledger", "root")[0] == 1  # nothing was sealed yet
    code, root, _ = run("ledger", "root", "--seal")
    assert code == 0
    code, out, _ = run("--json", "ledger", "verify", "--head", root.strip())
    told = json.loads(out)
    assert (code, told["ok"], told["root"]) == (0, True, root.strip())
    assert told["shipped"] == told["lines"]
    code, out, _ = run("ledger", "verify", "--head", "ab" * 32)
    assert code == 1
    assert "MISSING root" in out
    code, out, _ = run("ledger", "tail", "--limit", "2")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == [
        "exposure",
        "seal",
    ]
    code, out, _ = run("ledger", "export")
    assert len(out.splitlines()) == told["lines"]
    assert "Canary" not in out
    code, out, _ = run("ledger", "prove", "r1.a", "-o", "proof.json")
    assert code == 0
    assert "folder/ann" in out
    code, out, err = run("audit", "verify", "proof.json", "--head", root.strip())
    assert (code, "folder/ann" in out) == (0, True), err
    assert run("audit", "verify", "proof.json", "--head", "cd" * 32)[0] == 5
    monkeypatch.setattr("sys.stdin", io.StringIO("pat\n"))
    code, out, _ = run("--json", "ledger", "prove", "--key-from", "-")
    assert code == 0
    assert len(proofs.check(json.loads(out))) == 1
    assert "pat" not in json.loads(out)["subject"]


def test_words_that_make_no_sense_are_told(run, tmp_path):
    assert run("ledger", "prove")[0] == 2
    assert run("ledger", "prove", "r9.a")[0] == 1
    assert run("audit", "verify", "nothing.json")[0] == 5
    (tmp_path / "dispatcher.toml").write_text('[ledger]\nship = ""\n')
    assert run("ledger", "tail")[0] == 1
    assert run("ledger", "verify")[0] == 0
