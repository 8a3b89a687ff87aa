"""Bulk decisions: the same answers as one by one, in a few passes over arrays.

Every disclosure function grows with what is held. So if each unit keeps its limits with
*all* asks of a batch granted, then every ask is safe in any order, and one pass over
arrays shows it. Only where a unit or an entry's showings would exceed a limit are the
asks concerned decided one by one, in the order given, by the rules themselves. So are
all asks for fields that relation rules read: a cosine may fall with one ask and rise
with the next, so that the order matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from dispatcher.core import keys
from dispatcher.ledger import refusals
from dispatcher.ledger.active_policy import ActivePolicy, trusted_rules_of
from dispatcher.ledger.decision import (
    NOTHING_HELD,
    AskFacts,
    judge_limits,
    judge_standing,
    units_of,
)
from dispatcher.ledger.refusals import Refusal
from dispatcher.ledger.relations import Granted, Visit, around, visit_of
from dispatcher.ledger.violations import EntryTallies, over_limit
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import decisions, exposure_counts, relations
from dispatcher.store import ledger as rows
from dispatcher.store.ledger import GateAccount, GateEntry
from dispatcher.store.transaction import Tx

Held = dict[tuple[str, int], int]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Verdicts:
    """The gate's decisions, one per ask, in order.

    Attributes
    ----------
    allowed : bool array, shape (asks,)
    new : bool array, shape (asks,)
        Whether the ask is allowed and its adversary does not hold the entry yet.
    refused : list of Refusal
        One for each ask that is not allowed, in order.
    """

    allowed: Flags
    new: Flags
    refused: list[Refusal]


class BookingBatch:
    """The asks of one booking, with the data that decides them.

    Parameters
    ----------
    tx : Tx
        The policy and the adversaries are locked; the entries will be.
    force : ActivePolicy
    asks : Sequence of (GateAccount, Sequence of int)
        Accounts, and the entries asked for each, in order.
    """

    def __init__(
        self,
        tx: Tx,
        force: ActivePolicy,
        asks: Sequence[tuple[GateAccount, Sequence[int]]],
    ) -> None:
        self.tx, self.force = tx, force
        self.accounts = [account for account, _ in asks]
        sizes = [len(ids) for _, ids in asks]
        asked = np.concatenate([np.asarray(ids, np.int64) for _, ids in asks])
        self.ask_account = np.repeat(np.arange(len(asks)), sizes)
        self.ids, self.ask_entry = np.unique(asked, return_inverse=True)
        self._id_list = self.ids.tolist()
        self._read_entries()
        ids = [account.adversary_id for account in self.accounts]
        self.adversaries, place = np.unique(
            np.array(ids, np.int64), return_inverse=True
        )
        self.ask_adversary = place[self.ask_account]
        self.trusted = [trusted_rules_of(tx, force, int(a)) for a in self.adversaries]
        self._granted: dict[int, Granted] = defaultdict(Granted)  # by adversary
        # rows of the summary about the units asked for
        self.known = np.empty((0, 5), np.int64)
        self._places: dict[int, tuple[str, int]] = {}  # by entry
        self._read_showings()

    def _read_entries(self) -> None:
        """Lock the entries; set their facts as columns, their records' names and runs."""
        table = decisions.lock_facts(self.tx, self._id_list)
        if len(table) < len(self.ids):
            missing = np.setdiff1d(self.ids, table[:, 0])
            raise refusals.unknown("entry", int(missing[0]))
        columns = (np.ascontiguousarray(column) for column in table.T[1:])
        self.record, self.field, self.subject, self.time = columns
        of_record, self._own = np.unique(self.record, return_inverse=True)
        self._pseudonyms: list[str] = []
        self._runs: list[int] = []
        self._waiting: list[bool] = []
        for _, name, run, waiting in decisions.records(self.tx, of_record.tolist()):
            self._pseudonyms.append(name)
            self._runs.append(run)
            self._waiting.append(bool(waiting))

    def names(self) -> list[str]:
        """Return the entries' ledger names."""
        names = map(self._pseudonyms.__getitem__, self._own.tolist())
        return list(map(keys.entry_name, names, self.field.tolist()))

    def _read_showings(self) -> None:
        """Read how often each entry was shown, its limit, and who already holds it."""
        numbers = {n: field.showings for n, field in self.force.fields.items()}
        standing = np.zeros(int(self.field.max()) + 1, np.int64)
        for number in np.unique(self.field).tolist():
            standing[number] = numbers.get(number, 0)
        self.limit = standing[self.field]
        lines = decisions.lines_about(self.tx, self._id_list)
        entry = np.searchsorted(self.ids, lines[:, 0])
        shown = lines[:, 2] == 1
        self.shown = np.bincount(entry[shown], minlength=len(self.ids))
        burnt = np.unique(lines[lines[:, 2] < 0, 0]).tolist()
        for row in rows.showings_of(self.tx, burnt):
            self.limit[np.searchsorted(self.ids, row.entry_id)] += row.extra
        who = lines[:, 1]
        if len(who):
            for ended, survivor in decisions.survivors(self.tx).items():
                who[who == ended] = survivor
        place = np.searchsorted(self.adversaries, who)
        place = np.minimum(place, len(self.adversaries) - 1)
        mine = self.adversaries[place] == who
        asked = self.pair(self.ask_adversary, self.ask_entry)
        self.held = np.isin(asked, self.pair(place[mine], entry[mine]))

    def pair(self, adversary: Ints, entry: Ints) -> Ints:
        """Encode an adversary and an entry of the batch as one number."""
        return np.asarray(adversary * len(self.ids) + entry, np.int64)

    def decide(self) -> Verdicts:
        """Decide all asks."""
        refused = self._refused_by_standing()
        open_ = ~self.held
        open_[list(refused)] = False
        doubt = self._doubtful(open_)
        allowed = np.ones(len(open_), np.bool_)
        new = open_.copy()
        for i, refusal in self._one_by_one(np.flatnonzero(doubt), new):
            refused[i] = refusal
        allowed[list(refused)] = False
        new &= allowed
        return Verdicts(allowed, new, [refused[i] for i in sorted(refused)])

    def visits(self) -> Iterator[Visit]:
        """Yield what the asks granted one by one add to the summary of visits."""
        for granted in self._granted.values():
            yield from chain.from_iterable(granted.visits.values())

    # -- decisions without rules -----------------------------------------------

    def _refused_by_standing(self) -> dict[int, Refusal]:
        """Return the asks refused whatever was shown before, with the reason."""
        fields, found = self.force.fields, {}
        sent = {n for n, field in fields.items() if field.sent}
        paused = rows.stopped_scopes(self.tx)
        gone = ~np.isin(self.field, np.array(sorted(sent), np.int64))
        suspect = gone[self.ask_entry]
        blocked = np.array([a.state != "active" for a in self.accounts])
        suspect |= blocked[self.ask_account]
        recused = rows.recusals(self.tx, self.adversaries.tolist())
        if paused or recused:
            suspect[:] = True
        elif any(self._waiting):
            suspect |= np.array(self._waiting)[self._own[self.ask_entry]]
        for i in np.flatnonzero(suspect).tolist():
            ask = AskFacts(self.entry_of(i), self.account_of(i), paused, recused)
            refusal = judge_standing(self.force, ask)
            if refusal is not None:
                found[i] = refusal
        return found

    def entry_of(self, i: int) -> GateEntry:
        """Return the entry of ask ``i``."""
        number = int(self.ask_entry[i])
        own, subject = int(self._own[number]), int(self.subject[number])
        place, visits = self._places.get(int(self.ids[number]), (None, None))
        return GateEntry(
            id=int(self.ids[number]),
            record_id=int(self.record[number]),
            field_id=int(self.field[number]),
            subject_id=None if subject < 0 else subject,
            time=int(self.time[number]),
            record=self._pseudonyms[own],
            run_id=self._runs[own],
            waiting=self._waiting[own],
            place=place,
            visits=visits,
        )

    def account_of(self, i: int) -> GateAccount:
        """Return the account of ask ``i``."""
        return self.accounts[int(self.ask_account[i])]

    # -- all at once -----------------------------------------------------------

    def _doubtful(self, open_: Flags) -> Flags:
        """Flag open asks that may exceed a limit if all open asks are granted."""
        at = np.flatnonzero(open_)
        doubt = np.zeros(len(open_), np.bool_)
        if not len(at):
            return doubt
        pairs = self.pair(self.ask_adversary, self.ask_entry)[at]
        _, inverse, count = np.unique(pairs, return_inverse=True, return_counts=True)
        entry = self.ask_entry[at]
        added = np.bincount(entry, minlength=len(self.ids))
        mine = (count[inverse] > 1) | (self.shown + added > self.limit)[entry]
        linked = [n for n, field in self.force.fields.items() if field.links]
        mine |= np.isin(self.field[entry], np.array(linked, np.int64))
        self._read_known(at)
        for subject in (False, True):
            mine |= over_limit(
                self.force,
                self.trusted,
                asked=self._rows(at, subject),
                known=self._known_rows(subject),
                subject=subject,
            )
        doubt[at] = mine
        return doubt

    def _rows(self, at: Ints, subject: bool) -> EntryTallies:
        entry = self.ask_entry[at]
        units = self.subject if subject else self.record
        return EntryTallies(
            adversary=self.ask_adversary[at],
            unit=units[entry],
            field=self.field[entry],
            time=self.time[entry],
            entries=np.ones(len(at), np.int64),
        )

    def _asked_units(self, at: Ints) -> Ints:
        """Return adversary indices and the units asked for them, as two rows."""
        who, entry = self.ask_adversary[at], self.ask_entry[at]
        subject, fields = self.subject[entry], self.force.fields.values()
        found = [np.empty((2, 0), np.int64)]
        if any(field.in_record for field in fields):
            found.append(np.stack([who, 2 * self.record[entry]]))
        if any(field.in_subject for field in fields):
            there = subject >= 0
            found.append(np.stack([who[there], 2 * subject[there] + 1]))
        return np.concatenate(found, axis=1)

    def _read_known(self, at: Ints) -> None:
        """Read what the adversaries hold of the units asked for them."""
        asked = self._asked_units(at)
        wanted = [
            (int(self.adversaries[i]), np.unique(asked[1, part]).tolist())
            for i, part in runs(np.argsort(asked[0], kind="stable"), asked[0])
        ]
        table = exposure_counts.counts(self.tx, wanted)
        if not len(table):
            return  # nothing is held yet: searching would sort all that is asked
        place = np.searchsorted(self.adversaries, table[:, 0])
        span = max(table[:, 1].max(initial=0), asked[1].max(initial=0)) + 1
        mine = np.isin(place * span + table[:, 1], asked[0] * span + asked[1])
        self.known = table[mine]

    def _known_rows(self, subject: bool) -> EntryTallies:
        """Return what is held of subjects or of records, by adversary index."""
        table = self.known[self.known[:, 1] & 1 == subject]
        place = np.searchsorted(self.adversaries, table[:, 0])
        return EntryTallies.of(np.column_stack([place, table[:, 1:]]))

    # -- one by one ------------------------------------------------------------

    def _one_by_one(self, doubtful: Ints, new: Flags) -> Iterable[tuple[int, Refusal]]:
        """Decide doubtful asks in order; correct ``new`` for repeated ones."""
        if not len(doubtful):
            return
        self._read_places(doubtful)
        held = self._held_units(doubtful)
        shown = self.shown.copy()
        taken: set[tuple[int, int]] = set()
        for i in doubtful.tolist():
            adversary, number = int(self.ask_adversary[i]), int(self.ask_entry[i])
            if (adversary, number) in taken:
                new[i] = False
                continue
            ask = self._facts(i, held, int(shown[number]))
            refusal = judge_limits(self.force, ask)
            if refusal is not None:
                yield i, refusal
            else:
                taken.add((adversary, number))
                shown[number] += 1
                self._add(held, adversary, ask.entry)

    def _read_places(self, doubtful: Ints) -> None:
        """Read the places of asked entries, for fields whose places rules read."""
        asked = np.unique(self.ask_entry[doubtful])
        placed = [n for n, field in self.force.fields.items() if field.placed]
        asked = asked[np.isin(self.field[asked], np.array(placed, np.int64))]
        self._places = relations.places_of(self.tx, self.ids[asked].tolist())

    def _facts(
        self, i: int, held: dict[tuple[int, int], Held], showings: int
    ) -> AskFacts:
        """Return the facts of an ask that is not held, including all grants so far."""
        adversary, entry = int(self.ask_adversary[i]), self.entry_of(i)
        who, person = int(self.adversaries[adversary]), entry.subject_id
        granted = self._granted[who]
        seen = around(self.tx, self.force, entry, who, held=False, granted=granted)
        return AskFacts(
            entry,
            self.account_of(i),
            showings=showings,
            limit=int(self.limit[self.ask_entry[i]]),
            of_record=held[adversary, record_unit(entry.record_id)],
            of_subject=(
                NOTHING_HELD
                if person is None
                else held[adversary, subject_unit(person)]
            ),
            trusted=self.trusted[adversary],
            around=tuple(seen),
        )

    def _held_units(self, doubtful: Ints) -> dict[tuple[int, int], Held]:
        wanted = {
            (int(self.ask_adversary[i]), unit)
            for i in doubtful.tolist()
            for unit in units_of(self.entry_of(i))
        }
        held: dict[tuple[int, int], Held] = defaultdict(dict)
        names = self.force.numbered
        for subject in (False, True):
            for who, unit, field, time, count in self._known_rows(subject).listed():
                key = who, 2 * unit + subject
                if key in wanted and field in names:
                    held[key][names[field], time] = count
        return held

    def _add(
        self, held: dict[tuple[int, int], Held], adversary: int, entry: GateEntry
    ) -> None:
        field = self.force.fields[entry.field_id]
        time = (entry.time or 0) if field.timed else 0
        who = int(self.adversaries[adversary])
        if field.links and entry.subject_id is not None:
            granted, person = self._granted[who], entry.subject_id
            granted.visits[person] += visit_of(field, entry, who)
            granted.entries[person].append(entry)
        for unit in units_of(entry):
            mine = held[adversary, unit]
            key = field.name, time if unit & 1 else 0
            mine[key] = mine.get(key, 0) + 1


def runs(order: Ints, keys_of: Ints) -> Iterator[tuple[int, Ints]]:
    """Split an order of asks where their key changes: (key, asks)."""
    if not len(order):
        return
    values = keys_of[order]
    cuts = np.flatnonzero(np.diff(values)) + 1
    for part in np.split(order, cuts):
        yield int(keys_of[part[0]]), part
