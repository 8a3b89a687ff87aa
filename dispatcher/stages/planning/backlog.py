"""The backlog as columns: entries that lack answers, and what was shown of their units.

Ids and numbers only; a value is never read here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.preflight import Clearance
from dispatcher.store import ledger as gate_rows
from dispatcher.store import planning as rows
from dispatcher.store import relations as people
from dispatcher.store.planning import LeftRow
from dispatcher.store.transaction import Tx
from policies.planning.problem import EntryColumns
from policies.policy import Scope
from policies.rules.shared_places import PeoplePairs

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ENTRY = np.dtype([(n, np.int64) for n in ("id", "record", "field", "subject", "time")])
MOST = 10**6  # answers or showings of an entry: more is as good as without end, and
# sums over all entries still fit 64 bits
_HALF = 2  # above 1/2 of all entries one pass over the ledger is cheaper than look-ups


@dataclass(frozen=True, eq=False, kw_only=True)
class Backlog(EntryColumns):
    """All entries of units that lack answers, ordered by id.

    Attributes
    ----------
    entry, field : int64 array, shape (n,)
        Ids, and the fields' numbers in the store. ``copies`` are answers still missing,
        less copies planned or in flight, as far as t allows.
    missing : int64 array, shape (n,)
        The same, t aside.
    room : int64 array, shape (n,)
        Showings that t still allows of entries that lack answers, else 0.
    shown_entry, shown_adversary : int64 array, shape (pairs,)
        Who was shown what of these entries (places in the columns), or is planned to.
    shown : bool array, shape (pairs,)
        Whether it was shown, and is not only planned.
    left : tuple of LeftRow
        What applied plans still intend to show.
    answers : int
        Answers still wanted in all, those planned or in flight included.
    published : bool array, shape (n,)
        Whether the entry's field has no ``ask``: feeds get it, and workers never do.
    size : int64 array, shape (n,)
        Bytes that are shown of the entry, where some connector takes less; else 0.
    """

    entry: Ints
    field: Ints
    missing: Ints
    room: Ints
    shown_entry: Ints
    shown_adversary: Ints
    shown: Flags
    left: tuple[LeftRow, ...]
    answers: int
    published: Flags
    size: Ints

    def __len__(self) -> int:
        return len(self.entry)

    @property
    def burnt(self) -> Ints:
        """Return indices of entries that t prevents from getting all their answers."""
        return np.flatnonzero(self.copies < self.missing)

    @property
    def begun(self) -> Flags:
        """Which entries are of a record of which something was shown or is planned."""
        return np.isin(self.record, self.record[self.shown_entry])


def read(
    tx: Tx,
    force: ActivePolicy,
    clear: Clearance,
    *,
    planned: bool = True,
    live: bool = True,
) -> Backlog:
    """Read the backlog under the policy in force.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy
    clear : Clearance
    planned, live : bool
        Whether what is planned, and what is in flight, counts; else the backlog is read
        as if there was none.

    Notes
    -----
    One pass over the entries; of the ledger only what concerns their units is read.
    """
    table = np.fromiter(rows.entries(tx), dtype=_ENTRY)
    named = np.zeros(int(table["field"].max(initial=0)) + 1, np.bool_)
    named[[number for number in force.fields if number < len(named)]] = True
    if not named[table["field"]].all():
        table = table[named[table["field"]]]
    left = unserved(tx, rows.left_of_plans(tx, force.version)) if planned else []
    feeds = rows.has_accounts(tx, clear.feeds)
    wanted = _wanted(tx, force, table, feeds=feeds, live=live)
    intended = _counts(table["id"], _pairs(left))
    missing = np.maximum(wanted - intended, 0)
    links = _links(tx, force)
    scope = _whole_units(force, table, missing > 0, links.values())
    table, wanted, missing = table[scope], wanted[scope], missing[scope]
    entry = np.ascontiguousarray(table["id"])
    seen, adversary, room = _history(tx, force, entry, table["field"], scope)
    room = np.maximum(room - intended[scope], 0)
    place, holder = _planned_pairs(entry, left)
    spot, visits = _spots(tx, entry) if links else (np.full(len(entry), -1),) * 2
    return Backlog(
        entry=entry,
        record=np.ascontiguousarray(table["record"]),
        field=np.ascontiguousarray(table["field"]),
        subject=np.ascontiguousarray(table["subject"]),
        time=np.ascontiguousarray(table["time"]),
        copies=np.minimum(missing, room),
        missing=missing,
        room=np.where(missing > 0, room, 0),
        shown_entry=np.concatenate([seen, place]),
        shown_adversary=np.concatenate([adversary, holder]),
        shown=np.arange(len(seen) + len(place)) < len(seen),
        left=tuple(left),
        answers=int(wanted.sum()),
        published=_unasked(force)[table["field"]],
        size=_sizes(tx, entry, clear),
        place=spot,
        visits=np.maximum(visits, 0),
        links=links,
    )


def _links(tx: Tx, force: ActivePolicy) -> dict[str, PeoplePairs]:
    """Links of the relations that rules look at.

    Some rules look at them even where an end is not loaded (number -1).
    """
    rules, found = force.rules.links.values(), {}
    half = {rule.relation for rule in rules if rule.vector is None}
    for name in sorted({rule.relation for rule in rules}):
        read_links = people.half_links if name in half else people.links
        table = _columns(read_links(tx, name), 3)
        found[name] = PeoplePairs(*(np.ascontiguousarray(c) for c in table.T))
    return found


def _spots(tx: Tx, entry: Ints) -> tuple[Ints, Ints]:
    """Number of the place of each entry, and its visits; -1 at none."""
    spot, visits = np.full(len(entry), -1), np.full(len(entry), -1)
    numbers: dict[str, int] = {}
    table = _columns(
        (
            (number, numbers.setdefault(place, len(numbers)), count)
            for number, place, count in people.places(tx)
        ),
        3,
    )
    at, rows_ = _spread(entry, table)
    spot[at], visits[at] = rows_[:, 1], rows_[:, 2]
    return spot, visits


def _sizes(tx: Tx, entry: Ints, clear: Clearance) -> Ints:
    """Bytes of what is too long for some connector that has accounts, else 0."""
    size = np.zeros(len(entry), np.int64)
    least = [
        most
        for name in clear.manifests
        if (most := clear.most_bytes(name)) is not None
        and rows.has_accounts(tx, [name])
    ]
    if least:
        at, found = _spread(entry, _columns(rows.longer(tx, min(least)), 2))
        size[at] = found[:, 1]
    return size


def unserved(tx: Tx, left: list[LeftRow]) -> list[LeftRow]:
    """Remove pairs that were shown since from the plans' pairs."""
    if not left:
        return []
    done: dict[int, list[int]] = {}
    for entry_id, account_id in rows.tasks(
        tx, sorted({row.account_id for row in left})
    ):
        done.setdefault(account_id, []).append(entry_id)
    out = []
    for row in left:
        entries = np.frombuffer(row.entries, "<i8")
        if row.account_id in done:
            entries = np.setdiff1d(entries, np.array(done[row.account_id], np.int64))
        if len(entries):
            out.append(row._replace(entries=entries.astype("<i8").tobytes()))
    return out


