"""Bad input, row by row: a clear error, the right exit status, and nothing lost.

Every row is a sentence, what a hostile or clumsy user does, the exit status, and words
that the message must have. After each, the same directory must still do its work.
"""

import functools
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from dispatcher.store import open_store
from dispatcher.store.policies import lock_policy_exclusive
from dispatcher.surfaces.cli.start import main
from tests import edits

POLICY = """
version = 1
name = "forms"
[budget]
t = 3
[entity.form]
key = "rx_id"
subject = "patient_id"
[entity.form.fields]
patient_name = { ask = "transcribe" }
disease = { ask = "transcribe" }
zip = { ask = "transcribe" }
[property.both]
of = ["patient_name", "disease"]
"""
PICTURES = POLICY.replace(
    'zip = { ask = "transcribe" }', 'zip = { ask = "transcribe", image = "scan#roi" }'
)
BY_SUBJECT = POLICY + 'scope = "subject"\n'
BY_TIME = (
    POLICY.replace('subject = "patient_id"', 'subject = "patient_id"\ntime = "at"')
    + 'scope = "subject"\nwindow = "7d"\n'
)
HEADER = "rx_id,patient_id,patient_name,disease,zip\n"
FORMS = HEADER + "".join(
    f"rx-{i},p-{i},Canary{i} Secretson,Leprosy{i},0{4000 + i}\n" for i in range(4)
)
OBJECT = (
    '{"rx_id":"%s","patient_id":"p","patient_name":%s,"disease":"Leprosy","zip":"1"}\n'
)
GOOD = FORMS.replace("rx-", "good-")
SECRETS = ("Canary", "Leprosy", "secretpw")


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


class Desk:
    """A directory where somebody works with the program."""

    def __init__(self, place: Path, store: str | None = None) -> None:
        self.dir = place
        self.store = store  # None: the one of the directory

    def run(self, *words: object, stdin: bytes = b"") -> Done:
        told = ["--store", self.store] if self.store else []
        words = ("--dir", self.dir, *told, *words)
        return run([str(word) for word in words], stdin)

    def file(self, name: str, data: str | bytes) -> Path:
        path = self.dir / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def load(self, data: str | bytes, *words: object, name: str = "forms.csv") -> Done:
        """Load a file; what was rejected is part of what was said."""
        done = self.run("records", "load", self.file(name, data), *words)
        rejects = self.dir / f"{name.split('.')[0]}.rejected.csv"
        told = rejects.read_text() if rejects.is_file() else ""
        return Done(done.status, done.out, done.err + told)

    def rows(self, *rows: str) -> Done:
        return self.load(FORMS + "".join(f"{row}\n" for row in rows))

    def object(self, line: str) -> Done:
        data = OBJECT % ("r1", '"x"') + line + "\n" + OBJECT % ("r2", '"y"')
        return self.load(data, name="forms.jsonl")

    def policy(self, text: str | bytes, command: str = "apply") -> Done:
        self.file("policy.toml", text)
        return self.run("policy", command)

    def settings(self, text: str | bytes, *words: object) -> Done:
        path = self.file("dispatcher.toml", text)
        done = self.run(*(words or ("status",)))
        path.unlink()
        return done

    def at(self, store: str, *words: object) -> Done:
        return run(["--dir", str(self.dir), "--store", store, *map(str, words)])

    def under(self, policy: str) -> "Desk":
        done = self.policy(policy)
        assert done.status == 0, done.err
        return self

    def with_workers(self, *names: str) -> "Desk":
        done = self.run("workers", "add", *names)
        assert done.status == 0, done.err
        return self

    def loaded(self) -> "Desk":
        done = self.load(FORMS)
        assert done.status == 0, done.err
        return self

    def edit(self, edit: edits.Edit) -> "Desk":
        with (
            open_store(self.store or self.dir / "dispatcher.db") as store,
            store.write() as tx,
        ):
            edit(tx)
        return self


def run(words: list[str], stdin: bytes = b"") -> Done:
    """Run the program in this process, with streams of its own."""
    streams = [
        io.TextIOWrapper(io.BytesIO(data), "utf-8", errors="backslashreplace")
        for data in (stdin, b"", b"")
    ]
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        status = main(words)
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    told = []
    for stream in streams[1:]:
        stream.flush()
        told.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Done(status, *told)


@pytest.fixture(scope="session")
def desk_template(tmp_path_factory, sqlite_template) -> Path:
    """A directory with settings, a policy in force and an empty store."""
    place = tmp_path_factory.mktemp("desk") / "desk"
    place.mkdir(mode=0o700)
    shutil.copy(sqlite_template, place / "dispatcher.db")
    Desk(place).under(POLICY)
    return place


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DISPATCHER_ALLOW_ROOT", "1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.environ.get("NUMBA_CACHE_DIR", "unset"))
    if os.environ["NUMBA_CACHE_DIR"] == "unset":
        monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def desk(desk_template, tmp_path) -> Desk:
    shutil.copytree(desk_template, tmp_path / "desk")
    return Desk(tmp_path / "desk")


@pytest.fixture
def postgres_desk(tmp_path, postgres_url) -> Desk:
    (tmp_path / "postgres").mkdir()
    return Desk(tmp_path / "postgres", postgres_url).under(POLICY)


