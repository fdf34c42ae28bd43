"""Charts as SVG: no script, no external resources, deterministic output.

Every line has its name at its end and its own dash pattern, so that a chart is readable in grey.
Most charts are as wide as a phone; a page puts several side by side where they fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from murmurlog.charts.svg import (
    Axis,
    Frame,
    clip,
    decades,
    draw_title,
    ink_of,
    linear,
    number,
    svg_chart,
    text_at,
    tick_text,
    x_ticks,
    y_grid,
)

DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 3", "6 2 1 2")
APART = 15  # pixels between the names of two lines
NONE_AT = 28  # pixels right of the axis, for values without an x
WIDE = Frame(width=720, height=380, left=70, right=150, top=40, bottom=48)
COLUMN = Frame(width=400, height=264, left=58, right=130, top=34, bottom=46)
SQUARE = Frame(width=400, height=276, left=58, right=24, top=34, bottom=44)


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A single value; `x` is None where it has no position on the axis."""

    x: float | None
    y: float
    ink: int
    low: float | None = None
    high: float | None = None


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x_label: str,
    percent: bool,
    log: bool = True,
    dots: Mapping[str, Dot] | None = None,
    inks: Mapping[str, int] | None = None,
    none: str = "none",
    frame: Frame = WIDE,
) -> str:
    """An SVG with a line for each name and with dots, over a logarithmic or linear x axis.

    Dots without an x are drawn beside the plot, over the word `none`.
    """
    dots, inks = dots or {}, inks or {}
    points = [point for line in series.values() for point in line]
    xs = [x for x, _ in points] + [dot.x for dot in dots.values() if dot.x is not None]
    ys = [y for _, y in points]
    ys += [y for d in dots.values() for y in (d.y, d.low, d.high) if y is not None]
    if not ys:
        raise ValueError("there is nothing to draw")
    x_axis = _x_axis(xs or [1.0], log=log)
    y_axis = linear(max(ys), min(ys))
    parts, frame = draw_title(title, frame)
    parts += [*y_grid(y_axis, frame, percent=percent), *x_ticks(x_axis, frame, x_label)]
    names = {name: frame.y(y_axis, line[-1][1]) for name, line in series.items()}
    names |= {name: frame.y(y_axis, dot.y) for name, dot in dots.items()}
    if any(dot.x is None for dot in dots.values()):
        parts.append(text_at(frame.end + NONE_AT, frame.foot + 18, none, "quiet middle"))
    for n, (name, line) in enumerate(series.items()):
        ink = ink_of(inks.get(name, n))
        path = " ".join(f"{frame.x(x_axis, x)},{frame.y(y_axis, y)}" for x, y in line)
        parts.append(
            f'<polyline class="line{ink}" points="{path}" '
            f'stroke-dasharray="{DASHES[ink % len(DASHES)]}"/>'
        )
        parts += [
            f'<circle class="fill{ink}" cx="{frame.x(x_axis, x)}" cy="{frame.y(y_axis, y)}" r="3"/>'
            for x, y in line
        ]
    for dot in dots.values():
        x = frame.end + NONE_AT if dot.x is None else frame.x(x_axis, dot.x)
        parts += _vertical_interval(x, dot.low, dot.high, y_axis, frame)
        parts.append(
            f'<circle class="line{ink_of(dot.ink)} hollow" cx="{x}" cy="{frame.y(y_axis, dot.y)}" '
            f'r="4.5" stroke-width="2"/>'
        )
    at = frame.end + (NONE_AT + 12 if any(dot.x is None for dot in dots.values()) else 10)
    ends = _spread(list(names.values()), frame.foot)
    for n, (name, end) in enumerate(zip(names, ends, strict=True)):
        ink = ink_of(dots[name].ink if name in dots else inks.get(name, n))
        kind = "" if frame.width == WIDE.width else f"fill{ink}"
        parts.append(text_at(at, end + 4, clip(name, frame.width - at), kind))
    return svg_chart(parts, title, frame)


def _x_axis(xs: Sequence[float], *, log: bool) -> Axis:
    places = sorted(set(xs))
    if not log:
        return linear(places[-1])
    low, high = places[0], places[-1]
    if low == high:
        low, high = low / 2, high * 2
    return Axis(low=low, high=high, ticks=tuple(places), log=True)


