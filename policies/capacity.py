"""How much one account may be given: the ``[capacity]`` table, looked up."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from policies.document.policy import Policy

DEFAULT = "default"


@dataclass(frozen=True)
class Allowance:
    """What one account may be given; None is no limit.

    Attributes
    ----------
    total : int or None
        Entries over its lifetime.
    open : int or None
        Tasks that it may have in hand at once.
    per_day, per_hour : int or None
        Tasks in the last 24 hours, in the last hour.
    """

    total: int | None = None
    open: int | None = None
    per_day: int | None = None
    per_hour: int | None = None

    def room(self, given: int, live: int, day: int, hour: int) -> int | None:
        """How many tasks fit now.

        Parameters
        ----------
        given, live, day, hour : int
            Tasks ever given, in hand now, given in the last day, in the last hour.

        Returns
        -------
        int or None
            >= 0; None if nothing limits it.
        """
        caps = (
            (self.total, given),
            (self.open, live),
            (self.per_day, day),
            (self.per_hour, hour),
        )
        left = [max(0, cap - used) for cap, used in caps if cap is not None]
        return min(left) if left else None


def allowance(policy: Policy, account: str) -> Allowance:
    """Look up what an account may be given.

    For each key the smallest value of all rows whose glob matches the whole account
    holds; where none of them says anything, the row ``default`` does.
    """
    rows = [r for r in policy.capacities if r.worker != DEFAULT]
    matching = [r for r in rows if fnmatchcase(account, r.worker)]
    default = [r for r in policy.capacities if r.worker == DEFAULT]

    def value(key: str) -> int | None:
        for candidates in (matching, default):
            said = [n for r in candidates if (n := getattr(r, key)) is not None]
            if said:
                return int(min(said))
        return None

    return Allowance(*(value(k) for k in ("total", "open", "per_day", "per_hour")))
