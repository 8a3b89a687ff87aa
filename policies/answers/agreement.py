"""How far several answers to one thing agree, beyond what chance alone would give.

References
----------
K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", University of
Pennsylvania (2011), section C: nominal data, any number of observers, missing data. With
two observers who answer everything it is, but for small samples, Scott's pi; unlike
Cohen's and Fleiss' kappa it takes any number of answers for each thing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Reliability:
    """How far answers agree.

    Attributes
    ----------
    units : int
        Things with at least two answers: the others tell nothing.
    answers : int
        Answers to them.
    observed : float or None
        Share of the pairs of answers to one thing that are the same; None without one.
    alpha : float or None
        1: all agree; 0: as by chance; below: they avoid one another. None where every
        answer is the same, so that chance could not tell.
    """

    units: int
    answers: int
    observed: float | None
    alpha: float | None


def reliability(units: _Ints, labels: _Ints) -> Reliability:
    """Measure how far the answers to some things agree.

    Parameters
    ----------
    units, labels : ndarray, shape (answers,), int64
        Row i: this label was given to this unit; both are numbered from 0.

    Raises
    ------
    ValueError
        Arrays of different shape.
    """
    if units.shape != labels.shape:
        raise ValueError(
            f"units and labels have shapes {units.shape} and {labels.shape}, expected "
            "the same"
        )
    given = np.bincount(units) if units.size else np.zeros(0, np.int64)
    paired = given[units] > 1
    units, labels = units[paired], labels[paired]
    if not units.size:
        return Reliability(0, 0, None, None)
    number = units.size
    cells, counts = np.unique(np.stack((units, labels)), axis=1, return_counts=True)
    pairs = counts * (counts - 1)
    same = float((pairs / (given[cells[0]] - 1)).sum())  # the coincidences o_cc
    several = given[given > 1]
    by_label = np.bincount(labels)
    expected = float((by_label * (by_label - 1)).sum()) / (number * (number - 1))
    alpha = 1 - (1 - same / number) / (1 - expected) if expected < 1 else None
    observed = float(pairs.sum() / (several * (several - 1)).sum())
    return Reliability(int(several.size), number, observed, alpha)
