"""``dispatcher records``: what is printed, where, and the exit statuses."""

import csv
import gzip
import io
import json
import stat

import pytest
from typer.testing import CliRunner

from dispatcher.core.errors import EXIT_PARTLY, Conflict, Invalid, Usage
from dispatcher.ledger.versions import apply_policy
from dispatcher.operations import discovery
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options
from dispatcher.store import open_store
from dispatcher.surfaces.cli import records
from dispatcher.surfaces.cli.context import CliContext
from policies.document import parse

POLICY = b"""
version = 1
name = "forms"
[entity.form]
key = "rx_id"
[entity.form.fields]
patient_name = { ask = "transcribe" }
zip = { ask = "transcribe" }
[property.both]
of = ["patient_name", "zip"]
"""
FORMS = "rx_id;patient_name;zip\n" + "".join(
    f"rx-{i};Canary{i} Secretson;0{4000 + i}\n" for i in range(9)
)


@pytest.fixture
def run(sqlite_path, clock):
    """Run a command of ``records`` on a store with a policy in force."""
    with open_store(sqlite_path) as store, store.write() as tx:
        apply_policy(tx, POLICY, at=clock())

    def invoke(*words, stdin=None, as_json=False):
        context = CliContext(
            directory=sqlite_path.parent, store=str(sqlite_path), json=as_json
        )
        done = CliRunner().invoke(
            records.app, [str(word) for word in words], input=stdin, obj=context
        )
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return invoke


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scans.csv"
    path.write_text(FORMS)
    return path


def test_preview_says_what_is_in_a_file_and_no_value(run, file):
    file.write_text(FORMS + "rx-9;too;many;cells\nrx-1;again;1\n")
    done = run("preview", file)
    assert done.exit_code == 0
    head, _, *rows = done.stdout.splitlines()
    assert head.startswith(
        "scans.csv  CSV, utf-8 (valid UTF-8), ';' separated, 11 rows"
    )
    assert rows[0].split("\t") == [
        "rx_id", "text", "0", "9", "80 %", "-",
        "field, quasi-identifier (number that links records)",
    ]  # fmt: skip
    assert rows[2].startswith("zip\ttext\t0\t10\t100 %\tUS_ZIP")
    assert "2 rows would be rejected: line 11 (4 columns, expected 3)" in rows[-1]
    assert "Canary" not in done.output
    assert "Canary0" in run("preview", file, "--show-values").stdout


def test_preview_warns_of_names_where_ids_of_people_belong(run, file):
    file.write_text(
        "rx_id,patient,zip\n"
        + "".join(f"rx-{i},Anna{i % 4} Secretson,0{4000 + i}\n" for i in range(12))
    )
    done = run("preview", file)
    assert "subject" in done.stdout
    assert "WARN column patient contains people's names" in done.stderr
    file.write_text(
        "rx_id,patient,zip\n"
        + "".join(f"rx-{i},p{i % 4},0{4000 + i}\n" for i in range(12))
    )
    assert "WARN" not in run("preview", file).output


def test_preview_as_json_is_one_document(run, file):
    found = json.loads(run("preview", file, as_json=True).stdout)
    assert found["schema"] == "dispatcher.preview/1"
    assert found["columns"][0]["suggestion"] == "key"
    assert all("values" not in column for column in found["columns"])


def test_values_can_not_move_the_cursor(run, file):
    file.write_text("a,b\x1b[2J\n1,\x1b]0;x\x07\n")
    assert "\x1b" not in run("preview", file, "--show-values").output


def test_load_counts_and_loading_twice_skips(run, file):
    done = run("load", file)
    assert (done.exit_code, done.stdout) == (
        0,
        "9 records loaded into run default  18 fields\n",
    )
    assert "9 skipped: in the store already" in run("load", file).stdout


def test_load_with_rejects_exits_3_and_names_the_file(run, file):
    file.write_text(FORMS + "rx-9;one\n")
    done = run("load", file, "--run", "nov")
    assert done.exit_code == EXIT_PARTLY
    rejects = file.with_name("scans.rejected.csv")
    assert f"1 rejected -> {rejects}" in done.stdout
    assert stat.S_IMODE(rejects.stat().st_mode) == 0o600
    assert rejects.read_text() == 'line,column,reason\n11,,"2 columns, expected 3"\n'
    assert "Canary" not in done.output


