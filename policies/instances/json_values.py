"""JSON values of instance files: typed and bounded, with located errors."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from policies.model.sets import Floats

LARGEST_INDEX: Final = 10**9
"""Largest index or size that is accepted."""

MOST_PAIRS: Final = 10**7
"""Largest number of pairs of entry and adversary, at up to 200 bytes each."""

MISTYPED: Final = 0.75
"""Similarity from which an unknown key is taken for a mistyped known one."""

_FROM_ZERO: Final = "Indices count from 0; check the sizes n_entries and n_adversaries."


class InvalidInstance(ValueError):
    """A malformed instance file.

    Parameters
    ----------
    what : str
        What was found, and what was expected.
    where : str
        Path of the field inside the document, like ``properties[3].entries[0]``.
    mend : str
        What the author of the file can do.
    """

    def __init__(self, what: str, where: str, mend: str) -> None:
        super().__init__(f"{where}: {what}")
        self.what = what
        self.where = where
        self.mend = mend


def describe(value: object) -> str:
    """Describe a JSON value in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value!r}"[:40]
        case str():
            return "a string"
        case list():
            return f"a list of {len(value)}"
        case _:
            return "an object"


def as_integer(
    value: object,
    where: str,
    low: int,
    high: int = LARGEST_INDEX,
    mend: str = _FROM_ZERO,
) -> int:
    """Return an integer from low to high; ``mend`` says what to write instead."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInstance(
            f"found {describe(value)}, expected an integer",
            where,
            "Write a whole number.",
        )
    if not low <= value <= high:
        raise InvalidInstance(
            f"{value if abs(value) < 10**12 else 'the number'} is out of range, "
            + (f"expected {low} to {high}" if low <= high else "there are none"),
            where,
            mend,
        )
    return value


def check_size(n: int, k: int, where: str) -> None:
    """Refuse an instance with more pairs than fit in memory."""
    if max(n, 1) * k > MOST_PAIRS:
        raise InvalidInstance(
            f"{n} entries for {k} adversaries, expected at most {MOST_PAIRS} pairs",
            where,
            "Name fewer adversaries, or solve parts that share no property one by one.",
        )


def as_number(
    value: object, where: str, low: float = 0.0, high: float = math.inf
) -> float:
    """Return a finite number from low to high."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInstance(
            f"found {describe(value)}, expected a number",
            where,
            "Write a plain number.",
        )
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise InvalidInstance(
            "found NaN or infinity, expected a finite number",
            where,
            "Replace it by a number: NaN and infinity mean nothing here.",
        )
    if not low <= real <= high:
        limit = f">= {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"
        raise InvalidInstance(
            f"{real!r} is out of range, expected {limit}",
            where,
            "Negative numbers have no meaning here."
            if real < low == 0
            else "Write a number of this range.",
        )
    return real


def as_list(value: object, where: str, length: int | None = None) -> list[Any]:
    """Return a list, of this length if one is given."""
    if not isinstance(value, list):
        raise InvalidInstance(
            f"found {describe(value)}, expected a list", where, "Write a JSON list."
        )
    if length is not None and len(value) != length:
        raise InvalidInstance(
            f"the list has length {len(value)}, expected {length}",
            where,
            "Give one item for each index, in their order.",
        )
    return value


def as_object(value: object, where: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise InvalidInstance(
            f"found {describe(value)}, expected an object",
            where,
            "Write a JSON object.",
        )
    return value


def as_optional_list(root: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list of a key that may be null or absent."""
    given = root.get(key)
    return [] if given is None else as_list(given, key)


def closest_name(name: str, known: Collection[str], alike: float) -> str | None:
    """Return the known name most similar to a mistyped one, if any."""
    found = get_close_matches(name[:80], sorted(known), 1, alike)
    return found[0] if found else None


def check_keys(
    given: Mapping[str, Any], where: str, known: Collection[str]
) -> list[str]:
    """Return the unknown keys; refuse one that looks like a mistyped known key.

    A mistyped ``prior`` would make a plan that ignores what was seen. Other unknown
    keys are notes of the file's author.
    """
    unread = [key for key in given if key not in known]
    for key in unread:
        meant = closest_name(key, known, MISTYPED)
        if meant:
            raise InvalidInstance(
                f"the key {key[:40]!r} is unknown",
                where,
                f"Write {meant} if that is meant, else give it another name.",
            )
    return unread


def require_keys(given: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> None:
    """Refuse an object that lacks a required key."""
    missing = [key for key in keys if key not in given]
    if missing:
        raise InvalidInstance(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            where,
            "docs/reference/instances.md has a whole example.",
        )


def as_choice(value: object, where: str, known: tuple[str, ...]) -> str:
    """Return a word of a closed list."""
    if not isinstance(value, str) or value not in known:
        shown = repr(value[:40]) if isinstance(value, str) else describe(value)
        raise InvalidInstance(
            f"found {shown}, expected one of {', '.join(known)}",
            where,
            "Use one of the words of the format.",
        )
    return value


def as_indices(value: object, where: str, limit: int) -> list[int]:
    """Return a list of indices below the limit."""
    found = as_list(value, where)
    for i, item in enumerate(found):
        if type(item) is not int or not 0 <= item < limit:
            as_integer(item, f"{where}[{i}]", 0, limit - 1)
    return found


def as_table(value: object, where: str, rows: int, width: int) -> Floats:
    """Return a table of finite numbers >= 0, shape (rows, width)."""
    lines = as_list(value, where, rows)
    for i, line in enumerate(lines):
        spot = f"{where}[{i}]"
        for j, item in enumerate(as_list(line, spot, width)):
            if type(item) is not float or not 0.0 <= item < math.inf:
                as_number(item, f"{spot}[{j}]")
    return np.array(lines, dtype=np.float64).reshape(rows, width)
