"""Attacks on the promise: what the policy forbids stays apart, whatever changes."""

import io
import logging
import sys
import threading

import pytest
import structlog

from dispatcher.core.errors import (
    Conflict,
    DispatcherError,
    PastLimit,
    Refused,
    StoreLocked,
    Usage,
)
from dispatcher.core.log import configure, guard_uncaught
from dispatcher.custody.evidence import export, verify
from dispatcher.identity import account_of
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy

SECOND = 1_000_000
MEANS = """
[property.m]
of = ["a", "b"]
disclosure = "linear"
average = 0.3
"""
WINDOWED = """
[property.w]
scope = "subject"
of = ["a", "b"]
window = "10s"
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
average = 0.1
"""


def test_a_load_that_lifts_a_mean_past_its_cap_is_refused_whole(store, tmp_path, clock):
    # An entry that nobody holds begins a window over what is held already.
    case = Case(store)
    case.apply(policy(WINDOWED))
    case.add("x/ann")
    case.load(("r0", "p", 50 * SECOND, "a"))
    case.load(*((f"q{i}", f"p{i}", 0, "a") for i in range(4)))
    case.book(("x/ann", "r0.a"))  # 0.25 over five windows: 0.05
    with pytest.raises(PastLimit) as caught:
        case.load(*((f"s{i}", "p", (41 + i) * SECOND, "b") for i in range(6)))
    assert caught.value.facts["property"] == "w"
    assert case.count("entry") == 5
    assert verify(export(store, tmp_path / "one", clock=clock).folder).status == 0


def test_summaries_of_means_do_not_differ_only_because_a_load_came(store):
    case = Case(store)
    case.apply(policy(MEANS))
    case.add("x/ann")
    case.load(("r0", None, None, "ab"), ("r1", None, None, "ab"))
    case.book(("x/ann", "r0.a"))
    case.load(("r2", None, None, "ab"))
    with store.read() as tx:
        assert compare(tx).differences == ()


def test_means_that_two_make_anew_at_once_lose_nothing(store):
    # After a load the sums are stale: whoever books first makes them anew, for all
    # adversaries, while others add to theirs.
    case = Case(store)
    case.apply(policy(MEANS))
    names = [f"x/{i}" for i in range(6)]
    case.add(*names)
    for turn in range(6):
        case.load(*((f"r{turn}.{i}", None, None, "ab") for i in range(12)))
        start = threading.Barrier(len(names))
        faults = []

        def books(name, turn=turn, start=start, faults=faults):
            mine = names.index(name)
            start.wait()
            for i in (2 * mine, 2 * mine + 1):
                try:
                    case.book((name, f"r{turn}.{i}.a"), skip=True)
                except DispatcherError as error:
                    faults.append(error)

        workers = [threading.Thread(target=books, args=(name,)) for name in names]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not faults
        with store.read() as tx:
            assert compare(tx).differences == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (('subject = "person"', ""), ('subject = "household"', "")),
        (('time = "when"', ""), ('time = "loaded_at"', "")),
        (('key = "id"', ""), ('key = "serial"', "")),
        (("transcribe\" }\nb =", "transcribe\" }\nb ="),
         ("transcribe\" }\nb =", "transcribe\", redact = [\"email\"] }\nb =")),
        (('"transcribe" }\nb =', '"transcribe", image = "scan#box" }\nb ='),
         ('"transcribe" }\nb =', '"transcribe" }\nb =')),
    ],
)  # fmt: skip
def test_what_was_loaded_is_not_read_by_another_policys_words(store, before, after):
    # Subjects, times, keys and shown forms are made at load: a version that makes them
    # of something else would judge, or show, what it does not mean.
    case = Case(store)
    plain = policy(PAIR).decode()

    def changed(pair):
        old, new = pair
        return (plain.replace(old, new, 1) if new else _swapped(plain, old)).encode()

    case.apply(changed(before))
    case.add("x/ann")
    case.load(("r1", "p", 5, "abcd"))
    with pytest.raises(Conflict):
        case.apply(changed(after))
    with store.read() as tx:
        assert sql.value(tx, "SELECT policy_version FROM policy_lock") == 1


