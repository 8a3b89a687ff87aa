"""Sending: deliver the outbox at least once, deduplicated by idempotency keys.

Reads ``outbox``, writes ``outbox`` and ``task``. A message is leased under the daemon's
epoch, published outside any transaction under a key derived from its id, and settled in
another transaction. Every claim counts as an attempt: a message that was claimed before
may already be outside, so the connector is asked (``find``) before it is published
again. Each connector has its own stage, so that a failing one delays no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

from connectors.base import (
    ConnectorError,
    Content,
    Feed,
    Form,
    Handle,
    Idempotency,
    Item,
    Market,
    Misconfigured,
    Offer,
    Rejected,
    Role,
    TryLater,
)
from connectors.leak_check import heard
from dispatcher import money
from dispatcher.core import keys, meters
from dispatcher.core.circuits import FAULTS, Circuit, pause_of
from dispatcher.core.log import get_logger
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.preflight import addressed
from dispatcher.store import Clock, Store, Tx, accounts, lease, settings
from dispatcher.store import ledger as gate_rows
from dispatcher.store import money as purse
from dispatcher.store import outbox as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed
from dispatcher.store.outbox import MessageOutcome, MessageRow
from dispatcher.store.settings import CircuitRow
from dispatcher.store.tasks import CargoRow

MICRO: Final = 1_000_000
LEASE: Final = 300 * MICRO
"""Lease of a claimed message; a connector's call is far shorter."""

LAST_CALL: Final = 120 * MICRO
"""In the last part of its lease, of this length, no delivery of a message begins.

An erasure waits for leased messages, and for no others: a delivery must have arrived
before the lease ends, however slow the outside or this process was.
"""

BATCH: Final = 50
"""Messages of one connector sent in one turn."""

BROKE: Final = 60 * MICRO
"""Wait before a message for which there is no money is tried again."""

MISCONFIGURED: Final = 60 * MICRO
"""Wait before a connector that only the operator can repair is called again."""

FIRST_WAIT: Final = 2 * MICRO
LONGEST_WAIT: Final = 3600 * MICRO


@dataclass(frozen=True)
class SendingTerms:
    """Settings of retries.

    Attributes
    ----------
    attempts : int
        Tries before a message is a dead letter, >= 1.
    link : str
        Where our own task page waits, for content-free offers.
    """

    attempts: int = 12
    link: str = ""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}, expected >= 1")


def backoff(attempts: int, message_id: int) -> int:
    """Wait before the next try: doubling from 2 s to 1 h, spread by the id.

    Parameters
    ----------
    attempts : int
        Tries so far, >= 1.
    message_id : int

    Returns
    -------
    int
        Microseconds.
    """
    wait = min(LONGEST_WAIT, FIRST_WAIT << min(attempts - 1, 20))
    return wait - wait * (message_id % 8) // 32


