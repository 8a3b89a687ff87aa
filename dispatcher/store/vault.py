"""Sealed values: data keys, their wrapping, and a bounded cache of those in use.

A value column is bytes beside a nullable ``key_id``: None means stored in clear. The
data key of that id lies in ``value_key``, wrapped by a key of the key file; so reading
a value takes the store *and* the file, and deleting a data key makes what it sealed
unreadable, copies of the rows included.

A store seals when it has the setting :data:`SEALING`; it is looked up in each
transaction that makes records, so that ``dispatcher db rekey`` takes effect in a daemon
that runs.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete
from sqlmodel import col, select

from dispatcher.core.errors import StoreUnusable, WrongKey
from dispatcher.core.keyring import Keyring, read_keyring
from dispatcher.core.keys import (
    KEY_BYTES,
    NONCE_BYTES,
    BadSeal,
    data_cipher,
    place_of,
    seal,
    unseal,
)
from dispatcher.model import Setting, ValueKey
from dispatcher.store.statements import in_list

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from dispatcher.store.transaction import Tx

SEALING: Final = "sealing"
"""Setting: id of the wrapping key that the store was sealed under last."""

_SEALED_UNDER: Final = (
    select(Setting.value).where(Setting.name == SEALING).with_for_update(read=True)
)
_KEYS: Final = select(ValueKey.id, ValueKey.kek, ValueKey.wrapped).where(
    in_list(ValueKey.id, "ids")
)
_WRAPPED_OTHERWISE: Final = (
    select(ValueKey.id, ValueKey.kek, ValueKey.wrapped)
    .where(ValueKey.id > bindparam("after"), ValueKey.kek != bindparam("wrapped_by"))
    .order_by(col(ValueKey.id))
    .limit(bindparam("most"))
    .with_for_update()
)
_DELETE: Final = delete(ValueKey).where(in_list(ValueKey.id, "ids"))

CACHED: Final = 4096
"""Data keys kept unwrapped in memory."""

PIECE: Final = 1000
"""Rows of a stream whose data keys are looked up together."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Where the wrapping keys are; ``credential`` when systemd made the file."""

    path: Path
    credential: bool = False


