"""The locator finds every key and value that the standard parser finds."""

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.document.diagnostic import Span
from policies.document.locator import locate

TEXT = '''\
# comment with "quotes" and [brackets]
name = "x"                  # after
"quo.ted" . inner = 'lit#eral'
list = [1, [2.5, "a]b"], {k = true, "l m" = 1979-05-27 07:32:00}, # note
  3,
]
long = """
two
lines""""

[[test]]
name = "first"

[[test]]
name = "second"
  [test.facts]
  time.r = 07:32:00

[a."b.c"]
d = {}
'''


def test_places_are_counted_in_characters_from_one():
    found = locate(TEXT)
    assert found.value(("name",)) == Span(2, 8, 3)
    assert found.key(("quo.ted", "inner")) == Span(3, 13, 5)
    assert found.value(("list", 1, 1)) == Span(4, 18, 5)
    assert found.key(("list", 2, "l m")) == Span(4, 37, 5)
    assert found.value(("list", 3)) == Span(5, 3, 1)
    assert found.value(("test", 1, "name")) == Span(15, 8, 8)
    assert found.table(("test", 0)) == Span(11, 1, 1)
    assert found.key(("test", 1, "facts", "time", "r")) == Span(17, 8, 1)
    assert found.table(("a", "b.c")) == Span(19, 1, 1)


def test_a_place_that_is_not_written_falls_back_to_what_holds_it():
    found = locate(TEXT)
    assert found.key(("a", "b.c", "nowhere")) == Span(19, 1, 1)
    assert found.key(("nowhere",)) == Span(1, 1, 1)


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_LEAVES = st.one_of(
    st.integers(-5, 5), st.booleans(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


def quoted(text: str) -> str:
    inner = "".join(
        f"\\U{ord(c):08x}" if c in '"\\' or not c.isprintable() else c for c in text
    )
    return f'"{inner}"'


def written(value: object) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{quoted(k)} = {written(v)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + " ,\n ".join(map(written, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower()


def paths(value: object, at: tuple = ()):
    yield at, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, (*at, number))


@settings(max_examples=100)
@given(st.dictionaries(_NAMES, _VALUES, max_size=4), _NAMES)
def test_every_value_is_found_where_it_is_written(values, table):
    """Cut out of the text at its place, a value reads as itself."""
    body = "".join(f"{quoted(k)} = {written(v)}\n" for k, v in values.items())
    text = f"[{quoted(table)}]\n{body}[[ {quoted(table)}.{quoted('rows of')} ]]\n{body}"
    found, lines = locate(text), text.split("\n")
    for path, value in paths(tomllib.loads(text)):
        if path and not isinstance(value, dict | list):
            span = found.value(path)
            shown = lines[span.line - 1][span.column - 1 :][: span.length]
            assert tomllib.loads(f"v = {shown}")["v"] == value
