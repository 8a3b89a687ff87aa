"""How studies stand at Prolific: who has them, who handed in, who handed back.

What is told is told again until the cursor has passed it, and the cursor waits for the
oldest study that is open. What cannot change any more is asked of Prolific once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from connectors.base import Collected, Progress, Submission
from connectors.prolific.api import Api
from connectors.prolific.payments import progress_of

OFFER: Final = "offer-"
"""Begins the internal name of a study of ours; behind it stands the offer's key."""

ENDED: Final = ("COMPLETED", "AWAITING REVIEW")
"""States of studies that nobody can take any more."""

_GONE: Final = (Progress.GONE, Progress.REJECTED)
_FINAL: Final = (*_GONE, Progress.APPROVED)


class Standings:
    """The look at the studies of one project.

    Parameters
    ----------
    api : Api
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._final: dict[str, list[Submission]] = {}

    def collect(self, cursor: str) -> Collected:
        """Tell how studies stand.

        The cursor is the moment of the newest study before which all have ended.
        """
        told: list[Submission] = []
        final: dict[str, list[Submission]] = {}
        ended_before = cursor
        still_open = False
        for study in reversed(list(self._since(cursor))):
            number = str(study["id"])
            known = self._final.get(number)
            mine, ended = self._standing(study) if known is None else (known, True)
            # (one that ended untaken has no account, and is not asked after)
            sure = [one for one in mine if one.account and one.progress in _FINAL]
            if ended and mine and sure == mine:
                final[number] = mine
            told += mine
            still_open = still_open or not ended
            if not still_open:
                ended_before = max(ended_before, str(study.get("date_created", "")))
        self._final = final
        return Collected(ended_before, submissions=tuple(told))

    def _since(self, moment: str) -> Iterator[dict[str, Any]]:
        for study in self._api.studies():
            if moment and str(study.get("date_created", "")) < moment:
                return
            if str(study.get("internal_name") or "").startswith(OFFER):
                yield study

    def _standing(self, study: Mapping[str, Any]) -> tuple[list[Submission], bool]:
        """Tell how a study's submissions stand, and whether nothing can follow.

        A study that was handed back is stopped: its place would open again, and what
        is planned anew comes in a study of its own.
        """
        number, ended = str(study["id"]), study.get("status") in ENDED
        key = str(study.get("internal_name") or "").removeprefix(OFFER)
        if not study.get("number_of_submissions"):
            untaken = Submission(number, number, "", Progress.GONE, key)
            return [untaken] if ended else [], ended
        told = [
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
        working = any(one.progress is Progress.OPEN for one in told)
        gone = any(one.progress in _GONE for one in told)
        if gone and not ended and not working:
            self._api.move(number, "STOP")
        return told, ended and not working