class Vault:
    """Seals and opens values for the transactions of one store, in any thread.

    Parameters
    ----------
    file : KeyFile or None
        Read when the first key of it is needed, and again when one is not in it.
    entropy : Callable[[int], bytes]
        Random bytes, fit for keys.
    """

    def __init__(
        self,
        file: KeyFile | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.file = file
        self.entropy = entropy
        self._ring: Keyring | None = None
        self._ciphers: OrderedDict[int, AESGCM] = OrderedDict()
        self._wrappers: dict[str, AESGCM] = {}
        self._lock = threading.Lock()

    # -- wrapping keys ---------------------------------------------------------------

    def ring(self, *, again: bool = False) -> Keyring:
        """Return the wrapping keys, read from the file once (or ``again``).

        Raises
        ------
        WrongKey
            No file is named, or it cannot be used.
        """
        if self.file is None:
            raise WrongKey(
                "the store's values are encrypted and no key file is named",
                why="only the key that they were encrypted under opens them",
                fix="set key_file in dispatcher.toml, or DISPATCHER_KEY_FILE",
            )
        if self._ring is None or again:
            self._ring = read_keyring(self.file.path, credential=self.file.credential)
        return self._ring

    def check(self, kek: str) -> None:
        """Refuse a key file without a key.

        Raises
        ------
        WrongKey
        """
        if self.ring().find(kek) is None:
            raise self._wrong(kek)

    def _wrapper(self, kek: str) -> AESGCM:
        found = self._wrappers.get(kek)
        if found is None:
            key = self.ring().find(kek) or self.ring(again=True).find(kek)
            if key is None:
                raise self._wrong(kek)
            found = self._wrappers[kek] = data_cipher(key.secret)
        return found

    def _wrong(self, kek: str) -> WrongKey:
        held = ", ".join(key.id for key in self.ring().keys)
        return WrongKey(
            f"the key file {self.ring().path} is not this store's",
            why=f"the store was sealed under key {kek}, the file holds {held}",
            fix="name the right file (key_file in dispatcher.toml, or"
            " DISPATCHER_KEY_FILE); after a restore of an old backup put the line of"
            " its old key back into the file",
        )

    def wrap(self, kek: str, place: bytes, secret: bytes) -> bytes:
        """Wrap a secret under the key of an id.

        Raises
        ------
        WrongKey
            The file does not hold the key.
        """
        return seal(self._wrapper(kek), place, secret, self.entropy(NONCE_BYTES))

    def unwrap(self, place: bytes, kek: str, wrapped: bytes) -> bytes:
        """Open a wrapped secret.

        Raises
        ------
        WrongKey
            The file does not hold the key.
        StoreUnusable
            The wrapped bytes were changed.
        """
        try:
            return unseal(self._wrapper(kek), place, wrapped)
        except BadSeal:
            raise _damaged(place) from None

    # -- data keys -------------------------------------------------------------------

    def sealing(self, tx: Tx) -> str | None:
        """Id of the key that wraps what is new; None: values stay in clear.

        Held until the transaction ends, so that no data key is wrapped under a key
        that a rekeying has done with: it may be forgotten next.
        """
        found = tx.scalar(_SEALED_UNDER)
        return None if found is None else found.decode("ascii", "replace")

    def make(self, tx: Tx, count: int) -> list[int | None]:
        """Make data keys; return their ids, None for each in a store in clear."""
        kek = self.sealing(tx) if count else None
        if kek is None:
            return [None] * count
        first = tx.reserve("value_key", count)
        secrets = self.entropy(KEY_BYTES * count)
        rows = []
        for number in range(first, first + count):
            at = (number - first) * KEY_BYTES
            secret = secrets[at : at + KEY_BYTES]
            wrapped = self.wrap(kek, place_of("value_key", number), secret)
            tx.made[number] = data_cipher(secret)
            rows.append((number, kek, bytearray(wrapped)))
        tx.insert_many("value_key", ("id", "kek", "wrapped"), rows)
        return list(range(first, first + count))

    def prepare(self, tx: Tx, ids: Iterable[int | None]) -> None:
        """Look up many data keys in one statement."""
        missing = sorted(
            {
                number
                for number in ids
                if number is not None and number not in self and number not in tx.made
            }
        )
        if not missing:
            return
        for number, kek, wrapped in tx.execute(_KEYS, {"ids": missing}).all():
            secret = self.unwrap(place_of("value_key", number), kek, wrapped)
            self._keep(number, data_cipher(secret))

    def __contains__(self, key_id: int) -> bool:
        return key_id in self._ciphers

    def rewrap(
        self, tx: Tx, kek: str, after: int, limit: int
    ) -> tuple[int, int | None]:
        """Wrap some data keys under a wrapping key.

        Returns
        -------
        tuple of (int, int or None)
            Keys wrapped, and the id to go on after; None when all are.
        """
        given = {"after": after, "wrapped_by": kek, "most": limit}
        found = tx.execute(_WRAPPED_OTHERWISE, given).all()
        if not found:
            return 0, None
        changed = []
        for number, old, wrapped in found:
            place = place_of("value_key", number)
            secret = self.unwrap(place, old, wrapped)
            changed.append((number, kek, self.wrap(kek, place, secret)))
        tx.update_many("value_key", ["id"], ["kek", "wrapped"], changed)
        return len(changed), found[-1][0]

    def delete_keys(self, tx: Tx, ids: Sequence[int]) -> None:
        """Delete data keys: what they sealed is unreadable, wherever copies lie."""
        if ids:
            tx.execute(_DELETE, {"ids": ids})
            self.forget()

    def forget(self) -> None:
        """Drop the unwrapped keys."""
        with self._lock:
            self._ciphers.clear()

    def _keep(self, key_id: int, cipher: AESGCM) -> None:
        with self._lock:
            self._ciphers[key_id] = cipher
            while len(self._ciphers) > CACHED:
                self._ciphers.popitem(last=False)

    def _cipher(self, tx: Tx, key_id: int) -> AESGCM:
        found = tx.made.get(key_id) or self._ciphers.get(key_id)
        if found is None:
            self.prepare(tx, [key_id])
            found = self._ciphers.get(key_id)
        if found is None:
            raise StoreUnusable(
                f"the key {key_id} of a value is not in the store",
                why="its row was deleted, and the value was not",
                fix="restore a backup; of an erased person nothing can be restored",
                facts={"key": key_id},
            )
        return found

    # -- values ----------------------------------------------------------------------

    def seal(
        self, tx: Tx, column: str, row_id: int, key_id: int | None, value: bytes
    ) -> bytes:
        """Return a value as the store keeps it; in clear where the key is None."""
        if key_id is None:
            return value
        nonce = self.entropy(NONCE_BYTES)
        # AES-GCM takes bytes; hot rows come as bytearray (see store/bulk.py)
        return seal(self._cipher(tx, key_id), place_of(column, row_id), value, nonce)

    def open(
        self, tx: Tx, column: str, row_id: int, key_id: int | None, value: bytes
    ) -> bytes:
        """Return the value itself.

        Raises
        ------
        StoreUnusable
            It was changed, moved from another row, or its key is gone.
        WrongKey
            The key file does not open its key.
        """
        if key_id is None:
            return bytes(value)
        place = place_of(column, row_id)
        try:
            return unseal(self._cipher(tx, key_id), place, bytes(value))
        except BadSeal:
            raise _damaged(place) from None

    def opened(self, tx: Tx, rows: Iterable[Any], *columns: str) -> Iterator[Any]:
        """Open the values of rows of any number, piece by piece.

        Parameters
        ----------
        tx : Tx
        rows : iterable of named tuples
            The id under which a row's values were sealed comes first; ``key_id`` is that
            of the data key.
        *columns : str
            Columns of the values, ``TABLE.NAME``: in a row they have that name.

        Yields
        ------
        named tuple
            The row with the values themselves.
        """
        source = iter(rows)
        while piece := list(islice(source, PIECE)):
            fields = tuple(piece[0]._fields)
            row_type, key = _row_type(fields), fields.index("key_id")
            places = [(fields.index(name.partition(".")[2]), name) for name in columns]
            self.prepare(tx, (row[key] for row in piece))
            for row in piece:
                values = list(row)
                for at, column in places:
                    if row[at] is not None:
                        values[at] = self.open(tx, column, row[0], row[key], row[at])
                yield row_type._make(values)


@cache
def _row_type(fields: tuple[str, ...]) -> Any:  # noqa: ANN401 - made here
    return namedtuple("OpenedRow", fields, rename=True)


def _damaged(place: bytes) -> StoreUnusable:
    column, _, number = place.decode().partition(":")
    return StoreUnusable(
        f"a sealed value does not open ({column}, row {number})",
        why="it was changed, or it was moved there from another row",
        fix="restore a backup; the ledger is not touched by this",
        facts={"row": number, "column": column},
    )
