"""Edits of a store by hand, and what faults leave: the program does nothing of this.

Whoever has the database can change any row, and a crash or an older program may leave
one that no program writes now. A test calls an edit by its name; the statements stand
here, and nowhere else in the tests (``test_writers.py``). States that the program
itself makes are in ``tests/builders.py``. Edits return how many rows they touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import delete, func, insert, select, text, update
from sqlmodel import SQLModel

from dispatcher.model import (
    Account,
    AuditLine,
    Budget,
    Chain,
    DisclosureSum,
    Entry,
    ExposureCount,
    FieldName,
    KeyLine,
    Lease,
    LedgerLine,
    Link,
    OperatorSession,
    Outbox,
    Payment,
    PaymentEvent,
    Plan,
    PolicyLock,
    PolicyVersion,
    Record,
    RuleTable,
    Run,
    Setting,
    Task,
    TaskAnswer,
    VisitCount,
)
from dispatcher.store import Tx, sqlite

Edit = Callable[[Tx], int]


def _change(tx: Tx, model: type[SQLModel], *where: object, **columns: object) -> int:
    return tx.execute(update(model).where(*where).values(**columns)).rowcount


def _remove(tx: Tx, model: type[SQLModel], *where: object) -> int:
    return tx.execute(delete(model).where(*where)).rowcount


def empty(tx: Tx, model: type[SQLModel]) -> int:
    """Delete all rows of a table."""
    return _remove(tx, model)


def set_value(
    tx: Tx, table: str, column: str, value: object, key: Mapping[str, object]
) -> int:
    """Write a value into one row of any table."""
    found = SQLModel.metadata.tables[table]
    here = [found.c[name] == one for name, one in key.items()]
    return tx.execute(update(found).where(*here).values({column: value})).rowcount


# -- the guards of the tables that only grow -----------------------------------------------

_GUARDED = ("ledger_line", "key_lines", "policy", "payment_event", "audit_line")


@contextmanager
def unguarded(tx: Tx) -> Iterator[None]:
    """Take the guards away, as whoever edits lines would, and put them back."""
    if tx.dialect == "sqlite":
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        guards = tx.execute(text(found)).all()
        off = [f"DROP TRIGGER {name}" for name, _ in guards]
        on = [made for _, made in guards]
    else:
        off = [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in _GUARDED]
        on = [words.replace("DISABLE", "ENABLE") for words in off]
    for words in off:
        tx.execute(text(words))
    yield
    for words in on:
        tx.execute(text(words))


def drop_guard(tx: Tx, name: str) -> None:
    """Drop a trigger, named ``TABLE_no_VERB``."""
    on = "" if tx.dialect == "sqlite" else f" ON {name.partition('_no_')[0]}"
    tx.execute(text(f"DROP TRIGGER {name}{on}"))


def disable_guard(tx: Tx, name: str) -> None:
    """Switch a trigger of PostgreSQL off."""
    tx.execute(text(f"ALTER TABLE {name.partition('_no_')[0]} DISABLE TRIGGER {name}"))


REWRITES: Mapping[str, Edit] = {
    "ledger, changed": partial(_change, model=LedgerLine, at=0),
    "ledger, deleted": partial(_remove, model=LedgerLine),
    "audit log, changed": partial(_change, model=AuditLine, actor="eve"),
    "audit log, deleted": partial(_remove, model=AuditLine),
    "payments, changed": partial(_change, model=PaymentEvent, amount=0),
    "payments, deleted": partial(_remove, model=PaymentEvent),
}
"""What the guards refuse, once there is a line."""


def rewrite(tx: Tx, verb: str, line: SQLModel) -> None:
    """Update, delete or replace a line; PostgreSQL replaces none: truncate its table."""
    table = line.__table__
    if verb == "UPDATE":
        key = list(table.primary_key)[-1]
        tx.execute(update(table).values({key: key + 1}))
    elif verb == "DELETE":
        tx.execute(delete(table))
    elif tx.dialect == "sqlite":
        given = line.model_dump(exclude_unset=True)
        tx.execute(insert(table).prefix_with("OR REPLACE").values(given))
    else:
        tx.execute(text(f"TRUNCATE {table.name}"))


LEDGER_REWRITES = ("UPDATE ledger_line SET at = 0", "DELETE FROM ledger_line")
"""The same in the words of somebody with a connection of their own."""

FORBIDDEN = (
    *LEDGER_REWRITES,
    "TRUNCATE ledger_line",
    "UPDATE policy SET name = ''",
    "DELETE FROM key_lines",
)
"""What a role of the daemon's own has no privilege for, in such words."""

SCHEMA_REWRITE = "UPDATE alembic_version SET version_num = 'x'"

# -- the schema, and what a store has for itself ---------------------------------------------


def set_schema(tx: Tx, version: str) -> None:
    """Let a store be of another version of the program."""
    tx.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})


def set_schema_of_file(path: Path, version: str) -> None:
    """Do the same to a SQLite store that the program does not open (any more)."""
    with closing(sqlite.safe_driver().connect(path)) as connection, connection:
        words = "UPDATE alembic_version SET version_num = ?"
        connection.execute(words, [version])


