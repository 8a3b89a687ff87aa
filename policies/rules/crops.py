"""Which fields of a record a crop shows: its own, and those whose boxes it overlaps.

Whoever is shown a crop sees all that lies in its box. Where the boxes of two fields on
one page have an area in common, either crop is an exposure of both fields. Boxes that
only touch have none, and stay apart when they are rounded to pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from policies.policy import Box, Entity, Field, Policy

WHOLE = Box(1, Fraction(0), Fraction(0), Fraction(1), Fraction(1))
"""What a field with `image` and without a box shows: all of the first page."""


@dataclass(frozen=True)
class Overlap:
    """Two fields of which either crop shows the other.

    Attributes
    ----------
    one, other : Field
        In the order of the file.
    page : int
        Of the column that both take their crops from; from 1.
    """

    one: Field
    other: Field
    page: int

    def reason(self, policy: Policy) -> str | None:
        """Why the crops must not overlap; None where no rule looks at either field.

        One showing of either crop would expose both fields, and the gate books one. So
        the fields must be in no rule, and both may be sent.
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
    """Find the fields whose crops overlap on every page, whatever the record.

    A box that a record brings itself is known when the record is loaded; here it
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


def box_of(entity: Entity, field: Field) -> Box | str:
    """The box of a field with `image`, or the column that each record's box is in."""
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
    """Whether a box is known to leave nothing of its page out."""
    return isinstance(box, Box) and box.width == box.height == 1
