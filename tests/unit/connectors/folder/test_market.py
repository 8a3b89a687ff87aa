"""The folder: what lies on the disk, what a worker may drop, what a crash leaves."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import (
    Form,
    Item,
    Misconfigured,
    Offer,
    Outcome,
    Rejected,
    Settings,
    TryLater,
)
from connectors.folder import CONNECTOR, Folder
from connectors.folder.files import locked
from connectors.folder.names import account_of, batch_of, directory_of, key_of
from connectors.folder.sheets import read_rows
from connectors.formats.formula_guard import guard, unguard

FORM = Form("transcribe", question="What does it say?", help="=cmd")


def offer(key="1", account="ann", content=b"text", media="text/plain", token="t1"):
    return Offer(key, account=account, items=(Item(token, FORM, content, media),))


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "spool", settle=0)


@pytest.fixture
def batch(folder, tmp_path):
    return tmp_path / "spool" / folder.publish(offer()).reference


def values(folder, cursor=""):
    return {a.token: a.value for a in folder.collect(cursor).answers}


# -- names ---------------------------------------------------------------------------


@given(st.text(min_size=1))
def test_a_directory_name_is_plain_and_gives_the_account_back(account):
    name = directory_of(account)
    assert set(name) <= set("%_-") | set(map(chr, (*range(48, 58), *range(65, 91),
                                                   *range(97, 123))))  # fmt: skip
    assert account_of(name) == account


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_two_accounts_never_share_a_directory(accounts):
    assert len({directory_of(account) for account in accounts}) == 2


@given(st.text(min_size=1, max_size=200))
def test_a_batch_name_is_plain_and_gives_a_short_key_back(key):
    name = batch_of(key)
    assert len(name) <= 46
    assert key_of(name) == (key if len(directory_of(key)) <= 40 else "")
    assert not {"/", "~"} & set(name)


@pytest.mark.parametrize("name", ["", "answers.csv", "batch-.0123", "x-batch-1"])
def test_what_is_no_batch_of_a_readable_key_has_none(name):
    assert key_of(name) == ""


def test_a_name_can_not_leave_the_spool_or_hide():
    assert directory_of("../x") == "%2E%2E%2Fx"
    assert directory_of(".") == "%2E"
    assert directory_of("w1") == "w1"


@given(st.text())
def test_the_formula_guard_is_undone_exactly(cell):
    assert unguard(guard(cell)) == cell
    assert guard(cell)[:1] not in tuple("=+-@\t\r\0")


# -- out -----------------------------------------------------------------------------


def test_all_is_private_even_under_a_wide_umask(tmp_path):
    before = os.umask(0)
    try:
        folder = Folder(tmp_path / "spool", settle=0)
        folder.publish(offer(content=b"\x89PNG", media="image/png"))
        folder.collect("")
    finally:
        os.umask(before)
    for path in (tmp_path / "spool").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def test_a_crop_lies_under_the_opaque_token_beside_the_list(folder, tmp_path):
    handle = folder.publish(offer(content=b"\x89PNG", media="image/png"))
    batch = tmp_path / "spool" / handle.reference
    assert (batch / "content" / "t1.png").read_bytes() == b"\x89PNG"
    [row] = csv.DictReader(io.StringIO((batch / "tasks.csv").read_text("utf-8-sig")))
    assert row["file"] == "content/t1.png"
    assert row["text"] == ""
    assert row["question"] == "What does it say?"


def test_the_list_opens_in_a_spreadsheet_without_running_anything(folder, tmp_path):
    handle = folder.publish(offer(content=b"=1+1"))
    raw = (tmp_path / "spool" / handle.reference / "tasks.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    [row] = csv.DictReader(io.StringIO(raw.decode("utf-8-sig")))
    assert (row["text"], row["help"]) == ("'=1+1", "'=cmd")


def test_json_lines_hold_the_text_as_it_is(tmp_path):
    folder = Folder(tmp_path / "spool", form="jsonl", settle=0)
    handle = folder.publish(offer(content="=1+1 🦊".encode()))
    text = (tmp_path / "spool" / handle.reference / "tasks.jsonl").read_text()
    assert json.loads(text)["text"] == "=1+1 🦊"


def test_a_text_too_long_for_a_cell_becomes_a_file(folder, tmp_path):
    handle = folder.publish(offer(content=b"x" * 40_000))
    batch = tmp_path / "spool" / handle.reference
    assert (batch / "content" / "t1.txt").stat().st_size == 40_000


def test_text_that_is_no_utf8_is_rejected_and_leaves_nothing(folder, tmp_path):
    with pytest.raises(Rejected, match="not UTF-8"):
        folder.publish(offer(content=b"\xff\xfe\xff"))
    assert not list((tmp_path / "spool").glob("ann/*"))


def test_a_write_that_fails_half_way_leaves_no_directory(folder, tmp_path):
    full = OSError(errno.ENOSPC, "full")
    with (
        mock.patch("connectors.folder.market.write_file", side_effect=full),
        pytest.raises(TryLater) as caught,
    ):
        folder.publish(offer())
    assert caught.value.after > 0
    assert not list((tmp_path / "spool").rglob("batch-*"))
    folder.publish(offer())


def test_what_a_kill_left_half_written_is_swept_away(folder, tmp_path):
    left = tmp_path / "spool" / ".incoming" / f"{batch_of('1')}.killed"
    left.mkdir()
    (left / "tasks.csv").write_text("half")
    folder.publish(offer())
    assert not left.exists()


def test_two_crashes_at_one_batch_leave_nothing_half_written(tmp_path):
    """The first before the rename, the second between the rename and the sweeping."""
    folder = Folder(tmp_path / "spool", settle=0)
    incoming = tmp_path / "spool" / ".incoming"
    folder.publish(offer("1"))
    left, other = (incoming / f"{batch_of(key)}.killed" for key in ("1", "2"))
    for place in (left, other):
        place.mkdir()
        (place / "content").write_text("half")
    assert folder.find("1") is not None
    assert not left.exists()
    assert other.exists(), "another batch may be in the making"


def test_a_key_stays_known_when_the_worker_deleted_the_batch(folder, batch):
    for path in sorted(batch.rglob("*"), reverse=True):
        path.unlink()
    batch.rmdir()
    assert folder.find("1") is not None
    folder.publish(offer())
    assert not batch.exists()


def test_withdrawal_follows_no_link(folder, batch, tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("kept")
    for path in batch.iterdir():
        path.unlink()
    batch.rmdir()
    batch.symlink_to(outside)
    folder.withdraw(folder.find("1"))
    assert (outside / "file").read_text() == "kept"


def test_answers_in_a_withdrawn_batch_are_still_collected(folder, batch):
    (batch / "answers.csv").write_text("task,answer\nt1,late\n")
    folder.withdraw(folder.find("1"))
    assert not batch.exists()
    assert values(folder) == {"t1": "late"}


def test_an_account_too_long_for_a_name_is_rejected(folder):
    with pytest.raises(Rejected, match="characters as a directory name"):
        folder.publish(offer(account="🦊" * 20))


def test_a_spool_that_can_not_be_made_is_misconfigured(tmp_path):
    with pytest.raises(Misconfigured, match="spool"):
        Folder(tmp_path / "no" / "such" / "place")
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured):
        Folder(tmp_path / "file")


@pytest.mark.parametrize(
    ("values_", "match"),
    [
        ({}, "needs the setting spool"),
        ({"spool": "s", "format": "xml"}, "expected csv or jsonl"),
        ({"spool": "s", "settle_seconds": "soon"}, "number from 0"),
        ({"spool": "s", "settle_seconds": "nan"}, "number from 0"),
        ({"spool": "s", "colour": "red"}, "does not know"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, values_, match):
    with pytest.raises(Misconfigured, match=match):
        CONNECTOR.open(Settings(values_, directory=tmp_path))


def test_the_spool_is_relative_to_the_settings(tmp_path):
    CONNECTOR.open(Settings({"spool": "here"}, directory=tmp_path))
    assert (tmp_path / "here").is_dir()


# -- back ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"task,answer\nt1,Anna\n",
        b"\xef\xbb\xbftask,answer\r\nt1,Anna\r\n",
        b"task;answer\r\nt1;Anna\r\n",
        b"sep=;\r\ntask;answer\r\nt1;Anna\r\n",
        b"task\tanswer\nt1\tAnna\n",
        b"task|answer\nt1|Anna\n",
        b"task;answer;note, with, commas, more\nt1;Anna;a, b, c, d\n",
        "task,answer\nt1,Anna\n".encode("utf-16"),
        b' "Task" ,other,ANSWER\nt1,x,"Anna"\n'.replace(b' "Task" ', b"Task"),
        b"\n\ntask,answer\n\nt1,Anna\n\n",
        b"task,answer,state\nt1,Anna,answered\n",
    ],
)
def test_whatever_a_spreadsheet_saves_is_read(folder, batch, content):
    (batch / "answers.csv").write_bytes(content)
    assert values(folder) == {"t1": "Anna"}


def test_states_say_what_was_not_answered():
    rows = read_rows(
        b"task,answer,state\na,,illegible\nb,,Not present\nc,,returned\nd,,\n", "a.csv"
    )
    assert [row.outcome for row in rows] == [
        Outcome.ILLEGIBLE,
        Outcome.NOT_PRESENT,
        Outcome.RETURNED,
        None,
    ]
    assert not any(row.error for row in rows)


@pytest.mark.parametrize(
    ("content", "line", "error"),
    [
        (b"", 1, "empty"),
        (b"\n \n", 1, "empty"),
        (b"a,b\n1,2\n", 1, 'columns "task"'),
        (b"task,answer,answer\n", 1, "appears twice"),
        (b"task,answer,state\nt1\n", 2, "1 cells"),
        (b"task,answer\nt1,Anna,Lee\n", 2, "3 cells"),
        (b"task,answer\n,Anna\n", 2, "names no task"),
        (b'task,answer\nt0,x\nt1,"An"na\n', 3, "not CSV"),
        (b'task,answer\nt1,"Anna\n', 2, "not CSV"),
        (b"task,answer,state\nt1,,gone\n", 2, "unknown state"),
        (b"task,answer,state\nt1,x,illegible\n", 2, "keep one of the two"),
        (b"task,answer,state\nt1,,answered\n", 2, "there is no answer"),
        (b"task,answer\nt1," + b"x" * 100_001 + b"\n", 2, "longer than"),
        # csv's own limit is the process's: other readers may have raised it
        (b"task,answer\nt1," + b"x" * 200_000 + b"\n", 2, "long"),
        ("task,answer\nt1,\u00e4\n".encode("latin-1"), 1, "UTF-8"),
    ],
)
def test_what_is_no_row_gets_a_reason_and_its_line(content, line, error):
    [row] = [row for row in read_rows(content, "answers.csv") if row.error]
    assert row.line == line
    assert error in row.error


def test_a_bad_row_costs_only_itself():
    rows = read_rows(b'task,answer\na,1\nb,"2"x\nc,3\n', "answers.csv")
    assert [row.value for row in rows if row.outcome] == ["1", "3"]


def test_an_answer_over_two_lines_keeps_its_line_break():
    rows = read_rows(b'task,answer\na,"one\ntwo"\nb,x\n', "answers.csv")
    assert [(row.line, row.value) for row in rows] == [(2, "one\ntwo"), (4, "x")]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"task": "t1"}', '"task" and "answer"'),
        ('{"task": "t1", "anwser": "Anna"}', '"task" and "answer"'),
        ('{"answer": "Anna"}', '"task" and "answer"'),
        ('{"task": "t1", "answer": "Anna", "answer": "Lee"}', "appears twice"),
        ('{"task": "t1", "answer": "Anna", "Answer": "Lee"}', "appears twice"),
        ('{"task": "", "answer": "Anna"}', "names no task"),
    ],
)
def test_an_object_without_what_a_csv_header_needs_is_no_open_row(line, error):
    [row] = read_rows(line.encode(), "answers.jsonl")
    assert error in row.error


def test_the_names_of_an_object_are_read_as_those_of_a_header():
    [row] = read_rows(b'{" Task": "t1", "ANSWER": "Anna"}', "answers.jsonl")
    assert (row.token, row.outcome, row.value) == ("t1", Outcome.ANSWERED, "Anna")


def test_the_list_of_tasks_sent_back_untouched_leaves_them_open(tmp_path):
    folder = Folder(tmp_path / "spool", form="jsonl", settle=0)
    batch = tmp_path / "spool" / folder.publish(offer()).reference
    rows = read_rows((batch / "tasks.jsonl").read_bytes(), "answers.jsonl")
    assert [(row.token, row.outcome, row.error) for row in rows] == [("t1", None, "")]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('"x"', "x"),
        ("5", "5"),
        ("12.50", "12.50"),
        ("true", "true"),
        ("[[0, 5]]", "[[0, 5]]"),
        ('{"a": "é"}', '{"a": "é"}'),
    ],
)
def test_json_answers_keep_what_was_written(answer, value):
    line = f'{{"task": "t", "answer": {answer}}}'.encode()
    [row] = read_rows(line, "answers.jsonl")
    assert (row.outcome, row.value) == (Outcome.ANSWERED, value)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[1]",
        b'{"task": 5, "answer": "x"}',
        b'{"task": "t", "answer": NaN}',
        b'{"task": "t", "answer": ' + b"[" * 50_000 + b"}",
        b'{"task": "t", "answer": ' + b"9" * 5_000 + b"}",
        b'{"task": "t", "answer": ' + b"[" * 600 + b"]" * 600 + b"}",
    ],
)
def test_a_line_that_is_no_answer_is_an_error_and_not_a_crash(line):
    rows = read_rows(line + b'\n{"task": "u", "answer": "x"}\n', "answers.jsonl")
    assert rows[0].error
    assert rows[1].value == "x"


def test_the_report_tells_row_by_row_and_repeats_no_answer(folder, batch):
    (batch / "answers.csv").write_text("task,answer\nt1,sekret\n,sekret\nt3,\n")
    folder.collect("")
    [report] = batch.glob("report-*.csv")
    text = report.read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["result"] for row in rows] == ["read", "error", "open"]
    assert rows[1]["reason"] == "the row names no task"
    assert "sekret" not in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (b"answers.jsonl", b'{"task": "\\ud83d", "answer": "x"}\n'),
        (b"answers-\xff.csv", b"task,answer\nt2,x\n"),
        (b"answers.xlsx", b"PK\x03\x04"),
        (b"answers.json", b'[{"task": "t1", "answer": "x"}]'),
    ],
)
def test_a_file_of_one_worker_keeps_nobody_elses_answers_back(
    folder, batch, name, content
):
    """A name that is no text ended the collection of all; a workbook got no report."""
    (Path(os.fsdecode(os.fsencode(batch) + b"/" + name))).write_bytes(content)
    (batch / "answers2.csv").write_text("task,answer\nt1,Anna\n")
    assert values(folder)["t1"] == "Anna"
    assert len(list(batch.glob("report-*.csv"))) == 2


def test_a_file_still_being_written_is_left_alone(tmp_path):
    folder = Folder(tmp_path / "spool", settle=600)
    batch = tmp_path / "spool" / folder.publish(offer()).reference
    path = batch / "answers.csv"
    path.write_text("task,answer\nt1,Anna\n")
    assert not folder.collect("").answers
    assert path.exists()
    os.utime(path, (path.stat().st_mtime - 601,) * 2)
    assert values(folder) == {"t1": "Anna"}


def test_files_are_found_in_the_workers_directory_too(folder, batch):
    (batch.parent / "answers-monday.CSV").write_text("task,answer\nt1,Anna\n")
    assert values(folder) == {"t1": "Anna"}


def test_links_pipes_and_other_names_are_not_read(folder, batch, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("task,answer\nt1,stolen\n")
    (batch / "answers-link.csv").symlink_to(secret)
    os.mkfifo(batch / "answers-pipe.csv")
    (batch / "answers.exe").write_text("task,answer\nt1,x\n")
    (batch / "notes.csv").write_text("task,answer\nt1,x\n")
    assert values(folder) == {}


def test_a_kill_after_any_step_loses_and_doubles_no_answer(tmp_path):
    """Die at every rename, write and sync in turn; then collect in peace."""

    class Killed(BaseException):
        pass

    for step in range(1, 8):
        spool = tmp_path / str(step)
        folder = Folder(spool, settle=0)
        batch = spool / folder.publish(offer()).reference
        (batch / "answers.csv").write_text("task,answer\nt1,Anna\n")
        left = step

        def dying(real):
            def call(*args, **kwargs):
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return real(*args, **kwargs)

            return call

        module = "connectors.folder.market"
        with (
            mock.patch.object(Path, "rename", dying(Path.rename)),
            mock.patch(f"{module}.sync_directory", dying(lambda path: None)),
            suppress(Killed),
        ):
            folder.collect("")
        found = Folder(spool, settle=0).collect("")
        assert [(a.id, a.value) for a in found.answers] == [("1-2", "Anna")]
        assert not Folder(spool, settle=0).collect(found.cursor).answers


def test_a_cursor_that_ran_ahead_of_the_spool_loses_no_later_answer(folder, batch):
    (batch / "answers.csv").write_text("task,answer\nt1,Anna\n")
    found = folder.collect("41")  # the spool was emptied by hand since
    assert found.cursor == "42"
    assert values(folder, "41") == {"t1": "Anna"}


def test_a_cursor_of_another_connector_is_refused(folder):
    with pytest.raises(Rejected, match="cursor"):
        folder.collect("²")


def test_two_that_take_files_at_once_never_give_two_one_number(tmp_path, monkeypatch):
    monkeypatch.setattr("connectors.folder.files._TRIES", 10_000)  # on a busy machine
    spool = tmp_path / "spool"
    folders = [Folder(spool, settle=0) for _ in range(2)]
    for account in "abcdefgh":
        folders[0].publish(offer(account, account, token=f"t{account}"))
    stop = threading.Event()
    found = [[], []]

    def collect(which):
        cursor = ""
        while True:
            last = stop.is_set()
            told = folders[which].collect(cursor)
            cursor = told.cursor
            found[which] += [answer.token for answer in told.answers]
            if last:
                return
            time.sleep(0.1)  # as a daemon does, between two looks

    threads = [threading.Thread(target=collect, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(12):
        for account in "abcdefgh":
            home = spool / account
            (home / ".new").write_text(f"task,answer\nt{account},said {turn}\n")
            (home / ".new").rename(home / f"answers-{turn}.csv")
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    numbers = [path.name.split("~")[0] for path in (spool / ".taken").iterdir()]
    assert len(numbers) == len(set(numbers)) == 96
    assert [len(one) for one in found] == [96, 96]  # each has all, whoever took it


def test_one_that_is_frozen_while_it_collects_holds_up_nobody_for_good(
    folder, batch, tmp_path, monkeypatch
):
    monkeypatch.setattr("connectors.folder.files._PAUSE", 0.001)
    (batch / "answers.csv").write_text("task,answer\nt1,seven\n")
    with locked(tmp_path / "spool" / ".incoming" / "collecting"):
        assert values(folder) == {"t1": "seven"}
