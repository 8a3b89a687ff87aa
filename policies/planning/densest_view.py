"""The densest view: the most that one adversary may come to know of one record.

The gate refuses field by field; whoever answers for a policy wants to see what all the
allowed showings amount to. Take one record with all its fields, and adversaries who have
seen nothing of it: an assignment problem like any other, whose best plan shows as many
fields as the policy allows. It is solved exactly, so that no view within the policy has
more fields. A search that runs out of time gives a view to which no field can be added.

Which of the views with most fields is taken, and whether a smaller view does more harm,
depends on the data. :func:`best_view` searches all views within the policy for the
highest worth of a caller's, for example the share of people whom a view singles out.

Not judged here, since they depend on all that is loaded: rules over links of people, and
caps on averages. Both can only deny more.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.measures import Measure
from policies.model.problem import Problem
from policies.model.sets import SetSystem
from policies.model.weights import Weights
from policies.policy import Policy
from policies.rules.asks import EntryFacts, Finding, compile_rules, judge_ask
from policies.rules.entry_table import EntryTable
from policies.rules.expand import expand
from policies.rules.record_rules import Rule
from policies.rules.tabulated import FieldTable
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.interfaces import never

MOST_VIEWS: Final = 4_000
"""Sets of fields that :func:`best_view` looks at."""

Fields = frozenset[str]


@dataclass(frozen=True)
class View:
    """Fields that are seen of one record.

    Attributes
    ----------
    fields : tuple of str
        In the order of the policy.
    most : int
        No view within the policy has more fields; the view is proven to be the densest
        if it has so many.
    """

    fields: tuple[str, ...]
    most: int

    @property
    def proven(self) -> bool:
        """Whether no view has more fields."""
        return len(self.fields) == self.most


class UnknownRecord:
    """A record with all its fields, of which nobody has seen anything.

    Parameters
    ----------
    policy : Policy
    tables : Mapping of str to FieldTable, optional
        f by fields held, for every tabulated rule.

    Attributes
    ----------
    fields : tuple of str
        Those that may be sent.
    rules : Mapping[str, Rule]
        Rules that are judged here, by name.
    """

    def __init__(
        self, policy: Policy, tables: Mapping[str, FieldTable] | None = None
    ) -> None:
        self._policy, self._tables = policy, tables
        self._rules = compile_rules(policy, tables)
        self.rules: Mapping[str, Rule] = self._rules.all
        self.fields = tuple(f.name for f in policy.entity.fields.values() if f.send)

    def densest(
        self,
        rng: np.random.Generator,
        limits: Limits,
        *,
        adversaries: int = 1,
        records: int = 1,
        having: str | None = None,
    ) -> View | None:
        """Return the view with most fields.

        Parameters
        ----------
        rng, limits
        adversaries : int
            So many, each within the policy, put together what they saw.
        records : int
            Records of one person, of all of which a field may be seen.
        having : str, optional
            A field of the first record that is to be seen.

        Returns
        -------
        View or None
            None if no view within the policy has that field.
        """
        names = tuple(self._policy.entity.fields)
        n, every = len(names), len(names) * records
        sets = expand(self._policy, self._entries(records), tables=self._tables).sets
        hi = np.tile([int(name in self.fields) for name in names], records)
        lo = np.zeros(every, np.int64)
        if having is not None:
            lo[names.index(having)] = 1
        problem = Problem(
            sets=_once(sets, n) if records > 1 else sets,
            lo=lo,
            hi=hi,
            weights=Weights.flat(every, adversaries),
        )
        found = SOLVERS["auto"](problem, rng, limits)
        if found.verdict is Verdict.INFEASIBLE:
            return None
        most, parts = len(self.fields), [set[str]() for _ in range(adversaries)]
        if found.verdict is Verdict.SOLVED:
            most = min(most, int(found.bound))
            for adversary, part in enumerate(parts):
                mine = found.plan.entry[found.plan.adversary == adversary]
                part.update(names[d % n] for d in mine.tolist())
        seen = set[str]().union(*parts)
        if len(seen) < most:  # the search did not end: no worse than what is at hand
            start = set() if having is None else {having}
            if self.past(start):
                return None
            first = [start, *(set[str]() for _ in parts[1:])]
            tried = [self._filled(first)]
            if records == 1 and found.verdict is Verdict.SOLVED:
                tried.append(self._filled(parts))
            seen = max(seen, *tried, key=len)
        return View(tuple(name for name in names if name in seen), most)

    def _filled(self, parts: Sequence[Collection[str]]) -> set[str]:
        """Add fields to what each adversary has seen of one record, while one may.

        Those of few rules come first, since they exclude the fewest others.
        """
        held = [set(part) for part in parts]
        rules = Counter(f for rule in self.rules.values() for f in rule.fields)
        for name in sorted(self.fields, key=lambda name: rules[name]):
            if any(name in one for one in held):
                continue
            for one in held:
                if not self.past(one | {name}):
                    one.add(name)
                    break
        return set[str]().union(*held)

    def wanted(self, records: int = 1, adversaries: int = 1) -> Problem:
        """Return the problem of all answers about so many records of one person.

        Where nothing is asked, it is the problem of all fields that receivers get.
        """
        fields = [*self._policy.entity.fields.values()]
        asks = any(f.send and f.ask is not None for f in fields)
        copies = np.tile(
            [f.answers * (f.send and (f.ask is not None or not asks)) for f in fields],
            records,
        )
        every = len(copies)
        return Problem(
            sets=expand(self._policy, self._entries(records), tables=self._tables).sets,
            lo=copies,
            hi=copies,
            weights=Weights.scaled(
                np.zeros(every, np.int64),
                np.tile([float(f.utility) for f in fields], records),
                np.ones((adversaries, 1)),
            ),
        )

    def _entries(self, records: int) -> EntryTable:
        n = len(self._policy.entity.fields)
        return EntryTable(
            fields=tuple(self._policy.entity.fields),
            record=np.repeat(np.arange(records), n),
            subject=np.zeros(n * records, np.int64),
            field=np.tile(np.arange(n, dtype=np.int32), records),
            time=np.zeros(n * records, np.int64),
        )

    def disclosure(self, rule: str, seen: Collection[str]) -> Fraction:
        """Return f of a rule for whoever holds these fields of one record."""
        return self.rules[rule].value(dict.fromkeys(((f, 0) for f in seen), 1))

    def past(self, seen: Collection[str]) -> tuple[str, ...]:
        """Return the rules whose limit these fields of one record reach."""
        held = dict.fromkeys(((f, 0) for f in seen), 1)
        return tuple(name for name, rule in self.rules.items() if rule.past(held))

    def refusals(self, seen: Collection[str], asked: str) -> tuple[Finding, ...]:
        """Return the rules that deny a field to whoever holds the others."""
        held = dict.fromkeys(((f, 0) for f in seen), 1)
        found = judge_ask(self._rules, EntryFacts("", asked), held, held)
        return tuple(finding for finding in found if finding.refused)


def _once(sets: SetSystem, n: int) -> SetSystem:
    """Return the sets, and for each field that it is seen of one record at most."""
    copies = sets.n_entries // n
    last = sets.start[-1]
    return replace(
        sets,
        properties=(*sets.properties, ""),
        measures=(*sets.measures, Measure.STEP),
        owner=np.r_[sets.owner, np.full(n, len(sets.properties))],
        start=np.r_[sets.start, last + copies * np.arange(1, n + 1)],
        entry=np.r_[sets.entry, np.arange(sets.n_entries).reshape(copies, n).T.ravel()],
        amount=np.r_[sets.amount, np.ones(sets.n_entries, np.int64)],
        cap=np.r_[sets.cap, np.ones(n, np.int64)],
        full=np.r_[sets.full, np.full(n, copies)],
        classes=np.r_[sets.classes, np.zeros(n, np.bool_)],
    )


@dataclass(frozen=True)
class Best:
    """The view of highest worth that was found.

    Attributes
    ----------
    fields : frozenset of str or None
        None if the search ended before it found a view within the policy.
    bound : Fraction
        No view within the policy is worth more.
    """

    fields: Fields | None
    bound: Fraction


def best_view(
    record: UnknownRecord,
    fields: Collection[str],
    worth: Callable[[Fields], Fraction],
    *,
    keep: str | None = None,
    least: int = 0,
    most: int = MOST_VIEWS,
    over: Callable[[], bool] = never,
) -> Best:
    """Search the views within the policy for the highest worth, then for most fields.

    Best first, from all the fields down: of a rule that is past its limit, one field or
    another must go. As worth never falls when a field is added, a set of fields is worth
    at least as much as any view inside it, and the first one within the policy is the
    best.

    Parameters
    ----------
    record : UnknownRecord
    fields : collection of str
        Those that may be part of the view.
    worth : callable
        Of a set of fields; never less for more fields.
    keep : str, optional
        A field that the view must have.
    least : int
        Fields that the view must have at least.
    most : int
        Sets of fields to look at; then the search ends with a bound alone.
    over : callable
        Whether it is to end before that.
    """
    names = sorted(fields)
    whole = frozenset(names)
    waiting = [(-worth(whole), -len(whole), names)]
    known = {whole}
    while waiting and len(known) <= most and not over():
        minus, _, chosen = heapq.heappop(waiting)
        past = record.past(chosen)
        if not past:
            return Best(frozenset(chosen), -minus)
        if len(chosen) == least:
            continue
        for name in sorted(record.rules[past[0]].fields.intersection(chosen) - {keep}):
            part = frozenset(chosen) - {name}
            if part not in known:
                known.add(part)
                heapq.heappush(waiting, (-worth(part), -len(part), sorted(part)))
    return Best(None, max((-w[0] for w in waiting), default=Fraction(0)))
