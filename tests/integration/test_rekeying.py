"""A new key while others work, two at once, one that is broken off: nothing is lost."""

import shutil
import threading
from contextlib import suppress

import pytest

from dispatcher.core import keyring
from dispatcher.core.errors import Conflict, WrongKey
from dispatcher.core.keyring import read_keyring
from dispatcher.custody import key_rotation
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.store import open_store, rekey
from dispatcher.store.vault import KeyFile
from tests import sql
from tests.integration.clinic import Clinic, canary, whole


class Stop(Exception):
    """What a kill leaves off here."""


@pytest.fixture
def key_file(tmp_path):
    return KeyFile(tmp_path / "outside.key")


@pytest.fixture
def clinic(store, tmp_path, clock, key_file):
    place = tmp_path / "clinic"
    place.mkdir()
    made = Clinic(store, place, clock)
    rekey_store(store, key_file)
    made.load()
    made.work()
    return made


def seen_anew(store) -> list:
    store.vault.forget()
    return whole(store)


def wrapped_under(store) -> set[str]:
    with store.read() as tx:
        return set(rekey.wrapping_keys(tx))


def test_a_daemon_that_knows_the_old_key_only_makes_none_under_it_once_it_is_forgotten(
    clinic, key_file, store_url, tmp_path
):
    with open_store(store_url, key_file=key_file) as daemon:
        Clinic.load(_of(clinic, daemon), ["carl"])  # its key file is read by now
        rekey_store(clinic.store, key_file, new_key=True, forget_old=True)
        Clinic.load(_of(clinic, daemon), ["dora"])
    assert wrapped_under(clinic.store) == {read_keyring(key_file.path).current.id}
    with open_store(store_url, key_file=key_file) as again:
        assert len(seen_anew(again)) == 4 * 3


def _of(clinic, store):
    made = object.__new__(Clinic)
    vars(made).update(vars(clinic) | {"store": store})
    return made


def test_a_key_of_a_transaction_that_was_rolled_back_is_forgotten(
    clinic, key_file, store_url
):
    # Its id is free again on SQLite: another process gives it to another key.
    with open_store(store_url, key_file=key_file) as daemon:
        with suppress(Stop), daemon.write() as tx:
            made = daemon.vault.make(tx, 1)
            assert daemon.vault.seal(tx, "subject.value", 1, made[0], b"x")
            raise Stop
        clinic.load(["carl"])
        with daemon.read() as tx:
            subject, key_id, sealed = sql.rows(
                tx, "SELECT id, key_id, value FROM subject ORDER BY id DESC LIMIT 1"
            )[0]
            opened = daemon.vault.open(tx, "subject.value", subject, key_id, sealed)
    assert opened == canary("carl", "id").encode()


def test_of_two_new_keys_at_once_one_is_made_and_the_other_refused(
    clinic, key_file, store_url
):
    before = read_keyring(key_file.path)
    inside, go_on = threading.Event(), threading.Event()
    results = []

    def first():
        def wait(done):
            inside.set()
            assert go_on.wait(240)

        results.append(rekey_store(clinic.store, key_file, new_key=True, progress=wait))

    thread = threading.Thread(target=first)
    thread.start()
    try:
        assert inside.wait(240)
        with (
            open_store(store_url, key_file=key_file) as other,
            pytest.raises(Conflict, match="changed by another command"),
        ):
            rekey_store(other, key_file, new_key=True)
    finally:
        go_on.set()
        thread.join()
    assert [done.key for done in results] == [read_keyring(key_file.path).current.id]
    assert len(read_keyring(key_file.path).keys) == len(before.keys) + 1
    assert len(seen_anew(clinic.store)) == 2 * 3


def test_a_new_key_from_another_machine_is_met_and_leaves_no_key_behind(
    clinic, key_file, store_url, tmp_path, monkeypatch
):
    (tmp_path / "there").mkdir()
    there = KeyFile(tmp_path / "there" / "outside.key")
    shutil.copy2(key_file.path, there.path)
    add_key = keyring.add_key

    def meanwhile(ring, entropy):
        monkeypatch.setattr(keyring, "add_key", add_key)
        rekey_store(clinic.store, key_file, new_key=True)
        return add_key(ring, entropy)

    monkeypatch.setattr(keyring, "add_key", meanwhile)
    with open_store(store_url, key_file=there) as other:
        with pytest.raises(Conflict, match="another command changed"):
            rekey_store(other, there, new_key=True)
        with pytest.raises(WrongKey, match="is not this store's"):
            rekey_store(other, there, new_key=True)
    assert len(read_keyring(there.path).keys) == 1
    assert len(seen_anew(clinic.store)) == 2 * 3


@pytest.mark.parametrize("point", ["key made", "sealing", "first keys", "forgetting"])
def test_a_new_key_that_was_broken_off_is_brought_to_its_end(
    clinic, key_file, store_url, monkeypatch, point
):
    before = seen_anew(clinic.store)

    def stop(*_args, **_more):
        raise Stop

    monkeypatch.setattr(key_rotation, "PIECE", 1)
    progress = stop if point == "first keys" else None
    with monkeypatch.context() as broken:
        if point == "key made":
            broken.setattr(key_rotation, "start_sealing", stop)
        elif point == "sealing":
            broken.setattr(key_rotation, "_rewrap_all", stop)
        elif point == "forgetting":
            broken.setattr(keyring, "keep_keys", stop)
        more = {"new_key": True, "forget_old": True, "progress": progress}
        with pytest.raises(Stop):
            rekey_store(clinic.store, key_file, **more)
    with open_store(store_url, key_file=key_file) as daemon:  # works all the while
        assert seen_anew(daemon) == before
        Clinic.load(_of(clinic, daemon), ["carl"])
    done = rekey_store(clinic.store, key_file, forget_old=True)
    assert wrapped_under(clinic.store) == {done.key}
    assert [key.id for key in read_keyring(key_file.path).keys] == [done.key]
    with open_store(store_url, key_file=key_file) as again:
        assert len(seen_anew(again)) == 3 * 3
