"""Collecting: take answers from markets and folders, each exactly once.

Reads ``task``, writes ``answer``, ``task``, ``quarantine`` and ``cursor``. Network
calls run outside any transaction; the answers and the cursor after them are then stored
in one. A connector re-delivers until its cursor comes back, so a crash in between loses
and doubles nothing.

An answer counts only from the account that the task was made for. Everything else
(unknown tasks, another worker's task, malformed answers) is quarantined: kept for the
operator, recorded as an event by ids, never acted on.

Each market has its own stage. A failing one is retried with exponential backoff, and
one that hangs delays no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from connectors.base import (
    Answer,
    Collected,
    ConnectorError,
    Market,
    Misconfigured,
    Outcome,
    Progress,
    Quarantined,
    Submission,
    TryLater,
)
from dispatcher.core import keys, meters
from dispatcher.core.circuits import PAUSE, Circuit, pause_of
from dispatcher.core.errors import DispatcherError
from dispatcher.core.log import get_logger
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.model import Quarantine, TaskAnswer
from dispatcher.store import Clock, Store, Tx, answers, events, lease, money
from dispatcher.store import collecting as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.tasks import AnswerableRow
from policies.answers.validation import MAX_TEXT, Invalid, Mark, check

MICRO: Final = 1_000_000
PAGES: Final = 20
"""Collections of one connector in one turn."""

STRANGER: Final = "the market says that another account has taken it"

MOST_STRANGE: Final = 10_000
"""Most unreviewed answers in quarantine; a market with more is not asked until then."""

NAMED: Final = 1000
"""Characters that are kept of each name of an answer that is set aside."""

ANSWERABLE: Final = ("booked", "sent", "shown", "expired", "returned", "dead")
_MARKS: Final = {
    Outcome.ILLEGIBLE: Mark.ILLEGIBLE,
    Outcome.NOT_PRESENT: Mark.NOT_PRESENT,
}


@dataclass
class _Sorted:
    """One collection sorted into what will be written."""

    answers: dict[int, TaskAnswer] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    strange: dict[int, Quarantine] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)  # quarantine id -> task
    repeated: int = 0


class Collecting:
    """The stage of one market; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    name : str
        The operator's name of the market.
    market : Market
    clock : Clock
    """

    def __init__(self, store: Store, name: str, market: Market, clock: Clock) -> None:
        self._store = store
        self._name = name
        self._market = market
        self._clock = clock
        # Apart from the sender's: a market that takes nothing may still have answers.
        self._circuit = Circuit(None, clock)
        self._looked = 0
        self._strange = True  # the quarantine may be full
        self._log = get_logger("collecting")

    def tick(self, epoch: int) -> int:
        """Collect if a collection is due; return how many answers were kept.

        Answers are taken also while a connector is paused: they were asked for. An
        answer that cannot be stored counts as a failure of its market.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        if self._circuit.is_open() or not self._is_due():
            return 0
        self._looked = self._clock()
        if self._strange and self._is_flooded():
            return 0
        try:
            return self._collect(epoch)
        except DispatcherError:
            raise
        except Exception as error:  # noqa: BLE001 - one market stops no other
            self._failed(error)
            return 0

    def _is_due(self) -> bool:
        """Whether to look at the market: its pause is over, or it has called since."""
        pause = self._market.manifest.limits.poll_seconds * MICRO
        if self._looked + pause <= self._clock():
            return True
        with self._store.read() as tx:
            return rows.latest_calls(tx).get(self._name, 0) > self._looked

    def _is_flooded(self) -> bool:
        """Whether the quarantine is too full to ask the market for more."""
        with self._store.read() as tx:
            waiting = rows.count_strange(tx, self._name, MOST_STRANGE)
        if waiting < MOST_STRANGE:
            self._strange = False  # until something more is set aside
            return False
        self._circuit.open_for(PAUSE)
        self._log.warning("quarantine-full", connector=self._name, waiting=waiting)
        return True

    def _collect(self, epoch: int) -> int:
        kept = 0
        for _ in range(PAGES):
            with self._store.read() as tx:
                cursor = rows.cursor(tx, self._name)
            try:
                with meters.calling(self._name):
                    found = self._market.collect(cursor)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as in tick
                self._failed(error)
                return kept
            self._circuit.worked()
            news = found.answers or found.quarantined or found.submissions
            if found.cursor != cursor or news:
                kept += self._keep(found, epoch)
            if not found.more:
                break
        return kept

    def _failed(self, error: BaseException) -> None:
        """Leave the market alone for as long as its error asks for."""
        why = "failed"
        if isinstance(error, Misconfigured):
            why = "misconfigured"
            self._circuit.open_for(PAUSE)
        elif isinstance(error, TryLater):
            why = "try-later"
            self._circuit.failed(pause_of(error))
        else:
            why = "rejected" if isinstance(error, ConnectorError) else why
            self._circuit.failed()
        self._log.warning(
            "connector-resting",
            connector=self._name,
            why=why,
            error=type(error).__name__,
        )

    def _keep(self, found: Collected, epoch: int) -> int:
        """Write one collection and its cursor in one transaction."""
        now = self._clock()
        task_key = self._store.key("task-key")
        ids = {one.token: keys.task_id_of(task_key, one.token) for one in found.answers}
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            tasks = task_rows.lock_tasks(tx, [n for n in ids.values() if n is not None])
            sorted_ = _Sorted()
            force = current_policy(tx)
            for answer in found.answers:
                task = tasks.get(ids[answer.token] or 0)
                self._sort(answer, task, force, sorted_, now)
            for strange in found.quarantined:
                _set_aside(self._name, strange, sorted_, now)
            self._write(tx, sorted_, now)
            self._note_work(tx, found.submissions, now)
            rows.save_cursor(tx, self._name, found.cursor)
        _count(self._name, sorted_, tasks)
        return len(sorted_.answers)

    def _note_work(self, tx: Tx, submissions: Sequence[Submission], now: int) -> None:
        """Store the state of pieces of work at a market that pays.

        Work that the market reports for another account is never paid: a person looks.
        """
        if not submissions:
            return
        references = {one.reference for one in submissions}
        known = money.by_reference(tx, self._name, references)
        if references - known.keys():
            money.adopt(tx, self._name, self._by_key(submissions))
            known = money.by_reference(tx, self._name, references)
        news: dict[int, tuple[str | None, str]] = {}
        for one in submissions:
            row = known.get(one.reference)
            if row is None:
                continue  # not ours, or of before we kept money
            if one.account not in ("", row.account):
                if money.hold(tx, row.about, STRANGER, now):
                    self._log.warning(
                        "taken-by-another", connector=self._name, of=row.about
                    )
                continue
            earlier = news.get(row.about, (row.submission, row.progress or ""))
            handed_in = earlier[1] in (Progress.SUBMITTED, Progress.APPROVED)
            if one.progress is Progress.GONE and handed_in and one.id != earlier[0]:
                continue  # an earlier taking; the later one counts
            news[row.about] = (one.id, one.progress.value)
        fresh = [
            (row.about, *news[row.about])
            for row in known.values()
            if row.about in news and news[row.about] != (row.submission, row.progress)
        ]
        money.note_progress(tx, fresh, now)

    def _by_key(self, submissions: Sequence[Submission]) -> list[tuple[int, str]]:
        """Find our messages among a market's submissions, with its references."""
        task_key = self._store.key("task-key")
        found = [
            (keys.message_id_of(task_key, s.key), s.reference) for s in submissions
        ]
        return [(number, name) for number, name in found if number is not None]

    def _sort(
        self,
        answer: Answer,
        task: AnswerableRow | None,
        force: ActivePolicy | None,
        into: _Sorted,
        now: int,
    ) -> None:
        reason = _misfit(self._name, answer, task, force)
        if reason:
            number = _number(self._name, answer.id, answer.token, answer.account)
            payload = _payload(answer)
            into.strange[number] = Quarantine(
                id=number, connector=self._name, reason=reason, payload=payload, at=now
            )
            if task is not None:
                into.refused[number] = task.id
            return
        assert task is not None, "an answer that fits has a task"
        if task.erased:  # the person was erased: answers about them are not kept
            into.repeated += 1
            return
        assert force is not None, "an answer that fits has a policy"
        if answer.outcome is Outcome.RETURNED:
            if task.state in ("booked", "sent", "shown", "expired"):
                into.returned.add(task.id)
            return
        before = into.answers.get(task.id)
        if task.valid == 1 or (before is not None and before.valid):
            into.repeated += 1
            return
        given = int(answer.given.timestamp() * MICRO) if answer.given else now
        at = min(max(given, task.created_at), now)  # whatever the market's clock says
        into.answers[task.id] = _judged(force, task, answer, at)

    def _write(self, tx: Tx, sorted_: _Sorted, now: int) -> None:
        answered = list(sorted_.answers)
        if answered:
            answers.put_answers(tx, list(sorted_.answers.values()))
            task_rows.end(tx, answered, "answered")
        returned = sorted(sorted_.returned - set(answered))
        if returned:
            task_rows.end(tx, returned, "returned")
        fresh = rows.add_strange(tx, sorted_.strange.values())
        if fresh:
            self._strange = True
            # by ids only: the content stays in the quarantine
            detail: dict[str, int | str] = {"connector": self._name, "new": fresh}
            for number, task_id in list(sorted_.refused.items())[:20]:
                detail[f"quarantine {number}"] = f"task {task_id}"
            events.add_event(
                tx, now, f"connector:{self._name}", "answer.quarantined", detail
            )
            self._log.warning(
                "quarantined",
                connector=self._name,
                new=fresh,
                of_other_workers=len(sorted_.refused),
            )


