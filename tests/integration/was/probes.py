"""Made-up questions: what there is of them, who was asked which, and how it went.

Every query of the serving stage is bounded by one account's questions, or by one
field's; nothing here reads a record but :func:`shown_values`, for an operator's check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dispatcher.store.transaction import Row, Tx

TEST: Final = "test"
GOLD: Final = "gold"

ATTEMPTS: Final = 2
"""Tries that a worker has at a field's test; a day lies between them."""

_HANDED: Final = (
    "SELECT t.id, t.probe_id, p.field_id, t.account_id, p.purpose, t.state,"
    " t.created_at, t.leased_until, t.draft, t.attempt FROM probe_task t"
    " JOIN probe p ON p.id = t.probe_id"
)


class ProbeRow(NamedTuple):
    """A made-up question; ``answer`` is the right one, as a worker would give it."""

    id: int
    field_id: int
    purpose: str
    shown: bytes
    media: str
    answer: bytes


class HandedRow(NamedTuple):
    """One showing of a made-up question to an account."""

    id: int
    probe_id: int
    field_id: int
    account_id: int
    purpose: str
    state: str
    created_at: int
    leased_until: int | None
    draft: bytes | None
    attempt: int


class StandingRow(NamedTuple):
    """A field's test, and how one account stands with it (``open`` before it began)."""

    field_id: int
    pass_share: float
    state: str
    attempt: int
    ended_at: int | None


# -- the questions -----------------------------------------------------------------


def add(tx: Tx, probes: Sequence[ProbeRow], at: int) -> None:
    """Write new questions; their ids are of block ``probe``."""
    tx.insert_many(
        "probe", (*ProbeRow._fields, "added_at"), [(*probe, at) for probe in probes]
    )


def retire(tx: Tx, field_id: int, purpose: str, at: int) -> int:
    """Ask a field's questions of one purpose no more; return how many there were."""
    return tx.execute(
        "UPDATE probe SET retired_at = ? WHERE field_id = ? AND purpose = ?"
        " AND retired_at IS NULL",
        [at, field_id, purpose],
    )


def require(tx: Tx, field_id: int, pass_share: float, at: int) -> None:
    """Let a field ask for a passed test; who has not passed one begins anew."""
    excuse(tx, field_id)
    tx.execute(
        "INSERT INTO field_test (field_id, pass_share, set_at) VALUES (?, ?, ?)",
        [field_id, pass_share, at],
    )
    tx.execute(
        "DELETE FROM qualification WHERE field_id = ? AND state <> 'passed'",
        [field_id],
    )


def excuse(tx: Tx, field_id: int) -> bool:
    """Let a field ask for no test any more; False if it asked for none."""
    return tx.execute("DELETE FROM field_test WHERE field_id = ?", [field_id]) == 1


def probe(tx: Tx, probe_id: int) -> ProbeRow | None:
    """Question by id."""
    row = tx.one(
        f"SELECT {', '.join(ProbeRow._fields)} FROM probe WHERE id = ?", [probe_id]
    )
    return None if row is None else _probe(row)


def active(tx: Tx, field_id: int, purpose: str) -> list[int]:
    """Ids of a field's questions of one purpose that are still asked."""
    rows = tx.rows(
        "SELECT id FROM probe WHERE field_id = ? AND purpose = ?"
        " AND retired_at IS NULL ORDER BY id",
        [field_id, purpose],
    )
    return [row[0] for row in rows]


def active_values(tx: Tx, field_id: int, purpose: str) -> frozenset[bytes]:
    """What a field's questions of one purpose show, those that are still asked."""
    rows = tx.rows(
        "SELECT shown FROM probe WHERE field_id = ? AND purpose = ?"
        " AND retired_at IS NULL",
        [field_id, purpose],
    )
    return frozenset(bytes(row[0]) for row in rows)


def field_named(tx: Tx, name: str) -> int | None:
    """Number of a field, over all policies; None if no policy ever had it."""
    found = tx.value("SELECT id FROM field WHERE name = ?", [name])
    return None if found is None else int(found)


