"""Runs: named sets of records, their budgets and pilots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from connectors.money import Money
from dispatcher import model, money
from dispatcher.core.errors import Changed, Conflict, Usage
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.operations import totals
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.intake import runs as stage
from dispatcher.store import (
    Store,
    Tx,
    events,
    pause,
    pilots,
    records,
    statistics,
    worker_quality,
)
from dispatcher.store import money as rows
from dispatcher.store.erasure import exports_of_run
from dispatcher.store.pilots import PilotField, PilotRow
from dispatcher.store.statistics import RunRow, RunTotals
from dispatcher.store.worker_quality import StockRow

BudgetTerms = tuple[str | None, ...]


@dataclass(frozen=True)
class BudgetChange:
    """Changes to a budget; what is left out stays unchanged.

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
class RunBudget:
    """A run's budget and its use; amounts as exact text (``GBP 1.20``).

    Attributes
    ----------
    run, cap : str
    per_day : str or None
    reward, bonus, fee_percent : str
    promised, paid, today, room : str
    used_up : str
        What stops new work: ``cap``, ``day``, or empty.
    """

    run: str
    cap: str
    per_day: str | None
    reward: str
    bonus: str
    fee_percent: str
    promised: str
    paid: str
    today: str
    room: str
    used_up: str

    @property
    def terms(self) -> BudgetTerms:
        """What it allows, whatever of it is used."""
        return self.cap, self.per_day, self.reward, self.bonus, self.fee_percent


@dataclass(frozen=True)
class Pilot:
    """Results of a run's released records: the pilot, while it lasts.

    Attributes
    ----------
    row : PilotRow
    waiting : int
        Records that wait for the pilot to be accepted.
    fields : tuple of PilotField
    gold : Mapping[str, StockRow]
        Made-up questions by field.
    budget : RunBudget or None
    """

    row: PilotRow
    waiting: int
    fields: tuple[PilotField, ...]
    gold: Mapping[str, StockRow]
    budget: RunBudget | None

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


@dataclass(frozen=True)
class LoadedFile:
    """A file that was loaded into a run; ``complete`` once it was read to its end."""

    source: str
    started_at: int
    complete: bool
    records: int
    rejected: int


@dataclass(frozen=True)
class Export:
    """A file that a run's records were written to."""

    path: str
    at: int


@dataclass(frozen=True)
class RunDetails:
    """A run, the files that it came from, and those that it was written to."""

    run: str
    state: str
    created_at: int
    loads: tuple[LoadedFile, ...]
    exports: tuple[Export, ...]
    budget: RunBudget | None


def show(workspace: Workspace, store: Store, run: str) -> RunDetails:
    """Return what there is about a run.

    Raises
    ------
    NotFound
        There is no such run.
    """
    with store.read() as tx:
        found = records.run_named(tx, run)
        if found is None:
            raise stage.no_run(tx, run)
        loads = (
            LoadedFile(
                one.source,
                one.started_at,
                one.state == "done",
                one.records,
                one.rejected,
            )
            for one in records.loads_in(tx, found.id)
        )
        exports = (Export(one.path, one.at) for one in exports_of_run(tx, found.id))
        return RunDetails(
            found.name,
            found.state,
            found.created_at,
            tuple(loads),
            tuple(exports),
            next(iter(budgets_in(tx, workspace.clock(), found.id)), None),
        )


def list_runs(store: Store) -> list[str]:
    """Names of all runs."""
    with store.read() as tx:
        return statistics.runs(tx)


@dataclass(frozen=True)
class RunProgress:
    """How far a run is.

    Attributes
    ----------
    run : str
    state : str
        ``open``, ``answered``, ``paused``, ``pilot`` (records wait for it), ``lost``, or
        ``empty``.
    created_at : int
    records, fields, answered, conflict : int
        Fields are those that the policy asks.
    paused : str
        Why it is paused; empty: it is not.
    """

    run: str
    state: str
    created_at: int
    records: int
    fields: int
    answered: int
    conflict: int
    paused: str

    @property
    def share(self) -> float:
        """Share of the fields that are answered."""
        return self.answered / self.fields if self.fields else 0.0


def progress(store: Store, *, exact: bool = True) -> list[RunProgress]:
    """How far each run is, the oldest first.

    Parameters
    ----------
    store : Store
    exact : bool
        Count a large store too; else what the daemon counted last.
    """
    with store.read() as tx:
        pauses = pause.paused(tx)
        found = statistics.run_states(tx)
        kept = None if exact else totals.kept(tx)
        runs = kept.runs if kept else statistics.run_totals(tx, asked_fields(tx))
    return [_progress(row, runs.get(row.id, RunTotals()), pauses) for row in found]


def _progress(
    row: RunRow, of: RunTotals, pauses: Mapping[str, model.Pause]
) -> RunProgress:
    paused = pauses.get(f"run:{row.name}") or pauses.get("all")
    state = "answered" if of.answered == of.fields else "open"
    if row.state != "active":
        state = row.state
    elif not of.records:
        state = "empty"
    elif paused is not None and state == "open":
        state = "paused"
    elif row.pilot is not None:
        state = "pilot"
    return RunProgress(
        row.name,
        state,
        row.created_at,
        *of,
        "" if paused is None else paused.reason,
    )


