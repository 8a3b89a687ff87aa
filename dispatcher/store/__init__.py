"""The only SQL of the project: two databases, one text for each statement.

A stage's statements live in one file here, named as the stage. It is plain functions
that take a transaction first and give back plain values; the stage opens the
transaction, so that one stage does one visible transaction::

    # dispatcher/store/sending.py
    def claim(tx: Tx, epoch: int, now: int, until: int, limit: int) -> list[int]:
        \"\"\"Lease due messages to this daemon; return their ids.\"\"\"
        rows = tx.rows(
            "UPDATE outbox SET state = 'leased', epoch = ?, leased_until = ?"
            " WHERE id IN (SELECT id FROM outbox WHERE state = 'ready' AND due <= ?"
            " ORDER BY due, id LIMIT ? FOR UPDATE SKIP LOCKED) RETURNING id",
            [epoch, until, now, limit],
        )
        return [row[0] for row in rows]

    # dispatcher/stages/sending
    with store.write() as tx:
        lease.check_epoch(tx, SHARD, epoch)
        ids = sending.claim(tx, epoch, clock(), clock() + LEASE, 100)

Rules of the text (see :mod:`dispatcher.store.sql`): ``?`` marks each parameter;
``= ANY(?)`` and ``<> ALL(?)`` take lists; ``FOR UPDATE`` falls away on SQLite. Many
rows go through ``tx.insert_many`` and its sisters, ids come from ``tx.reserve``,
results of any size from ``tx.stream``, and numbers by the thousand as columns: written
by ``tx.insert_blocks``, read by ``tx.numbers``. Values are never put into the text of a
statement.
"""

from dispatcher.store.engine import Clock, Entropy, Store, open_store
from dispatcher.store.faults import Clash
from dispatcher.store.transaction import Row, Tx

__all__ = ["Clash", "Clock", "Entropy", "Row", "Store", "Tx", "open_store"]
