"""The JSON interface under /api: the content of the views, for programs."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from murmurlog.web import parameters
from murmurlog.web.compare import combined_cost, compare_tables, shared_tables
from murmurlog.web.index import Ints, Sheet, count_json
from murmurlog.web.openapi import description
from murmurlog.web.query_lookup import look_up
from murmurlog.web.template_helpers import TextBudget
from murmurlog.web.top_list import list_page, list_request

if TYPE_CHECKING:
    from murmurlog.web.app import Context

MOST_COMPLETIONS = 50
FIRST = 20  # rows in each list of a comparison


def bundles(request: Request, context: "Context") -> JSONResponse:
    return JSONResponse(
        {
            "bundles": [
                {
                    "name": book.name,
                    "title": book.title,
                    "release_id": book.certificate.release_id,
                    "published": book.certificate.published,
                    "private": book.certificate.private,
                    "guarantee": book.certificate.guarantee.as_json(),
                    "tables": {n: claim.rows for n, claim in book.certificate.tables.items()},
                }
                for book in context.shelf.books.values()
            ]
        }
    )


def complete(request: Request, context: "Context") -> JSONResponse:
    book = parameters.book(request, context.shelf)
    k = parameters.integer(request, "k", 10, least=1, most=MOST_COMPLETIONS)
    prefix = parameters.prefix(request, "q", book.certificate)
    budget = TextBudget()
    completions = [
        {"query": budget.text(text), "count": count_json(book.index.amount(text))}
        for text, _ in book.index.complete(prefix, k)
    ]
    return JSONResponse({"q": prefix, "completions": completions})


def query(request: Request, context: "Context") -> JSONResponse:
    book = parameters.book(request, context.shelf)
    if not parameters.text(request, "q"):
        raise parameters.bad_request("q is missing: the query to look up")
    query_text = parameters.prefix(request, "q", book.certificate).strip()
    return JSONResponse(look_up(book, query_text).as_json())


def top(request: Request, context: "Context") -> JSONResponse:
    what = list_request(request, parameters.book(request, context.shelf))
    page, budget = list_page(request, what), TextBudget()
    return JSONResponse(
        {
            "table": what.sheet.name,
            "rows": page.all,
            "page": page.page,
            "pages": page.pages,
            "items": [
                {"rank": row.place, **budget.keys(row.keys), "count": count_json(row.amount)}
                for row in page.rows
            ],
        }
    )


def certificate(request: Request, context: "Context") -> JSONResponse:
    book = parameters.book(request, context.shelf)
    return JSONResponse({"certificate": book.certificate.as_json(), "sha256": dict(book.hashes)})


def verify(request: Request, context: "Context") -> JSONResponse:
    book = parameters.book(request, context.shelf)
    return JSONResponse(dict(context.verify(book.path)))


def compare(request: Request, context: "Context") -> JSONResponse:
    a, b, table = pair(request, context)
    if b is None or table is None:
        raise parameters.bad_request(
            "with is missing: the bundle to compare with, which shares a table"
        )
    found = compare_tables(a, b, table)
    both, budget = combined_cost(a, b), TextBudget()
    return JSONResponse(
        {
            "b": a.name,
            "with": b.name,
            "table": table,
            "gained": {
                "rows": len(found.gained),
                "first": _first(found.after, found.gained, budget),
            },
            "lost": {"rows": len(found.lost), "first": _first(found.before, found.lost, budget)},
            "kept": {"rows": len(found.kept[0])},
            "rose": {
                "rows": len(found.rose[0]),
                "first": _first(found.after, found.rose[1], budget),
            },
            "fell": {
                "rows": len(found.fell[0]),
                "first": _first(found.after, found.fell[1], budget),
            },
            "cost": {
                "b": both.first.as_json(),
                "with": both.second.as_json(),
                "sum": None if both.sum is None else both.sum.as_json(),
                "words": both.words,
            },
        }
    )


def pair(request: Request, context: "Context") -> tuple[Any, Any, str | None]:
    """The two bundles and the table of a comparison; None for what is missing."""
    a = parameters.book(request, context.shelf)
    others = [book for book in context.shelf.books.values() if book is not a]
    b = parameters.book(request, context.shelf, "with", others[0] if others else a)
    if b is a:
        return a, None, None
    tables = shared_tables(a, b)
    return a, b, parameters.one_of(request, "table", tables[0], tables) if tables else None


def _first(sheet: Sheet, rows: Ints, budget: TextBudget) -> list[dict[str, Any]]:
    shown = rows[:FIRST]
    return [
        {**budget.keys(keys), "count": count_json(sheet.amount(int(row)))}
        for row, keys in zip(shown, sheet.texts(shown), strict=True)
    ]


def openapi(request: Request, context: "Context") -> JSONResponse:
    return JSONResponse(description())
