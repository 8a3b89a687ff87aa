"""Read ``[property.NAME]``: the rules and their disclosure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from policies.document.diagnostic import shown
from policies.document.reading import (
    Reader,
    known_names,
    report_conflict,
    report_missing_column,
    report_no_effect,
    report_unknown_field,
    suggestion,
)
from policies.document.sections import read_tau
from policies.policy import (
    Budget,
    Disclosure,
    Entity,
    Property,
    Relation,
    Scope,
)
from policies.rules.kinds import (
    KINDS,
    MOST_FIELDS,
    PLUGIN,
    PlaceSimilarity,
    family,
    is_tabulated,
)

PROPERTY_KEYS: Final = (
    "of",
    "any_of",
    "scope",
    "relation",
    "note",
    "disclosure",
    "tau",
    "average",
    "window",
)
RESERVED_NAMES: Final = (
    "budget.t",
    "budget.average",
    "budget.utility",
    "fields.send",
)
WORDS: Final = tuple(kind for kind in KINDS if kind != PLUGIN)
PARAMETERS: Final[Mapping[str, Callable[[Reader, str], Any]]] = {
    "at": Reader.integer,
    "vector": Reader.text,
    "count": Reader.text,
    "table": Reader.text,
    "prior": Reader.text,
}
"""Keys of ``disclosure`` and how each is read, into the attribute of the same name.

