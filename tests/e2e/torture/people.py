"""Simulated workers in a process of their own, so that they can be killed too.

They know what they were served and nothing else, and write it into their diaries. What
one answers to a task depends on the task alone: whoever sends it twice says the same.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx2
import numpy as np
from PIL import Image

from dispatcher.surfaces.demo.forms import WrittenBox, digest
from tests.e2e.torture.diary import Diary, now
from tests.e2e.torture.flags import PEOPLE, Flags

WAIT = 0.25
WRONG, BACK = 0.04, 0.02


class Reading:
    """Reads crops, and makes up its mind once a task."""

    def __init__(self, known: Mapping[str, WrittenBox]) -> None:
        self._known = known

    def read(self, picture: bytes) -> WrittenBox | None:
        with Image.open(io.BytesIO(picture)) as opened:
            return self._known.get(digest(opened))

    def answer(self, token: str, written: WrittenBox) -> str | None:
        """The answer, often right; None: hands the task back."""
        rng = np.random.default_rng(int(token, 16))
        if rng.random() < BACK:
            return None
        if rng.random() >= WRONG:
            return written.text
        if written.field == "gender":
            return "FMX"["FMX".index(written.text) - 1]
        place = int(rng.integers(0, len(written.text)))
        letter = chr(ord("a") + int(rng.integers(0, 26)))
        return written.text[:place] + letter + written.text[place + 1 :]


class Page(HTMLParser):
    """What a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.page = self.token = self.crop = self.form_token = ""
        self.saved = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.page = found.get("data-page", self.page)
        self.token = found.get("data-token", self.token)
        if tag == "img" and found.get("src", "").startswith("/crop/"):
            self.crop = found["src"]
        if found.get("name") == "form_token":
            self.form_token = found.get("value", "")
        if tag == "p" and found.get("class") == "good":
            self.saved = True


class PageWorker(threading.Thread):
    """A worker at the task page; sends again what got no reply, to the next server."""

    def __init__(
        self, urls: list[str], invite: str, reading: Reading, diary: Diary, flags: Flags
    ) -> None:
        super().__init__(daemon=True)
        self._urls = urls
        self._invite, self._reading = invite, reading
        self._diary, self._flags = diary, flags
        self._unsure: tuple[str, str] | None = None
        self._rng = np.random.default_rng(crc32(diary.account.encode()))
        self._client = httpx2.Client(
            base_url=urls[0], timeout=15.0, follow_redirects=True
        )

    def run(self) -> None:
        turn = crc32(self._diary.account.encode())
        while True:
            url = self._urls[turn % len(self._urls)]
            self._client.base_url = httpx2.URL(url)
            self._client.headers |= {"Origin": url, "Sec-Fetch-Site": "same-origin"}
            try:
                self._work()
            except httpx2.HTTPError:
                self._diary.note("lost")
                turn += 1
            time.sleep(WAIT)

    def _work(self) -> None:
        reply = self._client.get("/")
        if reply.status_code == 503:  # this server is not in service
            message = "unable"
            raise httpx2.TransportError(message)
        page = Page(reply.text)
        if page.page == "arrive":
            page = self._post("/arrive", page, invite=self._invite)
        if self._unsure and page.form_token:
            page = self._say(page, *self._unsure)
        while page.page in ("ready", "nothing", "task"):
            if page.page != "task":
                if page.page == "nothing":
                    time.sleep(WAIT)
                with self._flags.up("post-start"):
                    page = self._post("/start", page)
            if page.page == "task":
                page = self._task(page)

    def _task(self, page: Page) -> Page:
        token = page.token
        self._diary.note("task", token=token)
        picture = self._look(page.crop, token)
        written = None if picture is None else self._reading.read(picture)
        if written is None:
            self._diary.note("unreadable", token=token)
            return Page("")
        answer = self._reading.answer(token, written)
        time.sleep(self._rng.uniform(0, 0.1))
        if answer is None:
            self._diary.note("back", token=token)
            return self._post(f"/task/{token}/return", page)
        self._unsure = (token, answer)
        return self._say(page, token, answer)

    def _look(self, crop: str, token: str) -> bytes | None:
        """Fetch the picture; the moment that counts is that of its first byte."""
        with self._flags.up("get-crop"), self._client.stream("GET", crop) as reply:
            at, body = now(), b""
            if reply.status_code == 503:  # the store cannot be reached right now
                message = "unable"
                raise httpx2.TransportError(message)
            if not reply.headers.get("content-type", "").startswith("image/"):
                return None
            try:
                for piece in reply.iter_bytes():
                    body += piece
            except httpx2.HTTPError:
                self._diary.note("part", token=token, first=at, size=len(body))
                raise
        written = self._reading.read(body)
        if written is not None:
            self._diary.note(
                "seen",
                token=token,
                first=at,
                record=written.rx_id,
                field=written.field,
            )
        return body

    def _say(self, page: Page, token: str, answer: str) -> Page:
        """Answer; confirmed is only what the page says is saved, or a task that follows."""
        form = {"answer": answer, "outcome": "answered"}
        if self._rng.random() < 0.5:
            form["then"] = "next"
        self._diary.note("saying", token=token, answer=answer)
        with self._flags.up("post-answer"):
            after = self._post(f"/task/{token}/answer", page, **form)
        another = after.page == "task" and after.token != token
        if after.saved or ("then" in form and another):
            self._diary.note("confirmed", token=token, answer=answer)
        self._unsure = None
        return after

    def _post(self, path: str, page: Page, **form: str) -> Page:
        data = {"form_token": page.form_token, **form}
        reply = self._client.post(path, data=data)
        if reply.status_code == 503:  # "nothing was lost: try again"
            message = "unable"
            raise httpx2.TransportError(message)
        return Page(reply.text)


