"""Two at the same time: what one alone may not do, two together may not do either."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatcher.core.errors import DispatcherError, PastLimit, Refused
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE, together, until

GROUP = '[workers.groups.g]\nmembers = ["x/g*"]'


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(PAIR, budget="t = 2", groups=GROUP))
    made.add("x/g1", "x/g2", *(f"x/{i}" for i in range(6)))
    made.load(*((f"r{i}", None, None, "abcd") for i in range(20)))
    return made


@pytest.mark.parametrize("size", [1, 2])
def test_safety_38_two_never_take_the_two_halves_of_a_pair(case, size):
    # Two accounts of one adversary ask for the halves at once: one of them may have it.
    for i in range(10):
        more = " ".join(f"r{i}.{letter}" for letter in "c"[: size - 1])
        said = together(
            lambda i=i, more=more: case.book(("x/g1", f"r{i}.a {more}")),
            lambda i=i, more=more: case.book(("x/g2", f"r{i}.b {more}")),
        )
        refused = [one for one in said if isinstance(one, Refused)]
        assert len(refused) == 1, said
        assert refused[0].facts["property"] == "a-b"


def test_t_is_never_exceeded(case):
    for i in range(6):
        said = together(
            *(lambda n=n, i=i: case.book((f"x/{n}", f"r{i}.a")) for n in range(4))
        )
        refused = [one for one in said if isinstance(one, Refused)]
        assert [one.facts["property"] for one in refused] == ["budget.t"] * 2, said


def test_batches_that_cross_end_without_a_deadlock_and_within_t(case):
    entries = [f"r{i}.a" for i in range(20)]
    said = together(
        lambda: case.book(("x/0", " ".join(entries)), ("x/1", entries[0]), skip=True),
        lambda: case.book(("x/1", " ".join(entries[::-1])), skip=True),
        lambda: case.book(("x/2", " ".join(entries)), skip=True),
        lambda: case.book(("x/3", " ".join(entries[::-1])), skip=True),
    )
    assert sum(booked.new for booked in said) == 2 * 20, said
    assert case.count("ledger_line", "showing = 1") == 40
    with case.store.read() as tx:
        assert compare(tx).differences == ()


def test_a_new_version_waits_for_bookings_and_they_for_it(case):
    stricter = PAIR + '\n[property.c-d]\nof = ["c", "d"]\n'

    def books():
        return [case.book(("x/0", f"r{i}.c r{i}.a"), skip=True).new for i in range(20)]

    def applies():
        return case.apply(policy(stricter, budget="t = 2", groups=GROUP))

    def seals():
        for _ in range(5):
            with case.store.write() as tx:
                seal(tx, at=case.tick())

    said = together(books, applies, seals)
    assert not [one for one in said if isinstance(one, DispatcherError)], said
    with case.store.read() as tx:
        falls = sql.value(
            tx,
            "SELECT COUNT(*) FROM ledger_line a JOIN ledger_line b"
            " ON a.chain_id = b.chain_id AND a.seq < b.seq"
            " AND a.policy_version > b.policy_version WHERE a.chain_id <> 0",
        )
        assert falls == 0
        assert compare(tx).differences == ()


def test_a_new_version_judges_the_booking_that_it_waited_for(postgres_store):
    # The booking is written but not committed when the version comes: it must wait.
    case = Case(postgres_store)
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(("r1", None, None, "cd"))
    stricter = policy('[property.c-d]\nof = ["c", "d"]')
    wanted = [Asks(case.accounts["x/1"], list(case.entries.values()))]
    with ThreadPoolExecutor(1) as pool:
        with postgres_store.write() as tx:
            book(tx, wanted, delivery=Push(), at=case.tick(), cause="test")
            job = pool.submit(together, lambda: case.apply(stricter))
            until(
                lambda: job.done() or _somebody_waits(postgres_store),
                "the version waits for the booking",
                pause=0.01,
            )
        (said,) = job.result(PATIENCE)
    assert isinstance(said, PastLimit)


def _somebody_waits(store):
    with store.read() as tx:
        return sql.value(
            tx,
            "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()",
        )


def test_accounts_come_while_others_work(case):
    said = together(
        lambda: [case.book(("x/0", f"r{i}.a")).new for i in range(20)],
        lambda: [case.add(f"x/g{i}") for i in range(3, 10)],
        lambda: [case.add(f"x/h{i}") for i in range(3, 10)],
    )
    assert not [one for one in said if isinstance(one, DispatcherError)], said
    with case.store.read() as tx:
        found = sql.rows(
            tx, "SELECT COUNT(DISTINCT adversary_id) FROM account WHERE name LIKE 'g%'"
        )
    assert found == [(1,)]