def _swapped(text, line):
    word = line.partition(" =")[0]
    return "\n".join(
        line if one.startswith(f"{word} =") else one for one in text.split("\n")
    )


GROUPS = '[workers.groups.g]\nmembers = ["x/1*", "x/2*"]'
STRICTER = PAIR + '\n[property.c-d]\nscope = "subject"\nof = ["c", "d"]\n'


def test_whatever_happens_at_once_the_evidence_holds(store, tmp_path, clock):
    # Bookings one by one and in batches, accounts that join adversaries, loads, seals
    # and new versions, all at the same time: nothing is past a limit afterwards.
    case = Case(store)
    case.apply(policy(PAIR, budget="t = 2"))
    case.add(*(f"x/{i}" for i in range(8)))
    case.load(*((f"r{i}", f"p{i % 5}", i, "abcd") for i in range(20)))
    faults = []

    def guarded(action, times):
        def run():
            for i in range(times):
                try:
                    action(i)
                except (PastLimit, Refused, StoreLocked):
                    pass  # said no, or somebody was in the way: nothing was written
                except Exception as error:  # noqa: BLE001 - told below
                    faults.append(error)

        return threading.Thread(target=run)

    def one(i):
        case.book((f"x/{i % 8}", f"r{i % 20}.{'abcd'[i % 4]}"), skip=True)

    def many(i):
        entries = " ".join(f"r{(i + n) % 20}.{'abcd'[n % 4]}" for n in range(9))
        case.book((f"x/{i % 8}", entries), (f"x/{(i + 3) % 8}", entries), skip=True)

    def sealed(_):
        with store.write() as tx:
            seal(tx, at=case.tick())

    versions = [
        policy(STRICTER, budget="t = 2"),
        policy(PAIR, budget="t = 3", groups=GROUPS),
        policy(STRICTER, budget="t = 2", groups=GROUPS),
    ]
    workers = [
        guarded(one, 60),
        guarded(many, 25),
        guarded(many, 25),
        guarded(lambda i: case.add(f"x/{i % 3}{i}"), 10),
        guarded(lambda i: case.load((f"s{i}", f"p{i % 5}", i, "abcd")), 10),
        guarded(sealed, 10),
        guarded(lambda i: case.apply(versions[i % 3]), 6),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults
    with store.read() as tx:
        assert compare(tx).differences == ()
    bundle = export(store, tmp_path / "evidence", clock=clock)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    assert bundle.counts["exposures"] > 20


def test_values_are_put_together_without_a_sort(store):
    # A sort that outgrows memory is spilled into temporary files, in the clear.
    with store.read() as tx:
        if tx.dialect == "sqlite":
            steps = sql.rows(
                tx,
                "EXPLAIN QUERY PLAN SELECT e.record_id, x.value FROM record r"
                " JOIN entry e ON e.record_id = r.id"
                " LEFT JOIN result x ON x.entry_id = e.id"
                " WHERE r.run_id = 1 ORDER BY r.id",
            )
            assert not [step for *_, step in steps if "TEMP B-TREE" in step]


@pytest.mark.parametrize("sign", ["\u200b", "\u202e", "\ufeff", "\u2060", "\u00ad"])
def test_no_two_accounts_look_the_same_by_a_sign_without_a_shape(sign):
    with pytest.raises(Usage):
        account_of(f"x/an{sign}n")
    assert account_of("x/👩\u200d🔬") == ("x", "👩\u200d🔬")


def test_an_error_that_nobody_can_catch_is_logged_without_its_words(monkeypatch):
    class Closing:
        def __del__(self):
            raise ValueError("Jane Roe")

    lines = io.StringIO()
    for module, name in (
        (sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")
    ):  # fmt: skip
        monkeypatch.setattr(module, name, getattr(module, name))
    handlers = logging.getLogger().handlers[:]
    configure("json", lines)
    guard_uncaught()
    try:
        made = Closing()
        del made
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers[:] = handlers
        logging.raiseExceptions = True
    assert "ValueError" in lines.getvalue()
    assert "Jane" not in lines.getvalue()
