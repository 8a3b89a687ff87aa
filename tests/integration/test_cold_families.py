"""Settings, leases, accounts and other small families: what is written, and read back.

Each case runs the statements of text that were, and SQLAlchemy's that are.
"""

import importlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dispatcher.core.errors import StaleLease
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import Store, Tx, events

NAMES = (
    "access", "accounts", "audit", "copies", "hooks", "lease", "names", "outside",
    "pause", "quarantine", "queue", "settings",
)  # fmt: skip


@pytest.fixture(params=["tests.integration.was", "dispatcher.store"])
def of(request: pytest.FixtureRequest) -> Any:
    """Modules of statements, by name."""
    return SimpleNamespace(
        **{name: importlib.import_module(f"{request.param}.{name}") for name in NAMES}
    )


@pytest.fixture
def tx(store: Store) -> Iterator[Tx]:
    with store.write() as tx:
        yield tx


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found]


def table(tx: Tx, name: str, columns: str = "*", order: str = "1, 2") -> list[Any]:
    return tx.driver_rows(f"SELECT {columns} FROM {name} ORDER BY {order}")


def add_people(tx: Tx, accounts: ModuleType) -> None:
    for number, (connector, name, adversary) in enumerate(
        [("inhouse", "ann", 1), ("folder", "bob", 2), ("folder", "eve", 2)], start=1
    ):
        row = accounts.Account(number, connector, name, adversary, '["g"]', "active")
        accounts.add_account(tx, row, 9)


def add_records(tx: Tx) -> None:
    tx.insert_many("field", ["id", "name"], [(1, "name"), (2, "disease")])
    tx.insert_many(
        "run",
        ["id", "name", "state", "created_at"],
        [(1, "one", "active", 1), (2, "two", "active", 1)],
    )
    tx.insert_many(
        "record",
        ["id", "run_id", "load_id", "pseudonym", "key", "columns", "erased_at"],
        [
            (1, 1, 1, "r1", b"rx-1", b"[]", None),
            (2, 2, 1, "r2", b"", b"[]", 5),
            (3, 2, 1, "r3", b"rx-3", b"[]", None),
        ],
    )
    tx.insert_many(
        "entry",
        ["id", "record_id", "field_id", "time", "shown", "media"],
        [(1, 1, 1, None, b"x", "text/plain"), (2, 1, 2, 7, b"y", "text/plain")],
    )


def test_settings(tx: Tx, of: Any) -> None:
    assert of.settings.setting(tx, "a") is None
    of.settings.add_setting(tx, "a", b"1")
    of.settings.add_setting(tx, "a", b"2")
    assert of.settings.setting(tx, "a") == b"1"
    of.settings.set_setting(tx, "a", b"\x00\xff")
    of.settings.set_setting(tx, "b", b"")
    assert of.settings.setting(tx, "a") == b"\x00\xff"
    assert of.settings.setting(tx, "b") == b""
    assert sorted(of.settings.key_names(tx)) == [
        "pseudonym-key",
        "task-key",
        "token-key",
    ]
    keys = of.settings.read_keys(tx)
    assert {name: len(key) for name, key in keys.items()} == dict.fromkeys(
        ("pseudonym-key", "task-key", "token-key"), 32
    )
    of.settings.make_keys(tx, bytes)
    assert of.settings.read_keys(tx) == keys


def test_folders_of_backups(tx: Tx, of: Any) -> None:
    of.settings.set_setting(tx, "backup", b"none of them")
    of.copies.note_folder(tx, "/b")
    of.copies.note_folder(tx, "/a", "last")
    of.copies.note_folder(tx, "/a")
    assert rows(of.copies.folders(tx)) == [("/a", "last"), ("/b", "")]
    of.copies.take_back(tx, "/a")  # a backup is there
    of.copies.take_back(tx, "/b")
    assert rows(of.copies.folders(tx)) == [("/a", "last")]
    of.copies.forget_folder(tx, "/a")
    assert rows(of.copies.folders(tx)) == []


