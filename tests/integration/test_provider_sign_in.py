"""Operators sign in by an OpenID provider, and nobody else does."""

import base64
import hmac
import html
import json
import os
import re

import pytest
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.access import users
from dispatcher.core.config import OidcSettings
from dispatcher.core.rate_limit import Rate
from dispatcher.operations import doctor
from dispatcher.operations.doctor import DoctorPart
from dispatcher.operations.workspace import Workspace
from dispatcher.store import audit_log, people
from dispatcher.surfaces.console import ConsoleSettings
from tests.integration.console_house import make_console
from tests.integration.openid_provider import CLIENT, OpenidProvider, key
from tests.integration.test_console import PASSWORDS, SAME

HOST = "http://127.0.0.1:8420"
CROSS = {"sec-fetch-site": "cross-site"}


@pytest.fixture(scope="module")
def server():
    made = OpenidProvider(lambda: 0)
    yield made
    made.stop()


@pytest.fixture
def idp(server, clock):
    server.clock = clock
    server.be_honest()
    server.providers = []
    yield server
    for provider in server.providers:
        provider.close()


class House:
    """A console whose users sign in by a provider."""

    def __init__(self, store, clock, idp, *, url="", **settings):
        self.store, self.clock, self.idp = store, clock, idp
        self.base = url or HOST
        provider = idp.provider(self.base, **settings)
        idp.providers.append(provider)
        self.app = make_console(
            store,
            clock,
            settings=ConsoleSettings(
                url=url, behind_proxy=bool(url), sign_in=Rate(6000, 1000), stale=0
            ),
            passwords=PASSWORDS,
            provider=provider,
        )

    def browser(self, address="127.0.0.1"):
        return TestClient(
            self.app, base_url=self.base, client=(address, 5), headers=SAME
        )

    def link(self, name, *roles):
        return users.add_user(self.store, name, roles, self.clock(), os.urandom)

    def add(self, name, *roles, subject=None):
        """Add a user who has enrolled by the provider; the browser that did."""
        browser = self.browser()
        page = self.through(
            browser, subject or f"{name}@idp", code=self.link(name, *roles)
        )
        assert page_of(page) == "onward", page.text
        return browser

    def address(self, browser, path="/login/provider", **form):
        """Where a page of ours leads: to the provider."""
        page = browser.post(path, data=form)
        assert page.status_code == 200, page.text
        return html.unescape(re.search(r'content="0; url=([^"]+)"', page.text)[1])

    def back(self, browser, answer, headers=CROSS):
        return browser.get("/login/provider", params=answer, headers=headers)

    def through(self, browser, subject, path="/login/provider", **form):
        """Go to the provider, sign in there, and come back."""
        address = self.address(browser, path, **form)
        return self.back(browser, self.idp.answer(address, subject))

    def sessions(self):
        return [
            name
            for _, name, _ in access.sessions.list_sessions(self.store, self.clock())
        ]

    def denied(self):
        with self.store.read() as tx:
            lines = audit_log.newest(tx, operation="console.sign-in")
        return [one.actor for one in lines if one.outcome == "denied"]


@pytest.fixture
def house(store, clock, idp):
    return House(store, clock, idp)


@pytest.fixture
def alone(sqlite_store, clock, idp):
    """A house where it does not matter which database there is."""
    return House(sqlite_store, clock, idp)


def page_of(response):
    return re.search(r'data-page="([a-z]+)"', response.text)[1]


def is_in(browser):
    return browser.get("/", follow_redirects=False).status_code != 401


# -- signing in ------------------------------------------------------------------------


def test_a_user_enrols_by_the_provider_once_and_signs_in_by_it_from_then_on(house):
    browser = house.add("ann", "operator")
    assert is_in(browser)
    again = house.browser()
    assert "Sign in with Example ID" in again.get("/login").text
    page = house.through(again, "ann@idp")
    assert (page.status_code, page_of(page)) == (200, "onward")
    assert 'content="0; url=/"' in page.text
    assert is_in(again)
    assert house.sessions() == ["ann", "ann"]
    with house.store.read() as tx:
        ann = people.user_named(tx, "ann")
    assert ann.password is None
    assert ann.totp is None
    assert "idp" not in ann.identity, "the subject itself is not kept"


