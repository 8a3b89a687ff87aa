"""What the kernels cost to compile, cold: CPU seconds, once per installation.

    python -m benchmarks.kernels

The cache is a fresh directory, so that nothing is found in it; numba's own start is told
apart.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.machine import load_average, verdict
from policies.solvers.kernels.compiling import GROUPS, kernels

LIMIT = 15.0


def started() -> object:
    """Import numba and compile next to nothing."""
    import numba

    return numba.njit(lambda x: x + 1)(1)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> int:
    print(f"load average {load_average():.1f}")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        os.environ["NUMBA_OPT"] = "1"  # as the program sets them
        os.environ["NUMBA_LOOP_VECTORIZE"] = "0"
        print(f"numba's own start {seconds(started):.2f} s of CPU, once a process")
        took = 0.0
        for group in GROUPS:
            each = seconds(lambda name=group: kernels(name, quick=True))
            took += each
            print(f"{group} compiles in {each:.2f} s of CPU")
        print(verdict("all kernels compile in s of CPU", took, LIMIT))
    return 1 if took > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
