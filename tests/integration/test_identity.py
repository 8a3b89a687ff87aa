"""Accounts: how they are written, found, blocked, invited and read from files."""

import pytest

from dispatcher import identity
from dispatcher.core.errors import Conflict, NotFound
from dispatcher.ledger.active_policy import current_policy
from tests.integration.ledger_cases import PAIR, Case, policy


@pytest.fixture
def case(store):
    return Case(store)


@pytest.mark.parametrize("name", ["ann", "a/b/c", "🦉 owl", "O'Hara; DROP", "%_*", "é"])
def test_a_name_is_any_text_that_can_be_shown(case, name):
    case.add(f"x/{name}")
    with case.store.read() as tx:
        assert identity.find(tx, f"x/{name}").name == name


def test_an_account_is_added_once(case):
    case.add("x/ann", "x/bob")
    case.add("x/ann", "x/cat", "x/cat")
    with case.store.read() as tx:
        listed = [account.text for account in identity.list_accounts(tx)]
    assert listed == ["x/ann", "x/bob", "x/cat"]
    assert case.count("ledger_line", "kind = 'member'") == 3


def test_accounts_of_no_group_are_adversaries_of_their_own(case):
    case.add("x/ann", "x/bob")
    assert case.count("chain") == 3  # and the system's


def test_groups_are_listed_with_their_accounts(case):
    groups = '[workers.groups.g]\nmembers = ["x/a*"]\ntrusted = ["a-b"]'
    case.apply(policy(PAIR, groups=groups))
    case.add("x/ann", "x/al", "x/bob")
    with case.store.read() as tx:
        force = current_policy(tx)
        (group,) = identity.list_groups(tx, force.policy)
    assert (group.accounts, group.trusted) == (("x/al", "x/ann"), ("a-b",))


def test_a_policy_joins_accounts_that_were_there_before(case):
    case.add("x/ann", "x/al", "x/bob")
    case.apply(policy(PAIR, groups='[workers.groups.g]\nmembers = ["x/a*"]'))
    assert case.count("chain", "survivor_id IS NOT NULL") == 1
    with case.store.read() as tx:
        ids = {a.text: a.adversary_id for a in identity.list_accounts(tx)}
    assert ids["x/ann"] == ids["x/al"] != ids["x/bob"]


def test_groups_only_ever_join(case):
    case.apply(policy(PAIR, groups='[workers.groups.g]\nmembers = ["x/a*"]'))
    case.add("x/ann", "x/al")
    case.apply(policy(PAIR, name="without groups"))
    with case.store.read() as tx:
        assert len({a.adversary_id for a in identity.list_accounts(tx)}) == 1


def test_an_account_is_blocked_and_let_in_again(case):
    case.add("x/ann")
    with case.store.write() as tx:
        assert identity.block(tx, "x/ann", 7, "me").state == "blocked"
    with case.store.write() as tx, pytest.raises(Conflict):
        identity.block(tx, "x/ann", 7, "me")
    with case.store.write() as tx:
        assert identity.unblock(tx, "x/ann", 1, "cli").state == "active"
        with pytest.raises(NotFound):
            identity.block(tx, "x/bob", 7, "me")


def test_revoking_raises_the_number_that_invites_must_have(case):
    case.add("x/ann")
    with case.store.write() as tx:
        before = identity.find(tx, "x/ann").invite
        after = identity.revoke_invites(tx, "x/ann")
        assert after.invite == before + 1
        assert identity.find(tx, "x/ann") == after
        with pytest.raises(NotFound):
            identity.revoke_invites(tx, "x/bob")
