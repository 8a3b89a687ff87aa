"""The policy as values: the content of a checked policy file, nothing more.

Built by :func:`policies.document.parse`; frozen, hashable where it matters, exact
(every number of the file is a :class:`~fractions.Fraction` or an ``int``). Names are
those of the policy language; the glossary gives the paper's (field = kind of data
entry, property = sensitive property, worker = adversary).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Final

from policies.model.objective import Objective


class Scope(StrEnum):
    """The unit for which a property has one sensitive set."""

    RECORD = "record"
    SUBJECT = "subject"
    RELATION = "relation"


@dataclass(frozen=True)
class Disclosure:
    """A disclosure function with its parameters.

    Attributes
    ----------
    kind : str
        A key of :data:`policies.rules.kinds.KINDS`.
    at : int or None
        Step only: complete when any ``at`` entries of the set are held.
    weights : Mapping[str, Fraction] or None
        For powers of a sum: a_dp by field, adding up to 1; None means 1/size each.
    per_entry : Fraction or None
        For powers of a sum: one weight for each entry of an open-ended set.
    vector, count : str or None
        For common and cosine: the columns of the location and of the visits.
    table, prior : str or None
        For posterior and information gain: the file of the joint table, the prior.
    plugin : str or None
        Name of the user's function.
    """

    kind: str = "step"
    at: int | None = None
    weights: Mapping[str, Fraction] | None = None
    per_entry: Fraction | None = None
    vector: str | None = None
    count: str | None = None
    table: str | None = None
    prior: str | None = None
    plugin: str | None = None


@dataclass(frozen=True)
class Property:
    """A rule: its sensitive sets, and how far they may be disclosed.

    Attributes
    ----------
    name : str
    alternatives : tuple of tuple of str
        The fields of ``of`` as the only alternative, or the alternatives of
        ``any_of``; each in the order of the file.
    uses_any_of : bool
        Whether the file uses ``any_of``.
    scope : Scope
    relation : str or None
        Name of the link table, for scope relation.
    disclosure : Disclosure
    tau : Fraction or None
        The limit that applies to this rule (its own or the budget's): f < tau. None is
        ``"none"``: no limit.
    average : Fraction or None
        This rule's own cap on the mean of f over its sets, per adversary.
    window : int or None
        Length of the sliding window in microseconds, closed at both ends.
    note : str
    line : int
        Line of the table header in the file, from 1.
    """

    name: str
    alternatives: tuple[tuple[str, ...], ...]
    uses_any_of: bool = False
    scope: Scope = Scope.RECORD
    relation: str | None = None
    disclosure: Disclosure = Disclosure()
    tau: Fraction | None = Fraction(1)
    average: Fraction | None = None
    window: int | None = None
    note: str = ""
    line: int = 0

    @property
    def fields(self) -> frozenset[str]:
        """All fields that the rule names."""
        return frozenset(f for alt in self.alternatives for f in alt)


QUESTIONS: Final = {
    "transcribe": "{field}: type exactly what you see",
    "choose": "{field}: choose what you see",
    "number": "{field}: type the number you see",
    "date": "{field}: type the date you see",
    "yes_no": "{field}: is it so?",
    "spans": "{field}: copy each passage that says it",
    "table": "{field}: type the table you see, row by row",
}
"""Questions by ``ask`` for fields without one of their own; they say which value is meant."""


@dataclass(frozen=True)
class Example:
    """A made-up value of a field and its right answer, shown to workers."""

    shown: str
    answer: str


@dataclass(frozen=True)
class Field:
    """One field of the entity: how it is asked and shown."""

    name: str
    ask: str | None = None
    choices: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    decimal: str | None = None  # decimal separator of a number: comma or point
    order: str | None = None  # order of day, month and year in a date: dmy, mdy or ymd
    locale: str | None = (
        None  # language and region of what is written, and of the words
    )
    ignore: tuple[str, ...] = ()  # differences between answers that agree all the same
    question: str | None = None
    image_column: str | None = None
    image_box: str | None = None
    answers: int = 1
    utility: Fraction = Fraction(1)
    send: bool = True
    free: bool = False
    redact: tuple[str, ...] = ()
    help: str = ""
    example: Example | None = None

    @property
    def column(self) -> str:
        """The loaded column by which the entry exists: the page's or the field's."""
        return self.image_column if self.image_column is not None else self.name

    @property
    def asked(self) -> str:
        """The question that workers are asked: its own, or one from its name and kind."""
        default = QUESTIONS.get(self.ask or "", "")
        return self.question or default.replace("{field}", self.title)

    @property
    def title(self) -> str:
        """Its name as people read it: ``patient_name`` is ``Patient name``."""
        words = " ".join(self.name.replace("_", " ").split()) or self.name
        return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Box:
    """A box on the scan: page from 1; x, y, width, height as fractions of the page.

    With ``redact`` it is painted over on that page of every picture, and no field shows
    it.
    """

    page: int
    x: Fraction
    y: Fraction
    width: Fraction
    height: Fraction
    redact: bool = False


@dataclass(frozen=True)
class Template:
    """The scan that the boxes were drawn on, which every other scan is aligned to."""

    image: str  # a path under the import folder
    sha256: str  # of that file


@dataclass(frozen=True)
class Entity:
    """The kind of record of the policy."""

    name: str
    key: str
    fields: Mapping[str, Field]
    subject: str | None = None
    time: str | None = None
    retain: int | None = None  # microseconds
    layout: Mapping[str, Box] = field(default_factory=dict)
    template: Template | None = None


@dataclass(frozen=True)
class Budget:
    """The limits and the objective that apply unless a rule says otherwise."""

    objective: Objective = Objective.DISC_BUDGET
    tau: Fraction | None = Fraction(1)
    average: Fraction | None = None
    t: int | None = None
    lambda_: Fraction = Fraction(1)
    utility: str | None = None  # name of a user's function, instead of a sum


@dataclass(frozen=True)
class Relation:
    """A link table: the CSV beside the policy file and its two columns."""

    name: str
    source: str
    ends: tuple[str, str]


@dataclass(frozen=True)
class Group:
    """Accounts that are one adversary, and the rules that they are trusted with."""

    name: str
    members: tuple[str, ...]
    trusted: tuple[str, ...] = ()

    def matches(self, account: str) -> bool:
        """Whether the whole account text matches one of the members' globs."""
        return any(fnmatchcase(account, glob) for glob in self.members)


@dataclass(frozen=True)
class UtilityRow:
    """One ``[[utility]]`` row; all matching rows multiply."""

    worker: str = "*"
    fields: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    weight: Fraction | None = None
    from_: str | None = None


@dataclass(frozen=True)
class Capacity:
    """How much one worker matching the glob may be given; None = no limit.

    ``worker = "default"`` applies where no other row matches: see
    :meth:`Policy.capacity`.
    """

    worker: str
    total: int | None = None
    open: int | None = None
    per_day: int | None = None
    per_hour: int | None = None

    def room(self, given: int, live: int, day: int, hour: int) -> int | None:
        """Return how many more tasks fit now.

        Parameters
        ----------
        given, live, day, hour : int
            Tasks ever given, open now, given in the last day, in the last hour.

        Returns
        -------
        int or None
            >= 0; None if nothing limits it.
        """
        caps = (
            (self.total, given),
            (self.open, live),
            (self.per_day, day),
            (self.per_hour, hour),
        )
        left = [max(0, cap - used) for cap, used in caps if cap is not None]
        return min(left) if left else None


@dataclass(frozen=True)
class TestFacts:
    """Facts about records and links in a ``[[test]]``."""

    __test__ = False

    relations: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    subject: Mapping[str, str] = field(default_factory=dict)
    vector: Mapping[str, str] = field(default_factory=dict)
    count: Mapping[str, int] = field(default_factory=dict)
    time: Mapping[str, int] = field(default_factory=dict)  # microseconds UTC


@dataclass(frozen=True)
class PolicyTest:
    """One ``[[test]]`` block; entries are (record, field)."""

    __test__ = False

    name: str
    worker: str
    ask: tuple[str, str]
    expect_allow: bool
    by: str | None = None
    seen: tuple[tuple[str, str], ...] = ()
    seen_by: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    same_subject: tuple[tuple[str, ...], ...] = ()
    facts: TestFacts = TestFacts()
    line: int = 0


@dataclass(frozen=True)
class Policy:
    """A policy file that passed every check."""

    name: str
    entity: Entity
    budget: Budget = Budget()
    properties: Mapping[str, Property] = field(default_factory=dict)
    relations: Mapping[str, Relation] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    utilities: tuple[UtilityRow, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    tests: tuple[PolicyTest, ...] = ()

    def capacity(self, account: str) -> Capacity:
        """Return how much one account may be given: the least of all matching rows.

        A row called ``default`` applies to limits that no matching row names.
        """
        rows = [
            row
            for row in self.capacities
            if row.worker != "default" and fnmatchcase(account, row.worker)
        ]
        rest = [row for row in self.capacities if row.worker == "default"]

        def least(limit: str) -> int | None:
            named = [n for row in rows if (n := getattr(row, limit)) is not None]
            spare = [n for row in rest if (n := getattr(row, limit)) is not None]
            return min(named or spare, default=None)

        return Capacity(
            account, least("total"), least("open"), least("per_day"), least("per_hour")
        )

    def showings(self, name: str) -> int:
        """Return the lifetime cap t of the field: ``budget.t``, or its answers + 2."""
        if self.budget.t is not None:
            return self.budget.t
        return self.entity.fields[name].answers + 2
