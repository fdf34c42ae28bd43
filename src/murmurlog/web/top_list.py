"""The Top view: a table filtered, sorted and paged, or written as CSV or TSV."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from starlette.requests import Request

from murmurlog.bundle.export import cell, escape_cell
from murmurlog.bundle.models.derived_tables import Ints
from murmurlog.bundle.report import key_text
from murmurlog.web import parameters
from murmurlog.web.bundles import ServedBundle
from murmurlog.web.index import SORTS, Amount, Sheet

SIZES = (25, 50, 100, 200)
BATCH = 5_000  # rows written at a time
MOST_PAGES = 10**8
MOST_PATTERN = 2000  # characters
MOST_WILD = 16  # of * and ?; each makes the search for a pattern slower


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rows of a table that match a pattern, in an order."""

    bundle: ServedBundle
    sheet: Sheet
    match: str
    column: str
    sort: str
    falling: bool

    def rows(self) -> Ints:
        return self.sheet.find(self.match, column=self.column, sort=self.sort, falling=self.falling)

    def parameters(self, page: int | None = None) -> dict[str, str | int]:
        """The parameters of a request for a page of the list; defaults are left out."""
        values: dict[str, str | int] = {
            "b": self.bundle.name,
            "table": self.sheet.name,
            "match": self.match,
            "column": self.column if self.column != self.sheet.keys[0] else "",
            "sort": self.sort if self.sort != "count" else "",
            "order": "" if self.falling == (self.sort == "count") else _order(self.falling),
            "page": page or "",
        }
        return {name: value for name, value in values.items() if value != ""}

    def parameters_sorted_by(self, sort: str) -> dict[str, str | int]:
        """The parameters of the list in another order; reversed if it already has that order."""
        # By default counts are descending, texts and errors ascending.
        falling = not self.falling if sort == self.sort else sort == "count"
        return replace(self, sort=sort, falling=falling).parameters()


def _order(falling: bool) -> str:
    return "falling" if falling else "rising"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a page of the table."""

    place: int  # rank by count in the whole table
    texts: list[str]
    keys: dict[str, Any]
    amount: Amount | None


@dataclass(frozen=True, kw_only=True)
class ListPage:
    """One page of the list."""

    rows: list[Row]
    all: int
    page: int
    pages: int
    size: int

    @property
    def first(self) -> int:
        return (self.page - 1) * self.size + 1 if self.rows else 0


def read_selection(request: Request, bundle: ServedBundle) -> Selection:
    """The selection that a request states."""
    names = bundle.index.tables
    if not names:
        raise parameters.bad_request("this bundle has no table that can be listed", 404)
    sheet = bundle.index.sheets[parameters.one_of(request, "table", names[0], names)]
    sort = parameters.one_of(request, "sort", "count", SORTS)
    order = parameters.one_of(request, "order", _order(sort == "count"), ("falling", "rising"))
    return Selection(
        bundle=bundle,
        sheet=sheet,
        match=_pattern(request, bundle),
        column=parameters.one_of(request, "column", sheet.keys[0], sheet.keys),
        sort=sort,
        falling=order == "falling",
    )


def _pattern(request: Request, bundle: ServedBundle) -> str:
    """The pattern, cleaned as keys are; a trailing space is kept."""
    pattern = parameters.pattern(request, "match", bundle.certificate, most=MOST_PATTERN)
    if sum(map(pattern.count, parameters.WILD)) > MOST_WILD:
        raise parameters.bad_request(f"match has more than {MOST_WILD} of * and ?: use fewer")
    return pattern


def list_page(request: Request, selection: Selection) -> ListPage:
    """The requested page; the last one if there are fewer."""
    size = int(parameters.one_of(request, "size", "50", [str(n) for n in SIZES]))
    page = parameters.integer(request, "page", 1, least=1, most=MOST_PAGES)
    rows = selection.rows()
    pages = max(1, math.ceil(len(rows) / size))
    page = min(page, pages)
    page_rows = rows_of(selection.sheet, rows[(page - 1) * size : page * size])
    return ListPage(rows=page_rows, all=len(rows), page=page, pages=pages, size=size)


def rows_of(sheet: Sheet, rows: Ints) -> list[Row]:
    """Some rows of a table with their texts and counts."""
    return [
        Row(
            place=int(row) + 1,
            texts=[key_text(keys[key]) for key in sheet.keys],
            keys=keys,
            amount=sheet.amount(int(row)),
        )
        for row, keys in zip(rows, sheet.texts(rows), strict=True)
    ]


def write_rows(selection: Selection, kind: str) -> Iterator[bytes]:
    """All rows as CSV or TSV, in batches. No cell is a formula to a spreadsheet."""
    table, rows = selection.sheet.table, selection.rows()
    yield _lines([[escape_cell(name) for name in table.column_names]], kind)
    for begin in range(0, len(rows), BATCH):
        batch = table.take(pa.array(rows[begin : begin + BATCH])).to_pylist()
        yield _lines([[cell(value) for value in row.values()] for row in batch], kind)


def _lines(rows: list[list[str]], kind: str) -> bytes:
    if kind == "tsv":  # normalised text has no tabs, so nothing is quoted
        return "".join("\t".join(row) + "\n" for row in rows).encode()
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
