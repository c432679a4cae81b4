import re
from importlib.resources import files
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.generated_pictures import ANY_TEXT
from treefine.drawing.characters import visible
from treefine.drawing.svg import text_width
from treefine.evaluation import analysis
from treefine.evaluation.analysis.charts import (
    _TEXT_SIZE,
    _TITLE_SIZE,
    DASHES,
    MARKERS,
    PERCENT,
    Line,
    Mark,
    dash,
    draw_lines,
    draw_rows,
    draw_steps,
    fitting,
    line_class,
    marker,
    merged,
    nice_ticks,
    tick_labels,
)

SVG = "{http://www.w3.org/2000/svg}"
STYLE = files(analysis).joinpath("templates/chart.css").read_text()
LIGHT, DARK = STYLE.split("@media screen and (prefers-color-scheme: dark) {")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
VALUES = st.floats(-1e15, 1e15) | st.floats(0, 100)


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str, name: str = "") -> list[str]:
    """Return the texts of a class, in drawing order."""
    return [each.text or "" for each in drawn(svg).iter(SVG + "text") if name in each.get("class", "")]


def titles(svg: str) -> list[str]:
    """Return the tooltip of each point."""
    return [
        group.findtext(SVG + "title") for group in drawn(svg).iter(SVG + "g") if group.find(SVG + "title") is not None
    ]


def circles(svg: str) -> dict[str, tuple[float, float]]:
    """Return the middle of each point of the first line, by its tooltip."""
    found = {}
    for group in drawn(svg).iter(SVG + "g"):
        if group.find(SVG + "title") is not None and group.get("class") == "color0":
            x, y, radius = map(float, NUMBER.findall(group.findall(SVG + "path")[-1].get("d"))[:3])
            found[group.findtext(SVG + "title")] = (x + radius, y)
    return found


def paths(svg: str, kind: str, number: int = 0) -> list[list[tuple[float, float]]]:
    """Return the corners of the paths of this kind that belong to a line of the chart."""
    groups = [each for each in drawn(svg).iter(SVG + "g") if each.get("class") == f"color{number}"]
    found = [path.get("d") for each in groups for path in each.findall(SVG + "path") if path.get("class") == kind]
    return [
        [tuple(map(float, NUMBER.findall(corner))) for corner in re.split("[ML]", path)[1:]]
        for path in found
        if "h" not in path  # the sample line in the legend
    ]


@st.composite
def charts(draw) -> list[Line]:
    """Draw any lines: named or numbered places, some missing, with or without bands and counts."""
    places = draw(st.sampled_from([VALUES, ANY_TEXT, st.integers(0, 30), st.integers(0, 9) | ANY_TEXT]))
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        xs = draw(st.lists(places, unique_by=lambda x: Mark(x, 0).x_text, max_size=12))
        marks = []
        for x in xs:
            low, y, high = sorted(draw(st.lists(VALUES, min_size=3, max_size=3)))
            band = draw(st.sampled_from([(None, None), (low, high)]))
            marks.append(Mark(x, y, *band, count=draw(st.none() | st.integers(0, 10**9))))
        lines.append(Line(draw(ANY_TEXT | st.text("ABCWM", max_size=60)), tuple(marks)))
    return lines


def all_charts(lines: list[Line], title: str, **options) -> list[str]:
    names = merged([mark.x_text for mark in line.marks] for line in lines)
    return [
        draw_lines(lines, title=title, x_title=title, y_title=title, **options),
        draw_steps(lines, title=title, y_title=title, **options),
        draw_rows(names, lines, title=title, x_title=title, **options),
    ]


def line(name: str, *marks: tuple) -> Line:
    return Line(name, tuple(Mark(*each) for each in marks))


def chart(*lines: Line, **options) -> str:
    return draw_lines(lines, **{"title": "", "x_title": "", "y_title": ""} | options)


def text_places(svg: str) -> dict[str, tuple[float, float]]:
    return {each.text: (float(each.get("x")), float(each.get("y"))) for each in drawn(svg).iter(SVG + "text")}


