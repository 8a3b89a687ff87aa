"""Policy tests: who holds what, which sets are judged, what the outcome says."""

from fractions import Fraction

import pytest

from policies.document import parse, run_tests
from policies.rules.kinds import common, cosine

HEAD = """\
version = 1
name = "forms"

[entity.form]
key = "id"
subject = "person"
time = "at"

[entity.form.fields]
name = { ask = "transcribe" }
disease = { ask = "transcribe" }
drug = { ask = "transcribe" }
place = { ask = "transcribe" }
photo = { ask = "transcribe" }

[relation.friend]
source = "friends.csv"
ends = ["one", "other"]
"""


def outcome(rules: str, test: str):
    text = f'{HEAD}{rules}\n[[test]]\nname = "t"\nworker = "m/1"\n{test}\n'
    result = parse(text.encode())
    assert result.errors == 0, result.diagnostics
    (found,) = run_tests(result.policy)
    return found


def refused(rules: str, test: str) -> list[str]:
    expect = "" if "expect" in test else '\nexpect = "allow"'
    return [r.property for r in outcome(rules, test + expect).refusals]


PAIR = '[property.pair]\nof = ["name", "disease"]\n'
PERSON = '[property.person]\nscope = "subject"\nof = ["name", "disease"]\n'
EITHER = '[property.either]\nany_of = [["name", "disease"], ["drug", "disease"]]\n'
WEEK = (
    '[property.week]\nscope = "subject"\nwindow = "7d"\nof = ["drug"]\n'
    'disclosure = { kind = "step", at = 3 }\n'
)


@pytest.mark.parametrize(
    ("holds", "rules", "test", "expected"),
    [
        ("one record complete", PAIR, 'seen = ["r.name"]\nask = "r.disease"', ["pair"]),
        ("two records are two sets", PAIR, 'seen = ["r.name"]\nask = "s.disease"', []),
        ("every record is a subject of its own", PERSON, 'seen = ["r.name"]\nask = "s.disease"', []),
        ("unless told otherwise", PERSON, 'seen = ["r.name"]\nask = "s.disease"\nsame_subject = ["r", "s"]', ["person"]),
        ("also by subject", PERSON, 'seen = ["r.name"]\nask = "s.disease"\nfacts = { subject = { r = "x", s = "x" } }', ["person"]),
        ("others hold for themselves", PAIR, 'seen_by = { "m/2" = ["r.name"] }\nask = "r.disease"', []),
        ("a group holds together", PAIR + '[workers.groups.g]\nmembers = ["m/*"]\n', 'seen_by = { "m/2" = ["r.name"] }\nask = "r.disease"', ["pair"]),
        ("an entry held already is judged the same way", PAIR, 'seen = ["r.name", "r.disease"]\nask = "r.disease"', ["pair"]),
        ("repeating counts once", WEEK, 'seen = ["r.drug", "r.drug"]\nask = "r.drug"', []),
        ("any alternative that becomes complete refuses", EITHER, 'seen = ["r.drug", "r.disease"]\nask = "r.name"', ["either"]),
        ("a set without the asked entry is not judged", EITHER, 'seen = ["r.disease"]\nask = "r.place"', []),
        ("equal times unless told", WEEK, 'seen = ["r.drug", "s.drug"]\nask = "q.drug"\nsame_subject = ["r", "s", "q"]', ["week"]),
        ("closed windows", WEEK, 'seen = ["r.drug", "s.drug"]\nask = "q.drug"\nsame_subject = ["r", "s", "q"]\nfacts = { time = { r = 2026-01-01, s = 2026-01-03, q = 2026-01-08 } }', ["week"]),
        ("one moment more is outside", WEEK, 'seen = ["r.drug", "s.drug"]\nask = "q.drug"\nsame_subject = ["r", "s", "q"]\nfacts = { time = { r = 2026-01-01, s = 2026-01-03, q = "2026-01-08T00:00:00.000001Z" } }', []),
        ("a full window elsewhere is not judged", WEEK, 'seen = ["r.drug", "s.drug", "p.drug"]\nask = "q.drug"\nsame_subject = ["p", "r", "s", "q"]\nfacts = { time = { p = 2026-01-01, r = 2026-01-01, s = 2026-01-03, q = 2027-01-08 } }', []),
    ],
    ids=lambda v: v if isinstance(v, str) and "\n" not in v else "",
)  # fmt: skip
def test_decisions(holds, rules, test, expected):
    assert refused(rules, test) == expected


