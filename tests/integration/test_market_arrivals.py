"""Workers who come from a market with what it signed: in, at work, and back."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from connectors.base import Item, Money, Offer, Settings
from connectors.prolific import CONNECTOR
from dispatcher.core.rate_limit import Rate
from dispatcher.stages.serving import ServingTerms
from dispatcher.store import collecting
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders, sql
from tests.contract.prolific_server import PROJECT, TOKEN, WORKSPACE, prolific_server
from tests.integration.serving_house import House

PAGE = "https://tasks.example.test"
PID = "5f3e1c9d2b7a4e0011223344"
SAME = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def server():
    with prolific_server() as running:
        yield running


@pytest.fixture
def market(server):
    values = {
        "workspace": WORKSPACE, "project": PROJECT, "page": f"{PAGE}/from/prolific",
        "minutes": "10", "url": server.url, "allow_private": "127.0.0.1",
    }  # fmt: skip
    secret = f"{TOKEN}\n{(b'k' * 32).hex()}\n".encode()
    opened = CONNECTOR.open(Settings(values, secret=secret))
    yield opened
    opened.close()


@pytest.fixture
def house(store, clock):
    house = House(store, clock)
    worker = house.account(PID, "prolific")
    entries = house.record(1, name="Ada Lovelace")
    house.plan((worker, list(entries.values())))
    return house


@pytest.fixture
def make_app(house, market, rng):
    def make(**page):
        return task_app(
            house.store,
            {"prolific": market, "inhouse": house.market()},
            clock=house.clock,
            rng=rng,
            terms=ServingTerms(lease=60, apart=0),
            settings=PageSettings(neutral=0, https=True, **page),
        )

    return make


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture
def client(app):
    return TestClient(app, base_url=PAGE, follow_redirects=True, headers=SAME)


def link(server, market, clock, pid: str = PID, key: str = "k1") -> str:
    """What the participant's browser is sent to."""
    pay = Money.read("GBP:1.20")
    offer = Offer(key, account=pid, items=(Item("t1"),), link=PAGE, reward=pay)
    study = server.studies[market.publish(offer).reference]
    now = datetime.fromtimestamp(clock() / 1e6, UTC)
    return server.link(server.take(pid, study), now)


