"""The program: ``python -m dispatcher`` and the console script ``dispatcher``."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]

LATER = 50_000
"""Objects after which garbage is looked for: loading libraries makes many, and no garbage.

A tenth of the CPU of a short command.
"""


def main() -> int:
    """Run one command; end quietly where Ctrl-C comes while the program is loaded."""
    gc.set_threshold(LATER)
    try:
        from dispatcher.surfaces.cli.start import main as start  # noqa: PLC0415 - see above

        return start()
    except KeyboardInterrupt:
        return (
            130  # EXIT_INTERRUPTED of dispatcher.core.errors, which may be half loaded
        )


if __name__ == "__main__":
    sys.exit(main())
