"""The task page over HTTP, on both databases: what leaves, to whom, and when."""

import html
import re

import numpy as np
import pytest
from starlette.testclient import TestClient

from connectors.testing.suite import VALUES
from dispatcher.core.errors import StoreLocked
from dispatcher.core.rate_limit import Rate
from dispatcher.identity import invite_link
from dispatcher.stages.serving import ServingTerms
from dispatcher.store import Store
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders
from tests.integration.serving_house import House, png

SAME = {"sec-fetch-site": "same-origin"}
NAME = "Ada Lovelace"  # no token has a space: what is random never holds it
EVIL = "<script>alert(1)</script>{{7*7}}${7*7}{% raw %}\u202e\"'&\x00"


@pytest.fixture
def house(store: Store, clock) -> House:
    return House(store, clock)


@pytest.fixture
def make_app(house, rng):
    def make(**settings):
        terms = ServingTerms(lease=60, apart=0)
        page = PageSettings(**{"neutral": 0, **settings})
        return task_app(
            house.store,
            {"inhouse": house.market(), "turkle": house.turkle()},
            clock=house.clock,
            rng=rng,
            terms=terms,
            settings=page,
        )

    return make


@pytest.fixture
def app(make_app):
    return make_app()


def browser(app, **options) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8421", follow_redirects=True,
                      **options)  # fmt: skip


def arrived(app, house, name: str) -> TestClient:
    """A browser whose worker has arrived; it sends what browsers send."""
    client = browser(app)
    client.headers.update(SAME)
    page = client.post("/arrive", data={"invite": house.invite(name)})
    assert page.status_code == 200, page.text
    assert 'data-page="ready"' in page.text
    return client


def page_of(response) -> str:
    return re.search(r'data-page="(\w+)"', response.text)[1]


def token_of(response) -> str:
    return re.search(r'data-token="(\w+)"', response.text)[1]


def crop_of(response) -> str:
    return re.search(r'src="(/crop/[\w-]+)"', response.text)[1]


def form_token(response) -> str:
    return re.search(r'name="form_token" value="([\w-]+)"', response.text)[1]


def text_of(response) -> str:
    shown = re.search(r'id="text"[^>]*>(.*?)</blockquote>', response.text, re.DOTALL)
    return html.unescape(shown[1])


def one_task(house, app, **values):
    values = values or {"name": NAME}
    entries = house.record(1, **values)
    who = house.account("ann")
    house.plan((who, list(entries.values())))
    return arrived(app, house, "ann")


# -- arriving --------------------------------------------------------------------------


def test_the_first_page_shows_a_form_and_sets_no_session(app, house):
    page = browser(app).get("/")
    assert page_of(page) == "arrive"
    assert list(page.cookies) == ["task-browser"]
    cookie = page.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie  # it comes along when a link is followed


def test_safety_10_over_tls_cookies_are_bound_to_the_host(make_app, house):
    house.account("ann")
    client = TestClient(make_app(https=True), base_url="https://t.example")
    client.headers.update(SAME)
    page = client.post(
        "/arrive", data={"invite": house.invite("ann")}, follow_redirects=False
    )
    cookie = next(
        c for c in page.headers.get_list("set-cookie") if c.startswith("__Host-task=")
    )
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "strict-transport-security" in page.headers


def test_a_pasted_link_opens_the_page_without_scripts(app, house):
    house.account("ann")
    client = browser(app)
    first = client.get("/")
    link = invite_link("http://127.0.0.1:8421", house.invite("ann"))
    page = client.post(
        "/arrive", data={"invite": f" {link} ", "form_token": form_token(first)}
    )
    assert page_of(page) == "ready"


def test_a_session_ends_when_its_invite_is_revoked(app, house):
    house.account("ann")
    client = browser(app)
    client.headers.update(SAME)
    code = house.invite("ann")
    assert page_of(client.post("/arrive", data={"invite": code})) == "ready"
    builders.revoke_invites(house.store, "inhouse/ann")
    assert page_of(client.get("/")) == "arrive"
    assert page_of(client.post("/arrive", data={"invite": code})) == "arrive"


def test_an_invite_opens_no_account_of_another_connector(app, house):
    house.account("ann", connector="folder")
    client = browser(app)
    client.headers.update(SAME)
    page = client.post("/arrive", data={"invite": house.invite("ann")})
    assert page.status_code == 403