def told_well(done: Done, status: int, words: str) -> None:
    assert done.status == status, done.said
    assert words in done.said
    for never in ("Traceback", "E001", *SECRETS):
        assert never not in done.said
    if status not in (0, 3):
        assert "why: " in done.said
        assert "fix: " in done.said
    for line in done.err.splitlines():
        assert len(line) < 1000
        assert line.isprintable() or "\t" in line


def still_works(desk: Desk) -> None:
    """The same directory loads a good file, and knows what it holds."""
    done = desk.under(POLICY).load(GOOD, name="good.csv")
    assert done.status == 0, done.err
    assert "4 records loaded" in done.out + done.err
    assert desk.run("status").status == 0


@dataclass(frozen=True)
class Row:
    sentence: str
    act: Callable[[Desk], Done]
    status: int
    words: str


def picture(width: int = 20, height: int = 10, mode: str = "L") -> bytes:
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, "PNG")
    return out.getvalue()


def scanned(
    desk: Desk, page: bytes | Path, box: str = "0,0,5,5", name: str = "page.png"
) -> Done:
    """Load a record with a page of an image."""
    desk.under(PICTURES)
    if isinstance(page, Path):
        (desk.dir / "page.png").symlink_to(page)
    else:
        desk.file("page.png", page)
    return desk.load(
        "rx_id,patient_id,patient_name,disease,scan,roi\n"
        f'r1,p1,Canary,Leprosy,{name},"{box}"\n'
    )


def again(desk: Desk) -> Done:
    """Begin anew where somebody works."""
    path = desk.file("dispatcher.toml", "")
    done = desk.run("init")
    path.unlink()
    return done


def fields(key: str, text: str) -> str:
    return POLICY.replace('zip = { ask = "transcribe" }', f"{key} = {text}")


def rule(text: str) -> str:
    return POLICY + text + "\n"


WIDE = "".join(f",c{i}" for i in range(9000))

