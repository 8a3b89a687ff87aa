"""Notices: who gets them, what became of each, and the states that the daemon tells of."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from connectors.errors import ConnectorError
from connectors.http.client import is_public
from dispatcher.core.errors import Conflict, DispatcherError, Invalid, NotFound
from dispatcher.ledger import exhausted_fields
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.model import NOTICES, Webhook
from dispatcher.notices import webhooks
from dispatcher.notices.delivering import DAY, KEPT, SECOND, Delivering, DeliveryTerms
from dispatcher.operations import totals
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Clock, Store, Tx, lease, settings, statistics
from dispatcher.store import money as budget_rows
from dispatcher.store import notices as rows
from dispatcher.store.notices import MAIL, DeliveryRow

BOTH_SIGN: Final = DAY
"""How long a replaced secret signs beside the new one."""
MAIL_NAME: Final = "mail"
"""What operators call the receiver that is no webhook."""
LONGEST_URL: Final = 2000
MOST_WEBHOOKS: Final = 100


@dataclass(frozen=True)
class WebhookRow:
    """A webhook, without its secret.

    Attributes
    ----------
    id : int
    url : str
    types : tuple of str
        Notices that it gets; empty: all but heartbeats.
    state : str
        ``active``, or ``disabled`` after an answer 410.
    made_at : int
    old_secret_until : int or None
        Until when messages have two signatures.
    failed : int
        Deliveries given up in the last 30 days.
    """

    id: int
    url: str
    types: tuple[str, ...]
    state: str
    made_at: int
    old_secret_until: int | None
    failed: int


@dataclass(frozen=True)
class MailRow:
    """What the settings say of mail: where to, and when not."""

    host: str
    to: tuple[str, ...]
    quiet: str
    digest: str
    failed: int


@dataclass(frozen=True)
class Receivers:
    """All who get notices; ``mail`` is None where mail is not set up."""

    webhooks: tuple[WebhookRow, ...]
    mail: MailRow | None


@dataclass(frozen=True)
class NewSecret:
    """A webhook's secret, shown this once; ``old_until``: when the one of before ends."""

    id: int
    secret: str = field(repr=False)
    old_until: int | None = None


@dataclass(frozen=True)
class DeliveryTest:
    """What came of a test; ``error`` is None if it arrived."""

    receiver: str
    status: int | None
    error: str | None


# -- who gets notices ------------------------------------------------------------------


def list_receivers(workspace: Workspace, store: Store) -> Receivers:
    """All webhooks, and mail if it is set up."""
    now, mail = workspace.clock(), workspace.config.notices
    with store.read() as tx:
        found = rows.webhooks(tx)
        failed = rows.failed_since(tx, now - KEPT)
    return Receivers(
        tuple(_row(one, failed.get(one.id, 0), now) for one in found),
        MailRow(mail.host, mail.to, mail.quiet, mail.digest, failed.get(MAIL, 0))
        if mail.host
        else None,
    )


def show_webhook(workspace: Workspace, store: Store, number: int) -> WebhookRow:
    """Return one webhook.

    Raises
    ------
    NotFound
    """
    found = [
        one for one in list_receivers(workspace, store).webhooks if one.id == number
    ]
    if not found:
        raise _no_webhook(number)
    return found[0]


def _row(one: Webhook, failed: int, now: int) -> WebhookRow:
    old = one.old_until if (one.old_until or 0) > now else None
    state = "active" if one.disabled_at is None else "disabled"
    types = tuple(one.types.split())
    return WebhookRow(one.id, one.url, types, state, one.made_at, old, failed)


