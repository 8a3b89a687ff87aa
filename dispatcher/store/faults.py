"""What a driver's error means for the caller.

The drivers' own messages can hold values of rows (PostgreSQL's DETAIL line does), so
none of them is passed on: only codes and the names of tables and constraints are.
"""

import re
from typing import Final

from dispatcher.errors import (
    Conflict,
    DispatcherError,
    Invalid,
    NeedsMigration,
    NoStore,
    StoreLocked,
    StoreUnreachable,
    StoreUnusable,
)

APPEND_ONLY: Final = "append-only"
"""The word that the triggers of append-only tables refuse with."""

_NAME: Final = re.compile(r"(?:failed|violates \w+ constraint):? \"?([\w., ]{1,200})")
_LOCKED_FIX: Final = "Try again; if it lasts, see who holds it: dispatcher status."


class Clash(Conflict):
    """A row breaks a constraint: it exists already, or its value is not allowed.

    ``constraint`` names the constraint, or the columns (SQLite names the columns of a
    unique one: ``run.name``).
    """

    def __init__(self, constraint: str) -> None:
        super().__init__(
            f"the store refuses a row: {constraint}",
            why="A row like it exists already, or a value is outside its range.",
            fix="Look at what is there first; nothing was written.",
            facts={"constraint": constraint},
        )
        self.constraint = constraint


def append_only() -> DispatcherError:
    """Error for a change to a line that must stay as it was written."""
    return Conflict(
        "the store refuses to change or remove a line once written",
        why="The ledger, its key lines and the applied policies are append-only.",
        fix="Write a new line that says what holds from now on.",
    )


def locked(what: str) -> StoreLocked:
    """Error for a lock that was not given in time."""
    return StoreLocked(
        what, why="Another process or thread is writing.", fix=_LOCKED_FIX
    )


def damaged(reason: str) -> StoreUnusable:
    """Error for a store file that can not be read as one."""
    return StoreUnusable(
        "the store file can not be read",
        why=reason,
        fix="Restore it from a backup (dispatcher restore); keep the file as it is.",
    )


def _sqlite_operational(message: str) -> DispatcherError:
    if "locked" in message or "busy" in message:
        return locked("the store is locked")
    if "readonly" in message or "read-only" in message:
        return StoreUnusable(
            "the store is read-only",
            why="The file, its directory or its disk does not allow writing.",
            fix="Give the user who runs dispatcher write permission to both.",
        )
    if "full" in message:
        return StoreUnusable(
            "the disk of the store is full",
            why="SQLite could not write; nothing of this step was kept.",
            fix="Free some space, then run the command again.",
        )
    if "unable to open" in message:
        return StoreUnusable(
            "the store can not be opened",
            why="The file or its directory is missing or closed to this user.",
            fix="Check the path and its permissions (dispatcher doctor).",
        )
    if "no such table" in message or "no such column" in message:
        return NeedsMigration(
            "the store's tables are not the ones this program works with",
            why="A table or column is missing.",
            fix="Run: dispatcher db upgrade",
        )
    return StoreUnusable(
        "the store failed",
        why=f"SQLite says: {_plain(message)}",
        fix="Run: dispatcher doctor --only store",
    )


def _plain(message: str) -> str:
    """First line of a message without anything in quotes."""
    first = message.strip().splitlines()[0] if message.strip() else "no reason given"
    return re.sub(r"\"[^\"]*\"|'[^']*'", "...", first)[:200]


def sqlite_fault(error: Exception) -> DispatcherError | None:
    """Error that a user may see for an error of SQLite's driver.

    None when the driver is not to blame: a mistake of this program, to be shown as is.
    """
    name, message = type(error).__name__, str(error)
    if name == "IntegrityError":
        if APPEND_ONLY in message:
            return append_only()
        found = _NAME.search(message)
        return Clash(found.group(1).strip() if found else "constraint")
    if "not a database" in message or "malformed" in message:
        return damaged("It is no SQLite database, or it is damaged.")
    if name == "OperationalError":
        return _sqlite_operational(message)
    if isinstance(error, (OverflowError, UnicodeEncodeError)) or name == "DataError":
        return _unfit()
    if name == "DatabaseError":
        return damaged(f"SQLite says: {_plain(message)}")
    return None


def _unfit() -> Invalid:
    return Invalid(
        "a value does not fit its column",
        why="A number is beyond 64 bits, or a text has a character none can store.",
        fix="Check the input; nothing was written.",
    )


_BY_SQLSTATE: Final = {
    "53100": "the disk of the PostgreSQL server is full",
    "25006": "the PostgreSQL server takes no writes (it is a standby, or read-only)",
    "42501": "this PostgreSQL user may not do that to the store",
    "XX001": "PostgreSQL reports damaged data",
    "XX002": "PostgreSQL reports a damaged index",
}


def postgres_fault(error: Exception) -> DispatcherError | None:
    """Error that a user may see for an error of psycopg; None as for SQLite."""
    state = getattr(error, "sqlstate", None)
    name = type(error).__name__
    if state is None:
        return _without_state(name)
    if state in {"40001", "40P01", "55P03", "57014"}:
        return locked("the store is busy: a lock was not given in time")
    if state.startswith("23"):
        diag = getattr(error, "diag", None)
        parts = [
            getattr(diag, part, None)
            for part in ("constraint_name", "column_name", "table_name")
        ]
        return Clash(next((part for part in parts if part), "constraint"))
    if state == "P0001" and APPEND_ONLY in str(error).splitlines()[0]:
        return append_only()
    if state.startswith("22"):
        return _unfit()
    if state in {"42P01", "42703"}:
        return NeedsMigration(
            "the store's tables are not the ones this program works with",
            why="A table or column is missing.",
            fix="Run: dispatcher db upgrade",
        )
    if state == "3D000":
        return NoStore(
            "there is no such database on the PostgreSQL server",
            why="The name in --store is not one of its databases.",
            fix="Create it (createdb), then run: dispatcher init --store URL",
        )
    if state in _BY_SQLSTATE:
        return StoreUnusable(
            _BY_SQLSTATE[state],
            why=f"PostgreSQL refused with code {state}.",
            fix="Mend it on the server, then run the command again.",
        )
    if state[:2] in {"08", "57", "53", "28"}:
        return unreachable(f"PostgreSQL refused with code {state}.")
    return None


def _without_state(name: str) -> DispatcherError | None:
    if name in {"OperationalError", "ConnectionTimeout", "InterfaceError"}:
        return unreachable("The connection could not be made, or broke.")
    if name in {"DataError", "UnicodeEncodeError"}:
        return _unfit()
    return None


def unreachable(why: str) -> StoreUnreachable:
    """Error for a PostgreSQL server that does not answer."""
    return StoreUnreachable(
        "the PostgreSQL server of the store can not be reached",
        why=why + " A commit under way may or may not have been kept.",
        fix="Check that it runs, its address and ~/.pgpass; then run it again.",
    )
