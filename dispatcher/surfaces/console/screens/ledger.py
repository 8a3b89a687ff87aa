"""Ledger: its size and its seals."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from dispatcher.surfaces.console.tables import Column, Empty, Table
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
)


def ledger(view: View) -> Response:
    """``GET /ledger``."""
    sealed = view.cache.ledger(SEALS_SHOWN)
    rows = [
        {"seal": one.seq, "sealed": one.at, "grown": one.grown, "root": one.root,
         "head": one.hash}
        for one in sealed.seals
    ]  # fmt: skip
    return view.show(SEALS.rows(view.request, rows), sealed=sealed)
