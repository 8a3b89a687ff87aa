"""Signing in by the OpenID provider: what begins in a browser, and what comes of it.

A user is known to the provider from the moment at which they enrolled by it, with the
link that an admin gave them: issuer and subject are bound to their name then, and the
roles stay what an admin says (docs/decisions). A way to the provider and back is a link
of its own: it works once, for ten minutes, and in the browser alone in which it began.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dispatcher.access.oidc import (
    LEEWAY,
    SECOND,
    Flow,
    ProvidedIdentity,
    Provider,
    ProviderError,
    TokenRefused,
)
from dispatcher.access.sessions import (
    Entropy,
    Operator,
    link_digest,
    open_session,
    put_link,
    session_digest,
)
from dispatcher.access.users import Attempts, check_name, enrolment, use_enrolment
from dispatcher.core.log import get_logger
from dispatcher.store import Clash, Store, people
from dispatcher.store import access as rows
from dispatcher.store.audit_log import Act

if TYPE_CHECKING:
    from dispatcher.model import AppUser, SignInLink

SIGN_IN: Final = "oidc"
ENROL_BY_PROVIDER: Final = "oidc-enrol"
PROVE: Final = "oidc-prove"

_log = get_logger("access")


class NotSignedIn(Exception):
    """The way to the provider ended without a session.

    Parameters
    ----------
    why : str
        ``elsewhere``: it did not begin in this browser, is over, or was used;
        ``declined``: the provider says that nobody signed in; ``invalid``: what it says
        proves nothing; ``nobody``: it names nobody who may come in here; ``taken``:
        it names another user; ``other``: it names another one than has this session;
        ``stale``: it does not say that they signed in anew; ``away``: it does not answer.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Begun:
    """Where the browser goes, and what it keeps until it is back."""

    address: str
    cookie: str = field(repr=False)


def begin_sign_in(
    store: Store, provider: Provider, now: int, entropy: Entropy
) -> Begun:
    """Send a browser to the provider to sign in.

    Raises
    ------
    NotSignedIn
        The provider is away.
    """
    return _begin(store, provider, now, entropy, SIGN_IN)


def begin_enrolment(
    store: Store, provider: Provider, link: str, name: str, now: int, entropy: Entropy
) -> Begun | None:
    """Send the holder of a link to enrol to the provider; None: the link is not valid.

    Parameters
    ----------
    store : Store
    provider : Provider
    link : str
        Unchecked.
    name : str
        Of the first admin; otherwise the link says whose it is.
    now : int
    entropy : callable

    Raises
    ------
    Invalid
        The name will not do.
    NotSignedIn
        The provider is away.
    """
    offered = enrolment(store, link, now)
    if offered is None:
        _log.warning("enrol.denied")
        return None
    chosen = "" if offered.name else check_name(name)
    return _begin(store, provider, now, entropy, ENROL_BY_PROVIDER, f"{link}.{chosen}")


def begin_proof(
    store: Store,
    provider: Provider,
    session: str,
    operator: Operator,
    now: int,
    entropy: Entropy,
) -> Begun:
    """Have whoever has a session sign in at the provider once more.

    Raises
    ------
    NotSignedIn
        The provider is away.
    """
    return _begin(
        store,
        provider,
        now,
        entropy,
        PROVE,
        session_digest(session),
        operator.principal.user_id,
    )


def _begin(
    store: Store,
    provider: Provider,
    now: int,
    entropy: Entropy,
    purpose: str,
    context: str = "",
    user_id: int | None = None,
) -> Begun:
    with store.write() as tx:
        secret = put_link(tx, now, entropy, purpose=purpose, user_id=user_id)
    try:
        address = provider.address(Flow(secret), now, afresh=purpose == PROVE)
    except ProviderError as error:
        _log.warning("oidc.away", what=error.what)
        raise NotSignedIn("away") from None
    return Begun(address, f"{secret}.{context}")


