"""Sessions of workers, on both databases: what ends one ends every copy of its cookie.

Statement 4 of the safety list, for the task page; ``test_access.py`` has the console's.
"""

import hashlib

import pytest

from connectors.base import Arrival, Identity
from dispatcher.ledger import identity_changes
from dispatcher.stages.serving import Arrivals, SessionTerms
from dispatcher.stages.serving.arrivals import forget_over
from dispatcher.store import Store, lease
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders, sql
from tests.integration.serving_house import House
from tests.integration.test_taskpage import SAME, arrived, browser, page_of, token_of

HOUR = 3600


@pytest.fixture
def house(store: Store, clock) -> House:
    return House(store, clock)


@pytest.fixture
def make_app(house, rng):
    def make(**terms):
        return task_app(
            house.store,
            {"inhouse": house.market()},
            clock=house.clock,
            rng=rng,
            sessions=SessionTerms(**terms),
            settings=PageSettings(neutral=0),
        )

    return make


@pytest.fixture
def app(make_app):
    return make_app()


def copy_of(client, app):
    """Another browser with the session's cookie, as somebody would copy it."""
    copied = browser(app, cookies={"task": client.cookies["task"]})
    copied.headers.update(SAME)
    return copied


def sign_out(client, house):
    client.post("/leave")


def block_and_unblock(_, house):
    builders.block(house.store, "inhouse/ann")
    builders.unblock(house.store, "inhouse/ann")


def invite_anew(_, house):
    builders.revoke_invites(house.store, "inhouse/ann")


def leave_and_come_back(client, house):
    client.post("/me/leave", data={"sure": "yes"})
    builders.unblock(house.store, "inhouse/ann")


def merge(_, house):
    with house.store.write() as tx:
        identity_changes.merge(
            tx, [["inhouse/ann", "inhouse/bob"]], because="same desk", at=house.clock()
        )


@pytest.mark.parametrize(
    "end", [sign_out, block_and_unblock, invite_anew, leave_and_come_back, merge]
)
def test_safety_4_a_copied_cookie_opens_nothing_after(app, house, end):
    house.account("ann")
    house.account("bob")
    client, other = arrived(app, house, "ann"), arrived(app, house, "bob")
    copied = copy_of(client, app)
    assert page_of(copied.get("/")) == "ready"
    end(client, house)
    assert page_of(copied.get("/")) == "arrive"
    assert page_of(copied.post("/start")) == "arrive"
    assert page_of(other.get("/")) == ("arrive" if end is merge else "ready")


@pytest.mark.parametrize("way", ["/leave", "/me/leave", "another link"])
def test_safety_4_a_second_persons_session_ends_with_the_first(app, house, way):
    """It waited for the answer who goes on."""
    for name in ("ann", "bob"):
        house.account(name)
    client = arrived(app, house, "ann")
    asked = client.post("/arrive", data={"invite": house.invite("bob")})
    assert page_of(asked) == "whose"
    second = browser(app, cookies={"task": client.cookies["task-other"]})
    assert page_of(second.get("/")) == "ready"
    if way == "another link":
        client.post("/arrive", data={"invite": house.invite("ann")})
    else:
        client.post(way, data={"sure": "yes"})
    assert page_of(second.get("/")) == "arrive"
    assert page_of(client.get("/whose")) != "whose"


def test_safety_4_arriving_anew_ends_the_session_before(app, house):
    house.account("ann")
    client = arrived(app, house, "ann")
    copied = copy_of(client, app)
    client.post("/arrive", data={"invite": house.invite("ann")})
    assert page_of(client.get("/")) == "ready"
    assert client.cookies["task"] != copied.cookies["task"]
    assert page_of(copied.get("/")) == "arrive"


def test_safety_4_a_session_ends_when_nobody_uses_it(make_app, house, clock):
    app = make_app(idle=600, absolute=HOUR)
    house.account("ann")
    client = arrived(app, house, "ann")
    for _ in range(3):
        clock.advance(590)
        assert page_of(client.get("/")) == "ready"
    clock.advance(600)
    assert page_of(client.get("/")) == "arrive"


def test_safety_4_a_session_ends_after_its_absolute_time(make_app, house, clock):
    app = make_app(idle=600, absolute=1000)
    house.account("ann")
    client = arrived(app, house, "ann")
    for seconds, page in ((500, "ready"), (499, "ready"), (1, "arrive")):
        clock.advance(seconds)
        assert page_of(client.get("/")) == page


