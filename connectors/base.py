"""The protocol of connectors: how the dispatcher talks to the outside.

A connector is a market (people open tasks there and answers come back) or a feed (data
goes there and nothing returns). It knows no database and no policy: values in, values
out, errors classed by what the caller should do next.

The guarantees, checked for every connector by :mod:`connectors.testing.suite`:

- *At least once, deduplicated by key.* ``publish`` and ``send`` carry the idempotency
  key; after an unknown outcome (a timeout, a crash) the caller calls ``find(key)``
  before it publishes again.
- *Answers are re-delivered until acknowledged.* ``collect(cursor)`` returns what
  follows the cursor; only the next call with the new cursor acknowledges it.
- *Content stays home unless the manifest allows it.* An item has bytes exactly if
  ``manifest.content`` is ``market``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from connectors.errors import (
    ConnectorError,
    Misconfigured,
    Rejected,
    TryLater,
)
from connectors.isolation import Stranger, Tried, Wall
from connectors.manifest import (
    Binding,
    Content,
    Idempotency,
    Limits,
    Manifest,
    Preview,
    Role,
    feed_manifest,
    pull_manifest,
)
from connectors.money import Money, Pay, PayKind, Progress, Submission
from connectors.values import (
    ASKS,
    TOKEN,
    Answer,
    Arrival,
    Collected,
    Form,
    Handle,
    Identity,
    Item,
    Listed,
    Offer,
    Outcome,
    Posted,
    Quarantined,
    Visit,
    WorkNotice,
)

__all__ = [
    "ASKS",
    "TOKEN",
    "Answer",
    "Arrival",
    "Binding",
    "Checking",
    "Collected",
    "ConnectorError",
    "Content",
    "Feed",
    "Fetching",
    "Finishing",
    "Forgetting",
    "Form",
    "Framing",
    "Funded",
    "Handle",
    "Heeding",
    "Idempotency",
    "Identity",
    "Inviting",
    "Item",
    "Limits",
    "Listed",
    "Listing",
    "Manifest",
    "Market",
    "Misconfigured",
    "Money",
    "Offer",
    "Outcome",
    "Pay",
    "PayKind",
    "Paying",
    "Plugin",
    "Posted",
    "Preview",
    "Probing",
    "Progress",
    "Quarantined",
    "Rejected",
    "Retelling",
    "Role",
    "Settings",
    "Stranger",
    "Submission",
    "Tried",
    "TryLater",
    "Visit",
    "Wall",
    "WorkNotice",
    "check_deliverable",
    "feed_manifest",
    "pull_manifest",
]


@runtime_checkable
class Market(Protocol):
    """A place where people open tasks and from which answers come back."""

    @property
    def manifest(self) -> Manifest:
        """The connector's declaration; it never changes."""

    def publish(self, offer: Offer) -> Handle:
        """Publish the offer. Raises TryLater, Rejected, Misconfigured.

        After any other exception, and after TryLater, the outcome is unknown: the
        caller counts it as sent and calls ``find`` before it repeats.
        """

    def find(self, key: str) -> Handle | None:
        """Return the handle of the offer with this key, withdrawn or not; None without."""

    def withdraw(self, handle: Handle) -> None:
        """Withdraw the offer; it is no error if the offer is gone already."""

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Identify a visitor. Raises Rejected if there is no valid proof of identity."""

    def collect(self, cursor: str) -> Collected:
        """Return what follows the cursor (``""`` = the beginning)."""


@runtime_checkable
class Feed(Protocol):
    """A place where data goes and stays; the exposure happens at ``send``."""

    @property
    def manifest(self) -> Manifest:
        """The connector's declaration; it never changes."""

    def send(self, offer: Offer) -> Handle:
        """Deliver the items. Errors as in :meth:`Market.publish`."""

    def find(self, key: str) -> Handle | None:
        """Return the handle of what was sent under this key, if anything was."""


