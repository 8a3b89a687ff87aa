"""The gate on small stores: what it books, what it refuses, what a refusal leaves."""

import pytest

from dispatcher.core.errors import Conflict, NotFound, PastLimit, Refused, StaleLease
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.count_updates import rebuild
from dispatcher.ledger.explain import explain, takers
from dispatcher.model.states import record_unit
from dispatcher.store import lease
from tests import builders, edits, sql
from tests.integration.ledger_cases import PAIR, Case, policy

TABLES = ("ledger_line", "exposure_count", "task", "outbox")


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(PAIR, budget="t = 3"))
    made.add("x/1", "x/2", "x/3", "x/4")
    made.load(("r1", "p1", 10, "abcd"), ("r2", "p1", 20, "abc"), ("r3", "p2", 30, "ab"))
    return made


def counts(case):
    return {table: case.count(table) for table in TABLES}


def refusal(case, *asks, **options):
    before = counts(case)
    with pytest.raises(Refused) as caught:
        case.book(*asks, **options)
    assert counts(case) == before
    return caught.value


def test_a_booking_writes_line_summary_task_and_message(case):
    booked = case.book(("x/1", "r1.a"))
    assert (booked.new, len(booked.tasks), len(booked.messages)) == (1, 1, 1)
    assert case.count("ledger_line", "kind = 'exposure'") == 1
    assert case.count("task", "state = 'booked' AND outbox_id IS NOT NULL") == 1
    assert case.count("outbox", "state = 'ready' AND kind = 'publish'") == 1
    assert case.count("exposure_count") == 1


def test_a_pull_is_shown_under_a_lease_and_sends_nothing(case):
    booked = case.book(("x/1", "r1.a"), delivery=Pull(leased_until=case.now + 9))
    assert booked.messages == []
    assert case.count("outbox") == 0
    assert case.count("task", f"state = 'shown' AND leased_until = {case.now - 999991}")


@pytest.mark.parametrize("together", [True, False])
def test_the_second_half_of_a_pair_is_refused(case, together):
    if together:
        error = refusal(case, ("x/1", "r1.a r1.b"))
    else:
        case.book(("x/1", "r1.a"))
        error = refusal(case, ("x/1", "r1.b"))
    assert error.facts["property"] == "a-b"
    assert (error.facts["value"], error.facts["limit"]) == ("1", "1")
    assert error.exit_status == 6


def test_a_pair_of_two_records_is_no_pair_at_record_scope(case):
    assert case.book(("x/1", "r1.a r2.b r3.a")).new == 3


def test_what_may_be_booked_is_booked_when_refusals_are_skipped(case):
    booked = case.book(("x/1", "r1.a r1.b r1.c"), ("x/2", "r1.b"), skip=True)
    assert booked.new == 3
    assert [(r.rule, r.account) for r in booked.refused] == [("a-b", "x/1")]
    assert case.count("task") == 3


def test_the_fourth_adversary_is_refused_by_t(case):
    case.book(("x/1", "r1.a"), ("x/2", "r1.a"), ("x/3", "r1.a"))
    error = refusal(case, ("x/4", "r1.a"))
    assert error.facts["property"] == "budget.t"
    assert (error.facts["value"], error.facts["limit"]) == ("4", "3")


def test_t_holds_within_one_batch(case):
    asks = [(f"x/{n}", "r1.a r1.c") for n in range(1, 5)]
    booked = case.book(*asks, skip=True)
    assert [(r.account, r.rule) for r in booked.refused] == [("x/4", "budget.t")] * 2


def test_the_same_entry_again_is_a_line_but_no_showing(case):
    case.book(("x/1", "r1.a"), ("x/2", "r1.a"), ("x/3", "r1.a"))
    booked = case.book(("x/1", "r1.a"))
    assert (booked.new, len(booked.tasks)) == (0, 1)
    assert case.count("ledger_line", "kind = 'exposure' AND showing = 0") == 1
    assert case.count("exposure_count", "entries <> 1") == 0


def test_an_entry_twice_in_one_batch_is_one_showing(case):
    booked = case.book(("x/1", "r1.a r1.c r1.a"))
    assert (booked.new, len(booked.tasks)) == (2, 3)