def _spread(heights: Sequence[float], foot: float) -> list[float]:
    """The heights moved apart where names would overlap, in the same order."""
    order = sorted(range(len(heights)), key=lambda n: heights[n])
    moved = [heights[n] for n in order]
    for place in range(1, len(moved)):
        moved[place] = max(moved[place], moved[place - 1] + APART)
    # Names below the plot are moved up, and push up the ones above them.
    floor = float(foot)
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], floor)
        floor = moved[place] - APART
    result = [0.0] * len(heights)
    for n, height in zip(order, moved, strict=True):
        result[n] = round(height, 1)
    return result


# --- ranks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of a rank-frequency chart, coloured or grey."""

    rank: float
    count: float
    coloured: bool = True
    low: float | None = None
    high: float | None = None


def ranks(
    marks: Sequence[Mark],
    *,
    title: str,
    x_label: str,
    ink: int = 0,
    within: tuple[float, float] | None = None,
    rule: tuple[float, str] | None = None,
    curve: bool = False,
    frame: Frame = SQUARE,
) -> str:
    """Counts over their rank, both logarithmic. `within`: the last rank and the highest count, for
    charts to be compared; `rule`: a labelled horizontal line; `curve`: a thin line through all points.
    """
    if not marks:
        raise ValueError("there is nothing to draw")
    last, most = within or (max(m.rank for m in marks), max(m.count for m in marks))
    x_axis, y_axis = decades(1, max(10.0, last)), decades(1, max(10.0, most))
    parts, frame = draw_title(title, frame)
    parts += [*y_grid(y_axis, frame, percent=False), *x_ticks(x_axis, frame, x_label)]
    if rule is not None and 1 <= rule[0] <= y_axis.high:
        y = frame.y(y_axis, rule[0])
        parts.append(f'<line class="rule" x1="{frame.left}" x2="{frame.end}" y1="{y}" y2="{y}"/>')
        parts.append(text_at(frame.left + 5, y + 14, rule[1], "quiet"))  # where no curve comes
    points = [(m, frame.x(x_axis, m.rank), frame.y(y_axis, max(1.0, m.count))) for m in marks]
    if curve:
        path = " ".join(f"{x},{y}" for _, x, y in points)
        parts.append(f'<polyline class="faint" points="{path}" stroke-width="1"/>')
    for mark, x, _ in points:
        if mark.low is not None and mark.high is not None:
            low, high = (frame.y(y_axis, max(1.0, v)) for v in (mark.low, mark.high))
            shade = f"line{ink_of(ink)}" if mark.coloured else "faint"
            parts.append(
                f'<line class="{shade} pale" x1="{x}" x2="{x}" y1="{low}" y2="{high}" '
                f'stroke-width="3"/>'
            )
    # Grey points first, so that coloured ones are on top.
    for mark, x, y in sorted(points, key=lambda point: point[0].coloured):
        shade, r = (f"fill{ink_of(ink)}", 2.6) if mark.coloured else ("dim", 2)
        parts.append(f'<circle class="{shade}" cx="{x}" cy="{y}" r="{r}"/>')
    return svg_chart(parts, title, frame)


# --- bars -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value with its interval, by name. `pale` ones are drawn lighter and thinner."""

    name: str
    value: float
    ink: int
    low: float | None = None
    high: float | None = None
    pale: bool = False


BARS = Frame(width=400, height=0, left=128, right=58, top=34, bottom=30)  # as high as it needs
THICK, THIN, GAP = 14, 7, 9


