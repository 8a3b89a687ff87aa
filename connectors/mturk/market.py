"""Mechanical Turk as a market: a content-free HIT for one worker, created in safe order.

The worker's number comes first (a qualification at MTurk, read back), then a HIT type
that only this number can discover, preview and accept, then one HIT of it with one
assignment. So no other worker's browser is ever sent to our page with this HIT.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from connectors.base import (
    Arrival,
    Binding,
    Collected,
    Handle,
    Idempotency,
    Identity,
    Limits,
    Listed,
    Manifest,
    Misconfigured,
    Money,
    Offer,
    Pay,
    Posted,
    Rejected,
    Settings,
    Stranger,
    Tried,
    TryLater,
    Visit,
    Wall,
    WorkNotice,
    pull_manifest,
)
from connectors.http.aws import AwsClient, make_client
from connectors.http.client import Http
from connectors.listing_cache import Index
from connectors.mturk.api import Api, Pace
from connectors.mturk.arrivals import (
    MARK,
    OFFER,
    ArrivalChecks,
    is_preview,
    mark,
    note_of,
    read_note,
    word,
)
from connectors.mturk.documents import question
from connectors.mturk.events import Events
from connectors.mturk.payments import CURRENCY, MTurkPayments, dollars
from connectors.mturk.reviewing import Reviewing
from connectors.task_page import check_entrance, check_place, no_entrance, origin
from connectors.tickets import check_key, opaque

MANIFEST: Final = pull_manifest(
    name="mturk",
    binding=Binding.ASSIGNED,
    identity=Identity.LOGIN,
    idempotency=Idempotency.SEARCH,  # MTurk remembers a token for a day
    limits=Limits(items=200, per_minute=120, account_bytes=64, poll_seconds=30),
    pays=True,
    currency=CURRENCY,
    tested_against="own emulator: contract-true, not live",
)
ENDPOINTS: Final = {
    name: f"https://mturk-requester{part}.us-east-1.amazonaws.com"
    for name, part in (("production", ""), ("sandbox", "-sandbox"))
}
SUBMIT: Final = {"production": "https://www.mturk.com",
                 "sandbox": "https://workersandbox.mturk.com"}  # fmt: skip
FRAMES: Final = {
    "production": ("https://worker.mturk.com", "https://www.mturk.com"),
    "sandbox": ("https://workersandbox.mturk.com",),
}
_REGION: Final = "us-east-1"  # MTurk's only region
_NUMBERS: Final = {  # name -> default, least, most
    "minutes": (60, 1, 24 * 60),
    "lifetime_minutes": (60, 1, 30 * 24 * 60),
    "approve_after_hours": (72, 1, 30 * 24),
    "per_second": (5, 1, 1000),
}
_KNOWN: Final = ("url", "page", "queue", "title", "description", *_NUMBERS,
                 "allow_private")  # fmt: skip
_WORDS: Final = {
    "title": ("Data entry", 128),
    "description": (
        "Short tasks on a page of ours: read what is shown, write it down.", 2000,
    ),
}  # fmt: skip


class Mturk:
    """One requester's account.

    Parameters
    ----------
    api : Api
    events : Events
    key : bytes
        Numbers the workers and derives the words of HITs; at least 32 bytes.
    values : Mapping[str, str]
        The settings, checked and complete.
    http : Http
        The client of both; closed with the market.
    """

    def __init__(
        self,
        api: Api,
        events: Events,
        key: bytes,
        values: Mapping[str, str],
        http: Http,
    ) -> None:
        self._api = api
        self._http = http
        self._events = events
        self._key = check_key(
            key, "write 32 random bytes in hex as the third word of secret_file"
        )
        self._values = values
        self._page = values["page"].rstrip("/")
        self._lock = threading.Lock()
        self._kind = ""
        self._hits = Index(lambda: _named(api.hits()))  # MTurk has no search
        self._types: dict[tuple[str, str], str] = {}
        lifetime = timedelta(minutes=int(values["lifetime_minutes"]))
        self._arrivals = ArrivalChecks(
            api.hurried(), events, self._key, self._kept_guard, lifetime
        )
        self._reviewing = Reviewing(api, events, self._key)
        self._paying = MTurkPayments(api)

    @property
    def manifest(self) -> Manifest:
        """Assigned to one worker, content ours."""
        return MANIFEST

    def check_offer(self, offer: Offer) -> None:
        """Refuse a page other than the connector's, and rewards not in whole cents."""
        MANIFEST.check(offer)
        check_place(offer.link, self._page)
        assert offer.reward is not None  # guaranteed by the manifest
        dollars(offer.reward)

    def publish(self, offer: Offer) -> Handle:
        """Create a HIT that only the worker of the offer can find.

        One created by an earlier attempt is found by its token.
        """
        self.check_offer(offer)
        assert offer.reward is not None  # guaranteed by the manifest
        ours = word(self._key, offer.key)
        words = {OFFER: ours, MARK: mark(self._key, ours, offer.account)}
        kind = self._type(offer.account, dollars(offer.reward))
        with self._hits.making(offer.key) as made:
            number = self._api.make_hit(
                HITTypeId=kind,
                MaxAssignments=1,
                LifetimeInSeconds=60 * int(self._values["lifetime_minutes"]),
                Question=question(f"{self._page}/notice?{urlencode(words)}"),
                RequesterAnnotation=note_of(self._key, offer.key, offer.account),
                UniqueRequestToken=ours,
            )
            made(number)
        return Handle(offer.key, number)

    def _type(self, account: str, reward: str) -> str:
        """Find or create the HIT type of one worker and reward, after the number.

        The number is set and read back each time: if somebody removed it at MTurk,
        nobody could find the HITs.
        """
        with self._lock:
            guard = self._guard(self._api, account)
            kind, score = guard["QualificationTypeId"], guard["IntegerValues"][0]
            self._api.give_score(kind, account, score)
            if self._api.score(kind, account) != score:
                raise TryLater(
                    "MTurk does not show the worker's number yet",
                    why="the qualification read back differs from the one given",
                    fix="it is asked again later",
                )
            if (account, reward) not in self._types:
                self._types[account, reward] = self._made_type(guard, reward)
            return self._types[account, reward]

    def _made_type(self, guard: Mapping[str, Any], reward: str) -> str:
        values = self._values
        made = self._api.hit_type(
            Title=values["title"],
            Description=values["description"],
            Reward=reward,
            AssignmentDurationInSeconds=60 * int(values["minutes"]),
            AutoApprovalDelayInSeconds=3600 * int(values["approve_after_hours"]),
            QualificationRequirements=[guard],
        )
        if self._events.queue:
            self._api.notify(made, self._events.queue)
        return made

    def _guard(self, api: Api, account: str) -> dict[str, Any]:
        """Return the requirement that only one worker fulfils."""
        if not self._kind:
            name = f"work-{opaque(self._key, 'qualification')}"
            self._kind = api.qualification(name, "Given to those we know.")
        return {
            "QualificationTypeId": self._kind,
            "Comparator": "EqualTo",
            "IntegerValues": [self._number(account)],
            "ActionsGuarded": "DiscoverPreviewAndAccept",
        }

    def _kept_guard(self, api: Api, account: str) -> dict[str, Any] | None:
        """Return the requirement, if MTurk (still) has the worker's number."""
        guard = self._guard(api, account)
        held = api.score(guard["QualificationTypeId"], account)
        return guard if [held] == guard["IntegerValues"] else None

    def _number(self, account: str) -> int:
        """Return a worker's number: 31 bits without meaning, as the worker sees them."""
        digest = hmac.digest(self._key, f"number\0{account}".encode(), "sha256")
        return int.from_bytes(digest[:4], "big") >> 1

    def find(self, key: str) -> Handle | None:
        """Look for the HIT with this key among all that are not deleted."""
        found = self._hits.find(key)
        return Handle(key, found[0]) if found else None

    def listing(self, cursor: str) -> Listed:
        """Return a page of the HITs that were made here."""
        hits, following = self._api.hits_page(cursor)
        posted = tuple(
            Posted(note[0], str(hit["HITId"]), open=hit["HITStatus"] == "Assignable")
            for hit in hits
            for note in [read_note(hit)]
            if note is not None
        )
        return Listed(posted, following)

    def withdraw(self, handle: Handle) -> None:
        """Stop the HIT from being accepted; no error if it is gone already."""
        self._api.expire(handle.reference)

    def retell(self, handle: Handle) -> None:
        """Report the results of a HIT again, even after they were acknowledged."""
        self._api.set_reviewing(handle.reference, revert=True)

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Let in who has accepted our HIT, according to MTurk; see :class:`ArrivalChecks`."""
        return self._arrivals.arrive(visit, now)

    def notice(self, visit: Visit) -> WorkNotice:
        """Return the page in MTurk's frame: a link to ours, and the submit form.

        Raises
        ------
        Rejected
            If it would send the worker's form to another host than MTurk's.
        """
        frames, submit = self._values["frames"].split(), self._values["submit"]
        if is_preview(visit):
            return WorkNotice(frames=tuple(frames))
        if visit.parameters.get("turkSubmitTo", "").rstrip("/") != submit:
            raise Rejected(
                "the form would not go to MTurk",
                why="turkSubmitTo is another host than this connector's",
                fix="open the HIT again from MTurk",
            )
        return WorkNotice(
            frames=tuple(frames),
            action=f"{submit}/mturk/externalSubmit",
            fields={
                "assignmentId": visit.parameters.get("assignmentId", ""),
                OFFER: visit.parameters.get(OFFER, ""),
            },
        )

    def probe(self, account: str, other: Stranger, link: str) -> Iterator[Tried]:
        """Give a worker the number that opens their HITs; read back who has it."""
        del link  # nothing is offered: a HIT costs money
        guard = self._guard(self._api, account)
        return try_number(self._api, guard, account, other)

    def collect(self, cursor: str) -> Collected:
        """Return the state of pieces of work; answers are given on our own page."""
        return self._reviewing.collect(cursor)

    def balance(self) -> Money:
        """Return what the account may still spend."""
        return self._paying.balance()

    def approve(self, pay: Pay) -> None:
        """Accept a piece of work, so that MTurk pays its reward."""
        self._paying.approve(pay)

    def bonus(self, pay: Pay) -> None:
        """Pay a bonus for a piece of work, once."""
        self._paying.bonus(pay)

    def paid(self, pay: Pay) -> bool:
        """Return whether MTurk has paid this."""
        return self._paying.paid(pay)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()


def _named(hits: Iterator[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    noted = ((read_note(hit), str(hit["HITId"])) for hit in hits)
    return ((note[0], number) for note, number in noted if note is not None)


def open_mturk(settings: Settings) -> Mturk:
    """Open the account in the settings."""
    given = settings.of("mturk", _KNOWN, ("url", "page"))
    key_id, key, own = _secret(settings.secret)
    http = Http(private=settings.private)
    values = {**_checked(given), "page": given["page"]}
    parts = check_entrance(http, given["page"], "mturk")
    if not given["page"].isascii() or parts.query or parts.fragment:
        raise no_entrance("mturk")
    place = given["url"]
    endpoint = ENDPOINTS.get(place, place)
    own_server = "://".join(origin(endpoint))
    values["submit"] = SUBMIT.get(place, own_server)
    values["frames"] = " ".join(FRAMES.get(place, (own_server,)))

    def client(service: str, url: str) -> AwsClient:
        return make_client(service, http, endpoint=url, region=_REGION, extra="mturk",
                           key_id=key_id, key=key)  # fmt: skip

    queue = given.get("queue", "")
    events = (
        Events(client("sqs", "://".join(origin(queue))), queue) if queue else Events()
    )
    api = Api(client("mturk", endpoint), Pace(float(values["per_second"])))
    return Mturk(api, events, own, values, http)


def _checked(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with defaults; refuse now what MTurk would refuse later."""
    values = {name: given.get(name, usual) for name, (usual, _) in _WORDS.items()}
    for name, (_, longest) in _WORDS.items():
        text = values[name]
        if (
            not 0 < len(text) <= longest
            or max(text) > "\uffff"
            or not text.isprintable()
        ):
            raise Misconfigured(
                f"{name} of mturk is not 1 to {longest} printable characters",
                why="MTurk refuses more, and emoji",
                fix="leave it out for a plain one",
            )
    for name, (usual, least, most) in _NUMBERS.items():
        text = given.get(name, str(usual))
        if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
            raise Misconfigured(
                f"{name} of mturk is not a whole number from {least} to {most}",
                fix=f"leave it out for {usual}",
            )
        values[name] = text
    return values


