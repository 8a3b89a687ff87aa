"""Values in the store are sealed: what opens them, what does not, and how they come to be."""

import threading

import pytest

from dispatcher.core.errors import EXIT_WRONG_KEY, StoreUnusable, WrongKey
from dispatcher.core.keyring import read_keyring
from dispatcher.custody.key_rotation import rekey_store, seal_leftovers
from dispatcher.model import ValueKey
from dispatcher.store import open_store, rekey
from dispatcher.store.vault import KeyFile
from tests import edits, sql
from tests.integration.clinic import FIELDS, PEOPLE, Clinic, canary, whole

VALUES = {
    "answer.raw", "entry.shown", "quarantine.payload",
    "record.columns", "record.key", "result.value", "subject.value", "task.draft",
}  # fmt: skip


@pytest.fixture
def key_file(tmp_path):
    return KeyFile(tmp_path / "outside.key")


@pytest.fixture
def clinic(store, tmp_path, clock):
    place = tmp_path / "clinic"
    place.mkdir()
    made = Clinic(store, place, clock)
    made.load()
    made.work()
    return made


def test_a_store_in_clear_is_sealed_while_it_works(clinic, key_file):
    store = clinic.store
    assert set(clinic.in_rows("anna")) == VALUES
    before = whole(store)
    done = rekey_store(store, key_file)
    assert clinic.in_rows("anna") == clinic.in_rows("bert") == []
    assert set(done.sealed) == {value.partition(".")[0] for value in VALUES}
    assert whole(store) == before
    with store.read() as tx:
        assert not any(rekey.remaining(tx).values())
    assert rekey_store(store, key_file).sealed == {}
    if store.path is not None:
        needle = canary("anna", "").encode()
        for path in store.path.parent.glob("dispatcher.db*"):
            assert needle not in path.read_bytes()


def test_a_rekeying_that_was_broken_off_goes_on(clinic, key_file):
    class Stop(Exception):
        pass

    def stop(done):
        if done.sealed.get("entry"):
            raise Stop

    before = whole(clinic.store)
    with pytest.raises(Stop):
        rekey_store(clinic.store, key_file, progress=stop)
    assert "answer.raw" in clinic.in_rows("anna")  # half of it is in clear
    assert whole(clinic.store) == before
    done = rekey_store(clinic.store, key_file)
    assert "entry" not in done.sealed
    assert clinic.in_rows("anna") == []
    assert whole(clinic.store) == before


def test_loads_during_a_rekeying_are_sealed_in_the_end(clinic, key_file):
    names = [f"p{i}" for i in range(6)]
    failures = []

    def bring():
        try:
            for name in names:
                clinic.load([name])
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    thread = threading.Thread(target=bring)
    thread.start()
    rekey_store(clinic.store, key_file)
    thread.join()
    assert not failures
    rekey_store(clinic.store, key_file)
    for name in (*names, *PEOPLE):
        assert clinic.in_rows(name) == []
    assert len(whole(clinic.store)) == 8 * 3


def test_safety_32_a_daemon_that_runs_takes_the_new_key_up(clinic, key_file, store_url):
    with open_store(store_url, key_file=key_file) as daemon:  # opened in clear
        rekey_store(clinic.store, key_file)
        before = whole(daemon)
        rekey_store(clinic.store, key_file, new_key=True)
        daemon.vault.forget()
        assert whole(daemon) == before


def test_safety_32_a_new_key_opens_all_and_the_old_one_may_go(
    clinic, key_file, store_url
):
    rekey_store(clinic.store, key_file)
    old = read_keyring(key_file.path)
    done = rekey_store(clinic.store, key_file, new_key=True, forget_old=True)
    assert done.rewrapped == clinic.case.count("value_key")
    assert done.forgotten == 1
    assert read_keyring(key_file.path).find(old.current.id) is None
    with open_store(store_url, key_file=key_file) as again:
        assert whole(again) == whole(clinic.store)
        assert again.key("task-key") == clinic.store.key("task-key")


