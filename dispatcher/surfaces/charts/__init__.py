"""The charts of the console: each a drawing, a sentence, and the same as a table.

Pure functions of the figures of :mod:`dispatcher.operations.figures`; nothing here knows
the store. A page includes a chart as it is: ``{{ chart }}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

from markupsafe import Markup

from dispatcher.core.plurals import count
from dispatcher.ledger.limit_usage import LimitUsage
from dispatcher.operations.agreement import Agreement, Confusion
from dispatcher.operations.figures import (
    AnswerRate,
    BurnDown,
    ConnectorCalls,
    Coverage,
    Duration,
    Exposed,
    ExposureMap,
    Failing,
    Growth,
    Waiting,
)
from dispatcher.surfaces.charts.plot import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    SERIES,
    AxisTick,
    Chart,
    Plot,
    cut,
    element,
    length,
    literal,
    number,
    scale,
    swatch,
    time_ticks,
)

_ROW: Final = 40
_CELL: Final = 30
_HEAD: Final = 116
_ROOMY: Final = 4
"""Columns of a map up to which a cell has room for the share too."""
OTHERS: Final = "others"

Points = Sequence[tuple[float, float]]


# -- words -----------------------------------------------------------------------------


def moment(at: int) -> str:
    """Write a moment whole: ``2026-11-30 14:05 UTC``."""
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d %H:%M} UTC"


def day_time(at: int) -> str:
    """Write a moment within a sentence: ``30 Nov 14:05``; all are UTC."""
    when = datetime.fromtimestamp(at // SECOND, UTC)
    return f"{when.day} {when:%b %H:%M}"


def duration(seconds: float) -> str:
    """Write a duration in one unit: ``40 ms``, ``12 s``, ``3.5 min``, ``2.1 h``."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _unit(seconds: float) -> float:
    """Return the unit, in seconds, that :func:`duration` writes."""
    if seconds < 1:
        return 0.001
    return next((u for u in (86_400, 3_600, 60) if seconds >= 2 * u), 1.0)


