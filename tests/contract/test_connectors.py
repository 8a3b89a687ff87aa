"""Every connector of this repository passes the contract suite."""

from __future__ import annotations

import csv
import json
import shutil
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest import mock

import jwt
import numpy as np
import pytest

from connectors.base import Handle, Rejected, Settings, Visit
from connectors.folder import Folder
from connectors.folder.names import batch_of, directory_of
from connectors.formats.feed_files import file_name
from connectors.formats.formula_guard import guard
from connectors.http.client import Http
from connectors.inhouse import Inhouse, Ticket, sign
from connectors.pickup import PickupFolder
from connectors.s3 import CONNECTOR as S3
from connectors.s3 import S3Feed
from connectors.segment import SegmentFeed
from connectors.sftp import CONNECTOR as SFTP
from connectors.testing.hostile import BEARABLE, Hostile, Memory
from connectors.testing.listing_suite import ListingContract
from connectors.testing.suite import NOW, Bench, FeedContract, MarketContract, offer_for
from connectors.webhook import WebhookFeed
from tests.contract.buckets import SECRET, bucket_server, objects
from tests.contract.memory_feed import MemoryFeed
from tests.contract.receiver import receiving, take
from tests.contract.sshd import sftp_server

KEY = b"k" * 32
WHSEC = "whsec_" + "a2tr" * 8


class Killed(Exception):
    """Stands for SIGKILL."""


def everything(place: Path) -> bytes:
    if not place.exists():
        return b""
    return b"".join(p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file())


def folder_bench(tmp_path: Path, form: str) -> Bench:
    spool = tmp_path / "spool"

    def answer(handle: Handle, token: str, account: str, value: str) -> None:
        batch = spool / handle.reference
        path = batch / f"answers-{token}.csv"
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows(
                [("task", "answer"), (guard(token), guard(value))]
            )

    @contextmanager
    def crash():
        # the rename is done, the process dies before anything else happens
        with mock.patch("connectors.folder.market.sync_directory", crash_on(spool)):
            yield

    def crash_on(root: Path):
        def sync(path: Path) -> None:
            if path.parent == root and any(path.glob("batch-*")):
                raise Killed

        return sync

    return Bench(
        open=lambda: Folder(spool, form=form, settle=0),
        seen=lambda account: everything(
            spool / directory_of(account) if account else spool
        ),
        copies=lambda key: len(list(spool.glob(f"[!.]*/{batch_of(key)}"))),
        answer=answer,
        crash_after_accept=crash,
        remove=lambda handle: shutil.rmtree(spool / handle.reference),
    )


class TestFolderOfCsv(ListingContract):
    @pytest.fixture
    def bench(self, tmp_path):
        return folder_bench(tmp_path, "csv")


class TestFolderOfJsonLines(ListingContract):
    @pytest.fixture
    def bench(self, tmp_path):
        return folder_bench(tmp_path, "jsonl")


class TestInhouse(MarketContract):
    @pytest.fixture
    def bench(self):
        def visit(account, now):
            ticket = Ticket(account, "t1", now + timedelta(hours=1))
            return Visit({"token": sign(KEY, ticket)})

        good = visit("ann", NOW).parameters["token"]
        other = sign(b"o" * 32, Ticket("ann", "t1", NOW + timedelta(hours=1)))
        body = sign(KEY, Ticket("bob", "t1", NOW + timedelta(hours=1))).split(".")[1]
        head, _, mac = good.split(".")
        forged = (
            other,
            good[:-1],
            f"{head}.{body}.{mac}",
            jwt.encode({"sub": "ann", "jti": "t1", "exp": 2**40}, "", algorithm="none"),
            good + "=",
            f"{head}..",
            "💥",
            "x" * 10_000,
        )
        return Bench(
            open=lambda: Inhouse(KEY),
            seen=lambda account: b"",
            visit=visit,
            forged=[Visit({"token": token}) for token in forged],
        )


