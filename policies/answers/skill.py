"""The assumed skill of a worker: before anything is known, and after gold questions."""

from __future__ import annotations

from typing import Final

EXPECTED_RIGHT: Final = 0.8
"""Expected share of right answers of a worker of whom nothing is known."""

GOLD_PRIOR: Final = 5.0
"""Weight of this expectation, in answers known to be right or wrong. (Consensus, which
only estimates what is right, gives it twenty.)"""


def gold_accuracy(right: int, asked: int) -> float:
    """Estimate a worker's accuracy from questions with a known answer.

    The mean of the Beta posterior with the prior Beta(4, 1).

    Parameters
    ----------
    right, asked : int
        0 <= right <= asked.

    Returns
    -------
    float in (0, 1)

    Raises
    ------
    ValueError
        If `right` is negative or more than `asked`.
    """
    if not 0 <= right <= asked:
        msg = f"{right} of {asked} right, expected 0 <= right <= asked"
        raise ValueError(msg)
    return (GOLD_PRIOR * EXPECTED_RIGHT + right) / (GOLD_PRIOR + asked)
