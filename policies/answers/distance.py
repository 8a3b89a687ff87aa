"""Bounded edit distance by bit vectors, and medoids of texts.

References
----------
G. Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic
programming", J. ACM 46 (1999); in the form of H. Hyyrö (2003). Python's integers are
the bit vectors, so one row of the table costs len(a) / 64 machine words.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_COMPARED = 4_096


def edit_distance(a: str, b: str, bound: int | None = None) -> int:
    """Count the insertions, deletions and substitutions that turn `a` into `b`.

    Parameters
    ----------
    a, b : str
    bound : int, optional
        Stop early: any result > `bound` only says that the distance is > `bound`.

    Returns
    -------
    int
        In 0..max(len(a), len(b)).
    """
    a, b = _without_same_ends(a, b)
    if len(a) < len(b):
        a, b = b, a
    limit = len(a) if bound is None else bound
    if not b or len(a) - len(b) > limit:
        return len(a) if not b else len(a) - len(b)
    # `b` is the pattern: bit i of the masks stands for its i-th character
    places: dict[str, int] = {}
    for index, char in enumerate(b):
        places[char] = places.get(char, 0) | 1 << index
    full = (1 << len(b)) - 1
    top = 1 << (len(b) - 1)
    plus, minus, score = full, 0, len(b)
    for column, char in enumerate(a, start=1):
        same = places.get(char, 0)
        diagonal = (((same & plus) + plus) ^ plus) | same | minus
        rise = minus | (full & ~(diagonal | plus))
        fall = plus & diagonal
        score += bool(rise & top) - bool(fall & top)
        if score - (len(a) - column) > limit:
            return score - (len(a) - column)
        rise = (rise << 1 | 1) & full
        fall = (fall << 1) & full
        plus = fall | (full & ~(diagonal | rise))
        minus = rise & diagonal
    return score


def _without_same_ends(a: str, b: str) -> tuple[str, str]:
    shorter = min(len(a), len(b))
    start = 0
    while start < shorter and a[start] == b[start]:
        start += 1
    end = 0
    while end < shorter - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return a[start : len(a) - end], b[start : len(b) - end]


def similarity(a: str, b: str) -> float:
    """Return the similarity of two texts: 1 - distance / longer length, in [0, 1].

    Texts longer than 4,096 characters are compared by their first 4,096.
    """
    a, b = a[:MAX_COMPARED], b[:MAX_COMPARED]
    longer = max(len(a), len(b))
    return 1.0 - edit_distance(a, b) / longer if longer else 1.0


def medoid(texts: Sequence[str], weights: Sequence[float]) -> int:
    """Return the text with the highest weighted similarity to all; the first on a tie.

    Parameters
    ----------
    texts : sequence of str, shape (n,)
        At least one.
    weights : sequence of float, shape (n,)
        >= 0: how much each text counts.

    Returns
    -------
    int
        Index into `texts`.
    """
    count = len(texts)
    near = [[1.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            near[i][j] = near[j][i] = similarity(texts[i], texts[j])
    scores = [
        sum(w * s for w, s in zip(weights, near[i], strict=True)) for i in range(count)
    ]
    best = max(scores)
    return next(i for i, score in enumerate(scores) if score >= best - 1e-12)