def test_safety_3_the_way_there_has_pkce_state_and_nonce_of_this_browser(alone):
    ways = []
    for _ in range(2):
        address = alone.address(alone.browser())
        ways.append(dict(re.findall(r"[?&]([^=]+)=([^&]+)", address)))
    for way in ways:
        assert way["code_challenge_method"] == "S256"
        assert way["response_type"] == "code"
        assert len(way["state"]) == len(way["nonce"]) == 43  # 256 bits
        assert way["redirect_uri"] == "http%3A%2F%2F127.0.0.1%3A8420%2Flogin%2Fprovider"
    for name in ("state", "nonce", "code_challenge"):
        assert ways[0][name] != ways[1][name]


def test_the_first_admin_enrols_by_the_provider_on_this_machine(house):
    link = users.make_first_admin_link(house.store, house.clock(), os.urandom)
    bad = house.browser().post("/login/provider", data={"code": link, "name": "a b"})
    assert bad.status_code == 422
    browser = house.browser()
    offered = browser.post("/enrol", data={"code": link})
    assert "Sign in with Example ID from now on" in offered.text
    page = house.through(browser, "root@idp", code=link, name="ann")
    assert page_of(page) == "onward"
    with house.store.read() as tx:
        assert people.user_named(tx, "ann").roles == "admin"
    used = house.browser().post("/login/provider", data={"code": link, "name": "bob"})
    assert (used.status_code, page_of(used)) == (403, "enrol")


def test_safety_1_the_first_admin_enrols_from_nowhere_else(store, clock, idp):
    house = House(store, clock, idp, url="https://ops.example.org")
    link = users.make_first_admin_link(store, clock(), os.urandom)
    away = house.browser("203.0.113.9")
    page = away.post("/login/provider", data={"code": link, "name": "ann"})
    assert page.status_code == 403


def test_one_account_at_the_provider_is_one_user(house):
    house.add("ann", "operator", subject="one@idp")
    link = house.link("bob", "viewer")
    page = house.through(house.browser(), "one@idp", code=link)
    assert page.status_code == 409
    assert "somebody" in page.text
    page = house.through(house.browser(), "two@idp", code=link)
    assert page_of(page) == "onward", "the link was not used up"


def test_a_reset_takes_the_account_at_the_provider_away(alone):
    browser = alone.add("ann", "operator")
    users.reset_user(alone.store, "ann", alone.clock(), os.urandom)
    assert not is_in(browser)
    assert alone.through(alone.browser(), "ann@idp").status_code == 403


# -- nobody else -----------------------------------------------------------------------


def unsigned(claims, header):
    parts = [json.dumps(part).encode() for part in ({**header, "alg": "none"}, claims)]
    return ".".join(
        [base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts] + [""]
    )


