"""Policy: what is in force, how it came to be, a draft with its faults, and a playground."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from dispatcher.core.errors import DispatcherError, NotFound
from dispatcher.core.keys import is_pseudonym
from dispatcher.ledger.refusals import in_digits
from dispatcher.operations import fields, policies
from dispatcher.operations.policies import PolicyFile
from dispatcher.surfaces.console.pages import problem_of
from dispatcher.surfaces.console.tables import Column, Empty, Row, Rows, Table
from dispatcher.surfaces.console.view import View
from policies.document import parse
from policies.document.difference import Difference
from policies.document.policy_tests import run_test
from policies.policy import Policy

LONGEST: Final = 1_000_000
"""Characters of a draft, as of the API."""
_WORD: Final = re.compile(r"[^\s,]+")

VERSIONS: Final = Table(
    "versions",
    "Versions that were applied",
    (
        Column("version", "Version", link=lambda row: f"/policy/{row['version']}"),
        Column("state", "State", "state"),
        Column("name", "Name"),
        Column("applied", "Applied", "time"),
        Column("until", "Until", "time"),
        Column("accepted", "Accepted past a limit", "number"),
        Column("reason", "Why", wide=True),
        Column("sha256", "SHA-256", "hash"),
    ),
    Empty(
        "Every version of the policy that was in force, with the reason.",
        "No policy is in force yet.",
        button="Write one",
        href="/policy/draft",
    ),
)
CHANGES: Final = Table(
    "changes",
    "Changes",
    (
        Column("what", "What"),
        Column("sign", "Change", "state"),
        Column("effect", "Workers see", "state"),
        Column("changes", "From and to", wide=True),
    ),
    Empty("What is different, part by part.", "Nothing is different."),
    prefix="d.",
)
TESTS: Final = Table(
    "tests",
    "Tests of the policy",
    (
        Column("test", "Test", wide=True),
        Column("outcome", "Outcome", "state"),
        Column("expected", "Expected"),
        Column("refused", "Refused by", wide=True),
    ),
    Empty(
        "The policy's own tests, and whether each holds.",
        "It has none: a [[test]] block says what must be allowed or refused.",
    ),
    prefix="t.",
)
FAULTS: Final = Table(
    "faults",
    "What the check found",
    (
        Column("place", "Place", "code"),
        Column("severity", "Kind", "state"),
        Column("message", "What", wide=True),
        Column("why", "Why", wide=True),
        Column("fix", "What helps", wide=True),
        Column("code", "Code", "code"),
    ),
    Empty("Every error and doubt, with its line.", "The check found nothing."),
    prefix="c.",
)
TRACE: Final = Table(
    "trace",
    "Every rule that was asked",
    (
        Column("rule", "Rule"),
        Column("says", "Says", "state"),
        Column("scope", "Scope"),
        Column("before", "f before"),
        Column("after", "f after"),
        Column("limit", "Limit"),
    ),
    Empty("What each rule said.", "No rule looks at this field."),
)


def show_policy(view: View) -> Response:
    """``GET /policy``."""
    found = policies.list_versions(view.store)
    rows = [
        {
            "version": one.row.version,
            "state": "in force" if one.until is None else "replaced",
            "name": one.row.name,
            "applied": one.row.applied_at,
            "until": one.until,
            "accepted": one.row.accepted or None,
            "reason": one.row.reason,
            "sha256": one.row.sha256,
        }
        for one in reversed(found)
    ]
    tables = [VERSIONS.rows(view.request, rows)]
    active = found[-1] if found else None
    policy = None
    if active is not None:
        policy = parse(policies.show(view.store).source).policy
        if policy is not None:
            tables.append(_tests(view, policy))
    return view.show(*tables, active=active, policy=policy)


def show_version(view: View) -> Response:
    """``GET /policy/NUMBER``: byte for byte, and how it differs from the one before."""
    found = policies.show(view.store, view.request.path_params["version"])
    policy = parse(found.source).policy
    rows = []
    if policy is not None and found.version > 1:
        compared = policies.compare(view.store, policy, found.version - 1)
        rows = [_change(one) for one in compared.differences]
    return view.show(
        CHANGES.rows(view.request, rows),
        title=f"Policy, version {found.version}",
        version=found,
        text=found.source.decode("utf-8-sig", errors="replace"),
    )


def edit_draft(view: View) -> Response:
    """``GET`` and ``POST /policy/draft``: check, test and compare; nothing is changed."""
    source, given = view.form.get("source", ""), "source" in view.form
    if not given:
        try:
            source = policies.show(view.store).source.decode("utf-8-sig", "replace")
        except NotFound:
            source = ""
    source = source.replace("\r\n", "\n")[:LONGEST]
    found = parse(source.encode())
    faults = [
        {
            "place": f"{one.line}:{one.column}",
            "severity": str(one.severity),
            "message": one.message,
            "why": one.why,
            "fix": one.fix,
            "code": one.code,
        }
        for one in found.diagnostics
    ]
    tables: list[Rows] = [FAULTS.rows(view.request, faults if source else [])]
    looser = 0
    if found.policy is not None and given:
        compared = policies.compare(view.store, found.policy)
        changes = [_change(one) for one in compared.differences]
        looser = sum(one.looser for one in compared.differences)
        tables += [CHANGES.rows(view.request, changes), _tests(view, found.policy)]
    return view.show(
        *tables,
        source=source,
        given=given,
        valid=found.policy is not None,
        errors=found.errors,
        looser=looser,
        lines=max(12, min(40, source.count("\n") + 2)),
        marked={one.line for one in found.diagnostics} if source else set(),
    )


# -- the playground ------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What was asked, and what the policy or the gate says."""

    allowed: bool
    about: str
    why: str
    notes: tuple[str, ...] = ()


