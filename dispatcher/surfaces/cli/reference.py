"""The page ``docs/reference/commands.md``, written from the command tree itself.

``python -m dispatcher.surfaces.cli.reference > docs/reference/commands.md``
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from dispatcher.surfaces.cli.app import app, target
from dispatcher.surfaces.cli.tree import ANYWHERE, COMMANDS, words_of

HEAD: Final = """\
# Commands

Written from the program by `python -m dispatcher.surfaces.cli.reference`; a test compares
it with the program. Data goes to stdout, messages and errors to stderr; a command that
fails leaves stdout empty. Where no terminal reads, tables are tab-separated; they keep
their header, which `--no-header` leaves out.

"""

STATUSES: Final = """\
## Exit statuses

| status | meaning |
|---|---|
| 0 | done (an empty list too) |
| 1 | failed; `policy test`: a test fails; `audit verify`: violated |
| 2 | wrong words, or an answer was needed and nobody could be asked; `audit verify`: the evidence is broken |
| 3 | partly done: some rows were rejected, some fields held back |
| 4 | kept for a sign-in; no command asks for one |
| 5 | a policy, a file or a setting is invalid |
| 6 | refused: a privacy limit would be crossed |
| 7 | no plan meets the policy |
| 8 | not finished within the limits of time or work |
| 9 | something needs you, only with `status --exit-code` |
| 10 | no store here |
| 11 | the store is locked, or another daemon leads |
| 12 | wrong key or passphrase |
| 13 | the store needs a migration |
| 14 | the daemon cannot be reached |
| 75 | a temporary failure outside: try again |
| 130 | interrupted |

Codes are only ever added; any other status is a failure.

## Environment

| variable | meaning |
|---|---|
| `DISPATCHER_DIR`, `DISPATCHER_STORE`, `DISPATCHER_CONFIG` | as `--dir`, `--store`, `--config` |
| `DISPATCHER_STORE_FILE` | a file, readable by its owner only, with the store's URL, which may have a password |
| `DISPATCHER_POLICY`, `DISPATCHER_PLANS` | win over `policy` and `plans` of dispatcher.toml |
| `NO_COLOR` | no colour |
"""


def page() -> str:
    """Write the whole page."""
    call = app.registered_callback.callback if app.registered_callback else None
    parts = [HEAD, *_command("dispatcher", call, " COMMAND ...")]
    for entry in COMMANDS:
        found, path = target(entry.name), f"dispatcher {entry.name}"
        if isinstance(found, typer.Typer):
            parts += _tree(path, found)
        else:
            parts += _command(path, found)
    return "".join([*parts, STATUSES])


def _tree(path: str, tree: typer.Typer) -> Iterator[str]:
    """A group of commands and all below it, in the order of ``--help``."""
    call = tree.registered_callback.callback if tree.registered_callback else None
    alone = bool(tree.info.invoke_without_command)
    yield from _command(path, call, f" {'[COMMAND]' if alone else 'COMMAND'} ...")
    for command in tree.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield from _command(f"{path} {name}", command.callback)
    for group in tree.registered_groups:
        assert group.typer_instance is not None
        yield from _tree(f"{path} {group.name}", group.typer_instance)


def _command(
    path: str, call: Callable[..., object] | None, more: str = ""
) -> Iterator[str]:
    """Heading, usage, help and parameters of one command."""
    rows = list(_rows(call)) if call else []
    options = " [OPTIONS]" if any("`-" in row for _, row in rows) else ""
    arguments = "".join(f" {name}" for name, _ in rows if name)
    yield f"## {path}\n\n    {path}{options}{arguments}{more}\n\n"
    text = inspect.getdoc(call)
    if text and path != "dispatcher":
        yield f"{text}\n\n"
    if rows:
        yield "| | |\n|---|---|\n" + "".join(row for _, row in rows) + "\n"
    if path == "dispatcher":
        listed = ", ".join(f"`{word}`" for word in sorted(words_of(ANYWHERE)))
        yield f"These may stand after the command too: {listed}.\n\n"


def _rows(call: Callable[..., object]) -> Iterator[tuple[str, str]]:
    """Parameters of a command: the name of an argument, or nothing, and its row."""
    signature = inspect.signature(call)
    for name, hint in get_type_hints(call, include_extras=True).items():
        if name == "return" or hint is typer.Context:
            continue
        kind, info = get_args(hint)[:2]
        default = signature.parameters[name].default
        if isinstance(info, ArgumentInfo):
            shown = name.upper() + ("..." if _inner(kind) is not kind else "")
            shown = shown if default is inspect.Parameter.empty else f"[{shown}]"
            yield shown, _row(f"`{shown}`", info.help, default)
        else:
            yield "", _row(_option(name, kind, info), info.help, default)


def _option(name: str, kind: object, info: OptionInfo) -> str:
    """Names of an option and what it takes."""
    # Within Annotated, Typer keeps the first name where a default would stand.
    first = [info.default] if isinstance(info.default, str) else []
    words = [*first, *(info.param_decls or ())] or [f"--{name.replace('_', '-')}"]
    shown = ", ".join(f"`{word}`" for word in words)
    kind = _inner(kind)
    if kind is bool:
        return shown
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        choices = " \\| ".join(member.value for member in kind)
        return f"{shown} {choices}"
    return f"{shown} {getattr(kind, '__name__', 'str').upper()}"


def _inner(kind: object) -> object:
    """The type without ``| None`` and ``list``."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    return _inner(parts[0]) if parts else kind


def _row(name: str, text: str | None, default: object) -> str:
    """One parameter as a row of a table."""
    description = (text or "").replace("|", "\\|")
    if default not in (inspect.Parameter.empty, None, False):
        description += f" Default: `{default}`."
    return f"| {name} | {description.strip()} |\n"


if __name__ == "__main__":
    print(page(), end="")
