"""Scripted workers at our task page: two browser windows each, and people's bad habits.

A worker comes from its market, reads the pixels that it is shown and answers. On the way
it hands tasks back, lets some expire and answers late, presses Submit twice at once, works
in two windows at once, and reaches for what is another's. All that it was ever served is
noted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import httpx2

from dispatcher.surfaces.demo.people import WAIT, Diary, Reader, _PageParts

One = TypeVar("One")
Two = TypeVar("Two")
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
    races_lost: int = 0  # a rival got the work that is another's: must stay 0
    market_said: set[str] = field(
        default_factory=set
    )  # every page that the market served
    said: set[str] = field(default_factory=set)  # pages without a task, of ours


class BusyWorker(threading.Thread):
    """One account of a market; a subclass finds the work there and comes from there.

    Parameters
    ----------
    name, connector : str
        Account there, and the connector.
    page_url : str
        Where our task page is.
    reader : Reader
    board : dict
        Task token -> account in whose hands it was seen last: a shared screen.
    lease : float
        Seconds that a task is lent for.
    """

    def __init__(
        self,
        name: str,
        connector: str,
        page_url: str,
        reader: Reader,
        board: dict[str, str],
        lease: float,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.account = f"{connector}/{name}"
        self._page_url = page_url
        self._reader = reader
        self._stop_working = threading.Event()
        self._board = board
        self._lease = lease
        self._windows: list[httpx2.Client] = []
        self.deeds = Deeds()
        self.fault: Exception | None = None

    @property
    def diary(self) -> Diary:
        return self._reader.diary

    def start_under(self, stop: threading.Event) -> None:
        """Begin to work, until `stop` is set."""
        self._stop_working = stop
        self.start()

    def run(self) -> None:
        try:
            with self._window() as one, self._window() as two:
                self._windows = [one, two]
                self._work_there()
        except Exception as error:  # noqa: BLE001 - told by the run at its end
            self.fault = error

    def _work_there(self) -> None:
        """Find the work at the market, do it, and hand in."""
        raise NotImplementedError

    def _arrive(self, window: httpx2.Client) -> None:
        """Come to our page in a window."""
        raise NotImplementedError

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
            self._arrive(window)
        page = _PageParts("")
        while not self._stop_working.is_set():
            if page.page != "task":
                page = self._start()
            if page.page == "task":
                page = self._task(page)
            else:
                self._stop_working.wait(WAIT)

    def _start(self) -> _PageParts:
        """Press Start, sometimes in both windows at once."""
        if self._reader.rng.random() >= WINDOWS:
            return self._post(self._windows[0], "/start", _PageParts(""))
        self.deeds.windows += 1
        one, two = both(
            lambda: self._post(self._windows[0], "/start", _PageParts("")),
            lambda: self._post(self._windows[1], "/start", _PageParts("")),
        )
        if one.page == two.page == "task" and one.token != two.token:
            self.deeds.split += 1
        return one

    def _task(self, page: _PageParts) -> _PageParts:
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

    def _reach(self, page: _PageParts) -> None:
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
            seen = _PageParts(text)
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
        self, window: httpx2.Client, path: str, page: _PageParts, **form: str
    ) -> _PageParts:
        text = window.post(path, data={**page.hidden, **form}).text
        found = _PageParts(text)
        if found.page == "task":
            self._board[found.token] = self.account
        else:
            self.deeds.said.add(text)
        return found

    def _reach_again(self, tokens: list[str]) -> None:
        """Go to our page once more, for tasks that others had."""
        with self._window() as one, self._window() as two:
            self._windows = [one, two]
            self._arrive(two)
            for token in tokens:
                self.reach(token, answer=False)


def both(one: Callable[[], One], two: Callable[[], Two]) -> tuple[One, Two]:
    """Do two things at once."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(one), pool.submit(two)
        return first.result(), second.result()
