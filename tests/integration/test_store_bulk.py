"""The bulk writer does on both databases what single statements would."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import case, delete
from sqlmodel import col, select

from dispatcher.core.errors import Invalid
from dispatcher.model import ExposureCount, FieldName
from dispatcher.store import Clash, Store, Tx
from dispatcher.store.bulk import FEW
from dispatcher.store.column_blocks import GATHERED, Block, rows_of
from dispatcher.store.statements import DriverStatement, in_list
from tests import sql

SIZES = [0, 1, FEW - 1, FEW, FEW + 1, 5 * FEW]
"""Numbers of rows on both sides of where PostgreSQL changes its way."""

COUNTED = ("adversary_id", "unit_id", "field_id", "time")


def fields(count: int) -> Iterator[tuple[int, str]]:
    return ((number, f"name {number}") for number in range(count))


@pytest.mark.parametrize("count", SIZES)
def test_every_row_is_inserted_once(store: Store, count: int) -> None:
    with store.write() as tx:
        assert tx.insert_many("field", ["id", "name"], fields(count)) == count
    with store.read() as tx:
        assert sql.rows(tx, "SELECT id, name FROM field ORDER BY id") == list(
            fields(count)
        )


@pytest.mark.parametrize("count", [1, 2, 3 * FEW])
def test_a_column_that_is_left_out_gets_no_default_and_is_named(
    store: Store, count: int
) -> None:
    columns = ("entry_id", "wanted", "state", "at")
    rows = [(number, 1, "open", 5) for number in range(count)]
    with pytest.raises(Clash, match="confidence"), store.write() as tx:
        tx.insert_many("result", columns, rows)
    with pytest.raises(Clash, match="confidence"), store.write() as tx:
        tx.upsert_many("result", ["entry_id"], columns, rows)


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_every_type_comes_back_as_it_went(store: Store, count: int) -> None:
    columns = [
        "chain_id",
        "seq",
        "kind",
        "at",
        "policy_version",
        "entry_id",
        "cause",
        "showing",
        "body",
        "hash",
    ]
    rows = [
        (
            1,
            n,
            "exposure",
            2**62,
            1,
            -n if n % 2 else None,
            "push",
            1,
            "ß😀\n\t\\",
            b"\x00\xff",
        )
        for n in range(1, count + 1)
    ]
    with store.write() as tx:
        tx.insert_many("ledger_line", columns, rows)
        found = sql.rows(
            tx, f"SELECT {', '.join(columns)} FROM ledger_line ORDER BY seq"
        )
    assert found == rows


LINE = ("chain_id", "seq", "kind", "at", "policy_version", "entry_id", "cause",
        "showing", "hash")  # fmt: skip


def blocks(count: int) -> Iterator[Block]:
    """Lines of chains of 40, in blocks as a booking makes them."""
    for chain in range(-(-count // 40)):
        size = min(40, count - 40 * chain)
        ids = np.arange(size) - 2**62
        hashes = b"".join(bytes([n, 0, 255]) for n in range(size))
        columns = (chain + 1, range(1, size + 1), "exposure", 2**62, 1, ids)
        yield Block(size, (*columns, f"ß{chain // 2}", [1] * size, hashes))


@pytest.mark.parametrize("count", [*SIZES, 3 * GATHERED])
def test_blocks_are_inserted_as_their_rows_would_be(store: Store, count: int) -> None:
    with store.write() as tx:
        assert tx.insert_blocks("ledger_line", LINE, blocks(count)) == count
        found = sql.rows(tx, f"SELECT {', '.join(LINE)} FROM ledger_line ORDER BY 1, 2")
    expected = [row for block in blocks(count) for row in rows_of(block)]
    assert [tuple(row) for row in found] == expected


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_a_block_with_a_row_that_exists_undoes_all(store: Store, count: int) -> None:
    twice = [*blocks(count), *blocks(1)]
    with pytest.raises(Clash), store.write() as tx:
        tx.insert_blocks("ledger_line", LINE, twice)
    with store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM ledger_line") == 0


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_an_error_of_the_blocks_themselves_is_passed_on(
    store: Store, count: int
) -> None:
    def broken() -> Iterator[Block]:
        yield from blocks(count)
        message = "chain 7 is cut"
        raise LookupError(message)

    with pytest.raises(LookupError, match="cut"), store.write() as tx:
        tx.insert_blocks("ledger_line", LINE, broken())
    with store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM ledger_line") == 0


def test_numbers_come_as_one_table(store: Store) -> None:
    edges = [(-(2**63), 1), (-1, 2), (0, 3), (2**63 - 1, 4)]
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], [(n, f"n{i}") for n, i in edges])
        known = [n for n, _ in edges]
        signs = DriverStatement(
            select(FieldName.id, case((col(FieldName.id) < 0, -1), else_=1))
            .where(in_list(FieldName.id, "ids"))
            .order_by(col(FieldName.id))
        )
        lists = ([0, 7], [], [*range(9, 500), *known])
        asked = [(signs, {"ids": ids}) for ids in lists]
        found = tx.driver_numbers(2, asked)
        none = [tx.driver_numbers(2, ask) for ask in ([], asked[1:2])]
    assert [table.shape for table in none] == [(0, 2)] * 2
    assert found.tolist() == [[0, 1], *([n, -1 if n < 0 else 1] for n in known)]


@pytest.mark.parametrize("count", [2, 3 * FEW])
def test_fractions_come_back_as_they_went(store: Store, count: int) -> None:
    columns = ["entry_id", "confidence", "wanted", "state", "at"]
    rows = [(n, n / 7, 1, "open", 0) for n in range(count)]
    with store.write() as tx:
        tx.insert_many("result", columns, rows)
        found = sql.rows(
            tx, "SELECT entry_id, confidence FROM result ORDER BY entry_id"
        )
    assert found == [(n, n / 7) for n in range(count)]


@pytest.mark.parametrize("count", SIZES)
def test_only_new_keys_are_inserted(store: Store, count: int) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], [(0, "old")])
        new = tx.insert_new("field", ["id"], ["id", "name"], fields(count))
        assert new == max(0, count - 1)
        assert sql.value(tx, "SELECT name FROM field WHERE id = 0") == "old"


@pytest.mark.parametrize("count", SIZES)
def test_rows_that_exist_are_overwritten(store: Store, count: int) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], [(1, "old"), (10**9, "other")])
        tx.upsert_many(
            "field", ["id"], ["name", "id"], ((n, i) for i, n in fields(count))
        )
        expected = {1: "old", 10**9: "other"} | dict(fields(count))
        assert dict(sql.rows(tx, "SELECT id, name FROM field")) == expected


@pytest.mark.parametrize("count", SIZES)
def test_rows_are_changed_by_key(store: Store, count: int) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], ((n, f"old {n}") for n in range(100)))
        changed = tx.update_many("field", ["id"], ["name"], fields(count))
        assert changed == min(count, 100)  # keys that are not there are ignored
        expected = {n: f"old {n}" for n in range(100)}
        expected |= {n: name for n, name in fields(count) if n < 100}
        assert dict(sql.rows(tx, "SELECT id, name FROM field")) == expected


@pytest.mark.parametrize("count", [3, 2 * FEW])
def test_keys_of_two_columns_find_their_rows(store: Store, count: int) -> None:
    columns = ["plan_id", "account_id", "adversary_id", "entries"]
    rows = [(1, n, n, b"a") for n in range(count)] + [
        (2, n, n, b"a") for n in range(count)
    ]
    plan = ["id", "policy_version", "state", "verdict", "algorithm", "seed",
            "summary", "created_at"]  # fmt: skip
    with store.write() as tx:
        tx.insert_many(
            "plan", plan, [(n, 1, "draft", "x", "y", 0, "{}", 1) for n in (1, 2)]
        )
        tx.insert_many("assignment", columns, rows)
        tx.update_many(
            "assignment",
            ["plan_id", "account_id"],
            ["entries"],
            [(2, n, b"b") for n in range(count)],
        )
        assert sql.rows(
            tx,
            "SELECT plan_id, entries, count(*) FROM assignment"
            " GROUP BY plan_id, entries ORDER BY plan_id",
        ) == [(1, b"a", count), (2, b"b", count)]


def total(tx: Tx) -> dict[tuple[int, ...], int]:
    found = sql.rows(tx, f"SELECT {', '.join(COUNTED)}, entries FROM exposure_count")
    return {tuple(key): entries for *key, entries in found}


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 2)),
            max_size=2 * FEW,
        ),
        max_size=3,
    )
)
def test_counters_add_up_in_any_batches(
    store: Store, batches: list[list[tuple[int, int, int]]]
) -> None:
    expected: dict[tuple[int, ...], int] = {}
    with store.write() as tx:
        tx.execute(delete(ExposureCount))
        for batch in batches:
            rows = [(*key, 0, size) for size, key in enumerate(batch, start=1)]
            tx.upsert_add("exposure_count", COUNTED, "entries", iter(rows))
            for *key, size in rows:
                expected[tuple(key)] = expected.get(tuple(key), 0) + size
        assert total(tx) == expected


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_a_row_that_exists_undoes_the_whole_block(store: Store, count: int) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], [(0, "old")])
    with pytest.raises(Clash), store.write() as tx:
        tx.insert_many("field", ["id", "name"], fields(count))
    with store.read() as tx:
        assert sql.rows(tx, "SELECT id, name FROM field") == [(0, "old")]


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_a_value_outside_its_check_undoes_the_whole_block(
    store: Store, count: int
) -> None:
    rows = [(1, 1, n, 0, 0) for n in range(count)]
    with pytest.raises(Clash, match="exposure_count_entries"), store.write() as tx:
        tx.upsert_add("exposure_count", COUNTED, "entries", rows)


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_a_number_beyond_64_bits_is_invalid(store: Store, count: int) -> None:
    rows = [(n, f"n{n}") for n in range(count - 1)] + [(2**63, "too large")]
    with pytest.raises(Invalid), store.write() as tx:
        tx.insert_many("field", ["id", "name"], rows)


@pytest.mark.parametrize("count", [1, 3 * FEW])
def test_an_error_of_the_rows_themselves_is_passed_on(store: Store, count: int) -> None:
    def rows() -> Iterator[tuple[Any, ...]]:
        yield from fields(count)
        message = "line 7 is ragged"
        raise LookupError(message)

    with pytest.raises(LookupError, match="ragged"), store.write() as tx:
        tx.insert_many("field", ["id", "name"], rows())
    with store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM field") == 0


def test_rows_may_come_from_another_transaction(store: Store) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], fields(1000))
    with store.read() as source, store.write() as tx:
        rows = sql.stream(source, "SELECT name, 'copied', id FROM field")
        tx.insert_many("pause", ["scope", "reason", "at"], rows)
        assert sql.value(tx, "SELECT count(*) FROM pause") == 1000


def test_rows_that_ask_the_transaction_they_are_written_in_are_refused(
    store: Store,
) -> None:
    def rows(tx: Tx) -> Iterator[tuple[Any, ...]]:
        for number, name in fields(3 * FEW):
            found = (
                sql.value(tx, "SELECT count(*) FROM field") if number > 2 * FEW else 0
            )
            yield number, f"{name} {found}"

    with (
        pytest.raises(RuntimeError, match="while rows are written"),
        store.write() as tx,
    ):
        tx.insert_many("field", ["id", "name"], rows(tx))


def test_rows_streamed_from_the_same_transaction_are_refused(store: Store) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], fields(1000))

    def copy() -> None:
        with store.write() as tx:
            rows = sql.stream(tx, "SELECT name, 'copied', id FROM field")
            next(rows)
            tx.insert_many("pause", ["scope", "reason", "at"], rows)

    with pytest.raises(RuntimeError, match="while rows are written"):
        copy()
    with store.write() as tx:
        assert sql.value(tx, "SELECT count(*) FROM pause") == 0


def test_a_stream_left_open_ends_with_its_transaction(store: Store) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], fields(30_000))
    with store.read() as tx:
        rows = sql.stream(tx, "SELECT id FROM field")
        next(rows)
    with store.read() as tx:  # on the same connection
        rows.close()
        assert sql.value(tx, "SELECT count(*) FROM field") == 30_000


def test_unknown_columns_are_refused_before_anything_runs(store: Store) -> None:
    with store.write() as tx:
        with pytest.raises(ValueError, match="no column"):
            tx.insert_many("field", ["id", "name) --"], [(1, "x")])
        with pytest.raises(ValueError, match="no table"):
            tx.insert_many("nowhere", ["id"], [(1,)])
