"""AUTO for single instances: count, split, pick by structure, prove, explain.

1. Counting proofs (:mod:`cores`) end hopeless problems at once, with the reason.
2. If the best copies of every entry break no limit, that plan is the optimum.
3. Without anything that couples them, components of the sets are solved one by one.
4. Certificates (:mod:`proofs`) tell what has a plan in any case; it is made at once.
5. What is left is searched: a solver that proves this structure by itself has all the
   time; else heuristics that fit f give a start, then CP-SAT and HiGHS prove, at once.
6. Where there is no plan, a smallest core is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from policies.model.problem import Goal, Pairs, Problem
from policies.solvers.adversary_reduction import among, among_all, needed
from policies.solvers.bounds.certificates import Prover
from policies.solvers.bounds.lagrangian import bounded
from policies.solvers.bounds.link_bounds import LinkBounds, sealed
from policies.solvers.bounds.link_pairs import LinkPairs
from policies.solvers.coloring import small_sets
from policies.solvers.component_answers import joined, lifted
from policies.solvers.components import split
from policies.solvers.exact.cpsat import CpSat, exactly
from policies.solvers.exact.edge_cliques import covered, pairs_only
from policies.solvers.exact.enumeration import listable, listed
from policies.solvers.exact.milp import Milp, linear, solve
from policies.solvers.exact.pair_search import searched, small
from policies.solvers.exact.step_averages import by_number, stepped
from policies.solvers.exact.zero_disclosure import leakless, whole
from policies.solvers.explain.cores import counted, infeasible
from policies.solvers.features import (
    GREEDY,
    HEURISTICS,
    budgeted,
    building,
    by_hands,
    by_levels,
    heavy,
    modelled,
    roomy,
    separable,
    shape,
    swift,
)
from policies.solvers.interfaces import (
    Limits,
    Proof,
    Solution,
    Solver,
    Verdict,
    answer,
    best_of,
    free_bound,
)
from policies.solvers.kernels.compiling import FROM
from policies.solvers.parallel_portfolio import (
    Task,
    few,
    late,
    merged,
    race,
    running,
    sure,
)
from policies.solvers.scaling import near_one, restored
from policies.solvers.search.budget_starts import budget_starts
from policies.solvers.search.greedyl import Greedyl
from policies.solvers.search.local_search import improved
from policies.solvers.search.neighbourhood import onward
from policies.solvers.small_instances import completed, tiny
from policies.solvers.trivial import best_copies

_TINY: Final = 64  # pairs below which exact solvers alone are asked
_FIRST: Final = 0.3  # of the time, for a start
_SHORT: Final = 0.1  # the same, for heuristics that are not compiled
_PRICED: Final = 0.1  # of the time, for prices of what hands see
_QUICK: Final = 0.2  # seconds to build a model below which nothing comes late twice
_PAIRWISE: Final = 500  # pairs above which greedy, not compiled, costs seconds
_BY_ENTRY: Final = 3  # heuristics for cosine that go entry by entry: the first ones
_AGAIN: Final = 5  # times that heuristics for cosine draw anew, while there is time
_LEAST: Final = 0.02  # seconds that a part gets in any case
_SOLE: Final = 0.7  # of the time, for a solver that proves this structure
_USED: Final = 0.93  # of the time; what is left over is for judging and telling


def portfolio(
    solvers: dict[str, Solver],
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Solve one instance as well as the limits allow."""
    hands = needed(problem)
    if hands is not None:
        found = portfolio(solvers, among(problem, hands), rng, limits)
        return among_all(problem, found, hands)
    near, unit = near_one(problem)
    found = _Portfolio(solvers, near, rng, limits).solve()
    return found if near is problem else restored(problem, found, unit)


