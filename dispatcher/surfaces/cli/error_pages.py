"""One page for each error code: what it means and what to do."""

from __future__ import annotations

from typing import Final

PAGES: Final[dict[str, str]] = {
    "E001": """E001: the program failed unexpectedly

A fault of the program. Its message is withheld, since it may hold a value of a record;
the file named holds the places in the code. Nothing half-done stays behind: every stage
is one transaction. Please report it.""",
    "E002": """E002: the command's words are off, or an answer was needed

A command that changes something for good asks first. Without a terminal, or with
--no-input, it stops and names the option that answers, usually --yes.""",
    "E003": """E003: a file, value or setting is not what it must be

The message names the place and how to mend it. Nothing was changed.""",
    "E004": """E004: there is no such thing in the store

Look the name up: dispatcher workers list, records list, plan list, queue list.""",
    "E005": """E005: the thing is in a state that does not allow this

Somebody or something changed it meanwhile, or it is in use. Look again, then decide.""",
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
    "E121": """E121: the key that opens the store's values is missing, or another's

The values in the store are encrypted under a key file (dispatcher.key, 0600) that never
lies in the store or its backups. Put the right file back, or say where it is: key_file
in dispatcher.toml, DISPATCHER_KEY_FILE, or a systemd credential named dispatcher.key.
When every copy is lost the values are lost too; ledger and evidence stay. The exit
status is 12.""",
    "E131": """E131: the ledger cannot be shipped

Every line of the ledger is also written to files outside of the store, and synced,
before anything is shown (docs/howto/operators/ledger.md). The disk there is full, gone
or read-only: nothing new is shown until it is mended, then it goes on by itself. What is
in the store is safe. The exit status is 75: try again.""",
    "E132": """E132: the shipped ledger knows what the store has forgotten

The store was put back from an older state (or two copies of it were used side by side):
what was shown since is in the shipped ledger only, and would be shown again. Nothing is
shown until the store is told: dispatcher restore --replay-ledger, or, where it stands,
dispatcher ledger replay. Where the shipped ledger is itself a stale copy (it ends before
the backup, an anchored root, or the store that is to be replaced) give the folder that it
was last shipped to: --ledger DIR. See docs/howto/operators/backup.md.""",
    "E133": """E133: the shipped ledger is another store's

Two stores would write into one folder. Give each its own: ship in [ledger] of
dispatcher.toml. If the store was made anew in an old directory, move the old ledger away
together with the old store.""",
    "E134": """E134: a ledger has a gap, or was changed

A line does not go on from the one before it. Files of the shipped ledger: put them back
from a copy, or move the folder away, then it is written anew from the store. The store's
own ledger: restore a backup and replay the shipped ledger.""",
    "E135": """E135: the store was edited past the program

The gate trusts tables that were written together with the ledger: which adversary an
account belongs to, whose entry it is, what was shown how often. Rows of the columns named
are not as the ledger's lines say; somebody changed them by hand, or a disk or a copy did.
Nothing is booked, loaded or shown by such a store, and a daemon that runs stops.

Keep the store as it is. `dispatcher doctor` names what differs, `dispatcher audit export`
with `audit verify` whether anything was shown past a limit meanwhile. Then restore a
backup from before the change, with what was shown since: dispatcher restore BACKUP
--replay-ledger. See docs/howto/operators/ledger.md.""",
    "E141": """E141: the backup cannot be used

It is cut off, was changed, or is no backup of this program. Nothing was restored. Take
an older one: dispatcher backup list; check them: dispatcher backup verify.""",
    "E203": """E203: the gate refuses

Mostly, showing this field to this worker would reach a limit of the policy, together with
all that the worker's adversary was ever shown. Give the task to another worker
(`dispatcher explain RECORD.FIELD --who`). Waiting does not help: what was shown stays
shown. Else the message says what stands in the way (a pause, a pilot, a blocked account, a
field that is never sent, the showings that t allows) and what ends it.""",
    "E204": """E204: what was already shown is past the limits

The change (a policy, a group, a merge) would make exposures of the past cross a limit.
They cannot be undone, so the change is refused. Loosen the limit, trust the group, or
accept just as many findings as were shown: --accept-past N. They are then named in the
ledger and in evidence. See first what they are: policy plan --breaches, or the command's
own --dry-run.""",
    "E701": """E701: no plan meets the policy

The message names the entries and rules that clash and how many workers would do, or feeds
for fields that nobody is asked; connectors that cannot be given anything are named with
what mends it. Mend those first; then register more, want fewer answers, or loosen the
rule; or plan the rest with --partial.""",
    "E702": """E702: no verdict within the limits of time or work

Neither a plan nor a proof that there is none was found in time. Nothing was shown. Give
it more workers, or fewer entries at a time.""",
}
"""Text of each code's page."""
