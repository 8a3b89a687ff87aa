"""Import other files as instances: DIMACS graphs, hMETIS hypergraphs, check-ins.

Each importer reads text and returns an instance document ("sparsi-instance/1"). The
caller provides what such files do not contain: the number of adversaries, and how many
may see an entry.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

from policies.instances.instance_file import SCHEMA
from policies.instances.json_values import InvalidInstance, check_size, closest_name

Document = dict[str, Any]

LARGEST_COUNT: Final = 10**7
"""Vertices, edges or check-ins that are read, at most."""

COLUMNS: Final = ("user", "location", "count", "weight")
"""Columns of check-ins; the first two are required, unknown ones are ignored."""


def colouring(text: str, adversaries: int, copies: int = 1) -> Document:
    """Read a DIMACS graph (``.col``): an edge is a property of its two vertices.

    A plan with one copy an entry is a proper colouring, an adversary a colour.

    Raises
    ------
    InvalidInstance
        Gives the line with the error.
    """
    n: int | None = None
    head = declared = listed = 0
    edges: dict[tuple[int, int], None] = {}
    for row, words in _lines(text):
        if words[0] == "p":
            if n is not None:
                raise _line_error(row, f"a second line 'p', the first is line {head}")
            n, declared = _graph_size(row, words)
            head = row
        elif words[0] == "e":
            if n is None:
                raise _line_error(row, "an edge comes before the line 'p edge'")
            edges[_edge(row, words, n)] = None
            listed += 1
        elif words[0] not in ("c", "d", "v", "x"):  # comments, and how it was made
            raise _line_error(row, "the line begins with none of c, p, e, d, v and x")
    if n is None:
        raise InvalidInstance(
            "the line 'p edge <vertices> <edges>' is missing",
            "the file",
            "Is it a DIMACS .col file?",
        )
    if listed < declared:  # more: an edge may be listed in both directions
        raise _line_error(head, f"{declared} edges are declared, {listed} follow")
    properties = [{"entries": list(edge)} for edge in edges]
    return _whole_sets_apart(n, properties, adversaries, copies)


def _graph_size(row: int, words: list[str]) -> tuple[int, int]:
    """Read the numbers of vertices and edges from the line 'p'."""
    if words[1:2] not in (["edge"], ["edges"], ["col"]):
        raise _line_error(row, "the line is not 'p edge <vertices> <edges>'")
    n, declared = _integers(words[2:], row, 2)
    return n, declared


def _edge(row: int, words: list[str], n: int) -> tuple[int, int]:
    """Read both vertices of an edge, from 0, the lower first."""
    one, two = (v - 1 for v in _integers(words[1:], row, 2))
    if not (0 <= one < n and 0 <= two < n):
        raise _line_error(row, f"an edge names a vertex that is not 1 to {n}")
    if one == two:
        raise _line_error(row, "an edge joins a vertex to itself")
    return min(one, two), max(one, two)


def hypergraph(text: str, adversaries: int, copies: int = 1) -> Document:
    """Read an hMETIS hypergraph (``.hgr``): a hyperedge is a property.

    Weights of hyperedges are ignored; weights of vertices become those of the entries.

    Raises
    ------
    InvalidInstance
        Gives the line with the error.
    """
    lines = [line for line in _lines(text) if not line[1][0].startswith("%")]
    if not lines:
        raise InvalidInstance(
            "the file is empty", "the file", "Is it an hMETIS .hgr file?"
        )
    row, words = lines[0]
    m, n = _integers(words[:2], row, 2)
    style = " ".join(words[2:]) or "0"
    if style not in ("0", "00", "1", "01", "10", "11"):
        raise _line_error(row, "the format is none of 1, 10 and 11")
    skip = 1 if style.endswith("1") else 0
    weighted = style in ("10", "11")
    wanted = m + (n if weighted else 0)
    if len(lines) - 1 != wanted:
        raise _line_error(row, f"{wanted} lines must follow, {len(lines) - 1} do")
    properties = []
    for number, line in lines[1 : m + 1]:
        for weight in line[:skip]:
            _integer(weight, number)
        members = sorted({v - 1 for v in _integers(line[skip:], number)})
        if members and not (members[0] >= 0 and members[-1] < n):
            raise _line_error(
                number, f"a hyperedge names a vertex that is not 1 to {n}"
            )
        properties.append({"entries": members})
    worth = [1] * n
    if weighted:
        worth = [_integers(line, number, 1)[0] for number, line in lines[m + 1 :]]
    return _whole_sets_apart(n, properties, adversaries, copies, worth)


def checkins(
    entries: str, friendships: str, adversaries: int, copies: int = 1
) -> Document:
    """Read check-ins and friendships (CSV): a friendship is a property (cosine).

    Parameters
    ----------
    entries : str
        CSV with a header; columns ``user``, ``location`` and optionally ``count``
        (integers >= 0) and ``weight``. Rows of one user and location are added up.
    friendships : str
        CSV with a header and two columns of users.
    adversaries, copies : int

    Raises
    ------
    InvalidInstance
        Gives the line with the error.
    """
    counts: dict[tuple[str, str], int] = {}
    worth: dict[tuple[str, str], float] = {}
    for row, cells in _csv_rows(entries, "the check-ins", COLUMNS[:2], COLUMNS):
        key = cells["user"], cells["location"]
        counts[key] = counts.get(key, 0) + _integer(cells.get("count", "1"), row)
        worth[key] = max(worth.get(key, 0.0), _weight(cells.get("weight", "1"), row))
    by_user: dict[str, list[int]] = {}
    for d, (user, _) in enumerate(counts):
        by_user.setdefault(user, []).append(d)
    links: dict[tuple[str, str], None] = {}
    for row, cells in _csv_rows(friendships, "the friendships", ()):
        ends = list(cells.values())[:2]
        if len(ends) < 2:
            raise _line_error(row, "a friendship needs two users")
        if ends[0] != ends[1]:
            links[min(ends), max(ends)] = None
    properties = [
        {"left": by_user.get(one, []), "right": by_user.get(two, [])}
        for one, two in links
        if one in by_user and two in by_user
    ]
    first = next(csv.reader(StringIO(friendships)))
    if len(first) == 2 and all(name.strip() in by_user for name in first):
        raise _line_error(
            1, "two users stand where the friendships' header is expected"
        )
    n, t = len(counts), min(copies, adversaries)
    check_size(n, adversaries, "the file")
    return {
        "schema": SCHEMA,
        "n_entries": n,
        "n_adversaries": adversaries,
        "t": copies,
        "weights": [[w] * adversaries for w in worth.values()],
        "utility_norm": t * sum(worth.values()) or 1.0,
        "properties": properties,
        "loc": [spot for _, spot in counts],
        "cnt": list(counts.values()),
        "disclosure": {"kind": "cosine", "aggregation": "average"},
        "problem": "zero_cosine",
        "lambda": 1.0,
        "tau": 0.0,
    }


def _whole_sets_apart(
    n: int,
    properties: list[dict[str, list[int]]],
    adversaries: int,
    copies: int,
    worth: list[int] | None = None,
) -> Document:
    """Return an instance in which no adversary may hold a whole property."""
    check_size(n, adversaries, "the file")
    weights = [1] * n if worth is None else worth
    return {
        "schema": SCHEMA,
        "n_entries": n,
        "n_adversaries": adversaries,
        "t": copies,
        "weights": [[float(w)] * adversaries for w in weights],
        "utility_norm": float(sum(weights) * min(copies, adversaries)) or 1.0,
        "properties": properties,
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
        "lambda": 1.0,
        "tau": 0.0,
    }


def _line_error(row: int, what: str) -> InvalidInstance:
    return InvalidInstance(what, f"line {row}", "Correct this line of the file.")


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines as words, with their numbers from 1."""
    for row, line in enumerate(text.splitlines(), start=1):
        if words := line.split():
            yield row, words


