"""An offer leads to the task page that its connector is set to, and nowhere else."""

from urllib.parse import urlsplit

import pytest

from connectors.errors import Misconfigured, Rejected
from connectors.task_page import check_entrance, check_link, check_place, origin

PAGE = "https://work.example:8443/from/turkle"


class Calls:
    """Knows one address that may be called."""

    def check(self, url):
        if not url.startswith("https://work.example"):
            raise Misconfigured("it must not be called")
        return urlsplit(url)


def test_a_port_and_a_scheme_make_another_place():
    same = origin("https://work.example:8443/other?x=1")
    assert same == origin(PAGE)
    for other in ("http://work.example:8443/", "https://work.example/", "https://x/"):
        assert origin(other) != origin(PAGE)


def test_an_offer_that_leads_elsewhere_is_refused():
    check_place("https://work.example:8443/t/1", PAGE)
    with pytest.raises(Misconfigured, match="different places"):
        check_place("https://work.example/t/1", PAGE)


@pytest.mark.parametrize("link", ["", "/t/1", "ftp://x/t", "javascript:alert(1)"])
def test_an_offer_without_an_address_is_rejected(link):
    check_link("http://127.0.0.1:8421/t/1")
    with pytest.raises(Rejected, match="no task page"):
        check_link(link)


def test_the_setting_page_is_an_entrance():
    assert check_entrance(Calls(), PAGE, "turkle").path == "/from/turkle"
    for page in ("https://work.example/", "https://work.example/x/from/turkle"):
        with pytest.raises(Misconfigured, match="page of turkle is not where raters"):
            check_entrance(Calls(), page, "turkle", who="raters")
    with pytest.raises(Misconfigured, match="must not be called"):
        check_entrance(Calls(), "https://elsewhere.example/from/turkle", "turkle")
