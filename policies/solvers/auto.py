"""AUTO: a table of solving steps, and the search that works through it.

A row has a name, a phase, a condition on
:class:`policies.solvers.features.Features`, and a solver. The phases:

1. ``first``: cheap steps, in order, until one gives a final answer. ``greedy``: GREEDYL
   and GREEDY. They run even when time is up, and where they are quick the clock cuts
   only their repairs, so at any limit the answer is at least as good as theirs. Where
   GREEDY takes most of the time, or GREEDYL failed, it comes last.
2. ``alone``: a step that answers the whole problem, often by dividing it and searching
   the parts. Rows of phases 1 and 2 run in the table's order.
3. ``exact`` and ``search``, in parallel. An exact engine starts from the best plan so
   far and has all the time that is left; beside it one search improves that plan, after
   the rows of phase ``bound``. When an exact row ends without a proof, the next one
   starts. Where no engine is expected to prove optimality soon, the search runs first
   and the engine starts from its result. Where an engine gives up early, as it could not
   begin in time, the search goes on.

All steps share one deadline. What cannot be interrupted (loading kernels, HiGHS before
its first relaxation) is only begun where it is expected to fit. If there is no plan, a smallest core is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from threading import Event
from typing import Final

import numpy as np

from policies.judging.certificates import certify
from policies.judging.chances import derandomized_plan
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.sets import Ints
from policies.solvers.adversary_reduction import among, among_all, needed
from policies.solvers.bounds.certificates import Prover
from policies.solvers.bounds.lagrangian import bounded
from policies.solvers.bounds.level_relaxation import Ladder
from policies.solvers.bounds.link_bounds import LinkBounds, with_pairs_apart
from policies.solvers.bounds.link_pairs import LinkPairs
from policies.solvers.coloring import small_sets
from policies.solvers.components import joined, lifted, split
from policies.solvers.diminishing import diminishing
from policies.solvers.exact.conflict_graph import covered, searched, small
from policies.solvers.exact.cpsat import exactly
from policies.solvers.exact.cpsat import search_plan as first_plan
from policies.solvers.exact.enumeration import enumerate_plans
from policies.solvers.exact.epsilon_constraint import leakless
from policies.solvers.exact.highs import solve
from policies.solvers.exact.hitting_set import HittingSet
from policies.solvers.explain.cores import counted, infeasible
from policies.solvers.features import PICKED, Features, free_plan
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Solver,
    Verdict,
    answer,
    best_of,
    free_bound,
    never,
    timeless,
)
from policies.solvers.kernels.compiling import LOADING, is_loaded, kernels
from policies.solvers.load_tables import load_tables
from policies.solvers.parallel_portfolio import Task, few, late, merged, race, sure
from policies.solvers.planned import planned
from policies.solvers.rounding.continuous_greedy import ContinuousGreedy
from policies.solvers.rounding.rand_plus import RandPlus
from policies.solvers.rounding.socp_rounding import SocpRounding
from policies.solvers.scaling import near_one, reached, restored
from policies.solvers.search.annealing import (
    AnnealingSolver,
    anneal_across_limits,
    anneal_smoothly,
)
from policies.solvers.search.exchange import Exchange
from policies.solvers.search.greedy import Grasp, Graspl, Greedy
from policies.solvers.search.local_search import improved
from policies.solvers.search.neighbourhood import improve
from policies.solvers.search.submodular import Submodular

Applies = Callable[[Features], bool]
Step = Callable[["Search", Limits, Callable[[], bool]], "Solution | None"]
"""Solve the search's problem within the limits, or until the callable returns True."""

