"""A first policy file, drafted from what a table of records tells about people.

What must not come together is found once (:func:`kept_apart`), for the rules of the draft
and for ``policy check --against``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

from policies.discovery.column_names import (
    ADDRESS,
    CONSENT,
    GIVEN_NAME,
    SURNAME,
    language_of,
)
from policies.discovery.dependencies import percent
from policies.discovery.profile import (
    ATTRIBUTE,
    COUNT,
    ColumnProfile,
    Profile,
    identifies_alone,
)
from policies.discovery.uniqueness import Combination, smallest
from policies.document.diagnostic import escaped

MOST_ALTERNATIVES: Final = 600
"""Sets that the rules of a draft list; past it, no two of their columns come together."""
MOST_TESTS: Final = 12
QUESTIONS: Final = {
    "en": "Can this be a value of {}?",
    "de": "Kann das ein Wert von {} sein?",
    "es": "¿Puede ser esto un valor de {}?",
    "ar": "هل يمكن أن تكون هذه قيمة {}؟",
}
"""Question for a loaded value, in the languages of the task page."""
SENSITIVE_UTILITY: Final = "2.0"
CROP_ANSWERS: Final = 2
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BOX: Final = re.compile(
    r"^(?:box|roi)[_.\- ](.+)$|^(.+)[_.\- ](?:box|roi)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Apart:
    """Columns that no stranger should see together.

    Attributes
    ----------
    columns : tuple of str
    reason : str
        The evidence, in words.
    by : str
        The column that identifies alone; empty for a combination.
    direct : bool
        Whether that column is a direct identifier by its kind.
    """

    columns: tuple[str, ...]
    reason: str
    by: str = ""
    direct: bool = False


def kept_apart(profile: Profile) -> list[Apart]:
    """Return what must not come together, none of it inside another.

    - a column that says alone who somebody is (a direct identifier, one whose values
      single people out whatever it is about, a text with names in it) and any other
      column whose values differ;
    - each of the smallest combinations that singles people out: itself if two or more of
      its columns are quasi-identifiers, else with each sensitive column outside of it;
    - a given name with a surname.

    Counts of organisations are not kept from one another.
    """
    found: dict[frozenset[str], Apart] = {}
    for apart in chain(_identified(profile), _combined(profile)):
        if any(profile.by_name[name].meaning is not COUNT for name in apart.columns):
            found.setdefault(frozenset(apart.columns), apart)
    return [found[frozenset(columns)] for columns in smallest(found)]


def _compared(profile: Profile) -> list[ColumnProfile]:
    """Return the fields whose values were compared: all but pictures."""
    return [c for c in profile.fields if not (c.is_image or c.is_box)]


def _identified(profile: Profile) -> Iterator[Apart]:
    """Pair each column that identifies alone with all others, direct identifiers first."""
    columns = _compared(profile)
    named = {found.column for found in profile.names}
    alone = [c for c in columns if identifies_alone(profile, c.name) or c.name in named]
    for column in sorted(alone, key=lambda c: not c.meaning.direct):
        reason, direct = _reason(profile, column), column.meaning.direct
        for other in columns:
            harmless = other.constant and not other.meaning.sensitive
            if other.name != column.name and not harmless:
                names = (column.name, other.name)
                yield Apart(names, reason, column.name, direct)


def _combined(profile: Profile) -> Iterator[Apart]:
    """Return what says together who somebody is."""
    columns = _compared(profile)
    for combination in profile.identifying:
        if len(combination.columns) > 1:
            share = f"single out {percent(combination.share)} of the people"
            for beside in _beside(profile, combination.columns):
                reason = share
                if beside:
                    reason = f"{combination} {share}; {beside[0]} is sensitive"
                yield Apart((*combination.columns, *beside), reason)
    for given in columns:
        for surname in columns:
            if (given.meaning, surname.meaning) == (GIVEN_NAME, SURNAME):
                yield Apart((given.name, surname.name), "together a full name")


def _beside(profile: Profile, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what a combination that singles people out is kept from, or () for itself.

    A date with a sensitive column is kept apart itself: neighbours know the date. So is a
    combination with a sensitive column that another one tells: keeping it from that one
    would keep a thing from itself.
    """
    members = [profile.by_name[name] for name in names]
    quasi = [one for one in members if one.meaning.quasi]
    others = [
        column.name
        for column in profile.fields
        if column.meaning.sensitive and column.name not in names and not column.constant
    ]
    told = {frozenset((*found.columns, found.told)) for found in profile.dependencies}
    secret = [one.name for one in members if one.meaning.sensitive]
    repeated = any(
        frozenset((a, b)) in told and not identifies_alone(profile, b)
        for a in secret
        for b in others
    )
    if len(quasi) > 1 or (quasi and secret and (repeated or quasi[0].is_moment)):
        return [()]
    return [(name,) for name in others]


