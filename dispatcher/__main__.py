"""The program: ``python -m dispatcher`` and the console script ``dispatcher``."""

from __future__ import annotations

import sys

from dispatcher.surfaces.cli.start import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