def _pairs(left: Iterable[LeftRow]) -> Ints:
    """Entry ids of all pairs, one for each."""
    parts = [np.frombuffer(row.entries, "<i8") for row in left]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _places(ids: Ints, wanted: Ints) -> tuple[Ints, Flags]:
    """Where ``wanted`` ids stand in the sorted ``ids``, and which of them do."""
    if not len(ids):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return place, np.asarray(ids[place] == wanted)


def _counts(ids: Ints, found: Ints) -> Ints:
    """How often each of the sorted ids is found."""
    place, there = _places(ids, found)
    return np.bincount(place[there], minlength=len(ids)).astype(np.int64)


def _columns(found: Iterable[tuple[int, ...]], width: int) -> Ints:
    """Rows of integers as an array of ``width`` columns."""
    kind = np.dtype((np.int64, width))
    return np.fromiter(found, dtype=kind)


def _spread(ids: Ints, table: Ints) -> tuple[Ints, Ints]:
    """Places of the rows whose first column is among the ids, and these rows."""
    place, there = _places(ids, table[:, 0])
    return place[there], table[there]


def _unasked(force: ActivePolicy) -> Flags:
    """By field number: whether it has no ``ask``."""
    unasked = np.zeros(max(force.fields, default=0) + 1, np.bool_)
    for number, standing in force.fields.items():
        unasked[number] = force.policy.entity.fields[standing.name].ask is None
    return unasked