def form_of(page) -> dict[str, str]:
    found = re.findall(r'name="([^"]+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in found}


def page_of(response) -> str:
    return re.search(r'data-page="(\w+)"', response.text)[1]


def test_a_participant_comes_in_works_and_goes_back(client, server, market, clock):
    brought = client.get(link(server, market, clock))
    assert page_of(brought) == "bring"
    ready = client.post("/arrive", data=form_of(brought))
    assert page_of(ready) == "ready"
    task = client.post("/start", data=form_of(ready))
    assert "Ada Lovelace" in task.text
    token = re.search(r'data-token="([^"]+)"', task.text)[1]
    client.post(
        f"/task/{token}/answer", data={**form_of(task), "answer": "Ada Lovelace"}
    )
    nothing = client.post("/start", data=form_of(client.get("/")))
    assert page_of(nothing) == "nothing"
    assert html.escape(market.finish(PID)) in nothing.text


def test_who_finds_nothing_to_do_has_the_way_back_at_once(
    client, house, server, market, clock
):
    """Known to us, and nothing is planned for them: Prolific pays for having come."""
    idle = PID[::-1]
    house.account(idle, "prolific")
    brought = client.get(link(server, market, clock, idle, "k2"))
    ready = client.post("/arrive", data=form_of(brought))
    assert page_of(ready) == "ready"
    nothing = client.post("/start", data=form_of(ready))
    assert page_of(nothing) == "nothing"
    assert html.escape(market.finish(idle)) in nothing.text
    assert house.exposures() == 0


def test_a_look_at_the_link_opens_nothing(app, house, server, market, clock):
    address = link(server, market, clock)
    looked = TestClient(app, base_url=PAGE).get(address)
    assert page_of(looked) == "bring"
    assert "Ada Lovelace" not in looked.text
    assert page_of(TestClient(app, base_url=PAGE).get("/")) == "arrive"


@pytest.mark.parametrize("name", ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID", "k"])
def test_an_edited_address_lets_nobody_in(client, server, market, clock, name):
    form = form_of(client.get(link(server, market, clock)))
    other = {"PROLIFIC_PID": "another", "k": form["k"]}.get(name, "x")
    refused = client.post("/arrive", data={**form, name: other})
    if name == "k":  # outside of what was signed it means nothing
        assert page_of(refused) == "ready"
    else:
        assert (refused.status_code, page_of(refused)) == (403, "arrive")


def test_a_stranger_with_a_good_signature_is_not_let_in(client, server, market, clock):
    """Prolific knows them, the store does not."""
    form = form_of(client.get(link(server, market, clock, "unknown-to-us", "k2")))
    assert client.post("/arrive", data=form).status_code == 403


def test_a_blocked_account_is_not_let_in(client, house, server, market, clock):
    form = form_of(client.get(link(server, market, clock)))
    builders.block(house.store, f"prolific/{PID}")
    assert client.post("/arrive", data=form).status_code == 403


def test_an_old_link_is_refused_when_it_is_pressed(client, server, market, clock):
    form = form_of(client.get(link(server, market, clock)))
    clock.now += 121 * 1_000_000
    assert client.post("/arrive", data=form).status_code == 403


@pytest.mark.parametrize("minutes", [5, -5])
def test_a_clock_that_is_wrong_lets_nobody_in_and_is_told_to_the_operator(
    client, house, server, market, clock, minutes
):
    """Every good link is refused then: the log has to say where to look."""
    right = clock()
    clock.now += minutes * 60_000_000
    form = form_of(client.get(link(server, market, lambda: right)))
    with capture_logs() as told:
        refused = client.post("/arrive", data=form)
    assert (refused.status_code, page_of(refused)) == (403, "arrive")
    assert page_of(client.post("/start")) == "arrive"
    assert house.exposures() == house.count("task") == 0
    (line,) = [one for one in told if one["event"] == "arrival-refused"]
    assert (line["log_level"], line["connector"]) == ("warning", "prolific")
    assert "clock" in line["why"]
    for said in (PID, form["prolific_token"], form["SESSION_ID"]):
        assert said not in line.values()
        assert said not in line["what"] + line["why"]

    clock.now = right
    form = form_of(client.get(link(server, market, clock, key="k2")))
    assert page_of(client.post("/arrive", data=form)) == "ready"


@pytest.mark.parametrize(
    "path",
    ["/from/inhouse?token=x", "/from/nobody?a=b", f"/from/prolific?x={'y' * 17_000}"],
)
def test_what_no_market_sends_is_the_door_as_ever(client, path):
    refused = client.get(path)
    assert (refused.status_code, page_of(refused)) == (403, "arrive")


def test_what_is_brought_is_escaped_and_takes_no_name_of_ours(client):
    query = urlencode({'"><script>': '"><script>', "form_token": "mine", "invite": "x"})
    page = client.get(f"/from/prolific?{query}")
    assert "<script>" not in page.text.replace("<script nonce", "")
    form = form_of(page)
    assert form["form_token"] != "mine"
    assert form["market"] == "prolific"
    assert "invite" not in form


def test_the_code_goes_in_the_link_back_and_nowhere_else(client, server, market, clock):
    (code,) = parse_qs(urlsplit(market.finish(PID)).query)["cc"]
    ready = client.post(
        "/arrive", data=form_of(client.get(link(server, market, clock)))
    )
    assert code not in ready.text


def test_safety_41_a_signed_call_counts_once_and_a_forged_one_never(
    client, house, server, market, clock
):
    market.collect("")
    now = datetime.fromtimestamp(clock() / 1e6, UTC)
    good = server.call(b"{}", now)
    codes = [
        client.post(f"/hooks/{name}", content=body, headers=headers).status_code
        for name, body, headers in (
            ("prolific", b"{}", good),
            ("prolific", b"{}", {**good, "x-event-id": "2"}),
            ("prolific", b"{ }", good),
            ("inhouse", b"{}", good),
            ("nobody", b"{}", good),
        )
    ]
    assert codes == [204, 204, 401, 404, 404]
    with house.store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM webhook_delivery") == 1
        assert collecting.latest_calls(tx) == {"prolific": clock()}


def test_safety_44_calls_are_limited_for_each_address(make_app):
    app = make_app(call=Rate(per_minute=60, burst=2))
    statuses = [
        TestClient(app, base_url=PAGE, client=(host, 1)).post("/hooks/prolific")
        for host in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2")
    ]
    assert [one.status_code for one in statuses] == [401, 401, 429, 401]


def test_calls_are_forgotten_after_a_day(house, clock):
    for hours in (0, 1, 25, 26):
        clock.now += hours * 3_600_000_000
        with house.store.write() as tx:
            assert collecting.note_call(tx, "prolific", f"call-{hours}", clock())
    with house.store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM webhook_delivery") == 1
