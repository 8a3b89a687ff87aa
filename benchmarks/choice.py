"""Assigned work, work that is chosen among some kinds, and freely chosen work.

    python -m benchmarks.choice [--records 40] [--seeds 3]

Made-up workers do a backlog of made-up records at a store of their own, by the calls that the
task page makes. Each likes some kinds of work (fields) and is better at those. Whoever is
shown a field hands it back the more often the less they like it, and what was handed back was
seen: a field that was shown t times without an answer is burnt. Work is

* assigned (PUSH): the worker presses *Start*;
* chosen among 3 kinds on offer (Tug of War), the best liked first, then *Start*;
* chosen among all kinds (PULL), the same way;
* chosen among 3, where the field of the kind is the one that raises the potential least: the
  sum over sets S and workers of k to the power of minus what is missing of S.

The settings are those of Celis, Reddy, Singh, Vaya, Assignment Techniques for Crowdsourcing
Sensitive Tasks, CSCW 2016. Printed by how many workers there are: fields that were answered
rightly, of all fields; of those shown, how many were taken; of picks of a kind, how many were
in vain; of all fields, how many have no answer at the end, and how many of these were burnt;
of all sets and all pairs of workers, how many the two were shown all of together, which no
rule forbade. It ends with an error if one worker was.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from dispatcher.core import log
from dispatcher.stages.planning import Planning
from dispatcher.stages.serving import Given, Present, task_assignment
from dispatcher.store import lease, open_store
from tests.integration.serving_house import House

KINDS: Final = ("name", "disease", "age", "born", "ok", "parts")
SETS: Final = (
    ("name", "disease"),
    ("name", "age", "born"),
    ("disease", "age", "parts"),
    ("born", "ok", "parts"),
)
POLICY: Final = "\n".join(
    [
        'version = 1\nname = "choice"\n[budget]\nt = 3\n[entity.form]\nkey = "id"',
        "[entity.form.fields]",
        *(f'{kind} = {{ ask = "transcribe" }}' for kind in KINDS),
        *(f"[property.p{n}]\nof = {list(of)!r}" for n, of in enumerate(SETS)),
        "",
    ]
).replace("'", '"')
LIKINGS: Final = (
    (0.02, 0.97),
    (0.02, 0.97),
    (0.1, 0.88),
    (0.1, 0.88),
    (0.4, 0.7),
    (0.4, 0.7),
)
"""Of a worker's kinds from the best liked on: share handed back, share of right answers."""
OFFERED: Final = {
    "assigned": 0,
    "3 kinds": 3,
    "all kinds": 20,
    "3, potential": 3,
}
PATIENCE: Final = 5
"""Turns for which a worker leaves a kind alone that gave nothing."""
MINUTE: Final = 60_000_000


@dataclass
class Clock:
    """Stands still unless it is moved."""

    now: int = 10**15

    def __call__(self) -> int:
        return self.now


@dataclass
class Person:
    """A worker: where they are known, and the kinds as they like them, best first.

    ``again``: of a kind that gave nothing, the turn at which they ask for it again.
    """

    who: Present
    likes: list[str]
    turns: int = 0
    again: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[float, float]:
        """How often a kind is handed back, and answered rightly."""
        return LIKINGS[self.likes.index(kind)]


