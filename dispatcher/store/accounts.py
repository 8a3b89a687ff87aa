"""Accounts and the adversaries that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, delete, func, update
from sqlmodel import col, select

from dispatcher.model import Account, Recusal
from dispatcher.store import (
    averages,
    exposure_counts,
    gold_questions,
    ledger,
    outbox,
    planning,
    relations,
    tasks,
)
from dispatcher.store.statements import in_list, insert, select_columns
from dispatcher.store.transaction import Tx

INVITES: Final = 1000
"""More than anybody renewed a worker's link since a backup."""


class AccountRow(NamedTuple):
    """An account; ``groups`` is a JSON list, ``adversary_id`` 0 while it has none."""

    id: int
    connector: str
    name: str
    adversary_id: int
    groups: str
    state: str
    invite: int = 1
    quality: float = 0.8

    @property
    def text(self) -> str:
        """The whole account: ``CONNECTOR/NAME``."""
        return f"{self.connector}/{self.name}"


_ROW: Final = select_columns(
    Account.id,
    Account.connector,
    Account.name,
    Account.adversary_id,
    Account.groups,
    Account.state,
    Account.invite,
    Account.quality,
)
_ALL: Final = _ROW.order_by(col(Account.id))
_SOME: Final = _ROW.where(in_list(Account.id, "accounts"))
_NAMED: Final = _ROW.where(
    col(Account.connector) == bindparam("of_connector"),
    col(Account.name) == bindparam("called"),
)
_ID: Final = select(Account.id).where(
    Account.connector == bindparam("of_connector"), Account.name == bindparam("called")
)
_OF: Final = col(Account.id) == bindparam("account")
_STATE: Final = select(Account.state).where(Account.id == bindparam("account"))
_ADVERSARIES: Final = select(func.count(col(Account.adversary_id).distinct())).where(
    Account.connector == bindparam("of_connector")
)
_SET_GROUPS: Final = update(Account).where(_OF).values(groups=bindparam("listed"))
_SET_STATE: Final = (
    update(Account)
    .where(_OF, col(Account.state) == bindparam("before"))
    .values(state=bindparam("after"))
)
_NEXT_INVITE: Final = (
    update(Account)
    .where(_OF)
    .values(invite=Account.invite + 1)
    .returning(col(Account.invite))
)
_REVOKE_INVITES: Final = update(Account).values(invite=Account.invite + INVITES)
_SET_LANGUAGE: Final = update(Account).where(_OF).values(language=bindparam("code"))
_JUDGE: Final = (
    update(Account)
    .where(_OF)
    .values(judged_from=bindparam("moment"), quality=bindparam("estimate"))
)
_JOIN: Final = (
    update(Account)
    .where(col(Account.adversary_id) == bindparam("ended"))
    .values(adversary_id=bindparam("survivor"))
)
_JOIN_RECUSALS: Final = (
    insert(Recusal)
    .from_select(
        ["adversary_id", "unit_id"],
        select_columns(
            bindparam("survivor", type_=BigInteger()),
            col(Recusal.unit_id),
        ).where(col(Recusal.adversary_id) == bindparam("ended")),
    )
    .on_conflict_do_nothing(index_elements=["adversary_id", "unit_id"])
)
_DROP_RECUSALS: Final = delete(Recusal).where(
    col(Recusal.adversary_id) == bindparam("ended")
)


def all_accounts(tx: Tx) -> list[AccountRow]:
    """Every account, in order of arrival."""
    return [AccountRow(*row) for row in tx.execute(_ALL)]


def accounts_of(tx: Tx, account_ids: Collection[int]) -> dict[int, AccountRow]:
    """Accounts by id."""
    found = tx.execute(_SOME, {"accounts": list(account_ids)})
    return {row.id: AccountRow(*row) for row in found}


def find(tx: Tx, connector: str, name: str) -> AccountRow | None:
    """Account of a connector by its name."""
    row = tx.execute(_NAMED, {"of_connector": connector, "called": name}).first()
    return AccountRow(*row) if row else None


def id_of(tx: Tx, connector: str, name: str) -> int | None:
    """Id of an account of a connector by its name."""
    return tx.scalar(_ID, {"of_connector": connector, "called": name})


