"""Links, sums, summaries and the ledger's rows: what is written, and read back.

One small store: ann (1), bob (2) and eve (3) are loaded, zoe is only linked with; what
adversary 3 was shown goes on as adversary 2's.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete

from dispatcher.model import ExposureCount
from dispatcher.store import (
    Store,
    Tx,
    averages,
    comparison,
    decisions,
    exposure_counts,
    exposure_queries,
    ledger,
    records,
    relations,
    replaying,
)
from dispatcher.store import pause as pauses
from dispatcher.store import policies as policy_rows
from dispatcher.store.column_blocks import Block
from dispatcher.store.entry_registrations import KnownEntry
from dispatcher.store.transaction import Piece
from tests import edits, sql


@pytest.fixture
def tx(store: Store) -> Iterator[Tx]:
    with store.write() as tx:
        fill(tx)
        yield tx


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found]


def table(tx: Tx, name: str, columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, sql.rows(tx, f"SELECT {columns} FROM {name}")), key=repr)


def fill(tx: Tx) -> None:
    names = [(1, "a"), (2, "b"), (3, "c")]
    tx.insert_many("field", ["id", "name"], names)
    tx.insert_many(
        "run", ["id", "name", "state", "created_at"], [(1, "one", "active", 1)]
    )
    tx.insert_many(
        "subject",
        ["id", "pseudonym", "value"],
        [(1, "ann", b""), (2, "bob", b""), (3, "eve", b"")],
    )
    tx.insert_many(
        "link",
        ["id", "relation", "one", "other", "version"],
        [
            (1, "friend", "ann", "bob", 1),
            (2, "friend", "ann", "zoe", 1),
            (3, "friend", "bob", "eve", 2),
            (4, "friend", "yan", "zoe", 2),
            (5, "kin", "ann", "eve", 3),
        ],
    )
    tx.insert_many(
        "record",
        ["id", "run_id", "load_id", "pseudonym", "key", "columns", "subject_id",
         "lost_at"],
        [
            (1, 1, 1, "r1", b"", b"[]", 1, None),
            (2, 1, 1, "r2", b"", b"[]", 2, 7),
            (3, 1, 1, "r3", b"", b"[]", None, None),
            (4, 1, 1, "r4", b"", b"[]", 1, None),
        ],
    )  # fmt: skip
    tx.insert_many(
        "entry",
        ["id", "record_id", "field_id", "subject_id", "time", "vector", "visits",
         "shown", "media"],
        [
            (1, 1, 1, 1, None, "p", 2, b"x", "text/plain"),
            (2, 1, 2, 1, 60, None, None, b"x", "text/plain"),
            (3, 2, 1, 2, 70, "p", 1, b"x", "text/plain"),
            (4, 3, 1, None, None, "q", 5, b"x", "text/plain"),
            (5, 4, 1, 1, None, "p", 3, b"x", "text/plain"),
            (6, 4, 3, 2, 80, None, None, b"x", "text/plain"),
        ],
    )  # fmt: skip
    tx.insert_many(
        "chain",
        ["id", "name", "seq", "head", "at", "policy_version", "sealed_seq",
         "survivor_id"],
        [
            (1, "adv-1", 2, "1" * 64, 5, 1, 1, None),
            (2, "adv-2", 2, "2" * 64, 6, 1, 0, None),
            (3, "adv-3", 1, "3" * 64, 7, 1, 0, 2),
        ],
    )  # fmt: skip
    tx.insert_many(
        "account",
        ["id", "connector", "name", "adversary_id", "groups", "state", "invite",
         "quality"],
        [
            (1, "inhouse", "ann", 1, '["g"]', "active", 1, 0.5),
            (2, "folder", "bob", 2, "[]", "active", 1, 0.5),
            (3, "folder", "eve", 2, '["g"]', "blocked", 1, 0.5),
        ],
    )  # fmt: skip
    tx.insert_many(
        "ledger_line",
        ["chain_id", "seq", "kind", "at", "policy_version", "account_id", "entry_id",
         "cause", "showing", "body", "hash"],
        [
            (1, 1, "exposure", 5, 1, 1, 1, "plan", 1, None, b"\1"),
            (1, 2, "exposure", 5, 1, 1, 2, "plan", 1, None, b"\2"),
            (2, 1, "exposure", 6, 1, 2, 3, "plan", 1, None, b"\3"),
            (2, 2, "unburn", 6, 1, None, 3, None, None, '{"extra":2}', b"\4"),
            (3, 1, "exposure", 7, 1, 3, 5, "plan", 1, None, b"\5"),
            (3, 2, "exposure", 7, 1, 3, 4, "plan", 1, None, b"\6"),
            (3, 3, "exposure", 7, 1, 3, 3, "again", 0, None, b"\7"),
        ],
    )  # fmt: skip
    tx.insert_many(
        "exposure_count",
        ["adversary_id", "unit_id", "field_id", "time", "entries"],
        [
            (1, 2, 1, 0, 1), (1, 2, 2, 0, 1), (1, 3, 2, 60, 1),
            (2, 4, 1, 0, 1), (2, 5, 1, 0, 1), (2, 6, 1, 0, 1), (2, 8, 1, 0, 1),
        ],
    )  # fmt: skip
    tx.insert_many(
        "visit",
        ["adversary_id", "subject_id", "field_id", "place", "visits"],
        [(1, 1, 1, "p", 2), (2, 1, 1, "p", 3), (2, 2, 1, "p", 1)],
    )


VISIT = "adversary_id, subject_id, field_id, place, visits"


# -- links and visits ------------------------------------------------------------------


def test_links_of_a_relation(tx: Tx) -> None:
    assert rows(relations.pairs(tx, "friend")) == [
        ("ann", "bob"), ("ann", "zoe"), ("bob", "eve"), ("yan", "zoe"),
    ]  # fmt: skip
    assert rows(relations.links(tx, "friend")) == [(1, 1, 2), (3, 2, 3)]
    assert rows(relations.links(tx, "none")) == []
    assert rows(relations.half_links(tx, "friend")) == [
        (1, 1, 2),
        (2, 1, -1),
        (3, 2, 3),
    ]
    assert rows(relations.links_by_version(tx)) == [
        (1, "friend", 1, 2), (1, "friend", 1, None), (2, "friend", 2, 3),
        (2, "friend", None, None), (3, "kin", 1, 3),
    ]  # fmt: skip
    assert [relations.count_up_to(tx, version) for version in (0, 1, 2, 9)] == [
        0,
        2,
        4,
        5,
    ]
    assert relations.ends(tx, []) == {}
    assert relations.ends(tx, [2, 5, 99]) == {2: ("ann", "zoe"), 5: ("ann", "eve")}


def test_a_link_is_added_under_a_number_of_its_own(tx: Tx) -> None:
    tx.reserve("link", 5)
    relations.add_links(tx, "kin", [("bob", "zoe")], 4)
    relations.add_links(tx, "kin", [], 4)
    assert rows(relations.pairs(tx, "kin")) == [("ann", "eve"), ("bob", "zoe")]


def test_whom_a_person_is_linked_with(tx: Tx) -> None:
    assert sorted(relations.mates(tx, "friend", 1), key=repr) == [2, None]
    assert sorted(relations.mates(tx, "friend", 2)) == [1, 3]
    assert relations.friends(tx, "friend", 1) == [2]
    assert relations.friends(tx, "kin", 2) == []
    assert relations.mates(tx, "friend", 99) == []


def test_what_an_adversary_has_of_people(tx: Tx) -> None:
    assert sorted(rows(relations.held_of(tx, 1, [1, 2]))) == [(1, 1, 1), (1, 1, 2)]
    assert sorted(rows(relations.held_of(tx, 2, [1, 2, 3]))) == [(1, 4, 1), (2, 2, 1)]
    assert (
        rows(relations.held_of(tx, 2, [])) == rows(relations.held_of(tx, 9, [1])) == []
    )
    assert sorted(rows(relations.all_held(tx, 2))) == [(1, 4, 1), (2, 2, 1)]
    assert rows(relations.all_held(tx, 9)) == []
    assert relations.holders(tx) == relations.adversaries(tx) == [1, 2]
    assert sorted(rows(relations.visits(tx, 2, [1, 2]))) == [
        (1, 1, "p", 3),
        (2, 1, "p", 1),
    ]
    assert rows(relations.visits(tx, 2, [])) == rows(relations.visits(tx, 9, [1])) == []
    assert sorted(rows(relations.all_visits(tx, 2))) == [(1, 1, "p", 3), (2, 1, "p", 1)]


def test_what_is_loaded_of_fields(tx: Tx) -> None:
    assert sorted(rows(relations.known_of(tx, [1, 3]))) == [
        (1, 1, 1), (1, 4, 1), (2, 2, 1), (2, 4, 3),
    ]  # fmt: skip
    assert rows(relations.known_of(tx, [])) == []
    found = sorted(rows(relations.known_visits(tx, [1, 3])))
    assert found == [(1, 1, "p", 5), (2, 1, "p", 1)]
    assert rows(relations.places(tx)) == [
        (1, "p", 2),
        (3, "p", 1),
        (4, "q", 5),
        (5, "p", 3),
    ]
    assert relations.places_of(tx, [1, 2, 3, 99]) == {1: ("p", 2), 3: ("p", 1)}
    assert relations.places_of(tx, []) == {}


def test_visits_are_added_up_and_forgotten(tx: Tx) -> None:
    relations.add_visits(tx, [(1, 1, 1, "p", 4), (1, 2, 1, "q", 1)])
    assert table(tx, "visit", VISIT)[:2] == [(1, 1, 1, "p", 6), (1, 2, 1, "q", 1)]
    relations.forget_visits(tx, 1)
    relations.forget_visits(tx, 1)
    assert table(tx, "visit", VISIT) == [(2, 1, 1, "p", 3), (2, 2, 1, "p", 1)]


def test_visits_are_made_anew_from_exposures(tx: Tx) -> None:
    kept = table(tx, "visit", VISIT)
    assert relations.differing_visits(tx, [1]) == 0
    assert relations.differing_visits(tx, []) == 3  # all that is kept, and nothing made
    relations.add_visits(tx, [(1, 1, 1, "p", 4), (9, 1, 1, "p", 1)])
    assert (
        relations.differing_visits(tx, [1]) == 3
    )  # one too many, one twice: kept and made
    relations.rebuild_visits(tx, [1], 1)
    assert table(tx, "visit", VISIT) == [*kept, (9, 1, 1, "p", 1)]
    relations.rebuild_visits(tx, [1])
    assert table(tx, "visit", VISIT) == kept
    relations.rebuild_visits(tx, [], 2)
    assert table(tx, "visit", VISIT) == kept[:1]
    relations.rebuild_visits(tx, [1], 2)  # with what chain 3 brought into it
    assert table(tx, "visit", VISIT) == kept
    relations.rebuild_visits(tx, [])
    assert table(tx, "visit", VISIT) == []


# -- sums ------------------------------------------------------------------------------


def test_sums_are_kept_one_by_one_and_replaced(tx: Tx) -> None:
    assert averages.stamp(tx) is None
    assert averages.last_load(tx) == 0
    columns = ["seq", "keys", "relations", "facts", "repeats"]
    tx.insert_many("key_lines", columns, [(3, b"", b"", b"", 0), (8, b"", b"", b"", 0)])
    assert averages.last_load(tx) == 8
    assert rows(averages.sums(tx, 1)) == []
    averages.put_sum(tx, 1, "x", "1/3")
    averages.put_sum(tx, 1, "x", "2/3")
    averages.put_sum(tx, 2, "y", "5")
    assert rows(averages.sums(tx, 1)) == [(1, "x", "2/3")]
    assert sorted(rows(averages.sums(tx))) == [(1, "x", "2/3"), (2, "y", "5")]
    averages.forget_sums(tx, 1)
    assert rows(averages.sums(tx)) == [(2, "y", "5")]
    averages.replace(tx, [("x", 4), ("y", 1)], [(7, "x", "1/2")], b"v1")
    assert sorted(rows(averages.sets(tx))) == [("x", 4), ("y", 1)]
    assert rows(averages.sums(tx)) == [(7, "x", "1/2")]
    averages.replace(tx, [], [], b"v2")
    assert rows(averages.sets(tx)) == rows(averages.sums(tx)) == []
    assert averages.stamp(tx) == b"v2"


def test_entries_and_exposure_counts_by_unit(tx: Tx) -> None:
    of_records = rows(averages.entries_by_unit(tx, subject=False))
    assert [row[0] for row in of_records] == [1, 1, 2, 3, 4, 4]
    assert sorted(of_records, key=repr)[:2] == [(1, 1, None), (1, 2, 60)]
    of_subjects = rows(averages.entries_by_unit(tx, subject=True))
    assert [row[0] for row in of_subjects] == [1, 1, 1, 2, 2]
    assert rows(averages.counts_by_unit(tx, subject=True)) == [
        (1, 1, 2, 60, 1), (2, 2, 1, 0, 1),
    ]  # fmt: skip
    of_records = rows(averages.counts_by_unit(tx, subject=False))
    assert [row[0] for row in of_records] == [1, 1, 2, 3, 4]
    assert sorted(rows(averages.unit_entries(tx, 1, subject=False)), key=repr) == [
        (1, None), (2, 60),
    ]  # fmt: skip
    assert sorted(rows(averages.unit_entries(tx, 2, subject=True)), key=repr) == [
        (1, 70), (3, 80),
    ]  # fmt: skip
    assert rows(averages.unit_entries(tx, 9, subject=True)) == []
    assert sorted(rows(averages.unit_counts(tx, 1, 2))) == [(1, 0, 1), (2, 0, 1)]
    assert rows(averages.unit_counts(tx, 1, 4)) == []
    assert averages.anything_held(tx)
    tx.execute(delete(ExposureCount))
    assert not averages.anything_held(tx)


# -- a comparison with the ledger ------------------------------------------------------


def test_a_comparison_reads_lines_and_facts(tx: Tx) -> None:
    lines = rows(comparison.lines(tx))
    assert [row[:2] for row in lines] == [
        (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3),
    ]  # fmt: skip
    assert (*lines[0][2:9], bytes(lines[0][9]), lines[0][10]) == (
        "exposure", 5, 1, 1, "plan", 1, None, b"\1", "r1.1",
    )  # fmt: skip
    assert (lines[3][5], lines[3][8], lines[3][10]) == (None, '{"extra":2}', "r2.1")
    assert sorted(rows(comparison.facts(tx)))[:4] == [
        (1, '["r1.1","ann",null,"p",2]'),
        (2, '["r1.2","ann",60,null,null]'),
        (3, '["r2.1","bob",70,"p",1]'),
        (4, '["r3.1",null,null,"q",5]'),
    ]
    assert comparison.strangers(tx) == [4]


def test_a_comparison_reads_tables_of_numbers(tx: Tx) -> None:
    shown = comparison.showings(tx, [1, 2, 3])
    of_entry = shown[["entry", "record", "field", "subject", "time"]].tolist()
    assert {(1, 1, 1, 1, 0), (5, 4, 1, 1, 0)} <= set(of_entry)
    assert comparison.exposure_counts(tx, [1, 2]).tolist() == [
        [1, 2, 1, 0, 1], [1, 2, 2, 0, 1], [1, 3, 2, 60, 1], [2, 4, 1, 0, 1],
        [2, 5, 1, 0, 1], [2, 6, 1, 0, 1], [2, 8, 1, 0, 1],
    ]  # fmt: skip
    assert comparison.tasks(tx, [1, 2, 3]).tolist() == []
    assert comparison.accounts_of_tasks(tx) == []
    assert rows(comparison.links(tx))[0] == (1, "friend", "ann", "bob", 1)
    assert comparison.subject_ids(tx) == {"ann": 1, "bob": 2, "eve": 3}
    assert comparison.field_names(tx) == {1: "a", 2: "b", 3: "c"}


def test_showings_are_those_of_the_chains_asked_for(tx: Tx) -> None:
    every = comparison.showings(tx, [1, 2, 3])
    each = [comparison.showings(tx, [chain]) for chain in (1, 2, 3)]
    assert every.tolist() == [row for part in each for row in part.tolist()]
    assert all(set(part["chain"].tolist()) <= {n} for n, part in enumerate(each, 1))
    assert len(comparison.showings(tx, [])) == 0


def test_tasks_of_another_account_are_found(tx: Tx) -> None:
    columns = ["id", "connector", "account_id", "kind", "state", "due", "attempts",
               "epoch", "created_at"]  # fmt: skip
    tx.insert_many("outbox", columns, [(1, "folder", 2, "publish", "sent", 1, 0, 0, 1)])
    columns = ["id", "entry_id", "account_id", "adversary_id", "connector", "outbox_id",
               "state", "created_at"]  # fmt: skip
    tx.insert_many(
        "task",
        columns,
        [
            (1, 1, 1, 1, "inhouse", None, "answered", 1),
            (2, 1, 1, 2, "inhouse", None, "answered", 1),
            (3, 1, 1, 1, "folder", 9, "answered", 1),
            (4, 3, 2, 2, "folder", 1, "answered", 1),
            (5, 3, 3, 2, "folder", 1, "answered", 1),
        ],
    )
    assert comparison.awry(tx) == {
        "task.adversary_id": [2],
        "task.connector": [3],
        "task.outbox_id": [3, 5],
    }
    assert comparison.tasks(tx, [2, 3]).tolist() == [[4, 2, 3], [5, 3, 3]]
    assert sorted(comparison.accounts_of_tasks(tx)) == [1, 2, 3]


def test_a_comparison_reads_policies(tx: Tx) -> None:
    assert rows(comparison.policies(tx)) == comparison.versions_with_functions(tx) == []
    tx.insert_many(
        "policy",
        ["version", "name", "source", "sha256", "applied_at"],
        [(2, "n", b"\xff", "2" * 64, 2), (1, "n", b"", "1" * 64, 1)],
    )
    tx.insert_many(
        "rule_table",
        ["version", "property", "source", "sha256", "levels", "worlds"],
        [(2, "x", "", "", "", ""), (2, "y", "", "", "", ""), (1, "x", "", "", "", "")],
    )
    found = [(row[0], bytes(row[1]), row[2]) for row in comparison.policies(tx)]
    assert found == [(1, b"", "1" * 64), (2, b"\xff", "2" * 64)]
    assert comparison.versions_with_functions(tx) == [1, 2]


# -- a replay of the ledger ------------------------------------------------------------


def test_a_replay_looks_entries_up(tx: Tx) -> None:
    assert replaying.entry_id(tx, "r4", 3) == 6
    assert replaying.entry_id(tx, "r4", 2) is replaying.entry_id(tx, "r9", 1) is None
    assert [replaying.holds(tx, 2, entry) for entry in (1, 3, 4, 5)] == [
        False, True, True, True,
    ]  # fmt: skip
    assert not replaying.holds(tx, 3, 5)  # it ended: adversary 2 goes on
    assert replaying.entries_of_names(tx, []) == set()
    assert replaying.entries_of_names(tx, ["r1", "r3", "r9"]) == {
        ("r1", 1), ("r1", 2), ("r3", 1),
    }  # fmt: skip
    assert replaying.count_lost(tx) == 1
    assert replaying.living_adversaries(tx) == [1, 2]


def test_what_may_have_been_shown(tx: Tx) -> None:
    assert replaying.planned_pairs(tx) == []
    columns = ["id", "policy_version", "state", "verdict", "algorithm", "seed",
               "summary", "created_at"]  # fmt: skip
    tx.insert_many(
        "plan",
        columns,
        [
            (1, 1, "applied", "FEASIBLE", "x", 1, "{}", 1),
            (2, 1, "draft", "FEASIBLE", "x", 1, "{}", 1),
            (3, 1, "applied", "FEASIBLE", "x", 1, "{}", 1),
        ],
    )
    tx.insert_many(
        "assignment",
        ["plan_id", "account_id", "adversary_id", "entries"],
        [(3, 1, 1, b"c"), (1, 2, 2, b"b"), (1, 1, 1, b"a"), (2, 1, 1, b"d"),
         (3, 2, 2, b"")],
    )  # fmt: skip
    assert replaying.planned_pairs(tx) == [(1, b"a"), (2, b"b"), (1, b"c")]


def test_units_that_were_open_lately(tx: Tx) -> None:
    assert replaying.open_units(tx, 5) == ([1, 2, 3, 4], [1, 2])
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "wanted", "state", "at"],
        [
            (1, 1.0, 1, "answered", 4), (2, 1.0, 1, "answered", 5),
            (3, 1.0, 1, "answered", 4), (4, 1.0, 1, "open", 1),
            (5, 1.0, 1, "answered", 4), (6, 1.0, 1, "answered", 4),
        ],
    )  # fmt: skip
    assert replaying.open_units(tx, 5) == ([1, 3], [1])


def test_entries_that_were_lost_are_written_without_a_value(tx: Tx) -> None:
    add = records.add_lost_entry
    for name in ("run", "subject", "record", "entry"):
        tx.reserve(name, 50)
    add(tx, KnownEntry("r9", 1, "new", 60, "p", 2), 3, 8)
    add(tx, KnownEntry("r9", 2, "ann", None, None, None), 3, 9)  # of the same record
    add(tx, KnownEntry("r8", 1, None, None, None, None), 4, 9)
    add(tx, KnownEntry("r3", 2, None, None, None, None), 4, 9)  # it has its values
    new = "WHERE id > 50 ORDER BY id"
    assert sql.rows(tx, f"SELECT id, name, state, created_at FROM run {new}") == [
        (51, "lost-with-the-store", "lost", 8)
    ]
    people = sql.rows(tx, f"SELECT id, pseudonym, value, key_id FROM subject {new}")
    assert people == [(51, "new", b"", None)]
    assert sql.rows(
        tx,
        "SELECT id, run_id, load_id, pseudonym, key, columns, subject_id, loaded_at,"
        f" erased_at, lost_at, key_id, waits_since FROM record {new}",
    ) == [
        (51, 51, 0, "r9", b"", b"[]", 51, 3, 8, 8, None, None),
        (52, 51, 0, "r8", b"", b"[]", None, 4, 9, 9, None, None),
    ]
    assert sql.rows(
        tx,
        "SELECT id, record_id, field_id, subject_id, time, vector, visits, shown,"
        f" media, key_id FROM entry {new}",
    ) == [
        (51, 51, 1, 51, 60, "p", 2, b"", "text/plain", None),
        (52, 51, 2, 1, None, None, None, b"", "text/plain", None),
        (53, 52, 1, None, None, None, None, b"", "text/plain", None),
        (54, 3, 2, None, None, None, None, b"", "text/plain", None),
    ]
    left = sql.rows(tx, "SELECT entry_id, state, at FROM result")
    assert left == [(54, "erased", 9)]


# -- the policy lock, policies and chains ---------------------------------------------


def test_the_version_in_force_is_read_and_locked(tx: Tx) -> None:
    words = ("", "shared", "alone")
    assert [policy_rows.in_force(tx, lock=word) for word in words] == [(0, None)] * 3
    assert (
        policy_rows.version_in_force(tx)
        == policy_rows.lock_policy_shared(tx)
        == policy_rows.lock_policy_exclusive(tx)
        == 0
    )
    assert policy_rows.policy_row(tx, 1) is None
    policy = (4, "small", b"\xff", "a" * 64, 9)
    policy_rows.put_policy(tx, *policy)
    assert [policy_rows.in_force(tx, lock=word) for word in words] == [
        (4, "a" * 64)
    ] * 3
    assert (
        policy_rows.lock_policy_shared(tx)
        == policy_rows.lock_policy_exclusive(tx)
        == policy_rows.version_in_force(tx)
        == 4
    )
    row = policy_rows.policy_row(tx, 4)
    found = (row.version, row.name, row.source, row.sha256, row.applied_at)
    assert found == policy
    assert policy_rows.policy_row(tx, 3) is None


def test_field_names_are_numbered_once(tx: Tx) -> None:
    assert ledger.field_ids(tx) == {"a": 1, "b": 2, "c": 3}
    assert ledger.number_fields(tx, []) == {"a": 1, "b": 2, "c": 3}
    numbers = {"a": 1, "b": 2, "c": 3, "y": 4, "x": 5}
    assert ledger.number_fields(tx, ["y", "a", "x", "y"]) == numbers
    assert ledger.number_fields(tx, ["x"]) == ledger.field_ids(tx) == numbers


def test_heads_of_chains_are_read_and_kept(tx: Tx) -> None:
    one = (1, "adv-1", 2, "1" * 64, 5, 1, 1, None)
    assert ledger.lock_chains(tx, []) == {}
    locked = ledger.lock_chains(tx, [3, 1, 3, 99])
    assert list(locked) == [1, 3]
    assert tuple(locked[1]) == one
    assert [row.id for row in ledger.all_chains(tx)] == [0, 1, 2, 3]
    new = (4, "adv-4", 0, "0" * 64, 0, 0, 0, None)
    ledger.add_chain(tx, ledger.ChainRow(*new))
    ledger.save_heads(
        tx, [locked[1]._replace(seq=7, head="7" * 64, at=8, policy_version=9)]
    )
    ledger.save_sealed(tx, [])
    ledger.save_sealed(tx, [(1, 6), (2, 2)])
    assert rows(ledger.all_chains(tx))[1:] == [
        (1, "adv-1", 7, "7" * 64, 8, 9, 6, None),
        (2, "adv-2", 2, "2" * 64, 6, 1, 2, None),
        (3, "adv-3", 1, "3" * 64, 7, 1, 0, 2),
        new,
    ]
    ledger.end_chain(tx, 2, 1)  # with adversary 3, which had ended in it
    assert [row.survivor_id for row in ledger.all_chains(tx)] == [
        None,
        None,
        1,
        1,
        None,
    ]


# -- what one decision asks ------------------------------------------------------------


def test_accounts_and_entries_are_read(tx: Tx) -> None:
    assert ledger.accounts(tx, []) == {}
    found = ledger.accounts(tx, [3, 1, 9])
    assert {n: tuple(row) for n, row in found.items()} == {
        1: (1, "inhouse", "ann", 1, "active"),
        3: (3, "folder", "eve", 2, "blocked"),
    }
    assert sorted(ledger.groups_of(tx, 2)) == ['["g"]', "[]"]
    assert ledger.groups_of(tx, 9) == []
    edits.change_record(tx, 4, waits_since=5)
    assert sorted(rows(ledger.entries(tx, [5, 2, 4, 99]))) == [
        (2, 1, 2, 1, 60, "r1", 1, False, None, None),
        (4, 3, 1, None, None, "r3", 1, False, "q", 5),
        (5, 4, 1, 1, None, "r4", 1, True, "p", 3),
    ]
    assert rows(ledger.entries(tx, [])) == []
    ledger.lock_entries(tx, [])
    ledger.lock_entries(tx, [3, 1, 99])


def test_lines_about_entries_are_read(tx: Tx) -> None:
    three = [(3, 2, 0, 0), (3, 2, 0, 2), (3, 2, 1, 0)]
    assert sorted(rows(ledger.showings(tx, 3))) == three
    assert ledger.showings(tx, 99) == rows(ledger.showings_of(tx, [])) == []
    assert sorted(rows(ledger.showings_of(tx, [3, 5, 99]))) == [*three, (5, 2, 1, 0)]


def test_recusals_and_stops_are_read(tx: Tx) -> None:
    assert ledger.recusals(tx, [1, 2]) == ledger.stopped_scopes(tx) == set()
    tx.insert_many("recusal", ["adversary_id", "unit_id"], [(1, 2), (1, 3), (2, 2)])
    assert ledger.recusals(tx, []) == set()
    assert ledger.recusals(tx, [1, 9]) == {(1, 2), (1, 3)}
    tx.insert_many(
        "run",
        ["id", "name", "state", "created_at"],
        [(2, "two", "lost", 1), (3, "three", "active", 1)],
    )
    tx.insert_many(
        "pause",
        ["scope", "reason", "at"],
        [("connector:x", "", 1), ("run:one", "", 1), ("run:gone", "", 1)],
    )
    assert ledger.stopped_scopes(tx) == {"connector:x", "run#1", "run#2"}
    tx.insert_many("pause", ["scope", "reason", "at"], [("all", "", 1)])
    assert ledger.stopped_scopes(tx) == {"all", "connector:x", "run#1", "run#2"}


def test_one_account_and_one_entry_are_asked_for(tx: Tx) -> None:

    def ask(entry: int, account: int) -> list[tuple[Any, ...]]:
        return [
            tuple(row)
            for row in tx.driver_rows(*decisions.ask_question(entry, account))
        ]

    assert ask(99, 1) == ask(1, 99) == []
    ann, bob = (1, "inhouse", "ann", 1, "active"), (2, "folder", "bob", 2, "active")
    four, two = (4, 3, 1, None, None, "r3", 1), (2, 1, 2, 1, 60, "r1", 1)
    there, nowhere = ("q", 5), (None, None)
    assert ask(4, 1) == [(*ann, *four, 0, *there, 0, 0, 0)]
    assert ask(2, 2) == [
        (*bob, *two, 0, *nowhere, 0, 0, 1)
    ]  # adversary 3 ended in bob's
    row = decisions.ask(ask(4, 1)[0])
    assert (row.account.text, row.entry.record, row.stopped) == ("inhouse/ann", "r3", 0)
    tx.insert_many("recusal", ["adversary_id", "unit_id"], [(1, 2)])
    assert ask(4, 1) == [(*ann, *four, 0, *there, 0, 1, 0)]
    assert ask(2, 2) == [(*bob, *two, 0, *nowhere, 0, 0, 1)]
    edits.change_record(tx, 3, waits_since=5)
    tx.insert_many("pause", ["scope", "reason", "at"], [("all", "", 1)])
    assert ask(4, 1) == [(*ann, *four, 1, *there, 1, 1, 0)]
    pauses.lift_all(tx)
    edits.lose_runs(tx)
    assert ask(2, 2) == [(*bob, *two, 0, *nowhere, 1, 0, 1)]
    assert decisions.account_exists(tx, 1)
    assert not decisions.account_exists(tx, 99)


def test_what_a_decision_rests_on_is_asked_for(tx: Tx) -> None:

    def known(*asked: Any) -> tuple[list[Any], list[Any]]:
        found = decisions.known(tx.driver_rows(*decisions.known_question(*asked)))
        return sorted(found.shown, key=repr), sorted(found.held)

    assert known(99, 9, 99, None) == ([], [])
    assert known(3, 1, 1, 1) == (
        [(2, 1), (2, None), (3, 0)],
        [(2, 1, 0, 1), (2, 2, 0, 1), (3, 2, 60, 1)],
    )
    assert known(4, 2, 2, None) == ([(3, 1)], [(4, 1, 0, 1)])


def test_what_one_ask_locks_is_looked_at_and_locked(tx: Tx) -> None:
    assert decisions.look(tx, 99, 1) is decisions.look(tx, 1, 99) is None
    assert decisions.look(tx, 4, 2) == (0, None, 2, 3, None)
    policy_rows.put_policy(tx, 1, "p", b"", "b" * 64, 9)
    assert decisions.look(tx, 2, 1) == (1, "b" * 64, 1, 1, 1)
    for alone in (False, True):
        question = decisions.lock_question(2, 1, alone=alone)
        (row,) = tx.driver_rows(*question)
        assert row == (1, "b" * 64, 1, "adv-1", 2, "1" * 64, 5, 1, 1, None)
        assert tx.driver_rows(*decisions.lock_question(99, 1, alone=alone)) == []


# -- what a batch asks, and the summary ------------------------------------------------


def test_a_batch_reads_entries_records_and_lines(tx: Tx) -> None:
    assert decisions.lock_facts(tx, []).tolist() == []
    assert decisions.lock_facts(tx, [2, 4, 99]).tolist() == [
        [2, 1, 2, 1, 60], [4, 3, 1, -1, 0],
    ]  # fmt: skip
    edits.change_record(tx, 2, waits_since=5)
    found = rows(decisions.records(tx, [1, 2, 99]))
    assert found == [(1, "r1", 1, 0), (2, "r2", 1, 1)]
    assert rows(decisions.records(tx, [])) == []
    assert decisions.lines_about(tx, []).tolist() == []
    assert decisions.lines_about(tx, [6, 99]).shape == (0, 3)
    assert sorted(decisions.lines_about(tx, [3, 5, 6]).tolist()) == [
        [3, 2, -1], [3, 2, 1], [3, 3, 0], [5, 3, 1],
    ]  # fmt: skip
    assert decisions.survivors(tx) == {3: 2}


def test_exposure_counts_are_found_near_and_far(tx: Tx) -> None:
    assert (
        exposure_counts.counts(tx, []).tolist()
        == exposure_counts.counts(tx, [(1, [])]).tolist()
        == []
    )
    near = exposure_counts.counts(tx, [(1, [2, 3]), (2, [4, 6])])
    assert sorted(near.tolist()) == [
        [1, 2, 1, 0, 1], [1, 2, 2, 0, 1], [1, 3, 2, 60, 1],
        [2, 4, 1, 0, 1], [2, 5, 1, 0, 1], [2, 6, 1, 0, 1],
    ]  # fmt: skip
    far = exposure_counts.counts(tx, [(2, [4, 9000]), (9, [4, 9000])])
    assert far.tolist() == [[2, 4, 1, 0, 1]]
    assert exposure_counts.holds_anything(tx, 1)
    assert not exposure_counts.holds_anything(tx, 9)
    assert sorted(exposure_counts.all_counts(tx, 1)) == [
        (2, 1, 0, 1),
        (2, 2, 0, 1),
        (3, 2, 60, 1),
    ]
    assert exposure_counts.all_counts(tx, 9) == []


COUNTED = "adversary_id, unit_id, field_id, time, entries"


def test_exposure_counts_are_added_up_and_forgotten(tx: Tx) -> None:
    exposure_counts.add_counts(tx, [(1, 2, 1, 0, 2), (1, 9, 1, 0, 1)])
    exposure_counts.begin_counts(tx, Block(0, ()))
    exposure_counts.begin_counts(tx, Block(2, (7, [2, 4], 1, 0, [1, 2])))
    exposure_counts.forget(tx, 2)
    assert table(tx, "exposure_count", COUNTED) == [
        (1, 2, 1, 0, 3), (1, 2, 2, 0, 1), (1, 3, 2, 60, 1), (1, 9, 1, 0, 1),
        (7, 2, 1, 0, 1), (7, 4, 1, 0, 2),
    ]  # fmt: skip


def test_exposure_counts_are_made_anew_from_exposures(tx: Tx) -> None:
    kept = {1: (True, True, True, True), 2: (True, True, True, False),
            3: (False, False, False, False)}  # fmt: skip
    ann = [(1, 2, 1, 0, 1), (1, 2, 2, 0, 1), (1, 3, 1, 0, 1), (1, 3, 2, 60, 1)]
    bob = [
        (2, 3, 1, 0, 1), (2, 4, 1, 0, 1), (2, 5, 1, 70, 1), (2, 6, 1, 0, 1),
        (2, 8, 1, 0, 1),
    ]  # fmt: skip
    visits = table(tx, "visit", VISIT)
    exposure_counts.rebuild_counts(tx, kept, 1)
    assert table(tx, "exposure_count", COUNTED)[:4] == ann
    exposure_counts.rebuild_counts(tx, kept)
    assert table(tx, "exposure_count", COUNTED) == [*ann, *bob]
    assert table(tx, "visit", VISIT) == visits
    timeless = {1: (False, True, False, False)}
    exposure_counts.rebuild_counts(tx, timeless, 2)  # with what chain 3 brought into it
    assert table(tx, "exposure_count", COUNTED) == [
        *ann,
        (2, 3, 1, 0, 1),
        (2, 5, 1, 0, 1),
    ]
    assert table(tx, "visit", VISIT) == visits[:1]
    exposure_counts.rebuild_counts(tx, {})
    assert table(tx, "exposure_count", COUNTED) == []


def test_a_part_of_a_transaction_is_rolled_back(tx: Tx) -> None:
    kept = Piece("adv:1", 1, 1, "", 1, "a", b"")
    dropped = replace(kept, chain="adv:2")
    tx.grown = []
    with tx.savepoint():
        relations.forget_visits(tx, 1)
        tx.grown.append(kept)

    def fail(lines: list[Piece]) -> None:
        with tx.savepoint():
            relations.forget_visits(tx, 2)
            lines.append(dropped)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(tx.grown)
    assert tx.grown == [kept]
    assert table(tx, "visit", VISIT) == [(2, 1, 1, "p", 3), (2, 2, 1, "p", 1)]


# -- what an adversary was shown -------------------------------------------------------


def test_what_was_shown_of_a_unit_and_of_people_linked_with_it(tx: Tx) -> None:
    one, three, _, _ = ledger_entries(tx, 1, 3, 4, 5)
    of_bob = (3, 2, "a", "folder/bob", 6)
    of_ann = (5, 4, "a", "folder/eve", 7)  # adversary 3's account, that ended in 2
    assert exposure_queries.seen_of_unit(tx, 1, one, [1]) == [
        (1, 1, "a", "inhouse/ann", 5)
    ]
    assert exposure_queries.seen_of_unit(tx, 1, one, [1, 2]) == [
        (1, 1, "a", "inhouse/ann", 5),
        (2, 1, "b", "inhouse/ann", 5),
    ]
    assert exposure_queries.seen_of_unit(tx, 2, one, [1, 2]) == [of_ann]
    assert exposure_queries.seen_of_unit(tx, 2, one, []) == []
    assert exposure_queries.seen_of_people(tx, 2, one, "friend", [1, 2]) == [of_bob]
    assert exposure_queries.seen_of_people(tx, 2, one, "none", [1, 2]) == []
    assert exposure_queries.seen_of_links(tx, 2, one, "friend") == [of_bob]
    assert exposure_queries.seen_of_links(tx, 2, three, "friend") == [of_ann]
    assert exposure_queries.seen_of_links(tx, 1, one, "friend") == []


def ledger_entries(tx: Tx, *ids: int) -> list[ledger.GateEntry]:
    return sorted(ledger.entries(tx, ids))
