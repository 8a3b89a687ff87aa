"""A plug-in whose market lies in every way that the hostile market knows.

Its outside is a file, so that every process of the program meets the same one; it plays
its workers too: whoever was offered a task writes down what it shows.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from connectors.base import (
    Answer,
    Arrival,
    Collected,
    Handle,
    Listed,
    Offer,
    Plugin,
    Posted,
    Rejected,
    Settings,
    Visit,
)
from connectors.testing.hostile import MEMORY, Fault, Hostile

MANIFEST = replace(MEMORY, name="liar")
LONG = 5.5  # seconds: longer than a turn waits
EVERY = {
    Fault.NOTHING: 6,
    Fault.TIMEOUT: 3,
    Fault.HANDLE: 5,
    Fault.BACK: 3,
    Fault.HANG: 12,
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS got
  (number INTEGER PRIMARY KEY, key TEXT, account TEXT, token TEXT, content TEXT,
   UNIQUE (key, token));
CREATE TABLE IF NOT EXISTS made (key TEXT);
CREATE TABLE IF NOT EXISTS withdrawn (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS did (fault TEXT);
"""


class Outside:
    """What lies at the market, truly."""

    manifest = MANIFEST

    def __init__(self, path: Path) -> None:
        self._path = path
        with self.file() as file:
            file.executescript(f"PRAGMA journal_mode = wal; {SCHEMA}")

    def file(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)

    def ask(self, statement: str, *values: object) -> list[tuple]:
        with closing(self.file()) as file:
            return file.execute(statement, values).fetchall()

    def publish(self, offer: Offer) -> Handle:
        MANIFEST.check(offer)
        if self.find(offer.key) is None:
            with closing(self.file()) as file:
                file.execute("BEGIN IMMEDIATE")
                file.execute("INSERT INTO made VALUES (?)", (offer.key,))
                file.executemany(
                    "INSERT INTO got (key, account, token, content)"
                    " VALUES (?, ?, ?, ?)",
                    [
                        (offer.key, offer.account, item.token, item.content.decode())
                        for item in offer.items
                        if item.content is not None
                    ],
                )
                file.execute("COMMIT")
        return Handle(offer.key, f"liar:{offer.key}")

    def find(self, key: str) -> Handle | None:
        found = self.ask("SELECT 1 FROM made WHERE key = ?", key)
        return Handle(key, f"liar:{key}") if found else None

    def withdraw(self, handle: Handle) -> None:
        self.ask("INSERT OR IGNORE INTO withdrawn VALUES (?)", handle.key)

    def arrive(self, visit: Visit, now: object) -> Arrival:
        raise Rejected("nobody arrives here")

    def collect(self, cursor: str) -> Collected:
        rows = self.ask(
            "SELECT number, token, account, content FROM got WHERE number > ?"
            " AND key NOT IN (SELECT key FROM withdrawn) ORDER BY number",
            int(cursor or 0),
        )
        answers = tuple(
            Answer(f"a{number}", token, account, value=content)
            for number, token, account, content in rows
        )
        return Collected(str(rows[-1][0]) if rows else cursor, answers)

    def listing(self, cursor: str) -> Listed:
        closed = {key for (key,) in self.ask("SELECT key FROM withdrawn")}
        return Listed(
            tuple(
                Posted(key, f"liar:{key}", open=key not in closed)
                for (key,) in self.ask("SELECT key FROM made ORDER BY rowid")
            )
        )


class Liar(Hostile):
    """Lies by turns and not by chance: never so often in a row that it is left alone."""

    def __init__(self, outside: Outside) -> None:
        rng = np.random.default_rng(11)
        super().__init__(outside, rng, tuple(Fault), hang=lambda: time.sleep(LONG))
        self._outside = outside
        self._asked: Counter[Fault] = Counter()

    def _does(self, fault: Fault, chance: float) -> bool:
        self._asked[fault] += 1
        does = self._asked[fault] % EVERY[fault] == 1
        if does:
            self._outside.ask("INSERT INTO did VALUES (?)", fault.value)
        return does


def open_liar(settings: Settings) -> Liar:
    return Liar(Outside(settings.directory / settings.values["file"]))


CONNECTOR = Plugin(MANIFEST, open_liar)
