"""The audit chain: one line for each act of a person or a token.

An :class:`Act` goes with the store that its operation is given (:meth:`.Store.acting`):
its line is written in the first transaction that changes anything, just before that
commits. So no change is without its line, a dry run leaves none, and the chain's end is
locked for a moment only, after all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Text, bindparam, or_
from sqlmodel import col, select

from dispatcher.core.canonical import NO_HASH, line_hash
from dispatcher.core.errors import LedgerBroken
from dispatcher.model import AuditLine
from dispatcher.model.notices import OF_ACTS
from dispatcher.store import notices
from dispatcher.store.settings import hold_setting, set_setting, setting
from dispatcher.store.transaction import Tx

if TYPE_CHECKING:
    from collections.abc import Callable

    from dispatcher.store.engine import Store

CHAIN: Final = "audit"
DONE: Final = "done"
"""Outcome of an act that changed something; others are codes of errors."""

DENIED: Final = "denied"
MINUTE: Final = 60_000_000

_HEAD: Final = "audit-head"
_FIRST: Final = f"0 {NO_HASH}".encode()
_COLUMNS: Final = (
    "seq",
    "at",
    "actor",
    "surface",
    "operation",
    "target",
    "reason",
    "outcome",
    "hash",
)

_ACTOR: Final = bindparam("by", type_=Text())
_OPERATION: Final = bindparam("of", type_=Text())
_BEGINNING: Final = bindparam("beginning", type_=Text())
_NEWEST: Final = (
    select(AuditLine)
    .where(
        or_(_ACTOR.is_(None), col(AuditLine.actor) == _ACTOR),
        or_(
            _OPERATION.is_(None),
            col(AuditLine.operation) == _OPERATION,
            col(AuditLine.operation).startswith(_BEGINNING),
        ),
        col(AuditLine.at) >= bindparam("since", type_=BigInteger()),
        col(AuditLine.at) < bindparam("until", type_=BigInteger()),
        col(AuditLine.seq) < bindparam("before", type_=BigInteger()),
    )
    .order_by(col(AuditLine.seq).desc())
    .limit(bindparam("most"))
)
_LINES: Final = (
    select(AuditLine)
    .where(col(AuditLine.seq) > bindparam("after"))
    .order_by(col(AuditLine.seq))
    .limit(bindparam("most"))
)


@dataclass
class Act:
    """One act, while it is done.

    Attributes
    ----------
    actor : str
        Who: a user, a token, or whoever runs a command.
    surface : str
        How: ``command``, ``api`` or ``console``.
    operation : str
        What, ``NOUN.VERB``.
    clock : callable
    target : str
        To what, without a value: records and people by their pseudonyms.
    reason : str
        Why, as it was given.
    lines : int
        Lines that were committed of it.
    """

    actor: str
    surface: str
    operation: str
    clock: Callable[[], int] = field(repr=False)
    target: str = ""
    reason: str = ""
    lines: int = 0

    def write(self, tx: Tx, outcome: str = DONE) -> None:
        """Append the act's line to the chain, in a transaction that ends now."""
        seq, prev = _head(hold_setting(tx, _HEAD, _FIRST))
        members: dict[str, Any] = {
            "seq": seq + 1,
            "at": self.clock(),
            "actor": self.actor,
            "surface": self.surface,
            "operation": self.operation,
            "target": self.target,
            "reason": self.reason,
            "outcome": outcome,
        }
        own = line_hash(prev, _line(members, prev))
        row = (*members.values(), bytearray.fromhex(own))
        tx.insert_many("audit_line", _COLUMNS, [row])
        set_setting(tx, _HEAD, f"{seq + 1} {own}".encode())
        if outcome == DONE and not self.lines and self.operation in OF_ACTS:
            notices.add(tx, members["at"], OF_ACTS[self.operation], {"act": seq + 1})

    def end(self, store: Store, outcome: str = DONE) -> None:
        """Leave a line where none was, or one that says how the act failed."""
        if outcome != DONE or not self.lines:
            with store.acting(None).write() as tx:
                self.write(tx, outcome)
            self.lines += 1


