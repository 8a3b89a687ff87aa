"""What the guarded client reaches, and what it makes of answers."""

from __future__ import annotations

import socket
import threading
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import Misconfigured, Rejected, TryLater
from connectors.http.client import (
    Answered,
    Http,
    TooLong,
    expect_done,
    is_public,
    retry_after,
)


@pytest.fixture
def http():
    client = Http(private=["127.0.0.1"], most=1000)
    yield client
    client.close()


SPECIAL_IPV4 = (
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8",
    "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32",
    "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24",
    "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "240.0.0.0/4", "255.255.255.255/32",
    "224.0.0.0/4",  # multicast has a registry of its own
)  # fmt: skip
"""IANA's IPv4 Special-Purpose Address Registry."""

SPECIAL_IPV6 = (
    "::1/128", "::/128", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
    "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
    "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28",
    "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    "5f00::/16", "fc00::/7", "fe80::/10",
    # IPv4-compatible, site-local, multicast: deprecated, or with a registry of their own
    "::/96", "fec0::/10", "ff00::/8",
)  # fmt: skip
"""IANA's IPv6 Special-Purpose Address Registry but ``::ffff:0:0/96``, judged as IPv4."""

EMBEDDINGS = (
    "::{0:x}:{1:x}", "::ffff:{0:x}:{1:x}", "::ffff:0:{0:x}:{1:x}",
    "64:ff9b::{0:x}:{1:x}", "64:ff9b:1::{0:x}:{1:x}", "2002:{0:x}:{1:x}::1",
    "2001:0:{0:x}:{1:x}::1",
)  # fmt: skip
"""How an IPv6 address carries an IPv4 one, by its two halves."""


def addresses_in(block: str) -> st.SearchStrategy[str]:
    """Addresses of a block, its first and last among them."""
    network = ip_network(block)
    first, last = int(network.network_address), int(network.broadcast_address)
    make = type(network.network_address)
    numbers = st.integers(first, last) | st.sampled_from([first, last])
    return numbers.map(lambda number: str(make(number)))


BLOCKS = tuple(map(ip_network, SPECIAL_IPV4 + SPECIAL_IPV6))


def is_listed(address: str) -> bool:
    """Whether a block of the registries holds an address."""
    return any(ip_address(address) in block for block in BLOCKS)


@pytest.mark.parametrize("block", SPECIAL_IPV4 + SPECIAL_IPV6)
def test_neither_end_of_a_special_purpose_block_is_public(block):
    network = ip_network(block)
    assert not is_public(str(network.network_address))
    assert not is_public(str(network.broadcast_address))


@given(address=st.sampled_from(SPECIAL_IPV4 + SPECIAL_IPV6).flatmap(addresses_in))
def test_safety_25_no_address_of_a_special_purpose_block_is_public(address):
    assert not is_public(address)


@given(address=addresses_in("0.0.0.0/0"))
def test_an_ipv4_address_is_public_where_no_registry_lists_it_plain_or_mapped(address):
    assert is_public(address) is not is_listed(address)
    assert is_public(f"::ffff:{address}") is not is_listed(address)


@given(address=addresses_in("2000::/3"))
def test_global_unicast_of_ipv6_is_public_where_no_registry_lists_it(address):
    assert is_public(address) is not is_listed(address)


@given(address=addresses_in("::/0").filter(lambda text: not text.startswith("::ffff:")))
def test_no_ipv6_address_outside_global_unicast_is_public(address):
    assert not is_public(address) or ip_address(address) in ip_network("2000::/3")


@given(address=st.sampled_from(SPECIAL_IPV4).flatmap(addresses_in))
def test_safety_25_no_form_of_a_special_ipv4_address_is_public(address):
    number = int(ip_address(address))
    for form in EMBEDDINGS:
        assert not is_public(form.format(number >> 16, number & 0xFFFF)), form


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:127.0.0.1", "0:0:0:0:0:ffff:7f00:1", "fe80::1%eth0", "2606:4700::1%eth0",
        "not-an-address", "", "127.1", "0x7f.0.0.1", "2130706433",
    ],
)  # fmt: skip
def test_an_address_in_another_spelling_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14"]
)
def test_public_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "ftp://example.org/", "https://", "example.org", "",
        "https://user:pw@example.org/", "https://user@example.org/", "https://[::1",
        "https://example.org:22/", "https://example.org:99999/", "file:///etc/passwd",
        "http://127.0.0.2/",
    ],
)  # fmt: skip
def test_safety_25_a_url_that_must_not_be_called_is_refused_unresolved(url):
    def nobody(host, port):
        pytest.fail("it was resolved")

    with pytest.raises(Misconfigured) as caught:
        Http(private=["127.0.0.1"], resolve=nobody).call("GET", url)
    assert "pw" not in str(caught.value)