def by_public_key(claims, header):
    """HS256, with what everybody knows as the secret."""
    parts = [json.dumps(part).encode() for part in ({**header, "alg": "HS256"}, claims)]
    body = b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in parts)
    mac = hmac.digest(key("one").as_pem(private=False), body, "sha256")
    return (body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def by_own_key(claims, header):
    """Signed by a key that the token itself brings."""
    own = key("own")
    brought = {**header, "kid": "one", "jwk": own.as_dict(private=False)}
    from joserfc import jwt

    return jwt.encode(brought, claims, own, algorithms=["RS256"])


NOW = 1_800_000_000
WRONG_CLAIMS = {
    "another issuer": {"iss": "https://evil.example"},
    "another audience": {"aud": "another"},
    "an audience beside us, for another party": {"aud": [CLIENT, "x"], "azp": "x"},
    "an audience beside us, for nobody": {"aud": [CLIENT, "x"]},
    "no nonce": {"nonce": None},
    "another nonce": {"nonce": "x" * 43},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject that is a list": {"sub": ["ann@idp"]},
    "a subject in two lines": {"sub": "ann@idp\n"},
    "no end": {"exp": None},
    "long over": {"exp": 1},
    "of the future": {"iat": 2**40, "exp": 2**41},
    "another access token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
}
WRONG_SIGNATURES = {"alg none": unsigned, "HS256": by_public_key, "own key": by_own_key}


def attack(house, subject="ann@idp"):
    """Come back to the console in a browser of nobody; it gets no session."""
    browser = house.browser()
    page = house.through(browser, subject)
    assert page.status_code == 403, page.text
    assert not is_in(browser)
    assert "console" not in page.cookies
    return page


def test_safety_3_a_token_that_says_anything_else_opens_nothing(alone):
    alone.add("ann", "operator")
    for what, claims in WRONG_CLAIMS.items():
        alone.idp.claims = claims
        page = attack(alone)
        assert "does not prove who you are" in page.text, what
    assert set(alone.denied()) == {"unknown"}
    alone.idp.be_honest()
    assert page_of(alone.through(alone.browser(), "ann@idp")) == "onward"


def test_safety_3_a_token_that_the_provider_did_not_sign_opens_nothing(alone):
    alone.add("ann", "operator")
    for what, sign in WRONG_SIGNATURES.items():
        alone.idp.sign = sign
        assert "does not prove who you are" in attack(alone).text, what
    alone.idp.be_honest()
    alone.idp.key = key("two")  # signs with a key that it does not show
    attack(alone)
    alone.idp.header = {"kid": "one"}  # or says that it is another
    attack(alone)
    for bad in ("", "a.b", "x" * 5000, "ä.ö.ü"):
        alone.idp.sign = lambda *_, bad=bad: bad
        attack(alone)


def test_safety_3_a_clock_a_little_off_does_no_harm(alone):
    alone.add("ann", "operator")
    now = alone.clock() // 1_000_000
    alone.idp.claims = {"iat": now + 50, "exp": now + 350}
    assert page_of(alone.through(alone.browser(), "ann@idp")) == "onward"
    alone.idp.claims = {"iat": now - 400, "exp": now - 50}
    assert page_of(alone.through(alone.browser(), "ann@idp")) == "onward"
    alone.idp.claims = {"iat": now - 400, "exp": now - 61}
    attack(alone)


def test_safety_3_what_did_not_begin_in_this_browser_ends_nowhere(alone):
    """Cross-site login (CSRF): an attacker's code is put into the victim's browser."""
    alone.add("eve", "operator")
    eve, victim = alone.browser(), alone.browser()
    answer = alone.idp.answer(alone.address(eve), "eve@idp")
    assert "did not begin in this browser" in alone.back(victim, answer).text
    alone.address(victim)  # a way of its own
    assert alone.back(victim, answer).status_code == 403
    assert not is_in(victim)
    mine = alone.idp.answer(alone.address(victim), "eve@idp")
    for state in ("", mine["state"] + "x", answer["state"], "é"):
        assert alone.back(victim, {**mine, "state": state}).status_code == 403
    assert not is_in(victim)
    code = alone.idp.answer(alone.address(eve), "eve@idp")["code"]
    stolen = alone.idp.answer(alone.address(victim), "victim@idp") | {"code": code}
    assert alone.back(victim, stolen).status_code == 403, "PKCE: a code of another way"
    assert not is_in(victim)


def test_safety_3_a_way_works_once_and_for_ten_minutes(alone):
    alone.add("ann", "operator")
    browser = alone.browser()
    answer = alone.idp.answer(alone.address(browser), "ann@idp")
    cookies = dict(browser.cookies)
    alone.idp.codes |= {"again": alone.idp.codes[answer["code"]]}
    assert page_of(alone.back(browser, answer)) == "onward"
    thief = alone.browser()
    thief.cookies.update(cookies)  # of before: the provider takes the code again
    assert alone.back(thief, {**answer, "code": "again"}).status_code == 403
    late = alone.idp.answer(alone.address(browser), "ann@idp")
    alone.clock.advance(601)
    assert "ten minutes" in alone.back(browser, late).text


def test_safety_3_the_answer_of_another_provider_is_not_taken(alone):
    """Mix-up (RFC 9207)."""
    alone.add("ann", "operator")
    for wrong in ({"iss": "https://evil.example"}, {"iss": None}):
        browser = alone.browser()
        answer = alone.idp.answer(alone.address(browser), "ann@idp") | wrong
        kept = {name: value for name, value in answer.items() if value is not None}
        assert alone.back(browser, kept).status_code == 403
        assert answer["code"] in alone.idp.codes, "the code was sent nowhere"
        assert not is_in(browser)


def test_whoever_is_not_registered_or_disabled_does_not_come_in(alone):
    ann = alone.add("ann", "operator")
    alone.idp.claims = {"email": "ann@example.org", "email_verified": True}
    page = attack(alone, "ann@example.org")
    assert "An admin adds you" in page.text, "an e-mail address is nobody's name"
    alone.idp.be_honest()
    alone.clock.advance(60)  # of one network one line a minute
    users.disable_user(alone.store, "ann", alone.clock())
    assert not is_in(ann)
    attack(alone)
    assert alone.denied() == ["ann", "unknown"]


def test_what_the_provider_refused_is_said_without_its_words(alone):
    browser = alone.browser()
    address = alone.address(browser)
    state = alone.idp.answer(address, "x")["state"]
    given = {
        "error": "access_denied",
        "error_description": "<script>evil</script>",
        "state": state,
    }
    page = alone.back(browser, given)
    assert page.status_code == 403
    assert "Example ID signed nobody in" in page.text
    assert "evil" not in page.text


def test_safety_9_no_other_page_begins_it_and_no_host_name_bends_it(alone):
    for headers in (CROSS, {"sec-fetch-site": "same-site"}):
        assert (
            alone.browser().post("/login/provider", headers=headers).status_code == 403
        )
    evil = alone.browser().post("/login/provider", headers={"host": "evil.example"})
    assert evil.status_code == 421
    other = alone.browser().post(
        "/login/provider?next=https://evil.example",
        headers={"host": "localhost:8420", "x-forwarded-host": "evil.example"},
    )
    assert "redirect_uri=http%3A%2F%2F127.0.0.1%3A8420%2Flogin" in other.text
    assert "evil" not in other.text
    there = alone.browser().get("/login/provider", params={"state": "x"})
    assert there.status_code == 403


def test_safety_10_the_cookie_of_the_way_is_for_this_host_and_no_script(
    sqlite_store, clock, idp
):
    house = House(sqlite_store, clock, idp, url="https://ops.example.org")
    given = house.browser().post("/login/provider").headers["set-cookie"]
    assert given.startswith("__Host-console-way=")
    for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert word in given
    assert "Domain" not in given


def test_safety_29_no_secret_and_no_token_reaches_the_log(alone, caplog, capfd):
    alone.add("ann", "operator")
    alone.idp.claims = {"aud": "another"}
    browser = alone.browser()
    answer = alone.idp.answer(alone.address(browser), "canary@idp")
    alone.back(browser, answer)
    seen = caplog.text + "".join(capfd.readouterr())
    for secret in (answer["code"], answer["state"], "canary@idp", "a secret"):
        assert secret not in seen


# -- the provider itself ---------------------------------------------------------------


def test_a_provider_that_is_away_is_said_and_nothing_is_lost(alone):
    alone.add("ann", "operator")
    house = House(alone.store, alone.clock, alone.idp)
    alone.idp.answers = False
    page = house.browser().post("/login/provider")
    assert page.status_code == 503
    assert page.headers["retry-after"] == "30"
    assert "Example ID does not answer" in html.unescape(page.text)
    assert "dispatcher console link" in page.text
    alone.idp.answers = True
    assert page_of(house.through(house.browser(), "ann@idp")) == "onward"


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"id_token_signing_alg_values_supported": ["ES256"]},
        {"code_challenge_methods_supported": ["plain"]},
    ],
)
def test_a_description_that_leads_elsewhere_is_not_used(
    sqlite_store, clock, idp, wrong
):
    idp.description = wrong
    house = House(sqlite_store, clock, idp)
    assert house.browser().post("/login/provider").status_code == 503