def test_what_is_left_to_delete(tx: Tx, of: Any) -> None:
    assert of.outside.pending(tx) == []
    of.outside.drop_pending(tx, [1])
    assert of.settings.setting(tx, "erasing") is None
    of.outside.add_pending(tx, [3, 1])
    of.outside.add_pending(tx, [2, 3])
    assert of.outside.pending(tx) == [1, 2, 3]
    of.outside.drop_pending(tx, [1, 9])
    assert of.outside.pending(tx) == [2, 3]


def test_files_of_records(tx: Tx, of: Any) -> None:
    add_records(tx)
    of.outside.add_export(tx, "one", "/x", 5)
    of.outside.add_export(tx, "two", "/x", 6)
    of.outside.add_export(tx, "one", "/x", 7)  # written anew
    of.outside.add_export(tx, "none", "/y", 8)
    assert table(tx, "export_file", "run_id, path, at") == [(1, "/x", 7), (2, "/x", 6)]
    assert rows(of.outside.exports_of(tx, [])) == []
    ((number, run, path),) = rows(of.outside.exports_of(tx, [1]))
    assert (run, path) == ("one", "/x")
    found = of.outside.exports_of(tx, [1, 2, 3])
    assert [row.run for row in found] == ["two", "one"]  # by number
    of.outside.drop_export(tx, number)
    assert table(tx, "export_file", "run_id", "1") == [(2,)]


def test_calls_of_markets(tx: Tx, of: Any) -> None:
    assert of.hooks.latest(tx) == {}
    assert of.hooks.note(tx, "mturk", "1", 5)
    assert not of.hooks.note(tx, "mturk", "1", 6)
    assert of.hooks.note(tx, "mturk", "2", 7)
    assert of.hooks.note(tx, "prolific", "1", 4)
    assert of.hooks.latest(tx) == {"mturk": 7, "prolific": 4}
    assert of.hooks.note(tx, "mturk", "3", 6 + of.hooks.KEPT)
    assert table(tx, "hook", "call, at") == [("2", 7), ("3", 6 + of.hooks.KEPT)]


def test_names_of_records_and_fields(tx: Tx, of: Any) -> None:
    assert of.names.field_names(tx) == []
    add_records(tx)
    assert of.names.field_names(tx) == ["name", "disease"]
    assert of.names.entry_named(tx, "r1", "disease") == 2
    assert of.names.entry_named(tx, "r1", "other") is None
    assert of.names.entry_named(tx, "r2", "name") is None
    assert of.names.has_record(tx, "r2")
    assert not of.names.has_record(tx, "r9")
    assert of.names.record_keys(tx, [3, 1, 1, 9, 2]) == {
        1: "rx-1",
        2: "r2",
        3: "rx-3",
    }
    assert of.names.record_keys(tx, []) == {}


def test_pauses(tx: Tx, of: Any) -> None:
    assert of.pause.paused(tx) == {}
    of.pause.pause(tx, "run:x", "first", 1)
    of.pause.pause(tx, "all", "every", 2)
    of.pause.pause(tx, "run:x", "second", 3)
    assert list(of.pause.paused(tx).items()) == [("all", "every"), ("run:x", "second")]
    assert table(tx, "pause") == [("all", "every", 2), ("run:x", "second", 3)]
    assert of.pause.resume(tx, "all")
    assert not of.pause.resume(tx, "all")
    assert of.pause.paused(tx) == {"run:x": "second"}


