"""Fields: found by name, listed with their showings, granted more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.core import keys
from dispatcher.core.errors import NotFound, Usage
from dispatcher.ledger import exhausted_fields as gate
from dispatcher.ledger.exhausted_fields import Shown
from dispatcher.ledger.exhausted_fields import unburn as grant
from dispatcher.operations.dry_run import rolled_back
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, Tx, burning, events, names, record_states


@dataclass(frozen=True)
class Listing:
    """Fields with their showings and answers.

    Attributes
    ----------
    fields : sequence of Shown
    keys : Mapping[int, str]
        The operator's keys of their records, by id.
    total : int
        How many there are, as far as they were counted.
    """

    fields: Sequence[Shown]
    keys: Mapping[int, str]
    total: int


def list_fields(
    store: Store, *, burnt: bool = False, state: str | None = None, limit: int = 100
) -> Listing:
    """Fields with their showings and answers.

    Parameters
    ----------
    store : Store
    burnt : bool
        Only those that were shown t times and still have not enough answers.
    state : str, optional
        Only those in this state; not together with ``burnt``.
    limit : int
        At most so many.
    """
    with store.read() as tx:
        if burnt:
            found = gate.burnt(tx)
        else:
            found = gate.shown(tx, burning.in_state(tx, state, limit))
        first = found[:limit]
        record_keys = names.record_keys(tx, [one.record_id for one in first])
    return Listing(first, record_keys, len(found))


def grant_showings(
    workspace: Workspace,
    store: Store,
    fields: Sequence[str] | None,
    extra: int,
    reason: str,
    *,
    dry_run: bool = False,
) -> list[Shown]:
    """Let fields be shown to more workers than t says.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    fields : sequence of str or None
        As RECORD.FIELD; None: every burnt field.
    extra : int
        How many showings more for each, >= 1.
    reason : str
        A line of the ledger that auditors read.
    dry_run : bool
        Change nothing.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such field, or its record was erased.
    """
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            "extra showings need a reason, one line of text",
            why="the grant is a line of the ledger that auditors read",
            fix='--reason "two tasks came back unanswered"',
        )
    with rolled_back(store) if dry_run else store.write() as tx:
        return _grant(workspace, store, tx, fields, extra, reason)


def _grant(
    workspace: Workspace,
    store: Store,
    tx: Tx,
    fields: Sequence[str] | None,
    extra: int,
    reason: str,
) -> list[Shown]:
    now = workspace.clock()
    if fields is None:
        found = gate.burnt(tx)
    else:
        named = {find_entry(store, tx, text): text for text in fields}
        found = gate.shown(tx, list(named))
        for one in found:
            named.pop(one.entry_id)
        if named:
            raise NotFound(
                f"{next(iter(named.values()))} is of a record that was erased",
                why="nothing of it is left to be shown; nothing was granted",
                fix="leave it out",
            )
    for one in found:
        grant(tx, one.entry_id, extra=extra, because=reason, at=now)
    if found:
        detail: dict[str, object] = {"fields": len(found), "extra": extra}
        events.add_event(tx, now, "cli", "field.unburnt", detail)
    return found


def find_entry(store: Store, tx: Tx, text: str) -> int:
    """Find the entry that RECORD.FIELD names: FIELD is the longest that fits.

    Raises
    ------
    NotFound
        There is no such record or field in the store.
    """
    fields = sorted(names.field_names(tx), key=len, reverse=True)
    for field in fields:
        if text.endswith(f".{field}") and len(text) > len(field) + 1:
            record = keys.pseudonym(
                store.key("pseudonym-key"), "r", text[: -len(field) - 1]
            )
            entry_id = names.entry_named(tx, record, field)
            if entry_id is not None:
                return entry_id
            if names.has_record(tx, record):
                raise NotFound(
                    "the record has no such entry",
                    why=f"its {field} is empty, and an empty value is no entry",
                    fix="look at the loaded file",
                )
    refuse_record(store, tx, text)
    raise NotFound(
        "there is no such field in the store",
        why="a field is written RECORD.FIELD, with the record's key as it was loaded",
        fix=f"known fields: {', '.join(sorted(fields)) or 'none yet'}",
    )


def refuse_record(store: Store, tx: Tx, text: str) -> None:
    """Refuse a record that is named without a field, and list its fields.

    Raises
    ------
    Usage
    """
    name = keys.pseudonym(store.key("pseudonym-key"), "r", text)
    fields = [row.field for row in record_states.fields(tx, name)]
    if fields:
        raise Usage(
            "a record is named, but none of its fields",
            why=f"a field is written RECORD.FIELD; this record has: {', '.join(fields)}",
            fix=f"write RECORD.{fields[0]}, or see: dispatcher records show RECORD",
        )
