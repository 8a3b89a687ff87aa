"""What every command knows: where it works and how it speaks."""

from __future__ import annotations

import hmac
import json as json_module
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from dispatcher.core.errors import Invalid, Usage
from dispatcher.core.private_files import private
from dispatcher.surfaces.cli.plain import plain

if TYPE_CHECKING:  # the store loads SQLAlchemy: not for --help
    from connectors.base import Feed, Market
    from dispatcher.core.config import Config
    from dispatcher.store import Store
    from dispatcher.store.vault import KeyFile


STORE_FILE: Final = "DISPATCHER_STORE_FILE"
"""Environment: name of a file that holds the store's URL, with a password or not."""


def wall_clock() -> int:
    """Microseconds since 1970 UTC: the one place where commands read the clock."""
    return time.time_ns() // 1000


def told_moment(at: int) -> str:
    """A moment in microseconds as people read it, to the second, UTC."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")


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

    @cached_property
    def config(self) -> Config:
        """The settings of the directory, read once."""
        from dispatcher.core.config import load_config

        environment = dict(os.environ)
        if self.store is not None:
            environment["DISPATCHER_STORE"] = self.store
        return load_config(self.directory, environment, file=self.config_file)

    @cached_property
    def store_url(self) -> str:
        """URL or path of the store: ``--store``, else a private file, else settings."""
        from dispatcher.core.config import read_private, store_location

        if self.store_is_private:
            return read_private(Path(os.environ[STORE_FILE]))
        return store_location(self.config, self.directory)

    @property
    def store_is_private(self) -> bool:
        """Whether the URL comes from a file, so that it may hold a password."""
        return self.store is None and bool(os.environ.get(STORE_FILE))

    def open_store(self, *, older: bool = False) -> Store:
        """Open the store; it must have this program's schema, or may have an ``older``."""
        from dispatcher.core import log
        from dispatcher.store import open_store

        log.configure_command()
        store = open_store(
            self.store_url,
            older=older,
            password_allowed=self.store_is_private,
            key_file=self.key_file,
        )
        self.ship(store)
        return store

    def open_connectors(
        self, store: Store, names: Iterable[str] | None = None
    ) -> dict[str, Market | Feed]:
        """Open connectors of the settings, all or those named; none is called.

        A task page of our own (kind ``inhouse``) signs with a key of the store, each by
        another one.
        """
        from dispatcher.core.plugins import open_connectors
        from dispatcher.surfaces.invitations import HOME

        configured = self.config.connectors
        if names is not None:
            configured = {name: configured[name] for name in names}
        key = store.key("token-key")
        return open_connectors(
            configured,
            directory=self.directory,
            secrets={
                name: key if name == HOME else hmac.digest(key, name.encode(), "sha256")
                for name, values in configured.items()
                if values.get("kind", name) == HOME
            },
        )

    @property
    def shipped(self) -> Path | None:
        """Folder of the shipped ledger; None where nothing is shipped."""
        ship = self.config.ledger.ship
        return self.directory / ship if ship else None

    def ship(self, store: Store) -> None:
        """Let every line of a store's ledger be kept in the folder of the settings."""
        from dispatcher.ledger.shipping import attach

        if self.shipped is not None:
            attach(store, self.shipped, limit=self.config.ledger.segment_mib * 2**20)

    @property
    def anchor(self) -> Path | None:
        """File that roots of seals are appended to; None where there is none."""
        anchor = self.config.ledger.anchor
        return self.directory / anchor if anchor else None

    def anchor_roots(self, store: Store) -> None:
        """Append the roots of new seals to the file of the settings."""
        from dispatcher.ledger.shipping import store_id
        from dispatcher.ledger.shipping.anchors import anchor

        if self.anchor is not None:
            anchor(store, self.anchor, owner=store_id(store))

    def check_anchor(self, store: Store) -> int:
        """Check that a store has every root of the file; return how many there are.

        Raises
        ------
        LedgerAhead
            It does not: it was put back from an older state.
        """
        from dispatcher.ledger.shipping import store_id
        from dispatcher.ledger.shipping.anchors import check_anchor

        if self.anchor is None:
            return 0
        return check_anchor(store, self.anchor, owner=store_id(store))

    @cached_property
    def key_file(self) -> KeyFile:
        """Where the key is that opens the store's values."""
        from dispatcher.core.config import key_file_location
        from dispatcher.store.vault import KeyFile

        return KeyFile(*key_file_location(self.config, self.directory, os.environ))

    @property
    def policy_path(self) -> Path:
        """The policy file of the directory."""
        return self.directory / self.config.policy

    def spare(self, output: Path, *inputs: Path) -> None:
        """Refuse to write over what the command, or every command, lives from.

        Raises
        ------
        Usage
            The output is the store, the settings, the policy or one of the inputs.
        """
        settings = self.config_file or self.directory / "dispatcher.toml"
        kept = [Path(self.store_url), settings, self.policy_path]
        kept += [Path(f"{kept[0]}{tail}") for tail in ("-wal", "-shm")]
        kept.append(self.key_file.path)
        if any(_is_same(output, path) for path in (*kept, *inputs)):
            raise Usage(
                f"{output} is in use by this very command",
                why="the output would be written over the store, the settings, the "
                "policy or the input",
                fix="name another file",
            )

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

    def confirm(self, question: str, flag: str = "--yes") -> None:
        """Ask before something that can not be undone easily.

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


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there: so they are two
        return False


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
        It can not be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror}",
            why=f"the {what} can not be read",
            fix=fix,
        ) from None


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """Lay out rows for people; tab-separated without header where no TTY reads."""
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    if not cells:
        return ""
    if not sys.stdout.isatty():
        return "\n".join("\t".join(row) for row in cells)
    lines = [list(header), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_private(path: Path, text: str, *, replace: bool = True) -> Path:
    """Write a file that only its owner may read, whatever the umask is.

    A file that is replaced is replaced whole, or stays as it was.

    Raises
    ------
    FileExistsError
        If it is there and ``replace`` is off.
    """
    target = path.with_name(f".{path.name}.{os.getpid()}") if replace else path
    handle = private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if replace:
            target.replace(path)
    except OSError:  # the disk is full: nothing may stay that is cut off
        target.unlink(missing_ok=True)
        raise
    return path


def leave(status: int) -> NoReturn:
    """End the command with an exit status of its own."""
    raise typer.Exit(status)
