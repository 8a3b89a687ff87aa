"""Who was erased is known by any spelling of the key."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dispatcher.core.keys import spelled
from dispatcher.stages.intake.shaping import Row
from dispatcher.store import Tx
from dispatcher.store import intake as rows


def respelled(
    tx: Tx, secret: bytes, found: Sequence[Row], known: Collection[str]
) -> frozenset[str]:
    """Return the rows that would bring in somebody erased under another spelling.

    What the store knows by exactly its key (``known`` has the records) is somebody else,
    who was loaded before the erasure.

    Returns
    -------
    frozenset of str
        Pseudonyms of the rows' records.
    """
    if not rows.suppresses(tx):
        return frozenset()
    new = [row for row in found if row.pseudonym not in known]
    there = rows.known_people(tx, [row.person for row in new if row.person is not None])
    names = {spelled(secret, "r", row.key): row.pseudonym for row in new}
    people = {
        row.person: spelled(secret, "s", row.subject)
        for row in new
        if row.person is not None and row.person not in there
    }
    hit = rows.suppressed(tx, [*names, *people.values()])
    return frozenset(
        row.pseudonym
        for row in new
        if spelled(secret, "r", row.key) in hit or people.get(row.person or "") in hit
    )
