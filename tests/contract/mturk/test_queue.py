"""What MTurk tells a queue of Amazon's; and that the emulator keeps the rules."""

from __future__ import annotations

import json
from datetime import timedelta

import boto3
import numpy as np
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from connectors.base import (
    Rejected,
    TryLater,
)
from connectors.testing.suite import NOW
from tests.contract.mturk_bench import (
    WORKER,
    accept,
    offer,
    open_at,
    visit_of,
)
from tests.contract.mturk_queue import queue_server
from tests.contract.mturk_server import KEY, KEY_ID, Faults

BOB = "A2BOBWORKER"


@pytest.fixture(scope="module")
def queues():
    with queue_server() as running:
        yield running


@pytest.fixture
def queue(queues, server):
    own = queues.another()
    server.deliver = own.send
    return own


# -- the queue ---------------------------------------------------------------------------


def event(hit: str, assignment: str, worker: str, what="AssignmentAccepted", at="05"):
    return json.dumps({"EventDocVersion": "2014-08-15", "Events": [{
        "EventType": what, "EventTimestamp": f"2026-01-02T03:04:{at}Z", "HITId": hit,
        "HITTypeId": "3T", "AssignmentId": assignment, "WorkerId": worker,
    }]})  # fmt: skip


def test_an_event_says_who_accepted_and_when(server, queue):
    market = open_at(server, queue=queue.url)
    taken = accept(server, market.publish(offer()))
    arrival = market.arrive(visit_of(server.link(taken)), NOW)
    assert arrival.ticket == f"{taken.id}~2026-01-02T03:04:05Z"
    assert queue.count() == 0


def test_an_event_that_another_accepted_lets_nobody_in(server, queue):
    market = open_at(server, queue=queue.url)
    taken = accept(server, market.publish(offer()))
    queue.send("", event(taken.hit.id, taken.id, BOB, at="59"))
    with pytest.raises(Rejected):
        market.arrive(visit_of(server.link(taken)), NOW)


def test_an_event_before_mturks_own_servers_agree_lets_the_worker_in(server, queue):
    market = open_at(server, queue=queue.url)
    taken = accept(server, market.publish(offer()))
    taken.status = "Returned"
    assert market.arrive(visit_of(server.link(taken)), NOW).account == WORKER


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0, 1)])
def test_events_count_by_their_moment_in_any_order(server, queue, order):
    market = open_at(server, queue=queue.url)
    handle = market.publish(offer())
    server.deliver = None
    taken = accept(server, handle)
    taken.status = "Returned"
    told = [event(taken.hit.id, taken.id, WORKER),
            event(taken.hit.id, taken.id, WORKER, "AssignmentReturned", "09")]  # fmt: skip
    for place in order:
        queue.send("", told[place])
    with pytest.raises(TryLater):
        market.arrive(visit_of(server.link(taken)), NOW)


def test_a_lost_event_keeps_nobody_out(server, queue):
    market = open_at(server, queue=queue.url)
    server.faults = Faults(np.random.default_rng(1), 1 / 3)
    server.faults.pick = lambda *kinds: kinds[0] if "event lost" in kinds else ""
    taken = accept(server, market.publish(offer()))
    assert queue.count() == 0
    assert market.arrive(visit_of(server.link(taken)), NOW).account == WORKER


@pytest.mark.parametrize(
    "body",
    [
        "hello",
        "[]",
        "[" * 100_000,
        '{"Events": 5}',
        '{"Events": [{"EventType": "AssignmentAccepted"}]}',
        '{"Type": "Notification", "Signature": "eHh4", "Message": "{}"}',
        event("3" + 1000 * "H", "3A", WORKER),
    ],
)
def test_what_is_no_event_of_mturks_is_set_aside_and_believed_by_nobody(
    server, queue, body
):
    market = open_at(server, queue=queue.url)
    handle = market.publish(offer())
    server.deliver = None
    taken = accept(server, handle)
    taken.status = "Returned"
    queue.send("", body)
    with pytest.raises(TryLater):
        market.arrive(visit_of(server.link(taken)), NOW)
    found = market.collect("")
    (strange,) = found.quarantined
    assert "no event" in strange.reason
    assert market.collect("").quarantined == (strange,)
    assert not market.collect(market.collect("").cursor).quarantined
    assert queue.count() == 0


def test_a_queue_that_gives_no_answer_holds_up_nobody(server):
    market = open_at(server, queue="http://127.0.0.1:1/q")
    taken = accept(server, market.publish(offer()))
    assert market.arrive(visit_of(server.link(taken)), NOW).account == WORKER
    assert not market.collect("").submissions


# -- the emulator itself -----------------------------------------------------------------

KIND = {"Title": "t", "Description": "d", "Reward": "0.10",
        "AssignmentDurationInSeconds": 60}  # fmt: skip
EXTERNAL = (
    "<ExternalQuestion><ExternalURL>https://a.test</ExternalURL></ExternalQuestion>"
)


@pytest.fixture
def raw(server):
    """boto3 as anybody would use it."""
    client = boto3.client(
        "mturk", endpoint_url=server.url, region_name="us-east-1",
        aws_access_key_id=KEY_ID, aws_secret_access_key=KEY,
        config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    yield client
    client.close()


def code_of(call, **told) -> str:
    with pytest.raises(ClientError) as caught:
        call(**told)
    return caught.value.response["TurkErrorCode"].rpartition(".")[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"Reward": "0.123"},
        {"Reward": "-1"},
        {"Title": "🦊"},
        {"Title": "x" * 129},
        {"AssignmentDurationInSeconds": 5},
        {"QualificationRequirements": [
            {"QualificationTypeId": "3Q", "Comparator": "Equals"}]},
    ],
)  # fmt: skip
def test_the_emulator_refuses_what_the_description_does_not_allow(raw, wrong):
    assert code_of(raw.create_hit_type, **{**KIND, **wrong}) == (
        "ParameterValidationError"
    )


def test_the_emulator_keeps_the_rules_of_hits(raw, server, clock):
    kind = raw.create_hit_type(**KIND)["HITTypeId"]
    assert raw.create_hit_type(**KIND)["HITTypeId"] == kind
    told = {"HITTypeId": kind, "LifetimeInSeconds": 600, "Question": EXTERNAL,
            "MaxAssignments": 9}  # fmt: skip
    hit = raw.create_hit_with_hit_type(**told, UniqueRequestToken="x")["HIT"]
    make = raw.create_hit_with_hit_type
    assert code_of(make, **told, UniqueRequestToken="x") == "HITAlreadyExists"
    wrong = {**told, "Question": EXTERNAL.replace("a.test", "a.test?a&b")}
    assert code_of(make, **wrong) == "ParameterValidationError"
    assert code_of(make, **told, UniqueRequestToken="y" * 65) == (
        "ParameterValidationError"
    )
    more = raw.create_additional_assignments_for_hit
    number = {"HITId": hit["HITId"]}
    assert code_of(more, **number, NumberOfAdditionalAssignments=1) == (
        "InvalidMaximumAssignmentsIncrease"
    )
    assert code_of(raw.delete_hit, **number) == "InvalidHITState"
    soon = clock.now - timedelta(seconds=5)
    assert code_of(raw.update_expiration_for_hit, **number, ExpireAt=soon) == (
        "ParameterValidationError"
    )
    clock.now += timedelta(days=1)
    assert make(**told, UniqueRequestToken="x")["HIT"]["HITId"] != hit["HITId"]
