"""Measures: the disclosure functions of loads, one row each (paper, section 4).

To add one, add a row to :data:`MEASURES`. Policies, instance files and the library then
accept its name; the judge, the exact models, the bounds and the compiled searches use
its power. The verifier shares no code, so it has its own table (``POWERS`` in
``dispatcher/verifier.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final


@dataclass(frozen=True)
class Measure:
    """How f follows from the load of one set.

    f = (min(load, full) / full) ** power; a step is 1 from ``full`` on and 0 below.

    Attributes
    ----------
    name : str
        Its name in policies, instance files, the library and messages.
    power : int
        >= 1; 0 for a step.
    """

    name: str
    power: int

    STEP: ClassVar[Measure]
    LINEAR: ClassVar[Measure]
    QUADRATIC: ClassVar[Measure]

    def __post_init__(self) -> None:
        if self.power < 0:
            raise ValueError(f"{self.name} has power {self.power}, expected >= 0")

    @property
    def is_step(self) -> bool:
        """Whether f is 0 or 1, so that weights have no meaning."""
        return self.power == 0

    def numerator(self, load: int, full: int) -> int:
        """F of one set at this load, times ``full ** power``."""
        held = min(load, full)
        return int(held == full) if self.is_step else held**self.power

    def disclosure(self, load: int, full: int) -> Fraction:
        """F of one set at this load, exactly, 0 to 1."""
        return Fraction(self.numerator(load, full), full**self.power)


MEASURES: Final = {
    measure.name: measure
    for measure in (
        Measure("step", 0),
        Measure("linear", 1),
        Measure("quadratic", 2),
    )
}
"""All measures by their names."""

Measure.STEP = MEASURES["step"]
Measure.LINEAR = MEASURES["linear"]
Measure.QUADRATIC = MEASURES["quadratic"]
