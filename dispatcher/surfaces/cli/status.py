"""``dispatcher status``: how the work stands, and what needs the operator."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import EXIT_FINDINGS
from dispatcher.surfaces.cli.context import CliContext, leave, wall_clock

if TYPE_CHECKING:
    from dispatcher.preflight import Preflight
    from dispatcher.store import Store, Tx
    from dispatcher.store.planning import PlanRow

MINUTE: Final = 60_000_000
STANDS: Final = ("open", "answered", "in_doubt")
LATE: Final = 10  # minutes that a message may wait before somebody should look


def status(
    ctx: typer.Context,
    watch: Annotated[
        float | None, typer.Option(min=0.5, help="Repeat every so many seconds.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 9 if something needs you.")
    ] = False,
) -> None:
    """Show counts by state, who leads, and what needs you.

    With --watch and --json each look is one document on a line of its own.
    """
    context: CliContext = ctx.obj
    with context.open_store() as store:
        preflight = context.preflight(store)
        while True:
            found = collect(store, wall_clock(), preflight)
            context.show({"schema": "dispatcher.status/1", **found}, lay_out(found))
            if watch is None:
                break
            time.sleep(watch)
    if exit_code and found["needs_you"]:
        leave(EXIT_FINDINGS)


def collect(
    store: Store, now: int, preflight: Preflight | None = None
) -> dict[str, Any]:
    """Collect the numbers of one snapshot; ``preflight`` tells what cannot be sent."""
    from dispatcher.app.leadership import spoken
    from dispatcher.ledger import exhausted_fields as gate_burnt
    from dispatcher.operations.questions import gold_left
    from dispatcher.store import lease, statistics
    from dispatcher.store import ledger as gate_rows
    from dispatcher.store import pause as pauses
    from dispatcher.store import planning as plans

    with store.read() as tx:
        leader = lease.holder(tx, lease.SHARD)
        seal = statistics.last_seal(tx)
        oldest = statistics.oldest_waiting(tx)
        found: dict[str, Any] = {
            "at": now,
            "policy_version": gate_rows.version_in_force(tx),
            "leader": (
                spoken(leader.holder) if leader and leader.leased_until > now else None
            ),
            "epoch": leader.epoch if leader else 0,
            "counts": statistics.counts(tx),
            "tasks": statistics.states(tx, "task"),
            "connectors": [row._asdict() for row in statistics.connectors(tx, now)],
            "outbox": statistics.states(tx, "outbox"),
            "results": statistics.fields(tx),
            "workers": statistics.states(tx, "account"),
            "pilots": _pilots(tx),
            "gold_left": gold_left(tx),
            "oldest_waiting_minutes": (now - oldest) // MINUTE if oldest else 0,
            "sealed_minutes_ago": (now - seal[1]) // MINUTE if seal else None,
            "paused": pauses.paused(tx),
            "down": [row._asdict() for row in statistics.down(tx)],
            **_money(tx, now),
            "refused": (
                [one._asdict() for one in preflight.look(tx).obstacles]
                if preflight is not None
                else []
            ),
            "held_back": [row._asdict() for row in statistics.held_back(tx)],
        }
        version = found["policy_version"]
        applied = [
            row
            for row in plans.plans(tx)
            if row.state == "applied" and row.policy_version == version
        ]
        burnt = Counter(one.field for one in gate_burnt.burnt(tx))
    found["burnt"] = dict(burnt.most_common())
    found["plan"] = _plan(applied[0]) if applied else None
    found["needs_you"] = needs(found)
    return found


def _pilots(tx: Tx) -> list[dict[str, Any]]:
    """Runs with a pilot, and how many of their records wait."""
    from dispatcher.store import pilots

    return [
        {
            "run": one.name,
            "let_go": one.opened,
            "waiting": pilots.waiting(tx, one.run_id),
        }
        for one in pilots.under_way(tx)
    ]


def _money(tx: Tx, now: int) -> dict[str, Any]:
    """Return budgets in words, payments by state, and offers that wait for money."""
    from dispatcher.store import payables
    from dispatcher.surfaces.cli import runs

    return {
        "budgets": runs.documents(tx, now),
        "payments": payables.counts(tx),
        "waiting_for_money": payables.waiting_messages(tx, now),
    }


def _plan(row: PlanRow) -> dict[str, Any]:
    """Return what matters of the applied plan: its pairs and its nearest limit."""
    numbers = json.loads(row.summary)
    return {
        "plan": row.id,
        "pairs": numbers["pairs"],
        "worst": numbers["worst"],
        "complete": numbers["complete"],
    }


def needs(found: dict[str, Any]) -> list[str]:
    """Sentences about what only the operator can mend."""
    from dispatcher.preflight import Obstacle

    said: list[str] = []
    if not found["policy_version"]:
        said.append("no policy is in force: dispatcher policy apply")
    if not found["leader"]:
        said.append("no daemon runs: dispatcher up")
    said += [str(Obstacle(**one)) for one in found["refused"]]
    said += _field_needs(found)
    said += _message_needs(found)
    said += _answer_needs(found)
    said += _money_needs(found)
    told = {f"connector:{one['connector']}" for one in found["refused"]}
    said += [
        f"{scope} is paused: {why}"
        for scope, why in found["paused"].items()
        if scope not in told
    ]
    return said


def _field_needs(found: dict[str, Any]) -> list[str]:
    """Sentences about fields that nobody is shown any more."""
    said = [
        f"{_count(held['entries'], 'field is', 'fields are')} held back: "
        f"{held['reason']}"
        for held in found["held_back"]
    ]
    if found["burnt"]:
        total = sum(found["burnt"].values())
        names = ", ".join(f"{name} {n:,}" for name, n in found["burnt"].items())
        said.append(
            f"{_count(total, 'field is', 'fields are')} burnt, shown t times without "
            f"enough answers ({names}): dispatcher fields list --burnt"
        )
    return said


def _message_needs(found: dict[str, Any]) -> list[str]:
    """Sentences about messages that do not leave."""
    said = [
        f"connector {one['connector']} is down, the others are not affected: "
        f"{_count(one['messages'], 'message waits', 'messages wait')} "
        f"({one['error'] or 'no reason told'}): "
        f"dispatcher connectors test {one['connector']}"
        for one in found["down"]
    ]
    if found["outbox"].get("dead"):
        said.append(
            f"{_count(found['outbox']['dead'], 'message was', 'messages were')} "
            "given up: dispatcher queue dead list"
        )
    if found["oldest_waiting_minutes"] >= LATE:
        said.append(
            f"a message waits for {found['oldest_waiting_minutes']} min: "
            "dispatcher queue list --state ready"
        )
    return said


def _answer_needs(found: dict[str, Any]) -> list[str]:
    """Sentences about answers, and about who gives them."""
    said: list[str] = []
    if found["counts"]["quarantined"]:
        strange = found["counts"]["quarantined"]
        said.append(
            f"{_count(strange, 'answer was', 'answers were')} refused: "
            "dispatcher answers list --refused"
        )
    if found["results"].get("conflict"):
        said.append(
            f"{_count(found['results']['conflict'], 'field is', 'fields are')} in "
            "conflict: dispatcher records list --state conflict"
        )
    if found["workers"].get("stopped"):
        stopped = _count(found["workers"]["stopped"], "worker is", "workers are")
        said.append(
            f"{stopped} below the accuracy floor and given nothing new: "
            "dispatcher workers list, then dispatcher workers show ACCOUNT"
        )
    said += [
        f"the made-up questions of {name} are used up: "
        f"dispatcher workers gold add {name} FILE"
        for name, left in found["gold_left"].items()
        if not left
    ]
    said += [
        f"run {one['run']} has a pilot, "
        f"{_count(one['waiting'], 'record waits', 'records wait')}: "
        f"dispatcher runs pilot show {one['run']}, then accept"
        for one in found["pilots"]
    ]
    return said


def _money_needs(found: dict[str, Any]) -> list[str]:
    """Sentences about money that only a person can decide."""
    said = [
        f"the budget of run {one['run']} is used up, and nothing new is begun: "
        f"dispatcher runs budget set {one['run']} --cap ..."
        for one in found["budgets"]
        if one["used_up"] == "cap"
    ]
    if found["waiting_for_money"]:
        told = _count(found["waiting_for_money"], "message waits", "messages wait")
        said.append(f"{told} for money: dispatcher runs budget show")
    open_ = sum(found["payments"].get(state, 0) for state in ("held", "unknown"))
    if open_:
        waits = _count(open_, "payment waits", "payments wait")
        said.append(f"{waits} for your decision: dispatcher payments list")
    return said


def _by_connector(rows: list[dict[str, Any]], now: int) -> list[str]:
    """Lay out how the work of each connector stands."""
    lines = []
    for row in rows:
        parts = [f"{row[n]:,} {n.replace('_', ' ')}" for n in STANDS if row[n]]
        if row["rests_until"]:
            parts.append(f"rests {(row['rests_until'] - now) // MINUTE + 1} min")
        lines.append(f"  {row['connector']}: {' · '.join(parts) or 'nothing open'}")
    return lines


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def lay_out(found: dict[str, Any]) -> str:
    """Lay the numbers out for people."""

    def states(by_state: dict[str, int]) -> str:
        parts = [f"{count:,} {state}" for state, count in by_state.items() if count]
        return " · ".join(parts) or "none"

    counts = found["counts"]
    fields = {**found["results"], "open": 0}  # a field without an answer has no row
    fields["open"] = counts["entries"] - sum(fields.values())
    sealed = found["sealed_minutes_ago"]
    lines = [
        f"leader   {found['leader'] or 'none'}   policy version "
        f"{found['policy_version'] or 'none'}   ledger "
        + ("not sealed yet" if sealed is None else f"sealed {sealed} min ago"),
        f"records  {_count(counts['records'], 'record', 'records')} · "
        f"{_count(counts['entries'], 'field', 'fields')} · "
        f"{_count(counts['adversaries'], 'adversary', 'adversaries')} "
        f"({_count(counts['accounts'], 'account', 'accounts')})",
        f"ledger   {_count(counts['exposures'], 'exposure', 'exposures')}",
        f"tasks    {states(found['tasks'])}",
        *_by_connector(found["connectors"], found["at"]),
        f"fields   {states(fields)}   "
        f"({_count(counts['answers'], 'answer', 'answers')})",
        f"outbox   {states(found['outbox'])}",
    ]
    if found["plan"]:
        worst = found["plan"]["worst"]
        nearest = f"worst share {worst['share']:.2f} ({worst['rule']})" if worst else ""
        lines.insert(
            2,
            f"plan     {found['plan']['plan']} in force   "
            f"{_count(found['plan']['pairs'], 'showing', 'showings')} planned   "
            f"complete sets {found['plan']['complete']}   {nearest}".rstrip(),
        )
    for one in found["budgets"]:
        today = "   today's allowance is used up" if one["used_up"] == "day" else ""
        lines.append(
            f"money    {one['run']}: {one['paid']} paid · {one['promised']} promised or "
            f"owed · room {one['room']} of {one['cap']}{today}"
        )
    if found["needs_you"]:
        lines.append("needs you")
        lines += [f"  - {sentence}" for sentence in found["needs_you"]]
    return "\n".join(lines)
