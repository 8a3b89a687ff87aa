"""The gate's one decision, on facts alone: what refuses, and in which order."""

from fractions import Fraction

import pytest

from dispatcher.ledger.active_policy import compile_version
from dispatcher.ledger.averages import AveragesAfter
from dispatcher.ledger.decision import AskFacts, findings, judge
from dispatcher.ledger.refusals import Cause
from dispatcher.ledger.relations import Around
from dispatcher.model import record_unit, subject_unit
from dispatcher.store.ledger import GateAccount, GateEntry
from policies.document import parse

SOURCE = b"""
version = 1
name = "clinic"

[budget]
t = 3
average = 0.25

[entity.form]
key = "id"
subject = "person"
time = "when"

[entity.form.fields]
name = { ask = "transcribe" }
disease = { ask = "transcribe" }
drug = { ask = "transcribe" }
note = { ask = "transcribe", send = false }

[property.name-disease]
of = ["name", "disease"]

[property.history]
scope = "subject"
of = ["disease", "drug"]
disclosure = { kind = "linear", per = "entry", weight = 0.4 }
window = "10s"

[relation.friend]
source = "friends.csv"
ends = ["one", "other"]

[property.met]
scope = "relation"
relation = "friend"
of = ["name"]
disclosure = { kind = "common", vector = "place" }
"""
NAME, DISEASE, DRUG, NOTE, UNKNOWN = range(1, 6)
SECOND = 1_000_000


@pytest.fixture(scope="module")
def force():
    policy = parse(SOURCE).policy
    assert policy is not None
    numbers = {"name": NAME, "disease": DISEASE, "drug": DRUG, "note": NOTE}
    return compile_version(1, "0" * 64, policy, numbers)


def ask(field=NAME, *, state="active", waiting=False, time=0, **known):
    """Record 7 of person 9 in run 2, asked by account 4 of adversary 5."""
    entry = GateEntry(
        id=11,
        record_id=7,
        field_id=field,
        subject_id=9,
        time=time,
        record="r" + "0" * 31,
        run_id=2,
        waiting=waiting,
    )
    account = GateAccount(4, "folder", "ann", 5, state)
    return AskFacts(entry, account, **{"limit": 3} | known)


def cause(force, facts):
    refusal = judge(force, facts)
    return None if refusal is None else refusal.cause


def test_what_nobody_was_shown_is_allowed(force):
    assert judge(force, ask()) is None


@pytest.mark.parametrize("field", [NOTE, UNKNOWN])
def test_a_field_that_is_not_sent_is_refused_first(force, field):
    facts = ask(field, state="blocked", waiting=True)
    assert cause(force, facts) is Cause.FIELDS_SEND


def test_the_account_comes_before_the_pilot_and_that_before_a_pause(force):
    paused = frozenset({"all"})
    assert cause(force, ask(state="blocked", waiting=True)) is Cause.ACCOUNT
    assert cause(force, ask(waiting=True, paused=paused)) is Cause.PILOT
    recused = frozenset({(5, record_unit(7))})
    assert cause(force, ask(paused=paused, recused=recused)) is Cause.PAUSE
    assert cause(force, ask(recused=recused, showings=3)) is Cause.RECUSAL


@pytest.mark.parametrize(
    ("scope", "paused"),
    [
        ("all", True),
        ("connector:folder", True),
        ("run#2", True),
        ("connector:other", False),
        ("run#3", False),
    ],
)
def test_a_pause_covers_its_own_scope(force, scope, paused):
    found = cause(force, ask(paused=frozenset({scope, "run#99"})))
    assert found is (Cause.PAUSE if paused else None)


@pytest.mark.parametrize(
    ("pair", "recused"),
    [
        ((5, record_unit(7)), True),
        ((5, subject_unit(9)), True),
        ((6, record_unit(7)), False),
        ((5, record_unit(8)), False),
        ((5, subject_unit(7)), False),
    ],
)
def test_a_recusal_is_of_one_worker_and_one_person_or_record(force, pair, recused):
    found = cause(force, ask(recused=frozenset({pair})))
    assert found is (Cause.RECUSAL if recused else None)


