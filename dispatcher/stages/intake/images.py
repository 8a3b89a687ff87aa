"""Crops of pages: the box and nothing else, re-encoded without any metadata.

A crop is the only part of a page that is ever shown. It is cut after the page was
turned upright (EXIF orientation) and aligned to the template, if there is one; it never
extends beyond its box; what is to be painted over is painted before it leaves; and it is
re-encoded as PNG from bare pixels, so that no EXIF, XMP, ICC, text or thumbnail is
included.

A few kilobytes can decode to gigabytes, so the memory for decoding is computed from the
header, and a page beyond the budget is refused before a pixel is decoded. Pages are
kept as they are stored (a palette stays a palette); colours are made of the box alone.
"""

from __future__ import annotations

import io
import stat
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import ceil, floor
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageOps, UnidentifiedImageError

from dispatcher.stages.intake import pdf

if TYPE_CHECKING:
    from dispatcher.stages.intake.scan_geometry import Placement

MAX_PIXELS: Final = 60_000_000
MAX_FILE: Final = 128 << 20
FORMATS: Final = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_DECODED: Final = 384 << 20
"""Bytes that a decoded page and what is shown of it may take together."""
MAX_FRAMES: Final = 1_000  # pages of one file
WIDTHS: Final = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
"""Bytes a pixel as Pillow keeps it, by mode; all others have four."""
STRIP: Final = 256  # rows of a page that are cut at a time


class BadPage(Exception):
    """A page or box that cannot be cut; the message contains no value."""


