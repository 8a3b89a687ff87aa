"""Checks that involve several parts of a policy file: POL2xx errors, POL3xx warnings."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from policies.document.diagnostic import Span, decimal, listed, shown
from policies.document.reading import Findings, Reader
from policies.model.objective import Objective
from policies.policy import Field, Policy, Property, Scope
from policies.rules.crops import box_of, is_painted_over, is_whole, overlaps
from policies.rules.kinds import PowerOfSum, disclosed_alone, family, needs_whole_set

RuleReaders = Mapping[str, tuple[Property, Reader]]
POPULATION: Final = "2,935"
_PLACE: Final = {"vector": "place", "count": "visits"}


def check_budget(policy: Policy, root: Reader) -> None:
    """Check answers against t (POL204, POL310), and a user's utility (POL205)."""
    if policy.budget.utility is not None:
        _check_user_utility(policy, root)
    t = policy.budget.t
    if t is None:
        return
    path = ("entity", policy.entity.name, "fields")
    tight = []
    for field in policy.entity.fields.values():
        if field.answers > t:
            root.findings.error(
                "POL204",
                root.value_span(*path, field.name, "answers"),
                f"`{shown(field.name)}` wants {field.answers} answers but t = {t}",
                "every answer comes from another worker, and a field may be shown to at "
                "most t workers",
                f"raise budget.t to {field.answers}, or lower answers",
            )
        elif field.answers == t and field.send and field.ask is not None:
            tight.append(field.name)
    if tight:
        root.findings.warning(
            "POL310",
            root.value_span("budget", "t"),
            f"t = {t} leaves no spare showing of {listed(tight, 8)}",
            "t is the number of answers wanted: one returned task leaves the field "
            "unanswerable",
            f"raise t to {t + 2}, or delete it: then it is each field's answers + 2",
        )


def _check_user_utility(policy: Policy, root: Reader) -> None:
    """Report field utilities beside budget.utility, which values the fields itself."""
    path = ("entity", policy.entity.name, "fields")
    spots: list[tuple[str, *tuple[str | int, ...]]] = [
        (*path, field.name, "utility")
        for field in policy.entity.fields.values()
        if field.utility != 1
    ]
    for number, row in enumerate(policy.utilities):
        extra = {"field": row.fields, "where": row.where}
        spots += [("utility", number, key) for key, value in extra.items() if value]
    for spot in spots:
        root.findings.error(
            "POL205",
            root.value_span(spot[0], *spot[1:]),
            f"`{spot[-1]}` has no effect here",
            "budget.utility says what the fields of a record are worth; rows of "
            "[[utility]] only weigh workers",
            "delete it, or delete budget.utility",
        )


def check_rules(policy: Policy, rules: RuleReaders, root: Reader) -> None:
    """Check every rule: POL201 to POL203, POL207, POL211 to POL213."""
    for prop, reader in rules.values():
        if not prop.alternatives:
            continue
        _check_kind(prop, reader)
        _check_weights(prop, reader)
        _check_free(policy, prop, reader)
        known = prop.fields <= set(policy.entity.fields)
        if prop.tau is not None and prop.tau <= 0:
            _check_zero(prop, reader, root)
        elif known and prop.tau is not None and prop.scope is not Scope.RELATION:
            _check_single(policy, prop, reader)
    _check_places(rules)


def _check_places(rules: RuleReaders) -> None:
    """Report relation rules that read places or visits from different columns."""
    places = [
        (prop, reader)
        for prop, reader in rules.values()
        if prop.scope is Scope.RELATION and prop.disclosure.vector is not None
    ]
    for prop, reader in places[1:]:
        shape, first = prop.disclosure, places[0][0].disclosure
        for key in ("vector", "count"):
            one, other = getattr(first, key), getattr(shape, key)
            if one == other:
                continue
            at = ("disclosure", key) if other is not None else ("disclosure", "vector")
            reader.findings.error(
                "POL213",
                reader.value_span(*at),
                f"`{shown(prop.name)}` takes the {_PLACE[key]} from another column than "
                f"`{shown(places[0][0].name)}`",
                "a record is at one place, so many times: that is stored and proven once "
                "for all relation rules",
                f'write {key} = "{shown(one)}"' if one else f"leave {key} out",
            )
            break


