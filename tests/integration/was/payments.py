"""What the paying stage looks for: payments that have to move, and what is to be paid.

Every look is bounded by its limit, and by the payments that are under way; one that was
looked at and has to wait is looked at again later (``due``), so that none holds up
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from dispatcher.store.sql import Value
from dispatcher.store.transaction import Tx
from tests.integration.was.money import COLUMNS, DAY, PaymentRow

PAGE: Final = 2000
ENDED: Final = "ended"
"""Cause of what is held: work that ended at its market, begun and not handed in."""

GIVEN_UP: Final = "given-up"
"""Cause of what is held: its offer was given up, and may be at the market."""

_LAST: Final = 2**63 - 1

_FIELDS: Final = (
    f"SELECT {COLUMNS} FROM payment p JOIN task t ON t.id = p.about"
    " LEFT JOIN answer a ON a.task_id = t.id WHERE p.kind = 'field'"
)
_TAIL: Final = " ORDER BY p.about LIMIT ? FOR UPDATE OF p"


def _found(tx: Tx, text: str, parameters: Sequence[Value]) -> list[PaymentRow]:
    return [PaymentRow(*row) for row in tx.rows(text, parameters)]


def lost_fields(tx: Tx, limit: int) -> list[PaymentRow]:
    """Reserved for fields that came back unanswered, or with no valid answer."""
    return _found(
        tx,
        f"{_FIELDS} AND p.state = 'reserved' AND (t.state IN"
        " ('returned', 'expired', 'dead') OR (t.state = 'answered' AND a.valid = 0))"
        + _TAIL,
        [limit],
    )


def late_fields(
    tx: Tx, now: int, after: int, limit: int, *, page: int = PAGE
) -> tuple[list[PaymentRow], int]:
    """Released for fields that were answered after all, of the next page of them.

    What was released stays so for ever, mostly: all of it is looked at in turn.

    Parameters
    ----------
    tx : Tx
    now : int
    after : int
        Where the page before ended; 0 begins anew.
    limit : int
    page : int
        Released payments that are looked at.

    Returns
    -------
    list of PaymentRow
    int
        Where this page ends; 0 for the last.
    """
    last = tx.value(
        "SELECT about FROM payment WHERE state = 'released' AND kind = 'field'"
        " AND about > ? ORDER BY about LIMIT 1 OFFSET ?",
        [after, page],
    )
    end = _LAST if last is None else int(last)
    found = _found(
        tx,
        f"{_FIELDS} AND p.state = 'released' AND p.about > ? AND p.about <= ?"
        " AND p.due <= ? AND t.state = 'answered' AND a.valid = 1" + _TAIL,
        [after, end, now, limit],
    )
    if len(found) == limit:
        end = found[-1].about
    return found, 0 if end == _LAST else end


def earned_fields(tx: Tx, now: int, before: int, limit: int) -> list[PaymentRow]:
    """Fields outside of pieces that are settled, or were answered before a moment.

    A field is settled when enough answers came, whether they agree or not. One whose
    person was erased has no answer any more: its work was done.
    """
    return _found(
        tx,
        f"SELECT {COLUMNS} FROM payment p JOIN task t ON t.id = p.about"
        " LEFT JOIN answer a ON a.task_id = t.id"
        " LEFT JOIN result r ON r.entry_id = t.entry_id"
        " WHERE p.kind = 'field' AND p.state = 'reserved' AND p.piece IS NULL"
        " AND p.due <= ? AND t.state = 'answered'"
        " AND (a.valid IS NULL OR (a.valid = 1 AND (r.state <> 'open' OR a.at <= ?)))"
        + _TAIL,
        [now, before, limit],
    )


def stranded_fields(tx: Tx, limit: int) -> list[PaymentRow]:
    """Answered fields of pieces of work that were settled without them."""
    return _found(
        tx,
        f"SELECT {COLUMNS} FROM payment p JOIN task t ON t.id = p.about"
        " JOIN payment w ON w.kind = 'reward' AND w.about = p.piece"
        " WHERE p.kind = 'field' AND p.state = 'reserved' AND t.state = 'answered'"
        " AND w.state NOT IN ('reserved', 'held')" + _TAIL,
        [limit],
    )


def ended_pieces(tx: Tx, now: int, limit: int) -> list[PaymentRow]:
    """Rewards of pieces of work that have ended at the market and are not settled.

    One that is held because its work ended there waits for a person, or for the work to
    be handed in after all.
    """
    begun = "p.state = 'held' AND coalesce(p.cause, '') = ?"
    return _found(
        tx,
        f"SELECT {COLUMNS} FROM payment p WHERE p.kind = 'reward' AND p.due <= ?"
        " AND p.state IN ('reserved', 'released', 'held', 'unknown')"  # by the index
        " AND (p.state IN ('reserved', 'held', 'unknown')"
        " AND p.progress IN ('approved', 'rejected')"
        " OR p.state IN ('reserved', 'held', 'unknown') AND p.progress = 'gone'"
        f" AND NOT ({begun})"
        f" OR (p.state = 'reserved' OR {begun}) AND p.progress = 'submitted'"
        " OR p.state = 'released' AND p.progress IN ('submitted', 'approved'))"
        " ORDER BY p.due, p.about LIMIT ? FOR UPDATE",
        [now, ENDED, ENDED, limit],
    )


def unsent_pieces(tx: Tx, limit: int) -> list[tuple[PaymentRow, int]]:
    """Rewards whose offer will not leave any more, with how often it was tried."""
    rows = tx.rows(
        f"SELECT {COLUMNS}, o.attempts FROM payment p JOIN outbox o ON o.id = p.about"
        " WHERE p.kind = 'reward' AND p.state = 'reserved' AND p.progress IS NULL"
        " AND o.state IN ('dead', 'cancelled') ORDER BY p.about LIMIT ?"
        " FOR UPDATE OF p",
        [limit],
    )
    return [(PaymentRow(*row[:-1]), int(row[-1])) for row in rows]


_GIVEN_UP: Final = (
    " FROM payment p JOIN outbox o ON o.id = p.about"
    " WHERE p.kind = 'reward' AND p.state = 'held' AND p.cause = ?"
    " AND (o.state = 'sent' OR p.progress IS NOT NULL)"
)


def returning(tx: Tx, now: int, limit: int) -> list[int]:
    """Accounts of which a piece of work may be gone on with: found, or come in late."""
    found = tx.rows(
        f"SELECT DISTINCT p.account_id{_GIVEN_UP} AND NOT EXISTS"
        " (SELECT 1 FROM payment q WHERE q.account_id = p.account_id"
        " AND q.kind = 'reward' AND q.state = 'reserved') ORDER BY p.account_id LIMIT ?",
        [GIVEN_UP, limit],
    )
    late = tx.rows(
        "SELECT p.account_id FROM payment p WHERE p.kind = 'reward'"
        " AND p.state = 'released' AND p.progress = 'submitted' AND p.due <= ?"
        " ORDER BY p.due, p.about LIMIT ?",
        [now, limit],
    )
    return [row[0] for row in [*found, *late]]


def found_pieces(tx: Tx, free: Iterable[int], limit: int) -> list[PaymentRow]:
    """Held rewards of offers that were given up, and are at their market after all.

    The offer was found or sent since, or the market tells how its work stands. They are
    looked for of accounts that are locked and ``free`` of other work.
    """
    return _found(
        tx,
        f"SELECT {COLUMNS}{_GIVEN_UP} AND p.account_id = ANY(?)"
        " ORDER BY p.about LIMIT ? FOR UPDATE OF p",
        [GIVEN_UP, sorted(free), limit],
    )


def begin_anew(tx: Tx, found: Iterable[PaymentRow], now: int) -> None:
    """Have pieces of work begin now: what was done before was not done in them."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["created_at"],
        [(r.kind, r.about, now) for r in found],
    )


