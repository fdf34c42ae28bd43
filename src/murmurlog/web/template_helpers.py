"""Helpers for templates: bars with intervals, formatted numbers, links. No inline styles."""

from urllib.parse import urlencode

from markupsafe import Markup

from murmurlog.web.index import Amount

WIDE, TALL = 240, 14
LONGEST = 160  # characters of a text in a list; the page of a query shows all of it
MOST_ADDRESS = 2000  # bytes of a link in a list


def bar(amount: Amount | None, most: float) -> Markup:
    """A bar with its interval, or with its lower end if that is all that is known.

    Hidden from screen readers, which read the number beside it.
    """
    if amount is None:
        return Markup("")

    def x(value: float) -> float:
        return round(max(0.0, min(1.0, value / most)) * (WIDE - 2) + 1, 1)

    shade = "fill5" if amount.reliable else "dim"
    parts = [
        f'<rect class="{shade}" x="1" y="3" width="{max(0.8, x(amount.value) - 1):.1f}" height="8"/>'
    ]
    ends = [x(end) for end in (amount.low, amount.high) if end is not None]
    if ends:
        end = x(amount.value) if amount.high is None else ends[-1]
        parts.append(f'<line class="error" x1="{ends[0]}" x2="{end}" y1="7" y2="7"/>')
        parts += [f'<line class="error" x1="{at}" x2="{at}" y1="4" y2="10"/>' for at in ends]
    inside = "".join(parts)
    return Markup(
        f'<svg class="bar" viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="none" aria-hidden="true" focusable="false">{inside}</svg>'
    )


def whole(value: float | None) -> str:
    """A number without decimals."""
    return "–" if value is None else f"{value:,.0f}".replace("-", "\u2212")


def percent(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if value < 0.0995 else f"{100 * value:.0f} %"


def clip(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def query_address(text: str, bundle: str) -> str:
    """The address of a query's page; empty if it is too long for a list."""
    if len(text) > MOST_ADDRESS:
        return ""
    address = f"/?{urlencode({'q': text, 'b': bundle})}"
    return address if len(address) <= MOST_ADDRESS else ""
