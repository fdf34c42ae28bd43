"""The page on a bundle of a million queries: start-up, memory, and answers at 50 requests a second.

    python benchmarks/page.py [--queries 1000000] [--seconds 20] [--rate 50]

Publishes a bundle with invented counts (the real mechanism draws the noise), starts `murmurlog serve`
as a process of its own and asks it at a fixed rate, whether it has answered or not: an answer that
waits for others is counted from when it was due. Prints 50th, 95th and 99th percentiles.
"""

import argparse
import http.client
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from sample_bundles import start_server, write_bundle  # noqa: E402

WORKERS = 16


def texts_of(n: int, rng: np.random.Generator) -> list[str]:
    """Distinct queries of two to four words."""
    letters = np.array(list("abcdefghijklmnoprstuvw"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(3, 9, 6000)]
    found: dict[str, None] = {}
    while len(found) < n:
        chosen = (6000 * rng.random((n, 4)) ** 2).astype(int)
        for row, size in zip(chosen, rng.integers(2, 5, n), strict=True):
            found[" ".join(words[i] for i in row[:size])] = None
            if len(found) == n:
                break
    return list(found)


def build(out: Path, queries: int) -> None:
    """A bundle of so many queries, with twice as many clicks and as many pairs."""
    rng = np.random.default_rng(3)
    texts = np.array(texts_of(queries, rng), object)
    users = 400 + (3e6 / np.arange(1, queries + 1) ** 0.8).astype(np.int64)
    sites = np.array([f"site{n}.example/{n % 7}" for n in range(queries // 4)], object)
    asked = np.concatenate([np.arange(queries), rng.integers(0, queries, queries)])
    clicked = (len(sites) * rng.random(len(asked)) ** 3).astype(int)
    click = np.unique(np.stack([asked, clicked]), axis=1)
    then = (queries * rng.random(queries) ** 2).astype(int)
    pair = np.unique(np.stack([np.arange(queries), then]), axis=1)
    pair = pair[:, pair[0] != pair[1]]
    write_bundle(
        out,
        {
            "query": ([list(texts)], users),
            "click": ([list(texts[click[0]]), list(sites[click[1]])], 300 + users[click[0]] // 3),
            "pair": ([list(texts[pair[0]]), list(texts[pair[1]])], 300 + users[pair[0]] // 9),
        },
        title="A million queries",
    )


def addresses(texts: list[str], kind: str, rng: np.random.Generator) -> Iterator[str]:
    """What is asked: popular queries more often, every one now and then."""
    while True:
        text = texts[int(len(texts) * rng.random() ** 3)]
        if kind == "complete":
            yield f"/complete?q={quote(text[: int(rng.integers(1, 9))])}"
        elif kind == "query page":
            yield f"/?q={quote(text)}"
        elif kind == "top page":
            yield f"/top?match={quote(text[: int(rng.integers(1, 5))])}&page={int(rng.integers(1, 4))}"
        else:
            yield f"/top?match={quote('*' + text.split()[1] + '*')}"


def load(port: int, asked: list[str], rate: float) -> np.ndarray:
    """Milliseconds from when each request was due to its whole answer."""
    local, took = threading.local(), np.zeros(len(asked))
    start = time.perf_counter() + 0.2

    def ask(n: int) -> None:
        due = start + n / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        if not hasattr(local, "link"):
            local.link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        local.link.request("GET", asked[n])
        answer = local.link.getresponse()
        answer.read()
        assert answer.status == 200, (answer.status, asked[n])
        took[n] = 1000 * (time.perf_counter() - due)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(ask, range(len(asked))))
    return took


def memory(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    wanted = {"VmRSS": "now", "VmHWM": "at most"}
    found = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if "kB" in line}
    return ", ".join(f"{found[name]:,} MB {words}" for name, words in wanted.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--bundle", type=Path, help="use this one, or make it there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = given.bundle or Path(folder) / "bundle"
        if not bundle.exists():
            start = time.perf_counter()
            build(bundle, given.queries)
            print(f"made {bundle.name} in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        measure(bundle, given.seconds, given.rate)


def measure(bundle: Path, seconds: float, rate: float) -> None:
    from murmurlog.bundle.read import load as load_bundle

    tables = load_bundle(bundle).tables
    print(", ".join(f"{name}: {table.num_rows:,} rows" for name, table in tables.items()))
    texts = tables["query"]["query"].to_pylist()
    start = time.perf_counter()
    with start_server(bundle) as (server, address):
        port = urlsplit(address).port
        link = http.client.HTTPConnection("127.0.0.1", port)
        link.request("GET", "/")
        assert link.getresponse().status == 200
        print(f"start-up: {time.perf_counter() - start:.1f} s to the first page")
        print(f"memory: {memory(server.pid)}")
        time.sleep(5)
        rng = np.random.default_rng(8)
        for kind, part in (
            ("complete", 1),
            ("query page", 1),
            ("top page", 5),
            ("top pattern", 25),
        ):
            at = rate / part
            asked = addresses(texts, kind, rng)
            wanted = [next(asked) for _ in range(int(seconds * at))]
            took = np.sort(load(port, wanted, at))
            middle, most, nearly = (took[int(q * (len(took) - 1))] for q in (0.5, 0.95, 0.99))
            print(
                f"{kind:12} {at:g}/s, {len(took)} requests: median {middle:.1f} ms, p95 {most:.1f} ms, "
                f"p99 {nearly:.1f} ms, slowest {took[-1]:.1f} ms"
            )
        print(f"memory: {memory(server.pid)}")


if __name__ == "__main__":
    main()
