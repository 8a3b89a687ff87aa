"""A naive referee of instance files: floats and sets, straight from the definition.

It shares nothing with the engine, so that agreeing with it says something.
"""

import math
from itertools import combinations, product


def evaluate(inst, rows):
    """u, f, objective, properties wholly held, and whether the plan is allowed."""
    k = inst["n_adversaries"]
    hands = [set() for _ in range(k)]
    u, fine = 0.0, True
    closed = set(inst.get("history_only_entries") or [])
    for d, row in enumerate(rows):
        fine &= len(row) == 0 if d in closed else 1 <= len(row) <= inst["t"]
        for a in row:
            hands[a].add(d)
            u += inst["weights"][d][a]
    u /= inst["utility_norm"]
    for a, cap in enumerate(inst.get("capacities") or []):
        fine &= cap is None or sum(a in row for row in rows) <= cap
    for d, a in inst.get("prior") or []:
        hands[a].add(d)
    groups = [(a,) for a in range(k)]
    groups += [tuple(g) for g in inst.get("coalition_groups") or []]
    m = inst.get("any_m") or 1
    groups += combinations(range(k), min(m, k)) if m > 1 else []
    f, whole = 0.0, set()
    for group in groups:
        held = set().union(*(hands[a] for a in group))
        shares = []
        for i, p in enumerate(inst["properties"]):
            share, complete = disclosed(inst, p, held)
            shares.append(share)
            if complete:
                whole.add(i)
        if inst["disclosure"]["aggregation"] == "worst":
            f = max([f, *shares])
        elif shares:
            f = max(f, sum(shares) / len(shares))
    objective = u
    match inst["problem"]:
        case "tradeoff":
            objective = u + inst["lambda"] * (inst["tau"] - f)
        case "discbudget":
            fine &= f < inst["tau"]
        case "zero_step":
            fine &= not whole
        case "zero_cosine":
            fine &= f == 0
    return u, f, objective, len(whole), fine


def disclosed(inst, p, held):
    """f of one property, and whether all of it is held."""
    kind = inst["disclosure"]["kind"]
    if kind == "cosine":
        return cosine(inst, [d for d in p["left"] if d in held],
                      [d for d in p["right"] if d in held]), False  # fmt: skip
    if "classes" in p:
        complete = bool(p["classes"]) and all(held & set(c) for c in p["classes"])
        return float(complete), complete
    complete = bool(p["entries"]) and held >= set(p["entries"])
    if kind == "step":
        return float(complete), complete
    s = math.fsum(a for d, a in zip(p["entries"], p["a"], strict=True) if d in held)
    return (s if kind == "linear" else s * s), complete


def cosine(inst, left, right):
    x = {inst["loc"][d]: inst["cnt"][d] for d in left}
    y = {inst["loc"][d]: inst["cnt"][d] for d in right}
    dot = sum(c * y[spot] for spot, c in x.items() if spot in y)
    if not dot:
        return 0.0
    return dot / math.sqrt(
        sum(c * c for c in x.values()) * sum(c * c for c in y.values())
    )


def best(inst):
    """Objective of the best allowed plan, None if there is none: all are tried."""
    closed = set(inst.get("history_only_entries") or [])
    k = inst["n_adversaries"]
    some = [
        list(c)
        for size in range(1, min(inst["t"], k) + 1)
        for c in combinations(range(k), size)
    ]
    choices = [[[]] if d in closed else some for d in range(inst["n_entries"])]
    found = (evaluate(inst, rows) for rows in product(*choices))
    return max((o for _, _, o, _, fine in found if fine), default=None)