FILES = [
    Row("an empty file", lambda d: d.load(b""), 5, "is empty"),
    Row("a lone byte order mark", lambda d: d.load(b"\xef\xbb\xbf"), 5, "no header"),
    Row("blank lines only", lambda d: d.load("\n\n\n"), 5, "no header"),
    Row("a header only", lambda d: d.load(HEADER), 5, "a header and no row"),
    Row("a row too long", lambda d: d.rows("a,b,c,d,e,f"), 3, "6 columns, expected 5"),
    Row("a row too short", lambda d: d.rows("a,b"), 3, "2 columns, expected 5"),
    Row("a NUL byte in a cell", lambda d: d.rows("r,p,a\0b,c,d"), 3, "a NUL byte"),
    Row("NUL bytes only", lambda d: d.load(b"\0" * 99), 5, "not clean text"),
    Row(
        "bytes that the encoding told does not have",
        lambda d: d.load(FORMS.encode() + b"r,p,\xe9,c,d\n", "--encoding", "utf-8"),
        3,
        "patient_name",
    ),
    Row("UTF-16 without a mark", lambda d: d.load(FORMS.encode("utf-16-le")), 0, "4 r"),
    Row(
        "an encoding of no name",
        lambda d: d.load(FORMS, "--encoding", "klingon"),
        5,
        "no encoding of that name",
    ),
    Row(
        "an encoding of host names",
        lambda d: d.load(FORMS, "--encoding", "idna"),
        5,
        "no encoding of that name",
    ),
    Row(
        "9,000 columns",
        lambda d: d.load(
            HEADER.strip() + WIDE + "\nr,p,Canary,Leprosy,1" + "," * 9000 + "\n"
        ),
        0,
        "1 record loaded",
    ),
    Row(
        "more columns than can be loaded",
        lambda d: d.load(HEADER.strip() + WIDE + WIDE.replace("c", "d") + "\n"),
        5,
        "columns are too many",
    ),
    Row(
        "one column only", lambda d: d.load("rx_id\nr1\n"), 5, "no column `patient_id`"
    ),
    Row("two columns of one name", lambda d: d.load("a,a\n1,2\n"), 5, "the same name"),
    Row("a column without name", lambda d: d.load("a,,b\n1,2,3\n"), 5, "has no name"),
    Row("a key twice", lambda d: d.rows("rx-1,p,c,d,e"), 3, "on an earlier line"),
    Row("an empty key", lambda d: d.rows(",p,c,d,e"), 3, "the key is empty"),
    Row(
        "an empty subject that a rule needs",
        lambda d: d.under(BY_SUBJECT).rows("r,,c,d,e"),
        3,
        "the subject is empty",
    ),
    Row("a key with dots", lambda d: d.rows("rx.1.zip,p,c,d,e"), 0, "5 records"),
    Row("a key of two lines", lambda d: d.rows('"r\n9",p,c,d,e'), 0, "5 records"),
    Row("a key that turns", lambda d: d.rows("r\u202e9,p,c,d,e"), 0, "5 records"),
    Row("a key of 50 kB", lambda d: d.rows("k" * 50_000 + ",p,c,d,e"), 0, "5 records"),
    Row(
        "a cell of 9 MB",
        lambda d: d.rows("r,p," + "x" * 9_000_000 + ",d,e"),
        3,
        "longer than",
    ),
    Row("a quote never closed", lambda d: d.rows('r,p,"c,d,e'), 3, "1 rejected"),
    Row("random bytes", lambda d: d.load(bytes(range(256)) * 99), 5, "no text"),
    Row("CSV called .xlsx", lambda d: d.load(FORMS, name="f.xlsx"), 5, "its name says"),
    Row(
        "CSV called .parquet",
        lambda d: d.load(FORMS, name="f.parquet"),
        5,
        "its name says",
    ),
    Row(
        "gzip cut short",
        lambda d: d.load(gzip.compress(FORMS.encode() * 9)[:-9], name="f.csv.gz"),
        5,
        "is broken",
    ),
    Row(
        "a gzip bomb",
        lambda d: d.load(gzip.compress(b"\n" * 40_000_000), name="f.csv.gz"),
        5,
        "times its size",
    ),
    Row(
        "gzip in gzip",
        lambda d: d.load(gzip.compress(gzip.compress(b"a")), name="f.csv.gz"),
        5,
        "gzip inside gzip",
    ),
    Row("JSON cut short", lambda d: d.load('[{"a": 1}', name="f.json"), 5, "brackets"),
    Row(
        "JSON nested without end",
        lambda d: d.load("[" * 90_000, name="f.json"),
        5,
        "cannot be read",
    ),
    Row("a line that is no JSON", lambda d: d.object("{no"), 3, "not valid JSON"),
    Row("a line that is no object", lambda d: d.object("[1, 2]"), 3, "not an object"),
    Row("NaN in JSON", lambda d: d.object(OBJECT % ("n", "NaN")), 3, "not valid JSON"),
    Row(
        "a number beyond 64 bits is kept as it is written",
        lambda d: d.object(OBJECT % ("n", "-9223372036854775809")),
        0,
        "3 records",
    ),
    Row(
        "a number of 5,000 digits",
        lambda d: d.object(OBJECT % ("n", "9" * 5000)),
        3,
        "more than 40 digits",
    ),
    Row(
        "half a surrogate pair",
        lambda d: d.object(OBJECT % ("n", '"\\ud800"')),
        3,
        "not valid JSON",
    ),
    Row(
        "a NUL that is escaped",
        lambda d: d.object(OBJECT % ("n", '"a\\u0000b"')),
        3,
        "a NUL byte",
    ),
    Row(
        "a time of no calendar",
        lambda d: d.under(BY_TIME).load(
            HEADER.strip() + ",at\nr1,p,c,d,e,2024-02-30\nr2,p,c,d,e,2024-01-01\n"
        ),
        3,
        "no such day",
    ),
    Row(
        "an empty time that a window needs",
        lambda d: d.under(BY_TIME).load(HEADER.strip() + ",at\nr1,p,c,d,e,\n"),
        3,
        "the time is empty",
    ),
    Row(
        "a time without zone",
        lambda d: d.under(BY_TIME).load(
            HEADER.strip() + ",at\nr1,p,c,d,e,2024-01-01T10:00\n"
        ),
        0,
        "1 record",
    ),
    Row("no such file", lambda d: d.run("records", "load", "nope.csv"), 5, "no file"),
    Row("a folder", lambda d: d.run("records", "load", d.dir), 5, "is a folder"),
    Row("nothing on stdin", lambda d: d.run("records", "load", "-"), 5, "is empty"),
    Row(
        "a file whose bytes cannot be read",
        lambda d: d.run("records", "load", "/proc/self/mem"),
        5,
        "cannot be read",
    ),
    Row(
        "a file name that is not UTF-8",
        lambda d: d.load(FORMS, name=os.fsdecode(b"caf\xe9.csv")),
        0,
        "4 records",
    ),
    Row(
        "a file name that would move the cursor",
        lambda d: d.load(b"", name="\x1b[2J\n.csv"),
        5,
        r"\x1b[2J\n.csv is empty",
    ),
    Row(
        "a run of a name that none can type",
        lambda d: d.load(FORMS, "--run", "a\nb"),
        2,
        "no name for a run",
    ),
    Row(
        "a run without name",
        lambda d: d.load(FORMS, "--run", ""),
        2,
        "no name for a run",
    ),
    Row(
        "a folder of pages that is not there",
        lambda d: d.load(FORMS, "--images", "nope"),
        5,
        "no folder nope",
    ),
    Row(
        "a size that is none",
        lambda d: d.load(FORMS, "--max-bytes", "0"),
        2,
        "--max-bytes is no size",
    ),
    Row(
        "rejects into a folder that is not there",
        lambda d: d.load(FORMS + "x\n", "--rejects", "nope/r.csv"),
        5,
        "cannot be written",
    ),
    Row(
        "rejects onto a full disk",
        lambda d: d.load(FORMS + "x\n", "--rejects", "/dev/full"),
        5,
        "cannot be written",
    ),
    Row(
        "rejects over the input",
        lambda d: d.load(FORMS + "x\n", "--rejects", d.dir / "forms.csv"),
        2,
        "is in use",
    ),
    Row(
        "rejects over the store",
        lambda d: d.load(FORMS + "x\n", "--rejects", d.dir / "dispatcher.db"),
        2,
        "is in use",
    ),
]

