"""Read and run ``[[test]]`` blocks: policy tests on made-up facts.

A test judges made-up facts as the gate would. It judges only tau, not t, averages or
capacities, and no rule that is tabulated from data of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from policies.document.diagnostic import decimal, listed, shown
from policies.document.reading import (
    LARGEST_INTEGER,
    Reader,
    report_unknown_field,
    report_unknown_rule,
    suggestion,
)
from policies.document.sections import FACT_NAMES
from policies.policy import Policy, PolicyTest, Property, TestFacts
from policies.rules.groups import adversaries, groups_of, trusted_rules
from policies.rules.kinds import (
    LinkDisclosure,
    PlaceSimilarity,
    Tabulated,
    Vector,
    family,
)

if TYPE_CHECKING:
    from policies.rules.asks import Rules

TEST_KEYS: Final = (
    "name",
    "worker",
    "seen",
    "seen_by",
    "ask",
    "same_subject",
    "facts",
    "expect",
    "by",
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_FINE: Final = re.compile(r"\.\d{7,}")

Entry = tuple[str, str]
"""Record and field."""


def read_tests(root: Reader, policy: Policy) -> tuple[PolicyTest, ...]:
    """Read all ``[[test]]`` blocks against the rest of the file."""
    names: dict[str, int] = {}
    tests = []
    for reader in root.rows("test", "a test table"):
        test = _TestReader(reader, policy).read()
        if test.name in names:
            root.findings.error(
                "POL003",
                reader.value_span("name"),
                f"a second test `{shown(test.name)}`",
                f"line {names[test.name]} has a test of that name; results go by name",
                "choose another name",
            )
        elif test.name:
            names[test.name] = test.line
        tests.append(test)
    return tuple(tests)


class _TestReader:
    """Reads one ``[[test]]`` block."""

    def __init__(self, reader: Reader, policy: Policy) -> None:
        self._reader = reader
        self._policy = policy
        fields = policy.entity.fields
        self._by_length = sorted(fields, key=len, reverse=True)

    def read(self) -> PolicyTest:
        reader = self._reader
        reader.knows(TEST_KEYS)
        name = reader.needed_text("name", 'add name = "what it shows"')
        worker = reader.needed_text("worker", 'add worker = "<connector>/<account>"')
        ask = reader.needed_text("ask", 'add ask = "<record>.<field>"')
        seen = self._entries(reader.values.get("seen", []), ("seen",))
        seen_by = self._seen_by()
        asked = self._entry(ask, ("ask",)) if ask is not None else None
        entries = [*seen, *(e for held in seen_by.values() for e in held)]
        records = {record for record, _ in [*entries, *([asked] if asked else [])]}
        same = self._same_subject()
        facts = self._facts(records | {r for group in same for r in group})
        self._subjects_once(same, facts.subject)
        allow, by = self._expected()
        return PolicyTest(
            name=name or "",
            worker=worker or "",
            ask=asked or ("", ""),
            expect_allow=allow,
            by=by,
            seen=seen,
            seen_by=seen_by,
            same_subject=same,
            facts=facts,
            line=reader.table_span().line,
        )

    def _expected(self) -> tuple[bool, str | None]:
        reader = self._reader
        if "expect" not in reader:
            reader.missing("expect", 'add expect = "allow" or "deny"')
        expect = reader.word("expect", ("allow", "deny"), "a test")
        by = reader.text("by")
        rules = self._policy.properties
        if by is not None and by not in rules:
            report_unknown_rule(reader, reader.value_span("by"), by, rules)
        if "by" in reader and expect == "allow":
            reader.findings.error(
                "POL205",
                reader.key_span("by"),
                "`by` has no effect here",
                '`by` names a rule that refuses; this test expects "allow"',
                'delete the line, or set expect = "deny"',
            )
        return expect == "allow", by

    def _entries(self, value: object, at: tuple[str, ...]) -> tuple[Entry, ...]:
        """Read a list of RECORD.FIELD, in the order of the file."""
        texts = self._reader.text_items(value, at, 0, distinct=False)
        whole = isinstance(value, list) and len(texts) == len(value)
        places: list[tuple[str | int, ...]]
        places = [(*at, n) if whole else at for n in range(len(texts))]
        found = (self._entry(t, p) for t, p in zip(texts, places, strict=True))
        return tuple(entry for entry in found if entry is not None)

    def _entry(self, text: str, at: tuple[str | int, ...]) -> Entry | None:
        """Read RECORD.FIELD: the longest field that the text ends with after a dot."""
        reader = self._reader
        span = reader.value_span(str(at[0]), *at[1:])
        for field in self._by_length:
            if text == f".{field}":
                break  # the longest field leaves no record
            if text.endswith(f".{field}"):
                never = not self._policy.entity.fields[field].send
                if never and at == ("ask",) and reader.values.get("expect") == "allow":
                    reader.findings.error(
                        "POL003",
                        span,
                        f"`{shown(text)}` cannot be allowed",
                        f"`{shown(field)}` has send = false: nobody is ever shown it",
                        'ask for another field, say expect = "deny", or delete the test',
                    )
                return text[: -len(field) - 1], field
        record, dot, name = text.rpartition(".")
        if dot and record and name not in self._policy.entity.fields:
            fields = self._policy.entity.fields
            report_unknown_field(reader, span, "a test", name, fields)
        else:
            expected = "an entry RECORD.FIELD, like rx-1.drug"
            reader.wrong(str(at[0]), expected, *at[1:])
        return None

    def _seen_by(self) -> dict[str, tuple[Entry, ...]]:
        inner = self._reader.inner("seen_by", "a table of accounts")
        seen = {}
        for account, value in inner.values.items():
            if account:
                seen[account] = self._entries(value, ("seen_by", account))
            else:
                self._fact_error("seen_by", account, "an account that is not empty")
        return seen

    def _same_subject(self) -> tuple[tuple[str, ...], ...]:
        """Read a list of records, or a list of such lists."""
        value = self._reader.values.get("same_subject", [])
        nested = isinstance(value, list) and any(isinstance(v, list) for v in value)
        if not nested:
            records = self._reader.text_items(
                value, ("same_subject",), 0, distinct=True
            )
            return (records,) if records else ()
        groups: list[tuple[str, ...]] = []
        for number, item in enumerate(value):
            at = ("same_subject", number)
            records = self._reader.text_items(item, at, 0, distinct=True)
            for record in records:
                if any(record in group for group in groups):
                    self._reader.wrong("same_subject", "each record only once", *at[1:])
            groups.append(records)
        return tuple(g for g in groups if g)

    def _subjects_once(
        self, same: Iterable[Iterable[str]], given: Mapping[str, str]
    ) -> None:
        for record in (r for group in same for r in group):
            if record in given:
                self._reader.findings.error(
                    "POL003",
                    self._reader.key_span("facts", "subject", record),
                    f"the subject of `{shown(record)}` is given twice",
                    "it stands in same_subject and in facts.subject",
                    "delete one of them",
                )

    def _facts(self, records: set[str]) -> TestFacts:
        reader = self._reader.inner("facts", "a table of facts")
        relations = self._policy.relations
        links = {}
        for key in reader.values:
            if key in relations:
                links[key] = self._links(key)
            elif key not in FACT_NAMES:
                reader.findings.error(
                    "POL103",
                    reader.key_span(key),
                    f"unknown relation `{shown(key)}`",
                    f"known: {listed(relations)}; facts may also be "
                    f"{', '.join(FACT_NAMES)}",
                    suggestion(key, [*relations, *FACT_NAMES], "`") or "delete it",
                )
        times = self._times()
        given = set(self._facts_by_record("time"))
        missing = sorted(records - given) if given else []
        if missing:
            reader.findings.error(
                "POL003",
                reader.key_span("time"),
                f"`{shown(missing[0])}` has no time",
                "if one record of the test has a time, every record of it must",
                f"tell the time of {listed(missing, 8)} too",
            )
        return TestFacts(
            relations=links,
            subject=self._texts("subject", empty=False),
            vector=self._texts("vector", empty=True),
            count=self._counts(),
            time=times,
        )

    def _fact_error(self, key: str, record: str, expected: str) -> None:
        inner = (record,) if key == "seen_by" else (key, record)
        at = key if key == "seen_by" else "facts"
        self._reader.wrong(at, expected, *inner)

    def _facts_by_record(self, key: str) -> Mapping[str, object]:
        facts = self._reader.inner("facts", "a table of facts")
        return facts.inner(key, "a table by record").values

    def _texts(self, key: str, *, empty: bool) -> dict[str, str]:
        found = {}
        for record, value in self._facts_by_record(key).items():
            if isinstance(value, str) and (value or empty):
                found[record] = value
            else:
                self._fact_error(key, record, "a text")
        return found

    def _counts(self) -> dict[str, int]:
        found = {}
        for record, value in self._facts_by_record("count").items():
            whole = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, int) and whole and 0 <= value <= LARGEST_INTEGER:
                found[record] = value
            else:
                self._fact_error("count", record, "an integer of at least 0")
        return found

    def _times(self) -> dict[str, int]:
        found = {}
        path = (*self._reader.path, "facts", "time")
        for record, value in self._facts_by_record("time").items():
            raw = self._reader.findings.source.places.raw.get((*path, record), "")
            moment = None if _TOO_FINE.search(raw) else microseconds(value)
            if moment is None:
                expected = "a date-time, at most to the microsecond"
                self._fact_error("time", record, expected)
            else:
                found[record] = moment
        return found

    def _links(self, key: str) -> tuple[tuple[str, str], ...]:
        """Read pairs of subjects; a pair of one subject is no link."""
        value = self._reader.inner("facts", "a table of facts").values[key]
        if not isinstance(value, list):
            self._reader.wrong("facts", "a list of pairs of subjects", key)
            return ()
        found = []
        for number, pair in enumerate(value):
            if isinstance(pair, list) and len(pair) == 2 and all(map(_is_name, pair)):
                if pair[0] != pair[1]:
                    found.append((pair[0], pair[1]))
            else:
                self._reader.wrong("facts", "a pair of subjects", key, number)
        return tuple(found)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def microseconds(value: object) -> int | None:
    """Return a date-time or ISO 8601 text as microseconds UTC; without a zone it is UTC.

    None for anything else, and if the zone takes it out of the calendar.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@dataclass(frozen=True)