def test_new_keys_are_found_and_asked_for_once_a_minute(alone):
    alone.add("ann", "operator")
    alone.idp.key, alone.idp.keys = key("two"), [key("one"), key("two")]
    attack(alone)  # it was looked at within the minute
    alone.clock.advance(60)
    alone.idp.asked.clear()
    assert page_of(alone.through(alone.browser(), "ann@idp")) == "onward"
    alone.idp.header = {"kid": "made up"}
    for _ in range(3):
        attack(alone)
    assert alone.idp.asked.count("keys") == 1


def test_a_wrong_client_secret_is_the_operators_to_mend(alone, monkeypatch):
    alone.add("ann", "operator")
    monkeypatch.setattr("tests.integration.openid_provider.SECRET", "another")
    browser = alone.browser()
    page = alone.through(browser, "ann@idp")
    assert page.status_code == 503


def test_a_level_of_sign_in_can_be_required(sqlite_store, clock, idp):
    house = House(sqlite_store, clock, idp, acr=("phr", "phrh"))
    browser = house.browser()
    link = house.link("ann", "operator")
    address = house.address(browser, code=link)
    assert "acr_values=phr+phrh" in address
    page = house.back(browser, idp.answer(address, "ann@idp"))
    assert page.status_code == 403
    idp.claims = {"acr": "phrh"}
    assert page_of(house.through(browser, "ann@idp", code=link)) == "onward"


