"""Crops of pages: the box and nothing else, re-encoded without any metadata.

A crop is the only part of a page that is ever shown. It is cut after the page was
turned upright (EXIF orientation), never extends beyond its box, and is re-encoded as
PNG from bare pixels, so that no EXIF, XMP, ICC, text or thumbnail is included.

A few kilobytes can decode to gigabytes, so the memory for decoding is computed from the
header, and a page beyond the budget is refused before a pixel is decoded. Pages are
kept as they are stored (a palette stays a palette); colours are made of the box alone.
"""

from __future__ import annotations

import io
import stat
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from PIL import Image, ImageOps, UnidentifiedImageError

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


class Pages:
    """Pages of a folder; the most recent ones are cached while their crops are cut.

    Parameters
    ----------
    folder : Path
        Nothing outside of it is ever opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._kept: OrderedDict[tuple[str, int], _Page] = OrderedDict()

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
        page = self._kept.get((path, number))
        if page is None:
            raw, file = self._read(path)
            page = _Page((*file, number), decoded_page(raw, number))
            self._keep((path, number), page)
        image = page.image
        area = (0, 0, *image.size) if box is None else box.pixels(image.size)
        return Crop(page.identity, area, cut_page(image, box))

    def _keep(self, key: tuple[str, int], page: _Page) -> None:
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
class _Page:
    """A decoded page, with its file and page number."""

    identity: tuple[int, ...]
    image: Image.Image

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
    return cut_page(decoded_page(page_bytes, 1 if box is None else box.page), box)


def decoded_page(page_bytes: bytes, number: int) -> Image.Image:
    """Decode one page, upright, in the mode that it is stored in.

    Raises
    ------
    BadPage
        No image, not one of PNG, JPEG, TIFF and WebP, over 60 megapixels or the budget
        of bytes, truncated, or no such page.
    """
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
        raise BadPage("the page is no PNG, JPEG, TIFF or WebP image") from None
    except BadPage:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError):
        raise BadPage("the image of the page is damaged or cut short") from None
    except MemoryError:
        raise BadPage(_TOO_MUCH) from None


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
        raise BadPage(f"only the first {MAX_FRAMES:,} pages of a file can be shown")
    if number > 1:
        image.seek(number - 1)
        _check_size(image)


def _check_size(image: Image.Image) -> None:
    """Refuse a page by its header: its pixels, and the buffers of its decoder."""
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


def cut_page(page: Image.Image, box: Box | None) -> bytes:
    """Return the PNG of a box of a decoded page: colours without a palette, on white.

    Raises
    ------
    BadPage
        The box does not fit, or the page and the box take more than the budget.
    """
    left, top, right, bottom = (
        (0, 0, *page.size) if box is None else box.pixels(page.size)
    )
    mode, seen = _how_seen(page)
    size = (right - left, bottom - top)
    taken = page.width * page.height * _width(page.mode)
    if taken + size[0] * size[1] * _width(mode) > MAX_DECODED:
        raise BadPage(_TOO_MUCH)
    bare = Image.new(mode, size)  # takes over no info of the page
    for upper in range(top, bottom, STRIP):
        strip = page.crop((left, upper, right, min(upper + STRIP, bottom)))
        bare.paste(seen(strip), (0, upper - top))
    out = io.BytesIO()
    bare.save(out, "PNG", compress_level=6)
    return out.getvalue()


def _how_seen(page: Image.Image) -> tuple[str, Callable[[Image.Image], Image.Image]]:
    """Return the mode in which a page is shown, and a converter of strips to it."""
    if page.mode in ("1", "L", "RGB") and "transparency" not in page.info:
        return page.mode, lambda strip: strip
    if page.mode.startswith("I"):  # 16 bits a pixel; none is shown on a screen
        return "L", _shades
    if page.mode in ("CMYK", "YCbCr", "LAB", "HSV", "F"):
        return "RGB", lambda strip: strip.convert("RGB")
    return "RGB", _on_paper


def _shades(strip: Image.Image) -> Image.Image:
    return strip.convert("I").point(lambda value: value / 256).convert("L")


def _on_paper(strip: Image.Image) -> Image.Image:
    seen = strip.convert("RGBA")
    paper = Image.new("RGBA", seen.size, "white")
    paper.alpha_composite(seen)
    return paper.convert("RGB")
