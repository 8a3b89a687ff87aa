"""One place that turns errors into messages and exit codes."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import traceback
from pathlib import Path

from dispatcher.errors import EXIT_FAILED, EXIT_INTERRUPTED, DispatcherError


def main() -> int:
    """Run one command.

    Returns
    -------
    int
        The exit status; never a traceback on the terminal.
    """
    _prepare()
    from dispatcher.surfaces.cli.app import app

    try:
        app(prog_name="dispatcher")
    except DispatcherError as error:
        _tell(error)
        return error.exit_status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last line of defence
        _unexpected(error)
        return EXIT_FAILED
    return 0


def _prepare() -> None:
    # Compiled kernels are cached in a directory of ours: an installed package's own
    # tree may be read-only, and uninstalling must leave nothing behind in it.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache / "sparsi-dispatcher" / "numba"))


def _tell(error: DispatcherError) -> None:
    if "--json" in sys.argv:
        body = {
            "code": error.code,
            "title": error.what,
            "why": error.why,
            "fix": error.fix,
            "retryable": error.retryable,
            "facts": error.facts,
        }
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
        return
    print(f"error[{error.code}]: {error.what}", file=sys.stderr)
    for word, text in (("why", error.why), ("fix", error.fix)):
        if text:
            body_text = text.replace("\n", "\n       ")
            print(f"  {word}: {body_text}", file=sys.stderr)
    print(f"  docs: dispatcher explain {error.code}", file=sys.stderr)


def _unexpected(error: Exception) -> None:
    """Tell of a fault of ours without its message, which may hold a value."""
    reference = secrets.token_hex(6)
    frames = traceback.extract_tb(error.__traceback__)
    path = Path(tempfile.gettempdir()) / f"dispatcher-{reference}.log"
    text = "\n".join(
        [type(error).__name__, *(f"{f.filename}:{f.lineno} {f.name}" for f in frames)]
    )
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
    ) as log:
        log.write(text + "\n")
    print(
        f"error[E001]: the program failed unexpectedly ({type(error).__name__})\n"
        "  why: this is a fault of the program; its message is withheld, since it "
        "may hold a value\n"
        f"  fix: report it with {path} (places in the code only, no values)",
        file=sys.stderr,
    )
