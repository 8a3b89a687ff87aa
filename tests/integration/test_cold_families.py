"""Settings, leases, accounts and other small families: what is written, and read back."""

from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.core.errors import StaleLease
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import (
    Store,
    Tx,
    access,
    accounts,
    audit,
    collecting,
    erasure,
    events,
    lease,
    outbox,
    pause,
    record_states,
    settings,
)
from tests import sql


@pytest.fixture
def tx(store: Store) -> Iterator[Tx]:
    with store.write() as tx:
        yield tx


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found]


def table(tx: Tx, name: str, columns: str = "*", order: str = "1, 2") -> list[Any]:
    return sql.rows(tx, f"SELECT {columns} FROM {name} ORDER BY {order}")


def add_people(tx: Tx) -> None:
    for number, (connector, name, adversary) in enumerate(
        [("inhouse", "ann", 1), ("folder", "bob", 2), ("folder", "eve", 2)], start=1
    ):
        row = accounts.AccountRow(number, connector, name, adversary, '["g"]', "active")
        accounts.add_account(tx, row)


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


def test_settings(tx: Tx) -> None:
    assert settings.setting(tx, "a") is None
    settings.add_setting(tx, "a", b"1")
    settings.add_setting(tx, "a", b"2")
    assert settings.setting(tx, "a") == b"1"
    settings.set_setting(tx, "a", b"\x00\xff")
    settings.set_setting(tx, "b", b"")
    assert settings.setting(tx, "a") == b"\x00\xff"
    assert settings.setting(tx, "b") == b""
    assert sorted(settings.key_names(tx)) == [
        "pseudonym-key",
        "task-key",
        "token-key",
    ]
    keys = settings.read_keys(tx)
    assert {name: len(key) for name, key in keys.items()} == dict.fromkeys(
        ("pseudonym-key", "task-key", "token-key"), 32
    )
    settings.make_keys(tx, bytes)
    assert settings.read_keys(tx) == keys


def test_folders_of_backups(tx: Tx) -> None:
    settings.set_setting(tx, "backup", b"none of them")
    settings.note_backup_folder(tx, "/b")
    settings.note_backup_folder(tx, "/a", "last")
    settings.note_backup_folder(tx, "/a")
    assert rows(settings.backup_folders(tx)) == [("/a", "last"), ("/b", "")]
    settings.take_back_folder(tx, "/a")  # a backup is there
    settings.take_back_folder(tx, "/b")
    assert rows(settings.backup_folders(tx)) == [("/a", "last")]
    settings.forget_backup_folder(tx, "/a")
    assert rows(settings.backup_folders(tx)) == []


def test_what_is_left_to_delete(tx: Tx) -> None:
    assert erasure.pending(tx) == []
    erasure.drop_pending(tx, [1])
    assert settings.setting(tx, "erasing") is None
    erasure.add_pending(tx, [3, 1])
    erasure.add_pending(tx, [2, 3])
    assert erasure.pending(tx) == [1, 2, 3]
    erasure.drop_pending(tx, [1, 9])
    assert erasure.pending(tx) == [2, 3]


def test_files_of_records(tx: Tx) -> None:
    add_records(tx)
    erasure.add_export(tx, "one", "/x", 5)
    erasure.add_export(tx, "two", "/x", 6)
    erasure.add_export(tx, "one", "/x", 7)  # written anew
    erasure.add_export(tx, "none", "/y", 8)
    assert table(tx, "export_file", "run_id, path, at") == [(1, "/x", 7), (2, "/x", 6)]
    assert rows(erasure.exports_of(tx, [])) == []
    ((number, run, path),) = rows(erasure.exports_of(tx, [1]))
    assert (run, path) == ("one", "/x")
    found = erasure.exports_of(tx, [1, 2, 3])
    assert [row.run for row in found] == ["two", "one"]  # by number
    erasure.drop_export(tx, number)
    assert table(tx, "export_file", "run_id", "1") == [(2,)]


def test_calls_of_markets(tx: Tx) -> None:
    assert collecting.latest_calls(tx) == {}
    assert collecting.note_call(tx, "mturk", "1", 5)
    assert not collecting.note_call(tx, "mturk", "1", 6)
    assert collecting.note_call(tx, "mturk", "2", 7)
    assert collecting.note_call(tx, "prolific", "1", 4)
    assert collecting.latest_calls(tx) == {"mturk": 7, "prolific": 4}
    assert collecting.note_call(tx, "mturk", "3", 6 + collecting.KEPT)
    assert table(tx, "webhook_delivery", "call, at") == [
        ("2", 7),
        ("3", 6 + collecting.KEPT),
    ]