def test_a_set_of_the_asked_field_only_is_judged():
    # drug + disease are complete already, but no set with `name` is.
    rules = '[property.either]\nany_of = [["name", "photo"], ["drug", "disease"]]\n'
    assert refused(rules, 'seen = ["r.drug", "r.disease"]\nask = "r.name"') == []


TRUST = """\
[workers.groups.one]
members = ["m/*", "n/1"]
trusted = ["pair"]
[workers.groups.two]
members = ["n/*"]
"""


def test_a_trusted_rule_is_not_judged_while_every_account_is_trusted():
    assert refused(PAIR + TRUST.split("[workers.groups.two]")[0], 'seen = ["r.name"]\nask = "r.disease"') == []  # fmt: skip


def test_groups_that_share_a_known_account_are_one_adversary():
    # n/1 is written out in `one` and matches `two`; n/2 is known here and not trusted.
    test = 'seen_by = { "n/2" = ["r.name"] }\nask = "r.disease"'
    assert refused(PAIR + TRUST, test) == ["pair"]
    # without n/2 every known account (m/1, n/1) is in `one`
    assert refused(PAIR + TRUST, 'seen = ["r.name"]\nask = "r.disease"') == []
    # an empty list makes it known
    assert refused(PAIR + TRUST, 'seen = ["r.name"]\nseen_by = { "n/2" = [] }\nask = "r.disease"') == ["pair"]  # fmt: skip


def link(kind: str, more: str = "", of: str = '"place"') -> str:
    return (
        f'[property.link]\nscope = "relation"\nrelation = "friend"\nof = [{of}]\ntau = 0.8\n'
        f'disclosure = {{ kind = "{kind}", vector = "v"{more} }}\n'
    )


FACTS = 'friend = [["x", "y"]], subject = { r = "x", s = "y", q = "y", u = "z" }'


@pytest.mark.parametrize(
    ("holds", "rules", "test", "expected"),
    [
        ("friends at one place", link("common"), 'seen = ["r.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "c" } }', ["link"]),
        ("friends at two places", link("common"), 'seen = ["r.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "d" } }', []),
        ("strangers at one place", link("common"), 'seen = ["r.place"]\nask = "u.place"\nfacts = { %s, vector = { r = "c", u = "c" } }', []),
        ("no place is no place", link("common"), 'seen = ["r.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "", s = "" } }', []),
        ("a count of 0 is no place", link("common", ', count = "n"'), 'seen = ["r.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "c" }, count = { s = 0 } }', []),
        ("unless the rule names no count", link("common"), 'seen = ["r.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "c" }, count = { s = 0 } }', ["link"]),
        # x = (c: 3), y = (c: 3, d: 4): cosine 0.6
        ("the cosine counts visits", link("cosine", ', count = "n"'), 'seen = ["r.place", "q.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "c", q = "d" }, count = { r = 3, s = 3, q = 4 } }', []),
        # after s it was 1, before q made it 0.6: the order decides, and it was past
        ("the cosine is judged after every entry", link("cosine", ', count = "n"'), 'seen = ["r.place", "s.place"]\nask = "q.place"\nfacts = { %s, vector = { r = "c", s = "c", q = "d" }, count = { r = 3, s = 3, q = 4 } }', ["link"]),
        ("exactly at the limit is refused", link("cosine", ', count = "n"'), 'seen = ["r.place", "q.place"]\nask = "s.place"\nfacts = { %s, vector = { r = "c", s = "c", q = "d" }, count = { r = 1, s = 4, q = 3 } }', ["link"]),
        # y = (c: 4 + 4, d: 3): both fields of s count
        ("two fields of a record count twice", link("cosine", ', count = "n"', '"place", "photo"'), 'seen = ["q.place", "s.photo"]\nask = "s.place"\nfacts = { %s, vector = { s = "c", q = "d" }, count = { s = 4, q = 3 } }', []),
        ("links of others are not judged", link("cosine"), 'seen = ["r.place", "s.place"]\nask = "u.place"\nfacts = { %s, vector = { r = "c", s = "c", u = "c" } }', []),
    ],
    ids=lambda v: v if isinstance(v, str) and "\n" not in v else "",
)  # fmt: skip
def test_links(holds, rules, test, expected):
    assert refused(rules, test % FACTS) == expected


