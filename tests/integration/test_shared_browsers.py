"""Two accounts in one browser, on both databases: asked about, noted, listed, and settled."""

import json
import re

import pytest

from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.operations import workers
from dispatcher.operations.status import status
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.serving import SessionTerms
from dispatcher.stages.serving.arrivals import BROWSER_SECONDS, forget_over
from dispatcher.store import Store, lease
from dispatcher.store import arrivals as rows
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders, sql
from tests.integration.serving_house import House
from tests.integration.test_taskpage import SAME, browser, form_token, page_of


@pytest.fixture
def house(store: Store, clock) -> House:
    made = House(store, clock)
    made.account("ann")
    made.account("bob")
    made.account("cid", connector="turkle")
    return made


@pytest.fixture
def make_app(house, rng):
    def make(shared: str = "note"):
        return task_app(
            house.store,
            {"inhouse": house.market(), "turkle": house.turkle()},
            clock=house.clock,
            rng=rng,
            sessions=SessionTerms(shared_browser=shared),
            settings=PageSettings(neutral=0),
        )

    return make


def come(client, house, name: str, **more: str):
    return client.post("/arrive", data={"invite": house.invite(name), **more})


def pairs(house) -> list[tuple[str, str]]:
    with house.store.read() as tx:
        return [(one.first, one.second) for one in rows.suspects(tx)]


def say(client, page, person: str):
    """Answer whether the other account of this browser is the same person's."""
    assert (page_of(page), page.status_code) == ("same", 200)
    identified = re.search(r'name="identified" value="([^"]+)"', page.text)[1]
    return client.post("/same", data={"identified": identified, "person": person})


def signed_in(house) -> str:
    """Whose sessions there are."""
    asked = "SELECT a.name FROM worker_session s JOIN account a ON a.id = s.account_id"
    with house.store.read() as tx:
        return ",".join(sorted(name for (name,) in sql.rows(tx, asked)))


# -- whose session it is -----------------------------------------------------------------


@pytest.mark.parametrize(("go_on", "stays"), [("first", "ann"), ("other", "bob")])
def test_a_second_persons_link_asks_who_goes_on(make_app, house, go_on, stays):
    client = browser(make_app(), headers=SAME)
    come(client, house, "ann")
    page = come(client, house, "bob")
    assert page_of(page) == "whose"
    assert (page.status_code, page.url.path) == (200, "/whose")
    assert "Continue as ann" in page.text
    assert "Sign out and continue as bob" in page.text
    assert house.invite("bob") not in page.text
    assert page_of(client.get("/")) == "ready"  # nothing has changed so far
    page = client.post("/whose", data={"go_on": go_on})
    assert page_of(page) == "ready"
    assert signed_in(house) == stays
    assert "task-other" not in client.cookies


def test_who_goes_on_as_somebody_signed_out_meanwhile_ends_the_other_as_well(
    make_app, house
):
    app = make_app()
    client = browser(app, headers=SAME)
    come(client, house, "ann")
    first = client.cookies["task"]
    come(client, house, "bob")
    browser(app, headers=SAME, cookies={"task": first}).post("/leave")
    assert page_of(client.post("/whose", data={"go_on": "first"})) == "arrive"
    assert "task-other" not in client.cookies
    assert signed_in(house) == ""


def test_who_goes_on_is_asked_without_scripts_and_fetch_headers(make_app, house):
    client = browser(make_app())
    first = client.get("/")
    page = come(client, house, "ann", form_token=form_token(first))
    page = come(client, house, "bob", form_token=form_token(page))
    token = form_token(page)
    assert client.post("/whose", data={"go_on": "other"}).status_code == 403
    page = client.post("/whose", data={"go_on": "other", "form_token": token})
    assert page_of(page) == "ready"


def test_ones_own_link_asks_nothing(make_app, house):
    client = browser(make_app(), headers=SAME)
    come(client, house, "ann")
    assert page_of(come(client, house, "ann")) == "ready"
    assert pairs(house) == []


