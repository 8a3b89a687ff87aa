"""Rendering of a store's lines in the evidence format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dispatcher.core.canonical import canonical
from dispatcher.core.keys import entry_name
from dispatcher.ledger.chains import SYSTEM, whole_line
from dispatcher.ledger.lines import ExposureForm
from dispatcher.ledger.links import functions_text
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import audit, entry_registrations
from dispatcher.store import policies as policy_rows
from dispatcher.store.audit import LineRow
from dispatcher.store.transaction import Tx

ATTACHED: Final = 4_000_000
"""Most characters of an attachment in one line."""

RenderedLine = tuple[LineRow, str, dict[str, object] | None]


def render(rows: Iterable[LineRow], chain: str, prev: str) -> Iterator[RenderedLine]:
    """Render lines of a chain: row, text in evidence, members unless an exposure.

    Parameters
    ----------
    rows : Iterable of LineRow
        In order, without a gap.
    chain : str
    prev : str
        Hash of the line before the first of them.
    """
    form_of: tuple[object, ...] = ()
    form = ExposureForm("", "")
    for row in rows:
        own = row.hash.hex()
        if row.kind == "exposure":
            key = row.account, row.at, row.cause, row.policy_version
            if key != form_of:
                form, form_of = _form(row, chain), key
            assert row.record is not None
            assert row.entry is not None
            entry = entry_name(row.record, row.entry.field_id)
            yield row, form.text(entry, prev=prev, seq=row.seq, own=own), None
        else:
            line = whole_line(
                chain, row.seq, prev, row.kind, row.at, row.policy_version,
                row.body or "{}",
            )  # fmt: skip
            line["hash"] = own
            yield row, canonical(line), line
        prev = own


def _form(row: LineRow, chain: str) -> ExposureForm:
    assert row.account is not None
    assert row.cause is not None
    return ExposureForm.of(
        account=row.account,
        at=row.at,
        cause=row.cause,
        chain=chain,
        policy=row.policy_version,
    )


def shippable(
    tx: Tx, chain_id: int, chain: str, *, after: int, prev: str, last: int
) -> Iterator[tuple[str, int, str]]:
    """Render lines for shipping: text with LFs and attachments, number, hash."""
    rows = audit.lines_up_to(tx, chain_id, last, after=after)
    for row, text, line in render(rows, chain, prev):
        before = ""
        if chain_id == SYSTEM_CHAIN and line is not None:
            assert chain == SYSTEM
            before = _attachments(row.seq, _attached(tx, row, line))
        yield f"{before}{text}\n", row.seq, row.hash.hex()


def _attached(tx: Tx, row: LineRow, line: Mapping[str, object]) -> dict[str, bytes]:
    if row.kind == "policy":
        policy = policy_rows.policy_row(tx, int(str(line["version"])))
        if policy is None:
            return {}
        found = {"policy": policy.source}
        functions = policy_rows.functions_of(tx, policy.version)
        if functions:
            found["functions"] = functions_text(functions).encode()
        return found
    if row.kind == "keys":
        load = entry_registrations.line(tx, row.seq)
        if load is not None:
            keys = "keys-again" if load.repeats else "keys"
            attached = {keys: load.keys, "relations": load.relations}
            return attached | {"facts": load.facts}
    return {}


def _attachments(seq: int, attached: Mapping[str, bytes]) -> str:
    """Format the attachments of a line of chain ``system``, as lines of their own.

    They precede that line in the shipped ledger, and are not in the evidence.
    """
    written = []
    for name, raw in sorted(attached.items()):
        text = raw.decode()
        for start in range(0, len(text), ATTACHED):
            part = {
                "attached": name,
                "seq": seq,
                "text": text[start : start + ATTACHED],
            }
            written.append(canonical(part) + "\n")
    return "".join(written)
