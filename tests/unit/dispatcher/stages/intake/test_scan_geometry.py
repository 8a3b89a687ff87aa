"""Alignment to a template, what boxes snap to, and ink at the border of a crop."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from dispatcher.stages.intake.scan_geometry import (
    AGREEMENT,
    align,
    border_ink,
    ink,
    marks,
)

SIZE = (620, 877)  # A4 at 75 dots an inch


def form(filled=0, size=SIZE):
    """A printed form with five ruled fields; made-up writing by number."""
    page = Image.new("L", SIZE, 250)
    draw = ImageDraw.Draw(page)
    draw.rectangle((40, 30, 300, 70), fill=60)
    draw.text((60, 90), "Prescription of the example clinic, ward 7", fill=20)
    rng = np.random.default_rng(filled)
    for row in range(5):
        top = 140 + 120 * row
        draw.text((60, top), f"Field number {row}, please print", fill=20)
        draw.rectangle((60, top + 20, 560, top + 70), outline=20, width=2)
        if filled:
            letters = (
                rng.integers(97, 123, rng.integers(8, 26), np.uint8).tobytes().decode()
            )
            draw.text((70, top + 35), letters, fill=40, font_size=18)
    return page if size == SIZE else page.resize(size)


def turned(page, degrees, shift=(0, 0), zoom=1.0):
    """The page as a scanner might give it, and where a point of it is then."""
    width, height = page.size
    turn = np.radians(degrees)
    across, down = np.cos(turn) / zoom, np.sin(turn) / zoom
    x, y = width / 2, height / 2
    a = across, down, x - across * (x + shift[0]) - down * (y + shift[1])
    b = -down, across, y + down * (x + shift[0]) - across * (y + shift[1])
    scanned = page.transform(
        page.size, Image.Transform.AFFINE, (*a, *b), Image.Resampling.BICUBIC,
        fillcolor=250,
    )  # fmt: skip

    def at(px, py):
        cos, sin = np.cos(turn) * zoom, np.sin(turn) * zoom
        px, py = px - x, py - y
        return cos * px - sin * py + x + shift[0], sin * px + cos * py + y + shift[1]

    return scanned, at


def error(placement, at):
    """The greatest distance of a corner of the form from where it is, in pixels."""
    corners = [(40, 30), (560, 30), (40, 690), (560, 690)]
    return max(
        float(np.hypot(*np.subtract(placement.on_page(*c), at(*c)))) for c in corners
    )


@pytest.mark.parametrize(
    ("degrees", "shift", "zoom"),
    [
        (0, (0, 0), 1.0),
        (-3.4, (-20, 14), 1.02),
        (5.5, (30, 40), 0.97),
    ],
)
def test_another_filled_form_is_found_to_a_pixel_and_a_half(degrees, shift, zoom):
    scanned, at = turned(form(2), degrees, shift, zoom)
    placement = align(form(1), scanned)
    assert placement.agreement > AGREEMENT
    assert error(placement, at) < 1.5
    assert placement.turn == pytest.approx(degrees, abs=0.2)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_form_that_lay_on_its_side_or_head_is_found(quarters):
    scanned = form(2).rotate(90 * quarters, expand=True)
    placement = align(form(1), scanned)
    assert placement.agreement > AGREEMENT
    width, height = SIZE
    corner = {1: (0, width), 2: (width, height), 3: (height, 0)}[quarters]
    assert placement.on_page(0, 0) == pytest.approx(corner, abs=1.5)
    assert placement.on_template(*corner) == pytest.approx((0, 0), abs=1.5)


def test_a_form_scanned_with_twice_the_dots_is_found():
    placement = align(form(1), form(2, (1240, 1754)))
    assert placement.scale == pytest.approx(2, abs=0.01)
    assert error(placement, lambda x, y: (2 * x, 2 * y)) < 3


def letter(seed):
    """A page of text that is no form."""
    page = Image.new("L", SIZE, 245)
    draw = ImageDraw.Draw(page)
    rng = np.random.default_rng(seed)
    for row in range(40):
        line = rng.integers(97, 123, rng.integers(10, 60), np.uint8).tobytes().decode()
        draw.text((rng.integers(40, 120), 40 + 20 * row), line, fill=30, font_size=13)
    return page


@pytest.mark.parametrize("other", [letter(1), letter(2), Image.new("L", SIZE, 255)])
def test_a_page_of_another_form_agrees_too_little(other):
    assert align(form(1), other).agreement < AGREEMENT


def test_ruled_lines_and_blocks_of_text_are_found_where_they_are():
    width, height = SIZE
    found = marks(form(1))
    tops = [140 + 120 * row for row in range(5)]
    across = sorted(y * height for y, _, _ in found.across)
    for top in tops:
        for line in (top + 21, top + 70):
            assert min(abs(y - line) for y in across) < 2
    assert min(abs(x * width - 61) for x, _, _ in found.down) < 2
    assert min(abs(x * width - 560) for x, _, _ in found.down) < 2
    blocks = [(x * width, y * height, w * width) for x, y, w, _ in found.blocks]
    for top in tops:
        assert any(
            abs(x - 60) < 4 and 0 <= y - top < 8 and w > 90 for x, y, w in blocks
        )


def test_an_empty_page_has_no_marks():
    found = marks(Image.new("L", (50, 80), 240))
    assert (found.across, found.down, found.blocks) == ([], [], [])


def cropped(box):
    return form(1).crop(box)


def test_a_box_around_its_field_has_no_ink_at_its_border():
    assert border_ink(cropped((64, 165, 556, 205))) == 0


def test_a_box_that_cuts_through_writing_is_told_by_its_border():
    across_letters = cropped((64, 184, 300, 205))
    assert border_ink(across_letters) > 0.05


def test_a_ruled_line_along_a_side_is_no_ink_of_a_neighbour():
    assert border_ink(cropped((66, 161, 550, 200))) == 0
    askew = form(1).rotate(0.2, fillcolor=250)
    assert border_ink(askew.crop((59, 159, 562, 212))) < 0.02


def test_a_pale_scan_has_the_ink_of_a_dark_one():
    pale = form(1).point(lambda shade: 200 + shade // 8)
    assert np.abs(ink(pale) - ink(form(1))).mean() < 0.02