@given(charts(), ANY_TEXT | st.text("ABCWM ", max_size=80))
def test_any_lines_make_a_valid_chart_with_the_numbers_of_every_point(lines, title):
    for svg in all_charts(lines, title):
        svg.encode()
        assert drawn(svg).findtext(SVG + "title") == visible(title)
        said = titles(svg)
        assert len(said) == sum(len(line.marks) for line in lines)
        for line in lines:
            for mark in line.marks:
                numbers = [f"{mark.y:.1f}", *[f"{value:.1f}" for value in mark.band]]
                numbers += [] if mark.count is None else [f"n = {mark.count:,}"]
                assert any(visible(line.name) in each and all(one in each for one in numbers) for each in said)


@example([Line("W" * 80, (Mark("W" * 80, 1.0, count=1), Mark("i", 2.0)))] * 2, "W" * 80)
@given(charts(), ANY_TEXT | st.text("ABCWM ", max_size=80))
def test_all_texts_and_points_are_inside_the_chart(lines, title):
    for svg in all_charts(lines, title):
        width, height = (float(drawn(svg).get(each)) for each in ("width", "height"))
        for each in drawn(svg).iter(SVG + "text"):
            kind = each.get("class", "")
            size = 1.1 * _TITLE_SIZE if kind == "title" else _TEXT_SIZE
            x, wide = float(each.get("x")), text_width(each.text or "", size)
            left = x if kind in ("title", "start", "name start") else x - wide if "end" in kind else x - wide / 2
            assert left >= -1
            assert left + wide <= width + 1
            assert _TEXT_SIZE - 4 <= float(each.get("y")) <= height
        for path in drawn(svg).iter(SVG + "path"):
            x, y = map(float, NUMBER.findall(path.get("d"))[:2])
            assert 0 <= x <= width
            assert 0 <= y <= height


@given(st.dictionaries(st.integers(-50, 50), st.floats(0, 100), min_size=2, max_size=30))
def test_points_are_drawn_in_the_order_of_their_numbers(values):
    svg = chart(line("a", *values.items()), x_title="x", y_format="{}")
    places = circles(svg)

    found = {x: places[f"a, x {x}: {y}"] for x, y in values.items()}
    for one, other in pairwise(sorted(values)):
        assert found[one][0] < found[other][0]
    (path,) = paths(svg, "line")
    assert [x for x, _ in path] == sorted(x for x, _ in path)  # the line never turns back
    for one, other in combinations(values, 2):
        if values[one] > values[other] + 1:
            assert found[one][1] < found[other][1]


@pytest.mark.parametrize(("last", "times_as_far"), [(10, 10), ("10+", 2)])
def test_a_numeric_axis_is_to_scale_and_a_named_axis_is_not(last, times_as_far):
    places = circles(chart(line("a", (0, 1), (1, 2), (last, 3))))

    first, second, third = sorted(x for x, _ in places.values())
    assert (third - first) / (second - first) == pytest.approx(times_as_far, rel=0.02)


def test_a_line_has_a_gap_at_points_that_only_other_lines_have():
    whole = line("whole", *[(x, 10.0 * x) for x in range(5)])
    broken = line("broken", *[(x, 5.0 + x, 4.0 + x, 6.0 + x) for x in (0, 1, 3)])

    svg = chart(whole, broken)

    assert [len(each) for each in paths(svg, "line", 0)] == [5]
    assert [len(each) for each in paths(svg, "line", 1)] == [2, 1]
    assert [len(each) for each in paths(svg, "band", 1)] == [4]  # forth and back; a single point has a line instead
    assert [len(each) for each in paths(svg, "line reach", 1)] == [2]


def test_a_band_encloses_its_line():
    svg = chart(line("a", (0, 5, 4, 7), (1, 6, 2, 6)))

    (drawn_line,), (band,) = paths(svg, "line"), paths(svg, "band")
    (first, y), (second, second_y) = drawn_line
    assert [x for x, _ in band] == [first, second, second, first]
    high, second_high, second_low, low = (y for _, y in band)
    assert high < y < low  # smaller y is higher
    assert second_high == second_y < second_low


