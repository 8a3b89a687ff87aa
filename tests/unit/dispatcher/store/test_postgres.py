"""The address of a PostgreSQL store is checked before anything is dialled."""

import pytest

from dispatcher.core.errors import Invalid, Usage
from dispatcher.store.postgres import connection_facts


def test_the_parts_of_an_address_are_found() -> None:
    facts = connection_facts(
        "postgresql://ann@db.example:6432/work?sslmode=verify-full",
        password_allowed=False,
    )
    assert facts == {
        "user": "ann",
        "host": "db.example",
        "port": "6432",
        "dbname": "work",
        "sslmode": "verify-full",
    }


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+psycopg"])
def test_other_spellings_of_the_scheme_mean_the_same(scheme: str) -> None:
    facts = connection_facts(f"{scheme}://db.example/work", password_allowed=False)
    assert facts == {"host": "db.example", "dbname": "work"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@db.example/work",
        "postgresql://db.example/work?user=ann&password=hunter2",
    ],
)
def test_a_password_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(Usage) as refused:
        connection_facts(url, password_allowed=False)
    error = refused.value
    assert "hunter2" not in f"{error.what}{error.why}{error.fix}{error.facts}"
    assert "DISPATCHER_STORE_FILE" in error.fix
    assert connection_facts(url, password_allowed=True)["password"] == "hunter2"


@pytest.mark.parametrize(
    "url", ["postgresql://db.example", "postgresql://db.example/", "postgresql://"]
)
def test_an_address_without_a_database_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="names no database"):
        connection_facts(url, password_allowed=False)


def test_a_malformed_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(Invalid, match="malformed") as refused:
        connection_facts("postgresql://ann:hunter2@[::1/work", password_allowed=True)
    assert "hunter2" not in str(refused.value)