def add_webhook(
    workspace: Workspace,
    store: Store,
    url: str,
    types: Collection[str] = (),
    *,
    entropy: Callable[[int], bytes] = os.urandom,
) -> NewSecret:
    """Add a webhook; return its secret, which is shown this once.

    Raises
    ------
    Invalid
        The URL must not be called, or a type is none.
    Conflict
        There are too many.
    """
    _check_url(workspace, url)
    _check_types(types)
    secret = webhooks.new_secret(entropy)
    with store.write() as tx:
        if len(rows.webhooks(tx)) >= MOST_WEBHOOKS:
            raise Conflict(
                f"there are {MOST_WEBHOOKS} webhooks already",
                why="each notice goes to all of them",
                fix="remove one: dispatcher notices remove ID",
            )
        kept = " ".join(sorted(set(types)))
        number = rows.add_webhook(tx, url, kept, secret, workspace.clock())
    return NewSecret(number, webhooks.spell(secret))


def _check_types(types: Collection[str]) -> None:
    unknown = sorted(set(types) - NOTICES.keys())
    if unknown:
        raise Invalid(
            f"there is no notice {unknown[0][:40]}",
            why="a webhook gets notices of the types that there are, or all of them",
            fix=f"choose of: {', '.join(NOTICES)}",
        )


def _check_url(workspace: Workspace, url: str) -> None:
    """Refuse a URL that must not be called; a name is resolved when it is called."""
    listed = workspace.config.notices.allow_private
    http = webhooks.guarded(listed)
    try:
        if len(url) > LONGEST_URL or not (url.isascii() and url.isprintable()):
            raise Invalid(
                "the url is too long, or not written in plain letters",
                why=f"it has at most {LONGEST_URL} characters of ASCII",
                fix="write it as https://host/path",
            )
        host = http.check(url).hostname or ""
        if host not in listed and _is_private(host):
            raise _private(host)
    except ConnectorError as error:
        raise Invalid(
            error.what, why=error.why, fix="write it as https://host/path"
        ) from None
    finally:
        http.close()


