"""The protocol between the dispatcher and the outside: what every connector speaks.

A connector is a market (people open tasks there and answers come back) or a feed (data
goes there and nothing returns). It knows no database and no policy: values in, values
out, errors classed by what the caller does next.

The promises, proved for every connector by :mod:`connectors.testing.suite`:

- *At least once, made once by the key.* ``publish`` and ``send`` carry the idempotency
  key; after an unknown outcome (a timeout, a crash) the caller asks ``find(key)``
  before it publishes again.
- *Answers are re-delivered until their cursor comes back.* ``collect(cursor)`` gives
  what lies behind the cursor; only the next call with the new cursor acknowledges it.
- *Content stays home unless the manifest says so.* An item holds bytes exactly where
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
    Notice,
    Offer,
    Outcome,
    Posted,
    Quarantined,
    Visit,
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
    "Notice",
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
    "check_offer",
    "feed_manifest",
    "pull_manifest",
]


@runtime_checkable
class Market(Protocol):
    """People open tasks there; answers come back."""

    @property
    def manifest(self) -> Manifest:
        """What this connector declares; fixed for its life."""

    def publish(self, offer: Offer) -> Handle:
        """Make the offer known outside. Raises TryLater, Rejected, Misconfigured.

        Any other exception, and TryLater too, leaves the outcome unknown: the caller
        counts it as sent and asks ``find`` before it repeats.
        """

    def find(self, key: str) -> Handle | None:
        """Tell whether the outside has the offer of this key, withdrawn ones too."""

    def withdraw(self, handle: Handle) -> None:
        """Take the offer back; one that is gone already is no error."""

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Resolve a visitor. Raises Rejected for one that cannot prove who it is."""

    def collect(self, cursor: str) -> Collected:
        """Give what lies behind the cursor (``""`` = the beginning)."""


@runtime_checkable
class Feed(Protocol):
    """Data goes there and stays; the exposure happens at ``send``."""

    @property
    def manifest(self) -> Manifest:
        """What this connector declares; fixed for its life."""

    def send(self, offer: Offer) -> Handle:
        """Hand the items over. Errors as in :meth:`Market.publish`."""

    def find(self, key: str) -> Handle | None:
        """Tell whether the outside has what was sent under this key."""


@runtime_checkable
class Checking(Protocol):
    """A connector that cannot carry everything that its manifest allows.

    Optional: of other connectors the manifest says it all.
    """

    def check_offer(self, offer: Offer) -> None:
        """Refuse an offer that can never leave; ``publish`` or ``send`` asks it first.

        The dispatcher asks it too, before it books anything, with an offer that stands
        for those to come: one item, whose content is empty. It checks the manifest as
        well, and touches no network. Raises Rejected, Misconfigured.
        """


@runtime_checkable
class Fetching(Protocol):
    """A feed whose receiver comes for content that a message only told of.

    Optional. What a message tells of is booked before it leaves, as if it held it all.
    """

    def wanted(self, visit: Visit, now: datetime) -> tuple[str, ...]:
        """Check that the receiver asks, over the raw bytes; return the tokens it wants.

        It touches no network. Raises Rejected for a request that is forged or old.
        """


@runtime_checkable
class Forgetting(Protocol):
    """A connector that can delete what it holds outside of single tasks.

    Optional: of what leaves by another connector an erasure says that it cannot be
    called back.
    """

    def forget(self, tokens: Collection[str]) -> tuple[str, ...]:
        """Delete content and answers of tasks; again and again does no harm.

        Returns places (no values) where something of them is left. Raises TryLater,
        Rejected, Misconfigured.
        """


@runtime_checkable
class Listing(Protocol):
    """A market that can tell all that it has of us.

    Optional: where it cannot, nobody notices an offer that was deleted there, nor one
    that this store has forgotten.
    """

    def listing(self, cursor: str) -> Listed:
        """Give one page of the offers that lie outside (``""`` = the first).

        Offers that were made by our hand alone, those of other stores too; ones that are
        over or withdrawn may be left out. Pages are of bounded size; what is offered
        while they are turned may be missing. Raises TryLater, Rejected, Misconfigured.
        """


@runtime_checkable
class Retelling(Protocol):
    """A market that lists, and tells no more of work whose cursor came back.

    Optional: a store that was restored has not heard what was told since its backup.
    """

    def retell(self, handle: Handle) -> None:
        """Have ``collect`` tell again what came of an offer; gone already is no error."""


@runtime_checkable
class Probing(Protocol):
    """A market whose walls can be tried at the market itself.

    Optional: whether an arrival proves who comes is tried of every market.
    """

    def probe(self, account: str, other: Stranger, link: str) -> Iterable[Tried]:
        """Offer synthetic work to an account, try to open it as another, take it back.

        What is offered costs nothing, also where somebody takes it. Raises TryLater,
        Rejected, Misconfigured where it cannot be tried.
        """


