"""Made-up questions: what there is of them, who was asked which, and how it went.

Every query of the serving stage is bounded by one account's questions, or by one
field's; nothing here reads a record but :func:`shown_values`, for an operator's check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, and_, bindparam, delete, func, update
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Entry,
    FieldName,
    FieldTest,
    GoldQuestion,
    GoldTask,
    Payment,
    Qualification,
)
from dispatcher.store.statements import (
    Columns,
    Parameters,
    fixed,
    in_list,
    in_words,
    insert,
    select_columns,
)
from dispatcher.store.transaction import Tx

TEST: Final = "test"
GOLD: Final = "gold"

ATTEMPTS: Final = 2
"""Tries that a worker has at a field's test; a day lies between them."""


@dataclass(frozen=True, slots=True)
class HandedRow:
    """One showing of a made-up question to an account."""

    id: int
    gold_question_id: int
    field_id: int
    account_id: int
    purpose: str
    state: str
    created_at: int
    leased_until: int | None
    draft: bytes | None
    attempt: int


StandingRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A field's test, and how far one account is with it: field_id, pass_share, state,
attempt, ended_at."""


_ASKED: Final = (
    col(GoldQuestion.field_id) == bindparam("field"),
    col(GoldQuestion.purpose) == bindparam("of_purpose"),
    col(GoldQuestion.retired_at).is_(None),
)
_RETIRE: Final = (
    update(GoldQuestion).where(*_ASKED).values(retired_at=bindparam("moment"))
)
_EXCUSE: Final = delete(FieldTest).where(col(FieldTest.field_id) == bindparam("field"))
_REQUIRE: Final = insert(FieldTest).values(
    field_id=bindparam("field"),
    pass_share=bindparam("share"),
)
_BEGIN_ANEW: Final = delete(Qualification).where(
    col(Qualification.field_id) == bindparam("field"),
    col(Qualification.state) != "passed",
)
_QUESTION: Final = select(GoldQuestion).where(GoldQuestion.id == bindparam("question"))
_LOCK: Final = (
    select(GoldQuestion.id)
    .where(GoldQuestion.id == bindparam("question"))
    .with_for_update()
)
_ACTIVE: Final = select(GoldQuestion.id).where(*_ASKED).order_by(col(GoldQuestion.id))
_ACTIVE_VALUES: Final = select(GoldQuestion.shown).where(*_ASKED)
_FIELD: Final = select(FieldName.id).where(FieldName.name == bindparam("called"))
_ASKED_OF: Final = (
    select(GoldTask.gold_question_id)
    .distinct()
    .join(Account, col(Account.id) == GoldTask.account_id)
    .where(Account.adversary_id == bindparam("adversary"))
)
_ADVERSARIES: Final = (
    select(GoldTask.gold_question_id, func.count(col(Account.adversary_id).distinct()))
    .join(Account, col(Account.id) == GoldTask.account_id)
    .where(in_list(GoldTask.gold_question_id, "questions"))
    .group_by(col(GoldTask.gold_question_id))
)
_SHOWN: Final = select_columns(Entry.id, Entry.shown, Entry.key_id).where(
    Entry.field_id == bindparam("field"), func.length(Entry.shown) > 0
)
_HANDED: Final = select_columns(
    GoldTask.id,
    GoldTask.gold_question_id,
    GoldQuestion.field_id,
    GoldTask.account_id,
    GoldQuestion.purpose,
    GoldTask.state,
    GoldTask.created_at,
    GoldTask.leased_until,
    GoldTask.draft,
    GoldTask.attempt,
).join(GoldQuestion, col(GoldQuestion.id) == GoldTask.gold_question_id)
_THE_TASK: Final = col(GoldTask.id) == bindparam("task")
_BY_ID: Final = _HANDED.where(_THE_TASK)
_BY_ID_LOCKED: Final = _BY_ID.with_for_update(of=GoldTask)
_OF_ACCOUNT: Final = col(GoldTask.account_id) == bindparam("account")
_IN_HAND: Final = (
    _HANDED.where(
        _OF_ACCOUNT,
        GoldTask.state == fixed("shown"),
        col(GoldTask.leased_until) > bindparam("now"),
    )
    .order_by(col(GoldTask.leased_until).desc(), col(GoldTask.id).desc())
    .limit(1)
)
_LAPSED: Final = (
    _HANDED.where(
        _OF_ACCOUNT,
        in_words(GoldTask.state, "shown", "expired"),
        col(GoldTask.leased_until) <= bindparam("now"),
        GoldTask.created_at > bindparam("since"),
    )
    .order_by(col(GoldTask.id).desc())
    .limit(1)
)
_GOLD_SINCE: Final = (
    select(func.count())
    .select_from(GoldTask)
    .where(
        _OF_ACCOUNT,
        GoldTask.created_at > bindparam("since"),
        GoldTask.attempt == 0,
    )
)
_LEASE: Final = (
    update(GoldTask)
    .where(_THE_TASK)
    .values(state="shown", leased_until=bindparam("until"))
)
_DRAFT: Final = update(GoldTask).where(_THE_TASK).values(draft=bindparam("typed"))
_END: Final = (
    update(GoldTask)
    .where(_THE_TASK)
    .values(
        state=bindparam("after"),
        correct=bindparam("right"),
        ended_at=bindparam("moment"),
        leased_until=None,
        draft=None,
    )
)
_FRESH: Final = select(GoldTask.id).where(
    _THE_TASK,
    GoldTask.state == "answered",
    col(GoldTask.ended_at) >= bindparam("since"),
)
_REOPEN: Final = (
    update(GoldTask)
    .where(_THE_TASK)
    .values(state="shown", correct=None, ended_at=None, leased_until=bindparam("until"))
)
_END_ALL: Final = (
    update(GoldTask)
    .where(
        col(GoldTask.account_id) == bindparam("account"),
        in_words(GoldTask.state, "shown", "expired"),
    )
    .values(
        state="returned", leased_until=None, draft=None, ended_at=bindparam("moment")
    )
)
_EXPIRE: Final = (
    update(GoldTask)
    .where(
        col(GoldTask.state) == fixed("shown"),
        col(GoldTask.leased_until) <= bindparam("now"),
    )
    .values(state="expired", draft=None)
)
_UNPAID: Final = (
    select(Payment.about)
    .join(GoldTask, col(GoldTask.id) == Payment.about)
    .where(
        Payment.kind == "field",
        Payment.state == "reserved",
        in_words(GoldTask.state, "returned", "expired"),
        GoldTask.created_at < bindparam("since"),
    )
)
_TESTS: Final = (
    select_columns(
        FieldTest.field_id,
        FieldTest.pass_share,
        func.coalesce(Qualification.state, "open").label("state"),
        func.coalesce(Qualification.attempt, 0).label("attempt"),
        Qualification.ended_at,
    )
    .outerjoin(
        Qualification,
        and_(
            col(Qualification.field_id) == FieldTest.field_id,
            col(Qualification.account_id) == bindparam("account"),
        ),
    )
    .order_by(col(FieldTest.field_id))
)
_OF_ATTEMPT: Final = (
    _OF_ACCOUNT,
    col(GoldQuestion.field_id) == bindparam("field"),
    col(GoldQuestion.purpose) == "test",
    col(GoldTask.attempt) == bindparam("number"),
)
_ATTEMPTED: Final = (
    select_columns(GoldTask.gold_question_id, GoldTask.correct)
    .join(GoldQuestion, col(GoldQuestion.id) == GoldTask.gold_question_id)
    .where(*_OF_ATTEMPT)
)
_UNMARKED: Final = (
    _HANDED.where(
        *_OF_ATTEMPT,
        col(GoldTask.correct).is_(None),
        col(GoldQuestion.retired_at).is_(None),
    )
    .order_by(col(GoldTask.id))
    .limit(1)
)
_FAILED: Final = (
    select(Qualification.account_id, Qualification.field_id)
    .join(FieldTest, col(FieldTest.field_id) == Qualification.field_id)
    .where(Qualification.state == "failed", Qualification.attempt >= ATTEMPTS)
    .order_by(col(Qualification.account_id), col(Qualification.field_id))
)


# -- the questions -----------------------------------------------------------------


def add(tx: Tx, questions: Iterable[GoldQuestion]) -> None:
    """Write new questions; their ids are of block ``gold_question``."""
    columns = ("id", "field_id", "purpose", "shown", "media", "answer")
    rows = (tuple(getattr(one, name) for name in columns) for one in questions)
    tx.insert_many("gold_question", columns, rows)


def retire(tx: Tx, field_id: int, purpose: str, at: int) -> int:
    """Ask a field's questions of one purpose no more; return how many there were."""
    given = {"field": field_id, "of_purpose": purpose, "moment": at}
    return tx.execute(_RETIRE, given).rowcount


