"""The store keeps its promises, on both databases."""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import bindparam
from sqlmodel import SQLModel, col, select

from dispatcher.core.errors import (
    Conflict,
    DispatcherError,
    Invalid,
    NeedsMigration,
    NoStore,
    StoreLocked,
    StoreUnreachable,
    StoreUnusable,
)
from dispatcher.model import (
    ApiToken,
    AppUser,
    Assignment,
    Budget,
    ExportFile,
    FieldName,
    FieldTest,
    GoldQuestion,
    GoldTask,
    KeyLine,
    LedgerLine,
    Load,
    Pause,
    Plan,
    PolicyLock,
    PolicyVersion,
    Qualification,
    Run,
    metadata,
)
from dispatcher.store import Clash, Store, Tx, open_store
from dispatcher.store.backend import MOST
from dispatcher.store.engine import bring_up, make_backend
from dispatcher.store.lease import SHARD, check_epoch, take
from dispatcher.store.policies import lock_policy_exclusive
from dispatcher.store.settings import KEYS, set_setting, setting
from dispatcher.store.sqlite import SqliteBackend, make_private
from dispatcher.store.statements import DriverStatement, in_list, not_in_list
from dispatcher.store.vault import KeyFile
from tests import edits, sql
from tests.patience import together

ADD = sa.insert(Pause).values(
    scope=bindparam("scope"), reason="why", at=bindparam("moment")
)
ADD_BARE = DriverStatement(ADD)
ADD_TOLD = DriverStatement(ADD.returning(col(Pause.at)))
FROM_ON = DriverStatement(
    select(Pause.scope)
    .where(Pause.scope >= bindparam("first"))
    .order_by(col(Pause.scope))
)
NAMED = (
    select(sa.func.count())
    .select_from(FieldName)
    .where(in_list(FieldName.name, "names"))
)


def add_pause(tx: Tx, scope: str) -> None:
    tx.driver_execute(ADD_BARE, {"scope": scope, "moment": 1})


def scopes(store: Store) -> list[str]:
    with store.read() as tx:
        return [
            row[0] for row in sql.rows(tx, "SELECT scope FROM pause ORDER BY scope")
        ]


# -- transactions ----------------------------------------------------------------------


def test_a_write_is_seen_by_the_next_read(store: Store) -> None:
    with store.write() as tx:
        add_pause(tx, "all")
    with store.read() as tx:
        assert sql.rows(tx, "SELECT scope, reason, at FROM pause") == [
            ("all", "why", 1)
        ]
        assert sql.one(tx, "SELECT scope FROM pause WHERE at > ?", [1]) is None
        assert sql.value(tx, "SELECT at FROM pause") == 1
        assert sql.value(tx, "SELECT at FROM pause WHERE at = ?", [2]) is None


def test_questions_of_one_journey_are_answered_in_order(store: Store) -> None:
    with store.write() as tx:
        add_pause(tx, "b")
        found = tx.driver_answers(
            [(FROM_ON, {"first": "a"}), (ADD_TOLD, {"scope": "a", "moment": 1})]
            + [(FROM_ON, {"first": first}) for first in "ac"]
        )
    assert found == [[("b",)], [(1,)], [("a",), ("b",)], []]
    assert scopes(store) == ["a", "b"]


def test_what_fails_in_a_journey_ends_the_transaction(store: Store) -> None:
    def clash() -> None:
        with store.write() as tx, tx.journey():
            add_pause(tx, "a")
            add_pause(tx, "a")
            add_pause(tx, "b")

    with pytest.raises(Clash):
        clash()
    assert scopes(store) == []

    def ask() -> None:
        with store.write() as tx:
            tx.driver_answers(
                [(ADD_TOLD, {"scope": scope, "moment": 1}) for scope in "aab"]
            )

    with pytest.raises(Clash):
        ask()
    assert scopes(store) == []


