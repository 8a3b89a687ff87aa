"""Blocks of columns are the rows that they stand for, however they are put together."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.store.column_blocks import (
    END,
    GATHERED,
    START,
    Block,
    copied,
    gathered,
    rows_of,
    table,
    unpacked,
)

TYPES = ("int8", "int8", "text", "int2", "int4", "bytea")


def block(size: int, *, first: int = 1, word: str = "plan", who: int = 7) -> Block:
    """Every kind of column that a booking has."""
    columns = (
        range(first, first + size),
        np.arange(size) * -3,
        word,
        [n % 2 for n in range(size)],
        who,
        b"".join(bytes([n % 256, 0]) for n in range(size)),
    )
    return Block(size, columns)


def read(raw: bytes) -> list[tuple[object, ...]]:
    """Rows of binary COPY, word by word as PostgreSQL's manual has them."""
    rows, at = [], 0
    while at < len(raw):
        (count,) = struct.unpack_from(">h", raw, at)
        at += 2
        row: list[object] = []
        for kind in TYPES[:count]:
            (size,) = struct.unpack_from(">i", raw, at)
            value = raw[at + 4 : at + 4 + size]
            at += 4 + size
            if kind.startswith("int"):
                assert size == int(kind[3:])
                row.append(int.from_bytes(value, signed=True))
            else:
                row.append(value.decode() if kind == "text" else value)
        rows.append(tuple(row))
    return rows


def test_a_block_is_its_rows() -> None:
    assert list(rows_of(block(2, first=5))) == [
        (5, 0, "plan", 0, 7, bytearray(b"\0\0")),
        (6, -3, "plan", 1, 7, bytearray(b"\1\0")),
    ]


def test_rows_hold_nothing_that_sqlite_needs_an_adapter_for() -> None:
    kinds = {type(value) for row in rows_of(block(3)) for value in row}
    assert kinds == {int, str, bytearray}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.text(min_size=1))
def test_blocks_put_together_and_copied_are_the_rows_of_all(
    sizes: list[int], word: str
) -> None:
    word = word.encode(errors="ignore").decode() or "x"
    blocks = [
        block(size, first=10 * i, word=word, who=i) for i, size in enumerate(sizes)
    ]
    (whole,) = gathered(blocks)
    rows = [row for each in blocks for row in rows_of(each)]
    assert list(rows_of(whole)) == rows
    assert read(copied(whole, TYPES)) == rows


def test_blocks_of_different_words_stay_apart_and_in_order() -> None:
    words = ["a", "a", "b", "a"]
    found = [b.columns[2] for b in gathered(block(1, word=w) for w in words)]
    assert found == ["a", "b", "a"]


def test_no_more_is_gathered_than_is_sent_together() -> None:
    half = GATHERED // 2
    assert [b.size for b in gathered(block(half) for _ in range(5))] == [
        GATHERED, GATHERED, half,
    ]  # fmt: skip
    assert not list(gathered([]))


def test_a_copy_begins_and_ends_as_postgres_wants() -> None:
    assert bytes.fromhex("5047434f50590aff0d0a000000000000000000") == START
    assert struct.unpack(">h", END) == (-1,)


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2)))
def test_numbers_come_back_from_their_packed_form(
    rows: list[tuple[int, int]],
) -> None:
    raw = b"".join(struct.pack(">qq", *row) for row in rows)
    for found in (unpacked(raw, 2), table(rows, 2)):
        assert found.shape == (len(rows), 2)
        assert list(map(tuple, found.tolist())) == rows
    assert unpacked(None, 3).shape == (0, 3)
