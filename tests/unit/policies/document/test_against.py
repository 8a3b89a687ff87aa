"""What a file of records shows and a policy ignores is warned of, in its place."""

from policies.discovery.coded_table import TableSampler
from policies.discovery.profile import profile
from policies.document import parse
from policies.document.against import check_against
from policies.document.draft import draft

N = 60
COLUMNS = {
    "id": [str(i) for i in range(N)],
    "name": [f"{['Ann', 'Ben', 'Cleo'][i % 3]} {['Berg', 'Dahl'][i % 2]}" for i in range(N)],
    "zip": [f"{10_000 + i // 4}" for i in range(N)],
    "sex": ["fm"[i // 2 % 2] for i in range(N)],
    "birth_date": [f"19{30 + i % 23}-01-01" for i in range(N)],
    "disease": [f"d{i % 5}" for i in range(N)],
    "drug": [f"drug {i % 5}" for i in range(N)],
    "comment": [f"told Mrs. Berg to come again {i}" for i in range(N)],
}  # fmt: skip
FIELDS = "".join(f'{n} = {{ ask = "transcribe" }}\n' for n in COLUMNS if n != "id")
POLICY = f'version = 1\nname = "x"\n[entity.x]\nkey = "id"\n[entity.x.fields]\n{FIELDS}'


def measured():
    sampler = TableSampler()
    sampler.add(list(COLUMNS), list(zip(*COLUMNS.values(), strict=True)))
    return profile(sampler.finish(list(COLUMNS)), "id")


def warned(text):
    result = parse(text.encode())
    assert result.errors == 0, result.diagnostics
    return check_against(result, measured())


def test_a_policy_without_rules_is_warned_of_all_that_singles_out():
    found = {(d.code, d.message) for d in warned(POLICY)}
    assert any(
        code == "POL401" and message.startswith("a stranger may see zip + birth_date: singles out 100 % of the people")
        for code, message in found
    )  # fmt: skip
    assert any(
        code == "POL402" and message.startswith("a stranger may see name with ")
        for code, message in found
    )
    assert any(code == "POL404" for code, _ in found)


def test_a_policy_for_another_file_is_warned_of():
    """All that it reads is missing, so that nothing else could be found."""
    other = (
        'version = 1\nname = "x"\n[entity.x]\nkey = "rx_id"\nsubject = "patient"\n'
        '[entity.x.fields]\nname = { ask = "transcribe" }\n'
        'dose = { ask = "transcribe" }\ntotal = { ask = "transcribe", image = "scan" }\n'
    )
    (found,) = [d for d in warned(other) if d.code == "POL405"]
    assert found.message == "the file has no column dose, scan, rx_id, patient"
    assert other.splitlines()[found.line - 1].startswith("dose")


def test_the_number_of_a_row_is_no_column_that_is_missing():
    assert not [
        d for d in warned(POLICY.replace('"id"', '"row"')) if d.code == "POL405"
    ]


def test_each_warning_stands_at_the_field():
    for diagnostic in warned(POLICY):
        line = POLICY.splitlines()[diagnostic.line - 1]
        assert line.split(" = ")[0] in diagnostic.message


def test_what_a_rule_keeps_apart_is_told_by_other_fields():
    rule = '[property.p]\nof = ["name", "disease"]\n'
    (found,) = [
        d for d in warned(POLICY + rule) if d.code == "POL403" and "name + drug" in d.message
    ]  # fmt: skip
    assert "drug tells disease always" in found.message
    both = '[property.p]\nany_of = [["name", "disease"], ["name", "drug"]]\n'
    assert not [d for d in warned(POLICY + both) if d.code == "POL403"]


def test_a_rule_of_a_part_is_enough_and_trust_in_a_group_is_not():
    rule = '[property.p]\nof = ["zip", "birth_date"]\n'
    assert not any("zip + birth_date:" in d.message for d in warned(POLICY + rule))
    trusted = rule + '[workers.groups.g]\nmembers = ["in/*"]\ntrusted = ["p"]\n'
    assert not any("zip + birth_date:" in d.message for d in warned(POLICY + trusted))


def test_fields_that_are_never_sent_are_not_warned_of():
    text = POLICY.replace('ask = "transcribe"', 'ask = "transcribe", send = false')
    assert warned(text) == ()


def test_a_draft_leaves_nothing_to_warn_of():
    assert warned(draft(measured(), "x", "id").text) == ()


def test_what_singles_out_is_warned_of_whatever_it_is_called_and_about():
    """No name says that a slot or a tier is known of people, or that a date is."""
    n = 120
    columns = {
        "ref": [str(i) for i in range(n)],
        "forename": [["Ada", "Ben", "Cleo"][i % 3] for i in range(n)],
        "last_order_date": [f"2026-{i // 28 + 1:02}-{i % 28 + 1:02}" for i in range(n)],
        "slot": [f"s{i % 40}" for i in range(n)],
        "tier": [f"t{i // 40}" for i in range(n)],
        "favourite_category": [f"c{i % 7}" for i in range(n)],
    }
    sampler = TableSampler()
    sampler.add(list(columns), list(zip(*columns.values(), strict=True)))
    fields = "".join(f'{c} = {{ ask = "yes_no" }}\n' for c in columns if c != "ref")
    text = (
        f'version = 1\nname = "x"\n[entity.x]\nkey = "ref"\n[entity.x.fields]\n{fields}'
    )
    found = check_against(
        parse(text.encode()), profile(sampler.finish(list(columns)), "ref")
    )
    messages = "\n".join(d.message for d in found)
    assert (
        "a stranger may see last_order_date with forename, slot, tier, favourite_category: "
        "singles out 100 % of the people" in messages
    )
    assert (
        "slot + tier singles out 100 % of the people; favourite_category is" in messages
    )


def test_many_combinations_of_one_field_are_one_warning():
    (found,) = [
        d for d in warned(POLICY) if d.message.startswith("a stranger may see zip")
    ]
    assert found.message.count("singles out") > 1
