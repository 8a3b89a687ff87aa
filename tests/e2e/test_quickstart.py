"""The commands of pages are run in order, and print what the pages say."""

import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatcher.app.servers import free_ports
from tests.cradle import completed
from tests.e2e.programs import PATIENCE, environment

DOCS = Path(__file__).parents[2] / "docs"
WORKERS = "8421"
PLAIN = re.compile(r"dispatcher [^|&;<>$`*?~(){}\\\n]*")
"""A command that needs no shell."""


@dataclass
class Step:
    """One command of the page, its exit status, and the lines that it shows."""

    command: str
    code: int
    shown: list[str]


def steps(text):
    """Commands of all console blocks; a here-document belongs to its command."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        lines = iter(block.splitlines())
        for line in lines:
            if not line.startswith("$ "):
                found[-1].shown.append(line)
                continue
            command, _, status = line.removeprefix("$ ").partition("  # exit ")
            if "<<" in command:
                for more in lines:
                    command += f"\n{more}"
                    if more == "END":
                        break
            found.append(Step(command, int(status or 0), []))
    return found


def missing(step, output):
    """Shown lines that the output lacks, in order; ``...`` stands for anything."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    place = 0
    for shown in step.shown:
        if shown == "...":
            continue
        parts = (re.escape(part) for part in " ".join(shown.split()).split("..."))
        pattern = re.compile(".*".join(parts))
        hits = [i for i in range(place, len(lines)) if pattern.fullmatch(lines[i])]
        if not hits:
            return shown
        place = hits[0] + 1
    return None


@pytest.fixture
def shell(tmp_path):
    """A shell in an empty directory that has ``dispatcher``, on ports of its own."""
    ports = free_ports(3)
    binaries = tmp_path / "bin"
    binaries.mkdir()
    script = binaries / "dispatcher"
    script.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dispatcher "$@"\n'
    )
    script.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    variables = environment()
    variables["PATH"] = f"{binaries}:{variables['PATH']}"
    root = Path(__file__).parents[2]
    variables["PYTHONPATH"] = str(root)
    running = []

    def run(command):
        if command.endswith(" &"):
            with (place / "up.log").open("ab") as log:
                words = ["bash", "-c", f"exec {command.removesuffix(' &')}"]
                running.append(
                    subprocess.Popen(
                        words, cwd=place, env=variables, stdout=log, stderr=log
                    )
                )
            return 0, ""
        if PLAIN.fullmatch(command):
            words = shlex.split(command)[1:]
            done = completed(
                words,
                environment=variables,
                place=place,
                together=True,
                timeout=PATIENCE,
            )
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=place,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
        if command == "dispatcher init":
            with (place / "dispatcher.toml").open("a") as file:
                file.write(
                    f'\n[surfaces]\nworkers = "127.0.0.1:{ports[0]}"\n'
                    f'admin = "127.0.0.1:{ports[1]}"\n'
                    f'operators = "127.0.0.1:{ports[2]}"\n'
                )
        return done.returncode, done.stdout.replace(f":{ports[0]}", f":{WORKERS}")

    yield run
    for process in running:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_the_quickstart_does_what_it_says(shell):
    found = steps((DOCS / "quickstart.md").read_text(encoding="utf-8"))
    assert len(found) >= 15
    works = False
    for step in found:
        # Once the daemon runs, what these show may take a moment.
        may_wait = works and step.command in ("dispatcher status", "ls spool/dan")
        end = time.monotonic() + (PATIENCE if may_wait else 0)
        while True:
            code, output = shell(step.command)
            lacking = missing(step, output)
            if (code, lacking) == (step.code, None) or time.monotonic() >= end:
                break
            time.sleep(0.1)
        assert code == step.code, f"{step.command}\n{output}"
        assert lacking is None, f"{step.command}\nlacks: {lacking}\n{output}"
        works = works or step.command.endswith(" &")


@pytest.mark.parametrize("page", ["tutorial.md", "reference/instances.md"])
def test_a_page_of_commands_does_what_it_says(shell, page):
    found = steps((DOCS / page).read_text(encoding="utf-8"))
    assert len(found) >= 8
    for step in found:
        code, output = shell(step.command)
        assert code == step.code, f"{step.command}\n{output}"
        assert missing(step, output) is None, f"{step.command}\n{output}"