# Tradeoffs of 6 to 9 entries, as many sets and 2 or 3 adversaries: 320,000 numbers take .02 s
# of CPU, and without the row .01 to .04 once engines are loaded; 1,300,000 .08, and .01 to .03.
_LISTED: Final = 400_000  # numbers to enumerate for all plans
# How the shares below were measured: 1.5 s of CPU, one core, half or less and twice or more
# of each. Quadratic worst 60, 12, 2, 2 (seed 0) ends in .493047 of .501972 with all of them.
# - linear worst 500, 50, 3, 2 is .4964 and .4962 (two runs), .4958 to .4964 with others, and
#   .4970 with a _PRICED of .8; bounds are the same;
# - sparse 200, 500, 3, 2 is .6426 and .6509; _BESIDE of .12 and .5 .6396 and .6416, _HEAD of
#   .05 and .3 .6353 and .6279, _PROVEN of .1 and 1 .6514 and .6455. Runs differ as much: with
#   others of _BEFORE, which is not used there, it is .6377 and .6224;
# - cosine, 100 users, is .93727 with an _AGAIN of 1, 5 and 10.
# - with a _SPARE of 0 a call takes 1.50 s, with .03 1.46, with .1 1.37, for the same plans.
# - with half of _SPARED a call of 8 s takes 7.93 s, as it is 7.85, with twice 7.76 (linear worst
#   500, 50, 3, 2: .4981, .4966, .4977).
# - _TINY: linear worst 20, 6, 3, 2 (60 pairs) is proven in .18 s, with half in .30; 40, 8, 2, 2
#   (80 pairs) in .13 s, with twice in .10.
# - _COMPILED, 1 s in a new process: linear worst 200, 30, 3, 2 (5,454) is .4692, with half .4683;
#   500, 50, 3, 2 (22,656) .4971 and .4945 (two runs), with four times .4948 and .4930.
# - _PAIRWISE: sparse 1000, 2500, 15, 2 with half and 2000, 5000, 15, 2 with twice (1.5, 2, 6 s)
#   end in the same plans.
# - _CHEAP: linear worst 500, 50, 3, 2 is .4963, with half .4964, with twice .4964; cosine, 100
#   users, 1 s, is .93727 with each.
# - _SEALED: step tradeoffs 100 and 200, 50, 2, 2 and sparse 100, 260, 2, 1 as a tradeoff are proven
#   in .1 to .3 s with each; sparse 200, 500, 3, 2 as one is 1.638, with half 1.578, with .9 1.638.
# - _RELAXATIONS: half and twice end in the same plans and bounds in 2 s: quadratic worst 60, 12,
#   2, 2 and quadworst_D200_P10_k3_t2_gap.
# - _PICKING, cold processes: linear worst 500, 10, 3, 2 in 1 s .5227, with half .5227, with twice
#   .5216, in 2 s .52275, half .52272; 500, 50, 3, 2 in 1 s .4947, .4958, .4987, in 2 s .4965, .4954,
#   .4958; linear mean 500, 10, 5, 2 in 1 s .64852, .64857, .64846; quadratic worst 500, 20, 5, 2 .8561,
#   .8551, .8557.
# - _IDLE: sparse 1000, 2500, 15, 2 (4 and 6 s), 2000, 5000, 15, 2 (12 s) and linear worst 500, 10, 3
#   and 5, 2 (1 and 2 s) end within .003 % with half and twice: engines give up at once or not at all.
# Loading kernels takes .6 s of CPU: half of _PAYS, a seventh of _PAYS_LARGE.
_TINY: Final = 64  # pairs up to which exact solvers come before heuristics
_PAIRWISE: Final = 20_000  # pairs up to which GRASP is repeated for links
_COMPILED: Final = 10_000  # members x observers from which kernels pay at any limit
_PAYS: Final = 1.2  # limit in seconds from which loading kernels pays too
_PAYS_LARGE: Final = 4.0  # the same where HiGHS needs all of a short limit
_BESIDE: Final = 0.25  # share of time (or work) of a search that shares one thread
_BEFORE: Final = 0.4  # share of the time of a search that runs before an engine
_HEAD: Final = 0.1  # share of the time for the engine before that search begins
_PROVEN: Final = 0.5  # at least so many seconds, or a quarter of a short limit
_IDLE: Final = 0.05  # share of the time that is left from which the search goes on
_LOOK: Final = 0.01  # seconds between two checks whether the search may begin
_PRICED: Final = 0.4  # share of a search's time for the Lagrangian bound
_LEAST: Final = 0.02  # seconds that every step gets
_SPARE: Final = 0.03  # share of the time reserved for building the answer,
_SPARED: Final = 0.15  # and no more seconds than these
_CHEAP: Final = 0.4  # largest share of the time for a greedy plan that is cut
_PICKING: Final = 0.6  # largest share of the time for GREEDY before all else
_FAR: Final = Fraction(
    1, 50
)  # gap, relative to the bound, from which GREEDY may be late
# A repair of GREEDYL in vain takes .1 s of CPU. With all three, CP-SAT no longer proves
# sparse 200-400-2-1 (seed 1) in 1 s; of 14 problems without a plan they solved one more.
_REPAIRED: Final = 0.25  # share of the time for repairs of a quick greedy plan
_SEALED: Final = 0.5  # share of the time for tradeoff plans that complete no set
_RELAXATIONS: Final = 40  # levels of f to relax, at most
_AGAIN: Final = 5  # restarts of heuristics over links, while there is time


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    name : str
        Unique; rows are switched off by name.
    phase : str
        ``alone``, ``first``, ``greedy``, ``exact``, ``bound`` or ``search``.
    applies : callable
        Whether the row is used for problems with these features.
    solver : callable
    final : bool
        Whether no other row runs after the row's answer.
    """

    name: str
    phase: str
    applies: Applies
    solver: Step
    final: bool = False


@dataclass(frozen=True)
class Auto:
    """The default solver.

    Attributes
    ----------
    off : frozenset of str
        Names of the rows to leave out (ablation).
    """

    off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = self.off - {row.name for row in TABLE}
        if unknown:
            raise ValueError(f"off has {sorted(unknown)}, expected names of rows")

    def supports(self, problem: Problem) -> bool:
        """All problems."""
        del problem
        return True

    def rows(self, problem: Problem, limits: Limits) -> tuple[str, ...]:
        """Return the names of the rows that apply to a problem, in order."""
        features = Features(problem, limits)
        chosen = (r for r in TABLE if r.name not in self.off and r.applies(features))
        return tuple(row.name for row in chosen)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve by the table."""
        limits = replace(limits, paper=False)  # the table has no form in the paper
        timed = limits.seconds != inf
        if timed:
            spare = min(_SPARED, _SPARE * limits.seconds)
            limits = replace(limits, seconds=limits.seconds - spare)
        found = Search(self.off, problem, rng, limits, Prover(limits)).answer()
        if not timed:  # under a clock the cheap steps did this
            found = settled(problem, found)
        if found.verdict is Verdict.INFEASIBLE:  # report a bound anyway
            found = replace(found, bound=max(found.bound, free_bound(problem)))
        if found.verdict is Verdict.SOLVED or len(found.plan) or len(found.held):
            return found
        return replace(found, held=np.flatnonzero(problem.lo))


