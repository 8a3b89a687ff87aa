"""Files of problems for ``solve`` and ``judge``: JSON, graphs, hypergraphs, check-ins."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import Invalid, Usage

if TYPE_CHECKING:
    from policies.instances.instance_file import Instance

InstanceFile = Annotated[
    Path,
    typer.Argument(
        help="sparsi-instance/1 JSON, DIMACS .col, hMETIS .hgr, or CSV of check-ins."
    ),
]
Adversaries = Annotated[
    int | None, typer.Option(min=1, help="For .col, .hgr and .csv: how many.")
]
Copies = Annotated[
    int, typer.Option(min=1, help="For .col, .hgr and .csv: t of each entry.")
]
Friendships = Annotated[
    Path | None, typer.Option(help="For .csv: pairs of users, with a header.")
]

OPTIONS: Final = {
    ".col": ("--adversaries", "--copies"),
    ".hgr": ("--adversaries", "--copies"),
    ".csv": ("--adversaries", "--copies", "--friendships"),
}
"""Files that are not JSON, by the ends of their names, and what else is said of them."""


def read_document(
    path: Path, adversaries: int | None, copies: int, friendships: Path | None
) -> Any:  # noqa: ANN401 - JSON is anything until it was read
    """Read an instance by the end of its file's name.

    Raises
    ------
    Usage
        The number of adversaries, or the file of friendships, must be named; or one is
        named that such a file does not take.
    Invalid
        With what is wrong, where it is, and how to mend it.
    """
    from policies.instances import importers
    from policies.instances.json_values import InvalidInstance

    kind = path.suffix.lower()
    _check_options(path, adversaries, copies, friendships)
    if kind not in OPTIONS:
        return read_json(path)
    text = _text(path)
    if adversaries is None:
        raise Usage(
            f"{path} does not say how many adversaries there are",
            why="only a sparsi-instance/1 file does",
            fix="name a number with --adversaries",
        )
    try:
        if kind == ".col":
            return importers.colouring(text, adversaries, copies)
        if kind == ".hgr":
            return importers.hypergraph(text, adversaries, copies)
        if friendships is None:
            raise Usage(
                "check-ins come without their friendships",
                why="friendships are what must not be disclosed",
                fix="name their file with --friendships",
            )
        return importers.checkins(text, _text(friendships), adversaries, copies)
    except InvalidInstance as error:
        raise invalid(str(path), error) from None


def _check_options(
    path: Path, adversaries: int | None, copies: int, friendships: Path | None
) -> None:
    """Raise where an option is given that nothing would read."""
    given = {
        "--adversaries": adversaries is not None,
        "--copies": copies != 1,
        "--friendships": friendships is not None,
    }
    read = OPTIONS.get(path.suffix.lower(), ())
    unread = [word for word, there in given.items() if there and word not in read]
    if unread:
        words = " and ".join(unread)
        raise Usage(
            f"{path} does not take {words}",
            why="by the end of its name a file is a graph (.col), a hypergraph (.hgr), "
            "check-ins (.csv), or else JSON, which says how many there are itself",
            fix=f"leave {words} out, or rename the file",
        )


def read_problem(document: object, where: str) -> Instance:
    """Read the instance of a parsed file; utilities of packages are loaded.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to mend it.
    """
    from dispatcher.strategies import load_utility
    from policies.instances.instance_file import read_instance
    from policies.instances.json_values import InvalidInstance

    try:
        return read_instance(document, load_utility)
    except InvalidInstance as error:
        raise invalid(where, error) from None


@contextmanager
def functions_named(where: str) -> Iterator[None]:
    """Say whose fault it is when a user's utility fails."""
    from policies.rules.functions import InvalidFunction

    try:
        yield
    except InvalidFunction as error:
        raise Invalid(
            f"{where}: its utility failed while it was planned or judged by",
            why=str(error),
            fix="tell the author of the function, or name another utility",
        ) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(
            f"{path} is not text",
            why="it is not UTF-8",
            fix="name a file of one of the formats of docs/reference/instances.md",
        ) from None


class _Twice(Exception):
    """A key of JSON that stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; refuse a key that stands there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(repr(next(name for name in made if names.count(name) > 1)[:40]))
    return made


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON is anything until it was read
    """Read a file of JSON.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to mend it.
    """
    text = _text(path)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise Invalid(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}",
            why="the file is not JSON",
            fix="correct this place; the format: docs/reference/instances.md",
        ) from None
    except _Twice as error:
        raise Invalid(
            f"{path}: the key {error} stands twice in one object",
            why="only one of both would be read",
            fix="take one of them out",
        ) from None
    except RecursionError:
        raise Invalid(
            f"{path} is nested too deeply",
            why="nothing in an instance or a plan is deeper than three lists",
            fix="write it as docs/reference/instances.md says",
        ) from None
    except ValueError:
        raise Invalid(
            f"{path} holds a number of too many digits",
            why="numbers are read as 64-bit floats",
            fix="write fewer digits",
        ) from None


def invalid(path: str, error: Any) -> Invalid:  # noqa: ANN401 - a lazy import's class
    """Put an :class:`~policies.instances.json_values.InvalidInstance` of a file in our words."""
    return Invalid(f"{path}: {error.where}", why=error.what, fix=error.mend)


@contextmanager
def own_stdout() -> Iterator[None]:
    """Keep what engines and packages print off our stdout: it goes to stderr."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: then nothing can be printed either
        yield
        return
    try:
        yield
    finally:  # what is still in a buffer was printed here too: Python's, then C's
        with suppress(OSError):
            sys.stdout.flush()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