SCANS = [
    Row("a scan that is text", lambda d: scanned(d, b"no image"), 3, "is no PDF, PNG"),
    Row("a scan of no byte", lambda d: scanned(d, b""), 3, "is no PDF, PNG"),
    Row("a PDF cut short", lambda d: scanned(d, b"%PDF-1.7\n"), 3, "damaged"),
    Row(
        "a scan cut short", lambda d: scanned(d, picture(200, 100)[:60]), 3, "cut short"
    ),
    Row(
        "a scan of 100 megapixels",
        lambda d: scanned(d, picture(10_000, 10_000, "1")),
        3,
        "more than 60 megapixels",
    ),
    Row(
        "a box outside the page",
        lambda d: scanned(d, picture(), "15,0,6,5"),
        3,
        "outside of the page (20x10)",
    ),
    Row("a box of no area", lambda d: scanned(d, picture(), "0,0,0,5"), 3, "a pixel"),
    Row("a box of NaN", lambda d: scanned(d, picture(), "nan,0,1,1"), 3, "a box is x"),
    Row("a box below 0", lambda d: scanned(d, picture(), "-1,0,5,5"), 3, "a box is x"),
    Row("no box", lambda d: scanned(d, picture(), ""), 3, "no box for this field"),
    Row("no such scan", lambda d: scanned(d, b"", name="a.png"), 3, "is missing"),
    Row(
        "a scan outside of the folder",
        lambda d: scanned(d, b"", name="../a.png"),
        3,
        "leads out of",
    ),
    Row(
        "a scan that is a link out of the folder",
        lambda d: scanned(d, Path("/etc/passwd")),
        3,
        "leads out of",
    ),
    Row("a scan that is a device", lambda d: scanned(d, b"", name="."), 3, "no file"),
]

POLICIES = [
    Row("an empty policy", lambda d: d.policy(""), 5, "lacks `version`"),
    Row("a policy of random bytes", lambda d: d.policy(b"\xff\x00"), 5, "not UTF-8"),
    Row(
        "a policy nested without end", lambda d: d.policy("a=" + "[" * 9999), 5, "deep"
    ),
    Row("an unknown key", lambda d: d.policy(rule("discolsure = 1")), 5, "unknown key"),
    Row("tau = 0", lambda d: d.policy(rule("tau = 0")), 5, "tau = 0 can never be met"),
    Row("tau = nan", lambda d: d.policy(rule("tau = nan")), 5, "cannot be nan"),
    Row("tau below 0", lambda d: d.policy(rule("tau = -1")), 5, "never be met"),
    Row(
        "tau beyond all", lambda d: d.policy(rule("tau = 1e400")), 5, "cannot be 1e400"
    ),
    Row(
        "a set that no one can avoid",
        lambda d: d.policy(POLICY.replace(', "disease"]', "]")),
        5,
        "no plan can meet `both`",
    ),
    Row(
        "more answers than showings",
        lambda d: d.policy(fields("zip", '{ ask = "transcribe", answers = 9 }')),
        5,
        "wants 9 answers but t = 3",
    ),
    Row(
        "a mask of no known tag",
        lambda d: d.policy(fields("zip", '{ ask = "transcribe", redact = ["emial"] }')),
        5,
        'did you mean "email"?',
    ),
    Row(
        "a mask on a picture",
        lambda d: d.policy(
            fields("zip", '{ ask = "date", image = "scan", redact = ["date"] }')
        ),
        5,
        "only text can be masked",
    ),
    Row(
        "a capacity of 0",
        lambda d: d.policy(rule('[capacity]\n"*" = { total = 0 }')),
        5,
        "`total` cannot be 0",
    ),
    Row(
        "a field whose name would break a line",
        lambda d: d.under(fields('"a\\nb"', '{ ask = "date" }')).load(FORMS),
        5,
        r"no column `a\nb`",
    ),
    Row(
        "a field of 100 kB",
        lambda d: d.under(fields("z" * 100_000, '{ ask = "date" }')).load(FORMS),
        5,
        "no column `zzz",
    ),
    Row(
        "a field with dots, spaces and emoji",
        lambda d: d.under(fields('"a. b😀"', '{ ask = "date" }')).load(
            FORMS.replace(",zip", ",a. b😀")
        ),
        0,
        "4 records",
    ),
    Row("a policy twice", lambda d: d.policy(POLICY), 0, "in force already"),
    Row(
        "a rule that needs the subject of records loaded without",
        lambda d: (
            d.under(POLICY.replace('subject = "patient_id"\n', ""))
            .loaded()
            .policy(BY_SUBJECT)
        ),
        1,
        "lack facts",
    ),
    Row(
        "a policy that is a folder",
        lambda d: d.run("policy", "check", d.dir),
        5,
        "Is a directory",
    ),
    Row("no such policy", lambda d: d.run("policy", "test", "x"), 5, "No such file"),
    Row(
        "a version that none has",
        lambda d: d.run("policy", "show", 9),
        1,
        "no such policy version",
    ),
    Row(
        "version 2^70",
        lambda d: d.run("policy", "show", 2**70),
        2,
        "less than",
    ),
    Row(
        "a policy over one that is there, nobody to ask",
        lambda d: d.run("policy", "suggest", d.file("g.csv", FORMS)),
        2,
        "--yes",
    ),
    Row(
        "a policy into a folder that is not there",
        lambda d: d.run("policy", "suggest", d.file("g.csv", FORMS), "-o", "no/p.toml"),
        5,
        "No such file",
    ),
]

