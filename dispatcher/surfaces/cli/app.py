"""The command tree: global options, and one Typer app for each noun."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.surfaces.cli import (
    answers,
    audit,
    backup,
    connectors,
    daemon,
    db,
    demo,
    doctor,
    explain,
    fields,
    ledger,
    payments,
    plan,
    policy,
    queue,
    records,
    runs,
    solve,
    status,
    subject,
    workers,
)
from dispatcher.surfaces.cli.context import CliContext

app = typer.Typer(
    name="dispatcher",
    help="Show sensitive records to strangers field by field: no stranger can put "
    "together what must stay apart.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MORE = "More commands"
ANYWHERE = "Options that may stand after the command too"

app.command("init")(db.init)
app.add_typer(records.app, name="records")
app.add_typer(policy.app, name="policy")
app.add_typer(workers.app, name="workers")
app.add_typer(plan.app, name="plan")
app.command("up")(daemon.up)
app.command("status")(status.status)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.command("down", rich_help_panel=MORE)(daemon.down)
app.command("pause", rich_help_panel=MORE)(queue.pause)
app.command("resume", rich_help_panel=MORE)(queue.resume)
app.command("doctor", rich_help_panel=MORE)(doctor.doctor)
app.add_typer(daemon.console, name="console", rich_help_panel=MORE)
app.add_typer(fields.app, name="fields", rich_help_panel=MORE)
app.add_typer(answers.app, name="answers", rich_help_panel=MORE)
app.add_typer(connectors.app, name="connectors", rich_help_panel=MORE)
app.add_typer(queue.app, name="queue", rich_help_panel=MORE)
app.add_typer(runs.app, name="runs", rich_help_panel=MORE)
app.add_typer(payments.app, name="payments", rich_help_panel=MORE)
app.add_typer(audit.app, name="audit", rich_help_panel=MORE)
app.add_typer(ledger.app, name="ledger", rich_help_panel=MORE)
app.add_typer(backup.app, name="backup", rich_help_panel=MORE)
app.command("restore", rich_help_panel=MORE)(backup.restore)
app.add_typer(subject.app, name="subject", rich_help_panel=MORE)
app.command("purge", rich_help_panel=MORE)(subject.purge)
app.add_typer(db.app, name="db", rich_help_panel=MORE)
app.command("solve", rich_help_panel=MORE)(solve.solve)
app.command("judge", rich_help_panel=MORE)(solve.judge)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dispatcher {distribution_version('sparsi-dispatcher')}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    directory: Annotated[
        Path,
        typer.Option(
            "--dir",
            "-C",
            help="Work in this directory.",
            envvar="DISPATCHER_DIR",
            file_okay=False,
        ),
    ] = Path(),
    store: Annotated[
        str | None,
        typer.Option(
            help="File or postgresql:// URL of the store (no password).",
            envvar="DISPATCHER_STORE",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Another settings file.", envvar="DISPATCHER_CONFIG", dir_okay=False
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print it.", callback=_version, is_eager=True),
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="One JSON document.", rich_help_panel=ANYWHERE),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Results and errors only.", rich_help_panel=ANYWHERE
        ),
    ] = False,
    no_color: Annotated[
        bool,
        typer.Option("--no-color", help="Like NO_COLOR=1.", rich_help_panel=ANYWHERE),
    ] = False,
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="Tables without their first line.",
            rich_help_panel=ANYWHERE,
        ),
    ] = False,
    no_input: Annotated[
        bool,
        typer.Option(
            "--no-input",
            help="Never ask; exit 2 instead.",
            rich_help_panel=ANYWHERE,
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Answer yes.", rich_help_panel=ANYWHERE),
    ] = False,
) -> None:
    """Set what holds for every command."""
    del version
    plain = no_color or bool(os.environ.get("NO_COLOR")) or not sys.stderr.isatty()
    plain = plain or os.environ.get("TERM") == "dumb"
    ctx.obj = CliContext(
        directory=directory,
        store=store,
        config_file=config,
        json=json,
        quiet=quiet,
        no_input=no_input,
        yes=yes,
        color=not plain,
        header=not no_header,
    )