def test_a_link_that_does_not_hold_changes_nothing(make_app, house):
    client = browser(make_app(), headers=SAME)
    come(client, house, "ann")
    assert client.post("/arrive", data={"invite": "x"}).status_code == 403
    assert page_of(client.get("/")) == "ready"


def test_nothing_is_asked_where_nobody_is_signed_in_any_more(make_app, house):
    client = browser(make_app(), headers=SAME)
    for method in (client.get, client.post):
        assert page_of(method("/whose")) == "arrive"


# -- two accounts in one browser ---------------------------------------------------------


@pytest.fixture
def shared(make_app, house):
    """A browser in which ann worked and signed out; then bob comes."""
    client = browser(make_app(), headers=SAME)
    come(client, house, "ann")
    client.post("/leave")
    assert page_of(come(client, house, "bob")) == "ready"
    return client


def test_two_accounts_in_one_browser_are_noted(shared, house):
    assert pairs(house) == [("inhouse/ann", "inhouse/bob")]
    with house.store.read() as tx:
        kept = str(sql.rows(tx, "SELECT * FROM browser_arrival"))
        told = sql.rows(tx, "SELECT detail FROM event WHERE action = 'browser.shared'")
    assert shared.cookies["task-browser"] not in kept
    assert [json.loads(one) for (one,) in told] == [
        {"accounts": [1, 2], "then": "note"}
    ]


def test_workers_of_markets_count_too(shared, house):
    code = house.turkle().invite("cid", "1", house.soon())
    shared.post("/leave")
    shared.post("/arrive", data={"invite": f"turkle~{code}"})
    assert ("inhouse/bob", "turkle/cid") in pairs(house)
    assert len(pairs(house)) == 3


def test_two_browsers_tell_nothing(make_app, house):
    for name in ("ann", "bob"):
        come(browser(make_app(), headers=SAME), house, name)
    assert pairs(house) == []


@pytest.fixture
def workspace(tmp_path, clock):
    return Workspace(directory=tmp_path, clock=clock)


def test_they_need_you_and_each_shows_the_other(shared, house, clock, workspace):
    told = status(house.store, clock())
    assert told.suspects == 1
    assert (
        "1 pair of accounts arrived with one browser and may be one person: "
        "dispatcher workers suspects"
    ) in told.needs_you
    assert workers.show(workspace, house.store, "inhouse/ann").may_be == (
        "inhouse/bob",
    )
    assert workers.show(workspace, house.store, "turkle/cid").may_be == ()


def test_they_are_listed_with_what_a_merge_would_do(shared, house, workspace):
    entries = house.record(1, name="Ada", disease="flu")
    for name, entry in (("ann", entries["name"]), ("bob", entries["disease"])):
        with house.store.read() as tx:
            found = sql.value(tx, "SELECT id FROM account WHERE name = ?", [name])
        saw(house, found, entry)
    (one,) = workers.suspects(workspace, house.store, 20)
    assert one.accounts == ("inhouse/ann", "inhouse/bob")
    assert one.merge.by_rule == {"who-what": 1}
    assert one.merge.merged.entries == 2
    assert pairs(house) == [one.accounts]  # nothing was changed
    workers.merge(workspace, house.store, [one.accounts], "one desk", accept_past=1)
    assert pairs(house) == []
    assert status(house.store, house.clock()).suspects == 0


def saw(house, account_id: int, entry_id: int) -> None:
    with house.store.write() as tx:
        delivery = Pull(leased_until=house.clock() + 1)
        book(tx, [Asks(account_id, [entry_id])], delivery=delivery, at=house.clock(),
             cause="served")  # fmt: skip


def test_two_people_are_not_named_again(shared, make_app, house, workspace):
    workers.distinguish(workspace, house.store, "inhouse/bob", "inhouse/ann", "twins")
    assert pairs(house) == []
    shared.post("/leave")
    refusing = browser(make_app("refuse"), headers=SAME)
    refusing.cookies = shared.cookies
    assert page_of(come(refusing, house, "ann")) == "ready"
    assert pairs(house) == []