def knocked(app, code: str):
    client = browser(app)
    client.headers.update(SAME)
    return client.post("/arrive", data={"invite": code})


def test_the_door_asks_the_connector_that_the_link_names(app, house):
    house.account("ann", connector="turkle")
    code = house.turkle().invite("ann", "1", house.soon())
    link = invite_link("http://127.0.0.1:8421", code, "turkle")
    assert link == f"http://127.0.0.1:8421/#k=turkle~{code}"
    assert page_of(knocked(app, link)) == "ready"
    assert page_of(knocked(app, f"turkle~{code}")) == "ready"


def test_a_key_of_one_connector_opens_no_account_of_another(app, house):
    """Both have an ann: neither gets in by the other's code, whatever name it bears."""
    house.account("ann")
    house.account("ann", connector="turkle")
    ours, theirs = house.invite("ann"), house.turkle().invite("ann", "1", house.soon())
    for code in (theirs, f"inhouse~{theirs}", f"turkle~{ours}", f"other~{ours}",
                 f"inhouse~turkle~{theirs}", "~", "turkle~"):  # fmt: skip
        assert knocked(app, code).status_code == 403


@pytest.mark.parametrize("case", ["forged", "expired", "revoked", "unknown"])
def test_a_link_that_does_not_hold_opens_nothing_and_tells_no_reason(app, house, case):
    house.account("ann")
    code = house.invite("ann", hours=-1 if case == "expired" else 24)
    if case == "forged":
        code = code[:-2] + ("aa" if code[-2:] != "aa" else "bb")
    if case == "revoked":
        builders.revoke_invites(house.store, "inhouse/ann")
    if case == "unknown":
        code = house.invite("nobody")
    client = browser(app)
    client.headers.update(SAME)
    page = client.post("/arrive", data={"invite": code})
    assert page.status_code == 403
    assert page_of(page) == "arrive"
    assert "This link does not open the page" in page.text
    assert "task" not in client.cookies
    assert code not in page.text


def test_a_worker_who_is_blocked_is_out_at_once(app, house):
    client = one_task(house, app)
    builders.block(house.store, "inhouse/ann")
    for answer in (client.get("/"), client.post("/start")):
        assert page_of(answer) == "arrive"
    assert house.exposures() == 0


def test_signing_out_ends_the_session(app, house):
    client = one_task(house, app)
    client.post("/leave")
    assert page_of(client.get("/")) == "arrive"


# -- the flow --------------------------------------------------------------------------


def test_the_whole_flow_without_scripts_and_without_fetch_headers(app, house):
    house.record(1, name="Ada")
    house.record(2, age="36")
    ann = house.account("ann")
    house.plan((ann, [1, 2]))
    client = browser(app)
    page = client.get("/")
    page = client.post(
        "/arrive",
        data={"invite": house.invite("ann"), "form_token": form_token(page)},
    )
    page = client.post("/start", data={"form_token": form_token(page)})
    for _ in range(2):
        value = text_of(page)
        page = client.post(
            f"/task/{token_of(page)}/answer",
            data={
                "form_token": form_token(page),
                "answer": value,
                "outcome": "answered",
                "then": "next",
            },
        )
    assert page_of(page) == "nothing"
    assert house.count("answer") == 2
    assert house.exposures() == 2


def test_submitting_and_stopping_says_that_the_answer_was_saved(app, house):
    client = one_task(house, app)
    page = client.post("/start")
    page = client.post(f"/task/{token_of(page)}/answer", data={"answer": "Ada"})
    assert page_of(page) == "ready"
    assert "Your answer was saved." in page.text


def test_safety_43_a_double_submit_is_one_answer(app, house):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    for text in ("Ada", "Eve"):
        page = client.post(f"/task/{token}/answer", data={"answer": text})
        assert page_of(page) == "ready"
    assert house.count("answer") == 1
    assert bytes(house.ask("SELECT raw FROM answer")) == b"Ada"