def test_a_lease_is_taken_kept_and_lost(tx: Tx, of: Any) -> None:
    lease = of.lease
    assert lease.holder(tx, 0) is None
    with pytest.raises(StaleLease):
        lease.check_epoch(tx, 0, 1)
    assert lease.take(tx, 0, "a", 10, 20) == 1
    assert lease.take(tx, 0, "b", 19, 30) is None
    assert lease.take(tx, 0, "a", 19, 30) == 2  # its own
    assert lease.take(tx, 0, "b", 30, 40) == 3  # over
    assert not lease.renew(tx, 0, 2, 99)
    assert lease.renew(tx, 0, 3, 50)
    assert not lease.renew(tx, 1, 3, 50)
    seen = lease.holder(tx, 0)
    assert (seen.holder, seen.epoch, seen.leased_until) == ("b", 3, 50)
    lease.check_epoch(tx, 0, 3)
    lease.check_leader(tx, 0, 3)
    for check in (lease.check_epoch, lease.check_leader):
        with pytest.raises(StaleLease):
            check(tx, 0, 2)
    assert lease.seize(tx, 0, lease.Holder("b", 3, 49), "c", 60) is None
    assert lease.seize(tx, 0, seen, "c", 60) == 4
    assert lease.release(tx, 0, 4)
    assert table(tx, "lease") == [(0, "c", 4, 0)]
    assert lease.evict(tx, 3600) == 0


def test_accounts_are_found_and_changed(tx: Tx, of: Any) -> None:
    accounts = of.accounts
    assert accounts.all_accounts(tx) == []
    add_people(tx, accounts)
    assert [row.text for row in accounts.all_accounts(tx)] == [
        "inhouse/ann",
        "folder/bob",
        "folder/eve",
    ]
    assert accounts.find(tx, "folder", "ann") is None
    found = accounts.find(tx, "folder", "bob")
    assert tuple(found) == (2, "folder", "bob", 2, '["g"]', "active", 1, 0.8)
    accounts.set_groups(tx, 2, "[]")
    assert accounts.set_state(tx, 2, "active", "blocked")
    assert not accounts.set_state(tx, 2, "active", "left")
    assert [accounts.raise_invite(tx, 2) for _ in range(2)] == [2, 3]
    assert tuple(accounts.find(tx, "folder", "bob")) == (
        2, "folder", "bob", 2, "[]", "blocked", 3, 0.8,
    )  # fmt: skip


def test_an_adversary_goes_on_as_another(tx: Tx, of: Any) -> None:
    add_people(tx, of.accounts)
    tx.insert_many(
        "chain",
        ["id", "name", "seq", "head", "at", "policy_version", "sealed_seq"],
        [(number, f"c{number}", 1, "0" * 64, 1, 1, 0) for number in (1, 2, 3)],
    )
    tx.execute("UPDATE chain SET survivor_id = 2 WHERE id = 3")
    columns = ("adversary_id", "unit_id", "field_id", "time", "entries")
    tx.insert_many("holding", columns, [(1, 2, 1, 0, 1), (2, 2, 1, 0, 4)])
    columns = ("adversary_id", "subject_id", "field_id", "place", "visits")
    tx.insert_many("visit", columns, [(1, 1, 1, "x", 1), (2, 1, 1, "x", 1)])
    columns = ("adversary_id", "property", "total")
    tx.insert_many("disclosure_sum", columns, [(1, "p", "1/2"), (2, "p", "1/3")])
    columns = ("adversary_id", "unit_id", "at")
    tx.insert_many("recusal", columns, [(1, 4, 1), (2, 4, 2), (2, 6, 3)])
    columns = ("plan_id", "account_id", "adversary_id", "entries")
    tx.insert_many("assignment", columns, [(1, 1, 1, b""), (1, 2, 2, b"")])
    columns = (
        "id", "entry_id", "account_id", "adversary_id", "connector", "state",
        "created_at",
    )  # fmt: skip
    tx.insert_many("task", columns, [(n, 1, n, n, "x", "sent", 1) for n in (1, 2)])
    of.accounts.end_adversary(tx, 2, 1)
    assert table(tx, "account", "id, adversary_id") == [(1, 1), (2, 1), (3, 1)]
    assert table(tx, "chain", "id, survivor_id") == [
        (SYSTEM_CHAIN, None),
        (1, None),
        (2, 1),
        (3, 1),
    ]
    assert table(tx, "recusal") == [(1, 4, 1), (1, 6, 3)]
    assert table(tx, "task", "id, adversary_id") == [(1, 1), (2, 1)]
    assert table(tx, "assignment", "account_id, adversary_id") == [(1, 1), (2, 1)]
    for name in ("holding", "visit", "disclosure_sum"):
        assert table(tx, name, "adversary_id", "1") == [(1,)]


