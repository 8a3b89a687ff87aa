"""A market's server from PyPI, in a virtual environment of its own under ``build/``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build"


def installed(name: str, version: str, *more: str) -> Path:
    """Install a distribution once, and what it needs besides; its Python."""
    place = BUILD / f"{name}-{version}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "uv"], check=True)  # pip takes minutes to choose versions
        uv = [str(python), "-m", "uv", "pip", "install", "-q", "--python", str(python)]
        subprocess.run([*uv, f"{name}=={version}", *more], check=True)
        (place / "ready").touch()
    return python