@dataclass
class Backlog:
    """Records at a store, people who work on them, and what each was shown."""

    house: House
    people: list[Person]
    place: dict[int, tuple[int, str]]
    rng: np.random.Generator
    counts: Counter[str] = field(default_factory=Counter)
    seen: dict[int, set[tuple[int, str]]] = field(default_factory=dict)

    def work(self, offered: int) -> None:
        """Let all work by turns until a turn shows nobody anything."""
        planning = Planning(self.house.store, self.house.clock)
        with self.house.store.write() as tx:
            epoch = lease.take(tx, lease.SHARD, "me", 1, 2**62)
        serving = self.house.serving(choose=offered, gold=0, undo=0)
        planning.tick(epoch)
        idle = 0
        while idle < 2:  # after the second all that a plan keeps for others is free
            shown = sum(
                self.turn(serving, self.people[n], offered)
                for n in self.rng.permutation(len(self.people))
            )
            self.house.clock.now += MINUTE if shown else 20 * MINUTE
            idle = 0 if shown else idle + 1
            if not shown:  # what was handed back is planned again
                planning.tick(epoch)

    def turn(self, serving: object, person: Person, offered: int) -> bool:
        """Let a person be shown one field, and answer it or hand it back."""
        shown = None
        if offered:
            cards = [card.field.name for card in serving.choices(person.who)]
            # nobody chooses what they dislike: there is Start for that
            person.turns += 1
            for kind in person.likes[:4]:
                if kind not in cards or person.again.get(kind, 0) > person.turns:
                    continue
                self.counts["picks"] += 1
                shown = serving.start(person.who, self.house.fields[kind])
                if shown is not None:
                    break
                self.counts["in vain"] += 1
                person.again[kind] = person.turns + PATIENCE
        shown = shown or serving.start(person.who)
        serving.take_out_refused()
        if shown is None:
            return False
        entry = self.house.ask("SELECT entry_id FROM task WHERE id = ?", shown.task_id)
        self.seen.setdefault(person.who.account_id, set()).add(self.place[entry])
        self.counts["shown"] += 1
        back, right = person.of(shown.field.name)
        if self.rng.random() < back:
            serving.give_back(person.who, shown.token)
            return True
        self.counts["taken"] += 1
        self.counts["right"] += self.rng.random() < right
        serving.answer(person.who, shown.token, Given({"answer": "x"}))
        return True

    def by_potential(self, tx: object, question: object, rng: object) -> Iterator[int]:
        """Candidates of a chosen kind, those first that raise the potential least."""
        found = list(CANDIDATES(tx, question, rng))
        if question.kind is None:
            return iter(found)
        held = self.seen.get(question.account.id, set())

        def rise(entry: int) -> float:
            record, kind = self.place[entry]
            return sum(
                float(len(self.people)) ** -sum((record, k) not in held for k in of)
                for of in SETS
                if kind in of
            )

        return iter(sorted(found, key=rise))

    def complete(self, together: int) -> float:
        """Share of all sets that so many people were shown all of, of all such groups."""
        records = {record for record, _ in self.place.values()}
        groups = itertools.combinations(
            [one.who.account_id for one in self.people], together
        )
        views = [
            set().union(*(self.seen.get(n, set()) for n in group)) for group in groups
        ]
        found = [
            {(record, kind) for kind in of} <= view
            for view, record, of in itertools.product(views, records, SETS)
        ]
        return sum(found) / len(found)


CANDIDATES = task_assignment.candidates


def run(way: str, workers: int, records: int, seed: int) -> Counter[str]:
    """Do a backlog in one of the ways; return what was counted."""
    rng = np.random.default_rng(seed)
    with (
        tempfile.TemporaryDirectory() as place,
        open_store(Path(place) / "store.db", create=True) as store,
    ):
        house = House(store, Clock(), POLICY)
        people = [
            Person(
                house.account(f"w{n}"), [KINDS[k] for k in rng.permutation(len(KINDS))]
            )
            for n in range(workers)
        ]
        where = {}
        for record in range(1, records + 1):
            made = house.record(record, **{kind: f"{kind} {record}" for kind in KINDS})
            where.update({entry: (record, kind) for kind, entry in made.items()})
        backlog = Backlog(house, people, where, rng)
        potential = way.endswith("potential")
        task_assignment.candidates = backlog.by_potential if potential else CANDIDATES
        backlog.work(OFFERED[way])
        counts = backlog.counts
        counts["fields"] = len(where)
        counts["left"] = counts["fields"] - counts["taken"]
        counts["burnt"] = sum(
            house.count("task", f"entry_id = {n} AND state = 'returned'") >= 3
            for n in where
        )
        assert not backlog.complete(1), "the gate let somebody see all of a set"
        counts["per mille by two"] = round(1000 * backlog.complete(2))
        return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    log.configure(level=logging.ERROR)
    print("| workers | work | right | taken | in vain | left | burnt | by two |")
    print("|---|---|---|---|---|---|---|---|")
    for workers, way in itertools.product((3, 6, 12), OFFERED):
        total: Counter[str] = Counter()
        for seed in range(options.seeds):
            total += run(way, workers, options.records, seed)
        fields = total["fields"]
        shares = (
            total["right"] / fields,
            total["taken"] / total["shown"],
            total["in vain"] / max(1, total["picks"]),
            total["left"] / fields,
            total["burnt"] / fields,
            total["per mille by two"] / options.seeds / 1000,
        )
        print(
            f"| {workers} | {way} |",
            " | ".join(f"{s:.1%}" for s in shares),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
