"""Boxes are written into a policy file beside what it says, and judged by its rules."""

import io
from pathlib import Path

import pytest
from PIL import Image

from dispatcher.core.errors import Invalid
from dispatcher.operations.layouts import (
    Drawing,
    DrawnBox,
    crop_rows,
    keep_boxes,
    pinned_template,
    scans_in,
)
from dispatcher.stages.intake.images import BadPage, PageFolder
from dispatcher.stages.intake.record_builder import form_of
from dispatcher.stages.intake.table import Options
from dispatcher.surfaces.drawing import crops_page
from policies.document import parse
from tests.unit.dispatcher.stages.intake.test_scan_geometry import form, letter

POLICY = """\
version = 1
name = "form" # ours

[entity.rx] # the form
key = "id"

[entity.rx.fields] # all
name = { ask = "transcribe", image = "scan#roi.name" } # of the person
age = { ask = "number" }

[entity.rx.layout]
# at the top
"roi.name" = { page = 1, box = [0.1, 0.18, 0.8, 0.06] }

[property.pair]
of = ["name", "age"]
"""
NAME = (0.1, 0.18, 0.9, 0.24)
AGE = (0.1, 0.32, 0.9, 0.38)
AGE_BOX = "box = [0.1, 0.32, 0.8, 0.06]"


def box(name, edges, page=1, *, field=None, redact=False):
    shown = "" if redact else field or name
    return DrawnBox.of(name, shown, page, edges, redact=redact)


@pytest.fixture
def folder(tmp_path):
    form(1).save(tmp_path / "0.png")
    form(2).rotate(180).save(tmp_path / "1.png")
    letter(3).save(tmp_path / "2.png")
    (tmp_path / "notes.txt").write_text("no scan")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def drawing(folder, *, aligned=False, policy="policy.toml"):
    return Drawing(folder / policy, scans_in([folder]), "scan", aligned=aligned)


def test_saved_boxes_leave_the_rest_of_the_file_as_it_is_written(folder):
    draw = drawing(folder)
    draw.save([box("roi.name", NAME, field="name"), box("age", AGE)])
    assert (folder / "policy.toml").read_text() == POLICY.replace(
        'age = { ask = "number" }', 'age = { ask = "number", image = "scan#age"}'
    ).replace("0.06] }\n", "0.06] }\nage = {page = 1, box = [0.1, 0.32, 0.8, 0.06]}\n")


def test_new_fields_and_boxes_stand_before_the_comment_of_the_next_rule(folder):
    """Also where the layout is new: the comment stays with its rule."""
    rule = "\n# Who is how old\n# must stay apart.\n[property.pair]"
    told = POLICY.replace("\n[property.pair]", rule)
    (folder / "policy.toml").write_text(told)
    drawing(folder).save([box("roi.name", NAME, field="name"), box("when", AGE)])
    text = (folder / "policy.toml").read_text()
    added = (
        'age = { ask = "number" }\nwhen = {ask = "transcribe", image = "scan#when"}\n'
    )
    assert f"{added}\n[entity.rx.layout]\n" in text
    assert f"when = {{page = 1, box = [0.1, 0.32, 0.8, 0.06]}}\n{rule}" in text
    cut = POLICY.index("\n[entity.rx.layout]")
    (folder / "policy.toml").write_text(
        POLICY[:cut].replace(', image = "scan#roi.name"', "") + rule + "\nof = []\n"
    )
    drawing(folder).save([box("age", AGE)])
    text = (folder / "policy.toml").read_text()
    assert f"\n[entity.rx.layout]\nage = {{page = 1, {AGE_BOX}}}\n{rule}" in text


def test_a_template_is_named_from_the_policys_folder_and_found_by_name_too(tmp_path):
    """So `records load` finds it with the pages named from there, and with --images."""
    scans = tmp_path / "scans"
    scans.mkdir()
    form(1).save(scans / "0.png")
    (tmp_path / "policy.toml").write_text(POLICY)
    draw = Drawing(tmp_path / "policy.toml", scans_in([scans]), "scan", aligned=True)
    draw.save([box("roi.name", NAME, field="name")])
    entity = parse((tmp_path / "policy.toml").read_bytes()).policy.entity
    assert entity.template.image == "scans/0.png"
    assert pinned_template(tmp_path / "policy.toml", scans_in([scans])) is not None
    for folder, page in ((tmp_path, "scans/0.png"), (scans, "0.png")):
        crop = PageFolder(folder, form_of(entity)).crop(page, draw.boxes()[0].cut)
        assert Image.open(io.BytesIO(crop.png)).width > 0
    with pytest.raises(BadPage, match=r"has no scans/0\.png and no 0\.png"):
        PageFolder(scans.parent.parent, form_of(entity))


