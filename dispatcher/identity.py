"""Accounts: names, groups, blocks, and valid invites.

Accounts are added by :func:`dispatcher.ledger.identity_changes.add_accounts`, since becoming an
adversary is a line of the ledger.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import Conflict, Invalid, NotFound, Usage
from dispatcher.model import TRANSITIONS
from dispatcher.store import accounts as rows
from dispatcher.store import arrivals, events, ledger
from dispatcher.store.accounts import AccountRow
from dispatcher.store.transaction import Tx
from policies.answers.skill import EXPECTED_RIGHT
from policies.policy import Policy

LONGEST_NAME: Final = 200
_CONNECTOR: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_JOINING: Final = frozenset("\u200c\u200d")  # within words of some scripts, and emoji


@dataclass(frozen=True)
class GroupMembers:
    """A declared group and its accounts."""

    name: str
    accounts: tuple[str, ...]
    trusted: tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """Result of reading a file of accounts.

    Attributes
    ----------
    names : tuple of (str, str)
        Connector and name, in the order of the file, without duplicates.
    rejected : tuple of (int, str)
        Line, and what is wrong with it.
    """

    names: tuple[tuple[str, str], ...]
    rejected: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Grouped:
    """Result of reading a file of groups.

    Attributes
    ----------
    parts : tuple of tuple of str
        Accounts (``CONNECTOR/NAME``) of each group that has two or more.
    rejected : tuple of (int, str)
        Line, and what is wrong with it.
    """

    parts: tuple[tuple[str, ...], ...]
    rejected: tuple[tuple[int, str], ...]


def account_of(text: str) -> tuple[str, str]:
    """Split ``CONNECTOR/NAME``; the name may be any text, with slashes and emoji too.

    Raises
    ------
    Usage
        It has no connector, no name, or a character that cannot be shown.
    """
    fault = _fault(text)
    if fault is not None:
        raise Usage(
            f"{text[:60]!r} is no account: {fault}",
            why="An account is CONNECTOR/NAME, the name as the connector writes it.",
            fix="Write it like inhouse/ann or prolific/5f3a",
        )
    connector, _, name = text.partition("/")
    return connector, name


def _fault(text: str) -> str | None:
    connector, found, name = text.partition("/")
    hidden = any(
        unicodedata.category(char) in _HIDDEN and char not in _JOINING for char in name
    )
    faults = {
        "it has no connector before a slash": not found,
        "its connector is not lower-case letters, digits, - and _": (
            not _CONNECTOR.fullmatch(connector)
        ),
        "it has no name after the slash": not name,
        f"its name has more than {LONGEST_NAME} characters": len(name) > LONGEST_NAME,
        "its name begins or ends with a space": name != name.strip(),
        "its name has a character that cannot be shown": hidden,
    }
    return next((words for words, true in faults.items() if true), None)


def find(tx: Tx, text: str) -> AccountRow:
    """Find an account by its whole text.

    Raises
    ------
    Usage, NotFound
    """
    account = rows.find(tx, *account_of(text))
    if account is None:
        raise NotFound(
            f"there is no account {text}",
            why="It was never added.",
            fix=f"Add it with: dispatcher workers add {text}",
            name=text,
            known=(account.text for account in rows.all_accounts(tx)),
        )
    return account


def list_accounts(tx: Tx, connector: str | None = None) -> list[AccountRow]:
    """Return all accounts, or those of a connector, by text."""
    every = rows.all_accounts(tx)
    chosen = (a for a in every if connector is None or a.connector == connector)
    return sorted(chosen, key=lambda a: a.text)


def list_groups(tx: Tx, policy: Policy) -> list[GroupMembers]:
    """Return the declared groups with the accounts that are in them now."""
    texts = sorted(account.text for account in rows.all_accounts(tx))
    return [
        GroupMembers(name, tuple(t for t in texts if group.matches(t)), group.trusted)
        for name, group in sorted(policy.groups.items())
    ]


def block(tx: Tx, text: str, at: int, actor: str) -> AccountRow:
    """Block an account from new showings; what it was shown stays in the ledger.

    What it was offered is withdrawn everywhere.

    Raises
    ------
    NotFound
        There is no such account.
    Conflict
        It is blocked already.
    """
    account = _move(tx, text, "blocked")
    withdrawn = rows.end_work(tx, [account.id], at, in_hand=True)
    detail = {"account": account.id, **withdrawn._asdict()}
    events.add_event(tx, at, actor, "account.blocked", detail)
    return account


def unblock(tx: Tx, text: str, at: int, actor: str) -> AccountRow:
    """Reactivate an account that was blocked, stopped, or left.

    One that was stopped below the floor is judged by its answers from `at` on.

    Raises
    ------
    NotFound, Conflict
    """
    before = find(tx, text)
    account = _move(tx, text, "active")
    if before.state == "stopped":
        rows.judge_from(tx, account.id, at, EXPECTED_RIGHT)
        events.add_event(tx, at, actor, "account.lifted", {"account": account.id})
    return account


def _move(tx: Tx, text: str, state: str) -> AccountRow:
    account = find(tx, text)
    ledger.lock_chains(tx, (account.adversary_id,))  # no booking is in between
    allowed = [s for s, after in TRANSITIONS["account"].items() if state in after]
    if not any(rows.set_state(tx, account.id, before, state) for before in allowed):
        raise Conflict(
            f"account {text} is {state} already",
            why="Nothing has to be done.",
            fix="See it with: dispatcher workers list",
        )
    arrivals.end_sessions_of(tx, [account.id])
    return account._replace(state=state)


def revoke_invites(tx: Tx, text: str) -> AccountRow:
    """Revoke all invites of an account.

    Raises
    ------
    NotFound
    """
    account = find(tx, text)
    arrivals.end_sessions_of(tx, [account.id])
    return account._replace(invite=rows.raise_invite(tx, account.id))


def read_accounts(data: bytes) -> Imported:
    """Read accounts from a file.

    CSV with a header naming a column ``worker`` or ``account`` (``CONNECTOR/NAME``), or
    ``connector`` and ``name``; a plain list, one account a line; or JSONL of objects
    with these keys.

    Raises
    ------
    Invalid
        The file is empty, is not UTF-8, or has no such column.
    """
    text = _decoded(data)
    if text.lstrip().startswith("{"):
        return _collect(_json_rows(text))
    try:
        return _collect(_csv_rows(text))
    except csv.Error:
        raise _unreadable(
            f"a cell has more than {csv.field_size_limit():,} characters",
            "Write one account a line.",
        ) from None


def read_groups(data: bytes) -> Grouped:
    """Read which accounts are one worker.

    CSV with a header naming a column ``worker`` or ``account`` and a column ``group``;
    or JSONL of objects with these keys.

    Raises
    ------
    Invalid
        The file is empty, is not UTF-8, or has no such columns.
    """
    text = _decoded(data)
    groups: dict[str, dict[str, None]] = {}
    rejected = []
    for line, row in _group_rows(text):
        account, group = _named(row), row.get("group")
        fault = "it names no account" if account is None else _fault(account)
        if not isinstance(group, str) or not group.strip():
            fault = fault or "it names no group"
        if fault is None:
            groups.setdefault(str(group).strip(), {})[str(account)] = None
        else:
            rejected.append((line, fault))
    parts = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    return Grouped(parts, tuple(rejected))


def _group_rows(text: str) -> Iterable[tuple[int, dict[str, object]]]:
    if text.lstrip().startswith("{"):
        yield from _json_objects(text)
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().lower() for name in next(reader, [])]
    if not _has_names(header) or "group" not in header:
        raise _unreadable(
            "its first line names no columns worker and group",
            "Add the header worker,group.",
        )
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                cells = [cell.strip() for cell in row]
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error:
        raise _unreadable(
            f"a cell has more than {csv.field_size_limit():,} characters",
            "Write one account and its group a line.",
        ) from None


def _decoded(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(
            f"byte {error.start} is not UTF-8", "Save the file as UTF-8."
        ) from None
    if not text.strip():
        raise _unreadable("the file is empty", "Write one account a line.")
    return text


def _unreadable(why: str, fix: str) -> Invalid:
    return Invalid("the file of accounts cannot be read", why=why, fix=fix)


def _collect(found: Iterable[tuple[int, str | None]]) -> Imported:
    names: dict[tuple[str, str], None] = {}
    rejected = []
    for line, text in found:
        fault = "it names no account" if text is None else _fault(text)
        if fault is None and text is not None:
            names[account_of(text)] = None
        else:
            rejected.append((line, fault or ""))
    return Imported(tuple(names), tuple(rejected))


def _json_rows(text: str) -> Iterable[tuple[int, str | None]]:
    for line, row in _json_objects(text):
        yield line, _named(row)


def _json_objects(text: str) -> Iterable[tuple[int, dict[str, object]]]:
    """Yield objects by line; a line without one gives an empty object."""
    for line, part in enumerate(text.splitlines(), start=1):
        if part.strip():
            try:
                row = json.loads(part)
            except (ValueError, RecursionError):  # nested beyond all reason
                row = None
            yield line, row if isinstance(row, dict) else {}


def _csv_rows(text: str) -> Iterable[tuple[int, str | None]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().lower() for name in next(reader, [])]
    plain = "/" in header[0] if header else False
    if plain:
        yield 1, text.splitlines()[0].split(",")[0].strip()
    elif not _has_names(header):
        raise _unreadable(
            "its first line names no column worker, account, or connector and name",
            "Add such a header, or write one CONNECTOR/NAME a line.",
        )
    for row in reader:
        if any(cell.strip() for cell in row):
            cells = [cell.strip() for cell in row]
            named = (
                cells[0] if plain else _named(dict(zip(header, cells, strict=False)))
            )
            yield reader.line_num, named


def _has_names(header: Sequence[str]) -> bool:
    return bool({"worker", "account"} & set(header)) or {"connector", "name"} <= set(
        header
    )


def _named(row: dict[str, object]) -> str | None:
    for key in ("worker", "account"):
        if isinstance(row.get(key), str) and row[key]:
            return str(row[key])
    connector, name = row.get("connector"), row.get("name")
    if isinstance(connector, str) and isinstance(name, str) and connector and name:
        return f"{connector}/{name}"
    return None


HOME: Final = "inhouse"
"""The default connector of a code."""


def invite_link(base: str, code: str, connector: str = HOME) -> str:
    """Return the link of an invitation.

    Parameters
    ----------
    base : str
        URL of the task page: ``https://tasks.example.org``.
    code : str
        From the connector's ``invite``; contains no ``~``.
    connector : str
        The operator's name for it.
    """
    named = code if connector == HOME else f"{connector}~{code}"
    return f"{base.rstrip('/')}/#k={named}"


def read_code(text: str) -> tuple[str, str]:
    """Parse a whole link or its code, from a browser: (connector, code)."""
    connector, _, code = text.strip().rpartition("#k=")[2].rpartition("~")
    return connector or HOME, code
