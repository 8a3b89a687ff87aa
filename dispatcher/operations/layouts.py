"""Layouts: draw the boxes of a policy on scans, and see whether they fit others."""

from __future__ import annotations

import io
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

from dispatcher.core.errors import Invalid
from dispatcher.core.input_files import read_input
from dispatcher.core.private_files import write_private
from dispatcher.stages.intake.images import BadPage, Box, PageFolder, PageForm, pages_in
from dispatcher.stages.intake.opening import (
    SCANS,
    folder_of_pages,
    open_table,
    scans_of,
)
from dispatcher.stages.intake.record_builder import PreparedRecord, RecordBuilder
from dispatcher.stages.intake.scan_geometry import Marks, border_ink, marks
from dispatcher.stages.intake.table import Options, RejectedRow
from policies.document import parse
from policies.document.samples import is_sample
from policies.policy import Policy

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

STEPPED: Final = 20
"""Other scans that are stepped through to see that the boxes fit."""
SHOWN_SIDE: Final = 1_600  # pixels of the longer side of a page on the screen
INKED: Final = 0.02
"""Share of dark pixels along a side from which a box cuts through something."""

NEW_FIELD: Final = {"ask": "transcribe"}

STARTER: Final = """\
# Begun by `dispatcher layout draw`. Say what must not come together in rules,
# [property.NAME], and check: dispatcher policy check
version = 1
name = "scans"

[entity.scan]
key = "id"

[entity.scan.fields]

[entity.scan.layout]
"""


@dataclass(frozen=True)
class DrawnBox:
    """A box of a layout as it is drawn.

    Attributes
    ----------
    name : str
        Its name in the layout.
    field : str
        The field that shows it; empty where it is painted over, or shown by none.
    page : int
    x, y, width, height : Decimal
        Shares of the page, with four digits.
    redact : bool
    """

    name: str
    field: str
    page: int
    x: Decimal
    y: Decimal
    width: Decimal
    height: Decimal
    redact: bool = False

    @classmethod
    def of(
        cls, name: str, field: str, page: int, edges: Sequence[float], *, redact: bool
    ) -> DrawnBox:
        """Make a box of its left, upper, right and lower edges.

        The edges are rounded, not the sizes: boxes that touch still touch.

        Raises
        ------
        ValueError
            It has no area, or is not on the page.
        """
        left, upper, right, lower = (
            Decimal(min(max(float(edge), 0.0), 1.0)).quantize(Decimal("0.0001"))
            for edge in edges
        )
        if not name or page < 1 or left >= right or upper >= lower:
            raise ValueError("a box has a name, a page and an area")
        return cls(name, field, page, left, upper, right - left, lower - upper, redact)

    @property
    def cut(self) -> Box:
        """What is cut for it."""
        corner, size = (self.x, self.y), (self.width, self.height)
        left, upper = map(Fraction, corner)
        width, height = map(Fraction, size)
        return Box(left, upper, width, height, shares=True, page=self.page)


@dataclass(frozen=True)
class Fit:
    """How the boxes fit a scan.

    Attributes
    ----------
    scan : str
    aside : str
        Why the scan is set aside; empty if it can be cut.
    ink : Mapping of str to float
        Share of dark pixels along the worst side of each box, by its name.
    """

    scan: str
    aside: str
    ink: Mapping[str, float]

    @property
    def inked(self) -> list[str]:
        """Boxes that cut through something."""
        return [name for name, share in self.ink.items() if share >= INKED]


@dataclass(frozen=True)
class CroppedRow:
    """What workers would be shown of a row's pages.

    Attributes
    ----------
    line : int
    aside : str
        Why the row would be rejected; empty if it would not.
    crops : Mapping of str to (bytes, float)
        PNG, and ink at its border, by field.
    """

    line: int
    aside: str
    crops: Mapping[str, tuple[bytes, float]]


