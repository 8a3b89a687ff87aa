"""Errors, classed by what the caller does next.

Every error says *what* happened, *why*, and *how to mend it*, carries a stable code
(``E`` and three digits, one documentation page each) and the exit status of the
command that meets it. No message ever holds a field value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_PARTLY: Final = 3
EXIT_INVALID: Final = 5
EXIT_REFUSED: Final = 6
EXIT_INFEASIBLE: Final = 7
EXIT_UNFINISHED: Final = 8
EXIT_FINDINGS: Final = 9
EXIT_NO_STORE: Final = 10
EXIT_LOCKED: Final = 11
EXIT_WRONG_KEY: Final = 12
EXIT_MIGRATE: Final = 13
EXIT_UNREACHABLE: Final = 14
EXIT_TRY_LATER: Final = 75
EXIT_INTERRUPTED: Final = 130


class DispatcherError(Exception):
    """Root of all errors that a user may see.

    Parameters
    ----------
    what : str
        What happened, one line, no field value in it.
    why : str
        The reason, in the reader's words.
    fix : str
        What the reader can do about it.
    facts : Mapping[str, str | int | float], optional
        Ids and numbers for ``--json`` output; never a field value.
    """

    code: str = "E001"
    exit_status: int = EXIT_FAILED
    retryable: bool = False

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        fix: str = "",
        facts: Mapping[str, str | int | float] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.facts = dict(facts or {})


class Usage(DispatcherError):
    """The command's words are off, or an answer was needed and none could be asked."""

    code = "E002"
    exit_status = EXIT_USAGE


class Invalid(DispatcherError):
    """A file, value or setting is not what it must be; nothing was changed."""

    code = "E003"
    exit_status = EXIT_INVALID


class NotFound(DispatcherError):
    """The named record, field, worker, plan or run is not in the store."""

    code = "E004"
    exit_status = EXIT_FAILED


class Conflict(DispatcherError):
    """The thing is in a state that does not allow this; look, then decide."""

    code = "E005"
    exit_status = EXIT_FAILED


class NoStore(DispatcherError):
    """There is no store here."""

    code = "E101"
    exit_status = EXIT_NO_STORE


class StoreLocked(DispatcherError):
    """Somebody else holds the store; it will be free again."""

    code = "E102"
    exit_status = EXIT_LOCKED
    retryable = True


class NeedsMigration(DispatcherError):
    """The store's schema is not the one this program works with."""

    code = "E103"
    exit_status = EXIT_MIGRATE


class StoreUnusable(DispatcherError):
    """The store cannot be used: read-only, full, damaged, or on a network disk."""

    code = "E104"
    exit_status = EXIT_FAILED


class StoreUnreachable(DispatcherError):
    """The database server does not answer, or the connection to it broke."""

    code = "E105"
    exit_status = EXIT_TRY_LATER
    retryable = True


class WrongKey(DispatcherError):
    """The file with the key that opens the store's values is missing or another's."""

    code = "E121"
    exit_status = EXIT_WRONG_KEY


class AnotherLeads(DispatcherError):
    """Another daemon leads this store."""

    code = "E111"
    exit_status = EXIT_LOCKED
    retryable = True


class StaleLease(DispatcherError):
    """The lease of this daemon was taken over; its writes are refused."""

    code = "E112"
    exit_status = EXIT_LOCKED


class NotShipped(DispatcherError):
    """The ledger cannot be kept outside of the store now; nothing is shown."""

    code = "E131"
    exit_status = EXIT_TRY_LATER
    retryable = True


class LedgerAhead(DispatcherError):
    """The shipped ledger knows of exposures that the store has forgotten."""

    code = "E132"
    exit_status = EXIT_REFUSED


class LedgerForeign(DispatcherError):
    """The shipped ledger is another store's."""

    code = "E133"
    exit_status = EXIT_INVALID


class LedgerBroken(DispatcherError):
    """A ledger has a gap, or does not read as it was written."""

    code = "E134"
    exit_status = EXIT_FAILED


class StoreEdited(DispatcherError):
    """Tables that the gate trusts are not as the ledger says; nothing is shown."""

    code = "E135"
    exit_status = EXIT_FAILED


class BackupBroken(DispatcherError):
    """A backup is cut off, changed, or no backup; nothing was restored from it."""

    code = "E141"
    exit_status = EXIT_FAILED


class Refused(DispatcherError):
    """The gate refuses: a limit would be reached. Nothing was booked or sent.

    ``facts`` has ``property``, ``adversary``, ``value`` and ``limit``.
    """

    code = "E203"
    exit_status = EXIT_REFUSED


class PastLimit(DispatcherError):
    """Exposures already booked are past a limit; they cannot be undone."""

    code = "E204"
    exit_status = EXIT_REFUSED


class Infeasible(DispatcherError):
    """No plan meets the policy; the message names what clashes."""

    code = "E701"
    exit_status = EXIT_INFEASIBLE


class Unfinished(DispatcherError):
    """The time or work limit ended the search before a verdict."""

    code = "E702"
    exit_status = EXIT_UNFINISHED
