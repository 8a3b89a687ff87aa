"""The S3 feed: one object an offer in a bucket, written once.

Settings: ``bucket`` (required), ``prefix`` (before the objects' names, default none),
``format`` (``csv``, the default, ``jsonl`` or ``parquet``), ``guard`` (``yes``, the default:
cells that begin like a formula get a ``'`` before them; ``no``), ``endpoint`` (of a store
that is not Amazon's, https), ``region``, ``allow_private`` (hosts of the own network,
which may also be spoken to without TLS). Secret: the access key's id and the secret key,
one a line.

Whoever can read the bucket has seen all that is there. Needs the extra ``s3``.
"""

from connectors.base import Plugin
from connectors.s3.feed import MANIFEST, S3Feed, open_s3

__all__ = ["CONNECTOR", "S3Feed"]

CONNECTOR = Plugin(MANIFEST, open_s3)
"""The entry point."""
