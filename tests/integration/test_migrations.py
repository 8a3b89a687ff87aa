"""Migrations make exactly the model's tables, in one step or not at all."""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from sqlalchemy.dialects.postgresql import BYTEA

import dispatcher
from dispatcher.app.leadership import Standby, take_lease
from dispatcher.core.errors import Conflict, NeedsMigration, NoStore, StaleLease
from dispatcher.custody import backup
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.comparison import compare
from dispatcher.model import Pause, metadata
from dispatcher.store import lease, migrations, open_store, records, upgrades
from dispatcher.store.dumping import dumped
from dispatcher.store.engine import make_backend
from dispatcher.store.vault import KeyFile
from tests import edits, sql
from tests.conftest import FakeClock
from tests.integration.ledger_cases import PAIR, Case, policy


def engine_of(location: str) -> sa.Engine:
    return make_backend(location, create=True).engine(writes=True)


@pytest.fixture
def sqlite_path_of_none(tmp_path: Path) -> Path:
    """Path of an empty file."""
    path = tmp_path / "new.db"
    path.touch()
    return path


@pytest.fixture(params=["sqlite_path_of_none", "postgres_database"])
def empty_location(request: pytest.FixtureRequest) -> str:
    """Where no store is yet, on each database."""
    return str(request.getfixturevalue(request.param))


def facts(location: str) -> dict[str, Any]:
    """Everything that the database says of its tables, in comparable form."""
    engine = engine_of(location)
    found: dict[str, Any] = {}
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        for table in sorted(set(inspector.get_table_names()) - {"alembic_version"}):
            found[table] = {
                "columns": [
                    (c["name"], str(c["type"]), c["nullable"], c["default"])
                    for c in inspector.get_columns(table)
                ],
                "key": inspector.get_pk_constraint(table),
                "unique": sorted(
                    (str(u["name"]), u["column_names"])
                    for u in inspector.get_unique_constraints(table)
                ),
                "checks": sorted(
                    (str(c["name"]), c["sqltext"])
                    for c in inspector.get_check_constraints(table)
                ),
                "indexes": sorted(
                    (
                        str(i["name"]),
                        i["column_names"],
                        [f"{k} {v}" for k, v in i.get("dialect_options", {}).items()],
                    )
                    for i in inspector.get_indexes(table)
                ),
                "options": str(inspector.get_table_options(table)),
            }
    engine.dispose()
    return found


@pytest.mark.parametrize(
    ("empty", "fresh"),
    [("sqlite_path_of_none", "sqlite_path"), ("postgres_database", "postgres_url")],
)
def test_migrations_make_the_models_tables(
    empty: str, fresh: str, request: pytest.FixtureRequest
) -> None:
    empty_location = str(request.getfixturevalue(empty))
    engine = engine_of(empty_location)
    with engine.begin() as connection:
        metadata.create_all(connection)
    engine.dispose()
    modelled = facts(empty_location)
    migrated = facts(str(request.getfixturevalue(fresh)))
    assert migrated.keys() == modelled.keys() == metadata.tables.keys()
    for table, expected in modelled.items():
        assert migrated[table] == expected


def test_alembic_finds_nothing_to_do(store_url: str) -> None:
    assert migrations.differences(make_backend(store_url)) == []
    upgrades.check(store_url)


@pytest.mark.parametrize("own", ["sqlite_path", "postgres_own_url"])
def test_a_table_changed_by_hand_is_found(
    own: str, request: pytest.FixtureRequest
) -> None:
    store_url = str(request.getfixturevalue(own))
    with open_store(store_url) as store, store.write() as tx:
        edits.add_column(tx)
    with pytest.raises(NeedsMigration, match="differ from the model in 1 places"):
        upgrades.check(store_url)


@pytest.mark.parametrize(
    ("own", "lift", "name"),
    [
        ("sqlite_path", edits.drop_guard, "ledger_line_no_delete"),
        ("postgres_own_url", edits.disable_guard, "ledger_line_no_change"),
        ("postgres_own_url", edits.drop_guard, "payment_event_no_truncate"),
    ],
)
def test_a_ledger_that_nothing_guards_any_more_is_found(
    own: str, lift: Callable[..., None], name: str, request: pytest.FixtureRequest
) -> None:
    store_url = str(request.getfixturevalue(own))
    with open_store(store_url) as store, store.write() as tx:
        lift(tx, name)
    with pytest.raises(NeedsMigration, match="in 1 places") as refused:
        upgrades.check(store_url)
    assert f"no trigger {name} at work" in refused.value.why


