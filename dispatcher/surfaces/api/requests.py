"""Requests that are remembered: repeated under one key, or worked on for long."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from threading import Lock, Semaphore, Thread
from typing import Any, BinaryIO, Final, cast

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from dispatcher.access import Act, Principal
from dispatcher.core.errors import DispatcherError, NotFound
from dispatcher.core.log import get_logger
from dispatcher.core.processes import process_digest, process_name
from dispatcher.model import ApiRequest
from dispatcher.store import Clock, Store, api_requests, lease
from dispatcher.surfaces.api.documents import Operation
from dispatcher.surfaces.api.problems import ProblemError, document

KEPT: Final = 48 * 3600 * 1_000_000
"""For how long a request is remembered (microseconds)."""
AT_ONCE: Final = 2
"""How many long operations a process works on; others wait their turn."""
FILES: Final = 16
"""How many files wait to be fetched; of more, the oldest is deleted."""
WAITING: Final = 32
"""How many may be under way or wait."""
WAITING_OF_ONE: Final = 8
FILES_OF_ONE: Final = 4
"""How many of them may be one caller's."""
FETCHED_WITHIN: Final = 3600 * 1_000_000
"""A file that nobody fetched for so long is deleted (microseconds)."""
REPLAYED: Final = "idempotency-replayed"
"""Header of a response that was given to the same request before."""

_log = get_logger("api")


@dataclass(frozen=True)
class _File:
    """The file of an operation, until it is fetched."""

    file: BinaryIO
    name: str
    caller: str
    operation: str
    written_at: int | None = None


