"""Lists the pages that are too long, and the lines of prose that are too wide.

    python tests/support/page_limits.py

A page has at most 2,500 words, and a line of prose at most 120 characters. Tables, code blocks and
words that cannot be broken may be wider.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS, WIDTH = 2500, 120
# One unbreakable piece: words joined by a code span or by a link.
PIECE = re.compile(r"(?:\[[^\]]*\]\([^)]*\)|`[^`]*`|\S)+")


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def faults(page: Path) -> Iterator[str]:
    """What is wrong with a page, a sentence each. The changelog grows and may have more words."""
    text = page.read_text(encoding="utf-8")
    name = page.name if page.parent == ROOT else page.relative_to(ROOT).as_posix()
    words = len(text.split())
    if words > WORDS and name != "CHANGELOG.md":
        yield f"{name} has {words} words"
    in_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        prose = not in_code and not line.startswith(("|", "    "))
        if prose and len(line) > WIDTH and len(PIECE.findall(line)) > 1:
            yield f"{name}:{number} has {len(line)} characters"


if __name__ == "__main__":
    found = [fault for page in pages() for fault in faults(page)]
    sys.exit("\n".join(found) if found else 0)
