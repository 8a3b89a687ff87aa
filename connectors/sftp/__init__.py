"""The SFTP feed: files written to a receiver's server, each put in place atomically.

Settings: ``host`` and ``user`` (required), ``host_key`` (required: the server's public key,
as ``ssh-keyscan`` prints it, type and base64), ``port`` (default 22), ``directory`` (where
to write, default the login directory), ``format`` (``csv``, the default,
``jsonl`` or ``parquet``), ``guard`` (``yes``, the default: cells that begin like a formula
get a ``'`` before them; ``no``), ``allow_private`` (hosts of the own network that may be
reached). Secret: our private key, without a passphrase.

A message is two files, each written as ``.NAME.tmp`` and renamed::

    fields-DIGEST.csv             the items fields-DIGEST.manifest.json   {"file",
    "bytes", "rows", "sha256"}: the file is complete

Whoever can read the directory has seen all that is there. Needs the extra ``sftp``.
"""

from connectors.base import Plugin
from connectors.sftp.feed import MANIFEST, SftpFeed, open_sftp

__all__ = ["CONNECTOR", "SftpFeed"]

CONNECTOR = Plugin(MANIFEST, open_sftp)
"""The entry point."""
