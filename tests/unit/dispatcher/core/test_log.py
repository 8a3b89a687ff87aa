"""Logs: one line an event, nothing that came from outside, no words of libraries."""

import errno
import io
import json
import logging
import resource
import sys
import threading

import pytest
import structlog

from dispatcher.core import log

EARLY = log.get_logger("early")  # as a module does, before the program is set up


@pytest.fixture(params=["text", "json"])
def stream(request):
    """What the program writes, in each form."""
    found = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    log.configure(request.param, found)
    yield found
    structlog.reset_defaults()
    root.handlers[:], root.level, sys.excepthook, threading.excepthook = before
    logging.raiseExceptions = True


def fail(error):
    raise error


def test_an_event_is_one_line_with_its_stage_and_ids(stream):
    log.get_logger("booking").info("tick", done=3)
    (line,) = stream.getvalue().splitlines()
    for part in ("tick", "booking", "3", "info"):
        assert part in line


def test_a_logger_that_was_made_first_writes_where_the_others_do(stream):
    EARLY.warning("denied")
    (line,) = stream.getvalue().splitlines()
    assert "denied" in line
    assert "early" in line


@pytest.mark.parametrize("sign", ["\n", "\r", "\x1b", "\u2028", "\x00"])
def test_safety_31_no_sign_from_outside_can_forge_a_line(stream, sign):
    log.get_logger("x").info("tick", name=f"ann{sign}level=error", ids=[f"a{sign}b"])
    assert len(stream.getvalue().splitlines()) == 1
    assert sign not in stream.getvalue().rstrip("\n")


def test_an_error_is_told_by_type_and_place_without_its_message(stream):
    try:
        fail(ValueError("Canary Secretson"))
    except ValueError as error:
        log.get_logger("x").error("tick-failed", error=error)
    text = stream.getvalue()
    assert "ValueError" in text
    assert "test_log.py:" in text
    assert "Canary" not in text


def test_safety_30_a_process_that_breaks_leaves_no_picture_of_its_memory(stream):
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        log.guard_uncaught()
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_debug_lines_are_left_out(stream):
    log.get_logger("x").debug("noise")
    assert stream.getvalue() == ""


def test_what_a_library_logs_is_told_without_its_words(stream):
    try:
        fail(KeyError("Canary Secretson"))
    except KeyError:
        logging.getLogger("library.part").exception("at %s", "Canary Secretson")
    logging.getLogger("httpx").warning("GET /?name=Canary")
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert "library.part" in text
    assert "KeyError" in text
    assert "Canary" not in text


def test_safety_30_what_nobody_catches_is_logged_without_its_message(stream, capsys):
    log.guard_uncaught()

    error = RuntimeError("Canary Secretson")
    thread = threading.Thread(target=fail, args=(error,))
    thread.start()
    thread.join()
    other = ValueError("Canary Secretson")
    sys.excepthook(ValueError, other, other.__traceback__)
    assert len(stream.getvalue().splitlines()) == 2
    assert "Canary" not in stream.getvalue() + "".join(capsys.readouterr())


def test_json_lines_can_be_read_by_machines():
    found = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log.configure("json", found)
    log.get_logger("x").info("tick", name='a"b\n')
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level
    logging.raiseExceptions = True
    assert json.loads(found.getvalue())["name"] == 'a"b\\n'


def test_a_log_that_can_not_be_written_fails_nobody(stream):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self):
            self.write("")

    log.configure("text", Full())
    log.get_logger("sending").warning("connector-resting")


@pytest.fixture
def lines():
    """What is written at moments that the test sets, as JSON."""
    found, now = io.StringIO(), [0.0]
    log.configure("json", found, clock=lambda: now[0])
    yield lambda: [json.loads(line) for line in found.getvalue().splitlines()], now
    structlog.reset_defaults()
    logging.raiseExceptions = True


@pytest.mark.parametrize("level", ["warning", "error"])
def test_a_repeated_fault_is_written_once_a_minute_with_a_count(lines, level):
    written, now = lines
    for second in range(61):
        now[0] = float(second)
        getattr(log.get_logger("x"), level)("broken", code="E1")
    assert [line.get("repeated") for line in written()] == [None, 59]


def test_an_error_of_a_library_is_repeated_no_more_than_ours(lines):
    written, _ = lines
    for _ in range(2000):
        logging.getLogger("asyncio").error("socket.accept() out of system resource")
    assert len(written()) == 1


def test_what_differs_and_what_is_no_fault_is_always_written(lines):
    written, _ = lines
    for number in range(3):
        log.get_logger("x").error("broken", task=number)
        log.get_logger("x").info("tick")
    assert len(written()) == 6
