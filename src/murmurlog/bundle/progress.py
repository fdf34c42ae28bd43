"""How a long task reports what it does: a text for each stage, and how much of it is done.

`say` is a function of a text wherever the package takes one: say("reading log.csv") begins a stage. A
`Reporter` is such a function that takes numbers, too. What is reported is for the person who waits; it
never reaches a bundle.
"""

from collections.abc import Callable
from typing import Protocol


class Advance(Protocol):
    """Reports that a part is done; `rows` where the total is not counted in rows (bytes, say)."""

    def __call__(self, part: float = 1, *, rows: int | None = None) -> None: ...


class Reporter(Protocol):
    """A function of a text that can also tell how far the work is."""

    def __call__(self, text: str) -> None: ...

    def measure(self, *, total: float | None, unit: str) -> Advance: ...

    def measure_all(self, text: str, *, total: float | None, unit: str) -> Advance: ...


def measure(
    say: Callable[[str], None],
    *,
    total: float | Callable[[], float | None] | None = None,
    unit: str = "rows",
) -> Advance:
    """A function to call whenever a part of the current stage is done.

    A total that is slow to compute can be a function; it is called only if progress is measured.
    """
    start: Callable[..., Advance] | None = getattr(say, "measure", None)
    if start is None:
        return _ignore
    return start(total=total() if callable(total) else total, unit=unit)


def measure_all(
    say: Callable[[str], None], text: str, *, total: float | None, unit: str
) -> Advance:
    """A function to call whenever a part of a task of many stages is done."""
    start: Callable[..., Advance] | None = getattr(say, "measure_all", None)
    return _ignore if start is None else start(text, total=total, unit=unit)


def _ignore(part: float = 1, *, rows: int | None = None) -> None:
    """Reports nothing: a plain function takes only the names of stages."""
