"""The grammar of filters: what each word of it leaves."""

import pytest

from dispatcher.surfaces.filters import Filter

ROWS = (
    {"id": 1, "connector": "mturk", "state": "dead", "tries": 12, "at": "2026-11-01T"},
    {"id": 2, "connector": "mturk", "state": "ready", "tries": 0, "at": "2026-11-03T"},
    {"id": 3, "connector": "in house", "state": "dead", "tries": None, "at": None},
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", {1, 2, 3}),
        ("connector:mturk", {1, 2}),
        ("connector:MT", {1, 2}),
        ("connector:mturk state:dead", {1}),
        ('connector:"in house"', {3}),
        ("-state:dead", {2}),
        ("tries>0", {1}),
        ("tries>=0", {1, 2}),
        ("tries<12", {2}),
        ("tries<=12 -tries<1", {1}),
        ("at>=2026-11-02", {2}),
        ("house", {3}),
        ("-house DEAD", {1}),
        ("tries>few", set()),
    ],
)
def test_words_of_a_filter_all_hold(text, left):
    asked = Filter.read(text, ROWS[0])
    assert {row["id"] for row in ROWS if asked.matches(row)} == left
    assert asked.unknown == ()


def test_a_name_that_is_no_column_is_known_as_such():
    assert Filter.read("stat:dead http://x", ROWS[0]).unknown == ("stat", "http")


def test_a_list_holds_what_one_of_its_items_holds():
    assert Filter.read("roles:view", ["roles"]).matches({"roles": ["admin", "viewer"]})
