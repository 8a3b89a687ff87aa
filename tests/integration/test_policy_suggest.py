"""``policy suggest`` and ``--against``: what is written, printed and asked."""

import json

import pytest
from typer.testing import CliRunner

from dispatcher.core.errors import Invalid, NotFound, Usage
from dispatcher.store import open_store
from dispatcher.surfaces.cli import policy
from dispatcher.surfaces.cli.context import CliContext
from policies.discovery import exhaustive
from policies.document import parse

VISITS = "visit_id,patient_id,patient_name,birth_date,zip,disease\n" + "".join(
    f"v-{i},p-{i // 2},Canary{i // 2} Secretson,19{40 + i // 2}-01-02,0{4000 + i // 6},d{i % 3}\n"
    for i in range(40)
)
LOOSE = """version = 1
name = "x"
[entity.x]
key = "visit_id"
subject = "patient_id"
[entity.x.fields]
birth_date = { ask = "date" }
disease = { ask = "transcribe" }
zip = { ask = "transcribe" }
[property.where-what]
scope = "subject"
of = ["zip", "disease"]
"""


@pytest.fixture
def run(sqlite_path):
    """Run a command of ``policy`` in the directory of a store."""
    with open_store(sqlite_path):
        pass
    folder = sqlite_path.parent
    (folder / "visits.csv").write_text(VISITS)

    def invoke(*words, as_json=False, **options):
        context = CliContext(
            directory=folder, store=str(sqlite_path), json=as_json, **options
        )
        done = CliRunner().invoke(policy.app, [str(w) for w in words], obj=context)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    invoke.folder = folder
    return invoke