def crop_rows(
    source: Path, options: Options, policy: Policy
) -> tuple[list[str], list[CroppedRow]]:
    """Cut the crops of a file's first rows, as a load would; nothing is loaded.

    Returns
    -------
    list of str
        The fields that show crops.
    list of CroppedRow

    Raises
    ------
    Invalid
        The file lacks a column, or no field of the policy shows a crop.
    """
    fields = [f.name for f in policy.entity.fields.values() if f.image_column]
    if not fields:
        raise Invalid(
            "no field of the policy shows a crop",
            why='a crop is shown where a field has image = "COLUMN#BOX"',
            fix="draw boxes on scans: dispatcher layout draw",
        )
    numbers = {name: number for number, name in enumerate(policy.entity.fields)}
    found: list[CroppedRow] = []
    with open_table(source, options) as table:
        for batch in table.batches:
            builder = RecordBuilder(
                policy, numbers, batch.columns, b"", PageFolder(folder_of_pages(source))
            )
            rows, rejected = builder.rows(batch)
            found += [CroppedRow(one.line, one.reason, {}) for one in rejected]
            for row in rows[: 1 + STEPPED]:
                found.append(_cropped(builder.prepared(row), numbers, fields))
            break
    found.sort(key=lambda row: row.line)
    return fields, found[: 1 + STEPPED]


def _cropped(
    made: PreparedRecord | RejectedRow,
    numbers: Mapping[str, int],
    fields: Sequence[str],
) -> CroppedRow:
    if isinstance(made, RejectedRow):
        return CroppedRow(made.line, made.reason, {})
    shown = {number: form for number, _, form in made.shown}
    crops = {
        name: (png, border_ink(Image.open(io.BytesIO(png))))
        for name in fields
        if (png := shown.get(numbers[name])) is not None
    }
    return CroppedRow(made.row.line, "", crops)


