"""What one stranger could know: the densest view that a policy allows, measured on data.

A picture has names of columns and rules, counts and shares, and drawn values; never a
value of a record. Values are read here to be counted, and dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from dispatcher.core.errors import Conflict, Invalid
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.stages.intake.external_rules import read_functions
from dispatcher.stages.intake.preview import read_sample
from dispatcher.stages.intake.table import Options
from dispatcher.store import Store, Tx
from dispatcher.store import planning as rows
from policies.discovery.coded_table import CodedTable, TableSampler
from policies.discovery.frequencies import Frequencies, Guess
from policies.discovery.uniqueness import Uniqueness
from policies.planning.densest_view import MOST_VIEWS, Best, UnknownRecord, best_view
from policies.planning.frontier import Frontier, adversaries_for, frontier
from policies.policy import Policy
from policies.rules.kinds import title
from policies.rules.tabulated import FieldTable
from policies.solvers import SOLVERS, Limits

IN_FORCE: Final = 20_000
"""Records of a store that are measured, from the first on."""

SECONDS: Final = 60.0
"""Of all searches for one picture."""

_COUNTED: Final = 8_000_000
"""Records times sets of fields that a search for the most telling view counts."""

_SHARE: Final = 0.05
"""Of the time that is left, for one of many searches."""
_LARGE: Final = 0.3
"""The same for each view that is drawn."""

_WORK: Final = 1 / 6
"""Work of an exact search for each second of all searches."""

_POINTS: Final = 11
_MOST_RECORDS_OF_ONE: Final = 12


@dataclass(frozen=True)
class SeenFields:
    """Fields that are seen of one record.

    Attributes
    ----------
    fields : tuple of str
    proven : bool
        Whether no view within the policy is better.
    share : float or None
        Share of people whom the measured ones of these fields single out.
    at_most : float or None
        No view of this kind singles out more; where the search for it did not end, this
        is more than ``share``.
    beyond : float or None
        Of a sample: the estimated share of people in all records, rather too high.
    """

    fields: tuple[str, ...]
    proven: bool = True
    share: float | None = None
    at_most: float | None = None
    beyond: float | None = None


@dataclass(frozen=True)
class Field:
    """A field of the record, and whether it is in the densest view.

    Attributes
    ----------
    name : str
    seen, sent : bool
    denied_by : tuple of str
        Rules that deny it to whoever has seen the densest view.
    instead : SeenFields or None
        Of a field that is not seen: the view that singles out most people, or has most
        fields, among those that have it. None if no view has it.
    guess : Guess or None
        Of a field that is not seen: how well it can be guessed all the same, from
        fields of the densest view that may be seen together with it in other records.
    """

    name: str
    seen: bool
    sent: bool
    denied_by: tuple[str, ...] = ()
    instead: SeenFields | None = None
    guess: Guess | None = None


@dataclass(frozen=True)
class RuleLine:
    """A rule, and what it does to the densest view.

    Attributes
    ----------
    name, scope, kind, note : str
    sets : tuple of tuple of str
        Its alternatives.
    tau : Fraction or None
    f : Fraction or None
        Of the densest view; None for a rule that is not judged here.
    f_together : Fraction or None
        Of what two strangers put together.
    denies : tuple of str
        Fields that it denies to whoever has seen the densest view.
    """

    name: str
    scope: str
    kind: str
    note: str
    sets: tuple[tuple[str, ...], ...]
    tau: Fraction | None
    f: Fraction | None
    f_together: Fraction | None
    denies: tuple[str, ...]

    @property
    def broken(self) -> bool:
        """Whether two who put together what they saw reach the limit."""
        f, tau = self.f_together, self.tau
        return f is not None and tau is not None and f >= tau


@dataclass(frozen=True)
class Measured:
    """The data that shares are measured on.

    Attributes
    ----------
    source : str
        Name of the file, or of the store.
    records, people : int
        Those that were counted.
    total : int or None
        All its records; None: more than were counted.
    subject : str or None
        Column that says who a record is about; None: each is about another person.
    unmeasured : tuple of str
        Fields without a column of values: scans.
    unsent : tuple of str
        Columns that no field is made of, so that nobody is ever shown them.
    """

    source: str
    records: int
    people: int
    total: int | None
    subject: str | None
    unmeasured: tuple[str, ...]
    unsent: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """What one stranger could know under a policy.

    Attributes
    ----------
    policy : Policy
    version : int or None
        Of the policy in force.
    fields : tuple of Field
        In the order of the policy.
    view : SeenFields
        The densest: most fields, and of those the most telling that was found.
    finished : bool
        Whether the searches for views with most fields ended with a proof.
    tie_proven : bool
        Whether no view with as many fields as ``view`` singles out more people.
    seconds : float
        Of all searches, at most.
    telling : SeenFields or None
        The view that singles out most people, if it singles out more.
    pair : SeenFields
        What two strangers can put together.
    several : SeenFields or None
        What one stranger can see of several records of one person, each field of any.
    rules : tuple of RuleLine
    measured : Measured or None
    trade : Frontier
        Workers and utility over the strictness, for the records of one person.
    records_of_one : int
        So many records that person has.
    """

    policy: Policy
    version: int | None
    fields: tuple[Field, ...]
    view: SeenFields
    finished: bool
    tie_proven: bool
    seconds: float
    telling: SeenFields | None
    pair: SeenFields
    several: SeenFields | None
    rules: tuple[RuleLine, ...]
    measured: Measured | None
    trade: Frontier
    records_of_one: int

    @property
    def sent(self) -> int:
        """Number of fields that may be sent."""
        return sum(field.sent for field in self.fields)

    @property
    def who(self) -> str:
        """Who is shown fields: a worker, or a receiver where nothing is asked."""
        fields = self.policy.entity.fields.values()
        return "worker" if any(f.send and f.ask for f in fields) else "receiver"

    def hidden(self, view: SeenFields) -> tuple[str, ...]:
        """Return the fields of a view without values to measure: what scans show."""
        unmeasured = () if self.measured is None else self.measured.unmeasured
        return tuple(name for name in view.fields if name in unmeasured)

    @property
    def worst(self) -> SeenFields:
        """Of all views shown of one stranger, the one that singles out most people."""
        others = [self.telling, *(field.instead for field in self.fields)]
        return max((self.view, *filter(None, others)), key=_share_of)


def _share_of(view: SeenFields) -> float:
    return -1.0 if view.share is None else view.share


def of_file(
    policy: Policy,
    folder: Path,
    against: Path | None,
    options: Options,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
) -> Picture:
    """Draw what a policy file allows, measured on a file of records if there is one.

    Parameters
    ----------
    policy : Policy
    folder : Path
        Of the policy file, beside which the tables of its rules are.
    against : Path, optional
    options : Options
        How the file is read.
    seconds : float
        Of all searches, at most.
    seed : int

    Raises
    ------
    Invalid
        The file cannot be read, or lacks the subject or a field of the policy.
    """
    data = None if against is None else _read_file(policy, against, options)
    functions = read_functions(policy, folder)
    tables = {name: one.levels for name, one in functions.items()}
    return _draw(policy, tables, data, None, seconds, seed)


def in_force(store: Store, *, seconds: float = SECONDS, seed: int = 0) -> Picture:
    """Draw what the policy in force allows, measured on records of the store.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    with store.read() as tx:
        force = current_policy(tx)
        if force is None:
            raise Conflict(
                "no policy is in force",
                why="the picture shows what a policy allows one stranger",
                fix="dispatcher policy apply, or draw a file: dispatcher policy picture FILE",
            )
        data = _read_store(tx, force)
    return _draw(force.policy, force.levels, data, force.version, seconds, seed)


