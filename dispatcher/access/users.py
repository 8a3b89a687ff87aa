"""Users: names, roles, passwords and second factors, and how they sign in.

A password is kept as argon2id's hash, a second factor (TOTP) sealed under the store's
keys. Both are chosen by the user, with a link that works once: nobody else ever knows
them, and no command takes one.
"""

from __future__ import annotations

import hmac
import threading
from base64 import b32encode
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pwdlib.hashers.argon2 import Argon2Hasher
from pyotp import TOTP

from dispatcher.access.roles import check_roles
from dispatcher.access.sessions import (
    ENROL,
    FIRST_ADMIN,
    SECOND,
    Entropy,
    Operator,
    link_digest,
    make_link,
    open_session,
    prove_session,
    put_link,
)
from dispatcher.core.errors import Changed, Conflict, Invalid, NotFound
from dispatcher.core.log import get_logger
from dispatcher.core.rate_limit import Rate, RateLimiter
from dispatcher.store import Clash, Store, Tx, people
from dispatcher.store import access as rows
from dispatcher.store.audit_log import Act, Denials

if TYPE_CHECKING:
    from dispatcher.model import AppUser

LEAST_CHARS: Final = 15
MOST_CHARS: Final = 128
STEP_SECONDS: Final = 30
INVITE_SECONDS: Final = 24 * 3600
FAILURES: Final = Rate(per_minute=5, burst=5)
"""How often somebody may fail to sign in under one name, from one network."""

AT_ONCE: Final = 2
"""Passwords that are hashed at a time: each takes 64 MiB."""

_SALT_BYTES: Final = 16
_SECRET_BYTES: Final = 20
_GUESSED: Final = 3  # of 4: "safely unguessable" begins here

_log = get_logger("access")


class Passwords:
    """Hashes passwords and checks them, with the same work whoever asks.

    Parameters
    ----------
    hasher : Argon2Hasher, optional
        Argon2id with the library's parameters where none is given.
    """

    def __init__(self, hasher: Argon2Hasher | None = None) -> None:
        self._hasher = hasher or Argon2Hasher()
        self._turns = threading.Semaphore(AT_ONCE)

    @cached_property
    def _nobodys(self) -> str:
        return self._hasher.hash("nobody's password", salt=bytes(_SALT_BYTES))

    def hash(self, password: str, entropy: Entropy) -> str:
        """Return argon2id's text of a password."""
        with self._turns:
            return self._hasher.hash(password, salt=entropy(_SALT_BYTES))

    def verify(self, password: str, hashed: str | None) -> bool:
        """Whether a password is the one of a hash; with None it is not, as slowly."""
        with self._turns:
            nobodys = self._nobodys  # made once, for whoever comes first
            right = self._hasher.verify(password[:MOST_CHARS], hashed or nobodys)
        return right and hashed is not None and len(password) <= MOST_CHARS


@dataclass
class Attempts:
    """Failed attempts to sign in, by name and network, and by network; thread-safe.

    A name alone is never slowed: whoever knows it could keep its user out.
    """

    by_name: RateLimiter = field(default_factory=lambda: RateLimiter(FAILURES))
    by_network: RateLimiter = field(
        default_factory=lambda: RateLimiter(Rate(per_minute=20, burst=20))
    )
    denials: Denials = field(default_factory=Denials)

    def are_left(self, name: str, network: str, now: int) -> bool:
        """Whether one more may be made."""
        return bool(
            self.by_name.available((name, network), now)
            and self.by_network.available(network, now)
        )

    def fail(
        self, store: Store, name: str, network: str, now: int, *, known: bool
    ) -> None:
        """Count one that failed, and leave a line of it: of each network one a minute.

        The same is written whoever was named, so that no answer takes longer for a
        user who is there. A name that is none may be a password: it is kept nowhere.
        """
        self.by_name.spend((name, network), 1, now)
        self.by_network.spend(network, 1, now)
        actor = name if known else "unknown"
        act = Act(actor, "console", "console.sign-in", lambda: now)
        self.denials.note(store, act, now, by=network)
        _log.warning("sign-in.denied")


