"""Words of the console's pages."""

from dispatcher.model import TRANSITIONS
from dispatcher.surfaces.console.pages import STANDINGS


def test_every_state_of_an_account_has_a_word():
    assert STANDINGS.keys() == TRANSITIONS["account"].keys()