def test_a_draft_is_written_checked_tested_and_applied(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    done = run("suggest", file, "-o", out)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "birth_date singles out 100 % of the people" in done.stderr
    assert f"wrote {out}" in done.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    text = out.read_text()
    assert "Canary" not in text + done.output
    assert "# direct identifier, by its name: full name; singles out 100 %" in text
    checked = run("check", out, "--against", file)
    assert checked.stdout.endswith("0 errors, 0 warnings\n")
    tests = run("test", out)
    assert tests.exit_code == 0
    assert tests.stdout.count("PASS") >= 3
    assert "-> deny" in tests.stdout
    assert "is in force" in run("apply", out, "--against", file, no_input=True).stdout


def test_a_draft_does_not_overwrite_a_policy_unasked(run):
    file, out = run.folder / "visits.csv", run.folder / "mine.toml"
    out.write_text("mine")
    with pytest.raises(Usage, match="overwrite"):
        run("suggest", file, "-o", out, no_input=True)
    assert out.read_text() == "mine"
    run("suggest", file, "-o", out, yes=True)
    assert out.read_text() != "mine"


def test_what_the_file_shows_and_the_policy_ignores_is_warned_of_and_asked(run):
    file, out = run.folder / "visits.csv", run.folder / "loose.toml"
    out.write_text(LOOSE)
    assert "0 warnings" in run("check", out).stdout
    found = run("check", out, "--against", file)
    assert found.exit_code == 0
    assert (
        "warning[POL401]: a stranger may see birth_date with zip, disease"
        in found.stdout
    )
    with pytest.raises(Usage, match="1 warning"):
        run("apply", out, "--against", file, no_input=True)
    assert "version 1" in run("apply", out, "--against", file, yes=True).stdout


def test_findings_as_json(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    found = json.loads(run("suggest", file, "-o", out, as_json=True).stdout)
    assert found["schema"] == "dispatcher.policy-suggestion/1"
    assert found["measured"]["people"] == 20
    assert {"columns": ["birth_date"], "share": 1.0, "share_beyond": 1.0} in found[
        "measured"
    ]["identifying"]


def test_a_file_that_tells_nothing_of_people_says_so(run):
    file, out = run.folder / "food.csv", run.folder / "policy.toml"
    file.write_text(
        "id,water,ash\n" + "".join(f"{i},{i % 3},{i % 2}\n" for i in range(9))
    )
    done = run("suggest", file, "-o", out)
    assert "WARN no rule is suggested" in done.stderr
    assert "POL301" in run("check", out).stdout


def test_the_extra_that_would_search_further_is_named_where_it_is_missing(
    run, monkeypatch
):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    assert "sparsi-dispatcher[discovery]" not in run("suggest", file, "-o", out).stderr
    monkeypatch.setattr(exhaustive, "is_installed", lambda: False)
    done = run("suggest", file, "-o", out, yes=True)
    assert "pip install 'sparsi-dispatcher[discovery]'" in done.stderr


def test_a_dry_run_prints_the_draft_and_writes_nothing(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    done = run("suggest", file, "-o", out, "--dry-run")
    assert "[property.patient_name-apart]" in done.stdout
    assert not out.exists()


def test_files_of_no_use_are_refused_with_the_way_out(run):
    file, out = run.folder / "bad.csv", run.folder / "policy.toml"
    file.write_text("zip,zip\n1,2\n")
    with pytest.raises(Invalid, match="same name"):
        run("suggest", file, "-o", out)
    file.write_text("id\n1\n2\n")
    with pytest.raises(Invalid, match="no column besides its key"):
        run("suggest", file, "-o", out)
    file.write_text("disease\nflu\nflu\n")
    with pytest.raises(Invalid, match="can be the key") as caught:
        run("suggest", file, "-o", out)
    assert "--key row" in caught.value.fix
    assert not out.exists()
    run("suggest", file, "-o", out, "--key", "row")
    assert 'key     = "row"' in out.read_text()
    file.write_text("disease\n")
    with pytest.raises(Invalid, match="can be the key") as caught:
        run("suggest", file, "-o", out)
    assert "no row" in caught.value.why
    lines = run.folder / "bad.jsonl"
    lines.write_text("{'id': 1},\n{'id': 2},\n")
    with pytest.raises(Invalid, match=r"no row of .* can be read") as caught:
        run("suggest", lines, "-o", out)
    assert "line 1: not valid JSON" in caught.value.why


def test_numbered_rows_are_the_key_also_where_a_column_could_be_it(run):
    """A draft with the key among its fields would be refused by `policy check`."""
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    file.write_text("id,disease\n1,flu\n2,flu\n")
    run("suggest", file, "-o", out, "--key", "row")
    result = parse(out.read_bytes())
    assert result.policy.entity.key == "row"
    assert set(result.policy.entity.fields) == {"id", "disease"}


def test_a_policy_file_is_asked_who_may_see_what_next(run):
    out = run.folder / "loose.toml"
    out.write_text(LOOSE)
    assert run("ask", out, "--next", "zip").stdout == "yes\n"
    done = run("ask", out, "--seen", "birth_date, zip", "--next", "disease")
    assert done.stdout == "no: where-what keeps disease apart from zip\n"
    found = json.loads(
        run("ask", out, "--seen", "zip", "--next", "birth_date", as_json=True).stdout
    )
    assert (found["schema"], found["allowed"]) == ("dispatcher.policy-answer/1", True)
    with pytest.raises(NotFound, match="no field zipp") as caught:
        run("ask", out, "--next", "zipp")
    assert "did you mean zip" in caught.value.fix
    with pytest.raises(Invalid, match="the rule where-what denies it") as caught:
        run("ask", out, "--seen", "zip,disease", "--next", "birth_date")
    assert caught.value.why == "where-what keeps disease apart from zip"


def test_columns_with_commas_in_their_names_are_asked_for_and_asked_about(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    file.write_text(VISITS.replace("patient_name", '"Name, Vorname"'))
    done = run(
        "suggest", file, "-o", out, "--ask", "zip,Name, Vorname", "--ask", "disease"
    )
    assert "shown to nobody (not asked for): birth_date" in done.stderr
    assert "0 errors, 0 warnings" in run("check", out, "--against", file).stdout
    answer = run("ask", out, "--seen", "Name, Vorname", "--next", "disease").stdout
    assert answer == "no: Name, Vorname-apart keeps disease apart from Name, Vorname\n"
    with pytest.raises(Usage, match="no column that can be asked") as caught:
        run("suggest", file, "-o", out, "--ask", "Vorname", yes=True)
    assert "Name, Vorname; birth_date" in caught.value.fix
    done = run("suggest", file, "-o", out, "--ask", "zip", "--feed", "--dry-run")
    assert "\nzip = {}" in done.stdout
    assert "\ndisease = { send = false }" in done.stdout


def test_a_folder_of_scans_is_drafted_and_leads_to_drawing_boxes(run):
    folder, out = run.folder / "receipts", run.folder / "policy.toml"
    folder.mkdir()
    for name in ("1.png", "2.png"):
        (folder / name).write_bytes(b"x")
    done = run("suggest", folder, "-o", out)
    assert (
        f"dispatcher layout draw {folder}, then: dispatcher policy check" in done.stderr
    )
    assert "WARN" not in done.stderr
    assert "every worker may see" not in done.stderr + out.read_text()
    assert 'key     = "file"' in out.read_text()
    assert "0 errors" in run("check", out, "--against", folder).stdout


def test_a_field_that_is_sent_no_more_leaves_the_tests_of_a_draft_true(run):
    """The most privacy-minded edit made 21 errors and kept the policy from being applied."""
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    run("suggest", file, "-o", out)
    out.write_text(
        out.read_text().replace("birth_date = {", "birth_date = { send = false,")
    )
    assert "0 errors" in run("check", out).stdout
    tests = run("test", out)
    assert tests.exit_code == 0
    assert "birth_date is never sent: send = false]" in tests.stdout
    assert "is in force" in run("apply", out).stdout


def test_a_rule_of_a_field_that_is_never_sent_says_that_it_waits(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    file.write_text(VISITS.replace("patient_name", "ssn"))
    done = run("suggest", file, "-o", out, "--dry-run")
    assert "refuses nothing while ssn is never sent" in done.stdout


def test_questions_are_in_the_language_of_the_columns_or_say_that_they_are_not(run):
    file, out = run.folder / "visits.csv", run.folder / "policy.toml"
    for header, words in {
        "fall_nr,patienten_nr,nachname,geburtsdatum,plz,diagnose": "Kann das ein Wert von plz sein?",
        "caso,paciente_id,nombre,fecha_nacimiento,codigo,enfermedad": "¿Puede ser esto un valor de codigo?",
        "nr,pacjent_id,nazwisko,data_urodzenia,kod,rozpoznanie": "# The questions are in English",
    }.items():
        file.write_text(header + "\n" + VISITS.split("\n", 1)[1])
        assert words in run("suggest", file, "-o", out, "--dry-run").stdout