def sign_in(
    store: Store,
    name: str,
    password: str,
    code: str,
    now: int,
    *,
    network: str,
    passwords: Passwords,
    attempts: Attempts,
    entropy: Entropy,
) -> str | None:
    """Open a session with name, password and the code of the second factor.

    Parameters
    ----------
    store : Store
    name, password, code : str
        As they were sent, unchecked.
    now : int
    network : str
        Where the attempt comes from.
    passwords : Passwords
    attempts : Attempts
    entropy : callable

    Returns
    -------
    str or None
        The session's own secret, for its cookie. None if anything is wrong, or too much
        was wrong lately: unknown names, disabled users, wrong passwords and wrong codes
        are one case, and take the same time.
    """
    right = _check(
        store,
        name,
        password,
        code,
        now,
        network=network,
        passwords=passwords,
        attempts=attempts,
    )
    if right is None:
        return None
    session = _enter(store, *right, now, entropy)
    if session is None:
        attempts.fail(store, name, network, now, known=True)
    return session


def prove(
    store: Store,
    session: str,
    operator: Operator,
    password: str,
    code: str,
    now: int,
    *,
    network: str,
    passwords: Passwords,
    attempts: Attempts,
) -> bool:
    """Take password and code once more within a session; False if anything is wrong.

    Parameters
    ----------
    store : Store
    session : str
        Its own secret.
    operator : Operator
        Whose session it is.
    password, code : str
        As they were sent, unchecked.
    now : int
    network : str
    passwords : Passwords
    attempts : Attempts
    """
    right = _check(
        store,
        operator.name,
        password,
        code,
        now,
        network=network,
        passwords=passwords,
        attempts=attempts,
    )
    if right is None or right[0].id != operator.principal.user_id:
        return False
    with store.write() as tx:
        proven = people.use_step(tx, right[0].id, right[1])
        if proven:
            prove_session(tx, session, now)
    if not proven:
        attempts.fail(store, operator.name, network, now, known=True)
    return proven


def _check(
    store: Store,
    name: str,
    password: str,
    code: str,
    now: int,
    *,
    network: str,
    passwords: Passwords,
    attempts: Attempts,
) -> tuple[AppUser, int] | None:
    """Return the user whose password and code these are, and the code's time step."""
    name = name[:MOST_CHARS]
    if not attempts.are_left(name, network, now):
        _log.warning("sign-in.slowed")
        return None
    with store.read() as tx:
        found = people.user_named(tx, name)
        secret = None if found is None else people.totp_secret(tx, found)
    right = passwords.verify(password, None if found is None else found.password)
    step = right_step(secret or bytes(_SECRET_BYTES), code, now)
    if (
        right
        and step is not None
        and found is not None
        and secret is not None
        and found.disabled_at is None
    ):
        return found, step
    attempts.fail(store, name, network, now, known=found is not None)
    return None


def _enter(
    store: Store, before: AppUser, step: int, now: int, entropy: Entropy
) -> str | None:
    """Open the session, unless the user or the code has gone meanwhile."""
    with store.write() as tx:
        found = people.user_named(tx, before.name, lock=True)
        same = (
            found is not None
            and found.disabled_at is None
            and found.password == before.password
        )
        if not same or not people.use_step(tx, before.id, step):
            return None
        return open_session(tx, now, entropy, before)


def right_step(secret: bytes, code: str, now: int) -> int | None:
    """Return the time step that a code is of: this one, or the one beside it."""
    current = now // (STEP_SECONDS * SECOND)
    found = None
    for step in (current - 1, current, current + 1):  # each is compared: same work
        if hmac.compare_digest(_totp(secret, step).encode(), code.strip().encode()):
            found = step
    return found


def _totp(secret: bytes, step: int) -> str:
    return TOTP(b32encode(secret).decode()).generate_otp(step)


# -- passwords and second factors are chosen -------------------------------------------


@dataclass(frozen=True)
class Enrolment:
    """What a link lets its holder choose.

    Attributes
    ----------
    name : str
        The user; empty where the first admin chooses a name too.
    secret : bytes
        Of the second factor; made of the link, so that nothing is kept until it is used.
    """

    name: str
    secret: bytes = field(repr=False)

    @property
    def key(self) -> str:
        """The secret as a person types it: base32."""
        return b32encode(self.secret).decode()

    def uri(self, name: str = "") -> str:
        """Address that authenticators read: ``otpauth://totp/...``."""
        return TOTP(self.key).provisioning_uri(
            name=self.name or name, issuer_name="dispatcher"
        )


def enrolment(store: Store, link: str, now: int) -> Enrolment | None:
    """Return what a link lets its holder choose; None if it is not valid for that."""
    with store.read() as tx:
        name = _named_by(tx, link, now)
    return None if name is None else Enrolment(name, _secret_of(link))


