"""A small check-in world: friends' places stay apart, from the files to the proof."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from connectors.folder import CONNECTOR
from dispatcher.core.plugins import open_connector
from dispatcher.preflight import Preflight
from dispatcher.stages.booking import Booking
from dispatcher.stages.planning import Planning
from dispatcher.stages.sending import Sending, SendingTerms
from dispatcher.store import lease, open_store
from dispatcher.surfaces.cli.start import main
from tests import sql

POLICY = """
version = 1
name = "checkins"

[budget]
objective = "tradeoff"
tau = 0.3
t = 2

[entity.checkin]
key = "checkin_id"
subject = "user_id"

[entity.checkin.fields]
place = {{ ask = "choose", choices = ["home", "work", "other"] }}

[relation.friendship]
source = "friends.csv"
ends = ["user_a", "user_b"]

[property.friend-link]
scope = "relation"
relation = "friendship"
of = ["place"]
disclosure = {{ kind = "{kind}", vector = "place_id", count = "visits" }}
average = 0.01

[[test]]
name = "friends at one place"
worker = "folder/one"
seen = ["c-1.place"]
ask = "c-2.place"
facts = {{ friendship = [["u-1", "u-2"]], subject = {{ c-1 = "u-1", c-2 = "u-2" }}, vector = {{ c-1 = "x", c-2 = "x" }} }}
expect = "deny"
by = "friend-link"
"""
FRIENDS = [(f"u-{i}", f"u-{(i + 1) % 12}") for i in range(12)]
ADVERTISERS = ("folder/one", "folder/two", "folder/three")


def checkins(seed=7):
    """Rows: twelve people, forty visits to five places; some at no place."""
    chance = np.random.default_rng(seed)
    return [
        (f"c-{i}", f"u-{i % 12}", f"street {i}", "ABCDE"[chance.integers(5)] * (i % 9 > 0),
         int(chance.integers(4)))
        for i in range(40)
    ]  # fmt: skip


@pytest.fixture
def world(tmp_path, monkeypatch, capsys, sqlite_template):
    """A directory with the files of the world; commands run in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())
    for name, header, rows in (
        ("friends.csv", ("user_a", "user_b"), FRIENDS),
        (
            "checkins.csv",
            ("checkin_id", "user_id", "place", "place_id", "visits"),
            checkins(),
        ),
    ):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])

    def run(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "street" not in out + err
        return SimpleNamespace(code=code, out=out, err=err)

    return run


def seen_by(store):
    """Who was shown what: adversary -> (person, place, visits), from the tables."""
    with store.read() as tx:
        rows = sql.rows(
            tx,
            "SELECT l.chain_id, s.pseudonym, e.vector, e.visits FROM ledger_line l"
            " JOIN entry e ON e.id = l.entry_id JOIN subject s ON s.id = e.subject_id"
            " WHERE l.kind = 'exposure'",
        )
        links = sql.rows(tx, "SELECT one, other FROM link")
    return rows, links


@pytest.mark.parametrize("kind", ["common", "cosine"])
def test_check_ins_are_planned_booked_sent_and_proven(world, tmp_path, kind):
    (tmp_path / "policy.toml").write_text(POLICY.format(kind=kind))
    assert world("policy", "test").code == 0
    for words in (
        ["policy", "apply"],
        ["workers", "add", *ADVERTISERS],
        ["records", "load", "checkins.csv"],
        ["plan"],
        ["plan", "apply", "1"],
    ):
        done = world(*words)
        assert done.code == 0, done.err
    clock = iter(range(1_900_000_000_000_000, 2_000_000_000_000_000, 1_000_000))
    spool = {"kind": CONNECTOR.name, "spool": "spool"}
    folder = open_connector("folder", spool, directory=tmp_path)
    with open_store(tmp_path / "dispatcher.db") as store:

        def now():
            return next(clock)

        with store.write() as tx:
            epoch = lease.take(tx, lease.SHARD, "me", now(), now() + 10**12)
        booking = Booking(
            store, Preflight({"folder": folder}), now, np.random.default_rng(5)
        )
        while booking.tick(epoch):
            pass
        Sending(store, "folder", folder, now, SendingTerms()).tick(epoch)
        assert Planning(store, now, rest=0).draft().plan_id is None  # nothing is left
        rows, links = seen_by(store)
    assert len(rows) == 40
    assert len(links) == 12
    met = {(who, person, place) for who, person, place, _ in rows if place is not None}
    for one, other in links:
        assert not {(w, p) for w, u, p in met if u == one} & {
            (w, p) for w, u, p in met if u == other
        }
    spooled = {batch.parent.name for batch in tmp_path.glob("spool/[!.]*/batch-*")}
    assert spooled == {"one", "two", "three"}
    done = world("audit", "export", "evidence")
    assert done.code == 0, done.err
    done = world("audit", "verify", "evidence")
    assert done.out.startswith("VERIFIED "), done.out
    told = json.loads((tmp_path / "evidence" / "cert.json").read_text())
    assert told["counts"]["links"] == 12
    assert told["worst"]["friend-link"]["share"] == "0"
    done = world("explain", "c-0.place", "--worker", "folder/one")
    assert "friend-link" in done.out


def test_a_link_table_that_is_missing_or_odd_is_told_with_its_place(world, tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY.format(kind="common"))
    (tmp_path / "friends.csv").write_text("user_a,user_b\nu-1,\n")
    done = world("policy", "apply")
    assert done.code == 5
    assert "friends.csv:2" in done.err
    (tmp_path / "friends.csv").write_text("user_a,other\nu-1,u-2\n")
    assert "column `user_b`" in world("policy", "apply").err
    (tmp_path / "friends.csv").unlink()
    assert "friends.csv" in world("policy", "apply").err


def test_the_example_of_check_ins_is_applied_as_it_is(world, tmp_path, request):
    folder = request.config.rootpath / "examples" / "policies"
    done = world("policy", "apply", folder / "checkins.toml")
    assert done.code == 2
    assert "--sample" in done.err
    done = world("policy", "apply", folder / "checkins.toml", "--sample")
    assert done.code == 0, done.err
