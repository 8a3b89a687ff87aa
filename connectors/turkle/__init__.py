"""The Turkle market: a Turkle server tells its workers that there is work here.

Settings: ``url`` (required: where the server's pages begin), ``allow_private`` (hosts of
the own network that may be reached, separated by commas). Secret, two lines: the API
token of a Turkle superuser, and 32 random bytes in hex that sign the personal links.

Turkle gets an opaque word and the address of our task page, nothing else. What Turkle
holds can be read by more people than the one it is meant for (its task frames are served
to visitors that have not logged in), so the personal link of a worker never goes there.
"""

from connectors.base import Plugin
from connectors.turkle.market import MANIFEST, Turkle, open_turkle

__all__ = ["CONNECTOR", "Turkle"]

CONNECTOR = Plugin(MANIFEST, open_turkle)
