"""Read ``[entity.NAME]``: the record, its columns, its fields and its boxes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from policies.answers.notation import DECIMALS, IGNORED, ORDERS, notation_of
from policies.document.diagnostic import Span, shown
from policies.document.reading import Reader, report_no_effect, suggestion
from policies.policy import Box, Entity, Example, Field, Template

ENTITY_KEYS: Final = (
    "key",
    "subject",
    "time",
    "retain",
    "locale",
    "fields",
    "layout",
    "template",
)
ASKS: Final = ("choose", "date", "number", "spans", "table", "transcribe", "yes_no")
TAGS: Final = ("card", "date", "email", "iban", "ip", "number", "phone", "url")
"""What `redact` can mask; every masking program must know them all."""
OF_ASK: Final[Mapping[str, tuple[str, ...]]] = {
    "choices": ("choose",),
    "columns": ("table",),
    "min": ("number",),
    "max": ("number",),
    "decimal": ("number",),
    "order": ("date",),
    "ignore": ("transcribe", "table"),
}
FIELD_KEYS: Final = (
    "ask",
    "choices",
    "columns",
    "min",
    "max",
    "decimal",
    "order",
    "ignore",
    "locale",
    "question",
    "image",
    "answers",
    "utility",
    "send",
    "free",
    "redact",
    "help",
    "example",
)


EXAMPLE_KEYS: Final = ("synthetic", "shown", "answer")


def read_entity(root: Reader) -> Entity | None:
    """Read the one entity of a file.

    Returns
    -------
    Entity or None
        None if there is no usable entity; it may be incomplete if errors were found.
    """
    found = list(root.named("entity", "an entity table"))
    if not found:
        if not isinstance(root.values.get("entity", {}), dict):
            return None
        root.missing("entity", 'add [entity.<name>] with key = "<column>"')
        return None
    for name, other in found[1:]:
        root.findings.error(
            "POL003",
            other.table_span(),
            f"a second entity `{shown(name)}`",
            "a policy speaks of one kind of record",
            "keep one entity a file; write another policy for the other",
        )
    name, reader = found[0]
    reader.knows(ENTITY_KEYS)
    key = reader.needed_text("key", 'add key = "<column>", the record\'s own id')
    subject, time = reader.text("subject"), reader.text("time")
    fields = _fields(reader, _locale(reader))
    entity = Entity(
        name=name,
        key=key or "",
        fields=fields,
        subject=subject,
        time=time,
        retain=reader.duration("retain"),
        layout=_layout(reader),
        template=_template(reader),
    )
    _never_sent(reader, entity)
    return entity


def _locale(reader: Reader) -> str | None:
    """Read the language and region in which something is written."""
    locale = reader.text("locale")
    if locale is not None:
        try:
            notation_of(locale)
        except ValueError:
            reader.wrong("locale", 'a language, with or without a region, like "de-CH"')
            return None
    return locale


def _fields(entity: Reader, locale: str | None) -> dict[str, Field]:
    if "fields" not in entity or not entity.values["fields"]:
        entity.missing("fields", "add a [entity.<name>.fields] table with the fields")
        return {}
    named = entity.named("fields", "a field")
    return {name: _field(name, reader, locale) for name, reader in named}


def _field(name: str, reader: Reader, locale: str | None) -> Field:
    whose = f"field `{shown(name)}`"
    reader.knows(FIELD_KEYS)
    ask = reader.word("ask", ASKS, whose)
    _fits_ask(reader, whose, ask)
    column, box = _image(reader)
    low = reader.number("min", "a number", None)
    high = reader.number("max", "a number", None)
    if low is not None and high is not None and low > high:
        reader.wrong("max", "a number that is not below min")
    answers = reader.integer("answers")
    utility = reader.number("utility", "a number of at least 0", Fraction(0))
    field = Field(
        name=name,
        ask=ask,
        choices=reader.texts("choices"),
        columns=reader.texts("columns"),
        minimum=low,
        maximum=high,
        decimal=reader.word("decimal", DECIMALS, whose),
        order=reader.word("order", ORDERS, whose),
        locale=_locale(reader) or locale,
        ignore=_words(reader, whose, "ignore", IGNORED),
        question=reader.text("question"),
        image_column=column,
        image_box=box,
        answers=1 if answers is None else answers,
        utility=Fraction(1) if utility is None else utility,
        send=reader.flag("send", default=True),
        free=reader.flag("free", default=False),
        redact=_tags(reader, whose),
        help=reader.text("help", empty=True) or "",
    )
    return replace(field, example=_example(reader, field))


def _example(field: Reader, asked: Field) -> Example | None:
    """Read the made-up example of a field.

    Everybody who is asked for the field sees the example, so it must contain nothing of
    a record: the file has to say ``synthetic = true``, and the answer has to be valid.

    Parameters
    ----------
    field : Reader
        The field's table.
    asked : Field
        The rest of it: the example's answer is checked as a worker's would be.

    Returns
    -------
    Example or None
        None if there is none, or a wrong one, which is reported.
    """
    if "example" not in field or asked.ask is None:
        return None
    reader = field.inner("example", "an example")
    reader.knows(EXAMPLE_KEYS)
    if not isinstance(field.values["example"], dict):
        return None
    if "synthetic" not in reader:
        reader.missing(
            "synthetic", "make the example up, and say so with synthetic = true"
        )
    elif reader.values["synthetic"] is not True:
        reader.wrong("synthetic", "true: an example is made up, no part of a record")
    value = reader.needed_text("shown", 'add shown = "…", what a worker would see')
    answer = reader.needed_text("answer", 'add answer = "…", the right answer to it')
    if value is None or answer is None:
        return None
    fault = _wrong_answer(asked, value, answer)
    if fault:
        reader.findings.error(
            "POL003",
            reader.value_span("answer"),
            f"the example of `{shown(asked.name)}` has a wrong answer",
            fault,
            f'write an answer that ask = "{asked.ask}" takes',
        )
    return Example(value, answer)


def _wrong_answer(asked: Field, value: str, answer: str) -> str:
    """Return why the example's answer is invalid; empty if it is valid."""
    # checking an answer is rare and slow to load: files without examples avoid it
    from policies.answers.validation import Invalid, check, locate_passages

    raw = locate_passages(asked, answer, value)
    verdict = raw if isinstance(raw, Invalid) else check(asked, raw)
    return verdict.reason if isinstance(verdict, Invalid) else ""


