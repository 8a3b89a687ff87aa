"""Rules: how near anybody is to each limit, and what one stranger could know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from dispatcher.operations import rules as operations
from dispatcher.surfaces.console.read_cache import Limit
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View
from dispatcher.surfaces.picture import body

NEAR: Final = 0.8
"""Share of a limit from which on it is amber, and nothing beside it says OK."""


def rule_page(rule: str, unit: str = "") -> str:
    """Address of a rule's page, or of one of its sets."""
    place = f"/rules/{quote(rule, safe='')}"
    return f"{place}/{quote(unit, safe='')}" if unit else place


RULES: Final = Table(
    "rules",
    "Rules and their limits",
    (
        Column("rule", "Rule", link=lambda row: rule_page(row["rule"])),
        Column("fields", "Fields", wide=True),
        Column("scope", "Scope"),
        Column("disclosure", "Disclosure"),
        Column("limit", "Limit"),
        Column("f", "Worst f", "number"),
        Column("share", "Worst share", "share"),
        Column("left", "Fields left", "number"),
        Column("nearest", "Pairs near", "number"),
        Column("workers", "Workers", "number"),
        Column("judged", "Pairs judged", "number"),
    ),
    Empty(
        "Every rule of the policy, and how near anybody is to its limit.",
        "No policy is in force.",
        command="dispatcher policy apply",
    ),
)
NEAREST: Final = replace(
    RULES,
    name="limits-table",
    caption="Rules and the worst share of each",
    columns=tuple(
        one
        for one in RULES.columns
        if one.key in ("rule", "share", "limit", "left", "workers")
    ),
)

SETS: Final = Table(
    "sets",
    "Sets nearest to the limit, each as one worker sees it",
    (
        Column(
            "set", "Set", "code", link=lambda row: rule_page(row["rule"], row["set"])
        ),
        Column(
            "worker", "Worker", link=lambda row: f"/workers?q=worker:{row['worker']}"
        ),
        Column("share", "Share", "share"),
        Column("f", "f", "number"),
        Column("left", "Fields left", "number"),
    ),
    Empty(
        "The sets of this rule that are nearest to its limit, with who holds of them.",
        "Nobody was shown anything that it judges.",
    ),
)
MOST_HOLDERS: Final = 8
"""Workers that stand beside each other over a set."""
HOLDERS: Final = Table(
    "holders",
    "Workers that hold something of this set, the nearest to the limit first",
    (
        Column(
            "worker", "Worker", link=lambda row: f"/workers?q=worker:{row['worker']}"
        ),
        Column("accounts", "Accounts", wide=True),
        Column("held", "Entries seen", "number"),
        Column("share", "Share", "share"),
        Column("after", "After the next", "share"),
        Column("left", "Fields left", "number"),
        Column("refused", "Refused next", wide=True),
    ),
    Empty("Who was shown something of this set.", "Nobody was shown any of it."),
    prefix="h.",
)
LADDER: Final = Table(
    "ladder",
    "Entries of this set, and how each stands for who is nearest",
    (
        Column("field", "Field"),
        Column("record", "Record", "code"),
        Column("state", "Answer", "state"),
        Column("shown", "Seen by", "number"),
    ),
    Empty("The entries that the rule judges together.", "It has none."),
)


def rules(view: View) -> Response:
    """``GET /rules``."""
    limits = view.cache.limits()
    return view.show(
        RULES.rows(view.request, rule_rows(limits)), verdict=verdict(limits)
    )


def show_rule(view: View) -> Response:
    """``GET /rules/NAME``."""
    name = view.request.path_params["rule"]
    found = view.cache.sets_of(name)
    tau = found.rule.tau
    rows = [
        {
            "set": one.unit,
            "worker": one.worker,
            "share": float(one.f / (tau or 1)),
            "f": str(one.f),
            "left": one.left,
            "rule": name,
        }
        for one in found.nearest
    ]
    tables = [SETS.rows(view.request, rows)] if view.may("workers.show") else []
    return view.show(
        *tables,
        title=name,
        rule=found.rule,
        found=found,
        limit=next((one for one in view.cache.limits() if one.name == name), None),
    )


