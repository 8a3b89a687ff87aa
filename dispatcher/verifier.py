"""Verify a bundle of evidence, standalone: ``python verifier.py DIR [--head HEX ...]``.

Every byte, hash and seal is checked; then everything that every *adversary* holds is
judged: after every line the disclosure f of every sensitive *set* must be below tau, in
exact arithmetic. First line of output and exit status: ``VERIFIED`` 0, ``VIOLATED`` 1,
``BROKEN`` 2 (wrong usage: 2). The words are the paper's: an *entry* is one field of one
record, a *property* a rule whose sets of entries are sensitive, an *adversary* one or
several accounts taken as one (a chain of the ledger). A *unit* is what a rule makes its
sets for: a record, a subject, or a link between two subjects.

No unit depends on another, so each is judged alone, over all lines of the ledger.
Entries with their exposures, then units with their entries, go through a temporary file
in parts that fit in memory. What stays in memory grows with chains, accounts, accepted
items and heads of seals, not with exposures, entries or links.
"""

from __future__ import annotations

import gc
import json
import marshal
import re
import sys
import tomllib
from array import array
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import sha256
from io import TextIOWrapper
from itertools import islice, pairwise
from math import ceil, gcd, inf, isqrt, lcm
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

PART = 1 << 25  # bytes of the files that are judged at a time
BLOCK = 1 << 18  # bytes of a file that are read at a time
ROWS = 24_000  # rows that a spool keeps in memory
LONGEST = 1 << 24  # bytes of a line with its LF
LEDGER, KEYS, LINKS = "ledger.jsonl", "keys.jsonl", "relations.jsonl"
TABLE_FILE = re.compile("tables-[0-9]+.jsonl")
USAGE = "usage: python verifier.py DIR [--head HEX ...]"
SYSTEM = b'"chain":"system"'  # bytes in every line of that chain
Json = Any  # content of a file, until its form is checked
State = Any  # what is held of a unit: a tally, times with tallies, or places by end
Row = tuple[Any, ...]
Held = defaultdict[Any, dict[Row, State]]  # by rule and unit
Check = Callable[[Json], bool]


class BrokenError(Exception):
    """The bundle contradicts itself or its format: there is no verdict on limits."""


def need(holds: object, what: str, line: int = 0, file: str = LEDGER) -> None:
    """Raise BrokenError with this message if the condition is false."""
    if not holds:
        found: dict[str, Json] = {"file": file, "what": what}
        raise BrokenError(found | ({"line": line} if line else {}))


# -- Forms: the schema of a line, or of a table of the policy ------------------------

FORMS: dict[str, Check] = {
    "any": lambda _: True,
    "flag": lambda x: type(x) is bool,
    "text": lambda x: type(x) is str and x != "",
    "hash": lambda x: type(x) is str and bool(re.fullmatch("[0-9a-f]{64}", x)),
    "time": lambda x: type(x) is int and -(2**63) <= x < 2**63,
    "natural": lambda x: type(x) is int and 0 <= x < 2**63,
    "whole": lambda x: type(x) is int and 1 <= x < 2**63,
    "one": lambda x: type(x) is int and x == 1,
    "amount": lambda x: type(x) in (int, Fraction) and 0 <= x < 2**200,
    "share": lambda x: type(x) in (int, Fraction) and 0 < x <= 1,
    "tau": lambda x: x == "none" or FORMS["share"](x),
    "default": lambda x: x == "none" or (type(x) in (int, Fraction) and x <= 1),
    "span": lambda x: type(x) is str and bool(re.fullmatch(SPAN, x)),
    "pair": lambda x: form("<text>")(x) and len(x) == 2,
    "chance": lambda x: type(x) is str and bool(re.fullmatch(CHANCE, x)),
    "corners": lambda x: form("[amount]")(x) and len(x) == 4 and lies_on_page(*x),
    "unit": lambda x: form("<text>")(x) and len(x) <= 2,
    "entity": lambda x: form("{record}")(x) and len(x) == 1,
}
SPAN = r"0*[1-9]\d{,12}[smhdw]"
CHANCE = "[1-9][0-9]{,3999}(/[1-9][0-9]{,3999})?"
# A table a line: its members ("?": optional; "+": and those of another table). (x) is a
# non-empty list without duplicates, [x] a list, <x> a sorted list without duplicates,
# {x} a table of any names, a|b one of these words.
GRAMMAR = """
line chain:text seq:whole prev:hash hash:hash kind:text at:time
past property:text unit:unit
past-by-chain +past chain:text
member +line policy:natural account:text groups:<text> accepted:<past>
exposure +line policy:whole account:text entry:text cause:text
merge because:text cause:group|merge chains:(text)
join +line +merge policy:natural accepted:<past>
system/policy +line version:whole sha256:hash functions_sha256:hash tables_sha256?:hash accepted:<past-by-chain>
relations relations_count:natural relations_sha256:hash
system/keys +line facts_sha256:hash keys_count:natural keys_sha256:hash +relations
system/unburn +line entry:text extra:whole because:text
system/seal +line heads:{whole} root:hash
told format:any heads:any seal:any policies:any counts:any joins:any not_checked:any
cert.json +told worst:any assumed:[text] engine:text time:time
columns vector?:{text} count?:{whole}
keys.jsonl +columns entry:text record:text field:text subject?:text time?:time
relations.jsonl relation:text ends:pair
act chain:text seq:whole prev:hash hash:hash at:time actor:text surface:text
audit.jsonl +act operation:text target?:text reason?:text outcome:text
tables.jsonl property:text chance:chance secret:natural values:[natural]
shown utility?:amount send?:flag free?:flag redact?:[text] image?:text answers?:whole
asked ask?:transcribe|choose|number|date|yes_no|spans|table question?:any help?:any
field +shown +asked choices?:(text) columns?:(text) min?:any max?:any decimal?:any order?:any ignore?:any locale?:any
record key:text subject?:text time?:text retain?:span locale?:any layout?:{box} template?:template fields:{field}
box page:whole box:corners redact?:flag
template image:text sha256:hash
budget objective?:disc-budget|tradeoff tau?:default average?:share t?:whole lambda?:amount utility?:text
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
sum kind:text weights?:{share} per?:entry weight?:share
f/common kind:text vector:text count?:text
f/cosine +f/common
f/posterior kind:text table:text prior?:any
f/information-gain +f/posterior
f/mean-information-gain +f/posterior
"""
TABLES: dict[str, dict[str, str]] = {}
for title, *parts in map(str.split, GRAMMAR.strip().split("\n")):
    TABLES[title] = {m: f for m, _, f in (part.partition(":") for part in parts) if f}
    for other in (part[1:] for part in parts if part[0] == "+"):
        TABLES[title] |= TABLES[other]
POWERS = {"linear": 1, "quadratic": 2}  # of a sum of weights: f, capped at 1
TABLES |= {f"f/{kind}": TABLES["sum"] for kind in POWERS}
KINDS = {"member", "exposure", "join", *(t for t in TABLES if t.startswith("system/"))}


def form(name: str) -> Check:
    """Return the check of a form, built from the grammar on first use."""
    if name not in FORMS:
        if name in TABLES:
            FORMS[name] = partial(fits, {m: form(f) for m, f in TABLES[name].items()})
        elif name[0] in "([<{":
            FORMS[name] = partial(holds_items, name[0], form(name[1:-1]))
        else:
            FORMS[name] = name.split("|").__contains__
    return FORMS[name]


def holds_items(bracket: str, item: Check, x: Json) -> bool:
    """Return whether x is a list or a table of such items, as the bracket asks."""
    if bracket == "{":
        return type(x) is dict and "" not in x and all(map(item, x.values()))
    if type(x) is not list or not all(map(item, x)):
        return False
    if bracket == "<":  # tables are compared by their values, in order of name
        ordered = [[i] if type(i) is str else [*i.values()] for i in x]
        return all(a < b for a, b in pairwise(ordered))
    return bracket == "[" or 0 < len(x) == len({str(i) for i in x})


def fits(forms: dict[str, Check], x: Json) -> bool:
    """Return whether x is a table of just these members, all of them unless "?"."""
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


def lies_on_page(x: Json, y: Json, width: Json, height: Json) -> bool:
    """Return whether a box, in shares of its page, has an area and lies on the page."""
    return bool(min(width, height) > 0 and max(x + width, y + height) <= 1)


