"""What one stranger could know, and what a stricter policy would cost, as pages.

One body for the console and for a file of its own, which needs no network, no scripts,
and no other file.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from importlib.resources import files
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from dispatcher.core.plurals import count
from dispatcher.operations.pictures import Picture, SeenFields
from dispatcher.surfaces.charts.frontier import (
    HEIGHT,
    WIDTH,
    frontier,
    frontier_parts,
    panels,
    percent,
    workers,
)
from dispatcher.surfaces.picture.drawn_values import drawn_value
from dispatcher.surfaces.web import templates
from policies.planning.frontier import Frontier
from policies.policy import Scope

TITLE: Final = "What could one stranger know?"
TELLING: Final = 0.05
"""Share of guesses from which on it is said that they are right more often."""
_HERE: Final = "dispatcher.surfaces.picture"


def _share(value: Fraction | float | None) -> str:
    return "–" if value is None else percent(value)


def _short(value: Fraction | None) -> str:
    return "–" if value is None else f"{float(value):.3g}"


def _environment() -> Environment:
    made = templates(_HERE)
    made.filters |= {"share": _share, "short": _short, "workers": workers}
    return made


_ENVIRONMENT: Final = _environment()


def style(*, plots_only: bool = False) -> str:
    """Return the style sheet: colours of the console, the page, and its plots."""
    console, page, plots = (
        files("dispatcher.surfaces.console")
        .joinpath("static", name)
        .read_text(encoding="utf-8")
        for name in ("console.css", "picture.css", "plot.css")
    )
    if plots_only:
        return console[: console.index("*, *::before")] + plots
    return console + page + plots


def body(picture: Picture) -> Markup:
    """Return the content of the page, without a frame."""
    template = _ENVIRONMENT.get_template("body.html")
    entity = picture.policy.entity
    return Markup(  # noqa: S704 - the template escapes every value
        template.render(
            picture=picture,
            measured=picture.measured,
            kept=[field for field in picture.fields if field.sent and not field.seen],
            guesses=[field for field in picture.fields if field.guess is not None],
            values={name: drawn_value(field) for name, field in entity.fields.items()},
            charts=frontier(picture.trade, picture.who),
            who=picture.who,
            share_of=lambda view: _share_of(picture, view),
            words=_words(picture),
        )
    )


def page(picture: Picture, stamp: str) -> str:
    """Return the page as one file."""
    return _page(TITLE, body(picture), stamp)


def frontier_body(found: Frontier) -> Markup:
    """Return the charts of a frontier with their numbers, without a frame."""
    template = _ENVIRONMENT.get_template("trade.html")
    charts = frontier(found)
    return Markup(template.render(trade=found, charts=charts, who="worker"))  # noqa: S704


def frontier_page(found: Frontier, stamp: str) -> str:
    """Return the charts of a frontier with their numbers, as one file."""
    return _page("What a stricter policy would cost", frontier_body(found), stamp)


def frontier_svg(found: Frontier) -> str:
    """Return the charts of a frontier as one drawing."""
    parts = frontier_parts(found)
    return _ENVIRONMENT.get_template("frontier.svg").render(
        parts=parts,
        width=WIDTH,
        height=16 + HEIGHT * len(parts),
        css=Markup(style(plots_only=True)),  # noqa: S704
        label=" ".join(f"{panel.title}. {panel.summary}" for panel in panels(found)),
    )


def _page(title: str, content: Markup, stamp: str) -> str:
    css = style()
    digest = b64encode(sha256(css.encode()).digest()).decode()
    return _ENVIRONMENT.get_template("page.html").render(
        title=title,
        body=content,
        css=Markup(css),  # noqa: S704 - our own style sheet
        digest=digest,
        stamp=stamp,
    )


def sentences(picture: Picture) -> list[str]:
    """Say what one stranger could know, what they could guess, and what two know."""
    view, pair, worst = picture.view, picture.pair, picture.worst
    many = len(view.fields)
    answer = (
        f"One stranger can see {'at least ' * (not view.proven)}{many} of the "
        f"{picture.sent} fields of a record."
    )
    if picture.sent == many == 1:
        answer = "One stranger can see the one field of a record."
    if not picture.sent:
        answer = "No field is ever sent, so no stranger sees anything."
    elif not many:
        answer = (
            "One stranger can see no field of a record: the policy denies them all."
        )
    else:
        answer += _singled_out(picture)
    if not picture.finished:
        answer = f"{_unfinished(picture)} {answer}"
    broken = [rule.name for rule in picture.rules if rule.broken]
    together = ""
    if picture.sent:
        together = (
            f"Two strangers who share what they know: "
            f"{'at least ' * (not pair.proven)}{len(pair.fields)} of "
            f"{picture.sent} fields"
        )
        if pair.share is not None and _is_measured(picture, pair):
            partly = len(pair.fields) < picture.sent or picture.hidden(pair)
            share = max(pair.share, worst.share or 0.0)
            together += f", {'at least ' * bool(partly)}{percent(share)} singled out"
        together += f"; {len(broken)} of {len(picture.rules)} limits reached."
    return [said for said in (answer, _guessed(picture), together) if said]


def _singled_out(picture: Picture) -> str:
    """Say how many people the worst view singles out, and the densest."""
    view, worst, told = picture.view, picture.worst, picture.telling
    if picture.measured is None or view.share is None:
        return ""
    people = _people(picture.measured.people)
    if not _is_measured(picture, worst):
        unread = ", ".join(picture.hidden(view))
        return (
            f" How many of {people} that singles out is not known: what the scans say "
            f"({unread}) is not read."
        )
    said = f" That singles out {_share_of(picture, view)} of {people}."
    if worst is not view:
        said = (
            f" At worst {_share_of(picture, worst)} of {people} are singled out: "
            f"{_named(worst.fields)}. The view with most fields"
            f"{' that was found' * (not view.proven)} singles out "
            f"{_share_of(picture, view)}."
        )
    if told is not None and not told.proven:
        said += " Whether another view singles out more was not searched to the end"
        if (told.at_most or 1) < 1:
            said += f"; none singles out more than {_share(told.at_most)}"
        said += "."
    return said


def _is_measured(picture: Picture, view: SeenFields) -> bool:
    """Whether any field of a view has values to measure, or it has no field."""
    return not view.fields or len(picture.hidden(view)) < len(view.fields)


def _share_of(picture: Picture, view: SeenFields) -> str:
    """Say how many people a view singles out; empty where only scans are in it."""
    if not _is_measured(picture, view):
        return ""
    least = "at least " if picture.hidden(view) else ""
    return f"{least}{_share(view.share)}"


def _unfinished(picture: Picture) -> str:
    """Say that a search ran out of time, and how to give it more."""
    command = "it again" if picture.version is None else "dispatcher policy picture"
    return (
        f"The search was not finished: run {command} with --time-limit "
        f"{2 * picture.seconds:g}."
    )


def _named(fields: Sequence[str]) -> str:
    return f"{fields[0]} alone" if len(fields) == 1 else ", ".join(fields)


def _guessed(picture: Picture) -> str:
    """Say what is kept and guessed best, where equal values help at all."""
    found = [(field.guess, field.name) for field in picture.fields if field.guess]
    if not found:
        return ""
    guess, name = max(found, key=lambda one: one[0].informed - one[0].blind)
    if guess.informed - guess.blind < TELLING:
        sure = picture.telling is None or picture.telling.proven
        if not (sure and picture.finished and picture.tie_proven):
            return ""
        return (
            "What the densest view lacks, other records with equal values hardly tell."
        )
    return (
        f"They are not shown {name}, but from other records with equal "
        f"{' and '.join(guess.by)} they guess it right in {percent(guess.informed)} of "
        f"cases; blindly in {percent(guess.blind)}."
    )


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{number:,} people"


def _words(picture: Picture) -> dict[str, object]:
    policy, measured = picture.policy, picture.measured
    answer, *more = sentences(picture)
    version = f", version {picture.version}" if picture.version else ""
    name = policy.entity.name
    who = f"Policy {policy.name}{version}: what a {picture.who} may see of one {name}."
    if measured is None:
        who += " No records were given, so nobody could be counted."
    elif measured.total is None:
        who += (
            f" Measured on the first {measured.records:,} records of {measured.source}."
        )
    elif measured.total > measured.records:
        who += (
            f" Measured on an even sample of {measured.records:,} of the "
            f"{measured.total:,} records of {measured.source}: in all of them, fewer are "
            "singled out."
        )
    else:
        who += f" Measured on the {measured.records:,} records of {measured.source}."
    how = "The view has most fields; that no view has more is proven by search."
    if not picture.finished:
        how = (
            f"{_unfinished(picture)} Other views may have more fields, and single out "
            "more people."
        )
    elif picture.tie_proven:
        how = (
            "The view has most fields, and of such views it singles out most people; "
            "that no view has more is proven by search."
        )
    elif measured is not None:
        how += " Another view with as many may single out more people."
    one = policy.entity.subject is not None
    person = (
        f"one person with {picture.records_of_one} records" if one else "one record"
    )
    return {
        "who": who,
        "answer": answer,
        "more": more,
        "how": how,
        "bounded": any(f.instead and not f.instead.proven for f in picture.fields),
        "guess": ""
        if measured is None
        else f"Counted on {measured.records:,} records.",
        "trade": f"One limit for every rule, from none (f ≤ 1) to the strictest (f ≤ 0), "
        f"for {_all_of(picture)} {person}, from "
        f"{count(picture.trade.adversaries, picture.who)}: as many as the policy itself "
        "takes.",
        "trade_how": f"Records of different people need no further {picture.who}s, only "
        f"more work of each. On the records that are loaded, with the {picture.who}s "
        "there are: dispatcher plan frontier.",
        "limits": _limits(picture),
    }


def _all_of(picture: Picture) -> str:
    return "all answers about" if picture.who == "worker" else "all that is sent of"


def _limits(picture: Picture) -> list[str]:
    """Say what the page does not count."""
    policy, measured = picture.policy, picture.measured
    said = [
        "What a stranger knows from elsewhere, as from a register or an acquaintance, "
        "comes on top.",
    ]
    if any(field.image_column for field in policy.entity.fields.values()):
        said.append(
            "What a scan shows besides its value: handwriting, stamps, a visible edge. "
            "What is in no box is shown to nobody."
        )
    links = [p.name for p in policy.properties.values() if p.scope is Scope.RELATION]
    if links:
        said.append(
            f"Rules over links of people ({', '.join(links)}) are not judged here; "
            "the gate judges them, and they can only deny more."
        )
    capped = policy.budget.average is not None or any(
        p.average is not None for p in policy.properties.values()
    )
    if capped:
        said.append("Caps on averages are not judged here; they can only deny more.")
    trusted = sorted(name for name, g in policy.groups.items() if g.trusted)
    if trusted:
        said.append(
            f"Groups that are trusted with rules see more: {', '.join(trusted)}."
        )
    hidden = [field.name for field in picture.fields if not field.sent]
    if measured is not None:
        if measured.unmeasured:
            said.append(
                "Without values to measure, so that shares may be too low: "
                f"{', '.join(measured.unmeasured)}."
            )
        if measured.subject is None:
            said.append(
                "The policy names no subject, so each record counts as a person."
            )
        if others := [name for name in measured.unsent if name not in hidden]:
            said.append(f"Columns without a field, never sent: {', '.join(others)}.")
    if hidden:
        said.append(f"Fields that are never sent (send = false): {', '.join(hidden)}.")
    return said