@dataclass(frozen=True)
class _Data:
    """Values as numbers, and where they came from."""

    frequencies: Frequencies
    measured: Measured
    uniqueness: Uniqueness

    @property
    def columns(self) -> Collection[str]:
        return self.frequencies.columns


def _read_file(policy: Policy, path: Path, options: Options) -> _Data:
    table = read_sample(path, options)
    names = tuple(column.name for column in table.columns)
    _check_columns(policy, path, names)
    return _data(policy, path.name, table, whole=not table.is_sample)


def _check_columns(policy: Policy, path: Path, names: Sequence[str]) -> None:
    """Raise unless the file has the subject and what the fields are made of."""
    entity = policy.entity
    wanted = [
        f.column for f in entity.fields.values() if f.send and f.name not in names
    ]
    wanted += [entity.subject] if entity.subject else []
    missing = sorted({name for name in wanted if name not in names})
    if missing:
        raise Invalid(
            f"{path.name} has no column {missing[0][:60]!r}",
            why=f"policy {policy.name} shows it to workers, or knows people by it",
            fix="name the file that the policy was written for, or correct the policy",
        )


def _read_store(tx: Tx, force: ActivePolicy) -> _Data | None:
    """Read the first records that have their values still."""
    columns = {load: json.loads(text) for load, text in rows.loaded_columns(tx).items()}
    names = tuple(dict.fromkeys(name for each in columns.values() for name in each))
    place = {name: i for i, name in enumerate(names)}

    def every() -> Iterator[Sequence[str]]:
        for _, load, raw in rows.cells(tx):
            row = [""] * len(names)
            cut = columns.get(load, ())
            for name, cell in zip(cut, json.loads(bytes(raw)), strict=False):
                row[place[name]] = cell
            yield row

    cells = every()
    sampler = TableSampler(most_rows=IN_FORCE)
    sampler.add(names, list(islice(cells, IN_FORCE)))
    table = sampler.finish(names)
    if not names or not table.rows:
        return None
    return _data(force.policy, "the store", table, whole=next(cells, None) is None)