def test_a_shared_browser_is_refused_where_it_is_to_be(make_app, house):
    client = browser(make_app("refuse"), headers=SAME)
    come(client, house, "ann")
    page = come(client, house, "bob")
    assert (page.status_code, page_of(page)) == (403, "message")
    assert "Another account works in this browser" in page.text
    assert signed_in(house) == "ann"
    assert pairs(house) == [("inhouse/ann", "inhouse/bob")]


def test_who_is_refused_does_not_keep_the_first_one_out(make_app, house):
    client = browser(make_app("refuse"), headers=SAME)
    come(client, house, "ann")
    client.post("/leave")
    assert come(client, house, "bob").status_code == 403
    assert page_of(come(client, house, "ann")) == "ready"
    assert pairs(house) == [("inhouse/ann", "inhouse/bob")]


def test_a_shared_browser_makes_one_worker_where_it_is_to_be(make_app, house):
    client = browser(make_app("merge"), headers=SAME)
    come(client, house, "ann")
    page = come(client, house, "bob")
    assert "A link of bob was opened" in page.text
    assert house.invite("bob") not in page.text
    assert signed_in(house) == "ann"  # nothing has changed so far
    assert page_of(say(client, page, "same")) == "ready"
    assert signed_in(house) == "bob"  # what the first one had is over
    assert house.ask("SELECT count(DISTINCT adversary_id) FROM account") == 2
    assert house.count("ledger_line", "kind = 'join'") == 2
    assert pairs(house) == []
    client.post("/leave")
    assert page_of(come(client, house, "ann")) == "ready"


def test_what_is_past_a_limit_by_a_merge_only_an_operator_accepts(make_app, house):
    entries = house.record(1, name="Ada", disease="flu")
    saw(house, 1, entries["name"])
    saw(house, 2, entries["disease"])
    client = browser(make_app("merge"), headers=SAME)
    come(client, house, "ann")
    assert say(client, come(client, house, "bob"), "same").status_code == 403
    assert pairs(house) == [("inhouse/ann", "inhouse/bob")]
    assert house.count("ledger_line", "kind = 'join'") == 0
    client.post("/leave")
    assert page_of(come(client, house, "ann")) == "ready"


def test_who_opens_another_workers_link_does_not_become_one_with_them(make_app, house):
    client = browser(make_app("merge"), headers=SAME)
    come(client, house, "ann")
    page = say(client, come(client, house, "bob"), "other")
    assert (page.status_code, page_of(page)) == (403, "message")
    assert signed_in(house) == "ann"
    assert house.count("ledger_line", "kind = 'join'") == 0
    assert pairs(house) == [("inhouse/ann", "inhouse/bob")]
    client.post("/leave")
    assert page_of(come(client, house, "ann")) == "ready"


def test_only_the_browser_that_was_asked_can_say_so_and_only_for_a_while(
    make_app, house, clock
):
    app = make_app("merge")
    client = browser(app, headers=SAME)
    come(client, house, "ann")
    page = come(client, house, "bob")
    other = browser(app, headers=SAME)
    come(other, house, "ann")
    assert say(other, page, "same").status_code == 403
    clock.advance(600)
    assert say(client, page, "same").status_code == 403
    page = come(client, house, "bob")
    builders.revoke_invites(house.store, "inhouse/bob")  # the link was made anew
    assert say(client, page, "same").status_code == 403
    for text in ("", "x", "é", "A" * 200):
        data = {"identified": text, "person": "same"}
        assert client.post("/same", data=data).status_code in (400, 403)
    assert house.count("ledger_line", "kind = 'join'") == 0


def test_a_browser_is_forgotten_and_the_pair_is_not(shared, house, clock):
    with house.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "test", clock(), clock() + 10**15)
    clock.advance(BROWSER_SECONDS)
    forget_over(house.store, clock, epoch)
    assert house.count("browser_arrival") == 3
    clock.advance(1)
    forget_over(house.store, clock, epoch)
    assert house.count("browser_arrival") == 0
    assert len(pairs(house)) == 1
