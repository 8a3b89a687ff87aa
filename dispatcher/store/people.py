"""Users and API tokens."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, or_, update
from sqlmodel import col, select

from dispatcher.model import ApiToken, AppUser
from dispatcher.store.settings import hold_setting
from dispatcher.store.transaction import Tx

_USERS: Final = select(AppUser).order_by(col(AppUser.name))
_NAMED: Final = select(AppUser).where(AppUser.name == bindparam("called"))
_NAMED_TO_CHANGE: Final = _NAMED.with_for_update()
_IDENTIFIED: Final = (
    select(AppUser)
    .where(col(AppUser.identity) == bindparam("digest"))
    .with_for_update()
)
_USER: Final = select(AppUser).where(AppUser.id == bindparam("number"))
_COUNT: Final = select(func.count()).select_from(AppUser)
_HERE: Final = col(AppUser.id) == bindparam("number")
_ROLES: Final = update(AppUser).where(_HERE).values(roles=bindparam("new"))
_DISABLED: Final = update(AppUser).where(_HERE).values(disabled_at=bindparam("moment"))
_SECRETS: Final = (
    update(AppUser)
    .where(_HERE)
    .values(
        password=bindparam("hashed"),
        totp=bindparam("sealed"),
        key_id=bindparam("key"),
        totp_step=0,
        identity=None,
    )
)
_IDENTITY: Final = update(AppUser).where(_HERE).values(identity=bindparam("digest"))
_STEP: Final = (
    update(AppUser)
    .where(_HERE, col(AppUser.totp_step) < bindparam("step"))
    .values(totp_step=bindparam("step"))
)
_TOKENS: Final = select(ApiToken).order_by(col(ApiToken.id))
_TOKEN: Final = (
    select(ApiToken.id, ApiToken.name, ApiToken.scopes, ApiToken.user_id)
    .add_columns(
        col(ApiToken.made_at),
        col(ApiToken.ends_at),
        col(ApiToken.used_at),
        col(ApiToken.revoked_at),
        col(AppUser.roles),
        col(AppUser.disabled_at),
    )
    .outerjoin(AppUser, col(AppUser.id) == col(ApiToken.user_id))
    .where(col(ApiToken.digest) == bindparam("secret"))
)
_TOUCH: Final = (
    update(ApiToken)
    .where(
        col(ApiToken.id) == bindparam("number"),
        or_(
            col(ApiToken.used_at).is_(None), col(ApiToken.used_at) < bindparam("moment")
        ),
    )
    .values(used_at=bindparam("moment"))
)
_REVOKE: Final = (
    update(ApiToken)
    .where(col(ApiToken.id) == bindparam("number"), col(ApiToken.revoked_at).is_(None))
    .values(revoked_at=bindparam("moment"))
)
_REVOKE_OF_USER: Final = (
    update(ApiToken)
    .where(
        col(ApiToken.user_id) == bindparam("number"), col(ApiToken.revoked_at).is_(None)
    )
    .values(revoked_at=bindparam("moment"))
)

TOTP: Final = "app_user.totp"
"""Column of the sealed secret."""


# -- users -----------------------------------------------------------------------------


def add_user(tx: Tx, name: str, roles: str, now: int) -> int:
    """Add a user who has no password yet; return the id.

    Raises
    ------
    Clash
        There is a user of that name.
    """
    number = tx.reserve("app_user")
    columns = ("id", "name", "roles", "totp_step", "made_at")
    tx.insert_many("app_user", columns, [(number, name, roles, 0, now)])
    return number


def hold(tx: Tx) -> None:
    """Wait for whoever else changes who may act: two could else leave nobody who may."""
    hold_setting(tx, "people", b"")


def users(tx: Tx) -> list[AppUser]:
    """All users by name, the disabled too."""
    return tx.models(_USERS)


def user_named(tx: Tx, name: str, *, lock: bool = False) -> AppUser | None:
    """Return a user, locked until the end of the transaction if asked."""
    return tx.model(_NAMED_TO_CHANGE if lock else _NAMED, {"called": name})


def identified_user(tx: Tx, identity: str) -> AppUser | None:
    """Return whom an OpenID provider signs in under an identity, locked."""
    return tx.model(_IDENTIFIED, {"digest": identity})


def user(tx: Tx, user_id: int) -> AppUser | None:
    """Return the user of an id."""
    return tx.model(_USER, {"number": user_id})


def count_users(tx: Tx) -> int:
    """Count all users, the disabled too."""
    return int(tx.scalar(_COUNT) or 0)


def set_roles(tx: Tx, user_id: int, roles: str) -> None:
    """Give a user these roles and no others."""
    tx.execute(_ROLES, {"number": user_id, "new": roles})


def set_disabled(tx: Tx, user_id: int, at: int | None) -> None:
    """Disable a user, or enable with None."""
    tx.execute(_DISABLED, {"number": user_id, "moment": at})


def set_secrets(tx: Tx, user_id: int, password: str | None, totp: bytes | None) -> None:
    """Keep a user's password as a hash and the second factor sealed; None: neither.

    An identity at an OpenID provider is forgotten.
    """
    key = sealed = None
    if totp is not None:
        (key,) = tx.vault.make(tx, 1)
        sealed = tx.vault.seal(tx, TOTP, user_id, key, totp)
    given = {"number": user_id, "hashed": password, "sealed": sealed, "key": key}
    tx.execute(_SECRETS, given)


def set_identity(tx: Tx, user_id: int, identity: str) -> None:
    """Let an OpenID provider sign a user in, instead of a password.

    Raises
    ------
    Clash
        Another user has this identity.
    """
    set_secrets(tx, user_id, None, None)
    tx.execute(_IDENTITY, {"number": user_id, "digest": identity})


def totp_secret(tx: Tx, found: AppUser) -> bytes | None:
    """Open a user's second factor."""
    if found.totp is None:
        return None
    return tx.vault.open(tx, TOTP, found.id, found.key_id, found.totp)