WORKERS = [
    Row(
        "a worker without connector", lambda d: d.run("workers", "add", "ann"), 2, "no"
    ),
    Row(
        "a worker without name", lambda d: d.run("workers", "add", "inhouse/"), 2, "no"
    ),
    Row(
        "a worker with a slash",
        lambda d: d.run("workers", "add", "inhouse/a/b"),
        0,
        "1 worker added",
    ),
    Row(
        "a worker of emoji",
        lambda d: d.run("workers", "add", "inhouse/😀", "inhouse/👨‍👩‍👧"),
        0,
        "2 workers added",
    ),
    Row(
        "a worker with a NUL",
        lambda d: d.run("workers", "add", "inhouse/a\0"),
        2,
        "cannot be shown",
    ),
    Row(
        "a worker whose name turns the text around",
        lambda d: d.run("workers", "add", "inhouse/a\u202eb"),
        2,
        "cannot be shown",
    ),
    Row(
        "a worker with half a character",
        lambda d: d.run("workers", "add", os.fsdecode(b"inhouse/\xff")),
        2,
        "cannot be shown",
    ),
    Row(
        "a worker of 5,000 characters",
        lambda d: d.run("workers", "add", "inhouse/" + "a" * 5000),
        2,
        "more than 200",
    ),
    Row(
        "a worker of no connector",
        lambda d: d.run("workers", "add", "nowhere/ann"),
        2,
        "no connector that is set up",
    ),
    Row(
        "one worker twice",
        lambda d: d.run("workers", "add", "inhouse/a", "inhouse/a"),
        0,
        "1 worker added",
    ),
    Row(
        "an invite for a blocked worker",
        lambda d: (
            d.with_workers("inhouse/a").run("workers", "block", "inhouse/a"),
            d.run("workers", "invite", "inhouse/a"),
        )[-1],
        1,
        "no link would let it in",
    ),
    Row(
        "a link for a blocked worker who is added again",
        lambda d: (
            d.with_workers("inhouse/a").run("workers", "block", "inhouse/a"),
            d.run("workers", "add", "inhouse/a", "--invite"),
        )[-1],
        0,
        "it gets no link",
    ),
    Row(
        "an invite for nobody",
        lambda d: d.run("workers", "invite", "inhouse/nobody"),
        1,
        "no account",
    ),
    Row(
        "an invite to no task page",
        lambda d: d.with_workers("folder/f").run("workers", "invite", "folder/f"),
        1,
        "cannot be invited",
    ),
    Row(
        "a list of workers that is empty",
        lambda d: d.run("workers", "add", "--from", d.file("w.txt", b"")),
        5,
        "the file is empty",
    ),
    Row(
        "a list of workers of random bytes",
        lambda d: d.run("workers", "add", "--from", d.file("w.txt", b"\x80\xff\x00")),
        5,
        "not UTF-8",
    ),
    Row(
        "a list of workers in one cell of 2 MB",
        lambda d: d.run(
            "workers", "add", "--from", d.file("w.txt", "inhouse/" + "x" * 2 * 10**6)
        ),
        5,
        "a cell has more than",
    ),
    Row(
        "a list of workers nested without end",
        lambda d: d.run(
            "workers",
            "add",
            "--from",
            d.file("w.txt", '{"worker": "inhouse/a"}\n{"worker":' + "[" * 99_999),
        ),
        3,
        "names no account",
    ),
]

PLANS = [
    Row("a plan for nobody", lambda d: d.loaded().run("plan"), 7, "0 adversaries"),
    Row(
        "a plan for one worker",
        lambda d: d.loaded().with_workers("inhouse/a").run("plan"),
        7,
        "Register 1 more worker",
    ),
    Row(
        "fewer workers than answers",
        lambda d: (
            d.under(fields("zip", '{ ask = "date", answers = 3 }'))
            .loaded()
            .with_workers("inhouse/a", "inhouse/b")
            .run("plan")
        ),
        7,
        "more answers than workers may see it -> 3",
    ),
    Row(
        "more answers than any world has workers",
        lambda d: (
            d.under(
                fields("zip", f'{{ ask = "date", answers = {2**63 - 1} }}').replace(
                    "t = 3", ""
                )
            )
            .loaded()
            .with_workers("inhouse/a", "inhouse/b")
            .run("plan")
        ),
        7,
        "no plan meets the policy",
    ),
    Row(
        "a capacity of 1",
        lambda d: (
            d.under(rule('[capacity]\n"*" = { total = 1 }'))
            .loaded()
            .with_workers("inhouse/a", "inhouse/b")
            .run("plan")
        ),
        7,
        "no plan meets the policy",
    ),
    Row(
        "no such plan",
        lambda d: d.run("plan", "apply", 99),
        1,
        "plan 99",
    ),
    Row("seed 2^70", lambda d: d.run("plan", "--seed", 2**70), 2, "less than"),
    Row("no time", lambda d: d.run("plan", "--time-limit", "nan"), 2, "greater"),
    Row("no algorithm", lambda d: d.run("plan", "--algorithm", "x"), 2, "no algorithm"),
    Row(
        "a plan applied twice",
        lambda d: (
            d.loaded().with_workers("inhouse/a", "inhouse/b").run("plan"),
            d.run("plan", "apply", 1),
            d.run("plan", "apply", 1),
        )[-1],
        1,
        "plan 1 is applied",
    ),
    Row(
        "a field of no record",
        lambda d: d.loaded().run("explain", "rx-9.zip", "--who"),
        1,
        "no such field",
    ),
    Row(
        "a field explained for nobody",
        lambda d: d.loaded().run("explain", "rx-1.zip", "--worker", "inhouse/x"),
        1,
        "no account",
    ),
    Row("no such code", lambda d: d.run("explain", "E999"), 1, "no code E999"),
]

