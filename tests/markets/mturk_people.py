"""Scripted workers of the emulated MTurk, who come to our page as a browser would.

A worker looks at the preview, accepts, hands back and accepts again (MTurk gives the same
id), tries to come as another, waits until it is let in, works, and hands in twice.
"""

from __future__ import annotations

import html
import re
import time

import httpx2

from dispatcher.surfaces.demo.people import WAIT, Reader, _PageParts
from tests.contract.mturk_server import Mturk
from tests.contract.mturk_states import Taking
from tests.markets.page_people import BusyWorker

ARRIVALS = 100
REACHED = 25
"""Tasks of others that each account tries once more at the end: few, for the pace."""


class MturkWorker(BusyWorker):
    """One worker.

    Parameters
    ----------
    server : Mturk
    name, rival : str
        Its own id there, and that of another, as whom it tries to come.
    page_url : str
    reader : Reader
    board : dict
        Task token -> account in whose hands it was seen last.
    lease : float
        Seconds that a task is lent for.
    """

    def __init__(
        self,
        server: Mturk,
        name: str,
        rival: str,
        page_url: str,
        reader: Reader,
        board: dict[str, str],
        lease: float,
    ) -> None:
        super().__init__(name, "mturk", page_url, reader, board, lease)
        self._server = server
        self._rival = rival
        self._notice = ""

    def _work_there(self) -> None:
        taken = self._find_work()
        if taken is not None:
            self._look(self._server.link(taken))
            self._work()
            self._reach_others()
            self._hand_in()

    def _look(self, address: str) -> str:
        """Open what MTurk shows in its frame."""
        self._notice = self._windows[0].get(address).text
        self.deeds.said.add(self._notice)
        return self._notice

    def _find_work(self) -> Taking | None:
        while not self._stop_working.is_set():
            for hit in self._server.visible(self.name):
                self.deeds.races += 1
                self.deeds.races_lost += hit in self._server.visible(self._rival)
                preview = self._look(self._server.preview(self.name, hit))
                assert "/from/" not in preview, "a preview leads nowhere"
                first = self._server.accept(self.name, hit)
                self._look(self._server.link(first))
                self._server.give_back(first)
                self.deeds.market_returns += 1
                again = self._server.accept(self.name, hit)
                assert again.id == first.id, "MTurk gives the id again"
                return again
            self._stop_working.wait(WAIT)
        return None

    def _arrive(self, window: httpx2.Client) -> None:
        """Come by the link in the frame; first as another, which must not work."""
        found = re.search(r'href="(/from/mturk\?[^"]+)"', self._notice)
        assert found, "the frame has a way to our page"
        way = html.unescape(found[1])
        page = self._post(
            window, "/arrive", _PageParts(window.get(way).text), workerId=self._rival
        )
        self.deeds.foreign += page.page != "arrive"
        for _ in range(ARRIVALS):
            page = self._post(window, "/arrive", _PageParts(window.get(way).text))
            if page.page == "ready":
                return
            assert page.page == "wait", page.page
            time.sleep(WAIT)
        raise AssertionError("MTurk never confirmed it")

    def _reach_others(self) -> None:
        others = [t for t, who in self._board.items() if who != self.account]
        places = self._reader.rng.permutation(len(others))[:REACHED]
        for place in places:
            self.reach(others[int(place)], answer=False)

    def _hand_in(self) -> None:
        """Press the button in the frame, twice."""
        action = re.search(r'action="([^"]+)"', self._notice)
        assert action, "the frame has a form"
        form = _PageParts(self._notice).hidden
        for expected in (200, 400):
            told = httpx2.post(
                html.unescape(action[1]),
                data=form,
                headers={"cookie": f"worker={self.name}"},
            )
            assert told.status_code == expected
            self.deeds.market_submits += 1