@runtime_checkable
class Inviting(Protocol):
    """A market whose workers open our task page by a personal link.

    Optional: workers of other markets are known by what the market says of them.
    """

    def invite(self, account: str, ticket: str, expires: datetime) -> str:
        """Make the code of a link, which ``arrive`` takes as parameter ``token``.

        It is signed by a key of this connector alone, so that no link of another
        connector opens a page here; it has no ``~`` in it, and touches no network.
        """


@runtime_checkable
class Finishing(Protocol):
    """A market whose workers tell it, by a link, that they are done.

    Optional: elsewhere nothing has to be told.
    """

    def finish(self, account: str) -> str:
        """Make the link, the same for the same account; it touches no network."""


@runtime_checkable
class Framing(Protocol):
    """A market that shows its workers a page of ours within a page of its own.

    Optional. In a frame nothing of a field is ever shown, and no session is opened: the
    page there leads to our own, in a window of its own.
    """

    def notice(self, visit: Visit) -> Notice:
        """Say what that page leads to; it touches no network.

        Raises Rejected for a visit that is none of the market's.
        """


@runtime_checkable
class Paying(Protocol):
    """A market that pays its workers itself, on our word.

    Optional; the manifest says ``pays``. It learns what a piece of work pays from
    ``Offer.reward``, and tells by ``Collected.submissions`` how each one stands: that is
    where the dispatcher gets :attr:`Pay.submission` from, and when it pays. Nothing here
    rejects work: only a person does that, at the market.
    """

    def approve(self, pay: Pay) -> None:
        """Accept a piece of work, so that its reward is paid.

        Asked again it does no harm: one that is approved already is fine. Raises
        Rejected where the market's state does not allow it (handed back, timed out,
        unknown there), TryLater where the outcome is not known (``certain`` where nothing
        was done), Misconfigured where nothing was done.
        """

    def bonus(self, pay: Pay) -> None:
        """Pay what was earned besides. Errors as in :meth:`approve`.

        The caller asks ``paid`` before it repeats; where the market knows keys, ours
        goes along.
        """

    def paid(self, pay: Pay) -> bool | None:
        """Tell, after an unknown outcome, whether the market has paid this.

        None: it cannot tell. Then it is never repeated, and a person looks.
        """


@runtime_checkable
class Heeding(Protocol):
    """A market that calls us when something has changed there.

    Optional. A call is a hint: the market is asked sooner, and nothing of the call is
    believed.
    """

    def heed(self, visit: Visit, now: datetime) -> str:
        """Check that the market calls, over the raw bytes; return the call's id.

        Raises Rejected for a call that is forged or old; it may not be told which.
        """


@dataclass(frozen=True)
class Settings:
    """What the operator set for one connector.

    Attributes
    ----------
    values : Mapping[str, str]
        As in the connector's own documentation.
    secret : bytes
        Never printed; empty if the connector needs none.
    directory : Path
        Where relative paths of `values` begin.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    directory: Path = field(default_factory=Path)

    @property
    def private(self) -> frozenset[str]:
        """Hosts of the own network in ``allow_private``, in lower case."""
        listed = self.values.get("allow_private", "").split(",")
        return frozenset(host.strip().lower() for host in listed) - {""}

    def of(
        self, kind: str, known: Sequence[str], required: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """Give the values, if a connector of this kind takes them.

        Raises
        ------
        Misconfigured
            One that it does not know, or a required one is missing.
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
    """What an entry point of group ``sparsi_dispatcher.connectors`` points to.

    Attributes
    ----------
    manifest : Manifest
        What it declares where the settings say nothing else.
    open : callable
        Settings -> Market or Feed. Raises Misconfigured; touches no network.
    by_settings : callable or None
        Values of the settings -> Manifest of the same name and role, for a kind that
        declares by them what it is. Takes any values, wrong ones too.
    """

    manifest: Manifest
    open: Callable[[Settings], Market | Feed]
    by_settings: Callable[[Mapping[str, str]], Manifest] | None = None

    @property
    def name(self) -> str:
        """Name of the kind of connector."""
        return self.manifest.name

    def declared(self, values: Mapping[str, str]) -> Manifest:
        """What a connector of these settings declares."""
        return self.manifest if self.by_settings is None else self.by_settings(values)


def check_offer(connector: Market | Feed, offer: Offer) -> None:
    """Refuse an offer that a connector could never hand over; touches no network.

    Raises
    ------
    Rejected, Misconfigured
        Say what to mend.
    """
    if isinstance(connector, Checking):
        connector.check_offer(offer)
    else:
        connector.manifest.check(offer)
