"""Anchors: roots of seals noted outside, with which an auditor compares the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dispatcher.core.canonical import canonical
from dispatcher.core.errors import Invalid, LedgerAhead, NotShipped
from dispatcher.core.private_files import append_lines
from dispatcher.store import Store, audit
from dispatcher.store.transaction import Tx


def anchor(store: Store, file: Path, *, owner: str) -> int:
    """Append the roots of all seals that a file lacks, and sync it.

    Parameters
    ----------
    store : Store
    file : Path
        JSON lines; created (0600) if missing.
    owner : str
        Id of the store, written with each root.

    Returns
    -------
    int
        Roots appended.

    Raises
    ------
    NotShipped
        The file cannot be written.
    Invalid
        It is of another store, or no file of roots.
    LedgerAhead
        The store does not have the last of its roots: it was put back.
    """
    known = anchored(file, owner=owner)
    last = max(known.values(), default=0)
    with store.read() as tx:
        # Each seal is chained to those before: a store with the last has all.
        found = audit.seals_after(tx, last - 1)
        ends = {root: seq for root, seq in known.items() if seq == last}
        _refuse_lost(ends, found, file)
    seals = [seal for seal in found if seal[0] > last]
    if not seals:
        return 0
    text = "".join(
        canonical(
            {"at": at, "root": json.loads(body)["root"], "seq": seq, "store": owner}
        )
        + "\n"
        for seq, at, body in seals
    )
    try:
        append_lines(file, text.encode())
    except OSError as error:
        raise _closed(file, error) from None
    return len(seals)


def check_anchor(store: Store, file: Path, *, owner: str) -> int:
    """Check that a store has every root of a file; return how many there are.

    Raises
    ------
    NotShipped, Invalid
        The file cannot be read, is of another store, or no file of roots.
    LedgerAhead
        The store does not have one of the roots.
    """
    known = anchored(file, owner=owner)  # the store is read later: it must have all
    with store.read() as tx:
        refuse_unsealed(tx, known, file)
    return len(known)


def refuse_unsealed(tx: Tx, known: Mapping[str, int], file: Path) -> None:
    """Refuse a store that lacks roots which were anchored.

    Parameters
    ----------
    tx : Tx
    known : Mapping of str to int
        Roots of a file, each with its seal's number.
    file : Path

    Raises
    ------
    LedgerAhead
    """
    if known:
        found = audit.seals_after(tx, min(known.values()) - 1)
        _refuse_lost(known, found, file)


def _refuse_lost(
    known: Mapping[str, int], found: Sequence[tuple[int, int, str]], file: Path
) -> None:
    seals = {seq: json.loads(body)["root"] for seq, _, body in found}
    lost = [seq for root, seq in known.items() if seals.get(seq) != root]
    if lost:
        raise LedgerAhead(
            f"the store lacks {len(lost):,} roots that were anchored, the first of seal "
            f"{min(lost)}",
            why=f"{file} has them. The store was put back from an older state, perhaps "
            "by a stale copy of its shipped ledger, and would show again what it has "
            "forgotten to have shown.",
            fix="Restore with the folder that the ledger was last shipped to: dispatcher "
            "restore BACKUP --to STORE --replay-ledger --ledger DIR. If it is lost, move "
            f"its copies and {file.name} away, and: --assume-shown-since TIME",
            facts={"roots": len(lost), "seq": min(lost)},
        )


def anchored(file: Path, *, owner: str) -> dict[str, int]:
    """Read the roots in a file, with their seals' numbers; none if the file is missing.

    Raises
    ------
    NotShipped
        It cannot be read.
    Invalid
        It is of another store, or no file of roots.
    """
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _closed(file, error) from None
    found = {}
    # A truncated last line is no root yet: the next append removes it.
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        try:
            members = json.loads(line)
            root, seq, of = str(members["root"]), int(members["seq"]), members["store"]
        except (ValueError, KeyError, TypeError):
            raise _foreign(file, f"line {number} is no root") from None
        if of != owner:
            raise _foreign(file, f"line {number} is of another store")
        found[root] = seq
    return found


def _closed(file: Path, error: OSError) -> NotShipped:
    return NotShipped(
        f"the roots cannot be anchored in {file}",
        why=f"{error.strerror or error}.",
        fix="Mend it, or name another file: anchor in [ledger].",
    )


def _foreign(file: Path, why: str) -> Invalid:
    return Invalid(
        f"{file} cannot be taken as the anchor",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Name a file of this store alone: anchor in [ledger].",
    )
