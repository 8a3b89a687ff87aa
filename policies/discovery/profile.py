"""What the names and the values of a table's columns tell, together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from policies.discovery import exhaustive
from policies.discovery.coded_table import CodedColumn, CodedTable
from policies.discovery.column_names import (
    ACCOUNT,
    ADDRESS,
    BANK_ACCOUNT,
    BIRTH_DATE,
    CARD,
    COORDINATE,
    COUNTRY,
    DATE,
    EDUCATION,
    EMAIL,
    FREE_TEXT,
    FULL_NAME,
    GIVEN_NAME,
    LANGUAGE,
    NATIONAL_ID,
    OCCUPATION,
    ORGANISATION,
    PHONE,
    PLACE,
    PLAIN,
    POSTAL_CODE,
    REGION,
    SEX,
    SOME_NAME,
    SURNAME,
    VISITED,
    WORKING_HOURS,
    YEAR,
    Meaning,
    meaning_of,
    names_number,
    names_person,
    names_role,
)
from policies.discovery.dependencies import Dependency, dependencies
from policies.discovery.text_names import NamesInText, names_in_text
from policies.discovery.uniqueness import MOST_SEARCHED, Combination, Uniqueness
from policies.discovery.value_shapes import (
    ENOUGH,
    MEANINGS,
    ValueShape,
    are_combined_names,
    is_organisation,
    shape_of,
)

IDENTIFYING: Final = 0.05
"""Share of people from which on a combination counts as identifying."""
MOST_KEYS: Final = 100
NOBODY: Final = ""
LINKS: Final = Meaning("number that links records", quasi=True)
ATTRIBUTE: Final = Meaning("may be known of people", quasi=True)
"""What a column of a table about people is taken for whose name says nothing."""
COUNT: Final = Meaning("count of an organisation", quasi=True)
"""A number of an organisation whose name says nothing.

Two of them may be shown together: who is shown one knows none from elsewhere.
"""
PROFESSIONAL: Final = Meaning("person named with a title", quasi=True)
_IMPERSONAL: Final = (
    COORDINATE,
    COUNTRY,
    DATE,
    EDUCATION,
    LANGUAGE,
    LINKS,
    OCCUPATION,
    REGION,
    VISITED,
    WORKING_HOURS,
    YEAR,
)
"""Quasi-identifiers that tables about other things than people have too."""
_OF_ORGANISATIONS: Final = (ADDRESS, EMAIL, ORGANISATION, PHONE, PLACE, POSTAL_CODE)
"""What tables about people have, and those about organisations too."""
_STEADY: Final = (BIRTH_DATE, SEX)
"""What the records of one person agree in."""
_IDENTITIES: Final = (
    (NATIONAL_ID,),
    (FULL_NAME, BIRTH_DATE),
    (GIVEN_NAME, SURNAME, BIRTH_DATE),
    (FULL_NAME, EMAIL),
    (FULL_NAME, PHONE),
    (FULL_NAME, POSTAL_CODE),
)
"""Columns that tell one person from others where none numbers people; best first."""
_NUMBERED: Final = (NATIONAL_ID, PHONE, BANK_ACCOUNT, CARD)
_GIVEN: Final = (ACCOUNT, EMAIL, *_NUMBERED)
"""What one person has alone, if it is what the column's name says."""
_SHORT: Final = 5  # mean characters of the shortest direct identifiers
SOME: Final = 0.3
"""Share of the values that lets the name of a column hold."""
_LONG: Final = 4.0  # mean words of a free text
_DIFFERENT: Final = 0.3  # share of different values of a free text
_LIFETIME: Final = 40  # years that birth dates span, and dates of events do not
_MANY: Final = 0.2  # share of different values of a number that links records
_STATIC: Final = 2  # columns of a person that the person's number tells