def test_three_bands_are_faint_and_more_than_three_lines_have_no_bands():
    lines = [line(name, (0, 5, 0, 90), (1, 6, 2, 6), ("alone", 5, 0, 90)) for name in "abcd"]

    two, three, four = (chart(*lines[:n], apart=["alone"]) for n in (2, 3, 4))

    kinds = ("band", "band faint", "line reach")
    assert [[len(paths(svg, kind)) for kind in kinds] for svg in (two, three, four)] == [[1, 0, 1], [0, 1, 1], [0] * 3]
    assert "100" in texts(three)
    assert "100" not in texts(four)
    assert "a, 0: 5.0 (0.0 to 90.0)" in titles(four)  # the tooltips still have them


def test_lines_do_not_connect_to_places_that_are_apart():
    svg = chart(line("a", ("ROOT", 9, 8, 10), ("1", 5, 4, 6), ("2", 6, 5, 7), ("x", 1), ("3", 2)), apart=("ROOT", "x"))

    assert [len(each) for each in paths(svg, "line")] == [1, 2, 1, 1]
    assert [len(each) for each in paths(svg, "line reach")] == [2]  # the band of a single point
    assert [len(each) for each in paths(svg, "band")] == [4]
    assert len(titles(svg)) == 5


@pytest.mark.parametrize(("value", "ends"), [(100.0, {"90", "100"}), (0.0, {"0.0", "1.0"}), (99.5, {"100"})])
def test_a_percentage_axis_stays_within_0_and_100(value, ends):
    for svg in all_charts([line("a", ("x", value))], "", limits=PERCENT):
        numbers = [float(each) for each in texts(svg) if NUMBER.fullmatch(each)]
        assert ends <= set(texts(svg))
        assert 0 <= min(numbers) < max(numbers) <= 100


def test_counts_are_below_their_places():
    marks = (Mark("1", 90, count=1234), Mark("2", 80, count=7), Mark("3+", 70))

    places = text_places(chart(Line("a", marks), title="T", x_title="length", y_title="LAS"))

    assert places["1.2k"][0] == places["1"][0]
    assert places["7"][0] == places["2"][0]
    assert places["1"][1] < places["1.2k"][1] == places["7"][1] == places["n"][1] < places["length"][1]


def test_a_chart_without_counts_has_no_row_for_them():
    assert not [svg for svg in all_charts([line("a", ("b", 1))], "") if "n" in texts(svg)]


def test_names_are_at_the_ends_of_lines_if_they_do_not_overlap():
    svg = chart(line("high", (0, 5), (1, 9)), line("low", (0, 5), (1, 1)))

    assert texts(svg, "name start") == ["high", "low"]
    (x, y), (name_x, name_y) = circles(svg)["high, 1: 9.0"], text_places(svg)["high"]
    assert name_x > x
    assert abs(name_y - y) < 6


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("close", [(0, 5), (1, 8.9)]),
        ("ends early", [(0, 5)]),
        ("a name that takes too much of the room", [(0, 5), (1, 1)]),
    ],
)
def test_names_are_in_a_legend_if_they_would_overlap_at_the_ends(name, second):
    places = text_places(chart(line("high", (0, 5), (1, 9)), line(name, *second), y_title="values"))

    assert places["high"][1] == places[name][1] < places["values"][1]


def test_shortened_text_has_a_tooltip():
    long = "a name that is much too long for the width of a chart, or of a phone"

    for svg in (chart(line(long, (0, 1), (1, 2))), chart(y_title=long), draw_rows([long], [], title="", x_title="")):
        whole = [each for each in drawn(svg).iter(SVG + "text") if each.findtext(SVG + "title") == long]
        assert [each.text[-1] for each in whole] == ["…"]


def test_markers_are_small_if_points_are_close_together():
    def radius(n_points: int) -> float:
        svg = chart(line("a", *[(number, 1) for number in range(n_points)]))
        group = next(each for each in drawn(svg).iter(SVG + "g") if each.find(SVG + "title") is not None)
        return float(NUMBER.findall(group.find(SVG + "path").get("d"))[2])

    assert radius(20) == radius(3) > radius(60)