def _data(policy: Policy, source: str, table: CodedTable, *, whole: bool) -> _Data:
    entity = policy.entity
    sent = [f for f in entity.fields.values() if f.send]
    made_of = {f.column for f in sent} | {f.name for f in sent}
    person = entity.subject if entity.subject and entity.subject in table else None
    found = Frequencies.of(table, person)
    measured = Measured(
        source=source,
        records=table.rows,
        total=table.total if whole or table.is_sample else None,
        people=found.people,
        subject=person,
        unmeasured=tuple(f.name for f in sent if f.name not in table),
        unsent=tuple(c.name for c in table.columns if c.name not in made_of),
    )
    return _Data(found, measured, Uniqueness(table, person))


def _draw(
    policy: Policy,
    tables: Mapping[str, FieldTable],
    data: _Data | None,
    version: int | None,
    seconds: float,
    seed: int,
) -> Picture:
    work = max(Limits().work, _WORK * seconds)  # more time is to prove more
    artist = _Artist(policy, tables, data, Limits(seconds=seconds, work=work), seed)
    view, tie_proven = artist.densest()
    pair = artist.seen(artist.solved(adversaries=2))
    telling = artist.telling(view)
    view = artist.worst_of_densest(view, telling)
    fields = tuple(artist.field(name, view) for name in policy.entity.fields)
    several, of_one = artist.several(view)
    return Picture(
        policy=policy,
        version=version,
        fields=fields,
        view=view,
        finished=artist.finished,
        tie_proven=tie_proven,
        seconds=seconds,
        telling=_if_more(telling, view),
        pair=pair,
        several=several,
        rules=tuple(artist.rules(fields, view, pair)),
        measured=None if data is None else data.measured,
        trade=artist.trade(of_one),
        records_of_one=of_one,
    )


def _if_more(telling: SeenFields | None, view: SeenFields) -> SeenFields | None:
    """Return the view that singles out most people, if it is still another one."""
    if telling is None or (telling.proven and _share_of(telling) <= _share_of(view)):
        return None
    if telling.proven:
        return telling
    return replace(telling, fields=view.fields, share=view.share)


