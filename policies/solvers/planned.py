"""Plans of large backlogs: count, split, solve each shape once, assign, repair, judge.

1. Counting proofs (:mod:`policies.solvers.bounds.counting`) find what is impossible,
   and the count of :func:`policies.judging.certificates.served` what is possible in any
   case.
2. The problem is split into components (:mod:`policies.solvers.components`).
3. A shape that many components have is solved once and assigned to all of them
   (:mod:`policies.solvers.template_assignment`).
4. Ejection chains plan all other components on one shared table of capacities.
5. CP-SAT searches what greedy leaves short, component by component.
6. The judge checks the whole plan before it counts.

If a part has no plan, the rest is planned all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import Bools, Ints
from policies.solvers.bounds.certificates import (
    Prover,
    gathered,
    in_order,
    numbered,
    orderly,
)
from policies.solvers.bounds.counting import capacity, needs, singles
from policies.solvers.components import Components, renumbered, shapes, split
from policies.solvers.exact.cpsat import CpSat, search_plan
from policies.solvers.exact.epsilon_constraint import sweep_levels
from policies.solvers.explain.cores import feasible, proven_core
from policies.solvers.interfaces import (
    Clash,
    Core,
    Limits,
    Proof,
    Solution,
    Verdict,
)
from policies.solvers.search.ejection_chains import (
    Ranking,
    build_plan,
    improve,
    soft_ceiling,
)
from policies.solvers.search.plan_state import PlanState
from policies.solvers.template_assignment import ShapeTemplate, place, slot_worth

_REPEATED = 2_000  # components of one shape from which it is solved as a template
_EXPLAINED = 12  # shapes of infeasible components that are explained one by one
_CAPACITY = -1  # key instead of a shape: the core that capacities are too small
_NAMED = 100  # entries that such a core names, at most
_EXACT = 200  # components that are searched exactly, at most


def planned(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Plan as much as possible; explain what cannot be planned."""
    if problem.goal.objective is Objective.TRADEOFF:
        return sweep_levels(planned, problem, rng, limits)
    run = _Run(problem, rng, limits)
    run.count()
    run.templates()
    run.direct()
    run.deal()
    found = run.finish()
    return replace(found, proofs=run.proven()) if not found.proofs else found