def require(tx: Tx, field_id: int, pass_share: float) -> None:
    """Let a field ask for a passed test; who has not passed one begins anew."""
    excuse(tx, field_id)
    tx.execute(_REQUIRE, {"field": field_id, "share": pass_share})
    tx.execute(_BEGIN_ANEW, {"field": field_id})


def excuse(tx: Tx, field_id: int) -> bool:
    """Let a field ask for no test any more; False if it asked for none."""
    return tx.execute(_EXCUSE, {"field": field_id}).rowcount == 1


def question(tx: Tx, gold_question_id: int) -> GoldQuestion | None:
    """Question by id."""
    return tx.model(_QUESTION, {"question": gold_question_id})


def active(tx: Tx, field_id: int, purpose: str) -> list[int]:
    """Ids of a field's questions of one purpose that are still asked."""
    return tx.scalars(_ACTIVE, {"field": field_id, "of_purpose": purpose})


def active_values(tx: Tx, field_id: int, purpose: str) -> frozenset[bytes]:
    """What a field's questions of one purpose show, those that are still asked."""
    asked = {"field": field_id, "of_purpose": purpose}
    return frozenset(tx.scalars(_ACTIVE_VALUES, asked))


def field_named(tx: Tx, name: str) -> int | None:
    """Number of a field, over all policies; None if no policy ever had it."""
    return tx.scalar(_FIELD, {"called": name})


