"""Migrations make exactly the model's tables, in one step or not at all."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

import dispatcher
from dispatcher.app.leadership import Standby, take_lease
from dispatcher.core.errors import Conflict, NeedsMigration, NoStore, StaleLease
from dispatcher.ledger.comparison import compare
from dispatcher.model import metadata
from dispatcher.store import lease, migrations, open_store, upgrades
from dispatcher.store.engine import make_backend
from tests import sql
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
        sql.execute(tx, "ALTER TABLE run ADD COLUMN odd integer")
    with pytest.raises(NeedsMigration, match="differ from the model in 1 places"):
        upgrades.check(store_url)


@pytest.mark.parametrize(
    ("own", "statement", "name"),
    [
        (
            "sqlite_path",
            "DROP TRIGGER ledger_line_no_delete",
            "ledger_line_no_delete",
        ),
        (
            "postgres_own_url",
            "ALTER TABLE ledger_line DISABLE TRIGGER ledger_line_no_change",
            "ledger_line_no_change",
        ),
        (
            "postgres_own_url",
            "DROP TRIGGER payment_event_no_truncate ON payment_event",
            "payment_event_no_truncate",
        ),
    ],
)
def test_a_ledger_that_nothing_guards_any_more_is_found(
    own: str, statement: str, name: str, request: pytest.FixtureRequest
) -> None:
    store_url = str(request.getfixturevalue(own))
    with open_store(store_url) as store, store.write() as tx:
        sql.execute(tx, statement)
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
    assert upgrades.upgrade(empty_location).steps == ("0001",)
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
        sql.execute(
            tx,
            "INSERT INTO run (id, name, state, created_at) VALUES (1,'r','active',1)",
        )
    upgrades.upgrade(store_url)
    upgrades.check(store_url)
    with open_store(store_url) as store, store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM field") == 100
        assert sql.rows(tx, "SELECT id, name FROM run") == [(1, "r")]


NEXT = '''"""A step such as the next one might be."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade() -> None:
    op.create_table("extra", sa.Column("id", sa.BigInteger, primary_key=True))
    op.execute("ALTER TABLE ledger_line ADD COLUMN extra text")
'''


@pytest.fixture
def next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this the program of one migration later."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations.script_directory(), scripts)
    (scripts / "versions" / "0002_extra.py").write_text(NEXT)

    def become_newer() -> None:
        monkeypatch.setattr(migrations, "script_directory", lambda: scripts)
        monkeypatch.setattr(migrations, "HEAD", "0002")

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
        assert upgrades.upgrade(populated).steps == ("0002",)
        with pytest.raises(StaleLease), old.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
    assert ledger_of(populated) == before
    with open_store(populated) as store:
        with store.read() as tx:
            assert compare(tx).differences == ()
        with pytest.raises(Conflict), store.write() as tx:
            sql.execute(tx, "DELETE FROM ledger_line")
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
        with pytest.raises(NeedsMigration, match="0002") as refused:
            open_store(populated)
        assert refused.value.exit_status == 13
        with pytest.raises(NeedsMigration, match="0002"):
            take_lease(old, clock)  # it had it open, as a standby does
        waits = Standby(old, clock, steady=lambda: 0.0, pause=lambda _: True)
        with pytest.raises(NeedsMigration, match="0002"):
            waits.wait()
        with pytest.raises(NeedsMigration, match="0002"):
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
        sql.execute(tx, "UPDATE alembic_version SET version_num = '9999'")
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
        sql.execute(tx, "DROP TABLE pause")
    migrations.draft(make_backend(sqlite_path), "0002", "Bring pauses back")
    drafted = (scripts / "versions/0002_bring_pauses_back.py").read_text()
    assert drafted.startswith('"""Bring pauses back."""')
    assert "down_revision = '0001'" in drafted
    assert "op.create_table('pause'" in drafted


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