def bars(rows: Sequence[Bar], *, title: str, percent: bool, frame: Frame = BARS) -> str:
    """Horizontal bars. Consecutive rows with the same name share one group and its label."""
    if not rows:
        raise ValueError("there is nothing to draw")
    ends = [v for b in rows for v in (b.value, b.low, b.high) if v is not None]
    axis = linear(max(0.0, *ends), min(0.0, *ends))
    parts, frame = draw_title(title, frame)
    y = float(frame.top)
    for n, bar in enumerate(rows):
        new = n == 0 or rows[n - 1].name != bar.name
        y += GAP if new and n else 3 if n else 0
        tall = THIN if bar.pale else THICK
        zero, end = frame.x(axis, 0.0), frame.x(axis, bar.value)
        pale = " pale" if bar.pale else ""
        parts.append(
            f'<rect class="fill{ink_of(bar.ink)}{pale}" x="{min(zero, end)}" y="{y}" '
            f'width="{abs(end - zero):.1f}" height="{tall}"/>'
        )
        if bar.low is not None and bar.high is not None:
            parts += _horizontal_interval(y + tall / 2, bar.low, bar.high, axis, frame)
        if new:
            name = clip(bar.name, frame.left - 10)
            parts.append(text_at(frame.left - 8, y + tall / 2 + 4, name, "end"))
        figure = number(bar.value, percent=percent)
        parts.append(
            text_at(frame.width, y + tall / 2 + 4, figure, "end quiet minor" if bar.pale else "end")
        )
        y += tall
    return _draw_bars(parts, axis, y, title, percent=percent, frame=frame)


def waterfall(
    steps: Sequence[tuple[str, float]], *, title: str, total: tuple[str, float] | None = None
) -> str:
    """A waterfall chart: each step begins where the previous one ends; then their sum, then `total`."""
    if not steps:
        raise ValueError("there is nothing to draw")
    whole = math.fsum(value for _, value in steps)
    axis = linear(max(whole, total[1] if total else 0.0))
    rows, at = list[tuple[str, float, float, str]](), 0.0
    for name, value in steps:
        rows.append((name, at, at + value, "fill5"))
        at += value
    if len(steps) > 1:
        rows.append(("sum", 0.0, whole, "dim"))
    if total is not None:
        rows.append((total[0], 0.0, total[1], "fill0"))
    parts, frame = draw_title(title, BARS)
    y, before = float(frame.top), 0.0
    for n, (name, low, high, shade) in enumerate(rows):
        left, right = frame.x(axis, low), frame.x(axis, high)
        parts.append(
            f'<rect class="{shade}" x="{left}" y="{y}" width="{max(1.0, right - left):.1f}" '
            f'height="{THICK}"/>'
        )
        if n and shade == "fill5":
            parts.append(
                f'<line class="axis" x1="{before}" x2="{before}" y1="{y - GAP - 1}" y2="{y}"/>'
            )
        parts.append(text_at(frame.left - 8, y + THICK / 2 + 4, clip(name, frame.left - 10), "end"))
        parts.append(text_at(frame.width, y + THICK / 2 + 4, f"{high - low:.3g}", "end"))
        before = right
        y += THICK + GAP
    return _draw_bars(parts, axis, y - GAP, title, percent=False, frame=frame)


def _draw_bars(
    parts: list[str], axis: Axis, foot: float, title: str, *, percent: bool, frame: Frame
) -> str:
    """The chart of bars with title and grid; its height fits the bars."""
    grid, gap = list[str](), math.inf  # pixels since the last label
    for tick in axis.ticks:
        x = frame.x(axis, tick)
        kind = "axis" if tick == 0 else "grid"
        grid.append(
            f'<line class="{kind}" x1="{x}" x2="{x}" y1="{frame.top - 5}" y2="{foot + 5}"/>'
        )
        if gap >= 34:
            grid.append(text_at(x, foot + 19, tick_text(tick, axis, percent), "quiet middle"))
            gap = 0.0
        gap += (frame.end - frame.left) / max(1, len(axis.ticks) - 1)
    return svg_chart([*grid, *parts], title, replace(frame, height=foot + frame.bottom))


def _horizontal_interval(y: float, low: float, high: float, axis: Axis, frame: Frame) -> list[str]:
    """An interval across a bar."""
    a, b = frame.x(axis, low), frame.x(axis, high)
    return [
        f'<line class="error" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
        *(f'<line class="error" x1="{x}" x2="{x}" y1="{y - 3}" y2="{y + 3}"/>' for x in (a, b)),
    ]


def _vertical_interval(
    x: float, low: float | None, high: float | None, axis: Axis, frame: Frame
) -> list[str]:
    """An interval above and below a dot."""
    if low is None or high is None:
        return []
    a, b = frame.y(axis, low), frame.y(axis, high)
    return [f'<line class="error" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>']
