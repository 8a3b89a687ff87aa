"""The operators' console over HTTP: who gets in, what is shown, and what never is."""

import asyncio
import html
import os
import re

import pytest
from httpx2 import ASGITransport, AsyncClient
from pwdlib.hashers.argon2 import Argon2Hasher
from pyotp import TOTP
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.access import users
from dispatcher.core.errors import StoreLocked
from dispatcher.core.rate_limit import Rate
from dispatcher.ledger.chains import seal
from dispatcher.model import TaskAnswer
from dispatcher.operations.sampling import Sampler
from dispatcher.store import answers, lease, settings, tasks
from dispatcher.surfaces.console import ConsoleSettings
from dispatcher.surfaces.console.screens import SCREENS
from tests import builders, edits
from tests.integration.console_house import SAME, make_console
from tests.integration.ledger_cases import Case, policy

PLACES = {
    "/workers/{connector}/{name:path}": "/workers/x/ann",
    "/operations/{operation}": None,  # of one that was begun
    "/operations/{operation}/file": None,
    "/runs/{run}": "/runs/default",
    "/plans/{plan:int}": None,  # of one that was made
    "/plans/compare": None,
    "/policy/{version:int}": "/policy/1",
    "/rules/{rule}": "/rules/who-what",
    "/rules/{rule}/{unit}": None,  # of a set that somebody saw
    "/records/{record}": None,  # its name is made from a key of the store
    "/audit/people/{subject}": None,  # its name is made from a key of the store
    "/settings/webhooks/{webhook:int}": None,  # of one that was added
}
"""Where the screens of one thing are shown."""
PAGES = [
    path for one in SCREENS if (path := PLACES.get(one.path, one.path)) is not None
]
PASSWORDS = access.Passwords(Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1))
CANARIES = ("Ada-Canary", "gout-canary", "key-canary", "person-canary")
EVIL = "<script>alert(1)</script>{{7*7}}\u202e\"'&"

