"""``dispatcher connectors``: what is set up, what it declares, whether it works."""

import json
import os
from types import SimpleNamespace

import pytest

from dispatcher.app.servers import free_ports
from dispatcher.surfaces.cli.start import main
from tests.contract.buckets import SECRET, bucket_server

SETTINGS = """
[connectors.folder]
spool = "spool"

[connectors.acme]
kind = "s3"
bucket = "{bucket}"
endpoint = "{url}"
allow_private = "127.0.0.1"
secret_file = "acme.secret"

[connectors.hook]
kind = "webhook"
url = "https://hooks.example.org/fields"
secret_file = "hook.secret"
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.secret").write_bytes(SECRET)
    (tmp_path / "hook.secret").write_text("whsec_" + "a2tr" * 8)

    def command(*words, bucket="acme-data", url="https://s3.example.org"):
        (tmp_path / "dispatcher.toml").write_text(
            SETTINGS.format(bucket=bucket, url=url)
        )
        code = main(["connectors", *words])
        out, err = capsys.readouterr()
        assert SECRET.decode().split()[1] not in out + err
        return SimpleNamespace(code=code, out=out, err=err)

    return command


def test_the_connectors_of_the_settings_are_listed_with_what_they_declare(run):
    lines = run("list").out.splitlines()
    told = {line.split("\t")[0]: line.split("\t")[1:] for line in lines}
    assert told["acme"] == [
        "s3",
        "feed",
        "none",
        "login",
        "market",
        "built in",
        "closed",
        "",
    ]
    assert told["folder"][:3] == ["folder", "market", "assigned"]
    assert set(told) == {"name", "acme", "folder", "hook"}


def test_all_kinds_that_could_be_set_up_are_listed(run):
    told = json.loads(run("list", "--available", "--json").out)["connectors"]
    kinds = {row["kind"] for row in told}
    assert kinds >= {
        "folder",
        "inhouse",
        "label-studio",
        "prolific",
        "s3",
        "segment",
        "sftp",
        "turkle",
        "webhook",
    }


def test_capabilities_say_what_was_tested_against(run):
    told = json.loads(run("show", "acme", "--json").out)
    assert told["finds"] == "yes"
    assert "not live" in told["tested_against"]


@pytest.mark.parametrize(
    ("content", "declared"), [("there", ("market", "none")), ("ours", ("ours", "late"))]
)
def test_what_a_connector_is_by_its_settings_is_what_is_told(
    run, monkeypatch, content, declared
):
    labels = f'\n[connectors.labels]\nkind = "label-studio"\ncontent = "{content}"\n'
    monkeypatch.setattr(f"{__name__}.SETTINGS", SETTINGS + labels)
    told = json.loads(run("show", "labels", "--json").out)
    assert (told["content"], told["binding"]) == declared
    (row,) = [
        row
        for row in json.loads(run("list", "--json").out)["connectors"]
        if row["name"] == "labels"
    ]
    assert (row["content"], row["binding"]) == declared


def test_a_connector_that_works_is_told_to_work(run):
    with bucket_server() as url:
        done = run("test", "acme", url=url)
    assert (done.code, done.out.splitlines()[-1]) == (0, "ok    the outside answers")


def test_a_feed_that_can_not_be_asked_is_only_opened(run):
    done = run("test", "hook")
    assert done.code == 0
    assert "the first message will tell" in done.out


def test_an_outside_that_is_not_there_is_for_later(run):
    done = run("test", "acme", url=f"http://127.0.0.1:{free_ports(1)[0]}")
    assert done.code == 75
    assert done.out.splitlines()[-1].startswith("LATER")


def test_a_connector_that_is_not_set_up_is_an_error_that_names_those_that_are(run):
    done = run("test", "acmee")
    assert done.code == 1
    assert "acme, folder, hook" in done.err
    assert done.out == ""
