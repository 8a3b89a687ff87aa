"""What counts as an answer, and which answers say the same."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers.notation import read_date, read_number
from policies.answers.validation import (
    CHECKERS,
    Invalid,
    Mark,
    Valid,
    check,
    locate_passages,
)
from policies.policy import Field

NAME = Field("name", ask="transcribe")
COLOUR = Field("colour", ask="choose", choices=("Red", "Light green", "ﬁne"))
TOTAL = Field("total", ask="number", minimum=Fraction(0), maximum=Fraction(1000))
ANY_NUMBER = Field("n", ask="number")
DAY = Field("day", ask="date")
SIGNED = Field("signed", ask="yes_no")
SPANS = Field("spans", ask="spans")
LINES = Field("lines", ask="table", columns=("item", "price"))


def valid(field: Field, raw: str) -> Valid:
    found = check(field, raw)
    assert isinstance(found, Valid), found
    return found


def reason(field: Field, raw: str) -> str:
    found = check(field, raw)
    assert isinstance(found, Invalid)
    return found.reason


@pytest.mark.parametrize("ask", CHECKERS)
def test_nothing_is_no_answer_to_any_ask(ask):
    field = Field("f", ask=ask, choices=("a",), columns=("c",))
    assert "empty" in reason(field, " \n")


@pytest.mark.parametrize("ask", CHECKERS)
@pytest.mark.parametrize("mark", Mark)
def test_a_mark_is_an_answer_to_every_ask(ask, mark):
    field = Field("f", ask=ask, choices=("a",), columns=("c",))
    found = check(field, "", mark)
    assert found == Valid("", f"[{mark.value}]", mark)


def test_a_mark_may_be_typed_in_brackets_and_a_bare_word_is_text():
    assert valid(NAME, " [Illegible] ").mark is Mark.ILLEGIBLE
    assert valid(NAME, "[not present]").mark is Mark.NOT_PRESENT
    assert valid(NAME, "illegible").mark is None


def test_a_field_that_asks_nothing_takes_no_answer():
    assert "asks nothing" in reason(Field("f"), "x")


def test_half_a_surrogate_pair_is_refused():
    assert "broken" in reason(NAME, "a\ud83d")


def test_a_nul_is_refused_as_no_file_that_is_loaded_may_have_it():
    """Else an export of the record could not be loaded again."""
    assert "NUL" in reason(NAME, "a\0b")


def test_a_reason_never_repeats_the_answer():
    for field in (COLOUR, TOTAL, DAY, SIGNED, SPANS, LINES):
        assert "sekret" not in reason(field, "sekret" * 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna  Lee", "Anna Lee"),
        ("e\u0301", "é"),
        ("a\u00a0b", "a b"),
        ("a\u200bb", "ab"),
        (" two\r\nlines ", "two lines"),
    ],
)
def test_texts_that_say_the_same_have_one_key(one, other):
    assert valid(NAME, one).key == valid(NAME, other).key


def test_the_text_for_the_record_keeps_case_and_signs():
    assert valid(NAME, "  Anna   ﬁne² \n x ").text == "Anna ﬁne²\nx"


@given(st.text())
def test_a_tidied_text_is_its_own_tidy_form(raw):
    found = check(NAME, raw)
    if isinstance(found, Valid) and found.text:
        again = check(NAME, found.text)
        assert isinstance(again, Valid)
        assert (again.text, again.key) == (found.text, found.key)


def test_a_choice_is_found_however_it_is_spelt_and_written_as_declared():
    assert valid(COLOUR, "light  GREEN").text == "Light green"
    assert valid(COLOUR, "ﬁne").text == "ﬁne"
    assert "none of the choices" in reason(COLOUR, "blue")


def test_two_choices_that_differ_in_case_only_need_the_exact_spelling():
    field = Field("unit", ask="choose", choices=("mg", "MG"))
    assert valid(field, "MG").text == "MG"
    assert "none of the choices" in reason(field, "Mg")


@pytest.mark.parametrize(
    ("raw", "text", "key"),
    [
        ("12.50", "12.50", "12.5"),
        ("12,5", "12.5", "12.5"),
        ("1,234.5", "1234.5", "1234.5"),
        ("1.234,5", "1234.5", "1234.5"),
        ("1 234,5", "1234.5", "1234.5"),
        ("1\u202f234", "1234", "1234"),
        ("1'234'567", "1234567", "1234567"),
        ("1’234.00", "1234.00", "1234"),
        ("1,234,567", "1234567", "1234567"),
        ("0,125", "0.125", "0.125"),
        ("1,2345", "1.2345", "1.2345"),
        ("1234.567", "1234.567", "1234.567"),
        ("0.125", "0.125", "0.125"),
        ("1.234.567", "1234567", "1234567"),
        (".5", "0.5", "0.5"),
        ("007", "7", "7"),
        ("+3", "3", "3"),
        ("\u22123", "-3", "-3"),
        ("-0.0", "0.0", "0"),
        ("٤٢", "42", "42"),
        ("４２", "42", "42"),
        ("100", "100", "100"),
    ],
)
def test_numbers_are_read_by_value_in_any_notation(raw, text, key):
    found = valid(ANY_NUMBER, raw)
    assert (found.text, found.key) == (text, key)


@pytest.mark.parametrize(
    "raw",
    ["twelve", "1e5", "12 kg", "1,23,4", "1.2.3", "--1", "1..2", "nan", "inf", "0x1f"],
)
def test_what_is_no_number_is_refused(raw):
    assert "not a number" in reason(ANY_NUMBER, raw)


@pytest.mark.parametrize("raw", ["1,234", "1.234", "-12,345", "001.234"])
def test_a_number_that_could_be_two_is_refused_unless_its_notation_is_declared(raw):
    assert "thousands or decimals?" in reason(ANY_NUMBER, raw)
    comma = valid(Field("n", ask="number", decimal="comma"), raw)
    point = valid(Field("n", ask="number", decimal="point"), raw)
    assert {comma.key, point.key} == {
        raw.replace(",", "").replace(".", "").lstrip("0"),
        raw.replace(",", ".").lstrip("0"),
    }


@pytest.mark.parametrize(
    ("decimal", "raw", "text"),
    [
        ("comma", "1.234,50", "1234.50"),
        ("comma", "1.234", "1234"),
        ("comma", "1 234,5", "1234.5"),
        ("comma", ",5", "0.5"),
        ("point", "1,234.50", "1234.50"),
        ("point", "1,234", "1234"),
        ("point", "1.234", "1.234"),
    ],
)
def test_a_declared_sign_says_what_is_seen(decimal, raw, text):
    assert valid(Field("n", ask="number", decimal=decimal), raw).text == text


@pytest.mark.parametrize(
    ("decimal", "raw"),
    [("comma", "1.5"), ("point", "1,5"), ("comma", "1,234.5"), ("comma", "1,2,3")],
)
def test_what_a_declared_sign_can_not_explain_is_refused(decimal, raw):
    assert "not a number" in reason(Field("n", ask="number", decimal=decimal), raw)


@pytest.mark.parametrize("field", [ANY_NUMBER, DAY, SIGNED])
def test_a_raised_digit_is_no_digit(field):
    assert reason(field, "10²")
    assert reason(field, "½")


def test_a_declared_order_says_which_number_is_the_day():
    assert valid(Field("d", ask="date", order="dmy"), "03/04/2026").text == "2026-04-03"
    assert valid(Field("d", ask="date", order="mdy"), "03/04/2026").text == "2026-03-04"
    assert "no such day" in reason(Field("d", ask="date", order="mdy"), "31/01/2026")
    for order in ("dmy", "mdy", "ymd"):
        found = valid(Field("d", ask="date", order=order), "2026-01-31")
        assert found.text == "2026-01-31"


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ("10²", "102", None),
        ("m²", "m2", None),
        ("½", "1⁄2", None),
        ("№ 5", "No 5", None),
        ("Mg", "mg", "case"),
        ("ﬁne", "fine", None),
        ("ＡＢ", "AB", "width"),
        ("Zoë", "Zoe", "accents"),
        ("O'Brien", "O’Brien", "punctuation"),
        ("Str.", "Str", "punctuation"),
    ],
)
def test_what_differs_to_the_eye_disagrees_but_for_what_the_field_ignores(
    one, other, word
):
    words = ("accents", "case", "punctuation", "width")
    lines = Field("l", ask="table", columns=("a",))
    assert valid(NAME, one).key != valid(NAME, other).key
    assert valid(lines, one).key != valid(lines, other).key
    for ignored in words:
        field = Field("name", ask="transcribe", ignore=(ignored,))
        agree = valid(field, one).key == valid(field, other).key
        assert agree == (ignored == word)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Zoe\u0308", "Zoë"), ("a  b ", "a b"), ("\u212b", "Å")],
)
def test_what_looks_the_same_agrees(one, other):
    assert valid(NAME, one).key == valid(NAME, other).key


def test_a_number_outside_its_limits_or_endless_is_refused():
    assert "below" in reason(TOTAL, "-0.01")
    assert "above" in reason(TOTAL, "1000.01")
    assert valid(TOTAL, "1000.00").key == "1000"
    assert "digits" in reason(ANY_NUMBER, "9" * 31)


@given(st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False, places=2))
def test_a_number_keeps_its_value_through_english_and_german_notation(value):
    assert read_number(f"{value:,.2f}") == value
    swapped = f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
    assert read_number(swapped) == value


@pytest.mark.parametrize(
    "raw",
    [
        "2026-01-31",
        "2026/1/31",
        "20260131",
        "31.1.2026",
        "31.01.2026",
        "31/01/2026",
        "01/31/2026",
        "31 Jan 2026",
        "31st of January, 2026",
        "January 31, 2026",
        "Jan-31-2026",
        "31-JAN-2026",
        "2026 January 31",
        "２０２６-01-31",
    ],
)
def test_a_day_is_one_day_in_every_notation(raw):
    assert valid(DAY, raw).key == "2026-01-31"


def test_a_date_that_could_be_two_days_is_refused_and_not_guessed():
    assert "first?" in reason(DAY, "03/04/2026")
    assert valid(DAY, "03.04.2026").text == "2026-04-03"
    assert valid(DAY, "04/04/2026").text == "2026-04-04"


@pytest.mark.parametrize("raw", ["31.1.260", "2026-01", "soon", "31 Foo 2026", "1.1"])
def test_what_is_no_whole_date_is_refused(raw):
    assert "not a date" in reason(DAY, raw)


def test_a_day_that_never_was_is_refused():
    assert "no such day" in reason(DAY, "2026-02-29")
    assert "no such day" in reason(DAY, "0000-01-01")


@given(st.dates())
def test_every_date_reads_back_from_its_iso_form(day):
    assert read_date(day.isoformat()) == day


def test_yes_and_no_in_several_tongues():
    assert [valid(SIGNED, word).text for word in ("Y", "Ja", "TRUE", "sí")] == [
        "yes"
    ] * 4
    assert [valid(SIGNED, word).text for word in ("n", "Nein", "0")] == ["no"] * 3
    assert "neither" in reason(SIGNED, "maybe")


def test_spans_are_sorted_and_joined():
    assert valid(SPANS, "[[9, 12], [0, 5], [4, 7]]").text == "[[0, 7], [9, 12]]"
    assert valid(SPANS, "0-5; 9-12").key == "[[0, 5], [9, 12]]"
    assert valid(SPANS, '[{"start": 0, "end": 5}]').text == "[[0, 5]]"
    assert valid(SPANS, "[]").text == "[]"


@pytest.mark.parametrize(
    "raw",
    ["[[5, 5]]", "[[5, 1]]", "[[0]]", "[[true, 2]]", "[0, 1]", "[[0, 1.5]]", "{}"],
)
def test_ranges_that_are_none_are_refused(raw):
    assert isinstance(check(SPANS, raw), Invalid)


def test_a_table_is_the_same_as_json_objects_tabs_or_bars():
    keys = {
        valid(LINES, raw).key
        for raw in (
            '[["Tea", "3.00"], ["Cake", "4"]]',
            '[{"item": "Tea", "price": "3.00"}, {"item": "Cake", "price": 4}]',
            "Tea\t3.00\nCake\t4\n",
            "Tea | 3.00\n\nCake | 4",
        )
    }
    assert len(keys) == 1
    assert json.loads(valid(LINES, "Tea|3\n|\n").text) == [["Tea", "3"]]


@pytest.mark.parametrize("raw", ["tea", "a|b|c", '[{"colour": 1}]', "[[1]]", "[1]"])
def test_a_table_of_other_columns_is_refused(raw):
    assert "not a table of these columns" in reason(LINES, raw)


def test_deeply_nested_json_is_refused_and_not_a_crash():
    assert isinstance(check(SPANS, "[" * 50_000), Invalid)
    assert isinstance(check(LINES, "[" * 50_000), Invalid)


@given(st.sampled_from(list(CHECKERS)), st.text(max_size=40))
def test_any_text_is_judged_and_a_key_is_never_empty(ask, raw):
    field = Field("f", ask=ask, choices=("a", "b"), columns=("c", "d"))
    found = check(field, raw)
    if isinstance(found, Valid):
        assert found.key
        found.text.encode()


@pytest.mark.parametrize(
    ("raw", "ranges"),
    [
        ("ada", "[[0, 3]]"),
        ("ada\nada", "[[0, 3], [8, 11]]"),
        ("  and \n", "[[4, 7]]"),
        ("0-3; 8-11", "0-3; 8-11"),
        ("[[0, 3]]", "[[0, 3]]"),
        ("[not present]", "[not present]"),
        ("", ""),
    ],
)
def test_passages_become_ranges(raw, ranges):
    assert locate_passages(SPANS, raw, "ada and ada") == ranges


def test_a_passage_that_is_not_there_is_told_without_repeating_it():
    wrong = locate_passages(SPANS, "grace", "ada and ada")
    assert isinstance(wrong, Invalid)
    assert "grace" not in wrong.reason


def test_a_passage_of_digits_is_looked_for_before_it_is_a_range():
    assert locate_passages(SPANS, "2001-02", "born 2001-02-03") == "[[5, 12]]"


def test_spans_of_an_image_stay_as_they_are():
    assert locate_passages(SPANS, "0-3", None) == "0-3"


@pytest.mark.parametrize(
    ("locale", "written", "day"),
    [
        ("de", "3. März 2026", "2026-03-03"),
        ("de", "03.04.2026", "2026-04-03"),
        ("es-MX", "12 de marzo de 2026", "2026-03-12"),
        ("en-US", "03/04/2026", "2026-03-04"),
        ("en-GB", "03/04/2026", "2026-04-03"),
        ("fr", "1er janv. 2026", "2026-01-01"),
        ("pl", "5 maja 2026", "2026-05-05"),
        ("ja", "2026年3月4日", "2026-03-04"),
        ("hi", "4 मार्च 2026", "2026-03-04"),
        ("ar", "٤ مارس ٢٠٢٦", "2026-03-04"),
    ],
)
def test_dates_are_typed_as_they_are_written_in_the_declared_locale(
    locale, written, day
):
    assert valid(Field("born", ask="date", locale=locale), written).text == day


@pytest.mark.parametrize(
    ("locale", "written", "number"),
    [
        ("de", "1.234,50", "1234.50"),
        ("de", "1.234", "1234"),
        ("de-CH", "1’234.50", "1234.50"),
        ("en-US", "1,234", "1234"),
        ("fr", "1 234,5", "1234.5"),
    ],
)
def test_numbers_are_typed_as_they_are_written_in_the_declared_locale(
    locale, written, number
):
    assert valid(Field("total", ask="number", locale=locale), written).text == number


def test_what_a_field_declares_itself_goes_before_its_locale():
    field = Field("n", ask="number", locale="de", decimal="point")
    assert valid(field, "1.5").text == "1.5"
    assert valid(Field("d", ask="date", locale="en-US", order="dmy"), "03/04/2026")


def test_a_year_of_two_digits_is_asked_about():
    assert "century" in reason(DAY, "03.04.71")
