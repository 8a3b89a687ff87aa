"""Read the text of a policy file into a checked policy, or find all its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.document.checks import (
    check_budget,
    check_crops,
    check_limits,
    check_questions,
    check_rules,
    check_strict,
    check_unruled,
    check_unused,
)
from policies.document.diagnostic import Diagnostic, Severity
from policies.document.entity import read_entity
from policies.document.policy_tests import read_tests
from policies.document.properties import Context, read_properties
from policies.document.reading import Findings, Reader
from policies.document.rendering import render
from policies.document.sections import (
    read_budget,
    read_capacities,
    read_groups,
    read_relations,
    read_utilities,
)
from policies.document.source import read
from policies.policy import Entity, Policy

LANGUAGE_VERSION: Final = 1
FILE_KEYS: Final = (
    "version",
    "name",
    "budget",
    "entity",
    "relation",
    "property",
    "workers",
    "utility",
    "capacity",
    "test",
)


@dataclass(frozen=True)
class ParseResult:
    """The result of reading a policy file.

    Attributes
    ----------
    policy : Policy or None
        None if any diagnostic is an error.
    diagnostics : tuple of Diagnostic
        All of them, in order of line.
    filename : str
        As given; for renderers.
    text : str
        The text that positions refer to; empty if it could not be decoded.
    """

    policy: Policy | None
    diagnostics: tuple[Diagnostic, ...]
    filename: str = ""
    text: str = ""

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return len(self.diagnostics) - self.errors


def parse(
    text: bytes, filename: str = "policy.toml", *, strict: bool = False
) -> ParseResult:
    """Read and check a policy file. Never raises, whatever the bytes.

    Parameters
    ----------
    text : bytes
        The file: UTF-8 TOML 1.0, a leading byte order mark is skipped.
    filename : str
        For diagnostics only; nothing is opened.
    strict : bool
        Also report the warnings of ``policy check --strict``.
    """
    source = read(text)
    if isinstance(source, Diagnostic):
        shown_text = text.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        return ParseResult(None, (source,), filename, shown_text)
    findings = Findings(source)
    policy = _policy(
        Reader(findings, (), source.values, "a policy file"), strict=strict
    )
    result = None if findings.failed else policy
    return ParseResult(result, findings.ordered(), filename, source.text)


class InvalidPolicy(ValueError):
    """A policy file with errors; the message shows each in its place.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
        The errors and warnings, in order of line.
    """

    def __init__(self, result: ParseResult) -> None:
        shown = render(result.diagnostics, result.text, result.filename)
        super().__init__(f"{result.filename} is no policy\n\n{shown}")
        self.diagnostics = result.diagnostics


def read_policy(text: bytes | str, filename: str = "policy.toml") -> Policy:
    """Read and check a policy file; warnings are dropped, see :func:`parse`.

    Parameters
    ----------
    text : bytes or str
        The contents of the file.
    filename : str
        For messages only; nothing is opened.

    Raises
    ------
    InvalidPolicy
        With every error: where and why, and how to correct it.
    """
    result = parse(text.encode() if isinstance(text, str) else text, filename)
    if result.policy is None:
        raise InvalidPolicy(result)
    return result.policy


def _policy(root: Reader, *, strict: bool) -> Policy:
    root.knows(FILE_KEYS)
    _version(root)
    name = root.needed_text("name", 'add name = "<what these records are>"')
    entity = read_entity(root) or Entity("", "", {})
    budget = read_budget(root)
    relations = read_relations(root, entity)
    rules = read_properties(Context(root, entity, budget, relations))
    policy = Policy(
        name=name or "",
        entity=entity,
        budget=budget,
        properties={n: prop for n, (prop, _) in rules.items()},
        relations=relations,
        groups=read_groups(root, rules),
        utilities=read_utilities(root, entity),
        capacities=read_capacities(root),
    )
    check_budget(policy, root)
    check_rules(policy, rules, root)
    check_crops(policy, root)
    check_limits(policy, rules, root)
    check_unused(policy, root)
    check_questions(policy, root)
    check_unruled(policy, root, strict=strict)
    if strict:
        check_strict(policy, rules, root)
    tests = read_tests(root, policy)
    return Policy(**{**vars(policy), "tests": tests})


def _version(root: Reader) -> None:
    if "version" not in root:
        root.missing("version", f"add version = {LANGUAGE_VERSION}")
        return
    version = root.integer("version")
    if version is not None and version != LANGUAGE_VERSION:
        root.wrong("version", f"{LANGUAGE_VERSION}, the version of this language")