class _Artist:
    """Finds the views of one policy."""

    def __init__(
        self,
        policy: Policy,
        tables: Mapping[str, FieldTable],
        data: _Data | None,
        limits: Limits,
        seed: int,
    ) -> None:
        self._policy, self._data = policy, data
        self._record = UnknownRecord(policy, tables)
        self._limits, self._began = limits, limits.clock()
        self._seed, self._most = seed, len(self._record.fields)
        self.finished = True
        self._instead_of: dict[str, SeenFields | None] = {}
        self._worth: Callable[[frozenset[str]], Fraction] = cache(self._singled_out)

    def solved(
        self, *, adversaries: int = 1, records: int = 1, having: str | None = None
    ) -> SeenFields:
        """Return the view with most fields; without ``having``, one with none at least."""
        found = self._record.densest(
            np.random.default_rng(self._seed),
            self._limits.left(self._began, _LARGE if having is None else _SHARE),
            adversaries=adversaries,
            records=records,
            having=having,
        )
        if found is None:
            return SeenFields((), proven=False)
        if having is None:
            self.finished &= found.proven
            if adversaries == records == 1:
                self._most = found.most
        return SeenFields(found.fields, found.proven)

    def densest(self) -> tuple[SeenFields, bool]:
        """Return the view with most fields, and whether none of as many tells more."""
        solved = self.solved()
        if self._data is None or not solved.proven:
            return self.seen(solved), False
        best = self._best(least=len(solved.fields))
        if best.fields is None:
            return self.seen(solved), False
        return self.seen(SeenFields(self._ordered(best.fields))), True

    def worst_of_densest(
        self, view: SeenFields, telling: SeenFields | None
    ) -> SeenFields:
        """Return the densest of all views that are known; of several, the most telling."""

        def rank(one: SeenFields) -> tuple[int, float]:
            return len(one.fields), _share_of(one)

        while True:
            kept = [name for name in self._record.fields if name not in view.fields]
            known = [telling, *(self._instead(name) for name in kept)]
            best = max((view, *filter(None, known)), key=rank)
            if rank(best) == rank(view):
                return view
            proven = len(best.fields) == self._most
            view = self.seen(SeenFields(best.fields, proven))

    def telling(self, view: SeenFields) -> SeenFields | None:
        """Return the view that singles out most people, if that is more."""
        if self._data is None or view.share is None:
            return None
        best = self._best()
        bound = float(best.bound)
        if best.fields is None:  # the search did not end: no more than its bound
            return SeenFields(
                view.fields, proven=False, share=view.share, at_most=bound
            )
        found = self.seen(SeenFields(self._ordered(best.fields)))
        return found if found.share is not None and found.share > view.share else None

    def several(self, view: SeenFields) -> tuple[SeenFields | None, int]:
        """Return the view of several records of one person, and how many there are."""
        if self._policy.entity.subject is None:
            return None, 1
        of_one = 2
        if self._data is not None:
            of_one = min(self._data.frequencies.most_rows, _MOST_RECORDS_OF_ONE)
        if of_one < 2:
            return None, 1
        found = self.solved(records=2)
        more = len(found.fields) > len(view.fields)
        return (self.seen(found) if more else None), of_one

    def seen(self, view: SeenFields) -> SeenFields:
        """Measure a view."""
        if self._data is None:
            return view
        share, beyond = float(self._worth(frozenset(view.fields))), None
        if self._data.measured.total not in (None, self._data.measured.records):
            measured = [name for name in view.fields if name in self._data.columns]
            beyond = self._data.uniqueness.measure(measured).beyond if measured else 0.0
        return SeenFields(view.fields, view.proven, share, share, beyond)

    def field(self, name: str, view: SeenFields) -> Field:
        """Describe a field, and how else it could be known."""
        if name not in self._record.fields:
            return Field(name, seen=False, sent=False)
        if name in view.fields:
            return Field(name, seen=True, sent=True)
        denied = self._record.refusals(view.fields, name)
        instead = self._instead(name)
        guess = None
        if (
            instead is not None
            and self._data is not None
            and name in self._data.columns
        ):
            both = {*view.fields}.intersection(instead.fields, self._data.columns)
            rng = np.random.default_rng(self._seed)
            guess = self._data.frequencies.guess(name, both, rng)
        return Field(
            name,
            seen=False,
            sent=True,
            denied_by=tuple(one.property for one in denied),
            instead=instead,
            guess=guess,
        )

    def _instead(self, name: str) -> SeenFields | None:
        if name not in self._instead_of:
            self._instead_of[name] = self._search_instead(name)
        return self._instead_of[name]

    def _search_instead(self, name: str) -> SeenFields | None:
        solved = self.solved(having=name)
        if not solved.fields:
            return None
        if self._data is None:
            return solved
        best = self._best(keep=name)
        if best.fields is None:
            found = self.seen(solved)
            return SeenFields(
                found.fields, proven=False, share=found.share, at_most=float(best.bound)
            )
        return self.seen(SeenFields(self._ordered(best.fields)))

    def rules(
        self, fields: Sequence[Field], view: SeenFields, pair: SeenFields
    ) -> Iterator[RuleLine]:
        """Describe the rules, in the order of the policy."""
        for name, prop in self._policy.properties.items():
            judged = name in self._record.rules
            yield RuleLine(
                name=name,
                scope=prop.scope.value,
                kind=title(prop.disclosure),
                note=prop.note,
                sets=prop.alternatives,
                tau=prop.tau,
                f=self._record.disclosure(name, view.fields) if judged else None,
                f_together=self._record.disclosure(name, pair.fields)
                if judged
                else None,
                denies=tuple(f.name for f in fields if name in f.denied_by),
            )

    def trade(self, records: int) -> Frontier:
        """Sweep the strictness, with as many workers as the policy takes."""
        auto = SOLVERS["auto"]
        limits = self._limits.left(self._began)
        needed = adversaries_for(self._record.wanted(records), self._seed, limits)
        workers = max(1, needed.enough or needed.least)
        limits = self._limits.left(self._began)
        return frontier(
            self._record.wanted(records, workers), _POINTS, auto, self._seed, limits
        )

    def _best(self, *, keep: str | None = None, least: int = 0) -> Best:
        assert self._data is not None
        most = max(64, _COUNTED // max(1, len(self._data.frequencies)))
        return best_view(
            self._record,
            self._record.fields,
            self._worth,
            keep=keep,
            least=least,
            most=min(most, MOST_VIEWS),
            over=self._limits.left(self._began, _SHARE).deadline(),
        )

    def _singled_out(self, fields: frozenset[str]) -> Fraction:
        assert self._data is not None
        known = self._data.frequencies
        return known.singled_out(sorted(fields.intersection(known.columns)))

    def _ordered(self, fields: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self._record.fields if name in fields)