@dataclass
class _Run:
    """The state of one call."""

    problem: Problem
    rng: np.random.Generator
    limits: Limits
    parts: Components = field(init=False)
    shape: Ints = field(init=False)
    open: Bools = field(init=False)  # components still to be planned
    given: Ints = field(init=False)
    fair: Ints | None = field(init=False)
    short: Clash | None = field(init=False)  # set if all capacities are too small
    pieces: list[tuple[Ints, Ints]] = field(default_factory=list)
    ready: list[ShapeTemplate] = field(default_factory=list)
    cores: dict[int, Core] = field(default_factory=dict)  # by shape
    refuted: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    sure: Bools = field(init=False)  # components that have a plan by themselves
    shared: bool = field(init=False)  # capacities or means: a part proves nothing
    proofs: list[Proof] = field(default_factory=list)  # for undecided components
    tried: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.over = self.limits.deadline()
        self.parts = split(self.problem.sets)
        self.shape = shapes(self.problem, self.parts)
        self.open = np.zeros(self.parts.count, np.bool_)
        self.open[self.parts.label[self.problem.hi > 0]] = True
        self.given = np.zeros(self.problem.n_adversaries, np.int64)
        self.fair = soft_ceiling(self.problem, self.limits.spread)
        self.short = capacity(self.problem)
        self.sure = orderly(replace(self.problem, capacity=None), self.parts)
        self.prover = Prover(self.limits)
        self.shared = bool(self.problem.averages) or self.problem.capacity is not None
        if self.short is not None:
            self.cores[_CAPACITY] = Core(
                entries=tuple(np.flatnonzero(self.problem.lo)[:_NAMED].tolist()),
                clashes=(self.short,),
                needed=None,
                exact=False,
                available=self.problem.n_adversaries,
            )

    def proven(self) -> tuple[Proof, ...]:
        """Return what was certain: without means, and with capacities only as a whole."""
        sure = self.sure & (not self.problem.averages)
        if self.problem.capacity is not None:
            sure = sure & orderly(self.problem, self.parts).all()
        return gathered([*in_order(self.problem, self.parts, sure), *self.proofs])

    def count(self) -> None:
        """Withhold components that counting proves infeasible."""
        label, sets = self.parts.label, self.problem.sets
        over = np.flatnonzero(needs(self.problem) > self.problem.n_adversaries)
        bad = [label[sets.entry[sets.start[over]]]]
        bad.append(
            label[[c.entries[0] for c in singles(self.problem)]].astype(np.int64)
        )
        for component in np.unique(np.concatenate(bad)).tolist():
            self._refute(int(component), proven=True)

    def _alone(self, component: int) -> Problem:
        """Return one component without capacities and means, which all share."""
        chosen = np.array([component])
        part = self.problem.select(
            self.parts.entries_of(chosen), self.parts.sets_of(chosen)
        )
        return replace(part, capacity=None, averages=())

    def _refute(self, component: int, *, proven: bool) -> None:
        """Withhold the component; explain its shape once."""
        self.open[component] = False
        self.refuted.append(component)
        shape = int(self.shape[component])
        if shape in self.cores or len(self.cores) > _EXPLAINED:
            return
        alone = self._alone(component)
        core = proven_core(alone, self.rng, self.limits.part(0.2), proven=proven)
        if core is not None:
            self.cores[shape] = self._lifted(core, component)

    def _lifted(self, core: Core, component: int) -> Core:
        """Return the core in the numbering of the whole problem."""
        chosen = np.array([component])
        entries = self.parts.entries_of(chosen)
        whole = renumbered(core, entries, self.parts.sets_of(chosen))
        return replace(whole, entries=tuple(entries.tolist()))

    def templates(self) -> None:
        """Solve once each shape that many components have without further differences."""
        problem, parts = self.problem, self.parts
        if problem.averages:
            return
        fits = self.open.copy()
        for pairs in (problem.history, problem.forbidden):
            fits[parts.label[pairs.entry]] = False
        fits[parts.label[problem.hi > problem.lo]] = False
        copies = np.bincount(parts.label, problem.lo, parts.count).astype(np.int64)
        chosen = np.flatnonzero(fits & (copies > 0))
        order = chosen[np.argsort(self.shape[chosen], kind="stable")]
        edge = np.flatnonzero(np.diff(self.shape[order], prepend=-1, append=-1))
        for one, stop in zip(edge[:-1].tolist(), edge[1:].tolist(), strict=True):
            group = order[one:stop]
            if len(group) * int(copies[group[0]]) >= _REPEATED and len(group) > 1:
                self._template(group)

    def _template(self, group: Ints) -> None:
        """Solve one shape; leave it to the direct way if undecided."""
        first = int(group[0])
        alone = replace(self._alone(first), trusted=None)
        slots, verdict = self._slots(alone)
        if slots is not None:
            size = alone.n_entries
            rows = self.parts.entry_start[group][:, None] + np.arange(size)
            self.ready.append(ShapeTemplate(slots, self.parts.entry[rows]))
            self.open[group] = False
        elif verdict is Verdict.INFEASIBLE and self.problem.trusted is None:
            for component in group.tolist():
                self._refute(component, proven=True)

    def _slots(self, alone: Problem) -> tuple[tuple[Ints, ...] | None, Verdict]:
        """Return the entries of each abstract adversary: one copy each if possible."""
        copies = np.repeat(np.arange(alone.n_entries), alone.lo)
        if len(copies) <= alone.n_adversaries:
            return tuple(np.array([d]) for d in copies), Verdict.SOLVED
        answer = feasible(alone, self.rng, self.limits.part(0.2))
        if answer.verdict is not Verdict.SOLVED:
            return None, answer.verdict
        plan = answer.plan
        slots = [plan.entry[plan.adversary == a] for a in range(alone.n_adversaries)]
        return tuple(slot for slot in slots if len(slot)), Verdict.SOLVED

    def direct(self) -> None:
        """Plan the open components by greedy on shared capacities, then exactly."""
        chosen = np.flatnonzero(self.open)
        if not len(chosen):
            return
        entries, part = self._part(chosen)
        part = replace(part, capacity=np.maximum(self.problem.room() - self.given, 0))
        state = PlanState(part)
        rank = Ranking(state, self.rng, self.fair, self.given)
        short = build_plan(
            state, rank, self.rng, self.limits, repair=self.short is None
        )
        stuck = np.unique(self.parts.label[entries[np.array(sorted(short), np.int64)]])
        for number, component in enumerate(stuck.tolist()):
            self._exactly(state, entries, component, number)
        going = self.open[self.parts.label[entries]] & (part.hi > 0)
        if not self.over():
            improve(state, rank, np.flatnonzero(going).tolist(), self.over)
        plan = state.plan()
        self._keep(entries[plan.entry], plan.adversary)
        self.open[chosen] = False

    def _part(self, chosen: Ints) -> tuple[Ints, Problem]:
        """Return open components as one problem, with all sets if means are capped."""
        if not self.problem.averages:
            entries = self.parts.entries_of(chosen)
            return entries, self.problem.select(entries, self.parts.sets_of(chosen))
        going = self.open[self.parts.label]
        lo, hi = (np.where(going, c, 0) for c in (self.problem.lo, self.problem.hi))
        return np.arange(len(going)), replace(self.problem, lo=lo, hi=hi)

    def _exactly(
        self, state: PlanState, entries: Ints, component: int, number: int
    ) -> None:
        """Search exactly one component that greedy left short."""
        local = np.searchsorted(
            entries, self.parts.entries_of(np.array([component]))
        ).tolist()
        for d in local:
            for a in sorted(state.holders[d]):
                state.take(d, a)
        if self.short is not None:
            self._undecided(component, "the capacities are used up")
            return
        alone = self._alone(component)
        if number >= _EXACT or self.over() or not CpSat().supports(alone):
            self._undecided(component, "greedy fell short; too large or too late")
            return
        room = state.room - state.given
        answer = search_plan(
            replace(alone, hi=alone.lo, capacity=np.maximum(room, 0)),
            self.rng,
            self.limits.part(0.2),
            utility=False,
        )
        if answer.verdict is Verdict.SOLVED:
            if not state.give_all(local, answer.plan):
                self._undecided(component, "no plan found within the caps on means")
        elif answer.verdict is Verdict.INFEASIBLE:
            self._why(alone, component)
        else:
            self._undecided(component, "CP-SAT ran out of work")

    def _why(self, alone: Problem, component: int) -> None:
        """Decide whether the component or only its remaining capacities clash."""
        freely = self.sure[component] or (
            feasible(alone, self.rng, self.limits.part(0.2)).verdict
            is not Verdict.INFEASIBLE
        )
        if freely:
            self._undecided(component, "no plan within the capacities that are left")
        else:
            self._refute(component, proven=True)

    def _undecided(self, component: int, why: str) -> None:
        """Withhold the component without a verdict."""
        self.open[component] = False
        self.unknown.append(component)
        if not self.shared and not self.sure[component]:
            proof = self.prover(self._alone(component))
            entries = self.parts.entries_of(np.array([component]))
            self.proofs += numbered([proof] if proof else [], entries)
        if why not in self.tried:
            self.tried.append(why)

    def _keep(self, entry: Ints, adversary: Ints) -> None:
        """Add the pairs to the plan."""
        self.pieces.append((entry, adversary))
        self.given += np.bincount(adversary, minlength=len(self.given))

    def deal(self) -> None:
        """Assign the slots of the templates to concrete adversaries."""
        problem = self.problem
        fair = None if self.fair is None else int(self.fair[0])
        for template in sorted(self.ready, key=lambda t: -len(t.entries)):
            worth = slot_worth(problem, template)
            dealt = place(template, worth, self.given, problem.room(), self.rng, fair)
            if dealt is None:  # capacities too small for whole slots: copy by copy
                self.open[self.parts.label[template.entries[:, 0]]] = True
            else:
                self._keep(*dealt)
        self.direct()

    def finish(self) -> Solution:
        """Judge everything; return the solution."""
        problem = self.problem
        empty = np.empty(0, np.int64)
        entry = np.concatenate([empty, *(e for e, _ in self.pieces)])
        adversary = np.concatenate([empty, *(a for _, a in self.pieces)])
        plan = Plan(entry, adversary)
        held = np.array(sorted(self.refuted + self.unknown), np.int64)
        away = self.parts.entries_of(held)
        away = away[problem.hi[away] > 0]
        coupled = bool(self.unknown) and not (self.cores or self.over())
        if coupled and CpSat().supports(problem):
            answer = search_plan(problem, self.rng, self.limits, hint=plan, sums=True)
            if answer.verdict is Verdict.SOLVED:
                return answer
            if answer.verdict is Verdict.INFEASIBLE:
                return self._coupled(answer, plan, away)
        return self._answer(plan, away)

    def _coupled(self, answer: Solution, plan: Plan, away: Ints) -> Solution:
        """Return INFEASIBLE where capacities do not suffice for all components."""
        core = proven_core(self.problem, self.rng, self.limits.part(0.2))
        solution = self._answer(plan, away)
        cores = answer.cores if core is None else (core,)
        return replace(solution, verdict=Verdict.INFEASIBLE, cores=cores)

    def _answer(self, plan: Plan, away: Ints) -> Solution:
        """Return the judged plan with its verdict."""
        problem = self.problem
        lo = problem.lo.copy()
        lo[away] = 0
        judged = judge(replace(problem, lo=lo), plan)
        verdict = Verdict.SOLVED
        if self.unknown:
            sure = int(self.sure[self.unknown].sum()) + len(self.proofs)
            proven = not self.shared and sure == len(self.unknown)
            verdict = Verdict.CERTIFIED if proven else Verdict.UNKNOWN
        if self.refuted or self.short is not None:
            verdict = Verdict.INFEASIBLE
        tried = tuple(self.tried)
        if not judged.feasible:  # a refused plan is never returned
            refusal = f"the plan was refused: {judged.violations[0]}"
            verdict, plan, tried = Verdict.UNKNOWN, Plan(), (*tried, refusal)
            away = np.flatnonzero(problem.hi)
        count = np.bincount(self.shape[self.refuted], minlength=1)
        return Solution(
            verdict,
            plan,
            held=away,
            reason=self._reasons(away),
            value=judged.objective,
            bound=problem.weights.best(problem.hi) * problem.weights.unit,
            cores=tuple(
                core if shape < 0 else replace(core, repeats=int(count[shape]))
                for shape, core in self.cores.items()
            ),
            tried=tried,
            judged=judged,
        )

    def _reasons(self, away: Ints) -> Ints:
        """Return the index of each held entry's core, or -1."""
        place = {shape: i for i, shape in enumerate(self.cores)}
        refuted = set(self.refuted)
        return np.array(
            [
                place.get(int(self.shape[c]) if c in refuted else _CAPACITY, -1)
                for c in self.parts.label[away].tolist()
            ],
            np.int64,
        )
