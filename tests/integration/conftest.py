"""Commands as an operator types them, for the tests of this folder."""

import os
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.store import open_store
from dispatcher.surfaces.cli.start import main
from dispatcher.surfaces.console import ConsoleSettings
from tests.integration.console_house import HOST, SAME, console_that_acts
from tests.integration.ledger_cases import Case


@pytest.fixture
def new_case(tmp_path_factory, sqlite_template):
    """Makes cases on stores of their own: hypothesis runs many examples in one test."""
    place = tmp_path_factory.mktemp("laws")
    opened = []

    def make():
        path = place / f"{len(opened)}.db"
        path.write_bytes(sqlite_template.read_bytes())
        path.chmod(0o600)
        opened.append(open_store(path))
        return Case(opened[-1])

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a directory of its own; (code, out, err).

    Values are written with the words "Canary" and "Secret": none is ever printed.
    """
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DISPATCHER_ALLOW_ROOT", "1")
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Canary" not in out + err
        assert "Secret" not in out + err
        return SimpleNamespace(code=code, out=out, err=err)

    return command


@pytest.fixture
def set_up(run, tmp_path, sqlite_template):
    """Put a policy in force, and load forms and workers, in the directory of ``run``."""

    def made(policy, forms, workers):
        (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())
        (tmp_path / "policy.toml").write_text(policy)
        (tmp_path / "forms.csv").write_text(forms)
        for words in (
            ["policy", "apply"],
            ["workers", "add", *workers],
            ["records", "load", "forms.csv"],
        ):
            done = run(*words)
            assert done.code == 0, done.err

    return made


@pytest.fixture
def app(case, clock, tmp_path):
    """The console over the store of a test's ``case``, with a directory to act in."""
    clock.now = case.now
    settings = ConsoleSettings(stale=0)
    with console_that_acts(case.store, clock, tmp_path, settings=settings) as app:
        yield app


@pytest.fixture
def client(app, case, clock):
    """A browser on it in which an operator is signed in by link."""
    client = TestClient(app, base_url=HOST, client=("127.0.0.1", 5), headers=SAME)
    client.post("/login", data={"code": access.make_link(case.store, clock())})
    return client
