"""What is learnt about a secret from a finite table of worlds (paper, section 2.2).

A table lists worlds: the values of all entries, the secret's value, and how likely the
world is. Whoever holds some entries sees their values and is left with the worlds that
agree. Posterior shares are exact. An information gain is irrational as a rule: it is
rounded up to the next multiple of 10^-12, whatever the precision that this takes, so that
two programs which follow the definition find the very same fraction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import ceil, gcd, lcm
from typing import Final

from policies.model.sets import InvalidProblem

BITS: Final = 64
"""Binary digits of a logarithm, until more are needed."""

STEPS: Final = 10**12
"""An information gain is a multiple of 1 / STEPS."""

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


Spread = tuple[int, ...]
"""How likely each secret is, as counts in lowest terms, sorted."""


def information_gain(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Share of the secret's entropy that the most telling values take away.

    max over the values s that the entries may have of (H(V) - H(V|S=s)) / H(V).

    Returns
    -------
    Fraction
        0 to 1, rounded up to a multiple of 1 / ``STEPS``; 0 where no values leave less
        entropy than there was, or nothing was uncertain; 1 where some values make the
        secret certain.
    """
    whole, groups = _spreads(beliefs, held)
    if len(whole) < 2:
        return Fraction(0)
    return max(_share_taken(whole, ((spread, Fraction(1)),)) for spread in groups)


def mean_information_gain(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Share of the secret's entropy that the entries take away on average.

    (H(V) - H(V|S)) / H(V): the mutual information of entries and secret, as a share.
    Rare values that tell all hardly move it.

    Returns
    -------
    Fraction
        0 to 1, rounded up to a multiple of 1 / ``STEPS``; 0 where the entries and the
        secret are independent or nothing was uncertain, 1 where the entries determine
        the secret.
    """
    whole, groups = _spreads(beliefs, held)
    if len(whole) < 2:
        return Fraction(0)
    return _share_taken(whole, tuple(sorted(groups.items())))


def _spreads(
    beliefs: Beliefs, held: Collection[int]
) -> tuple[Spread, dict[Spread, Fraction]]:
    """The secret's spread, and how likely each spread is that the entries leave."""
    groups: dict[tuple[Value, ...], dict[Value, Fraction]] = defaultdict(
        lambda: defaultdict(Fraction)
    )
    whole: dict[Value, Fraction] = defaultdict(Fraction)
    order = sorted(held)
    for w in beliefs.worlds:
        if w.chance:
            groups[tuple(w.entries[d] for d in order)][w.secret] += w.chance
            whole[w.secret] += w.chance
    left: dict[Spread, Fraction] = defaultdict(Fraction)
    for inside in groups.values():
        left[_spread(inside)] += sum(inside.values(), Fraction(0))
    return _spread(whole), left


def _spread(chances: Mapping[Value, Fraction]) -> Spread:
    scale = lcm(*(p.denominator for p in chances.values()))
    counts = [p.numerator * (scale // p.denominator) for p in chances.values()]
    common = gcd(*counts)
    return tuple(sorted(count // common for count in counts))


@lru_cache(maxsize=1 << 14)
def _share_taken(whole: Spread, left: tuple[tuple[Spread, Fraction], ...]) -> Fraction:
    """1 - (entropy that is left) / (entropy of the whole), rounded up, at least 0."""
    if all(spread == whole for spread, _ in left):
        return Fraction(0)
    before, after, bits = _entropy(((whole, Fraction(1)),)), _entropy(left), BITS
    while True:
        low, high = _bounds(before, bits)
        least, most = _bounds(after, bits)
        if low > 0:
            first, last = (ceil(STEPS * (1 - h)) for h in (most / low, least / high))
            # Bounds that agree decide; so does a share that is a multiple exactly.
            if first == last or (
                first + 1 == last and _is_multiple(before, after, first)
            ):
                return Fraction(min(STEPS, max(0, first)), STEPS)
        bits *= 2


Logarithms = dict[int, Fraction]
"""A sum of logarithms of integers, by integer, each with its factor."""


def _entropy(left: Collection[tuple[Spread, Fraction]]) -> Logarithms:
    """Mean entropy of spreads, as logarithms."""
    terms: dict[int, Fraction] = defaultdict(Fraction)
    for spread, weight in left:
        total = sum(spread)
        terms[total] += weight
        for count, times in Counter(spread).items():
            terms[count] -= weight * times * Fraction(count, total)
    return terms


def _bounds(terms: Logarithms, bits: int) -> tuple[Fraction, Fraction]:
    """Lower and upper bound on a sum of binary logarithms."""
    low = high = Fraction(0)
    for number, factor in terms.items():
        if factor:
            one, two = log2(Fraction(number), bits)
            low += factor * (one if factor > 0 else two)
            high += factor * (two if factor > 0 else one)
    return low, high


def _is_multiple(before: Logarithms, after: Logarithms, steps: int) -> bool:
    """Whether 1 - after / before is exactly that many steps.

    Logarithms of integers without common factors are linearly independent over the
    rationals, so the sum is split into such, and vanishes if every factor does.
    """
    kept = 1 - Fraction(steps, STEPS)
    terms: dict[int, Fraction] = defaultdict(Fraction)
    for sums, sign in ((after, Fraction(1)), (before, -kept)):
        for number, factor in sums.items():
            terms[number] += sign * factor
    parts: Logarithms = {}
    waiting = [(number, factor) for number, factor in terms.items() if factor]
    while waiting:
        number, factor = waiting.pop()
        other = next((n for n in parts if gcd(n, number) > 1), None)
        if number == 1 or not factor:
            continue
        if other is None:
            parts[number] = factor
            continue
        common, also = gcd(other, number), parts.pop(other)
        waiting += [
            (common, factor + also),
            (number // common, factor),
            (other // common, also),
        ]
    return not parts


@lru_cache(maxsize=1 << 16)
def log2(value: Fraction, bits: int = BITS) -> tuple[Fraction, Fraction]:
    """Lower and upper bound on the binary logarithm of a number >= 1.

    They are at most 2^(4 - bits) apart.

    Examples
    --------
    >>> log2(Fraction(8))
    (Fraction(3, 1), Fraction(3, 1))
    """
    whole = (value.numerator // value.denominator).bit_length() - 1
    rest = value / 2**whole
    if rest == 1:
        return Fraction(whole), Fraction(whole)
    width = 2 * bits
    scaled = (rest.numerator << width) // rest.denominator
    digits = 0
    for _ in range(bits):
        scaled = (scaled * scaled) >> width
        digits <<= 1
        if scaled >> (width + 1):
            scaled >>= 1
            digits |= 1
    low = whole + Fraction(digits, 1 << bits)
    return low, low + Fraction(1, 1 << (bits - 4))


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