def share(part: float, whole: float) -> str:
    """Write a share in percent; ``–`` of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _every(period: int) -> str:
    for size, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if period % size == 0:
            many = period // size
            return unit if many == 1 else f"{many} {unit}s"
    return f"{period // SECOND} s"


def _few(
    series: Mapping[str, Sequence[int]],
) -> list[tuple[str, Sequence[int]]]:
    """Return the largest series, and the sum of those for which no colour is left."""
    ranked = sorted(series.items(), key=lambda one: (-sum(one[1]), one[0]))
    if len(ranked) <= SERIES:
        return ranked
    rest = [
        sum(each) for each in zip(*(n for _, n in ranked[SERIES - 1 :]), strict=True)
    ]
    return [*ranked[: SERIES - 1], (OTHERS, rest)]


def _empty(key: str, title: str, why: str) -> Chart:
    return Chart(key, title, why, Markup(""), (), ())


# -- answers, and when the work ends ---------------------------------------------------


def answers(rate: AnswerRate) -> Chart:
    """Draw the answers of each period, stacked by connector."""
    period = _every(rate.period)
    key, title = "answers-rate", f"Answers per {period}"
    places = len(rate.refused)
    stacked = _few(rate.valid)
    total, refused = sum(sum(n) for _, n in stacked), sum(rate.refused)
    if not total + refused:
        why = f"No answer came in since {moment(rate.since)}."
        return _empty(key, title, why)
    last = sum(numbers[-1] for _, numbers in stacked)
    summary = (
        f"{count(total, 'valid answer')} since {day_time(rate.since)} UTC, {refused:,} refused; "
        f"{last:,} in the {period} that is not over."
    )
    plot = Plot(key, title, summary)
    until = rate.since + places * rate.period
    _stack(plot, stacked, places, time_ticks(rate.since, until))
    rows = [
        (
            moment(rate.since + i * rate.period),
            *(f"{numbers[i]:,}" for _, numbers in stacked),
            f"{rate.refused[i]:,}",
        )
        for i in range(places)
    ]
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("From", *(name for name, _ in stacked), "refused"),
        rows,
        [(swatch(key, i), name) for i, (name, _) in enumerate(stacked)],
    )


def _stack(
    plot: Plot,
    stacked: Sequence[tuple[str, Sequence[int]]],
    places: int,
    x: Sequence[AxisTick],
) -> None:
    """Draw bars of whole numbers on one another."""
    heights = [sum(numbers[i] for _, numbers in stacked) for i in range(places)]
    top, y = scale(max(heights), whole=True)
    plot.axes(y, x)
    inset = 0.08 / places
    for i in range(places):
        low = 0.0
        for series, (_, numbers) in enumerate(stacked):
            high = low + numbers[i] / top
            if numbers[i]:
                left, right = i / places + inset, (i + 1) / places - inset
                plot.box(left, right, low, high, plot.fill(series))
            low = high


def burn_down(found: BurnDown) -> Chart:
    """Draw how many fields are left, and a band in which the work ends."""
    key, title = "burn-down", "Fields left"
    if not found.left:
        return _empty(
            key, title, "Nothing was counted yet: a daemon counts every minute."
        )
    (since, _), (last, rest), end = found.left[0], found.left[-1], found.end
    said = f"{count(rest, 'field')} left that can be placed"
    if end is None:
        said += f"; {found.why_none}."
    else:
        latest = "nobody knows when" if end.latest is None else day_time(end.latest)
        said += f". At {found.pace:,.3g} an hour the last is done {day_time(end.likely)} UTC"
        said += (
            "."
            if day_time(end.earliest) == latest
            else f", in 9 of 10 cases between {day_time(end.earliest)} and {latest}."
        )
    until = last + max(HOUR // 4, last - since)
    if end is not None:
        until = min(end.latest or 2 * end.likely - last, last + 3 * (end.likely - last))
    span = max(1, until - since)
    top, y = scale(max(left for _, left in found.left), whole=True)
    plot = Plot(key, title, said)
    plot.axes(y, time_ticks(since, until))
    points = [((at - since) / span, number / top) for at, number in found.left]
    if end is not None:
        here, latest_at = points[-1], until if end.latest is None else end.latest
        late = (min(1.0, (latest_at - since) / span), 0.0)
        if end.latest is None:
            late = (1.0, rest / top)
        early = ((end.earliest - since) / span, 0.0)
        plot.area([here, early, late], "band")
        plot.line([here, ((end.likely - since) / span, 0.0)], "line s0 guess")
    plot.line(points, "line s0")
    plot.mark(points[-1], 0)
    rows = [(moment(at), f"{number:,}") for at, number in found.left]
    if end is not None:
        rows += [
            (moment(at), word)
            for at, word in (
                (end.earliest, "0, at the earliest"),
                (end.likely, "0, most likely"),
                (end.latest, "0, at the latest"),
            )
            if at is not None
        ]
    return Chart(key, title, said, plot.svg(), ("At", "Fields left"), rows)


def coverage(found: Coverage) -> Chart:
    """Draw how far each field is."""
    key, title = "coverage", "Fields by state"
    if found.at is None or not found.fields:
        return _empty(
            key, title, "Nothing was counted yet: a daemon counts every minute."
        )
    states: tuple[tuple[str, Callable[..., int]], ...] = (
        ("answered", lambda one: one.answered),
        ("in conflict", lambda one: one.conflict),
        ("held back", lambda one: one.held),
        ("open", lambda one: one.open),
    )
    asked = sum(one.asked for one in found.fields)
    done = sum(one.answered for one in found.fields)
    summary = (
        f"{done:,} of {count(asked, 'field')} answered ({share(done, asked)}), as counted "
        f"{day_time(found.at)} UTC."
    )
    plot = _rows(key, title, summary, len(found.fields))
    for place, one in enumerate(found.fields):
        said = f"{share(one.answered, one.asked)} · {one.answered:,} of {one.asked:,}"
        parts = [of(one) for _, of in states]
        _bar_row(plot, place, one.field, said, parts, max(one.asked, sum(parts)))
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Field", "asked", *(name for name, _ in states)),
        [
            (one.field, f"{one.asked:,}", *(f"{of(one):,}" for _, of in states))
            for one in found.fields
        ],
        [
            (_part(key, i), name)
            for i, (name, of) in enumerate(states)
            if any(of(one) for one in found.fields)
        ],
    )


def agreement(found: Coverage) -> Chart:
    """Draw, for each field, in how many results the answers agree."""
    key, title = "agreement", "Agreement by field"
    results = [one for one in found.fields if one.answered + one.conflict]
    if found.at is None or not results:
        return _empty(key, title, "No field has a result yet.")
    fields = [one for one in results if one.field not in found.asked_once]
    once = len(results) - len(fields)
    if not fields:
        return _empty(
            key, title, "Agreement needs two answers; each field is asked once."
        )
    fields.sort(
        key=lambda one: (one.answered / (one.answered + one.conflict), one.field)
    )
    conflicts = sum(one.conflict for one in fields)
    worst = fields[0]
    summary = (
        f"{count(conflicts, 'result')} in conflict; least agreement on {worst.field}: "
        f"{share(worst.answered, worst.answered + worst.conflict)}."
    )
    if once:
        summary += f" {count(once, 'field is', 'fields are')} asked once, and left out."
    plot = _rows(key, title, summary, len(fields))
    for place, one in enumerate(fields):
        every = one.answered + one.conflict
        said = f"{share(one.answered, every)} · {count(every, 'result')}"
        _bar_row(plot, place, one.field, said, (one.answered, one.conflict), every)
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Field", "answers agree", "in conflict", "agreement"),
        [
            (
                one.field,
                f"{one.answered:,}",
                f"{one.conflict:,}",
                share(one.answered, one.answered + one.conflict),
            )
            for one in fields
        ],
        [(_part(key, i), name) for i, name in enumerate(("agree", "in conflict"))],
    )


def reliability(found: Agreement) -> Chart:
    """Draw, for each field, how far its answers agree beyond chance."""
    key, title = "reliability", "Agreement beyond chance"
    fields = [one for one in found.fields if one.observed is not None]
    if not fields:
        return _empty(key, title, "No field of a record was answered twice yet.")
    summary = (
        f"Krippendorff's alpha over the newest {count(found.newest, 'answer')}: 1 where all "
        "agree, 0 where chance would agree as often. Above 0.8 answers can be relied on, "
        "below 0.67 hardly."
    )
    plot = _rows(key, title, summary, len(fields))
    for place, one in enumerate(fields):
        said = f"{_alpha(one.alpha)} · {share(one.observed or 0, 1)} of pairs agree"
        part = round(1_000 * max(0.0, 1.0 if one.alpha is None else one.alpha))
        _bar_row(plot, place, f"{one.field} ({one.ask})", said, (part,), 1_000)
    kinds = [
        (f"all {one.ask}", one.ask, one.fields, one.answers, one.observed, one.alpha)
        for one in found.kinds
        if one.observed is not None
    ]
    each = [
        (one.field, one.ask, one.fields, one.answers, one.observed, one.alpha)
        for one in fields
    ]
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Field", "Kind", "records", "answers", "pairs agree", "alpha"),
        [
            (
                name,
                ask,
                f"{records:,}",
                f"{answers:,}",
                share(observed or 0, 1),
                _alpha(alpha),
            )
            for name, ask, records, answers, observed, alpha in (*each, *kinds)
        ],
        words=2,
    )


def _alpha(alpha: float | None) -> str:
    return "all the same" if alpha is None else f"{alpha:.2f}"


def confusion(found: Confusion) -> Chart:
    """Draw what is given where which value is true, as a map of shares."""
    whose = found.worker or "all workers"
    key = f"confusion-{crc32(f'{found.field} {found.worker}'.encode()):08x}"
    title = literal(f"{found.field}: {whose}")
    worst = found.worst
    summary = (
        f"Of {count(found.answers, 'answer')}. Each row is a true value, each column what "
        "was given for it, as far as the others tell."
    )
    if worst is not None:
        summary += (
            f" Most often {worst[0]} is taken for {worst[1]}: {share(worst[2], 1)}."
        )
    size, longest = len(found.labels), max(map(len, found.labels))
    head = 30 + 5 * min(longest, 18)  # the names of columns stand aslant
    plot = Plot(key, title, summary, kind="map named", height=head + _CELL * size)
    for place, label in enumerate(found.labels):
        middle = head + _CELL * place + _CELL / 2 + 4
        at = {"x": length((place + 0.5) / size), "y": head - 8}
        name = element("text", cut(label, 18), class_="column")
        plot.add(element("svg", name, class_="over", role="none", **at))
        at = {"x": -8, "y": middle, "text_anchor": "end"}
        plot.add(element("text", cut(label, 14), class_="name", **at))
        for column, part in enumerate(found.rows[place]):
            _shaded(plot, (head + _CELL * place, place), column, size, part)
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("True value", *(f"given as {label}" for label in found.labels)),
        [
            (label, *(share(part, 1) for part in row))
            for label, row in zip(found.labels, found.rows, strict=True)
        ],
        [(shade(f"near{place}"), f"from {place / 4:.0%}") for place in range(4)],
    )


def _shaded(
    plot: Plot, at_row: tuple[int, int], column: int, columns: int, part: float
) -> None:
    """Draw one cell: the darker, the larger the share; right ones have a frame."""
    top, row = at_row
    band = f"near{min(3, int(part * 4))}"
    at = {"x": length(column / columns), "width": length(1 / columns)}
    kind = f"cell {band}{' right' if row == column else ''}"
    plot.add(element("rect", class_=kind, y=top, height=_CELL, **at))
    place = {"x": length((column + 0.5) / columns), "y": top + _CELL / 2 + 4}
    plot.add(
        element(
            "text", f"{part:.0%}", class_=f"on-{band}", text_anchor="middle", **place
        )
    )


def times(found: Sequence[Duration]) -> Chart:
    """Draw how long answers took, by field: from the tenth to the ninetieth of hundred."""
    key, title = "answer-times", "Time per answer"
    if not found:
        return _empty(key, title, "No answer came in yet.")
    slow = max(found, key=lambda one: one.p50)
    summary = (
        f"Of the newest {count(sum(one.answers for one in found), 'answer')}: {slow.field} "
        f"takes longest, {duration(slow.p50)} in the middle. From booking to answer; on the "
        "own page a task is booked as it is shown."
    )
    plot = _rows(key, title, summary, len(found))
    top = max(1e-9, *(one.p90 for one in found))
    for place, one in enumerate(found):
        said = f"{duration(one.p50)} · {duration(one.p10)} to {duration(one.p90)}"
        _range_row(plot, place, one.field, said, (one.p10, one.p50, one.p90), top)
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Field", "answers", "10 % within", "half within", "90 % within"),
        [
            (
                one.field,
                f"{one.answers:,}",
                *(duration(seconds) for seconds in (one.p10, one.p50, one.p90)),
            )
            for one in found
        ],
    )


# -- rows: a label, what it comes to, and a bar below ----------------------------------


def _rows(key: str, title: str, summary: str, rows: int) -> Plot:
    return Plot(key, title, summary, kind="rows", height=rows * _ROW)


def _heading(plot: Plot, place: int, label: str, said: str) -> int:
    """Write the words of a row, after a ``·`` if there is room; return its bar's top."""
    top = place * _ROW
    most, _, more = said.partition(" · ")
    words = [element("tspan", f" · {more}", class_="wide")] if more else []
    name = element("text", cut(label), y=top + 14, class_="name")
    at = {"x": "100%", "y": top + 14, "text_anchor": "end"}
    plot.add(name)
    plot.add(element("text", most, *words, class_="tick", **at))
    bar = top + 21
    plot.add(element("rect", class_="back", y=bar, width="100%", height=10, rx=2))
    return bar