def _named_by(tx: Tx, link: str, now: int) -> str | None:
    """Name of the user whom a valid link is for; empty: the first admin."""
    found = rows.valid_link(tx, link_digest(link), now)
    if found is None:
        return None
    if found.purpose == FIRST_ADMIN and people.count_users(tx) == 0:
        return ""
    if found.purpose == ENROL and found.user_id is not None:
        user = people.user(tx, found.user_id)
        if user is not None and user.disabled_at is None:
            return user.name
    return None


def enrol(
    store: Store,
    link: str,
    password: str,
    code: str,
    now: int,
    *,
    passwords: Passwords,
    entropy: Entropy,
    name: str = "",
) -> str | None:
    """Choose a password and confirm the second factor; all old sessions end.

    Parameters
    ----------
    store : Store
    link : str
    password : str
    code : str
        That the authenticator shows now.
    now : int
    passwords : Passwords
    entropy : callable
    name : str
        Of the first admin; otherwise the link says whose it is.

    Returns
    -------
    str or None
        A new session's secret; None if the link is not valid.

    Raises
    ------
    Invalid
        The password, the name or the code will not do; the link stays valid.
    """
    offered = enrolment(store, link, now)
    if offered is None:
        _log.warning("enrol.denied")
        return None
    name = offered.name or check_name(name)
    check_password(password, name)
    step = right_step(offered.secret, code, now)
    if step is None:
        raise Invalid(
            "this is not the code of now",
            why="the authenticator shows another one, or its clock is wrong",
            fix="read the code once more; set the clocks of both machines",
        )
    hashed = passwords.hash(password, entropy)
    with store.write() as tx:
        found = use_enrolment(tx, link, name, now)
        if found is None:
            return None
        people.set_secrets(tx, found.id, hashed, offered.secret)
        people.use_step(tx, found.id, step)
        return open_session(tx, now, entropy, found)


def use_enrolment(tx: Tx, link: str, name: str, now: int) -> AppUser | None:
    """Consume a link to enrol; all old sessions of its user end.

    Parameters
    ----------
    tx : Tx
    link : str
    name : str
        Of the first admin, who is added; otherwise the link says whose it is.
    now : int

    Returns
    -------
    AppUser or None
        Locked; None if the link is not valid for that any more.
    """
    people.hold(tx)
    meant = _named_by(tx, link, now)
    if meant is None or not rows.use_link(tx, link_digest(link), now):
        return None
    if not meant:
        people.add_user(tx, name, "admin", now)
    found = people.user_named(tx, meant or name, lock=True)
    assert found is not None
    rows.end_sessions(tx, now, user_id=found.id)
    return found


def _secret_of(link: str) -> bytes:
    return hmac.digest(link.encode(), b"second factor", "sha256")[:_SECRET_BYTES]


def check_password(password: str, name: str) -> None:
    """Refuse a password that is short, long, or to be guessed.

    Raises
    ------
    Invalid
    """
    from zxcvbn import zxcvbn  # noqa: PLC0415 - it reads long lists of words

    why = ""
    if not LEAST_CHARS <= len(password) <= MOST_CHARS:
        why = f"a password has {LEAST_CHARS} to {MOST_CHARS} characters, of any kind"
    else:
        known = [name, "dispatcher"]
        if zxcvbn(password[:72], user_inputs=known)["score"] < _GUESSED:
            why = "it is of common words and patterns, and would be guessed"
    if why:
        raise Invalid(
            "this password will not do",
            why=why,
            fix="take four or more words that nobody else would put together, or let a "
            "password manager make one",
        )


# -- users are added and changed -------------------------------------------------------


def make_first_admin_link(store: Store, now: int, entropy: Entropy) -> str:
    """Make the link with which the first admin enrols, within ten minutes.

    Raises
    ------
    Conflict
        There are users already.
    """
    with store.read() as tx:
        if people.count_users(tx):
            raise Conflict(
                "there are users already",
                why="the link of the first admin makes the first of all users, once",
                fix="add another one: dispatcher users add NAME --role ROLE",
            )
    return make_link(store, now, entropy, purpose=FIRST_ADMIN)