class FolderWorker(threading.Thread):
    """A worker by folder: answers a batch in two files, and reads its reports."""

    def __init__(
        self, home: Path, reading: Reading, diary: Diary, flags: Flags
    ) -> None:
        super().__init__(daemon=True)
        self._home, self._reading = home, reading
        self._diary, self._flags = diary, flags
        facts = list(diary.facts())  # what it did before it was killed
        self._done = {fact["batch"] for fact in facts if fact["what"] == "dropped"}
        self._said = {
            fact["token"]: fact["answer"] for fact in facts if fact["what"] == "saying"
        }
        self._reports: set[Path] = set()

    def run(self) -> None:
        while True:
            for batch in sorted(self._home.glob("batch-*")):
                if batch.name not in self._done and (batch / "tasks.csv").exists():
                    with suppress(OSError):  # no room on the disk: later
                        self._answer(batch)
                for report in sorted(batch.glob("report-*.csv")):
                    if report not in self._reports:
                        self._read_report(report)
            time.sleep(WAIT)

    def _answer(self, batch: Path) -> None:
        with (batch / "tasks.csv").open(newline="", encoding="utf-8-sig") as file:
            tasks = list(csv.DictReader(file))
        half = (len(tasks) + 1) // 2
        for number, part in enumerate((tasks[:half], tasks[half:])):
            if part:
                self._drop(batch, f"answers-{number}.csv", part)
        self._diary.note("dropped", batch=batch.name)
        self._done.add(batch.name)

    def _drop(self, batch: Path, name: str, tasks: list[dict[str, str]]) -> None:
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow(("task", "answer", "state"))
        for task in tasks:
            token, at = task["task"], now()
            written = self._reading.read((batch / task["file"]).read_bytes())
            if written is None:
                self._diary.note("unreadable", token=token)
                continue
            self._diary.note(
                "seen",
                token=token,
                first=at,
                record=written.rx_id,
                field=written.field,
                batch=batch.name,
            )
            answer = self._reading.answer(token, written)
            if answer is None:
                self._diary.note("back", token=token)
                writer.writerow((token, "", "returned"))
            else:
                self._diary.note("saying", token=token, answer=answer)
                self._said[token] = answer
                writer.writerow((token, answer, ""))
        draft = batch / "draft.part"
        with self._flags.up("drop-file"):
            draft.write_text(out.getvalue(), encoding="utf-8")
            draft.rename(batch / name)

    def _read_report(self, report: Path) -> None:
        self._reports.add(report)
        with report.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file):
                if row["result"] == "read" and row["task"] in self._said:
                    answer = self._said[row["task"]]
                    self._diary.note("confirmed", token=row["task"], answer=answer)
                elif row["result"] == "error":
                    self._diary.note("refused-row", token=row["task"])


def main(setting: Path) -> None:
    """Work until killed, as the setting file says; a fault ends the process, loudly."""

    def failed(args: threading.ExceptHookArgs) -> None:
        traceback.print_exception(args.exc_value)
        sys.stderr.flush()
        (setting.parent / "people.failed").touch()

    threading.excepthook = failed
    said: dict[str, Any] = json.loads(setting.read_text(encoding="utf-8"))
    known = {name: WrittenBox(*written) for name, written in said["known"].items()}
    reading = Reading(known)
    flags = Flags(Path(said["flags"]), PEOPLE)
    diaries = Path(said["diaries"])
    crew: list[threading.Thread] = []
    for account, link in said["invites"].items():
        urls = said.get("servers") or [link.partition("/#")[0]]
        crew.append(PageWorker(urls, link, reading, Diary(diaries, account), flags))
    for account in said["folder"]:
        home = Path(said["spool"]) / account.partition("/")[2]
        crew.append(FolderWorker(home, reading, Diary(diaries, account), flags))
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
