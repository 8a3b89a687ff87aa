"""Cheapest hitting set: depth-first search over columns.

Choose columns of least cost so that every set contains one of them. A node takes the
open set with the fewest columns and tries them by the number of open sets that they
hit. A column that was tried is banned below its later siblings: solutions with it were
visited already. So the search is exact. Two bounds end a branch. If solutions may cost
up to a budget b more, at most floor(b / cheapest) columns follow, which hit no more
open sets than those that hit most (maximum coverage, overlaps ignored). And by weak
duality the open sets cost at least the sum of their duals, where the duals of the sets
of each column sum to its cost at most.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.model.sets import Ints
from policies.solvers.kernels.plan_state import Ints2

ENTRY_POINTS: Final = ("search",)

# places of state
DEPTH, BEST, SPENT, OPEN, DUAL, FOUND, STARTED, STATES = range(8)


class Cover(NamedTuple):
    """One search; c columns, m sets, depth at most m.

    Attributes
    ----------
    set_start, set_column
        Columns of each set.
    column_start, column_set
        Sets of each column.
    cost, dual : shape (c,), (m,)
        Costs >= 1; duals with ``sum of dual over a column's sets <= cost``.
    hits : shape (c,)
        Open sets that a column is in.
    banned : shape (c,)
    covered, choices : shape (m,)
        Chosen columns in a set; columns of a set that are not banned.
    child, place, many, rest : shape (m + 1, c), (m + 1,)
        Columns of each node, the current place among them, their number, and how many
        open sets the columns after the next could hit.
    picked, best : shape (m + 1,)
        The branch, and the best solution (its length in ``state[FOUND]``).
    tally : shape (m + 2,)
        Scratch.
    state : shape (STATES,)
        ``BEST``: only solutions cheaper than this are wanted.
    """

    set_start: Ints
    set_column: Ints
    column_start: Ints
    column_set: Ints
    cost: Ints
    dual: Ints
    hits: Ints
    banned: Ints
    covered: Ints
    choices: Ints
    child: Ints2
    place: Ints
    many: Ints
    rest: Ints
    picked: Ints
    best: Ints
    tally: Ints
    state: Ints


def toggle(v: Cover, column: int, sign: int) -> None:
    """Choose a column, or take it back."""
    v.state[SPENT] += sign * v.cost[column]
    for i in range(v.column_start[column], v.column_start[column + 1]):
        s = v.column_set[i]
        before = v.covered[s]
        v.covered[s] += sign
        if before + v.covered[s] == 1:  # it was just closed or opened
            v.state[OPEN] -= sign
            v.state[DUAL] -= sign * v.dual[s]
            for j in range(v.set_start[s], v.set_start[s + 1]):
                v.hits[v.set_column[j]] -= sign


def ban(v: Cover, column: int, sign: int) -> None:
    """Ban a column, or allow it again."""
    v.banned[column] += sign
    for i in range(v.column_start[column], v.column_start[column + 1]):
        v.choices[v.column_set[i]] -= sign


def reach(v: Cover, budget: int) -> tuple[int, int]:
    """Return how many open sets a budget's columns could hit; and all of them but one."""
    least = 0
    for s in range(len(v.tally)):
        v.tally[s] = 0
    for c in range(len(v.cost)):
        if v.banned[c] == 0 and v.cost[c] <= budget and v.hits[c] > 0:
            v.tally[v.hits[c]] += 1
            if least == 0 or v.cost[c] < least:
                least = v.cost[c]
    if least == 0:
        return 0, 0
    left, total, but_one = budget // least, 0, 0
    for size in range(len(v.tally) - 1, 0, -1):
        many = min(left, v.tally[size])
        if many > 0:
            total += many * size
            but_one += (many - 1 if many == left else many) * size
            left -= many
    return total, but_one


def enter(v: Cover) -> bool:
    """Open the node that the branch leads to; return whether it has children."""
    depth = v.state[DEPTH]
    budget = v.state[BEST] - 1 - v.state[SPENT]
    v.many[depth], v.place[depth] = 0, 0
    if v.state[OPEN] == 0:
        if budget >= 0:
            v.state[BEST] = v.state[SPENT]
            v.state[FOUND] = depth
            for i in range(depth):
                v.best[i] = v.picked[i]
        return False
    if budget < v.state[DUAL]:
        return False
    total, but_one = reach(v, budget)
    if total < v.state[OPEN]:
        return False
    v.rest[depth] = but_one
    chosen = -1
    for s in range(len(v.covered)):
        fewer = chosen < 0 or v.choices[s] < v.choices[chosen]
        if v.covered[s] == 0 and fewer:
            chosen = s
    line_up(v, depth, chosen, budget)
    return True


def line_up(v: Cover, depth: int, chosen: int, budget: int) -> None:
    """Sort a set's columns by hits (most first), then by cost, then by number."""
    count = 0
    for j in range(v.set_start[chosen], v.set_start[chosen + 1]):
        c = v.set_column[j]
        if v.banned[c] > 0 or v.cost[c] > budget:
            continue
        at = count
        while at > 0:
            other = v.child[depth, at - 1]
            if v.hits[other] > v.hits[c]:
                break
            if v.hits[other] == v.hits[c] and v.cost[other] <= v.cost[c]:
                break
            v.child[depth, at] = other
            at -= 1
        v.child[depth, at] = c
        count += 1
    v.many[depth] = count


def climb_back(v: Cover) -> bool:
    """Leave a node for its next sibling; return False once the root is left."""
    depth = v.state[DEPTH]
    for i in range(v.place[depth]):
        ban(v, v.child[depth, i], -1)
    if depth == 0:
        return False
    v.state[DEPTH] = depth - 1
    column = v.picked[depth - 1]
    toggle(v, column, -1)
    ban(v, column, 1)
    v.place[depth - 1] += 1
    return True


def search(v: Cover, nodes: int, floor: int) -> int:
    """Visit so many nodes; return 0 once done or a solution of cost floor is found."""
    if v.state[STARTED] == 0:
        v.state[STARTED] = 1
        enter(v)
    while nodes > 0:
        depth = v.state[DEPTH]
        at = v.place[depth]
        open_ = at < v.many[depth]
        if open_:
            column = v.child[depth, at]
            room = v.state[BEST] - 1 - v.state[SPENT] - v.cost[column]
            open_ = v.state[OPEN] - v.hits[column] <= v.rest[depth] and room >= 0
        if not open_:
            if not climb_back(v):
                return 0
            continue
        toggle(v, column, 1)
        v.picked[depth] = column
        v.state[DEPTH] = depth + 1
        enter(v)
        nodes -= 1
        if v.state[BEST] <= floor:
            return 0
    return 1