def _fits_ask(reader: Reader, whose: str, ask: str | None) -> None:
    """Report keys that do not fit the field's ask, and keys that it needs."""
    if "ask" in reader and ask is None:
        return  # the word was wrong, so what fits is unknown
    for key, asks in OF_ASK.items():
        if key in reader and ask not in asks:
            report_no_effect(
                reader,
                key,
                f'`{key}` belongs to ask = "{asks[0]}"; {whose} '
                + (f'has ask = "{ask}"' if ask else "has no `ask`"),
                f'delete the key, or set ask = "{asks[0]}"',
            )
    for key in ("question", "example"):
        if key in reader and ask is None:
            report_no_effect(
                reader,
                key,
                f"{whose} has no `ask`: it is only published, nobody is asked",
                "delete the key, or say what is asked",
            )
    for key in ("choices", "columns"):
        if ask in OF_ASK[key] and key not in reader:
            reader.missing(key, f'add {key} = ["…"]: ask = "{ask}" needs them')


def _tags(reader: Reader, whose: str) -> tuple[str, ...]:
    """Read the tags that are masked before the field is shown."""
    tags = _words(reader, whose, "redact", TAGS)
    if tags and "image" in reader:
        report_no_effect(
            reader,
            "redact",
            f"{whose} is shown as a picture: only text can be masked",
            "delete the key, and cut the box so that it holds nothing else",
        )
    return tags