def test_a_subject_rule_looks_across_the_records_of_a_person(store):
    case = Case(store)
    case.apply(policy('[property.h]\nscope = "subject"\nof = ["a", "b"]'))
    case.add("x/1")
    case.load(("r1", "p1", 1, "ab"), ("r2", "p1", 2, "ab"), ("r3", "p2", 3, "ab"))
    case.book(("x/1", "r1.a r2.a"))
    assert refusal(case, ("x/1", "r2.b")).facts["property"] == "h"
    assert case.book(("x/1", "r3.b")).new == 1


def test_another_run_of_the_same_people_starts_from_what_was_seen(store):
    case = Case(store)
    case.apply(policy('[property.h]\nscope = "subject"\nof = ["a", "b"]'))
    case.add("x/1", "x/2")
    case.load(("r1", "p1", 1, "ab"))
    case.book(("x/1", "r1.a"))
    case.load(("r2", "p1", 2, "ab"), run="again")
    with store.write() as tx:  # as a replay leaves the records of a lost store
        edits.lose_runs(tx, 1)
    assert refusal(case, ("x/1", "r2.b")).facts["property"] == "h"
    assert case.book(("x/2", "r2.b")).new == 1


def test_a_window_slides_over_the_times_of_a_person(store):
    # Two entries at most the window apart: 2 x 0.5 reaches the limit of 1.
    case = Case(store)
    second = 1_000_000
    case.apply(
        policy(
            '[property.w]\nscope = "subject"\nwindow = "10s"\nof = ["a", "b"]\n'
            'disclosure = { kind = "linear", per = "entry", weight = 0.5 }'
        )
    )
    case.add("x/1", "x/2")
    case.load(
        ("r1", "p", 0, "ab"), ("r2", "p", 10 * second, "ab"),
        ("r3", "p", 20 * second + 1, "ab"), ("r4", "p", 11 * second, "a"),
    )  # fmt: skip
    case.book(("x/1", "r1.a"))
    assert refusal(case, ("x/1", "r2.a")).facts["property"] == "w"
    assert case.book(("x/1", "r3.a")).new == 1
    assert refusal(case, ("x/1", "r4.a")).facts["property"] == "w"
    assert case.book(("x/2", "r1.a r2.a r3.a"), skip=True).new == 2


def test_a_group_is_one_adversary(store):
    case = Case(store)
    case.apply(policy(PAIR, groups='[workers.groups.g]\nmembers = ["x/g-*"]'))
    case.add("x/g-1", "x/g-2", "x/h")
    case.load(("r1", None, None, "ab"))
    case.book(("x/g-1", "r1.a"))
    assert refusal(case, ("x/g-2", "r1.b")).facts["property"] == "a-b"
    assert refusal(case, ("x/h", "r1.a"), ("x/g-2", "r1.b"))
    assert case.book(("x/h", "r1.b")).new == 1
    assert case.book(("x/g-2", "r1.a")).new == 0


def test_a_trusted_group_is_not_judged_by_that_rule(store):
    case = Case(store)
    groups = '[workers.groups.g]\nmembers = ["x/g-*"]\ntrusted = ["a-b"]'
    case.apply(policy(PAIR, groups=groups))
    case.add("x/g-1", "x/h")
    case.load(("r1", None, None, "ab"))
    assert case.book(("x/g-1", "r1.a r1.b")).new == 2
    assert refusal(case, ("x/h", "r1.a r1.b"))
    booked = case.book(("x/g-1", "r1.a r1.b"), ("x/h", "r1.a r1.b"), skip=True)
    assert [(r.account, r.rule) for r in booked.refused] == [("x/h", "a-b")]


def test_a_field_that_is_never_sent_is_refused(store):
    case = Case(store)
    fields = 'a = { ask = "transcribe" }\nb = { ask = "transcribe", send = false }'
    case.apply(policy("", fields))
    case.add("x/1")
    case.load(("r1", None, None, "ab"))
    assert refusal(case, ("x/1", "r1.b")).facts["property"] == "fields.send"
    booked = case.book(("x/1", "r1.a r1.b"), skip=True)
    assert [r.rule for r in booked.refused] == ["fields.send"]


def lose_runs(store):
    """Leave all records as a replay leaves those of a lost store."""
    with store.write() as tx:
        edits.lose_runs(tx)


