"""A clinic's store with canaries in every place that values can be in."""

from dataclasses import dataclass, field
from pathlib import Path

from connectors.folder.market import Folder
from connectors.inhouse import Inhouse
from dispatcher.core import keys
from dispatcher.custody.erasure import ErasureContext, note_export
from dispatcher.ledger.book import Pull, Push
from dispatcher.stages.assembly import Assembly, reassemble
from dispatcher.stages.assembly import rewrite as rewrite_export
from dispatcher.stages.intake.loading import load
from dispatcher.stages.sending import SendingTerms
from dispatcher.store import Store, answers, lease, outbox, tasks
from tests import builders, sql
from tests.integration import stages
from tests.integration.ledger_cases import Case, policy

PEOPLE = ("anna", "bert")
FIELDS = 'a = { ask = "transcribe", answers = 2 }\nb = { ask = "transcribe" }'
RULES = '[property.whole]\nscope = "subject"\nof = ["a", "b"]'


def canary(person: str, place: str) -> str:
    return f"canary-{person}-{place}"


def whole(store) -> list[tuple]:
    """Records and results of the first run; the fields of a record come in any order."""
    with store.read() as tx:
        found = [tuple(row) for row in answers.records(tx, 1)]
        return found + sorted(
            map(tuple, answers.filled(tx, 1)), key=lambda row: row[:2]
        )


@dataclass
class Clinic:
    """Two people with a record each, shown by folder and page, answered, exported."""

    store: Store
    place: Path
    clock: object
    retain: str = ""
    case: Case = field(init=False)

    def __post_init__(self) -> None:
        self.case = Case(self.store)
        self.case.apply(policy(RULES, FIELDS, budget="t = 4", entity=self.retain))
        self.spool = self.place / "spool"
        self.folder = Folder(self.spool, settle=0)
        self.connectors = {"folder": self.folder, "inhouse": Inhouse(b"i" * 32)}
        self.case.add("folder/fay", "folder/fox", "inhouse/ian")
        with self.store.write() as tx:
            found = lease.take(tx, lease.SHARD, "me", self.clock(), self.clock() + 1)
        assert found is not None
        self.epoch = found

    def csv(self, people=PEOPLE) -> Path:
        path = self.place.parent / "source.csv"  # the operator's own, elsewhere
        rows = [
            f"{canary(p, 'key')},{canary(p, 'id')},2026-01-01,{canary(p, 'a')},"
            f"{canary(p, 'b')},{canary(p, 'more')}"
            for p in people
        ]
        path.write_text("id,person,when,a,b,more\n" + "\n".join(rows) + "\n")
        return path

    def load(self, people=PEOPLE):
        done = load(self.store, self.csv(people), clock=self.clock)
        for person in people:
            name = keys.pseudonym(self.secret, "r", canary(person, "key"))
            with self.store.read() as tx:
                for entry, number in sql.rows(
                    tx,
                    "SELECT e.id, f.name FROM entry e JOIN record r ON"
                    " r.id = e.record_id JOIN field f ON f.id = e.field_id"
                    " WHERE r.pseudonym = ?",
                    [name],
                ):
                    self.case.entries[f"{person}.{number}"] = entry
        return done

    @property
    def secret(self) -> bytes:
        return self.store.key("pseudonym-key")

    def name(self, person: str, kind: str = "s") -> str:
        place = "id" if kind == "s" else "key"
        return keys.pseudonym(self.secret, kind, canary(person, place))

    def token(self, task_id: int) -> str:
        return keys.task_token(self.store.key("task-key"), task_id)

    def work(self) -> None:
        """Show, draft, answer, collect, count, export: values get everywhere."""
        case = self.case
        for who, what in (
            ("folder/fay", "anna.a bert.b"),
            ("folder/fox", "anna.b bert.a"),
        ):
            case.book((who, what), delivery=Push())
        self.send()
        drafted = case.book(
            ("inhouse/ian", "anna.a"),
            delivery=Pull(leased_until=self.clock() + 10**9),
        ).tasks[0]
        with self.store.write() as tx:
            tasks.save_draft(tx, drafted, canary("anna", "draft").encode())
        self.answer("fay", {"anna.a": "said", "bert.b": "said"})
        self.answer("fox", {"anna.b": "open"}, taken=False)
        self.collect()
        self.put("fox", "answers-later.csv", {"anna.b": "late"})
        self.put("fay", "answers-odd.csv", {"anna.b": "odd"})  # another's task
        self.collect(settle=True)
        Assembly(self.store, self.clock).tick(self.epoch)
        self.export = self.place / "whole.csv"
        note_export(self.store, "default", self.export, self.clock())
        reassemble(self.store, "default", self.export)

    def send(self) -> None:
        stages.sending(self.store, self.connectors, self.clock, SendingTerms()).tick(
            self.epoch
        )

    def lease(self, seconds: int = 60) -> list[int]:
        """Let the messages that wait at the folder be on their way out: their ids."""
        until = self.clock() + seconds * 1_000_000
        with self.store.write() as tx:
            taken = outbox.claim(
                tx, "folder", self.epoch, builders.FAR, until, limit=100
            )
        return [message.id for message in taken]

    def collect(self, *, settle: bool = True) -> int:
        assert settle
        return stages.collecting(self.store, self.connectors, self.clock).tick(
            self.epoch
        )

    def put(self, worker: str, name: str, said: dict[str, str]) -> None:
        rows = []
        for entry, place in said.items():
            task = self.ask(
                "SELECT min(id) FROM task WHERE entry_id = ? AND connector = 'folder'",
                self.case.entries[entry],
            )
            person = entry.partition(".")[0]
            rows.append(f'{self.token(task)},"{canary(person, place)}\n."')
        text = "task,answer\n" + "\n".join(rows) + "\n"
        (self.spool / worker / name).write_text(text)

    def answer(self, worker: str, said: dict[str, str], *, taken: bool = True) -> None:
        self.put(worker, "answers.csv" if taken else "my-copy.csv", said)

    def means(self, *, actor="cli", **more) -> ErasureContext:
        def rewrite(run: str, path: Path) -> None:
            rewrite_export(self.store, run, path)

        return ErasureContext(
            self.store,
            self.connectors,
            self.clock,
            rewrite,
            self.place,
            actor=actor,
            **more,
        )

    def ask(self, statement: str, *parameters):
        with self.store.read() as tx:
            return sql.value(tx, statement, list(parameters))

    # -- where canaries are ------------------------------------------------------------

    def in_files(self, person: str) -> list[str]:
        needle = canary(person, "").encode()
        return sorted(
            str(path.relative_to(self.place))
            for path in self.place.rglob("*")
            if path.is_file() and needle in path.read_bytes()
        )

    def in_rows(self, person: str) -> list[str]:
        """Columns that hold a canary in clear, over all tables and columns."""
        from dispatcher.model import metadata

        needle = canary(person, "").encode()
        found = []
        with self.store.read() as tx:
            for table in metadata.sorted_tables:
                for row in sql.rows(tx, f'SELECT * FROM "{table.name}"'):
                    for column, value in zip(table.columns, row, strict=True):
                        data = value.encode() if isinstance(value, str) else value
                        if isinstance(data, (bytes, memoryview)) and needle in bytes(
                            data
                        ):
                            found.append(f"{table.name}.{column.name}")
        return sorted(set(found))
