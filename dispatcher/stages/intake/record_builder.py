"""Building of records from rows: the facts that rules need, and the shown forms.

The shown form is made here, once (the crop, or the text with what the policy masks),
and nothing else is ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

import msgspec

from dispatcher.core.errors import Invalid
from dispatcher.core.keys import pseudonym, pseudonyms
from dispatcher.stages.intake.images import (
    BadPage,
    Box,
    Crop,
    PageFolder,
    PageForm,
    pixel_box,
)
from dispatcher.stages.intake.redaction import TAGS, redacted
from dispatcher.stages.intake.table import NO_KEY, ROW_KEY, RejectedRow, RowBatch
from policies.policy import Box as LayoutBox
from policies.policy import Entity, Field, Policy, Scope
from policies.rules.crops import overlaps

TEXT: Final = "text/plain"
IMAGE: Final = "image/png"
DIGITS: Final = 18  # of a number of visits
MOST_VISITS: Final = 2**24  # so that sums over a person, and their squares, stay exact

Show = Callable[[Sequence[str]], bytes | Crop]
"""Makes the shown form of one field of a row; raises BadPage."""


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)\s?"
    r"(Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


@dataclass(slots=True)
class CandidateRow:
    """A row that may become a record.

    Attributes
    ----------
    line : int
    key : str
    pseudonym : str
    cells : Sequence of str
    subject : str
        As named in the file; empty if there is none.
    person : str or None
        Pseudonym of the subject.
    time : int or None
    place : str or None
        Pseudonym of the place, of the first vector that has one.
    visits : int or None
        At that place, >= 1.
    lost : bool
        Whether it exists as a record whose values were lost with a store.
    """

    line: int
    key: str
    pseudonym: str
    cells: Sequence[str]
    subject: str = ""
    person: str | None = None
    time: int | None = None
    place: str | None = None
    visits: int | None = None
    lost: bool = False


@dataclass(slots=True)
class PreparedRecord:
    """A record about to be written, with the shown forms of its entries.

    Attributes
    ----------
    row : CandidateRow
    content : bytes
        All cells, as a JSON array.
    shown : list of (int, str, bytes)
        Field number, media type and shown form of each entry.
    size : int
        Bytes of the shown forms.
    """

    row: CandidateRow
    content: bytes
    shown: list[tuple[int, str, bytes]]
    size: int


class RecordBuilder:
    """Builds records of a policy from rows with given columns.

    Parameters
    ----------
    policy : Policy
    field_ids : Mapping of str to int
        Number of each field.
    columns : Sequence of str
        Columns of the rows.
    secret : bytes
        The store's pseudonym key.
    pages : PageFolder
        The folder of the pages.

    Raises
    ------
    Invalid
        The policy needs a column that is not there, or masks with an unknown tag.
    """

    def __init__(
        self,
        policy: Policy,
        field_ids: Mapping[str, int],
        columns: Sequence[str],
        secret: bytes,
        pages: PageFolder,
    ) -> None:
        self.columns = tuple(columns)
        self._at = {name: index for index, name in enumerate(self.columns)}
        self._secret = secret
        self._pages = _pages_of(pages, policy.entity)
        self._entity = policy.entity
        self._needs_subject, self._needs_time, self._places = _needs(policy)
        _check_columns(policy, self.columns)
        _check_tags(policy)
        self._fields = [
            (field_ids[name], self._at[spec.column], *self._how(spec))
            for name, spec in policy.entity.fields.items()
        ]
        self._names = {number: name for name, number in field_ids.items()}
        # What the policy shows together on every page is safe under its rules, or it
        # would not have been applied.
        self._together = {
            frozenset((pair.one.name, pair.other.name))
            for pair in overlaps(policy.entity)
        }

    def rows(self, batch: RowBatch) -> tuple[list[CandidateRow], list[RejectedRow]]:
        """Return the rows of a batch that may become records, and the others."""
        entity, rejected = self._entity, list[RejectedRow]()
        key_at = self._at[entity.key]
        found: list[CandidateRow] = []
        for line, cells in zip(batch.lines, batch.rows, strict=True):
            row = CandidateRow(line, cells[key_at], "", cells)
            fault = self._complete(row)
            if fault is None:
                found.append(row)
            else:
                rejected.append(RejectedRow(line, *fault))
        names = pseudonyms(self._secret, "r", (row.key for row in found))
        people = self._people({row.subject for row in found if row.subject})
        for row, name in zip(found, names, strict=True):
            row.pseudonym = name
            row.person = people.get(row.subject)
        return found, rejected

    def _people(self, texts: Collection[str]) -> dict[str, str]:
        return dict(zip(texts, pseudonyms(self._secret, "s", texts), strict=True))

    def _complete(self, row: CandidateRow) -> tuple[str, str] | None:
        """Fill in the facts of a row; return (column, reason) if one is invalid."""
        entity = self._entity
        if not row.key or row.key.isspace():
            return entity.key, NO_KEY
        if entity.subject is not None:
            subject = row.cells[self._at[entity.subject]]
            if subject and not subject.isspace():
                row.subject = subject
            elif self._needs_subject:
                return entity.subject, "the subject is empty, and rules group by it"
        if entity.time is not None:
            fault = self._time(row, row.cells[self._at[entity.time]])
            if fault:
                return entity.time, fault
        return self._place(row) if self._places else None

    def _time(self, row: CandidateRow, text: str) -> str:
        if not text or text.isspace():
            return "the time is empty, and a rule needs it" if self._needs_time else ""
        try:
            row.time = microseconds(text)
        except ValueError as error:
            return str(error)
        return ""

    def _place(self, row: CandidateRow) -> tuple[str, str] | None:
        for vector, count in self._places.items():
            visits = 1
            if count is not None:
                text = row.cells[self._at[count]].strip()
                if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
                    return count, "not a whole number of visits"
                visits = int(text)
                if visits >= MOST_VISITS:
                    return count, f"more than {MOST_VISITS - 1:,} visits"
            place = row.cells[self._at[vector]]
            if row.place is None and place and not place.isspace() and visits:
                row.place, row.visits = pseudonym(self._secret, "v", place), visits
        return None

    def prepared(self, row: CandidateRow) -> PreparedRecord | RejectedRow:
        """Make the shown forms of a row's entries; reject the row if one fails."""
        shown: list[tuple[int, str, bytes]] = []
        crops: list[tuple[str, Crop]] = []
        cells = row.cells
        size = 0
        for number, at, media, show in self._fields:
            value = cells[at]
            if not value or value.isspace():
                continue
            if show is None:
                form = value.encode()
            else:
                try:
                    made = show(cells)
                    form = made.png if isinstance(made, Crop) else made
                    if isinstance(made, Crop):
                        self._keep_apart(crops, self._names[number], made)
                except BadPage as error:
                    return RejectedRow(row.line, self.columns[at], str(error))
            shown.append((number, media, form))
            size += len(form)
        content = msgspec.json.encode(list(cells))
        return PreparedRecord(row, content, shown, size)

    def _keep_apart(self, crops: list[tuple[str, Crop]], name: str, made: Crop) -> None:
        """Add a crop of a record to the others; raise BadPage if it shows one of them."""
        for other, crop in crops:
            together = frozenset((name, other)) in self._together
            if made.overlaps(crop) and not together:
                raise BadPage(
                    f"the boxes of fields {other} and {name} overlap: whoever is shown "
                    "one would see part of the other"
                )
        crops.append((name, made))

    def _how(self, spec: Field) -> tuple[str, Show | None]:
        """Return how the field is shown: unchanged, masked, or as a crop."""
        if spec.image_column is not None:
            return IMAGE, self._cropper(self._at[spec.image_column], spec.image_box)
        if not spec.redact:
            return TEXT, None
        at, tags = self._at[spec.name], spec.redact
        return TEXT, lambda cells: redacted(cells[at], tags).encode()

    def _cropper(self, page_at: int, box_name: str | None) -> Show:
        pages = self._pages
        if box_name is None:
            return lambda cells: pages.crop(cells[page_at], None)
        layout = self._entity.layout.get(box_name)
        if layout is not None:
            box = share_box(layout)
            return lambda cells: pages.crop(cells[page_at], box)
        box_at = self._at[box_name]

        def crop(cells: Sequence[str]) -> Crop:
            if not cells[box_at].strip():
                raise BadPage("the record has a page but no box for this field")
            return pages.crop(cells[page_at], pixel_box(cells[box_at]))

        return crop


