"""What one stranger could know, as a file and in the console; what a stricter policy costs."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from dispatcher.core.errors import Conflict
from dispatcher.operations import pictures
from dispatcher.stages.intake.table import Options
from dispatcher.stages.planning import Planning
from dispatcher.store import open_store
from dispatcher.surfaces import picture as pages
from policies.document import parse
from policies.planning import densest_view
from policies.planning.densest_view import Best
from policies.solvers import SOLVERS, Limits, Verdict
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_solve import SAMPLES

RULES = """
[property.who-what]
scope = "subject"
of = ["name", "disease"]
note = "health data"

[property.place]
of = ["zip", "sex", "disease"]
"""
FIELDS = """
name = { ask = "transcribe" }
zip = { ask = "transcribe" }
sex = { ask = "choose", choices = ["F", "M"] }
disease = { ask = "transcribe", answers = 2 }
internal = { send = false }
"""
POLICY = policy(RULES, FIELDS, name="visits")
PEOPLE = [
    "p1,Ada Canary,11,F,flu",
    "p2,Ben Canary,11,F,flu",
    "p3,Cleo Canary,22,M,gout",
    "p4,Dan Canary,22,M,gout",
    "p5,Eve Canary,33,M,gout",
]
HEADER = "id,person,when,name,zip,sex,disease,internal,shoe\n"
FILE = HEADER + "".join(
    f"v{i},{line.split(',')[0]},2026-01-01,{','.join(line.split(',')[1:])},x,44\n"
    for i, line in enumerate(PEOPLE)
)


@pytest.fixture
def written(tmp_path):
    (tmp_path / "policy.toml").write_bytes(POLICY)
    (tmp_path / "visits.csv").write_text(FILE)
    return tmp_path


def drawn(folder, against="visits.csv"):
    policy = parse((folder / "policy.toml").read_bytes(), "policy.toml").policy
    return pictures.of_file(
        policy, folder, against and folder / against, Options(), seconds=30
    )


def test_the_picture_is_measured_on_the_file(written):
    """Three of four: name, zip and sex single all out; with zip and sex alone one is."""
    found = drawn(written)
    assert (found.view.fields, found.view.proven) == (("name", "zip", "sex"), True)
    assert (found.view.share, found.telling, found.sent) == (1, None, 4)
    assert set(found.pair.fields) == {"name", "zip", "sex", "disease"}
    assert found.several is None  # nobody has two records
    assert (found.measured.records, found.measured.people) == (5, 5)
    assert found.measured.unsent == ("id", "person", "when", "internal", "shoe")
    (kept,) = [field for field in found.fields if field.sent and not field.seen]
    assert (kept.name, set(kept.denied_by)) == ("disease", {"who-what", "place"})
    assert kept.instead.fields == ("zip", "disease")
    assert kept.instead.share == pytest.approx(1 / 5)
    rules = {rule.name: rule for rule in found.rules}
    assert (rules["who-what"].f, rules["who-what"].f_together) == (0, 1)
    assert rules["who-what"].broken
    assert rules["place"].denies == ("disease",)


def test_equal_values_of_other_records_tell_what_is_kept(written):
    """Four share their zip with somebody of the same disease; of the fifth nothing is known."""
    (kept,) = [field for field in drawn(written).fields if field.guess]
    assert (kept.name, kept.guess.by) == ("disease", ("zip",))
    assert kept.guess.records == 5
    assert kept.guess.blind == pytest.approx(1 / 2 * 3 / 5)
    assert kept.guess.informed == pytest.approx((4 + 1 / 2) / 5)
    assert 0 <= kept.guess.gain <= 1


def test_without_a_file_nobody_is_counted(written):
    found = drawn(written, against=None)
    assert (len(found.view.fields), found.view.share, found.measured) == (3, None, None)
    text = pages.page(found, "now")
    assert "nobody could be counted" in text
    assert (
        "%"
        not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).split(
            "stricter policy"
        )[0]
    )


def test_what_scans_say_is_not_counted_as_if_it_singled_nobody_out(tmp_path):
    """A page of receipts said that two fields of three `single out 0 %`."""
    fields = """
