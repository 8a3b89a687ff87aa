"""Notices: written with what they tell of, signed, delivered at least once, and logged."""

import base64
import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from sqlalchemy import delete, insert, update
from standardwebhooks import Webhook, WebhookVerificationError

from connectors.http.client import Http
from dispatcher.app.leadership import Standby, take_lease
from dispatcher.core.config import NoticeSettings
from dispatcher.core.errors import (
    Conflict,
    Invalid,
    NotFound,
    StaleLease,
)
from dispatcher.core.keyring import make_keyring
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.ledger.limit_usage import LimitUsage, LimitUsages
from dispatcher.model import ALIVE, NOTICES, TEST, Budget, Outbox, Run
from dispatcher.notices.delivering import WAITS, Delivering, DeliveryTerms
from dispatcher.notices.mail import NotMailed
from dispatcher.operations import notices as operations
from dispatcher.operations.dry_run import rolled_back
from dispatcher.operations.notices import Watching, tell_stopped
from dispatcher.operations.workspace import Workspace
from dispatcher.store import events, lease, open_store, rekey, settings
from dispatcher.store import notices as rows
from dispatcher.store.audit_log import Act
from dispatcher.store.notices import MAIL
from dispatcher.store.settings import TickFailure
from dispatcher.store.vault import KeyFile
from tests import builders, sql
from tests.conftest import START, counting_entropy
from tests.contract.receiver import receiving
from tests.integration.ledger_cases import PAIR, Case, policy

HERE = NoticeSettings(allow_private=("127.0.0.1",))
MAILED = HERE.model_copy(
    update={"host": "mail.example", "sender": "d@example.org", "to": ("a@example.org",)}
)
HOUR = 3600
PAYLOAD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "timestamp", "data"],
    "properties": {
        "type": {"enum": list(NOTICES)},
        "timestamp": {"type": "string", "pattern": r"^\d{4}-.*\.\d{3}Z$"},
        "data": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "integer"},
                    {"type": "string", "maxLength": 200},
                ]
            },
        },
    },
}


class Post:
    """Takes mails, or refuses them."""

    def __init__(self):
        self.mails, self.error = [], None

    def __call__(self, settings, directory, mail):
        if self.error:
            raise NotMailed(self.error)
        self.mails.append(mail)


class House:
    """A store whose leader delivers notices, and a workspace of an operator."""

    def __init__(self, store, clock, folder):
        self.store, self.clock = store, clock
        self.workspace = Workspace(folder, clock=clock)
        self.workspace.config = self.workspace.config.model_copy(
            update={"notices": HERE}
        )
        self.entropy = counting_entropy()
        self.post = Post()
        self.epoch = take_lease(store, clock, "host:1")
        self.delivering = self.new()

    def new(self, settings=HERE, **more):
        terms = DeliveryTerms(settings, console="https://d.example.org")
        more = {"send": self.post, **more}
        return Delivering(self.store, self.clock, terms, **more)

    def hook(self, url, *types):
        return operations.add_webhook(
            self.workspace, self.store, url, types, entropy=self.entropy
        )

    def write(self, kind="policy.activated", **data):
        with self.store.write() as tx:
            return rows.add(tx, self.clock(), kind, data or {"event": 1})

    def tick(self):
        return self.delivering.tick(self.epoch)

    def log(self, to=1):
        return operations.deliveries(self.store, to)

    def written(self):
        return rows_of(self.store)


def rows_of(store):
    """All notices of a store, by their types and data."""
    with store.read() as tx:
        found = sql.rows(tx, "SELECT type, data FROM notice ORDER BY id")
    return [(kind, json.loads(data)) for kind, data in found]


@pytest.fixture
def house(store, clock, tmp_path):
    return House(store, clock, tmp_path)


@pytest.fixture
def outside():
    with receiving() as receiver:
        yield receiver


def answer(status, headers=(), body=b""):
    return lambda request: (status, dict(headers), body)


# -- the table -------------------------------------------------------------------------


