"""``dispatcher policy``: check, test, show and apply the policy file."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.errors import EXIT_FAILED, EXIT_INVALID, Invalid, NotFound
from dispatcher.surfaces.cli.context import (
    CliContext,
    leave,
    wall_clock,
    write_private,
)

if TYPE_CHECKING:
    from policies.document import ParseResult

app = typer.Typer(help="Check, test and apply the policy file.", no_args_is_help=True)

Files = Annotated[
    list[Path] | None, typer.Argument(help="Policy files (default: policy.toml).")
]


class Format(StrEnum):
    """How diagnostics are written."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


@app.command()
def check(
    ctx: typer.Context,
    files: Files = None,
    format: Annotated[Format, typer.Option("--format")] = Format.FULL,
    strict: Annotated[bool, typer.Option(help="Raise doubts too.")] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit 0 whatever was found.")
    ] = False,
) -> None:
    """Check policy files; exit 5 if one is invalid."""
    from policies.document import render_files, summary

    context: CliContext = ctx.obj
    results = [_parse(path, strict=strict) for path in _paths(context, files)]
    form = "json" if context.json else format.value
    sys.stdout.write(
        render_files([(r.filename, r.text, r.diagnostics) for r in results], form)
    )
    if form == "full":
        for result in results:
            print(summary(result.filename, result.diagnostics))
    if any(result.errors for result in results) and not exit_zero:
        leave(EXIT_INVALID)


@app.command("test")
def run_tests(
    ctx: typer.Context,
    files: Files = None,
    name: Annotated[
        str | None, typer.Option("-k", help="Only tests whose name contains this.")
    ] = None,
) -> None:
    """Run a policy's own tests; exit 1 if one fails, 5 if a file is invalid."""
    from policies.document import run_test

    context: CliContext = ctx.obj
    results = [_parse(path) for path in _paths(context, files)]
    _stop_if_invalid(results)
    lines: list[str] = []
    told: list[dict[str, object]] = []
    for result in results:
        assert result.policy is not None
        for case in result.policy.tests:
            if name is None or name in case.name:
                outcome = run_test(result.policy, case)
                lines.append(outcome.line(result.filename))
                told.append(
                    {
                        "file": result.filename,
                        "test": case.name,
                        "passed": outcome.passed,
                    }
                )
    context.show(
        {"schema": "dispatcher.policy-tests/1", "tests": told}, "\n".join(lines)
    )
    if not told:
        context.say("no test was run: none is in the file, or -k fits none")
    if not all(one["passed"] for one in told):
        leave(EXIT_FAILED)


@app.command()
def show(
    ctx: typer.Context,
    version: Annotated[
        int | None,
        typer.Option(min=1, max=2**31, help="An applied version (default: in force)."),
    ] = None,
) -> None:
    """Print the policy that is in force, byte for byte."""
    from dispatcher.store import ledger as rows

    context: CliContext = ctx.obj
    with context.open_store() as store, store.read() as tx:
        found = rows.policy_row(tx, version or rows.version_in_force(tx))
    if found is None:
        raise NotFound(
            "there is no such policy version" if version else "no policy is in force",
            why="policy files are counted 1, 2, 3 ... as they are applied",
            fix="dispatcher policy apply puts policy.toml in force",
        )
    source = found.source.decode("utf-8")
    document = {
        "schema": "dispatcher.policy/1",
        "version": found.version,
        "sha256": found.sha256,
        "source": source,
    }
    context.show(document, source, end="")


@app.command()
def apply(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(dir_okay=False, help="A policy file (default: policy.toml)."),
    ] = None,
) -> None:
    """Put a policy file in force, after its checks and its tests.

    A second policy is applied only if everything already shown keeps its limits; else
    nothing changes and the exit status is 6.
    """
    from dispatcher.ledger.versions import apply_policy
    from dispatcher.stages.intake.linking import read_links

    context: CliContext = ctx.obj
    path = file or context.policy_path
    result = _parse(path)
    _stop_if_invalid([result])
    assert result.policy is not None
    with context.open_store() as store:
        secret = store.key("pseudonym-key")
        links = read_links(result.policy, path.parent, secret)
        with store.write() as tx:
            applied = apply_policy(tx, _read(path), at=wall_clock(), links=links)
    words = "is in force" if applied.changed else "was in force already"
    context.show(
        {
            "schema": "dispatcher.policy/1",
            "version": applied.version,
            "sha256": applied.sha256,
            "changed": applied.changed,
            "adversaries_judged": applied.judged,
            "adversaries_joined": applied.joined,
        },
        f"version {applied.version} {words}",
    )


@app.command()
def rule(
    ctx: typer.Context,
    code: Annotated[str, typer.Argument(help="For example POL203.")],
) -> None:
    """Explain a diagnostic."""
    from policies.document import CODES, explain_rule

    if code not in CODES:
        raise NotFound(
            f"there is no diagnostic {code[:20]!r}",
            why=f"known: {', '.join(sorted(CODES))}",
            fix="take the code in brackets: error[POL203]",
        )
    context: CliContext = ctx.obj
    text = explain_rule(code)
    document = {"schema": "dispatcher.page/1", "code": code, "text": text}
    context.show(document, text, end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from policies.document import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command("init")
def init_policy(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Option("--from", help="A file of records.", dir_okay=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to (default: policy.toml)."),
    ] = None,
) -> None:
    """Suggest a first policy from the columns of a file (values stay hidden)."""
    from dispatcher.stages.intake.suggest import suggest_policy

    context: CliContext = ctx.obj
    path = output or context.policy_path
    text = suggest_policy(source)
    if path.exists():
        context.confirm(f"{path} is here already; overwrite it?")
    write_private(path, text)
    context.show({"schema": "dispatcher.policy/1", "file": str(path)}, "")
    context.say(f"wrote {path}; go through it, then: dispatcher policy check {path}")


def _paths(context: CliContext, files: list[Path] | None) -> list[Path]:
    return files or [context.policy_path]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror}",
            why="the policy file can not be read",
            fix="name another file, or write one: dispatcher init",
        ) from None


def _parse(path: Path, *, strict: bool = False) -> ParseResult:
    from policies.document import parse

    return parse(_read(path), str(path), strict=strict)


def _stop_if_invalid(results: list[ParseResult]) -> None:
    from policies.document import render_files, summary

    bad = [result for result in results if result.errors]
    if bad:
        sys.stderr.write(
            render_files([(r.filename, r.text, r.diagnostics) for r in bad])
        )
        for result in bad:
            print(summary(result.filename, result.diagnostics), file=sys.stderr)
        leave(EXIT_INVALID)
