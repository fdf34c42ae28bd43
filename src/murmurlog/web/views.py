"""The views: each renders a template; completions and a verification are JSON for the script."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from murmurlog.bundle.models.derived_tables import Ints
from murmurlog.web import parameters
from murmurlog.web.compare import Comparison, combined_cost, compare_tables, shared_tables
from murmurlog.web.query_lookup import look_up
from murmurlog.web.top_list import Row, list_page, read_selection, rows_of, write_rows

if TYPE_CHECKING:
    from murmurlog.web.app import Context

MOST_FREQUENT = 12
COMPLETIONS = 8
COMPARED = 15  # rows in each list of a comparison
EXPORTS = {"csv": "text/csv; charset=utf-8", "tsv": "text/tab-separated-values; charset=utf-8"}


def explore(request: Request, context: "Context") -> Response:
    """The page of a query, or the start page."""
    bundle = parameters.bundle(request, context.bundles)
    if not request.query_params.get("q", "").strip():
        sheet = bundle.index.sheets.get("query")
        rows = [] if sheet is None else rows_of(sheet, sheet.first(MOST_FREQUENT))
        values = {"bundle": bundle, "q": "", "sheet": sheet, "most_frequent": rows}
        return context.render(request, "explore.html", values)
    query = parameters.prefix(request, "q", bundle.certificate).strip()
    values = {"bundle": bundle, "q": query, "finding": look_up(bundle, query)}
    return context.render(request, "query.html", values)


def complete(request: Request, context: "Context") -> JSONResponse:
    """The most frequent published queries with a prefix, without those too long to be looked up."""
    index = parameters.bundle(request, context.bundles).index
    prefix = parameters.prefix(request, "q", index.certificate)
    completions = [
        {"query": text, "count": amount and amount.as_json()}
        for text, _ in index.complete(prefix, COMPLETIONS)
        if len(text) <= parameters.MOST_LETTERS
        for amount in [index.amount(text)]
    ]
    return JSONResponse({"completions": completions})


def top(request: Request, context: "Context") -> Response:
    """A page of a table."""
    bundle = parameters.bundle(request, context.bundles)
    selection = read_selection(request, bundle)
    page = list_page(request, selection)
    most = max([1.0, *(row.amount.most for row in page.rows if row.amount is not None)])
    values = {"bundle": bundle, "selection": selection, "page": page, "most": most}
    return context.render(request, "top.html", values)


def table_file(request: Request, context: "Context", kind: str) -> Response:
    """All rows of a list as a CSV or TSV file."""
    selection = read_selection(request, parameters.bundle(request, context.bundles))
    return StreamingResponse(
        write_rows(selection, kind),
        headers={
            "content-type": EXPORTS[kind],
            "content-disposition": f'attachment; filename="{selection.sheet.name}.{kind}"',
        },
    )


def privacy(request: Request, context: "Context") -> Response:
    """The privacy label, the checks and the hashes of a bundle."""
    bundle = parameters.bundle(request, context.bundles)
    report = None
    if parameters.one_of(request, "check", "no", ("no", "now")) == "now":
        report = context.verify(bundle.path)
    return context.render(request, "privacy.html", {"bundle": bundle, "report": report})


def verify(request: Request, context: "Context") -> JSONResponse:
    """Every check of the bundle, run now."""
    bundle = parameters.bundle(request, context.bundles)
    return JSONResponse(dict(context.verify(bundle.path)))


def compare(request: Request, context: "Context") -> Response:
    """The changes in a table from one bundle to another, and what both cost."""
    a = parameters.bundle(request, context.bundles)
    others = [bundle for bundle in context.bundles.by_name.values() if bundle is not a]
    b = parameters.bundle(request, context.bundles, "with", others[0] if others else a)
    values: dict[str, Any] = {"bundle": a, "other": None, "tables": [], "comparison": None}
    if b is not a:
        tables = shared_tables(a, b)
        values |= {"other": b, "tables": tables, "cost": combined_cost(a, b)}
        if tables:
            table = parameters.one_of(request, "table", tables[0], tables)
            comparison = compare_tables(a, b, table)
            values |= {"comparison": comparison, "table": table, "parts": _parts(comparison)}
    return context.render(request, "compare.html", values)


def _parts(comparison: Comparison) -> list[dict[str, Any]]:
    """Gained, lost, risen and fallen items, with their counts before and after."""

    def entries(before: Ints | None, after: Ints | None) -> list[tuple[Row, Any, Any]]:
        old = None if before is None else rows_of(comparison.before, before[:COMPARED])
        new = None if after is None else rows_of(comparison.after, after[:COMPARED])
        return [
            (row, old[n].amount if old else None, new[n].amount if new else None)
            for n, row in enumerate(new or old or [])
        ]

    parts = [
        ("Gained", "in the second but not in the first", None, comparison.gained),
        ("Lost", "in the first but not in the second", comparison.lost, None),
        ("Rose", "by more than noise explains", *comparison.rose),
        ("Fell", "by more than noise explains", *comparison.fell),
    ]
    return [
        {
            "title": title,
            "words": words,
            "all": len(after if after is not None else before if before is not None else ()),
            "entries": entries(before, after),
            "both": before is not None and after is not None,
            "sheet": comparison.before if after is None else comparison.after,
        }
        for title, words, before, after in parts
    ]
