"""A user's utility over the fields of one record: asked for every set, and checked.

Like disclosures that are told set by set (:mod:`policies.rules.levels`): which fields are held,
never which values. All sets are asked once, when a policy is applied, so that what is
found to hold holds for good and no sample stands in for a proof.
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
from policies.rules.levels import Levels, named, subsets

UTILITY_NAME: Final = "budget.utility"
"""Under which a version keeps what its utility said; no rule may be called so."""


def levels_of_utility(
    utility: UserUtility, fields: Iterable[str]
) -> dict[frozenset[str], Fraction]:
    """Ask for u of every set of fields, and check all of it.

    Raises
    ------
    InvalidFunction
        A value is no finite number >= 0 or differs when asked again, u falls, or a gain
        grows although the utility declares that none does. Or there are too many fields.
    """
    found = {held: _value_of(utility, held) for held in subsets(fields)}
    again = next((h for h in found if _value_of(utility, h) != found[h]), None)
    if again is not None:
        raise InvalidFunction(
            f"u of {named(again)} differs when asked twice, expected one value"
        )
    for held, value in found.items():
        for one in sorted(held):
            if value < found[held - {one}]:
                raise InvalidFunction(
                    f"u falls from {named(held - {one})} to {named(held)}, expected it "
                    "to rise"
                )
    grows = growing(found)
    if utility.submodular and grows is not None:
        one, less, more = grows
        raise InvalidFunction(
            f"{one} gains more with {named(more)} than with {named(less)}: declare the "
            "utility as not submodular"
        )
    return found


def growing(levels: Levels) -> tuple[str, frozenset[str], frozenset[str]] | None:
    """Return a field that gains more with one set than with less; None if there is none.

    It is enough to look at sets that differ by one field (Nemhauser, Wolsey and Fisher,
    An analysis of approximations for maximizing submodular set functions, 1978).
    """
    for both, value in levels.items():
        for one, other in combinations(sorted(both), 2):
            less = both - {one, other}
            first, second = levels[less | {one}], levels[less | {other}]
            if value - second > first - levels[less]:
                return one, less, less | {other}
    return None


def by_record(
    levels: Mapping[frozenset[str], Fraction],
    fields: Sequence[str],
    record: npt.NDArray[np.int64],
    kind: npt.NDArray[np.int64],
) -> ByRecord:
    """Return u over entries, from u of every set of fields.

    Parameters
    ----------
    levels : Mapping
    fields : sequence of str
        Field of each kind.
    record, kind : int64 array, shape (n,)
        Of each entry.
    """
    known = sorted(frozenset().union(*levels))
    place = {name: i for i, name in enumerate(known)}
    worth = np.zeros(1 << len(known))
    for held, value in levels.items():
        worth[sum(1 << place[name] for name in held)] = float(value)
    # Fields that are never sent were not asked for: no plan gives them to anybody.
    bits = np.array([place.get(name, 0) for name in fields], np.int64)
    number = np.unique(record, return_inverse=True)[1].reshape(-1).astype(np.int64)
    bit = bits[kind] if len(kind) else np.empty(0, np.int64)
    return ByRecord(number, bit, worth, growing(levels) is None)


def _value_of(utility: UserUtility, held: frozenset[str]) -> Fraction:
    told = utility.u(held)
    if isinstance(told, bool) or not isinstance(told, int | float | Fraction):
        raise InvalidFunction(
            f"u of {named(held)} is {type(told).__name__}, expected a number"
        )
    try:
        value = Fraction(told)
        float(value)
    except (ValueError, OverflowError):
        raise InvalidFunction(
            f"u of {named(held)} is {str(told)[:20]}, expected a finite number"
        ) from None
    if value < 0:
        raise InvalidFunction(f"u of {named(held)} is {float(value)}, expected >= 0")
    return value
