"""Fields as Label Studio tasks, and annotations as answers.

One labelling config serves every field: the differences are in the task's data. The
content is HTML in which every character of a value is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from connectors.base import Answer, Form, Item, Outcome, Quarantined, Rejected
from connectors.label_studio.api import moment_of

CONFIG: Final = (
    '<View><Header value="$question"/><Header value="$help" size="6"/>'
    '<HyperText name="shown" value="$shown"/>'
    '<Choices name="choice" toName="shown" value="$choices" choice="single-radio"/>'
    '<TextArea name="answer" toName="shown" maxSubmissions="1" rows="2" '
    'editable="true" placeholder="Write the answer here"/>'
    '<Choices name="mark" toName="shown" choice="single-radio" showInline="true">'
    '<Choice value="illegible"/><Choice value="not present"/></Choices></View>'
)
BLANK: Final[Mapping[str, Any]] = {
    "question": "", "help": "", "shown": "", "choices": [],
}  # fmt: skip

_MARKS: Final = {
    "illegible": Outcome.ILLEGIBLE,
    "not present": Outcome.NOT_PRESENT,
}
_HOW: Final = {
    "transcribe": "Write down what you read.",
    "choose": "Choose one.",
    "number": "Write the number as you see it.",
    "date": "Write the date as you see it, or as year-month-day.",
    "yes_no": "Choose yes or no.",
    "spans": "Write a JSON list of [begin, end] pairs, counted in characters.",
    "table": "Write a JSON list of rows, each a list of the columns",
}


def shown(item: Item) -> dict[str, Any]:
    """Return a field as the data of a task.

    Raises
    ------
    Rejected
        If it is neither UTF-8 text nor a picture.
    """
    form = item.form or Form("transcribe")
    choices = ("yes", "no") if form.ask == "yes_no" else form.choices
    how = _HOW[form.ask]
    if form.columns:
        how = f"{how} {', '.join(form.columns)}."
    return {
        "question": form.question or how,
        "help": " ".join(filter(None, (form.help, how if form.question else ""))),
        "shown": _html_of(item),
        "choices": [{"value": choice} for choice in choices],
    }


def _html_of(item: Item) -> str:
    try:
        spelt = item.spelt()
    except UnicodeDecodeError:
        raise Rejected(f"task {item.token} holds text that is not UTF-8") from None
    if "text" in spelt:
        text = html.escape(spelt["text"])
        return f'<pre style="white-space: pre-wrap">{text}</pre>'
    if not item.media_type.startswith("image/"):
        raise Rejected(
            f"task {item.token} shows {item.media_type}",
            why="a Label Studio task shows text or a picture",
            fix="send it by another connector",
        )
    return f'<img alt="" src="data:{item.media_type};base64,{spelt["base64"]}">'


def answer_of(
    task: Mapping[str, Any], annotation: Mapping[str, Any], edition: str, place: str
) -> Answer | Quarantined:
    """Read an annotation of a task as an answer.

    Parameters
    ----------
    task, annotation : Mapping
        As returned by the server.
    edition : str
        Identifies the present state of the annotation.
    place : str
        Its location, for the operator.
    """
    meta = task.get("meta")
    known = meta if isinstance(meta, dict) else {}
    token, account = known.get("task"), known.get("account")
    if not (isinstance(token, str) and token and isinstance(account, str) and account):
        return Quarantined(edition, place, "the task is none of ours")
    given = moment_of(annotation.get("updated_at"))
    if annotation.get("was_cancelled"):
        return Answer(edition, token, account, Outcome.RETURNED, given=given)
    said = _said(annotation.get("result"))
    marks = [_MARKS[text] for text in said["mark"] if text in _MARKS]
    values = said["choice"] + said["answer"]
    if len(values) + len(marks) != 1:
        reason = "it says two things" if values or marks else "it holds no answer"
        return Quarantined(edition, place, reason, account)
    if marks:
        return Answer(edition, token, account, marks[0], given=given)
    return Answer(edition, token, account, value=values[0], given=given)


def _said(result: object) -> dict[str, list[str]]:
    """Return the values of each control of the form."""
    said: dict[str, list[str]] = {"choice": [], "answer": [], "mark": []}
    for region in result if isinstance(result, list) else []:
        one = region if isinstance(region, dict) else {}
        value = one.get("value")
        held = value if isinstance(value, dict) else {}
        texts = held.get("text", held.get("choices"))
        name = one.get("from_name")
        if name in said and isinstance(texts, list):
            said[name] += [text for text in texts if isinstance(text, str)]
    return said