def test_a_new_draft_keeps_the_boxes_that_were_drawn(folder):
    """Its fields that show them, what is painted over, and the template too."""
    asked = 'name = { ask = "choose", choices = ["x"], image'
    told = POLICY.replace('name = { ask = "transcribe", image', asked)
    (folder / "policy.toml").write_text(told)
    drawn = [box("roi.name", NAME, field="name"), box("seal", AGE, redact=True)]
    drawing(folder, aligned=True).save(drawn)
    before = (folder / "policy.toml").read_text()
    draft = (
        'version = 1\nname = "d"\n\n[entity.d]\nkey = "id"\n\n[entity.d.fields]\n'
        'age = { ask = "number" }\n'
        'scan = { ask = "transcribe", image = "scan", send = false }\n'
        '\n# singles out 71 %\n[property.apart]\nof = ["age", "name"]\n'
    )
    text, kept = keep_boxes(before, draft, "policy.toml")
    found = parse(text.encode())
    assert (kept, found.errors) == (2, 0)
    entity = found.policy.entity
    assert entity.fields.keys() == {"age", "name"}
    assert entity.fields["name"].image_box == "roi.name"
    assert entity.fields["name"].choices == ("x",)
    assert entity.layout["seal"].redact
    assert entity.template.image == "0.png"
    assert text.endswith(
        '\n# singles out 71 %\n[property.apart]\nof = ["age", "name"]\n'
    )
    of_others = draft.replace('image = "scan", send', 'image = "page", send')
    assert keep_boxes(before, of_others, "policy.toml") == (of_others, 0)
    (sample,) = Path("examples/policies").glob("prescriptions.toml")
    no_toml, no_box = "no toml =", 'version = 1\n[entity.a]\nkey = "k"\n'
    for nothing in ("", no_toml, no_box, sample.read_text()):
        assert keep_boxes(nothing, draft, "policy.toml") == (draft, 0)


def test_the_template_is_pinned_where_pages_are_aligned(folder):
    drawing(folder, aligned=True).save([box("roi.name", NAME, field="name")])
    found = parse((folder / "policy.toml").read_bytes())
    assert found.policy.entity.template.image == "0.png"
    assert found.policy.entity.key == "id"


def test_the_pinned_template_is_found_among_the_scans(folder):
    scans = scans_in([folder])
    assert pinned_template(folder / "policy.toml", scans) is None
    assert pinned_template(folder / "none.toml", scans) is None
    Drawing(folder / "policy.toml", scans[1:], "scan", aligned=True).save(
        [box("roi.name", NAME, field="name")]
    )
    assert pinned_template(folder / "policy.toml", scans) == folder / "1.png"
    assert pinned_template(folder / "policy.toml", scans[2:]) is None


def test_what_was_saved_is_drawn_again(folder):
    boxes = [
        box("roi.name", NAME, field="name"),
        box("seal", (0, 0.9, 0.3, 1), redact=True),
    ]
    drawing(folder).save(boxes)
    assert drawing(folder).boxes() == boxes


def test_boxes_that_touch_still_touch_when_they_are_rounded():
    left = box("a", (0.1, 0.1, 0.333333, 0.2))
    right = box("b", (0.333333, 0.1, 0.5, 0.2))
    assert left.x + left.width == right.x


@pytest.mark.parametrize(
    "edges", [(0.5, 0.1, 0.5, 0.2), (0.5, 0.1, 0.4, 0.2), (1.2, 0.1, 1.4, 0.2)]
)
def test_a_box_without_an_area_on_the_page_is_none(edges):
    with pytest.raises(ValueError, match="area"):
        box("a", edges)


def test_overlaps_are_what_policy_check_says_and_are_not_saved(folder):
    draw = drawing(folder)
    boxes = [box("roi.name", NAME, field="name"), box("age", (0.1, 0.2, 0.9, 0.3))]
    (finding,) = draw.check(boxes)
    assert finding["code"] == "POL214"
    assert "rule `pair` names both" in finding["why"]
    with pytest.raises(Invalid, match="POL214"):
        draw.save(boxes)
    assert (folder / "policy.toml").read_text() == POLICY