def test_rows_keep_their_order_and_lines_are_next_to_each_other():
    lines = [line("a", ("obj", 80.0), ("det", 90.0)), line("b", ("det", 95.0, 90.0, 99.0, 12))]

    svg = draw_rows(["det", "obj", "none"], lines, title="T", x_title="LAS")

    places = text_places(svg)
    assert places["det"][1] < places["obj"][1] < places["none"][1]
    assert titles(svg) == ["a, det: 90.0", "b, det: 95.0 (90.0 to 99.0), n = 12", "a, obj: 80.0"]
    points = circles(svg)
    assert points["a, det: 90.0"][0] > points["a, obj: 80.0"][0]
    ((low, y), (high, same_y)) = paths(svg, "line reach", 1)[0]
    assert low < high
    assert y == same_y > points["a, det: 90.0"][1]
    assert "12" in texts(svg)


def test_a_long_chart_of_rows_has_ticks_at_top_and_bottom():
    def ticks(n_rows: int) -> int:
        names = [f"row {number}" for number in range(n_rows)]
        values = line("a", *[(name, 50.0 + number) for number, name in enumerate(names)])
        return texts(draw_rows(names, [values], title="", x_title="")).count("50")

    assert (ticks(5), ticks(13)) == (1, 2)


def test_step_charts_are_flat_and_label_every_step():
    values = line("a", *[(t, 1.0 / (t + 1)) for t in range(4)])

    low = draw_steps([values], title="", y_title="REL")

    assert float(drawn(low).get("height")) < float(drawn(chart(values)).get("height"))
    assert {"0", "1", "2", "3", "step t"} <= set(texts(low))


@pytest.mark.parametrize(("values", "n_strong"), [((-1, 2), 1), ((0, 2), 0), ((-2, 0), 0), ((3, 4), 0)])
def test_the_zero_line_is_bold_only_between_negative_and_positive_values(values, n_strong):
    assert chart(line("a", *enumerate(values))).count('class="zero"') == n_strong


def test_a_chart_without_data_says_so():
    assert "length (no data)" in texts(chart(x_title="length"))
    assert titles(chart(Line("a", ()))) == []


def test_a_single_point_is_in_the_middle_and_equal_values_have_equal_heights():
    one, level = chart(line("a", (7, 5.0)), x_title="x"), chart(line("a", (1, 5.0), (2, 5.0)))

    assert {"4.0", "5.0", "6.0", "7"} <= set(texts(one))
    assert 180 < circles(one)["a, x 7: 5.0"][0] < 220
    assert len({y for _, y in circles(level).values()}) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_infinite_values_and_nan_are_an_error(value):
    for wrong in ((value, 1.0), (1, value), (1, 1.0, value, 2.0), (1, 1.0, 0.0, value)):
        with pytest.raises(ValueError, match="cannot be drawn"):
            Mark(*wrong)


def test_half_a_band_and_two_points_at_the_same_place_are_an_error():
    with pytest.raises(ValueError, match="a band must have a low and a high end"):
        Mark(1, 1.0, low=0.5)
    with pytest.raises(ValueError, match="first: two points at the same place"):
        line("first", (1, 1.0), (1.0, 2.0))


@given(st.lists(VALUES, max_size=6))
def test_ticks_are_round_and_enclose_all_values(values):
    ticks = nice_ticks(values)

    assert 2 <= len(ticks) <= 9
    slack = 1e-9 * max(1, *map(abs, ticks))
    assert ticks[0] - slack <= min(values, default=0)
    assert ticks[-1] + slack >= max(values, default=0)
    assert len({f"{b - a:.3g}" for a, b in pairwise(ticks)}) == 1 or abs(ticks[0]) > 1e5 * (ticks[1] - ticks[0])
    assert len(set(tick_labels(ticks, "{:.1f}"))) == len(ticks) or abs(ticks[0]) > 1e4 * (ticks[1] - ticks[0])


