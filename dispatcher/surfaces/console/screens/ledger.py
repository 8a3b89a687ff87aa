"""Ledger: its size and its seals."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from dispatcher.store.statistics import SealRow
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View

SEALS_SHOWN: Final = 200
SEALS: Final = Table(
    "seals",
    "Last seals",
    (
        Column("seal", "Seal", "number"),
        Column("sealed", "Sealed", "time"),
        Column("grown", "Chains grown", "number"),
        Column("root", "Root", "hash"),
        Column("head", "Head of chain system", "hash"),
    ),
    Empty(
        "One line a minute with the root over all chains.",
        "Not sealed yet: the daemon seals once a minute what the chains have grown by.",
    ),
    prefix="s.",
)


def ledger(view: View) -> Response:
    """``GET /ledger``."""
    sealed = view.cache.ledger(SEALS_SHOWN)
    rows = [seal_row(one) for one in sealed.seals]
    return view.show(SEALS.rows(view.request, rows), sealed=sealed)


def seal_row(one: SealRow) -> Row:
    """Row of the table of seals."""
    return {
        "seal": one.seq,
        "sealed": one.at,
        "grown": one.grown,
        "root": one.root,
        "head": one.hash,
    }