@dataclass
class Denials:
    """Denied acts: of each actor and operation one line a minute, with a count.

    Whoever repeats what is denied fills neither the chain nor waits for its lock.
    """

    _counted: dict[tuple[str, str], tuple[int, int, Act]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def note(self, store: Store, act: Act, now: int, *, by: str = "") -> None:
        """Leave a line of a denied act, or count it.

        Parameters
        ----------
        store : Store
        act : Act
        now : int
        by : str
            Whose acts are counted together, where that is not the actor.
        """
        self.settle(store, now)
        if self._begins(by or act.actor, act, now):
            act.end(store, DENIED)

    def settle(self, store: Store, now: int) -> None:
        """Leave lines of what was counted until a minute ago."""
        for act in self._due(now):
            act.end(store, DENIED)

    def is_due(self, now: int) -> bool:
        """Whether anything was counted until a minute ago."""
        with self._lock:
            return any(now - since >= MINUTE for since, _, _ in self._counted.values())

    def _begins(self, by: str, act: Act, now: int) -> bool:
        """Whether a line is written of a denial now; others are counted."""
        key = by, act.operation
        with self._lock:
            since, more, first = self._counted.get(key, (now, -1, act))
            self._counted[key] = since, more + 1, first
        return more < 0

    def _due(self, now: int) -> list[Act]:
        """Return acts of what was counted until a minute ago: each is a line."""
        with self._lock:
            counted = self._counted.items()
            past = [key for key, one in counted if now - one[0] >= MINUTE]
            ended = [self._counted.pop(key) for key in past]
        return [
            replace(act, lines=0, reason=f"{more:,} more within a minute")
            for _, more, act in ended
            if more
        ]


def head(tx: Tx) -> tuple[int, str]:
    """Number and hash of the last line; (0, zeros) before the first."""
    return _head(setting(tx, _HEAD) or _FIRST)


def _head(value: bytes) -> tuple[int, str]:
    seq, _, own = value.decode("ascii").partition(" ")
    return int(seq), own


def members_of(line: AuditLine, prev: str) -> dict[str, Any]:
    """Members of a line as they are hashed and handed out, but for ``hash``."""
    found = {name: getattr(line, name) for name in _COLUMNS if name != "hash"}
    return _line(found, prev)


def _line(members: dict[str, Any], prev: str) -> dict[str, Any]:
    """Put a line into the form of evidence, which knows no empty text."""
    filled = {name: value for name, value in members.items() if value != ""}
    return {**filled, "chain": CHAIN, "prev": prev}


def newest(
    tx: Tx,
    *,
    actor: str | None = None,
    operation: str | None = None,
    since: int = 0,
    until: int = 2**63 - 1,
    before: int = 2**63 - 1,
    limit: int = 100,
) -> list[AuditLine]:
    """Lines of the chain, the newest first.

    Parameters
    ----------
    tx : Tx
    actor, operation : str, optional
        Only theirs; ``operation`` may be a noun alone.
    since, until : int
        Moments: from the first on, before the second.
    before : int
        Below this number.
    limit : int
    """
    given = {
        "by": actor,
        "of": operation,
        "beginning": None if operation is None else f"{operation}.",
        "since": since,
        "until": until,
        "before": before,
        "most": limit,
    }
    return tx.models(_NEWEST, given)


PIECE: Final = 10_000


def lines_after(tx: Tx, seq: int = 0) -> Iterator[AuditLine]:
    """Lines of the chain from the first on, piece by piece."""
    while found := tx.models(_LINES, {"after": seq, "most": PIECE}):
        yield from found
        seq = found[-1].seq


def check_chain(tx: Tx, *, last: int | None = None) -> int:
    """Check that every line follows from the one before; return how many there are.

    Parameters
    ----------
    tx : Tx
    last : int, optional
        Only so many at the end.

    Raises
    ------
    LedgerBroken
        A line was edited, or lines are missing.
    """
    end, own = head(tx)
    seq = 0 if last is None else max(0, end - last)
    prev = NO_HASH
    if seq:
        first = tx.models(_LINES, {"after": seq - 1, "most": 1})
        prev = first[0].hash.hex() if first else ""
    for line in lines_after(tx, seq):
        seq += 1
        prev = line_hash(prev, members_of(line, prev))
        if line.seq != seq or line.hash.hex() != prev:
            raise _broken(seq)
    if (seq, prev) != (end, own):
        raise _broken(seq + 1)
    return end


def _broken(seq: int) -> LedgerBroken:
    return LedgerBroken(
        f"the audit log is broken at line {seq}",
        why="A line was edited, or lines are missing: somebody changed the store past "
        "the program.",
        fix="Keep the store as it is, and compare its audit log with evidence exported "
        "earlier.",
        facts={"line": seq},
    )