def _alone(single: Combination) -> str:
    return f"singles out {percent(single.share)} of the people"


def _reason(profile: Profile, column: ColumnProfile) -> str:
    """Say why a column identifies alone."""
    reasons = []
    if column.meaning.direct:
        how = "its values" if column.by_values else "its name"
        reasons.append(f"direct identifier, by {how}: {column.meaning.label}")
    single = profile.singles.get(column.name)
    if single is not None and single.singled_out:
        reasons.append(_alone(single))
        known = column.meaning.quasi and column.meaning is not ATTRIBUTE
        if not known and not column.meaning.direct:
            reasons.append("strike out what nobody outside can know so exactly")
    reasons += [
        f"{percent(found.share)} of its texts have {found.what}"
        for found in profile.names
        if found.column == column.name
    ]
    return "; ".join(reasons)


@dataclass(frozen=True)
class Draft:
    """A drafted policy file.

    Attributes
    ----------
    text : str
        TOML text.
    kept_apart : int
        How many combinations its rules keep apart.
    withheld : tuple of str
        Fields with ``send = false``; pages are not among them.
    pages : tuple of str
        Columns of whole pages, shown to nobody before boxes are drawn.
    """

    text: str
    kept_apart: int
    withheld: tuple[str, ...]
    pages: tuple[str, ...] = ()


def draft(
    profile: Profile,
    entity: str,
    key: str,
    readings: dict[str, tuple[str, tuple[tuple[str, str], ...]]] | None = None,
    source: str = "a file",
    *,
    feed: bool = False,
    ask: Collection[str] = (),
) -> Draft:
    """Draft a policy that passes every check; somebody should read it.

    Without `ask`, what says alone who somebody is (direct identifiers, addresses, texts
    with names) has ``send = false``. Rules without a sensitive column are drafted only
    where all of their fields are sent.

    Parameters
    ----------
    profile : Profile
        What the records tell; at least one column can become a field.
    entity : str
        Name of the kind of record.
    key : str
        The column of the record's id.
    readings : dict, optional
        By column: how workers would write its values (``date``, ``number``), and its
        notation.
    source : str
        Name of the file, for the comment at the top.
    feed : bool
        Whether fields are sent to receivers, and nobody is asked.
    ask : collection of str
        The only fields that are sent. Empty: all that do not say alone who somebody is;
        for a feed, what one receiver may get together.

    Raises
    ------
    ValueError
        A name is empty, no column can become a field, or `ask` names no field.
    """
    if not entity or not key:
        raise ValueError("a name is empty, expected a text")
    apart = kept_apart(profile)
    if feed:
        fields = list(_sent(profile, apart, frozenset(ask)))
    else:
        fields = list(_fields(profile, readings or {}, frozenset(ask)))
    if not fields:
        raise ValueError("no column is left to become a field, expected at least one")
    names = {field.name for field in fields}
    if unknown := [name for name in ask if name not in names]:
        raise ValueError(f"{unknown[0]!r} is asked, expected one of {sorted(names)}")
    unsent = {field.name for field in fields if not field.is_sent}
    apart = [
        one
        for one in apart
        if names.issuperset(one.columns)
        and (
            (feed and not ask)
            or unsent.isdisjoint(one.columns)
            or _is_about_secrets(profile, one)
        )
    ]
    rules = _rules(apart, profile, unsent)
    name = quoted_key(entity)
    person = profile.person
    lines = [
        *_head(profile, source, rules, fields, feed=feed, asked=bool(ask)),
        "version = 1",
        f"name    = {quoted(entity)}",
        "",
        "[budget]",
        'tau = 1.0                 # strict f < tau: 1.0 = "never the whole set"',
        "",
        f"[entity.{name}]",
        f"key     = {quoted(key)}",
        *([f"subject = {quoted(person)}   # whose a record is"] if person else []),
        "",
        f"[entity.{name}.fields]",
        *(field.line for field in fields),
    ]
    lines += [line for rule in rules for line in rule.lines(person)]
    shown = [field.name for field in fields if field.is_sent]
    if not feed or ask:
        lines += _tests(rules, fields, person)
    elif len(shown) > 1:
        *seen, last = (f"r1.{name}" for name in shown)
        lines += _test("one receiver may get all that is sent", seen, last, "allow")
    withheld = tuple(one.name for one in fields if not (one.is_sent or one.is_page))
    pages = tuple(one.name for one in fields if one.is_page)
    return Draft("\n".join(lines) + "\n", len(apart), withheld, pages)