def _check_kind(prop: Property, reader: Reader) -> None:
    shape = prop.disclosure
    if prop.uses_any_of and not needs_whole_set(prop):
        reader.findings.error(
            "POL211",
            reader.key_span("any_of"),
            f"`any_of` needs step disclosure without `at`; `{shown(prop.name)}` has "
            + (f"at = {shape.at}" if shape.at is not None else str(shape.kind)),
            "alternatives are complete or not, they have no sum",
            "write `of`, or delete the disclosure",
        )
    summed = isinstance(family(prop), PowerOfSum) and shape.per_entry is None
    if summed and prop.scope is Scope.SUBJECT and not _names_weight(reader):
        reader.findings.error(
            "POL207",
            _disclosure_span(reader),
            f"{shape.kind} disclosure of `{shown(prop.name)}` over a subject needs "
            'per = "entry"',
            "a person may have any number of entries of a field, so weights by field "
            "would not add up to 1",
            f'write disclosure = {{ kind = "{shape.kind}", per = "entry", weight = 0.1 }}',
        )
    size = len(prop.fields)
    if shape.at is not None and prop.scope is Scope.RECORD and shape.at > size:
        inner = reader.inner("disclosure", "a disclosure table")
        if not prop.uses_any_of:
            inner.wrong(
                "at", f"an integer from 1 to {size}, the number of fields in `of`"
            )


def _names_weight(reader: Reader) -> bool:
    """Whether the file has ``per``, even one with a wrong weight."""
    value = reader.values.get("disclosure")
    return isinstance(value, dict) and "per" in value


def _disclosure_span(reader: Reader) -> Span:
    nested = isinstance(reader.values.get("disclosure"), dict)
    return reader.value_span("disclosure", *(("kind",) if nested else ()))


def _check_weights(prop: Property, reader: Reader) -> None:
    weights = prop.disclosure.weights
    if not weights or sum(weights.values()) == 1:
        return
    total = sum(weights.values(), Fraction(0))
    scaled = _scaled(weights, total)
    reader.findings.error(
        "POL202",
        reader.value_span("disclosure", "weights"),
        f"weights of `{shown(prop.name)}` add up to {decimal(total)}, not 1",
        "seeing the whole set must mean f = 1; otherwise tau has no fixed meaning",
        f"scale: {scaled}",
    )


def _scaled(weights: Mapping[str, Fraction], total: Fraction) -> str:
    """Return weights of at least three digits that add up to 1, in the same proportions."""
    digits = max(3, len(str(len(weights))) + 2)
    unit = Fraction(1, 10**digits)
    parts = {f: max(1, round(w / total / unit)) for f, w in weights.items()}
    largest = max(parts, key=lambda f: parts[f])
    parts[largest] += 10**digits - sum(parts.values())
    shares = (f"{shown(f)} = {decimal(n * unit)}" for f, n in parts.items())
    return ", ".join(shares)


def _check_free(policy: Policy, prop: Property, reader: Reader) -> None:
    """Report rules with fields declared free, and alternatives inside others."""
    fields = policy.entity.fields
    free = [f for f in sorted(prop.fields) if f in fields and fields[f].free]
    for name in free:
        reader.findings.error(
            "POL212",
            _field_span(prop, reader, name),
            f"`{shown(name)}` is declared free, but `{shown(prop.name)}` names it",
            "free = true says that a field is in no sensitive set",
            "delete free = true on the field, or leave it out of the rule",
        )
    if not prop.uses_any_of:
        return
    for number, wide in enumerate(prop.alternatives):
        inside = [a for a in prop.alternatives if set(a) < set(wide)]
        if inside:
            reader.findings.warning(
                "POL302",
                _alternative_span(reader, wide),
                f"alternative {number + 1} of `{shown(prop.name)}` adds nothing",
                f"it is complete only after {listed(inside[0])}, an alternative itself",
                "delete the longer alternative",
            )


def _field_span(prop: Property, reader: Reader, name: str) -> Span:
    """Return the place where a rule names a field."""
    if not prop.uses_any_of:
        return reader.value_span("of", reader.values["of"].index(name))
    for number, item in enumerate(reader.values["any_of"]):
        if isinstance(item, list) and name in item:
            return reader.value_span("any_of", number, item.index(name))
    return reader.key_span("any_of")


def _alternative_span(reader: Reader, fields: tuple[str, ...]) -> Span:
    """Return the place of an alternative; items with errors are no alternatives."""
    for number, item in enumerate(reader.values["any_of"]):
        if isinstance(item, list) and tuple(dict.fromkeys(map(str, item))) == fields:
            return reader.value_span("any_of", number)
    return reader.key_span("any_of")


def _check_zero(prop: Property, reader: Reader, root: Reader) -> None:
    own = "tau" in reader
    place = reader if own else root.inner("budget", "the budget table")
    written = place.findings.source.places.raw.get((*place.path, "tau"), "")
    assert prop.tau is not None
    root.findings.error(
        "POL201",
        place.value_span("tau"),
        f"tau = {shown(written or decimal(prop.tau))} can never be met by "
        f"`{shown(prop.name)}`",
        "the rule is strict, f < tau, and f is never below 0",
        'write tau = 1.0 to mean "never the whole set"',
    )