def use_step(tx: Tx, user_id: int, step: int) -> bool:
    """Consume a time step of the second factor; False: it, or a later one, was used."""
    return tx.execute(_STEP, {"number": user_id, "step": step}).rowcount == 1


# -- tokens ----------------------------------------------------------------------------


def add_token(
    tx: Tx,
    *,
    name: str,
    digest: str,
    prefix: str,
    user_id: int | None,
    scopes: str,
    made_at: int,
    ends_at: int,
) -> int:
    """Store a token by its digest; return its id."""
    number = tx.reserve("api_token")
    row = {
        "id": number,
        "name": name,
        "digest": digest,
        "prefix": prefix,
        "user_id": user_id,
        "scopes": scopes,
        "made_at": made_at,
        "ends_at": ends_at,
    }
    tx.insert_many("api_token", tuple(row), [tuple(row.values())])
    return number


def tokens(tx: Tx) -> list[ApiToken]:
    """All tokens in the order in which they were made."""
    return tx.models(_TOKENS)


class FoundToken(NamedTuple):
    """A token, with the roles of its user and when they were disabled."""

    id: int
    name: str
    scopes: str
    user_id: int | None
    made_at: int
    ends_at: int
    used_at: int | None
    revoked_at: int | None
    roles: str | None
    disabled_at: int | None


def token(tx: Tx, digest: str) -> FoundToken | None:
    """Return the token of a digest, however old."""
    row = tx.execute(_TOKEN, {"secret": digest}).first()
    return None if row is None else FoundToken(*row)


def touch_token(tx: Tx, token_id: int, now: int) -> None:
    """Record that a token was used now."""
    tx.execute(_TOUCH, {"number": token_id, "moment": now})


def revoke_token(tx: Tx, token_id: int, now: int) -> bool:
    """Revoke a token; False if it was revoked already, or is none."""
    return tx.execute(_REVOKE, {"number": token_id, "moment": now}).rowcount == 1


def revoke_tokens(tx: Tx, user_id: int, now: int) -> None:
    """Revoke all tokens of a user."""
    tx.execute(_REVOKE_OF_USER, {"number": user_id, "moment": now})
