"""Workers: added, invited, blocked, shown, and merged where several are one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.base import Inviting, Role
from dispatcher import identity
from dispatcher.core.errors import Conflict, DispatcherError, PastLimit, Usage
from dispatcher.core.plugins import manifest_of
from dispatcher.identity import Grouped, GroupMembers
from dispatcher.ledger import identity_changes
from dispatcher.ledger.active_policy import current_policy, no_policy
from dispatcher.ledger.explain import Exposure, exposure
from dispatcher.ledger.identity_changes import AddedAccounts, Merged
from dispatcher.ledger.violations import ANY, totals
from dispatcher.operations.dry_run import (
    LimitFinding,
    findings,
    rolled_back,
    withdrawing,
)
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Obstacle
from dispatcher.stages.serving.arrivals import BECAUSE
from dispatcher.store import (
    Store,
    Tx,
    accounts,
    arrivals,
    events,
    settings,
    tasks,
    worker_quality,
)
from dispatcher.store.accounts import AccountRow
from dispatcher.store.engine import committed
from dispatcher.store.worker_quality import GoldRow, StopRow, TriedRow
from policies.answers.skill import gold_accuracy

Name = tuple[str, str]
"""Connector, and the account's name there."""

Parts = Sequence[Sequence[str]]
"""Accounts, as CONNECTOR/NAME, by who is one worker."""


@dataclass(frozen=True)
class WorkerQuality:
    """How good a worker is.

    Attributes
    ----------
    agreement : float
        Estimated accuracy by agreement with others.
    gold : GoldRow
        Made-up questions asked and answered.
    gold_accuracy : float
    tests : tuple of TriedRow
        Qualification tests.
    stopped : StopRow or None
        Why nothing new is given, if the worker fell below the floor.
    """

    agreement: float
    gold: GoldRow
    gold_accuracy: float
    tests: tuple[TriedRow, ...]
    stopped: StopRow | None


@dataclass(frozen=True)
class Worker:
    """A worker with all that it saw, and how near that is to each limit.

    ``may_be``: accounts that arrived with the same browser. ``is_feed``: it is an account at
    a feed, which answers nothing.
    """

    account: AccountRow
    groups: tuple[str, ...]
    seen: Exposure
    quality: WorkerQuality
    may_be: tuple[str, ...] = ()
    is_feed: bool = False


@dataclass(frozen=True)
class Invited:
    """Personal links to the task page.

    Attributes
    ----------
    links : Mapping[str, str]
        By account.
    closed : tuple of AccountRow
        Who gets none: the account is not active.
    """

    links: Mapping[str, str]
    closed: tuple[AccountRow, ...] = ()


@dataclass(frozen=True)
class Merge:
    """What a merge did, or would do.

    Attributes
    ----------
    accounts : tuple of tuple of str
        By who is one worker.
    merged : Merged
    by_rule : Mapping[str, int]
        How many sets are past its limit.
    findings : tuple of LimitFinding
        Those sets.
    """

    accounts: tuple[tuple[str, ...], ...]
    merged: Merged
    by_rule: Mapping[str, int]
    findings: tuple[LimitFinding, ...]


@dataclass(frozen=True)
class Suspects:
    """Two accounts that may be one person: they arrived with one browser.

    Attributes
    ----------
    accounts : tuple of (str, str)
    noted : int
        Moment of the first such arrival.
    merge : Merge
        What taking them as one worker would do.
    """

    accounts: tuple[str, str]
    noted: int
    merge: Merge


@dataclass(frozen=True)
class WorkerFile:
    """Accounts of a file.

    Attributes
    ----------
    names : list of (connector, name)
    unknown : list of (connector, name)
        Those of a connector that is not set up.
    rejected : sequence of (line, reason)
        Rows that name none.
    """

    names: list[Name]
    unknown: list[Name]
    rejected: Sequence[tuple[int, str]]