def scans_in(paths: Iterable[Path]) -> list[Path]:
    """Return the scans among files and in folders, in order of name.

    Raises
    ------
    Invalid
        There is none.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += scans_of(path)
        elif path.is_file() and path.suffix.lower() in SCANS:
            found.append(path)
    if not found:
        raise Invalid(
            "there is no scan to draw on",
            why=f"a scan is a file that ends in {', '.join(SCANS)}",
            fix="name a folder of scans, or some of them",
        )
    if len({one.resolve().parent for one in found}) > 1:
        raise Invalid(
            "the scans are in different folders",
            why="a policy names pages by their paths in one folder",
            fix="name scans of one folder",
        )
    return found


def pinned_template(policy: Path, scans: Sequence[Path]) -> Path | None:
    """Return the scan that the policy file names as its template, if it is among these."""
    if not policy.exists():
        return None
    entity = _entity(_read(read_input(policy).decode(), policy.name), policy.name)
    template = entity.get("template")
    named = template.get("image", "") if isinstance(template, Mapping) else ""
    name = PurePosixPath(named).name
    return next((one for one in scans if one.name == name), None)


class Drawing:
    """Boxes that are drawn on a template, and the scans that they have to fit.

    Safe for several threads, one at a time.

    Parameters
    ----------
    policy : Path
        The policy file; begun where there is none.
    scans : sequence of Path
        Of one folder; the first is the template.
    column : str
        The column of the pages, for fields that the policy does not have yet.
    aligned : bool
        Whether other scans are aligned to the template.

    Raises
    ------
    Invalid
        The policy is no TOML file with one entity, or the template is no page.
    """

    def __init__(
        self, policy: Path, scans: Sequence[Path], column: str, *, aligned: bool
    ) -> None:
        self.policy = policy
        self._column = column
        self.names = [scan.name for scan in scans[: 1 + STEPPED]]
        self._lock = threading.Lock()
        self._views: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        template = read_input(scans[0])
        try:
            self.pages = min(pages_in(template), 1_000)
            digest = sha256(template).hexdigest()
            form = PageForm(scans[0].name, digest) if aligned else PageForm()
            self._template = _seen_from(policy.parent, scans[0]), digest
            self._aligned = aligned
            self._pages = PageFolder(scans[0].parent, form)
            self.view(0, 1)
        except BadPage as error:
            raise Invalid(
                f"{scans[0].name} cannot be drawn on",
                why=str(error),
                fix="name another scan first: --template",
            ) from None
        self.text = read_input(policy).decode() if policy.exists() else STARTER
        _entity(_read(self.text, policy.name), policy.name)

    def view(self, scan: int, page: int) -> bytes:
        """Return a page of a scan as it is aligned, as PNG of a size for the screen.

        Raises
        ------
        BadPage
            It is set aside.
        """
        with self._lock:
            kept = self._views.get((scan, page))
            if kept is None:
                image = Image.open(io.BytesIO(self._whole(scan, page)))
                image.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
                out = io.BytesIO()
                image.save(out, "PNG")
                kept = self._views[scan, page] = out.getvalue()
                if len(self._views) > 2 * STEPPED:
                    self._views.popitem(last=False)
            return kept

    def marks(self, page: int) -> Marks:
        """Return the lines and blocks of a page of the template."""
        return marks(Image.open(io.BytesIO(self.view(0, page))))

    def boxes(self) -> list[DrawnBox]:
        """Return the boxes that the policy file has, by field where one shows them."""
        return drawn_boxes(
            _entity(_read(self.text, self.policy.name), self.policy.name)
        )

    def fields(self) -> list[str]:
        """Return the fields of the policy file."""
        entity = _entity(_read(self.text, self.policy.name), self.policy.name)
        return [str(name) for name in entity.get("fields", {})]

    def check(self, boxes: Sequence[DrawnBox]) -> list[dict[str, str]]:
        """Return what `policy check` says of the policy with these boxes."""
        found = parse(self._edited(boxes).encode(), self.policy.name)
        return [
            {
                "code": one.code,
                "severity": one.severity.value,
                "message": one.message,
                "why": one.why,
                "fix": one.fix,
            }
            for one in found.diagnostics
        ]

    def fit(self, scan: int, boxes: Sequence[DrawnBox]) -> Fit:
        """Cut the boxes out of a scan; tell the ink at their borders."""
        ink: dict[str, float] = {}
        with self._lock:
            try:
                for box in boxes:
                    crop = self._pages.crop(self.names[scan], box.cut)
                    if not box.redact:
                        ink[box.name] = border_ink(Image.open(io.BytesIO(crop.png)))
            except BadPage as error:
                return Fit(self.names[scan], str(error), {})
        return Fit(self.names[scan], "", ink)

    def save(self, boxes: Sequence[DrawnBox]) -> None:
        """Write the boxes into the policy file, whose comments stay.

        Raises
        ------
        Invalid
            They would add an error to it.
        """
        before = {
            (one.code, one.message)
            for one in parse(self.text.encode(), self.policy.name).diagnostics
        }
        for one in self.check(boxes):
            if (
                one["severity"] == "error"
                and (one["code"], one["message"]) not in before
            ):
                raise Invalid(
                    f"{one['code']}: {one['message']}", why=one["why"], fix=one["fix"]
                )
        self.text = self._edited(boxes)
        mode = self.policy.stat().st_mode & 0o777 if self.policy.exists() else 0o600
        write_private(self.policy, self.text, mode=mode)

    def _whole(self, scan: int, page: int) -> bytes:
        every = Box(Fraction(0), Fraction(0), Fraction(1), Fraction(1), True, page)
        return self._pages.crop(self.names[scan], every).png

    def _edited(self, boxes: Sequence[DrawnBox]) -> str:
        """Return the text of the policy file with these boxes and no others.

        Raises
        ------
        Invalid
            A field of the policy would lose its box.
        """
        document = _read(self.text, self.policy.name)
        entity = _entity(document, self.policy.name)
        layout = _table(entity, "layout")
        drawn = {box.name for box in boxes}
        for name, spec in entity.get("fields", {}).items():
            shown = str(spec.get("image", "")).partition("#")[2]
            if shown in layout and shown not in drawn:
                raise Invalid(
                    f"field {name} has no box any more",
                    why="without it, all of the page would be shown",
                    fix="draw its box again, or take the field out of the policy file",
                )
        for name in [name for name in layout if name not in drawn]:
            del layout[name]
        for box in boxes:
            _put_box(layout, box)
            if box.field and not box.redact:
                _show(entity, box, self._column)
        if self._aligned:
            _pin(entity, *self._template)
        return document.as_string()


def keep_boxes(before: str, draft: str, name: str) -> tuple[str, int]:
    """Return a draft with the boxes, their fields and the template of a policy file.

    They are kept where the draft too is of records with that column of pages, and the
    file is none of the examples that come with the program.

    Parameters
    ----------
    before : str
        The policy file that the draft takes the place of.
    draft : str
    name : str
        Of the file, for messages.

    Returns
    -------
    str
    int
        How many boxes were kept.

    Raises
    ------
    Invalid
        There are boxes, and the package that edits policy files is missing.
    """
    try:
        (entity_before,) = tomllib.loads(before)["entity"].values()
        boxes = drawn_boxes(entity_before)
    except (tomllib.TOMLDecodeError, KeyError, ValueError, AttributeError):
        return draft, 0
    fields: Mapping[str, Any] = entity_before.get("fields", {})
    columns = {
        one.name: str(fields[one.field]["image"]).partition("#")[0]
        for one in boxes
        if one.field and not one.redact
    }
    if not columns or is_sample(before.encode()):
        return draft, 0
    document = _read(draft, name)
    entity = _entity(document, name)
    pages = {str(spec.get("image", "")) for spec in entity["fields"].values()}
    boxes = [one for one in boxes if columns.get(one.name) in {*pages, None}]
    if not any(one.name in columns for one in boxes):
        return draft, 0
    layout = _table(entity, "layout")
    for box in boxes:
        _put_box(layout, box)
        if box.name in columns:
            _show(entity, box, columns[box.name], fields[box.field])
    template = entity_before.get("template")
    if template is not None:
        _pin(entity, template["image"], template["sha256"])
    return document.as_string(), len(boxes)


def drawn_boxes(entity: Mapping[str, Any]) -> list[DrawnBox]:
    """Return the boxes of an entity of a policy file, by field where one shows them."""
    shown = {
        str(spec.get("image", "")).partition("#")[2]: str(name)
        for name, spec in entity.get("fields", {}).items()
        if isinstance(spec, Mapping)
    }
    found = []
    for name, spec in entity.get("layout", {}).items():
        try:
            x, y, width, height = (float(share) for share in spec["box"])
            edges = (x, y, x + width, y + height)
            redact = spec.get("redact") is True
            field, page = shown.get(name, ""), int(spec.get("page", 1))
            found.append(DrawnBox.of(name, field, page, edges, redact=redact))
        except (KeyError, TypeError, ValueError):
            continue  # no box: `policy check` says so
    return found


def _seen_from(folder: Path, scan: Path) -> str:
    """Return the path of a scan from the folder of the policy, or its name outside."""
    inside = scan.resolve().is_relative_to(folder.resolve())
    return (
        scan.resolve().relative_to(folder.resolve()).as_posix() if inside else scan.name
    )


def _table(entity: Table, name: str) -> Table:
    """Return a table of an entity; one that is not there comes behind the fields.

    What is written behind the last table of the entity, such as the comment of the next
    rule, stays before that rule.
    """
    import tomlkit  # noqa: PLC0415 - an extra

    if name not in entity:
        made, tail = tomlkit.table(), []
        last: Any = next(reversed(entity.value.body), (None, None))[1]
        if isinstance(last, tomlkit.items.Table) and not last.is_super_table():
            body: Any = last.value.body
            while body and body[-1][0] is None:
                tail.append(body.pop()[1])
            if tail:
                last.add(tomlkit.nl())
        entity.append(name, made)
        for item in reversed(tail):
            made.add(item)
    found: Table = entity[name]
    return found


def _put_last(table: Table, key: str, value: Any) -> None:  # noqa: ANN401
    """Add a key behind the last one; comments behind that one belong to what follows."""
    import tomlkit  # noqa: PLC0415 - an extra

    keys = [
        one
        for one, item in table.value.body
        if one is not None and not isinstance(item, tomlkit.items.Table)
    ]
    if keys:
        table.value._insert_after(keys[-1], key, value)  # noqa: SLF001 - it has no other way
    elif any(one is None for one, _ in table.value.body):
        table.value._insert_at(0, key, value)  # noqa: SLF001 - as above
    else:
        table.append(key, value)


def _pin(entity: Table, image: str, sha256: str) -> None:
    """Name the template that pages are aligned to."""
    import tomlkit  # noqa: PLC0415 - an extra

    template = tomlkit.inline_table()
    template["image"] = image
    template["sha256"] = sha256
    if entity.get("template") != template:
        _put_before_tables(entity, "template", template)


def _show(
    entity: Table, box: DrawnBox, column: str, new: Mapping[str, Any] = NEW_FIELD
) -> None:
    """Have the field show the box; the field of a draft's whole page goes."""
    import tomlkit  # noqa: PLC0415 - an extra

    fields = _table(entity, "fields")
    if box.field not in fields:
        made = tomlkit.inline_table()
        made.update(new)
        _put_last(fields, box.field, made)
    spec = fields[box.field]
    column = str(spec.get("image", "")).partition("#")[0] or column
    if spec.get("image") != f"{column}#{box.name}":
        spec["image"] = f"{column}#{box.name}"
    _drop_whole_page(entity, column)


