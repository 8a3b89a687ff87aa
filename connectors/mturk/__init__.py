"""The Mechanical Turk market: one HIT for each worker's batch, on our own task page.

Settings: ``url`` (``production``, ``sandbox``, or the URL of an own server) and
``page`` (where workers arrive: ``worker_url``, ``/from/`` and this connector's name)
are required. Optional are ``queue`` (URL of an SQS queue for MTurk's notifications),
``title``, ``description`` (what workers read), ``minutes`` (a worker's time after
accepting), ``lifetime_minutes`` (how long a HIT can be accepted),
``approve_after_hours`` (when MTurk approves by itself), ``per_second`` (calls to MTurk)
and ``allow_private`` (hosts of the own network that may be reached). Secret, three
words: the id of an access key, the key, and 32 random bytes in hex, which number the
workers.

Only the worker who has a HIT's number as a qualification can find and accept it. The
HIT contains our page's address and opaque words; our page serves the fields once MTurk
has confirmed that this very worker has accepted.
"""

from connectors.base import Plugin
from connectors.mturk.market import MANIFEST, Mturk, open_mturk

__all__ = ["CONNECTOR", "Mturk"]

CONNECTOR = Plugin(MANIFEST, open_mturk)
