"""Markets for tests: one in memory, and one that misbehaves.

:class:`Memory` keeps the contract with no disk and no network. :class:`Hostile` wraps
any market and fails as real markets do: it times out after accepting, delivers twice,
out of order and once more after the cursor has passed, lies about who answered which
task, and answers tasks that nobody ever offered. On request it breaks the contract
itself (:data:`BREACHES`): it says yes and does nothing, returns another offer's handle,
sets its cursor back, hangs, or hides offers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from numpy.random import Generator

from connectors.base import (
    Answer,
    Arrival,
    Binding,
    Collected,
    Content,
    Handle,
    Idempotency,
    Identity,
    Listed,
    Listing,
    Manifest,
    Market,
    Offer,
    Outcome,
    Plugin,
    Posted,
    Preview,
    Quarantined,
    Rejected,
    Role,
    Visit,
)

PAGE = 3
"""Offers in one page of a listing."""

MEMORY = Manifest(
    name="memory",
    role=Role.MARKET,
    binding=Binding.ASSIGNED,
    identity=Identity.LOGIN,
    content=Content.MARKET,
    preview=Preview.NONE,
    idempotency=Idempotency.KEY,
    tested_against="itself",
)


class Memory:
    """A market of dictionaries; `offers` and `answers` are the outside."""

    def __init__(self) -> None:
        self.offers: dict[str, Offer] = {}
        self.withdrawn: set[str] = set()
        self.answers: list[Answer] = []

    @property
    def manifest(self) -> Manifest:
        """Assigned, content at the market."""
        return MEMORY

    def publish(self, offer: Offer) -> Handle:
        """Store the offer; the first one with a key wins."""
        MEMORY.check(offer)
        self.offers.setdefault(offer.key, offer)
        return Handle(offer.key, f"memory:{offer.key}")

    def find(self, key: str) -> Handle | None:
        """Look the key up."""
        return Handle(key, f"memory:{key}") if key in self.offers else None

    def withdraw(self, handle: Handle) -> None:
        """Hide the offer from its worker."""
        self.withdrawn.add(handle.key)

    def arrive(self, visit: Visit, now: datetime) -> Arrival:  # noqa: ARG002 (protocol)
        """Raise Rejected: nobody arrives here."""
        raise Rejected("the memory market has no page")

    def collect(self, cursor: str) -> Collected:
        """Return the answers from number `cursor` on."""
        if cursor and not cursor.isdecimal():
            raise Rejected("the cursor is not one of this connector")
        behind = self.answers[int(cursor or "0") :]
        return Collected(str(len(self.answers)), tuple(behind))

    def listing(self, cursor: str) -> Listed:
        """Return the offers from number `cursor` on, a few per page."""
        if cursor and not cursor.isdecimal():
            raise Rejected("the cursor is not one of this connector")
        first = int(cursor or "0")
        end = first + PAGE
        keys = list(self.offers)
        posted = [
            Posted(key, f"memory:{key}", open=key not in self.withdrawn)
            for key in keys[first:end]
        ]
        return Listed(tuple(posted), str(end) if end < len(keys) else "")

    def give(self, token: str, account: str, value: str) -> None:
        """Play the worker: make an answer available."""
        number = len(self.answers)
        self.answers.append(Answer(f"m-{number}", token, account, value=value))


class Fault(StrEnum):
    """A way in which a hostile market misbehaves."""

    TIMEOUT = "timeout"  # publish accepts, then times out
    DUPLICATE = "duplicate"  # every answer comes twice in one collection
    REORDER = "reorder"
    AGAIN = "again"  # all answers come again after their cursor has passed
    LIE = "lie"  # also says that another account answered the task
    SWAP = "swap"  # also says of one worker what another one was asked
    UNKNOWN = "unknown"  # also answers a task that was never offered
    HUGE = "huge"  # also answers tasks with ten megabytes, before the true answer
    GARBAGE = "garbage"  # also delivers something that is no answer
    NOTHING = "nothing"  # now and then publish says yes, and nothing lies there
    HANDLE = "handle"  # now and then publish gives another offer's handle
    BACK = "back"  # now and then the cursor goes back to the beginning
    HANG = "hang"  # now and then a call takes long
    HIDE = "hide"  # lists only half of what it has


BREACHES = frozenset(
    {Fault.HUGE, Fault.NOTHING, Fault.HANDLE, Fault.BACK, Fault.HANG, Fault.HIDE}
)
"""Faults that no market has that passes the contract suite."""

BEARABLE = tuple(fault for fault in Fault if fault not in BREACHES)
HUGE = 10 << 20
"""Length of a huge answer in characters."""


class Hostile:
    """A market that misbehaves as real markets do, at random.

    Parameters
    ----------
    inner : Market
        The market that does the work.
    rng : Generator
        Decides which call times out and in which order answers come.
    faults : collection of Fault
        By default all but the breaches.
    timed_out : callable, optional
        Called at each publish that times out, so that a test can count them.
    hang : callable, optional
        Called to take long, if that is among the faults.
    """

    def __init__(
        self,
        inner: Market,
        rng: Generator,
        faults: Collection[Fault] = BEARABLE,
        timed_out: Callable[[], None] = lambda: None,
        hang: Callable[[], None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._rng = rng
        self._faults = frozenset(faults)
        self._timed_out = timed_out
        self._hang = hang

    @property
    def manifest(self) -> Manifest:
        """The inner market's declaration."""
        return self._inner.manifest

    def publish(self, offer: Offer) -> Handle:
        """Accept, and time out half of the time.

        Raises
        ------
        TimeoutError
            The offer is outside nevertheless.
        """
        if self._does(Fault.HANG, 0.05):
            self._hang()
        if self._does(Fault.NOTHING, 0.2) and self._inner.find(offer.key) is None:
            return Handle(offer.key, "nowhere")
        handle = self._inner.publish(offer)
        if self._does(Fault.TIMEOUT, 0.5):
            self._timed_out()
            raise TimeoutError
        if self._does(Fault.HANDLE, 0.2):
            return Handle(f"{offer.key}-other", "another")
        return handle

    def _does(self, fault: Fault, chance: float) -> bool:
        return fault in self._faults and bool(self._rng.random() < chance)

    def find(self, key: str) -> Handle | None:
        """Look up the offer truthfully."""
        return self._inner.find(key)

    def withdraw(self, handle: Handle) -> None:
        """Pass on."""
        self._inner.withdraw(handle)

    def listing(self, cursor: str) -> Listed:
        """Return the inner market's listing; empty if it has none."""
        inner = self._inner
        honest = inner.listing(cursor) if isinstance(inner, Listing) else Listed()
        if Fault.HIDE in self._faults:
            return replace(honest, posted=honest.posted[::2])
        return honest

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Pass on."""
        return self._inner.arrive(visit, now)

    def collect(self, cursor: str) -> Collected:
        """Deliver with every fault that is switched on."""
        if self._does(Fault.HANG, 0.05):
            self._hang()
        start = "" if Fault.AGAIN in self._faults else cursor
        honest = self._inner.collect(start)
        answers = [*self._huge(honest.answers), *honest.answers]
        answers += self._untrue(honest.answers)
        if Fault.DUPLICATE in self._faults:
            answers += answers
        if Fault.REORDER in self._faults:
            order = self._rng.permutation(len(answers))
            answers = [answers[int(i)] for i in order]
        strange = honest.quarantined
        if Fault.GARBAGE in self._faults:
            strange += (Quarantined("hostile-g", "thin air", "it is no answer"),)
        if self._does(Fault.BACK, 0.3):
            honest = replace(honest, cursor="", more=True)
        return replace(honest, answers=tuple(answers), quarantined=strange)

    def _untrue(self, honest: Sequence[Answer]) -> list[Answer]:
        """Return answers that nobody gave."""
        untrue = []
        if Fault.LIE in self._faults:
            untrue += [self._lie(answer) for answer in honest]
        if Fault.SWAP in self._faults:
            untrue += [
                replace(one, id=f"{one.id}-swap", account=other.account)
                for one, other in itertools.pairwise(honest)
                if one.account != other.account
            ]
        if Fault.UNKNOWN in self._faults:
            untrue.append(Answer("hostile-u", "no-such-task", "nobody", value="x"))
        return untrue

    def _huge(self, honest: Sequence[Answer]) -> list[Answer]:
        """Add one huge answer per collection: more would only take long."""
        if Fault.HUGE not in self._faults:
            return []
        return [
            replace(
                one, id=f"{one.id}-huge", outcome=Outcome.ANSWERED, value="x" * HUGE
            )
            for one in honest[-1:]
        ]

    def _lie(self, answer: Answer) -> Answer:
        """Return the answer as if somebody else had given it."""
        return replace(answer, id=f"{answer.id}-lie", account=f"{answer.account}-x")


PLUGIN = Plugin(MEMORY, lambda _: Memory())
