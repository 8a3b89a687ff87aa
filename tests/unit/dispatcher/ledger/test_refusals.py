"""What a refusal says: every sentence, and where each number stands in it."""

from fractions import Fraction

import pytest

from dispatcher.ledger.refusals import PASSING, Cause, refuse
from dispatcher.store.ledger import GateAccount, GateEntry

ENTRY = GateEntry(
    id=7,
    record_id=3,
    field_id=2,
    subject_id=5,
    time=0,
    record="r" + "0" * 31,
    run_id=1,
    waiting=False,
)
ACCOUNT = GateAccount(9, "folder", "ann", 4, "active")

SENTENCES = {
    Cause.FIELDS_SEND: "The policy in force never sends this field (or lacks it).",
    Cause.ACCOUNT: "The account is blocked.",
    Cause.PILOT: "The record waits for the pilot of its run to be accepted.",
    Cause.PAUSE: "Work is paused here, or the record was lost with its store.",
    Cause.RECUSAL: "The worker asked not to be shown anything of this person.",
    Cause.DISCLOSURE: "Rule name-disease would reach f = 0.75; the limit is f < 0.5.",
    Cause.BUDGET_T: "It would be shown to 0.75 adversaries in its lifetime; "
    "the limit is 0.5.",
    Cause.MEAN: "Rule name-disease: the mean would be 0.75, the limit is mean <= 0.5.",
    Cause.BUDGET_AVERAGE: "The mean over all rules would be 0.75; "
    "the limit is mean <= 0.5.",
}

ANOTHER = (
    "Give the task to another worker (dispatcher explain FIELD --who); "
    "waiting does not help, what was shown stays shown."
)
FIXES = {
    Cause.FIELDS_SEND: "Nobody is shown it. Apply a policy that sends the field, "
    "without send = false.",
    Cause.ACCOUNT: "Give the task to another worker (dispatcher explain FIELD --who), "
    "or let this one work again: dispatcher workers unblock",
    Cause.PILOT: "See how the pilot went, then: dispatcher runs accept",
    Cause.PAUSE: "End the pause: dispatcher resume",
    Cause.RECUSAL: "Give the task to another worker (dispatcher explain FIELD --who).",
    Cause.DISCLOSURE: ANOTHER,
    Cause.BUDGET_T: "Nobody new may see it. Grant further showings: dispatcher fields "
    "unburn FIELD --extra-showings N --reason TEXT",
    Cause.MEAN: ANOTHER,
    Cause.BUDGET_AVERAGE: ANOTHER,
}


def refused(cause, value=Fraction(3, 4), limit=Fraction(1, 2)):
    of_property = cause in (Cause.DISCLOSURE, Cause.MEAN)
    rule = "name-disease" if of_property else ""
    return refuse(ENTRY, ACCOUNT, cause, rule=rule, value=value, limit=limit)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_its_sentence(cause):
    assert refused(cause).why == SENTENCES[cause]


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_says_how_to_mend_it(cause):
    assert refused(cause).error().fix == FIXES[cause]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, "3"),
        (Fraction(1, 4), "0.25"),
        (Fraction(1, 3), "1/3 (0.333333)"),
        (1_234_567, "1234567 (1.23457e+06)"),
    ],
)
def test_a_number_is_written_exactly(number, words):
    shown = refused(Cause.DISCLOSURE, value=number).why
    assert shown == f"Rule name-disease would reach f = {words}; the limit is f < 0.5."


def test_a_refusal_becomes_an_error_with_all_that_a_caller_needs():
    error = refused(Cause.DISCLOSURE).error()
    name = f"{ENTRY.record}.2"
    assert error.what == f"folder/ann may not see {name}"
    assert error.why == SENTENCES[Cause.DISCLOSURE]
    assert error.facts == {
        "property": "name-disease",
        "adversary": "a4",
        "value": "3/4",
        "limit": "1/2",
        "entry": name,
        "account": "folder/ann",
    }


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_that_is_no_propertys_stands_for_itself(cause):
    named = "name-disease" if cause in (Cause.DISCLOSURE, Cause.MEAN) else str(cause)
    assert refused(cause).error().facts["property"] == named


def test_only_what_passes_stays_in_the_plan():
    assert {Cause.ACCOUNT, Cause.PILOT, Cause.PAUSE} == PASSING
