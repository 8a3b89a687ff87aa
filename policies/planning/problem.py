"""A planning problem, with the rules and entries that it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.model.problem import Problem
from policies.rules.expand import Expansion
from policies.rules.kinds import cosine
from policies.rules.link_rules import LinkRule
from policies.rules.shared_places import PeoplePairs

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class EntryColumns:
    """Entries that may be planned, and those that share a unit with them.

    Attributes
    ----------
    record, subject, time : int64 array, shape (n,)
        ``subject`` is -1 if there is none.
    copies : int64 array, shape (n,)
        Copies to plan.
    place, visits : int64 array, shape (n,)
        Number of the entry's place, -1 at none, and its visits, 0 at none.
    links : Mapping of str to PeoplePairs
        By relation that some rule uses.
    """

    record: Ints
    subject: Ints
    time: Ints
    copies: Ints
    place: Ints
    visits: Ints
    links: Mapping[str, PeoplePairs]


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanningProblem:
    """A problem, and the meaning of its numbers.

    Attributes
    ----------
    problem : Problem
        Its entries are indices into the columns.
    expansion : Expansion
    backlog : EntryColumns
    fields : tuple of str
        Field of each kind of entry.
    kind : int64 array, shape (n,)
        Index into ``fields`` of each entry.
    trusted : tuple of frozenset of str
        Rules that are not judged for each adversary.
    loose : Problem or None
        See :func:`policies.planning.cosines.loosened`.
    """

    problem: Problem
    expansion: Expansion
    backlog: EntryColumns
    fields: tuple[str, ...]
    kind: Ints
    trusted: tuple[frozenset[str], ...]
    loose: Problem | None = None

    @property
    def stricter(self) -> frozenset[int]:
        """Properties whose sets are stricter than the policy, and may be dropped."""
        return frozenset(
            number
            for number, rule in enumerate(self.expansion.rules)
            if isinstance(rule, LinkRule) and not rule.monotone
        )

    @property
    def cosines(self) -> list[LinkRule]:
        """The cosine rules, in their order."""
        return [
            rule
            for rule in self.expansion.rules
            if isinstance(rule, LinkRule) and rule.similarity is cosine
        ]
