"""The counters of a plan under construction, on two tapes: integers z and reals r.

A field is a run of numbers; ``z[FIELD]`` is where it starts, on z or on r. Tables are
laid out row by row, so that ``load`` of unit q at hand h is
``z[z[LOAD] + q * z[H] + h]``. Below the size at which kernels are compiled the tapes
are lists, which plain Python reads faster than arrays.

Fields of z
    CHOSEN (n, k), DEGREE (n), GIVEN (k), COPIES (n, h), LOAD (q, h), PART (slots, h),
    ATTAIN (h), ABOVE (q) change with the plan. COPIES: how often a hand holds an entry, history
    included. PART: entries held of a class; sum of squares of an end of a link. ATTAIN:
    how many units have the hand's level. ABOVE: hands that see the unit above a count's
    level, where a unit counts once.
    ROW_START (n + 1), ROW_UNIT, ROW_AMOUNT, ROW_SLOT, ROW_MATE: the rows of each entry,
    by unit; its class in PART or the end of its link; the entry at the same place at
    the other end, or -1. MASS (n): counts of a link's entries. UNIT_START, UNIT_ENTRY,
    UNIT_AMOUNT: the entries of each unit. KIND, FULL, CAP, COUNTED (q): COUNTED units are part of f.
    JUDGED (q, h). SEEN_START (k + 1), SEEN: hands that see an adversary. ABLE (n, k),
    LO, HI (n), ROOM (k).
    For global constructions: OPEN (n, k), pairs that no limit bars; ORDER (2, k,
    n), entries by weight for both sweeps; HEAD (2, k), where the sweeps start; STAMP (n); NEAR_START,
    NEAR: adversaries who share a hand.
Fields of r
    OTHER (k), LEVEL (h) and MEAN (caps, h) change with the plan. OTHER: highest level of the other hands. LEVEL (h): f of one hand. MEAN (caps,
    h), LIMIT (caps, h), WEIGHT (caps, q): caps on means. OVER (h): what a hand's sum
    of f is divided by for its mean. FACTOR (q): weights of an aggregate. SAVED (2, h): scratch. WORTH
    (n, k). VALUE, WHOLES (n, k): what was seen of each pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Ints

Floats = npt.NDArray[np.float64]

# kinds of units
STEP, LINEAR, QUADRATIC, CLASSES, COSINE, COMMON = range(6)

# what a gain's value is: the highest f that the pair makes; what it adds to its
# adversary's mean; f after the pair, by trying it
BY_WORST, BY_MEAN, BY_TRIAL = range(3)

# what a unit adds to an aggregate: nothing (there is none); its weight times f, f to the
# power of ROOT, or 1 above the level BAR, for each hand or for any
PLAIN, SCALED, POWERED, COUNTING, SHARED = range(5)

# numbers at the start of r: f, u, (unit, hand) with f = 1, copies missing; CEILING: what
# f may be at most
F, U, WHOLE, MISSING, LAMBDA, TAU, BAR, CEILING, _REALS = range(9)

# numbers at the start of z. CAREFUL: limits are checked by trying; FALLING: f can fall
# when an entry is added (cosine); SUMMED: an aggregate adds hands up
N, K, H, Q, CAPS, MODE, AVERAGE, PAPER, CAPPED, CAREFUL, FALLING = range(11)
FOLD, SUMMED, ROOT, _WORDS = range(11, 15)

# then where each field starts
CHOSEN, DEGREE, GIVEN, COPIES, LOAD, PART, ATTAIN, ABOVE = range(15, 23)
OTHER, LEVEL, MEAN, SAVED, LIMIT, WEIGHT, FACTOR, OVER = range(23, 31)
WORTH, VALUE, WHOLES = range(31, 34)
ROW_START, ROW_UNIT, ROW_AMOUNT, ROW_SLOT, ROW_MATE, MASS = range(34, 40)
UNIT_START, UNIT_ENTRY, UNIT_AMOUNT, KIND, FULL, CAP, COUNTED, JUDGED = range(40, 48)
SEEN_START, SEEN, ABLE, LO, HI, ROOM = range(48, 54)
OPEN, ORDER, HEAD, STAMP, NEAR_START, NEAR, _FIELDS = range(54, 61)

_REAL: Final = range(OTHER, ROW_START)  # fields of r


class Tape:
    """Two tapes made of fields.

    Parameters
    ----------
    words : mapping of int to int
        Numbers at the start of z.
    reals : mapping of int to float
        Numbers at the start of r.
    fields : mapping of int to array
        Every field by its constant; missing ones are empty.
    listed : bool
        Whether the tapes are lists.

    Attributes
    ----------
    z, r
        The tapes, changed by kernels.
    """

    def __init__(
        self,
        words: Mapping[int, int],
        reals: Mapping[int, float],
        fields: Mapping[int, npt.ArrayLike],
        *,
        listed: bool,
    ) -> None:
        shaped = {f: np.asarray(a) for f, a in fields.items()}
        real = {f: a for f, a in shaped.items() if f in _REAL}
        whole = {f: a for f, a in shaped.items() if f not in _REAL}
        self._shape = {f: a.shape for f, a in shaped.items()}
        start = np.zeros(_FIELDS, np.int64)
        z: npt.NDArray[Any] = _laid(start, whole, _FIELDS, np.int64)
        r: npt.NDArray[Any] = _laid(start, real, _REALS, np.float64)
        z[:_FIELDS] = start
        for at, word in words.items():
            z[at] = word
        for at, number in reals.items():
            r[at] = number
        self._at = start.tolist()
        self._ends = (self._at[ROW_START], self._at[SAVED])
        self.z: Any = z.tolist() if listed else z
        self.r: Any = r.tolist() if listed else r
        self.keep()

    def keep(self) -> None:
        """Remember the plan as it is, for :meth:`reset`."""
        self._kept = _trimmed(self.z, self._ends[0]), _trimmed(self.r, self._ends[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the tapes and of what is kept; compiled size where they are lists."""
        return 8 * (len(self.z) + len(self.r) + sum(map(len, self._kept)))

    def reset(self) -> None:
        """Go back to what was kept."""
        runs = zip((self.z, self.r), self._kept, self._ends, strict=True)
        for tape, kept, end in runs:
            tape[: len(kept)] = kept
            blank = type(tape[0])()
            rest = [blank] * (end - len(kept)) if isinstance(tape, list) else blank
            tape[len(kept) : end] = rest

    def write(self, field: int, values: npt.NDArray[Any], at: int = 0) -> None:
        """Overwrite a field from its number ``at`` on."""
        tape, at = self.r if field in _REAL else self.z, self._at[field] + at
        flat = values.reshape(-1)
        tape[at : at + len(flat)] = flat.tolist() if isinstance(tape, list) else flat

    def read(self, field: int) -> npt.NDArray[Any]:
        """Return a copy of a field as an array of its shape."""
        tape = self.r if field in _REAL else self.z
        shape = self._shape[field]
        at = self._at[field]
        size = int(np.prod(shape))
        return np.array(tape[at : at + size]).reshape(shape)


def _laid(
    start: Ints, fields: Mapping[int, npt.NDArray[Any]], at: int, kind: type
) -> npt.NDArray[Any]:
    """Lay fields one after another from ``at``, and note where each starts."""
    size = at + sum(field.size for field in fields.values())
    tape: npt.NDArray[Any] = np.zeros(size, kind)
    for one in sorted(fields):
        field, start[one] = fields[one], at
        tape[at : at + field.size].reshape(field.shape)[...] = field
        at += field.size
    return tape


def _trimmed(tape: Any, end: int) -> Any:  # noqa: ANN401 - a list or an array
    """Copy a tape's beginning, up to what is zero until ``end``."""
    return tape[: int(np.max(np.flatnonzero(tape[:end]), initial=-1)) + 1].copy()