@dataclass
class Search:
    """The state of one problem's passage through the table.

    Attributes
    ----------
    off : frozenset of str
    problem : Problem
    rng : numpy.random.Generator
    limits : Limits
    prover : Prover
        Shared by all parts of one problem.
    whole : Search or None
        The search that this is a component of.
    hurried : bool
        Whether the clock cuts greedy plans too: the caller has another plan already.
    found : list of Solution
    """

    off: frozenset[str]
    problem: Problem
    rng: np.random.Generator
    limits: Limits
    prover: Prover
    whole: Search | None = None
    hurried: bool = False
    found: list[Solution] = field(default_factory=list)
    ran: set[str] = field(default_factory=set)
    ending: bool = False
    far: bool = False
    floor: Fraction | float = inf

    def __post_init__(self) -> None:
        self.began = self.limits.clock()
        self.over = self.limits.deadline()
        self.features = Features(self.problem, self.limits)

    @property
    def best(self) -> Solution | None:
        """The solution with the best plan so far."""
        return best_of(self.found)

    @property
    def start(self) -> Plan | None:
        """The best plan so far, for an engine to start from."""
        best = self.best
        return None if best is None else best.plan

    def left(self, share: float = 1.0) -> Limits:
        """Return limits with this share of the time that is left."""
        return self.limits.part(share).left(self.began, share, _LEAST)

    def ask(
        self, problem: Problem, limits: Limits, *, hurried: bool = True
    ) -> Solution:
        """Solve another problem within limits."""
        off, rng, prover = self.off, self.rng, self.prover
        return Search(off, problem, rng, limits, prover, hurried=hurried).answer()

    def seed(self) -> int:
        """Draw a seed for an engine."""
        return int(self.rng.integers(2**31 - 1))

    def why(self, found: Sequence[Solution] = ()) -> str:
        """Return why the search stopped early, as a whole or in one of its parts."""
        if self.limits.stopped():
            return "interrupt"
        if late(self.limits, self.began) or any(one.stopped == "time" for one in found):
            return "time"
        return "gap" if self.limits.work == inf else "work"

    def rows(self, *phases: str) -> Iterator[Row]:
        """Yield the rows of these phases that apply, in the table's order."""
        for row in TABLE:
            asked = row.phase in phases and row.name not in self.off
            if asked and row.applies(self.features):
                yield row

    def run(
        self, row: Row, limits: Limits, done: Callable[[], bool]
    ) -> Solution | None:
        """Run one row, and trace it where this is asked for."""
        trace, began = self.limits.trace, limits.clock()
        found = row.solver(self, limits, done)
        if found is not None:
            self.ran.add(row.name)
        if trace is not None:
            trace(row.name, limits.clock() - began, _outcome(row, found))
        return found

    def answer(self) -> Solution:
        """Return the best plan of all rows, which is not below GREEDYL's and GREEDY's.

        Of these, one that was left out runs at the end: where it is quick, where time is
        left, or where nothing was found since, although it is late then.
        """
        found = self._answer()
        final = sure(found) or any(row.final and row.name in self.ran for row in TABLE)
        if final or self.whole is not None or self.hurried:
            return found
        self.ending = True
        self.far = found.verdict is not Verdict.SOLVED or found.value <= self.floor
        rest = [row for row in self.rows("greedy") if row.name not in self.ran]
        simple = [self.run(row, self.left(), never) for row in rest]
        best = best_of([found, *(one for one in simple if one is not None)])
        if best is None or best is found:
            return found
        return replace(merged([found, best], found.stopped), proofs=found.proofs)

    def _answer(self) -> Solution:
        """Run the phases in order until an answer is final."""
        for row in self.rows("first", "greedy", "alone"):
            if row.phase == "first" and self.found and self.over():
                continue
            self.floor = -inf if self.best is None else self.best.value
            one = self.run(row, self.left(), never)
            if one is None:
                continue
            if row.phase == "alone":
                return self._alone(one)
            self.found.append(one)
            if sure(one):
                return self._explained(merged(self.found, one.stopped))
        proof = self.prover(self.problem)
        self._race()
        if not self.found:
            self.found.append(_nothing(self))
        return self.prover.certain(
            self._explained(merged(self.found, self.why())), proof
        )

    def _alone(self, one: Solution) -> Solution:
        """Return an ``alone`` row's answer, or a better plan found before it."""
        best = self.best
        if best is None or one.verdict is Verdict.INFEASIBLE:
            return one
        better = one.verdict is Verdict.SOLVED and one.value >= best.value
        return one if better else merged([best, one], one.stopped)

    def _explained(self, found: Solution) -> Solution:
        """Add a core to an INFEASIBLE answer that has none."""
        if found.verdict is not Verdict.INFEASIBLE or found.stopped == "optimal":
            return found
        return infeasible(self.problem, self.rng, self.left(0.9), found.tried)

    def _race(self) -> None:
        """Run the exact rows and, before, beside or after them, the search."""
        if any(map(sure, self.found)):
            return
        self.floor = -inf if self.best is None else self.best.value
        exact, search = list(self.rows("exact")), list(self.rows("bound", "search"))
        timed = self.limits.seconds != inf
        beside = bool(search) and not (exact and self.features.late)
        if beside and exact and (self.features.large or not timed):
            share = _BEFORE if timed else _BESIDE
            one = _first_of(self, search)(self.left(share), never)
            self.found.append(one)
            beside = False
            if sure(one):
                return
        tasks = [_in_turn(self._copy(), exact)] if exact else []
        if beside:
            alone, threads = not exact, timed and self.limits.threads > 1
            share = 1.0 if alone or threads else _BESIDE
            draws = 2 if alone and threads else 1
            tasks += [_first_of(self._copy(), search, share) for _ in range(draws)]
        ended = race(tasks, self.left()) if tasks else []
        self.found += ended
        rows = [row for row in search if row.phase == "search"]
        if timed and exact and rows and not any(map(sure, self.found)):
            rest, late = self.left(), ended[0].stopped != "gap"
            if late and rest.seconds > _IDLE * self.limits.seconds:
                self.found.append(_first_of(self, rows)(rest, never))

    def _copy(self) -> Search:
        """Return a copy of the search in its present state, for another thread."""
        other = copy(self)
        other.rng, other.found = self.rng.spawn(1)[0], list(self.found)
        return other


