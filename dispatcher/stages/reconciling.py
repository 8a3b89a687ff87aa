"""Reconciling: compare what a market has of us with what the store knows.

Reads ``outbox`` and ``task``, writes ``task``, ``outbox``, ``cursor`` and ``event``.
Calls of a market and its answers are hints; its list is the truth about what lies
there:

- *unknown*: open there, and this store knows nothing of it (it was restored from an older
  state) or never let it go. It is withdrawn.
- *arrived*: given up here, and there all the same. It waits again, is found, and counts
  as sent.
- *unwithdrawn*: withdrawn here, and open there still. It is withdrawn once more.
- *gone*: sent, not answered, and not there any more. Its tasks return to the plan; that
  they were seen stays booked. The money of a piece of work that nobody took is free.
- *foreign*: of another store. It is counted and left alone.

A market that can reports once more a piece of work that is over there and of which this
store (because it was restored) has not heard.

The market is asked outside any transaction.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from connectors.base import (
    Handle,
    Listing,
    Market,
    Misconfigured,
    Posted,
    Rejected,
    Retelling,
)
from dispatcher.core import keys, meters
from dispatcher.core.errors import StaleLease
from dispatcher.core.log import get_logger
from dispatcher.store import Clock, Store, Tx, events, lease, money, outbox
from dispatcher.store import ledger as gate_rows
from dispatcher.store import reconciling as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed

MICRO: Final = 1_000_000
GRACE: Final = 600 * MICRO
"""Age below which an offer may be missing from the list without being gone."""

OFFERED: Final = 86_400 * MICRO
"""Age up to which a content-free offer is looked for."""

MOST_PAGES: Final = 100_000
DOUBTFUL: Final = 10
"""Above this count, a list that lacks half of all that was sent is not trusted."""

KINDS: Final = ("unknown", "arrived", "unwithdrawn", "gone", "foreign", "refused")
_NAMED: Final = 20  # examples of each kind


@dataclass(frozen=True)
class Drift:
    """How a market and this store differ.

    Attributes
    ----------
    listed : int
        Offers that the market lists.
    counts : Mapping[str, int]
        By the kinds in this module's docstring; ``gone`` counts tasks and offers.
        ``refused``: what the market would not withdraw.
    examples : Mapping[str, list of str]
        The first few of each: messages as ``outbox#ID``, or the market's references.
    doubtful : bool
        So much is gone that the list itself is in doubt.
    """

    listed: int
    counts: Mapping[str, int]
    examples: Mapping[str, list[str]]
    doubtful: bool = False

    @property
    def differs(self) -> bool:
        """Whether anything has to be repaired."""
        return any(self.counts.get(kind, 0) for kind in KINDS if kind != "foreign")


@dataclass(frozen=True)
class Mending:
    """What a reconciliation may change.

    Attributes
    ----------
    mend : bool
        Withdraw, requeue and return, as the module's docstring says; else only report.
    trust : bool
        Believe the market's list also where it is doubtful.
    epoch : int or None
        Of the daemon; None for an operator's act.
    actor : str
        Who acts, for the events; empty: the daemon, under the connector's name.
    """

    mend: bool = False
    trust: bool = False
    epoch: int | None = None
    actor: str = ""


@dataclass
class _Found:
    """Findings so far."""

    withdrawn: set[int]  # messages that were taken back
    untold: frozenset[int]  # pieces of work that are not known to have ended
    back: dict[int, Posted] = field(default_factory=dict)  # to be taken back now
    over: dict[int, Posted] = field(default_factory=dict)  # to be reported again
    listed: int = 0
    there: array[int] = field(default_factory=lambda: array("q"))
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        named = self.examples.setdefault(kind, [])
        if len(named) < _NAMED:
            named.append(what)

    def take_back(self, kind: str, number: int, one: Posted) -> None:
        """Note what is to be withdrawn, once: it may lie on two pages."""
        if number not in self.back:
            self.back[number] = one
            self.note(kind, one.reference)


class Reconciling:
    """The stage of one market; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    name : str
        The operator's name of the market.
    market : Market
        It lists (:class:`~connectors.base.Listing`).
    clock : Clock

    Raises
    ------
    TypeError
        The market does not list.
    """

    def __init__(self, store: Store, name: str, market: Market, clock: Clock) -> None:
        if not isinstance(market, Listing):
            raise TypeError(f"{name} does not list")
        self._store = store
        self._name = name
        self._market = market
        self._clock = clock
        self._log = get_logger("reconciling")

    def tick(self, epoch: int) -> int:
        """Hold the market to what we know, and mend; how much differed.

        A paused market is left alone, so that a restored store is looked at first.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        with self._store.read() as tx:
            lease.check_leader(tx, lease.SHARD, epoch)
            stopped = gate_rows.stopped_scopes(tx)
        if {"all", f"connector:{self._name}"} & stopped:
            return 0
        try:
            drift = self.reconcile(Mending(mend=True, epoch=epoch))
        except StaleLease:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - stops no other
            self._log.warning("not-reconciled", connector=self._name, error=error)
            return 0
        if drift.differs:
            self._log.warning(
                "market-differs",
                connector=self._name,
                doubtful=drift.doubtful,
                **drift.counts,
            )
        return sum(drift.counts[kind] for kind in KINDS if kind != "foreign")

    def reconcile(self, how: Mending) -> Drift:
        """Hold the market to what we know.

        Raises
        ------
        ConnectorError
            The market cannot be asked now. What was mended before stays mended.
        StaleLease
        """
        began = self._clock()
        with self._store.read() as tx:
            unheard = money.untold(tx, self._name, began - GRACE)
            found = _Found(rows.withdrawn(tx, self._name), frozenset(unheard))
        cursor = ""
        for _ in range(MOST_PAGES):
            with meters.calling(self._name):
                page = self._market.listing(cursor)
            self._compare(page.posted, found, how)
            cursor = page.cursor
            if not cursor:
                break
        else:
            raise Misconfigured(
                f"the pages that {self._name} lists have no end",
                fix="tell the connector's author",
            )
        # Not while it is listed: where it is deleted the pages behind would move up, and
        # what they begin with be passed over and taken for gone.
        self._withdraw(found, how)
        self._hear_again(found, how)
        doubtful = self._look_for_gone(began, found, how)
        drift = Drift(
            found.listed,
            {kind: found.counts[kind] for kind in KINDS},
            found.examples,
            doubtful,
        )
        if how.mend and drift.differs:
            self._write_down(drift, how)
        return drift

    def _compare(self, posted: Sequence[Posted], found: _Found, how: Mending) -> None:
        """Classify one page of the market's list."""
        key = self._store.key("task-key")
        named = [(keys.message_id_of(key, one.key), one) for one in posted]
        ours = {number: one for number, one in named if number is not None}
        found.listed += len(posted)
        found.counts["foreign"] += sum(number is None for number, _ in named)
        with self._store.read() as tx:
            if how.epoch is not None:
                lease.check_leader(tx, lease.SHARD, how.epoch)
            known = rows.known(tx, list(ours))
        given_up = []
        for number, one in ours.items():
            row = known.get(number)
            if row is not None and row.connector != self._name:
                continue  # of another connector of ours at the same market
            found.there.append(number)
            if row is not None and row.state == "dead":
                found.note("arrived", f"outbox#{number}")
                given_up.append(number)
            elif one.open and (row is None or row.state == "cancelled"):
                found.take_back("unknown", number, one)
            elif one.open and number in found.withdrawn:
                found.take_back("unwithdrawn", number, one)
            elif not one.open and number in found.untold:
                found.over[number] = one
        if how.mend and given_up:
            now = self._clock()
            self._write(lambda tx: outbox.revive(tx, given_up, now), how.epoch)

    def _withdraw(self, found: _Found, how: Mending) -> None:
        """Withdraw what must not lie there."""
        for one in found.back.values() if how.mend else ():
            try:
                with meters.calling(self._name):
                    self._market.withdraw(Handle(one.key, one.reference))
            except Rejected:
                found.note("refused", one.reference)

    def _hear_again(self, found: _Found, how: Mending) -> None:
        """Have a market report again the work that is over and unknown here."""
        market: object = self._market
        if not how.mend or not isinstance(market, Retelling):
            return
        for one in found.over.values():
            with meters.calling(self._name), suppress(Rejected):
                market.retell(Handle(one.key, one.reference))

    def _look_for_gone(self, began: int, found: _Found, how: Mending) -> bool:
        """Find what was sent and is missing; return whether the list is doubtful."""
        there = np.unique(np.frombuffer(found.there, np.int64))
        gone = array("q")
        open_ = 0
        with self._store.read() as tx:
            for page in rows.sent_tasks(tx, self._name, began - GRACE):
                open_ += len(page)
                missing = ~np.isin([row.id for row in page], there)
                for row in itertools.compress(page, missing):
                    found.note("gone", f"outbox#{row.id}")
                    gone.append(row.task_id)
            ours = rows.sent_offers(tx, self._name, began - OFFERED, began - GRACE)
            paid = money.untold(tx, self._name, began - GRACE)
        for number in np.setdiff1d(np.array([*ours, *paid], np.int64), there).tolist():
            found.note("gone", f"outbox#{number}")
        unpaid = np.setdiff1d(np.array(paid, np.int64), there).tolist()
        missing_, sent = len(gone) + len(unpaid), open_ + len(paid)
        doubtful = missing_ > DOUBTFUL and 2 * missing_ > sent
        if how.mend and (how.trust or not doubtful):
            self._write(partial(money.end_pieces, abouts=unpaid, now=began), how.epoch)
            for start in range(0, len(gone), rows.PAGE):
                part = gone[start : start + rows.PAGE].tolist()
                moved = self._write(
                    partial(task_rows.end_live, task_ids=part), how.epoch
                )
                meters.TRANSITIONS.labels("sent", "returned", self._name).inc(moved)
        return doubtful

    def _write_down(self, drift: Drift, how: Mending) -> None:
        detail: dict[str, object] = {"connector": self._name, **drift.counts}
        detail["examples"] = drift.examples
        actor = how.actor or f"connector:{self._name}"

        def write(tx: Tx) -> int:
            now = self._clock()
            return events.add_event(tx, now, actor, "market.reconciled", detail)

        self._write(write, how.epoch)

    def _write(self, job: Callable[[Tx], int], epoch: int | None) -> int:
        def write(tx: Tx) -> int:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            return job(tx)

        return committed(self._store, write)
