"""The formula guard: whatever a spreadsheet may run is text, and comes back exactly."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.formula_guard import guard, unguard

SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212\u207a\u208c"


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "before", ["", " ", "\u3000", "\ufeff", "\u200b", "\x01", "\xa0"]
)
def test_safety_17_a_sign_of_a_formula_in_any_form_is_guarded(sign, before):
    assert guard(f"{before}{sign}1+1") == f"'{before}{sign}1+1"


@pytest.mark.parametrize("cell", ["\t", "\r", "\n", "\0x"])
def test_a_control_that_begins_a_cell_is_guarded(cell):
    assert guard(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["", "Ann", " Ann", "1-2", "a=b", "'quoted", "me@example", "\u5f20"]
)
def test_other_cells_stay_as_they_are(cell):
    assert guard(cell) == cell
    assert unguard(cell) == cell


@given(st.characters(exclude_categories=["Cs"]))
def test_no_sign_that_looks_like_one_of_a_formula_is_left_out(sign):
    """Compatibility forms fold to the ASCII sign; a spreadsheet may fold them too."""
    folded = unicodedata.normalize("NFKC", sign)
    if folded[:1] in tuple("=+-@"):
        assert guard(f"{sign}1") == f"'{sign}1"


@given(st.text(alphabet=f"' a,\t\n\ufeff{SIGNS}", max_size=8))
def test_what_is_guarded_comes_back_exactly(cell):
    assert unguard(guard(cell)) == cell
