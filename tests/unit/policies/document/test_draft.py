"""A drafted policy passes every check, keeps apart what an officer would, and says why."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.discovery.coded_table import TableSampler
from policies.discovery.profile import profile
from policies.document import parse, run_test
from policies.document.draft import draft
from policies.policy import PolicyTest


def coded(columns):
    sampler = TableSampler()
    sampler.add(list(columns), list(zip(*columns.values(), strict=True)))
    return sampler.finish(list(columns))


def drafted(columns, key="id", readings=None, ask=()):
    """Draft a policy; its checks and its own tests must pass."""
    text = draft(profile(coded(columns), key), "record", key, readings, ask=ask).text
    result = parse(text.encode(), strict=False)
    assert result.errors == 0, (text, result.diagnostics)
    assert all(run_test(result.policy, test).passed for test in result.policy.tests)
    return result.policy, text


def is_denied(policy, *names):
    if not all(policy.entity.fields[name].send for name in names):
        return True
    entries = [("r", name) for name in names]
    tests = [
        PolicyTest("", "w", ask, True, seen=tuple(e for e in entries if e != ask))
        for ask in entries
    ]
    return not all(run_test(policy, test).allowed for test in tests)


def drawn(rng, values, n):
    return [str(values[i]) for i in rng.integers(0, len(values), n)]


def german_hospital(n=400):
    rng = np.random.default_rng(3)
    person = rng.integers(0, 250, n)
    born = [f"{i % 28 + 1:02}.{i % 12 + 1:02}.{1930 + i % 80}" for i in range(250)]
    diseases = ["Gicht", "Asthma", "Migräne", "Diabetes"]
    which = rng.integers(0, 4, n)
    return {
        "Fallnummer": [f"F{i}" for i in range(n)],
        "PatientenNr": [f"P{i}" for i in person],
        "Vorname": [["Anna", "Jürgen", "Björn", "Sabine"][i % 4] for i in person],
        "Nachname": [f"{['Müller', 'Schäfer', 'Weiß'][i % 3]}" for i in person],
        "Geburtsdatum": [born[i] for i in person],
        "Geschlecht": ["mw"[i % 2] for i in person],
        "PLZ": [f"0{4100 + i % 60}" for i in person],
        "KVNr": [f"A{100_000_000 + i}" for i in person],
        "Aufnahmedatum": [f"{d + 1:02}.03.2026" for d in rng.integers(0, 28, n)],
        "Diagnose": [diseases[i] for i in which],
        "Medikament": [f"Mittel {i}" for i in which],
        "Bemerkung": ["Frau Weiß klagt seit gestern sehr" if i % 3 else "" for i in person],
    }  # fmt: skip


def test_a_german_hospital_export_denies_what_an_officer_would():
    policy, text = drafted(german_hospital(), "Fallnummer")
    assert policy.entity.subject == "PatientenNr"
    for names in [
        ("Vorname", "Nachname"), ("Nachname", "Diagnose"), ("Nachname", "Medikament"),
        ("Geburtsdatum", "Diagnose"), ("Geburtsdatum", "PLZ"), ("KVNr", "Diagnose"),
        ("Bemerkung", "Diagnose"),
    ]:  # fmt: skip
        assert is_denied(policy, *names), names
    assert not is_denied(policy, "Diagnose", "Medikament")  # nobody is singled out
    assert not policy.entity.fields["KVNr"].send
    assert not policy.entity.fields["Bemerkung"].send  # names stand in it
    assert all(field.ask == "yes_no" for field in policy.entity.fields.values())
    assert "# Found: Medikament tells Diagnose always." in text
    assert "direct identifier, by its name: national id number" in text


def test_a_date_and_what_two_columns_tell_alike_are_kept_apart_themselves():
    """Code and words are one thing: a rule kept the date and the code from the words only."""
    n = 300
    rng = np.random.default_rng(2)
    which = rng.integers(0, 12, n)
    policy, _ = drafted(
        {
            "Fall-Nr.": [str(i) for i in range(n)],
            "Pat-ID": [f"P{i // 2}" for i in range(n)],
            "m/w/d": drawn(rng, "mw", n),
            "Wohnort": drawn(rng, ["Borna", "Jessen", "Taucha"], n),
            "Aufn.-Dat.": [f"{d % 28 + 1:02}.0{d // 28 + 7}.24" for d in rng.integers(0, 84, n)],
            "HD (ICD)": [f"E1{i:02}" for i in which],
            "Hauptdiagnose": [f"Krankheit {i}" for i in which],
        },
        "Fall-Nr.",
    )  # fmt: skip
    assert is_denied(policy, "Aufn.-Dat.", "HD (ICD)")
    assert is_denied(policy, "Aufn.-Dat.", "Hauptdiagnose")
    assert not is_denied(policy, "HD (ICD)", "Hauptdiagnose")  # the task itself


def test_names_streets_and_insurance_numbers_are_sent_only_if_they_are_asked_for():
    n = 60
    rng = np.random.default_rng(4)
    columns = {
        "Fall-Nr.": [str(i) for i in range(n)],
        "Name, Vorname": [f"{a}, {b}" for a, b in zip(drawn(rng, ["Ebert", "Franke", "Jahn"], n), drawn(rng, ["Uwe", "Ida", "Eva"], n), strict=True)],
        "Straße / Nr.": [f"Kohlweg {i}" for i in range(n)],
        "Vers.-Nr.": [f"Y{865_077_000 + i}" for i in range(n)],
        "PLZ": [f"{68_000 + i}" for i in range(n)],
        "Station": drawn(rng, ["INN", "PSY"], n),
        "HD (ICD)": drawn(rng, ["J18.9", "E11.9"], n),
    }  # fmt: skip
    hidden = {"Name, Vorname", "Straße / Nr.", "Vers.-Nr."}
    policy, text = drafted(columns, "Fall-Nr.")
    fields = policy.entity.fields
    assert {name for name, field in fields.items() if not field.send} == hidden
    assert "full name" in text
    assert "# Name, Vorname; Straße / Nr.; Vers.-Nr.." in text
    sets = {pair for rule in policy.properties.values() for pair in rule.alternatives}
    assert ("Name, Vorname", "HD (ICD)") in sets  # holds once somebody sends the name
    assert ("Name, Vorname", "Straße / Nr.") not in sets  # whose it is, twice over
    asked, _ = drafted(columns, "Fall-Nr.", ask=["Name, Vorname", "PLZ"])
    sent = {name for name, field in asked.entity.fields.items() if field.send}
    assert sent == {"Name, Vorname", "PLZ"}
    assert is_denied(asked, "Name, Vorname", "PLZ")  # the job is about them
    with pytest.raises(ValueError, match="expected one of"):
        drafted(columns, "Fall-Nr.", ask=["Vorname"])


def test_a_triple_is_a_rule_of_its_own_with_the_share_it_singles_out():
    rng = np.random.default_rng(1)
    n = 1_000
    columns = {
        "id": [str(i) for i in range(n)],
        "age": drawn(rng, range(20, 60), n),
        "zip": drawn(rng, range(10_001, 10_007), n),
        "sex": drawn(rng, "fm", n),
        "disease": drawn(rng, ["gout", "flu"], n),
    }
    policy, text = drafted(columns)
    (rule,) = policy.properties.values()
    assert rule.alternatives == (("age", "zip", "sex"), ("age", "zip", "disease"))
    assert '["age", "zip", "sex"],  # single out 12 % of the people' in text
    assert not is_denied(policy, "age", "zip")
    assert is_denied(policy, "age", "zip", "sex")


def test_a_manifest_of_scanned_receipts_keeps_its_scans_and_types_nothing_again():
    rng = np.random.default_rng(5)
    n = 120
    columns = {
        "id": [str(i) for i in range(n)],
        "scan": [f"img/{i}.jpg" for i in range(n)],
        "company": drawn(rng, [f"SHOP {i} SDN BHD" for i in range(40)], n),
        "date": [f"{d + 1:02}/11/2025" for d in rng.integers(0, 28, n)],
        "total": [f"{v / 100:.2f}" for v in rng.integers(100, 9_000, n)],
    }
    policy, text = drafted(columns)
    scan = policy.entity.fields["scan"]
    assert (scan.image_column, scan.ask, scan.send) == ("scan", "transcribe", False)
    assert "draw boxes" in text
    assert {f.name for f in policy.entity.fields.values() if f.ask == "transcribe"} == {
        "scan"
    }
    assert is_denied(policy, "company", "date", "total")


def test_boxes_become_crops_but_for_what_is_loaded():
    n = 20
    columns = {
        "id": [str(i) for i in range(n)],
        "scan": [f"{i}.png" for i in range(n)],
        "total": [f"{i}.50" for i in range(n)],
        "total_box": [f"{i},2,30,40" for i in range(n)],
        "name_box": [f"{i},60,30,40" for i in range(n)],
        "roi": [f"{i},90,30,40" for i in range(n)],
    }
    policy, _ = drafted(columns, readings={"name": ("date", (("order", "dmy"),))})
    fields = policy.entity.fields
    assert set(fields) == {"total", "name", "roi-text"}
    assert (fields["name"].image_box, fields["name"].ask) == ("name_box", "date")
    assert fields["name"].order == "dmy"
    assert fields["roi-text"].answers == 2
    assert fields["total"].image_column is None


def test_a_customer_list_keeps_each_direct_identifier_from_all_else():
    rng = np.random.default_rng(8)
    n = 200
    columns = {
        "id": [str(i) for i in range(n)],
        "name": [f"{a} {b}" for a, b in zip(drawn(rng, ["Ada", "Ben", "Cleo"], n), drawn(rng, ["Berg", "Dahl", "Lund"], n), strict=True)],
        "email": [f"c{i}@mail.example" for i in range(n)],
        "contact": [f"+49 30 90{1000 + i}" for i in range(n)],
        "bank": ["DE89370400440532013000", "FR1420041010050500013M02606"] * (n // 2),
        "zip": drawn(rng, [f"{10_000 + i}" for i in range(150)], n),
        "sex": drawn(rng, "fm", n),
        "segment": drawn(rng, ["gold", "new", "lapsed"], n),
    }  # fmt: skip
    policy, text = drafted(columns)
    for first in ("name", "email", "contact", "bank"):
        for second in columns:
            if second not in ("id", first):
                assert is_denied(policy, first, second)
    assert not policy.entity.fields["bank"].send
    assert "by its values: phone number" in text
    assert not is_denied(policy, "sex", "segment")


def test_two_counts_of_an_organisation_come_together_and_of_a_person_do_not():
    """The least that names and values differ in: who is named."""
    rng = np.random.default_rng(1)
    counts = {name: drawn(rng, range(10_000), 40) for name in ("beds", "visits")}
    firms = [f"{town} Hospital" for town in map(str, range(40))]
    table = {
        "id": list(map(str, range(40))),
        "address": firms,
        "amount": drawn(rng, range(10_000), 40),
    }
    policy, _ = drafted({**table, "name": firms, **counts})
    assert not is_denied(policy, "beds", "visits")
    assert is_denied(policy, "beds", "amount")
    assert is_denied(policy, "beds", "name")
    born = [f"1.1.{1930 + i}" for i in range(40)]
    policy, _ = drafted({**table, "birth_date": born, **counts})
    assert is_denied(policy, "beds", "visits")


def test_where_nothing_is_about_people_no_rule_is_suggested_and_that_is_said():
    columns = {"id": list("abcdef"), "water": list("123123"), "ash": list("111222")}
    policy, text = drafted(columns)
    assert policy.properties == {}
    assert "No rule is suggested" in text


@pytest.mark.parametrize("value", ["", "x"])
def test_columns_of_equal_or_no_values_make_a_valid_policy(value):
    columns = {"id": [str(i) for i in range(9)], "zip": [value] * 9, "b": ["y"] * 9}
    policy, _ = drafted(columns)
    assert policy.properties == {}


def test_two_hundred_columns_that_all_single_out_are_one_rule():
    columns = {f"birth date {i}": [f"19{10 + r}-01-{i % 28 + 1:02}" for r in range(30)] for i in range(200)}  # fmt: skip
    policy, _ = drafted({"id": [str(r) for r in range(30)], **columns})
    (rule,) = policy.properties.values()
    assert rule.disclosure.at == 2
    assert is_denied(policy, "birth date 3", "birth date 190")


@pytest.mark.parametrize(("entity", "key"), [("", "k"), ("x", "")])
def test_what_can_be_no_policy_is_refused(entity, key):
    with pytest.raises(ValueError, match="expected"):
        draft(profile(coded({"a": ["1"]})), entity, key)
    with pytest.raises(ValueError, match="no column"):
        draft(profile(coded({"a": ["1"]}), "a"), "x", "a")


_NAMES = st.text(
    st.one_of(st.sampled_from("a+.\"'\\#=\n\t é"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    min_size=1,
    max_size=5,
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(
    _NAMES,
    st.lists(_NAMES | st.sampled_from(["name", "zip", "SSN", "scan", "patient_id", "note"]), min_size=2, max_size=7, unique=True),
    st.lists(st.sampled_from(["Ann Lee", "1961-01-02", "x.png", "1,2,3,4", "", "a@b.cd", "\x1b"]), min_size=1, max_size=12),
)  # fmt: skip
def test_any_names_and_values_make_a_policy_without_errors(entity, names, values):
    columns = {
        name: [values[(row * place + row) % len(values)] for row in range(len(values))]
        for place, name in enumerate(names, 1)
    }
    if any(any(cells) for name, cells in columns.items() if name != names[0]):
        found = profile(coded(columns), names[0])
        if any(not c.is_box for c in found.fields):
            text = draft(found, entity, names[0]).text
            result = parse(text.encode())
            assert result.errors == 0, (text, result.diagnostics)
            assert all(run_test(result.policy, t).passed for t in result.policy.tests)


@pytest.fixture
def customers():
    rng = np.random.default_rng(8)
    n = 300
    columns = {
        "id": [str(i) for i in range(n)],
        "email": [f"c{i}@mail.example" for i in range(n)],
        "zip": drawn(rng, [f"{10_000 + i}" for i in range(90)], n),
        "born": [f"{1940 + i % 60}-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in range(n)],
        "segment": drawn(rng, ["gold", "new", "lapsed"], n),
        "tier": drawn(rng, "ab", n),
    }
    return profile(coded(columns), "id")


def test_a_draft_for_a_feed_sends_what_one_receiver_may_have_together(customers):
    text = draft(customers, "record", "id", feed=True).text
    result = parse(text.encode(), strict=False)
    assert result.errors == 0
    fields = result.policy.entity.fields.values()
    assert {f.ask for f in fields} == {None}
    assert {f.name for f in fields if f.send} == {"segment", "zip"}
    assert "email = { send = false }  # not sent: e-mail address" in text
    assert (
        "tier = { send = false }  # not sent: with zip + segment, zip + segment single"
        in text
    )
    (test,) = result.policy.tests
    assert (test.name, test.expect_allow) == (
        "one receiver may get all that is sent",
        True,
    )
    assert run_test(result.policy, test).passed


def test_a_draft_for_feeds_sends_the_columns_that_are_asked_for(customers):
    """`--feed --ask` was refused: a seller could not say what is sold."""
    text = draft(customers, "record", "id", feed=True, ask=["email", "segment"]).text
    result = parse(text.encode(), strict=False)
    assert result.errors == 0
    fields = result.policy.entity.fields.values()
    assert {f.name for f in fields if f.send} == {"email", "segment"}
    assert "born = { send = false }  # not sent: not asked for" in text
    assert all(run_test(result.policy, test).passed for test in result.policy.tests)
    assert result.policy.tests[0].name == "email + segment never come together"
    assert '["zip", "born"]' not in text


def test_a_draft_says_that_people_must_have_agreed_and_where_boxes_are_missing():
    columns = {
        "id": [str(i) for i in range(60)],
        "opt_in": ["yes", "no"] * 30,
        "pharmacy_items": ["insulin", "folic acid", "plasters"] * 20,
        "scan": [f"{i}.png" for i in range(60)],
    }
    found = profile(coded(columns), "id")
    made = draft(found, "record", "id")
    assert "sensitive: consent; load only rows of people who agreed" in made.text
    assert "# quasi-identifier, sensitive: health" in made.text
    assert (made.withheld, made.pages) == ((), ("scan",))
    assert "Shown to nobody" not in made.text
