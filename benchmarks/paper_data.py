"""The problems of the paper's experiments (section 6), seeded.

Synthetic: one u_min ~ U(0, .1); w_da ~ U(.8, 1) with probability .4, else u_min; over k;
every property holds an entry with probability .3; u is normalised by each entry's top t.
The paper names no a_dp: here 1 / |D_p|.

Check-ins: the files of a directory (``*_entries.csv`` with user, location, count;
``*_edges.csv`` with two users), or drawn in the paper's sizes: users live in places,
friends meet where one of both lives.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from policies.model.disclosure import cap_below
from policies.model.links import LinkMeasure, Links, conflict_sets
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal, Problem
from policies.model.sets import NO_CAP, SetSystem
from policies.model.weights import Weights

STEPS = 10**9
ENTRIES, USERS, FRIENDSHIPS = 15_661, 3_266, 2_935
PLACES = 4_000


def weights_of(real: npt.NDArray[np.float64], t: int) -> Weights:
    """w_da, normalised by the sum of each entry's t best."""
    n, k = real.shape
    whole = np.rint(real * STEPS).astype(np.int64)
    top = int(np.sort(whole, axis=1)[:, k - min(t, k) :].sum())
    return Weights(
        np.arange(n), np.ones(n, np.int64), whole.T, Fraction(1, max(1, top))
    )


def sets_of(member: npt.NDArray[np.bool_], measure: Measure) -> SetSystem:
    """One property a row of the table (properties, entries); a_dp = 1 / |D_p|."""
    m, n = member.shape
    size = member.sum(axis=1)
    return SetSystem(
        n_entries=n,
        properties=tuple(f"p{i}" for i in range(m)),
        measures=(measure,) * m,
        owner=np.arange(m),
        start=np.concatenate([[0], np.cumsum(size)]),
        entry=np.nonzero(member)[1],
        amount=np.ones(int(size.sum()), np.int64),
        cap=np.full(m, NO_CAP),
        full=np.maximum(size, 1),
        classes=np.zeros(m, np.bool_),
    )


def synthetic(
    seed: int,
    n: int,
    m: int,
    k: int,
    t: int,
    measure: Measure,
    *,
    average: bool = False,
) -> Problem:
    """TradeOff with lambda = 1 and tau = 0, as the paper generates it."""
    rng = np.random.default_rng([seed, n, m, k])
    u_min = rng.uniform(0.0, 0.1)
    high = rng.random((n, k)) < 0.4
    w = np.where(high, rng.uniform(0.8, 1.0, (n, k)), u_min) / k
    member = rng.random((m, n)) < 0.3
    return Problem(
        sets=sets_of(member, measure),
        lo=np.ones(n, np.int64),
        hi=np.full(n, min(t, k)),
        weights=weights_of(w, t),
        goal=Goal(Objective.TRADEOFF, Fraction(1), Fraction(0), average, m),
    )


def sealed(problem: Problem) -> Problem:
    """The same entries with no property wholly held as a limit: max u."""
    sets = replace(problem.sets, cap=problem.sets.full - 1)
    return replace(problem, sets=sets, goal=Goal(Objective.DISC_BUDGET))


def budget(problem: Problem, tau: Fraction) -> Problem:
    """DiscBudget: max u with f < tau, of the aggregation that the tradeoff has."""
    goal, sets = problem.goal, problem.sets
    asked = replace(goal, objective=Objective.DISC_BUDGET)
    if goal.average:
        every = tuple(range(sets.n_sets))
        cap = Average(every, tau, strict=True, over=goal.over)
        return replace(problem, goal=asked, averages=(cap,))
    caps = [cap_below(Measure.LINEAR, int(full), tau) for full in sets.full]
    return replace(problem, goal=asked, sets=replace(sets, cap=np.array(caps)))


@dataclass(frozen=True)
class Checkins:
    """Entries (user, place, count) and friendships between users."""

    name: str
    user: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    friends: npt.NDArray[np.int64]  # shape (friendships, 2)


