"""``dispatcher db rekey``: encrypt a store that was in clear, change its wrapping key.

It works online, in bounded transactions, while the daemon runs. After an interruption
the next run continues.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

from dispatcher.core import keyring
from dispatcher.core.errors import Conflict
from dispatcher.store import Store, rekey
from dispatcher.store.engine import ensure_keyring
from dispatcher.store.settings import start_sealing
from dispatcher.store.vault import KeyFile

PIECE: Final = 500
"""Rows in one transaction."""

PASSES: Final = 5
"""Most passes over the store for rows written in clear meanwhile."""


@dataclass
class Rekeyed:
    """Summary of a run.

    Attributes
    ----------
    sealed : dict of str to int
        Rows by table whose values were in clear.
    rewrapped : int
        Data keys that lay under an older wrapping key.
    forgotten : int
        Wrapping keys taken out of the key file.
    key : str
        Id of the current wrapping key.
    """

    sealed: dict[str, int] = field(default_factory=dict)
    rewrapped: int = 0
    forgotten: int = 0
    key: str = ""


def rekey_store(
    store: Store,
    key_file: KeyFile,
    *,
    new_key: bool = False,
    forget_old: bool = False,
    progress: Callable[[Rekeyed], None] | None = None,
) -> Rekeyed:
    """Seal what is in clear, and wrap all data keys under the current wrapping key.

    Parameters
    ----------
    store : Store
    key_file : KeyFile
        Made where there is none.
    new_key : bool
        Put a new wrapping key before those of the file first.
    forget_old : bool
        At the end remove wrapping keys that this store no longer needs from the file.
        Backups made under them cannot be read then.
    progress : Callable, optional
        Called after each piece.

    Raises
    ------
    WrongKey
        The key file cannot be used, is another store's, or cannot be changed.
    Conflict
        Values in clear keep coming: a daemon of an older program runs.
    """
    store.vault.file = key_file
    # A credential is changed by nobody here; else one changes the file, no two.
    held = nullcontext() if key_file.credential else keyring.changing(key_file.path)
    with held:
        done = Rekeyed(key=_begin(store, key_file, new_key=new_key))
        _seal_rest(store, done, progress)
        _rewrap_all(store, done, progress)
        if forget_old:
            done.forgotten = _forget(store)
    if done.sealed:
        store.scrub()
    return done


def _begin(store: Store, key_file: KeyFile, *, new_key: bool) -> str:
    """Choose the wrapping key under which all new data keys are wrapped."""
    vault = store.vault
    with store.read() as tx:
        before = rekey.sealed_under(tx)
    if before is None:  # else a missing file is no reason to make another
        ensure_keyring(key_file, vault.entropy)
    ring = vault.ring(again=True)
    if before is not None:
        vault.check(before)
    if new_key:
        keyring.add_key(ring, vault.entropy)
        ring = vault.ring(again=True)
    with store.write() as tx:
        if rekey.hold_sealing(tx) == before:
            start_sealing(tx, ring.current.id)
            return ring.current.id
    if new_key:
        keyring.drop_key(ring, ring.current.id)
        vault.ring(again=True)
    raise Conflict(
        "another command changed the store's key meanwhile",
        why="it runs on another machine, with a key file of its own",
        fix="put its new line into this machine's key file, before the others; see"
        " docs/howto/operators/encryption.md",
    )


def _seal_rest(
    store: Store, done: Rekeyed, progress: Callable[[Rekeyed], None] | None
) -> None:
    """Seal rows in clear until there are none.

    Raises
    ------
    Conflict
    """
    for _ in range(PASSES):
        _seal_all(store, done, progress)
        with store.read() as tx:
            left = sum(rekey.remaining(tx).values())
        if not left:
            return
    raise Conflict(
        f"{left} values are in clear still",
        why="they keep coming: an older program writes into this store",
        fix="stop it, then run: dispatcher db rekey",
        facts={"left": left},
    )


def _forget(store: Store) -> int:
    """Remove keys that the store no longer needs from the file; return how many."""
    ring = store.vault.ring()
    with store.read() as tx:
        used = set(rekey.wrapping_keys(tx))
    kept = keyring.keep_keys(ring, used)
    store.vault.ring(again=True)
    return len(ring.keys) - len(kept.keys)


def _seal_all(
    store: Store, done: Rekeyed, progress: Callable[[Rekeyed], None] | None
) -> None:
    for plain in rekey.TABLES:
        after: int | None = -1
        while after is not None:
            with store.write() as tx:
                count, after = rekey.seal_piece(tx, plain, after, PIECE)
            if count:
                done.sealed[plain.table] = done.sealed.get(plain.table, 0) + count
                if progress is not None:
                    progress(done)


def _rewrap_all(
    store: Store, done: Rekeyed, progress: Callable[[Rekeyed], None] | None
) -> None:
    after: int | None = -1
    while after is not None:
        with store.write() as tx:
            count, after = rekey.rewrap_piece(tx, done.key, after, PIECE)
        done.rewrapped += count
        if count and progress is not None:
            progress(done)


def seal_leftovers(store: Store) -> int:
    """Seal some rows that were written in clear after a store began to seal.

    A tick of the daemon: returns how many rows; does nothing in a store in clear.
    """
    sealed = 0
    with store.read() as tx:
        if rekey.sealed_under(tx) is None or not any(rekey.remaining(tx).values()):
            return 0
    for plain in rekey.TABLES:
        with store.write() as tx:
            count, _ = rekey.seal_piece(tx, plain, -1, PIECE)
        sealed += count
    return sealed