def _is_private(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return not is_public(host)


def _private(host: str) -> Invalid:
    return Invalid(
        f"{host} lies in a private network",
        why="an address given by hand must not reach into the own network",
        fix=f'if it is meant: allow_private = ["{host}"] under [notices]',
    )


def remove_webhook(store: Store, number: int) -> None:
    """Remove a webhook; what waits for it is not delivered.

    Raises
    ------
    NotFound
    """
    with store.write() as tx:
        if not rows.remove_webhook(tx, number):
            raise _no_webhook(number)


def rotate_secret(
    workspace: Workspace,
    store: Store,
    number: int,
    *,
    entropy: Callable[[int], bytes] = os.urandom,
) -> NewSecret:
    """Give a webhook a new secret; for 24 hours the one of before signs too.

    Raises
    ------
    NotFound
    """
    secret, until = webhooks.new_secret(entropy), workspace.clock() + BOTH_SIGN
    with store.write() as tx:
        rows.rotate(tx, _found(tx, number, lock=True), secret, until)
    return NewSecret(number, webhooks.spell(secret), until)


def _found(tx: Tx, number: int, *, lock: bool = False) -> Webhook:
    found = rows.webhook(tx, number, lock=lock)
    if found is None:
        raise _no_webhook(number)
    return found


def _no_webhook(number: int) -> NotFound:
    return NotFound(
        f"there is no webhook {number}",
        why="it was removed, or never added",
        fix="see which there are: dispatcher notices list",
    )


# -- deliveries ------------------------------------------------------------------------


def read_receiver(text: str) -> int:
    """Return a webhook's id, or what stands for mail.

    Raises
    ------
    NotFound
        It is neither.
    """
    if text == MAIL_NAME:
        return MAIL
    if text.isascii() and text.isdecimal() and 0 < len(text) < 19 and int(text):
        return int(text)
    raise NotFound(
        f"{text[:40]} is no receiver of notices",
        why=f"it is the id of a webhook, or {MAIL_NAME}",
        fix="see which there are: dispatcher notices list",
    )


def deliveries(
    store: Store,
    to: int,
    *,
    failed: bool = False,
    before: int = 2**63 - 1,
    limit: int = 100,
) -> list[DeliveryRow]:
    """Deliveries to a webhook or by mail, the newest first.

    Parameters
    ----------
    store : Store
    to : int
        A webhook's id, or 0 for mail.
    failed : bool
        Only those that were given up.
    before : int
        Below this id.
    limit : int

    Raises
    ------
    NotFound
        There is no such webhook.
    """
    with store.read() as tx:
        if to != MAIL:
            _found(tx, to)
        return rows.deliveries(tx, to, failed=failed, before=before, limit=limit)


def redeliver(
    workspace: Workspace, store: Store, delivery: int, *, to: int | None = None
) -> int:
    """Have a delivery made again, under the same message id; return its receiver.

    Raises
    ------
    NotFound
        There is no such delivery (to that webhook).
    Conflict
        Its webhook is disabled.
    """
    with store.write() as tx:
        found = rows.receiver_of(tx, delivery)
        if found is None or to not in (None, found):
            raise NotFound(
                f"there is no delivery {delivery}",
                why="notices are kept for 30 days, and those of a removed webhook go",
                fix="see which there are: dispatcher notices deliveries ID",
            )
        if found != MAIL and _found(tx, found).disabled_at is not None:
            raise Conflict(
                f"webhook {found} is disabled",
                why="it answered 410 Gone: nobody takes notices there",
                fix=f"if it does again: dispatcher notices test {found}",
            )
        rows.deliver_again(tx, delivery, workspace.clock())
    return found


def terms_of(workspace: Workspace) -> DeliveryTerms:
    """Return what the settings of a workspace say of notices."""
    surfaces = workspace.config.surfaces
    return DeliveryTerms(
        workspace.config.notices, workspace.directory, surfaces.operator_url or ""
    )


def send_test(workspace: Workspace, store: Store, to: int) -> DeliveryTest:
    """Send a notice that says it is a test, now; it stands in the log of deliveries.

    A webhook that was disabled gets notices again if it takes the test.

    Raises
    ------
    NotFound
        There is no such webhook.
    Conflict
        Mail is not set up.
    """
    terms = terms_of(workspace)
    if to == MAIL and not terms.mails:
        raise Conflict(
            "mail is not set up",
            why="notices.host is empty in the settings",
            fix="set host, sender and to under [notices]",
        )
    if to != MAIL:
        with store.read() as tx:
            _found(tx, to)
    outcome = Delivering(store, workspace.clock, terms).send_test(to)
    name = MAIL_NAME if to == MAIL else str(to)
    return DeliveryTest(name, outcome.status, outcome.error)


# -- states that the daemon tells of ---------------------------------------------------

LATE: Final = 300 * SECOND
"""How long a tick fails until somebody is told."""
OVERDUE: Final = 26 * 3600 * SECOND
NEAR_BUDGET: Final = 0.8
NO_PLAN: Final = ("E701", "E702")
REST: Final = 50
"""Counts that grow with the store take one part in so many of a thread's time, at most."""

State = tuple[str, tuple[tuple[str, str], ...]]


class Watching:
    """Looks at the states of the work, and writes a notice when one begins.

    Parameters
    ----------
    store : Store
    clock : Clock
    near : float
        Share of a limit from which on it counts as near.
    usages : LimitUsages
        Judges what was shown since the look before.
    steady : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        near: float,
        usages: LimitUsages,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._near = near
        self._usages = usages
        self._steady = steady
        self._again = 0.0
        self._counted: dict[str, int] = {}

    def tick(self, epoch: int) -> int:
        """Look; return how many notices were written.

        What takes as long as the store is large is looked at rarer: it is as it was
        when it was looked at last.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        now = self._clock()
        with self._store.read() as tx:
            self._look_at_all(tx)
            prompt = (*_connectors(tx), *_budgets(tx, now), *_daemon(tx, now))
            known = rows.noticed_states(tx)
        found = {_key(state): level for state, level in prompt} | self._counted
        if found == known:
            return 0
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            return _note(tx, found, now)

    def _look_at_all(self, tx: Tx) -> None:
        """Count what grows with the store, unless the last count took long."""
        began = self._steady()
        if began >= self._again:
            counted = (*self._near_limits(tx), *_answers(tx))
            self._counted = {_key(state): level for state, level in counted}
            ended = self._steady()
            self._again = ended + REST * (ended - began)

    def _near_limits(self, tx: Tx) -> Iterator[tuple[State, int]]:
        shares: dict[str, float] = {}
        for by_rule in self._usages.look(tx).values():
            for rule, usage in by_rule.items():
                if usage.tau is not None:
                    shares[rule] = max(shares.get(rule, 0.0), float(usage.share))
        for rule, share in shares.items():
            if share >= self._near:
                yield _state("limit.near", rule=rule), 1


def _connectors(tx: Tx) -> Iterator[tuple[State, int]]:
    for one in statistics.down(tx):
        yield _state("connector.down", connector=one.connector), 1
    dead = Counter[str]()
    for connector, _, number in statistics.dead(tx):
        dead[connector] += number
    for connector, number in dead.items():
        yield _state("deadletter.created", connector=connector), number


def _daemon(tx: Tx, now: int) -> Iterator[tuple[State, int]]:
    made = settings.moment(tx, settings.BACKUP_MADE)
    if made is not None and now - made > OVERDUE:
        yield _state("backup.overdue"), 1
    for name, failure in settings.failing_ticks(tx).items():
        if failure.code in NO_PLAN:
            yield _state("plan.infeasible", code=failure.code), 1
        elif now - failure.since >= LATE:
            yield _state("daemon.failing", tick=name, code=failure.code), 1


def _answers(tx: Tx) -> Iterator[tuple[State, int]]:
    kept = totals.kept(tx)
    burnt = (
        kept.burnt if kept else Counter(one.field for one in exhausted_fields.burnt(tx))
    )
    for name, number in burnt.items():
        yield _state("field.burnt", field=name), number
    if asked := asked_fields(tx):
        if disputed := statistics.conflicts(tx, asked):
            yield _state("answer.disputed"), disputed
        for run, records in rows.complete_runs(tx, asked).items():
            yield _state("run.completed", run=run), records


def _budgets(tx: Tx, now: int) -> Iterator[tuple[State, int]]:
    names = budget_rows.run_names(tx)
    for row in budget_rows.budgets(tx):
        if row.used_up(now) == "cap":
            yield _state("budget.spent", run=names[row.run_id]), 1
        if row.cap and row.taken >= NEAR_BUDGET * row.cap:
            yield _state("budget.near", run=names[row.run_id]), 1


def _state(kind: str, **data: str) -> State:
    return kind, tuple(sorted(data.items()))


def _key(state: State) -> str:
    kind, data = state
    return json.dumps([kind, dict(data)], sort_keys=True)


def _note(tx: Tx, found: dict[str, int], now: int) -> int:
    """Write what is news compared with what was noticed last, and keep it."""
    known = rows.noticed_states(tx, lock=True)
    news = [
        json.loads(key) for key, level in found.items() if level > known.get(key, 0)
    ]
    for key in known.keys() - found.keys():
        kind, data = json.loads(key)
        if kind == "connector.down":
            news.append(("connector.recovered", data))
    for kind, data in sorted(news, key=str):
        rows.add(tx, now, kind, data)
    rows.note_states(tx, found)
    return len(news)


def tell_stopped(workspace: Workspace, store: Store, code: str) -> None:
    """Tell that the daemon stops by itself, while it still can; once per cause.

    Whatever goes wrong here is only in the way of what is to be told.
    """
    key = _key(_state("daemon.stopped", code=code))
    with suppress(DispatcherError):
        with store.write() as tx:
            known = rows.noticed_states(tx, lock=True)
            if key in known:
                return
            rows.add(tx, workspace.clock(), "daemon.stopped", {"code": code})
            rows.note_states(tx, {**known, key: 1})
        Delivering(store, workspace.clock, terms_of(workspace)).turn(None)
