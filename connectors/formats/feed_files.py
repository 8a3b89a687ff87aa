"""Files for feeds that take files: the items of an offer as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from connectors.base import Item, Misconfigured
from connectors.formats.formula_guard import guard

COLUMNS: Final = ("token", "field", "media_type", "text", "base64")
FORMATS: Final = ("csv", "jsonl", "parquet")
MEDIA_TYPES: Final = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}

_LINE_ENDS: Final = str.maketrans(
    {sign: f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}
)


def file_name(key: str, form: str) -> str:
    """Return the file name of an offer; the same key always has the same name."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"fields-{digest}.{form}"


def check_format(form: str, guarded: str) -> None:
    """Refuse an unknown or unavailable format, and a guard other than yes or no.

    Raises
    ------
    Misconfigured
    """
    if form not in FORMATS:
        raise Misconfigured(
            f"there is no format {form[:40]!r}",
            fix=f"write one of {', '.join(FORMATS)}",
        )
    if guarded not in ("yes", "no"):
        raise Misconfigured(
            f"guard is {guarded[:40]!r}",
            why="it says whether cells that begin like a formula get a ' before them",
            fix="write yes or no",
        )
    if form == "parquet" and find_spec("polars") is None:
        raise Misconfigured(
            "Parquet cannot be written here",
            why="the library polars is not installed",
            fix="pip install 'sparsi-dispatcher[parquet]', or use csv or jsonl",
        )


def written(items: Sequence[Item], form: str, *, guarded: bool) -> bytes:
    """Return items as the bytes of a file; the same items give the same bytes.

    Parameters
    ----------
    items : sequence of Item
    form : str
        One of :data:`FORMATS`.
    guarded : bool
        CSV only: put ``'`` before cells that a spreadsheet would run.

    Returns
    -------
    bytes
        One row per item with the columns of :data:`COLUMNS`; the content is in ``text``
        or ``base64``, depending on its media type.
    """
    rows = [_row(item) for item in items]
    if form == "jsonl":
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        return "".join(f"{line}\n" for line in lines).encode("ascii")
    if form == "parquet":
        return _parquet(rows)
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([guard(cell) for cell in row] if guarded else row)
    return file.getvalue().encode("utf-8")


def json_line(row: Mapping[str, object]) -> bytes:
    """Write one line of JSON; what some readers take for an end of line is escaped."""
    text = json.dumps(row, ensure_ascii=False)
    return text.translate(_LINE_ENDS).encode() + b"\n"


def _row(item: Item) -> tuple[str, ...]:
    spelt = item.spelt()
    shown = (spelt.get("text", ""), spelt.get("base64", ""))
    return (item.token, item.label, item.media_type, *shown)


def _parquet(rows: Sequence[tuple[str, ...]]) -> bytes:
    import polars as pl  # noqa: PLC0415 (an extra; check_format asks for it)

    file = io.BytesIO()
    schema = dict.fromkeys(COLUMNS, pl.String)
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(file)
    return file.getvalue()