def _secret(secret: bytes) -> tuple[str, str, bytes]:
    """Read the three words of the secret.

    Raises
    ------
    Misconfigured
        If it has another form; the message has nothing of it.
    """
    try:
        key_id, key, own = secret.decode("ascii").split()
        return key_id, key, bytes.fromhex(own)
    except ValueError:
        raise Misconfigured(
            "the secret of mturk is not three words",
            why="the id of an access key, the key, and our own key in hex",
            fix='make our own: python -c "import secrets; print(secrets.token_hex(32))"',
        ) from None


def try_number(
    api: Api, guard: Mapping[str, Any], account: str, other: Stranger
) -> Iterator[Tried]:
    """Give a worker the number that opens their HITs; read back who has it.

    A HIT itself would cost money, and MTurk shows requesters nothing of what workers
    see.

    Parameters
    ----------
    api : Api
    guard : Mapping
        The requirement of the worker's HITs.
    account : str
    other : Stranger
        A worker who must not have the number.
    """
    kind, number = guard["QualificationTypeId"], guard["IntegerValues"][0]
    api.give_score(kind, account, number)
    kept = api.score(kind, account) == number
    yield Tried(Wall.BINDING, kept, "MTurk keeps the worker's number")
    theirs = api.score(kind, other.account)
    yield Tried(Wall.BINDING, theirs != number, "the other worker has another number")
