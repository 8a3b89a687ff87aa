"""``dispatcher explain``: what the gate says of an ask, and what an error code means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.core.errors import NotFound, Usage
from dispatcher.surfaces.cli.context import CliContext

if TYPE_CHECKING:
    from dispatcher.ledger.explain import Explanation, Takers
    from dispatcher.preflight import Clearance
    from dispatcher.store import Tx
    from dispatcher.store.accounts import Account

CODE = re.compile(r"E\d{3}|POL\d{3}")


def explain(
    ctx: typer.Context,
    subject: Annotated[
        str, typer.Argument(help="RECORD.FIELD, or a code such as E203 or POL203.")
    ],
    worker: Annotated[
        str | None, typer.Option(help="May this account (CONNECTOR/NAME) see it?")
    ] = None,
    who: Annotated[bool, typer.Option("--who", help="Who could be shown it?")] = False,
) -> None:
    """Explain a decision of the gate, with the gate's own engine."""
    context: CliContext = ctx.obj
    if CODE.fullmatch(subject):
        text = _page(subject).rstrip("\n")
        document = {"schema": "dispatcher.page/1", "code": subject, "text": text}
        context.show(document, text)
        return
    if worker is not None and who:
        raise Usage(
            "--worker and --who together",
            why="one asks for one account, the other for all",
            fix="leave one of them out",
        )
    if worker is None and not who:
        if "." not in subject:
            from dispatcher.operations.fields import refuse_record

            with context.open_store() as store, store.read() as tx:
                refuse_record(store, tx, subject)
        raise Usage(
            "explain what?",
            why="a field is explained for a worker, or for everybody",
            fix="add --worker CONNECTOR/NAME, or --who",
        )
    from dispatcher import identity
    from dispatcher.ledger import explain as gate
    from dispatcher.operations.fields import find_entry

    with context.open_store() as store:
        preflight = context.preflight(store)
        with store.read() as tx:
            entry_id = find_entry(store, tx, subject)
            ways = _Ways.of(tx, entry_id, preflight.look(tx))
            takers = gate.takers(tx, entry_id, ways.fits, ways.clear.barred)
            if worker is None:
                _show_takers(context, subject, takers, ways)
                return
            account = identity.find(tx, worker)
            found = gate.explain(tx, entry_id, account.id)
            keys = _keys_of_seen(tx, found)
    lines = [_lay_out(worker, found, takers, ways.kind, keys)]
    against = ways.against(account)
    if against:
        lines.append(f"  it cannot be sent to {worker}: {against}")
    document = _document(subject, worker, found, takers)
    context.show(document | {"sent": not against, "to": ways.kind}, "\n".join(lines))


@dataclass(frozen=True)
class _Ways:
    """By which connectors a field goes, and to whom: feeds, or workers."""

    clear: Clearance
    ask: str | None
    size: int

    @classmethod
    def of(cls, tx: Tx, entry_id: int, clear: Clearance) -> _Ways:
        """Read what is sent of an entry; without a policy the gate says so."""
        from dispatcher.ledger.active_policy import current_policy, no_policy
        from dispatcher.store import booking

        force = current_policy(tx)
        if force is None:
            raise no_policy()
        _, field_id, size = booking.to_send(tx, [entry_id])[0].tolist()
        standing = force.fields.get(field_id)
        fields = force.policy.entity.fields
        ask = None if standing is None else fields[standing.name].ask
        return cls(clear, ask, size)

    @property
    def kind(self) -> str:
        """Who gets it."""
        return "feeds" if self.ask is None else "workers"

    def fits(self, account: Account) -> bool:
        """Whether the connector of an account carries such a field."""
        return not self._unfit(account.connector)

    def _unfit(self, connector: str) -> str:
        if self.ask is None and connector not in self.clear.feeds:
            return "nobody is asked for it, so that it goes to feeds alone"
        if not self.clear.carries(connector, self.ask):
            return f"{connector} asks nobody to {self.ask}"
        most = self.clear.most_bytes(connector)
        if most is not None and self.size > most:
            return f"it has {self.size:,} bytes, and {connector} takes {most:,}"
        return ""

    def against(self, account: Account) -> str:
        """Say why it cannot be sent to an account, whatever the gate says."""
        mine = [o for o in self.clear.obstacles if o.connector == account.connector]
        told = "; ".join(f"{one.what}: {one.fix}" for one in mine)
        barred = account.id in self.clear.barred
        return self._unfit(account.connector) or (told if barred else "")


def _keys_of_seen(tx: Tx, found: Explanation) -> dict[int, str]:
    from dispatcher.store import names

    return names.record_keys(tx, [seen.record_id for seen in found.seen])


def _show_takers(
    context: CliContext, subject: str, takers: Takers, ways: _Ways
) -> None:
    context.show(
        {
            "schema": "dispatcher.explain/1",
            "field": subject,
            "to": ways.kind,
            "can_take": list(takers.accounts),
            "adversaries": takers.adversaries,
        },
        "\n".join(takers.accounts),
    )
    context.say(
        f"{len(takers.accounts)} of {takers.adversaries} {ways.kind} could be shown it"
    )
    for one in ways.clear.obstacles:
        if ways.clear.carries(one.connector, ways.ask):
            context.say(str(one))


def _document(
    subject: str, worker: str, found: Explanation, takers: Takers
) -> dict[str, Any]:
    refusal = found.refusal
    return {
        "schema": "dispatcher.explain/1",
        "field": subject,
        "worker": worker,
        "allowed": found.allowed,
        "held": found.facts.held,
        "refused_by": refusal.rule if refusal else None,
        "showings": found.facts.showings,
        "t": found.facts.limit,
        "rules": [
            {
                "property": finding.property,
                "before": str(finding.before),
                "after": str(finding.after),
                "tau": None if finding.tau is None else str(finding.tau),
                "refused": finding.refused,
            }
            for finding in found.findings
        ],
        "can_take": len(takers.accounts),
        "adversaries": takers.adversaries,
    }


def _lay_out(
    worker: str, found: Explanation, takers: Takers, kind: str, keys: dict[int, str]
) -> str:
    refusal = found.refusal
    lines = ["ALLOW" if found.allowed else "DENY"]
    if refusal is not None:
        lines[0] += f"  {refusal.rule}: {refusal.why}"
    if found.facts.held:
        lines.append(
            "  held: the adversary saw it before; seeing it again adds nothing"
        )
    for finding in found.findings:
        limit = "no limit" if finding.tau is None else f"limit f < {finding.tau}"
        mark = "REFUSES" if finding.refused else "allows"
        lines.append(
            f"  {mark:8} {finding.property}: f {finding.before} -> {finding.after}, "
            f"{limit}"
        )
    for seen in found.seen:
        at = datetime.fromtimestamp(seen.at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        lines.append(
            f"  has: {keys.get(seen.record_id, '?')}.{seen.field}, "
            f"shown {at} to {seen.account}"
        )
    lines += [
        f"  as : the adversary of {worker}",
        f"  shown to {found.facts.showings} of at most {found.facts.limit} adversaries; "
        f"{len(takers.accounts)} of {takers.adversaries} {kind} could be shown it",
    ]
    return "\n".join(lines)


def _page(code: str) -> str:
    if code.startswith("POL"):
        from policies.document import CODES, explain_rule

        if code in CODES:
            return explain_rule(code)
    else:
        from dispatcher.surfaces.cli.error_pages import PAGES

        if code in PAGES:
            return PAGES[code]
    raise NotFound(
        f"there is no code {code}",
        why="codes are E and three digits, or POL and three digits",
        fix="take the code in brackets from the message",
    )
