"""What a walk knows: the store, the market, and an oracle of who saw what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dispatcher.core import keys
from dispatcher.ledger.comparison import compare
from tests import sql
from tests.conftest import FakeClock
from tests.e2e.torture.ground import Ground
from tests.e2e.torture.outside import Outside
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_ledger_laws import RULES, Oracle, entry_of

ACCOUNTS = tuple(f"memory/{i}" for i in range(6))
SHAPES = (("abcd", 0), ("abc", 5), ("bd", 20), ("abd", 0))
"""Fields and time (seconds) of the records of one person, over and over."""


@dataclass(frozen=True)
class Kept:
    """A backup, and what the oracle knew when it was made."""

    path: Path
    records: set[str]  # with their values
    known: set[str]
    accounts: dict[str, str]  # with their adversaries
    rules: set[str]
    seen: dict[str, set[Any]]
    showings: Counter[Any]


class World:
    """A store, its market, and the oracle, which knows nothing but all exposures."""

    def __init__(self, ground: Ground, rng: np.random.Generator) -> None:
        self.ground, self.rng = ground, rng
        self.store = ground.begin()
        self.clock = FakeClock()
        self.case = Case(self.store)
        self.market = Outside()
        self.rules = {"pair"}
        self.version = 0
        self.oracle = Oracle(self.rules, 2, {a: a for a in ACCOUNTS})
        self.done: Counter[str] = Counter()
        self.kept: list[Kept] = []
        self.people, self.hired = 0, len(ACCOUNTS)
        self.gone: set[str] = set()  # records whose values were lost
        self.closed: dict[str, set[str]] = {}  # by record and person: to which accounts
        self.forgotten: set[Any] = set()  # pairs that only lost stores had booked
        self.tasks: dict[int, str] = {}  # of the stores that were lost, too
        self.lost: set[int] = set()  # messages that only a lost store knew
        self.apply()
        self.case.add(*ACCOUNTS)
        self.load()

    def apply(self) -> None:
        self.version += 1
        rules = "\n".join(RULES[name] for name in sorted(self.rules))
        self.case.apply(policy(rules, budget="t = 2", name=f"v{self.version}"))

    def load(self) -> None:
        """Four records of one more person, to the oracle too."""
        first, self.people = self.people, self.people + len(SHAPES)
        told = []
        for place, (letters, seconds) in enumerate(SHAPES):
            key, person = f"r{first + place}", f"p{first}"
            told.append((key, person, seconds * 1_000_000, letters))
            self.oracle.time[key] = seconds * 1_000_000
            self.oracle.person[key] = person
        self.case.load(*told)

    # -- what the oracle says --------------------------------------------------------

    def allows(self, account: str, text: str) -> bool:
        """What the oracle says; a record whose values were lost is not shown."""
        entry = entry_of(text)
        if entry[0] in self.gone or self.is_closed(account, entry[0]):
            return False
        return self.oracle.allows(account, entry)

    def is_closed(self, account: str, record: str) -> bool:
        """Whether one of an adversary may have seen of the record or person, unknown."""
        closed = set().union(
            *(self.closed.get(u, ()) for u in (record, self.oracle.person[record]))
        )
        who = self.oracle.adversary_of
        return any(who[other] == who[account] for other in closed)

    def grant(self, account: str, text: str) -> bool:
        allowed = self.allows(account, text)
        if allowed:
            self.oracle.show(account, entry_of(text))
        return allowed

    # -- what the store says ---------------------------------------------------------

    def booked(self) -> set[Any]:
        """Pairs of account and entry that the ledger has."""
        accounts = {number: name for name, number in self.case.accounts.items()}
        entries = {number: entry_of(text) for text, number in self.case.entries.items()}
        with self.store.read() as tx:
            lines = sql.rows(
                tx,
                "SELECT account_id, entry_id FROM ledger_line WHERE kind = 'exposure'",
            )
        return {(accounts[account], entries[entry]) for account, entry in lines}

    def messages(self) -> set[int]:
        with self.store.read() as tx:
            return {number for (number,) in sql.rows(tx, "SELECT id FROM outbox")}

    def remember(self) -> None:
        """Note which task is of which entry; no id may ever be of another."""
        texts = {number: text for text, number in self.case.entries.items()}
        with self.store.read() as tx:
            for task, entry in sql.rows(tx, "SELECT id, entry_id FROM task"):
                known = self.tasks.setdefault(task, texts[entry])
                assert known == texts[entry], "a task's id was given twice"

    # -- what must hold --------------------------------------------------------------

    def check(self, *, whole: bool) -> None:
        """Compare ledger and oracle, and what is outside with what was booked."""
        with self.store.read() as tx:
            lines = sql.rows(
                tx,
                "SELECT account_id, entry_id, showing FROM ledger_line"
                " WHERE kind = 'exposure'",
            )
            if whole:
                assert compare(tx).differences == ()
        accounts = {number: name for name, number in self.case.accounts.items()}
        entries = {number: entry_of(text) for text, number in self.case.entries.items()}
        held: dict[str, set[Any]] = {}
        for account, entry, _ in lines:
            who = self.oracle.adversary_of[accounts[account]]
            held.setdefault(who, set()).add(entries[entry])
        said = {who: seen for who, seen in self.oracle.seen.items() if seen}
        assert held == said, "ledger and oracle differ"
        shown = Counter(entries[entry] for _, entry, showing in lines if showing)
        assert shown == +self.oracle.showings, "showings differ"
        assert max(self.market.accepted.values(), default=0) <= 1, "sent twice"
        if whole:
            self.check_outside()

    def check_outside(self) -> None:
        """Nothing is outside that was not booked for whom it went to."""
        secret, known = self.store.key("task-key"), self.booked() | self.forgotten
        self.remember()
        for offer in self.market.offers.values():
            for item in offer.items:
                task = keys.task_id_of(secret, item.token)
                assert task is not None
                pair = (f"memory/{offer.account}", entry_of(self.tasks[task]))
                assert pair in known, f"{pair} went out unbooked"
