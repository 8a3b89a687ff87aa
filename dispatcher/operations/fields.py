"""Fields: find, list, explain, and grant more showings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher import identity
from dispatcher.core import keys
from dispatcher.core.errors import NotFound, Usage
from dispatcher.ledger import exhausted_fields as gate
from dispatcher.ledger import explain as gate_explain
from dispatcher.ledger.active_policy import asked_fields, current_policy, no_policy
from dispatcher.ledger.exhausted_fields import Shown
from dispatcher.ledger.exhausted_fields import unburn as grant
from dispatcher.ledger.explain import Explanation, Takers
from dispatcher.operations import totals
from dispatcher.operations.dry_run import rolled_back
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Clearance, Obstacle
from dispatcher.store import Store, Tx, booking, events, exhausted_fields, record_states
from dispatcher.store.accounts import AccountRow
from policies.document.diagnostic import listed
from policies.document.reading import suggestion


@dataclass(frozen=True)
class FieldList:
    """Fields with their showings and answers.

    Attributes
    ----------
    fields : sequence of Shown
    keys, pseudonyms : Mapping[int, str]
        The operator's keys of their records, and the pseudonyms, by id.
    total : int
        Number of fields found, as far as they were counted.
    """

    fields: Sequence[Shown]
    keys: Mapping[int, str]
    pseudonyms: Mapping[int, str]
    total: int


def list_fields(
    store: Store,
    *,
    burnt: bool = False,
    state: str | None = None,
    limit: int = 100,
    after: int = 0,
    exact: bool = True,
) -> FieldList:
    """Fields with their showings and answers.

    Parameters
    ----------
    store : Store
    burnt : bool
        Only those shown t times and still without enough answers.
    state : str, optional
        Only those in this state; not together with ``burnt``.
    limit : int
        Most fields to return.
    after : int
        Only those of entries above this id.
    exact : bool
        Look through a large store too; else begin with those that the daemon found.
    """
    with store.read() as tx:
        known: list[int] = []
        up_to = 0
        if not exact and (burnt or state == "open"):
            known, up_to = totals.listed(tx, "burnt" if burnt else "open", after)
        found = [
            one
            for one in gate.shown(tx, known)
            if (one.burnt if burnt else one.state == "open")
        ]
        after = max(after, up_to)
        if burnt and not up_to:
            found = [one for one in gate.burnt(tx) if one.entry_id > after]
        elif not burnt and len(found) < limit:
            more = exhausted_fields.in_state(tx, state, limit - len(found), after)
            found += gate.shown(tx, more)
        first = found[:limit]
        ids = [one.record_id for one in first]
        record_keys = record_states.record_keys(tx, ids)
        pseudonyms = record_states.pseudonyms(tx, ids)
    return FieldList(first, record_keys, pseudonyms, len(found))


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
        Additional showings of each, >= 1.
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
        events.add_event(tx, now, workspace.actor, "field.unburnt", detail)
    return found


def find_entry(store: Store, tx: Tx, text: str) -> int:
    """Find the entry that RECORD.FIELD names: FIELD is the longest that fits.

    A record is named by its key, or else by its pseudonym.

    Raises
    ------
    NotFound
        There is no such record or field in the store.
    """
    fields = sorted(record_states.field_names(tx), key=len, reverse=True)
    mistyped = ""
    for field in fields:
        if text.endswith(f".{field}") and len(text) > len(field) + 1:
            name = text[: -len(field) - 1]
            record = keys.pseudonym(store.key("pseudonym-key"), "r", name)
            for known in (record, name):
                entry_id = record_states.entry_named(tx, known, field)
                if entry_id is not None:
                    return entry_id
            if record_states.has_record(tx, record):
                raise NotFound(
                    "the record has no such entry",
                    why=f"its {field} is empty, and an empty value is no entry",
                    fix="look at the loaded file",
                )
            mistyped = mistyped or field
    refuse_record(store, tx, text)
    if mistyped:
        raise NotFound(
            "there is no such field in the store",
            why="no record of this key was loaded",
            fix="dispatcher records list",
            name=text,
            known=(f"{key}.{mistyped}" for key in record_states.first_keys(tx)),
        )
    meant = suggestion(text.rpartition(".")[2], fields, "`")
    known = f"known fields: {listed(sorted(fields)) or 'none yet'}"
    raise NotFound(
        "there is no such field in the store",
        why="a field is written RECORD.FIELD, with the record's key as it was loaded",
        fix=f"{meant} {known}" if meant else known,
    )


def refuse_record(store: Store, tx: Tx, text: str) -> None:
    """Refuse a record that is named without a field, and list its fields.

    Raises
    ------
    Usage
    """
    name = keys.pseudonym(store.key("pseudonym-key"), "r", text)
    found = record_states.fields(tx, asked_fields(tx), name)
    fields = [row.field for row in found]
    if fields:
        raise Usage(
            "a record is named, but none of its fields",
            why=f"a field is written RECORD.FIELD; this record has: {', '.join(fields)}",
            fix=f"write RECORD.{fields[0]}, or see: dispatcher records show RECORD",
        )


@dataclass(frozen=True)
class FieldRoute:
    """The connectors and recipients of a field: feeds or workers.

    Attributes
    ----------
    clear : Clearance
        What may be sent at all.
    ask : str or None
        What workers are asked to do; None: nobody is asked, it goes to feeds.
    size : int
        Bytes of its content.
    """

    clear: Clearance
    ask: str | None
    size: int

    @property
    def recipients(self) -> str:
        """Who gets it: ``feeds`` or ``workers``."""
        return "feeds" if self.ask is None else "workers"

    @property
    def obstacles(self) -> list[Obstacle]:
        """Return why some connectors that would carry it cannot be used."""
        return [
            one
            for one in self.clear.obstacles
            if self.clear.carries(one.connector, self.ask)
        ]

    def fits(self, account: AccountRow) -> bool:
        """Whether the connector of an account carries such a field."""
        return not self._misfit(account.connector)

    def obstacle(self, account: AccountRow) -> str:
        """Return why an account cannot get it, whatever the gate decides; or empty."""
        misfit = self._misfit(account.connector)
        if misfit or account.id not in self.clear.barred:
            return misfit
        return "; ".join(
            f"{one.what}: {one.fix}"
            for one in self.clear.obstacles
            if one.connector == account.connector
        )

    def _misfit(self, connector: str) -> str:
        if self.ask is None and connector not in self.clear.feeds:
            return "nobody is asked for it, so that it goes to feeds alone"
        if not self.clear.carries(connector, self.ask):
            return f"{connector} asks nobody to {self.ask}"
        most = self.clear.most_bytes(connector)
        if most is not None and self.size > most:
            return f"it has {self.size:,} bytes, and {connector} takes {most:,}"
        return ""


@dataclass(frozen=True)
class FieldTakers:
    """Who could be shown a field, and by which route."""

    takers: Takers
    route: FieldRoute


@dataclass(frozen=True)
class WorkerExplanation:
    """The gate's decision on one field for one worker, and its reasons.

    Attributes
    ----------
    worker : str
    explanation : Explanation
    takers : Takers
        Other workers who could be shown it.
    recipients : str
    obstacle : str
        Why it cannot be sent to the worker even so; empty: it can.
    keys : Mapping of int to str
        The operator's keys of the records that the worker saw, by id.
    """

    worker: str
    explanation: Explanation
    takers: Takers
    recipients: str
    obstacle: str
    keys: Mapping[int, str]


def takers_of(workspace: Workspace, store: Store, field: str) -> FieldTakers:
    """Find who could be shown a field (RECORD.FIELD).

    Raises
    ------
    NotFound
        There is no such field.
    Conflict
        No policy is in force.
    """
    preflight = workspace.preflight(store)
    with store.read() as tx:
        entry_id = find_entry(store, tx, field)
        route = route_of(tx, entry_id, preflight.look(tx))
        takers = gate_explain.takers(tx, entry_id, route.fits, route.clear.barred)
    return FieldTakers(takers, route)


def explain(
    workspace: Workspace, store: Store, field: str, worker: str
) -> WorkerExplanation:
    """Explain with the gate's own engine whether a worker may see a field.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    field : str
        RECORD.FIELD.
    worker : str
        CONNECTOR/NAME.

    Raises
    ------
    NotFound
        There is no such field or worker.
    Conflict
        No policy is in force.
    """
    preflight = workspace.preflight(store)
    with store.read() as tx:
        entry_id = find_entry(store, tx, field)
        route = route_of(tx, entry_id, preflight.look(tx))
        takers = gate_explain.takers(tx, entry_id, route.fits, route.clear.barred)
        account = identity.find(tx, worker)
        found = gate_explain.explain(tx, entry_id, account.id)
        record_keys = record_states.record_keys(
            tx, [seen.record_id for seen in found.seen]
        )
    return WorkerExplanation(
        worker, found, takers, route.recipients, route.obstacle(account), record_keys
    )


def route_of(tx: Tx, entry_id: int, clear: Clearance) -> FieldRoute:
    """Return the way that an entry goes under the policy in force.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    force = current_policy(tx)
    if force is None:
        raise no_policy()
    _, field_id, size = booking.to_send(tx, [entry_id])[0].tolist()
    standing = force.fields.get(field_id)
    fields = force.policy.entity.fields
    return FieldRoute(
        clear, None if standing is None else fields[standing.name].ask, size
    )
