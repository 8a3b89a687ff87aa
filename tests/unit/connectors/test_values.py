"""Illegal values cannot be built; a message names the value and what was expected."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from connectors.base import (
    Answer,
    Arrival,
    Collected,
    Form,
    Handle,
    Identity,
    Item,
    Limits,
    Manifest,
    Offer,
    Outcome,
    Preview,
    Rejected,
    Role,
    TryLater,
)
from connectors.testing.hostile import MEMORY

ITEM = Item("t1", Form("transcribe"), b"x")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Form("sing"), "ask is 'sing', expected one of transcribe"),
        (lambda: Form("choose"), "choices"),
        (lambda: Form("date", choices=("a",)), "choices"),
        (lambda: Form("table"), "columns"),
        (lambda: Item("a b"), "token is 'a b'"),
        (lambda: Item("", None), "token"),
        (lambda: Item("t", media_type="png"), "type/subtype"),
        (lambda: Offer("", account="a", items=(ITEM,)), "key"),
        (lambda: Offer("1", items=(ITEM,)), "exactly one of the two"),
        (lambda: Offer("1", account="a", audience="*", items=(ITEM,)), "exactly one"),
        (lambda: Offer("1", account="a"), "at least one"),
        (lambda: Offer("1", account="a", items=(ITEM, ITEM)), "no repeats"),
        (
            lambda: Offer(
                "1",
                account="a",
                items=(ITEM,),
                expires=datetime(2026, 1, 1),  # noqa: DTZ001
            ),
            "a zone",
        ),
        (lambda: Handle("1", ""), "reference"),
        (lambda: Handle("1", "a\0b"), "reference"),
        (lambda: Handle("1", "a\ud800"), "reference"),
        (lambda: Collected("a\0b"), "cursor"),
        (lambda: Arrival("", Identity.LOGIN), "an account, or none and preview"),
        (lambda: Arrival("a", Identity.LOGIN, preview=True), "none and preview"),
        (lambda: Answer("1", "t", "a", Outcome.RETURNED, "x"), "value is 'given'"),
        (lambda: Answer("", "t", "a"), "id"),
        (lambda: Limits(items=0), "items is 0, expected >= 1"),
        (lambda: Limits(per_minute=0), "per_minute"),
        (lambda: replace(MEMORY, name="My Market"), "lower-case"),
        (lambda: replace(MEMORY, preview=Preview.FULL), "nothing is assigned"),
        (lambda: TryLater("x", after=-1), "after is -1"),
    ],
)
def test_an_illegal_value_can_not_be_built(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_representations_hold_no_content_and_no_answer():
    told = repr(Offer("1", account="a", items=(Item("t", None, b"sekret"),)))
    told += repr(Answer("1", "t", "a", value="sekret"))
    assert "sekret" not in told


def test_a_manifest_refuses_what_it_can_not_carry():
    small = replace(MEMORY, limits=Limits(content_bytes=3))
    with pytest.raises(Rejected, match="4 bytes"):
        small.check(Offer("1", account="a", items=(replace(ITEM, content=b"1234"),)))
    with pytest.raises(Rejected, match="asks nothing"):
        MEMORY.check(Offer("1", account="a", items=(Item("t", None, b"x"),)))
    with pytest.raises(Rejected, match="needs the account"):
        MEMORY.check(Offer("1", audience="*", items=(ITEM,)))


def test_a_feed_holds_its_content():
    feed: Manifest = replace(MEMORY, role=Role.FEED)
    feed.check(Offer("1", account="a", items=(Item("t", None, b"x", label="name"),)))
