"""``dispatcher connectors test NAME --as OTHER``: the walls of a market, tried."""

import json
from dataclasses import replace

import pytest

from connectors.base import Arrival, Identity, Plugin, Tried, Wall
from connectors.testing.hostile import MEMORY, Memory
from dispatcher.core import plugins


class Lax(Memory):
    """Believes whoever says a name, and shows its tasks to everybody."""

    manifest = replace(MEMORY, name="lax")

    def arrive(self, visit, now):
        return Arrival(visit.parameters.get("worker", "ann"), Identity.SIGNED)

    def probe(self, account, other, link):
        if account == "zoe":
            raise KeyError("Secret")
        if account == "eve":
            raise SystemExit(0)
        told = f"{other.account} opens what is {account}'s"
        yield Tried(Wall.BINDING, held=other.secret != "sesame", finding=told)


LAX = Plugin(Lax.manifest, lambda _: Lax())


@pytest.fixture
def house(run, tmp_path, sqlite_template, monkeypatch):
    (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())
    settings = "[connectors.inhouse]\n[connectors.lax]\n"
    settings += '[connectors.feed]\nkind = "webhook"\nurl = "https://x.example/"\n'
    settings += 'secret_file = "feed.secret"\n'
    (tmp_path / "dispatcher.toml").write_text(settings)
    (tmp_path / "feed.secret").write_text("whsec_" + "a2tr" * 8)
    (tmp_path / "word").write_text("sesame\n")
    monkeypatch.setitem(plugins.BUILT_IN, "lax", f"{__name__}:LAX")
    return lambda *words: run("connectors", *words)


def test_our_own_page_holds_and_what_was_found_is_kept_with_its_time(house):
    done = house("test", "inhouse", "--as", "bob", "--worker", "ann")
    assert done.code == 0, done.err
    assert "FAIL" not in done.out
    assert "ok    identity: arriving with no proof" in done.out
    lines = house("show", "inhouse").out.splitlines()
    told = {line.split()[0]: line for line in lines}
    assert "holds (20" in told["identity"]
    assert "as bob)" in told["identity"]
    assert "not tried" in told["binding"]
    assert "tried" not in told["items"]


def test_a_market_that_lets_others_in_fails_loudly(house):
    words = (
        "test",
        "lax",
        "--as",
        "bob",
        "--worker",
        "ann",
        "--as-secret-from",
        "word",
    )
    done = house(*words)
    assert done.code == 1
    assert "FAIL  identity: arriving with no proof was let in" in done.out
    assert "FAIL  binding: bob opens what is ann's" in done.out
    assert "sesame" not in done.out + done.err
    told = json.loads(house("show", "lax", "--json").out)["tried"]
    assert told["walls"] == {"identity": False, "binding": False}


@pytest.mark.parametrize(
    ("worker", "fault"), [("zoe", "KeyError"), ("eve", "SystemExit")]
)
def test_safety_27_a_plugin_that_fails_is_told_by_its_fault_alone(house, worker, fault):
    done = house("test", "lax", "--as", "bob", "--worker", worker)
    assert done.code == 1
    assert fault in done.err
    assert done.out == ""


def leaving(*_):
    raise SystemExit(0)


def test_a_plugin_that_ends_the_program_when_it_is_asked_does_not_work(
    house, monkeypatch
):
    monkeypatch.setattr(Lax, "find", leaving)
    done = house("test", "lax")
    assert done.code == 1
    assert "FAIL  the connector failed: SystemExit" in done.out
    assert house("enable", "lax").code == 1


def test_whatever_of_a_package_ends_the_program_is_an_error(house, monkeypatch):
    monkeypatch.setattr(Lax, "listing", leaving)
    done = house("reconcile", "lax")
    assert (done.code, done.out) == (1, "")
    assert f"the module {__name__} raised SystemExit" in done.err


def test_who_has_left_is_offered_nothing(house, run):
    assert run("workers", "add", "lax/zoe", "lax/ann").code == 0
    assert run("workers", "block", "lax/zoe").code == 0
    done = house("test", "lax", "--as", "bob")
    assert "bob opens what is ann's" in done.out
    assert run("workers", "block", "lax/ann").code == 0
    done = house("test", "lax", "--as", "bob")
    assert (done.code, done.out) == (2, "")
    assert "no active worker" in done.err


def test_what_was_never_tried_is_told_as_such(house):
    assert house("show", "lax").out.count("not tried") == 4


def test_without_a_store_it_is_told_what_is_declared(house, tmp_path):
    (tmp_path / "dispatcher.db").unlink()
    done = house("show", "lax")
    assert (done.code, done.out.count("not tried")) == (0, 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inhouse", "--as", "bob"], "--worker"),
        (["feed", "--as", "bob", "--worker", "ann"], "feed"),
        (["inhouse", "--worker", "ann"], "--as"),
        (
            ["lax", "--as", "bob", "--worker", "ann", "--as-secret-from", "none"],
            "password",
        ),
    ],
)
def test_what_can_not_be_tried_is_told(house, words, said):
    done = house("test", *words)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
