"""The two kinds of Label Studio connector: a notice board, or a market with content."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from connectors.base import (
    Answer,
    Arrival,
    Binding,
    Collected,
    Content,
    Handle,
    Idempotency,
    Identity,
    Limits,
    Listed,
    Manifest,
    Market,
    Misconfigured,
    Offer,
    Preview,
    Quarantined,
    Rejected,
    Role,
    Settings,
    Visit,
)
from connectors.errors import ConnectorError
from connectors.http.client import Http
from connectors.label_studio import notices
from connectors.label_studio.api import Api, moment_of
from connectors.label_studio.board import Board, BoardTask
from connectors.label_studio.forms import BLANK, CONFIG, answer_of, shown
from connectors.tickets import check_key, opaque, token_and_key

TITLE: Final = "Data entry"
MOST: Final = 24
"""Characters of a title: Label Studio allows 50, and we append words."""

_KNOWN: Final = ("url", "content", "project", "hook", "allow_private")


def declared(values: Mapping[str, str]) -> Manifest:
    """Return the manifest of a connector with these settings."""
    return THERE if values.get("content") == "there" else notices.MANIFEST


def open_label_studio(settings: Settings) -> Market:
    """Open the server in the settings.

    Raises
    ------
    Misconfigured
        If a setting or the secret is wrong.
    """
    values = settings.of("label-studio", _KNOWN, ("url",))
    content = values.get("content", "ours")
    if content not in ("ours", "there"):
        raise Misconfigured(
            "content of label-studio is neither ours nor there",
            fix="leave it out, so that Label Studio gets no field",
        )
    title = values.get("project", TITLE)
    if not (3 <= len(title) <= MOST and title.isprintable()):
        raise Misconfigured(
            "project of label-studio is no title",
            fix=f"write 3 to {MOST} printable characters",
        )
    token, key = token_and_key(settings.secret, "label-studio")
    check_key(key, "write 32 random bytes in hex into the second line of secret_file")
    http = Http(private=settings.private)
    hook = values.get("hook", "")
    if hook:
        _check_hook(content, hook)
    api = Api(values["url"], token, http)
    if content == "there":
        return Instance(api, key, title, hook)
    return notices.NoticeBoard(api, key, title)


def _check_hook(content: str, hook: str) -> None:
    if content != "there" or "/hooks/" not in hook:
        raise Misconfigured(
            "hook of label-studio does not fit",
            why="only with content = there does anything happen that is worth a call",
            fix="leave it out, or set it to worker_url, /hooks/ and the name",
        )


THERE: Final = Manifest(
    name="label-studio",
    role=Role.MARKET,
    binding=Binding.NONE,  # every user of the server can read every task
    identity=Identity.LOGIN,
    content=Content.MARKET,
    preview=Preview.FULL,
    idempotency=Idempotency.SEARCH,
    limits=Limits(
        items=100,
        content_bytes=4 << 20,
        per_minute=60,
        poll_seconds=30,
        account_bytes=254,
    ),
    tested_against="a real Label Studio Community server",
)

HEADER: Final = "x-dispatcher-word"
_OVERLAP: Final = timedelta(seconds=10)
"""An earlier change may be committed, and seen, later than a later one."""
_ANNOTATIONS: Final = 20
"""Annotations read of one task, so that a user who adds thousands blocks no other's."""
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Instance:
    """A server that contains the fields.

    Parameters
    ----------
    api : Api
    key : bytes
        Derives the secret word of the webhook; at least 32 bytes.
    title : str
        Title of the projects.
    hook : str
        Where the server may call us; empty: it is only polled.
    """

    def __init__(self, api: Api, key: bytes, title: str, hook: str = "") -> None:
        self._api = api
        self._key = key
        self._hook = hook
        self._hooked = False
        self._board = Board(api, key, title, CONFIG)

    @property
    def manifest(self) -> Manifest:
        """Bound to nobody, content at the market."""
        return THERE

    def publish(self, offer: Offer) -> Handle:
        """Import a task for each field, except those already there under this key.

        Raises
        ------
        Rejected
            If the offer may not go there, or shows neither text nor a picture.
        TryLater, Misconfigured
            Depending on the server's response.
        """
        THERE.check(offer)
        whom = offer.audience or offer.account
        tasks = [BoardTask(item.token, whom, shown(item)) for item in offer.items]
        return self._board.put(offer.key, tasks)

    def find(self, key: str) -> Handle | None:
        """Look for the tasks of this key, withdrawn ones too."""
        return self._board.find(key)

    def listing(self, cursor: str) -> Listed:
        """Return a page of the offers there, without withdrawn ones."""
        return self._board.listing(cursor)

    def withdraw(self, handle: Handle) -> None:
        """Delete the contents; answers are still collected."""
        self._board.withdraw(handle.key, BLANK)

    def forget(self, tokens: Collection[str]) -> tuple[str, ...]:
        """Delete tasks with their answers; users' exports are unknown."""
        for token in tokens:
            self._board.forget(token)
        return ()

    def arrive(self, visit: Visit, now: datetime) -> Arrival:  # noqa: ARG002 (protocol)
        """Raise Rejected: the work is done at Label Studio."""
        raise Rejected(
            "the fields of this connector are shown at Label Studio",
            fix="log in there",
        )

    def collect(self, cursor: str) -> Collected:
        """Return the answers of tasks changed since the cursor, which is a moment.

        Raises
        ------
        Rejected
            If the cursor is not ours.
        TryLater, Misconfigured
            Depending on the server's response.
        """
        since = _BEGINNING if not cursor else moment_of(cursor)
        if since is None:
            raise Rejected(
                "the cursor is no moment", fix="begin anew with an empty one"
            )
        project = self._board.project()
        if project is None:
            return Collected(cursor)
        self._ask_to_be_called(project)
        tasks, more = self._board.changed(project, since)
        found = [one for task in tasks for one in self._annotated(task)]
        answers = tuple(one for one in found if isinstance(one, Answer))
        strange = tuple(one for one in found if isinstance(one, Quarantined))
        last = moment_of(tasks[-1].get("updated_at")) if tasks else None
        if last is not None:
            following = last if more else max(since, last - _OVERLAP)
            cursor = following.isoformat()
        return Collected(cursor, answers, strange, more)

    def _annotated(
        self, task: Mapping[str, Any]
    ) -> Iterator[Answer | Quarantined | None]:
        """Yield the answers in a task's annotations: any user may add any number."""
        listed = sorted(_annotations(task), key=lambda one: int(one["id"]))
        for one in listed[:_ANNOTATIONS]:
            yield self._answer(task, one)
        if len(listed) > _ANNOTATIONS:
            yield Quarantined(
                f"{task.get('id')}:more",
                f"task {task.get('id')}",
                f"it has more than {_ANNOTATIONS} annotations, the others are left there",
            )

    def _answer(
        self, task: Mapping[str, Any], brief: Mapping[str, Any]
    ) -> Answer | Quarantined | None:
        """Return the answer of one annotation; None if it was deleted since."""
        number = int(brief["id"])
        edition = f"{number}:{brief.get('updated_at')}"
        place = f"task {task.get('id')}, annotation {number}"
        try:
            whole = self._api.annotation(number)
        except Rejected:
            return Quarantined(edition, place, "it is too large to be an answer")
        return None if whole is None else answer_of(task, whole, edition, place)

    def heed(self, visit: Visit, now: datetime) -> str:
        """Verify that the caller knows the secret word of our webhook.

        Calls have nothing that distinguishes them, so a call's id is the second in
        which it came: a copied call makes us poll once more, and no more than that.

        Raises
        ------
        Rejected
            If it does not.
        """
        word = visit.headers.get(HEADER, "").encode("utf-8", "replace")
        if not hmac.compare_digest(word, self._word().encode()):
            raise Rejected("the call is not one of Label Studio")
        return str(int(now.timestamp()))

    def _ask_to_be_called(self, project: int) -> None:
        """Create the webhook, once per process; if that fails, polling continues."""
        if not self._hook or self._hooked:
            return
        self._hooked = True
        webhook = {
            "project": project,
            "url": self._hook,
            "headers": {HEADER: self._word()},
            "send_payload": False,  # a payload would carry the whole task
            "send_for_all_actions": False,
            "actions": ["ANNOTATION_CREATED", "ANNOTATION_UPDATED"],
            "is_active": True,
        }
        try:
            for existing in self._api.hooks(project):
                if (
                    existing.get("url") == self._hook
                    and existing.get("headers") == webhook["headers"]
                ):
                    return
            self._api.make_hook(webhook)
        except ConnectorError:
            return

    def _word(self) -> str:
        return opaque(self._key, "hook")

    def close(self) -> None:
        """Close idle connections."""
        self._api.close()


def _annotations(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = task.get("annotations")
    annotations = listed if isinstance(listed, list) else []
    return [one for one in annotations if isinstance(one, dict) and "id" in one]
