"""Running the ``[[test]]`` blocks of a policy: the gate's rules on made-up facts.

Only tau is judged, not t, averages or capacities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.document.diagnostic import decimal, shown
from policies.policy import TABLED, Kind, Policy, PolicyTest, Scope
from policies.rules.link_facts import judge_links, subjects_of

Entry = tuple[str, str]
PAIRS: Final = (Kind.COMMON, Kind.COSINE)
NEED_DATA: Final = (*TABLED, Kind.PLUGIN)


@dataclass(frozen=True)
class Refusal:
    """One rule that refuses the ask: its f after the ask, and its limit."""

    property: str
    f: Fraction
    tau: Fraction

    def __str__(self) -> str:
        limit = f"f = {decimal(self.f)} >= tau = {decimal(self.tau)}"
        return f"{shown(self.property)}: {limit}"


@dataclass(frozen=True)
class TestOutcome:
    """What one test came to.

    Attributes
    ----------
    test : PolicyTest
    refusals : tuple of Refusal
        The rules that refuse; empty is allow.
    unjudged : tuple of str
        Rules over the asked field that need data of their own (a table, or a plugin),
        and so were not judged.
    """

    __test__ = False

    test: PolicyTest
    refusals: tuple[Refusal, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether no rule refuses."""
        return not self.refusals

    @property
    def passed(self) -> bool:
        """Whether it came as expected, by the rule named if one is."""
        by = self.test.by
        named = by is None or any(r.property == by for r in self.refusals)
        return self.allowed == self.test.expect_allow and named

    def line(self, filename: str) -> str:
        """One line for a reader, as ``policy test`` prints it."""
        place = f"{filename}:{self.test.line}  {shown(self.test.name)}"
        if not self.passed:
            return f"FAIL  {place} -> {self._verdict()}  ({self._expected()})"
        detail = "" if self.allowed else f"  [{self._leading()}]"
        return f"PASS  {place}  -> {self._verdict()}{detail}"

    def _verdict(self) -> str:
        return "allow" if self.allowed else "deny"

    def _expected(self) -> str:
        by = f" by {shown(self.test.by)}" if self.test.by is not None else ""
        expected = "expected " + ("allow" if self.test.expect_allow else f"deny{by}")
        if self.test.by in self.unjudged:
            return f"{expected}, which needs data that a test has not"
        if self.refusals:
            return f"{expected}; {'; '.join(map(str, self.refusals))}"
        return expected

    def _leading(self) -> Refusal:
        """The rule that the test names, else the first."""
        named = [r for r in self.refusals if r.property == self.test.by]
        return (named or list(self.refusals))[0]


def run_tests(policy: Policy) -> tuple[TestOutcome, ...]:
    """Run every test of a policy, in the order of the file."""
    return tuple(run_test(policy, test) for test in policy.tests)


def run_test(policy: Policy, test: PolicyTest) -> TestOutcome:
    """Judge the ask of one test."""
    held, trusted = _adversary(policy, test)
    refused = _refused_units(policy, test, frozenset(held), trusted)
    field = test.ask[1]
    unjudged = []
    for prop in policy.properties.values():
        if field not in prop.fields or prop.name in trusted:
            continue
        if prop.disclosure.kind in PAIRS and prop.scope is Scope.RELATION:
            reached = judge_links(prop, test, [*held, test.ask])
            if prop.tau is not None and reached.past(prop.tau):
                refused[prop.name] = Refusal(prop.name, reached.root, prop.tau)
        elif prop.disclosure.kind in NEED_DATA:
            unjudged.append(prop.name)
    in_order = tuple(refused[name] for name in policy.properties if name in refused)
    return TestOutcome(test, in_order, tuple(unjudged))


def _adversary(policy: Policy, test: PolicyTest) -> tuple[list[Entry], frozenset[str]]:
    """What the worker's adversary holds, in ledger order, and what it is trusted with."""
    # This package is below policies.rules.groups: at import time each would wait for the other.
    from policies.rules.groups import adversaries, groups_of, trusted_rules

    parts = adversaries(policy, {test.worker, *test.seen_by})
    mine = next(a.accounts for a in parts if test.worker in a.accounts)
    held = [*test.seen]
    for account, entries in test.seen_by.items():
        held += entries if account in mine else ()
    return held, trusted_rules(policy, [groups_of(policy, a) for a in mine])


def _refused_units(
    policy: Policy, test: PolicyTest, held: frozenset[Entry], trusted: frozenset[str]
) -> dict[str, Refusal]:
    """The record and subject rules that refuse."""
    from policies.rules.asks import EntryFacts, compile_rules, judge_ask

    record, field = test.ask
    subject, times = subjects_of(test), test.facts.time
    findings = judge_ask(
        compile_rules(policy),
        EntryFacts(record, field, subject(record), times.get(record, 0)),
        _counted((e for e in held if e[0] == record), times),
        _counted((e for e in held if subject(e[0]) == subject(record)), times),
        trusted,
        whole_unit=False,
    )
    return {
        f.property: Refusal(f.property, f.after, f.tau)
        for f in findings
        if f.refused and f.tau is not None
    }


def _counted(
    entries: Iterable[Entry], times: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """Distinct entries by field and time."""
    return Counter((field, times.get(record, 0)) for record, field in entries)
