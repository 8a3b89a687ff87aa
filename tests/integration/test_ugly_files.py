"""Files as programs really write them, by the commands: preview and load agree, cell for cell."""

import json

import pytest
from typer.testing import CliRunner

from dispatcher.core.errors import Invalid
from dispatcher.ledger.versions import apply_policy
from dispatcher.store import open_store
from dispatcher.surfaces.cli import records
from dispatcher.surfaces.cli.context import CliContext

POLICY = b"""
version = 1
name = "forms"
[entity.form]
key = "id"
[entity.form.fields]
name = { ask = "transcribe" }
"""

READ = {  # name of the file -> its bytes, what is loaded, the lines that are not
    "bom-quoted.csv": (b'\xef\xbb\xbf"id","name"\n"1","Ann"', {"1": "Ann"}, []),
    "two-boms.csv": (b"\xef\xbb\xbf" * 2 + b"id,name\n1,Ann\n", {"1": "Ann"}, []),
    "joined.csv": (
        "id,name\n1,Zo\u00eb\n".encode("utf-8-sig") * 2,
        {"1": "Zo\u00eb"},
        [3, 4],
    ),
    "twice.csv": (b"id,name\n1,Ann\nid,name\n2,Bob\n", {"1": "Ann", "2": "Bob"}, [3]),
    "sep.txt": ("\ufeffsep=;\r\nid;name\r\n1;Ann\r\n".encode("utf-16-le"), {"1": "Ann"}, []),
    "quoted-sep.csv": (b'"sep=;"\nid;name\n1;Ann\n', {"1": "Ann"}, []),
    "dos.csv": (b"id,name\r\n1,Ann\r\n\x1a", {"1": "Ann"}, [3]),
    "mac.csv": (b"id,name\r1,Ann\r2,Bob\r", {"1": "Ann", "2": "Bob"}, []),
    "spaced.csv": (b'id,name\n1, "Ann"\n2,Bob\n', {"2": "Bob"}, [2]),
    "footer.csv": (b"id;name\n1;Ann\nTotal: 1\n", {"1": "Ann"}, [3]),
    "decimals.csv": (b"id;name\n1;1,50\n2;2,75\n", {"1": "1,50", "2": "2,75"}, []),
    "windows.csv": ("id,name\n1,it\u2019s \u00a35\n".encode("cp1252"), {"1": "it\u2019s \u00a35"}, []),
    "czech.csv": ("id,name\n1,\u0160imek R\u016f\u017ei\u010dka\n".encode("cp1250"), {"1": "\u0160imek R\u016f\u017ei\u010dka"}, []),
    "separators.csv": ("id,name\n1,A\u2028B\x0bC\n".encode(), {"1": "A\u2028B\x0bC"}, []),
    "nul.csv": (b"id,name\n1,A\0B\n2,Bob\n", {"2": "Bob"}, [2]),
    "no-key.csv": (b"id,name\n,Ann\n2,Bob\n2,Cid\n", {"2": "Bob"}, [2, 4]),
    "numbers.json": (
        b'[{"id": 12345678901234567890123, "name": 1.50}, {"id": 1, "name": 1E400}]',
        {"12345678901234567890123": "1.50", "1": "1E400"},
        [],
    ),
    "nan.json": (b'[{"id": 1, "name": NaN},\n{"id": 2, "name": "x"}]', {"2": "x"}, [1]),
    "surrogates.jsonl": (
        b'{"id": 1, "name": "\\ud83d"}\n{"id": 2, "name": "\\ud83d\\ude00"}\n',
        {"2": "\U0001f600"},
        [1],
    ),
    "two-a-line.jsonl": (b'{"id":1,"name":"a"} {"id":2,"name":"b"}\n{"id":3,"name":"c"}\n', {"3": "c"}, [1]),
    "doubled.jsonl": (b'{"id":1,"name":"a","name":"b"}\n{"id":2,"name":"c"}\n', {"2": "c"}, [1]),
}  # fmt: skip

REFUSED = {
    "title.csv": (b"Export of May\n\nid;name\n1;Ann\n2;Bob\n", "does not name its columns"),
    "page.xls": (b"<html><table><tr><td>id</td></tr></table></html>", "HTML"),
    "page.csv": (b"\n<!DOCTYPE html><html></html>", "HTML"),
    "aligned.txt": (b"id   name\n1    Ann\n2    Bob\n", "divided by spaces"),
    "carets.csv": (b"id^name\n1^Ann\n2^Bob\n", "delimiter"),
    "tie.csv": (b"id;name,age\n1;Ann,5\n2;Bob,6\n", "delimiter"),
    "japanese.csv": ("id,name\n1,\u5c71\u7530\n".encode("shift_jis"), "encoding"),
    "wrapped.json": (b'{"data": [{"id": 1, "name": "a"}]}', "one object"),
    "columns.json": (b'{"id": [1, 2], "name": ["a", "b"]}', "one object"),
    "lists.jsonl": (b'[1, "a"]\n[2, "b"]\n', "no list of objects"),
    "joined.json": (b'[{"id":1,"name":"a"}][{"id":2,"name":"b"}]', "cannot be read"),
}  # fmt: skip


@pytest.fixture
def run(store_url, tmp_path, clock):
    with open_store(store_url, password_allowed=True) as store, store.write() as tx:
        apply_policy(tx, POLICY, at=clock())

    def invoke(*words):
        context = CliContext(directory=tmp_path, store=str(store_url), json=True)
        done = CliRunner().invoke(records.app, [str(w) for w in words], obj=context)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return invoke


@pytest.mark.parametrize("name", READ)
def test_an_ugly_file_is_loaded_exactly_or_refused_by_row(run, tmp_path, name):
    data, cells, lines = READ[name]
    file = tmp_path / name
    file.write_bytes(data)
    looked = json.loads(run("preview", file).stdout)
    loaded = json.loads(run("load", file).stdout)
    assert [row["line"] for row in looked["rejected"]] == lines
    assert loaded["rejected"] == len(lines)
    out = tmp_path / "out.jsonl"
    run("reassemble", "-o", out)
    rows = [json.loads(line) for line in out.read_text().split("\n") if line]
    assert [(row["id"], row["name"]) for row in rows] == list(cells.items())


def test_files_that_say_too_little_are_refused_by_name(run, tmp_path):
    for name, (data, what) in REFUSED.items():
        file = tmp_path / name
        file.write_bytes(data)
        for command in ("preview", "load"):
            with pytest.raises(Invalid, match=what):
                run(command, file)
