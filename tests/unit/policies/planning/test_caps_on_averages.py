"""AverageCaps as the gate counts them: what of a plan is too much."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.problem import Average, Pairs
from policies.planning.caps_on_averages import AverageCaps
from policies.policy import Disclosure, Property, Scope
from policies.rules.record_rules import Rule
from policies.rules.tabulated import TabulatedRule

FIELDS = ("a", "b", "c")
STEPS = (Fraction(0), Fraction(1, 4), Fraction(2, 5), Fraction(1))
LEVELS = {
    frozenset(held): STEPS[size]
    for size in range(4)
    for held in combinations(FIELDS, size)
}
TOLD = Property("told", (FIELDS,), tau=None, disclosure=Disclosure("plugin"))
DAYS = Property(
    "days",
    (FIELDS,),
    scope=Scope.SUBJECT,
    tau=None,
    window=4,
    disclosure=Disclosure("linear", per_entry=Fraction(1, 9)),
)
RULES = (TabulatedRule(TOLD, LEVELS), Rule(DAYS))
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)),
    min_size=3,
    max_size=14,
)


def translated(rows, history, limits):
    """Entries as (record, field, time), of one person for every two records."""
    record, kind, time = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    averages = tuple(Average((i,), limit) for i, limit in enumerate(limits))
    return SimpleNamespace(
        problem=SimpleNamespace(averages=averages, history=history),
        expansion=SimpleNamespace(rules=RULES, widest=frozenset()),
        fields=FIELDS,
        kind=kind,
        backlog=SimpleNamespace(record=record, subject=record // 2, time=time),
        trusted=(frozenset(), frozenset({"days"})),
    )


def kept(made, held):
    """Whether the rules' own sums over what one adversary holds are within the caps."""
    backlog = made.backlog
    for cap, rule in zip(made.problem.averages, RULES, strict=True):
        unit = backlog.record if rule.scope is Scope.RECORD else backlog.subject
        sums, sets = Fraction(0), 0
        for one in set(unit.tolist()):
            mine, known = (
                Counter(
                    (FIELDS[made.kind[d]], int(backlog.time[d]) if rule.window else 0)
                    for d in chosen
                    if unit[d] == one
                )
                for chosen in (held, range(len(unit)))
            )
            some, many = rule.total(mine, known)
            sums, sets = sums + some, sets + many
        if sums > cap.limit * sets:
            yield rule.name


@pytest.mark.parametrize("large", [0, 32])
@settings(max_examples=80, deadline=None)
@given(
    rows=ROWS,
    limits=st.tuples(*[st.sampled_from([Fraction(1, n) for n in (3, 6, 20)])] * 2),
    seen=st.sets(st.integers(0, 2)),
)
def test_what_is_too_much_is_taken_and_no_more(large, rows, limits, seen):
    """Of who is trusted with days only the told rule is judged."""
    history = Pairs.of((d, a) for d in seen for a in (0, 1))
    made = translated(rows, history, limits)
    plan = Pairs.of((d, a) for d in range(len(rows)) if d not in seen for a in (0, 1))
    found = AverageCaps(made, exact=large).excess(plan)
    for a, judged in ((0, {"told", "days"}), (1, {"told"})):
        taken = [d for d, who in found if who == a]
        rest = set(range(len(rows))) - set(taken)
        if judged & {*kept(made, rest)}:
            assert rest == seen  # nothing is left to be taken
        elif taken:
            assert judged & {*kept(made, rest | {taken[-1]})}


def test_a_unit_of_many_entries_is_looked_at_a_few_times(monkeypatch):
    """2,000 entries of a person, most of which are too much."""
    asked = []

    def counted(rule, held, known):
        asked.append(len(held))
        return total(rule, held, known)

    total = Rule.total
    monkeypatch.setattr(Rule, "total", counted)
    rows = [(0, d % 3, 10 * d) for d in range(2000)]
    made = translated(rows, Pairs(), (Fraction(1), Fraction(1, 90)))
    found = AverageCaps(made).excess(Pairs.of((d, 0) for d in range(2000)))
    assert len(found) == 1800
    assert len(asked) < 60
