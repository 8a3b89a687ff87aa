"""The work as a whole: runs, plans, the policy, connectors and the queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Query
from starlette.responses import JSONResponse

from dispatcher.core.errors import NotFound
from dispatcher.operations import (
    connectors,
    discovery,
    doctor,
    pictures,
    plans,
    policies,
    queue,
    rules,
    runs,
)
from dispatcher.operations.records import Options
from dispatcher.strategies import find_solver
from dispatcher.surfaces import picture
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.api.calls import (
    Call,
    Called,
    Named,
    Number,
    Only,
    Parted,
    take,
)
from dispatcher.surfaces.api.problems import ProblemError
from policies.document import Severity, parse, run_test
from policies.model.objective import Preference
from policies.policy import Property

# -- the work as a whole -------------------------------------------------------------------


def show_status(call: Called) -> d.Status:
    """Show the numbers of the work, and what needs a person."""
    return take(d.Status, call.shared.status())


def list_findings(call: Called) -> Sequence[d.Finding]:
    """Check the installation: store, ledger, queue, connectors, disk."""
    return [take(d.Finding, one) for one in doctor.diagnose(call.workspace)]


def pause(call: Called, body: d.PauseRequest) -> d.Scope:
    """Stop new showings at once, of everything, one connector or one run."""
    return d.Scope(
        scope=queue.pause(
            call.workspace,
            call.store,
            body.reason,
            connector=body.connector,
            run=body.run,
        )
    )


def resume(call: Called, body: d.ResumeRequest) -> d.Resumed:
    """End a pause; other pauses stay."""
    done = queue.resume(
        call.workspace, call.store, connector=body.connector, run=body.run
    )
    return take(d.Resumed, done)


# -- runs ----------------------------------------------------------------------------------


def list_runs(call: Called) -> Sequence[d.RunLine]:
    """List runs: named sets of records."""
    return [d.RunLine(run=name) for name in runs.list_runs(call.store)]


def list_progress(call: Called) -> Sequence[d.RunProgress]:
    """Show how far each run is, the oldest first."""
    return [take(d.RunProgress, one) for one in runs.progress(call.store, exact=False)]


def show_rule(call: Called, rule: Named) -> d.RuleSets:
    """Show a rule of the policy in force, and its sets nearest to the limit."""
    found = rules.show(call.store, call.shared.usages, rule)
    given = {
        "rule": rule,
        "fields": sorted(found.rule.fields),
        "scope": found.rule.scope,
        "limit": _limit_of(found.rule),
    }
    return d.RuleSets.model_validate(vars(found) | given)


def show_set(call: Called, rule: Named, unit: Named) -> d.RuleSet:
    """Show a set of a rule: who was shown what of a record or person."""
    found = rules.show_set(call.store, rule, unit)
    return d.RuleSet(
        rule=rule,
        unit=unit,
        limit=_limit_of(found.rule),
        entries=[
            d.SetEntry.model_validate(vars(one) | {"holders": sorted(one.holders)})
            for one in found.rungs
        ],
        holders=[
            d.SetHolder.model_validate(vars(one) | {"refused": sorted(one.refused)})
            for one in found.holders
        ],
    )


def _limit_of(rule: Property) -> str | None:
    return None if rule.tau is None else str(rule.tau)


def show_run(call: Called, run: Named) -> d.Run:
    """Show a run: the files that it came from and was written to, and its budget."""
    return take(d.Run, runs.show(call.workspace, call.store, run))


def show_budget(call: Called, run: Named) -> d.Budget:
    """Show what a run may cost, and what of it is used."""
    found = runs.budgets(call.workspace, call.store, run)
    if not found:
        raise NotFound(
            "the run has no budget",
            why="none was set: what its work costs is not limited",
            fix="PUT /runs/{run}/budget with If-None-Match: * makes one",
        )
    return take(d.Budget, found[0])


def set_budget(call: Called, run: Named, body: d.BudgetRequest) -> d.Budget:
    """Set what a run may cost; a cap below what is taken stops new work."""
    amounts = {
        name: runs.read_amount(f"{given.currency}:{given.amount}", name)
        for name in ("cap", "per_day", "reward", "bonus")
        if (given := getattr(body, name)) is not None
    }
    fee = None if body.fee_percent is None else round(body.fee_percent * 10_000)
    change = runs.BudgetChange(amounts, fee, body.no_daily_limit)
    before = None if call.read is None else call.read.terms
    done = runs.set_budget(call.workspace, call.store, run, change, before)
    return take(d.Budget, done)


def show_pilot(call: Called, run: Named) -> d.Pilot:
    """Show the results of a run's released records."""
    return take(d.Pilot, runs.show_pilot(call.workspace, call.store, run))


