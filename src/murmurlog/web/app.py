"""The application: routes, errors, and what stands before both.

`make` takes the folders of bundles and two functions of the other side of the wall: one that plans
and one that verifies. Nothing here maps an address to a file: styles and scripts are read at start.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from murmurlog import __version__
from murmurlog.charts import html as paper
from murmurlog.errors import MurmurlogError
from murmurlog.web import api, views
from murmurlog.web import template_helpers as marks
from murmurlog.web.bundles import Shelf
from murmurlog.web.guard import Guard, Hosts, Meter
from murmurlog.web.plan import Planned, Planner, Setting, TradeOff

STATIC = {
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
WORDS = {404: "There is no such page.", 500: "Something is broken in murmurlog itself."}
TITLES = {
    400: "That cannot be asked",
    404: "Not here",
    405: "Read only",
    413: "Too much",
    414: "Too long",
    421: "Another name",
    429: "Slowly",
    500: "Broken",
}
Verifier = Callable[[Path], Mapping[str, Any]]  # the report of verify, as JSON
Handler = Callable[[Request, Any], Response]

Stamp = tuple[tuple[str, int, int, int], ...]


def _stamp(folder: Path) -> Stamp:
    """What tells that nothing in a folder was touched: names, sizes, and when they last changed."""
    stats = [(str(path), path.lstat()) for path in sorted([folder, *folder.rglob("*")])]
    return tuple((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats)


@dataclass(kw_only=True)
class Desk:
    """What every view works with."""

    shelf: Shelf
    trade_off: TradeOff
    planner: Planner
    verifier: Verifier
    templates: Environment
    _planning: threading.Lock = field(default_factory=threading.Lock)
    _verifying: threading.Lock = field(default_factory=threading.Lock)
    _reports: dict[Path, tuple[Stamp, Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._planned = lru_cache(maxsize=1024)(self.planner)
        self._checks, self._plans, self._others = map(CapacityLimiter, (CHECKS, PLANS, OTHERS))

    def lane(self, request: Request) -> CapacityLimiter:
        """Where a request waits for its turn."""
        path, check = request.url.path, request.query_params.get("check")
        if path == "/api/verify" or (path == "/privacy" and check == "now"):
            return self._checks
        return self._plans if path in PLANNING else self._others

    def planned(self, setting: Setting) -> Planned:
        """A plan; one is made at a time, and remembered."""
        with self._planning:
            return self._planned(setting)

    def verified(self, path: Path) -> Mapping[str, Any]:
        """The report on a bundle as it is on disk now; made again when a file has changed."""
        with self._verifying:
            stamp = _stamp(path)
            if path not in self._reports or self._reports[path][0] != stamp:
                self._reports[path] = (stamp, self.verifier(path))
            return self._reports[path][1]

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> Response:
        """A template as an answer."""
        shown = self.templates.get_template(name).render(
            shelf=self.shelf, path=request.url.path, **context
        )
        return HTMLResponse(shown, status)


def make(shelf: Shelf, *, planner: Planner, verifier: Verifier, hosts: Hosts) -> Guard:
    """The application, guarded."""
    desk = Desk(
        shelf=shelf,
        trade_off=TradeOff.built_in(),
        planner=planner,
        verifier=verifier,
        templates=_templates(),
    )
    routes = [Route(path, _bound(handler, desk)) for path, handler in HANDLERS.items()]
    app = Starlette(
        routes=[*routes, *_static()],
        exception_handlers={
            HTTPException: _refused(desk),
            MurmurlogError: _refused(desk),
            Exception: _refused(desk),
        },
    )
    return Guard(app, hosts=hosts, refusal=_refusal(desk), meter=Meter(), rows=shelf.rows)


HANDLERS: dict[str, Handler] = {
    "/": views.explore,
    "/top": views.top,
    "/top.csv": views.csv_file,
    "/top.tsv": views.tsv_file,
    "/privacy": views.privacy,
    "/plan": views.plan,
    "/compare": views.compare,
    "/api": views.interface,
    "/api/bundles": api.bundles,
    "/api/complete": api.complete,
    "/api/query": api.query,
    "/api/top": api.top,
    "/api/certificate": api.certificate,
    "/api/verify": api.verify,
    "/api/plan": api.plan,
    "/api/compare": api.compare,
    "/api/openapi.json": api.openapi,
}


# How many questions of a kind are worked on at a time. Checks take long: they must not hold up others.
CHECKS, PLANS, OTHERS = 2, 2, 8
PLANNING = ("/plan", "/api/plan", "/compare", "/api/compare")


def _bound(handler: Handler, desk: Desk) -> Callable[[Request], Any]:
    """The handler, which works in a thread: the loop that reads requests never waits for it."""

    async def answer(request: Request) -> Response:
        return await to_thread.run_sync(handler, request, desk, limiter=desk.lane(request))

    return answer


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("murmurlog.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"version": __version__, "bar": marks.bar, "odds": paper.odds}
    environment.globals |= {"chance": paper.chance, "address": marks.address}
    environment.filters |= {"whole": marks.whole, "percent": marks.percent, "clip": marks.clip}
    return environment


def _static() -> list[Route]:
    """Styles, script and icon, each at an address of its own."""
    folder = files("murmurlog.web").joinpath("static")
    style = paper.CSS + folder.joinpath("page.css").read_text(encoding="utf-8")
    held = {"page.css": (style.encode(), "text/css; charset=utf-8")}
    held |= {name: (folder.joinpath(name).read_bytes(), kind) for name, kind in STATIC.items()}

    def answering(content: bytes, kind: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

        return answer

    return [Route(f"/static/{name}", answering(*what)) for name, what in held.items()]


def _said(desk: Desk, request: Request, status: int, words: str) -> Response:
    """An error as JSON or as a page, depending on who asks."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"status": status, "error": words}, status)
    title = TITLES.get(status, "That did not work")
    return desk.page(
        request, "error.html", status, title=title, words=words, code=status, book=None
    )


def _refused(desk: Desk) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            words = error.detail if error.status_code == 400 else WORDS.get(error.status_code, "")
            if error.status_code == 404 and error.detail != "Not Found":
                words = error.detail
            return _said(desk, request, error.status_code, words or error.detail)
        if isinstance(error, MurmurlogError):
            return _said(desk, request, 400, str(error))
        return _said(desk, request, 500, WORDS[500])

    return answer


def _refusal(desk: Desk) -> Callable[[str, int, str], ASGIApp]:
    def refusal(path: str, status: int, words: str) -> ASGIApp:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            response = _said(desk, Request(scope), status, words)
            await response(scope, receive, send)

        return app

    return refusal
