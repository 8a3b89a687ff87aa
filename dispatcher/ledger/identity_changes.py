"""Changes of identity: accounts are added, groups and merges join adversaries.

Groups and merges only ever join. A change that puts what was already shown past a limit
is refused entirely, unless the operator accepts exactly as many findings as there are.
Every line of a change is judged when it is written, on the state just after it, as an
auditor judges it later.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from dispatcher.core.canonical import canonical
from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.ledger import averages, chains, recall
from dispatcher.ledger.active_policy import (
    ActivePolicy,
    current_policy,
    trusted_rules_of,
)
from dispatcher.ledger.recall import (
    NOTHING_OPEN,
    NOTHING_RECALLED,
    InFlightAction,
    Recall,
    Recalled,
)
from dispatcher.ledger.refusals import past_limit
from dispatcher.ledger.violations import Acceptance, Past, accepted_before, named
from dispatcher.store import accounts as rows
from dispatcher.store import (
    arrivals,
    events,
    exposure_counts,
    exposure_queries,
    ledger,
    outbox,
    planning,
)
from dispatcher.store import policies as policy_rows
from dispatcher.store.accounts import AccountRow
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx
from policies.rules.groups import adversaries, groups_of

WHAT = "the change of who is one adversary"


@dataclass(frozen=True)
class AddedAccounts:
    """Result of adding accounts.

    Attributes
    ----------
    accounts : tuple of AccountRow
        The new ones, as they are now.
    known : tuple of str
        Accounts that existed already; they are unchanged.
    joined : int
        Adversaries that ended because a new account also belongs to another one.
    accepted : tuple of Past
        Findings past a limit that were accepted.
    """

    accounts: tuple[AccountRow, ...]
    known: tuple[str, ...]
    joined: int
    accepted: tuple[Past, ...] = ()


@dataclass(frozen=True)
class Merged:
    """Result of a merge: its blast radius.

    Attributes
    ----------
    joined : int
        Adversaries that ended; 0 if all accounts were one already.
    adversaries : tuple of int
        The surviving ones.
    entries : int
        Distinct fields that they hold together.
    accepted : tuple of Past
        Sets that are complete, or averages that exceed their cap, only through this
        merge.
    recall : Recall
        Tasks in progress that the merged worker may not finish.
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
) -> AddedAccounts:
    """Add accounts; each becomes an adversary, or joins that of its groups.

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
        An account joins two adversaries that together are past a limit, or ends the
        trust of one, and ``accept`` is another number. Nothing may be committed: let
        the error end the transaction.
    """
    policy_rows.lock_policy_exclusive(tx)
    force = current_policy(tx)
    present = rows.all_accounts(tx)
    there = {(account.connector, account.name) for account in present}
    wanted = list(dict.fromkeys(names))
    fresh = [name for name in wanted if name not in there]
    known = tuple(f"{c}/{n}" for c, n in wanted if (c, n) in there)
    acceptance = Acceptance(tx, WHAT, accept)
    if not fresh:
        return AddedAccounts((), known, 0, acceptance.settle())
    first = tx.reserve("account", len(fresh))
    new = [
        AccountRow(
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
    return AddedAccounts(now, known, joined, acceptance.settle())


def regroup(tx: Tx, force: ActivePolicy, acceptance: Acceptance, *, at: int) -> int:
    """Apply the groups of a new version to accounts, and join adversaries accordingly.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy
    acceptance : Acceptance
        That of the enclosing change; the caller settles it.
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
    """Make the accounts of each part one adversary, permanently.

    Parameters
    ----------
    tx : Tx
        A write transaction; bookings in flight are waited for.
    parts : Sequence of Sequence of str
        Accounts (``CONNECTOR/NAME``); parts that share an account are merged.
    because : str
        The reason, for the auditor: kept in the ledger, so no field value.
    at : int
        Now.
    accept : int or None
        How many findings past a limit are accepted; None: any, for a preview.
    withdrawing : Collection of str
        Connectors that can withdraw tasks.
    actor : str
        Who acts, for the audit log.

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
    policy_rows.lock_policy_exclusive(tx)
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
    recalled = recall.take_back(tx, found, InFlightAction.RECALL, at=at)
    _note_merge(tx, at, actor, change, accepted, recalled)
    return Merged(
        joined,
        living,
        exposure_queries.held_entries(tx, living),
        accepted,
        found,
        recalled,
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
            fix='--reason "same payout address"',
        )


def _check_parts(parts: Sequence[Sequence[str]], known: Collection[str]) -> None:
    missing = sorted({text for part in parts for text in part} - set(known))
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise NotFound(
            f"there is no account {missing[0]}{more}",
            why="it was never added, so it was shown nothing; nothing was changed",
            fix="check its name: dispatcher workers list",
            name=missing[0],
            known=known,
        )
    if not parts or any(len(set(part)) < 2 for part in parts):
        raise Usage(
            "a merge needs two accounts or more",
            why="it says that these accounts are one worker",
            fix="dispatcher workers merge x/ann x/anna --reason TEXT",
        )


def refuse_averages(
    tx: Tx, force: ActivePolicy, adversary_ids: Iterable[int], what: str
) -> None:
    """Refuse a change under which an average exceeds its cap.

    Raises
    ------
    PastLimit
    """
    means = averages.read(tx, force)
    found = []
    for adversary in adversary_ids:
        trusted = force.trusted(ledger.groups_of(tx, adversary))
        past = averages.past_averages(force, means.sets, means.sums[adversary], trusted)
        found += named(adversary, [(name, 0) for name, _, _ in past])
    if found:
        raise past_limit(what, found)


Because = Callable[[Sequence[AccountRow]], str]
"""Composes the reason of a join from the joined accounts."""


def group_names(force: ActivePolicy | None, connector: str, name: str) -> str:
    """Return the names of an account's groups, as a JSON list."""
    names = groups_of(force.policy, f"{connector}/{name}") if force else ()
    return canonical(list(names))


def declared_parts(
    force: ActivePolicy | None, accounts: Iterable[str]
) -> list[tuple[str, ...]]:
    """Partition accounts by adversary, according to the groups of a version."""
    texts = list(accounts)
    if force is None:
        return [(text,) for text in texts]
    return [part.accounts for part in adversaries(force.policy, texts)]


def by_groups(accounts: Sequence[AccountRow]) -> str:
    """Compose the reason of a join by groups of the policy."""
    names = sorted({name for a in accounts for name in json.loads(a.groups)})
    return "one adversary by the groups " + ", ".join(names)


class Change:
    """One change of membership, under the exclusive policy lock.

    Parameters
    ----------
    tx : Tx
    force : ActivePolicy or None
    accounts : Sequence of AccountRow
        All accounts, new ones (still without an adversary) among them.
    acceptance : Acceptance
        Collects the findings past a limit.
    at : int
        Now.
    """

    def __init__(
        self,
        tx: Tx,
        force: ActivePolicy | None,
        accounts: Sequence[AccountRow],
        acceptance: Acceptance,
        at: int,
    ) -> None:
        self.tx, self.force, self.at = tx, force, at
        self.accounts = {account.text: account for account in accounts}
        self.acceptance = acceptance
        self.version = force.version if force else 0
        self.heads: dict[int, ChainRow] = {}
        self.survivors: set[int] = set()

    def place(self, new: Sequence[AccountRow], parts: Iterable[Sequence[str]]) -> None:
        """Assign new accounts to the adversary of their part, or to a new one."""
        part_of = {text: part for part in parts for text in part}
        for account in new:
            mates = [
                self.accounts[text].adversary_id
                for text in part_of[account.text]
                if text in self.accounts
            ]
            settled = [adversary for adversary in mates if adversary]
            if settled:
                adversary = min(settled)
            else:
                head = chains.begin(self.tx)
                self.heads[head.id] = head
                adversary = head.id
            placed = account._replace(adversary_id=adversary)
            before = trusted_rules_of(self.tx, self.force, adversary)
            rows.add_account(self.tx, placed)
            self._write_member(placed, before)

    def rename_groups(self) -> None:
        """Write a member line for each account whose groups changed."""
        for account in list(self.accounts.values()):
            groups = group_names(self.force, account.connector, account.name)
            if groups != account.groups:
                before = trusted_rules_of(self.tx, self.force, account.adversary_id)
                rows.set_groups(self.tx, account.id, groups)
                self._write_member(account._replace(groups=groups), before)

    def join(self, parts: Iterable[Sequence[str]], cause: str, because: Because) -> int:
        """Join the adversaries of each part's accounts; return how many ended.

        The adversary with the smallest number survives, so that the order of joins does
        not matter.
        """
        root: dict[int, int] = {}

        def find(one: int) -> int:
            while (up := root.setdefault(one, one)) != one:
                one = up
            return one

        joined: dict[int, dict[str, AccountRow]] = defaultdict(dict)
        for part in parts:
            mine = [self.accounts[text] for text in part if text in self.accounts]
            ids = sorted({find(account.adversary_id) for account in mine})
            for other in ids[1:]:
                root[other] = ids[0]
            if len(ids) > 1:
                joined[ids[0]] |= {account.text: account for account in mine}
        ended = defaultdict(list)
        for one in list(root):
            if find(one) != one:
                ended[find(one)].append(one)
        for survivor, others in sorted(ended.items()):
            accounts: dict[str, AccountRow] = {}
            for one in (survivor, *others):
                accounts |= joined[one]
            words = because(sorted(accounts.values(), key=lambda a: a.text))
            self._join(survivor, sorted(others), cause, words)
        return sum(len(others) for others in ended.values())

    def finish(self) -> None:
        """Update the tables beside the ledger.

        Joined workers have to sign in again and get new offers: earlier offers and plans
        were made for separate workers.
        """
        if not self.survivors:
            return
        mine = [
            a.id for a in self.accounts.values() if a.adversary_id in self.survivors
        ]
        arrivals.end_sessions_of(self.tx, mine)
        outbox.end_offers(self.tx, mine, self.at)
        planning.drop_planned(self.tx, sorted(self.survivors))
        if self.force is not None and self.force.averages:
            averages.rebuild(self.tx, self.force)

    def _write_member(self, account: AccountRow, before: frozenset[str]) -> None:
        """Write a member line for an account; ``before``: its trusted rules so far."""
        adversary = account.adversary_id
        self.accounts[account.text] = account
        ends = bool(before - trusted_rules_of(self.tx, self.force, adversary))
        body = {
            "account": account.text,
            "groups": json.loads(account.groups),
            "accepted": self._judge(adversary) if ends else [],
        }
        self.heads[adversary] = chains.append(
            self.tx,
            self._head(adversary),
            "member",
            body,
            at=self.at,
            policy=self.version,
            account_id=account.id,
        )

    def _join(self, survivor: int, others: list[int], cause: str, because: str) -> None:
        ids = [survivor, *others]
        self.heads |= chains.lock(self.tx, ids)
        known = {
            item for one in ids for item in accepted_before(self.tx, one, self.version)
        }
        for one in others:
            rows.end_adversary(self.tx, one, survivor)
        for text, account in list(self.accounts.items()):
            if account.adversary_id in others:
                self.accounts[text] = account._replace(adversary_id=survivor)
        if self.force is not None:
            exposure_counts.rebuild_counts(self.tx, self.force.kept, survivor)
        body = {
            "accepted": self._judge(survivor, known),
            "because": because,
            "cause": cause,
            "chains": [self.heads[one].name for one in ids],
        }
        moment = max(self.at, *(self.heads[one].at for one in ids))
        for one in ids:
            self.heads[one] = chains.append(
                self.tx, self.heads[one], "join", body, at=moment, policy=self.version
            )
        self.survivors.add(survivor)

    def _judge(
        self,
        adversary: int,
        known: set[tuple[str, tuple[str, ...]]] | None = None,
    ) -> list[dict[str, object]]:
        if self.force is None:
            return []
        if known is None:
            known = accepted_before(self.tx, adversary, self.version)
        if self.force.averages:  # the next line must include them too
            averages.rebuild(self.tx, self.force)
        return self.acceptance.judge(
            self.force,
            adversary,
            trusted_rules_of(self.tx, self.force, adversary),
            known=known,
            means=self.force.averages,
        )

    def _head(self, adversary: int) -> ChainRow:
        if adversary not in self.heads:
            self.heads |= chains.lock(self.tx, (adversary,))
        return self.heads[adversary]
