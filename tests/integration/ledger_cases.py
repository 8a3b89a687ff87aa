"""Small stores for tests of the gate: a policy, accounts, records with their entries."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import ClauseElement, Executable
from sqlalchemy.ext.compiler import compiles

from dispatcher.core import keys
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Asks, Booked, Pull, Push, book
from dispatcher.ledger.identity_changes import add_accounts
from dispatcher.ledger.links import Beside, RuleFunction
from dispatcher.ledger.loads import register_keys
from dispatcher.ledger.versions import AppliedPolicy, apply_policy
from dispatcher.stages.intake import record_rows
from dispatcher.stages.intake.record_builder import CandidateRow, PreparedRecord
from dispatcher.store import Store, Tx, records
from dispatcher.store.lease import SHARD, Fence
from dispatcher.store.ledger import GateEntry, entries
from dispatcher.store.statements import DriverStatement
from dispatcher.store.transaction import NOTHING
from tests import sql

START = 1_800_000_000_000_000


def policy(
    rules: str,
    fields: str = "",
    *,
    budget: str = "",
    groups: str = "",
    name: str = "case",
    entity: str = "",
) -> bytes:
    """A policy over the fields a, b, c, d of records with a subject and a time."""
    fields = fields or "\n".join(f'{f} = {{ ask = "transcribe" }}' for f in "abcd")
    return f"""
version = 1
name = "{name}"

[budget]
{budget}

[entity.thing]
key = "id"
subject = "person"
time = "when"
{entity}

[entity.thing.fields]
{fields}

{rules}

