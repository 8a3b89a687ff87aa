"""Explain what a name stands for: a worker's standing, or where a record's fields are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from dispatcher import identity
from dispatcher.core import keys
from dispatcher.core.errors import DispatcherError, NotFound, Usage
from dispatcher.ledger import explain as gate
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.ledger.lines import adversary_name
from dispatcher.operations import workers
from dispatcher.operations.fields import find_entry, route_of
from dispatcher.operations.records import no_record
from dispatcher.operations.workers import Worker
from dispatcher.operations.workspace import Workspace
from dispatcher.store import (
    Store,
    Tx,
    accounts,
    exposure_queries,
    planning,
    record_states,
)


@dataclass(frozen=True)
class RecordField:
    """A field of a record: its state, who has seen it, and who still could.

    Attributes
    ----------
    field : str
    state : str
        ``open``, ``answered`` or ``conflict``.
    seen_by : tuple of str
        Pseudonyms of the adversaries that were shown it.
    open_tasks, answers : int
    could_take : int or None
        Accounts that could be shown it; None: it is not open.
    recipients : str
        Whom it goes to: ``feeds`` or ``workers``.
    held_back : str
        Why the plan holds it back; empty: it does not.
    """

    field: str
    state: str
    seen_by: tuple[str, ...]
    open_tasks: int
    answers: int
    could_take: int | None
    recipients: str
    held_back: str


@dataclass(frozen=True)
class ExplainedRecord:
    """A record by the name that was asked for, with its pseudonym; no value."""

    name: str
    pseudonym: str
    fields: tuple[RecordField, ...]


def explain(workspace: Workspace, store: Store, name: str) -> Worker | ExplainedRecord:
    """Explain a worker (CONNECTOR/NAME) or a record (its key or pseudonym).

    Raises
    ------
    Usage
        The name is a field's, which is explained for a worker or for everybody; or a
        worker's and a record's.
    NotFound
        Nothing has this name.
    """
    with store.read() as tx:
        connector, _, rest = name.partition("/")
        is_worker = accounts.find(tx, connector, rest) is not None
        pseudonym = _record(store, tx, name)
        is_field = _is_field(store, tx, name)
        if is_worker and (pseudonym or is_field):
            raise Usage(
                "a worker and a record have this name",
                why="one word cannot say which of them is meant",
                fix="dispatcher workers show NAME, or dispatcher records show KEY",
            )
        if is_field:
            raise Usage(
                "explain what?",
                why="a field is explained for a worker, or for everybody",
                fix="add --worker CONNECTOR/NAME, or --who",
            )
        if not is_worker and pseudonym is None:
            raise _unknown(store, tx, name)
    if pseudonym is None:
        return workers.show(workspace, store, name)
    return _explain_record(workspace, store, name, pseudonym)


def _record(store: Store, tx: Tx, name: str) -> str | None:
    """Pseudonym of the record that a key, or a pseudonym, names."""
    by_key = keys.pseudonym(store.key("pseudonym-key"), "r", name)
    return next(
        (one for one in (by_key, name) if record_states.has_record(tx, one)), None
    )


def _is_field(store: Store, tx: Tx, name: str) -> bool:
    try:
        find_entry(store, tx, name)
    except (NotFound, Usage):
        return False
    return True


def _unknown(store: Store, tx: Tx, name: str) -> DispatcherError:
    """Return the error of the kind that a name looks like: worker, field or record."""
    try:
        if name.partition("/")[0] in {
            one.connector for one in accounts.all_accounts(tx)
        }:
            identity.find(tx, name)
        elif "." in name:
            find_entry(store, tx, name)
    except DispatcherError as error:
        return error
    return no_record(tx, name)


def _explain_record(
    workspace: Workspace, store: Store, name: str, pseudonym: str
) -> ExplainedRecord:
    preflight = workspace.preflight(store)
    with store.read() as tx:
        clear = preflight.look(tx)
        seen: dict[str, list[str]] = defaultdict(list)
        for field, adversary in exposure_queries.seen_of_record(tx, pseudonym):
            seen[field].append(adversary_name(adversary))
        found = []
        feeds = planning.has_accounts(tx, clear.feeds)
        asked = asked_fields(tx, feeds=feeds)
        for row in record_states.fields(tx, asked, pseudonym):
            entry_id = record_states.entry_named(tx, pseudonym, row.field)
            assert entry_id is not None, "one transaction reads both"
            route, could = route_of(tx, entry_id, clear), None
            if row.state == "open":
                takers = gate.takers(tx, entry_id, route.fits, clear.barred)
                could = len(takers.accounts)
            found.append(
                RecordField(
                    field=row.field,
                    state=row.state,
                    seen_by=tuple(seen[row.field]),
                    open_tasks=row.live,
                    answers=row.answers,
                    could_take=could,
                    recipients=route.recipients,
                    held_back=row.held_back,
                )
            )
    return ExplainedRecord(name, pseudonym, tuple(found))