def test_load_from_stdin_and_with_what_the_operator_says(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = "rx_id|patient_name|zip\n1|Zoë|2\n".encode("cp437")
    done = run("load", "-", "--encoding", "cp437", "--delimiter", "|", stdin=data)
    assert done.exit_code == 0
    out = run("reassemble", "-o", "-", "--format", "jsonl")
    assert json.loads(out.stdout)["patient_name"] == "Zoë"


def test_reassemble_brings_the_loaded_columns_back_exactly(run, file, tmp_path):
    tricky = [["rx_id", "patient_name", "zip"], ["1", 'a "b"\r\nc', "00501"]]
    tricky += [["2", " x ", "=1+1"], ["3", "漢字", ""]]
    out = io.StringIO(newline="")
    csv.writer(out).writerows(tricky)
    file.write_bytes(out.getvalue().encode())
    run("load", file)
    target = tmp_path / "whole.csv"
    done = run("reassemble", "-o", target, "--no-excel-guard")
    assert "3 records, 0 whole" in done.stdout
    with target.open(newline="", encoding="utf-8-sig") as stream:
        assert [row[:3] for row in csv.reader(stream)] == tricky


@pytest.mark.parametrize("size", ["", "x", "-1", "0", "1.5G", "9P"])
def test_a_size_that_is_none_is_wrong_usage(run, file, size):
    with pytest.raises(Usage, match="no size"):
        run("load", file, "--max-bytes", size)


def test_a_file_that_is_not_there_is_told(run, tmp_path):
    with pytest.raises(Invalid, match="no file"):
        run("load", tmp_path / "none.csv")


def test_nothing_is_loaded_without_a_policy(sqlite_path, file):
    context = CliContext(directory=sqlite_path.parent, store=str(sqlite_path))
    done = CliRunner().invoke(records.app, ["load", str(file)], obj=context)
    assert isinstance(done.exception, Conflict)


def test_the_policy_that_is_suggested_passes_every_check(file):
    file.write_text(
        "rx_id,patient_id,patient_name,birth_date,zip,disease,scan\n"
        + "".join(
            f"r{i},p{i // 3},A{i} B,1960-01-{10 + i},0{1000 + i},d{i % 4},s/{i}.png\n"
            for i in range(12)
        )
    )
    policy = parse(discovery.suggest(file, Options()).text.encode()).policy
    assert policy is not None
    assert (policy.entity.key, policy.entity.subject) == ("rx_id", "patient_id")
    assert set(policy.entity.fields) == {
        "patient_name",
        "birth_date",
        "zip",
        "disease",
        "scan",
    }
    assert policy.entity.fields["birth_date"].ask == "yes_no"  # it is loaded
    assert not policy.entity.fields["scan"].send  # before boxes are drawn


def test_no_policy_is_suggested_without_a_key(file):
    file.write_text("a,b\n1,2\n1,2\n1,2\n")
    with pytest.raises(Invalid, match="can be the key"):
        discovery.suggest(file, Options())


def test_preview_and_load_reject_the_same_rows(run, file, tmp_path):
    """Rows of another width, without a key, with a doubled one, or changed since."""
    run("load", file)
    file.write_text(
        "rx_id;patient_name;zip\n"
        "rx-0;Canary0 Secretson;04000\n"  # in the store already
        "rx-1;somebody else;04001\n"  # with other cells
        ";Ann;1\n"
        " ;Ann;1\n"
        "new;Ann;1\n"
        "new;Ann;1\n"
        "short;Ann\n"
        "new;Bob;2\n"
    )
    found = json.loads(run("preview", file, as_json=True).stdout)
    told = [(row["line"], row["reason"]) for row in found["rejected"]]
    changed = told[0][1]
    assert "other cells in patient_name; records never change" in changed
    assert "the policy names no subject, the column that says whose" in changed
    done = run("load", file, "--rejects", tmp_path / "rejects.csv")
    assert done.exit_code == EXIT_PARTLY
    with (tmp_path / "rejects.csv").open(newline="") as stream:
        rejected = [(int(r["line"]), r["reason"]) for r in csv.DictReader(stream)]
    assert told == rejected
    assert [line for line, _ in rejected] == [3, 4, 5, 7, 8, 9]
    assert found["rejections"] == 6


def test_preview_without_a_policy_counts_what_the_likeliest_key_would_cost(file):
    rows = [f"k{i};Ann;{i}" for i in range(400)]
    rows[5], rows[9] = ";Ann;5", "k8;Ann;9"
    file.write_text("id;name;n\n" + "\n".join(rows) + "\n")
    context = CliContext(directory=file.parent / "nowhere", json=True)
    done = CliRunner().invoke(records.app, ["preview", str(file)], obj=context)
    found = json.loads(done.stdout)
    assert [(r["line"], r["column"]) for r in found["rejected"]] == [
        (7, "id"),
        (11, "id"),
    ]


def test_rows_without_a_key_are_known_by_their_line_and_the_files_digest(
    run, tmp_path, sqlite_path, clock
):
    table = "patient_name,zip\nAnn,1\nAnn,1\n"
    path = tmp_path / "export.csv"
    path.write_text(table)
    with pytest.raises(Invalid, match="can be the key") as caught:
        discovery.suggest(path, Options())
    assert "--key row" in caught.value.fix
    policy = discovery.suggest(path, Options(numbered=True)).text.encode()
    with open_store(sqlite_path) as store, store.write() as tx:
        apply_policy(tx, policy, at=clock())
    assert "2 of 2 rows would be loaded" in run("load", path, "--dry-run").stdout
    assert run("load", path).stdout.startswith("2 records loaded")
    assert "2 skipped" in run("load", path, "--key", "row").stdout
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(table.encode()))
    assert "2 skipped" in run("load", packed, "--key", "row").stdout
    out = run("reassemble", "-o", "-", "--format", "jsonl").stdout.splitlines()
    keys = [json.loads(line)["row"] for line in out]
    assert [key.partition(":")[2] for key in keys] == ["2", "3"]


