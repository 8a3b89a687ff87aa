"""Fetching: content for receivers that request it, limited to what was booked for them.

A message announced tasks to the receiver; their exposure was booked before it left. So
nothing is booked here. What must not leave any more does not: of an erased person, for
a blocked account, of a field that the policy sends no more, and nothing under a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connectors.base import Item
from dispatcher.core import keys
from dispatcher.ledger.active_policy import current_policy
from dispatcher.store import Store
from dispatcher.store import ledger as gate_rows
from dispatcher.store import tasks as task_rows

MOST_BYTES: Final = 8 << 20
"""Content of one answer; one item is given in any case."""


@dataclass(frozen=True)
class Fetched:
    """What is handed over.

    Attributes
    ----------
    items : tuple of Item
    later : tuple of str
        Tokens to request again: too much at once, or paused.
    missing : tuple of str
        Tokens of nothing that this receiver may have.
    """

    items: tuple[Item, ...] = ()
    later: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def fetch(store: Store, connector: str, tokens: Sequence[str]) -> Fetched:
    """Deliver the tasks that were announced to a feed's receiver.

    Parameters
    ----------
    store : Store
    connector : str
        The feed that has checked who asks.
    tokens : sequence of str
        Distinct.
    """
    key = store.key("task-key")
    store.settle()  # what was announced may have been booked just now
    ids = {keys.task_id_of(key, token): token for token in tokens}
    ids.pop(None, None)
    items: list[Item] = []
    later: list[str] = []
    with store.read() as tx:
        stopped = gate_rows.stopped_scopes(tx)
        if {"all", f"connector:{connector}"} & stopped:
            return Fetched(later=tuple(tokens))
        force = current_policy(tx)
        size = 0
        wanted = [number for number in ids if number is not None]
        for row in task_rows.published(tx, connector, wanted):
            standing = None if force is None else force.fields.get(row.field_id)
            if standing is None or not standing.sent:
                continue
            token = ids[row.task_id]
            size += len(row.shown)
            if f"run#{row.run_id}" in stopped or (items and size > MOST_BYTES):
                later.append(token)
                continue
            media = row.media.partition(";")[0].strip()
            items.append(
                Item(token, None, row.shown, media_type=media, label=standing.name)
            )
    given = {item.token for item in items}.union(later)
    missing = tuple(token for token in tokens if token not in given)
    return Fetched(tuple(items), tuple(later), missing)