def _bar_row(
    plot: Plot, place: int, label: str, said: str, parts: Sequence[int], whole: int
) -> None:
    top, left = _heading(plot, place, label, said), 0.0
    for series, part in zip(_STATES, parts, strict=False):
        if part:
            fill = plot.fill(series)
            width = length(part / whole)
            at = {"x": length(left / whole), "y": top, "width": width, "height": 10}
            plot.add(element("rect", fill=fill, **at))
            left += part


_STATES: Final = (0, 1, 4)
"""Colours of what is done, in conflict, and held back; what is open is the ground."""


def _part(key: str, place: int) -> Markup:
    return swatch(key, _STATES[place]) if place < len(_STATES) else shade("back")


def _range_row(
    plot: Plot,
    place: int,
    label: str,
    said: str,
    cuts: tuple[float, float, float],
    top: float,
) -> None:
    at = _heading(plot, place, label, said)
    low, middle, high = (cut_at / top for cut_at in cuts)
    size = {"y": at, "height": 10}
    width = length(max(0.004, high - low))
    plot.add(element("rect", class_="s0", x=length(low), width=width, **size))
    size = {"y": at - 3, "height": 16, "width": 3}
    plot.add(element("rect", class_="middle", x=length(middle), **size))


# -- how near to the limits ------------------------------------------------------------


