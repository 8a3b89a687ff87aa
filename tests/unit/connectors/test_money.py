"""Exact amounts, and payments that cannot be built wrong."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connectors.base import Money, Pay, PayKind, Progress, Submission

PENCE = Money(Decimal("0.12"), "GBP")


@pytest.mark.parametrize("text", ["GBP:0.12", "JPY:120", "KWD:0.125", "USD:0"])
def test_an_amount_is_read_as_it_is_written(text):
    assert str(Money.read(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "0.12", "gbp:1", "GBP:-1", "GBP:1e3", "GBP:1,50", "GBP:٣", "GBP:1.0000001",
     "GBP:9999999999", " GBP:1", "GBP:1 ", "GBP:NaN", "GBPX:1", "GBP:.5", "GBP:5."],
)  # fmt: skip
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        Money.read(text)


@pytest.mark.parametrize(
    "amount", [0.12, 12, Decimal("-0.01"), Decimal("NaN"), Decimal("Infinity"),
               Decimal("0.0000001"), Decimal(10**9 + 1)],
)  # fmt: skip
def test_only_exact_amounts_that_can_be_paid_are_money(amount):
    with pytest.raises(ValueError, match="amount is"):
        Money(amount, "GBP")


def test_hundredths_are_whole_or_none():
    assert PENCE.in_parts(100) == 12
    assert Money.read("GBP:0.125").in_parts(100) is None


@pytest.mark.parametrize(
    "change",
    [{"key": ""}, {"key": "A"}, {"key": "x" * 65}, {"submission": ""},
     {"reference": ""}, {"account": ""}, {"reward": Money(Decimal(0), "GBP")}],
)  # fmt: skip
def test_a_payment_names_what_is_paid(change):
    whole = {"key": "k-1", "kind": PayKind.BONUS, "submission": "s1",
             "reference": "st1", "account": "ann", "reward": PENCE}  # fmt: skip
    assert Pay(**whole).reward == PENCE
    with pytest.raises(ValueError, match="expected"):
        Pay(**(whole | change))


@pytest.mark.parametrize("name", ["id", "reference", "account"])
def test_a_submission_names_itself(name):
    whole = {"id": "s1", "reference": "st1", "account": "ann",
             "progress": Progress.OPEN}  # fmt: skip
    with pytest.raises(ValueError, match=name):
        Submission(**(whole | {name: ""}))
