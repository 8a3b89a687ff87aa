"""The key file: private, told from damaged ones, never overwritten."""

import os

import pytest

from dispatcher.core.errors import EXIT_WRONG_KEY, Conflict, WrongKey
from dispatcher.core.keyring import (
    WrappingKey,
    add_key,
    keep_keys,
    make_keyring,
    read_keyring,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dispatcher.key"


def test_a_file_is_made_private_and_reads_back(path):
    old = os.umask(0)
    try:
        made = make_keyring(path, os.urandom)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_keyring(path) == made
    assert made.find(made.current.id) is made.current
    assert made.find("0" * 16) is None


def test_a_file_is_never_overwritten(path):
    make_keyring(path, os.urandom)
    before = path.read_bytes()
    with pytest.raises(Conflict, match="already"):
        make_keyring(path, os.urandom)
    assert path.read_bytes() == before


def test_a_new_key_comes_first_and_old_ones_stay_until_they_are_dropped(path):
    first = make_keyring(path, os.urandom)
    both = add_key(first, os.urandom)
    assert read_keyring(path) == both
    assert both.keys[1:] == first.keys
    assert both.current != first.current
    assert keep_keys(both, {first.current.id}) == both
    assert read_keyring(keep_keys(both, ()).path).keys == (both.current,)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_secret_is_in_a_representation(path):
    ring = make_keyring(path, os.urandom)
    assert ring.current.secret.hex() not in repr(ring)
    assert repr(ring.current.secret) not in repr(ring)


def told(path, **more):
    with pytest.raises(WrongKey) as caught:
        read_keyring(path, **more)
    error = caught.value
    assert error.exit_status == EXIT_WRONG_KEY
    assert error.why
    assert error.fix
    return error


def test_a_missing_file_is_told_with_the_way_out(path):
    assert "there is no key file" in told(path).what
    assert "DISPATCHER_KEY_FILE" in told(path).fix


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(path, mode):
    make_keyring(path, os.urandom)
    path.chmod(mode)
    assert f"chmod 600 {path}" in told(path).fix
    assert read_keyring(path, credential=True).keys  # systemd's own affair


def test_a_file_of_roots_is_told(path, monkeypatch):
    make_keyring(path, os.urandom)

    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", closed)
    assert "closed to this user" in told(path).what
    assert "root" in told(path).why


def test_every_change_of_a_line_is_told(path):
    make_keyring(path, os.urandom)
    whole = path.read_text()
    start = whole.index("dispatcher-key-1")
    for place in (start, start + 20, start + 40, len(whole) - 2):
        swapped = "0" if whole[place] != "0" else "1"
        path.write_text(whole[:place] + swapped + whole[place + 1 :])
        assert "is no key file" in told(path).what
    for text in (whole[:-9], whole[:start], "", "\x00\xff", "# only words\n"):
        path.write_bytes(text.encode("latin-1"))
        assert "is no key file" in told(path).what


def test_a_wrapping_key_has_its_length():
    with pytest.raises(ValueError, match="32 bytes"):
        WrappingKey(b"short")


def test_a_file_that_can_not_be_changed_stays_as_it_is(path, monkeypatch):
    ring = make_keyring(path, os.urandom)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WrongKey, match="cannot be changed"):
        add_key(ring, os.urandom)
    assert read_keyring(path) == ring
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
