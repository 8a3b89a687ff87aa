"""The store's files and schema: create, upgrade, rekey, scrub and compare them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dispatcher.core.config import CONFIG_NAME, STARTER
from dispatcher.core.errors import Conflict, NoStore
from dispatcher.core.private_files import write_private
from dispatcher.custody.key_rotation import Rekeyed, rekey_store
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.operations.backups import before_upgrade
from dispatcher.operations.workspace import Workspace
from dispatcher.store import open_store, upgrades
from dispatcher.store import rekey as rekey_rows
from dispatcher.store.upgrades import SchemaState
from policies.document.samples import sample_text

IGNORED = "*.db*\n*.key\nspool/\nledger/\nbackups/\n*.rejected.csv\n"
"""Entries of a new directory's ``.gitignore``: all that may contain values or keys."""


@dataclass(frozen=True)
class Initialised:
    """A new directory: the files that were written, and where the store is."""

    written: tuple[Path, ...]
    store: str


@dataclass(frozen=True)
class SavedBackup:
    """The backup that was made before an upgrade."""

    id: str
    path: Path
    lines: int


def init(workspace: Workspace, template: str, *, dry_run: bool = False) -> Initialised:
    """Write settings, a first policy, an empty store with its key, and ``.gitignore``.

    Existing settings stay unchanged; what is missing, such as the store, is created.

    Parameters
    ----------
    workspace : Workspace
    template : str
        Name of an example policy of the package.
    dry_run : bool
        Say what would be written; write nothing.

    Raises
    ------
    Conflict
        The directory has settings already, and their store exists.
    """
    directory = workspace.directory
    settings = directory / CONFIG_NAME
    if settings.exists() and _is_store(workspace):
        raise Conflict(
            f"{settings} is here already, and so is its store",
            why="init never overwrites a directory in use",
            fix="go on with it, or choose another directory with --dir",
        )
    ignore = directory / ".gitignore"
    if dry_run:
        wanted = (settings, workspace.policy_path, ignore)
        missing = tuple(path for path in wanted if not path.exists())
        return Initialised(missing, str(workspace.store_url))
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The store first: if it cannot be created, nothing is left behind.
    with open_store(
        workspace.store_url,
        create=True,
        password_allowed=workspace.store_is_private,
        key_file=workspace.key_file,
    ) as store:
        place = store.place
    written = []
    if not settings.exists():
        written.append(write_private(settings, STARTER, replace=False))
    if not workspace.policy_path.exists():
        example = sample_text(template)
        written.append(write_private(workspace.policy_path, example, replace=False))
    if not ignore.exists():
        written.append(write_private(ignore, IGNORED, replace=False))
    return Initialised(tuple(written), place)


def _is_store(workspace: Workspace) -> bool:
    try:
        workspace.open_store(older=True).close()
    except NoStore:
        return False
    return True


def state(workspace: Workspace) -> SchemaState:
    """Return the store's schema, and the one that this program needs."""
    return upgrades.state(
        workspace.store_url, password_allowed=workspace.store_is_private
    )


def upgrade_script(workspace: Workspace) -> str:
    """Return the SQL statements of an upgrade; nothing is changed."""
    return upgrades.script(
        workspace.store_url, password_allowed=workspace.store_is_private
    )


def back_up_before_upgrade(workspace: Workspace) -> SavedBackup | None:
    """Create and verify a backup before an upgrade; None if nothing would change."""
    now = state(workspace)
    if now.found is None or not now.steps:
        return None
    made = before_upgrade(workspace)
    return SavedBackup(made.id, made.path, made.lines)


def upgrade(workspace: Workspace) -> SchemaState:
    """Apply missing migrations, all or none; return the state before."""
    return upgrades.upgrade(
        workspace.store_url, password_allowed=workspace.store_is_private
    )


def rekey(
    workspace: Workspace,
    *,
    new_key: bool,
    forget_old: bool,
    progress: Callable[[Rekeyed], None] | None = None,
) -> Rekeyed:
    """Encrypt values that are in clear, and wrap data keys under the current key.

    Parameters
    ----------
    workspace : Workspace
    new_key : bool
        Make a new key first.
    forget_old : bool
        At the end remove old keys from the key file.
    progress : callable, optional
        Called now and then with the counts so far.
    """
    with workspace.open_store() as store:
        return rekey_store(
            store,
            workspace.key_file,
            new_key=new_key,
            forget_old=forget_old,
            progress=progress,
        )


@dataclass(frozen=True)
class KeysInUse:
    """What a rekeying would find: values in clear, and the keys that wrap others."""

    in_clear: int
    keys: tuple[str, ...]


def keys_in_use(workspace: Workspace) -> KeysInUse:
    """Return what a rekeying would find."""
    with workspace.open_store() as store, store.read() as tx:
        clear = sum(rekey_rows.remaining(tx).values())
        return KeysInUse(clear, tuple(sorted(rekey_rows.wrapping_keys(tx))))


def scrub(workspace: Workspace) -> None:
    """Purge deleted values from the store's files."""
    with workspace.open_store() as store:
        store.scrub()


def check(workspace: Workspace) -> None:
    """Compare the store's tables with this program's, and their rows with the ledger.

    Raises
    ------
    NeedsMigration
        The tables are not this program's.
    StoreEdited
        Rows that the gate trusts were edited.
    """
    upgrades.check(workspace.store_url, password_allowed=workspace.store_is_private)
    with workspace.open_store() as store:
        refuse_edited(store)