class Refusal:
    """A rule that refuses the asked entry: its f afterwards, and its limit."""

    property: str
    f: Fraction
    tau: Fraction

    def __str__(self) -> str:
        limit = f"f = {decimal(self.f)} >= tau = {decimal(self.tau)}"
        return f"{shown(self.property)}: {limit}"


@dataclass(frozen=True)
class Impossible:
    """A step of a test's history that the rules refuse.

    Attributes
    ----------
    step : int
        Its place among the entries that the adversary holds, from 1.
    entry : tuple of (str, str)
    refusal : Refusal
    """

    step: int
    entry: Entry
    refusal: Refusal

    def __str__(self) -> str:
        entry = shown(".".join(self.entry))
        return f"{entry}, seen as number {self.step}, is refused by {self.refusal}"


@dataclass(frozen=True)
class TestOutcome:
    """The outcome of one test.

    Attributes
    ----------
    test : PolicyTest
    refusals : tuple of Refusal
        The rules that refuse; empty is allow.
    unjudged : tuple of str
        Rules over the asked field that need data of their own (a table or a plugin), so
        that they were not judged.
    impossible : Impossible or None
        A step of the history that the rules refuse, so that it cannot have happened.
    never_sent : str
        A field of a test that must deny of which the policy says ``send = false``: it
        holds by itself, and no rule was asked.
    """

    __test__ = False

    test: PolicyTest
    refusals: tuple[Refusal, ...] = ()
    unjudged: tuple[str, ...] = ()
    impossible: Impossible | None = None
    never_sent: str = ""

    @property
    def allowed(self) -> bool:
        """Whether no rule refuses, and every field is sent."""
        return not self.refusals and not self.never_sent

    @property
    def passed(self) -> bool:
        """Whether the outcome is as expected, by the named rule if there is one."""
        by = self.test.by
        refused_by = any(r.property == by for r in self.refusals)
        named = by is None or refused_by or bool(self.never_sent)
        as_expected = self.allowed == self.test.expect_allow and named
        return as_expected and self.impossible is None

    def line(self, filename: str) -> str:
        """Return the line that ``policy test`` prints."""
        place = f"{filename}:{self.test.line}  {shown(self.test.name)}"
        if self.impossible is not None:
            return f"FAIL  {place}  (this history cannot be: {self.impossible})"
        if not self.passed:
            return f"FAIL  {place} -> {self._verdict()}  ({self._expected()})"
        if self.never_sent:
            field = shown(self.never_sent)
            return f"PASS  {place}  -> deny  [{field} is never sent: send = false]"
        detail = "" if self.allowed else f"  [{self._leading()}]"
        return f"PASS  {place}  -> {self._verdict()}{detail}"

    def _verdict(self) -> str:
        return "allow" if self.allowed else "deny"

    def _expected(self) -> str:
        by = f" by {shown(self.test.by)}" if self.test.by is not None else ""
        expected = "expected " + ("allow" if self.test.expect_allow else f"deny{by}")
        if self.test.by in self.unjudged:
            return f"{expected}, which needs data that a test has not"
        if self.refusals:
            return f"{expected}; {'; '.join(map(str, self.refusals))}"
        return expected

    def _leading(self) -> Refusal:
        """Return the rule that the test names, else the first."""
        named = [r for r in self.refusals if r.property == self.test.by]
        return (named or list(self.refusals))[0]


