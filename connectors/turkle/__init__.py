"""The Turkle market: a Turkle server shows its workers notices of work on our page.

Settings: ``url`` (required: base URL of the server's pages), ``allow_private`` (hosts
of the own network that may be reached, separated by commas). Secret, two lines: the API
token of a Turkle superuser, and 32 random bytes in hex that sign the personal links.

Turkle gets an opaque word and the address of our task page, nothing else. What is on
Turkle can be read by more people than the one it is meant for (its task frames are
served to visitors who have not logged in), so a worker's personal link is never sent
there.
"""

from connectors.base import Plugin
from connectors.turkle.market import MANIFEST, Turkle, open_turkle

__all__ = ["CONNECTOR", "Turkle"]

CONNECTOR = Plugin(MANIFEST, open_turkle)
