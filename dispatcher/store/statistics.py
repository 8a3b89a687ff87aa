"""Counts by state for status, metrics and console: ids and numbers, never a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Executable,
    Integer,
    Row,
    Text,
    and_,
    bindparam,
    case,
    cast,
    distinct,
    func,
    literal_column,
    or_,
    text,
)
from sqlmodel import SQLModel, col, select

from dispatcher.model import (
    LIVE_TASK_STATES,
    SYSTEM_CHAIN,
    Account,
    AuditLine,
    Chain,
    Entry,
    Event,
    FieldName,
    Held,
    LedgerLine,
    Outbox,
    Payment,
    Plan,
    Quarantine,
    Record,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store.statements import fixed, in_list, select_columns, sum_where
from dispatcher.store.transaction import Tx

MOST_FAILURES: Final = 3
"""A connector is down when a waiting message to it has failed so often."""

_COUNT: Final = func.count()
_WAITS: Final = col(Outbox.state).in_(("ready", "leased"))
_PENDING: Final = col(Outbox.state).in_(("ready", "leased", "dead"))
_IS_ADVERSARY: Final = (col(Chain.id) != SYSTEM_CHAIN) & col(Chain.survivor_id).is_(
    None
)


@dataclass(frozen=True, slots=True)
class HeldRow:
    """Entries that the plan omits for one reason; ``fields`` counts them by name."""

    reason: str
    entries: int
    fields: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """State of one connector's work.

    ``open`` tasks may still bring an answer; ``in_doubt`` are those, given up or not,
    whose message was tried and never confirmed: it may have arrived. ``retry_at`` is
    when a failed one is tried again, microseconds UTC; None where nothing failed.
    """

    connector: str
    open: int
    answered: int
    in_doubt: int
    retry_at: int | None


WaitingRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""What waits for a connector: connector, messages, oldest (a moment), tries (the most)."""


@dataclass(frozen=True, slots=True)
class DownRow:
    """A connector that is down: what waits for it, and its last error."""

    connector: str
    messages: int
    error: str


MessageRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Messages that were given up: connector, error, messages."""


class MessageTotal(NamedTuple):
    """Messages of one connector in one state; ``oldest`` is None where nobody looked."""

    connector: str
    state: str
    messages: int
    oldest: int | None


FailingRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Messages of one connector with one last error: connector, error, retried, dead, tries."""

RunRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""One run: id, name, state, created_at, pilot."""


class RunTotals(NamedTuple):
    """How many records and fields a run has, and how many of them are settled."""

    records: int = 0
    fields: int = 0
    answered: int = 0
    conflict: int = 0


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One account of an adversary."""

    adversary_id: int
    account: str
    groups: tuple[str, ...]
    state: str


class ListedRecord(NamedTuple):
    """A record, and how many of the fields asked of it are settled.

    ``state`` is ``open``, ``conflict`` or ``answered``.
    """

    id: int
    pseudonym: str
    run: str
    fields: int
    answered: int
    conflict: int
    state: str


@dataclass(frozen=True, slots=True)
class SealRow:
    """A seal: its number in chain ``system``, moment, root, own hash, chains grown."""

    seq: int
    at: int
    root: str
    hash: str
    grown: int


def _grouped(*columns: Any) -> Any:  # noqa: ANN401 - any columns
    """How many rows there are of each combination of columns, in their order."""
    return select_columns(*columns, _COUNT).group_by(*columns).order_by(*columns)


def _triples(tx: Tx, statement: Executable) -> list[tuple[str, str, int]]:
    rows: Sequence[Any] = tx.execute(statement).all()
    return [(first, second, int(count)) for first, second, count in rows]


# -- tasks and messages ----------------------------------------------------------------

