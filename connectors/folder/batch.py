"""The files of one batch: the list of tasks, the contents, and the instructions."""

from __future__ import annotations

import csv
import io

from connectors.base import Item, Offer, Rejected
from connectors.formats.feed_files import json_line
from connectors.formats.formula_guard import guard

COLUMNS = (
    "task",
    "ask",
    "question",
    "help",
    "choices",
    "columns",
    "min",
    "max",
    "file",
    "text",
    "answer",
    "state",
)
_CELL = 32_000  # a spreadsheet cell holds 32,767 characters
_SUFFIX = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp"}

HOW_TO = """\
How to answer
=============

1. Copy {tasks} to {answers} in this folder and open the copy.
2. For each task look at its text, or at the file named in the column "file", and
   write what is asked into "answer": for "transcribe", "date" and "number" exactly
   what you see (a date also like 2024-01-31), for "yes_no" yes or no, for "choose" one
   of "choices".
3. If you cannot read it, leave "answer" empty and write illegible into "state". If
   nothing is there to read, write not_present. To hand a task back, write returned.
4. Save in the same format. Your file is taken away, and a report appears: send rows
   that it calls errors once more, in a new file (answers2.csv).

Rows that you leave empty stay open: you may send them later in another file whose
name begins with "answers". Do not change the column "task".
"""


def batch_files(offer: Offer, form: str) -> dict[str, bytes]:
    """Return the files of a batch, by path inside it.

    Parameters
    ----------
    offer : Offer
        Items with content and form.
    form : str
        ``csv`` or ``jsonl``: the shape of the list of tasks.

    Raises
    ------
    Rejected
        If a text is not UTF-8.
    """
    files: dict[str, bytes] = {}
    rows = []
    for item in offer.items:
        text, path = _shown(item)
        if path:
            files[path] = item.content or b""
        rows.append(_row(item, text, path))
    tasks = f"tasks.{form}"
    files[tasks] = _as_csv(rows) if form == "csv" else _as_jsonl(rows)
    how_to = HOW_TO.format(tasks=tasks, answers=f"answers.{form}")
    files["HOW-TO.txt"] = how_to.encode()
    return files


def _shown(item: Item) -> tuple[str, str]:
    """Return the text to show in the list, or the path of the file that shows it."""
    content = item.content or b""
    if item.media_type != "text/plain":
        suffix = _SUFFIX.get(item.media_type, ".bin")
        return "", f"content/{item.token}{suffix}"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise Rejected(
            f"task {item.token} holds text that is not UTF-8",
            fix="load the records again with the right encoding",
        ) from None
    if len(text) > _CELL:
        return "", f"content/{item.token}.txt"
    return text, ""


def _row(item: Item, text: str, path: str) -> dict[str, object]:
    form = item.form
    if form is None:
        raise Rejected(f"task {item.token} asks nothing")
    return {
        "task": item.token,
        "ask": form.ask,
        "question": form.question,
        "help": form.help,
        "choices": list(form.choices),
        "columns": list(form.columns),
        "min": form.minimum,
        "max": form.maximum,
        "file": path,
        "text": text,
        "answer": "",
        "state": "",
    }


def _as_csv(rows: list[dict[str, object]]) -> bytes:
    """Write CSV with a byte order mark, so that spreadsheets read it as UTF-8."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row.get(name)) for name in COLUMNS] for row in rows)
    return out.getvalue().encode("utf-8-sig")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return guard(" | ".join(value))
    return guard(str(value))


def _as_jsonl(rows: list[dict[str, object]]) -> bytes:
    kept = [  # what the worker fills in, and what is not empty
        {
            name: value
            for name, value in row.items()
            if name in ("answer", "state") or value not in (None, "", [])
        }
        for row in rows
    ]
    return b"".join(map(json_line, kept))