def _is_about_secrets(profile: Profile, apart: Apart) -> bool:
    """Whether a sensitive column is among what is kept apart."""
    return any(profile.by_name[name].meaning.sensitive for name in apart.columns)


@dataclass(frozen=True)
class _DraftField:
    name: str
    line: str
    is_sent: bool = True
    is_page: bool = False


def _head(
    profile: Profile,
    source: str,
    rules: Sequence[_Rule],
    fields: Sequence[_DraftField],
    *,
    feed: bool,
    asked: bool,
) -> list[str]:
    table = profile.table
    rows = f"{table.rows:,} rows"
    if table.is_sample:
        rows = f"{table.rows:,} of {table.total:,} rows, drawn evenly"
    by = " + ".join(profile.identity)
    whose = f"by {by}" if by else "each row is one"
    lines = [
        f"Drafted from {source}: {rows}, {profile.people:,} people ({whose}).",
        "Each rule says why it is here. Read it all, change what you know better, then:",
        "dispatcher policy check, test and apply.",
    ]
    withheld = [one.name for one in fields if not (one.is_sent or one.is_page)]
    if withheld and not feed:
        why = "they are not asked for" if asked else "they say alone who somebody is"
        lines.append(f"Shown to nobody (send = false), as {why}:")
        lines.append(f"{'; '.join(withheld)}.")
        lines.append(
            "To send one, draft again with --ask: the rules that it needs come too."
        )
        if len(withheld) == len(fields):
            lines.append("Nothing is left to ask: draft again with --ask COLUMN.")
    if feed:
        lines += _feed_lines(asked=asked)
    elif language_of(c.name for c in profile.columns) not in QUESTIONS:
        lines.append("The questions are in English: write them as your workers read.")
    if profile.unsearched:
        lines.append(
            f"{profile.unsearched:,} columns were not searched for triples: too many."
        )
    lines += [f"Found: {found}." for found in profile.dependencies[:MOST_TESTS]]
    if not rules and any(field.is_page for field in fields):
        lines.append(
            "No rule is suggested: what scans say is not read. A field in no rule may be"
        )
        lines.append("seen with every other: write rules for what must stay apart.")
    elif not rules:
        lines.append(
            "No rule is suggested: nothing in it looks as if it were about people. Every"
        )
        lines.append("worker may see every field; if that is not meant, write rules.")
    return [f"# {escaped(line)}" for line in lines] + [""]


def _feed_lines(*, asked: bool) -> list[str]:
    """Say how a draft for a feed is meant."""
    lines = [
        "For a feed: nobody is asked, and each field of a record is sent by itself,",
        "under a token that joins it to no other.",
    ]
    if asked:
        return [
            *lines,
            "Where rules keep apart what is sent, there must be a receiver for each side:",
            "dispatcher plan --dry-run says how many.",
        ]
    return [
        *lines,
        "One receiver gets all fields without send = false; to choose others, draft again",
        "with --ask: their rules may need a second receiver.",
    ]


def _fields(
    profile: Profile,
    readings: dict[str, tuple[str, tuple[tuple[str, str], ...]]],
    asked: frozenset[str],
) -> Iterator[_DraftField]:
    """Return the fields: values are checked, crops are read."""
    images = [c.name for c in profile.fields if c.is_image]
    boxes = [c.name for c in profile.fields if c.is_box]
    loaded = {c.name for c in profile.fields} - {*images, *boxes}
    taken = set(loaded)
    for column in profile.fields:
        if column.is_box:
            crop = _crop(column.name)
            if images and crop not in taken:
                taken.add(crop)
                kind, notation = readings.get(crop, ("text", ()))
                is_sent = not asked or crop in asked
                yield _field(
                    crop,
                    [
                        ("ask", _ask(kind)),
                        *notation,
                        ("image", f"{images[0]}#{column.name}"),
                    ],
                    f"answers = {CROP_ANSWERS}",
                    *([] if is_sent else ["send = false"]),
                    comment=f"the part of {images[0]} in the box of {column.name}",
                    is_sent=is_sent,
                )
        elif column.is_image:
            if not boxes:
                yield _field(
                    column.name,
                    [("ask", "transcribe"), ("image", column.name)],
                    "send = false",
                    comment="a whole page shows all at once: draw boxes, a field for "
                    "each, before it is sent",
                    is_sent=False,
                    is_page=True,
                )
        else:
            yield _value_field(profile, column, asked)


