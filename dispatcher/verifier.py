"""Check a bundle of evidence, alone: ``python verifier.py DIR [--head HEX ...]``.

Every byte, hash and seal is checked; then what every *adversary* was exposed to is
replayed, and after every line the disclosure f of every sensitive *set* must be below
tau: exactly, on integers and fractions. First line of output and exit status:
``VERIFIED`` 0, ``VIOLATED`` 1, ``BROKEN`` 2 (wrong usage: 2). The words are the paper's:
an *entry* is one field of one record, a *property* a rule whose sets of entries are
sensitive, an *adversary* one account or several taken as one; a *unit* is the record or
subject that a rule makes its sets for. Relation rules are not read yet: BROKEN.

Memory: files are read line by line; of an exposure 64 bytes stay, of an entry about 400,
of other lines all but their seal. What is held of which unit by whom, the larger part, is
kept for ``PART`` entries and exposures at a time: whole components of records and
subjects, so that no unit is cut.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial, reduce
from hashlib import sha256
from io import TextIOWrapper
from itertools import islice, pairwise
from math import ceil, lcm
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

PART = 400_000  # entries and exposures that are replayed at a time
LONGEST = 1 << 24  # bytes of a line with its LF
LEDGER, USAGE = "ledger.jsonl", "usage: python verifier.py DIR [--head HEX ...]"
Json = Any  # what a file holds, until its form is checked
Check = Callable[[Json], bool]
Reached = tuple[str, int]  # chain and seq of an adversary
Items = set[tuple[str, ...]]  # property and unit
State = Any  # what is held of a unit: its tally, or (time, bit) of each entry, sorted


class BrokenError(Exception):
    """The bundle contradicts itself or its format: no verdict on limits is due."""


def need(holds: object, what: str, line: int = 0, file: str = LEDGER) -> None:
    """Break with this finding unless it holds."""
    if not holds:
        found: dict[str, Json] = {"file": file, "what": what}
        raise BrokenError(found | ({"line": line} if line else {}))


# -- Forms: what a line, or a table of the policy, may be ----------------------------

FORMS: dict[str, Check] = {
    "any": lambda _: True,
    "one": lambda x: type(x) is int and x == 1,
    "flag": lambda x: type(x) is bool,
    "text": lambda x: type(x) is str and x != "",
    "hash": lambda x: type(x) is str and bool(re.fullmatch("[0-9a-f]{64}", x)),
    "time": lambda x: type(x) is int and -(2**63) <= x < 2**63,
    "natural": lambda x: type(x) is int and 0 <= x < 2**63,
    "whole": lambda x: type(x) is int and 1 <= x < 2**63,
    "amount": lambda x: type(x) in (int, Fraction) and 0 <= x < 2**200,
    "share": lambda x: type(x) in (int, Fraction) and 0 < x <= 1,
    "tau": lambda x: x == "none" or FORMS["share"](x),
    "default": lambda x: x == "none" or (type(x) in (int, Fraction) and x <= 1),
    "span": lambda x: (
        type(x) is str and bool(re.fullmatch(r"0*[1-9]\d{,12}[smhdw]", x))
    ),
    "pair": lambda x: form("<text>")(x) and len(x) == 2,
    "unit": lambda x: form("<text>")(x) and len(x) <= 2,
    "entity": lambda x: form("{record}")(x) and len(x) == 1,
}
# A table a line: its members ("?": if any; "+": and those of another table). (x) is a
# non-empty list without repeats, [x] a list, <x> a sorted list without doubles, {x} a
# table of any names, a|b one of these words.
GRAMMAR = """
line chain:text seq:whole prev:hash hash:hash kind:text at:time
merge because:text cause:group|merge chains:(text)
relations relations_count:natural relations_sha256:hash
past property:text unit:unit
past-by-chain +past chain:text
member +line policy:natural account:text groups:<text> accepted:<past>
exposure +line policy:whole account:text entry:text cause:text
join +line +merge policy:natural accepted:<past>
system/policy +line version:whole sha256:hash accepted:<past-by-chain>
system/keys +line keys_count:natural keys_sha256:hash +relations
system/unburn +line entry:text extra:whole because:text
system/seal +line heads:{whole} root:hash
places vector?:{text} count?:{whole}
keys.jsonl +places entry:text record:text field:text subject?:text time?:time
relations.jsonl relation:text ends:pair
seal seq:whole root:hash
worst share:text chain?:text seq?:whole
outcome accepted:natural joins:natural links:natural seals:natural
counts +outcome accounts:natural adversaries:natural entries:natural exposures:natural
summary not_checked:<text> worst:{worst} assumed:[text] engine:text time:time
lists format:one heads:{hash} seal:seal policies:{hash} counts:counts joins:[merge]
cert.json +summary +lists
shown utility?:amount send?:flag free?:flag redact?:[text] image?:text answers?:whole
asked ask?:transcribe|choose|number|date|yes_no|spans|table question?:any help?:any
field +shown +asked choices?:(text) columns?:(text) min?:any max?:any
record key:text subject?:text time?:text retain?:span layout?:{any} fields:{field}
budget objective?:disc-budget|tradeoff tau?:default average?:share t?:whole lambda?:amount
limits tau?:tau average?:share window?:span disclosure?:any note?:any
rule +limits of?:(text) any_of?:((text)) scope?:record|subject|relation relation?:text
relation source:text ends:(text)
group members:(text) trusted?:[text]
workers groups?:{group}
utility worker?:text field?:any where?:{any} weight?:amount from?:text
capacity total?:whole open?:whole per_day?:whole per_hour?:whole
facts seen?:[text] seen_by?:{any} same_subject?:any facts?:{any}
test +facts name:text worker:text ask:text expect:allow|deny by?:text
uses utility?:[utility] capacity?:{capacity} test?:[test] workers?:workers
rules relation?:{relation} property?:{rule}
policy +uses +rules version:one name:text budget?:budget entity:entity
f/step kind:text at?:whole
f/linear kind:text weights?:{share} per?:entry weight?:share
f/quadratic +f/linear
f/common kind:text vector:text count?:text
f/cosine +f/common
f/posterior kind:text table:text prior?:any
f/information-gain +f/posterior
"""
TABLES: dict[str, dict[str, str]] = {}
for title, *parts in map(str.split, GRAMMAR.strip().split("\n")):
    TABLES[title] = {m: f for m, _, f in (part.partition(":") for part in parts) if f}
    for other in (part[1:] for part in parts if part[0] == "+"):
        TABLES[title] |= TABLES[other]


def form(name: str) -> Check:
    """Find the check of a form, or build it from the grammar."""
    if name not in FORMS:
        words: Check = name.split("|").__contains__
        if name in TABLES:
            FORMS[name] = partial(fits, {m: form(f) for m, f in TABLES[name].items()})
        elif name[0] in "([<{":
            FORMS[name] = partial(holds_items, name[0], form(name[1:-1]))
        FORMS.setdefault(name, words)
    return FORMS[name]


def holds_items(bracket: str, item: Check, x: Json) -> bool:
    """Tell whether x is a list or a table of such items, as the bracket asks."""
    if bracket == "{":
        return type(x) is dict and "" not in x and all(map(item, x.values()))
    if type(x) is not list or not all(map(item, x)):
        return False
    if bracket == "<":  # tables are compared by their values, in order of name
        ordered = [[i] if type(i) is str else [*i.values()] for i in x]
        return all(a < b for a, b in pairwise(ordered))
    return bracket == "[" or 0 < len(x) == len({str(i) for i in x})


def fits(forms: dict[str, Check], x: Json) -> bool:
    """Tell whether x is a table of just these members, all of them unless "?"."""
    if type(x) is not dict:
        return False
    for name in forms:
        if name[-1] != "?" and name not in x:
            raise ValueError(f"member `{name}` is missing")
    for name, value in x.items():
        known = forms.get(name) or forms.get(f"{name}?")
        if not known or name[-1:] == "?" or not known(value):
            raise ValueError(f"member `{name[:40]}` is unknown or not of its form")
    return True


# -- Bytes: lines of JSON in canonical form ------------------------------------------

ENCODE = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False
).encode
# Nearly every line is an exposure or a key whose texts need no escapes. This is the
# canonical form of those, member by member; what does not match takes the long way.
TEXT, INT, HASH = r'([^"\\\x00-\x1f]+)', "([1-9][0-9]{,17})", "([0-9a-f]{64})"
EXPOSURE = re.compile(
    f'{{"account":"{TEXT}","at":{INT},"cause":"{TEXT}","chain":"{TEXT}",'
    f'"entry":"{TEXT}","hash":"{HASH}","kind":"exposure","policy":{INT},'
    f'"prev":"{HASH}","seq":{INT}}}'
)
ENTRY = re.compile(
    f'{{"entry":"{TEXT}","field":"{TEXT}","record":"{TEXT}"'
    f'(?:,"subject":"{TEXT}")?(?:,"time":{INT})?}}'
)


def raw_lines(folder: Path, name: str) -> Iterator[tuple[int, bytes, str]]:
    """Stream a file: number, bytes and text of each line."""
    need((folder / name).is_file(), "missing, or not a file", file=name)
    with (folder / name).open("rb") as file:
        reader = iter(partial(file.readline, LONGEST + 1), b"")
        for number, raw in enumerate(reader, 1):
            if len(raw) > LONGEST or raw[-1] != 10:
                need(False, "too long, or not ended by LF", number, name)
            try:
                text = raw[:-1].decode()
            except UnicodeDecodeError:
                need(False, "the line is not UTF-8", number, name)
            yield number, raw, text


def parse(text: str, number: int, name: str, shape: str = "") -> Json:
    """Read a line of JSON: canonical, and of its form (in the ledger: by its kind)."""
    plain = ENTRY.fullmatch(text) if name == "keys.jsonl" else None
    if plain:
        entry, field, record, subject, time = plain.groups()
        line = {"entry": entry, "field": field, "record": record, "subject": subject}
        return line | {"time": time and int(time)}
    try:
        line = json.loads(text)
        right = type(line) is dict and ENCODE(line) == text
        need(right, "the line is not an object in canonical form", number, name)
        if not shape:
            shape = "system/" * (line.get("chain") == "system") + str(line.get("kind"))
            need(shape in LINES, "the line is of no kind of its chain", number)
        form(shape)(line)
    except (ValueError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else "the line is not JSON"
        need(False, what, number, name)
    return line


OF_CHAIN = ("chain", "seq", "prev", "hash")
LINES = {"member", "exposure", "join", *(t for t in TABLES if t.startswith("system/"))}

# -- The policy, and its properties --------------------------------------------------

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DECIMAL = re.compile("[+-]?([0-9.]+)(?:[eE][+-]?0*([0-9]{1,2}))?")


def decimal(text: str) -> Fraction:
    """Read a TOML float exactly; digits and exponent are checked before any sum."""
    found = DECIMAL.fullmatch(text.replace("_", ""))
    digits = found[1].replace(".", "").lstrip("0") if found else "no number"
    if not found or len(digits) > 30 or int(found[2] or 0) > 30:
        raise ValueError("a number is no decimal of at most 30 digits, exponent +-30")
    return Fraction(found[0])


class Rule:
    """A property of one version: the sets it makes, and f over what is held.

    Of a set, what counts is the *tally* of its state: their number where the rule counts
    entries, else the fields as bits. f is kept times ``scale``, an integer.
    """

    def __init__(self, name: str, spec: Json, policy: Json) -> None:
        how = spec.get("disclosure", "step")
        how = how if type(how) is dict else {"kind": how}
        if str(how.get("kind")).startswith("plugin:"):
            how = {"kind": how["kind"]}  # its parameters are its own
        sets = spec["any_of"] if "any_of" in spec else [spec.get("of", [])]
        fields = list(dict.fromkeys(f for one in sets for f in one))
        tau = spec.get("tau", policy.get("budget", {}).get("tau", 1))
        groups = policy.get("workers", {}).get("groups", {})
        if not allowed(spec, how, fields, tau, policy):
            raise ValueError(f"property `{name}` is outside the language")
        self.name, self.kind = name, how["kind"]
        self.checked = self.kind in ("step", "linear", "quadratic")
        self.of_record = spec.get("scope", "record") == "record"
        self.timed, span = "window" in spec, spec.get("window", "0s")
        self.window = int(span[:-1]) * SECONDS[span[-1]] * 1_000_000
        self.needs = ["subject"] * (not self.of_record) + ["time"] * self.timed
        self.at, self.weight = how.get("at", 0), how.get("weight", 0)
        self.counting = bool(self.at or self.weight)
        self.bits = {f: 0 if self.counting else 1 << n for n, f in enumerate(fields)}
        self.masks = [sum(self.bits[f] for f in one) for one in sets]
        weights = how.get("weights") or dict.fromkeys(fields, Fraction(1, len(fields)))
        self.weights = [(self.bits[f], weights[f]) for f in fields]
        terms = [self.weight] if self.weight else weights.values()
        power = {"linear": 1, "quadratic": 2}.get(self.kind, 0)
        self.scale = lcm(*(Fraction(term).denominator for term in terms)) ** power
        self.tau, self.average = None if tau == "none" else tau, spec.get("average")
        self.limit = None if self.tau is None else ceil(self.tau * self.scale)
        self.trusted = {g for g in groups if name in groups[g].get("trusted", [])}
        self.known: dict[int, int] = {}  # largest f, by tally
        self.top, self.place = 0, ("", 0)  # the largest f judged, and where

    def disclosed(self, tally: int) -> list[int]:
        """Give f of each set over what a tally says: one, or one an alternative."""
        if self.at:
            return [int(tally >= self.at)]
        if self.kind == "step":
            return [int(tally & mask == mask) for mask in self.masks]
        held = sum(weight for bit, weight in self.weights if tally & bit)
        s = Fraction(min(1, self.weight * tally) if self.weight else held)
        return [int((s * s if self.kind == "quadratic" else s) * self.scale)]

    def add(self, held: dict[str, State], key: Key) -> State:
        """Add an entry to what is held; give what is held of its unit."""
        unit = key.record if self.of_record else key.subject
        bit = self.bits[key.field]
        if self.timed:
            insort(held.setdefault(unit, []), (key.time, bit))
        else:
            tally = held.get(unit, 0)
            held[unit] = tally + 1 if self.counting else tally | bit
        return held[unit]

    def each_set(self, held: State, everything: State) -> Iterator[int]:
        """Give f of every set of a unit: a window from each time of an entry on."""
        if not self.timed:
            yield from self.disclosed(held)
        for since in dict(everything) if self.timed else ():
            first = bisect_left(held, (since, -1))
            last = bisect_left(held, (since + self.window + 1, -1))
            bits = (bit for _, bit in held[first:last])
            tally = last - first if self.counting else reduce(or_, bits, 0)
            yield from self.disclosed(tally)

    def past(self, held: State, chain: str, seq: int) -> bool:
        """Tell whether a unit is past its limit; remember the largest f judged."""
        f = None if self.timed else self.known.get(held)
        if f is None:
            f = max(self.each_set(held, held))
            if not self.timed:
                self.known[held] = f
        if f >= self.top and (f > self.top or (chain, seq) < self.place):
            self.top, self.place = f, (chain, seq)
        return self.limit is not None and f >= self.limit


def allowed(spec: Json, how: Json, fields: list[str], tau: Json, policy: Json) -> bool:
    """Tell whether a property keeps what the language asks beyond its grammar."""
    entity, kind = next(iter(policy["entity"].values())), str(how.get("kind"))
    declared, scope = entity["fields"], spec.get("scope", "record")
    weights, sums = how.get("weights"), kind in ("linear", "quadratic")
    if kind in ("common", "cosine") and scope == "relation":
        raise ValueError("relation rules are not read by this verifier")
    return all(
        (
            kind[:7] == "plugin:" or (f"f/{kind}" in TABLES and form(f"f/{kind}")(how)),
            ("of" in spec) != ("any_of" in spec),
            all(f in declared and not declared[f].get("free") for f in fields),
            FORMS["tau"](tau),  # the budget's own is no matter where no rule uses it
            tau != "none" or policy.get("budget", {}).get("objective") == "tradeoff",
            scope == "record" or "subject" in entity,
            scope != "relation" or spec.get("relation") in policy.get("relation", {}),
            scope != "relation" or not (sums or kind == "step"),
            kind not in ("common", "cosine"),
            "window" not in spec or (scope == "subject" and "time" in entity),
            "any_of" not in spec or how == {"kind": "step"},
            scope != "record" or how.get("at", 0) <= len(fields),
            ("per" in how) == ("weight" in how),
            not sums or scope == "record" or "per" in how,
            not weights or (scope == "record" and "per" not in how),
            not weights or weights.keys() == set(fields),
            not weights or sum(weights.values()) == 1,
        )
    )


class Policy:
    """One version as applied: what may be sent, how often, and its rules."""

    def __init__(self, line: Json, source: Json) -> None:
        self.line, specs = line, source.get("property", {})
        budget, entities = source.get("budget", {}), source.get("entity", {})
        self.average, self.showings = budget.get("average"), dict[str, int]()  # t
        for entity in entities.values():
            for name, field in entity["fields"].items():
                if field.get("send", True):
                    self.showings[name] = budget.get("t", field.get("answers", 1) + 2)
        self.groups = source.get("workers", {}).get("groups", {})
        trusted = {name for g in self.groups.values() for name in g.get("trusted", [])}
        if trusted - specs.keys():
            raise ValueError("a group is trusted with an unknown property")
        rules = [Rule(name, spec, source) for name, spec in specs.items()]
        self.rules = [rule for rule in rules if rule.checked]
        self.unchecked = {rule.name for rule in rules if not rule.checked}
        self.of_field: dict[str, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            for name in rule.bits:
                self.of_field[name].append(rule)


def read_policy(folder: Path, line: Json) -> Policy:
    """Read the file of a version: the bytes that were applied, and in the language."""
    name = f"policy-{line['version']}.toml"
    need((folder / name).is_file(), "missing, or not a file", file=name)
    raw = (folder / name).read_bytes()
    need(sha256(raw).hexdigest() == line["sha256"], "not what was applied", file=name)
    try:
        source = tomllib.loads(raw.decode("utf-8-sig"), parse_float=decimal)
        form("policy")(source)
        return Policy(line, source)
    except (ValueError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else "no TOML 1.0"
        found = {"file": name, "what": f"outside the language: {what}"}
        raise BrokenError(found) from None


# -- The bundle: chains and seals, keys, then the replay -----------------------------


class Key(NamedTuple):
    """One entry as far as rules need it: a field of a record."""

    entry: int
    field: str
    record: str
    subject: Json = None
    time: Json = None
    vector: Json = None
    count: Json = None


def merged(old: Json, new: Json) -> Json:
    """Add what a later line says of an entry; it may not change anything."""
    if type(old) is dict and type(new) is dict and old | new == new | old:
        return old | new
    need(None in (old, new) or old == new, "a line changes an entry", 0, "keys.jsonl")
    return new if old is None else old


class Chain:
    """The lines of one chain, in columns; ``other`` has all lines but exposures."""

    def __init__(self) -> None:
        self.last, self.digests = "0" * 64, bytearray()
        self.at, self.policy = array("q"), array("q")
        self.account, self.entry = array("q"), array("q")
        self.other: dict[int, Json] = {}


class Adversary:
    """One account or several taken as one: what is held, and what was accepted."""

    def __init__(self) -> None:
        self.accounts: dict[int, list[str]] = {}  # groups, by account
        self.keys: dict[int, Key] = {}  # held
        self.held: dict[Rule, dict[str, State]] = defaultdict(dict)  # by unit
        self.judged: list[Rule] = []  # the rules that it is not trusted with
        self.accepted: Items = set()  # since the last policy line

    def trust(self, rules: list[Rule]) -> list[Rule]:
        """Say anew which rules are judged; give those that were not before."""
        before, groups = self.judged, self.accounts.values()
        self.judged = [r for r in rules if not all(r.trusted & {*g} for g in groups)]
        return [rule for rule in self.judged if rule not in before]


class Audit:
    """What the files say, and what is found in them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seal = folder, {"seq": 0}
        self.chains: dict[str, Chain] = {}
        self.accounts: dict[str, int] = {}  # the texts by number, as for entries
        self.entries: dict[str, int] = {}
        self.policies = [Policy({}, {})]
        self.keys: dict[int, list[Key]] = defaultdict(list)  # by version in force
        self.loads: list[tuple[int, Json]] = []  # version in force, the line
        self.unburnt = Counter[str]()  # showings, by entry
        self.joins: list[Json] = []
        self.owed = Counter[tuple[str, int]]()  # accepted, and no need so far
        self.counts = dict.fromkeys(TABLES["counts"], 0)
        self.violations: list[tuple[int, str, int, str, str]] = []
        self.sets, self.sums = Counter[Rule](), Counter[tuple[str, Rule]]()

    def violate(self, at: int, chain: str, seq: int, adversary: str, name: str) -> None:
        """Note a violation; only the least is kept."""
        self.violations = [min([*self.violations, (at, chain, seq, adversary, name)])]

    def read_ledger(self) -> None:
        """Read the ledger: every line canonical, of its form, chained by its hash."""
        accounts, entries = self.accounts, self.entries
        for number, raw, text in raw_lines(self.folder, LEDGER):
            plain, line = EXPOSURE.fullmatch(text), None
            if plain and plain[4] != "system":
                account, at, _, name, entry, digest, policy, prev, seq = plain.groups()
                at, policy, seq = int(at), int(policy), int(seq)
            else:
                line = parse(text, number, LEDGER)
                name, digest, prev = line["chain"], line["hash"], line["prev"]
                at, policy, seq = line["at"], line.get("policy", 0), line["seq"]
                account, entry = line.get("account"), line.get("entry")
            chain = self.chains.get(name) or self.chains.setdefault(name, Chain())
            if seq != len(chain.at) + 1 or prev != chain.last:
                need(False, "the line does not follow the one before it", number)
            if chain.at and (at < chain.at[-1] or policy < chain.policy[-1]):
                need(False, "`at` or `policy` falls within the chain", number)
            rest = raw[:-1].replace(f'"hash":"{digest}",'.encode(), b"", 1)
            if sha256(prev.encode() + rest).hexdigest() != digest:
                need(False, "the line has not the hash that it says", number)
            chain.last = digest
            chain.digests += bytes.fromhex(digest)
            chain.at.append(at)
            chain.policy.append(policy)
            if line and line["kind"] != "exposure":
                chain.other[seq] = line
                chain.account.append(-1)
                chain.entry.append(-1)
            else:
                self.counts["exposures"] += 1
                chain.account.append(accounts.setdefault(account, len(accounts)))
                chain.entry.append(entries.setdefault(entry, len(entries)))

    def read_structure(self) -> None:
        """Order chains, so that what ended is replayed before what it was joined to."""
        ends: dict[str, str] = {}
        for name, chain in self.chains.items():
            for seq, line in chain.other.items():
                first, *_ = line.get("chains", [name])
                if first != name:
                    need(name in line["chains"], "a join of other chains")
                    need(seq == len(chain.at), "a chain goes on after its end")
                    ends[name] = first
                elif "accepted" in line:
                    self.counts["accepted"] += len(line["accepted"])
                    items = sum(1 for item in line["accepted"] if item["unit"])
                    self.owed[name, seq] = items
                    if "chains" in line:
                        self.joins.append({m: line[m] for m in TABLES["merge"]})
        ranks = dict.fromkeys(sorted(self.chains.keys() - {"system"}), 0)
        for name in ends:
            on = name
            while on in ends:
                ranks[name], on = ranks[name] - 1, ends[on]
                need(-ranks[name] <= len(ends), "joins wait for one another")
        self.order = sorted(ranks, key=lambda name: ranks[name])
        self.joins.sort(key=lambda join: join["chains"])
        self.counts["joins"] = len(self.joins)
        self.counts["adversaries"] = len(ranks) - len(ends)

    def read_system(self, heads: set[str]) -> None:
        """Walk the chain of the system: policies, loads, unburnt showings and seals."""
        system, before = self.chains.get("system", Chain()), 0
        sealed, leaves = Counter[str](), dict[str, str]()
        for seq, line in system.other.items():
            kind, version = line["kind"], len(self.policies) - 1
            where = f"line {seq} of system: "
            if kind == "policy":
                need(line["version"] == version + 1, where + "not the next version")
                self.policies.append(read_policy(self.folder, line))
            elif kind == "keys":
                self.loads.append((version, line))
            elif kind == "unburn":
                self.unburnt[line["entry"]] += line["extra"]
            else:
                for name, last in line["heads"].items():
                    first, chain = sealed[name], self.chains.get(name, Chain())
                    right = name != "system" and first < last <= len(chain.at)
                    need(right, where + "a head is not of a chain that grew")
                    ends = chain.policy[first], chain.policy[last - 1]
                    right = before <= ends[0] and ends[1] <= version
                    need(right, where + "what it covers names another version")
                    sealed[name] = last
                    leaves[name] = chain.digests[32 * last - 32 : 32 * last].hex()
                leaves["system"], before, self.seal = line["prev"], version, line
                right = merkle_root(leaves) == line["root"]
                need(right, where + "the root is not that of the heads")
                heads.discard(line["root"])
                self.counts["seals"] += 1
        lengths = {name: len(self.chains[name].at) for name in self.order}
        right = sealed == lengths and self.seal["seq"] == len(system.at) > 0
        need(right, "the last line of system is not a seal of all lines")
        need(not heads, "a head that was noted is not the root of a seal")
        known = {f"policy-{n}.toml" for n in range(1, len(self.policies))}
        for path in self.folder.glob("policy-*.toml"):
            right = path.name in known or not path.stem[7:].isdecimal()
            need(right, "the ledger has no such version", file=path.name)

    def load(self, name: str) -> Iterator[tuple[int, Json]]:
        """Stream keys or relations, load by load, as the ledger counts and hashes them."""
        lines, what = raw_lines(self.folder, name), name.partition(".")[0]
        for version, line in self.loads:
            digest, missing = sha256(), line[f"{what}_count"]
            for number, raw, text in islice(lines, missing):
                digest.update(raw)
                missing -= 1
                yield version, parse(text, number, name, name)
            right = not missing and digest.hexdigest() == line[f"{what}_sha256"]
            need(right, "a load is not what the ledger counted and hashed", file=name)
        need(next(lines, None) is None, "there are lines beyond the loads", file=name)

    def read_keys(self) -> int:
        """Read keys and relations; cut entries into parts of whole components."""
        numbers, texts, links = self.entries, dict[str, str](), set[str]()
        for version, line in self.load("keys.jsonl"):
            for name in ("field", "record", "subject"):
                if line.get(name) is not None:
                    line[name] = texts.setdefault(line[name], line[name])
            line["entry"] = numbers.setdefault(line["entry"], len(numbers))
            self.keys[version].append(Key(**line))
        for _, line in self.load("relations.jsonl"):
            link = ENCODE(line)
            need(link not in links, "a pair stands twice", file="relations.jsonl")
            links.add(link)
        self.counts["links"] = len(links)
        need(self.unburnt.keys() <= numbers.keys(), "unburn of an unknown entry")
        self.extra = Counter({numbers[name]: n for name, n in self.unburnt.items()})
        self.part = array("q", bytes(8 * len(numbers)))
        parts = 1 + (len(numbers) + self.counts["exposures"]) // PART
        above: dict[str, str] = {}  # from records and subjects to their component

        def component(name: str) -> str:
            while above.setdefault(name, name) != name:
                above[name] = name = above[above[name]]
            return name

        keys = [key for keys in self.keys.values() for key in keys] if parts > 1 else []
        for key in keys:
            if key.subject is not None:
                above[component(f"r{key.record}")] = component(f"s{key.subject}")
        for key in keys:
            place = crc32(component(f"r{key.record}").encode())
            self.part[key.entry] = place % parts
        return parts

    def replay(self, part: int) -> None:
        """Replay the lines of a part, in order of version and there chain by chain."""
        self.here: dict[int, Key] = {}  # the entries loaded by now
        self.showings: dict[int, list[tuple[int, int, str, int]]] = defaultdict(list)
        self.adversaries: dict[str, Adversary] = {}
        self.waiting: dict[str, dict[str, Adversary]] = defaultdict(dict)  # at joins
        self.brought: set[int] = set()  # accounts
        for version, policy in enumerate(self.policies):
            self.version, self.policy = version, policy
            if version:
                self.apply()
            for new in self.keys[self.version]:
                if self.part[new.entry] == part:
                    old = self.here.setdefault(new.entry, new)
                    if old is not new:
                        self.here[new.entry] = Key(*map(merged, old, new))
            for name in self.order:
                chain = self.chains[name]
                first = bisect_left(chain.policy, self.version)
                for n in range(first, bisect_left(chain.policy, self.version + 1)):
                    if chain.entry[n] < 0:
                        self.change(name, chain.other[n + 1])
                    elif self.part[chain.entry[n]] == part:
                        self.expose(name, n, chain)
        need(not self.waiting, "a join is not in each of its chains")
        self.counts["entries"] += len(self.here)
        self.judge_showings()
        self.sum_sets()

    def apply(self) -> None:
        """Put a version in force: judge all that every adversary holds by then."""
        items: dict[str, Items] = defaultdict(set)
        for item in self.policy.line["accepted"]:
            items[item["chain"]].add((item["property"], *item["unit"]))
        for name, who in self.adversaries.items():
            who.accepted, who.held = set(), defaultdict(dict)
            who.keys = {entry: self.here[entry] for entry in who.keys}
            for key in who.keys.values():
                self.hold(who, key)
            who.trust(self.policy.rules)
            reached = name, bisect_left(self.chains[name].policy, self.version)
            self.judge(who, who.judged, reached, self.policy.line, items[name])

    def hold(self, who: Adversary, key: Key) -> list[tuple[Rule, State]]:
        """Add an entry to what is held; give the units that have it."""
        units = []
        for rule in self.policy.of_field.get(key.field, ()):
            for name in rule.needs:
                if getattr(key, name) is None:
                    need(False, f"an entry lacks its `{name}`", file="keys.jsonl")
            units.append((rule, rule.add(who.held[rule], key)))
        return units

    def expose(self, name: str, n: int, chain: Chain) -> None:
        """Book an exposure: every unit that has the entry must keep its limit."""
        who, key = self.adversaries.get(name), self.here.get(chain.entry[n])
        if who is None or key is None or chain.account[n] not in who.accounts:
            found = f"line {n + 1} of {name}: its entry or account is not here by then"
            raise BrokenError({"file": LEDGER, "what": found})
        if key.entry in who.keys:
            return
        who.keys[key.entry] = key
        self.showings[key.entry].append((self.version, chain.at[n], name, n + 1))
        if key.field not in self.policy.showings:
            self.violate(chain.at[n], name, n + 1, name, "fields.send")
        for rule, state in self.hold(who, key):
            if rule in who.judged and rule.past(state, name, n + 1):
                self.violate(chain.at[n], name, n + 1, name, rule.name)

    def change(self, name: str, line: Json) -> None:
        """Bring an account, or join: what is then past its limit must be accepted."""
        others: dict[str, Adversary] = {}
        who = self.adversaries.setdefault(name, Adversary())
        if line["kind"] == "member":
            account = self.accounts.setdefault(line["account"], len(self.accounts))
            right = account in who.accounts or account not in self.brought
            need(right, f"an account of {name} is in another adversary")
            who.accounts[account] = line["groups"]
            self.brought.add(account)
        else:
            same = ENCODE({m: line[m] for m in line if m not in OF_CHAIN})
            if name != line["chains"][0]:
                self.waiting[same][name] = self.adversaries.pop(name)
                return
            others = self.waiting.pop(same, {})
            right = {name, *others} == {*line["chains"]}
            need(right, f"a join of {name} is not in each of its chains")
        for other in others.values():
            who.accounts |= other.accounts
            who.accepted |= other.accepted
            for entry in other.keys.keys() - who.keys.keys():
                who.keys[entry] = other.keys[entry]
                self.hold(who, who.keys[entry])
        fresh = who.trust(self.policy.rules)
        items = {(item["property"], *item["unit"]) for item in line["accepted"]}
        rules = who.judged if others or items else fresh
        self.judge(who, rules, (name, line["seq"]), line, items)

    def judge(
        self, who: Adversary, rules: list[Rule], at: Reached, line: Json, items: Items
    ) -> None:
        """Judge all units: those past their limit were accepted before, or are now."""
        new = items - who.accepted
        for rule in rules:
            for unit, state in who.held[rule].items():
                past = rule.past(state, *at)
                if past and (rule.name, unit) in new:
                    self.owed[line["chain"], line["seq"]] -= 1
                elif past and (rule.name, unit) not in who.accepted:
                    where = line["at"], line["chain"], line["seq"]
                    self.violate(*where, at[0], rule.name)
        who.accepted |= items

    def judge_showings(self) -> None:
        """Judge t: the showings under versions up to N, against t of N and the extra."""
        for entry, showings in self.showings.items():
            showings.sort()
            for version in {showing[0] for showing in showings}:
                until = [showing for showing in showings if showing[0] <= version]
                t = self.policies[version].showings.get(self.here[entry].field, 2**63)
                if len(until) > t + self.extra[entry]:
                    _, at, chain, seq = until[-1]
                    self.violate(at, chain, seq, chain, "budget.t")

    def sum_sets(self) -> None:
        """Sum f over all sets of this part, by rule and adversary, for the averages."""
        averages = [self.policy.average, *(rule.average for rule in self.policy.rules)]
        for rule in self.policy.rules if any(averages) else ():
            everything: dict[str, State] = {}
            for key in self.here.values():
                lacks = any(getattr(key, member) is None for member in rule.needs)
                if key.field in rule.bits and not lacks:
                    rule.add(everything, key)
            for state in everything.values():
                self.sets[rule] += sum(map(bool, rule.each_set(state, state)))
            for name, who in self.adversaries.items():
                for unit, state in who.held[rule].items():
                    self.sums[name, rule] += sum(rule.each_set(state, everything[unit]))

    def finish(self) -> None:
        """Judge what only the end can tell: items without need, groups, averages."""
        for name, seq in +self.owed:
            need(False, f"line {seq} of {name} accepts what is not past its limit")
        policy, seen = self.policies[-1], dict[str, str]()
        for chain, who in self.adversaries.items():
            for group in {g for groups in who.accounts.values() for g in groups}:
                one = seen.setdefault(group, chain) == chain
                need(one or group not in policy.groups, "a group in two adversaries")
            limits = [(rule.name, rule.average, [rule]) for rule in who.judged]
            if not policy.unchecked:
                limits.append(("budget.average", policy.average, who.judged))
            for name, limit, rules in limits:
                total = sum(Fraction(self.sums[chain, r], r.scale) for r in rules)
                most = (limit or 0) * sum(self.sets[rule] for rule in rules)
                if limit is not None and total > most and (name,) not in who.accepted:
                    last = self.seal["at"], "system", self.seal["seq"]
                    self.violate(*last, chain, name)

    def certificate(self) -> dict[str, Json]:
        """Compute what the certificate must say."""
        best: dict[str, tuple[Fraction, tuple[str, int]]] = {}
        for rule in (rule for policy in self.policies for rule in policy.rules):
            if rule.tau is not None:
                found = -rule.top / (rule.tau * Fraction(rule.scale)), rule.place
                best[rule.name] = min(found, best.get(rule.name, found))
        unchecked = {name for policy in self.policies for name in policy.unchecked}
        if self.policies[-1].unchecked and self.policies[-1].average is not None:
            unchecked.add("budget.average")
        applied = enumerate(self.policies[1:], 1)
        worst: dict[str, Json] = {}
        for name, (share, (chain, seq)) in best.items():
            reached = {"chain": chain, "seq": seq} if share else {}
            worst[name] = {"share": str(-share)} | reached
        return {
            "format": 1,
            "heads": {name: chain.last for name, chain in self.chains.items()},
            "seal": {name: self.seal[name] for name in ("seq", "root")},
            "policies": {str(n): policy.line["sha256"] for n, policy in applied},
            "counts": self.counts | {"accounts": len(self.brought)},
            "joins": self.joins,
            "not_checked": sorted(unchecked),
            "worst": worst,
        }


