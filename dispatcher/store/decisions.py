"""Queries of one decision or a batch: look-ups and locks, by primary key or index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, null, or_, union_all
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Chain,
    Entry,
    ExposureCount,
    LedgerLine,
    Pause,
    PolicyLock,
    Record,
    Recusal,
    Run,
    record_unit,
    subject_unit,
)
from dispatcher.store.column_blocks import Ints
from dispatcher.store.ledger import (
    ACCOUNT,
    CHAIN,
    ENTRY,
    ENTRY_NUMBERS,
    GateAccount,
    GateEntry,
    parts,
)
from dispatcher.store.policies import IN_FORCE
from dispatcher.store.statements import (
    Columns,
    DriverStatement,
    fixed,
    in_list,
    select_columns,
)
from dispatcher.store.transaction import Question, Row, Tx


class AskRow(NamedTuple):
    """One account and one entry, and whether there is more to look up."""

    account: GateAccount
    entry: GateEntry
    stopped: bool  # something is paused
    recused: bool  # the adversary recused itself from someone
    joined: bool  # other chains ended in the adversary's


_asked: Final = (Account.id == bindparam("account"), Entry.id == bindparam("entry"))
_ASK: Final = DriverStatement(
    select_columns(
        *ACCOUNT,
        *ENTRY,
        or_(
            select(Pause.scope).exists(),
            select(Run.id).where(col(Run.state) != fixed("active")).exists(),
        ),
        select(Recusal.unit_id)
        .where(Recusal.adversary_id == Account.adversary_id)
        .exists(),
        select(Chain.id).where(Chain.survivor_id == Account.adversary_id).exists(),
    ).where(*_asked, Record.id == Entry.record_id)
)


def ask_question(entry_id: int, account_id: int) -> Question:
    """Ask for one account and one entry: one row, if both are there."""
    return _ASK, {"account": account_id, "entry": entry_id}


def ask(row: Row) -> AskRow:
    """Read the row that :func:`ask_question` asks for."""
    account_row, entry_row = GateAccount._make(row[:5]), GateEntry._make(row[5:15])
    return AskRow(account_row, entry_row, *row[15:])


_ACCOUNT: Final = select(Account.id).where(Account.id == bindparam("account"))


def account_exists(tx: Tx, account_id: int) -> bool:
    """Whether there is such an account."""
    return tx.scalar(_ACCOUNT, {"account": account_id}) is not None


def _held_of(unit: str) -> Columns:
    return select_columns(
        ExposureCount.unit_id,
        ExposureCount.field_id,
        ExposureCount.time,
        ExposureCount.entries,
    ).where(
        ExposureCount.adversary_id == bindparam("adversary"),
        ExposureCount.unit_id == bindparam(unit),
    )


_KNOWN: Final = DriverStatement(
    union_all(
        select_columns(LedgerLine.chain_id, LedgerLine.showing, null(), null()).where(
            LedgerLine.entry_id == bindparam("entry")
        ),
        _held_of("record"),
        # Once more, for SQLite would build a tree for the two members of an IN.
        _held_of("subject"),
    )
)


class Known(NamedTuple):
    """Inputs of one decision.

    Attributes
    ----------
    shown : list of (int, int or None)
        Lines about the entry: (chain, showing), None for an ``unburn``. At most t
        showings, and what came again.
    held : list of (int, int, int, int)
        What the adversary holds of the two units: (unit, field, time, entries).
    """

    shown: list[tuple[int, int | None]]
    held: list[tuple[int, int, int, int]]


def known_question(
    entry_id: int, adversary_id: int, record_id: int, subject_id: int | None
) -> Question:
    """Ask for the lines about an entry, and what an adversary holds of its units.

    One statement, from the indexes alone.
    """
    return _KNOWN, {
        "entry": entry_id,
        "adversary": adversary_id,
        "record": record_unit(record_id),
        "subject": -1 if subject_id is None else subject_unit(subject_id),
    }


def known(rows: Iterable[Row]) -> Known:
    """Read the rows that :func:`known_question` asks for."""
    shown: list[tuple[int, int | None]] = []
    held: list[tuple[int, int, int, int]] = []
    for row in rows:
        if row[3] is None:
            shown.append(row[:2])
        else:
            held.append(row)
    return Known(shown, held)


_LOOK: Final = DriverStatement(
    select_columns(
        *IN_FORCE, Account.adversary_id, Entry.record_id, Entry.subject_id
    ).where(PolicyLock.id == 1, *_asked)
)
_lock: Final = select_columns(*IN_FORCE, *CHAIN).where(
    PolicyLock.id == 1, Chain.id == bindparam("chain"), Entry.id == bindparam("entry")
)
_LOCK: Final = {
    alone: DriverStatement(
        _lock.suffix_with(
            f"FOR {how} OF policy_lock"
            " FOR NO KEY UPDATE OF chain FOR NO KEY UPDATE OF entry",
            dialect="postgresql",
        )
    )
    for alone, how in ((False, "SHARE"), (True, "UPDATE"))
}


class LookRow(NamedTuple):
    """What there is to lock for one ask, and which version was in force."""

    version: int
    sha256: str
    adversary_id: int
    record_id: int
    subject_id: int | None


def look(tx: Tx, entry_id: int, account_id: int) -> LookRow | None:
    """Find what one ask has to lock; None unless account and entry exist."""
    row = tx.driver_one(_LOOK, {"account": account_id, "entry": entry_id})
    return LookRow._make(row) if row else None


def lock_question(entry_id: int, adversary_id: int, *, alone: bool) -> Question:
    """Lock the policy, a chain and an entry, in this order.

    The row has the version in force and its hash, which is None if the version came
    while the lock was waited for, and then the chain's head.

    Parameters
    ----------
    entry_id, adversary_id : int
    alone : bool
        Take the policy lock exclusively instead of sharing it with other bookings.
    """
    return _LOCK[alone], {"chain": adversary_id, "entry": entry_id}


# -- what a batch of asks looks up, as columns of numbers ------------------------------
# No row stays a tuple for long: tens of thousands of live tuples would make Python's
# garbage collector traverse all objects again and again.

_LOCK_FACTS: Final = DriverStatement(
    select_columns(*ENTRY_NUMBERS)
    .where(in_list(Entry.id, "ids"))
    .order_by(col(Entry.id))
    .with_for_update(key_share=True)
)
_RECORDS: Final = DriverStatement(
    select_columns(
        Record.id,
        Record.pseudonym,
        Record.run_id,
        col(Record.waits_since).is_not(None),
    )
    .where(in_list(Record.id, "ids"))
    .order_by(col(Record.id))
)
_ANY_LINE: Final = DriverStatement(
    select(LedgerLine.entry_id)
    .where(
        col(LedgerLine.entry_id) >= bindparam("first"),
        col(LedgerLine.entry_id) <= bindparam("last"),
    )
    .limit(1)
)
_LINES: Final = DriverStatement(
    select_columns(
        LedgerLine.entry_id,
        LedgerLine.chain_id,
        func.coalesce(LedgerLine.showing, -1),
    ).where(in_list(LedgerLine.entry_id, "ids"))
)
_SURVIVORS: Final = select_columns(Chain.id, Chain.survivor_id).where(
    col(Chain.survivor_id).is_not(None)
)


def lock_facts(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lock many entries, and read them: (id, record, field, subject or -1, time or 0).

    ``ids`` ascend, and so do the rows: in that order entries are locked everywhere, so
    that their showings are counted one by one.
    """
    return tx.driver_numbers(5, [(_LOCK_FACTS, {"ids": part}) for part in parts(ids)])


def records(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Many records, in order of the ascending ids: (id, pseudonym, run, waiting)."""
    for part in parts(ids):
        yield from tx.driver_stream(_RECORDS, {"ids": part})


def lines_about(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lines about many entries, in no order: (entry, chain, showing).

    ``ids`` ascend. ``showing`` is -1 for an ``unburn``.
    """
    if not ids:
        return tx.driver_numbers(3, ())
    around = {"first": ids[0], "last": ids[-1]}
    there = tx.driver_one(_ANY_LINE, around) is not None
    asked = [(_LINES, {"ids": part}) for part in parts(ids)] if there else ()
    return tx.driver_numbers(3, asked)


def survivors(tx: Tx) -> dict[int, int]:
    """Ended chains, each with its survivor."""
    return dict(tx.execute(_SURVIVORS).all())
