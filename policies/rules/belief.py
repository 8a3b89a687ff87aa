"""What is learnt about a secret from a finite table of worlds (paper, section 2.2).

A table lists worlds: the values of all entries, the secret's value, and how likely the
world is. Whoever holds some entries sees their values and is left with the worlds that
agree. Posterior shares are exact; entropies are bounded on the safe side: an information
gain is never reported below what it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final

from policies.model.sets import InvalidProblem

BITS: Final = 64
"""Binary digits of a logarithm."""

WIDEST: Final = 16
"""Entries up to which the most telling subset is looked for."""

Value = Hashable


@dataclass(frozen=True)
class World:
    """One way things may be.

    Attributes
    ----------
    entries : tuple
        Value of each entry.
    secret
        Value of the property's variable V_p.
    chance : Fraction
        >= 0.
    """

    entries: tuple[Value, ...]
    secret: Value
    chance: Fraction


@dataclass(frozen=True)
class Beliefs:
    """A finite table.

    Attributes
    ----------
    worlds : tuple of World
        Chances sum to 1; all with as many entries.
    """

    worlds: tuple[World, ...]

    def __post_init__(self) -> None:
        total = sum((w.chance for w in self.worlds), Fraction(0))
        if total != 1:
            raise InvalidProblem(f"the worlds' chances sum to {total}, expected 1")
        if any(w.chance < 0 for w in self.worlds):
            raise InvalidProblem("a world has a negative chance, expected >= 0")
        if len({len(w.entries) for w in self.worlds}) > 1:
            raise InvalidProblem("worlds differ in their number of entries")

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.worlds[0].entries)


def posterior(beliefs: Beliefs, held: Collection[int], true: World) -> Fraction:
    """How far the belief in the true value rose: max(0, (post - prior) / (1 - prior)).

    Parameters
    ----------
    beliefs : Beliefs
    held : collection of int
        Entries that are seen.
    true : World
        What is the case; it must be possible.

    Returns
    -------
    Fraction
        0 where nothing was learnt, 1 where the secret is certain; 0 if it was certain
        before.
    """
    prior = _chance(beliefs, (), true, secret=True)
    if prior == 1:
        return Fraction(0)
    seen = _chance(beliefs, held, true, secret=False)
    if seen == 0:
        raise InvalidProblem("the true world has no chance in the table")
    post = _chance(beliefs, held, true, secret=True) / seen
    return max(Fraction(0), (post - prior) / (1 - prior))


def _chance(
    beliefs: Beliefs, held: Collection[int], true: World, *, secret: bool
) -> Fraction:
    """Chance of what is seen, and of the true secret with it."""
    return sum(
        (
            w.chance
            for w in beliefs.worlds
            if all(w.entries[d] == true.entries[d] for d in held)
            and (not secret or w.secret == true.secret)
        ),
        Fraction(0),
    )


def information_gain(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Share of the secret's entropy that the entries take away: (H(V) - H(V|S)) / H(V).

    Returns
    -------
    Fraction
        0 to 1, never below the true share, and above it by at most 2^-50 / H(V), with
        the entropy in bits; exactly 0 where the entries and the secret are independent
        or nothing was uncertain, exactly 1 where the entries determine the secret.
    """
    groups: dict[tuple[Value, ...], dict[Value, Fraction]] = defaultdict(
        lambda: defaultdict(Fraction)
    )
    whole: dict[Value, Fraction] = defaultdict(Fraction)
    order = sorted(held)
    for w in beliefs.worlds:
        if w.chance:
            groups[tuple(w.entries[d] for d in order)][w.secret] += w.chance
            whole[w.secret] += w.chance
    if len(whole) < 2 or _independent(groups, whole):
        return Fraction(0)
    if all(len(inside) == 1 for inside in groups.values()):
        return Fraction(1)
    low, high = _entropy(list(whole.values()))
    left = Fraction(0)
    for inside in groups.values():
        mass = sum(inside.values(), Fraction(0))
        left += mass * _entropy([p / mass for p in inside.values()])[0]
    return min(Fraction(1), max(Fraction(0), (high - left) / low))


def _independent(
    groups: dict[tuple[Value, ...], dict[Value, Fraction]],
    whole: dict[Value, Fraction],
) -> bool:
    """Whether what is seen says nothing about the secret."""
    for inside in groups.values():
        mass = sum(inside.values(), Fraction(0))
        if any(inside.get(v, Fraction(0)) != p * mass for v, p in whole.items()):
            return False
    return True


def _entropy(chances: list[Fraction]) -> tuple[Fraction, Fraction]:
    """Lower and upper bound on the entropy in bits."""
    low = high = Fraction(0)
    for p in chances:
        if p:
            one, two = log2(1 / p)
            low, high = low + p * one, high + p * two
    return low, high


def log2(value: Fraction) -> tuple[Fraction, Fraction]:
    """Lower and upper bound on the binary logarithm of a number >= 1.

    Examples
    --------
    >>> log2(Fraction(8))
    (Fraction(3, 1), Fraction(3, 1))
    """
    whole = (value.numerator // value.denominator).bit_length() - 1
    rest = value / 2**whole
    if rest == 1:
        return Fraction(whole), Fraction(whole)
    width = 2 * BITS
    scaled = (rest.numerator << width) // rest.denominator
    digits = 0
    for _ in range(BITS):
        scaled = (scaled * scaled) >> width
        digits <<= 1
        if scaled >> (width + 1):
            scaled >>= 1
            digits |= 1
    low = whole + Fraction(digits, 1 << BITS)
    return low, low + Fraction(1, 1 << (BITS - 4))


def closure(
    function: Callable[[Collection[int]], Fraction], held: Collection[int]
) -> Fraction:
    """Highest value over all subsets of what is held: the safe form of any function.

    A belief can fall when more is seen; whoever saw the parts one by one remembers the
    highest. The result never falls as more is held.

    Raises
    ------
    InvalidProblem
        For more than ``WIDEST`` entries: there would be too many subsets.
    """
    order = sorted(held)
    if len(order) > WIDEST:
        raise InvalidProblem(
            f"{len(order)} entries have too many subsets, expected at most {WIDEST}"
        )
    return max(
        function(chosen)
        for size in range(len(order) + 1)
        for chosen in combinations(order, size)
    )
