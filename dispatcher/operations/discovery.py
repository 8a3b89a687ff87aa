"""What is sensitive in a file: a policy drafted from it, and a policy checked against it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dispatcher.core.errors import Invalid, Usage
from dispatcher.operations.policies import split_names
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.preview import FilePreview, preview
from dispatcher.stages.intake.table import ROW_KEY, Options
from policies.discovery import exhaustive
from policies.discovery.profile import NOBODY, Profile, profile
from policies.document import Diagnostic, ParseResult
from policies.document.against import check_against
from policies.document.diagnostic import listed
from policies.document.draft import draft, field_names
from policies.policy import Policy


@dataclass(frozen=True)
class Suggestion:
    """A policy drafted from a file.

    Attributes
    ----------
    text : str
        The policy file.
    profile : Profile
        What the file tells.
    kept_apart : int
        How many combinations its rules keep apart.
    extra : str
        An extra of the package whose search would go further; empty if it is installed.
    withheld : tuple of str
        Fields with ``send = false``: nobody is shown them.
    pages : tuple of str
        Columns of whole pages, shown to nobody before boxes are drawn.
    """

    text: str
    profile: Profile
    kept_apart: int
    extra: str
    withheld: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def suggest(
    source: Path, options: Options, *, feed: bool = False, ask: Sequence[str] = ()
) -> Suggestion:
    """Draft a policy from a file of records; no value is written to it.

    For a feed, fields are sent to receivers and nobody is asked. With `ask`, only these
    columns are sent.

    Raises
    ------
    Usage
        `ask` names no column that can be a field.
    Invalid
        The file is no table, no column of it identifies its rows, or nothing of it
        can be a field.
    """
    found = _look(source, options)
    if found.rejected and found.rejections >= found.rows:
        first = found.rejected[0]
        raise Invalid(
            f"no row of {found.file.name} can be read",
            why=f"each of its {found.rows:,} rows is rejected; the first one, on line "
            f"{first.line}: {first.reason}",
            fix="correct the file; dispatcher records preview lists the rows",
        )
    key = ROW_KEY if options.numbered else found.profile.key
    if key is None:
        raise Invalid(
            f"no column of {found.file.name} can be the key",
            why="a key is filled and different in every row"
            if found.rows
            else "the file has a header and no row",
            fix="add a column that numbers the rows, or let them be numbered as they "
            "stand in the file: --key row",
        )
    if not found.profile.fields:
        raise Invalid(
            f"{found.file.name} has no column besides its key and its subject",
            why="a policy needs a field that is shown",
            fix="check the file",
        )
    readings = {c.name: (c.ask, c.notation) for c in found.columns}
    name = found.file.name
    asked = _asked(found.profile, ask)
    drafted = draft(
        found.profile, _entity(name), key, readings, name, feed=feed, ask=asked
    )
    extra = "" if exhaustive.is_installed() else exhaustive.EXTRA
    return Suggestion(
        drafted.text,
        found.profile,
        drafted.kept_apart,
        extra,
        drafted.withheld,
        drafted.pages,
    )


def _asked(found: Profile, ask: Sequence[str]) -> list[str]:
    """Return the columns that texts name, each one or several with commas between.

    Raises
    ------
    Usage
        A text names no column that can be a field.
    """
    names = field_names(found)
    asked = split_names(ask, names)
    if unknown := [name for name in asked if name not in names]:
        raise Usage(
            f"{unknown[0][:60]!r} is no column that can be asked",
            why="the key, the column of people and empty columns never are",
            fix=f"name one of {listed(names, 20)}",
        )
    return asked


def check_results(results: Sequence[ParseResult], source: Path) -> list[ParseResult]:
    """Add to checked policy files what a file of records shows and they ignore.

    Files with errors are returned as they are.

    Raises
    ------
    Invalid
        The file of records is no table.
    """
    found = _look(source, Options()).profile
    return [
        result
        if result.policy is None
        else replace(
            result,
            diagnostics=_ordered(
                [
                    *result.diagnostics,
                    *check_against(result, _as_read_by(result.policy, found)),
                ]
            ),
        )
        for result in results
    ]


def _as_read_by(policy: Policy, found: Profile) -> Profile:
    """Measure a file anew where a policy takes other columns as its key and subject."""
    entity, table = policy.entity, found.table
    key = entity.key if entity.key in table else None
    subject = entity.subject
    person = subject if subject is not None and subject in table else None
    if person is None and found.person not in entity.fields:
        person = found.person  # it is not shown: whose a record is may be taken from it
    if (key, person) == (found.key, found.person):
        return found
    return profile(table, key, person=person or NOBODY)


def _ordered(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(diagnostics, key=lambda d: (d.line, d.column, d.code)))


def _look(source: Path, options: Options) -> FilePreview:
    with open_table(source, options) as table:
        return preview(table)


def _entity(name: str) -> str:
    """Name the kind of record after the file: ``scans-2026.csv`` gives scans-2026."""
    stem = re.sub(r"(?:\.\w{1,8}){1,2}$", "", name)
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "record"