def test_links_and_sessions_of_the_console(tx: Tx, of: Any) -> None:
    access = of.access
    for name in ("a", "b", "c"):
        access.put_link(tx, name, 10, 20)
    assert not access.use_link(tx, "x", 15)
    assert not access.use_link(tx, "a", 9)
    assert not access.use_link(tx, "a", 20)
    assert access.use_link(tx, "a", 19)
    assert not access.use_link(tx, "a", 19)
    assert access.end_links(tx, 20) == 0
    assert access.end_links(tx, 12) == 2
    assert access.session(tx, "s") is None
    for name, moment in (("s", 30), ("t", 31), ("u", 32)):
        access.open_session(tx, name, moment)
    access.touch_session(tx, "s", 35)
    access.touch_session(tx, "s", 33)
    found = access.session(tx, "s")
    assert (found.opened_at, found.seen_at, found.ended_at) == (30, 35, None)
    assert access.end_sessions(tx, 40, "s") == 1
    assert access.end_sessions(tx, 41) == 2
    assert access.end_sessions(tx, 41, "s") == 0
    access.touch_session(tx, "s", 50)
    assert access.session(tx, "s").seen_at == 35
    access.forget_before(tx, 32)
    assert table(tx, "operator_session", "digest", "1") == [("u",)]
    assert table(tx, "sign_in_link", "digest", "1") == []
    access.note(tx, 5, "somebody", "console.link")
    assert table(tx, "event", "at, actor, action, detail") == [
        (5, "somebody", "console.link", "{}")
    ]


def test_what_fits_no_task(tx: Tx, of: Any) -> None:
    columns = ("id", "connector", "reason", "payload", "at")
    given = [(n, "x", "odd", b"said %d" % n, n % 3) for n in range(1, 6)]
    tx.insert_many("quarantine", columns, given)
    quarantine = of.quarantine
    assert quarantine.waiting(tx) == [1, 2, 3, 4, 5]
    assert quarantine.dismiss(tx, [2, 9, 2], "fine", 7) == 1
    assert quarantine.dismiss(tx, [2], "again", 8) == 0
    assert quarantine.dismiss(tx, [], "none", 8) == 0
    assert quarantine.waiting(tx) == [1, 3, 4, 5]
    assert rows(quarantine.listed(tx, 2, dismissed=False)) == [
        (5, "x", "odd", 2, None, None),
        (4, "x", "odd", 1, None, None),
    ]
    assert rows(quarantine.listed(tx, 2, dismissed=True))[1] == (
        2, "x", "odd", 2, 7, "fine",
    )  # fmt: skip
    assert quarantine.payloads(tx, [3, 1, 9]) == {1: b"said 1", 3: b"said 3"}
    assert quarantine.payloads(tx, []) == {}