def add_column(tx: Tx) -> None:
    tx.execute(text("ALTER TABLE run ADD COLUMN odd integer"))


def drop_table(tx: Tx, model: type[SQLModel]) -> None:
    tx.execute(text(f"DROP TABLE {model.__tablename__}"))


def forget_key(tx: Tx, name: str) -> int:
    return _remove(tx, Setting, Setting.name == name)


def change_lease(tx: Tx, **columns: object) -> int:
    """Let somebody else lead, or the leader's lease end at another time."""
    return _change(tx, Lease, **columns)


def age_sign_ins(tx: Tx) -> int:
    """Let it be long ago that operators proved who they are."""
    return _change(tx, OperatorSession, proven_at=0)


# -- who is who, and what records say --------------------------------------------------------


def put_into_adversary(tx: Tx, name: str, adversary_id: int) -> int:
    """Let an account be in another adversary: undo a merge, or make one up."""
    return _change(tx, Account, Account.name == name, adversary_id=adversary_id)


def put_into_group(tx: Tx, name: str, groups: str) -> int:
    return _change(tx, Account, Account.name == name, groups=groups)


def rename(tx: Tx, name: str, other: str) -> int:
    return _change(tx, Account, Account.name == name, name=other)


def forget_merges(tx: Tx) -> int:
    """Let no chain have ended in another."""
    return _change(tx, Chain, survivor_id=None)


def change_entry(tx: Tx, entry_id: int, **columns: object) -> int:
    """Let an entry be about another record or subject, of another time, or damaged."""
    return _change(tx, Entry, Entry.id == entry_id, **columns)


def change_record(tx: Tx, record_id: int, **columns: object) -> int:
    return _change(tx, Record, Record.id == record_id, **columns)


def copy_record(tx: Tx, source: int, target: int) -> int:
    """Put the sealed columns of a record into another's row."""
    columns, key_id = tx.execute(
        select(Record.columns, Record.key_id).where(Record.id == source)
    ).one()
    return change_record(tx, target, columns=columns, key_id=key_id)


def rename_field(tx: Tx, name: str, other: str) -> int:
    return _change(tx, FieldName, FieldName.name == name, name=other)


def remove_link(tx: Tx, link_id: int) -> int:
    return _remove(tx, Link, Link.id == link_id)


def lose_runs(tx: Tx, *numbers: int) -> int:
    """Leave records, of all or some runs, as a replay leaves those of a lost store."""
    return _change(tx, Run, *([Run.id.in_(numbers)] if numbers else []), state="lost")


def find_runs(tx: Tx) -> int:
    """Undo ``lose_runs``."""
    return _change(tx, Run, state="active")


# -- what was shown --------------------------------------------------------------------------


def miscount(
    tx: Tx, entries: int | None = None, adversary_id: int | None = None
) -> int:
    """Let the summary count one entry more than was shown to all or one, or so many."""
    more = ExposureCount.entries + 1 if entries is None else entries
    whose = adversary_id or ExposureCount.adversary_id
    return _change(tx, ExposureCount, ExposureCount.adversary_id == whose, entries=more)


def unbook_showings(tx: Tx) -> int:
    """Let no exposure count as a showing, with the guards off."""
    return _change(tx, LedgerLine, LedgerLine.kind == "exposure", showing=0)


def change_task(tx: Tx, task_id: int, **columns: object) -> int:
    return _change(tx, Task, Task.id == task_id, **columns)


EDITS: Mapping[str, Edit] = {
    "account.adversary_id": partial(put_into_adversary, name="cat", adversary_id=4),
    "account.groups": partial(put_into_group, name="bob", groups='["house"]'),
    "chain.survivor_id": forget_merges,
    "entry.subject_id": partial(change_entry, entry_id=1, subject_id=3),
    "entry.time": partial(change_entry, entry_id=1, time=0),
    "entry": partial(change_entry, entry_id=1, record_id=4),
    "record.subject_id": partial(change_record, record_id=1, subject_id=3),
    "field.name": partial(rename_field, name="b", other="e"),
    "policy_lock.policy_version": partial(_change, model=PolicyLock, policy_version=1),
    "rule_table": lambda tx: _remove(tx, RuleTable, RuleTable.version == 2),
    "link": partial(remove_link, link_id=1),
    "exposure_count": partial(empty, model=ExposureCount),
    "visit": partial(empty, model=VisitCount),
    "disclosure_sum": partial(empty, model=DisclosureSum),
    "task.entry_id": partial(change_task, task_id=1, entry_id=5),
}
"""A way to edit a store by hand, by the column that a comparison names for it."""

# -- the chains of lines -----------------------------------------------------------------------


_LOG = Chain.id == 0


def break_head_of_log(tx: Tx) -> int:
    """Let the head of the log's chain be no line's hash."""
    return _change(tx, Chain, _LOG, head="f" * 64)


def break_heads(tx: Tx) -> int:
    """Let the head of each adversary's chain be no line's hash."""
    return _change(tx, Chain, ~_LOG, head="f" * 64)


