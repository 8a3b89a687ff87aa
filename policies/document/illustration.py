"""Reading a field's ``example``: a made-up value and its right answer, for workers.

An example is shown to everybody who is asked for the field, so nothing of a record may
be in it: the file has to say ``synthetic = true``, and the answer has to be one.
"""

from __future__ import annotations

from typing import Final

from policies.document.diagnostic import shown
from policies.document.reading import Reader
from policies.policy import Example, Field

EXAMPLE_KEYS: Final = ("synthetic", "shown", "answer")


def read_example(field: Reader, asked: Field) -> Example | None:
    """Read the example of a field.

    Parameters
    ----------
    field : Reader
        The field's table.
    asked : Field
        The rest of it: the example's answer is judged as a worker's would be.

    Returns
    -------
    Example or None
        None where there is none, or a wrong one, which is reported.
    """
    if "example" not in field or asked.ask is None:
        return None
    reader = field.inner("example", "an example")
    reader.knows(EXAMPLE_KEYS)
    if not isinstance(field.values["example"], dict):
        return None
    if "synthetic" not in reader:
        reader.missing(
            "synthetic", "make the example up, and say so with synthetic = true"
        )
    elif reader.values["synthetic"] is not True:
        reader.wrong("synthetic", "true: an example is made up, no part of a record")
    value = reader.needed_text("shown", 'add shown = "…", what a worker would see')
    answer = reader.needed_text("answer", 'add answer = "…", the right answer to it')
    if value is None or answer is None:
        return None
    fault = _fault(asked, value, answer)
    if fault:
        reader.findings.error(
            "POL003",
            reader.value_span("answer"),
            f"the example of `{shown(asked.name)}` has a wrong answer",
            fault,
            f'write an answer that ask = "{asked.ask}" takes',
        )
    return Example(value, answer)


def _fault(asked: Field, value: str, answer: str) -> str:
    """Say why the answer would not be taken; nothing if it would."""
    # Judging an answer needs the policy's words: at the top the two would import each
    # other.
    from policies.answers.passages import located
    from policies.answers.validation import Invalid, check

    raw = located(asked, answer, value)
    verdict = raw if isinstance(raw, Invalid) else check(asked, raw)
    return verdict.reason if isinstance(verdict, Invalid) else ""