def begin_pilot(call: Called, run: Named, body: d.PilotRequest) -> d.Pilot:
    """Show only so many records of a run, picked at random, until it is accepted."""
    begun = runs.begin_pilot(call.workspace, call.store, run, body.records)
    return take(d.Pilot, begun)


def accept_pilot(call: Called, run: Named) -> d.PilotAccepted:
    """Release all records of a run."""
    released = runs.accept_pilot(call.workspace, call.store, run)
    return d.PilotAccepted(released=released)


# -- plans and the policy ------------------------------------------------------------------


def list_plans(call: Called, part: Parted) -> d.Page[d.Plan]:
    """List plans, the newest first."""
    return part.slice(plans.list_plans(call.store), _plan)


def show_plan(call: Called, plan: Number) -> d.Plan:
    """Show a plan with its numbers."""
    return _plan(plans.show(call.store, plan))


def _plan(plan: plans.StoredPlan) -> d.Plan:
    return d.Plan(**(plan.row.model_dump() | {"summary": plan.summary}))


def apply_plan(call: Called, plan: Number) -> d.AppliedPlan:
    """Apply a plan: from now on its showings are booked and sent."""
    return take(d.AppliedPlan, plans.apply(call.workspace, call.store, plan))


def list_policies(call: Called) -> Sequence[d.VersionLine]:
    """List the versions of the policy that were applied, the first one first."""
    return [take(d.VersionLine, one) for one in policies.list_versions(call.store)]


def show_policy(call: Called) -> d.PolicyVersion:
    """Show the policy that is in force, byte for byte."""
    return take(d.PolicyVersion, policies.show(call.store))


def show_version(call: Called, version: Number) -> d.PolicyVersion:
    """Show a version of the policy, byte for byte."""
    return take(d.PolicyVersion, policies.show(call.store, version))


def draft_plan(call: Called, body: d.DraftPlan) -> JSONResponse:
    """Plan all fields that lack answers; nothing is sent before it is applied."""
    find_solver(body.algorithm)
    return call.later(
        d.Drafted,
        lambda _: plans.draft(
            call.workspace,
            call.store,
            partial=body.partial,
            dry_run=call.dry_run,
            seed=body.seed,
            algorithm=body.algorithm,
            time_limit=body.time_limit,
            prefer=None if body.prefer is None else Preference(body.prefer),
        ),
    )


def export_plan(call: Called) -> JSONResponse:
    """Write the backlog as an instance: numbers alone, for other solvers."""

    def work(_: str) -> d.ExportedPlan:
        with call.shared.workplace() as place:
            path = place / "backlog.json"
            done = plans.export(call.workspace, call.store, path)
            instance = json.loads(path.read_bytes())
        return d.ExportedPlan(instance=instance, notes=done.notes)

    return call.later(d.ExportedPlan, work)


def sweep_frontier(call: Called, body: d.FrontierRequest) -> JSONResponse:
    """Sweep the strictness of the policy: workers and utility at each limit on f."""
    return call.later(
        d.Frontier,
        lambda _: plans.sweep(
            call.workspace,
            call.store,
            body.points,
            seed=body.seed,
            time_limit=body.time_limit,
        ),
    )


def check_policy(call: Called, body: d.PolicyText) -> d.Checked:
    """Check a policy file: every error and doubt with its place."""
    del call
    found = parse(body.source.encode())
    return d.Checked(
        valid=found.policy is not None,
        diagnostics=[take(d.Diagnostic, one) for one in found.diagnostics],
    )


def test_policy(call: Called, body: d.PolicyText) -> d.TestedPolicy:
    """Run a policy's own tests."""
    policy = _policy(call, body).policy
    return d.TestedPolicy(
        tests=[
            d.PolicyTest(test=case.name, passed=run_test(policy, case).passed)
            for case in policy.tests
        ]
    )


