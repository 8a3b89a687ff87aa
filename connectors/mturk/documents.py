"""The XML documents exchanged with MTurk: questions and answers.

A question is the address of our page. Answers are parsed by expat itself, which stops
at the first token of a DTD: nothing is expanded and nothing is fetched.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape

MOST: Final = 64_000
"""Most characters of answers that are read: ours have some hundred."""

_SCHEMA: Final = (
    "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/"
    "2006-07-14/ExternalQuestion.xsd"
)
_HEIGHT: Final = 500  # pixels of the frame


def question(url: str) -> str:
    """Return an external question with the address of our page, in ASCII."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ExternalQuestion xmlns="{_SCHEMA}">'
        f"<ExternalURL>{escape(url)}</ExternalURL>"
        f"<FrameHeight>{_HEIGHT}</FrameHeight></ExternalQuestion>"
    )


def answers(text: str) -> dict[str, str]:
    """Return free-text answers by question.

    Raises
    ------
    ValueError
        If it is another document, too long, or has a DTD; the message has no content.
    """
    if len(text) > MOST:
        raise ValueError(
            f"the answer has {len(text)} characters, at most {MOST} are read"
        )
    found: dict[str, str] = {}
    path: list[str] = []
    words: dict[str, list[str]] = {}

    def begin(name: str, _: object) -> None:
        path.append(name.rpartition("}")[2])
        if path[-1] == "Answer":
            words.clear()

    def end(_: str) -> None:
        if path.pop() == "Answer" and "QuestionIdentifier" in words:
            name = "".join(words["QuestionIdentifier"])
            found[name] = "".join(words.get("FreeText", ()))

    def say(data: str) -> None:
        words.setdefault(path[-1], []).append(data)

    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = say
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError:
        raise ValueError("the answer is no XML") from None
    return found


def _refuse(*_: object) -> None:
    raise ValueError("the answer has a DTD")
