"""Compile the solvers' kernels, once per installation: ``python -m policies.solvers.kernels``."""

from __future__ import annotations

import sys
import time

from policies.solvers.kernels.compiling import cache_directory, compile_all


def main() -> int:
    """Compile what is not on disk yet, and say where it is kept."""
    began = time.process_time()
    compile_all()
    took = time.process_time() - began
    where = cache_directory()
    kept = f"kept in {where}" if where else "not kept: no directory to write to"
    print(f"kernels are compiled: {took:.1f} s of CPU, {kept}")  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
