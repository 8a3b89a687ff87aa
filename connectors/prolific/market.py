"""Prolific as a market: a content-free study for one participant, created in safe order.

The group of one comes first and is read back, then the draft, which is read back too;
only then is it published, after which its filter cannot be changed any more.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
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
    Progress,
    Rejected,
    Settings,
    Stranger,
    Submission,
    Tried,
    TryLater,
    Visit,
    Wall,
    pull_manifest,
)
from connectors.http.client import Http
from connectors.isolation import synthetic_offer
from connectors.listing_cache import Index
from connectors.prolific.api import Api
from connectors.prolific.payments import Payments, progress_of, whole_cents
from connectors.prolific.signed_links import Keys, Used, read
from connectors.prolific.webhooks import Hooks
from connectors.task_page import check_entrance, check_place
from connectors.tickets import check_key, opaque, token_and_key

MANIFEST: Final = pull_manifest(
    name="prolific",
    binding=Binding.ASSIGNED,
    identity=Identity.SIGNED,
    idempotency=Idempotency.SEARCH,
    limits=Limits(items=200, per_minute=30, account_bytes=128, poll_seconds=30),
    pays=True,
    tested_against="own emulator: contract-true, not live",
)
URL: Final = "https://api.prolific.com"
DONE: Final = "https://app.prolific.com/submissions/complete"

_PROBED: Final = 100  # reward of a draft that is never published
_NEVER_SHOWN: Final = ("UNPUBLISHED", "SCHEDULED")
_PLACEHOLDERS: Final = (
    "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}"
    "&SESSION_ID={{%SESSION_ID%}}"
)
_KNOWN: Final = ("workspace", "project", "page", "minutes", "title", "description",
                 "review", "url", "allow_private")  # fmt: skip
_REQUIRED: Final = _KNOWN[:4]
_REVIEWS: Final = {"manual": "MANUALLY_REVIEW", "automatic": "AUTOMATICALLY_APPROVE"}


class Prolific:
    """One project at Prolific.

    Parameters
    ----------
    api : Api
    key : bytes
        Hides who a study is for and derives completion codes; at least 32 bytes.
    values : Mapping[str, str]
        The settings, checked.
    """

    def __init__(self, api: Api, key: bytes, values: Mapping[str, str]) -> None:
        self._api = api
        self._key = check_key(
            key, "write 32 random bytes in hex into the second line of secret_file"
        )
        self._values = values
        self._page = values["page"].rstrip("/")
        self._payments = Payments(api)
        self._submissions = Submissions(api)
        self._keys = Keys(api.signing_keys)
        self._used = Used()
        # Prolific has no search for studies by name.
        self._studies = Index(lambda: _named(api.studies()), newest_first=True)
        self._hooks = Hooks(api, self._page.replace("/from/", "/hooks/"))

    @property
    def manifest(self) -> Manifest:
        """Assigned to one participant, content ours."""
        return MANIFEST

    def check_offer(self, offer: Offer) -> None:
        """Refuse a page other than the connector's, and rewards not in whole cents."""
        MANIFEST.check(offer)
        check_place(offer.link, self._page)
        assert offer.reward is not None, "the manifest's check requires one"
        whole_cents(offer.reward)

    def publish(self, offer: Offer) -> Handle:
        """Create a study for one participant, and publish it once it is safe.

        A draft with this key from an earlier attempt is completed; a study that was
        published once is never created again, even if it was stopped.
        """
        self.check_offer(offer)
        name = _name(offer.key)
        assert offer.reward is not None, "the manifest's check requires one"
        reward = self._payments.cents(offer.reward)
        found = self._study(name)
        if found is None:
            group = self._api.group_of(offer.account, name)
            with self._studies.making(name) as made:
                found = self._api.draft(self._definition(offer, name, group, reward))
                made(str(found["id"]))
        number = str(found["id"])
        if found.get("status") in _NEVER_SHOWN:
            self._check(number, offer.account)
            self._show(number)
        return Handle(offer.key, number)

    def _show(self, number: str) -> None:
        """Publish a draft; read it back if the response does not give its state.

        Raises
        ------
        TryLater
            If it is still a draft, or is gone.
        """
        state = self._api.move(number, "PUBLISH")
        if state is None:
            state = (self._api.study(number) or {}).get("status")
        if state is None or state in _NEVER_SHOWN:
            raise TryLater(
                "Prolific does not show the study as published yet",
                why="it took the call, and the study stands as before",
                fix="it is asked again later",
            )

    def _definition(
        self, offer: Offer, name: str, group: str, reward: int
    ) -> dict[str, Any]:
        """Return the study's definition, with nothing of a field or record."""
        values = self._values
        minutes = int(values["minutes"])
        return {
            "name": values.get("title", "Data entry"),
            "internal_name": name,
            "description": values.get(
                "description",
                "Short tasks on a page of ours: read what is shown, write it down.",
            ),
            "external_study_url": self._url(offer.account),
            "is_external_study_url_secure": True,
            "prolific_id_option": "url_parameters",
            "completion_codes": [{
                "code": self._code(offer.account),
                "code_type": "COMPLETED",
                "actions": [{"action": _REVIEWS[values.get("review", "manual")]}],
            }],
            "total_available_places": 1,
            "estimated_completion_time": minutes,
            "reward": reward,
            "filters": [
                {"filter_id": "participant_group_allowlist", "selected_values": [group]}
            ],
        }  # fmt: skip

    def _url(self, account: str) -> str:
        mark = urlencode({"k": opaque(self._key, "study", account)})
        return f"{self._page}?{_PLACEHOLDERS}&{mark}"

    def _check(self, number: str, account: str) -> None:
        """Check that a saved draft is for one group and place, with signed links.

        Raises
        ------
        Misconfigured
            If Prolific saved something else; the draft is left unpublished.
        """
        kept = self._api.study(number) or {}
        filters = kept.get("filters") or []
        single = len(filters) == 1 and len(filters[0].get("selected_values") or ()) == 1
        allows = single and filters[0].get("filter_id") == "participant_group_allowlist"
        if not kept.get("is_external_study_url_secure"):
            raise Misconfigured(
                "this workspace does not sign study links",
                why="a participant could write another one's id into the address bar",
                fix="ask Prolific to turn on secure study URLs for the workspace",
            )
        placed = kept.get("total_available_places") == 1
        if not (
            allows and placed and kept.get("external_study_url") == self._url(account)
        ):
            raise Misconfigured(
                "Prolific does not keep a study as it was drafted",
                why="group, places or address read back differ from those set",
                fix="see who else changes studies of this project",
            )

    def find(self, key: str) -> Handle | None:
        """Look for the study with this key; a draft, which nobody has seen, does not count."""
        found = self._study(_name(key))
        if found is None or found.get("status") in _NEVER_SHOWN:
            return None
        return Handle(key, str(found["id"]))

    def listing(self, cursor: str) -> Listed:
        """Return a page of the project's studies that were made here, without drafts."""
        if cursor and not (cursor.isascii() and cursor.isdigit()):
            raise Rejected("the cursor is not one of this connector")
        number = int(cursor or "1")
        studies, more = self._api.studies_page(number)
        posted = tuple(
            Posted(
                name.removeprefix(OFFER),
                str(study["id"]),
                open=study.get("status") not in ENDED,
            )
            for study in studies
            for name in [str(study.get("internal_name") or "")]
            if name.startswith(OFFER) and name != OFFER
            if study.get("status") not in _NEVER_SHOWN
        )
        return Listed(posted, str(number + 1) if more else "")

    def withdraw(self, handle: Handle) -> None:
        """Stop the study; no error if it has ended or is gone."""
        study = self._api.study(handle.reference)
        if study is not None and study.get("status") not in ENDED:
            self._api.move(handle.reference, "STOP")

    def arrive(self, visit: Visit, now: datetime) -> Arrival:
        """Identify a participant by Prolific's signature, for a study made for them.

        Raises
        ------
        Rejected
            No token; a forged, foreign, old or used one; an address that differs.
        """
        token = visit.parameters.get("prolific_token", "")
        signed, proof = read(token, self._keys, self._page, now)
        account = signed.get("PROLIFIC_PID")
        for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"):
            said = visit.parameters.get(name, signed.get(name))
            if not isinstance(said, str) or not said or said != signed.get(name):
                raise _edited()
        mark = str(signed.get("k", ""))
        own = hmac.compare_digest(
            mark.encode(), opaque(self._key, "study", str(account)).encode()
        )
        if not own or signed.get("workspace_id") != self._values["workspace"]:
            raise _edited()
        self._used.take(proof, now)  # last: a refused visit may be repeated
        session = str(signed["SESSION_ID"])
        return Arrival(str(account), Identity.SIGNED, ticket=session)

    def finish(self, account: str) -> str:
        """Return where a participant reports at Prolific that the work is done."""
        return f"{DONE}?{urlencode({'cc': self._code(account)})}"

    def heed(self, visit: Visit, now: datetime) -> str:
        """Verify a call of Prolific: something about a submission has changed."""
        return self._hooks.heed(visit.headers, visit.body, now)

    def probe(self, account: str, other: Stranger, link: str) -> Iterable[Tried]:
        """Draft a study for one participant, read back who could see it, delete it."""
        offer = synthetic_offer(account, link)
        study_for = partial(self._definition, offer, _name(offer.key), reward=_PROBED)
        return try_draft(self._api, offer, study_for, self._check, other)

    def collect(self, cursor: str) -> Collected:
        """Return the state of studies; answers are given on our page."""
        self._hooks.subscribe()
        return self._submissions.collect(cursor)

    def balance(self) -> Money:
        """Return what the workspace may still spend."""
        return self._payments.balance()

    def approve(self, pay: Pay) -> None:
        """Approve the submission of a study; no error if it is approved already."""
        self._payments.approve(pay)

    def bonus(self, pay: Pay) -> None:
        """Pay a bonus on a submission: set up, then paid."""
        self._payments.bonus(pay)

    def paid(self, pay: Pay) -> bool | None:
        """Return whether this was paid; None for a bonus that may still be on its way."""
        return self._payments.paid(pay)

    def close(self) -> None:
        """Close idle connections."""
        self._api.close()

    def _study(self, name: str) -> dict[str, Any] | None:
        """Return the study with a name in its present state; prefer a published one."""
        studies = []
        for number in self._studies.find(name):
            study = self._api.study(number)
            if study is None:
                self._studies.drop(name, number)
            else:
                studies.append(study)
        studies.sort(key=lambda study: study.get("status") in _NEVER_SHOWN)
        return studies[0] if studies else None

    def _code(self, account: str) -> str:
        """Return a participant's completion code, which is unique and proves nothing."""
        digest = hmac.digest(self._key, f"code\0{account}".encode(), "sha256")
        return base64.b32encode(digest)[:12].decode("ascii")


