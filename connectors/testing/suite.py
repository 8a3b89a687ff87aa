"""The test suite that every connector must pass, for third parties too.

Subclass :class:`MarketContract` (or :class:`FeedContract`) in a test file and define
the fixture ``bench``; pytest does the rest::

    class TestMyMarket(MarketContract):
        @pytest.fixture
        def bench(self, tmp_path):
            outside = start_my_server(tmp_path)
            return Bench(open=lambda: MyMarket(outside.url), seen=outside.page_of)

The suite checks what the manifest declares: content stays home if it is ``ours``, only
the account sees its task if binding is ``assigned``, a key makes one copy.
"""

# A test's name is its sentence; a docstring would say it twice.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from connectors.base import (
    Arrival,
    Binding,
    Collected,
    ConnectorError,
    Content,
    Feed,
    Form,
    Handle,
    Idempotency,
    Inviting,
    Item,
    Manifest,
    Market,
    Money,
    Offer,
    Outcome,
    Rejected,
    Role,
    Visit,
    check_deliverable,
)

__all__ = [
    "CANARY",
    "NOW",
    "REWARD",
    "VALUES",
    "Bench",
    "FeedContract",
    "MarketContract",
    "offer_for",
]

REWARD = Money(Decimal("1.20"), "GBP")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CANARY = "canary-7d1f-Ünïcödé"


@dataclass(frozen=True)
class Bench:
    """What the suite needs to know about the connector under test.

    Attributes
    ----------
    open : callable
        () -> connector; each call a new object on the same outside, as after a crash.
    seen : callable
        account -> all bytes that this account can see outside. For ``""``: all bytes
        that are outside at all.
    copies : callable or None
        key -> number of copies of the offer outside.
    answer : callable or None
        (handle, token, account, value) -> None: plays the worker, so that an answer is
        available outside. None if ``collect`` is always empty.
    visit : callable or None
        (account, now) -> Visit that proves the account at `now` and for an hour. None
        if nobody arrives.
    forged : sequence of Visit
        Visits that must be refused.
    crash_after_accept : callable or None
        () -> context in which ``publish`` fails after the outside has accepted.
    submit : callable or None
        (handle, account) -> None: the account accepts the work of an offer and submits
        it. None if the market does not pay.
    give_up : callable or None
        The same, but it is returned undone.
    payments : callable or None
        (account) -> amounts that the market has paid it, in order.
    lose_the_answer : callable or None
        () -> context in which ``approve`` and ``bonus`` fail after the outside has paid.
    remove : callable or None
        (handle): somebody outside deletes the offer without our knowledge.
    """

    open: Callable[[], Market | Feed]
    seen: Callable[[str], bytes]
    copies: Callable[[str], int] | None = None
    answer: Callable[[Handle, str, str, str], None] | None = None
    visit: Callable[[str, datetime], Visit] | None = None
    forged: Sequence[Visit] = ()
    crash_after_accept: Callable[[], AbstractContextManager[object]] | None = None
    submit: Callable[[Handle, str], None] | None = None
    give_up: Callable[[Handle, str], None] | None = None
    payments: Callable[[str], list[Decimal]] | None = None
    lose_the_answer: Callable[[], AbstractContextManager[object]] | None = None
    remove: Callable[[Handle], object] | None = None


def reward_at(manifest: Manifest) -> Money:
    """Return the reward of the suite's offers, in a currency that the market pays in."""
    return replace(REWARD, currency=manifest.currency or REWARD.currency)


def offer_for(
    manifest: Manifest, key: str, account: str = "ann", items: int = 2
) -> Offer:
    """Return an offer that fits the manifest; item i shows CANARY and its number."""
    held = manifest.content is Content.MARKET
    market = manifest.role is Role.MARKET
    made = tuple(
        Item(
            token=f"task-{key}-{number}",
            form=Form("transcribe", question="Write down what you read.")
            if market
            else None,
            content=f"{CANARY}-{key}-{number}".encode() if held else None,
            label="" if market else "name",
        )
        for number in range(items)
    )
    link = "" if held else "https://tasks.example.test/"
    reward = reward_at(manifest) if manifest.pays else None
    return Offer(key, account=account, items=made, link=link, reward=reward)


ACCOUNTS = ("ann", "Ann", "ann/lee", "ann%2Flee", "..", ".ann", "a b", "🦊", "a\u202eb")
VALUES = (
    "plain", "=1+1", "'=1+1", "-5", "@x", 'a "quoted", b; c', "two\nlines", "héllo",
    "e\u0301", "🦊", "שלום", "& < > ]]>", "007",
)  # fmt: skip


