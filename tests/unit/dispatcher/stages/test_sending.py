"""How long a message that could not be sent waits."""

import pytest

from dispatcher.stages.sending import SendingTerms, backoff


def test_waits_double_up_to_an_hour_and_are_spread():
    assert [backoff(n, 0) // 1_000_000 for n in (1, 2, 3, 12, 99)] == [
        2, 4, 8, 3600, 3600,
    ]  # fmt: skip
    assert len({backoff(5, n) for n in range(8)}) == 8
    assert all(backoff(3, n) >= backoff(3, 0) * 3 // 4 for n in range(8))
    with pytest.raises(ValueError, match="attempts is 0"):
        SendingTerms(attempts=0)
