"""How values go to PostgreSQL: what psycopg is told other than it would do itself."""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Any, Final

from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper, ListDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

_BIGINTS: Final = 1016
"""PostgreSQL's number of the type ``bigint[]``."""

_HEAD: Final = struct.Struct("!5I")  # dimensions, nulls, type of items, items, first


class _Arrays(ListBinaryDumper):
    """Lists; those of integers, which may be ten thousands of ids, in a few passes."""

    def dump(self, obj: list[Any]) -> Any:  # noqa: ANN401
        if self.oid != _BIGINTS or set(map(type, obj)) != {int}:
            return super().dump(obj)
        numbers = array("q", obj)
        if sys.byteorder == "little":
            numbers.byteswap()
        raw = numbers.tobytes()
        items = bytearray(12 * len(obj))  # each: its length, 8, and the number
        items[3::12] = b"\x08" * len(obj)
        for place in range(8):
            items[4 + place :: 12] = raw[place::8]
        return _HEAD.pack(1, 0, Int8BinaryDumper.oid, len(obj), 1) + items


def adapted() -> AdaptersMap:
    """Send every integer as bigint and every sequence as an array.

    Psycopg's choice by size would have a statement prepared anew for every combination
    of sizes, and a tuple would become a row.
    """
    mine = AdaptersMap(adapters)
    mine.register_dumper(int, Int8Dumper)
    mine.register_dumper(int, Int8BinaryDumper)
    for kind in (list, tuple):
        mine.register_dumper(kind, ListDumper)
        mine.register_dumper(kind, _Arrays)
    return mine