@dataclass(frozen=True, slots=True)
class Box:
    """What to cut: shares of the page if `shares`, else pixels.

    Attributes
    ----------
    x, y, width, height : Fraction
        From the top left corner of the upright page.
    page : int
        From 1.
    """

    x: Fraction
    y: Fraction
    width: Fraction
    height: Fraction
    shares: bool = False
    page: int = 1

    def pixels(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return (left, upper, right, lower), rounded inwards.

        Raises
        ------
        BadPage
            The box is empty or reaches outside of the page.
        """
        across, down = size if self.shares else (1, 1)
        left, upper = self.x * across, self.y * down
        right, lower = left + self.width * across, upper + self.height * down
        if left < 0 or upper < 0 or right > size[0] or lower > size[1]:
            raise BadPage(f"the box reaches outside of the page ({size[0]}x{size[1]})")
        cut = (ceil(left), ceil(upper), floor(right), floor(lower))
        if cut[0] >= cut[2] or cut[1] >= cut[3]:
            raise BadPage("the box is smaller than a pixel")
        return cut


def pixel_box(text: str) -> Box:
    """Parse ``x,y,width,height`` in whole pixels, from a record's own column.

    Raises
    ------
    BadPage
        The text is no such box.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 4 or not all(p.isascii() and p.isdigit() for p in parts):
        raise BadPage("a box is x,y,width,height in whole pixels")
    if any(len(part) > 9 for part in parts):
        raise BadPage("the box reaches outside of the page")
    x, y, width, height = (Fraction(int(part)) for part in parts)
    return Box(x, y, width, height)


@dataclass(frozen=True, slots=True)
class Crop:
    """A crop.

    Attributes
    ----------
    page : tuple of int
        The file, by whatever path, and its page.
    area : tuple of int
        (left, upper, right, lower) in pixels of the upright page.
    png : bytes
    """

    page: tuple[int, ...]
    area: tuple[int, int, int, int]
    png: bytes

    def overlaps(self, other: Crop) -> bool:
        """Whether both show some pixel."""
        left, upper, right, lower = self.area
        x, y, x_end, y_end = other.area
        return (
            self.page == other.page
            and max(left, x) < min(right, x_end)
            and max(upper, y) < min(lower, y_end)
        )


@dataclass(frozen=True, slots=True)
class PageForm:
    """What a policy says of all pages.

    Attributes
    ----------
    template : str
        Path of the scan that pages are aligned to; empty if they are cut as they are.
    sha256 : str
        Of that file.
    redactions : tuple of Box
        What is painted over, as shares of the page.
    """

    template: str = ""
    sha256: str = ""
    redactions: tuple[Box, ...] = ()


class PageFolder:
    """Pages of a folder; the most recent ones are cached while their crops are cut.

    Parameters
    ----------
    folder : Path
        Nothing outside of it is ever opened.
    form : PageForm

    Raises
    ------
    BadPage
        The template is missing, or is not the file that the policy names.
    """

    def __init__(self, folder: Path, form: PageForm = PageForm()) -> None:
        self._folder = folder.resolve()
        self._form = form
        self._kept: OrderedDict[tuple[str, int], _DecodedPage] = OrderedDict()
        self._template = b""
        self._template_file: tuple[int, int] | None = None
        self._template_pages: dict[int, Image.Image] = {}
        if form.template:
            self._template, self._template_file = self._read_template(form)

    def _read_template(self, form: PageForm) -> tuple[bytes, tuple[int, int]]:
        """Read the template: by its path in the folder, or else by its name there.

        Its path is that from the policy file, whose folder the pages need not be in. The
        digest tells whether it is the file.
        """
        paths = dict.fromkeys([form.template, PurePosixPath(form.template).name])
        found = 0
        for path in paths:
            with suppress(BadPage):
                content, file = self._read(path)
                found += 1
                if sha256(content).hexdigest() == form.sha256:
                    return content, file
        if found:
            raise BadPage("the template is not the file that the boxes were drawn on")
        raise BadPage(
            f"the template is missing: the folder of the pages ({self._folder}) has no "
            + " and no ".join(paths)
        )

    def under(self, form: PageForm) -> PageFolder:
        """Return the pages of the same folder under what a policy says of them."""
        return PageFolder(self._folder, form)

    def crop(self, path: str, box: Box | None) -> Crop:
        """Cut a box of the page, or the whole first page.

        Parameters
        ----------
        path : str
            Relative to the folder.
        box : Box or None

        Raises
        ------
        BadPage
            The path leaves the folder or names no image, or the box does not fit.
        """
        number = 1 if box is None else box.page
        page = self._page(path, number)
        painted = [one for one in self._form.redactions if one.page == number]
        area, image = cut(page.image, box, page.placement, painted)
        return Crop(page.identity, area, _encoded(image))

    def _page(self, path: str, number: int) -> _DecodedPage:
        page = self._kept.get((path, number))
        if page is None:
            raw, file = self._read(path)
            image = decoded_page(raw, number)
            placement = None
            if self._template and file != self._template_file:
                placement = placed(self._template_page(number), image)
            page = _DecodedPage((*file, number), image, placement)
            self._keep((path, number), page)
        return page

    def _template_page(self, number: int) -> Image.Image:
        """Return a page of the template, grey."""
        kept = self._template_pages.get(number)
        if kept is None:
            kept = _grey(decoded_page(self._template, number))
            self._template_pages[number] = kept
        return kept

    def _keep(self, key: tuple[str, int], page: _DecodedPage) -> None:
        self._kept[key] = page
        size = sum(kept.size for kept in self._kept.values())
        while len(self._kept) > 1 and size > MAX_DECODED:
            _, dropped = self._kept.popitem(last=False)
            size -= dropped.size
        while len(self._kept) > 4:
            self._kept.popitem(last=False)

    def _read(self, text: str) -> tuple[bytes, tuple[int, int]]:
        """Read a file of the folder; return its content and its identity."""
        for kind in (PurePosixPath(text), PureWindowsPath(text)):
            if kind.is_absolute() or kind.drive or ".." in kind.parts:
                raise BadPage("the path of the page leads out of the import folder")
        try:
            path = (self._folder / text).resolve(strict=True)
            if not path.is_relative_to(self._folder):
                raise BadPage("the path of the page leads out of the import folder")
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):
                raise BadPage("the page is no file")
            if facts.st_size > MAX_FILE:
                raise BadPage(f"the page is larger than {MAX_FILE >> 20} MiB")
            return path.read_bytes(), (facts.st_dev, facts.st_ino)
        except (OSError, ValueError, RuntimeError):
            raise BadPage("the file of the page is missing or unreadable") from None