@dataclass
class _Portfolio:
    """One call."""

    solvers: dict[str, Solver]
    problem: Problem
    rng: np.random.Generator
    limits: Limits

    def __post_init__(self) -> None:
        self.began = self.limits.clock()
        self.limits = replace(self.limits, seconds=self.limits.seconds * _USED)
        self.over = self.limits.deadline()
        self.prover = Prover(self.limits)

    def left(self, share: float = 1.0) -> Limits:
        """Return the limits with this share of the time that is left."""
        return self.limits.part(share).left(self.began, share, _LEAST)

    def why(self, found: Sequence[Solution] = ()) -> str:
        """Why the search ended before its end, in all or in one of its parts."""
        if self.limits.stopped():
            return "interrupt"
        if late(self.limits, self.began) or any(one.stopped == "time" for one in found):
            return "time"
        return "gap" if self.limits.work == float("inf") else "work"

    def solve(self) -> Solution:
        """Go through the steps of the module's head."""
        problem = self.problem
        if counted(problem):
            return infeasible(problem, self.rng, self.left(0.5), ("counting",))
        free = best_copies(problem)
        if sure(free):
            return free
        if not linear(problem):
            return self._linked(free)
        if separable(problem):
            return self._components(refused=free.verdict is not Verdict.SOLVED)
        proof = self.prover(problem)
        found = self._search(problem, self.left(), proof)
        if free.verdict is Verdict.SOLVED:  # whatever became of the search
            found = merged([found, free], found.stopped)
        if found.verdict is Verdict.INFEASIBLE:
            return infeasible(problem, self.rng, self.left(0.9), found.tried)
        return self.prover.certain(found, proof)

    # -- components ----------------------------------------------------------------

    def _components(self, *, refused: bool) -> Solution:
        """Solve each component; ``refused`` were the best copies of the whole."""
        problem = replace(self.problem, links=None, goal=Goal())
        parts = split(problem.sets)
        busy = np.unique(parts.label[problem.sets.entry])
        sizes = np.diff(parts.entry_start)[busy]
        order = busy[np.argsort(sizes, kind="stable")].tolist()
        loose = np.ones(problem.n_entries, np.bool_)
        loose[parts.entries_of(busy)] = False
        entries = np.flatnonzero(loose)
        rest = problem.select(entries, np.empty(0, np.int64))
        ready = [(entries, best_copies(rest))]
        for number, component in enumerate(order):
            ending = self.over()  # then all that are left are looked at as one
            chosen = np.sort(order[number:]) if ending else np.array([component])
            inside = parts.entries_of(chosen)
            part = problem.select(inside, parts.sets_of(chosen))
            share = 0.0 if ending else max(1.0 / (len(order) - number), 0.3)
            seen = refused and part.sets.n_sets == problem.sets.n_sets
            found = self._component(part, share, seen=seen)
            ready.append((inside, lifted(found, inside, parts.sets_of(chosen))))
            if ending:
                break
        return joined(self.problem, ready, self.why([found for _, found in ready]))

    def _component(self, part: Problem, share: float, *, seen: bool) -> Solution:
        """Solve a component in a share of the time that is left; without, tell of it.

        Its best copies are tried first, unless they were ``seen`` to break a limit.
        """
        done = searched(part) if share and small(part) else None
        if done is not None:
            return done  # judged with all others
        free = None if seen else best_copies(part)
        if free is not None and sure(free):
            return free
        proof, limits = self.prover(part), self.left(share)
        if not share:
            why, bound = self.why(), free_bound(part)
            found = Solution(Verdict.UNKNOWN, bound=bound, stopped=why)
        elif pairs_only(part):
            found = self._cliques(part, limits, proof)
        else:
            found = self._search(part, limits, proof)
            if found.verdict is Verdict.INFEASIBLE:
                found = infeasible(part, self.rng, self.left(0.6), found.tried)
        return self.prover.certain(found, proof)

    def _cliques(self, part: Problem, limits: Limits, proof: Proof | None) -> Solution:
        """Solve a component of pairs over the cliques of its graph."""
        tight, says = covered(part)
        clashes = counted(tight)
        found = None
        if not clashes:
            found = self._search(tight, limits, proof)
            if found.verdict is not Verdict.INFEASIBLE:
                return found
        tried = ("cliques",)
        told = infeasible(part if found else tight, self.rng, self.left(0.6), tried)
        if found is not None:
            return told
        core = told.cores[0]
        first = core.clashes[0]
        sets = [s for one in first.sets for s in says[one]]
        owners = np.unique(part.sets.owner[np.array(sets, np.int64)])
        clash = replace(first, sets=tuple(sets), properties=tuple(owners.tolist()))
        return replace(told, cores=(replace(core, clashes=(clash,)),))

    # -- search --------------------------------------------------------------------

    def _search(
        self, problem: Problem, limits: Limits, proof: Proof | None = None
    ) -> Solution:
        """Start, then prove."""
        pairs = problem.n_entries * problem.n_adversaries
        if pairs <= _TINY and modelled(problem) and not stepped(problem):
            return self._told(tiny(problem, self.rng, limits, self._seed()))
        began = limits.clock()

        def rest(share: float = 1.0, overdue: float = 0.0) -> Limits:
            left = max(limits.seconds - overdue - (limits.clock() - began), _LEAST)
            return replace(limits.part(share), seconds=left * share)

        share = _FIRST if problem.goal.average else _SOLE  # a mean may pay for sets
        proven = self._structured(problem, rest(share))
        found, overdue = completed(problem, proven, rest), 0.0
        if not any(sure(one) for one in found):
            if not found and heavy(problem):
                return self._told(race(self._runners(problem), rest()))
            first = rest(_FIRST if swift(problem) else _SHORT)
            due = limits.clock() + first.seconds
            found += self._starts(problem, first, proof)
            if building(problem) > _QUICK:  # else kernels were compiled: that is done
                overdue = max(limits.clock() - due, 0.0)
            found += bounded(problem, found, rest(_PRICED, overdue))
        if any(sure(one) for one in found):
            return self._told(found)
        best = best_of(found)
        start = None if best is None else best.plan
        tasks = list(self._provers(problem, start))
        if not tasks:
            return self._told(found) if found else self._beyond(problem)
        last = rest(overdue=overdue)  # what came late once comes late again
        if start is not None and last.seconds <= max(overdue, _LEAST):
            return merged(found, "time")
        return self._told([*found, *race(tasks, last)])

    def _structured(self, problem: Problem, limits: Limits) -> Iterator[Solution]:
        """What a special structure proves, often all there is to prove."""
        began, sole = limits.clock(), self.solvers.get("hitting-set")
        if sole is not None and sole.supports(problem) and not small_sets(problem):
            yield sole(problem, self.rng, replace(limits, work=few(limits.work)))
            return
        if stepped(problem):
            numbered = by_number(problem, self.rng, limits)
            yield numbered
            if sure(numbered):
                return
        if whole(problem):
            rest = limits.left(began, least=_LEAST)
            yield leakless(
                problem, lambda p: portfolio(self.solvers, p, self.rng, rest)
            )

    def _runners(self, problem: Problem) -> list[Task]:
        """The heuristic that fits, once, or twice from different draws at once."""
        solver = self._fitting(problem)[0]
        timed = self.limits.seconds != float("inf")  # work alone: any threads, one plan
        rngs = self.rng.spawn(2 if timed and self.limits.threads > 1 else 1)
        return [running(solver, problem, rng) for rng in rngs]

    def _starts(
        self, problem: Problem, limits: Limits, proof: Proof | None = None
    ) -> Iterator[Solution]:
        """Plans from solvers that fit; the first sure answer ends it."""
        began, kind = limits.clock(), shape(problem)
        if budgeted(problem):
            starts = budget_starts(self.solvers, problem, proof, self.rng, limits)
            found = list(starts)
            yield from found
            known = any(one.verdict is not Verdict.UNKNOWN for one in found)
            if kind == "sealed" or known:
                return
        elif kind == "sealed":  # too large for CP-SAT
            yield Greedyl()(problem, self.rng, limits)
            return
        names = GREEDY.get(kind, ())
        pairs = problem.n_entries * problem.n_adversaries
        if pairs > _PAIRWISE:
            compiled = problem.goal.average and pairs >= FROM
            names = names[: _BY_ENTRY + compiled]
        named = self._fitting(problem) or self._named(problem, names)
        for solver in named:
            seconds = limits.seconds - (limits.clock() - began)
            if seconds <= 0 or limits.stopped():
                return
            work = few(limits.work)
            bounded = replace(limits, seconds=seconds, prove=True, work=work)
            yield solver(problem, self.rng, bounded)

    def _fitting(self, problem: Problem) -> list[Solver]:
        """Return the heuristic that fits the disclosure function, if one does."""
        return self._named(problem, HEURISTICS[shape(problem)])[:1]

    def _named(self, problem: Problem, names: Sequence[str]) -> list[Solver]:
        named = (self.solvers.get(name) for name in names)
        return [s for s in named if s is not None and s.supports(problem)]

    def _provers(self, problem: Problem, start: Pairs | None) -> Iterator[Task]:
        """Solvers that prove, the one that fits best first."""
        seed, rng = self._seed(), self.rng.spawn(1)[0]

        def milp(limits: Limits, done: Callable[[], bool]) -> Solution:
            return solve(problem, limits, seed=seed, start=start, done=done)

        def cpsat(limits: Limits, done: Callable[[], bool]) -> Solution:
            return exactly(problem, rng, limits, start, done)

        def around(limits: Limits, done: Callable[[], bool]) -> Solution:
            assert start is not None
            return onward(problem, start, rng, limits, done)

        swiftly = building(problem) < self.left().seconds
        exact = Milp().supports(problem) and swiftly
        tasks: list[Task] = [milp] if exact else []
        better = problem.averages or by_hands(problem) or by_levels(problem)
        anew = swift(problem) and not (better and start is not None)
        free = roomy(problem)
        if budgeted(problem) and (start is None or not (exact and free)):
            tasks.insert(0, cpsat)
        elif exact and anew and self._fitting(problem):
            tasks.append(running(self._fitting(problem)[0], problem, rng))
        elif exact and start is not None:
            tasks.append(around)
        also = cpsat not in tasks and swiftly and CpSat().supports(problem)
        if also and not (exact and start is not None):
            tasks.append(cpsat)  # floats can not tell what ends on a mean's limit
        if free and (start is None or not exact):
            again = self._named(problem, ("annealing",))
            tasks += [running(solver, problem, rng) for solver in again]
        yield from tasks

    def _beyond(self, problem: Problem) -> Solution:
        """Answer where no exact model fits: whatever plans it without proof."""
        for name in ("greedyl", "greedy"):
            solver = self.solvers.get(name)
            if solver is not None and solver.supports(problem):
                return self._told([solver(problem, self.rng, self.left())])
        return Solution(
            Verdict.UNKNOWN,
            bound=free_bound(problem),
            tried=("no solver takes a problem of this size",),
            stopped="work",
        )

    def _told(self, found: Sequence[Solution]) -> Solution:
        """Make one answer of all."""
        return merged(found, self.why(found))

    def _seed(self) -> int:
        return int(self.rng.integers(2**31 - 1))

    def _linked(self, free: Solution) -> Solution:
        """Cosine under a limit or in a tradeoff: nothing disclosed, or whatever is found."""
        problem = self.problem
        if listable(problem):
            best = listed(problem, self.left(0.5))
            if best.verdict is Verdict.SOLVED:
                return merged([best], "gap")
            if best.verdict is Verdict.INFEASIBLE:
                return infeasible(problem, self.rng, self.left(0.9), best.tried)

        def ask(part: Problem, share: float = 0.3) -> Solution:
            return _Portfolio(self.solvers, part, self.rng, self.left(share)).solve()

        pairs = LinkPairs.of(problem)
        inner = ask(sealed(problem, pairs.sets), 0.5)
        bounds = LinkBounds(problem, pairs, ask, self.left(0.4).deadline())
        ceiling = bounds.bound(inner)
        if ceiling.verdict is Verdict.INFEASIBLE:
            return ceiling
        found = [free, ceiling]
        if inner.verdict is Verdict.SOLVED:
            found.append(answer(problem, inner.plan, tried=inner.tried))
        if bounds.best is not None:
            rest = replace(self.left(0.5), work=few(self.limits.work))
            found += [bounds.best, improved(problem, bounds.best.plan, self.rng, rest)]
        for _ in range(_AGAIN if self.limits.seconds != float("inf") else 1):
            found += self._starts(problem, self.left(0.9))
            if self.over():
                break
        return merged(found, self.why() if self.over() else "gap")