def exposure(found: ExposureMap) -> Chart:
    """Draw the map of the nearest adversaries and all rules, with fields left."""
    key, title = "exposure", "Nearest to a refusal"
    if not found.nearest:
        return _empty(key, title, "No worker has seen anything that a rule judges.")
    rules, shown = found.rules, found.nearest
    left = [u.left for one in shown for u in one.usages.values() if u.left is not None]
    summary = _said_of(found, min(left, default=None))
    kind = "map dense" if len(rules) > _ROOMY else "map"
    plot = Plot(key, title, summary, kind=kind, height=_HEAD + _CELL * len(shown))
    for column, rule in enumerate(rules):
        place = length((column + 0.5) / len(rules))
        name = element("text", cut(rule, 18), class_="column")
        plot.add(element("svg", name, x=place, y=_HEAD - 8, class_="over", role="none"))
    for row, one in enumerate(shown):
        middle = _HEAD + _CELL * row + _CELL / 2 + 4
        name = element(
            "text", one.name, class_="name", x=-8, y=middle, text_anchor="end"
        )
        plot.add(name)
        for column, rule in enumerate(rules):
            _cell(plot, row, column, len(rules), one.usages.get(rule))
        _bracket(plot, row, one)
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Worker", "Accounts", "Groups", *rules),
        [
            (
                one.name,
                ", ".join(one.accounts[:4]) + ", …" * (len(one.accounts) > 4),
                ", ".join(one.groups) or "–",
                *(_usage(one.usages.get(rule)) for rule in rules),
            )
            for one in shown
        ],
        [(shade(band), text) for band, text in _BANDS],
        words=3,
    )


