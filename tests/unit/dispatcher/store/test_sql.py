"""One text serves both databases."""

import pytest

from dispatcher.store.sql import postgres_statement, quoted, sqlite_statement


def test_sqlite_takes_a_list_as_one_json_text() -> None:
    statement = "SELECT 1 FROM t WHERE a = ANY(?) AND b <> ALL (?) AND c = ?"
    text, parameters = sqlite_statement(statement, [[1, 2], ("x", "ü"), 3])
    assert text == (
        "SELECT 1 FROM t WHERE a IN (SELECT value FROM json_each(?))"
        " AND b NOT IN (SELECT value FROM json_each(?)) AND c = ?"
    )
    assert parameters == ["[1, 2]", '["x", "\\u00fc"]', 3]


@pytest.mark.parametrize(
    "lock",
    [
        "FOR UPDATE",
        "FOR SHARE",
        "FOR NO KEY UPDATE",
        "FOR KEY SHARE",
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE NOWAIT",
        "FOR UPDATE OF t SKIP LOCKED",
    ],
)
def test_sqlite_takes_no_row_locks(lock: str) -> None:
    inner = f"(SELECT id FROM t ORDER BY id LIMIT 1 {lock})"
    text, _ = sqlite_statement(f"UPDATE t SET a = 1 WHERE id IN {inner}", [])
    assert text == (
        "UPDATE t SET a = 1 WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 1)"
    )


def test_a_statement_without_lists_keeps_its_parameters_as_they_are() -> None:
    given = (1, b"x")
    text, parameters = sqlite_statement("SELECT ?, ?", given)
    assert (text, parameters) == ("SELECT ?, ?", given)


def test_psycopg_takes_percent_marks_and_doubled_percent_signs() -> None:
    text, _ = postgres_statement("SELECT a % 2 FROM t WHERE b LIKE 'x%' AND c = ?", [1])
    assert text == "SELECT a %% 2 FROM t WHERE b LIKE 'x%%' AND c = %s"


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a;b", "A", "1a", "ä"])
def test_a_name_that_is_none_of_ours_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        quoted(name)
