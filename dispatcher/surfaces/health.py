"""Health on the admin address: alive, and ready to work."""

from __future__ import annotations

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dispatcher.errors import DispatcherError
from dispatcher.store import Store
from dispatcher.store import ledger as gate_rows


class Leader(Protocol):
    """What health asks of the daemon."""

    def is_open(self) -> bool:
        """Whether new showings may begin: it leads and does not drain."""


def health_app(store: Store, leader: Leader) -> Starlette:
    """Make the app: ``/livez`` (no I/O) and ``/readyz`` (store, policy, lease)."""

    async def livez(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        lines = [("leads and does not drain", leader.is_open()), *_store_lines(store)]
        ready = all(ok for _, ok in lines)
        text = "".join(f"{'ok' if ok else 'FAIL':4} {name}\n" for name, ok in lines)
        return PlainTextResponse(text, status_code=200 if ready else 503)

    return Starlette(
        routes=[
            Route("/livez", livez, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ]
    )


def _store_lines(store: Store) -> list[tuple[str, bool]]:
    try:
        with store.read() as tx:
            return [
                ("store answers", True),
                ("a policy is in force", gate_rows.version_in_force(tx) > 0),
            ]
    except DispatcherError:
        return [("store answers", False)]