def asked_of(tx: Tx, adversary_id: int) -> frozenset[int]:
    """Questions that an adversary was ever asked."""
    return frozenset(tx.scalars(_ASKED_OF, {"adversary": adversary_id}))


def adversaries(tx: Tx, question_ids: Sequence[int]) -> dict[int, int]:
    """How many adversaries each of a few questions was asked of; none is left out."""
    return dict(tx.execute(_ADVERSARIES, {"questions": question_ids}).all())


def lock(tx: Tx, gold_question_id: int) -> None:
    """Lock a question until the end: nobody else is asked it meanwhile."""
    tx.scalar(_LOCK, {"question": gold_question_id})


def shown_values(tx: Tx, field_id: int) -> Iterator[bytes]:
    """Shown forms of all entries of a field, as they stream in."""
    found = tx.stream(_SHOWN, {"field": field_id})
    for row in tx.vault.opened(tx, found, "entry.shown"):
        yield row.shown


# -- who was asked what ------------------------------------------------------------


def handed(tx: Tx, task_id: int) -> HandedRow | None:
    """Showing by id."""
    return _handed(tx, _BY_ID, {"task": task_id})


def lock_handed(tx: Tx, task_id: int) -> HandedRow | None:
    """Showing by id, locked until the end of the transaction."""
    return _handed(tx, _BY_ID_LOCKED, {"task": task_id})


def in_hand(tx: Tx, account_id: int, now: int) -> HandedRow | None:
    """Return the made-up question that an account has in its hands, or None."""
    return _handed(tx, _IN_HAND, {"account": account_id, "now": now})


def lapsed(tx: Tx, account_id: int, since: int, now: int) -> HandedRow | None:
    """Return the question whose time ran out last, and not long ago."""
    asked = {"account": account_id, "since": since, "now": now}
    return _handed(tx, _LAPSED, asked)


