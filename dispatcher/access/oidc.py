"""An OpenID Connect provider: the way to it, and what it says on the way back.

Authorization code with PKCE (S256). State, nonce and verifier are all made of one secret
that lies in a cookie of the browser that begins, so that whoever did not begin there ends
nowhere. What the provider says counts only where its ID token is signed by a key of its
own with the one algorithm of the settings, and names this issuer, this client and this
nonce. Every call goes through the guarded client (:mod:`connectors.http.client`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from connectors.errors import ConnectorError
from connectors.http.client import Answered, Http
from dispatcher.core.config import OidcSettings
from dispatcher.core.errors import Invalid
from dispatcher.core.log import get_logger

SECOND: Final = 1_000_000
LEEWAY: Final = 60
"""Seconds that the clocks of the provider and of this machine may differ."""
CALL_SECONDS: Final = 10.0
MOST_BYTES: Final = 1 << 20
KEPT_SECONDS: Final = 3600
"""How long the provider's description and keys are used without another look."""
AGAIN_SECONDS: Final = 60
"""Seconds between two looks for keys: a token may name one that never was."""
LOGOUT_SECONDS: Final = 300
"""How old a message of sign-out may be."""

CALLBACK: Final = "/login/provider"
"""Path to which the provider sends browsers back, on the console's own address."""

_LOGOUT: Final = "http://schemas.openid.net/event/backchannel-logout"
_KINDS: Final = {"R": "RSA", "P": "RSA", "E": "EC"}
"""Kind of key by the first letter of an algorithm."""
MOST_CODE: Final = 4096

_log = get_logger("access")


class ProviderError(Exception):
    """The provider does not answer, or not as one does.

    Parameters
    ----------
    what : str
        For the operator, in one line; nothing of a token is in it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class TokenRefused(Exception):
    """What came back proves nobody's identity.

    Parameters
    ----------
    claim : str
        Which check it failed.
    """

    def __init__(self, claim: str) -> None:
        super().__init__(claim)
        self.claim = claim


@dataclass(frozen=True)
class Flow:
    """One way to the provider and back, by a secret of the browser's own."""

    secret: str = field(repr=False)

    @property
    def state(self) -> str:
        """What the provider gives back unchanged."""
        return self._made("state")

    @property
    def nonce(self) -> str:
        """What the ID token has to name."""
        return self._made("nonce")

    @property
    def verifier(self) -> str:
        """What redeems the code (PKCE)."""
        return self._made("verifier")

    def _made(self, use: str) -> str:
        digest = hmac.digest(self.secret.encode(), use.encode(), "sha256")
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class ProvidedIdentity:
    """Whom the provider named.

    Attributes
    ----------
    digest : str
        Of issuer and subject: all that the store keeps of them.
    signed_in_at : int or None
        When the person last gave the provider what opens their account.
    """

    digest: str
    signed_in_at: int | None


@dataclass(frozen=True)
class _Described:
    """The provider's own description, as far as it is used, and its keys."""

    authorization: str
    token: str
    keys: Any
    at: int
    names_itself: bool
    by_post: bool


