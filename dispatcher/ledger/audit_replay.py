"""Replay of the ledger from its first line: how close each limit was ever approached.

An adversary is replayed chain by chain: a chain that ended in a join comes before the
surviving one. The largest f of every property is found by the gate's own rules, and
never from the gate's summaries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dispatcher.ledger.active_policy import ActivePolicy, FieldPolicy
from dispatcher.store.ledger import FactsRow
from policies.policy import Scope
from policies.rules.groups import trusted_rules
from policies.rules.link_rules import End, LinkRule, value, vectors
from policies.rules.record_rules import Held, Rule
from policies.rules.tabulated_links import TabulatedLinkRule, ends_held

Place = tuple[str, int]


@dataclass
class Reached:
    """The largest f of a rule so far, and where: the least (chain, seq).

    Of a cosine it is the square.
    """

    f: Fraction = Fraction(0)
    place: Place = ("", 0)

    def reach(self, f: Fraction, place: Place) -> None:
        """Record one judged unit."""
        if f > self.f or (f == self.f and place < self.place):
            self.f, self.place = f, place


@dataclass
class AdversaryState:
    """Entries and accounts of one adversary, as of one line of its chain."""

    version: int = 0
    seq: int = 0
    groups: dict[str, Sequence[str]] = field(default_factory=dict)
    entries: dict[int, FactsRow] = field(default_factory=dict)
    units: dict[tuple[Scope, int], dict[tuple[str, int], int]] = field(
        default_factory=dict
    )
    places: dict[int, list[tuple[int, str, str, int]]] = field(default_factory=dict)
    fields: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    judged: frozenset[str] = frozenset()


class Replay:
    """Replays all chains.

    Parameters
    ----------
    versions : Mapping[int, ActivePolicy]
        Every applied version by number, from 1.
    links : Iterable of (int, str, int, int)
        First version, relation and two subjects of every link; None for a subject that
        is not loaded.
    """

    def __init__(
        self,
        versions: Mapping[int, ActivePolicy],
        links: Iterable[tuple[int, str, int | None, int | None]] = (),
    ) -> None:
        self.versions = versions
        self.friends: dict[tuple[str, int], list[tuple[int, int | None]]]
        self.friends = defaultdict(list)
        for since, relation, one, other in links:
            if one is not None:
                self.friends[relation, one].append((since, other))
            if other is not None:
                self.friends[relation, other].append((since, one))
        self.ended: dict[str, AdversaryState] = {}
        self.reached = {
            (number, name): Reached()
            for number, force in versions.items()
            for name in (*force.rules.all, *force.rules.links)
        }

    def begin(self) -> AdversaryState:
        """Begin a chain."""
        return AdversaryState()

    def expose(
        self, who: AdversaryState, chain: str, seq: int, version: int, entry: FactsRow
    ) -> None:
        """Replay an exposure."""
        self.advance(who, chain, version)
        who.seq = seq
        if entry.id in who.entries:
            return
        who.entries[entry.id] = entry
        force = self.versions[version]
        standing = force.fields.get(entry.field_id)
        if standing is None:
            return
        self._hold(who, standing, entry)
        for rule in standing.rules:
            if rule.name in who.judged:
                held = who.units[rule.scope, _unit(rule.scope, entry)]
                self._judge(version, rule, held, (chain, seq))
        if entry.subject_id is not None:
            for link in standing.links:
                if link.name in who.judged:
                    self._judge_links(who, link, entry.subject_id, (chain, seq))

    def member(
        self,
        who: AdversaryState,
        chain: str,
        seq: int,
        version: int,
        account: str,
        groups: Sequence[str],
    ) -> None:
        """Replay an account line, new or with new groups: it may end trust."""
        self.advance(who, chain, version)
        who.seq = seq
        who.groups[account] = groups
        before = who.judged
        self._trust(who)
        self._judge_all(who, chain, who.judged - before)

    def join(
        self,
        who: AdversaryState,
        chain: str,
        seq: int,
        version: int,
        others: Sequence[str],
    ) -> None:
        """Replay a join: add the chains that end in this one."""
        self.advance(who, chain, version)
        who.seq = seq
        force = self.versions.get(version)
        for other in others:
            ended = self.ended.pop(other)
            who.groups |= ended.groups
            for number, entry in ended.entries.items():
                if number not in who.entries:
                    who.entries[number] = entry
                    standing = force.fields.get(entry.field_id) if force else None
                    if standing is not None:
                        self._hold(who, standing, entry)
        self._trust(who)
        self._judge_all(who, chain, who.judged)

    def end(self, who: AdversaryState, chain: str, seq: int, version: int) -> None:
        """End a chain that was joined to another one."""
        self.advance(who, chain, version)
        who.seq = seq
        self.ended[chain] = who

    def advance(self, who: AdversaryState, chain: str, version: int) -> None:
        """Judge what is held by then under the versions up to ``version``."""
        while who.version < version:
            who.version += 1
            force = self.versions[who.version]
            who.units, who.places, who.fields = {}, {}, {}
            for entry in who.entries.values():
                standing = force.fields.get(entry.field_id)
                if standing is not None:
                    self._hold(who, standing, entry)
            self._trust(who)
            self._judge_all(who, chain, who.judged)

    def worst(self) -> dict[str, dict[str, object]]:
        """Return the certificate's member ``worst``, for the rules that are checked."""
        best: dict[str, tuple[Fraction, Place, Fraction]] = {}
        for (number, name), reached in self.reached.items():
            rules = self.versions[number].rules
            link = rules.links.get(name)
            tau = rules.all[name].tau if link is None else link.tau
            force = self.versions[number]
            if tau is not None and (name in force.tables or name not in force.levels):
                squared = link is not None and not link.rational
                share = reached.f / (tau * tau if squared else tau)
                # Versions may differ in what the rule is: compared by squares.
                found = -(share if squared else share * share), reached.place, share
                best[name] = min(found, best.get(name, found))
        return {
            name: {"share": str(share)}
            | ({"chain": place[0], "seq": place[1]} if share else {})
            for name, (_, place, share) in best.items()
        }

    def _hold(
        self, who: AdversaryState, standing: FieldPolicy, entry: FactsRow
    ) -> None:
        time = (entry.time or 0) if standing.timed else 0
        for scope in {rule.scope for rule in standing.rules}:
            held = who.units.setdefault((scope, _unit(scope, entry)), {})
            key = standing.name, time
            held[key] = held.get(key, 0) + 1
        if entry.subject_id is None:
            return
        if standing.links:
            person = entry.subject_id
            who.fields.setdefault(person, []).append(
                (person, entry.record_id, standing.name)
            )
        if standing.placed:
            seen = who.places.setdefault(entry.subject_id, [])
            if entry.place is not None and entry.visits:
                seen.append(
                    (entry.subject_id, standing.name, entry.place, entry.visits)
                )

    def _trust(self, who: AdversaryState) -> None:
        if who.version:
            force = self.versions[who.version]
            trusted = trusted_rules(force.policy, who.groups.values())
            names = frozenset(force.rules.all) | frozenset(force.rules.links)
            who.judged = names - trusted

    def _judge_all(
        self, who: AdversaryState, chain: str, names: frozenset[str]
    ) -> None:
        if not who.version or not names:
            return
        force = self.versions[who.version]
        rules = [rule for name, rule in force.rules.all.items() if name in names]
        for (scope, _), held in who.units.items():
            for rule in rules:
                if rule.scope is scope:
                    self._judge(who.version, rule, held, (chain, who.seq))
        for name, link in force.rules.links.items():
            for person in who.fields if name in names else ():
                self._judge_links(who, link, person, (chain, who.seq))

    def _judge_links(
        self, who: AdversaryState, rule: LinkRule, person: int, place: Place
    ) -> None:
        """Judge the links of one person."""
        friends = [
            _end(who, rule, other)
            for since, other in self.friends.get((rule.relation, person), ())
            if since <= who.version
        ]
        mine = _end(who, rule, person)
        worst = rule.worst(mine, friends)
        f = value(worst) if rule.rational else worst.square
        self.reached[who.version, rule.name].reach(f, place)

    def _judge(self, version: int, rule: Rule, held: Held, place: Place) -> None:
        self.reached[version, rule.name].reach(rule.value(held), place)


def _end(who: AdversaryState, rule: LinkRule, person: int | None) -> End:
    """Return what is held of a person, as the rule reads it; nothing if not loaded."""
    if person is None:
        return {}
    if isinstance(rule, TabulatedLinkRule):
        return ends_held(who.fields.get(person, ()), rule.fields).get(person, {})
    return vectors(who.places.get(person, ()), rule.fields).get(person, {})


def _unit(scope: Scope, entry: FactsRow) -> int:
    if scope is Scope.RECORD:
        return entry.record_id
    assert entry.subject_id is not None
    return entry.subject_id