OUTPUTS = [
    Row(
        "records into a folder that is not there",
        lambda d: d.loaded().run("records", "reassemble", "-o", "no/x.csv"),
        5,
        "cannot be written",
    ),
    Row(
        "records onto a full disk",
        lambda d: d.loaded().run(
            "records", "reassemble", "-o", "/dev/full", "--format", "csv"
        ),
        5,
        "/dev/full cannot be written",
    ),
    Row(
        "records over a folder",
        lambda d: d.loaded().run(
            "records", "reassemble", "-o", d.dir, "--format", "csv"
        ),
        5,
        "is a folder",
    ),
    Row(
        "records over the store",
        lambda d: d.loaded().run(
            "records", "reassemble", "-o", d.dir / "dispatcher.db", "--format", "csv"
        ),
        2,
        "is in use",
    ),
    Row(
        "records in no known form",
        lambda d: d.loaded().run("records", "reassemble", "-o", "x.xls"),
        5,
        "not as 'xls'",
    ),
    Row(
        "records of no run",
        lambda d: d.loaded().run("records", "reassemble", "-o", "x.csv", "--run", "no"),
        1,
        "no run",
    ),
    Row(
        "evidence into a folder in use",
        lambda d: d.run("audit", "export", d.dir),
        1,
        "is not empty",
    ),
    Row(
        "evidence where none can be written",
        lambda d: d.run("audit", "export", "/proc/x"),
        5,
        "/proc/x",
    ),
]

SETTINGS = [
    Row("settings cut short", lambda d: d.settings("store = "), 5, "Invalid value"),
    Row("settings of random bytes", lambda d: d.settings(b"\xff\x00"), 5, "TOML"),
    Row(
        "settings nested without end", lambda d: d.settings("a=" + "[" * 9999), 5, "TO"
    ),
    Row("a number too long", lambda d: d.settings("seed = " + "9" * 9999), 5, "TOML"),
    Row("an unknown setting", lambda d: d.settings("stor = 'x'"), 5, "stor"),
    Row("a setting of a wrong type", lambda d: d.settings("store = 5"), 5, "store"),
    Row("a seed beyond 64 bits", lambda d: d.settings(f"seed = {2**64}"), 5, "seed"),
    Row("a rhythm of NaN", lambda d: d.settings("[ticks]\nintake = nan"), 5, "intake"),
    Row(
        "a policy file with a NUL",
        lambda d: d.settings('policy = "a\\u0000b"', "policy", "check"),
        5,
        "no NUL",
    ),
    Row(
        "a spool with a NUL",
        lambda d: d.settings('[connectors.folder]\nspool = "a\\u0000b"'),
        5,
        "no NUL",
    ),
    Row(
        "an inbox that is a file",
        lambda d: d.settings('inbox = "policy.toml"', "up"),
        5,
        "the inbox",
    ),
    Row(
        "a spool that is a file",
        lambda d: d.settings('[connectors.folder]\nspool = "policy.toml"', "up"),
        5,
        "Not a directory",
    ),
    Row(
        "a connector that nobody has",
        lambda d: d.settings("[connectors.nowhere]", "up"),
        5,
        "no connector of kind",
    ),
    Row(
        "a password in the settings",
        lambda d: d.settings("store = 'postgresql://u:secretpw@h/x'"),
        2,
        "has a password",
    ),
]

STORES = [
    Row("a store that is a folder", lambda d: d.at("/tmp", "status"), 5, "not a file"),
    Row(
        "a store in no folder", lambda d: d.at("no/x.db", "status"), 10, "no directory"
    ),
    Row("no store", lambda d: d.at("x.db", "status"), 10, "no store at"),
    Row("a store with a NUL", lambda d: d.at("a\0b", "status"), 5, "no NUL"),
    Row(
        "a store with a password",
        lambda d: d.at("postgresql://u:secretpw@h/x", "status"),
        2,
        "has a password",
    ),
    Row(
        "a password among the options of a URL",
        lambda d: d.at("postgresql://h/x?password=secretpw", "status"),
        2,
        "has a password",
    ),
    Row("a store of MySQL", lambda d: d.at("mysql://h/x", "status"), 5, "a mysql URL"),
    Row(
        "a server that is dead",
        lambda d: d.at("postgresql://u@127.0.0.1:1/x", "status"),
        75,
        "cannot be reached",
    ),
    Row(
        "a store that is a CSV file",
        lambda d: d.at(str(d.file("f.csv", FORMS)), "status"),
        1,
        "no SQLite database",
    ),
    Row(
        "a store of no byte",
        lambda d: d.at(str(d.file("e.db", b"")), "records", "load", "x"),
        10,
        "no store at",
    ),
    Row(
        "a directory that is not there",
        lambda d: run(["--dir", "nope", "status"]),
        10,
        "no directory",
    ),
    Row(
        "a directory that is a file",
        lambda d: run(["--dir", str(d.dir / "policy.toml"), "status"]),
        2,
        "is a file",
    ),
    Row("init where somebody works", again, 1, "is here already"),
    Row("no such command", lambda d: d.run("frobnicate"), 2, "No such command"),
    Row("no such option", lambda d: d.run("status", "--frob"), 2, "No such option"),
]