def test_every_notice_says_what_it_is_about_and_stands_on_its_page():
    root = Path(__file__).parents[2]
    page = (root / "docs/howto/operators/notices.md").read_text("utf-8")
    told = re.findall(r"^\| `([a-z.]+)` \| (night|day|no) \|", page, re.MULTILINE)
    assert dict(told) == {name: kind.mail for name, kind in NOTICES.items()}
    sources = "".join(
        path.read_text("utf-8") for path in (root / "dispatcher").rglob("*.py")
    )
    for name, kind in NOTICES.items():
        asked = set(re.findall(r"{(\w+)}", kind.text + kind.fix))
        assert asked == set(kind.data), name
        written = len(re.findall(f'"{name}"', sources))
        assert written >= 2 or name in (ALIVE, TEST), f"nothing writes {name}"


# -- messages --------------------------------------------------------------------------


def test_safety_42_a_message_is_signed_has_ids_only_and_any_library_verifies_it(
    house, outside
):
    secret = house.hook(f"{outside.url}/in?key=k").secret
    number = house.write("limit.crossed", event=7)
    assert house.tick() == 1
    (request,) = outside.requests
    headers, body = request.headers, request.body
    assert (request.method, request.path) == ("POST", "/in?key=k")
    assert len(body) < 20_000
    message = json.loads(body)
    jsonschema.validate(message, PAYLOAD)
    moment = datetime.fromtimestamp(START / 1e6, UTC).isoformat(timespec="milliseconds")
    assert message == {
        "type": "limit.crossed",
        "timestamp": moment.replace("+00:00", "Z"),
        "data": {"event": 7},
    }
    raw = base64.b64decode(secret.removeprefix("whsec_"))
    assert secret.startswith("whsec_")
    assert 24 <= len(raw) <= 64
    stamp = headers["webhook-timestamp"]
    assert int(stamp) == START // 1_000_000
    signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
    mac = base64.b64encode(hmac.new(raw, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"
    with pytest.raises(WebhookVerificationError, match="too"):
        Webhook(secret).verify(body, dict(headers))  # the signature fits, not the year
    (row,) = house.log()
    assert (row.state, row.attempts, row.status, row.error) == ("sent", 1, 200, None)
    assert row.message == headers["webhook-id"]
    assert number == 1


def test_safety_42_each_webhook_has_its_secret_and_a_new_one_signs_beside_the_old(
    house, outside, clock
):
    first, other = house.hook(outside.url), house.hook(outside.url)
    assert first.secret != other.secret
    made = operations.rotate_secret(
        house.workspace, house.store, first.id, entropy=house.entropy
    )
    assert made.old_until == START + 24 * HOUR * 1_000_000

    def signers():
        """Secrets that signed the newest message to the first webhook."""
        outside.requests.clear()
        house.write()
        house.tick()
        (mine,) = [
            one
            for one in outside.requests
            if signed_by(one, made.secret) or signed_by(one, first.secret)
        ]
        assert not signed_by(mine, other.secret)
        return [signed_by(mine, made.secret), signed_by(mine, first.secret)]

    assert signers() == [True, True]
    clock.advance(24 * HOUR - 1)
    assert signers() == [True, True]
    clock.advance(1)
    assert signers() == [True, False]
    with pytest.raises(NotFound):
        operations.rotate_secret(house.workspace, house.store, 9)


def signed_by(request, secret):
    at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    wanted = Webhook(secret).sign(
        request.headers["webhook-id"], at, request.body.decode()
    )
    return wanted in request.headers["webhook-signature"].split(" ")


def test_safety_32_a_secret_is_sealed_and_wrapped_anew_with_the_rest(
    sqlite_path, clock, tmp_path
):
    file = KeyFile(tmp_path / "dispatcher.key")
    with open_store(sqlite_path) as store:
        house = House(store, clock, tmp_path)
        made = house.hook("https://hooks.example.org/")
        with store.read() as tx:
            assert rekey.remaining(tx)["webhook"] == 1
        new = operations.rotate_secret(
            house.workspace, store, made.id, entropy=house.entropy
        )
    make_keyring(file.path, counting_entropy())
    with open_store(sqlite_path, key_file=file) as store:
        rekey_store(store, file)
        rekey_store(store, file, new_key=True, forget_old=True)
        with store.read() as tx:
            row = rows.webhook(tx, made.id)
            found = rows.secrets_of(tx, row, START)
        texts = [base64.b64encode(one).decode() for one in found]
        assert texts == [one.secret.removeprefix("whsec_") for one in (new, made)]
        assert not {bytes(row.secret), bytes(row.old_secret)} & set(found)


# -- what goes wrong outside -----------------------------------------------------------


def test_a_delivery_is_tried_again_at_its_times_under_one_id_and_then_given_up(
    house, outside, clock
):
    outside.respond = answer(500)
    house.hook(outside.url)
    house.write()
    tried = []
    for _ in range(len(WAITS) + 2):
        if house.tick() == 0 and len(outside.requests) > len(tried):
            tried.append(clock())
        (row,) = house.log()
        if row.state == "failed":
            break
        clock.now = row.due - 1
        house.tick()
        assert len(outside.requests) == len(tried), "too early"
        clock.now = row.due
    waits = [after - before for before, after in pairwise(tried)]
    assert len(tried) == 10
    for wait, wanted in zip(waits, WAITS[1:], strict=True):
        assert wanted <= wait <= 1.1 * wanted
    assert len({one.headers["webhook-id"] for one in outside.requests}) == 1
    assert len({one.body for one in outside.requests}) == 1
    assert (row.attempts, row.status, row.error) == (10, 500, "the answer is 500")
    clock.advance(20 * 24 * HOUR)
    assert house.tick() == 0
    outside.respond = answer(204)
    house.delivering = house.new()  # as after a restart: its rests are forgotten
    assert operations.redeliver(house.workspace, house.store, row.id) == 1
    assert house.tick() == 1
    assert len({one.headers["webhook-id"] for one in outside.requests}) == 1


def test_gone_disables_a_webhook_tells_of_it_and_a_test_that_arrives_enables_it(
    house, outside
):
    house.hook(outside.url)
    outside.respond = answer(410)
    house.write()
    house.write()
    house.tick()
    assert len(outside.requests) == 1
    assert [row.state for row in house.log()] == ["failed", "failed"]
    assert house.written()[-1] == ("webhook.disabled", {"webhook": 1})
    with pytest.raises(Conflict, match="disabled"):
        operations.redeliver(house.workspace, house.store, 1)
    house.write()
    house.tick()
    assert len(outside.requests) == 1, "nothing more goes there"
    assert operations.send_test(house.workspace, house.store, 1).error
    assert operations.show_webhook(house.workspace, house.store, 1).state == "disabled"
    outside.respond = answer(200)
    assert operations.send_test(house.workspace, house.store, 1).error is None
    assert operations.show_webhook(house.workspace, house.store, 1).state == "active"
    assert json.loads(outside.requests[-1].body)["type"] == "notices.test"
    house.write()
    assert house.tick() == 1


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("redirect", "the answer is 302 (redirects are not followed)"),
        ("huge", "the answer has more than 65536 bytes"),
        ("cut", "127.0.0.1 gave no whole answer|127.0.0.1 does not answer in HTTP"),
        ("no tls", "127.0.0.1 shows a certificate that is not trusted"),
        ("nobody", "127.0.0.1 cannot be reached"),
        ("private", "inner.example lies in a private network"),
    ],
)
def test_an_answer_that_is_none_is_logged_without_the_address_and_tried_again(
    house, outside, clock, how, error
):
    url, other = f"{outside.url}/secret-path", f"{outside.url}/other"
    outside.respond = {
        "redirect": answer(302, {"location": other}),
        "huge": answer(200, (), b"x" * 70_000),
        "cut": lambda request: None,
    }.get(how, answer(200))
    http = Http(private=["127.0.0.1"], seconds=30, most=1 << 16)
    if how == "no tls":
        url = url.replace("http:", "https:")
    if how == "nobody":
        url = "http://127.0.0.1:9/secret-path"
    if how == "private":
        url = "https://inner.example/secret-path"
        http = Http(resolve=lambda host, port: ["10.0.0.7"])
    house.delivering = house.new(reach=lambda: http)
    house.hook(url)
    house.write()
    assert house.tick() == 0
    (row,) = house.log()
    assert row.state == "ready"
    assert row.due > clock()
    assert re.fullmatch(error.replace("(", r"\(").replace(")", r"\)"), row.error)
    assert all(one.path == "/secret-path" for one in outside.requests)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/", "https://u:p@hooks.example.org/", "https://10.0.0.1/",
        "https://127.0.0.2/", "https://[::1]/", "https://localhost/", "ftp://x.example/",
        "https://hooks.example.org:25/", "https://169.254.169.254/latest", "https://",
        "https://h.example/" + "x" * 2000, "https://h.example/\u0416", "nonsense",
    ],
)  # fmt: skip
def test_safety_25_a_url_that_must_not_be_called_is_no_webhook(new_house, url):
    with pytest.raises(Invalid) as caught:
        new_house.hook(url)
    assert "u:p" not in str(caught.value)
    assert (
        operations.list_receivers(new_house.workspace, new_house.store).webhooks == ()
    )


