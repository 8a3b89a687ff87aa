"""What changes of membership ask: names of units, what was accepted, open tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, exists, func, or_, update
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    LIVE_TASK_STATES,
    SYSTEM_CHAIN,
    Account,
    Chain,
    Entry,
    LedgerLine,
    Link,
    Outbox,
    Record,
    Subject,
    Task,
)
from dispatcher.store.relations import ends
from dispatcher.store.statements import fixed, in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

_NAMES: Final = (
    (select(Record.id, Record.pseudonym).where(in_list(Record.id, "ids")), 0),
    (select(Subject.id, Subject.pseudonym).where(in_list(Subject.id, "ids")), 1),
)
_OTHER: Final = aliased(Subject)
_LINKS: Final = (
    select_columns(Link.id, Subject.id, _OTHER.id)
    .select_from(Link)
    .outerjoin(Subject, col(Subject.pseudonym) == Link.one)
    .outerjoin(_OTHER, col(_OTHER.pseudonym) == Link.other)
    .where(in_list(Link.id, "links"))
)
_OF_ADVERSARY: Final = or_(
    col(Chain.id) == bindparam("adversary"),
    col(Chain.survivor_id) == bindparam("adversary"),
)
_CHAINS: Final = select(Chain.name).where(_OF_ADVERSARY)
_BODIES: Final = (
    select_columns(LedgerLine.body)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(
        _OF_ADVERSARY,
        in_words(LedgerLine.kind, "member", "join"),
        LedgerLine.policy_version == bindparam("version"),
    )
)
_POLICY: Final = (
    select_columns(LedgerLine.body)
    .where(LedgerLine.chain_id == SYSTEM_CHAIN, LedgerLine.kind == "policy")
    .order_by(col(LedgerLine.seq).desc())
    .limit(1)
)
_HELD: Final = (
    select(func.count(col(LedgerLine.entry_id).distinct()))
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(LedgerLine.kind == "exposure", _OF_ADVERSARY)
)
_IS_LIVE: Final = in_words(Task.state, *LIVE_TASK_STATES)
_OPEN: Final = (
    select_columns(
        Task.id,
        Task.entry_id,
        Entry.record_id,
        Entry.subject_id,
        Entry.field_id,
        Task.account_id,
        Account.adversary_id,
        Task.connector,
        Task.state,
        Task.outbox_id,
        Outbox.state,
        Outbox.attempts,
    )
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Account, col(Account.id) == Task.account_id)
    .outerjoin(Outbox, col(Outbox.id) == Task.outbox_id)
    .where(_IS_LIVE)
    .order_by(col(Task.id))
)
_OPEN_OF: Final = _OPEN.where(in_list(Account.adversary_id, "adversaries"))
_RECEIVERS: Final = (
    select(Account.adversary_id)
    .distinct()
    .join(Outbox, col(Outbox.account_id) == Account.id)
    .where(in_list(Outbox.id, "messages"))
    .order_by(col(Account.adversary_id))
)
_TASKS: Final = select(Task.id).where(in_list(Task.outbox_id, "messages"), _IS_LIVE)
_TAKE_BACK: Final = (
    update(Task)
    .where(in_list(Task.id, "tasks"), _IS_LIVE)
    .values(state="returned", leased_until=None, draft=None)
)
_CANCEL: Final = (
    update(Outbox)
    .where(
        in_list(Outbox.id, "messages"),
        col(Outbox.state) == fixed("ready"),
        col(Outbox.attempts) == 0,
        ~exists().where(col(Task.outbox_id) == Outbox.id, _IS_LIVE),
    )
    .values(state="cancelled")
)
_WITHDRAWN: Final = select_columns(Outbox.handle).where(Outbox.kind == "withdraw")
_PUBLISHED: Final = (
    select(Outbox.id, Outbox.connector, Outbox.account_id)
    .where(in_list(Outbox.id, "messages"), Outbox.kind == "publish")
    .order_by(col(Outbox.id))
)


def unit_names(tx: Tx, units: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Pseudonyms of what units are: a record, a subject, or the two ends of a link."""
    wanted = sorted(set(units))
    named: dict[int, tuple[str, ...]] = {}
    for asked, odd in _NAMES:
        ids = [unit >> 1 for unit in wanted if unit >= 0 and unit & 1 == odd]
        found = tx.execute(asked, {"ids": ids})
        named |= {2 * number + odd: (name,) for number, name in found}
    pairs = ends(tx, [-unit for unit in wanted if unit < 0])
    return named | {-number: pair for number, pair in pairs.items()}


