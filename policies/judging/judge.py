"""The one judge: utility, disclosure, objective and feasibility, recomputed from scratch.

Computes the disclosure of a plan and the two objectives of the paper (section 3). A
solver may work with marginal gains, but its plan counts only after this judge has
recomputed it. The judge takes nothing from the solver but the plan, and compares only
integers and fractions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.aggregates import Parts
from policies.model.disclosure import Loads, loads, reachable
from policies.model.fraction_sums import FractionSum
from policies.model.links import (
    above_level,
    below_limit,
    link_similarities,
    links_by_set,
)
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Pairs, Problem
from policies.model.sets import Bools, Ints, InvalidProblem, SetSystem

_MOST_SUMS: Final = 2_000_000
"""Numbers in a table of sums by set and observer, at most; bounds memory."""

_LARGEST_SUM: Final = 2**62 - 1
"""Sums above this are kept as Python integers instead of 64 bits."""

SHOWN: Final = 20
"""Number of violations of one kind that are listed one by one."""

_MOST_NAMED = 8  # entries of a set, or members of a group, named one by one
_LARGEST_DENOMINATOR = 10**4  # larger ones are written as decimals


@dataclass(frozen=True)
class Judgement:
    """The value of a plan, and the limits that it breaks.

    Attributes
    ----------
    utility : int
        Sum of w_da in units of the problem's weights.
    u : Fraction
        The same as a number; u of the problem's utility functions where it has any.
    f : Fraction
        Worst f over all judged sets and observers, history included; if the problem
        has links, over these (cosines rounded up to 10^-18).
    where : (int, int) or None
        Set (or link) and observer of the worst f; None if nothing is held.
    by_property : tuple of Fraction
        Worst f of each property.
    f_average : Fraction
        Highest mean of f over all sets (or links), of one observer.
    f_goal : Fraction
        f in the objective: ``f``, ``f_average``, or the problem's aggregate.
    objective : Fraction
        u, or u + lambda * (tau - f).
    complete : int
        Number of judged (set, adversary) with f = 1, history included.
    whole : tuple of int
        Sets of which some judged observer holds every entry (or one of every class),
        ascending.
    past : int
        Number of (set, adversary) that history alone takes past the limit; the plan
        adds nothing to them.
    crossed : tuple of Crossing
        The (set, adversary) that the plan takes past the limit; at most ``SHOWN``.
    violations : tuple of str
        One sentence for each broken limit; empty if the plan is feasible.
    """

    utility: int
    u: Fraction
    f: Fraction
    where: tuple[int, int] | None
    by_property: tuple[Fraction, ...]
    f_average: Fraction
    f_goal: Fraction
    objective: Fraction
    complete: int
    whole: tuple[int, ...]
    past: int
    crossed: tuple[Crossing, ...]
    violations: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether the plan keeps every limit."""
        return not self.violations

    @property
    def disclosed(self) -> int:
        """Number of sets that some observer holds completely."""
        return len(self.whole)


def judge(problem: Problem, plan: Pairs) -> Judgement:
    """Judge a plan against the problem, from scratch.

    Parameters
    ----------
    problem : Problem
    plan : Pairs

    Returns
    -------
    Judgement

    Raises
    ------
    InvalidProblem
        If the plan names an entry or adversary that the problem does not have.
    """
    n, k = problem.n_entries, problem.n_adversaries
    for name, values, limit in (
        ("entry", plan.entry, n),
        ("adversary", plan.adversary, k),
    ):
        if len(values) and int(values.max()) >= limit:
            raise InvalidProblem(
                f"the plan names {name} {int(values.max())}, expected < {limit}"
            )
    tally = Tally(problem)
    held, before = problem.held(plan), problem.held(problem.history)
    for piece in loads(problem.sets, held, before):
        tally.add(piece)
    utility = int(np.sum(problem.weights.of(plan.entry, plan.adversary)))
    u = utility * problem.weights.unit
    if problem.utilities is not None:
        u = problem.utilities.total(_entries_by_adversary(plan, k))
    f, where, f_average = tally.worst, tally.where, _highest_mean(problem, tally)
    broken = list(_violations(problem, plan, tally))
    if problem.links is not None:
        f, where, f_average, past = _judge_links(problem, tally, held.union(before))
        broken += past
    goal = problem.goal
    f_goal = f_average if goal.average else f
    if goal.aggregate is not None and tally.parts is not None:
        f_goal = tally.parts.value
    objective = u
    if goal.objective is Objective.TRADEOFF:
        objective += goal.lambda_ * (goal.tau - f_goal)
    return Judgement(
        utility=utility,
        u=u,
        f=f,
        where=where,
        by_property=tuple(tally.by_property),
        f_average=f_average,
        f_goal=f_goal,
        objective=objective,
        complete=tally.complete,
        whole=tuple(sorted(tally.whole)),
        past=tally.past,
        crossed=tuple(tally.crossed),
        violations=tuple(broken),
    )