@pytest.mark.parametrize("entries", ["r1.a", "r1.a r2.a"])
@pytest.mark.parametrize(
    ("stop", "word"),
    [
        (lambda store: builders.block(store, "x/1"), "account"),
        (builders.pause, "pause"),
        (lambda store: builders.pause(store, "connector:x"), "pause"),
        (lambda store: builders.pause(store, "run:default"), "pause"),
        (lose_runs, "pause"),
    ],
    ids=["blocked", "all", "connector", "run", "state of the run"],
)
def test_the_blocked_and_the_paused_get_nothing(case, entries, stop, word):
    stop(case.store)
    assert refusal(case, ("x/1", entries)).facts["property"] == word


@pytest.mark.parametrize("entries", ["r1.a", "r1.a r3.a"])
def test_a_recused_person_is_not_shown_again(case, entries):
    builders.recuse(case.store, "x/1", record_unit(case.records["r1"]))
    assert refusal(case, ("x/1", entries)).facts["property"] == "recusal"
    assert case.book(("x/2", entries)).new


def test_unknown_entries_and_accounts_are_not_found(case):
    for account, entries in ((999, [1]), (case.accounts["x/1"], [999])):
        for ids in (entries, [*entries, case.entries["r1.a"]]):
            with case.store.write() as tx, pytest.raises(NotFound):
                book(tx, [Asks(account, ids)], delivery=Push(), at=1, cause="test")


def test_nothing_is_booked_before_a_policy(store):
    case = Case(store)
    case.add("x/1")
    with store.write() as tx, pytest.raises(Conflict):
        book(tx, [Asks(1, [1])], delivery=Push(), at=1, cause="test")


def test_a_daemon_that_lost_its_lease_books_nothing(case):
    with case.store.write() as tx:
        epoch = lease.take(tx, 0, "me", 0, 10)
    case.book(("x/1", "r1.a"), epoch=epoch)
    with pytest.raises(StaleLease):
        case.book(("x/2", "r1.a"), epoch=epoch - 1)
    assert case.count("ledger_line", "kind = 'exposure'") == 1


def test_messages_hold_at_most_as_many_tasks_as_said(case):
    booked = case.book(
        ("x/1", "r1.a r1.c r1.d"), ("x/2", "r1.a"), delivery=Push(tasks_per_message=2)
    )
    assert len(booked.messages) == 3
    with case.store.read() as tx:
        sizes = sql.rows(
            tx, "SELECT COUNT(*) FROM task GROUP BY outbox_id ORDER BY outbox_id"
        )
    assert [row[0] for row in sizes] == [2, 1, 1]


def test_lines_can_not_be_changed_or_removed(case):
    case.book(("x/1", "r1.a"))
    for rewrite in ("ledger, changed", "ledger, deleted"):
        with pytest.raises(Conflict), case.store.write() as tx:
            edits.REWRITES[rewrite](tx)


def test_a_booking_that_is_cut_off_leaves_nothing(case):
    before = counts(case)

    def cut_off():
        ids = [case.entries["r1.a"], case.entries["r1.c"]]
        with case.store.write() as tx:
            asks = [Asks(case.accounts["x/1"], ids)]
            book(tx, asks, delivery=Push(), at=1, cause="test")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    assert counts(case) == before
    assert case.book(("x/1", "r1.b")).new == 1


def test_the_past_decides_whether_a_second_policy_holds(case):
    case.book(("x/1", "r1.c r1.d"))
    stricter = PAIR + '\n[property.c-d]\nof = ["c", "d"]\n'
    with pytest.raises(PastLimit) as caught:
        case.apply(policy(stricter, budget="t = 3"))
    assert caught.value.facts == {"property": "c-d", "adversaries": 1, "units": 1}
    assert caught.value.exit_status == 6
    other = PAIR + '\n[property.b-c]\nof = ["b", "c"]\n'
    applied = case.apply(policy(other, budget="t = 3"))
    assert (applied.version, applied.changed) == (2, True)
    assert refusal(case, ("x/1", "r1.b")).facts["property"] in {"a-b", "b-c"}
    assert case.apply(policy(other, budget="t = 3")).changed is False


def test_a_new_version_judges_what_the_old_one_kept_no_summary_of(case):
    case.book(("x/1", "r1.d"))
    with case.store.read() as tx:
        assert sql.rows(tx, "SELECT * FROM exposure_count") == []
    case.apply(policy('[property.c-d]\nof = ["c", "d"]'))
    assert refusal(case, ("x/1", "r1.c")).facts["property"] == "c-d"


