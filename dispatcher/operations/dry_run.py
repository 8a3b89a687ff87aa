"""Previews: run the code of a change in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dispatcher.core.plugins import load_plugin
from dispatcher.ledger.violations import Past
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, Tx, exposure_queries, record_states


class _RollBack(Exception):
    """Ends a preview."""


@contextmanager
def rolled_back(store: Store) -> Iterator[Tx]:
    """Open a write transaction that is rolled back at the end, whatever was done."""
    try:
        with store.write() as tx:
            yield tx
            _roll_back()
    except _RollBack:
        pass


def _roll_back() -> None:
    raise _RollBack


@dataclass(frozen=True)
class LimitFinding:
    """One unit of an adversary that a change would put past a limit.

    Attributes
    ----------
    adversary, rule : str
    record : str or None
        The operator's key of the record, if the unit is one.
    subjects : tuple of str
        Pseudonym of the subject, or of both ends of a link, if the unit is that. All
        empty: it is an average over all sets.
    """

    adversary: str
    rule: str
    record: str | None = None
    subjects: tuple[str, ...] = ()


def findings(tx: Tx, found: Iterable[Past]) -> list[LimitFinding]:
    """Convert findings past a limit, with records by the operator's key."""
    past = list(found)
    ids = exposure_queries.records_named(tx, {one.unit[0] for one in past if one.unit})
    keys = record_states.record_keys(tx, list(ids.values()))
    listed = []
    for one in past:
        known = ids.get(one.unit[0]) if one.unit else None
        if known is not None:
            finding = LimitFinding(one.chain, one.property, record=keys.get(known, "?"))
        else:
            finding = LimitFinding(one.chain, one.property, subjects=one.unit)
        listed.append(finding)
    return listed


def withdrawing(workspace: Workspace) -> frozenset[str]:
    """Return the names of the connectors that can withdraw tasks."""
    return frozenset(
        name
        for name, values in workspace.config.connectors.items()
        if load_plugin(values.get("kind", name)).declared(values).withdraws
    )