def _entries_by_adversary(plan: Pairs, k: int) -> list[frozenset[int]]:
    """Return the entries that the plan gives to each adversary."""
    return [frozenset(plan.entry[plan.adversary == a].tolist()) for a in range(k)]


def _highest_mean(problem: Problem, tally: Tally) -> Fraction:
    """Highest mean over all sets, of one observer."""
    every = tuple(range(len(problem.sets.properties)))
    whole = np.ones(problem.sets.n_sets, np.bool_)
    means = tally.means(every, whole, problem.goal.over)
    return max(means.values(), default=Fraction(0))


def _judge_links(
    problem: Problem, tally: Tally, held: Pairs
) -> tuple[Fraction, tuple[int, int] | None, Fraction, list[str]]:
    """Return the worst f over the links, its place, the highest mean, and violations."""
    links = problem.links
    assert links is not None
    worst, where = Fraction(0), None
    total: dict[int, Fraction] = defaultdict(Fraction)
    crossed = []
    how, limit = problem.aggregate, links.aggregate_tau
    tally.parts = None if how is None else Parts(how)
    for alike in link_similarities(links, held.entry, held.adversary):
        f = alike.share(links.relation)
        total[alike.observer] += f
        if tally.parts is not None:
            above = above_level(alike, links.relation, tally.parts.aggregate.level)
            tally.parts.add(alike.link, alike.link, alike.observer, f, above=above)
        if f > worst:
            worst, where = f, (alike.link, alike.observer)
        tau = links.tau
        if how is not None and how.by_set and limit is not None:
            tau = how.level_of(alike.link, limit)
        if tau is not None and not below_limit(alike, links.relation, tau):
            crossed.append(
                f"property {alike.link}: {_format_number(f)} is disclosed to "
                f"{_describe_observer(problem, alike.observer)}, allowed below {_format_number(tau)}"
            )
    over = problem.goal.over or links.n_links or 1
    mean = max(total.values(), default=Fraction(0)) / over
    broken = list(_with_remainder(crossed[:SHOWN], len(crossed), "limits crossed"))
    if (cap := links.mean_tau) is not None and mean >= cap:
        means = {observer: whole / over for observer, whole in sorted(total.items())}
        past = {observer: share for observer, share in means.items() if share >= cap}
        broken += _mean_violations(problem, past, f"below {_format_number(cap)}")
    if any(not cap.kept(Fraction(0)) for cap in problem.averages):
        broken = []  # reported above: no value is below such a limit
    elif tally.parts is not None and limit is not None and how and not how.by_set:
        broken += _aggregate_violations(problem, tally.parts, limit, strict=True)
    return worst, where, mean, broken


def _aggregate_violations(
    problem: Problem, parts: Parts, limit: Fraction, *, strict: bool
) -> Iterator[str]:
    """Yield violations of an aggregate's cap, one an observer unless they are summed."""
    how, allowed = (
        parts.aggregate,
        f"{'below ' if strict else ''}{_format_number(limit)}",
    )
    if not (how.summed or how.shared):
        observers = parts.past(limit, strict=strict)
        seen = {observer: parts.seen(observer) for observer in observers[:SHOWN]}
        yield from _mean_violations(
            problem, seen, allowed, str(how.shape), len(observers)
        )
    elif not parts.kept(limit, strict=strict):
        yield (
            f"the {how.shape} disclosure in all is {_format_number(parts.value)}, "
            f"allowed {allowed}"
        )


def _with_remainder(lines: list[str], total: int, what: str) -> Iterator[str]:
    """Yield the lines, then the number of those left out."""
    yield from lines
    if total > len(lines):
        yield f"and {total - len(lines)} more {what}"


