"""Impact of another version of the policy on future work; writes nothing.

The backlog is read in the transaction that applies the version tentatively; the search
runs after its rollback, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.ledger.bulk import BookingBatch
from dispatcher.ledger.decision import decide
from dispatcher.preflight import Clearance
from dispatcher.stages.planning import backlog as backlogs
from dispatcher.stages.planning.plan_summary import summary
from dispatcher.stages.planning.translation import Translation, translate
from dispatcher.store import ledger as gate_rows
from dispatcher.store import planning as rows
from dispatcher.store.planning import LeftRow
from dispatcher.store.transaction import Tx
from dispatcher.strategies import find_solver
from policies.planning.solving import solve
from policies.solvers import Limits, Verdict


@dataclass(frozen=True)
class Impact:
    """Future work under a version.

    Attributes
    ----------
    planned, refused : int
        Showings that the plan in force still intends, and those of them that the
        version would refuse.
    verdict : str
        Of planning all that lacks answers: SOLVED, INFEASIBLE or UNKNOWN.
    present : int
        Adversaries that can be shown something.
    needed : int or None
        Without a plan: how many would suffice; None if no number would.
    held : int
        Fields that would be held back.
    safe_with : int
        Active adversaries with whom no order of showings gets stuck.
    why : tuple of str
        Conflicting requirements.
    """

    planned: int
    refused: int
    verdict: str
    present: int
    needed: int | None
    held: int
    safe_with: int
    why: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class WorkToCome:
    """Future work, as read under a version.

    Attributes
    ----------
    planned, refused : int
        See :class:`Impact`.
    made : Translation
        The problem of all that lacks answers.
    """

    planned: int
    refused: int
    made: Translation


def read_work(
    tx: Tx,
    force: ActivePolicy,
    before: int,
    now: int,
    clear: Clearance,
) -> WorkToCome:
    """Read the work to come.

    Parameters
    ----------
    tx : Tx
        One in which the version is tentatively in force.
    force : ActivePolicy
        The version.
    before : int
        The version whose plan is in force now; 0 is none.
    now : int
    clear : Clearance
    """
    left = rows.left_of_plans(tx, before) if before else []
    refused = _refused(tx, force, left)
    made = translate(tx, force, backlogs.read(tx, force, clear), now, clear)
    return WorkToCome(sum(len(row.entries) // 8 for row in left), refused, made)


def assess(work: WorkToCome, *, seed: int, limits: Limits) -> Impact:
    """Plan the work to come, and return the outcome; needs no transaction."""
    auto = find_solver("auto")
    solution = solve(work.made, auto, auto, seed, limits)
    numbers = summary(work.made, solution)
    cores = numbers["cores"]
    needs = [core["needed"] for core in cores]
    return Impact(
        planned=work.planned,
        refused=work.refused,
        verdict=str(solution.verdict.value),
        present=numbers["adversaries"],
        needed=None if None in needs else max(needs, default=None),
        held=0 if solution.verdict is Verdict.SOLVED else numbers["held"],
        safe_with=numbers["safe_with"],
        why=tuple(why for core in cores for why in core["why"]),
    )


def _refused(tx: Tx, force: ActivePolicy, left: Sequence[LeftRow]) -> int:
    """Count planned showings that the gate would refuse, granted in order."""
    accounts = gate_rows.accounts(tx, sorted({row.account_id for row in left}))
    asks = [
        (accounts[row.account_id], np.frombuffer(row.entries, "<i8").tolist())
        for row in left
    ]
    if not asks:
        return 0
    if not force.averages:
        return len(BookingBatch(tx, force, asks).decide().refused)
    # Where an average is capped, each showing changes the next: judge one by one, each
    # as if it were the next one.
    return sum(
        decide(tx, force, entry_id, account.id).refusal is not None
        for account, entries in asks
        for entry_id in entries
    )
