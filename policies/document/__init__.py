"""The policy file: TOML text -> Policy, with located errors, lint and policy tests."""

from policies.document.diagnostic import Diagnostic, Severity, Span
from policies.document.reader import ParseResult, parse
from policies.document.rehearsal import Refusal, TestOutcome, run_test, run_tests

__all__ = [
    "Diagnostic",
    "ParseResult",
    "Refusal",
    "Severity",
    "Span",
    "TestOutcome",
    "parse",
    "run_test",
    "run_tests",
]
