"""Prove without a search that a plan exists, and that serving never gets stuck.

``certify`` proves that a plan exists: by the Lovasz local lemma in its cluster-expansion
form, applied to a uniform choice of each entry's adversaries, or because fewer than one
crossing is expected. It checks the hypotheses with exact rationals. In the second case
:func:`policies.judging.chances.derandomized_plan` also constructs a plan.

``safe_number`` is a number of active adversaries with whom every open entry always finds
one who may get it, in any order and after any choices (liveness of the gate). By the
same count, ``always_servable`` gives the entries that can be assigned one by one.

References
----------
Bissacot, Fernandez, Procacci, Scoppola. An improvement of the Lovasz local lemma via
cluster expansion. Combinatorics, Probability and Computing 20 (2011).
Moser, Tardos. A constructive proof of the general Lovasz local lemma. J. ACM 57 (2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from policies.judging.chances import Draw
from policies.judging.judge import judge
from policies.model.disclosure import alone, loads
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import NO_CAP, Bools, Floats, Ints

_ROUNDS = 60  # of the fixed-point iteration
_DENOMINATOR = 10**6  # of the witnesses, which are rounded up


@dataclass(frozen=True)
class Certificate:
    """A proof that a plan exists for every entry's ``lo`` copies.

    Attributes
    ----------
    chance : tuple of Fraction
        For each set: an upper bound on the chance that some adversary or coalition
        crosses it if all copies are drawn uniformly.
    witness : tuple of Fraction, or None
        mu of each set, >= 0: chance <= mu / (mu + prod over its entries d of
        (1 + sum of the other sets' mu at d)). None: the chances add up to less than 1,
        which proves it by itself.
    """

    chance: tuple[Fraction, ...]
    witness: tuple[Fraction, ...] | None


def certify(problem: Problem) -> Certificate | None:
    """Try to prove that a plan exists.

    Parameters
    ----------
    problem : Problem
        Without capacities, caps on means and limits on links: a uniform choice says
        nothing about those. Each entry gets ``lo`` copies.

    Returns
    -------
    Certificate or None
        None: no proof was found.
    """
    draw = Draw.of(problem)
    if draw is None:
        return None
    chance = draw.chances()
    witness = _witness(problem, chance)
    if witness is None and sum(chance, Fraction(0)) >= 1:
        return None
    return Certificate(chance, witness)


def _witness(
    problem: Problem, chance: tuple[Fraction, ...]
) -> tuple[Fraction, ...] | None:
    """Return mu of each set that satisfies the lemma; None if none was found."""
    mu = _fixed_point(problem, np.array([float(p) for p in chance]))
    if mu is None:
        return None
    witness = tuple(
        Fraction(int(np.ceil(m * _DENOMINATOR)) + (m > 0), _DENOMINATOR)
        for m in mu.tolist()
    )
    return witness if _satisfies_lemma(problem, chance, witness) else None


def _fixed_point(problem: Problem, chance: Floats) -> Floats | None:
    """Iterate mu <- p / (1 - p) * prod(1 + mu of others), with a small margin."""
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


def _satisfies_lemma(
    problem: Problem, chance: tuple[Fraction, ...], witness: tuple[Fraction, ...]
) -> bool:
    """Check the condition of the lemma, exactly.

    Neighbours that share several entries count once for each, which is stricter.
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
    """Return a number of adversaries among whom every open entry always finds a taker.

    Parameters
    ----------
    problem : Problem
    exposures : int64 array, shape (n,), optional
        Exposures of each entry that the gate will still allow, returns included.
        None: ``hi``.

    Returns
    -------
    int
        K: while at least K of the problem's adversaries ask, no order of asks and no
        choice among the safe entries leads to an entry from which all are barred.
        Entries that cross a set alone are left out: they are never shown. 0 if no
        entry is open.

    Notes
    -----
    A worker is barred from d if it holds d, if the pair is forbidden, or if it holds so
    much of the rest of one of d's sets that d would cross it. Each entry e is held by at
    most T_e workers, which bounds the number of barred workers without expanding
    anything. Limits on links and averages are not counted.
    """
    return int(safe_numbers(problem, exposures).max(initial=0))


def always_servable(problem: Problem) -> Bools:
    """Return which entries can get their ``lo`` copies one by one, in any order.

    Parameters
    ----------
    problem : Problem
        Nothing is proven with coalitions, caps on means or limits on links, nor if
        history alone makes every plan infeasible.

    Returns
    -------
    bool array, shape (n,)
        If True for all entries of a component, that component has a plan; with
        capacities, if True for all entries of the problem. True for entries that need
        no copy.
    """
    none = np.zeros(problem.n_entries, np.bool_)
    links = problem.links
    limited = links is not None and links.limited
    if problem.coalitions or problem.averages or limited:
        return none
    if problem.strict_history and len(problem.history):
        before = judge(replace(problem, lo=np.zeros_like(problem.lo)), Plan())
        if not before.feasible:
            return none
    ask = safe_numbers(problem, problem.lo)
    enough = (ask > 0) & (ask <= problem.n_adversaries)
    return np.asarray(enough | (problem.lo == 0))


def safe_numbers(problem: Problem, exposures: Ints | None = None) -> Ints:
    """Return the adversaries that each entry needs, as :func:`safe_number` counts them.

    Returns
    -------
    int64 array, shape (n,)
        0 where an entry is not open, or is never shown.
    """
    left = problem.hi if exposures is None else exposures
    held = np.bincount(problem.history.entry, minlength=problem.n_entries)
    most = held + left
    never = np.zeros(problem.n_entries, np.bool_)
    never[problem.sets.entry[alone(problem.sets)]] = True
    open_ = (left > 0) & ~never
    unable = problem.forbidden.entry[~problem.forbidden.within(problem.history)]
    barred = most - 1 + np.bincount(unable, minlength=problem.n_entries)
    by_set = _barred_by_set(problem, most)
    np.add.at(barred, problem.sets.entry, by_set)
    if len(problem.history):
        barred = np.minimum(barred, _barred_from_now_on(problem, left, by_set))
    full = 0
    if problem.capacity is not None:
        room = np.cumsum(np.sort(problem.capacity.astype(np.float64)))
        full = int(np.sum(room <= int(left.sum()) - 1))
    return np.where(open_, 1 + full + barred, 0)


def _barred_from_now_on(problem: Problem, left: Ints, by_set: Ints) -> Ints:
    """Bound the workers barred from each entry by those that are, shape (n,).

    Who is barred by several sets counts once. Whoever a weighted set comes to bar must
    be shown another of its members; a set of classes bars as many as it ever may.
    """
    sets, n = problem.sets, problem.n_entries
    one = sets.member_set
    pairs = [problem.history.union(problem.forbidden)]
    for piece in loads(sets, Pairs(), problem.history):
        size = np.diff(sets.start)[piece.set]
        first = np.repeat(sets.start[piece.set] - np.cumsum(size) + size, size)
        row = first + np.arange(len(first))
        over = np.repeat(piece.load, size) + sets.amount[row] > sets.cap[one[row]]
        over &= ~sets.classes[one[row]]
        who = np.repeat(piece.adversary, size)
        pairs.append(Pairs(sets.entry[row[over]], who[over]))
    entry = np.concatenate([each.entry for each in pairs])
    who = np.concatenate([each.adversary for each in pairs])
    barred = np.bincount(Pairs(entry, who).entry, minlength=n) + left - 1
    shown = np.where(sets.amount > 0, left[sets.entry], 0)
    others = _sum_by_set(one, shown, sets.n_sets)[one] - shown
    more = np.where(sets.classes[one], by_set, np.minimum(by_set, others))
    np.add.at(barred, sets.entry, more)
    return barred


def _barred_by_set(problem: Problem, most: Ints) -> Ints:
    """Bound the workers that each row's set bars from its entry, shape (members,)."""
    sets = problem.sets
    one = sets.member_set
    by_weight = _barred_by_weights(problem, most)
    if not sets.classes.any():
        return by_weight
    return np.where(sets.classes[one], _barred_by_classes(problem, most), by_weight)


def _barred_by_weights(problem: Problem, most: Ints) -> Ints:
    """The bound for weighted sets: by the weight held, and by the members required."""
    sets, m = problem.sets, problem.sets.n_sets
    one = sets.member_set
    weight, cap = np.where(sets.classes[one], 0, sets.amount), sets.cap[one]
    total = _sum_by_set(one, weight, m)
    mass = _sum_by_set(one, weight * most[sets.entry], m)
    crossable = total[one] > cap
    need = np.maximum(np.where(crossable, cap, 0) + 1 - weight, 1)
    bound = (mass[one] - weight * most[sets.entry]) // need
    needed = crossable & (weight > 0) & (weight >= total[one] - cap)
    value = np.where(needed, most[sets.entry], NO_CAP)
    return np.where(crossable, np.minimum(bound, _least_of_others(one, value, m)), 0)


def _barred_by_classes(problem: Problem, most: Ints) -> Ints:
    """The bound for sets of classes: by the least held of the other classes."""
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
    around = (_sum_by_set(owner, size, m)[owner] - size) // cap
    least = np.where(
        sets.cap[owner] == count[owner] - 1, _least_of_others(owner, size, m), NO_CAP
    )
    bound = np.where(sets.cap[owner] >= count[owner], 0, np.minimum(around, least))
    return np.asarray(bound[row], dtype=np.int64)


def _sum_by_set(one: Ints, value: Ints, m: int) -> Ints:
    """Sum values by set."""
    out = np.zeros(m, np.int64)
    np.add.at(out, one, value)
    return out


def _least_of_others(one: Ints, value: Ints, m: int) -> Ints:
    """Least value of the other rows of the same set; NO_CAP if there are none."""
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
