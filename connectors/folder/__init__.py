"""The folder connector: batches out and answers back as files, for agencies and SFTP.

Settings: ``spool`` (the directory, required), ``format`` (``csv``, the default, or
``jsonl``), ``settle_seconds`` (how long an answers file must lie untouched, default 2).

The spool::

    spool/
      ACCOUNT/                  one directory a worker or agency, %XX for odd characters
        batch-KEY/              one directory a message, put in place whole
          tasks.csv             what is asked; short texts stand in it
          content/TOKEN.png     crops and long texts
          HOW-TO.txt
          answers*.csv          dropped by the worker: .csv, .tsv, .txt or .jsonl
          report-NUMBER.csv     row by row what became of them, without values
        answers*.csv            here too
      .incoming/ .known/ .taken/   ours: half-written batches, keys, files taken in

Give a worker access to its own directory only (an SFTP jail, a share): whoever can read
another's has seen what it shows.
"""

from connectors.base import Plugin
from connectors.folder.market import MANIFEST, Folder, open_folder

__all__ = ["CONNECTOR", "Folder"]

CONNECTOR = Plugin(MANIFEST, open_folder)
