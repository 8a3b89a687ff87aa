"""What is asked of Prolific: studies, participant groups, submissions, signing keys."""

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
        Where the interface begins: ``https://api.prolific.com``.
    token : str
        Of a researcher; sent in a header only.
    project : str
    workspace : str
    http : Http

    Raises
    ------
    Misconfigured
        A URL that must not be called.
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
        """Give the project's studies, the newest first, short forms."""
        path = f"projects/{quote(self._project, safe='')}/studies/"
        return self._every(path, "ordering=-date_created")

    def studies_page(self, number: int) -> tuple[list[dict[str, Any]], bool]:
        """Give one page of them, and whether one follows."""
        path = f"projects/{quote(self._project, safe='')}/studies/"
        query = f"ordering=-date_created&page={number}&page_size={_PAGE}"
        told = self._rest.ask("GET", f"{path}?{query}", missing=True)
        if told is None:  # past the last
            return [], False
        return self._results(told), bool(self._following(self._rest.thing(told)))

    def study(self, number: str) -> dict[str, Any] | None:
        """Read one study whole; None for one that is gone."""
        told = self._rest.ask("GET", f"studies/{quote(number, safe='')}/", missing=True)
        return None if told is None else self._rest.thing(told)

    def draft(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Make a study that nobody sees yet; asked again, Prolific makes a second."""
        draft = {**told, "project": self._project}
        return self._rest.thing(self._rest.ask("POST", "studies/", draft))

    def move(self, number: str, action: str) -> object:
        """Move a study on: ``PUBLISH``, ``STOP`` and so on; gone already is left gone.

        Returns
        -------
        object
            The state that the answer tells; None where it tells none.
        """
        path = f"studies/{quote(number, safe='')}/transition/"
        return _state(self._rest.ask("POST", path, {"action": action}, missing=True))

    def group_of(self, participant: str, name: str) -> str:
        """Make a group of one participant, and read back that it holds that one.

        Raises
        ------
        Misconfigured
            It does not: nothing may be offered to it.
        """
        made = self._rest.thing(self._rest.ask("POST", "participant-groups/", {
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
        """Read the participants of a group."""
        path = f"participant-groups/{quote(group, safe='')}/participants/"
        members = self._results(self._rest.ask("GET", path))
        return [str(one.get("participant_id")) for one in members]

    def discard(self, number: str) -> None:
        """Delete a draft; gone already is left gone."""
        path = f"studies/{quote(number, safe='')}/"
        self._rest.ask("DELETE", path, missing=True)

    def submissions(self, study: str) -> Iterator[dict[str, Any]]:
        """Give the submissions of one study."""
        return self._every("submissions/", f"study={quote(study, safe='')}")

    def submission(self, number: str) -> dict[str, Any] | None:
        """Read one submission; None for one that Prolific does not know."""
        path = f"submissions/{quote(number, safe='')}/"
        told = self._rest.ask("GET", path, missing=True)
        return None if told is None else self._rest.thing(told)

    def approve(self, number: str) -> object:
        """Approve a submission; a second call changes nothing.

        Returns
        -------
        object
            The state that the answer tells; None where it tells none.
        """
        path = f"submissions/{quote(number, safe='')}/transition/"
        return _state(self._rest.ask("POST", path, {"action": "APPROVE"}))

    def balance(self) -> dict[str, Any]:
        """Read the workspace's currency and money, in hundredths."""
        path = f"workspaces/{quote(self._workspace, safe='')}/balance/"
        return self._rest.thing(self._rest.ask("GET", path))

    def set_up(self, study: str, lines: str) -> str:
        """Set up bonuses, a line each; nothing is paid before :meth:`pay`."""
        told = {"study_id": study, "csv_bonuses": lines}
        made = self._rest.ask("POST", "submissions/bonus-payments/", told)
        return str(self._rest.thing(made)["id"])

    def pay(self, number: str) -> None:
        """Have bonuses paid that were set up: once more for every call."""
        self._rest.ask("POST", f"bulk-bonus-payments/{quote(number, safe='')}/pay/")

    def signing_keys(self) -> list[dict[str, Any]]:
        """Fetch the public keys that sign study links."""
        told = self._rest.thing(self._keys.ask("GET", "jwks.json"))
        keys = told.get("keys")
        if not isinstance(keys, list):
            raise self._rest.strange()
        return [key for key in keys if isinstance(key, dict)]

    def hook_secrets(self) -> tuple[str, ...]:
        """Fetch the secrets that Prolific's calls to this workspace are signed with."""
        query = f"workspace_id={quote(self._workspace, safe='')}"
        told = self._results(self._rest.ask("GET", f"hooks/secrets/?{query}"))
        mine = [one for one in told if one.get("workspace_id") == self._workspace]
        return tuple(str(one["value"]) for one in mine if one.get("value"))

    def make_hook_secret(self) -> None:
        """Make the workspace's secret; one that was there is replaced."""
        self._rest.ask("POST", "hooks/secrets/", {"workspace_id": self._workspace})

    def subscriptions(self) -> list[dict[str, Any]]:
        """Give the workspace's subscriptions that are on."""
        query = f"is_enabled=true&workspace_id={quote(self._workspace, safe='')}"
        return self._results(self._rest.ask("GET", f"hooks/subscriptions/?{query}"))

    def subscribe(self, event: str, target: str) -> None:
        """Ask to be called, and confirm it with the secret of the answer's header."""
        wanted = {"workspace_id": self._workspace, "event_type": event,
                  "target_url": target}  # fmt: skip
        said, headers = self._rest.ask_whole("POST", "hooks/subscriptions/", wanted)
        number = quote(str(self._rest.thing(said)["id"]), safe="")
        secret = headers.get("x-hook-secret", "")
        self._rest.ask("POST", f"hooks/subscriptions/{number}/", {"secret": secret})

    def close(self) -> None:
        """Close what is kept open."""
        self._rest.close()  # both speak through the same client

    def _every(self, path: str, query: str) -> Iterator[dict[str, Any]]:
        """Go through pages by the link to the next one: past the last stands a 404."""
        asked = f"{query}&page=1&page_size={_PAGE}"
        for _ in range(_MOST_PAGES):
            told = self._rest.thing(self._rest.ask("GET", f"{path}?{asked}"))
            yield from self._results(told)
            # Only the query is taken over: the token goes to no other place.
            asked = urlsplit(self._following(told)).query
            if not asked:
                return

    def _following(self, told: Mapping[str, Any]) -> str:
        """Read the link to the next page; empty on the last."""
        following = (told.get("_links") or {}).get("next") or {}
        return str(following.get("href") or "")

    def _results(self, told: object) -> list[dict[str, Any]]:
        results = self._rest.thing(told).get("results")
        if not isinstance(results, list):
            raise self._rest.strange()
        return [self._rest.thing(one) for one in results]


def _state(told: object) -> object:
    return told.get("status") if isinstance(told, dict) else None
