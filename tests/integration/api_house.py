"""A store with every kind of thing in it, and the API over it, called in-process."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from dispatcher.core import keys
from dispatcher.core.private_files import ScratchFolder
from dispatcher.core.rate_limit import Rate
from dispatcher.model import TaskAnswer
from dispatcher.operations import status
from dispatcher.operations.workspace import Workspace
from dispatcher.store import answers, open_store
from dispatcher.store import records as loads
from dispatcher.surfaces.api.app import ApiSettings, api_app
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests
from tests import builders
from tests.integration.ledger_cases import Case, policy

BASE = "/api/v1"
LOCAL = "http://127.0.0.1:8420"
FAST = Rate(per_minute=10_000, burst=10_000)
CANARIES = ("Ada-Canary", "gout-canary", "key-canary", "person-canary")
RULES = """
[property.a-b]
of = ["a", "b"]

[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""
POLICY = policy(RULES)


@dataclass(frozen=True)
class Caller:
    """Whom a token of a test is of."""

    name: str
    operations: frozenset[str] | None = None

    def may(self, operation: str) -> bool:
        return self.operations is None or operation in self.operations


@dataclass
class Speaker:
    """A client that sends one token along; all share one loop."""

    client: TestClient
    token: str | None

    def request(self, method, url, *, headers=(), **asked):
        own = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        return self.client.request(method, url, headers=own | dict(headers), **asked)

    def get(self, url, **asked):
        return self.request("GET", url, **asked)

    def post(self, url, **asked):
        return self.request("POST", url, **asked)

    def put(self, url, **asked):
        return self.request("PUT", url, **asked)

    def delete(self, url, **asked):
        return self.request("DELETE", url, **asked)


@dataclass
class House:
    """A workspace, its store, and clients that call its API."""

    case: Case
    workspace: Workspace
    shared: Any = None
    speaking: Any = None
    tokens: dict[str, Caller] = field(
        default_factory=lambda: {
            "all": Caller("token:all"),
            "nothing": Caller("token:nothing", frozenset()),
        }
    )

    @property
    def store(self):
        return self.case.store

    def open(self, refusals=FAST, requests=FAST) -> None:
        app = api_app(
            self.workspace,
            self.store,
            lambda _, secret, __: self.tokens.get(secret),
            shared=self.shared,
            settings=ApiSettings(refusals=refusals, requests=requests),
        )
        self.speaking = TestClient(app, base_url=LOCAL, raise_server_exceptions=False)

    def client(self, token: str | None = "all") -> Speaker:
        return Speaker(self.speaking, token)

    def record(self, key: str) -> str:
        """Pseudonym of a record."""
        return keys.pseudonym(self.store.key("pseudonym-key"), "r", key)


def build(store, directory) -> House:
    """Fill a store: a policy, workers, records with canaries, exposures, answers."""
    case = Case(store)
    case.apply(POLICY)
    case.add("inhouse/ann", "inhouse/bob", "folder/cat")
    case.load(
        *((f"key-canary-{n}", f"person-canary-{n}", n, "abcd") for n in range(3)),
        shown=b"Ada-Canary gout-canary",
        cells=["Ada-Canary"],
    )
    case.book(
        ("inhouse/ann", "key-canary-0.a key-canary-0.c key-canary-1.d"),
        ("folder/cat", "key-canary-1.a"),
    )
    entry = case.entries["key-canary-0.a"]
    with store.write() as tx:
        loads.begin_load(tx, 1, "made.csv", '["shown"]', case.now)
        mine = TaskAnswer(task_id=1, entry_id=entry, account_id=1, raw=b"Ada-Canary",
                      valid=1, at=1, counted=1)  # fmt: skip
        answers.put_answers(tx, [mine])
    builders.save_results(store, [entry], value=b"Ada-Canary")
    (directory / "policy.toml").write_bytes(POLICY)
    house = House(case, Workspace(directory, clock=case.tick, actor="daemon"))
    house.shared = Shared(
        Requests(store, case.tick),
        Stream(store, period=0.01),
        lambda: status.status(store, case.tick()),
        ScratchFolder(directory / "api-files"),
    )
    house.open()
    return house


@contextmanager
def opened(request, directory):
    """A house on the database that a fixture's parameter names."""
    url = str(directory / "dispatcher.db")
    cluster = None
    if request.param == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        (directory / "dispatcher.db").write_bytes(template.read_bytes())
        (directory / "dispatcher.db").chmod(0o600)
    else:
        cluster = request.getfixturevalue("postgres_cluster")
        template = request.getfixturevalue("postgres_template")
        cluster.administer("CREATE DATABASE api_house TEMPLATE {of}", of=template)
        url = cluster.url("api_house")
    with open_store(url) as store:
        made = build(store, directory)
        with made.speaking:
            yield made
        made.shared.requests.close()
        made.shared.scratch.close()
    if cluster is not None:
        cluster.administer("DROP DATABASE api_house WITH (FORCE)")
