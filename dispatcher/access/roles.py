"""Who may do what: operations, the scope that each asks for, and the scopes of roles.

``OPERATIONS`` and ``ROLES`` are the one table of it. Commands, API and console ask
:meth:`Principal.may` with the name of an operation; what has no line here nobody may do.
An operation is called like its command, with a dot between noun and verb.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from dispatcher.core.errors import Invalid

MACHINE: Final = "machine"
"""Scope of what only a command on the store's own machine may do: no role has it."""

OPERATIONS: Final[Mapping[str, str]] = {
    "status": "status:read",
    "explain": "status:read",
    "doctor": "status:read",
    "schema": "status:read",
    # records and their fields
    "records.preview": "records:write",
    "records.load": "records:write",
    "records.list": "records:read",
    "records.show": "records:read",
    "records.reveal": "records:reveal",
    "records.reassemble": "records:reveal",
    "records.purge": "subjects:write",
    "fields.list": "fields:read",
    "fields.unburn": "fields:write",
    # the policy
    "policy.list": "policy:read",
    "policy.show": "policy:read",
    "policy.check": "policy:read",
    "policy.test": "policy:read",
    "policy.diff": "policy:read",
    "policy.picture": "policy:read",
    "policy.ask": "policy:read",
    "policy.suggest": "policy:write",
    "policy.apply": "policy:write",
    # plans and runs
    "plan": "plans:apply",
    "plan.apply": "plans:apply",
    "plan.list": "plans:read",
    "plan.show": "plans:read",
    "plan.frontier": "plans:read",
    "plan.export": "plans:read",
    "runs.list": "runs:read",
    "runs.show": "runs:read",
    "runs.budget": "runs:write",
    "runs.pilot": "runs:write",
    "runs.accept": "runs:write",
    "pause": "runs:write",
    "resume": "runs:write",
    # workers
    "workers.list": "workers:read",
    "workers.show": "workers:read",
    "workers.groups": "workers:read",
    "workers.suspects": "workers:read",
    "workers.add": "workers:write",
    "workers.invite": "workers:write",
    "workers.block": "workers:write",
    "workers.unblock": "workers:write",
    "workers.merge": "workers:merge",
    "workers.distinct": "workers:merge",
    # answers, questions, money
    "answers.list": "answers:read",
    "answers.conflicts": "answers:read",
    "answers.agreement": "answers:read",
    "answers.show": "answers:review",
    "answers.judge": "answers:review",
    "answers.reveal": "answers:review",
    "answers.dismiss": "answers:write",
    "questions.list": "questions:read",
    "questions.add": "questions:write",
    "questions.drop": "questions:write",
    "payments.list": "payments:read",
    "payments.show": "payments:read",
    "payments.owed": "payments:read",
    "payments.settle": "payments:write",
    "payments.approve": "payments:write",
    "payments.refuse": "payments:write",
    # connectors and the queue
    "connectors.list": "connectors:read",
    "connectors.show": "connectors:read",
    "connectors.test": "connectors:operate",
    "connectors.enable": "connectors:operate",
    "connectors.disable": "connectors:operate",
    "connectors.reconcile": "connectors:operate",
    "connectors.add": "connectors:secrets",
    "connectors.set-secret": "connectors:secrets",
    "connectors.new": MACHINE,
    "queue.list": "queue:read",
    "queue.retry": "queue:write",
    "queue.withdraw": "queue:write",
    # evidence, the ledger, persons
    "ledger.verify": "ledger:read",
    "ledger.tail": "ledger:read",
    "ledger.export": "ledger:read",
    "ledger.root": "ledger:read",
    "ledger.prove": "ledger:read",
    "ledger.replay": MACHINE,
    "audit.export": "certificates:write",
    "audit.verify": "ledger:read",
    "audit.log": "audit:read",
    "audit.events": "audit:read",
    "subject.find": "subjects:read",
    "subject.report": "subjects:reveal",
    "subject.erase": "subjects:write",
    # who may do all this
    "users.list": "users:read",
    "users.add": "users:write",
    "users.invite": "users:write",
    "users.role": "users:write",
    "users.disable": "users:write",
    "users.reset": "users:write",
    "tokens.list": "tokens:read",
    "tokens.make": "tokens:write",
    "tokens.revoke": "tokens:write",
    "sessions.list": "sessions:read",
    "sessions.revoke": "sessions:write",
    # who is told what
    "notices.list": "notices:read",
    "notices.deliveries": "notices:read",
    "notices.add": "notices:write",
    "notices.remove": "notices:write",
    "notices.rotate": "notices:write",
    "notices.test": "notices:write",
    "notices.redeliver": "notices:write",
    # the store and the machine
    "backup.list": "backup:read",
    "backup.verify": "backup:write",
    "backup.create": "backup:write",
    "backup.prune": "backup:write",
    "backup.restore": MACHINE,
    "console.link": MACHINE,
    "console.sign-out": MACHINE,
    "db.status": MACHINE,
    "db.check": MACHINE,
    "db.upgrade": MACHINE,
    "db.rekey": MACHINE,
    "db.scrub": MACHINE,
    "init": MACHINE,
    "up": MACHINE,
    "serve": MACHINE,
    "down": MACHINE,
    "demo": MACHINE,
    "layout.draw": MACHINE,
    "layout.check": MACHINE,
    "solve": MACHINE,
    "judge": MACHINE,
}
"""Every operation, and the scope that it asks for."""

_SEEN: Final = frozenset(
    f"{noun}:read"
    for noun in [
        "status",
        "records",
        "fields",
        "policy",
        "plans",
        "runs",
        "workers",
        "answers",
        "questions",
        "payments",
        "connectors",
        "queue",
        "ledger",
    ]
)
"""What the work looks like, without a value."""

