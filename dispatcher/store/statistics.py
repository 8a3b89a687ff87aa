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
"""Messages of one connector in one state: connector, state, messages, oldest."""

FailingRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""Messages of one connector with one last error: connector, error, retried, dead, tries."""

RunRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""One run: run, state, created_at, pilot, records, fields, answered, conflict."""


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
_IN_DOUBT: Final = (
    select(Task.connector, _COUNT)
    .join(Outbox, col(Outbox.id) == col(Task.outbox_id))
    .where(
        col(Outbox.state).in_(("ready", "leased", "dead")),
        col(Outbox.attempts) > 0,
        col(Task.state).in_(("booked", "dead")),
    )
    .group_by(col(Task.connector))
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
_LIVE_SHOWN: Final = (
    select(_COUNT)
    .select_from(Task)
    .where(Task.state == fixed("shown"), col(Task.leased_until) > bindparam("now"))
)


def tasks(tx: Tx) -> list[tuple[str, str, int]]:
    """Tasks by connector and state."""
    return _triples(tx, _TASKS)


def connectors(
    tx: Tx, counted: Iterable[tuple[str, str, int]], now: int
) -> list[ConnectorRow]:
    """Sum up what :func:`tasks` counted, and find what is retried after a failure."""
    by_connector: dict[str, dict[str, int]] = {}
    for name, state, count in counted:
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


def messages(tx: Tx) -> Sequence[MessageRow]:
    """Messages by connector and state."""
    return tx.execute(_MESSAGES).all()


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


_TOTALS: Final[dict[str, Any]] = {
    "records": _count_of(Record, col(Record.erased_at).is_(None)),
    "entries": _count_of(Entry),
    "accounts": _count_of(Account, Account.state == "active"),
    "adversaries": _count_of(Chain, _IS_ADVERSARY),
    "exposures": _count_of(LedgerLine, LedgerLine.kind == "exposure"),
    "answers": _count_of(TaskAnswer, TaskAnswer.valid == 1),
    "quarantined": _count_of(Quarantine, col(Quarantine.dismissed_at).is_(None)),
}
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
_HELD_BACK: Final = (
    select(Held.reason, FieldName.name, _COUNT)
    .join(Entry, col(Entry.id) == col(Held.entry_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .group_by(col(Held.reason), col(FieldName.name))
    .order_by(_COUNT.desc(), col(Held.reason), col(FieldName.name))
)
_SUMMARY: Final = (
    select(Plan.summary)
    .where(Plan.state == "applied")
    .order_by(col(Plan.id).desc())
    .limit(1)
)
_RUNS: Final = select(Run.name).order_by(col(Run.name))
_RUN_STATES: Final = (
    select_columns(
        col(Run.name).label("run"),
        Run.state,
        Run.created_at,
        Run.pilot,
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
    .group_by(
        col(Run.id), col(Run.name), col(Run.state), col(Run.created_at), col(Run.pilot)
    )
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
    return int(tx.scalar(_TOTALS["entries"]) or 0)


def counts(tx: Tx) -> dict[str, int]:
    """Records, entries, accounts, adversaries, exposures and answers."""
    return {name: int(tx.scalar(total) or 0) for name, total in _TOTALS.items()}


def only_at(tx: Tx, connectors: Iterable[str]) -> int:
    """Count adversaries of whom every account is at one of the connectors."""
    return int(tx.scalar(_ONLY_AT, {"connectors": sorted(connectors)}) or 0)


def states(tx: Tx, table: str) -> dict[str, int]:
    """How many rows of ``task``, ``outbox`` or ``account`` are in a state."""
    return {state: int(count) for state, count in tx.execute(_STATES[table])}


def fields(tx: Tx, wanted: Sequence[int]) -> tuple[int, dict[str, int]]:
    """Count the entries of some fields, given by number.

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
    return tx.scalars(_RUNS)


def run_states(tx: Tx, asked: Sequence[int]) -> Sequence[RunRow]:
    """Runs, and how many of the fields asked are done (grows with the store)."""
    return tx.execute(_RUN_STATES, {"asked": asked}).all()


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
    select(_GOES_ON_AS, _COUNT)
    .select_from(Chain)
    .join(
        LedgerLine,
        (col(LedgerLine.chain_id) == col(Chain.id))
        & (col(LedgerLine.kind) == "exposure"),
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
_page: Final = (
    select(Record.id, Record.pseudonym, Record.run_id)
    .where(col(Record.id) > bindparam("after", type_=BigInteger()))
    .order_by(col(Record.id))
    .limit(bindparam("page", type_=BigInteger()))
    .subquery("page")
)
_settled: Final = (
    select_columns(
        _page.c.id,
        _page.c.pseudonym,
        _page.c.run_id,
        func.count(col(Entry.id)).label("fields"),
        sum_where(col(Result.state) == "answered").label("answered"),
        sum_where(col(Result.state) == "conflict").label("conflict"),
    )
    .select_from(_page)
    .outerjoin(
        Entry, (col(Entry.record_id) == _page.c.id) & in_list(Entry.field_id, "asked")
    )
    .outerjoin(Result, col(Result.entry_id) == col(Entry.id))
    .group_by(_page.c.id, _page.c.pseudonym, _page.c.run_id)
    .subquery("settled")
)
_state: Final = case(
    (_settled.c.conflict > 0, "conflict"),
    (_settled.c.answered < _settled.c.fields, "open"),
    else_="answered",
)
_stated: Final = select_columns(*_settled.c, _state.label("state")).subquery("stated")
_RECORD_STATES: Final = _grouped(_stated.c.state)
_RECORDS: Final = (
    select_columns(
        _stated.c.id,
        _stated.c.pseudonym,
        col(Run.name).label("run"),
        _stated.c.fields,
        _stated.c.answered,
        _stated.c.conflict,
        _stated.c.state,
    )
    .join(Run, col(Run.id) == _stated.c.run_id)
    .where(
        or_(
            cast(bindparam("state", type_=Text()), Text).is_(None),
            _stated.c.state == bindparam("state", type_=Text()),
        )
    )
    .order_by(_stated.c.id)
    .limit(bindparam("limit", type_=BigInteger()))
)


def record_states(tx: Tx, asked: Sequence[int]) -> dict[str, int]:
    """How many records are in each state, by the fields asked (grows with the store)."""
    rows = tx.execute(_RECORD_STATES, {"asked": asked, "after": 0, "page": _ALL})
    return {state: int(count) for state, count in rows}


def records(
    tx: Tx, asked: Sequence[int], after: int, state: str | None, limit: int
) -> list[ListedRecord]:
    """Records with a larger id, in order of loading, of a state (None: any).

    ``asked`` has the numbers of the fields that count.
    """
    page = limit if state is None else _ALL
    given = {
        "asked": asked,
        "after": after,
        "page": page,
        "state": state,
        "limit": limit,
    }
    return [ListedRecord(*row) for row in tx.execute(_RECORDS, given)]
