"""What ``dispatcher db`` does: look at the schema, upgrade it, compare it."""

import os
from dataclasses import dataclass
from pathlib import Path

from dispatcher.core.errors import NeedsMigration
from dispatcher.store import migrations
from dispatcher.store.backend import Backend
from dispatcher.store.checks import missing_guards
from dispatcher.store.engine import Entropy, Store, bring_up, make_backend
from dispatcher.store.settings import key_names


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Schema of a store beside the one that this program works with.

    Attributes
    ----------
    place : str
        Where the store is.
    found : str or None
        Its last migration; None for an empty database.
    wanted : str
        This program's last migration.
    steps : tuple[str, ...]
        Migrations still to be applied, in order.
    """

    place: str
    found: str | None
    wanted: str
    steps: tuple[str, ...]

    @property
    def newer(self) -> bool:
        """Whether a newer program has changed the store."""
        return self.found is not None and self.found > self.wanted

    @property
    def ready(self) -> bool:
        """Whether the store has just the schema that is wanted."""
        return self.found == self.wanted


def state(location: str | Path, *, password_allowed: bool = False) -> SchemaState:
    """Look at a store's schema, whatever it is.

    Raises
    ------
    NoStore
        There is no file or no database.
    """
    return _state(make_backend(location, password_allowed=password_allowed))


def upgrade(
    location: str | Path,
    *,
    password_allowed: bool = False,
    entropy: Entropy = os.urandom,
) -> SchemaState:
    """Apply what is missing, and make the keys that are; all or nothing.

    A daemon of the older program that runs meanwhile is fenced off: it loses its lease,
    writes nothing more behind the gate, and ends.

    Returns
    -------
    SchemaState
        The state before: its ``steps`` are those that were applied.

    Raises
    ------
    NeedsMigration
        The store is newer than this program.
    """
    backend = make_backend(location, password_allowed=password_allowed)
    before = _state(backend)
    if before.newer:
        migrations.check_version(before.found, before.place)
    bring_up(backend, entropy)
    return before


def script(location: str | Path, *, password_allowed: bool = False) -> str:
    """SQL of the upgrade that :func:`upgrade` would do, for reading or by hand."""
    backend = make_backend(location, password_allowed=password_allowed)
    before = _state(backend)
    if before.newer:
        migrations.check_version(before.found, before.place)
    return migrations.script(backend.name, before.found)


def check(location: str | Path, *, password_allowed: bool = False) -> None:
    """Compare a store's tables with the model of this program.

    Raises
    ------
    NoStore, NeedsMigration
        There is no schema, it has another version, a key is missing, or a table or a
        trigger is not as this program makes it (somebody changed it by hand).
    """
    backend = make_backend(location, password_allowed=password_allowed)
    before = _state(backend)
    migrations.check_version(before.found, before.place)
    with Store(backend) as store, store.read() as tx:
        migrations.check_keys(key_names(tx))
        found = [f"no trigger {name} at work" for name in missing_guards(tx)]
    found += migrations.differences(backend)
    if found:
        raise NeedsMigration(
            f"the store's tables differ from the model in {len(found)} places",
            why=f"The first: {found[0][:200]}",
            fix="They were changed by hand: undo that, or restore a backup.",
            facts={"differences": len(found)},
        )


def _state(backend: Backend) -> SchemaState:
    with Store(backend) as store, store.read() as tx:
        found = migrations.version(tx)
    newer = found is not None and found > migrations.HEAD
    steps = () if newer else tuple(migrations.pending(found))
    return SchemaState(backend.place, found, migrations.HEAD, steps)
