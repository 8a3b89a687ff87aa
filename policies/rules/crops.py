"""Which fields a crop of a record shows: its own, and those whose boxes it overlaps.

Whoever is shown a crop sees all that lies in its box. If the boxes of two fields on one
page share an area, either crop is an exposure of both fields. Boxes that only touch
share none, and stay apart when they are rounded to pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from policies.policy import Box, Entity, Field, Policy

WHOLE = Box(1, Fraction(0), Fraction(0), Fraction(1), Fraction(1))
"""What a field with `image` and without a box shows: the whole first page."""


@dataclass(frozen=True)
class Overlap:
    """Two fields, either of whose crops shows the other.

    Attributes
    ----------
    one, other : Field
        In the order of the file.
    page : int
        Page, from 1, of the column that both take their crops from.
    """

    one: Field
    other: Field
    page: int

    def reason(self, policy: Policy) -> str | None:
        """Return why the crops must not overlap; None if no rule names either field.

        One showing of either crop would expose both fields, but the gate books one. So
        an overlap is allowed only between sendable fields that are in no rule.
        """
        for field in (self.one, self.other):
            if not field.send:
                return f"`{field.name}` has send = false"
        both = {self.one.name, self.other.name}
        rules = policy.properties.values()
        for prop in rules:
            if both <= prop.fields:
                return f"rule `{prop.name}` names both"
        for prop in rules:
            for name in sorted(both & prop.fields):
                return f"rule `{prop.name}` names `{name}`"
        return None


def overlaps(entity: Entity) -> Iterator[Overlap]:
    """Yield the fields whose crops overlap on every page, whatever the record.

    A box given by the record itself is known only when the record is loaded; here it
    overlaps itself, and a whole page.
    """
    shown = [field for field in entity.fields.values() if field.image_column]
    for one, other in combinations(shown, 2):
        if one.image_column != other.image_column:
            continue
        boxes = [box_of(entity, field) for field in (one, other)]
        pages = {1 if isinstance(box, str) else box.page for box in boxes}
        if len(pages) == 1 and _overlap(*boxes):
            yield Overlap(one, other, pages.pop())


def redactions(entity: Entity, page: int) -> list[Box]:
    """Return the boxes that are painted over on a page of every picture."""
    return [box for box in entity.layout.values() if box.redact and box.page == page]


def is_painted_over(entity: Entity, field: Field) -> bool:
    """Whether one box painted over covers all that a field's crop would show."""
    if field.image_column is None:
        return False
    box = box_of(entity, field)
    return isinstance(box, Box) and any(
        painted.x <= box.x
        and painted.y <= box.y
        and painted.x + painted.width >= box.x + box.width
        and painted.y + painted.height >= box.y + box.height
        for painted in redactions(entity, box.page)
    )


def box_of(entity: Entity, field: Field) -> Box | str:
    """Return the box of a field with `image`, or the column of each record's box."""
    if field.image_box is None:
        return WHOLE
    return entity.layout.get(field.image_box, field.image_box)


def _overlap(one: Box | str, other: Box | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other or is_whole(one) or is_whole(other)
    return max(one.x, other.x) < min(one.x + one.width, other.x + other.width) and max(
        one.y, other.y
    ) < min(one.y + one.height, other.y + other.height)


def is_whole(box: Box | str) -> bool:
    """Whether a box is known to cover its whole page."""
    return isinstance(box, Box) and box.width == box.height == 1
