"""Counting: the answers to an entry become its result, or one more showing is asked.

An answer is looked at while ``answer.counted`` is 0, so one that comes late (after its
entry was settled, from another process, while this stage was at work) is never missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dispatcher.core.log import get_logger
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.model import LIVE_TASK_STATES, Result
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import answers as rows
from dispatcher.store import ledger as gate_rows
from dispatcher.store.answers import AnswerRow
from policies.answers.consensus import Consensus, Given, Next, decide, weigh
from policies.answers.validation import Valid, check
from policies.policy import Field

BATCH: Final = 500
"""Entries counted in one transaction."""

TURNS: Final = 20
"""Transactions in one tick, at most."""

_STATES: Final = {
    Next.WAIT: "open",
    Next.ONE_MORE: "open",
    Next.ACCEPT: "answered",
    Next.CONFLICT: "conflict",
}


class Assembly:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    clock : Clock
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._swept = 0
        self._log = get_logger("assembly")

    def tick(self, epoch: int) -> int:
        """Count what came, then look at some that wait for nothing any more.

        Returns
        -------
        int
            Entries looked at because of new answers.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        looked = 0
        for _ in range(TURNS):
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                ids = rows.uncounted(tx, BATCH)
                self._count(tx, ids)
            looked += len(ids)
            if len(ids) < BATCH:
                break
        self._sweep(epoch)
        return looked

    def _sweep(self, epoch: int) -> None:
        """Find open entries that wait for nothing any more: a conflict, late.

        No answer came of it, so nothing else would notice when the last task of an
        entry is returned or expires. Only looks, unless there is something to write.
        """
        with self._store.read() as tx:
            waiting = rows.stalled(tx, self._swept, BATCH, LIVE_TASK_STATES)
            found, _ = self._decide(tx, rows.answers_of(tx, waiting), waiting)
        self._swept = waiting[-1] if len(waiting) == BATCH else 0
        ended = [result.entry_id for result in found if result.state == "conflict"]
        if ended:
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                self._count(tx, ended)

    def _count(self, tx: Tx, ids: Sequence[int]) -> None:
        """Decide on entries and write what was decided, in the caller's transaction."""
        if not ids:
            return
        answers = rows.answers_of(tx, ids, lock=True)
        results, right = self._decide(tx, answers, ids)
        rows.save(tx, results, [row.task_id for row in answers], right)
        conflicts = sum(result.state == "conflict" for result in results)
        if conflicts:
            self._log.info("conflicts", entries=conflicts)

    def _decide(
        self, tx: Tx, answers: Sequence[AnswerRow], ids: Sequence[int]
    ) -> tuple[list[Result], dict[int, float]]:
        """Decide on entries; also tell how good the accounts are."""
        force = current_policy(tx)
        asked = self._asked(tx, ids, force)
        given: dict[int, list[Given]] = {entry_id: [] for entry_id in asked}
        for row in answers:
            field = asked.get(row.entry_id)
            if field is not None and (valid := _valid(field, row)) is not None:
                given[row.entry_id].append(Given(str(row.account_id), valid))
        order = list(given)
        known = {str(row.account_id): row.quality for row in answers}
        weighed = weigh([(asked[n], given[n]) for n in order], known)
        left = self._showings_left(tx, order, force)
        results = []
        for entry_id, confidence in zip(order, weighed.confidence, strict=True):
            field, own = asked[entry_id], given[entry_id]
            found = decide(field, own, confidence, left[entry_id])
            results.append(self._result(entry_id, field, len(own), found))
        return results, {int(name): right for name, right in weighed.right.items()}

    def _asked(
        self, tx: Tx, ids: Sequence[int], force: ActivePolicy | None
    ) -> dict[int, Field]:
        """Fields of entries that the policy in force asks for."""
        if force is None:
            return {}
        fields = force.policy.entity.fields
        return {
            entry.id: fields[force.fields[entry.field_id].name]
            for entry in gate_rows.entries(tx, ids)
            if entry.field_id in force.fields
        }

    def _showings_left(
        self, tx: Tx, ids: Sequence[int], force: ActivePolicy | None
    ) -> dict[int, int]:
        """How often each entry may still bring an answer: showings and tasks left."""
        if force is None or not ids:
            return {}
        left = {
            entry.id: force.fields[entry.field_id].showings
            for entry in gate_rows.entries(tx, ids)
        }
        for line in gate_rows.showings_of(tx, ids):
            left[line.entry_id] += line.extra - line.showing
        live = rows.live_tasks(tx, ids, LIVE_TASK_STATES)
        return {n: max(0, count) + live.get(n, 0) for n, count in left.items()}

    def _result(
        self, entry_id: int, field: Field, answers: int, found: Consensus
    ) -> Result:
        text = f"[{found.mark.value}]" if found.mark is not None else found.text
        known = found.next is not Next.WAIT
        more = found.next is Next.ONE_MORE
        return Result(
            entry_id=entry_id,
            value=text.encode() if known else None,
            confidence=found.confidence,
            answers=answers,
            wanted=max(field.answers, answers + 1 if more else 0),
            state=_STATES[found.next],
            at=self._clock(),
        )


def _valid(field: Field, row: AnswerRow) -> Valid | None:
    """Judge an answer anew: the policy may have changed since it was given."""
    if not row.valid:
        return None
    verdict = check(field, row.raw.decode("utf-8", "replace"))
    return verdict if isinstance(verdict, Valid) else None
