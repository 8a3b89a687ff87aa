"""How good workers are, by made-up questions and by agreement, and how tests went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dispatcher.store.events import details
from dispatcher.store.transaction import Row, Tx


class GoldRow(NamedTuple):
    """Gold that an account answered since it is judged, and how much of it right."""

    asked: int
    right: int


def gold(tx: Tx, account_id: int) -> GoldRow:
    """How an account answered gold."""
    row = tx.one(
        "SELECT count(*), COALESCE(sum(t.correct), 0) FROM probe_task t"
        " JOIN probe p ON p.id = t.probe_id JOIN account a ON a.id = t.account_id"
        " WHERE t.account_id = ? AND p.purpose = 'gold' AND t.state = 'answered'"
        " AND t.ended_at > COALESCE(a.judged_from, 0)",
        [account_id],
    )
    assert row is not None
    return GoldRow(int(row[0]), int(row[1]))


def doubted(tx: Tx, floor: float, answers: int) -> list[Row]:
    """Active accounts whose agreement is below a floor, after so many answers.

    Returns
    -------
    list of (int, float)
        Account, and its estimated accuracy.
    """
    return tx.rows(
        "SELECT a.id, a.quality FROM account a WHERE a.state = 'active'"
        " AND a.quality < ? AND (SELECT count(*) FROM task t WHERE t.account_id = a.id"
        " AND t.state = 'answered' AND t.created_at > COALESCE(a.judged_from, 0)) >= ?"
        " ORDER BY a.id",
        [floor, answers],
    )


class StopRow(NamedTuple):
    """Why an account was stopped: by which measure, and how good it was, in percent."""

    at: int
    by: str
    percent: int


def stopped(tx: Tx, account_id: int) -> StopRow | None:
    """Why an account was stopped last."""
    for at, told in details(tx, "account.stopped", newest_first=True):
        if told["account"] == account_id:
            return StopRow(at, told["by"], told["percent"])
    return None


# -- for operators -----------------------------------------------------------------


class StockRow(NamedTuple):
    """A field's questions of one purpose: how many, how often answered and right."""

    field: str
    questions: int
    answered: int
    right: int


def stock(tx: Tx, purpose: str) -> list[StockRow]:
    """Questions of one purpose that are asked, by field."""
    rows = tx.rows(
        "SELECT f.name, count(DISTINCT p.id),"
        " sum(CASE WHEN t.state = 'answered' THEN 1 ELSE 0 END),"
        " COALESCE(sum(t.correct), 0) FROM probe p JOIN field f ON f.id = p.field_id"
        " LEFT JOIN probe_task t ON t.probe_id = p.id WHERE p.retired_at IS NULL"
        " AND p.purpose = ? GROUP BY f.name ORDER BY f.name",
        [purpose],
    )
    return [StockRow(row[0], *map(int, row[1:])) for row in rows]


def gold_left(tx: Tx, showings: Mapping[int, int]) -> dict[str, int]:
    """Gold that somebody may still be asked, by field.

    Parameters
    ----------
    tx : Tx
    showings : Mapping of int to int
        By number of the field: how many adversaries a question is asked of, at most.
    """
    left: dict[str, int] = {}
    for name, field_id, asked in tx.rows(
        "SELECT f.name, f.id, count(DISTINCT a.adversary_id) FROM probe p"
        " JOIN field f ON f.id = p.field_id LEFT JOIN probe_task t ON t.probe_id = p.id"
        " LEFT JOIN account a ON a.id = t.account_id WHERE p.retired_at IS NULL"
        " AND p.purpose = 'gold' GROUP BY f.name, f.id, p.id"
    ):
        left[name] = left.get(name, 0) + (asked < showings.get(field_id, 0))
    return left


class StandRow(NamedTuple):
    """A field's test with how many accounts passed it, failed it, are at it."""

    field: str
    pass_share: float
    passed: int
    failed: int
    open: int


def standings(tx: Tx) -> list[StandRow]:
    """All fields that ask for a test."""

    def state(word: str) -> str:
        return f"sum(CASE WHEN q.state = '{word}' THEN 1 ELSE 0 END)"

    rows = tx.rows(
        f"SELECT n.name, f.pass_share, {state('passed')}, {state('failed')},"
        f" {state('open')} FROM field_test f JOIN field n ON n.id = f.field_id"
        " LEFT JOIN qualification q ON q.field_id = f.field_id"
        " GROUP BY n.name, f.pass_share ORDER BY n.name"
    )
    return [StandRow(row[0], row[1], *map(int, row[2:])) for row in rows]


class TriedRow(NamedTuple):
    """How one account stands with a test, in words."""

    field: str
    state: str
    attempt: int
    asked: int
    correct: int
    ended_at: int | None


def tried(tx: Tx, account_ids: Iterable[int]) -> list[TriedRow]:
    """How accounts stand with the tests that they began."""
    rows = tx.rows(
        "SELECT f.name, q.state, q.attempt, q.asked, q.correct, q.ended_at"
        " FROM qualification q JOIN field f ON f.id = q.field_id"
        " WHERE q.account_id = ANY(?) ORDER BY f.name",
        [sorted(account_ids)],
    )
    return [TriedRow(*row) for row in rows]
