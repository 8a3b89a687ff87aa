"""A store's schema: its version, and upgrades by alembic.

The scripts lie in ``alembic/`` beside the package in a checkout, and inside the
package when it was installed from a wheel. A whole upgrade is one transaction on both
databases, and two upgrades at once wait for each other.
"""

import io
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, String, column, func, select, table, text
from sqlalchemy.exc import DBAPIError

import dispatcher
from dispatcher.core.errors import Invalid, NeedsMigration, NoStore
from dispatcher.store import lease
from dispatcher.store.backend import Backend
from dispatcher.store.settings import KEYS
from dispatcher.store.transaction import Tx

_ALONE: Final = threading.Lock()
"""Alembic keeps its state in its modules: one thread at a time."""

_UPGRADE_LOCK: Final = 0x73_70_61_72_73_69
"""Number of the advisory lock that PostgreSQL's upgrades take."""


def script_directory() -> Path:
    """Return where the migration scripts lie.

    A checkout's own scripts come first: an editable install may keep a stale copy. The
    directory of the alembic library, next to an installed package, is recognised by its
    ``__init__.py``.
    """
    package = Path(dispatcher.__file__).resolve().parent
    beside = package.parent / "alembic"
    if (beside / "env.py").is_file() and not (beside / "__init__.py").exists():
        return beside
    return package / "_alembic"


def configuration(**attributes: Any) -> Any:  # noqa: ANN401
    """Alembic's configuration, made in code; ``attributes`` reach ``env.py``."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config(output_buffer=io.StringIO(), stdout=io.StringIO())
    location = str(script_directory()).replace("%", "%%")
    config.set_main_option("script_location", location)
    config.set_main_option("path_separator", "os")
    config.attributes.update(attributes)
    return config


def upgrade(
    backend: Backend,
    *,
    to: str = "head",
    fill: Callable[[Connection], None] | None = None,
) -> None:
    """Apply the migrations that the store lacks, up to one of them, all or none.

    In the same transaction the lease gets another epoch, unless nothing was lacking: a
    daemon of an older program that is running loses it, and writes nothing behind the
    gate of the new tables.

    Parameters
    ----------
    backend : Backend
    to : str
        Name of the last migration to apply.
    fill : Callable, optional
        Called at the end, inside the transaction, with its connection: what
        it writes is there as soon as the tables are, or neither is.
    """
    from alembic import command  # noqa: PLC0415
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    with _connection(backend) as connection:
        found = MigrationContext.configure(connection).get_current_revision
        before = found()
        command.upgrade(configuration(connection=connection), to)
        if found() != before:
            connection.execute(lease.FENCE)
        if fill is not None:
            fill(connection)


def draft(backend: Backend, revision: str, message: str) -> None:
    """Write the next migration from what the model has more than the store.

    For developers, see ``alembic/README.md``; the draft is to be read and corrected.
    """
    from alembic import command  # noqa: PLC0415

    with _connection(backend) as connection:
        command.revision(
            configuration(connection=connection),
            message,
            autogenerate=True,
            rev_id=revision,
        )


def script(dialect: str, since: str | None) -> str:
    """Return the SQL that :func:`upgrade` would run.

    Parameters
    ----------
    dialect : str
        ``sqlite`` or ``postgresql``.
    since : str or None
        The store's present migration; None for an empty database.
    """
    from alembic import command  # noqa: PLC0415

    config = configuration(dialect=dialect)
    command.upgrade(config, f"{since or 'base'}:head", sql=True)
    text_of_it = str(config.output_buffer.getvalue())
    fence = lease.FENCE.compile(compile_kwargs={"literal_binds": True})
    return f"{text_of_it}\n{fence};\n" if pending(since) else text_of_it


def pending(since: str | None) -> list[str]:
    """Names of the migrations after ``since``, in order."""
    if since == HEAD:
        return []
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts = ScriptDirectory.from_config(configuration())
    names = [step.revision for step in scripts.walk_revisions()][::-1]
    return [name for name in names if since is None or name > since]


def differences(backend: Backend) -> list[str]:
    """What the store's tables have more or less than the model, in alembic's words."""
    from alembic import command  # noqa: PLC0415
    from alembic.util.exc import AutogenerateDiffsDetected  # noqa: PLC0415

    with _connection(backend) as connection:
        try:
            command.check(configuration(connection=connection))
        except AutogenerateDiffsDetected as found:
            return [repr(step) for step in found.diffs]
    return []


@contextmanager
def _connection(backend: Backend) -> Iterator[Connection]:
    """One SQLAlchemy connection inside one transaction, alone among upgrades."""
    engine = backend.engine(writes=True)
    try:
        with _ALONE, engine.begin() as connection:
            if backend.name == "postgresql":
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:number)"),
                    {"number": _UPGRADE_LOCK},
                )
            yield connection
    except DBAPIError as error:
        original = error.orig
        assert isinstance(original, Exception)
        raise backend.fault(original) or error from None
    finally:
        engine.dispose()


# -- which schema a store has, and whether this program works with it ------------------

HEAD: Final = "0002"
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