shop = { ask = "transcribe", image = "scan#box" }
zip = { ask = "transcribe"%s }
"""
    file = tmp_path / "visits.csv"
    file.write_text("id,person,when,scan,box,zip\nv1,p1,2026-01-01,a.png,,1\n")

    def said(more):
        (tmp_path / "policy.toml").write_bytes(policy("", fields % more))
        return drawn(tmp_path)

    hidden = said(", send = false")
    assert pages.sentences(hidden) == [
        "One stranger can see the one field of a record. How many of 1 person that "
        "singles out is not known: what the scans say (shop) is not read.",
        "Two strangers who share what they know: 1 of 1 fields; 0 of 0 limits reached.",
    ]
    text = pages.page(hidden, "now")
    assert "Singles out" not in text
    assert "What is in no box is shown to nobody" in text
    partly = said("")
    assert "singles out at least 100" in pages.sentences(partly)[0]
    assert "at least 100\u00a0% singled out" in pages.sentences(partly)[1]


def test_a_policy_of_feeds_counts_receivers(written):
    """It said that 0 workers are needed, and listed columns twice as never sent."""
    asks = re.sub(r"ask = [^,}]*,?|choices = [^}]*", "", FIELDS)
    (written / "policy.toml").write_bytes(policy(RULES, asks))
    found = drawn(written)
    assert found.trade.policy.needed.enough == 3  # the disease goes to two
    text = pages.page(found, "now")
    assert "the policy takes 3." in text
    assert "Receivers needed" in text
    assert "Columns without a field, never sent: id, person, when, shoe." in text
    assert " worker" not in text.split("</style>")[1]


def test_a_second_record_of_a_person_evades_a_rule_of_records(written):
    (written / "policy.toml").write_bytes(
        policy('[property.pair]\nof = ["name", "disease"]\n', FIELDS)
    )
    more = FILE + "v9,p1,2026-01-02,Ada Canary,11,F,flu,x,44\n"
    (written / "visits.csv").write_text(more)
    found = drawn(written)
    assert len(found.view.fields) == 3
    assert len(found.several.fields) == 4
    assert found.records_of_one == 2


def test_a_view_of_fewer_fields_may_single_out_more(written):
    """A badge of one field tells all apart, a name, a zip and a sex of groups nobody."""
    rules = "".join(
        f'[property.{name}]\nof = ["badge", "{name}"]\n'
        for name in ("name", "zip", "sex")
    )
    fields = FIELDS + 'badge = { ask = "transcribe" }\n'
    (written / "policy.toml").write_bytes(policy(rules, fields))
    lines = [f"v{i},p{i},2026-01-01,A,1,F,flu,,b{i}\n" for i in range(6)]
    header = HEADER.replace("shoe", "badge")
    (written / "visits.csv").write_text(header + "".join(lines))
    found = drawn(written)
    assert (len(found.view.fields), found.view.share) == (4, 0)
    assert (found.telling.fields, found.telling.share) == (("disease", "badge"), 1)
    said = pages.sentences(found)[0].replace("\u00a0", " ")
    assert said.endswith(
        "At worst 100 % of 6 people are singled out: disease, badge. The view with most "
        "fields singles out 0 %."
    )


def out_of_time(monkeypatch):
    """Let every search end before it found or proved anything."""

    def none(problem, rng, limits):
        found = SOLVERS["auto"](problem, rng, limits)
        return replace(found, verdict=Verdict.UNKNOWN, bound=math.inf)

    monkeypatch.setattr(densest_view, "SOLVERS", {"auto": none})
    monkeypatch.setattr(pictures, "best_view", lambda *_, **__: Best(None, Fraction(1)))


def test_a_search_that_ran_out_of_time_says_so_and_shows_no_view_that_could_grow(
    written, monkeypatch
):
    """Of each pair with the badge one is kept: the badge alone tells all apart."""
    rules = "".join(
        f'[property.{name}]\nof = ["badge", "{name}"]\n'
        for name in ("name", "zip", "sex", "disease")
    )
    fields = FIELDS + 'badge = { ask = "transcribe" }\n'
    (written / "policy.toml").write_bytes(policy(rules, fields))
    lines = [f"v{i},p{i},2026-01-01,A,1,F,flu,,b{i}\n" for i in range(6)]
    header = HEADER.replace("shoe", "badge")
    (written / "visits.csv").write_text(header + "".join(lines))
    out_of_time(monkeypatch)
    found = drawn(written)
    assert found.view.fields == ("name", "zip", "sex", "disease")
    assert (found.view.proven, found.finished, found.tie_proven) == (False,) * 3
    first, *more = (said.replace("\u00a0", " ") for said in pages.sentences(found))
    assert first == (
        "The search was not finished: run it again with --time-limit 60. One stranger "
        "can see at least 4 of the 5 fields of a record. At worst 100 % of 6 people are "
        "singled out: badge alone. The view with most fields that was found singles out "
        "0 %. Whether another view singles out more was not searched to the end."
    )
    text = pages.page(found, "now") + " ".join(more)
    assert "hardly tell" not in text
    assert "The view has most fields" not in text


def test_of_the_densest_views_that_were_found_the_worst_is_drawn(written, monkeypatch):
    """Zip and name exclude each other; the search for the worse one does not end."""
    (written / "policy.toml").write_bytes(
        policy('[property.pair]\nof = ["name", "zip"]\n', FIELDS)
    )
    lines = [f"v{i},p{i},2026-01-01,n{i},z,F,flu,,s\n" for i in range(6)]
    other = [f"v{i},p{i},2026-01-01,n,z{i},F,flu,,s\n" for i in range(6)]
    monkeypatch.setattr(pictures, "best_view", lambda *_, **__: Best(None, Fraction(1)))
    for rows, worst in ((lines, "name"), (other, "zip")):
        (written / "visits.csv").write_text(HEADER + "".join(rows))
        found = drawn(written)
        assert (found.view.share, found.view.proven, found.tie_proven) == (
            1,
            True,
            False,
        )
        assert worst in found.view.fields
        assert found.worst is found.view
        assert "of such views it singles out most" not in pages.body(found)
        assert "hardly tell" not in pages.body(found)


class Seen(HTMLParser):
    """Text of a page, and whatever would load or run something."""

    def __init__(self):
        super().__init__()
        self.text, self.loads = "", []

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        self.loads += [tag] * (tag in {"script", "link", "img", "iframe", "object"})
        self.loads += [
            name for name in names if name.startswith("on") or name == "style"
        ]
        self.loads += [v for k, v in names.items() if k in {"src", "href"}]

    def handle_data(self, data):
        self.text += data


def test_the_page_is_one_file_without_a_value_of_the_records(run, written):
    done = run("policy", "picture", "--against", "visits.csv", "-o", "out.html")
    assert done.code == 0, done.err
    said = done.out.replace("\u00a0", " ")
    assert "One stranger can see 3 of the 4 fields of a record." in said
    assert "That singles out 100 % of 5 people." in said
    assert "They are not shown disease, but from other records with equal zip" in said
    assert "they guess it right in 90 % of cases; blindly in 30 %." in said
    assert "4 of 4 fields, 100 % singled out; 2 of 2 limits reached" in said
    page = (written / "out.html").read_text()
    parser = Seen()
    parser.feed(page)
    assert parser.loads == []
    assert "http" not in parser.text.replace("http-equiv", "")
    for value in ("Canary", "gout", "flu"):
        assert value not in page
    for name in ("name", "zip", "sex", "disease", "who-what", "health data", "shoe"):
        assert name in parser.text


def test_the_numbers_come_as_json_too(run, written):
    done = run("policy", "picture", "--json", "--against", "visits.csv", "-o", "o.html")
    told = json.loads(done.out)
    assert told["schema"] == "dispatcher.picture/1"
    assert told["one"]["fields"] == ["name", "zip", "sex"]
    assert told["two_together"]["share"] == 1
    assert [rule["reached_together"] for rule in told["rules"]] == [True, True]


def test_a_file_without_a_field_of_the_policy_is_refused(run, written):
    (written / "other.csv").write_text("id,person\n1,2\n")
    done = run("policy", "picture", "--against", "other.csv")
    assert done.code == 5
    assert "other.csv has no column" in done.err
    assert not (written / "picture.html").exists()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("", "One stranger can see 4 of the 4 fields"),
        (
            "".join(
                f'[property.{f}]\nof = ["{f}"]\n'
                for f in ("name", "zip", "sex", "disease")
            )
            + '[workers.groups.own]\nmembers = ["x/*"]\n'
            'trusted = ["name", "zip", "sex", "disease"]\n',
            "One stranger can see no field of a record",
        ),
    ],
    ids=["no rules", "denies everything"],
)
def test_a_policy_of_all_or_nothing_is_drawn(run, written, rules, said):
    (written / "policy.toml").write_bytes(policy(rules, FIELDS))
    done = run("policy", "picture", "--against", "visits.csv")
    assert done.code == 0, done.err
    assert said in done.out
    assert (written / "picture.html").read_text().count("<article") >= 2


def test_the_policy_in_force_is_measured_on_the_store(set_up, tmp_path):
    """As on the file that was loaded, and on what is left of it."""
    set_up(POLICY.decode(), FILE, ["folder/ann"])
    with open_store(tmp_path / "dispatcher.db") as store:
        found = pictures.in_force(store, seconds=30)
    whole = found.measured
    assert (found.version, found.view.fields) == (1, ("name", "zip", "sex"))
    assert (found.view.share, whole.records, whole.people) == (1, 5, 5)
    assert (whole.source, whole.total) == ("the store", 5)
    assert "Canary" not in pages.body(found)


def test_a_store_without_records_has_nobody_to_count(store):
    case = Case(store)
    case.apply(policy('[property.pair]\nof = ["a", "b"]\n'))
    found = pictures.in_force(store, seconds=30)
    assert (len(found.view.fields), found.measured) == (3, None)


def test_without_a_policy_there_is_no_picture(store):
    with pytest.raises(Conflict, match="no policy is in force"):
        pictures.in_force(store)


# -- the frontier ----------------------------------------------------------------------


def test_the_backlog_is_swept_with_the_workers_there_are(store):
    """One worker may not have both of a pair: with whole sets apart, two are needed."""
    case = Case(store)
    case.apply(policy('[property.pair]\nof = ["a", "b"]\n'))
    case.add("x/ann")
    case.load(("k1", "ann", 0, "ab"), ("k2", "bob", 1, "abc"))
    found = Planning(store, case.tick).sweep(3, seed=0, limits=Limits())
    assert (found.adversaries, found.answers) == (1, 5)
    assert [(p.needed.least, p.needed.enough) for p in found.points] == [
        (1, 1), (2, 2), (2, 2)
    ]  # fmt: skip
    assert [float(p.utility) for p in found.points] == pytest.approx([1, 3 / 5, 3 / 5])
    assert found.policy.needed.enough == 2


def test_the_backlog_of_a_store_is_swept_by_command(run, set_up):
    """The folder's two workers give all answers with the pair apart."""
    set_up(
        policy('[property.pair]\nof = ["a", "b"]\n').decode(),
        "id,person,when,a,b,c,d\nr1,pat,2026-01-01,Canary,x,y,z\n",
        ["folder/ann", "folder/bob"],
    )
    done = run("plan", "frontier", "--points", 2)
    assert done.code == 0, done.err
    header, *rows = [line.split("\t") for line in done.out.splitlines()]
    assert header[-2:] == ["workers_at_least", "workers_enough"]
    assert [row[-2:] for row in rows] == [["1", "1"], ["2", "2"], ["2", "2"]]
    assert [row[2] for row in rows] == ["1.0"] * 3


