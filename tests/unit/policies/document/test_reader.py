"""Reading a policy file: the good ones, the bad ones, one bad snippet per exact rule."""

import ast
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policies
from policies.document import Severity, parse, run_tests
from policies.model.objective import Objective
from policies.policy import Scope

GOOD = sorted(Path("examples/policies").glob("*.toml"))
BAD = Path("tests/data/policies/bad")

BASE = """\
version = 1
name = "forms"

[entity.form]
key = "id"
subject = "person"
time = "at"

[entity.form.fields]
a = { ask = "transcribe" }
b = { ask = "transcribe" }
c = { ask = "transcribe" }
hidden = { send = false }

[relation.friend]
source = "friends.csv"
ends = ["one", "other"]

[property.link]
scope = "relation"
relation = "friend"
of = ["a"]
disclosure = { kind = "common", vector = "place" }
"""
RULE = BASE + "\n[property.rule]\n"
TEST = (
    RULE
    + 'of = ["a", "b"]\n\n[[test]]\nname = "t"\nworker = "m/1"\nask = "r.a"\nexpect = "allow"\n'
)
EXAMPLE = (
    BASE.replace("{", "{{")
    .replace("}", "}}")
    .replace(
        'a = {{ ask = "transcribe" }}',
        'a = {{ ask = "transcribe", example = {{ {} }} }}',
    )
)


SCAN = (
    BASE.replace("a = { ask", 'a = { image = "scan#one", ask')
    .replace("b = { ask", 'b = { image = "scan#two", free = true, ask')
    .replace(
        "hidden = { send = false }",
        'd = { ask = "date", image = "scan#three", free = true }',
    )
    .replace(
        "[relation",
        """[entity.form.layout]
one = { page = 1, box = [0.1, 0.1, 0.5, 0.2] }
two = { page = 1, box = [0.1, 0.3, 0.5, 0.2] }
three = { page = 1, box = [0.6, 0.1, 0.4, 0.4] }

[relation""",
        1,
    )
)  # `a` is in a rule; boxes one and two touch below, one and three beside each other


def many(size: int, scope: str) -> str:
    """A rule of a function over so many fields."""
    names = [f"f{n}" for n in range(size)]
    fields = "".join(f'{name} = {{ ask = "transcribe" }}\n' for name in names)
    rule = f'{scope}\nof = {names}\ndisclosure = "plugin:mine"\n'
    return RULE.replace("hidden =", f"{fields}hidden =") + rule


def codes(text: str, *, strict: bool = False) -> list[str]:
    return [d.code for d in parse(text.encode(), "x.toml", strict=strict).diagnostics]


def places(name: str) -> list[tuple[str, int, int, int]]:
    found = parse((BAD / name).read_bytes(), name).diagnostics
    return [(d.code, d.line, d.column, d.mark) for d in found]


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.name)
def test_the_example_policies_have_no_findings_and_their_tests_pass(path):
    result = parse(path.read_bytes(), path.name)
    assert result.diagnostics == ()
    assert result.policy is not None
    outcomes = run_tests(result.policy)
    assert outcomes
    assert [o.test.name for o in outcomes if not o.passed] == []


def test_the_four_examples_hold_eleven_tests():
    policies = [parse(p.read_bytes()).policy for p in GOOD]
    assert [len(p.tests) for p in policies] == [2, 4, 3, 2]


def test_an_unclosed_string_is_reported_where_the_line_ends():
    assert places("1_syntax.toml") == [("POL001", 5, 13, 1)]


def test_all_mistakes_of_a_file_are_reported_in_order_of_line():
    assert places("2_many.toml") == [
        ("POL205", 7, 1, 6),
        ("POL102", 14, 1, 5),
        ("POL204", 15, 48, 1),
        ("POL004", 16, 24, 11),
        ("POL101", 20, 23, 9),
        ("POL002", 21, 1, 10),
    ]


def test_mathematical_mistakes_are_reported_where_they_were_written():
    assert places("3_math.toml") == [
        ("POL203", 16, 1, 2),
        ("POL203", 19, 1, 1),
        ("POL202", 21, 43, 1),
        ("POL104", 24, 14, 9),
        ("POL206", 30, 14, 8),
    ]


def test_an_average_alone_is_a_warning_and_an_unknown_relation_an_error():
    assert places("4_tradeoff.toml") == [("POL308", 8, 13, 4), ("POL103", 19, 14, 13)]
    found = parse((BAD / "4_tradeoff.toml").read_bytes()).diagnostics
    assert [d.severity for d in found] == [Severity.WARNING, Severity.ERROR]


def test_a_limit_of_zero_is_reported_where_it_was_written():
    assert places("5_tau.toml") == [("POL201", 5, 7, 3)]