def is_blocked(tx: Tx, account_id: int) -> bool:
    """Whether nothing goes to an account any more."""
    return tx.scalar(_STATE, {"account": account_id}) != "active"


def adversaries_at(tx: Tx, connector: str) -> int:
    """How many adversaries the accounts of a connector are."""
    return tx.scalar(_ADVERSARIES, {"of_connector": connector}) or 0


def add_account(tx: Tx, account: AccountRow) -> None:
    """Write a new account."""
    tx.insert_many("account", AccountRow._fields, [account])


def set_groups(tx: Tx, account_id: int, groups: str) -> None:
    """Keep an account's groups, a JSON list."""
    tx.execute(_SET_GROUPS, {"account": account_id, "listed": groups})


def set_state(tx: Tx, account_id: int, before: str, after: str) -> bool:
    """Move an account from one state to another; False if it was not in the first."""
    moved = {"account": account_id, "before": before, "after": after}
    return tx.execute(_SET_STATE, moved).rowcount == 1


class WithdrawnWork(NamedTuple):
    """What accounts lost that they had not taken up: tasks, and messages about work."""

    tasks: int
    messages: int


def end_work(
    tx: Tx, account_ids: Sequence[int], now: int, *, in_hand: bool
) -> WithdrawnWork:
    """Take back all that accounts were offered, wherever it lies.

    What has left is withdrawn by messages, and its answers still count; what was seen
    stays seen. The money that was kept for it is free when the books are kept next.

    Parameters
    ----------
    tx : Tx
    account_ids : Sequence of int
    now : int
    in_hand : bool
        Whether what is in their hands on our page is taken away too.
    """
    out = [
        task for task in tasks.open_tasks_of(tx, account_ids) if task.state != "shown"
    ]
    ended = tasks.end_live(tx, [task.id for task in out])
    carried = {task.outbox_id: task for task in out}  # one message, one state
    unsent = [
        number
        for number, task in carried.items()
        if task.message_state == "ready" and not task.attempts
    ]
    messages = outbox.cancel_empty(tx, unsent)
    messages += outbox.withdraw(tx, sorted(carried.keys() - set(unsent)), now)
    messages += outbox.end_offers(tx, account_ids, now)
    for account_id in account_ids if in_hand else ():
        tasks.end_in_hand(tx, account_id)
        gold_questions.end_all(tx, account_id, now)
    return WithdrawnWork(ended, messages)


def raise_invite(tx: Tx, account_id: int) -> int:
    """Let no earlier invite count any more; return the number that does."""
    number = tx.scalar(_NEXT_INVITE, {"account": account_id})
    assert number is not None
    return number


def revoke_invites(tx: Tx) -> None:
    """Let no link count that any worker was ever given: some may be revoked since."""
    tx.execute(_REVOKE_INVITES)


def set_language(tx: Tx, account_id: int, code: str) -> None:
    """Keep the language that an account's worker chose."""
    tx.execute(_SET_LANGUAGE, {"account": account_id, "code": code})


def set_qualities(tx: Tx, qualities: Iterable[tuple[int, float]]) -> None:
    """Keep how good accounts are, as estimated: (account, accuracy)."""
    tx.update_many("account", ["id"], ["quality"], qualities)


def judge_from(tx: Tx, account_id: int, at: int, quality: float) -> None:
    """Count what an account answers from a moment on, and forget how good it was."""
    tx.execute(_JUDGE, {"account": account_id, "moment": at, "estimate": quality})


def add_recusals(tx: Tx, pairs: Iterable[Sequence[int]]) -> int:
    """Show nothing of units to adversaries any more: pairs (adversary, unit)."""
    columns = ("adversary_id", "unit_id")
    return tx.insert_new("recusal", columns, columns, pairs)


def end_adversary(tx: Tx, ended: int, survivor: int) -> None:
    """Let an adversary go on as another, with all that is kept about it."""
    both = {"ended": ended, "survivor": survivor}
    tasks.join(tx, ended, survivor)
    ledger.end_chain(tx, ended, survivor)
    tx.execute(_JOIN, both)
    planning.join_planned(tx, ended, survivor)
    tx.execute(_JOIN_RECUSALS, both)
    tx.execute(_DROP_RECUSALS, {"ended": ended})
    exposure_counts.forget(tx, ended)
    relations.forget_visits(tx, ended)
    averages.forget_sums(tx, ended)