@dataclass(frozen=True, slots=True)
class _DecodedPage:
    """A decoded page, with its file and page number."""

    identity: tuple[int, ...]
    image: Image.Image
    placement: Placement | None

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.image.width * self.image.height * _width(self.image.mode)


def crop(page_bytes: bytes, box: Box | None) -> bytes:
    """Return the PNG of a box of an image file, or of its whole first page.

    Raises
    ------
    BadPage
        The bytes are no image of a known format, or the box does not fit.
    """
    page = decoded_page(page_bytes, 1 if box is None else box.page)
    return _encoded(cut(page, box)[1])


def placed(template: Image.Image, page: Image.Image) -> Placement:
    """Find where the template lies on a page.

    Raises
    ------
    BadPage
        The page is of another form.
    """
    # With scipy, which only files with a template need.
    from dispatcher.stages.intake.scan_geometry import (  # noqa: PLC0415
        AGREEMENT,
        align,
    )

    found = align(template, _grey(page))
    if found.agreement < AGREEMENT:
        raise BadPage(
            "the page does not look like the template: it is set aside for a person "
            f"(agreement {found.agreement:.2f}, {AGREEMENT} is needed)"
        )
    return found


def pages_in(page_bytes: bytes) -> int:
    """Return the number of pages of a file.

    Raises
    ------
    BadPage
        The bytes are no page.
    """
    if page_bytes.startswith(pdf.MAGIC):
        try:
            return pdf.count(page_bytes)
        except pdf.BadPdf as error:
            raise BadPage(str(error)) from None
    try:
        with Image.open(io.BytesIO(page_bytes), formats=FORMATS) as image:
            return int(getattr(image, "n_frames", 1))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise BadPage(_TOO_LARGE) from None
    except Exception:  # noqa: BLE001 - whatever a decoder raises
        raise BadPage("the page is no PDF, PNG, JPEG, TIFF or WebP image") from None


def decoded_page(page_bytes: bytes, number: int) -> Image.Image:
    """Decode one page, upright, in the mode that it is stored in.

    Raises
    ------
    BadPage
        No image, not one of PDF, PNG, JPEG, TIFF and WebP, over 60 megapixels or the
        budget of bytes, truncated, encrypted, or no such page.
    """
    if page_bytes.startswith(pdf.MAGIC):
        return _drawn(page_bytes, number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.filterwarnings("ignore", category=UserWarning)
            with Image.open(io.BytesIO(page_bytes), formats=FORMATS) as image:
                _turn_to(image, number)
                image.load()
                ImageOps.exif_transpose(image, in_place=True)
                return image.copy() if getattr(image, "n_frames", 1) > 1 else image
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise BadPage(_TOO_LARGE) from None
    except UnidentifiedImageError:
        raise BadPage("the page is no PDF, PNG, JPEG, TIFF or WebP image") from None
    except BadPage:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError):
        raise BadPage("the image of the page is damaged or cut short") from None
    except MemoryError:
        raise BadPage(_TOO_MUCH) from None


def _drawn(page_bytes: bytes, number: int) -> Image.Image:
    """Return a page of a PDF as it is drawn."""
    if number > MAX_FRAMES:
        raise BadPage(_TOO_LATE)
    try:
        size, rows = pdf.draw(page_bytes, number, MAX_PIXELS)
    except pdf.BadPdf as error:
        raise BadPage(str(error)) from None
    return Image.frombytes("RGB", size, rows)


_TOO_LATE: Final = f"only the first {MAX_FRAMES:,} pages of a file can be shown"
_TOO_DEEP: Final = (
    "the page has 32 bits a pixel, and no scale says which of them are white: save it "
    "with 8 or 16"
)
_TOO_LARGE: Final = f"the page has more than {MAX_PIXELS // 1_000_000} megapixels"
_TOO_MUCH: Final = f"decoding the page would take more than {MAX_DECODED >> 20} MiB"


def _width(mode: str) -> int:
    return WIDTHS.get(mode, 4)


