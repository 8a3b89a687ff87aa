"""One grammar to narrow any list down: ``connector:mturk state:dead tries>3 -kind:push``.

Words of a filter must all hold. ``NAME:TEXT`` holds where a value begins so, whatever
its case; ``NAME>NUMBER`` and the like compare, moments too (``at>=2026-11-01``); a minus
before a word turns it round; a word alone holds where any value contains it. What has
blanks stands in quotes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

LONGEST: Final = 200
"""Most characters of a filter."""

_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_TERM: Final = re.compile(r"([a-z_][a-z0-9_.-]*)(:|>=|<=|>|<)(.+)", re.DOTALL)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Filter:
    """What a filter asks for.

    Attributes
    ----------
    terms : tuple
        Name, sign and text of each comparison, and whether it is to hold.
    words : tuple of (str, bool)
        What any value must contain, or must not.
    unknown : tuple of str
        Names that stand before a sign and are no column: they are read as words.
    """

    terms: tuple[tuple[str, str, str, bool], ...] = ()
    words: tuple[tuple[str, bool], ...] = ()
    unknown: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, columns: Collection[str]) -> Filter:
        """Read a filter of a list with these columns."""
        terms, words, unknown = [], [], []
        for word in _WORD.findall(text):
            wanted = not (word.startswith("-") and len(word) > 1)
            said = (word if wanted else word[1:]).replace('"', "")
            match = _TERM.fullmatch(said)
            if match is not None and match[1] in columns:
                terms.append((match[1], match[2], match[3], wanted))
                continue
            if match is not None:
                unknown.append(match[1])
            words.append((said.casefold(), wanted))
        return cls(tuple(terms), tuple(words), tuple(unknown))

    def matches(self, row: Mapping[str, object]) -> bool:
        """Whether a row has all that is asked for."""
        if self.words:
            told = " ".join(map(str, row.values())).casefold()
            if not all((word in told) == wanted for word, wanted in self.words):
                return False
        return all(
            _holds(row.get(name), sign, text) == wanted
            for name, sign, text, wanted in self.terms
        )


def _holds(value: object, sign: str, text: str) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(one, sign, text) for one in value)
    if sign == ":":
        return str(value).casefold().startswith(text.casefold())
    compare = _COMPARED[sign]
    try:
        return compare(float(str(value)), float(text))
    except ValueError:
        # moments are written so that their texts stand in their order
        return isinstance(value, str) and compare(value, text)
