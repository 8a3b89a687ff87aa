"""An old commit beside the working tree: CPU time and database statements.

    python -m benchmarks.versus COMMIT [NAME ...] [--turns N]

Runs the benchmarks of both trees in turns within one run, each in a process of its own
and with the same arguments, and prints a line for each: the least CPU time of the turns
(with that of child processes), the statements that reached a database driver (an
``executemany`` or a COPY is one) and both ratios, new to old. Below it stand the
benchmark's own figures on both sides.

CPU time includes the yardstick that a benchmark measures itself against, and leaves out
a PostgreSQL server. The exit status is 1 if a ratio is above 1.15.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LIMIT = 1.15
ARGUMENTS = {
    "spine": ("--records", "20000"),
    "gate": ("--small", "2000", "--large", "40000"),
    "store": ("--exposures", "20000", "--single", "100"),
    "shipping": ("--records", "2000", "--batch", "5000", "--singles", "100"),
    "verifier": ("100000",),
}
"""Benchmarks that are compared, with small sizes that still measure something."""

FIGURE = re.compile(r"^(?:holds|FAILS|ok|FAIL):? +(.+?):? ([\d.]+) \(at ", re.MULTILINE)
"""A line in which a benchmark judges one of its figures."""


@dataclass
class Figures:
    """What a benchmark took in one tree: the least CPU of its turns counts."""

    cpu: float
    statements: int
    own: dict[str, float]


def count_statements() -> dict[str, int]:
    """Let the drivers count what is executed, from now on, in this process."""
    counts = {"statements": 0}

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts["statements"] += 1
            return method(*args, **kwargs)

        return call

    for name in ("pysqlite3.dbapi2", "sqlite3"):
        with suppress(ImportError):
            _count_sqlite(import_module(name), counted)
    with suppress(ImportError):
        psycopg = import_module("psycopg")
        for cursor in (psycopg.Cursor, psycopg.ServerCursor):
            for verb in ("execute", "executemany", "copy"):
                if verb in vars(cursor):
                    setattr(cursor, verb, counted(vars(cursor)[verb]))
    return counts


def _count_sqlite(driver: Any, counted: Callable[..., Any]) -> None:
    # The driver's own types cannot be changed: connections are made of subclasses.
    verbs = ("execute", "executemany", "executescript")
    counting_cursor = type(
        "Cursor",
        (driver.Cursor,),
        {verb: counted(getattr(driver.Cursor, verb)) for verb in verbs},
    )

    class Connection(driver.Connection):  # type: ignore[misc]
        def cursor(self, factory: Any = counting_cursor) -> Any:
            return super().cursor(factory)

    for verb in verbs:
        setattr(Connection, verb, counted(getattr(driver.Connection, verb)))
    connect = driver.connect

    def connected(*args: Any, **kwargs: Any) -> Any:
        return connect(*args, **{"factory": Connection, **kwargs})

    driver.connect = connected


def run_counted(result: Path, name: str, arguments: list[str]) -> None:
    """Run a benchmark of the tree on the path in this process; write its statements."""
    counts = count_statements()
    sys.argv = [name, *arguments]
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
    finally:
        result.write_text(json.dumps(counts))


def measure(tree: Path, name: str, place: Path) -> Figures:
    """Run a benchmark of a tree once."""
    result, output = place / "statements.json", place / "output"
    command = [sys.executable, "-P", __file__, "--counted", str(result), name]
    with output.open("wb") as file:
        child = subprocess.Popen(
            [*command, *ARGUMENTS[name]],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=file,
        )
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    text = output.read_text()
    # A limit that does not hold (1) is no hindrance: these sizes are not those of it.
    if child.returncode not in {0, 1} or not text:
        raise SystemExit(f"{name} of {tree} ended with {child.returncode}:\n{text}")
    return Figures(
        used.ru_utime + used.ru_stime,
        json.loads(result.read_text())["statements"],
        {name: float(value) for name, value in FIGURE.findall(text)},
    )


def best(turns: list[Figures]) -> Figures:
    """Least CPU time and least of each figure that is at most something."""
    return Figures(
        min(turn.cpu for turn in turns),
        min(turn.statements for turn in turns),
        {name: min(turn.own.get(name, 0) for turn in turns) for name in turns[0].own},
    )


def compare(name: str, old: Path, new: Path, turns: int, place: Path) -> bool:
    """Run a benchmark of both trees in turns and print how they compare."""
    found: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(turns):
        for figures, tree in zip(found, (old, new), strict=True):
            figures.append(measure(tree, name, place))
    before, after = map(best, found)
    cpu = after.cpu / before.cpu
    statements = after.statements / before.statements if before.statements else 1.0
    print(
        f"{name:9} CPU {before.cpu:7.2f} s -> {after.cpu:7.2f} s ({cpu:.2f})"
        f"   statements {before.statements:7,} -> {after.statements:7,}"
        f" ({statements:.2f})",
        flush=True,
    )
    for figure, value in after.own.items():
        if figure in before.own:
            print(f"            {figure}: {before.own[figure]:.2f} -> {value:.2f}")
    return max(cpu, statements) <= LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the old commit, as git knows it")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    new = Path(__file__).parents[1]
    if unknown := set(options.names) - set(ARGUMENTS):
        parser.error(f"not compared: {', '.join(sorted(unknown))}")
    kept = True
    with tempfile.TemporaryDirectory() as directory:
        old = Path(directory) / "old"
        git = ["git", "-C", str(new), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(old), options.commit], check=True
        )
        try:
            for name in options.names or ARGUMENTS:
                kept &= compare(name, old, new, options.turns, Path(directory))
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    return 0 if kept else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--counted"]:
        run_counted(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main())
