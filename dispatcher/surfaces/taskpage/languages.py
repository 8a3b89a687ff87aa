"""Languages of the task page: its catalogues, and the one in which a worker reads.

A catalogue is a gettext file, ``locale/LANGUAGE/LC_MESSAGES/taskpage.po``; a language is
there as soon as its file is. English needs none. Placeholders are written ``{name}``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from typing import Final

from babel import Locale, negotiate_locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

SOURCE: Final = "en"
DOMAIN: Final = "taskpage.po"
_LONGEST: Final = 500  # characters of a header that are read
_MOST: Final = 20  # languages of it


@dataclass(frozen=True)
class Language:
    """A language of the page.

    Attributes
    ----------
    code : str
        As ``lang`` has it.
    name : str
        In the language itself.
    direction : str
        ``ltr`` or ``rtl``.
    catalogue : NullTranslations
    """

    code: str
    name: str
    direction: str
    catalogue: NullTranslations

    def say(self, text: str, **parts: object) -> str:
        """Translate a text of the page, and put its parts in."""
        said = self.catalogue.gettext(text) if text else ""
        return said.format(**parts) if parts else said

    def count(self, one: str, many: str, number: int) -> str:
        """Translate a text with a number in it, ``{number}``."""
        return self.catalogue.ngettext(one, many, number).format(number=number)


@cache
def languages() -> Mapping[str, Language]:
    """All languages by code, in the order of their names."""
    found = {SOURCE: NullTranslations()}
    for folder in files("dispatcher.surfaces.taskpage").joinpath("locale").iterdir():
        source = folder.joinpath("LC_MESSAGES", DOMAIN)
        if source.is_file():
            found[folder.name] = _catalogue(source.read_bytes())
    made = [_language(code, catalogue) for code, catalogue in found.items()]
    return {one.code: one for one in sorted(made, key=lambda one: one.name.casefold())}


def _catalogue(source: bytes) -> GNUTranslations:
    """Compile a catalogue; what is marked as fuzzy is not used."""
    compiled = io.BytesIO()
    write_mo(compiled, read_po(io.BytesIO(source)))
    compiled.seek(0)
    return GNUTranslations(compiled)


def _language(code: str, catalogue: NullTranslations) -> Language:
    locale = Locale.parse(code, sep="-")
    name = locale.get_display_name() or code
    return Language(code, name[:1].upper() + name[1:], locale.text_direction, catalogue)


def language_for(chosen: str | None, accepted: str) -> Language:
    """Return the language that was chosen, else the best that a browser accepts.

    Parameters
    ----------
    chosen : str or None
        A code; one that is not known is no choice.
    accepted : str
        The header ``Accept-Language``.
    """
    known = languages()
    if chosen is not None and chosen in known:
        return known[chosen]
    wanted = []
    for part in accepted[:_LONGEST].split(",")[:_MOST]:
        code, _, weight = part.strip().partition(";q=")
        try:
            wanted.append((-float(weight or 1), code.strip()))
        except ValueError:
            continue
    codes = [code for weight, code in sorted(wanted, key=lambda w: w[0]) if weight < 0]
    best = negotiate_locale(codes, list(known), sep="-")
    return known.get(best or SOURCE, known[SOURCE])
