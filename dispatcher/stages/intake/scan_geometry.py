"""Geometry of scanned pages: where they lie on a template, and what is printed on them.

A page that slipped in the scanner is turned, moved, or a little larger. To *align* it is
to find the similarity (turn, scale, shift) under which it agrees best with the template:
first over a grid of turns and scales, for all shifts at once by correlation in the
Fourier domain, then to a fraction of a pixel. Where even the best agrees too little, the
page is of another form, and has to be set aside instead of being cut.

Pictures are arrays of *ink* here: 0 is the shade of the paper, 1 the darkest on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import fft, ndimage, optimize

Ink = NDArray[np.float32]
Rectangle = tuple[float, float, float, float]
"""x, y, width and height as shares of the page."""

AGREEMENT: Final = 0.4
"""Least correlation with the template of a page that is taken to be of its form.

Receipts of different shops reach 0.27, filled copies of one form 0.6 and more.
"""
TURNS: Final = np.radians(np.arange(-6, 7))
SCALES: Final = np.log([0.94, 0.97, 1, 1.03, 1.06])
SIDES: Final = (200, 320, 560)
"""Pixels of the longer side of a page: searched, fitted, and fitted once more."""
STEPS: Final = ((0.01, 0.01, 2, 2), (0.002, 0.002, 0.6, 0.6))
SQUARE: Final = 1.1
"""Ratio of sides up to which a page may have been turned by a quarter, unnoticed."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a template lies on a page.

    Attributes
    ----------
    matrix : tuple of float
        a, b, c, d, e, f: the point (x, y) of the template is at (ax + by + c,
        dx + ey + f) on the page, both in pixels.
    size : tuple of int
        Width and height of the template.
    agreement : float
        Correlation of the page with the template, at most 1.
    """

    matrix: tuple[float, float, float, float, float, float]
    size: tuple[int, int]
    agreement: float

    def on_page(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the template is on the page."""
        a, b, c, d, e, f = self.matrix
        return a * x + b * y + c, d * x + e * y + f

    def on_template(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the page is on the template."""
        a, b, c, d, e, f = self.matrix
        area = a * e - b * d
        return (e * (x - c) - b * (y - f)) / area, (a * (y - f) - d * (x - c)) / area

    @property
    def scale(self) -> float:
        """Pixels of the page for one of the template."""
        return float(np.hypot(self.matrix[0], self.matrix[3]))

    @property
    def turn(self) -> float:
        """Degrees by which the page is turned clockwise, from -180 to 180."""
        return float(np.degrees(np.arctan2(self.matrix[3], self.matrix[0])))


def ink(page: Image.Image, longest: int | None = None) -> Ink:
    """Return the ink of a page, scaled to a length of its longer side if one is given."""
    grey = page if page.mode == "L" else page.convert("L")
    if longest is not None:
        share = longest / max(grey.size)
        size = (max(1, round(grey.width * share)), max(1, round(grey.height * share)))
        method = Image.Resampling.BOX if share < 1 else Image.Resampling.BILINEAR
        grey = grey.resize(size, method)
    shades = np.asarray(grey, np.float32)
    dark, paper = np.percentile(shades, (0.5, 75))
    if paper - dark < 8:  # an empty page
        return np.zeros(shades.shape, np.float32)
    inked: Ink = np.clip((paper - shades) / (paper - dark), 0, 1)
    return inked.astype(np.float32, copy=False)


def align(template: Image.Image, page: Image.Image) -> Placement:
    """Find where the template lies on a page, which may be turned by quarters too.

    Returns
    -------
    Placement
        The best one. If its `agreement` is below :data:`AGREEMENT`, the page is not of
        the template's form, and the rest means nothing.
    """
    form, seen = _features(template, SIDES[0]), _features(page, SIDES[0])
    quarters = _quarters(template.size, page.size)
    found = [(*_search(form, np.rot90(seen, n)), n) for n in quarters]
    agreement, fit, quarter = max(found, key=lambda one: one[0])
    before = SIDES[0]
    for side, steps in zip(SIDES[1:], STEPS, strict=True):
        fit[2:] *= side / before
        form, seen = _features(template, side), np.rot90(_features(page, side), quarter)
        simplex = fit + np.vstack([np.zeros(4), np.diag(steps)])
        settings = {"initial_simplex": simplex, "maxfev": 120, "fatol": 1e-5}
        found_here = optimize.minimize(
            lambda fit, form=form, seen=seen: (
                -_agreement(form, _moved(seen, fit, form))
            ),
            fit,
            method="Nelder-Mead",
            options=settings,
        )
        fit, agreement, before = found_here.x, -found_here.fun, side
    return Placement(
        _matrix(fit, form.shape, seen.shape, quarter, template.size, page.size),
        template.size,
        float(agreement),
    )


def _quarters(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, ...]:
    """Return the quarter turns that can bring one page's sides onto another's."""
    if min(max(size) / min(size) for size in (one, other)) < SQUARE:
        return 0, 1, 2, 3
    same = (one[0] > one[1]) == (other[0] > other[1])
    return (0, 2) if same else (1, 3)


def _features(page: Image.Image, side: int) -> Ink:
    """Return what has the size of letters and lines: no dirt, no shadow of a fold."""
    seen = ink(page, side)
    fine: Ink = ndimage.gaussian_filter(seen, 1) - ndimage.gaussian_filter(seen, 8)
    return fine


def _agreement(one: Ink, other: Ink) -> float:
    power = float((one * one).sum()) * float((other * other).sum())
    return float((one * other).sum()) / power**0.5 if power else 0.0


def _linear(fit: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix of a turn and a scale, on (row, column)."""
    turn, scale = fit[0], np.exp(fit[1])
    across, down = np.cos(turn) * scale, np.sin(turn) * scale
    return np.array([[across, down], [-down, across]])


def _centre(shape: tuple[int, ...]) -> NDArray[Any]:
    return (np.array(shape) - 1) / 2


def _moved(seen: Ink, fit: NDArray[Any], form: Ink) -> Ink:
    """Return what is seen, as it lies on the form: about the centres of both."""
    (down, down_across), (across_down, across) = linear = _linear(fit)
    # Pillow counts from the corner of the first pixel, and across before down.
    corner = _centre(seen.shape) + fit[:1:-1] - linear @ (_centre(form.shape) + 0.5)
    matrix = (across, across_down, corner[1] + 0.5, down_across, down, corner[0] + 0.5)
    moved = Image.fromarray(seen).transform(
        form.shape[::-1], Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
    )
    return np.asarray(moved)


def _search(form: Ink, seen: Ink) -> tuple[float, NDArray[Any]]:
    """Try all turns and scales; for each, all shifts at once."""
    lengths = [fft.next_fast_len(2 * side) for side in form.shape]
    spectrum = np.conj(fft.rfft2(form, lengths))
    best, fit = -1.0, np.zeros(4)
    for turn, scale in product(TURNS, SCALES):
        start = np.array([turn, scale, 0.0, 0.0])
        moved = _moved(seen, start, form)
        power = float((form * form).sum()) * float((moved * moved).sum())
        if not power:
            continue
        every = fft.irfft2(fft.rfft2(moved, lengths) * spectrum, lengths)
        peak = np.unravel_index(every.argmax(), every.shape)
        agreement = float(every[peak]) / power**0.5
        if agreement > best:
            shift = [
                at - length if at > length / 2 else at
                for at, length in zip(peak, lengths, strict=True)
            ]
            down, across = _linear(start) @ np.array(shift)
            best, fit = agreement, np.array([turn, scale, across, down])
    return best, fit


def _matrix(
    fit: NDArray[Any],
    form: tuple[int, ...],
    seen: tuple[int, ...],
    quarter: int,
    template: tuple[int, int],
    page: tuple[int, int],
) -> tuple[float, float, float, float, float, float]:
    """Return the placement in pixels of template and page as they were given."""
    corners = np.array([(0, 0), (0, template[0]), (template[1], 0)], float)  # y, x
    small = corners * np.array(form) / np.array(template[::-1]) - 0.5
    linear = _linear(fit)
    at = (small - _centre(form)) @ linear.T + _centre(seen) + fit[:1:-1] + 0.5
    turned = at / np.array(seen)  # shares of the page, turned by quarters
    for _ in range(quarter):
        turned = np.column_stack([turned[:, 1], 1 - turned[:, 0]])
    (y, x), (y_right, x_right), (y_below, x_below) = turned * np.array(page[::-1])
    width, height = template
    return (
        float(x_right - x) / width,
        float(x_below - x) / height,
        float(x),
        float(y_right - y) / width,
        float(y_below - y) / height,
        float(y),
    )


# -- what is printed on a page: lines and blocks that boxes snap to ---------------------

LONGEST: Final = 1_000  # pixels of the longer side of a page that is looked at
DARK: Final = 0.3
"""Ink from which a pixel counts as printed."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What boxes snap to.

    Attributes
    ----------
    across, down : list of (float, float, float)
        Ruled lines: their y with the x of both ends, their x with the y of both ends;
        as shares of the page.
    blocks : list of Rectangle
        Words and lines of text that stand together.
    """

    across: list[tuple[float, float, float]]
    down: list[tuple[float, float, float]]
    blocks: list[Rectangle]


def marks(page: Image.Image) -> Marks:
    """Find ruled lines and blocks of text of a page that stands straight."""
    printed = ink(page, min(LONGEST, max(page.size))) > DARK
    wide = printed.shape[1]
    across, rows = _lines(printed, max(12, wide // 12))
    down, columns = _lines(printed.T, max(12, wide // 16))
    text = printed & ~rows & ~columns.T
    return Marks(across, down, _blocks(text))


def _lines(
    printed: NDArray[np.bool_], least: int
) -> tuple[list[tuple[float, float, float]], Any]:
    """Return the lines across that are so long without a break, and their pixels."""
    height, width = printed.shape
    found = ndimage.binary_opening(printed, np.ones((1, least)))
    labels, _ = ndimage.label(found, np.ones((3, 3)))
    lines = []
    for rows, columns in ndimage.find_objects(labels):
        if rows.stop - rows.start <= max(6, height // 100):  # thicker is no line
            middle = (rows.start + rows.stop) / 2 / height
            lines.append((middle, columns.start / width, columns.stop / width))
    return lines, ndimage.binary_dilation(found, np.ones((3, 3)))


def _blocks(text: NDArray[np.bool_]) -> list[Rectangle]:
    """Return boxes of text: what is nearer to each other than letters are high."""
    height, width = text.shape
    letters, count = ndimage.label(text, np.ones((3, 3)))
    if not count:
        return []
    tall = [s[0].stop - s[0].start for s in ndimage.find_objects(letters)]
    high = float(np.median([t for t in tall if t > 3] or [4]))
    reach = max(3, round(high * 1.6)) | 1
    joined = ndimage.binary_closing(np.pad(text, reach), np.ones((1, reach)))[
        reach:-reach, reach:-reach
    ]
    labels, _ = ndimage.label(joined, np.ones((3, 3)))
    blocks = []
    for rows, columns in ndimage.find_objects(labels):
        tall, wide = rows.stop - rows.start, columns.stop - columns.start
        if tall < max(3, high / 2) or wide < 3:
            continue  # a speck
        blocks.append(
            (columns.start / width, rows.start / height, wide / width, tall / height)
        )
    return blocks


def border_ink(crop: Image.Image) -> float:
    """Return the share of dark pixels along the border of a crop: of its worst side.

    Ink on the border of a crop goes on beyond it, or belongs to a neighbour: the box
    cuts through something. A ruled line that runs along a side is the form's own and
    says nothing: it is left out, as are the corners, where other sides' lines end.
    """
    dark = ink(crop) > DARK
    worst = 0.0
    for _ in range(4):  # each side in turn
        depth = min(BORDER, *(side // 4 for side in dark.shape))
        side = dark[0].copy()
        along = dark[: max(1, depth)].any(axis=0)
        runs, count = ndimage.label(along)
        for run in range(1, count + 1):
            if (runs == run).mean() >= RULED:
                side[runs == run] = False
        worst = max(worst, float(side[depth : len(side) - depth].mean()))
        dark = np.rot90(dark)
    return worst


RULED: Final = 0.5
"""Share of a side from which unbroken ink is a ruled line."""
BORDER: Final = 4
"""Pixels from a side within which a ruled line lies along it."""
