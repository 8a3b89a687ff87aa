"""The Mechanical Turk market: one HIT for each worker's batch, on our own task page.

Settings: ``url`` (``production``, ``sandbox``, or where an own server answers) and
``page`` (where workers arrive: ``worker_url``, ``/from/`` and this connector's name) are
required. ``queue`` (URL of an SQS queue that MTurk tells what happens), ``title``,
``description`` (what workers read), ``minutes`` (that a worker has once it has
accepted), ``lifetime_minutes`` (that a HIT can be accepted), ``approve_after_hours``
(when MTurk approves by itself), ``per_second`` (calls to MTurk) and ``allow_private``
(hosts of the own network that may be reached) may be given. Secret, three words: the id
of an access key, the key, and 32 random bytes in hex, which number the workers.

A HIT can be found and accepted only by the worker who has its number as a qualification.
It holds our page's address and opaque words; the fields are served by our page, once
MTurk has confirmed that this very worker has accepted.
"""

from connectors.base import Plugin
from connectors.mturk.market import MANIFEST, Mturk, open_mturk

__all__ = ["CONNECTOR", "Mturk"]

CONNECTOR = Plugin(MANIFEST, open_mturk)
