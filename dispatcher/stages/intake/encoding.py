"""Detection of a text file's encoding; the choice is reported and can be overruled."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.table import BOM, UNDECODED

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

MARK: Final = "dispatcher-mark"
SAMPLE: Final = 1 << 16
BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WESTERN: Final = "äöüß"  # of names and loans that stand in any language
_WEST: Final = (
    "àâæçéèêëîïíñôœùûüÿäöß",  # French, German, and English with loans
    "áéíñóúüç",  # Spanish
    "ãáâàçéêíóôõúü",  # Portuguese
    "àèéìíîòóùú",  # Italian
    "åäöæøéüè",  # Danish, Finnish, Norwegian, Swedish
    "áðéíóúýþæö",  # Icelandic
    "ëïéèüöäêóáíç",  # Dutch
)
LATIN: Final[Mapping[str, tuple[str, ...]]] = {
    "cp1252": _WEST,
    "iso8859_15": _WEST,
    "cp1250": (
        "áčďéěíňóřšťúůýž" + _WESTERN,  # Czech
        "áčďéíĺľňóôŕšťúýž" + _WESTERN,  # Slovak
        "ąćęłńóśźż" + _WESTERN,  # Polish
        "áéíóöőúüű" + _WESTERN,  # Hungarian
        "čćđšž" + _WESTERN,  # Croatian, Slovene
        "ăâîşţ" + _WESTERN,  # Romanian
    ),
    "cp1254": ("çğıöşüâîûé\u0307",),  # Turkish
    "cp1257": (
        "āčēģīķļņšūž",  # Latvian
        "ąčęėįšųūž",  # Lithuanian
        "õšž" + _WESTERN,  # Estonian
    ),
}
"""Encodings of Latin letters, first the most usual; the letters of their languages."""
WESTERN: Final = frozenset({"cp1252", "iso8859_15"})
EASTERN: Final = frozenset("šžőűşğı")
"""Letters without which a text is taken for Western, in doubt."""
OTHERS: Final = (  # in order of preference where the evidence is equal
    "cp932",
    "euc_jp",
    "big5",
    "cp949",
    "gb18030",
    "cp1251",
    "koi8_r",
    "iso8859_7",
    "cp1253",
    "cp1255",
    "cp1256",
)
ONE_BYTE: Final = frozenset(OTHERS[OTHERS.index("cp1251") :])
MORE: Final = (  # shown where one must be named
    "mac_roman",
    "cp850",
    "cp866",
    "mac_cyrillic",
)
ESCAPES: Final = ((b"\x1b$)C", "iso2022_kr"), (b"\x1b$", "iso2022_jp_2"))
"""Signs by which text of seven bits switches to other alphabets."""
ENOUGH: Final = 100  # bytes needed to distinguish encodings of other scripts
FITTING: Final = 0.97  # share of signs in usual places; others are misspelt
MISPLACED: Final = 0.005  # share of signs where texts of other scripts have none
NULS: Final = "every other byte is NUL"
LATIN_REASON: Final = "reads as Latin text; check, or use --encoding"
SHOWN: Final = {"cp932": "shift_jis", "cp949": "euc_kr"}  # what people call them
NO_FILES: Final = frozenset(  # codecs of names and of source code, not of files
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
)
_MISPLACED = re.compile(
    r"[A-Za-z](?=[^\W\d_A-Za-z])|[^\W\d_A-Za-z](?=[A-Za-z])"  # two scripts in a word
    r"|(?<!\w)[^\x00-\x7f\w\s«„“‘”…–—№](?=[^\W\d_])"  # a sign stuck to a word
)
"""Letters and signs where no text of another script than Latin has them."""
_MULTIBYTE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_LETTERS: Final = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f"
_HIGH: Final = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f"
_LETTER = re.compile(f"[{_HIGH}]")
_OPEN: Final = r"(?:(?<=[\s,;|\"'(\[/:.-])|^)"  # what may stand before a word
_SHUT: Final = r"(?=[\s,;|\"')\]/:.!?-]|$)"  # and behind it
_FITTING = re.compile(
    "|".join(
        (
            # A word: no more letters with a mark than without, and none of them a
            # capital behind a small one.
            rf"(?<![{_LETTERS}])(?=[{_LETTERS}]*[A-Za-z])(?![{_LETTERS}]*[a-zß-öø-ÿ][À-ÖØ-ÞŠŒŽ])"
            r"(?![ÐĞ][a-z])"  # no word begins with one of them
            rf"(?:[{_HIGH}]?[A-Za-z]|[A-Za-z][{_HIGH}]{{1,2}}(?![{_HIGH}])|[{_HIGH}]{{2}}[A-Za-z])+"
            rf"[{_HIGH}]?(?![{_LETTERS}])",
            rf"{_OPEN}[àèéêóöåæyÀÉÅÖ]{_SHUT}",  # a word of one letter
            rf"(?<=[{_LETTERS}0-9.])[’´]",
            rf"(?<!\w)“(?=\w[^\n]*”)|(?<=[\w.,!?])”{_SHUT}|(?<!\w)„(?=\w[^\n]*[“”])",
            rf"(?<=[\w.,!?])“{_SHUT}",
            rf"(?<!\w)‘(?=\w[^\n]*’)|(?<!\w)«(?=[\w\xa0 ][^\n]*»)|(?<=[\w.,!?\xa0 ])»{_SHUT}",
            rf"(?<=\w)[–—](?=\w)|(?<= )[–—](?= )|(?<=\w)–(?=[ ,])|{_OPEN}[–—]{_SHUT}",
            rf"{_OPEN}[•§](?=[ \w]|$)|{_OPEN}•{_SHUT}|(?<=[\w ])…|(?<=\w)[©®™]|©(?= ?\d)",
            rf"(?:{_OPEN}|(?<=[A-Z\d]))[€£¥](?= ?-?\d)|(?<=\d)[ \xa0]?[€£¥¢%‰]{_SHUT}",
            rf"(?<=[\dnN ])°(?=[CFKNSEW]?{_SHUT})|(?<=[\dA-Za-z])[ºª]{_SHUT}",
            rf"(?<=[A-Za-z\d)])[²³¹](?=[\d/]|{_SHUT[3:-1]})|(?:(?<=\d)|{_OPEN})[½¼¾]{_SHUT}",
            rf"(?:(?<=[\d ])|{_OPEN})µ(?=[gmlLsAFVM])|(?:(?<=[\d ])|{_OPEN})±(?=[ \d])",
            r"(?<=[\d ])[×÷](?=[\d ])|(?<!\w)[¿¡](?=\w)|(?<=[!-~])\xa0(?=[!-~])|(?<=\w)·(?=\w)",
        )
    ),
    re.MULTILINE,
)
"""Signs that are not ASCII where Western text has them."""


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
        """Its common name."""
        return SHOWN.get(self.codec, self.codec)


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Replace undecodable bytes by a lone surrogate, which no text can contain."""
    assert isinstance(error, UnicodeDecodeError)
    return UNDECODED, error.end


