"""Operators of the console: how they sign in, and out."""

from __future__ import annotations

from dispatcher import access
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store


def make_sign_in_link(
    workspace: Workspace, store: Store, base: str | None = None
) -> str:
    """Make a link that opens the console once, within ten minutes.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    base : str, optional
        Where the console is reached unless the settings have an ``operator_url``; None:
        where it listens.
    """
    surfaces = workspace.config.surfaces
    where = surfaces.operator_url or base or f"http://{surfaces.operators}"
    return access.sign_in_link(where, access.make_link(store, workspace.clock()))


def sign_everybody_out(workspace: Workspace, store: Store) -> int:
    """End all sessions, and all links that were not used; how many sessions."""
    return access.sign_everybody_out(store, workspace.clock())
