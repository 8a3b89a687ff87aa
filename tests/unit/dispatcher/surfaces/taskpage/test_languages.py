"""The languages of the task page: which one is spoken, and that each says everything."""

import re

import pytest
from babel.messages.pofile import read_po

from dispatcher.surfaces.taskpage.catalogues import LOCALES, template
from dispatcher.surfaces.taskpage.languages import DOMAIN, language_for, languages

CODES = sorted(folder.name for folder in LOCALES.iterdir())


@pytest.mark.parametrize(
    ("chosen", "accepted", "code"),
    [
        (None, "", "en"),
        (None, "de", "de"),
        (None, "de-AT,en;q=0.8", "de"),
        (None, "fr, es;q=0.4, en;q=0.3", "es"),
        (None, "en;q=0.3, ar;q=0.9", "ar"),
        (None, "de;q=0, es;q=0.1", "es"),
        (None, "*, xx;q=nonsense, ;;;", "en"),
        (None, "de," * 10_000, "de"),
        ("es", "de", "es"),
        ("xx", "de", "de"),
    ],
)
def test_the_choice_comes_before_what_the_browser_accepts(chosen, accepted, code):
    assert language_for(chosen, accepted).code == code


def test_arabic_runs_from_right_to_left():
    assert {one.code: one.direction for one in languages().values()} == {
        "ar": "rtl", "de": "ltr", "en": "ltr", "es": "ltr",
    }  # fmt: skip


def catalogue(code: str):
    with (LOCALES / code / "LC_MESSAGES" / DOMAIN).open("rb") as source:
        return read_po(source, locale=code.replace("-", "_"))


def parts(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_says_everything_and_keeps_the_parts_of_each_text(code):
    found = catalogue(code)
    assert {one.id for one in found} == {one.id for one in template()}
    for one in found:
        if not one.id:
            continue
        texts = (one.string,) if isinstance(one.string, str) else one.string
        ids = (one.id,) if isinstance(one.id, str) else one.id
        for text in texts:
            assert text, one.id
            assert not one.fuzzy
            assert parts(text) == parts(ids[0]), one.id


def test_a_number_is_counted_as_the_language_counts():
    german, spanish = languages()["de"], languages()["es"]
    counted = [
        german.count("{number} task today", "{number} tasks today", n) for n in (1, 2)
    ]
    assert counted == ["1 Aufgabe heute", "2 Aufgaben heute"]
    assert (
        spanish.count("{number} task today", "{number} tasks today", 0)
        == "0 tareas hoy"
    )
