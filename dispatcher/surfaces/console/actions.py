"""The literal table of all that the console does: :data:`ACTIONS` at the end.

An action calls the same function as its address of the API
(:data:`dispatcher.surfaces.api.routes.ROUTES`), with the same document as its body: who
may do it, what it takes and what it answers is said there alone. Here stand the words
around it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from dispatcher.access import ROLES
from dispatcher.core.plugins import BUILT_IN
from dispatcher.surfaces.api import accounts, content, evidence, webhooks, work
from dispatcher.surfaces.api.calls import Call
from dispatcher.surfaces.api.problems import ProblemError
from dispatcher.surfaces.api.routes import ROUTES, Route

_BY_ACT: Final = {route.act: route for route in ROUTES}

_FORMS: Final = {
    "integer": "number",
    "number": "number",
    "boolean": "flag",
    "array": "lines",
    "object": "pairs",
}

_DECIMAL: Final = re.compile(r"-?[0-9]{1,12}\.[0-9]{1,6}")

Given = Mapping[str, str]
"""What a form has, by the names of its inputs."""


@dataclass(frozen=True)
class Input:
    """One input of a form.

    Attributes
    ----------
    name : str
        Of the member of the document, or of the parameter of the path.
    label, hint : str
    kind : str
        ``text``, ``long``, ``lines``, ``pairs``, ``number``, ``numbers``, ``flag``,
        ``choice``, ``secret``.
    needed : bool
    default : str
    choices : tuple of str
    longest : int
    """

    name: str
    label: str
    kind: str
    needed: bool
    default: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    longest: int = 4_000


@dataclass(frozen=True, eq=False)
class Action:
    """One thing that a person can do.

    Attributes
    ----------
    act : callable
        The function of the API's address.
    title, button : str
        Of the page, and of what leads to it.
    back : str
        Address of the page to return to; ``{name}`` is an input.
    forever : str
        What of it can never be undone; it stands first. Empty: all of it can.
    severe : callable, optional
        What must be typed to go on, of what the form has.
    accepts : callable, optional
        Member and number that the preview's document asks to be accepted, such as sets
        past a limit: it is sent along, and refused if it is another by then.
    labels, hints : Mapping of str to str
        Words of inputs, where those of the document will not do.
    hidden : frozenset of str
        Inputs that only a link or the preview fills in.
    confirms : str
        Member of the document that repeats what the path names: what ``severe`` asks
        to be typed.
    at_once : bool
        Whether it goes without a preview: it decides nothing, and a preview would take
        as long as the thing itself.
    """

    act: Callable[..., Any]
    title: str
    button: str
    back: str
    forever: str = ""
    severe: Callable[[Given], str] | None = None
    accepts: tuple[str, Callable[[Mapping[str, Any]], int]] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    confirms: str = ""
    at_once: bool = False

    @property
    def route(self) -> Route:
        """The API's address: its operation says who may."""
        return _BY_ACT[self.act]

    @property
    def operation(self) -> str:
        """The line of :data:`dispatcher.access.OPERATIONS`: who may do it."""
        return self.route.operation

    @property
    def name(self) -> str:
        """In its address, ``/do/NAME``: that of the function, ``block-worker``."""
        return self.act.__name__.replace("_", "-")

    @property
    def about(self) -> str:
        """What it does, in a sentence."""
        return (self.act.__doc__ or "").partition("\n")[0]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the form asks for: parameters of the path, then members of the body."""
        found = [
            Input(name, self._label(name), "text", needed=True, hint=self._hint(name))
            for name in self.path_names
        ]
        if self._body is not None:
            schema = self._body.model_json_schema()
            needed = set(schema.get("required", ()))
            for name, member in schema.get("properties", {}).items():
                found += self._of_member(schema, name, member, needed=name in needed)
        kept = self.hidden | {self.confirms}
        return tuple(one for one in found if one.name not in kept)

    def call(self, call: Call, given: Given, extra: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Call it; a model, a response or a list of models comes back.

        Raises
        ------
        ProblemError
            422: an input is missing or wrong.
        DispatcherError
        """
        return self.act(call, **self.arguments(given, extra))

    def arguments(self, given: Given, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Read a form as the API reads its path and its body.

        Raises
        ------
        ProblemError
        """
        found: dict[str, Any] = {}
        hints = get_type_hints(self.act, include_extras=True)
        for name in self.path_names:
            adapter: TypeAdapter[Any] = TypeAdapter(hints[name])
            try:
                found[name] = adapter.validate_python(given.get(name, ""))
            except ValidationError as error:
                raise self._wrong(error, name) from None
        if self._body is not None:
            members: dict[str, Any] = dict(extra)
            if self.confirms:
                members[self.confirms] = self.target(given)
            for one in self.inputs:
                if one.name not in self.path_names:
                    _put(members, one, given)
            try:
                found["body"] = self._body.model_validate(members)
            except ValidationError as error:
                raise self._wrong(error) from None
        return found

    def target(self, given: Given) -> str:
        """Name what it is done to, for the audit log: only what the path says."""
        return "/".join(given.get(name, "") for name in self.path_names)

    @property
    def path_names(self) -> list[str]:
        """Parameters of the path."""
        return [
            part.partition(":")[0]
            for piece in self.route.path.split("{")[1:]
            if (part := piece.partition("}")[0])
        ]

    @property
    def _body(self) -> type[BaseModel] | None:
        found = get_type_hints(self.act).get("body")
        return found if isinstance(found, type) else None

    def _of_member(
        self,
        schema: Mapping[str, Any],
        name: str,
        member: dict[str, Any],
        *,
        needed: bool,
    ) -> list[Input]:
        """Make the input of a member of the body; of a part of it, its own inputs."""
        kinds = [
            one for one in member.get("anyOf", [member]) if one.get("type") != "null"
        ]
        kind = {**member, **kinds[0]}
        if (ref := kind.get("$ref")) is not None:
            part = schema["$defs"][ref.rpartition("/")[2]]
            if "properties" in part:
                return [
                    one
                    for inner, under in part["properties"].items()
                    for one in self._of_member(
                        schema, f"{name}.{inner}", under, needed=needed
                    )
                ]
            kind |= part
        given = member.get("default")
        choices = tuple(map(str, kind.get("enum", ())))
        form = _FORMS.get(str(kind.get("type")), "text")
        if form == "lines" and kind.get("items", {}).get("type") == "integer":
            form = "numbers"
        longest = int(kind.get("maxLength", 4_000))
        if kind.get("format") == "password":
            form = "secret"
        elif form == "text" and longest > 10_000:
            form = "long"
        return [
            Input(
                name,
                self._label(name),
                "choice" if choices else form,
                needed,
                "" if given in (None, [], {}, False) else str(given),
                self._hint(name) or str(member.get("description", "")),
                choices,
                longest,
            )
        ]

    def _label(self, name: str) -> str:
        words = name.replace("_", " ").replace(".", " ")
        return self.labels.get(name, words[:1].upper() + words[1:])

    def _hint(self, name: str) -> str:
        return self.hints.get(name, "")

    def _wrong(self, error: ValidationError, name: str = "") -> ProblemError:
        """Say which input is wrong, and never what it was."""
        first = error.errors(include_input=False, include_url=False)[0]
        where = name or ".".join(str(part) for part in first["loc"] if part != "body")
        told = "is missing" if first["type"] == "missing" else str(first["msg"])
        where = where.partition(".")[0] if where not in self.labels else where
        return ProblemError(
            422,
            f"{self._label(where)}: {told}",
            "correct it, then go on",
            pointer=where,
        )


def _put(members: dict[str, Any], one: Input, given: Given) -> None:
    """Put an input into the members of a body, as the kind that it is."""
    text = given.get(one.name, "")
    value: Any = text if one.kind in ("long", "secret") else text.strip()
    if one.kind == "flag":
        value = text != ""
    elif value == "":
        return
    elif one.kind == "number":
        value = _number(value)
    elif one.kind == "numbers":
        value = [_number(part) for part in text.replace(",", " ").split()]
    elif one.kind == "lines":
        value = [line.strip() for line in text.splitlines() if line.strip()]
    elif one.kind == "pairs":
        pairs = [line.partition("=") for line in text.splitlines() if line.strip()]
        value = {name.strip(): said.strip() for name, _, said in pairs}
    *path, last = one.name.split(".")
    for part in path:
        members = members.setdefault(part, {})
    members[last] = value


def _number(text: str) -> Any:  # noqa: ANN401 - a number, or what is none
    """Read digits as a number; what is none stays as it is, and is refused later."""
    if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20:
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _first(name: str) -> Callable[[Given], str]:
    """Type the first of some lines again."""
    return lambda given: given.get(name, "").strip().partition("\n")[0].strip()


def _policy_name(given: Given) -> str:
    """Type the name that the policy file gives itself."""
    try:
        name = tomllib.loads(given.get("source", "")).get("name")
    except tomllib.TOMLDecodeError:
        name = None
    return name.strip() if isinstance(name, str) and name.strip() else "apply"


def _sets_past(document: Mapping[str, Any]) -> int:
    return sum(document["by_rule"].values())


_SEEN: Final = "What was shown stays in the ledger for good, and counts for ever."

_ROLES: Final = f"One a line, of: {', '.join(ROLES)}."
_LOOKED: Final = "The audit log keeps that you looked, and why."
_WHY: Final = "One line for the audit log, which is written before anything is shown."

ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        work.pause,
        "Pause",
        "Pause",
        "/",
        hints={
            "reason": "One line; it is shown to whoever asks why nothing moves.",
            "connector": "Only one connector; leave both empty to pause everything.",
            "run": "Only one run.",
        },
    ),
    Action(work.resume, "Resume", "Resume", "/"),
    Action(
        work.draft_plan,
        "Plan again",
        "Plan",
        "/runs",
        hints={
            "prefer": "Of plans that are worth the same, which one is wanted.",
            "partial": "Else nothing is planned where a field has no plan.",
            "seed": "The same seed gives the same plan.",
            "algorithm": "auto, or the name of a solver.",
            "time_limit": "Seconds of search, at most.",
        },
        labels={"partial": "Plan the others where some fields have no plan"},
        at_once=True,
    ),
    Action(work.apply_plan, "Apply a plan", "Apply", "/plans/{plan}", forever=_SEEN),
    Action(
        work.sweep_frontier,
        "Sweep the frontier",
        "Sweep the frontier",
        "/runs",
        hints={
            "points": "Limits on f that are tried, from none to 0.",
            "time_limit": "Seconds of search, at most.",
        },
        at_once=True,
    ),
    Action(
        work.set_budget,
        "Set the budget of a run",
        "Budget",
        "/runs/{run}",
        forever="What is promised or paid stays; below that, a cap stops new work.",
        labels={
            "cap.amount": "Budget",
            "cap.currency": "Its currency",
            "per_day.amount": "A day, at most",
            "per_day.currency": "Its currency",
            "reward.amount": "Each piece of work",
            "reward.currency": "Its currency",
            "bonus.amount": "Each answer",
            "bonus.currency": "Its currency",
            "no_daily_limit": "No limit of a day any more",
        },
        hints={
            "cap.amount": "All that the run may cost, such as 100.00.",
            "cap.currency": "Three letters, such as GBP.",
            "fee_percent": "What the market adds, in percent.",
        },
    ),
    Action(
        work.begin_pilot,
        "Begin a pilot",
        "Pilot",
        "/runs/{run}",
        hints={"records": "So many, picked at random, are shown; the others wait."},
    ),
    Action(
        work.accept_pilot,
        "Accept a pilot",
        "Accept pilot",
        "/runs/{run}",
        forever=_SEEN,
    ),
    Action(
        work.plan_policy,
        "What a policy would do",
        "What it would do",
        "/policy",
        labels={"source": "Policy (TOML)"},
        hints={
            "in_flight": "What happens to open tasks that it would not allow.",
            "time_limit": "Seconds of search for a plan, at most.",
        },
        at_once=True,
    ),
    Action(
        work.apply_policy,
        "Apply a policy",
        "Apply",
        "/policy",
        forever="The version stays in the ledger for good; what it let be shown as well.",
        severe=_policy_name,
        labels={"source": "Policy (TOML)", "sample": "An unchanged example on purpose"},
        hints={
            "in_flight": "What happens to open tasks that it does not allow.",
            "accept_past": "Sets past its limits that you accept: exactly as many as "
            "there are. The reason is then needed.",
            "reason": "One line, for the audit log.",
        },
    ),
    Action(
        evidence.verify_ledger,
        "Verify the ledger",
        "Verify now",
        "/audit",
        hints={"heads": "Roots that were noted down earlier, one a line."},
        at_once=True,
    ),
    Action(
        evidence.export_evidence,
        "Export evidence",
        "Export evidence",
        "/audit",
        forever="A seal is written; the export stays in the audit log.",
        at_once=True,
    ),
    Action(
        accounts.add_workers,
        "Add workers",
        "Add workers",
        "/workers",
        forever="A worker stays in the ledger for good; it can be blocked later.",
        accepts=("accept_past", lambda document: int(document["past"])),
        hints={"workers": "One a line, as CONNECTOR/NAME."},
        hidden=frozenset({"accept_past"}),
    ),
    Action(
        accounts.invite_workers,
        "Invite workers",
        "Invite",
        "/workers",
        forever="Earlier links of these workers stop working at once.",
        hints={
            "workers": "One a line, as CONNECTOR/NAME.",
            "days": "For how long the new links work.",
        },
    ),
    Action(
        accounts.block_worker,
        "Block a worker",
        "Block",
        "/workers/{connector}/{name}",
        forever=_SEEN,
    ),
    Action(
        accounts.unblock_worker,
        "Unblock a worker",
        "Unblock",
        "/workers/{connector}/{name}",
    ),
    Action(
        accounts.merge_workers,
        "Merge workers",
        "Merge",
        "/workers",
        forever="A merge is for good: what each saw counts for all of them from then on.",
        severe=_first("accounts"),
        accepts=("accept_past", _sets_past),
        hints={"accounts": "Accounts of one and the same person, one a line."},
        hidden=frozenset({"accept_past"}),
    ),
    Action(
        work.withdraw_messages,
        "Withdraw messages",
        "Withdraw",
        "/queue?state=cancelled",
        forever=_SEEN,
        hints={"ids": "Numbers of messages, one a line."},
    ),
    Action(
        work.retry_messages,
        "Retry messages",
        "Retry",
        "/queue?state=ready",
        hints={
            "ids": "Numbers of dead messages, one a line; empty: all of them.",
            "connector": "Only those of one connector.",
        },
    ),
    Action(
        content.unburn_fields,
        "Ask more workers",
        "Reopen",
        "/fields",
        forever="More workers will see these fields; what is shown stays shown.",
        labels={"fields": "Fields", "extra": "How many more workers, of each field"},
        hints={
            "fields": "RECORD.FIELD, one a line; empty: every burnt field.",
            "reason": "One line of the ledger; auditors read it.",
        },
    ),
    Action(
        content.judge_field,
        "Judge a field",
        "Judge",
        "/answers",
        labels={"entry": "Field", "value": "What it says"},
        hints={
            "entry": "PSEUDONYM.FIELD.",
            "decision": "consensus: what was decided by hand is withdrawn.",
            "letter": "Of the answer, with choose.",
            "value": "With value alone.",
            "reason": "One line, for the audit log.",
        },
    ),
    Action(
        content.dismiss_answers,
        "Dismiss refused answers",
        "Dismiss",
        "/answers",
        hints={
            "ids": "Numbers of refused answers, one a line; empty: all of them.",
            "reason": "One line; it is kept with them.",
        },
    ),
    Action(
        content.reveal_answers,
        "Reveal refused answers",
        "Reveal",
        "/answers",
        forever=_LOOKED,
        hints={"reason": _WHY},
    ),
    Action(
        accounts.add_user,
        "Add a user",
        "Add a user",
        "/settings",
        hints={"roles": _ROLES},
    ),
    Action(
        accounts.set_roles,
        "Set the roles of a user",
        "Roles",
        "/settings",
        hints={"roles": f"These and no others. {_ROLES}"},
    ),
    Action(accounts.disable_user, "Disable a user", "Disable", "/settings"),
    Action(accounts.enable_user, "Enable a user", "Enable", "/settings"),
    Action(
        accounts.reset_user,
        "Reset a user",
        "Reset",
        "/settings",
        forever="Their password, second factor and tokens are gone at once.",
    ),
    Action(
        accounts.revoke_session,
        "End a session",
        "End",
        "/settings",
        forever="Whoever has it must sign in again.",
    ),
    Action(
        accounts.make_token,
        "Make a token",
        "Make a token",
        "/settings",
        hints={
            "scopes": "One a line, such as status:read or records:write.",
            "user": "Whose token it is; it never may more than they do.",
        },
    ),
    Action(
        accounts.revoke_token,
        "Revoke a token",
        "Revoke",
        "/settings",
        forever="No program gets in with it any more.",
    ),
    Action(
        webhooks.add_webhook,
        "Add a webhook",
        "Add a webhook",
        "/settings",
        labels={"url": "Address", "types": "Notices"},
        hints={
            "types": "One a line, such as connector.down; empty: all but heartbeats."
        },
    ),
    Action(webhooks.try_webhook, "Send a test", "Test", "/settings/webhooks/{webhook}"),
    Action(
        webhooks.rotate_webhook,
        "Rotate the secret of a webhook",
        "Rotate",
        "/settings/webhooks/{webhook}",
    ),
    Action(
        webhooks.remove_webhook,
        "Remove a webhook",
        "Remove",
        "/settings",
        forever="Its log goes with it, and what waits for it is not delivered.",
    ),
    Action(
        webhooks.redeliver_notice,
        "Deliver again",
        "Deliver again",
        "/settings/webhooks/{webhook}",
    ),
    Action(evidence.create_backup, "Make a backup", "Make a backup", "/settings"),
    Action(
        evidence.prune_backups,
        "Delete old backups",
        "Delete old backups",
        "/settings",
        forever="Backups that are deleted cannot be restored.",
        hints={"keep": "So many of the newest stay."},
    ),
    Action(
        work.add_connector,
        "Add a connector",
        "Add a market",
        "/connectors",
        hints={
            "name": "As it stands before the slash in the names of its workers.",
            "kind": f"By default the name. Built in: {', '.join(BUILT_IN)}.",
            "settings": "One a line, NAME = VALUE; what its kind misses is named.",
            "secret": "As its kind wants it; it is kept beside the settings, and "
            "shown by nothing.",
        },
        at_once=True,
    ),
    Action(
        work.set_secret,
        "Replace the secret of a connector",
        "Secret",
        "/connectors",
        forever="The old one is gone.",
        hints={"secret": "It is tried first; a wrong one changes nothing."},
        at_once=True,
    ),
    Action(
        work.disable_connector,
        "Disable a connector",
        "Disable",
        "/connectors",
        hints={"reason": "One line; it is shown to whoever asks why nothing moves."},
    ),
    Action(
        work.enable_connector,
        "Enable a connector",
        "Enable",
        "/connectors",
        labels={"untested": "Without asking it first whether it works"},
    ),
    Action(work.test_connector, "Test a connector", "Test", "/connectors"),
    Action(
        content.find_record,
        "Find a record by its key",
        "Find by key",
        "/records/{id}",
        hints={"key": "As your files have it; it gets into no address and no log."},
    ),
    Action(
        content.reveal_record,
        "Reveal a record",
        "Reveal",
        "/records/{record}",
        forever=_LOOKED,
        hints={"reason": _WHY},
    ),
    Action(
        content.export_run,
        "Take out the records of a run",
        "Export",
        "/runs/{run}",
        forever=_LOOKED,
        labels={"excel_guard": "Cells that a spreadsheet would run begin with '"},
        hints={"reason": _WHY},
    ),
    Action(
        content.find_subject,
        "Find a person by their key",
        "Find a person",
        "/audit/people/{id}",
        hints={"key": "As your files have it; it gets into no address and no log."},
    ),
    Action(
        content.report_subject,
        "Report all that there is about a person",
        "Report",
        "/audit/people/{subject}",
        labels={"with_names": "With the names of the workers who saw it"},
    ),
    Action(
        content.erase_subject,
        "Erase a person",
        "Erase",
        "/audit",
        forever="The values are gone; what workers have seen they have seen.",
        severe=lambda given: given.get("subject", ""),
        confirms="confirm",
    ),
    Action(
        content.purge_records,
        "Purge old records",
        "Purge",
        "/audit",
        forever="Their values are gone; the ledger keeps that they were shown.",
        severe=lambda given: f"purge-{given.get('older_than_days', '').strip()}d",
        labels={"older_than_days": "Loaded so many days ago, or before"},
    ),
)
"""Every action. A role sees those whose operation it may do."""
