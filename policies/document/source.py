"""From bytes to values and places: TOML, without knowledge of policies."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from policies.document.diagnostic import Diagnostic, Severity, Span, escaped, shown
from policies.document.locator import Places, locate

LARGEST_FILE: Final = 4 << 20
MOST_DIGITS: Final = 30
LARGEST_EXPONENT: Final = 30

_NUL = re.compile(r"\\(?:u0{4}|U0{8}|x00)")
_POSITION: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_FLOAT: Final = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")


@dataclass(frozen=True)
class BadNumber:
    """A decimal that the language refuses; ``reason`` says why."""

    text: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A policy file that is valid TOML.

    Attributes
    ----------
    text : str
        Without byte order mark, line ends as LF.
    values : Mapping
        As ``tomllib`` gives them, decimals as :class:`~fractions.Fraction` (or
        :class:`BadNumber`).
    places : Places
    """

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    places: Places = field(default_factory=lambda: Places(""))


def read(data: bytes) -> Source | Diagnostic:
    """Decode and parse; any input that the parser refuses is POL001, never a traceback."""
    if len(data) > LARGEST_FILE:
        return _refused(
            f"the file has {len(data):,} bytes",
            Span(1, 1),
            why=f"a policy file has at most {LARGEST_FILE:,} bytes",
            fix="check that this is the policy file; keep data in files beside it",
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        return _not_utf8(data, error)
    try:
        values = tomllib.loads(text, parse_float=exact)
        return (
            _with_nul(text) if _has_nul(values) else Source(text, values, locate(text))
        )
    except tomllib.TOMLDecodeError as error:
        return _syntax(text, error)
    except RecursionError:
        return _refused(
            "values are nested too deep",
            Span(1, 1),
            why="no part of a policy needs more than a handful of levels",
            fix="remove the nested arrays or tables",
        )
    except ValueError:  # an integer longer than the interpreter converts
        return _refused(
            "a number is too long",
            _longest_digits(text),
            why="an integer fits 64 bits, a decimal has at most 30 digits",
            fix="write a shorter number",
        )


def exact(text: str) -> Fraction | BadNumber:
    """Return a TOML float as an exact number; its length is checked before arithmetic."""
    found = _FLOAT.fullmatch(text.replace("_", ""))
    if not found:
        return BadNumber(text, "it is not a finite number")
    sign, whole, part, power = found[1], found[2], found[3] or "", found[4] or "0"
    if len((whole + part).lstrip("0")) > MOST_DIGITS or len(whole + part) > 1000:
        return BadNumber(text, f"a decimal has at most {MOST_DIGITS} digits")
    digits = power.lstrip("+-").lstrip("0")
    if len(digits) > 2 or int(digits or "0") > LARGEST_EXPONENT:
        return BadNumber(text, f"an exponent lies within +-{LARGEST_EXPONENT}")
    shift = int(power) - len(part)
    number = Fraction(int(sign + whole + part))
    return number * Fraction(10) ** shift


def _refused(message: str, span: Span, why: str, fix: str) -> Diagnostic:
    return Diagnostic(
        "POL001",
        Severity.ERROR,
        message,
        span.line,
        span.column,
        span.length,
        why,
        fix,
    )


def _syntax(text: str, error: tomllib.TOMLDecodeError) -> Diagnostic:
    said = str(error)
    found = _POSITION.search(said)
    what = said[: found.start()] if found else said
    if found and found[1]:
        span = Span(int(found[1]), int(found[2]))
    else:
        lines = text.split("\n")
        span = Span(len(lines), len(lines[-1]) + 1)
        what = f"{what} at the end of the file"
    return _refused(
        what[:1].lower() + shown(what[1:]),
        span,
        why="the file is not valid TOML 1.0",
        fix="mend the syntax at the mark",
    )


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Diagnostic:
    before = data[: error.start].decode("utf-8-sig", errors="replace")
    lines = before.replace("\r\n", "\n").split("\n")
    bad = escaped(f"0x{data[error.start]:02x}")
    return _refused(
        f"byte {bad} is not UTF-8",
        Span(len(lines), len(lines[-1]) + 1),
        why="a policy file is UTF-8 text",
        fix="save the file as UTF-8",
    )


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(part) for item in value.items() for part in item)
    return isinstance(value, list) and any(map(_has_nul, value))


def _with_nul(text: str) -> Diagnostic:
    found = _NUL.search(text)  # only an escape can write one
    return _refused(
        "a name or a text has a NUL character",
        _at(text, found.start(), len(found[0])) if found else Span(1, 1),
        why="no column of a file has such a name, and not every store keeps it",
        fix=r"remove the \u0000",
    )


def _at(text: str, start: int, length: int = 1) -> Span:
    line_start = text.rfind("\n", 0, start) + 1
    return Span(text.count("\n", 0, start) + 1, start - line_start + 1, length)


def _longest_digits(text: str) -> Span:
    found = max(re.finditer(r"[0-9_]+", text), key=lambda m: len(m[0]), default=None)
    return Span(1, 1) if found is None else _at(text, found.start())
