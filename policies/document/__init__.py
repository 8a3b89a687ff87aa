"""The policy language: TOML text to a Policy, with located errors, lint and tests.

- ``reader``: the whole file; it reads the tables with ``entity``, ``properties``,
  ``sections`` and ``policy_tests``, then runs ``checks`` across them;
- ``reading``: typed access to a table; ``source``, ``locator``: TOML and its positions;
- ``diagnostic``, ``codes``, ``rendering``: errors and warnings, and how they are shown;
- ``schema``, ``difference``: a JSON Schema, and a comparison of two policies;
- ``draft``, ``against``: a first file from what records tell, and what records show that
  a policy ignores.
"""

from policies.document.codes import CODES, explain_rule
from policies.document.diagnostic import Diagnostic, Severity, Span
from policies.document.policy_tests import Refusal, TestOutcome, run_test, run_tests
from policies.document.reader import ParseResult, parse
from policies.document.rendering import FORMATS, render, render_files, summary
from policies.document.schema import json_schema

__all__ = [
    "CODES",
    "FORMATS",
    "Diagnostic",
    "ParseResult",
    "Refusal",
    "Severity",
    "Span",
    "TestOutcome",
    "explain_rule",
    "json_schema",
    "parse",
    "render",
    "render_files",
    "run_test",
    "run_tests",
    "summary",
]