@dataclass(frozen=True)
class ColumnProfile:
    """What one column tells.

    Attributes
    ----------
    name : str
    meaning : Meaning
        By its name, or by its values where the name says nothing or they say otherwise.
    shape : Shape
    by_values : bool
        Whether the values decided.
    constant : bool
        Whether it has at most one value.
    """

    name: str
    meaning: Meaning
    shape: ValueShape
    by_values: bool = False
    constant: bool = False

    @property
    def is_free_text(self) -> bool:
        """Whether its values are sentences."""
        return self.meaning is FREE_TEXT

    @property
    def is_image(self) -> bool:
        """Whether its values are names of pictures."""
        return self.shape.name == "IMAGE"

    @property
    def is_box(self) -> bool:
        """Whether its values are boxes on a page."""
        return self.shape.name == "BOX"

    @property
    def is_moment(self) -> bool:
        """Whether its values are dates or times."""
        return self.shape.name in ("DATE", "TIME")


@dataclass(frozen=True)
class Repeats:
    """What stands in a table more than once.

    Attributes
    ----------
    rows : int
        Rows equal to an earlier one in every column but the key.
    people : int
        People whom several rows are about.
    """

    rows: int = 0
    people: int = 0


@dataclass(frozen=True)
class Profile:
    """What a table tells about people.

    Attributes
    ----------
    table : CodedTable
    columns : tuple of ColumnProfile
        All of them, in order of the table.
    key, person : str or None
        The column that numbers the rows, and the one that says whose they are.
    people : int
        People in the sample.
    singles : Mapping of str to Combination
        Each column that can be measured, alone.
    identifying : tuple of Combination
        The smallest combinations of columns that somebody may know of people (all but
        free text and pictures) that single out at least :data:`IDENTIFYING` of the
        people; none if nothing of the table seems to be about people.
    keys : tuple of Combination
        The smallest combinations of any columns that tell all rows apart.
    unsearched : int
        Columns that were not searched for triples, since there were too many.
    dependencies : tuple of Dependency
        What tells sensitive columns.
    names : tuple of NamesInText
    identity : tuple of str
        Columns by which people were told apart: `person`, or where it is missing or has
        names, several together; none where each row was taken as a person.
    repeats : Repeats
    """

    table: CodedTable
    columns: tuple[ColumnProfile, ...]
    key: str | None
    person: str | None
    people: int
    singles: dict[str, Combination]
    identifying: tuple[Combination, ...]
    keys: tuple[Combination, ...]
    unsearched: int
    dependencies: tuple[Dependency, ...] = ()
    names: tuple[NamesInText, ...] = ()
    identity: tuple[str, ...] = ()
    repeats: Repeats = Repeats()
    by_name: dict[str, ColumnProfile] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {c.name: c for c in self.columns})

    @property
    def fields(self) -> tuple[ColumnProfile, ...]:
        """The columns that may be shown: neither key nor person, and not empty."""
        return tuple(
            column
            for column in self.columns
            if column.name not in (self.key, self.person)
            and self.table[column.name].values
        )


