"""Questions that go to MTurk, and answers that come back, as XML."""

import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mturk.documents import MOST, answers, question

SPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd}"
LEGAL = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufffe\uffff"
    ),
    max_size=40,
)


def form(**told: str) -> str:
    parts = "".join(
        f"<Answer><QuestionIdentifier>{escape(name)}</QuestionIdentifier>"
        f"<FreeText>{escape(text)}</FreeText></Answer>"
        for name, text in told.items()
    )
    return (
        f'<?xml version="1.0"?><QuestionFormAnswers xmlns="{SPACE[1:-1]}">'
        f"{parts}</QuestionFormAnswers>"
    )


@given(LEGAL, LEGAL)
@settings(max_examples=50)
def test_what_is_handed_in_is_read_as_it_was(one, two):
    assert answers(form(o=one, note=two)) == {"o": one, "note": two}


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
@settings(max_examples=50)
def test_any_address_stands_whole_in_a_question(tail):
    url = f"https://tasks.example.test/from/mturk/notice?{tail}"
    found = [one.text for one in ET.fromstring(question(url)) if "URL" in one.tag]
    assert found == [url]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no XML"),
        ("hello", "no XML"),
        ("<a>", "no XML"),
        ("<a>\ud800</a>", "no XML"),
        ("<!DOCTYPE a><a/>", "DTD"),
        ('<!DOCTYPE a [<!ENTITY b "secret">]><a>&b;</a>', "DTD"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "DTD"),
        (f"<a>{'b' * MOST}</a>", "characters"),
    ],
)
def test_safety_21_what_is_no_such_document_is_refused_without_telling_it(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        answers(text)
    assert "secret" not in str(caught.value)


def test_an_upload_or_a_choice_is_no_free_text():
    chosen = form().replace(
        "</QuestionFormAnswers>",
        "<Answer><QuestionIdentifier>o</QuestionIdentifier>"
        "<SelectionIdentifier>x</SelectionIdentifier></Answer></QuestionFormAnswers>",
    )
    assert answers(chosen) == {"o": ""}
