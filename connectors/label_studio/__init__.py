"""The Label Studio market: its users find notices of work there, or do the work there.

Settings: ``url`` (required: base URL of the server's pages), ``content`` (``ours``, the
default, or ``there``), ``project`` (title of the projects there), ``hook`` (where the
server may call us: ``worker_url``, ``/hooks/`` and this connector's name; only with
``content = there``), ``allow_private`` (hosts of the own network that may be reached,
separated by commas). Secret, two lines: an API token (a personal access token, or a
legacy token where the server still accepts them), and 32 random bytes in hex.

In the Community edition every user can read, change, export and delete every task. So
Label Studio gets an opaque word and the address of our task page, and our personal link
identifies the worker. Where the fields must be there (``content = there``), the whole
server is one adversary: what any of its users could open, all have seen.
"""

from connectors.base import Plugin
from connectors.label_studio import notices
from connectors.label_studio.market import declared, open_label_studio

__all__ = ["CONNECTOR"]

CONNECTOR = Plugin(notices.MANIFEST, open_label_studio, declared)