def field_names(profile: Profile) -> list[str]:
    """Return the names of the fields of a draft."""
    return [field.name for field in _fields(profile, {}, frozenset())]


def _says_who(profile: Profile, column: ColumnProfile) -> bool:
    """Whether a column says alone who somebody is, by what it is about."""
    named = any(found.column == column.name for found in profile.names)
    return column.meaning.direct or column.meaning is ADDRESS or named


def _sent(
    profile: Profile, apart: Sequence[Apart], asked: frozenset[str]
) -> Iterator[_DraftField]:
    """Return the fields of a feed: `asked`, or as many as no rule keeps apart."""
    columns = _compared(profile)
    conflicts: Counter[str] = Counter()  # pairs count most
    for one in apart:
        conflicts.update(dict.fromkeys(one.columns, 100 ** (4 - len(one.columns))))
    sent: set[str] = set()
    why: dict[str, str] = {}
    for column in sorted(columns, key=lambda c: conflicts[c.name]):
        whole = sent | {column.name}
        bars = [one for one in apart if whole.issuperset(one.columns)]
        if asked:
            if column.name in asked:
                sent.add(column.name)
            else:
                why[column.name] = "not sent: not asked for"
        elif column.meaning is not ADDRESS and _says_who(profile, column):
            why[column.name] = f"not sent: {column.meaning.label}"
        elif bars:
            others = [name for name in bars[0].columns if name != column.name]
            why[column.name] = f"not sent: with {' + '.join(others)}, {bars[0].reason}"
        else:
            sent.add(column.name)
    for column in columns:
        extras = [] if column.name in sent else ["send = false"]
        yield _field(
            column.name,
            [],
            *extras,
            comment=why.get(column.name, f"{column.meaning.label}{_hint(column)}"),
            is_sent=column.name in sent,
        )


def _hint(column: ColumnProfile) -> str:
    """Return what no rule can say of a column."""
    is_consent = column.meaning is CONSENT
    return "; load only rows of people who agreed" if is_consent else ""


def _value_field(
    profile: Profile, column: ColumnProfile, asked: frozenset[str]
) -> _DraftField:
    """Return a field whose value is loaded: it is checked, and not typed again."""
    meaning = column.meaning
    inside = [found for found in profile.names if found.column == column.name]
    withheld = column.name not in asked if asked else _says_who(profile, column)
    extras = ["send = false"] if withheld else []
    if meaning.sensitive:
        extras.append(f"utility = {SENSITIVE_UTILITY}")
    roles = [
        word
        for word, applies in (
            ("direct identifier", meaning.direct),
            ("quasi-identifier", meaning.quasi),
            ("sensitive", meaning.sensitive),
        )
        if applies
    ]
    comment = ", ".join(roles) + (f": {meaning.label}" if roles else "")
    comment += _hint(column)
    single = profile.singles.get(column.name)
    if single is not None and single.singled_out:
        alone = _alone(single)
        comment = f"{comment}; {alone}" if comment else alone
    comment += "".join(
        f"; {percent(n.share)} of the texts have {n.what}" for n in inside
    )
    language = language_of(c.name for c in profile.columns)
    question = QUESTIONS.get(language, QUESTIONS["en"]).format(column.name)
    words = [("ask", "yes_no"), ("question", question)]
    return _field(column.name, words, *extras, comment=comment, is_sent=not withheld)


def _field(
    name: str,
    words: Sequence[tuple[str, str]],
    *extras: str,
    comment: str = "",
    is_sent: bool = True,
    is_page: bool = False,
) -> _DraftField:
    inner = ", ".join([*(f"{key} = {quoted(word)}" for key, word in words), *extras])
    after = f"  # {escaped(comment)}" if comment else ""
    table = f"{{ {inner} }}" if inner else "{}"
    return _DraftField(name, f"{quoted_key(name)} = {table}{after}", is_sent, is_page)


def _crop(box: str) -> str:
    """Name what a box shows: ``total_box`` gives total, ``roi`` gives roi-text."""
    found = _BOX.match(box)
    return next(filter(None, found.groups())) if found else f"{box}-text"


