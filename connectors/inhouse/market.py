"""Our own task page as a market: it has no state of its own; the store has it."""

from __future__ import annotations

from connectors.base import (
    Binding,
    Collected,
    Handle,
    Idempotency,
    Identity,
    Manifest,
    Misconfigured,
    Offer,
    Settings,
    pull_manifest,
)
from connectors.tickets import Linked, check_key

MANIFEST = pull_manifest(
    name="inhouse",
    binding=Binding.LATE,
    identity=Identity.SIGNED,
    idempotency=Idempotency.KEY,
    tested_against="real HTTP and a real browser",
)


class Inhouse(Linked):
    """The task page served by this installation.

    Parameters
    ----------
    key : bytes
        The signing key of the invitation links, at least 32 bytes.
    """

    _why = "the task page is opened by a personal link"
    _fix = "use the link of the invitation"

    def __init__(self, key: bytes) -> None:
        self._key = check_key(
            key, "let the dispatcher make a key, or give 32 random bytes"
        )

    @property
    def manifest(self) -> Manifest:
        """Late binding, content ours."""
        return MANIFEST

    def publish(self, offer: Offer) -> Handle:
        """Return the key as the handle: nothing leaves the installation."""
        MANIFEST.check(offer)
        return Handle(offer.key, offer.key)

    def find(self, key: str) -> Handle | None:
        """Every offer is found: publishing has no effect that could be lost."""
        return Handle(key, key)

    def withdraw(self, handle: Handle) -> None:
        """Do nothing: nothing is outside."""

    def collect(self, cursor: str) -> Collected:
        """Return nothing: the page itself writes the answers given on it."""
        return Collected(cursor)


def open_inhouse(settings: Settings) -> Inhouse:
    """Open with ``settings.secret`` as the signing key."""
    unknown = sorted(settings.values)
    if unknown:
        raise Misconfigured(f"inhouse does not know the setting {unknown[0]!r}")
    return Inhouse(settings.secret)