def _drop_whole_page(entity: Table, column: str) -> None:
    """Take out the field of the whole page that a draft has until boxes are drawn.

    It is never sent, and every box lies in it.
    """
    fields = entity["fields"]
    for name in [
        name
        for name, spec in fields.items()
        if spec.get("image") == column and spec.get("send") is False
    ]:
        del fields[name]


def _put_box(layout: Table, box: DrawnBox) -> None:
    """Write a box into the layout; what it says already stays as it is written."""
    import tomlkit  # noqa: PLC0415 - an extra

    if box.name not in layout:
        _put_last(layout, box.name, tomlkit.inline_table())
    spec: Any = layout[box.name]
    corners = (box.x, box.y, box.width, box.height)
    spec["page"] = box.page
    if [Decimal(str(share)) for share in spec.get("box", ())] != list(corners):
        spec["box"] = tomlkit.item([float(share) for share in corners])
    if box.redact:
        spec["redact"] = True
    elif "redact" in spec:
        del spec["redact"]


def _put_before_tables(entity: Table, key: str, value: Any) -> None:  # noqa: ANN401
    """Add a key to a table; behind its first key, so that it is in none of its tables."""
    if key in entity:
        entity[key] = value
        return
    inside = entity.value
    first = next(iter(inside), None)
    if first is None or hasattr(inside[first], "is_super_table"):
        entity.append(key, value)
    else:
        inside._insert_after(first, key, value)  # noqa: SLF001 - it has no other way


def _read(text: str, name: str) -> TOMLDocument:
    try:
        import tomlkit  # noqa: PLC0415 - an extra
        from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415
    except ImportError:
        raise Invalid(
            "policy files cannot be edited: the package tomlkit is missing",
            why="it is installed with the extra `scans` only",
            fix="run: pip install 'sparsi-dispatcher[scans]'",
        ) from None
    try:
        return tomlkit.parse(text)
    except TOMLKitError:
        raise Invalid(
            f"{name} is not valid TOML",
            why="boxes are written into it, beside what it says already",
            fix="dispatcher policy check",
        ) from None


def _entity(document: TOMLDocument, name: str) -> Table:
    """Return the one entity of a policy file."""
    entities: Any = document.get("entity", {})
    if not isinstance(entities, Mapping) or len(entities) != 1:
        raise Invalid(
            f"{name} does not have one entity",
            why="the boxes belong to [entity.NAME.layout]",
            fix="add [entity.NAME], or begin anew with another file: --policy",
        )
    (entity,) = entities.values()
    return entity  # type: ignore[no-any-return]