def add_user(
    store: Store,
    name: str,
    roles: Collection[str],
    now: int,
    entropy: Entropy,
) -> str:
    """Add a user; return the link with which they choose a password, within a day.

    Raises
    ------
    Invalid
        The name or the roles will not do.
    Conflict
        There is one of that name.
    """
    check_name(name)
    given = " ".join(sorted(check_roles(roles)))
    try:
        with store.write() as tx:
            number = people.add_user(tx, name, given, now)
            return _invite(tx, number, now, entropy)
    except Clash:
        raise Conflict(
            f"there is a user {name} already",
            why="a name stands for one person in the audit log, for good",
            fix="choose another name, or give this one a new link: dispatcher users "
            f"reset {name}",
        ) from None


def reset_user(store: Store, name: str, now: int, entropy: Entropy) -> str:
    """Take password, second factor or identity, sessions and tokens away; a new link.

    Raises
    ------
    NotFound
        There is no such user.
    """
    with store.write() as tx:
        found = _locked(tx, name)
        people.set_secrets(tx, found.id, None, None)
        people.revoke_tokens(tx, found.id, now)  # whoever took the password made some
        _send_out(tx, found.id, now)
        return _invite(tx, found.id, now, entropy)


def set_roles(
    store: Store,
    name: str,
    roles: Collection[str],
    now: int,
    *,
    before: Collection[str] | None = None,
) -> None:
    """Give a user these roles and no others; all their sessions end.

    Parameters
    ----------
    store : Store
    name : str
    roles : collection of str
    now : int
    before : collection of str, optional
        Only if the user has these now.

    Raises
    ------
    Invalid, NotFound
        The roles will not do; there is no such user.
    Changed
        The user has others than ``before``.
    Conflict
        Nobody would be admin any more.
    """
    given = check_roles(roles)
    with store.write() as tx:
        people.hold(tx)
        found = _locked(tx, name)
        if before is not None and set(before) != set(found.roles.split()):
            raise Changed(
                f"the roles of {name} were changed",
                why="somebody else gave this user others since they were read",
                fix="read them again, then decide",
            )
        if "admin" not in given:
            _keep_an_admin(tx, found)
        people.set_roles(tx, found.id, " ".join(sorted(given)))
        _send_out(tx, found.id, now)


def disable_user(store: Store, name: str, now: int, *, enable: bool = False) -> None:
    """Let a user in no more, nor their tokens; or again.

    Raises
    ------
    NotFound
        There is no such user.
    Conflict
        Nobody would be admin any more.
    """
    with store.write() as tx:
        people.hold(tx)
        found = _locked(tx, name)
        if not enable:
            _keep_an_admin(tx, found)
        people.set_disabled(tx, found.id, None if enable else now)
        _send_out(tx, found.id, now)


def list_users(store: Store) -> list[AppUser]:
    """All users by name, the disabled too."""
    with store.read() as tx:
        return people.users(tx)


def _locked(tx: Tx, name: str) -> AppUser:
    found = people.user_named(tx, name, lock=True)
    if found is None:
        raise no_user(name)
    return found


def _keep_an_admin(tx: Tx, leaving: AppUser) -> None:
    """Refuse to leave the store without an admin, if it has one."""
    admins = {
        one.id
        for one in people.users(tx)
        if one.disabled_at is None and "admin" in one.roles.split()
    }
    if admins == {leaving.id}:
        raise Conflict(
            f"{leaving.name} is the only admin",
            why="nobody could add users or take rights away any more",
            fix="make another user admin first",
        )


def _invite(tx: Tx, user_id: int, now: int, entropy: Entropy) -> str:
    return put_link(
        tx, now, entropy, purpose=ENROL, user_id=user_id, seconds=INVITE_SECONDS
    )


def _send_out(tx: Tx, user_id: int, now: int) -> None:
    rows.end_sessions(tx, now, user_id=user_id)
    rows.end_links(tx, now, user_id=user_id)


def check_name(name: str) -> str:
    """Return a name that a user or token may have.

    Raises
    ------
    Invalid
        It is empty, too long, or has other characters than letters, digits and ``-_.@``.
    """
    fits = name.replace("-", "").replace("_", "").replace(".", "").replace("@", "")
    if not (1 <= len(name) <= 64 and fits.isascii() and fits.isalnum()):
        raise Invalid(
            "this cannot be the name of a user or token",
            why="a name has 1 to 64 letters and digits, and - _ . @ between them",
            fix="choose a shorter or simpler one, such as ann or load-nightly",
        )
    return name


def no_user(name: str) -> NotFound:
    """Error for a user who is not there."""
    return NotFound(
        f"there is no user {name[:64]}",
        why="nobody of that name was added",
        fix="see them: dispatcher users list",
    )