def run_tests(policy: Policy) -> tuple[TestOutcome, ...]:
    """Run every test of a policy, in the order of the file."""
    return tuple(run_test(policy, test) for test in policy.tests)


def run_test(policy: Policy, test: PolicyTest) -> TestOutcome:
    """Judge the asked entry of one test, and before it the history that it assumes."""
    if not test.expect_allow:
        fields = policy.entity.fields
        named = (field for _, field in (test.ask, *test.seen))
        if never := next((name for name in named if not fields[name].send), ""):
            return TestOutcome(test, never_sent=never)
    # the compiled rules load numpy, which reading a policy does not need
    from policies.rules.asks import compile_rules

    rules = compile_rules(policy)
    impossible = None
    for account in dict.fromkeys([test.worker, *test.seen_by]):
        held, trusted = _adversary(policy, test, account)
        for step, entry in enumerate(held, start=1):
            earlier = replace(test, ask=entry)
            refused = _refusals(policy, rules, earlier, held[: step - 1], trusted)
            if refused and impossible is None:
                impossible = Impossible(step, entry, refused[0])
    held, trusted = _adversary(policy, test, test.worker)
    unjudged = tuple(
        rule.name
        for rule in policy.properties.values()
        if test.ask[1] in rule.fields
        and rule.name not in trusted
        and isinstance(family(rule), Tabulated)
    )
    refused = _refusals(policy, rules, test, held, trusted)
    return TestOutcome(test, refused, unjudged, impossible)


