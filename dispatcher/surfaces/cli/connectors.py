"""``dispatcher connectors``: what is set up, what it declares, and whether it works."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import (
    CliContext,
    DryRun,
    OneWorker,
    Output,
    Reason,
    read_file,
    told_moment,
    zulu,
)

if TYPE_CHECKING:
    from connectors.base import Manifest, Tried
    from dispatcher.operations.connectors import Health
    from dispatcher.stages.reconciling import Drift

app = typer.Typer(
    help="Markets and feeds: what they declare, whether they work.",
    no_args_is_help=True,
)


EXIT_TEMPORARY = 75
WALLS = ("identity", "binding", "preview", "content")


@app.command("list")
def list_connectors(
    ctx: typer.Context,
    available: Annotated[
        bool, typer.Option("--available", help="All kinds that could be set up.")
    ] = False,
) -> None:
    """List the connectors of the settings, or all kinds."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    found = (
        connectors.list_kinds() if available else connectors.list_connectors(context)
    )
    fares = {} if available else connectors.last_health(context)
    rows: list[dict[str, Any]] = [
        {"name": one.name, "kind": one.kind, "from": one.origin}
        | _declared(one.manifest)
        | _fares(fares.get(one.name))
        for one in found
    ]
    columns: tuple[str, ...] = (
        "name",
        "kind",
        "role",
        "binding",
        "identity",
        "content",
        "from",
    )
    if not available:
        columns = (*columns, "circuit", "balance")
    context.show(
        {"schema": "dispatcher.connectors/1", "connectors": rows},
        context.table([[row[c] for c in columns] for row in rows], columns),
    )


@app.command("show")
def show_connector(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A connector of the settings.", autocompletion=completion.connectors
        ),
    ],
) -> None:
    """Show all that a connector declares of itself, and what of it was tried.

    Tried is by `dispatcher connectors test NAME --as OTHER`.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connector = connectors.show(context, name)
    declared = _declared(connector.manifest)
    last = connectors.last_tried(context, name)
    fares = _fares(connectors.last_health(context)[name])
    width = max(map(len, declared))
    lines = [
        f"{key:<{width}}  {value!s:<11}  {_wall_words(last, key)}".rstrip()
        for key, value in declared.items()
    ]
    lines += [f"{key:<{width}}  {value}" for key, value in fares.items() if value]
    context.show(
        {"schema": "dispatcher.connector/1", "name": name, "kind": connector.kind, **declared,
         **fares, "tried": last},
        "\n".join(lines),
    )  # fmt: skip


@app.command("test")
def try_connector(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A connector of the settings.", autocompletion=completion.connectors
        ),
    ],
    other: Annotated[
        str | None,
        typer.Option("--as", help="Try as this worker to open what is another's."),
    ] = None,
    worker: OneWorker = None,
    as_secret_from: Annotated[
        Path | None,
        typer.Option(help="File with the other worker's password there."),
    ] = None,
) -> None:
    """Open a connector and ask the outside for a message that there is not.

    Nothing is sent and nothing is shown. A feed that cannot be asked (`finds` is no in
    `connectors show`) is only opened. With --as, synthetic work is offered to one
    worker (--worker), another one and nobody at all try to open it, and it is taken back: each try
    that is let in is reported as FAIL. What was found is kept for `connectors
    show`.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    if other is None and (worker, as_secret_from) != (None, None):
        raise Usage("--worker and --as-secret-from go with --as", why="they say how to try it",
                    fix="add --as OTHER")  # fmt: skip
    answer = connectors.ask(connectors.open_one(context, name))
    connectors.note_balance(context, name, answer)
    lines = ["ok    the settings and the secret are well formed"]
    state, why = answer.state.value, answer.why
    lines.append(f"{state:<5} {why}")
    if answer.balance:
        lines.append(f"ok    its account has {answer.balance} left")
    tried = []
    if other is not None and state == "ok":
        password = "" if as_secret_from is None else _password(as_secret_from)
        tried = connectors.try_walls(
            context, name, other, worker=worker, password=password
        )
        lines += [f"{_held(one):<5} {one.wall}: {one.finding}" for one in tried]
        state = "ok" if all(one.held for one in tried) else "FAIL"
    results = [{"wall": t.wall, "held": t.held, "finding": t.finding} for t in tried]
    context.show(
        {"schema": "dispatcher.connectors.test/1", "name": name, "state": state,
         "message": why, "balance": answer.balance or None, "tried": results},
        "\n".join(lines),
    )  # fmt: skip
    if state == "FAIL":
        raise typer.Exit(1)
    if state == "LATER":
        raise typer.Exit(EXIT_TEMPORARY)


