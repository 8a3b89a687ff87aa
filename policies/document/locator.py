"""Positions of all keys and values in a valid TOML text.

The standard library's parser keeps no positions. This scanner runs over text that the
parser has accepted, so it need not validate anything: it follows the grammar only far
enough to find the path and span of each key and array item.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from typing import Final

from policies.document.diagnostic import Span

Path = tuple[str | int, ...]
"""Keys and array indices from the root: ("property", "a", "of", 1)."""

_SPACE: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_LONG_BASIC: Final = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*[^,\]}#\n \t]")


class Places:
    """Spans of keys, values and table headers by path, found by :func:`locate`.

    Attributes
    ----------
    raw : dict of Path to str
        The source text of each value that is no table or array.
    """

    def __init__(self, text: str) -> None:
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._keys: dict[Path, tuple[int, int]] = {}
        self._values: dict[Path, tuple[int, int]] = {}
        self._headers: dict[Path, int] = {}
        self.raw: dict[Path, str] = {}

    def key(self, path: Path) -> Span:
        """Return the place of a key's first occurrence, or of an array item."""
        if path in self._keys:
            return self._span(*self._keys[path])
        return self.table(path) if path in self._headers else self.value(path)

    def value(self, path: Path) -> Span:
        """Return the place of a value; of an array or inline table, its opening bracket."""
        if path in self._values:
            return self._span(*self._values[path])
        if path in self._headers or path in self._keys:
            return self.table(path)
        return self.value(path[:-1]) if path else Span(1, 1)

    def table(self, path: Path) -> Span:
        """Return the place of a table's header, else of its key, else of its parent."""
        if path in self._headers:
            return self._span(self._headers[path], self._headers[path] + 1)
        if path in self._keys:
            return self._span(*self._keys[path])
        return self.value(path) if path in self._values else self._parent(path)

    def _parent(self, path: Path) -> Span:
        return self.table(path[:-1]) if path else Span(1, 1)

    def _span(self, begin: int, end: int) -> Span:
        line = bisect_right(self._starts, begin)
        return Span(line, begin - self._starts[line - 1] + 1, max(1, end - begin))

    def note_key(self, path: Path, begin: int, end: int) -> None:
        """Record the first place of a key."""
        self._keys.setdefault(path, (begin, end))

    def note_value(self, path: Path, begin: int, end: int) -> None:
        """Record the place of a value."""
        self._values[path] = (begin, end)

    def note_header(self, path: Path, begin: int) -> None:
        """Record the place of a table's header."""
        self._headers[path] = begin


def locate(text: str) -> Places:
    """Find all places of a text that is valid TOML, with LF line ends.

    Raises
    ------
    RecursionError
        If values are nested too deep.
    """
    return _Scanner(text).run()


class _Scanner:
    """A single pass over the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._places = Places(text)
        self._arrays: dict[Path, int] = {}  # arrays of tables: how many so far

    def run(self) -> Places:
        base: Path = ()
        self._skip()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                base = self._header()
            else:
                self._pair(base)
            self._skip()
        return self._places

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _header(self) -> Path:
        begin = self._at
        many = self._text.startswith("[[", begin)
        self._at += 2 if many else 1
        parts = self._keys()
        self._skip()
        self._at += 2 if many else 1
        path: Path = ()
        for number, (name, start, end) in enumerate(parts):
            path = (*path, name)
            self._places.note_key(path, start, end)
            last = number == len(parts) - 1
            if last and many:
                self._arrays[path] = self._arrays.get(path, 0) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path] - 1)
        self._places.note_header(path, begin)
        return path

    def _keys(self) -> list[tuple[str, int, int]]:
        """Scan a dotted key: its parts, each with begin and end."""
        parts = []
        while True:
            self._skip()
            begin = self._at
            for pattern in (_BARE, _BASIC, _LITERAL):
                found = pattern.match(self._text, begin)
                if found:
                    break
            assert found is not None
            self._at = found.end()
            parts.append((_decoded(found[0]), begin, self._at))
            self._skip()
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _pair(self, base: Path) -> None:
        path = base
        for name, begin, end in self._keys():
            path = (*path, name)
            self._places.note_key(path, begin, end)
        self._at += 1  # the equals sign
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
        begin = self._at
        opening = self._text[begin]
        if opening in "[{":
            self._places.note_value(path, begin, begin + 1)
            self._at += 1
            self._items(path, "]" if opening == "[" else "}")
            return
        for pattern in (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL, _SCALAR):
            found = pattern.match(self._text, begin)
            if found:
                break
        assert found is not None
        self._at = found.end()
        first = found[0].split("\n", 1)[0]
        self._places.note_value(path, begin, begin + len(first))
        self._places.raw[path] = found[0]

    def _items(self, path: Path, closing: str) -> None:
        """Scan the items of an array or inline table, up to its closing bracket."""
        number = 0
        self._skip()
        while self._text[self._at] != closing:
            if closing == "]":
                self._value((*path, number))
            else:
                self._pair(path)
            number += 1
            self._skip()
            if self._text[self._at] == ",":
                self._at += 1
                self._skip()
        self._at += 1


def _decoded(key: str) -> str:
    """Return the name that a key stands for."""
    if key[0] == "'":
        return key[1:-1]
    if key[0] == '"' and "\\" in key:
        name: str = tomllib.loads(f"k = {key}")["k"]
        return name
    return key.strip('"') if key[0] == '"' else key