_TASKS: Final = _grouped(Task.connector, Task.state)
# By message, and not as a join: most tasks have none, and would all be read.
_IN_DOUBT: Final = (
    select(
        Outbox.connector,
        func.sum(
            select(_COUNT)
            .select_from(Task)
            .where(
                col(Task.outbox_id) == Outbox.id,
                col(Task.state).in_(("booked", "dead")),
            )
            .correlate(Outbox)
            .scalar_subquery()
        ),
    )
    .where(_PENDING, col(Outbox.attempts) > 0)
    .group_by(col(Outbox.connector))
)
_RETRIES: Final = (
    select(Outbox.connector, func.min(Outbox.due))
    .where(Outbox.state == "ready", col(Outbox.attempts) > 0)
    .group_by(col(Outbox.connector))
    .having(func.min(Outbox.due) > bindparam("now"))
)
_WAITING: Final = (
    select_columns(
        Outbox.connector,
        _COUNT.label("messages"),
        func.min(Outbox.created_at).label("oldest"),
        func.max(Outbox.attempts).label("tries"),
    )
    .where(_WAITS)
    .group_by(col(Outbox.connector))
)
_LAST_ERRORS: Final = (
    select(Outbox.connector, Outbox.error)
    .where(_WAITS, col(Outbox.attempts) >= MOST_FAILURES)
    .order_by(col(Outbox.due), col(Outbox.id))
)
_DEAD: Final = _grouped(Outbox.connector, Outbox.kind).where(Outbox.state == "dead")
_ERROR: Final = func.coalesce(Outbox.error, literal_column("''"))
"""In the text, or PostgreSQL would not know the group again."""
_FAILING: Final = (
    select_columns(
        Outbox.connector,
        _ERROR.label("error"),
        sum_where(col(Outbox.state) != "dead").label("retried"),
        sum_where(col(Outbox.state) == "dead").label("dead"),
        func.sum(Outbox.attempts).label("tries"),
    )
    .where(
        or_(
            col(Outbox.state) == "dead",
            and_(_WAITS, col(Outbox.error).is_not(None)),
        )
    )
    .group_by(col(Outbox.connector), _ERROR)
    .order_by(_COUNT.desc(), col(Outbox.connector), _ERROR)
)
_OLDEST: Final = select(func.min(Outbox.created_at)).where(_WAITS)
_MESSAGES: Final = (
    select_columns(
        Outbox.connector,
        Outbox.state,
        _COUNT.label("messages"),
        func.min(Outbox.created_at).label("oldest"),
    )
    .group_by(col(Outbox.connector), col(Outbox.state))
    .order_by(col(Outbox.connector), col(Outbox.state))
)
_PENDING_MESSAGES: Final = _MESSAGES.where(_PENDING)
_LIVE_SHOWN: Final = (
    select(_COUNT)
    .select_from(Task)
    .where(Task.state == fixed("shown"), col(Task.leased_until) > bindparam("now"))
)


def tasks(tx: Tx) -> list[tuple[str, str, int]]:
    """Tasks by connector and state (grows with the store)."""
    return _triples(tx, _TASKS)


def connectors(
    tx: Tx, counted: Mapping[tuple[str, str], int], now: int
) -> list[ConnectorRow]:
    """Sum up tasks by connector and state, and find what is retried after a failure."""
    by_connector: dict[str, dict[str, int]] = {}
    for (name, state), count in counted.items():
        by_connector.setdefault(name, {})[state] = count
    doubtful = {name: int(count) for name, count in tx.execute(_IN_DOUBT)}
    retries = {name: int(due) for name, due in tx.execute(_RETRIES, {"now": now})}
    return [
        ConnectorRow(
            connector=name,
            open=sum(
                by_connector.get(name, {}).get(state, 0) for state in LIVE_TASK_STATES
            ),
            answered=by_connector.get(name, {}).get("answered", 0),
            in_doubt=doubtful.get(name, 0),
            retry_at=retries.get(name),
        )
        for name in sorted(by_connector.keys() | retries.keys())
    ]


