"""What the policy masks is masked, in doubt too; what is clearly else is not."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.stages.intake.redaction import TAGS, redacted
from policies.document.entity import TAGS as TAGS_OF_THE_LANGUAGE


@pytest.mark.parametrize(
    ("tag", "text", "shown"),
    [
        ("email", "write to ann.b+c@mail.example.org!", "write to [email]"),
        ("email", "<ann@x.de>; bob@y.co.uk", "<[email]>; [email]"),
        (
            "email",
            "ann [at] example.org",
            "ann [at] example.org".replace("ann [at] example.org", "[email]"),
        ),
        ("email", "jürgen@müller.de und Ann＠x.org", "[email] und [email]"),
        ("phone", "call +49 30 1234-5678 now", "call [phone] now"),
        ("phone", "(555) 123-4567", "[phone]"),
        ("phone", "0151/23456789", "[phone]"),
        ("phone", "0049301234567", "[phone]"),
        ("iban", "IBAN DE89 3704 0044 0532 0130 00.", "IBAN [iban]."),
        ("iban", "gb82west12345698765432", "[iban]"),
        # one digit is wrong: it is still somebody's
        ("iban", "DE89370400440532013001", "[iban]"),
        ("card", "card 4111 1111 1111 1111 exp", "card [card] exp"),
        ("card", "378282246310005", "[card]"),
        ("card", "4111-1111-1111-1112", "[card]"),
        ("ip", "from 192.168.0.17 and fe80::1ff:fe23:4567:890a", "from [ip] and [ip]"),
        ("url", "see https://x.org/a?b=c or www.y.de/z", "see [url] or [url]"),
        ("date", "born 1970-01-31, or 31.1.1970", "born [date], or [date]"),
        ("number", "order 00123-456 of 12", "order [number] of 12"),
    ],
)
def test_masked(tag, text, shown):
    assert redacted(text, [tag]) == shown


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("email", "price @ 3 each, @home, a@ b"),
        ("phone", "room 204, 2026-11-27, 27.11.2026, 12:30"),
        ("iban", "ABCD12 is a part number, XX12 too"),
        ("card", "tracking 1234567890123456789012345"),
        ("ip", "version 1.2.3, at 12:30"),
        ("date", "1/2 cup, section 3.4"),
    ],
)
def test_left_alone(tag, text):
    assert redacted(text, [tag]) == text


def test_several_tags_are_masked_the_most_telling_first():
    text = "ann@x.org, DE89370400440532013000, +49 30 1234567, 4111111111111111"
    assert (
        redacted(text, ["phone", "card", "iban", "email"])
        == "[email], [iban], [phone], [card]"
    )


def test_an_unknown_tag_is_never_skipped_in_silence():
    with pytest.raises(KeyError, match="ibann"):
        redacted("x", ["email", "ibann"])


def test_no_tag_changes_nothing():
    assert redacted("ann@x.org", []) == "ann@x.org"


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(
    "unit", ["1 ", "a", "a.", "DE12 ", "1.", "+1(", "@a", ":1", "0-"]
)
def test_masking_takes_linear_time(tag, unit):
    start = time.process_time()
    redacted(unit * 50_000, [tag])
    assert time.process_time() - start < 5


@settings(max_examples=80, deadline=None)
@given(
    before=st.sampled_from(["", "x ", "tel: ", "(", "\n"]),
    after=st.sampled_from(["", " y", ".", ")", "\n"]),
    country=st.sampled_from(["+1", "+49", "+81", "0044"]),
    digits=st.lists(st.integers(0, 9), min_size=7, max_size=10),
    gap=st.sampled_from(["", " ", "-", "."]),
)
def test_no_phone_number_comes_through(before, after, country, digits, gap):
    number = country + gap + gap.join(str(d) for d in digits)
    assert number not in redacted(f"{before}{number}{after}", ["phone"])


def test_the_policy_language_knows_the_tags_that_can_be_masked():
    assert set(TAGS_OF_THE_LANGUAGE) == set(TAGS)
