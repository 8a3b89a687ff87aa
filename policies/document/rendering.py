"""Diagnostics as text for people, editors, CI and code scanners."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from policies.document.codes import CODES
from policies.document.diagnostic import Diagnostic, Severity, escaped

WIDEST_LINE: Final = 160
LEAD: Final = 40


def render(
    diagnostics: Sequence[Diagnostic], text: str, filename: str, format: str = "full"
) -> str:
    """Render the diagnostics of one file.

    Parameters
    ----------
    diagnostics : sequence of Diagnostic
    text : str
        The file (``ParseResult.text``), for the lines that ``full`` shows.
    filename : str
        As the user wrote it.
    format : str
        A key of :data:`FORMATS`: full, concise, json, github, sarif.

    Returns
    -------
    str
        Ends in a newline, unless it is empty. For json and sarif of several files use
        :func:`render_files`.

    Raises
    ------
    ValueError
        If the format is not known.
    """
    return render_files([(filename, text, diagnostics)], format)


File = tuple[str, str, Sequence[Diagnostic]]
"""Name, text and diagnostics of one file."""


def render_files(files: Sequence[File], format: str = "full") -> str:
    """Render the diagnostics of several files as one document, as :func:`render`."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise ValueError(f"format is {format!r}, expected one of {known}")
    return FORMATS[format](files)


def _as_text(files: Sequence[File]) -> str:
    blocks = [
        _annotated_source(d, text.split("\n"), name)
        for name, text, found in files
        for d in found
    ]
    return "\n".join(blocks)


def _annotated_source(found: Diagnostic, lines: Sequence[str], filename: str) -> str:
    """Render one diagnostic with its marked line, why and fix (after rustc and miette)."""
    line = lines[found.line - 1] if found.line <= len(lines) else ""
    code, pointer = _marked(line, found.column, found.mark)
    gutter = " " * len(str(found.line))
    place = f"{escaped(filename)}:{found.line}:{found.column}"
    return "\n".join(
        [
            f"{found.severity}[{found.code}]: {found.message}",
            f"{gutter}--> {place}",
            f"{gutter} |",
            f"{found.line} | {code}".rstrip(),
            f"{gutter} | {pointer}",
            f"{gutter} = why: {found.why}",
            f"{gutter} = fix: {found.fix}",
            "",
        ]
    )


def _marked(line: str, column: int, mark: int) -> tuple[str, str]:
    """Return a line cut around its mark, and the carets under it."""
    before, marked = line[: column - 1], line[column - 1 : column - 1 + mark]
    after = line[column - 1 + mark :]
    left = _on_one_line(before)
    if len(left) > WIDEST_LINE - LEAD:
        left = "…" + left[-LEAD:]
    middle = _on_one_line(marked)
    if len(middle) > WIDEST_LINE:
        middle = middle[: WIDEST_LINE - 1] + "…"
    room = max(LEAD, WIDEST_LINE - len(left) - len(middle))
    right = _on_one_line(after)
    if len(right) > room:
        right = right[: room - 1] + "…"
    carets = "^" * max(1, len(middle))
    return left + middle + right, " " * len(left) + carets


def _on_one_line(text: str) -> str:
    """Return text with one column per character: tabs as spaces, controls escaped."""
    return escaped(text.replace("\t", " "))


def _as_lines(files: Sequence[File]) -> str:
    return "".join(
        f"{escaped(name)}:{d.line}:{d.column}: {d.severity}[{d.code}] {d.message}\n"
        for name, _, found in files
        for d in found
    )


def _as_json(files: Sequence[File]) -> str:
    rows = [
        {
            "code": d.code,
            "severity": str(d.severity),
            "message": d.message,
            "filename": name,
            "line": d.line,
            "column": d.column,
            "mark": d.mark,
            "why": d.why,
            "fix": d.fix,
        }
        for name, _, found in files
        for d in found
    ]
    document = {
        "schema": "dispatcher.policy-diagnostics/1",
        "errors": sum(r["severity"] == Severity.ERROR for r in rows),
        "warnings": sum(r["severity"] == Severity.WARNING for r in rows),
        "diagnostics": rows,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_github_commands(files: Sequence[File]) -> str:
    """Render workflow commands of GitHub Actions."""
    return "".join(
        f"::{d.severity} title={_escaped_property(f'dispatcher ({d.code})')},"
        f"file={_escaped_property(name)},line={d.line},col={d.column},"
        f"endLine={d.line},endColumn={d.column + d.mark}"
        f"::{_escaped_data(f'{d.code} {d.message} (why: {d.why}; fix: {d.fix})')}\n"
        for name, _, found in files
        for d in found
    )


def _escaped_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")


def _as_sarif(files: Sequence[File]) -> str:
    """Render SARIF 2.1.0."""
    used = sorted({d.code for _, _, found in files for d in found})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].text},
            "help": {"text": f"dispatcher explain {code}"},
        }
        for code in used
    ]
    driver = {"name": "dispatcher policy", "rules": rules}
    results = [_result(d, name, used) for name, _, found in files for d in found]
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _result(found: Diagnostic, name: str, used: Sequence[str]) -> dict[str, object]:
    region = {
        "startLine": found.line,
        "startColumn": found.column,
        "endLine": found.line,
        "endColumn": found.column + found.mark,
    }
    location = {"artifactLocation": {"uri": _uri(name)}, "region": region}
    return {
        "ruleId": found.code,
        "ruleIndex": used.index(found.code),
        "level": str(found.severity),
        "message": {"text": f"{found.message}. {found.why}. Fix: {found.fix}"},
        "locations": [{"physicalLocation": location}],
    }


def _uri(name: str) -> str:
    from urllib.parse import quote

    return quote(name.replace("\\", "/"))


def summary(filename: str, diagnostics: Sequence[Diagnostic]) -> str:
    """Return the line that ends the report of ``policy check`` on a file."""
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    warnings = len(diagnostics) - errors
    return (
        f"{escaped(filename)}: {errors} error{'' if errors == 1 else 's'}, "
        f"{warnings} warning{'' if warnings == 1 else 's'}"
    )


FORMATS: Final[Mapping[str, Callable[[Sequence[File]], str]]] = {
    "full": _as_text,
    "concise": _as_lines,
    "json": _as_json,
    "github": _as_github_commands,
    "sarif": _as_sarif,
}
