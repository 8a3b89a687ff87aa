"""Scripted workers of a Turkle server: two browsers each, and people's bad habits.

A worker finds the notice at Turkle, follows its link to our task page, opens it by the
personal link and reads the pixels that it is shown. On the way it hands tasks back, lets
some expire and answers late, presses Submit twice at once, works in two windows at once,
and reaches for what is another's. All that it was ever served is noted.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import httpx2

from dispatcher.surfaces.demo.people import WAIT, Reader, _Page
from tests.markets.turkle_server import Browser, Turkle

One = TypeVar("One")
Two = TypeVar("Two")
ACCEPTS = 50
DOUBLES, WINDOWS, REACHES, LATE = 0.05, 0.03, 0.04, 0.004


@dataclass
class Deeds:
    """What one worker did beside answering; ``split`` and ``foreign`` must stay 0."""

    doubles: int = 0
    windows: int = 0
    split: int = 0  # two windows showed two tasks at once
    reaches: int = 0
    foreign: int = 0  # another's task was shown
    late: int = 0
    market_returns: int = 0
    market_submits: int = 0
    races: int = 0
    races_lost: int = 0  # a rival got the notice that is another's: must stay 0
    market_said: set[str] = field(default_factory=set)  # every page that Turkle served
    said: set[str] = field(default_factory=set)  # pages without a task, of ours


class TurkleWorker(threading.Thread):
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
        super().__init__(name=name, daemon=True)
        self._server = server
        self._rival = rival
        self._invite = invite
        self._page_url = invite.partition("/#")[0]
        self._reader = reader
        self._stop_working = threading.Event()
        self._board = board
        self._lease = lease
        self._market: Browser | None = None
        self._windows: list[httpx2.Client] = []
        self.deeds = Deeds()
        self.fault: Exception | None = None

    @property
    def account(self) -> str:
        return f"turkle/{self.name}"

    @property
    def diary(self):
        return self._reader.diary

    def start_under(self, stop: threading.Event) -> None:
        """Begin to work, until `stop` is set."""
        self._stop_working = stop
        self.start()

    def run(self) -> None:
        try:
            with self._window() as one, self._window() as two:
                self._windows = [one, two]
                self._market = self._server.browser(self.name)
                task = self._find_work()
                if task:
                    self._work()
                    self._finish(task)
        except Exception as error:  # noqa: BLE001 - told by the run at its end
            self.fault = error

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
        raise AssertionError("the notice can not be accepted")

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

    # -- at our page --------------------------------------------------------------------

    def _window(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self._page_url,
            timeout=120.0,
            trust_env=False,
            follow_redirects=True,
            headers={"Origin": self._page_url, "Sec-Fetch-Site": "same-origin"},
        )

    def _work(self) -> None:
        for window in self._windows:
            self._post(window, "/arrive", _Page(window.get("/").text),
                       invite=self._invite)  # fmt: skip
        page = _Page("")
        while not self._stop_working.is_set():
            if page.page != "task":
                page = self._start()
            if page.page == "task":
                page = self._task(page)
            else:
                self._stop_working.wait(WAIT)

    def _start(self) -> _Page:
        """Press Start, sometimes in both windows at once."""
        if self._reader.rng.random() >= WINDOWS:
            return self._post(self._windows[0], "/start", _Page(""))
        self.deeds.windows += 1
        one, two = both(
            lambda: self._post(self._windows[0], "/start", _Page("")),
            lambda: self._post(self._windows[1], "/start", _Page("")),
        )
        if one.page == two.page == "task" and one.token != two.token:
            self.deeds.split += 1
        return one

    def _task(self, page: _Page) -> _Page:
        diary, rng = self.diary, self._reader.rng
        self._board[page.token] = self.account
        written = self._reader.read(self._windows[0].get(page.crop).content)
        if rng.random() < REACHES:
            self._reach(page)
        if written is None or self._reader.gives_back():
            diary.returned += 1
            return self._post(self._windows[0], f"/task/{page.token}/return", page)
        if rng.random() < LATE:
            self.deeds.late += 1
            time.sleep(self._lease + 1)
        path = f"/task/{page.token}/answer"
        form = {"answer": self._reader.answer(written), "outcome": "answered"}
        diary.answered += 1
        if rng.random() >= DOUBLES:
            return self._post(self._windows[0], path, page, **form)
        self.deeds.doubles += 1
        one, _ = both(
            lambda: self._post(self._windows[0], path, page, **form),
            lambda: self._post(self._windows[1], path, page, **form),
        )
        return one

    def _reach(self, page: _Page) -> None:
        """Answer and look at the task that another worker has in hand."""
        others = [
            t for t, who in list(self._board.items())[-40:] if who != self.account
        ]
        if others:
            token = others[int(self._reader.rng.integers(0, len(others)))]
            self.reach(token, answer=True)
            self.note_crop(page.crop[:-4] + "AAAA")

    def reach(self, token: str, *, answer: bool) -> None:
        """Try to see another's task; answering it is one more way to try."""
        self.deeds.reaches += 1
        got = [self._windows[1].get(f"/task/{token}").text]
        if answer:
            form = {"answer": "mine", "outcome": "answered"}
            got.append(self._windows[1].post(f"/task/{token}/answer", data=form).text)
        for text in got:
            seen = _Page(text)
            if seen.crop and self._board.get(seen.token) not in (None, self.account):
                self.deeds.foreign += 1
            if seen.crop:  # a task of its own may follow: what it shows is noted too
                self._reader.read(self._windows[1].get(seen.crop).content)
            else:
                self.deeds.said.add(text)

    def note_crop(self, path: str) -> None:
        """Fetch an image by a guessed name; what comes is noted."""
        reply = self._windows[1].get(path)
        if reply.headers.get("content-type", "").startswith("image/"):
            self._reader.read(reply.content)

    def _post(
        self, window: httpx2.Client, path: str, page: _Page, **form: str
    ) -> _Page:
        text = window.post(path, data={**page.hidden, **form}).text
        found = _Page(text)
        if found.page == "task":
            self._board[found.token] = self.account
        else:
            self.deeds.said.add(text)
        return found

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

    def _reach_again(self, tokens: list[str]) -> None:
        """Go to our page once more, for tasks that others had."""
        with self._window() as one, self._window() as two:
            self._windows = [one, two]
            self._post(two, "/arrive", _Page(two.get("/").text), invite=self._invite)
            for token in tokens:
                self.reach(token, answer=False)


def both(one: Callable[[], One], two: Callable[[], Two]) -> tuple[One, Two]:
    """Do two things at once."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(one), pool.submit(two)
        return first.result(), second.result()
