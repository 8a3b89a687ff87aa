"""Requests of the API that act: what was asked under which key, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete, update
from sqlmodel import col, select

from dispatcher.model import ApiRequest
from dispatcher.store.statements import insert
from dispatcher.store.transaction import Tx

_BEGIN: Final = (
    insert(ApiRequest)
    .values(
        id=bindparam("number"),
        caller=bindparam("by"),
        operation=bindparam("of"),
        key=bindparam("given"),
        digest=bindparam("asked"),
        state="running",
        process=bindparam("where"),
        status=0,
        started_at=bindparam("now"),
    )
    .on_conflict_do_nothing()
)
_ID: Final = col(ApiRequest.id) == bindparam("number")
_BY_ID: Final = select(ApiRequest).where(_ID)
_BY_KEY: Final = select(ApiRequest).where(
    ApiRequest.caller == bindparam("by"), ApiRequest.key == bindparam("given")
)
_LATEST: Final = (
    select(ApiRequest.id)
    .where(
        ApiRequest.caller == bindparam("by"),
        ApiRequest.operation == bindparam("of"),
        ApiRequest.state == "done",
        col(ApiRequest.key).is_(None),
    )
    .order_by(col(ApiRequest.started_at).desc())
    .limit(1)
)
_END: Final = (
    update(ApiRequest)
    .where(_ID)
    .values(
        state=bindparam("then"),
        status=bindparam("code"),
        body=bindparam("said"),
        ended_at=bindparam("now"),
    )
)
_DROP: Final = delete(ApiRequest).where(_ID)
_FORGET: Final = delete(ApiRequest).where(
    col(ApiRequest.started_at) < bindparam("moment"), col(ApiRequest.state) != "running"
)
_INTERRUPT: Final = (
    update(ApiRequest)
    .where(
        col(ApiRequest.state) == "running",
        col(ApiRequest.process).not_in(bindparam("living", expanding=True)),
    )
    .values(state="interrupted", ended_at=bindparam("now"))
)


def begin(
    tx: Tx,
    number: str,
    *,
    caller: str,
    operation: str,
    key: str | None,
    digest: str,
    process: str,
    now: int,
) -> bool:
    """Store a request before it acts; False if its caller used the key before."""
    given = {
        "number": number,
        "by": caller,
        "of": operation,
        "given": key,
        "asked": digest,
        "where": process,
        "now": now,
    }
    return tx.execute(_BEGIN, given).rowcount == 1


def by_key(tx: Tx, caller: str, key: str) -> ApiRequest | None:
    """Return the request that a caller sent under a key."""
    return tx.model(_BY_KEY, {"by": caller, "given": key})


def by_id(tx: Tx, number: str) -> ApiRequest | None:
    """Return one request."""
    return tx.model(_BY_ID, {"number": number})


def latest_done(tx: Tx, caller: str, operation: str) -> str | None:
    """Return the id of the last long operation of a caller that is done."""
    return tx.scalar(_LATEST, {"by": caller, "of": operation})


def end(
    tx: Tx, number: str, *, state: str, status: int, body: bytes | None, now: int
) -> None:
    """Keep what came of a request: ``done`` or ``failed``, and what was answered."""
    given = {"number": number, "then": state, "code": status, "said": body, "now": now}
    tx.execute(_END, given)


def drop(tx: Tx, number: str) -> None:
    """Forget a request that changed nothing: its key may be used again."""
    tx.execute(_DROP, {"number": number})


def forget_before(tx: Tx, moment: int) -> None:
    """Delete requests that ended, and began before a time."""
    tx.execute(_FORGET, {"moment": moment})


def interrupt(tx: Tx, living: Sequence[str], now: int) -> None:
    """Mark what processes began that are gone: they will never end it."""
    tx.execute(_INTERRUPT, {"living": list(living), "now": now})
