"""What the planning stage reads and writes: the backlog, plans, what is held back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store.booking import SHOWN_BYTES
from dispatcher.store.burning import granted
from dispatcher.store.transaction import Row, Tx

MANY: Final = 20_000
"""Ids asked for in one statement."""

_LIVE: Final = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)


class LeftRow(NamedTuple):
    """Pairs that an applied plan still means for an account; ``entries`` is packed."""

    plan_id: int
    account_id: int
    adversary_id: int
    entries: bytes


class PlanRow(NamedTuple):
    """A plan; ``summary`` is JSON."""

    id: int
    policy_version: int
    state: str
    verdict: str
    algorithm: str
    seed: int
    summary: str
    created_at: int
    applied_at: int | None


_PLAN: Final = (
    "id",
    "policy_version",
    "state",
    "verdict",
    "algorithm",
    "seed",
    "summary",
    "created_at",
    "applied_at",
)


# -- the backlog ---------------------------------------------------------------


def pulse(tx: Tx) -> tuple[int, ...]:
    """A few numbers that change when there may be something new to plan.

    Grants of extra showings, last entry, active accounts, last account, policy version,
    plans applied, pairs of them that the gate refused, tasks that ended without an
    answer, open fields, records let go by pilots, and tests failed for good.
    """
    return granted(tx), *(
        int(tx.value(statement) or 0)
        for statement in (
            "SELECT max(id) FROM entry",
            "SELECT count(*) FROM account WHERE state = 'active'",
            "SELECT max(id) FROM account",
            "SELECT max(version) FROM policy",
            "SELECT max(id) FROM plan WHERE state = 'applied'",
            "SELECT sum(refused) FROM plan WHERE state = 'applied'",
            "SELECT count(*) FROM task WHERE state IN ('returned', 'expired', 'dead')",
            "SELECT count(*) FROM result WHERE state = 'open'",
            "SELECT sum(COALESCE(pilot, 0) + COALESCE(piloted, 0)) FROM run",
            "SELECT sum(attempt) FROM qualification WHERE state = 'failed'",
        )
    )


def entries(tx: Tx) -> Iterator[Row]:
    """All entries by id: (id, record, field, subject or -1, time or 0)."""
    return tx.stream(
        "SELECT id, record_id, field_id, COALESCE(subject_id, -1), COALESCE(time, 0)"
        " FROM entry ORDER BY id"
    )


def longer(tx: Tx, most: int) -> Iterator[Row]:
    """Entries that show more than so many bytes: (id, bytes)."""
    return tx.stream(
        f"SELECT id, {SHOWN_BYTES} FROM entry WHERE {SHOWN_BYTES} > ?", [most]
    )


def cancelled(tx: Tx) -> Iterator[Row]:
    """Entries of cancelled runs, and of records that wait for a pilot: (id,)."""
    yield from tx.stream(
        "SELECT e.id FROM run u JOIN record r ON r.run_id = u.id"
        " JOIN entry e ON e.record_id = r.id WHERE u.state = 'cancelled'"
    )
    yield from tx.stream(
        "SELECT e.id FROM record r JOIN entry e ON e.record_id = r.id"
        " WHERE r.waits_since IS NOT NULL"
    )


def answered(tx: Tx) -> Iterator[Row]:
    """Valid answers of each entry: (entry, answers)."""
    return tx.stream(
        "SELECT entry_id, count(*) FROM answer WHERE valid = 1 GROUP BY entry_id"
    )


def results(tx: Tx) -> Iterator[Row]:
    """Return what consensus says: (entry, answers wanted by now, 1 if settled)."""
    return tx.stream(
        "SELECT entry_id, wanted, CASE WHEN state = 'open' THEN 0 ELSE 1 END"
        " FROM result"
    )


def live(tx: Tx) -> Iterator[Row]:
    """Tasks that may still bring an answer: (entry, tasks)."""
    return tx.stream(
        f"SELECT entry_id, count(*) FROM task WHERE state IN ({_LIVE})"
        " GROUP BY entry_id"
    )


def has_accounts(tx: Tx, connectors: Iterable[str]) -> bool:
    """Whether an account of one of the connectors is active."""
    return bool(
        tx.value(
            "SELECT 1 FROM account WHERE state = 'active' AND connector = ANY(?) LIMIT 1",
            [sorted(connectors)],
        )
    )


def published(tx: Tx) -> Iterator[Row]:
    """Copies that feeds have: (entry, tasks)."""
    return tx.stream(
        "SELECT entry_id, count(*) FROM task WHERE state = 'published'"
        " GROUP BY entry_id"
    )


def tasks(tx: Tx, account_ids: Sequence[int]) -> Iterator[Row]:
    """Every task that accounts ever had: (entry, account)."""
    return tx.stream(
        "SELECT entry_id, account_id FROM task WHERE account_id = ANY(?)",
        [account_ids],
    )


def left_of_plans(tx: Tx, version: int) -> list[LeftRow]:
    """Pairs of active accounts that the applied plans still mean to show."""
    found = tx.rows(
        "SELECT s.plan_id, s.account_id, a.adversary_id, s.entries"
        " FROM assignment s JOIN plan p ON p.id = s.plan_id"
        " JOIN account a ON a.id = s.account_id"
        " WHERE p.state = 'applied' AND p.policy_version = ? AND a.state = 'active'"
        " AND length(s.entries) > 0 ORDER BY s.plan_id, s.account_id",
        [version],
    )
    return [LeftRow(row[0], row[1], row[2], bytes(row[3])) for row in found]


def exposures(tx: Tx, entry_ids: Sequence[int] | None) -> Iterator[Row]:
    """Lines about entries: (entry, adversary that goes on, showing, kind, body).

    ``entry_ids`` None: about all entries, in one pass over the ledger.
    """
    text = (
        "SELECT l.entry_id, COALESCE(c.survivor_id, c.id), COALESCE(l.showing, 0),"
        " l.kind, l.body FROM ledger_line l JOIN chain c ON c.id = l.chain_id WHERE "
    )
    if entry_ids is None:
        yield from tx.stream(text + "l.entry_id IS NOT NULL")
        return
    for one in range(0, len(entry_ids), MANY):
        part = list(entry_ids[one : one + MANY])
        yield from tx.rows(text + "l.entry_id = ANY(?)", [part])


def recused(tx: Tx) -> list[Row]:
    """Units that adversaries recused themselves from: (adversary, unit)."""
    return tx.rows("SELECT adversary_id, unit_id FROM recusal ORDER BY 1, 2")


def loaded_columns(tx: Tx) -> dict[int, str]:
    """Columns of each load, as JSON."""
    return dict(tx.rows("SELECT id, columns FROM load"))


def cells(tx: Tx) -> Iterator[Row]:
    """Cells of all records that have them still: (record, load, JSON)."""
    found = tx.stream(
        "SELECT id, load_id, columns, key_id FROM record WHERE erased_at IS NULL"
    )
    for row in tx.vault.opened(tx, found, [(2, "record.columns")], 3):
        yield tuple(row[:3])


# -- plans ---------------------------------------------------------------------


def add_plan(
    tx: Tx,
    plan: PlanRow,
    assignments: Iterable[tuple[int, int, bytes]],
) -> None:
    """Write a plan and its assignments: rows (account, adversary, packed entries)."""
    tx.insert_many("plan", _PLAN, [tuple(plan)])
    tx.insert_many(
        "assignment",
        ("plan_id", "account_id", "adversary_id", "entries"),
        ((plan.id, *row) for row in assignments),
    )


def hold_back(tx: Tx, held: Iterable[tuple[int, int, str]]) -> None:
    """Replace what is held back: rows (entry, plan, reason)."""
    tx.execute("DELETE FROM held_back")
    tx.insert_many("held_back", ("entry_id", "plan_id", "reason"), held)


def plan(tx: Tx, plan_id: int) -> PlanRow | None:
    """Return a plan."""
    row = tx.one(f"SELECT {', '.join(_PLAN)} FROM plan WHERE id = ?", [plan_id])
    return None if row is None else PlanRow(*row)


def plans(tx: Tx) -> list[PlanRow]:
    """Return all plans, the newest first."""
    found = tx.rows(f"SELECT {', '.join(_PLAN)} FROM plan ORDER BY id DESC")
    return [PlanRow(*row) for row in found]


def lock_applied(tx: Tx) -> list[int]:
    """Applied plans, locked until the end."""
    found = tx.rows(
        "SELECT id FROM plan WHERE state = 'applied' ORDER BY id FOR UPDATE"
    )
    return [row[0] for row in found]


def lock_assignments(tx: Tx, plan_ids: Sequence[int], version: int) -> list[LeftRow]:
    """All rows of plans, locked until the end, those of active accounts only.

    What a plan under another version left is not taken over: it was planned anew.
    """
    found = tx.rows(
        "SELECT plan_id, account_id, adversary_id, entries FROM assignment"
        " WHERE plan_id IN (SELECT id FROM plan WHERE id = ANY(?)"
        " AND policy_version = ?) ORDER BY plan_id, account_id FOR UPDATE",
        [plan_ids, version],
    )
    active = {
        row[0] for row in tx.rows("SELECT id FROM account WHERE state = 'active'")
    }
    return [LeftRow(r[0], r[1], r[2], bytes(r[3])) for r in found if r[1] in active]


def replace_assignments(
    tx: Tx, plan_id: int, ended: Sequence[int], rows: Iterable[tuple[int, int, bytes]]
) -> None:
    """Let a plan have these rows, and plans that ended none."""
    tx.execute("DELETE FROM assignment WHERE plan_id = ANY(?)", [[plan_id, *ended]])
    tx.insert_many(
        "assignment",
        ("plan_id", "account_id", "adversary_id", "entries"),
        ((plan_id, *row) for row in rows),
    )


def end_plans(tx: Tx, plan_ids: Sequence[int]) -> None:
    """Let applied plans be superseded."""
    tx.execute(
        "UPDATE plan SET state = 'superseded' WHERE state = 'applied' AND id = ANY(?)",
        [plan_ids],
    )


def drop_drafts(tx: Tx, but: int) -> None:
    """Drop drafts, but one: they were made before it was applied."""
    tx.execute(
        "DELETE FROM assignment WHERE plan_id IN"
        " (SELECT id FROM plan WHERE state = 'draft' AND id <> ?)",
        [but],
    )
    tx.execute(
        "UPDATE plan SET state = 'dropped' WHERE state = 'draft' AND id <> ?", [but]
    )


def mark_applied(tx: Tx, plan_id: int, summary: str, now: int) -> bool:
    """Let a draft be applied, with its numbers; False if it is no draft (any more)."""
    return (
        tx.execute(
            "UPDATE plan SET state = 'applied', summary = ?, applied_at = ?"
            " WHERE id = ? AND state = 'draft'",
            [summary, now, plan_id],
        )
        == 1
    )
