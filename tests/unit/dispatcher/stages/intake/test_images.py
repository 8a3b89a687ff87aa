"""Crops: the box and nothing else, from a page inside the folder."""

import io
import os
import struct
import subprocess
import sys
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from PIL import Image, ImageDraw, PngImagePlugin

from dispatcher.stages.intake import pdf
from dispatcher.stages.intake.images import (
    BadPage,
    Box,
    PageFolder,
    PageForm,
    crop,
    cut,
    pages_in,
    pixel_box,
)
from dispatcher.stages.intake.scan_geometry import Placement, align
from tests.unit.dispatcher.stages.intake.test_scan_geometry import form

SECRET = b"SEEDED-SECRET"


def page(width=20, height=10, mode="RGB", colour="white"):
    """A page whose left half is of another colour, with one red pixel at (12, 3)."""
    image = Image.new("RGB", (width, height), colour)
    image.paste((0, 0, 255), (0, 0, width // 2, height))
    image.putpixel((12, 3), (255, 0, 0))
    return image.convert(mode)


def saved(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def opened(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def shares(x, y, width, height, number=1):
    parts = (Fraction(p) for p in (x, y, width, height))
    return Box(*parts, shares=True, page=number)


def test_a_box_in_pixels_is_cut_exactly():
    part = opened(crop(saved(page()), pixel_box("12,3,2,1")))
    assert part.size == (2, 1)
    assert part.getpixel((0, 0)) == (255, 0, 0)
    assert part.getpixel((1, 0)) == (255, 255, 255)


def test_a_box_in_shares_is_rounded_inwards_never_beyond_itself():
    # 0.51 * 20 = 10.2 -> 11; 0.51 + 0.44 = 0.95 -> 19.0: white only, no blue.
    part = opened(crop(saved(page()), shares("0.51", "0", "0.44", "1")))
    assert part.size == (8, 10)
    assert (0, 0, 255) not in [colour for _, colour in part.getcolors()]


def test_without_a_box_the_whole_page_is_shown():
    assert opened(crop(saved(page()), None)).size == (20, 10)


@pytest.mark.parametrize(
    "box", ["15,0,6,1", "0,9,1,2", "20,0,1,1", "0,0,1000000,1", "9999999999,0,1,1"]
)
def test_a_box_outside_of_the_page_is_refused(box):
    with pytest.raises(BadPage, match="outside of the page"):
        crop(saved(page()), pixel_box(box))


@pytest.mark.parametrize("box", [shares("-0.1", 0, 1, 1), shares(0, 0, "1.01", 1)])
def test_shares_beyond_one_are_refused(box):
    with pytest.raises(BadPage, match="outside of the page"):
        crop(saved(page()), box)


def test_an_empty_box_is_refused():
    with pytest.raises(BadPage, match="smaller than a pixel"):
        crop(saved(page()), pixel_box("1,1,0,1"))
    with pytest.raises(BadPage, match="smaller than a pixel"):
        crop(saved(page()), shares("0.01", 0, "0.01", 1))


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "-1,0,1,1", "1.5,0,1,1", "١,0,1,1"]
)
def test_what_is_no_box_is_refused_without_being_quoted(text):
    with pytest.raises(BadPage, match=r"x,y,width,height") as caught:
        pixel_box(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_safety_22_formats_are_known_by_their_bytes_not_their_names(tmp_path, kind):
    (tmp_path / "page.dat").write_bytes(saved(page(), kind))
    assert opened(PageFolder(tmp_path).crop("page.dat", None).png).size == (20, 10)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "PPM"])
def test_other_image_formats_are_refused(kind):
    with pytest.raises(BadPage, match="no PDF, PNG, JPEG, TIFF or WebP"):
        crop(saved(page(), kind), None)


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4", b"\x89PNG\r\n\x1a\n", b"<svg/>"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(BadPage):
        crop(data, None)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_an_image_cut_short_is_refused(kind, share):
    noise = Image.frombytes("RGB", (60, 60), np.random.default_rng(1).bytes(10_800))
    data = saved(noise, kind)
    with pytest.raises(BadPage, match=r"damaged|no PDF"):
        crop(data[: int(len(data) * share)], None)


def test_safety_22_a_page_of_a_hundred_megapixels_is_refused_before_it_is_decoded():
    bomb = saved(Image.new("1", (10_000, 10_000)))
    assert len(bomb) < 100_000
    with pytest.raises(BadPage, match="60 megapixels"):
        crop(bomb, None)


def test_a_header_that_claims_a_huge_page_is_refused():
    data = bytearray(saved(Image.new("L", (10, 10))))
    data[16:24] = (60_000).to_bytes(4, "big") * 2  # IHDR: 3,600 megapixels
    with pytest.raises(BadPage):
        crop(bytes(data), None)


def test_pages_of_a_tiff_are_found_by_number():
    pages = [Image.new("L", (8, 4 + i), i) for i in range(3)]
    data = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    third = opened(crop(data, shares(0, 0, 1, 1, number=3)))
    assert (third.size, third.getpixel((0, 0))) == ((8, 6), 2)
    with pytest.raises(BadPage, match=r"no page 4 \(the image has 3\)"):
        crop(data, shares(0, 0, 1, 1, number=4))
    with pytest.raises(BadPage, match="no page 0"):
        crop(data, shares(0, 0, 1, 1, number=0))


def test_the_page_is_turned_upright_before_it_is_cut():
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by a quarter to the right
    data = saved(page(), "JPEG", exif=exif, quality=95)
    assert opened(crop(data, None)).size == (10, 20)
    with pytest.raises(BadPage, match="outside"):
        crop(data, pixel_box("12,3,1,1"))


def seeded(kind):
    """A page that carries secrets wherever the format lets it."""
    exif = Image.Exif()
    exif[0x010E] = SECRET.decode()  # ImageDescription
    exif[0x0112] = 1
    exif.get_ifd(0x8769)[0x9286] = SECRET  # UserComment
    options = {"exif": exif, "icc_profile": b"\0" * 128 + SECRET}
    if kind == "PNG":
        texts = PngImagePlugin.PngInfo()
        texts.add_text("Comment", SECRET.decode())
        texts.add_itxt("XML:com.adobe.xmp", SECRET.decode())
        options["pnginfo"] = texts
    if kind in ("JPEG", "WEBP"):
        options["xmp"] = b"<x:xmpmeta>" + SECRET + b"</x:xmpmeta>"
    if kind == "JPEG":
        options["comment"] = SECRET
    if kind == "TIFF":
        options["tiffinfo"] = {270: SECRET.decode(), 700: SECRET}
        del options["exif"]
    return saved(page(), kind, **options)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("box", [None, pixel_box("2,2,5,5")])
def test_safety_22_nothing_that_rides_along_is_shown(kind, box):
    data = seeded(kind)
    assert SECRET in data
    shown = crop(data, box)
    assert SECRET not in shown
    chunks = {shown[i + 4 : i + 8] for i in _chunk_starts(shown)}
    assert chunks == {b"IHDR", b"IDAT", b"IEND"}


def _chunk_starts(data):
    at = 8
    while at < len(data):
        yield at
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def test_bytes_behind_the_image_are_not_shown():
    assert SECRET not in crop(saved(page()) + SECRET, None)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr"])
def test_every_usual_mode_is_shown(mode):
    kind = "TIFF" if mode in ("CMYK", "YCbCr", "LA") else "PNG"
    part = opened(crop(saved(page(mode=mode), kind), pixel_box("11,0,4,4")))
    assert part.mode in ("1", "L", "RGB")
    assert part.convert("L").getpixel((3, 3)) == 255


def test_sixteen_bit_greys_keep_their_shade():
    image = Image.new("I;16", (4, 4), 0x8000)
    assert opened(crop(saved(image), None)).getpixel((0, 0)) == 128


@pytest.mark.parametrize("mode", ["I", "F"])
def test_a_page_whose_scale_is_unknown_is_refused_not_shown_black(mode):
    image = Image.new(mode, (4, 4), 1)
    with pytest.raises(BadPage, match="32 bits a pixel"):
        crop(saved(image, "TIFF"), None)


def test_what_is_clear_is_shown_white_and_hides_nothing():
    image = Image.new("RGBA", (4, 4), (200, 10, 10, 0))
    assert opened(crop(saved(image), None)).getpixel((0, 0)) == (255, 255, 255)


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.png").write_bytes(saved(page()))
    (tmp_path / "out.png").write_bytes(saved(page()))
    return inside


@pytest.mark.parametrize(
    "path",
    ["../out.png", "x/../../out.png", "..\\out.png", "C:\\out.png", "//host/out.png"],
)
def test_a_path_may_not_leave_the_folder(folder, path):
    with pytest.raises(BadPage, match="leads out of the import folder"):
        PageFolder(folder).crop(path, None)


def test_an_absolute_path_is_refused_even_into_the_folder(folder):
    with pytest.raises(BadPage, match="leads out"):
        PageFolder(folder).crop(str(folder / "a.png"), None)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_followed(folder):
    (folder / "out.png").symlink_to("../out.png")
    (folder / "b.png").symlink_to("a.png")
    with pytest.raises(BadPage, match="leads out"):
        PageFolder(folder).crop("out.png", None)
    assert PageFolder(folder).crop("b.png", None)


@pytest.mark.parametrize("path", ["none.png", "sub", "a\0.png", "a.png/x", "x" * 5_000])
def test_a_page_that_is_not_there_is_refused(folder, path):
    (folder / "sub").mkdir()
    with pytest.raises(BadPage, match=r"missing|no file"):
        PageFolder(folder).crop(path, None)


def test_a_pipe_is_no_page(folder):
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(BadPage, match="no file"):
        PageFolder(folder).crop("pipe.png", None)


def test_a_page_is_decoded_once_for_all_its_crops(folder, monkeypatch):
    pages = PageFolder(folder)
    first = pages.crop("a.png", pixel_box("0,0,2,2"))
    (folder / "a.png").unlink()
    assert pages.crop("a.png", pixel_box("0,0,2,2")) == first


def test_few_pages_are_kept(folder):
    pages = PageFolder(folder)
    for i in range(9):
        (folder / f"{i}.png").write_bytes(saved(page()))
        pages.crop(f"{i}.png", None)
    for i in range(9):
        (folder / f"{i}.png").unlink()
    with pytest.raises(BadPage):
        pages.crop("0.png", None)
    assert pages.crop("8.png", None)


def big(kind, mode, side, **options):
    """A file of few bytes that decodes to side times side pixels."""
    return saved(Image.new(mode, (side, side)), kind, **options)


@pytest.mark.parametrize(
    ("kind", "mode", "side", "options"),
    [
        ("WEBP", "RGB", 5_100, {"quality": 1, "method": 0}),
        ("JPEG", "RGB", 6_400, {"quality": 5, "progressive": True}),
        ("PNG", "RGB", 7_200, {"compress_level": 1}),
    ],
)
def test_a_page_beyond_the_budget_of_bytes_is_refused(kind, mode, side, options):
    """Its pixels are fewer than may be decoded, but not what decoding takes."""
    with pytest.raises(BadPage, match="more than 384 MiB"):
        crop(big(kind, mode, side, **options), None)


MEASURED = """
import resource, sys
from PIL import Image
from dispatcher.stages.intake.images import BadPage, crop
files = [open(name, "rb").read() for name in sys.argv[1:]]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in files:
    try:
        crop(data, None)
    except BadPage:
        pass
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_no_small_file_takes_more_memory_than_the_budget(tmp_path):
    """A palette of 59 megapixels in some kilobytes took 921 MB."""
    made = {
        "palette": big("PNG", "P", 7_700, compress_level=9, transparency=bytes(10)),
        "clear": big("PNG", "RGBA", 5_900, compress_level=1),
        "tiff": big("TIFF", "RGB", 7_000, compression="tiff_deflate"),
        "webp": big("WEBP", "RGB", 7_000, quality=1, method=0),
    }
    for name, data in made.items():
        assert len(data) < 2 << 20
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *(str(tmp_path / name) for name in made)],
        capture_output=True,
        text=True,
        check=True,
    )
    highest = dict(zip(made, map(int, done.stdout.split()), strict=True))
    assert max(highest.values()) < 400, highest


def test_every_kind_of_page_is_shown_on_white_and_alike_in_strips():
    """A page longer than a strip looks the same as by its pixels."""
    tall = page(20, 700)
    for mode in ("RGB", "P", "L", "RGBA", "CMYK", "1"):
        kind = "TIFF" if mode == "CMYK" else "PNG"
        data = saved(tall.convert(mode), kind)
        part = opened(crop(data, pixel_box("5,100,15,590")))
        want = tall.convert(mode).convert("RGB").crop((5, 100, 20, 690))
        assert part.convert("RGB").tobytes() == want.tobytes(), mode


def test_a_tile_larger_than_its_page_is_refused_by_its_header():
    """The size of a tile says how much the decoder takes, whatever the page's is."""
    tags = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1}
    tags |= {322: 60_000, 323: 60_000, 324: 200, 325: 8}
    entries = b"".join(struct.pack("<HHII", n, 4, 1, v) for n, v in tags.items())
    header = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    data = header + entries + bytes(4) + bytes(200)
    with pytest.raises(BadPage, match="more than 384 MiB"):
        crop(data, None)


