"""Small rules over three fields, and how tests draw what is held of them."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from policies.policy import (
    Disclosure,
    Entity,
    Field,
    Policy,
    Property,
    Scope,
)
from policies.rules.entry_table import EntryTable

FIELDS = ("a", "b", "c")


def policy(*properties: Property, **more: object) -> Policy:
    entity = Entity("form", "id", {f: Field(f) for f in FIELDS}, "person", "at")
    return Policy("p", entity, properties={p.name: p for p in properties}, **more)


def rule(name: str = "p", **more: object) -> Property:
    return Property(name, **{"alternatives": (("a", "b"),)} | more)


def table(*rows: tuple[int, int, str, int]) -> EntryTable:
    """Entries as (record, subject, field, time)."""
    return EntryTable(
        FIELDS,
        np.array([r[0] for r in rows], np.int64),
        np.array([r[1] for r in rows], np.int64),
        np.array([FIELDS.index(r[2]) for r in rows], np.int32),
        np.array([r[3] for r in rows], np.int64),
    )


STEP = rule()


EITHER = rule(alternatives=(("a", "b"), ("a", "c")), uses_any_of=True)


TWO_OF = rule(alternatives=(FIELDS,), disclosure=Disclosure(at=2))


WEIGHED = rule(
    alternatives=(FIELDS,),
    disclosure=Disclosure(
        "linear",
        weights={"a": Fraction(1, 2), "b": Fraction(3, 10), "c": Fraction(1, 5)},
    ),
    tau=Fraction(7, 10),
)


SHARES = rule(alternatives=(FIELDS,), disclosure=Disclosure("quadratic"))


BY_ENTRY = rule(
    scope=Scope.SUBJECT,
    disclosure=Disclosure("linear", per_entry=Fraction(1, 4)),
    tau=Fraction(3, 5),
)


TIMES = st.integers(0, 12)


HELD = st.dictionaries(st.tuples(st.sampled_from(FIELDS), TIMES), st.integers(1, 2), max_size=6)  # fmt: skip


SHAPES = st.sampled_from(
    [
        {},
        {"alternatives": (("a", "b"), ("c",)), "uses_any_of": True},
        {"alternatives": (("a", "c"), ("b", "c")), "uses_any_of": True},
        {"disclosure": Disclosure(at=3)},
        {"alternatives": (FIELDS,), "disclosure": Disclosure(at=2)},
        {"disclosure": Disclosure("linear", per_entry=Fraction(3, 10))},
        {"disclosure": Disclosure("quadratic", per_entry=Fraction(1, 4))},
    ]
)


TAUS = st.sampled_from(
    [Fraction(1), Fraction(1, 2), Fraction(3, 10), Fraction(9, 16), None]
)
