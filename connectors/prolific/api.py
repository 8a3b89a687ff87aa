"""Calls to Prolific: studies, participant groups, submissions, signing keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from connectors.errors import Misconfigured
from connectors.http.client import Http
from connectors.http.rest import Rest

_MOST_PAGES: Final = 10_000
_PAGE: Final = 100


class Api:
    """Calls to Prolific.

    Parameters
    ----------
    url : str
        Base of the interface: ``https://api.prolific.com``.
    token : str
        A researcher's token; sent in a header only.
    project : str
    workspace : str
    http : Http

    Raises
    ------
    Misconfigured
        If the URL must not be called.
    """

    def __init__(
        self, url: str, token: str, http: Http, *, project: str, workspace: str
    ) -> None:
        base = f"{url.rstrip('/')}/"
        authorization = {"authorization": f"Token {token}"}
        self._rest = Rest(f"{base}api/v1/", authorization, http, "Prolific")
        self._keys = Rest(f"{base}.well-known/study/", {}, http, "Prolific")
        self._project = project
        self._workspace = workspace

    def studies(self) -> Iterator[dict[str, Any]]:
        """Yield the project's studies in short form, the newest first."""
        path = f"projects/{quote(self._project, safe='')}/studies/"
        return self._every(path, "ordering=-date_created")

    def studies_page(self, number: int) -> tuple[list[dict[str, Any]], bool]:
        """Return one page of them, and whether another follows."""
        path = f"projects/{quote(self._project, safe='')}/studies/"
        query = f"ordering=-date_created&page={number}&page_size={_PAGE}"
        response = self._rest.ask("GET", f"{path}?{query}", missing=True)
        if response is None:  # after the last page
            return [], False
        return self._results(response), bool(
            self._following(self._rest.as_object(response))
        )

    def study(self, number: str) -> dict[str, Any] | None:
        """Return one complete study; None if it is gone."""
        study = self._rest.ask(
            "GET", f"studies/{quote(number, safe='')}/", missing=True
        )
        return None if study is None else self._rest.as_object(study)

    def draft(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """Create a study that nobody sees yet; if repeated, there will be two."""
        draft = {**study, "project": self._project}
        return self._rest.as_object(self._rest.ask("POST", "studies/", draft))

    def move(self, number: str, action: str) -> object:
        """Change a study's state: ``PUBLISH``, ``STOP`` etc.; no error if it is gone.

        Returns
        -------
        object
            The new state in the response; None if it has none.
        """
        path = f"studies/{quote(number, safe='')}/transition/"
        return _state(self._rest.ask("POST", path, {"action": action}, missing=True))

    def group_of(self, participant: str, name: str) -> str:
        """Create a group of one participant, and read back that it has only that one.

        Raises
        ------
        Misconfigured
            If it does not, so nothing may be offered to it.
        """
        made = self._rest.as_object(self._rest.ask("POST", "participant-groups/", {
            "workspace_id": self._workspace,
            "name": name,
            "participant_ids": [participant],
        }))  # fmt: skip
        group = str(made["id"])
        if self.members(group) != [participant]:
            raise Misconfigured(
                "Prolific does not keep who a study is for",
                why="the group read back holds other participants than were set",
                fix="see who else changes participant groups of this workspace",
            )
        return group

    def members(self, group: str) -> list[str]:
        """Return the participants of a group."""
        path = f"participant-groups/{quote(group, safe='')}/participants/"
        members = self._results(self._rest.ask("GET", path))
        return [str(one.get("participant_id")) for one in members]

    def discard(self, number: str) -> None:
        """Delete a draft; no error if it is gone already."""
        path = f"studies/{quote(number, safe='')}/"
        self._rest.ask("DELETE", path, missing=True)

    def submissions(self, study: str) -> Iterator[dict[str, Any]]:
        """Yield the submissions of one study."""
        return self._every("submissions/", f"study={quote(study, safe='')}")

    def submission(self, number: str) -> dict[str, Any] | None:
        """Return one submission; None if Prolific does not know it."""
        path = f"submissions/{quote(number, safe='')}/"
        submission = self._rest.ask("GET", path, missing=True)
        return None if submission is None else self._rest.as_object(submission)

    def approve(self, number: str) -> object:
        """Approve a submission; a second call changes nothing.

        Returns
        -------
        object
            The new state in the response; None if it has none.
        """
        path = f"submissions/{quote(number, safe='')}/transition/"
        return _state(self._rest.ask("POST", path, {"action": "APPROVE"}))

    def balance(self) -> dict[str, Any]:
        """Return the workspace's currency and balance, in hundredths."""
        path = f"workspaces/{quote(self._workspace, safe='')}/balance/"
        return self._rest.as_object(self._rest.ask("GET", path))

    def set_up(self, study: str, lines: str) -> str:
        """Set up bonuses, one per line; nothing is paid before :meth:`pay`."""
        bonuses = {"study_id": study, "csv_bonuses": lines}
        response = self._rest.ask("POST", "submissions/bonus-payments/", bonuses)
        return str(self._rest.as_object(response)["id"])

    def pay(self, number: str) -> None:
        """Pay bonuses that were set up: every call pays them once more."""
        self._rest.ask("POST", f"bulk-bonus-payments/{quote(number, safe='')}/pay/")

    def signing_keys(self) -> list[dict[str, Any]]:
        """Return the public keys that sign study links."""
        response = self._rest.as_object(self._keys.ask("GET", "jwks.json"))
        keys = response.get("keys")
        if not isinstance(keys, list):
            raise self._rest.unexpected()
        return [key for key in keys if isinstance(key, dict)]

    def hook_secrets(self) -> tuple[str, ...]:
        """Return the secrets that sign Prolific's calls to this workspace."""
        query = f"workspace_id={quote(self._workspace, safe='')}"
        secrets = self._results(self._rest.ask("GET", f"hooks/secrets/?{query}"))
        own = [
            secret
            for secret in secrets
            if secret.get("workspace_id") == self._workspace
        ]
        return tuple(str(secret["value"]) for secret in own if secret.get("value"))

    def make_hook_secret(self) -> None:
        """Create the workspace's secret; it replaces an existing one."""
        self._rest.ask("POST", "hooks/secrets/", {"workspace_id": self._workspace})

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the workspace's active subscriptions."""
        query = f"is_enabled=true&workspace_id={quote(self._workspace, safe='')}"
        return self._results(self._rest.ask("GET", f"hooks/subscriptions/?{query}"))

    def subscribe(self, event: str, target: str) -> None:
        """Subscribe to calls, and confirm with the secret in the response's header."""
        wanted = {"workspace_id": self._workspace, "event_type": event,
                  "target_url": target}  # fmt: skip
        response, headers = self._rest.ask_whole("POST", "hooks/subscriptions/", wanted)
        number = quote(str(self._rest.as_object(response)["id"]), safe="")
        secret = headers.get("x-hook-secret", "")
        self._rest.ask("POST", f"hooks/subscriptions/{number}/", {"secret": secret})

    def close(self) -> None:
        """Close idle connections."""
        self._rest.close()  # both use the same client

    def _every(self, path: str, query: str) -> Iterator[dict[str, Any]]:
        """Follow the links to the next page: the page after the last is a 404."""
        asked = f"{query}&page=1&page_size={_PAGE}"
        for _ in range(_MOST_PAGES):
            page = self._rest.as_object(self._rest.ask("GET", f"{path}?{asked}"))
            yield from self._results(page)
            # Only the query is used, so that the token is sent nowhere else.
            asked = urlsplit(self._following(page)).query
            if not asked:
                return

    def _following(self, page: Mapping[str, Any]) -> str:
        """Return the link to the next page; empty on the last."""
        following = (page.get("_links") or {}).get("next") or {}
        return str(following.get("href") or "")

    def _results(self, response: object) -> list[dict[str, Any]]:
        results = self._rest.as_object(response).get("results")
        if not isinstance(results, list):
            raise self._rest.unexpected()
        return [self._rest.as_object(item) for item in results]


def _state(response: object) -> object:
    return response.get("status") if isinstance(response, dict) else None