def show_set(view: View) -> Response:
    """``GET /rules/NAME/SET``."""
    path = view.request.path_params
    found = operations.show_set(view.store, path["rule"], path["unit"])
    tau = found.rule.tau
    holders = [
        {
            "worker": one.worker,
            "accounts": one.accounts,
            "held": one.held,
            "share": float(one.f / (tau or 1)),
            "after": float(one.after / (tau or 1)),
            "left": one.left,
            "refused": sorted({field for _, field in one.refused}),
        }
        for one in found.holders
    ]
    seen = found.holders[:MOST_HOLDERS]
    ladder = replace(
        LADDER,
        columns=(
            *LADDER.columns,
            *(Column(one.worker, one.worker, "state") for one in seen),
        ),
    )
    rungs = [
        {
            "record": rung.record,
            "field": rung.field,
            "state": rung.state,
            "shown": len(rung.holders),
            **{one.worker: _standing(one, rung) for one in seen},
        }
        for rung in found.rungs
    ]
    return view.show(
        HOLDERS.rows(view.request, holders),
        ladder.rows(view.request, rungs),
        title=path["unit"],
        found=found,
        rule=found.rule,
        unit=path["unit"],
        next_ones=[one for one in found.holders if one.refused],
        more=len(found.holders) - len(seen),
    )


def _standing(one: operations.SetHolder, rung: operations.Rung) -> str:
    if one.worker in rung.holders:
        return "seen"
    return "refused" if (rung.record, rung.field) in one.refused else "allowed"


def stranger(view: View) -> Response:
    """``GET /rules/stranger``."""
    found = view.cache.picture()
    drawn = None if found is None else body(found[1])
    return view.show(drawn=drawn, at=None if found is None else found[0])


def rule_rows(limits: Sequence[Limit]) -> list[Row]:
    """Rows of the table of rules."""
    return [
        {
            "rule": one.name,
            "fields": one.fields,
            "scope": one.scope,
            "disclosure": one.kind,
            "limit": "none" if one.tau is None else f"f < {one.tau}",
            "f": None if one.share is None else str(one.f),
            "share": one.share,
            "left": one.left,
            "nearest": None if one.left is None else one.nearest,
            "workers": one.adversaries,
            "judged": one.judged,
        }
        for one in limits
    ]


def verdict(limits: list[Limit]) -> tuple[str, str]:
    """Say in a word and a sentence how near anybody is to any limit.

    Returns
    -------
    tuple of (str, str)
        ``OK``, ``WARN`` or ``FAIL``, and the sentence.
    """
    crossed = [limit for limit in limits if limit.crossed]
    if crossed:
        names = ", ".join(limit.name for limit in crossed)
        return "FAIL", f"A limit is reached: {names}."
    limited = [limit for limit in limits if limit.tau is not None]
    if not limited:
        return "WARN", "No limit is in force."
    nearest = limited[0]  # they come in this order
    if nearest.left is None and not nearest.share:
        return "OK", "No limit is crossed. Nobody is near any."
    worst = max(limited, key=lambda limit: limit.share or 0)
    said = ["No limit is crossed."]
    if nearest.left is not None:
        said.append(f"{fields_left(nearest.left, nearest.nearest)} of {nearest.name}.")
    if worst.share:
        word = "worker" if worst.at_worst == 1 else "workers"
        said.append(
            f"Worst share {worst.share:.2f} of {worst.name} "
            f"({worst.at_worst:,} {word})."
        )
    return "WARN" if (worst.share or 0) >= NEAR else "OK", " ".join(said)


def fields_left(left: int, units: int) -> str:
    """Say how many fields are left to the nearest refusal, and how often that is so."""
    fields = f"{left:,} {'field' if left == 1 else 'fields'}"
    times = "once" if units == 1 else f"{units:,} times"
    return f"Nearest: {fields} left to a refusal, {times},"