def _wanted(
    tx: Tx,
    force: ActivePolicy,
    table: npt.NDArray[np.void],
    *,
    feeds: bool,
    live: bool,
) -> Ints:
    """Count answers, or copies at feeds, that each entry still lacks or has planned.

    ``live``: what is in flight counts as answered.
    """
    ids = table["id"]
    asked = np.zeros(max(force.fields, default=0) + 1, np.int64)
    for number in force.asked(feeds=feeds):
        field = force.policy.entity.fields[force.fields[number].name]
        asked[number] = min(field.answers, MOST)
    base = asked[table["field"]]
    wanted = base.copy()
    judged, result = _spread(ids, _columns(rows.results(tx), 3))
    wanted[judged] = np.maximum(wanted[judged], result[:, 1])
    for found in (rows.answered(tx), rows.live(tx) if live else ()):
        place, counted = _spread(ids, _columns(found, 2))
        wanted[place] -= counted[:, 1]
    if feeds:  # copies at feeds are no answers
        place, counted = _spread(ids, _columns(rows.published(tx), 2))
        wanted[place] -= np.where(
            _unasked(force)[table["field"][place]], counted[:, 1], 0
        )
    wanted[judged[result[:, 2] == 1]] = 0
    wanted[base == 0] = 0
    place, _ = _spread(ids, _columns(rows.never_asked(tx), 1))
    wanted[place] = 0
    return np.asarray(np.maximum(wanted, 0), dtype=np.int64)


def _whole_units(
    force: ActivePolicy,
    table: npt.NDArray[np.void],
    open_: Flags,
    links: Iterable[PeoplePairs],
) -> Flags:
    """Entries of every record, and subject, that has an open entry; and of its links."""
    if force.averages:  # averages are over all sets
        return np.full(len(table), bool(open_.any()))
    scope = _shared(table["record"], open_)
    if any(r.scope is Scope.SUBJECT for r in force.rules.all.values()):
        scope |= _shared(table["subject"], open_)
    for pairs in links:
        people_ = np.unique(table["subject"][open_])
        near = [pairs.other[np.isin(pairs.one, people_)]]
        near += [people_, pairs.one[np.isin(pairs.other, people_)]]
        mine = np.isin(table["subject"], np.concatenate(near))
        scope |= mine & (table["subject"] >= 0)
    return scope


def _shared(unit: Ints, chosen: Flags) -> Flags:
    """Rows whose unit has a chosen row; units are small numbers, -1 is none."""
    has = np.zeros(int(unit.max(initial=0)) + 1, np.bool_)
    has[unit[chosen & (unit >= 0)]] = True
    return np.asarray(has[np.maximum(unit, 0)] & (unit >= 0))


def _history(
    tx: Tx, force: ActivePolicy, entry: Ints, field: Ints, scope: Flags
) -> tuple[Ints, Ints, Ints]:
    """Return who was shown what, and how many showings t still allows of each entry."""
    caps = np.zeros(max(force.fields, default=0) + 1, np.int64)
    for number, standing in force.fields.items():
        caps[number] = min(standing.showings, MOST)
    room = caps[field]
    few = len(entry) * _HALF < len(scope)
    place, adversary, extra = [], [], []
    wanted = entry.tolist() if few else None
    for entry_id, holder, showing, kind, body in rows.exposures(tx, wanted):
        if kind == "unburn":
            extra.append((entry_id, gate_rows.unburned(str(body))))
        elif showing:
            place.append(entry_id)
            adversary.append(holder)
    seen, there = _places(entry, np.array(place, np.int64))
    holders = np.array(adversary, np.int64)[there]
    seen = seen[there]
    room = room - np.bincount(seen, minlength=len(entry))
    for entry_id, more in extra:
        at, found = _places(entry, np.array([entry_id], np.int64))
        room[at[found]] += more
    return seen, holders, room


def _planned_pairs(entry: Ints, left: list[LeftRow]) -> tuple[Ints, Ints]:
    """Indices and adversaries of the pairs that plans still intend to show."""
    sizes = [len(row.entries) // 8 for row in left]
    adversary = np.repeat(np.array([row.adversary_id for row in left], np.int64), sizes)
    place, there = _places(entry, _pairs(left))
    return place[there], adversary[there]
