"""The root of the command tree: the options of all commands, and nouns loaded by need."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from importlib import import_module
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperGroup

from dispatcher.core.errors import EXIT_PARTLY, DispatcherError
from dispatcher.core.progress import listening
from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.progress import SILENT, Busy
from dispatcher.surfaces.cli.tree import ABOUT, ANYWHERE, COMMANDS, OPTIONS, help_page

_ACTED: Final = (0, EXIT_PARTLY)
"""Exit statuses of commands that did what they were asked for, or a part."""

BY_NAME: Final = {entry.name: entry for entry in COMMANDS}


def target(name: str) -> Any:  # noqa: ANN401 - a Typer, or a function
    """Load what stands behind a word of the top level: a Typer app, or a function."""
    entry = BY_NAME[name]
    module = import_module(f"dispatcher.surfaces.cli.{entry.module}")
    return getattr(module, entry.attribute)


class RootGroup(TyperGroup):
    """The top level: it knows all names, and loads a noun when it is called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Typer's own
        super().__init__(**settings)
        names: dict[str, Any] = dict.fromkeys(BY_NAME)  # each is loaded by need
        self.commands = names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Load the noun with its commands."""
        del ctx
        if cmd_name not in self.commands:
            return None
        if self.commands[cmd_name] is None:
            self.commands[cmd_name] = _loaded(cmd_name)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the page that ``--help`` alone prints without loading Typer."""
        del ctx
        formatter.write(help_page(shutil.get_terminal_size().columns).rstrip())


def _loaded(name: str) -> Any:  # noqa: ANN401 - Typer names no public class for it
    """Make one noun, or one command that stands alone, what Typer runs."""
    tree, found = typer.Typer(pretty_exceptions_enable=False), target(name)
    if isinstance(found, typer.Typer):
        tree.add_typer(found, name=name)
    else:
        tree.command(name)(found)
    command = typer.main.get_group(tree).commands[name]
    _observe(command, name)
    return command


def _observe(command: Any, operation: str) -> None:  # noqa: ANN401 - as above
    """Let each command begin and end an act, called like it: ``workers.block``."""
    for name, below in getattr(command, "commands", {}).items():
        _observe(below, f"{operation}.{name}")
    command.invoke = partial(_act, command.invoke, operation)


def _act(invoke: Any, operation: str, ctx: Any) -> Any:  # noqa: ANN401 - as above
    context: CliContext = ctx.obj
    context.begin(operation, ctx.params)
    try:
        result = invoke(ctx)
    except typer.Exit as ended:
        if ended.exit_code in _ACTED:
            context.end(operation)
        raise
    except typer.Abort:  # nobody answered: nothing was done
        raise
    except Exception as error:
        known = error if isinstance(error, DispatcherError) else DispatcherError
        context.end(operation, known.code)
        raise
    context.end(operation)
    return result


app = typer.Typer(
    name="dispatcher",
    cls=RootGroup,
    help=ABOUT,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(name: str) -> str:
    """Return what the page says of an option."""
    every = {**OPTIONS, **ANYWHERE}
    return next(text for words, text in every.items() if name in words)


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
            help=_help("--dir"),
            envvar="DISPATCHER_DIR",
            file_okay=False,
        ),
    ] = Path(),
    store: Annotated[
        str | None, typer.Option(help=_help("--store"), envvar="DISPATCHER_STORE")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help=_help("--config"), envvar="DISPATCHER_CONFIG", dir_okay=False
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help=_help("--version"), callback=_version, is_eager=True
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help=_help("--json"))] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help=_help("--jsonl"))] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help=_help("--quiet"))
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help=_help("--no-color"))
    ] = False,
    no_header: Annotated[
        bool, typer.Option("--no-header", help=_help("--no-header"))
    ] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help=_help("--no-input"))
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=_help("--yes"))] = False,
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
        jsonl=jsonl,
        quiet=quiet,
        no_input=no_input,
        yes=yes,
        color=not plain,
        header=not no_header,
    )
    command = ctx.invoked_subcommand
    shows = sys.stderr.isatty() and not quiet and os.environ.get("TERM") != "dumb"
    if shows and command not in SILENT:
        ctx.obj.busy = Busy(command or "", color=not plain)
        ctx.obj.busy.go_on()
        ctx.call_on_close(ctx.obj.busy.end)
        ctx.with_resource(listening(ctx.obj.busy.heed))
    if command is None:
        _show_position(ctx.obj)


def _show_position(context: CliContext) -> None:
    """Say where the operator is, and which command comes next."""
    from dispatcher.operations.next_step import find_position

    found = find_position(context)
    lines = [found.text, f"next: {found.next}", *(f"      {one}" for one in found.also)]
    context.show(
        {
            "schema": "dispatcher.position/1",
            "step": found.step.value,
            "text": found.text,
            "next": found.next,
            "also": list(found.also),
        },
        "\n".join(lines),
    )
    context.say("all commands: dispatcher --help")