def test_rows_are_not_numbered_in_a_stream_nor_beside_a_column_of_that_name(run, file):
    with pytest.raises(Invalid, match="rows of a stream"):
        run("load", "-", "--key", "row", stdin=FORMS)
    file.write_text("row,patient_name,zip\n1,Ann,2\n")
    with pytest.raises(Invalid, match="a column `row` of its own"):
        run("preview", file, "--key", "row")


def test_what_reassemble_guards_is_loaded_exactly(run, file, tmp_path):
    """Cells that a spreadsheet would run go out guarded, and come back as they were."""
    hostile = ["-1.5", "=1+1", "'=x", "''-y", "'plain", "+\N{GREEK SMALL LETTER PI}"]
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("rx_id", "patient_name", "zip"))
        writer.writerows((f"rx-{i}", cell, "1") for i, cell in enumerate(hostile))
    assert run("load", file).exit_code == 0
    whole = tmp_path / "whole.csv"
    assert run("reassemble", "-o", whole).exit_code == 0
    with whole.open(newline="", encoding="utf-8") as stream:
        sent = [row["patient_name"] for row in csv.DictReader(stream)]
    assert sent == [
        "'-1.5",
        "'=1+1",
        "''=x",
        "'''-y",
        "'plain",
        "'+\N{GREEK SMALL LETTER PI}",
    ]
    with open_table(whole) as table:
        rows = [row for batch in table.batches for row in batch.rows]
    assert [row[1] for row in rows] == hostile


def test_preview_names_rows_and_people_that_stand_there_twice(run, file):
    rows = [
        "v1,Ada Berg,1961-03-04,gout",
        "v2,Ben Dahl,1984-11-30,flu",
        "v3,Cleo Lund,1999-07-15,flu",
        "v4,Ada Berg,1961-03-04,flu",
        "v5,Ben Dahl,1984-11-30,flu",
    ]
    file.write_text(
        "visit_id,patient_name,birth_date,disease\n" + "\n".join(rows) + "\n"
    )
    done = run("preview", file)
    assert "1 row is equal to an earlier row in all columns but visit_id" in done.stdout
    assert "2 people are in several rows, by patient_name + birth_date" in done.stdout
    assert "measured on 5 rows, 3 people (by patient_name + birth_date)" in done.stdout


def test_preview_of_a_file_without_a_key_names_a_draft_that_works(run, file):
    file.write_text(
        "PLZ,Geburtsdatum,Diagnose\n04109,03.04.1961,Gicht\n"
        + "04109,04.04.1961,Gicht\n" * 2
    )
    done = run("preview", file)
    assert f"next: dispatcher policy suggest {file} --key row" in done.stderr
    assert "DE_PLZ" in done.stdout
    assert "US_ZIP" not in done.stdout
