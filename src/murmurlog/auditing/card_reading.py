"""Parsers that split a card of any version into the content that its format fixes, and its wording.

The parsers are strict: they reject everything unknown (a comment, a script, an unknown attribute, a
repeated key), so that nothing in a card escapes the checks.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from murmurlog.auditing.check import CheckFailed, require
from murmurlog.bundle import plain_yaml

# The keys whose values are wording, in the cards that are data.
PROSE = {
    "croissant.json": ("description", "rai:personalSensitiveInformation", "rai:dataLimitations"),
    "datapackage.json": ("description",),
    "deployment.yaml": (
        *("description", "intended_use", "data_domain", "privacy_unit_details", "actors"),
        *("privacy_parameters_details", "post_processing", "composition", "mechanisms"),
        "preprocessing_and_hyperparameter_tuning",
    ),
}
Path = tuple[str | int, ...]

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, kw_only=True)
class Card:
    """The fixed content of a card by its path, and the passages of its wording with their paths."""

    fixed: dict[Path, Any] = field(default_factory=dict)
    passages: list[tuple[Path, str]] = field(default_factory=list)

    def text(self, *where: str) -> str:
        """The passages at a path, or all."""
        return "\n".join(text for at, text in self.passages if not where or at == where)


def read_card(name: str, content: bytes) -> Card:
    """Parses a card; raises CheckFailed where it is not well-formed for a card of this name."""
    try:
        text = content.decode()
        require(
            text.endswith("\n") and not CONTROL.search(text),
            f"{name} does not end with a line break, or has control characters",
        )
        if name == "README.md":
            return _read_markdown(text)
        if name == "report.html":
            return _Page(text).card
        value = _read_json(text) if name.endswith(".json") else plain_yaml.read(text)
    except (ValueError, RecursionError) as error:
        raise CheckFailed(f"{name} is not a well-formed card: {str(error)[:200]}") from None
    card = Card()
    for path, leaf in _leaves(value):
        worded = isinstance(leaf, str) and path[-1] in PROSE[name]
        card.fixed[path] = "worded" if worded else _typed(leaf)
        if worded:
            card.passages.append((path, leaf))
    return card


def _typed(leaf: Any) -> tuple[str, Any]:
    return type(leaf).__name__, leaf  # to Python, true is 1


def _leaves(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, (*at, key))
    else:
        yield at, value


def _read_json(text: str) -> Any:
    value = json.loads(text)
    if json.dumps(value, indent=2, ensure_ascii=False) + "\n" != text:  # so no key is repeated
        raise ValueError("it is not plain indented JSON, or repeats a key")
    return value


def _read_markdown(text: str) -> Card:
    """README.md. Its front matter, title, tables and code are fixed."""
    opening, front, body = text.split("---\n", 2) if text.count("---\n") >= 2 else ("x", "", "")
    if opening or body.endswith("\n\n"):
        raise ValueError("it has no front matter, or ends in empty lines")
    leaves = _leaves(plain_yaml.read(front), ("front matter",))
    card = Card(fixed={path: _typed(leaf) for path, leaf in leaves})
    titles, tables, code, inside = list[str](), list[str](), list[str](), False
    for line in body.splitlines():
        fence = line.startswith("```")
        if fence or inside:
            code.append(line)
            inside ^= fence
        elif line.startswith("|"):
            tables.append(line)
        elif line.startswith("# "):
            titles.append(line)
        elif line:
            card.passages.append(((), line))
    card.fixed.update({("title",): titles, ("tables",): tables, ("code",): code})
    return card


# --- HTML -----------------------------------------------------------------------------------------

VOID = {"meta", "link"}
INLINE = {"b", "small", "bdi", "code"}
SHAPES = {"line", "rect", "circle", "polyline", "path"}
TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer"),
    *("section", "div", "p", "h1", "h2", "h3", "ul", "li", "dl", "dt", "dd", "figure", "svg"),
    *("figcaption", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "text"),
    *(INLINE | SHAPES),
}
NUMBERS = r"[-0-9., ]*"
ATTRIBUTES = {  # and the patterns of their values; screen readers read a label, so it is a passage
    "class": r"[a-z0-9 ]*",
    "lang": "en",
    "charset": "utf-8",
    "rel": "icon",
    "href": "data:,",
    "role": "img|note",
    "tabindex": "0",
    "open": "",
    "name": r"[a-z-]+",
    "http-equiv": "Content-Security-Policy",
    "content": r".*",
    "aria-label": r".*",
    **dict.fromkeys(("viewbox", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r"), NUMBERS),
    **dict.fromkeys(("width", "height", "points", "stroke-width"), NUMBERS),
}
# A style may not add text, fetch or hide anything.
STYLE = re.compile(r"content\s*:|url\s*\(|@import|\\|display\s*:\s*none|visibility|/\*", re.I)
SPLIT = re.compile(r"[\d.,]\Z"), re.compile(r"[\d.,eE]")


class _Page(HTMLParser):
    """report.html. Its titles, metadata and table rows are fixed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.block: list[str] = []  # texts of the innermost block so far
        self.rows: list[list[str]] = []
        self.meta: list[list[str]] = []
        self.titles: list[tuple[str, str]] = []
        self.card = Card()
        head, _, text = text.partition("\n")
        if head != "<!doctype html>" or re.search(r"<(?!/?[a-z])", text):
            raise ValueError("it has no doctype, or has a comment or a declaration")
        self.feed(text)
        self.close()
        self._end_block()
        if self.open or self.rawdata:
            raise ValueError(f"it ends inside {self.open[-1:] or 'markup'}")
        fixed = {"rows": self.rows, "metadata": self.meta, "titles": self.titles}
        self.card.fixed.update({(name,): value for name, value in fixed.items()})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(tag, attrs)
        if tag in VOID:
            return
        if tag not in INLINE:
            self._end_block()
        if tag == "tr" and "tbody" in self.open:
            self.rows.append([])
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(tag, attrs)
        if tag not in SHAPES:
            raise ValueError(f"it has an empty element {tag!r:.40}")

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        wrong = [
            name
            for name, value in values.items()
            if name not in ATTRIBUTES or not re.fullmatch(ATTRIBUTES[name], value)
        ]
        misplaced = tag in {"text", *SHAPES} and "svg" not in self.open
        if tag not in TAGS or misplaced or wrong or len(values) < len(attrs):
            raise ValueError(f"it has an element {tag!r:.40} {', '.join(wrong)[:100]}")
        if "aria-label" in values:
            self.card.passages.append((("svg",), values["aria-label"]))
        if tag in VOID:
            self.meta.append([tag, *(text for pair in values.items() for text in pair)])
        elif "content" in values or "name" in values:
            raise ValueError(f"it has metadata in {tag!r:.40}")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            raise ValueError(f"it closes an element {tag!r:.40} that is not open")
        if tag not in INLINE:
            self._end_block()
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            if found := STYLE.search(data):
                raise ValueError(f"its style has {found[0]!r:.40}")
        elif data.strip():
            if self.block and SPLIT[0].search(self.block[-1]) and SPLIT[1].match(data):
                raise ValueError("a number is split between elements")
            self.block.append(data)

    def _end_block(self) -> None:
        text, self.block = " ".join(" ".join(self.block).split()), []
        if "tbody" in self.open and self.open[-1] == "td":
            self.rows[-1].append(text)
        elif text and self.open[-1:] in (["title"], ["h1"]):
            self.titles.append((self.open[-1], text))
        elif text:
            where = "svg" if "svg" in self.open else (self.open or [""])[-1]
            self.card.passages.append(((where,), text))
