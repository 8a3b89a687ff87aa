"""What nobody may be asked any more, since an accepted join or version passed a limit.

The gate lets who is past a rule's limit on a record, person or link see nothing more of it
in the rule's fields, also where that lies in other sets than the one that is past.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dispatcher.stages.planning.backlog import Backlog
from policies.disclosure import loads
from policies.document.policy import Kind, Scope
from policies.expand import Expansion
from policies.pairings import ToldLink
from policies.problem import Pairs, Problem
from policies.relations import LinkRule
from policies.rules import Rule

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def closed(
    problem: Problem,
    expansion: Expansion,
    backlog: Backlog,
    fields: npt.NDArray[np.str_],
) -> Pairs:
    """Pairs that the gate refuses, whatever else is planned.

    Parameters
    ----------
    problem : Problem
    expansion : Expansion
    backlog : Backlog
        Its entries are those of the problem.
    fields : str array, shape (n,)
        Name of each entry's field.
    """
    entry, adversary = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for one, holder in sorted(set(_past(problem))):
        rule = expansion.rules[int(problem.sets.owner[one])]
        if isinstance(rule, LinkRule) and rule.kind is Kind.COSINE:
            continue  # its sets ask for more than the rule
        mine = _of_unit(rule, one, expansion, backlog) & (backlog.copies > 0)
        places = np.flatnonzero(mine & np.isin(fields, sorted(rule.fields)))
        entry.append(places)
        adversary.append(np.full(len(places), holder, np.int64))
    return Pairs(np.concatenate(entry), np.concatenate(adversary))


def _past(problem: Problem) -> Iterator[tuple[int, int]]:
    """Sets that are past their limit by what was shown, and for whom."""
    if not len(problem.history):
        return
    sets, judged = problem.sets, problem.judged()
    for piece in loads(sets, Pairs(), problem.history):
        over = piece.load > sets.cap[piece.set]
        if judged is not None:
            over &= judged[sets.owner[piece.set], piece.adversary]
        yield from zip(
            piece.set[over].tolist(), piece.adversary[over].tolist(), strict=True
        )


def _of_unit(
    rule: Rule | LinkRule, one: int, expansion: Expansion, backlog: Backlog
) -> Flags:
    """Entries of the record, person or link that a set is of."""
    unit = int(expansion.unit[one])
    if rule.scope is Scope.RECORD:
        return np.asarray(backlog.record == unit)
    if not isinstance(rule, LinkRule):
        return np.asarray(backlog.subject == unit)
    pairs = backlog.links[rule.relation]
    near = pairs.link == unit
    if isinstance(rule, ToldLink) and expansion.alternative[one] == len(
        rule.alternatives
    ):
        # Several records of one person: all links of that person are past.
        person = backlog.subject[expansion.sets.members(one)[0]]
        near = (pairs.one == person) | (pairs.other == person)
    people = np.concatenate([pairs.one[near], pairs.other[near]])
    return np.isin(backlog.subject, people[people >= 0])
