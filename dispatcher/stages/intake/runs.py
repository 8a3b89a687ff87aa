"""Pilots: a few records of a run first, the others once an operator accepts."""

from __future__ import annotations

from typing import Final

from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.store import Store, Tx, events, pilots, statistics
from dispatcher.store import records as rows
from dispatcher.store.pilots import PilotRow
from dispatcher.store.policies import lock_policy_exclusive


def begin(store: Store, run: str, records: int, at: int, actor: str) -> PilotRow:
    """Begin a pilot of so many records of a run, or enlarge a running one.

    The records are picked at random, among those that are loaded or will be; a load
    picks at its end. The run is created if missing.

    Raises
    ------
    Usage
        The run has no proper name.
    Conflict
        Records of the run were shown already, it takes no records, or its pilot has
        more records by now.
    """
    check_run_name(run)
    with store.write() as tx:
        return begin_in(tx, run, records, at, actor)


def begin_in(tx: Tx, run: str, records: int, at: int, actor: str) -> PilotRow:
    """Do the same in the caller's transaction, for a name that was checked."""
    lock_policy_exclusive(tx)  # a booking in progress is a showing, or sees the pilot
    found = rows.run(tx, run, at)
    pilot = pilots.lock(tx, run)
    assert pilot is not None  # it was made
    if found.state != "active" or (
        pilot.wanted is None and pilots.is_shown(tx, pilot.run_id)
    ):
        raise Conflict(
            f"run {run} is past a pilot",
            why="records of it were shown already, or it takes none",
            fix="load into another run: --run NAME",
        )
    if records < pilot.opened:
        raise Conflict(
            f"the pilot of run {run} has {pilot.opened} records already",
            why="what was let go cannot be taken back",
            fix=f"name at least {pilot.opened}, or dispatcher runs accept {run}",
        )
    if pilot.wanted is None:
        rows.begin_pilot(tx, pilot.run_id, records, at)
    else:
        rows.enlarge_pilot(tx, pilot.run_id, records)
    _note(tx, at, actor, "pilot.begun", pilot.run_id, records)
    rows.choose_records(tx, pilot.run_id, records - pilot.opened)
    now = pilots.find(tx, run)
    assert now is not None
    return now


def fill(tx: Tx, run: str) -> int:
    """Release records that the pilot of a run still lacks; return how many."""
    pilot = pilots.lock(tx, run)
    if pilot is None or pilot.wanted is None:
        return 0
    return rows.choose_records(tx, pilot.run_id, pilot.wanted - pilot.opened)


def accept(store: Store, run: str, at: int, actor: str) -> int:
    """End the pilot of a run; return how many records waited for it.

    Raises
    ------
    NotFound
        There is no such run.
    Conflict
        It has no pilot.
    """
    with store.write() as tx:
        pilot = pilots.lock(tx, run)
        if pilot is None:
            raise no_run(tx, run)
        if pilot.wanted is None:
            raise Conflict(
                f"run {run} has no pilot",
                why="it never had one, or it was accepted",
                fix="nothing has to be done",
            )
        waited = rows.accept_pilot(tx, pilot.run_id)
        _note(tx, at, actor, "pilot.accepted", pilot.run_id, waited)
    return waited


def no_run(tx: Tx, run: str) -> NotFound:
    """Return the error for an unknown run."""
    known = statistics.runs(tx)
    return NotFound(
        f"there is no run {run!r}",
        why=f"there are: {', '.join(known) or 'none'}",
        fix="load records first: dispatcher records load FILE",
        name=run,
        known=known,
    )


def _note(tx: Tx, at: int, actor: str, action: str, run_id: int, records: int) -> None:
    detail = {"run": run_id, "records": records}
    events.add_event(tx, at, actor, action, detail)


LONGEST: Final = 100


def check_run_name(name: str) -> None:
    """Refuse a name that could be confused with another, or cannot be typed.

    Raises
    ------
    Usage
        It is empty, too long, has spaces around it, or does not print.
    """
    if not name or name.strip() != name or len(name) > LONGEST:
        fault = f"it takes 1 to {LONGEST} characters, with no space around them"
    elif not name.isprintable():
        fault = "it has a character that cannot be shown"
    else:
        return
    raise Usage(
        "that is no name for a run",
        why=fault,
        fix="name it in a word or two: --run november",
    )