def _outcome(row: Row, found: Solution | None) -> str:
    """Return what came of a row, in a word: ``passed`` if it did not take the problem."""
    if found is None:
        return "passed"
    if sure(found):
        return "proof"
    if row.phase == "bound":
        return "bound"
    return "plan" if found.verdict is Verdict.SOLVED else "no plan"


def _first_of(search: Search, rows: Sequence[Row], share: float = 1.0) -> Task:
    """Return a task: bounds, then the first search that accepts the problem."""

    def run(limits: Limits, done: Callable[[], bool]) -> Solution:
        asked, began = limits.stopped, limits.clock()
        if share < 1 and limits.seconds != inf:
            _wait(limits, done)
            if done():
                return _nothing(search)
        rest = limits.part(share).left(began, least=_LEAST)
        seconds = min(rest.seconds, max(limits.seconds * share, _LEAST))
        part = replace(rest, seconds=seconds, stopped=lambda: asked() or done())
        found = list[Solution]()
        for row in rows:
            one = search.run(row, part, done)
            if one is None:
                continue
            found.append(one)
            if row.phase == "search":
                break
        return merged(found, search.why(found)) if found else _nothing(search)

    return run


def _wait(limits: Limits, done: Callable[[], bool]) -> None:
    """Give the exact engine a head start: it often needs no search beside it."""
    quiet, began, seconds = Event(), limits.clock(), limits.seconds
    head = max(_HEAD * seconds, min(_PROVEN, seconds / 4))
    for _ in range(int(head / _LOOK) + 1):  # ends even if the clock stands still
        if done() or limits.stopped() or limits.clock() - began > head:
            return
        quiet.wait(_LOOK)


