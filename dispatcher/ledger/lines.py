"""The lines of the ledger: canonical bytes, their hashes, and the tree over heads.

Everything here is pure computation on text in the evidence format: an auditor later
hashes exactly what was hashed when the line was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.canonical import canonical

Member = str | int | Sequence[str] | Sequence[Mapping[str, object]] | Mapping[str, int]
"""Type of a line's members."""

HASH_BYTES: Final = 32


def adversary_name(number: int) -> str:
    """Name of an adversary's chain."""
    return f"a{number}"


@dataclass(frozen=True)
class ExposureForm:
    """The fixed text of the exposure lines of one account in one booking.

    A bulk booking writes millions of lines that differ only in entry, ``prev`` and
    ``seq``; everything else is put into canonical form once.
    """

    before: str
    middle: str

    @classmethod
    def of(
        cls, *, account: str, at: int, cause: str, chain: str, policy: int
    ) -> ExposureForm:
        """Prepare the form for an account, a time and a chain."""
        texts = (canonical(text) for text in (account, cause, chain))
        account_text, cause_text, chain_text = texts
        return cls(
            before=f'{{"account":{account_text},"at":{at},"cause":{cause_text},'
            f'"chain":{chain_text},"entry":"',
            middle=f'","kind":"exposure","policy":{policy},"prev":"',
        )

    def grow(
        self, entries: Iterable[str], *, prev: str, seq: int, whole: bool
    ) -> tuple[bytes, bytes]:
        """Write the lines that expose these entries, one after another.

        Parameters
        ----------
        entries : Iterable[str]
            Ledger names of the entries: ASCII that JSON does not escape.
        prev : str
            Head of the chain.
        seq : int
            Number of the first new line.
        whole : bool
            Whether the lines themselves are wanted too.

        Returns
        -------
        (bytes, bytes)
            The concatenated raw hashes, the last one the chain's new head; and the
            lines in the evidence format, each with its LF, or nothing.
        """
        sha256, before, middle = hashlib.sha256, self.before, self.middle
        head, _, tail = middle.partition('"kind"')
        left, right = f'{head}"hash":"', f'","kind"{tail}'
        hashes: list[str] = []
        lines: list[str] = []
        for name in entries:
            end = f'{prev}","seq":{seq}}}'
            own = sha256(f"{prev}{before}{name}{middle}{end}".encode()).hexdigest()
            if whole:
                lines.append(f"{before}{name}{left}{own}{right}{end}\n")
            hashes.append(own)
            prev = own
            seq += 1
        return bytes.fromhex("".join(hashes)), "".join(lines).encode()

    def text(self, entry: str, *, prev: str, seq: int, own: str) -> str:
        """Return the whole line in the evidence format, without its LF."""
        head, _, tail = self.middle.partition('"kind"')
        return (
            f'{self.before}{entry}{head}"hash":"{own}","kind"{tail}'
            f'{prev}","seq":{seq}}}'
        )


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Merkle tree hash of RFC 9162, section 2.1.1, in hex.

    Parameters
    ----------
    leaves : Sequence[bytes]
        The leaves in order.
    """
    if not leaves:
        return hashlib.sha256(b"").hexdigest()
    # Pairing level by level, with the odd node carried up, gives the RFC's tree
    # (complete on the left, over the largest power of two) without its recursion.
    level = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        paired = [
            hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest()
            for i in range(0, len(level) - 1, 2)
        ]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0].hex()


def seal_root(heads: Mapping[str, str], system_prev: str) -> str:
    """Root of a seal.

    Parameters
    ----------
    heads : Mapping[str, str]
        Last hash of every adversary chain that has a line, by chain name.
    system_prev : str
        ``prev`` of the seal itself, the leaf of chain ``system``.
    """
    named = [*heads.items(), ("system", system_prev)]
    return merkle_root([f"{name}:{head}".encode() for name, head in sorted(named)])