def profile(
    table: CodedTable, key: str | None = None, *, person: str | None = None
) -> Profile:
    """Measure what a table tells about people.

    Parameters
    ----------
    table : CodedTable
    key : str, optional
        The column that numbers the rows.
    person : str, optional
        The column that says whose a row is; None: found by its name or its values;
        :data:`NOBODY`: no column does.
    """
    columns = [_column(column) for column in table.columns]
    person = (person or _person(table, columns, key)) if person != NOBODY else None
    outside = {key, person, *(c.name for c in table.columns if not c.values)}
    columns = [c if c.name in outside else _linking(table, c) for c in columns]
    by = [c.name for c in columns if c.name not in outside and _is_telling(c)]
    about_people = person is not None or any(map(_is_personal, columns))
    if about_people:
        counts = person is None and _names_organisations(columns)
        columns = [_known(c, counts=counts) if c.name in by else c for c in columns]
    told = [c.name for c in columns if c.name in by and c.meaning.sensitive]
    told, telling = told[:MOST_SEARCHED], by[:MOST_SEARCHED]
    wider = exhaustive.is_installed()
    larger = exhaustive.candidates(table, told, telling) if wider else []
    found = dependencies(table, told, telling, larger)
    columns = _derived(columns, found)
    identity = _identity(table, columns, key, person)
    uniqueness = Uniqueness(table, identity)
    if identity:
        columns = [_shared(c, uniqueness) if c.name in by else c for c in columns]
    known = _by_preference(table, [c for c in columns if c.name in by])
    return Profile(
        table,
        tuple(columns),
        key,
        person,
        uniqueness.people,
        {name: uniqueness.measure([name]) for name in by},
        tuple(uniqueness.search(known, IDENTIFYING)) if about_people else (),
        _keys(table, uniqueness, by),
        max(0, len(known) - uniqueness.in_triples()) if about_people else 0,
        tuple(found),
        tuple(_names(table, [c for c in columns if c.name not in outside])),
        identity,
        Repeats(_repeated_rows(table, key), uniqueness.in_several_rows),
    )


def _is_personal(column: ColumnProfile) -> bool:
    """Whether a column is one that tables about people have, and few others."""
    meaning = column.meaning
    if meaning.direct:
        return True
    by_chance = meaning in _IMPERSONAL or (meaning is ORGANISATION and column.by_values)
    return meaning.quasi and not by_chance


def _names_organisations(columns: Sequence[ColumnProfile]) -> bool:
    """Whether the rows are named after organisations, and no column is of people."""
    several = [c for c in columns if not c.constant]
    named = any(c.meaning is ORGANISATION and c.by_values for c in several)
    return named and not any(
        _is_personal(c) and c.meaning not in _OF_ORGANISATIONS for c in several
    )


def _known(column: ColumnProfile, *, counts: bool) -> ColumnProfile:
    """Take a column of which names say nothing, or a moment, as known of people.

    With ``counts`` the rows are organisations, and what their numbers are is not known.
    """
    if column.meaning is PLAIN:
        number = counts and column.shape.name in ("INTEGER", "DECIMAL")
        return replace(column, meaning=COUNT if number else ATTRIBUTE)
    if column.is_moment and not column.meaning.quasi:
        return replace(column, meaning=replace(column.meaning, quasi=True))
    return column


def _shared(column: ColumnProfile, uniqueness: Uniqueness) -> ColumnProfile:
    """Take a number or account that hardly anybody has alone as no direct identifier.

    Only where the records say whose they are: else one person's may be in several rows.
    """
    if column.meaning not in _GIVEN:
        return column
    if uniqueness.measure([column.name]).share >= IDENTIFYING:
        return column
    label = f"{column.meaning.label} of several people"
    return replace(column, meaning=Meaning(label, quasi=True))


def _by_preference(table: CodedTable, columns: Sequence[ColumnProfile]) -> list[str]:
    """Return the columns that somebody may know of people, those to search first."""

    def preference(column: ColumnProfile) -> tuple[bool, bool, int]:
        meaning = column.meaning
        return (
            not meaning.quasi,
            meaning is ATTRIBUTE,
            -len(table[column.name].values),
        )

    known = [c for c in columns if c.meaning.quasi or c.meaning.sensitive]
    return [c.name for c in sorted(known, key=preference)]


def _identity(
    table: CodedTable,
    columns: Sequence[ColumnProfile],
    key: str | None,
    person: str | None,
) -> tuple[str, ...]:
    """Return columns that tell people apart: one that numbers them, or several.

    Names alone do not: several people may have one.
    """
    named = any(c.name == person and c.meaning is FULL_NAME for c in columns)
    if person is not None and not named:
        return (person,)
    first: dict[Meaning, str] = {}
    for column in columns:
        if column.name != key:
            first.setdefault(column.meaning, column.name)
    for meanings in _IDENTITIES:
        if all(meaning in first for meaning in meanings):
            names = tuple(first[meaning] for meaning in meanings)
            return names if Uniqueness(table, names).in_several_rows else ()
    return ()


