"""Merges: what two accounts know together, what is accepted, what is taken back."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import (
    Changed,
    Conflict,
    NotFound,
    PastLimit,
    Refused,
    Usage,
)
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Pull
from dispatcher.ledger.identity_changes import add_accounts, merge
from dispatcher.ledger.recall import InFlightAction, revive
from dispatcher.ledger.versions import ApplyTerms, apply_policy
from dispatcher.store import open_store
from tests import builders, sql
from tests.integration.ledger_cases import PAIR, Case, policy

FREE = '[property.p]\nof = ["a", "b", "c"]\ntau = 0.9\ndisclosure = "linear"\n'


@pytest.fixture
def case(store):
    return Case(store)


def join(case, *parts, because="same payout address", accept=0, withdrawing=()):
    with case.store.write() as tx:
        return merge(
            tx,
            [part.split() for part in parts],
            because=because,
            at=case.tick(),
            accept=accept,
            withdrawing=withdrawing,
        )


def two_halves(case, **how):
    """Ann saw a and Bob saw b of one record, and each something harmless."""
    case.apply(policy(PAIR))
    case.add("x/ann", "x/bob", "x/cat")
    case.load(("r1", None, None, "abc"), ("r2", None, None, "abc"))
    case.book(("x/ann", "r1.a r1.c"), **how)
    case.book(("x/bob", "r1.b r2.a"), **how)


def states(case):
    with case.store.read() as tx:
        return dict(sql.rows(tx, "SELECT state, COUNT(*) FROM task GROUP BY state"))


def verdict(case, folder, clock):
    return verify(export(case.store, folder, clock=clock).folder)


def give_up(case):
    """All messages end among the dead letters."""
    return builders.settle_messages(case.store, "dead", tries=12, error="e")


def retry(case, ids):
    with case.store.write() as tx:
        return revive(tx, current_policy(tx), ids, case.tick())


def test_what_was_given_up_does_not_go_out_after_a_merge_that_makes_it_unsafe(case):
    """r1.a and r1.b complete a set together: both stay; r1.c and r2.a may go."""
    two_halves(case)
    dead = give_up(case)
    assert join(case, "x/ann x/bob", accept=1).joined == 1
    assert retry(case, dead) == (2, 2)
    assert states(case) == {"booked": 2, "returned": 2}


def test_what_waits_again_is_recalled_by_a_merge_that_makes_it_unsafe(case):
    two_halves(case)
    assert retry(case, give_up(case)) == (2, 0)
    assert states(case) == {"booked": 4}
    assert join(case, "x/ann x/bob", accept=1).recall.unsafe == 2
    assert states(case) == {"booked": 2, "returned": 2}


def test_a_merge_that_completes_nothing_needs_no_acceptance(case, tmp_path, clock):
    two_halves(case)
    done = join(case, "x/ann x/cat")
    assert (done.joined, done.accepted, done.recall.unsafe) == (1, (), 0)
    assert done.entries == 2
    with pytest.raises(Refused):
        case.book(("x/cat", "r1.b"))
    assert verdict(case, tmp_path / "e", clock).status == 0


def test_a_merge_that_completes_a_set_needs_its_number(case, tmp_path, clock):
    two_halves(case)
    for accept in (0, 2):
        with pytest.raises(PastLimit) as caught:
            join(case, "x/ann x/bob", accept=accept)
        assert caught.value.exit_status == 6
        assert "--accept-past 1" in caught.value.fix
    assert case.count("chain", "survivor_id IS NOT NULL") == 0
    done = join(case, "x/ann x/bob", accept=1)
    assert [past.property for past in done.accepted] == ["a-b"]
    found = verdict(case, tmp_path / "e", clock)
    assert found.status == 0, found.text
    assert '"accepted":1' in found.first
    assert "JOINED" in found.text
    assert "same payout address" in found.text


def test_a_number_where_nothing_is_past_is_refused(case):
    two_halves(case)
    with pytest.raises(PastLimit, match="0 findings"):
        join(case, "x/ann x/cat", accept=1)


def test_accepted_is_past_not_licence(case):
    rules = '[property.p]\nof = ["a", "b", "c"]\ndisclosure = { kind = "step", at = 2 }'
    case.apply(policy(rules))
    case.add("x/ann", "x/bob")
    case.load(("r1", None, None, "abc"))
    case.book(("x/ann", "r1.a"), ("x/bob", "r1.b"))
    join(case, "x/ann x/bob", accept=1)
    with pytest.raises(Refused):
        case.book(("x/ann", "r1.c"))


def test_what_was_accepted_is_not_told_again(case, tmp_path, clock):
    two_halves(case)
    join(case, "x/ann x/bob", accept=1)
    assert join(case, "x/ann x/cat").accepted == ()
    assert verdict(case, tmp_path / "e", clock).status == 0


def test_a_new_version_asks_again_for_what_is_past(case, tmp_path, clock):
    two_halves(case)
    join(case, "x/ann x/bob", accept=1)
    with pytest.raises(PastLimit):
        case.apply(policy(PAIR, name="two"))
    with case.store.write() as tx:
        terms = ApplyTerms(accept=1, reason="it was accepted before")
        source = policy(PAIR, name="two")
        applied = apply_policy(tx, source, at=case.tick(), terms=terms)
    assert [past.chain for past in applied.accepted] == ["a1"]
    join(case, "x/ann x/cat")
    assert verdict(case, tmp_path / "e", clock).status == 0


def test_a_group_of_a_new_version_may_join_with_acceptance(case, tmp_path, clock):
    two_halves(case)
    groups = '[workers.groups.g]\nmembers = ["x/ann", "x/bob"]'
    source = policy(PAIR, name="two", groups=groups)
    with pytest.raises(PastLimit):
        case.apply(source)
    with case.store.write() as tx:
        applied = apply_policy(tx, source, at=case.tick(), terms=ApplyTerms(accept=1))
    assert applied.joined == 1
    assert verdict(case, tmp_path / "e", clock).status == 0


def test_a_mean_past_its_cap_is_accepted_too(case, tmp_path, clock):
    case.apply(policy('[property.a-b]\nof = ["a", "b"]\ntau = 1\naverage = 0.4\n'
                      'disclosure = "linear"'))  # fmt: skip
    case.add("x/ann", "x/bob")
    case.load(*((f"r{i}", None, None, "ab") for i in range(4)))
    case.book(("x/ann", "r0.a r1.a"), ("x/bob", "r2.a r3.a"))
    with pytest.raises(PastLimit):
        join(case, "x/ann x/bob")
    done = join(case, "x/ann x/bob", accept=1)
    assert [(past.property, past.unit) for past in done.accepted] == [("a-b", ())]
    found = verdict(case, tmp_path / "e", clock)
    assert found.status == 0, found.text


def test_merges_before_the_first_policy_are_kept(case, tmp_path, clock):
    case.add("x/ann", "x/bob")
    assert join(case, "x/ann x/bob").joined == 1
    case.apply(policy(PAIR))
    assert verdict(case, tmp_path / "e", clock).status == 0


def test_what_is_no_merge_is_told_and_changes_nothing(case):
    two_halves(case)
    for parts, because, error in (
        (["x/ann x/zoe"], "x", NotFound),
        (["x/ann"], "x", Usage),
        (["x/ann x/ann"], "x", Usage),
        (["x/ann x/bob"], " ", Usage),
        (["x/ann x/bob"], "two\nlines", Usage),
        ([], "x", Usage),
    ):
        with pytest.raises(error):
            join(case, *parts, because=because)
    join(case, "x/ann x/cat")
    with pytest.raises(Conflict, match="already"):
        join(case, "x/ann x/cat")


def test_tasks_that_have_not_left_stay_here(case):
    two_halves(case)
    done = join(case, "x/ann x/bob", accept=1)
    assert len(done.recall.unsent) == 2
    assert states(case) == {"booked": 2, "returned": 2}
    # r1.c and r2.a are safe, so their messages still go
    assert case.count("outbox", "state = 'cancelled'") == 0


def test_a_message_of_nothing_but_unsafe_tasks_is_cancelled(case):
    case.apply(policy(PAIR))
    case.add("x/ann", "x/bob")
    case.load(("r1", None, None, "ab"))
    case.book(("x/ann", "r1.a"))
    case.book(("x/bob", "r1.b"))
    done = join(case, "x/ann x/bob", accept=1)
    assert done.recalled.messages == 2
    assert case.count("outbox", "state = 'cancelled'") == 2


def test_what_is_on_our_page_is_taken_off_it(case):
    two_halves(case, delivery=Pull(leased_until=2**60))
    done = join(case, "x/ann x/bob", accept=1)
    assert len(done.recall.shown) == 2
    assert states(case) == {"shown": 2, "returned": 2}


@pytest.mark.parametrize(
    ("withdrawing", "left", "after"),
    [({"x"}, 0, {"returned": 4}), (set(), 2, {"sent": 4})],
)
def test_what_is_outside_is_withdrawn_where_that_can_be_done(
    case, withdrawing, left, after
):
    two_halves(case)
    builders.settle_messages(case.store, "sent")
    done = join(case, "x/ann x/bob", accept=1, withdrawing=withdrawing)
    assert done.recalled.left == left
    assert done.recalled.beside == (2 if withdrawing else 0)
    assert states(case) == after
    assert case.count("outbox", "kind = 'withdraw'") == (2 if withdrawing else 0)


def test_the_audit_log_tells_of_the_merge_and_of_the_limit(case):
    two_halves(case)
    join(case, "x/ann x/bob", accept=1)
    with case.store.read() as tx:
        rows = sql.rows(tx, "SELECT action, detail FROM event ORDER BY id")
    assert [action for action, _ in rows[1:]] == ["worker.merged", "limit.crossed"]
    assert json.loads(rows[2][1])["properties"] == ["a-b"]


def test_an_account_that_ends_a_trust_is_added_with_acceptance(case, tmp_path, clock):
    trusted = '[workers.groups.team]\nmembers = ["x/a*"]\ntrusted = ["a-b"]\n'
    both = '[workers.groups.all]\nmembers = ["x/*"]\n'
    case.apply(policy(PAIR, groups=trusted + both))
    case.add("x/ann")
    case.load(("r1", None, None, "ab"))
    case.book(("x/ann", "r1.a r1.b"))  # its trust allows that
    with pytest.raises(PastLimit):
        case.add("x/bob")  # one adversary with ann, and trusted with nothing
    with case.store.write() as tx:
        added = add_accounts(tx, [("x", "bob")], at=case.tick(), accept=1)
    assert [past.property for past in added.accepted] == ["a-b"]
    found = verdict(case, tmp_path / "e", clock)
    assert found.status == 0, found.text


ACCOUNTS = ("x/a", "x/b", "x/c", "x/d")
ASKS = st.lists(
    st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(["r1.a", "r1.b", "r2.a", "r2.b"])),
    max_size=8,
)  # fmt: skip
PAIRS = st.lists(
    st.sampled_from(list(itertools.combinations(ACCOUNTS, 2))), min_size=1, max_size=4
)


def outcome(folder, asks, merges):
    """Who is one, what each holds, and what was accepted, after merges in an order."""
    with open_store(folder / "s.db", create=True) as store:
        case = Case(store)
        case.apply(policy(PAIR))
        case.add(*ACCOUNTS)
        case.load(("r1", None, None, "ab"), ("r2", None, None, "ab"))
        for who, what in asks:
            case.book((who, what), skip=True)
        accepted = set()
        for one, other in merges:
            try:
                done = join(case, f"{one} {other}", accept=None)
            except Conflict:
                continue
            accepted |= {(past.property, past.unit) for past in done.accepted}
        with store.read() as tx:
            who = sql.rows(tx, "SELECT name, adversary_id FROM account ORDER BY id")
            holds = sql.rows(tx, "SELECT * FROM exposure_count ORDER BY 1, 2, 3, 4")
            # pseudonyms are keyed by the store: told by the record
            keys = {name: bytes(key) for name, key in
                    sql.rows(tx, "SELECT pseudonym, key FROM record")}  # fmt: skip
    return who, holds, {(rule, keys[unit[0]]) for rule, unit in accepted}


@given(asks=ASKS, merges=PAIRS, data=st.data())
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_order_of_merges_makes_no_difference(tmp_path_factory, asks, merges, data):
    other = data.draw(st.permutations(merges))
    turned = [pair[::-1] for pair in other]
    one, two = (tmp_path_factory.mktemp("s") for _ in range(2))
    assert outcome(one, asks, merges) == outcome(two, asks, turned)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (InFlightAction.RECALL, {"returned": 4}),
        (InFlightAction.DRAIN, {"returned": 2, "shown": 2}),
        (InFlightAction.KEEP, {"booked": 2, "shown": 2}),
    ],
)
def test_a_version_says_what_becomes_of_tasks_under_way(case, how, expected):
    case.apply(policy(FREE))
    case.add("x/ann", "x/bob")
    case.load(("r1", None, None, "abc"))
    case.book(("x/ann", "r1.a r1.b"), delivery=Pull(leased_until=2**60))
    case.book(("x/bob", "r1.b r1.c"))
    strict = policy(FREE.replace("0.9", "0.6"), name="two")
    with case.store.write() as tx:
        terms = ApplyTerms(accept=2, in_flight=how, reason="stricter")
        applied = apply_policy(tx, strict, at=case.tick(), terms=terms)
    assert applied.recall.unsafe == 4
    assert states(case) == expected


def test_a_version_is_applied_only_over_the_one_that_was_looked_at(case):
    case.apply(policy(PAIR))
    for wanted in (0, 2):
        terms = ApplyTerms(if_active=wanted)
        with case.store.write() as tx, pytest.raises(Changed, match="1 is in force"):
            apply_policy(tx, policy(PAIR, name="two"), at=1, terms=terms)
    with case.store.write() as tx:
        terms = ApplyTerms(if_active=1)
        applied = apply_policy(tx, policy(PAIR, name="two"), at=2, terms=terms)
    assert applied.version == 2
