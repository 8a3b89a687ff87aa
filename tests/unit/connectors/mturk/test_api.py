"""What MTurk's errors mean, and how fast it is called."""

import pytest

from connectors.errors import ConnectorError, Misconfigured, Rejected, TryLater
from connectors.mturk.api import Api, MTurkRefused, Pace, raise_classed


class Answer(Exception):
    """As boto3 raises it."""

    def __init__(self, code, words="", turk="", status=400):
        super().__init__("words that may hold a canary")
        self.response = {
            "Error": {"Code": code, "Message": words},
            "ResponseMetadata": {"HTTPStatusCode": status},
            "TurkErrorCode": turk,
        }


class ParamValidationError(Exception):
    """Bears the name of botocore's own."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Answer("ThrottlingException"), TryLater),
        (Answer("ServiceFault", status=500), TryLater),
        (Answer("502", status=502), TryLater),
        (Answer("429", status=429), TryLater),
        (Answer("UnrecognizedClientException"), Misconfigured),
        (Answer("ExpiredTokenException"), Misconfigured),
        (Answer("InvalidSignatureException", "Signature expired: canary"), Misconfigured),
        (Answer("RequestError", "canary", "AWS.MechanicalTurk.InsufficientFunds"),
         Misconfigured),
        (Answer("RequestError", "canary", "AWS.MechanicalTurk.HITDoesNotExist"),
         MTurkRefused),
        (ParamValidationError("canary"), Rejected),
        (OSError("canary"), TryLater),
        (TryLater("as it was"), TryLater),
        (Rejected("as it was"), Rejected),
    ],
)  # fmt: skip
def test_an_error_is_classed_and_its_words_stay_inside(error, kind):
    with pytest.raises(ConnectorError) as caught:
        raise_classed(error)
    found = caught.value
    assert type(found) is kind
    assert "canary" not in f"{found.what}{found.why}{found.fix}"


def test_the_code_of_a_refusal_is_its_last_part():
    error = Answer("RequestError", "", "AWS.MechanicalTurk.HITDoesNotExist")
    with pytest.raises(MTurkRefused) as caught:
        raise_classed(error)
    assert caught.value.code == "HITDoesNotExist"


def test_calls_are_kept_apart_but_a_late_one_waits_for_nothing():
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = Pace(4, clock=lambda: now[0], sleep=sleep)
    for _ in range(3):
        pace.wait()
    now[0] += 10
    pace.wait()
    assert slept == [0.25, 0.25]


@pytest.mark.parametrize(("tries", "failing"), [(5, 4), (2, 1)])
def test_a_call_is_repeated_so_often_and_no_more(tries, failing):
    class Client:
        asked = 0

        def get_hit(self, **_):
            self.asked += 1
            if self.asked <= failing:
                raise Answer("ThrottlingException")
            return {"HIT": {"HITId": "3A", "HITStatus": "Assignable"}}

    slept = []
    api = Api(Client(), Pace(1000, sleep=slept.append), tries)
    assert api.hit("3A")["HITId"] == "3A"
    failing += 1
    with pytest.raises(TryLater):
        Api(Client(), Pace(1000, sleep=slept.append), tries).hit("3A")
