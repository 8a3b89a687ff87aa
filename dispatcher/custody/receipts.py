"""Receipts of erasures: what was erased and when, signed by the store (ed25519).

A receipt contains pseudonyms, counts and timestamps, but no value and no file name. It
is one JSON object; the signature covers its canonical form without the member
``signature``. The key is derived from the store's own, so that it is the same in every
copy of the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from dispatcher.core.canonical import canonical
from dispatcher.core.errors import Invalid
from dispatcher.core.input_files import open_input
from dispatcher.core.private_files import private
from dispatcher.custody.backup import Kept
from dispatcher.custody.erasure import Erased
from dispatcher.ledger.shipping import store_id
from dispatcher.store import Store, audit

SCHEMA: Final = "dispatcher.erasure-receipt/1"
FOLDER: Final = "receipts"
LARGEST: Final = 1 << 20

Receipt = Mapping[str, Any]


def issue(
    store: Store,
    name: str,
    done: Erased,
    *,
    kept: int,
    backups: Kept,
    at: int,
) -> Receipt:
    """Make the receipt of an erasure.

    Parameters
    ----------
    store : Store
    name : str
        Pseudonym of the person or record.
    done : Erased
    kept : int
        Exposures that the ledger keeps about it.
    backups : Kept
        Backups that still contain the values.
    at : int
        Now.
    """
    with store.read() as tx:
        sealed = audit.last_seal(tx)
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "store": store_id(store),
        "erased": name,
        "at": at,
        "deleted": {kind: count for kind, count in done.deleted.items() if count},
        "exposures_kept": kept,
        "recalled": dict(done.recalled),
        "not_recalled": dict(done.beyond),
        "files_left": len(done.left),
        "store_files_clean": done.scrubbed and not done.aside,
        "stores_put_aside": len(done.aside),
        "backups": [{"id": one.id, "at": one.at} for one in backups.backups],
        "backups_broken": len(backups.broken),
        "backup_folders_away": len(backups.away),
        "ledger_root": ""
        if sealed is None
        else str(json.loads(sealed[0].body or "{}")["root"]),
        "key": public_key(store),
    }
    digest = hashlib.sha256(canonical(body).encode()).hexdigest()
    body["receipt"] = f"er_{digest[:26]}"
    signature = _key(store).sign(canonical(body).encode())
    return body | {"signature": signature.hex()}


def write(folder: Path, receipt: Receipt) -> Path:
    """Write a receipt to a file of its own (0600) and return its path.

    Raises
    ------
    Invalid
        It cannot be written; the erasure is complete nevertheless.
    """
    path = folder / f"{receipt['receipt']}.json"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with open(path, "w", encoding="ascii", opener=private) as file:
            file.write(json.dumps(receipt, indent=1, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Invalid(
            f"the receipt cannot be written to {folder}",
            why=f"{error.strerror}; the erasure is done all the same",
            fix="fix the folder, then repeat the erasure: it writes another receipt",
        ) from None
    return path


def read(path: Path) -> Receipt:
    """Read a receipt without verifying it.

    Raises
    ------
    Invalid
    """
    try:
        with open_input(path) as file:
            receipt = json.loads(file.read(LARGEST))
        known = receipt["schema"] == SCHEMA and bytes.fromhex(receipt["signature"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known:
        raise Invalid(
            f"{path} is no receipt of an erasure",
            why=f"a receipt is a JSON object with the schema {SCHEMA}",
            fix="check the file: they lie in receipts/, beside dispatcher.toml",
        )
    return dict(receipt)


def holds(receipt: Receipt, key: str) -> bool:
    """Whether a receipt's signature is valid under a public key (64 hex digits)."""
    body = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        signature = bytes.fromhex(str(receipt["signature"]))
        public.verify(signature, canonical(body).encode())
    except (InvalidSignature, ValueError, TypeError):
        return False
    return receipt.get("key") == key


def public_key(store: Store) -> str:
    """Return the key that a store's receipts are checked with, 64 hex digits."""
    return _key(store).public_key().public_bytes_raw().hex()


def _key(store: Store) -> Ed25519PrivateKey:
    secret = store.key("pseudonym-key")
    seed = hmac.digest(secret, b"key that signs receipts of erasures", "sha256")
    return Ed25519PrivateKey.from_private_bytes(seed)