def gold_since(tx: Tx, account_id: int, since: int) -> int:
    """How much gold an account was asked after a moment."""
    return tx.scalar(_GOLD_SINCE, {"account": account_id, "since": since}) or 0


def hand(tx: Tx, task: HandedRow) -> None:
    """Write a new showing."""
    columns = (
        "id", "gold_question_id", "account_id", "state", "created_at", "leased_until", "attempt",
    )  # fmt: skip
    tx.insert_many(
        "gold_task", columns, [tuple(getattr(task, name) for name in columns)]
    )


def lease(tx: Tx, task_id: int, until: int) -> None:
    """Put a question into its worker's hands until a moment."""
    tx.execute(_LEASE, {"task": task_id, "until": until})


def save_draft(tx: Tx, task_id: int, draft: bytes) -> None:
    """Keep what was typed so far."""
    tx.execute(_DRAFT, {"task": task_id, "typed": draft})


def end(tx: Tx, task_id: int, state: str, correct: int | None, at: int) -> None:
    """Take a question out of its worker's hands; the draft goes."""
    given = {"task": task_id, "after": state, "right": correct, "moment": at}
    tx.execute(_END, given)


def is_fresh(tx: Tx, task_id: int, since: int) -> bool:
    """Whether a question was answered since a moment."""
    return tx.scalar(_FRESH, {"task": task_id, "since": since}) is not None


def reopen(tx: Tx, task_id: int, until: int) -> None:
    """Forget the answer to a question, and put it into its worker's hands again."""
    tx.execute(_REOPEN, {"task": task_id, "until": until})


def end_all(tx: Tx, account_id: int, at: int) -> None:
    """Take all questions out of an account's hands; the drafts go."""
    tx.execute(_END_ALL, {"account": account_id, "moment": at})


def expire(tx: Tx, now: int) -> None:
    """End the leases that are over; the drafts go."""
    tx.execute(_EXPIRE, {"now": now})


def unpaid_lapsed(tx: Tx, since: int) -> list[int]:
    """Showings begun before a moment that came back unanswered, with money kept."""
    return tx.scalars(_UNPAID, {"since": since})


# -- tests -------------------------------------------------------------------------


def tests(tx: Tx, account_id: int) -> Sequence[StandingRow]:
    """All fields that ask for a test, and how far one account is with each."""
    return tx.execute(_TESTS, {"account": account_id}).all()


def attempted(
    tx: Tx, account_id: int, field_id: int, attempt: int
) -> dict[int, int | None]:
    """Questions of an attempt that were handed out: 1 right, 0 not, None not ended."""
    asked = {"account": account_id, "field": field_id, "number": attempt}
    return dict(tx.execute(_ATTEMPTED, asked).all())


def unmarked(tx: Tx, account_id: int, field_id: int, attempt: int) -> HandedRow | None:
    """Return the first question of an attempt that was handed out and never ended."""
    asked = {"account": account_id, "field": field_id, "number": attempt}
    return _handed(tx, _UNMARKED, asked)


def stand(
    tx: Tx,
    account_id: int,
    field_id: int,
    *,
    state: str,
    attempt: int,
    asked: int = 0,
    correct: int = 0,
    ended_at: int | None = None,
) -> None:
    """Write how far an account is with a field's test."""
    columns = (
        "account_id", "field_id", "state", "attempt", "asked", "correct", "ended_at",
    )  # fmt: skip
    row = (account_id, field_id, state, attempt, asked, correct, ended_at)
    tx.upsert_many("qualification", ["account_id", "field_id"], columns, [row])


def failed_for_good(tx: Tx) -> list[tuple[int, int]]:
    """Accounts that have no try left at a test: (account, field)."""
    return [(account, field) for account, field in tx.execute(_FAILED)]


def _handed(tx: Tx, asked: Columns, parameters: Parameters) -> HandedRow | None:
    row = tx.execute(asked, parameters).first()
    return None if row is None else HandedRow(*row)
