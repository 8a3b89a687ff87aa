"""GREEDYL: entries one by one, each to its best adversaries that may have it.

The paper's myopic greedy (algorithms 1 to 4, section 5, local form) with the limits as
hard walls: high degree first, then ejection chains where an entry finds nobody, then
local search for utility until nothing improves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Problem
from policies.model.sets import NO_CAP, Bools, Ints
from policies.solvers.components import split
from policies.solvers.interfaces import Limits, Solution, Verdict
from policies.solvers.search.class_reservation import Sides
from policies.solvers.search.plan_state import Hands

_VISITS = 100_000  # members looked at by ejections for each unit of work
_ENOUGH = (
    10  # work for ejections, and as much again for each short entry: no more helps
)
_STEP = 300  # what an ejection costs besides, in visits
_PASSES = 8  # local search ends here even while it still improves


class Greedyl:
    """The heuristic; never proves anything but the bound by the best weights."""

    def supports(self, problem: Problem) -> bool:
        """All problems with the objective disc-budget and nobody who pools."""
        budget = problem.goal.objective is Objective.DISC_BUDGET
        return budget and not problem.coalitions and problem.utilities is None

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Build, repair, improve; SOLVED only if the judge agrees."""
        hands = Hands(problem)
        fair = soft_ceiling(problem, limits.spread)
        rank = Ranking(hands, rng, fair)
        short = build(hands, rank, rng, limits)
        bound = problem.weights.best(problem.hi) * problem.weights.unit
        if short:
            return Solution(
                Verdict.UNKNOWN,
                held=np.array(sorted(short), dtype=np.int64),
                bound=bound,
                tried=(f"greedyl left {len(short)} entries short of copies",),
            )
        entries = np.flatnonzero(problem.hi > 0).tolist()
        improve(hands, rank, entries, limits.deadline())
        plan = hands.plan()
        judged = judge(problem, plan)
        if not judged.feasible:
            return Solution(
                Verdict.UNKNOWN,
                bound=bound,
                tried=(f"greedyl's plan was refused: {judged.violations[0]}",),
            )
        return Solution(
            Verdict.SOLVED, plan, value=judged.objective, bound=bound, judged=judged
        )


