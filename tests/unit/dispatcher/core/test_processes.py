"""Names of processes: which one has ended, and how people read them."""

import gc
import os
import platform
import subprocess
import sys
import weakref

import pytest

from dispatcher.core.processes import (
    ARENAS,
    collect_promptly,
    describe_process,
    give_back_memory,
    is_dead,
    process_name,
)


@pytest.fixture
def ended():
    """The name that a process had which has ended since."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_name(child.pid)
    child.communicate(b"\n")
    return name


def test_a_running_process_is_not_dead():
    assert not is_dead(process_name(os.getpid()))


def test_a_process_that_ended_is_dead(ended):
    assert is_dead(ended)


def test_a_number_given_to_another_process_is_another_name(ended):
    host, boot, _, started = ended.split("/")
    assert is_dead(f"{host}/{boot}/{os.getpid()}/{started}")


@pytest.mark.parametrize("part", [0, 1], ids=["host", "boot"])
def test_a_process_of_elsewhere_is_never_told_dead(ended, part):
    parts = ended.split("/")
    parts[part] = "elsewhere"
    assert not is_dead("/".join(parts))


@pytest.mark.parametrize("name", ["", "me", "a/b/c", "h/b/x/1", "h//1/1"])
def test_a_name_of_another_form_is_never_told_dead(name):
    assert not is_dead(name)


def test_people_are_told_host_and_pid():
    assert describe_process("host-a/b00t/4121/99") == "host-a pid 4121"
    assert describe_process("something") == "something"


_ALLOCATING = """
import ctypes, sys, threading
from dispatcher.core.processes import tune_malloc

tune_malloc()
together = threading.Barrier(12)


def allocate():
    kept = [bytes(600 + n) for n in range(200)]
    together.wait()
    return kept


threads = [threading.Thread(target=allocate) for _ in range(12)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


_FREEING = """
from pathlib import Path
from dispatcher.core.processes import give_back_memory


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])


kept = [bytearray(20_000) for _ in range(4_000)]
kept = kept[::40]  # what is in use lies between what was freed
before = resident()
give_back_memory()
print(resident() / before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep no blocks")
def test_what_was_freed_between_used_blocks_goes_back_to_the_system():
    told = subprocess.run(
        [sys.executable, "-c", _FREEING], capture_output=True, text=True, check=True
    )
    assert float(told.stdout) < 0.5


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
@pytest.mark.parametrize(("operators", "arenas"), [(None, ARENAS), ("5", 5)])
def test_all_threads_share_few_pools_of_memory(operators, arenas):
    kept = {k: v for k, v in os.environ.items() if k != "MALLOC_ARENA_MAX"}
    given = {} if operators is None else {"MALLOC_ARENA_MAX": operators}
    told = subprocess.run(
        [sys.executable, "-c", _ALLOCATING],
        env=kept | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.count("<heap nr=") == arenas


_LARGE = """
from pathlib import Path
from dispatcher.core.processes import tune_malloc


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


tune_malloc()
bytearray(8 << 20)  # malloc takes the next blocks of this size from its pools
before = resident()
blocks = [bytearray(b"x" * (4 << 20)) for _ in range(9)]
blocks = blocks[8:]
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the call is glibc's")
def test_large_blocks_go_back_to_the_system_when_they_are_freed():
    told = subprocess.run(
        [sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) < 8


def test_garbage_of_work_is_collected_soon_once_a_daemon_has_started():
    class Request:
        def __init__(self):
            self.answer = {"of": self}

    before = gc.get_threshold()
    gc.set_threshold(50_000)
    try:
        collect_promptly()
        assert gc.get_freeze_count() > 10_000
        served = weakref.ref(Request())
        made = [[] for _ in range(1_000)]
        assert served() is None, made
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_garbage_in_cycles_is_collected_before_memory_is_given_back():
    """Closed connections of PostgreSQL stayed until 50,000 more objects were made."""

    class Closed:
        def __init__(self):
            self.cursor = {"of": self}

    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        closed = weakref.ref(Closed())
        assert closed() is not None
        give_back_memory()
        assert closed() is None
    finally:
        gc.set_threshold(*before)