# -- painted over, and aligned -----------------------------------------------------------


def painted(page, box, *redactions):
    pages = [shares(*one) for one in redactions]
    return cut(page, box, None, pages)[1]


def test_what_is_redacted_is_painted_over_in_every_crop_that_shows_it():
    redaction = (Fraction(11, 20), Fraction(1, 5), Fraction(1, 8), Fraction(1, 4))
    for box in (None, pixel_box("10,0,8,8"), shares("0.5", 0, "0.5", 1)):
        shown = painted(page(), box, redaction)
        colours = {colour for _, colour in shown.getcolors()}
        assert (0, 0, 0) in colours  # around the red pixel at (12, 3)
        assert (255, 0, 0) not in colours


def test_paint_covers_every_pixel_that_its_box_touches_and_no_other():
    third = (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    shown = painted(Image.new("L", (10, 10), 255), None, third)  # 3.33 to 6.67
    black = [(x, y) for x in range(10) for y in range(10) if not shown.getpixel((x, y))]
    assert black == [(x, y) for x in range(3, 7) for y in range(3, 7)]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_pages_of_every_mode_are_painted_over(mode):
    source = page().convert("L").convert("I;16") if mode == "I;16" else page(mode=mode)
    shown = painted(source, None, (0, 0, 1, 1))
    assert set(shown.convert("L").tobytes()) == {0}


def askew(template, degrees, shift):
    turned = template.rotate(
        degrees, Image.Resampling.BICUBIC, translate=shift, fillcolor="white"
    )
    return turned, align(template, turned)


def test_a_crop_of_a_page_that_lies_askew_is_that_of_the_template():
    template = form(1)
    turned, placement = askew(template, 3, (12, -9))
    box = shares("0.08", "0.18", "0.84", "0.07")
    (_, straight), (_, found) = cut(template, box), cut(turned, box, placement)
    assert np.subtract(straight.size, found.size).max() <= 2
    same = found.resize(straight.size)
    pair = [np.asarray(one, float).ravel() for one in (same, straight)]
    assert np.corrcoef(*pair)[0, 1] > 0.8  # 0.1 where it lies two pixels off


def test_a_crop_of_a_page_that_lies_askew_never_reaches_beyond_its_box():
    """Everything but the box is black; not a shade of it may be mixed in."""
    template = Image.new("L", (400, 300), 255)
    placement = Placement((0.998, -0.06, 20, 0.06, 0.998, -5), (400, 300), 1)
    whole = Image.new("L", (440, 330), 0)
    inside = [
        placement.on_page(*p) for p in ((100, 90), (300, 90), (300, 200), (100, 200))
    ]
    ImageDraw.Draw(whole).polygon(inside, fill=255)
    box = Box(*map(Fraction, ("1/4", "3/10", "1/2", "11/30")), shares=True)
    area, shown = cut(whole, box, placement)
    assert area == (100, 90, 300, 200)
    assert np.asarray(shown).min() > 120  # the polygon's own edge is not smooth
    assert np.asarray(shown)[2:-2, 2:-2].min() == 255
    assert template.size == placement.size


def test_redactions_lie_where_the_template_has_them_on_a_page_askew():
    template = form(1)
    turned, placement = askew(template, -4, (10, 15))
    field = shares("0.09", "0.18", "0.82", "0.07")
    assert np.asarray(cut(turned, field, placement)[1]).mean() > 150
    hidden = cut(turned, field, placement, [shares("0.09", "0.18", "0.82", "0.07")])[1]
    assert set(np.asarray(hidden).ravel()) == {0}
    whole = cut(turned, pixel_box(f"0,0,{turned.width},{turned.height}"), placement,
                [field])[1]  # fmt: skip
    x, y = map(round, placement.on_page(0.5 * template.width, 0.215 * template.height))
    assert whole.getpixel((x, y)) == 0
    assert whole.getpixel((x, y - 60)) > 0


def template_of(folder, image):
    (folder / "form.png").write_bytes(saved(image))
    digest = sha256((folder / "form.png").read_bytes()).hexdigest()
    return PageForm("form.png", digest)


def test_pages_are_aligned_to_the_template_and_others_are_set_aside(folder):
    pages = PageFolder(folder, template_of(folder, form(1)))
    (folder / "b.png").write_bytes(saved(form(2).rotate(180)))
    box = shares("0.05", "0.03", "0.45", "0.06")  # the dark bar at the top
    dark = [
        np.asarray(opened(pages.crop(name, box).png)).mean()
        for name in ("form.png", "b.png")
    ]
    assert dark[0] == pytest.approx(dark[1], abs=12)
    with pytest.raises(BadPage, match="does not look like the template"):
        pages.crop("a.png", box)


def test_boxes_of_a_record_are_compared_with_those_of_the_template(folder):
    pages = PageFolder(folder, template_of(folder, form(1)))
    (folder / "b.png").write_bytes(saved(form(2).rotate(180)))
    ours = pages.crop("b.png", shares("0.05", "0.03", "0.45", "0.06"))
    width, height = form(1).size
    theirs = pages.crop("b.png", pixel_box(f"{width - 200},{height - 60},100,20"))
    far = pages.crop("b.png", pixel_box("0,0,100,20"))
    assert ours.overlaps(theirs)
    assert not ours.overlaps(far)


def test_a_template_that_is_missing_or_another_file_is_refused(folder):
    with pytest.raises(BadPage, match="missing"):
        PageFolder(folder, PageForm("none.png", "a" * 64))
    with pytest.raises(BadPage, match="not the file"):
        PageFolder(folder, PageForm("a.png", "a" * 64))


# -- PDF ---------------------------------------------------------------------------------


def drawn_pdf(*pages):
    out = io.BytesIO()
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:], resolution=72)
    return out.getvalue()


