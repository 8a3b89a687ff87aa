"""Loading into a store: exactly once, chunk by chunk, on both databases."""

import csv
import io
import json
import os
import stat
import threading

import pytest
from PIL import Image

from dispatcher.core.errors import Conflict, Invalid, StaleLease
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.versions import apply_policy
from dispatcher.stages.intake.inbox import Inbox
from dispatcher.stages.intake.loading import CHANGED, COUNTS_ON, DOUBLED, load
from dispatcher.stages.intake.table import Options
from dispatcher.store import lease
from tests import builders, sql

POLICY = b"""
version = 1
name = "forms"
[entity.form]
key = "rx_id"
subject = "patient_id"
time = "day"
[entity.form.fields]
name = { ask = "transcribe", answers = 2 }
zip = { ask = "transcribe" }
note = { ask = "spans", redact = ["email", "phone"] }
internal = { send = false }
[property.name-note]
scope = "subject"
of = ["name", "note"]
"""

HEADER = "rx_id,patient_id,day,name,zip,note,internal,extra\n"
FORMS = HEADER + (
    "rx-1,p1,2026-01-02,Ann Lee,00501,write to ann@x.org,i1,kept\n"
    "rx-2,p1,2026-01-03T10:00:00+01:00,Ann Lee,,flu,,kept\n"
    "rx-3,p2,,Bob Ray,10001, ,i3,kept\n"
)


@pytest.fixture
def ready(store, clock):
    """A store with the policy in force."""
    with store.write() as tx:
        apply_policy(tx, POLICY, at=clock())
    return store


def loaded(store, data, clock, **options):
    data = data if isinstance(data, bytes) else data.encode()
    options.setdefault("name", "forms.csv")
    return load(store, io.BytesIO(data), clock=clock, **options)


def counts(result):
    c = result.counts
    return c.records, c.entries, c.skipped, c.rejected


def query(store, statement, *parameters):
    with store.read() as tx:
        return sql.rows(tx, statement, parameters)


def number_of(store, table):
    return query(store, f"SELECT count(*) FROM {table}")[0][0]


