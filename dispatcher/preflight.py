"""Preflight: find what cannot be sent at all, before anything is planned or booked.

An exposure is booked permanently before its bytes leave, so what a connector could
never deliver must not be booked. Planning and booking check it here, and ``status``,
``plan``, ``doctor`` and ``up`` report the same reasons with their remedies. What only
the outside knows (a wrong password, a missing account) is detected by sending.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from connectors.base import (
    Binding,
    ConnectorError,
    Content,
    Feed,
    Form,
    Item,
    Manifest,
    Market,
    Money,
    Offer,
    Rejected,
    Role,
    check_deliverable,
)
from dispatcher.core.errors import DispatcherError
from dispatcher.model import Pause
from dispatcher.money import money_of
from dispatcher.store import Tx, accounts, money, pause
from dispatcher.store.accounts import AccountRow

SAMPLE: Final = "preflight"
"""Key and token of the sample offer."""

_ENDS_WITH_COMMAND: Final = re.compile(r": dispatcher [^:;,]+$")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a connector, or some of its accounts, cannot be used.

    ``accounts`` is their number; neither text names one of them, or contains a value.
    """

    connector: str
    accounts: int
    what: str
    fix: str

    def __str__(self) -> str:
        ending = f": {self.fix}" if self.fix else ""
        if not _ENDS_WITH_COMMAND.search(ending):  # a connector knows none of ours
            ending += f"; then: dispatcher connectors test {self.connector}"
        whose = "1 account" if self.accounts == 1 else f"{self.accounts:,} accounts"
        return f"{self.connector} is given nothing ({whose}): {self.what}{ending}"


@dataclass(frozen=True)
class Clearance:
    """What may be planned and booked now.

    Attributes
    ----------
    manifests : Mapping
        Connector -> its manifest. A connector without one can carry anything.
    barred : frozenset of int
        Accounts to which nothing can be sent.
    obstacles : tuple of Obstacle
        Why, by connector.
    """

    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    barred: frozenset[int] = frozenset()
    obstacles: tuple[Obstacle, ...] = ()

    @cached_property
    def feeds(self) -> frozenset[str]:
        """Connectors that are feeds: they get fields without questions."""
        return frozenset(n for n, m in self.manifests.items() if m.role is Role.FEED)

    @cached_property
    def pays(self) -> frozenset[str]:
        """Connectors that pay their workers themselves."""
        return frozenset(n for n, m in self.manifests.items() if m.pays)

    def carries(self, connector: str, ask: str | None) -> bool:
        """Whether a connector can carry fields of this kind; None: no question."""
        manifest = self.manifests.get(connector)
        if manifest is None:
            return ask is not None
        ours = manifest.content is Content.OURS  # our own page asks anything
        return ask is not None if ours else manifest.carries(ask)

    def most_bytes(self, connector: str) -> int | None:
        """Longest content that a connector takes; None if it carries none."""
        manifest = self.manifests.get(connector)
        if manifest is None or manifest.content is Content.OURS:
            return None
        return manifest.limits.content_bytes