EDGE = "p edge 2 1\ne 1 2\n"


def judged(desk: Desk, plan: str | bytes, graph: str = EDGE) -> Done:
    """Judge a plan of a graph for two adversaries."""
    files = desk.file("edge.col", graph), desk.file("plan.json", plan)
    return desk.run("judge", *files, "--adversaries", 2)


JUDGED = [
    Row("a plan cut off", lambda d: judged(d, "[[0], [1"), 5, "not JSON"),
    Row("a plan of random bytes", lambda d: judged(d, b"\xff\x00[["), 5, "not UTF-8"),
    Row("a plan of words", lambda d: judged(d, '[["Canary"], [1]]'), 5, "a string"),
    Row("a plan of no number", lambda d: judged(d, "[[NaN], [1]]"), 5, "number nan"),
    Row("a plan of three rows", lambda d: judged(d, "[[0], [1], []]"), 5, "3 rows"),
    Row("an adversary of no number", lambda d: judged(d, "[[0], [2]]"), 5, "2 is out"),
    Row("an adversary twice", lambda d: judged(d, "[[0, 0], [1]]"), 5, "twice"),
    Row("an answer without a plan", lambda d: judged(d, "{}"), 5, "is no plan"),
    Row("a plan of a cut graph", lambda d: judged(d, "[]", "p edge"), 5, "edge.col"),
]

ROWS = [
    *(*FILES, *SCANS, *POLICIES, *WORKERS, *PLANS),
    *(*OUTPUTS, *SETTINGS, *STORES, *JUDGED),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.sentence.replace(" ", "-"))
def test_bad_input_gets_a_clear_error_and_loses_nothing(desk, row):
    told_well(row.act(desk), row.status, row.words)
    still_works(desk)


ON_POSTGRES = {
    "a NUL byte in a cell",
    "a key that turns",
    "a key of 50 kB",
    "a file name that is not UTF-8",
    "a run of a name that none can type",
    "a field with dots, spaces and emoji",
    "a field of 100 kB",
    "a worker of emoji",
    "a worker with a NUL",
    "more answers than any world has workers",
    "a plan applied twice",
    "a NUL that is escaped",
}


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.sentence in ON_POSTGRES],
    ids=lambda row: row.sentence.replace(" ", "-"),
)
def test_postgresql_takes_and_refuses_the_same(postgres_desk, row):
    told_well(row.act(postgres_desk), row.status, row.words)
    still_works(postgres_desk)


def test_every_row_that_goes_to_both_databases_is_in_the_table():
    assert {row.sentence for row in ROWS} >= ON_POSTGRES
    assert len({row.sentence for row in ROWS}) == len(ROWS)


def test_a_policy_may_have_a_field_whose_name_holds_a_nul_on_neither_database(
    desk, postgres_desk
):
    for one in (desk, postgres_desk):
        done = one.policy(fields('"a\\u0000b"', '{ ask = "date" }'))
        assert done.status == 5, done.said
        told_well(done, 5, "a NUL character")
        still_works(one)


def test_a_store_of_a_newer_program_is_left_alone(desk):
    desk.loaded().edit(functools.partial(edits.set_schema, version="9999"))
    before = (desk.dir / "dispatcher.db").read_bytes()
    for words in (["status"], ["records", "load", desk.dir / "forms.csv"], ["up"]):
        told_well(desk.run(*words), 13, "newer version of the program")
    told_well(desk.run("db", "upgrade"), 13, "newer version of the program")
    assert (desk.dir / "dispatcher.db").read_bytes() == before


@pytest.fixture
def impatient(monkeypatch):
    """Wait for locks 50 ms only."""
    monkeypatch.setattr(
        "dispatcher.store.open_store", functools.partial(open_store, wait_ms=50)
    )


def test_a_store_that_is_locked_is_tried_again_and_nothing_is_lost(desk, impatient):
    with open_store(desk.dir / "dispatcher.db") as store, store.write() as tx:
        lock_policy_exclusive(tx)
        told_well(desk.load(FORMS), 11, "the store is locked")
        told_well(desk.run("status"), 0, "0 records")
    assert "4 records loaded" in desk.load(FORMS).said