def soft_ceiling(problem: Problem, spread: float) -> Ints | None:
    """``spread`` times the fair share of the copies owed, for each adversary."""
    k = problem.n_adversaries
    if spread == float("inf") or not k:
        return None
    fair = -(-int(problem.lo.sum()) // k)
    return np.full(k, int(spread * fair) + 1, np.int64)


class Ranking:
    """Orders adversaries for an entry: weight, its side, the emptiest hands, chance.

    Parameters
    ----------
    hands : Hands
    rng : Generator
    fair : int64 array, shape (k,), or None
        Exposures from which an adversary comes last: its soft ceiling.
    load : int64 array, shape (k,), or None
        Exposures that the adversaries get from other parts of the plan.
    """

    def __init__(
        self,
        hands: Hands,
        rng: np.random.Generator,
        fair: Ints | None = None,
        load: Ints | None = None,
    ) -> None:
        k = hands.problem.n_adversaries
        self.hands = hands
        self.chance = rng.permutation(k)
        self.sides = Sides(hands.problem, rng)
        self.careful = False  # close as few doors as possible, whatever the weight
        self.load = np.zeros(k, np.int64) if load is None else load
        self.fair = np.full(k, NO_CAP) if fair is None else fair

    def below(self) -> Bools:
        """Mask of the adversaries below their soft ceiling."""
        return np.asarray(self.load + self.hands.given < self.fair)

    def best(self, entry: int, copies: int) -> list[int]:
        """Up to ``copies`` adversaries who may get the entry, best first."""
        hands = self.hands
        able = np.flatnonzero(hands.open(entry))
        if len(able) == 0:
            return []
        given = self.load[able] + hands.given[able]
        away = self.sides.away(entry)
        keys = [
            self.chance[able],
            given,
            np.zeros(len(able), np.bool_) if away is None else away[able],
            -hands.problem.weights.row(entry)[able],
            given >= self.fair[able],
        ]
        if self.careful:
            keys.append(hands.burden(entry)[able])
        order = np.lexsort(keys)
        return [int(a) for a in able[order[:copies]]]


def sequence(hands: Hands, rng: np.random.Generator) -> list[int]:
    """Entries that want copies: many sets first, then many copies, then by chance."""
    problem = hands.problem
    degree = np.bincount(problem.sets.entry, minlength=problem.n_entries)
    chance = rng.permutation(problem.n_entries)
    order = np.lexsort((chance, -problem.lo, -degree))
    return [int(d) for d in order[problem.lo[order] > 0]]


def build(
    hands: Hands,
    rank: Ranking,
    rng: np.random.Generator,
    limits: Limits,
    *,
    repair: bool = True,
) -> set[int]:
    """Give every entry its ``lo`` copies, with ejections where needed.

    Parameters
    ----------
    hands, rank, rng, limits
    repair : bool
        Whether to move others on for entries that find nobody.

    Returns
    -------
    set of int
        Entries that stayed short; empty on success.
    """
    lo = hands.problem.lo
    order = sequence(hands, rng)
    short = [d for d in order if not _fill(hands, rank, d, int(lo[d]))]
    if not short or not repair:
        return set(short)
    short = _again(hands, rank, order, short)
    return eject(hands, rank, short, looked_at(limits, short), limits.deadline())


def _again(
    hands: Hands, rank: Ranking, order: list[int], short: list[int]
) -> list[int]:
    """Start the components of short entries anew, with care; who is short then."""
    label = split(hands.problem.sets).label
    stuck = set(label[short].tolist())
    mine = [d for d in order if int(label[d]) in stuck]
    for d in mine:
        for a in sorted(hands.holders[d]):
            hands.take(d, a)
    rank.careful = True
    lo = hands.problem.lo
    out = [d for d in mine if not _fill(hands, rank, d, int(lo[d]))]
    rank.careful = False
    return out


def _fill(hands: Hands, rank: Ranking, entry: int, copies: int) -> bool:
    """Give the entry its missing copies; whether it got all."""
    missing = copies - len(hands.holders[entry])
    for adversary in rank.best(entry, missing) if missing > 0 else ():
        hands.give(entry, adversary)
        missing -= 1
    return missing <= 0


def looked_at(limits: Limits, short: Sequence[int]) -> int:
    """Return the visits of ejections: a number, even where work has no limit."""
    return int(min(limits.work, _ENOUGH + len(short)) * _VISITS)


def eject(
    hands: Hands,
    rank: Ranking,
    short: list[int],
    visits: int,
    over: Callable[[], bool],
) -> set[int]:
    """Make room for the entries that are short by moving others on.

    Each ejected entry grows dearer, so that chains do not turn in circles (ejection
    chains in the sense of Glover; weights as in breakout local search). ``visits`` is
    how many members of sets may be looked at in all.
    """
    lo = hands.problem.lo
    cost = [1] * hands.problem.n_entries
    queue = deque(short)
    touched = set(short)
    while queue and visits > 0 and not over():
        entry = queue.popleft()
        if _fill(hands, rank, entry, int(lo[entry])):
            continue
        visits -= _STEP + hands.problem.n_adversaries * hands.around(entry)
        victims = _force(hands, rank, entry, cost)
        if victims is None:
            continue
        for victim in sorted(victims):
            cost[victim] += 1
            queue.append(victim)
            touched.add(victim)
        queue.appendleft(entry)
    return {d for d in touched if len(hands.holders[d]) < int(lo[d])}


def _force(hands: Hands, rank: Ranking, entry: int, cost: list[int]) -> set[int] | None:
    """Give the entry to the adversary for whom that is cheapest; who lost theirs."""
    best: tuple[int, int, int, set[int]] | None = None
    spent = hands.exhausted(entry)
    for adversary in range(hands.problem.n_adversaries):
        if adversary in spent or hands.barred(entry, adversary):
            continue
        victims = hands.conflicts(entry, adversary, cost)
        if victims is None:
            continue
        victims = _make_room(hands, adversary, victims, cost)
        if victims is None:
            continue
        price = sum(cost[v] for v in victims)
        key = (price, int(hands.given[adversary]), int(rank.chance[adversary]))
        if best is None or key < best[:3]:
            best = (*key, victims)
            chosen = adversary
    if best is None:
        return None
    for victim in sorted(best[3]):
        hands.take(victim, chosen)
    hands.give(entry, chosen)
    return best[3]


def _make_room(
    hands: Hands, adversary: int, victims: set[int], cost: list[int]
) -> set[int] | None:
    """Add one more victim where the adversary's capacity is used up."""
    after = int(hands.given[adversary]) - len(victims) + 1
    if after <= int(hands.room[adversary]):
        return victims
    held = hands.held[adversary] - victims
    if not held:
        return None
    return victims | {min(held, key=lambda d: (cost[d], d))}


def improve(
    hands: Hands, rank: Ranking, entries: list[int], over: Callable[[], bool]
) -> None:
    """Local search: move a copy to a better adversary, add copies that are worth it."""
    for _ in range(_PASSES):
        moved = [_better(hands, rank, d) for d in entries]
        if not any(moved) or over():
            return


def _better(hands: Hands, rank: Ranking, entry: int) -> bool:
    """Move or add one entry's copies where utility rises; whether anything changed."""
    changed = False
    worth = hands.problem.weights.row(entry)
    limit = int(hands.problem.hi[entry])
    while True:
        able = np.flatnonzero(hands.open(entry) & rank.below())
        if len(able) == 0:
            return changed
        best = int(able[np.argmax(worth[able])])
        if len(hands.holders[entry]) < limit and worth[best] > 0:
            hands.give(entry, best)
            changed = True
            continue
        weakest = min(hands.holders[entry], key=lambda a: (worth[a], a), default=None)
        if weakest is None or worth[weakest] >= worth[best]:
            return changed
        hands.take(entry, weakest)
        hands.give(entry, best)
        changed = True
