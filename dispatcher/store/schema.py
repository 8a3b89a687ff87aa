"""Which schema a store has, and whether this program works with it."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import String, column, func, select, table

from dispatcher.core.errors import Invalid, NeedsMigration, NoStore
from dispatcher.store.settings import KEYS
from dispatcher.store.transaction import Tx

HEAD: Final = "0001"
"""Name of the last migration: the schema that this program works with."""

_THERE: Final = {
    "sqlite": select(func.count())
    .select_from(table("sqlite_master", column("name")))
    .where(column("name") == "alembic_version"),
    "postgresql": select(func.to_regclass("alembic_version").is_not(None)),
}
_VERSION: Final = select(column("version_num", String())).select_from(
    table("alembic_version")
)


def check_location(location: str) -> None:
    """Refuse a URL of a database that no store can be kept in.

    Raises
    ------
    Invalid
        The scheme is unknown.
    """
    scheme, found, _ = location.partition("://")
    if found and location.removeprefix("sqlite:///") == location:
        raise Invalid(
            f"no store can be kept at a {scheme[:20]} URL",
            why="Stores live in a SQLite file or in PostgreSQL.",
            fix="Use a path, or postgresql://USER@HOST:PORT/DATABASE",
        )


def version(tx: Tx) -> str | None:
    """Name of the store's last migration; None for a database without tables of ours."""
    if not tx.scalar(_THERE[tx.dialect]):
        return None
    return tx.scalar(_VERSION)


def check_version(found: str | None, place: str) -> None:
    """Refuse a schema that is not :data:`HEAD`.

    Raises
    ------
    NoStore
        There is no schema at all.
    NeedsMigration
        It is older, or newer.
    """
    if found is None:
        raise NoStore(
            f"there is no store at {place}",
            why="The database has none of the store's tables.",
            fix="Make them with: dispatcher init (or dispatcher db upgrade)",
        )
    if found < HEAD:
        raise NeedsMigration(
            f"the store has schema {found}, this program works with {HEAD}",
            why="The program was updated after the store.",
            fix="Run: dispatcher db upgrade --backup",
            facts={"found": found, "wanted": HEAD},
        )
    if found > HEAD:
        raise NeedsMigration(
            f"the store has schema {found}, this program works with {HEAD}",
            why="A newer version of the program has changed the store.",
            fix="Run that version: pip install --upgrade sparsi-dispatcher",
            facts={"found": found, "wanted": HEAD},
        )


def check_keys(keys: Collection[str]) -> None:
    """Refuse a store whose keys were never made (its tables came from a script).

    Raises
    ------
    NeedsMigration
        A key is missing.
    """
    missing = [name for name in KEYS if name not in keys]
    if missing:
        raise NeedsMigration(
            f"the store has no {missing[0]}",
            why="Its tables were made by hand, and its random keys not yet.",
            fix="Run: dispatcher db upgrade",
        )
