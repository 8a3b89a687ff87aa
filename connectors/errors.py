"""Errors of connectors, classed by what the caller should do next."""

from __future__ import annotations


class ConnectorError(Exception):
    """Base class of intended connector errors. No message contains content.

    Parameters
    ----------
    what, why, fix : str
        What happened; the reason; what the operator can do about it.
    """

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix


class TryLater(ConnectorError):
    """The same call may succeed later: throttled, unreachable, full, busy.

    Parameters
    ----------
    after : float
        Seconds to wait before the next call, >= 0.
    certain : bool
        Whether it is certain that nothing was done; otherwise it may have been done.
    """

    def __init__(
        self,
        what: str,
        *,
        after: float = 60.0,
        why: str = "",
        fix: str = "",
        certain: bool = False,
    ) -> None:
        super().__init__(what, why=why, fix=fix)
        self.certain = certain
        if not after >= 0:
            raise ValueError(f"after is {after!r}, expected seconds >= 0")
        self.after = after

    def as_certain(self) -> TryLater:
        """Return the same error, with nothing done for certain."""
        return TryLater(
            self.what, after=self.after, why=self.why, fix=self.fix, certain=True
        )


class Rejected(ConnectorError):
    """Do not repeat: this very call cannot succeed; others may."""


class Misconfigured(ConnectorError):
    """No call will succeed until the operator corrects the configuration."""


def expect(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise a ValueError with the value and the expectation unless `holds`."""
    if not holds:
        raise ValueError(f"{name} is {value!r}, expected {expected}")