def _words(
    reader: Reader, whose: str, key: str, known: Collection[str]
) -> tuple[str, ...]:
    """Read a list of words of a closed list (POL004)."""
    words = reader.texts(key, least=0)
    for word in words:
        if word not in known:
            reader.findings.error(
                "POL004",
                reader.value_span(key, reader.values[key].index(word)),
                f"{whose} has `{shown(word)}` in `{key}`, which is not known",
                f"`{key}` takes {', '.join(known)}",
                suggestion(word, known, '"') or "write one of them, or delete it",
            )
    return words


def _image(reader: Reader) -> tuple[str | None, str | None]:
    """Read ``COLUMN`` or ``COLUMN#BOX``."""
    image = reader.text("image")
    if image is None:
        return None, None
    column, mark, box = image.partition("#")
    if not column or (mark and not box):
        reader.wrong("image", 'COLUMN or COLUMN#BOX, like "scan#roi.name"')
        return None, None
    return column, box or None


def _layout(entity: Reader) -> dict[str, Box]:
    boxes = {}
    for name, reader in entity.named("layout", "a box"):
        reader.knows(("page", "box", "redact"))
        page = reader.integer("page")
        if "page" not in reader:
            reader.missing("page", "add page = 1")
        if "box" not in reader:
            reader.missing("box", "add box = [x, y, width, height]")
            continue
        corners = _corners(reader)
        if page is not None and corners is not None:
            redact = reader.flag("redact", default=False)
            boxes[name] = Box(page, *corners, redact)
    return boxes


def _template(entity: Reader) -> Template | None:
    """Read the scan that others are aligned to."""
    if "template" not in entity:
        return None
    reader = entity.inner("template", "a template")
    if not isinstance(entity.values["template"], dict):
        return None
    reader.knows(("image", "sha256"))
    image = reader.needed_text("image", 'add image = "form.png", the scan')
    digest = reader.needed_text("sha256", 'add sha256 = "…", the digest of the file')
    if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
        reader.wrong("sha256", "a SHA-256: 64 digits of 0-9 and a-f")
        return None
    return Template(image, digest) if image and digest else None


def _corners(reader: Reader) -> tuple[Fraction, Fraction, Fraction, Fraction] | None:
    """Read x, y, width and height as shares of the page."""
    expected = "[x, y, width, height] as shares of the page, inside it"
    value = reader.values["box"]
    shares = [
        n
        for n in (value if isinstance(value, list) else [])
        if isinstance(n, int | Fraction) and not isinstance(n, bool)
    ]
    whole = isinstance(value, list) and len(value) == len(shares) == 4
    if whole:
        x, y, width, height = map(Fraction, shares)
        if min(x, y) >= 0 < min(width, height) and max(x + width, y + height) <= 1:
            return x, y, width, height
    reader.wrong("box", expected)
    return None


def _never_sent(reader: Reader, entity: Entity) -> None:
    """Report fields that would show the key, the subject or the time (POL102)."""
    columns = (
        ("key", entity.key, "the key", "a worker who sees a record key can link all the answers of that record"),
        ("subject", entity.subject, "the subject", "a worker who sees who a record is about can link all records of that person"),
        ("time", entity.time, "the time", "windows are measured on it, and moments link records"),
    )  # fmt: skip
    for field in entity.fields.values():
        for key, column, role, why in columns:
            if column is None or not field.send or field.column != column:
                continue
            span = _shown_at(reader, field)
            other = "another key" if key == "key" else f"another {key} column"
            reader.findings.error(
                "POL102",
                span,
                f"`{shown(column)}` is {role} of `{shown(entity.name)}` "
                "and cannot be sent",
                why,
                f"remove it from fields, or choose {other}",
            )


def _shown_at(reader: Reader, field: Field) -> Span:
    if field.image_column is not None:
        return reader.value_span("fields", field.name, "image")
    return reader.findings.source.places.key((*reader.path, "fields", field.name))