def _bracket(plot: Plot, row: int, one: Exposed) -> None:
    """Bracket several accounts that count as one: a group, or merged ones."""
    if len(one.accounts) < 2:
        return
    top = _HEAD + _CELL * row
    drawn = element("path", class_="bracket", d=f"M4 {top + 4}h5v{_CELL - 8}h-5")
    groups = ", ".join(one.groups) or "one person"
    said = element("text", cut(f"{groups}: {len(one.accounts)}", 14), class_="tick wide",
                   x=14, y=top + _CELL / 2 + 4)  # fmt: skip
    plot.add(element("svg", drawn, said, x="100%", class_="over", role="none"))


_BANDS: Final = (
    ("near0", "below 0.2 of the limit"),
    ("near1", "0.2"),
    ("near2", "0.4"),
    ("near3", "0.6"),
    ("near4", "0.8"),
    ("past", "1.0: the limit is reached"),
)


def _band(near: float) -> str:
    return "past" if near >= 1 else f"near{min(4, int(near * 5))}"


def shade(band: str) -> Markup:
    """Return what the legend shows of a shade."""
    size = {"width": 14, "height": 14, "rx": 3}
    return element(
        "svg", element("rect", class_=band, **size), class_="swatch", aria_hidden="true",
        width=14, height=14,
    )  # fmt: skip