@dataclass
class Requests:
    """What was asked of this API, as the store remembers it.

    Parameters
    ----------
    store : Store
    clock : Clock
    """

    store: Store
    clock: Clock
    _turns: Semaphore = field(default_factory=lambda: Semaphore(AT_ONCE))
    _threads: list[tuple[str, Thread]] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)
    _counting: Lock = field(default_factory=Lock)

    @property
    def process(self) -> str:
        """Name of this process, among all that ever served the store."""
        return process_digest(process_name(os.getpid()))

    def open(self) -> None:
        """Mark what earlier processes left unfinished; others that serve go on."""
        with self.store.write() as tx:
            living = [process_digest(one.holder) for one in lease.servers(tx)]
            leader = lease.holder(tx, lease.SHARD)
            if leader is not None:
                living.append(process_digest(leader.holder))
            api_requests.interrupt(tx, [*living, self.process], self.clock())

    def begin(
        self, caller: str, operation: str, key: str, digest: str
    ) -> tuple[str, Response | None]:
        """Begin a request under a key.

        Returns
        -------
        str
            Its number.
        Response or None
            What was answered to the same request before; None: it is new.

        Raises
        ------
        ProblemError
            409 while the first one is under way, or was broken off; 422 if the key was
            used for another request.
        """
        number = f"req_{secrets.token_hex(16)}"
        now = self.clock()
        with self.store.write() as tx:
            api_requests.forget_before(tx, now - KEPT)
            if api_requests.begin(
                tx,
                number,
                caller=caller,
                operation=operation,
                key=key,
                digest=digest,
                process=self.process,
                now=now,
            ):
                return number, None
        with self.store.read() as tx:
            found = api_requests.by_key(tx, caller, key)
        if found is None:  # the first one failed in this moment
            raise _in_progress()
        return number, _repeated(found, operation, digest)

    def end(self, number: str, response: Response, *, keeps: bool) -> None:
        """Remember what was answered; of what may hold a secret only that it was done."""
        body = bytes(response.body) if keeps else None
        with self.store.write() as tx:
            api_requests.end(
                tx,
                number,
                state="done",
                status=response.status_code,
                body=body,
                now=self.clock(),
            )

    def drop(self, number: str) -> None:
        """Forget a request that changed nothing."""
        with self.store.write() as tx:
            api_requests.drop(tx, number)

    def leave(self, number: str) -> None:
        """Keep a request that failed after it had changed something: it acts no more."""
        with self.store.write() as tx:
            now = self.clock()
            api_requests.end(
                tx, number, state="interrupted", status=0, body=None, now=now
            )

    # -- long operations -----------------------------------------------------------------

    def later(
        self,
        caller: str,
        operation: str,
        returns: type[BaseModel],
        work: Callable[[str], object],
        ended: Callable[[str], object],
    ) -> JSONResponse:
        """Work on something after the answer: 202 with the address of its state.

        Parameters
        ----------
        caller, operation : str
        returns : type
            Document of the result.
        work : callable
            Takes the number of the operation, and returns its result.
        ended : callable
            Takes the outcome: ``done``, or the code of an error.
        """
        number = f"op_{secrets.token_hex(16)}"
        # a daemon's thread: the process may end while it works, and says so later
        thread = Thread(
            target=self._work, args=(number, returns, work, ended), daemon=True
        )
        with self._counting:
            # one that has not begun yet waits for the line in the store, below
            self._threads = [
                one
                for one in self._threads
                if one[1].ident is None or one[1].is_alive()
            ]
            own = sum(of == caller for of, _ in self._threads)
            if len(self._threads) >= WAITING or own >= WAITING_OF_ONE:
                raise ProblemError(
                    429,
                    f"{WAITING} operations, or {WAITING_OF_ONE} of this token, are "
                    "under way",
                    "wait until one of them ends",
                    headers={"retry-after": "10"},
                )
            self._threads.append((caller, thread))
        try:
            with self.store.write() as tx:
                api_requests.begin(
                    tx,
                    number,
                    caller=caller,
                    operation=operation,
                    key=None,
                    digest="",
                    process=self.process,
                    now=self.clock(),
                )
            thread.start()
        except BaseException:
            with self._counting:
                self._threads.remove((caller, thread))
            raise
        return JSONResponse(
            self.show(caller, number).model_dump(mode="json"),
            202,
            {"location": f"/api/v1/operations/{number}"},
        )

    def _work(
        self,
        number: str,
        returns: type[BaseModel],
        work: Callable[[str], object],
        ended: Callable[[str], object],
    ) -> None:
        state, status, outcome = "failed", 500, "done"
        try:
            with self._turns:
                found = returns.model_validate(work(number), from_attributes=True)
                self._keep_file(number)
            ended(outcome)  # what it wrote out is fetched only where a line says so
            state, status, body = "done", 200, found.model_dump_json().encode()
        except (DispatcherError, ProblemError) as error:
            problem = document(error)
            status, outcome = problem["status"], problem["code"]
            body = _problem(problem, number)
        except Exception as error:  # noqa: BLE001 - told by its type: it may hold a value
            _log.error("api.operation-failed", error=type(error).__name__)
            body, outcome = _problem(document(error), number), "E001"
        if state == "failed":
            with suppress(DispatcherError):  # busy: the act's own line stands
                ended(outcome)
            self._drop_file(number)
        with self.store.write() as tx:
            api_requests.end(
                tx, number, state=state, status=status, body=body, now=self.clock()
            )

    def show(self, caller: str, number: str) -> Operation:
        """Show an operation to whoever began it.

        Raises
        ------
        NotFound
        """
        with self.store.read() as tx:
            found = api_requests.by_id(tx, number)
        if found is None or found.caller != caller or not number.startswith("op_"):
            raise NotFound(
                "there is no such operation",
                why="operations are shown to the token that began them, for 48 hours",
                fix="take its address from the Location of the answer",
            )
        said = json.loads(found.body) if found.body else None
        return Operation.model_validate(
            {
                "id": found.id,
                "operation": found.operation,
                "state": found.state,
                "started_at": found.started_at,
                "ended_at": found.ended_at,
                "result": said if found.state == "done" else None,
                "problem": said if found.state == "failed" else None,
            }
        )

    def latest(self, caller: str, operation: str) -> Operation | None:
        """Return the last of a caller's long operations of one kind that is done."""
        with self.store.read() as tx:
            number = api_requests.latest_done(tx, caller, operation)
        return None if number is None else self.show(caller, number)

    def file(self, number: str, name: str, act: Act) -> BinaryIO:
        """Make the file that an operation writes: no path, gone with the process."""
        made = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - whoever takes it closes it
        safe = "".join(
            c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name
        )
        kept = _File(made, safe, act.actor, act.operation)
        with self._counting:
            self._make_room(FILES_OF_ONE, act.actor)
            self._make_room(FILES)
            self._files[number] = kept
        return made

    def _make_room(self, most: int, caller: str | None = None) -> None:
        """Delete the oldest files that nobody fetched, where there are as many."""
        asked = [one for one in self._files.items() if caller in (None, one[1].caller)]
        written = [key for key, one in asked if one.written_at is not None]
        for number in written[: max(0, len(asked) - most + 1)]:
            self._files.pop(number).file.close()

    def _keep_file(self, number: str) -> None:
        """Keep a file that is written, if there is one, until it is fetched."""
        with self._counting:
            if number in self._files:
                found = self._files.pop(number)  # the order is that of the writing
                self._files[number] = replace(found, written_at=self.clock())

    def _drop_file(self, number: str) -> None:
        """Delete the file of an operation that failed."""
        with self._counting:
            if number in self._files:
                self._files.pop(number).file.close()

    def expire(self) -> None:
        """Delete files that nobody fetched in time."""
        before = self.clock() - FETCHED_WITHIN
        with self._counting:
            for number, one in list(self._files.items()):
                if one.written_at is not None and one.written_at <= before:
                    self._files.pop(number).file.close()

    def take(self, by: Principal, number: str) -> tuple[BinaryIO, str]:
        """Return the file of an operation that is done, once, and its name.

        Raises
        ------
        NotFound
        ProblemError
            403: the caller may not do any more what made it.
        """
        self.expire()
        is_done = self.show(by.name, number).state == "done"
        found = self._files.get(number) if is_done else None
        if found is not None and not by.may(found.operation):
            raise ProblemError(
                403,
                f"this token does not permit {found.operation} any more",
                "use a token with a scope that permits it, and begin again",
            )
        # whoever pops it has it, of several who ask in one moment
        with self._counting:
            mine = None if found is None else self._files.pop(number, None)
        if mine is None:
            raise NotFound(
                "there is no file of this operation",
                why="it wrote none, or the file was fetched before, or the daemon was "
                "started anew, or an hour went by: it is kept nowhere",
                fix="export again",
            )
        mine.file.seek(0)
        return mine.file, mine.name

    def wait(self) -> None:
        """Wait for what is under way."""
        for _, thread in list(self._threads):
            thread.join()

    def close(self) -> None:
        """Delete the files that nobody fetched."""
        with self._counting:
            while self._files:
                self._files.popitem()[1].file.close()


def _repeated(found: ApiRequest, operation: str, digest: str) -> Response:
    if (found.operation, found.digest) != (operation, digest):
        raise ProblemError(
            422,
            "this Idempotency-Key was used for another request",
            "make a new key for each act; repeat one only with the same body",
        )
    if found.state == "running":
        raise _in_progress()
    if found.state != "done" or found.body is None:
        raise ProblemError(
            409,
            "this request was sent before, and its response is not kept"
            if found.state == "done"
            else "this request was sent before, and broke off while it acted",
            "look whether it was done; to act again, take a new Idempotency-Key",
        )
    return Response(
        found.body,
        found.status,
        {REPLAYED: "true"},
        media_type="application/json",
    )


def _in_progress() -> ProblemError:
    return ProblemError(
        409,
        "the same request is under way",
        "ask again in a moment, with the same key",
        headers={"retry-after": "1"},
    )


def _problem(problem: dict[str, Any], number: str) -> bytes:
    return json.dumps({**problem, "instance": number}, ensure_ascii=False).encode()
