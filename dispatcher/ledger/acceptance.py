"""What a change finds past a limit, and how much of it the operator accepts.

A merge, a lost trust or a stricter version may put what was seen long ago past a limit.
Nothing can undo that: the change is refused, unless the operator names the very number
of findings, and then each of them is written into the line that brings the change.
Accepted is past, not licence: the gate goes on to refuse every further entry of the
unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import PastLimit
from dispatcher.ledger import averages
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.past import past_units
from dispatcher.ledger.refusals import past_limit
from dispatcher.ledger.standing import InForce
from dispatcher.store import ledger, membership
from dispatcher.store.transaction import Tx

ANY: Final = None
"""Accept whatever is found: for previews, which are rolled back."""


@dataclass(frozen=True, order=True)
class Past:
    """One unit of one adversary that is past a limit.

    Attributes
    ----------
    chain : str
        The adversary's.
    property : str
    unit : tuple of str
        Pseudonym of the record, of the subject, or of the two ends of a link; empty for
        a mean.
    """

    chain: str
    property: str
    unit: tuple[str, ...]


class Acceptance:
    """Collects the findings of one change, and judges their number at its end.

    Parameters
    ----------
    tx : Tx
    what : str
        The change, as the subject of a sentence.
    number : int or None
        How many findings the operator accepts; :data:`ANY` for a preview.
    """

    def __init__(self, tx: Tx, what: str, number: int | None) -> None:
        self._tx, self._what, self._number = tx, what, number
        self.found: list[Past] = []

    def judge(
        self,
        force: InForce,
        adversary: int,
        trusted: frozenset[str],
        *,
        known: Iterable[tuple[str, tuple[str, ...]]] = (),
        means: bool = False,
    ) -> list[dict[str, object]]:
        """Judge all that an adversary holds; return what a line must say is accepted.

        Parameters
        ----------
        force : InForce
        adversary : int
        trusted : frozenset of str
            Rules not judged.
        known : Iterable of (str, tuple of str)
            Property and unit of what was accepted before: not told again.
        means : bool
            Judge the means too; the kept sums must be up to date.

        Returns
        -------
        list of dict
            ``property`` and ``unit``, sorted, as a member or join line holds them.
        """
        chain = adversary_name(adversary)
        listed = past_units(self._tx, force, adversary, trusted)
        names = membership.unit_names(self._tx, [unit for _, unit in listed])
        items = {Past(chain, rule, names[unit]) for rule, unit in listed}
        if means:
            items |= {
                Past(chain, name, ())
                for name in self._past_means(force, adversary, trusted)
            }
        before = set(known)
        new = sorted(p for p in items if (p.property, p.unit) not in before)
        self.found += new
        return [{"property": p.property, "unit": list(p.unit)} for p in new]

    def _past_means(
        self, force: InForce, adversary: int, trusted: frozenset[str]
    ) -> list[str]:
        kept = averages.read(self._tx, force)
        past = averages.past_means(force, kept.sets, kept.sums[adversary], trusted)
        return [name for name, _, _ in past]

    def settle(self) -> tuple[Past, ...]:
        """Return the findings, if the operator accepts just so many.

        Raises
        ------
        PastLimit
            Let the error end the transaction: nothing may be kept.
        """
        count = len(self.found)
        if self._number is ANY or self._number == count:
            return tuple(sorted(self.found))
        told = [(past.chain, past.property) for past in self.found]
        if self._number:
            raise _miscounted(self._what, count, self._number)
        raise past_limit(self._what, told)


def accepted_before(
    tx: Tx, adversary: int, version: int
) -> set[tuple[str, tuple[str, ...]]]:
    """What was accepted for an adversary since the last ``policy`` line.

    Grows with the length of its chains: for changes of membership only.
    """
    names, lines, policy = membership.accepting_lines(tx, adversary, version)
    items: list[dict[str, object]] = []
    for body in lines:
        items += json.loads(body)["accepted"]
    if policy is not None:
        listed = json.loads(policy)["accepted"]
        items += [item for item in listed if item["chain"] in names]
    return {(str(item["property"]), _unit(item["unit"])) for item in items}


def _unit(listed: object) -> tuple[str, ...]:
    assert isinstance(listed, Sequence)
    return tuple(str(part) for part in listed)


def _miscounted(what: str, found: int, accepted: int) -> PastLimit:
    return PastLimit(
        f"{what} is refused: {found} findings are past a limit, not {accepted}",
        why="The number accepted must be the number found: something was shown, or "
        "another number was meant.",
        fix=(
            "Look again (--dry-run, or dispatcher policy plan), then repeat it with "
            f"--accept-past {found}; nothing was changed."
            if found
            else "Nothing is past a limit: leave --accept-past out; nothing was changed."
        ),
        facts={"found": found, "accepted": accepted},
    )


def totals(found: Iterable[Past]) -> dict[str, int]:
    """Count findings by property."""
    counted: dict[str, int] = {}
    for past in found:
        counted[past.property] = counted.get(past.property, 0) + 1
    return dict(sorted(counted.items()))


def judged_trust(tx: Tx, force: InForce | None, adversary: int) -> frozenset[str]:
    """Rules that an adversary is trusted with by its accounts' groups as they are."""
    if force is None or not force.trusting:
        return frozenset()
    return force.trusted(ledger.groups_of(tx, adversary))
