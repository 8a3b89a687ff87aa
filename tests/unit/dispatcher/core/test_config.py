"""Settings: what a file may say, and how it is told what it may not."""

import os

import pytest

from dispatcher.core.config import (
    STARTER,
    Config,
    load_config,
    read_private,
    split_address,
    store_location,
)
from dispatcher.core.errors import Invalid


@pytest.fixture
def load(tmp_path):
    def loaded(text=None, environment=None, **options):
        if text is not None:
            (tmp_path / "dispatcher.toml").write_text(text)
        return load_config(tmp_path, environment or {}, **options)

    return loaded


def test_without_a_file_the_defaults_hold(load):
    assert load() == Config()


def test_the_file_that_init_writes_changes_no_default(load):
    assert load(STARTER) == Config()


def test_a_byte_order_mark_is_no_fault(load):
    assert load("\ufeffseed = 3").seed == 3


def test_the_environment_wins_over_the_file_and_an_empty_one_does_not(load):
    text = 'store = "a.db"\nplans = "auto"'
    found = load(text, {"DISPATCHER_STORE": "b.db", "DISPATCHER_PLANS": ""})
    assert (found.store, found.plans) == ("b.db", "auto")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("stroe = 'x'", "stroe"),
        ("plans = 'sometimes'", "plans"),
        ("seed = -1", "seed"),
        ("cache_mib = 15", "cache_mib"),
        ("[ticks]\nbooking = 0", "ticks.booking"),
        ("[ticks]\nleading = 6", "ticks.leading"),
        ("[tasks]\nattempts = 0", "tasks.attempts"),
        ("[surfaces]\nworkers = '8421'", "surfaces.workers"),
        ("[surfaces]\nworkers = '127.0.0.1:70000'", "surfaces.workers"),
        ("[surfaces]\nworkers = '0.0.0.0:8421'", "without TLS"),
        ("[surfaces]\nadmin = '[::]:9464'", "without TLS"),
        ("[surfaces]\nworker_url = 'ftp://x'", "worker_url"),
        ("[surfaces]\nworker_url = 'https://me:secret@x/'", "worker_url"),
        ("[connectors.folder]\nspool = 3", "connectors.folder.spool"),
        ("seed = = 1\nstore = 1", "line 1"),
    ],
)
def test_a_wrong_setting_is_named_by_its_place(load, text, place):
    with pytest.raises(Invalid) as caught:
        load(text)
    assert place in caught.value.what
    assert "dispatcher.toml" in caught.value.what
    assert caught.value.why
    assert caught.value.fix
    assert "secret" not in caught.value.what


def test_safety_49_a_public_address_needs_a_proxy_before_it(load):
    text = "[surfaces]\nworkers = '0.0.0.0:8421'\nbehind_proxy = true"
    assert load(text).surfaces.workers == "0.0.0.0:8421"


def test_a_file_that_was_named_must_be_there(load, tmp_path):
    with pytest.raises(Invalid, match=r"other\.toml: No such file"):
        load(file=tmp_path / "other.toml")


def test_a_file_in_another_encoding_is_told(load, tmp_path):
    (tmp_path / "dispatcher.toml").write_bytes(b"store = '\xff'")
    with pytest.raises(Invalid, match="not TOML"):
        load()


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0))],
)
def test_addresses_are_split(address, parts):
    assert split_address(address, "x") == parts


def test_a_store_is_a_file_of_the_directory_or_a_url(tmp_path):
    assert store_location(Config(), tmp_path) == str(tmp_path / "dispatcher.db")
    url = "postgresql://me@host/name"
    assert store_location(Config(store=url), tmp_path) == url


def test_a_private_file_is_read_and_a_loose_or_empty_one_is_refused(tmp_path):
    file = tmp_path / "url"
    file.write_text("postgresql://me:hunter2@host/name\n")
    file.chmod(0o640)
    with pytest.raises(Invalid, match="others may read it") as caught:
        read_private(file)
    assert "hunter2" not in caught.value.what + caught.value.fix
    file.chmod(0o600)
    assert read_private(file) == "postgresql://me:hunter2@host/name"
    os.truncate(file, 0)
    with pytest.raises(Invalid, match="empty"):
        read_private(file)
    with pytest.raises(Invalid, match="No such file"):
        read_private(tmp_path / "none")
