"""``dispatcher explain``: a code, what the gate says of an ask, a worker, a record."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import NotFound, Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import CliContext, OneWorker

if TYPE_CHECKING:
    from dispatcher.operations.fields import FieldTakers, WorkerExplanation

CODE = re.compile(r"E\d{3}|POL\d{3}")


def explain(
    ctx: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            help="A code such as E203 or POL203, RECORD.FIELD, CONNECTOR/NAME of a "
            "worker, or a record's key.",
            autocompletion=completion.explained,
        ),
    ],
    worker: OneWorker = None,
    who: Annotated[bool, typer.Option("--who", help="Who could be shown it?")] = False,
) -> None:
    """Explain a code, a field, a worker or a record.

    A field is explained for one worker (--worker), or for all of them (--who). Of a
    record each field is listed: its state, who has seen it, and how many could.
    """
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
        _show(context, subject)
        return
    with context.open_store() as store:
        if worker is None:
            _show_takers(context, subject, fields.takers_of(context, store, subject))
            return
        found = fields.explain(context, store, subject, worker)
    lines = [_lay_out(found)]
    if found.obstacle:
        lines.append(f"  it cannot be sent to {worker}: {found.obstacle}")
    context.show(_document(subject, found), "\n".join(lines))


def _show(context: CliContext, name: str) -> None:
    """Explain a worker or a record."""
    from dispatcher.operations.explain import ExplainedRecord, explain
    from dispatcher.surfaces.cli import workers

    with context.open_store() as store:
        found = explain(context, store, name)
    if not isinstance(found, ExplainedRecord):
        workers.show_worker(context, found)
        return
    rows = [
        (
            one.field,
            one.state,
            ", ".join(one.seen_by) or "-",
            one.open_tasks,
            one.answers,
            "-"
            if one.could_take is None
            else count(one.could_take, one.recipients.removesuffix("s")),
            one.held_back or "-",
        )
        for one in found.fields
    ]
    header = (
        "field", "state", "seen by", "open tasks", "answers", "could see it",
        "held back",
    )  # fmt: skip
    context.show(
        {
            "schema": "dispatcher.record-explanation/1",
            "record": found.name,
            "pseudonym": found.pseudonym,
            "fields": [asdict(one) for one in found.fields],
        },
        context.table(rows, header),
    )
    waiting = sum(one.state == "open" for one in found.fields)
    context.say(
        f"{waiting} of {len(found.fields)} fields are open; "
        f"pseudonym {found.pseudonym}, as in the console and in the ledger"
    )


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

        known: Collection[str] = CODES
        if code in CODES:
            return explain_rule(code)
    else:
        from dispatcher.core.errors import PAGES

        known = PAGES
        if code in PAGES:
            return PAGES[code]
    raise NotFound(
        f"there is no code {code}",
        why="codes are E and three digits, or POL and three digits",
        fix="take the code in brackets from the message",
        name=code,
        known=known,
    )
