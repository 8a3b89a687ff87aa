"""Caps on averages of f, counted by the rules themselves as the gate does.

Tables, users' functions and links are planned by step sets that keep f below its limit.
Such sets say nothing about f below the limit, and so nothing about its average.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from policies.judging.judge import Tally
from policies.model.disclosure import loads, reachable
from policies.model.problem import Average, Pairs, Problem
from policies.planning.problem import PlanningProblem
from policies.policy import Scope
from policies.rules.link_rules import End, LinkRule, value, vectors
from policies.rules.record_rules import Rule
from policies.rules.tabulated import TabulatedRule
from policies.rules.tabulated_links import TabulatedLinkRule, ends_held

Members = Mapping[int, frozenset[int]]

LARGE: Final = 32
"""Entries of a unit up to which the share of each in f is computed exactly."""


@dataclass(frozen=True)
class _Measured:
    """A rule, its units, the entries of each, and the number of sets that count."""

    rule: Rule | LinkRule
    members: Members
    around: Mapping[int, list[int]]
    sets: int


class AverageCaps:
    """The caps on averages of one problem's rules.

    Parameters
    ----------
    made : PlanningProblem
        If averages are capped, its backlog is the whole store.
    exact : int
        Entries of a unit up to which the share of each in f is computed exactly.
    """

    def __init__(self, made: PlanningProblem, *, exact: int = LARGE) -> None:
        self._made, self._exact = made, exact
        rules = enumerate(made.expansion.rules)
        capped = {p for cap in made.problem.averages for p in cap.properties}
        self._capped = {number: rule for number, rule in rules if number in capped}
        self._starts: dict[tuple[str, int], list[int]] = {}

    def __bool__(self) -> bool:
        """Whether a capped rule's f differs from that of its sets or their windows."""
        return any(
            isinstance(rule, TabulatedRule | LinkRule)
            or number in self._made.expansion.widest
            for number, rule in self._capped.items()
        )

    @cached_property
    def _rules(self) -> dict[int, _Measured]:
        """Capped rules by number, with their units (grows with the store)."""
        return {number: self._measured(rule) for number, rule in self._capped.items()}

    def caps(self, *, relaxed: bool = False) -> tuple[Average, ...]:
        """Return the caps over as many sets as count, equal for all adversaries.

        For whoever is trusted with a rule fewer sets count. A plan that keeps these
        caps keeps the averages of the sets. All plans that keep the averages of the
        rules keep ``relaxed`` caps: over the most sets, of rules whose sets never
        overstate f.
        """
        averages = self._made.problem.averages
        if not self:
            return averages
        found = []
        for cap in averages:
            counts = self._counts(cap)
            counted = [
                p for p in cap.properties if not relaxed or self.never_overstates(p)
            ]
            if counts and counted:
                over = max(counts) if relaxed else min(counts)
                found.append(replace(cap, properties=tuple(counted), over=over))
        return tuple(found)

    def _counts(self, cap: Average) -> set[int]:
        """Return the numbers of sets in a cap's mean, for each combination of trust."""
        mine = [self._rules[r] for r in cap.properties]
        found = {
            sum(one.sets for one in mine if one.rule.name not in trusted)
            for trusted in set(self._made.trusted)
        }
        return found - {0}  # 0: nothing is judged

    def never_overstates(self, number: int) -> bool:
        """Whether a rule's sets, one per unit, have no higher f than the rule.

        Below a limit their f is 0. Past it, by what was shown, the rule's may be below
        1.
        """
        rule = self._capped.get(number)
        if not isinstance(rule, TabulatedRule | LinkRule):
            return True
        if rule.tau is not None:
            return not len(self._made.problem.history)
        return not isinstance(rule, LinkRule) or rule.monotone

    def has_several_sets_of_a_link(self, number: int) -> bool:
        """Whether a capped rule's sets have no limit, and a link may have several."""
        rule = self._capped.get(number)
        if not self or not isinstance(rule, LinkRule):
            return False
        places = rule.similarity is not None and rule.monotone
        return places and rule.tau is None

    def excess(self, plan: Pairs) -> list[tuple[int, int]]:
        """Return planned pairs (entry, adversary) whose removal keeps every cap."""
        found = []
        for a, planned in _by_adversary(plan).items():
            seen = self._seen.get(a, set())
            found += [(d, a) for d in self._excess_of(a, planned - seen, seen)]
        return found

    def past(self) -> list[int]:
        """Return adversaries past a cap by what was shown or is planned already."""
        return [
            a
            for a, seen in self._seen.items()
            if self._past(a, self._sums(self._disclosures(seen, seen)))
        ]

    @cached_property
    def _seen(self) -> dict[int, set[int]]:
        """Entries that were shown to each adversary."""
        return _by_adversary(self._made.problem.history)

    def _excess_of(self, a: int, planned: set[int], seen: set[int]) -> list[int]:
        """Return what to take from one adversary, the most disclosing first.

        Steps double until the caps are kept, then are bisected: a unit of many entries
        is evaluated a few times, not once per entry.
        """
        held = planned | seen
        disclosed = self._disclosures(held, held)
        sums = self._sums(disclosed)
        if not self._past(a, sums):
            return []
        order = sorted(planned, key=lambda d: (-self._share(d, held), d))
        taken, step, growing = 0, 1, True
        while step and taken < len(order):
            some = order[taken : taken + step]
            held.difference_update(some)
            now, less = self._disclosures(some, held), dict(sums)
            for at, f in now.items():
                less[at[0]] += f - disclosed[at]
            past = self._past(a, less)
            growing = growing and past
            if past:
                taken, sums = taken + len(some), less
                disclosed |= now
            else:
                held.update(some)
            step = 2 * step if growing else step // 2
        return order[: taken + 1]

    def _past(self, a: int, sums: Mapping[int, Fraction]) -> bool:
        """Whether a cap of the rules judged for this adversary is exceeded."""
        trusted = self._made.trusted[a]
        judged = {r for r, one in self._rules.items() if one.rule.name not in trusted}
        for cap in self._made.problem.averages:
            mine = judged.intersection(cap.properties)
            sets = sum(self._rules[r].sets for r in mine)
            if sets and not cap.kept(sum((sums[r] for r in mine), Fraction(0)) / sets):
                return True
        return False

    def _disclosures(
        self, entries: Iterable[int], held: set[int]
    ) -> dict[tuple[int, int], Fraction]:
        """Return the sum of f of what an adversary holds, by rule and unit of entries."""
        entries = list(entries)
        return {
            (r, unit): self._f(one, unit, one.members[unit] & held)
            for r, one in self._rules.items()
            for unit in {unit for d in entries for unit in one.around.get(d, ())}
        }

    def _sums(
        self, disclosed: Mapping[tuple[int, int], Fraction]
    ) -> dict[int, Fraction]:
        """Return f of all units, by rule."""
        sums = dict.fromkeys(self._rules, Fraction(0))
        for (r, _), f in disclosed.items():
            sums[r] += f
        return sums

    def _share(self, d: int, held: set[int]) -> Fraction:
        """Return the fall of total f without this entry; for large units, about."""
        whole = Fraction(0)
        for one in self._rules.values():
            for unit in one.around.get(d, ()):
                every = one.members[unit]
                if len(every) > self._exact:
                    whole += self._alone(one, unit, d)
                else:
                    mine = every & held
                    whole += self._f(one, unit, mine) - self._f(one, unit, mine - {d})
        return whole

    def _alone(self, one: _Measured, unit: int, d: int) -> Fraction:
        """Return about an entry's share in f of a large unit: alone, in all its windows."""
        if isinstance(one.rule, LinkRule):
            return Fraction(1)
        share = one.rule.value(self._held(one.rule, [d]))
        share = max(share, Fraction(1, len(one.members[unit])))
        if one.rule.window is None:
            return share
        starts, time = self._starts_of(one, unit), int(self._made.backlog.time[d])
        first = bisect_left(starts, time - one.rule.window)
        return share * (bisect_right(starts, time) - first)

    def _starts_of(self, one: _Measured, unit: int) -> list[int]:
        """Return the times at which the windows of a unit begin."""
        key = one.rule.name, unit
        if key not in self._starts:
            every = sorted(one.members[unit])
            self._starts[key] = np.unique(self._made.backlog.time[every]).tolist()
        return self._starts[key]

    def _f(self, one: _Measured, unit: int, held: frozenset[int]) -> Fraction:
        """Return the sum of f over the sets of one unit, or f of one link."""
        if isinstance(one.rule, LinkRule):
            return self._of_link(one.rule, unit, held)
        known = self._held(one.rule, one.members[unit])
        return one.rule.total(self._held(one.rule, held), known)[0]

    # -- entries and units of a rule -----------------------------------------------

    def _measured(self, rule: Rule | LinkRule) -> _Measured:
        members: dict[int, set[int]] = defaultdict(set)
        for d in self._looked_at(rule):
            for unit in self._units_of(rule, d):
                members[unit].add(d)
        around: dict[int, list[int]] = defaultdict(list)
        for unit, every in members.items():
            for d in every:
                around[d].append(unit)
        frozen = {unit: frozenset(every) for unit, every in members.items()}
        if isinstance(rule, LinkRule):
            sets = sum(self._of_link(rule, u, every) > 0 for u, every in frozen.items())
        else:
            held = (self._held(rule, every) for every in frozen.values())
            sets = sum(rule.total({}, known)[1] for known in held)
        return _Measured(rule, frozen, around, sets)

    def _looked_at(self, rule: Rule | LinkRule) -> list[int]:
        """Return the entries in the rule's fields."""
        mine = np.array([name in rule.fields for name in self._made.fields], np.bool_)
        kind = self._made.kind
        found: list[int] = np.flatnonzero(mine[kind]).tolist() if len(kind) else []
        return found

    def _units_of(self, rule: Rule | LinkRule, d: int) -> list[int]:
        backlog = self._made.backlog
        if rule.scope is Scope.RECORD:
            return [int(backlog.record[d])]
        person = int(backlog.subject[d])
        if not isinstance(rule, LinkRule):
            return [person]
        return self._near[rule.relation].get(person, []) if person >= 0 else []

    @cached_property
    def _near(self) -> dict[str, dict[int, list[int]]]:
        """Indices of links by relation and person."""
        found: dict[str, dict[int, list[int]]] = {}
        for name, pairs in self._made.backlog.links.items():
            near = found[name] = defaultdict(list)
            ends = zip(pairs.one.tolist(), pairs.other.tolist(), strict=True)
            for link, people in enumerate(ends):
                for person in people:
                    near[person].append(link)
        return found

    def _held(self, rule: Rule, entries: Iterable[int]) -> Counter[tuple[str, int]]:
        """Count the entries of one unit as the rule does."""
        fields, kind, time = self._made.fields, self._made.kind, self._made.backlog.time
        if rule.window is None:
            return Counter((fields[kind[d]], 0) for d in entries)
        return Counter((fields[kind[d]], int(time[d])) for d in entries)

    def _of_link(self, rule: LinkRule, link: int, entries: Iterable[int]) -> Fraction:
        """Return f of one link by what is held of its ends."""
        pairs = self._made.backlog.links[rule.relation]
        ends = self._ends(rule, entries)
        one, other = int(pairs.one[link]), int(pairs.other[link])
        return value(rule.reached(ends.get(one, {}), ends.get(other, {})))

    def _ends(self, rule: LinkRule, entries: Iterable[int]) -> Mapping[int, End]:
        """Return what is held of each person, as the rule reads it."""
        backlog, fields, kind = self._made.backlog, self._made.fields, self._made.kind
        if isinstance(rule, TabulatedLinkRule):
            held = (
                (int(backlog.subject[d]), int(backlog.record[d]), fields[kind[d]])
                for d in entries
            )
            return ends_held(held, rule.fields)
        visits = (
            (int(backlog.subject[d]), fields[kind[d]], int(backlog.place[d]), n)
            for d in entries
            if backlog.place[d] >= 0 and (n := int(backlog.visits[d]))
        )
        return vectors(visits, rule.fields)


def past_by_history(problem: Problem) -> list[int]:
    """Return adversaries past a cap on the averages of their sets by history alone."""
    tally, counted = Tally(problem), reachable(problem.sets)
    for piece in loads(problem.sets, Pairs(), problem.history):
        tally.add(piece)
    past = {
        a
        for cap in problem.averages
        for a, mean in tally.means(cap.properties, counted, cap.over).items()
        if not cap.kept(mean)
    }
    return sorted(past)


def _by_adversary(pairs: Pairs) -> dict[int, set[int]]:
    """Return the entries of each adversary."""
    order = np.argsort(pairs.adversary, kind="stable")
    holder, first = np.unique(pairs.adversary[order], return_index=True)
    parts = np.split(pairs.entry[order], first[1:])
    return {a: set(d.tolist()) for a, d in zip(holder.tolist(), parts, strict=False)}