# -- Bytes: lines of JSON in canonical form, and rows on disk ------------------------

ENCODE = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False
).encode
# Nearly every line is an exposure or a key whose texts need no escapes. These regular
# expressions match their canonical forms, member by member, in many lines at once; the
# last group matches a line of any other form, which is parsed as JSON. Bytes that are
# not UTF-8 are read as surrogates, which no text has. Hashes are compared with the
# expected ones.
TEXT = r"([ !#-\[\]-\ud7ff\ue000-\U0010ffff]+)"
INT, HASH = "([1-9][0-9]{,17})", "(.{64})"
EXPOSURES = re.compile(
    f'({{"account":"{TEXT}","at":{INT},"cause":"{TEXT}","chain":"(?!system"){TEXT}",'
    f'"entry":"{TEXT}",)"hash":"{HASH}",("kind":"exposure","policy":{INT},'
    f'"prev":"{HASH}","seq":{INT}}})\n|(.*)\n'
)
ENTRIES = re.compile(
    f'{{(?:"count":{{"{TEXT}":{INT}}},)?"entry":"{TEXT}","field":"{TEXT}",'
    f'"record":"{TEXT}"(?:,"subject":"{TEXT}")?(?:,"time":{INT})?'
    f'(?:,"vector":{{"{TEXT}":"{TEXT}"}})?}}\n|(.*)\n'
)


def text_of(lines: bytes) -> str:
    """Decode UTF-8; invalid bytes become surrogates."""
    return lines.decode(errors="surrogateescape")