def waiting(tx: Tx) -> Sequence[WaitingRow]:
    """Messages that wait or are being sent, by connector."""
    return tx.execute(_WAITING).all()


def messages(tx: Tx) -> list[MessageTotal]:
    """Messages by connector and state (grows with the store)."""
    return [MessageTotal(*row) for row in tx.execute(_MESSAGES)]


def pending_messages(tx: Tx) -> list[MessageTotal]:
    """Messages that wait, are being sent or were given up, by connector and state."""
    return [MessageTotal(*row) for row in tx.execute(_PENDING_MESSAGES)]


def down(tx: Tx) -> list[DownRow]:
    """Connectors whose messages wait after :data:`MOST_FAILURES` failures or more."""
    errors = {row.connector: row.error or "" for row in tx.execute(_LAST_ERRORS)}
    return [
        DownRow(row.connector, row.messages, errors.get(row.connector, ""))
        for row in waiting(tx)
        if row.tries >= MOST_FAILURES
    ]


def dead(tx: Tx) -> list[tuple[str, str, int]]:
    """Messages that were given up, by connector and kind."""
    return _triples(tx, _DEAD)


def failing(tx: Tx) -> Sequence[FailingRow]:
    """Messages that are tried again or were given up, by last error, most first."""
    return tx.execute(_FAILING).all()


def oldest_waiting(tx: Tx) -> int | None:
    """When the oldest message that waits or is being sent was written."""
    return tx.scalar(_OLDEST)


def live_shown(tx: Tx, now: int) -> int:
    """Tasks that are in a worker's hands on our page now."""
    return tx.scalar(_LIVE_SHOWN, {"now": now}) or 0


_MARK: Final = select_columns(
    select(func.coalesce(func.sum(Chain.seq), 0)).scalar_subquery(),
    select(func.coalesce(func.max(Task.id), 0)).scalar_subquery(),
    select(func.coalesce(func.max(Outbox.id), 0)).scalar_subquery(),
    select(func.coalesce(func.max(Event.id), 0)).scalar_subquery(),
    select(func.coalesce(func.max(AuditLine.seq), 0)).scalar_subquery(),
    select(func.coalesce(func.max(Record.id), 0)).scalar_subquery(),
)


def mark(tx: Tx) -> tuple[int, ...]:
    """Numbers of which one grows when something is shown, sent, loaded or done.

    Answers are not among them: they are found a little later, by whoever looks anyway.
    """
    return tuple(int(one) for one in tx.execute(_MARK).one())


# -- totals ----------------------------------------------------------------------------


def _count_of(model: type[SQLModel], *where: Any) -> Any:  # noqa: ANN401 - conditions
    return select(_COUNT).select_from(model).where(*where)