def _name(key: str) -> str:
    return f"{OFFER}{key}"


def _named(studies: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    named = (
        (str(study.get("internal_name") or ""), str(study["id"])) for study in studies
    )
    return ((name, number) for name, number in named if name.startswith(OFFER))


def _edited() -> Rejected:
    return Rejected(
        "this is no study of ours for this participant",
        why="what Prolific signed says something else than the address",
        fix="open the study again from Prolific",
    )


def open_prolific(settings: Settings) -> Prolific:
    """Open the project in the settings."""
    values = settings.of("prolific", _KNOWN, _REQUIRED)
    text = values["minutes"]
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 100_000):
        raise Misconfigured(
            "minutes of prolific is not a whole number above 0",
            fix="say how many minutes one batch of fields takes",
        )
    if values.get("review", "manual") not in _REVIEWS:
        raise Misconfigured("review of prolific is neither manual nor automatic",
                            fix="leave it out for manual")  # fmt: skip
    token, key = token_and_key(settings.secret, "prolific")
    http = Http(private=settings.private)
    check_entrance(http, values["page"], "prolific", who="participants")
    api = Api(values.get("url", URL), token, http, project=values["project"],
              workspace=values["workspace"])  # fmt: skip
    return Prolific(api, key, values)


def try_draft(
    api: Api,
    offer: Offer,
    study_for: Callable[[str], Mapping[str, Any]],
    check: Callable[[str, str], None],
    other: Stranger,
) -> Iterator[Tried]:
    """Draft a study for one participant and read back who could see it.

    It is never published, which would cost money.

    Parameters
    ----------
    api : Api
    offer : Offer
        Synthetic; its key names the group.
        Group -> the study's definition.
    check : callable
        (study, participant) -> None; raises Misconfigured for an unsafe draft.
    other : Stranger
        A participant who must not be in the group.
    """
    group = api.group_of(offer.account, offer.key)
    number = str(api.draft(study_for(group))["id"])
    try:
        check(number, offer.account)
        yield Tried(Wall.BINDING, held=True, finding="the draft is for one group alone")
        alone = api.members(group) == [offer.account] != [other.account]
        yield Tried(Wall.BINDING, alone, "the group holds that participant alone")
    except Misconfigured as error:
        yield Tried(Wall.BINDING, held=False, finding=error.what)
    finally:
        api.discard(number)