class Provider:
    """The provider of the settings; threads may share it.

    Parameters
    ----------
    settings : OidcSettings
        With an issuer.
    console : str
        The console's own address, to which the provider sends browsers back.
    secret : str
        The client's; empty: a public client.
    http : Http, optional
        A guarded client of the settings where none is given.

    Raises
    ------
    Invalid
        The library that speaks the protocol is not installed.
    """

    def __init__(
        self,
        settings: OidcSettings,
        console: str,
        secret: str = "",
        *,
        http: Http | None = None,
    ) -> None:
        try:
            import authlib.oidc.core  # noqa: F401, PLC0415 (an extra)
        except ImportError:
            raise Invalid(
                "the settings name an OpenID provider, and authlib is not installed",
                why="it speaks the protocol, and comes with an extra",
                fix="pip install 'sparsi-dispatcher[oidc]', or leave [oidc] out",
            ) from None
        self.settings = settings
        self.redirect_uri = console.rstrip("/") + CALLBACK
        self._secret = secret
        self._http = http or Http(
            private=settings.allow_private, seconds=CALL_SECONDS, most=MOST_BYTES
        )
        self._lock = threading.Lock()
        self._known: _Described | None = None

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    # -- there ---------------------------------------------------------------------------

    def address(self, flow: Flow, now: int, *, afresh: bool = False) -> str:
        """Return where the browser goes to sign in.

        Parameters
        ----------
        flow : Flow
        now : int
        afresh : bool
            Whether the person has to give again what opens their account.

        Raises
        ------
        ProviderError
        """
        more: dict[str, str] = {"prompt": "login", "max_age": "0"} if afresh else {}
        if self.settings.acr:
            more["acr_values"] = " ".join(self.settings.acr)
        url, _ = self._client().create_authorization_url(
            self._description(now).authorization,
            state=flow.state,
            nonce=flow.nonce,
            code_verifier=flow.verifier,
            **more,
        )
        return str(url)

    # -- and back ------------------------------------------------------------------------

    def identify(
        self, flow: Flow, answer: Mapping[str, str], now: int
    ) -> ProvidedIdentity:
        """Redeem the code of an answer, and return whom it names.

        Parameters
        ----------
        flow : Flow
            Whose state the answer has.
        answer : Mapping of str to str
            Parameters of the address that the browser came to, unchecked.
        now : int

        Raises
        ------
        ProviderError
        TokenRefused
        """
        described = self._description(now)
        issuer = answer.get("iss")
        if issuer is None and described.names_itself:
            raise TokenRefused("iss")
        if issuer is not None and issuer != self.settings.issuer:  # mix-up (RFC 9207)
            raise TokenRefused("iss")
        token = self._redeem(described, flow, answer.get("code", ""))
        claims = self._claims(
            str(token.get("id_token", "")),
            now,
            nonce=flow.nonce,
            access_token=token.get("access_token"),
        )
        if self.settings.acr and claims.get("acr") not in self.settings.acr:
            raise TokenRefused("acr")
        at = claims.get("auth_time")
        return ProvidedIdentity(
            self._digest(claims["sub"]), at * SECOND if isinstance(at, int) else None
        )

    def signed_out(self, token: str, now: int) -> str:
        """Return whose sessions end, by the digest of their identity.

        Parameters
        ----------
        token : str
            A logout token (OpenID Connect Back-Channel Logout), unchecked.
        now : int

        Raises
        ------
        ProviderError
        TokenRefused
        """
        claims = self._claims(token, now)
        events = claims.get("events")
        if not isinstance(events, dict) or _LOGOUT not in events or "nonce" in claims:
            raise TokenRefused("events")
        if now // SECOND - claims["iat"] > LOGOUT_SECONDS:
            raise TokenRefused("iat")
        return self._digest(claims["sub"])

    def clock_difference(self, now: Callable[[], int]) -> int | None:
        """Look at the provider; seconds that its clock is before ours, None: unknown.

        Raises
        ------
        ProviderError
        """
        self._known = None
        before = now()
        self._description(before)
        said = self._called("GET", self._well_known()).headers.get("date", "")
        try:
            there = int(parsedate_to_datetime(said).timestamp())
        except (ValueError, TypeError, OverflowError):
            return None
        here = (before + now()) // (2 * SECOND)
        return there - here

    def _redeem(
        self, described: _Described, flow: Flow, code: str
    ) -> Mapping[str, Any]:
        from authlib.oauth2 import OAuth2Error  # noqa: PLC0415 (an extra)

        if not (0 < len(code) <= MOST_CODE and code.isascii() and code.isprintable()):
            raise TokenRefused("code")
        client = self._client(by_post=described.by_post)
        try:
            found = client.fetch_token(
                described.token, code=code, code_verifier=flow.verifier
            )
        except OAuth2Error as error:
            _log.warning("oidc.code-refused")
            if error.error in ("invalid_client", "unauthorized_client"):
                raise ProviderError(
                    "the provider does not take our client_id and secret"
                ) from None
            raise TokenRefused("code") from None
        return dict(found)

    def _claims(self, token: str, now: int, **wanted: str | None) -> Mapping[str, Any]:
        """Return the claims of a token that the provider signed for this client."""
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415 (an extra)
        from joserfc.errors import JoseError  # noqa: PLC0415 (an extra)

        signed = self._verified(token, now)
        found = CodeIDToken(
            signed.claims,
            signed.header,
            {
                "iss": {"essential": True, "value": self.settings.issuer},
                "aud": {"essential": True, "value": self.settings.client_id},
            },
            {"client_id": self.settings.client_id, **wanted},
        )
        try:
            found.validate(now // SECOND, LEEWAY)
        except JoseError as error:
            raise TokenRefused(getattr(error, "claim", None) or "claim") from None
        subject = found["sub"]
        if not (
            0 < len(subject) <= 255 and subject.isascii() and subject.isprintable()
        ):
            raise TokenRefused("sub")
        return dict(found)

    def _verified(self, token: str, now: int) -> Any:  # noqa: ANN401 - joserfc's Token
        """Check the signature; a key that is not known may be a new one."""
        from joserfc import jwt  # noqa: PLC0415 (an extra)
        from joserfc.errors import InvalidKeyIdError, JoseError  # noqa: PLC0415

        described = self._description(now)
        for last in (False, True):
            try:
                return jwt.decode(
                    token, described.keys, algorithms=[self.settings.algorithm]
                )
            except InvalidKeyIdError:
                if last:
                    break
                described = self._description(now, kept=AGAIN_SECONDS)
            except (JoseError, ValueError, TypeError):
                break
        raise TokenRefused("signature")

    def _digest(self, subject: str) -> str:
        text = f"oidc\0{self.settings.issuer}\0{subject}"
        return hashlib.sha256(text.encode()).hexdigest()

    # -- what the provider says of itself ------------------------------------------------

    def _well_known(self) -> str:
        return self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"

    def _description(self, now: int, *, kept: int = KEPT_SECONDS) -> _Described:
        with self._lock:
            known = self._known
            if known is None or not 0 <= now - known.at < kept * SECOND:
                known = self._known = self._described(now)
        return known

    def _described(self, now: int) -> _Described:
        from joserfc.errors import JoseError  # noqa: PLC0415 (an extra)
        from joserfc.jwk import KeySet  # noqa: PLC0415 (an extra)

        said = self._document(self._well_known())
        if said.get("issuer") != self.settings.issuer:
            raise ProviderError("the provider names another issuer than the settings")
        algorithm = self.settings.algorithm
        if algorithm not in _texts(said, "id_token_signing_alg_values_supported"):
            raise ProviderError(f"the provider does not sign by {algorithm}")
        methods = _texts(said, "code_challenge_methods_supported")
        if methods and "S256" not in methods:
            raise ProviderError("the provider has no PKCE by S256")
        places = [
            self._checked(said.get(name))
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        ]
        kind = _KINDS[algorithm[0]]
        listed = self._document(places[2]).get("keys")
        # keys of other kinds are none: no signature is checked by a shared secret
        of_kind: Any = [one for one in _mappings(listed) if one.get("kty") == kind]
        try:
            keys = KeySet.import_key_set({"keys": of_kind})
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderError(f"the provider shows no key for {algorithm}") from None
        taken = _texts(said, "token_endpoint_auth_methods_supported")
        return _Described(
            places[0],
            places[1],
            keys,
            now,
            said.get("authorization_response_iss_parameter_supported") is True,
            bool(taken) and "client_secret_basic" not in taken,
        )

    def _checked(self, url: object) -> str:
        """Return an address of the provider's that may be called."""
        try:
            return self._http.check(str(url or "")).geturl()
        except ConnectorError as error:
            raise ProviderError(f"the provider's addresses: {error.what}") from None

    def _document(self, url: str) -> Mapping[str, Any]:
        answered = self._called("GET", url)
        try:
            found = json.loads(answered.body) if answered.status == 200 else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProviderError(f"the provider answers {answered.status} without JSON")
        return found

    def _called(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answered:
        try:
            return self._http.call(method, url, headers=headers, body=body)
        except ConnectorError as error:
            _log.warning("oidc.unreachable", why=type(error).__name__)
            raise ProviderError(error.what) from None

    def _client(self, *, by_post: bool = False) -> Any:  # noqa: ANN401 - no types there
        from authlib.oauth2.client import OAuth2Client  # noqa: PLC0415 (an extra)

        client = OAuth2Client(
            _Session(self._called),
            self.settings.client_id,
            self._secret,
            token_endpoint_auth_method="client_secret_post"
            if by_post and self._secret
            else None,
            scope="openid",
            redirect_uri=self.redirect_uri,
            code_challenge_method="S256",
        )
        client.register_client_auth_method(("client_secret_basic", _basic))
        return client


def _basic(
    client: Any,  # noqa: ANN401 - authlib's
    _: str,
    uri: str,
    headers: dict[str, str],
    body: str,
) -> tuple[str, dict[str, str], str]:
    """Name the client as RFC 6749 has it: authlib leaves the encoding out."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return uri, headers, body


@dataclass(frozen=True)
class _Reply:
    """A response as authlib reads it."""

    status_code: int
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - what JSON can be
        """Its document."""
        return json.loads(self.body)

    def raise_for_status(self) -> None:
        """Say that the provider did not answer as one does."""
        raise ProviderError(f"the provider answers {self.status_code} to a code")


class _Session:
    """What authlib sends by: the guarded client."""

    def __init__(self, called: Callable[..., Answered]) -> None:
        self._called = called

    def post(
        self,
        url: str,
        *,
        data: Mapping[str, str],
        headers: Mapping[str, str],
        auth: Any,  # noqa: ANN401 - authlib's
    ) -> _Reply:
        """Send a form."""
        prepared = auth.prepare("POST", url, dict(headers), urlencode(data))
        url, sent, body = prepared
        answered = self._called("POST", url, sent, body.encode())
        return _Reply(answered.status, answered.body)


def _texts(document: Mapping[str, Any], name: str) -> list[str]:
    found = document.get(name)
    return (
        [one for one in found if isinstance(one, str)]
        if isinstance(found, list)
        else []
    )


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return (
        [one for one in found if isinstance(one, dict)]
        if isinstance(found, list)
        else []
    )
