"""The values exchanged with connectors: frozen, and validated on construction."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from connectors.errors import expect
from connectors.money import Money, Submission

_ORIGIN = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
ASKS = ("transcribe", "choose", "number", "date", "yes_no", "spans", "table")


class Identity(StrEnum):
    """How well a market proves the account that arrives or answers."""

    UNSIGNED = "unsigned"  # an id that the visitor can edit
    SIGNED = "signed"  # a signature that we verify
    LOGIN = "login"  # the market's or the directory's own access control


class Outcome(StrEnum):
    """What the worker did with the task."""

    ANSWERED = "answered"
    ILLEGIBLE = "illegible"
    NOT_PRESENT = "not_present"
    RETURNED = "returned"


def _check_key(key: str) -> None:
    expect(
        bool(key) and len(key) <= 200 and key.isprintable(),
        "key",
        key[:40],
        "1 to 200 printable characters",
    )


def _check_text(name: str, value: str) -> None:
    """Refuse what no database stores: a NUL, or half of a surrogate pair."""
    keeps = "\0" not in value and not re.search(r"[\ud800-\udfff]", value)
    expect(keeps, name, value[:40], "text without NUL and lone surrogates")


@dataclass(frozen=True)
class Form:
    """How a worker is asked for one field.

    Attributes
    ----------
    ask : str
        One of :data:`ASKS`.
    question, help : str
        The operator's texts; may be empty.
    choices : tuple of str
        For ``choose``: at least one.
    columns : tuple of str
        For ``table``: at least one.
    minimum, maximum : str or None
        For ``number``: exact decimals as text, both inclusive.
    """

    ask: str
    question: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    minimum: str | None = None
    maximum: str | None = None

    def __post_init__(self) -> None:
        expect(self.ask in ASKS, "ask", self.ask, f"one of {', '.join(ASKS)}")
        expect((self.ask == "choose") == bool(self.choices), "choices", self.choices,
                "some for choose, none else")  # fmt: skip
        expect((self.ask == "table") == bool(self.columns), "columns", self.columns,
                "some for table, none else")  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One task: an opaque token, the question, and perhaps the content.

    Attributes
    ----------
    token : str
        Opaque task token, 1 to 128 of ``A-Za-z0-9_-``; reveals nothing of the record.
    form : Form or None
        None only for feeds and for content-free offers.
    content : bytes or None
        The shown form of the field (the crop, or UTF-8 text); None if it stays home.
    media_type : str
        Of the content: ``text/plain`` (UTF-8), ``image/png``, ...
    label : str
        Feeds only: the name of the field.
    """

    token: str
    form: Form | None = None
    content: bytes | None = field(default=None, repr=False)
    media_type: str = "text/plain"
    label: str = ""

    def __post_init__(self) -> None:
        expect(
            TOKEN.fullmatch(self.token) is not None,
            "token",
            self.token[:40],
            "1 to 128 of A-Z, a-z, 0-9, - and _",
        )
        expect(
            re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", self.media_type) is not None,
            "media_type",
            self.media_type,
            "type/subtype",
        )

    def spelt(self) -> dict[str, str]:
        """Return the content as JSON: ``text``, or ``base64`` for what is not text."""
        content = self.content or b""
        if self.media_type.startswith("text/"):
            return {"text": content.decode("utf-8")}
        return {"base64": base64.b64encode(content).decode("ascii")}


@dataclass(frozen=True)
class Offer:
    """One outbox message: a batch of items for one worker, or for an audience.

    Attributes
    ----------
    key : str
        Idempotency key: opaque, unique to one store. The same key is always the same
        offer; it reveals nothing of the content, and may be stored outside unchanged.
    account : str
        The worker's account at the market, in the market's own spelling; empty for an
        audience.
    audience : str
        Who may open it if it is for no single account (``*`` = anyone there).
    items : tuple of Item
        At least one, tokens distinct.
    link : str
        Address of our own page, for content-free offers.
    expires : datetime or None
        With a zone.
    reward : Money or None
        Payment for the whole piece of work at the market; None if our budget promises
        none.
    """

    key: str
    account: str = ""
    audience: str = ""
    items: tuple[Item, ...] = ()
    link: str = ""
    expires: datetime | None = None
    reward: Money | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)
        expect(
            bool(self.account) != bool(self.audience),
            "account, audience",
            (self.account, self.audience),
            "exactly one of the two",
        )
        expect(bool(self.items), "items", self.items, "at least one")
        tokens = {item.token for item in self.items}
        expect(len(tokens) == len(self.items), "tokens", len(tokens), "no repeats")
        if self.expires is not None:
            expect(self.expires.tzinfo is not None, "expires", self.expires, "a zone")


