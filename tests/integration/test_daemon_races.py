"""Daemons that race for the last safe pair; the long form is ``make torture``."""

from tests.e2e.torture.races import run


def test_safety_38_of_two_to_four_daemons_never_both_get_the_last_safe_pair(
    store_url: str,
) -> None:
    told, wrong = run(store_url, races=30, seed=11)
    assert wrong == []
    assert told["granted"] > 10
    assert told["refused by the gate"] > 3
    assert told["refused for its epoch"] > 3
