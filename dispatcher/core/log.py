"""Logs: one line per event, with an ``action`` and ids, never a field value.

Every event is a fixed word with named ids and numbers; free text from outside never
becomes part of a line, and control characters are escaped, so that no line can be
forged. Uncaught errors are logged by type and place in the code, without their message,
which may contain a value.
"""

from __future__ import annotations

import logging
import math
import resource
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, TextIO, cast

Format = Literal["text", "json"]

QUIET: Final = 60.0
"""Seconds for which a repeated line is only counted."""
_REMEMBERED: Final = 256  # lines


class _Steady:
    """A stream, or the current stderr, whose writes never fail.

    A line that cannot be written (the log's disk is full, its reader is gone) is lost;
    the work that it reports goes on.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # full or broken; closed
            (self._stream or sys.stderr).write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            (self._stream or sys.stderr).flush()


def configure(
    form: Format = "text",
    stream: TextIO | None = None,
    *,
    level: int = logging.INFO,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Send all logs to a stream (stderr if none is given), as text or JSON lines.

    Parameters
    ----------
    form : str
    stream : TextIO, optional
    level : int
        Events below it are dropped.
    clock : callable
        () -> seconds, monotonic: for suppressing repeated lines.
    """
    import structlog  # noqa: PLC0415 - heavy, and most commands log nothing

    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=True)
        if form == "json"
        else structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"]
        )
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _place_of_error,
            _Repeats(clock),
            _escape,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Steady(stream))),
        cache_logger_on_first_use=False,
    )
    _guard_libraries()


def configure_command() -> None:
    """Send warnings to stderr, unless logs are configured: commands print their own."""
    _guard_libraries()
    _of_a_command.set()


_of_a_command: Final = threading.Event()
"""Set where a command logs: its logs are configured with its first logger."""


def _guard_libraries() -> None:
    root = logging.getLogger()
    root.handlers = [_FromLibraries()]
    root.setLevel(logging.ERROR)
    logging.raiseExceptions = False


def guard_uncaught() -> None:
    """Log uncaught errors, in any thread, by place and type only.

    Also disable core dumps.
    """
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def get_logger(stage: str) -> Any:  # noqa: ANN401 - structlog's own return type
    """Return a logger that names its stage in every line.

    It may be created before logs are configured (``bind`` would fix where they go).
    """
    import structlog  # noqa: PLC0415 - as in configure

    if _of_a_command.is_set() and not structlog.is_configured():
        configure(level=logging.WARNING)
    return structlog.get_logger(stage=stage)


class _FromLibraries(logging.Handler):
    """Logs records of libraries by place and type, never their message.

    A library's message, and the message of an error in it, may contain a value.
    """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        get_logger("library").error(
            "library-error",
            library=record.name,
            where=f"{record.module}:{record.lineno}",
            **({"error": error} if error is not None else {}),
        )


def _uncaught(
    kind: type[BaseException], error: BaseException, _trace: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        get_logger("program").error("uncaught", error=error)


def _uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    if uncaught.exc_value is not None:
        get_logger("program").error("uncaught", error=uncaught.exc_value)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    if unraisable.exc_value is not None:  # Python's text has the object: omit it
        get_logger("program").error("unraisable", error=unraisable.exc_value)


def _place_of_error(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    error = event.pop("error", None)
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        event["error"] = type(error).__name__
        event["at"] = " < ".join(
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
            for frame in reversed(frames)
        )
    elif error is not None:
        event["error"] = error
    return event


class _Repeats:
    """Passes a warning or an error once a minute, with its number of repetitions.

    Otherwise lines that strangers can provoke would fill the disk.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._written: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        from structlog import DropEvent  # noqa: PLC0415 - as in configure

        if method not in ("warning", "error"):
            return event
        line = repr(sorted((k, v) for k, v in event.items() if k != "timestamp"))
        with self._lock:
            now = self._clock()
            then, repeated = self._written.get(line, (-math.inf, 0))
            if now - then < QUIET:
                self._written[line] = then, repeated + 1
                raise DropEvent
            self._written[line] = now, 0
            self._written.move_to_end(line)
            if len(self._written) > _REMEMBERED:
                self._written.popitem(last=False)
        if repeated:
            event["repeated"] = repeated
        return event


def _escape(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if value is None or isinstance(value, bool | int | float):
            continue
        text = str(value)
        if not text.isprintable():
            text = text.encode("unicode_escape").decode("ascii")
        event[key] = text
    return event
