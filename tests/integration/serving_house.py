"""A small store to serve from: a policy, records with values, accounts, a plan."""

import io
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from PIL import Image

from connectors.http.client import Http
from connectors.inhouse import Inhouse, Ticket, sign
from connectors.turkle import Turkle
from connectors.turkle.api import Api
from connectors.turkle.isolation import try_pages
from dispatcher.core import keys
from dispatcher.ledger import chains
from dispatcher.model import GoldQuestion
from dispatcher.stages.serving import Present, Serving, ServingTerms
from dispatcher.store import Store, accounts, gold_questions, records
from dispatcher.store import ledger as ledger_rows
from dispatcher.store import policies as policy_rows
from tests import builders, sql

INVITE_KEY = b"i" * 32

POLICY = """\
version = 1
name = "small"

[budget]
t = 3

[entity.rx]
key = "rx_id"
subject = "patient"

[entity.rx.fields]
name    = { ask = "transcribe", help = "As it is written", example = { synthetic = true, shown = "Dr Jo Doe", answer = "Jo Doe" } }
disease = { ask = "choose", choices = ["flu", "gout", "mumps", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11"], question = "Which?" }
age     = { ask = "number", min = 0, max = 130 }
born    = { ask = "date" }
ok      = { ask = "yes_no", question = "Signed?" }
parts   = { ask = "spans", question = "Copy every drug" }
lines   = { ask = "table", columns = ["drug", "dose"] }
scan    = { ask = "transcribe", image = "page" }

[property.who-what]
of = ["name", "disease"]
"""

FIELDS = ("name", "disease", "age", "born", "ok", "parts", "lines", "scan")


def png(seed: int = 0, size: tuple[int, int] = (240, 40)) -> bytes:
    """A small image that differs by seed."""
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0]), np.uint8)
    target = io.BytesIO()
    Image.fromarray(noise).save(target, "PNG")
    return target.getvalue()


@dataclass
class House:
    """A store that is filled step by step; ids count from 1 in the order of adding."""

    store: Store
    clock: object
    policy: str = POLICY
    fields: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self.store.write() as tx:
            policy_rows.lock_policy_exclusive(tx)
            names = [n for n in FIELDS if f"\n{n} " in self.policy]
            self.fields = ledger_rows.number_fields(tx, names)
            policy_rows.put_policy(tx, 1, "small", self.policy.encode(), "0" * 64, 1)
            records.run(tx, "default", 1)

    def record(
        self,
        record_id: int,
        subject: int | None = None,
        run_id: int = 1,
        **values: object,
    ):
        """Add a record; gives its entries' ids by field."""
        entries, rows = {}, []
        with self.store.write() as tx:
            of = (record_id, run_id, 1, f"r{record_id:024}", b"k", b"[]", subject)
            records.add_records(tx, [of], ["subject_id"])
            for name, value in values.items():
                entry_id = tx.reserve("entry")
                entries[name] = entry_id
                image = isinstance(value, bytes)
                shown = value if image else str(value).encode()
                media = "image/png" if image else "text/plain"
                field = self.fields[name]
                rows.append((entry_id, record_id, field, media, shown, subject))
            records.add_entries(tx, rows, ["subject_id"])
        return entries

    def account(self, name: str, connector: str = "inhouse") -> Present:
        """Add an active account that is an adversary of its own."""
        with self.store.write() as tx:
            chain = chains.begin(tx)
            account_id = tx.reserve("account")
            accounts.add_account(
                tx,
                accounts.AccountRow(
                    account_id, connector, name, chain.id, "[]", "active"
                ),
            )
        return Present(account_id, 1)

    def made_up(
        self, purpose: str, *pairs: tuple[str, str], field: str = "name"
    ) -> list[int]:
        """Add made-up questions with their right answers; gives their ids."""
        with self.store.write() as tx:
            first = tx.reserve("gold_question", len(pairs))
            ids = range(first, first + len(pairs))
            rows = [
                GoldQuestion(
                    id=number, field_id=self.fields[field], purpose=purpose,
                    shown=shown.encode(), media="text/plain", answer=right.encode(),
                )
                for number, (shown, right) in zip(ids, pairs, strict=True)
            ]  # fmt: skip
            gold_questions.add(tx, rows)
        return list(ids)

    def test_of(self, share: float, *pairs: tuple[str, str], field: str = "name"):
        """Let a field ask for a test of these questions."""
        self.made_up(gold_questions.TEST, *pairs, field=field)
        with self.store.write() as tx:
            gold_questions.require(tx, self.fields[field], share)

    def plan(
        self,
        *pairs: tuple[Present, list[int]],
        applied_at: int | None = None,
        beside: bool = False,
        version: int = 1,
    ):
        """Apply a plan, in place of others or beside them."""
        if not beside:
            builders.end_plans(self.store)
        builders.add_plan(
            self.store,
            [(who.account_id, ids) for who, ids in pairs],
            version=version,
            at=self.clock() if applied_at is None else applied_at,
        )

    def serving(self, **terms: float) -> Serving:
        return Serving(
            self.store,
            clock=self.clock,
            rng=np.random.default_rng(7),
            terms=ServingTerms(**{"apart": 0, **terms}),
        )

    def invite(self, name: str, number: int = 1, hours: float = 24) -> str:
        now = datetime.fromtimestamp(self.clock() / 1_000_000, UTC)
        ticket = Ticket(name, str(number), now + timedelta(hours=hours))
        return sign(INVITE_KEY, ticket)

    def market(self) -> Inhouse:
        return Inhouse(INVITE_KEY)

    def turkle(self) -> Turkle:
        """The market of other workers; no server is called."""
        url, http = "https://turkle.example.org", Http()
        return Turkle(Api(url, "word", http), b"t" * 32, partial(try_pages, url, http))

    def soon(self) -> datetime:
        return datetime.fromtimestamp(self.clock() / 1_000_000, UTC) + timedelta(days=1)

    def token(self, task_id: int) -> str:
        return keys.task_token(self.store.key("task-key"), task_id)

    def ask(self, statement: str, *parameters: object):
        """First value of a query."""
        with self.store.read() as tx:
            return sql.value(tx, statement, list(parameters))

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.ask(f"SELECT count(*) FROM {table} WHERE {where}"))

    def exposures(self) -> int:
        return self.count("ledger_line", "kind = 'exposure'")
