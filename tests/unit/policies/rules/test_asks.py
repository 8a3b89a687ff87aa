"""One asked entry, judged by every rule that it touches."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from policies.policy import (
    Scope,
)
from policies.rules.asks import EntryFacts, compile_rules, judge_ask
from policies.rules.record_rules import Rule
from tests.unit.policies.rules.small_rules import (
    BY_ENTRY,
    FIELDS,
    HELD,
    SHAPES,
    TAUS,
    TIMES,
    policy,
    rule,
)


def test_an_ask_is_judged_by_every_rule_that_touches_it():
    rules = compile_rules(
        policy(
            rule("here"),
            rule("person", scope=Scope.SUBJECT, alternatives=(("b", "c"),)),
            rule("other", alternatives=(("a", "c"),)),
        )
    )
    ask = EntryFacts("r", "b", "s")
    found = judge_ask(rules, ask, {("a", 0): 1}, {("a", 0): 1, ("c", 0): 2})
    assert [(f.property, f.before, f.after, f.refused) for f in found] == [
        ("here", 0, 1, True),
        ("person", 0, 1, True),
    ]
    assert judge_ask(rules, ask, {("a", 0): 1}, {}, {"here", "person"}) == ()


def test_an_entry_held_already_is_counted_once():
    rules = compile_rules(policy(BY_ENTRY))
    held = {("a", 0): 1, ("b", 0): 1}
    (found,) = judge_ask(rules, EntryFacts("r", "a", "s"), held, held)
    assert (found.before, found.after, found.refused) == (
        Fraction(1, 2),
        Fraction(1, 2),
        False,
    )
    (found,) = judge_ask(rules, EntryFacts("q", "a", "s"), {}, held)
    assert (found.before, found.after, found.refused) == (
        Fraction(1, 2),
        Fraction(3, 4),
        True,
    )


def test_the_gate_takes_nothing_more_of_a_unit_that_is_past_its_limit():
    apart = rule(alternatives=(("a",), ("b", "c")), uses_any_of=True)
    rules, held = compile_rules(policy(apart)), {("a", 0): 1}
    ask = EntryFacts("r", "b", "s")
    assert judge_ask(rules, ask, held, held)[0].refused
    assert not judge_ask(rules, ask, held, held, whole_unit=False)[0].refused


@given(
    SHAPES, st.none() | st.integers(1, 6), TAUS, HELD, st.sampled_from(FIELDS), TIMES
)
def test_a_finding_is_the_value_of_the_unit_before_and_after(
    shape, window, tau, held, field, time
):
    prop = rule(scope=Scope.SUBJECT, window=window, tau=tau, **shape)
    compiled = compile_rules(policy(prop))
    after = {**held, (field, time): held.get((field, time), 0) + 1}
    for found in judge_ask(compiled, EntryFacts("r", field, "s", time), {}, held):
        assert found.before == Rule(prop).value(held)
        assert found.after == Rule(prop).value(after)
        past = tau is not None and found.after >= tau
        assert found.refused == past == Rule(prop).past(after)
