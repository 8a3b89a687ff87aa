"""Backlogs of the example policies over real records, with history and merged accounts.

``backlogs(directory)`` reads what is there of ``forms_synthea_relational`` (a hospital's
tables), ``forms_sroie`` (receipts) and ``derived_paper_shape`` (check-ins). Of each it
takes a fresh backlog, and one of which a part was shown already, after which some
accounts turned out to be one person: history then counts for who they are together.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from policies.document.reader import parse
from policies.model.problem import Average, Goal, Pairs, Problem
from policies.model.sets import NO_CAP
from policies.model.weights import Weights
from policies.policy import Policy
from policies.rules.entry_table import EntryTable
from policies.rules.expand import expand
from policies.rules.shared_places import PeoplePairs
from policies.solvers import Limits
from policies.solvers.search.ejection_chains import constructed

POLICIES = Path(__file__).parents[1] / "examples" / "policies"
MICROSECONDS = 1_000_000
EACH = 2  # medications of a patient
SHOWN = 0.4  # of the records, before this plan


@dataclass
class Rows:
    """Records as they are read: (record, person, time in seconds, place, its fields)."""

    policy: str
    rows: list[tuple[str, str, int, str, tuple[str, ...]]]
    friends: tuple[tuple[str, str], ...] = ()


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def prescriptions(directory: Path, count: int) -> Rows:
    """Medications of a hospital, two a patient, with the fields of the joined tables."""
    folder = directory / "forms_synthea_relational"
    provider = {row["Id"]: row["PROVIDER"] for row in _table(folder / "encounters.csv")}
    zips = {row["Id"]: row["ZIP"] for row in _table(folder / "patients.csv")}
    rows, seen = [], Counter[str]()
    for i, row in enumerate(_table(folder / "medications.csv")):
        seen[row["PATIENT"]] += 1
        if seen[row["PATIENT"]] > EACH or len(rows) == count:
            continue
        known = {
            "disease": row["REASONDESCRIPTION"],
            "doctor": provider.get(row["ENCOUNTER"]),
            "zip": zips.get(row["PATIENT"]),
        }
        fields = ("patient_name", "birth_date", "gender", "drug")
        fields += tuple(name for name, value in known.items() if value)
        moment = int(np.datetime64(row["START"].rstrip("Z"), "s").astype(np.int64))
        rows.append((f"rx{i}", row["PATIENT"], moment, "", fields))
    return Rows("prescriptions", rows)


def receipts(directory: Path, count: int) -> Rows:
    """Scanned receipts; a merchant's receipts count as one employee's, by turns of five."""
    names = {"company": "merchant", "total": "total", "date": "date"}
    rows, seen = [], Counter[str]()
    for i, path in enumerate(sorted((directory / "forms_sroie" / "key").glob("*"))):
        if i == count:
            break
        known = json.loads(path.read_text(encoding="utf-8"))
        company = known.get("company", "")
        seen[company] += 1
        fields = tuple(names[key] for key in names if known.get(key))
        person = f"{company} {seen[company] // 5}"
        fields += ("card_last4", "signature", "line_items")
        rows.append((path.stem, person, i * 86_400, "", fields))
    return Rows("receipts", rows)


def checkins(directory: Path, name: str, count: int) -> Rows:
    """Check-ins of the first users, whose friends among them are linked."""
    folder = directory / "derived_paper_shape"
    entries = _table(folder / f"{name}_entries.csv")[:count]
    edges = _table(folder / f"{name}_edges.csv")
    rows = []
    for i, row in enumerate(entries):
        place = row["location"]
        rows.append((f"c{i}", row["user"], i * 86_400, place, ("place",)))
    friends = tuple((row["user_a"], row["user_b"]) for row in edges)
    return Rows("checkins", rows, friends)


def problem_of(found: Rows, k: int, seed: int) -> Problem:
    """The problem of a fresh backlog for k workers of different worth and room."""
    path = POLICIES / f"{found.policy}.toml"
    policy = parse(path.read_bytes(), path.name).policy
    assert policy is not None
    fields = tuple(policy.entity.fields)
    people = {p: i for i, p in enumerate(dict.fromkeys(r[1] for r in found.rows))}
    places = {p: i for i, p in enumerate(dict.fromkeys(r[3] for r in found.rows))}
    cells = [
        (record, people[person], fields.index(field), time, places[place])
        for record, (_, person, time, place, own) in enumerate(found.rows)
        for field in own
    ]
    record, subject, kind, time, place = np.array(cells, np.int64).T
    table = EntryTable(
        fields, record, subject, kind.astype(np.int32), time * MICROSECONDS, place
    )
    ends = [(people[a], people[b]) for a, b in found.friends if {a, b} <= set(people)]
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    links = {
        name: PeoplePairs(np.arange(len(pairs)), pairs[:, 0], pairs[:, 1])
        for name in policy.relations
    }
    expansion = expand(policy, table, links)
    lo = np.array([policy.entity.fields[f].answers for f in fields])[kind]
    rng = np.random.default_rng([seed, k])
    utility = np.array([float(policy.entity.fields[f].utility) for f in fields])[kind]
    factor = rng.uniform(0.5, 1.0, (k, len(fields)))
    room = np.full(k, -(-3 * int(lo.sum()) // (2 * k)))
    return Problem(
        sets=expansion.sets,
        lo=lo,
        hi=lo,
        weights=Weights.scaled(kind, utility, factor),
        capacity=room,
        goal=_goal(policy),
        averages=tuple(
            Average((i,), rule.average)
            for i, rule in enumerate(expansion.rules)
            if rule.average is not None
        ),
    )


def _goal(policy: Policy) -> Goal:
    budget = policy.budget
    return Goal(budget.objective, budget.lambda_, budget.tau or Goal().tau)


def later(problem: Problem, merged: int, seed: int) -> Problem:
    """The backlog after a part of it was shown, and some accounts were merged.

    Every entry of the first part was shown to one worker by a plan within the limits;
    ``merged`` pairs of workers are one each from then on.
    """
    rng, n, k = np.random.default_rng(seed), problem.n_entries, problem.n_adversaries
    part = np.arange(n) < SHOWN * n
    before = replace(
        problem, lo=np.where(part, problem.lo, 0), hi=np.where(part, problem.hi, 0)
    )
    rest = replace(before, goal=Goal(), averages=())
    plan = constructed(rest, rng, Limits(work=1.0)).plan
    one = np.unique(plan.entry, return_index=True)[1]
    left = problem.lo - np.bincount(plan.entry[one], minlength=n)
    who = np.concatenate([np.arange(k - merged), np.arange(merged)])
    shown = Pairs(plan.entry[one], who[plan.adversary[one]])
    room = None
    if problem.capacity is not None:
        room = np.zeros(k - merged, np.int64)
        np.add.at(room, who, problem.capacity)
        room = np.minimum(room, NO_CAP)
    weights = problem.weights
    return replace(
        problem,
        lo=left,
        hi=left,
        weights=replace(weights, factor=weights.factor[: k - merged]),
        capacity=room,
        history=shown,
        forbidden=shown,
    )


def backlogs(directory: Path) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """Names of the backlogs of a data directory, and how to make them."""
    sources: list[tuple[str, Callable[[], Rows], int, int]] = [
        ("synthea-60", lambda: prescriptions(directory, 60), 12, 2),
        ("synthea-100", lambda: prescriptions(directory, 100), 20, 2),
        ("sroie-60", lambda: receipts(directory, 60), 8, 1),
        ("sroie-80", lambda: receipts(directory, 80), 10, 2),
        ("brightkite-60", lambda: checkins(directory, "brightkite300", 60), 8, 1),
        ("gowalla-150", lambda: checkins(directory, "gowalla_nyc3266", 150), 12, 2),
    ]
    for name, read, k, merged in sources:

        def fresh(read: Callable[[], Rows] = read, k: int = k) -> Problem:
            return problem_of(read(), k, 0)

        def after(
            fresh: Callable[[], Problem] = fresh, merged: int = merged
        ) -> Problem:
            return later(fresh(), merged, 0)

        yield name, fresh
        yield f"{name}-later", after
