"""Simulated workers: they see what a worker sees, and do what people do.

A worker knows nothing but what it was served: it looks at the pixels of the crop and
"reads" them by their digest, so that every answer proves what was shown. It makes human
mistakes, hands some tasks back, and one or two of them try what they should not.
"""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import httpx2
import numpy as np
from PIL import Image

from dispatcher.surfaces.demo.forms import WrittenBox, digest

CHOICES: Final = {"gender": ("F", "M", "X")}
WAIT: Final = 0.4  # seconds between two looks when there is nothing


class Character(StrEnum):
    """What a worker may be up to."""

    HONEST = "honest"
    CURIOUS = "curious"  # opens the tasks of others
    FORGER = "forger"  # edits ids and tokens


@dataclass(frozen=True)
class Habits:
    """How a worker works; shares are probabilities in [0, 1]."""

    wrong: float = 0.04
    returns: float = 0.02
    character: Character = Character.HONEST


@dataclass
class Diary:
    """What one worker saw and did.

    Attributes
    ----------
    seen : set of WrittenBox
        Everything whose pixels it was ever shown, answered or not.
    unreadable : int
        Pictures shown that are no crop of any form: must stay 0.
    answered, returned, trespasses, leaked : int
        ``leaked`` counts trespasses that showed anything: must stay 0.
    """

    account: str
    seen: set[WrittenBox] = field(default_factory=set)
    unreadable: int = 0
    answered: int = 0
    returned: int = 0
    trespasses: int = 0
    leaked: int = 0


class Reader:
    """Reads a crop as a person would, with a person's mistakes."""

    def __init__(
        self,
        known: Mapping[str, WrittenBox],
        habits: Habits,
        diary: Diary,
        rng: np.random.Generator,
    ) -> None:
        self.habits = habits
        self.diary = diary
        self.rng = rng
        self._known = known

    def read(self, picture: bytes) -> WrittenBox | None:
        """What is written there; None if it is no crop of our forms."""
        with Image.open(io.BytesIO(picture)) as opened:
            written = self._known.get(digest(opened))
        if written is None:
            self.diary.unreadable += 1
        else:
            self.diary.seen.add(written)
        return written

    def answer(self, written: WrittenBox) -> str:
        """The answer to give: what is written, or what a tired person makes of it."""
        if self.rng.random() >= self.habits.wrong:
            return written.text
        if written.field in CHOICES:
            others = [c for c in CHOICES[written.field] if c != written.text]
            return others[int(self.rng.integers(0, len(others)))]
        letters = list(written.text)
        place = int(self.rng.integers(0, len(letters)))
        letters[place] = chr(ord("a") + int(self.rng.integers(0, 26)))
        return "".join(letters)

    def gives_back(self) -> bool:
        """Whether it hands this task back."""
        return bool(self.rng.random() < self.habits.returns)