_WHOLE: Final[dict[str, Any]] = {
    "records": _count_of(Record, col(Record.erased_at).is_(None)),
    "entries": _count_of(Entry),
    "answers": _count_of(TaskAnswer, TaskAnswer.valid == 1),
}
_OTHER_LINE: Final = LedgerLine.kind != fixed("exposure")
_SMALL: Final[dict[str, Any]] = {
    "accounts": _count_of(Account, Account.state == "active"),
    "adversaries": _count_of(Chain, _IS_ADVERSARY),
    "quarantined": _count_of(Quarantine, col(Quarantine.dismissed_at).is_(None)),
    # All lines but the few others, which have an index of their own.
    "exposures": select_columns(
        select(func.coalesce(func.sum(Chain.seq), 0)).scalar_subquery()
        - select(_COUNT).select_from(LedgerLine).where(_OTHER_LINE).scalar_subquery()
    ),
}
_HAS_ENTRIES: Final = (
    select(Entry.id).order_by(col(Entry.id)).offset(bindparam("most")).limit(1)
)
_LAST_ENTRY: Final = select(func.max(Entry.id))
_LAST_RECORD: Final = select(func.max(Record.id))
_ONLY_AT: Final = select(func.count()).select_from(
    select(Account.adversary_id)
    .group_by(col(Account.adversary_id))
    .having(func.min(case((in_list(Account.connector, "connectors"), 1), else_=0)) == 1)
    .subquery()
)
_STATES: Final = {
    "task": _grouped(Task.state),
    "outbox": _grouped(Outbox.state),
    "account": _grouped(Account.state),
}
_ASKED: Final = _count_of(Entry, in_list(Entry.field_id, "wanted"))
_RESULTS: Final = (
    _grouped(Result.state)
    .join(Entry, col(Entry.id) == col(Result.entry_id))
    .where(in_list(Entry.field_id, "wanted"))
)
_AT_FEEDS: Final = (
    select(func.count(distinct(col(Task.entry_id))))
    .join(Entry, col(Entry.id) == col(Task.entry_id))
    .where(Task.state == "published", in_list(Entry.field_id, "wanted"))
)
_BY_FIELD: Final = (
    select_columns(
        FieldName.name,
        _COUNT,
        sum_where(col(Result.state) == "answered"),
        sum_where(col(Result.state) == "conflict"),
    )
    .select_from(Entry)
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .outerjoin(Result, col(Result.entry_id) == col(Entry.id))
    .where(in_list(Entry.field_id, "wanted"))
    .group_by(col(FieldName.name))
    .order_by(col(FieldName.name))
)
_ANSWERS: Final = (
    select(
        Account.connector,
        case((col(TaskAnswer.valid) == 1, "valid"), else_="refused"),
        _COUNT,
    )
    .select_from(TaskAnswer)
    .join(Account, col(Account.id) == col(TaskAnswer.account_id))
    .group_by(col(Account.connector), col(TaskAnswer.valid))
)
_PAYMENTS: Final = _grouped(Payment.connector, Payment.state)
_AGREEMENT: Final = (
    select(
        FieldName.name,
        sum_where(col(Result.state) == "answered"),
        sum_where(col(Result.state) == "conflict"),
    )
    .select_from(Result)
    .join(Entry, col(Entry.id) == col(Result.entry_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .where(col(Result.state).in_(("answered", "conflict")))
    .group_by(col(FieldName.name))
)
_held: Final = (
    select_columns(
        Held.reason,
        # By what is held, and not as a join: all entries would be read.
        select(Entry.field_id)
        .where(Entry.id == Held.entry_id)
        .correlate(Held)
        .scalar_subquery()
        .label("field_id"),
    )
).subquery()
_HELD_BACK: Final = (
    select(_held.c.reason, FieldName.name, _COUNT)
    .select_from(_held)
    .join(FieldName, col(FieldName.id) == _held.c.field_id)
    .group_by(_held.c.reason, col(FieldName.name))
    .order_by(_COUNT.desc(), _held.c.reason, col(FieldName.name))
)
_SUMMARY: Final = (
    select(Plan.summary)
    .where(Plan.state == "applied")
    .order_by(col(Plan.id).desc())
    .limit(1)
)
_CONFLICTS: Final = (
    _count_of(Result, Result.state == fixed("conflict"))
    .join(Entry, col(Entry.id) == col(Result.entry_id))
    .where(in_list(Entry.field_id, "wanted"))
)
_RUN_NAMES: Final = select(Run.name).order_by(col(Run.name))
_RUNS: Final = select_columns(
    Run.id, Run.name, Run.state, Run.created_at, Run.pilot
).order_by(col(Run.id))
_RUN_TOTALS: Final = (
    select_columns(
        Run.id,
        func.count(distinct(col(Record.id))).label("records"),
        func.count(col(Entry.id)).label("fields"),
        sum_where(col(Result.state) == "answered").label("answered"),
        sum_where(col(Result.state) == "conflict").label("conflict"),
    )
    .select_from(Run)
    .outerjoin(Record, (col(Record.run_id) == Run.id) & col(Record.erased_at).is_(None))
    .outerjoin(
        Entry, (col(Entry.record_id) == Record.id) & in_list(Entry.field_id, "asked")
    )
    .outerjoin(Result, col(Result.entry_id) == col(Entry.id))
    .group_by(col(Run.id))
    .order_by(col(Run.id))
)
_SIZE: Final[dict[str, Any]] = {
    "sqlite": text(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    ).columns(size=BigInteger()),
    "postgresql": select(func.pg_database_size(func.current_database())),
}


def entries(tx: Tx) -> int:
    """Count the entries alone."""
    return int(tx.scalar(_WHOLE["entries"]) or 0)


def has_entries(tx: Tx, most: int) -> bool:
    """Whether there are more entries than so many."""
    return tx.scalar(_HAS_ENTRIES, {"most": most}) is not None


def last_entry(tx: Tx) -> int:
    """Return the largest id of an entry; 0: there is none."""
    return int(tx.scalar(_LAST_ENTRY) or 0)


def last_record(tx: Tx) -> int:
    """Return the largest id of a record; 0: there is none."""
    return int(tx.scalar(_LAST_RECORD) or 0)


def whole(tx: Tx) -> dict[str, int]:
    """Records, entries and valid answers (grows with the store)."""
    return {name: int(tx.scalar(total) or 0) for name, total in _WHOLE.items()}


def counts(tx: Tx) -> dict[str, int]:
    """Accounts, adversaries, refused answers that wait, and exposures."""
    return {name: int(tx.scalar(total) or 0) for name, total in _SMALL.items()}


def only_at(tx: Tx, connectors: Iterable[str]) -> int:
    """Count adversaries of whom every account is at one of the connectors."""
    return int(tx.scalar(_ONLY_AT, {"connectors": sorted(connectors)}) or 0)


def states(tx: Tx, table: str) -> dict[str, int]:
    """How many rows of ``task``, ``outbox`` or ``account`` are in a state."""
    return {state: int(count) for state, count in tx.execute(_STATES[table])}


def conflicts(tx: Tx, wanted: Sequence[int]) -> int:
    """Count the results of some fields, given by number, that are in conflict."""
    return int(tx.scalar(_CONFLICTS, {"wanted": wanted}) or 0)


def fields(tx: Tx, wanted: Sequence[int]) -> tuple[int, dict[str, int]]:
    """Count the entries of some fields, given by number (grows with the store).

    Returns
    -------
    int
        All of them.
    dict of str to int
        How many have a result in each state, or lie at a feed (published).
    """
    given = {"wanted": wanted}
    results = {state: int(count) for state, count in tx.execute(_RESULTS, given)}
    if at_feeds := tx.scalar(_AT_FEEDS, given):
        results["published"] = int(at_feeds)
    return int(tx.scalar(_ASKED, given) or 0), results


def by_field(tx: Tx, wanted: Sequence[int]) -> list[tuple[str, int, int, int]]:
    """Fields by name: entries, answered and in conflict (grows with the store)."""
    return [
        (name, int(total), int(answered), int(conflict))
        for name, total, answered, conflict in tx.execute(_BY_FIELD, {"wanted": wanted})
    ]


def answers(tx: Tx) -> list[tuple[str, str, int]]:
    """Answers by connector, ``valid`` or ``refused``."""
    return _triples(tx, _ANSWERS)


def payments(tx: Tx) -> list[tuple[str, str, int]]:
    """Payments by connector and state."""
    return _triples(tx, _PAYMENTS)


def agreement(tx: Tx) -> list[tuple[str, int, int]]:
    """Fields by name: results in which answers agree, and those in conflict."""
    return [(name, int(yes), int(no)) for name, yes, no in tx.execute(_AGREEMENT)]


def held_back(tx: Tx) -> Sequence[HeldRow]:
    """Entries that the last plan held back, by reason, most first."""
    found: dict[str, dict[str, int]] = {}
    for reason, name, count in tx.execute(_HELD_BACK):
        found.setdefault(reason, {})[name] = int(count)
    rows = [
        HeldRow(reason, sum(fields.values()), fields)
        for reason, fields in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.entries, row.reason))


def plan_summary(tx: Tx) -> str | None:
    """Return the summary (JSON) of the plan in force."""
    return tx.scalar(_SUMMARY)


def runs(tx: Tx) -> list[str]:
    """Names of all runs."""
    return tx.scalars(_RUN_NAMES)


def run_states(tx: Tx) -> Sequence[RunRow]:
    """All runs, the oldest first."""
    return tx.execute(_RUNS).all()


def run_totals(tx: Tx, asked: Sequence[int]) -> dict[int, RunTotals]:
    """How many of the fields asked are done, by run (grows with the store)."""
    rows = tx.execute(_RUN_TOTALS, {"asked": asked})
    return {run: RunTotals(*map(int, numbers)) for run, *numbers in rows}


def size(tx: Tx) -> int:
    """Bytes of the database."""
    return int(tx.scalar(_SIZE[tx.dialect]) or 0)


# -- adversaries and the ledger --------------------------------------------------------

_LAST_SEAL: Final = (
    select(LedgerLine.seq, LedgerLine.at)
    .where(LedgerLine.chain_id == SYSTEM_CHAIN, LedgerLine.kind == "seal")
    .order_by(col(LedgerLine.seq).desc())
    .limit(1)
)
_SEALS: Final = (
    select(LedgerLine.seq, LedgerLine.at, LedgerLine.body, LedgerLine.hash)
    .where(LedgerLine.chain_id == SYSTEM_CHAIN, LedgerLine.kind == "seal")
    .order_by(col(LedgerLine.seq).desc())
    .limit(bindparam("limit", type_=Integer()))
)
_LINES: Final = select(
    _COUNT,
    func.coalesce(func.sum(Chain.seq), 0),
    func.coalesce(func.sum(col(Chain.seq) - col(Chain.sealed_seq)), 0),
).where(col(Chain.seq) > 0)
_CHAINS: Final = select(Chain.id, Chain.seq)
_EXPOSURES_AFTER: Final = (
    select(Account.connector, _COUNT)
    .select_from(LedgerLine)
    .join(Account, col(Account.id) == col(LedgerLine.account_id))
    .where(
        LedgerLine.chain_id == bindparam("chain"),
        col(LedgerLine.seq) > bindparam("after"),
        LedgerLine.kind == "exposure",
    )
    .group_by(col(Account.connector))
)
_ACCEPTING_AFTER: Final = (
    select(LedgerLine.kind, LedgerLine.body)
    .where(
        LedgerLine.chain_id == bindparam("chain"),
        col(LedgerLine.seq) > bindparam("after"),
        col(LedgerLine.kind).in_(("member", "join", "policy")),
    )
    .order_by(col(LedgerLine.seq))
)
_MEMBERS: Final = (
    select(
        Account.adversary_id,
        col(Account.connector) + "/" + col(Account.name),
        Account.groups,
        Account.state,
    )
    .where(in_list(Account.adversary_id, "adversaries"))
    .order_by(col(Account.id))
)
_ADVERSARIES: Final = select(Chain.id).where(_IS_ADVERSARY).order_by(col(Chain.id))
_GOES_ON_AS: Final = func.coalesce(Chain.survivor_id, Chain.id)
_EXPOSURES: Final = (
    select(
        _GOES_ON_AS,
        func.sum(
            col(Chain.seq)
            - select(_COUNT)
            .select_from(LedgerLine)
            .where(col(LedgerLine.chain_id) == Chain.id, _OTHER_LINE)
            .correlate(Chain)
            .scalar_subquery()
        ),
    )
    .where(
        or_(
            in_list(Chain.id, "adversaries"),
            in_list(Chain.survivor_id, "adversaries"),
        )
    )
    .group_by(_GOES_ON_AS)
)


def last_seal(tx: Tx) -> tuple[int, int] | None:
    """Number in chain ``system`` and moment of the last seal."""
    row = tx.execute(_LAST_SEAL).first()
    return None if row is None else (row.seq, row.at)


def seals(tx: Tx, limit: int) -> list[SealRow]:
    """Return the last seals, newest first."""
    rows = []
    for row in tx.execute(_SEALS, {"limit": limit}):
        seal = json.loads(row.body or "{}")
        grown = len(seal["heads"])
        rows.append(SealRow(row.seq, row.at, seal["root"], row.hash.hex(), grown))
    return rows


def lines(tx: Tx) -> tuple[int, int, int]:
    """Chains that have a line, lines in all, and lines that no seal covers yet."""
    chains, total, unsealed = tx.execute(_LINES).one()
    return int(chains), int(total), int(unsealed)


def chain_lengths(tx: Tx) -> dict[int, int]:
    """Length of every chain."""
    return {row.id: row.seq for row in tx.execute(_CHAINS)}


def exposures_after(tx: Tx, chain_id: int, seq: int) -> list[tuple[str, int]]:
    """Exposures by connector in the lines of a chain after one."""
    rows = tx.execute(_EXPOSURES_AFTER, {"chain": chain_id, "after": seq})
    return [(connector, int(count)) for connector, count in rows]


def accepted_after(tx: Tx, chain_id: int, seq: int) -> list[tuple[str, str]]:
    """Lines of a chain after one that may accept what is past a limit: kind, body."""
    rows = tx.execute(_ACCEPTING_AFTER, {"chain": chain_id, "after": seq})
    return [(row.kind, row.body or "") for row in rows]


def members(tx: Tx, adversary_ids: Sequence[int]) -> list[MemberRow]:
    """Accounts of adversaries, in order of arrival."""
    return [
        MemberRow(adversary, account, tuple(json.loads(groups)), state)
        for adversary, account, groups, state in tx.execute(
            _MEMBERS, {"adversaries": list(adversary_ids)}
        )
    ]


def adversaries(tx: Tx) -> list[int]:
    """Ids of the adversaries that go on."""
    return tx.scalars(_ADVERSARIES)


def exposures(tx: Tx, adversary_ids: Sequence[int]) -> dict[int, int]:
    """How many exposures are booked for each (also in chains that ended in it)."""
    rows = tx.execute(_EXPOSURES, {"adversaries": list(adversary_ids)})
    return {int(adversary): int(count) for adversary, count in rows}


# -- records by state ------------------------------------------------------------------

_ALL: Final = 2**62
_AT_ONCE: Final = 4_000
"""Records of which the states are looked at together, at most, to find some in one."""
_page: Final = (
    select(Record.id, Record.pseudonym, Record.run_id)
    .where(col(Record.id) > bindparam("after", type_=BigInteger()))
    .order_by(col(Record.id))
    .limit(bindparam("page", type_=BigInteger()))
    .subquery("page")
)
_PAGE_END: Final = select(func.max(_page.c.id))
_these: Final = (
    select(Record.id, Record.pseudonym, Record.run_id)
    .where(in_list(Record.id, "records"))
    .subquery("page")
)


def _stated(page: Any) -> Any:  # noqa: ANN401 - a subquery of records
    """Records of a page, each with how many of its fields are settled."""
    settled = (
        select_columns(
            page.c.id,
            page.c.pseudonym,
            page.c.run_id,
            func.count(col(Entry.id)).label("fields"),
            sum_where(col(Result.state) == "answered").label("answered"),
            sum_where(col(Result.state) == "conflict").label("conflict"),
        )
        .select_from(page)
        .outerjoin(
            Entry,
            (col(Entry.record_id) == page.c.id) & in_list(Entry.field_id, "asked"),
        )
        .outerjoin(Result, col(Result.entry_id) == col(Entry.id))
        .group_by(page.c.id, page.c.pseudonym, page.c.run_id)
        .subquery("settled")
    )
    state = case(
        (settled.c.conflict > 0, "conflict"),
        (settled.c.answered < settled.c.fields, "open"),
        else_="answered",
    )
    return select_columns(*settled.c, state.label("state")).subquery("stated")


def _listed(stated: Any) -> Any:  # noqa: ANN401
    return (
        select_columns(
            stated.c.id,
            stated.c.pseudonym,
            col(Run.name).label("run"),
            stated.c.fields,
            stated.c.answered,
            stated.c.conflict,
            stated.c.state,
        )
        .join(Run, col(Run.id) == stated.c.run_id)
        .where(
            or_(
                cast(bindparam("state", type_=Text()), Text).is_(None),
                stated.c.state == bindparam("state", type_=Text()),
            )
        )
        .order_by(stated.c.id)
        .limit(bindparam("limit", type_=BigInteger()))
    )


_RECORD_STATES: Final = _grouped(_stated(_page).c.state)
_RECORDS: Final = _listed(_stated(_page))
_THESE_RECORDS: Final = _listed(_stated(_these))
_in_conflict: Final = (
    select_columns(
        # By result, and not as a join: all entries would be read, in order of records.
        select(Entry.record_id)
        .where(Entry.id == Result.entry_id, in_list(Entry.field_id, "asked"))
        .correlate(Result)
        .scalar_subquery()
        .label("record_id")
    )
    .where(Result.state == fixed("conflict"))
    .subquery()
)
_RECORDS_IN_CONFLICT: Final = (
    select(_in_conflict.c.record_id)
    .where(_in_conflict.c.record_id > bindparam("after", type_=BigInteger()))
    .distinct()
    .order_by(_in_conflict.c.record_id)
)


def record_states(tx: Tx, asked: Sequence[int]) -> dict[str, int]:
    """How many records are in each state, by the fields asked (grows with the store)."""
    rows = tx.execute(_RECORD_STATES, {"asked": asked, "after": 0, "page": _ALL})
    return {state: int(count) for state, count in rows}


def records(
    tx: Tx, asked: Sequence[int], after: int, state: str | None, limit: int
) -> list[ListedRecord]:
    """Records with a larger id, in order of loading, of a state (None: any).

    ``asked`` has the numbers of the fields that count. In a state they are looked for
    from ``after`` on (grows with those of other states between them).
    """
    if state == "conflict":
        return records_of(tx, asked, records_in_conflict(tx, asked, after)[:limit])
    given = {"asked": asked, "state": state, "limit": limit, "after": after}
    if state is None:
        return [
            ListedRecord(*row) for row in tx.execute(_RECORDS, given | {"page": limit})
        ]
    found: list[ListedRecord] = []
    page = limit
    while len(found) < limit:
        given |= {"after": after, "page": page}
        found += (ListedRecord(*row) for row in tx.execute(_RECORDS, given))
        last = tx.scalar(_PAGE_END, {"after": after, "page": page})
        if last is None:
            break
        after, page = last, min(2 * page, _AT_ONCE)
    return found[:limit]


def records_in_conflict(tx: Tx, asked: Sequence[int], after: int) -> list[int]:
    """Ids of the records above one of which a field asked is in conflict."""
    return tx.scalars(_RECORDS_IN_CONFLICT, {"asked": asked, "after": after})


def records_of(
    tx: Tx, asked: Sequence[int], record_ids: Sequence[int]
) -> list[ListedRecord]:
    """Return records by id, in order of loading."""
    given = {"asked": asked, "records": record_ids, "state": None, "limit": _ALL}
    return [ListedRecord(*row) for row in tx.execute(_THESE_RECORDS, given)]