def links(tx: Tx, units: Sequence[int]) -> list[tuple[int, int | None, int | None]]:
    """Return unit id and the two subjects of links, None for one that is not loaded."""
    found = tx.execute(_LINKS, {"links": [-unit for unit in units]})
    return [(-number, one, other) for number, one, other in found]


def accepting_lines(
    tx: Tx, adversary_id: int, version: int
) -> tuple[frozenset[str], list[str], str | None]:
    """Lines that may accept something for an adversary, under a version.

    Returns
    -------
    names : frozenset of str
        Its chain, and those that ended in it.
    bodies : list of str
        Of their member and join lines since the version is in force.
    policy : str or None
        Body of the version's own line.
    """
    names = tx.scalars(_CHAINS, {"adversary": adversary_id})
    bodies = tx.scalars(_BODIES, {"adversary": adversary_id, "version": version})
    return frozenset(names), bodies, tx.execute(_POLICY).scalar()


def held_entries(tx: Tx, adversary_ids: Sequence[int]) -> int:
    """How many distinct entries some adversaries hold (grows with their ledger)."""
    return sum(tx.scalar(_HELD, {"adversary": one}) or 0 for one in adversary_ids)


class OpenTask(NamedTuple):
    """A task that may still bring an answer, and where it is."""

    id: int
    entry_id: int
    record_id: int
    subject_id: int | None
    field_id: int
    account_id: int
    adversary_id: int
    connector: str
    state: str
    outbox_id: int | None
    message_state: str | None
    attempts: int | None


def open_tasks(tx: Tx, adversary_ids: Sequence[int] | None = None) -> list[OpenTask]:
    """Tasks under way, by id: of some adversaries, or (None) of all."""
    if adversary_ids is None:
        return [OpenTask(*row) for row in tx.execute(_OPEN)]
    found = tx.execute(_OPEN_OF, {"adversaries": list(adversary_ids)})
    return [OpenTask(*row) for row in found]


def adversaries_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Whom some messages are for."""
    return tx.scalars(_RECEIVERS, {"messages": outbox_ids})


def tasks_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Tasks under way that left with some messages."""
    return tx.scalars(_TASKS, {"messages": outbox_ids})


def take_back(tx: Tx, task_ids: Sequence[int]) -> int:
    """End tasks under way; a late answer still counts. Returns how many."""
    return tx.execute(_TAKE_BACK, {"tasks": task_ids}).rowcount


def cancel_empty(tx: Tx, outbox_ids: Sequence[int]) -> int:
    """Cancel messages that were never tried and carry no task any more."""
    return tx.execute(_CANCEL, {"messages": outbox_ids}).rowcount


def withdraw(tx: Tx, outbox_ids: Sequence[int], at: int) -> int:
    """Write a message that withdraws each of these; once for each. Returns how many."""
    known = set(tx.scalars(_WITHDRAWN))
    found = [
        row
        for row in tx.execute(_PUBLISHED, {"messages": outbox_ids}).all()
        if str(row[0]) not in known
    ]
    if not found:
        return 0
    first = tx.reserve("outbox", len(found))
    tx.insert_many(
        "outbox",
        ("id", "connector", "account_id", "kind", "state", "due", "attempts",
         "epoch", "handle", "created_at"),
        [
            (first + i, connector, account, "withdraw", "ready", at, 0, 0, str(number),
             at)
            for i, (number, connector, account) in enumerate(found)
        ],
    )  # fmt: skip
    return len(found)
