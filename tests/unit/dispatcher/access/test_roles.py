"""The one table of operations, scopes and roles, and what it must never allow."""

import itertools

import pytest

from dispatcher.access.roles import (
    APART,
    MACHINE,
    NOT_FOR_TOKENS,
    OPERATIONS,
    ROLES,
    SCOPES,
    Principal,
    allowed,
    check_roles,
    check_scopes,
    scopes_of,
)
from dispatcher.core.errors import Invalid
from tests.unit.dispatcher.surfaces.cli.test_tree import LEAVES

READING = {"read", "reveal"}


def having(*roles):
    return Principal("ann", "user", frozenset(roles), scopes_of(roles), 1)


def may(*roles):
    """Operations that these roles permit."""
    return {one for one in OPERATIONS if allowed(having(*roles), one)}


def test_every_command_is_an_operation_of_the_table():
    commands = {path.replace(" ", ".") for path in LEAVES}
    assert commands <= OPERATIONS.keys()


def test_every_scope_is_given_by_a_role_and_asked_for_by_an_operation():
    assert set(OPERATIONS.values()) - SCOPES == {MACHINE}
    assert SCOPES - set(OPERATIONS.values()) == set()


def test_what_has_no_line_nobody_may_do():
    everything = Principal("x", "user", frozenset(ROLES), SCOPES | {MACHINE})
    assert not everything.may("records.sell")
    assert not everything.may("")


def test_what_is_for_the_machine_no_role_permits():
    assert not any(may(role) & machine_only() for role in ROLES)


def machine_only():
    return {one for one, scope in OPERATIONS.items() if scope == MACHINE}


def changing():
    return {
        one
        for one, scope in OPERATIONS.items()
        if scope.rpartition(":")[2] not in READING
    }


def test_a_viewer_changes_nothing_and_sees_no_value():
    assert not may("viewer") & changing()
    assert not may("viewer") & {
        "records.reveal",
        "answers.reveal",
        "answers.show",
        "audit.log",
    }


def test_a_privacy_officer_does_nothing_of_an_operators():
    assert not may("privacy-officer") & may("operator") & changing()
    assert {"audit.log", "audit.export", "subject.erase"} <= may("privacy-officer")


def test_an_admin_sees_no_value_and_does_no_work():
    seen = may("admin")
    assert not seen & {
        "records.reveal",
        "records.reassemble",
        "answers.reveal",
        "answers.show",
        "answers.judge",
    }
    assert not seen & changing() & (may("operator") | may("policy-admin"))


def test_no_scope_to_read_gives_values():
    shows = {
        "records.reveal",
        "records.reassemble",
        "answers.reveal",
        "answers.show",
        "subject.report",
    }
    assert {OPERATIONS[one] for one in shows} == {
        "records:reveal",
        "answers:review",
        "subjects:reveal",
    }


@pytest.mark.parametrize("pair", APART, ids=sorted)
def test_nobody_has_two_roles_that_are_to_be_apart(pair):
    with pytest.raises(Invalid, match="nobody is both"):
        check_roles([*pair, "viewer"])


def test_roles_that_are_not_apart_go_together():
    for pair in itertools.combinations(ROLES, 2):
        if frozenset(pair) not in APART:
            assert check_roles(pair) == set(pair)


@pytest.mark.parametrize("roles", [[], ["root"], ["viewer", "root"]])
def test_an_unknown_role_is_refused(roles):
    with pytest.raises(Invalid):
        check_roles(roles)


def test_no_token_may_make_tokens_users_or_sessions():
    for scope in NOT_FOR_TOKENS:
        with pytest.raises(Invalid, match=scope):
            check_scopes(["records:write", scope])
    for role, scopes in ROLES.items():
        wanted = scopes - NOT_FOR_TOKENS
        assert check_scopes(wanted) == wanted, role


def test_a_token_joins_no_acts_of_roles_that_are_to_be_apart():
    for pair in APART:
        one, other = (ROLES[role] - NOT_FOR_TOKENS for role in pair)
        with pytest.raises(Invalid, match="no token has both"):
            check_scopes(one | other)
    with pytest.raises(Invalid, match="no token has both"):
        check_scopes({"subjects:write", "records:write"})
    seen = {scope for scope in SCOPES if scope.endswith(":read")}
    assert check_scopes(seen) == seen
