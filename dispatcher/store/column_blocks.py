"""Rows as columns: how a booking's thousands of rows go to the database, and come back.

A block says once what is the same in all its rows. Binary COPY takes it as one string of
bytes that a few array passes make, where the driver would make an object of each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"

Column: TypeAlias = "int | str | bytes | list[int] | range | Ints"
"""A number or text for all rows, a number for each, or values of one width in a row."""

GATHERED: Final = 2000
"""Rows that are sent together, about: the server works on them while more are made."""

START: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = b"\xff\xff"
"""Header and trailer of a binary COPY."""

_WIDTHS: Final = {"int2": 2, "int4": 4, "int8": 8}


class Block(NamedTuple):
    """So many rows, column by column; texts are the same in all of them."""

    size: int
    columns: tuple[Column, ...]


def rows_of(block: Block) -> Iterator[tuple[Any, ...]]:
    """Rows of a block as drivers take them (bytes as ``bytearray``, see bulk)."""
    if block.size == 1:  # a single booking: it waits for this
        return iter([tuple(map(_value, block.columns))])
    return zip(*(_values(column, block.size) for column in block.columns), strict=True)


def _value(column: Column) -> Any:  # noqa: ANN401
    if isinstance(column, int | str):
        return column
    return bytearray(column) if isinstance(column, bytes) else int(column[0])


def _values(column: Column, size: int) -> Iterable[Any]:
    if isinstance(column, int | str):
        return repeat(column, size)
    if isinstance(column, bytes):
        width = len(column) // size
        return (bytearray(column[i : i + width]) for i in range(0, len(column), width))
    return column if isinstance(column, list | range) else column.tolist()


def gathered(blocks: Iterable[Block]) -> Iterator[Block]:
    """Put small blocks together, as long as their texts are the same."""
    waiting: list[Block] = []
    size = 0
    for block in blocks:
        if waiting and (size >= GATHERED or _texts(block) != _texts(waiting[0])):
            yield _joined(waiting, size)
            waiting, size = [], 0
        waiting.append(block)
        size += block.size
    if waiting:
        yield _joined(waiting, size)


def _texts(block: Block) -> list[str]:
    return [column for column in block.columns if isinstance(column, str)]


def _joined(blocks: Sequence[Block], size: int) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    sizes = [block.size for block in blocks]
    columns = zip(*(block.columns for block in blocks), strict=True)
    return Block(size, tuple(_one_column(parts, sizes) for parts in columns))


def _one_column(parts: Sequence[Any], sizes: Sequence[int]) -> Any:  # noqa: ANN401
    import numpy as np  # noqa: PLC0415 - not before rows are written by the thousand

    first = parts[0]
    if isinstance(first, str):
        return first
    if isinstance(first, int):
        return np.repeat(np.array(parts, np.int64), sizes)
    if isinstance(first, bytes):
        return b"".join(parts)
    return np.concatenate([np.asarray(part, np.int64) for part in parts])


def copied(block: Block, types: Sequence[str]) -> bytes:
    """Rows of a block as binary COPY wants them.

    Parameters
    ----------
    block : Block
    types : Sequence of str
        PostgreSQL's names of the columns' types.
    """
    import numpy as np  # noqa: PLC0415

    size = block.size
    values = [
        _cells(column, size, kind)
        for column, kind in zip(block.columns, types, strict=True)
    ]
    form: list[tuple[str, Any]] = [("columns", ">i2")]
    for i, cells in enumerate(values):
        form += [(f"width{i}", ">i4"), (f"value{i}", cells.dtype)]
    rows = np.empty(size, np.dtype(form))
    rows["columns"] = len(values)
    for i, cells in enumerate(values):
        rows[f"width{i}"] = cells.dtype.itemsize
        rows[f"value{i}"] = cells
    return rows.tobytes()


def _cells(column: Column, size: int, kind: str) -> npt.NDArray[Any]:
    """Values of a column in the server's byte order; a single one is of all rows."""
    import numpy as np  # noqa: PLC0415

    if isinstance(column, str):
        text = column.encode()
        return np.frombuffer(text, f"V{len(text)}")
    if isinstance(column, bytes):
        return np.frombuffer(column, f"V{len(column) // size}")
    return np.asarray(column, np.int64).astype(f">i{_WIDTHS[kind]}")


def unpacked(raw: bytes | None, width: int) -> Ints:
    """Rows of ``width`` integers that the server put one behind another."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(raw or b"", ">i8").astype(np.int64).reshape(-1, width)


def table(rows: Iterable[Sequence[int]], width: int) -> Ints:
    """Rows of ``width`` integers as an array, taken one by one."""
    import numpy as np  # noqa: PLC0415

    return np.fromiter(rows, np.dtype((np.int64, width)))


def joined(tables: Sequence[Ints], width: int) -> Ints:
    """Tables of ``width`` columns in one, also where there is none."""
    import numpy as np  # noqa: PLC0415

    return np.concatenate([np.empty((0, width), np.int64), *tables])
