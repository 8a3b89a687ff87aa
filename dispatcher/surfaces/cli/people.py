"""``dispatcher users``, ``tokens`` and ``sessions``: who may come in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from dispatcher.surfaces.cli.context import CliContext, DryRun, told_moment

Name = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Role = Annotated[
    list[str],
    typer.Option(
        "--role",
        help="viewer, operator, reviewer, data-viewer, policy-admin, privacy-officer, "
        "admin or loader; several may be given.",
    ),
]
ONCE: Final = "it works once, within {}; the console is served by: up"

users = typer.Typer(
    help="Who signs in to the console, and in which roles.", no_args_is_help=True
)
tokens = typer.Typer(
    help="Tokens with which programs call the API.", no_args_is_help=True
)
sessions = typer.Typer(
    help="Who is signed in to the console now; end one.", no_args_is_help=True
)


@users.command("invite")
def invite(ctx: typer.Context, dry_run: DryRun = False) -> None:
    """Make the link with which the first admin chooses a name and a password.

    It is made as long as there are no users; later ones are added by users add.
    """
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = people.invite_first_admin(context, store)
    _show_link(context, made, "10 minutes")


@users.command("add")
def add(ctx: typer.Context, user: Name, roles: Role, dry_run: DryRun = False) -> None:
    """Add a user, and print the link with which they choose a password.

    Roles that check each other are not given to one user: a privacy officer does not
    operate, an admin sees no value.
    """
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = people.add_user(context, store, user, roles)
    _show_link(context, made, "24 hours")


@users.command("list")
def list_users(ctx: typer.Context) -> None:
    """List users with their roles and whether they may come in."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = people.list_users(store)
    rows = [
        (
            one.name,
            one.state,
            " ".join(one.roles),
            one.signs_in_by,
            told_moment(one.made_at),
        )
        for one in found
    ]
    context.show(
        {"schema": "dispatcher.users/1", "users": [asdict(one) for one in found]},
        context.table(rows, ("user", "state", "roles", "signs in by", "added")),
    )


@users.command("role")
def role(ctx: typer.Context, user: Name, roles: Role, dry_run: DryRun = False) -> None:
    """Give a user these roles and no others; all their sessions end."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        people.set_roles(context, store, user, roles)
    context.show(
        {"schema": "dispatcher.user/1", "user": user, "roles": sorted(roles)},
        f"{user}: {' '.join(sorted(roles))}",
    )


@users.command("disable")
def disable(
    ctx: typer.Context,
    user: Name,
    enable: Annotated[
        bool, typer.Option("--enable", help="Let them in again.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Let a user in no more; their sessions end, and their tokens do nothing."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        people.disable_user(context, store, user, enable=enable)
        (row,) = (one for one in people.list_users(store) if one.name == user)
    context.show(
        {"schema": "dispatcher.user/1", "user": user, "roles": list(row.roles)},
        f"{user} may come in again" if enable else f"{user} may come in no more",
    )


@users.command("reset")
def reset(ctx: typer.Context, user: Name, dry_run: DryRun = False) -> None:
    """Take a user's password, second factor and tokens away, and print a new link."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = people.reset_user(context, store, user)
    _show_link(context, made, "24 hours")
    if not dry_run:
        context.say(f"the tokens of {user} are revoked; make new ones: tokens make")


def _show_link(context: CliContext, link: str, time: str) -> None:
    context.show({"schema": "dispatcher.console-link/1", "link": link}, link)
    context.say(ONCE.format(time))


@tokens.command("make")
def make(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scopes: Annotated[
        list[str],
        typer.Option("--scope", help="What it may do: records:write; several may be."),
    ],
    valid: Annotated[
        int, typer.Option("--valid", min=1, max=366, help="Days until it ends.")
    ] = 30,
    owner: Annotated[
        str | None,
        typer.Option("--user", help="Whose it is: it never does more than they may."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Make a token of the API and print it, this once.

    It cannot make others. Without --user it is a machine's: nobody's rights limit it.
    """
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        made = people.make_token(context, store, name, scopes, days=valid, user=owner)
    context.show(
        {
            "schema": "dispatcher.token/1",
            "id": made.id,
            "token": made.secret,
            "prefix": made.prefix,
            "scopes": sorted(made.scopes),
            "ends_at": made.ends_at,
        },
        made.secret,
    )
    context.say(
        f"token {made.id}, valid until {told_moment(made.ends_at)}; it is kept nowhere: "
        "put it where the program reads it, in a file of its own"
    )


@tokens.command("list")
def list_tokens(ctx: typer.Context) -> None:
    """List tokens by their first characters: whose, what for, when last used."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = people.list_tokens(context, store)
    rows = [
        (
            one.id,
            one.prefix,
            one.name,
            one.user or "-",
            one.state,
            told_moment(one.ends_at),
            "never" if one.used_at is None else told_moment(one.used_at),
            " ".join(one.scopes),
        )
        for one in found
    ]
    header = ("id", "begins", "name", "user", "state", "ends", "last used", "scopes")
    context.show(
        {"schema": "dispatcher.tokens/1", "tokens": [asdict(one) for one in found]},
        context.table(rows, header),
    )


@tokens.command("revoke")
def revoke_token(
    ctx: typer.Context,
    token: Annotated[
        str,
        typer.Argument(metavar="ID", help="As tokens list shows it, or how it begins."),
    ],
    dry_run: DryRun = False,
) -> None:
    """End a token: it opens nothing from now on."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        gone = people.revoke_token(context, store, token)
    context.show(
        {"schema": "dispatcher.token-revoked/1", "id": gone.id, "prefix": gone.prefix},
        f"token {gone.id} ({gone.prefix}...) is revoked",
    )


@sessions.command("list")
def list_sessions(ctx: typer.Context) -> None:
    """List the sessions of the console that are valid now."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = people.list_sessions(context, store)
    rows = [
        (one.id, one.user, told_moment(one.opened_at), told_moment(one.seen_at))
        for one in found
    ]
    context.show(
        {"schema": "dispatcher.sessions/1", "sessions": [asdict(one) for one in found]},
        context.table(rows, ("id", "user", "since", "last seen")),
    )


@sessions.command("revoke")
def revoke_session(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="ID", help="As sessions list shows it.")
    ],
    dry_run: DryRun = False,
) -> None:
    """End a session: its cookie is invalid from now on."""
    from dispatcher.operations import people

    context: CliContext = ctx.obj
    with context.open_store(dry_run=dry_run) as store:
        people.revoke_session(context, store, session)
    context.show(
        {"schema": "dispatcher.session-revoked/1", "id": session},
        f"session {session} has ended",
    )