def test_migrations_are_one_line_and_end_at_the_head() -> None:
    scripts = ScriptDirectory.from_config(migrations.configuration())
    steps = list(scripts.walk_revisions())[::-1]
    assert scripts.get_heads() == [migrations.HEAD]
    assert [step.revision for step in steps] == [
        f"{number:04}" for number in range(1, len(steps) + 1)
    ]
    for step in steps:
        assert Path(step.path).name.startswith(f"{step.revision}_")


def test_an_upgrade_from_nothing_makes_a_store_and_doing_it_again_changes_nothing(
    empty_location: str,
) -> None:
    before = upgrades.state(empty_location)
    assert (before.found, before.ready, before.newer) == (None, False, False)
    with pytest.raises(NoStore):
        open_store(empty_location)
    assert upgrades.upgrade(empty_location).steps == ("0001", "0002")
    with open_store(empty_location) as store:
        keys = [store.key(name) for name in ("pseudonym-key", "task-key")]
        with store.read() as tx:
            assert sql.rows(tx, "SELECT id, policy_version FROM policy_lock") == [
                (1, 0)
            ]
            assert sql.rows(tx, "SELECT id, name, head FROM chain") == [
                (0, "system", "0" * 64)
            ]
    assert upgrades.state(empty_location).ready
    assert upgrades.upgrade(empty_location).steps == ()
    with open_store(empty_location) as store:
        assert [store.key(name) for name in ("pseudonym-key", "task-key")] == keys


def test_an_upgrade_of_a_populated_store_keeps_its_rows(store_url: str) -> None:
    with open_store(store_url) as store, store.write() as tx:
        tx.insert_many("field", ["id", "name"], ((n, f"f{n}") for n in range(100)))
        records.run(tx, "r", 1)
    upgrades.upgrade(store_url)
    upgrades.check(store_url)
    with open_store(store_url) as store, store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM field") == 100
        assert sql.rows(tx, "SELECT id, name FROM run") == [(1, "r")]


AFTER_HEAD = f"{int(migrations.HEAD) + 1:04}"
NEXT = f'''"""A step such as the next one might be."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "{AFTER_HEAD}", "{migrations.HEAD}"
branch_labels = depends_on = None


def upgrade() -> None:
    op.create_table("extra", sa.Column("id", sa.BigInteger, primary_key=True))
    op.add_column("ledger_line", sa.Column("extra", sa.Text))
'''


@pytest.fixture
def next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this the program of one migration later."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations.script_directory(), scripts)
    (scripts / "versions" / f"{AFTER_HEAD}_extra.py").write_text(NEXT)

    def become_newer() -> None:
        monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
        monkeypatch.setattr(migrations, "HEAD", AFTER_HEAD)

    return become_newer


@pytest.fixture(params=["sqlite_path", "postgres_own_url"])
def populated(request: pytest.FixtureRequest) -> str:
    """A store with a ledger, whose tables may be changed; once on each database."""
    location = str(request.getfixturevalue(request.param))
    with open_store(location) as store:
        case = Case(store)
        case.apply(policy(PAIR))
        case.add("x/1", "x/2")
        case.load(*((f"r{i}", f"p{i}", i, "abcd") for i in range(50)))
        halves = [
            " ".join(f"r{i}.{f}" for i in range(50) for f in ff) for ff in ("ac", "b")
        ]
        case.book(("x/1", halves[0]), ("x/2", halves[1]))
    return location


def ledger_of(location: str) -> list[tuple[Any, ...]]:
    engine = engine_of(location)
    with engine.connect() as connection:
        found = connection.execute(
            sa.text(
                "SELECT chain_id, seq, kind, at, hash FROM ledger_line"
                " ORDER BY chain_id, seq"
            )
        )
        rows = [tuple(row) for row in found]
    engine.dispose()
    return rows


def test_the_next_step_keeps_a_ledger_and_fences_off_the_daemon_before(
    populated: str, next_step: Callable[[], None], clock: FakeClock
) -> None:
    before = ledger_of(populated)
    assert len(before) > 150
    with open_store(populated) as old:
        epoch = take_lease(old, clock)
        next_step()
        assert upgrades.upgrade(populated).steps == (AFTER_HEAD,)
        with pytest.raises(StaleLease), old.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
    assert ledger_of(populated) == before
    with open_store(populated) as store:
        with store.read() as tx:
            assert compare(tx).differences == ()
        with pytest.raises(Conflict), store.write() as tx:
            edits.REWRITES["ledger, deleted"](tx)
        assert take_lease(store, clock) == epoch + 2