def rejected(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_row_becomes_a_record_whole_and_an_entry_for_each_value(ready, clock):
    result = loaded(ready, FORMS, clock)
    assert counts(result) == (3, 9, 0, 0)
    columns, records = query(ready, "SELECT columns, records FROM load")[0]
    assert json.loads(columns) == HEADER.strip().split(",")
    assert records == 3
    first = query(ready, "SELECT key, columns FROM record ORDER BY id")[0]
    assert bytes(first[0]) == b"rx-1"
    assert json.loads(bytes(first[1])) == [
        "rx-1", "p1", "2026-01-02", "Ann Lee", "00501", "write to ann@x.org", "i1",
        "kept",
    ]  # fmt: skip
    entries = query(
        ready,
        "SELECT e.record_id, f.name, e.shown, e.media FROM entry e"
        " JOIN field f ON f.id = e.field_id ORDER BY e.id",
    )
    start = entries[0][0]
    assert [(r - start, name, bytes(shown)) for r, name, shown, _ in entries] == [
        (0, "name", b"Ann Lee"),
        (0, "zip", b"00501"),
        (0, "note", b"write to [email]"),
        (0, "internal", b"i1"),
        (1, "name", b"Ann Lee"),
        (1, "note", b"flu"),
        (2, "name", b"Bob Ray"),
        (2, "zip", b"10001"),
        (2, "internal", b"i3"),
    ]
    assert {media for *_, media in entries} == {"text/plain"}


def test_people_and_moments_are_facts_of_the_entries(ready, clock):
    loaded(ready, FORMS, clock)
    rows = query(
        ready,
        "SELECT DISTINCT r.id, s.value, e.time FROM entry e"
        " JOIN record r ON r.id = e.record_id JOIN subject s ON s.id = e.subject_id"
        " WHERE r.subject_id = e.subject_id ORDER BY r.id",
    )
    day = 86_400_000_000
    assert [(bytes(value), time) for _, value, time in rows] == [
        (b"p1", 20_455 * day),
        (b"p1", 20_456 * day + 9 * 3_600_000_000),
        (b"p2", None),
    ]


def test_the_ledger_knows_every_entry_and_no_value(ready, clock):
    loaded(ready, FORMS, clock)
    lines = b"".join(
        bytes(row[0]) for row in query(ready, "SELECT keys FROM key_lines")
    )
    known = [json.loads(line) for line in lines.splitlines()]
    assert len(known) == 9
    assert {line["field"] for line in known} == {"name", "zip", "note", "internal"}
    assert len({line["record"] for line in known}) == 3
    assert len({line["subject"] for line in known if "subject" in line}) == 2
    for value in (b"Ann", b"00501", b"rx-1", b"p1", b"flu"):
        assert value not in lines


def test_the_same_file_twice_changes_nothing(ready, clock):
    loaded(ready, FORMS, clock)
    tables = ("record", "entry", "subject", "load", "run", "key_lines")
    before = [number_of(ready, table) for table in tables]
    result = loaded(ready, FORMS, clock)
    assert counts(result) == (0, 0, 3, 0)
    assert [number_of(ready, table) for table in tables] == before
    assert query(ready, "SELECT records, state FROM load") == [(3, "done")]


def test_the_same_records_in_another_order_and_format_are_the_same(ready, clock):
    loaded(ready, FORMS, clock)
    reader = csv.DictReader(io.StringIO(FORMS))
    lines = [
        json.dumps({k: v for k, v in reversed(row.items()) if v}) for row in reader
    ]
    result = loaded(ready, "\n".join(reversed(lines)), clock, name="forms.jsonl")
    assert counts(result) == (0, 0, 3, 0)


def test_a_load_that_is_killed_is_ended_by_loading_again(ready, clock):
    text = HEADER + "".join(f"k{i},p{i % 7},,n{i},z,,,\n" for i in range(100))

    def stop(progress):
        if progress.records >= 40:
            raise KeyboardInterrupt

    options = Options(batch_rows=20)
    with pytest.raises(KeyboardInterrupt):
        loaded(ready, text, clock, options=options, progress=stop)
    assert number_of(ready, "record") == 40
    assert query(ready, "SELECT state FROM load") == [("loading",)]
    result = loaded(ready, text, clock, options=options)
    assert counts(result) == (60, 120, 40, 0)
    assert query(ready, "SELECT records, state FROM load") == [(100, "done")]
    assert number_of(ready, "entry") == 200


def test_a_key_that_stands_twice_is_refused_wherever_it_stands(ready, clock, tmp_path):
    rows = [f"k{i},p,,n{i},,,,\n" for i in range(6)]
    rows[1] = "k0,p,,other,,,,\n"  # the same batch
    rows[5] = "k2,p,,n2,,,,\n"  # a later batch, the very same cells
    path = tmp_path / "forms.rejected.csv"
    result = loaded(
        ready,
        HEADER + "".join(rows),
        clock,
        options=Options(batch_rows=2),
        rejects=path,
    )
    assert counts(result) == (4, 4, 0, 2)
    assert rejected(path) == [
        ["line", "column", "reason"],
        ["3", "rx_id", DOUBLED],
        ["7", "rx_id", DOUBLED],
    ]
    assert result.rejects == path


def test_a_key_with_other_cells_is_refused_and_the_record_stays(ready, clock, tmp_path):
    loaded(ready, FORMS, clock)
    path = tmp_path / "r.csv"
    other = FORMS.replace("Bob Ray", "Bob Roy")
    assert counts(loaded(ready, other, clock, rejects=path)) == (0, 0, 2, 1)
    seen = COUNTS_ON.format(subject="patient_id")
    assert rejected(path)[1:] == [
        ["4", "rx_id", CHANGED.format(columns="name", seen=seen)]
    ]
    cells = query(ready, "SELECT columns FROM record ORDER BY id")[2][0]
    assert b"Bob Ray" in bytes(cells)


def test_safety_33_bad_rows_are_listed_by_line_for_their_owner_only(
    ready, clock, tmp_path
):
    text = HEADER + (
        "k1,p,,ok,,,,\n"
        ",p,,no key,,,,\n"
        "k3,,,no subject,,,,\n"
        "k4,p,31.02.2026,bad time,,,,\n"
        "k5,p\n"
        "k6,p,,nul\0here,,,,\n"
        "k7,p,,ok,,,,\n"
    )
    path = tmp_path / "forms.rejected.csv"
    old = os.umask(0)
    try:
        result = loaded(ready, text, clock, rejects=path)
    finally:
        os.umask(old)
    assert counts(result) == (2, 2, 0, 5)
    found = rejected(path)[1:]
    assert [(line, column) for line, column, _ in found] == [
        ("3", "rx_id"),
        ("4", "patient_id"),
        ("5", "day"),
        ("6", ""),
        ("7", "name"),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert not any(value in text for value in ("31.02", "no key", "nul", "k4"))
    assert query(ready, "SELECT rejected FROM load") == [(5,)]


def test_an_old_rejects_file_is_made_private_and_replaced(ready, clock, tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("old\n" * 100)
    path.chmod(0o644)
    loaded(ready, HEADER + "k,p\nx,p,,n,,,,\n", clock, rejects=path)
    assert len(rejected(path)) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_rejects_no_file_is_made(ready, clock, tmp_path):
    path = tmp_path / "r.csv"
    result = loaded(ready, FORMS, clock, rejects=path)
    assert (result.rejects, path.exists()) == (None, False)


def test_a_file_with_a_header_and_no_row_is_refused(ready, clock):
    with pytest.raises(Invalid, match="a header and no row"):
        loaded(ready, HEADER, clock)


def test_a_file_that_lacks_a_column_of_the_policy_is_refused(ready, clock):
    with pytest.raises(Invalid, match="no column `zip`") as caught:
        loaded(ready, FORMS.replace(",zip,", ",zipp,"), clock)
    assert "did you mean its column `zipp`" in caught.value.why
    assert number_of(ready, "load") == 0


def test_nothing_is_loaded_without_a_policy(store, clock):
    with pytest.raises(Conflict, match="no policy is in force"):
        loaded(store, FORMS, clock)


def test_records_go_to_the_run_that_is_named(ready, clock):
    loaded(ready, FORMS, clock)
    loaded(ready, HEADER + "x,p,,n,,,,\n", clock, run="second")
    rows = query(
        ready,
        "SELECT u.name, count(*) FROM record r JOIN run u ON u.id = r.run_id"
        " GROUP BY u.name ORDER BY u.name",
    )
    assert rows == [("default", 3), ("second", 1)]


def test_the_run_of_lost_records_takes_no_others(ready, clock):
    builders.add_run(ready, "old", "lost")
    with pytest.raises(Conflict, match="takes no records"):
        loaded(ready, FORMS, clock, run="old")


def test_a_policy_that_comes_in_between_stops_the_load(ready, clock):
    text = HEADER + "".join(f"k{i},p,,n,,,,\n" for i in range(10))
    other = POLICY.replace(b"forms", b"others")

    def apply(progress):
        if progress.records == 4:
            with ready.write() as tx:
                apply_policy(tx, other, at=clock())

    with pytest.raises(Conflict, match="another policy"):
        loaded(ready, text, clock, options=Options(batch_rows=4), progress=apply)
    assert number_of(ready, "record") == 4
    assert counts(loaded(ready, text, clock)) == (6, 6, 4, 0)


def test_two_loads_of_one_file_side_by_side_bring_each_record_once(ready, clock):
    text = HEADER + "".join(f"k{i},p{i % 9},,n{i},,,,\n" for i in range(300))
    results, errors = [], []

    def run():
        try:
            results.append(loaded(ready, text, clock, options=Options(batch_rows=10)))
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert number_of(ready, "record") == number_of(ready, "entry") == 300
    assert number_of(ready, "subject") == 9
    assert sum(r.counts.records for r in results) == 300
    assert sum(r.counts.skipped for r in results) == 300
    assert sum(r.counts.rejected for r in results) == 0


def test_members_that_come_late_are_kept(ready, clock):
    base = {"rx_id": "", "patient_id": "p", "day": "", "name": "n", "zip": "",
            "note": "", "internal": ""}  # fmt: skip
    rows = [{**base, "rx_id": f"k{i}"} for i in range(4)]
    rows.append({**base, "rx_id": "k4", "late": "x"})
    text = "\n".join(map(json.dumps, rows))
    for expected in ((5, 5, 0, 0), (0, 0, 5, 0)):
        result = loaded(
            ready, text, clock, name="a.jsonl", options=Options(batch_rows=2)
        )
        assert counts(result) == expected
    columns = json.loads(query(ready, "SELECT columns FROM load")[0][0])
    assert columns == [*base, "late"]
    last = query(ready, "SELECT columns FROM record ORDER BY id DESC")[0][0]
    assert json.loads(bytes(last))[-1] == "x"


SCANS = b"""
version = 1
name = "scans"
[entity.scan]
key = "id"
[entity.scan.fields]
name = { ask = "transcribe", image = "page#top" }
total = { ask = "number", image = "page#own" }
whole = { ask = "yes_no", image = "back" }
[entity.scan.layout]
top = { page = 1, box = [0, 0, 1, 0.5] }
[property.both]
of = ["name", "total"]
"""


@pytest.fixture
def scans(store, clock, tmp_path):
    with store.write() as tx:
        apply_policy(tx, SCANS, at=clock())
    page = Image.new("RGB", (40, 20), "white")
    page.paste((255, 0, 0), (10, 10, 20, 20))
    page.save(tmp_path / "good.png")
    page.save(tmp_path / "back.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    return store


def test_crops_are_made_once_at_load(scans, clock, tmp_path):
    file = tmp_path / "scans.csv"
    file.write_text('id,page,own,back\na,good.png,"10,10,5,5",back.png\n')
    result = load(scans, file, clock=clock)
    assert counts(result) == (1, 3, 0, 0)
    (tmp_path / "good.png").unlink()
    (tmp_path / "back.png").unlink()
    rows = query(scans, "SELECT shown, media FROM entry ORDER BY id")
    images = [Image.open(io.BytesIO(bytes(shown))) for shown, _ in rows]
    assert [image.size for image in images] == [(40, 10), (5, 5), (40, 20)]
    assert images[1].getpixel((0, 0)) == (255, 0, 0)
    assert {media for _, media in rows} == {"image/png"}
    # the same again needs no page: what is in is not cut anew
    assert counts(load(scans, file, clock=clock)) == (0, 0, 1, 0)


def test_a_folder_of_scans_is_loaded_and_fields_that_are_sent_are_counted(
    store, clock, tmp_path
):
    policy = b"""version = 1
name = "receipts"
[entity.receipt]
key = "file"
[entity.receipt.fields]
top = { ask = "transcribe", image = "scan#top" }
rest = { ask = "transcribe", image = "scan#rest", send = false }
[entity.receipt.layout]
top = { page = 1, box = [0, 0, 1, 0.5] }
rest = { page = 1, box = [0, 0.5, 1, 0.5] }
[property.both]
of = ["top", "rest"]
"""
    with store.write() as tx:
        apply_policy(tx, policy, at=clock())
    for number in range(17):
        Image.new("RGB", (40, 20), "white").save(tmp_path / f"{number}.png")
    told = []
    result = load(
        store, tmp_path, clock=clock, progress=lambda c: told.append(c.records)
    )
    assert counts(result) == (17, 34, 0, 0)
    assert result.counts.sent == 17
    assert told == [16, 17]  # a page takes its time, so that few are one chunk
    assert counts(load(store, tmp_path, clock=clock)) == (0, 0, 17, 0)


def test_pages_that_can_not_be_cut_cost_their_row(scans, clock, tmp_path):
    file = tmp_path / "scans.csv"
    file.write_text(
        "id,page,own,back\n"
        'a,good.png,"1,10,2,2",back.png\n'
        'b,bad.png,"1,10,2,2",\n'
        'c,none.png,"1,10,2,2",\n'
        'd,good.png,"39,0,2,2",\n'
        "e,good.png,,\n"
        'f,../good.png,"1,10,2,2",\n'
        "g,,,\n"
    )
    path = tmp_path / "scans.rejected.csv"
    result = load(scans, file, clock=clock, rejects=path)
    assert counts(result) == (2, 3, 0, 5)  # g has no page: a record without entries
    found = rejected(path)[1:]
    assert [line for line, _, _ in found] == ["3", "4", "5", "6", "7"]
    assert [column for _, column, _ in found] == ["page"] * 5
    assert [reason for *_, reason in found] == [
        "the page is no PDF, PNG, JPEG, TIFF or WebP image",
        "the file of the page is missing or unreadable",
        "the box reaches outside of the page (40x20)",
        "the record has a page but no box for this field",
        "the path of the page leads out of the import folder",
    ]


@pytest.mark.parametrize(
    ("own", "back", "pair"),
    [
        ("1,9,5,5", "back.png", "name and total"),  # reaches into the upper half
        ("1,10,5,5", "back.png", None),  # touches it
        ("1,10,5,5", "good.png", "name and whole"),  # one page by two columns
        ("1,10,5,5", "./good.png", "name and whole"),
        ("1,10,5,5", "linked.png", "name and whole"),  # or by two names
    ],
)
def test_a_record_whose_crops_show_one_another_is_rejected(
    scans, clock, tmp_path, own, back, pair
):
    (tmp_path / "linked.png").hardlink_to(tmp_path / "good.png")
    file, path = tmp_path / "scans.csv", tmp_path / "scans.rejected.csv"
    file.write_text(f'id,page,own,back\na,good.png,"{own}",{back}\n')
    result = load(scans, file, clock=clock, rejects=path)
    assert counts(result) == ((0, 0, 0, 1) if pair else (1, 3, 0, 0))
    if pair:
        assert f"the boxes of fields {pair} overlap" in rejected(path)[1][2]
    assert query(scans, "SELECT COUNT(*) FROM entry") == [(0 if pair else 3,)]


def test_crops_that_no_rule_looks_at_are_loaded_as_the_policy_shows_them(
    store, clock, tmp_path
):
    """A doubt of the policy, and no fault of its records; a record's own box is."""
    source = SCANS.replace(b'of = ["name", "total"]', b'of = ["total", "more"]')
    source = source.replace(b'image = "back"', b'image = "page"')
    source = source.replace(b'"page#own" }', b'"back#own" }\nmore = {}')
    with store.write() as tx:
        apply_policy(tx, source, at=clock())
    Image.new("RGB", (40, 20), "white").save(tmp_path / "good.png")
    Image.new("RGB", (40, 20), "white").save(tmp_path / "back.png")
    file = tmp_path / "scans.csv"
    file.write_text(
        'id,page,own,back,more\na,good.png,"0,0,5,5",back.png,\n'
        'b,good.png,"0,0,5,5",good.png,\n'
    )
    assert counts(load(store, file, clock=clock)) == (1, 3, 0, 1)


def test_a_policy_whose_boxes_overlap_is_not_applied(store, clock):
    source = SCANS.replace(b"[0, 0, 1, 0.5]", b"[0, 0, 1, 1]")
    source = source.replace(b'"page#own"', b'"page#low"').replace(
        b"[property", b"low = { page = 1, box = [0, 0.4, 1, 0.1] }\n[property"
    )
    with store.write() as tx, pytest.raises(Invalid) as refused:
        apply_policy(tx, source, at=clock())
    assert "POL214" in refused.value.why


def test_evidence_tells_what_each_crop_was_declared_to_hold(scans, clock, tmp_path):
    file = tmp_path / "scans.csv"
    file.write_text('id,page,own,back\na,good.png,"10,10,5,5",back.png\n')
    load(scans, file, clock=clock)
    bundle = export(scans, tmp_path / "bundle", clock=clock)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    told = [line for line in verdict.text.splitlines() if line.startswith("CROP")]
    assert told == [
        'CROP {"field": "name", "column": "page", "page": 1, "box": [0, 0, 1, "1/2"]}',
        'CROP {"field": "total", "column": "page", "page": 1, "box": "own"}',
        'CROP {"field": "whole", "column": "back", "page": 1, "box": [0, 0, 1, 1]}',
    ]
    assert "a crop holds no value of a field but" in verdict.text


def test_a_box_column_that_is_not_there_is_told(scans, clock, tmp_path):
    file = tmp_path / "scans.csv"
    file.write_text("id,page,back\na,good.png,\n")
    with pytest.raises(Invalid, match="no column `own`"):
        load(scans, file, clock=clock)


def test_a_tag_that_can_not_be_masked_never_comes_into_force(store, clock):
    unknown = POLICY.replace(b'"phone"', b'"phonee"')
    with pytest.raises(Invalid, match="`phonee` in `redact`"), store.write() as tx:
        apply_policy(tx, unknown, at=clock())


@pytest.fixture
def led(ready, clock):
    """The store, and the epoch of the daemon that leads it."""
    with ready.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "me", clock(), clock() + 60_000_000)
    return ready, epoch


def test_a_file_that_is_whole_is_taken_from_the_inbox(led, clock, tmp_path):
    store, epoch = led
    inbox = Inbox(store, tmp_path / "in", clock)
    assert inbox.tick(epoch) == 0
    file = tmp_path / "in" / "forms.csv"
    file.write_text(FORMS + "broken,row\n")
    assert inbox.tick(epoch) == 0  # seen for the first time: it may still grow
    with file.open("a") as more:
        more.write("rx-4,p4,,Late Row,,,,\n")
    assert inbox.tick(epoch) == 0  # it grew
    assert inbox.tick(epoch) == 4
    assert not file.exists()
    names = sorted(p.name for p in (tmp_path / "in" / "loaded").iterdir())
    assert names == ["forms.csv", "forms.rejected.csv"]
    assert inbox.tick(epoch) == inbox.tick(epoch) == 0


def test_a_file_that_is_no_table_is_put_aside_with_the_reason(led, clock, tmp_path):
    store, epoch = led
    inbox = Inbox(store, tmp_path / "in", clock)
    inbox.tick(epoch)
    (tmp_path / "in" / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "in" / "page.png").write_bytes(b"x")
    (tmp_path / "in" / ".hidden.csv").write_text(FORMS)
    (tmp_path / "in" / "link.csv").symlink_to("page.png")
    for _ in range(3):
        assert inbox.tick(epoch) == 0
    refused = tmp_path / "in" / "refused"
    assert sorted(p.name for p in refused.iterdir()) == ["bad.csv", "bad.csv.txt"]
    assert "the file has no column `rx_id`" in (refused / "bad.csv.txt").read_text()
    left = sorted(p.name for p in (tmp_path / "in").iterdir() if not p.is_dir())
    assert left == [".hidden.csv", "link.csv", "page.png"]


def test_files_wait_until_a_policy_is_in_force(store, clock, tmp_path):
    with store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "me", clock(), clock() + 60_000_000)
    inbox = Inbox(store, tmp_path, clock)
    (tmp_path / "forms.csv").write_text(FORMS)
    assert [inbox.tick(epoch) for _ in range(3)] == [0, 0, 0]
    with store.write() as tx:
        apply_policy(tx, POLICY, at=clock())
    assert sum(inbox.tick(epoch) for _ in range(3)) == 3


def test_a_daemon_that_lost_its_lease_loads_nothing(led, clock, tmp_path):
    store, epoch = led
    inbox = Inbox(store, tmp_path, clock)
    (tmp_path / "forms.csv").write_text(FORMS)
    inbox.tick(epoch)
    with store.write() as tx:
        lease.take(tx, lease.SHARD, "other", clock() + 10**9, clock() + 2 * 10**9)
    with pytest.raises(StaleLease):
        inbox.tick(epoch)
    assert number_of(store, "record") == 0
