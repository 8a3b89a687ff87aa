"""Files dropped on a real OpenSSH server."""

from __future__ import annotations

import csv
import hashlib
import json
from unittest import mock

import paramiko
import pytest

from connectors.base import Item, Misconfigured, Offer, Settings, TryLater
from connectors.sftp import CONNECTOR
from dispatcher.app.servers import free_ports
from tests.contract.sshd import sftp_server

OFFER = Offer(
    "17",
    account="acme",
    items=(Item("t1", content="Zürich 🦊".encode(), label="place"),),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with sftp_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def drop(tmp_path):
    place = tmp_path / "drop"
    place.mkdir()
    return place


def feed(server, drop, secret=None, **more):
    return CONNECTOR.open(Settings(server.settings(drop, **more), secret or server.key))


def test_a_file_and_its_manifest_are_put_in_place_whole(server, drop):
    handle = feed(server, drop).send(OFFER)
    names = sorted(path.name for path in drop.iterdir())
    assert names == [
        handle.reference,
        handle.reference.replace(".csv", ".manifest.json"),
    ]
    body = (drop / handle.reference).read_bytes()
    told = json.loads((drop / names[1]).read_text())
    assert told == {
        "file": handle.reference, "bytes": len(body), "rows": 1,
        "sha256": hashlib.sha256(body).hexdigest(),
    }  # fmt: skip
    with (drop / handle.reference).open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [
            {
                "token": "t1", "field": "place", "media_type": "text/plain",
                "text": "Zürich 🦊", "base64": "",
            }
        ]  # fmt: skip


def test_without_its_manifest_a_file_is_not_found_and_comes_again(server, drop):
    one = feed(server, drop)
    handle = one.send(OFFER)
    manifest = drop / handle.reference.replace(".csv", ".manifest.json")
    manifest.unlink()
    (drop / handle.reference).write_bytes(b"half")
    assert one.find("17") is None
    assert one.send(OFFER) == handle == one.find("17")
    size = json.loads(manifest.read_text())["bytes"]
    assert (drop / handle.reference).stat().st_size == size


def test_a_connection_that_breaks_leaves_no_file_under_its_name(server, drop):
    one = feed(server, drop)
    broken = mock.patch.object(
        paramiko.SFTPClient, "posix_rename", side_effect=EOFError
    )
    with broken, pytest.raises(TryLater):
        one.send(OFFER)
    assert not [path for path in drop.iterdir() if not path.name.startswith(".")]
    one.send(OFFER)
    assert len(list(drop.iterdir())) == 2


def test_another_host_key_than_the_one_set_is_refused_before_anything_is_said(
    server, drop
):
    other = paramiko.ECDSAKey.generate()
    told = f"{other.get_name()} {other.get_base64()}"
    with pytest.raises(Misconfigured, match="another host key"):
        feed(server, drop, host_key=told).send(OFFER)
    assert not list(drop.iterdir())


def test_a_key_that_the_server_does_not_know_is_for_the_operator_to_mend(server, drop):
    with pytest.raises(Misconfigured, match="does not know our key"):
        feed(server, drop, server.stranger).send(OFFER)


def test_a_directory_that_is_not_there_is_for_the_operator_to_mend(server, drop):
    with pytest.raises(Misconfigured, match="no such directory"):
        feed(server, drop / "nowhere").send(OFFER)


def test_a_server_that_is_not_there_is_for_later(server, drop):
    with pytest.raises(TryLater):
        feed(server, drop, port=str(free_ports(1)[0])).send(OFFER)


def test_a_server_in_a_private_network_is_not_reached_unless_it_is_listed(server, drop):
    with pytest.raises(Misconfigured, match="private network"):
        feed(server, drop, allow_private="").send(OFFER)
    assert not list(drop.iterdir())


@pytest.mark.parametrize(
    "more",
    [
        {"port": "0"}, {"port": "70000"}, {"port": "ssh"}, {"host_key": "none"},
        {"host_key": "ssh-ed25519 !!!"}, {"format": "doc"}, {"colour": "red"},
    ],
)  # fmt: skip
def test_settings_that_can_not_be_are_refused(server, drop, more):
    with pytest.raises(Misconfigured):
        feed(server, drop, **more)


@pytest.mark.parametrize("secret", [b"", b"no key at all", b"\xff\xfe\x00"])
def test_a_private_key_that_is_none_is_refused_without_telling_it(server, drop, secret):
    with pytest.raises(Misconfigured) as caught:
        CONNECTOR.open(Settings(server.settings(drop), secret))
    assert "no key at all" not in str(caught.value)
