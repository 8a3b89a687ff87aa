"""Which accounts are one adversary: declared groups joined over known accounts, and trust.

Groups are one adversary once one known account matches both, or both list the same
text. Known accounts are those given, and every member written without ``*?[``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from policies.policy import Group, Policy


@dataclass(frozen=True)
class Adversary:
    """Accounts treated as one adversary.

    Attributes
    ----------
    accounts : tuple of str
        All known accounts, sorted: those given, and members written out in the policy.
    groups : tuple of str
        Names of the declared groups that are joined here, sorted; empty for an account
        on its own.
    """

    accounts: tuple[str, ...]
    groups: tuple[str, ...] = ()


def literal_members(group: Group) -> frozenset[str]:
    """Return the members written without a wildcard, which are known accounts."""
    return frozenset(m for m in group.members if not any(c in m for c in "*?["))


def groups_of(policy: Policy, account: str) -> tuple[str, ...]:
    """Return the names of the declared groups whose members match the account, sorted."""
    names = (name for name, g in policy.groups.items() if g.matches(account))
    return tuple(sorted(names))


def adversaries(policy: Policy, accounts: Iterable[str]) -> tuple[Adversary, ...]:
    """Partition the known accounts into adversaries.

    Parameters
    ----------
    policy : Policy
    accounts : Iterable of str
        The accounts in the store (in a test: the worker and the keys of ``seen_by``).
        The caller applies earlier joins and merges, which can only join more.

    Returns
    -------
    tuple of Adversary
        A partition of the known accounts, sorted by first account. Groups that no known
        account matches have no adversary yet.
    """
    known = set(accounts).union(*map(literal_members, policy.groups.values()))
    joined = _Joined(policy.groups)
    listed: dict[str, str] = {}
    for name, group in policy.groups.items():
        for text in group.members:
            joined.join(name, listed.setdefault(text, name))
    of_account = {account: groups_of(policy, account) for account in known}
    for names in of_account.values():
        for name in names[1:]:
            joined.join(names[0], name)
    members: dict[str, list[str]] = {}
    alone = []
    for account in sorted(known):
        if of_account[account]:
            root = joined.root(of_account[account][0])
            members.setdefault(root, []).append(account)
        else:
            alone.append(Adversary((account,)))
    together = [
        Adversary(tuple(accounts_), joined.names(root))
        for root, accounts_ in members.items()
    ]
    return tuple(sorted([*alone, *together], key=lambda a: a.accounts))


class _Joined:
    """Union-find over group names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, one: str, other: str) -> None:
        self._parent[self.root(one)] = self.root(other)

    def names(self, root: str) -> tuple[str, ...]:
        return tuple(sorted(n for n in self._parent if self.root(n) == root))


def trusted_rules(
    policy: Policy, groups_of_each_account: Iterable[Collection[str]]
) -> frozenset[str]:
    """Return rules not judged for an adversary, by the groups of its known accounts.

    A rule is left out while *every* account is in some group trusted with it; an
    adversary without accounts is trusted with nothing. Unknown group names are
    ignored.
    """
    shared: frozenset[str] | None = None
    for names in groups_of_each_account:
        mine: frozenset[str] = frozenset().union(
            *(policy.groups[n].trusted for n in names if n in policy.groups)
        )
        shared = mine if shared is None else shared & mine
        if not shared:
            return frozenset()
    return shared if shared is not None else frozenset()
