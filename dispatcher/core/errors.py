"""Errors, classified by what the caller does next.

Every error says *what* happened, *why*, and *how to fix it*, carries a stable code
(``E`` and three digits, one documentation page each) and the exit status of the command
that meets it. No message ever contains a field value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
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
LONGEST_NAME: Final = 80
"""Longer names are compared with no other: it would take long."""
MOST_COMPARED: Final = 2000
"""A mistyped name is compared with so many at most: more would take long."""


def resembling(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one most resembles, if one does."""
    some = islice(known, MOST_COMPARED) if name else ()
    short = [one for one in some if len(one) <= LONGEST_NAME]
    near = get_close_matches(name[:LONGEST_NAME], short, 1, 0.6)
    return near[0] if near else None


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
    """The command line is wrong, or a required answer could not be asked for."""

    code = "E002"
    exit_status = EXIT_USAGE


class Invalid(DispatcherError):
    """A file, value or setting is invalid; nothing was changed."""

    code = "E003"
    exit_status = EXIT_INVALID


class NotFound(DispatcherError):
    """The named record, field, worker, plan or run is not in the store.

    Parameters
    ----------
    name : str, optional
        What was asked for.
    known : Iterable[str], optional
        What there is: the name that `name` most resembles is offered.
    """

    code = "E004"
    exit_status = EXIT_FAILED

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        fix: str = "",
        facts: Mapping[str, str | int | float] | None = None,
        name: str = "",
        known: Iterable[str] = (),
    ) -> None:
        near = resembling(name, known)
        fix = f"did you mean {near}? If not: {fix}" if near else fix
        super().__init__(what, why=why, fix=fix, facts=facts)


class Conflict(DispatcherError):
    """The current state does not allow this; look, then decide."""

    code = "E005"
    exit_status = EXIT_FAILED


class Changed(DispatcherError):
    """It was changed since it was read, so that the edit was not made."""

    code = "E006"
    exit_status = EXIT_FAILED


class NoStore(DispatcherError):
    """There is no store here."""

    code = "E101"
    exit_status = EXIT_NO_STORE


class StoreLocked(DispatcherError):
    """Another process has locked the store; it will be free again."""

    code = "E102"
    exit_status = EXIT_LOCKED
    retryable = True


class NeedsMigration(DispatcherError):
    """The store's schema is not the one that this program needs."""

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
    """The key file that opens the store's values is missing, or of another store."""

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


class AddressTaken(DispatcherError):
    """A server cannot listen where the settings say; the address may be free later."""

    code = "E113"
    exit_status = EXIT_TRY_LATER
    retryable = True


class NotShipped(DispatcherError):
    """The ledger cannot be shipped outside of the store now; nothing is shown."""

    code = "E131"
    exit_status = EXIT_TRY_LATER
    retryable = True


class LedgerAhead(DispatcherError):
    """The shipped ledger has exposures that the store lacks."""

    code = "E132"
    exit_status = EXIT_REFUSED


class LedgerForeign(DispatcherError):
    """The shipped ledger is another store's."""

    code = "E133"
    exit_status = EXIT_INVALID


class LedgerBroken(DispatcherError):
    """A ledger has a gap, or was changed."""

    code = "E134"
    exit_status = EXIT_FAILED


class StoreEdited(DispatcherError):
    """Tables that the gate trusts differ from the ledger; nothing is shown."""

    code = "E135"
    exit_status = EXIT_FAILED


class BackupBroken(DispatcherError):
    """A backup is cut off, changed, or no backup; nothing was restored from it."""

    code = "E141"
    exit_status = EXIT_FAILED


class MarketUnavailable(DispatcherError):
    """A market cannot be asked now; the same may succeed later."""

    code = "E151"
    exit_status = EXIT_TRY_LATER
    retryable = True


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