@given(st.lists(st.floats(0, 100), max_size=6))
def test_percentage_ticks_enclose_all_values_within_the_limits(shares):
    ticks = nice_ticks(shares, limits=PERCENT)

    assert 0 <= ticks[0] < ticks[-1] <= 100
    assert ticks[0] - 1e-6 <= min(shares, default=0)
    assert ticks[-1] + 1e-6 >= max(shares, default=0)


def test_a_value_outside_the_limits_is_still_on_the_axis():
    assert nice_ticks([120.0], limits=PERCENT)[-1] >= 120
    assert nice_ticks([-20.0], limits=PERCENT)[0] <= -20


@given(st.lists(st.floats(0, 300), max_size=20).map(sorted), st.data())
def test_labels_never_touch_and_as_many_as_possible_are_kept(places, data):
    widths = data.draw(st.lists(st.floats(1, 40), min_size=len(places), max_size=len(places)))

    def touch(kept: range) -> bool:
        return any(places[b] - places[a] < (widths[a] + widths[b]) / 2 + 6 for a, b in pairwise(kept))

    kept = fitting(places, widths)

    assert list(kept)[:1] == list(range(len(places)))[:1]
    assert not touch(kept)
    assert all(touch(range(0, len(places), step)) for step in range(1, kept.step if len(kept) > 1 else len(places)))


def line_colors(style: str) -> list[str]:
    return re.findall(r"\.band { stroke: (#\w+)", style)


def luminance(color: str) -> float:
    """Return the relative luminance as defined in WCAG 2."""
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(color: str) -> tuple[float, float, float]:
    shares = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return red, green, blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def seen(color: str, sight: str) -> tuple[float, float, float]:
    """Return the colour in CIELAB as seen with this deficiency; a distance of about 2 is just noticeable."""

    def times(matrix, vector):
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]

    clipped = [min(1.0, max(0.0, each)) for each in times(SIGHT[sight], linear(color))]
    x, y, z = (
        share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116
        for share in (a / b for a, b in zip(times(TO_XYZ, clipped), WHITE, strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_line_colours_are_distinct_for_colour_blind_readers(sight, style):
    for one, other in combinations(line_colors(style), 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen(one, sight), seen(other, sight), strict=True)) ** 0.5
        assert distance >= 20, (one, other)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_and_text_contrast_with_the_background(style):
    (paper,) = re.findall(r"\.paper { fill: (#\w+)", style)
    letters = re.findall(r"(?:text|\.name) { fill: (#\w+)", style)

    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert len(line_colors(style)) == 5
    assert all(contrast(color, paper) >= 3 for color in line_colors(style))
    assert len(letters) == 2
    assert all(contrast(color, paper) >= 4.5 for color in letters)


def test_ten_lines_are_distinct_without_colour():
    looks = [(marker(n, 0, 0, 1), "hollow" in line_class(n), dash(n)) for n in range(10)]
    markers = [look[:2] for look in looks]

    assert len(set(markers)) == 10
    assert len({dash(n) for n in range(4)}) == len(DASHES)
    assert len({marker(n, 0, 0, 1) for n in range(5)}) == len(MARKERS)


def test_text_is_at_least_11_pixels_high_on_a_phone():
    width = float(drawn(chart()).get("width"))
    on_page = 360 - 2 * 8  # the page has a margin of half a letter on each side

    for size in re.findall(r"([\d.]+)px", STYLE):
        assert float(size) * on_page / width >= 11


def test_every_css_rule_applies_only_to_charts_and_print_is_light():
    for rule in re.findall(r"([^{}]+){", LIGHT) + re.findall(r"([^{}]+){", DARK):
        assert all(each.strip().startswith(".treefine-chart ") for each in rule.split(","))
    assert ".paper { fill: #ffffff; }" in LIGHT
    assert ".paper { fill: #ffffff; }" not in DARK


def test_font_sizes_in_the_style_match_the_measured_sizes():
    assert f"text {{ font: {_TEXT_SIZE}px " in STYLE
    assert f".title {{ font-size: {_TITLE_SIZE}px; " in STYLE