def test_the_suggested_weights_add_up_to_one():
    (fix,) = [
        d.fix
        for d in parse((BAD / "3_math.toml").read_bytes()).diagnostics
        if d.code == "POL202"
    ]
    assert fix == "scale: iban = 0.667, merchant = 0.222, total = 0.111"


def test_a_sum_over_a_person_without_weights_is_reported_with_its_rule():
    text = RULE + 'scope = "subject"\nof = ["a", "b"]\ndisclosure = "quadratic"\n'
    (found,) = parse(text.encode(), "x.toml").diagnostics
    assert (found.code, "`rule`" in str(found)) == ("POL207", True)


def test_a_file_with_errors_gives_no_policy():
    for path in BAD.glob("*.toml"):
        assert parse(path.read_bytes(), path.name).policy is None


def test_numbers_are_exact_and_words_are_values():
    policy = parse(Path("examples/policies/receipts.toml").read_bytes()).policy
    assert policy.budget.objective is Objective.TRADEOFF
    assert policy.budget.lambda_ == 2
    purchase, where = (
        policy.properties["card-purchase"],
        policy.properties["whereabouts"],
    )
    assert purchase.disclosure.weights["card_last4"] == Fraction(2, 5)
    assert purchase.tau == Fraction(1, 2)  # the budget's
    assert where.tau == Fraction(1, 4)
    assert where.scope is Scope.SUBJECT
    assert where.disclosure.kind == "quadratic"
    assert where.window == 30 * 86_400 * 1_000_000


def test_the_default_capacity_stands_for_what_no_matching_row_says():
    policy = parse(Path("examples/policies/prescriptions.toml").read_bytes()).policy
    turk, nurse = policy.capacity("mturk/A1"), policy.capacity("inhouse/nurse-1")
    assert (turk.open, turk.per_day, turk.total) == (1, 50, None)
    assert (nurse.open, nurse.per_day) == (5, 200)


def test_a_byte_order_mark_and_crlf_change_no_place():
    data = (BAD / "2_many.toml").read_bytes()
    windows = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    assert parse(windows).diagnostics == parse(data).diagnostics


