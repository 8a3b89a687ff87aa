"""Crops: the box and nothing else, from a page inside the folder."""

import io
import os
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from dispatcher.stages.intake.images import (
    BadPage,
    Box,
    Pages,
    crop,
    pixel_box,
)

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
    assert opened(Pages(tmp_path).crop("page.dat", None).png).size == (20, 10)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "PPM"])
def test_other_image_formats_are_refused(kind):
    with pytest.raises(BadPage, match="no PNG, JPEG, TIFF or WebP"):
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
    with pytest.raises(BadPage, match=r"damaged|no PNG"):
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
        Pages(folder).crop(path, None)


def test_an_absolute_path_is_refused_even_into_the_folder(folder):
    with pytest.raises(BadPage, match="leads out"):
        Pages(folder).crop(str(folder / "a.png"), None)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_followed(folder):
    (folder / "out.png").symlink_to("../out.png")
    (folder / "b.png").symlink_to("a.png")
    with pytest.raises(BadPage, match="leads out"):
        Pages(folder).crop("out.png", None)
    assert Pages(folder).crop("b.png", None)


@pytest.mark.parametrize("path", ["none.png", "sub", "a\0.png", "a.png/x", "x" * 5_000])
def test_a_page_that_is_not_there_is_refused(folder, path):
    (folder / "sub").mkdir()
    with pytest.raises(BadPage, match=r"missing|no file"):
        Pages(folder).crop(path, None)


def test_a_pipe_is_no_page(folder):
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(BadPage, match="no file"):
        Pages(folder).crop("pipe.png", None)


def test_a_page_is_decoded_once_for_all_its_crops(folder, monkeypatch):
    pages = Pages(folder)
    first = pages.crop("a.png", pixel_box("0,0,2,2"))
    (folder / "a.png").unlink()
    assert pages.crop("a.png", pixel_box("0,0,2,2")) == first


def test_few_pages_are_kept(folder):
    pages = Pages(folder)
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
        ("WEBP", "RGB", 5_100, {"quality": 1}),
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
data = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    crop(data, None)
except BadPage:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    ("kind", "mode", "side", "options"),
    [
        ("PNG", "P", 7_700, {"compress_level": 9, "transparency": bytes(10)}),
        ("PNG", "RGBA", 5_900, {"compress_level": 1}),
        ("TIFF", "RGB", 7_000, {"compression": "tiff_deflate"}),
        ("WEBP", "RGB", 7_000, {"quality": 1}),
    ],
)
def test_no_small_file_takes_more_memory_than_the_budget(
    tmp_path, kind, mode, side, options
):
    """A palette of 59 megapixels in some kilobytes took 921 MB."""
    file = tmp_path / "page"
    file.write_bytes(big(kind, mode, side, **options))
    assert file.stat().st_size < 2 << 20
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 400


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
