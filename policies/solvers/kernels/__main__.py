"""Compile the solvers' kernels, once per installation: ``python -m policies.solvers.kernels``."""

from __future__ import annotations

import sys

from policies.solvers.kernels.compiling import cache_directory, compile_all


def main() -> int:
    """Compile the kernels that are not on disk yet, and print where they are kept."""
    compile_all()
    where = cache_directory()
    kept = f"kept in {where}" if where else "not kept: no directory to write to"
    print(f"the kernels are compiled, {kept}")  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
