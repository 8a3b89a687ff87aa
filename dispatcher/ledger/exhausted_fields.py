"""Exhausted fields: shown as often as t allows, yet without enough answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.core.errors import Usage
from dispatcher.core.keys import entry_name
from dispatcher.ledger import chains, refusals
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.store import answers, ledger
from dispatcher.store import exhausted_fields as rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.exhausted_fields import EntryOutcome
from dispatcher.store.transaction import Tx


@dataclass(frozen=True)
class Shown:
    """One field of one record: its showings and their outcome.

    Attributes
    ----------
    entry_id, record_id : int
    field, run, state : str
    showings, limit : int
        Adversaries it was shown to, and t plus extra showings granted.
    answers, wanted : int
    live : int
        Tasks that may still bring an answer.
    asked : bool
        Whether the policy in force asks for it and sends it.
    """

    entry_id: int
    record_id: int
    field: str
    run: str
    state: str
    showings: int
    limit: int
    answers: int
    wanted: int
    live: int
    asked: bool

    @property
    def burnt(self) -> bool:
        """Whether no further showing may bring the missing answers."""
        return (
            self.asked
            and self.state != "answered"
            and self.showings >= self.limit
            and self.answers + self.live < self.wanted
        )


def burnt(tx: Tx) -> list[Shown]:
    """Return all burnt fields (grows with the showings of fields without answers).

    Fields whose answers disagree are not burnt: they are in conflict.
    """
    force = current_policy(tx)
    if force is None:
        return []
    least = min((f.showings for f in force.fields.values()), default=0)
    every = shown(tx, rows.often_shown(tx, least))
    return [one for one in every if one.burnt]


def shown(tx: Tx, entry_ids: Sequence[int]) -> list[Shown]:
    """Return how often fields were shown and the outcome, in order of id."""
    force = current_policy(tx)
    names = {} if force is None else dict(force.numbered)
    return [_shown(force, names, row) for row in rows.fields(tx, entry_ids)]


def _shown(
    force: ActivePolicy | None, names: dict[int, str], row: EntryOutcome
) -> Shown:
    name = names.get(row.field_id, "")
    standing = force.fields.get(row.field_id) if force is not None else None
    asked = force.policy.entity.fields[name] if force is not None and name else None
    return Shown(
        entry_id=row.entry_id,
        record_id=row.record_id,
        field=name or f"field {row.field_id}",
        run=row.run,
        state=row.state,
        showings=row.showings,
        limit=(standing.showings if standing else 0) + row.extra,
        answers=row.answers,
        wanted=max(asked.answers if asked else 0, row.wanted),
        live=row.live,
        asked=force is not None and row.field_id in force.asked(),
    )


def unburn(tx: Tx, entry_id: int, *, extra: int, because: str, at: int) -> None:
    """Let an entry be shown to more adversaries than t; the ledger records the reason.

    An entry in conflict is reopened: its answers are counted again with new ones.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    entry_id : int
    extra : int
        How many more, >= 1; added to earlier grants.
    because : str
        The reason, for the auditor: not empty, and no field value.
    at : int
        Now.

    Raises
    ------
    NotFound
        There is no such entry.
    Usage
        ``extra`` is below 1, or there is no reason.
    """
    if extra < 1 or not because.strip():
        raise Usage(
            "extra showings need a number of at least 1 and a reason",
            why="The grant is a line of the ledger that auditors read.",
            fix='Give both, like: --extra-showings 2 --reason "two tasks came back"',
        )
    policy_rows.lock_policy_shared(tx)
    system = chains.lock_system(tx)
    entry = next(ledger.entries(tx, [entry_id]), None)
    if entry is None:
        raise refusals.unknown("entry", entry_id)
    name = entry_name(entry.record, entry.field_id)
    body = {"entry": name, "extra": extra, "because": because.strip()}
    chains.append(tx, system, "unburn", body, at=at, entry_id=entry_id)
    answers.reopen(tx, entry_id)
    rows.note_granted(tx)
