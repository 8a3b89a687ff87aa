"""The Prolific market: one study for each worker's batch, on our own task page.

Settings: ``workspace`` and ``project`` (ids at Prolific), ``page`` (where participants
arrive: ``worker_url``, ``/from/`` and this connector's name) and ``minutes`` (how long
one study takes) are required; the run's budget sets the reward. Optional are ``title``,
``description`` (what participants read), ``review`` (``manual``, the default, or
``automatic``: who approves), ``url`` (base of the interface) and ``allow_private``
(hosts of the own network that may be reached). Secret, two lines: the API token, and 32
random bytes in hex, which hide who a study is for and make its completion code.

A study is open to a participant group of one. It contains a title, our page's address
and opaque words; our page serves the fields to the participant in Prolific's signature.
The workspace must have secure study URLs (signed by a JSON Web Token): without them
nothing is published, because a participant could write another one's id into the
address bar.
"""

from connectors.base import Plugin
from connectors.prolific.market import MANIFEST, Prolific, open_prolific

__all__ = ["CONNECTOR", "Prolific"]

CONNECTOR = Plugin(MANIFEST, open_prolific)
