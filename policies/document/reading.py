"""Typed access to a parsed TOML table, with located errors.

A reader never raises: a missing or wrong value is reported and returned as None, so
that one pass over the file finds all its errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final

from policies.document.diagnostic import (
    Diagnostic,
    Severity,
    Span,
    decimal,
    listed,
    shown,
)
from policies.document.locator import Path
from policies.document.source import BadNumber, Source
from policies.policy import Entity

MOST_COMPARED: Final = 500
LARGEST_INTEGER: Final = (1 << 63) - 1
MICROSECONDS: Final = {
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})([smhdw])")


class Findings:
    """Collects the diagnostics of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._all: dict[Diagnostic, None] = {}  # each is reported once

    def error(self, code: str, span: Span, what: str, why: str, fix: str) -> None:
        """Report an error: the file is refused."""
        self._add(code, Severity.ERROR, span, (what, why, fix))

    def warning(self, code: str, span: Span, what: str, why: str, fix: str) -> None:
        """Report a warning: the file is valid but doubtful."""
        self._add(code, Severity.WARNING, span, (what, why, fix))

    def _add(
        self, code: str, severity: Severity, span: Span, texts: tuple[str, str, str]
    ) -> None:
        what, why, fix = texts
        place = (span.line, span.column, span.length)
        self._all[Diagnostic(code, severity, what, *place, why, fix)] = None

    @property
    def failed(self) -> bool:
        """Whether any error was reported."""
        return any(d.severity is Severity.ERROR for d in self._all)

    def ordered(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics in order of line."""
        return tuple(sorted(self._all, key=lambda d: (d.line, d.column, d.code)))


class Reader:
    """One table of the file.

    Parameters
    ----------
    findings : Findings
    path : Path
        Where the table stands.
    what : str
        Its kind for a reader, with article: "a property table".
    """

    def __init__(
        self, findings: Findings, path: Path, values: object, what: str
    ) -> None:
        self.findings = findings
        self.path = path
        self.what = what
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        if not isinstance(values, dict):
            self.wrong(None, f"{what}, `{{ key = value }}`")

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def key_span(self, key: str, *more: str | int) -> Span:
        """Return the place of a key, or of a key below it."""
        return self.findings.source.places.key((*self.path, key, *more))

    def value_span(self, key: str, *more: str | int) -> Span:
        """Return the place of a key's value, or of an item in it."""
        return self.findings.source.places.value((*self.path, key, *more))

    def table_span(self) -> Span:
        """Return the place of the table."""
        return self.findings.source.places.table(self.path)

    def knows(self, keys: Collection[str]) -> None:
        """Report all keys but these (POL002)."""
        for key in self.values:
            if key not in keys:
                self.findings.error(
                    "POL002",
                    self.key_span(key),
                    f"unknown key `{shown(key)}`",
                    f"{self.what} knows: {', '.join(sorted(keys))}",
                    suggestion(key, keys, "`") or "delete the key",
                )

    def missing(self, key: str, fix: str) -> None:
        """Report a required key that is missing (POL005)."""
        self.findings.error(
            "POL005",
            self.table_span(),
            f"{self.what} lacks `{key}`",
            f"`{key}` is required",
            fix,
        )

    def wrong(self, key: str | None, expected: str, *more: str | int) -> None:
        """Report a value of a wrong type or out of range (POL003)."""
        path = self.path if key is None else (*self.path, key, *more)
        name = next((p for p in reversed(path) if isinstance(p, str)), "the file")
        value = self.findings.source.values
        for part in path:
            value = value[part]  # type: ignore[index]
        self.findings.error(
            "POL003",
            self.findings.source.places.value(path),
            f"`{shown(name)}` cannot be {describe_value(value, self._raw(path))}",
            f"expected {expected}"
            + (f"; {value.reason}" if isinstance(value, BadNumber) else ""),
            f"write {expected}",
        )

    def _raw(self, path: Path) -> str:
        return self.findings.source.places.raw.get(path, "")

    def text(self, key: str, *, empty: bool = False) -> str | None:
        """Return a text; None if absent or wrong. Empty text is wrong unless allowed."""
        value = self.values.get(key)
        if key not in self.values:
            return None
        if not isinstance(value, str) or (not value and not empty):
            self.wrong(key, "a text in quotes" if empty else "a text that is not empty")
            return None
        return value

    def needed_text(self, key: str, fix: str) -> str | None:
        """Return a required text."""
        if key not in self.values:
            self.missing(key, fix)
        return self.text(key)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "true or false")
            return default
        return value

    def integer(self, key: str, low: int = 1) -> int | None:
        """Return an integer >= low that fits 64 bits."""
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(key, f"an integer of at least {low}")
        elif not low <= value <= LARGEST_INTEGER:
            self.wrong(key, f"an integer of at least {low} that fits 64 bits")
        else:
            return value
        return None

    def number(
        self,
        key: str,
        expected: str,
        low: Fraction | None,
        high: Fraction | None = None,
    ) -> Fraction | None:
        """Return an exact number, ``low <= number <= high`` where they are given."""
        if key not in self.values:
            return None
        value = exact_number(self.values[key])
        outside = value is not None and (
            (low is not None and value < low) or (high is not None and value > high)
        )
        if value is None or outside:
            self.wrong(key, expected)
            return None
        return value

    def share(self, key: str) -> Fraction | None:
        """Return an exact number above 0 and at most 1."""
        expected = "a number above 0 and at most 1"
        value = self.number(key, expected, Fraction(0), Fraction(1))
        if value == 0:
            self.wrong(key, expected)
            return None
        return value

    def word(self, key: str, words: Collection[str], whose: str) -> str | None:
        """Return a word of a closed list (POL004)."""
        value = self.values.get(key)
        if key not in self.values:
            return None
        if not isinstance(value, str):
            self.wrong(key, f"one of {', '.join(sorted(words))}")
        elif value not in words:
            self.findings.error(
                "POL004",
                self.value_span(key),
                f"{whose} has no known `{key}`",
                f"`{key}` is one of {', '.join(sorted(words))}",
                suggestion(value, words, '"')
                or f"write one of them, not {shown(value)!r}",
            )
        else:
            return value
        return None

    def texts(
        self, key: str, *, least: int = 1, distinct: bool = True
    ) -> tuple[str, ...]:
        """Return a list of non-empty texts; wrong ones are reported and left out."""
        if key not in self.values:
            return ()
        return self.text_items(self.values[key], (key,), least, distinct)

    def text_items(
        self, value: object, at: tuple[str | int, ...], least: int, distinct: bool
    ) -> tuple[str, ...]:
        """Return the items of a list at a path below this table, as :meth:`texts`."""
        if not isinstance(value, list) or len(value) < least:
            kind = "a list of texts" + (" that is not empty" if least else "")
            self.wrong(str(at[0]), kind, *at[1:])
            return ()
        seen: set[str] = set()
        kept: list[str] = []
        for number, item in enumerate(value):
            if not isinstance(item, str) or not item:
                self.wrong(str(at[0]), "a text that is not empty", *at[1:], number)
            elif distinct and item in seen:
                self.wrong(str(at[0]), "each one only once", *at[1:], number)
            else:
                seen.add(item)
                kept.append(item)
        return tuple(kept)

    def duration(self, key: str) -> int | None:
        """Return a duration, an integer with a unit, in microseconds."""
        value = self.values.get(key)
        if key not in self.values:
            return None
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        length = int(found[1]) * MICROSECONDS[found[2]] if found else 0
        if not 1 <= length <= LARGEST_INTEGER:
            self.wrong(key, 'an integer >= 1 and one of s, m, h, d, w, like "30d"')
            return None
        return length

    def inner(self, key: str, what: str) -> Reader:
        """Return the table under a key; an empty one if it is absent."""
        return Reader(self.findings, (*self.path, key), self.values.get(key, {}), what)

    def named(self, key: str, what: str) -> Iterator[tuple[str, Reader]]:
        """Yield the tables under a table of names: name and reader of each."""
        outer = self.inner(key, f"a table of names, `[{key}.NAME]`")
        for name in outer.values:
            if not name:
                outer.findings.error(
                    "POL003",
                    outer.key_span(name),
                    f"a name in `{key}` is empty",
                    "names stand in verdicts and evidence",
                    "give it a name",
                )
            else:
                yield name, outer.inner(name, what)

    def rows(self, key: str, what: str) -> Iterator[Reader]:
        """Yield the tables of an array of tables ``[[key]]``."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            self.wrong(key, f"rows, `[[{key}]]`")
            return
        for number, row in enumerate(value):
            yield Reader(self.findings, (*self.path, key, number), row, what)


def exact_number(value: object) -> Fraction | None:
    """Return an exact number; None for anything else, such as true or a bad decimal."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value) if abs(value) <= LARGEST_INTEGER else None
    return None


