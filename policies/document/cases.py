"""Reading ``[[test]]`` blocks: what a worker has seen, asks for, and is to be told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import Final

from policies.document.diagnostic import listed, shown
from policies.document.limits import FACT_NAMES, unknown_field, unknown_rule
from policies.document.reading import LARGEST_INTEGER, Reader, meant
from policies.policy import Policy, PolicyTest, TestFacts

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


def read_tests(root: Reader, policy: Policy) -> tuple[PolicyTest, ...]:
    """Read all ``[[test]]`` blocks against the rest of the file."""
    names: dict[str, int] = {}
    tests = []
    for reader in root.rows("test", "a test table"):
        test = _Case(reader, policy).read()
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


class _Case:
    """One block."""

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
            unknown_rule(reader, reader.value_span("by"), by, rules)
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
        """A list of RECORD.FIELD, in the order written."""
        texts = self._reader.text_items(value, at, 0, distinct=False)
        whole = isinstance(value, list) and len(texts) == len(value)
        places: list[tuple[str | int, ...]]
        places = [(*at, n) if whole else at for n in range(len(texts))]
        found = (self._entry(t, p) for t, p in zip(texts, places, strict=True))
        return tuple(entry for entry in found if entry is not None)

    def _entry(self, text: str, at: tuple[str | int, ...]) -> Entry | None:
        """RECORD.FIELD: the longest field that the text ends with after a dot."""
        reader = self._reader
        span = reader.value_span(str(at[0]), *at[1:])
        for field in self._by_length:
            if text == f".{field}":
                break  # the longest field leaves no record
            if text.endswith(f".{field}"):
                if self._policy.entity.fields[field].send:
                    return text[: -len(field) - 1], field
                reader.findings.error(
                    "POL003",
                    span,
                    f"`{shown(text)}` cannot stand in a test",
                    f"`{shown(field)}` has send = false: nobody is ever shown it",
                    "take another field",
                )
                return None
        record, dot, name = text.rpartition(".")
        if dot and record and name not in self._policy.entity.fields:
            fields = self._policy.entity.fields
            unknown_field(reader, span, "a test", name, fields)
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
        """A list of records, or a list of such lists."""
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
        self, same: Iterable[Iterable[str]], told: Mapping[str, str]
    ) -> None:
        for record in (r for group in same for r in group):
            if record in told:
                self._reader.findings.error(
                    "POL003",
                    self._reader.key_span("facts", "subject", record),
                    f"the subject of `{shown(record)}` is told twice",
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
                    f"known: {listed(relations)}; facts are also told as "
                    f"{', '.join(FACT_NAMES)}",
                    meant(key, [*relations, *FACT_NAMES], "`") or "delete it",
                )
        times = self._times()
        told = set(self._told("time"))
        silent = sorted(records - told) if told else []
        if silent:
            reader.findings.error(
                "POL003",
                reader.key_span("time"),
                f"`{shown(silent[0])}` has no time",
                "if one record of the test has a time, every record of it must",
                f"tell the time of {listed(silent, 8)} too",
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

    def _told(self, key: str) -> Mapping[str, object]:
        facts = self._reader.inner("facts", "a table of facts")
        return facts.inner(key, "a table by record").values

    def _texts(self, key: str, *, empty: bool) -> dict[str, str]:
        found = {}
        for record, value in self._told(key).items():
            if isinstance(value, str) and (value or empty):
                found[record] = value
            else:
                self._fact_error(key, record, "a text")
        return found

    def _counts(self) -> dict[str, int]:
        found = {}
        for record, value in self._told("count").items():
            whole = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, int) and whole and 0 <= value <= LARGEST_INTEGER:
                found[record] = value
            else:
                self._fact_error("count", record, "an integer of at least 0")
        return found

    def _times(self) -> dict[str, int]:
        found = {}
        path = (*self._reader.path, "facts", "time")
        for record, value in self._told("time").items():
            raw = self._reader.findings.source.places.raw.get((*path, record), "")
            moment = None if _TOO_FINE.search(raw) else microseconds(value)
            if moment is None:
                expected = "a date-time, at most to the microsecond"
                self._fact_error("time", record, expected)
            else:
                found[record] = moment
        return found

    def _links(self, key: str) -> tuple[tuple[str, str], ...]:
        """Pairs of different subjects; a pair of one is no link."""
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
    """Microseconds UTC of a date-time or ISO 8601 text; without a zone it is UTC.

    None for anything else, and where the zone takes it out of the calendar.
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
