"""A pickup folder: a file a message, put in place whole and never twice."""

import csv

import pytest

from connectors.base import Item, Misconfigured, Offer, Settings
from connectors.pickup import CONNECTOR

OFFER = Offer("17", account="acme", items=(Item("t1", content=b"=gold", label="tier"),))


def opened(folder, **values):
    return CONNECTOR.open(Settings({"path": "out", **values}, directory=folder))


def test_a_message_is_a_file_with_a_row_for_each_field(tmp_path):
    feed = opened(tmp_path)
    handle = feed.send(OFFER)
    (file,) = (tmp_path / "out").glob("fields-*")
    assert handle.reference == file.name
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["token"], row["field"], row["text"]) == ("t1", "tier", "'=gold")


def test_what_the_receiver_took_away_is_not_written_again(tmp_path):
    feed = opened(tmp_path)
    feed.send(OFFER)
    (file,) = (tmp_path / "out").glob("fields-*")
    file.unlink()
    assert opened(tmp_path).find("17") == feed.send(OFFER)
    assert not file.exists()
    assert feed.find("18") is None


@pytest.mark.parametrize(
    "values", [{"format": "xml"}, {"guard": "maybe"}, {"speed": "high"}]
)
def test_unknown_settings_are_refused(tmp_path, values):
    with pytest.raises(Misconfigured):
        opened(tmp_path, **values)
    with pytest.raises(Misconfigured, match="path is missing"):
        CONNECTOR.open(Settings())
