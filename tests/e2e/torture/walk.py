"""A long random walk of gate, outbox and daemons beside a brute-force oracle.

Each step books (push, pull, many at once, once more what was booked), sends, crashes in
the midst of it, takes the lease over, lets a stale daemon try, applies another policy,
joins two workers, or loses the store and restores a backup, perhaps an old one and not
for the first time. The oracle knows nothing but the list of all exposures; the market
remembers what it was given. The ledger must say what the oracle says, and nothing may be
outside that was not booked, or outside twice.

``python -m tests.e2e.torture.walking`` is the long form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dispatcher import keys
from dispatcher.errors import Conflict, PastLimit, Refused, StaleLease
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.ledger.members import merge
from dispatcher.ledger.summaries import differences
from dispatcher.stages.sending import Sending
from dispatcher.store import lease
from tests.conftest import FakeClock
from tests.e2e.torture.ground import Ground, numbered
from tests.e2e.torture.outside import Killed, Outside
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_ledger_laws import RULES, Oracle, entry_of

ACCOUNTS = tuple(f"memory/{i}" for i in range(6))
SHAPES = (("abcd", 0), ("abc", 5), ("bd", 20), ("abd", 0))
"""Fields and time (seconds) of the records of one person, over and over."""

EPISODE = 250
"""Steps with one store; then a new one, so that limits are met again and again."""

KEPT = 3
"""Backups that are kept."""


class Walk:
    """One episode: a store, a market, an oracle, and the daemons of before and now."""

    def __init__(self, ground: Ground, rng: np.random.Generator) -> None:
        self.ground, self.rng = ground, rng
        self.store = ground.begin()
        self.clock = FakeClock()
        self.case = Case(self.store)
        self.market = Outside()
        self.rules = {"pair"}
        self.version = 0
        self.oracle = Oracle(self.rules, 2, {a: a for a in ACCOUNTS})
        self.done: Counter[str] = Counter()
        self.epoch = 0
        self.stale: list[int] = []
        self.kept: list[tuple[Path, set[str]]] = []  # with the records it has
        self.gone: set[str] = set()  # records whose values were lost
        self.tasks: dict[int, str] = {}  # of the stores that were lost, too
        self.lost: set[int] = set()  # messages that only a lost store knew
        self.apply()
        self.case.add(*ACCOUNTS)
        self.load()
        self.take_over()

    def apply(self) -> None:
        self.version += 1
        rules = "\n".join(RULES[name] for name in sorted(self.rules))
        self.case.apply(policy(rules, budget="t = 2", name=f"v{self.version}"))

    def load(self) -> None:
        """Four records of one more person, to the oracle too."""
        first = len(self.case.records)
        told = []
        for place, (letters, seconds) in enumerate(SHAPES):
            key, person = f"r{first + place}", f"p{first}"
            told.append((key, person, seconds * 1_000_000, letters))
            self.oracle.time[key] = seconds * 1_000_000
            self.oracle.person[key] = person
        self.case.load(*told)

    # -- choices ---------------------------------------------------------------------

    def account(self) -> str:
        return ACCOUNTS[self.rng.integers(len(ACCOUNTS))]

    def entries(self, most: int) -> list[str]:
        """Some fields, mostly of the persons who came last."""
        known = list(self.case.entries)[-26:]
        count = int(self.rng.integers(1, most + 1))
        return [known[i] for i in self.rng.integers(len(known), size=count)]

    def step(self) -> None:
        """Do something, chosen by chance."""
        acts: tuple[tuple[Callable[[], None], float], ...] = (
            (self.pull, 0.22), (self.push, 0.2), (self.some_of_many, 0.1),
            (self.crash, 0.08), (self.send, 0.16), (self.die_sending, 0.08),
            (self.take_over, 0.04), (self.stale_tries, 0.05), (self.load, 0.02),
            (self.other_policy, 0.03), (self.join, 0.02), (self.keep, 0.01),
            (self.lose, 0.004),
        )  # fmt: skip
        weights = np.array([weight for _, weight in acts])
        act = acts[self.rng.choice(len(acts), p=weights / weights.sum())][0]
        self.done[act.__name__] += 1
        act()

    # -- the gate --------------------------------------------------------------------

    def pull(self) -> None:
        account, text = self.account(), self.entries(1)[0]
        allowed = self.allows(account, text)
        try:
            self.case.book(
                (account, text), delivery=Pull(leased_until=1), epoch=self.epoch
            )
        except Refused:
            assert not allowed, f"{account} was refused {text}"
        else:
            assert allowed, f"{account} was granted {text}"
            self.oracle.show(account, entry_of(text))
            self.done["granted"] += 1

    def push(self) -> None:
        """All or nothing."""
        account, texts = self.account(), self.entries(3)
        before = {key: set(held) for key, held in self.oracle.seen.items()}
        showings = self.oracle.showings.copy()
        allowed = [self.grant(account, text) for text in texts]
        try:
            self.case.book((account, " ".join(texts)), epoch=self.epoch)
        except Refused:
            assert not all(allowed), f"{account} was refused {texts}"
            self.oracle.seen, self.oracle.showings = before, showings
        else:
            assert all(allowed), f"{account} was granted {texts}"
            self.done["granted"] += len(texts)

    def allows(self, account: str, text: str) -> bool:
        """What the oracle says; a record whose values were lost is not shown."""
        entry = entry_of(text)
        return entry[0] not in self.gone and self.oracle.allows(account, entry)

    def grant(self, account: str, text: str) -> bool:
        allowed = self.allows(account, text)
        if allowed:
            self.oracle.show(account, entry_of(text))
        return allowed

    def some_of_many(self) -> None:
        asks = [(self.account(), self.entries(5)) for _ in range(3)]
        expected = [
            (self.case.accounts[account], self.case.entries[text])
            for account, texts in asks
            for text in texts
            if not self.grant(account, text)
        ]
        told = self.case.book(
            *((account, " ".join(texts)) for account, texts in asks),
            skip=True,
            epoch=self.epoch,
        )
        refused = [(one.account_id, one.entry_id) for one in told.refused]
        assert refused == expected

    def crash(self) -> None:
        """Die before the commit: nothing is kept."""
        account, texts = self.account(), self.entries(4)
        asks = [
            Asks(self.case.accounts[account], [self.case.entries[t] for t in texts])
        ]
        with suppress(Killed), self.store.write() as tx:
            book(tx, asks, delivery=Push(), at=1, cause="test", skip_refused=True)
            raise Killed

    # -- sending ---------------------------------------------------------------------

    def send(self) -> None:
        """Send, perhaps with a market that fails before or after accepting."""
        fault = self.rng.random()
        self.market.before = ConnectionError() if fault < 0.2 else None
        self.market.after = TimeoutError() if 0.2 <= fault < 0.4 else None
        self.clock.advance(seconds=int(self.rng.integers(1, 4000)))
        self.sending.tick(self.epoch)
        self.market.before = self.market.after = None

    def die_sending(self) -> None:
        """The daemon is killed before or after the market accepted; another follows."""
        kind = "before" if self.rng.random() < 0.5 else "after"
        setattr(self.market, kind, Killed())
        self.clock.advance(seconds=int(self.rng.integers(1, 4000)))
        with suppress(Killed):
            self.sending.tick(self.epoch)
        self.market.before = self.market.after = None
        self.take_over()

    def take_over(self) -> None:
        """Another daemon leads, by a clock that may be a day off."""
        skew = int(self.rng.choice([0, -86_400, 86_400])) * 1_000_000
        with self.store.write() as tx:
            found = lease.holder(tx, lease.SHARD)
            now = self.clock() + skew
            taken = (
                lease.take(tx, lease.SHARD, "first", now, now + 1)
                if found is None
                else lease.seize(tx, lease.SHARD, found, f"e{found.epoch}", now + 1)
            )
        assert taken is not None
        assert taken > self.epoch, "an epoch came again"
        if self.epoch:
            self.stale = [*self.stale[-2:], self.epoch]
        self.epoch = taken
        self.sending = Sending(self.store, {"memory": self.market}, self.clock)

    def stale_tries(self) -> None:
        """A daemon of before wakes up: it may neither book nor send."""
        if not self.stale:
            return
        epoch = self.stale[self.rng.integers(len(self.stale))]
        sending = Sending(self.store, {"memory": self.market}, self.clock)
        outside = dict(self.market.accepted)
        for attempt in (
            lambda: sending.tick(epoch),
            lambda: self.case.book((self.account(), self.entries(1)[0]), epoch=epoch),
        ):
            try:
                attempt()
            except StaleLease:
                continue
            message = f"a daemon of epoch {epoch} wrote under epoch {self.epoch}"
            raise AssertionError(message)
        assert dict(self.market.accepted) == outside

    # -- who and what is judged ------------------------------------------------------

    def other_policy(self) -> None:
        name = sorted(RULES)[self.rng.integers(len(RULES))]
        before = set(self.rules)
        self.rules ^= {name}
        self.rules = self.rules or before
        self.oracle.rules = self.rules
        past = [
            who for who, held in self.oracle.seen.items() if self.oracle.past(held, who)
        ]
        try:
            self.apply()
        except PastLimit:
            assert past, "a policy was refused for nothing"
            self.rules = self.oracle.rules = before
        except Conflict:  # nobody knows any more whose the lost records were, and when
            assert self.gone, "a policy was refused for nothing"
            self.rules = self.oracle.rules = before
        else:
            assert not past, "a policy came that is past its limits"

    def join(self) -> None:
        """Two workers turn out to be one."""
        one, other = self.account(), self.account()
        if one == other:
            return
        mine = self.oracle.adversary_of[one]
        theirs = self.oracle.adversary_of[other]
        joint = self.oracle.held(one) | self.oracle.held(other)
        past = mine != theirs and self.oracle.past(joint, mine)
        try:
            with self.store.write() as tx:
                merge(tx, [(one, other)], because="test", at=self.case.tick())
        except PastLimit:
            assert past, "a merge was refused for nothing"
        except Conflict:
            assert mine == theirs
        else:
            assert mine != theirs
            assert not past, "a merge came that is past a limit"
            self.oracle.seen[mine] = joint
            del self.oracle.seen[theirs]
            for name, who in self.oracle.adversary_of.items():
                if who == theirs:
                    self.oracle.adversary_of[name] = mine

    # -- the store is lost -----------------------------------------------------------

    def keep(self) -> None:
        """Back the store up."""
        path = self.ground.keep(self.store, self.case.tick)
        records = self.case.records.keys() - self.gone
        self.kept = [*self.kept[1 - KEPT :], (path, records)]

    def lose(self) -> None:
        """Lose the store; restore one of its backups, and have another daemon lead."""
        if not self.kept:
            return
        path, records = self.kept[self.rng.integers(len(self.kept))]
        self.remember()
        self.lost |= self.messages()
        self.store.close()
        self.store = self.case.store = self.ground.restore(path, self.case.tick)
        self.lost -= self.messages()
        self.gone = self.case.records.keys() - records
        numbered(self.case)
        self.take_over()

    def messages(self) -> set[int]:
        with self.store.read() as tx:
            return {number for (number,) in tx.rows("SELECT id FROM outbox")}

    def remember(self) -> None:
        """Note which task is of which entry; no id may ever be of another."""
        texts = {number: text for text, number in self.case.entries.items()}
        with self.store.read() as tx:
            for task, entry in tx.rows("SELECT id, entry_id FROM task"):
                known = self.tasks.setdefault(task, texts[entry])
                assert known == texts[entry], "a task's id was given twice"

    def end(self) -> None:
        self.store.close()
        self.ground.end()

    # -- what must hold --------------------------------------------------------------

    def check(self, *, whole: bool) -> None:
        """Compare ledger and oracle, and what is outside with what was booked."""
        with self.store.read() as tx:
            lines = tx.rows(
                "SELECT account_id, entry_id, showing FROM ledger_line"
                " WHERE kind = 'exposure'"
            )
            if whole:
                assert differences(tx) == 0, "summaries do not follow from the ledger"
        accounts = {number: name for name, number in self.case.accounts.items()}
        entries = {number: entry_of(text) for text, number in self.case.entries.items()}
        held: dict[str, set[Any]] = {}
        for account, entry, _ in lines:
            who = self.oracle.adversary_of[accounts[account]]
            held.setdefault(who, set()).add(entries[entry])
        said = {who: seen for who, seen in self.oracle.seen.items() if seen}
        assert held == said, "ledger and oracle differ"
        shown = Counter(entries[entry] for _, entry, showing in lines if showing)
        assert shown == +self.oracle.showings, "showings differ"
        assert max(self.market.accepted.values(), default=0) <= 1, "sent twice"
        if whole:
            self.check_outside({(accounts[a], entries[e]) for a, e, _ in lines})

    def check_outside(self, booked: set[Any]) -> None:
        """Nothing is outside that was not booked for whom it went to."""
        secret = self.store.key("task-key")
        self.remember()
        for offer in self.market.offers.values():
            for item in offer.items:
                task = keys.task_id_of(secret, item.token)
                assert task is not None
                pair = (f"memory/{offer.account}", entry_of(self.tasks[task]))
                assert pair in booked, f"{pair} went out unbooked"

    def drain(self) -> None:
        """With a market that is well again everything booked goes out, once."""
        for _ in range(60):
            self.clock.advance(seconds=100_000)
            self.sending.tick(self.epoch)
            with self.store.read() as tx:
                left = tx.value(
                    "SELECT count(*) FROM outbox WHERE state IN ('ready', 'leased')"
                )
            if not left:
                break
        assert not left, f"{left} messages never went out"
        with self.store.read() as tx:
            sent = {
                number
                for (number,) in tx.rows(
                    "SELECT id FROM outbox WHERE state = 'sent' AND kind = 'publish'"
                )
            }
        secret = self.store.key("task-key")
        there = {keys.message_id_of(secret, key) for key in self.market.offers}
        assert not sent & self.lost, "a message's id was given twice"
        assert sent == there - self.lost, "outbox and market differ"
        self.check(whole=True)


def walk(ground: Ground, steps: int, rng: np.random.Generator) -> Counter[str]:
    """Walk so many steps, in episodes; return how often what was done."""
    done: Counter[str] = Counter()
    for first in range(0, steps, EPISODE):
        here = Walk(ground, rng)
        for number in range(min(EPISODE, steps - first)):
            here.step()
            if number % 5 == 4:
                here.check(whole=number % 50 == 49)
        here.drain()
        here.end()
        done += here.done
        done["sent"] += len(here.market.offers)
    return done