def test_messages_that_wait_or_are_dead(tx: Tx, of: Any) -> None:
    add_people(tx, of.accounts)
    columns = (
        "id", "connector", "account_id", "kind", "state", "due", "attempts", "epoch",
        "error", "created_at",
    )  # fmt: skip
    tx.insert_many(
        "outbox",
        columns,
        [
            (1, "inhouse", 1, "offer", "ready", 1, 0, 0, None, 1),
            (2, "folder", 2, "publish", "dead", 1, 5, 0, "no", 1),
            (3, "folder", 3, "publish", "dead", 1, 5, 0, "no", 1),
        ],
    )
    columns = (
        "id", "entry_id", "account_id", "adversary_id", "connector", "outbox_id",
        "state", "created_at",
    )  # fmt: skip
    tx.insert_many(
        "task",
        columns,
        [
            (1, 1, 2, 2, "folder", 2, "dead", 1),
            (2, 2, 2, 2, "folder", 2, "answered", 1),
            (3, 1, 3, 2, "folder", 3, "dead", 1),
        ],
    )
    queue = of.queue
    assert queue.messages(tx, None, 2) == [
        (1, "inhouse", "inhouse/ann", "offer", "ready", 0, ""),
        (2, "folder", "folder/bob", "publish", "dead", 5, "no"),
    ]
    assert [row[0] for row in queue.messages(tx, "dead", 9)] == [2, 3]
    assert queue.messages(tx, "sent", 9) == []
    assert queue.dead(tx, [], None) == [2, 3]
    assert queue.dead(tx, [], "inhouse") == []
    assert queue.dead(tx, [3, 1], "folder") == [3]
    assert queue.revive(tx, [], 8) == 0
    assert queue.revive(tx, [1, 2], 8) == 1
    assert table(tx, "outbox", "id, state, due, attempts") == [
        (1, "ready", 1, 0),
        (2, "ready", 8, 0),
        (3, "dead", 1, 5),
    ]
    assert table(tx, "task", "id, state") == [
        (1, "booked"),
        (2, "answered"),
        (3, "dead"),
    ]


def test_chains_as_evidence_reads_them(tx: Tx, of: Any) -> None:
    add_people(tx, of.accounts)
    add_records(tx)
    tx.insert_many(
        "chain",
        ["id", "name", "seq", "head", "at", "policy_version", "sealed_seq"],
        [(number, f"c{number}", 2, "0" * 64, 1, 1, 0) for number in (1, 2, 3)],
    )
    tx.execute("UPDATE chain SET survivor_id = 1 WHERE id = 2")
    columns = (
        "chain_id", "seq", "kind", "at", "policy_version", "account_id", "entry_id",
        "cause", "showing", "body", "hash",
    )  # fmt: skip
    tx.insert_many(
        "ledger_line",
        columns,
        [
            (2, 1, "member", 3, 1, None, None, None, None, "{}", b"\x01" * 32),
            (2, 2, "join", 4, 1, None, None, None, None, "{}", b"\x02" * 32),
            (1, 1, "exposure", 5, 1, 1, 2, "plan", 1, None, b"\x03" * 32),
        ],
    )
    assert [chain.id for chain in of.audit.chains_in_order(tx)] == [2, 3, 1]
    member, join = of.audit.lines_up_to(tx, 2, 2)
    assert tuple(member) == (
        1,
        "member",
        3,
        1,
        None,
        None,
        "{}",
        b"\x01" * 32,
        None,
        None,
    )
    assert join.kind == "join"
    assert [line.seq for line in of.audit.lines_up_to(tx, 2, 2, after=1)] == [2]
    (shown,) = of.audit.lines_up_to(tx, 1, 9)
    assert (shown.account, shown.cause, shown.record) == ("inhouse/ann", "plan", "r1")
    assert tuple(shown.entry) == (2, 1, None, 2, 7, None, None)
    assert of.audit.hash_at(tx, 1, 1) == "03" * 32
    assert of.audit.hash_at(tx, 1, 2) is None


def test_lines_of_the_audit_log(tx: Tx) -> None:
    assert list(events.details(tx, "a")) == []
    first = events.add_event(tx, 5, "cli", "a", {"name": "Zoë", "n": 1})
    events.add_event(tx, 6, "cli", "b", {})
    second = events.add_event(tx, 7, "cli", "a", {"n": 2})
    assert first < second
    assert list(events.details(tx, "a")) == [
        (5, {"name": "Zoë", "n": 1}),
        (7, {"n": 2}),
    ]
    newest, *_ = events.details(tx, "a", newest_first=True)
    assert newest == (7, {"n": 2})
