"""What can be learnt about a secret from a finite table of worlds (paper, section 2.2).

A table lists worlds: the values of all entries, the secret's value, and the probability
of the world. Whoever holds some entries sees their values and is left with the worlds
that agree. Posterior shares are exact. An information gain is usually irrational: it is
rounded up to the next multiple of 10^-12, with whatever precision that takes, so that
two programs which follow the definition compute the very same fraction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, gcd, lcm
from typing import Final

BITS: Final = 64
"""Binary digits of a logarithm to start with."""

STEPS: Final = 10**12
"""An information gain is a multiple of 1 / STEPS."""

Value = Hashable


class InvalidBeliefs(ValueError):
    """A malformed table of worlds; the message gives the value and the expectation."""


@dataclass(frozen=True)
class World:
    """One possible world.

    Attributes
    ----------
    entries : tuple
        Value of each entry.
    secret
        Value of the property's variable V_p.
    chance : Fraction
        Probability, >= 0.
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
        Probabilities sum to 1; all have the same number of entries.
    """

    worlds: tuple[World, ...]

    def __post_init__(self) -> None:
        total = sum((w.chance for w in self.worlds), Fraction(0))
        if total != 1:
            raise InvalidBeliefs(f"the worlds' chances sum to {total}, expected 1")
        if any(w.chance < 0 for w in self.worlds):
            raise InvalidBeliefs("a world has a negative chance, expected >= 0")
        if len({len(w.entries) for w in self.worlds}) > 1:
            raise InvalidBeliefs("worlds differ in their number of entries")

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.worlds[0].entries)


def highest_posterior(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Return the largest relative rise of belief in the secret's true value.

    max over all possible worlds of max(0, (post - prior) / (1 - prior)), where prior
    and post are the probabilities of the world's secret before and after the entries
    are seen.

    Returns
    -------
    Fraction
        0 if nothing is learnt in any world, 1 if the secret is certain in one; secrets
        that were certain before do not count.
    """
    prior: dict[Value, Fraction] = defaultdict(Fraction)
    joint: dict[tuple[Value, ...], dict[Value, Fraction]] = {}
    for world in beliefs.worlds:
        if world.chance:
            prior[world.secret] += world.chance
            seen = joint.setdefault(
                tuple(world.entries[d] for d in held), defaultdict(Fraction)
            )
            seen[world.secret] += world.chance
    best = Fraction(0)
    for seen in joint.values():
        mass = sum(seen.values(), Fraction(0))
        for secret, chance in seen.items():
            if prior[secret] < 1:
                rise = (chance / mass - prior[secret]) / (1 - prior[secret])
                best = max(best, rise)
    return best


Spread = tuple[int, ...]
"""Probabilities of secrets, as counts in lowest terms, sorted."""


def information_gain(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Return the largest share of the secret's entropy that any values remove.

    max over the values s that the entries may have of (H(V) - H(V|S=s)) / H(V).

    Returns
    -------
    Fraction
        0 to 1, rounded up to a multiple of 1 / ``STEPS``; 0 if no values reduce the
        entropy, or nothing was uncertain; 1 if some values make the secret certain.
    """
    whole, groups = _spreads(beliefs, held)
    if len(whole) < 2:
        return Fraction(0)
    return max(_share_taken(whole, ((spread, Fraction(1)),)) for spread in groups)


def mean_information_gain(beliefs: Beliefs, held: Collection[int]) -> Fraction:
    """Return the mean share of the secret's entropy that the entries remove.

    (H(V) - H(V|S)) / H(V): the mutual information of entries and secret, as a share.
    Rare values that reveal everything hardly change it.

    Returns
    -------
    Fraction
        0 to 1, rounded up to a multiple of 1 / ``STEPS``; 0 if the entries and the
        secret are independent or nothing was uncertain, 1 if the entries determine
        the secret.
    """
    whole, groups = _spreads(beliefs, held)
    if len(whole) < 2:
        return Fraction(0)
    return _share_taken(whole, tuple(sorted(groups.items())))


def _spreads(
    beliefs: Beliefs, held: Collection[int]
) -> tuple[Spread, dict[Spread, Fraction]]:
    """Return the secret's spread, and the probability of each spread given the entries."""
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
    """Return 1 - (entropy left) / (total entropy), rounded up, at least 0."""
    if all(spread == whole for spread, _ in left):
        return Fraction(0)
    before, after, bits = _entropy(((whole, Fraction(1)),)), _entropy(left), BITS
    while True:
        low, high = _bounds(before, bits)
        least, most = _bounds(after, bits)
        if low > 0:
            first, last = (ceil(STEPS * (1 - h)) for h in (most / low, least / high))
            # Bounds that agree decide; so does a share that is exactly a multiple.
            if first == last or (
                first + 1 == last and _is_multiple(before, after, first)
            ):
                return Fraction(min(STEPS, max(0, first)), STEPS)
        bits *= 2


Logarithms = dict[int, Fraction]
"""A sum of logarithms of integers, by integer, each with its factor."""


def _entropy(left: Collection[tuple[Spread, Fraction]]) -> Logarithms:
    """Return the mean entropy of spreads, as logarithms."""
    terms: dict[int, Fraction] = defaultdict(Fraction)
    for spread, weight in left:
        total = sum(spread)
        terms[total] += weight
        for count, times in Counter(spread).items():
            terms[count] -= weight * times * Fraction(count, total)
    return terms


def _bounds(terms: Logarithms, bits: int) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds on a sum of binary logarithms."""
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
    """Return lower and upper bounds on the binary logarithm of a number >= 1.

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
