"""Differences between two policies, name by name, for reviewers.

A line says what was added (``+``), removed (``-``) or changed (``~``), and whether it
lets workers see more than before, which is what a reviewer looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Final

from policies.policy import (
    Budget,
    Disclosure,
    Field,
    Group,
    Policy,
    Property,
    Relation,
    Template,
)
from policies.rules.kinds import title

_TEXT_ONLY: Final = frozenset({"name", "line", "note", "help", "question", "example"})
"""Texts of a policy that limit nothing; their changes are listed without values."""


@dataclass(frozen=True)
class Difference:
    """One named part of a policy that was added, removed or changed.

    Attributes
    ----------
    sign : str
        ``+``, ``-`` or ``~``.
    part : str
        ``budget``, ``entity``, ``field``, ``property``, ``group``, ``relation``,
        ``utility`` or ``capacity``.
    name : str
        Empty if there is only one.
    changes : tuple of str
        The changes: ``tau 0.6 -> 0.4``.
    looser : bool
        Whether any of them lets workers see more than before.
    """

    sign: str
    part: str
    name: str
    changes: tuple[str, ...] = ()
    looser: bool = False

    @property
    def line(self) -> str:
        """The difference as one line."""
        subject = " ".join(part for part in (self.sign, self.part, self.name) if part)
        text = f"{subject}  {', '.join(self.changes)}" if self.changes else subject
        return f"{text}  (looser)" if self.looser else text


def differences(before: Policy | None, after: Policy) -> list[Difference]:
    """Compare two policies.

    Parameters
    ----------
    before : Policy or None
        The one in force; None if there is none.
    after : Policy

    Returns
    -------
    list of Difference
        Budget, entity, fields, properties, groups, relations, then the rest; empty if
        the two are equivalent (comments, order and tests aside).
    """
    if before is None:
        return [*(_added("property", name) for name in after.properties)]
    more = any(
        after.showings(name) > before.showings(name)
        for name in after.entity.fields.keys() & before.entity.fields.keys()
    )

    def budget_looser(old: Budget, new: Budget) -> bool:
        return _budget_looser(old, new) or (more and old.t != new.t)

    found = [*_changed("budget", "", before.budget, after.budget, budget_looser)]
    found += _changed(
        "entity", "", _Entity.of(before), _Entity.of(after), _entity_looser
    )
    old, new = before.entity.fields, after.entity.fields
    found += _maps("field", old, new, _field_looser)
    found += _maps("property", before.properties, after.properties, _property_looser)
    found += _maps("group", before.groups, after.groups, _group_looser)
    found += _maps("relation", before.relations, after.relations, _never)
    for part, one, other in (
        ("utility", before.utilities, after.utilities),
        ("capacity", before.capacities, after.capacities),
    ):
        if one != other:
            rows = (f"{len(one)} rows -> {len(other)} rows",)
            found.append(Difference("~", part, "", rows))
    return found


@dataclass(frozen=True)
class _Entity:
    name: str
    key: str
    subject: str | None
    time: str | None
    retain: int | None
    layout: Mapping[str, Any]
    template: Template | None

    @classmethod
    def of(cls, policy: Policy) -> _Entity:
        one = policy.entity
        return cls(**{at.name: getattr(one, at.name) for at in fields(cls)})


Part = Budget | _Entity | Field | Property | Group | Relation
Looser = Callable[[Any, Any], bool]


def _maps(
    part: str, old: Mapping[str, Part], new: Mapping[str, Part], looser: Looser
) -> Iterator[Difference]:
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            # What a rule or a group's sharing kept apart is no longer kept apart.
            loses = part == "property"
            yield Difference("-", part, name, looser=loses)
        elif name not in old:
            yield _added(part, name, new[name])
        else:
            yield from _changed(part, name, old[name], new[name], looser)


def _added(part: str, name: str, one: Part | None = None) -> Difference:
    if isinstance(one, Property):
        return Difference("+", part, name, (f"of {_alternatives_text(one)}",))
    trusted = bool(getattr(one, "trusted", ()))
    return Difference("+", part, name, looser=trusted)


def _changed(
    part: str, name: str, old: Part, new: Part, looser: Looser
) -> Iterator[Difference]:
    words = []
    for one in fields(old):
        was, now = getattr(old, one.name), getattr(new, one.name)
        if was == now or one.name == "line":
            continue
        if one.name in _TEXT_ONLY:
            words.append(f"{one.name} changed")
        else:
            words.append(
                f"{one.name.rstrip('_')} {_value_text(was)} -> {_value_text(now)}"
            )
    if words:
        yield Difference("~", part, name, tuple(words), looser(old, new))


def _never(_old: object, _new: object) -> bool:
    return False


def _entity_looser(old: _Entity, new: _Entity) -> bool:
    """Whether a place of the page is not painted over any more."""
    painted = [{b for b in one.layout.values() if b.redact} for one in (old, new)]
    return not painted[0] <= painted[1]


def _budget_looser(old: Budget, new: Budget) -> bool:
    return _higher(old.tau, new.tau) or _higher(old.average, new.average)


def _property_looser(old: Property, new: Property) -> bool:
    other_shape = _meaning(old) != _meaning(new)
    return _higher(old.tau, new.tau) or _higher(old.average, new.average) or other_shape


def _meaning(rule: Property) -> tuple[object, ...]:
    """Return what defines a rule's sets and their f: any change may loosen the rule."""
    alternatives = frozenset(map(frozenset, rule.alternatives))
    return alternatives, rule.scope, rule.relation, rule.disclosure, rule.window


def _field_looser(old: Field, new: Field) -> bool:
    return bool(
        (new.send and not old.send)
        or not set(old.redact) <= set(new.redact)
        or (new.image_column, new.image_box) != (old.image_column, old.image_box)
        or new.answers > old.answers
    )


def _group_looser(old: Group, new: Group) -> bool:
    """Whether members may see more: only trust lets them, since joins are never undone."""
    return not set(new.trusted) <= set(old.trusted) or (
        bool(new.trusted) and new.members != old.members
    )


def _higher(old: Fraction | int | None, new: Fraction | int | None) -> bool:
    """Whether a limit went up; None is no limit."""
    return old is not None and (new is None or new > old)


def _value_text(value: object) -> str:
    match value:
        case None:
            text = "none"
        case bool():
            text = str(value).lower()
        case Fraction():
            shown = f"{float(value):.6g}"
            text = shown if Fraction(shown) == value else str(value)
        case Disclosure():
            text = _disclosure_text(value)
        case Enum():
            text = str(value.value)
        case Mapping():
            text = f"{len(value)} named"
        case tuple():
            text = _tuple_text(value)
        case _:
            text = str(value)
    return text


def _tuple_text(values: Iterable[object]) -> str:
    parts = [
        f"[{_tuple_text(value)}]" if isinstance(value, tuple) else str(value)
        for value in values
    ]
    return "+".join(parts) or "none"


def _alternatives_text(rule: Property) -> str:
    return " or ".join("+".join(fields_) for fields_ in rule.alternatives)


def _disclosure_text(shape: Disclosure) -> str:
    """Return a disclosure in words: its title, then every parameter not in it."""
    words = [title(shape)]
    for one in fields(shape):
        value = getattr(shape, one.name)
        if value is None or one.name in ("kind", "at", "plugin"):
            continue
        if one.name == "per_entry":
            words.append(f"{_value_text(value)} an entry")
        elif one.name == "weights":
            words += [f"{name}={_value_text(w)}" for name, w in sorted(value.items())]
        else:
            words.append(f"{one.name} {_value_text(value)}")
    return " ".join(words)
