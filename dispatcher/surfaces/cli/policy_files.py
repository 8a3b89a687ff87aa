"""Reading policy files for commands: the bytes, what they say, and what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.core.errors import EXIT_INVALID
from dispatcher.surfaces.cli.context import CliContext, leave, read_file

if TYPE_CHECKING:
    from dispatcher.operations.policies import PolicyFile
    from policies.document import ParseResult


def policy_paths(context: CliContext, files: list[Path] | None) -> list[Path]:
    """Return the files named, or the policy file of the directory."""
    return files or [context.policy_path]


def read_policy(path: Path) -> bytes:
    """Read a policy file.

    Raises
    ------
    Invalid
        It cannot be read.
    """
    fix = "name another file, or write one: dispatcher init"
    return read_file(path, what="policy file", fix=fix)


def parse_policy(path: Path, *, strict: bool = False) -> ParseResult:
    """Read and parse a policy file."""
    from policies.document import parse

    return parse(read_policy(path), str(path), strict=strict)


def valid_policy(path: Path) -> PolicyFile:
    """Return a policy file; tell what is wrong and end if it is invalid."""
    from dispatcher.operations.policies import PolicyFile
    from policies.document import parse

    source = read_policy(path)
    result = parse(source, str(path))
    stop_if_invalid([result])
    assert result.policy is not None
    return PolicyFile(path, source, result.policy)


def stop_if_invalid(results: list[ParseResult]) -> None:
    """Tell what is wrong with files, and end the command with exit status 5."""
    from policies.document import render_files, summary

    bad = [result for result in results if result.errors]
    if bad:
        sys.stderr.write(
            render_files([(r.filename, r.text, r.diagnostics) for r in bad])
        )
        for result in bad:
            print(summary(result.filename, result.diagnostics), file=sys.stderr)
        leave(EXIT_INVALID)