def _ask(kind: str) -> str:
    return kind if kind in ("date", "number", "yes_no") else "transcribe"


@dataclass(frozen=True)
class _Rule:
    name: str
    apart: tuple[Apart, ...]
    reason: str
    any_two: tuple[str, ...] = ()

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """What must not come together."""
        pairs = combinations(self.any_two[:2], 2)
        return [one.columns for one in self.apart] or list(pairs)

    def lines(self, person: str | None) -> list[str]:
        scope = ['scope = "subject"'] if person else []
        head = ["", f"# {escaped(self.reason)}", f"[property.{quoted_key(self.name)}]"]
        if self.any_two:
            of = f"of = {_listed(self.any_two)}"
            return [*head, *scope, of, 'disclosure = { kind = "step", at = 2 }']
        if len(self.apart) == 1:
            return [*head, *scope, f"of = {_listed(self.apart[0].columns)}"]
        lines = []
        for one in self.apart:
            why = f"  # {escaped(one.reason)}" if not one.by else ""
            lines.append(f"  {_listed(one.columns)},{why}")
        return [*head, *scope, "any_of = [", *lines, "]"]


def _rules(
    apart: Sequence[Apart], profile: Profile, unsent: Collection[str]
) -> list[_Rule]:
    """Group what is kept apart: a rule a column that identifies alone, one for the rest."""
    if len(apart) > MOST_ALTERNATIVES:
        names = {name for one in apart for name in one.columns}
        listed = tuple(c.name for c in profile.columns if c.name in names)
        reason = (
            f"{len(apart):,} pairs and triples of {len(listed)} columns single people "
            "out or say who they are: no two of them come together"
        )
        return [_Rule("any-two", (), reason, listed)]
    rules = []
    columns = dict.fromkeys(one.by for one in apart if one.by)
    for column in sorted(columns, key=lambda name: name in unsent):
        mine = tuple(one for one in apart if one.by == column)
        reason = mine[0].reason
        if column in unsent:
            reason += f" (refuses nothing while {column} is never sent: send = false)"
        rules.append(_Rule(f"{column}-apart", mine, reason))
    rest = tuple(one for one in apart if not one.by)
    if len(rest) == 1:
        reason = f"{rest[0].reason}: {' + '.join(rest[0].columns)}"
        rules.append(_Rule("quasi-identifiers", rest, reason))
    elif rest:
        reason = "each of these combinations singles people out, with its share"
        rules.append(_Rule("quasi-identifiers", rest, reason))
    return rules


def _tests(
    rules: Sequence[_Rule], fields: Sequence[_DraftField], person: str | None
) -> list[str]:
    """Write tests: the first sets of each rule are refused, another person's are not."""
    sent = [field.name for field in fields if field.is_sent]
    lines: list[str] = []
    for rule in rules[:MOST_TESTS]:
        *seen, asked = min(rule.sets, key=lambda one: not set(sent).issuperset(one))
        across = person is not None
        other = "r2" if across else "r1"
        lines += _test(
            f"{' + '.join([*seen, asked])} never come together",
            [f"r1.{name}" for name in seen],
            f"{other}.{asked}",
            "deny",
            rule.name,
            ["r1", "r2"] if across else None,
        )
    if lines and len(sent) > 1:
        *_, first, second = sent  # columns that say who somebody is stand before them
        name = f"{second} of another person may be seen after {first}"
        lines += _test(name, [f"r1.{first}"], f"r2.{second}", "allow")
    return lines


def _test(
    name: str,
    seen: Sequence[str],
    ask: str,
    expect: str,
    by: str | None = None,
    together: Sequence[str] | None = None,
) -> list[str]:
    lines = [
        "",
        "[[test]]",
        f"name   = {quoted(name)}",
        'worker = "inhouse/somebody"',
        f"seen   = {_listed(seen)}",
        f"ask    = {quoted(ask)}",
        *([f"same_subject = {_listed(together)}"] if together else []),
        f'expect = "{expect}"',
    ]
    return [*lines, f"by     = {quoted(by)}"] if by else lines


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def quoted_key(name: str) -> str:
    """Return a name as a TOML key, bare if possible."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Return a TOML basic string."""
    inner = "".join(
        f"\\{c}"
        if c in '"\\'
        else f"\\u{ord(c):04x}"
        if ord(c) < 0x20 or ord(c) == 0x7F
        else c
        for c in text
    )
    return f'"{inner}"'