def test_an_account_of_two_groups_joins_them_if_the_past_allows(store):
    case = Case(store)
    groups = (
        '[workers.groups.g]\nmembers = ["x/g*"]\n[workers.groups.h]\nmembers = ["x/*h"]'
    )
    case.apply(policy(PAIR, groups=groups))
    case.add("x/g1", "x/1h")
    case.load(("r1", None, None, "abc"), ("r2", None, None, "ab"))
    case.book(("x/g1", "r1.a"), ("x/1h", "r1.c r1.a"))
    case.add("x/gh")
    assert case.count("ledger_line", "kind = 'join'") == 2
    assert refusal(case, ("x/1h", "r1.b")).facts["property"] == "a-b"
    assert case.book(("x/gh", "r1.c")).new == 0
    with store.read() as tx:
        assert compare(tx).differences == ()
        assert sql.value(tx, "SELECT COUNT(DISTINCT adversary_id) FROM account") == 1


def test_an_account_that_would_join_a_broken_pair_is_refused(store):
    case = Case(store)
    groups = (
        '[workers.groups.g]\nmembers = ["x/g*"]\n[workers.groups.h]\nmembers = ["x/*h"]'
    )
    case.apply(policy(PAIR, groups=groups))
    case.add("x/g1", "x/1h")
    case.load(("r1", None, None, "ab"))
    case.book(("x/g1", "r1.a"), ("x/1h", "r1.b"))
    with pytest.raises(PastLimit):
        case.add("x/gh")
    assert case.count("account") == 2


TRUSTED = """
[workers.groups.g]
members = ["x/g*"]
trusted = ["a-b"]
[workers.groups.h]
members = ["x/g1", "x/h"]
"""
"""All of ``g`` may see both; who is beside them in ``h`` may not."""


def test_an_account_without_trust_ends_the_trust_of_its_adversary(store):
    case = Case(store)
    case.apply(policy(PAIR, groups=TRUSTED))
    case.add("x/g1", "x/g2")
    case.load(("r1", None, None, "ab"), ("r2", None, None, "ab"))
    case.book(("x/g1", "r1.a r1.b"), ("x/g2", "r2.a"))
    with pytest.raises(PastLimit):
        case.add("x/h")
    assert case.count("account") == 2


def test_trust_ends_for_what_comes_when_an_account_without_it_comes(store):
    case = Case(store)
    case.apply(policy(PAIR, groups=TRUSTED))
    case.add("x/g1", "x/g2")
    case.load(("r1", None, None, "ab"))
    case.book(("x/g1", "r1.a"))
    case.add("x/h")
    assert refusal(case, ("x/g2", "r1.b")).facts["property"] == "a-b"


COUNTED = """
[property.seen]
scope = "subject"
of = ["a", "b"]
disclosure = { kind = "linear", per = "entry", weight = 0.01 }
"""


def test_a_batch_adds_to_what_earlier_ones_began(store):
    case = Case(store)
    case.apply(policy(PAIR + COUNTED))
    case.add("x/1", "y/2")
    case.load(*((f"r{i}", f"p{i % 40}", None, "ab") for i in range(160)))
    old, new = (
        " ".join(f"r{i}.a" for i in numbers) for numbers in (range(80), range(80, 160))
    )
    case.book(("x/1", old), ("y/2", new))
    booked = case.book(("y/2", old), ("x/1", new + " r0.a r80.a"))
    assert (booked.new, len(booked.tasks)) == (160, 162)
    with store.read() as tx:
        assert compare(tx).differences == ()
        found = sql.rows(
            tx,
            "SELECT adversary_id, entries, COUNT(*) FROM exposure_count"
            " GROUP BY adversary_id, entries ORDER BY adversary_id, entries",
        )
        assert sql.rows(
            tx,
            "SELECT t.connector, a.connector, COUNT(*), COUNT(DISTINCT t.entry_id)"
            " FROM task t JOIN account a ON a.id = t.account_id"
            " AND a.adversary_id = t.adversary_id GROUP BY 1, 2 ORDER BY 1, 2",
        ) == [("x", "x", 162, 160), ("y", "y", 160, 160)]
    one, other = sorted({adversary for adversary, _, _ in found})
    assert found == [(a, n, c) for a in (one, other) for n, c in ((1, 160), (4, 40))]