def test_a_session_ends_with_the_invitation(make_app, house, clock):
    house.account("ann")
    client = browser(make_app(idle=24 * HOUR), headers=SAME)
    client.post("/arrive", data={"invite": house.invite("ann", hours=2)})
    clock.advance(2 * HOUR - 1)
    assert page_of(client.get("/")) == "ready"
    clock.advance(1)
    assert page_of(client.get("/")) == "arrive"


def test_a_session_is_over_where_the_clock_is_before_its_beginning(app, house, clock):
    house.account("ann")
    client = arrived(app, house, "ann")
    clock.advance(-59)  # another server's clock
    assert page_of(client.get("/")) == "ready"
    clock.advance(-2)
    assert page_of(client.get("/")) == "arrive"


def test_safety_4_the_store_has_no_cookie_and_its_ids_have_256_bits(app, house):
    house.account("ann")
    cookies = {arrived(app, house, "ann").cookies["task"] for _ in range(5)}
    assert len(cookies) == 5
    with house.store.read() as tx:
        kept = str(sql.rows(tx, "SELECT * FROM worker_session"))
    for cookie in cookies:
        assert len(cookie) == 43  # 32 bytes in base64
        assert cookie not in kept
        assert hashlib.sha256(cookie.encode()).hexdigest() not in kept


@pytest.mark.parametrize(
    ("end", "words"), [("blocked", "Your account is closed"), ("left", "You have left")]
)
def test_who_is_out_is_told_so_by_a_link_that_held(app, house, end, words):
    house.account("ann")
    code = house.invite("ann")
    if end == "left":
        arrived(app, house, "ann").post("/me/leave", data={"sure": "yes"})
    else:
        builders.block(house.store, "inhouse/ann")
    told = browser(app, headers=SAME).post("/arrive", data={"invite": code})
    assert (told.status_code, page_of(told)) == (403, "arrive")
    assert words in told.text
    assert "What you have earned stays yours" in told.text
    assert "task" not in told.cookies
    older = house.invite("ann", number=0)
    asked = browser(app, headers=SAME).post("/arrive", data={"invite": older})
    assert words not in asked.text  # whoever found an old link learns nothing


def test_who_is_below_the_floor_is_told_and_may_finish(app, house):
    ann = house.account("ann")
    house.plan((ann, [house.record(1, name="Ada")["name"]]))
    client = arrived(app, house, "ann")
    task = f"/task/{token_of(client.post('/start'))}"
    assert "no new tasks for now" not in client.get("/").text
    builders.move_account(house.store, "inhouse/ann", "stopped")
    for path in ("/", task):
        told = client.get(path)
        assert "You are given no new tasks for now" in told.text
        assert "Your task is waiting" in told.text
    told = client.post(f"{task}/known")
    assert "You are given no new tasks for now" in told.text
    assert "Nothing of this person will be shown to you again" in told.text


@pytest.mark.parametrize("cookie", ["", "x", "x" * 43, "x" * 5000])
def test_rubbish_is_nobody(app, house, cookie):
    house.account("ann")
    client = browser(app, cookies={"task": cookie})
    assert page_of(client.get("/")) == "arrive"


def test_two_servers_of_one_store_share_sessions(make_app, house):
    house.account("ann")
    one, two = make_app(), make_app()
    client = arrived(one, house, "ann")
    there = copy_of(client, two)
    assert page_of(there.get("/")) == "ready"
    there.post("/leave")
    assert page_of(client.get("/")) == "arrive"


def test_looking_writes_at_most_once_a_minute(house, clock):
    """A Start must not wait for a commit of its own for being known again."""
    house.account("ann")
    arrivals = Arrivals(house.store, clock, SessionTerms())
    secret = arrivals.open(identified(house, arrivals), "browser")
    written = []
    for _ in range(7):
        clock.advance(20)
        assert arrivals.find(secret) is not None
        written.append(house.ask("SELECT seen_at FROM worker_session"))
    assert len(set(written)) == 3  # the beginning, a minute, two minutes


def identified(house, arrivals):
    return arrivals.identify("inhouse", Arrival("ann", Identity.SIGNED, ticket="1"))


def test_what_is_over_is_deleted(house, clock):
    house.account("ann")
    arrivals = Arrivals(house.store, clock, SessionTerms(absolute=HOUR))
    arrivals.open(identified(house, arrivals), "browser")
    with house.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "test", clock(), clock() + 10**15)
    clock.advance(HOUR - 1)
    arrivals.open(identified(house, arrivals), "browser")
    assert forget_over(house.store, clock, epoch) == 0
    clock.advance(1)
    assert forget_over(house.store, clock, epoch) == 1
    assert house.count("worker_session") == 1


def test_terms_of_sessions_that_make_no_sense_are_refused():
    for bad in ({"idle": 0}, {"absolute": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SessionTerms(**bad)
