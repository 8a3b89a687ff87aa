"""Which encoding a text file is in; the decision is reported and can be overruled."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.table import UNDECODED

MARK: Final = "dispatcher-mark"
SAMPLE: Final = 1 << 16
BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LEGACY: Final = (  # in order of preference where the evidence is equal
    "cp1252",
    "cp932",
    "euc_jp",
    "big5",
    "cp949",
    "gb18030",
    "cp1250",
    "cp1251",
    "koi8_r",
    "iso8859_7",
    "cp1255",
    "cp1256",
)
SHOWN: Final = {"cp932": "shift_jis", "cp949": "euc_kr"}  # what people call them
NO_FILES: Final = frozenset(  # codecs of names and of source code, not of files
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
)
_MULTIBYTE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")


MAX_LINE: Final = 64 << 20  # characters
MAX_HELD: Final = 200_000  # lines of one record


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec, how many bytes of mark to skip, and why it was chosen."""

    codec: str
    skip: int
    reason: str

    @property
    def shown(self) -> str:
        """The name that people know it by."""
        return SHOWN.get(self.codec, self.codec)


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Put a lone surrogate where bytes do not decode: no text can hold one."""
    assert isinstance(error, UnicodeDecodeError)
    return UNDECODED, error.end


codecs.register_error(MARK, _mark)


def find_encoding(head: bytes, *, whole: bool, told: str | None = None) -> Encoding:
    """Return the encoding of a file that begins with `head`.

    Parameters
    ----------
    head : bytes
    whole : bool
        Whether `head` is the whole file, so that a character cut at its end is wrong.
    told : str or None
        The operator's word; it holds.

    Raises
    ------
    Invalid
        `told` is no encoding, or the bytes are no text.
    """
    if told is not None:
        return _told(head, told)
    for bom, codec in BOMS:
        if head.startswith(bom):
            return Encoding(codec, len(bom), "byte order mark")
    wide = _wide(head)
    if wide is not None:
        return Encoding(wide, 0, "every other byte is NUL")
    text = codecs.getincrementaldecoder("utf-8")(MARK).decode(head, final=whole)
    wrong = text.count(UNDECODED)
    if not wrong:
        return Encoding("utf-8", 0, "valid UTF-8")
    _no_binary(head)
    right = len(_MULTIBYTE.findall(head)) - wrong
    if right >= 10 * wrong:
        return Encoding("utf-8", 0, "nearly all is valid UTF-8")
    return _guessed(head)


def _told(head: bytes, told: str) -> Encoding:
    try:
        codec = codecs.lookup(told).name
        "".encode(codec)
    except (LookupError, ValueError):
        raise _no_encoding() from None
    if codec in NO_FILES:
        raise _no_encoding()
    if codec in ("utf-16", "utf-32"):
        codec = f"{codec}-be" if head.startswith(_big_mark(codec)) else f"{codec}-le"
    if codec == "utf-8-sig":
        codec = "utf-8"
    skip = next((len(b) for b, c in BOMS if c == codec and head.startswith(b)), 0)
    return Encoding(codec, skip, "as told")


def _no_encoding() -> Invalid:
    return Invalid(
        "there is no encoding of that name",
        why="--encoding takes a codec of text files that Python knows",
        fix="for example utf-8, utf-16, shift_jis, big5, euc_kr, cp1252",
    )


def _big_mark(codec: str) -> bytes:
    return codecs.BOM_UTF16_BE if codec == "utf-16" else codecs.BOM_UTF32_BE


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: delimiters and digits make one byte of each pair NUL."""
    sample = head[: SAMPLE - SAMPLE % 2]
    pairs = len(sample) // 2
    if pairs < 4 or len(sample) % 2:
        sample = sample[: pairs * 2]
    if pairs < 2:
        return None
    first, second = sample[0::2].count(0), sample[1::2].count(0)
    if second > pairs * 0.3 and first < pairs * 0.02:
        return "utf-16-le"
    if first > pairs * 0.3 and second < pairs * 0.02:
        return "utf-16-be"
    return None


def _no_binary(head: bytes) -> None:
    sample = head[:SAMPLE]
    control = sum(sample.count(byte) for byte in range(9))
    if control > len(sample) * 0.01:
        raise Invalid(
            "the file is no text and no format that can be loaded",
            why="it holds bytes that no text file has",
            fix="load CSV, TSV, JSON, JSONL, Parquet or Excel, or name the encoding "
            "with --encoding",
        )


def _guessed(head: bytes) -> Encoding:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - slow to import

    matches = from_bytes(_telling(head), cp_isolation=list(LEGACY))
    found = [m for m in matches if m.encoding in LEGACY]
    if not found:
        return Encoding("cp1252", 0, "not UTF-8 and like no other: the most usual one")
    best = min((m.chaos, -m.coherence) for m in found)
    likely = [m.encoding for m in found if (m.chaos, -m.coherence) == best]
    codec = min(likely, key=LEGACY.index)
    return Encoding(codec, 0, "guessed from the bytes; check, or use --encoding")


def _telling(head: bytes) -> bytes:
    """The lines that are not ASCII, whole: the rest tells nothing of a legacy codec."""
    lines = [line for line in head.splitlines(keepends=True) if not line.isascii()]
    return b"".join(lines)[:SAMPLE]


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