def _held(one: Tried) -> str:
    return "ok" if one.held else "FAIL"


@app.command("enable")
def enable(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A connector of the settings.", autocompletion=completion.connectors
        ),
    ],
    untested: Annotated[
        bool, typer.Option("--untested", help="Do not test it first.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Let work go through a connector, if its test passes."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    opened = connectors.open_one(context, name)
    if not untested:
        connectors.check_answer(name, connectors.ask(opened))
    with context.open_store(dry_run=dry_run) as store:
        connectors.enable(store, name)
    show_state(context, name, "enabled")


def _password(path: Path) -> str:
    try:
        return read_input(path).decode().strip()
    except (OSError, ValueError) as error:
        raise Usage(
            "the other worker's password cannot be read",
            why=type(error).__name__,
            fix="name a text file that holds it, and nothing else",
        ) from error


def _wall_words(last: dict[str, Any] | None, wall: str) -> str:
    """What the last try of a wall came to, in words; empty where it is none."""
    if wall not in WALLS:
        return ""
    if last is None or wall not in last["walls"]:
        return "not tried"
    state = "holds" if last["walls"][wall] else "FAILS"
    return f"{state} ({told_moment(last['at'])}, as {last['as']})"


def _fares(found: Health | None) -> dict[str, Any]:
    """How a connector fares, in words and numbers."""
    if found is None:
        return {}
    return {
        "circuit": found.circuit,
        "since": None if found.since is None else zulu(found.since),
        "next_try": None if found.next_try is None else zulu(found.next_try),
        "error": found.error,
        "balance": found.balance,
        "balance_at": None if found.balance_at is None else zulu(found.balance_at),
    }


def _declared(manifest: Manifest) -> dict[str, Any]:
    """The manifest in words and numbers."""
    limits = manifest.limits
    return {
        "role": manifest.role.value,
        "binding": manifest.binding.value,
        "identity": manifest.identity.value,
        "content": manifest.content.value,
        "preview": manifest.preview.value,
        "idempotency": manifest.idempotency.value,
        "finds": "yes" if manifest.finds else "no",
        "withdraws": "yes" if manifest.withdraws else "no",
        "items": limits.items,
        "content_bytes": limits.content_bytes,
        "per_minute": limits.per_minute or "no limit known",
        "tested_against": manifest.tested_against,
    }


RESTART: Final = "a daemon that runs takes it up when it reloads (SIGHUP)"

OneName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Of the connector.", autocompletion=completion.connectors
    ),
]
SecretFrom = Annotated[
    str | None,
    typer.Option("--secret-from", help="File with its secret; - is stdin."),
]


@app.command()
def add(
    ctx: typer.Context,
    name: OneName,
    kind: Annotated[
        str | None, typer.Option(help="Its kind; by default the name.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, once for each.")
    ] = None,
    secret_from: SecretFrom = None,
    dry_run: DryRun = False,
) -> None:
    """Add a connector to dispatcher.toml; it stays disabled until `connectors enable`.

    It is opened first: where a setting or the secret is wrong, nothing is changed. A
    secret is kept beside the settings in NAME.secret, for its owner only.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    values = {"kind": kind or name} | dict(_pair(text) for text in settings or ())
    secret = None if secret_from is None else _read_secret(secret_from)
    connectors.add(context, name, values, secret, dry_run=dry_run)
    context.show(
        {"schema": "dispatcher.connectors.add/1", "name": name, "kind": values["kind"]},
        f"{'would add' if dry_run else 'added'} {name}, disabled; next: dispatcher connectors test {name}, then "
        f"dispatcher connectors enable {name}",
    )
    context.say(RESTART)


@app.command("set-secret")
def set_secret(
    ctx: typer.Context,
    name: OneName,
    source: SecretFrom = "-",
    dry_run: DryRun = False,
) -> None:
    """Put another secret into a connector's secret_file; a wrong one changes nothing.

    It is opened with the new secret before the old one is replaced. On a terminal the
    secret is asked for and not shown.
    """
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connectors.secret_file_of(context, name)  # before anybody types a secret
    connectors.set_secret(context, name, _read_secret(source or "-"), dry_run=dry_run)
    context.show(
        {"schema": "dispatcher.connectors.secret/1", "name": name},
        f"the secret of {name} {'would be' if dry_run else 'is'} replaced",
    )
    context.say(RESTART)


@app.command()
def disable(
    ctx: typer.Context,
    name: OneName,
    reason: Reason = "disabled",
    dry_run: DryRun = False,
) -> None:
    """Send and show nothing more through a connector, at once; answers are taken."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    connectors.values_of(context, name)
    with context.open_store(dry_run=dry_run) as store:
        connectors.disable(context, store, name, reason)
    show_state(context, name, "disabled")