def test_nothing_is_read_in_a_journey_where_it_would_not_be_there(store: Store) -> None:
    with (
        store.write() as tx,
        pytest.raises(AssertionError, match="journey"),
        tx.journey(),
    ):
        tx.scalar(select(Pause.reason).where(col(Pause.scope) == "a"))

    def ask_after_another() -> None:
        with store.write() as tx, tx.journey():
            with tx.journey():  # as the driver's questions make one
                add_pause(tx, "b")
            tx.scalar(select(Pause.reason).where(col(Pause.scope) == "b"))

    with pytest.raises(AssertionError, match="journey"):
        ask_after_another()

    def ask(asked) -> None:
        with store.write() as tx, tx.journey():
            add_pause(tx, "a")
            asked(tx)

    first = {"first": "a"}
    for asked in (
        lambda tx: tx.driver_rows(FROM_ON, first),
        lambda tx: tx.driver_one(FROM_ON, first),
        lambda tx: tx.driver_value(FROM_ON, first),
        lambda tx: next(tx.driver_stream(FROM_ON, first)),
        lambda tx: tx.driver_answers([(FROM_ON, first)]),
        lambda tx: tx.driver_numbers(1, [(FROM_ON, first)]),
        lambda tx: next(tx.stream(select(Pause.reason))),
    ):
        with pytest.raises(AssertionError, match="journey"):
            ask(asked)
    assert scopes(store) == []
    with store.write() as tx:
        with tx.journey():
            add_pause(tx, "a")
        assert tx.scalar(select(Pause.scope).where(col(Pause.scope) == "a")) == "a"


def test_an_error_of_the_program_in_a_journey_is_the_one_told(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        with store.write() as tx, tx.journey():
            add_pause(tx, "a")
            add_pause(tx, "a")
            raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, Clash)) as told:
        fail()
    assert store.dialect == "sqlite" or told.type is ZeroDivisionError
    assert caplog.text == ""  # the server's words can hold values
    assert scopes(store) == []


def test_a_failed_block_leaves_nothing_behind(store: Store) -> None:
    def fail() -> None:
        with store.write() as tx:
            add_pause(tx, "all")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert scopes(store) == []


def test_a_read_sees_one_snapshot(store: Store) -> None:
    with store.read() as reader:
        assert sql.value(reader, "SELECT count(*) FROM pause") == 0
        with store.write() as tx:
            add_pause(tx, "all")
        assert sql.value(reader, "SELECT count(*) FROM pause") == 0
    assert scopes(store) == ["all"]


def test_a_read_can_not_write(store: Store) -> None:
    with pytest.raises(StoreUnusable), store.read() as tx:
        add_pause(tx, "all")
    assert scopes(store) == []


def test_a_read_can_not_lock(store: Store) -> None:
    """PostgreSQL refuses it by itself; SQLite would do as if nothing was asked."""
    locking = select(FieldName.id).with_for_update()
    driver = DriverStatement(locking)
    asked: list[Callable[[Tx], object]] = [
        lambda tx: tx.execute(locking),
        lambda tx: list(tx.stream(locking)),
        lambda tx: tx.driver_rows(driver),
        lambda tx: list(tx.driver_stream(driver)),
    ]
    for ask in asked:
        with pytest.raises(AssertionError, match="locks no rows"), store.read() as tx:
            ask(tx)
        with store.write() as tx:
            ask(tx)


def test_a_write_inside_a_write_is_refused_at_once(store: Store) -> None:
    with (
        store.write(),
        pytest.raises(RuntimeError, match="write inside a write"),
        store.write(),
    ):
        pass
    with store.write() as tx:  # and the thread may write again afterwards
        add_pause(tx, "all")


def test_a_swallowed_error_can_not_be_committed(store: Store) -> None:
    def swallow() -> None:
        with store.write() as tx:
            add_pause(tx, "run:a")
            with pytest.raises(Clash):
                add_pause(tx, "run:a")

    with pytest.raises(RuntimeError, match="a statement failed"):
        swallow()
    assert scopes(store) == []


def test_row_counts_and_returned_rows_come_back(store: Store) -> None:
    with store.write() as tx:
        for name in "abc":
            add_pause(tx, f"run:{name}")
        others = sa.update(Pause).where(Pause.scope != "run:b").values(at=2)
        assert tx.execute(others).rowcount == 2
        gone = sa.delete(Pause).where(Pause.at == 2).returning(Pause.scope)
        assert sorted(tx.execute(gone).scalars()) == ["run:a", "run:c"]