def test_names_of_records_and_fields(tx: Tx) -> None:
    assert record_states.field_names(tx) == []
    add_records(tx)
    assert record_states.field_names(tx) == ["name", "disease"]
    assert record_states.entry_named(tx, "r1", "disease") == 2
    assert record_states.entry_named(tx, "r1", "other") is None
    assert record_states.entry_named(tx, "r2", "name") is None
    assert record_states.has_record(tx, "r2")
    assert not record_states.has_record(tx, "r9")
    assert record_states.record_keys(tx, [3, 1, 1, 9, 2]) == {
        1: "rx-1",
        2: "r2",
        3: "rx-3",
    }
    assert record_states.record_keys(tx, []) == {}


def test_pauses(tx: Tx) -> None:
    assert pause.paused(tx) == {}
    pause.pause(tx, "run:x", "first", 1)
    pause.pause(tx, "all", "every", 2)
    pause.pause(tx, "run:x", "second", 3)
    found = [(scope, one.reason, one.at) for scope, one in pause.paused(tx).items()]
    assert found == [("all", "every", 2), ("run:x", "second", 3)]
    assert table(tx, "pause") == [("all", "every", 2), ("run:x", "second", 3)]
    assert pause.resume(tx, "all")
    assert not pause.resume(tx, "all")
    assert list(pause.paused(tx)) == ["run:x"]


def test_a_lease_is_taken_kept_and_lost(tx: Tx) -> None:
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
    assert lease.seize(tx, 0, lease.LeaseHolder("b", 3, 49), "c", 60) is None
    assert lease.seize(tx, 0, seen, "c", 60) == 4
    assert lease.release(tx, 0, 4)
    assert table(tx, "lease") == [(0, "c", 4, 0, None)]
    assert lease.evict(tx, 3600) == 0


def test_accounts_are_found_and_changed(tx: Tx) -> None:
    assert accounts.all_accounts(tx) == []
    add_people(tx)
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


def test_an_adversary_goes_on_as_another(tx: Tx) -> None:
    add_people(tx)
    tx.insert_many(
        "chain",
        [
            *("id", "name", "seq", "head", "at", "policy_version", "sealed_seq"),
            "survivor_id",
        ],
        [
            (number, f"c{number}", 1, "0" * 64, 1, 1, 0, 2 if number == 3 else None)
            for number in (1, 2, 3)
        ],
    )
    columns = ("adversary_id", "unit_id", "field_id", "time", "entries")
    tx.insert_many("exposure_count", columns, [(1, 2, 1, 0, 1), (2, 2, 1, 0, 4)])
    columns = ("adversary_id", "subject_id", "field_id", "place", "visits")
    tx.insert_many("visit", columns, [(1, 1, 1, "x", 1), (2, 1, 1, "x", 1)])
    columns = ("adversary_id", "property", "total")
    tx.insert_many("disclosure_sum", columns, [(1, "p", "1/2"), (2, "p", "1/3")])
    columns = ("adversary_id", "unit_id")
    tx.insert_many("recusal", columns, [(1, 4), (2, 4), (2, 6)])
    columns = ("plan_id", "account_id", "adversary_id", "entries")
    plan = ("id", "policy_version", "state", "verdict", "algorithm", "seed",
            "summary", "created_at")  # fmt: skip
    tx.insert_many("plan", plan, [(1, 1, "draft", "x", "y", 0, "{}", 1)])
    tx.insert_many("assignment", columns, [(1, 1, 1, b""), (1, 2, 2, b"")])
    columns = (
        "id", "entry_id", "account_id", "adversary_id", "connector", "state",
        "created_at",
    )  # fmt: skip
    tx.insert_many("task", columns, [(n, 1, n, n, "x", "sent", 1) for n in (1, 2)])
    accounts.end_adversary(tx, 2, 1)
    assert table(tx, "account", "id, adversary_id") == [(1, 1), (2, 1), (3, 1)]
    assert table(tx, "chain", "id, survivor_id") == [
        (SYSTEM_CHAIN, None),
        (1, None),
        (2, 1),
        (3, 1),
    ]
    assert table(tx, "recusal") == [(1, 4), (1, 6)]
    assert table(tx, "task", "id, adversary_id") == [(1, 1), (2, 1)]
    assert table(tx, "assignment", "account_id, adversary_id") == [(1, 1), (2, 1)]
    for name in ("exposure_count", "visit", "disclosure_sum"):
        assert table(tx, name, "adversary_id", "1") == [(1,)]