def _in_turn(search: Search, rows: Sequence[Row]) -> Task:
    """Return a task: exact rows in order, each with all remaining time."""

    def run(limits: Limits, done: Callable[[], bool]) -> Solution:
        began, found = limits.clock(), list[Solution]()
        for row in rows:
            if found and (limits.deadline()() or done() or limits.stopped()):
                break
            rest = limits.left(began, least=_LEAST)
            if found and rest.seconds <= _LEAST:
                break
            one = search.run(row, rest, done)
            if one is None:
                continue
            found.append(one)
            search.found.append(one)
            if sure(one):
                break
        return merged(found, search.why(found)) if found else _nothing(search)

    return run


def _nothing(search: Search) -> Solution:
    """Return the answer when no row accepts the problem."""
    return Solution(
        Verdict.UNKNOWN,
        bound=free_bound(search.problem),
        tried=("no solver takes a problem of this size",),
        stopped="work",
    )


# -- without a search ---------------------------------------------------------------


def best_copies(problem: Problem) -> Solution:
    """Judge the best copies of every entry: often they are optimal.

    Without a tradeoff they are optimal if they keep all limits: no plan has a higher u.
    """
    free = answer(problem, free_plan(problem), tried=("best copies",))
    if free.verdict is not Verdict.SOLVED:
        return free
    limits = problem.goal.objective is Objective.DISC_BUDGET
    if limits and problem.utilities is None:
        return replace(free, bound=free.value, stopped="optimal")
    return replace(free, stopped="optimal") if free.value == free.bound else free


def settled(problem: Problem, found: Solution) -> Solution:
    """Settle an UNKNOWN answer as SOLVED or CERTIFIED, if this needs no search.

    If fewer than one crossing is expected, a plan follows without a search; the local
    lemma proves that a plan exists. UNKNOWN means that this failed too, however early
    the search was stopped.
    """
    if found.verdict is not Verdict.UNKNOWN:
        return found
    tried = (*found.tried, "expected crossings and the local lemma")
    plan = derandomized_plan(problem)
    if plan is not None:
        made = answer(
            problem, plan, bound=found.bound, tried=tried, stopped=found.stopped
        )
        if made.verdict is Verdict.SOLVED:
            return made
    proven = certify(problem) is not None
    verdict = Verdict.CERTIFIED if proven else Verdict.UNKNOWN
    return replace(found, verdict=verdict, tried=tried)


# -- rows that answer alone ----------------------------------------------------------


