"""The bulk writer knows the types of the model's columns."""

import pytest

from dispatcher.model import metadata
from dispatcher.store.bulk import column_types, quoted


def test_every_column_of_the_model_has_a_type_for_copy() -> None:
    for name, table in metadata.tables.items():
        columns = tuple(column.name for column in table.columns)
        assert len(column_types(name, columns)) == len(columns)


def test_types_are_named_as_postgres_names_them() -> None:
    columns = ("id", "name", "invite", "quality")
    assert column_types("account", columns) == ("int8", "text", "int8", "float8")
    assert column_types("ledger_line", ("showing", "hash")) == ("int2", "bytea")


def test_an_unknown_table_or_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no table nowhere"):
        column_types("nowhere", ("id",))
    with pytest.raises(ValueError, match="no column nothing"):
        column_types("run", ("id", "nothing"))


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a;b", "A", "1a", "ä"])
def test_a_name_that_is_none_of_ours_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        quoted(name)