Reader and schema go by them; differences show every attribute. The keys of :data:`SUMS`
depend on each other and are read together.
"""
SUMS: Final = ("weights", "per", "weight")


@dataclass(frozen=True)
class Context:
    """The rest of the file, which is read before the rules."""

    root: Reader
    entity: Entity
    budget: Budget
    relations: Mapping[str, Relation]


def read_properties(context: Context) -> dict[str, tuple[Property, Reader]]:
    """Read every ``[property.NAME]``, with its reader for the checks that follow."""
    named = context.root.named("property", "a property table")
    return {name: (_read_rule(context, name, reader), reader) for name, reader in named}


def _read_rule(context: Context, name: str, reader: Reader) -> Property:
    reader.knows(PROPERTY_KEYS)
    if name in RESERVED_NAMES:
        reader.findings.error(
            "POL003",
            reader.table_span(),
            f"a rule cannot be called `{name}`",
            "verdicts use that name for a limit of their own",
            "choose another name",
        )
    scope = Scope(reader.word("scope", tuple(Scope), _rule_name(name)) or Scope.RECORD)
    alternatives = _alternatives(reader, name, context.entity)
    fields = alternatives[0] if "of" in reader and alternatives else ()
    disclosure = _DisclosureReader(reader, name, context.entity, fields).read()
    objective, budget = context.budget.objective, context.budget
    prop = Property(
        name=name,
        alternatives=alternatives,
        uses_any_of="any_of" in reader and "of" not in reader,
        scope=scope,
        relation=reader.text("relation"),
        disclosure=disclosure,
        tau=read_tau(reader, objective) if "tau" in reader else budget.tau,
        average=reader.share("average"),
        window=reader.duration("window"),
        note=reader.text("note", empty=True) or "",
        line=reader.table_span().line,
    )
    _check_scope(context, prop, reader)
    return prop


def _rule_name(name: str) -> str:
    return f"property `{shown(name)}`"


def _alternatives(
    reader: Reader, name: str, entity: Entity
) -> tuple[tuple[str, ...], ...]:
    """Read the fields of ``of``, or the alternatives of ``any_of``."""
    if "of" in reader and "any_of" in reader:
        report_conflict(reader, "any_of", "of", "a rule has one or the other")
    elif "of" not in reader and "any_of" not in reader:
        reader.missing("of", 'add of = ["<field>", "<field>"]')
    if "of" in reader:
        fields = reader.texts("of")
        _known(reader, name, entity, ("of",))
        return (fields,) if fields else ()
    if "any_of" not in reader:
        return ()
    value = reader.values["any_of"]
    if not isinstance(value, list) or not value:
        reader.wrong("any_of", "a list of lists of fields that is not empty")
        return ()
    found: list[tuple[str, ...]] = []
    for number, item in enumerate(value):
        fields = reader.text_items(item, ("any_of", number), 1, distinct=True)
        _known(reader, name, entity, ("any_of", number))
        if fields and set(fields) in map(set, found):
            reader.wrong("any_of", "each alternative only once", number)
        elif fields:
            found.append(fields)
    return tuple(found)


def _known(
    reader: Reader, name: str, entity: Entity, at: tuple[str | int, ...]
) -> None:
    """Report fields that the entity lacks."""
    value = reader.values[str(at[0])]
    for part in at[1:]:
        value = value[part]
    for number, field in enumerate(value if isinstance(value, list) else []):
        if isinstance(field, str) and field and field not in entity.fields:
            span = reader.value_span(str(at[0]), *at[1:], number)
            report_unknown_field(reader, span, _rule_name(name), field, entity.fields)


class _DisclosureReader:
    """Reads one ``disclosure``: a word, or a table with a ``kind``."""

    def __init__(
        self, rule: Reader, name: str, entity: Entity, fields: tuple[str, ...]
    ) -> None:
        self._rule = rule
        self._name = name
        self._entity = entity
        self._fields = fields

    def read(self) -> Disclosure:
        value = self._rule.values.get("disclosure", "step")
        if isinstance(value, str):
            kind, plugin = self._kind(value, ("disclosure",))
            return Disclosure(kind=kind, plugin=plugin)
        if not isinstance(value, dict):
            self._rule.wrong(
                "disclosure", "a kind of disclosure, or a table with `kind`"
            )
            return Disclosure()
        table = self._rule.inner("disclosure", "a disclosure table")
        word = table.needed_text("kind", 'add kind = "step", or another')
        if word is None:
            return Disclosure()
        kind, plugin = self._kind(word, ("disclosure", "kind"))
        table.what = f"a disclosure of kind {kind}"
        table.knows(("kind", *KINDS[kind].keys))
        return self._parameters(table, kind, plugin)

    def _kind(self, word: str, at: tuple[str, ...]) -> tuple[str, str | None]:
        if word.startswith("plugin:") and len(word) > len("plugin:"):
            return PLUGIN, word.removeprefix("plugin:")
        if word in WORDS:
            return word, None
        self._rule.findings.error(
            "POL004",
            self._rule.value_span(*at),
            f"{_rule_name(self._name)} has no known `disclosure`",
            f"it is one of {', '.join(sorted(WORDS))}, plugin:<name>",
            suggestion(word, WORDS, '"') or "write one of them",
        )
        return Disclosure().kind, None

    def _parameters(self, table: Reader, kind: str, plugin: str | None) -> Disclosure:
        known = KINDS[kind].keys
        weights, per_entry = self._sums(table) if "weights" in known else (None, None)
        single = {key: PARAMETERS[key](table, key) for key in known if key not in SUMS}
        return Disclosure(
            kind, weights=weights, per_entry=per_entry, plugin=plugin, **single
        )

    def _sums(
        self, table: Reader
    ) -> tuple[Mapping[str, Fraction] | None, Fraction | None]:
        """Read weights by field, or one weight for each entry."""
        per = table.word("per", ("entry",), _rule_name(self._name))
        if "per" in table and "weights" in table:
            report_conflict(table, "weights", "per", "weights go by field or by entry")
        weight = table.share("weight")
        if "per" in table and "weight" not in table:
            table.missing("weight", "add weight = 0.1, what one entry discloses")
        elif "weight" in table and "per" not in table:
            report_no_effect(
                table,
                "weight",
                '`weight` is what one entry discloses, used only with per = "entry"',
                'add per = "entry", or write weights by field',
            )
        if "weights" not in table:
            return None, weight if per else None
        return self._by_field(table), None

    def _by_field(self, table: Reader) -> Mapping[str, Fraction] | None:
        weights = table.inner("weights", "a table of weights by field")
        found = {f: weights.share(f) for f in weights.values}
        for name in weights.values:
            if name not in self._entity.fields:
                span, whose = weights.key_span(name), _rule_name(self._name)
                report_unknown_field(weights, span, whose, name, self._entity.fields)
        if set(found) != set(self._fields) and self._sound(found):
            table.wrong("weights", "a weight for exactly the fields of `of`")
        given = {f: w for f, w in found.items() if w is not None}
        return given if len(given) == len(found) and given else None

    def _sound(self, found: Mapping[str, object]) -> bool:
        """Whether the names in ``of`` and in the weights are all known."""
        names = {*found, *self._fields}
        return bool(self._fields) and names <= set(self._entity.fields)


def _check_scope(context: Context, prop: Property, reader: Reader) -> None:
    """Check that scope, relation, window and disclosure fit each other."""
    if prop.scope is Scope.SUBJECT and context.entity.subject is None:
        _needs_subject(
            context, reader, "a subject rule groups the records of one person"
        )
    row = family(prop)
    if isinstance(row, PlaceSimilarity) and prop.scope is not Scope.RELATION:
        _needs_relation(prop, reader)
    elif prop.scope is Scope.RELATION:
        _check_relation(context, prop, reader)
    elif "relation" in reader:
        report_no_effect(
            reader,
            "relation",
            f'{_rule_name(prop.name)} has scope = "{prop.scope}"',
            'delete the line, or set scope = "relation"',
        )
    if "window" in reader:
        _check_window(context, prop, reader)
    if prop.scope in row.scopes:
        _check_needed(prop, reader)
    if is_tabulated(prop):
        _check_number_of_fields(prop, reader)


def _check_number_of_fields(prop: Property, reader: Reader) -> None:
    """Report more fields than f can be tabulated for (POL003)."""
    linked = prop.scope is Scope.RELATION
    most = MOST_FIELDS // 2 if linked else MOST_FIELDS
    if "of" in reader and len(prop.fields) > most:
        reader.findings.error(
            "POL003",
            reader.value_span("of"),
            f"{prop.disclosure.kind} disclosure takes no {len(prop.fields)} fields",
            "f is tabulated for every set of the fields"
            + linked * " of both ends of a link",
            f"name at most {most} fields, or write several rules",
        )


def _needs_subject(context: Context, reader: Reader, why: str) -> None:
    place = (*map(str, reader.path), "scope")
    report_missing_column(context.root, place, context.entity, why)


def _needs_relation(prop: Property, reader: Reader) -> None:
    kind = prop.disclosure.kind
    reader.findings.error(
        "POL206",
        reader.value_span("disclosure", *_kind_key(reader)),
        f"{kind} disclosure needs a relation",
        f"{kind} compares the published vectors of two people, so the rule must say "
        "which pairs",
        'add scope = "relation" and relation = "<name>"',
    )


def _kind_key(reader: Reader) -> tuple[str, ...]:
    return ("kind",) if isinstance(reader.values.get("disclosure"), dict) else ()


def _check_relation(context: Context, prop: Property, reader: Reader) -> None:
    """Check a relation rule: its relation, the subjects, and the kind of disclosure."""
    if "relation" not in reader:
        reader.missing("relation", 'add relation = "<name>", a [relation.<name>]')
    elif prop.relation is not None and not _declared(context, prop.relation):
        known = context.root.values.get("relation", {})
        reader.findings.error(
            "POL103",
            reader.value_span("relation"),
            f"unknown relation `{shown(prop.relation)}`",
            known_names(known if isinstance(known, dict) else ()),
            suggestion(prop.relation, context.relations, "`")
            or f"add [relation.{shown(prop.relation)}]",
        )
    if context.entity.subject is None:
        _needs_subject(context, reader, "a relation rule pairs people")
    kind = prop.disclosure.kind
    if prop.scope not in family(prop).scopes:
        span = reader.value_span("disclosure", *_kind_key(reader))
        reader.findings.error(
            "POL210",
            span if "disclosure" in reader else reader.value_span("scope"),
            f"{kind} disclosure does not fit a relation",
            "a relation rule compares what is held of two people: by common or cosine, "
            "or by a table or a function of both ends",
            'write disclosure = { kind = "common", vector = "<column>" }',
        )


def _check_needed(prop: Property, reader: Reader) -> None:
    """Report parameters that the kind of disclosure cannot do without (POL005)."""
    kind = prop.disclosure.kind
    for key, needed in family(prop).needed.items():
        if not _given(reader, key):
            reader.findings.error(
                "POL005",
                reader.value_span("disclosure", *_kind_key(reader)),
                f"{kind} disclosure lacks `{key}`",
                f"`{key}` is {needed.what}",
                f'write disclosure = {{ kind = "{kind}", {key} = {needed.example} }}',
            )


def _declared(context: Context, name: str) -> bool:
    """Whether the file has the relation, even one with errors of its own."""
    tables = context.root.values.get("relation", {})
    return isinstance(tables, dict) and name in tables


def _given(reader: Reader, key: str) -> bool:
    value = reader.values.get("disclosure")
    return isinstance(value, dict) and key in value


def _check_window(context: Context, prop: Property, reader: Reader) -> None:
    if prop.scope is not Scope.SUBJECT:
        reader.findings.error(
            "POL208",
            reader.key_span("window"),
            f"a window needs a subject rule; {_rule_name(prop.name)} is a {prop.scope} rule",
            "a window slides over the entries of one person",
            'set scope = "subject", or delete the window',
        )
    elif context.entity.time is None:
        report_missing_column(
            context.root,
            (*map(str, reader.path), "window"),
            context.entity,
            "a window slides over the moments of the records",
            "time",
        )
