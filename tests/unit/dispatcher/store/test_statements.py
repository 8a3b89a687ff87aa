"""One construct serves both databases, bare for the driver too."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import Dialect, bindparam, update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlmodel import col, select

import dispatcher
from dispatcher.model import Account, Entry, IdBlock, Task
from dispatcher.store.statements import (
    DriverStatement,
    fixed,
    in_list,
    insert,
    not_in_list,
)

SQLITE = SQLiteDialect_pysqlite()
POSTGRES = PGDialect_psycopg(paramstyle="format")
RUN_SQL = ("execute", "executemany", "executescript", "exec_driver_sql", "text", "DriverStatement",
           "literal_column", "suffix_with", "prefix_with", "DDL")  # fmt: skip


def told(
    statement: DriverStatement, dialect: Dialect, **parameters: object
) -> tuple[str, list[object]]:
    text, values = statement.for_driver(dialect, parameters)
    return " ".join(text.split()), list(values)


def test_a_list_is_one_parameter_of_either_database() -> None:
    statement = DriverStatement(
        select(Account.id).where(
            in_list(Account.name, "names"), not_in_list(Account.id, "ids")
        )
    )
    given = {"ids": (1, 2), "names": ["ü"]}
    assert told(statement, POSTGRES, **given) == (
        "SELECT account.id FROM account WHERE account.name = ANY(%s::TEXT[])"
        " AND account.id <> ALL(%s::BIGINT[])",
        [["ü"], (1, 2)],
    )
    assert told(statement, SQLITE, **given) == (
        "SELECT account.id FROM account"
        " WHERE account.name IN (SELECT value FROM json_each(?))"
        " AND account.id NOT IN (SELECT value FROM json_each(?))",
        ['["\\u00fc"]', "[1, 2]"],
    )


def test_a_list_may_be_given_with_the_statement() -> None:
    statement = DriverStatement(select(Account.id).where(in_list(Account.id, [7, 8])))
    assert told(statement, SQLITE)[1] == ["[7, 8]"]
    assert told(statement, POSTGRES)[1] == [[7, 8]]


def test_statements_with_lists_of_any_length_are_compiled_once() -> None:
    def key(ids: list[int]) -> object:
        return select(Account.id).where(in_list(Account.id, ids))._generate_cache_key()

    assert key([]) == key([1, 2, 3])


def test_sqlite_takes_no_row_locks() -> None:
    statement = DriverStatement(
        select(Entry.id).with_for_update(key_share=True, skip_locked=True)
    )
    assert told(statement, SQLITE)[0] == "SELECT entry.id FROM entry"
    assert told(statement, POSTGRES)[0].endswith("FOR NO KEY UPDATE SKIP LOCKED")


def test_values_of_the_statement_and_of_the_call_go_in_their_places() -> None:
    statement = DriverStatement(
        update(Task)
        .where(col(Task.id) == bindparam("task"))
        .values(state="shown", leased_until=bindparam("until"))
    )
    for dialect in (SQLITE, POSTGRES):
        assert told(statement, dialect, task=3, until=9)[1] == ["shown", 9, 3]


def test_a_value_that_is_missing_is_named() -> None:
    statement = DriverStatement(select(Task.id).where(Task.id == bindparam("task")))
    with pytest.raises(KeyError, match="task"):
        told(statement, SQLITE)


def test_a_fixed_word_stands_in_the_text() -> None:
    statement = DriverStatement(select(Task.id).where(Task.state == fixed("shown")))
    for dialect in (SQLITE, POSTGRES):
        text, values = told(statement, dialect)
        assert text == "SELECT task.id FROM task WHERE task.state = 'shown'"
        assert values == []


@pytest.mark.parametrize("word", ["", "a b", "a'b", "A", "1a", "ä"])
def test_a_word_that_is_none_of_ours_is_not_put_into_a_text(word: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        fixed(word)


def test_an_upsert_is_the_same_for_both() -> None:
    new = insert(IdBlock).values(name=bindparam("table"), next_id=1)
    following = col(IdBlock.next_id) + new.excluded.next_id
    statement = DriverStatement(
        new.on_conflict_do_update(index_elements=["name"], set_={"next_id": following})
    )
    texts = [told(statement, dialect, table="a")[0] for dialect in (SQLITE, POSTGRES)]
    for text in texts:
        assert text.partition("ON CONFLICT")[2] == (
            " (name) DO UPDATE SET next_id = (id_block.next_id + excluded.next_id)"
        )


def test_a_list_that_would_change_the_text_is_refused() -> None:
    statement = DriverStatement(select(Task.id).where(col(Task.id).in_([1, 2])))
    with pytest.raises(AssertionError, match="in_list"):
        told(statement, SQLITE)


def test_rows_of_numbers_are_packed_by_the_server() -> None:
    plain = DriverStatement(
        select(Entry.id, Entry.record_id)
        .where(in_list(Entry.id, "ids"))
        .order_by(col(Entry.id))
    )
    text, values = told(plain.packed(), POSTGRES, ids=[1])
    assert text.startswith("SELECT string_agg(int8send(CAST(anon_1.id AS BIGINT)) ||")
    assert text.endswith("ORDER BY entry.id) AS anon_1")
    assert values == [[1]]
    assert plain.packed() is plain.packed()


def test_safety_24_no_value_is_written_into_a_statement():
    """What is put together are names of ours: a pragma, a lock's kind, a bound."""
    calls = [
        node
        for path in (Path(dispatcher.__file__).parent / "store").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and node.args
        if ast.unparse(node.func).rpartition(".")[2] in RUN_SQL
    ]
    assert len(calls) > 200
    put_together = {
        ast.unparse(part.value)
        for call in calls
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.JoinedStr)
        for part in node.values
        if isinstance(part, ast.FormattedValue)
    }
    assert put_together == {"pragma", "FAULTS", "how", "name", "word"}
    assert not [one for one in calls if isinstance(one.args[0], ast.BinOp)]
