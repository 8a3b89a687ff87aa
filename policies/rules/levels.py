"""Rules whose f is told set by set: posterior beliefs, information gain, user functions.

What matters is which fields of a unit are held, never which values: f of a set of fields
is the highest over all values that are possible (design: count high, fail closed). So a
function over n fields is 2^n exact fractions, worked out once, when a policy is applied;
the gate looks them up. f is closed under more: whoever saw the parts remembers the most
telling of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Final

from policies.policy import Disclosure, Kind, Property
from policies.rules.belief import Beliefs
from policies.rules.functions import InvalidFunction
from policies.rules.kinds import KINDS, MOST_FIELDS, Tabulated
from policies.rules.record_rules import ONE, Rule

MOST_STEPS: Final = 5_000_000
"""Sets of fields times worlds that are looked at."""

Levels = Mapping[frozenset[str], Fraction]
"""F of every set of a rule's fields."""


def subsets(fields: Iterable[str]) -> list[frozenset[str]]:
    """All sets of some fields, small ones first.

    Raises
    ------
    InvalidFunction
        There are more than ``MOST_FIELDS``.
    """
    names = sorted(set(fields))
    if len(names) > MOST_FIELDS:
        raise InvalidFunction(
            f"the rule has {len(names)} fields, expected at most {MOST_FIELDS}: f is "
            "told for every set of them"
        )
    return [
        frozenset(chosen)
        for size in range(len(names) + 1)
        for chosen in combinations(names, size)
    ]


def closed(levels: Levels) -> dict[frozenset[str], Fraction]:
    """The highest f over all subsets, for each set: it never falls."""
    found: dict[frozenset[str], Fraction] = {}
    for held in sorted(levels, key=len):
        below = (found[held - {one}] for one in held)
        found[held] = max([levels[held], *below])
    return found


def least_past(levels: Levels, tau: Fraction) -> list[frozenset[str]]:
    """The smallest sets with f >= tau: all of them have none of the others in them."""
    past = [held for held, f in levels.items() if f >= tau]
    return [held for held in past if not any(other < held for other in past)]


def check_told(levels: Levels, fields: Iterable[str]) -> None:
    """Raise ValueError unless f of every set of the fields is there."""
    missing = [held for held in subsets(fields) if held not in levels]
    if missing:
        raise ValueError(f"f of {named(missing[0])} is not told")


def levels_of_function(
    function: Callable[[frozenset[str]], object],
    fields: Iterable[str],
    *,
    monotone: bool = True,
) -> dict[frozenset[str], Fraction]:
    """Ask a user's function for f of every set of fields, and check all of it.

    Parameters
    ----------
    function : callable
        From the fields held to f, 0 to 1; the same for the same fields.
    fields : iterable of str
    monotone : bool
        Whether the function declares that more fields never disclose less. One that
        does not is closed: see :func:`closed`.

    Raises
    ------
    InvalidFunction
        f of nothing is not 0, a value is no number from 0 to 1 or differs when asked
        again, or a function that declares to be monotone falls.
    """
    found = {held: _share(function, held) for held in subsets(fields)}
    if found[frozenset()] != 0:
        raise InvalidFunction(
            f"f of no fields is {float(found[frozenset()])}, expected 0"
        )
    again = next((h for h in found if _share(function, h) != found[h]), None)
    if again is not None:
        raise InvalidFunction(
            f"f of {named(again)} differs when asked twice, expected one value"
        )
    for held, value in found.items():
        for one in sorted(held) if monotone else ():
            less = held - {one}
            if value < found[less]:
                raise InvalidFunction(
                    f"f falls from {named(less)} to {named(held)}, expected it to "
                    "rise: declare it as not monotone"
                )
    return closed(found)


def _share(
    function: Callable[[frozenset[str]], object], held: frozenset[str]
) -> Fraction:
    told = function(held)
    if isinstance(told, bool) or not isinstance(told, int | float | Fraction):
        raise InvalidFunction(
            f"f of {named(held)} is {type(told).__name__}, expected a number"
        )
    try:
        value = Fraction(told)
    except (ValueError, OverflowError):
        raise InvalidFunction(
            f"f of {named(held)} is {told}, expected 0 to 1"
        ) from None
    if not 0 <= value <= 1:
        raise InvalidFunction(f"f of {named(held)} is {float(value)}, expected 0 to 1")
    return value


def named(held: Iterable[str]) -> str:
    """A set of fields in words."""
    return ", ".join(sorted(held)) or "no fields"


def levels_of_beliefs(
    kind: Kind, beliefs: Beliefs, fields: Sequence[str]
) -> dict[frozenset[str], Fraction]:
    """F of every set of fields by a finite table, whichever values are there.

    Posterior: max(0, (post - prior) / (1 - prior)) of the world in which it is highest.
    Information gain: that of the most telling values, or its mean over all values, see
    :mod:`policies.rules.belief`.

    Parameters
    ----------
    kind : Kind
        One that reads a table of worlds.
    beliefs : Beliefs
        Entry i of a world is the value of ``fields[i]``.
    fields : sequence of str
    """
    every = subsets(fields)
    if len(every) * len(beliefs.worlds) > MOST_STEPS:
        raise InvalidFunction(
            f"{len(beliefs.worlds):,} rows and {len(fields)} fields are too many: "
            "group values, or name fewer fields"
        )
    place = {name: i for i, name in enumerate(fields)}
    row = KINDS[kind]
    assert isinstance(row, Tabulated)
    measure = row.of_beliefs
    assert measure is not None, f"{kind} reads no table"
    return closed(
        {held: measure(beliefs, sorted(place[name] for name in held)) for held in every}
    )


class LevelRule(Rule):
    """A rule whose f is looked up by which of its fields are held.

    Its score is the rank of f among all its values. At subject scope a field is held
    with one entry of it, of whichever record.

    Attributes
    ----------
    planned : Rule or None
        The step rule that keeps f below tau: its alternatives are the smallest sets of
        fields with f >= tau. None where there is no such set, or no limit.
    """

    __slots__ = ("_ranks", "_values", "planned")

    def __init__(self, prop: Property, levels: Levels) -> None:
        step = replace(prop, disclosure=Disclosure(Kind.STEP, at=1))
        super().__init__(step)
        check_told(levels, prop.fields)
        self.need, self.by_entry = None, False
        self._values = sorted(set(levels.values()))
        rank = {value: i for i, value in enumerate(self._values)}
        self._ranks = {held: rank[value] for held, value in levels.items()}
        if self.tau is not None:
            tau = self.tau
            self.cap = sum(value < tau for value in self._values) - 1
        self.planned = self._steps(prop, levels)

    def _steps(self, prop: Property, levels: Levels) -> Rule | None:
        if prop.tau is None:
            return None
        least = least_past(levels, prop.tau)
        if not least:
            return None
        alternatives = tuple(sorted(tuple(sorted(held)) for held in least))
        shape = Disclosure(Kind.STEP)
        whole = replace(prop, alternatives=alternatives, tau=ONE, disclosure=shape)
        return Rule(whole)

    def fraction(self, score: int) -> Fraction:
        """F of a score, exactly as it was told."""
        return self._values[score]

    def score(self, counts: Mapping[str, int], through: str | None = None) -> int:
        """Rank of f over the fields held."""
        del through  # every field is in the one set
        held = frozenset(f for f, n in counts.items() if n > 0 and f in self.fields)
        return self._ranks[held]