def blocks(folder: Path, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Stream blocks of whole lines: number and offset of the first, and bytes."""
    need((folder / name).is_file(), "missing, or not a file", file=name)
    number, place, rest = 1, 0, b""
    with (folder / name).open("rb") as file:
        while block := file.read(BLOCK):
            whole, ended, rest = (rest + block).rpartition(b"\n")
            lines = whole + ended
            need(lines.find(b"\n") < LONGEST, "the line is too long", number, name)
            if lines:
                yield number, place, lines
            number, place = number + lines.count(b"\n"), place + len(lines)
            need(len(rest) < LONGEST, "the line is too long", number, name)
    need(not rest, "the line is not ended by LF", number, name)


def marked_lines(
    folder: Path, name: str, mark: bytes
) -> Iterator[tuple[int, int, bytes]]:
    """Stream the lines that contain a mark, with number and offset; skip the others."""
    for first, place, lines in blocks(folder, name):
        number, end = first, 0
        while (found := lines.find(mark, end)) >= 0:
            start = lines.rfind(b"\n", end, found) + 1 or end
            number += lines.count(b"\n", end, start)
            end = lines.index(b"\n", found) + 1
            yield number, place + start, lines[start : end - 1]
            number += 1


def found_lines(
    folder: Path, name: str, form_of: re.Pattern[str]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Stream line numbers with the groups that a form matches in them."""
    for number, _, lines in blocks(folder, name):
        yield from enumerate(form_of.findall(text_of(lines)), number)


def key(found: tuple[str, ...]) -> Json:
    """Return an entry's line from its matched groups; {} if there are none."""
    column, number, entry, field, record, subject, time, vector, place, _ = found
    line: Json = {"entry": entry, "field": field, "record": record} if entry else {}
    if column:
        line["count"] = {column: int(number)}
    if subject:
        line["subject"] = subject
    if time:
        line["time"] = int(time)
    if vector:
        line["vector"] = {vector: place}
    return line


def parse(text: str, number: int, name: str = LEDGER) -> Json:
    """Parse a line of JSON: canonical, and of its form (in the ledger: by kind)."""
    try:
        text.encode()  # fails if it is not UTF-8
        line = json.loads(text)
        right = type(line) is dict and ENCODE(line) == text
        need(right, "the line is not an object in canonical form", number, name)
        shape = name
        if name == LEDGER:
            shape = "system/" * (line.get("chain") == "system") + str(line.get("kind"))
            need(shape in KINDS, "the line is of no kind of its chain", number)
        form(TABLE_FILE.sub("tables.jsonl", shape))(line)
    except (ValueError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else "no JSON in UTF-8"
        need(False, what, number, name)
    return line


class Spool:
    """Rows partitioned on disk: those with the same first item are in one part."""

    def __init__(self, file: IO[bytes], parts: int) -> None:
        self.file, self.most = file, ROWS // parts if parts > 1 else inf
        self.rows: list[list[Row]] = [[] for _ in range(parts)]
        self.places: list[list[tuple[int, int]]] = [[] for _ in range(parts)]

    def add(self, row: Row) -> None:
        """Add a row; rows of one part are written together."""
        part = hash(row[0]) % len(self.rows)
        rows = self.rows[part]
        rows.append(row)
        if len(rows) > self.most:
            place, raw = self.file.seek(0, 2), marshal.dumps(rows)
            self.places[part].append((place, self.file.write(raw)))
            rows.clear()

    def parts(self) -> Iterator[dict[Any, list[Row]]]:
        """Yield part after part: rows by their first item, in order of adding."""
        for part, places in enumerate(self.places):
            rows: list[Row] = []
            for place, size in places:
                self.file.seek(place)
                rows += marshal.loads(self.file.read(size))  # noqa: S302 - our own
            rows += self.rows[part]
            self.rows[part] = []
            found: dict[Any, list[Row]] = defaultdict(list)
            for row in rows:
                found[row[0]].append(row)
            yield found


# -- The policy, and its properties --------------------------------------------------

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DECIMAL = re.compile("[+-]?([0-9.]+)(?:[eE][+-]?0*([0-9]{1,2}))?")
TABLED = ("posterior", "information-gain", "mean-information-gain")
CHECKED = ("step", *POWERS, "common", "cosine", *TABLED)
STEPS = 10**12  # an information gain is rounded up to a multiple of 1 / STEPS


def decimal(text: str) -> Fraction:
    """Read a TOML float exactly; digits and exponent are checked before any sum."""
    found = DECIMAL.fullmatch(text.replace("_", ""))
    digits = found[1].replace(".", "").lstrip("0") if found else "no number"
    if not found or len(digits) > 30 or int(found[2] or 0) > 30:
        raise ValueError("a number is no decimal of at most 30 digits, exponent +-30")
    return Fraction(found[0])


class UnitEntry(NamedTuple):
    """An entry as a unit needs it, and who holds it since when."""

    of: str  # the record or subject
    field: str
    facts: list[tuple[int, Json]]  # all its members, from this version on
    since: dict[str, tuple[int, int | None]]  # by chain: seq; and time, or by a join

    def known(self, version: int) -> Json:
        """Return the members of the entry under a version."""
        for since, members in reversed(self.facts):
            if since <= version:
                return members
        return {}


Worlds = list[tuple[Fraction, int, list[int]]]  # chance, secret, value of each column


class DisclosureTable:
    """What is learnt about a secret, by a finite table, from the columns seen.

    f is the maximum over all values of the columns (or their mean), and over all
    subsets of the columns seen: whoever saw them one by one remembers the maximum.
    """

    def __init__(self, kind: str, columns: list[str], worlds: Worlds) -> None:
        if any(len(values) != len(columns) for _, _, values in worlds):
            raise ValueError("a table has not one value for each of its columns")
        scale = lcm(*(chance.denominator for chance, _, _ in worlds))
        self.worlds = [(int(c * scale), secret, values) for c, secret, values in worlds]
        self.kind, self.columns = kind, columns
        self.whole = Counter[int]()
        for count, secret, _ in self.worlds:
            self.whole[secret] += count
        self.known: dict[frozenset[str], Fraction] = {}
        self.shares: dict[Row, Fraction] = {}

    def f(self, seen: frozenset[str]) -> Fraction:
        """Return f of some columns; it never falls as more are seen."""
        if seen not in self.known:
            parts = (self.f(seen - {column}) for column in seen)
            self.known[seen] = max([self.learnt(seen), *parts])
        return self.known[seen]

    def learnt(self, seen: frozenset[str]) -> Fraction:
        """Return f of exactly these columns."""
        places = [n for n, column in enumerate(self.columns) if column in seen]
        groups: dict[Row, Counter[int]] = defaultdict(Counter)
        for count, secret, values in self.worlds:
            groups[tuple(values[n] for n in places)][secret] += count
        if len(self.whole) < 2:
            return Fraction(0)
        if self.kind == "posterior":
            total = self.whole.total()
            return max(
                (Fraction(n, group.total()) - Fraction(self.whole[secret], total))
                / (1 - Fraction(self.whole[secret], total))
                for group in groups.values()
                for secret, n in group.items()
            )
        if self.kind == "mean-information-gain":
            return self.gain(groups.values())
        return max(self.gain([group]) for group in groups.values())

    def gain(self, groups: Iterable[Counter[int]]) -> Fraction:
        """Return the share of the secret's entropy lost in some groups of worlds.

        1 - H(V in the groups) / H(V), rounded up to a multiple of 1 / STEPS, at least 0.
        """
        left = Counter[tuple[int, ...]]()  # number of worlds by shape of their group
        for group in groups:
            left[spread(group)] += group.total()
        key = tuple(sorted(left.items()))
        if key not in self.shares:
            self.shares[key] = self.rounded_gain(left)
        return self.shares[key]

    def rounded_gain(self, left: Counter[tuple[int, ...]]) -> Fraction:
        """Find the multiple with as many digits as needed, or exactly."""
        before = entropy({spread(self.whole): Fraction(1)})
        total = sum(left.values())
        after = entropy({group: Fraction(n, total) for group, n in left.items()})
        digits = 50
        while True:
            least, most = bounds(after, digits)
            low, high = bounds(before, digits)
            if low > 0:
                first = ceil(STEPS * (1 - most / low))
                last = ceil(STEPS * (1 - least / high))
                kept = 1 - Fraction(first, STEPS)
                if first < last and vanishes([(after, Fraction(1)), (before, -kept)]):
                    last = first
                if first == last:
                    return Fraction(min(STEPS, max(0, first)), STEPS)
            digits *= 2


Logarithms = tuple[tuple[int, Fraction], ...]  # a sum: of which integer, how often


def spread(counts: Counter[int]) -> tuple[int, ...]:
    """Return counts in lowest terms and sorted: equal results have equal entropy."""
    common = gcd(*counts.values())
    return tuple(sorted(count // common for count in counts.values()))


def entropy(groups: Mapping[tuple[int, ...], Fraction]) -> Logarithms:
    """Write the mean entropy of some groups of counts as a sum of logarithms."""
    terms: dict[int, Fraction] = defaultdict(Fraction)
    for counts, weight in groups.items():
        terms[sum(counts)] += weight
        for count in counts:
            terms[count] -= weight * Fraction(count, sum(counts))
    return tuple((number, factor) for number, factor in terms.items() if factor)


@lru_cache(maxsize=1 << 16)
def logarithm(number: int, digits: int) -> tuple[Fraction, Fraction]:
    """Bound a logarithm from below and above."""
    near = Fraction(Context(prec=digits).ln(Decimal(number)))
    off = (near + 1) / 10 ** (digits - 2)
    return near - off, near + off


@lru_cache(maxsize=1 << 10)
def bounds(terms: Logarithms, digits: int) -> tuple[Fraction, ...]:
    """Bound a sum of logarithms from below and above."""
    low = high = Fraction(0)
    for number, factor in terms:
        least, most = logarithm(number, digits)
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    return low, high


def vanishes(sums: list[tuple[Logarithms, Fraction]]) -> bool:
    """Return whether a weighted sum of sums of logarithms is exactly 0.

    Logarithms of pairwise coprime integers do not cancel: so make them coprime.
    """
    waiting = [(n, f * times) for terms, times in sums for n, f in terms]
    apart: dict[int, Fraction] = {}
    while waiting:
        number, factor = waiting.pop()
        if number == 1 or not factor:
            continue
        other = next((n for n in apart if gcd(n, number) > 1), None)
        if other is None:
            apart[number] = factor
        else:
            common, also = gcd(other, number), apart.pop(other)
            waiting += [(common, factor + also), (number // common, factor)]
            waiting.append((other // common, also))
    return not apart


class Rule:
    """A property of one version: the sets it makes, and f over what is held.

    What is held of a set is encoded as a *tally*: the number of entries of each field,
    in 40 bits a field. f of a cosine is its square, here and wherever it is compared.
    """

    def __init__(
        self, name: str, spec: Json, source: Json, version: int, worlds: Worlds
    ) -> None:
        how = spec.get("disclosure", "step")
        self.how = how = how if type(how) is dict else {"kind": how}
        if str(how.get("kind")).startswith("plugin:"):
            self.how = how = {"kind": how["kind"]}  # its parameters are its own
        self.sets = spec["any_of"] if "any_of" in spec else [spec.get("of", [])]
        self.fields = list(dict.fromkeys(f for one in self.sets for f in one))
        tau = spec.get("tau", source.get("budget", {}).get("tau", 1))
        if not allowed(spec, how, self.fields, tau, source):
            raise ValueError(f"property `{name}` is outside the language")
        self.name, self.kind, self.version = name, how["kind"], version
        self.scope = spec.get("scope", "record")
        if self.scope == "relation":
            self.scope = f"relation {spec['relation']}"
        span = spec.get("window", "0s")
        self.window = int(span[:-1]) * SECONDS[span[-1]] * 1_000_000
        self.vector = how.get("vector")
        self.tabled = self.kind in TABLED
        self.linked = self.tabled and self.scope[:8] == "relation"
        self.table = (
            DisclosureTable(self.kind, self.columns(), worlds) if self.tabled else None
        )
        self.needs = {"subject"} if self.scope != "record" else set()
        self.needs |= {"record"} if self.linked else set()
        self.needs |= ({"time"} if self.window else set()) | how.keys() & {
            "vector",
            "count",
        }
        self.one = {field: 1 << 40 * n for n, field in enumerate(self.fields)}
        share = Fraction(1, len(self.fields))
        self.weights = how.get("weights") or dict.fromkeys(self.fields, share)
        terms = [Fraction(x) for x in (*self.weights.values(), how.get("weight", 1))]
        cosine, exact = self.kind == "cosine", self.kind in ("cosine", *TABLED)
        whole = lcm(*(term.denominator for term in terms))
        self.power = POWERS.get(self.kind, 1)
        self.scale = 1 if exact else whole**self.power
        self.average, self.tau = spec.get("average"), None if tau == "none" else tau
        if self.tau is not None:
            self.tau = Fraction(tau) ** (2 if cosine else 1)
            self.limit = self.tau if exact else ceil(self.tau * self.scale)
        groups = source.get("workers", {}).get("groups", {})
        self.trusted = {g for g in groups if name in groups[g].get("trusted", [])}
        self.f_of: dict[int, list[Any]] = {}  # f of each set, by tally
        self.worst: dict[int, Any] = {}  # the largest of them, by tally
        self.top, self.place = 0, ("", 0)  # the largest f judged, and where
        tallied = not self.window and not self.vector and not self.linked
        self.alone = {  # whether an entry, alone, has an f that counts
            field: not tallied or any(self.fs(one, one))
            for field, one in self.one.items()
        }

    def columns(self) -> list[str]:
        """Return the columns of a table: of both ends where it is over a relation."""
        ends = ("left.", "right.") if self.linked else ("",)
        return [end + field for end in ends for field in sorted(self.fields)]

    def hold(self, state: State, entry: UnitEntry) -> State:
        """Return what is held of a unit with one more entry."""
        if not self.window and not self.vector and not self.linked:
            return (state or 0) + self.one[entry.field]
        known = entry.known(self.version)
        if self.linked:
            state = state or defaultdict(set)
            state[entry.of].add((known.get("record"), entry.field))
            return state
        if self.window:
            state = state or []
            if "time" in known:
                insort(state, (known["time"], self.one[entry.field]))
            return state
        state, count = state or defaultdict(Counter), self.how.get("count")
        place = known.get("vector", {}).get(self.vector)
        number = known.get("count", {}).get(count, 0) if count else 1
        if place and number:
            state[entry.of][place] += number
        return state

    def fs(self, held: State, whole: State) -> list[Any]:
        """Return f of every set of a unit: one window from each entry's time on."""
        if self.vector:
            return [self.alike(*held.values()) if len(held) == 2 else 0]
        if self.linked:
            return [self.tabulated(*held.values())]
        if not self.window:
            if held not in self.f_of:
                self.f_of[held] = self.disclosed(held)
            return self.f_of[held]
        found = []
        for time in dict(whole):
            first = bisect_left(held, (time,))
            last = bisect_left(held, (time + self.window + 1,))
            found += self.disclosed(sum(one for _, one in held[first:last]))
        return found

    def disclosed(self, tally: int) -> list[Any]:
        """Return f of each set for a tally: one, or one per alternative."""
        counts = {field: tally // one % (1 << 40) for field, one in self.one.items()}
        seen, number = {f for f, n in counts.items() if n}, sum(counts.values())
        if "at" in self.how:
            return [self.scale * (number >= self.how["at"])]
        if self.table:
            return [self.table.f(frozenset(seen))]
        if self.kind == "step":
            return [self.scale * seen.issuperset(one) for one in self.sets]
        if "per" in self.how:
            s = self.how["weight"] * number
        else:  # weights by field add up to 1 (`allowed`)
            s = sum(self.weights[field] for field in seen)
        return [int(min(1, s) ** self.power * self.scale)]

    def alike(self, one: Counter[str], two: Counter[str]) -> int | Fraction:
        """Compare the places of both ends: a common one, or the square of the cosine."""
        product = sum(n * two[place] for place, n in one.items() if place in two)
        if self.kind == "common":
            return self.scale * (product > 0)
        norms = [sum(n * n for n in end.values()) for end in (one, two)]
        return Fraction(product * product, norms[0] * norms[1])

    def tabulated(self, *ends: set[Row]) -> int | Fraction:
        """Return f of a link by its table, in either direction.

        The table covers one record of each end; who holds two of one end may know all.
        """
        assert self.table
        if any(len({record for record, _ in end}) > 1 for end in ends):
            return 1
        ways = [("left.", "right."), ("right.", "left.")]
        return max(
            self.table.f(
                frozenset(
                    side + field
                    for side, end in zip(way, ends, strict=False)
                    for _, field in end
                )
            )
            for way in ways
        )

    def past(self, held: State, chain: str, seq: int) -> bool:
        """Return whether a unit is past its limit; keep the largest f judged."""
        f = self.worst.get(held) if type(held) is int else None
        if f is None:
            f = max(self.fs(held, held), default=0)
            if type(held) is int:
                self.worst[held] = f
        if not f:
            return False
        if f >= self.top and (f > self.top or (chain, seq) < self.place):
            self.top, self.place = f, (chain, seq)
        return self.tau is not None and f >= self.limit


def allowed(spec: Json, how: Json, fields: list[str], tau: Json, source: Json) -> bool:
    """Return whether a property meets the language's rules beyond its grammar."""
    entity, kind = next(iter(source["entity"].values())), str(how.get("kind"))
    if kind[:7] != "plugin:" and not (f"f/{kind}" in TABLES and form(f"f/{kind}")(how)):
        return False
    declared, scope = entity["fields"], spec.get("scope", "record")
    weights, sums = how.get("weights"), kind in POWERS
    conditions = (
        ("of" in spec) != ("any_of" in spec),
        all(f in declared and not declared[f].get("free") for f in fields),
        FORMS["tau"](tau),  # the budget's own is no matter where no rule uses it
        tau != "none" or source.get("budget", {}).get("objective") == "tradeoff",
        scope == "record" or "subject" in entity,
        scope != "relation" or spec.get("relation") in source.get("relation", {}),
        scope != "relation" or not (sums or kind == "step"),
        scope == "relation" or kind not in ("common", "cosine"),
        "window" not in spec or (scope == "subject" and "time" in entity),
        "any_of" not in spec or how == {"kind": "step"},
        scope != "record" or how.get("at", 0) <= len(fields),
        ("per" in how) == ("weight" in how),
        not sums or scope == "record" or "per" in how,
        not weights or (scope == "record" and "per" not in how),
        not weights or weights.keys() == set(fields),
        not weights or sum(weights.values()) == 1,
    )
    return all(conditions)


Tables = tuple[dict[Row, list[Rule]], dict[Row, list[Rule]]]


class Policy:
    """One version as applied: what may be sent, how often, and its rules."""

    def __init__(self, line: Json, source: Json, tables: dict[str, Worlds]) -> None:
        self.line, specs = line, source.get("property", {})
        budget, entities = source.get("budget", {}), source.get("entity", {})
        fields = {
            n: f for entity in entities.values() for n, f in entity["fields"].items()
        }
        sent = {
            name: field for name, field in fields.items() if field.get("send", True)
        }
        self.crops = crops(entities, specs)
        self.t = {n: budget.get("t", f.get("answers", 1) + 2) for n, f in sent.items()}
        self.groups = source.get("workers", {}).get("groups", {})
        trusted = {name for g in self.groups.values() for name in g.get("trusted", [])}
        if trusted - specs.keys():
            raise ValueError("a group is trusted with an unknown property")
        rules = [
            Rule(name, spec, source, line["version"], tables.get(name, []))
            for name, spec in specs.items()
        ]
        if tables.keys() != {rule.name for rule in rules if rule.tabled}:
            raise ValueError("its tables are not those that its rules name")
        self.rules = [rule for rule in rules if rule.kind in CHECKED]
        self.unchecked = {rule.name for rule in rules if rule.kind not in CHECKED}
        self.average = budget.get("average")
        self.averaging = any([self.average, *(rule.average for rule in self.rules)])
        self.over: dict[Row, list[Rule]] = defaultdict(list)  # by scope and field
        self.needs: dict[str, set[str]] = defaultdict(set)  # members, by field
        for rule in self.rules:
            for field in rule.fields:
                self.over[rule.scope, field].append(rule)
                self.needs[field] |= rule.needs
        self.judged_by: dict[frozenset[Row], tuple[Rule, ...]] = {}  # by groups
        self.tables: dict[tuple[Rule, ...], Tables] = {}
        self.accepted: dict[str, set[Row]] = defaultdict(set)  # items, by adversary
        for item in line.get("accepted", ()):
            self.accepted[item["chain"]].add((item["property"], *item["unit"]))

    def hold(
        self, held: Held, key: Row, unit: Row, after: int, entry: UnitEntry
    ) -> list[tuple[Rule, State]]:
        """Add an entry to what is held of a unit; return rules after some version."""
        found = []
        for rule in self.over.get(key, ()):
            if rule.version > after:
                states = held[rule]
                state = states[unit] = rule.hold(states.get(unit), entry)
                found.append((rule, state))
        return found

    def judged(self, groups: frozenset[Row]) -> tuple[Rule, ...]:
        """Return the rules with which some account, by its groups, is not trusted."""
        if groups not in self.judged_by:
            rules = (r for r in self.rules if not all(r.trusted & {*g} for g in groups))
            self.judged_by[groups] = tuple(rules)
        return self.judged_by[groups]

    def tables_of(self, judged: tuple[Rule, ...]) -> Tables:
        """Return which rules read a scope and field: all, and those on it alone."""
        if judged not in self.tables:
            rules = {
                key: [rule for rule in over if rule in judged]
                for key, over in self.over.items()
            }
            alone = {
                key: [rule for rule in over if rule.alone[key[1]]]
                for key, over in rules.items()
            }
            self.tables[judged] = rules, alone
        return self.tables[judged]


def crops(entities: Json, specs: Json) -> list[Json]:
    """Return each crop's declared area: a box of a page, or of each record's own.

    Who is shown a crop sees every field whose box overlaps: named in `with`, where no
    rule looks at either and both may be sent; else the policy is outside the language.
    """
    ruled = {
        f for spec in specs.values() for one in spec.get("any_of", ()) for f in one
    }
    ruled |= {f for spec in specs.values() for f in spec.get("of", ())}
    found: list[Json] = []
    for entity in entities.values():
        for name, field in entity["fields"].items():
            column, _, box = field.get("image", "").partition("#")
            place = entity.get("layout", {}).get(box) or {"box": box or [0, 0, 1, 1]}
            crop = {"field": name, "column": column, "page": place.get("page", 1)}
            crop |= {"box": place["box"], "sent": field.get("send", True), "with": []}
            for other in found if column else ():
                if overlap(crop, other):
                    crop["with"].append(other["field"])
                    other["with"].append(name)
                    quiet = crop["sent"] and other["sent"]
                    quiet = quiet and not {name, other["field"]} & ruled
                    if not quiet and (crop["sent"] or other["sent"]):
                        raise ValueError(
                            f"crop of `{name}` overlaps `{other['field']}`"
                        )
            found += [crop] if column else []
    return found


def overlap(one: Json, other: Json) -> bool:
    """Return whether two crops overlap on a page, whatever the record."""
    if (one["column"], one["page"]) != (other["column"], other["page"]):
        return False
    boxes = one["box"], other["box"]
    if str in map(type, boxes):  # a box of the record's own
        return bool(boxes[0] == boxes[1] or [0, 0, 1, 1] in boxes)
    (x, y, width, height), (x2, y2, width2, height2) = boxes
    across = min(x + width, x2 + width2) - max(x, x2)
    down = min(y + height, y2 + height2) - max(y, y2)
    return bool(across > 0 and down > 0)


def read_policy(folder: Path, line: Json) -> Policy:
    """Read the file of a version; check its hash and that it is in the language."""
    name = f"policy-{line['version']}.toml"
    need((folder / name).is_file(), "missing, or not a file", file=name)
    raw = (folder / name).read_bytes()
    need(sha256(raw).hexdigest() == line["sha256"], "not what was applied", file=name)
    try:
        source = tomllib.loads(raw.decode("utf-8-sig"), parse_float=decimal)
        form("policy")(source)
        return Policy(line, source, read_tables(folder, line))
    except (ValueError, RecursionError) as error:
        what = str(error) if type(error) is ValueError else "no TOML 1.0"
        found = {"file": name, "what": f"outside the language: {what}"}
        raise BrokenError(found) from None


def read_tables(folder: Path, line: Json) -> dict[str, Worlds]:
    """Read the tables of a version, by property; check their hash."""
    tables: dict[str, Worlds] = defaultdict(list)
    if "tables_sha256" in line:
        name, digest = f"tables-{line['version']}.jsonl", sha256()
        for first, _, lines in blocks(folder, name):
            digest.update(lines)
            for number, text in enumerate(text_of(lines).split("\n")[:-1], first):
                row = parse(text, number, name)
                world = Fraction(row["chance"]), row["secret"], row["values"]
                tables[row["property"]].append(world)
        right = digest.hexdigest() == line["tables_sha256"]
        need(right, "not what was applied", file=name)
    return tables


# -- The ledger: chains, seals, joins, and where all is judged ------------------------


class Point(NamedTuple):
    """A line at which everything is judged, or from which on other rules apply."""

    seq: int  # the last line of the chain by then
    barrier: int  # the version that comes into force here, else 0
    judged: tuple[Rule, ...]  # at exposures from here on
    now: tuple[Rule, ...]  # over all units, here
    items: set[Row]  # accepted here; in the end, the unneeded ones
    place: tuple[int, str, int]  # time, chain and seq of the line
    others: list[str]  # chains that were joined to this one here


class ChainSummary:
    """What is kept of a chain: its end, its seals, and all lines but exposures."""

    def __init__(self) -> None:
        self.seq, self.last, self.at, self.sealed = 0, "0" * 64, -(2**63), 0
        self.starts: list[int] = []  # how many lines come before version 1, 2 ...
        self.heads, self.digests = array("q"), bytearray()  # what seals name: seq, hash
        self.awaited = 0  # the next of them
        self.accounts = set[str | None]()  # that came in this chain
        self.lines: list[Json] = []
        self.points: list[Point] = []
        self.settled = 0  # the last of them, and the rules from there on
        self.rules: dict[Row, list[Rule]] = {}
        self.alone: dict[Row, list[Rule]] = {}  # to which an entry alone matters
        self.path: list[tuple[str, int]] = []  # where it was joined, and that again
        self.groups = Counter[Row]()  # of its accounts
        self.means: set[str] = set()  # averages accepted since the last policy line

    def version(self, seq: int) -> int:
        """Return the version in force at a line."""
        return bisect_left(self.starts, seq)


class Audit:
    """Content of the files, and the findings."""

    def __init__(self, folder: Path, file: IO[bytes]) -> None:
        size, self.folder = (
            sum(f.stat().st_size for f in folder.glob("*.jsonl")),
            folder,
        )
        spools = (Spool(file, 1 + size // PART) for _ in range(5))
        self.keys, self.shown, self.units, self.ends, self.links = spools
        self.policies = [Policy({}, {}, {})]
        self.chains: dict[str, ChainSummary] = defaultdict(ChainSummary)
        self.loads: list[tuple[int, Json]] = []  # version in force, the line
        self.unburnt = Counter[str]()  # showings, by entry
        self.accounts: dict[str, Row] = {}  # chain and seq of its first line; groups
        self.joins: list[Json] = []
        self.scopes: dict[str, set[str]] = defaultdict(set)  # of units, by field
        self.needs: dict[str, set[str]] = defaultdict(set)  # members, by field
        self.least: dict[str, int] = defaultdict(int)  # t of any version, by field
        self.counts = Counter[str](accepted=0, exposures=0, entries=0, links=0, seals=0)
        self.places = array("q")  # of the lines of the system, in the ledger
        self.violations: list[Row] = []
        self.astray: list[str] = []  # exposures in a wrong chain
        self.sets = Counter[Rule]()  # that could disclose anything
        self.fs: dict[tuple[str, Rule], Counter[Any]] = defaultdict(Counter)

    def violate(self, at: int, chain: str, seq: int, adversary: str, name: str) -> None:
        """Record a violation; only the first (by time, chain, seq) is kept."""
        self.violations = [min([*self.violations, (at, chain, seq, adversary, name)])]

    def system_lines(self) -> Iterator[tuple[int, Json]]:
        """Stream the lines of the system, each with the version in force after it."""
        version = 0
        for number, place, raw in marked_lines(self.folder, LEDGER, SYSTEM):
            line = parse(text_of(raw), number)
            if line.get("chain") == "system":
                self.places.append(place)
                version += line["kind"] == "policy"
                yield version, line

    def system_again(self) -> Iterator[tuple[int, Json]]:
        """Stream the lines of the system once more, from where they were found."""
        version = 0
        with (self.folder / LEDGER).open("rb") as file:
            for place in self.places:
                file.seek(place)
                line = parse(text_of(file.readline()[:-1]), 0)
                version += line["kind"] == "policy"
                yield version, line

    def read_system(self) -> None:
        """Read policies, loads, unburnt showings, and which lines the seals name."""
        for version, line in self.system_lines():
            if line["kind"] == "policy":
                need(line["version"] == version, "a policy is not the next version")
                self.policies.append(read_policy(self.folder, line))
            elif line["kind"] == "keys":
                self.loads.append((version, line))
            elif line["kind"] == "unburn":
                self.unburnt[line["entry"]] += line["extra"]
            for name, seq in line.get("heads", {}).items():
                chain = self.chains[name]
                chain.heads.append(seq)
                chain.awaited = chain.heads[0]
        known = {f"policy-{n}.toml" for n in range(1, len(self.policies))}
        for path in self.folder.glob("policy-*.toml"):
            right = path.name in known or not path.stem[7:].isdecimal()
            need(right, "the ledger has no such version", file=path.name)

    def read_ledger(self) -> None:
        """Read the ledger: every line canonical, of its form, chained by its hash."""
        exposures, versions = 0, len(self.policies)
        chains, add = self.chains, self.shown.add
        for number, found in found_lines(self.folder, LEDGER, EXPOSURES):
            head, account, a, _, name, entry, digest, tail, p, prev, n, text = found
            line: Json = {}
            if head:
                at, policy, seq = int(a), int(p), int(n)
            else:
                line = parse(text, number)
                name, digest, prev = line["chain"], line["hash"], line["prev"]
                at, policy, seq = line["at"], line.get("policy", 0), line["seq"]
                account, entry = line.get("account"), line.get("entry")
                cut = text.index('"hash":"')  # no value has it: quotes are escaped
                head, tail = text[:cut], text[cut + 74 :]
            chain = chains[name]
            if seq != chain.seq + 1 or prev != chain.last:
                need(False, "the line does not follow the one before it", number)
            if at < chain.at or not len(chain.starts) <= policy < versions:
                need(False, "`at` or `policy` falls within the chain", number)
            if sha256((prev + head + tail).encode()).hexdigest() != digest:
                need(False, "the line has not the hash that it says", number)
            if policy > len(chain.starts):
                chain.starts += [chain.seq] * (policy - len(chain.starts))
            chain.seq, chain.last, chain.at = seq, digest, at
            if seq == chain.awaited:
                chain.digests += bytes.fromhex(digest)
                met = len(chain.digests) // 32
                chain.awaited = chain.heads[met] if met < len(chain.heads) else 0
            if not line or line["kind"] == "exposure":
                exposures += 1
                known = account in chain.accounts  # else it has to come by a join
                add((entry, name, seq, at, policy, None if known else account))
            elif name != "system":
                chain.lines.append(line)
                chain.accounts.add(account)
        self.counts["exposures"] = exposures

    def check_seals(self, noted: set[str]) -> None:
        """Check the heads and roots of all seals, and that they cover every line."""
        leaves, before, self.seal = dict[str, str](), 0, dict[str, Json](seq=0)
        for version, line in self.system_again():
            for name, last in line.get("heads", {}).items():
                chain = self.chains[name]
                right = name != "system" and chain.sealed < last <= chain.seq
                need(right, "a seal names what is no head of a chain that grew")
                first, chain.sealed = chain.version(chain.sealed + 1), last
                right = before <= first and chain.version(last) <= version
                need(right, "what a seal covers names another version")
                leaves[name] = chain.digests[:32].hex()
                del chain.digests[:32]
            if line["kind"] == "seal":
                leaves["system"], before, self.seal = line["prev"], version, line
                right = merkle_root(leaves) == line["root"]
                need(right, "the root of a seal is not that of the heads")
                noted.discard(line["root"])
                self.counts["seals"] += 1
        self.heads = {name: chain.last for name, chain in self.chains.items()}
        system = self.chains.pop("system", ChainSummary())
        right = all(chain.sealed == chain.seq for chain in self.chains.values())
        right = right and self.seal["seq"] == system.seq > 0
        need(right, "the last line of system is not a seal of all lines")
        need(not noted, "a head that was noted is not the root of a seal")

    def read_joins(self) -> None:
        """Match the lines of each join, and find where the chains that end go on."""
        places: dict[str, dict[str, int]] = defaultdict(dict)  # seq by chain
        for name, chain in self.chains.items():
            for line in chain.lines:
                if line["kind"] == "join":
                    own = ("chain", "seq", "prev", "hash")
                    same = ENCODE({m: line[m] for m in line if m not in own})
                    need(name not in places[same], "a join stands twice in a chain")
                    places[same][name] = line["seq"]
        into: dict[str, tuple[str, int]] = {}
        for join, seqs in ((json.loads(same), seqs) for same, seqs in places.items()):
            first, *others = join["chains"]
            right = others and seqs.keys() == {first, *others}
            need(right, "a join is not in each of its chains, two or more")
            for other in others:
                if seqs[other] < self.chains[other].seq:
                    self.astray.append(f"{other} goes on after its end, {seqs[other]}")
            into |= dict.fromkeys(others, (first, seqs[first]))
            self.joins.append({member: join[member] for member in TABLES["merge"]})
        for name in into:
            path, on = self.chains[name].path, name
            while on in into:
                path.append(into[on])
                on, _ = into[on]
                need(len(path) <= len(into), "joins wait for one another")

    def read_points(self) -> None:
        """Find where all that an adversary holds is judged; ended chains come first."""
        self.rank = {name: -len(chain.path) for name, chain in self.chains.items()}
        for name in sorted(self.rank, key=self.rank.__getitem__):
            chain = self.chains[name]
            steps = [(line["seq"], 0, line) for line in chain.lines]
            for version, policy in enumerate(self.policies[1:], 1):
                begun = version <= len(chain.starts)
                seq = chain.starts[version - 1] if begun else chain.seq
                if seq and (begun or not chain.path):
                    steps.append((seq, version, policy.line))
            for step in sorted(steps, key=itemgetter(0, 1)):
                self.read_point(name, chain, *step)
            if chain.points:
                chain.settled, judged = chain.points[-1].seq, chain.points[-1].judged
                policy = self.policies[len(chain.starts)]
                chain.rules, chain.alone = policy.tables_of(judged)
        for policy in self.policies:
            units = [i for items in policy.accepted.values() for i in items if i[1:]]
            need(not units, "a policy line accepts what no adversary could hold")
            self.counts["accepted"] += len(policy.line.get("accepted", ()))

    def read_point(
        self, name: str, chain: ChainSummary, seq: int, barrier: int, line: Json
    ) -> None:
        """Read a line that changes accounts or versions; add its points."""
        policy, others = self.policies[barrier or line["policy"]], list[str]()
        before = chain.points[-1].judged if chain.points else ()
        if barrier:
            items, before, chain.means = policy.accepted.pop(name, set()), (), set()
        else:
            first, *others = line.get("chains", [name])
            if first != name:
                return  # it ends, and is judged in the first
            items = {(item["property"], *item["unit"]) for item in line["accepted"]}
            self.counts["accepted"] += len(line["accepted"])
        for other in others:
            chain.groups += self.chains[other].groups
            chain.means |= self.chains[other].means
        if line["kind"] == "member":
            self.read_member(name, chain, line)
        chain.means |= {item[0] for item in items if not item[1:]}
        items = {i for i in items if i[1:] and i[0] not in policy.unchecked}
        judged = policy.judged(frozenset(chain.groups))
        fresh = tuple(rule for rule in judged if rule not in before)
        now = judged if others or items else fresh
        if barrier or now or judged != before:
            place = line["at"], line["chain"], line["seq"]
            chain.points.append(Point(seq, barrier, judged, now, items, place, others))

    def read_member(self, name: str, chain: ChainSummary, line: Json) -> None:
        """Add an account, or replace its groups; it belongs to one adversary only."""
        seq, groups = line["seq"], tuple(line["groups"])
        home, since, old = self.accounts.get(line["account"], (name, seq, None))
        if old is not None:
            right = self.is_here(home, since, name, seq)
            need(right, "an account is in another adversary too")
            chain.groups -= Counter([old])
        chain.groups += Counter([groups])
        self.accounts[line["account"]] = home, since, groups

    def is_member(self, account: str, name: str, seq: int) -> bool:
        """Return whether an account is in a chain by a line, its own or by a join."""
        home, since, _ = self.accounts.get(account, ("", 0, ()))
        return self.is_here(home, since, name, seq)

    def at_home(self, account: str) -> list[tuple[str, int]]:
        """Return where an account is a member: it holds what it was shown elsewhere."""
        home, since, _ = self.accounts[account]
        return [(home, since), *self.chains[home].path]

    def is_here(self, home: str, since: int, name: str, seq: int) -> bool:
        """Return whether what came at a place of the ledger is in a chain by a line."""
        path = self.chains[home].path if home in self.chains else ()
        return any(on == name and by < seq for on, by in ((home, since), *path))

    def load(self, name: str) -> Iterator[tuple[int, int, str]]:
        """Stream keys or relations, load by load; check their counts and hashes.

        Some lines at a time: the version in force, the number of the first, the lines.
        """
        what, number, lines = name.partition(".")[0], 1, list[bytes]()
        rest = (lines.split(b"\n")[:-1] for _, _, lines in blocks(self.folder, name))
        for version, line in self.loads:
            digest, missing = sha256(), line[f"{what}_count"]
            while missing and (lines or (lines := next(rest, []))):
                some, lines = lines[:missing], lines[missing:]
                raw = b"\n".join([*some, b""])
                digest.update(raw)
                yield version, number, text_of(raw)
                missing, number = missing - len(some), number + len(some)
            right = not missing and digest.hexdigest() == line[f"{what}_sha256"]
            need(right, "a load is not what the ledger counted and hashed", file=name)
        right = not lines and next(rest, None) is None
        need(right, "there are lines beyond the loads", file=name)

    def read_rules(self) -> None:
        """Find, by field, the scopes and needed members of its entries, and their t."""
        for rule in (rule for policy in self.policies for rule in policy.rules):
            for field in rule.fields:
                scope = "record" if rule.scope == "record" else "subject"
                self.scopes[field].add(scope)  # links are made of subjects
                self.needs[field] |= rule.needs
        for field in self.policies[1].t if self.policies[1:] else ():
            self.least[field] = min(p.t.get(field, 0) for p in self.policies[1:])

    def read_entries(self) -> None:
        """Join every entry with its exposures, then group entries by unit."""
        for version, number, text in self.load(KEYS):
            for n, found in enumerate(ENTRIES.findall(text), number):
                line = key(found) or parse(found[-1], n, KEYS)
                self.keys.add((line["entry"], version, line))
        for version, number, text in self.load(LINKS):
            for n, one in enumerate(text.split("\n")[:-1], number):
                line = parse(one, n, LINKS)
                self.counts["links"] += 1
                for end in line["ends"]:
                    self.ends.add(
                        (("subject", end), line["relation"], *line["ends"], version)
                    )
        for keys, shown in zip(self.keys.parts(), self.shown.parts(), strict=True):
            self.counts["entries"] += len(keys)
            for entry, lines in keys.items():
                self.read_entry(entry, lines, shown.pop(entry, []))
            need(not shown, "an exposure of an entry that is not in keys.jsonl")
        need(not self.unburnt, "unburn of an unknown entry")

    def read_entry(self, entry: str, lines: list[Row], shown: list[Row]) -> None:
        """Merge the lines of an entry, find its holders, and add it to its units."""
        facts = merged(lines)
        (begun, known), last = facts[0], facts[-1][1]
        field, held = last["field"], self.holders(begun, shown)
        if self.joins or len(held) < len(shown):  # some may have been held before
            new = [row for row in shown if held[row[1]][0] == row[2]]
        else:
            new = shown
        extra = self.unburnt.pop(entry, 0)
        if len(new) > self.least[field]:  # else no version's t is exceeded
            self.judge_showings(field, extra, new)
        if new and not self.needs[field] <= known.keys():  # else none is lacking
            first = min(row[4] for row in new)
            self.check_members(UnitEntry(entry, field, facts, held), first)
        if shown or self.policies[-1].averaging:
            wanted = self.needs[field] - {"subject"}
            visible = [
                (v, {m: f[m] for m in wanted & f.keys()}) for v, f in facts if wanted
            ]
            for scope in self.scopes[field]:
                if scope in last:
                    self.units.add(((scope, last[scope]), field, visible, held))

    def holders(
        self, begun: int, shown: list[Row]
    ) -> dict[str, tuple[int, int | None]]:
        """Return who holds an entry since where and when; check that they could."""
        held: dict[str, tuple[int, int | None]] = {}
        for _, name, seq, at, version, account in shown:
            here, also = f"line {seq} of {name}: its", list[tuple[str, int]]()
            need(version >= begun, f"{here} entry is not here")
            if account and not self.is_member(account, name, seq):
                need(account in self.accounts, f"{here} account is nowhere")
                self.astray.append(f"{here} account is in another adversary")
                also = self.at_home(account)
            if name not in held or seq < held[name][0]:
                held[name] = seq, at
            for on, by in [*(self.chains[name].path if self.joins else ()), *also]:
                if on not in held or by < held[on][0]:
                    held[on] = by, None
        return held

    def judge_showings(self, field: str, extra: int, shown: list[Row]) -> None:
        """Judge the limit t, and fields that are never sent."""
        showings = sorted([(row[4], row[3], row[1], row[2]) for row in shown])
        for number, (version, at, chain, seq) in enumerate(showings, 1):
            t = self.policies[version].t.get(field)
            if t is None:
                self.violate(at, chain, seq, chain, "fields.send")
            elif number > t + extra:
                after = showings[number][0] if number < len(showings) else inf
                if version < after:  # the last one under the version is named
                    self.violate(at, chain, seq, chain, "budget.t")

    def check_members(self, one: UnitEntry, first: int) -> None:
        """Check that from a version on an entry has all members that rules need."""
        for version, policy in enumerate(self.policies[first:], first):
            lacking = policy.needs[one.field] - one.known(version).keys()
            need(not lacking, f"an entry lacks its {sorted(lacking)}", file=KEYS)

    def judge_units(self) -> None:
        """Judge all records and subjects, then links, part after part."""
        for units, ends in zip(self.units.parts(), self.ends.parts(), strict=True):
            self.judge_part((of[0], of[1:], 0, rows) for of, rows in units.items())
            for subject, links in ends.items():
                right = len({link[1:4] for link in links}) == len(links)
                need(right, "a pair stands twice", file="relations.jsonl")
                for _, relation, *pair, after in links if subject in units else ():
                    self.links.add(((relation, *pair), after, units[subject]))
        one_sided = {
            rule.scope
            for policy in self.policies
            for rule in policy.rules
            if rule.linked
        }
        for linked in self.links.parts():
            self.judge_part(
                (scope, tuple(pair), ends[0][1], rows)
                for (relation, *pair), ends in linked.items()
                for scope in (f"relation {relation}",)
                if (rows := met(ends, one_sided=scope in one_sided))
            )

    def judge_part(self, units: Iterable[Row]) -> None:
        """Judge some units, each by itself where possible; else by adversary."""
        arrivals: dict[str, list[Row]] = defaultdict(list)
        whole, last = Held(dict), self.policies[-1]
        for scope, unit, after, rows in units:
            mine: dict[str, list[Row]] = {}
            for entry in map(UnitEntry._make, rows):
                row = (scope, entry.field), unit, after, entry
                for name, (seq, at) in entry.since.items():
                    if name in mine:
                        mine[name].append((seq, at, row))
                    else:
                        mine[name] = [(seq, at, row)]
                if last.averaging:
                    last.hold(whole, *row)
            for name, few in mine.items():
                if last.averaging or not self.judge_few(self.chains[name], name, few):
                    arrivals[name] += few
        self.judge_arrivals(arrivals, whole)

    def judge_few(self, chain: ChainSummary, name: str, arrivals: list[Row]) -> bool:
        """Judge a unit for one adversary, unless a point changes it or how it is judged."""
        rules = chain.rules if len(arrivals) > 1 else chain.alone
        held: dict[Rule, State] = {}
        arrivals.sort(key=itemgetter(0))
        if arrivals[0][0] <= chain.settled:
            return False
        for seq, at, (key, _, after, entry) in arrivals:
            for rule in rules.get(key, ()):
                if rule.version > after:
                    state = held[rule] = rule.hold(held.get(rule), entry)
                    if rule.past(state, name, seq):
                        self.violate(at, name, seq, name, rule.name)
        return True

    def judge_arrivals(self, arrivals: dict[str, list[Row]], whole: Held) -> None:
        """Judge the adversaries one by one, and sum f of all sets, for averages."""
        accepted = dict[str, set[Row]]()
        for rule, states in whole.items():
            for state in states.values():
                self.sets[rule] += sum(f > 0 for f in rule.fs(state, state))
        for name in sorted(arrivals, key=self.rank.__getitem__):
            held, accepted[name] = self.judge_holder(name, arrivals[name], accepted)
            for rule in whole if not self.chains[name].path else ():
                for unit, state in held[rule].items():
                    self.fs[name, rule].update(rule.fs(state, whole[rule][unit]))

    def judge_holder(
        self, name: str, arrivals: list[Row], ended: dict[str, set[Row]]
    ) -> tuple[Held, set[Row]]:
        """Judge some units for one adversary, line by line; return what it holds last.

        Accepted items are returned as well: they carry over to the chain it joins.
        """
        arrivals.sort(key=itemgetter(0))
        chain, first = self.chains[name], arrivals[0][0]
        later = bisect_left(chain.points, (first,))
        judged = chain.points[later - 1].judged if later else ()
        policy, here = self.policies[chain.version(first)], list[Any]()
        held, accepted = Held(dict), set[Row]()
        steps: list[Row] = arrivals
        if later < len(chain.points):
            steps = sorted([*arrivals, *chain.points[later:]], key=itemgetter(0))
        for step in steps:
            if isinstance(step, Point):
                if step.barrier:
                    policy, held = self.policies[step.barrier], Held(dict)
                    accepted = set()
                    for each in here:
                        policy.hold(held, *each)
                accepted.update(*(ended.get(other, ()) for other in step.others))
                self.judge_point(name, step, held, accepted)
                judged = step.judged
            else:
                seq, at, row = step
                here.append(row)
                for rule, state in policy.hold(held, *row):
                    counts = at is not None and rule in judged
                    if counts and rule.past(state, name, seq):
                        self.violate(at, name, seq, name, rule.name)
        return held, accepted

    def judge_point(
        self, name: str, point: Point, held: Held, accepted: set[Row]
    ) -> None:
        """Judge all units: those past a limit were accepted before, or are now."""
        for rule in point.now:
            for unit, state in held.get(rule, {}).items():
                item = (rule.name, *unit)
                if rule.past(state, name, point.seq) and item not in accepted:
                    if item in point.items:
                        point.items.remove(item)
                        accepted.add(item)
                    else:
                        self.violate(*point.place, name, rule.name)

    def finish(self) -> None:
        """Judge what is known only at the end: unneeded items, groups, averages."""
        policy, seen = self.policies[-1], dict[str, str]()
        for name, chain in self.chains.items():
            for _, of, seq in (point.place for point in chain.points if point.items):
                need(False, f"line {seq} of {of} accepts what is not past its limit")
            if chain.path:
                continue
            for group in {group for groups in chain.groups for group in groups}:
                right = (
                    group not in policy.groups or seen.setdefault(group, name) == name
                )
                need(right, "a group has accounts in two adversaries")
            judged = chain.points[-1].judged if chain.points else ()
            limits = [(rule.name, rule.average, [rule]) for rule in judged]
            if not policy.unchecked:
                limits.append(("budget.average", policy.average, [*judged]))
            for what, limit, rules in limits:
                asked = limit is not None and what not in chain.means
                if asked and not self.keeps_mean(name, limit, rules):
                    self.violate(
                        self.seal["at"], "system", self.seal["seq"], name, what
                    )

    def keeps_mean(self, name: str, limit: Fraction, rules: list[Rule]) -> bool:
        """Decide exactly whether the mean of f is within the limit."""
        most = limit * sum(self.sets[rule] for rule in rules)
        exact, roots, bits = Fraction(0), Counter[Fraction](), 64
        for rule in rules:
            for f, n in self.fs[name, rule].items():
                root = Fraction(isqrt(f.numerator), isqrt(f.denominator))
                if rule.kind == "cosine" and root * root != f:
                    roots[f] += n
                else:
                    exact += n * (
                        root if rule.kind == "cosine" else Fraction(f, rule.scale)
                    )
        while True:  # irrational roots never sum to a fraction: it ends
            low = exact + sum(
                Fraction(
                    n * isqrt((f.numerator << 2 * bits) // f.denominator), 1 << bits
                )
                for f, n in roots.items()
            )
            high = low + Fraction(sum(roots.values()), 1 << bits)
            if high <= most or low > most:
                return high <= most
            bits *= 2

    def certificate(self) -> dict[str, Json]:
        """Compute the expected certificate."""
        best: dict[str, Row] = {}
        for rule in (rule for policy in self.policies for rule in policy.rules):
            if rule.tau is not None:
                share = rule.top / (rule.tau * rule.scale)
                square = share if rule.kind == "cosine" else share * share
                found = -square, *rule.place, str(share)
                best[rule.name] = min(found, best.get(rule.name, found))
        worst: dict[str, Json] = {}
        for name, (square, chain, seq, share) in best.items():
            where = {"chain": chain, "seq": seq} if square else {}
            worst[name] = {"share": share} | where
        unchecked = {name for policy in self.policies for name in policy.unchecked}
        if self.policies[-1].unchecked and self.policies[-1].average is not None:
            unchecked.add("budget.average")
        self.counts["accounts"], self.counts["joins"] = (
            len(self.accounts),
            len(self.joins),
        )
        self.counts["adversaries"] = sum(not c.path for c in self.chains.values())
        applied = enumerate(self.policies[1:], 1)
        return {
            "format": 1,
            "heads": self.heads,
            "seal": {name: self.seal[name] for name in ("seq", "root")},
            "policies": {str(n): policy.line["sha256"] for n, policy in applied},
            "counts": self.counts,
            "joins": sorted(self.joins, key=itemgetter("chains")),
            "not_checked": sorted(unchecked),
            "worst": worst,
        }


def merged(lines: list[Row]) -> list[tuple[int, Json]]:
    """Merge the lines of an entry: all its members, from each version on."""
    facts: list[tuple[int, Json]] = [lines[0][1:]]
    for _, version, line in lines[1:]:
        known = facts[-1][1]
        for member in line.keys() & known.keys():
            old, new = known[member], line[member]
            both = (old | new, new | old) if type(new) is dict else (old, new)
            need(both[0] == both[1], "a line changes an entry", file="keys.jsonl")
            line[member] = both[0]
        facts.append((version + 1, known | line))  # from the next version on
    return facts


def met(ends: list[Row], *, one_sided: bool) -> list[Row]:
    """Return the entries of a link's ends that have any, as held by who may see it.

    Those are holders of both ends, unless some rule learns from one end alone.
    """
    rows = [row for end in ends for row in end[2]]
    if one_sided:
        return rows
    if len(ends) < 2:
        return []
    names = [{name for row in end[2] for name in row[3]} for end in ends]
    both = names[0] & names[1]
    return [
        (*row[:3], {name: row[3][name] for name in row[3].keys() & both})
        for row in rows
    ]


def merkle_root(leaves: dict[str, str]) -> str:
    """Compute the tree hash of RFC 9162, 2.1.1, over the leaves in order of chain."""
    level = [sha256(f"\0{c}:{leaves[c]}".encode()).digest() for c in sorted(leaves)]
    while len(level) > 1:
        odd = [level.pop()] if len(level) % 2 else []
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [sha256(b"\1" + left + right).digest() for left, right in pairs] + odd
    return level[0].hex()


def check_acts(folder: Path, noted: set[str]) -> list[str]:
    """Check the chain of the audit log, if the bundle has it; say where it ends."""
    name, seq, last = "audit.jsonl", 0, "0" * 64
    if not (folder / name).exists():
        return []
    for first, _, lines in blocks(folder, name):
        for number, text in enumerate(text_of(lines).split("\n")[:-1], first):
            line = parse(text, number, name)
            own, seq = line.pop("hash"), seq + 1
            right = (line["chain"], line["seq"], line["prev"]) == ("audit", seq, last)
            need(right, "the line does not follow the one before it", number, name)
            right = sha256((last + ENCODE(line)).encode()).hexdigest() == own
            need(right, "the line has not the hash that it says", number, name)
            last = own
            noted.discard(own)
    return [f"ACTS {seq}, the last {last}"]


# -- The verdict ---------------------------------------------------------------------


def judge(folder: Path, heads: set[str]) -> tuple[int, list[str]]:
    """Check a bundle; return the exit status and the lines to print."""
    need(folder.is_dir(), "not a directory", file=".")
    with TemporaryFile() as file:
        audit = Audit(folder, file)
        audit.read_system()
        audit.read_ledger()
        acts = check_acts(folder, heads)
        audit.check_seals(heads)
        audit.read_joins()
        audit.read_points()
        audit.read_rules()
        audit.read_entries()
        audit.judge_units()
        audit.finish()
    name, certificate = "cert.json", audit.certificate()
    if audit.astray:
        # A violation caused by a misplaced exposure matters more than the misplacement.
        need(audit.violations, min(audit.astray))
        return 1, [f"VIOLATED {violated(audit)}", f"ASTRAY {min(audit.astray)}"]
    texts = [text_of(raw) for _, _, raw in islice(blocks(folder, name), 2)]
    need("".join(texts).count("\n") == 1, "not exactly one line", file=name)
    line = parse(texts[0][:-1], 1, name)
    for member, value in certificate.items():
        right = ENCODE(line[member]) == ENCODE(value)
        need(right, f"`{member}` does not agree with the other files", 1, name)
    shown = [f"NOT CHECKED {json.dumps(rule)}" for rule in certificate["not_checked"]]
    declared = {
        json.dumps(
            {m: x for m, x in crop.items() if m != "sent" and x != []}, default=str
        )
        for policy in audit.policies
        for crop in policy.crops
        if crop["sent"]
    }
    shown += [f"CROP {crop}" for crop in sorted(declared)]
    shown += [f"JOINED {json.dumps(join)}" for join in certificate["joins"]]
    shown += acts
    shown += ["ASSUMED who is whom, and in which group, is as the ledger says"]
    shown += [f"ASSUMED {json.dumps(text)}" for text in line["assumed"]]
    if not audit.violations:
        return 0, [f"VERIFIED {ENCODE(certificate['counts'])}", *shown]
    return 1, [f"VIOLATED {violated(audit)}", *shown]


def violated(audit: Audit) -> str:
    """Return the line of output for the first violation."""
    _, chain, seq, who, rule = audit.violations[0]
    return ENCODE({"adversary": who, "chain": chain, "property": rule, "seq": seq})


def main(argv: list[str]) -> int:
    """Run the command; return its exit status."""
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
    gc.disable()  # rows come and go by the million, and none is in a cycle
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main(sys.argv[1:]))
