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
    """Measures the stage at hand; call what comes back whenever a part of `total` is done.

    A total that takes time to find is a function; it is called only if somebody is told the numbers.
    """
    measured: Callable[..., Advance] | None = getattr(say, "measure", None)
    if measured is None:
        return _ignore
    return measured(total=total() if callable(total) else total, unit=unit)


def measure_all(
    say: Callable[[str], None], text: str, *, total: float | None, unit: str
) -> Advance:
    """Measures a task of many stages."""
    measured: Callable[..., Advance] | None = getattr(say, "measure_all", None)
    return _ignore if measured is None else measured(text, total=total, unit=unit)


def _ignore(part: float = 1, *, rows: int | None = None) -> None:
    """To a plain function only stages are reported."""
