"""A user's utility over the fields of one record, tabulated and checked.

As with a tabulated disclosure (:mod:`policies.rules.tabulated`), u depends on which
fields are held, never on their values. It is computed for every set of fields when a
policy is applied, so that its properties are proven, not just sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.utility_functions import ByRecord
from policies.rules.functions import InvalidFunction, UserUtility
from policies.rules.tabulated import FieldTable, fields_text, subsets

UTILITY_NAME: Final = "budget.utility"
"""Name under which a version keeps its utility's table; no rule may have this name."""


def tabulate_utility(
    utility: UserUtility, fields: Iterable[str]
) -> dict[frozenset[str], Fraction]:
    """Call the utility for every set of fields, and check every answer.

    Raises
    ------
    InvalidFunction
        A value is no finite number >= 0 or differs on a second call, u falls, or a gain
        grows although the utility declares that none does. Or there are too many fields.
    """
    found = {held: _value_of(utility, held) for held in subsets(fields)}
    again = next((h for h in found if _value_of(utility, h) != found[h]), None)
    if again is not None:
        raise InvalidFunction(
            f"u of {fields_text(again)} differs when asked twice, expected one value"
        )
    for held, value in found.items():
        for one in sorted(held):
            if value < found[held - {one}]:
                raise InvalidFunction(
                    f"u falls from {fields_text(held - {one})} to {fields_text(held)}, expected it "
                    "to rise"
                )
    grows = growing(found)
    if utility.submodular and grows is not None:
        one, less, more = grows
        raise InvalidFunction(
            f"{one} gains more with {fields_text(more)} than with {fields_text(less)}: declare the "
            "utility as not submodular"
        )
    return found


def growing(
    table: FieldTable,
) -> tuple[str, frozenset[str], frozenset[str]] | None:
    """Return a field that gains more with one set than with less; None if there is none.

    Sets that differ by one field are enough (Nemhauser, Wolsey and Fisher, An analysis
    of approximations for maximizing submodular set functions, 1978).
    """
    for both, value in table.items():
        for one, other in combinations(sorted(both), 2):
            less = both - {one, other}
            first, second = table[less | {one}], table[less | {other}]
            if value - second > first - table[less]:
                return one, less, less | {other}
    return None


def by_record(
    table: Mapping[frozenset[str], Fraction],
    fields: Sequence[str],
    record: npt.NDArray[np.int64],
    kind: npt.NDArray[np.int64],
) -> ByRecord:
    """Return u over entries, from u of every set of fields.

    Parameters
    ----------
    table : Mapping
        u of every set of fields.
    fields : sequence of str
        Field of each kind.
    record, kind : int64 array, shape (n,)
        Record and kind of each entry.
    """
    known = sorted(frozenset().union(*table))
    place = {name: i for i, name in enumerate(known)}
    worth = np.zeros(1 << len(known))
    for held, value in table.items():
        worth[sum(1 << place[name] for name in held)] = float(value)
    # Fields that are never sent have no value: no plan gives them to anybody.
    bits = np.array([place.get(name, 0) for name in fields], np.int64)
    number = np.unique(record, return_inverse=True)[1].reshape(-1).astype(np.int64)
    bit = bits[kind] if len(kind) else np.empty(0, np.int64)
    return ByRecord(number, bit, worth, growing(table) is None)


def _value_of(utility: UserUtility, held: frozenset[str]) -> Fraction:
    answer = utility.u(held)
    if isinstance(answer, bool) or not isinstance(answer, int | float | Fraction):
        raise InvalidFunction(
            f"u of {fields_text(held)} is {type(answer).__name__}, expected a number"
        )
    try:
        value = Fraction(answer)
        float(value)
    except (ValueError, OverflowError):
        raise InvalidFunction(
            f"u of {fields_text(held)} is {str(answer)[:20]}, expected a finite number"
        ) from None
    if value < 0:
        raise InvalidFunction(
            f"u of {fields_text(held)} is {float(value)}, expected >= 0"
        )
    return value
