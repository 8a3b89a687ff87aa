"""Facts and keys of one store (table ``setting``)."""

from collections.abc import Callable
from typing import Final

from dispatcher.core.keyring import ID_CHARS
from dispatcher.core.keys import place_of
from dispatcher.store.transaction import Tx
from dispatcher.store.vault import SEALING

KEYS: Final = ("pseudonym-key", "task-key", "token-key")
"""Random keys that a store is born with and keeps."""

KEY_BYTES: Final = 32


def setting(tx: Tx, name: str) -> bytes | None:
    """Value of a setting, or None."""
    value = tx.value("SELECT value FROM setting WHERE name = ?", [name])
    return None if value is None else bytes(value)


def set_setting(tx: Tx, name: str, value: bytes) -> None:
    """Write a setting."""
    tx.execute(
        "INSERT INTO setting (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [name, value],
    )


def add_setting(tx: Tx, name: str, value: bytes) -> None:
    """Write a setting that is not there; one that is stays as it is."""
    tx.execute(
        "INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        [name, value],
    )


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
    found = tx.rows("SELECT name FROM setting WHERE name = ANY(?)", [KEYS])
    return [row[0] for row in found]


def read_keys(tx: Tx) -> dict[str, bytes]:
    """All keys that the store has, by name; sealed ones are opened.

    Raises
    ------
    WrongKey
        They are sealed, and the key file is missing or another store's.
    """
    found = tx.rows("SELECT name, value FROM setting WHERE name = ANY(?)", [KEYS])
    return {name: _opened(tx, name, bytes(value)) for name, value in found}


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
