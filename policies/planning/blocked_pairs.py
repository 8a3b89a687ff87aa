"""Pairs that are blocked since an accepted join or version took somebody past a limit.

Whoever is past a rule's limit on a record, person or link gets nothing more of it in
the rule's fields from the gate, even if that is in other sets than the one past its
limit. Only what was shown counts: of what is still planned, the gate grants what keeps
the limits.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import numpy.typing as npt

from policies.model.disclosure import loads
from policies.model.problem import Pairs, Problem
from policies.planning.problem import EntryColumns
from policies.policy import Scope
from policies.rules.expand import Expansion
from policies.rules.link_rules import LinkRule
from policies.rules.shared_places import PeoplePairs, matched
from policies.rules.tabulated_links import TabulatedLinkRule

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def blocked_pairs(
    problem: Problem,
    expansion: Expansion,
    backlog: EntryColumns,
    fields: npt.NDArray[np.str_],
    shown: Pairs,
) -> Pairs:
    """Return the pairs that the gate refuses, whatever else is planned.

    Parameters
    ----------
    problem : Problem
    expansion : Expansion
    backlog : EntryColumns
        Its entries are those of the problem.
    fields : str array, shape (n,)
        Name of each entry's field.
    shown : Pairs
        What was shown: the problem's history without what is only planned.

    Notes
    -----
    Array passes for each rule, however many units are past its limit.
    """
    found = Pairs()
    one, holder = _past(problem, shown)
    owner = problem.sets.owner[one]
    for number in np.unique(owner).tolist():
        rule, mine = expansion.rules[number], owner == number
        looked_at = np.isin(fields, sorted(rule.fields))
        unit, who = expansion.unit[one[mine]], holder[mine]
        if isinstance(rule, LinkRule):
            pairs = backlog.links[rule.relation]
            if not rule.monotone:
                at, who = _alike(rule, unit, who, backlog, shown, looked_at)
            else:
                at, who = _links(rule, one[mine], who, expansion, backlog)
            unit, who = _people(pairs, at, who)
        column = backlog.record if rule.scope is Scope.RECORD else backlog.subject
        open_ = np.flatnonzero(looked_at & (backlog.copies > 0))
        found = found.union(_of_units(column, open_, unit, who))
    return found


def _past(problem: Problem, shown: Pairs) -> tuple[Ints, Ints]:
    """Return the sets that are past their limit by what was shown, and for whom."""
    sets, judged = problem.sets, problem.judged()
    one, holder = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for piece in loads(sets, Pairs(), shown):
        over = piece.load > sets.cap[piece.set]
        if judged is not None:
            over &= judged[sets.owner[piece.set], piece.adversary]
        one.append(piece.set[over])
        holder.append(piece.adversary[over])
    return np.concatenate(one), np.concatenate(holder)


def _of_units(column: Ints, entry: Ints, unit: Ints, holder: Ints) -> Pairs:
    """Return the entries of a unit, for its holder."""
    unit, holder = _once(unit, holder)
    entry = entry[np.argsort(column[entry], kind="stable")]
    number, row = matched(column[entry], unit)
    return Pairs(entry[row], holder[number])


def _once(unit: Ints, holder: Ints) -> tuple[Ints, Ints]:
    """Return each unit once per holder."""
    span = int(holder.max(initial=0)) + 1
    found = np.unique(unit * span + holder)
    return found // span, found % span


def _people(pairs: PeoplePairs, place: Ints, holder: Ints) -> tuple[Ints, Ints]:
    """Return both people of each link, for its holder, without those not loaded."""
    people = np.concatenate([pairs.one[place], pairs.other[place]])
    loaded = people >= 0
    return people[loaded], np.concatenate([holder, holder])[loaded]


def _places(pairs: PeoplePairs, link: Ints) -> Ints:
    """Return the indices of links in the columns."""
    order = np.argsort(pairs.link, kind="stable")
    return np.asarray(order[np.searchsorted(pairs.link[order], link)])


def _links(
    rule: LinkRule, one: Ints, holder: Ints, expansion: Expansion, backlog: EntryColumns
) -> tuple[Ints, Ints]:
    """Return the links (indices) of sets that are past, and for whom.

    A set of several records of one person belongs to all links of that person.
    """
    pairs = backlog.links[rule.relation]
    alone = np.zeros(len(one), np.bool_)
    if isinstance(rule, TabulatedLinkRule):
        alone = expansion.alternative[one] == len(rule.alternatives)
    sets, whole = expansion.sets, one[alone]
    person = backlog.subject[sets.entry[sets.start[whole]]]
    place = [_places(pairs, expansion.unit[one[~alone]])]
    holders = [holder[~alone]]
    for column in (pairs.one, pairs.other):
        order = np.argsort(column, kind="stable")
        number, row = matched(column[order], person)
        place.append(order[row])
        holders.append(holder[alone][number])
    return np.concatenate(place), np.concatenate(holders)


def _alike(
    rule: LinkRule,
    link: Ints,
    holder: Ints,
    backlog: EntryColumns,
    shown: Pairs,
    looked_at: Flags,
) -> tuple[Ints, Ints]:
    """Return the links (indices) whose cosine is past its limit, and for whom.

    Parameters
    ----------
    rule : LinkRule
    link, holder : int64 array, shape (candidates,)
        Links of people of whom a holder saw a place in common: all others have cosine
        0.
    backlog : EntryColumns
    shown : Pairs
    looked_at : bool array, shape (n,)
        Whether each entry is in the rule's fields.
    """
    pairs = backlog.links[rule.relation]
    place, holder = _once(_places(pairs, link), holder)
    one, other = pairs.one[place], pairs.other[place]
    counted = looked_at & np.isin(backlog.subject, np.concatenate([one, other]))
    counted &= (backlog.place >= 0) & (backlog.visits > 0)
    seen = counted[shown.entry] & np.isin(shown.adversary, holder)
    vectors = _vectors(backlog, shown.entry[seen], shown.adversary[seen])
    past = [
        rule.past(rule.reached(vectors[a, mine], vectors[a, theirs]))
        for a, mine, theirs in zip(
            holder.tolist(), one.tolist(), other.tolist(), strict=True
        )
    ]
    kept = np.array(past, np.bool_)
    return place[kept], holder[kept]


def _vectors(
    backlog: EntryColumns, entry: Ints, holder: Ints
) -> defaultdict[tuple[int, int], Counter[int]]:
    """Return visits by place that holders saw of people, by (holder, person)."""
    found: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    columns = holder, *(c[entry] for c in (backlog.subject, backlog.place))
    seen = zip(*(c.tolist() for c in (*columns, backlog.visits[entry])), strict=True)
    for who, person, place, visits in seen:
        found[who, person][place] += visits
    return found
