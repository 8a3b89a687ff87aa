"""Policies: compare, preview and apply them; show earlier versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.core.errors import Invalid, NotFound, Usage
from dispatcher.ledger.active_policy import version_of
from dispatcher.ledger.links import Beside
from dispatcher.ledger.recall import InFlightAction
from dispatcher.ledger.versions import AppliedPolicy, ApplyTerms, apply_policy
from dispatcher.ledger.violations import ANY, totals
from dispatcher.model import PolicyVersion
from dispatcher.operations.dry_run import (
    LimitFinding,
    findings,
    rolled_back,
    withdrawing,
)
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.intake.external_rules import read_links
from dispatcher.stages.planning import Planning
from dispatcher.stages.planning.impact import Impact, assess, read_work
from dispatcher.store import Store
from dispatcher.store import policies as policy_rows
from dispatcher.store.policies import VersionRow
from dispatcher.verifier import CHECKED
from policies.document.against import STRANGER
from policies.document.diagnostic import decimal, listed
from policies.document.difference import Difference, differences
from policies.document.policy_tests import Refusal, TestOutcome, run_test
from policies.document.samples import is_sample
from policies.policy import Policy, PolicyTest


@dataclass(frozen=True)
class PolicyFile:
    """A policy file that is valid.

    Attributes
    ----------
    path : Path
        Link tables and functions are looked for beside it.
    source : bytes
    policy : Policy
    """

    path: Path
    source: bytes
    policy: Policy


@dataclass(frozen=True)
class Comparison:
    """Differences between a policy file and a version; 0: no version."""

    against: int
    differences: Sequence[Difference]


@dataclass(frozen=True)
class PolicyPreview:
    """What putting a policy file in force would do.

    Attributes
    ----------
    in_force : int
        The version in force; 0: none.
    applied : AppliedPolicy
    impact : Impact
        Effect on planning.
    findings : tuple of LimitFinding
        Findings past the new limits.
    """

    in_force: int
    applied: AppliedPolicy
    impact: Impact
    findings: tuple[LimitFinding, ...]

    @property
    def by_rule(self) -> dict[str, int]:
        """Count the sets past the limit, by rule."""
        return totals(self.applied.accepted)


@dataclass(frozen=True)
class Version:
    """An applied version, and until when it was in force; None: it still is."""

    row: VersionRow
    until: int | None


def not_verified(policy: Policy) -> list[str]:
    """Rules of a kind that the verifier of evidence does not know."""
    return sorted(
        name
        for name, rule in policy.properties.items()
        if rule.disclosure.kind not in CHECKED
    )


def compare(store: Store, policy: Policy, version: int | None = None) -> Comparison:
    """Compare a policy with a version, the one in force if none is named.

    Raises
    ------
    NotFound
        There is no such version.
    """
    with store.read() as tx:
        number = version or policy_rows.version_in_force(tx)
        if version is not None and policy_rows.policy_row(tx, version) is None:
            raise NotFound(
                f"there is no version {version} of the policy",
                why="policy files are counted 1, 2, 3 ... as they are applied",
                fix="dispatcher policy list",
            )
        before = version_of(tx, number).policy if number else None
    return Comparison(number, differences(before, policy))


def preview(
    workspace: Workspace,
    store: Store,
    file: PolicyFile,
    *,
    in_flight: str,
    time_limit: float,
) -> PolicyPreview:
    """Show what putting a policy file in force would do; nothing is changed.

    The version is applied in a transaction that is rolled back: bookings wait for it,
    but not for the search for a plan.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    file : PolicyFile
    in_flight : str
        ``recall``, ``drain`` or ``keep``: what happens to open tasks that the version
        would not allow.
    time_limit : float
        Seconds of search for a plan, at most.
    """
    limits = Planning(store, workspace.clock).limits(time_limit)
    terms = ApplyTerms(
        accept=ANY,
        in_flight=InFlightAction(in_flight),
        if_active=None,
        withdrawing=withdrawing(workspace),
        actor=workspace.actor,
        reason="",
    )
    beside = _beside(store, file)
    preflight = workspace.preflight(store)
    with rolled_back(store) as tx:
        before = policy_rows.version_in_force(tx)
        now = workspace.clock()
        applied = apply_policy(tx, file.source, at=now, terms=terms, links=beside)
        force = version_of(tx, applied.version)
        work = read_work(tx, force, before, now, preflight.look(tx))
        past = tuple(findings(tx, applied.accepted))
    seed = workspace.config.seed or 0
    return PolicyPreview(before, applied, assess(work, seed=seed, limits=limits), past)


def apply(
    workspace: Workspace,
    store: Store,
    file: PolicyFile,
    *,
    in_flight: str,
    if_active: int | None = None,
    accept_past: int = 0,
    reason: str = "",
    sample: bool = False,
) -> AppliedPolicy:
    """Put a policy file in force.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    file : PolicyFile
    in_flight : str
        ``recall``, ``drain`` or ``keep``: what happens to open tasks that the version
        does not allow.
    if_active : int, optional
        Only if this version is in force now; 0: none.
    accept_past : int
        How many sets past its limits are accepted: exactly as many as there are.
    reason : str
        For the audit log; needed where something is accepted.
    sample : bool
        Whether the file may be an unchanged example of the package.

    Raises
    ------
    Usage
        The reason is missing, or not one line; the file is an untouched example.
    PastLimit
        Another number of sets is past its limits: nothing changes.
    """
    check_reason(accept_past, reason)
    if not sample and is_sample(file.source):
        raise Usage(
            f"{file.path} is an example of the package, unchanged",
            why="its rules are about other columns than yours: records would be loaded "
            "and shown under rules that nobody wrote for them",
            fix="write your own (dispatcher policy suggest FILE), or apply the "
            "example as it is with --sample",
        )
    terms = ApplyTerms(
        accept=accept_past,
        in_flight=InFlightAction(in_flight),
        if_active=if_active,
        withdrawing=withdrawing(workspace),
        actor=workspace.actor,
        reason=reason.strip(),
    )
    beside = _beside(store, file)
    with store.write() as tx:
        now = workspace.clock()
        return apply_policy(tx, file.source, at=now, terms=terms, links=beside)


def check_reason(accept_past: int, reason: str) -> None:
    """Refuse an acceptance without a reason, and a reason that is not one line.

    Raises
    ------
    Usage
    """
    if accept_past and not reason.strip():
        raise Usage(
            "say why limits that were crossed are accepted",
            why="the acceptance is kept in the ledger, the reason in the audit log",
            fix='--reason "decision 2026-31"',
        )
    if not reason.isprintable():
        raise Usage(
            "the reason is one line of text",
            why="it is a line of the audit log",
            fix='--reason "decision 2026-31"',
        )


def ask(file: PolicyFile, seen: Sequence[str], following: str) -> TestOutcome:
    """Judge whether a stranger who has seen fields of a record may see one more.

    Raises
    ------
    NotFound
        A field is unknown.
    Invalid
        A field is never shown, or nobody can have seen all of these.
    """
    fields = file.policy.entity.fields
    for name in (*seen, following):
        if name not in fields:
            raise NotFound(
                f"there is no field {name}",
                why=f"{file.path} does not name it",
                fix=f"ask about one of {listed(fields, 8)}",
                name=name,
                known=fields,
            )
        if not fields[name].send:
            raise Invalid(
                f"nobody is ever shown {name}",
                why="it has send = false",
                fix="ask about other fields, or take send = false away",
            )
    test = PolicyTest(
        name="",
        worker=STRANGER,
        ask=("record", following),
        expect_allow=True,
        seen=tuple(("record", name) for name in seen),
    )
    outcome = run_test(file.policy, test)
    if (step := outcome.impossible) is not None:
        before, name = seen[: step.step - 1], step.entry[1]
        raise Invalid(
            f"nobody can have seen {' and '.join(seen)} of one record: "
            f"the rule {step.refusal.property} denies it",
            why=refused_words(file.policy, step.refusal, before, name),
            fix=f"leave {name} out",
        )
    return outcome


def refused_words(
    policy: Policy, refusal: Refusal, seen: Sequence[str], following: str
) -> str:
    """Say what a rule keeps from somebody who has seen some fields of a record."""
    held, rule = {*seen, following}, policy.properties[refusal.property]
    whole = (
        fields
        for fields in rule.alternatives
        if following in fields and held.issuperset(fields)
    )
    others = [name for name in next(whole, ()) if name != following]
    if others and rule.disclosure.at is None and refusal.f == 1:
        return f"{rule.name} keeps {following} apart from {' and '.join(others)}"
    return (
        f"with {following}, {decimal(refusal.f)} of what {rule.name} protects would be "
        f"known, and the limit is less than {decimal(refusal.tau)}"
    )


def split_names(texts: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the names that texts have: each text is one, or several with commas between.

    A name may have commas itself: of the names that a text can begin with, the longest
    known one is taken.
    """
    names: list[str] = []
    for text in texts:
        parts = text.split(",")
        while parts:
            sizes = range(len(parts), 0, -1)
            found = (",".join(parts[:n]).strip() for n in sizes)
            size, name = next(
                ((n, one) for n, one in zip(sizes, found, strict=True) if one in known),
                (1, parts[0].strip()),
            )
            names += [name] if name else []
            del parts[:size]
    return list(dict.fromkeys(names))


def list_versions(store: Store) -> list[Version]:
    """Versions that were applied, the first one first."""
    with store.read() as tx:
        found = policy_rows.versions(tx)
    ends = [*(row.applied_at for row in found[1:]), None]
    return [Version(row, end) for row, end in zip(found, ends, strict=False)]


def show(store: Store, version: int | None = None) -> PolicyVersion:
    """Return a version byte for byte, by default the one in force.

    Raises
    ------
    NotFound
    """
    with store.read() as tx:
        found = policy_rows.policy_row(tx, version or policy_rows.version_in_force(tx))
    if found is None:
        raise NotFound(
            "there is no such policy version" if version else "no policy is in force",
            why="policy files are counted 1, 2, 3 ... as they are applied",
            fix="dispatcher policy apply puts policy.toml in force",
        )
    return found


def _beside(store: Store, file: PolicyFile) -> Beside:
    return read_links(file.policy, file.path.parent, store.key("pseudonym-key"))