def shift_ends(tx: Tx, by: int, name: str | None = None) -> int:
    """Let the chain of all adversaries or one say that it has more or fewer lines."""
    return _change(
        tx, Chain, ~_LOG, Chain.name == (name or Chain.name), seq=Chain.seq + by
    )


def date_chains(tx: Tx, at: int) -> int:
    """Let the last line of every chain be of a moment."""
    return _change(tx, Chain, at=at)


_EXPOSURE = LedgerLine.kind == "exposure"

LEDGER_EDITS: Mapping[str, Edit] = {
    "the moment of an exposure": lambda tx: _change(
        tx, LedgerLine, _EXPOSURE, LedgerLine.seq == 2, at=LedgerLine.at + 1
    ),
    "the cause of an exposure": lambda tx: _change(
        tx, LedgerLine, _EXPOSURE, LedgerLine.seq == 2, cause="other"
    ),
    "what was shown": lambda tx: _change(
        tx, LedgerLine, LedgerLine.entry_id == 5, entry_id=4
    ),
    "an exposure removed": lambda tx: _remove(
        tx, LedgerLine, _EXPOSURE, LedgerLine.seq == 3
    ),
    "the body of a seal": lambda tx: _change(
        tx, LedgerLine, LedgerLine.kind == "seal", body="{}"
    ),
    "the name of an account": partial(rename, name="ann", other="eve"),
    "the text of a policy": lambda tx: _change(
        tx, PolicyVersion, PolicyVersion.version == 1, source=b"\x00"
    ),
    "keys": partial(_change, model=KeyLine, keys=b"{}\n"),
    "the body of a member": lambda tx: _change(
        tx, LedgerLine, LedgerLine.kind == "member", LedgerLine.seq == 1, body="{}"
    ),
    "a policy's line that cannot be read": lambda tx: _change(
        tx, LedgerLine, LedgerLine.kind == "policy", body="!"
    ),
}
"""Edits of lines and of what they name, with the guards off."""

AUDIT_EDITS: Mapping[str, Edit] = {
    "an actor": lambda tx: _change(tx, AuditLine, AuditLine.seq == 2, actor="eve"),
    "a line removed": lambda tx: _remove(tx, AuditLine, AuditLine.seq == 2),
    "the last line removed": lambda tx: _remove(tx, AuditLine, AuditLine.seq == 3),
    "all lines removed": partial(empty, model=AuditLine),
}
"""Edits of the audit log, with the guards off."""

# -- what a crash, an older program or time leaves ---------------------------------------------

_FIRST = select(func.min(TaskAnswer.task_id)).scalar_subquery()
_LAST = select(func.max(TaskAnswer.task_id)).scalar_subquery()


def _give_first_answer_away(tx: Tx) -> int:
    other = select(func.max(Account.id)).where(Account.id != Task.account_id)
    return _change(tx, Task, Task.id == _FIRST, account_id=other.scalar_subquery())


def _unbook_first_answer(tx: Tx) -> int:
    account, entry = tx.execute(
        select(TaskAnswer.account_id, TaskAnswer.entry_id).where(
            TaskAnswer.task_id == _FIRST
        )
    ).one()
    return _remove(
        tx, LedgerLine, LedgerLine.account_id == account, LedgerLine.entry_id == entry
    )


CRASHES: Mapping[str, Edit] = {
    "an answer is lost": lambda tx: _remove(
        tx, TaskAnswer, TaskAnswer.task_id == _LAST
    ),
    "an answer is another": lambda tx: _change(
        tx, TaskAnswer, TaskAnswer.task_id == _FIRST, raw=b"x"
    ),
    "a task is another account's": _give_first_answer_away,
    "a showing has no line": _unbook_first_answer,
    "lines are of an hour later": lambda tx: _change(
        tx, LedgerLine, _EXPOSURE, at=LedgerLine.at + 3_600_000_000
    ),
    "lines have another cause": lambda tx: _change(
        tx, LedgerLine, _EXPOSURE, cause="x"
    ),
    "tasks have lost their message": lambda tx: _change(
        tx, Task, Task.outbox_id.is_not(None), outbox_id=None
    ),
}
"""What a crash could do to a store, with its guards off."""


def age_messages(tx: Tx, **columns: object) -> int:
    """Let all messages have waited since 1970."""
    return _change(tx, Outbox, created_at=1, **columns)


def let_pass(tx: Tx, microseconds: int) -> int:
    """Let the messages that were sent be due that much earlier."""
    return _change(tx, Outbox, Outbox.state == "sent", due=Outbox.due - microseconds)


def forget_payments(tx: Tx) -> None:
    """Leave payments as a backup from before they were made has them."""
    _change(tx, Payment, state="due", attempts=0)
    _change(tx, Budget, paid=0)


def forget_digests(tx: Tx) -> int:
    """Leave plans as they were before they had a digest."""
    return _change(tx, Plan, summary=func.replace(Plan.summary, "sha256", "older"))


def leave_draft_in_clear(tx: Tx, task_id: int, draft: bytes) -> int:
    """Write a draft as a store without data keys keeps it."""
    return change_task(tx, task_id, draft=draft, key_id=None)
