"""Full check of a ledger: every line, every seal, the files and the store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatcher.core import progress
from dispatcher.core.canonical import NO_HASH, line_hash
from dispatcher.core.errors import LedgerBroken
from dispatcher.ledger.chains import SYSTEM
from dispatcher.ledger.lines import seal_root
from dispatcher.ledger.shipping.rendering import render
from dispatcher.ledger.shipping.segments import shipped_lines
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import Store, audit, ledger
from dispatcher.store.transaction import Tx


@dataclass
class Checked:
    """Result of a successful check.

    Attributes
    ----------
    lines, chains, seals : int
    root : str or None
        Of the last seal.
    roots : set of str
        Of all seals.
    heads : dict of str to (int, str)
        By chain: number and hash of its last line.
    """

    lines: int = 0
    seals: int = 0
    root: str | None = None
    roots: set[str] = field(default_factory=set)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def chains(self) -> int:
        """Number of chains that have a line."""
        return len(self.heads)


class _LineChecker:
    """Checks a stream of lines; chains may be interleaved in any way."""

    def __init__(self) -> None:
        self.found = Checked()
        self._sealed: dict[str, str] = {}
        # Hashes of lines that no checked seal covers yet.
        self._loose: dict[str, dict[int, str]] = defaultdict(dict)
        self._waiting: list[dict[str, Any]] = []

    def take(self, line: Mapping[str, Any], where: str) -> None:
        """Check one line.

        Raises
        ------
        LedgerBroken
        """
        try:
            members = dict(line)
            own, chain, seq = members.pop("hash"), members["chain"], members["seq"]
            known = self.found.heads.get(chain, (0, NO_HASH))
            if (seq - 1, members["prev"]) != known:
                raise _wrong(where, f"line {seq} of {chain} follows {known[0]}")
            if line_hash(members["prev"], members) != own:
                raise _wrong(where, f"line {seq} of {chain} does not have its hash")
            self.found.heads[chain] = (seq, own)
            self.found.lines += 1
            if chain != SYSTEM:
                self._loose[chain][seq] = own
            elif members["kind"] == "seal":
                self._waiting.append(members)
            self._resolve()
        except (KeyError, TypeError, ValueError):
            raise _wrong(where, "it is no line of a ledger") from None

    def end(self) -> Checked:
        """Check that no seal waits for lines; return the result.

        Raises
        ------
        LedgerBroken
        """
        self._resolve()
        if self._waiting:
            seq = self._waiting[0]["seq"]
            raise _wrong("the end", f"seal {seq} covers lines that are not here")
        return self.found

    def _resolve(self) -> None:
        """Check the seals whose lines have all been read."""
        while self._waiting:
            seal = self._waiting[0]
            heads: Mapping[str, int] = seal["heads"]
            if any(self.found.heads.get(c, (0, ""))[0] < s for c, s in heads.items()):
                return
            for chain, seq in heads.items():
                loose = self._loose[chain]
                self._sealed[chain] = loose[seq]
                for number in [n for n in loose if n <= seq]:
                    del loose[number]
            if seal_root(self._sealed, seal["prev"]) != seal["root"]:
                raise _wrong(f"seal {seal['seq']}", "its root is not that of its lines")
            self.found.seals += 1
            self.found.root = str(seal["root"])
            self.found.roots.add(self.found.root)
            self._waiting.pop(0)


def check_files(folder: Path, *, store: str | None = None) -> Checked:
    """Check every line and every seal of a shipped ledger, without any store.

    Raises
    ------
    LedgerBroken, LedgerForeign
    """
    reader = _LineChecker()
    shipped = shipped_lines(folder, store=store)
    for line in progress.counted(shipped, "shipped lines", lambda: None):
        if "attached" not in line.members:
            reader.take(line.members, line.place)
    return reader.end()


def check_store(tx: Tx) -> Checked:
    """Check every line and every seal of a store's ledger.

    Raises
    ------
    LedgerBroken
    """
    reader = _LineChecker()
    chains = sorted(ledger.all_chains(tx), key=lambda c: c.id == SYSTEM_CHAIN)
    total = sum(chain.seq for chain in chains)
    for chain in chains:  # system last: the lines that its seals cover come before
        for line in _rendered(tx, chain.id, chain.name, chain.seq):
            reader.take(line, f"the store, chain {chain.name}")
            if reader.found.lines % progress.REPORTED == 0:
                progress.report(reader.found.lines, total, "lines")
        if reader.found.heads.get(chain.name, (0, NO_HASH)) != (chain.seq, chain.head):
            raise _wrong(
                f"the store, chain {chain.name}",
                f"its head is line {chain.seq}, and not all before it are there",
            )
    return reader.end()


def compare(tx: Tx, files: Checked) -> list[tuple[str, int, int]]:
    """Find chains with different line counts in files and store: (chain, store, files).

    Raises
    ------
    LedgerBroken
        A line that both have is not the same.
    """
    different = []
    known = {chain.name: chain for chain in ledger.all_chains(tx)}
    for name in sorted(known.keys() | files.heads.keys()):
        seq, head = files.heads.get(name, (0, NO_HASH))
        chain = known.get(name)
        have = chain.seq if chain is not None else 0
        if chain is not None and 0 < seq <= have:
            own = audit.hash_at(tx, chain.id, seq)
            if own != head:
                raise _wrong(f"chain {name}", f"line {seq} is another one in the store")
        if have != seq:
            different.append((name, have, seq))
    return different


def store_lines(store: Store) -> Iterator[str]:
    """Stream the whole ledger of a store, chain by chain, each line with its LF."""
    with store.read() as tx:
        for chain in ledger.all_chains(tx):
            rows = audit.lines_up_to(tx, chain.id, chain.seq)
            for _, text, _ in render(rows, chain.name, NO_HASH):
                yield f"{text}\n"


def missing_roots(checked: Checked, heads: Iterable[str]) -> list[str]:
    """Return the roots that no seal of a ledger has."""
    return [head for head in heads if head.lower() not in checked.roots]


def _rendered(tx: Tx, chain_id: int, name: str, last: int) -> Iterator[dict[str, Any]]:
    try:
        rows = audit.lines_up_to(tx, chain_id, last)
        for _, text, _ in render(rows, name, NO_HASH):
            yield json.loads(text)
    except (AssertionError, ValueError):
        raise _wrong(f"the store, chain {name}", "a line cannot be read") from None


def _wrong(where: str, why: str) -> LedgerBroken:
    return LedgerBroken(
        f"the ledger does not read as it was written: {where}",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Compare it with a backup, the shipped files and evidence exported earlier.",
    )
