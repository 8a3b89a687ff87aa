"""Planning: make a plan of who is shown which of the entries that lack answers.

Reads ``entry``, ``result``, ``task``, ``account`` and the ledger; writes ``plan``,
``assignment`` and ``held_back``. A plan is an intention: it books nothing. It covers
whole units (records, subjects) with their whole history, and adds to what applied plans
still intend to show. There is one applied plan at a time: applying a plan takes over
the remaining pairs of the previous one.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dispatcher import money
from dispatcher.core import meters
from dispatcher.core.errors import Conflict, DispatcherError, NotFound, Usage
from dispatcher.core.log import get_logger
from dispatcher.ledger.active_policy import ActivePolicy, current_policy, no_policy
from dispatcher.model import Budget, Plan
from dispatcher.preflight import Clearance, Preflight
from dispatcher.stages.planning import backlog as backlogs
from dispatcher.stages.planning.liveness import safe_workers
from dispatcher.stages.planning.plan_summary import (
    Summary,
    core_in_words,
    digest,
    lack,
    refusal,
    summary,
)
from dispatcher.stages.planning.revision import Revision, revise
from dispatcher.stages.planning.translation import Translation, translate
from dispatcher.store import Clock, Store, Tx, lease, settings, statistics
from dispatcher.store import money as money_rows
from dispatcher.store import planning as rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.accounts import AccountRow
from dispatcher.store.planning import LeftRow
from dispatcher.strategies import find_solver, solvers_for
from policies.model.objective import Preference
from policies.model.problem import Problem
from policies.planning.frontier import Frontier, frontier
from policies.planning.improving import improve
from policies.planning.preferences import fairest, fewest_workers, with_room
from policies.planning.solving import plan_rest, solve
from policies.solvers import SOLVERS, Limits, Solution, Solver, Verdict
from policies.solvers.template_assignment import evenly

Ids = npt.NDArray[np.int64]

SPREAD: Final = 2.0
"""Most work of one adversary, in fair shares, while others have room."""

REST: Final = 3.0
"""Pause after planning, as a multiple of the time that it took.