def read_names(texts: Iterable[str]) -> list[Name]:
    """Read accounts written as CONNECTOR/NAME.

    Raises
    ------
    Usage
        One is none.
    """
    return [identity.account_of(text) for text in texts]


def read_file(workspace: Workspace, data: bytes) -> WorkerFile:
    """Read accounts from CSV, JSONL or a plain list.

    Raises
    ------
    Invalid
    """
    found = identity.read_accounts(data)
    known = workspace.config.connectors
    return WorkerFile(
        [name for name in found.names if name[0] in known],
        [name for name in found.names if name[0] not in known],
        found.rejected,
    )


def read_groups(data: bytes) -> Grouped:
    """Read from CSV or JSONL which accounts are one worker.

    Raises
    ------
    Invalid
    """
    return identity.read_groups(data)


def check_connectors(workspace: Workspace, names: Iterable[Name]) -> None:
    """Refuse accounts of connectors that are not set up.

    Raises
    ------
    Usage
    """
    known = workspace.config.connectors
    for connector, name in names:
        if connector not in known:
            raise Usage(
                f"{connector}/{name} is of no connector that is set up",
                why=f"set up: {', '.join(sorted(known)) or 'none'}",
                fix=f"add [connectors.{connector}] to dispatcher.toml, or write "
                "another connector",
            )


def add(
    workspace: Workspace, store: Store, names: Sequence[Name], *, accept_past: int
) -> AddedAccounts:
    """Add workers; each is an adversary of its own, or part of its groups' one.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    names : sequence of Name
    accept_past : int
        How many sets past a limit by it are accepted: just as many as there are.

    Raises
    ------
    PastLimit
        Another number of sets would be past a limit.
    """
    with store.write() as tx:
        return identity_changes.add_accounts(
            tx, names, at=workspace.clock(), accept=accept_past
        )


def obstacles(
    workspace: Workspace, store: Store, added: AddedAccounts
) -> list[Obstacle]:
    """Why connectors of workers that were added can be given nothing."""
    connectors = {account.connector for account in added.accounts}
    with store.read() as tx:
        found = workspace.preflight(store).look(tx).obstacles
    return [one for one in found if one.connector in connectors]


def preview_add(
    workspace: Workspace, store: Store, names: Sequence[Name]
) -> AddedAccounts:
    """What adding workers would do; nothing is changed."""
    with rolled_back(store) as tx:
        return identity_changes.add_accounts(
            tx, names, at=workspace.clock(), accept=ANY
        )


def list_accounts(store: Store, connector: str | None = None) -> list[AccountRow]:
    """All workers, or those of one connector."""
    with store.read() as tx:
        return identity.list_accounts(tx, connector)


def groups_of(account: AccountRow) -> tuple[str, ...]:
    """Groups of the policy that an account is in."""
    return tuple(json.loads(account.groups))


