"""The pickup feed: files in a folder of this machine, for a receiver that collects them.

Settings: ``path`` (the folder, required; made if its parent exists), ``format`` (``csv``,
the default, ``jsonl`` or ``parquet``), ``guard`` (``yes``, the default: cells that begin
like a formula get a ``'`` before them; ``no``). No secret, no network.

Each message is one file, put in place whole: ``fields-DIGEST.csv``, a row for each field
with its opaque token, the field's name and the value. A file that the receiver has taken
away is not written again: a name once used stays in ``.sent``.

Whoever can read the folder has seen all that is there.
"""

from connectors.base import Plugin
from connectors.pickup.feed import MANIFEST, PickupFolder, open_pickup

__all__ = ["CONNECTOR", "PickupFolder"]

CONNECTOR = Plugin(MANIFEST, open_pickup)
"""The entry point."""