def _check_single(policy: Policy, prop: Property, reader: Reader) -> None:
    """Report fields of which one entry exceeds tau: nobody could be shown them."""
    trusted = any(prop.name in g.trusted for g in policy.groups.values())
    if trusted or prop.tau is None:
        return
    for field, alone in disclosed_alone(prop):
        if not policy.entity.fields[field].send or alone < prop.tau:
            continue
        if needs_whole_set(prop):
            _unassignable(
                prop,
                _single_span(prop, reader, field),
                f"`{shown(field)}` is sensitive on its own, and every field must be "
                "shown to at least one worker",
                "set send = false on the field, split it into smaller crops, or trust "
                "a group with it",
                reader.findings,
            )
        else:
            _unassignable(prop, *_overweight(prop, reader, alone), reader.findings)
            return  # once per rule: the header is marked


def _single_span(prop: Property, reader: Reader, field: str) -> Span:
    if not prop.uses_any_of:
        return reader.key_span("of")
    return _alternative_span(reader, (field,))


def _overweight(
    prop: Property, reader: Reader, alone: Fraction
) -> tuple[Span, str, str]:
    assert prop.tau is not None
    raise_ = f"raise tau above {decimal(alone)}, " if alone < 1 else ""
    lower = "lower the weight" if prop.disclosure.at is None else "raise `at`"
    return (
        reader.table_span(),
        f"one entry alone discloses {decimal(alone)}, which is not below tau = "
        f"{decimal(prop.tau)}, and every field must be shown to at least one worker",
        f"{raise_}{lower}, set send = false, or trust a group with it",
    )


def _unassignable(
    prop: Property, span: Span, why: str, fix: str, findings: Findings
) -> None:
    findings.error("POL203", span, f"no plan can meet `{shown(prop.name)}`", why, fix)


def check_crops(policy: Policy, root: Reader) -> None:
    """Report crops that show too much or nothing: POL214, POL215, POL312, POL313."""
    entity = policy.entity
    found: dict[tuple[str, int, str | None], list[str]] = {}
    for overlap in overlaps(entity):
        if not (overlap.one.send or overlap.other.send):
            continue  # neither crop is shown
        key = overlap.other.name, overlap.page, overlap.reason(policy)
        found.setdefault(key, []).append(overlap.one.name)
    for (name, page, reason), others in found.items():
        names = listed([f"`{other}`" for other in others], 8)
        span = _crop_span(root, policy, entity.fields[name])
        what = f"the crop of `{shown(name)}` overlaps that of {names} on page {page}"
        seen = "whoever is shown one of them sees part of the other"
        fix = "move the boxes until they at most touch, or take them from other pages"
        if reason is not None:
            root.findings.error("POL214", span, what, f"{seen}, and {reason}", fix)
        else:
            root.findings.warning(
                "POL312",
                span,
                what,
                f"{seen}; no rule names either, so that nothing is refused for it",
                f"{fix}; or name both in a rule, which makes it an error",
            )
    for field in entity.fields.values():
        box = box_of(entity, field)
        if is_painted_over(entity, field):
            root.findings.error(
                "POL215",
                _crop_span(root, policy, field),
                f"the crop of `{shown(field.name)}` is painted over",
                "a box with redact = true covers all of it: nothing is left to see",
                "show another box, or make the painted one smaller",
            )
        named = field.image_box is not None and not isinstance(box, str)
        if named and field.send and is_whole(box):
            root.findings.warning(
                "POL313",
                _crop_span(root, policy, field),
                f"the box of `{shown(field.name)}` is the whole page",
                "whoever is shown the field sees all that stands on the page, whether "
                "it is a field or not",
                "cut the box so that it holds the field alone; or leave the box out, "
                "if the whole page is the field",
            )


def _crop_span(root: Reader, policy: Policy, field: Field) -> Span:
    """Return the place of a field's box, or of what names the page or a record's box."""
    path = ("entity", policy.entity.name)
    if isinstance(box_of(policy.entity, field), str) or field.image_box is None:
        return root.value_span(*path, "fields", field.name, "image")
    return root.value_span(*path, "layout", field.image_box, "box")


def check_limits(policy: Policy, rules: RuleReaders, root: Reader) -> None:
    """Warn of rules without an effective limit: POL307, POL308."""
    if policy.budget.objective is not Objective.TRADEOFF:
        return
    if policy.budget.tau is None and policy.budget.average is not None:
        _only_average(
            root, root.value_span("budget", "average"), "give [budget] a tau too"
        )
    for prop, reader in rules.values():
        if prop.tau is not None:
            continue
        if prop.average is not None:
            span = reader.value_span("average")
            _only_average(root, span, "give the rule a tau too")
        elif policy.budget.average is None:
            root.findings.warning(
                "POL307",
                reader.table_span(),
                f"nothing limits `{shown(prop.name)}`",
                'tau is "none" and there is no average: its disclosure is only weighed '
                "against utility",
                "give the rule a tau, or [budget] a tau or an average",
            )


