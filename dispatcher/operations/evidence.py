"""Evidence for a privacy officer: written, and checked by the verifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dispatcher.custody import evidence
from dispatcher.custody.evidence import Bundle, Verdict
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store


def export(workspace: Workspace, store: Store, directory: Path) -> Bundle:
    """Write a seal and the evidence bundle: ids, facts and lines, no field value."""
    bundle = evidence.export(store, directory, clock=workspace.clock)
    workspace.anchor_roots(store)
    return bundle


def verify(directory: Path, heads: Sequence[str] = ()) -> Verdict:
    """Check a bundle with the verifier, in a process of its own."""
    return evidence.verify(directory, heads=heads)
