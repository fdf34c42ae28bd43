"""Charts: where things are drawn, what is in colour, and that nothing in them is code."""

import re
from xml.etree import ElementTree

import pytest

from murmurlog.charts import charts
from murmurlog.charts import svg as drawing
from murmurlog.charts.charts import Bar, Dot, Mark

HOSTILE = '<script>alert(1)</script> & "quotes"'


def parse(svg):
    """The chart as XML, which it must be."""
    return ElementTree.fromstring(svg)


def attributes_of_class(svg, *kinds):
    """The attributes of the elements that have all of these classes, in order."""
    return [e.attrib for e in parse(svg).iter() if set(kinds) <= set(e.get("class", "").split())]


def numbers(element, *names):
    return [float(element[name]) for name in names]


def texts(svg):
    return [e.text for e in parse(svg).iter("text")]


# --- axes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "least", "ends", "count"),
    [(1.0, 0.0, (0, 1), 6), (0.83, 0.0, (0, 1), 6), (7.0, -3.0, (-4, 8), 7), (0.0, -2.0, (-2, 0), 5)],
)  # fmt: skip
def test_a_linear_axis_holds_everything_and_zero(most, least, ends, count):
    axis = drawing.linear(most, least)
    assert (axis.low, axis.high) == pytest.approx(ends)
    assert 0.0 in axis.ticks
    assert len(axis.ticks) == count


def test_decades_begin_and_end_at_powers_of_ten():
    axis = drawing.decades(1, 1030)
    assert axis.ticks == (1, 10, 100, 1000, 10_000)
    assert drawing.decades(1, 1000).high == 1000
    assert axis.share(100) == 0.5
    assert axis.share(0.001) == 0  # what is below the axis lies on its end


@pytest.mark.parametrize(
    ("value", "plain", "percent"),
    [(0.0, "0", "0%"), (0.00137, "0.00137", "0.14%"), (0.1234, "0.123", "12.3%"), (1.0, "1", "100.0%"),
     (12345.6, "12,346", "1234560.0%"), (4e-5, "4.0e-05", "0.00%"), (float("nan"), "–", "–")],
)  # fmt: skip
def test_numbers_are_short(value, plain, percent):
    assert drawing.number(value) == plain
    assert drawing.number(value, percent=True) == percent


def test_texts_are_cut_where_room_ends_and_wide_letters_take_two():
    assert drawing.clip("short", 100) == "short"
    assert drawing.clip("abcdefghij", 5 * drawing.LETTER) == "abcd…"
    assert drawing.clip("天気予報天気予報", 5 * drawing.LETTER) == "天気…"


# --- lines ----------------------------------------------------------------------------------------


def test_lines_lie_where_their_values_are():
    frame = charts.WIDE
    log = charts.lines(
        {"a": [(1, 0.0), (10, 0.5), (100, 1.0)]}, title="t", x_label="x", percent=True
    )
    (line,) = attributes_of_class(log, "line0")
    middle = (frame.left + frame.end) / 2, (frame.top + frame.foot) / 2
    assert line["points"] == (
        f"{frame.left}.0,{frame.foot}.0 {middle[0]},{middle[1]} {frame.end}.0,{frame.top}.0"
    )
    flat = charts.lines({"a": [(1, 0), (10, 1)]}, title="", x_label="x", percent=True, log=False)
    first = attributes_of_class(flat, "line0")[0]["points"].split(",")[0]
    assert float(first) == frame.left + (frame.end - frame.left) / 10
    assert {"0%", "100%"} <= set(texts(flat))


def test_a_dot_without_a_place_stands_beside_the_plot():
    frame = charts.COLUMN
    svg = charts.lines(
        {"a": [(1, 0.2), (10, 0.4)]},
        title="t",
        x_label="epsilon",
        percent=False,
        dots={
            "on it": Dot(x=10, y=0.1, ink=3, low=0.05, high=0.15),
            "beside": Dot(x=None, y=0.3, ink=4),
        },
        frame=frame,
    )
    on, beside = attributes_of_class(svg, "hollow")
    assert float(on["cx"]) == frame.end
    assert float(beside["cx"]) == frame.end + charts.NONE_AT
    assert "line4" in beside["class"]
    assert "none" in texts(svg)
    (error,) = attributes_of_class(svg, "error")
    assert float(error["y1"]) > float(on["cy"]) > float(error["y2"])
    heights = [
        float(e.get("y")) for e in parse(svg).iter("text") if e.text in ("a", "on it", "beside")
    ]
    apart = sorted(heights)
    assert all(b - a >= charts.APART - 0.01 for a, b in zip(apart, apart[1:], strict=False))


def test_names_that_end_at_the_same_height_stay_in_the_plot():
    series = {f"name {n}": [(1, 0.0), (2, 0.0)] for n in range(8)}
    svg = charts.lines(series, title="", x_label="", percent=False, frame=charts.COLUMN)
    heights = sorted(
        float(e.get("y")) for e in parse(svg).iter("text") if (e.text or "")[:4] == "name"
    )
    assert len(heights) == 8
    assert heights[-1] <= charts.COLUMN.foot + 4
    assert all(b - a >= charts.APART - 0.01 for a, b in zip(heights, heights[1:], strict=False))


# --- ranks ----------------------------------------------------------------------------------------


def test_ranks_show_the_released_part_in_colour():
    marks = [
        Mark(rank=1, count=100),
        Mark(rank=10, count=10),
        Mark(rank=100, count=1, coloured=False),
    ]
    svg = charts.ranks(marks, title="t", x_label="rank", ink=2)
    first, second = attributes_of_class(svg, "fill2")
    (grey,) = attributes_of_class(svg, "dim")
    frame = charts.SQUARE
    assert numbers(first, "cx", "cy") == [frame.left, frame.top]
    assert numbers(second, "cx") == [(frame.left + frame.end) / 2]
    assert numbers(grey, "cx", "cy") == [frame.end, frame.foot]