@pytest.fixture
def new_house(sqlite_path, clock, tmp_path):
    with open_store(sqlite_path) as store:
        yield House(store, clock, tmp_path)


def test_a_failing_receiver_waits_alone_and_gets_all_in_order_later(
    house, outside, clock
):
    house.hook(f"{outside.url}/dead")
    house.hook(f"{outside.url}/well")
    outside.respond = lambda request: (
        (503 if request.path == "/dead" else 200),
        {},
        b"",
    )
    for number in range(5):
        house.write("record.loaded", load=number)
    assert house.tick() == 5
    paths = [one.path for one in outside.requests]
    assert sorted(paths) == ["/dead"] + ["/well"] * 5, "one failure ends its turn"
    assert [row.attempts for row in house.log()] == [0, 0, 0, 0, 1]
    outside.respond = answer(200)
    outside.requests.clear()
    clock.advance(10)
    assert house.tick() == 5
    loads = [json.loads(one.body)["data"]["load"] for one in outside.requests]
    assert loads == [0, 1, 2, 3, 4]


def test_what_was_sent_but_not_marked_comes_again_under_the_same_id(
    house, outside, clock, monkeypatch
):
    house.hook(outside.url)
    house.write()

    def killed(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Delivering, "_settle", killed)
        with pytest.raises(KeyboardInterrupt):
            house.tick()
    assert [row.state for row in house.log()] == ["ready"]
    house.delivering = house.new()
    assert house.tick() == 0, "it was counted: the next attempt has its time"
    clock.advance(6)
    assert house.tick() == 1
    first, second = outside.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_of_two_daemons_only_the_one_that_leads_delivers(house, outside, clock):
    house.hook(outside.url)
    house.write()
    clock.advance(60)
    other = take_lease(house.store, clock, "host:2")
    with pytest.raises(StaleLease):
        house.tick()
    assert outside.requests == []
    assert house.new().tick(other) == 2
    assert [json.loads(one.body) for one in outside.requests][-1]["type"] == (
        "daemon.lost"
    ), "the new leader tells that the one before was lost"
    assert house.written()[-1] == ("daemon.lost", {"epoch": house.epoch})