def budgets(
    workspace: Workspace, store: Store, run: str | None = None
) -> list[RunBudget]:
    """Budgets of all runs, or that of one run.

    Raises
    ------
    NotFound
        There is no such run.
    """
    with store.read() as tx:
        wanted = None if run is None else run_id_of(tx, run)
        return budgets_in(tx, workspace.clock(), wanted)


def budgets_in(tx: Tx, now: int, run_id: int | None = None) -> list[RunBudget]:
    """As :func:`budgets`, in a transaction and by the run's id."""
    names = rows.run_names(tx)
    return [
        _budget(names[row.run_id], row, now)
        for row in rows.budgets(tx)
        if run_id in (None, row.run_id)
    ]


def _budget(run: str, row: model.Budget, now: int) -> RunBudget:
    def text(parts: int) -> str:
        sign = "-" if parts < 0 else ""
        return f"{sign}{money.money_of(abs(parts), row.currency)}"

    return RunBudget(
        run=run,
        cap=text(row.cap),
        per_day=None if row.per_day is None else text(row.per_day),
        reward=text(row.reward),
        bonus=text(row.bonus),
        fee_percent=f"{row.fee / 10_000:g}",
        promised=text(row.taken - row.paid),
        paid=text(row.paid),
        today=text(row.taken_today(now)),
        room=text(row.room(now)),
        used_up=row.used_up(now),
    )


def set_budget(
    workspace: Workspace,
    store: Store,
    run: str,
    change: BudgetChange,
    before: BudgetTerms | Literal["any"] | None = "any",
) -> RunBudget:
    """Set what a run may cost; a cap below what is taken stops new work.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    run : str
    change : BudgetChange
    before : tuple of str, "any" or None
        Only if its terms are these now; None: only if it has no budget.

    Raises
    ------
    NotFound
        There is no such run.
    Changed
        Its terms are others than those of ``before``.
    Usage
        No cap, or several currencies.
    Conflict
        Another currency than what is promised already.
    """
    now = workspace.clock()
    with store.write() as tx:
        run_id = run_id_of(tx, run)
        found = rows.lock_budgets(tx, [run_id]).get(run_id)
        terms = None if found is None else _budget(run, found, now).terms
        if before not in ("any", terms):
            raise Changed(
                f"the budget of run {run} was changed",
                why="somebody else set it since it was read",
                fix=f"read it again: dispatcher runs show {run}",
            )
        row = _changed(tx, run_id, found, change.amounts)
        if change.no_daily_limit:
            row = row.model_copy(update={"per_day": None})
        if change.fee is not None:
            row = row.model_copy(update={"fee": change.fee})
        rows.put_budget(tx, row)
        detail: dict[str, object] = {
            name: getattr(row, name)
            for name in ("currency", "cap", "per_day", "reward", "bonus", "fee")
        }
        events.add_event(
            tx, now, workspace.actor, "budget.set", {"run": run_id, **detail}
        )
    return _budget(run, row, now)


def read_amount(text: str, name: str) -> Money:
    """Read an amount of money, such as ``GBP:0.12``.

    Parameters
    ----------
    text : str
    name : str
        What the amount is for, in the error.

    Raises
    ------
    Usage
        It is none.
    """
    try:
        return Money.read(text)
    except ValueError:
        raise Usage(
            f"{name} is no amount of money",
            why="it is a currency of three capital letters, a colon and a number",
            fix="write it like GBP:0.12",
        ) from None


def run_id_of(tx: Tx, name: str) -> int:
    """Id of a run.

    Raises
    ------
    NotFound
    """
    found = rows.run_id_of(tx, name)
    if found is None:
        raise stage.no_run(tx, name)
    return found


def _changed(
    tx: Tx, run_id: int, before: model.Budget | None, amounts: Mapping[str, Money]
) -> model.Budget:
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
            fix="dispatcher runs budget RUN --cap GBP:100",
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
    row = before or model.Budget(run_id=run_id, currency=currency, cap=0)
    parts = {name: money.parts_of(one) for name, one in amounts.items()}
    return row.model_copy(update={"currency": currency, **parts})


def begin_pilot(workspace: Workspace, store: Store, run: str, records: int) -> Pilot:
    """Begin a pilot: only so many records of a run, picked at random, are shown."""
    now = workspace.clock()
    row = stage.begin(store, run, records, now, workspace.actor)
    with store.read() as tx:
        return _pilot(tx, row, now)


def show_pilot(workspace: Workspace, store: Store, run: str) -> Pilot:
    """Return the results of a run's released records.

    Raises
    ------
    NotFound
        There is no such run.
    """
    with store.read() as tx:
        row = pilots.find(tx, run)
        if row is None:
            raise stage.no_run(tx, run)
        return _pilot(tx, row, workspace.clock())


def accept_pilot(workspace: Workspace, store: Store, run: str) -> int:
    """Release all records of a run; return how many waited."""
    return stage.accept(store, run, workspace.clock(), workspace.actor)


def _pilot(tx: Tx, row: PilotRow, now: int) -> Pilot:
    gold = {one.field: one for one in worker_quality.stock(tx, "gold")}
    budget = budgets_in(tx, now, row.run_id)
    fields = tuple(pilots.by_field(tx, row.run_id))
    waiting = pilots.waiting(tx, row.run_id)
    return Pilot(row, waiting, fields, gold, budget[0] if budget else None)
