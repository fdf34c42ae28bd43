"""Keys from public sets, end to end: pools, queries by published keywords, and what is refused."""

import itertools

import numpy as np
import pytest
from counts import counts_of
from laws import largest_delta, mass, user_vectors

import murmurlog
from murmurlog.bundle.schema import schema
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import InputError, Refused, UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, parse
from murmurlog.mechanisms.zealous_keywords import ViaKeywords
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy


def clicks(n, query="weather", url="example.org/a", user="u"):
    time = "2026-01-01 00:00:00"
    return [{"user": f"{user}{i}", "time": time, "query": query, "url": url} for i in range(n)]


@pytest.fixture
def log(write_tsv):
    return str(write_tsv(clicks(300) + clicks(200, "weather berlin") + clicks(2, "secret plan")))


@pytest.fixture
def pool(tmp_path):
    """Writes a pool of a thousand public queries, the first two of them asked."""

    def write(*more, urls=False):
        queries = ["weather", "Weather  Berlin", *(f"public query {i}" for i in range(998)), *more]
        path = tmp_path / "pool.txt"
        lines = [f"{q}\texample.org/a" if urls else q for q in queries]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def test_a_pool_is_released_and_verified(log, pool, tmp_path):
    out = tmp_path / "out"
    done = murmurlog.release(
        log, out=out, tables=["query"], mechanism="pool", pool=pool(), fakes=0.001, epsilon=2,
        delta=1e-9, per_user=2,
    )  # fmt: skip
    assert murmurlog.verify(out).ok
    queries = murmurlog.load(out).tables["query"]["query"].to_pylist()
    assert {"weather", "weather berlin"} <= set(queries)
    assert "secret plan" not in queries
    assert done.guarantee.delta < 1e-15
    assert "A4" in done.guarantee.assumptions
    assert "nobody asked" in (out / "README.md").read_text(encoding="utf-8")


def test_clicks_come_from_a_pool_of_pairs(log, pool, tmp_path):
    out = tmp_path / "out"
    murmurlog.release(
        log, out=out, tables=["query", "click"], mechanism="pool", pool=pool(urls=True),
        fakes=0.001, epsilon=8, per_user=2,
    )  # fmt: skip
    assert murmurlog.verify(out).ok
    rows = murmurlog.load(out).tables["click"].to_pylist()
    assert ("weather", "example.org/a") in {(row["query"], row["url"]) for row in rows}


def test_fakes_look_like_rows_and_are_called_unreliable(log, pool, tmp_path):
    out = tmp_path / "out"
    murmurlog.release(
        log, out=out, tables=["query"], mechanism="pool", pool=pool(), fakes=200, epsilon=2,
        per_user=2,
    )  # fmt: skip
    assert murmurlog.verify(out).ok
    rows = murmurlog.load(out).tables["query"].to_pylist()
    fakes = [row for row in rows if row["query"].startswith("public")]
    assert len(fakes) > 40  # 99 expected at T = 2, sd 9
    assert not any(row["reliable"] for row in fakes if row["users"] < 5)


def test_a_denied_query_of_the_pool_is_never_published(log, pool, tmp_path):
    deny = tmp_path / "deny.txt"
    deny.write_text("public query *\nWEATHER\n", encoding="utf-8")
    out = tmp_path / "out"
    personal = "jane.doe@example.com"
    murmurlog.release(
        log, out=out, tables=["query"], mechanism="pool", pool=pool(personal), fakes=500,
        epsilon=2, per_user=2, deny=deny,
    )  # fmt: skip
    assert murmurlog.load(out).tables["query"]["query"].to_pylist() == ["weather berlin"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, UsageError, "needs a public pool for the query table: use --pool FILE"),
        ({"pool": "none.txt"}, InputError, "no pool file 'none.txt'"),
        ({"pool": "pool", "fakes": 0}, UsageError, "fakes must be positive"),
        ({"pool": "log"}, Refused, "--pool names the log itself"),
        ({"pool": "pool", "tables": ["query", "click"]}, InputError, "lists single queries"),
        ({"pool": "pool", "noise": "gaussian"}, UsageError, "geometric noise only"),
        ({"pool": "pool", "mechanism": "threshold"}, UsageError, "--pool is for pool"),
        ({"pool": "pool", "by": ("url", ["x"])}, UsageError, "--by cannot use|do not go together"),
        ({"pool": "broken"}, InputError, "line 2"),
        ({"pool": "empty"}, InputError, "is empty"),
    ],
)
def test_bad_pools_are_named_and_nothing_is_left(log, pool, tmp_path, options, error, message):
    broken, empty = tmp_path / "broken.txt", tmp_path / "empty.txt"
    broken.write_text("fine\nnot\tfine\n", encoding="utf-8")
    empty.write_text("", encoding="utf-8")
    files = {"pool": pool(), "log": log, "broken": broken, "empty": empty}
    if "pool" in options:
        options = {**options, "pool": files.get(options["pool"], options["pool"])}
    ledger = tmp_path / "ledger.db"
    asked = {
        "mechanism": "pool",
        "tables": ["query"],
        "ledger": ledger,
        "source_name": "s",
        "new_source": True,
    }
    with pytest.raises(error, match=message):
        murmurlog.release(log, out=tmp_path / "out", **(asked | options))
    assert not (tmp_path / "out").exists()
    assert not ledger.exists()


