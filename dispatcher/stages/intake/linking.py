"""What stands beside a policy file: its link tables, read into pairs of pseudonyms.

The texts of the file are subjects as the records name them; they end here. What goes on
is what the ledger knows people by.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.core.keys import pseudonyms
from dispatcher.ledger.links import Beside
from dispatcher.stages.intake.telling import read_functions
from policies.policy import Policy, Relation

LARGEST: Final = 1 << 30  # bytes of a link table


def read_links(policy: Policy, folder: Path, secret: bytes) -> Beside:
    """Read what stands beside a policy: link tables, and functions of rules.

    Parameters
    ----------
    policy : Policy
    folder : Path
        Of the policy file; sources are relative to it.
    secret : bytes
        The store's pseudonym key.

    Returns
    -------
    Beside
        By relation: pairs of pseudonyms, sorted, each once. A row whose two ends are
        one subject is no link. By rule: f of every set of its fields.

    Raises
    ------
    Invalid
        A file cannot be read, lacks a column, or has a row with an empty end; a table
        or a user's function is not what it must be.
    """
    wanted = {p.relation for p in policy.properties.values() if p.relation is not None}
    links = {
        name: _pairs(policy.relations[name], folder, secret) for name in sorted(wanted)
    }
    return Beside(links, read_functions(policy, folder))


def _pairs(relation: Relation, folder: Path, secret: bytes) -> set[tuple[str, str]]:
    path = folder / relation.source
    rows = csv.reader(io.StringIO(_text(relation, path), newline=""), strict=True)
    try:
        header = next(rows, [])
        places = [_column(relation, path, header, end) for end in relation.ends]
        ends: list[tuple[str, str]] = []
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            one, other = (row[at] if at < len(row) else "" for at in places)
            if not one.strip() or not other.strip():
                raise Invalid(
                    f"{path}:{rows.line_num}: a link lacks one of its two ends",
                    why="a link joins two subjects, and one cell is empty",
                    fix="fill the cell in, or take the row out",
                )
            if one != other:
                ends.append((one, other))
    except csv.Error as error:
        raise Invalid(
            f"{path}:{rows.line_num}: {error}",
            why=f"the links of relation {relation.name} are read as CSV",
            fix="mend the line",
        ) from None
    texts = sorted({text for pair in ends for text in pair})
    names = dict(zip(texts, pseudonyms(secret, "s", texts), strict=True))
    return {_sorted(names[one], names[other]) for one, other in ends}


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _text(relation: Relation, path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror or type(error).__name__}",
            why=f"it holds the links of relation {relation.name}",
            fix="put the file there, or name another one in the policy",
        ) from None
    if len(raw) > LARGEST:
        raise Invalid(
            f"{path} has more than {LARGEST >> 30} GiB",
            why="a link table is read whole",
            fix="leave out the links of people who are in no record",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Invalid(
            f"{path}:{line}: not UTF-8",
            why=f"the links of relation {relation.name} are read as UTF-8",
            fix="save the file as UTF-8",
        ) from None


def _column(relation: Relation, path: Path, header: list[str], name: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    found = "twice" if name in header else "nowhere"
    raise Invalid(
        f"{path} has the column `{name}` {found} in its header",
        why=f"`ends` of relation {relation.name} names it",
        fix="rename the column in the file or in the policy",
    )