def _usage(usage: LimitUsage | None) -> str:
    if usage is None:
        return "–"
    near = "no limit" if usage.tau is None else f"{float(usage.share):.2f}"
    if usage.left is None:
        return near
    return f"{near} · {usage.left:,} left (× {usage.nearest:,})"


def _cell(
    plot: Plot, row: int, column: int, columns: int, usage: LimitUsage | None
) -> None:
    """Draw one cell: the shade is the share of the limit, the number the fields left."""
    top = _HEAD + _CELL * row
    at = {"x": length(column / columns), "width": length(1 / columns)}
    kind = "none" if usage is None or usage.tau is None else _band(float(usage.share))
    plot.add(element("rect", class_=f"cell {kind}", y=top, height=_CELL, **at))
    if usage is None:
        return
    near = "" if usage.tau is None else f"{float(usage.share):.2f}"
    inside = [element("tspan", near, class_="wide")] if near else []
    if usage.left is not None:
        if near:
            inside.append(element("tspan", " · ", class_="wide"))
        inside += [
            element("tspan", f"{usage.left:,}", class_="left"),
            element("tspan", " left", class_="wide"),
        ]
    place = {"x": length((column + 0.5) / columns), "y": top + _CELL / 2 + 4}
    plot.add(
        element("text", *inside, class_=f"on-{kind}", text_anchor="middle", **place)
    )


def _said_of(found: ExposureMap, left: int | None) -> str:
    """Say who is nearest."""
    shown, total = len(found.nearest), found.total
    part = (
        f"The {shown:,} nearest of {total:,} workers"
        if shown < total
        else f"{count(total, 'worker')}"
    )
    crossed = sum(numbers[-1] for numbers in found.tenths.values())
    said = f"{part}, the nearest to a refusal first. "
    if crossed:
        said += f"{count(crossed, 'limit is', 'limits are')} reached. "
    if left is not None:
        said += f"Nearest: {count(left, 'field')} left to a refusal. "
    return said + "A number is the fields left, the shade the share of the limit."


def nearness(found: ExposureMap) -> Chart:
    """Draw how many workers are in each tenth of each limit."""
    key, title = "nearness", "How near to the limits"
    if not found.tenths:
        return _empty(
            key, title, "No worker has seen anything that a rule with a limit judges."
        )
    stacked = _few(found.tenths)
    places = len(stacked[0][1])
    tenths = places - 1
    past = sum(numbers[-1] for _, numbers in stacked)
    near = sum(sum(numbers[tenths - 2 :]) for _, numbers in stacked)
    total = sum(sum(numbers) for _, numbers in stacked)
    summary = (
        f"Of {count(total, 'pair')} of a worker and a rule, {near:,} at 0.8 of the limit or "
        f"more, {past:,} at or past it."
    )
    plot = Plot(key, title, summary)
    ticks = [
        AxisTick(i / places, f"{i / tenths:g}", minor=bool(i % 2))
        for i in range(places)
    ]
    _stack(plot, stacked, places, ticks)
    plot.line([(tenths / places, 0), (tenths / places, 1)], "limit-line")
    plot.text(tenths / places, 1, "limit", dx=-6, dy=10, anchor="end")
    names = [f"{i / tenths:g} to {(i + 1) / tenths:g}" for i in range(tenths)]
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Share of the limit", *(name for name, _ in stacked)),
        [
            (name, *(f"{numbers[i]:,}" for _, numbers in stacked))
            for i, name in enumerate([*names, "1 or more"])
        ],
        [(swatch(key, i), name) for i, (name, _) in enumerate(stacked)],
    )


# -- connectors, messages and the ledger -----------------------------------------------