def test_an_interval_below_the_axis_ends_on_it():
    mark = Mark(rank=1, count=20, low=-15, high=55)
    svg = charts.ranks([mark], title="", x_label="", within=(100, 100), rule=(50, "even odds"))
    (bar,) = attributes_of_class(svg, "pale")
    assert float(bar["y1"]) == charts.SQUARE.foot
    assert float(bar["y2"]) < float(bar["y1"])
    assert "even odds" in texts(svg)


# --- bars -----------------------------------------------------------------------------------------


def test_bars_are_as_long_as_their_values():
    rows = [
        Bar(name="a", value=0.5, low=0.4, high=0.6, ink=1),
        Bar(name="a", value=1.0, ink=1, pale=True),
        Bar(name="b", value=0.25, ink=2),
    ]
    svg = charts.bars(rows, title="t", percent=False)
    whole, covered, other = (e.attrib for e in parse(svg).iter("rect"))
    plot = charts.BARS.end - charts.BARS.left
    assert [float(r["width"]) for r in (whole, covered, other)] == [plot / 2, plot, plot / 4]
    assert "pale" in covered["class"]
    assert float(covered["height"]) < float(whole["height"])
    across, low, high = attributes_of_class(svg, "error")
    assert numbers(across, "x1", "x2") == pytest.approx(
        [charts.BARS.left + 0.4 * plot, charts.BARS.left + 0.6 * plot], abs=0.06
    )
    assert texts(svg).count("a") == 1  # two bars of one system have one name
    assert {"0.5", "1", "0.25"} <= set(texts(svg))


def test_a_negative_bar_lies_left_of_zero():
    rows = [Bar(name="a", value=-1.0, ink=0), Bar(name="b", value=1.0, ink=1)]
    left, right = (e.attrib for e in parse(charts.bars(rows, title="", percent=False)).iter("rect"))
    assert float(left["x"]) + float(left["width"]) == float(right["x"])


def test_a_waterfall_falls_from_step_to_step_to_what_it_comes_to():
    svg = charts.waterfall(
        [("query", 2.0), ("click", 3.0)], title="t", total=("in one account", 4.0)
    )
    query, click, whole, account = (e.attrib for e in parse(svg).iter("rect"))
    unit = (charts.BARS.end - charts.BARS.left) / 5
    assert [float(r["width"]) for r in (query, click, whole, account)] == pytest.approx(
        [2 * unit, 3 * unit, 5 * unit, 4 * unit], abs=0.11
    )
    assert float(click["x"]) == pytest.approx(float(query["x"]) + 2 * unit, abs=0.11)
    assert float(account["x"]) == float(query["x"])
    assert texts(svg)[-1] == "4"


# --- all of them ----------------------------------------------------------------------------------


DRAWN = {
    "lines": lambda name: charts.lines({name: [(1, 1), (2, 2)]}, title=name, x_label=name, percent=False),
    "ranks": lambda name: charts.ranks([Mark(rank=1, count=2)], title=name, x_label=name, rule=(2, name)),
    "bars": lambda name: charts.bars([Bar(name=name, value=1.0, ink=0)], title=name, percent=False),
    "waterfall": lambda name: charts.waterfall([(name, 1.0)], title=name, total=(name, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("kind", DRAWN)
def test_every_chart_escapes_its_texts_and_is_the_same_each_time(kind):
    svg = DRAWN[kind](HOSTILE)
    assert "<script" not in svg
    assert not list(parse(svg).iter("script"))
    assert svg == DRAWN[kind](HOSTILE)
    assert not re.search(r"\bnan\b|\binf\b|-0\.0\"", svg)


def test_a_chart_alone_is_a_file_that_browsers_open():
    root = parse(drawing.alone(DRAWN["bars"]("a")))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    (style,) = root.iter("{http://www.w3.org/2000/svg}style")
    assert "prefers-color-scheme: dark" in style.text
    assert "url(" not in style.text


def test_a_long_title_takes_two_lines_and_its_room():
    short, long = (charts.bars([Bar(name="a", value=1.0, ink=0)], title=t, percent=False)
                   for t in ("short", "a title of many words " * 4))  # fmt: skip
    assert len(attributes_of_class(short, "title")) == 1
    assert len(attributes_of_class(long, "title")) == 2
    heights = [float(parse(svg).get("viewBox").split()[-1]) for svg in (short, long)]
    assert heights[1] - heights[0] == drawing.LINE


@pytest.mark.parametrize("draw", [lambda: charts.lines({}, title="", x_label="", percent=False),
                                  lambda: charts.bars([], title="", percent=False),
                                  lambda: charts.ranks([], title="", x_label=""),
                                  lambda: charts.waterfall([], title="")])  # fmt: skip
def test_nothing_to_draw_is_an_error(draw):
    with pytest.raises(ValueError, match="nothing to draw"):
        draw()


@pytest.mark.parametrize("colours", [drawing.LIGHT, drawing.DARK], ids=["light", "dark"])
def test_every_ink_can_be_read_on_its_paper(colours):
    def light(colour):
        shares = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    by_name = dict(re.findall(r"--([a-z]+\d?): (#[0-9a-f]{6})", colours))
    assert len([name for name in by_name if name.startswith("ink")]) == drawing.INKS + 2
    for name, colour in by_name.items():
        if name.startswith("ink") or name == "quiet":
            a, b = sorted((light(colour), light(by_name["paper"])))
            assert (b + 0.05) / (a + 0.05) >= 4.5, name
