"""Our own task page as a market: it keeps no state, the dispatcher's store does."""

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
    """The task page that this installation serves.

    Parameters
    ----------
    key : bytes
        The signing key of the invite links, at least 32 bytes.
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
        """Say "there is work": nothing leaves, so the key is all there is."""
        MANIFEST.check(offer)
        return Handle(offer.key, offer.key)

    def find(self, key: str) -> Handle | None:
        """Every offer is found: publishing it has no effect to be lost."""
        return Handle(key, key)

    def withdraw(self, handle: Handle) -> None:
        """Nothing lies outside that could be taken back."""

    def collect(self, cursor: str) -> Collected:
        """Answers given on our page are written by the page itself: none lie here."""
        return Collected(cursor)


def open_inhouse(settings: Settings) -> Inhouse:
    """Open with ``settings.secret`` as the signing key."""
    unknown = sorted(settings.values)
    if unknown:
        raise Misconfigured(f"inhouse does not know the setting {unknown[0]!r}")
    return Inhouse(settings.secret)
