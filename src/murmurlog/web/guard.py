"""Access control: middleware that sees every request before the application.

Read-only: GET and HEAD. It refuses foreign Host headers, so that no other site can reach the page
through its own name (DNS rebinding), and adds headers that isolate every response from other sites.
"""

import ipaddress
import re
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


Refusal = Callable[[str, int, str], ASGIApp]  # makes a response from a path, a status and a message


class Guard:
    """The application behind all checks. `refusal` makes the response to a refused request."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, refusal: Refusal) -> None:
        self.app, self.hosts, self.refusal = app, hosts, refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        fault = self._fault(scope)
        app = self.app if fault is None else self.refusal(scope["path"], *fault)
        allow = [(b"allow", ", ".join(METHODS).encode())] if fault and fault[0] == 405 else []

        async def send_isolated(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = _add_security_headers([*message["headers"], *allow])
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_isolated)

    def _fault(self, scope: Scope) -> tuple[int, str] | None:
        """The status and message if a request must be refused."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self.hosts.allow(hosts[0]):
            return 421, "This page is not served under that host name."
        if scope["method"] not in METHODS:
            return 405, "This page is read-only: use GET or HEAD."
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_TARGET:
            return 414, f"This address is longer than {MOST_TARGET:,} bytes."
        by_name = dict(headers)
        length = by_name.get(b"content-length", b"0").strip()
        if b"transfer-encoding" in by_name or length != b"0":
            return 413, "This page accepts no request body: leave it empty."
        return None


def _add_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response with the security headers; not cached unless they state otherwise."""
    result = [(name, value) for name, value in headers if name.decode().lower() not in HEADERS]
    if not any(name.lower() == b"cache-control" for name, _ in result):
        result.append((b"cache-control", b"no-store"))
    return result + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