@contextmanager
def nobody():
    """Act as a user who may write nothing here (root may write anywhere)."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_store_that_is_read_only_says_so(desk_template):
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own is closed to others
    try:
        shutil.copytree(desk_template, place / "desk")
        desk = Desk(place / "desk")
        desk.load(FORMS)  # imports what nobody could
        more = desk.file("good.csv", GOOD)
        for path in (place, desk.dir):
            path.chmod(0o555)
        for path in desk.dir.iterdir():
            path.chmod(0o400)
            if not os.geteuid():
                os.chown(path, 65534, -1)
        with nobody():
            done = desk.run("records", "load", more)
        told_well(done, 1, "the store is read-only")
        for path in (place, desk.dir):
            path.chmod(0o755)
        (desk.dir / "dispatcher.db").chmod(0o600)
        assert "4 records" in desk.run("records", "load", more).said
    finally:
        place.chmod(0o755)
        shutil.rmtree(place)


@pytest.mark.parametrize(
    "store", ["no/x.db", "/tmp", "postgresql://u:secretpw@h/x", "/dev/null"]
)
def test_init_with_a_store_that_can_not_be_leaves_nothing_behind(tmp_path, store):
    place = tmp_path / "new"
    done = run(["--dir", str(place), "--store", store, "init"])
    assert done.status in (2, 5, 10)
    assert "secretpw" not in done.said
    assert list(place.iterdir()) == []
    assert run(["--dir", str(place), "init"]).status == 0


def test_a_policy_that_paints_over_more_of_loaded_crops_is_refused(desk):
    told_well(scanned(desk, picture()), 0, "1 record")
    seal = "[entity.form.layout]\nseal = { page = %d, box = [0, 0, 0.5, 0.5], redact = true }\n"
    told_well(desk.policy(PICTURES + seal % 1), 1, "masks more in field zip")
    assert desk.policy(PICTURES + seal % 2).status == 0


def test_a_policy_that_shows_text_where_a_crop_is_loaded_is_refused(desk):
    told_well(scanned(desk, picture()), 0, "1 record")
    told_well(desk.policy(POLICY), 1, "shows another part of the record for field zip")
    masked = PICTURES.replace(
        'disease = { ask = "transcribe"', 'disease = { ask = "date", redact = ["date"]'
    )
    assert desk.policy(masked).status == 1
    desk.with_workers("inhouse/a", "inhouse/b")
    told_well(desk.run("plan"), 0, "planned      3 showings")


def test_a_plan_of_before_its_digest_was_kept_is_shown(desk):
    desk.loaded().with_workers("inhouse/a", "inhouse/b").run("plan")
    told_well(desk.run("plan", "show"), 0, "sha256")
    desk.edit(edits.forget_digests)
    done = desk.run("plan", "show")
    told_well(done, 0, "planned      12 showings")
    assert "sha256" not in done.out


def test_dots_in_a_key_are_no_trouble_to_explain(desk):
    desk.with_workers("inhouse/a").rows("rx.1.zip,p,c,d,e", '"r\n9",p,c,d,e')
    for name in ("rx.1.zip.zip", "rx.1.zip.disease", "r\n9.zip"):
        told_well(desk.run("explain", name, "--who"), 0, "inhouse/a")
    told_well(desk.run("explain", "rx.1.zip", "--who"), 2, "none of its fields")


def test_before_a_policy_nothing_is_loaded_planned_or_put_together(
    tmp_path, sqlite_path
):
    desk = Desk(tmp_path)
    for words in (["plan"], ["workers", "groups"]):
        told_well(desk.run(*words), 1, "no policy is in force")
    told_well(desk.load(FORMS), 1, "no policy is in force")
    told_well(desk.run("records", "reassemble", "-o", "x.csv"), 1, "no run")
    assert not (tmp_path / "x.csv").exists()


def test_a_subject_with_2_000_records_loads_and_is_planned(desk):
    rows = "".join(f"r{i},one,Canary,Leprosy,{i}\n" for i in range(2000))
    desk.under(BY_SUBJECT).with_workers("inhouse/a", "inhouse/b")
    told_well(desk.load(HEADER + rows), 0, "2,000 records")
    told_well(desk.run("plan"), 0, "2,000 records")


def test_ctrl_c_in_a_load_keeps_what_is_in_and_the_next_load_brings_the_rest(
    desk, monkeypatch
):
    def interrupted(_progress: object, _state: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dispatcher.surfaces.cli.records.LoadBar.show", interrupted)
        done = desk.load(FORMS)
    assert done.status == 130
    assert "interrupted" in done.err
    assert "4 skipped" in desk.load(FORMS).said
    still_works(desk)


def test_closed_streams_trip_no_command(desk, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["--dir", str(desk.dir), "records", "load", "-"]) == 5
    for name in ("stdin", "stdout", "stderr"):
        getattr(sys, name).close()
    monkeypatch.undo()


def test_a_device_is_written_to_and_not_replaced(desk):
    os.mkfifo(desk.dir / "pipe")
    reader = os.open(desk.dir / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = desk.loaded().run(
        "records", "reassemble", "-o", desk.dir / "pipe", "--format", "jsonl"
    )
    assert done.status == 0, done.err
    assert os.read(reader, 10**6).count(b"\n") == 4
    os.close(reader)
    assert stat.S_ISFIFO((desk.dir / "pipe").stat().st_mode)