def test_an_answer_to_a_task_that_another_window_finished_is_not_dropped_in_silence(
    app, house
):
    house.record(1, name="Ada")
    house.record(2, name="Bob")
    ann = house.account("ann")
    house.plan((ann, [1, 2]))
    client = arrived(app, house, "ann")
    token = token_of(client.post("/start"))
    page = client.post(f"/task/{token}/answer", data={"answer": "Ada", "then": "next"})
    assert page_of(page) == "task"
    page = client.post(f"/task/{token}/answer", data={"answer": "Eve", "then": "next"})
    assert page_of(page) == "ready"
    assert "What you sent first counts" in page.text
    assert "Your answer was saved." not in page.text
    assert house.exposures() == 2


def test_a_wrong_answer_keeps_what_was_typed_and_books_nothing_more(app, house):
    client = one_task(house, app, age="36")
    token = token_of(client.post("/start"))
    page = client.post(f"/task/{token}/answer", data={"answer": "1'000 years"})
    assert page.status_code == 422
    assert page_of(page) == "task"
    assert 'role="alert"' in page.text
    assert 'value="1&#39;000 years"' in page.text
    assert house.exposures() == 1


def test_more_time_without_scripts_keeps_what_was_typed(app, house, clock):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    clock.advance(50)
    page = client.post(f"/task/{token}/extend", data={"answer": "Ad"})
    assert 'data-left="60"' in page.text
    assert "\nAd</textarea>" in page.text


def test_more_time_with_scripts_is_told_in_seconds(app, house, clock):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    clock.advance(50)
    wants = {"accept": "application/json"}
    assert client.post(f"/task/{token}/extend", headers=wants).json() == {"left": 60}
    clock.advance(61)
    late = client.post(f"/task/{token}/extend", headers=wants)
    assert (late.status_code, late.json()) == (409, {"left": 0})


def test_a_draft_is_kept_on_the_server(app, house, clock):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    reply = client.post(f"/task/{token}/draft", data={"answer": "Ad"})
    assert (reply.status_code, reply.content) == (204, b"")
    assert "\nAd</textarea>" in client.post("/start").text
    clock.advance(61)
    assert client.post(f"/task/{token}/draft", data={"answer": "A"}).status_code == 409


@pytest.mark.parametrize("made_up", [False, True])
def test_a_draft_does_not_write_over_what_another_window_saved(app, house, made_up):
    """Of a real field and of a made-up one alike: else they could be told apart."""
    if made_up:
        house.test_of(1.0, ("Jo", "Jo"))
    client = one_task(house, app)
    page = client.post("/start")
    path = f"/task/{token_of(page)}/draft"
    first = re.search(r'data-draft="(\w{32})"', page.text)[1]

    def save(text: str, mark: str):
        headers = {"if-match": f'"{mark}"'}
        reply = client.post(path, data={"answer": text}, headers=headers)
        return reply.status_code, reply.headers.get("etag", "").strip('"')

    status, second = save("Ad", first)
    assert (status, len(second)) == (204, 32)
    assert save("Eve", first) == (412, "")
    assert "\nAd</textarea>" in client.post("/start").text
    assert save("Ad", first) == (204, second)  # the same text over again
    status, third = save("Ada", second)
    assert status == 204
    assert re.search(r'data-draft="(\w{32})"', client.post("/start").text)[1] == third


@pytest.mark.parametrize(
    "value", [*VALUES, "\u202bא\u05b8ב\u202c 👩‍👧 ﬁ Å K", "ห้อง\u200b"]
)
def test_an_answer_of_any_script_is_kept_as_it_was_typed(app, house, value):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    draft = client.post(f"/task/{token}/draft", data={"answer": value})
    assert draft.status_code == 204
    page = client.post("/start").text
    box = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert html.unescape(box[1]) == value
    client.post(f"/task/{token}/answer", data={"answer": value})
    assert bytes(house.ask("SELECT raw FROM answer")).decode() == value


def test_a_worker_who_knows_the_person_sees_nothing_of_the_record_again(app, house):
    client = one_task(house, app, name="Ada", age="36")
    page = client.post("/start")
    page = client.post(f"/task/{token_of(page)}/known")
    assert page_of(page) == "ready"
    assert page_of(client.post("/start")) == "nothing"
    assert house.exposures() == 1


