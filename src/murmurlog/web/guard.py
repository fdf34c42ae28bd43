"""Access control and rate limits: middleware that sees every request before the application.

Read-only: GET and HEAD. It refuses foreign Host headers, so that no other site can reach the page
through its own name (DNS rebinding), and adds headers that isolate every response from other sites.
"""

import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
METHODS = ("GET", "HEAD")
MOST_TARGET = 64_000  # bytes of path and query string: a query of 10 kB fits, however it is written
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?")
# A token bucket for each address: its capacity, and tokens a second. A token is worth about 1/150 s
# of one core, so that one address cannot occupy more than one core.
BURST, A_SECOND, CLIENTS = 300.0, 150.0, 1024
HEAVY = {
    **dict.fromkeys(("/api/verify", "/privacy", "/top.csv", "/top.tsv"), 30.0),
    **dict.fromkeys(("/compare", "/api/compare"), 10.0),
}
LISTS = ("/top", "/api/top")
# Per token: bytes of the address, rows searched or sorted, rows written.
BYTES_A_TOKEN, ROWS_A_TOKEN, WRITTEN_A_TOKEN = 2000, 50_000, 5_000
SEARCHES = re.compile(rb"(?:^|&)(?:match=[^&]*(?:[*?]|%2a|%3f)|sort=(?!count))", re.I)


def cost(path: str, query: bytes, rows: int) -> float:
    """The tokens of a request, at most BURST; `rows` is the size of the largest table."""
    tokens = HEAVY.get(path, 1.0) + len(query) / BYTES_A_TOKEN
    if path in LISTS and SEARCHES.search(query):
        tokens += rows / ROWS_A_TOKEN
    if path.startswith("/top."):
        tokens += rows / WRITTEN_A_TOKEN
    return min(BURST, tokens)


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The host names under which the page may be requested.

    `address` is the address that the server listens on. On loopback only names of loopback are
    allowed; elsewhere any IP address, since a foreign site cannot own one, and the given names.
    """

    address: str = "127.0.0.1"
    port: int | None = None
    names: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        return self.address == "localhost" or ipaddress.ip_address(self.address).is_loopback

    def allow(self, header: str) -> bool:
        match = HOST.fullmatch(header.strip().lower())
        if not match or (match[2] and self.port is not None and int(match[2]) != self.port):
            return False
        host = match[1].rstrip(".")
        return host in LOOPBACK or host in self.names or (not self.loopback and _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


class Meter:
    """The remaining tokens of each client address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, cost: float) -> float:
        """0 if the address may make the request now, else the seconds to wait."""
        now = self._clock()
        left, before = self._left.pop(client, (BURST, now))
        left = min(BURST, left + (now - before) * A_SECOND)
        wait = max(0.0, (cost - left) / A_SECOND)
        self._left[client] = (left if wait else left - cost, now)
        while len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return wait


Refusal = Callable[[str, int, str], ASGIApp]  # makes a response from a path, a status and a message


class Guard:
    """The application behind all checks. `refusal` makes the response to a refused request.

    `rows` is the size of the largest table: requests about whole tables cost more tokens.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Hosts, refusal: Refusal, meter: Meter, rows: int = 0
    ) -> None:
        self.app, self.hosts, self.refusal, self.meter = app, hosts, refusal, meter
        self.rows = rows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        more: list[tuple[bytes, bytes]] = []
        fault = self._fault(scope, more)
        app = self.app if fault is None else self.refusal(scope["path"], *fault)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _closed([*message["headers"], *more])}
            await send(message)

        await app(scope, receive, sending)

    def _fault(self, scope: Scope, more: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """The status and message if a request must be refused."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self.hosts.allow(hosts[0]):
            return 421, "This page is not served under that host name."
        if scope["method"] not in METHODS:
            more.append((b"allow", ", ".join(METHODS).encode()))
            return 405, "This page is read-only: use GET or HEAD."
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_TARGET:
            return 414, f"This address is longer than {MOST_TARGET:,} bytes."
        body = dict(headers)
        if b"transfer-encoding" in body or body.get(b"content-length", b"0").strip() != b"0":
            return 413, "This page accepts no request body: leave it empty."
        client = (scope.get("client") or ("", 0))[0]
        tokens = cost(scope["path"], scope["query_string"], self.rows)
        if wait := self.meter.take(client, tokens):
            more.append((b"retry-after", str(max(1, round(wait + 0.5))).encode()))
            return 429, "There were too many requests at once: wait a moment and try again."
        return None


def _closed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response with the security headers."""
    found = [(name, value) for name, value in headers if name.decode().lower() not in HEADERS]
    if not any(name.lower() == b"cache-control" for name, _ in found):
        found.append((b"cache-control", b"no-store"))
    return found + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
