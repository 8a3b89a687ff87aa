"""Who is one adversary: accounts come in, groups and merges join, the ledger says so.

Groups and merges only ever join. A change that puts what was already shown past a limit
is refused whole, unless the operator accepts just as many findings as there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.ledger import averages, recall
from dispatcher.ledger.acceptance import Acceptance, Past
from dispatcher.ledger.flight import InFlight
from dispatcher.ledger.joining import (
    Change,
    by_groups,
    declared_parts,
    group_names,
)
from dispatcher.ledger.past import named
from dispatcher.ledger.recall import (
    NOTHING_OPEN,
    NOTHING_RECALLED,
    Recall,
    Recalled,
)
from dispatcher.ledger.refusals import past_limit
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.store import accounts as rows
from dispatcher.store import events, ledger, membership
from dispatcher.store.accounts import Account
from dispatcher.store.transaction import Tx

WHAT = "the change of who is one adversary"


@dataclass(frozen=True)
class Added:
    """What adding accounts came to.

    Attributes
    ----------
    accounts : tuple of Account
        The new ones, as they are now.
    known : tuple of str
        Accounts that were there already; nothing was changed for them.
    joined : int
        Adversaries that ended because a new account belongs to another one too.
    accepted : tuple of Past
        What is past a limit now, and was accepted.
    """

    accounts: tuple[Account, ...]
    known: tuple[str, ...]
    joined: int
    accepted: tuple[Past, ...] = ()


@dataclass(frozen=True)
class Merged:
    """What a merge came to: its blast radius.

    Attributes
    ----------
    joined : int
        Adversaries that ended; 0 where all accounts were one already.
    adversaries : tuple of int
        Those that go on.
    entries : int
        Distinct fields that they hold together.
    accepted : tuple of Past
        Sets that are complete, or means that are past their cap, only by this merge.
    recall : Recall
        Tasks under way that the joint worker may not finish.
    recalled : Recalled
        What became of them.
    """

    joined: int
    adversaries: tuple[int, ...] = ()
    entries: int = 0
    accepted: tuple[Past, ...] = ()
    recall: Recall = NOTHING_OPEN
    recalled: Recalled = NOTHING_RECALLED


def add_accounts(
    tx: Tx, names: Iterable[tuple[str, str]], *, at: int, accept: int | None = 0
) -> Added:
    """Add accounts; each becomes an adversary, or part of its groups' one.

    Parameters
    ----------
    tx : Tx
        A write transaction; bookings in flight are waited for.
    names : Iterable of (str, str)
        Connector and name, checked (:func:`dispatcher.identity.account_of`).
    at : int
        Now.
    accept : int or None
        How many findings past a limit are accepted; None: any, for a preview.

    Raises
    ------
    PastLimit
        An account makes two adversaries one that together are past a limit, or ends
        the trust of one, and ``accept`` is another number. Nothing may be kept: let
        the error end the transaction.
    """
    ledger.close_barrier(tx)
    force = current_policy(tx)
    present = rows.all_accounts(tx)
    there = {(account.connector, account.name) for account in present}
    wanted = list(dict.fromkeys(names))
    fresh = [name for name in wanted if name not in there]
    known = tuple(f"{c}/{n}" for c, n in wanted if (c, n) in there)
    acceptance = Acceptance(tx, WHAT, accept)
    if not fresh:
        return Added((), known, 0, acceptance.settle())
    first = tx.reserve("account", len(fresh))
    new = [
        Account(
            first + i, connector, name, 0, group_names(force, connector, name), "active"
        )
        for i, (connector, name) in enumerate(fresh)
    ]
    change = Change(tx, force, [*present, *new], acceptance, at)
    parts = declared_parts(force, change.accounts)
    change.place(new, parts)
    joined = change.join(parts, "group", by_groups)
    change.finish()
    ids = {account.id for account in new}
    now = tuple(a for a in rows.all_accounts(tx) if a.id in ids)
    return Added(now, known, joined, acceptance.settle())


def regroup(tx: Tx, force: InForce, acceptance: Acceptance, *, at: int) -> int:
    """Give accounts the groups of a new version, and join what it makes one.

    Parameters
    ----------
    tx : Tx
    force : InForce
    acceptance : Acceptance
        Of the change that this is part of; settled by the caller.
    at : int

    Returns
    -------
    int
        Adversaries that ended.
    """
    change = Change(tx, force, rows.all_accounts(tx), acceptance, at)
    change.rename_groups()
    parts = declared_parts(force, change.accounts)
    joined = change.join(parts, "group", by_groups)
    change.finish()
    return joined


def merge(
    tx: Tx,
    parts: Sequence[Sequence[str]],
    *,
    because: str,
    at: int,
    accept: int | None = 0,
    withdrawing: Collection[str] = (),
    actor: str = "operator",
) -> Merged:
    """Take the accounts of each part as one adversary, from now on and for good.

    Parameters
    ----------
    tx : Tx
        A write transaction; bookings in flight are waited for.
    parts : Sequence of Sequence of str
        Accounts (``CONNECTOR/NAME``); parts that share one are one.
    because : str
        Why, for the auditor: kept in the ledger, and no field value.
    at : int
        Now.
    accept : int or None
        How many findings past a limit are accepted; None: any, for a preview.
    withdrawing : Collection of str
        Connectors that can take back what they were given.
    actor : str
        Who does it, for the audit log.

    Raises
    ------
    NotFound
        An account was never added.
    Usage
        There is no reason, or a part has fewer than two accounts.
    Conflict
        They are one adversary already.
    PastLimit
        Together they are past a limit, and ``accept`` is another number. Nothing may
        be kept: let the error end the transaction.
    """
    _check_reason(because)
    ledger.close_barrier(tx)
    force = current_policy(tx)
    acceptance = Acceptance(tx, "the merge", accept)
    change = Change(tx, force, rows.all_accounts(tx), acceptance, at)
    _check_parts(parts, change.accounts)
    joined = change.join(parts, "merge", lambda _: because.strip())
    if not joined:
        raise Conflict(
            "these accounts are one adversary already",
            why="a group or an earlier merge joined them",
            fix="see: dispatcher workers list",
        )
    change.finish()
    accepted = acceptance.settle()
    living = tuple(sorted(change.survivors))
    found = recall.foresee(tx, force, withdrawing, living)
    recalled = recall.take_back(tx, found, InFlight.RECALL, at=at)
    _note_merge(tx, at, actor, change, accepted, recalled)
    return Merged(
        joined, living, membership.held_entries(tx, living), accepted, found, recalled
    )


def _note_merge(
    tx: Tx,
    at: int,
    actor: str,
    change: Change,
    accepted: Sequence[Past],
    recalled: Recalled,
) -> None:
    for adversary in sorted(change.survivors):
        mine = [a.id for a in change.accounts.values() if a.adversary_id == adversary]
        detail: dict[str, object] = {"adversary": adversary, "accounts": sorted(mine)}
        detail |= {"accepted": len(accepted), "recalled": recalled.tasks}
        events.add_event(tx, at, actor, "worker.merged", detail)
    if accepted:
        by_rule = sorted({past.property for past in accepted})
        detail = {"cause": "merge", "units": len(accepted), "properties": by_rule}
        events.add_event(tx, at, actor, "limit.crossed", detail)


def _check_reason(because: str) -> None:
    if not because.strip() or not because.isprintable():
        raise Usage(
            "a merge needs a reason, one line of text",
            why="the reason is a line of the ledger that auditors read",
            fix='--because "same payout address"',
        )


def _check_parts(parts: Sequence[Sequence[str]], known: Collection[str]) -> None:
    missing = sorted({text for part in parts for text in part} - set(known))
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise NotFound(
            f"there is no account {missing[0]}{more}",
            why="it was never added, so it was shown nothing; nothing was changed",
            fix="check its name: dispatcher workers list",
        )
    if not parts or any(len(set(part)) < 2 for part in parts):
        raise Usage(
            "a merge needs two accounts or more",
            why="it says that these accounts are one worker",
            fix="dispatcher workers merge x/ann x/anna --because TEXT",
        )


def refuse_means(
    tx: Tx, force: InForce, adversary_ids: Iterable[int], what: str
) -> None:
    """Refuse a change under which a mean is past its cap.

    Raises
    ------
    PastLimit
    """
    means = averages.read(tx, force)
    found = []
    for adversary in adversary_ids:
        trusted = force.trusted(ledger.groups_of(tx, adversary))
        past = averages.past_means(force, means.sets, means.sums[adversary], trusted)
        found += named(adversary, [(name, 0) for name, _, _ in past])
    if found:
        raise past_limit(what, found)