def test_a_list_parameter_finds_all_its_members(store: Store) -> None:
    rows = [(i, f"f{i}") for i in range(1000)]
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], rows)
        numbered = select(FieldName.id).where(in_list(FieldName.id, [3, 5, 10**12]))
        assert sorted(tx.scalars(numbered)) == [3, 5]
        assert tx.scalar(NAMED, {"names": ("f1", "f2")}) == 2
        assert tx.scalar(NAMED, {"names": []}) == 0
        others = select(sa.func.count()).where(not_in_list(FieldName.id, [1]))
        assert tx.scalar(others) == 999


def test_a_stream_gives_all_rows_while_others_are_written(store: Store) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], ((i, f"f{i}") for i in range(25_000)))
        seen = 0
        for number, name in sql.stream(tx, "SELECT id, name FROM field ORDER BY id"):
            assert name == f"f{number}"
            if number % 5000 == 0:
                add_pause(tx, f"run:{number}")
            seen += 1
    assert seen == 25_000
    assert len(scopes(store)) == 5


def test_threads_write_one_after_the_other_and_lose_nothing(store: Store) -> None:
    def count() -> None:
        for _ in range(20):
            with store.write() as tx:
                found = lock_policy_exclusive(tx)
                tx.execute(sa.update(PolicyLock).values(policy_version=found + 1))

    assert together(*[count] * 4) == [None] * 4
    with store.read() as tx:
        assert sql.value(tx, "SELECT policy_version FROM policy_lock") == 80


def test_a_lock_that_does_not_come_is_told_as_locked(store_url: str) -> None:
    with (
        open_store(store_url) as first,
        open_store(store_url, wait_ms=50) as second,
        first.write() as tx,
    ):
        lock_policy_exclusive(tx)
        with pytest.raises(StoreLocked) as refused, second.write() as late:
            lock_policy_exclusive(late)
    assert refused.value.exit_status == 11
    assert refused.value.retryable