def _violations(problem: Problem, plan: Pairs, tally: Tally) -> Iterator[str]:
    """Yield one sentence for each limit that the plan breaks."""
    yield from _copy_violations(problem, plan)
    load = np.bincount(plan.adversary, minlength=problem.n_adversaries)
    if problem.capacity is not None:
        over = np.flatnonzero(load > problem.capacity)
        lines = [
            f"adversary {a} gets {int(load[a])} new exposures, "
            f"capacity {int(problem.capacity[a])}"
            for a in over[:SHOWN].tolist()
        ]
        yield from _with_remainder(lines, len(over), "adversaries past their capacity")
    barred = plan.within(problem.forbidden)
    rows = np.flatnonzero(barred)
    lines = [
        f"entry {int(plan.entry[r])} may not go to adversary {int(plan.adversary[r])}"
        for r in rows[:SHOWN].tolist()
    ]
    yield from _with_remainder(lines, len(rows), "forbidden pairs")
    names = _set_names(problem, [*tally.crossed, *tally.inherited])
    lines = [_describe_crossing(problem, c, names[c.set]) for c in tally.crossed]
    yield from _with_remainder(lines, tally.n_crossed, "limits crossed")
    if problem.strict_history:
        lines = [
            f"{_describe_crossing(problem, c, names[c.set])}, by history alone"
            for c in tally.inherited
        ]
        yield from _with_remainder(lines, tally.past, "limits crossed by history alone")
    yield from _average_violations(problem, tally)


def _set_names(problem: Problem, crossed: Iterable[Crossing]) -> dict[int, str]:
    """Name the property of each set; a conflicting pair may belong to several links."""
    sets, links = problem.sets, problem.links
    names = {c.set: sets.properties[int(sets.owner[c.set])] for c in crossed}
    if links is None or not names:
        return names
    for one, shared in links_by_set(sets, links, names).items():
        if len(shared) > 1:
            rest = len(shared) - _MOST_NAMED
            more = f" and {rest} more" if rest > 0 else ""
            listed = ", ".join(map(str, shared[:_MOST_NAMED]))
            names[one] = f"properties {listed}{more}"
    return names


def _describe_crossing(problem: Problem, crossing: Crossing, name: str) -> str:
    """Describe a crossed limit: what is disclosed, and to whom."""
    sets, one = problem.sets, crossing.set
    owner, full = int(sets.owner[one]), int(sets.full[one])
    measure, who = sets.measures[owner], _describe_observer(problem, crossing.adversary)
    if measure.is_step and crossing.load >= full:
        return f"{name}: {_describe_complete(sets, one)} held by {who}"
    shown = _format_number(measure.disclosure(crossing.load, full))
    allowed = "nothing is low enough"
    if crossing.cap >= 0:
        most = _format_number(measure.disclosure(crossing.cap, full))
        allowed = f"allowed at most {most}"
    return f"{_describe_set(sets, one)}: {shown} is disclosed to {who}, {allowed}"


def _describe_complete(sets: SetSystem, one: int) -> str:
    """Describe all entries of a set, verb included."""
    entries = sets.entry[sets.start[one] : sets.start[one + 1]].tolist()
    if sets.classes[one]:
        return "an entry of every class is"
    if len(entries) > _MOST_NAMED:
        return f"all {len(entries)} entries are"
    if len(entries) == 1:
        return f"entry {entries[0]} is"
    return f"entries {', '.join(map(str, entries))} are all"


def _describe_set(sets: SetSystem, one: int) -> str:
    """Name a set by its property, and by its number if the property has several."""
    name = sets.properties[int(sets.owner[one])]
    return name if sets.n_sets == len(sets.properties) else f"{name} (set {one})"


def _format_number(value: Fraction) -> str:
    """Format a number for messages; comparisons use the exact one."""
    if value.denominator <= _LARGEST_DENOMINATOR:
        return str(value)
    return f"{float(value):.15g}"


def _describe_observer(problem: Problem, observer: int) -> str:
    """Name an observer: an adversary, or the members of a coalition."""
    k = problem.n_adversaries
    if observer < k:
        return f"adversary {observer}"
    group = problem.groups[observer - k]
    more = f" and {len(group) - _MOST_NAMED} more" if len(group) > _MOST_NAMED else ""
    return f"adversaries {', '.join(map(str, group[:_MOST_NAMED]))}{more} together"


def _copy_violations(problem: Problem, plan: Pairs) -> Iterator[str]:
    """Report entries with too few or too many copies."""
    degree = np.bincount(plan.entry, minlength=problem.n_entries)
    off = np.flatnonzero((degree < problem.lo) | (degree > problem.hi))
    lines = []
    for d in off[:SHOWN].tolist():
        least, most = int(problem.lo[d]), int(problem.hi[d])
        expected = f"expected {least} to {most}" if most else "it is history only"
        copies = "1 copy" if degree[d] == 1 else f"{int(degree[d])} copies"
        lines.append(f"entry {d} gets {copies}, {expected}")
    yield from _with_remainder(lines, len(off), "entries with a wrong number of copies")


