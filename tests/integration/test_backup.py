"""Backup and restore: what is kept, what is refused, and that nothing is forgotten."""

import json
import os
import shutil
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest

from dispatcher.core.canonical import canonical
from dispatcher.core.errors import (
    AnotherLeads,
    BackupBroken,
    Conflict,
    LedgerAhead,
    LedgerBroken,
    LedgerForeign,
    NeedsMigration,
    NotShipped,
    PastLimit,
    Refused,
    StoreEdited,
    Usage,
    WrongKey,
)
from dispatcher.core.keyring import make_keyring
from dispatcher.custody import backup
from dispatcher.custody.evidence import export, verify
from dispatcher.custody.in_place_recovery import keep_out
from dispatcher.custody.restore import Gap, Target, restore
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.exhausted_fields import unburn
from dispatcher.ledger.links import RuleFunction, functions_text
from dispatcher.ledger.shipping import attach, store_id
from dispatcher.ledger.shipping.anchors import anchor
from dispatcher.store import lease, migrations, open_store, pause
from dispatcher.store.dumping import Extent
from dispatcher.store.policies import TableRow
from dispatcher.store.vault import KeyFile
from policies.rules.belief import Beliefs, World
from policies.rules.tabulated import tabulate_beliefs
from tests import builders, edits, sql
from tests.integration.ledger_cases import GROUPS, HISTORY, PAIR, Case, policy