def _turn_to(image: Image.Image, number: int) -> None:
    """Go to the page; before decoding, refuse it if it takes too much memory."""
    _check_size(image)
    pages = getattr(image, "n_frames", 1)
    if not 1 <= number <= pages:
        raise BadPage(f"there is no page {number} (the image has {pages})")
    if number > MAX_FRAMES:
        raise BadPage(_TOO_LATE)
    if number > 1:
        image.seek(number - 1)
        _check_size(image)


def _check_size(image: Image.Image) -> None:
    """Refuse a page by its header: its pixels, and the buffers of its decoder."""
    if image.mode in ("I", "F"):
        raise BadPage(_TOO_DEEP)
    if image.width * image.height > MAX_PIXELS:
        raise BadPage(_TOO_LARGE)
    size = image.width * image.height * _width(image.mode)
    if image.format == "WEBP":
        size *= 4  # its decoder keeps two canvases and copies the frame twice
    if image.format == "JPEG" and getattr(image, "info", {}).get("progressive"):
        # all coefficients are held: two bytes for each of them
        size += image.width * image.height * 2 * len(image.getbands())
    tags = getattr(image, "tag_v2", {})
    across, down = (tags.get(number) for number in (322, 323))  # of a tile of a TIFF
    if isinstance(across, int) and isinstance(down, int):
        size = max(size, across * down * 4)
    if size > MAX_DECODED:
        raise BadPage(_TOO_MUCH)


def cut(
    page: Image.Image,
    box: Box | None,
    placement: Placement | None = None,
    painted: Sequence[Box] = (),
) -> tuple[tuple[int, int, int, int], Image.Image]:
    """Cut a box of a decoded page: colours without a palette, on white.

    Parameters
    ----------
    page : Image
    box : Box or None
        None: the whole page. A box in pixels is one of the page itself.
    placement : Placement, optional
        Where the template of a box in shares lies on the page.
    painted : sequence of Box
        What is painted over, in shares of the template or, without one, of the page.

    Returns
    -------
    tuple of int
        The area that was cut, in pixels of the template or, without one, of the page.
    Image

    Raises
    ------
    BadPage
        The box does not fit, or the page and the box take more than the budget.
    """
    size = page.size if placement is None else placement.size
    if placement is not None and (box is None or box.shares):
        area = (0, 0, *size) if box is None else box.pixels(size)
        image, onto = _cut_aligned(page, area, placement)
    else:
        area = (0, 0, *page.size) if box is None else box.pixels(page.size)
        image, onto = _cut_straight(page, area, placement)
        if placement is not None:
            area = _around([placement.on_template(*point) for point in _corners(area)])
    for one in painted:
        _paint(image, [onto(*point) for point in _corners(_edges(one, size))])
    return area, image


Onto = Callable[[float, float], tuple[float, float]]
"""Where a point of the template, or of the page without one, is on a crop."""
Edges = tuple[float, float, float, float]


def _edges(box: Box, size: tuple[int, int]) -> Edges:
    """Return left, upper, right and lower of a box in shares of a page of this size."""
    width, height = size
    left, upper = float(box.x * width), float(box.y * height)
    right = float((box.x + box.width) * width)
    return left, upper, right, float((box.y + box.height) * height)


def _corners(edges: Edges) -> list[tuple[float, float]]:
    left, upper, right, lower = edges
    return [(left, upper), (right, upper), (right, lower), (left, lower)]


def _around(points: Sequence[tuple[float, float]]) -> tuple[int, int, int, int]:
    across, down = zip(*points, strict=True)
    return floor(min(across)), floor(min(down)), ceil(max(across)), ceil(max(down))


def _paint(image: Image.Image, corners: Sequence[tuple[float, float]]) -> None:
    """Paint over what lies between corners, and every pixel that they touch."""
    draw = ImageDraw.Draw(image)
    if corners[0][1] == corners[1][1]:
        left, upper, right, lower = _around(corners)
        if right > 0 and lower > 0:
            draw.rectangle((left, upper, right - 1, lower - 1), fill="black")
    else:
        draw.polygon(corners, fill="black", outline="black", width=3)