def arrive(
    store: Store,
    provider: Provider,
    cookie: str,
    answer: Mapping[str, str],
    now: int,
    *,
    network: str,
    attempts: Attempts,
    entropy: Entropy,
) -> str | None:
    """Take a browser that the provider sent back.

    Parameters
    ----------
    store : Store
    provider : Provider
    cookie : str
        What the browser kept, unchecked.
    answer : Mapping of str to str
        Parameters of the address that it came to, unchecked.
    now : int
    network : str
        Where it comes from.
    attempts : Attempts
    entropy : callable

    Returns
    -------
    str or None
        The secret of the session that was opened. None: whoever has the session that
        was open before has proven to be its user.

    Raises
    ------
    NotSignedIn
    """
    secret, _, context = cookie.partition(".")
    flow = Flow(secret)
    sent = answer.get("state", "").encode("utf-8", "surrogatepass")
    if not secret or not hmac.compare_digest(flow.state.encode(), sent):
        _log.warning("oidc.denied", why="state")
        raise NotSignedIn("elsewhere")
    with store.write() as tx:
        link = rows.valid_link(tx, link_digest(secret), now)
        if link is None or not rows.use_link(tx, link.digest, now):
            _log.warning("oidc.denied", why="over")
            raise NotSignedIn("elsewhere")
    if "error" in answer:
        _log.warning("oidc.declined")
        raise NotSignedIn("declined")
    try:
        identity = provider.identify(flow, answer, now)
    except ProviderError as error:
        _log.warning("oidc.away", what=error.what)
        raise NotSignedIn("away") from None
    except TokenRefused as error:
        _log.warning("oidc.denied", why=error.claim)
        _deny(store, attempts, "unknown", network, now)
        raise NotSignedIn("invalid") from None
    match link.purpose:
        case "oidc":
            return _enter(store, identity, now, network, attempts, entropy)
        case "oidc-enrol":
            return _enrol(store, context, identity, now, entropy)
        case _:
            _prove(store, context, link, identity, now, network, attempts)
            return None


def _enter(
    store: Store,
    identity: ProvidedIdentity,
    now: int,
    network: str,
    attempts: Attempts,
    entropy: Entropy,
) -> str:
    with store.write() as tx:
        found = people.identified_user(tx, identity.digest)
        if found is not None and found.disabled_at is None:
            # one who signed in there hours ago proves nothing by it now
            proven = min(identity.signed_in_at or 0, now)
            return open_session(tx, now, entropy, found, proven_at=max(0, proven))
    _deny(store, attempts, found.name if found else "unknown", network, now)
    raise NotSignedIn("nobody")


def _enrol(
    store: Store, context: str, identity: ProvidedIdentity, now: int, entropy: Entropy
) -> str:
    link, _, name = context.partition(".")
    try:
        with store.write() as tx:
            found = use_enrolment(tx, link, name, now)
            if found is None:
                raise NotSignedIn("elsewhere")
            people.set_identity(tx, found.id, identity.digest)
            return open_session(tx, now, entropy, found)
    except Clash:
        raise NotSignedIn("taken") from None


def _prove(
    store: Store,
    session: str,
    link: SignInLink,
    identity: ProvidedIdentity,
    now: int,
    network: str,
    attempts: Attempts,
) -> None:
    with store.write() as tx:
        found = people.identified_user(tx, identity.digest)
        opened = rows.session(tx, session)
        same = (
            found is not None
            and found.disabled_at is None
            and opened is not None
            and found.id == link.user_id == opened.user_id
        )
        anew = _is_anew(identity, link, now)
        if same and anew:
            rows.prove_session(tx, session, now)
            return
    _deny(store, attempts, found.name if found else "unknown", network, now)
    raise NotSignedIn("stale" if same else "other")


def _is_anew(identity: ProvidedIdentity, link: SignInLink, now: int) -> bool:
    """Whether they signed in at the provider since it was asked for."""
    at, skew = identity.signed_in_at, LEEWAY * SECOND
    return at is not None and link.made_at - skew <= at <= now + skew


def _deny(store: Store, attempts: Attempts, actor: str, network: str, now: int) -> None:
    denied = Act(actor, "console", "console.sign-in", lambda: now)
    attempts.denials.note(store, denied, now, by=network)


def sign_identity_out(store: Store, provider: Provider, token: str, now: int) -> None:
    """End the sessions of whom the provider signed out (back-channel).

    Raises
    ------
    TokenRefused, ProviderError
    """
    identity = provider.signed_out(token, now)
    with store.write() as tx:
        found: AppUser | None = people.identified_user(tx, identity)
        if found is not None and rows.end_sessions(tx, now, user_id=found.id):
            rows.note(tx, now, found.name, "console.sign-out")
            _log.info("console.sign-out", actor=found.name)