def test_skipping_goes_on_with_another_task(app, house):
    house.record(1, name="Ada")
    house.record(2, name="Bo")
    ann = house.account("ann")
    house.plan((ann, [1, 2]))
    client = arrived(app, house, "ann")
    first = client.post("/start")
    second = client.post(f"/task/{token_of(first)}/return", data={"then": "next"})
    assert {text_of(first), text_of(second)} == {"Ada", "Bo"}


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("name", ["<textarea", "As it is written"]),
        (
            "disease",
            ['type="radio"', 'value="gout"', "<legend><span", ">Which?</span>"],
        ),
        ("age", ['inputmode="decimal"', "From 0 to 130"]),
        ("born", ['placeholder="as you see it, or YYYY-MM-DD"']),
        ("ok", ['value="yes"', ">Signed?</span>"]),
        ("parts", ["One passage on each line"]),
        ("lines", ['name="cell-0-1"', '<th scope="col" dir="auto" lang="und">dose']),
    ],
)
def test_every_ask_has_its_form(app, house, field, parts):
    page = one_task(house, app, **{field: "x"}).post("/start")
    for part in parts:
        assert part in page.text


# -- images ----------------------------------------------------------------------------


def test_a_crop_is_served_to_its_worker_while_it_is_in_hand(app, house, clock):
    crop = png(1)
    client = one_task(house, app, scan=crop)
    page = client.post("/start")
    image = client.get(crop_of(page))
    assert image.content == crop
    assert image.headers["content-type"] == "image/png"
    assert image.headers["cache-control"] == "no-store"

    other = arrived(app, house, "ann")  # the same worker, another browser
    assert page_of(other.get(crop_of(page))) == "nothing"
    clock.advance(61)
    assert page_of(client.get(crop_of(page))) == "nothing"


def test_safety_6_a_crop_is_not_there_for_others_nor_after_the_answer(app, house):
    client = one_task(house, app, scan=png(1))
    page = client.post("/start")
    house.account("bob")
    bob = arrived(app, house, "bob")
    assert page_of(bob.get(crop_of(page))) == "nothing"
    assert page_of(browser(app).get(crop_of(page))) == "arrive"
    assert house.count("event", "action = 'task.stray'") == 1
    client.post(f"/task/{token_of(page)}/answer", data={"answer": "x"})
    assert page_of(client.get(crop_of(page))) == "nothing"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-purpose": "prefetch"},
        {"purpose": "prefetch"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-dest": "document"},
    ],
)
def test_safety_13_a_crop_is_not_fetched_ahead_or_from_elsewhere(app, house, headers):
    crop = png(1)
    client = one_task(house, app, scan=crop)
    path = crop_of(client.post("/start"))
    assert client.get(path, headers=headers).content != crop
    assert client.head(path).content == b""
    assert client.get(path).content == crop


def test_safety_37_the_exposure_is_durable_before_any_byte_leaves(
    house, make_app, monkeypatch
):
    """At every byte sent, another connection already reads the exposure."""
    app = make_app()
    house.record(1, scan=png(1))
    house.record(2, name=NAME)
    ann = house.account("ann")
    house.plan((ann, [1, 2]))
    needles = {1: png(1), 2: NAME.encode()}
    seen = []

    async def watched(scope, receive, send):
        async def watch(message):
            for entry_id, needle in needles.items():
                if needle in message.get("body", b""):
                    booked = house.count(
                        "ledger_line",
                        f"kind = 'exposure' AND entry_id = {entry_id}",
                    )
                    seen.append((entry_id, booked))
            await send(message)

        await app(scope, receive, watch)

    client = arrived(watched, house, "ann")
    for _ in range(2):
        page = client.post("/start")
        if "/crop/" in page.text:
            client.get(crop_of(page))
        client.post(f"/task/{token_of(page)}/answer", data={"answer": "x"})
    assert sorted(seen) == [(1, 1), (2, 1)]


def test_nothing_leaves_when_the_commit_fails(house, app, monkeypatch):
    client = one_task(house, app)
    from dispatcher.stages.serving.task_assignment import TaskAssignment

    def fails(*_args):
        raise StoreLocked("the store is locked")

    monkeypatch.setattr(TaskAssignment, "_book", fails)
    page = client.post("/start")
    assert page.status_code == 503
    assert page.headers["retry-after"] == "5"
    assert NAME not in page.text
    assert house.exposures() == 0


