"""Translation of driver errors into errors for the caller.

The drivers' own messages can contain values of rows (PostgreSQL's DETAIL line does), so
none of them is passed on: only codes and the names of tables and constraints are.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from dispatcher.core.errors import (
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
"""Message of the triggers of append-only tables."""

_BROKEN: Final = re.compile(r"constraint failed:? ?([\w., ]{0,200})")


_UNREACHABLE: Final = "the PostgreSQL server of the store cannot be reached"
_LOOK: Final = "Check that it runs, its address, and ~/.pgpass; then run it again."


class Clash(Conflict):
    """A row breaks a constraint: it exists already, or its value is not allowed.

    ``constraint`` names the constraint, or the columns (SQLite names the columns of a
    unique one: ``run.name``).
    """

    def __init__(self, constraint: str) -> None:
        super().__init__(
            f"the store refuses a row: {constraint}",
            why="A row like it exists already, or a value is missing or outside its range.",
            fix="Look at what is there first; nothing was written.",
            facts={"constraint": constraint},
        )
        self.constraint = constraint


class Contended(StoreLocked):
    """The database ended a transaction in favour of another: nothing of it was kept."""


class NotKept(StoreUnreachable):
    """The connection broke, and nothing of the transaction was kept."""


def locked(what: str = "the store is locked") -> StoreLocked:
    """Error for a lock that was not given in time."""
    return StoreLocked(
        what,
        why="Another process or thread is writing.",
        fix="Try again; if it lasts, see who holds it: dispatcher status",
    )


def unreachable(why: str) -> NotKept:
    """Error for a PostgreSQL server that does not answer: nothing was begun."""
    return NotKept(_UNREACHABLE, why=why, fix=_LOOK)


def outcome_unknown() -> StoreUnreachable:
    """Return the error for a commit whose outcome could not be found out."""
    return StoreUnreachable(
        _UNREACHABLE,
        why="The connection broke in a commit, and the server could not be asked: what "
        "was being committed may or may not have been kept.",
        fix=_LOOK,
    )


def no_database() -> NoStore:
    """Error for a database that the server does not have."""
    return NoStore(
        "there is no such database on the PostgreSQL server",
        why="The name in --store is not one of its databases.",
        fix="Create it (createdb NAME), then run: dispatcher --store URL init",
    )


def contended() -> Contended:
    """Error for a deadlock or a serialisation failure."""
    return Contended(
        "two transactions stood in each other's way",
        why="The database ended this one; nothing of it was kept.",
        fix="Run it again; the program does so by itself where it can.",
    )


def not_kept() -> NotKept:
    """Error for a connection that broke with nothing committed."""
    return NotKept(
        "the connection to the PostgreSQL server of the store broke",
        why="It ended before the commit: nothing of this step was kept.",
        fix="Check that the server runs, and its address; then run it again.",
    )


def _append_only() -> DispatcherError:
    return Conflict(
        "the store refuses to change or remove a line once written",
        why="The ledger, its key lines and the applied policies are append-only.",
        fix="Write a new line that says what holds from now on.",
    )


def _damaged() -> StoreUnusable:
    return StoreUnusable(
        "the store file cannot be read",
        why="It is no SQLite database, or it is damaged.",
        fix="Restore it from a backup; keep the file as it is.",
    )


def _read_only() -> StoreUnusable:
    return StoreUnusable(
        "the store is read-only",
        why="The file, its directory or its disk does not allow writing.",
        fix="Give the user who runs dispatcher write permission to both.",
    )


def _disk_full() -> StoreUnusable:
    return StoreUnusable(
        "the disk of the store is full",
        why="The database could not write; nothing of this step was kept.",
        fix="Free some space, then run the command again.",
    )


def _closed_to_us() -> StoreUnusable:
    return StoreUnusable(
        "the store cannot be opened",
        why="The file or its directory is missing, on a disk that is mounted read-only, or "
        "closed to this user.",
        fix="Check the path, its permissions and how its disk is mounted.",
    )


def _other_tables() -> NeedsMigration:
    return NeedsMigration(
        "the store's tables are not the ones this program works with",
        why="A table or column is missing.",
        fix="Run: dispatcher db upgrade",
    )


def _unfit() -> Invalid:
    return Invalid(
        "a value does not fit its column",
        why="A number is beyond 64 bits, or a text has a character none can store.",
        fix="Check the input; nothing was written.",
    )


_Maker = Callable[[], DispatcherError]

_SQLITE: Final[tuple[tuple[str, _Maker], ...]] = (
    ("locked", locked),
    ("busy", locked),
    ("not a database", _damaged),
    ("malformed", _damaged),
    ("readonly", _read_only),
    ("read-only", _read_only),
    ("full", _disk_full),
    ("unable to open", _closed_to_us),
    ("no such table", _other_tables),
    ("no such column", _other_tables),
    ("no column named", _other_tables),
)


def sqlite_fault(error: Exception) -> DispatcherError | None:
    """Error that a user may see for an error of SQLite's driver.

    None when the driver is not to blame: a mistake of this program, to be shown as is.
    """
    name, message = type(error).__name__, str(error)
    if name == "IntegrityError":
        if APPEND_ONLY in message:
            return _append_only()
        found = _BROKEN.search(message)
        return Clash((found.group(1).strip() if found else "") or "a constraint")
    if isinstance(error, OverflowError | UnicodeEncodeError) or name == "DataError":
        return _unfit()
    if name not in {"OperationalError", "DatabaseError"}:
        return None
    for words, make in _SQLITE:
        if words in message:
            return make()
    return StoreUnusable(
        "the store failed",
        why=f"SQLite says: {_plain(message)}",
        fix="Check the disk and the file; dispatcher db check reports more.",
    )


def _plain(message: str) -> str:
    """First line of a message without anything in quotes."""
    lines = message.strip().splitlines() or ["no reason given"]
    return re.sub(r"\"[^\"]*\"|'[^']*'", "...", lines[0])[:200]


def _server_refuses(what: str) -> _Maker:
    return lambda: StoreUnusable(
        what,
        why="The PostgreSQL server says so.",
        fix="Mend it on the server, then run the command again.",
    )


_POSTGRES: Final[Mapping[str, _Maker]] = {
    # By the whole SQLSTATE, or by its class: the first two characters.
    "22": _unfit,
    "40001": contended,
    "40P01": contended,
    "55P03": locked,
    "57014": locked,
    "42P01": _other_tables,
    "42703": _other_tables,
    "3D000": no_database,
    "53100": _disk_full,
    "25006": _server_refuses("the PostgreSQL server takes no writes"),
    "42501": _server_refuses("this PostgreSQL user may not do that to the store"),
    "XX001": _server_refuses("PostgreSQL reports damaged data"),
    "XX002": _server_refuses("PostgreSQL reports a damaged index"),
    "08": not_kept,
    "53": not_kept,
    "57": not_kept,
}


def postgres_fault(error: Exception) -> DispatcherError | None:
    """Error that a user may see for an error of psycopg; None as for SQLite."""
    state, name = getattr(error, "sqlstate", None), type(error).__name__
    if state is None:
        if name in {"DataError", "UnicodeEncodeError", "OverflowError"}:
            return _unfit()
        return not_kept() if name == "OperationalError" else None
    if state.startswith("23"):
        return Clash(_constraint(error))
    if state == "P0001" and APPEND_ONLY in str(error).splitlines()[0]:
        return _append_only()
    make = _POSTGRES.get(state) or _POSTGRES.get(state[:2])
    return None if make is None else make()


def _constraint(error: Exception) -> str:
    diag = getattr(error, "diag", None)
    names = (
        getattr(diag, part, None)
        for part in ("constraint_name", "column_name", "table_name")
    )
    return next((name for name in names if name), "a constraint")