Tasks return all the time, and planning a few of them reads the whole backlog: without a
pause a large backlog would be planned endlessly, and the page would starve.
"""

PREFER_SECONDS: Final = 60.0
"""Seconds of search for the fewest workers, or the fairest load."""

SECOND: Final = 1_000_000

WAITING: Final = "their records are begun once all that is new has a plan"
"""Why the daemon holds back fields that have a plan, where others have none."""

Pulse = tuple[tuple[int, ...], tuple[int, int]]
"""What a tick compares: numbers of the work, and of the plan in force."""


@dataclass(frozen=True, eq=False)
class Drafted:
    """A drafted plan.

    Attributes
    ----------
    plan_id : int or None
        None for a dry run, and where there was nothing to plan.
    verdict : str
        SOLVED, or (with ``partial``) INFEASIBLE or UNKNOWN: then some are held back.
    summary : dict
        See :func:`dispatcher.stages.planning.plan_summary.summary`.
    """

    plan_id: int | None
    verdict: str
    summary: Summary


class Planning:
    """The stage; one object lives as long as the daemon, or for one command.

    Parameters
    ----------
    store : Store
    clock : Clock
    rest : float
        See :data:`REST`; 0 lets every tick plan.
    preflight : Preflight, optional
        Finds who can be sent what. None: every account can be sent anything.
    seconds : float
        For how long better plans are searched for, once one was constructed, >= 0.
    partial : bool
        Whether a tick plans the rest where something has no plan; else it begins no
        record then.
    min_gain : float
        By what share a plan must be worth more to replace the one in force, >= 0.
    prefer : Preference
        Which of the plans that place the most entries is wanted.
    choosing : bool
        Whether workers of the task page choose what they are shown.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        rest: float = REST,
        preflight: Preflight | None = None,
        seconds: float = 0.0,
        partial: bool = False,
        min_gain: float = 0.0,
        prefer: Preference = Preference.UTILITY,
        choosing: bool = False,
    ) -> None:
        self._store = store
        self._choosing = choosing
        self._seconds = seconds
        self._partial = partial
        self._min_gain = min_gain
        self._prefer = prefer
        self._preflight = preflight
        self._clock = clock
        self._rest = rest
        self._not_before = 0
        self._pulse: Pulse | None = None
        self._upsets: tuple[int, ...] = ()
        self._staff: tuple[int, ...] = ()
        self._log = get_logger("planning")

    def draft(
        self,
        *,
        partial: bool = False,
        begun: bool = False,
        dry_run: bool = False,
        seed: int | None = None,
        algorithm: str = "auto",
        limits: Limits | None = None,
        epoch: int | None = None,
    ) -> Drafted:
        """Plan the backlog: entries that lack answers, and are not planned or open yet.

        Parameters
        ----------
        partial : bool
            Plan what can be planned and omit the remainder, instead of refusing.
        begun : bool
            The same for records of which something was shown or planned before; where
            not everything has a plan, no other record is begun.
        dry_run : bool
            Write nothing.
        seed : int, optional
            The same seed and backlog give the same plan, unless time ends the search.
            None: by the clock.
        algorithm : str
            A name of ``policies.solvers.SOLVERS``, or of a solver of an installed
            package.
        limits : Limits, optional
            Of the whole search; None: the stage's own.
        epoch : int, optional
            The daemon's fencing token.

        Raises
        ------
        Usage
            The algorithm does not take such a problem; names those that do.
        Conflict
            No policy is in force.
        Infeasible
            No plan meets the policy; says why and how many workers would suffice.
        Unfinished
            The search ended without a verdict.
        """
        began = self._clock()
        seed = self._clock() if seed is None else seed
        with self._store.read() as tx:
            force, clear = self._force(tx), self._look(tx)
            base, joins = _last_applied(tx), rows.joins(tx)
            made = self._problem(tx, force, clear)
        how = _Search(
            solver=_solver_for(algorithm, made.problem),
            seed=seed,
            limits=self.limits() if limits is None else limits,
            began=began / SECOND,
            improving=self._seconds if limits is None else None,
            searching=algorithm == "auto",
        )
        with meters.PLAN_DURATION.labels(algorithm).time():
            whole = how.solve(made)
        part, solution = made, whole
        if whole.verdict is not Verdict.SOLVED and not partial:
            part, solution = _begun_only(made, whole, how, begun=begun)
        solution, preferred = self._improved(part, solution, how)
        waiting = np.empty(0, np.int64)
        if part is not made:
            gone = np.union1d(solution.held, whole.held)
            solution = _none_begun(made, whole, solution)
            waiting = np.setdiff1d(solution.held, gone)
        planned = list(_assignments(made, solution, np.random.default_rng(seed)))
        numbers = summary(made, solution) | {
            "base": base,
            "joins": joins,
            "prefer": preferred,
            "sha256": digest(planned),
        }
        with self._store.read() as tx:
            numbers["costs"] = costs(tx, planned, clear.pays, self._clock())
        if dry_run or not (len(solution.plan) or len(solution.held)):
            return Drafted(None, solution.verdict, numbers)
        plan = Plan(
            id=0,  # until it is written
            policy_version=force.version,
            state="draft",
            verdict=solution.verdict.value,
            algorithm=algorithm,
            seed=seed,
            summary=json.dumps(numbers),
            created_at=self._clock(),
            applied_at=None,
        )
        plan_id = self._write(plan, planned, _held(made, solution, waiting), epoch)
        return Drafted(plan_id, solution.verdict, numbers)

    def _improved(
        self, part: Translation, solution: Solution, how: _Search
    ) -> tuple[Solution, Summary | None]:
        """Plan the rest, within the rooms that are preferred, and search for better."""
        solution = plan_rest(part, solution, how.auto, how.seed, how.limits)
        within, solution, preferred = self._preferred(
            part, solution, how.seed, how.left()
        )
        rest = how.left()
        seconds = rest.seconds if how.improving is None else how.improving
        search = how.searching and seconds > 0
        if search:
            rest = replace(rest, seconds=seconds, work=seconds)
        return improve(within, solution, how.seed, rest, search=search), preferred

    def sweep(self, count: int, *, seed: int, limits: Limits) -> Frontier:
        """Plan the backlog at several limits on f, from none to 0; writes nothing.

        Raises
        ------
        Conflict
            No policy is in force.
        """
        with self._store.read() as tx:
            made = self._problem(tx, self._force(tx), self._look(tx))
        return frontier(made.problem, count, find_solver("auto"), seed, limits)

    @property
    def _by_room(self) -> bool:
        """Whether what is preferred is a matter of rooms, not of worth."""
        return self._prefer in (Preference.FEWEST_WORKERS, Preference.FAIREST_LOAD)

    def _force(self, tx: Tx) -> ActivePolicy:
        force = current_policy(tx)
        if force is None:
            raise no_policy()
        return force

    def problem(self) -> Translation:
        """Read what lacks answers, as if nothing was planned.

        Raises
        ------
        Conflict
            No policy is in force.
        """
        with self._store.read() as tx:
            force, clear = self._force(tx), self._look(tx)
            backlog = backlogs.read(tx, force, clear, planned=False)
            now = self._clock()
            return translate(tx, force, backlog, now, clear, self._prefer)

    def _problem(self, tx: Tx, force: ActivePolicy, clear: Clearance) -> Translation:
        """Read what lacks answers."""
        backlog = backlogs.read(tx, force, clear)
        return translate(tx, force, backlog, self._clock(), clear, self._prefer)

    def _preferred(
        self, made: Translation, found: Solution, seed: int, limits: Limits
    ) -> tuple[Translation, Solution, Summary | None]:
        """Plan within the rooms that are preferred; return what came of that, too."""
        prefer, auto = self._prefer, find_solver("auto")
        if prefer is Preference.UTILITY or not len(found.plan):
            return made, found, None
        numbers: Summary = {"objective": prefer.value, "value": None, "bound": None}
        if prefer is Preference.MOST_AGREEMENT:
            return made, found, numbers
        limits = replace(limits, seconds=min(limits.seconds, PREFER_SECONDS))
        began = limits.clock()

        def ask(room: Ids) -> Solution:
            narrow, part = with_room(made, room), limits.left(began)
            part = replace(part, spread=math.inf)
            return plan_rest(
                narrow, solve(narrow, auto, auto, seed, part), auto, seed, part
            )

        if prefer is Preference.FEWEST_WORKERS:
            exact = made.loose is None
            best = fewest_workers(made.problem, found, ask, seed, limits, exact=exact)
        else:
            best = fairest(made.problem, found, ask, limits, made.workforce.workers)
        numbers |= {"value": best.value, "bound": best.bound}
        return with_room(made, best.room), best.solution, numbers

    def apply(self, plan_id: int, *, epoch: int | None = None) -> int:
        """Apply a draft together with the remaining pairs of the previous plan.

        Parameters
        ----------
        plan_id : int
        epoch : int, optional
            The daemon's fencing token.

        Returns
        -------
        int
            Pairs planned now.

        Raises
        ------
        NotFound
            There is no such plan.
        Conflict
            It is no draft, or the policy or another plan was applied since it was made.
        """
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            version = policy_rows.lock_policy_shared(tx)
            before = rows.lock_applied(tx)
            plan = rows.plan(tx, plan_id)
            if plan is None:
                raise no_plan(tx, plan_id)
            numbers = _checked_draft(plan, version, before, rows.joins(tx))
            merged = _merged(rows.lock_assignments(tx, [*before, plan_id], version))
            numbers["sha256"] = digest(merged)
            rows.replace_assignments(tx, plan_id, before, merged)
            rows.end_plans(tx, before)
            rows.mark_applied(tx, plan_id, json.dumps(numbers), self._clock())
            rows.drop_drafts(tx, plan_id)
        pairs = sum(len(packed) // 8 for *_, packed in merged)
        self._log.info("plan-applied", plan=plan_id, pairs=pairs)
        return pairs

    def tick(self, epoch: int) -> int:
        """Plan and apply new work; hold back entries without a plan.

        Where :meth:`draft` refuses, no new record is begun, unless ``partial`` is on.

        Once workers came or went, what is still planned moves to others if that is worth
        it. It waits in between, but not where the plan in force no longer holds: after a
        merge, another policy, or when somebody was blocked or left.

        Returns
        -------
        int
            Pairs planned.
        """
        began = self._clock()
        with self._store.read() as tx:
            upsets = rows.upsets(tx)
            if began < self._not_before and upsets == self._upsets:
                return 0
            pulse = self._beat(tx)
            if pulse == self._pulse or current_policy(tx) is None:
                return 0
            staff = rows.staff(tx)
        self._upsets = upsets
        self._note(epoch, began)
        try:
            planned = self._plan_all(pulse, epoch)
            if staff != self._staff:
                planned += self.revise(epoch=epoch)
                self._staff = staff
            self.count_safe_workers(epoch=epoch)
        finally:
            with suppress(DispatcherError):  # the store is away: a later turn notes it
                self._note(epoch, None)
        ended = self._clock()
        self._not_before = ended + round(self._rest * (ended - began))
        return planned

    def revise(self, *, epoch: int | None = None) -> int:
        """Move planned showings to others, if the plan gets worth enough more by it.

        The search starts from the plan in force, for as long as any is searched.
        Nothing moves under a limit on an average, since a part of such a plan has no
        judge, nor where the fewest workers or the fairest load is preferred to utility.

        Parameters
        ----------
        epoch : int, optional
            The daemon's fencing token.

        Returns
        -------
        int
            Showings that moved.
        """
        with self._store.read() as tx:
            force, clear = self._force(tx), self._look(tx)
            base, joins = _last_applied(tx), rows.joins(tx)
            left = backlogs.unserved(tx, rows.left_of_plans(tx, force.version))
            if not left or not self._seconds or force.averages or self._by_room:
                return 0
            backlog = backlogs.read(tx, force, clear, planned=False)
            made = translate(tx, force, backlog, self._clock(), clear, self._prefer)
        seed, seconds = self._clock(), self._seconds
        limits = replace(self.limits(seconds), work=seconds)
        found = revise(made, left, seed, limits)
        if found is None or found.gain < self._min_gain:
            return 0
        moves = len(found.added)
        numbers = summary(found.made, found.solution) | {
            "base": base,
            "joins": joins,
            "moves": moves,
            "gain": round(found.gain, 6),
        }
        plan = Plan(
            id=0,  # until it is written
            policy_version=force.version,
            state="draft",
            verdict=found.solution.verdict.value,
            algorithm="auto",
            seed=seed,
            summary=json.dumps(numbers),
            created_at=self._clock(),
            applied_at=None,
        )
        if not self._replace(plan, found, clear, epoch):
            return 0
        self._log.info("plan-revised", plan=plan.id, moves=moves, gain=found.gain)
        return moves

    def _replace(
        self, plan: Plan, found: Revision, clear: Clearance, epoch: int | None
    ) -> bool:
        """Put a revision into force; False if what it moves was shown meanwhile."""
        rng = np.random.default_rng(plan.seed)
        added = replace(found.solution, plan=found.added)
        new = list(_assignments(found.made, added, rng))
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            version = policy_rows.lock_policy_shared(tx)
            before = rows.lock_applied(tx)
            try:
                numbers = _checked_draft(plan, version, before, rows.joins(tx))
            except Conflict:
                return False
            left = rows.lock_assignments(tx, before, version)
            kept = _without(backlogs.unserved(tx, left), found.removed)
            if kept is None:
                return False
            merged = _merged([*kept, *(LeftRow(0, *row) for row in new)])
            numbers["sha256"] = digest(merged)
            numbers["costs"] = costs(tx, merged, clear.pays, self._clock())
            plan.id = tx.reserve("plan")
            rows.add_plan(tx, plan, [])
            rows.replace_assignments(tx, plan.id, before, merged)
            rows.end_plans(tx, before)
            rows.mark_applied(tx, plan.id, json.dumps(numbers), self._clock())
            rows.drop_drafts(tx, plan.id)
        return True

    def count_safe_workers(self, *, epoch: int | None = None) -> None:
        """Count how many workers must stay active, and keep it for who asks.

        Parameters
        ----------
        epoch : int, optional
            The daemon's fencing token.
        """
        with self._store.read() as tx:
            now, before = self._clock(), settings.safe_workers(tx)
            found = safe_workers(tx, self._force(tx), self._look(tx), now)
            found = replace(found, choosing=self._choosing)
            held = statistics.held_back(tx)
        if found == before:
            return
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            settings.note_safe_workers(tx, found)
        # what the plan places is safe without them, where it says who is shown what
        if found.short and (held or found.choosing):
            self._log.warning(
                "too-few-active-workers", needed=found.needed, present=found.present
            )

    def _plan_all(self, pulse: Pulse, epoch: int) -> int:
        """Plan what can be planned and apply it; begin no record unless all have a plan.

        What changes meanwhile differs from the pulse, and is for the next tick.
        """
        work, in_force = pulse
        drafted = self.draft(partial=self._partial, begun=True, epoch=epoch)
        planned = int(drafted.summary["pairs"])
        if drafted.plan_id is not None and planned:
            self.apply(drafted.plan_id, epoch=epoch)
            in_force = (drafted.plan_id, 0)
        if drafted.summary["held"]:
            self._log.warning(
                "fields-held-back",
                fields=drafted.summary["held"],
                verdict=drafted.verdict,
                partial=self._partial,
                why="dispatcher plan --dry-run",
            )
        self._pulse = work, in_force
        return planned

    def _note(self, epoch: int, since: int | None) -> None:
        """Let ``status`` know that a plan is being made."""
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            settings.note_planning(tx, epoch, since)

    def _look(self, tx: Tx) -> Clearance:
        return Clearance() if self._preflight is None else self._preflight.look(tx)

    def _beat(self, tx: Tx) -> Pulse:
        """Numbers that change when there may be something new to plan."""
        work = *rows.pulse(tx), *sorted(self._look(tx).barred)
        return work, rows.in_force(tx)

    def limits(self, seconds: float = math.inf) -> Limits:
        """Return the stage's own search limits, with at most so many seconds."""
        return Limits(
            seconds=seconds,
            clock=lambda: self._clock() / SECOND,
            spread=SPREAD,
            exact_size=1,
        )

    def _write(
        self,
        plan: Plan,
        planned: Sequence[tuple[int, int, bytes]],
        held: Iterable[tuple[int, str]],
        epoch: int | None,
    ) -> int:
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            plan.id = tx.reserve("plan")
            rows.add_plan(tx, plan, planned)
            rows.hold_back(tx, held)
        return plan.id


@dataclass(frozen=True)
class _Search:
    """How a plan is searched for.

    Attributes
    ----------
    began : float
        Second by the clock of ``limits``.
    searching : bool
        Whether better plans are searched for once one was constructed.
    improving : float or None
        For how many seconds at most; None: for all that are left.
    """

    solver: Solver
    seed: int
    limits: Limits
    began: float
    searching: bool
    improving: float | None

    @property
    def auto(self) -> Solver:
        """Solves what the chosen solver leaves over."""
        return find_solver("auto")

    def solve(self, part: Translation) -> Solution:
        return solve(part, self.solver, self.auto, self.seed, self.limits)

    def left(self) -> Limits:
        """Limits for the time that is left."""
        return self.limits.left(self.began)


def _begun_only(
    made: Translation, whole: Solution, how: _Search, *, begun: bool
) -> tuple[Translation, Solution]:
    """Plan the records that were begun alone, where not everything has a plan.

    Raises
    ------
    Infeasible, Unfinished
        Without ``begun``; by ``whole``, the solution of everything.
    """
    if not begun:
        raise refusal(made, whole, np.random.default_rng(how.seed), how.limits)
    part = made.only(made.backlog.begun)
    return part, how.solve(part)


def _solver_for(algorithm: str, problem: Problem) -> Solver:
    """Find a solver; refuse a built-in one that does not take problems like this one."""
    solver = SOLVERS.get(algorithm)
    if solver is None or solver.supports(problem):
        return find_solver(algorithm)
    fit = f"leave --algorithm out, or take one of: {', '.join(solvers_for(problem))}"
    raise Usage(
        f"{algorithm} cannot plan this backlog",
        why="it does not take problems with these rules, limits or objectives",
        fix=fit,
    )


def _last_applied(tx: Tx) -> int:
    return max((p.id for p in rows.plans(tx) if p.state == "applied"), default=0)


def no_plan(tx: Tx, number: int) -> NotFound:
    """Return the error for an unknown plan."""
    numbers = [plan.id for plan in rows.plans(tx)]
    return NotFound(
        f"there is no plan {number}",
        why=f"the latest is plan {max(numbers)}" if numbers else "none was made yet",
        fix="dispatcher plan list",
        name=str(number),
        known=map(str, numbers),
    )


def _checked_draft(plan: Plan, version: int, before: list[int], joins: int) -> Summary:
    """Return the numbers of a plan; raise unless it may be applied now."""
    if plan.state != "draft":
        raise Conflict(
            f"plan {plan.id} is {plan.state}",
            why="Only a draft can be applied; another plan was applied since.",
            fix="Make a new one with: dispatcher plan",
        )
    numbers: Summary = json.loads(plan.summary)
    made = plan.policy_version, numbers["base"], numbers.get("joins")
    if made != (version, max(before, default=0), joins):
        raise Conflict(
            f"plan {plan.id} is out of date",
            why="A policy or another plan was applied after it was made, or accounts "
            "were merged.",
            fix="Make a new one with: dispatcher plan",
        )
    return numbers


def _merged(left: Iterable[LeftRow]) -> list[tuple[int, int, bytes]]:
    """Rows of several plans as one: (account, adversary, packed entries)."""
    entries: dict[tuple[int, int], list[Ids]] = defaultdict(list)
    for row in left:
        key = (row.account_id, row.adversary_id)
        entries[key].append(np.frombuffer(row.entries, "<i8"))
    return [
        (*key, np.unique(np.concatenate(parts)).astype("<i8").tobytes())
        for key, parts in sorted(entries.items())
    ]


def _without(
    left: Iterable[LeftRow], removed: Mapping[int, Ids]
) -> list[LeftRow] | None:
    """Return the rows without what accounts lose; None if they lack some of it."""
    kept, found = [], 0
    for row in left:
        entries = np.frombuffer(row.entries, "<i8")
        gone = np.isin(entries, removed.get(row.account_id, []))
        found += int(gone.sum())
        kept.append(row._replace(entries=entries[~gone].tobytes()))
    return kept if found == sum(map(len, removed.values())) else None


def _assignments(
    made: Translation, solution: Solution, rng: np.random.Generator
) -> Iterator[tuple[int, int, bytes]]:
    """Split each adversary's entries over its accounts, by the room that they have."""
    plan, people = solution.plan, made.workforce
    kinds, kind = np.unique(people.routes(len(made.backlog)), return_inverse=True)
    order = np.lexsort((kind[plan.entry], plan.adversary))
    place, holder = plan.entry[order], plan.adversary[order]
    key = len(kinds) * holder + kind[place]
    edges = np.searchsorted(key, np.arange(len(kinds) * len(people) + 1))
    for a, adversary in enumerate(people.ids):
        rooms = dict(zip(people.accounts[a], people.rooms[a], strict=True))
        ways = [
            (i, [one for one in rooms if people.goes_by(one.connector, int(route))])
            for i, route in enumerate(kinds)
        ]
        parts: dict[int, list[Ids]] = defaultdict(list)
        for i, accounts in sorted(ways, key=lambda way: len(way[1])):  # narrowest first
            first, last = edges[len(kinds) * a + i : len(kinds) * a + i + 2]
            mine = rng.permutation(made.backlog.entry[place[first:last]])
            taking = [
                (one, len(mine) if room is None else room)
                for one in accounts
                for room in [rooms[one]]
            ]
            for account, part in _split(mine, taking):
                parts[account.id].append(part)
                left = rooms[account]
                rooms[account] = left and left - len(part)
        for account_id, mine_ in parts.items():
            packed = np.sort(np.concatenate(mine_)).astype("<i8").tobytes()
            yield account_id, adversary, packed


def _split(
    mine: Ids, taking: Sequence[tuple[AccountRow, int]]
) -> Iterator[tuple[AccountRow, Ids]]:
    """Split entries evenly over accounts, by the room that they have."""
    if not len(mine):
        return
    rooms = np.array([room for _, room in taking], np.int64)
    share = evenly(np.zeros(len(rooms), np.int64), rooms, len(mine))
    parts = np.split(mine, np.cumsum(share)[:-1])
    for (account, _), part in zip(taking, parts, strict=True):
        if len(part):
            yield account, part


def _none_begun(made: Translation, whole: Solution, part: Solution) -> Solution:
    """Hold back all records that were not begun, beside what ``part`` holds back.

    The reasons are those why ``whole``, the solution of everything, is none.
    """
    new = np.flatnonzero(~made.backlog.begun & (made.problem.lo > 0))
    held = np.union1d(part.held, new)
    known = dict(zip(whole.held.tolist(), whole.reason.tolist(), strict=True))
    reason = np.array([known.get(d, -1) for d in held.tolist()], np.int64)
    return replace(
        part,
        verdict=whole.verdict,
        held=held,
        reason=reason,
        cores=whole.cores,
        tried=whole.tried,
    )


def _held(
    made: Translation, solution: Solution, waiting: Ids
) -> Iterator[tuple[int, str]]:
    """Yield the omitted entries, each with its reason; ``waiting`` have a plan."""
    reasons = [_one_line(core_in_words(made, core)) for core in solution.cores]
    otherwise = "; ".join(solution.tried) or "its unit has no plan"
    waits = np.isin(solution.held, waiting).tolist()
    found = zip(solution.held.tolist(), solution.reason.tolist(), waits, strict=True)
    for d, why, for_others in found:
        text = WAITING if for_others else reasons[why] if why >= 0 else otherwise
        yield int(made.backlog.entry[d]), text


def _one_line(core: Summary) -> str:
    lead = lack(core)
    return f"{lead}: {core['why'][0]}" if core["why"] else lead


__all__ = ["Drafted", "Planning"]


# -- costs of a plan: its showings, and its pieces of work at markets that pay ---------

CHUNK: Final = 10_000
"""Entries whose runs are looked up at once."""


def costs(
    tx: Tx, planned: Iterable[tuple[int, int, bytes]], pays: frozenset[str], now: int
) -> list[dict[str, Any]]:
    """Compute what planned work costs the runs that have a budget.

    Parameters
    ----------
    tx : Tx
    planned : iterable of (account, adversary, packed entries)
        As a plan assigns them.
    pays : frozenset of str
        Connectors that pay their workers themselves.
    now : int
        Microseconds UTC.

    Returns
    -------
    list of dict
        For each run with a budget and planned work: ``fields`` planned; ``pieces`` of
        work, one for each account at a market that pays, paid by the run that most of
        its fields are of; ``total`` with fees; ``room`` of the budget, for ever; and
        whether it is ``enough``. Amounts are exact text. It is what the plan costs if
        every field is answered: more pieces of work, or returned ones, change it.
    """
    budgets = {row.run_id: row for row in money_rows.budgets(tx)}
    if not budgets:
        return []
    names = money_rows.run_names(tx)
    paying = money_rows.accounts_of(tx, sorted(pays))
    fields: Counter[tuple[int, bool]] = Counter()
    pieces: Counter[int] = Counter()
    for account_id, _, packed in planned:
        at_market = account_id in paying
        by_run = _by_run(tx, packed, names)
        fields.update({(run_id, at_market): n for run_id, n in by_run.items()})
        if at_market and by_run:
            pieces[max(by_run, key=lambda run_id: (by_run[run_id], -run_id))] += 1
    return [
        _told(names[run_id], budget, fields, pieces, now)
        for run_id, budget in budgets.items()
        if pieces[run_id] or fields[run_id, True] or fields[run_id, False]
    ]


def _by_run(tx: Tx, packed: bytes, names: dict[int, str]) -> Counter[int]:
    """Count entries by run; where there is one run only, nothing is looked up."""
    entries = np.frombuffer(packed, "<i8")
    if len(names) == 1:
        return Counter({run_id: len(entries) for run_id in names if len(entries)})
    found: Counter[int] = Counter()
    for first in range(0, len(entries), CHUNK):
        found.update(money_rows.runs_of(tx, entries[first : first + CHUNK].tolist()))
    return found


def _told(
    name: str,
    budget: Budget,
    fields: Counter[tuple[int, bool]],
    pieces: Counter[int],
    now: int,
) -> dict[str, Any]:
    at_home, at_market = (fields[budget.run_id, paid] for paid in (False, True))
    bonuses = at_market * budget.bonus_with_fee(at_market=True)
    rewards = pieces[budget.run_id] * (budget.reward + budget.fee_of(budget.reward))
    total = at_home * budget.bonus + bonuses + rewards
    room = budget.cap - budget.taken
    return {
        "run": name,
        "fields": at_home + at_market,
        "pieces": pieces[budget.run_id],
        "total": str(money.money_of(total, budget.currency)),
        "room": str(money.money_of(max(room, 0), budget.currency)),
        "enough": total <= room,
        "enough_today": total <= budget.room(now),
    }