def test_a_daemon_that_stopped_as_told_is_not_lost(house, clock):
    with house.store.write() as tx:
        lease.release(tx, lease.SHARD, house.epoch)
    take_lease(house.store, clock, "host:2")
    take_lease(house.store, clock, "host:2")
    assert house.written() == []


def test_a_standby_that_takes_a_silent_leaders_lease_tells_of_it(house, clock):
    now = iter([0.0, 9.0]).__next__
    waits = Standby(house.store, clock, steady=now, pause=lambda _: False, me="host:2")
    assert waits.wait() == house.epoch + 1
    assert house.written() == [("daemon.lost", {"epoch": house.epoch})]


def test_a_clock_that_was_set_back_holds_no_delivery_up(house, outside, clock):
    house.hook(outside.url)
    outside.respond = answer(500)
    house.write()
    house.tick()
    outside.respond = answer(200)
    clock.advance(-400 * 24 * HOUR)
    assert house.new().tick(house.epoch) == 1
    clock.advance(800 * 24 * HOUR)
    assert house.new().tick(house.epoch) == 0
    assert len(outside.requests) == 2


def test_notices_go_after_a_month_with_their_log(house, outside, clock):
    house.hook(outside.url)
    house.write()
    house.tick()
    clock.advance(31 * 24 * HOUR)
    house.write()
    house.tick()
    assert len(house.log()) == len(house.written()) == 1


