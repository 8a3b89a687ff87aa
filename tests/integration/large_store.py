"""A store as large as one wishes: written in bulk, as years of work would leave it.

Each worker has seen as many fields as the others, nobody is at a limit, and the ledger's
hashes are no hashes: pages read it, and nothing verifies it.
"""

from __future__ import annotations

import numpy as np

from dispatcher.core import keys
from dispatcher.ledger.identity_changes import add_accounts
from dispatcher.ledger.versions import apply_policy
from dispatcher.store import Store
from dispatcher.store.records import run
from tests import sql

FIELDS = 4
POLICY = b"""
version = 1
name = "large"
[budget]
t = 12
[entity.thing]
key = "id"
subject = "person"
[entity.thing.fields]
a = { ask = "transcribe", answers = 3 }
b = { ask = "transcribe", answers = 3 }
c = { ask = "transcribe", answers = 3 }
d = { ask = "transcribe", answers = 3 }
[property.a-b]
of = ["a", "b"]
[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""
PART = 100_000
"""Rows of a table in one transaction, about."""
EVERY = 997
"""Of so many fields one is in conflict, and one is open."""


def fill(
    store: Store, entries: int, exposures: int, workers: int = 1_000, at: int = 10**15
) -> None:
    """Write records of four fields, each field shown to as many workers, with answers.

    Parameters
    ----------
    store : Store
        An empty one.
    entries, exposures, workers : int
        Multiples: of four, of the entries, and of four.
    at : int
        Moment of the last exposure; the others are a second apart.
    """
    records, copies = entries // FIELDS, exposures // entries
    with store.write() as tx:
        apply_policy(tx, POLICY, at=1)
        made = add_accounts(tx, [("inhouse", f"w{i}") for i in range(workers)], at=2)
        first, chain = made.accounts[0].id, made.accounts[0].adversary_id
        assert run(tx, "default", 0).id == 1
    secret = store.key("pseudonym-key")
    for low in range(0, records, PART // FIELDS):
        numbers = range(low, min(records, low + PART // FIELDS))
        names = keys.pseudonyms(secret, "r", (str(i) for i in numbers))
        people = keys.pseudonyms(secret, "s", (str(i) for i in numbers))
        with store.write() as tx:
            tx.insert_many(
                "subject",
                ("id", "pseudonym", "value"),
                ((i + 1, name, b"p") for i, name in zip(numbers, people, strict=True)),
            )
            tx.insert_many(
                "record",
                (
                    "id",
                    "run_id",
                    "load_id",
                    "pseudonym",
                    "key",
                    "columns",
                    "subject_id",
                ),
                (
                    (i + 1, 1, 1, name, b"k", b"[]", i + 1)
                    for i, name in zip(numbers, names, strict=True)
                ),
            )
            tx.insert_many(
                "entry",
                ("id", "record_id", "field_id", "subject_id", "shown", "media"),
                (
                    (i * FIELDS + f + 1, i + 1, f + 1, i + 1, b"value", "text/plain")
                    for i in numbers
                    for f in range(FIELDS)
                ),
            )
            tx.insert_many(
                "result",
                ("entry_id", "confidence", "wanted", "state", "at"),
                (
                    (n + 1, 0.9, 3, "answered" if n % EVERY else "conflict", at)
                    for n in range(low * FIELDS, (numbers[-1] + 1) * FIELDS)
                    if n % EVERY != 1
                ),
            )
    numbers, whose = _showings(entries, copies, workers)
    each, ends = len(numbers) // workers, at - exposures * 1_000_000
    for low in range(0, workers, max(1, PART // each)):
        part = range(low, min(workers, low + max(1, PART // each)))
        begin, end = part[0] * each, (part[-1] + 1) * each
        rows = list(
            zip(
                range(begin, end),
                numbers[begin:end].tolist(),
                whose[begin:end].tolist(),
                strict=True,
            )
        )
        with store.write() as tx:
            tx.insert_many(
                "ledger_line",
                (
                    *("chain_id", "seq", "kind", "at", "policy_version", "account_id"),
                    *("entry_id", "cause", "showing", "hash"),
                ),
                (
                    (chain + w, n % each + 2, "exposure", ends + n * 1_000_000, 1,
                     first + w, entry + 1, "plan", 1, bytearray(32))
                    for n, entry, w in rows
                ),
            )  # fmt: skip
            tx.insert_many(
                "exposure_count",
                ("adversary_id", "unit_id", "field_id", "time", "entries"),
                sorted(
                    (chain + w, 2 * (entry // FIELDS + 1) + (entry % FIELDS > 1),
                     entry % FIELDS + 1, 0, 1)
                    for _, entry, w in rows
                ),
            )  # fmt: skip
            tx.insert_many(
                "task",
                (
                    *("id", "entry_id", "account_id", "adversary_id", "connector"),
                    *("outbox_id", "state", "created_at"),
                ),
                (
                    (n + 1, entry + 1, first + w, chain + w, "inhouse",
                     n + 1 if n < entries else None,
                     "answered" if n % 3 == 0 else "expired", ends + n * 1_000_000)
                    for n, entry, w in rows
                ),
            )  # fmt: skip
            tx.insert_many(
                "answer",
                ("task_id", "entry_id", "account_id", "raw", "valid", "at", "counted"),
                (
                    (n + 1, entry + 1, first + w, b"x", 1, ends + n * 1_000_000, 1)
                    for n, entry, w in rows
                    if n % 3 == 0
                ),
            )
            tx.update_many(
                "chain",
                ("id",),
                ("seq", "at"),
                ((chain + w, each + 1, at) for w in part),
            )
    with store.write() as tx:
        tx.insert_many(
            "outbox",
            (
                *("id", "connector", "account_id", "kind", "state", "due"),
                *("attempts", "epoch", "created_at"),
            ),
            (
                (n + 1, "mturk", first, "publish",
                 "sent" if n % EVERY else "dead", at, 1, 0, at)
                for n in range(entries)
            ),
        )  # fmt: skip
        names = ("task", "outbox", "record", "subject", "entry")
        blocks = ((name, 2 * exposures) for name in names)
        tx.upsert_many("id_block", ("name",), ("name", "next_id"), blocks)
        if tx.dialect == "postgresql":  # whose daemon does it by itself
            sql.execute(tx, "ANALYZE")


def _showings(entries: int, copies: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries and workers of all showings, in order of the workers."""
    entry = np.repeat(np.arange(entries), copies)
    copy = np.tile(np.arange(copies), entries)
    record, field = entry // FIELDS, entry % FIELDS
    # the fields of a record go to workers who are far from each other
    whose = (record * copies + field * (workers // FIELDS) + copy) % workers
    order = np.lexsort((entry, whose))
    assert (np.bincount(whose, minlength=workers) == len(entry) // workers).all()
    return entry[order], whose[order]