def memory_bench(faults=()) -> Bench:
    memory = Memory()
    rng = np.random.default_rng(7)

    def seen(account: str) -> bytes:
        return b"".join(
            item.content or b""
            for offer in memory.offers.values()
            if account in ("", offer.account) and offer.key not in memory.withdrawn
            for item in offer.items
        )

    return Bench(
        open=lambda: Hostile(memory, rng, faults),
        seen=seen,
        copies=lambda key: int(key in memory.offers),
        answer=lambda handle, token, account, value: memory.give(token, account, value),
        remove=lambda handle: memory.offers.pop(handle.key),
    )


class TestMemory(ListingContract):
    @pytest.fixture
    def bench(self):
        return memory_bench()


class TestHostile(ListingContract):
    """Whatever it does, the protocol's caller can still live with it."""

    @pytest.fixture
    def bench(self):
        return memory_bench(BEARABLE)


class TestMemoryFeed(FeedContract):
    @pytest.fixture
    def bench(self):
        feed = MemoryFeed()
        return Bench(
            open=lambda: feed,
            seen=lambda account: b"".join(
                item.content or b"" for o in feed.sent.values() for item in o.items
            ),
            copies=lambda key: int(key in feed.sent),
        )


class Leaky(Memory):
    """Shows every offer to everyone."""


class TestTheSuiteItself:
    """A suite that cannot fail proves nothing: here are connectors that must."""

    def test_a_market_that_shows_all_to_all_fails(self):
        memory = Leaky()
        bench = Bench(
            open=lambda: memory,
            seen=lambda account: b"".join(
                item.content or b"" for o in memory.offers.values() for item in o.items
            ),
        )
        suite = MarketContract()
        with pytest.raises(AssertionError):
            suite.test_only_the_account_sees_what_is_assigned_to_it(bench, "ann")

    def test_a_market_that_publishes_twice_fails(self):
        class Twice(Memory):
            posted = 0

            def publish(self, offer):
                self.posted += 1
                return super().publish(offer)

        memory = Twice()
        bench = Bench(
            open=lambda: memory, seen=lambda _: b"", copies=lambda _: memory.posted
        )
        with pytest.raises(AssertionError):
            MarketContract().test_a_key_makes_one_copy(bench)

    def test_a_market_that_forgets_what_it_published_fails(self):
        memory = Memory()
        bench = Bench(open=Memory, seen=lambda _: b"")
        suite = MarketContract()
        suite.put(bench, offer_for(memory.manifest, "k1"))
        with pytest.raises(AssertionError):
            suite.test_what_was_put_is_found_after_a_restart(bench)

    def test_a_market_that_loses_answers_fails(self):
        class Forgetful(Memory):
            def collect(self, cursor):
                found = super().collect(cursor)
                self.answers.clear()
                return found

        memory = Forgetful()
        bench = Bench(
            open=lambda: memory,
            seen=lambda _: b"",
            answer=lambda handle, token, account, value: memory.give(
                token, account, value
            ),
        )
        with pytest.raises(AssertionError):
            MarketContract().test_an_answer_comes_until_its_cursor_comes_back(bench)

    def test_a_market_that_can_not_withdraw_what_is_gone_fails(self):
        class Strict(Memory):
            def withdraw(self, handle):
                if handle.key not in self.offers:
                    raise Rejected("there is no such offer")
                super().withdraw(handle)

        memory = Strict()
        bench = Bench(
            open=lambda: memory,
            seen=lambda _: b"",
            remove=lambda handle: memory.offers.pop(handle.key),
        )
        with pytest.raises(Rejected):
            MarketContract().test_what_is_gone_outside_is_withdrawn_like_any_other(
                bench
            )

    def test_a_market_that_takes_anyone_in_fails(self):
        class Open(Memory):
            def arrive(self, visit, now):
                return Inhouse(KEY).arrive(
                    Visit({"token": sign(KEY, Ticket("a", "t", now + timedelta(1)))}),
                    now,
                )

        bench = Bench(open=Open, seen=lambda _: b"")
        with pytest.raises(pytest.fail.Exception):
            MarketContract().test_a_forged_visit_is_rejected(bench)

    def test_a_market_that_takes_content_that_must_stay_home_fails(self):
        class Careless(Inhouse):
            def publish(self, offer):
                return Handle(offer.key, offer.key)

        bench = Bench(open=lambda: Careless(KEY), seen=lambda _: b"")
        with pytest.raises(pytest.fail.Exception):
            MarketContract().test_content_goes_out_exactly_where_the_manifest_says(
                bench
            )
        with pytest.raises(Rejected):
            Inhouse(KEY).publish(offer_for(Memory().manifest, "k1"))


