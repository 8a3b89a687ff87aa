"""Who is one adversary: accounts come in, groups join, and the ledger says so.

Groups and joins only ever join. A change that puts what was already shown past a limit
is refused whole.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dispatcher.ledger import averages, chains
from dispatcher.ledger.lines import canonical
from dispatcher.ledger.past import named, past_units
from dispatcher.ledger.refusals import past_limit
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.store import accounts as rows
from dispatcher.store import holdings, ledger
from dispatcher.store.accounts import Account
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx
from policies.groups import adversaries, groups_of


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
    """

    accounts: tuple[Account, ...]
    known: tuple[str, ...]
    joined: int


def add_accounts(tx: Tx, names: Iterable[tuple[str, str]], *, at: int) -> Added:
    """Add accounts; each becomes an adversary, or part of its groups' one.

    Parameters
    ----------
    tx : Tx
        A write transaction; bookings in flight are waited for.
    names : Iterable of (str, str)
        Connector and name, checked (:func:`dispatcher.identity.account_of`).
    at : int
        Now.

    Raises
    ------
    PastLimit
        An account makes two adversaries one that together are past a limit, or ends
        the trust of one. Nothing may be kept: let the error end the transaction.
    """
    ledger.close_barrier(tx)
    force = current_policy(tx)
    present = rows.all_accounts(tx)
    there = {(account.connector, account.name) for account in present}
    wanted = list(dict.fromkeys(names))
    fresh = [name for name in wanted if name not in there]
    known = tuple(f"{c}/{n}" for c, n in wanted if (c, n) in there)
    if not fresh:
        return Added((), known, 0)
    first = tx.reserve("account", len(fresh))
    new = [
        Account(
            first + i, connector, name, 0, _groups(force, connector, name), "active"
        )
        for i, (connector, name) in enumerate(fresh)
    ]
    change = _Change(tx, force, [*present, *new], at)
    change.place(new)
    joined = change.join_groups()
    change.check_means()
    ids = {account.id for account in new}
    now = tuple(a for a in rows.all_accounts(tx) if a.id in ids)
    return Added(now, known, joined)


def regroup(tx: Tx, force: InForce, *, at: int) -> int:
    """Give accounts the groups of a new version, and join what it makes one.

    Returns
    -------
    int
        Adversaries that ended.

    Raises
    ------
    PastLimit
        As for :func:`add_accounts`.
    """
    change = _Change(tx, force, rows.all_accounts(tx), at)
    change.rename_groups()
    joined = change.join_groups()
    change.check_means()
    return joined


def _groups(force: InForce | None, connector: str, name: str) -> str:
    names = groups_of(force.policy, f"{connector}/{name}") if force else ()
    return canonical(list(names))


class _Change:
    """One change of membership, under the closed barrier."""

    def __init__(
        self, tx: Tx, force: InForce | None, accounts: Sequence[Account], at: int
    ) -> None:
        self.tx, self.force, self.at = tx, force, at
        self.accounts = {account.text: account for account in accounts}
        self.version = force.version if force else 0
        self.heads: dict[int, ChainRow] = {}
        self.touched: set[int] = set()
        policy = force.policy if force else None
        self.parts = (
            [part.accounts for part in adversaries(policy, self.accounts)]
            if policy
            else [(text,) for text in self.accounts]
        )

    def place(self, new: Sequence[Account]) -> None:
        """Put new accounts in the adversary of their part, or in one of their own."""
        part_of = {text: part for part in self.parts for text in part}
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
            before = self._trusted(adversary)
            rows.add_account(self.tx, placed, self.at)
            self._write_member(placed, before)

    def rename_groups(self) -> None:
        """Write a member line for each account whose groups changed."""
        for account in list(self.accounts.values()):
            groups = _groups(self.force, account.connector, account.name)
            if groups != account.groups:
                before = self._trusted(account.adversary_id)
                rows.set_groups(self.tx, account.id, groups)
                self._write_member(account._replace(groups=groups), before)

    def join_groups(self) -> int:
        """Join the adversaries that share a group; return how many ended."""
        root: dict[int, int] = {}

        def find(one: int) -> int:
            while (up := root.setdefault(one, one)) != one:
                one = up
            return one

        reason: dict[int, set[str]] = defaultdict(set)
        for part in self.parts:
            mine = [self.accounts[text] for text in part if text in self.accounts]
            ids = sorted({find(account.adversary_id) for account in mine})
            for other in ids[1:]:
                root[other] = ids[0]
            if len(ids) > 1:
                groups = (json.loads(account.groups) for account in mine)
                reason[ids[0]].update(*groups)
        ended = defaultdict(list)
        for one in list(root):
            if find(one) != one:
                ended[find(one)].append(one)
        for survivor, others in sorted(ended.items()):
            names = set().union(*(reason[one] for one in (survivor, *others)))
            self._join(survivor, sorted(others), sorted(names))
        return sum(len(others) for others in ended.values())

    def check_means(self) -> None:
        """Refuse the change if a mean of what it touched is past its cap."""
        if self.force is None or not self.force.averages or not self.touched:
            return
        averages.rebuild(self.tx, self.force)
        refuse_means(self.tx, self.force, sorted(self.touched), _WHAT)

    def _trusted(self, adversary: int) -> frozenset[str]:
        if self.force is None or not self.force.trusting:
            return frozenset()
        return self.force.trusted(ledger.groups_of(self.tx, adversary))

    def _write_member(self, account: Account, before: frozenset[str]) -> None:
        adversary = account.adversary_id
        self.accounts[account.text] = account
        body = {
            "account": account.text,
            "groups": json.loads(account.groups),
            "accepted": [],
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
        after = self._trusted(adversary)
        if before - after:
            self._judge(adversary, after)
            self.touched.add(adversary)

    def _join(self, survivor: int, others: list[int], groups: list[str]) -> None:
        assert self.force is not None
        ids = [survivor, *others]
        self.heads |= chains.lock(self.tx, ids)
        because = "one adversary by the groups " + ", ".join(groups)
        body = {
            "accepted": [],
            "because": because,
            "cause": "group",
            "chains": [self.heads[one].name for one in ids],
        }
        moment = max(self.at, *(self.heads[one].at for one in ids))
        for one in ids:
            self.heads[one] = chains.append(
                self.tx, self.heads[one], "join", body, at=moment, policy=self.version
            )
        for one in others:
            rows.end_adversary(self.tx, one, survivor)
        for text, account in list(self.accounts.items()):
            if account.adversary_id in others:
                self.accounts[text] = account._replace(adversary_id=survivor)
        holdings.rebuild_holdings(self.tx, self.force.kept, survivor)
        self._judge(survivor, self._trusted(survivor))
        self.touched.add(survivor)

    def _judge(self, adversary: int, trusted: frozenset[str]) -> None:
        assert self.force is not None
        found = past_units(self.tx, self.force, adversary, trusted)
        if found:
            raise past_limit(_WHAT, named(adversary, found))

    def _head(self, adversary: int) -> ChainRow:
        if adversary not in self.heads:
            self.heads |= chains.lock(self.tx, (adversary,))
        return self.heads[adversary]


_WHAT = "the change of who is one adversary"


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