def _integers(words: list[str], row: int, count: int | None = None) -> list[int]:
    """Return words as integers >= 0."""
    if count is not None and len(words) != count:
        raise _line_error(row, f"{len(words)} numbers, {count} were expected")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise _line_error(row, "a word is not a whole number")
    numbers = [int(word) for word in words]
    if numbers and max(numbers) > LARGEST_COUNT:
        raise _line_error(row, f"a number is above {LARGEST_COUNT}")
    return numbers


def _weight(word: str, row: int) -> float:
    """Return a finite number >= 0."""
    try:
        value = float(word)
    except ValueError:
        raise _line_error(row, "a weight is not a number") from None
    if not 0 <= value < 1e15:
        raise _line_error(row, "a weight is not a number from 0 to 10^15")
    return value


def _integer(word: str, row: int) -> int:
    """Return an integer >= 0."""
    if not (word.isascii() and word.isdigit() and len(word) <= 15):
        raise _line_error(
            row, "a count or weight is not a whole number of at most 15 digits"
        )
    return int(word)


def _csv_rows(
    text: str, what: str, needed: tuple[str, ...], known: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV with a header, with their line numbers."""
    reader = csv.DictReader(StringIO(text))
    try:
        header = [name.strip().lower() for name in reader.fieldnames or []]
        missing = [name for name in needed if name not in header]
        for name in header:
            meant = closest_name(name, known, 0.85)  # counts, but not country
            if meant and name not in known and meant not in header:
                raise _line_error(
                    1, f"the header of {what} lacks {meant}: is it {name[:40]}?"
                )
        if not header or missing:
            raise InvalidInstance(
                f"the header of {what} lacks {', '.join(missing) or 'everything'}",
                "line 1",
                f"Name the columns in the first line: {', '.join(needed) or 'a, b'}.",
            )
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise _line_error(
                1, f"the header of {what} names {', '.join(twice)[:40]} twice"
            )
        reader.fieldnames = header
        for cells in reader:
            if None in cells or None in cells.values():
                raise _line_error(reader.line_num, "the row has not one cell a column")
            yield reader.line_num, {k: v.strip() for k, v in cells.items()}
    except csv.Error as error:
        raise _line_error(reader.line_num, f"the CSV is broken: {error}") from None
