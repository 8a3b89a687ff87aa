"""Users, tokens and sessions: who may come in; and the audit chain of what they did."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dispatcher.access import sessions, tokens, users
from dispatcher.access.oidc import Provider
from dispatcher.access.tokens import NewToken
from dispatcher.core.config import read_private
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, audit_log

Entropy = Callable[[int], bytes]


@dataclass(frozen=True)
class UserRow:
    """A user as others may know them.

    Attributes
    ----------
    name : str
    roles : tuple of str
    state : str
        ``active``, ``invited`` (has not enrolled yet) or ``disabled``.
    made_at : int
    signs_in_by : str
        ``password``, ``provider``, or empty: neither yet.
    """

    name: str
    roles: tuple[str, ...]
    state: str
    made_at: int
    signs_in_by: str


@dataclass(frozen=True)
class TokenRow:
    """A token by its first characters; ``state`` is ``valid``, ``expired`` or ``revoked``."""

    id: int
    name: str
    prefix: str
    user: str | None
    scopes: tuple[str, ...]
    state: str
    made_at: int
    ends_at: int
    used_at: int | None


@dataclass(frozen=True)
class ConsoleSession:
    """A session of the console that is valid now; ``id`` ends it, and opens nothing."""

    id: str
    user: str
    opened_at: int
    seen_at: int


@dataclass(frozen=True)
class AuditRow:
    """One act: by whom, what, to what, why, and what came of it."""

    seq: int
    at: int
    actor: str
    surface: str
    operation: str
    target: str
    reason: str
    outcome: str


# -- users -----------------------------------------------------------------------------


def list_users(store: Store) -> list[UserRow]:
    """All users by name."""
    found = []
    for one in users.list_users(store):
        by = "password" if one.password else "provider" if one.identity else ""
        state = "active" if by else "invited"
        if one.disabled_at is not None:
            state = "disabled"
        found.append(
            UserRow(one.name, tuple(one.roles.split()), state, one.made_at, by)
        )
    return found


def show_user(store: Store, name: str) -> UserRow:
    """Return one user.

    Raises
    ------
    NotFound
    """
    for one in list_users(store):
        if one.name == name:
            return one
    raise users.no_user(name)


def add_user(
    workspace: Workspace,
    store: Store,
    name: str,
    roles: Collection[str],
    *,
    entropy: Entropy = os.urandom,
) -> str:
    """Add a user; return the link with which they choose a password, within a day.

    Raises
    ------
    Invalid, Conflict
        The name or the roles will not do; the name is taken.
    """
    link = users.add_user(store, name, roles, workspace.clock(), entropy)
    return _enrol_link(workspace, link)


def invite_first_admin(
    workspace: Workspace,
    store: Store,
    base: str | None = None,
    *,
    entropy: Entropy = os.urandom,
) -> str:
    """Make the link of the first admin, for ten minutes; ``base`` is the console's URL.

    Raises
    ------
    Conflict
        There are users already.
    """
    link = users.make_first_admin_link(store, workspace.clock(), entropy)
    return _enrol_link(workspace, link, base)


def set_roles(
    workspace: Workspace,
    store: Store,
    name: str,
    roles: Collection[str],
    *,
    before: Collection[str] | None = None,
) -> None:
    """Give a user these roles and no others; all their sessions end.

    Raises
    ------
    Invalid, NotFound, Changed, Conflict
        See :func:`dispatcher.access.users.set_roles`.
    """
    users.set_roles(store, name, roles, workspace.clock(), before=before)


def disable_user(
    workspace: Workspace, store: Store, name: str, *, enable: bool = False
) -> None:
    """Let a user in no more, nor their tokens; or again.

    Raises
    ------
    NotFound, Conflict
        There is no such user; nobody would be admin any more.
    """
    users.disable_user(store, name, workspace.clock(), enable=enable)


def reset_user(
    workspace: Workspace, store: Store, name: str, *, entropy: Entropy = os.urandom
) -> str:
    """Take a user's password, second factor and tokens away; return a new link.

    Raises
    ------
    NotFound
        There is no such user.
    """
    link = users.reset_user(store, name, workspace.clock(), entropy)
    return _enrol_link(workspace, link)


def open_provider(workspace: Workspace) -> Provider | None:
    """Return the OpenID provider that the settings name; uses no network.

    Raises
    ------
    Invalid
        Its secret cannot be read, or what speaks the protocol is not installed.
    """
    settings, surfaces = workspace.config.oidc, workspace.config.surfaces
    if not settings.issuer:
        return None
    secret = ""
    if settings.client_secret_file is not None:
        secret = read_private(
            workspace.directory / settings.client_secret_file,
            holds="the secret that the OpenID provider gave",
            fix="correct oidc.client_secret_file, or leave it out",
        )
    where = surfaces.operator_url or f"http://{surfaces.operators}"
    return Provider(settings, where, secret)


def _enrol_link(workspace: Workspace, secret: str, base: str | None = None) -> str:
    surfaces = workspace.config.surfaces
    where = surfaces.operator_url or base or f"http://{surfaces.operators}"
    return sessions.sign_in_link(where, secret, page="enrol")


# -- tokens ----------------------------------------------------------------------------


def make_token(
    workspace: Workspace,
    store: Store,
    name: str,
    scopes: Collection[str],
    *,
    days: int,
    user: str | None = None,
    entropy: Entropy = os.urandom,
) -> NewToken:
    """Make a token of the API; its secret is shown this once.

    Raises
    ------
    Invalid, NotFound, Conflict
        See :func:`dispatcher.access.tokens.make_token`.
    """
    return tokens.make_token(
        store,
        name,
        scopes,
        workspace.clock(),
        days=days,
        entropy=entropy,
        user=user,
    )


def list_tokens(workspace: Workspace, store: Store) -> list[TokenRow]:
    """All tokens, in the order in which they were made."""
    now = workspace.clock()
    names = {one.id: one.name for one in users.list_users(store)}
    return [
        TokenRow(
            one.id,
            one.name,
            one.prefix,
            None if one.user_id is None else names[one.user_id],
            tuple(one.scopes.split()),
            "revoked"
            if one.revoked_at is not None
            else ("expired" if one.ends_at <= now else "valid"),
            one.made_at,
            one.ends_at,
            one.used_at,
        )
        for one in tokens.list_tokens(store)
    ]


def revoke_token(workspace: Workspace, store: Store, token: str) -> TokenRow:
    """End a token, given by its number or its first characters.

    Raises
    ------
    NotFound, Conflict
        It is none that is valid; several begin so.
    """
    gone = tokens.revoke_token(store, token, workspace.clock())
    return next(one for one in list_tokens(workspace, store) if one.id == gone.id)


# -- sessions --------------------------------------------------------------------------


def list_sessions(workspace: Workspace, store: Store) -> list[ConsoleSession]:
    """Sessions of the console that are valid now, the oldest first."""
    return [
        ConsoleSession(number, name, row.opened_at, row.seen_at)
        for number, name, row in sessions.list_sessions(store, workspace.clock())
    ]


def revoke_session(workspace: Workspace, store: Store, session: str) -> ConsoleSession:
    """End a session by its id; return it as it was.

    Raises
    ------
    NotFound
        There is no valid session of that id.
    """
    found = {one.id: one for one in list_sessions(workspace, store)}
    sessions.revoke_session(store, session, workspace.clock())
    return found[session]


# -- the audit chain -------------------------------------------------------------------


def audit_lines(
    store: Store,
    *,
    actor: str | None = None,
    operation: str | None = None,
    since: int = 0,
    until: int = 2**63 - 1,
    before: int = 2**63 - 1,
    limit: int = 100,
) -> list[AuditRow]:
    """Lines of the audit chain, the newest first.

    Parameters
    ----------
    store : Store
    actor, operation : str, optional
        Only theirs; ``operation`` may be a noun alone.
    since, until : int
        Moments: from the first on, before the second.
    before : int
        Below this number.
    limit : int
    """
    with store.read() as tx:
        found = audit_log.newest(
            tx,
            actor=actor,
            operation=operation,
            since=since,
            until=until,
            before=before,
            limit=limit,
        )
    names = AuditRow.__dataclass_fields__
    return [AuditRow(**{name: getattr(one, name) for name in names}) for one in found]
