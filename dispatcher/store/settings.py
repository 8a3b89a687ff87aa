"""Facts and keys of one store (table ``setting``)."""

from collections.abc import Callable
from typing import Final

from dispatcher.store.transaction import Tx

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
        tx.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO NOTHING",
            [name, entropy(KEY_BYTES)],
        )


def read_keys(tx: Tx) -> dict[str, bytes]:
    """All keys that the store has, by name."""
    found = tx.rows("SELECT name, value FROM setting WHERE name = ANY(?)", [KEYS])
    return {name: bytes(value) for name, value in found}
