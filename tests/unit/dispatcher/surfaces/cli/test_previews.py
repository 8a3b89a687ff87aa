"""What previews of a change say to people and to ``--json``."""

from types import SimpleNamespace

import pytest

from dispatcher.surfaces.cli.previews import (
    LISTED,
    count,
    findings,
    lines,
    open_numbers,
    open_words,
)


def finding(**values):
    known = {"adversary": "a1", "rule": "both", "record": None, "subjects": ()}
    return SimpleNamespace(**known | values)


def recall(unsafe=0, lost=(), lost_at=()):
    return SimpleNamespace(
        unsafe=unsafe, unsent=[1], shown=[2, 3], outside=[], lost=lost, lost_at=lost_at
    )


def done(tasks=0, beside=0, left=0):
    return SimpleNamespace(tasks=tasks, beside=beside, left=left)


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("set",), "0 sets"),
        (1, ("set",), "1 set"),
        (1200, ("set",), "1,200 sets"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_a_number_has_its_noun(number, words, text):
    assert count(number, *words) == text


def test_findings_name_the_record_or_part_of_the_pseudonyms():
    found = findings(
        [
            finding(record="r1", subjects=("0123456789abcdef",)),
            finding(subjects=("0123456789abcdef", "fedcba9876543210")),
            finding(),
        ]
    )
    assert [one.get("record") for one in found] == ["r1", None, None]
    assert [one.get("subject") for one in found] == [
        None,
        "0123456789ab… and fedcba987654…",
        None,
    ]
    assert lines(found) == [
        "    a1  both  record r1",
        "    a1  both  subject 0123456789ab… and fedcba987654…",
        "    a1  both  the mean over all its sets",
    ]


def test_so_many_findings_are_listed_and_the_others_counted():
    every = findings([finding(record=f"r{n}") for n in range(LISTED + 3)])
    assert len(lines(every[:LISTED])) == LISTED
    assert lines(every)[LISTED:] == ["    and 3 more (--json has all)"]


@pytest.mark.parametrize(
    ("found", "after", "ahead", "text"),
    [
        (recall(), done(), True, "0 open tasks may not be finished"),
        (recall(1), done(1), True,
         "1 open task may not be finished: 1 will be recalled"),
        (recall(3), done(3, 1), False,
         "3 open tasks may not be finished: 2 were recalled "
         "(with 1 other of the same messages)"),
        (recall(3), done(1, 0, 2), False,
         "3 open tasks may not be finished: 1 were recalled; 2 go on"),
        (recall(2, (5,), ("x", "y")), done(1, 0, 1), True,
         "2 open tasks may not be finished: 1 will be recalled; 1 goes on "
         "(x, y cannot take tasks back)"),
    ],
)  # fmt: skip
def test_what_becomes_of_open_tasks_is_said(found, after, ahead, text):
    assert open_words(found, after, ahead=ahead) == text


def test_json_counts_the_open_tasks():
    assert open_numbers(recall(2, (7,), ("x",)), done(3, 1, 2)) == {
        "unsafe": 2,
        "unsent": 1,
        "shown": 2,
        "outside": 0,
        "lost": 1,
        "lost_at": ["x"],
        "recalled": 3,
        "beside": 1,
        "left": 2,
    }
