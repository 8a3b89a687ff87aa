"""What every command knows: where it works and how it speaks."""

from __future__ import annotations

import json as json_module
import os
import pwd
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from dispatcher.core.errors import DispatcherError, Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.operations.workspace import Workspace
from dispatcher.operations.workspace import wall_clock as wall_clock  # noqa: PLC0414
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.progress import Busy, Counted
from dispatcher.surfaces.cli.terminal import plain

if TYPE_CHECKING:
    from dispatcher.store import Store
    from dispatcher.store.audit_log import Act


DryRun = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Say what it would do; change nothing.")
]
Reason = Annotated[
    str,
    typer.Option(help="Why; kept for auditors. No field value."),
]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")]
OnlyRun = Annotated[
    str | None, typer.Option("--run", help="The run.", autocompletion=completion.runs)
]
OnlyConnector = Annotated[
    str | None,
    typer.Option(
        "--connector",
        help="Only of this connector.",
        autocompletion=completion.connectors,
    ),
]
AcceptPast = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="As many sets past a limit as --dry-run shows, exactly.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write it (0600)."),
]
OneWorker = Annotated[
    str | None,
    typer.Option(
        "--worker",
        metavar="CONNECTOR/NAME",
        help="This worker.",
        autocompletion=completion.workers,
    ),
]
KeyFrom = Annotated[
    str | None,
    typer.Option(help="File with the key of a record or person; - is stdin."),
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit 9 if something is found.")
]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds of search, at most.")
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same result."),
]


def told_moment(at: int) -> str:
    """A moment in microseconds as people read it, to the second, UTC."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")


def zulu(at: int) -> str:
    """A moment in microseconds to the second, UTC, with the ``Z`` of ISO 8601."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


DRY_RUN: Final = "DRY RUN - nothing was changed"


@dataclass
class CliContext(Workspace):
    """Global options, and the store and settings that they lead to.

    Data goes to stdout; messages, progress and errors go to stderr.
    """

    actor: str = field(default="cli", kw_only=True)
    json: bool = False
    jsonl: bool = False
    quiet: bool = False
    no_input: bool = False
    yes: bool = False
    color: bool = True
    header: bool = True
    operation: str = field(default="", init=False)
    given: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)
    act: Act | None = field(default=None, init=False, repr=False)
    busy: Busy | None = None
    """Says that a command takes its time; None without a terminal."""

    def begin(self, operation: str, given: Mapping[str, Any]) -> None:
        """Begin a command: what it changes is one act of the audit chain."""
        self.operation, self.given, self.act = operation, given, None

    def end(self, operation: str, outcome: str = "done") -> None:
        """End a command: one that changes something leaves a line, also if it failed.

        A command that changes something is one that has ``--dry-run``; tried so, it
        leaves none. Others leave a line where they wrote to the store after all.
        """
        changes = self.given.get("dry_run") is False
        looks = any(self.given.get(name) is value for name, value in _LOOKS.items())
        if operation != self.operation or looks or not changes:
            return
        failed = outcome != "done"
        if failed and self.act is None:
            return  # it found no store to act on
        if self.act is not None and self.act.lines and not failed:
            return
        try:
            with super().open_store() as store:
                act = self._begun(store)
                if failed:
                    act.target = ""  # what was typed may be no name of ours
                act.end(store, outcome)
        except DispatcherError:
            if not failed and self.act is not None:
                raise

    def _begun(self, store: Store) -> Act:
        if self.act is None:
            self.act = self.new_act(
                user_name(),
                self.operation,
                target=_target(self.given, store.key("pseudonym-key")),
                reason=self.given.get("reason") or "",
            )
        return self.act

    def open_store(self, *, older: bool = False, dry_run: bool = False) -> Store:
        """Open the store; with ``dry_run`` one that undoes all that is written."""
        store = super().open_store(older=older)
        if not older and self.operation and not self.given.get("dry_run"):
            store = store.acting(self._begun(store))
        if dry_run:
            self.say(DRY_RUN)
            store.undo_writes()
        return store

    def open_to_book(self, *, dry_run: bool = False) -> Store:
        """Open the store for an act that writes into its ledger, or would."""
        store = super().open_to_book()
        if dry_run:
            self.say(DRY_RUN)
            store.undo_writes()
        return store

    def say(self, text: str = "") -> None:
        """Print a message for the person (stderr)."""
        if not self.quiet:
            with self.shown():
                print(plain(text, lines=True), file=sys.stderr)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Take what says that a command runs away while something is written."""
        if self.busy is None:
            yield
            return
        self.busy.hide()
        try:
            yield
        finally:
            self.busy.go_on()

    def counted(self) -> Counted:
        """Return what shows how much is done, with rate and time left."""
        return Counted(self.busy, quiet=self.quiet, color=self.color, say=self.say)

    def show(self, document: Mapping[str, Any], text: str, *, end: str = "\n") -> None:
        """Print the result: as JSON with ``--json`` or ``--jsonl``, else the text."""
        if self.busy is not None:
            self.busy.end()  # the result is there
        if self.jsonl:
            for row in rows_of(document):
                print(json_module.dumps(row, ensure_ascii=False), flush=True)
        elif self.json:
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
        with self.shown():
            print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
            answer = sys.stdin.readline()
        if not answer:
            raise typer.Abort  # the input ended: Ctrl-D
        if answer.strip().lower() not in ("y", "yes"):
            self.say("nothing was changed")
            raise typer.Exit(1)


_LOOKS: Final = {"sql": True, "breaches": True, "seal": False, "fix": False}
"""Values of options with which a command that has ``--dry-run`` changes nothing either."""

TARGETS: Final = (
    "account",
    "accounts",
    "first",
    "second",
    "worker",
    "connector",
    "run",
    "name",
    "names",
    "number",
    "id",
    "ids",
    "field",
    "user",
    "token",
    "session",
)
"""Parameters that name what a command acts on, without a value."""

_NAMED: Final = 5


def _target(given: Mapping[str, Any], key: bytes) -> str:
    """Say what a command acts on; records stand there by their pseudonyms."""
    from dispatcher.core.keys import is_pseudonym, pseudonym

    words = [str(one) for name in TARGETS for one in _listed(given.get(name))]
    for field_name in _listed(given.get("fields")):
        record, dot, of = str(field_name).rpartition(".")
        known = record if is_pseudonym(record) else pseudonym(key, "r", record)
        words.append(f"{known}{dot}{of}")
    if given.get("key"):
        text = str(given["key"])
        words.append(text if is_pseudonym(text) else pseudonym(key, "r", text))
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return " ".join(words[:_NAMED]) + more


def _listed(value: Any) -> Sequence[Any]:  # noqa: ANN401 - what an option takes
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def user_name() -> str:
    """Name of the machine's user who runs the command."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def rows_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a list, or the document where it is no list."""
    lists = [value for value in document.values() if isinstance(value, list | tuple)]
    return lists[0] if len(document) == 2 and lists else [document]


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
        return read_input(path)
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror}",
            why=f"the {what} cannot be read",
            fix=fix,
        ) from None


def leave(status: int) -> NoReturn:
    """End the command with an exit status of its own."""
    raise typer.Exit(status)
