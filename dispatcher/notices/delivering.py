"""Deliveries of notices: at least once, in order, each receiver at its own pace.

An attempt is counted, and the next one put off, before anything is sent: whatever ends
this process then, the message comes again under the same id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from connectors.http.client import Http
from dispatcher.core import meters
from dispatcher.core.circuits import Circuit
from dispatcher.core.config import NoticeSettings
from dispatcher.core.log import get_logger
from dispatcher.model import ALIVE, NOTICES, TEST, Notice, Webhook
from dispatcher.notices import mail, webhooks
from dispatcher.notices.mail import NotMailed, Told
from dispatcher.notices.webhooks import CallResult
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import notices as rows
from dispatcher.store.notices import MAIL, DueDelivery, Settled

A = TypeVar("A")
B = TypeVar("B")

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
WAITS: Final = tuple(
    seconds * SECOND
    for seconds in (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""Time before each attempt, the first at once; after the last one it is given up."""
IN_DOUBT: Final = 300 * SECOND
"""When a last attempt of which nothing is known counts as failed."""
BATCH: Final = 50
"""Deliveries to one receiver in one turn."""
FANNED: Final = 500
"""Notices that get their deliveries in one turn."""
TURN: Final = 20 * SECOND
"""No further delivery to a receiver begins in a turn that took so long."""
THREADS: Final = 8
KEPT: Final = 30 * DAY
"""How long notices and their deliveries are kept."""
OLD_AT_ONCE: Final = 1000
FAULTS: Final = 3
"""Failures in a row after which a receiver rests."""


def wait_after(attempts: int, delivery: int) -> int:
    """Return the wait after so many attempts, >= 1; spread by the delivery."""
    if attempts >= len(WAITS):
        return IN_DOUBT
    return WAITS[attempts] + WAITS[attempts] * (delivery % 16) // 160


def wants(types: str, kind: str) -> bool:
    """Whether a webhook of these types gets notices of a kind."""
    return kind in types.split() if types else kind != ALIVE


@dataclass(frozen=True)
class DeliveryTerms:
    """What the settings say of notices.

    Attributes
    ----------
    settings : NoticeSettings
    directory : Path
        Where files that the settings name are looked for.
    console : str
        Address of the console, for mails; may be empty.
    """

    settings: NoticeSettings = field(default_factory=NoticeSettings)
    directory: Path = Path()
    console: str = ""

    @property
    def mails(self) -> bool:
        """Whether mail is set up."""
        return bool(self.settings.host)


@dataclass(frozen=True)
class _Batch:
    """Claimed deliveries of one receiver; ``url`` is empty for mail."""

    rows: Sequence[DueDelivery]
    url: str = ""
    secrets: Sequence[bytes] = field(default=(), repr=False)


