"""Decoded lines, from blocks of bytes, with their line ends and never a lost byte."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.encoding import MARK, Encoding
from dispatcher.stages.intake.table import UNDECODED

MAX_LINE: Final = 64 << 20  # characters
MAX_HELD: Final = 200_000  # lines of one record


class Lines:
    r"""Lines of a text, each ended by ``\n``, ``\r\n`` or ``\r`` as it was written.

    Attributes
    ----------
    number : int
        Lines given out so far.
    held : list of str
        The lines given out since the reader last cleared this list: those of the record
        that is being read.
    suspect_until : int
        Lines up to this number may hold NUL or undecodable bytes; later ones, as far
        as given out, do not. So clean text costs no check per row.
    ended : bool
        Whether the last line was given out.
    """

    def __init__(self, blocks: Iterator[bytes], encoding: Encoding) -> None:
        self.number = 0
        self.held: list[str] = []
        self.suspect_until = 0
        self.ended = False
        self._texts = decoded(blocks, encoding)

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, once."""
        held = self.held
        for part in self._parts():
            lines = io.StringIO(part, newline="").readlines()
            if "\0" in part or (not part.isascii() and UNDECODED in part):
                self.suspect_until = self.number + len(lines)
            for line in lines:
                self.number += 1
                held.append(line)
                yield line
            if len(held) > MAX_HELD:
                raise _too_long(self.number - len(held) + 1, "record")
        self.ended = True

    def _parts(self) -> Iterator[str]:
        """Yield the text cut at ends of lines."""
        carry: list[str] = []
        size = 0
        for text in self._texts:
            # A final \r may be the first half of \r\n.
            cut = max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1)) + 1
            starts_new_line = bool(carry) and carry[-1].endswith("\r")
            if cut or (starts_new_line and not text.startswith("\n")):
                yield "".join([*carry, text[:cut]])
                carry, size = [], 0
            if cut < len(text):
                carry.append(text[cut:])
                size += len(text) - cut
            if size > MAX_LINE:
                raise _too_long(self.number + 1, "line")
        if carry:
            yield "".join(carry)


def decoded(blocks: Iterator[bytes], encoding: Encoding) -> Iterator[str]:
    """Yield the text of the blocks; what does not decode becomes a lone surrogate."""
    decoder = codecs.getincrementaldecoder(encoding.codec)(MARK)
    skip = encoding.skip
    for block in blocks:
        text = decoder.decode(block[skip:])
        skip = 0
        if text:
            yield text
    text = decoder.decode(b"", final=True)
    if text:
        yield text


def _too_long(line: int, what: str) -> Invalid:
    return Invalid(
        f"the {what} that begins on line {line} does not end",
        why="it is longer than any table's; what was read before it is kept",
        fix="mend the file (a missing line end or a quote that is never closed), then "
        "load it again: rows that are in already are skipped",
    )