def _planned(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution:
    del done
    return planned(search.problem, search.rng, limits)


def _fewer(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution | None:
    del done
    chosen = needed(search.problem)
    if chosen is None:
        return None
    part = among(search.problem, chosen)
    found = search.ask(part, limits, hurried=search.hurried)
    return among_all(search.problem, found, chosen)


def _scaled(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    del done
    near, unit = near_one(search.problem)
    if near is search.problem:
        return None
    found = search.ask(near, limits, hurried=search.hurried)
    return restored(search.problem, found, unit)


def _valued(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution:
    del done
    ask = Auto(search.off)
    return diminishing(SUBMODULAR, ask, _led, search.problem, search.rng, limits)


def _led(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Plan a tradeoff of sums with the first heuristic that accepts it."""
    fits = (s for s in (*IMPROVERS, Graspl()) if s.supports(problem))
    solver = next(fits, None)
    if solver is None:
        return Solution(Verdict.UNKNOWN, bound=free_bound(problem))
    return solver(problem, rng, replace(limits, work=few(limits.work)))


def _components(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Solve each component separately, the smallest first."""
    del limits, done
    if search.whole is not None:
        return None
    problem = replace(search.problem, links=None, goal=Goal())
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
        ending = search.over()  # then all remaining components become one
        chosen = np.sort(order[number:]) if ending else np.array([component])
        inside = parts.entries_of(chosen)
        part = problem.select(inside, parts.sets_of(chosen))
        share = 0.0 if ending else max(1.0 / (len(order) - number), 0.3)
        found = _component(search, part, inside, share)
        ready.append((inside, lifted(found, inside, parts.sets_of(chosen))))
        if ending:
            break
    return joined(search.problem, ready, search.why([found for _, found in ready]))


def _component(search: Search, part: Problem, inside: Ints, share: float) -> Solution:
    """Solve a component in a share of the remaining time; report it if none is left."""
    done = searched(part) if share and small(part) else None
    if done is not None and "pair-search" not in search.off:
        return done  # judged together with the others
    free = best_copies(part)
    if sure(free):
        return free
    if share:
        limits = search.left(share)
        inner = Search(search.off, part, search.rng, limits, search.prover, search)
        if search.best is not None:
            plan = search.best.plan
            mine = np.isin(plan.entry, inside)
            entry = np.searchsorted(inside, plan.entry[mine])
            known = answer(part, Plan(entry, plan.adversary[mine]))
            inner.found.append(replace(known, tried=search.best.tried))
        return inner.answer()
    found = Solution(Verdict.UNKNOWN, bound=free_bound(part), stopped=search.why())
    return search.prover.certain(found, search.prover(part))


def _cliques(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Solve pair sets over the cliques of their conflict graph."""
    del done
    if search.whole is None:
        return None
    part = search.problem
    tight, says = covered(part)
    clashes = counted(tight)
    found = None
    if not clashes:
        off = search.off | {"cliques"}
        inner = Search(off, tight, search.rng, limits, search.prover, search.whole)
        inner.found = [one for one in search.found if one.verdict is Verdict.SOLVED]
        found = inner.answer()
        if found.verdict is not Verdict.INFEASIBLE:
            return found
    tried = ("cliques",)
    explained = infeasible(
        part if found else tight, search.rng, search.left(0.6), tried
    )
    if found is not None:
        return explained
    core = explained.cores[0]
    first = core.clashes[0]
    sets = [s for one in first.sets for s in says[one]]
    owners = np.unique(part.sets.owner[np.array(sets, np.int64)])
    clash = replace(first, sets=tuple(sets), properties=tuple(owners.tolist()))
    return replace(explained, cores=(replace(core, clashes=(clash,)),))


def _relations(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution:
    """Solve cosine limits or tradeoffs: without disclosure, or as well as possible.

    GREEDYL's and GREEDY's plans were found before.
    """
    del limits, done
    problem, rng = search.problem, search.rng
    if search.features.listable:
        best = enumerate_plans(problem, search.left(0.5))
        if best.verdict is Verdict.SOLVED:
            return merged([best], "gap")
        if best.verdict is Verdict.INFEASIBLE:
            return infeasible(problem, rng, search.left(0.9), best.tried)

    def ask(part: Problem, share: float = 0.3) -> Solution:
        return search.ask(part, search.left(share))

    pairs = LinkPairs.of(problem)
    inner = ask(with_pairs_apart(problem, pairs.sets), 0.5)
    bounds = LinkBounds(problem, pairs, ask, search.left(0.4).deadline())
    ceiling = bounds.bound(inner)
    if ceiling.verdict is Verdict.INFEASIBLE:
        return ceiling
    found = [best_copies(problem), ceiling]
    if inner.verdict is Verdict.SOLVED:
        found.append(answer(problem, inner.plan, tried=inner.tried))
    if bounds.best is not None:
        rest = replace(search.left(0.5), work=few(search.limits.work))
        found += [bounds.best, improved(problem, bounds.best.plan, rng, rest)]
    found += _drawn(search)
    return merged(found, search.why() if search.over() else "gap")


def _drawn(search: Search) -> Iterator[Solution]:
    """Yield greedy plans from new random numbers while there is time."""
    named: list[Solver] = [Graspl(), RandPlus()]
    if search.features.pairs <= _PAIRWISE:
        named += [Grasp()]  # .5 s of CPU for 100 check-ins; wins .13 % on one of five
    for _ in range(_AGAIN if search.limits.seconds != inf else 1):
        for solver in named:
            if search.over():
                return
            part = replace(search.left(0.9), work=few(search.limits.work))
            yield solver(search.problem, search.rng, part)


# -- cheap rows ----------------------------------------------------------------------


def _counting(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    del done
    if not counted(search.problem):
        return None
    rest = limits.left(limits.clock(), 0.5).part(0.5)
    return infeasible(search.problem, search.rng, rest, ("counting",))


def _best_copies(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution:
    del limits, done
    return best_copies(search.problem)


def _pair_search(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    del limits, done
    return searched(search.problem) if small(search.problem) else None


GREEDYL: Final = Greedy(myopic=True)
GREEDY: Final = Greedy()


def _greedy(solver: Greedy) -> Step:
    """Run GREEDY or GREEDYL on the same random numbers as ``solve --algorithm``.

    Where it is quick, the clock cuts only its second repair and later ones. A component
    that is most of the whole is not tried again. GREEDY is left to the end where it takes
    most of the time, or GREEDYL failed: on 1,700 problems of the baseline it never succeeded
    then.
    """

    def run(
        search: Search, limits: Limits, done: Callable[[], bool]
    ) -> Solution | None:
        del done
        problem, whole, features = search.problem, search.whole, search.features
        if whole is not None and (
            search.best is not None or 2 * problem.n_entries > whole.problem.n_entries
        ):
            return None
        alone = not (search.hurried or whole)
        cost = features.dealing if solver.myopic else features.picking
        quick = features.dealt_at_once if solver.myopic else cost <= PICKED
        if search.ending:
            late = limits.left(limits.clock()).seconds < cost and not search.far
            quick = quick or (cost < search.limits.seconds and not late)
            skipped = not quick
        else:
            failed = search.best is None and "greedyl" not in search.off
            slow = not quick and cost > _PICKING * search.limits.seconds
            skipped = not solver.myopic and (failed or slow)
        if skipped or not solver.supports(problem):
            return None
        in_time = alone and cost < search.limits.seconds
        share = _REPAIRED if quick and alone else 1.0 if in_time else _CHEAP
        part = limits.left(limits.clock(), share, _LEAST)
        part = replace(part, work=few(part.work))
        return replace(solver, whole=quick and alone)(
            problem, deepcopy(search.rng), part
        )

    return run


def _heuristic(solver: Solver) -> Step:
    """Run a registered solver, if it accepts the problem."""

    def run(
        search: Search, limits: Limits, done: Callable[[], bool]
    ) -> Solution | None:
        del done
        if not solver.supports(search.problem):
            return None
        part = replace(limits, work=few(limits.work))
        return solver(search.problem, search.rng, part)

    return run


# -- exact rows ----------------------------------------------------------------------


def _hitting_set(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    del done
    solver = HittingSet()
    if not solver.supports(search.problem) or small_sets(search.problem):
        return None
    part = replace(limits, work=few(limits.work))
    return solver(search.problem, search.rng, part)


def _leakless(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution:
    del done
    rest = limits.left(limits.clock(), _SEALED)  # a plan may pay for a whole set
    return leakless(search.problem, lambda p: search.ask(p, rest.part(_SEALED)))


def _few_plans(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Enumerate all plans without regard to time: it takes so little.

    Infeasibility is left to later rows, which explain it better.
    """
    del done
    found = enumerate_plans(search.problem, replace(limits, clock=timeless))
    return found if found.verdict is Verdict.SOLVED else None


def _cpsat(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution | None:
    eager = search.features.counted  # for means the relaxation tells most
    problem, rng, start = search.problem, search.rng, search.start
    return exactly(problem, rng, limits, start, done, eager=eager)


def _feasible(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Ask CP-SAT for any plan if there is none yet.

    Where each entry has one copy and no heuristic found a plan, plans lie far apart: it
    goes on from the first with the utility, as no search of a plan's neighbourhood does.
    """
    if search.best is not None:
        return None
    problem, rng = search.problem, search.rng
    began = limits.clock()
    found = first_plan(
        problem, rng, limits, utility=False, done=done, sums=True, eager=True
    )
    if found.verdict is not Verdict.SOLVED or problem.hi.max() > 1:
        return found
    return exactly(problem, rng, limits.left(began), found.plan, done, eager=True)


def _highs(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution | None:
    seed = search.seed()
    return solve(search.problem, limits, seed=seed, start=search.start, done=done)


# -- searches ------------------------------------------------------------------------


def _across(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    rest = _loaded(limits)
    if rest is None:
        return None
    return anneal_across_limits(search.problem, search.start, search.rng, rest, done)


def _loaded(limits: Limits) -> Limits | None:
    """Load compiled kernels; return the limits with the time that is left, None if none."""
    if not is_loaded() and limits.seconds < LOADING:
        return None
    began = limits.clock()
    kernels("annealing", quick=True)["anneal"]
    return limits.left(began)


def _loads(search: Search, limits: Limits, done: Callable[[], bool]) -> Solution | None:
    rest = _loaded(limits)
    if rest is None:
        return None
    return _heuristic(AnnealingSolver(search.start))(search, rest, done)


def _annealed(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Anneal for a first plan, where greedy failed."""
    rest = _loaded(limits) if search.best is None else None
    if rest is None:
        return None
    part = rest.part(_BESIDE).left(limits.clock(), _BESIDE)
    return anneal_smoothly(search.problem, search.rng, part, None, done)


def _neighbourhood(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    start = search.start
    rest = _loaded(limits) if start is not None else None
    if start is None or rest is None:
        return None
    return improve(search.problem, start, search.rng, rest, done)


def _prices(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    del done
    found = bounded(search.problem, search.found, limits.left(limits.clock(), _PRICED))
    return found[0] if found else None


def _levels(
    search: Search, limits: Limits, done: Callable[[], bool]
) -> Solution | None:
    """Bound the objective by relaxations at levels of f, upward from the best plan's."""
    del done
    best = search.best
    if best is None or best.judged is None:
        return None
    rest = limits.left(limits.clock(), _PRICED)
    ladder = Ladder(search.problem, load_tables(search.problem))
    most = int(min(_RELAXATIONS, 2 + limits.work * 4))
    value, level = float(best.value), float(best.judged.f)
    ladder.climb(value, level, most, rest.deadline(), rest)
    if not np.isfinite(ladder.bound):
        return None
    bound = max(min(best.bound, Fraction(ladder.bound)), best.value)
    stopped = "optimal" if reached(best.value, bound) else ""
    return replace(best, bound=bound, tried=(*best.tried, "levels"), stopped=stopped)


SUBMODULAR: Final[tuple[Solver, ...]] = (Submodular(), ContinuousGreedy())
IMPROVERS: Final[tuple[Solver, ...]] = (Exchange(), SocpRounding(), AnnealingSolver())


def _warm(f: Features) -> bool:
    """Whether kernels pay off: loading them takes about half a second of CPU."""
    loading = _PAYS_LARGE if f.large else _PAYS
    return f.size >= _COMPILED or f.limits.seconds >= loading


def _near(f: Features) -> bool:
    """Whether to search a plan's neighbourhoods: tiny problems are proven sooner."""
    return f.pairs > _TINY and _warm(f)


def _priceable(f: Features) -> bool:
    """Whether the Lagrangian bound is worth its time."""
    return f.alone and _near(f) and (f.kind != "sealed" or not f.backlog)


def _levelled(f: Features) -> bool:
    """Whether levels of f give a bound that no search gives anyway."""
    return f.loads and _near(f) and not (f.heavy or f.large)


def _mean(f: Features) -> bool:
    """Whether f is a mean, for which there are searches with bounds of their own."""
    return f.kind == "mean" and f.pairs > _TINY


def _always(f: Features) -> bool:
    """All problems."""
    return f.pairs >= 0


def _picked(f: Features) -> bool:
    """Whether GREEDY by itself would have a plan within the limit."""
    return not f.valued and f.picking < max(PICKED, f.limits.seconds)


TABLE: Final[tuple[Row, ...]] = (
    # name, phase, when it applies, solver
    Row(
        "planned",
        "alone",
        lambda f: f.pairs > f.limits.exact_size and f.backlog,
        _planned,
        final=True,  # GREEDY and GREEDYL would plan more than is asked for
    ),
    Row("valued", "alone", lambda f: f.valued, _valued),
    Row("few-plans", "first", lambda f: f.looks <= _LISTED, _few_plans),
    Row("fewer-adversaries", "alone", lambda f: not f.valued, _fewer),
    Row("scaled", "alone", lambda f: not f.valued, _scaled),
    Row("counting", "first", _always, _counting),
    Row("best-copies", "first", _always, _best_copies),
    Row("greedyl", "greedy", lambda f: not f.valued, _greedy(GREEDYL)),
    Row("greedy", "greedy", _picked, _greedy(GREEDY)),
    Row("relations", "alone", lambda f: f.kind == "links" and not f.valued, _relations),
    Row("components", "alone", lambda f: f.separable, _components),
    Row("pair-search", "first", lambda f: f.pairs_only, _pair_search),
    Row("cliques", "alone", lambda f: f.pairs_only, _cliques),
    Row(
        "annealed",
        "first",
        lambda f: f.annealable and not f.tight and _near(f),
        _annealed,
    ),
    Row("hitting-set", "exact", lambda f: f.kind == "sealed", _hitting_set),
    Row("leakless", "exact", lambda f: f.wholes, _leakless),
    Row(
        "cp-sat",
        "exact",
        lambda f: (
            f.summed
            or (f.counted and (f.tight or not (f.large or (f.alone and _near(f)))))
        ),
        _cpsat,
    ),
    Row("cp-sat-feasible", "exact", lambda f: f.counted, _feasible),
    Row("highs", "exact", lambda f: f.highs and not f.heavy, _highs),
    Row(
        "cp-sat-after",
        "exact",
        lambda f: f.cpsat and not (f.counted or f.summed),
        _cpsat,
    ),
    Row("prices", "bound", _priceable, _prices),
    Row("levels", "bound", _levelled, _levels),
    Row("across", "search", lambda f: f.crossed and _near(f), _across),
    Row("exchange", "search", _mean, _heuristic(Exchange())),
    Row(
        "loads",
        "search",
        lambda f: f.kind != "mean" if f.heavy else f.large and _near(f),
        _loads,
    ),
    Row("socp", "search", _mean, _heuristic(SocpRounding())),
    Row("neighbourhood", "search", lambda f: f.modelled and _near(f), _neighbourhood),
)