def test_summaries_follow_from_the_ledger(case):
    case.book(("x/1", "r1.a r2.b r3.a"), ("x/2", "r1.b r1.c"))
    with case.store.write() as tx:
        assert compare(tx).differences == ()
        force = current_policy(tx)
        kept = sorted(sql.rows(tx, "SELECT * FROM exposure_count"))
        edits.miscount(tx, 2, adversary_id=1)
        assert compare(tx).differences
        rebuild(tx, force)
        assert sorted(sql.rows(tx, "SELECT * FROM exposure_count")) == kept


def test_explain_says_what_the_gate_says(case):
    case.book(("x/1", "r1.a"))
    ask = case.entries["r1.b"]
    with case.store.read() as tx:
        told = explain(tx, ask, case.accounts["x/1"])
        assert not told.allowed
        (finding,) = told.findings
        assert (finding.property, finding.before, finding.after) == ("a-b", 0, 1)
        assert [(s.field, s.account) for s in told.seen] == [("a", "x/1")]
        assert explain(tx, ask, case.accounts["x/2"]).allowed
        assert takers(tx, ask).accounts == ("x/2", "x/3", "x/4")
        assert takers(tx, ask).adversaries == 4


def test_a_cap_on_the_mean_is_kept(store):
    # Four records with the pair give four sets; f is 0.5 a set for one of its halves.
    case = Case(store)
    rules = '[property.m]\nof = ["a", "b"]\naverage = 0.25\ndisclosure = "linear"\n'
    case.apply(policy(rules))
    case.add("x/1", "x/2")
    case.load(*((f"r{i}", None, None, "ab") for i in range(4)))
    case.book(("x/1", "r0.a r1.a"))  # mean (0.5 + 0.5) / 4 = 0.25: just kept
    error = refusal(case, ("x/1", "r2.a"))
    assert (error.facts["property"], error.facts["value"]) == ("m", "3/8")
    assert refusal(case, ("x/2", "r0.a r1.a r2.a"))
    assert case.book(("x/2", "r0.a r1.a r2.a r3.b"), skip=True).new == 2
    case.load(*((f"s{i}", None, None, "ab") for i in range(4)))  # eight sets now
    assert case.book(("x/1", "r2.a r3.a")).new == 2
    with store.read() as tx:
        assert compare(tx).differences == ()


def test_what_is_booked_one_by_one_adds_up_to_the_mean(store):
    case = Case(store)
    rules = '[property.m]\nof = ["a", "b"]\naverage = 0.3\ndisclosure = "linear"\n'
    case.apply(policy(rules))
    case.add("x/1", "x/2")
    case.load(*((f"r{i}", None, None, "ab") for i in range(4)))
    case.book(("x/1", "r0.a"))
    case.book(("x/2", "r0.a"))
    case.book(("x/1", "r1.a"))
    with store.read() as tx:
        assert compare(tx).differences == ()
    error = refusal(case, ("x/1", "r2.a"))
    assert (error.facts["property"], error.facts["value"]) == ("m", "3/8")
    assert case.book(("x/2", "r1.a")).new == 1


def test_an_unknown_entry_books_nothing_of_what_was_asked_before_it(store):
    """Also where a mean is capped, and asks are booked one after another."""
    case = Case(store)
    rules = '[property.m]\nof = ["a", "b"]\naverage = 0.5\ndisclosure = "linear"\n'
    case.apply(policy(rules))
    case.add("x/1")
    case.load(("r0", None, None, "ab"))
    lines = case.count("ledger_line")
    with store.write() as tx:
        asks = [Asks(case.accounts["x/1"], [case.entries["r0.a"], 999_999])]
        with pytest.raises(NotFound):
            book(tx, asks, delivery=Push(), at=case.tick(), cause="test")
    assert case.count("ledger_line") == lines
    assert case.book(("x/1", "r0.a")).new == 1
    with store.read() as tx:
        assert compare(tx).differences == ()


def test_a_seal_covers_what_has_grown(case):
    with case.store.write() as tx:
        first = seal(tx, at=case.tick())
    case.book(("x/1", "r1.a"))
    with case.store.write() as tx:
        second = seal(tx, at=case.tick())
        assert seal(tx, at=case.tick()) is None
    assert first.root != second.root
    assert second.heads[1][1] == first.heads[1][1] + 1