class Preflight:
    """Finds what the configured connectors cannot send, without network calls.

    Parameters
    ----------
    connectors : Mapping
        The opened ones, by the operator's names.
    link : str
        URL of our own task page.
    broken : Mapping
        Reasons why other configured ones could not be opened.
    declared : Mapping
        The manifests of those.
    """

    def __init__(
        self,
        connectors: Mapping[str, Market | Feed],
        *,
        link: str = "",
        broken: Mapping[str, DispatcherError] | None = None,
        declared: Mapping[str, Manifest] | None = None,
    ) -> None:
        self._connectors = connectors
        self._link = link
        self._broken = broken or {}
        self.manifests: Mapping[str, Manifest] = {
            **(declared or {}),
            **{name: each.manifest for name, each in connectors.items()},
        }
        self._known: dict[tuple[str, str, Money | None], ConnectorError | None] = {}

    def look(self, tx: Tx) -> Clearance:
        """Return who can be sent something now, and the obstacles of the others."""
        by_connector: dict[str, list[AccountRow]] = defaultdict(list)
        for account in accounts.all_accounts(tx):
            by_connector[account.connector].append(account)
        paused, rewards = pause.paused(tx), _rewards(tx)
        barred: list[int] = []
        obstacles: list[Obstacle] = []
        for name, every in sorted(by_connector.items()):
            active = [account for account in every if account.state == "active"]
            found: Counter[tuple[str, str]] = Counter()
            whole = self._against(name, every, paused.get(f"connector:{name}"))
            for account in active:
                obstacle = whole or self._against_one(name, account.name, rewards)
                if obstacle is not None:
                    barred.append(account.id)
                    found[obstacle] += 1
            obstacles += [Obstacle(name, n, *obstacle) for obstacle, n in found.items()]
        return Clearance(self.manifests, frozenset(barred), tuple(obstacles))

    def _against(
        self, name: str, every: Sequence[AccountRow], paused: Pause | None
    ) -> tuple[str, str] | None:
        """Return what rules out all accounts of a connector, and how to fix it."""
        broken, connector = self._broken.get(name), self._connectors.get(name)
        if broken is not None:
            return broken.what, broken.fix
        if connector is None and name in self.manifests:
            return "it is set up and was not opened yet", "dispatcher up"
        if connector is None:
            return (
                "no connector of this name is set up",
                f"block its accounts, or: dispatcher connectors add {name} --kind KIND",
            )
        if paused is not None:
            reason = f"connector:{name} is paused: {paused.reason}"
            return reason, f"dispatcher connectors enable {name}"
        try:
            adversaries = {account.adversary_id for account in every}
            connector.manifest.check_adversaries(len(adversaries))
        except ConnectorError as error:
            return error.what, error.fix
        return None

    def _against_one(
        self, name: str, account: str, rewards: Iterable[Money]
    ) -> tuple[str, str] | None:
        """Return what rules out one account; a paying market needs a fitting reward."""
        pays = self.manifests[name].pays
        tried: list[Money | None] = [*rewards] if pays else []
        error = None
        for reward in tried or [None]:
            error = self._tried(name, account, reward)
            if error is None:
                return None
        assert error is not None, "each offer that was tried was refused"
        return error.what, error.fix or error.why

    def _tried(
        self, name: str, account: str, reward: Money | None
    ) -> ConnectorError | None:
        """Try an account once, and cache the answer."""
        key = (name, account, reward)
        if key not in self._known:
            connector = self._connectors[name]
            self._known[key] = None
            try:
                check_deliverable(
                    connector, _sample(connector, account, self._link, reward)
                )
            except ConnectorError as error:
                self._known[key] = error
            except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's code
                self._known[key] = Rejected(
                    f"it failed when it was asked ({type(error).__name__})",
                    fix="tell its author: connectors.testing.suite would have found it",
                )
        return self._known[key]


def addressed(
    manifest: Manifest, key: str, account: str, items: Sequence[Item], link: str
) -> Offer:
    """Build the offer of a message, addressed as its connector requires."""
    anyone = manifest.binding is Binding.NONE and manifest.role is Role.MARKET
    return Offer(
        key=key,
        account="" if anyone else account,
        audience=account if anyone else "",
        items=tuple(items),
        link=link if manifest.content is Content.OURS else "",
    )


def _sample(
    connector: Market | Feed, account: str, link: str, reward: Money | None
) -> Offer:
    """Build a sample offer without content."""
    manifest = connector.manifest
    item = Item(SAMPLE)
    if manifest.content is Content.MARKET:
        item = replace(item, content=b"", form=_form(manifest))
    return replace(addressed(manifest, SAMPLE, account, [item], link), reward=reward)


def _form(manifest: Manifest) -> Form | None:
    """Return a form that its workers can be asked."""
    if manifest.role is Role.FEED or not manifest.asks:
        return None
    ask = manifest.asks[0]
    choices = (SAMPLE,) if ask == "choose" else ()
    return Form(ask, choices=choices, columns=(SAMPLE,) if ask == "table" else ())


def _rewards(tx: Tx) -> list[Money]:
    """Return the rewards in the budgets of all runs."""
    rows = [row for row in money.budgets(tx) if row.reward]
    return [*dict.fromkeys(money_of(row.reward, row.currency) for row in rows)]
