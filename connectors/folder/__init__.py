"""The folder connector: batches out and answers back as files, for agencies and SFTP."""

from connectors.base import Plugin
from connectors.folder.market import MANIFEST, Folder, open_folder

__all__ = ["CONNECTOR", "Folder"]

CONNECTOR = Plugin(MANIFEST, open_folder)
