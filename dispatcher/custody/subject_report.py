"""The report for a person about their data: data, answers, recipients."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dispatcher.core.errors import Invalid
from dispatcher.core.private_files import private
from dispatcher.custody.erasure import scope
from dispatcher.store import Row, Store, Tx
from dispatcher.store import erasure as rows

README: Final = """\
data.json        the records as they were loaded
answers.json     what was read from them, field by field
recipients.json  who was shown which field, and when
Moments are UTC.
"""


def write_report(
    store: Store, name: str, target: Path, *, at: int, name_recipients: bool = False
) -> dict[str, int]:
    """Write a zip file, 0600, with all that the store has about a person or record.

    Parameters
    ----------
    store : Store
    name : str
        Pseudonym.
    target : Path
        A new file.
    at : int
        Now, for the dates inside the file.
    name_recipients : bool
        Name the accounts, not only the connectors.

    Returns
    -------
    dict of str to int
        How many records, answers and showings.

    Raises
    ------
    NotFound
    Invalid
        The file is there, or cannot be written.
    """
    found = scope(store, name)
    with store.read() as tx:
        data = _data(tx, found.record_ids)
        answers = [
            {"entry": row[1], "answer": row[3].decode("utf-8", "replace"),
             "at": _moment(row[4])}
            for row in rows.said_of(tx, found.entry_ids)
        ]  # fmt: skip
        shown = rows.recipients(tx, found.entry_ids)
    parts = {
        "README.txt": README,
        "data.json": _json(data),
        "answers.json": _json(answers),
        "recipients.json": _json(_recipients(shown, named=name_recipients)),
    }
    _write(target, parts, at)
    return {"records": len(data), "answers": len(answers), "showings": len(shown)}


def _data(tx: Tx, record_ids: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "record": key.decode("utf-8", "replace"),
            "run": run,
            "loaded": _moment(loaded),
            "values": dict(zip(json.loads(columns), json.loads(cells), strict=False)),
        }
        for _, key, columns, cells, _, _, run, loaded in rows.records(tx, record_ids)
    ]


def _recipients(shown: Sequence[Row], *, named: bool) -> list[dict[str, Any]]:
    if named:
        return [
            {"field": field, "to": f"{connector}/{account}", "at": _moment(at)}
            for _, field, connector, account, at, _ in shown
        ]
    showings = Counter((field, connector) for _, field, connector, *_ in shown)
    return [
        {"field": field, "category": f"workers of {connector}", "showings": count}
        for (field, connector), count in sorted(showings.items())
    ]


def _write(target: Path, parts: dict[str, str], at: int) -> None:
    moment = datetime.fromtimestamp(at / 1e6, UTC)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            member = zipfile.ZipInfo(name, moment.timetuple()[:6])
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o600 << 16
            archive.writestr(member, text)
    try:
        with open(target, "xb", opener=private) as file:
            file.write(content.getvalue())
    except OSError as error:
        raise Invalid(
            f"{target} cannot be written",
            why=error.strerror or type(error).__name__,
            fix="name a new file in a folder that you may write to",
        ) from None


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="seconds")