def ask_policy(call: Called, body: d.AskPolicy) -> d.AskedPolicy:
    """Judge whether a stranger who has seen fields of a record may see one more."""
    found = policies.ask(_policy(call, body), body.seen, body.following)
    return d.AskedPolicy(
        allowed=found.allowed,
        refused_by=[one.property for one in found.refusals],
        unjudged=found.unjudged,
    )


def draw_policy(call: Called, body: d.DrawPolicy) -> JSONResponse:
    """Draw what one stranger could know; fetch the page once from the operation."""
    file = None
    if body.source is not None:
        file = _policy(call, d.PolicyText(source=body.source))

    def work(number: str) -> d.Drawn:
        if file is None:
            found = pictures.in_force(call.store, seconds=body.time_limit)
        else:
            folder = call.workspace.policy_path.parent
            found = pictures.of_file(
                file.policy, folder, None, Options(), seconds=body.time_limit
            )
        name = found.policy.name
        page = picture.page(found, f"Drawn from {name}.")
        kept = call.shared.requests.file(number, f"{name}.html", call.act)
        kept.write(page.encode())
        return d.Drawn.model_validate(
            {
                "sentences": picture.sentences(found),
                "finished": found.finished,
                "one": found.view,
                "worst": found.worst,
                "most_telling": found.telling,
                "two_together": found.pair,
                "one_of_two_records": found.several,
            }
        )

    return call.later(d.Drawn, work)


def suggest_policy(
    call: Called,
    numbered: Annotated[
        bool, Query(description="No column is a key: rows are numbered.")
    ] = False,
    feed: Annotated[
        bool, Query(description="Fields are sent to a receiver, and nobody is asked.")
    ] = False,
    ask: Annotated[
        list[str] | None,
        Query(description="Only these columns are sent and asked.", max_length=1000),
    ] = None,
) -> JSONResponse:
    """Draft a policy from a file of records; no value is in it, nothing is loaded."""
    upload = call.file()

    def work(_: str) -> d.SuggestedPolicy:
        with upload as path:
            found = discovery.suggest(
                path, Options(numbered=numbered), feed=feed, ask=ask or ()
            )
        return d.SuggestedPolicy(
            source=found.text,
            kept_apart=found.kept_apart,
            withheld=found.withheld,
            more_with=found.extra,
        )

    return call.later(d.SuggestedPolicy, work)


def compare_policy(call: Called, body: d.PolicyText) -> d.Comparison:
    """Compare a policy with the one in force."""
    found = policies.compare(call.store, _policy(call, body).policy)
    return take(d.Comparison, found)


def plan_policy(call: Called, body: d.PlanPolicy) -> JSONResponse:
    """Find what putting a policy in force would do; nothing is changed."""
    file = _policy(call, body)

    def work(_: str) -> d.PolicyImpact:
        found = policies.preview(
            call.workspace,
            call.store,
            file,
            in_flight=body.in_flight,
            time_limit=body.time_limit,
        )
        masked = replace(found, findings=tuple(call.masked(found.findings)))
        return take(d.PolicyImpact, masked)

    return call.later(d.PolicyImpact, work)


def apply_policy(call: Called, body: d.ApplyPolicy) -> d.AppliedPolicy:
    """Put a policy in force, over the version that `If-Match` names."""
    done = policies.apply(
        call.workspace,
        call.store,
        _policy(call, body),
        in_flight=body.in_flight,
        if_active=0 if call.read is None else call.read.version,
        accept_past=body.accept_past,
        reason=body.reason,
        sample=body.sample,
    )
    return take(d.AppliedPolicy, done)


def _policy(call: Call, body: d.PolicyText) -> policies.PolicyFile:
    """Read a policy; one that is invalid is refused with its first error."""
    source = body.source.encode()
    found = parse(source)
    if found.policy is None:
        first = next(one for one in found.diagnostics if one.severity is Severity.ERROR)
        raise ProblemError(
            422,
            f"line {first.line}, column {first.column}: {first.code}",
            "POST /policies:check names every error",
            pointer="/source",
        )
    return policies.PolicyFile(call.workspace.policy_path, source, found.policy)


# -- connectors and the queue --------------------------------------------------------------


def list_connectors(call: Called) -> Sequence[d.ConnectorWithHealth]:
    """List the connectors of the settings, and how each fares."""
    return [
        _with_health(call, one) for one in connectors.list_connectors(call.workspace)
    ]


