"""Where the objects of a JSON list end, without holding the list in memory."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final

from dispatcher.core.errors import Invalid

MAX_ELEMENT: Final = 16 << 20  # characters

_SPACE = re.compile(r"[\s,]*")
# Everything up to the next bracket that is not inside a string. Possessive: linear.
_TO_BRACKET = re.compile(
    r'[^"{}\[\]]*+(?:"(?:[^"\\]+|\\.)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL
)
_SCALAR = re.compile(r'"(?:[^"\\]+|\\.)*+"|[^\s\[\]{},"]+(?=[\s\]\[,{}])', re.DOTALL)


class JsonElements:
    """Elements of one list, or objects that stand one after another.

    Parameters
    ----------
    texts : Iterator of str
        Pieces of the text, cut anywhere.
    """

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._line = 1
        self._in_list = False
        self._closed = False
        self._first = True
        self._depth = 0
        self._scanned = 0  # of the present element

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield (line, text) of each element.

        Raises
        ------
        Invalid
            Brackets do not match: where the next object begins cannot be told.
        """
        text = ""
        for piece in self._texts:
            text += piece
            text = yield from self._cut(text)
            if len(text) > MAX_ELEMENT:
                raise Invalid(
                    f"the object that begins on line {self._line} does not end",
                    why=f"it is longer than {MAX_ELEMENT >> 20} Mi characters",
                    fix="write a list of small objects, or one object a line (JSONL)",
                )
        text = yield from self._cut(text + " ")
        if text.strip() or (self._in_list and not self._closed):
            raise self._unreadable("it ends before its brackets are closed")

    def _cut(self, text: str) -> Generator[tuple[int, str], None, str]:
        """Yield the elements that end in `text`; return the rest."""
        position = 0
        while True:
            if self._depth == 0:
                position = self._between(text, position)
                if position == len(text):
                    return ""
            end = self._end(text, position)
            if end is None:
                return text[position:]
            yield self._line, text[position:end]
            self._line += text.count("\n", position, end)
            position = end

    def _between(self, text: str, position: int) -> int:
        """Step over space, commas and the list's own brackets."""
        while True:
            space = _SPACE.match(text, position)
            assert space is not None
            self._line += text.count("\n", position, space.end())
            position = space.end()
            sign = text[position : position + 1]
            if sign == "[" and self._first:
                self._in_list = True
            elif sign == "]" and self._in_list and not self._closed:
                self._closed = True
            else:
                break
            self._first = False
            position += 1
        if sign and (self._closed or sign in "]}"):
            raise self._unreadable("something stands where no object can begin")
        self._first = self._first and not sign
        return position

    def _end(self, text: str, position: int) -> int | None:
        """Return where the element at `position` ends, None if not in `text`."""
        if text[position] not in "[{" and self._depth == 0:
            scalar = _SCALAR.match(text, position)
            return scalar.end() if scalar else None
        at = position + self._scanned
        while found := _TO_BRACKET.match(text, at):
            at = found.end()
            self._depth += 1 if found[1] in "[{" else -1
            if self._depth == 0:
                self._scanned = 0
                return at
        self._scanned = at - position
        return None

    def _unreadable(self, why: str) -> Invalid:
        return Invalid(
            f"the JSON cannot be read from line {self._line} on",
            why=why,
            fix="write a list of objects, or one object a line (JSONL)",
        )
