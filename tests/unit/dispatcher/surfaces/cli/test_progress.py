"""Progress is shown on a terminal once it takes a while, and leaves nothing behind."""

import io
import sys

from dispatcher.surfaces.cli import progress
from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.progress import Busy, Counted


class Terminal(io.StringIO):
    def isatty(self):
        return True


class AtOnce:
    """A timer whose seconds are over as soon as it starts."""

    def __init__(self, seconds, act):
        assert seconds == progress.AFTER
        self.start = act

    def cancel(self):
        pass


def on_a_terminal(monkeypatch):
    """Let stderr be a terminal: in the test itself, since pytest sets it before."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_a_command_that_takes_a_second_says_so_until_its_result_is_there(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    busy = Busy("plan", color=False, timer=AtOnce)
    context = CliContext(busy=busy)
    busy.go_on()
    assert "dispatcher plan" in terminal.getvalue()
    context.say("4 workers")  # it gives way, and comes back
    head, _, tail = terminal.getvalue().partition("4 workers\n")
    assert head.count("dispatcher plan") >= 1
    assert "dispatcher plan" in tail
    context.show({}, "")
    shown = terminal.getvalue()
    context.say("done")
    assert terminal.getvalue() == shown + "done\n"


def test_what_the_work_reports_is_said_with_its_rate_and_the_time_that_is_left(
    monkeypatch,
):
    terminal = on_a_terminal(monkeypatch)
    seconds = iter((10.0, 20.0))
    busy = Busy("ledger", color=False, timer=AtOnce, clock=lambda: next(seconds))
    busy.heed(1_000, 61_000, "lines")
    busy.heed(31_000, 61_000, "lines")
    busy.go_on()
    busy.end()
    said = "31,000 of 61,000 lines, 3,000 a second, 0:10 left"
    assert said in terminal.getvalue()
    assert progress.rate_words(0.125) == "8 s each"  # a load of scans: 0 a second


def test_what_is_counted_says_how_much_and_how_long_it_takes(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    with Counted(None, quiet=False, color=False, say=print) as counted:
        counted.show(3, 4, "3 scans")
    assert "75 % 3 scans" in terminal.getvalue()


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    lines = []
    with Counted(None, quiet=False, color=False, say=lines.append) as counted:
        counted.show(3, 4, "3 scans")
        counted.show(3, None, "3 scans")
    with Counted(None, quiet=True, color=False, say=lines.append) as counted:
        counted.show(3, 4, "3 scans")
    assert lines == ["75 %  3 scans", "3 scans"]
    assert capsys.readouterr().err == ""
