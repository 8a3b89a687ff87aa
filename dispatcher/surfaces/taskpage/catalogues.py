"""Bring the task page's catalogues up to date: ``python -m`` this module ``[LANGUAGE]``.

All texts of the page are collected from its sources. Each catalogue gets those that are
new, untranslated, and loses those that are gone; LANGUAGE begins another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from dispatcher.stages.serving.own_work import KINDS, MANY, OTHER, ROUGHLY
from dispatcher.stages.serving.values import Saved
from dispatcher.surfaces.taskpage.languages import DOMAIN
from dispatcher.surfaces.taskpage.pages import SAYINGS, SCRIPT
from policies.policy import QUESTIONS

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[2]
LOCALES: Final = _HERE / "locale"

_KEYWORDS: Final = {
    "say": None,
    "count": (1, 2),
    "Invalid": None,
    "Unreadable": None,
    "Saved": None,
    "_words": None,
}
_SOURCES: Final = {
    "dispatcher/surfaces/taskpage": [("**.html", "jinja2"), ("**.py", "python")],
    "dispatcher/stages/serving": [("**.py", "python")],
    "policies/answers": [("**.py", "python")],
}


def texts() -> Iterator[str | tuple[str, ...]]:
    """All texts that the page may say; one with a number as singular and plural."""
    for folder, methods in _SOURCES.items():
        found = extract_from_dir(
            _ROOT / folder,
            method_map=methods,
            options_map={"**.html": {"trimmed": "true"}},
            keywords=_KEYWORDS,
        )
        yield from (message for _, _, message, _, _ in found)
    yield from (
        *QUESTIONS.values(),
        *KINDS.values(),
        OTHER,
        MANY,
        *SCRIPT.values(),
        *SAYINGS,
    )
    yield from (words for _, words in ROUGHLY)
    yield Saved.words


def template() -> Catalog:
    """Make a catalogue of all texts, in order, without translations."""
    made = Catalog(domain="taskpage", project="sparsi-dispatcher", charset="utf-8")
    for text in sorted(set(texts()), key=str):
        made.add(text)
    return made


def update(path: Path, code: str) -> None:
    """Write a catalogue anew with the texts of today."""
    source = path.read_bytes() if path.exists() else b""
    catalogue = read_po(
        source.decode().splitlines(keepends=True), locale=code.replace("-", "_")
    )
    catalogue.update(template(), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.fuzzy = False
    catalogue.project, catalogue.version = "sparsi-dispatcher", "task page"
    catalogue.header_comment = (
        f"# The task page in {code}. `make catalogues` adds new texts."
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        write_po(target, catalogue, width=88, no_location=True, omit_header=False)


if __name__ == "__main__":
    wanted = sys.argv[1:] or sorted(folder.name for folder in LOCALES.iterdir())
    for code in wanted:
        update(LOCALES / code / "LC_MESSAGES" / DOMAIN, code)
