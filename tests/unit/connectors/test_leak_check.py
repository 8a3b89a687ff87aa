"""Words of an outsider that quote a value are known for it."""

import pytest

from connectors.leak_check import quotes


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("bad item: Jane Roe", "Jane Roe"),
        ("bad item: jane  roe...", "Jane Roe, 12 Harbour Street"),
        ("line 1 is '\u201e12 harbour'", "Jane Roe\n12 Harbour Street"),
        ("too old: 93", "93"),
        ("STRASSE is not known", "Straße"),
    ],
)
def test_a_quotation_is_found(words, shown):
    assert quotes(words, shown.encode())


@pytest.mark.parametrize("shown", ["Jane Roe, 12 Harbour Street", "", " \n", "93"])
def test_other_words_are_none(shown):
    assert not quotes("the account is not known", shown.encode())


def test_a_picture_is_never_quoted_as_text():
    assert not quotes("the account is not known", bytes(range(128, 256)))
