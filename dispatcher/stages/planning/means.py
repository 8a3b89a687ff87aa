"""Means of f as the gate counts them, of rules whose sets tell a plan only limits.

Tables, users' functions and links are planned by step sets that keep f below its limit;
what f is below it, and so what their means are, is told by the rules themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dispatcher.stages.planning.translation import Translation
from policies.document.policy import Kind, Scope
from policies.levels import LevelRule
from policies.pairings import ToldLink
from policies.problem import Average, Pairs
from policies.relations import End, LinkRule, value
from policies.rules import Rule

Members = Mapping[int, frozenset[int]]


@dataclass(frozen=True)
class _Measured:
    """One rule: its units, what lies in each, and how many sets can disclose something."""

    rule: Rule | LinkRule
    members: Members
    around: Mapping[int, list[int]]
    sets: int


class Means:
    """The means of one translation's rules.

    Parameters
    ----------
    made : Translation
        Where means are capped, its backlog is the whole store.
    """

    def __init__(self, made: Translation) -> None:
        self._made = made
        rules = enumerate(made.expansion.rules)
        capped = {p for cap in made.problem.averages for p in cap.properties}
        self._capped = {number: rule for number, rule in rules if number in capped}

    def __bool__(self) -> bool:
        """Whether a capped rule's f is not that of its sets."""
        rules = self._capped.values()
        return any(isinstance(rule, LevelRule | LinkRule) for rule in rules)

    @cached_property
    def _rules(self) -> dict[int, _Measured]:
        """What capped rules look at (grows with the store)."""
        return {number: self._measured(rule) for number, rule in self._capped.items()}

    def caps(self, *, lenient: bool = False) -> tuple[Average, ...]:
        """Return the caps over as many sets as count, for all adversaries alike.

        Who is trusted with a rule is judged by fewer sets. A plan that keeps the caps
        keeps the means of the sets; ``lenient`` ones are kept by all plans that keep the
        means of the rules: over the most sets, of rules whose sets tell no more than they.
        """
        averages = self._made.problem.averages
        if not self:
            return averages
        found = []
        for cap in averages:
            counts = self._counts(cap)
            told = [p for p in cap.properties if not lenient or self.sure(p)]
            if counts and told:
                over = max(counts) if lenient else min(counts)
                found.append(replace(cap, properties=tuple(told), over=over))
        return tuple(found)

    def _counts(self, cap: Average) -> set[int]:
        """Sets that a cap's mean is taken over, for each way of being trusted."""
        mine = [self._rules[r] for r in cap.properties]
        found = {
            sum(one.sets for one in mine if one.rule.name not in trusted)
            for trusted in set(self._made.workforce.trusted)
        }
        return found - {0}  # nothing is judged

    def sure(self, number: int) -> bool:
        """Whether the sets of a rule, one for each unit, tell no more than the rule.

        Below a limit they tell nothing; past it, by what was shown, f may be below 1.
        """
        rule = self._capped.get(number)
        if not isinstance(rule, LevelRule | LinkRule):
            return True
        if rule.tau is not None:
            return not len(self._made.problem.history)
        return not isinstance(rule, LinkRule) or rule.kind is not Kind.COSINE

    def shared(self, number: int) -> bool:
        """Whether a capped rule's sets have no limit, and a link may have several."""
        rule = self._capped.get(number)
        if not self or not isinstance(rule, LinkRule):
            return False
        return rule.kind is Kind.COMMON and rule.tau is None

    def excess(self, plan: Pairs) -> list[tuple[int, int]]:
        """Planned pairs (entry, adversary) without which every mean is kept."""
        problem = self._made.problem
        found = []
        for a in np.unique(plan.adversary).tolist():
            planned = set(plan.entry[plan.adversary == a].tolist())
            seen = set(problem.history.entry[problem.history.adversary == a].tolist())
            found += [(d, a) for d in self._too_much(a, planned - seen, seen)]
        return found

    def _too_much(self, a: int, planned: set[int], seen: set[int]) -> list[int]:
        """What to take from one adversary, most telling first."""
        hand = planned | seen
        sums = {
            r: sum((self._f(r, u, hand) for u in self._units(r, hand)), Fraction(0))
            for r in self._rules
        }
        taken: list[int] = []
        if not self._past(a, sums):
            return taken
        order = sorted(planned, key=lambda d: -sum(self._drop(d, hand).values()))
        for d in order:
            for r, drop in self._drop(d, hand).items():
                sums[r] -= drop
            hand.remove(d)
            taken.append(d)
            if not self._past(a, sums):
                break
        return taken

    def _past(self, a: int, sums: Mapping[int, Fraction]) -> bool:
        """Whether a cap is passed, of the rules that are judged for this adversary."""
        trusted = self._made.workforce.trusted[a]
        judged = {r for r, one in self._rules.items() if one.rule.name not in trusted}
        for cap in self._made.problem.averages:
            mine = judged.intersection(cap.properties)
            sets = sum(self._rules[r].sets for r in mine)
            if sets and not cap.kept(sum((sums[r] for r in mine), Fraction(0)) / sets):
                return True
        return False

    def _drop(self, d: int, hand: set[int]) -> dict[int, Fraction]:
        """By rule: how much less f is in all without this entry."""
        less = hand - {d}
        return {
            r: sum(
                (
                    self._f(r, u, hand) - self._f(r, u, less)
                    for u in one.around.get(d, ())
                ),
                Fraction(0),
            )
            for r, one in self._rules.items()
        }

    def _units(self, number: int, hand: Iterable[int]) -> set[int]:
        around = self._rules[number].around
        return {unit for d in hand for unit in around.get(d, ())}

    def _f(self, number: int, unit: int, hand: set[int]) -> Fraction:
        """Sum of f over the sets of one unit, or f of one link."""
        one = self._rules[number]
        every = one.members[unit]
        if isinstance(one.rule, LinkRule):
            return self._of_link(one.rule, unit, every & hand)
        return one.rule.total(
            self._held(one.rule, every & hand), self._held(one.rule, every)
        )[0]

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
        made = self._made
        time = (
            made.backlog.time if rule.window is not None else np.zeros_like(made.kind)
        )
        return Counter((made.fields[made.kind[d]], int(time[d])) for d in entries)

    def _of_link(self, rule: LinkRule, link: int, entries: frozenset[int]) -> Fraction:
        """F of one link by what is held of its ends."""
        pairs = self._made.backlog.links[rule.relation]
        people = int(pairs.one[link]), int(pairs.other[link])
        end = self._fields_of if isinstance(rule, ToldLink) else self._places_of
        one, other = (end(entries, person) for person in people)
        return value(rule.reached(one, other))

    def _fields_of(self, entries: Iterable[int], person: int) -> End:
        made, backlog = self._made, self._made.backlog
        mine = (d for d in entries if backlog.subject[d] == person)
        return {(int(backlog.record[d]), made.fields[made.kind[d]]): 1 for d in mine}

    def _places_of(self, entries: Iterable[int], person: int) -> End:
        backlog = self._made.backlog
        found: Counter[int] = Counter()
        for d in entries:
            if backlog.subject[d] == person and backlog.place[d] >= 0:
                found[int(backlog.place[d])] += int(backlog.visits[d])
        return +found  # places without visits are none
