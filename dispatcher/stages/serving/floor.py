"""The floor: a worker with too low accuracy gets nothing new until an operator looks.

Two measures, each by its own evidence: gold, by the mean of a Beta posterior, and
agreement with others, as consensus estimates it. What a worker has in hand on our page
stays; what was offered is withdrawn.
"""

from __future__ import annotations

from dispatcher.stages.serving.values import ServingTerms
from dispatcher.store import Clock, Store, Tx, accounts, events, lease, worker_quality
from policies.answers.skill import gold_accuracy


def stop_by_gold(tx: Tx, account_id: int, terms: ServingTerms, now: int) -> bool:
    """Stop an account whose answers to gold are below the floor.

    Returns
    -------
    bool
        Whether it was stopped by this call.
    """
    found = worker_quality.gold(tx, account_id)
    accuracy = gold_accuracy(found.right, found.asked)
    if found.asked < terms.floor_after or accuracy >= terms.floor:
        return False
    return _stop(tx, account_id, "gold", accuracy, now)


def stop_by_agreement(
    store: Store, clock: Clock, terms: ServingTerms, epoch: int | None = None
) -> int:
    """Stop accounts whose agreement with others is below the floor. A tick.

    Returns
    -------
    int
        How many were stopped.

    Raises
    ------
    StaleLease
        ``epoch`` is given and another daemon leads.
    """
    with store.read() as tx:
        found = worker_quality.doubted(tx, terms.floor, terms.floor_after)
    if not found:
        return 0
    with store.write() as tx:
        if epoch is not None:
            lease.check_epoch(tx, lease.SHARD, epoch)
        return sum(
            _stop(tx, account_id, "agreement", accuracy, clock())
            for account_id, accuracy in found
        )


def _stop(tx: Tx, account_id: int, by: str, accuracy: float, now: int) -> bool:
    if not accounts.set_state(tx, account_id, "active", "stopped"):
        return False
    withdrawn = accounts.end_work(tx, [account_id], now, in_hand=False)
    detail: dict[str, int | str] = {
        "account": account_id,
        "by": by,
        "percent": round(100 * accuracy),
        **withdrawn._asdict(),
    }
    events.add_event(tx, now, "floor", "account.stopped", detail)
    return True