# -- once more -------------------------------------------------------------------------


def asks_again(house, browser):
    secret = browser.cookies["console"]
    found = access.authenticate_session(house.store, secret, house.clock())
    assert found.by_provider
    return found.must_prove("workers.merge", house.clock())


AGAIN = "/login/provider/again"


def test_safety_4_what_asks_who_you_are_asks_the_provider(house):
    browser = house.add("ann", "policy-admin")
    assert not asks_again(house, browser), "just signed in"
    house.clock.advance(300)
    assert asks_again(house, browser)
    address = house.address(browser, AGAIN)
    assert "prompt=login" in address
    assert "max_age=0" in address
    page = house.back(browser, house.idp.answer(address, "ann@idp"))
    assert "signed in once more" in page.text
    assert not asks_again(house, browser)
    house.clock.advance(300)
    assert asks_again(house, browser)
    assert house.sessions() == ["ann"], "no session more"


def test_safety_4_who_is_still_signed_in_there_proves_nothing_by_it(alone):
    alone.add("bob", "policy-admin")
    browser = alone.add("ann", "policy-admin")
    alone.clock.advance(600)
    alone.idp.ago = 300
    assert "did not sign in anew" in alone.through(browser, "ann@idp", AGAIN).text
    alone.idp.ago, alone.idp.claims = 0, {"auth_time": None}
    assert alone.through(browser, "ann@idp", AGAIN).status_code == 403
    alone.idp.claims = {"auth_time": 2**40}
    assert alone.through(browser, "ann@idp", AGAIN).status_code == 403
    alone.idp.be_honest()
    other = alone.through(browser, "bob@idp", AGAIN)
    assert "somebody else" in other.text
    assert asks_again(alone, browser)
    late = alone.browser()
    alone.idp.ago = 3600
    alone.through(late, "ann@idp")
    assert is_in(late)
    assert asks_again(alone, late), "signed in there an hour ago"


def test_safety_9_no_other_page_asks_to_sign_in_once_more(alone):
    browser = alone.add("ann", "policy-admin")
    assert browser.post(AGAIN, headers=CROSS).status_code == 403
    assert alone.browser().post(AGAIN).status_code == 401


# -- without passwords; signed out -----------------------------------------------------