def test_an_instance_is_swept_and_told_three_ways(run, tmp_path):
    path = SAMPLES / "step_pairs.json"
    done = run("plan", "frontier", path, "--points", 3, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["schema"] == "dispatcher.frontier/1"
    limits = [point["limit"] for point in told["points"]]
    assert limits == [1, 0.5, 0, "policy"]
    utilities = [point["utility"] for point in told["points"][:-1]]
    assert utilities == sorted(utilities, reverse=True)
    done = run("plan", "frontier", path, "--points", 3, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["limit"] for row in rows] == ["1.0", "0.5", "0.0", "policy"]
    done = run("plan", "frontier", path, "--points", 3, "-o", "f.svg")
    drawing = (tmp_path / "f.svg").read_text()
    assert drawing.startswith("<svg")
    assert drawing.count('class="mark s0"') >= 6
    run("plan", "frontier", path, "--points", 3, "-o", "f.html")
    assert (tmp_path / "f.html").read_text().count("<tr") == 5


def test_a_frontier_is_drawn_as_svg_or_html_only(run):
    done = run("plan", "frontier", SAMPLES / "step_pairs.json", "-o", "f.png")
    assert done.code == 2
    assert ".svg" in done.err


def test_relations_have_no_frontier(run):
    done = run("plan", "frontier", SAMPLES / "cosine_zero.json")
    assert done.code == 2
    assert "relations" in done.err