@runtime_checkable
class Checking(Protocol):
    """A connector that cannot carry everything that its manifest allows.

    Optional: for other connectors the manifest is complete.
    """

    def check_offer(self, offer: Offer) -> None:
        """Refuse an offer that can never be delivered; ``publish`` and ``send`` call it.

        The dispatcher also calls it before it books anything, with a sample offer: one
        item with empty content. It includes the manifest's check and uses no network.
        Raises Rejected, Misconfigured.
        """


@runtime_checkable
class Fetching(Protocol):
    """A feed whose messages only announce content, which the receiver fetches.

    Optional. Announced content is booked before the message leaves, as if it were sent.
    """

    def wanted(self, visit: Visit, now: datetime) -> tuple[str, ...]:
        """Verify a receiver's request over its raw bytes; return the tokens it wants.

        It uses no network. Raises Rejected for a forged or old request.
        """


@runtime_checkable
class Forgetting(Protocol):
    """A connector that can delete what it keeps outside of single tasks.

    Optional: for other connectors an erasure reports that what was sent cannot be
    recalled.
    """

    def forget(self, tokens: Collection[str]) -> tuple[str, ...]:
        """Delete content and answers of tasks; it may be repeated.

        Returns places (no values) where some of it is left. Raises TryLater, Rejected,
        Misconfigured.
        """


@runtime_checkable
class Listing(Protocol):
    """A market that can list all our offers.

    Optional: without it nobody notices offers that were deleted at the market, or that
    this store has forgotten.
    """

    def listing(self, cursor: str) -> Listed:
        """Return one page of the offers at the market (``""`` = the first).

        It has only offers made by us, including those of other stores; finished or
        withdrawn ones may be left out. Pages are bounded; offers made while paging may
        be missing. Raises TryLater, Rejected, Misconfigured.
        """


@runtime_checkable
class Retelling(Protocol):
    """A market with a listing that no longer reports acknowledged work.

    Optional: a store restored from a backup needs what was reported since then again.
    """

    def retell(self, handle: Handle) -> None:
        """Make ``collect`` report an offer's results again; gone already is no error."""


@runtime_checkable
class Probing(Protocol):
    """A market whose access control can be tested at the market itself.

    Optional: the identity check of arrivals is tested for every market.
    """

    def probe(self, account: str, other: Stranger, link: str) -> Iterable[Tried]:
        """Offer synthetic work to an account, try to open it as another, withdraw it.

        The offer costs nothing, even if somebody takes it. Raises TryLater, Rejected,
        Misconfigured if it cannot be tested.
        """


@runtime_checkable
class Inviting(Protocol):
    """A market whose workers open our task page by a personal link.

    Optional: workers of other markets are identified by the market.
    """

    def invite(self, account: str, ticket: str, expires: datetime) -> str:
        """Return the code of a link, which ``arrive`` accepts as parameter ``token``.

        It is signed with a key of this connector alone, so that no link of another
        connector opens a page here; it contains no ``~``, and uses no network.
        """


@runtime_checkable
class Finishing(Protocol):
    """A market to which workers report, by a link, that they are done.

    Optional: other markets need no report.
    """

    def finish(self, account: str) -> str:
        """Return the link, the same for the same account; it uses no network."""


@runtime_checkable
class Framing(Protocol):
    """A market that shows a page of ours in a frame of its own page.

    Optional. A framed page never shows a field and opens no session: it links to our
    task page, in a window of its own.
    """

    def notice(self, visit: Visit) -> WorkNotice:
        """Return what the framed page links to; it uses no network.

        Raises Rejected for a visit that does not come from the market.
        """


@runtime_checkable
class Paying(Protocol):
    """A market that pays its workers itself, on our instruction.

    Optional; declared by ``pays`` in the manifest. The reward of a piece of work is
    ``Offer.reward``, and ``Collected.submissions`` reports the state of each one: from
    there the dispatcher gets :attr:`Pay.submission`, and knows when to pay. Nothing
    here rejects work: only a person does that, at the market.
    """

    def approve(self, pay: Pay) -> None:
        """Accept a piece of work, so that its reward is paid.

        It may be repeated: one that is approved already is fine. Raises Rejected if the
        market's state does not allow it (returned, timed out, unknown there), TryLater
        if the outcome is unknown (``certain`` if nothing was done), Misconfigured if
        nothing was done.
        """

    def bonus(self, pay: Pay) -> None:
        """Pay what was earned beyond the reward. Errors as in :meth:`approve`.

        The caller calls ``paid`` before it repeats; the key is passed on if the market
        supports keys.
        """

    def paid(self, pay: Pay) -> bool | None:
        """Return, after an unknown outcome, whether the market has paid this.

        None if it is unknown: then it is never repeated, and a person checks.
        """


