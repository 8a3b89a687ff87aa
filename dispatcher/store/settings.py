"""Facts and keys of one store (table ``setting``): moments and results among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, cast, delete, func
from sqlmodel import col, select

from dispatcher.core.keyring import ID_CHARS
from dispatcher.core.keys import place_of
from dispatcher.model import Setting
from dispatcher.store.statements import in_list, insert
from dispatcher.store.transaction import Tx
from dispatcher.store.vault import SEALING

KEYS: Final = ("pseudonym-key", "task-key", "token-key")
"""Random keys that a store is born with and keeps."""

KEY_BYTES: Final = 32


_VALUE: Final = select(Setting.value).where(Setting.name == bindparam("setting"))
_LOCKED: Final = _VALUE.with_for_update()
_ALL_OF: Final = (
    select(Setting.name, Setting.value)
    .where(in_list(Setting.name, "names"))
    .order_by(col(Setting.name))
)
_BEGINNING: Final = (
    select(Setting.value)
    .where(col(Setting.name).startswith(bindparam("beginning"), autoescape=False))
    .order_by(col(Setting.name))
)
_NEW: Final = insert(Setting).values(
    name=bindparam("setting"), value=bindparam("content")
)
_ADD: Final = _NEW.on_conflict_do_nothing(index_elements=["name"])
_SET: Final = _NEW.on_conflict_do_update(
    index_elements=["name"], set_={"value": _NEW.excluded.value}
)
_HOLD: Final = _NEW.on_conflict_do_update(
    index_elements=["name"], set_={"value": col(Setting.value)}
).returning(col(Setting.value))
_NOW: Final = select(
    cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
)
_DROP: Final = delete(Setting).where(col(Setting.name) == bindparam("setting"))
_DROP_IF: Final = _DROP.where(col(Setting.value) == bindparam("content"))


def setting(tx: Tx, name: str, *, lock: bool = False) -> bytes | None:
    """Value of a setting, or None; locked until the end of the transaction if asked."""
    return tx.scalar(_LOCKED if lock else _VALUE, {"setting": name})


def settings_beginning(tx: Tx, beginning: str) -> list[bytes]:
    """Values of all settings whose names begin so, by name."""
    return tx.scalars(_BEGINNING, {"beginning": beginning})


def set_setting(tx: Tx, name: str, value: bytes) -> None:
    """Write a setting."""
    tx.execute(_SET, {"setting": name, "content": value})


def add_setting(tx: Tx, name: str, value: bytes) -> None:
    """Write a setting that is not there; one that is stays as it is."""
    tx.execute(_ADD, {"setting": name, "content": value})


def hold_setting(tx: Tx, name: str, first: bytes) -> bytes:
    """Value of a setting, locked until the end of the transaction.

    Where there is none it is made with the value ``first``: two who come at once wait
    for each other then too.
    """
    found = tx.scalar(_HOLD, {"setting": name, "content": first})
    assert found is not None
    return bytes(found)


def drop_setting(tx: Tx, name: str, value: bytes | None = None) -> None:
    """Delete a setting; with ``value``, only if it has that value."""
    if value is None:
        tx.execute(_DROP, {"setting": name})
    else:
        tx.execute(_DROP_IF, {"setting": name, "content": value})


def make_keys(tx: Tx, entropy: Callable[[int], bytes]) -> None:
    """Make the keys that are missing; those that are there stay as they are.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    entropy : Callable[[int], bytes]
        So many random bytes, fit for keys (``os.urandom``).
    """
    for name in KEYS:
        add_setting(tx, name, entropy(KEY_BYTES))


def key_names(tx: Tx) -> list[str]:
    """Names of the keys that the store has."""
    return [row.name for row in tx.execute(_ALL_OF, {"names": KEYS})]


def read_keys(tx: Tx) -> dict[str, bytes]:
    """All keys that the store has, by name; sealed ones are opened.

    Raises
    ------
    WrongKey
        They are sealed, and the key file is missing or another store's.
    """
    found = tx.execute(_ALL_OF, {"names": KEYS}).all()
    return {name: _opened(tx, name, value) for name, value in found}


def start_sealing(tx: Tx, kek: str) -> None:
    """Seal the store's keys under a wrapping key, and new values from now on.

    Also what follows a new wrapping key: what was sealed under another is sealed anew.
    """
    for name, key in read_keys(tx).items():
        wrapped = tx.vault.wrap(kek, place_of(f"setting.{name}", 0), key)
        set_setting(tx, name, kek.encode() + wrapped)
    set_setting(tx, SEALING, kek.encode())


def _opened(tx: Tx, name: str, value: bytes) -> bytes:
    if len(value) == KEY_BYTES:
        return value  # in clear
    kek, wrapped = value[:ID_CHARS].decode("ascii", "replace"), value[ID_CHARS:]
    return tx.vault.unwrap(place_of(f"setting.{name}", 0), kek, wrapped)


# -- when something was last done well ---------------------------------------------------

LEDGER_VERIFIED: Final = "ledger-verified"
BACKUP_MADE: Final = "backup-made"


def note_moment(tx: Tx, name: str, at: int) -> None:
    """Keep that it was done at a moment (microseconds UTC)."""
    set_setting(tx, name, str(at).encode())


def moment(tx: Tx, name: str) -> int | None:
    """When it was last done; None if never."""
    found = setting(tx, name)
    return None if found is None else int(found)


# -- what the daemon cannot do -----------------------------------------------------------

_FAILING: Final = "failing-ticks"


@dataclass(frozen=True)
class TickFailure:
    """A tick of the daemon that fails each time: its error's code, and since when."""

    code: str
    since: int


