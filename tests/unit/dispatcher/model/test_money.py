"""A budget's arithmetic: room, the day's allowance, and what a market adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.money import DAY, UNIT, Budget

AMOUNTS = st.integers(0, 10**12)


def budget(**values) -> Budget:
    """A budget of 100 with a bonus of 10, of which nothing is taken yet."""
    given_ = {"run_id": 1, "currency": "GBP", "cap": 100, "bonus": 10, **values}
    return Budget(**given_)


@given(AMOUNTS, st.integers(0, UNIT))
def test_a_fee_is_rounded_up_by_less_than_one_part(amount, fee):
    added = budget(fee=fee).fee_of(amount)
    assert added * UNIT >= amount * fee > (added - 1) * UNIT


def test_a_market_that_pays_adds_its_fee_to_a_bonus():
    one = budget(fee=UNIT // 3)
    assert one.bonus_with_fee(at_market=False) == 10
    assert one.bonus_with_fee(at_market=True) == 10 + 4


def test_the_room_is_the_least_of_cap_and_day():
    now = 3 * DAY
    assert budget(taken=30).room(now) == 70
    assert budget(taken=30, per_day=50, day=3, day_taken=20).room(now) == 30
    assert budget(taken=95, per_day=50, day=3, day_taken=20).room(now) == 5
    assert budget(cap=20, taken=30).room(now) == -10  # the cap was lowered since


@pytest.mark.parametrize(
    ("day", "taken"), [(3, 20), (2, 0), (4, 20)], ids=["today", "yesterday", "put back"]
)
def test_an_allowance_begins_anew_at_midnight_and_never_twice(day, taken):
    """A clock that was put back gives no second allowance for the same day."""
    assert budget(day=day, day_taken=20).taken_today(3 * DAY + 5) == taken


def test_the_last_moment_of_a_day_is_of_that_day():
    one = budget(per_day=50, day=2, day_taken=50)
    assert one.used_up(3 * DAY - 1) == "day"
    assert one.used_up(3 * DAY) == ""


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"taken": 90}, ""),
        ({"taken": 91}, "cap"),
        ({"per_day": 30, "day_taken": 20}, ""),
        ({"per_day": 30, "day_taken": 21}, "day"),
        ({"taken": 91, "per_day": 30, "day_taken": 21}, "cap"),
        ({"bonus": 0, "reward": 60, "taken": 41}, "cap"),  # a whole piece of work
        ({"bonus": 0, "taken": 99}, ""),
        ({"bonus": 0, "taken": 100}, "cap"),
    ],
)
def test_a_budget_is_used_up_when_the_next_price_does_not_fit(values, word):
    assert budget(**values).used_up(0) == word
