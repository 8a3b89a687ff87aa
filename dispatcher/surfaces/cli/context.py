"""What every command knows: where it works and how it speaks."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import typer

from dispatcher.core.errors import Invalid, Usage
from dispatcher.operations.workspace import Workspace
from dispatcher.operations.workspace import wall_clock as wall_clock  # noqa: PLC0414
from dispatcher.surfaces.cli.terminal import plain


def told_moment(at: int) -> str:
    """A moment in microseconds as people read it, to the second, UTC."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")


@dataclass
class CliContext(Workspace):
    """Global options, and the store and settings that they lead to.

    Data goes to stdout; messages, progress and errors go to stderr.
    """

    actor: str = field(default="cli", kw_only=True)
    json: bool = False
    quiet: bool = False
    no_input: bool = False
    yes: bool = False
    color: bool = True
    header: bool = True

    def say(self, text: str = "") -> None:
        """Print a message for the person (stderr)."""
        if not self.quiet:
            print(plain(text, lines=True), file=sys.stderr)

    def show(self, document: Mapping[str, Any], text: str, *, end: str = "\n") -> None:
        """Print the result: one JSON document with ``--json``, else the text."""
        if self.json:
            print(json_module.dumps(document, ensure_ascii=False), flush=True)
        elif text:
            print(text, end=end, flush=True)

    def table(self, rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
        """Lay out rows under a header; tab-separated where no terminal reads."""
        cells = [[plain(str(cell)) for cell in row] for row in rows]
        if not cells:
            return ""
        lines = [list(header), *cells] if self.header else cells
        if not sys.stdout.isatty():
            return "\n".join("\t".join(line) for line in lines)
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) for cell, w in zip(line, widths, strict=True)
            ).rstrip()
            for line in lines
        )

    def confirm(self, question: str, flag: str = "--yes") -> None:
        """Ask before something that cannot be undone easily.

        Raises
        ------
        Usage
            If nobody can be asked (no terminal, or ``--no-input``).
        typer.Exit
            If the answer is no.
        typer.Abort
            If the input ends without an answer.
        """
        if self.yes:
            return
        if self.no_input or not sys.stdin.isatty():
            raise Usage(
                question,
                why="an answer is needed and there is no terminal to ask on",
                fix=f"repeat the command with {flag}",
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            raise typer.Abort  # the input ended: Ctrl-D
        if answer.strip().lower() not in ("y", "yes"):
            self.say("nothing was changed")
            raise typer.Exit(1)


def read_file(
    path: Path,
    *,
    what: str = "file",
    fix: str = "check the path and its permissions",
) -> bytes:
    """Read a file whole.

    Raises
    ------
    Invalid
        It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror}",
            why=f"the {what} cannot be read",
            fix=fix,
        ) from None


def leave(status: int) -> NoReturn:
    """End the command with an exit status of its own."""
    raise typer.Exit(status)
