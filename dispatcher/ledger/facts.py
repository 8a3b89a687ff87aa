"""What was made of records when they were loaded holds for good.

The pseudonyms of records and subjects, the times, and the forms that are shown are made
once, by the words of the version in force at that moment. A later version that takes
them from other columns, cuts another box or masks more would judge, or show, what it
does not mean; so it is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from dispatcher.core.errors import Conflict
from dispatcher.ledger.standing import version_of
from dispatcher.store import entry_registrations
from dispatcher.store.transaction import Tx
from policies.policy import Box, Field, Policy
from policies.rules.link_rules import place_columns


def check_loaded(tx: Tx, policy: Policy) -> None:
    """Refuse a policy that reads what is loaded by other words than it was loaded by.

    Grows with the number of loads and of versions, never with the records.

    Raises
    ------
    Conflict
    """
    for version in _versions_with_loads(tx):
        before = version_of(tx, version).policy
        told = next(_differences(before, policy), None)
        if told is not None:
            raise Conflict(
                f"{told}, and records are loaded",
                why="What identifies a record or a person, and what is shown of a "
                f"field, was made when they were loaded, under version {version}; "
                "this version would not mean the same by it.",
                fix="Load the records into a new store under this policy, or keep "
                "these words as they were.",
            )


def _versions_with_loads(tx: Tx) -> list[int]:
    lines = entry_registrations.policy_lines(tx)
    found = {bisect_left(lines, load) for load in entry_registrations.loads(tx)}
    return sorted(found - {0})


def _differences(before: Policy, after: Policy) -> Iterator[str]:
    old, new = before.entity, after.entity
    if old.key != new.key:
        yield "the policy takes the key of a record from another column"
    for word in ("subject", "time"):
        one, other = getattr(old, word), getattr(new, word)
        if one is not None and other is not None and one != other:
            yield f"the policy takes the {word} from another column"
    place, other = place_columns(before.properties), place_columns(after.properties)
    if other is not None and place != other:
        yield "the policy takes the place of a record from another column"
    for name, field in new.fields.items():
        known = old.fields.get(name)
        if known is None or not field.send:
            continue
        if _source(before, known) != _source(after, field):
            yield f"the policy shows another part of the record for field {name}"
        elif not set(field.redact) <= set(known.redact):
            yield f"the policy masks more in field {name}"


def _source(policy: Policy, field: Field) -> tuple[str | None, str | Box | None]:
    """Where the shown form of a field comes from: its column, and the box in it."""
    box = field.image_box
    if box is None:
        return field.image_column, None
    return field.image_column, policy.entity.layout.get(box, box)
