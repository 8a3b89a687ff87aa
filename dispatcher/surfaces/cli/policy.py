"""``dispatcher policy``: check, test, show and apply the policy file."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.core.errors import EXIT_FAILED, EXIT_INVALID, NotFound, Usage
from dispatcher.surfaces.cli import policy_change
from dispatcher.surfaces.cli.context import CliContext, leave, write_private
from dispatcher.surfaces.cli.policy_files import (
    parse_policy,
    policy_paths,
    stop_if_invalid,
)
from dispatcher.surfaces.cli.records import (
    DelimiterOption,
    EncodingOption,
    FormatOption,
    KeyOption,
    SheetOption,
    read_options,
)

app = typer.Typer(help="Check, test and apply the policy file.", no_args_is_help=True)
app.command("diff")(policy_change.diff)
app.command("plan")(policy_change.plan)
app.command("apply")(policy_change.apply)
app.command("list")(policy_change.list_versions)

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
    results = [
        parse_policy(path, strict=strict) for path in policy_paths(context, files)
    ]
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
    results = [parse_policy(path) for path in policy_paths(context, files)]
    stop_if_invalid(results)
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
    number: Annotated[
        int | None,
        typer.Argument(min=1, max=2**31, help="A version (default: in force)."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, max=2**31, help="The same, as an option.")
    ] = None,
) -> None:
    """Print the policy that is in force, or a version before, byte for byte."""
    from dispatcher.operations import policies

    context: CliContext = ctx.obj
    if number is not None and version is not None:
        raise Usage(
            "two versions are named",
            why="one is printed at a time",
            fix="leave --version out",
        )
    version = version or number
    with context.open_store() as store:
        found = policies.show(store, version)
    source = found.source.decode("utf-8")
    document = {
        "schema": "dispatcher.policy/1",
        "version": found.version,
        "sha256": found.sha256,
        "applied_at": found.applied_at,
        "source": source,
    }
    context.show(document, source, end="")


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
    format: FormatOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    sheet: SheetOption = None,
    key: KeyOption = None,
) -> None:
    """Suggest a first policy from the columns of a file (values stay hidden)."""
    from dispatcher.stages.intake.preview import suggest_policy

    context: CliContext = ctx.obj
    path = output or context.policy_path
    options = read_options(format, encoding, delimiter, sheet, key)
    text = suggest_policy(source, options)
    if path.exists():
        context.confirm(f"{path} is here already; overwrite it?")
    write_private(path, text)
    context.show({"schema": "dispatcher.policy/1", "file": str(path)}, "")
    context.say(f"wrote {path}; go through it, then: dispatcher policy check {path}")
