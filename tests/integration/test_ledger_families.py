"""Links, sums, summaries and the ledger's rows: what is written, and read back.

One small store: ann (1), bob (2) and eve (3) are loaded, zoe is only linked with; what
adversary 3 was shown goes on as adversary 2's.
"""

import importlib.util
import subprocess
import sys
import types
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from dispatcher.store import (
    Store,
    Tx,
    averages,
    comparison,
    intake,
    relations,
    replaying,
)
from dispatcher.store.entry_registrations import Facts

OLD = "4583515"


def old(module: types.ModuleType) -> types.ModuleType:
    """The module as it was with statements of text."""
    path = module.__name__.replace(".", "/") + ".py"
    source = subprocess.run(
        ["git", "show", f"{OLD}:{path}"], check=True, capture_output=True, text=True
    ).stdout
    spec = importlib.util.spec_from_loader(f"old_{module.__name__}", loader=None)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    exec(compile(source, path, "exec"), made.__dict__)
    return made


@pytest.fixture(params=["old", "new"])
def pick(request: pytest.FixtureRequest) -> Any:
    return old if request.param == "old" else lambda module: module


@pytest.fixture
def tx(store: Store) -> Iterator[Tx]:
    with store.write() as tx:
        fill(tx)
        yield tx


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found]


