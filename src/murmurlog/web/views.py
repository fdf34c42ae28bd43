"""The views: each renders a template; completions and a verification are JSON for the script."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from murmurlog.web import parameters
from murmurlog.web.bundles import Book
from murmurlog.web.compare import Comparison, combined_cost, compare_tables, shared_tables
from murmurlog.web.index import Ints
from murmurlog.web.query_lookup import look_up
from murmurlog.web.top_list import Row, list_page, list_request, rows_of, write_rows

if TYPE_CHECKING:
    from murmurlog.web.app import Context

MOST_ASKED = 12
COMPLETIONS = 8
COMPARED = 15  # rows in each list of a comparison
EXPORTS = {"csv": "text/csv; charset=utf-8", "tsv": "text/tab-separated-values; charset=utf-8"}


def explore(request: Request, context: "Context") -> Response:
    book = parameters.book(request, context.shelf)
    if not request.query_params.get("q", "").strip():
        return context.render(request, "explore.html", book=book, q="", **_first_look(book))
    query_text = parameters.prefix(request, "q", book.certificate).strip()
    finding = look_up(book, query_text)
    return context.render(request, "query.html", book=book, q=finding.query, finding=finding)


def _first_look(book: Book) -> dict[str, Any]:
    sheet = book.index.sheets.get("query")
    return {
        "sheet": sheet,
        "most_asked": [] if sheet is None else rows_of(sheet, sheet.first(MOST_ASKED)),
    }


def complete(request: Request, context: "Context") -> JSONResponse:
    """The most frequent published queries with a prefix, without those too long to be looked up."""
    book = parameters.book(request, context.shelf)
    prefix = parameters.prefix(request, "q", book.certificate)
    completions = [
        {"query": text, "count": amount and amount.as_json()}
        for text, _ in book.index.complete(prefix, COMPLETIONS)
        if len(text) <= parameters.MOST_LETTERS
        for amount in [book.index.amount(text)]
    ]
    return JSONResponse({"completions": completions})


def top(request: Request, context: "Context") -> Response:
    book = parameters.book(request, context.shelf)
    what = list_request(request, book)
    page = list_page(request, what)
    most = max([1.0, *(row.amount.most for row in page.rows if row.amount is not None)])
    return context.render(request, "top.html", book=book, what=what, page=page, most=most)


def table_file(request: Request, context: "Context", kind: str) -> Response:
    """All rows of a list as a CSV or TSV file."""
    what = list_request(request, parameters.book(request, context.shelf))
    return StreamingResponse(
        write_rows(what, kind),
        headers={
            "content-type": EXPORTS[kind],
            "content-disposition": f'attachment; filename="{what.sheet.name}.{kind}"',
        },
    )


def privacy(request: Request, context: "Context") -> Response:
    book = parameters.book(request, context.shelf)
    report = None
    if parameters.one_of(request, "check", "no", ("no", "now")) == "now":
        report = context.verify(book.path)
    return context.render(request, "privacy.html", book=book, report=report)


def verify(request: Request, context: "Context") -> JSONResponse:
    """Every check of the bundle, run now."""
    book = parameters.book(request, context.shelf)
    return JSONResponse(dict(context.verify(book.path)))


def compare(request: Request, context: "Context") -> Response:
    a, b, table = _pair(request, context)
    if b is None:
        return context.render(request, "compare.html", book=a, other=None, tables=[], found=None)
    tables = shared_tables(a, b)
    values: dict[str, Any] = {"book": a, "other": b, "tables": tables, "found": None}
    values["cost"] = combined_cost(a, b)
    if table is not None:
        found = compare_tables(a, b, table)
        values |= {"found": found, "table": table, "lists": _lists(found)}
    return context.render(request, "compare.html", **values)


def _pair(request: Request, context: "Context") -> tuple[Any, Any, str | None]:
    """The two bundles and the table of a comparison; None for what is missing."""
    a = parameters.book(request, context.shelf)
    others = [book for book in context.shelf.books.values() if book is not a]
    b = parameters.book(request, context.shelf, "with", others[0] if others else a)
    if b is a:
        return a, None, None
    tables = shared_tables(a, b)
    return a, b, parameters.one_of(request, "table", tables[0], tables) if tables else None


def _lists(found: Comparison) -> list[dict[str, Any]]:
    """Gained, lost, risen and fallen items, with their counts before and after."""

    def entries(before: Ints | None, after: Ints | None) -> list[tuple[Row, Any, Any]]:
        olds = None if before is None else rows_of(found.before, before[:COMPARED])
        news = None if after is None else rows_of(found.after, after[:COMPARED])
        shown = news or olds or []
        return [
            (row, olds[n].amount if olds else None, news[n].amount if news else None)
            for n, row in enumerate(shown)
        ]

    parts = [
        ("Gained", "in the second but not in the first", None, found.gained),
        ("Lost", "in the first but not in the second", found.lost, None),
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
            "sheet": found.before if after is None else found.after,
        }
        for title, words, before, after in parts
    ]
