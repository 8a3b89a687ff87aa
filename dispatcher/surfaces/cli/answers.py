"""``dispatcher answers``: what came in and was refused, until somebody has looked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import NotFound, Usage
from dispatcher.surfaces.cli import rehearsal
from dispatcher.surfaces.cli.context import CliContext, table, wall_clock

if TYPE_CHECKING:
    from dispatcher.store import Tx

app = typer.Typer(
    help="Answers that were refused: look at them, then dismiss them.",
    no_args_is_help=True,
)

Reason = Annotated[str, typer.Option(help="Why, one line; kept in the audit log.")]


@app.command("list")
def list_answers(
    ctx: typer.Context,
    refused: Annotated[
        bool, typer.Option("--refused", help="Those that were refused (the default).")
    ] = True,
    dismissed: Annotated[
        bool, typer.Option("--dismissed", help="Dismissed ones too.")
    ] = False,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Show what they said; needs --reason."),
    ] = False,
    reason: Reason = "",
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="At most so many.")
    ] = 100,
) -> None:
    """List answers that fit no task, the newest first; values stay hidden.

    An answer is refused when it names no task, or another worker's, or a field that is
    no longer asked for. It never counts; it is kept so that you can see what went wrong
    at its connector.
    """
    from dispatcher.store import events
    from dispatcher.store import quarantine as rows

    del refused  # there is no other kind yet
    context: CliContext = ctx.obj
    said: dict[int, bytes] = {}
    if show_values:
        _check_reason(reason, "values are shown")
    with context.open_store() as store:
        with store.read() as tx:
            found = rows.listed(tx, limit, dismissed=dismissed)
        if show_values and found:
            with store.write() as tx:
                said = rows.payloads(tx, [row.id for row in found])
                detail: dict[str, object] = {"answers": len(said), "reason": reason}
                events.add_event(tx, wall_clock(), "cli", "answer.revealed", detail)
    header: tuple[str, ...] = ("id", "connector", "at", "reason", "dismissed")
    lines: list[tuple[object, ...]] = [
        (row.id, row.connector, _moment(row.at), row.reason, row.dismissed_why or "-")
        for row in found
    ]
    document: list[dict[str, Any]] = [
        dict(zip(header, line, strict=True)) for line in lines
    ]
    for one, row in zip(document, found, strict=True):
        one["dismissed"] = row.dismissed_why
        if row.id in said:
            one["said"] = _said(said[row.id])
    if said:
        header = (*header, "said")
        lines = [
            (*line, json.dumps(one.get("said"), ensure_ascii=False))
            for line, one in zip(lines, document, strict=True)
        ]
    context.show(
        {"schema": "dispatcher.refused-answers/1", "answers": document},
        table(lines, header),
    )
    if len(found) == limit:
        context.say(f"the newest {limit:,}; see more with --limit")
    if any(row.dismissed_at is None for row in found):
        context.say("next: dispatcher answers dismiss ID ... --reason TEXT")


@app.command()
def dismiss(
    ctx: typer.Context,
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="As answers list shows.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that are not dismissed yet.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Note that refused answers were looked at: status names them no more."""
    context: CliContext = ctx.obj
    if bool(ids) == everything:
        raise Usage(
            "which answers?" if not ids else "ids are named, and --all too",
            why="those named are dismissed, or all that are not yet",
            fix="dispatcher answers list --refused; then name ids, or --all",
        )
    _check_reason(reason, "refused answers are dismissed")
    with context.open_store() as store, store.write() as tx:
        done = _dismiss(tx, ids or [], reason.strip())
    context.show(
        {"schema": "dispatcher.dismissed/1", "dismissed": done, "reason": reason},
        f"{rehearsal.count(done, 'answer')} dismissed",
    )


def _dismiss(tx: Tx, ids: list[int], reason: str) -> int:
    from dispatcher.store import events
    from dispatcher.store import quarantine as rows

    now, waiting = wall_clock(), rows.waiting(tx)
    missing = sorted(set(ids) - set(waiting))
    if missing:
        raise NotFound(
            f"there is no refused answer {missing[0]} to dismiss",
            why="there is none of this number, or it was dismissed before",
            fix="dispatcher answers list --refused",
        )
    done = rows.dismiss(tx, ids or waiting, reason, now)
    if done:
        detail: dict[str, object] = {"answers": done, "reason": reason}
        events.add_event(tx, now, "cli", "answer.dismissed", detail)
    return done


def _check_reason(reason: str, what: str) -> None:
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            f"{what} only for a reason, one line of text",
            why="the audit log keeps who looked, and why",
            fix='--reason "spreadsheet of the agency was mixed up"',
        )


def _said(payload: bytes) -> Any:  # noqa: ANN401 (what was sent, as it was sent)
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