def test_one_file_of_pairs_serves_queries_and_clicks(pool):
    pools = read_pools(pool(urls=True), tables=["query", "click"], url="path")
    assert pools["query"].names == ("query",)
    assert pools["click"].names == ("query", "url")
    assert pools["query"].size == pools["click"].size == 1000


# --- queries by published keywords ----------------------------------------------------------------


def test_queries_of_published_keywords_are_released_and_verified(log, tmp_path):
    out = tmp_path / "out"
    done = murmurlog.release(
        log, out=out, tables=["keyword", "query"], mechanism="zealous", via_keywords=True,
        epsilon=16, delta=1e-9, per_user=3,
    )  # fmt: skip
    assert murmurlog.verify(out).ok
    tables = murmurlog.load(out).tables
    assert set(tables["keyword"]["keyword"].to_pylist()) == {"weather", "berlin"}
    assert {"weather", "weather berlin"} <= set(tables["query"]["query"].to_pylist())
    words = {w for query in tables["query"]["query"].to_pylist() for w in query.split(" ")}
    assert words <= {"weather", "berlin"}
    assert done.notes["query"]["queries that could be"] == 2 + 4 + 8
    assert done.guarantee.epsilon == pytest.approx(16)


def test_without_keywords_there_are_no_queries(write_tsv, tmp_path):
    done = murmurlog.release(
        str(write_tsv(clicks(3))), out=tmp_path / "out", tables=["keyword", "query"],
        mechanism="zealous", via_keywords=True, epsilon=1, delta=1e-9,
    )  # fmt: skip
    assert done.rows == {"keyword": 0, "query": 0}
    assert murmurlog.verify(tmp_path / "out").ok


def gather(log, engine, *, d=2, keywords=("berlin", "weather")):
    rows = read(find(log), engine=engine)
    words = (
        schema("keyword")
        .empty_table()
        .from_pylist(
            [{"keyword": w, "users": 9, "users_stderr": 1.0, "reliable": True} for w in keywords],
            schema=schema("keyword"),
        )
    )
    view = View(kind="query", published={"keyword": words})
    return ViaKeywords(d=d, b=1.0).gather(rows, view, entropy=SystemEntropy())


def test_a_unit_is_bounded_among_queries_of_the_set_only(write_tsv, engine):
    """T3 iii: what cannot be published takes no place of what can."""
    path = write_tsv(
        [
            {"user": "a", "time": f"2026-01-01 00:00:0{i}", "query": query, "url": ""}
            for i, query in enumerate(("secret", "my secret", "weather", "berlin weather now"))
        ]
    )
    assert counts_of(gather(str(path), engine, d=1).inside) == {("weather",): 1}


def test_queries_that_nobody_asked_are_drawn_too(log, engine):
    """Noising only what was seen would show that it was seen: every member must be able to pass."""
    made, held_ = ViaKeywords(d=2, b=1.0, fakes=4.0), gather(log, engine)
    shown = set()
    for seed in range(60):
        table = made.release(held_, entropy=SeededEntropy(seed))
        shown |= set(table["query"].to_pylist())
    words = ("berlin", "weather")
    every = {" ".join(s) for n in (1, 2, 3) for s in itertools.product(words, repeat=n)}
    assert shown == every


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_given_the_keywords_it_is_pure(neighbours):
    made = ViaKeywords.solve(epsilon=1.0, delta=1e-6, d=1, neighbours=neighbours)
    stated = made.guarantee(epsilon=1.0, neighbours=neighbours)
    assert stated.delta < 1e-15
    assert "A4" not in stated.assumptions

    def law_of(c, base):
        values = np.arange(4, 4 + int(30 * made.b))
        shown = mass("geometric", made.b, values - c)
        return np.concatenate([[1 - shown.sum()], shown])

    exact = {"others": (0, 3), "holds": user_vectors(1, 2), "neighbours": neighbours}
    assert largest_delta(law_of, epsilon=1.0, **exact) < 1e-9
    assert largest_delta(law_of, epsilon=0.8, **exact) > 1e-4
    assert parse(str(made)) == made
