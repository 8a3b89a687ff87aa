"""A long random walk of gate, outbox and daemons beside a brute-force oracle.

Each step books (push, pull, many at once, once more what was booked), sends, crashes in
the midst of it, takes the lease over, lets a stale daemon try, applies another policy,
joins two workers, or loses the store and restores a backup, perhaps an old one and not
for the first time, perhaps with the shipped ledger lost too. The oracle knows nothing
but the list of all exposures; the market remembers what it was given. The ledger must
say what the oracle says, and nothing may be outside that was not booked, or outside
twice. Where even the ledger is lost, nobody whom the backup knows may be shown more of
what it knows.

``python -m tests.e2e.torture.walking`` is the long form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from dispatcher.core import keys
from dispatcher.core.errors import Conflict, PastLimit, Refused, StaleLease
from dispatcher.ledger.book import Asks, Pull, Push, book
from dispatcher.ledger.identity_changes import merge
from dispatcher.stages.sending import Sending
from dispatcher.store import lease
from tests import sql
from tests.e2e.torture.ground import Ground, numbered
from tests.e2e.torture.outside import Killed
from tests.e2e.torture.world import Kept, World
from tests.integration.test_ledger_laws import RULES, entry_of

EPISODE = 250
"""Steps with one store; then a new one, so that limits are met again and again."""

KEPT = 3
"""Backups that are kept."""

CREW = 3
"""Workers who come after a loss that left nothing but a backup."""


class Walk(World):
    """One episode: a world, and the daemons of before and now."""

    def __init__(self, ground: Ground, rng: np.random.Generator) -> None:
        super().__init__(ground, rng)
        self.epoch = 0
        self.stale: list[int] = []
        self.take_over()

    # -- choices ---------------------------------------------------------------------

    def account(self) -> str:
        known = list(self.oracle.adversary_of)
        return known[self.rng.integers(len(known))]

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
            (self.lose, 0.004), (self.lose_all, 0.003),
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
        self.sending = Sending(self.store, "memory", self.market, self.clock)

    def stale_tries(self) -> None:
        """A daemon of before wakes up: it may neither book nor send."""
        if not self.stale:
            return
        epoch = self.stale[self.rng.integers(len(self.stale))]
        sending = Sending(self.store, "memory", self.market, self.clock)
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
        made = Kept(
            path=self.ground.keep(self.store, self.case.tick),
            records=self.case.records.keys() - self.gone,
            known=set(self.case.records),
            accounts=dict(self.oracle.adversary_of),
            rules=set(self.rules),
            seen={who: set(held) for who, held in self.oracle.seen.items()},
            showings=self.oracle.showings.copy(),
        )
        self.kept = [*self.kept[1 - KEPT :], made]

    def lose(self) -> None:
        """Lose the store; restore one of its backups, and have another daemon lead."""
        if not self.kept:
            return
        kept = self.kept[self.rng.integers(len(self.kept))]
        self.back(kept, shipped=True)
        self.gone = self.case.records.keys() - kept.records
        numbered(self.case)
        self.take_over()

    def back(self, kept: Kept, *, shipped: bool) -> None:
        self.remember()
        self.lost |= self.messages()
        self.store.close()
        self.store = self.ground.restore(kept.path, self.case.tick, shipped=shipped)
        self.case.store = self.store
        self.lost -= self.messages()

    def lose_all(self) -> None:
        """Lose the shipped ledger too: nobody knows what was shown since a backup.

        What the backup knows is closed for all whom it knows, and others go on. What it
        does not know, records and workers, never comes again; nor do older backups.
        """
        if not self.kept:
            return
        kept, case, oracle = self.kept[-1], self.case, self.oracle
        self.forgotten |= self.booked()
        self.back(kept, shipped=False)
        self.gone = kept.known - kept.records
        case.records = {key: 0 for key in case.records if key in kept.known}
        case.entries = {t: 0 for t in case.entries if entry_of(t)[0] in kept.known}
        case.accounts = dict.fromkeys(kept.accounts, 0)
        self.rules = oracle.rules = set(kept.rules)
        oracle.seen = {who: set(held) for who, held in kept.seen.items()}
        oracle.showings = kept.showings.copy()
        oracle.adversary_of = dict(kept.accounts)
        for record in kept.known:
            for unit in (record, oracle.person[record]):
                self.closed.setdefault(unit, set()).update(kept.accounts)
        numbered(case)
        crew = [f"memory/{self.hired + i}" for i in range(CREW)]
        self.hired += CREW
        case.add(*crew)
        oracle.adversary_of |= {name: name for name in crew}
        self.kept = []
        self.keep()
        self.take_over()

    def end(self) -> None:
        self.store.close()
        self.ground.end()

    # -- what must hold --------------------------------------------------------------

    def drain(self) -> None:
        """With a market that is well again everything booked goes out, once."""
        for _ in range(60):
            self.clock.advance(seconds=100_000)
            self.sending.tick(self.epoch)
            with self.store.read() as tx:
                left = sql.value(
                    tx, "SELECT count(*) FROM outbox WHERE state IN ('ready', 'leased')"
                )
            if not left:
                break
        assert not left, f"{left} messages never went out"
        with self.store.read() as tx:
            sent = {
                number
                for (number,) in sql.rows(
                    tx,
                    "SELECT id FROM outbox WHERE state = 'sent' AND kind = 'publish'",
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