def read_checkins(directory: Path) -> list[Checkins]:
    """Every pair of files of the directory, by name."""
    found = []
    for path in sorted(directory.glob("*_entries.csv")):
        edges = path.with_name(path.name.replace("_entries", "_edges"))
        rows = _columns(path, ("user", "location", "count"))
        number = {u: i for i, u in enumerate(dict.fromkeys(rows[0]))}
        spot = {p: i for i, p in enumerate(dict.fromkeys(rows[1]))}
        pairs = zip(*_columns(edges, ("user_a", "user_b")), strict=True)
        friends = {
            tuple(sorted((number[a], number[b])))
            for a, b in pairs
            if a in number and b in number and a != b
        }
        found.append(
            Checkins(
                path.name.removesuffix("_entries.csv"),
                np.array([number[u] for u in rows[0]]),
                np.array([spot[p] for p in rows[1]]),
                np.array([int(c) for c in rows[2]]),
                np.array(sorted(friends), np.int64).reshape(-1, 2),
            )
        )
    return found


def _columns(path: Path, names: tuple[str, ...]) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [[row[name] for row in rows] for name in names]


def drawn_checkins(
    seed: int,
    users: int = USERS,
    entries: int = ENTRIES,
    friendships: int = FRIENDSHIPS,
) -> Checkins:
    """Check-ins of the paper's sizes: a look-alike, not Brightkite."""
    rng = np.random.default_rng([seed, users])
    places = max(2, PLACES * users // USERS)
    home = rng.integers(0, places, users)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < friendships:
        a, b = rng.integers(0, users, 2).tolist()
        if a != b:
            pairs.add((min(a, b), max(a, b)))
    friends = np.array(sorted(pairs), np.int64)
    visits: dict[tuple[int, int], int] = {}
    popular = rng.permutation(places)
    for a, b in friends.tolist():  # friends meet where one of both lives
        if rng.random() < 0.4:
            for user in (a, b):
                visits[user, int(home[a])] = int(rng.geometric(0.2))
    while len(visits) < entries:
        user = int(rng.integers(users))
        spot = int(popular[min(places - 1, int(rng.pareto(1.0) * 40))])
        near = (int(home[user]) + int(rng.integers(0, 5))) % places
        visits[user, near if rng.random() < 0.8 else spot] = int(rng.geometric(0.2))
    keys = sorted(visits)[:entries]
    return Checkins(
        "drawn",
        np.array([u for u, _ in keys]),
        np.array([p for _, p in keys]),
        np.array([visits[key] for key in keys]),
        friends,
    )


def cosine(data: Checkins, seed: int, k: int, t: int, *, zero: bool) -> Problem:
    """The Brightkite problem: average cosine as a tradeoff, or forbidden altogether."""
    rng = np.random.default_rng([seed, k])
    n, places = len(data.user), int(data.place.max()) + 1
    keen = rng.integers(0, k, places)[data.place][:, None] == np.arange(k)
    w = np.where(keen, rng.uniform(0.8, 1.0, (n, k)), 0.1)
    order = np.argsort(data.user, kind="stable")
    start = np.searchsorted(data.user[order], np.arange(int(data.user.max()) + 2))
    link, entry, side = [], [], []
    for i, ends in enumerate(data.friends.tolist()):
        for end, user in enumerate(ends):
            mine = order[start[user] : start[user + 1]].tolist()
            link += [i] * len(mine)
            entry += mine
            side += [end] * len(mine)
    links = Links(
        LinkMeasure.COSINE,
        data.place,
        data.count,
        np.array(link, np.int64),
        np.array(entry, np.int64),
        np.array(side, np.int64),
        len(data.friends),
    )
    objective = Objective.DISC_BUDGET if zero else Objective.TRADEOFF
    return Problem(
        sets=conflict_sets(links) if zero else SetSystem(n),
        lo=np.ones(n, np.int64),
        hi=np.full(n, min(t, k)),
        weights=weights_of(w, t),
        links=links,
        goal=Goal(objective, Fraction(1), Fraction(0), True, max(1, len(data.friends))),
    )