def test_a_webhook_gets_what_it_asked_for_and_a_removed_one_nothing(house, outside):
    house.hook(f"{outside.url}/some", "worker.merged", "subject.erased")
    house.hook(f"{outside.url}/all")
    house.write("worker.merged", event=1)
    house.write("policy.activated", event=2)
    house.write("of.a.newer.program", event=3)
    assert house.tick() == 3
    got = sorted((o.path, json.loads(o.body)["type"]) for o in outside.requests)
    assert got == [
        ("/all", "policy.activated"),
        ("/all", "worker.merged"),
        ("/some", "worker.merged"),
    ]
    with pytest.raises(Invalid, match=r"there is no notice worker\.murdered"):
        house.hook(outside.url, "worker.murdered")
    house.write("worker.merged", event=4)
    operations.remove_webhook(house.store, 1)
    with pytest.raises(NotFound):
        operations.remove_webhook(house.store, 1)
    assert house.tick() == 1
    with pytest.raises(NotFound):
        house.log()


def test_heartbeats_go_to_who_names_them_at_their_times_and_leave_no_log(
    house, outside, clock
):
    house.hook(f"{outside.url}/monitor", ALIVE)
    house.hook(f"{outside.url}/all")
    house.delivering = house.new(HERE.model_copy(update={"heartbeat": 60.0}))
    for _ in range(13):
        house.tick()
        clock.advance(10)
    assert [one.path for one in outside.requests] == ["/monitor"] * 3
    assert len({one.headers["webhook-id"] for one in outside.requests}) == 3
    assert json.loads(outside.requests[0].body)["type"] == ALIVE
    assert house.written() == []
    outside.respond = answer(500)
    clock.advance(60)
    assert house.tick() == 0, "one that does not arrive stops nothing"


# -- mail ------------------------------------------------------------------------------


def test_what_cannot_wait_is_mailed_at_night_and_the_rest_in_one_mail_at_its_end(
    house, clock
):
    quiet = MAILED.model_copy(update={"quiet": "20:00-07:00", "zone": "Europe/Berlin"})
    house.delivering = house.new(quiet)
    clock.now = 1_800_052_200_000_000  # 23:30 in Berlin
    house.write("connector.down", connector="mturk")
    house.write("limit.crossed", event=3)
    house.write("worker.merged", event=4)
    assert house.tick() == 1
    house.write("budget.near", run="spring; rm -rf")
    clock.advance(7.4 * HOUR)
    assert house.tick() == 0, "06:54"
    clock.advance(0.1 * HOUR)
    assert house.tick() == 2
    night, morning = house.post.mails
    assert night["Subject"] == (
        "[dispatcher] urgent: a change put somebody past a limit (event 3)"
    )
    assert night["Message-ID"] != morning["Message-ID"]
    text = morning.get_content()
    assert "2027-01-15 23:30:00+01:00  connector.down" in text
    assert "dispatcher connectors test mturk" in text
    assert "dispatcher runs show 'spring; rm -rf'" in text
    assert "https://d.example.org" in text
    assert "worker.merged" not in text
    assert [row.state for row in house.log(MAIL)] == ["sent"] * 3


def test_a_mail_that_nobody_takes_is_tried_again_but_not_into_the_quiet_hours(
    house, clock
):
    quiet = MAILED.model_copy(update={"quiet": "20:00-07:00"})
    house.delivering = house.new(quiet)
    clock.now = 1_800_043_190_000_000  # 19:59:50
    house.post.error = "mail.example refuses (451)"
    house.write("connector.down", connector="mturk")
    assert house.tick() == 0
    (row,) = house.log(MAIL)
    assert (row.state, row.attempts) == ("ready", 1)
    assert row.error == "mail.example refuses (451)"
    house.post.error = None
    clock.advance(30)
    assert house.tick() == 0
    clock.advance(11 * HOUR)
    assert house.tick() == 1
    assert len(house.post.mails) == 1


def test_mail_that_is_set_up_no_more_gives_up_what_waits_for_it(house, clock):
    house.delivering = house.new(MAILED.model_copy(update={"digest": "09:00"}))
    house.write("connector.down", connector="mturk")
    assert house.tick() == 0
    clock.advance(25 * HOUR)
    house.delivering = house.new(HERE)
    assert house.tick() == 0
    assert [row.state for row in house.log(MAIL)] == ["failed"]
    with pytest.raises(Conflict, match="mail is not set up"):
        operations.send_test(house.workspace, house.store, MAIL)


