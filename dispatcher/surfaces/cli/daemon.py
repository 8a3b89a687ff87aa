"""``dispatcher up``: the daemon, the task page and health in one process; and beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dispatcher.core.errors import EXIT_UNFINISHED, EXIT_UNREACHABLE
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    leave,
    user_name,
)


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


Drain = Annotated[
    float, typer.Option(min=0, max=3600, help="Seconds to go on at the end.")
]
LogFormatOption = Annotated[LogFormat, typer.Option(help="Lines on stderr.")]
AllowRoot = Annotated[
    bool,
    typer.Option(
        "--allow-root",
        help="Run as root all the same.",
        envvar="DISPATCHER_ALLOW_ROOT",
    ),
]


def up(
    ctx: typer.Context,
    drain: Drain = 30.0,
    log_format: LogFormatOption = LogFormat.TEXT,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait while another daemon leads; then lead."),
    ] = False,
    allow_root: AllowRoot = False,
) -> None:
    """Run: plan, serve the task page, send, collect, put together, seal.

    SIGTERM (or Ctrl-C) begins to drain: nothing new is shown, answers to what was shown
    are taken for --drain seconds at most. A second one stops at once, which is safe too. SIGHUP reads
    dispatcher.toml again; errors are logged, and the old settings stay.

    A store that was edited past the program is refused (E135), at the start and while
    it runs: what the gate trusts must be as the ledger says.

    With --standby it opens no port while another daemon leads, takes over within 10 s
    when that one is gone, and stands by again if it loses the lease.
    """
    _become_daemon(log_format, allow_root=allow_root)
    from dispatcher.surfaces import daemon

    context: CliContext = ctx.obj
    begun = context.new_act(user_name(), "up", target="", reason="")
    daemon.run(context, drain=drain, standby=standby, say=context.say, begun=begun)


def _become_daemon(log_format: LogFormat, *, allow_root: bool) -> None:
    """Prepare this process to run for long; root is refused."""
    from dispatcher.core import log
    from dispatcher.core.processes import tune_malloc

    tune_malloc()  # before the libraries that start threads when they are loaded
    from dispatcher.surfaces.daemon import refuse_root

    refuse_root(allowed=allow_root)
    log.configure(log_format.value)
    log.guard_uncaught()


class ServedSurface(StrEnum):
    """What a server can serve."""

    TASKS = "tasks"
    API = "api"
    CONSOLE = "console"


def serve(
    ctx: typer.Context,
    only: Annotated[
        list[ServedSurface] | None,
        typer.Option(help="Serve this alone; may be given again for more."),
    ] = None,
    workers: Annotated[
        str,
        typer.Option(
            "--workers-at", metavar="HOST:PORT", help="Address of the task page."
        ),
    ] = "",
    operators: Annotated[
        str,
        typer.Option(
            "--operators-at", metavar="HOST:PORT", help="Address of console and API."
        ),
    ] = "",
    admin: Annotated[
        str,
        typer.Option(
            "--admin-at", metavar="HOST:PORT", help="Address of health and metrics."
        ),
    ] = "",
    drain: Drain = 5.0,
    log_format: LogFormatOption = LogFormat.TEXT,
    allow_root: AllowRoot = False,
) -> None:
    """Serve pages beside the leader, on PostgreSQL: any number of processes.

    It shows and takes answers, and does nothing else: `up` plans, sends, seals and ships.
    Without a leader, without the database, or once the leader has fenced it off it answers
    503 and /readyz says why. SIGTERM lets it go on for --drain seconds with /readyz at
    503, so that proxies send nobody any more. SIGHUP reads dispatcher.toml again.
    """
    _become_daemon(log_format, allow_root=allow_root)
    from dispatcher.surfaces import server

    context: CliContext = ctx.obj
    given = {"workers": workers, "operators": operators, "admin": admin}
    server.run(
        context,
        only=[one.value for one in only or ()],
        addresses={name: address for name, address in given.items() if address},
        drain=drain,
        begun=context.new_act(user_name(), "serve", target="", reason=""),
    )


def down(
    ctx: typer.Context,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for its end.")
    ] = 60.0,
    dry_run: DryRun = False,
) -> None:
    """Stop the daemon that leads this store, if it runs on this machine.

    It is sent SIGTERM and drains; exit 14 when none runs, 8 when it has not ended in
    time (it goes on draining).
    """
    from dispatcher.operations import daemon

    context: CliContext = ctx.obj
    with context.open_store() as store:
        if dry_run:
            leader = daemon.leader_of(store)
            context.say(f"{DRY_RUN}: {leader or 'no daemon'} would be stopped")
            return
        stopped = daemon.stop(store, wait)
    if stopped is None:
        context.say("no daemon runs")
        leave(EXIT_UNREACHABLE)
    if not stopped.ended:
        context.say(f"{stopped.process} drains; it has not ended yet")
        leave(EXIT_UNFINISHED)
    context.show(
        {"schema": "dispatcher.down/1", "stopped": stopped.process},
        f"stopped {stopped.process}",
    )


console = typer.Typer(
    help="Sign in to the operators' console, and out.", no_args_is_help=True
)


@console.command("link")
def link(ctx: typer.Context, dry_run: DryRun = False) -> None:
    """Make a link that opens the console once, within ten minutes.

    Whoever opens it first is signed in, for 12 hours at most and until half an hour
    goes by without a look.
    """
    from dispatcher.operations import daemon

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = daemon.make_sign_in_link(context, store)
    context.show({"schema": "dispatcher.console-link/1", "link": made}, made)
    context.say("it works once, within 10 minutes; the console is served by: up")


@console.command("sign-out")
def sign_out(ctx: typer.Context, dry_run: DryRun = False) -> None:
    """End every session of the console, and every link that was not used."""
    from dispatcher.operations import daemon

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        ended = daemon.sign_everybody_out(context, store)
    words = f"{ended} {'session' if ended == 1 else 'sessions'} ended"
    context.show({"schema": "dispatcher.console-sign-out/1", "ended": ended}, words)