def calls(found: Sequence[ConnectorCalls]) -> Chart:
    """Draw latency of calls by connector: from the median to the 95th of hundred."""
    key, title = "connector-calls", "Calls to connectors"
    made = [one for one in found if one.whole.p50 is not None]
    if not made:
        return _empty(key, title, "No connector was called in this time.")
    total = sum(sum(one.whole.calls.values()) for one in made)
    failed = total - sum(one.whole.calls.get("ok", 0) for one in made)
    summary = (
        f"{count(total, 'call')} since {day_time(made[0].whole.at)} UTC, {failed:,} without "
        f"success ({share(failed, total)}). A bar reaches from the median to the 95th "
        "percentile."
    )
    plot = _rows(key, title, summary, len(made))
    top = max(1e-9, *(one.whole.p95 or 0.0 for one in made))
    rows = []
    for place, one in enumerate(made):
        whole, p50, p95 = one.whole, one.whole.p50 or 0.0, one.whole.p95 or 0.0
        many = sum(whole.calls.values())
        bad = many - whole.calls.get("ok", 0)
        said = f"{duration(p50)} to {duration(p95)} · {bad:,} of {many:,} failed"
        _range_row(plot, place, one.connector, said, (p50, p50, p95), top)
        numbers = (f"{number:,}" for number in whole.calls.values())
        rows.append((one.connector, duration(p50), duration(p95), *numbers))
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Connector", "median", "95 % within", *made[0].whole.calls),
        rows,
    )