def test_the_program_before_neither_opens_a_newer_store_nor_takes_its_lease(
    populated: str,
    next_step: Callable[[], None],
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_store(populated) as old:
        next_step()
        upgrades.upgrade(populated)
        monkeypatch.undo()  # the program of before again
        with pytest.raises(NeedsMigration, match=AFTER_HEAD) as refused:
            open_store(populated)
        assert refused.value.exit_status == 13
        with pytest.raises(NeedsMigration, match=AFTER_HEAD):
            take_lease(old, clock)  # it had it open, as a standby does
        waits = Standby(old, clock, steady=lambda: 0.0, pause=lambda _: True)
        with pytest.raises(NeedsMigration, match=AFTER_HEAD):
            waits.wait()
        with pytest.raises(NeedsMigration, match=AFTER_HEAD):
            upgrades.upgrade(populated)


def test_the_script_of_the_next_step_does_the_same(
    populated: str, next_step: Callable[[], None], clock: FakeClock
) -> None:
    with open_store(populated) as old:
        epoch = take_lease(old, clock)
        next_step()
        script = upgrades.script(populated)
        assert "CREATE TABLE policy" not in script, "only what is missing"
        by_hand(populated, script)
        with pytest.raises(StaleLease), old.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
    assert upgrades.state(populated).ready


def test_a_newer_store_is_not_touched(store_url: str) -> None:
    with open_store(store_url) as store, store.write() as tx:
        edits.set_schema(tx, "9999")
    assert upgrades.state(store_url).newer
    with pytest.raises(NeedsMigration, match="9999"):
        upgrades.upgrade(store_url)
    with pytest.raises(NeedsMigration, match="9999"):
        upgrades.script(store_url)


def test_an_upgrade_that_fails_half_way_leaves_nothing(empty_location: str) -> None:
    # A table of somebody else's is in the way of one of the last to be made.
    engine = engine_of(empty_location)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE event (id integer)"))
    engine.dispose()
    with pytest.raises(Exception, match=r"event|store"):
        upgrades.upgrade(empty_location)
    engine = engine_of(empty_location)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["event"]
    engine.dispose()


def by_hand(location: str, script: str) -> None:
    """Run a script with the database's own tool."""
    if location.startswith("postgres"):
        done = subprocess.run(
            ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", location],
            input=script,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return
    connection = make_backend(location).connect(writes=True)
    connection.executescript(script)
    connection.close()


def test_the_script_makes_the_same_store(empty_location: str) -> None:
    script = upgrades.script(empty_location)
    assert "alembic_version" in script
    by_hand(empty_location, script)
    with pytest.raises(NeedsMigration, match="no pseudonym-key"):
        open_store(empty_location)  # its keys are still to be made
    assert upgrades.upgrade(empty_location).steps == ()
    upgrades.check(empty_location)


def test_a_draft_holds_what_the_model_has_more(
    sqlite_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations.script_directory(), scripts)
    monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
    with open_store(sqlite_path) as store, store.write() as tx:
        edits.drop_table(tx, Pause)
    migrations.draft(make_backend(sqlite_path), AFTER_HEAD, "Bring pauses back")
    drafted = (scripts / f"versions/{AFTER_HEAD}_bring_pauses_back.py").read_text()
    assert drafted.startswith('"""Bring pauses back."""')
    assert f"down_revision = '{migrations.HEAD}'" in drafted
    assert "op.create_table('pause'" in drafted


# -- from 0.2.0 on: released steps stay as they are, and stores come along ---------------

RELEASED = {
    "0001": "4d229c9d8fa9c06827b3c73a16074fbc88ed2ed44cc831c113e2a8243fb0ba18",
}
"""SHA-256 of the steps of releases. 0001 is that of 0.2.0."""

SECRET = Secret(keys={"k": bytes(32)})
STORE_0_2_0 = Path(__file__).parents[1] / "data/store-0.2.0"
"""What 0.2.0 had in its store after a small demo: all rows, and the key."""


def test_a_released_step_is_never_edited() -> None:
    versions = migrations.script_directory() / "versions"
    for number, expected in RELEASED.items():
        (path,) = versions.glob(f"{number}_*.py")
        assert hashlib.sha256(path.read_bytes()).hexdigest() == expected
        assert "dispatcher." not in path.read_text(), "it depends on no later program"


def rows_of_0_2_0() -> Iterator[tuple[str, list[str], list[Any]]]:
    """Table, columns and one row after another, as a backup of 0.2.0 holds them."""
    with gzip.open(STORE_0_2_0 / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        table, columns = "", []
        for line in lines:
            found = json.loads(line)
            if isinstance(found, dict):
                table, columns = found.get("table", ""), found.get("columns", [])
            else:
                yield table, columns, found


@pytest.fixture
def of_0_2_0(empty_location: str, tmp_path: Path) -> tuple[str, KeyFile]:
    """A store as 0.2.0 left it, with a session of its console."""
    migrations.upgrade(make_backend(empty_location), to="0001")
    engine = engine_of(empty_location)
    with engine.begin() as connection:
        tables = sa.MetaData()
        tables.reflect(connection)
        for born in ("policy_lock", "chain"):
            connection.execute(sa.delete(tables.tables[born]))
        for name, columns, row in rows_of_0_2_0():
            table = tables.tables[name]
            cells = {
                column: base64.b64decode(cell)
                if cell is not None
                and isinstance(table.c[column].type, sa.LargeBinary | BYTEA)
                else cell
                for column, cell in zip(columns, row, strict=True)
            }
            connection.execute(sa.insert(table).values(cells))
        session = {"digest": "5e" * 32, "opened_at": 1, "seen_at": 2}
        connection.execute(sa.insert(tables.tables["operator_session"]).values(session))
    engine.dispose()
    key = tmp_path / "dispatcher.key"
    key.write_bytes((STORE_0_2_0 / "dispatcher.key").read_bytes())
    key.chmod(0o600)
    return empty_location, KeyFile(key)


def dumped_by_0_2_0(location: str, key: KeyFile) -> list[str]:
    with open_store(location, older=True, key_file=key) as store, store.read() as tx:
        return list(dumped(tx))


def test_a_store_of_0_2_0_comes_along_and_goes_back_by_its_backup(
    of_0_2_0: tuple[str, KeyFile], tmp_path: Path, clock: FakeClock
) -> None:
    location, key = of_0_2_0
    before = dumped_by_0_2_0(location, key)
    with open_store(location, older=True, key_file=key) as store:
        kept = backup.create(store, tmp_path / "backups", SECRET, clock=clock)
    assert upgrades.upgrade(location).steps == tuple(
        f"{number:04}" for number in range(2, int(migrations.HEAD) + 1)
    )
    upgrades.check(location)
    with open_store(location, key_file=key) as store, store.read() as tx:
        assert compare(tx).differences == ()
        assert sql.value(tx, "SELECT count(*) FROM answer") == 48
        assert sql.rows(tx, "SELECT digest, user_id FROM operator_session") == [
            ("5e" * 32, None)
        ]
        shown = tx.vault.open(
            tx,
            "entry.shown",
            *sql.one(tx, "SELECT id, key_id, shown FROM entry ORDER BY id LIMIT 1"),
        )
        assert shown
    # The way back: 0.2.0 reads the backup, which has what it wrote, line by line.
    assert kept.schema == "0001"
    lines = backup.opened(kept.path, SECRET)
    assert list(lines) == [json.loads(line) for line in before]


# -- where the scripts lie -------------------------------------------------------------


def test_the_directory_of_scripts_is_no_package() -> None:
    # With an __init__.py it would hide the alembic library from whoever starts here.
    directory = migrations.script_directory()
    assert (directory / "env.py").is_file()
    assert list(directory.rglob("__init__.py")) == []


def test_an_installed_package_brings_its_scripts(tmp_path: Path) -> None:
    # As a wheel lays it out: the scripts inside the package, and the alembic library
    # beside it, whose directory must not be taken for the scripts.
    site = tmp_path / "site-packages"
    source = Path(dispatcher.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, site / "dispatcher", ignore=ignore)
    shutil.copytree(
        source.parent / "alembic", site / "dispatcher/_alembic", ignore=ignore
    )
    import alembic

    shutil.copytree(Path(alembic.__file__).parent, site / "alembic", ignore=ignore)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from dispatcher.store import migrations, open_store, upgrades\n"
        "print(migrations.script_directory())\n"
        "open_store(sys.argv[2], create=True).close()\n"
        "upgrades.check(sys.argv[2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(site), str(tmp_path / "dispatcher.db")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(site / "dispatcher/_alembic")
