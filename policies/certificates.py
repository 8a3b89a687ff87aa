"""Proofs without a search: that a plan exists, and that serving never gets stuck.

``certify``: the Lovasz local lemma in its cluster-expansion form, over the uniform
choice of each entry's copies; hypotheses are checked, numbers are exact rationals.
``safe_number``: with so many active adversaries every open entry always has one who may
get it, in any order and after any choices (liveness of the gate).

References
----------
Bissacot, Fernandez, Procacci, Scoppola. An improvement of the Lovasz local lemma via
cluster expansion. Combinatorics, Probability and Computing 20 (2011).
Moser, Tardos. A constructive proof of the general Lovasz local lemma. J. ACM 57 (2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
import numpy.typing as npt

from policies.disclosure import alone
from policies.problem import Problem
from policies.sets import NO_CAP, Ints

Floats = npt.NDArray[np.float64]

_ROUNDS = 60  # of the fixed-point iteration
_LARGEST = 200_000  # members x adversaries above which nothing is certified
_LOADS = 4_000  # different loads of one set above which its chance counts as 1
_GRAIN = 10**6  # witnesses are fractions of this


@dataclass(frozen=True)
class Certificate:
    """A proof that a plan exists for every entry's ``lo`` copies.

    Attributes
    ----------
    chance : tuple of Fraction
        For each set: at most this is the chance that somebody crosses it when all
        copies are drawn uniformly.
    witness : tuple of Fraction
        mu of each set, >= 0: chance <= mu / (mu + prod over its entries d of
        (1 + sum of the other sets' mu at d)).
    """

    chance: tuple[Fraction, ...]
    witness: tuple[Fraction, ...]

    @property
    def resamples(self) -> Fraction:
        """Expected resampling steps until such a plan is found."""
        return sum(self.witness, Fraction(0))


def certify(problem: Problem) -> Certificate | None:
    """Try to prove that a plan exists.

    Parameters
    ----------
    problem : Problem
        Without capacities and caps on means: the lemma says nothing about those.

    Returns
    -------
    Certificate or None
        None proves nothing.
    """
    sets, k = problem.sets, problem.n_adversaries
    if problem.capacity is not None or problem.averages or k == 0:
        return None
    if len(sets.entry) * k > _LARGEST:
        return None
    barred = np.bincount(problem.forbidden.entry, minlength=problem.n_entries)
    if (problem.lo > k - barred).any():
        return None
    chance = _chances(problem, k - barred)
    mu = _fixed_point(problem, np.array([float(p) for p in chance]))
    if mu is None:
        return None
    witness = tuple(
        Fraction(int(np.ceil(m * _GRAIN)) + (m > 0), _GRAIN) for m in mu.tolist()
    )
    if not _holds(problem, chance, witness):
        return None
    return Certificate(tuple(chance), witness)


def _chances(problem: Problem, allowed: Ints) -> list[Fraction]:
    """Bound, set by set, the chance that some adversary crosses it."""
    sets, k = problem.sets, problem.n_adversaries
    barred = set(
        zip(problem.forbidden.entry.tolist(), problem.forbidden.adversary.tolist(),
            strict=True)
    )  # fmt: skip
    before = set(
        zip(problem.history.entry.tolist(), problem.history.adversary.tolist(),
            strict=True)
    )  # fmt: skip
    special = {a for _, a in barred} | {a for _, a in before}
    out = []
    for one in range(sets.n_sets):
        trusted: set[int] = set()
        if problem.trusted is not None:
            row = problem.trusted[int(sets.owner[one])]
            trusted = set(np.flatnonzero(row).tolist())
        named = sorted(special - trusted)
        total = sum(
            (_chance(problem, one, a, allowed, barred, before) for a in named),
            Fraction(0),
        )
        plain = next((a for a in range(k) if a not in special | trusted), None)
        if plain is not None:
            count = k - len(special | trusted)
            total += count * _chance(problem, one, plain, allowed, barred, before)
        out.append(min(total, Fraction(1)))
    return out


def _chance(
    problem: Problem,
    one: int,
    a: int,
    allowed: Ints,
    barred: set[tuple[int, int]],
    before: set[tuple[int, int]],
) -> Fraction:
    """Chance that this adversary is past the cap of the set, or adds to it if it is."""
    sets = problem.sets
    rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
    members = list(
        zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
    )
    cap = int(sets.cap[one])
    if cap == NO_CAP:
        return Fraction(0)
    draw = {
        d: Fraction(0)
        if (d, a) in barred or not problem.lo[d]
        else Fraction(int(problem.lo[d]), int(allowed[d]))
        for d, _ in members
    }
    held = [(d, w) for d, w in members if (d, a) in before]
    classed = bool(sets.classes[one])
    base = len({w for _, w in held}) if classed else sum(w for _, w in held)
    if base > cap:
        return 1 - prod((1 - p for p in draw.values()), start=Fraction(1))
    if classed:
        have = {w for _, w in held}
        miss: dict[int, Fraction] = {}
        for d, w in members:
            if w not in have:
                miss[w] = miss.get(w, Fraction(1)) * (1 - draw[d])
        return _past([(1, 1 - m) for m in miss.values()], cap - base)
    return _past([(w, draw[d]) for d, w in members if (d, a) not in before], cap - base)


def _past(terms: list[tuple[int, Fraction]], room: int) -> Fraction:
    """Chance that independent weights add up to more than ``room``."""
    below: dict[int, Fraction] = {0: Fraction(1)}
    for weight, p in terms:
        if not p or not weight:
            continue
        after: dict[int, Fraction] = {}
        for load, q in below.items():
            after[load] = after.get(load, Fraction(0)) + q * (1 - p)
            if load + weight <= room:
                more = load + weight
                after[more] = after.get(more, Fraction(0)) + q * p
        below = after
        if len(below) > _LOADS:
            return Fraction(1)
    return 1 - sum(below.values(), Fraction(0))


def _fixed_point(problem: Problem, chance: Floats) -> Floats | None:
    """Iterate mu <- p / (1 - p) * prod(1 + mu of others), with a little to spare."""
    sets = problem.sets
    if (chance >= 1).any():
        return None
    odds = chance / (1 - chance)
    one, n = sets.member_set, problem.n_entries
    open_ = problem.lo[sets.entry] > 0
    mu = odds.copy()
    for _ in range(_ROUNDS):
        at = np.bincount(sets.entry, weights=mu[one], minlength=n)
        logs = np.where(open_, np.log1p(np.maximum(at[sets.entry] - mu[one], 0)), 0.0)
        around = np.bincount(one, weights=logs, minlength=sets.n_sets)
        if around.max(initial=0.0) > 50:
            return None
        fresh = odds * np.exp(around) * (1 + 1e-6)
        if np.allclose(fresh, mu, rtol=1e-9, atol=0):
            break
        mu = np.asarray(fresh)
    return np.asarray(mu * (1 + 1e-4))


def _holds(
    problem: Problem, chance: list[Fraction], witness: tuple[Fraction, ...]
) -> bool:
    """Check the condition of the lemma, exactly.

    Neighbours that share several entries are counted at each: that asks for more.
    """
    sets = problem.sets
    at = [Fraction(0)] * problem.n_entries
    for row, one in enumerate(sets.member_set.tolist()):
        at[int(sets.entry[row])] += witness[one]
    for one in range(sets.n_sets):
        if not chance[one]:
            continue
        around = prod(
            (1 + at[d] - witness[one] for d in sets.members(one).tolist()
             if problem.lo[d]),
            start=Fraction(1),
        )  # fmt: skip
        if chance[one] * (witness[one] + around) > witness[one]:
            return False
    return True


def safe_number(problem: Problem, exposures: Ints | None = None) -> int:
    """Active adversaries with whom every open entry always finds one who may get it.

    Parameters
    ----------
    problem : Problem
    exposures : int64 array, shape (n,), optional
        Exposures that the gate will still allow of each entry: answers wanted and
        returns. None: ``hi``.

    Returns
    -------
    int
        K: with at least K of the problem's adversaries asking, no order of asks and no
        choice among what is safe leads to an entry that all are barred from. Entries
        that cross a set alone are left out: nobody is ever shown them. 0 without open
        entries.

    Notes
    -----
    Worked out without expanding anything: a worker is barred from d if it holds d, or
    so much of the rest of one of d's sets that d would cross it; as each e is held by
    at most T_e workers, few can be.
    """
    left = problem.hi if exposures is None else exposures
    held = np.bincount(problem.history.entry, minlength=problem.n_entries)
    most = held + left
    never = np.zeros(problem.n_entries, np.bool_)
    never[problem.sets.entry[alone(problem.sets)]] = True
    open_ = (left > 0) & ~never
    if not open_.any():
        return 0
    barred = most - 1
    np.add.at(barred, problem.sets.entry, _barring(problem, most))
    full = 0
    if problem.capacity is not None:
        room = np.cumsum(np.sort(problem.capacity.astype(np.float64)))
        full = int(np.sum(room <= int(left.sum()) - 1))
    return 1 + full + int(barred[open_].max())


def _barring(problem: Problem, most: Ints) -> Ints:
    """Workers whom each member row's set may bar from its entry, shape (members,)."""
    sets = problem.sets
    one = sets.member_set
    by_weight = _weighted(problem, most)
    if not sets.classes.any():
        return by_weight
    return np.where(sets.classes[one], _classed(problem, most), by_weight)


def _weighted(problem: Problem, most: Ints) -> Ints:
    """For weighted sets: by the mass that is around, and by members that are needed."""
    sets, m = problem.sets, problem.sets.n_sets
    one = sets.member_set
    weight, cap = np.where(sets.classes[one], 0, sets.amount), sets.cap[one]
    total = _sums(one, weight, m)
    mass = _sums(one, weight * most[sets.entry], m)
    crossable = total[one] > cap
    need = np.maximum(np.where(crossable, cap, 0) + 1 - weight, 1)
    bound = (mass[one] - weight * most[sets.entry]) // need
    needed = crossable & (weight > 0) & (weight >= total[one] - cap)
    value = np.where(needed, most[sets.entry], NO_CAP)
    return np.where(crossable, np.minimum(bound, _others_least(one, value, m)), 0)


def _classed(problem: Problem, most: Ints) -> Ints:
    """For sets of classes: by the least held of the other classes."""
    sets, m = problem.sets, problem.sets.n_sets
    one = sets.member_set
    width = int(sets.amount.max(initial=0)) + 1
    number = one * width + sets.amount
    groups, row = np.unique(number, return_inverse=True)
    owner = groups // width
    size = np.bincount(row, weights=most[sets.entry], minlength=len(groups))
    size = size.astype(np.int64)
    count = np.bincount(owner, minlength=m)
    cap = np.maximum(sets.cap[owner], 1)
    around = (_sums(owner, size, m)[owner] - size) // cap
    least = np.where(
        sets.cap[owner] == count[owner] - 1, _others_least(owner, size, m), NO_CAP
    )
    bound = np.where(sets.cap[owner] >= count[owner], 0, np.minimum(around, least))
    return np.asarray(bound[row], dtype=np.int64)


def _sums(one: Ints, value: Ints, m: int) -> Ints:
    """Sums by set."""
    out = np.zeros(m, np.int64)
    np.add.at(out, one, value)
    return out


def _others_least(one: Ints, value: Ints, m: int) -> Ints:
    """Least value of the other rows of the same set; NO_CAP where there is none."""
    order = np.lexsort((value, one))
    start = np.searchsorted(one[order], np.arange(m))
    sized = np.bincount(one, minlength=m)
    first = np.full(m, NO_CAP)
    second = np.full(m, NO_CAP)
    first[sized > 0] = value[order[start[sized > 0]]]
    second[sized > 1] = value[order[start[sized > 1] + 1]]
    holder = np.full(m, -1)
    holder[sized > 0] = order[start[sized > 0]]
    rows = np.arange(len(one))
    return np.where(rows == holder[one], second[one], first[one])