# -- where notices come from -----------------------------------------------------------


def test_a_notice_is_written_with_its_event_and_its_act_or_not_at_all(house, clock):
    with house.store.write() as tx:
        number = events.add_event(tx, clock(), "eve", "worker.merged", {"adversary": 4})
        events.add_event(tx, clock(), "eve", "account.blocked", {"account": 4})
    with rolled_back(house.store) as tx:
        events.add_event(tx, clock(), "eve", "limit.crossed", {})
    act = Act("ann", "command", "workers.add", clock)
    act.end(house.store)
    Act("ann", "command", "workers.add", clock).end(house.store, "E100")
    Act("ann", "command", "workers.block", clock).end(house.store)
    assert house.written() == [
        ("worker.merged", {"event": number}),
        ("worker.registered", {"act": 1}),
    ]


CAP = {
    "currency": "EUR",
    "cap": 100,
    "reward": 0,
    "bonus": 1,
    "fee": 0,
} | dict.fromkeys(("paid", "day", "day_taken"), 0)


class Nearness(LimitUsages):
    """Says what a test wants of limits."""

    def __init__(self):
        super().__init__()
        self.usages = {}

    def look(self, tx):
        return {1: self.usages}


def test_a_state_is_told_of_once_when_it_begins_and_again_when_there_is_more(
    house, clock
):
    nearness = Nearness()
    watching = Watching(house.store, clock, 0.9, nearness, lambda: clock() / 1e6)

    def look():
        before = len(house.written())
        watching.tick(house.epoch)
        return house.written()[before:]

    def change(*statements):
        with house.store.write() as tx:
            for one in statements:
                tx.execute(one)

    def waiting(number, connector, state):
        return insert(Outbox).values(
            id=number, kind="publish", connector=connector, state=state, attempts=5,
            due=0, created_at=0, account_id=1, epoch=0, error="x",
        )  # fmt: skip

    assert look() == []
    change(*(waiting(n, "mturk", "ready") for n in (1, 2)))
    change(waiting(3, "folder", "dead"))
    assert look() == [
        ("connector.down", {"connector": "mturk"}),
        ("deadletter.created", {"connector": "folder"}),
    ]
    assert look() == []
    change(waiting(4, "folder", "dead"), delete(Outbox).where(Outbox.id < 3))
    assert look() == [
        ("connector.recovered", {"connector": "mturk"}),
        ("deadletter.created", {"connector": "folder"}),
    ]
    change(delete(Outbox).where(Outbox.id == 4))
    assert look() == []
    change(waiting(5, "folder", "dead"))
    assert look() == [("deadletter.created", {"connector": "folder"})]

    change(
        insert(Run).values(id=7, name="r", state="active", created_at=0),
        insert(Budget).values(run_id=7, taken=79, **CAP),
    )
    assert look() == []
    change(update(Budget).values(taken=80))
    assert look() == [("budget.near", {"run": "r"})]
    change(update(Budget).values(taken=100))
    assert look() == [("budget.spent", {"run": "r"})]

    nearness.usages = {"pair": LimitUsage(f=1, tau=1, units=1, worst=1)}
    assert look() == [("limit.near", {"rule": "pair"})]
    with house.store.write() as tx:
        settings.note_moment(tx, settings.BACKUP_MADE, clock())
        failing = {"planning": TickFailure("E701", clock())}
        failing["sealing"] = TickFailure("E001", clock())
        settings.note_failing_ticks(tx, failing)
    assert look() == [("plan.infeasible", {"code": "E701"})]
    clock.advance(300)
    assert look() == [("daemon.failing", {"tick": "sealing", "code": "E001"})]
    clock.advance(26 * HOUR)
    assert look() == [("backup.overdue", {})]
    change(delete(Outbox))
    with pytest.raises(StaleLease):
        watching.tick(house.epoch + 1)


