"""What a market tells of pieces of work, kept with their rewards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dispatcher.store.transaction import Tx
from tests.integration.was.money import lock_payments, move


class ToldRow(NamedTuple):
    """A reward by the market's name of its offer, and whose it is."""

    about: int
    account: str
    submission: str | None
    progress: str | None


def by_reference(
    tx: Tx, connector: str, references: Collection[str]
) -> dict[str, ToldRow]:
    """Rewards of a connector by the market's names of their offers, locked.

    Only rewards have such a name.
    """
    rows = tx.rows(
        "SELECT p.reference, p.about, c.name, p.submission, p.progress FROM payment p"
        " JOIN account c ON c.id = p.account_id WHERE p.connector = ?"
        " AND p.reference = ANY(?)"
        " ORDER BY p.about FOR UPDATE OF p",
        [connector, sorted(set(references))],
    )
    return {row[0]: ToldRow(*row[1:]) for row in rows}


def adopt(tx: Tx, connector: str, references: Iterable[tuple[int, str]]) -> None:
    """Learn the market's names of offers that arrived there without our hearing of it."""
    for outbox_id, reference in references:
        tx.execute(
            "UPDATE payment SET reference = ? WHERE kind = 'reward' AND about = ?"
            " AND connector = ? AND reference IS NULL",
            [reference, outbox_id, connector],
        )


def note_progress(
    tx: Tx, told: Iterable[tuple[int, str | None, str]], now: int
) -> None:
    """Keep how pieces of work stand: message, submission, progress."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["submission", "progress", "due", "at"],
        [("reward", about, number, word, now, now) for about, number, word in told],
    )


def untold(tx: Tx, connector: str, before: int) -> list[int]:
    """Messages of pieces of work that were sent long ago and are not known to end."""
    rows = tx.rows(
        "SELECT p.about FROM payment p JOIN outbox o ON o.id = p.about"
        " WHERE p.connector = ? AND p.kind = 'reward' AND p.state = 'reserved'"
        " AND coalesce(p.progress, 'open') = 'open' AND o.state = 'sent'"
        " AND o.due <= ? ORDER BY p.about",
        [connector, before],
    )
    return [int(row[0]) for row in rows]


def end(tx: Tx, abouts: Sequence[int], now: int) -> int:
    """Note that pieces of work are not at their market any more; how many."""
    return tx.execute(
        "UPDATE payment SET progress = 'gone', due = ?, at = ? WHERE kind = 'reward'"
        " AND about = ANY(?) AND coalesce(progress, 'open') = 'open'",
        [now, now, list(abouts)],
    )


def hold(tx: Tx, about: int, why: str, now: int) -> bool:
    """Hold a reward for a person to look at; False if it was settled or held before."""
    row = lock_payments(tx, "reward", [about])[about]
    open_ = row.state in ("reserved", "due")
    move(tx, [row] if open_ else [], "held", now=now, why=why)
    return open_