def table(tx: Tx, name: str, columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, tx.driver_rows(f"SELECT {columns} FROM {name}")), key=repr)


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
         "quality", "added_at"],
        [
            (1, "inhouse", "ann", 1, '["g"]', "active", 1, 0.5, 1),
            (2, "folder", "bob", 2, "[]", "active", 1, 0.5, 1),
            (3, "folder", "eve", 2, '["g"]', "blocked", 1, 0.5, 1),
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
        "holding",
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


def test_links_of_a_relation(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    assert rows(it.pairs(tx, "friend")) == [
        ("ann", "bob"), ("ann", "zoe"), ("bob", "eve"), ("yan", "zoe"),
    ]  # fmt: skip
    assert rows(it.links(tx, "friend")) == [(1, 1, 2), (3, 2, 3)]
    assert rows(it.links(tx, "none")) == []
    assert rows(it.half_links(tx, "friend")) == [(1, 1, 2), (2, 1, -1), (3, 2, 3)]
    assert rows(it.links_by_version(tx)) == [
        (1, "friend", 1, 2), (1, "friend", 1, None), (2, "friend", 2, 3),
        (2, "friend", None, None), (3, "kin", 1, 3),
    ]  # fmt: skip
    assert [it.count_up_to(tx, version) for version in (0, 1, 2, 9)] == [0, 2, 4, 5]
    assert it.ends(tx, []) == {}
    assert it.ends(tx, [2, 5, 99]) == {2: ("ann", "zoe"), 5: ("ann", "eve")}


def test_a_link_is_added_under_a_number_of_its_own(tx: Tx, pick: Any) -> None:
    tx.reserve("link", 5)
    pick(relations).add_links(tx, "kin", [("bob", "zoe")], 4)
    pick(relations).add_links(tx, "kin", [], 4)
    assert rows(pick(relations).pairs(tx, "kin")) == [("ann", "eve"), ("bob", "zoe")]


def test_whom_a_person_is_linked_with(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    assert sorted(it.mates(tx, "friend", 1), key=repr) == [2, None]
    assert sorted(it.mates(tx, "friend", 2)) == [1, 3]
    assert it.friends(tx, "friend", 1) == [2]
    assert it.friends(tx, "kin", 2) == []
    assert it.mates(tx, "friend", 99) == []


def test_what_an_adversary_has_of_people(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    assert sorted(rows(it.held_of(tx, 1, [1, 2]))) == [(1, 1, 1), (1, 1, 2)]
    assert sorted(rows(it.held_of(tx, 2, [1, 2, 3]))) == [(1, 4, 1), (2, 2, 1)]
    assert rows(it.held_of(tx, 2, [])) == rows(it.held_of(tx, 9, [1])) == []
    assert sorted(rows(it.all_held(tx, 2))) == [(1, 4, 1), (2, 2, 1)]
    assert rows(it.all_held(tx, 9)) == []
    assert it.holders(tx) == it.adversaries(tx) == [1, 2]
    assert sorted(rows(it.visits(tx, 2, [1, 2]))) == [(1, 1, "p", 3), (2, 1, "p", 1)]
    assert rows(it.visits(tx, 2, [])) == rows(it.visits(tx, 9, [1])) == []
    assert sorted(rows(it.all_visits(tx, 2))) == [(1, 1, "p", 3), (2, 1, "p", 1)]


def test_what_is_loaded_of_fields(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    assert sorted(rows(it.known_of(tx, [1, 3]))) == [
        (1, 1, 1), (1, 4, 1), (2, 2, 1), (2, 4, 3),
    ]  # fmt: skip
    assert rows(it.known_of(tx, [])) == []
    found = sorted(rows(it.known_visits(tx, [1, 3])))
    assert found == [(1, 1, "p", 5), (2, 1, "p", 1)]
    assert rows(it.places(tx)) == [(1, "p", 2), (3, "p", 1), (4, "q", 5), (5, "p", 3)]
    assert it.place_of(tx, 1) == ("p", 2)
    assert it.place_of(tx, 2) == it.place_of(tx, 99) == (None, 0)


def test_visits_are_added_up_and_forgotten(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    it.add_visits(tx, [(1, 1, 1, "p", 4), (1, 2, 1, "q", 1)])
    assert table(tx, "visit", VISIT)[:2] == [(1, 1, 1, "p", 6), (1, 2, 1, "q", 1)]
    it.forget_visits(tx, 1)
    it.forget_visits(tx, 1)
    assert table(tx, "visit", VISIT) == [(2, 1, 1, "p", 3), (2, 2, 1, "p", 1)]


def test_visits_are_made_anew_from_exposures(tx: Tx, pick: Any) -> None:
    it = pick(relations)
    kept = table(tx, "visit", VISIT)
    assert it.differing_visits(tx, [1]) == 0
    assert it.differing_visits(tx, []) == 3  # all that is kept, and nothing made
    it.add_visits(tx, [(1, 1, 1, "p", 4), (9, 1, 1, "p", 1)])
    assert it.differing_visits(tx, [1]) == 3  # one too many, one twice: kept and made
    it.rebuild_visits(tx, [1], 1)
    assert table(tx, "visit", VISIT) == [*kept, (9, 1, 1, "p", 1)]
    it.rebuild_visits(tx, [1])
    assert table(tx, "visit", VISIT) == kept
    it.rebuild_visits(tx, [], 2)
    assert table(tx, "visit", VISIT) == kept[:1]
    it.rebuild_visits(tx, [1], 2)  # with what chain 3 brought into it
    assert table(tx, "visit", VISIT) == kept
    it.rebuild_visits(tx, [])
    assert table(tx, "visit", VISIT) == []


# -- sums ------------------------------------------------------------------------------


def test_sums_are_kept_one_by_one_and_replaced(tx: Tx, pick: Any) -> None:
    it = pick(averages)
    assert it.stamp(tx) is None
    assert it.last_load(tx) == 0
    columns = ["seq", "keys", "relations", "facts", "repeats"]
    tx.insert_many("key_lines", columns, [(3, b"", b"", b"", 0), (8, b"", b"", b"", 0)])
    assert it.last_load(tx) == 8
    assert it.sum_of(tx, 1, "x") == 0
    it.put_sum(tx, 1, "x", "1/3")
    it.put_sum(tx, 1, "x", "2/3")
    it.put_sum(tx, 2, "y", "5")
    assert it.sum_of(tx, 1, "x") == Fraction(2, 3)
    assert sorted(rows(it.sums(tx))) == [(1, "x", "2/3"), (2, "y", "5")]
    it.forget_sums(tx, 1)
    assert rows(it.sums(tx)) == [(2, "y", "5")]
    it.replace(tx, [("x", 4), ("y", 1)], [(7, "x", "1/2")], b"v1")
    assert sorted(rows(it.sets(tx))) == [("x", 4), ("y", 1)]
    assert rows(it.sums(tx)) == [(7, "x", "1/2")]
    it.replace(tx, [], [], b"v2")
    assert rows(it.sets(tx)) == rows(it.sums(tx)) == []
    assert it.stamp(tx) == b"v2"


def test_entries_and_holdings_by_unit(tx: Tx, pick: Any) -> None:
    it = pick(averages)
    of_records = rows(it.entries_by_unit(tx, subject=False))
    assert [row[0] for row in of_records] == [1, 1, 2, 3, 4, 4]
    assert sorted(of_records, key=repr)[:2] == [(1, 1, None), (1, 2, 60)]
    of_subjects = rows(it.entries_by_unit(tx, subject=True))
    assert [row[0] for row in of_subjects] == [1, 1, 1, 2, 2]
    assert rows(it.holdings_by_unit(tx, subject=True)) == [
        (1, 1, 2, 60, 1), (2, 2, 1, 0, 1),
    ]  # fmt: skip
    of_records = rows(it.holdings_by_unit(tx, subject=False))
    assert [row[0] for row in of_records] == [1, 1, 2, 3, 4]
    assert sorted(rows(it.unit_entries(tx, 1, subject=False)), key=repr) == [
        (1, None), (2, 60),
    ]  # fmt: skip
    assert sorted(rows(it.unit_entries(tx, 2, subject=True)), key=repr) == [
        (1, 70), (3, 80),
    ]  # fmt: skip
    assert rows(it.unit_entries(tx, 9, subject=True)) == []
    assert sorted(rows(it.unit_holdings(tx, 1, 2))) == [(1, 0, 1), (2, 0, 1)]
    assert rows(it.unit_holdings(tx, 1, 4)) == []
    assert it.anything_held(tx)
    tx.driver_execute("DELETE FROM holding")
    assert not it.anything_held(tx)


# -- a comparison with the ledger ------------------------------------------------------


def test_a_comparison_reads_lines_and_facts(tx: Tx, pick: Any) -> None:
    it = pick(comparison)
    lines = rows(it.lines(tx))
    assert [row[:2] for row in lines] == [
        (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3),
    ]  # fmt: skip
    assert (*lines[0][2:10], bytes(lines[0][10]), lines[0][11]) == (
        "exposure", 5, 1, 1, 1, "plan", 1, None, b"\1", "r1.1",
    )  # fmt: skip
    assert lines[3][5:12:4] == (None, '{"extra":2}')
    assert lines[3][11] == "r2.1"
    assert sorted(rows(it.facts(tx)))[:4] == [
        (1, '["r1.1","ann",null,"p",2]'),
        (2, '["r1.2","ann",60,null,null]'),
        (3, '["r2.1","bob",70,"p",1]'),
        (4, '["r3.1",null,null,"q",5]'),
    ]
    assert it.strangers(tx) == [4]


def test_a_comparison_reads_tables_of_numbers(tx: Tx, pick: Any) -> None:
    it = pick(comparison)
    assert it.entries(tx).tolist() == [
        [1, 1, 1, 1, 0], [2, 1, 2, 1, 60], [3, 2, 1, 2, 70],
        [4, 3, 1, -1, 0], [5, 4, 1, 1, 0], [6, 4, 3, 2, 80],
    ]  # fmt: skip
    assert it.holdings(tx).tolist() == [
        [1, 2, 1, 0, 1], [1, 2, 2, 0, 1], [1, 3, 2, 60, 1], [2, 4, 1, 0, 1],
        [2, 5, 1, 0, 1], [2, 6, 1, 0, 1], [2, 8, 1, 0, 1],
    ]  # fmt: skip
    assert it.tasks(tx).tolist() == []
    assert rows(it.links(tx))[0] == (1, "friend", "ann", "bob", 1)
    assert it.subject_ids(tx) == {"ann": 1, "bob": 2, "eve": 3}
    assert it.field_names(tx) == {1: "a", 2: "b", 3: "c"}


def test_whole_tables_are_read_piece_by_piece(
    tx: Tx, pick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = pick(comparison)
    whole = it.entries(tx).tolist()
    monkeypatch.setattr(it, "AT_ONCE", 2)
    assert it.entries(tx).tolist() == whole


def test_tasks_of_another_account_are_found(tx: Tx, pick: Any) -> None:
    it = pick(comparison)
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
    assert it.awry(tx) == {
        "task.adversary_id": [2],
        "task.connector": [3],
        "task.outbox_id": [3, 5],
    }
    assert it.tasks(tx).tolist()[4] == [5, 3, 3]


def test_a_comparison_reads_policies(tx: Tx, pick: Any) -> None:
    it = pick(comparison)
    assert rows(it.policies(tx)) == it.versions_with_functions(tx) == []
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
    found = [(row[0], bytes(row[1]), row[2]) for row in it.policies(tx)]
    assert found == [(1, b"", "1" * 64), (2, b"\xff", "2" * 64)]
    assert it.versions_with_functions(tx) == [1, 2]


# -- a replay of the ledger ------------------------------------------------------------


def test_a_replay_looks_entries_up(tx: Tx, pick: Any) -> None:
    it = pick(replaying)
    assert it.entry_id(tx, "r4", 3) == 6
    assert it.entry_id(tx, "r4", 2) is it.entry_id(tx, "r9", 1) is None
    assert [it.holds(tx, 2, entry) for entry in (1, 3, 4, 5)] == [
        False, True, True, True,
    ]  # fmt: skip
    assert not it.holds(tx, 3, 5)  # it ended: adversary 2 goes on
    assert it.entries_of_names(tx, []) == set()
    assert it.entries_of_names(tx, ["r1", "r3", "r9"]) == {
        ("r1", 1), ("r1", 2), ("r3", 1),
    }  # fmt: skip
    assert it.count_lost(tx) == 1
    assert it.living_adversaries(tx) == [1, 2]


def test_what_may_have_been_shown(tx: Tx, pick: Any) -> None:
    it = pick(replaying)
    assert it.planned_pairs(tx) == []
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
    assert it.planned_pairs(tx) == [(1, b"a"), (2, b"b"), (1, b"c")]


def test_units_that_were_open_lately(tx: Tx, pick: Any) -> None:
    it = pick(replaying)
    assert it.open_units(tx, 5) == ([1, 2, 3, 4], [1, 2])
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "answers", "wanted", "state", "at"],
        [
            (1, 1.0, 1, 1, "answered", 4), (2, 1.0, 1, 1, "answered", 5),
            (3, 1.0, 1, 1, "answered", 4), (4, 1.0, 1, 1, "open", 1),
            (5, 1.0, 1, 1, "answered", 4), (6, 1.0, 1, 1, "answered", 4),
        ],
    )  # fmt: skip
    assert it.open_units(tx, 5) == ([1, 3], [1])


def test_entries_that_were_lost_are_written_without_a_value(tx: Tx, pick: Any) -> None:
    it = pick(replaying)
    add = getattr(it, "add_lost_entry", intake.add_lost_entry)
    for name in ("run", "subject", "record", "entry"):
        tx.reserve(name, 50)
    add(tx, Facts("r9", 1, "new", 60, "p", 2), 3, 8)
    add(tx, Facts("r9", 2, "ann", None, None, None), 3, 9)  # of the same record
    add(tx, Facts("r8", 1, None, None, None, None), 4, 9)
    add(tx, Facts("r3", 2, None, None, None, None), 4, 9)  # it has its values
    new = "WHERE id > 50 ORDER BY id"
    assert tx.driver_rows(f"SELECT id, name, state, created_at FROM run {new}") == [
        (51, "lost-with-the-store", "cancelled", 8)
    ]
    people = tx.driver_rows(f"SELECT id, pseudonym, value, key_id FROM subject {new}")
    assert people == [(51, "new", b"", None)]
    assert tx.driver_rows(
        "SELECT id, run_id, load_id, pseudonym, key, columns, subject_id, loaded_at,"
        f" erased_at, lost_at, key_id, waits_since FROM record {new}"
    ) == [
        (51, 51, 0, "r9", b"", b"[]", 51, 3, 8, 8, None, None),
        (52, 51, 0, "r8", b"", b"[]", None, 4, 9, 9, None, None),
    ]
    assert tx.driver_rows(
        "SELECT id, record_id, field_id, subject_id, time, vector, visits, shown,"
        f" media, key_id FROM entry {new}"
    ) == [
        (51, 51, 1, 51, 60, "p", 2, b"", "text/plain", None),
        (52, 51, 2, 1, None, None, None, b"", "text/plain", None),
        (53, 52, 1, None, None, None, None, b"", "text/plain", None),
        (54, 3, 2, None, None, None, None, b"", "text/plain", None),
    ]
    left = tx.driver_rows("SELECT entry_id, state, answers, at FROM result")
    assert left == [(54, "erased", 0, 9)]