SECRET = Secret(passphrase=b"six words that nobody guesses")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A passphrase is stretched for long: not in tests."""
    monkeypatch.setattr("dispatcher.custody.sealed_file.SCRYPT_N", 2)


@pytest.fixture
def case(store, tmp_path):
    attach(store, tmp_path / "shipped")
    made = Case(store)
    made.apply(policy(PAIR + HISTORY, groups=GROUPS))
    made.add("x/ann", "x/bob")
    made.load(("r1", "p1", 0, "abcd"), ("r2", "p1", 5, "abc"), ("r3", "p2", 9, "ab"))
    made.book(("x/ann", "r1.a"), ("x/bob", "r1.b"))
    return made


def keep(case, tmp_path, secret=SECRET):
    return backup.create(case.store, tmp_path / "kept", secret, clock=case.tick)


def target(tmp_path, shipped="shipped", **more):
    key_file = KeyFile(tmp_path / "dispatcher.key")
    folder = None if shipped is None else tmp_path / shipped
    return Target(str(tmp_path / "restored.db"), key_file, folder, **more)


def back(case, tmp_path, gap=None, **more):
    return restore(
        next((tmp_path / "kept").glob("*.backup")),
        SECRET,
        target(tmp_path, **more),
        gap or Gap(),
        clock=case.tick,
    )


def resumed(restored, case):
    """The restored store, at work again as by ``dispatcher resume --all``."""
    with restored.write() as tx:
        assert pause.resume(tx, pause.ALL)
    return Case(restored, case.now, case.entries, case.accounts)


LINES = (
    "SELECT c.name, l.seq, l.kind, l.at, l.policy_version, a.connector, a.name,"
    " r.pseudonym, e.field_id, l.cause, l.showing, l.body, l.hash"
    " FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
    " LEFT JOIN account a ON a.id = l.account_id LEFT JOIN entry e ON e.id = l.entry_id"
    " LEFT JOIN record r ON r.id = e.record_id ORDER BY c.name, l.seq"
)
CHAINS = (
    "SELECT c.name, c.seq, c.head, c.at, c.policy_version, c.sealed_seq, s.name"
    " FROM chain c LEFT JOIN chain s ON s.id = c.survivor_id ORDER BY c.name"
)
OTHERS = (
    "SELECT version, name, source, sha256, applied_at FROM policy ORDER BY version",
    "SELECT seq, keys, relations, repeats FROM key_lines ORDER BY seq",
    "SELECT id, name FROM field ORDER BY id",
    "SELECT policy_version FROM policy_lock",
    "SELECT a.connector, a.name, c.name, a.groups FROM account a"
    " JOIN chain c ON c.id = a.adversary_id ORDER BY a.connector, a.name",
    "SELECT c.name, h.field_id, h.time, h.entries, r.pseudonym, s.pseudonym"
    " FROM exposure_count h JOIN chain c ON c.id = h.adversary_id"
    " LEFT JOIN record r ON h.unit_id = 2 * r.id"
    " LEFT JOIN subject s ON h.unit_id = 2 * s.id + 1"
    " ORDER BY c.name, h.field_id, h.time, h.entries, r.pseudonym, s.pseudonym",
)


def told(store):
    """All that the gate goes by, without the numbers of rows."""
    with store.read() as tx:
        found = [sql.rows(tx, text) for text in (LINES, CHAINS, *OTHERS)]
        assert compare(tx).differences == ()
    return [
        sorted(
            (tuple(bytes(c) if isinstance(c, memoryview) else c for c in row)
             for row in rows),
            key=repr,
        )
        for rows in found
    ]  # fmt: skip


def assert_same(case, tmp_path, clock):
    """The restored store is as the lost one, and goes on; its evidence is verified."""
    with open_store(tmp_path / "restored.db") as restored:
        assert told(restored) == told(case.store)
        attach(restored, tmp_path / "shipped")
        restored.settle(afresh=True)
        bundle = export(restored, tmp_path / "evidence", clock=clock)
        verdict = verify(bundle.folder)
        assert (verdict.status, verdict.first[:8]) == (0, "VERIFIED"), verdict.text


def test_a_backup_restores_the_store_of_its_moment(case, tmp_path, clock):
    made = keep(case, tmp_path)
    assert backup.verify(made.path, SECRET).lines == made.lines
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert back(case, tmp_path).replayed == 0
    with open_store(tmp_path / "restored.db") as restored, restored.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM task") == 2
        assert sql.value(tx, "SELECT count(*) FROM entry WHERE length(shown) > 0") == 9
    assert_same(case, tmp_path, clock)


def test_safety_39_a_restore_refuses_to_forget_and_a_replay_forgets_nothing(
    case, tmp_path, clock
):
    made = keep(case, tmp_path)
    case.book(("x/ann", "r2.a"))
    case.add("x/g1", "x/1h")
    case.book(("x/g1", "r3.a"), ("x/1h", "r3.a"))
    case.add("x/gh")  # joins the two
    case.load(("r4", "p3", 1, "ab"))
    case.book(("x/gh", "r4.a"))
    with case.store.write() as tx:
        unburn(tx, case.entries["r1.a"], extra=2, because="lost", at=case.tick())
        seal(tx, at=case.tick())
    case.apply(policy(PAIR, groups=GROUPS, name="two"))
    case.book(("x/bob", "r2.b"))
    with pytest.raises(LedgerAhead) as caught:
        back(case, tmp_path)
    assert caught.value.exit_status == 6
    newer = sum(row[1] for row in told(case.store)[1]) - made.lines
    assert (newer, caught.value.facts["lines"]) == (14, 14)
    assert not (tmp_path / "restored.db").exists()
    done = back(case, tmp_path, Gap(replay=True))
    assert done.replayed == 14
    assert_same(case, tmp_path, clock)


def test_the_gate_of_a_replayed_store_refuses_what_was_shown_after_the_backup(
    case, tmp_path
):
    keep(case, tmp_path)
    case.book(("x/ann", "r3.a"))
    back(case, tmp_path, Gap(replay=True))
    with open_store(tmp_path / "restored.db") as restored:
        again = resumed(restored, case)
        with pytest.raises(Refused):
            again.book(("x/ann", "r3.b"))
        booked = again.book(("x/bob", "r3.b"))
        assert booked.tasks[0] > 1_000_000_000  # no id that the lost store gave away


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_equals_a_store_that_was_never_lost(
    sqlite_store, tmp_path, clock, seed
):
    # The whole history again in another order of luck: loads, workers, joins by groups,
    # versions, seals and showings around a backup at a random moment.
    dice = np.random.default_rng(seed)
    attach(sqlite_store, tmp_path / "shipped", limit=4000)
    case = Case(sqlite_store)
    case.apply(policy(PAIR, groups=GROUPS, budget="t = 9"))
    case.add("x/ann")
    case.load(("r0", "p0", 0, "abcd"))
    moment = dice.integers(40)
    names = [f"x/{a}{b}" for a in "gkm" for b in "hjq"]
    dice.shuffle(names)
    for step in range(40):
        if step == moment:
            keep(case, tmp_path)
        deed = dice.integers(10)
        if deed == 0 and names:
            # Whoever joins what must stay apart is refused, and nothing was changed.
            with suppress(PastLimit):
                case.add(names.pop())
        elif deed == 1:
            who = f"p{dice.integers(4)}"
            letters = ("abcd", "ab", "cd")[dice.integers(3)]
            case.load((f"r{step + 1}", who, step, letters))
        elif deed == 2:
            with sqlite_store.write() as tx:
                seal(tx, at=case.tick())
        elif deed == 3 and step % 2:
            rules = PAIR + f'[property.n{step}]\nof = ["c", "d"]\ntau = 1\n'
            with suppress(PastLimit):
                case.apply(
                    policy(rules, groups=GROUPS, name=f"v{step}", budget="t = 9")
                )
        else:
            with sqlite_store.read() as tx:
                active = [f"{c}/{n}" for c, n in
                          sql.rows(tx, "SELECT connector, name FROM account")]  # fmt: skip
            who = dice.choice([name for name in active if name in case.accounts])
            what = dice.permutation(sorted(case.entries))[:3]
            case.book((str(who), " ".join(what)), skip=True)
    done = back(case, tmp_path, Gap(replay=True))
    assert done.lines == sum(row[1] for row in told(sqlite_store)[1])
    assert_same(case, tmp_path, clock)


def test_into_an_empty_database_of_the_other_kind(
    sqlite_store, postgres_database, tmp_path, clock
):
    attach(sqlite_store, tmp_path / "shipped")
    case = Case(sqlite_store)
    case.apply(policy(PAIR))
    case.add("x/ann")
    case.load(("r1", "p1", 0, "abcd"))
    path = keep(case, tmp_path).path
    case.book(("x/ann", "r1.a"))
    to = Target(postgres_database, KeyFile(tmp_path / "k"), tmp_path / "shipped")
    restore(path, SECRET, to, Gap(replay=True), clock=case.tick)
    with open_store(postgres_database) as restored:
        assert told(restored) == told(case.store)
        bundle = export(restored, tmp_path / "evidence", clock=clock)
        assert verify(bundle.folder).status == 0
    with pytest.raises(Conflict, match="already"):
        restore(path, SECRET, to, Gap(replay=True), clock=case.tick)


def test_a_backup_restored_twice_gives_no_number_twice_and_follows_no_old_leader(
    case, tmp_path
):
    keep(case, tmp_path)
    with case.store.write() as tx:  # the lost store had other leaders since
        for until in range(1, 9):
            lease.take(tx, 0, f"host/{until}", until, until)
    given, epochs = set(), {8}
    for _ in range(2):
        back(case, tmp_path, Gap(replay=True), force=True)
        with open_store(tmp_path / "restored.db") as restored:
            attach(restored, tmp_path / "shipped")
            again = resumed(restored, case)
            booked = again.book(("x/bob", "r2.c" if given else "r2.b"))
            mine = {*booked.tasks, *booked.messages}
            assert not mine & given
            given |= mine
            with restored.write() as tx:
                epoch = lease.take(tx, 0, "host/9", again.now, again.now)
            assert epoch not in epochs
            epochs.add(epoch)
        case.now = again.now


# -- sealed values, wrong keys, damage ------------------------------------------------


def test_with_the_key_file_of_a_sealed_store(tmp_path, clock):
    key_file = KeyFile(tmp_path / "dispatcher.key")
    with open_store(tmp_path / "d.db", create=True, key_file=key_file) as store:
        attach(store, tmp_path / "shipped")
        case = Case(store)
        case.apply(policy(PAIR))
        path = keep(case, tmp_path).path
        restore(path, SECRET, target(tmp_path), Gap(), clock=clock)
        assert (tmp_path / "restored.db").exists()
        other = KeyFile(tmp_path / "other.key")
        make_keyring(other.path, os.urandom)
        wrong = Target(str(tmp_path / "again.db"), other, tmp_path / "shipped")
        with pytest.raises(WrongKey) as caught:
            restore(path, SECRET, wrong, Gap(), clock=clock)
        assert caught.value.exit_status == 12
        assert not (tmp_path / "again.db").exists()
        for first in (other, KeyFile(tmp_path / "none.key")):
            named = Target(
                str(tmp_path / "again.db"),
                first,
                tmp_path / "shipped",
                force=True,
                other_key_file=key_file,
            )
            assert restore(path, SECRET, named, Gap(), clock=clock).other_key


@pytest.mark.parametrize(
    "secret",
    [Secret(passphrase=b"another passphrase"), Secret(keys={"ab": b"k" * 32})],
)
def test_a_wrong_key_is_told_from_damage(case, tmp_path, secret):
    path = keep(case, tmp_path).path
    with pytest.raises(WrongKey) as caught:
        backup.verify(path, secret)
    assert caught.value.exit_status == 12


def test_keys_of_a_key_file_seal_and_open(case, tmp_path):
    path = keep(case, tmp_path, Secret(keys={"new": b"n" * 32})).path
    both = Secret(keys={"newer": b"m" * 32, "new": b"n" * 32})
    assert backup.verify(path, both).lines == 6
    with pytest.raises(WrongKey):
        backup.verify(path, Secret(keys={"new": b"x" * 32}))


def test_no_truncation_and_no_changed_byte_is_taken(case, tmp_path):
    path = keep(case, tmp_path).path
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 701), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises((BackupBroken, WrongKey)):
            backup.verify(path, SECRET)
    for place in range(0, len(whole), 467):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises((BackupBroken, WrongKey)):
            backup.verify(path, SECRET)
    path.write_bytes(whole + b"more")
    with pytest.raises(BackupBroken):
        backup.verify(path, SECRET)


def test_a_backup_of_a_future_schema_says_what_to_do(case, tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "extent", lambda _: Extent(0, "0999"))
    path = keep(case, tmp_path).path
    monkeypatch.undo()
    with pytest.raises(NeedsMigration) as caught:
        restore(path, SECRET, target(tmp_path), Gap(), clock=case.tick)
    assert caught.value.exit_status == 13
    assert caught.value.facts == {"found": "0999", "wanted": migrations.HEAD}


# -- what is in the way ----------------------------------------------------------------


def test_what_is_there_is_replaced_only_by_force_and_kept_aside(case, tmp_path):
    keep(case, tmp_path)
    (tmp_path / "restored.db").write_bytes(b"something else")
    with pytest.raises(Conflict, match="already"):
        back(case, tmp_path)
    back(case, tmp_path, force=True)
    assert (tmp_path / "restored.db.replaced").read_bytes() == b"something else"
    open_store(tmp_path / "restored.db").close()


def test_no_second_restore_takes_the_place_of_what_the_first_put_aside(case, tmp_path):
    keep(case, tmp_path)
    (tmp_path / "restored.db").write_bytes(b"the original")
    (tmp_path / "restored.db.replaced-2-wal").write_bytes(b"the log of another")
    names = ["restored.db.replaced", "restored.db.replaced-3", "restored.db.replaced-4"]
    for name in names:
        assert back(case, tmp_path, force=True).aside == tmp_path / name
    assert (tmp_path / names[0]).read_bytes() == b"the original"
    for name in names[1:]:
        with open_store(tmp_path / name) as kept:
            assert told(kept) == told(case.store)


# -- a stale ledger --------------------------------------------------------------------


def copy_of_shipped(tmp_path):
    shutil.copytree(tmp_path / "shipped", tmp_path / "copy")


@pytest.mark.parametrize("gap", [Gap(), Gap(replay=True)])
def test_files_that_end_before_the_backup_are_a_stale_copy(case, tmp_path, gap):
    copy_of_shipped(tmp_path)
    case.book(("x/ann", "r2.a"))
    keep(case, tmp_path)
    case.book(("x/bob", "r2.b"))
    with pytest.raises(LedgerAhead, match="stale copy") as caught:
        back(case, tmp_path, gap, shipped="copy")
    assert (caught.value.exit_status, caught.value.facts["stale"]) == (6, 1)
    assert not (tmp_path / "restored.db").exists()
    assert back(case, tmp_path, Gap(replay=True)).replayed == 1


@pytest.mark.parametrize("later", [0, 1])
def test_files_that_end_before_an_anchored_root_are_a_stale_copy(
    case, tmp_path, clock, later
):
    """They end at the backup, or behind it: only a root from outside tells."""
    keep(case, tmp_path)
    if later:
        case.book(("x/ann", "r2.a"))
    copy_of_shipped(tmp_path)
    case.book(("x/bob", "r2.b"))
    with case.store.write() as tx:
        seal(tx, at=case.tick())
    roots = tmp_path / "roots"
    anchor(case.store, roots, owner=store_id(case.store))
    assert back(case, tmp_path, Gap(replay=bool(later)), shipped="copy").known_to
    (tmp_path / "restored.db").unlink()
    for gap in (Gap(replay=bool(later)), Gap(replay=True)):
        with pytest.raises(LedgerAhead, match="roots that were anchored") as caught:
            back(case, tmp_path, gap, shipped="copy", anchor=roots)
        assert caught.value.facts["roots"] == 1
        assert not (tmp_path / "restored.db").exists()
    since = Gap(shown_since=0)  # the roots are to be moved away, too
    with pytest.raises(LedgerAhead, match="roots that were anchored"):
        back(case, tmp_path, since, shipped="none", anchor=roots)
    assert back(case, tmp_path, since, shipped="none").recused
    (tmp_path / "restored.db").unlink()
    done = back(case, tmp_path, Gap(replay=True), anchor=roots)
    assert (done.anchored, done.replayed) == (1, later + 2)
    assert_same(case, tmp_path, clock)


def test_no_store_is_replaced_by_one_that_knows_less(case, tmp_path):
    """The store that is there tells what a stale copy of the ledger does not."""
    keep(case, tmp_path)
    copy_of_shipped(tmp_path)
    back(case, tmp_path)
    with open_store(tmp_path / "restored.db") as there:
        attach(there, tmp_path / "shipped")
        resumed(there, case).book(("x/bob", "r2.b"))
    with pytest.raises(LedgerAhead, match="knows 1 lines") as caught:
        back(case, tmp_path, force=True, shipped="copy")
    assert caught.value.exit_status == 6
    assert not list(tmp_path.glob("*.replaced*"))
    made = next((tmp_path / "kept").glob("*.backup"))
    with pytest.raises(LedgerAhead, match="knows 1 lines"):  # and before any assumption
        back(
            case,
            tmp_path,
            Gap(shown_since=backup.look(made).at),
            force=True,
            shipped="none",
        )
    assert back(case, tmp_path, Gap(replay=True), force=True).replayed == 1
    (tmp_path / "restored.db").unlink()
    back(case, tmp_path, shipped="copy")  # it was moved away by hand
    with open_store(tmp_path / "restored.db") as there:
        attach(there, tmp_path / "copy")
        resumed(there, case).book(("x/bob", "r2.c"))
    with pytest.raises(LedgerAhead, match="parts ways"):
        back(case, tmp_path, Gap(replay=True), force=True)


def test_an_empty_folder_of_a_ledger_that_was_moved_away_is_no_ledger(case, tmp_path):
    made = keep(case, tmp_path)
    (tmp_path / "empty").mkdir()
    back(case, tmp_path, Gap(shown_since=made.at), shipped="empty")


def test_a_store_that_a_daemon_leads_is_not_replaced(case, tmp_path):
    keep(case, tmp_path)
    back(case, tmp_path)
    with open_store(tmp_path / "restored.db") as led, led.write() as tx:
        lease.take(tx, 0, "here/1/2/3", case.now, case.now + 10**9)
    for force in (False, True):
        with pytest.raises(AnotherLeads) as caught:
            back(case, tmp_path, force=force)
        assert caught.value.exit_status == 11


@pytest.mark.parametrize("meanwhile", ["led", "gone on", "there"])
def test_what_became_of_the_target_while_a_backup_was_staged_counts(
    case, tmp_path, monkeypatch, meanwhile
):
    keep(case, tmp_path)
    if meanwhile != "there":
        back(case, tmp_path)
    place = tmp_path / "restored.db"

    def work(*about):
        if meanwhile == "there":
            place.write_bytes(b"something else")
            return keep_out(*about)
        with open_store(place) as there:
            if meanwhile == "led":
                with there.write() as tx:
                    lease.take(tx, 0, "here/1/2/3", case.now, case.now + 10**9)
            else:
                resumed(there, case).book(("x/bob", "r2.b"))
        return keep_out(*about)

    monkeypatch.setattr("dispatcher.custody.restore.keep_out", work)
    expected = {
        "led": (AnotherLeads, "leads"),
        "gone on": (LedgerAhead, "knows 1 lines"),
        "there": (Conflict, "already"),
    }
    error, text = expected[meanwhile]
    with pytest.raises(error, match=text):
        back(case, tmp_path, force=meanwhile != "there")
    assert place.exists()
    assert not list(tmp_path.glob("*.replaced*"))


def test_a_dry_run_changes_nothing(case, tmp_path):
    path = keep(case, tmp_path).path
    case.book(("x/ann", "r2.a"))
    before = sorted(p.name for p in tmp_path.rglob("*"))
    done = restore(
        path, SECRET, target(tmp_path), Gap(replay=True), clock=case.tick, dry_run=True
    )
    assert done.replayed == 1
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_the_ledger_of_another_store_is_not_replayed(case, tmp_path):
    keep(case, tmp_path)
    with open_store(tmp_path / "other.db", create=True) as other:
        attach(other, tmp_path / "foreign")
        Case(other).apply(policy(PAIR))
    with pytest.raises(LedgerForeign):
        back(case, tmp_path, Gap(replay=True), shipped="foreign")


def test_a_shipped_ledger_with_a_gap_is_not_replayed(case, tmp_path):
    keep(case, tmp_path)
    case.book(("x/ann", "r2.a"))
    case.book(("x/ann", "r2.c"))
    path = tmp_path / "shipped" / "ledger-000001.jsonl"
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    with pytest.raises(LedgerBroken):
        back(case, tmp_path, Gap(replay=True))
    assert not (tmp_path / "restored.db").exists()


def test_what_no_ledger_knows_holds_everything_until_somebody_has_looked(
    case, tmp_path
):
    keep(case, tmp_path)
    builders.block(case.store, "x/ann")  # after the backup; no line of the ledger tells
    builders.revoke_invites(case.store, "x/bob")
    back(case, tmp_path)
    with open_store(tmp_path / "restored.db") as restored:
        again = Case(restored, case.now, case.entries, case.accounts)
        for who in ("x/ann", "x/bob"):
            with pytest.raises(Refused) as refused:
                again.book((who, "r3.a"))
            assert "paused" in refused.value.why
        with restored.read() as tx:
            assert pause.paused(tx)["all"].reason.startswith("restored: blocks")
            assert (
                sql.value(tx, "SELECT min(invite) FROM account") > 2
            )  # no old link counts


@pytest.fixture
def mine(case, tmp_path):
    """The case, backed up before a version came whose rule is a user's function."""
    keep(case, tmp_path)
    asked = [frozenset(held) for held in ((), "a", "b", "ab")]
    levels = {held: Fraction(len(held), 2) for held in asked}
    rule = '[property.mine]\nof = ["a", "b"]\ntau = 0.9\ndisclosure = "plugin:mine"'
    case.apply(
        policy(rule, groups=GROUPS, name="two"),
        functions={"mine": RuleFunction("plugin:mine", "0" * 64, levels)},
    )
    case.book(("x/ann", "r2.a"))
    return case


