"""Overview: is everything all right, and what needs a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from dispatcher.core.plurals import count
from dispatcher.surfaces.console.screens.rules import NEAREST, rule_rows, verdict
from dispatcher.surfaces.console.view import View

HELPS: Final = (
    ("dispatcher policy apply", "/policy", "Policy"),
    ("dispatcher queue list --state dead", "/queue?state=dead", "Look"),
    ("dispatcher queue list", "/queue?state=ready", "Look"),
    ("dispatcher fields list", "/fields?state=burnt", "Look"),
    ("dispatcher connectors", "/connectors", "Look"),
    ("dispatcher answers list", "/answers", "Look"),
    ("dispatcher answers conflicts", "/answers/judge", "Judge"),
    ("dispatcher workers suspects", "/workers", "Look"),
    ("dispatcher workers list", "/workers?q=state:stopped", "Look"),
    ("dispatcher workers add", "/do/add-workers", "Add workers"),
    ("dispatcher payments list", "/payments", "Look"),
    ("dispatcher runs", "/runs", "Look"),
    ("dispatcher plan", "/runs", "Look"),
    ("dispatcher resume", "/do/resume", "Resume"),
)
"""Where the console does what a sentence says a command does, by its beginning."""
_NAMED_SCOPE: Final = re.compile(r"^(connector|run):")
_SCOPE: Final = re.compile(r"--(connector|run) (\S+)")


@dataclass(frozen=True)
class Need:
    """Something that only a person can mend.

    Attributes
    ----------
    text, command : str
    href, word : str
        Where the console does it; empty where it does not, or not for this role.
    """

    text: str
    command: str
    href: str = ""
    word: str = ""


def overview(view: View) -> Response:
    """``GET /``."""
    found = view.cache.status()
    limits = view.cache.limits()
    needs = [_need(view, sentence) for sentence in found.needs_you]
    return view.show(
        NEAREST.rows(view.request, rule_rows(limits)),
        found=found,
        verdict=whole(verdict(limits), needs),
        needs=needs,
        fields=found.fields,
        record_states=view.cache.record_states(),
        backup=view.cache.backup_made(),
    )


def whole(limits: tuple[str, str], needs: Sequence[Need]) -> tuple[str, str]:
    """Say in a word and a sentence whether everything is all right."""
    word, sentence = limits
    if not needs:
        return word, sentence
    verb = "needs" if len(needs) == 1 else "need"
    things = f"{count(len(needs), 'thing')} {verb} you."
    if word == "FAIL":
        return word, f"{sentence} {things}"
    return "WARN", f"{things} {sentence}"


def _need(view: View, sentence: str) -> Need:
    """Take the command from a sentence, and find where the console does it."""
    text, _, command = sentence.rpartition(": dispatcher ")
    if not text:
        return Need(sentence, "")
    command = f"dispatcher {command}"
    text = text[0].upper() + _NAMED_SCOPE.sub(r"\1 ", text, count=1)[1:]
    for beginning, href, word in HELPS:
        if command.startswith(beginning) and _leads(view, href):
            scope = _SCOPE.search(command) if word == "Resume" else None
            query = f"?{urlencode({scope[1]: scope[2]})}" if scope else ""
            return Need(text, command, href + query, word)
    return Need(text, command)


def _leads(view: View, href: str) -> bool:
    """Whether who looks may see what an address shows."""
    path = href.partition("?")[0]
    operation = {f"/do/{one.name}": one.operation for one in view.site.actions}
    operation |= {one.path: one.operation for one in view.site.screens}
    return path in operation and view.may(operation[path])
