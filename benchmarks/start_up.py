"""How long commands take to start, as a share of what loading Typer takes.

    python -m benchmarks.start_up [--runs 7]

Each command is run as a whole process, in turn with ``python -c 'import typer'``; CPU
seconds of both (user and system) are compared pair by pair, and the median is printed.
Modules are compiled once, as an installation has them, whatever the environment says.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BASE = ("-c", "import typer")
COMMANDS = {
    "--help": ("-m", "dispatcher", "--help"),
    "explain E203": ("-m", "dispatcher", "explain", "E203"),
    "dispatcher alone, no store": ("-m", "dispatcher", "-C", "nothing"),
    "records --help": ("-m", "dispatcher", "records", "--help"),
    "status": ("-m", "dispatcher", "status"),
    "policy check": ("-m", "dispatcher", "policy", "check"),
}


def cpu_seconds(words: tuple[str, ...], place: str) -> float:
    """CPU of one process, itself and its children."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(Path(place, "compiled"))
    before = os.times()
    subprocess.run(
        [sys.executable, *words], cwd=place, env=env, capture_output=True, check=False
    )
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def measure(runs: int) -> dict[str, tuple[float, float]]:
    """CPU seconds of each command, and their ratio to the base: medians of pairs."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "dispatcher", "init", "-q"], cwd=place, check=True
        )
        found = {}
        for name, words in COMMANDS.items():
            cpu_seconds(words, place)  # files are read once
            pairs = [
                (cpu_seconds(words, place), cpu_seconds(BASE, place))
                for _ in range(runs)
            ]
            found[name] = (
                statistics.median(one for one, _ in pairs),
                statistics.median(one / base for one, base in pairs),
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    print(f"{'command':28} {'CPU s':>6}  times `import typer`")
    for name, (seconds, ratio) in measure(runs).items():
        print(f"{name:28} {seconds:6.2f}  {ratio:6.1f}")


if __name__ == "__main__":
    main()