def test_safety_25_a_name_with_one_private_address_is_not_reached(outside):
    http = Http(resolve=lambda host, port: ["93.184.215.14", "127.0.0.1"])
    with pytest.raises(Misconfigured, match="private network"):
        http.call("GET", "https://rebound.example/")
    assert not outside.requests


def test_safety_25_the_connection_goes_to_the_address_that_was_checked(outside):
    asked = []

    def changing(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

    port = outside.url.rpartition(":")[2]
    http = Http(private=["named.example"], resolve=changing)
    answered = http.call("GET", f"http://named.example:{port}/x?y=1")
    assert answered.body == b"ok"
    assert asked == ["named.example"]
    http.close()
    assert outside.requests[0].path == "/x?y=1"
    assert outside.requests[0].headers["host"] == f"named.example:{port}"


def test_safety_25_a_redirect_is_not_followed(outside, http):
    outside.respond = lambda request: (302, {"location": "http://127.0.0.1/x"}, b"")
    answered = http.call("GET", f"{outside.url}/a")
    assert answered.status == 302
    assert len(outside.requests) == 1
    with pytest.raises(Misconfigured, match="302"):
        expect_done(answered, "h", 0.0)


def test_safety_26_an_answer_past_the_limit_is_refused(outside, http):
    outside.respond = lambda request: (200, {}, b"x" * 1001)
    with pytest.raises(Rejected, match="1000 bytes"):
        http.call("GET", outside.url)


def test_safety_26_a_compressed_answer_is_refused(outside, http):
    outside.respond = lambda request: (200, {"content-encoding": "gzip"}, b"x")
    with pytest.raises(Rejected, match="compressed"):
        http.call("GET", outside.url)


def test_a_connection_cut_after_the_request_is_an_unknown_outcome(outside, http):
    outside.respond = lambda request: None
    with pytest.raises(TooLong):
        http.call("POST", outside.url, body=b"x")
    assert len(outside.requests) == 1


def test_nobody_there_is_for_later():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/secret-path"
        with pytest.raises(TryLater) as caught:  # nobody else takes it meanwhile
            Http(private=["127.0.0.1"]).call("GET", url)
    assert "secret-path" not in f"{caught.value.what}{caught.value.why}"


def test_a_name_that_nobody_knows_is_for_later():
    def unknown(host, port):
        raise socket.gaierror(-2, "unknown")

    with pytest.raises(TryLater, match="cannot be reached"):
        Http(resolve=unknown).call("GET", "https://nowhere.example/")


@pytest.mark.parametrize(
    "begun",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: "],
    ids=["body", "head"],
)
def test_safety_26_an_answer_that_drips_ends_in_time(begun):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        ended = threading.Event()

        def drip():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(begun)
                while not ended.wait(0.05):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            with pytest.raises(TooLong):
                Http(private=["127.0.0.1"], seconds=0.5).call("GET", url)
        finally:
            ended.set()
            thread.join()


def test_safety_26_a_server_without_tls_is_no_https_server(outside):
    url = outside.url.replace("http:", "https:")
    with pytest.raises(Misconfigured, match="certificate"):
        Http(private=["127.0.0.1"]).call("GET", url)
    assert not outside.requests


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (301, Misconfigured), (400, Rejected), (401, Misconfigured), (403, Misconfigured),
        (404, Misconfigured), (408, TryLater), (410, Misconfigured), (413, Rejected),
        (422, Rejected), (425, TryLater), (429, TryLater), (500, TryLater),
        (503, TryLater), (504, TryLater),
    ],
)  # fmt: skip
def test_a_status_says_what_to_do_next(status, error):
    with pytest.raises(error) as caught:
        expect_done(Answered(status, {}, b"canary"), "host", 0.0)
    assert type(caught.value) is error
    assert "canary" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0), ("0", 0.0), ("", 60.0), ("soon", 60.0), ("-5", 60.0),
        ("999999999999999", 86_400.0), ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("1e5", 60.0),
    ],
)  # fmt: skip
def test_the_time_to_wait_is_read_or_a_minute(value, seconds):
    assert retry_after(value, 100.0) == seconds
