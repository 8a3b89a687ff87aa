"""Charts: any figures draw valid XML, hostile words stand as they are, and a table twin."""

import re
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.ledger.limit_usage import LimitUsage
from dispatcher.operations import figures as of
from dispatcher.operations.agreement import (
    Agreement,
    Confusion,
    FieldAgreement,
    KindAgreement,
)
from dispatcher.surfaces import charts, picture
from dispatcher.surfaces.charts.frontier import frontier, frontier_parts
from dispatcher.surfaces.charts.plot import (
    HOUR,
    MINUTE,
    literal,
    number,
    scale,
    time_ticks,
)
from policies.planning.frontier import AdversariesNeeded, Frontier, Point
from policies.solvers import Verdict

NOON = 1_800_014_400_000_000
EVIL = "<script>alert(1)</script>{{7*7}}\u202e\"'&\x00]]>"
COUNTS = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 2**62))
SECONDS = st.floats(0, 1e9)
NAMES = st.one_of(st.just(EVIL), st.text(max_size=40))


def numbers(size):
    return st.lists(COUNTS, min_size=size, max_size=size)


@st.composite
def rates(draw):
    size = draw(st.integers(1, 40))
    valid = draw(st.dictionaries(NAMES, numbers(size), max_size=9))
    return of.AnswerRate(NOON, HOUR, NOON + HOUR, valid, draw(numbers(size)))


@st.composite
def burn_downs(draw):
    left = [(NOON + i * MINUTE, n) for i, n in enumerate(draw(st.lists(COUNTS)))]
    if not left or not left[-1][1] or draw(st.booleans()):
        return of.BurnDown(left, None, "no estimate yet", 0.0)
    early, more, late = (draw(st.integers(0, 10**15)) for _ in range(3))
    end = of.End(
        left[-1][0] + early,
        left[-1][0] + early + more,
        draw(st.sampled_from([None, left[-1][0] + early + more + late])),
    )
    return of.BurnDown(left, end, "", draw(st.floats(0.001, 1e12)))


@st.composite
def coverages(draw):
    fields = [of.FieldCount(*draw(st.tuples(NAMES, COUNTS, COUNTS, COUNTS, COUNTS)))
              for _ in range(draw(st.integers(0, 5)))]  # fmt: skip
    once = draw(st.sets(st.sampled_from([one.field for one in fields] or ["x"])))
    return of.Coverage(draw(st.sampled_from([None, NOON])), fields, frozenset(once))


USAGES = st.builds(
    lambda f, tau, units, left: LimitUsage(f, tau, units, 1, left, 1),
    st.fractions(0, 1),
    st.sampled_from([None, Fraction(1), Fraction(1, 3)]),
    st.integers(1, 10**9),
    st.one_of(st.none(), st.integers(0, 10**9)),
)


@st.composite
def maps(draw):
    rules = draw(st.lists(NAMES, max_size=9, unique=True))
    some = st.dictionaries(st.sampled_from(rules), USAGES) if rules else st.just({})
    nearest = draw(
        st.lists(
            st.builds(of.Exposed, NAMES, st.lists(NAMES), st.lists(NAMES), some),
            max_size=4 if rules else 0,
        )
    )
    tenths = {rule: draw(numbers(11)) for rule in rules}
    return of.ExposureMap(rules, nearest, draw(COUNTS), tenths)


@st.composite
def call_lists(draw):
    hour = st.builds(
        of.CallHour,
        st.integers(0, 5).map(lambda i: NOON + i * HOUR),
        st.fixed_dictionaries({"ok": COUNTS, "failed": COUNTS, "try-later": COUNTS}),
        st.one_of(st.none(), SECONDS),
        st.one_of(st.none(), SECONDS),
    )
    made = st.builds(
        of.ConnectorCalls, NAMES, st.lists(hour, min_size=1, max_size=5), hour
    )
    return draw(st.lists(made, max_size=3))


@st.composite
def waits(draw):
    ages = draw(
        st.dictionaries(NAMES, st.lists(COUNTS, min_size=1, max_size=5), max_size=8)
    )
    made = {
        name: [(NOON + i * MINUTE, age) for i, age in enumerate(each)]
        for name, each in ages.items()
    }
    now = {name: (draw(COUNTS), each[-1]) for name, each in ages.items()}
    return of.Waiting(NOON + 9 * MINUTE, now, made)


GROWTHS = st.lists(COUNTS, max_size=9).map(
    lambda found: of.Growth(
        [(NOON + i * HOUR, n) for i, n in enumerate(found)],
        [(NOON + i * HOUR, n) for i, n in enumerate(found[:-1])],
    )
)
DURATIONS = st.lists(
    st.builds(
        lambda name, n, times: of.Duration(name, n, *sorted(times)),
        NAMES, COUNTS, st.tuples(SECONDS, SECONDS, SECONDS),
    ),
    max_size=5,
)  # fmt: skip
SHARES = st.floats(0, 1)
ALPHAS = st.one_of(st.none(), st.floats(-1, 1))