def _count(name: str, sorted_: _Sorted, tasks: Mapping[int, AnswerableRow]) -> None:
    """Count the new states of tasks, and how long the tasks took."""
    moves = [
        (tasks[task_id].state, "returned", name)
        for task_id in sorted_.returned - sorted_.answers.keys()
    ]
    for task_id, answer in sorted_.answers.items():
        task = tasks[task_id]
        moves.append((task.state, "answered", name))
        meters.note_turnaround(answer.at - task.created_at)
    meters.count_moves(moves)


def _misfit(
    name: str, answer: Answer, task: AnswerableRow | None, force: ActivePolicy | None
) -> str:
    """Return why an answer fits no task of its account; empty if it fits one."""
    if task is None:
        return "there is no such task"
    if task.connector != name:
        return "the task is of another connector"
    if task.account != answer.account:
        return "the task is another worker's"
    if task.state not in (*ANSWERABLE, "answered"):
        return f"the task is {task.state}"
    if force is None or task.field_id not in force.fields:
        return "the field is no longer asked for"
    return _too_long(answer)


def _too_long(answer: Answer) -> str:
    size = len(answer.value)
    return f"it has {size} characters, {MAX_TEXT} are read" if size > MAX_TEXT else ""


def _judged(
    force: ActivePolicy, task: AnswerableRow, answer: Answer, at: int
) -> TaskAnswer:
    """Judge an answer by its field's ``ask``; an invalid one is kept as invalid."""
    asked = force.policy.entity.fields[force.fields[task.field_id].name]
    mark = _MARKS.get(answer.outcome)
    verdict = check(asked, answer.value, mark)
    # a mark is kept as the text that says the same, as the task page does
    raw = f"[{mark.value}]" if mark is not None else answer.value
    return TaskAnswer(
        task_id=task.id,
        entry_id=task.entry_id,
        account_id=task.account_id,
        raw=raw.encode("utf-8", "replace"),
        valid=int(not isinstance(verdict, Invalid)),
        reason=verdict.reason if isinstance(verdict, Invalid) else None,
        at=at,
    )


def _set_aside(name: str, strange: Quarantined, into: _Sorted, now: int) -> None:
    number = _number(name, strange.id, strange.place)
    origin = {"place": strange.place[:NAMED], "account": strange.account[:NAMED]}
    payload = json.dumps(origin).encode()
    into.strange[number] = Quarantine(
        id=number,
        connector=name,
        reason=_plain(strange.reason),
        payload=payload,
        at=now,
    )


def _plain(reason: str) -> str:
    return "".join(char if char.isprintable() else " " for char in reason[:500])


def _payload(answer: Answer) -> bytes:
    """Serialise an answer for the quarantine: all of it, unless it is huge."""
    content = {
        "id": answer.id[:NAMED],
        "token": answer.token[:NAMED],
        "account": answer.account[:NAMED],
        "outcome": answer.outcome.value,
        "value": answer.value[:MAX_TEXT],
    }
    return json.dumps(content).encode()


def _number(*parts: str) -> int:
    """Number a quarantined answer by its content: 62 bits, equal for equal content."""
    digest = blake2b(json.dumps(parts).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 2) + 1