def _adversary(
    policy: Policy, test: PolicyTest, account: str
) -> tuple[list[Entry], frozenset[str]]:
    """Return what an account's adversary holds, in ledger order, and its trusted rules."""
    parts = adversaries(policy, {test.worker, *test.seen_by})
    accounts = next(a.accounts for a in parts if account in a.accounts)
    held = [*test.seen] if test.worker in accounts else []
    for other, entries in test.seen_by.items():
        held += entries if other in accounts else ()
    return held, trusted_rules(policy, [groups_of(policy, a) for a in accounts])


def _refusals(
    policy: Policy,
    rules: Rules,
    test: PolicyTest,
    held: Sequence[Entry],
    trusted: frozenset[str],
) -> tuple[Refusal, ...]:
    """Return the rules that refuse the asked entry, in the order of the file."""
    from policies.rules.asks import EntryFacts, judge_ask

    record, field = test.ask
    subject, times = _subjects_of(test), test.facts.time
    known = frozenset(held)
    refused = {
        found.property: Refusal(found.property, found.after, found.tau)
        for found in judge_ask(
            rules,
            EntryFacts(record, field, subject(record), times.get(record, 0)),
            _counted((e for e in known if e[0] == record), times),
            _counted((e for e in known if subject(e[0]) == subject(record)), times),
            trusted,
            whole_unit=False,
        )
        if found.refused and found.tau is not None
    }
    for prop in policy.properties.values():
        if field not in prop.fields or prop.name in trusted or prop.tau is None:
            continue
        kind = family(prop)
        if isinstance(kind, PlaceSimilarity):
            reached = _largest_link(prop, kind.similarity, test, [*held, test.ask])
            if reached.past(prop.tau):
                refused[prop.name] = Refusal(prop.name, reached.root, prop.tau)
    return tuple(refused[name] for name in policy.properties if name in refused)


def _counted(
    entries: Iterable[Entry], times: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """Count distinct entries by field and time."""
    return Counter((field, times.get(record, 0)) for record, field in entries)


def _largest_link(
    prop: Property,
    similarity: Callable[[Vector, Vector], LinkDisclosure],
    test: PolicyTest,
    order: Iterable[Entry],
) -> LinkDisclosure:
    """Return the largest f of a link that ends in the asked entry's subject.

    Parameters
    ----------
    prop : Property
        A relation rule whose ``of`` has the asked field.
    similarity : callable
        From the place vectors of both ends to f.
    test : PolicyTest
    order : iterable of (str, str)
        Entries that the adversary holds, in ledger order, the asked one last. A
        similarity may fall as more is held, so it is judged after each of them.
    """
    relation = prop.relation or ""
    subjects = _subjects_of(test)
    mine = subjects(test.ask[0])
    friends = {
        b if a == mine else a
        for a, b in test.facts.relations.get(relation, ())
        if mine in (a, b)
    }
    visits: dict[str, dict[str, int]] = {}
    worst, held = LinkDisclosure(Fraction(0)), set()
    for record, field in order:
        if field not in prop.fields or (record, field) in held:
            continue
        held.add((record, field))
        count = test.facts.count.get(record, 1) if prop.disclosure.count else 1
        place = test.facts.vector.get(record, "")
        if place and count:
            vector = visits.setdefault(subjects(record), {})
            vector[place] = vector.get(place, 0) + count
        for friend in friends:
            reached = similarity(visits.get(mine, {}), visits.get(friend, {}))
            worst = max(worst, reached, key=lambda r: r.square)
    return worst


def _subjects_of(test: PolicyTest) -> Callable[[str], str]:
    """Return a function from a record to its subject; by default a record is its own.

    Records in one ``same_subject`` list share a subject, named as the first of them.
    """
    same = {r: group[0] for group in test.same_subject for r in group}
    given = test.facts.subject
    return lambda record: given.get(record) or same.get(record, record)
