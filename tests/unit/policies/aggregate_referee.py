"""Aggregates by their definition: fractions over sets and hands, and drawn instances.

It shares nothing with the engine but the file format, so that agreeing says something.
"""

import math
from fractions import Fraction
from itertools import combinations, product

from hypothesis import strategies as st

SETS = ("step", "linear", "quadratic")
LINKS = ("cosine", "common")


def groups_of(document):
    """Hands: adversaries, declared groups, every any_m of them; each group once."""
    k = document["n_adversaries"]
    groups = {(a,) for a in range(k)}
    groups |= {tuple(sorted(g)) for g in document.get("coalition_groups") or []}
    m = document.get("any_m") or 1
    groups |= set(combinations(range(k), min(m, k)))
    return sorted(groups)


def seen(document, rows):
    """f of each hand and property; fractions, for cosine a float."""
    hands = [{d for d, row in enumerate(rows) if a in row}
             for a in range(document["n_adversaries"])]  # fmt: skip
    for d, a in document.get("prior") or []:
        hands[a].add(d)
    for group in groups_of(document):
        held = set().union(*(hands[a] for a in group))
        yield [share(document, p, held) for p in document["properties"]]


def share(document, p, held):
    kind = document["disclosure"]["kind"]
    if kind in LINKS:
        return alike(document, kind, *({d for d in p[e] if d in held}
                                       for e in ("left", "right")))  # fmt: skip
    mine, size = len(held & set(p["entries"])), len(p["entries"])
    if not size:
        return Fraction(0)
    if kind == "step":
        return Fraction(int(mine == size))
    return Fraction(mine, size) ** (1 if kind == "linear" else 2)


def alike(document, kind, left, right):
    x, y = ({document["loc"][d]: document["cnt"][d] for d in e} for e in (left, right))
    dot = sum(c * y.get(spot, 0) for spot, c in x.items())
    if not dot or kind == "common":
        return float(dot > 0)
    squares = (sum(c * c for c in z.values()) for z in (x, y))
    return dot / math.sqrt(math.prod(squares))


def power_sums(document, table):
    """What hands see, before roots: one number each."""
    how, properties = document["disclosure"], document["properties"]
    weights = how.get("property_weights") or [1] * len(properties)
    weights = [Fraction(str(w)) for w in weights]
    over = sum(weights) or 1
    for row in table:
        pairs = list(zip(weights, row, strict=True))
        match how["aggregation"]:
            case "worst":
                yield max((w * f for w, f in pairs), default=0)
            case "average":
                yield sum(w * f for w, f in pairs) / over
            case "soft-max":
                yield sum(w * f ** how["q"] for w, f in pairs) / over
            case "count":
                level = Fraction(str(how["level"]))
                yield sum(w for w, f in pairs if f > level)


def aggregate(document, rows):
    """f as a whole; a float where there are roots."""
    how = document["disclosure"]
    table = list(seen(document, rows))
    summed = how.get("adversaries") == "sum"
    if how["aggregation"] == "count" and not summed:
        table = [[max(column) for column in zip(*table, strict=True)]]
    each = list(power_sums(document, table))
    if how["aggregation"] == "soft-max":
        each = [float(part) ** (1 / how["q"]) for part in each]
    return sum(each) if summed else max(each, default=0)


def evaluate(document, rows):
    """u, f, the objective, and whether the plan is allowed."""
    norm = Fraction(str(document["utility_norm"]))
    fine = all(1 <= len(row) <= document["t"] for row in rows)
    u = sum(Fraction(str(document["weights"][d][a]))
            for d, row in enumerate(rows) for a in row) / norm  # fmt: skip
    for a, cap in enumerate(document.get("capacities") or []):
        fine &= cap is None or sum(a in row for row in rows) <= cap
    f, tau = aggregate(document, rows), Fraction(str(document["tau"]))
    if document["problem"] == "discbudget":
        return u, f, u, fine and below(document, rows, f, tau)
    lambda_ = Fraction(str(document["lambda"]))
    return u, f, u + lambda_ * (tau - Fraction(f)), fine


def below(document, rows, f, tau):
    """f < tau: exactly, but for cosines and sums of roots."""
    how = document["disclosure"]
    if how["aggregation"] != "soft-max":
        return f < tau
    if how.get("adversaries") == "sum" or how["kind"] == "cosine":
        return f < float(tau) - 1e-12
    parts = power_sums(document, list(seen(document, rows)))
    return tau > 0 and max(parts, default=0) < tau ** how["q"]


def plans(document):
    """All assignments, fit or not by capacities."""
    k = document["n_adversaries"]
    some = [list(c) for size in range(1, min(document["t"], k) + 1)
            for c in combinations(range(k), size)]  # fmt: skip
    return product(*[some] * document["n_entries"])


def best(document):
    """Objective of the best allowed plan; None if there is none."""
    found = (evaluate(document, rows) for rows in plans(document))
    return max((value for _, _, value, fine in found if fine), default=None)


@st.composite
def disclosures(draw, kind, many):
    """All aggregations, with all that they can be told."""
    how = {"kind": kind}
    how["aggregation"] = draw(
        st.sampled_from(["worst", "average", "count", "soft-max"])
    )
    if how["aggregation"] == "count":
        how["level"] = draw(st.sampled_from([0.0, 0.37, 0.5]))
    if how["aggregation"] == "soft-max":
        how["q"] = draw(st.sampled_from([1, 2, 3, 32]))
    if draw(st.booleans()):
        how["adversaries"] = draw(st.sampled_from(["max", "sum"]))
    weights = st.lists(
        st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=many, max_size=many
    )
    if draw(st.booleans()):
        how["property_weights"] = draw(weights.filter(lambda w: not w or any(w)))
    return how


@st.composite
def documents(draw, kinds=SETS, asked=("tradeoff", "discbudget")):
    """Up to four entries, three adversaries and three properties."""
    kind = draw(st.sampled_from(kinds))
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    some = st.lists(st.integers(0, n - 1), unique=True, max_size=n)
    properties = []
    for _ in range(draw(st.integers(0, 3))):
        entries = draw(some)
        one = {
            "entries": entries,
            "a": [1 / len(entries)] * len(entries) if entries else [],
        }
        if kind in LINKS:
            one = {"left": entries[:2], "right": entries[2:]}
        properties.append(one)
    row = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=k, max_size=k)
    cap = st.none() | st.integers(1, 3)
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1)).map(list)
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": draw(st.integers(1, 2)),
        "weights": draw(st.lists(row, min_size=n, max_size=n)),
        "utility_norm": 2.0,
        "properties": properties,
        "loc": [0, 1, 0, 1][:n] if draw(st.booleans()) else list(range(n)),
        "cnt": [3, 1, 2, 5][:n],
        "disclosure": draw(disclosures(kind, len(properties))),
        "problem": draw(st.sampled_from(asked)),
        "lambda": draw(st.sampled_from([0.0, 0.5, 1.0, 10.0])),
        "tau": draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0, 3.5])),
        "capacities": draw(st.none() | st.lists(cap, min_size=k, max_size=k)),
        "prior": draw(st.lists(pair, max_size=2, unique_by=tuple)),
        "coalition_groups": draw(st.none() | st.just([list(range(k))[:2]])),
        "any_m": draw(st.sampled_from([None, 1, 2])),
    }


def sound(document):
    """Whether no place stands twice at an end of a link (such files are refused)."""
    if document["disclosure"]["kind"] not in LINKS:
        return True
    ends = [p[e] for p in document["properties"] for e in ("left", "right")]
    return all(len({document["loc"][d] for d in e}) == len(e) for e in ends)