codecs.register_error(MARK, _mark)


def find_encoding(head: bytes, *, whole: bool, named: str | None = None) -> Encoding:
    """Return the encoding of a file that begins with `head`.

    Parameters
    ----------
    head : bytes
    whole : bool
        Whether `head` is the whole file, so that a character cut at its end is wrong.
    named : str or None
        The operator's choice; it takes precedence.

    Raises
    ------
    Invalid
        `named` is no encoding, or the bytes are no text.
    """
    if named is not None:
        return _named(head, named)
    for bom, codec in BOMS:
        if head.startswith(bom):
            return Encoding(codec, _marks(head, bom), "byte order mark")
    plain = _wide(head) or _escaped(head)
    if plain is not None:
        return plain
    text = codecs.getincrementaldecoder("utf-8")(MARK).decode(head, final=whole)
    wrong = text.count(UNDECODED)
    if not wrong:
        return Encoding("utf-8", 0, "valid UTF-8")
    _no_binary(head)
    right = len(_MULTIBYTE.findall(head)) - wrong
    if right >= 10 * wrong:
        return Encoding("utf-8", 0, "nearly all is valid UTF-8")
    return _guessed(head)


def _named(head: bytes, named: str) -> Encoding:
    try:
        codec = codecs.lookup(named).name
        "".encode(codec)
    except (LookupError, ValueError):
        raise _no_encoding() from None
    if codec in NO_FILES:
        raise _no_encoding()
    if codec in ("utf-16", "utf-32"):
        codec = f"{codec}-be" if head.startswith(_big_mark(codec)) else f"{codec}-le"
    if codec == "utf-8-sig":
        codec = "utf-8"
    skip = next((_marks(head, bom) for bom, c in BOMS if c == codec), 0)
    return Encoding(codec, skip, "as you say")


def _marks(head: bytes, bom: bytes) -> int:
    """Return the length of the marks at the beginning: some programs write two."""
    skip = 0
    while head.startswith(bom, skip):
        skip += len(bom)
    return skip


def _no_encoding() -> Invalid:
    return Invalid(
        "there is no encoding of that name",
        why="--encoding takes a codec of text files that Python knows",
        fix="for example utf-8, utf-16, shift_jis, big5, euc_kr, cp1252",
    )


def _big_mark(codec: str) -> bytes:
    return codecs.BOM_UTF16_BE if codec == "utf-16" else codecs.BOM_UTF32_BE


def _escaped(head: bytes) -> Encoding | None:
    """ISO 2022: seven bits, with escape sequences that switch alphabets."""
    for escape, codec in ESCAPES:
        if escape in head and head.isascii():
            return Encoding(codec, 0, "escape sequences of ISO 2022")
    return None