def test_the_write_lock_of_another_thread_is_waited_for_only_so_long(
    sqlite_path: Path,
) -> None:
    held, done = threading.Event(), threading.Event()
    with open_store(sqlite_path, wait_ms=50) as store:

        def hold() -> None:
            with store.write():
                held.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        try:
            with pytest.raises(StoreLocked), store.write():
                pass
        finally:
            done.set()
            thread.join()
        with store.write() as tx:
            add_pause(tx, "all")


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_process_does_not_touch_its_parents_connections(store: Store) -> None:
    with store.write() as tx:
        add_pause(tx, "run:parent")
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            with store.write() as tx:
                add_pause(tx, "run:child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with store.write() as tx:
        add_pause(tx, "run:parent again")
    assert scopes(store) == ["run:child", "run:parent", "run:parent again"]


# -- SQLAlchemy's statements -----------------------------------------------------------

PAUSES = select(Pause).order_by(col(Pause.scope))


def test_rows_come_back_as_the_columns_asked_for(store: Store) -> None:
    with store.write() as tx:
        for number, scope in enumerate("ab"):
            assert tx.execute(ADD, {"scope": scope, "moment": number}).rowcount == 1
    asked = select(Pause.scope, Pause.at).order_by(col(Pause.scope))
    with store.read() as tx:
        rows = tx.execute(asked).all()
        assert rows == [("a", 0), ("b", 1)]
        assert [row.at for row in rows] == [0, 1]
        assert tx.scalars(select(Pause.scope).where(Pause.at == 1)) == ["b"]
        assert tx.scalar(select(Pause.at).where(Pause.scope == "a")) == 0
        assert tx.scalar(select(Pause.at).where(Pause.scope == "c")) is None


def test_whole_rows_come_back_as_objects_of_the_model(store: Store) -> None:
    with store.write() as tx:
        tx.execute(ADD, {"scope": "all", "moment": 5})
    with store.read() as tx:
        (found,) = tx.models(PAUSES)
        assert (type(found), found.scope, found.reason, found.at) == (
            Pause, "all", "why", 5,
        )  # fmt: skip
        assert tx.model(PAUSES) is not None
        assert tx.model(PAUSES.where(Pause.scope == "none")) is None


def test_changed_rows_are_counted_and_given_back(store: Store) -> None:
    with store.write() as tx:
        for scope in "abc":
            tx.execute(ADD, {"scope": scope, "moment": 1})
        moved = sa.update(Pause).where(col(Pause.scope) != "b").values(at=2)
        assert tx.execute(moved).rowcount == 2
        gone = sa.delete(Pause).where(col(Pause.at) == 2).returning(col(Pause.scope))
        assert sorted(tx.scalars(gone)) == ["a", "c"]
    assert scopes(store) == ["b"]


def test_what_both_kinds_of_statement_write_is_one_transaction(store: Store) -> None:
    def fail() -> None:
        with store.write() as tx:
            tx.execute(ADD, {"scope": "a", "moment": 1})
            assert tx.driver_rows(DriverStatement(select(Pause.scope))) == [("a",)]
            tx.insert_many("pause", ["scope", "reason", "at"], [("b", "", 1)])
            assert tx.scalars(select(Pause.scope).order_by(col(Pause.scope))) == [
                "a",
                "b",
            ]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert scopes(store) == []


def test_a_stream_of_a_construct_is_read_while_others_are_written(store: Store) -> None:
    with store.write() as tx:
        tx.insert_many("field", ["id", "name"], ((i, f"f{i}") for i in range(25_000)))
        seen = 0
        fields = select(FieldName.id, FieldName.name).order_by(col(FieldName.id))
        for number, name in tx.stream(fields):
            assert name == f"f{number}"
            if number % 5000 == 0:
                tx.execute(ADD, {"scope": f"run:{number}", "moment": 1})
            seen += 1
        next(tx.stream(fields))  # and one that is not read to its end
    assert seen == 25_000
    assert len(scopes(store)) == 5


def test_the_fault_of_a_construct_holds_no_value(store: Store) -> None:
    named = sa.insert(FieldName).values(id=bindparam("number"), name="Anna Muster")
    with store.write() as tx:
        tx.execute(named, {"number": 1})
    with pytest.raises(Clash) as refused, store.write() as tx:
        tx.execute(named, {"number": 2})
    assert "name" in refused.value.constraint
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert "Anna" not in f"{refused.value}{refused.value.facts}"


def test_a_swallowed_fault_of_a_construct_can_not_be_committed(store: Store) -> None:
    def swallow() -> None:
        with store.write() as tx:
            tx.execute(ADD, {"scope": "a", "moment": 1})
            with pytest.raises(Clash):
                tx.execute(ADD, {"scope": "a", "moment": 1})

    with pytest.raises(RuntimeError, match="a statement failed"):
        swallow()
    assert scopes(store) == []


def test_a_mistake_of_the_program_is_shown_without_its_values(store: Store) -> None:
    wrong = sa.insert(Pause).values(scope="Anna", reason="Muster", at=sa.text("nosuch"))
    with pytest.raises(DispatcherError) as refused, store.write() as tx:
        tx.execute(wrong)
    assert "Anna" not in f"{refused.value}{refused.value.why}"


REFERENCES = {
    "load.run_id": lambda n, to: Load(
        id=n, run_id=to, source="x", columns="[]", records=0, rejected=0,
        state="loading", started_at=1,
    ),
    "budget.run_id": lambda n, to: Budget(
        run_id=to, currency="EUR", cap=1, reward=0, bonus=0, fee=0, taken=0, paid=0,
        day=0, day_taken=0,
    ),
    "export_file.run_id": lambda n, to: ExportFile(id=n, run_id=to, path="x", at=1),
    "gold_question.field_id": lambda n, to: GoldQuestion(
        id=n, field_id=to, purpose="gold", shown=b"", media="text/plain", answer=b"",
    ),
    "field_test.field_id": lambda n, to: FieldTest(field_id=to, pass_share=0.5),
    "qualification.field_id": lambda n, to: Qualification(
        account_id=n, field_id=to, state="open", attempt=1, asked=0, correct=0,
    ),
    "gold_task.gold_question_id": lambda n, to: GoldTask(
        id=n, gold_question_id=to, account_id=1, state="shown", created_at=1, attempt=0,
    ),
    "assignment.plan_id": lambda n, to: Assignment(
        plan_id=to, account_id=n, adversary_id=1, entries=b"",
    ),
    "api_token.user_id": lambda n, to: ApiToken(
        id=n, name="x", digest="d", prefix="p", user_id=to, scopes="", made_at=0,
        ends_at=1,
    ),
}  # fmt: skip
"""A row of each table that refers to another: to one that is there, or is not."""

PARENTS = (
    Run(id=7, name="x", state="active", created_at=0),
    FieldName(id=7, name="x"),
    AppUser(id=7, name="x", roles="", totp_step=0, made_at=0),
    GoldQuestion(
        id=7, field_id=7, purpose="gold", shown=b"", media="text/plain", answer=b""
    ),
    Plan(
        id=7, policy_version=1, state="draft", verdict="x", algorithm="y", seed=0,
        summary="{}", created_at=1,
    ),
)  # fmt: skip


def put(tx: Tx, row: SQLModel) -> None:
    """Insert what a row has, the rest by the columns' defaults."""
    given = row.model_dump(exclude_unset=True)
    tx.execute(sa.insert(type(row)).values(given))


@pytest.mark.parametrize("column", REFERENCES)
def test_a_row_that_refers_to_nothing_is_refused(store: Store, column: str) -> None:
    with store.write() as tx:
        for row in PARENTS:
            put(tx, row)
        put(tx, REFERENCES[column](1, 7))
    with pytest.raises(Clash), store.write() as tx:
        put(tx, REFERENCES[column](2, 8))


def test_every_reference_of_the_model_is_tried() -> None:
    found = {
        f"{table.name}.{key.parent.name}"
        for table in metadata.sorted_tables
        for key in table.foreign_keys
    }
    assert found == {*REFERENCES}


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_of_a_construct_is_invalid(
    store: Store, value: int
) -> None:
    with pytest.raises(Invalid, match="does not fit"), store.write() as tx:
        tx.execute(ADD, {"scope": "a", "moment": value})


def test_nothing_is_asked_while_rows_are_written(store: Store) -> None:
    def ask() -> None:
        with store.write() as tx:

            def rows() -> Iterator[tuple[object, ...]]:
                yield from ((str(number), "", 1) for number in range(100))
                tx.scalar(select(Pause.at))
                yield "a", "", 1

            tx.insert_many("pause", ["scope", "reason", "at"], rows())

    with pytest.raises(RuntimeError, match="while rows are written"):
        ask()
    assert scopes(store) == []


def test_idle_connections_are_used_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make_backend(store_url, password_allowed=True)
    connect, opened = backend.connect, []

    def counted(*, writes: bool) -> object:
        opened.append(writes)
        return connect(writes=writes)

    monkeypatch.setattr(backend, "connect", counted)
    with Store(backend) as store:
        for _ in range(3):
            with store.read() as outer, store.read() as inner:
                assert outer.scalars(PAUSES) == inner.scalars(PAUSES) == []
            with store.write() as tx:
                tx.execute(sa.delete(Pause))
    assert sorted(opened) == [False, False, True]


def test_the_page_caches_of_all_connections_fit_the_memory_that_is_set(
    tmp_path: Path,
) -> None:
    place = tmp_path / "store.db"
    with (
        open_store(place, create=True, cache_mib=16, wait_ms=20) as store,
        ExitStack() as stack,
    ):
        every = [stack.enter_context(store.read()) for _ in range(MOST)]
        with pytest.raises(StoreLocked, match="connections"), store.read():
            pass  # one more would take more
        every.append(stack.enter_context(store.write()))
        shares = [-sql.value(tx, "PRAGMA cache_size") for tx in every]  # KiB
    vacuuming = shares[-1]
    assert 15 * 1024 < sum(shares) + vacuuming <= 16 * 1024
    assert shares[-1] > 8 * shares[0]


# -- errors ----------------------------------------------------------------------------


def test_a_row_that_exists_is_a_clash_without_its_value(store: Store) -> None:
    with store.write() as tx:
        put(tx, FieldName(id=1, name="Anna Muster"))
    with pytest.raises(Clash) as refused, store.write() as tx:
        put(tx, FieldName(id=2, name="Anna Muster"))
    told = f"{refused.value.what}{refused.value.why}{refused.value.constraint}"
    assert "name" in refused.value.constraint
    assert "Anna" not in told
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_state_that_is_none_is_a_clash(store: Store) -> None:
    with pytest.raises(Clash, match="ck_run_state"), store.write() as tx:
        put(tx, Run(id=1, name="x", state="odd", created_at=0))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_invalid(store: Store, value: int) -> None:
    with pytest.raises(Invalid, match="does not fit"), store.write() as tx:
        tx.execute(sa.update(PolicyLock).values(policy_version=value))


def test_a_lone_surrogate_is_invalid(store: Store) -> None:
    with pytest.raises(Invalid, match="does not fit"), store.write() as tx:
        add_pause(tx, "run:\ud800")


LINES = {
    "ledger_line": LedgerLine(
        chain_id=1, seq=1, kind="seal", at=1, policy_version=1, hash=b"\x01"
    ),
    "key_lines": KeyLine(seq=1, keys=b"\x01", facts=b"", relations=b"", repeats=0),
    "policy": PolicyVersion(
        version=1, name="p", source=b"\x01", sha256="x", applied_at=1
    ),
}


@pytest.mark.parametrize("table", LINES)
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE", "REPLACE"])
def test_lines_once_written_stay(store: Store, table: str, verb: str) -> None:
    line = LINES[table]
    with store.write() as tx:
        put(tx, line)
    with pytest.raises(Conflict, match="once written"), store.write() as tx:
        edits.rewrite(tx, verb, line)
    with store.read() as tx:
        assert sql.value(tx, f"SELECT count(*) FROM {table}") == 1


# -- opening ---------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no store is yet, on each database."""
    if request.param == "sqlite":
        return str(tmp_path / "new.db")
    return str(request.getfixturevalue("postgres_database"))


def test_no_store_is_told_with_the_command_that_makes_one(empty_location: str) -> None:
    with pytest.raises(NoStore) as missing:
        open_store(empty_location)
    assert missing.value.exit_status == 10
    assert "dispatcher init" in missing.value.fix


def test_a_created_store_has_keys_of_its_own_and_keeps_them(
    empty_location: str,
) -> None:
    with open_store(empty_location, create=True) as store:
        keys = [store.key(name) for name in KEYS]
    assert len(set(keys)) == len(KEYS)
    assert {len(key) for key in keys} == {32}
    with open_store(empty_location, create=True) as again:
        assert [again.key(name) for name in KEYS] == keys
        with pytest.raises(KeyError):
            again.key("no-such-key")


def test_two_creators_at_once_make_one_store(empty_location: str) -> None:
    def create() -> bytes:
        with open_store(empty_location, create=True) as store:
            return store.key("task-key")

    found = together(*[create] * 3)
    assert len(found) == 3
    assert len(set(found)) == 1


def test_who_opens_a_store_that_is_being_made_finds_none(empty_location: str) -> None:
    """Its tables come with its keys: without keys it would be refused for good."""
    seen: list[type[BaseException]] = []

    def look() -> None:
        try:
            open_store(empty_location).close()
        except DispatcherError as error:
            seen.append(type(error))

    def entropy(count: int) -> bytes:
        looker = threading.Thread(target=look)
        looker.start()
        looker.join()
        return os.urandom(count)

    open_store(empty_location, create=True, entropy=entropy).close()
    assert seen == [NoStore] * len(KEYS)
    open_store(empty_location).close()


@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_a_store_whose_making_is_broken_off_is_none(
    empty_location: str, sealed: bool, tmp_path: Path
) -> None:
    key_file = KeyFile(tmp_path / "key") if sealed else None
    left = [os.urandom] * (len(KEYS) - 1 + sealed)  # the key file has one of its own

    def entropy(count: int) -> bytes:
        return left.pop()(count)  # IndexError at the last key

    with pytest.raises(IndexError):
        open_store(empty_location, create=True, entropy=entropy, key_file=key_file)
    with pytest.raises(NoStore):
        open_store(empty_location)
    with open_store(empty_location, create=True, key_file=key_file) as store:
        assert {len(store.key(name)) for name in KEYS} == {32}


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    """SQLite itself turns away all but one of those who make a file one of WAL."""
    ends: list[object] = []

    def connect(backend: SqliteBackend) -> None:
        connection = backend.connect(writes=False)
        ends.append(connection.execute("PRAGMA journal_mode").fetchone()[0])
        connection.close()

    for number in range(20):
        path = tmp_path / f"{number}.db"
        make_private(path, create=True)
        together(*[partial(connect, SqliteBackend(path, wait_ms=10_000))] * 3)
    assert ends == ["wal"] * 60


def test_creators_at_once_seal_their_one_store_under_one_key(
    empty_location: str, tmp_path: Path
) -> None:
    key_file = KeyFile(tmp_path / "key")

    def create() -> tuple[bytes, str]:
        with open_store(empty_location, create=True, key_file=key_file) as store:
            return store.key("task-key"), store.vault.ring().current.id

    found = together(*[create] * 4)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.glob("*key*")] == ["key"]


