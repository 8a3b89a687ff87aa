"""Made-up questions: tests that workers pass first, and gold among the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dispatcher.core.errors import Invalid
from dispatcher.ledger.active_policy import showings
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.intake import questions as stage
from dispatcher.stages.intake.questions import Questions
from dispatcher.store import Store, worker_quality
from dispatcher.store.worker_quality import StandRow, StockRow

Purpose = Literal["test", "gold"]

_TOLD: Final = 10


@dataclass(frozen=True)
class AddedQuestions:
    """Gold questions added to a field, and how many of the file existed already."""

    new: int
    known: int


@dataclass(frozen=True)
class FieldTestResults:
    """A field's test: number of questions, and workers' results."""

    row: StandRow
    questions: int


@dataclass(frozen=True)
class FieldGold:
    """A field's gold questions: how many were answered, were right, and are left."""

    row: StockRow
    left: int


def set_test(
    workspace: Workspace,
    store: Store,
    field: str,
    file: Path,
    share: float,
    *,
    accept_equal: int = 0,
) -> int:
    """Require a passed test for a field, replacing an earlier test.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    field : str
    file : Path
        Of questions.
    share : float
        Of right answers that passes, above 0 and at most 1.
    accept_equal : int
        How many rows show what a loaded record shows: exactly as many as there are.

    Returns
    -------
    int
        Questions of the test.

    Raises
    ------
    Invalid
    """
    if not 0 < share <= 1:
        raise Invalid(
            f"--pass is {share}, expected a share above 0 and at most 1",
            why="it is the share of the test's answers that have to be right",
            fix="write --pass 0.8 for eight of ten",
        )
    found = _read(store, file, field, accept_equal)
    stage.set_test(store, found, share, workspace.clock(), workspace.actor)
    return len(found.found)


def list_tests(store: Store) -> list[FieldTestResults]:
    """List fields that require a test, with workers' results."""
    with store.read() as tx:
        asked = {row.field: row.questions for row in worker_quality.stock(tx, "test")}
        return [
            FieldTestResults(row, asked.get(row.field, 0))
            for row in worker_quality.standings(tx)
        ]


def add_gold(
    workspace: Workspace, store: Store, field: str, file: Path, *, accept_equal: int = 0
) -> AddedQuestions:
    """Add made-up questions to mix among the real ones of a field.

    ``accept_equal``: how many rows show what a loaded record shows.

    Raises
    ------
    Invalid
    """
    found = _read(store, file, field, accept_equal)
    new = stage.add_gold(store, found, workspace.clock(), workspace.actor)
    return AddedQuestions(new, len(found.found) - new)


def list_gold(store: Store) -> list[FieldGold]:
    """List fields with gold questions: how many are left, and were answered right."""
    with store.read() as tx:
        left = worker_quality.gold_left(tx, showings(tx))
        return [
            FieldGold(row, left[row.field]) for row in worker_quality.stock(tx, "gold")
        ]


def drop(workspace: Workspace, store: Store, field: str, purpose: Purpose) -> int:
    """Retire a field's made-up questions; return how many there were."""
    return stage.drop(store, field, purpose, workspace.clock(), workspace.actor)


def _read(store: Store, file: Path, field: str, accept_equal: int) -> Questions:
    """Read a file of questions; those that show what a record shows must be accepted."""
    found = stage.read_questions(store, file, field)
    lines = stage.equal_to_stored(store, found)
    if len(lines) != accept_equal:
        raise _unaccepted(lines, accept_equal)
    return found


def _unaccepted(lines: Sequence[int], accepted: int) -> Invalid:
    shown_lines = ", ".join(str(line) for line in lines[:_TOLD])
    if len(lines) > _TOLD:
        shown_lines += f" and {len(lines) - _TOLD:,} more"
    rows = "1 row shows" if len(lines) == 1 else f"{len(lines):,} rows show"
    return Invalid(
        f"{rows} what a loaded record shows (line {shown_lines})"
        if lines
        else f"no row shows what a loaded record shows, not {accepted}",
        why="a question taken from a record would be seen without being booked",
        fix="make the questions up; where a field has few values, so that equal "
        f"ones say nothing of a record: --accept-equal {len(lines)}",
        facts={"equal": len(lines)},
    )