{groups}
""".encode()


GROUPS = (
    '[workers.groups.g]\nmembers = ["x/g*"]\n[workers.groups.h]\nmembers = ["x/*h"]'
)
HISTORY = """
[property.history]
scope = "subject"
window = "1h"
of = ["a", "b", "c"]
disclosure = { kind = "quadratic", per = "entry", weight = 0.25 }
tau = 0.6
"""
PAIR = """
[property.a-b]
of = ["a", "b"]
"""


def set_up_one_record(directory, call):
    """Make a store of one record, a policy in force and one worker, by commands.

    ``call`` takes a command's words, and returns its status, output and errors.
    """
    (directory / "records.csv").write_text(
        "id,person,when,a,b,c,d\nr1,pat,2026-01-01,Canary,x,y,z\n"
    )
    assert call("init")[0] == 0
    (directory / "policy.toml").write_bytes(policy(PAIR))
    for words in (
        ("policy", "apply", "--yes"),
        ("workers", "add", "folder/ann"),
        ("records", "load", "records.csv"),
    ):
        code, _, err = call(*words)
        assert code == 0, err


@dataclass
class Case:
    """A store under test; every write is a transaction of its own."""

    store: Store
    now: int = START
    entries: dict[str, int] = field(default_factory=dict)
    accounts: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)

    def tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def apply(
        self,
        source: bytes,
        functions: dict[str, RuleFunction] | None = None,
        **links: list[tuple[str, str]],
    ) -> AppliedPolicy:
        """Apply a policy; ``links`` has pairs of people by relation."""
        secret = self.store.key("pseudonym-key")
        told = {
            name: {tuple(sorted(keys.pseudonyms(secret, "s", pair))) for pair in pairs}
            for name, pairs in links.items()
        }
        with self.store.write() as tx:
            return apply_policy(
                tx, source, at=self.tick(), links=Beside(told, functions or {})
            )

    def add(self, *names: str) -> None:
        with self.store.write() as tx:
            pairs = [tuple(name.split("/", 1)) for name in names]
            added = add_accounts(tx, pairs, at=self.tick())
        self.accounts |= {account.text: account.id for account in added.accounts}

    def load(
        self,
        *loaded: tuple,
        shown: bytes = b"shown",
        media: str = "text/plain",
        cells: Sequence[str] = (),
        run: str = "default",
    ) -> None:
        """Load records: (key, subject, time, one letter for each field it has).

        A record may go on with its place and the visits there. All have the same cells,
        and show the same in each field.
        """
        with self.store.write() as tx:
            force = current_policy(tx)
            assert force is not None
            at = self.tick()
            of = record_rows.Bound(records.run(tx, run, 0).id, 1, at)
            chunk = [
                PreparedRecord(
                    self._row(*facts, cells=cells),
                    json.dumps(list(cells)).encode(),
                    [(force.field_ids[f], media, shown) for f in facts[3]],
                    len(shown) * len(facts[3]),
                )
                for facts in loaded
            ]
            people = {
                row.person: row.subject.encode()
                for row in (prepared.row for prepared in chunk)
                if row.person is not None
            }
            known = records.subjects(tx, people)
            first = record_rows.add(tx, of, chunk, known)
            register_keys(tx, record_rows.ledger_keys(chunk), at=at)
            made = sql.rows(
                tx, "SELECT id FROM entry WHERE record_id >= ? ORDER BY id", [first]
            )
        names = [f"{key}.{letter}" for key, _, _, fs, *_ in loaded for letter in fs]
        self.entries |= zip(names, (row[0] for row in made), strict=True)
        self.records |= {facts[0]: n for n, facts in enumerate(loaded, first)}

    def _row(self, key, person, when, letters, place=None, visits=None, *, cells):
        secret = self.store.key("pseudonym-key")
        return CandidateRow(
            line=0,
            key=key,
            pseudonym=keys.pseudonym(secret, "r", key),
            cells=cells,
            subject=person or "",
            person=None if person is None else keys.pseudonym(secret, "s", person),
            time=when,
            place=None if place is None else keys.pseudonym(secret, "v", place),
            visits=visits,
        )

    def book(
        self,
        *asks: tuple[str, str],
        skip: bool = False,
        delivery: Push | Pull | None = None,
        epoch: int | None = None,
    ) -> Booked:
        """Book (account, entries) pairs; entries are separated by spaces."""
        with self.store.write() as tx:
            return book(
                tx,
                [
                    Asks(self.accounts[who], [self.entries[e] for e in what.split()])
                    for who, what in asks
                ],
                delivery=delivery or Push(),
                at=self.tick(),
                cause="test",
                fence=None if epoch is None else Fence(SHARD, epoch),
                skip_refused=skip,
            )

    def entry(self, tx: Tx, name: str) -> GateEntry:
        """What the gate reads of an entry named ``key.field``."""
        return next(entries(tx, [self.entries[name]]))

    def count(self, table: str, where: str = "1 = 1") -> int:
        with self.store.read() as tx:
            return sql.value(tx, f"SELECT COUNT(*) FROM {table} WHERE {where}")


class Far(list[object]):
    """What was granted of people who are not linked with the asked one."""

    def __iter__(self):
        raise AssertionError("looked at")


class Plans:
    """A transaction that tells by which index each statement finds its rows."""

    def __init__(self, tx):
        self._tx = tx
        self.told = []
        if tx.dialect == "postgresql":  # whose tables are small here, and soon read
            sql.execute(tx, "SET LOCAL enable_seqscan = off")

    def execute(self, statement, parameters=NOTHING):
        self._explain(statement, parameters)
        return self._tx.execute(statement, parameters)

    def scalar(self, statement, parameters=NOTHING):
        self._explain(statement, parameters)
        return self._tx.scalar(statement, parameters)

    def scalars(self, statement, parameters=NOTHING):
        self._explain(statement, parameters)
        return self._tx.scalars(statement, parameters)

    def driver_rows(self, statement, parameters=NOTHING):
        self._explain(statement, parameters)
        return self._tx.driver_rows(statement, parameters)

    def _explain(self, statement, parameters):
        if isinstance(statement, DriverStatement):
            statement = statement._construct
        found = self._tx.execute(Explained(statement), parameters)
        self.told += [row[-1] for row in found]


class Explained(Executable, ClauseElement):
    """A statement that tells how it would be run, and is not."""

    inherit_cache = False

    def __init__(self, statement):
        self.statement = statement


@compiles(Explained)
def explained(element, compiler, **options):
    words = "EXPLAIN QUERY PLAN" if compiler.dialect.name == "sqlite" else "EXPLAIN"
    return f"{words} {compiler.process(element.statement, **options)}"