@st.composite
def confusions(draw):
    labels = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    row = st.lists(SHARES, min_size=len(labels), max_size=len(labels)).map(tuple)
    rows = st.lists(row, min_size=len(labels), max_size=len(labels)).map(tuple)
    return Confusion(draw(NAMES), draw(NAMES), draw(COUNTS), tuple(labels), draw(rows))


AGREEMENTS = st.builds(
    Agreement,
    COUNTS,
    st.lists(st.builds(FieldAgreement, NAMES, NAMES, COUNTS, COUNTS, ALPHAS.map(
        lambda one: None if one is None else abs(one)), ALPHAS), max_size=4),
    st.lists(st.builds(KindAgreement, NAMES, COUNTS, COUNTS, SHARES, ALPHAS), max_size=2),
    st.just([]),
)  # fmt: skip
FAILURES = st.lists(
    st.builds(of.Failing, NAMES, NAMES, COUNTS, st.integers(1, 9), COUNTS), max_size=10
)
DRAWN = [
    (charts.reliability, AGREEMENTS),
    (
        lambda found: [charts.confusion(one) for one in found],
        st.lists(confusions(), max_size=2),
    ),
    (charts.retries, FAILURES),
    (charts.answers, rates()),
    (charts.burn_down, burn_downs()),
    (charts.coverage, coverages()),
    (charts.agreement, coverages()),
    (charts.times, DURATIONS),
    (charts.exposure, maps()),
    (charts.nearness, maps()),
    (charts.calls, call_lists()),
    (lambda found: [charts.latency(one) for one in found], call_lists()),
    (lambda found: [charts.errors(one) for one in found], call_lists()),
    (charts.waiting, waits()),
    (charts.growth, GROWTHS),
]


def parsed(chart):
    """The figure as XML: nothing may break out of where it stands."""
    return ElementTree.fromstring(chart.__html__())


def check(chart):
    """What holds for every chart."""
    figure = parsed(chart)
    html = chart.__html__()
    assert not re.search(r"<(script|style|image|a|foreignObject)\b", html)
    for element in figure.iter():
        assert not [n for n in element.attrib if n == "style" or n.startswith("on")]
    assert not re.search(r'="[^"]*(nan|inf|(?<![0-9a-f])\d+e[+-])', html, re.IGNORECASE)
    assert figure.find("figcaption/strong").text == chart.title
    assert figure.find("figcaption/span").text
    assert {len(row) for row in chart.rows} <= {len(chart.columns)}
    if chart.drawing:
        (svg,) = figure.findall("div/{*}svg")
        assert svg.get("role") == "img"
        names = {part.get("id"): part.text for part in svg if part.get("id")}
        title, told = (
            names[svg.get(f"aria-{one}edby")] for one in ("labell", "describ")
        )
        assert (title, told) == (chart.title, literal(chart.summary))
        assert chart.rows
        cells = [
            ["".join(cell.itertext()) for cell in row] for row in figure.iter("tr")
        ]
        assert cells[1:] == [[literal(cell) for cell in row] for row in chart.rows]
    else:
        assert chart.summary.endswith(".")


@pytest.mark.parametrize(
    ("draw", "drawn"), DRAWN, ids=lambda one: getattr(one, "__name__", "")
)
def test_any_figures_draw_a_chart_with_its_words_and_table(draw, drawn):
    @given(drawn)
    def holds(found):
        made = draw(found)
        for chart in made if isinstance(made, list) else [made]:
            check(chart)

    holds()


def test_each_series_has_a_colour_and_a_pattern_and_the_rest_is_added_up():
    valid = {f"market{i}": [10 - i, 1] for i in range(9)}
    chart = charts.answers(of.AnswerRate(NOON, HOUR, NOON, valid, [0, 0]))
    assert [name for _, name in chart.legend] == [
        *(f"market{i}" for i in range(5)), "others"
    ]  # fmt: skip
    svg = ElementTree.fromstring(str(chart.drawing))
    patterns = svg.findall("{*}defs/{*}pattern")
    assert len({ElementTree.tostring(one) for one in patterns}) == 6
    fills = {box.get("fill") for box in svg.findall("{*}rect")}
    assert fills == {f"url(#{one.get('id')})" for one in patterns}
    assert [row[-2] for row in chart.rows] == ["14", "4"]


