"""Passages copied word for word, one on each line, as the ranges that they stand for."""

from __future__ import annotations

import json
import re
from typing import Final

from policies.answers.validation import Invalid
from policies.policy import Field

_RANGES: Final = re.compile(r"[\d\s;,\[\]-]*")


def located(field: Field, raw: str, text: str | None) -> str | Invalid:
    """Turn what was typed into the answer's raw text.

    Parameters
    ----------
    field : Field
    raw : str
    text : str or None
        The text that was shown; None for an image.

    Returns
    -------
    str or Invalid
        Passages of ``spans`` become ranges; all else is as it was typed.
    """
    if field.ask != "spans" or text is None:
        return raw
    ranges: list[list[int]] = []
    taken: dict[str, int] = {}
    for line in filter(None, (part.strip() for part in raw.splitlines())):
        if re.fullmatch(r"\[[a-z_ ]+\]", line):
            return raw  # a mark
        start = text.find(line, taken.get(line, 0))
        if start < 0 and _RANGES.fullmatch(raw):
            return raw
        if start < 0:
            return Invalid("a passage is not in the text: copy it word for word")
        taken[line] = start + len(line)
        ranges.append([start, start + len(line)])
    return json.dumps(ranges) if ranges else ""
