"""The names that a store has, for whoever types one: nothing is shipped or logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dispatcher.operations.workspace import Workspace
from dispatcher.store import Tx, accounts, open_store, record_states, statistics

WAIT_MS: Final = 200
"""How long a store that is locked is waited for."""


def worker_names(workspace: Workspace) -> list[str]:
    """CONNECTOR/NAME of all accounts."""
    return _read(
        workspace, lambda tx: [account.text for account in accounts.all_accounts(tx)]
    )


def run_names(workspace: Workspace) -> list[str]:
    """All runs."""
    return _read(workspace, statistics.runs)


def field_names(workspace: Workspace) -> list[str]:
    """Fields of all records."""
    return _read(workspace, record_states.field_names)


def _read(workspace: Workspace, names: Callable[[Tx], list[str]]) -> list[str]:
    store = open_store(
        workspace.store_url,
        password_allowed=workspace.store_is_private,
        wait_ms=WAIT_MS,
        key_file=workspace.key_file,
    )
    try:
        with store.read() as tx:
            return names(tx)
    finally:
        store.close()