@app.command()
def new(
    ctx: typer.Context,
    name: OneName,
    output: Output = None,
    dry_run: DryRun = False,
) -> None:
    """Write a package with a connector that works, and the contract test of it."""
    from dispatcher.operations import connectors

    context: CliContext = ctx.obj
    into = output or Path(f"sparsi-{connectors.package_of(name)}")
    written = [
        str(path) for path in connectors.write_package(name, into, dry_run=dry_run)
    ]
    context.show(
        {"schema": "dispatcher.connectors.new/1", "written": written},
        "\n".join(written),
    )
    context.say(f"next: cd {into} && pip install -e . pytest && pytest")


def show_state(context: CliContext, name: str, state: str) -> None:
    """Say whether a connector is enabled now."""
    context.show(
        {"schema": "dispatcher.connectors.state/1", "name": name, "state": state},
        f"{name} is {state}",
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    plain = value.isprintable() and key.replace("_", "").isalnum() and key.isascii()
    if not equals or not plain or key == "kind":
        raise Usage(
            "--set takes KEY=VALUE, both printable",
            why="each becomes a line of dispatcher.toml",
            fix="--set url=https://market.example.org",
        )
    return key, value


def _read_secret(source: str) -> bytes:
    if source == "-" and sys.stdin.isatty():
        secret = getpass("secret: ").encode()
    else:
        secret = sys.stdin.buffer.read() if source == "-" else read_file(Path(source))
    if not secret.strip():
        raise Invalid(
            "the secret is empty",
            why="nothing was read",
            fix="name the file that holds it, or - and give it to stdin",
        )
    return secret


MEANING = {
    "unknown": "open there, not known here: withdraw",
    "arrived": "given up here, lies there: count as sent",
    "unwithdrawn": "withdrawn here, open there: withdraw again",
    "gone": "sent, not there any more: return to the plan",
    "refused": "the market would not withdraw it",
    "foreign": "another store's: left alone",
}


@app.command()
def reconcile(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A market of the settings.", autocompletion=completion.connectors
        ),
    ],
    mend: Annotated[
        bool, typer.Option("--mend", help="Correct what differs, as the daemon does.")
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Also where most of what was sent is gone there."),
    ] = False,
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Have all answers that lie there read again."),
    ] = False,
) -> None:
    """Hold what a market has of this store against what the store knows.

    The daemon does this every day, and corrects what differs. Exit status 1: they
    differ, and nothing was corrected.
    """
    from dispatcher.operations import connectors

    if trust and not mend:
        raise Usage(
            "--trust without --mend",
            why="it says what may be corrected",
            fix="add --mend",
        )
    context: CliContext = ctx.obj
    connectors.values_of(context, name)
    with context.open_store() as store:
        drift = connectors.reconcile(context, store, name, mend=mend, trust=trust)
        if answers:
            connectors.collect_again(store, name)
    _show_drift(context, name, drift, mended=mend)
    if drift.differs and not mend:
        raise typer.Exit(1)


def _show_drift(context: CliContext, name: str, drift: Drift, *, mended: bool) -> None:
    lines = [f"{drift.listed:,} offers lie at {name}"]
    found = [
        [
            f"{drift.counts[kind]:,}",
            kind,
            meaning,
            " ".join(drift.examples.get(kind, ())),
        ]
        for kind, meaning in MEANING.items()
        if drift.counts.get(kind)
    ]
    header = ("count", "what", "so", "which")
    lines += [context.table(found, header)] if found else ["nothing differs"]
    if drift.doubtful:
        lines.append(
            "most of what was sent is gone there: see whether the list can be right, then"
            " --mend --trust"
        )
    elif drift.differs and not mended:
        lines.append("nothing was changed: --mend")
    context.show(
        {
            "schema": "dispatcher.connectors.reconcile/1",
            "name": name,
            "listed": drift.listed,
            "differs": drift.differs,
            "doubtful": drift.doubtful,
            "mended": mended,
            **{kind: drift.counts.get(kind, 0) for kind in MEANING},
            "examples": {k: list(v) for k, v in drift.examples.items()},
        },
        "\n".join(lines),
    )