OFFER: Final = "offer-"
"""Prefix of the internal name of our studies; the offer's key follows."""

ENDED: Final = ("COMPLETED", "AWAITING REVIEW")
"""States of studies that nobody can accept any more."""

_GONE: Final = (Progress.GONE, Progress.REJECTED)
_FINAL: Final = (*_GONE, Progress.APPROVED)


class Submissions:
    """Polls for the state of one project's studies.

    Parameters
    ----------
    api : Api
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._final: dict[str, list[Submission]] = {}

    def collect(self, cursor: str) -> Collected:
        """Return the state of studies.

        The cursor is the moment of the newest study before which all have ended.
        """
        submissions: list[Submission] = []
        final: dict[str, list[Submission]] = {}
        ended_before = cursor
        still_open = False
        for study in reversed(list(self._since(cursor))):
            number = str(study["id"])
            known = self._final.get(number)
            current, ended = self._state_of(study) if known is None else (known, True)
            # (one that nobody accepted has no account, and is not looked up)
            settled = [one for one in current if one.account and one.progress in _FINAL]
            if ended and current and settled == current:
                final[number] = current
            submissions += current
            still_open = still_open or not ended
            if not still_open:
                ended_before = max(ended_before, str(study.get("date_created", "")))
        self._final = final
        return Collected(ended_before, submissions=tuple(submissions))

    def _since(self, moment: str) -> Iterator[dict[str, Any]]:
        for study in self._api.studies():
            if moment and str(study.get("date_created", "")) < moment:
                return
            if str(study.get("internal_name") or "").startswith(OFFER):
                yield study

    def _state_of(self, study: Mapping[str, Any]) -> tuple[list[Submission], bool]:
        """Return a study's submissions, and whether nothing can follow.

        A study that was returned is stopped: its place would open again, and further
        work comes in a study of its own.
        """
        number, ended = str(study["id"]), study.get("status") in ENDED
        key = str(study.get("internal_name") or "").removeprefix(OFFER)
        if not study.get("number_of_submissions"):
            untaken = Submission(number, number, "", Progress.GONE, key)
            return [untaken] if ended else [], ended
        submissions = [
            Submission(
                id=str(one["id"]),
                reference=number,
                account=str(one["participant_id"]),
                progress=progress_of(one.get("status")),
                key=key,
            )
            for one in self._api.submissions(number)
            if one.get("participant_id")
        ]
        working = any(one.progress is Progress.OPEN for one in submissions)
        gone = any(one.progress in _GONE for one in submissions)
        if gone and not ended and not working:
            self._api.move(number, "STOP")
        return submissions, ended and not working