def merkle_root(leaves: dict[str, str]) -> str:
    """Compute the tree hash of RFC 9162, 2.1.1, over the leaves in order of chain."""
    level = [sha256(f"\0{c}:{leaves[c]}".encode()).digest() for c in sorted(leaves)]
    while len(level) > 1:
        odd = [level.pop()] if len(level) % 2 else []
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [sha256(b"\1" + left + right).digest() for left, right in pairs] + odd
    return level[0].hex()


# -- The verdict ---------------------------------------------------------------------


def judge(folder: Path, heads: set[str]) -> tuple[int, list[str]]:
    """Check a bundle; give the exit status and the lines to print."""
    need(folder.is_dir(), "not a directory", file=".")
    audit = Audit(folder)
    audit.read_ledger()
    audit.read_structure()
    audit.read_system(heads)
    for part in range(audit.read_keys()):
        audit.replay(part)
    audit.finish()
    name, told = "cert.json", audit.certificate()
    rows = islice(raw_lines(folder, name), 2)
    lines = [parse(text, number, name, name) for number, _, text in rows]
    need(len(lines) == 1, "not exactly one line", file=name)
    for member, value in told.items():
        right = lines[0][member] == value
        need(right, f"`{member}` does not agree with the other files", 1, name)
    shown = [f"NOT CHECKED {json.dumps(rule)}" for rule in told["not_checked"]]
    shown += [f"JOINED {json.dumps(join)}" for join in told["joins"]]
    shown += ["ASSUMED who is whom, and in which group, is as the ledger says"]
    shown += [f"ASSUMED {json.dumps(text)}" for text in lines[0]["assumed"]]
    if not audit.violations:
        return 0, [f"VERIFIED {ENCODE(told['counts'])}", *shown]
    _, chain, seq, who, rule = audit.violations[0]
    least = {"adversary": who, "chain": chain, "property": rule, "seq": seq}
    return 1, [f"VIOLATED {ENCODE(least)}", *shown]


def main(argv: list[str]) -> int:
    """Run the command; give its exit status."""
    at = argv.index("--head") if "--head" in argv else len(argv)
    heads = [word for word in argv[at:] if word != "--head"]
    right = at == 1 and argv[0][:1] != "-" and all(map(FORMS["hash"], heads))
    if not right or (argv[1:] and not heads):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        status, lines = judge(Path(argv[0]), set(heads))
    except BrokenError as error:
        status, lines = 2, [f"BROKEN {ENCODE(error.args[0])}"]
    except OSError as error:
        found = {"file": Path(error.filename or ".").name, "what": str(error.strerror)}
        status, lines = 2, [f"BROKEN {ENCODE(found)}"]
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main(sys.argv[1:]))
