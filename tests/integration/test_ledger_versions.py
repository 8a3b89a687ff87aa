"""What is put in force, what is refused, and what a version makes the ledger tell."""

import json

import pytest

from dispatcher.core.errors import Conflict, Invalid, NotFound, Refused, Usage
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.exhausted_fields import unburn
from dispatcher.ledger.loads import RecordKeys, register_keys
from tests.integration.ledger_cases import PAIR, Case, policy

SUBJECT = '[property.person]\nscope = "subject"\nof = ["a", "b"]\n'
WINDOW = (
    '[property.w]\nscope = "subject"\nwindow = "1h"\nof = ["b", "c"]\n'
    'disclosure = { kind = "linear", per = "entry", weight = 0.4 }\n'
)
LINKS = '[relation.friends]\nsource = "links.csv"\nends = ["one", "two"]\n'


def key_lines(folder):
    text = (folder / "keys.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


@pytest.fixture
def case(store):
    return Case(store)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"version = ", "errors"),
        (b"\xff", "errors"),
        (policy('[property.p]\nof = ["a", "nothing"]'), "errors"),
        (
            policy(
                PAIR + '[[test]]\nname = "wrong"\nworker = "x/1"\nseen = ["r.a"]\n'
                'ask = "r.b"\nexpect = "allow"\n'
            ),
            "tests of the policy fail",
        ),
        (
            policy(
                LINKS + '[property.friend]\nscope = "relation"\nrelation = "friends"\n'
                'of = ["a"]\ndisclosure = { kind = "common", vector = "place" }\n'
            ),
            "links of relation friends are missing",
        ),
        (
            policy('[property.p]\nof = ["a"]\ntau = 0.5\ndisclosure = "plugin:mine"'),
            "cannot judge",
        ),
    ],
)
def test_a_policy_that_can_not_hold_is_refused_and_nothing_written(case, source, words):
    with pytest.raises(Invalid, match=words) as caught:
        case.apply(source)
    assert caught.value.exit_status == 5
    assert caught.value.why
    assert case.count("policy") == case.count("ledger_line") == 0


def test_versions_count_from_one_and_are_kept_byte_for_byte(case, tmp_path, clock):
    first, second = policy(PAIR) + b"\n# \xc3\xa9\r\n", policy(PAIR, name="two")
    assert case.apply(first).version == 1
    assert case.apply(second).version == 2
    assert case.apply(first).version == 3  # back again is a version of its own
    folder = export(case.store, tmp_path / "e", clock=clock).folder
    assert (folder / "policy-1.toml").read_bytes() == first
    assert (folder / "policy-2.toml").read_bytes() == second
    assert verify(folder).status == 0


def test_keys_tell_no_more_than_the_version_needs(case, tmp_path, clock):
    case.apply(policy(SUBJECT))
    case.load(("r1", "p1", 7, "abc"))
    folder = export(case.store, tmp_path / "e", clock=clock).folder
    told = {line["field"]: set(line) for line in key_lines(folder)}
    assert told["a"] == {"entry", "record", "field", "subject"}
    assert told["c"] == {"entry", "record", "field"}


def test_a_version_that_needs_more_has_it_written_first(case, tmp_path, clock):
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(("r1", "p1", 7, "abc"), ("r2", "p1", 8, "abc"))
    case.book(("x/1", "r1.a r2.c"))
    assert case.apply(policy(PAIR + SUBJECT, name="two")).keys == 4
    assert case.apply(policy(PAIR + SUBJECT + WINDOW, name="three")).keys == 4
    case.load(("r3", "p2", 9, "abc"))
    case.book(("x/1", "r3.a"))
    bundle = export(case.store, tmp_path / "e", clock=clock)
    assert bundle.counts["entries"] == 9
    assert len(key_lines(bundle.folder)) == 6 + 4 + 4 + 3
    assert verify(bundle.folder).status == 0


def test_a_version_that_needs_what_was_never_loaded_is_refused(case):
    case.apply(policy(PAIR))
    case.load(("r1", None, None, "abc"))
    for rules in (SUBJECT, WINDOW):
        with pytest.raises(Conflict, match="lack facts"):
            case.apply(policy(PAIR + rules, name="two"))
    assert case.count("policy") == 1


def test_nothing_is_loaded_before_a_policy(case):
    with case.store.write() as tx, pytest.raises(Conflict, match="no policy"):
        register_keys(tx, [RecordKeys("r1", (1,))], at=1)


def test_an_entry_shown_t_times_gets_what_is_granted(case, tmp_path, clock):
    case.apply(policy(PAIR, budget="t = 1"))
    case.add("x/1", "x/2", "x/3")
    case.load(("r1", None, None, "ab"))
    case.book(("x/1", "r1.a"))
    with pytest.raises(Refused):
        case.book(("x/2", "r1.a"))
    with case.store.write() as tx:
        unburn(
            tx, case.entries["r1.a"], extra=1, because="it came back", at=case.tick()
        )
    case.book(("x/2", "r1.a"))
    for asks in ("r1.a", "r1.a r1.b"):
        booked = case.book(("x/3", asks), skip=True)
        assert booked.refused[0].rule == "budget.t"
        assert booked.refused[0].limit == 2
    assert verify(export(case.store, tmp_path / "e", clock=clock).folder).status == 0


def test_a_grant_needs_an_entry_a_number_and_a_reason(case):
    case.apply(policy(PAIR))
    case.load(("r1", None, None, "ab"))
    entry = case.entries["r1.a"]
    for number, extra, because, error in (
        (999, 1, "x", NotFound),
        (entry, 0, "x", Usage),
        (entry, 1, " ", Usage),
    ):
        with case.store.write() as tx, pytest.raises(error):
            unburn(tx, number, extra=extra, because=because, at=1)
