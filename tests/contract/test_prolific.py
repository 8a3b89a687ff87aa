"""The prolific connector against an emulator of our own, over real HTTP."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from connectors.base import (
    Handle,
    Identity,
    Item,
    Money,
    Offer,
    Pay,
    PayKind,
    Progress,
    Rejected,
    Settings,
    Stranger,
    Submission,
    TryLater,
    Visit,
    Wall,
)
from connectors.errors import Misconfigured
from connectors.prolific import CONNECTOR, Prolific
from connectors.testing.listing_suite import ListingContract
from connectors.testing.payment_suite import PayingContract
from connectors.testing.suite import NOW, REWARD, Bench, offer_for
from tests.contract.prolific_server import (
    PROJECT,
    TOKEN,
    WORKSPACE,
    new_key,
    prolific_server,
)
from tests.contract.prolific_server import Prolific as Server

PAGE = "https://tasks.example.test"
ARRIVAL = f"{PAGE}/from/prolific"
PID = "5f3e1c9d2b7a4e0011223344"
SECRET = f"{TOKEN}\n{(b'k' * 32).hex()}\n".encode()
OPENED: list[Prolific] = []
ITEMS = (Item("task-1"), Item("task-2"))


@pytest.fixture
def server() -> Iterator[Server]:
    with prolific_server() as running:
        yield running
        while OPENED:
            OPENED.pop().close()


def values(server: Server, **more: str) -> dict[str, str]:
    return {
        "workspace": WORKSPACE, "project": PROJECT, "page": ARRIVAL,
        "minutes": "10", "url": server.url, "allow_private": "127.0.0.1", **more,
    }  # fmt: skip


def open_at(server: Server, secret: bytes = SECRET, **more: str) -> Prolific:
    market = CONNECTOR.open(Settings(values(server, **more), secret=secret))
    assert isinstance(market, Prolific)
    OPENED.append(market)
    return market


def offer(key: str = "k1", account: str = PID) -> Offer:
    return Offer(key, account=account, items=ITEMS, link=f"{PAGE}/", reward=REWARD)


def visit_of(link: str) -> Visit:
    return Visit(dict(parse_qsl(urlsplit(link).query)))


def study_of(server: Server, handle: Handle) -> dict:
    return server.studies[handle.reference]


def forged(server: Server) -> list[Visit]:
    """Visits that must be refused, each for one reason."""
    market = open_at(server)
    study = study_of(server, market.publish(offer("forged")))
    session = server.take(PID, study)
    link = server.link(session, NOW)
    good = dict(parse_qsl(urlsplit(link).query))
    token = good.pop("prolific_token")
    aud, claims = ARRIVAL, {**good, "workspace_id": WORKSPACE}
    server.keys["strange"] = new_key()

    def signed(where: str = aud, sub: str = session, **said: str) -> str:
        return server.sign({**claims, **said}, sub, where, NOW)

    strange = server.sign(claims, session, aud, NOW, "strange")
    del server.keys["strange"]
    public = server.keys["k1"].public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.PKCS1
    )  # fmt: skip
    body = jwt.decode(token, options={"verify_signature": False})
    head, _, tail = token.split(".")
    tokens = {
        "unknown kid": strange,
        "no algorithm": jwt.encode(body, "", "none", headers={"kid": "k1"}),
        "another algorithm": jwt.encode(
            body, public[:60], "HS256", headers={"kid": "k1"}
        ),
        "no kid": jwt.encode(body, server.keys["k1"], "RS256"),
        "cut": token[:-2],
        "body of another": ".".join((head, signed().split(".")[1][:-3], tail)),
        "another place": signed("https://evil.example.test/from/prolific"),
        "another workspace": signed(workspace_id="ws2"),
        "a study of others": signed(k="0" * 32),
        "another participant": signed(PROLIFIC_PID="somebody-else"),
        "another session": signed(sub="s999"),
        "old": server.sign(claims, session, aud, NOW - timedelta(minutes=3)),
        "of tomorrow": server.sign(claims, session, aud, NOW + timedelta(days=1)),
        "text": "💥",
        "long": "x" * 10_000,
        "dots": "..",
    }
    edited = Visit({**good, "prolific_token": token, "PROLIFIC_PID": "me"})
    return [Visit({**good, "prolific_token": one}) for one in tokens.values()] + [
        edited,
        Visit(good),
    ]


CUT, FAILED = None, (500, {}, b"")
"""How an answer is lost: the connection ends, or Prolific fails once it has acted."""
lost_in_each_way = pytest.mark.parametrize("lost", [CUT, FAILED], ids=["cut", "500"])


@contextmanager
def answering(server: Server, reply) -> Iterator[None]:
    """Let Prolific answer as (request, what it would do) -> answer says."""
    respond = server.receiver.respond
    server.receiver.respond = lambda request: reply(request, respond)
    try:
        yield
    finally:
        server.receiver.respond = respond


def losing(server: Server, *ends: str, lost=CUT):
    """Let Prolific do what is asked by these paths, and its answer be lost."""

    def reply(request, respond):
        told = respond(request)
        return lost if request.path.endswith(ends) else told

    return answering(server, reply)


def doing_nothing(server: Server):
    """Let Prolific take every transition, and do nothing of it."""
    return answering(
        server,
        lambda request, respond: (
            (200, {"content-type": "application/json"}, b"{}")
            if request.path.endswith("/transition/")
            else respond(request)
        ),
    )


class TestProlific(PayingContract, ListingContract):
    @pytest.fixture
    def bench(self, server: Server) -> Bench:
        numbers = itertools.count()

        def visit(account, now):
            offered = replace(offer(f"v{next(numbers)}"), account=account)
            study = study_of(server, open_at(server).publish(offered))
            return visit_of(server.link(server.take(account, study), now))

        def answer_lost():
            """The study is published, and we never hear of it."""
            return losing(server, "/transition/")

        def end(state: str, handle: Handle, account: str) -> None:
            session = server.take(account, study_of(server, handle))
            if state == "AWAITING REVIEW":
                server.hand_in(session)
            else:
                server.end(session, state)

        return Bench(
            open=lambda: open_at(server),
            seen=lambda _: server.held(),
            copies=lambda _: len(server.studies),
            visit=visit,
            crash_after_accept=answer_lost,
            submit=partial(end, "AWAITING REVIEW"),
            give_up=partial(end, "RETURNED"),
            payments=lambda who: [
                Decimal(cents) / 100 for paid, cents in server.paid if paid == who
            ],
            lose_the_answer=lambda: losing(server, "/transition/", "/pay/"),
            remove=lambda handle: server.studies.pop(handle.reference),
        )


def test_only_its_participant_sees_a_study_and_nothing_of_a_record_lies_in_it(server):
    open_at(server).publish(offer())
    assert len(server.visible(PID)) == 1
    assert not server.visible("another")
    (study,) = server.studies.values()
    assert PID not in study["external_study_url"] + study["internal_name"]
    assert study["total_available_places"] == 1


def test_who_comes_is_whom_prolific_signed(server):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    arrival = market.arrive(visit_of(server.link(session, NOW)), NOW)
    assert (arrival.account, arrival.identity) == (PID, Identity.SIGNED)
    assert arrival.ticket == session


def test_safety_8_every_forged_arrival_is_refused_in_the_same_words(server):
    market = open_at(server)
    told = set()
    for visit in forged(server):
        with pytest.raises(Rejected) as caught:
            market.arrive(visit, NOW)
        told.add(caught.value.what)
        assert PID not in str(caught.value)
    assert len(told) == 3, "one wording for forged, edited and expired each"


@pytest.mark.parametrize("respelt", [False, True])
def test_a_link_opens_the_page_once_in_whatever_spelling(server, respelt):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    link = server.link(session, NOW)
    market.arrive(visit_of(link), NOW)
    if respelt:  # the last sign of 256 bytes in base64 has bits that say nothing
        last = "AQgw".find(link[-1])
        link = link[:-1] + "BRhx"[last]
    for seconds in (0, 30, 119):
        with pytest.raises(Rejected):
            market.arrive(visit_of(link), NOW + timedelta(seconds=seconds))
    later = NOW + timedelta(seconds=1)
    assert market.arrive(visit_of(server.link(session, later)), later).account == PID


def test_a_link_whose_address_was_edited_is_not_used_up(server):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    visit = visit_of(server.link(session, NOW))
    with pytest.raises(Rejected):
        market.arrive(Visit({**visit.parameters, "PROLIFIC_PID": "me"}), NOW)
    assert market.arrive(visit, NOW).account == PID


@pytest.mark.parametrize(
    ("life", "age", "taken"),
    [
        (timedelta(minutes=2), timedelta(seconds=119), True),
        (timedelta(minutes=2), timedelta(minutes=2), False),
        (timedelta(days=365), timedelta(seconds=299), True),
        (timedelta(days=365), timedelta(minutes=5), False),
        (timedelta(days=365), timedelta(days=30), False),
        (timedelta(minutes=2), timedelta(seconds=-60), True),
        (timedelta(minutes=2), timedelta(seconds=-61), False),
        (timedelta(seconds=-1), timedelta(0), False),
    ],
)
def test_a_token_is_taken_for_five_minutes_whatever_it_says(server, life, age, taken):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    server.life = life
    visit = visit_of(server.link(session, NOW - age))
    if taken:
        assert market.arrive(visit, NOW).account == PID
    else:
        with pytest.raises(Rejected, match="not of this moment"):
            market.arrive(visit, NOW)


@pytest.mark.parametrize(
    ("claim", "moment"),
    [
        *(("iat", text) for text in ("-Infinity", "Infinity", "NaN", "true", '"0"')),
        *(("exp", text) for text in ("-Infinity", "NaN", "true", '"0"')),
        ("iat", "1" + "0" * 400),
    ],
)
def test_a_moment_that_is_no_time_is_never_taken(server, claim, moment):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    server.overrides = {claim: json.loads(moment)}
    with pytest.raises(Rejected):
        market.arrive(visit_of(server.link(session, NOW)), NOW)


def test_without_signed_links_nothing_is_published(server):
    server.signs = False
    with pytest.raises(Misconfigured, match="does not sign"):
        open_at(server).publish(offer())
    assert not server.visible(PID)
    assert open_at(server).find("k1") is None


def test_a_draft_that_a_first_try_left_is_finished_and_not_doubled(server):
    respond = server.receiver.respond
    server.receiver.respond = lambda request: (
        (503, {}, b"") if "transition" in request.path else respond(request)
    )
    with pytest.raises(TryLater):
        open_at(server).publish(offer())
    assert open_at(server).find("k1") is None
    server.receiver.respond = respond
    open_at(server).publish(offer())
    assert [study["status"] for study in server.studies.values()] == ["ACTIVE"]


def test_a_publishing_that_did_nothing_is_not_taken_for_one(server):
    with doing_nothing(server), pytest.raises(TryLater):
        open_at(server).publish(offer())
    assert open_at(server).find("k1") is None
    assert not server.visible(PID)
    handle = open_at(server).publish(offer())
    assert open_at(server).find("k1") == handle
    assert [study["status"] for study in server.studies.values()] == ["ACTIVE"]


def test_a_publishing_that_is_told_in_no_words_is_read_back(server):
    def mute(request, respond):
        told = respond(request)
        return (204, {}, b"") if request.path.endswith("/transition/") else told

    market = open_at(server)
    with answering(server, mute):
        handle = market.publish(offer())
    assert study_of(server, handle)["status"] == "ACTIVE"


@lost_in_each_way
def test_a_study_whose_publishing_got_no_answer_is_not_made_twice(server, lost):
    with losing(server, "/transition/", lost=lost), pytest.raises(TryLater):
        open_at(server).publish(offer())
    found = open_at(server).find("k1")
    assert found == open_at(server).publish(offer())
    assert [study["status"] for study in server.studies.values()] == ["ACTIVE"]


@pytest.mark.parametrize(
    "kept",
    [
        {"filters": []},
        {"filters": [{"filter_id": "participant_group_allowlist",
                      "selected_values": ["g1", "theirs"]}]},
        {"total_available_places": 2},
        {"external_study_url": "https://evil.example.test/from/prolific"},
    ],
    ids=["no group", "a second group", "two places", "another page"],
)  # fmt: skip
def test_a_study_that_is_kept_otherwise_is_left_unpublished(server, kept):
    server.groups["theirs"] = ["another"]

    def changing(request, respond):
        told = respond(request)
        if request.method == "POST" and request.path.endswith("/studies/"):
            for study in server.studies.values():
                study.update(kept)
        return told

    with answering(server, changing):
        for _ in range(2):  # a second try takes up the same draft
            with pytest.raises(Misconfigured, match="as it was drafted"):
                open_at(server).publish(offer())
    assert not server.visible(PID)
    assert not server.visible("another")
    assert [study["status"] for study in server.studies.values()] == ["UNPUBLISHED"]


@pytest.mark.parametrize("state", ["COMPLETED", "AWAITING REVIEW"])
def test_a_study_that_has_ended_is_not_stopped_again(server, state):
    """Prolific refuses that, and the offer could never be closed."""
    market = open_at(server)
    handle = market.publish(offer())
    study_of(server, handle)["status"] = state
    began = len(server.receiver.requests)
    market.withdraw(handle)
    calls = server.receiver.requests[began:]
    assert not any("/transition/" in one.path for one in calls)
    assert study_of(server, handle)["status"] == state


def test_a_study_is_found_on_any_page_of_many(server):
    market = open_at(server)
    handles = [market.publish(offer(f"k{n}")) for n in range(7)]
    assert [market.find(f"k{n}") for n in range(7)] == handles


def test_its_walls_hold_and_trying_them_costs_and_leaves_nothing(server):
    market = open_at(server)
    tried = list(market.probe(PID, Stranger("another"), PAGE))
    assert len(tried) == 2
    assert all(one.held for one in tried)
    assert server.studies == {}
    moves = [r.path for r in server.receiver.requests if "transition" in r.path]
    assert moves == []


def test_a_workspace_that_does_not_sign_is_told_by_the_try(server):
    server.signs = False
    tried = list(open_at(server).probe(PID, Stranger("another"), PAGE))
    assert [(one.wall, one.held) for one in tried] == [(Wall.BINDING, False)]
    assert "sign" in tried[0].finding
    assert server.studies == {}


def test_a_group_that_lets_another_one_in_is_told_by_the_try(server):
    market = open_at(server)
    tries = market.probe(PID, Stranger("another"), PAGE)
    assert next(tries).held
    [members] = server.groups.values()
    members.append("another")
    assert not next(tries).held


def test_offers_cost_the_same_however_many_studies_lie_there(server):
    server.page_size = 100
    before = open_at(server)
    for number in range(3):
        before.publish(offer(f"old{number}"))
    [old, *_] = server.studies.values()
    for number in range(2000):
        server.studies[f"x{number}"] = {
            **old, "id": f"x{number}", "internal_name": f"offer-x{number}",
        }  # fmt: skip
    market = open_at(server)
    market.publish(offer("first"))  # lists them all, once
    began = len(server.receiver.requests)
    for number in range(10):
        handle = market.publish(offer(f"k{number}"))
        assert market.find(f"k{number}") == handle
    calls = [one.path for one in server.receiver.requests[began:]]
    assert not any("/projects/" in path for path in calls)
    assert len(calls) == 10 * 6  # group, its members, draft, check, publish; find


@lost_in_each_way
def test_a_draft_whose_making_got_no_answer_is_looked_for(server, lost):
    market = open_at(server)
    market.publish(offer("k0"))

    def reply(request, respond):
        told = respond(request)
        made = request.method == "POST" and request.path.endswith("/studies/")
        return lost if made else told

    with answering(server, reply), pytest.raises(TryLater):
        market.publish(offer("k1"))
    assert market.find("k1") is None  # nobody has seen the draft
    market.publish(offer("k1"))
    named = [study["internal_name"] for study in server.studies.values()]
    assert len(named) == len(set(named)) == 2


@pytest.mark.parametrize(
    ("state", "progress"),
    [
        ("RETURNED", Progress.GONE),
        ("TIMED-OUT", Progress.GONE),
        ("SCREENED OUT", Progress.GONE),
        ("REJECTED", Progress.REJECTED),
    ],
)
def test_a_study_handed_back_is_told_and_recruits_nobody(server, state, progress):
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    session = server.take(PID, study)
    (open_,) = market.collect("").submissions
    assert open_.progress is Progress.OPEN
    server.end(session, state)
    told = market.collect("").submissions
    assert told == (Submission(session, study["id"], PID, progress, "k1"),)
    assert study["status"] == "COMPLETED"
    assert not server.visible(PID)
    assert market.collect("").submissions == told


def test_a_study_that_was_stopped_untaken_is_told(server):
    market = open_at(server)
    handle = market.publish(offer())
    assert market.collect("").submissions == ()
    market.withdraw(handle)
    number = handle.reference
    told = market.collect("").submissions
    assert told == (Submission(number, number, "", Progress.GONE, "k1"),)


@pytest.mark.parametrize("state", ["RESERVED", "ACTIVE", "PROCESSING", "BRAND NEW"])
def test_a_state_that_is_open_or_unknown_takes_nothing_back(server, state):
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    server.end(server.take(PID, study), state)
    (told,) = market.collect("").submissions
    assert told.progress is Progress.OPEN
    assert study["status"] == "ACTIVE"


def test_the_cursor_passes_what_has_ended_and_waits_for_what_has_not(server):
    market = open_at(server)
    one, two, three = (
        study_of(server, market.publish(offer(f"k{n}"))) for n in range(3)
    )
    for study in (one, three):
        server.end(server.take(PID, study), "APPROVED")
        study["status"] = "COMPLETED"
    cursor = market.collect("").cursor
    assert cursor == one["date_created"]
    session = server.take(PID, two)
    server.end(session, "RETURNED")
    later = market.collect(cursor)
    assert [(s.id, s.progress) for s in later.submissions if s.id == session] == [
        (session, Progress.GONE)
    ]
    assert market.collect(later.cursor).cursor == three["date_created"]


def test_one_study_that_nobody_takes_makes_no_look_longer(server):
    """The cursor waits for it; what ended since is not read anew each time."""
    market = open_at(server)
    market.publish(offer("open"))
    for number in range(3):
        study = study_of(server, market.publish(offer(f"k{number}")))
        server.end(server.take(PID, study), "APPROVED")
        study["status"] = "COMPLETED"
    first = market.collect("")
    began = len(server.receiver.requests)
    again = market.collect(first.cursor)
    assert (again.cursor, again.submissions) == ("", first.submissions)
    calls = [one.path for one in server.receiver.requests[began:]]
    assert not any("/submissions/" in path for path in calls)


def test_studies_of_others_in_the_project_are_left_alone(server):
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    server.studies["theirs"] = {
        **study, "id": "theirs", "internal_name": "a survey", "filters": [],
    }  # fmt: skip
    server.end(server.take(PID, server.studies["theirs"]), "RETURNED")
    assert not market.collect("").submissions
    assert server.studies["theirs"]["status"] == "ACTIVE"


def test_a_completion_code_is_one_participants_and_the_study_knows_it(server):
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    (code,) = parse_qs(urlsplit(market.finish(PID)).query)["cc"]
    assert [one["code"] for one in study["completion_codes"]] == [code]
    assert market.finish("another") != market.finish(PID)


def test_safety_8_a_new_signing_key_is_fetched_and_floods_of_unknown_ones_are_not(
    server,
):
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    session = server.take(PID, study)
    market.arrive(visit_of(server.link(session, NOW)), NOW)
    server.keys["k2"] = new_key()
    later = NOW + timedelta(minutes=2)
    market.arrive(visit_of(server.link(session, later, "k2")), later)
    fetched = [r for r in server.receiver.requests if "jwks" in r.path]
    assert len(fetched) == 2
    server.keys["k3"] = new_key()
    link = server.link(session, later, "k3")
    del server.keys["k3"]
    for _ in range(20):
        with pytest.raises(Rejected):
            market.arrive(visit_of(link), later)
    assert len([r for r in server.receiver.requests if "jwks" in r.path]) == 2


def test_known_keys_serve_while_new_ones_can_not_be_fetched_but_not_for_ever(server):
    market = open_at(server)
    session = server.take(PID, study_of(server, market.publish(offer())))
    market.arrive(visit_of(server.link(session, NOW)), NOW)
    server.receiver.respond = lambda _: (503, {}, b"")
    tomorrow = NOW + timedelta(hours=30)
    assert market.arrive(visit_of(server.link(session, tomorrow)), tomorrow)
    later = NOW + timedelta(days=3)
    with pytest.raises(TryLater):
        market.arrive(visit_of(server.link(session, later)), later)


def test_a_wrong_token_is_told_as_a_secret_to_mend(server):
    market = open_at(server, SECRET.replace(TOKEN.encode(), b"wrong"))
    with pytest.raises(Misconfigured, match="401"):
        market.publish(offer())


def test_an_offer_for_another_page_is_refused(server):
    elsewhere = replace(offer(), link="https://other.example.test/")
    with pytest.raises(Misconfigured, match="different places"):
        open_at(server).publish(elsewhere)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"reward": "120"}, "reward"),  # the budget says it
        ({"minutes": "-3"}, "minutes"),
        ({"minutes": "9" * 40}, "minutes"),
        ({"review": "never"}, "review"),
        ({"page": "http://tasks.example.test"}, "https"),
        ({"page": "https://tasks.example.test/"}, "where participants arrive"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_settings_are_told(server, wrong, said):
    with pytest.raises(Misconfigured, match=said):
        open_at(server, **wrong)


@pytest.mark.parametrize("secret", [b"", b"one", b"a b c", b"t zz", "ü x".encode()])
def test_a_bad_secret_is_told_without_telling_it(server, secret):
    with pytest.raises(Misconfigured) as caught:
        open_at(server, secret)
    assert "zz" not in str(caught.value)


def test_nothing_of_a_link_between_drafts_goes_to_another_host(server):
    """The next page's address is the server's word: only its query is followed."""
    market = open_at(server)
    for n in range(3):
        market.publish(offer(f"k{n}"))
    real = server.respond

    def elsewhere(request):
        told = real(request)
        if told is None:
            return None
        status, headers, body = told
        evil = body.replace(server.url.encode(), b"https://evil.example.test")
        return status, headers, evil

    server.receiver.respond = elsewhere
    assert market.find("k0") is not None


def test_the_offer_of_the_suite_fits(server):
    market = open_at(server)
    assert market.publish(offer_for(market.manifest, "k9", PID)).key == "k9"


def called(server, **more: str) -> Visit:
    body = b'{"status":"RETURNED"}'
    return Visit(headers={**server.call(body, NOW), **more}, body=body)


def test_it_asks_once_to_be_called_and_confirms_it(server):
    for _ in range(2):
        market = open_at(server)
        market.collect("")
        market.collect("")
    (one,) = server.subscriptions
    assert one["is_enabled"]
    assert one["target_url"] == f"{PAGE}/hooks/prolific"


def test_a_signed_call_is_heeded_and_a_copy_is_the_same_call(server):
    market = open_at(server)
    market.collect("")
    first = market.heed(called(server), NOW)
    again = market.heed(called(server, **{"x-event-id": "another"}), NOW)
    assert first == again
    later = NOW + timedelta(minutes=2)
    assert market.heed(Visit(headers=server.call(b"{}", later), body=b"{}"), later)


@pytest.mark.parametrize("minutes", [-6, 6, 60 * 24])
def test_safety_41_a_call_of_another_time_is_refused(server, minutes):
    market = open_at(server)
    market.collect("")
    with pytest.raises(Rejected):
        market.heed(called(server), NOW + timedelta(minutes=minutes))


def test_safety_41_a_forged_call_is_refused_in_one_wording(server):
    market = open_at(server)
    market.collect("")
    good = called(server)
    calls = [
        Visit(),
        replace(good, body=good.body + b" "),
        called(server, **{"x-prolific-request-signature": ""}),
        called(server, **{"x-prolific-request-signature": "💥"}),
        called(server, **{"x-prolific-request-timestamp": "now"}),
        called(server, **{"x-prolific-request-timestamp": "9" * 400}),
        Visit(headers=server.call(good.body, NOW, "guessed"), body=good.body),
    ]
    told = set()
    for visit in calls:
        with pytest.raises(Rejected) as caught:
            market.heed(visit, NOW)
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_replaced_secret_is_fetched_but_not_at_every_forged_call(server):
    market = open_at(server)
    market.collect("")
    market.heed(called(server), NOW)
    server.secret = "another"
    later = NOW + timedelta(minutes=2)
    visit = Visit(headers=server.call(b"{}", later), body=b"{}")
    assert market.heed(visit, later)
    asked = len(server.receiver.requests)
    for _ in range(20):
        with pytest.raises(Rejected):
            market.heed(replace(visit, body=b"forged"), later)
    assert len(server.receiver.requests) == asked


def test_looking_goes_on_where_nobody_can_subscribe(server):
    respond = server.receiver.respond
    server.receiver.respond = lambda request: (
        (500, {}, b"") if "hooks" in request.path else respond(request)
    )
    market = open_at(server)
    study = study_of(server, market.publish(offer()))
    server.end(server.take(PID, study), "RETURNED")
    assert market.collect("").submissions


# -- money -------------------------------------------------------------------------------


def handed_in(server: Server, market: Prolific) -> Submission:
    handle = market.publish(offer())
    server.hand_in(server.take(PID, study_of(server, handle)))
    (told,) = market.collect("").submissions
    return told


def bonus_of(piece: Submission, amount: str = "GBP:0.36") -> Pay:
    return Pay("b-1", PayKind.BONUS, piece.id, piece.reference, piece.account,
               Money.read(amount))  # fmt: skip


def test_a_study_pays_what_the_offer_says_in_cents(server):
    market = open_at(server)
    assert study_of(server, market.publish(offer()))["reward"] == 120


@pytest.mark.parametrize("reward", ["EUR:1.20", "GBP:1.205"])
def test_a_reward_that_prolific_can_not_pay_is_told_before_anything_is_made(
    server, reward
):
    wrong = replace(offer(), reward=Money.read(reward))
    with pytest.raises((Misconfigured, Rejected)):
        open_at(server).publish(wrong)
    assert (server.groups, server.studies) == ({}, {})


def reward_of(piece: Submission) -> Pay:
    return Pay("r-1", PayKind.REWARD, piece.id, piece.reference, piece.account, REWARD)


def test_an_approval_that_did_nothing_is_not_taken_for_one(server):
    market = open_at(server)
    pay = reward_of(handed_in(server, market))
    with doing_nothing(server), pytest.raises(TryLater):
        market.approve(pay)
    assert market.paid(pay) is False
    assert server.paid == []
    for _ in range(2):
        market.approve(pay)
    assert market.paid(pay) is True
    assert server.paid == [(PID, 120)]


@lost_in_each_way
def test_an_approval_whose_answer_was_lost_pays_once(server, lost):
    market = open_at(server)
    pay = reward_of(handed_in(server, market))
    with losing(server, "/transition/", lost=lost), pytest.raises(TryLater):
        market.approve(pay)
    assert market.paid(pay) is True
    market.approve(pay)
    assert server.paid == [(PID, 120)]


def test_a_bonus_is_set_up_once_and_paid_once(server):
    market = open_at(server)
    piece = handed_in(server, market)
    market.bonus(bonus_of(piece))
    assert server.bulks == [(piece.id, 36)]
    assert server.paid == [(PID, 36)]


@lost_in_each_way
def test_a_bonus_that_is_on_its_way_can_not_be_told_until_it_is_there(server, lost):
    market = open_at(server)
    piece = handed_in(server, market)
    server.slow = True
    with losing(server, "/pay/", lost=lost), pytest.raises(TryLater) as caught:
        market.bonus(bonus_of(piece))
    assert not caught.value.certain
    assert market.paid(bonus_of(piece)) is None
    server.catch_up()
    assert market.paid(bonus_of(piece)) is True


@lost_in_each_way
@pytest.mark.parametrize("end", ["/balance/", "/bonus-payments/"])
def test_what_goes_wrong_before_the_second_step_surely_paid_nothing(server, end, lost):
    market = open_at(server)
    piece = handed_in(server, market)
    with losing(server, end, lost=lost), pytest.raises(TryLater) as caught:
        market.bonus(bonus_of(piece))
    assert caught.value.certain
    assert server.paid == []


def test_an_empty_workspace_is_told_and_sets_nothing_up(server):
    market = open_at(server)
    piece = handed_in(server, market)
    server.balance = 35
    with pytest.raises(Misconfigured, match="no money"):
        market.bonus(bonus_of(piece))
    assert server.bulks == []


def test_nobody_is_paid_for_the_submission_of_another(server):
    market = open_at(server)
    piece = handed_in(server, market)
    for change in ({"account": "another"}, {"reference": "st9"}):
        wrong = replace(bonus_of(piece), **change)
        for pay in (market.bonus, market.approve, market.paid):
            with pytest.raises(Rejected):
                pay(wrong)
    assert server.paid == []
