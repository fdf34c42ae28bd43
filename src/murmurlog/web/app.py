"""The web application: routes, error pages and the guard in front of them.

`make` takes the bundles, and a function that verifies one, from a room that this room may not import. No
address maps to a file: styles and scripts are read at start.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from murmurlog import __version__
from murmurlog.bundle.estimates import describe_interval
from murmurlog.charts import pages
from murmurlog.errors import MurmurlogError
from murmurlog.web import template_helpers, views
from murmurlog.web.bundles import ServedBundles
from murmurlog.web.guard import Guard, Hosts

STATIC = {
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
WORDS = {404: "There is no such page.", 500: "murmurlog has an internal error."}
TITLES = {
    400: "Bad request",
    404: "Not found",
    405: "Read only",
    413: "Request body not allowed",
    414: "Address too long",
    421: "Unknown host name",
    500: "Internal error",
}
Verifier = Callable[[Path], Mapping[str, Any]]  # the report of verify, as JSON
Handler = Callable[[Request, Any], Response]

Stamp = tuple[tuple[str, int, int, int], ...]


def _stamp(folder: Path) -> Stamp:
    """The names, sizes and modification times in a folder: equal if nothing has changed."""
    stats = [(str(path), path.lstat()) for path in sorted([folder, *folder.rglob("*")])]
    return tuple((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats)


@dataclass(kw_only=True)
class Context:
    """The state that all views share."""

    bundles: ServedBundles
    verifier: Verifier
    templates: Environment
    _verifying: threading.Lock = field(default_factory=threading.Lock)
    _reports: dict[Path, tuple[Stamp, Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limiters = map(CapacityLimiter, (CHECKS, COMPARISONS, OTHERS))
        self._checks, self._comparisons, self._others = limiters

    def limiter(self, request: Request) -> CapacityLimiter:
        """The limiter on concurrent requests of this kind."""
        path, check = request.url.path, request.query_params.get("check")
        if path == "/verify" or (path == "/privacy" and check == "now"):
            return self._checks
        return self._comparisons if path in COMPARING else self._others

    def verify(self, path: Path) -> Mapping[str, Any]:
        """The verification report on a bundle; cached until a file of the bundle changes."""
        with self._verifying:
            stamp = _stamp(path)
            if path not in self._reports or self._reports[path][0] != stamp:
                self._reports[path] = (stamp, self.verifier(path))
            return self._reports[path][1]

    def render(
        self, request: Request, name: str, values: Mapping[str, Any], status: int = 200
    ) -> Response:
        """A template with these values as a response."""
        values = {"bundles": self.bundles, "path": request.url.path, **values}
        return HTMLResponse(self.templates.get_template(name).render(values), status)


def make(bundles: ServedBundles, *, verifier: Verifier, hosts: Hosts) -> Guard:
    """The application behind its guard."""
    context = Context(bundles=bundles, verifier=verifier, templates=_templates())
    routes = [Route(path, _in_thread(handler, context)) for path, handler in HANDLERS.items()]
    app = Starlette(
        routes=[*routes, *_static()],
        exception_handlers=dict.fromkeys(
            (HTTPException, MurmurlogError, Exception), _error_handler(context)
        ),
    )
    return Guard(app, hosts=hosts, refusal=_refusal(context))


HANDLERS: dict[str, Handler] = {
    "/": views.explore,
    "/top": views.top,
    "/top.csv": partial(views.table_file, kind="csv"),
    "/top.tsv": partial(views.table_file, kind="tsv"),
    "/privacy": views.privacy,
    "/compare": views.compare,
    "/complete": views.complete,
    "/verify": views.verify,
}


# Concurrent requests of each kind. Checks take long and must not delay others.
CHECKS, COMPARISONS, OTHERS = 2, 2, 8
COMPARING = ("/compare",)
FOR_SCRIPT = ("/complete", "/verify")  # answered as JSON, errors too


def _in_thread(handler: Handler, context: Context) -> Callable[[Request], Any]:
    """The handler, run in a thread so that it does not block the event loop."""

    async def answer(request: Request) -> Response:
        return await to_thread.run_sync(handler, request, context, limiter=context.limiter(request))

    return answer


@cache
def _templates() -> Environment:
    environment = pages.environment("murmurlog.web", "murmurlog.bundle")
    environment.globals |= {
        "version": __version__,
        "bar": template_helpers.bar,
        "query_address": template_helpers.query_address,
    }
    environment.filters |= {
        "whole": template_helpers.whole,
        "percent": template_helpers.percent,
        "interval": describe_interval,
        "clip": template_helpers.clip,
    }
    return environment


def _static() -> list[Route]:
    """Routes of the style sheet, the script and the icon."""
    folder = files("murmurlog.web").joinpath("static")
    style = pages.stylesheet() + folder.joinpath("page.css").read_text(encoding="utf-8")
    contents = {"page.css": (style.encode(), "text/css; charset=utf-8")}
    contents |= {name: (folder.joinpath(name).read_bytes(), kind) for name, kind in STATIC.items()}

    def make_answer(content: bytes, kind: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

        return answer

    return [Route(f"/static/{name}", make_answer(*file)) for name, file in contents.items()]


def _error_response(context: Context, request: Request, status: int, words: str) -> Response:
    """An error: as JSON for the script, else as a page."""
    if request.url.path in FOR_SCRIPT:
        return JSONResponse({"error": words}, status)
    title = TITLES.get(status, "Request failed")
    values = {"title": title, "words": words, "code": status, "bundle": None}
    return context.render(request, "error.html", values, status)


def _error_handler(context: Context) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            missing = error.status_code == 404 and error.detail == "Not Found"  # Starlette's text
            words = WORDS[404] if missing else error.detail
            return _error_response(context, request, error.status_code, words)
        if isinstance(error, MurmurlogError):
            return _error_response(context, request, 400, str(error))
        return _error_response(context, request, 500, WORDS[500])

    return answer


def _refusal(context: Context) -> Callable[[str, int, str], ASGIApp]:
    def refusal(path: str, status: int, words: str) -> ASGIApp:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            response = _error_response(context, Request(scope), status, words)
            await response(scope, receive, send)

        return app

    return refusal