@runtime_checkable
class Funded(Protocol):
    """A market that can tell how much money is left in its account. Optional."""

    def balance(self) -> Money:
        """Return what may still be spent there. Errors as those of ``collect``."""


@runtime_checkable
class Heeding(Protocol):
    """A market that calls us when something has changed there.

    Optional. A call is only a hint to poll the market sooner; its contents are not
    trusted.
    """

    def heed(self, visit: Visit, now: datetime) -> str:
        """Verify a call of the market over its raw bytes; return the call's id.

        Raises Rejected for a forged or old call, without saying which.
        """


@dataclass(frozen=True)
class Settings:
    """The operator's settings of one connector.

    Attributes
    ----------
    values : Mapping[str, str]
        See the connector's own documentation.
    secret : bytes
        Never printed; empty if the connector needs none.
    directory : Path
        Base of relative paths in `values`.
    inside : bool
        Whether paths may not leave it: they come from somewhere else than this machine.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    directory: Path = field(default_factory=Path)
    inside: bool = False

    def folder(self, name: str) -> Path:
        """Return the folder that a setting names.

        Raises
        ------
        Misconfigured
            It is outside of ``directory``, or that itself, where that is not allowed.
        """
        found, home = self.directory / self.values[name], self.directory.resolve()
        if self.inside and home not in found.resolve().parents:
            raise Misconfigured(
                f"{name} names a folder outside of the workspace",
                fix="name one within it, or add the connector by command on its machine",
            )
        return found

    @property
    def private(self) -> frozenset[str]:
        """Hosts of the own network in ``allow_private``, in lower case."""
        listed = self.values.get("allow_private", "").split(",")
        return frozenset(host.strip().lower() for host in listed) - {""}

    def of(
        self, kind: str, known: Sequence[str], required: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """Return the values, if a connector of this kind accepts them.

        Raises
        ------
        Misconfigured
            If one is unknown, or a required one is missing.
        """
        unknown = sorted(set(self.values) - set(known))
        missing = [name for name in required if name not in self.values]
        if unknown or missing:
            verb = "is" if len(missing) == 1 else "are"
            lacks = f"{' and '.join(missing)} {verb} missing"
            raise Misconfigured(
                f"settings of {kind}: {', '.join(unknown) or lacks}",
                fix=f"it takes {', '.join(known)}",
            )
        return self.values


@dataclass(frozen=True)
class Plugin:
    """The target of an entry point of group ``sparsi_dispatcher.connectors``.

    Attributes
    ----------
    manifest : Manifest
        The declaration, unless the settings change it.
    open : callable
        Settings -> Market or Feed. Raises Misconfigured; touches no network.
    by_settings : callable or None
        Values of the settings -> Manifest of the same name and role, for a kind whose
        declaration depends on them. Accepts any values, wrong ones too.
    """

    manifest: Manifest
    open: Callable[[Settings], Market | Feed]
    by_settings: Callable[[Mapping[str, str]], Manifest] | None = None

    @property
    def name(self) -> str:
        """Name of the kind of connector."""
        return self.manifest.name

    def declared(self, values: Mapping[str, str]) -> Manifest:
        """Return the declaration of a connector with these settings."""
        return self.manifest if self.by_settings is None else self.by_settings(values)


def check_deliverable(connector: Market | Feed, offer: Offer) -> None:
    """Refuse an offer that a connector could never deliver; uses no network.

    Raises
    ------
    Rejected, Misconfigured
        Say what to correct.
    """
    if isinstance(connector, Checking):
        connector.check_offer(offer)
    else:
        connector.manifest.check(offer)
