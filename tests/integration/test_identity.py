"""Accounts: how they are written, found, blocked, invited and read from files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import identity
from dispatcher.core.errors import Conflict, Invalid, NotFound, Usage
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


@pytest.mark.parametrize(
    "text", ["", "ann", "/ann", "x/", "X/ann", "x/ ann", "x/a\0b", "x/a\nb", "x/\ud800"]
)
def test_what_is_no_account_is_refused(text):
    with pytest.raises(Usage):
        identity.account_of(text)


@given(st.text(max_size=30))
def test_any_text_is_an_account_or_refused(text):
    try:
        connector, name = identity.account_of(text)
    except Usage:
        return
    assert f"{connector}/{name}" == text


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
        assert identity.block(tx, "x/ann").state == "blocked"
    with case.store.write() as tx, pytest.raises(Conflict):
        identity.block(tx, "x/ann")
    with case.store.write() as tx:
        assert identity.unblock(tx, "x/ann", 1, "cli").state == "active"
        with pytest.raises(NotFound):
            identity.block(tx, "x/bob")


def test_revoking_raises_the_number_that_invites_must_have(case):
    case.add("x/ann")
    with case.store.write() as tx:
        before = identity.find(tx, "x/ann").invite
        after = identity.revoke_invites(tx, "x/ann")
        assert after.invite == before + 1
        assert identity.find(tx, "x/ann") == after
        with pytest.raises(NotFound):
            identity.revoke_invites(tx, "x/bob")


@pytest.mark.parametrize(
    "text",
    [
        "worker\nx/ann\nx/bob\n",
        "name,connector\r\nann,x\r\nbob,x\r\n",
        "\ufeffaccount,quality\nx/ann,1\n\nx/bob,1\n",
        "x/ann\nx/bob\nx/ann",
        '{"worker": "x/ann"}\n{"connector": "x", "name": "bob"}\n',
    ],
)
def test_accounts_are_read_from_a_file(text):
    read = identity.read_accounts(text.encode())
    assert read.names == (("x", "ann"), ("x", "bob"))
    assert read.rejected == ()


def test_bad_lines_of_a_file_are_told_by_line():
    read = identity.read_accounts(b"worker\nx/ann\nbob\nx/\n")
    assert read.names == (("x", "ann"),)
    assert [line for line, _ in read.rejected] == [3, 4]


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff\xfe", b"who\nx/ann\n"])
def test_a_file_that_names_no_account_is_invalid(data):
    with pytest.raises(Invalid):
        identity.read_accounts(data)
