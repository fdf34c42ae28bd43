"""Pages from Jinja templates: one HTML file with its own style, no external resources, no script.

The colour scheme follows the reader's system; on a phone charts are stacked and tables scroll in
their own box. Every text is escaped, but for the SVG of our own charts.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from murmurlog.charts.svg import COLOURS, DRAWING
from murmurlog.privacy.rounding import chance, guess, loss_of_several, odds, round_up_text

if TYPE_CHECKING:
    from jinja2 import Environment

SHARED = "murmurlog.charts"  # has the layout, page.html, and macros, blocks.html


def render(package: str, template: str, values: Mapping[str, Any]) -> str:
    """A template of a package, rendered with these values."""
    return environment(package).get_template(template).render(values)


@cache
def environment(*packages: str) -> "Environment":
    """The templates of these packages and the shared ones; an undefined name is an error."""
    # Late: only what writes a page needs Jinja.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["truncate.leeway"] = 0
    templates.globals |= {"odds": odds, "guess": guess, "chance": chance, "stylesheet": stylesheet}
    templates.globals |= {"loss_of_several": loss_of_several}
    templates.filters |= {"round_up": round_up_text, "thousands": "{:,}".format}
    return templates


@cache
def stylesheet() -> str:
    """The CSS of all pages and of the charts in them."""
    css = files(SHARED).joinpath("templates", "page.css").read_text(encoding="utf-8")
    return f"{COLOURS}{css}{DRAWING}"
