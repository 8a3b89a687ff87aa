"""Write items as a file in a folder, renamed into place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connectors.base import (
    Handle,
    Identity,
    Limits,
    Manifest,
    Offer,
    Settings,
    feed_manifest,
)
from connectors.folder.files import disk_errors, make_directory, replace_file
from connectors.formats.feed_files import check_format, file_name, written

MANIFEST = feed_manifest(
    name="pickup",
    identity=Identity.LOGIN,
    limits=Limits(items=10_000),
    tested_against="real folders",
)

SENT: Final = ".sent"
"""Folder of the names that were used: the receiver may take the files away."""


class PickupFolder:
    """One folder of one receiver.

    Parameters
    ----------
    path : Path
        The folder; created if its parent exists.
    form : str
        One of :data:`connectors.formats.feed_files.FORMATS`.
    guarded : bool
        Whether cells of CSV are guarded against formulas.

    Raises
    ------
    Misconfigured or TryLater
        The folder cannot be made or read.
    """

    def __init__(self, path: Path, form: str = "csv", *, guarded: bool = True) -> None:
        self._path = path
        self._form = form
        self._guarded = guarded
        with disk_errors("opening the pickup folder"):
            for folder in (path, path / SENT):
                make_directory(folder)

    @property
    def manifest(self) -> Manifest:
        """A feed that stores a file once, and can be searched for it."""
        return MANIFEST

    def send(self, offer: Offer) -> Handle:
        """Put the file in place, then note its name; a repeat writes the same bytes."""
        MANIFEST.check(offer)
        name = file_name(offer.key, self._form)
        with disk_errors("writing to the pickup folder"):
            if not (self._path / SENT / name).exists():
                body = written(offer.items, self._form, guarded=self._guarded)
                replace_file(self._path / name, body)
                replace_file(self._path / SENT / name, b"")
        return Handle(offer.key, name)

    def find(self, key: str) -> Handle | None:
        """Look for the noted name."""
        name = file_name(key, self._form)
        with disk_errors("looking into the pickup folder"):
            there = (self._path / SENT / name).exists()
        return Handle(key, name) if there else None


def open_pickup(settings: Settings) -> PickupFolder:
    """Open the folder in the settings."""
    values = settings.of("pickup", ("path", "format", "guard"), ("path",))
    form, guarded = values.get("format", "csv"), values.get("guard", "yes")
    check_format(form, guarded)
    return PickupFolder(settings.folder("path"), form, guarded=guarded == "yes")
