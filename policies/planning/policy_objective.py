"""The objective of a policy: the goal, caps on averages, and the worth of showings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from policies.model.problem import Average, Goal, Problem
from policies.model.utility_functions import ByRecord, Utilities
from policies.model.weights import Weights
from policies.policy import Policy, UtilityRow
from policies.rules.expand import Expansion

Ints = npt.NDArray[np.int64]

STEPS: Final = 1_000
"""Utilities and factors are rounded to 1 / this."""


class Worker(Protocol):
    """An account as the policy's utility rows see it."""

    @property
    def text(self) -> str:
        """``CONNECTOR/NAME``."""

    @property
    def quality(self) -> float:
        """Accuracy of its answers, in [0, 1]."""


def policy_goal(policy: Policy) -> Goal:
    """Return the goal of a plan under the policy."""
    budget = policy.budget
    return Goal(
        objective=budget.objective,
        lambda_=budget.lambda_,
        tau=budget.tau if budget.tau is not None else Fraction(0),
    )


def averages_of(policy: Policy, expansion: Expansion) -> Iterator[Average]:
    """Yield the caps on averages: of all rules, then of each."""
    if policy.budget.average is not None:
        yield Average(tuple(range(len(expansion.rules))), policy.budget.average)
    for number, rule in enumerate(expansion.rules):
        if rule.average is not None:
            yield Average((number,), rule.average)


def weights_of(
    policy: Policy,
    fields: tuple[str, ...],
    kind: Ints,
    match: Ints,
    people: Sequence[Sequence[Worker]],
) -> Weights:
    """Return w_da = field utility x product of the matching rows, in thousandths.

    Entries that match the same rows with ``where`` are of one kind.

    Parameters
    ----------
    policy : Policy
    fields : tuple of str
        Field of each kind of entry.
    kind : int64 array, shape (n,)
        Index into ``fields`` of each entry.
    match : int64 array, shape (n,)
        Bit i is set if the entry's record matches the i-th row with ``where``.
    people : Sequence of Sequence of Worker
        Active accounts of each adversary.
    """
    wheres = [row for row in policy.utilities if row.where]
    pairs, of_entry = np.unique(
        np.column_stack([kind, match]), axis=0, return_inverse=True
    )
    factor = np.ones((len(people), max(1, len(pairs))))
    for column, (number, mask) in enumerate(pairs.tolist()):
        chosen = [r for i, r in enumerate(wheres) if mask >> i & 1]
        chosen += [r for r in policy.utilities if not r.where]
        for a, accounts in enumerate(people):
            factor[a, column] = _mean_factor(chosen, accounts, fields[number])
    utility = np.array([float(policy.entity.fields[f].utility) for f in fields])
    return Weights.scaled(
        of_entry.reshape(-1),
        utility[kind] if len(kind) else np.empty(0),
        factor,
        steps=STEPS,
    )


def with_policy_utility(
    problem: Problem,
    worth: ByRecord,
    policy: Policy,
    people: Sequence[Sequence[Worker]],
) -> Problem:
    """Replace the weights by the user's utility; rows weigh the workers."""
    scale = tuple(
        Fraction(round(_mean_factor(policy.utilities, accounts, "") * STEPS), STEPS)
        for accounts in people
    )
    flat = Weights.flat(problem.n_entries, problem.n_adversaries)
    made = Utilities((worth,) * len(people), scale)
    return replace(problem, weights=flat, utilities=made)


def _mean_factor(
    chosen: Sequence[UtilityRow], accounts: Sequence[Worker], field: str
) -> float:
    """Return the worth of an adversary for a field: the mean over its active accounts."""
    total = 0.0
    for account in accounts:
        product = 1.0
        for row in chosen:
            if (row.fields and field not in row.fields) or not fnmatchcase(
                account.text, row.worker
            ):
                continue
            product *= account.quality if row.from_ else float(row.weight or 0)
        total += product
    return total / len(accounts)