def list_kinds(call: Called) -> Sequence[d.Connector]:
    """List all kinds of connectors that can be set up."""
    del call
    return [take(d.Connector, one) for one in connectors.list_kinds()]


def show_connector(call: Called, connector: Named) -> d.ConnectorWithHealth:
    """Show a connector with all that it declares, and how it fares."""
    return _with_health(call, connectors.show(call.workspace, connector))


def _with_health(call: Call, found: connectors.Connector) -> d.ConnectorWithHealth:
    fares = connectors.health(call.workspace, call.store)[found.name]
    return take(d.ConnectorWithHealth, replace(found, health=fares))


def disable_connector(call: Called, connector: Named, body: d.Reveal) -> d.Enabled:
    """Stop sending and showing through a connector; answers are still taken."""
    connectors.values_of(call.workspace, connector)
    connectors.disable(call.workspace, call.store, connector, body.reason)
    return d.Enabled(name=connector, enabled=False)


def enable_connector(call: Called, connector: Named, body: d.Enable) -> d.Enabled:
    """Enable a connector, once it works."""
    connectors.values_of(call.workspace, connector)
    if not body.untested:
        opened = connectors.open_one(call.workspace, connector)
        connectors.check_answer(connector, connectors.ask(opened))
    connectors.enable(call.store, connector)
    return d.Enabled(name=connector, enabled=True)


def list_messages(call: Called, part: Parted, state: Only = None) -> d.Page[d.Message]:
    """List messages to connectors, oldest first."""
    rows = queue.list_messages(call.store, state, part.limit + 1, part.after or 0)
    names = ("id", "connector", "worker", "kind", "state", "tries", "error")
    return part.page(
        rows,
        lambda row: row[0],
        lambda row: d.Message.model_validate(dict(zip(names, row, strict=True))),
    )


def retry_messages(call: Called, body: d.RetryMessages) -> d.Retried:
    """Requeue messages that were given up; the gate judges what they show anew."""
    found = queue.find_dead(call.store, body.ids, body.connector)
    return take(d.Retried, queue.retry(call.workspace, call.store, found))


def withdraw_messages(call: Called, body: d.WithdrawMessages) -> d.Withdrawn:
    """Take messages back with their tasks, which are planned anew."""
    return take(d.Withdrawn, queue.withdraw(call.workspace, call.store, body.ids))


def test_connector(call: Called, connector: Named) -> d.ConnectorState:
    """Ask a connector for something that is not there, to see whether it answers."""
    found = connectors.ask(connectors.open_one(call.workspace, connector))
    connectors.note_balance(call.workspace, connector, found)
    return take(d.ConnectorState, found)


def reconcile_connector(
    call: Called, connector: Named, body: d.Reconcile
) -> JSONResponse:
    """Compare what a market has of this store with what the store knows."""
    connectors.values_of(call.workspace, connector)
    return call.later(
        d.Drift,
        lambda _: connectors.reconcile(
            call.workspace,
            call.store,
            connector,
            mend=body.mend and not call.dry_run,
            trust=body.trust,
        ),
    )


def add_connector(call: Called, body: d.AddConnector) -> d.ConnectorName:
    """Add a connector to the settings; it stays disabled until it is enabled."""
    if "secret_file" in body.settings:
        raise ProblemError(
            422,
            "settings name a file of the daemon's machine",
            "send the secret itself as `secret`",
            pointer="/settings/secret_file",
        )
    secret = None if body.secret is None else body.secret.encode()
    connectors.add(
        call.workspace,
        body.name,
        ({} if body.kind is None else {"kind": body.kind}) | body.settings,
        secret,
        dry_run=call.dry_run,
        inside=True,
    )
    return _reloaded(call, body.name)


def set_secret(call: Called, connector: Named, body: d.Secret) -> d.ConnectorName:
    """Replace a connector's secret, once it opens with the new one."""
    connectors.set_secret(
        call.workspace, connector, body.secret.encode(), dry_run=call.dry_run
    )
    return _reloaded(call, connector)


def _reloaded(call: Call, connector: str) -> d.ConnectorName:
    if not call.dry_run:
        call.shared.reload()
    return d.ConnectorName(name=connector)