def test_making_a_store_that_is_there_leaves_its_leader_in_place(
    store_url: str,
) -> None:
    """A second creator waits for the first, and a daemon may lead by then."""
    with open_store(store_url) as store, store.write() as tx:
        epoch = take(tx, SHARD, "me", 0, 10**16)
    bring_up(make_backend(store_url, password_allowed=True), os.urandom)
    with open_store(store_url) as store, store.write() as tx:
        check_epoch(tx, SHARD, epoch)


@pytest.mark.parametrize(
    ("version", "fix"), [("0000", "dispatcher db upgrade"), ("9999", "pip install")]
)
def test_another_schema_is_refused_with_the_way_out(
    store_url: str, version: str, fix: str
) -> None:
    with open_store(store_url) as store, store.write() as tx:
        edits.set_schema(tx, version)
    with pytest.raises(NeedsMigration) as refused:
        open_store(store_url)
    assert refused.value.exit_status == 13
    assert fix in refused.value.fix


def test_a_store_without_keys_is_refused(store_url: str) -> None:
    with open_store(store_url) as store, store.write() as tx:
        edits.forget_key(tx, "task-key")
    with pytest.raises(NeedsMigration, match="no task-key"):
        open_store(store_url)


def test_settings_are_written_and_overwritten(store: Store) -> None:
    with store.write() as tx:
        assert setting(tx, "colour") is None
        set_setting(tx, "colour", b"\x00red")
        set_setting(tx, "colour", b"\xffblue")
        assert setting(tx, "colour") == b"\xffblue"