def _average_violations(problem: Problem, tally: Tally) -> Iterator[str]:
    """Report caps on averages that the plan breaks."""
    if not problem.averages:
        return
    counted = reachable(problem.sets)
    for cap in problem.averages:
        if not cap.kept(Fraction(0)):
            sign = "below" if cap.strict else "at most"
            yield f"no disclosure is {sign} tau = {_format_number(cap.limit)}"
            continue
        if cap.aggregate is not None:
            assert tally.parts is not None
            yield from _aggregate_violations(
                problem, tally.parts, cap.limit, strict=cap.strict
            )
            continue
        means = tally.means(cap.properties, counted, cap.over)
        sign = "below " if cap.strict else ""
        above = {a: mean for a, mean in sorted(means.items()) if not cap.kept(mean)}
        yield from _mean_violations(
            problem, above, f"{sign}{_format_number(cap.limit)}"
        )


def _mean_violations(
    problem: Problem,
    means: dict[int, Fraction],
    allowed: str,
    what: str = "mean",
    many: int | None = None,
) -> Iterator[str]:
    """Report observers past a cap; ``many`` is their number if not all are given."""
    lines = [
        f"the {what} disclosure to {_describe_observer(problem, a)} is {_format_number(mean)}, "
        f"allowed {allowed}"
        for a, mean in list(means.items())[:SHOWN]
    ]
    yield from _with_remainder(
        lines, len(means) if many is None else many, "past this cap"
    )


@dataclass(frozen=True)
class Crossing:
    """A set of which an observer (an adversary or a coalition) holds too much."""

    set: int
    adversary: int
    load: int
    cap: int


