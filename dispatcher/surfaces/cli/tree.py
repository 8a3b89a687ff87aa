"""The command tree in words: what ``--help`` prints, without loading one command.

A new command goes into the module of its noun; only a new noun, or a command that
stands alone, is a line of ``COMMANDS``. Its ``summary`` is the first line of the
command's docstring, or the ``help`` of its group: a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final, NamedTuple

DAILY: Final = "Daily use"
WORK: Final = "Work, answers and money"
RUNNING: Final = "Run and stop"
ACCESS: Final = "Who may come in"
PRIVACY: Final = "Privacy: evidence and requests"
STORE: Final = "Keep the store"
PAPER: Final = "Solve an instance of the paper's problem"


class CommandEntry(NamedTuple):
    """A noun or a command of the top level: its name, and where it is written."""

    name: str
    module: str
    attribute: str
    panel: str
    summary: str


COMMANDS: Final = (
    CommandEntry(
        "init",
        "db",
        "init",
        DAILY,
        "Write dispatcher.toml, policy.toml, an empty store, its key and .gitignore.",
    ),
    CommandEntry(
        "policy", "policy", "app", DAILY, "Check, test and apply the policy file."
    ),
    CommandEntry(
        "records",
        "records",
        "app",
        DAILY,
        "Look into files, load them, write records whole again.",
    ),
    CommandEntry(
        "workers",
        "workers",
        "app",
        DAILY,
        "Add workers, list them, invite them, block them, merge them.",
    ),
    CommandEntry("plan", "plan", "app", DAILY, "Plan who is to be shown what."),
    CommandEntry(
        "up",
        "daemon",
        "up",
        DAILY,
        "Run: plan, serve the task page, send, collect, put together, seal.",
    ),
    CommandEntry(
        "status",
        "status",
        "status",
        DAILY,
        "Show counts by state, who leads, and what needs you.",
    ),
    CommandEntry(
        "explain",
        "explain",
        "explain",
        DAILY,
        "Explain a code, a field, a worker or a record.",
    ),
    CommandEntry(
        "doctor",
        "doctor",
        "doctor",
        DAILY,
        "Look at store, ledger, queue, connectors, clock and permissions.",
    ),
    CommandEntry(
        "demo",
        "demo",
        "demo",
        DAILY,
        "Run it all: drawn forms, simulated workers over HTTP and files, the proof.",
    ),
    CommandEntry(
        "layout",
        "layout",
        "app",
        WORK,
        "Draw boxes on scans, and see whether they fit.",
    ),
    CommandEntry(
        "fields",
        "fields",
        "app",
        WORK,
        "How often fields were shown; more showings for those that need them.",
    ),
    CommandEntry(
        "answers",
        "answers",
        "app",
        WORK,
        "Judge answers that disagree; look at those that were refused.",
    ),
    CommandEntry(
        "questions",
        "questions",
        "app",
        WORK,
        "Made-up questions: tests before real work, and gold among it.",
    ),
    CommandEntry(
        "runs", "runs", "app", WORK, "Sets of records and what they may cost."
    ),
    CommandEntry(
        "payments",
        "payments",
        "app",
        WORK,
        "What workers are owed and paid, and what waits for you.",
    ),
    CommandEntry(
        "serve",
        "daemon",
        "serve",
        RUNNING,
        "Serve pages beside the leader, on PostgreSQL: any number of processes.",
    ),
    CommandEntry(
        "down",
        "daemon",
        "down",
        RUNNING,
        "Stop the daemon that leads this store, if it runs on this machine.",
    ),
    CommandEntry(
        "pause",
        "queue",
        "pause",
        RUNNING,
        "Stop new showings at once; answers are still accepted.",
    ),
    CommandEntry(
        "resume", "queue", "resume", RUNNING, "End a pause; other pauses stay."
    ),
    CommandEntry(
        "connectors",
        "connectors",
        "app",
        RUNNING,
        "Markets and feeds: what they declare, whether they work.",
    ),
    CommandEntry(
        "queue",
        "queue",
        "app",
        RUNNING,
        "What waits to be sent, and what could not be.",
    ),
    CommandEntry(
        "notices",
        "notices",
        "app",
        RUNNING,
        "Who is told what happens: webhooks, mail, and what became of each notice.",
    ),
    CommandEntry(
        "console",
        "daemon",
        "console",
        ACCESS,
        "Sign in to the operators' console, and out.",
    ),
    CommandEntry(
        "users",
        "people",
        "users",
        ACCESS,
        "Who signs in to the console, and in which roles.",
    ),
    CommandEntry(
        "tokens",
        "people",
        "tokens",
        ACCESS,
        "Tokens with which programs call the API.",
    ),
    CommandEntry(
        "sessions",
        "people",
        "sessions",
        ACCESS,
        "Who is signed in to the console now; end one.",
    ),
    CommandEntry(
        "audit",
        "audit",
        "app",
        PRIVACY,
        "Export evidence and verify it; read the audit log.",
    ),
    CommandEntry(
        "ledger",
        "ledger",
        "app",
        PRIVACY,
        "Check, follow, export and anchor the ledger; prove who saw what.",
    ),
    CommandEntry(
        "subject",
        "subject",
        "app",
        PRIVACY,
        "Find what there is about a person, report it, erase it.",
    ),
    CommandEntry(
        "backup",
        "backup",
        "app",
        STORE,
        "Keep sealed copies of the store, prove them, restore one.",
    ),
    CommandEntry(
        "db", "db", "app", STORE, "Look at the store's schema and bring it up to date."
    ),
    CommandEntry(
        "schema",
        "schema",
        "schema",
        STORE,
        "Print the JSON Schema of policy files, or of a document that --json prints.",
    ),
    CommandEntry(
        "solve",
        "solve",
        "solve",
        PAPER,
        "Solve one instance of the paper's problem; the plan is judged before it is "
        "shown.",
    ),
    CommandEntry(
        "judge",
        "solve",
        "judge",
        PAPER,
        "Judge a finished plan of an instance: what it is worth, and all that it "
        "breaks.",
    ),
)

ABOUT: Final = (
    "Show sensitive records to strangers field by field: no stranger can put together "
    "what must stay apart."
)
OPTIONS: Final[Mapping[str, str]] = {
    "-C, --dir DIRECTORY": "Work in this directory [DISPATCHER_DIR; default: .]",
    "--store URL": "File or postgresql:// URL of the store, without a password "
    "[DISPATCHER_STORE]",
    "--config FILE": "Another settings file [DISPATCHER_CONFIG]",
    "--version": "Print the version.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Print what completes in the current shell.",
    "-h, --help": "Show this page, or the page of a command.",
}
ANYWHERE: Final[Mapping[str, str]] = {
    "--json": "One JSON document; its form: dispatcher schema NAME",
    "--jsonl": "Each row of a list as JSON on a line of its own.",
    "-q, --quiet": "Results and errors only.",
    "--no-color": "Like NO_COLOR=1.",
    "--no-header": "Tables without their first line.",
    "--no-input": "Never ask; exit 2 instead.",
    "-y, --yes": "Answer yes.",
}
"""Options of all commands that may also stand after the command's name."""