def test_a_draft_keeps_its_whole_page_until_a_box_is_drawn(folder):
    """`policy suggest` has a field for the page, which is not sent before."""
    page = 'scan = { ask = "transcribe", image = "scan", send = false }'
    draft = POLICY[: POLICY.index("name = {")] + page + "\n"
    (folder / "policy.toml").write_text(draft)
    draw = drawing(folder)
    assert draw.fields() == ["scan"]
    assert draw.check([box("age", AGE)])[0]["severity"] == "warning"
    draw.save([box("age", AGE)])
    assert draw.fields() == ["age"]
    assert parse((folder / "policy.toml").read_bytes()).errors == 0


def test_a_field_does_not_lose_its_box(folder):
    with pytest.raises(Invalid, match="name has no box any more"):
        drawing(folder).save([box("age", AGE)])


def test_a_policy_is_begun_where_there_is_none(folder):
    drawing(folder, policy="new.toml").save([box("total", AGE)])
    found = parse((folder / "new.toml").read_bytes())
    assert found.errors == 0
    assert found.policy.entity.fields["total"].image_box == "total"


@pytest.mark.parametrize("text", ["x = [", "version = 1", "[entity.a]\n[entity.b]"])
def test_a_file_that_boxes_cannot_be_written_into_is_refused(folder, text):
    (folder / "policy.toml").write_text(text)
    with pytest.raises(Invalid, match=r"TOML|one entity"):
        drawing(folder)


def test_scans_fit_or_are_set_aside(folder):
    draw = drawing(folder, aligned=True)
    boxes = [box("name", (0.09, 0.178, 0.91, 0.245))]
    own, turned, other = (draw.fit(scan, boxes) for scan in range(3))
    assert (own.aside, own.inked) == ("", [])
    assert (turned.aside, turned.inked) == ("", [])
    assert "does not look like the template" in other.aside
    through = draw.fit(0, [box("name", (0.09, 0.2, 0.91, 0.212))])
    assert through.inked == ["name"]


def test_pages_of_one_file_are_drawn_on_by_number(tmp_path):
    first, second = form(1), letter(1)
    first.save(tmp_path / "a.tiff", save_all=True, append_images=[second])
    draw = drawing(tmp_path)
    assert draw.pages == 2
    assert draw.view(0, 1) != draw.view(0, 2)


def test_a_template_that_is_no_page_is_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(Invalid, match=r"a\.png cannot be drawn on"):
        drawing(tmp_path)


def test_there_has_to_be_a_scan_and_one_folder(folder, tmp_path_factory):
    with pytest.raises(Invalid, match="no scan"):
        scans_in([folder / "notes.txt"])
    other = tmp_path_factory.mktemp("other")
    Image.new("L", (9, 9)).save(other / "x.png")
    with pytest.raises(Invalid, match="different folders"):
        scans_in([folder, other])


def test_crops_of_a_file_are_one_page_that_fetches_nothing(folder):
    edges = [box("roi.name", (0.09, 0.178, 0.91, 0.245), field="name"), box("age", AGE)]
    drawing(folder, aligned=True).save(edges)
    table = folder / "<b>.csv"
    table.write_text("id,scan\nk1,0.png\nk2,1.png\nk3,2.png\n,0.png\nk5,none.png\n")
    policy = parse((folder / "policy.toml").read_bytes()).policy
    fields, rows = crop_rows(table, Options(), policy)
    assert fields == ["name", "age"]
    assert [row.line for row in rows] == [2, 3, 4, 5, 6]
    assert [bool(row.crops) for row in rows] == [True, True, False, False, False]
    assert "does not look like the template" in rows[2].aside
    page = crops_page(table.name, fields, rows)
    assert page.count("data:image/png;base64,") == 4
    assert "default-src 'none'; img-src data:" in page
    assert "&lt;b&gt;.csv" in page
    assert "k1" not in page.split("base64")[0]
    assert "http://" not in page


def test_a_policy_without_crops_has_none_to_show(folder):
    policy = parse(POLICY.replace(', image = "scan#roi.name"', "").encode()).policy
    with pytest.raises(Invalid, match="shows a crop"):
        crop_rows(folder / "x.csv", Options(), policy)