# -- SQLite's file ---------------------------------------------------------------------


def test_safety_33_all_files_are_private_even_under_a_loose_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0o022)
    try:
        with (
            open_store(tmp_path / "dispatcher.db", create=True) as store,
            store.write() as tx,
        ):
            add_pause(tx, "all")
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode)
                for path in tmp_path.iterdir()
            }
    finally:
        os.umask(before)
    assert modes == {
        "dispatcher.db": 0o600,
        "dispatcher.db-wal": 0o600,
        "dispatcher.db-shm": 0o600,
    }


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),  # FULL
        ("foreign_keys", 1),
        ("secure_delete", 1),
        ("recursive_triggers", 1),
        ("trusted_schema", 0),
    ],
)
def test_every_connection_is_durable_and_careful(
    sqlite_store: Store, pragma: str, value: object
) -> None:
    for transaction in (sqlite_store.read, sqlite_store.write):
        with transaction() as tx:
            assert sql.value(tx, f"PRAGMA {pragma}") == value


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dispatcher.db"
    path.write_bytes(b"not a database at all, just some text " * 50)
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="cannot be read"):
        open_store(path, create=True)
    assert path.read_bytes() == before


def test_another_programs_database_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(NoStore, match="no store"):
        open_store(path)


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://host/name", "http://x"])
def test_an_unknown_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="no store can be kept"):
        open_store(url)


