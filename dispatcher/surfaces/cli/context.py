"""What every command knows: where it works and how it speaks."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from dispatcher.errors import Usage

if TYPE_CHECKING:  # the store loads SQLAlchemy: not for --help
    from dispatcher.config import Config
    from dispatcher.store import Store


def wall_clock() -> int:
    """Microseconds since 1970 UTC: the one place where commands read the clock."""
    return time.time_ns() // 1000


@dataclass
class CliContext:
    """Global options, and the store and settings that they lead to.

    Data goes to stdout; messages, progress and errors go to stderr.
    """

    directory: Path = Path()
    store: str | None = None
    config_file: Path | None = None
    json: bool = False
    quiet: bool = False
    no_input: bool = False
    yes: bool = False
    color: bool = True
    allow_root: bool = True

    @cached_property
    def config(self) -> Config:
        """The settings of the directory, read once."""
        from dispatcher.config import load_config

        environment = dict(os.environ)
        if self.store is not None:
            environment["DISPATCHER_STORE"] = self.store
        return load_config(self.directory, environment, file=self.config_file)

    @cached_property
    def store_url(self) -> str:
        """URL or path of the store."""
        from dispatcher.config import store_location

        return store_location(self.config, self.directory)

    @property
    def store_is_private(self) -> bool:
        """Whether the URL came from a file, so that it may hold a password."""
        return bool(os.environ.get("DISPATCHER_STORE_FILE"))

    def open_store(self) -> Store:
        """Open the store; it must exist and have this program's schema."""
        from dispatcher.store import open_store

        return open_store(self.store_url, password_allowed=self.store_is_private)

    @property
    def policy_path(self) -> Path:
        """The policy file of the directory."""
        return self.directory / self.config.policy

    def say(self, text: str = "") -> None:
        """Print a message for the person (stderr)."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def show(self, document: Mapping[str, Any], text: str) -> None:
        """Print the result: one JSON document with ``--json``, else the text."""
        if self.json:
            print(json_module.dumps(document, ensure_ascii=False))
        elif text:
            print(text)

    def confirm(self, question: str, flag: str = "--yes") -> None:
        """Ask before something that can not be undone easily.

        Raises
        ------
        Usage
            If nobody can be asked (no terminal, or ``--no-input``).
        typer.Exit
            If the answer is no.
        """
        if self.yes:
            return
        if self.no_input or not sys.stdin.isatty():
            raise Usage(
                question,
                why="an answer is needed and there is no terminal to ask on",
                fix=f"repeat the command with {flag}",
            )
        if not typer.confirm(question, err=True):
            raise typer.Exit(1)


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """Lay out rows for people; tab-separated without header where no TTY reads."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        return "\n".join("\t".join(row) for row in cells)
    lines = [list(header), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def leave(status: int) -> NoReturn:
    """End the command with an exit status of its own."""
    raise typer.Exit(status)