def had_work_since(tx: Tx, piece: PaymentRow) -> bool:
    """Whether an account began another piece of work after this one."""
    text = (
        "SELECT 1 FROM payment WHERE account_id = ? AND kind = 'reward'"
        " AND about <> ? AND created_at >= ? LIMIT 1"
    )
    parameters = [piece.account_id, piece.about, piece.created_at]
    return tx.one(text, parameters) is not None


def look_later(tx: Tx, found: Iterable[PaymentRow], due: int) -> None:
    """Look at payments again at a moment."""
    tx.update_many(
        "payment", ["kind", "about"], ["due"], [(r.kind, r.about, due) for r in found]
    )


class Work(NamedTuple):
    """What was done in a piece of work.

    ``live`` tasks are in the worker's hands, ``valid`` ones were answered well, and of
    those ``open`` ones still wait for others' answers.
    """

    live: int
    valid: int
    open: int


def work_in(tx: Tx, piece: PaymentRow) -> Work:
    """What an account did since a piece of work was offered to it.

    An account has one piece open at a time, so what it does then is done in it, also to
    a field that it was shown the day before. Made-up questions are work too: who was
    asked nothing else has done it.
    """
    row = tx.one(
        "SELECT coalesce(sum(CASE WHEN t.state = 'shown' THEN 1 ELSE 0 END), 0),"
        " coalesce(sum(CASE WHEN t.state = 'answered' AND coalesce(a.valid, 1) = 1"
        " THEN 1 ELSE 0 END), 0) + (SELECT count(*) FROM probe_task g"
        " WHERE g.account_id = ? AND g.state = 'answered' AND g.created_at >= ?),"
        " coalesce(sum(CASE WHEN a.valid = 1 AND coalesce(r.state, 'open') = 'open'"
        " THEN 1 ELSE 0 END), 0)"
        " FROM task t LEFT JOIN answer a ON a.task_id = t.id"
        " LEFT JOIN result r ON r.entry_id = t.entry_id"
        " WHERE t.account_id = ? AND t.created_at >= ?"
        " AND (t.created_at >= ? OR t.state = 'shown' OR a.at >= ?)",
        [
            piece.account_id,
            piece.created_at,
            piece.account_id,
            piece.created_at - DAY,
            piece.created_at,
            piece.created_at,
        ],
    )
    assert row is not None, "a sum has a row"
    return Work(*map(int, row))