def test_a_sqlite_url_is_a_path(sqlite_path: Path) -> None:
    with open_store(f"sqlite:///{sqlite_path}") as store:
        assert store.path == sqlite_path


def test_a_checkpoint_empties_the_log(sqlite_store: Store) -> None:
    with sqlite_store.write() as tx:
        add_pause(tx, "run:canary-5417")
    assert sqlite_store.path is not None
    log = sqlite_store.path.with_name("dispatcher.db-wal")
    assert b"canary-5417" in log.read_bytes()
    sqlite_store.checkpoint()
    assert log.read_bytes() == b""


def test_safety_35_what_was_deleted_is_in_no_file_of_the_store(
    sqlite_store: Store,
) -> None:
    with sqlite_store.write() as tx:
        add_pause(tx, "run:canary-5417")
    with sqlite_store.write() as tx:
        tx.execute(sa.delete(Pause))
    sqlite_store.checkpoint()
    assert sqlite_store.path is not None
    for path in sqlite_store.path.parent.iterdir():
        assert b"canary-5417" not in path.read_bytes()


def test_a_full_disk_is_told_and_keeps_what_was_there(sqlite_store: Store) -> None:
    with sqlite_store.write() as tx:
        add_pause(tx, "all")

    def fill() -> None:
        with sqlite_store.write() as tx:
            pages = sql.value(tx, "PRAGMA page_count")
            sql.value(tx, f"PRAGMA max_page_count = {pages + 5}")
            tx.insert_many("field", ["id", "name"], ((n, f"{n}") for n in range(10**5)))

    with pytest.raises(StoreUnusable, match="disk of the store is full"):
        fill()
    assert scopes(sqlite_store) == ["all"]


