"""``dispatcher explain``: what the gate says of an ask, and what an error code means."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import NotFound, Usage
from dispatcher.surfaces.cli.context import CliContext, OneWorker

if TYPE_CHECKING:
    from dispatcher.operations.fields import FieldTakers, WorkerExplanation

CODE = re.compile(r"E\d{3}|POL\d{3}")


def explain(
    ctx: typer.Context,
    subject: Annotated[
        str, typer.Argument(help="RECORD.FIELD, or a code such as E203 or POL203.")
    ],
    worker: OneWorker = None,
    who: Annotated[bool, typer.Option("--who", help="Who could be shown it?")] = False,
) -> None:
    """Explain a code, a field, a worker or a record."""
    context: CliContext = ctx.obj
    if CODE.fullmatch(subject):
        text = _page(subject).rstrip("\n")
        document = {"schema": "dispatcher.page/1", "code": subject, "text": text}
        context.show(document, text)
        return
    from dispatcher.operations import fields

    if worker is not None and who:
        raise Usage(
            "--worker and --who together",
            why="one asks for one account, the other for all",
            fix="leave one of them out",
        )
    if worker is None and not who:
        if "." not in subject:
            with context.open_store() as store:
                fields.refuse_bare_record(store, subject)
        raise Usage(
            "explain what?",
            why="a field is explained for a worker, or for everybody",
            fix="add --worker CONNECTOR/NAME, or --who",
        )
    with context.open_store() as store:
        if worker is None:
            _show_takers(context, subject, fields.takers_of(context, store, subject))
            return
        found = fields.explain(context, store, subject, worker)
    lines = [_lay_out(found)]
    if found.obstacle:
        lines.append(f"  it cannot be sent to {worker}: {found.obstacle}")
    context.show(_document(subject, found), "\n".join(lines))


def _show_takers(context: CliContext, subject: str, found: FieldTakers) -> None:
    takers, route = found.takers, found.route
    context.show(
        {
            "schema": "dispatcher.explain/1",
            "field": subject,
            "to": route.recipients,
            "can_take": list(takers.accounts),
            "adversaries": takers.adversaries,
        },
        "\n".join(takers.accounts),
    )
    context.say(
        f"{len(takers.accounts)} of {takers.adversaries} {route.recipients} could be "
        "shown it"
    )
    for one in route.obstacles:
        context.say(str(one))


def _document(subject: str, found: WorkerExplanation) -> dict[str, Any]:
    decided = found.explanation
    refusal, facts = decided.refusal, decided.facts
    return {
        "schema": "dispatcher.explain/1",
        "field": subject,
        "worker": found.worker,
        "allowed": decided.allowed,
        "held": facts.held,
        "refused_by": refusal.rule if refusal else None,
        "showings": facts.showings,
        "t": facts.limit,
        "rules": [
            {
                "rule": finding.property,
                "before": str(finding.before),
                "after": str(finding.after),
                "tau": None if finding.tau is None else str(finding.tau),
                "refused": finding.refused,
            }
            for finding in decided.findings
        ],
        "can_take": len(found.takers.accounts),
        "adversaries": found.takers.adversaries,
        "sent": not found.obstacle,
        "to": found.recipients,
    }


def _lay_out(found: WorkerExplanation) -> str:
    decided, takers = found.explanation, found.takers
    refusal, facts = decided.refusal, decided.facts
    lines = ["ALLOW" if decided.allowed else "DENY"]
    if refusal is not None:
        lines[0] += f"  {refusal.rule}: {refusal.why}"
    if facts.held:
        lines.append("  held: the worker saw it before; seeing it again adds nothing")
    for finding in decided.findings:
        limit = "no limit" if finding.tau is None else f"limit f < {finding.tau}"
        mark = "REFUSES" if finding.refused else "allows"
        lines.append(
            f"  {mark:8} {finding.property}: f {finding.before} -> {finding.after}, "
            f"{limit}"
        )
    for seen in decided.seen:
        at = datetime.fromtimestamp(seen.at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        lines.append(
            f"  has: {found.keys.get(seen.record_id, '?')}.{seen.field}, "
            f"shown {at} to {seen.account}"
        )
    lines += [
        f"  as : the worker behind {found.worker}",
        f"  shown to {facts.showings} of at most {facts.limit} workers; "
        f"{len(takers.accounts)} of {takers.adversaries} {found.recipients} could be "
        "shown it",
    ]
    return "\n".join(lines)


def _page(code: str) -> str:
    if code.startswith("POL"):
        from policies.document import CODES, explain_rule

        if code in CODES:
            return explain_rule(code)
    else:
        from dispatcher.core.errors import PAGES

        if code in PAGES:
            return PAGES[code]
    raise NotFound(
        f"there is no code {code}",
        why="codes are E and three digits, or POL and three digits",
        fix="take the code in brackets from the message",
    )
