"""One place that turns errors into messages and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from dispatcher.core.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    Conflict,
    DispatcherError,
    Invalid,
    Usage,
)
from dispatcher.core.private_files import private
from dispatcher.surfaces.cli.terminal import cut, plain
from dispatcher.surfaces.cli.tree import ANYWHERE, help_page, words_of

COMPLETING: Final = "_DISPATCHER_COMPLETE"
"""Set by a shell that asks what would complete its line."""
INTERRUPTED: Final = "interrupted: finished steps hold, the one under way is undone"


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    words : sequence of str, optional
        The words after the program's name; None: those of this process.

    Returns
    -------
    int
        The exit status; never a traceback on the terminal.
    """
    _prepare()
    words = hoist(sys.argv[1:] if words is None else words)
    try:
        status = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        status = _reader_went()
    except Exception as error:  # noqa: BLE001 - the last line of defence
        known = _known(error)
        with contextlib.suppress(OSError):  # stderr is closed: the status says it
            _tell(known, as_json=bool({"--json", "--jsonl"} & set(words)))
        status = known.exit_status
        _let_go()
    if status == EXIT_INTERRUPTED:
        with contextlib.suppress(OSError):
            print(INTERRUPTED, file=sys.stderr)
    return status


def _known(error: Exception) -> DispatcherError:
    """Put any error in our words; of a fault of ours the message stays hidden."""
    if isinstance(error, DispatcherError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        named = error.filename is not None
        return Invalid(
            f"{error.filename if named else 'reading or writing failed'}: "
            f"{os.strerror(error.errno)}",
            why="a file or directory cannot be used as the command needs it",
            fix="check its path, its permissions and the room on the disk",
        )
    return _unexpected(error)


def hoist(words: Sequence[str]) -> list[str]:
    """Put options that hold for every command before the command.

    So both ``dispatcher --json status`` and ``dispatcher status --json`` are right.
    Words after ``--`` stay as they are.
    """
    cut = words.index("--") if "--" in words else len(words)
    anywhere = words_of(ANYWHERE)
    first = [word for word in words[:cut] if word in anywhere]
    rest = [word for word in words[:cut] if word not in anywhere]
    return [*first, *rest, *words[cut:]]


def _run(words: list[str]) -> int:
    if words in (["--help"], ["-h"]) and COMPLETING not in os.environ:
        print(help_page(shutil.get_terminal_size().columns), end="")
        return 0
    import typer

    from dispatcher.surfaces.cli.app import app

    try:
        done = app(words, prog_name="dispatcher", standalone_mode=False)
    except typer.Abort:  # the end of input at a question, or Ctrl-C there
        return EXIT_INTERRUPTED
    except SystemExit as error:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            return _reader_went()  # Typer's own way out of a broken pipe
        return _left_by(error)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _misused(error)
    return done if isinstance(done, int) else 0


def _left_by(error: SystemExit) -> int:
    """Tell an end that Typer or its printer makes from one that a package makes.

    Raises
    ------
    Conflict
        Somebody else's code called ``sys.exit``: nobody knows what was done.
    """
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__", "unknown"))
    if module == "rich.console":  # help into a pipe whose reader went
        return _reader_went()
    if module.partition(".")[0] != "typer":
        raise Conflict(
            "a package ended the command before it was done",
            why=f"the module {module} raised SystemExit",
            fix="tell its author, or take it out of the settings",
        ) from error
    return error.code if isinstance(error.code, int) else EXIT_FAILED


def _misused(error: Any) -> int:  # noqa: ANN401 - Typer names no public class for it
    """Tell of wrong words as of every other error."""
    ctx = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # the help was asked by silence
        print(error.format_message(), end="")
        return 0
    path = ctx.command_path if ctx is not None else "dispatcher"
    raise Usage(
        error.format_message(),
        why="the command does not take these words",
        fix=f"see what it takes: {path} --help",
    ) from None


def _prepare() -> None:
    _fill_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a name may not fit the terminal
        sys.stdout.reconfigure(errors="backslashreplace")


def _fill_streams() -> None:
    """Put something where a standard stream was closed (``>&-``).

    Else the next file that is opened, such as the store, would take its number and be
    written to by whoever prints. What is printed to a closed stdout must fail, not
    vanish: so its stand-in cannot be written to.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _reader_went() -> int:
    """End quietly: the reader of our output has enough (``| head``)."""
    _discard()
    return 0


def _let_go() -> None:
    """Drop what stdout cannot take (a full disk): at exit it would fail once more."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard()


def _discard() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(error: DispatcherError, *, as_json: bool) -> None:
    what = cut(plain(error.what))
    why, fix = (cut(plain(text, lines=True)) for text in (error.why, error.fix))
    if as_json:
        body = {
            "code": error.code,
            "title": what,
            "why": why,
            "fix": fix,
            "retryable": error.retryable,
            "facts": error.facts,
        }
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
        return
    print(f"error[{error.code}]: {what}", file=sys.stderr)
    for word, text in (("why", why), ("fix", fix)):
        if text:
            body_text = text.replace("\n", "\n       ")
            print(f"  {word}: {body_text}", file=sys.stderr)
    print(f"  docs: dispatcher explain {error.code}", file=sys.stderr)


def _crash_folder() -> Path:
    """Make the folder of the user's program states, or of the service's own.

    Not the folder for temporary files: that is emptied, and everybody may write there.
    """
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    folder = Path(given or state) / "dispatcher"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _unexpected(error: Exception) -> DispatcherError:
    """Describe a fault of ours without its message, which may hold a value."""
    reference = secrets.token_hex(6)
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    try:
        path = _crash_folder() / f"dispatcher-{reference}.log"
        with open(path, "x", encoding="utf-8", opener=private) as log:
            log.write("\n".join([type(error).__name__, *places]) + "\n")
        report = f"report it with {path} (places in the code only, no values)"
    except (OSError, RuntimeError):  # no room, or no home: the last place has to do
        report = f"report it with this place: {places[-1] if places else 'unknown'}"
    return DispatcherError(
        f"the program failed unexpectedly ({type(error).__name__})",
        why="this is a fault of the program; its message is withheld, since it may "
        "hold a value",
        fix=report,
        facts={"request_id": reference},
    )
