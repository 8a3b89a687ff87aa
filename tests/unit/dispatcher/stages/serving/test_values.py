"""Terms of serving that make no sense are refused."""

import pytest

from dispatcher.stages.serving.values import ServingTerms


@pytest.mark.parametrize(
    "bad",
    [{"gold": 0.6}, {"gold": -0.1}, {"floor": 0.8}, {"floor": -1}, {"floor_after": 0}],
)
def test_terms_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        ServingTerms(**bad)