class Tally:
    """Running sums over the pieces of loads.

    Attributes
    ----------
    parts : Parts or None
        Of the problem's aggregate, where it has one over sets.
    crossed, inherited : list of Crossing
        Limits passed by the plan, and by history alone; at most ``SHOWN`` of each.
    n_crossed, past : int
        How many of each there are.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.observers = problem.n_adversaries + len(problem.groups)
        self.judged = problem.judged()
        self.size = np.diff(problem.sets.start)
        self.whole: set[int] = set()
        self.worst = Fraction(0)
        self.where: tuple[int, int] | None = None
        self.by_property = [Fraction(0)] * len(problem.sets.properties)
        how = problem.aggregate if problem.links is None else None
        self.parts = None if how is None else Parts(how)
        self.complete = 0
        self.past = 0
        self.n_crossed = 0
        self.crossed: list[Crossing] = []
        self.inherited: list[Crossing] = []
        self.sums: dict[tuple[int, int], Ints] = {}

    def add(self, piece: Loads) -> None:
        """Add the loads of one piece."""
        sets = self.problem.sets
        owner = sets.owner[piece.set]
        if self.judged is not None:
            judged = self.judged[owner, piece.adversary]
            piece = Loads(
                piece.set[judged],
                piece.adversary[judged],
                piece.load[judged],
                piece.count[judged],
                piece.fresh[judged],
            )
            owner = owner[judged]
        full = sets.full[piece.set]
        self.complete += int(np.sum(piece.load >= full))
        every = np.where(
            sets.classes[piece.set],
            piece.load >= full,
            piece.count == self.size[piece.set],
        )
        self.whole.update(np.unique(piece.set[every]).tolist())
        over = piece.load > sets.cap[piece.set]
        self.past += self._record(piece, over & ~piece.fresh, self.inherited)
        self.n_crossed += self._record(piece, over & piece.fresh, self.crossed)
        self._add_worst_and_sums(piece, owner, full)
        if self.parts is not None:
            self._add_to_aggregate(self.parts, piece, owner, full)

    def _record(self, piece: Loads, over: Bools, noted: list[Crossing]) -> int:
        """Record the first crossings, and return the number of all."""
        rows = np.flatnonzero(over)
        for row in rows[: max(0, SHOWN - len(noted))]:
            one = int(piece.set[row])
            noted.append(
                Crossing(
                    one,
                    int(piece.adversary[row]),
                    int(piece.load[row]),
                    int(self.problem.sets.cap[one]),
                )
            )
        return len(rows)

    def _add_worst_and_sums(self, piece: Loads, owner: Ints, full: Ints) -> None:
        """Worst f and the sums of f, by (property, full)."""
        held = np.minimum(piece.load, full)
        order = np.lexsort((held, full, owner))
        owner, full, held = owner[order], full[order], held[order]
        same = (owner[1:] == owner[:-1]) & (full[1:] == full[:-1])
        edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(owner)]])
        edges = edges[: len(edges) if len(owner) else 0]
        last = edges[1:] - 1
        tops = zip(
            owner[last].tolist(),
            full[last].tolist(),
            held[last].tolist(),
            order[last].tolist(),
            strict=True,
        )
        known: dict[tuple[Measure, int, int], Fraction] = {}
        for number, whole, highest, row in tops:
            key = self.problem.sets.measures[number], highest, whole
            if key not in known:
                known[key] = key[0].disclosure(*key[1:])
            top = known[key]
            self.by_property[number] = max(self.by_property[number], top)
            if self.where is None or top > self.worst:
                self.worst = top
                self.where = (int(piece.set[row]), int(piece.adversary[row]))
        groups = max(1, _MOST_SUMS // max(1, self.observers))
        for i in range(0, len(last), groups):
            part = edges[i : i + groups + 1]
            rows = slice(int(part[0]), int(part[-1]))
            adversary = piece.adversary[order[rows]]
            self._add_sums(
                owner[rows], full[rows], held[rows], adversary, part - part[0]
            )

    def _add_sums(
        self, owner: Ints, full: Ints, held: Ints, adversary: Ints, edges: Ints
    ) -> None:
        """Add f of rows in groups of one property and one ``full`` each."""
        power = np.array([m.power for m in self.problem.sets.measures], np.int64)[owner]
        value = np.where(power == 0, held == full, held)
        for exponent in np.unique(power[power > 1]).tolist():
            raised = _power(value, exponent, int(full.max()))
            value = np.where(power == exponent, raised, value)
        if value.sum(dtype=np.float64) > _LARGEST_SUM:
            value = value.astype(object)
        group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        table = np.zeros((len(edges) - 1, self.observers), value.dtype)
        np.add.at(table, (group, adversary), value)
        keys = zip(owner[edges[:-1]].tolist(), full[edges[:-1]].tolist(), strict=True)
        for key, sums in zip(keys, table, strict=True):
            more = _wide(sums)
            self.sums[key] = _wide(self.sums[key] + more) if key in self.sums else more

    def _add_to_aggregate(
        self, parts: Parts, piece: Loads, owner: Ints, full: Ints
    ) -> None:
        """Add the loads of one piece to the aggregate."""
        known: dict[tuple[int, int, int], Fraction] = {}
        rows = zip(
            piece.set.tolist(),
            owner.tolist(),
            piece.adversary.tolist(),
            piece.load.tolist(),
            full.tolist(),
            strict=True,
        )
        for one, number, observer, load, whole in rows:
            key = number, load, whole
            if key not in known:
                known[key] = self.problem.sets.measures[number].disclosure(load, whole)
            parts.add(one, number, observer, known[key])

    def means(
        self, properties: tuple[int, ...], counted: Bools, over: int = 0
    ) -> dict[int, Fraction]:
        """Mean of f over the counted sets of these properties, by observer, where above 0.

        ``over`` is what the sum is divided by, 0 for the number of counted sets.
        """
        sets, judged = self.problem.sets, self.judged
        wanted = set(properties)
        parts: dict[int, FractionSum] = defaultdict(FractionSum)
        for scale, sums in self._by_scale(wanted).items():
            for a in np.flatnonzero(sums).tolist():
                parts[a].add(Fraction(int(sums[a]), scale))
        total = {a: part.exact for a, part in parts.items()}
        if over:
            return {a: t / over for a, t in total.items()}
        rows = list(properties)
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties))[rows]
        size = {
            a: int(per.sum() if judged is None else per @ judged[rows, a])
            for a in total
        }
        return {a: t / size[a] for a, t in total.items() if size[a]}

    def _by_scale(self, properties: set[int]) -> dict[int, Ints]:
        """Sums over these properties, by what they are divided by."""
        found: dict[int, Ints] = {}
        for (number, whole), sums in self.sums.items():
            if number not in properties:
                continue
            scale = whole ** self.problem.sets.measures[number].power
            more = _wide(sums)
            found[scale] = _wide(found[scale] + more) if scale in found else more
        return found


def _wide(sums: Ints) -> Ints:
    """Return sums with room to double: large ones as Python integers."""
    wide = sums.dtype != object and bool((sums > _LARGEST_SUM).any())
    return sums.astype(object) if wide else sums


def _power(value: Ints, exponent: int, whole: int) -> Ints:
    """Raise values up to ``whole`` to a power, as Python integers if int64 is too small."""
    wide = whole**exponent > _LARGEST_SUM
    return value.astype(object) ** exponent if wide else value**exponent
