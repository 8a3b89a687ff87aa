"""A store with booked push tasks and a market in memory, for sending and collecting."""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass, field

import pytest
import structlog

from connectors.testing.hostile import Memory
from dispatcher.core import keys
from dispatcher.core.log import configure
from dispatcher.ledger.book import Push
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.sending import SendingTerms
from dispatcher.store import lease
from tests import sql
from tests.integration import stages
from tests.integration.ledger_cases import Case, policy


@pytest.fixture
def logs():
    """What the program would write into its log."""
    stream = io.StringIO()
    handlers = logging.getLogger().handlers[:]
    configure("json", stream)
    yield stream
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.raiseExceptions = True


FIELDS = """
a = { ask = "transcribe", answers = 2 }
b = { ask = "number", min = 0, max = 10 }
c = { ask = "choose", choices = ["red", "blue"] }
d = { ask = "transcribe" }
"""


@dataclass
class Exchange:
    """A case with connectors, a lease and the three stages."""

    case: Case
    clock: object
    market: object = field(default_factory=Memory)
    name: str = "memory"
    epoch: int = 0

    def __post_init__(self) -> None:
        self.case.apply(policy("", FIELDS, budget="t = 3"))
        with self.case.store.write() as tx:
            found = lease.take(tx, lease.SHARD, "me", self.clock(), self.clock() + 1)
        assert found is not None
        self.epoch = found
        self.connectors = {self.name: self.market}

    @property
    def store(self):
        return self.case.store

    def workers(self, *names: str) -> None:
        self.case.add(*(f"{self.name}/{name}" for name in names))

    def book(self, *asks: tuple[str, str], per_message: int | None = None):
        return self.case.book(
            *((f"{self.name}/{who}", what) for who, what in asks),
            delivery=Push(tasks_per_message=per_message, due=0),
        )

    def sending(self, **terms) -> stages.Stages:
        return stages.sending(
            self.store, self.connectors, self.clock, SendingTerms(**terms)
        )

    def collecting(self) -> stages.Stages:
        return stages.collecting(self.store, self.connectors, self.clock)

    def assembly(self) -> Assembly:
        return Assembly(self.store, self.clock)

    def token(self, task_id: int) -> str:
        return keys.task_token(self.store.key("task-key"), task_id)

    def key(self, message_id: int) -> str:
        return keys.offer_key(self.store.key("task-key"), message_id)

    def states(self, table: str = "outbox") -> list[str]:
        with self.store.read() as tx:
            return [
                r[0] for r in sql.rows(tx, f"SELECT state FROM {table} ORDER BY id")
            ]

    def ask(self, statement: str, *parameters):
        with self.store.read() as tx:
            return sql.value(tx, statement, list(parameters))

    def rows(self, statement: str, *parameters):
        with self.store.read() as tx:
            return sql.rows(tx, statement, list(parameters))
