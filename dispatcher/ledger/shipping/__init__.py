"""Shipping of the ledger: every line is also kept in files outside of the store.

* :mod:`segments` keeps the files: appended, made durable, rotated, read again.
* :mod:`shipper` is the journal of an open store: group commit, and healing.
* :mod:`remote` is the journal of a server beside the leader, which ships for it.
* :mod:`rendering` writes the lines that a store has, as evidence has them.
"""

from dispatcher.ledger.shipping.remote import RemoteShipper
from dispatcher.ledger.shipping.segments import SEGMENT_BYTES, Segments, shipped_lines
from dispatcher.ledger.shipping.shipper import Shipper, attach, store_id

__all__ = [
    "SEGMENT_BYTES",
    "RemoteShipper",
    "Segments",
    "Shipper",
    "attach",
    "shipped_lines",
    "store_id",
]