def play(view: View) -> Response:
    """``GET`` and ``POST /policy/playground``: allow or deny, and by which rule."""
    source = policies.show(view.store)
    policy = parse(source.source).policy
    names = [] if policy is None else [
        name for name, one in policy.entity.fields.items() if one.send
    ]  # fmt: skip
    given, verdict, problem = view.form or _linked(view), None, None
    rows: list[Row] = []
    try:
        if policy is not None and given.get("following"):
            file = PolicyFile(view.workspace.policy_path, source.source, policy)
            verdict, rows = _ask(file, given["seen"], given["following"])
        elif (
            given.get("field")
            and (view.form or given["worker"])
            and view.may("explain")
        ):
            verdict, rows = _explain(view, given["field"], given.get("worker", ""))
    except DispatcherError as error:
        problem = problem_of(error)
    return view.show(
        TRACE.rows(view.request, rows),
        names=names,
        given=given,
        verdict=verdict,
        problem=problem,
    )


def _linked(view: View) -> dict[str, str]:
    """Read what another page's link asks: a worker, and a field by its pseudonym."""
    asked = view.request.query_params
    field = asked.get("field", "")
    if not is_pseudonym(field.partition(".")[0]):  # no address contains a key
        field = ""
    return {"worker": asked.get("worker", ""), "field": field}


def _ask(file: PolicyFile, seen: str, following: str) -> tuple[Verdict, list[Row]]:
    """Ask what a stranger who saw fields of a record may see next."""
    words = _WORD.findall(seen)
    found = policies.ask(file, words, following)
    refused = {one.property: one for one in found.refusals}
    rows: list[Row] = [
        {
            "rule": name,
            "says": "refused" if name in refused
            else "not judged" if name in found.unjudged else "allowed",
            "scope": rule.scope.value,
            "after": in_digits(refused[name].f) if name in refused else None,
            "limit": None if rule.tau is None else f"f < {in_digits(rule.tau)}",
        }
        for name, rule in file.policy.properties.items()
        if following in rule.fields
    ]  # fmt: skip
    about = f"{following}, after {', '.join(words) or 'nothing'}"
    why = "; ".join(map(str, found.refusals)) or "no rule refuses it"
    return Verdict(found.allowed, about, why), rows


def _explain(view: View, field: str, worker: str) -> tuple[Verdict, list[Row]]:
    """Ask the gate about a worker and a field of the store."""
    found = fields.explain(view.workspace, view.store, field.strip(), worker.strip())
    told = found.explanation
    rows: list[Row] = [
        {
            "rule": one.property,
            "says": "refused" if one.refused else "allowed",
            "scope": one.scope.value,
            "before": in_digits(one.before),
            "after": in_digits(one.after),
            "limit": None if one.tau is None else f"f < {in_digits(one.tau)}",
        }
        for one in told.findings
    ]
    notes = []
    if told.facts.held:
        notes.append("The worker has seen it already: showing it again tells nothing.")
    if found.obstacle:
        notes.append(f"It cannot be sent there: {found.obstacle}.")
    able = len(found.takers.accounts)
    notes.append(f"{able:,} of {found.takers.adversaries:,} workers could be shown it.")
    refusal = told.refusal
    why = "the gate would book it" if refusal is None else refusal.why
    name = f"{told.facts.entry.record}.{field.strip().rpartition('.')[2]}"
    return Verdict(told.allowed, f"{name} to {worker}", why, tuple(notes)), rows


# -- rows ----------------------------------------------------------------------------------


def _tests(view: View, policy: Policy) -> Rows:
    rows = []
    for case in policy.tests:
        outcome = run_test(policy, case)
        expected = "allow" if case.expect_allow else "deny"
        rows.append(
            {
                "test": case.name or f"line {case.line}",
                "outcome": "passed" if outcome.passed else "failed",
                "expected": f"{expected}, by {case.by}" if case.by else expected,
                "refused": [one.property for one in outcome.refusals],
            }
        )
    rows.sort(key=lambda row: row["outcome"] == "passed")
    return TESTS.rows(view.request, rows)


_SIGNS: Final = {"+": "added", "-": "removed", "~": "changed"}


def _change(one: Difference) -> dict[str, Any]:
    return {
        "what": f"{'rule' if one.part == 'property' else one.part} {one.name}".strip(),
        "sign": _SIGNS[one.sign],
        "effect": "more" if one.looser else "no more",
        "changes": "; ".join(one.changes),
    }