# -- what must not happen ----------------------------------------------------------------

ROUTES = [
    ("GET", "/"),
    ("POST", "/arrive"),
    ("POST", "/leave"),
    ("POST", "/same"),
    ("POST", "/language"),
    ("GET", "/practice"),
    ("POST", "/practice/1"),
    ("GET", "/whose"),
    ("POST", "/whose"),
    ("GET", "/me"),
    ("POST", "/me/leave"),
    ("GET", "/from/inhouse"),
    ("GET", "/from/inhouse/notice"),
    ("POST", "/hooks/inhouse"),
    ("POST", "/fetch/inhouse"),
    ("POST", "/start"),
    ("GET", "/task/{token}"),
    ("POST", "/task/{token}/answer"),
    ("POST", "/task/{token}/undo"),
    ("POST", "/task/{token}/draft"),
    ("POST", "/task/{token}/extend"),
    ("POST", "/task/{token}/return"),
    ("POST", "/task/{token}/known"),
    ("GET", "/crop/{crop}"),
    ("GET", "/static/task.css"),
    ("GET", "/static/task.js"),
    ("GET", "/static/icon.svg"),
    ("GET", "/static/none"),
    ("GET", "/robots.txt"),
    ("GET", "/none"),
    ("PUT", "/start"),
]


def test_safety_5_the_walk_knows_every_route(app):
    walked = {path for _, path in ROUTES}
    for route in app._app.routes:
        path = route.path.replace("{crop_id}", "{crop}")
        path = path.replace("{connector}", "inhouse").replace("{step:number}", "1")
        assert path.replace("{name}", "task.css") in walked


def test_a_number_that_is_too_long_to_be_one_is_not_here(app):
    """Python converts at most 4,300 digits: it was a fault, and a line in the log."""
    client = browser(app, headers=SAME)
    assert client.post(f"/practice/{'9' * 5_000}").status_code == 404


@pytest.mark.parametrize("signed_in", [True, False])
def test_safety_11_every_response_has_all_the_headers(app, house, signed_in):
    client = one_task(house, app, scan=png(1))
    page = client.post("/start")
    names = {"token": token_of(page), "crop": crop_of(page).rpartition("/")[2]}
    if not signed_in:
        client = browser(app)
    nonces = []
    for method, path in ROUTES:
        for headers in ({}, SAME, {"sec-fetch-site": "cross-site"}):
            response = client.request(
                method, path.format(**names), headers=headers, follow_redirects=False
            )
            found = response.headers
            assert found["cache-control"] == "no-store", path
            assert found["referrer-policy"] == "no-referrer"
            assert found["x-content-type-options"] == "nosniff"
            assert found["x-robots-tag"] == "noindex, nosnippet"
            assert found["cross-origin-resource-policy"] == "same-origin"
            assert "camera=()" in found["permissions-policy"]
            policy = found["content-security-policy"]
            for part in (
                "default-src 'none'",
                "img-src 'self'",
                "object-src 'none'",
                "base-uri 'none'",
                "form-action 'self'",
                "frame-ancestors 'none'",
            ):
                assert part in policy
            assert "unsafe" not in policy
            nonces.append(re.search(r"script-src 'nonce-([\w-]+)'", policy)[1])
            if "<script" in response.text:
                assert f'nonce="{nonces[-1]}"' in response.text
            assert "access-control-allow-origin" not in found
    assert len(set(nonces)) == len(nonces)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_safety_9_changes_from_other_sites_are_refused(app, house, site):
    client = one_task(house, app)
    page = client.post("/start")
    names = {"token": token_of(page), "crop": "x"}
    for method, path in ROUTES:
        # what markets and feeds call comes from elsewhere, and proves itself by its
        # signature
        if method == "POST" and not path.startswith(("/hooks/", "/fetch/")):
            data = {"form_token": form_token(page), "answer": "x"}
            response = client.post(
                path.format(**names), data=data, headers={"sec-fetch-site": site}
            )
            assert response.status_code == 403, path
    assert house.count("answer") == 0
    assert house.ask("SELECT state FROM task") == "shown"