def describe_value(value: object, raw: str) -> str:
    """Describe a value for a message: as written, or its type."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, Fraction):
        return shown(raw or decimal(value))
    if isinstance(value, BadNumber):
        return shown(value.text)
    return shown(raw or repr(value))


def suggestion(name: str, known: Collection[str], quote: str) -> str | None:
    """Suggest the known name that a mistyped one most resembles."""
    if len(known) > MOST_COMPARED:
        return None
    near = get_close_matches(name[:80], [k for k in known if len(k) <= 80], 1, 0.6)
    return f"did you mean {quote}{shown(near[0])}{quote}?" if near else None


def known_names(names: Collection[str]) -> str:
    """Return the reason of an unknown name: those that are known."""
    return f"known: {listed(names)}"


def is_unclosed(glob: str) -> bool:
    """Whether a glob has a ``[`` that opens no set, which ``fnmatch`` takes literally."""
    at = glob.find("[")
    while at >= 0:
        start = at + 1
        if glob.startswith("!", start):
            start += 1
        end = glob.find("]", start + 1 if glob.startswith("]", start) else start)
        if end < 0:
            return True
        at = glob.find("[", end + 1)
    return False


def report_missing_column(
    root: Reader,
    place: tuple[str, ...],
    entity: Entity,
    why: str,
    column: str = "subject",
) -> None:
    """Report that the entity lacks a column that something needs (POL104)."""
    if not entity.name:
        return  # there is no entity, which is reported already
    root.findings.error(
        "POL104",
        root.findings.source.places.value(place),
        f"entity `{shown(entity.name)}` has no `{column}`",
        why,
        f'add {column} = "<column>" to [entity.{shown(entity.name)}]',
    )


def report_bad_glob(reader: Reader, key: str, *more: int) -> None:
    """Report a glob with an unclosed ``[`` (POL003)."""
    reader.wrong(key, "a glob without an unclosed `[`", *more)


def report_unknown_rule(
    reader: Reader, span: Span, rule: str, rules: Collection[str]
) -> None:
    """Report a rule that the file lacks (POL105)."""
    reader.findings.error(
        "POL105",
        span,
        f"unknown rule `{shown(rule)}`",
        known_names(rules),
        suggestion(rule, rules, "`")
        or f"add [property.{shown(rule)}], or delete it here",
    )


def report_unknown_field(
    reader: Reader, span: Span, whose: str, name: str, fields: Collection[str]
) -> None:
    """Report a field that the entity lacks (POL101), unless it has none at all."""
    if not fields:
        return
    reader.findings.error(
        "POL101",
        span,
        f"{whose} names an unknown field `{shown(name)}`",
        f"known fields: {listed(fields)}",
        suggestion(name, fields, "`") or "name one of them, or add the field",
    )


def report_conflict(reader: Reader, key: str, other: str, why: str) -> None:
    """Report two keys that exclude each other (POL006)."""
    reader.findings.error(
        "POL006",
        reader.key_span(key),
        f"`{key}` and `{other}` exclude each other",
        why,
        f"delete `{key}` or `{other}`",
    )


def report_no_effect(reader: Reader, key: str, why: str, fix: str) -> None:
    """Report a key that has no effect where it stands (POL205)."""
    reader.findings.error(
        "POL205", reader.key_span(key), f"`{key}` has no effect here", why, fix
    )