def test_the_map_says_fields_left_and_share_in_each_cell():
    near = LimitUsage(Fraction(3, 4), Fraction(1), 40, 2, 1, 7)
    past = LimitUsage(Fraction(1), Fraction(1), 1, 1, 0, 1)
    chart = charts.exposure(
        of.ExposureMap(
            ["history", "pair"],
            [of.Exposed("a7", ["x/ann"], ["clinic"], {"history": near, "pair": past})],
            60,
            {"history": [0] * 7 + [1] + [0] * 3, "pair": [0] * 10 + [1]},
        )
    )
    svg = ElementTree.fromstring(str(chart.drawing))
    words = [
        "".join(text.itertext()) for text in svg.iter() if text.tag.endswith("}text")
    ]
    assert words == ["history", "pair", "a7", "0.75 · 1 left", "1.00 · 0 left"]
    assert chart.rows == [
        ("a7", "x/ann", "clinic", "0.75 · 1 left (× 7)", "1.00 · 0 left (× 1)")
    ]
    assert "1 nearest of 60 workers" in chart.summary
    assert "1 limit is reached" in chart.summary


def test_accounts_that_count_as_one_are_bracketed_on_the_map():
    usages = {"r": LimitUsage(Fraction(1, 2), Fraction(1), 1, 1, 1, 1)}
    rows = [
        of.Exposed("a1", ["x/ann", "x/bob"], ["family"], usages),
        of.Exposed("a2", ["x/cem"], ["family"], usages),
        of.Exposed("a3", ["x/dan", "y/dan"], [], usages),
    ]
    drawn = str(charts.exposure(of.ExposureMap(["r"], rows, 3, {})).drawing)
    assert drawn.count('class="bracket"') == 2
    assert "family: 2" in drawn
    assert "one person: 2" in drawn


def test_where_nothing_is_known_it_is_said_why_and_nothing_drawn():
    chart = charts.burn_down(of.BurnDown([], None, "nothing is asked yet", 0.0))
    assert (chart.drawing, chart.rows) == ("", ())
    assert "<details" not in chart.__html__()
    assert "a daemon counts" in chart.summary


def test_a_frontier_shows_what_is_proven_beside_what_was_found():
    def point(limit, utility, bound, least, enough):
        needed = AdversariesNeeded(least, enough)
        return Point(limit, Verdict.SOLVED, utility, bound, Fraction(1, 2), needed)

    loose = point(Fraction(1), Fraction(1), Fraction(1), 5, 5)
    strict = point(Fraction(0), Fraction(1, 2), Fraction(3, 4), 3, None)
    found = Frontier((loose, strict), loose, 4, 10)
    workers, utility, disclosure = frontier(found)
    assert workers.drawing.count("gap-band") == utility.drawing.count("gap-band") == 1
    assert "gap-band" not in disclosure.drawing
    for chart in (workers, utility, disclosure):
        parsed(chart)
    assert [
        ElementTree.fromstring(str(p)).get("height") for p in frontier_parts(found)
    ] == ["248"] * 3


@given(st.floats(allow_nan=True, allow_infinity=True), st.booleans())
def test_an_axis_reaches_past_its_highest_number_in_few_steps(highest, whole):
    top, ticks = scale(highest, whole=whole)
    assert top > 0
    if 1e-9 < highest < 1e100:
        assert top >= highest * (1 - 1e-9)
    assert 2 <= len(ticks) <= 6
    assert (ticks[0].at, ticks[-1].at) == (0, 1)


@given(st.integers(0, 10**12), st.integers(0, 10**15))
def test_times_are_marked_at_round_moments_within_the_axis(since, span):
    ticks = time_ticks(NOON + since, NOON + since + span)
    assert len(ticks) <= 10
    assert all(0 <= tick.at <= 1 for tick in ticks)


def test_numbers_of_an_axis_are_short():
    assert [number(n) for n in (0, 0.25, 12, 1500, 25_000, 3_400_000)] == [
        "0", "0.25", "12", "1,500", "25k", "3.4M"
    ]  # fmt: skip


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return sum(
        p * share for p, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True)
    )


def test_every_colour_of_a_series_stands_out_from_a_card_light_and_dark():
    light, *dark = re.split(r"@media \(prefers-color-scheme: dark\)", picture.style())
    cards = [re.search(r"--card: (#\w{6})", part)[1] for part in (light, dark[0])]
    series = [
        dict(re.findall(r"--(s\d): (#\w{6})", part)) for part in (dark[-2], dark[-1])
    ]
    for card, colours in zip(cards, series, strict=True):
        assert len(colours) == 6
        for colour in colours.values():
            low, high = sorted((luminance(card), luminance(colour)))
            assert (high + 0.05) / (low + 0.05) >= 3


def test_one_answer_agrees_with_none():
    """Fields that are asked once agreed in 100 % of the cases."""
    fields = [of.FieldCount("zip", 9, 8, 0, 0), of.FieldCount("drug", 9, 6, 2, 0)]
    both = charts.agreement(of.Coverage(NOON, fields, frozenset({"zip"})))
    assert [row[0] for row in both.rows] == ["drug"]
    assert "least agreement on drug: 75" in both.summary
    assert "1 field is asked once, and left out" in both.summary
    none = charts.agreement(of.Coverage(NOON, fields[:1], frozenset({"zip"})))
    assert none.summary == "Agreement needs two answers; each field is asked once."
