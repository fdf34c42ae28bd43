"""Building blocks of charts: colours, axes, frames, text.

Colours are close to those of Okabe and Ito, which colour-blind people can distinguish, darker or
lighter where the background needs it. The same numbers give the same bytes on every machine.
"""

import html
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

INKS = 8  # number of colours, after which they repeat
NEUTRAL = INKS  # a grey, for the reference that the others are compared with
LETTER = 6.6  # approximate width in pixels of a letter at 12 pixels; wide letters take twice that
LINE = 17  # height in pixels of a further line of a title

LIGHT = """--ink: #1c1c1a; --quiet: #595955; --paper: #fffefb; --grid: #dedcd3; --faint: #a3a19a;
  --ink0: #0069a6; --ink1: #b94c00; --ink2: #00805d; --ink3: #a8457f; --ink4: #8f6a00;
  --ink5: #1f78aa; --ink6: #6a5acd; --ink7: #7a4a2b; --ink8: #63625c;"""
DARK = """--ink: #ecebe6; --quiet: #aeada6; --paper: #171716; --grid: #3b3a37; --faint: #7d7b75;
  --ink0: #5db3e8; --ink1: #f28a3c; --ink2: #3cc49a; --ink3: #e39ac2; --ink4: #e6b93d;
  --ink5: #86cdf2; --ink6: #b0a5f5; --ink7: #cf9f7e; --ink8: #a5a39b;"""
FONTS = """--sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC",
  "Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Symbols", sans-serif;"""
DRAWING = """
svg text { font: 12px var(--sans); fill: var(--ink); }
svg .title { font-size: 14px; font-weight: 600; }
svg .quiet { fill: var(--quiet); }
svg .minor { font-size: 10.5px; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--quiet); stroke-width: 1; }
svg .rule { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 3 3; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .error { stroke: var(--ink); stroke-width: 1.2; opacity: 0.75; }
svg .hollow { fill: var(--paper); }
svg .pale { opacity: 0.32; }
svg .faint { stroke: var(--faint); } svg .dim { fill: var(--faint); }
""" + "\n".join(
    f"svg .line{n} {{ stroke: var(--ink{n}); }} svg .fill{n} {{ fill: var(--ink{n}); }}"
    for n in range(INKS + 1)
)
COLOURS = (
    f":root {{ color-scheme: light dark; {FONTS} {LIGHT} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}\n"
)

# --- where things are -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of values and the ticks in it; `log` for a logarithmic one."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """The relative position of a value between the ends, from 0 to 1."""
        low, high, at = (self.low, self.high, value)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(at, self.low))
        # Rounded, so that the last bit of a machine's logarithm never moves a point.
        return round((at - low) / (high - low), 9)


def linear(most: float, least: float = 0.0) -> Axis:
    """From 0, or a round number below it, to a round number that is at least `most`."""
    reach = max(most, -least)
    step = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 0.1
    step *= next((f for f in (0.2, 0.5, 1.0) if reach <= 6 * f * step), 2.0)
    first = -math.ceil(-least / step - 1e-9) if least < 0 else 0
    last = max(0 if first else 1, math.ceil(most / step - 1e-9))
    ticks = tuple(n * step for n in range(first, last + 1))
    return Axis(low=first * step, high=last * step, ticks=ticks)


def decades(least: float, most: float) -> Axis:
    """A logarithmic axis from a power of ten to a power of ten."""
    first = math.floor(math.log10(least) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(most) - 1e-9))
    ticks = tuple(10.0**n for n in range(first, last + 1))
    return Axis(low=ticks[0], high=ticks[-1], ticks=ticks, log=True)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The size of a chart and the margins around its plot."""

    width: int
    height: float
    left: int
    right: int
    top: int
    bottom: int

    @property
    def end(self) -> int:
        """The right edge of the plot."""
        return self.width - self.right

    @property
    def foot(self) -> float:
        """The bottom edge of the plot."""
        return self.height - self.bottom

    def x(self, axis: Axis, value: float) -> float:
        return round(self.left + axis.share(value) * (self.end - self.left), 1)

    def y(self, axis: Axis, value: float) -> float:
        return round(self.foot - axis.share(value) * (self.foot - self.top), 1)


# --- what all charts have -------------------------------------------------------------------------


def ink_of(n: int) -> int:
    return n if n == NEUTRAL else n % INKS


def draw_title(title: str, frame: Frame) -> tuple[list[str], Frame]:
    """The title in one or two lines, and the frame enlarged for it."""
    room = 0.86 * frame.width  # its letters are larger
    if sum(map(_width, title)) <= room:
        return [text_at(0, 18, title, "title")], frame
    first = clip(title, room).removesuffix("…")
    if " " in first:
        first = first[: first.rindex(" ")]
    second = clip(title[len(first) :].strip(), room)
    taller = replace(frame, top=frame.top + LINE, height=frame.height + LINE)
    return [text_at(0, 18, first, "title"), text_at(0, 18 + LINE, second, "title")], taller


def y_grid(axis: Axis, frame: Frame, *, percent: bool) -> list[str]:
    """The grid of a vertical axis."""
    parts = []
    for tick in axis.ticks:
        y = frame.y(axis, tick)
        kind = "axis" if tick == axis.low else "grid"
        parts.append(f'<line class="{kind}" x1="{frame.left}" x2="{frame.end}" y1="{y}" y2="{y}"/>')
        parts.append(text_at(frame.left - 8, y + 4, tick_text(tick, axis, percent), "quiet end"))
    return parts


def x_ticks(axis: Axis, frame: Frame, label: str) -> list[str]:
    """The tick labels of a horizontal axis that fit, and its title."""
    parts, before = list[str](), -math.inf
    for tick in axis.ticks:
        x, text = frame.x(axis, tick), tick_text(tick, axis, False)
        if x - before >= 8 + LETTER * len(text):
            parts.append(text_at(x, frame.foot + 18, text, "quiet middle"))
            before = x
    middle = (frame.left + frame.end) / 2
    parts.append(text_at(middle, frame.height - 6, label, "quiet middle"))
    return parts


def tick_text(value: float, axis: Axis, percent: bool) -> str:
    if percent:
        step = 100 * (axis.ticks[1] - axis.ticks[0])
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return f"{value:.{digits}%}"
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def number(value: float, *, percent: bool = False) -> str:
    """A value in few characters."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if percent:
        return f"{100 * value:.{1 if abs(value) >= 0.01 else 2}f}%" if value else "0%"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"


def clip(text: str, room: float) -> str:
    """A text shortened to `room` pixels."""
    if sum(map(_width, text)) <= room:
        return text
    prefix, width = "", _width("…")
    for letter in text:
        width += _width(letter)
        if width > room:
            break
        prefix += letter
    return prefix.rstrip() + "…"


def _width(letter: str) -> float:
    return 2 * LETTER if unicodedata.east_asian_width(letter) in "WF" else LETTER


def text_at(x: float, y: float, text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{x}" y="{y:.1f}">{html.escape(text)}</text>'


def svg_chart(parts: Sequence[str], title: str, frame: Frame) -> str:
    label, inside = html.escape(title, quote=True), "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{label}">\n'
        f"{inside}\n</svg>"
    )


def alone(svg: str) -> str:
    """The chart as a standalone file with its style."""
    style = f"<style>{COLOURS}\nsvg {{ background: var(--paper); }}\n{DRAWING}</style>"
    head, _, rest = svg.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">\n{style}{rest}\n'
