"""What completes a name in a shell: the names that there are, read in silence.

A shell shows neither errors nor messages, so any fault means that nothing is offered.
The store is only read, and nothing is loaded before a shell asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from dispatcher.operations.workspace import Workspace

MOST: Final = 200
"""More names would fill the screen."""
PLAIN: Final = re.compile(r"[\w@+,./-]+")
"""Names that every shell takes as they are: it may run what stands in another."""


def workers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete CONNECTOR/NAME."""
    return _offer(ctx, incomplete, lambda workspace: _names().worker_names(workspace))


def connectors(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a connector of the settings."""
    return _offer(ctx, incomplete, lambda workspace: workspace.config.connectors)


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a run."""
    return _offer(ctx, incomplete, lambda workspace: _names().run_names(workspace))


def fields(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a field of the policy."""
    return _offer(ctx, incomplete, lambda workspace: _names().field_names(workspace))


def record_fields(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the field of RECORD.FIELD; a shell's history gets no record's key."""
    record, dot, _ = incomplete.rpartition(".")
    if not record:
        return []
    return _offer(
        ctx,
        incomplete,
        lambda workspace: (
            f"{record}{dot}{field}" for field in _names().field_names(workspace)
        ),
    )


def explained(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete what can be explained: a code, a worker, the field of a record."""
    if re.match(r"E\d?|POL?", incomplete):
        return _offer(ctx, incomplete, lambda _: _codes())
    return record_fields(ctx, incomplete) or workers(ctx, incomplete)


def _offer(
    ctx: typer.Context,
    incomplete: str,
    known: Callable[[Workspace], Iterable[str]],
) -> list[str]:
    try:
        every = sorted(
            name
            for name in known(_workspace(ctx))
            if name.startswith(incomplete) and PLAIN.fullmatch(name)
        )
    except Exception:  # noqa: BLE001 - a shell is told nothing
        return []
    return every[:MOST]


def _workspace(ctx: typer.Context) -> Workspace:
    """Make the workspace that the options on the line name; no command has run."""
    from dispatcher.operations.workspace import Workspace

    given: dict[str, Any] = ctx.find_root().params
    return Workspace(
        directory=Path(given.get("directory") or "."),
        store=given.get("store"),
        config_file=given.get("config"),
    )


def _names() -> ModuleType:
    """Load what reads the store, now that a shell asks."""
    from dispatcher.operations import names

    return names


def _codes() -> Iterable[str]:
    from dispatcher.core.errors import PAGES
    from policies.document import CODES

    return [*PAGES, *CODES]
