"""Caps on averages of f, as the gate counts them: by the rules themselves.

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

_LARGE: Final = 32
"""Entries of a unit up to which the share of each of them in f is worked out."""


@dataclass(frozen=True)
class _Measured:
    """One rule: its units, what lies in each, and how many sets can disclose something."""

    rule: Rule | LinkRule
    members: Members
    around: Mapping[int, list[int]]
    sets: int


class AverageCaps:
    """The caps on averages of one problem's rules.

    Parameters
    ----------
    made : PlanningProblem
        Where averages are capped, its backlog is the whole store.
    """

    def __init__(self, made: PlanningProblem) -> None:
        self._made = made
        rules = enumerate(made.expansion.rules)
        capped = {p for cap in made.problem.averages for p in cap.properties}
        self._capped = {number: rule for number, rule in rules if number in capped}
        self._starts: dict[tuple[str, int], list[int]] = {}

    def __bool__(self) -> bool:
        """Whether a capped rule's f is not that of its sets, or not of all windows."""
        return any(
            isinstance(rule, TabulatedRule | LinkRule)
            or number in self._made.expansion.widest
            for number, rule in self._capped.items()
        )

    @cached_property
    def _rules(self) -> dict[int, _Measured]:
        """What capped rules look at (grows with the store)."""
        return {number: self._measured(rule) for number, rule in self._capped.items()}

    def caps(self, *, relaxed: bool = False) -> tuple[Average, ...]:
        """Return the caps over as many sets as count, for all adversaries alike.

        Who is trusted with a rule is judged by fewer sets. A plan that keeps the caps
        keeps the averages of the sets. All plans that keep the averages of the rules keep
        ``relaxed`` caps: over the most sets, of rules whose sets never overstate f.
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
        """Sets that a cap's mean is taken over, for each way of being trusted."""
        mine = [self._rules[r] for r in cap.properties]
        found = {
            sum(one.sets for one in mine if one.rule.name not in trusted)
            for trusted in set(self._made.trusted)
        }
        return found - {0}  # nothing is judged

    def never_overstates(self, number: int) -> bool:
        """Whether the sets of a rule, one for each unit, have no higher f than the rule.

        Below a limit theirs is 0. Past it, by what was shown, the rule's may be below 1.
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
        """Planned pairs (entry, adversary) without which every cap is kept."""
        found = []
        for a, planned in _by_adversary(plan).items():
            seen = self._seen.get(a, set())
            found += [(d, a) for d in self._excess_of(a, planned - seen, seen)]
        return found

    def past(self) -> list[int]:
        """Adversaries past a cap by what they were shown, and are planned already."""
        return [
            a
            for a, seen in self._seen.items()
            if self._past(a, self._sums(self._disclosures(seen, seen)))
        ]

    @cached_property
    def _seen(self) -> dict[int, set[int]]:
        """What was shown to each adversary."""
        return _by_adversary(self._made.problem.history)

    def _excess_of(self, a: int, planned: set[int], seen: set[int]) -> list[int]:
        """What to take from one adversary, what discloses most first.

        Steps double until the caps are kept, and halve from there on: a unit of many
        entries is looked at a few times, and not once for each of them.
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
        """Whether a cap is passed, of the rules that are judged for this adversary."""
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
        """By rule and unit of these entries: sum of f over what an adversary holds."""
        entries = list(entries)
        return {
            (r, unit): self._f(one, unit, one.members[unit] & held)
            for r, one in self._rules.items()
            for unit in {unit for d in entries for unit in one.around.get(d, ())}
        }

    def _sums(
        self, disclosed: Mapping[tuple[int, int], Fraction]
    ) -> dict[int, Fraction]:
        """By rule: f of all its units."""
        sums = dict.fromkeys(self._rules, Fraction(0))
        for (r, _), f in disclosed.items():
            sums[r] += f
        return sums

    def _share(self, d: int, held: set[int]) -> Fraction:
        """How much less f is in all without this entry; of large units, about."""
        whole = Fraction(0)
        for one in self._rules.values():
            for unit in one.around.get(d, ()):
                every = one.members[unit]
                if len(every) > _LARGE:
                    whole += self._alone(one, unit, d)
                else:
                    mine = every & held
                    whole += self._f(one, unit, mine) - self._f(one, unit, mine - {d})
        return whole

    def _alone(self, one: _Measured, unit: int, d: int) -> Fraction:
        """About the share of an entry in f of a large unit: by itself, in all its windows."""
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
        """Times at which the windows of a unit begin."""
        key = one.rule.name, unit
        if key not in self._starts:
            every = sorted(one.members[unit])
            self._starts[key] = np.unique(self._made.backlog.time[every]).tolist()
        return self._starts[key]

    def _f(self, one: _Measured, unit: int, held: frozenset[int]) -> Fraction:
        """Sum of f over the sets of one unit, or f of one link."""
        if isinstance(one.rule, LinkRule):
            return self._of_link(one.rule, unit, held)
        known = self._held(one.rule, one.members[unit])
        return one.rule.total(self._held(one.rule, held), known)[0]

    # -- what a rule looks at ------------------------------------------------------

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
        """Entries in the rule's fields."""
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
        """By relation and person: the places of their links."""
        found: dict[str, dict[int, list[int]]] = {}
        for name, pairs in self._made.backlog.links.items():
            near = found[name] = defaultdict(list)
            ends = zip(pairs.one.tolist(), pairs.other.tolist(), strict=True)
            for link, people in enumerate(ends):
                for person in people:
                    near[person].append(link)
        return found

    def _held(self, rule: Rule, entries: Iterable[int]) -> Counter[tuple[str, int]]:
        """Entries of one unit as the rule counts them."""
        fields, kind, time = self._made.fields, self._made.kind, self._made.backlog.time
        if rule.window is None:
            return Counter((fields[kind[d]], 0) for d in entries)
        return Counter((fields[kind[d]], int(time[d])) for d in entries)

    def _of_link(self, rule: LinkRule, link: int, entries: Iterable[int]) -> Fraction:
        """F of one link by what is held of its ends."""
        pairs = self._made.backlog.links[rule.relation]
        ends = self._ends(rule, entries)
        one, other = int(pairs.one[link]), int(pairs.other[link])
        return value(rule.reached(ends.get(one, {}), ends.get(other, {})))

    def _ends(self, rule: LinkRule, entries: Iterable[int]) -> Mapping[int, End]:
        """What is held of each person, as the rule reads it."""
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
    """Adversaries past a cap on the averages of their sets by history alone."""
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
    """Entries of each adversary."""
    order = np.argsort(pairs.adversary, kind="stable")
    holder, first = np.unique(pairs.adversary[order], return_index=True)
    parts = np.split(pairs.entry[order], first[1:])
    return {a: set(d.tolist()) for a, d in zip(holder.tolist(), parts, strict=False)}