def asked_of(tx: Tx, adversary_id: int) -> frozenset[int]:
    """Questions that an adversary was ever asked."""
    rows = tx.rows(
        "SELECT DISTINCT t.probe_id FROM account a"
        " JOIN probe_task t ON t.account_id = a.id WHERE a.adversary_id = ?",
        [adversary_id],
    )
    return frozenset(row[0] for row in rows)


def adversaries(tx: Tx, probe_ids: Sequence[int]) -> dict[int, int]:
    """How many adversaries each of a few questions was asked of; none is left out."""
    return dict(
        tx.rows(
            "SELECT t.probe_id, count(DISTINCT a.adversary_id) FROM probe_task t"
            " JOIN account a ON a.id = t.account_id WHERE t.probe_id = ANY(?)"
            " GROUP BY t.probe_id",
            [probe_ids],
        )
    )


def lock(tx: Tx, probe_id: int) -> None:
    """Lock a question until the end: nobody else is asked it meanwhile."""
    tx.one("SELECT id FROM probe WHERE id = ? FOR UPDATE", [probe_id])


def shown_values(tx: Tx, field_id: int) -> Iterator[bytes]:
    """Shown forms of all entries of a field, as they stream in."""
    found = tx.stream(
        "SELECT id, shown, key_id FROM entry WHERE field_id = ? AND length(shown) > 0",
        [field_id],
    )
    for row in tx.vault.opened(tx, found, [(1, "entry.shown")], 2):
        yield row[1]


# -- who was asked what ------------------------------------------------------------


def handed(tx: Tx, task_id: int) -> HandedRow | None:
    """Showing by id."""
    return _handed(tx.one(_HANDED + " WHERE t.id = ?", [task_id]))


def lock_handed(tx: Tx, task_id: int) -> HandedRow | None:
    """Showing by id, locked until the end of the transaction."""
    return _handed(tx.one(_HANDED + " WHERE t.id = ? FOR UPDATE OF t", [task_id]))


def in_hand(tx: Tx, account_id: int, now: int) -> HandedRow | None:
    """Return the made-up question that an account has in its hands, or None."""
    return _handed(
        tx.one(
            _HANDED + " WHERE t.account_id = ? AND t.state = 'shown'"
            " AND t.leased_until > ? ORDER BY t.id DESC LIMIT 1",
            [account_id, now],
        )
    )


def lapsed(tx: Tx, account_id: int, since: int, now: int) -> HandedRow | None:
    """Return the question whose time ran out last, and not long ago."""
    return _handed(
        tx.one(
            _HANDED + " WHERE t.account_id = ? AND t.state IN ('shown', 'expired')"
            " AND t.leased_until <= ? AND t.created_at > ? ORDER BY t.id DESC LIMIT 1",
            [account_id, now, since],
        )
    )


def gold_since(tx: Tx, account_id: int, since: int) -> int:
    """How much gold an account was asked after a moment."""
    return int(
        tx.value(
            "SELECT count(*) FROM probe_task WHERE account_id = ? AND created_at > ?"
            " AND attempt = 0",
            [account_id, since],
        )
    )


def hand(tx: Tx, task: HandedRow) -> None:
    """Write a new showing."""
    columns = (
        "id", "probe_id", "account_id", "state", "created_at", "leased_until", "attempt",
    )  # fmt: skip
    tx.insert_many(
        "probe_task", columns, [tuple(getattr(task, name) for name in columns)]
    )


def lease(tx: Tx, task_id: int, until: int) -> None:
    """Put a question into its worker's hands until a moment."""
    tx.execute(
        "UPDATE probe_task SET state = 'shown', leased_until = ? WHERE id = ?",
        [until, task_id],
    )


def save_draft(tx: Tx, task_id: int, draft: bytes) -> None:
    """Keep what was typed so far."""
    tx.execute("UPDATE probe_task SET draft = ? WHERE id = ?", [draft, task_id])


