"""Workers: how near each is to each limit, and all about one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from dispatcher.ledger.lines import adversary_name
from dispatcher.operations import payments, workers
from dispatcher.surfaces import charts
from dispatcher.surfaces.console.screens.rules import rule_page
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View


def _page_of(row: Row) -> str | None:
    return worker_page(row["accounts"][0]) if row["accounts"] else None


def worker_page(account: str) -> str:
    """Address of an account's page; ``../`` in its name leads to no other one."""
    connector, _, name = account.partition("/")
    return f"/workers/{connector}/{quote(name, safe='')}"


WORKERS: Final = Table(
    "workers",
    "Workers and their shares",
    (
        Column("worker", "Worker", link=_page_of),
        Column("accounts", "Accounts", wide=True),
        Column("state", "State", "state"),
        Column("left", "Fields left", "number"),
    ),
    Empty(
        "Every worker, and how near it is to each limit.",
        "No worker is registered.",
        button="Add workers",
        href="/do/add-workers",
    ),
)
_LAST: Final = (
    Column("showings", "Showings", "number"),
    Column("groups", "Groups", wide=True),
)


def list_workers(view: View) -> Response:
    """``GET /workers``: a heat map, the nearest to a limit first."""
    limits = view.cache.limits()
    rules = tuple(Column(one.name, one.name, "share") for one in limits)
    heads = WORKERS.columns
    table = replace(WORKERS, columns=(*heads, *rules, *_LAST))
    rows = table.rows(view.request, view.cache.workers())
    shown = view.cache.showings([row["id"] for row in rows.shown])
    filled = [{**row, "showings": shown.get(row["id"], 0)} for row in rows.shown]
    if rows.file() is not None:
        ids = [row["id"] for row in rows.whole]
        all_shown = view.cache.showings(ids)
        whole = [{**row, "showings": all_shown.get(row["id"], 0)} for row in rows.whole]
        rows = replace(rows, whole=whole)
    return view.show(
        replace(rows, shown=filled),
        limits=limits,
        accounts=view.cache.accounts(),
    )


RULES: Final = Table(
    "rules",
    "Rules and how near this worker is to each limit",
    (
        Column("rule", "Rule", link=lambda row: rule_page(row["rule"])),
        Column("share", "Share", "share"),
        Column("f", "f"),
        Column("limit", "Limit"),
        Column("left", "Fields left", "number"),
        Column("units", "Records or people", "number"),
        Column("full", "Of them full", "number"),
        Column("refused", "Refused next", wide=True),
    ),
    Empty(
        "Every rule that judges something this worker saw.",
        "Nothing that a rule judges was shown to this worker.",
    ),
)
SEEN: Final = Table(
    "seen",
    "Fields this worker saw, the latest first",
    (
        Column("at", "Shown", "time"),
        Column(
            "record", "Record", "code", link=lambda row: f"/records/{row['record']}"
        ),
        Column("field", "Field"),
        Column("account", "Account"),
        Column("cause", "Why"),
    ),
    Empty("Every field that was shown, when, and why.", "Nothing was shown yet."),
    prefix="seen.",
)
PAYMENTS: Final = Table(
    "payments",
    "Payments",
    (
        Column("payment", "Payment"),
        Column("run", "Run"),
        Column("amount", "Amount"),
        Column("state", "State", "state"),
        Column("at", "Changed", "time"),
        Column("why", "Why", wide=True),
    ),
    Empty("What this worker earned.", "No payment of this worker is open."),
    prefix="pay.",
)


def show_worker(view: View) -> Response:
    """``GET /workers/CONNECTOR/NAME``."""
    path = view.request.path_params
    name = f"{path['connector']}/{path['name']}"
    found = workers.show(view.workspace, view.store, name)
    rules = [
        {
            "rule": one.rule,
            "share": float(one.share),
            "f": str(one.f),
            "limit": "none" if one.tau is None else f"f < {one.tau}",
            "left": one.left,
            "units": one.units,
            "full": one.full,
            "refused": one.refused,
        }
        for one in found.seen.nearness
    ]
    adversary = found.account.adversary_id
    rules_table = RULES if view.may("policy.show") else RULES.unlinked()
    seen_table = SEEN if view.may("records.show") else SEEN.unlinked()
    tables = [
        rules_table.rows(view.request, rules),
        seen_table.rows(view.request, view.cache.seen_by(adversary)),
    ]
    if view.may("payments.list"):
        owed = payments.list_payments_of(
            view.store, found.account.id, ["held", "unknown", "due"], limit=1_000
        )
        own = [
            {
                "payment": f"{row.kind}-{row.about}",
                "run": row.run,
                "amount": payments.amount_of(row),
                "state": row.state,
                "at": row.at,
                "why": row.why or "",
            }
            for row in owed
        ]
        tables.append(PAYMENTS.rows(view.request, own))
    confusions = (
        view.cache.agreement().of(adversary_name(adversary))
        if view.may("answers.agreement")
        else []
    )
    return view.show(
        *tables,
        title=name,
        found=found,
        worker=name,
        confusions=[charts.confusion(one) for one in confusions],
    )
