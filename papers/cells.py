"""A number that a paper prints, beside the same number computed again and what is true."""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Decimal
from typing import Any

Truth = float | tuple[float, float]  # a number, or (epsilon, delta)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number: as printed, by the paper's own formula, and as proved.

    `reason` says why the first two differ where rounding does not explain it; `note` what is true.
    """

    name: str
    printed: str | None
    recomputed: float | None
    true: Truth | None
    reason: str = ""
    note: str = ""

    @property
    def matched(self) -> bool | None:
        """Whether printed and recomputed agree to the printed digits; None if one is missing."""
        if self.printed is None or self.recomputed is None:
            return None
        return difference(self.printed, self.recomputed) == ""

    @property
    def verdict(self) -> str:
        """matched, or why not."""
        if self.matched:
            return "matched"
        if self.reason:
            return self.reason
        if self.printed is None:
            return "no printed number"
        if self.recomputed is None:
            return "not computed"
        return difference(self.printed, self.recomputed)

    def as_json(self) -> dict[str, Any]:
        return {
            "cell": self.name,
            "printed": None if self.printed is None else float(self.printed),
            "recomputed": self.recomputed,
            "true": list(self.true) if isinstance(self.true, tuple) else self.true,
            "matched": self.matched,
            "verdict": self.verdict,
            "note": self.note,
        }


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of a paper: what it is about and its cells. The last two columns have own names."""

    paper: str
    name: str
    about: str
    cells: tuple[Cell, ...]
    columns: tuple[str, str] = ("recomputed", "true")

    def as_json(self) -> dict[str, Any]:
        return {
            "paper": self.paper,
            "table": self.name,
            "about": self.about,
            "columns": dict(zip(("recomputed", "true"), self.columns, strict=True)),
            "cells": [cell.as_json() for cell in self.cells],
        }

    def rows(self) -> list[list[str]]:
        """The cells as texts, below a heading."""
        heading = ["cell", "printed", *self.columns, "verdict"]
        return [heading] + [
            [c.name, c.printed or "-", _text(c.recomputed), _text(c.true), c.verdict]
            for c in self.cells
        ]

    def notes(self) -> list[str]:
        """Each note once, with the cells it is about unless that is all of them."""
        found: dict[str, list[str]] = {}
        for cell in self.cells:
            if cell.note:
                found.setdefault(cell.note, []).append(cell.name)
        everywhere = len(self.cells)
        return [
            note if len(names) == everywhere else f"{_listed(names)}: {note}"
            for note, names in found.items()
        ]


def difference(printed: str, recomputed: float) -> str:
    """How a printed number differs from a computed one; nothing if it is that number, rounded."""
    shown, exact = Decimal(printed), Decimal(repr(float(recomputed)))
    unit = Decimal((0, (1,), int(shown.as_tuple().exponent)))
    rounded = exact.quantize(unit, ROUND_HALF_EVEN)
    if rounded == shown:
        return ""
    right = f"{rounded:e}" if "e" in printed else str(rounded)
    if exact.quantize(unit, ROUND_DOWN) == shown:
        return f"truncated; {right} when rounded"
    if exact.quantize(unit, ROUND_UP) == shown:
        return f"rounded up; {right} when rounded"
    return f"differs; {right} when rounded"


def _text(value: Truth | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return f"({value[0]:.6g}, {value[1]:.3g})"
    return f"{value:.6g}"


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} and {len(names) - 1} more"