def written_pdf(text="", size=(144, 72), count=1):
    """A PDF of text that a clip hides in part, its first page numbered 1."""
    content = f"BT /F 12 Tf 10 30 Td ({text}) Tj ET".encode()
    kids = " ".join(f"{n + 5} 0 R" for n in range(count))
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size[0]} {size[1]}]/Contents 3 0 R/Resources<</Font<</F 4 0 R>>>>>>"
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>".encode(),
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *[page.encode()] * count,
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(parts) + 1, table)
    return body + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        len(parts) + 1,
        start,
    )


def test_pages_of_a_pdf_are_drawn_and_found_by_number():
    data = drawn_pdf(page(72, 36), page(36, 72, colour="lime"))
    assert pages_in(data) == 2
    first, second = (opened(crop(data, shares(0, 0, 1, 1, n))) for n in (1, 2))
    assert first.size == (200, 100)
    assert second.size == (100, 200)
    assert second.getpixel((90, 150))[1] > 200 > second.getpixel((90, 150))[0]
    with pytest.raises(BadPage, match=r"no page 3 \(the PDF has 2\)"):
        crop(data, shares(0, 0, 1, 1, 3))


def test_the_text_of_a_pdf_stays_behind():
    data = written_pdf(SECRET.decode())
    assert SECRET in data
    shown = crop(data, None)
    assert SECRET not in shown
    assert np.asarray(opened(shown).convert("L")).min() < 100  # it can be read


