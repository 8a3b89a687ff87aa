"""Small bundles of evidence for tests, and a judge of them by brute force.

Nothing here is shared with the verifier or the engine: sets are written out as sets of
entries, everything is judged anew after every line, in the order in which a test tells
what happened. The certificate of a bundle is what this judge finds.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

NO_HASH = "0" * 64
SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree_hash(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, as the recursion is printed there."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    both = tree_hash(leaves[:k]) + tree_hash(leaves[k:])
    return hashlib.sha256(b"\1" + both).digest()


def item(name: str, *unit: str, chain: str | None = None) -> dict[str, Any]:
    """One thing that a line accepts as past its limit."""
    found: dict[str, Any] = {"property": name, "unit": list(unit)}
    return found if chain is None else found | {"chain": chain}


TABLED = ("posterior", "information-gain", "mean-information-gain")


def learnt(kind: str, worlds: list[dict[str, Any]], seen: list[int]) -> Fraction:
    """What some columns of a table tell of its secret, to 100 digits."""
    chances = [(w, Fraction(w["chance"])) for w in worlds]
    total = sum(p for _, p in chances)
    secrets = {w["secret"] for w in worlds}
    views = {tuple(w["values"][n] for n in seen) for w in worlds}

    def share(secret: int, view: tuple[int, ...] | None) -> Fraction:
        inside = [
            (w["secret"], p)
            for w, p in chances
            if view in (None, tuple(w["values"][n] for n in seen))
        ]
        return sum(p for s, p in inside if s == secret) / sum(p for _, p in inside)

    if len(secrets) < 2:
        return Fraction(0)
    if kind == "posterior":
        rises = [
            (share(s, view) - share(s, None)) / (1 - share(s, None))
            for s in secrets
            for view in views
        ]
        return max(Fraction(0), *rises)
    with localcontext(prec=100):

        def entropy(view: tuple[int, ...] | None) -> Decimal:
            shares = [share(s, view) for s in secrets if share(s, view)]
            parts = [Decimal(p.numerator) / p.denominator for p in shares]
            return -sum((p * p.ln() for p in parts), Decimal(0))

        left = {}
        for view in views:
            weight = sum(
                p for w, p in chances if tuple(w["values"][n] for n in seen) == view
            )
            part = weight / total
            left[view] = entropy(view), Decimal(part.numerator) / part.denominator
        most = min(h for h, _ in left.values())
        if kind == "mean-information-gain":
            most = sum((h * weight for h, weight in left.values()), Decimal(0))
        steps = (1 - most / entropy(None)) * 10**12
        return Fraction(max(0, math.ceil(steps - Decimal("1e-60"))), 10**12)


class Rule:
    """One property, its sets written out."""

    def __init__(self, name: str, spec: dict[str, Any], source: dict[str, Any]) -> None:
        how = spec.get("disclosure", "step")
        self.how = how if isinstance(how, dict) else {"kind": how}
        self.kind = self.how["kind"]
        self.checked = not self.kind.startswith("plugin:")
        self.tabled = self.kind in TABLED
        self.worlds: list[dict[str, Any]] = []
        self.name, self.scope = name, spec.get("scope", "record")
        self.alternatives = spec["any_of"] if "any_of" in spec else [spec["of"]]
        tau = spec.get("tau", source.get("budget", {}).get("tau", 1))
        self.tau = None if tau == "none" else Fraction(tau)
        # f of a cosine is written as its square, everywhere but in means.
        self.limit = self.tau and (self.tau**2 if self.kind == "cosine" else self.tau)
        self.relation, self.links = spec.get("relation"), list[dict[str, Any]]()
        self.average = spec.get("average")
        span = spec.get("window")
        self.window = None if span is None else int(span[:-1]) * SPANS[span[-1]] * 10**6
        groups = source.get("workers", {}).get("groups", {})
        self.trusted = {g for g in groups if name in groups[g].get("trusted", [])}

    def sets(
        self, keys: dict[str, dict[str, Any]]
    ) -> list[tuple[tuple[str, ...], Any]]:
        """All sets: (unit, (alternative, entries))."""
        found: list[tuple[tuple[str, ...], Any]] = []
        if self.scope == "relation":
            (fields,) = self.alternatives
            for link in self.links:
                inside = {
                    e for e, k in keys.items() if k.get("subject") in link["ends"]
                }
                inside = {e for e in inside if keys[e]["field"] in fields}
                found.append((tuple(link["ends"]), (fields, frozenset(inside))))
            return found
        for fields in self.alternatives:
            units = defaultdict(set)
            for entry, key in keys.items():
                member = "record" if self.scope == "record" else "subject"
                timed = self.window is None or "time" in key
                if key["field"] in fields and member in key and timed:
                    units[key[member]].add(entry)
            for unit, entries in units.items():
                if self.window is None:
                    found.append(((unit,), (fields, frozenset(entries))))
                    continue
                for x in {keys[e]["time"] for e in entries}:
                    inside = {
                        e for e in entries if x <= keys[e]["time"] <= x + self.window
                    }
                    found.append(((unit,), (fields, frozenset(inside))))
        return found

    def f(self, one: Any, held: set[str], keys: dict[str, dict[str, Any]]) -> Fraction:
        fields, entries = one
        inside = entries & held
        if self.tabled:
            return self.by_table(sorted(fields), [keys[e] for e in inside])
        if self.scope == "relation":
            return self.likeness([keys[e] for e in inside])
        seen = {keys[e]["field"] for e in inside}
        if self.kind == "step":
            if "at" in self.how:
                return Fraction(len(inside) >= self.how["at"])
            return Fraction(seen == set(fields))
        if "per" in self.how:
            s = min(Fraction(1), Fraction(self.how["weight"]) * len(inside))
        else:
            weights = self.how.get("weights", {})
            s = sum(
                (Fraction(weights.get(f, Fraction(1, len(fields)))) for f in seen),
                Fraction(0),
            )
        return s if self.kind == "linear" else s * s

    def by_table(self, fields: list[str], held: list[dict[str, Any]]) -> Fraction:
        """By the definition: each part of what is seen, each way round."""
        if self.scope != "relation":
            names, ways = fields, [{k["field"] for k in held}]
        else:
            names = [f"{end}.{f}" for end in ("left", "right") for f in fields]
            ends = sorted({k["subject"] for k in held})
            of = [{k["record"] for k in held if k["subject"] == s} for s in ends]
            if any(len(records) > 1 for records in of):
                return Fraction(1)
            sides = ({0: "left", 1: "right"}, {0: "right", 1: "left"})
            ways = [
                {f"{side[ends.index(k['subject'])]}.{k['field']}" for k in held}
                for side in sides
            ]
        return max(
            learnt(self.kind, self.worlds, [names.index(name) for name in part])
            for way in ways
            for size in range(len(way) + 1)
            for part in combinations(sorted(way), size)
        )

    def likeness(self, held: list[dict[str, Any]]) -> Fraction:
        ends: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for key in held:
            place, column = key["vector"].get(self.how["vector"]), self.how.get("count")
            if place is not None:
                more = 1 if column is None else key["count"].get(column, 0)
                ends[key["subject"]][place] += more
        vectors = [[(p, n) for p, n in end.items() if n] for end in ends.values()]
        if len(vectors) < 2:
            return Fraction(0)
        one, two = vectors
        product = sum(n * m for p, n in one for q, m in two if p == q)
        norms = sum(n * n for _, n in one) * sum(m * m for _, m in two)
        if self.kind == "common" or not product:
            return Fraction(product > 0)
        return Fraction(product**2, norms)

    def number(self, f: Fraction) -> Fraction:
        """f itself, to 200 bits: of a cosine, the root of what stands for it."""
        if self.kind != "cosine":
            return f
        return Fraction(math.isqrt((f.numerator << 400) // f.denominator), 1 << 200)


class Version:
    def __init__(self, text: str, tables: list[dict[str, Any]]) -> None:
        source = tomllib.loads(text, parse_float=Fraction)
        rules = [
            Rule(n, spec, source) for n, spec in source.get("property", {}).items()
        ]
        for rule in rules:
            rule.worlds = [row for row in tables if row["property"] == rule.name]
        self.rules = [rule for rule in rules if rule.checked]
        self.unchecked = {rule.name for rule in rules if not rule.checked}
        budget = source.get("budget", {})
        self.average = budget.get("average")
        (entity,) = source["entity"].values()
        self.t = {
            name: budget.get("t", field.get("answers", 1) + 2)
            for name, field in entity["fields"].items()
            if field.get("send", True)
        }


class World:
    """Tell what happens, line by line; then write the bundle."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []  # as told, all chains
        self.heads: dict[str, tuple[int, str]] = {}  # chain -> seq, hash
        self.sealed: dict[str, int] = {}
        self.now = 1_000
        self.texts: list[str] = []
        self.tables: list[list[dict[str, Any]]] = []  # by version
        self.keys_lines: list[dict[str, Any]] = []
        self.links: list[dict[str, Any]] = []
        # the judge
        self.versions: list[Version] = []
        self.keys: dict[str, dict[str, Any]] = {}
        self.held: dict[str, set[str]] = {}
        self.groups: dict[str, dict[str, list[str]]] = {}
        self.accepted: dict[str, set[tuple[str, ...]]] = {}
        self.ended: set[str] = set()
        self.showings: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
        self.extra: dict[str, int] = defaultdict(int)
        self.joins: list[dict[str, Any]] = []
        self.tally = dict.fromkeys(("accepted", "exposures", "seals"), 0)
        self.worst: dict[str, tuple[Fraction, str, int, Fraction]] = {}
        self.violations: list[tuple[int, str, int, str, str]] = []
        self.unneeded = False  # something was accepted that was not past its limit
        self.wanted: list[dict[str, Any]] = []  # what should have been accepted

    # -- what happens --

    def line(self, chain: str, kind: str, **members: Any) -> dict[str, Any]:
        seq, prev = self.heads.get(chain, (0, NO_HASH))
        new = {
            "chain": chain,
            "kind": kind,
            "seq": seq + 1,
            "prev": prev,
            "at": self.now,
        }
        new |= members
        if chain != "system":
            new["policy"] = len(self.versions)
        new["hash"] = sha256((prev + canonical(new)).encode())
        self.heads[chain] = seq + 1, new["hash"]
        self.lines.append(new)
        self.tally["accepted"] += len(new.get("accepted", []))
        return new

    def load(
        self, keys: list[dict[str, Any]], links: list[dict[str, Any]] = ()
    ) -> None:
        members = {}
        for name, rows in (("keys", keys), ("relations", links)):
            members[f"{name}_count"] = len(rows)
            raw = "".join(canonical(row) + "\n" for row in rows)
            members[f"{name}_sha256"] = sha256(raw.encode())
        self.line("system", "keys", facts_sha256=sha256(b""), **members)
        self.keys_lines += keys
        self.links += links
        for key in copy.deepcopy(keys):
            old = self.keys.setdefault(key["entry"], key)
            for member, value in key.items():
                old[member] = old[member] | value if member == "vector" else value

    def policy(
        self,
        text: str,
        accepted: list[dict[str, Any]] = (),
        tables: list[dict[str, Any]] = (),
    ) -> None:
        self.texts.append(text)
        self.tables.append(list(tables))
        pinned = {}
        if tables:
            raw = "".join(canonical(row) + "\n" for row in tables)
            pinned["tables_sha256"] = sha256(raw.encode())
        line = self.line(
            "system",
            "policy",
            version=len(self.texts),
            sha256=sha256(text.encode()),
            functions_sha256=sha256(b""),
            accepted=list(accepted),
            **pinned,
        )
        self.versions.append(Version(text, list(tables)))
        for rule in self.versions[-1].rules:  # links hold from the next policy line on
            rule.links = [x for x in self.links if x["relation"] == rule.relation]
        for chain in set(self.held) - self.ended:
            mine = {
                (i["property"], *i["unit"]) for i in accepted if i["chain"] == chain
            }
            self.accepted[chain] = set()
            self.judge(chain, line, mine, self.heads[chain][0])

    def member(
        self, chain: str, account: str, groups: tuple[str, ...] = (), accepted: Any = ()
    ) -> None:
        line = self.line(
            chain,
            "member",
            account=account,
            groups=list(groups),
            accepted=list(accepted),
        )
        self.held.setdefault(chain, set())
        self.accepted.setdefault(chain, set())
        self.groups.setdefault(chain, {})[account] = list(groups)
        self.judge(chain, line, {(i["property"], *i["unit"]) for i in accepted})

    def expose(self, chain: str, account: str, entry: str) -> None:
        line = self.line(
            chain, "exposure", account=account, entry=entry, cause="served"
        )
        self.tally["exposures"] += 1
        if entry in self.held[chain]:
            return
        self.held[chain].add(entry)
        version, field = self.versions[-1], self.keys[entry]["field"]
        place = (line["at"], chain, line["seq"])
        self.showings[entry].append((len(self.versions), *place))
        if field not in version.t:
            self.violations.append((*place, chain, "fields.send"))
        for rule in self.judged(chain):
            units = {u for u, (_, entries) in rule.sets(self.keys) if entry in entries}
            for unit, f in self.fs(rule, chain).items():
                if unit in units and self.note(rule, f, chain, line["seq"]):
                    self.violations.append((*place, chain, rule.name))

    def join(
        self,
        *chains: str,
        cause: str = "merge",
        because: str = "same person",
        accepted: Any = (),
    ) -> None:
        members = {"cause": cause, "because": because, "chains": list(chains)}
        first = self.line(chains[0], "join", **members, accepted=list(accepted))
        for chain in chains[1:]:
            self.line(chain, "join", **members, accepted=list(accepted))
            self.tally["accepted"] -= len(accepted)
            self.held[chains[0]] |= self.held.pop(chain)
            self.groups[chains[0]] |= self.groups.pop(chain)
            self.accepted[chains[0]] |= self.accepted.pop(chain)
            self.ended.add(chain)
        self.joins.append(members)
        self.judge(chains[0], first, {(i["property"], *i["unit"]) for i in accepted})

    def unburn(self, entry: str, extra: int) -> None:
        self.line("system", "unburn", entry=entry, extra=extra, because="asked again")
        self.extra[entry] += extra

    def seal(self) -> str:
        heads = {
            chain: seq
            for chain, (seq, _) in self.heads.items()
            if chain != "system" and seq > self.sealed.get(chain, 0)
        }
        prev = self.heads.get("system", (0, NO_HASH))[1]
        ends = {chain: digest for chain, (_, digest) in self.heads.items()} | {
            "system": prev
        }
        root = tree_hash([f"{c}:{ends[c]}".encode() for c in sorted(ends)]).hex()
        self.sealed |= heads
        self.line("system", "seal", heads=heads, root=root)
        self.tally["seals"] += 1
        return root

    # -- the judge --

    def judged(self, chain: str) -> list[Rule]:
        rules = self.versions[-1].rules if self.versions else []
        groups = self.groups[chain].values()
        return [r for r in rules if not all(r.trusted & set(g) for g in groups)]

    def fs(self, rule: Rule, chain: str) -> dict[tuple[str, ...], Fraction]:
        """f of every unit: the largest over its sets."""
        found: dict[tuple[str, ...], Fraction] = {}
        for unit, one in rule.sets(self.keys):
            f = rule.f(one, self.held[chain], self.keys)
            found[unit] = max(f, found.get(unit, f))
        return found

    def note(self, rule: Rule, f: Fraction, chain: str, seq: int) -> bool:
        """Remember the worst share; tell whether the limit is crossed."""
        if rule.tau is None or rule.limit is None:
            return False
        share = f / rule.limit
        square = share if rule.kind == "cosine" else share**2
        new = (-square, chain, seq, share)
        self.worst[rule.name] = min(new, self.worst.get(rule.name, new))
        return f >= rule.limit

    def judge(
        self, chain: str, line: Any, items: set[Any], seq: int | None = None
    ) -> None:
        needed = set()
        for rule in self.judged(chain):
            for unit, f in self.fs(rule, chain).items():
                past = self.note(rule, f, chain, seq or line["seq"])
                if past and (rule.name, *unit) not in self.accepted[chain]:
                    needed.add((rule.name, *unit))
        self.wanted += [
            item(name, *unit, chain=chain if line["kind"] == "policy" else None)
            for name, *unit in needed
        ]
        self.wanted.sort(key=lambda i: (i.get("chain", ""), i["property"], i["unit"]))
        for name, *_ in needed - items:
            place = (line["at"], line["chain"], line["seq"])
            self.violations.append((*place, chain, name))
        self.unneeded |= bool({i for i in items if len(i) > 1} - needed)
        self.accepted[chain] |= items

    def ends(self) -> list[tuple[int, str, int, str, str]]:
        """All violations, with those that only the end can tell."""
        found = list(self.violations)
        for entry, showings in self.showings.items():
            for version in {s[0] for s in showings}:
                t = self.versions[version - 1].t.get(self.keys[entry]["field"])
                count = sum(1 for s in showings if s[0] <= version)
                if t is not None and count > t + self.extra[entry]:
                    _, at, chain, seq = max(s for s in showings if s[0] == version)
                    found.append((at, chain, seq, chain, "budget.t"))
        last = self.lines[-1]
        for chain in self.held if self.versions else ():
            every: list[Fraction] = []
            for rule in self.judged(chain):
                fs = [
                    rule.number(rule.f(one, self.held[chain], self.keys))
                    for _, one in rule.sets(self.keys)
                    if rule.f(one, set(self.keys), self.keys)
                ]
                every += fs
                if (
                    self.above(fs, rule.average)
                    and (rule.name,) not in self.accepted[chain]
                ):
                    found.append((last["at"], "system", last["seq"], chain, rule.name))
            asked = ("budget.average",) not in self.accepted[chain]
            asked = asked and not self.versions[-1].unchecked
            if asked and self.above(every, self.versions[-1].average):
                found.append(
                    (last["at"], "system", last["seq"], chain, "budget.average")
                )
        return sorted(found)

    @staticmethod
    def above(fs: list[Fraction], average: Fraction | None) -> bool:
        if average is None or not fs:
            return False
        # roots are cut to 200 bits: a mean a hair above or below its limit is at it
        return sum(fs) / len(fs) - average > Fraction(1, 1 << 150)

    # -- the files --

    def certificate(self) -> dict[str, Any]:
        unchecked = {name for version in self.versions for name in version.unchecked}
        if self.versions and self.versions[-1].unchecked and self.versions[-1].average:
            unchecked.add("budget.average")
        worst = {
            rule.name: {"share": "0"}
            for version in self.versions
            for rule in version.rules
            if rule.tau is not None
        }
        for name, (_, chain, seq, share) in self.worst.items():
            if share:
                worst[name] = {"share": str(share), "chain": chain, "seq": seq}
        seal = self.lines[-1]
        return {
            "format": 1,
            "heads": {chain: digest for chain, (_, digest) in self.heads.items()},
            "seal": {"seq": seal["seq"], "root": seal.get("root", NO_HASH)},
            "policies": {
                str(n): sha256(t.encode()) for n, t in enumerate(self.texts, 1)
            },
            "counts": self.tally
            | {
                "accounts": sum(len(g) for g in self.groups.values()),
                "adversaries": len(self.held),
                "entries": len(self.keys),
                "joins": len(self.joins),
                "links": len(self.links),
            },
            "joins": sorted(self.joins, key=lambda join: join["chains"]),
            "not_checked": sorted(unchecked),
            "worst": worst,
            "assumed": ["accounts are who they say"],
            "engine": "tests",
            "time": self.now,
        }

    def write(self, folder: Path, order: list[dict[str, Any]] | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(self.texts, 1):
            (folder / f"policy-{number}.toml").write_bytes(text.encode())
        files = {
            f"tables-{number}.jsonl": rows
            for number, rows in enumerate(self.tables, 1)
            if rows
        } | {
            "keys.jsonl": self.keys_lines,
            "relations.jsonl": self.links,
            "ledger.jsonl": self.lines if order is None else order,
            "cert.json": [self.certificate()],
        }
        for name, rows in files.items():
            raw = "".join(canonical(row) + "\n" for row in rows)
            (folder / name).write_bytes(raw.encode())
        return folder


# -- worlds by chance --

NAMES = ("a", "b", "c", "d")


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def some(rng: np.random.Generator, options: Sequence[str], least: int = 0) -> list[str]:
    size = int(rng.integers(least, len(options) + 1))
    return [options[i] for i in rng.permutation(len(options))[:size]]


def random_rule(rng: np.random.Generator, number: int) -> list[str]:
    scope, of = pick(rng, ("record", "subject", "relation")), some(rng, NAMES, 1)[:3]
    table = rng.random() < 0.25
    of = of[:2] if table else of
    rows = [f"[property.p{number}]", f'scope = "{scope}"']
    if scope == "subject" and rng.random() < 0.5:
        rows.append(f'window = "{rng.integers(1, 4)}s"')
    if rng.random() < 0.7:
        rows.append(f"tau = {pick(rng, ('1', '0.5', '0.75', '0.3'))}")
    if rng.random() < 0.2:
        rows.append(f"average = {pick(rng, ('0.1', '0.3', '0.5'))}")
    if table:
        rows += [f'relation = "{pick(rng, "qr")}"'] * (scope == "relation")
        how = f'kind = "{pick(rng, TABLED)}", table = "worlds.csv"'
        return [*rows, f"of = {json.dumps(of)}", f"disclosure = {{ {how} }}"]
    if scope == "relation":
        how = (
            f'kind = "{pick(rng, ("common", "cosine"))}", vector = "{pick(rng, "vw")}"'
        )
        how += pick(rng, ("", ', count = "n"'))
        rows += [f'relation = "{pick(rng, "qr")}"', f"of = {json.dumps(of)}"]
        return [*rows, f"disclosure = {{ {how} }}"]
    kind = pick(rng, ("step", "any", "at", "linear", "quadratic"))
    if kind == "any":
        return [*rows, f"any_of = {json.dumps([of, [*some(rng, NAMES, 1)[:2], 'e']])}"]
    rows.append(f"of = {json.dumps(of)}")
    if kind == "at":
        most = len(of) if scope == "record" else 4
        rows.append(
            f'disclosure = {{ kind = "step", at = {rng.integers(1, most + 1)} }}'
        )
    elif kind != "step" and (scope == "subject" or rng.random() < 0.5):
        weight = pick(rng, ("0.2", "0.25", "0.4"))
        rows.append(
            f'disclosure = {{ kind = "{kind}", per = "entry", weight = {weight} }}'
        )
    elif kind != "step":
        shares = {1: ("1",), 2: ("0.4", "0.6"), 3: ("0.2", "0.3", "0.5")}[len(of)]
        weights = ", ".join(f"{f} = {w}" for f, w in zip(of, shares, strict=True))
        rows.append(f'disclosure = {{ kind = "{kind}", weights = {{ {weights} }} }}')
    return rows


def random_tables(rng: np.random.Generator, text: str) -> list[dict[str, Any]]:
    """Tables for the rules of a policy that have one."""
    rows = []
    for name, spec in tomllib.loads(text).get("property", {}).items():
        how = spec.get("disclosure", "step")
        if isinstance(how, dict) and how["kind"] in TABLED:
            columns = len(spec["of"]) * (1 + (spec["scope"] == "relation"))
            for _ in range(int(rng.integers(1, 5))):
                values = [int(n) for n in rng.integers(0, 2, columns)]
                row = {"property": name, "chance": str(rng.integers(1, 9))}
                row |= {"secret": int(rng.integers(0, 3)), "values": values}
                rows.append(row)
    return rows


def random_policy(rng: np.random.Generator) -> str:
    rows = ["version = 1", 'name = "x"', "[budget]"]
    if rng.random() < 0.7:
        rows.append(f"t = {rng.integers(2, 4)}")
    if rng.random() < 0.2:
        rows.append(f"average = {pick(rng, ('0.05', '0.2', '0.5'))}")
    rows += ["[entity.e]", 'key = "id"', 'subject = "s"', 'time = "t"']
    rows.append("[entity.e.fields]")
    for name in (*NAMES, "e"):
        unsent = rng.random() < 0.05
        rows.append(f"{name} = {{ send = false }}" if unsent else f"{name} = {{}}")
    for name in "qr":
        rows += [f"[relation.{name}]", 'source = "x.csv"', 'ends = ["a", "b"]']
    numbers = sorted({int(n) for n in rng.integers(0, 6, size=3)})
    for number in numbers:
        rows += random_rule(rng, number)
    for group in "gh":
        if rng.random() < 0.5:
            trusted = json.dumps(some(rng, [f"p{n}" for n in numbers]))
            rows += [
                f"[workers.groups.{group}]",
                'members = ["*"]',
                f"trusted = {trusted}",
            ]
    return "\n".join(rows) + "\n"


class Story:
    """Tell a world by chance; mostly what must be accepted is, sometimes not."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.world, self.entries = rng, World(), list[str]()
        self.forgets = pick(rng, (0.0, 0.0, 0.3))
        self.accounts: dict[str, list[str]] = {}
        self.load(int(rng.integers(4, 13)))
        for chain in some(rng, ("A", "B", "C", "\u00e9", "Z\u2028"), 1):
            self.accounts[chain] = [f"x/{chain}"]
            # No two chains share a group, or they would have to be one adversary.
            self.world.member(chain, f"x/{chain}", self.groups(chain))

    def groups(self, chain: str) -> tuple[str, ...]:
        mine = {"A": "g", "B": "h"}.get(chain, "")
        return tuple(some(self.rng, mine))

    def load(self, size: int) -> None:
        rows = []
        for _ in range(size):
            number = len(self.entries)
            record = number // 3
            row = {"entry": f"e{number:03}", "record": f"r{record}"}
            row["field"] = pick(self.rng, (*NAMES, "e"))
            row["subject"], row["time"] = (
                f"s{record // 2}",
                record * 700_000 % 3_000_000,
            )
            rows.append(row)
            row["vector"] = {c: pick(self.rng, "xyz") for c in some(self.rng, "vw")}
            row["count"] = {
                c: int(self.rng.integers(1, 4)) for c in some(self.rng, "n")
            }
            self.entries.append(row["entry"])
        self.world.load(rows, self.links(int(self.rng.integers(0, 5))))

    def links(self, size: int) -> list[dict[str, Any]]:
        found = []
        for _ in range(size):
            ends = sorted(some(self.rng, [f"s{n}" for n in range(5)], 2)[:2])
            link = {"relation": pick(self.rng, "qr"), "ends": ends}
            if link not in self.world.links + found:
                found.append(link)
        return found

    def more(self) -> list[dict[str, Any]]:
        """Known entries, with columns that they lacked: for the next version."""
        rows = []
        for name in some(self.rng, self.entries)[:2]:
            row = {m: self.world.keys[name][m] for m in ("entry", "record", "field")}
            old = self.world.keys[name]["vector"]
            row["vector"] = {c: "x" for c in "vw" if c not in old}
            rows.append(row)
        return rows

    def accepting(self, tell: Callable[[World, list[dict[str, Any]]], None]) -> None:
        trial = copy.deepcopy(self.world)
        trial.wanted = []
        tell(trial, [])
        items = [i for i in trial.wanted if self.rng.random() >= self.forgets]
        tell(self.world, items)

    def step(self) -> None:
        rng, world = self.rng, self.world
        chance, chain = rng.random(), pick(rng, sorted(self.accounts))
        account = pick(rng, self.accounts[chain])
        if chance < 0.12 or not world.versions:
            text = random_policy(rng)
            if rng.random() < 0.3:
                world.load(self.more())
            tables = random_tables(rng, text)
            self.accepting(lambda w, items: w.policy(text, items, tables))
        elif chance < 0.22:
            if rng.random() < 0.5:
                account = f"x/{chain}{len(world.lines)}"
                self.accounts[chain].append(account)
            groups = self.groups(chain)
            self.accepting(lambda w, items: w.member(chain, account, groups, items))
        elif chance < 0.28 and len(self.accounts) > 1:
            one, two, *_ = rng.permutation(sorted(self.accounts)).tolist()
            self.accepting(lambda w, items: w.join(one, two, accepted=items))
            self.accounts[one] += self.accounts.pop(two)
        elif chance < 0.32:
            self.load(int(rng.integers(0, 4)))
        elif chance < 0.36:
            world.seal()
        elif chance < 0.4:
            world.unburn(pick(rng, self.entries), 1)
        else:
            world.expose(chain, account, pick(rng, self.entries))


def random_world(rng: np.random.Generator) -> World:
    story = Story(rng)
    for _ in range(int(rng.integers(5, 30))):
        story.world.now += int(rng.integers(0, 3))
        story.step()
    if story.world.joins and rng.random() < 0.1:  # an item without need
        story.world.member("late", "x/late", (), [item("p0", "r0")])
    story.world.seal()
    return story.world


def shuffled(
    lines: list[dict[str, Any]], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Mix the chains anew; each keeps its order."""
    queues: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        queues[line["chain"]].append(line)
    return [
        queues[str(chain)].pop(0)
        for chain in rng.permutation([x["chain"] for x in lines])
    ]