PAGES: Final[dict[str, str]] = {
    "E001": """E001: the program failed unexpectedly

A fault of the program. Its message is withheld, since it may hold a value of a record;
the file named holds the places in the code. Nothing half-done stays behind: every stage
is one transaction. Please report it.""",
    "E002": """E002: the command's words are off, or an answer was needed

A command that changes something for good asks first. Without a terminal, or with
--no-input, it stops and names the option that answers, usually --yes.""",
    "E003": """E003: a file, value or setting is not what it must be

The message names the place and how to fix it. Nothing was changed.""",
    "E004": """E004: there is no such thing in the store

Look the name up: dispatcher workers list, records list, plan list, queue list.""",
    "E005": """E005: the thing is in a state that does not allow this

Somebody or something changed it meanwhile, or it is in use. Look again, then decide.""",
    "E006": """E006: it was changed since it was read

Somebody else edited it between your look and your edit, which was not made. Look again,
then decide.""",
    "E101": """E101: there is no store here

Make one in this directory with `dispatcher init`, or name another: --dir, --store.""",
    "E102": """E102: the store is locked

Another process writes and did not end in time. Try again. If it stays: a command may
hang in another terminal.""",
    "E103": """E103: the store's schema is not this program's

Older: stop the daemon, back the store up, then `dispatcher db upgrade`. Newer: run the
program that made it; this one would not know what it destroys.""",
    "E104": """E104: the store cannot be used

Read-only, full, damaged, or on a network disk. Mend the disk or its permissions; a
SQLite store must lie on a local disk. Nothing was lost: what was not committed did not
happen.""",
    "E105": """E105: the database server does not answer

It is down, unreachable, or it ended the connection. Nothing half-done stays behind: try
again. The exit status is 75, which service managers take as "start it once more".""",
    "E111": """E111: another daemon leads this store

One daemon leads a store at a time. If it runs elsewhere, stop it first; if its machine
is gone, its lease ends by itself within seconds.""",
    "E112": """E112: the lease was taken over

This daemon did not renew its lease in time (frozen, suspended, cut off) and another one
leads now. Its writes are refused; nothing was sent twice.""",
    "E113": """E113: a server cannot listen at its address

Another program has the port, or the address is not this machine's. Stop that program, or
set another address under [surfaces] in dispatcher.toml. Nothing was shown, and the lease
was given back: trying again later is safe.""",
    "E121": """E121: the key that opens the store's values is missing, or another's

The values in the store are encrypted under a key file (dispatcher.key, 0600) that never
lies in the store or its backups. Put the right file back, or say where it is: key_file
in dispatcher.toml, DISPATCHER_KEY_FILE, or a systemd credential named dispatcher.key.
When every copy is lost the values are lost too; ledger and evidence stay. The exit
status is 12.""",
    "E131": """E131: the ledger cannot be shipped

Every line of the ledger is also written to files outside of the store, and synced,
before anything is shown (docs/howto/operators/ledger.md). The disk there is full, gone
or read-only: nothing new is shown until that is fixed; then work resumes by itself. What
is in the store is safe. The exit status is 75: try again.""",
    "E132": """E132: the shipped ledger knows what the store has forgotten

The store was put back from an older state (or two copies of it were used side by side):
what was shown since is in the shipped ledger only, and would be shown again. Nothing is
shown until the store has learned of it: dispatcher backup restore --replay-ledger or, in place,
dispatcher ledger replay. If the shipped ledger is itself a stale copy (it ends before
the backup, an anchored root, or the store that is to be replaced) give the folder that it
was last shipped to: --ledger DIR. See docs/howto/operators/backup.md.""",
    "E133": """E133: the shipped ledger is another store's

Two stores would write into one folder. Give each its own: ship in [ledger] of
dispatcher.toml. If the store was made anew in an old directory, move the old ledger away
together with the old store.""",
    "E134": """E134: a ledger has a gap, or was changed

A line does not continue the one before it. Files of the shipped ledger: put them back
from a copy, or move the folder away, then it is written anew from the store. The store's
own ledger: restore a backup and replay the shipped ledger.""",
    "E135": """E135: the store was edited past the program

The gate trusts tables that were written together with the ledger: which adversary an
account belongs to, whose entry it is, what was shown how often. Rows of the columns named
are not as the ledger's lines say; somebody changed them by hand, or a disk or a copy did.
Nothing is booked, loaded or shown by such a store, and a daemon that runs stops.

Keep the store as it is. `dispatcher doctor` names what differs, `dispatcher audit export`
with `audit verify` whether anything was shown past a limit meanwhile. Then restore a
backup from before the change, with what was shown since: dispatcher backup restore BACKUP
--replay-ledger. See docs/howto/operators/ledger.md.""",
    "E141": """E141: the backup cannot be used

It is cut off, was changed, or is no backup of this program. Nothing was restored. Take
an older one: dispatcher backup list; check them: dispatcher backup verify.""",
    "E151": """E151: a market cannot be asked now

It is unreachable, busy, or limits how often it is asked. Nothing was changed. Try again
later; `dispatcher connectors test NAME` says whether it answers.""",
    "E203": """E203: the gate refuses

Mostly, showing this field to this worker would reach a limit of the policy, together with
all that was ever shown to the same person. Give the task to another worker
(`dispatcher explain RECORD.FIELD --who`). Waiting does not help: what was shown stays
shown. Otherwise the message says what prevents it (a pause, a pilot, a blocked account, a
field that is never sent, the showings that t allows) and how to end that.""",
    "E204": """E204: what was already shown is past the limits

The change (a policy, a group, a merge) would make exposures of the past cross a limit.
They cannot be undone, so the change is refused. Loosen the limit, trust the group, or
accept just as many findings as were shown: --accept-past N. They are then named in the
ledger and in evidence. See first what they are: the command's own --dry-run, with
--breaches for policy apply.""",
    "E701": """E701: no plan meets the policy

The message names the fields and the rules that conflict, and how many workers would be
enough (or feeds, for fields that no worker is asked about). It also names each connector
that can receive nothing at present, with the command that fixes it: do that first. Then
register more workers, ask for fewer answers, or loosen a rule. To hold these fields back
and plan all others: dispatcher plan --partial, then dispatcher plan apply.

The daemon (dispatcher up) plans by the same measure: while there is no plan of everything it
begins no record that is new, and goes on with those that were begun before. To let it begin
those that have a plan and hold back the others, say `partial = true` under [planning] in
dispatcher.toml.""",
    "E702": """E702: no verdict within the limits of time or work

Neither a plan nor a proof that there is none was found in time. Nothing was shown, and the
daemon begins no record that is new: dispatcher explain E701 says how to let it. Give it more
workers, or fewer entries at a time.""",
}
"""Text of each code's page."""