@dataclass(frozen=True)
class Handle:
    """Proof that the outside has the offer: our key and its own reference."""

    key: str
    reference: str
    url: str = ""

    def __post_init__(self) -> None:
        _check_key(self.key)
        expect(bool(self.reference), "reference", self.reference, "some text")
        _check_text("reference", self.reference)


@dataclass(frozen=True)
class Visit:
    """A browser's request: query or form parameters, headers (lower case), body."""

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class WorkNotice:
    """A page of ours in a market's own frame: a link to our page, and a submit form.

    Attributes
    ----------
    frames : tuple of str
        Origins whose pages may frame it.
    action : str
        Where the worker reports to the market that the work is done; empty while nobody
        has accepted the work: then the page leads nowhere.
    fields : Mapping[str, str]
        Hidden fields of that form.
    """

    frames: tuple[str, ...]
    action: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for origin in self.frames:
            expect(_ORIGIN.fullmatch(origin) is not None, "frames", origin, "an origin")
        place = _ORIGIN.match(self.action)
        expect(not self.action or place is not None, "action", self.action, "a URL")

    @property
    def target(self) -> str:
        """Origin of ``action``; empty if there is none."""
        found = _ORIGIN.match(self.action)
        return "" if found is None else found[0]


@dataclass(frozen=True)
class Arrival:
    """A visitor's account, and how well it is proven.

    Attributes
    ----------
    account : str
        Empty exactly for a preview: nobody yet, so nothing is shown.
    identity : Identity
    preview : bool
    ticket : str
        Id of the credential (token id, session, assignment and accept sequence), for
        revocation and as part of the claim's key.
    expires : datetime or None
    """

    account: str
    identity: Identity
    preview: bool = False
    ticket: str = ""
    expires: datetime | None = None

    def __post_init__(self) -> None:
        expect(bool(self.account) != self.preview, "account", self.account,
                "an account, or none and preview")  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """One answer as returned by the outside, not validated yet.

    Attributes
    ----------
    id : str
        The same for the same answer, however often it is delivered.
    token : str
        The task that it claims to answer; may be wrong.
    account : str
        Who gave it, according to the outside.
    outcome : Outcome
    value : str
        Raw text; empty unless answered.
    given : datetime or None
    """

    id: str
    token: str
    account: str
    outcome: Outcome = Outcome.ANSWERED
    value: str = field(default="", repr=False)
    given: datetime | None = None

    def __post_init__(self) -> None:
        expect(bool(self.id), "id", self.id, "some text")
        expect(bool(self.token), "token", self.token, "some text")
        expect(bool(self.account), "account", self.account, "some text")
        answered = self.outcome is Outcome.ANSWERED
        expect(answered or not self.value, "value", "given", f"none ({self.outcome})")


@dataclass(frozen=True)
class Quarantined:
    """Something that came back and is not an answer; kept and reported, never guessed at.

    Attributes
    ----------
    id : str
        The same for every re-delivery.
    place : str
        Its location (file and row, event id), for the operator.
    reason : str
        Why it is not an answer; contains no value.
    account : str
        Empty if unknown.
    """

    id: str
    place: str
    reason: str
    account: str = ""


@dataclass(frozen=True)
class Collected:
    """What followed a cursor, and the cursor that acknowledges it.

    Markets that pay also return ``submissions``: the state of pieces of work.
    """

    cursor: str
    answers: tuple[Answer, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    more: bool = False
    submissions: tuple[Submission, ...] = ()

    def __post_init__(self) -> None:
        _check_text("cursor", self.cursor)


@dataclass(frozen=True)
class Posted:
    """One offer of ours at the market.

    Attributes
    ----------
    key : str
        The key of the offer.
    reference : str
        As in ``Handle.reference``.
    open : bool
        Whether its worker can still begin it there.
    """

    key: str
    reference: str
    open: bool

    def __post_init__(self) -> None:
        _check_key(self.key)
        expect(bool(self.reference), "reference", self.reference, "some text")


@dataclass(frozen=True)
class Listed:
    """One page of a listing, and the cursor of the next; empty at the end."""

    posted: tuple[Posted, ...] = ()
    cursor: str = ""