def test_safety_9_without_fetch_headers_a_form_of_this_session_is_needed(app, house):
    client = one_task(house, app)
    token = form_token(client.get("/"))
    del client.headers["sec-fetch-site"]
    house.account("bob")
    foreign = form_token(arrived(app, house, "bob").get("/"))
    for data in ({}, {"form_token": ""}, {"form_token": foreign}):
        assert client.post("/start", data=data).status_code == 403
    assert house.exposures() == 0
    assert page_of(client.post("/start", data={"form_token": token})) == "task"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-purpose": "prefetch;prerender"},
        {"user-agent": "Slackbot-LinkExpanding 1.0"},
        {"user-agent": "Twitterbot/1.0"},
    ],
)
def test_safety_13_looking_books_nothing_and_shows_nothing(app, house, method, headers):
    client = one_task(house, app)
    for path in ("/", "/start", "/arrive", "/task/" + "0" * 32, "/crop/abc"):
        response = client.request(method, path, headers=headers)
        assert NAME not in response.text
    assert house.exposures() == 0

    token = token_of(client.post("/start"))
    for path in ("/", f"/task/{token}", f"/task/{token}/answer", "/crop/abc"):
        response = client.request(method, path, headers=headers)
        assert NAME not in response.text
    assert house.exposures() == 1
    assert "Continue" in client.get(f"/task/{token}").text


def test_safety_7_another_workers_task_is_the_neutral_page_and_an_audit_line(
    app, house
):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    house.account("bob")
    bob = arrived(app, house, "bob")
    edited = "f" + token[1:] if token[0] != "f" else "0" + token[1:]
    neutral = bob.post("/start")
    assert page_of(neutral) == "nothing"
    for name in (token, edited, "x"):
        for way in ("", "/answer", "/return", "/known", "/extend"):
            method = "POST" if way else "GET"
            page = bob.request(method, f"/task/{name}{way}", data={"answer": "x"})
            assert page.status_code == neutral.status_code
            assert _plain(page.text) == _plain(neutral.text)
    assert house.count("event", "action = 'task.foreign'") == 6
    assert house.count("answer") == 0
    assert house.ask("SELECT state FROM task") == "shown"


def _plain(text: str) -> str:
    """A page without what differs in every response."""
    text = re.sub(r'nonce="[\w-]+"', "", text)
    return re.sub(r'value="[\w-]+"', "", text)


def test_safety_6_nothing_to_do_and_refused_and_paused_look_the_same(app, house):
    entries = house.record(1, name="Ada", disease="flu")
    ann, bob = house.account("ann"), house.account("bob")
    house.plan((ann, list(entries.values())), (bob, []))
    client = arrived(app, house, "ann")
    first = client.post("/start")
    client.post(f"/task/{token_of(first)}/answer", data={"outcome": "illegible"})
    nothing = arrived(app, house, "bob").post("/start")
    refused = client.post("/start")
    builders.pause(house.store)
    paused = client.post("/start")
    pages = {(p.status_code, _plain(p.text)) for p in (refused, nothing, paused)}
    assert len(pages) == 1
    assert page_of(refused) == "nothing"
    assert house.exposures() == 1


def test_safety_6_the_neutral_page_leaves_at_a_multiple_of_its_time(make_app, house):
    app = make_app(neutral=0.2)
    house.account("ann")
    client = arrived(app, house, "ann")
    spent = client.post("/start").elapsed.total_seconds()
    assert spent >= 0.2


def test_a_started_task_leaves_at_a_multiple_of_its_time(make_app, house):
    client = one_task(house, make_app(neutral=0.5), name="Ada")
    page = client.post("/start")
    assert page_of(page) == "task"
    assert page.elapsed.total_seconds() >= 0.1


def test_what_was_refused_leaves_the_plan_when_the_answer_is_on_its_way(app, house):
    client = one_task(house, app, name="Ada", disease="flu")
    page = client.post("/start")
    client.post(f"/task/{token_of(page)}/answer", data={"outcome": "not_present"})
    assert page_of(client.post("/start")) == "nothing"
    left = np.frombuffer(house.ask("SELECT entries FROM assignment"), "<i8")
    assert left.tolist() == [house.ask("SELECT entry_id FROM task")]