# -- PostgreSQL's server ---------------------------------------------------------------


def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    host = str(tmp_path).replace("/", "%2F")
    with pytest.raises(StoreUnreachable) as refused:
        open_store(f"postgresql://ann@{host}/work")
    assert refused.value.retryable
    assert refused.value.exit_status == 75


def test_a_database_that_is_not_there_is_told(postgres_url: str) -> None:
    with pytest.raises(NoStore, match="no such database"):
        open_store(postgres_url + "_not_there")


def terminate(store: Store) -> Iterator[int]:
    """Have the server end every other connection to this store's database."""
    with store.write() as tx:
        yield from (
            row[0]
            for row in sql.rows(
                tx,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND application_name <> 'tests'",
            )
        )


def test_a_lost_connection_is_told_and_replaced(postgres_url: str) -> None:
    with open_store(postgres_url) as store, open_store(postgres_url) as other:

        def lose() -> None:
            with store.write() as tx:
                add_pause(tx, "run:lost")
                assert sum(terminate(other)) >= 1
                add_pause(tx, "run:lost too")

        with pytest.raises(StoreUnreachable):
            lose()
        with store.write() as tx:
            add_pause(tx, "run:kept")
        assert scopes(store) == ["run:kept"]


def test_a_connection_lost_while_idle_is_replaced_unseen(postgres_url: str) -> None:
    with open_store(postgres_url) as store, open_store(postgres_url) as other:
        assert scopes(store) == []
        assert sum(terminate(other)) >= 1
        assert scopes(store) == []


def test_commits_are_durable_whatever_the_servers_default(
    postgres_own_url: str, postgres_cluster: object
) -> None:
    administer: Callable[..., None] = postgres_cluster.administer  # type: ignore[attr-defined]
    administer(
        "ALTER DATABASE {name} SET synchronous_commit = off",
        name=postgres_own_url.rpartition("/")[2],
    )
    with open_store(postgres_own_url) as store, store.write() as tx:
        assert sql.value(tx, "SHOW synchronous_commit") == "on"