class Delivering:
    """Gives notices to their receivers; one object lives as long as the settings.

    Parameters
    ----------
    store : Store
    clock : Clock
    terms : DeliveryTerms
    reach : callable, optional
        Makes the HTTP client of one turn.
    send : callable, optional
        Sends a mail.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        terms: DeliveryTerms,
        *,
        reach: Callable[[], Http] | None = None,
        send: Callable[..., str | None] = mail.send,
    ) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        private = terms.settings.allow_private
        self._reach = reach or partial(webhooks.guarded, private)
        self._send = send
        self._circuits: dict[int, Circuit] = {}
        self._beaten: int | None = None
        self._log = get_logger("notices")

    def tick(self, epoch: int) -> int:
        """Make the deliveries that are due; return how many arrived.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        self._beat()
        return self.turn(epoch)

    def turn(self, epoch: int | None) -> int:
        """Make the deliveries that are due; ``epoch`` None: whoever leads."""
        now = self._clock()
        with self._store.read() as tx:
            if not rows.is_anything_due(tx, now):
                return 0
        with self._writing(epoch) as tx:
            self._fan_out(tx, now)
            rows.forget_before(tx, now - KEPT, OLD_AT_ONCE)
        with self._store.read() as tx:
            waiting = rows.receivers(tx, now)
        ready = [to for to in waiting if not self._circuit(to).is_open()]
        with closing(self._reach()) as http:
            return sum(_at_once(lambda to: self._serve(http, to, epoch), ready))

    @contextmanager
    def _writing(self, epoch: int | None) -> Iterator[Tx]:
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            yield tx

    def _circuit(self, to: int) -> Circuit:
        return self._circuits.setdefault(to, Circuit(None, self._clock))

    def _fan_out(self, tx: Tx, now: int) -> None:
        """Write a delivery for each notice and receiver."""
        found = rows.fresh(tx, FANNED)
        if found:
            active = [one for one in rows.webhooks(tx) if one.disabled_at is None]
            wanted = [row for one in found for row in self._fanned(one, active, now)]
            rows.add_deliveries(tx, [one.id for one in found], wanted)

    def _fanned(
        self, notice: Notice, active: Sequence[Webhook], now: int
    ) -> Iterator[tuple[int, int, int]]:
        kind = NOTICES.get(notice.type)
        if kind is None:  # a newer program wrote it
            return
        for one in active:
            if wants(one.types, notice.type):
                yield notice.id, one.id, now
        if self._terms.mails and kind.mail != "no":
            yield notice.id, MAIL, mail.mail_due(self._terms.settings, kind, now)

    def _serve(self, http: Http, to: int, epoch: int | None) -> int:
        """Claim, send, settle: one receiver's deliveries."""
        with self._writing(epoch) as tx:
            batch = self._claim(tx, to)
        if batch is None:
            return 0
        made = self._mail(batch) if to == MAIL else self._post(http, batch)
        tried = [(row, outcome) for row, outcome in made if outcome is not None]
        circuit = self._circuit(to)
        if any(outcome.error for _, outcome in tried):
            circuit.failed(after=FAULTS)
        elif tried:
            circuit.worked()
        with self._writing(epoch) as tx:
            self._settle(tx, to, made)
        receiver = "mail" if to == MAIL else "webhook"
        for _, outcome in tried:
            end = "sent" if outcome.error is None else "failed"
            meters.NOTICES.labels(receiver, end).inc()
        return sum(outcome.error is None for _, outcome in tried)

    def _claim(self, tx: Tx, to: int) -> _Batch | None:
        """Count the attempts that follow; None where nothing is to be sent now."""
        now = self._clock()
        found = rows.due(tx, to, now, BATCH)
        last = [row for row in found if row.attempts >= len(WAITS)]
        found = [row for row in found if row.attempts < len(WAITS)]
        _give_up(tx, last, "the outcome of the last attempt is not known", now)
        hook = None if to == MAIL else rows.webhook(tx, to)
        if to == MAIL:
            found = self._held_back(tx, found, now)
        if (to == MAIL and not self._terms.mails) or (
            to != MAIL and (hook is None or hook.disabled_at is not None)
        ):
            _give_up(tx, found, "mail is not set up, or the webhook is disabled", now)
            return None
        if not found:
            return None
        rows.put_off(
            tx,
            [
                (row.id, row.attempts + 1, now + wait_after(row.attempts + 1, row.id))
                for row in found
            ],
        )
        if hook is None:
            return _Batch(found)
        return _Batch(found, hook.url, rows.secrets_of(tx, hook, now))

    def _held_back(
        self, tx: Tx, found: list[DueDelivery], now: int
    ) -> list[DueDelivery]:
        """Return what may be mailed now: a retry of what can wait respects quiet hours."""
        quiet = mail.after_quiet(self._terms.settings, now)
        if quiet == now:
            return found
        held = [row for row in found if NOTICES[row.type].mail != "night"]
        rows.put_off(tx, [(row.id, row.attempts, quiet) for row in held])
        return [row for row in found if row not in held]

    def _post(
        self, http: Http, batch: _Batch
    ) -> list[tuple[DueDelivery, CallResult | None]]:
        """Post one by one; after a failure, or too long, the others wait."""
        until = self._clock() + TURN
        made: list[tuple[DueDelivery, CallResult | None]] = []
        over = False
        for row in batch.rows:
            now = self._clock()
            if over or now > until:
                made.append((row, None))
                continue
            body = webhooks.body_of(row.type, row.at, json.loads(row.data))
            outcome = webhooks.post(
                http, batch.url, batch.secrets, row.message, body, now
            )
            over = outcome.error is not None
            made.append((row, outcome))
        return made

    def _mail(self, batch: _Batch) -> list[tuple[DueDelivery, CallResult | None]]:
        """Mail them all in one message."""
        terms, now = self._terms, self._clock()
        told = [
            Told(row.message, row.type, row.at, json.loads(row.data))
            for row in batch.rows
        ]
        composed = mail.compose(terms.settings, told, now, terms.console)
        try:
            warning = self._send(terms.settings, terms.directory, composed)
        except NotMailed as error:
            outcome = CallResult(None, str(error)[:200])
        else:
            outcome = CallResult(None, None)
            if warning:
                self._log.warning("mail-in-part", why=warning)
        return [(row, outcome) for row in batch.rows]

    def _settle(
        self, tx: Tx, to: int, made: Sequence[tuple[DueDelivery, CallResult | None]]
    ) -> None:
        now = self._clock()
        untried = [(row.id, row.attempts, now) for row, one in made if one is None]
        rows.put_off(tx, untried)
        settled = []
        for row, outcome in made:
            if outcome is None:
                continue
            tried = row.attempts + 1
            state, due, ended = "sent", now, now
            if outcome.error is not None:
                given_up = tried >= len(WAITS) or outcome.status == webhooks.GONE
                state = "failed" if given_up else "ready"
                due = now + wait_after(tried, row.id)
                self._log.warning(
                    "not-delivered",
                    webhook=to,
                    delivery=row.id,
                    attempt=tried,
                    status=outcome.status,
                    error=outcome.error,
                )
            settled.append(
                Settled(
                    row.id,
                    state,
                    tried,
                    due,
                    outcome.status,
                    outcome.error,
                    None if state == "ready" else ended,
                )
            )
        rows.settle(tx, settled)
        if any(one and one.status == webhooks.GONE for _, one in made) and (
            rows.disable_webhook(tx, to, "the webhook is disabled: 410 Gone", now)
        ):
            rows.add(tx, now, "webhook.disabled", {"webhook": to})

    def send_test(self, to: int) -> CallResult:
        """Send a notice that says it is a test, at once; it stands in the log.

        A webhook that was disabled gets notices again if it takes this one.
        """
        now = self._clock()
        with self._writing(None) as tx:
            number = rows.add(tx, now, TEST, {}, fanned=True)
            first = rows.add_deliveries(tx, [number], [(number, to, now + IN_DOUBT)])
            hook = None if to == MAIL else rows.webhook(tx, to)
            secrets = [] if hook is None else rows.secrets_of(tx, hook, now)
            (row,) = rows.one(tx, first)
        batch = _Batch([row], "" if hook is None else hook.url, secrets)
        with closing(self._reach()) as http:
            made = self._mail(batch) if to == MAIL else self._post(http, batch)
        outcome = made[0][1]
        assert outcome is not None, "it was tried"
        with self._writing(None) as tx:
            end = "sent" if outcome.error is None else "failed"
            now = self._clock()
            status, error = outcome.status, outcome.error
            rows.settle(tx, [Settled(row.id, end, 1, now, status, error, now)])
            if hook is not None and hook.disabled_at is not None and not error:
                rows.enable_webhook(tx, to)
        return outcome

    def _beat(self) -> None:
        """Call the webhooks of heartbeats, if it is time; nothing is kept of it."""
        every, now = round(self._terms.settings.heartbeat * SECOND), self._clock()
        if not every or (self._beaten is not None and abs(now - self._beaten) < every):
            return
        self._beaten = now
        with self._store.read() as tx:
            listening = [
                (one.url, rows.secrets_of(tx, one, now), rows.new_message(tx))
                for one in rows.webhooks(tx)
                if one.disabled_at is None and wants(one.types, ALIVE)
            ]
        body = webhooks.body_of(ALIVE, now, {})

        if not listening:
            return
        with closing(self._reach()) as http:

            def call(one: tuple[str, list[bytes], str]) -> CallResult:
                url, secrets, message = one
                return webhooks.post(http, url, secrets, message, body, now)

            for outcome in _at_once(call, listening):
                if outcome.error is not None:
                    self._log.warning("no-heartbeat", error=outcome.error)


def _at_once(work: Callable[[A], B], parts: Sequence[A]) -> list[B]:
    if len(parts) < 2:
        return [work(one) for one in parts]
    with ThreadPoolExecutor(THREADS, "notices") as pool:
        return list(pool.map(work, parts))


def _give_up(tx: Tx, found: Sequence[DueDelivery], why: str, now: int) -> None:
    rows.settle(
        tx,
        [Settled(row.id, "failed", row.attempts, now, None, why, now) for row in found],
    )