class Sending:
    """The stage of one connector; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    name : str
        The operator's name of the connector.
    connector : Market or Feed
    clock : Clock
    terms : SendingTerms
    """

    def __init__(
        self,
        store: Store,
        name: str,
        connector: Market | Feed,
        clock: Clock,
        terms: SendingTerms | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self._connector = connector
        self._clock = clock
        self._terms = terms or SendingTerms()
        self._packing = Packing(store, self._terms.link)
        self._circuit = Circuit(connector.manifest.limits.per_minute, clock)
        self._error = ""
        self._noted: tuple[int, int, int] | None = (0, 0, 0)  # unknown: note it first
        self._log = get_logger("sending")

    @property
    def is_suspended(self) -> bool:
        """Whether the connector must not be called now."""
        return self._circuit.is_open()

    def tick(self, epoch: int) -> int:
        """Send a batch, if the connector may be called.

        Returns
        -------
        int
            Messages delivered.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        return 0 if self.is_suspended else self._send(epoch)

    def _send(self, epoch: int) -> int:
        """Claim, publish, settle: one batch."""
        self._store.settle()  # else nothing is claimed
        now = self._clock()
        until = now + LEASE - LAST_CALL

        def claim(tx: Tx) -> tuple[Misconfigured | None, list[MessageRow]]:
            lease.check_epoch(tx, lease.SHARD, epoch)
            rows.release_left(tx, self._name, epoch, now)
            if {"all", f"connector:{self._name}"} & gate_rows.stopped_scopes(tx):
                return None, []
            parted = self._shows_to_others(tx)
            limit = self._circuit.room(BATCH) if parted is None else 0
            claimed = rows.claim(tx, self._name, epoch, now, now + LEASE, limit)
            return parted, self._affordable(tx, claimed, epoch)

        parted, messages = committed(self._store, claim)
        if parted is not None:
            self._circuit.open_for(MISCONFIGURED)
            self._tell_rest("misconfigured", f"{parted.what}: {parted.fix}")
            committed(self._store, partial(self._note_circuit, epoch))
            self._noted = self._circuit.fault
        if not messages:
            return 0
        self._circuit.spend(len(messages))
        self._store.settle()  # what was claimed may have been booked a moment ago
        outcomes: list[MessageOutcome] = []
        barred: list[int] = []
        for message in messages:
            if self.is_suspended or self._clock() >= until:
                outcomes.append(MessageOutcome(message.id, "ready", now, 1, None, None))
                continue
            parcel = self._packing.pack(self._name, self._connector, message, epoch)
            barred += parcel.barred
            outcomes.append(self._deliver(parcel, until))
        return self._settle(epoch, outcomes, barred)

    def _affordable(
        self, tx: Tx, claimed: list[MessageRow], epoch: int
    ) -> list[MessageRow]:
        """Reserve money for claimed messages; those without money wait again."""
        connector, now = self._connector, self._clock()
        if not claimed or not isinstance(connector, Market):
            return claimed
        manifest = connector.manifest
        stays = money.send_off(
            tx,
            self._name,
            claimed,
            pays=manifest.pays,
            currency=manifest.currency,
            now=now,
        )
        kept = stays.waiting | stays.idle
        if not kept:
            return claimed
        back = [
            MessageOutcome(one.id, "ready", now + BROKE, 1, None, one.error)
            for one in claimed
            if one.id in kept
        ]
        rows.settle(tx, epoch, back)
        rows.cancel(tx, sorted(stays.idle))
        return [one for one in claimed if one.id not in kept]

    def _shows_to_others(self, tx: Tx) -> Misconfigured | None:
        """Check again whether accounts without a booking could see what is sent."""
        count = accounts.adversaries_at(tx, self._name)
        try:
            self._connector.manifest.check_adversaries(count)
        except Misconfigured as error:
            return error
        return None

    def _settle(
        self, epoch: int, outcomes: Sequence[MessageOutcome], barred: Sequence[int]
    ) -> int:
        sent = [one.id for one in outcomes if one.state == "sent"]
        dead = [one.id for one in outcomes if one.state in ("dead", "cancelled")]
        called_off = {one.id for one in outcomes if one.state == "cancelled"}
        manifest = self._connector.manifest
        arrived = "published" if manifest.role is Role.FEED else "sent"

        def settle(tx: Tx) -> list[tuple[str, dict[str, int]]]:
            self._note_circuit(epoch, tx)
            rows.settle(
                tx,
                epoch,
                [
                    replace(one, state="ready") if one.id in called_off else one
                    for one in outcomes
                ],
            )
            rows.cancel(tx, sorted(called_off))
            if manifest.pays:
                purse.note_sent(tx, [(o.id, o.handle) for o in outcomes if o.handle])
            return [
                ("dead", task_rows.give_up(tx, barred)),
                (arrived, task_rows.mark_tasks(tx, sent, arrived, barred)),
                ("dead", task_rows.mark_tasks(tx, dead, "dead", barred)),
            ]

        transitions = committed(self._store, settle)
        self._noted = self._circuit.fault
        for state, moved in transitions:
            for before, count in moved.items():
                meters.TRANSITIONS.labels(before, state, self._name).inc(count)
        return len(sent)

    def _note_circuit(self, epoch: int, tx: Tx) -> None:
        """Keep what the circuit is, where operators see it, when that has changed."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        fault = self._circuit.fault
        if fault != self._noted:
            row = None if fault is None else CircuitRow(*fault, self._error)
            settings.note_circuit(tx, self._name, row)

    def _deliver(self, parcel: PreparedMessage, until: int) -> MessageOutcome:
        """Deliver one message, unless ``until`` has passed."""
        message, now = parcel.message, self._clock()
        if parcel.idle:
            return MessageOutcome(
                message.id, "ready", now + MISCONFIGURED, 1, None, None
            )
        try:
            handle = self._arrived(parcel)
            if handle is None and parcel.refusal:
                return self._refused(parcel)
            if handle is None and self._clock() >= until:
                return MessageOutcome(message.id, "ready", now, 1, None, None)
            handle = self._own(parcel, handle or self._hand_over(parcel))
        except ConnectorError as error:
            return self._failed(parcel, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - unknown: ask later
            self._log.warning(
                "send-unknown", connector=self._name, outbox=message.id, error=error
            )
            if self._circuit.failed(after=FAULTS):
                self._tell_rest("failed", type(error).__name__)
            due = now + backoff(message.attempts, message.id)
            return self._again(message, due, type(error).__name__)
        self._circuit.worked()
        # a withdrawal's own handle names the message that it took back
        reference = None if parcel.withdraws else handle.reference
        return MessageOutcome(message.id, "sent", now, 0, reference, None)

    def _failed(self, parcel: PreparedMessage, error: ConnectorError) -> MessageOutcome:
        """Classify a connector's error by what to do next."""
        message, now = parcel.message, self._clock()
        reason = heard(error, parcel.offer)
        if isinstance(error, Misconfigured):
            self._circuit.open_for(MISCONFIGURED)
            self._tell_rest("misconfigured", reason)
            return MessageOutcome(
                message.id, "ready", now + MISCONFIGURED, 1, None, reason
            )
        if isinstance(error, TryLater):
            pause = pause_of(error)
            self._circuit.failed(pause)
            self._tell_rest("try-later", reason)
            return self._again(message, now + pause, reason)
        return self._dead(message, reason)

    def _arrived(self, parcel: PreparedMessage) -> Handle | None:
        """Ask whether an earlier try arrived; if so it counts as sent in any case."""
        message = parcel.message
        tried = message.attempts > 1 or message.error is not None
        if message.kind == "withdraw" or not tried:
            return None
        with meters.calling(self._name):
            return self._connector.find(self._packing.key(message.id))

    def _hand_over(self, parcel: PreparedMessage) -> Handle:
        offer, connector = parcel.offer, self._connector
        if parcel.withdraws is not None:
            if isinstance(connector, Market) and connector.manifest.withdraws:
                with meters.calling(self._name):
                    connector.withdraw(parcel.withdraws)
            return parcel.withdraws
        assert offer is not None, (
            "nothing is in the way of this parcel, yet it has no offer"
        )
        again = parcel.message.attempts > 1
        if again and connector.manifest.idempotency is Idempotency.NONE:
            raise Rejected(
                "it may have been sent, and this connector cannot tell",
                why="its manifest promises no idempotency",
                fix="look there; then send it again: dispatcher queue retry",
            )
        with meters.calling(self._name):
            if isinstance(connector, Market):
                return connector.publish(offer)
            return connector.send(offer)

    def _own(self, parcel: PreparedMessage, handle: Handle) -> Handle:
        """Reject another offer's handle: it leaves the fate of this one unknown."""
        if parcel.withdraws is None and handle.key != self._packing.key(
            parcel.message.id
        ):
            raise ValueError("the handle is another offer's")
        return handle

    def _again(self, message: MessageRow, due: int, reason: str) -> MessageOutcome:
        if message.attempts >= self._terms.attempts:
            return self._dead(message, reason)
        return MessageOutcome(message.id, "ready", due, 0, None, reason)

    def _refused(self, parcel: PreparedMessage) -> MessageOutcome:
        """Do not send a message.

        A withdrawal that finds nothing outside is done. What was for a blocked account
        is cancelled: nobody has to look at it.
        """
        message, reason = parcel.message, parcel.refusal
        if message.kind == "withdraw" or parcel.blocked:
            state = "cancelled" if parcel.blocked else "sent"
            return MessageOutcome(message.id, state, self._clock(), 0, None, reason)
        return self._dead(message, reason)

    def _dead(self, message: MessageRow, reason: str) -> MessageOutcome:
        self._log.warning(
            "send-dead",
            connector=self._name,
            outbox=message.id,
            attempts=message.attempts,
            reason=reason,
        )
        return MessageOutcome(message.id, "dead", self._clock(), 0, None, reason)

    def _tell_rest(self, why: str, reason: str) -> None:
        self._error = reason
        self._log.warning(
            "connector-resting", connector=self._name, why=why, reason=reason
        )


@dataclass(frozen=True)
class PreparedMessage:
    """A message prepared for sending: the offer, or why there is none."""

    message: MessageRow
    offer: Offer | None = None
    withdraws: Handle | None = None
    idle: bool = False  # nothing may go now, later perhaps
    barred: tuple[int, ...] = ()  # tasks that the policy no longer sends
    blocked: bool = False  # its account was, after the message was claimed
    refusal: str = ""


class Packing:
    """Builds offers from messages.

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
    ) -> PreparedMessage:
        """Build the offer of a message, without what may no longer be sent.

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
            return PreparedMessage(message, idle=True)
        if message.kind == "withdraw":
            return self._pack_withdrawal(message)
        if blocked:
            return PreparedMessage(
                message, blocked=True, refusal="the account is blocked"
            )
        if offers:
            token = keys.pseudonym(self._store.key("task-key"), "w", str(message.id))
            offer = self._offer(connector, message, [Item(token)])
            reward = None if promised is None else money.money_of(*promised)
            return PreparedMessage(message, replace(offer, reward=reward))
        barred = tuple(row.task_id for row in own if not _may_go(force, row))
        items = self._items(connector, force, own)
        if not items:
            refusal = "the policy in force sends none of it"
            return PreparedMessage(message, barred=barred, refusal=refusal)
        return PreparedMessage(
            message, self._offer(connector, message, items), barred=barred
        )

    def _pack_withdrawal(self, message: MessageRow) -> PreparedMessage:
        """Find what is to be withdrawn: ``handle`` is the id of its message."""
        number = int(message.handle or 0)
        with self._store.read() as tx:
            reference = rows.handle_of(tx, number)
            waits = reference is None and rows.may_leave(tx, number)
        if reference is None:  # what may yet leave is withdrawn when it has
            refusal = "there is nothing to withdraw"
            return PreparedMessage(
                message, idle=waits, refusal="" if waits else refusal
            )
        return PreparedMessage(message, withdraws=Handle(self.key(number), reference))

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
        """The idempotency key of a message."""
        return keys.offer_key(self._store.key("task-key"), message_id)


def _may_go(force: ActivePolicy | None, row: CargoRow) -> bool:
    """Whether the policy still sends the field, and the person is no acquaintance."""
    if row.recused:
        return False
    standing = force.fields.get(row.field_id) if force is not None else None
    return standing is not None and standing.sent


def _item(force: ActivePolicy, row: CargoRow, token: str, *, held: bool) -> Item:
    """Translate a task into the connectors' format."""
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
    """Format a limit of the policy: an exact decimal of at most 30 digits."""
    if number is None:
        return None
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    whole = abs(int(number * 10**digits))
    text = str(whole).rjust(digits + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else f"{sign}{text}"