def test_the_wrong_key_and_no_key_are_told(clinic, key_file, store_url, tmp_path):
    rekey_store(clinic.store, key_file)
    other = KeyFile(tmp_path / "other.key")
    from dispatcher.store.engine import ensure_keyring

    ensure_keyring(other, clinic.store.vault.entropy)
    with pytest.raises(WrongKey, match="is not this store's") as caught:
        open_store(store_url, key_file=other)
    assert caught.value.exit_status == EXIT_WRONG_KEY
    with pytest.raises(WrongKey, match="there is no key file"):
        open_store(store_url, key_file=KeyFile(tmp_path / "lost.key"))
    with pytest.raises(WrongKey, match="no key file is named"):
        open_store(store_url)
    with pytest.raises(WrongKey, match="is not this store's"):
        rekey_store(clinic.store, other)
    key_file.path.unlink()
    with pytest.raises(WrongKey, match="there is no key file"):
        rekey_store(clinic.store, key_file)
    assert not key_file.path.exists()  # a lost key is not quietly replaced


def test_the_stores_own_keys_are_sealed_too(clinic, key_file):
    plain = [clinic.store.key(name) for name in ("pseudonym-key", "task-key")]
    rekey_store(clinic.store, key_file)
    with clinic.store.read() as tx:
        kept = [bytes(row[0]) for row in sql.rows(tx, "SELECT value FROM setting")]
    assert not any(key in value for key in plain for value in kept)


def test_a_value_in_another_row_and_a_changed_one_do_not_open(clinic, key_file):
    rekey_store(clinic.store, key_file)
    with clinic.store.write() as tx:
        edits.copy_record(tx, 1, 2)
    with pytest.raises(StoreUnusable, match=r"record\.columns, row 2") as caught:
        whole(clinic.store)
    assert "canary" not in str(vars(caught.value))
    with clinic.store.write() as tx:
        edits.change_entry(tx, 1, shown=b"\0" * 40)
    from dispatcher.store import serving

    with (
        pytest.raises(StoreUnusable, match=r"entry\.shown, row 1"),
        clinic.store.read() as tx,
    ):
        serving.shown_entry(tx, 1)


def test_a_data_key_that_is_gone_is_told(clinic, key_file):
    rekey_store(clinic.store, key_file)
    with clinic.store.write() as tx:
        edits.empty(tx, ValueKey)
    clinic.store.vault.forget()
    with pytest.raises(StoreUnusable, match="key"):
        whole(clinic.store)


def test_what_came_in_clear_later_is_sealed_by_the_daemons_tick(clinic, key_file):
    assert seal_leftovers(clinic.store) == 0
    rekey_store(clinic.store, key_file)
    with clinic.store.write() as tx:
        edits.leave_draft_in_clear(tx, 1, b"canary-anna-x")
    assert clinic.in_rows("anna") == ["task.draft"]
    assert seal_leftovers(clinic.store) == 1
    assert clinic.in_rows("anna") == []


def test_a_subject_has_one_key_and_a_record_without_one_its_own(
    store, tmp_path, clock, key_file
):
    rekey_store(store, key_file)
    place = tmp_path / "clinic"
    place.mkdir()
    made = Clinic(store, place, clock)
    made.load(["anna"])
    path = made.csv(["anna", "carl", "dora"])
    text = path.read_text().replace(canary("anna", "key"), "second")
    for name in ("carl", "dora"):
        text = text.replace(canary(name, "id"), "")
    path.write_text(text)
    from dispatcher.ledger.versions import apply_policy
    from dispatcher.stages.intake.loading import load
    from tests.integration.ledger_cases import PAIR, policy

    with store.write() as tx:
        apply_policy(tx, policy(PAIR, FIELDS), at=made.case.tick())
    assert load(store, path, clock=clock).counts.records == 3
    with store.read() as tx:
        keys = [row[0] for row in sql.rows(tx, "SELECT key_id FROM record ORDER BY id")]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