def _wide(head: bytes) -> Encoding | None:
    """UTF-16 without a mark: delimiters and digits make one byte of each pair NUL."""
    sample = head[: SAMPLE - SAMPLE % 2]
    pairs = len(sample) // 2
    if pairs < 4 or len(sample) % 2:
        sample = sample[: pairs * 2]
    if pairs < 2:
        return None
    first, second = sample[0::2].count(0), sample[1::2].count(0)
    if second > pairs * 0.3 and first < pairs * 0.02:
        return Encoding("utf-16-le", 0, NULS)
    if first > pairs * 0.3 and second < pairs * 0.02:
        return Encoding("utf-16-be", 0, NULS)
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
    """Return the encoding of bytes that are not UTF-8, if they determine it.

    Western letters and signs are isolated among ASCII ones and each has its usual
    neighbours (an apostrophe after a letter, a pound sign before a digit), so a few
    bytes suffice. The bytes of other scripts come in runs, which only many bytes can
    distinguish.

    Raises
    ------
    Invalid
        They do not determine it.
    """
    telling = _telling(head)
    codec = _latin(telling)
    if codec is not None:
        return Encoding(codec, 0, LATIN_REASON)
    if sum(byte > 0x7F for byte in telling) >= ENOUGH:
        codec = _likeliest(telling)
        if codec is not None:
            return Encoding(
                codec, 0, "guessed from the bytes; check, or use --encoding"
            )
    raise _undecided(telling)


def _telling(head: bytes) -> bytes:
    """Return the lines that are not ASCII; the others say nothing of a legacy codec."""
    lines = [line for line in head.splitlines(keepends=True) if not line.isascii()]
    return b"".join(lines)[:SAMPLE]


def _latin(telling: bytes) -> str | None:
    """Return the encoding in which the bytes are Latin text; None if they are not."""
    texts = {codec: telling.decode(codec, "replace") for codec in LATIN}
    letters = {
        codec: set(_LETTER.findall(text.lower()))
        for codec, text in texts.items()
        if _is_latin(text)
    }
    if not letters:
        return None
    spelt = [  # in one language
        codec
        for codec in letters
        if any(letters[codec] <= set(alphabet) for alphabet in LATIN[codec])
    ]
    if spelt and spelt[0] in WESTERN:
        return spelt[0]
    marked = [codec for codec in spelt if letters[codec] & EASTERN]
    if marked or "cp1252" in letters:
        return (*marked, "cp1252")[0]
    readings = {texts[codec] for codec in spelt}
    return spelt[0] if len(readings) == 1 else None


def _is_latin(text: str) -> bool:
    """Whether the non-ASCII signs are where Latin text has them."""
    signs = sum(sign > "\x7f" for sign in text)
    fitting = sum(
        sum(sign > "\x7f" for sign in found[0]) for found in _FITTING.finditer(text)
    )
    return fitting >= FITTING * signs


def _likeliest(telling: bytes) -> str | None:
    """Return the encoding that reads most naturally, if it is the only one."""
    from charset_normalizer import from_bytes  # noqa: PLC0415 - slow to import

    matches = from_bytes(telling, cp_isolation=list(OTHERS))
    found = [m for m in matches if m.encoding in OTHERS and _is_placed(telling, m)]
    if not found:
        return None
    best = min((m.chaos, -m.coherence) for m in found)
    likely = [m.encoding for m in found if (m.chaos, -m.coherence) == best]
    return min(likely, key=OTHERS.index)


def _is_placed(telling: bytes, match: CharsetMatch) -> bool:
    """Whether letters and signs stand where texts of one script have them."""
    if match.encoding not in ONE_BYTE:
        return True
    text = telling.decode(match.encoding, "replace")
    signs = sum(sign > "\x7f" for sign in text)
    return len(_MISPLACED.findall(text)) <= MISPLACED * signs


def _undecided(telling: bytes) -> Invalid:
    """Ask for the encoding; show of the file only two signs in each encoding."""
    sample = re.search(rb"[\x80-\xff]+.?", telling)
    assert sample is not None
    readings: dict[str, list[str]] = {}
    for codec in (*LATIN, *OTHERS, *MORE):
        with suppress(UnicodeDecodeError):
            telling.decode(codec)
            shown = sample[0].decode(codec, "ignore")[:2].strip()
            readings.setdefault(shown, []).append(SHOWN.get(codec, codec))
    candidates = "; ".join(
        f"{', '.join(codecs)}: {shown}"
        for shown, codecs in readings.items()
        if shown and shown.isprintable()
    )
    return Invalid(
        "the encoding of the file is uncertain",
        why="it is not UTF-8, and too few bytes tell which other one it is. Its first "
        f"signs that are not ASCII, in each encoding that fits: {candidates}",
        fix="name the right one, for example --encoding shift_jis, or save the file "
        "as UTF-8",
    )


class Lines:
    r"""Lines of a text, each ended by ``\n``, ``\r\n`` or ``\r`` as it was written.

    Attributes
    ----------
    number : int
        Lines yielded so far.
    held : list of str
        The lines yielded since the reader last cleared this list: those of the current
        record.
    suspect_until : int
        Lines up to this number may contain NUL or undecodable bytes; later ones yielded
        so far do not. So clean text needs no check per row.
    ended : bool
        Whether the last line was yielded.
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
            if "\0" in part or (
                not part.isascii() and (UNDECODED in part or BOM in part)
            ):
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
        fix="correct the file (a missing line end or a quote that is never closed), then "
        "load it again: rows that are in already are skipped",
    )
