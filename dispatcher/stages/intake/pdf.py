"""Pages of PDF files as pictures, drawn by PDFium in a process of its own.

A PDF is a program of somebody else: it is read by a child process that may use little
memory and time and can write no file. The child is this file, run by itself; it knows
nothing of the store. What it draws is a bare picture: text layers, links, scripts and
what a clip hides stay behind. What somebody filled into a form is drawn too.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

DPI: Final = 200
SECONDS: Final = 60
MEMORY: Final = 1 << 30
MAGIC: Final = b"%PDF-"


class BadPdf(Exception):
    """A PDF that cannot be drawn; the message contains nothing of it."""


def count(data: bytes) -> int:
    """Return the number of pages.

    Raises
    ------
    BadPdf
    """
    return int(_ask(data, "count", 0, 0)[0][0])


def draw(data: bytes, number: int, max_pixels: int) -> tuple[tuple[int, int], bytes]:
    """Draw one page, from 1, at 200 dots an inch.

    Returns
    -------
    tuple of int
        Width and height.
    bytes
        Rows of red, green and blue.

    Raises
    ------
    BadPdf
        It is damaged or encrypted, has no such page, or the page is too large.
    """
    words, rows = _ask(data, "draw", number, max_pixels)
    width, height = map(int, words)
    if len(rows) != width * height * 3:
        raise BadPdf(_DAMAGED)
    return (width, height), rows


_DAMAGED: Final = "the PDF is damaged, or drawing it takes too much time or memory"


def _ask(data: bytes, *order: str | int) -> tuple[list[bytes], bytes]:
    if find_spec("pypdfium2") is None:
        raise BadPdf(
            "the page is a PDF, and the package that draws it is not installed: "
            "pip install 'sparsi-dispatcher[scans]'"
        )
    command = [sys.executable, "-I", str(Path(__file__)), *map(str, order)]
    try:
        done = subprocess.run(  # noqa: S603 - this file, and numbers
            command, input=data, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadPdf(_DAMAGED) from None
    line, _, rows = done.stdout.partition(b"\n")
    verdict, *words = line.split(b" ")
    if done.returncode or verdict not in (b"ok", b"no"):
        raise BadPdf(_DAMAGED)
    if verdict == b"no":
        raise BadPdf(b" ".join(words).decode())
    return words, rows


def _child(order: str, number: int, max_pixels: int) -> bytes:
    """Carry out an order of the parent: what is printed for it."""
    import resource  # noqa: PLC0415 - the child's alone

    import pypdfium2  # noqa: PLC0415

    data = sys.stdin.buffer.read()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS // 2, SECONDS // 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        pdf = pypdfium2.PdfDocument(data)
        if order == "count":
            return b"ok %d\n" % len(pdf)
        return _rows(pdf, number, max_pixels)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        words = b"the PDF asks for a password" if locked else _DAMAGED.encode()
        return b"no " + words + b"\n"


def _rows(pdf: Any, number: int, max_pixels: int) -> bytes:  # noqa: ANN401 - untyped
    if not 1 <= number <= len(pdf):
        return b"no there is no page %d (the PDF has %d)\n" % (number, len(pdf))
    pdf.init_forms()
    page = pdf[number - 1]
    scale = DPI / 72
    if page.get_width() * page.get_height() * scale * scale > max_pixels:
        return b"no the page has more than %d megapixels\n" % (max_pixels // 10**6)
    drawn = page.render(scale=scale, rev_byteorder=True, maybe_alpha=False)
    width, height, step = drawn.width, drawn.height, drawn.stride
    raw = bytes(drawn.buffer)
    rows = b"".join(raw[step * row : step * row + 3 * width] for row in range(height))
    return b"ok %d %d\n%b" % (width, height, rows)


if __name__ == "__main__":
    sys.stdout.buffer.write(_child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