def failing_ticks(tx: Tx) -> dict[str, TickFailure]:
    """Return the ticks that fail, by name."""
    found = json.loads(setting(tx, _FAILING) or b"{}")
    return {name: TickFailure(*each) for name, each in sorted(found.items())}


def note_failing_ticks(tx: Tx, failing: Mapping[str, TickFailure]) -> None:
    """Keep the ticks that fail now, and no others."""
    kept = {name: [one.code, one.since] for name, one in failing.items()}
    set_setting(tx, _FAILING, json.dumps(kept).encode())


# -- that the leader lets servers show ---------------------------------------------------

_OPENED: Final = "opened"


@dataclass(frozen=True)
class Opened:
    """What the daemon of an epoch tells servers, once it has compared store and ledger.

    Attributes
    ----------
    epoch : int
        Of its lease.
    ships : bool
        Whether it ships the ledger: then whoever books waits for that.
    """

    epoch: int
    ships: bool


def note_opened(tx: Tx, opened: Opened) -> None:
    """Keep that servers may show something beside the daemon of an epoch."""
    set_setting(tx, _OPENED, json.dumps(astuple(opened)).encode())


def opened(tx: Tx) -> Opened | None:
    """Return what the last daemon told that opened the store; None: none ever did."""
    found = setting(tx, _OPENED)
    return None if found is None else Opened(*json.loads(found))


def database_time(tx: Tx) -> int:
    """Return the time of day of the database server (microseconds UTC)."""
    return int(tx.scalar(_NOW) or 0)


# -- how many workers must stay active --------------------------------------------------

_SAFE_WORKERS: Final = "safe-workers"


@dataclass(frozen=True)
class SafeWorkers:
    """How many workers must stay active so that no field is left without one.

    Attributes
    ----------
    needed : int or None
        With at least so many, every open field finds an active worker who may see it,
        whatever the order of showings; 0 where nothing is open, None where no number is
        proven (a limit on an average).
    present : int
        Workers that are active; several accounts of one count once.
    field : str
        The field that needs most, "" where nothing is open.
    choosing : bool
        Whether workers choose what they are shown, so that no plan vouches for fewer.
    """

    needed: int | None
    present: int
    field: str = ""
    choosing: bool = False

    @property
    def short(self) -> bool:
        """Whether fewer are active than must be."""
        return self.needed is not None and self.present < self.needed


def safe_workers(tx: Tx) -> SafeWorkers | None:
    """Return what planning counted last; None if it never did."""
    found = setting(tx, _SAFE_WORKERS)
    return None if found is None else SafeWorkers(*json.loads(found))


def note_safe_workers(tx: Tx, found: SafeWorkers) -> None:
    """Keep what planning counted."""
    set_setting(tx, _SAFE_WORKERS, json.dumps(astuple(found)).encode())


# -- whether the daemon is making a plan -------------------------------------------------