def test_links_and_sessions_of_the_console(tx: Tx) -> None:
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
        access.open_session(tx, name, moment, moment)
    access.touch_console_session(tx, "s", 35)
    access.touch_console_session(tx, "s", 33)
    found = access.session(tx, "s")
    assert (found.opened_at, found.seen_at, found.ended_at) == (30, 35, None)
    assert access.end_sessions(tx, 40, "s") == 1
    assert access.end_sessions(tx, 41) == 2
    assert access.end_sessions(tx, 41, "s") == 0
    access.touch_console_session(tx, "s", 50)
    assert access.session(tx, "s").seen_at == 35
    access.forget_before(tx, 32)
    assert table(tx, "operator_session", "digest", "1") == [("u",)]
    assert table(tx, "sign_in_link", "digest", "1") == []
    access.note(tx, 5, "somebody", "console.link")
    assert table(tx, "event", "at, actor, action, detail") == [
        (5, "somebody", "console.link", "{}")
    ]


def test_what_fits_no_task(tx: Tx) -> None:
    columns = ("id", "connector", "reason", "payload", "at")
    given = [(n, "x", "odd", b"said %d" % n, n % 3) for n in range(1, 6)]
    tx.insert_many("quarantine", columns, given)
    assert collecting.waiting(tx) == [1, 2, 3, 4, 5]
    assert collecting.dismiss(tx, [2, 9, 2], "fine", 7) == 1
    assert collecting.dismiss(tx, [2], "again", 8) == 0
    assert collecting.dismiss(tx, [], "none", 8) == 0
    assert collecting.waiting(tx) == [1, 3, 4, 5]
    assert rows(collecting.listed(tx, 2, dismissed=False)) == [
        (5, "x", "odd", 2, None, None),
        (4, "x", "odd", 1, None, None),
    ]
    assert rows(collecting.listed(tx, 2, dismissed=True))[1] == (
        2, "x", "odd", 2, 7, "fine",
    )  # fmt: skip
    assert collecting.payloads(tx, [3, 1, 9]) == {1: b"said 1", 3: b"said 3"}
    assert collecting.payloads(tx, []) == {}


def test_messages_that_wait_or_are_dead(tx: Tx) -> None:
    add_people(tx)
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
    assert outbox.messages(tx, None, 2) == [
        (1, "inhouse", "inhouse/ann", "offer", "ready", 0, ""),
        (2, "folder", "folder/bob", "publish", "dead", 5, "no"),
    ]
    assert [row[0] for row in outbox.messages(tx, "dead", 9)] == [2, 3]
    assert outbox.messages(tx, "sent", 9) == []
    assert outbox.dead(tx, [], None) == [2, 3]
    assert outbox.dead(tx, [], "inhouse") == []
    assert outbox.dead(tx, [3, 1], "folder") == [3]
    assert outbox.revive(tx, [], 8) == 0
    assert outbox.revive(tx, [1, 2], 8) == 1
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


def test_chains_as_evidence_reads_them(tx: Tx) -> None:
    add_people(tx)
    add_records(tx)
    tx.insert_many(
        "chain",
        [
            *("id", "name", "seq", "head", "at", "policy_version", "sealed_seq"),
            "survivor_id",
        ],
        [
            (number, f"c{number}", 2, "0" * 64, 1, 1, 0, 1 if number == 2 else None)
            for number in (1, 2, 3)
        ],
    )
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
    assert [chain.id for chain in audit.chains_in_order(tx)] == [2, 3, 1]
    member, join = audit.lines_up_to(tx, 2, 2)
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
    assert [line.seq for line in audit.lines_up_to(tx, 2, 2, after=1)] == [2]
    (shown,) = audit.lines_up_to(tx, 1, 9)
    assert (shown.account, shown.cause, shown.record) == ("inhouse/ann", "plan", "r1")
    assert tuple(shown.entry) == (2, 1, None, 2, 7, None, None)
    assert audit.hash_at(tx, 1, 1) == "03" * 32
    assert audit.hash_at(tx, 1, 2) is None


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
