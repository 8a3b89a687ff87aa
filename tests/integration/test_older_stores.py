"""Stores of an older schema: backed up before an upgrade, restored after it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatcher.core.errors import BackupBroken, DispatcherError, WrongKey
from dispatcher.core.keyring import make_keyring
from dispatcher.custody import backup
from dispatcher.custody.restore import Gap, Target, restore
from dispatcher.custody.sealed_file import Secret
from dispatcher.store import migrations, open_store, upgrades
from dispatcher.store.vault import KeyFile
from dispatcher.surfaces.cli import db
from dispatcher.surfaces.cli.context import CliContext
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy

SECRET = Secret(passphrase=b"six words that nobody guesses")
HERE = migrations.HEAD
NEXT = f"{int(HERE) + 1:04}"
STEP = '''"""Step {number}."""

from alembic import op

revision, down_revision, branch_labels, depends_on = "{number}", "{before}", None, None


def upgrade() -> None:
    {body}
'''
ADD = 'op.execute("CREATE TABLE extra (id bigint PRIMARY KEY, note {blob})")'
DROP = 'op.execute("DROP TABLE extra")'
FAIL = 'op.create_index("odd", "chain", ["policy_version"], unique=True)'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A passphrase is stretched for long: not in tests."""
    monkeypatch.setattr("dispatcher.custody.sealed_file.SCRYPT_N", 2)


@pytest.fixture
def become(tmp_path, monkeypatch):
    """Makes this the program of some migrations later."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations.script_directory(), scripts)
    monkeypatch.setattr(migrations, "script_directory", lambda: scripts)

    def newer(*bodies):
        for number, body in enumerate(bodies, start=int(NEXT)):
            step = STEP.format(
                number=f"{number:04}", before=f"{number - 1:04}", body=body
            )
            (scripts / "versions" / f"{number:04}_step.py").write_text(step)
            monkeypatch.setattr(migrations, "HEAD", f"{number:04}")

    return newer


@pytest.fixture(params=["sqlite_path", "postgres_own_url"])
def location(request):
    """A store with a ledger, whose tables may be changed; once on each database."""
    place = str(request.getfixturevalue(request.param))
    with open_store(place) as store:
        case = Case(store)
        case.apply(policy(PAIR))
        case.add("x/1", "x/2")
        case.load(("r1", "p1", 0, "abcd"), ("r2", "p2", 1, "abcd"))
        case.book(("x/1", "r1.a r2.c"), ("x/2", "r1.b"))
    return place


def ledger_of(place):
    with open_store(place) as store, store.read() as tx:
        return sql.rows(
            tx,
            "SELECT chain_id, seq, kind, at, hash FROM ledger_line ORDER BY chain_id, seq",
        )


def blob(location):
    return ADD.format(blob="bytea" if location.startswith("postgres") else "BLOB")


def kept(location, folder, clock):
    with open_store(location, older=True) as store:
        return backup.create(store, folder, SECRET, clock=clock)


def test_a_backup_of_an_older_store_is_proven_and_restored_up_to_date(
    location, become, tmp_path, clock
):
    before = ledger_of(location)
    become(ADD.format(blob="BLOB"))
    made = kept(location, tmp_path / "kept", clock)
    assert made.schema == HERE
    assert backup.verify(made.path, SECRET).lines == len(before)
    target = Target(
        str(tmp_path / "new.db"), KeyFile(tmp_path / "dispatcher.key"), None
    )
    restore(made.path, SECRET, target, Gap(shown_since=made.at), clock=clock)
    assert upgrades.state(tmp_path / "new.db").ready
    assert ledger_of(tmp_path / "new.db")[: len(before)] == before


def test_what_a_later_step_drops_is_in_a_backup_made_before_it(
    location, become, tmp_path, clock
):
    become(blob(location))
    upgrades.upgrade(location)
    with open_store(location) as store, store.write() as tx:
        sql.execute(tx, "INSERT INTO extra (id, note) VALUES (7, ?)", (b"\x00\xff",))
    become(ADD.format(blob="BLOB"), DROP)
    made = kept(location, tmp_path / "kept", clock)
    assert made.schema == NEXT
    lines = list(backup.opened(made.path, SECRET))
    place = lines.index({"table": "extra", "columns": ["id", "note"]})
    assert lines[place + 1] == [7, "AP8="]
    assert backup.verify(made.path, SECRET).lines == made.lines


def test_a_backup_of_a_schema_that_never_was_is_no_backup(
    location, become, tmp_path, clock, monkeypatch
):
    extent = backup.extent
    monkeypatch.setattr(
        backup, "extent", lambda tx: type(extent(tx))(extent(tx).lines, "0000")
    )
    made = kept(location, tmp_path / "kept", clock)
    with pytest.raises(BackupBroken) as caught:
        backup.verify(made.path, SECRET)
    assert "No version of this program" in caught.value.why


# -- the command -----------------------------------------------------------------------


@pytest.fixture
def upgrade(location, tmp_path):
    """Runs ``db upgrade --backup`` in a directory with a key file."""
    make_keyring(tmp_path / "dispatcher.key", os.urandom)

    def run():
        context = CliContext(directory=tmp_path, store=location, json=True)
        return CliRunner().invoke(db.app, ["upgrade", "--backup"], obj=context)

    return run


def test_an_upgrade_makes_a_proven_backup_first(location, become, tmp_path, upgrade):
    before = ledger_of(location)
    become(blob(location))
    done = upgrade()
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    (file,) = (tmp_path / "backups").iterdir()
    assert (told["applied"], told["backup"]) == ([NEXT], file.stem)
    assert backup.look(file).schema == HERE
    assert ledger_of(location) == before
    again = upgrade()
    assert json.loads(again.stdout)["backup"] is None
    assert len(list((tmp_path / "backups").iterdir())) == 1


@pytest.mark.parametrize("what", ["no key", "no room", "a step that fails"])
def test_an_upgrade_whose_backup_fails_changes_nothing(
    location, become, tmp_path, upgrade, what
):
    """The last one: no disk is at fault, the step does not fit the rows that are there."""
    become(FAIL if what == "a step that fails" else blob(location))
    if what == "no key":
        (tmp_path / "dispatcher.key").unlink()
    elif what == "no room":
        Path(tmp_path / "backups").write_text("in the way")
    done = upgrade()
    assert done.exit_code != 0
    assert "nothing was upgraded" in done.stderr
    assert isinstance(done.exception, DispatcherError)
    assert isinstance(done.exception, WrongKey) == (what == "no key")
    assert upgrades.state(location).found == HERE
    left = tmp_path / "backups"
    assert not left.is_dir() or not list(left.glob(".*"))