def test_cosines_are_exact():
    half = cosine({"a": 1}, {"a": 1, "b": 1})
    assert half.square == Fraction(1, 2)
    assert not half.past(Fraction(8, 10))
    assert half.past(Fraction(707106781, 10**9))
    assert not half.past(Fraction(707106782, 10**9))
    assert half.root == Fraction(707106781, 10**9)
    assert cosine({}, {"a": 1}).square == 0
    assert cosine({"a": 3}, {"a": 3, "b": 4}).root == Fraction(3, 5)
    assert common({"a": 1}, {"b": 1}).square == 0


def test_a_failing_test_says_what_was_expected():
    found = outcome(PAIR, 'ask = "r.disease"\nexpect = "deny"\nby = "pair"')
    assert not found.passed
    line = found.test.line
    assert (
        found.line("p.toml")
        == f"FAIL  p.toml:{line}  t -> allow  (expected deny by pair)"
    )


def test_by_must_be_one_of_the_rules_that_refuse():
    both = PAIR + PERSON + '[property.other]\nof = ["drug", "disease"]\n'
    deny = 'seen = ["r.name"]\nask = "r.disease"\nexpect = "deny"\nby = '
    assert outcome(both, deny + '"person"').passed
    assert not outcome(both, deny + '"other"').passed
    passing = outcome(both, deny + '"person"').line("p.toml")
    assert passing.endswith("t  -> deny  [person: f = 1 >= tau = 1]")


def test_rules_that_need_data_are_named_as_not_judged():
    rules = '[property.guess]\nof = ["name", "disease"]\ndisclosure = "plugin:mine"\n'
    found = outcome(rules, 'ask = "r.name"\nexpect = "deny"\nby = "guess"')
    assert found.unjudged == ("guess",)
    assert "needs data that a test has not" in found.line("p")


def test_a_history_that_the_rules_refuse_is_no_test():
    """Whoever had seen the name was refused the disease: they cannot hold both."""
    text = (
        HEAD
        + '[property.p]\nscope = "subject"\nof = ["name", "disease"]\n'
        + '[[test]]\nname = "mine"\nworker = "w"\nseen = ["a.drug", "a.name", "a.disease"]\n'
        + 'ask = "b.drug"\nexpect = "allow"\n'
        + '[[test]]\nname = "another\'s"\nworker = "w"\nask = "b.drug"\nexpect = "allow"\n'
        + '[test.seen_by]\nv = ["a.name", "b.disease"]\n'
        + '[[test]]\nname = "of two people"\nworker = "w"\nseen = ["a.name", "b.disease"]\n'
        + 'ask = "b.drug"\nexpect = "allow"\n'
        + '[[test]]\nname = "one person"\nworker = "w"\nask = "b.drug"\nexpect = "allow"\n'
        + 'same_subject = ["a", "b"]\n[test.seen_by]\nv = ["a.name", "b.disease"]\n'
    )
    policy = parse(text.encode()).policy
    mine, others, two, one = run_tests(policy)
    assert (mine.passed, mine.allowed) == (False, True)
    assert (mine.impossible.step, mine.impossible.entry) == (3, ("a", "disease"))
    assert (
        "this history cannot be: a.disease, seen as number 3, is refused by p: f = 1"
        in mine.line("f")
    )
    assert others.passed
    assert two.passed
    assert one.impossible.entry == ("b", "disease")