def _cut_straight(
    page: Image.Image, area: tuple[int, int, int, int], placement: Placement | None
) -> tuple[Image.Image, Onto]:
    left, top, right, bottom = area
    mode, seen = _how_seen(page)
    size = (right - left, bottom - top)
    _check_budget(page, size, mode)
    bare = Image.new(mode, size)  # takes over no info of the page
    for upper in range(top, bottom, STRIP):
        strip = page.crop((left, upper, right, min(upper + STRIP, bottom)))
        bare.paste(seen(strip), (0, upper - top))

    def onto(x: float, y: float) -> tuple[float, float]:
        if placement is not None:
            x, y = placement.on_page(x, y)
        return x - left, y - top

    return bare, onto


def _cut_aligned(
    page: Image.Image, area: tuple[int, int, int, int], placement: Placement
) -> tuple[Image.Image, Onto]:
    """Cut an area of the template out of a page that lies askew.

    Pixels are mixed of the nearest four. So that none is from beyond the box, half a
    pixel of the page is left out on each side.
    """
    scale = placement.scale
    left, upper = area[0] + 0.5 / scale, area[1] + 0.5 / scale
    width = floor((area[2] - area[0]) * scale - 1)
    height = floor((area[3] - area[1]) * scale - 1)
    if min(width, height) < 1:
        raise BadPage("the box is smaller than a pixel")
    around = _around([placement.on_page(*point) for point in _corners(area)])
    x, y = max(0, around[0] - 1), max(0, around[1] - 1)
    x_end, y_end = min(page.width, around[2] + 1), min(page.height, around[3] + 1)
    if x >= x_end or y >= y_end:
        raise BadPage("the box lies beside the page, as it is aligned to the template")
    _, part = cut(page, _whole_pixels(x, y, x_end, y_end))
    part = part if part.mode == "RGB" else part.convert("L")
    _check_budget(page, (width + part.width, height + part.height), part.mode)
    a, b, c, d, e, f = placement.matrix
    matrix = (
        a / scale,
        b / scale,
        a * left + b * upper + c - x,
        d / scale,
        e / scale,
        d * left + e * upper + f - y,
    )
    image = part.transform(
        (width, height),
        Image.Transform.AFFINE,
        matrix,
        Image.Resampling.BILINEAR,
        fillcolor="white",
    )
    return image, lambda x, y: ((x - left) * scale, (y - upper) * scale)


def _whole_pixels(left: int, upper: int, right: int, lower: int) -> Box:
    corner = Fraction(left), Fraction(upper)
    return Box(*corner, Fraction(right - left), Fraction(lower - upper))


def _check_budget(page: Image.Image, size: tuple[int, int], mode: str) -> None:
    taken = page.width * page.height * _width(page.mode)
    if taken + size[0] * size[1] * _width(mode) > MAX_DECODED:
        raise BadPage(_TOO_MUCH)


def _grey(page: Image.Image) -> Image.Image:
    """Return a page as it is seen, grey and of its size, on white."""
    grey = Image.new("L", page.size)
    _, seen = _how_seen(page)
    for upper in range(0, page.height, STRIP):
        strip = page.crop((0, upper, page.width, min(upper + STRIP, page.height)))
        grey.paste(seen(strip).convert("L"), (0, upper))
    return grey


def _encoded(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=6)
    return out.getvalue()


def _how_seen(page: Image.Image) -> tuple[str, Callable[[Image.Image], Image.Image]]:
    """Return the mode in which a page is shown, and a converter of strips to it."""
    if page.mode in ("1", "L", "RGB") and "transparency" not in page.info:
        return page.mode, lambda strip: strip
    if page.mode.startswith("I"):  # 16 bits a pixel; none is shown on a screen
        return "L", _shades
    if page.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
        return "RGB", lambda strip: strip.convert("RGB")
    return "RGB", _on_paper


def _shades(strip: Image.Image) -> Image.Image:
    return strip.convert("I").point(lambda value: value / 256).convert("L")


def _on_paper(strip: Image.Image) -> Image.Image:
    seen = strip.convert("RGBA")
    paper = Image.new("RGBA", seen.size, "white")
    paper.alpha_composite(seen)
    return paper.convert("RGB")
