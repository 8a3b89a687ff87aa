"""Names of processes, by which a lease says who holds it; the memory of this one."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

ARENAS: Final = 2
LARGE: Final = 1 << 20
"""Bytes of a block that goes back to the system as soon as it is freed."""
_M_ARENA_MAX: Final = -8  # malloc.h of glibc
_M_MMAP_THRESHOLD: Final = -3


def tune_malloc() -> None:
    """Keep freed memory where it can be used again, or give it back at once (glibc).

    To be called before any thread begins. Else glibc gives the threads up to eight pools
    for each core, and what is free in one serves no other; and after the first large block
    it takes ever larger ones from between small ones. The memory of a process that runs
    for long grows by both. A ``MALLOC_ARENA_MAX`` of the operator's is left alone.
    """
    with suppress(OSError, AttributeError):  # another C library has no such call
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE)
        if "MALLOC_ARENA_MAX" not in os.environ:
            mallopt(_M_ARENA_MAX, ARENAS)


def collect_promptly() -> None:
    """Look for garbage as often as Python does, in what is made from now on.

    The program starts with a high threshold and with many objects that stay: as garbage,
    what requests leave in cycles would take more memory than what is in use.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 10)


def give_back_memory() -> None:
    """Collect garbage, and give the system what this process has freed and kept (glibc).

    Connections of PostgreSQL that were closed, and what SQLAlchemy wraps them in, are
    garbage in cycles, which may wait long for the oldest generation's turn. What was freed
    between blocks that are in use stays with the process, a little more after each large
    turn. Another C library has no such call.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def describe_process(name: str) -> str:
    """Format a process name for people: host and pid."""
    parts = name.split("/")
    return f"{parts[0]} pid {parts[2]}" if len(parts) == 4 else name


def process_name(pid: int) -> str:
    """Name a process so that its end is detectable: host, boot, pid, start time."""
    return f"{socket.gethostname()}/{_boot()}/{pid}/{_started(pid)}"


def process_digest(name: str) -> str:
    """Return the short form in which rows name a process that wrote them."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def is_dead(name: str) -> bool:
    """Whether a name is of this host and boot and its process has ended."""
    pid = _pid(name)
    return pid is not None and _started(pid) != name.rpartition("/")[2]


def local_pid(name: str) -> int | None:
    """Process id of a name, if that process runs on this machine."""
    return None if is_dead(name) else _pid(name)


def _pid(name: str) -> int | None:
    """Process id of a name of this host and boot; None for a name of elsewhere."""
    parts = name.split("/")
    if len(parts) != 4 or not parts[1] or not parts[2].isdigit():
        return None
    same = (parts[0], parts[1]) == (socket.gethostname(), _boot())
    return int(parts[2]) if same else None


def _boot() -> str:
    """Return the kernel's boot id and pid namespace, within which pids are unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""  # not Linux: then no process counts as dead


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return ""
    facts = stat.rpartition(")")[2].split()
    return "" if facts[0] in "ZX" else facts[19]  # a zombie runs no more