def list_groups(store: Store) -> list[GroupMembers]:
    """Groups of the policy in force.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    with store.read() as tx:
        force = current_policy(tx)
        if force is None:
            raise no_policy()
        return identity.list_groups(tx, force.policy)


def show(workspace: Workspace, store: Store, account: str) -> Worker:
    """A worker: what it saw, how near it is to each limit, how good it is."""
    with store.read() as tx:
        found = identity.find(tx, account)
        seen = exposure(tx, found.adversary_id)
        pairs = [(one.first, one.second) for one in arrivals.suspects(tx)]
        may_be = tuple(
            other for pair in pairs if found.text in pair for other in pair
            if other != found.text
        )  # fmt: skip
        quality, feeds = _quality(tx, found), feeds_of(workspace, [found.connector])
        is_feed = found.connector in feeds
        return Worker(found, groups_of(found), seen, quality, may_be, is_feed)


@dataclass(frozen=True)
class CostOfBlocking:
    """What goes with a worker's account.

    Attributes
    ----------
    open_tasks : int
        Taken back, but for those in their hands.
    workers : int
        Who stay active; feeds are none.
    needed : int or None
        With so many active workers no field is left without one; None: not known yet.
    """

    open_tasks: int
    workers: int
    needed: int | None


def cost_of_blocking(
    workspace: Workspace, store: Store, account: str
) -> CostOfBlocking:
    """Return what blocking an account would cost now."""
    with store.read() as tx:
        found = identity.find(tx, account)
        others = [
            one
            for one in accounts.all_accounts(tx)
            if one.state == "active" and one.id != found.id
        ]
        feeds = feeds_of(workspace, {one.connector for one in others})
        active = {one.adversary_id for one in others if one.connector not in feeds}
        safe = settings.safe_workers(tx)
        return CostOfBlocking(
            len(tasks.open_tasks_of(tx, [found.id])),
            len(active),
            None if safe is None else safe.needed,
        )


def block(workspace: Workspace, store: Store, account: str) -> AccountRow:
    """Show a worker nothing more, and withdraw what they were offered.

    What they were shown stays in the ledger.
    """
    return committed(
        store,
        lambda tx: identity.block(tx, account, workspace.clock(), workspace.actor),
    )


def unblock(workspace: Workspace, store: Store, account: str) -> AccountRow:
    """Let a worker work again who is blocked, stopped below the floor, or left."""
    with store.write() as tx:
        return identity.unblock(tx, account, workspace.clock(), workspace.actor)


def feeds_of(workspace: Workspace, connectors: Collection[str]) -> set[str]:
    """Those of some connectors that are feeds; what is set up wrongly is none."""
    found = set()
    for name in set(connectors) & workspace.config.connectors.keys():
        with suppress(DispatcherError):
            manifest = manifest_of(name, workspace.config.connectors[name])
            found |= {name} if manifest.role is Role.FEED else set()
    return found


def inviting(
    workspace: Workspace, store: Store, connectors: Collection[str]
) -> dict[str, Inviting]:
    """Those of some connectors whose workers come to our page by personal links.

    Feeds are not opened for it: nobody comes by them, and their secret may be elsewhere.
    """
    known = set(connectors) & workspace.config.connectors.keys()
    opened = workspace.open_connectors(store, known - feeds_of(workspace, known))
    return {n: market for n, market in opened.items() if isinstance(market, Inviting)}


def links(
    workspace: Workspace,
    store: Store,
    accounts: Sequence[str],
    days: int,
    markets: Mapping[str, Inviting],
) -> Invited:
    """Make links to the task page that hold for so many days.

    A link opens the page for whoever has it: it is the worker's key.
    """
    with store.read() as tx:
        found = [identity.find(tx, text) for text in dict.fromkeys(accounts)]
    now = datetime.fromtimestamp(workspace.clock() // 10**6, UTC)
    page = workspace.config.surfaces.task_page

    def link(account: AccountRow) -> str:
        market, expires = markets[account.connector], now + timedelta(days=days)
        code = market.invite(account.name, str(account.invite), expires)
        return identity.invite_link(page, code, account.connector)

    return Invited(
        {one.text: link(one) for one in found if one.state == "active"},
        tuple(one for one in found if one.state != "active"),
    )


def invite(
    workspace: Workspace, store: Store, accounts: Sequence[str], days: int
) -> Invited:
    """Make new links; earlier ones of these workers end.

    Raises
    ------
    Conflict
        A worker is not active, or does not come to the task page by links.
    """
    markets = inviting(workspace, store, {text.partition("/")[0] for text in accounts})
    with store.write() as tx:
        for text in accounts:
            account = identity.find(tx, text)
            if account.state != "active":
                raise Conflict(
                    f"{text} is {account.state}: no link would let it in",
                    why="a blocked worker is shown nothing",
                    fix=f"first: dispatcher workers unblock {text}",
                )
            if account.connector not in markets:
                raise Conflict(
                    f"{text} cannot be invited to the task page",
                    why=f"connector {account.connector} has no personal links",
                    fix="its tasks reach it through its own connector",
                )
            identity.revoke_invites(tx, text)
    return links(workspace, store, accounts, days, markets)


def preview_merge(
    workspace: Workspace, store: Store, parts: Parts, because: str
) -> Merge:
    """What a merge would do; nothing is changed."""
    with rolled_back(store) as tx:
        return _merge(workspace, tx, parts, because, ANY)


def merge(
    workspace: Workspace, store: Store, parts: Parts, because: str, *, accept_past: int
) -> Merge:
    """Take accounts as one worker each, for good: what each saw counts for all of them.

    Open tasks that a joint worker may not finish are recalled.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    parts : Parts
    because : str
        The reason, a line of the ledger that auditors read.
    accept_past : int
        How many sets past a limit by it are accepted: just as many as there are.

    Raises
    ------
    PastLimit
        Another number of sets would be past a limit.
    """
    with store.write() as tx:
        return _merge(workspace, tx, parts, because, accept_past)


def suspects(workspace: Workspace, store: Store, limit: int) -> list[Suspects]:
    """Accounts that may be one person, with what a merge of them would do.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    limit : int
        At most so many: each is tried in a transaction that is rolled back.
    """
    with store.read() as tx:
        found = arrivals.suspects(tx)
    return [
        Suspects(
            (one.first, one.second),
            one.noted_at,
            preview_merge(workspace, store, [[one.first, one.second]], BECAUSE),
        )
        for one in found[:limit]
    ]


def distinguish(
    workspace: Workspace, store: Store, first: str, second: str, because: str
) -> None:
    """Keep that two accounts are two people, though they arrived with one browser.

    Raises
    ------
    NotFound
    Conflict
        Nothing was noted about them.
    """
    with store.write() as tx:
        ids = [identity.find(tx, text).id for text in (first, second)]
        now = workspace.clock()
        if not arrivals.dismiss_pair(tx, ids, now):
            raise Conflict(
                f"nothing says that {first} and {second} may be one person",
                why="they did not arrive with one browser, or were told apart before",
                fix="see: dispatcher workers suspects",
            )
        detail = {"accounts": sorted(ids), "because": because}
        events.add_event(tx, now, workspace.actor, "worker.distinct", detail)


def check_accepted(preview: Merge, accepted: int) -> None:
    """Refuse a merge for which another number of sets was accepted.

    Raises
    ------
    PastLimit
    """
    found = len(preview.merged.accepted)
    if found == accepted:
        return
    sets = f"{found:,} set is" if found == 1 else f"{found:,} sets are"
    raise PastLimit(
        f"the merge is refused: {sets} past a limit by it, and {accepted} accepted",
        why="what these accounts saw together cannot be undone, so the number must be "
        "the one shown",
        fix=f"if it is true that they are one worker: --accept-past {found}",
        facts={"found": found, "accepted": accepted},
    )


def _merge(
    workspace: Workspace, tx: Tx, parts: Parts, because: str, accept: int | None
) -> Merge:
    merged = identity_changes.merge(
        tx,
        parts,
        because=because,
        at=workspace.clock(),
        accept=accept,
        withdrawing=withdrawing(workspace),
        actor=workspace.actor,
    )
    return Merge(
        tuple(tuple(sorted(set(part))) for part in parts),
        merged,
        totals(merged.accepted),
        tuple(findings(tx, merged.accepted)),
    )


def _quality(tx: Tx, account: AccountRow) -> WorkerQuality:
    gold = worker_quality.gold(tx, account.id)
    stopped = account.state == "stopped"
    return WorkerQuality(
        account.quality,
        gold,
        gold_accuracy(gold.right, gold.asked),
        tuple(worker_quality.tried(tx, [account.id])),
        worker_quality.stopped(tx, account.id) if stopped else None,
    )