def test_safety_14_values_are_shown_literally_and_stand_in_no_header_or_url(
    app, house, capsys, caplog
):
    client = one_task(house, app, name=EVIL)
    page = client.post("/start")
    # HTML has no way to write NUL: its picture is shown.
    assert text_of(page) == EVIL.replace("\x00", "\u2400")
    assert "<script>alert" not in page.text
    assert "49" not in text_of(page)
    wrong = client.post(f"/task/{token_of(page)}/answer", data={"answer": " "})
    for response, title in ((page, "Task"), (wrong, "Error: Task")):
        told = str(response.url) + str(response.headers)
        assert "alert" not in told
        assert re.search(r"<title>(.*?)</title>", response.text)[1] == title
    out = capsys.readouterr()
    assert "alert" not in out.out + out.err + caplog.text


def test_safety_14_a_typed_answer_is_shown_back_literally(app, house):
    client = one_task(house, app, age="36")
    token = token_of(client.post("/start"))
    page = client.post(f"/task/{token}/answer", data={"answer": '"><script>alert(1)'})
    assert "<script>alert" not in page.text
    assert "&#34;&gt;&lt;script&gt;alert(1)" in page.text


def test_answer_boxes_keep_out_of_spell_checkers_and_translators(app, house):
    page = one_task(house, app).post("/start").text
    box = re.search(r"<textarea[^>]*>", page)[0]
    for part in ('autocomplete="off"', 'spellcheck="false"', 'translate="no"'):
        assert part in box
    assert 'dir="auto"' in box


@pytest.mark.parametrize("action", ["start", "answer", "draft"])
def test_safety_44_rates_are_limited_for_each_worker(make_app, house, action):
    app = make_app(**{action: Rate(per_minute=60, burst=2)})
    client = one_task(house, app)
    house.account("bob")
    bob = arrived(app, house, "bob")
    token = house.token(1)
    path = "/start" if action == "start" else f"/task/{token}/{action}"
    statuses = [client.post(path, data={"answer": "x"}).status_code for _ in range(3)]
    assert statuses[2] == 429
    assert 429 not in statuses[:2]
    assert bob.post(path).status_code != 429
    late = client.post(path)
    assert int(late.headers["retry-after"]) >= 1


def test_looking_for_what_is_not_theirs_is_limited(make_app, house):
    app = make_app(look=Rate(per_minute=60, burst=2))
    client = one_task(house, app)
    paths = ("/task/x", "/crop/x", "/task/y")
    assert [client.get(path).status_code for path in paths] == [200, 200, 429]
    assert house.count("event") == 2


def test_safety_44_arrivals_are_limited_for_each_address(make_app, house):
    app = make_app(arrive=Rate(per_minute=60, burst=1))
    house.account("ann")
    arrived(app, house, "ann")
    client = browser(app)
    page = client.post("/arrive", data={"invite": "x"}, headers=SAME)
    assert page.status_code == 429


@pytest.mark.parametrize("path", ["/me/", "/whose/", "/arrive/", "/static/task.css/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_address_leads_to_the_host_that_a_request_names(app, method, path):
    client = browser(app, headers={**SAME, "host": "elsewhere.example"})
    page = client.request(method, path, follow_redirects=False)
    assert (page.status_code, page_of(page)) == (404, "message")
    assert "location" not in page.headers


@pytest.mark.parametrize(
    "charset", ["unicode_escape", "undefined", "raw_unicode_escape"]
)
@pytest.mark.parametrize("name", ["answer", "form_token", "\\ud800"])
def test_a_form_that_is_no_text_in_its_charset_is_refused(app, house, charset, name):
    client = one_task(house, app)
    token = token_of(client.post("/start"))
    del client.headers["sec-fetch-site"]
    part = (
        f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n\\ud800\r\n--B--'
    )
    kind = {"content-type": f"multipart/form-data; boundary=B; charset={charset}"}
    for path in ("/leave", f"/task/{token}/draft", f"/task/{token}/answer"):
        page = client.post(path, content=part, headers=kind)
        assert (page.status_code, page_of(page)) == (400, "message")


def test_a_form_that_is_none_is_refused_clearly(app, house):
    client = one_task(house, app)
    files = {"answer": ("x.png", b"x")}
    assert client.post("/start", files=files).status_code == 400
    too_long = client.post("/start", data={"a": "x" * 300_000})
    assert (too_long.status_code, page_of(too_long)) == (413, "message")
    assert house.exposures() == 0