def share_box(box: LayoutBox) -> Box:
    """Return what to cut for a box of the layout."""
    return Box(box.x, box.y, box.width, box.height, True, box.page)


def form_of(entity: Entity) -> PageForm:
    """Return what a policy says of all pages."""
    painted = tuple(share_box(box) for box in entity.layout.values() if box.redact)
    if entity.template is None:
        return PageForm(redactions=painted)
    return PageForm(entity.template.image, entity.template.sha256, painted)


def _pages_of(pages: PageFolder, entity: Entity) -> PageFolder:
    """Return the pages, to be aligned and painted over as the policy says.

    Raises
    ------
    Invalid
        The template is missing or another file.
    """
    try:
        return pages.under(form_of(entity))
    except BadPage as error:
        assert entity.template is not None
        raise Invalid(
            f"the template {entity.template.image!r} cannot be used",
            why=str(error),
            fix="name the folder of the pages with --images, put it there as it was, or "
            "draw the boxes on another: dispatcher layout draw",
        ) from None


def _needs(policy: Policy) -> tuple[bool, bool, dict[str, str | None]]:
    """Return whether rules need subject and time; count column by vector column."""
    rules = policy.properties.values()
    subject = any(rule.scope in (Scope.SUBJECT, Scope.RELATION) for rule in rules)
    time = any(rule.window is not None for rule in rules)
    places = {
        rule.disclosure.vector: rule.disclosure.count
        for rule in rules
        if rule.disclosure.vector is not None
    }
    return subject, time, places


