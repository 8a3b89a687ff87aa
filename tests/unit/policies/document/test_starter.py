"""A suggested policy passes every check, whatever the columns are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.document import Column, parse, starter


def read(text: str):
    result = parse(text.encode())
    assert result.diagnostics == (), (text, result.diagnostics)
    return result.policy


def test_sensitive_columns_are_kept_apart_for_one_person():
    columns = [
        Column("patient_name", sensitive=True),
        Column("birth_date", "date", quasi=True),
        Column("zip", quasi=True),
        Column("disease", sensitive=True),
        Column("rx_id"),
    ]
    policy = read(starter("prescription", "rx_id", "patient_id", columns))
    rules = policy.properties
    assert set(rules) == {"patient_name+disease", "quasi-identifier"}
    assert rules["patient_name+disease"].scope == "subject"
    assert rules["quasi-identifier"].alternatives == (("birth_date", "zip"),)
    assert policy.entity.fields["birth_date"].ask == "date"
    assert "rx_id" not in policy.entity.fields


def test_many_sensitive_columns_make_one_rule_of_any_two():
    columns = [Column(f"c{n}", sensitive=True) for n in range(8)]
    (rule,) = read(starter("x", "id", None, columns)).properties.values()
    assert rule.disclosure.at == 2


def test_one_sensitive_column_is_kept_apart_from_each_other():
    columns = [Column("vendor"), Column("iban", sensitive=True), Column("amount")]
    rules = read(starter("invoice", "id", "person", columns)).properties
    assert set(rules) == {"iban+vendor", "iban+amount"}
    assert all(rule.scope == "subject" for rule in rules.values())


def test_with_nothing_sensitive_the_whole_record_is_kept_apart():
    (rule,) = read(
        starter("x", "id", None, [Column("a"), Column("b")])
    ).properties.values()
    assert rule.fields == {"a", "b"}


@pytest.mark.parametrize(
    ("entity", "key", "columns"),
    [("", "k", [Column("a")]), ("x", "", [Column("a")]), ("x", "k", []), ("x", "k", [Column("")])],
)  # fmt: skip
def test_what_can_be_no_policy_is_refused(entity, key, columns):
    with pytest.raises(ValueError, match="expected"):
        starter(entity, key, None, columns)


_NAMES = st.text(
    st.one_of(st.sampled_from("a+.\"'\\#=\n\t é"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    min_size=1,
    max_size=5,
)  # fmt: skip
_COLUMNS = st.builds(
    Column, _NAMES, st.sampled_from(["text", "date", "x"]), st.booleans(), st.booleans()
)


@given(_NAMES, _NAMES, st.none() | _NAMES, st.lists(_COLUMNS, min_size=2, max_size=7))
def test_any_names_make_a_policy_without_errors(entity, key, subject, columns):
    left = {c.name for c in columns} - {key, subject}
    if left:
        result = parse(starter(entity, key, subject, columns).encode())
        assert result.errors == 0, result.diagnostics
        assert set(result.policy.entity.fields) == left