ROLES: Final[Mapping[str, frozenset[str]]] = {
    "viewer": _SEEN,
    "operator": _SEEN
    | {
        "records:write",
        "fields:write",
        "plans:apply",
        "runs:write",
        "workers:write",
        "answers:write",
        "questions:write",
        "payments:write",
        "connectors:operate",
        "queue:write",
    },
    "reviewer": frozenset({"status:read", "answers:read", "answers:review"}),
    "data-viewer": frozenset({"status:read", "records:read", "records:reveal"}),
    "policy-admin": frozenset(
        {"status:read", "policy:read", "policy:write", "workers:read", "workers:merge"}
    ),
    "privacy-officer": frozenset(
        {
            "status:read",
            "policy:read",
            "ledger:read",
            "subjects:read",
            "subjects:reveal",
            "subjects:write",
            "audit:read",
            "certificates:write",
        }
    ),
    "admin": frozenset(
        {
            "status:read",
            "users:read",
            "users:write",
            "tokens:read",
            "tokens:write",
            "sessions:read",
            "sessions:write",
            "notices:read",
            "notices:write",
            "connectors:read",
            "connectors:secrets",
            "backup:read",
            "backup:write",
        }
    ),
    "loader": frozenset({"status:read", "records:write"}),  # sees what came of a load
}
"""Every role, and its scopes. A user may have several, but for those of ``APART``."""

APART: Final = tuple(
    frozenset(pair)
    for pair in (
        ("privacy-officer", "operator"),
        ("privacy-officer", "policy-admin"),
        ("privacy-officer", "admin"),
        ("admin", "data-viewer"),
        ("admin", "reviewer"),
    )
)
"""Roles that nobody has both of: who checks does not act, an admin sees no value."""

SCOPES: Final = frozenset().union(*ROLES.values())
"""All that a role can give."""


def _powers(role: str, other: str) -> frozenset[str]:
    """What a role does, and not only sees, that another one does not."""
    return frozenset(
        one for one in ROLES[role] - ROLES[other] if not one.endswith(":read")
    )


NOT_FOR_TOKENS: Final = frozenset({"users:write", "tokens:write", "sessions:write"})
"""What no token may do: it would make others, and outlive itself."""


PROVEN: Final = frozenset(
    {
        "records.reveal",
        "records.reassemble",
        "answers.reveal",
        "answers.show",
        "subject.report",
        "workers.merge",
        "records.purge",
        "subject.erase",
        "tokens.make",
        "users.reset",
    }
)
"""What shows values, cannot be undone or opens a door: in a session of the console its
person gives password and code once more, unless that was just now. A token's own scope
is asked for instead."""


@dataclass(frozen=True)
class Principal:
    """Whoever acts.

    Attributes
    ----------
    name : str
        For the audit log: a user's, ``token:NAME``, or of a session by link
        ``console:`` and eight digits.
    kind : str
        ``user``, ``token`` or ``link``.
    roles : frozenset of str
        Empty for a token.
    scopes : frozenset of str
    user_id : int or None
        None: no user stands behind it.
    """

    name: str
    kind: str
    roles: frozenset[str]
    scopes: frozenset[str]
    user_id: int | None = None

    def may(self, operation: str) -> bool:
        """Whether an operation is permitted; nobody may do what has no line."""
        return OPERATIONS.get(operation) in self.scopes


def allowed(principal: Principal, operation: str) -> bool:
    """Whether a principal may do an operation."""
    return principal.may(operation)


def scopes_of(roles: Collection[str]) -> frozenset[str]:
    """Scopes of several roles together; one that is unknown gives none."""
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))


def check_roles(roles: Collection[str]) -> frozenset[str]:
    """Return roles that one user may have.

    Raises
    ------
    Invalid
        One is unknown, there is none, or two are to be kept apart.
    """
    found = frozenset(roles)
    unknown = sorted(found - ROLES.keys())
    if unknown or not found:
        raise Invalid(
            f"there is no role {unknown[0][:40]}" if unknown else "no role is given",
            why="a user has one or more of the roles of this program",
            fix=f"choose of: {', '.join(ROLES)}",
        )
    for pair in APART:
        if pair <= found:
            one, other = sorted(pair)
            raise Invalid(
                f"nobody is both {one} and {other}",
                why="who checks what is done does not do it, and who gives access to "
                "values does not see them (separation of duties)",
                fix="give the second role to another user",
            )
    return found


def check_scopes(scopes: Collection[str]) -> frozenset[str]:
    """Return scopes that a token may have.

    Raises
    ------
    Invalid
        One is unknown, not for tokens, or there is none; or two are of roles that are
        to be kept apart.
    """
    found = frozenset(scopes)
    wrong = sorted(found - (SCOPES - NOT_FOR_TOKENS))
    if wrong or not found:
        raise Invalid(
            f"a token cannot have the scope {wrong[0][:40]}"
            if wrong
            else "no scope is given",
            why="a token may do a part of what users may do, and never make tokens, "
            "users or sessions",
            fix=f"choose of: {', '.join(sorted(SCOPES - NOT_FOR_TOKENS))}",
        )
    for one, other in map(sorted, APART):
        mine, others = found & _powers(one, other), found & _powers(other, one)
        if mine and others:
            raise Invalid(
                f"no token has both {min(mine)} and {min(others)}",
                why=f"the first is of {one}, the second of {other}, and nobody is both "
                "(separation of duties)",
                fix="make two tokens",
            )
    return found