def test_the_last_of_ten_thousand_pages_of_a_pdf_is_refused():
    data = written_pdf(count=10_000)
    assert pages_in(data) == 10_000
    assert opened(crop(data, shares(0, 0, 1, 1, 1_000))).size == (400, 200)
    with pytest.raises(BadPage, match="first 1,000 pages"):
        crop(data, shares(0, 0, 1, 1, 1_001))


def test_a_page_of_a_pdf_beyond_the_budget_is_refused_before_it_is_drawn():
    with pytest.raises(BadPage, match="60 megapixels"):
        crop(written_pdf(size=(14_400, 14_400)), None)


ENCRYPTED = b"""%%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj
4 0 obj<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>endobj
trailer<</Size 5/Root 1 0 R/Encrypt 4 0 R/ID[<00><00>]>>
%%%%EOF""" % (b"11" * 32, b"22" * 32)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ENCRYPTED, "asks for a password"),
        (b"%PDF-1.7\n" + b"\0" * 500, "damaged"),
        (written_pdf("x")[:60], "damaged"),
        (b"%PDF-1.4", "damaged"),
    ],
)
def test_a_pdf_that_cannot_be_read_is_refused(data, message):
    with pytest.raises(BadPage, match=message):
        crop(data, None)
    with pytest.raises(BadPage, match=message):
        pages_in(data)


def test_a_pdf_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(pdf, "find_spec", lambda name: None)
    with pytest.raises(BadPage, match=r"sparsi-dispatcher\[scans\]"):
        crop(written_pdf(), None)
