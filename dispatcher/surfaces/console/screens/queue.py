"""Queue: what waits to be sent, how long by now, and what was given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from starlette.responses import Response

from dispatcher.model import TRANSITIONS
from dispatcher.surfaces.console.screens.workers import worker_page
from dispatcher.surfaces.console.tables import Column, Empty, Row, Table
from dispatcher.surfaces.console.view import View

CONNECTORS: Final = Table(
    "waiting",
    "Messages by connector and state",
    (
        Column(
            "connector",
            "Connector",
            link=lambda row: (
                f"/queue?state={row['state']}&connector={row['connector']}"
            ),
        ),
        Column("state", "State", "state"),
        Column("messages", "Messages", "number"),
        Column("oldest", "Oldest", "time"),
    ),
    Empty(
        "Messages to every connector, with the age of the oldest.",
        "None was written yet: they come with the first plan that is applied.",
    ),
    prefix="c.",
)


def _worker(row: Row) -> str:
    return worker_page(row["worker"])


MESSAGES: Final = Table(
    "messages",
    "Messages",
    (
        Column("id", "Message", "number"),
        Column("connector", "Connector"),
        Column("worker", "Worker", link=_worker),
        Column("kind", "Kind"),
        Column("state", "State", "state"),
        Column("tries", "Tries", "number"),
        Column("created", "Written", "time"),
        Column("due", "Next try", "time"),
        Column("error", "Last error", wide=True),
    ),
    Empty("", ""),
)
CHOSEN: Final = {
    "ready": ("withdraw-messages",),
    "sent": ("withdraw-messages",),
    "dead": ("retry-messages", "withdraw-messages"),
}
"""What can be done with messages of a state."""
_MEANINGS: Final = {
    "ready": "Messages that wait to be sent, the oldest first.",
    "leased": "Messages that are being sent now.",
    "sent": "Messages that reached their connector.",
    "dead": "Messages that were given up after all their tries.",
    "cancelled": "Messages that were taken back before they were sent.",
}


def queue(view: View) -> Response:
    """``GET /queue``."""
    states = list(TRANSITIONS["outbox"])
    waiting = view.cache.waiting()
    counts = {
        state: sum(one.messages for one in waiting if one.state == state)
        for state in states
    }
    first = next((one for one in ("dead", "ready") if counts.get(one)), "ready")
    state = view.chosen("state", states, first)
    connector = view.request.query_params.get("connector") or None
    acts = CHOSEN.get(state, ()) if view.may("queue.retry") else ()
    table = replace(
        MESSAGES,
        choose=("id", "ids", acts) if acts else None,
        empty=Empty(_MEANINGS[state], f"No message is {state}."),
    )
    messages = table.part(
        view.request,
        lambda after, most: view.cache.messages(state, connector, after, most),
        filtered=connector is not None,
    )
    by_connector = CONNECTORS.rows(
        view.request,
        [
            {
                "connector": one.connector,
                "state": one.state,
                "messages": one.messages,
                "oldest": one.oldest,
            }
            for one in waiting
        ],
    )
    return view.show(
        messages,
        by_connector,
        state=state,
        states=states,
        counts=counts,
        connector=connector,
        oldest=min(
            (
                one.oldest
                for one in waiting
                if one.state in ("ready", "leased") and one.oldest is not None
            ),
            default=None,
        ),
    )
