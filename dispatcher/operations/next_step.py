"""Where an operator is in the first hour of a store, and the command that comes next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dispatcher.core.errors import NoStore
from dispatcher.core.input_files import read_input
from dispatcher.core.plurals import count
from dispatcher.operations.status import Status, status
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, upgrades
from dispatcher.store import policies as policy_rows
from policies.document import parse
from policies.document.samples import is_sample


class Step(StrEnum):
    """States of a workspace, in the order in which the first hour passes them."""

    NO_STORE = "no-store"
    OTHER_SCHEMA = "other-schema"
    NO_POLICY_FILE = "no-policy-file"
    EXAMPLE_POLICY = "example-policy"
    INVALID_POLICY = "invalid-policy"
    POLICY_NOT_APPLIED = "policy-not-applied"
    NO_RECORDS = "no-records"
    NO_WORKERS = "no-workers"
    NOT_RUNNING = "not-running"
    NEEDS_YOU = "needs-you"
    WORKING = "working"
    DONE = "done"


@dataclass(frozen=True)
class Position:
    """Where an operator is.

    Attributes
    ----------
    step : Step
    text : str
        One sentence: what there is, and what is missing.
    next : str
        The command that comes next.
    also : tuple of str
        Commands that may be of use here, each with what it is for.
    """

    step: Step
    text: str
    next: str
    also: tuple[str, ...] = ()


CHANGED: Final = ("dispatcher policy diff    the policy file is not what is in force",)


def find_position(workspace: Workspace) -> Position:
    """Find where the operator of a workspace is; nothing is changed.

    Raises
    ------
    DispatcherError
        The store cannot be opened for another reason than its schema.
    """
    try:
        schema = upgrades.state(
            workspace.store_url, password_allowed=workspace.store_is_private
        )
    except NoStore:
        schema = None
    if schema is None or schema.found is None:
        return Position(
            Step.NO_STORE,
            f"there is no store in {workspace.directory.absolute()}",
            "dispatcher init",
            ("dispatcher demo    the whole job on invented records, in two minutes",),
        )
    if schema.newer:
        return Position(
            Step.OTHER_SCHEMA,
            f"a newer program has changed the store (schema {schema.found})",
            "dispatcher --version",
        )
    if not schema.ready:
        return Position(
            Step.OTHER_SCHEMA,
            f"the store has the schema {schema.found} of an older program",
            "dispatcher db upgrade --backup",
            ("dispatcher db status    what would be changed",),
        )
    with workspace.open_store() as store:
        return _in_store(workspace, store)


def _in_store(workspace: Workspace, store: Store) -> Position:
    now = status(store, workspace.clock(), workspace.preflight(store))
    counts = now.counts
    if not now.policy_version:
        return _before_policy(workspace)
    also = CHANGED if _is_changed(workspace, store) else ()
    if not counts["records"]:
        return Position(
            Step.NO_RECORDS,
            f"policy version {now.policy_version} is in force, and no record is loaded",
            "dispatcher records load FILE",
            ("dispatcher records preview FILE    what would be loaded", *also),
        )
    if not counts["accounts"]:
        return Position(
            Step.NO_WORKERS,
            f"{count(counts['records'], 'record is', 'records are')} loaded, and nobody "
            "may work on them",
            "dispatcher workers add inhouse/NAME --invite",
            ("dispatcher plan --dry-run    how many workers would do", *also),
        )
    return _with_workers(now, also)


def _before_policy(workspace: Workspace) -> Position:
    """Tell what the policy file lacks to be put in force."""
    path = workspace.policy_path
    try:
        source = read_input(path)
    except OSError:
        return Position(
            Step.NO_POLICY_FILE,
            f"the store is empty, and {path} cannot be read",
            DRAFT,
        )
    if is_sample(source):
        return Position(
            Step.EXAMPLE_POLICY,
            f"the store is empty, and {path} is an example about other columns than "
            "yours",
            DRAFT,
            (
                "dispatcher records preview FILE    your file, column by column",
                "dispatcher policy apply --sample    the example as it is",
            ),
        )
    if parse(source, str(path)).errors:
        return Position(
            Step.INVALID_POLICY, f"{path} has errors", f"dispatcher policy check {path}"
        )
    return Position(
        Step.POLICY_NOT_APPLIED,
        f"{path} is valid, and not in force yet",
        "dispatcher policy apply",
        ("dispatcher policy test    the tests in it",),
    )


DRAFT: Final = "dispatcher policy suggest FILE"
"""The command that drafts a policy from a file of records."""


def _is_changed(workspace: Workspace, store: Store) -> bool:
    try:
        source = read_input(workspace.policy_path)
    except OSError:
        return False
    with store.read() as tx:
        found = policy_rows.policy_row(tx, policy_rows.version_in_force(tx))
    return found is not None and source != found.source


def _with_workers(now: Status, also: tuple[str, ...]) -> Position:
    counts, fields = now.counts, now.fields
    open_ = fields["open"] + fields.get("conflict", 0)
    text = (
        f"{count(counts['records'], 'record')}, "
        f"{count(counts['accounts'], 'worker')}, "
        f"{now.asked - open_:,} of {count(now.asked, 'field')} done"
    )
    if not open_:
        return Position(
            Step.DONE,
            text,
            "dispatcher records reassemble -o whole.csv",
            ("dispatcher audit export evidence    proof of who saw what", *also),
        )
    if not now.leader:
        return Position(
            Step.NOT_RUNNING,
            f"{text}; no daemon runs",
            "dispatcher up",
            ("dispatcher plan --dry-run    whether the workers suffice", *also),
        )
    if now.needs_you:
        more = len(now.needs_you) - 1
        return Position(
            Step.NEEDS_YOU,
            f"{text}; {now.needs_you[0]}" + (f" (and {more} more)" if more else ""),
            "dispatcher status",
            also,
        )
    return Position(
        Step.WORKING,
        f"{text}; {now.leader} works on it",
        "dispatcher status --watch 5",
        ("dispatcher console link    the same in a browser", *also),
    )