def _repeated_rows(table: CodedTable, key: str | None) -> int:
    """Count rows that are equal to an earlier one in all columns but the key."""
    number = np.zeros(table.rows, np.int64)
    for column in table.columns:
        if column.name != key:
            both = number * (len(column.values) + 1) + column.codes
            _, number = np.unique(both, return_inverse=True)
    return table.rows - (int(number.max()) + 1 if table.rows else 0)


def _keys(
    table: CodedTable, uniqueness: Uniqueness, columns: Sequence[str]
) -> tuple[Combination, ...]:
    """Return the smallest combinations that tell all rows apart, of any size if can be."""
    several = sorted(columns, key=lambda name: -len(table[name].values))
    found = uniqueness.search(several, 1.0, most=MOST_SEARCHED)
    if not exhaustive.is_installed():
        return tuple(found)
    known = {frozenset(one.columns) for one in found}
    larger = [
        uniqueness.measure(one)
        for one in exhaustive.minimal_keys(table, columns)[:MOST_KEYS]
        if frozenset(one) not in known
    ]
    return (*found, *larger)


def _is_telling(column: ColumnProfile) -> bool:
    """Whether different values of a column can be compared."""
    apart = column.is_free_text or column.is_image or column.is_box
    return not (apart or column.constant)


def _names(table: CodedTable, columns: Sequence[ColumnProfile]) -> list[NamesInText]:
    named = (FULL_NAME, GIVEN_NAME, SURNAME)
    return names_in_text(
        table,
        [c.name for c in columns if c.is_free_text],
        [c.name for c in columns if c.meaning in named],
    )


def _column(column: CodedColumn) -> ColumnProfile:
    shape = shape_of(column)
    by_name = meaning_of(column.name)
    by_values = _by_values(column, shape, by_name)
    return ColumnProfile(
        column.name,
        by_name if by_values is None else by_values,
        shape,
        by_values is not None,
        len(column.values) < 2,
    )


def _by_values(
    column: CodedColumn, shape: ValueShape, named: Meaning
) -> Meaning | None:
    """Return what the values say, where they decide; None where the name does."""
    if named in _NUMBERED and _is_short(column):
        return _values_alone(column, shape) or meaning_of(column.name, _NUMBERED)
    if shape.name in MEANINGS and not named.direct:
        return MEANINGS[shape.name]
    if named is FULL_NAME and not _is_persons(column, shape):
        return ORGANISATION
    if _has_full_names(column, shape, named):
        return FULL_NAME
    moments = max(shape.shares.get(name, 0.0) for name in ("DATE", "TIME"))
    says_otherwise = (
        (named is DATE and moments < SOME)
        or (named is PHONE and moments > SOME)
        or named is SOME_NAME
    )
    if says_otherwise:
        return _values_alone(column, shape) or PLAIN
    return _values_alone(column, shape) if named is PLAIN else None


def _has_full_names(column: CodedColumn, shape: ValueShape, named: Meaning) -> bool:
    """Whether the values are full names, though the column is called otherwise."""
    may_be = (PLAIN, SOME_NAME, OCCUPATION, GIVEN_NAME)
    if named not in may_be or shape.name != "PERSON":
        return False
    if is_organisation(column.values):
        return False
    of_people = named is SOME_NAME or names_role(column.name)
    return of_people or _look_personal(column) or are_combined_names(column.values)


def _is_short(column: CodedColumn) -> bool:
    """Whether values are too short to say alone who somebody is."""
    lengths = [len(value) for value in column.values]
    return not lengths or sum(lengths) < _SHORT * len(lengths)


