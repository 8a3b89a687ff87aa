"""What becomes of work at MTurk: handed in, judged, paid, cleared away."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from connectors.base import (
    Handle,
    Misconfigured,
    Money,
    PayKind,
    Progress,
    Rejected,
    TryLater,
)
from connectors.mturk import reviewing
from connectors.mturk.reviewing import KEPT
from connectors.testing.suite import NOW
from tests.contract.mturk_bench import (
    WORKER,
    accept,
    hand_in,
    offer,
    open_at,
    pay_for,
    receipt,
    responding,
)
from tests.contract.mturk_server import KEY, KEY_ID

BOB = "A2BOBWORKER"


def done(server, market, key="k1"):
    """An offer that was handed in; how it stands, and the taking."""
    handle = market.publish(offer(key))
    taken = accept(server, handle)
    hand_in(server, taken)
    (piece,) = [one for one in market.collect("").submissions
                if one.reference == handle.reference]  # fmt: skip
    return piece, taken


# -- of whom it is ------------------------------------------------------------------------


def test_what_another_dispatcher_made_in_the_account_is_left_to_it(server, clock):
    """Put away by us, it would never be told to the one whose workers wait for pay."""
    theirs = open_at(server, f"{KEY_ID}\n{KEY}\n{(b'o' * 32).hex()}\n".encode())
    ours = open_at(server)
    piece, taken = done(server, theirs)
    theirs.publish(offer("k2", BOB))
    theirs.approve(pay_for(piece))
    clock.now += timedelta(hours=2)
    for _ in range(2):
        found = ours.collect(ours.collect("").cursor)
        assert (found.submissions, found.quarantined) == ((), ())
    told = {one.key: one.progress for one in theirs.collect("").submissions}
    assert told == {"k1": Progress.APPROVED, "k2": Progress.GONE}
    assert taken.hit.status(clock.now) == "Reviewable"


def test_an_assignment_of_an_unknown_kind_holds_up_no_other(server):
    market = open_at(server)
    piece, _ = done(server, market)
    hand_in(server, accept(server, market.publish(offer("k2"))))

    def strange(target, request, respond):
        code, headers, body = respond(request)
        if target == "ListAssignmentsForHIT" and piece.reference in body.decode():
            body = body.replace(b'"Submitted"', b'"Contested"')
        return code, headers, body

    fresh = open_at(server)
    with responding(server, strange):
        found = fresh.collect("")
    assert [one.key for one in found.submissions] == ["k2"]
    assert len(found.quarantined) == 1
    assert [one.key for one in market.collect("").submissions] == ["k1", "k2"]
    assert piece.progress is Progress.SUBMITTED


# -- what was handed in ------------------------------------------------------------------


def test_a_hit_that_nobody_took_is_gone_when_it_ends(server, clock):
    market = open_at(server)
    handle = market.publish(offer())
    assert not market.collect("").submissions
    clock.now += timedelta(hours=2)
    (piece,) = market.collect("").submissions
    assert (piece.id, piece.reference) == (handle.reference, handle.reference)
    assert (piece.account, piece.progress, piece.key) == ("", Progress.GONE, "k1")


def test_what_is_final_is_told_until_its_cursor_comes_back(server):
    market = open_at(server)
    piece, taken = done(server, market)
    market.approve(pay_for(piece))
    first = market.collect("")
    again = market.collect("")
    assert first.submissions == again.submissions
    assert first.submissions[0].progress is Progress.APPROVED
    assert taken.hit.status(NOW) == "Reviewable"
    later = market.collect(again.cursor)
    assert not later.submissions
    assert taken.hit.status(NOW) == "Reviewing"


def test_what_was_put_away_is_told_again_to_a_store_that_asks(server):
    """It was restored from a backup, and has not heard of it."""
    market = open_at(server)
    piece, taken = done(server, market)
    market.approve(pay_for(piece))
    market.collect(market.collect("").cursor)
    assert taken.hit.status(NOW) == "Reviewing"
    restored = open_at(server)
    assert not restored.collect("").submissions
    there = Handle("k1", piece.reference)
    for _ in range(2):
        restored.retell(there)
    (told,) = restored.collect("").submissions
    assert (told.id, told.progress) == (piece.id, Progress.APPROVED)
    restored.retell(restored.publish(offer("open")))
    restored.retell(Handle("gone", "3NOSUCHHIT"))


def test_putting_away_what_is_put_away_already_holds_up_nothing(server):
    """The answer was lost, or a person did it at MTurk."""
    market = open_at(server)
    piece, taken = done(server, market)
    market.approve(pay_for(piece))
    cursor = market.collect("").cursor
    taken.hit.reviewing = True
    assert not market.collect(cursor).submissions


def test_what_was_taken_and_is_not_listed_yet_is_not_called_untaken(server):
    market = open_at(server)
    taken = accept(server, market.publish(offer()))
    hand_in(server, taken)

    def behind(target, request, respond):
        if target == "ListAssignmentsForHIT":
            return 200, {}, b'{"NumResults":0,"Assignments":[]}'
        return respond(request)

    with responding(server, behind):
        assert not market.collect("").submissions
    (piece,) = market.collect("").submissions
    assert piece.progress is Progress.SUBMITTED


def test_cleaning_that_fails_costs_no_look(server, clock):
    market = open_at(server)
    piece, _ = done(server, market)

    def refusing(target, request, respond):
        reviewing_ones = b'"Reviewing"' in request.body
        return (503, {}, b"") if reviewing_ones else respond(request)

    clock.now += timedelta(days=1)
    with responding(server, refusing):
        (told,) = market.collect("").submissions
    assert told.id == piece.id


def test_after_a_restart_what_was_acknowledged_is_at_most_told_again(server):
    market = open_at(server)
    piece, _ = done(server, market)
    market.approve(pay_for(piece))
    cursor = market.collect("").cursor
    (told,) = open_at(server).collect(cursor).submissions
    assert told.id == piece.id


def test_work_waiting_to_be_judged_is_not_read_at_every_look(server):
    market = open_at(server)
    for n in range(5):
        done(server, market, f"k{n}")
    asked = server.calls["ListAssignmentsForHIT"]
    assert len(market.collect("").submissions) == 5
    assert server.calls["ListAssignmentsForHIT"] == asked


def test_what_mturk_approves_by_itself_is_told(server, clock):
    market = open_at(server, approve_after_hours="1")
    piece, _ = done(server, market)
    clock.now += timedelta(hours=1)
    assert [one.progress for one in market.collect("").submissions] == [
        Progress.APPROVED
    ]
    market.approve(pay_for(piece))
    assert server.paid == [("reward", WORKER, Decimal("1.20"))]


def test_hits_of_others_in_the_account_are_left_alone(server, clock):
    market = open_at(server)
    handle = market.publish(offer())
    theirs = server.hits[handle.reference]
    theirs.note = "a survey"
    clock.now += timedelta(days=60)
    assert not market.collect("").submissions
    assert not market.listing("").posted
    assert theirs.status(clock.now) == "Reviewable"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "no XML"),
        ("<x", "no XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "DTD"),
        ('<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><x/>', "DTD"),
        ("<x>" + "y" * 100_000 + "</x>", "characters"),
        ("<x/>", "receipt"),
    ],
)
def test_safety_21_what_is_no_receipt_of_ours_is_set_aside(server, answer, said):
    market = open_at(server)
    taken = accept(server, market.publish(offer()))
    hand_in(server, taken)
    taken.answer = answer
    found = market.collect("")
    (strange,) = found.quarantined
    assert said in strange.reason
    assert strange.account == WORKER
    assert not found.submissions
    assert found.quarantined == market.collect("").quarantined


def test_another_hits_receipt_is_set_aside_until_a_person_has_judged(server):
    market = open_at(server)
    other = receipt(server, accept(server, market.publish(offer("k2"))))
    taken = accept(server, market.publish(offer()))
    server.submit(taken, o=other, note="& < > ]]> 🦊")
    found = market.collect("")
    assert (len(found.quarantined), len(found.submissions)) == (1, 0)
    server.approve(taken)
    (piece,) = market.collect("").submissions
    assert piece.progress is Progress.APPROVED


def test_ten_megabytes_in_one_hit_hold_up_no_other(server):
    market = open_at(server)
    huge = accept(server, market.publish(offer("k1")))
    hand_in(server, huge)
    huge.answer = "x" * (11 << 20)
    fine = accept(server, market.publish(offer("k2")))
    hand_in(server, fine)
    found = market.collect("")
    assert [one.reference for one in found.submissions] == [fine.hit.id]
    assert [one.id for one in found.quarantined] == [huge.hit.id]


def test_what_another_worker_handed_in_is_never_ours_to_pay(server):
    market = open_at(server)
    piece, taken = done(server, market)
    taken.worker = BOB
    found = open_at(server).collect("")
    assert (len(found.quarantined), len(found.submissions)) == (1, 0)
    with pytest.raises(Rejected):
        market.approve(pay_for(piece))
    assert not server.paid


def test_after_a_month_what_is_judged_is_deleted(server, clock):
    market = open_at(server)
    piece, taken = done(server, market)
    market.approve(pay_for(piece))
    market.collect(market.collect("").cursor)
    clock.now += KEPT - timedelta(days=1)
    market.collect("")
    assert not taken.hit.deleted
    clock.now += timedelta(days=2)
    market.collect("")
    assert taken.hit.deleted
    assert market.find("k1") is not None, "this process knows it still"
    assert open_at(server).find("k1") is None


def test_more_than_a_hundred_pieces_of_work_are_all_told(server):
    server.page_size = 7  # as a hundred would be, with fewer calls
    market = open_at(server)
    pieces = {done(server, market, f"k{n}")[0].id for n in range(22)}
    assert {one.id for one in market.collect("").submissions} == pieces


def test_one_look_reads_so_many_and_the_next_goes_on(server, monkeypatch):
    monkeypatch.setattr(reviewing, "MOST_READ", 3)
    market = open_at(server)
    pieces = {done(server, market, f"k{n}")[0].id for n in range(8)}
    fresh = open_at(server)
    told = [fresh.collect("") for _ in range(3)]
    assert [one.more for one in told] == [True, True, False]
    assert [len(one.submissions) for one in told] == [3, 3, 8]
    assert {one.id for one in told[-1].submissions} == pieces


# -- paying ------------------------------------------------------------------------------


def test_an_id_that_is_used_again_pays_the_taking_that_was_handed_in(server, clock):
    market = open_at(server)
    handle = market.publish(offer())
    first = accept(server, handle)
    server.give_back(first)
    clock.now += timedelta(seconds=90)
    again = accept(server, handle)
    hand_in(server, again)
    (piece,) = market.collect("").submissions
    stale = f"{first.id}~{int(first.accepted.timestamp())}"
    assert first.id == again.id
    with pytest.raises(Rejected):
        market.approve(pay_for(piece.__class__(stale, piece.reference, WORKER,
                                               piece.progress)))  # fmt: skip
    market.approve(pay_for(piece))
    assert len(server.paid) == 1


def test_what_a_person_rejected_is_not_paid(server):
    market = open_at(server)
    piece, taken = done(server, market)
    taken.status, taken.judged = "Rejected", server.now
    for pay in (pay_for(piece), pay_for(piece, PayKind.BONUS)):
        with pytest.raises(Rejected, match="rejected at MTurk"):
            (market.approve if pay.kind is PayKind.REWARD else market.bonus)(pay)
    assert not server.paid


def test_a_hit_that_pays_otherwise_than_booked_is_left_to_a_person(server):
    market = open_at(server)
    piece, _ = done(server, market)
    with pytest.raises(Rejected, match="another reward"):
        market.approve(pay_for(piece, money=Money(Decimal("1.21"), "USD")))
    assert not server.paid


def test_an_approval_that_did_nothing_is_not_taken_for_one(server):
    """It answers 200 and did nothing."""
    market = open_at(server)
    piece, _ = done(server, market)

    def idle(target, request, respond):
        return (200, {}, b"{}") if target == "ApproveAssignment" else respond(request)

    with responding(server, idle), pytest.raises(TryLater):
        market.approve(pay_for(piece))
    assert market.paid(pay_for(piece)) is False
    market.approve(pay_for(piece))
    assert len(server.paid) == 1


def test_a_bonus_is_paid_once_long_after_its_token_too(server, clock):
    market = open_at(server)
    piece, _ = done(server, market)
    pay = pay_for(piece, PayKind.BONUS)
    for hours in (0, 1, 30):
        clock.now += timedelta(hours=hours)
        open_at(server).bonus(pay)
    assert [kind for kind, _, _ in server.paid] == ["bonus"]
    market.bonus(pay_for(piece, PayKind.BONUS, key="p2"))
    assert len(server.paid) == 2


def test_a_bonus_is_found_among_more_than_a_page(server):
    server.page_size = 3
    market = open_at(server)
    piece, _ = done(server, market)
    for n in range(8):
        market.bonus(pay_for(piece, PayKind.BONUS, key=f"p{n}"))
    assert market.paid(pay_for(piece, PayKind.BONUS, key="p7")) is True
    assert market.paid(pay_for(piece, PayKind.BONUS, key="p8")) is False


@pytest.mark.parametrize("amount", ["0.005", "1.234"])
def test_parts_of_a_cent_are_refused(server, amount):
    market = open_at(server)
    piece, _ = done(server, market)
    with pytest.raises(Rejected, match="whole cents"):
        market.bonus(pay_for(piece, PayKind.BONUS, Money(Decimal(amount), "USD")))


def test_an_empty_account_is_told_as_money_to_add(server):
    market = open_at(server)
    piece, _ = done(server, market)

    def poor(target, request, respond):
        told = {"__type": "RequestError", "Message": "You need more money",
                "TurkErrorCode": "AWS.MechanicalTurk.InsufficientFunds"}  # fmt: skip
        if target == "SendBonus":
            return 400, {}, json.dumps(told).encode()
        return respond(request)

    with (
        responding(server, poor),
        pytest.raises(Misconfigured, match="too little money"),
    ):
        market.bonus(pay_for(piece, PayKind.BONUS))
