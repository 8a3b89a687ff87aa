"""Tabulated rules: posterior beliefs, information gain and user functions.

f depends on which fields of a unit are held, never on their values: f of a set of
fields is the highest over all possible values (count high, fail closed). So a function
over n fields is a table of 2^n exact fractions. It is computed once, when a policy is
applied, and the gate looks f up. The table never falls as fields are added: whoever saw
the parts remembers the worst of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Final

from policies.policy import Disclosure, Property
from policies.rules.belief import Beliefs
from policies.rules.functions import InvalidFunction
from policies.rules.kinds import KINDS, MOST_FIELDS, Tabulated
from policies.rules.record_rules import ONE, Rule

MOST_STEPS: Final = 5_000_000
"""Largest number of field sets times worlds for which a table is computed."""

FieldTable = Mapping[frozenset[str], Fraction]
"""A number for every set of some fields: f of a rule, or u of a utility."""


def subsets(fields: Iterable[str]) -> list[frozenset[str]]:
    """Return all sets of some fields, small ones first.

    Raises
    ------
    InvalidFunction
        There are more than ``MOST_FIELDS``.
    """
    names = sorted(set(fields))
    if len(names) > MOST_FIELDS:
        raise InvalidFunction(
            f"the rule has {len(names)} fields, expected at most {MOST_FIELDS}: f is "
            "tabulated for every set of them"
        )
    return [
        frozenset(chosen)
        for size in range(len(names) + 1)
        for chosen in combinations(names, size)
    ]


def monotone_closure(table: FieldTable) -> dict[frozenset[str], Fraction]:
    """Return the highest f over all subsets of each set, which never falls."""
    found: dict[frozenset[str], Fraction] = {}
    for held in sorted(table, key=len):
        below = (found[held - {one}] for one in held)
        found[held] = max([table[held], *below])
    return found


def minimal_sets_past(table: FieldTable, tau: Fraction) -> list[frozenset[str]]:
    """Return the minimal sets with f >= tau: none contains another."""
    past = [held for held, f in table.items() if f >= tau]
    return [held for held in past if not any(other < held for other in past)]


def check_complete(table: FieldTable, fields: Iterable[str]) -> None:
    """Raise ValueError unless the table has f of every set of the fields."""
    missing = [held for held in subsets(fields) if held not in table]
    if missing:
        raise ValueError(f"f of {fields_text(missing[0])} is missing in the table")


def tabulate_function(
    function: Callable[[frozenset[str]], object],
    fields: Iterable[str],
    *,
    monotone: bool = True,
) -> dict[frozenset[str], Fraction]:
    """Call a user's function for every set of fields, and check every answer.

    Parameters
    ----------
    function : callable
        From the fields held to f, 0 to 1; the same for the same fields.
    fields : iterable of str
    monotone : bool
        Whether the function declares that more fields never disclose less. If not, it
        is closed: see :func:`monotone_closure`.

    Raises
    ------
    InvalidFunction
        f of nothing is not 0, a value is no number from 0 to 1 or differs on a second
        call, or a function declared monotone falls.
    """
    found = {held: _share(function, held) for held in subsets(fields)}
    if found[frozenset()] != 0:
        raise InvalidFunction(
            f"f of no fields is {float(found[frozenset()])}, expected 0"
        )
    again = next((h for h in found if _share(function, h) != found[h]), None)
    if again is not None:
        raise InvalidFunction(
            f"f of {fields_text(again)} differs when asked twice, expected one value"
        )
    for held, value in found.items():
        for one in sorted(held) if monotone else ():
            less = held - {one}
            if value < found[less]:
                raise InvalidFunction(
                    f"f falls from {fields_text(less)} to {fields_text(held)}, expected it to "
                    "rise: declare it as not monotone"
                )
    return monotone_closure(found)


def _share(
    function: Callable[[frozenset[str]], object], held: frozenset[str]
) -> Fraction:
    answer = function(held)
    if isinstance(answer, bool) or not isinstance(answer, int | float | Fraction):
        raise InvalidFunction(
            f"f of {fields_text(held)} is {type(answer).__name__}, expected a number"
        )
    try:
        value = Fraction(answer)
    except (ValueError, OverflowError):
        raise InvalidFunction(
            f"f of {fields_text(held)} is {answer}, expected 0 to 1"
        ) from None
    if not 0 <= value <= 1:
        raise InvalidFunction(
            f"f of {fields_text(held)} is {float(value)}, expected 0 to 1"
        )
    return value


def fields_text(held: Iterable[str]) -> str:
    """Return a set of fields in words."""
    return ", ".join(sorted(held)) or "no fields"


def tabulate_beliefs(
    kind: str, beliefs: Beliefs, fields: Sequence[str]
) -> dict[frozenset[str], Fraction]:
    """Compute f of every set of fields from a table of worlds, for any values.

    The functions are those of :mod:`policies.rules.belief`.

    Parameters
    ----------
    kind : str
        A kind that reads a table of worlds.
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
    return monotone_closure(
        {held: measure(beliefs, sorted(place[name] for name in held)) for held in every}
    )


class TabulatedRule(Rule):
    """A rule whose f is looked up by which of its fields are held.

    Its score is the rank of f among all values of the table. At subject scope a field
    is held with one entry of it, of any record.

    Attributes
    ----------
    planned : Rule or None
        The step rule that keeps f below tau: its alternatives are the minimal sets of
        fields with f >= tau. None if there is no such set, or no limit.
    """

    __slots__ = ("_ranks", "_values", "planned")

    def __init__(
        self, prop: Property, table: FieldTable, unsent: Collection[str] = ()
    ) -> None:
        step = replace(prop, disclosure=Disclosure(at=1))
        super().__init__(step, unsent)
        check_complete(table, prop.fields)
        self.need, self.by_entry = None, False
        self._values = sorted(set(table.values()))
        rank = {value: i for i, value in enumerate(self._values)}
        self._ranks = {held: rank[value] for held, value in table.items()}
        if self.tau is not None:
            tau = self.tau
            self.cap = sum(value < tau for value in self._values) - 1
        self.planned = self._steps(prop, table, unsent)

    def _steps(
        self, prop: Property, table: FieldTable, unsent: Collection[str]
    ) -> Rule | None:
        if prop.tau is None:
            return None
        least = minimal_sets_past(table, prop.tau)
        if not least:
            return None
        alternatives = tuple(sorted(tuple(sorted(held)) for held in least))
        step = Disclosure()
        whole = replace(prop, alternatives=alternatives, tau=ONE, disclosure=step)
        return Rule(whole, unsent)

    def fraction(self, score: int) -> Fraction:
        """F of a score, exactly as in the table."""
        return self._values[score]

    def left_of(self, counts: Mapping[str, int]) -> int | None:
        """Do the same for one set of held entries, by field."""
        return None if self.planned is None else self.planned.left_of(counts)

    def score(self, counts: Mapping[str, int], through: str | None = None) -> int:
        """Return the rank of f over the fields held."""
        del through  # every field is in the one set
        held = frozenset(f for f, n in counts.items() if n > 0 and f in self.fields)
        return self._ranks[held]