RULES = """
[property.who-what]
of = ["a", "b"]

[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""


@pytest.fixture
def case(store):
    """A store with values that no page may ever show."""
    made = Case(store)
    made.apply(policy(RULES))
    made.add("x/ann", "x/bob", f"x/{EVIL}")
    made.load(
        *((f"key-canary-{n}", "person-canary", n, "abcd") for n in range(3)),
        shown=b"Ada-Canary gout-canary",
        cells=["Ada-Canary"],
    )
    made.book(
        ("x/ann", "key-canary-0.a key-canary-0.c key-canary-1.d"),
        (f"x/{EVIL}", "key-canary-1.a"),
    )
    entry = made.entries["key-canary-0.a"]
    with store.write() as tx:
        for task in tasks.open_tasks(tx):
            tasks.save_draft(tx, task.id, b"gout-canary")
        mine = TaskAnswer(task_id=1, entry_id=entry, account_id=1, raw=b"Ada-Canary",
                      valid=1, at=1, counted=1)  # fmt: skip
        answers.put_answers(tx, [mine])
    builders.save_results(store, [entry], value=b"Ada-Canary")
    with store.write() as tx:
        seal(tx, at=made.tick())
    return made


@pytest.fixture
def make_app(case, clock):
    clock.now = case.now

    def make(**settings):
        return make_console(
            case.store,
            clock,
            settings=ConsoleSettings(stale=0, **settings),
            passwords=PASSWORDS,
        )

    return make


@pytest.fixture
def app(make_app):
    return make_app()


def browser(app, *, base="http://127.0.0.1:8420", address="127.0.0.1") -> TestClient:
    return TestClient(
        app, base_url=base, follow_redirects=True, client=(address, 5), headers=SAME
    )


def signed_in(app, case, clock, **options) -> TestClient:
    client = browser(app, **options)
    link = access.make_link(case.store, clock())
    page = client.post("/login", data={"code": link})
    assert page.status_code == 200, page.text
    assert 'data-page="overview"' in page.text
    return client


@pytest.fixture
def client(app, case, clock):
    return signed_in(app, case, clock)


def page_of(response) -> str:
    return re.search(r'data-page="(\w+)"', response.text)[1]


def text_of(response) -> str:
    """What a person reads of the page."""
    body = re.sub(r"<(script|style).*?</\1>", " ", response.text, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]+>", " ", body))
    return re.sub(r"\s+", " ", words)


# -- getting in ------------------------------------------------------------------------


def test_those_who_wait_for_a_password_to_be_checked_take_no_thread(app, monkeypatch):
    inside, most = [], []

    async def sign_in_often():
        loop = asyncio.get_running_loop()

        def sign_in(*_, **__):
            inside.append(1)
            for _ in range(100):  # the others come as far as they get
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            most.append(len(inside))
            inside.pop()

        monkeypatch.setattr(access, "sign_in", sign_in)
        given = {"name": "ann", "password": PASSWORD, "totp": "1"}
        here = ASGITransport(app=app, client=("127.0.0.1", 5))
        async with AsyncClient(
            transport=here, base_url="http://127.0.0.1:8420", headers=SAME
        ) as client:
            sent = [client.post("/login", data=given) for _ in range(6)]
            return [one.status_code for one in await asyncio.gather(*sent)]

    assert asyncio.run(sign_in_often()) == [403] * 6
    assert len(most) == 6
    assert max(most) <= users.AT_ONCE


def test_a_link_opens_the_console_once(app, case, clock):
    link = access.sign_in_link(
        "http://127.0.0.1:8420", access.make_link(case.store, clock())
    )
    assert re.fullmatch(r"http://127.0.0.1:8420/login#k=[\w-]{43}", link)
    first, second = browser(app), browser(app)
    assert page_of(first.post("/login", data={"code": link})) == "overview"
    refused = second.post("/login", data={"code": link})
    assert refused.status_code == 403
    assert page_of(refused) == "login"
    assert page_of(second.get("/")) == "login"


def test_safety_5_who_is_not_signed_in_gets_the_sign_in_page_everywhere(app):
    others = ("/nowhere", "/records?after=9", "/api/v1", "/live", "/do/pause")
    for path in (*PAGES, *others):
        response = browser(app).get(path)
        assert response.status_code == 401, path
        assert page_of(response) == "login", path
        assert "www-authenticate" in response.headers, path
        assert response.text.count("<form") == 2, path  # password, link
        assert "x/ann" not in response.text, path


def test_safety_5_the_walk_knows_every_route(app):
    others = {"/login", "/enrol", "/logout", "/static/{name}", "/robots.txt", "/live"}
    others.add("/answers/crops/{token}")  # of images that a page has just revealed
    walked = {*(one.path for one in SCREENS), *others, "/do/{name}"}
    assert {route.path for route in app._app.routes} == {*walked, "/{rest:path}"}


def test_a_page_that_asks_for_itself_unsigned_gets_no_page(app):
    response = browser(app).get("/", headers={"x-refresh": "1"})
    assert (response.status_code, response.text) == (401, "sign in again\n")


@pytest.mark.parametrize("inside", [True, False])
def test_safety_11_every_response_carries_the_safe_headers(app, case, clock, inside):
    client = signed_in(app, case, clock) if inside else browser(app)
    given = [
        ask(path)
        for path in (*PAGES, "/static/console.css", "/none", "/", "/login")
        for ask in (client.post, client.delete, client.get)
    ]
    assert page_of(given[-4]) == ("overview" if inside else "login"), "still there"
    for response in given:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "object-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "=()" in response.headers["permissions-policy"]
        nonce = re.search(r"script-src 'nonce-([\w-]{32,})'", policy)[1]
        assert set(re.findall(r'nonce="([^"]*)"', response.text)) <= {nonce}


def test_safety_10_the_cookie_is_for_this_site_and_no_script(app, case, clock):
    client = browser(app)
    client.follow_redirects = False
    response = client.post(
        "/login", data={"code": access.make_link(case.store, clock())}
    )
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith("console=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "domain" not in cookie


def test_safety_10_behind_tls_the_cookie_is_secure_and_bound_to_the_host(
    make_app, case, clock
):
    app = make_app(url="https://ops.example.org", behind_proxy=True)
    client = browser(app, base="https://ops.example.org", address="10.0.0.9")
    client.follow_redirects = False
    link = access.make_link(case.store, clock())
    response = client.post("/login", data={"code": link})
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-console=")
    assert "Secure" in cookie
    assert "max-age=31536000" in response.headers["strict-transport-security"]


def test_safety_1_another_machine_can_not_sign_in_without_a_proxy(app, case, clock):
    client = browser(app, address="10.0.0.9")
    link = access.make_link(case.store, clock())
    assert client.post("/login", data={"code": link}).status_code == 403
    assert browser(app).post("/login", data={"code": link}).status_code == 200


# -- users: password and second factor ---------------------------------------------------


PASSWORD = "four lamps over a green harbour"


def enrolled(client, link, clock, **fields):
    """Choose a password at the page that a link opens; the key for codes, the page."""
    offered = client.post("/enrol", data={"code": link})
    if page_of(offered) != "choose":
        return None, offered
    key = re.search(r"secret=([A-Z2-7]{32})", offered.text)[1]
    code = TOTP(key).at(clock() // 1_000_000)
    given = {"code": link, "password": PASSWORD, "totp": code, **fields}
    return key, client.post("/enrol", data=given)


def by_password(client, key, clock, **fields):
    code = TOTP(key).at(clock() // 1_000_000)
    given = {"name": "ann", "password": PASSWORD, "totp": code, **fields}
    return client.post("/login", data=given)


@pytest.fixture
def admin(app, case, clock):
    """The key of ann, who is the first admin."""
    link = users.make_first_admin_link(case.store, clock(), os.urandom)
    key, page = enrolled(browser(app), link, clock, name="ann")
    assert page_of(page) == "overview", page.text
    clock.advance(30)
    return key


def test_a_user_chooses_a_password_and_signs_in_with_it(app, admin, clock):
    client = browser(app)
    assert page_of(client.get("/enrol")) == "enrol"
    assert page_of(by_password(client, admin, clock)) == "overview"
    assert "ann" in text_of(client.get("/"))
    assert client.post("/logout").status_code == 200
    assert page_of(client.get("/")) == "login"


def test_safety_2_what_is_wrong_is_not_said(app, admin, clock):
    told = set()
    for wrong in (
        {"name": "eve"},
        {"password": "x" * 20},
        {"totp": "000000"},
        {"totp": ""},
    ):
        refused = by_password(browser(app), admin, clock, **wrong)
        assert refused.status_code == 403
        told.add(text_of(refused))
    assert len(told) == 1
    assert "Name, password or code is wrong" in told.pop()


def test_safety_4_signing_in_makes_a_session_of_its_own(app, admin, clock):
    client = browser(app)
    client.cookies.set("console", "chosen-by-somebody-else", domain="127.0.0.1")
    by_password(client, admin, clock)
    cookies = {one.value for one in client.cookies.jar if one.name == "console"}
    assert any(len(value) == 43 for value in cookies)


def test_a_password_that_will_not_do_may_be_chosen_again(app, case, clock):
    link = users.add_user(case.store, "bob", ["viewer"], clock(), os.urandom)
    client = browser(app)
    _, refused = enrolled(client, link, clock, password="passwordpassword")
    assert (refused.status_code, page_of(refused)) == (422, "choose")
    assert "would be guessed" in text_of(refused)
    assert "passwordpassword" not in refused.text
    _, page = enrolled(client, link, clock)
    assert page_of(page) == "overview"
    assert enrolled(client, link, clock)[1].status_code == 403


def test_safety_1_the_first_admin_enrols_on_this_machine_alone(make_app, case, clock):
    app = make_app(url="https://ops.example.org", behind_proxy=True)
    link = users.make_first_admin_link(case.store, clock(), os.urandom)
    far = browser(app, base="https://ops.example.org", address="10.0.0.9")
    assert enrolled(far, link, clock, name="eve")[1].status_code == 403
    assert page_of(enrolled(browser(app), link, clock, name="ann")[1]) == "login"
    assert users.list_users(case.store)[0].name == "ann"


def test_safety_9_no_other_page_signs_anybody_in(app, admin, clock):
    for site in ("cross-site", "same-site", None):
        client = browser(app)
        del client.headers["sec-fetch-site"]
        if site:
            client.headers["sec-fetch-site"] = site
        assert by_password(client, admin, clock).status_code == 403
    assert page_of(by_password(browser(app), admin, clock)) == "overview"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_a_foreign_name_that_resolves_to_us_is_not_answered(client, host):
    response = client.get("/", headers={"host": host})
    assert response.status_code == 421
    assert "x/ann" not in response.text


@pytest.mark.parametrize("host", ["localhost:8420", "[::1]:8420", "127.0.0.1"])
def test_our_own_names_are_answered(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


def test_a_browser_of_this_machine_may_come_over_ipv6(app, case, clock):
    signed_in(app, case, clock, base="http://[::1]:8420", address="::1")


def test_safety_9_a_form_of_another_page_changes_nothing(app, case, clock, client):
    link = access.make_link(case.store, clock())
    for site in ("cross-site", "same-site", "none"):
        other = {"sec-fetch-site": site}
        wrong = browser(app).post("/login", data={"code": link}, headers=other)
        assert wrong.status_code == 403
        assert client.post("/logout", headers=other).status_code == 403
    assert page_of(client.get("/")) == "overview"
    assert browser(app).post("/login", data={"code": link}).status_code == 200


def test_safety_9_without_the_browsers_word_a_form_needs_its_token(client):
    del client.headers["sec-fetch-site"]
    assert client.post("/logout", data={"form_token": "x"}).status_code == 403
    page = client.get("/")
    token = re.search(r'name="form_token" value="(\w+)"', page.text)[1]
    assert page_of(client.post("/logout", data={"form_token": token})) == "login"


def test_safety_4_signing_out_ends_every_copy_of_the_cookie(app, client):
    cookie = client.cookies["console"]
    assert page_of(client.post("/logout")) == "login"
    thief = browser(app)
    thief.cookies.set("console", cookie)
    assert thief.get("/").status_code == 401


def test_a_session_ends_by_idleness_though_the_page_asks_for_itself(client, clock):
    for _ in range(31):
        last = client.get("/", headers={"x-refresh": "1"})
        clock.advance(60)
    assert last.status_code == 401
    assert client.get("/").status_code == 401


def test_safety_44_guessing_is_slowed_down(make_app):
    client = browser(make_app(sign_in=Rate(per_minute=1, burst=3)))
    codes = [
        client.post("/login", data={"code": f"guess{n}"}).status_code for n in range(4)
    ]
    assert codes == [403, 403, 403, 429]


def test_a_get_of_the_sign_in_page_uses_no_link(app, case, clock):
    link = access.make_link(case.store, clock())
    for _ in range(2):
        browser(app).get("/login", params={"k": link, "code": link})
    assert browser(app).post("/login", data={"code": link}).status_code == 200


# -- what is shown ---------------------------------------------------------------------


def test_no_page_ever_holds_a_value_or_a_key(client):
    others = ("/queue?state=ready", "/records?state=open", "/nowhere", "/login")
    for path in (*PAGES, *others):
        text = client.get(path).text
        for canary in CANARIES:
            assert canary.lower() not in text.lower(), path


@pytest.mark.parametrize("path", ["/workers", "/queue?state=ready"])
def test_safety_14_what_others_named_is_shown_literally(client, path):
    response = client.get(path)
    assert "<script>alert" not in response.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{7*7}}" in response.text


def test_the_overview_says_how_near_anybody_is(client):
    response = client.get("/")
    told = text_of(response)
    assert "WARN 1 thing needs you. No limit is crossed. Nearest: 1 field left" in told
    assert "Worst share 0.67 of history (1 worker)." in told
    assert "Needs you (1)" in text_of(response)
    assert "No daemon runs dispatcher up" in text_of(response)
    assert "4 booked to 3 workers (3 active accounts)" in text_of(response)
    assert "3: 3 open" in text_of(response)
    assert "1 answered · 11 open" in text_of(response)


def test_the_leader_is_named(case, client, clock):
    with case.store.write() as tx:
        lease.take(tx, lease.SHARD, "host-a/b/4121/9", clock(), clock() + 1000)
    assert "Leader host-a pid 4121" in text_of(client.get("/"))


def test_workers_are_listed_with_the_nearest_first(client):
    response = client.get("/workers")
    rows = re.findall(r">(a\d+)</a></th>", response.text)
    assert len(rows) == 3
    listed = text_of(response).partition("Showings Groups")[2]  # the map has them too
    first = listed.partition(rows[0])[2].partition(rows[1])[0]
    assert " ".join(first.split()) == (
        "x/ann active 1 0.67 1 left × 1 0.00 1 left × 1 3 –"
    )


def test_charts_are_drawn_with_their_tables_and_hold_no_value(case, client, clock):
    with case.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "me", clock(), clock() + 10**9)
    Sampler(case.store, clock).tick(epoch)
    overview, workers = client.get("/").text, client.get("/workers").text
    for key in "answers-rate", "burn-down", "coverage", "nearness":
        assert f'id="chart-{key}"' in overview
    assert "11 fields left that can be placed; no estimate yet" in overview
    assert 'aria-labelledby="exposure-title"' in workers
    assert "Show as table" in workers
    assert 'style="' not in overview + workers
    assert not [one for one in CANARIES if one in overview + workers]
    assert EVIL not in workers
    assert html.escape(EVIL, quote=False).partition("\u202e")[0] in workers


def test_it_is_said_what_the_states_of_accounts_mean(case, client):
    text = text_of(client.get("/workers"))
    assert "Accounts: 3 active." in text
    assert "not active" not in text
    case.add("x/cat", "x/dan")
    for state, name in (("stopped", "ann"), ("blocked", "bob"), ("left", "cat")):
        builders.move_account(case.store, f"x/{name}", state)
    text = text_of(client.get("/workers"))
    for word in "below the accuracy floor", "blocked", "left of their own wish":
        assert f"1 {word}" in text
    assert "x/ann below the accuracy floor" in text
    assert "x/dan below" not in text
    assert "An account that is not active is shown nothing" in text
    assert "/do/unblock-worker" in client.get("/workers/x/ann").text


def test_an_address_past_the_last_page_shows_the_last(case, client):
    case.add(*(f"y/w{n}" for n in range(60)))
    page = client.get("/workers?page=99")
    assert "Page 2 of 2" in text_of(page)
    assert "No worker is registered" not in text_of(page)
    assert 'href="/workers?page=1" rel="prev"' in page.text
    assert "There is nothing after this" in text_of(client.get("/records?after=99"))


def test_a_worker_is_found_by_an_account_or_by_its_own_name(case, client):
    case.add(*(f"y/w{n}" for n in range(60)))
    first = client.get("/workers").text
    found = client.get("/workers", params={"q": "y/w57"})
    assert re.findall(r'href="/workers/(\S*)">a', found.text) == ["y/w57"]
    assert "y/w57" not in first
    number = case.accounts["y/w57"]
    assert "y/w57" in client.get("/workers", params={"q": f"worker:a{number}"}).text
    for nobody in ("y/nobody", "a999", f"{EVIL}z"):
        page = client.get("/workers", params={"q": nobody})
        assert f"Nothing fits “{nobody}”." in html.unescape(page.text)
        assert "<script>alert" not in page.text


def test_the_page_of_a_worker_says_what_is_refused_next(case, client):
    told = text_of(client.get("/workers/x/ann"))
    assert "Fields seen 3 in 2 records" in told
    assert "history 0.67 1/2 f < 3/4 1 1 1 c, d" in told
    assert len(re.findall(r"r[0-9a-f]{24}", told)) == 3
    unknown = client.get("/workers/x/nobody")
    assert unknown.status_code == 404
    assert "What helps:" in text_of(unknown)


def test_a_rule_shows_its_limit_and_what_was_judged(client):
    text = text_of(client.get("/rules"))
    assert "history c, d subject linear f < 3/4 1/2 0.67 1 1" in text
    assert "who-what a, b record step f < 1 0 0.00 1 2 2 2" in text


def test_a_limit_that_is_reached_fails_in_words(case, client):
    with case.store.write() as tx:
        edits.miscount(tx, 9)
        edits.shift_ends(tx, 1)
    for path in ("/", "/rules"):
        assert "FAIL A limit is reached: history." in text_of(client.get(path))


def test_the_queue_shows_messages_by_state(case, client):
    builders.settle_messages(
        case.store, "dead", account="x/ann", tries=12, error="token expired"
    )
    text = text_of(client.get("/queue"))
    assert "x dead 1" in text
    assert re.search(r"\d x x/ann publish dead 12 \d+ s ago – token expired", text)
    assert "Retry selected" in text
    assert "x token expired 0 1 12" in text  # tried again, given up, tries
    assert "x/ann" not in text_of(client.get("/queue?state=ready"))
    assert "x/ann" not in text_of(client.get("/queue?state=dead&connector=y"))


def test_records_are_listed_page_by_page_under_pseudonyms(store, clock, make_app, case):
    case.load(*((f"more-{n}", None, None, "a") for n in range(60)))
    client = signed_in(make_app(), case, clock)
    first = client.get("/records")
    assert len(re.findall(r"<code>r[0-9a-f]{24}</code>", first.text)) == 50
    link = html.unescape(re.search(r'href="([^"]*)" rel="next"', first.text)[1])
    second = client.get(link)
    assert len(re.findall(r"<code>r[0-9a-f]{24}</code>", second.text)) == 13
    assert 'rel="next"' not in second.text


def test_a_record_is_found_by_its_pseudonym(client):
    names = re.findall(r"<code>(r[0-9a-f]{24})</code>", client.get("/records").text)
    found = client.get("/records", params={"record": names[1], "state": "answered"})
    assert re.findall(r"<code>(r[0-9a-f]{24})</code>", found.text) == names[1:]
    unknown = client.get("/records", params={"record": EVIL})
    assert f"No record is called {EVIL}." in html.unescape(unknown.text)
    assert "<script>alert" not in unknown.text


def test_records_are_chosen_by_state(case, client):
    entry = case.entries["key-canary-0.a"]
    builders.save_results(case.store, [entry], "conflict")
    chosen = client.get("/records?state=conflict")
    assert chosen.text.count("<code>r") == 1
    assert client.get("/records?state=answered").text.count("<code>r") == 0


def test_the_ledger_shows_seals_and_when_it_was_verified(case, client, clock):
    text = text_of(client.get("/ledger"))
    assert "Verified never" in text
    with case.store.write() as tx:
        settings.note_moment(tx, settings.LEDGER_VERIFIED, clock())
    clock.advance(20 * 60)
    response = client.get("/ledger")
    assert "Verified 20 min ago" in text_of(response)
    assert len(re.findall(r'data-copy="[0-9a-f]{64}"', response.text)) == 2


@pytest.mark.parametrize(
    "path",
    ["/queue?state=lost", "/records?state=x", "/records?after=-1", "/workers?page=0",
     "/workers?page=1e9", "/records?after=" + "9" * 30],
)  # fmt: skip
def test_strange_addresses_are_refused_in_words(client, path):
    response = client.get(path)
    assert response.status_code == 400
    assert page_of(response) == "message"


def test_nothing_is_posted_to_a_page_but_what_it_asks(client):
    asking = {one.path for one in SCREENS if one.posts or one.acts}
    other = {"sec-fetch-site": "cross-site"}
    for path in PAGES:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            if method == "POST" and path in asking:
                assert client.post(path, headers=other).status_code == 403
            else:
                assert client.request(method, path).status_code in (404, 405)


def test_a_store_that_is_busy_is_told_without_a_traceback(client, case, monkeypatch):
    def busy(*_args, **_more):
        raise StoreLocked("locked", why="canary", fix="wait")

    monkeypatch.setattr("dispatcher.surfaces.console.read_cache.status", busy)
    response = client.get("/")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "canary" not in response.text


def test_an_empty_store_says_what_comes_next(store, clock):
    app = make_console(store, clock, settings=ConsoleSettings(stale=0))
    client = browser(app)
    client.post("/login", data={"code": access.make_link(store, clock())})
    assert "dispatcher records load FILE" in text_of(client.get("/"))
    assert re.search("WARN .*No limit is in force", text_of(client.get("/")))
    assert 'href="/do/add-workers"' in client.get("/workers").text
    assert "dispatcher policy apply" in text_of(client.get("/rules"))
    assert "None was written yet" in text_of(client.get("/queue"))
    assert "dispatcher records load FILE" in text_of(client.get("/records"))
    assert "Not sealed yet" in text_of(client.get("/ledger"))


def test_what_was_read_is_shown_again_for_a_moment(case, clock, monkeypatch):
    clock.now = case.now
    app = make_console(case.store, clock)
    client = signed_in(app, case, clock)
    looks = []
    monkeypatch.setattr(
        "dispatcher.surfaces.console.read_cache.status",
        lambda *_: looks.append(1) or pytest.fail("looked too early"),
    )
    assert client.get("/").status_code == 200
    assert looks == []
