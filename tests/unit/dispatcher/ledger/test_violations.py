"""Array passes over units err on the safe side only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.ledger.active_policy import compile_version
from dispatcher.ledger.violations import EntryTallies, over_limit
from policies.document import parse
from policies.policy import Scope

FIELDS = ("a", "b", "c")
POLICY = parse(
    b"""
version = 1
name = "units"
[entity.thing]
key = "id"
subject = "person"
time = "when"
[entity.thing.fields]
a = { ask = "transcribe" }
b = { ask = "transcribe" }
c = { ask = "transcribe" }
[property.pair]
of = ["a", "b"]
[property.weighed]
of = ["a", "b", "c"]
tau = 0.8
disclosure = { kind = "linear", weights = { a = 0.5, b = 0.3, c = 0.2 } }
[property.either]
scope = "subject"
any_of = [["a", "c"], ["b", "c"]]
[property.counted]
scope = "subject"
of = ["a", "b"]
tau = 0.5
disclosure = { kind = "quadratic", per = "entry", weight = 0.2 }
[property.window]
scope = "subject"
window = "10s"
of = ["a", "b"]
disclosure = { kind = "linear", per = "entry", weight = 0.4 }
"""
).policy
assert POLICY is not None
FORCE = compile_version(1, "0", POLICY, {name: i + 1 for i, name in enumerate(FIELDS)})
SECOND = 1_000_000

cells = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 7, 30])),
    st.integers(1, 3),
    max_size=14,
)  # fmt: skip


def rows(found):
    table = [(who, u, f, t * SECOND, n) for (who, u, f, t), n in found.items()]
    columns = np.array(table, np.int64).reshape(-1, 5).T
    return EntryTallies(*columns)


@given(asked=cells, known=cells, trusted=st.sets(st.sampled_from(["pair", "counted"])))
def test_a_unit_past_a_limit_is_always_named(asked, known, trusted):
    asked = {key: 1 for key in asked if key not in known}
    names = [frozenset(trusted), frozenset()]
    for subject, scope in ((False, Scope.RECORD), (True, Scope.SUBJECT)):
        over = over_limit(
            FORCE, names, asked=rows(asked), known=rows(known), subject=subject
        )
        for (who, unit, _, _), flag in zip(asked, over, strict=True):
            held = {
                (FIELDS[f - 1], t * SECOND): n
                for (w, u, f, t), n in {**known, **asked}.items()
                if (w, u) == (who, unit)
            }
            past = [
                rule.window is None
                for rule in FORCE.rules.all.values()
                if rule.scope is scope
                and rule.name not in names[who]
                and rule.past(held)
            ]
            assert flag or not past
            timeless = {(f, 0): 0 for f, _ in held}
            for (f, _), n in held.items():
                timeless[f, 0] += n
            doubtful = any(
                rule.past(timeless)
                for rule in FORCE.rules.all.values()
                if rule.scope is scope and rule.name not in names[who]
            )
            assert doubtful or not flag or scope is Scope.RECORD


def test_rows_without_a_unit_are_never_named():
    one = np.ones(2, np.int64)
    asked = EntryTallies(0 * one, -one, np.array([1, 2]), 0 * one, 9 * one)
    nothing = rows({})
    over = over_limit(FORCE, [frozenset()], asked=asked, known=nothing, subject=True)
    assert not over.any()