def fields_of(tx: Tx, piece: int) -> list[tuple[PaymentRow, bool]]:
    """What is open of the fields of a piece of work; whether each was answered well."""
    rows = tx.rows(
        f"SELECT {COLUMNS}, CASE WHEN t.state = 'answered'"
        " AND coalesce(a.valid, 1) = 1 THEN 1 ELSE 0 END FROM payment p"
        " JOIN task t ON t.id = p.about LEFT JOIN answer a ON a.task_id = t.id"
        " WHERE p.kind = 'field' AND p.piece = ? AND p.state IN ('reserved', 'due')"
        " AND t.state <> 'shown' ORDER BY p.about FOR UPDATE OF p",
        [piece],
    )
    return [(PaymentRow(*row[:-1]), bool(row[-1])) for row in rows]


# -- what is to be paid ------------------------------------------------------------------


class DueRow(NamedTuple):
    """One payment that a market is asked for: a reward, or the bonus of a piece.

    ``abouts`` are its payments: the message, or the tasks of all its fields.
    """

    kind: str
    piece: int
    run_id: int
    account: str
    reference: str
    submission: str
    currency: str
    amount: int
    attempts: int
    abouts: tuple[int, ...]


_DUE: Final = (
    "SELECT w.about, w.run_id, c.name, w.reference, w.submission, b.currency,"
    " w.amount, w.attempts FROM payment w JOIN account c ON c.id = w.account_id"
    " JOIN budget b ON b.run_id = w.run_id WHERE w.kind = 'reward' AND w.connector = ?"
    " AND w.reference IS NOT NULL AND w.submission IS NOT NULL"
)


def due_rewards(tx: Tx, connector: str, now: int, limit: int) -> list[DueRow]:
    """Rewards that a market is to pay now, locked."""
    rows = tx.rows(
        f"{_DUE} AND w.state = 'due' AND w.due <= ? ORDER BY w.due, w.about LIMIT ?"
        " FOR UPDATE OF w",
        [connector, now, limit],
    )
    return [DueRow._make(("reward", *row, (row[0],))) for row in rows]


def due_bonuses(tx: Tx, connector: str, now: int, limit: int) -> list[DueRow]:
    """Bonuses of pieces whose reward is paid, locked: what their fields earned."""
    found = []
    for about, *rest, _, _ in tx.rows(
        f"{_DUE} AND w.state = 'paid' AND w.about IN (SELECT p.piece FROM payment p"
        " WHERE p.state = 'due' AND p.kind = 'field' AND p.connector = ?"
        " AND p.piece IS NOT NULL AND p.due <= ?)"
        " ORDER BY w.about LIMIT ? FOR UPDATE OF w",
        [connector, connector, now, limit],
    ):
        fields = tx.rows(
            "SELECT about, amount, attempts FROM payment WHERE kind = 'field'"
            " AND piece = ? AND state = 'due' ORDER BY about FOR UPDATE",
            [about],
        )
        total = sum(row[1] for row in fields)
        tries = max(row[2] for row in fields)
        tasks = tuple(int(row[0]) for row in fields)
        found.append(DueRow._make(("field", about, *rest, total, tries, tasks)))
    return found


def put_off(
    tx: Tx, due: DueRow, tries: int, until: int, why: str | None = None
) -> None:
    """Look at a payment again at a moment; say how often it was tried, and why not."""
    tx.execute(
        "UPDATE payment SET attempts = ?, due = ?, why = ? WHERE kind = ?"
        " AND about = ANY(?) AND state = 'due'",
        [tries, until, why, due.kind, list(due.abouts)],
    )


# -- what a person decides ---------------------------------------------------------------


def fields_in_state(tx: Tx, pieces: Sequence[int], state: str) -> list[PaymentRow]:
    """Fields of pieces of work that are in a state, locked."""
    return _found(
        tx,
        f"SELECT {COLUMNS} FROM payment p WHERE p.kind = 'field'"
        " AND p.piece = ANY(?) AND p.state = ? ORDER BY p.about FOR UPDATE",
        [pieces, state],
    )


def of_piece(tx: Tx, piece: int) -> list[tuple[str, int, str]]:
    """Return all payments of a piece of work: kind, number and state."""
    text = "SELECT kind, about, state FROM payment WHERE piece = ?"
    return [(row[0], int(row[1]), row[2]) for row in tx.rows(text, [piece])]


def forget_tries(tx: Tx, found: Iterable[PaymentRow]) -> None:
    """Let payments be made as if they had never been tried: a person has looked."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["attempts"],
        [(r.kind, r.about, 0) for r in found],
    )
