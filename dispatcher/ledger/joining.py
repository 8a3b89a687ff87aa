"""One change of membership, line by line: who comes in, who is joined, what is accepted.

Every line is judged when it is written, on what holds just after it: that is how an
auditor judges it, years later.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from dispatcher.ledger import averages, chains
from dispatcher.ledger.acceptance import Acceptance, accepted_before, judged_trust
from dispatcher.ledger.lines import canonical
from dispatcher.ledger.standing import InForce
from dispatcher.store import accounts as rows
from dispatcher.store import holdings
from dispatcher.store.accounts import Account
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Tx
from policies.rules.groups import adversaries, groups_of

Because = Callable[[Sequence[Account]], str]
"""Words for a join, from the accounts that are joined."""


def group_names(force: InForce | None, connector: str, name: str) -> str:
    """Names of the groups that an account is in, as a JSON list."""
    names = groups_of(force.policy, f"{connector}/{name}") if force else ()
    return canonical(list(names))


def declared_parts(
    force: InForce | None, accounts: Iterable[str]
) -> list[tuple[str, ...]]:
    """Part accounts into what the groups of a version make one adversary."""
    texts = list(accounts)
    if force is None:
        return [(text,) for text in texts]
    return [part.accounts for part in adversaries(force.policy, texts)]


def by_groups(accounts: Sequence[Account]) -> str:
    """Say that groups of the policy join accounts."""
    names = sorted({name for a in accounts for name in json.loads(a.groups)})
    return "one adversary by the groups " + ", ".join(names)


class Change:
    """One change of membership, under the closed barrier.

    Parameters
    ----------
    tx : Tx
    force : InForce or None
    accounts : Sequence of Account
        All accounts, new ones (still without an adversary) among them.
    acceptance : Acceptance
        Takes in what is found past a limit.
    at : int
        Now.
    """

    def __init__(
        self,
        tx: Tx,
        force: InForce | None,
        accounts: Sequence[Account],
        acceptance: Acceptance,
        at: int,
    ) -> None:
        self.tx, self.force, self.at = tx, force, at
        self.accounts = {account.text: account for account in accounts}
        self.acceptance = acceptance
        self.version = force.version if force else 0
        self.heads: dict[int, ChainRow] = {}
        self.survivors: set[int] = set()

    def place(self, new: Sequence[Account], parts: Iterable[Sequence[str]]) -> None:
        """Put new accounts in the adversary of their part, or in one of their own."""
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
            before = judged_trust(self.tx, self.force, adversary)
            rows.add_account(self.tx, placed, self.at)
            self._write_member(placed, before)

    def rename_groups(self) -> None:
        """Write a member line for each account whose groups changed."""
        for account in list(self.accounts.values()):
            groups = group_names(self.force, account.connector, account.name)
            if groups != account.groups:
                before = judged_trust(self.tx, self.force, account.adversary_id)
                rows.set_groups(self.tx, account.id, groups)
                self._write_member(account._replace(groups=groups), before)

    def join(self, parts: Iterable[Sequence[str]], cause: str, because: Because) -> int:
        """Make one adversary of each part's accounts; return how many ended.

        The adversary with the least number goes on, so that the order of joins makes
        no difference.
        """
        root: dict[int, int] = {}

        def find(one: int) -> int:
            while (up := root.setdefault(one, one)) != one:
                one = up
            return one

        joined: dict[int, dict[str, Account]] = defaultdict(dict)
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
            told: dict[str, Account] = {}
            for one in (survivor, *others):
                told |= joined[one]
            words = because(sorted(told.values(), key=lambda a: a.text))
            self._join(survivor, sorted(others), cause, words)
        return sum(len(others) for others in ended.values())

    def finish(self) -> None:
        """Bring what is kept beside the ledger up to date."""
        if self.survivors and self.force is not None and self.force.averages:
            averages.rebuild(self.tx, self.force)

    def _write_member(self, account: Account, before: frozenset[str]) -> None:
        """Write that an account is here; ``before``: rules it was trusted with then."""
        adversary = account.adversary_id
        self.accounts[account.text] = account
        ends = bool(before - judged_trust(self.tx, self.force, adversary))
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
            holdings.rebuild_holdings(self.tx, self.force.kept, survivor)
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
        if self.force.averages:  # the line about to be written must tell them too
            averages.rebuild(self.tx, self.force)
        return self.acceptance.judge(
            self.force,
            adversary,
            judged_trust(self.tx, self.force, adversary),
            known=known,
            means=self.force.averages,
        )

    def _head(self, adversary: int) -> ChainRow:
        if adversary not in self.heads:
            self.heads |= chains.lock(self.tx, (adversary,))
        return self.heads[adversary]
