"""Roots of seals noted outside: what an auditor holds the ledger against later."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dispatcher.errors import Invalid, NotShipped
from dispatcher.ledger.lines import canonical
from dispatcher.store import Store, proving


def anchor(store: Store, file: Path, *, owner: str) -> int:
    """Append the roots of all seals that a file lacks, and sync it.

    Parameters
    ----------
    store : Store
    file : Path
        JSON lines; made (0600) if it is not there.
    owner : str
        Id of the store, noted with each root.

    Returns
    -------
    int
        Roots appended.

    Raises
    ------
    NotShipped
        The file can not be written.
    Invalid
        It is of another store, or no file of roots.
    """
    try:
        known = anchored(file, owner=owner)
        with store.read() as tx:
            seals = proving.seals_after(tx, max(known.values(), default=0))
        if not seals:
            return 0
        text = "".join(
            canonical(
                {"at": at, "root": json.loads(body)["root"], "seq": seq, "store": owner}
            )
            + "\n"
            for seq, at, body in seals
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(file, flags, 0o600), "ab") as handle:
            handle.write(text.encode())
            handle.flush()
            os.fdatasync(handle.fileno())
    except OSError as error:
        raise NotShipped(
            f"the roots can not be anchored in {file}",
            why=f"{error.strerror or error}.",
            fix="Mend it, or name another file: anchor in [ledger].",
        ) from None
    return len(seals)


def anchored(file: Path, *, owner: str) -> dict[str, int]:
    """Roots that a file holds, each with its seal's number; none if it is not there.

    Raises
    ------
    Invalid
        It is of another store, or no file of roots.
    """
    if not file.exists():
        return {}
    found = {}
    # A last line that was cut off is no root yet, and is left alone.
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
        try:
            members = json.loads(line)
            root, seq, of = str(members["root"]), int(members["seq"]), members["store"]
        except (ValueError, KeyError, TypeError):
            raise _foreign(file, f"line {number} is no root") from None
        if of != owner:
            raise _foreign(file, f"line {number} is of another store")
        found[root] = seq
    return found


def _foreign(file: Path, why: str) -> Invalid:
    return Invalid(
        f"{file} can not be taken as the anchor",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Name a file of this store alone: anchor in [ledger].",
    )
