"""Who holds one field of each record and who holds another cannot tell by order which
belong together."""

import csv
from collections import Counter

import numpy as np
import pytest

from connectors.base import Limits, Settings
from connectors.folder import CONNECTOR as FOLDER
from connectors.testing.hostile import Memory
from dispatcher.preflight import Preflight
from dispatcher.stages.booking import Booking
from dispatcher.stages.sending import Sending
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.integration.test_booking import House
from tests.integration.test_preflight import Declares, OneReceiver

RECORDS = 120
CHANCE = 7
"""Right guesses of 120 by chance: 1 is expected, 7 or more come once in 10,000 times."""


@pytest.fixture
def house(store, clock):
    """ann is planned field a of each record, bob field b; the content names the record."""
    case = Case(store)
    case.apply(policy(PAIR))
    return House(case, clock)


def planned(house, connectors, ann="x/ann", bob="x/bob", media="text/plain"):
    case = house.case
    case.add(ann, bob)
    for i in range(RECORDS):
        shown = f"r{i}".encode()
        case.load((f"r{i}", f"p{i}", None, "ab"), shown=shown, media=media)
    names = [name for name in case.entries if name.endswith(".a")]
    others = [name.replace(".a", ".b") for name in names]
    house.plan((ann, " ".join(names)), (bob, " ".join(others)))
    rng = np.random.default_rng(11)
    return Booking(case.store, Preflight(connectors), house.clock, rng)


def send(house, connectors):
    for name, each in connectors.items():
        Sending(house.case.store, name, each, house.clock).tick(house.epoch)


def right(mine, theirs):
    """How many are linked rightly by where they stand."""
    assert len(mine) == len(theirs) == len(set(mine)) == RECORDS
    return sum(one == other for one, other in zip(mine, theirs, strict=True))


def by_order(offers, account):
    """Records of an account, in the order in which they arrived."""
    return [
        item.content.decode()
        for offer in offers
        if offer.account == account
        for item in offer.items
    ]


def by_token(offers, account):
    """Records of an account, in the order of what names them outside."""
    named = [
        (item.token, item.content.decode())
        for offer in offers
        if offer.account == account
        for item in offer.items
    ]
    return [record for _, record in sorted(named)]


@pytest.mark.parametrize("items", [1000, 7, 1])
def test_the_order_at_a_market_links_no_two_fields_of_a_record(house, items):
    market = Declares(limits=Limits(items=items))
    booking = planned(house, {"x": market})
    while booking.tick(house.epoch):
        pass
    while Sending(house.case.store, "x", market, house.clock).tick(house.epoch):
        pass
    for ordered in (by_order, by_token):
        mine, theirs = (ordered(market.offers.values(), w) for w in ("ann", "bob"))
        assert right(mine, theirs) < CHANCE
        assert right(mine, [f"r{i}" for i in range(RECORDS)]) < CHANCE


def test_the_order_at_two_feeds_links_no_two_fields_of_a_record(house):
    fields = "a = {}\nb = {}\nc = {}\nd = {}"
    house.case.apply(policy(PAIR, fields, name="published"))
    feeds = {"ads": OneReceiver(), "ads2": OneReceiver()}
    booking = planned(house, feeds, "ads/acme", "ads2/bolt")
    booking.tick(house.epoch)
    send(house, feeds)
    mine, theirs = (
        [item.content.decode() for offer in each.sent.values() for item in offer.items]
        for each in feeds.values()
    )
    assert right(mine, theirs) < CHANCE


def test_what_a_limit_lets_out_an_hour_is_drawn_from_all(house, clock):
    """Ten an hour each: what both get in one hour is of the same record by chance."""
    caps = '[capacity."*"]\nper_hour = 10'
    house.case.apply(policy(PAIR, groups=caps, name="slow"))
    market = Memory()
    booking = planned(house, {"x": market})
    same = 0
    for _ in range(RECORDS // 10):
        assert booking.tick(house.epoch) == 20
        before = set(market.offers)
        send(house, {"x": market})
        told = [market.offers[key] for key in market.offers.keys() - before]
        counted = Counter(i.content for offer in told for i in offer.items)
        same += sum(n == 2 for n in counted.values())
        clock.advance(seconds=3601)
    # 10 of 120 are expected: each of the 10 of an hour with chance 1/12
    assert same < 25
    mine, theirs = (by_order(market.offers.values(), w) for w in ("ann", "bob"))
    assert right(mine, theirs) < CHANCE


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_folder_links_nothing_by_rows_names_and_time_stamps(house, tmp_path, form):
    values = {"spool": str(tmp_path / "spool"), "settle_seconds": "0", "format": form}
    folder = FOLDER.open(Settings(values))
    booking = planned(house, {"x": folder}, media="application/octet-stream")
    booking.tick(house.epoch)
    send(house, {"x": folder})

    def files(account):
        (place,) = (tmp_path / "spool" / account).glob("batch-*/content")
        return list(place.iterdir())

    for key in (
        lambda path: path.name,
        lambda path: (path.stat().st_mtime_ns, path.stat().st_ino),
    ):
        mine, theirs = (
            [path.read_text() for path in sorted(files(who), key=key)]
            for who in ("ann", "bob")
        )
        assert right(mine, theirs) < CHANCE
    if form == "csv":
        for who in ("ann", "bob"):
            (table,) = (tmp_path / "spool" / who).glob("batch-*/tasks.csv")
            with table.open(newline="", encoding="utf-8-sig") as rows:
                named = [row["file"] for row in csv.DictReader(rows)]
            shown = [(table.parent / name).read_text() for name in named]
            assert right(shown, [f"r{i}" for i in range(RECORDS)]) < CHANCE
