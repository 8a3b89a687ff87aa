"""Links and sessions of the operators' console, by the digests of their secrets."""

from __future__ import annotations

import json
from typing import NamedTuple

from dispatcher.store.transaction import Tx


class SessionRow(NamedTuple):
    """When a session was opened and last used; ``ended_at`` once it was ended."""

    opened_at: int
    seen_at: int
    ended_at: int | None


def put_link(tx: Tx, digest: str, made_at: int, ends_at: int) -> None:
    """Keep a link until it is used or over."""
    tx.execute(
        "INSERT INTO sign_in_link (digest, made_at, ends_at) VALUES (?, ?, ?)",
        [digest, made_at, ends_at],
    )


def use_link(tx: Tx, digest: str, now: int) -> bool:
    """Use a link up; False if there is none, or it is over or used."""
    return (
        tx.execute(
            "UPDATE sign_in_link SET used_at = ?"
            " WHERE digest = ? AND used_at IS NULL AND made_at <= ? AND ends_at > ?",
            [now, digest, now, now],
        )
        == 1
    )


def open_session(tx: Tx, digest: str, now: int) -> None:
    """Keep a new session."""
    tx.execute(
        "INSERT INTO operator_session (digest, opened_at, seen_at) VALUES (?, ?, ?)",
        [digest, now, now],
    )


def session(tx: Tx, digest: str) -> SessionRow | None:
    """One session, however old."""
    row = tx.one(
        "SELECT opened_at, seen_at, ended_at FROM operator_session WHERE digest = ?",
        [digest],
    )
    return None if row is None else SessionRow(*row)


def touch_session(tx: Tx, digest: str, now: int) -> None:
    """Note that a session that goes on was used now."""
    tx.execute(
        "UPDATE operator_session SET seen_at = ?"
        " WHERE digest = ? AND ended_at IS NULL AND seen_at < ?",
        [now, digest, now],
    )


def end_sessions(tx: Tx, now: int, digest: str | None = None) -> int:
    """End one session, or all; return how many went on until now."""
    return tx.execute(
        "UPDATE operator_session SET ended_at = ? WHERE ended_at IS NULL"
        " AND (CAST(? AS TEXT) IS NULL OR digest = ?)",
        [now, digest, digest],
    )


def end_links(tx: Tx, now: int) -> int:
    """Let no link that was not used yet be used any more; return how many."""
    return tx.execute(
        "UPDATE sign_in_link SET used_at = ? WHERE used_at IS NULL AND ends_at > ?",
        [now, now],
    )


def forget_before(tx: Tx, moment: int) -> None:
    """Delete links and sessions that began before a moment."""
    tx.execute("DELETE FROM sign_in_link WHERE made_at < ?", [moment])
    tx.execute("DELETE FROM operator_session WHERE opened_at < ?", [moment])


def note(tx: Tx, at: int, actor: str, action: str) -> None:
    """Write a line of the audit log."""
    tx.insert_many(
        "event",
        ("id", "at", "actor", "action", "detail"),
        [(tx.reserve("event"), at, actor, action, json.dumps({}))],
    )
