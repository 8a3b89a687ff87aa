"""Functions written by others: disclosures over fields, utilities over entries.

A disclosure is called for every set of fields (:mod:`policies.rules.tabulated`). A
utility over the entries of an instance file has too many sets for that: it is sampled,
and refused with the sets that refute it. Samples prove nothing, so a solver whose
guarantee depends on them says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from policies.model.utility_functions import EntrySet

Function = Callable[[EntrySet], Any]

# Two of n entries that are worth more together, 60 seeds: found in 50, 60 and 60 of them with
# half, as it is and twice where n = 30; in 24, 39 and 52, in 1.4, 2.8 and 6.8 ms, where n = 100.
SAMPLES: Final = 200
SLACK: Final = 1e-9


class InvalidFunction(ValueError):
    """A function without the required properties; the message shows the sets."""


@dataclass(frozen=True)
class FieldFunction:
    """A disclosure function from a package.

    Attributes
    ----------
    name : str
        Its name in policies: ``disclosure = "plugin:NAME"``.
    f : callable
        From the fields held to f: a number from 0 to 1, 0 for no fields, always the
        same for the same fields. A Fraction or an int stays exact; a float stands for
        its exact binary fraction.
    monotone : bool
        Whether more fields never disclose less. If not, the worst subset counts.
    """

    name: str
    f: Callable[[frozenset[str]], object]
    monotone: bool = True


@dataclass(frozen=True)
class UserUtility:
    """A utility function from a package.

    Attributes
    ----------
    name : str
        Its name in policies (``[budget] utility = "plugin:NAME"``) or instance files.
    u : callable
        Worth of one adversary's part, a finite number >= 0 that never falls as more is
        held. For a policy it is called with the fields of one record, for an instance
        file with the entries (numbers from 0).
    submodular : bool
        Whether the worth of one more entry falls as more is held.
    """

    name: str
    u: Callable[[frozenset[Any]], object]
    submodular: bool = True


@dataclass(frozen=True)
class Checked:
    """The result of sampling a function.

    Attributes
    ----------
    monotone, submodular : bool
        Whether no sample refutes it.
    samples : int
    """

    monotone: bool
    submodular: bool
    samples: int


def check_utility(
    function: Function,
    n_entries: int,
    rng: np.random.Generator,
    *,
    submodular: bool = True,
    samples: int = SAMPLES,
) -> Checked:
    """Check a utility function u: finite, >= 0, never falling.

    Parameters
    ----------
    submodular : bool
        Whether the function declares that gains shrink as more is held.

    Raises
    ------
    InvalidFunction
        A value is negative or not finite, u falls, or a gain grows although it declares
        not to.
    """
    found = _sampled(function, n_entries, rng, samples)
    for held, value in [
        (frozenset(), _finite_value(function, frozenset())),
        *found.values,
    ]:
        if value < -SLACK:
            raise InvalidFunction(
                f"u of {_entries_text(held)} is {value!r}, expected >= 0"
            )
    if found.falls is not None:
        less, more = found.falls
        raise InvalidFunction(
            f"u falls from {_entries_text(less)} to {_entries_text(more)}"
        )
    if submodular and found.grows is not None:
        less, more, entry = found.grows
        raise InvalidFunction(
            f"entry {entry} gains more with {_entries_text(more)} than with {_entries_text(less)}: "
            "declare u as not submodular"
        )
    return found.as_checked(samples)


@dataclass
class _Sampled:
    """Values at random sets, and the first sets that refute a property."""

    values: list[tuple[EntrySet, float]]
    falls: tuple[EntrySet, EntrySet] | None = None
    grows: tuple[EntrySet, EntrySet, int] | None = None

    def as_checked(self, samples: int) -> Checked:
        return Checked(self.falls is None, self.grows is None, samples)


def _sampled(
    function: Function, n: int, rng: np.random.Generator, samples: int
) -> _Sampled:
    """Try random chains less <= more and a further entry."""
    found = _Sampled([])
    for _ in range(samples if n else 0):
        order = rng.permutation(n).tolist()
        two = int(rng.integers(0, n))
        one = int(rng.integers(0, two + 1))
        less, more, entry = frozenset(order[:one]), frozenset(order[:two]), order[two]
        low, high = _finite_value(function, less), _finite_value(function, more)
        low_more = _finite_value(function, less | {entry})
        high_more = _finite_value(function, more | {entry})
        found.values += [(less, low), (more, high), (more | {entry}, high_more)]
        for a, b, x, y in (
            (less, more, low, high),
            (less, less | {entry}, low, low_more),
            (more, more | {entry}, high, high_more),
        ):
            if y < x - SLACK and found.falls is None:
                found.falls = (a, b)
        if high_more - high > low_more - low + SLACK and found.grows is None:
            found.grows = (less, more, entry)
    return found


def _finite_value(function: Function, held: EntrySet) -> float:
    """Call the function; refuse anything but a finite number."""
    value = function(held)
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise InvalidFunction(
            f"the function gives {type(value).__name__} for {_entries_text(held)}, "
            "expected a number"
        ) from None
    if not math.isfinite(real):
        raise InvalidFunction(f"the function gives {real!r} for {_entries_text(held)}")
    return real


def _entries_text(held: EntrySet) -> str:
    if not held:
        return "no entries"
    shown = sorted(held)[:8]
    more = f" and {len(held) - len(shown)} more" if len(held) > len(shown) else ""
    return f"entries {', '.join(map(str, shown))}{more}"
