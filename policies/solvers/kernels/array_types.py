"""Types of the arrays that kernels take: C-contiguous, of 64 bits or truths, by axes."""

from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints

__all__ = [
    "Bools",
    "Bools2",
    "Floats",
    "Floats2",
    "Floats3",
    "Ints",
    "Ints2",
    "Ints3",
]

Bools2 = Bools
Floats2 = Floats
Floats3 = Floats
Ints2 = Ints
Ints3 = Ints
