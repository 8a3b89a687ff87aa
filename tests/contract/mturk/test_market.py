"""The mturk connector: real boto3 against an emulator of our own, over real HTTP."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from connectors.base import Progress, Rejected, Stranger, TryLater, Visit
from connectors.errors import Misconfigured
from connectors.testing.listing_suite import ListingContract
from connectors.testing.payment_suite import PayingContract
from connectors.testing.suite import NOW, Bench
from tests.contract.mturk_bench import (
    PAGE,
    REWARD,
    SECRET,
    WORKER,
    accept,
    hand_in,
    offer,
    open_at,
    responding,
    visit_of,
)
from tests.contract.mturk_server import Mturk as Server


def forged(server: Server) -> list[Visit]:
    """Visits that must be refused, each for one reason."""
    market = open_at(server)
    other = server.hits[market.publish(offer("of-bob", "A2BOBWORKER")).reference]
    bobs = visit_of(server.link(server.accept("A2BOBWORKER", other))).parameters
    mine = server.hits[market.publish(offer("forged")).reference]
    good = visit_of(server.link(server.accept(WORKER, mine))).parameters
    return [
        Visit({**good, **wrong})
        for wrong in (
            {"workerId": "A2BOBWORKER"},
            {"workerId": "A3NEVERHEARDOF"},
            {"workerId": ""},
            {"hitId": bobs["hitId"]},
            {"hitId": "3NOSUCHHIT"},
            {"hitId": "../x"},
            {"o": bobs["o"]},
            {"k": bobs["k"]},
            {"k": ""},
            {"k": "💥"},
            {"assignmentId": bobs["assignmentId"], "hitId": bobs["hitId"]},
            {"assignmentId": "💥"},
            # What other makers' pages take for a trial, and let in.
            {"assignmentId": "debug123"},
            dict.fromkeys(("assignmentId", "hitId", "workerId"), "debug123"),
            {"assignmentId": "debug123", "mode": "debug"},
            {"workerId": "debug123", "mode": "debug"},
        )
    ]


class TestMturk(PayingContract, ListingContract):
    reward = REWARD

    @pytest.fixture
    def bench(self, server: Server) -> Bench:
        server.any_worker = True  # the suite's accounts are spelt as none of MTurk's
        numbers = itertools.count()

        def visit(account, now):
            assert now == server.now
            made = open_at(server).publish(offer(f"v{next(numbers)}", account))
            return visit_of(server.link(accept(server, made, account)))

        def submit(handle, account):
            hand_in(server, accept(server, handle, account))

        @contextmanager
        def answers_lost(*names):
            """It is done, and we never hear of it."""

            def cut(target, request, respond):
                told = respond(request)
                return None if target in names else told

            with responding(server, cut):
                yield

        return Bench(
            open=lambda: open_at(server),
            seen=lambda _: server.held(),
            copies=lambda _: len(server.hits),
            visit=visit,
            crash_after_accept=lambda: answers_lost("CreateHITWithHITType"),
            submit=submit,
            give_up=lambda handle, account: server.give_back(
                accept(server, handle, account)
            ),
            payments=lambda account: [
                amount for _, who, amount in server.paid if who == account
            ],
            lose_the_answer=lambda: answers_lost(
                "ApproveAssignment", "SendBonus", "GetAssignment"
            ),
        )


def test_safety_8_every_forged_arrival_is_refused_in_the_same_words(server):
    market = open_at(server)
    told = set()
    for visit in forged(server):
        with pytest.raises(Rejected) as caught:
            market.arrive(visit, NOW)
        told.add(caught.value.what)
        assert WORKER not in str(caught.value)
    assert len(told) == 1


def test_who_does_not_know_our_word_makes_us_ask_nobody(server):
    market = open_at(server)
    wrong = forged(server)[0]
    asked = server.calls.total()
    with pytest.raises(Rejected):
        market.arrive(wrong, NOW)
    assert server.calls.total() == asked


def test_only_its_worker_finds_a_hit_and_nothing_of_a_record_lies_in_it(server):
    open_at(server).publish(offer())
    assert len(server.visible(WORKER)) == 1
    assert not server.visible("A2BOBWORKER")
    (hit,) = server.hits.values()
    assert WORKER not in hit.question
    assert (hit.most, hit.guard) == (1, "DiscoverPreviewAndAccept")


def test_a_number_that_mturk_does_not_keep_stops_the_offer(server):
    """It answers 200 and did nothing."""

    def idle(target, request, respond):
        if target == "AssociateQualificationWithWorker":
            return 200, {}, b"{}"
        return respond(request)

    with responding(server, idle), pytest.raises(TryLater, match="number"):
        open_at(server).publish(offer())
    assert not server.hits


def test_a_number_that_somebody_took_away_is_given_again(server):
    market = open_at(server)
    market.publish(offer())
    server.scores.clear()
    market.publish(offer("k2"))
    assert len(server.visible(WORKER)) == 2


def test_a_qualification_that_somebody_changed_lets_nobody_in(server):
    market = open_at(server)
    taken = accept(server, market.publish(offer()))
    visit = visit_of(server.link(taken))
    assert market.arrive(visit, NOW).account == WORKER
    (place,) = server.scores
    number, server.scores[place] = server.scores[place], 1
    with pytest.raises(Rejected, match="whom this work is for"):
        market.arrive(visit, NOW)
    server.scores[place] = number
    taken.hit.kind["QualificationRequirements"] = []
    with pytest.raises(Rejected, match="whom this work is for"):
        market.arrive(visit, NOW)


def test_an_answer_that_is_not_whole_lets_nobody_in(server):
    """It answers 200, and something else than MTurk does."""
    market = open_at(server)
    visit = visit_of(server.link(accept(server, market.publish(offer()))))
    for body in (b"{}", b"<html>", b"[]"):
        with (
            responding(server, lambda *_, body=body: (200, {}, body)),
            pytest.raises(TryLater),
        ):
            market.arrive(visit, NOW)
    with (
        responding(server, lambda *_: (200, {}, b"{}")),
        pytest.raises(TryLater, match="not whole"),
    ):
        market.publish(offer("k2"))


def test_the_wall_between_two_workers_is_tried_without_a_hit(server):
    market = open_at(server)
    bob = Stranger("A2BOBWORKER")
    assert all(one.held for one in market.probe(WORKER, bob, PAGE))
    (place,) = server.scores
    server.scores[place[0], bob.account] = server.scores[place]
    held = [one.held for one in market.probe(WORKER, bob, PAGE)]
    assert held == [True, False]
    assert not server.hits


def test_looking_is_a_preview_until_it_is_accepted(server):
    market = open_at(server)
    hit = server.hits[market.publish(offer()).reference]
    looked = market.arrive(visit_of(server.preview(WORKER, hit)), NOW)
    assert (looked.account, looked.preview) == ("", True)
    taken = server.accept(WORKER, hit)
    visit = visit_of(server.link(taken))
    server.give_back(taken)
    with pytest.raises(TryLater, match="not confirmed"):
        market.arrive(visit, NOW)


def test_the_same_worker_takes_it_again_under_the_same_id(server):
    """Accept, hand back, accept: MTurk gives the id again."""
    market = open_at(server)
    handle = market.publish(offer())
    first = accept(server, handle)
    server.give_back(first)
    again = accept(server, handle)
    assert again.id == first.id
    assert market.arrive(visit_of(server.link(again)), NOW).account == WORKER


def test_who_accepted_before_it_was_withdrawn_may_finish(server, clock):
    market = open_at(server)
    handle = market.publish(offer())
    taken = accept(server, handle)
    market.withdraw(handle)
    assert not server.visible(WORKER)
    assert market.arrive(visit_of(server.link(taken)), NOW).account == WORKER
    hand_in(server, taken)
    (piece,) = market.collect("").submissions
    assert piece.progress is Progress.SUBMITTED
    with pytest.raises(Rejected, match="over"):
        market.arrive(visit_of(server.link(taken)), NOW)


def test_a_hit_is_found_among_hundreds_and_long_after_its_token(server, clock):
    market = open_at(server)
    handles = [market.publish(offer(f"k{n}")) for n in range(104)]
    clock.now += timedelta(days=3)
    assert open_at(server).find("k7") == handles[7]
    assert open_at(server).find("k103") == handles[103]
    assert open_at(server).find("k104") is None
    assert server.calls["CreateHITType"] == 1


def test_a_hit_whose_answer_was_lost_is_found_by_its_token(server):
    market = open_at(server)
    lost = iter([True])

    def cut(target, request, respond):
        told = respond(request)
        first = target == "CreateHITWithHITType" and next(lost, False)
        return None if first else told

    with responding(server, cut):
        handle = market.publish(offer())
    assert list(server.hits) == [handle.reference]


def test_throttling_is_waited_out_and_doubles_nothing(server):
    market = open_at(server)
    numbers = itertools.count()

    def busy(target, request, respond):
        if next(numbers) % 3:
            return (
                400,
                {},
                b'{"__type":"ThrottlingException","Message":"Rate exceeded"}',
            )
        return respond(request)

    with responding(server, busy):
        for n in range(5):
            market.publish(offer(f"k{n}"))
    assert len(server.hits) == 5
    with (
        responding(server, lambda *_: (503, {}, b"")),
        pytest.raises(TryLater) as caught,
    ):
        market.publish(offer("k9"))
    assert caught.value.after > 0


def test_what_is_gone_is_withdrawn(server):
    market = open_at(server)
    handle = market.publish(offer())
    del server.hits[handle.reference]
    market.withdraw(handle)


def test_the_ampersand_in_our_address_comes_through(server):
    market = open_at(server)
    question = server.hits[market.publish(offer()).reference].question
    assert "&amp;k=" in question
    assert f"{PAGE}/from/mturk/notice?o=" in question


def test_our_account_spelt_as_no_worker_of_theirs_is_rejected(server):
    with pytest.raises(Rejected, match="ParameterValidationError"):
        open_at(server).publish(offer(account="ann"))
    assert not server.hits


def test_an_offer_for_another_page_is_refused(server):
    elsewhere = replace(offer(), link="https://other.example.test/")
    with pytest.raises(Misconfigured, match="different places"):
        open_at(server).publish(elsewhere)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"title": "Data 🦊"}, "title"),
        ({"title": "x" * 129}, "title"),
        ({"description": "two\nlines"}, "description"),
        ({"minutes": "0"}, "minutes"),
        ({"minutes": "1.5"}, "minutes"),
        ({"lifetime_minutes": "9" * 40}, "lifetime_minutes"),
        ({"url": "http://mturk.example.test"}, "https"),
        ({"url": "live"}, "https"),
        ({"page": f"{PAGE}/"}, "where workers arrive"),
        ({"page": f"{PAGE}/from/mturk?a=1"}, "where workers arrive"),
        ({"page": f"{PAGE}/from/m🦊"}, "where workers arrive"),
        ({"queue": "http://queue.example.test/q"}, "https"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_settings_are_told(server, wrong, said):
    with pytest.raises(Misconfigured, match=said):
        open_at(server, **wrong)


@pytest.mark.parametrize(
    "secret", [b"", b"a b", b"a b c d", b"a b zz", "ü x y".encode()]
)
def test_a_bad_secret_is_told_without_telling_it(server, secret):
    with pytest.raises(Misconfigured) as caught:
        open_at(server, secret)
    assert "zz" not in str(caught.value)


@pytest.mark.parametrize("place", ["production", "sandbox"])
def test_the_frame_and_the_form_are_of_the_place_that_is_used(server, place):
    market = open_at(server, url=place)
    host = {"production": "https://www.mturk.com",
            "sandbox": "https://workersandbox.mturk.com"}  # fmt: skip
    said = {"assignmentId": "3A", "turkSubmitTo": f"{host[place]}/", "o": "x"}
    notice = market.notice(Visit(said))
    assert notice.action == f"{host[place]}/mturk/externalSubmit"
    other = host["sandbox" if place == "production" else "production"]
    for wrong in (other, f"{host[place]}.evil.example", "", "javascript:alert(1)"):
        with pytest.raises(Rejected):
            market.notice(Visit({**said, "turkSubmitTo": wrong}))


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (SECRET.replace(b"AKIA", b"AKIB"), "signature"),
        (SECRET.replace(b"k3y", b"k4y"), "signature"),
    ],
)
def test_a_wrong_key_is_told_as_a_secret_to_mend(server, secret, said):
    with pytest.raises(Misconfigured, match=said) as caught:
        open_at(server, secret).find("k1")
    assert "secret_file" in caught.value.fix


def test_a_clock_five_minutes_off_is_told_as_a_clock(server):
    for minutes in (4.9, -4.9):
        server.skew = timedelta(minutes=minutes)
        assert open_at(server).find("k1") is None
    for minutes in (6, -6):
        server.skew = timedelta(minutes=minutes)
        with pytest.raises(Misconfigured) as caught:
            open_at(server).find("k1")
        assert caught.value.fix == "set the clock"
