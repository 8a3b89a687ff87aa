"""What the parser cannot take is told with its place."""

import pytest

from policies.document import parse

FILE = """version = 1
name = "forms"
[entity.form]
key = "rx_id"
[entity.form.fields]
"""


@pytest.mark.parametrize(
    ("line", "column", "length"),
    [
        ('"a\\u0000b" = { ask = "date" }', 3, 6),
        ('zip = { ask = "date", help = "a\\U00000000" }', 32, 10),
        ('zip = { ask = "choose", choices = ["\\u0000", "b"] }', 37, 6),
    ],
)
def test_a_nul_is_refused_where_it_is_written(line, column, length):
    result = parse(f"{FILE}{line}\n".encode())
    assert result.policy is None
    [found] = result.diagnostics
    assert found.code == "POL001"
    assert (found.line, found.column, found.mark) == (6, column, length)


def test_a_nul_that_is_only_spoken_of_is_no_nul():
    text = FILE + "zip = { ask = \"date\", help = 'write \\u0000' }  # \\u0000\n"
    assert parse(text.encode()).policy is not None
