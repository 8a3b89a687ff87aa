"""The admin address: alive, ready to work, and the metrics."""

from __future__ import annotations

from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dispatcher.app.guard import Guard
from dispatcher.core.errors import DispatcherError
from dispatcher.ledger import comparison
from dispatcher.store import Clock, Store, lease, migrations
from dispatcher.store import policies as policy_rows

TAIL: Final = 20
"""Lines of the system's chain that readiness checks again."""

Lines = list[tuple[str, bool]]


class Leader(Protocol):
    """What health asks of the daemon."""

    def is_open(self) -> bool:
        """Whether new showings may begin: it leads and does not drain."""


def health_app(
    store: Store, leader: Leader, clock: Clock, registry: CollectorRegistry
) -> Guard:
    """Make the app.

    ``/livez`` does no I/O. ``/readyz`` says whether this process can work: a market
    that is down is no reason against it. ``/metrics`` is for Prometheus.

    Parameters
    ----------
    store : Store
    leader : Leader
    clock : Clock
    registry : CollectorRegistry
    """

    async def livez(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        lines = [("leads and does not drain", leader.is_open())]
        lines += store_lines(store, clock)
        ready = all(ok for _, ok in lines)
        text = "".join(f"{'ok' if ok else 'FAIL':4} {name}\n" for name, ok in lines)
        return PlainTextResponse(text, status_code=200 if ready else 503)

    def metrics(request: Request) -> Response:
        encode, media = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": media})

    app = Starlette(
        routes=[
            Route("/livez", livez, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )
    return Guard(app, "admin", https=False)


def store_lines(store: Store, clock: Clock) -> Lines:
    """Look whether the store can be worked with, by what is there already.

    That it takes writes is seen by the lease: it is renewed every few seconds.
    """
    try:
        with store.read() as tx:
            held = lease.holder(tx, lease.SHARD)
            return [
                ("store answers", True),
                ("store takes writes", bool(held and held.leased_until > clock())),
                ("schema is this program's", migrations.version(tx) == migrations.HEAD),
                ("a policy is in force", policy_rows.version_in_force(tx) > 0),
                ("ledger is shipped", store.ships()),
                (
                    "ledger's tail reads as written",
                    comparison.chain_ends_hold(tx, lines=TAIL),
                ),
            ]
    except DispatcherError:
        return [("store answers", False)]