def test_a_run_is_told_of_when_it_is_complete_and_again_after_more_was_loaded(
    store, clock
):
    case = Case(store)
    case.apply(policy(PAIR))
    watching = Watching(store, clock, 0.9, LimitUsages(), lambda: 0.0)
    epoch = take_lease(store, clock, "host:1")

    def look():
        before = rows_of(store)
        watching.tick(epoch)
        return rows_of(store)[len(before) :]

    case.load(("r1", "p1", 1, "ab"))
    entries = case.entries
    builders.save_results(store, [entries["r1.a"]])
    assert look() == []
    builders.save_results(store, [entries["r1.b"]])
    assert look() == [("run.completed", {"run": "default"})]
    assert look() == []
    case.load(("r2", "p2", 1, "a"))
    builders.save_results(store, [case.entries["r2.a"]])
    assert look() == [("run.completed", {"run": "default"})]
    case.load(("r3", "p3", 1, "ab"))
    builders.save_results(store, [case.entries["r3.a"]])
    builders.save_results(store, [case.entries["r3.b"]], "conflict")
    assert look() == [("answer.disputed", {})]


def test_counts_that_take_long_are_rarer_and_hold_up_nothing_else(house, clock):
    now = iter([0.0, 2.0, 101.0, 102.0, 103.0]).__next__
    nearness = Nearness()
    watching = Watching(house.store, clock, 0.9, nearness, now)
    watching.tick(house.epoch)
    nearness.usages = {"pair": LimitUsage(f=1, tau=1, units=1, worst=1)}
    with house.store.write() as tx:
        settings.note_moment(tx, settings.BACKUP_MADE, 0)
    watching.tick(house.epoch)
    assert house.written() == [("backup.overdue", {})], (
        "it rests for fifty times as long"
    )
    watching.tick(house.epoch)
    assert house.written()[1:] == [("limit.near", {"rule": "pair"})]


def test_a_daemon_that_stops_by_itself_tells_why_before_it_ends_but_once(
    house, outside
):
    house.hook(outside.url)
    with house.store.write() as tx:
        lease.release(tx, lease.SHARD, house.epoch)
    for _ in range(2):
        tell_stopped(house.workspace, house.store, "E204")
    (request,) = outside.requests
    assert json.loads(request.body)["data"] == {"code": "E204"}
    outside.respond = answer(500)
    tell_stopped(house.workspace, house.store, "E205")  # it stops in any case


# -- commands --------------------------------------------------------------------------


def test_commands_add_try_list_rotate_and_remove(run, tmp_path, outside):
    assert run("init").code == 0
    file = tmp_path / "dispatcher.toml"
    plain = file.read_text()
    file.write_text(f'{plain}\n[notices]\nallow_private = ["127.0.0.1"]\n')
    made = run("notices", "add", outside.url, "--event", "limit.crossed", "--json")
    secret = json.loads(made.out)["secret"]
    assert run("notices", "test", "1").code == 0
    assert signed_by(outside.requests[0], secret)
    assert secret not in run("notices", "list").out
    (sent,) = json.loads(run("notices", "deliveries", "1", "--json").out)["deliveries"]
    assert (sent["type"], sent["state"]) == ("notices.test", "sent")
    assert run("notices", "redeliver", sent["id"]).code == 0
    new = json.loads(run("notices", "rotate", "1", "--json").out)
    assert new["secret"] != secret
    assert run("notices", "test", "1").code == 0
    assert signed_by(outside.requests[1], secret)
    assert signed_by(outside.requests[1], new["secret"])
    outside.respond = answer(500)
    failed = run("notices", "test", "1")
    assert (failed.code, failed.out) == (1, "1: the answer is 500\n")
    assert run("notices", "test", "mail").code != 0
    assert run("notices", "deliveries", "nobody").code != 0
    assert run("notices", "deliveries", "2").code != 0
    assert run("notices", "redeliver", "99").code != 0
    assert "notices: 1 were given up" in run("doctor", "--only", "queue").out
    assert run("notices", "remove", "1").code == 0
    assert json.loads(run("notices", "list", "--json").out)["webhooks"] == []
    (tmp_path / "backups").write_text("no folder")
    assert run("backup", "create").code != 0
    with open_store(
        tmp_path / "dispatcher.db", key_file=KeyFile(tmp_path / "dispatcher.key")
    ) as store:
        assert [kind for kind, _ in rows_of(store)][-1] == "backup.failed"
    log = run("audit", "log", "--json").out
    assert "notices.rotate" in log
    assert secret not in log
    assert outside.url not in log