WORST = ("\x01", '"', "\u00e9", "\U0001f98a")
"""Characters that need many bytes in some formats."""
MUCH = 2 << 20
"""Bytes of content to try, at most."""


class _Contract:
    """Tests common to markets and feeds; `put` is publish or send."""

    @pytest.fixture
    def bench(self) -> Bench:
        """Return the bench of the connector under test; every subclass defines its own."""
        raise NotImplementedError

    def put(self, bench: Bench, offer: Offer) -> Handle:
        """Publish as the dispatcher does: look before repeating."""
        for _ in range(20):
            connector = bench.open()
            finds = connector.manifest.finds
            put = connector.publish if isinstance(connector, Market) else connector.send
            try:
                return put(offer)
            except ConnectorError:
                raise
            except Exception:  # noqa: BLE001 (any other error is an unknown outcome)
                found = bench.open().find(offer.key)
                if found is not None:
                    assert finds, "the manifest says that it cannot be asked"
                    return found
        pytest.fail("twenty tries and no outcome")

    def test_the_manifest_is_the_same_for_every_object(self, bench: Bench) -> None:
        assert bench.open().manifest == bench.open().manifest

    def test_the_handle_carries_the_key(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        assert self.put(bench, offer_for(manifest, "k1")).key == "k1"

    def test_what_was_put_is_found_after_a_restart(self, bench: Bench) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        found = bench.open().find("k1")
        assert found == (handle if bench.open().manifest.finds else None)

    def test_a_key_makes_one_copy(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        if manifest.idempotency is not Idempotency.KEY:
            pytest.skip("the manifest promises no idempotency by key")
        first = self.put(bench, offer_for(manifest, "k1"))
        assert self.put(bench, offer_for(manifest, "k1")) == first
        if bench.copies is not None:
            assert bench.copies("k1") == 1

    def test_two_keys_are_two_offers(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        one = self.put(bench, offer_for(manifest, "k1"))
        two = self.put(bench, offer_for(manifest, "k2"))
        assert one.reference != two.reference

    def test_an_unknown_outcome_is_found_and_not_repeated(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        if bench.crash_after_accept is None or bench.copies is None:
            pytest.skip("the bench cannot crash this connector")
        with bench.crash_after_accept(), pytest.raises(Exception):  # noqa: B017, PT011
            self._put_once(bench, offer_for(manifest, "k1"))
        assert (bench.open().find("k1") is not None) == manifest.finds
        self.put(bench, offer_for(manifest, "k1"))
        assert bench.copies("k1") == 1

    def _put_once(self, bench: Bench, offer: Offer) -> None:
        connector = bench.open()
        put = connector.publish if isinstance(connector, Market) else connector.send
        put(offer)

    def test_too_much_at_once_is_rejected_and_nothing_leaves(
        self, bench: Bench
    ) -> None:
        manifest = bench.open().manifest
        if manifest.limits.items > 20_000:
            pytest.skip("the limit is too high to try")
        offer = offer_for(manifest, "k1", items=manifest.limits.items + 1)
        with pytest.raises(Rejected):
            self.put(bench, offer)
        assert CANARY.encode() not in bench.seen("")

    def test_an_account_too_long_is_rejected(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        account = "a" * (manifest.limits.account_bytes + 1)
        with pytest.raises(Rejected):
            self.put(bench, offer_for(manifest, "k1", account))

    def test_content_goes_out_exactly_where_the_manifest_says(
        self, bench: Bench
    ) -> None:
        manifest = bench.open().manifest
        right = offer_for(manifest, "k1")
        content = None if manifest.content is Content.MARKET else CANARY.encode()
        items = tuple(replace(item, content=content) for item in right.items)
        with pytest.raises(Rejected):
            self.put(bench, replace(right, items=items))
        assert CANARY.encode() not in bench.seen("")

    def test_what_is_refused_is_refused_before_anything_is_booked(
        self, bench: Bench
    ) -> None:
        """The dispatcher checks before it books: what passes must be deliverable."""
        connector = bench.open()
        manifest = connector.manifest
        account = "a" * (manifest.limits.account_bytes + 1)
        check_deliverable(connector, offer_for(manifest, "k1"))
        with pytest.raises(Rejected):
            check_deliverable(connector, offer_for(manifest, "k1", account))
        assert CANARY.encode() not in bench.seen("")

    def test_an_empty_item_stands_for_those_to_come(self, bench: Bench) -> None:
        connector = bench.open()
        offer = offer_for(connector.manifest, "k1", items=1)
        held = connector.manifest.content is Content.MARKET
        items = tuple(replace(item, content=b"") for item in offer.items if held)
        check_deliverable(connector, replace(offer, items=items or offer.items))

    @pytest.mark.parametrize("sign", WORST)
    def test_whatever_the_limits_allow_is_taken(self, bench: Bench, sign: str) -> None:
        """Only what is longer than the connector accepts is refused."""
        manifest = bench.open().manifest
        limits = manifest.limits
        if manifest.content is Content.OURS:
            pytest.skip("no content goes there")
        whole = min(limits.content_bytes, MUCH) // len(sign.encode())
        count = min(limits.items, limits.offer_bytes // max(limits.content_bytes, 1))
        offer = offer_for(manifest, "k1", items=min(count, max(1, MUCH // whole)))
        content = (sign * whole).encode()
        items = tuple(replace(item, content=content) for item in offer.items)
        assert self.put(bench, replace(offer, items=items)).key == "k1"

    def test_more_bytes_than_an_offer_may_have_are_rejected(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        limits = manifest.limits
        count = limits.offer_bytes // max(limits.content_bytes, 1) + 1
        if manifest.content is Content.OURS or limits.offer_bytes > MUCH:
            pytest.skip("no content goes there, or too much to try")
        if count > limits.items:
            pytest.skip("so many items are refused already")
        offer = offer_for(manifest, "k1", items=count)
        content = CANARY[:1].encode() * limits.content_bytes
        items = tuple(replace(item, content=content) for item in offer.items)
        with pytest.raises(Rejected):
            self.put(bench, replace(offer, items=items))

    def test_errors_and_representations_hold_no_content(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        account = "a" * (manifest.limits.account_bytes + 1)
        offer = offer_for(manifest, "k1", account)
        with pytest.raises(Rejected) as caught:
            self.put(bench, offer)
        message = f"{caught.value.what}{caught.value.why}{caught.value.fix}{offer!r}"
        assert CANARY not in message


class MarketContract(_Contract):
    """Tests of markets; subclass it and define the fixture ``bench``."""

    def market(self, bench: Bench) -> Market:
        """Open the market under test."""
        market = bench.open()
        assert isinstance(market, Market)
        return market

    def all_answers(self, bench: Bench, cursor: str = "") -> tuple[Collected, ...]:
        """Collect until there is no more."""
        found = [self.market(bench).collect(cursor)]
        while found[-1].more:
            found.append(self.market(bench).collect(found[-1].cursor))
        return tuple(found)

    def test_it_is_a_market(self, bench: Bench) -> None:
        assert self.market(bench).manifest.role is Role.MARKET

    def test_no_content_lies_outside_where_it_stays_home(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        self.put(bench, offer_for(manifest, "k1"))
        held = manifest.content is Content.MARKET
        assert (CANARY.encode() in bench.seen("")) == held

    @pytest.mark.parametrize("account", ACCOUNTS)
    def test_only_the_account_sees_what_is_assigned_to_it(
        self, bench: Bench, account: str
    ) -> None:
        manifest = bench.open().manifest
        assigned = manifest.binding is Binding.ASSIGNED
        if not assigned or manifest.content is Content.OURS:
            pytest.skip("the manifest does not promise it")
        self.put(bench, offer_for(manifest, "k1", account))
        assert CANARY.encode() in bench.seen(account)
        for other in ACCOUNTS:
            if other != account:
                assert CANARY.encode() not in bench.seen(other)

    def test_what_is_withdrawn_is_gone_and_stays_known(self, bench: Bench) -> None:
        manifest = bench.open().manifest
        if not manifest.withdraws:
            pytest.skip("the manifest says it cannot withdraw")
        handle = self.put(bench, offer_for(manifest, "k1"))
        self.market(bench).withdraw(handle)
        self.market(bench).withdraw(handle)
        assert CANARY.encode() not in bench.seen("ann")
        assert bench.open().find("k1") is not None
        self.put(bench, offer_for(manifest, "k1"))
        assert CANARY.encode() not in bench.seen("ann")

    def test_what_is_gone_outside_is_withdrawn_like_any_other(
        self, bench: Bench
    ) -> None:
        if bench.remove is None:
            pytest.skip("the bench cannot delete an offer outside")
        manifest = bench.open().manifest
        gone, left = (self.put(bench, offer_for(manifest, key)) for key in ("k1", "k2"))
        bench.remove(gone)
        for handle in (gone, gone, left):
            self.market(bench).withdraw(handle)
        assert CANARY.encode() not in bench.seen("ann")

    def test_an_answer_comes_until_its_cursor_comes_back(self, bench: Bench) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        if bench.answer is None:
            assert not self.market(bench).collect("").answers
            return
        bench.answer(handle, "task-k1-0", "ann", "seven")
        first = self.all_answers(bench)
        again = self.all_answers(bench)
        ids = {answer.id for page in first for answer in page.answers}
        assert ids == {answer.id for page in again for answer in page.answers}
        given = next(
            answer
            for page in first
            for answer in page.answers
            if (answer.token, answer.account) == ("task-k1-0", "ann")
        )
        assert (given.outcome, given.value) == (Outcome.ANSWERED, "seven")
        later = self.all_answers(bench, first[-1].cursor)
        assert not [a for page in later for a in page.answers if a.id not in ids]

    def test_a_later_answer_lies_behind_the_cursor(self, bench: Bench) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        if bench.answer is None:
            pytest.skip("answers are given on our own page")
        bench.answer(handle, "task-k1-0", "ann", "seven")
        cursor = self.all_answers(bench)[-1].cursor
        bench.answer(handle, "task-k1-1", "ann", "eight")
        later = self.all_answers(bench, cursor)
        assert "eight" in {a.value for page in later for a in page.answers}

    @pytest.mark.parametrize("value", VALUES)
    def test_an_answer_comes_back_as_it_was_given(
        self, bench: Bench, value: str
    ) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        if bench.answer is None:
            pytest.skip("answers are given on our own page")
        bench.answer(handle, "task-k1-0", "ann", value)
        pages = self.all_answers(bench)
        assert value in {a.value for page in pages for a in page.answers}

    def test_an_answer_to_no_task_of_ours_does_no_harm(self, bench: Bench) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        if bench.answer is None:
            pytest.skip("answers are given on our own page")
        bench.answer(handle, "never-offered", "ann", "seven")
        bench.answer(handle, "task-k1-0", "ann", "eight")
        pages = self.all_answers(bench)
        assert "eight" in {a.value for page in pages for a in page.answers}

    def test_a_strange_cursor_is_an_error_of_the_protocol(self, bench: Bench) -> None:
        with suppress(ConnectorError):  # refused, or treated as the beginning
            self.market(bench).collect("no cursor of yours; 💥")

    def test_who_arrives_is_known_and_never_a_preview(self, bench: Bench) -> None:
        if bench.visit is None:
            with pytest.raises(Rejected):
                self.market(bench).arrive(Visit(), NOW)
            return
        for account in ACCOUNTS:
            arrival = self.market(bench).arrive(bench.visit(account, NOW), NOW)
            assert isinstance(arrival, Arrival)
            assert (arrival.account, arrival.preview) == (account, False)
            assert arrival.identity is bench.open().manifest.identity

    def test_a_proof_lapses(self, bench: Bench) -> None:
        if bench.visit is None:
            pytest.skip("nobody arrives")
        visit = bench.visit("ann", NOW)
        with pytest.raises(Rejected):
            self.market(bench).arrive(visit, NOW.replace(year=NOW.year + 5))

    @pytest.mark.parametrize("account", ACCOUNTS)
    def test_an_invitation_lets_its_account_in_until_it_lapses(
        self, bench: Bench, account: str
    ) -> None:
        market = self.market(bench)
        if not isinstance(market, Inviting):
            pytest.skip("its workers have no personal links")
        code = market.invite(account, "7", NOW + timedelta(hours=1))
        assert "~" not in code
        visit = Visit({"token": code})
        arrival = self.market(bench).arrive(visit, NOW)
        assert (arrival.account, arrival.ticket) == (account, "7")
        with pytest.raises(Rejected):
            self.market(bench).arrive(visit, NOW + timedelta(hours=2))

    def test_a_forged_visit_is_rejected(self, bench: Bench) -> None:
        for visit in (*bench.forged, Visit()):
            with pytest.raises(Rejected):
                self.market(bench).arrive(visit, NOW)


class FeedContract(_Contract):
    """Tests of feeds; subclass it and define the fixture ``bench``."""

    def test_it_is_a_feed(self, bench: Bench) -> None:
        assert isinstance(bench.open(), Feed)
        assert bench.open().manifest.role is Role.FEED

    def test_what_is_sent_lies_outside_whole(self, bench: Bench) -> None:
        offer = offer_for(bench.open().manifest, "k1")
        self.put(bench, offer)
        for item in offer.items:
            assert (item.content or b"") in bench.seen("")