@pytest.mark.parametrize("how", ["cut out", "changed", "of another version"])
def test_functions_of_rules_that_are_not_the_stores_own_are_not_replayed(
    mine, tmp_path, how
):
    """The line of the version has their digest: a smaller f would let more be shown."""
    (file,) = (tmp_path / "shipped").glob("*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    (at,) = [i for i, x in enumerate(lines) if x.startswith('{"attached":"functions"')]
    if how == "cut out":
        del lines[at]
    elif how == "changed":
        lines[at] = lines[at].replace("1/2", "1/3")
    else:
        lines[at] = canonical(json.loads(lines[at]) | {"seq": 1}) + "\n"
    assert "".join(lines) != file.read_text()
    file.write_text("".join(lines))
    with pytest.raises(LedgerBroken, match="does not read as it was written"):
        back(mine, tmp_path, Gap(replay=True))
    assert not (tmp_path / "restored.db").exists()


def test_functions_of_rules_are_replayed_with_their_version(mine, tmp_path):
    case = mine
    back(case, tmp_path, Gap(replay=True))
    with open_store(tmp_path / "restored.db") as restored:
        assert told(restored) == told(case.store)
        again = resumed(restored, case)
        with pytest.raises(Refused):
            again.book(("x/ann", "r2.b"))


@pytest.fixture
def tabled(case, tmp_path):
    """The case, backed up before a version came whose rule reads a table."""
    keep(case, tmp_path)
    rows = (("x", "y", 0), ("x", "z", 1), ("w", "y", 1), ("w", "z", 0))
    worlds = tuple(World(row[:2], row[2], Fraction(1, 4)) for row in rows)
    levels = tabulate_beliefs("information-gain", Beliefs(worlds), ["a", "b"])
    rule = '[property.mine]\nof = ["a", "b"]\ntau = 1.0\ndisclosure = '
    rule += '{ kind = "information-gain", table = "t.csv" }'
    case.apply(
        policy(rule, groups=GROUPS, name="two"),
        functions={"mine": RuleFunction("t.csv", "0" * 64, levels, worlds)},
    )
    return case


def test_tables_of_rules_are_replayed_and_in_the_evidence_again(tabled, tmp_path):
    back(tabled, tmp_path, Gap(replay=True))
    with open_store(tmp_path / "restored.db") as restored:
        assert told(restored) == told(tabled.store)
        bundle = export(restored, tmp_path / "evidence", clock=tabled.tick)
    assert verify(bundle.folder, [bundle.root]).status == 0
    assert len((bundle.folder / "tables-2.jsonl").read_text().splitlines()) == 4


def test_a_table_that_the_ledger_does_not_name_is_not_replayed(tabled, tmp_path):
    """The line of the version has its hash."""
    (file,) = (tmp_path / "shipped").glob("*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    (at,) = [i for i, x in enumerate(lines) if x.startswith('{"attached":"functions"')]
    attached = json.loads(lines[at])
    (row,) = json.loads(attached["text"])
    other = TableRow._make(row)._replace(worlds=row[4].replace("1/4", "1/3"))
    lines[at] = canonical(attached | {"text": functions_text([other])}) + "\n"
    assert "".join(lines) != file.read_text()
    file.write_text("".join(lines))
    with pytest.raises(LedgerBroken, match="does not read as it was written"):
        back(tabled, tmp_path, Gap(replay=True))


def test_a_backup_of_an_edited_store_is_not_restored(case, tmp_path):
    with case.store.write() as tx:
        edits.put_into_adversary(tx, "ann", 2)
    keep(case, tmp_path)
    with pytest.raises(StoreEdited, match=r"account\.adversary_id \(1\)"):
        back(case, tmp_path, Gap(replay=True))
    assert not (tmp_path / "restored.db").exists()


# -- the ledger is lost too ------------------------------------------------------------


def test_without_a_ledger_something_must_be_assumed(case, tmp_path):
    made = keep(case, tmp_path)
    with pytest.raises(LedgerAhead) as caught:
        back(case, tmp_path, shipped="nowhere")
    assert caught.value.exit_status == 6
    with pytest.raises(Usage):  # it is there: it is to be asked
        back(case, tmp_path, Gap(shown_since=made.at))
    with pytest.raises(Usage):  # the time between would be forgotten
        back(case, tmp_path, Gap(shown_since=made.at + 1), shipped="nowhere")
    with pytest.raises(Usage):
        back(case, tmp_path, Gap(replay=True), shipped="nowhere")
    with pytest.raises(Usage):
        back(case, tmp_path, Gap(True, made.at), shipped="nowhere")


def test_what_may_have_been_shown_counts_as_shown(case, tmp_path, clock):
    planned = [case.entries["r2.a"], case.entries["r2.c"]]
    builders.add_plan(case.store, [(case.accounts["x/bob"], planned)])
    # r3.a and r3.b were answered long before
    before = [case.entries["r3.a"], case.entries["r3.b"]]
    builders.save_results(case.store, before, at=5)
    made = keep(case, tmp_path)
    shutil.rmtree(tmp_path / "shipped")
    done = back(case, tmp_path, Gap(shown_since=made.at), shipped="shipped")
    assert done.assumed == 2
    # Two adversaries; of records r1 and r2 and their person something was open.
    assert done.recused == 2 * 3
    with open_store(tmp_path / "restored.db") as restored:
        again = resumed(restored, case)
        for who, what in (("x/ann", "r1.c"), ("x/bob", "r2.b"), ("x/ann", "r2.a")):
            with pytest.raises(Refused):
                again.book((who, what))
        again.book(("x/bob", "r3.a"))  # of r3 all was answered before
        again.add("x/new")
        again.book(("x/new", "r1.c"))
        bundle = export(restored, tmp_path / "evidence", clock=clock)
        assert verify(bundle.folder).status == 0


# -- the folder ------------------------------------------------------------------------


def test_backups_are_listed_and_pruned_by_age(case, tmp_path):
    folder = tmp_path / "kept"
    made = [keep(case, tmp_path) for _ in range(4)]
    (folder / "odd.backup").write_bytes(b"no backup")
    good, bad = backup.found_in(folder)
    assert [b.id for b in good] == [b.id for b in made[::-1]]
    assert [path.name for path in bad] == ["odd.backup"]
    assert len(backup.prune(folder, keep=3, dry_run=True)) == 1
    assert [b.id for b in backup.prune(folder, keep=3)] == [made[0].id]
    assert len(backup.found_in(folder)[0]) == 3
    assert (folder / "odd.backup").exists()


def test_a_disk_that_is_full_leaves_no_half_backup(case, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup.os, "fsync", full)
    with pytest.raises(NotShipped):
        keep(case, tmp_path)
    assert list((tmp_path / "kept").iterdir()) == []
