"""A driver's error becomes one that says what to do, and never a value."""

from types import SimpleNamespace

import psycopg
import pytest

from dispatcher.core.errors import (
    Conflict,
    DispatcherError,
    Invalid,
    NeedsMigration,
    NoStore,
    StoreLocked,
    StoreUnusable,
)
from dispatcher.store.driver_errors import (
    Clash,
    Contended,
    NotKept,
    postgres_fault,
    sqlite_fault,
)
from dispatcher.store.sqlite import safe_driver

driver = safe_driver()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (driver.OperationalError("database is locked"), StoreLocked),
        (driver.OperationalError("database table is locked: t"), StoreLocked),
        (
            driver.OperationalError("attempt to write a readonly database"),
            StoreUnusable,
        ),
        (driver.OperationalError("database or disk is full"), StoreUnusable),
        (driver.OperationalError("unable to open database file"), StoreUnusable),
        (driver.OperationalError("disk I/O error"), StoreUnusable),
        (driver.DatabaseError("file is not a database"), StoreUnusable),
        (driver.DatabaseError("database disk image is malformed"), StoreUnusable),
        (driver.OperationalError("no such table: task"), NeedsMigration),
        (driver.OperationalError("no such column: x"), NeedsMigration),
        (driver.IntegrityError("UNIQUE constraint failed: run.name"), Clash),
        (driver.IntegrityError("ledger_line is append-only"), Conflict),
        (driver.DataError("string or blob too big"), Invalid),
        (OverflowError("Python int too large to convert"), Invalid),
    ],
)
def test_sqlite_errors_say_what_to_do(
    error: Exception, kind: type[DispatcherError]
) -> None:
    found = sqlite_fault(error)
    assert type(found) is kind
    assert found is not None
    assert found.why
    assert found.fix


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("LockNotAvailable", StoreLocked),
        ("DeadlockDetected", Contended),
        ("SerializationFailure", Contended),
        ("AdminShutdown", NotKept),
        ("TooManyConnections", NotKept),
        ("InvalidCatalogName", NoStore),
        ("UndefinedTable", NeedsMigration),
        ("UniqueViolation", Clash),
        ("NumericValueOutOfRange", Invalid),
        ("UntranslatableCharacter", Invalid),
        ("DiskFull", StoreUnusable),
        ("ReadOnlySqlTransaction", StoreUnusable),
        ("InsufficientPrivilege", StoreUnusable),
        ("OperationalError", NotKept),
    ],
)
def test_postgres_errors_say_what_to_do(
    state: str, kind: type[DispatcherError]
) -> None:
    error = getattr(psycopg.errors, state, None) or getattr(psycopg, state)
    found = postgres_fault(error("Failing row contains (Anna Muster)."))
    assert type(found) is kind
    assert found is not None
    assert "Anna" not in f"{found.what}{found.why}{found.fix}{found.facts}"


def test_a_mistake_of_the_program_is_shown_as_it_is() -> None:
    assert sqlite_fault(driver.ProgrammingError("Incorrect number of bindings")) is None
    assert postgres_fault(psycopg.errors.SyntaxError("syntax error")) is None
    assert postgres_fault(psycopg.InterfaceError("the cursor is closed")) is None


def test_what_is_quoted_in_an_unknown_message_is_left_out() -> None:
    error = driver.OperationalError("odd 'Anna Muster' near \"Hauptstr. 1\"\nAnna")
    found = sqlite_fault(error)
    assert found is not None
    assert found.why == "SQLite says: odd ... near ..."


def test_a_clash_names_the_constraint() -> None:
    found = sqlite_fault(
        driver.IntegrityError("CHECK constraint failed: ck_task_state")
    )
    assert isinstance(found, Clash)
    assert found.constraint == "ck_task_state"


def test_a_clash_without_a_name_is_still_one() -> None:
    violation = SimpleNamespace(sqlstate="23505", diag=SimpleNamespace())
    found = postgres_fault(violation)  # type: ignore[arg-type]
    assert isinstance(found, Clash)
    assert found.constraint == "a constraint"
