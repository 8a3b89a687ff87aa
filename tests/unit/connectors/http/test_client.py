"""What the guarded client reaches, and what it makes of answers."""

from __future__ import annotations

import socket
import threading

import pytest

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


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "::1", "10.0.0.1", "172.16.9.9", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "0.0.0.0", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "224.0.0.1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "240.0.0.1",
        "255.255.255.255", "ff02::1", "not-an-address",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_network_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1"])
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
def test_a_url_that_must_not_be_called_is_refused_unresolved(url):
    def nobody(host, port):
        pytest.fail("it was resolved")

    with pytest.raises(Misconfigured) as caught:
        Http(private=["127.0.0.1"], resolve=nobody).call("GET", url)
    assert "pw" not in str(caught.value)


def test_a_name_with_one_private_address_is_not_reached(outside):
    http = Http(resolve=lambda host, port: ["93.184.215.14", "127.0.0.1"])
    with pytest.raises(Misconfigured, match="private network"):
        http.call("GET", "https://rebound.example/")
    assert not outside.requests


def test_the_connection_goes_to_the_address_that_was_checked(outside):
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


def test_a_redirect_is_not_followed(outside, http):
    outside.respond = lambda request: (302, {"location": "http://127.0.0.1/x"}, b"")
    answered = http.call("GET", f"{outside.url}/a")
    assert answered.status == 302
    assert len(outside.requests) == 1
    with pytest.raises(Misconfigured, match="302"):
        expect_done(answered, "h", 0.0)


def test_an_answer_past_the_limit_is_refused(outside, http):
    outside.respond = lambda request: (200, {}, b"x" * 1001)
    with pytest.raises(Rejected, match="1000 bytes"):
        http.call("GET", outside.url)


def test_a_compressed_answer_is_refused(outside, http):
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


def test_an_answer_that_drips_ends_in_time():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        ended = threading.Event()

        def drip():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n")
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
                Http(private=["127.0.0.1"], seconds=2).call("GET", url)
        finally:
            ended.set()
            thread.join()


def test_a_server_without_tls_is_no_https_server(outside):
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
