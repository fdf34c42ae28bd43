"""JSON under /api: the same answers as the views, for programs."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from murmurlog.web import compare as comparing
from murmurlog.web import parameters as asked
from murmurlog.web import plan as planning
from murmurlog.web import query_lookup as findings
from murmurlog.web import top_list as listing
from murmurlog.web.index import Ints, Sheet
from murmurlog.web.openapi import description
from murmurlog.web.plan import Setting, TradeOff
from murmurlog.web.template_helpers import Room

if TYPE_CHECKING:
    from murmurlog.web.app import Desk

MOST_COMPLETIONS = 50
FIRST = 20  # rows of each list of a comparison


def bundles(request: Request, desk: "Desk") -> JSONResponse:
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
                for book in desk.shelf.books.values()
            ]
        }
    )


def complete(request: Request, desk: "Desk") -> JSONResponse:
    book = asked.book(request, desk.shelf)
    k = asked.whole(request, "k", 10, least=1, most=MOST_COMPLETIONS)
    begun = asked.begun(request, "q", version=book.certificate.normaliser)
    found = [text for text, _ in book.index.complete(begun, k)]
    amounts = [book.index.amount(text) for text in found]
    room = Room()
    return JSONResponse(
        {
            "q": begun,
            "completions": [
                {"query": room.text(text), "count": None if amount is None else amount.as_json()}
                for text, amount in zip(found, amounts, strict=True)
            ],
        }
    )


def query(request: Request, desk: "Desk") -> JSONResponse:
    book = asked.book(request, desk.shelf)
    if not asked.text(request, "q"):
        raise asked.wrong("q is missing: the query that is asked about")
    asked_for = asked.begun(request, "q", version=book.certificate.normaliser).strip()
    return JSONResponse(findings.found(book, asked_for).as_json())


def top(request: Request, desk: "Desk") -> JSONResponse:
    what = listing.wanted(request, asked.book(request, desk.shelf))
    leaf, room = listing.leaf(request, what), Room()
    return JSONResponse(
        {
            "table": what.sheet.name,
            "rows": leaf.all,
            "page": leaf.page,
            "pages": leaf.pages,
            "items": [
                {
                    "rank": row.place,
                    **room.keys(row.keys),
                    "count": None if row.amount is None else row.amount.as_json(),
                }
                for row in leaf.rows
            ],
        }
    )


def certificate(request: Request, desk: "Desk") -> JSONResponse:
    book = asked.book(request, desk.shelf)
    return JSONResponse({"certificate": book.certificate.as_json(), "sha256": dict(book.hashes)})


def verify(request: Request, desk: "Desk") -> JSONResponse:
    book = asked.book(request, desk.shelf)
    return JSONResponse(dict(desk.verified(book.path)))


def setting(request: Request, trade_off: TradeOff) -> Setting:
    """What the sliders say, by value or by step."""
    usual = Setting.usual()
    mechanism = asked.one_of(request, "mechanism", usual.mechanism, trade_off.mechanisms)
    bounds = trade_off.bounds[mechanism]
    usual_bound = usual.per_user if usual.per_user in bounds else bounds[-2]
    return Setting(
        mechanism=mechanism,
        epsilon=_step(request, "epsilon", usual.epsilon, trade_off.epsilons),
        delta=_step(request, "delta", usual.delta, trade_off.deltas),
        per_user=int(_step(request, "per_user", usual_bound, bounds)),
    )


def _step(request: Request, name: str, usual: float, steps: Any) -> float:
    """One of some values: by itself, or as name_step by its place among them."""
    if f"{name}_step" in request.query_params:
        place = asked.whole(request, f"{name}_step", 0, least=0, most=len(steps) - 1)
        return float(steps[place])
    value = asked.number(request, name, usual, least=min(steps), most=max(steps))
    if value not in steps:
        listed = ", ".join(f"{step:g}" for step in steps)
        raise asked.wrong(f"{name} must be one of {listed}, not {value:g}")
    return value


def plan(request: Request, desk: "Desk") -> JSONResponse:
    book = asked.book(request, desk.shelf)
    chosen = setting(request, desk.trade_off)
    planned = desk.planned(chosen)
    foretold = desk.trade_off.at(chosen)
    return JSONResponse(
        {
            "setting": vars(chosen),
            "mechanism": planned.mechanism,
            "guarantee": planned.guarantee.as_json(),
            "sentence": planned.sentence,
            "passes": dict(planned.passes),
            "command": planned.command,
            "foretold": None if foretold is None else vars(foretold),
            "from": desk.trade_off.source,
            "this_bundle": planning.here(book, chosen, planned, foretold),
        }
    )


def compare(request: Request, desk: "Desk") -> JSONResponse:
    a, b, table = pair(request, desk)
    if b is None or table is None:
        raise asked.wrong("with is missing: the bundle to compare with, which shares a table")
    found = comparing.compared(a, b, table)
    both, room = comparing.together(a, b), Room()
    return JSONResponse(
        {
            "b": a.name,
            "with": b.name,
            "table": table,
            "gained": {"rows": len(found.gained), "first": _first(found.after, found.gained, room)},
            "lost": {"rows": len(found.lost), "first": _first(found.before, found.lost, room)},
            "kept": {"rows": len(found.kept[0])},
            "rose": {"rows": len(found.rose[0]), "first": _first(found.after, found.rose[1], room)},
            "fell": {"rows": len(found.fell[0]), "first": _first(found.after, found.fell[1], room)},
            "cost": {
                "b": both.first.as_json(),
                "with": both.second.as_json(),
                "sum": None if both.sum is None else both.sum.as_json(),
                "words": both.words,
            },
        }
    )


def pair(request: Request, desk: "Desk") -> tuple[Any, Any, str | None]:
    """The two bundles of a comparison and the table; None for what there is not."""
    a = asked.book(request, desk.shelf)
    others = [book for book in desk.shelf.books.values() if book is not a]
    b = asked.book(request, desk.shelf, "with", others[0] if others else a)
    if b is a:
        return a, None, None
    tables = comparing.shared_tables(a, b)
    return a, b, asked.one_of(request, "table", tables[0], tables) if tables else None


def _first(sheet: Sheet, rows: Ints, room: Room) -> list[dict[str, Any]]:
    shown = rows[:FIRST]
    amounts = [sheet.amount(int(row)) for row in shown]
    return [
        {**room.keys(keys), "count": None if amount is None else amount.as_json()}
        for keys, amount in zip(sheet.texts(shown), amounts, strict=True)
    ]


def openapi(request: Request, desk: "Desk") -> JSONResponse:
    return JSONResponse(description())