def test_the_second_half_of_a_pair_is_refused_with_value_and_limit(force):
    refusal = judge(force, ask(DISEASE, of_record={("name", 0): 1}))
    assert (refusal.cause, refusal.rule) == (Cause.DISCLOSURE, "name-disease")
    assert (refusal.value, refusal.limit) == (1, 1)


def test_who_is_trusted_with_a_rule_is_not_judged_by_it(force):
    held = {("name", 0): 1}
    trusted = frozenset({"name-disease"})
    assert judge(force, ask(DISEASE, of_record=held, trusted=trusted)) is None


@pytest.mark.parametrize(
    ("seen", "time", "refused"), [(0, 10, True), (0, 11, False), (15, 15, True)]
)
def test_a_window_counts_what_lies_within_it(force, seen, time, refused):
    held = {("disease", seen * SECOND): 1, ("drug", seen * SECOND): 1}
    found = cause(force, ask(DRUG, time=time * SECOND, of_subject=held))
    assert found is (Cause.DISCLOSURE if refused else None)


def test_a_rule_comes_before_the_number_of_showings_and_that_before_averages(force):
    half = {("name", 0): 1}
    over = AveragesAfter({"name-disease": 4}, {"name-disease": Fraction(2)}, {})
    facts = ask(DISEASE, of_record=half, showings=3, averages=over)
    assert cause(force, facts) is Cause.DISCLOSURE
    refusal = judge(force, ask(showings=3, averages=over))
    assert (refusal.cause, refusal.value, refusal.limit) == (Cause.BUDGET_T, 4, 3)
    refusal = judge(force, ask(averages=over))
    assert refusal.cause is Cause.BUDGET_AVERAGE
    assert (refusal.value, refusal.limit) == (Fraction(1, 2), Fraction(1, 4))


def test_an_average_at_its_cap_is_kept(force):
    kept = AveragesAfter({"name-disease": 4}, {"name-disease": Fraction(1)}, {})
    assert judge(force, ask(averages=kept)) is None


def test_what_is_held_is_judged_by_no_limit_and_still_by_its_standing(force):
    past = {("name", 0): 1, ("disease", 0): 1}
    facts = ask(NAME, held=True, showings=9, of_record=past)
    assert judge(force, facts) is None
    assert cause(force, facts._replace(paused=frozenset({"all"}))) is Cause.PAUSE


@pytest.mark.parametrize("field", [NAME, DISEASE])
def test_findings_say_what_every_rule_of_the_field_says(force, field):
    found = findings(force, ask(field, of_record={("name", 0): 1}, held=field == NAME))
    told = {f.property: (f.before, f.after, f.refused) for f in found}
    expected = {"name-disease": (0, 0, False)}
    if field == DISEASE:
        expected = {
            "name-disease": (0, 1, True),
            "history": (0, Fraction(2, 5), False),
        }
    assert told == expected


def test_what_is_held_adds_nothing_to_what_a_rule_of_persons_says(force):
    facts = ask(DRUG, held=True, of_subject={("drug", 0): 1})
    [finding] = findings(force, facts)
    assert (finding.before, finding.after) == (Fraction(2, 5), Fraction(2, 5))


@pytest.mark.parametrize("field", [NOTE, UNKNOWN])
def test_findings_of_a_field_that_is_not_sent_are_none(force, field):
    assert findings(force, ask(field)) == ()


@pytest.mark.parametrize(("place", "refused"), [("cafe", True), ("gym", False)])
def test_a_friend_seen_at_the_same_place_refuses(force, place, refused):
    seen = Around(force.rules.links["met"], {}, {"cafe": 1}, ({place: 1},))
    facts = ask(around=(seen,))
    assert cause(force, facts) is (Cause.DISCLOSURE if refused else None)
    assert [f.refused for f in findings(force, facts)] == [False, refused]
    assert judge(force, facts._replace(trusted=frozenset({"met"}))) is None
