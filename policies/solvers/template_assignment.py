"""Assign the slots of one solved shape to concrete adversaries, for all its components.

A template plan of a shape is a list of slots: the entries of one (abstract) adversary.
In every component each slot goes to a different adversary. How often an adversary takes
which slot is a small flow problem (quotas); the quotas are then divided into
assignments by repeatedly removing matchings. The cost is linear in the number of
components.

Why this ends with all components assigned (Birkhoff 1946, Koenig 1916): with n
components left, every slot has n in the table, and no adversary more than n. So some
matching covers every slot and every adversary that has n ("full": it must take part
from now on), and it can be used as often as its smallest number, and until another
adversary becomes full. Each round empties a place of the table or fills an adversary:
at most slots x k + k rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.model.sets import Ints

_STEPS = 1_000_000
"""Weights are rounded to this part of the largest, as the flow needs integers: a slot is
then worth at most a millionth of the best less. Rounding changes no limit.

The flow costs -2 rint(worth / top * _STEPS) a component, and 1 more above the even load. It
is exact: a plan is optimal if no cycle of the rest network lowers its cost, and a cycle
changes the load of at most two adversaries, by one each, so evenness by at most 1, and worth
by a multiple of 2. So worth comes first, and evenness decides among equals."""

_PREFERRED = 1_000
"""Size of the table up to which large numbers are matched first: fewer, longer rounds."""


@dataclass(frozen=True, eq=False)
class ShapeTemplate:
    """A shape with its slots and its components.

    Attributes
    ----------
    slots : tuple of int64 arrays
        Local positions of the entries of each slot, none empty.
    entries : int64 array, shape (components, size)
        Entries of each component, ascending; columns are the local positions.
    """

    slots: tuple[Ints, ...]
    entries: Ints

    @property
    def weight(self) -> int:
        """Number of entries of the largest slot."""
        return max(len(s) for s in self.slots)


def quotas(
    worth: npt.NDArray[np.float64], count: int, ceiling: Ints, even: Ints
) -> Ints | None:
    """Return how often each adversary takes each slot: highest worth, then most even.

    Parameters
    ----------
    worth : float array, shape (slots, k)
        Mean worth of giving the slot to the adversary.
    count : int
        Number of components; each slot is taken so often in all.
    ceiling : int64 array, shape (k,)
        Largest number of components that the adversary may take part in.
    even : int64 array, shape (k,)
        Number that loads the adversaries evenly; breaks ties.

    Returns
    -------
    int64 array, shape (slots, k), or None
        Rows add up to ``count``, columns to at most ``min(ceiling, count)``. None if
        there is no such table.
    """
    q, k = worth.shape
    ceiling = np.minimum(ceiling, count)
    if int(ceiling.sum()) < q * count:
        return None
    from ortools.graph.python import min_cost_flow

    flow = min_cost_flow.SimpleMinCostFlow()
    top = float(worth.max(initial=0.0)) or 1.0
    cost = (-np.rint(worth / top * _STEPS)).astype(np.int64) * 2
    source, sink = q + k, q + k + 1
    slot = np.repeat(np.arange(q), k)
    adversary = q + np.tile(np.arange(k), q)
    low = np.minimum(even, ceiling)
    tails = np.concatenate(
        [np.full(q, source), slot, q + np.arange(k), q + np.arange(k)]
    )
    heads = np.concatenate([np.arange(q), adversary, np.full(2 * k, sink)])
    room = np.concatenate(
        [np.full(q, count), np.full(q * k, count), low, ceiling - low]
    )
    price = np.concatenate(
        [
            np.zeros(q, np.int64),
            cost.ravel(),
            np.zeros(k, np.int64),
            np.ones(k, np.int64),
        ]
    )
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tails, heads, room, price)
    flow.set_node_supply(source, q * count)
    flow.set_node_supply(sink, -q * count)
    if flow.solve() != flow.OPTIMAL:
        return None
    used = np.asarray(flow.flows(arcs), dtype=np.int64)
    return used[q : q + q * k].reshape(q, k)


def deal(table: Ints, count: int) -> Ints:
    """Divide quotas into assignments in which no adversary takes two slots.

    Parameters
    ----------
    table : int64 array, shape (slots, k)
        As returned by :func:`quotas`.
    count : int

    Returns
    -------
    int64 array, shape (count, slots)
        The adversary of each slot in each component; equal rows are adjacent.
    """
    from scipy.optimize import linear_sum_assignment

    left = table.copy()
    remaining = count
    rows: list[Ints] = []
    times: list[int] = []
    while remaining:
        column = left.sum(axis=0)
        full = column == remaining
        # a full adversary outweighs all preferences, an empty place is outweighed
        full_worth = _PREFERRED * (len(left) + 1)
        empty = -full_worth * (len(left) + 1)
        gain = np.where(left > 0, np.minimum(left, _PREFERRED), empty)
        gain = gain + np.where(full, full_worth, 0)
        slot, adversary = linear_sum_assignment(gain, maximize=True)
        chosen = np.zeros(left.shape[1], np.bool_)
        chosen[adversary] = True
        often = int(left[slot, adversary].min())
        if not chosen.all():
            often = min(often, remaining - int(column[~chosen].max()))
        assert often > 0, "a matching covers every slot and every full adversary"
        left[slot, adversary] -= often
        remaining -= often
        rows.append(adversary[np.argsort(slot)].astype(np.int64))
        times.append(often)
    return np.repeat(np.stack(rows), times, axis=0)


def evenly(load: Ints, ceiling: Ints, total: int) -> Ints:
    """Return how much each gets, the emptiest first, so that loads become level.

    Parameters
    ----------
    load : int64 array, shape (k,)
        Present amount of each.
    ceiling : int64 array, shape (k,)
        Most that each may get now.
    total : int
        Amount to distribute, as far as the ceilings allow.
    """
    low, high = int(load.min(initial=0)), int(load.max(initial=0)) + total + 1
    while low < high:
        level = (low + high) // 2
        if int(np.clip(level - load, 0, ceiling).sum()) >= total:
            high = level
        else:
            low = level + 1
    given = np.clip(low - load, 0, ceiling)
    spare = int(given.sum()) - total
    if spare > 0:
        last = np.flatnonzero((given > 0) & (load + given == low))
        given[last[:spare]] -= 1
    return np.asarray(given, dtype=np.int64)


def place(
    template: ShapeTemplate,
    worth: npt.NDArray[np.float64],
    given: Ints,
    room: Ints,
    rng: np.random.Generator,
    fair: int | None,
) -> tuple[Ints, Ints] | None:
    """Assign all slots of one template.

    Parameters
    ----------
    template : Template
    worth : float array, shape (slots, k)
    given, room : int64 array, shape (k,)
        Exposures planned so far, and allowed in total.
    rng : Generator
        Decides which component gets which assignment.
    fair : int or None
        Soft ceiling on exposures of one adversary, used while it leaves enough room.

    Returns
    -------
    (entry, adversary) or None
        The pairs, or None if the capacities are too small for whole slots.
    """
    count, q = len(template.entries), len(template.slots)
    hard = np.maximum(room - given, 0) // template.weight
    hard = np.minimum(hard, count)
    ceiling = hard
    if fair is not None:
        soft = np.minimum(hard, np.maximum(fair - given, 0) // template.weight)
        if int(soft.sum()) >= q * count:
            ceiling = soft
    even = evenly(given // template.weight, ceiling, q * count)
    order = rng.permutation(len(given))
    table = quotas(worth[:, order], count, ceiling[order], even[order])
    if table is None:
        return None
    dealt = order[deal(table, count)][rng.permutation(count)]
    entry = [template.entries[:, slot].ravel() for slot in template.slots]
    adversary = [
        np.repeat(dealt[:, i], len(slot)) for i, slot in enumerate(template.slots)
    ]
    return np.concatenate(entry), np.concatenate(adversary)


def slot_worth(problem: Problem, template: ShapeTemplate) -> npt.NDArray[np.float64]:
    """Return the mean worth of each slot to each adversary, shape (slots, k)."""
    weights = problem.weights
    base = weights.base[template.entries].mean(axis=0)
    kind = weights.kind[template.entries[0]]
    each = base[:, None] * weights.factor[:, kind].T
    return np.stack([each[slot].sum(axis=0) for slot in template.slots])