# One bad snippet for each exact rule of the language: (what holds, codes, text).
EXACT = [
    ("the base itself is sound", [], BASE),
    ("version is required", ["POL005"], BASE.replace("version = 1\n", "")),
    ("name is required", ["POL005"], BASE.replace('name = "forms"\n', "")),
    ("version is 1", ["POL003"], BASE.replace("version = 1", "version = 2")),
    ("true is no number", ["POL003"], BASE + "[budget]\ntau = true\n"),
    ("tau is at most 1", ["POL003"], BASE + "[budget]\ntau = 1.5\n"),
    ("nan is an error", ["POL003"], BASE + "[budget]\ntau = nan\n"),
    ("inf is an error", ["POL003"], BASE + "[budget]\nobjective='tradeoff'\nlambda=inf\n"),
    ("31 digits are too many", ["POL003"], BASE + f"[budget]\ntau = 0.{'1' * 31}\n"),
    ("30 digits are taken", [], BASE + f"[budget]\ntau = 0.{'1' * 30}\n"),
    ("an exponent is within 30", ["POL003"], BASE + "[budget]\ntau = 1e-31\n"),
    ("a huge exponent costs nothing", ["POL003"], BASE + "[budget]\ntau = 1e-999999999\n"),
    ("an integer fits 64 bits", ["POL003"], BASE + f"[budget]\nt = {2**63}\n"),
    ("2^63 - 1 fits", [], BASE + f"[budget]\nt = {2**63 - 1}\n"),
    ("t is at least 1", ["POL003"], BASE + "[budget]\nt = 0\n"),
    ("t is an integer", ["POL003"], BASE + "[budget]\nt = 2.0\n"),
    ("an average is above 0", ["POL003"], BASE + "[budget]\naverage = 0\n"),
    ("an average is at most 1", [], BASE + "[budget]\naverage = 1\n"),
    ("lambda is not negative", ["POL003"], BASE + '[budget]\nobjective = "tradeoff"\nlambda = -1\n'),
    ("tau none needs the tradeoff", ["POL209"], BASE + '[budget]\ntau = "none"\n'),
    ("budget tau 0 is an error for a rule without its own", ["POL201"], BASE + "[budget]\ntau = 0\n"),
    ("and none where every rule has its own", [], BASE.replace("of = [", "tau = 1.0\nof = [") + "[budget]\ntau = 0\n"),
    ("a negative tau of its own", ["POL201"], RULE + 'of = ["a", "b"]\ntau = -0.5\n'),
    ("one entity a file", ["POL003"], BASE + '[entity.other]\nkey = "k"\nfields.a.ask = "date"\n'),
    ("an entity there must be", ["POL005"], 'version = 1\nname = "x"\n[property.p]\nof = ["a"]\n'),
    ("key is required", ["POL005"], BASE.replace('key = "id"\n', "")),
    ("the subject is never sent", ["POL102"], BASE.replace("a = {", 'person = { ask = "date" }\na = {')),
    ("the time is never sent", ["POL102"], BASE.replace("a = {", 'at = { ask = "date" }\na = {')),
    ("the key is no page", ["POL102"], BASE.replace('a = { ask', 'a = { image = "id", ask')),
    ("the key may be a field that is never sent", [], BASE.replace("a = {", "id = { send = false }\na = {")),
    ("no empty names", ["POL003"], BASE + '[property.""]\nof = ["a", "b"]\n'),
    ("reserved names", ["POL003"], BASE + '[property."budget.t"]\nof = ["a", "b"]\n'),
    ("facts keep their names", ["POL003", "POL306"], BASE + '[relation.vector]\nsource = "f"\nends = ["a", "b"]\n'),
    ("choose needs choices", ["POL005"], BASE.replace('a = { ask = "transcribe" }', 'a = { ask = "choose" }')),
    ("choices need choose", ["POL205"], BASE.replace('a = { ask = "transcribe"', 'a = { choices = ["x"], ask = "date"')),
    ("min is not above max", ["POL003"], BASE.replace('a = { ask = "transcribe"', 'a = { min = 2, max = 1, ask = "number"')),
    ("min may be negative", [], BASE.replace('a = { ask = "transcribe"', 'a = { min = -2.5, ask = "number"')),
    ("a question needs an ask", ["POL205"], BASE.replace('a = { ask = "transcribe"', 'a = { question = "?"')),
    ("an image names a column", ["POL003"], BASE.replace('a = { ask', 'a = { image = "#box", ask')),
    ("a box lies on the page", ["POL003", "POL304"], BASE + '[entity.form.layout]\nx = { page = 1, box = [0.5, 0, 0.6, 1] }\ny = { page = 1, box = [0, 0, 1, 1] }\n'),
    ("a box has an area", ["POL003", "POL304"], BASE + '[entity.form.layout]\nx = { page = 1, box = [0.5, 0, 0, 1] }\ny = { page = 1, box = [0, 0, 0.1, 1] }\n'),
    ("boxes may touch", [], SCAN),
    ("not overlap, of a field in a rule", ["POL214"], SCAN.replace("0.3, 0.5, 0.2", "0.2999, 0.5, 0.2")),
    ("nor beside each other", ["POL214"], SCAN.replace("[0.6, 0.1, 0.4, 0.4]", "[0.59, 0.1, 0.4, 0.2]")),
    ("nor lie inside", ["POL214"], SCAN.replace("[0.1, 0.3, 0.5, 0.2]", "[0.2, 0.15, 0.1, 0.1]")),
    ("nor be one box", ["POL214", "POL304"], SCAN.replace("scan#two", "scan#one")),
    ("but on another page", [], SCAN.replace("two = { page = 1, box = [0.1, 0.3", "two = { page = 2, box = [0.1, 0.1")),
    ("or of another column", [], SCAN.replace("scan#two", "back#two").replace("[0.1, 0.3, 0.5", "[0.1, 0.1, 0.5")),
    ("a whole page overlaps all on it", ["POL313", "POL214", "POL214"], SCAN.replace("[0.1, 0.1, 0.5, 0.2]", "[0, 0, 1, 1]")),
    ("also without a box", ["POL214", "POL304", "POL312"], SCAN.replace("scan#two", "scan")),
    ("but not another page", ["POL304"], SCAN.replace("scan#two", "scan").replace("page = 1", "page = 2")),
    ("a doubt where no rule looks", ["POL312"], SCAN.replace("[0.1, 0.3, 0.5, 0.2]", "[0.1, 0.3, 0.6, 0.2]")),
    ("an error where one is never sent", ["POL214"], SCAN.replace("[0.1, 0.3, 0.5, 0.2]", "[0.1, 0.3, 0.6, 0.2]").replace("d = { ask", "d = { send = false, ask")),
    ("nothing where neither is sent", [], SCAN.replace("[0.1, 0.3, 0.5, 0.2]", "[0.1, 0.3, 0.6, 0.2]").replace("{ image", "{ send = false, image").replace("d = { ask", "d = { send = false, ask")),
    ("records' own boxes are for the load", ["POL304", "POL304"], SCAN.replace("scan#two", "scan#own").replace("scan#three", "scan#mine")),
    ("unless they are one", ["POL214", "POL304", "POL304"], SCAN.replace("scan#two", "scan#own").replace("scan#one", "scan#own")),
    ("or one is the page", ["POL214", "POL312", "POL304", "POL304"], SCAN.replace("scan#two", "scan").replace("scan#three", "scan#own")),
    ("a box that is the page, alone", ["POL313"], BASE.replace("a = { ask", 'a = { image = "scan#x", ask') + "[entity.form.layout]\nx = { page = 1, box = [0, 0, 1, 1.0] }\n"),
    ("yes or no to what", ["POL314"], BASE.replace('a = { ask = "transcribe"', 'a = { ask = "yes_no"')),
    ("a locale is one that exists", ["POL003"], BASE.replace('time = "at"', 'time = "at"\nlocale = "german"')),
    ("a field may be of another locale", [], BASE.replace('time = "at"', 'time = "at"\nlocale = "de"').replace("a = { ask", 'a = { locale = "fr-CA", ask')),
    ("a box may be painted over", [], SCAN.replace("[entity.form.layout]\n", "[entity.form.layout]\nseal = { page = 1, box = [0, 0, 0.3, 0.3], redact = true }\n")),
    ("not a whole crop", ["POL215"], SCAN.replace("[entity.form.layout]\n", "[entity.form.layout]\nseal = { page = 1, box = [0, 0, 0.6, 0.3], redact = true }\n")),
    ("unless of another page", [], SCAN.replace("[entity.form.layout]\n", "[entity.form.layout]\nseal = { page = 2, box = [0, 0, 0.6, 0.3], redact = true }\n")),
    ("nor a field's own box", ["POL215"], SCAN.replace("0.3, 0.5, 0.2]", "0.3, 0.5, 0.2], redact = true")),
    ("it needs a picture", ["POL304"], BASE + "[entity.form.layout]\nx = { page = 1, box = [0, 0, 0.5, 1], redact = true }\n"),
    ("a template is pinned", ["POL005"], BASE.replace('time = "at"', 'time = "at"\ntemplate = { image = "f.png" }')),
    ("by its digest", ["POL003"], BASE.replace('time = "at"', 'time = "at"\ntemplate = { image = "f.png", sha256 = "12" }')),
    ("a template", [], BASE.replace('time = "at"', f'time = "at"\ntemplate = {{ image = "f.png", sha256 = "{64 * "a"}" }}')),
    ("a duration has a unit", ["POL003"], BASE.replace('time = "at"', 'time = "at"\nretain = "90"')),
    ("a duration is positive", ["POL003"], BASE.replace('time = "at"', 'time = "at"\nretain = "0d"')),
    ("of or any_of", ["POL005"], RULE),
    ("of or any_of, not both", ["POL006"], RULE + 'of = ["a", "b"]\nany_of = [["a", "b"]]\n'),
    ("of is not empty", ["POL003"], RULE + "of = []\n"),
    ("of has no repeats", ["POL003"], RULE + 'of = ["a", "b", "a"]\n'),
    ("an alternative is not empty", ["POL003"], RULE + 'any_of = [["a", "b"], []]\n'),
    ("an alternative has no repeats", ["POL003"], RULE + 'any_of = [["a", "b", "a"]]\n'),
    ("alternatives have no repeats", ["POL003"], RULE + 'any_of = [["a", "b"], ["b", "a"]]\n'),
    ("any_of is a list of lists", ["POL003", "POL003"], RULE + 'any_of = ["a", "b"]\n'),
    ("any_of takes step only", ["POL211"], RULE + 'any_of = [["a", "b"]]\ndisclosure = "linear"\n'),
    ("any_of takes no at", ["POL211"], RULE + 'any_of = [["a", "b"]]\ndisclosure = { kind = "step", at = 2 }\n'),
    ("any_of inside another", ["POL302"], RULE + 'any_of = [["a", "b"], ["a", "b", "c"]]\n'),
    ("weights name exactly of", ["POL003"], RULE + 'of = ["a", "b", "c"]\ndisclosure = { kind = "linear", weights = { a = 0.5, b = 0.5 } }\n'),
    ("weights add up exactly", ["POL202"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", weights = { a = 0.5, b = 0.4999999999999999999999999999 } }\n'),
    ("a weight is above 0", ["POL003"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", weights = { a = 0, b = 1 } }\n'),
    ("at is at least 1", ["POL003"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "step", at = 0 }\n'),
    ("at is at most the fields of a record", ["POL003"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "step", at = 3 }\n'),
    ("at may be more over a subject", [], RULE + 'scope = "subject"\nof = ["a", "b"]\ndisclosure = { kind = "step", at = 3 }\n'),
    ("per excludes weights", ["POL006"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", per = "entry", weight = 0.1, weights = { a = 0.5, b = 0.5 } }\n'),
    ("per needs a weight", ["POL005"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", per = "entry" }\n'),
    ("a weight needs per", ["POL205"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", weight = 0.1 }\n'),
    ("at belongs to step", ["POL002"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", at = 2 }\n'),
    ("per entry holds for records too", [], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "linear", per = "entry", weight = 0.1 }\n'),
    ("a sum over a subject goes by entry", ["POL207"], RULE + 'scope = "subject"\nof = ["a", "b"]\ndisclosure = "quadratic"\n'),
    ("a window needs a subject rule", ["POL208"], RULE + 'of = ["a", "b"]\nwindow = "1d"\n'),
    ("a window needs a time", ["POL104"], RULE.replace('time = "at"\n', "") + 'scope = "subject"\nof = ["a", "b"]\nwindow = "1d"\n'),
    ("a relation takes no step", ["POL210"], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["a"]\n'),
    ("a relation takes tables", [], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["a"]\ndisclosure = { kind = "information-gain", table = "joint.csv" }\n'),
    ("and functions", [], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["a", "b"]\ndisclosure = "plugin:mine"\n'),
    ("of six fields at most", ["POL003"], many(7, 'scope = "relation"\nrelation = "friend"')),
    ("and no more", [], many(6, 'scope = "relation"\nrelation = "friend"')),
    ("functions are told of twelve fields", [], many(12, "")),
    ("and no more of a record", ["POL003"], many(13, "")),
    ("without alternatives", ["POL211"], RULE + 'scope = "relation"\nrelation = "friend"\nany_of = [["a"], ["b"]]\ndisclosure = "plugin:mine"\n'),
    ("a table over a relation is named", ["POL005"], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["a"]\ndisclosure = "posterior"\n'),
    ("a relation rule names its relation", ["POL005"], RULE + 'scope = "relation"\nof = ["a"]\ndisclosure = { kind = "common", vector = "place" }\n'),
    ("common needs a vector", ["POL005"], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["a"]\ndisclosure = "common"\n'),
    ("a relation needs people", ["POL104", "POL104"], BASE.replace('subject = "person"\n', "")),
    ("relation rules read one place", ["POL213"], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["b"]\ndisclosure = { kind = "cosine", vector = "city" }\n'),
    ("and one number of visits", ["POL213"], RULE + 'scope = "relation"\nrelation = "friend"\nof = ["b"]\ndisclosure = { kind = "common", vector = "place", count = "n" }\n'),
    ("all else of them may differ", [], RULE + 'scope = "relation"\nrelation = "kin"\nof = ["b"]\ntau = 0.5\ndisclosure = { kind = "cosine", vector = "place" }\n[relation.kin]\nsource = "k"\nends = ["a", "b"]\n'),
    ("relation needs its scope", ["POL205"], RULE + 'of = ["a", "b"]\nrelation = "friend"\n'),
    ("posterior needs a table", ["POL005"], RULE + 'of = ["a", "b"]\ndisclosure = "posterior"\n'),
    ("posterior with a table", [], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "posterior", table = "joint.csv" }\n'),
    ("a plugin has a name", ["POL004"], RULE + 'of = ["a", "b"]\ndisclosure = "plugin:"\n'),
    ("a plugin", [], RULE + 'of = ["a", "b"]\ndisclosure = "plugin:mine"\n'),
    ("one field alone", ["POL203"], RULE + 'of = ["a"]\n'),
    ("one alternative alone", ["POL203"], RULE + 'any_of = [["a"], ["b", "c"]]\n'),
    ("any one entry", ["POL203"], RULE + 'of = ["a", "b"]\ndisclosure = { kind = "step", at = 1 }\n'),
    ("1/size is not below tau", ["POL203"], RULE + 'of = ["a", "b"]\ntau = 0.5\ndisclosure = "linear"\n'),
    ("its square is", [], RULE + 'of = ["a", "b"]\ntau = 0.5\ndisclosure = "quadratic"\n'),
    ("but one weight is not below tau", ["POL203"], RULE + 'of = ["a", "b"]\ntau = 0.1\ndisclosure = { kind = "linear", per = "entry", weight = 0.1 }\n'),
    ("unless it is never sent", [], RULE + 'of = ["hidden"]\n'),
    ("or some group is trusted with it", [], RULE + 'of = ["a"]\n[workers.groups.g]\nmembers = ["m/*"]\ntrusted = ["rule"]\n'),
    ("trusted names a rule", ["POL105"], BASE + '[workers.groups.g]\nmembers = ["m/*"]\ntrusted = ["rule"]\n'),
    ("a group has members", ["POL003"], BASE + "[workers.groups.g]\nmembers = []\n"),
    ("a glob closes its bracket", ["POL003"], BASE + '[workers.groups.g]\nmembers = ["m/[a"]\n'),
    ("a bracket in a set is closed", [], BASE + '[workers.groups.g]\nmembers = ["m/[]a]", "m/[!]]"]\n'),
    ("an empty glob", ["POL003"], BASE + '[capacity]\n"" = { open = 1 }\n'),
    ("a capacity is at least 1", ["POL003"], BASE + "[capacity]\ndefault = { open = 0 }\n"),
    ("a utility has a weight", ["POL005"], BASE + '[[utility]]\nworker = "*"\n'),
    ("a utility has one weight", ["POL006"], BASE + '[[utility]]\nweight = 1\nfrom = "quality"\n'),
    ("a utility names fields", ["POL101"], BASE + '[[utility]]\nfield = "x"\nweight = 1\n'),
    ("a user's utility", [], BASE + '[budget]\nutility = "plugin:mine"\n[[utility]]\nworker = "x/*"\nweight = 2\n'),
    ("has a name", ["POL003"], BASE + '[budget]\nutility = "plugin:"\n'),
    ("and is a plugin", ["POL003"], BASE + '[budget]\nutility = "additive"\n'),
    ("weighs fields itself", ["POL205"], BASE.replace("a = {", "a = { utility = 2,") + '[budget]\nutility = "plugin:mine"\n'),
    ("rows weigh workers alone", ["POL205", "POL205"], BASE + '[budget]\nutility = "plugin:mine"\n[[utility]]\nfield = "a"\nwhere = { x = "y" }\nweight = 2\n'),
    ("answers are at most t", ["POL204"], BASE.replace('a = { ask', 'a = { answers = 3, ask') + "[budget]\nt = 2\n"),
    ("t leaves a spare showing", ["POL310"], BASE + "[budget]\nt = 1\n"),
    ("a free field is in no rule", ["POL212"], BASE.replace("a = {", "a = { free = true,")),
    ("a relation is used", ["POL306"], BASE + '[relation.foe]\nsource = "f"\nends = ["a", "b"]\n'),
    ("ends are two", ["POL003"], BASE.replace('"one", "other"', '"one"')),
    ("nothing limits", ["POL307"], BASE + '[budget]\nobjective = "tradeoff"\ntau = "none"\n'),
    ("unknown keys everywhere", ["POL002"] * 3, BASE + "colour = 1\n[budget]\ntaus = 1\n[capacity]\nx = { opens = 1 }\n"),
    # examples
    ("an example", [], EXAMPLE.format('synthetic = true, shown = "Mr Ey", answer = "Mr Ey"')),
    ("says that it is made up", ["POL005"], EXAMPLE.format('shown = "Mr Ey", answer = "Mr Ey"')),
    ("and means it", ["POL003"], EXAMPLE.format('synthetic = false, shown = "Mr Ey", answer = "Mr Ey"')),
    ("shows something and answers it", ["POL005", "POL005"], EXAMPLE.format("synthetic = true")),
    ("with a lawful answer", ["POL003"], EXAMPLE.replace('"transcribe"', '"date"').format('synthetic = true, shown = "2 May 26", answer = "soon"')),
    ("or passages of what is shown", ["POL003"], EXAMPLE.replace('"transcribe"', '"spans", question = "Which?"').format('synthetic = true, shown = "take two", answer = "three"')),
    ("each on its line", [], EXAMPLE.replace('"transcribe"', '"spans", question = "Which?"').format('synthetic = true, shown = "take two daily", answer = "two\\ndaily"')),
    ("is a table", ["POL003"], BASE.replace("a = {", 'a = { example = "Ey",')),
    ("belongs to a question", ["POL205"], EXAMPLE.replace('ask = "transcribe", ', "").format('synthetic = true, shown = "x", answer = "x"')),
    # tests
    ("a test", [], TEST),
    ("a test's name is unique", ["POL003"], TEST + TEST.split("\n\n")[-1]),
    ("a test needs its keys", ["POL005"] * 4, BASE + "[[test]]\n"),
    ("by needs deny", ["POL205"], TEST + 'by = "rule"\n'),
    ("by names a rule", ["POL105"], TEST.replace('"allow"', '"deny"') + 'by = "rul"\n'),
    ("an entry has a record", ["POL003"], TEST.replace("r.a", ".a")),
    ("an entry has a field", ["POL101"], TEST.replace("r.a", "r.x")),
    ("an entry has a dot", ["POL003"], TEST.replace("r.a", "r")),
    ("a field that is never sent", ["POL003"], TEST.replace("r.a", "r.hidden")),
    ("a record in two lists", ["POL003"], TEST + 'same_subject = [["r", "s"], ["s", "q"]]\n'),
    ("one list, or a list of lists", [], TEST + 'same_subject = [["r", "s"], ["p", "q"]]\n'),
    ("a subject told twice", ["POL003"], TEST + 'same_subject = ["r", "s"]\nfacts = { subject = { r = "x" } }\n'),
    ("all times or none", ["POL003"], TEST + 'seen = ["s.b"]\nfacts = { time = { r = 2026-01-02T03:04:05Z } }\n'),
    ("times as text or as they are", [], TEST + 'seen = ["s.b"]\nfacts = { time = { r = 2026-01-02T03:04:05Z, s = "2026-01-02 03:04:05.123456" } }\n'),
    ("times to the microsecond", ["POL003"], TEST + 'facts = { time = { r = "2026-01-02T03:04:05.1234567Z" } }\n'),
    ("a time is no word", ["POL003"], TEST + 'facts = { time = { r = "noon" } }\n'),
    ("counts are not negative", ["POL003"], TEST + "facts = { count = { r = -1 } }\n"),
    ("a count of 0", [], TEST + "facts = { count = { r = 0 } }\n"),
    ("links are pairs", ["POL003"], TEST + 'facts = { friend = [["x"]] }\n'),
    ("links of a known relation", ["POL103"], TEST + 'facts = { freind = [["x", "y"]] }\n'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("holds", "expected", "text"), EXACT, ids=[e[0] for e in EXACT]
)
def test_each_exact_rule_has_its_code(holds, expected, text):
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b'version = 1\nname = "\xff"', 2, 9),  # not UTF-8
        (b"x = " + b"[" * 100_000, 1, 1),  # nested too deep
        (b"a = 1\nx = " + b"9" * 5000, 2, 5),  # a number too long
        (b"a = 1\nb", 2, 2),  # the end of the file
    ],
)
def test_what_the_parser_cannot_take_is_one_diagnostic_with_a_place(data, line, column):
    (found,) = parse(data).diagnostics
    assert (found.code, found.line, found.column) == ("POL001", line, column)


def test_an_overlap_is_told_at_the_box_with_its_page_and_the_reason():
    """`d` reaches into `a`, which the rule `link` names, and `b`."""
    text = SCAN.replace("[0.6, 0.1, 0.4, 0.4]", "[0.59, 0.1, 0.4, 0.4]")
    error, doubt = parse(text.encode()).diagnostics
    assert (error.code, doubt.code) == ("POL214", "POL312")
    assert "the crop of `d` overlaps that of `a` on page 1" in error.message
    assert "rule `link` names `a`" in error.why
    assert "overlaps that of `b` on page 1" in doubt.message
    line = text.splitlines()[error.line - 1]
    assert line.startswith("three = ")
    assert line[error.column - 1 :].startswith("[0.59")


@settings(max_examples=100, deadline=None)
@given(
    boxes=st.lists(
        st.tuples(*[st.integers(0, 5)] * 2, *[st.integers(1, 5)] * 2),
        min_size=2,
        max_size=2,
    )
)
def test_two_boxes_overlap_where_they_have_a_pixel_in_common(boxes):
    """On a page of ten times ten pixels, counted one by one."""
    one, two = ([n / 10 for n in box] for box in boxes)
    pixels = [
        {(i, j) for i in range(x, x + w) for j in range(y, y + h)}
        for x, y, w, h in boxes
    ]
    text = SCAN.replace("[0.1, 0.1, 0.5, 0.2]", str(one))
    text = text.replace("[0.1, 0.3, 0.5, 0.2]", str(two)).replace("scan#three", "other")
    found = parse(text.encode()).diagnostics
    overlap = any(d.code == "POL214" for d in found)
    assert overlap is bool(pixels[0] & pixels[1])


def test_a_field_that_shows_a_box_and_is_in_no_rule_is_doubted_always():
    """Boxes are drawn before there are rules: nothing keeps them apart until then."""
    drawn = SCAN.replace(", free = true", "")
    found = parse(drawn.encode()).diagnostics
    assert [(one.code, one.message) for one in found] == [
        ("POL311", "`b` is in no rule"),
        ("POL311", "`d` is in no rule"),
    ]
    assert codes(drawn.replace('date"', 'date", send = false')) == ["POL311"]


def test_a_record_rule_is_doubted_only_when_strict():
    text = RULE + 'of = ["a", "b"]\n'
    assert codes(text) == []
    # c is in no rule, and no field has a question of its own
    assert codes(text, strict=True) == [
        "POL315",
        "POL315",
        "POL311",
        "POL315",
        "POL309",
    ]


def test_names_are_compared_code_point_by_code_point():
    # "é" composed in fields, decomposed in the rule: two names
    text = RULE.replace("c = {", '"\u00e9" = {') + 'of = ["a", "e\u0301"]\n'
    assert codes(text) == ["POL101"]


def test_the_field_of_a_test_entry_is_the_longest_that_fits():
    text = TEST.replace("c = {", '"x.a" = {').replace("r.a", "r.x.a")
    (test,) = parse(text.encode()).policy.tests
    assert test.ask == ("r", "x.a")


def test_long_values_are_cut_and_controls_escaped():
    key = "k" * 500 + "\\u0007"
    (found,) = parse(f'{BASE}"{key}" = 1\n'.encode()).diagnostics
    assert found.code == "POL002"
    assert len(found.message) < 100
    bell = parse(BASE.encode() + b'"a\\u0007b" = 1\n').diagnostics[0]
    assert bell.message == "unknown key `a\\x07b`"


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_parsing_never_raises_on_any_bytes(data):
    result = parse(data)
    assert result.policy is not None or result.diagnostics


_SCALARS = st.one_of(
    st.sampled_from(
        [
            "1",
            "0",
            "-1",
            "true",
            "0.5",
            "1e400",
            "nan",
            '""',
            '"a"',
            '"step"',
            '"none"',
            '"subject"',
            '"entry"',
            '"30d"',
            '"r.a"',
            '"deny"',
            "2026-01-01",
            "12:00:00",
            "[]",
            '["a", "b"]',
            '[["a"], [1], "a", ["a", "a"]]',
            "{}",
            '{ kind = "step", at = 9 }',
            '{ kind = "linear", weights = { a = 0.5, x = true } }',
            '{ kind = 3 }',
            '{ a = { b = [1] } }',
        ]
    )
)  # fmt: skip
_KEYS = st.sampled_from(
    [
        "version",
        "name",
        "budget",
        "budget.tau",
        "budget.average",
        "budget.t",
        "budget.objective",
        "entity",
        "entity.form",
        "entity.form.key",
        "entity.form.subject",
        "entity.form.fields",
        "entity.form.fields.a",
        "entity.form.fields.a.ask",
        "entity.form.fields.a.min",
        "entity.form.fields.a.choices",
        "entity.form.fields.a.image",
        "entity.form.layout.x",
        "entity.form.layout.x.box",
        "relation.f",
        "relation.f.ends",
        "property",
        "property.p",
        "property.p.of",
        "property.p.any_of",
        "property.p.scope",
        "property.p.relation",
        "property.p.disclosure",
        "property.p.tau",
        "property.p.window",
        "property.p.average",
        "workers",
        "workers.groups",
        "workers.groups.g",
        "workers.groups.g.members",
        "workers.groups.g.trusted",
        "utility",
        "capacity",
        "capacity.x",
        "test",
    ]
)
_ROWS = st.sampled_from(
    [
        "name",
        "worker",
        "seen",
        "seen_by",
        "ask",
        "same_subject",
        "facts",
        "expect",
        "by",
        "field",
        "where",
        "weight",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(_KEYS, _SCALARS, max_size=12),
    st.dictionaries(_ROWS, _SCALARS, max_size=8),
    st.sampled_from(["test", "utility"]),
    st.booleans(),
)
def test_parsing_never_raises_on_lawful_toml_of_any_shape(keys, row, table, strict):
    text = "".join(f"{k} = {v}\n" for k, v in keys.items())
    text += f"[[{table}]]\n" + "".join(f"{k} = {v}\n" for k, v in row.items())
    result = parse(text.encode(), strict=strict)
    lines = text.split("\n")
    for found in result.diagnostics:
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
        assert found.mark >= 1
        assert found.message
        assert found.why
        assert found.fix
    order = [(d.line, d.column) for d in result.diagnostics]
    assert order == sorted(order)
    if result.policy is not None:
        run_tests(result.policy)


def test_safety_23_no_regular_expression_comes_from_a_policy():
    """Each is a literal, or made of the literals of its own module."""
    calls = [
        (path.name, node)
        for path in Path(policies.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
    ]
    assert len(calls) > 10
    made = [name for name, call in calls if not isinstance(call.args[0], ast.Constant)]
    # words for columns in a table of them; names of people by parts of names
    assert sorted(made) == ["column_names.py", "value_shapes.py"]


def test_a_rule_that_needs_a_field_never_sent_is_doubted_only_when_strict():
    text = RULE.replace("b = {", "b = { send = false,") + 'of = ["a", "b"]\n'
    assert codes(text) == []
    assert "POL316" in codes(text, strict=True)
    any_of = text.replace('of = ["a", "b"]', 'any_of = [["a", "b"], ["a", "c"]]')
    assert "POL316" not in codes(any_of, strict=True)