def latency(found: ConnectorCalls) -> Chart:
    """Draw latency of one connector by hour: median and 95th of hundred."""
    key, title = "latency", "Latency by hour"
    hours = [one for one in found.hours if one.p50 is not None]
    if not hours:
        return _empty(key, title, "This connector was not called in this time.")
    whole = found.whole
    summary = (
        f"Median {duration(whole.p50 or 0)}, 95 % within {duration(whole.p95 or 0)}, of "
        f"{count(sum(whole.calls.values()), 'call')}."
    )
    since, until = found.hours[0].at, found.hours[-1].at + HOUR
    lines = [
        ("median", [(one.at + HOUR // 2, one.p50 or 0.0) for one in hours]),
        ("95 % within", [(one.at + HOUR // 2, one.p95 or 0.0) for one in hours]),
    ]
    return _lines(
        key, title, summary, lines, (since, until), duration,
        [(moment(one.at), duration(one.p50 or 0), duration(one.p95 or 0)) for one in hours],
        "Hour from",
    )  # fmt: skip


def errors(found: ConnectorCalls) -> Chart:
    """Draw calls to one connector by hour and outcome, but those that went well."""
    key, title = "call-errors", "Calls without success, by hour"
    codes = [code for code in found.whole.calls if code != "ok"]
    by_code = {code: [one.calls.get(code, 0) for one in found.hours] for code in codes}
    total = sum(map(sum, by_code.values()))
    if not total:
        return _empty(
            key, title, "Every call of this time went well, or none was made."
        )
    summary = f"{total:,} of {count(sum(found.whole.calls.values()), 'call')}."
    stacked = _few({code: numbers for code, numbers in by_code.items() if any(numbers)})
    plot = Plot(key, title, summary)
    since, until = found.hours[0].at, found.hours[-1].at + HOUR
    _stack(plot, stacked, len(found.hours), time_ticks(since, until))
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Hour from", *codes),
        [
            (moment(one.at), *(f"{one.calls.get(code, 0):,}" for code in codes))
            for one in found.hours
        ],
        [(swatch(key, i), name) for i, (name, _) in enumerate(stacked)],
    )


def waiting(found: Waiting) -> Chart:
    """Draw the age of the oldest message that waits for each connector, over time."""
    key, title = "oldest-message", "Age of the oldest message"
    if not found.ages:
        return _empty(key, title, "Nothing waited for any connector in this time.")
    many = sum(messages for messages, _ in found.now.values())
    oldest = max(found.now.items(), key=lambda one: one[1][1], default=None)
    summary = "Nothing waits now."
    if oldest is not None and many:
        summary = (
            f"{count(many, 'message waits', 'messages wait')} now; the oldest for "
            f"{duration(oldest[1][1])}, to {oldest[0]}."
        )
    ranked = sorted(
        found.ages.items(), key=lambda one: (-max(age for _, age in one[1]), one[0])
    )[:SERIES]
    since = min(points[0][0] for _, points in ranked)
    rows = [
        (name, f"{found.now.get(name, (0, 0))[0]:,}", duration(points[-1][1]),
         duration(max(age for _, age in points)))
        for name, points in sorted(found.ages.items())
    ]  # fmt: skip
    made = _lines(
        key, title, summary, ranked, (since, found.at), duration, rows, "Connector"
    )
    columns = (
        "Connector",
        "messages now",
        "age of the oldest now",
        "most in this time",
    )
    return Chart(key, title, summary, made.drawing, columns, rows, made.legend)


def retries(found: Sequence[Failing]) -> Chart:
    """Draw how many messages wait for another try, or were given up, by last error."""
    key, title = "retries", "Retries by error"
    if not found:
        return _empty(key, title, "No message failed: nothing is tried again.")
    retried, dead = sum(one.retried for one in found), sum(one.dead for one in found)
    summary = (
        f"{count(retried, 'message is', 'messages are')} tried again, {dead:,} given up; "
        f"most: {found[0].error}."
    )
    shown = found[:_MOST_ERRORS]
    plot = _rows(key, title, summary, len(shown))
    most = max(one.retried + one.dead for one in shown)
    for place, one in enumerate(shown):
        messages = one.retried + one.dead
        said = f"{messages:,} · {count(one.tries, 'try', 'tries')}"
        label = f"{one.connector}: {one.error}"
        _bar_row(plot, place, label, said, (one.retried, one.dead), most)
    return Chart(
        key,
        title,
        summary,
        plot.svg(),
        ("Connector", "Error", "tried again", "given up", "tries"),
        [
            (
                one.connector,
                one.error,
                f"{one.retried:,}",
                f"{one.dead:,}",
                f"{one.tries:,}",
            )
            for one in found
        ],
        [
            (_part(key, i), name)
            for i, (name, number_of) in enumerate(
                (("tried again", retried), ("given up", dead))
            )
            if number_of
        ],
        words=2,
    )


_MOST_ERRORS: Final = 8


def growth(found: Growth) -> Chart:
    """Draw how the ledger has grown."""
    key, title = "growth", "Lines of the ledger"
    if not found.lines:
        return _empty(
            key, title, "Nothing was counted yet: a daemon counts every minute."
        )
    (since, first), (until, last) = found.lines[0], found.lines[-1]
    summary = f"{count(last, 'line')}, {last - first:,} more than {day_time(since)} UTC"
    if found.size:
        summary += f"; the store takes {number(found.size[-1][1])}B"
    size = dict(found.size)
    rows = [
        (moment(at), f"{lines:,}", f"{number(size[at])}B" if at in size else "–")
        for at, lines in found.lines
    ]
    made = _lines(
        key, title, f"{summary}.", [("lines", found.lines)], (since, until), number, rows,
        "At",
    )  # fmt: skip
    columns = ("At", "lines", "store")
    return Chart(key, title, f"{summary}.", made.drawing, columns, rows)


def _lines(
    key: str,
    title: str,
    summary: str,
    lines: Sequence[tuple[str, Points]],
    between: tuple[int, int],
    write: Callable[[float], str],
    rows: Sequence[Sequence[str]],
    head: str,
) -> Chart:
    """Draw numbers over time, each line with a mark of its own at its end."""
    since, until = between
    span = max(1, until - since)
    highest = max([0.0, *(value for _, points in lines for _, value in points)])
    unit = _unit(highest) if write is duration else 1.0
    top, y = scale(highest / unit)
    top *= unit
    plot = Plot(key, title, summary)
    ticks = [AxisTick(tick.at, write(tick.at * top) if tick.at else "0") for tick in y]
    plot.axes(ticks, time_ticks(since, until))
    for series, (_, points) in enumerate(lines):
        corners = [((at - since) / span, value / top) for at, value in points]
        plot.line(corners, f"line s{series}")
        for corner in corners if len(corners) <= 2 * SERIES else corners[-1:]:
            plot.mark(corner, series)
    legend = [(swatch(key, i, marked=True), name) for i, (name, _) in enumerate(lines)]
    columns = (head, *(name for name, _ in lines))
    return Chart(key, title, summary, plot.svg(), columns, rows, legend)