@contextmanager
def answer_lost(outside):
    """The receiver takes the message, and its answer is lost."""
    outside.respond = lambda request: None
    yield
    outside.respond = take


def said(outside) -> bytes:
    """All that the receiver got, with characters as they are."""
    told = [json.loads(request.body) for request in outside.requests]
    return json.dumps(told, ensure_ascii=False).encode()


class TestWebhook(FeedContract):
    @pytest.fixture
    def bench(self):
        with receiving() as outside:
            http = Http(private=["127.0.0.1"])
            yield Bench(
                open=lambda: WebhookFeed(outside.url, [WHSEC], http, NOW.timestamp),
                seen=lambda account: said(outside),
                copies=lambda key: len(
                    {r.headers["webhook-id"] for r in outside.requests} & {f"msg_{key}"}
                ),
                crash_after_accept=lambda: answer_lost(outside),
            )
            http.close()


class TestSegment(FeedContract):
    @pytest.fixture
    def bench(self):
        def copies(key: str) -> int:
            told = [json.loads(r.body)["batch"] for r in outside.requests]
            first = f"task-{key}-0"
            ids = {e["messageId"] for b in told for e in b if e["anonymousId"] == first}
            return len(ids)

        with receiving() as outside:
            http = Http(private=["127.0.0.1"])
            yield Bench(
                open=lambda: SegmentFeed(outside.url, "WK", http, NOW.timestamp),
                seen=lambda account: said(outside),
                copies=copies,
                crash_after_accept=lambda: answer_lost(outside),
            )
            http.close()


@pytest.fixture(scope="module")
def server():
    with bucket_server() as url:
        yield url


class TestS3(FeedContract):
    @pytest.fixture
    def bench(self, server, tmp_path):
        prefix = f"{tmp_path.name}/"
        values = {
            "bucket": "acme-data", "prefix": prefix, "format": "jsonl",
            "endpoint": server, "allow_private": "127.0.0.1",
        }  # fmt: skip

        def bodies(account: str = "") -> bytes:
            lines = b"".join(objects(server, "acme-data", prefix).values()).splitlines()
            told = [json.loads(line) for line in lines]
            return json.dumps(told, ensure_ascii=False).encode()

        @contextmanager
        def crash():
            # the object is there, the process dies before anything else happens
            with mock.patch.object(S3Feed, "_handle", side_effect=Killed):
                yield

        opened = []

        def open_():
            opened.append(S3.open(Settings(values, SECRET)))
            return opened[-1]

        yield Bench(
            open=open_,
            seen=bodies,
            copies=lambda key: sum(
                file_name(key, "jsonl") in name
                for name in objects(server, "acme-data", prefix)
            ),
            crash_after_accept=crash,
        )
        for one in opened:
            one.close()


class TestPickup(FeedContract):
    @pytest.fixture
    def bench(self, tmp_path):
        @contextmanager
        def crash():
            # the file is in place and noted, the process dies before anything else happens
            with mock.patch("connectors.pickup.feed.Handle", side_effect=Killed):
                yield

        return Bench(
            open=lambda: PickupFolder(tmp_path / "out"),
            seen=lambda account: everything(tmp_path),
            copies=lambda key: len(
                list((tmp_path / "out").glob(file_name(key, "csv")))
            ),
            crash_after_accept=crash,
        )


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    with sftp_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


class TestSftp(FeedContract):
    @pytest.fixture
    def bench(self, sshd, tmp_path):
        drop = tmp_path / "drop"
        drop.mkdir()
        values = sshd.settings(drop)

        @contextmanager
        def crash():
            # both files are in place, the process dies before anything else happens
            with mock.patch("connectors.sftp.feed.Handle", side_effect=Killed):
                yield

        return Bench(
            open=lambda: SFTP.open(Settings(values, sshd.key)),
            seen=lambda account: everything(drop),
            copies=lambda key: len(list(drop.glob(f"{file_name(key, 'csv')}"))),
            crash_after_accept=crash,
        )
