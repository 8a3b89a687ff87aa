"""An OpenID provider on this machine, over real HTTP, that signs what a test says.

It is honest where nothing is changed: codes work once, for the client, the address and the
verifier (PKCE) that they were made for.
"""

import base64
import hashlib
from functools import cache
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.routing import Route

from dispatcher.access.oidc import Provider
from dispatcher.core.config import OidcSettings
from tests.e2e.browsing import Served

CLIENT, SECRET = "dispatcher", "a secret/with +signs"
SECOND = 1_000_000


@cache
def key(name: str) -> RSAKey:
    """A key for signatures, made once."""
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})


class OpenidProvider(Served):
    """The server.

    ``claims`` are put over those of each ID token (None: left out), ``header`` over its
    header, ``description`` over what it says of itself. ``sign`` makes a token. Whoever
    signs in did so ``ago`` seconds before.
    """

    def __init__(self, clock, host: str = "127.0.0.1") -> None:
        self.clock = clock
        self.be_honest()
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._describe),
                Route("/keys", self._show_keys),
                Route("/authorize", self._ask, methods=["GET", "POST"]),
                Route("/token", self._redeem, methods=["POST"]),
            ]
        )
        super().__init__(app)
        self.issuer = f"http://{host}:{self.base.rpartition(':')[2]}"

    def be_honest(self) -> None:
        """Take back all that was changed."""
        self.claims: dict[str, object] = {}
        self.header: dict[str, object] = {}
        self.description: dict[str, object] = {}
        self.key, self.keys = key("one"), [key("one")]
        self.sign, self.ago = self.signed, 0
        self.answers = True

    def settings(self, **more) -> OidcSettings:
        """What the dispatcher's settings say of it."""
        host = urlsplit(self.issuer).hostname
        given = {"name": "Example ID", "allow_private": [host, "127.0.0.1"]}
        return OidcSettings(issuer=self.issuer, client_id=CLIENT, **{**given, **more})

    def provider(self, console: str = "http://127.0.0.1:8420", **more) -> Provider:
        """What the dispatcher signs in by."""
        return Provider(self.settings(**more), console, SECRET)

    def signed(self, claims: dict, header: dict) -> str:
        """Sign a token as it should be."""
        return jwt.encode(header, claims, self.key, algorithms=[header["alg"]])

    def answer(self, address: str, subject: str) -> dict[str, str]:
        """Sign somebody in; what the browser is sent back with."""
        asked = dict(parse_qsl(urlsplit(address).query))
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked | {"sub": subject}
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    def token_of(self, subject: str, **more) -> str:
        """Make a token of somebody, with the claims of every token."""
        now = self.clock() // SECOND
        claims = {
            "iss": self.issuer,
            "sub": subject,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            **more,
            **self.claims,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid, **self.header}
        return self.sign(kept, header)

    async def _describe(self, _) -> JSONResponse:
        self.asked.append("description")
        if not self.answers:
            return JSONResponse({"error": "down"}, 502)
        issuer = self.issuer
        found = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse(found | self.description)

    async def _show_keys(self, _) -> JSONResponse:
        self.asked.append("keys")
        return JSONResponse({"keys": [one.as_dict(private=False) for one in self.keys]})

    async def _ask(self, request) -> HTMLResponse | RedirectResponse:
        """The page of sign-in, for a browser."""
        if request.method == "GET":
            return HTMLResponse(
                "<!doctype html><title>Example ID</title><form method=post>"
                "<label>User <input name=user></label><button>Enter</button></form>"
            )
        user = parse_qs((await request.body()).decode())["user"][0]
        back = urlencode(self.answer(str(request.url), user))
        return RedirectResponse(f"{request.query_params['redirect_uri']}?{back}", 303)

    async def _redeem(self, request) -> JSONResponse:
        form = dict(parse_qsl((await request.body()).decode()))
        kind, _, pair = request.headers.get("authorization", "").partition(" ")
        client = [
            unquote_plus(one)
            for one in base64.b64decode(pair).decode().partition(":")[::2]
        ]
        if kind != "Basic" or client != [CLIENT, SECRET]:
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self.codes.pop(form["code"], None)
        verifier = form.get("code_verifier", "").encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest())
        if (
            asked is None
            or form["redirect_uri"] != asked["redirect_uri"]
            or digest.rstrip(b"=").decode() != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        at = self.clock() // SECOND - self.ago
        token = self.token_of(asked["sub"], nonce=asked["nonce"], auth_time=at)
        return JSONResponse(
            {"access_token": "unused", "token_type": "Bearer", "id_token": token}
        )