class _PageParts(HTMLParser):
    """The parts of a page that a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.page = ""
        self.token = ""
        self.crop = ""
        self.hidden: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "data-page" in found:
            self.page = found["data-page"]
        self.token = found.get("data-token", self.token)
        if tag == "img" and found.get("src", "").startswith("/crop/"):
            self.crop = found["src"]
        if tag == "input" and found.get("type") == "hidden":
            self.hidden.setdefault(found["name"], found.get("value", ""))


class PageWorker(threading.Thread):
    """A worker at the task page: a browser without JavaScript, over real HTTP.

    Parameters
    ----------
    url : str
        Where the task page is.
    invite : str
        The invite link, opened once.
    reader : Reader
    stop : threading.Event
    board : list of str
        Task tokens that workers left open on a shared screen; the curious read it.
    """

    def __init__(
        self,
        url: str,
        invite: str,
        reader: Reader,
        stop: threading.Event,
        board: list[str],
    ) -> None:
        super().__init__(name=reader.diary.account, daemon=True)
        self._url = url
        self._invite = invite
        self._reader = reader
        self._stop_working = stop
        self._board = board
        self._client = httpx2.Client(
            base_url=url,
            timeout=30.0,
            follow_redirects=True,
            headers={"Origin": url, "Sec-Fetch-Site": "same-origin"},
        )
        self.fault: Exception | None = None

    @property
    def diary(self) -> Diary:
        """What it saw and did."""
        return self._reader.diary

    def run(self) -> None:
        """Work until stopped; reconnect after a lost connection."""
        with self._client:
            while not self._stop_working.is_set():
                try:
                    self._work()
                except httpx2.HTTPError:
                    self._stop_working.wait(WAIT)
                except Exception as error:  # noqa: BLE001 - told by the demo at its end
                    self.fault = error
                    return

    def _work(self) -> None:
        page = _PageParts(self._client.get("/").text)
        if page.page == "arrive":
            page = self._post("/arrive", page, invite=self._invite)
        while not self._stop_working.is_set():
            if page.page != "task":
                page = self._post("/start", page)
            if page.page == "task":
                page = self._task(page)
            elif page.page in ("nothing", "ready"):
                self._stop_working.wait(WAIT)
            else:  # not let in (any more): arrive again
                self._stop_working.wait(WAIT)
                return

    def _task(self, page: _PageParts) -> _PageParts:
        diary = self._reader.diary
        self._board.append(page.token)
        written = self._reader.read(self._look(page.crop))
        self._trespass(page)
        if written is None or self._reader.gives_back():
            diary.returned += 1
            return self._post(f"/task/{page.token}/return", page)
        diary.answered += 1
        return self._post(
            f"/task/{page.token}/answer",
            page,
            answer=self._reader.answer(written),
            outcome="answered",
        )

    def _look(self, crop: str) -> bytes:
        """Fetch the picture; no reply but one is taken for a lost connection."""
        reply = self._client.get(crop)
        if not _is_picture(reply):  # the program is busy: the task will be there again
            raise httpx2.TransportError("no picture")
        return reply.content

    def _trespass(self, page: _PageParts) -> None:
        """Try what must not work: another's task, an edited id."""
        diary, rng = self._reader.diary, self._reader.rng
        if rng.random() > 0.2:
            return
        match self._reader.habits.character:
            case Character.CURIOUS if len(self._board) > 1:
                token = self._board[int(rng.integers(0, len(self._board) - 1))]
                if token == page.token:
                    return
            case Character.FORGER:
                digit = format((int(page.token[-1], 16) + 1) % 16, "x")
                token = page.token[:-1] + digit
            case _:
                return
        diary.trespasses += 1
        answer = self._client.get(f"/task/{token}")
        crop = self._client.get(page.crop.replace(page.token, token) + "x")
        shown = _PageParts(answer.text)
        if shown.crop or _is_picture(crop):
            diary.leaked += 1

    def _post(self, path: str, page: _PageParts, **form: str) -> _PageParts:
        return _PageParts(self._client.post(path, data={**page.hidden, **form}).text)


def _is_picture(reply: httpx2.Response) -> bool:
    return bool(reply.headers.get("content-type", "").startswith("image/"))


class FolderWorker(threading.Thread):
    """An agency's worker: finds batches in a directory, leaves an answers file."""

    def __init__(self, home: Path, reader: Reader, stop: threading.Event) -> None:
        super().__init__(name=reader.diary.account, daemon=True)
        self._home = home
        self._reader = reader
        self._stop_working = stop
        self._done: set[str] = set()
        self.fault: Exception | None = None

    @property
    def diary(self) -> Diary:
        """What it saw and did."""
        return self._reader.diary

    def run(self) -> None:
        """Look for batches until stopped."""
        while not self._stop_working.wait(WAIT):
            try:
                for tasks in sorted(self._home.glob("batch-*/tasks.csv")):
                    if tasks.parent.name not in self._done:
                        self._batch(tasks)
                        self._done.add(tasks.parent.name)
            except Exception as error:  # noqa: BLE001 - told by the demo at its end
                self.fault = error
                return

    def _batch(self, tasks: Path) -> None:
        diary = self._reader.diary
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow(("task", "answer", "state"))
        with tasks.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file):
                picture = (tasks.parent / row["file"]).read_bytes()
                written = self._reader.read(picture)
                if written is None or self._reader.gives_back():
                    diary.returned += 1
                    writer.writerow((row["task"], "", "returned"))
                else:
                    diary.answered += 1
                    writer.writerow((row["task"], self._reader.answer(written), ""))
        draft = tasks.parent / "draft.part"
        draft.write_text(out.getvalue(), encoding="utf-8")
        draft.rename(tasks.parent / "answers.csv")