_PLANNING: Final = "planning-since"


def note_planning(tx: Tx, epoch: int, at: int | None) -> None:
    """Keep since when the daemon of an epoch makes a plan; None: it does not."""
    set_setting(tx, _PLANNING, json.dumps([epoch, at]).encode())


def planning_since(tx: Tx, epoch: int) -> int | None:
    """Return since when the daemon of an epoch makes a plan; None: it does not."""
    found, at = json.loads(setting(tx, _PLANNING) or b"[0, null]")
    return at if found == epoch else None


# -- what tests of connectors' isolation came to -----------------------------------------

_ISOLATION: Final = "probed"


def note_isolation(tx: Tx, connector: str, result: dict[str, Any]) -> None:
    """Keep what a connector's walls were found to be; what was known before goes."""
    set_setting(
        tx,
        _ISOLATION,
        json.dumps({**_isolation_results(tx), connector: result}).encode(),
    )


def isolation_result(tx: Tx, connector: str) -> dict[str, Any] | None:
    """Return what was kept of a connector; None where nobody has tried."""
    found: dict[str, Any] | None = _isolation_results(tx).get(connector)
    return found


def _isolation_results(tx: Tx) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(setting(tx, _ISOLATION) or b"{}")
    return found


# -- how a connector is: each a setting of its own, written by the daemon ---------------

_CIRCUIT, _BALANCE = "circuit.", "balance."


class CircuitRow(NamedTuple):
    """A circuit that is not closed.

    Attributes
    ----------
    since, until : int
        Since when the connector fails, and when it is called again.
    failures : int
        In a row.
    error : str
        The last one, without a value.
    """

    since: int
    until: int
    failures: int
    error: str


def note_circuit(tx: Tx, connector: str, found: CircuitRow | None) -> None:
    """Keep what a connector's circuit is; None: it is closed."""
    if found is None:
        drop_setting(tx, _CIRCUIT + connector)
    else:
        set_setting(tx, _CIRCUIT + connector, json.dumps(found).encode())


def circuit(tx: Tx, connector: str) -> CircuitRow | None:
    """Return a connector's circuit; None: it is closed."""
    found = setting(tx, _CIRCUIT + connector)
    return None if found is None else CircuitRow(*json.loads(found))


def note_balance(tx: Tx, connector: str, amount: str, at: int) -> None:
    """Keep what is left in a connector's account, as a market told."""
    set_setting(tx, _BALANCE + connector, json.dumps([amount, at]).encode())


def balance(tx: Tx, connector: str) -> tuple[str, int] | None:
    """Return what was left in a connector's account, and when; None: nobody asked."""
    found = setting(tx, _BALANCE + connector)
    if found is None:
        return None
    amount, at = json.loads(found)
    return amount, at


# -- folders that backups were written to, each a setting of its own -------------------

OWN_FOLDER: Final = ""
"""The folder of the settings, wherever that is."""

_BACKUP_FOLDER: Final = "backup-folder."


class BackupFolder(NamedTuple):
    """A folder, and the name of the last backup made there; "" while none was."""

    folder: str
    last: str


def backup_folders(tx: Tx) -> list[BackupFolder]:
    """All of them, sorted."""
    return sorted(
        BackupFolder(*json.loads(one)) for one in settings_beginning(tx, _BACKUP_FOLDER)
    )


def note_backup_folder(tx: Tx, folder: str, last: str = "") -> None:
    """Keep that a backup was written to a folder; without ``last``, that one will be."""
    write = set_setting if last else add_setting
    write(tx, _folder_setting(folder), _folder_value(folder, last))


def take_back_folder(tx: Tx, folder: str) -> None:
    """Forget a folder that no backup was written to after all."""
    drop_setting(tx, _folder_setting(folder), _folder_value(folder, ""))


def forget_backup_folder(tx: Tx, folder: str) -> None:
    """Forget a folder: nothing is left of its backups."""
    drop_setting(tx, _folder_setting(folder))


def _folder_setting(folder: str) -> str:
    return (
        _BACKUP_FOLDER
        + hashlib.sha256(folder.encode(errors="surrogateescape")).hexdigest()[:24]
    )


def _folder_value(folder: str, last: str) -> bytes:
    return json.dumps([folder, last]).encode()