def words_of(options: Mapping[str, str]) -> frozenset[str]:
    """Return the words of options, without what they take."""
    named = (word for names in options for word in names.replace(",", "").split())
    return frozenset(word for word in named if word.startswith("-"))


def help_page(width: int = 80) -> str:
    """Write what ``dispatcher --help`` prints."""
    panels: dict[str, dict[str, str]] = {}
    for entry in COMMANDS:
        panels.setdefault(entry.panel, {})[entry.name] = entry.summary
    blocks = [
        "Usage: dispatcher [OPTIONS] COMMAND [ARGS]...",
        "\n".join(wrap(ABOUT, width)),
        *(_block(panel, rows, width) for panel, rows in panels.items()),
        _block("Options", OPTIONS, width),
        _block("Options that may stand after the command too", ANYWHERE, width),
        "dispatcher alone says where you are and what comes next.\n"
        "dispatcher COMMAND --help tells what a command takes.",
    ]
    return "\n\n".join(blocks) + "\n"


def _block(title: str, rows: Mapping[str, str], width: int) -> str:
    return "\n".join([f"{title}:", *_rows(rows, width)])


def _rows(rows: Mapping[str, str], width: int) -> Iterator[str]:
    indent = " " * (max(map(len, rows)) + 4)
    for name, text in rows.items():
        yield from wrap(
            text,
            max(width, 40),
            initial_indent=f"  {name}".ljust(len(indent)),
            subsequent_indent=indent,
        )
