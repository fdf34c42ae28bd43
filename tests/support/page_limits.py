"""Lists the lines of prose that are too wide.

    python tests/support/page_limits.py

A line of prose has at most 120 characters. Tables, code blocks and words that cannot be broken may be
wider.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 120
# One unbreakable piece: words joined by a code span or by a link.
PIECE = re.compile(r"(?:\[[^\]]*\]\([^)]*\)|`[^`]*`|\S)+")


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def faults(page: Path) -> Iterator[str]:
    """The lines of a page that are too wide, a sentence each."""
    text = page.read_text(encoding="utf-8")
    name = page.name if page.parent == ROOT else page.relative_to(ROOT).as_posix()
    in_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        prose = not in_code and not line.startswith(("|", "    "))
        if prose and len(line) > WIDTH and len(PIECE.findall(line)) > 1:
            yield f"{name}:{number} has {len(line)} characters"


if __name__ == "__main__":
    wide = [fault for page in pages() for fault in faults(page)]
    sys.exit("\n".join(wide) if wide else 0)