def _check_tags(policy: Policy) -> None:
    for name, spec in policy.entity.fields.items():
        unknown = [tag for tag in spec.redact if tag not in TAGS]
        if unknown:
            raise Invalid(
                f"field {name} masks `{unknown[0]}`, which is not known",
                why=f"`redact` takes: {', '.join(sorted(TAGS))}",
                fix="correct the policy, apply it, and load again",
            )


def _check_columns(policy: Policy, columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column that the policy names.

    Raises
    ------
    Invalid
    """
    missing = [name for name in _named_columns(policy) if name not in set(columns)]
    if not missing:
        return
    near = get_close_matches(missing[0], columns, 1, 0.75)
    hint = f"; did you mean its column `{near[0]}`?" if near else ""
    if near and near[0].strip() == missing[0]:
        hint = "; it has one of that name with spaces around it"
    raise Invalid(
        f"the file has no column `{missing[0]}`"
        + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
        why=f"the policy names it, and the file has {len(columns):,} other columns"
        + hint,
        fix="load it with --key row"
        if missing == [ROW_KEY] and policy.entity.key == ROW_KEY
        else "rename the column in the file or in the policy: "
        "dispatcher records preview shows the file's columns",
    )


def _named_columns(policy: Policy) -> Iterator[str]:
    entity = policy.entity
    yield entity.key
    for name in (entity.subject, entity.time):
        if name is not None:
            yield name
    for spec in entity.fields.values():
        yield spec.column
        if spec.image_box is not None and spec.image_box not in entity.layout:
            yield spec.image_box
    for vector, count in _needs(policy)[2].items():
        yield vector
        if count is not None:
            yield count


def microseconds(text: str) -> int:
    """Parse a timestamp.

    Parameters
    ----------
    text : str
        ISO 8601: a date, or a date and a time of day, with at most microseconds. A
        missing time of day is midnight, a missing zone UTC.

    Returns
    -------
    int
        Microseconds since 1970-01-01 UTC.

    Raises
    ------
    ValueError
        The text is no timestamp; the message does not repeat it.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError("not an ISO 8601 date or time")
    day, clock, zone = found.groups()
    clock = (clock or "00:00").replace(",", ".")
    fraction = clock.partition(".")[2]
    if len(fraction) > 6 and fraction[6:].strip("0"):
        raise ValueError("a time finer than microseconds")
    if fraction:
        clock = f"{clock.partition('.')[0]}.{fraction[:6]:0<6}"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{_offset(zone)}")
        return (moment - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("no such day or time of day") from None


def _offset(zone: str | None) -> str:
    if zone is None or zone in ("Z", "z", "UTC"):
        return "+00:00"
    digits = zone[1:].replace(":", "")
    return f"{zone[0]}{digits[:2]}:{digits[2:] or '00'}"
