"""What the service manager hears, and that nobody is needed to hear it."""

import os
import socket

import pytest

from dispatcher.app.systemd import Notifier


class Steady:
    """A steady clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady():
    return Steady()


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(0.2)
        yield heard


def told(manager) -> bytes | None:
    try:
        return manager.recv(999)
    except TimeoutError:
        return None


def make(manager, steady, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.getsockname(), **more}, steady)


def test_it_says_ready_reloading_and_stopping(manager, steady):
    notifier = make(manager, steady)
    notifier.ready("leading")
    assert told(manager) == b"READY=1\nSTATUS=leading"
    notifier.reloading()
    assert told(manager) == b"RELOADING=1\nMONOTONIC_USEC=100000000"
    notifier.stopping(40)
    assert told(manager) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000"


def test_it_beats_at_half_of_the_time_and_only_while_there_is_life(manager, steady):
    notifier = make(manager, steady, WATCHDOG_USEC="10000000")
    notifier.beat()
    assert told(manager) == b"WATCHDOG=1"
    steady.now += 4.9
    notifier.beat()
    assert told(manager) is None
    steady.now += 0.2
    notifier.beat(lambda: False)
    assert told(manager) is None
    notifier.beat()
    assert told(manager) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    "more",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"},
     {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid() + 1)}],
)  # fmt: skip
def test_it_does_not_beat_unasked(manager, steady, more):
    notifier = make(manager, steady, **more)
    notifier.beat(lambda: pytest.fail("asked for nothing"))
    assert told(manager) is None


def test_an_abstract_socket_is_spoken_to(steady):
    name = f"dispatcher-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        heard.settimeout(1)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}, steady).ready("leading")
        assert heard.recv(99) == b"READY=1\nSTATUS=leading"


def test_without_a_manager_or_when_it_is_gone_nothing_happens(tmp_path, steady):
    Notifier({}, steady).ready("leading")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}, steady).stopping(1)