def _only_average(root: Reader, span: Span, fix: str) -> None:
    root.findings.warning(
        "POL308",
        span,
        "only the average is limited",
        f"one fully linked person among {POPULATION} makes the average 0.0003: the "
        "limit would not notice",
        fix,
    )


def check_unused(policy: Policy, root: Reader) -> None:
    """Warn of parts that nothing uses: POL301, POL304, POL306."""
    entity = policy.entity
    if not policy.properties:
        root.findings.warning(
            "POL301",
            Span(1, 1),
            "the policy has no rule",
            "without [property.NAME] every worker may be shown every field",
            "add a rule for each combination that must not come together",
        )
    used = {f.image_box for f in entity.fields.values()}
    pictures = any(f.image_column for f in entity.fields.values())
    for box, spec in entity.layout.items():
        if box not in used and not (spec.redact and pictures):
            _unused(root, "POL304", ("entity", entity.name, "layout", box), "box", box)
    named = {p.relation for p in policy.properties.values()}
    for relation in policy.relations:
        if relation not in named:
            _unused(root, "POL306", ("relation", relation), "relation", relation)


def _unused(
    root: Reader, code: str, path: tuple[str, ...], kind: str, name: str
) -> None:
    user = "field shows it" if kind == "box" else "rule reads it"
    root.findings.warning(
        code,
        root.findings.source.places.key(path),
        f"{kind} `{shown(name)}` is not used",
        f"no {user}",
        f"delete it, or use it; a mistyped name elsewhere may have meant `{shown(name)}`",
    )


def check_questions(policy: Policy, root: Reader) -> None:
    """Warn of fields whose default question says too little: POL314."""
    for field in policy.entity.fields.values():
        if field.ask in ("yes_no", "spans") and field.send and field.question is None:
            root.findings.warning(
                "POL314",
                root.key_span("entity", policy.entity.name, "fields", field.name),
                f"`{shown(field.name)}` has no question",
                f'workers would be asked "{shown(field.asked)}", and not know what counts',
                'add question = "…" that says which value or passage is wanted',
            )


def check_unruled(policy: Policy, root: Reader, *, strict: bool) -> None:
    """Warn of fields in no rule, POL311: of drawn ones, or ``strict``, of all."""
    ruled = {f for p in policy.properties.values() for f in p.fields}
    for field in policy.entity.fields.values():
        asked = field.send and not field.free and (strict or field.image_box)
        if asked and field.name not in ruled:
            root.findings.warning(
                "POL311",
                root.key_span("entity", policy.entity.name, "fields", field.name),
                f"`{shown(field.name)}` is in no rule",
                "any worker may be shown it together with anything",
                "name it in a rule, or say free = true",
            )


def check_strict(policy: Policy, rules: RuleReaders, root: Reader) -> None:
    """Warn of what ``--strict`` doubts: POL309, POL315, POL316."""
    sent = {name for name, field in policy.entity.fields.items() if field.send}
    for prop, reader in rules.values():
        if prop.scope is Scope.RECORD and policy.entity.subject is not None:
            root.findings.warning(
                "POL309",
                reader.table_span(),
                f"`{shown(prop.name)}` counts only within one record",
                "one field on one record together with another on another record of the "
                "same person does not count; workers may tell that two records belong "
                "together",
                'if they can, set scope = "subject"',
            )
        if prop.disclosure.kind == "step":
            counts = prop.disclosure.at is not None and prop.scope is Scope.SUBJECT
            least = 1 if counts else prop.disclosure.at
            sets = [
                (len(sent.intersection(f)), least or len(f)) for f in prop.alternatives
            ]
            if all(able < needed for able, needed in sets):
                root.findings.warning(
                    "POL316",
                    reader.table_span(),
                    f"`{shown(prop.name)}` refuses nothing",
                    "each of its sets needs a field with send = false, which nobody is "
                    f"ever shown: {listed(sorted(set(prop.fields) - sent), 4)}",
                    "delete it, or keep it for the day on which they are sent",
                )
    for field in policy.entity.fields.values():
        default = field.ask not in (None, "yes_no", "spans") and field.question is None
        if default and field.send:
            root.findings.warning(
                "POL315",
                root.key_span("entity", policy.entity.name, "fields", field.name),
                f"`{shown(field.name)}` has no question of its own",
                f'workers are asked "{shown(field.asked)}"',
                'add question = "…" in the words of the form',
            )
