"""Attacks on the page as a process, byte by byte; docs/how-to/page.md lists them with their results."""

import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sample_bundles

pytestmark = pytest.mark.slow
HOST, CLOSE = b"Host: 127.0.0.1\r\n", b"Connection: close\r\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("wire")
    with sample_bundles.serve_bundles(
        sample_bundles.write_small_bundle(root / "spring")
    ) as address:
        yield urlsplit(address).hostname, urlsplit(address).port


def send(place, request, *, wait=5.0):
    """All that comes back for these bytes."""
    with socket.create_connection(place, timeout=wait) as link:
        link.sendall(request)
        answer = b""
        try:
            while part := link.recv(65_536):
                answer += part
        except ConnectionResetError:  # it did not read to the end: what was sent was too long
            answer = answer or b"HTTP/1.1 400 closed"
    return answer


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET /../../../../etc/passwd HTTP/1.1", 404),
        (b"GET /static/../../cli/main.py HTTP/1.1", 404),
        (b"GET /static/%2e%2e%2f%2e%2e%2fcli/main.py HTTP/1.1", 404),
        (b"GET /%00 HTTP/1.1", 404),
        (b"GET http://evil.example/ HTTP/1.1", 404),
        (b"GET //evil.example/ HTTP/1.1", 404),
        (b"GET /?q=%ff%fe%00 HTTP/1.1", 200),
        (b"GET /?q=%0d%0aSet-Cookie:%20a=b HTTP/1.1", 200),
        (b"GET /top.csv?table=query%0d%0aX:1 HTTP/1.1", 400),
        (b"GET /?b=%2e%2e HTTP/1.1", 404),
        (b"CONNECT evil.example:443 HTTP/1.1", 405),
        (b"TRACE / HTTP/1.1", 405),
        (b"PROPFIND / HTTP/1.1", 405),
        (b"POST /verify HTTP/1.1", 405),
        (b"GET /?" + b"a=b&" * 15_000 + b" HTTP/1.1", 200),
        (b"GET /?q=" + b"a" * 70_000 + b" HTTP/1.1", 414),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1", 400),
        (b"GARBAGE", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
    ],
    ids=lambda value: str(value)[:48],
)
def test_odd_requests_are_answered_as_they_should(address, request_line, expected):
    answer = send(address, request_line + b"\r\n" + HOST + CLOSE + b"\r\n")
    assert status(answer) == expected, answer[:300]
    assert b"root:" not in answer
    assert b"set-cookie" not in answer.split(b"\r\n\r\n")[0].lower()
    assert b"Traceback" not in answer


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"", 400),  # none at all: HTTP/1.1 needs one
        (b"Host: evil.example\r\n", 421),
        (b"Host: 127.0.0.1\r\nHost: evil.example\r\n", 400),
        (b"Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1\r\n", 421),
        (b"Host: 127.0.0.1\r\nX-Forwarded-For: 1.2.3.4\r\n", 200),
        (b"Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n", 200),
        (b"Host: 127.0.0.1\r\nContent-Length: 5\r\n", 413),
        (b"Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n", 413),
        (b"Host: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 413),
        (b"Host: 127.0.0.1\r\nUpgrade: websocket\r\n", 200),
        (b"Host: 127.0.0.1\r\nX: " + b"y" * 150_000 + b"\r\n", 400),
    ],
    ids=lambda value: str(value)[:48],
)
def test_odd_headers_are_answered_as_they_should(address, headers, expected):
    answer = send(address, b"GET /privacy HTTP/1.1\r\n" + headers + CLOSE + b"\r\n")
    assert status(answer) == expected, answer[:300]
    if expected != 200:
        assert b"SHA-256" not in answer
    assert b"access-control-allow-origin" not in answer.lower()  # other sites cannot read along


def test_a_second_request_hidden_in_the_first_is_not_answered(address):
    hidden = b"GET /privacy HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
    first = b"GET / HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: %d\r\n\r\n" % len(hidden)
    answer = send(address, first + hidden)
    assert status(answer) == 413
    assert b"SHA-256" not in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_idle_and_slow_clients_do_not_stop_others(address):
    links = [socket.create_connection(address, timeout=5) for _ in range(60)]
    try:
        for link in links:
            link.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
        start = time.monotonic()
        answer = send(address, b"GET /complete?q=w HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        assert status(answer) == 200
        assert time.monotonic() - start < 3
    finally:
        for link in links:
            link.close()


def test_it_listens_on_loopback_only(address):
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("no /proc/net/tcp on this machine")
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    listening = {row[1] for row in rows if row[3] == "0A"}
    ours = {local for local in listening if int(local.split(":")[1], 16) == address[1]}
    assert ours == {f"0100007F:{address[1]:04X}"}