def end(tx: Tx, task_id: int, state: str, correct: int | None, at: int) -> None:
    """Take a question out of its worker's hands; the draft goes."""
    tx.execute(
        "UPDATE probe_task SET state = ?, correct = ?, ended_at = ?,"
        " leased_until = NULL, draft = NULL WHERE id = ?",
        [state, correct, at, task_id],
    )


def expire(tx: Tx, now: int) -> None:
    """End the leases that are over; the drafts go."""
    tx.execute(
        "UPDATE probe_task SET state = 'expired', draft = NULL"
        " WHERE state = 'shown' AND leased_until <= ?",
        [now],
    )


def unpaid_lapsed(tx: Tx, since: int) -> list[int]:
    """Showings begun before a moment that came back unanswered, with money kept."""
    rows = tx.rows(
        "SELECT p.about FROM payment p JOIN probe_task t ON t.id = p.about"
        " WHERE p.kind = 'field' AND p.state = 'reserved'"
        " AND t.state IN ('returned', 'expired') AND t.created_at < ?",
        [since],
    )
    return [row[0] for row in rows]


# -- tests -------------------------------------------------------------------------


def tests(tx: Tx, account_id: int) -> list[StandingRow]:
    """All fields that ask for a test, as one account stands with them."""
    rows = tx.rows(
        "SELECT f.field_id, f.pass_share, COALESCE(q.state, 'open'),"
        " COALESCE(q.attempt, 0), q.ended_at FROM field_test f LEFT JOIN qualification q"
        " ON q.field_id = f.field_id AND q.account_id = ? ORDER BY f.field_id",
        [account_id],
    )
    return [StandingRow(*row) for row in rows]


def attempted(
    tx: Tx, account_id: int, field_id: int, attempt: int
) -> dict[int, int | None]:
    """Questions of an attempt that were handed out: 1 right, 0 not, None not ended."""
    return dict(
        tx.rows(
            "SELECT t.probe_id, t.correct FROM probe_task t"
            " JOIN probe p ON p.id = t.probe_id WHERE t.account_id = ?"
            " AND p.field_id = ? AND p.purpose = 'test' AND t.attempt = ?",
            [account_id, field_id, attempt],
        )
    )


def unmarked(tx: Tx, account_id: int, field_id: int, attempt: int) -> HandedRow | None:
    """Return the first question of an attempt that was handed out and never ended."""
    return _handed(
        tx.one(
            _HANDED
            + " WHERE t.account_id = ? AND p.field_id = ? AND p.purpose = 'test'"
            " AND t.attempt = ? AND t.correct IS NULL AND p.retired_at IS NULL"
            " ORDER BY t.id LIMIT 1",
            [account_id, field_id, attempt],
        )
    )


def stand(
    tx: Tx,
    account_id: int,
    field_id: int,
    *,
    state: str,
    attempt: int,
    asked: int = 0,
    correct: int = 0,
    ended_at: int | None = None,
) -> None:
    """Write how an account stands with a field's test."""
    columns = (
        "account_id", "field_id", "state", "attempt", "asked", "correct", "ended_at",
    )  # fmt: skip
    row = (account_id, field_id, state, attempt, asked, correct, ended_at)
    tx.upsert_many("qualification", ["account_id", "field_id"], columns, [row])


def failed_for_good(tx: Tx) -> list[Row]:
    """Accounts that have no try left at a test: (account, field)."""
    return tx.rows(
        "SELECT q.account_id, q.field_id FROM qualification q JOIN field_test f"
        " ON f.field_id = q.field_id WHERE q.state = 'failed' AND q.attempt >= ?"
        " ORDER BY 1, 2",
        [ATTEMPTS],
    )


def _probe(row: Row) -> ProbeRow:
    return ProbeRow(row[0], row[1], row[2], bytes(row[3]), row[4], bytes(row[5]))


def _handed(row: Row | None) -> HandedRow | None:
    if row is None:
        return None
    *rest, draft, attempt = row
    return HandedRow._make((*rest, None if draft is None else bytes(draft), attempt))