def _values_alone(column: CodedColumn, shape: ValueShape) -> Meaning | None:
    """Return what the values say of a column whose name says nothing."""
    different = len(column.values)
    share = different / max(1, column.filled)
    match shape.name:
        case "SEX" if different > 1:
            return SEX
        case "DATE" | "TIME":
            return BIRTH_DATE if _spans_lives(column) else DATE
        case "US_ZIP" | "POSTCODE" if different > 2 and not names_number(column.name):
            return POSTAL_CODE
    if shape.shares.get("TITLED", 0.0) >= ENOUGH:
        return PROFESSIONAL
    is_text = shape.words >= _LONG and share >= _DIFFERENT
    return FREE_TEXT if is_text else None


def _is_persons(column: CodedColumn, shape: ValueShape) -> bool:
    """Whether a column of names has names of people, as far as one can tell."""
    return not is_organisation(column.values) and shape.words < _LONG


def _look_personal(column: CodedColumn) -> bool:
    """Whether names come from many first and last words, as those of people do.

    Places and categories repeat whole; each name of a person is another one.
    """
    enough = len(column.values) >= max(3, 0.5 * column.filled)
    return enough and not is_organisation(column.values)


def _spans_lives(column: CodedColumn) -> bool:
    years = [
        int(year)
        for value in column.values[:2_000]
        for year in re.findall(r"(?<!\d)(?:1[89]|20)\d\d", value)[:1]
    ]
    return len(years) > 2 and max(years) - min(years) >= _LIFETIME


def _person(
    table: CodedTable, columns: Sequence[ColumnProfile], key: str | None
) -> str | None:
    """Return the column that says whose a row is: by its name, or by what it tells."""
    repeating = [
        c
        for c in columns
        if c.name != key
        and 1 < len(table[c.name].values) < table[c.name].filled
        and not (c.meaning.direct and c.by_values and c.meaning is not FULL_NAME)
    ]
    named = [
        c.name
        for c in repeating
        if names_person(c.name) and not _are_namesakes(table, columns, c)
    ]
    if named:
        return named[0]
    about = [c.name for c in columns if c.meaning.quasi or c.meaning.direct]
    for column in repeating:
        if names_number(column.name) and not column.meaning.direct:
            others = [name for name in about if name != column.name]
            told = dependencies(table, others, [column.name])
            if len(told) >= _STATIC:
                return column.name
    return None


def _are_namesakes(
    table: CodedTable, columns: Sequence[ColumnProfile], column: ColumnProfile
) -> bool:
    """Whether rows of one name differ in what the records of one person agree in."""
    if column.shape.name != "PERSON":
        return False
    steady = [c.name for c in columns if c.meaning in _STEADY]
    return bool(steady) and not dependencies(table, steady, [column.name])


def _linking(table: CodedTable, column: ColumnProfile) -> ColumnProfile:
    """Take a number that occurs in other rows or files too as a quasi-identifier."""
    coded = table[column.name]
    many = len(coded.values) >= _MANY * coded.filled
    numbers = names_number(column.name) or column.shape.name == "UUID"
    if column.meaning is PLAIN and numbers and many and not column.constant:
        return replace(column, meaning=LINKS)
    return column


def _derived(
    columns: Sequence[ColumnProfile], found: Sequence[Dependency]
) -> list[ColumnProfile]:
    """Take a column that tells a sensitive one as sensitive too."""
    telling = {d.columns[0]: d.told for d in found if len(d.columns) == 1}
    return [
        replace(
            column,
            meaning=Meaning(
                column.meaning.label or f"tells {telling[column.name]}",
                column.meaning.direct,
                column.meaning.quasi,
                sensitive=True,
            ),
        )
        if column.name in telling and not column.meaning.sensitive
        else column
        for column in columns
    ]


def identifies_alone(profile: Profile, name: str) -> bool:
    """Whether one column says who somebody is, by its kind or by its values."""
    if profile.by_name[name].meaning.direct:
        return True
    return any(c.columns == (name,) for c in profile.identifying)
