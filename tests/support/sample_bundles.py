"""Sample bundles: invented counts, released by the real mechanism. `verify` holds for them."""

import hashlib
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from murmurlog import __version__
from murmurlog.bundle.certificate import ENTROPY, METHOD, TEXT_KEYS, Certificate, TableClaim
from murmurlog.bundle.keys import NORMALISER, normalise
from murmurlog.bundle.schema import KEYS
from murmurlog.bundle.write import publish
from murmurlog.counting.tally import SingleShard, Tally
from murmurlog.logs.partitions import Sums
from murmurlog.logs.text_keys import TextKeys
from murmurlog.privacy.sampler import SeededEntropy
from murmurlog.publishing.plan import drawn_with, plan_tables

WORDS = [
    "weather",
    "news",
    "maps",
    "train",
    "garden",
    "music",
    "recipe",
    "phone",
    "hotel",
    "flight",
    "book",
    "bike",
    "film",
    "school",
    "bank",
    "shoes",
    "house",
    "doctor",
    "pizza",
    "river",
    "castle",
    "museum",
    "market",
    "coffee",
    "piano",
    "winter",
    "summer",
    "berlin",
    "london",
    "tokyo",
]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }} {% raw %}",
    "'; drop table users; --",
    "\u202eexe.txt",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\U0001f469\u200d\U0001f52c \U0001f600\U0001f600",
    "\u6771\u4eac \u5929\u6c17",
    '=hyperlink("http://x.org","y")',
    "+1+cmd|' /c calc'!a0",
    "-2+3",
    "@sum(a1)",
    "../../etc/passwd",
    "%2e%2e%2f",
    "javascript:alert(1)",
    "</title><style>*{display:none}</style>",
    "a" * 10_000,
    "\u0e02" * 3_300,
    "e\u0301\u0301\u0301",
    "&lt;b&gt; &amp;",
)


def write_bundle(
    out,
    counts,
    *,
    epsilon=1.0,
    delta=1e-6,
    seed=7,
    title="Invented searches",
    mechanism="threshold",
):
    """Publishes tables {name: (key columns, counts)} as a bundle and returns its path.

    The noise is the same each time, so that tests are; the certificate says otherwise, so that
    `verify` holds. Nobody is protected by it: nobody is in it.
    """
    names = list(counts)
    plans, total = plan_tables(names, mechanism=mechanism, epsilon=epsilon, delta=delta)
    entropy, tables = SeededEntropy(seed), {}
    for name, (columns, users) in counts.items():
        keys = pa.table([pa.array(column) for column in columns], list(KEYS[name]))
        text_keys = TextKeys(SeededEntropy(seed).stream("keys"))
        tally = Tally(
            shards=SingleShard(Sums(text_keys.columns(keys.columns), np.array(users, np.int64))),
            bounded=None,
            public=keys,
            kind=name,
            keys=KEYS[name],
            unit="user",
            per_user=plans[name].mechanism.d,
        )
        tables[name] = plans[name].mechanism.release(tally, entropy=entropy)
    certificate = Certificate(
        release_id=hashlib.sha256(title.encode()).hexdigest()[:32],
        published="2026-01-31",
        murmurlog=__version__,
        private=True,
        guarantee=total,
        tables={
            name: TableClaim(
                rows=tables[name].num_rows,
                mechanism=str(each.mechanism),
                guarantee=each.guarantee,
                count="users",
                parameters=each.mechanism.parameters(),
                passes=each.passes(),
            )
            for name, each in plans.items()
        },
        bound="first",
        text={
            "normaliser": NORMALISER,
            "url": "path",
            "screen": [],
            "deny": False,
            "since": None,
            "until": None,
            "where": None,
            "gap": 1800.0 if "pair" in names else None,
            "set_size": None,
            "consecutive": None,
        },
        engine="invented",
        sampler={
            "method": METHOD,
            "entropy": ENTROPY[True],
            "keys": TEXT_KEYS,
            "delta": drawn_with((each.mechanism for each in plans.values()), total),
        },
        by=None,
        declared_users=None,
        unprotected=(),
        booked=None,
        about={"title": title},
    )
    publish(Path(out), tables=tables, certificate=certificate)
    return Path(out)


def write_small_bundle(
    out, *, seed=7, title="Invented searches", hostile=True, scale=1.0, epsilon=2.0
):
    """A bundle of some hundred queries with clicks and pairs; hostile texts among the most asked."""
    rng = np.random.default_rng(5)
    texts = [f"{a} {b}" for a in WORDS for b in WORDS if a < b]
    texts = [*WORDS, *(texts[i] for i in rng.permutation(len(texts)))][:400]
    texts = [*texts[:5], *(normalise(t) for t in HOSTILE if hostile), *texts[5:]]
    users = np.maximum(1, (scale * 60_000 / np.arange(1, len(texts) + 1) ** 0.9)).astype(int)
    clicks, pairs = [], []
    for n, text in enumerate(texts[:120]):
        site = text.split()[0][:40] or "x"
        for k in range(1 + n % 4):
            clicks.append(
                (text, f"{site}.example/{'abcdef'[k]}", int(users[n] * 0.5 / (k + 1)) + 1)
            )
        clicks.append((text, "wiki.example", int(users[n] * 0.2) + 1))
        for k in range(3):
            pairs.append(
                (text, texts[(n * 7 + k * 5 + 1) % 120], int(users[n] * 0.1 / (k + 1)) + 1)
            )
    clicks, pairs = _distinct(clicks), _distinct(pairs)
    return write_bundle(
        out,
        {
            "query": ([texts], users),
            "click": ([[c[0] for c in clicks], [c[1] for c in clicks]], [c[2] for c in clicks]),
            "pair": ([[p[0] for p in pairs], [p[1] for p in pairs]], [p[2] for p in pairs]),
        },
        epsilon=epsilon,
        seed=seed,
        title=title,
    )


@contextmanager
def serve_bundles(*arguments):
    """The address of a server."""
    with start_server(*arguments) as (_, address):
        yield address


@contextmanager
def start_server(*arguments):
    """`murmurlog serve ARGUMENTS`: the process, its address. Ended as a person would end it."""
    command = [sys.executable, "-c", "from murmurlog.cli.main import main; main()", "serve"]
    process = subprocess.Popen(
        [*command, *map(str, arguments), "--no-browser", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output = ""
        for line in process.stderr:
            output += line
            if match := re.search(r"http://[\d.]+:\d+", line):
                yield process, match[0]
                break
        else:
            raise AssertionError(output)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        left = process.stderr.read()
        process.stderr.close()
    assert "Traceback" not in left, left


def _distinct(rows):
    return list({row[:-1]: row for row in rows if row[0] != row[1]}.values())


if __name__ == "__main__":
    print(write_small_bundle(sys.argv[1]))
