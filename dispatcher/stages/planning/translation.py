"""Translation of the backlog into a problem: adversaries, weights, the Problem."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.model import record_unit, subject_unit
from dispatcher.preflight import Clearance
from dispatcher.stages.planning.backlog import Backlog
from dispatcher.stages.planning.workforce import Workforce, workforce
from dispatcher.store import gold_questions, worker_quality
from dispatcher.store import money as money_rows
from dispatcher.store import planning as rows
from dispatcher.store.transaction import Tx
from policies.model.objective import Preference
from policies.model.problem import Pairs, Problem
from policies.model.sets import NO_CAP
from policies.model.weights import Weights
from policies.planning.blocked_pairs import blocked_pairs
from policies.planning.caps_on_averages import AverageCaps, past_by_history
from policies.planning.cosines import loosened
from policies.planning.policy_objective import (
    averages_of,
    policy_goal,
    weights_of,
    with_policy_utility,
)
from policies.planning.problem import PlanningProblem
from policies.policy import UtilityRow
from policies.rules.entry_table import EntryTable
from policies.rules.expand import Expansion, expand
from policies.rules.field_utility import by_record

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Translation(PlanningProblem):
    """The problem of a backlog, and who can be shown what of it.

    Attributes
    ----------
    backlog : Backlog
    workforce : Workforce
    utility : str or None
        Name of the user's function that u is worked out by.
    """

    backlog: Backlog
    workforce: Workforce
    utility: str | None = None

    def only(self, chosen: Flags) -> Translation:
        """Return the problem in which nothing but the chosen entries is owed."""

        def part(problem: Problem) -> Problem:
            owed = np.where(chosen, problem.lo, 0)
            return replace(problem, lo=owed, hi=np.where(chosen, problem.hi, 0))

        loose = None if self.loose is None else part(self.loose)
        return replace(self, problem=part(self.problem), loose=loose)


def translate(
    tx: Tx,
    force: ActivePolicy,
    backlog: Backlog,
    now: int,
    clear: Clearance,
    prefer: Preference = Preference.UTILITY,
) -> Translation:
    """Build the problem of the backlog, without overcommitted adversaries.

    A merge, or a load that begins windows, can put what an adversary was shown and is
    still planned past a cap on an average. The gate will refuse a part of it; until
    then no plan with that adversary keeps the cap, and it has enough work.

    Raises
    ------
    ValueError
        A rule is of a kind that no plan can judge (never for an applied version).
    """
    made = _translated(tx, force, backlog, now, clear, prefer)
    if not (force.averages and backlog.left):
        return made
    averages = AverageCaps(made)
    past = averages.past() if averages else past_by_history(made.problem)
    if not past:
        return made
    without = frozenset(made.workforce.ids[a] for a in past)
    return _translated(tx, force, backlog, now, clear, prefer, without)


def _translated(
    tx: Tx,
    force: ActivePolicy,
    backlog: Backlog,
    now: int,
    clear: Clearance,
    prefer: Preference,
    without: frozenset[int] = frozenset(),
) -> Translation:
    """Make the problem of the backlog, ``without`` some adversaries."""
    people = workforce(tx, force, backlog, now, clear, without)
    numbers = sorted(force.fields)
    fields = tuple(force.fields[n].name for n in numbers)
    kind = np.searchsorted(np.array(numbers, np.int64), backlog.field).astype(np.int64)
    table = EntryTable(
        fields=fields,
        record=backlog.record,
        subject=backlog.subject,
        field=kind.astype(np.int32),
        time=backlog.time,
        place=backlog.place,
    )
    expansion = expand(force.policy, table, backlog.links, force.levels)
    wheres = [row for row in force.policy.utilities if row.where]
    match = _matches(tx, backlog, wheres)
    problem = Problem(
        sets=expansion.sets,
        lo=backlog.copies,
        hi=backlog.copies,
        weights=weights_of(force.policy, fields, kind, match, people.accounts),
        capacity=_capacity(people),
        forbidden=_forbidden(tx, backlog, people),
        history=_shown(backlog, people),
        trusted=_trusted(expansion, people),
        goal=policy_goal(force.policy),
        averages=tuple(averages_of(force.policy, expansion)),
    )
    names = np.array(fields)[kind] if len(kind) else np.empty(0, np.str_)
    shown = _shown(backlog, people, planned=False)
    never = blocked_pairs(problem, expansion, backlog, names, shown)
    problem = replace(problem, forbidden=problem.forbidden.union(never))
    agreement = prefer is Preference.MOST_AGREEMENT
    if agreement:
        weights = _right_answers_for_money(tx, numbers, kind, people)
        problem = replace(problem, weights=weights)
    elif force.worth is not None:
        worth = by_record(force.worth, fields, backlog.record, kind)
        problem = with_policy_utility(problem, worth, force.policy, people.accounts)
    made = Translation(
        problem=problem,
        expansion=expansion,
        backlog=backlog,
        workforce=people,
        fields=fields,
        kind=kind,
        trusted=people.trusted,
        utility=None if agreement else force.policy.budget.utility,
    )
    return replace(
        made, loose=loosened(problem, expansion, made.cosines, backlog, names)
    )


KNOWN_BY: Final = 10
"""Answers to made-up questions of a field that count as much as those of all fields."""


def _right_answers_for_money(
    tx: Tx, numbers: Sequence[int], kind: Ints, people: Workforce
) -> Weights:
    """Return w_da: the chance that an answer is right, over what it costs.

    An account's accuracy in a field is that in the field's made-up questions, drawn
    towards its accuracy in all. A field earns its run's bonus, with the fee of markets
    that pay; the highest price is 1. Without bonuses all cost the same.
    """
    gold = {row[:2]: row[2:] for row in worker_quality.gold_by_field(tx)}
    budgets = [row for row in money_rows.budgets(tx) if row.bonus]
    at_market = [b.bonus_with_fee(at_market=True) / b.bonus for b in budgets]
    dear = sum(at_market) / len(budgets) if budgets else 1.0
    factor = np.ones((len(people), max(1, len(numbers))))
    for a, accounts in enumerate(people.accounts):
        for column, field_id in enumerate(numbers):
            total = 0.0
            for one in accounts:
                asked, right = gold.get((one.id, field_id), (0, 0))
                chance = (right + KNOWN_BY * one.quality) / (asked + KNOWN_BY)
                cheap = dear if one.connector not in people.clear.pays else 1.0
                total += chance * cheap
            factor[a, column] = total / len(accounts)
    worth = np.full(len(kind), 1.0)
    return Weights.scaled(kind, worth, factor / max(dear, 1.0))


def _capacity(people: Workforce) -> Ints | None:
    caps = [
        NO_CAP if None in rooms else sum(r for r in rooms if r is not None)
        for rooms in people.rooms
    ]
    if all(cap == NO_CAP for cap in caps):
        return None
    return np.array(caps, np.int64)


def _shown(backlog: Backlog, people: Workforce, *, planned: bool = True) -> Pairs:
    """Past (and planned) showings to the adversaries that are still there."""
    ids = np.array(people.ids, np.int64)
    if not len(ids):
        return Pairs()
    place = np.minimum(np.searchsorted(ids, backlog.shown_adversary), len(ids) - 1)
    there = ids[place] == backlog.shown_adversary
    if not planned:
        there &= backlog.shown
    return Pairs(backlog.shown_entry[there], place[there])


def _forbidden(tx: Tx, backlog: Backlog, people: Workforce) -> Pairs:
    """Return forbidden pairs: repetitions, acquaintances, and what cannot be sent."""
    shown = _shown(backlog, people)
    again = backlog.copies[shown.entry] > 0
    entry = [shown.entry[again]]
    adversary = [shown.adversary[again]]
    for connectors, never in _by_connectors(people).items():
        able = np.zeros(len(backlog), np.bool_)
        for name in connectors:
            able |= people.carried[name]
        places = np.flatnonzero(~able & (backlog.copies > 0))
        entry.append(np.tile(places, len(never)))
        adversary.append(np.repeat(never, len(places)))
    index = {number: i for i, number in enumerate(people.ids)}
    for holder, unit in rows.recused(tx):
        if holder not in index:
            continue
        owner, column = unit // 2, backlog.record
        if unit == subject_unit(owner):
            column = backlog.subject
        else:
            assert unit == record_unit(owner)
        places = np.flatnonzero((column == owner) & (backlog.copies > 0))
        entry.append(places)
        adversary.append(np.full(len(places), index[holder], np.int64))
    for holder, field_id in _unqualified(tx, people):
        places = np.flatnonzero((backlog.field == field_id) & (backlog.copies > 0))
        entry.append(places)
        adversary.append(np.full(len(places), holder, np.int64))
    return Pairs(np.concatenate(entry), np.concatenate(adversary))


def _by_connectors(people: Workforce) -> dict[frozenset[str], list[int]]:
    """Adversaries (places) by the connectors of their accounts."""
    found: dict[frozenset[str], list[int]] = defaultdict(list)
    for place, accounts in enumerate(people.accounts):
        found[frozenset(account.connector for account in accounts)].append(place)
    return found


def _unqualified(tx: Tx, people: Workforce) -> Iterator[tuple[int, int]]:
    """Adversaries (places) none of whose accounts may pass a field's test any more."""
    failed: dict[int, set[int]] = defaultdict(set)
    for account_id, field_id in gold_questions.failed_for_good(tx):
        failed[account_id].add(field_id)
    if failed:
        for place, accounts in enumerate(people.accounts):
            lost = set.intersection(*(failed[account.id] for account in accounts))
            yield from ((place, field_id) for field_id in sorted(lost))


def _trusted(expansion: Expansion, people: Workforce) -> npt.NDArray[np.bool_] | None:
    if not any(people.trusted):
        return None
    return np.array(
        [[rule.name in names for names in people.trusted] for rule in expansion.rules],
        np.bool_,
    ).reshape(len(expansion.rules), len(people))


def _matches(tx: Tx, backlog: Backlog, wheres: Sequence[UtilityRow]) -> Ints:
    """Bit i of an entry is set if row i's ``where`` is true for its record.

    The cells are compared here and discarded: only the bits are kept.
    """
    if not wheres:
        return np.zeros(len(backlog), np.int64)
    names = {load: json.loads(text) for load, text in rows.loaded_columns(tx).items()}
    of_record: dict[int, int] = {}
    for record, load, raw in rows.cells(tx):
        cells = dict(zip(names[load], json.loads(bytes(raw)), strict=False))
        of_record[record] = sum(
            1 << i
            for i, row in enumerate(wheres)
            if all(cells.get(name) == value for name, value in row.where.items())
        )
    return np.array([of_record.get(r, 0) for r in backlog.record.tolist()], np.int64)
