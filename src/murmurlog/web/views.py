"""What each view shows: a template and what goes into it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from murmurlog.web import api, openapi
from murmurlog.web import compare as comparing
from murmurlog.web import parameters as asked
from murmurlog.web import plan as planning
from murmurlog.web import query_lookup as findings
from murmurlog.web import top_list as listing
from murmurlog.web.bundles import Book
from murmurlog.web.index import Ints, Sheet
from murmurlog.web.top_list import Row

if TYPE_CHECKING:
    from murmurlog.web.app import Desk

MOST_ASKED = 12
COMPARED = 15  # rows of each list
EXPORTS = {"csv": "text/csv; charset=utf-8", "tsv": "text/tab-separated-values; charset=utf-8"}


def explore(request: Request, desk: "Desk") -> Response:
    book = asked.book(request, desk.shelf)
    if not request.query_params.get("q", "").strip():
        return desk.page(request, "explore.html", book=book, q="", **_first_look(book))
    asked_for = asked.begun(request, "q", version=book.certificate.normaliser).strip()
    finding = findings.found(book, asked_for)
    return desk.page(request, "query.html", book=book, q=finding.query, finding=finding)


def _first_look(book: Book) -> dict[str, Any]:
    sheet = book.index.sheets.get("query")
    rows = range(min(MOST_ASKED, len(sheet))) if sheet is not None else range(0)
    return {
        "sheet": sheet,
        "most_asked": [] if sheet is None else _rows(sheet, list(rows)),
        "facts": Markup(book.facts),
        "pictures": Markup(book.pictures),
        "warnings": Markup(book.warnings),
    }


def _rows(sheet: Sheet, rows: Ints | list[int]) -> list[Row]:
    places = np.asarray(rows, np.int64)
    return [
        Row(
            place=int(row) + 1,
            texts=[str(keys[key]) for key in sheet.keys],
            keys=keys,
            amount=sheet.amount(int(row)),
        )
        for row, keys in zip(places, sheet.texts(places), strict=True)
    ]


def top(request: Request, desk: "Desk") -> Response:
    book = asked.book(request, desk.shelf)
    what = listing.wanted(request, book)
    leaf = listing.leaf(request, what)
    most = max(
        [1.0, *((r.amount.high or r.amount.value) for r in leaf.rows if r.amount is not None)]
    )
    return desk.page(request, "top.html", book=book, what=what, leaf=leaf, most=most)


def csv_file(request: Request, desk: "Desk") -> Response:
    return _file(request, desk, "csv")


def tsv_file(request: Request, desk: "Desk") -> Response:
    return _file(request, desk, "tsv")


def _file(request: Request, desk: "Desk", kind: str) -> Response:
    what = listing.wanted(request, asked.book(request, desk.shelf))
    return StreamingResponse(
        listing.written(what, kind),
        headers={
            "content-type": EXPORTS[kind],
            "content-disposition": f'attachment; filename="{what.sheet.name}.{kind}"',
        },
    )


def privacy(request: Request, desk: "Desk") -> Response:
    book = asked.book(request, desk.shelf)
    report = None
    if asked.one_of(request, "check", "no", ("no", "now")) == "now":
        report = desk.verified(book.path)
    return desk.page(
        request,
        "privacy.html",
        book=book,
        report=report,
        warnings=Markup(book.warnings),
        label=Markup(book.label),
        facts=Markup(book.facts),
        waterfall=Markup(book.waterfall),
        fine_print=Markup(book.fine_print),
    )


def plan(request: Request, desk: "Desk") -> Response:
    book = asked.book(request, desk.shelf)
    chosen = api.setting(request, desk.trade_off)
    planned = desk.planned(chosen)
    foretold = desk.trade_off.at(chosen)
    pictures = desk.trade_off.pictures(chosen, book)
    part = asked.one_of(request, "part", "all", ("all", "outcome")) == "outcome"
    return desk.page(
        request,
        "outcome.html" if part else "plan.html",
        book=book,
        chosen=chosen,
        planned=planned,
        trade_off=desk.trade_off,
        foretold=foretold,
        here=planning.here(book, chosen, planned, foretold),
        pictures=[Markup(svg) for svg in pictures],
        words=planning.WORDS,
    )


def compare(request: Request, desk: "Desk") -> Response:
    a, b, table = api.pair(request, desk)
    if b is None:
        return desk.page(request, "compare.html", book=a, other=None, tables=[], found=None)
    tables = comparing.shared_tables(a, b)
    context: dict[str, Any] = {"book": a, "other": b, "tables": tables, "found": None}
    context["together"] = comparing.together(a, b)
    if table is not None:
        found = comparing.compared(a, b, table)
        context |= {"found": found, "table": table, "lists": _lists(found)}
    return desk.page(request, "compare.html", **context)


def _lists(found: comparing.Comparison) -> list[dict[str, Any]]:
    """Gained, lost, risen and fallen items, with their counts before and after."""

    def entries(before: Ints | None, after: Ints | None) -> list[tuple[Row, Any, Any]]:
        olds = None if before is None else _rows(found.before, before[:COMPARED])
        news = None if after is None else _rows(found.after, after[:COMPARED])
        shown = news or olds or []
        return [
            (row, olds[n].amount if olds else None, news[n].amount if news else None)
            for n, row in enumerate(shown)
        ]

    parts = [
        ("Gained", "in the second and not in the first", None, found.gained),
        ("Lost", "in the first and not in the second", found.lost, None),
        ("Rose", "by more than noise explains", *found.rose),
        ("Fell", "by more than noise explains", *found.fell),
    ]
    return [
        {
            "title": title,
            "words": words,
            "all": len(after if after is not None else before if before is not None else ()),
            "entries": entries(before, after),
            "both": before is not None and after is not None,
        }
        for title, words, before, after in parts
    ]


def interface(request: Request, desk: "Desk") -> Response:
    return desk.page(request, "interface.html", book=None, paths=openapi.PATHS)
