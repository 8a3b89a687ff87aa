"""What a booking locks, in one order everywhere: barrier, chains by id, entries by id.

What a decision rests on is read after the locks, so that it holds until the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.core.errors import StoreLocked
from dispatcher.ledger import barrier, chains, refusals
from dispatcher.ledger.decision import missing
from dispatcher.ledger.standing import InForce
from dispatcher.store import decisions, lease
from dispatcher.store import ledger as rows
from dispatcher.store.decisions import AskRow, Known
from dispatcher.store.ledger import AccountRow, ChainRow
from dispatcher.store.transaction import Tx

ATTEMPTS: Final = 5
"""Times that accounts may change hands while their adversaries are being locked."""


class Locked(NamedTuple):
    """One ask with all that its decision rests on, locked."""

    force: InForce
    head: ChainRow
    ask: AskRow
    known: Known


def lock_ask(tx: Tx, entry_id: int, account_id: int, epoch: int | None) -> Locked:
    """Lock what one ask rests on, and read it, in two journeys to the server.

    The first only looks, to know what is to be locked; the second locks, in order, and
    reads what was looked at once more. Both are made again if it changed meanwhile.

    Raises
    ------
    NotFound, Conflict, StaleLease, StoreLocked
        As of :func:`dispatcher.ledger.book.book`.
    """
    for _ in range(ATTEMPTS):
        before = decisions.look(tx, entry_id, account_id)
        if before is None:
            barrier.hold(tx)  # that there is no policy is told first
            raise missing(tx, entry_id, account_id)
        seen = barrier.in_force(tx, before.version, before.sha256)
        adversary, record, subject = before[2:]
        fence = [] if epoch is None else [(lease.EPOCH, {"of_shard": lease.SHARD})]
        *epochs, locks, asks, known = tx.driver_answers(
            [
                *fence,
                decisions.lock_question(entry_id, adversary, alone=seen.averages),
                decisions.ask_question(entry_id, account_id),
                decisions.known_question(entry_id, adversary, record, subject),
            ]
        )
        if epoch is not None:
            lease.compare_epoch(epochs[0], lease.SHARD, epoch)
        if not locks or not asks:
            continue  # it was deleted meanwhile
        version, sha256, *head = locks[0]
        force = barrier.held(tx, seen, version, sha256)
        ask = decisions.ask(asks[0])
        entry = ask.entry
        now = (ask.account.adversary_id, entry.record_id, entry.subject_id)
        if now == before[2:]:
            return Locked(force, ChainRow._make(head), ask, decisions.known(known))
    raise _restless()


def lock_adversaries(
    tx: Tx, account_ids: Sequence[int]
) -> tuple[dict[int, AccountRow], dict[int, ChainRow]]:
    """Lock the adversaries of some accounts; what is read afterwards holds.

    Raises
    ------
    NotFound, StoreLocked
    """
    wanted = sorted(set(account_ids))
    for _ in range(ATTEMPTS):
        before = _accounts(tx, wanted)
        heads = chains.lock(tx, {row.adversary_id for row in before.values()})
        accounts = _accounts(tx, wanted)
        if all(row.adversary_id in heads for row in accounts.values()):
            return accounts, heads
    raise _restless()


def _accounts(tx: Tx, ids: list[int]) -> dict[int, AccountRow]:
    found = rows.accounts(tx, ids)
    for number in ids:
        if number not in found:
            raise refusals.unknown("account", number)
    return found


def _restless() -> StoreLocked:
    return StoreLocked(
        "the accounts keep changing hands",
        why="Accounts are being joined at this moment.",
        fix="Try again; nothing was booked.",
    )
