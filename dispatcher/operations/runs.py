"""Runs: the sets of records that work is done for, and what they may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.money import Money
from dispatcher import money
from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.intake import runs as stage
from dispatcher.store import Store, Tx, events, pilots, proficiency, statistics
from dispatcher.store import money as rows
from dispatcher.store.money import BudgetRow
from dispatcher.store.pilots import FieldRow, PilotRow
from dispatcher.store.proficiency import StockRow


@dataclass(frozen=True)
class BudgetChange:
    """What is set anew in a budget; what is left out stays as it was.

    Attributes
    ----------
    amounts : Mapping[str, Money]
        ``cap``, ``per_day``, ``reward`` and ``bonus``.
    fee : int or None
        What markets add, in millionths.
    no_daily_limit : bool
        End the limit of a day.
    """

    amounts: Mapping[str, Money] = field(default_factory=dict)
    fee: int | None = None
    no_daily_limit: bool = False


@dataclass(frozen=True)
class Pilot:
    """How the records of a run went that were let go: the pilot, while it lasts.

    Attributes
    ----------
    row : PilotRow
    waiting : int
        Records that wait for the pilot to be accepted.
    fields : tuple of FieldRow
    gold : Mapping[str, StockRow]
        Made-up questions by field.
    budget : BudgetRow or None
    """

    row: PilotRow
    waiting: int
    fields: tuple[FieldRow, ...]
    gold: Mapping[str, StockRow]
    budget: BudgetRow | None

    @property
    def answers(self) -> int:
        """Answers that came in, over all fields."""
        return sum(row.answers for row in self.fields)

    @property
    def seconds(self) -> float | None:
        """Mean seconds of an answer; None if there is none."""
        if not self.answers:
            return None
        total = sum((row.seconds or 0) * row.answers for row in self.fields)
        return total / self.answers


def list_runs(store: Store) -> list[str]:
    """Names of all runs."""
    with store.read() as tx:
        return statistics.runs(tx)


def budgets(store: Store, run: str | None = None) -> list[tuple[str, BudgetRow]]:
    """Budgets by the names of their runs, all or that of one run.

    Raises
    ------
    NotFound
        There is no such run.
    """
    with store.read() as tx:
        wanted = None if run is None else run_id_of(tx, run)
        return budgets_in(tx, wanted)


def budgets_in(tx: Tx, run_id: int | None = None) -> list[tuple[str, BudgetRow]]:
    """As :func:`budgets`, in a transaction and by the run's id."""
    names = rows.run_names(tx)
    return [
        (names[row.run_id], row)
        for row in rows.budgets(tx)
        if run_id in (None, row.run_id)
    ]


def set_budget(
    workspace: Workspace, store: Store, run: str, change: BudgetChange
) -> BudgetRow:
    """Set what a run may cost; a cap below what is taken stops new work.

    Raises
    ------
    NotFound
        There is no such run.
    Usage
        No cap, or several currencies.
    Conflict
        Another currency than what is promised already.
    """
    now = workspace.clock()
    with store.write() as tx:
        run_id = run_id_of(tx, run)
        before = rows.lock_budgets(tx, [run_id]).get(run_id)
        row = _changed(tx, run_id, before, change.amounts)
        if change.no_daily_limit:
            row = row._replace(per_day=None)
        if change.fee is not None:
            row = row._replace(fee=change.fee)
        rows.put_budget(tx, row)
        detail: dict[str, object] = {
            name: getattr(row, name)
            for name in ("currency", "cap", "per_day", "reward", "bonus", "fee")
        }
        events.add_event(tx, now, "cli", "budget.set", {"run": run_id, **detail})
    return row


def run_id_of(tx: Tx, name: str) -> int:
    """Id of a run.

    Raises
    ------
    NotFound
    """
    found = rows.run_id_of(tx, name)
    if found is None:
        raise NotFound(
            f"there is no run {name!r}",
            why=f"there are: {', '.join(statistics.runs(tx)) or 'none'}",
            fix="load records first: dispatcher records load FILE",
        )
    return found


def _changed(
    tx: Tx, run_id: int, before: BudgetRow | None, amounts: Mapping[str, Money]
) -> BudgetRow:
    """Return the budget with what was set.

    Raises
    ------
    Usage
        No cap, or several currencies.
    Conflict
        Another currency than what is promised already.
    """
    currencies = {one.currency for one in amounts.values()}
    if len(currencies) > 1:
        raise Usage(
            f"one budget in {' and '.join(sorted(currencies))}",
            why="a run is paid in one currency",
            fix="give all amounts in the same",
        )
    if before is None and "cap" not in amounts:
        raise Usage(
            "a budget needs a cap",
            why="the run has none yet",
            fix="dispatcher runs budget set RUN --cap GBP:100",
        )
    currency = currencies.pop() if currencies else before.currency if before else ""
    if before is not None and currency != before.currency:
        others = {"cap", "reward", "bonus", "per_day"} - amounts.keys()
        if rows.has_payments(tx, run_id):
            raise Conflict(
                f"the run is paid in {before.currency}",
                why="work was promised in it already",
                fix="load what is paid in another currency into a run of its own",
            )
        if any(getattr(before, name) for name in others):
            raise Usage(
                f"the other amounts are in {before.currency}",
                why="a run is paid in one currency",
                fix="give --cap, --per-day, --reward and --bonus together",
            )
    row = before or rows.no_budget(run_id, currency)
    parts = {name: money.parts_of(one) for name, one in amounts.items()}
    return row._replace(currency=currency, **parts)


def begin_pilot(workspace: Workspace, store: Store, run: str, records: int) -> Pilot:
    """Let only so many records of a run be shown, picked by chance."""
    row = stage.begin(store, run, records, workspace.clock())
    with store.read() as tx:
        return _pilot(tx, row)


def show_pilot(store: Store, run: str) -> Pilot:
    """How the records of a run went that were let go.

    Raises
    ------
    NotFound
        There is no such run.
    """
    with store.read() as tx:
        row = pilots.find(tx, run)
        if row is None:
            raise stage.no_run(run)
        return _pilot(tx, row)


def accept_pilot(workspace: Workspace, store: Store, run: str) -> int:
    """Let all records of a run be shown; how many waited."""
    return stage.accept(store, run, workspace.clock())


def _pilot(tx: Tx, row: PilotRow) -> Pilot:
    gold = {one.field: one for one in proficiency.stock(tx, "gold")}
    budget = [one for _, one in budgets_in(tx, row.run_id)]
    fields = tuple(pilots.by_field(tx, row.run_id))
    waiting = pilots.waiting(tx, row.run_id)
    return Pilot(row, waiting, fields, gold, budget[0] if budget else None)
