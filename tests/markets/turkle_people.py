"""Scripted workers of a Turkle server: two browsers each, and people's bad habits.

A worker finds the notice at Turkle, follows its link to our task page, opens it by the
personal link, and works there.
"""

from __future__ import annotations

import re
import time

import httpx2

from dispatcher.surfaces.demo.people import WAIT, Reader, _PageParts
from tests.markets.page_people import BusyWorker, both
from tests.markets.turkle_server import Browser, Turkle

ACCEPTS = 50


class TurkleWorker(BusyWorker):
    """One account.

    Parameters
    ----------
    server : Turkle
    name, rival : str
        Accounts there: its own, and one that reaches for the same notice.
    invite : str
        The personal link.
    reader : Reader
    board : dict
        Task token -> account in whose hands it was seen last: a shared screen.
    lease : float
        Seconds that a task is lent for.
    """

    def __init__(
        self,
        server: Turkle,
        name: str,
        rival: str,
        invite: str,
        reader: Reader,
        board: dict[str, str],
        lease: float,
    ) -> None:
        super().__init__(
            name, "turkle", invite.partition("/#")[0], reader, board, lease
        )
        self._server = server
        self._rival = rival
        self._invite = invite
        self._market: Browser | None = None

    def _work_there(self) -> None:
        self._market = self._server.browser(self.name)
        task = self._find_work()
        if task:
            self._work()
            self._finish(task)

    def _arrive(self, window: httpx2.Client) -> None:
        self._post(window, "/arrive", _PageParts(window.get("/").text),
                   invite=self._invite)  # fmt: skip

    # -- at Turkle ----------------------------------------------------------------------

    def look(self, path: str) -> str:
        """Fetch a page of Turkle and note it."""
        assert self._market is not None
        _, text = self._market.get(path)
        self.deeds.market_said.add(text)
        return text

    def _find_work(self) -> str:
        """Accept the notice, give it back, accept it again; follow its link."""
        while not self._stop_working.is_set():
            found = re.search(r"/batch/\d+/accept_next_task/", self.look("/"))
            if found:
                first = self._race(found[0])
                assert self._market is not None
                self._market.post(f"{first}return/")
                self.deeds.market_returns += 1
                again = self._accept(found[0])
                task, number = re.findall(r"\d+", again)
                frame = self.look(f"/task/{task}/assignment/iframe/{number}/")
                link = re.search(r'href="([^"]+)"', frame)
                assert link, "the notice has a link"
                assert link[1].rstrip("/") == self._page_url
                return again
            self._stop_working.wait(WAIT)
        return ""

    def _accept(self, path: str) -> str:
        for _ in range(ACCEPTS):  # a busy Turkle says "try again" by a redirect
            found = re.search(r"/task/\d+/assignment/\d+/", self.look(path))
            if found:
                return found[0]
            time.sleep(WAIT)
        raise AssertionError("the notice cannot be accepted")

    def _finish(self, task: str) -> None:
        """Say at Turkle that it is done, twice."""
        assert self._market is not None
        for _ in range(2):
            _, text = self._market.post(task, offer="done")
            self.deeds.market_said.add(text)
            self.deeds.market_submits += 1

    def _race(self, path: str) -> str:
        """Accept the notice while a rival tries to do the same."""
        rival = self._server.browser(self._rival)
        mine, (_, theirs) = both(lambda: self._accept(path), lambda: rival.get(path))
        self.deeds.races += 1
        self.deeds.races_lost += bool(re.search(r"/assignment/\d+/", theirs))
        return mine

    def sweep(
        self, pairs: list[tuple[int, int]], tasks: list[int], reached: int
    ) -> None:
        """Fetch everything that can be named: at Turkle, and some tasks of others."""
        try:
            self._sweep(pairs, tasks)
            others = [t for t, who in self._board.items() if who != self.account]
            places = self._reader.rng.permutation(len(others))[:reached]
            self._reach_again([others[int(place)] for place in places])
        except Exception as error:  # noqa: BLE001 - told by the run at its end
            self.fault = error

    def _sweep(self, pairs: list[tuple[int, int]], tasks: list[int]) -> None:
        nobody = self._server.browser()
        for task in tasks:
            for path in (f"/task/{task}/", f"/task/{task}/iframe/"):
                self.look(path)
                self.deeds.market_said.add(nobody.get(path)[1])
        for task, number in pairs:
            self.look(f"/task/{task}/assignment/{number}/")
            path = f"/task/{task}/assignment/iframe/{number}/"
            self.look(path)
            self.deeds.market_said.add(nobody.get(path)[1])