def test_passwords_can_be_switched_off(sqlite_store, clock, idp):
    house = House(sqlite_store, clock, idp, passwords=False)
    browser = house.browser()
    page = browser.get("/login").text
    assert 'name="password"' not in page
    assert "Sign in with Example ID" in page
    assert "dispatcher console link" in page, "the way in when the provider is away"
    given = {"name": "ann", "password": "x", "totp": "000000"}
    assert browser.post("/login", data=given).status_code == 403
    link = house.link("ann", "operator")
    offered = browser.post("/enrol", data={"code": link, "password": "x" * 20})
    assert page_of(offered) == "choose"
    assert 'name="password"' not in offered.text
    assert page_of(house.through(browser, "ann@idp", code=link)) == "onward"


LOGOUT = "/login/provider/logout"
SAYS_SO = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}


def test_who_is_signed_out_at_the_provider_is_signed_out_here(house):
    ann, bob = house.add("ann", "operator"), house.add("bob", "operator")
    token = house.idp.token_of("ann@idp", **SAYS_SO)
    done = TestClient(house.app, base_url=HOST, client=("127.0.0.1", 5)).post(
        LOGOUT, data={"logout_token": token}
    )
    assert done.status_code == 200
    assert not is_in(ann)
    assert is_in(bob)


def test_nothing_else_signs_anybody_out(alone):
    ann, idp = alone.add("ann", "operator"), alone.idp
    browser = alone.browser()
    wrong = [
        idp.token_of("ann@idp"),  # an ID token
        idp.token_of("ann@idp", nonce="x", **SAYS_SO),
        idp.token_of("ann@idp", events=["x"]),
        idp.token_of("ann@idp", aud="another", **SAYS_SO),
        idp.token_of("ann@idp", iat=alone.clock() // 1_000_000 - 301, **SAYS_SO),
        unsigned({"sub": "ann@idp"}, {}),
        "",
    ]
    for token in wrong:
        page = browser.post(LOGOUT, data={"logout_token": token})
        assert page.status_code == 400
    assert is_in(ann)


# -- settings and doctor ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"passwords": False}, "names nobody else"),
        ({"issuer": "http://id.example.org", "client_id": "x"}, "no https"),
        ({"issuer": "https://me@id.example.org", "client_id": "x"}, "no https"),
        ({"issuer": "https://id.example.org"}, "client_id is missing"),
        (
            {
                "issuer": "https://id.example.org",
                "client_id": "x",
                "algorithm": "HS256",
            },
            "RS256",
        ),
    ],
)
def test_settings_that_would_open_a_door_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        OidcSettings(**settings)


def test_doctor_looks_at_the_provider(tmp_path, clock, idp, run):
    assert run("init").code == 0
    file = tmp_path / "dispatcher.toml"
    before = file.read_text()
    settings = (
        f'[oidc]\nissuer = "{idp.issuer}"\nclient_id = "x"\n'
        'client_secret_file = "oidc.secret"\nallow_private = ["127.0.0.1"]\n'
    )
    file.write_text(before + settings)

    def look():
        return [
            (one.severity.value, one.text)
            for one in doctor.diagnose(Workspace(tmp_path), [DoctorPart.PROVIDER])
        ]

    ((severity, text),) = look()
    assert severity == "FAIL"
    assert "E005" in text or "(E" in text
    secret = tmp_path / "oidc.secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    assert look() == [("ok", "the OpenID provider answers")]
    idp.answers = False
    ((severity, text),) = look()
    assert (severity, text.partition(":")[0]) == (
        "FAIL",
        "the OpenID provider cannot be used",
    )
    file.write_text(before)
    assert look() == []


def test_doctor_says_that_the_clocks_differ(tmp_path, clock, idp, run):
    assert run("init").code == 0
    file = tmp_path / "dispatcher.toml"
    file.write_text(
        file.read_text() + f'[oidc]\nissuer = "{idp.issuer}"\nclient_id = "x"\n'
        'allow_private = ["127.0.0.1"]\n'
    )
    found = doctor.diagnose(Workspace(tmp_path, clock=clock), [DoctorPart.PROVIDER])
    assert "s off ours" in found[0].text
