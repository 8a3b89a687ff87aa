"""Packing: a claimed message made ready to leave, judged by the policy as it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from connectors.base import Content, Feed, Form, Handle, Item, Market, Offer
from dispatcher import money
from dispatcher.core import keys
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.preflight import addressed
from dispatcher.store import Store, accounts, lease
from dispatcher.store import ledger as gate_rows
from dispatcher.store import money as purse
from dispatcher.store import outbox as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.outbox import MessageRow
from dispatcher.store.tasks import CargoRow


@dataclass(frozen=True)
class Parcel:
    """A message made ready: the offer, or why there is none."""

    message: MessageRow
    offer: Offer | None = None
    withdraws: Handle | None = None
    idle: bool = False  # nothing may go now, later perhaps
    barred: tuple[int, ...] = ()  # tasks that the policy lets go no more
    refusal: str = ""


class Packing:
    """Makes offers of messages.

    Parameters
    ----------
    store : Store
    link : str
        Where our own task page waits, for content-free offers.
    """

    def __init__(self, store: Store, link: str) -> None:
        self._store = store
        self._link = link

    def pack(
        self, name: str, connector: Market | Feed, message: MessageRow, epoch: int
    ) -> Parcel:
        """Make the offer of a message; what holds no more stays here.

        Raises
        ------
        StaleLease
            Another daemon leads, and sends what this one had claimed.
        """
        # one message at a time: a batch of crops may be large
        with self._store.read() as tx:
            lease.check_leader(tx, lease.SHARD, epoch)
            stopped = gate_rows.stopped_scopes(tx)
            blocked = accounts.is_blocked(tx, message.account_id)
            force = current_policy(tx)
            own = (
                list(task_rows.cargo(tx, message.id))
                if message.kind == "publish"
                else []
            )
            offers = message.kind == "offer"
            promised = purse.reward_of(tx, message.id) if offers else None
        paused = {"all", f"connector:{name}"} & stopped
        if paused or any(f"run#{row.run_id}" in stopped for row in own):
            return Parcel(message, idle=True)
        if message.kind == "withdraw":
            return self._pack_withdrawal(message)
        if blocked:
            return Parcel(message, refusal="the account is blocked")
        if offers:
            token = keys.pseudonym(self._store.key("task-key"), "w", str(message.id))
            offer = self._offer(connector, message, [Item(token)])
            reward = None if promised is None else money.money_of(*promised)
            return Parcel(message, replace(offer, reward=reward))
        barred = tuple(row.task_id for row in own if not _may_go(force, row))
        items = self._items(connector, force, own)
        if not items:
            told = "the policy in force sends none of it"
            return Parcel(message, barred=barred, refusal=told)
        return Parcel(message, self._offer(connector, message, items), barred=barred)

    def _pack_withdrawal(self, message: MessageRow) -> Parcel:
        """Find what is to be withdrawn: ``handle`` holds the id of its message."""
        number = int(message.handle or 0)
        with self._store.read() as tx:
            reference = rows.handle_of(tx, number)
            waits = reference is None and rows.may_leave(tx, number)
        if reference is None:  # what may yet leave is withdrawn when it has
            told = "there is nothing to withdraw"
            return Parcel(message, idle=waits, refusal="" if waits else told)
        return Parcel(message, withdraws=Handle(self.key(number), reference))

    def _items(
        self,
        connector: Market | Feed,
        force: ActivePolicy | None,
        own: Iterable[CargoRow],
    ) -> list[Item]:
        going = [row for row in own if _may_go(force, row)]
        if force is None:
            return []
        tokens = keys.task_tokens(
            self._store.key("task-key"), [row.task_id for row in going]
        )
        held = connector.manifest.content is Content.MARKET
        return [
            _item(force, row, token, held=held)
            for row, token in zip(going, tokens, strict=True)
        ]

    def _offer(
        self, connector: Market | Feed, message: MessageRow, items: Sequence[Item]
    ) -> Offer:
        key, manifest = self.key(message.id), connector.manifest
        return addressed(manifest, key, message.account, items, self._link)

    def key(self, message_id: int) -> str:
        """Key of a message outside."""
        return keys.offer_key(self._store.key("task-key"), message_id)


def _may_go(force: ActivePolicy | None, row: CargoRow) -> bool:
    """Not if the worker knows the person, nor if the policy sends the field no more."""
    if row.recused:
        return False
    standing = force.fields.get(row.field_id) if force is not None else None
    return standing is not None and standing.sent


def _item(force: ActivePolicy, row: CargoRow, token: str, *, held: bool) -> Item:
    """Translate a task into the connectors' words."""
    name = force.fields[row.field_id].name
    field = force.policy.entity.fields[name]
    form = None
    if field.ask is not None:
        form = Form(
            ask=field.ask,
            question=field.asked,
            help=field.help,
            choices=field.choices,
            columns=field.columns,
            minimum=_decimal(field.minimum),
            maximum=_decimal(field.maximum),
        )
    item = Item(token, form, media_type=row.media.partition(";")[0].strip())
    if form is None:
        item = replace(item, label=name)
    return replace(item, content=row.shown) if held else item


def _decimal(number: Fraction | None) -> str | None:
    """Write a limit of the policy: an exact decimal of at most 30 digits."""
    if number is None:
        return None
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    whole = abs(int(number * 10**digits))
    text = str(whole).rjust(digits + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else f"{sign}{text}"
