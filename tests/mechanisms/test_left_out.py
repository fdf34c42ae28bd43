"""What is left out: counted right, moved by one unit no further than the proof says, in words."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import murmurlog
from murmurlog.bundle.schema import schema
from murmurlog.errors import UsageError
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import View, parse
from murmurlog.mechanisms import left_out as module
from murmurlog.mechanisms.left_out import BINS, LEFT_OUT, PUBLISHED, QUERIES, LeftOut, _sensitivity
from murmurlog.privacy import gaussian_delta
from murmurlog.privacy.sampler import SystemEntropy


def row(user, query, url="", second=0):
    time = f"2026-01-01 00:00:{second:02}"
    return {"user": user, "time": time, "query": query, "url": url}


def bins_of(path, *, d=10, published=("weather",)):
    public = (
        schema("query")
        .empty_table()
        .from_pylist(
            [{"query": q, "users": 9, "users_stderr": 1.0, "reliable": True} for q in published],
            schema=schema("query"),
        )
    )
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        view = View(kind="left_out", published={"query": public})
        return LeftOut(d=d, sigma=1.0).gather(log, view, entropy=SystemEntropy())


def test_searches_and_queries_fall_into_their_bins(write_tsv):
    path = write_tsv(
        [
            row("a", "weather", "example.org"),
            row("a", "my secret", second=1),
            row("b", "my secret", "example.org"),
            row("b", "weather", second=1),
            row("c", "one two three four five six"),
        ]
    )
    assert bins_of(path) == {
        (PUBLISHED, "1 word", "yes"): 1,
        (PUBLISHED, "1 word", "no"): 1,
        (LEFT_OUT, "2 words", "no"): 1,
        (LEFT_OUT, "2 words", "yes"): 1,
        (LEFT_OUT, "5 words or more", "no"): 1,
        (QUERIES, "2 words", "yes"): 1,
        (QUERIES, "5 words or more", "no"): 1,
    }


def test_only_a_unit_s_first_searches_are_looked_at(write_tsv):
    path = write_tsv([row("a", f"query {i}", second=i) for i in range(9)])
    assert bins_of(path, d=4) == {(LEFT_OUT, "2 words", "no"): 4, (QUERIES, "2 words", "no"): 4}


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["weather", "x", "y", "x y"]), st.booleans()),
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(ROWS, st.integers(1, 3))
def test_one_unit_moves_all_bins_no_further_than_proved(tmp_path_factory, searches, d):
    folder = tmp_path_factory.mktemp("logs")
    texts = {}
    for name, left in (("with", searches), ("without", [r for r in searches if r[0] != "a"])):
        path = folder / f"{name}.tsv"
        lines = ["user\ttime\tquery\turl"] + [
            f"{user}\t2026-01-01 00:00:{i:02}\t{query}\t{'e.org' if click else ''}"
            for i, (user, query, click) in enumerate([*left, ("z", "weather", False)])
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        texts[name] = bins_of(path, d=d)
    moved = [texts["with"].get(b, 0) - texts["without"].get(b, 0) for b in BINS]
    assert math.hypot(*moved) <= _sensitivity(d, "add-remove") + 1e-9


def test_the_bound_is_reached(tmp_path):
    """A unit whose d clicks turn d queries of others from unclicked to clicked."""
    queries = ["x", "y"]
    others = [f"b\t2026-01-01 00:00:0{i}\t{q}\t" for i, q in enumerate(queries)]
    searches = [f"a\t2026-01-01 00:00:0{i}\t{q}\te.org" for i, q in enumerate(queries)]
    bins = []
    for lines in (others, others + searches):
        path = tmp_path / f"{len(lines)}.tsv"
        path.write_text("\n".join(["user\ttime\tquery\turl", *lines]) + "\n", encoding="utf-8")
        bins.append(bins_of(path, d=2))
    moved = [bins[1].get(b, 0) - bins[0].get(b, 0) for b in BINS]
    assert math.hypot(*moved) == pytest.approx(_sensitivity(2, "add-remove"))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_its_guarantee_is_the_gaussian_mechanism_s(neighbours):
    mechanism = LeftOut.solve(epsilon=0.5, delta=1e-7, d=10, neighbours=neighbours)
    stated = mechanism.guarantee(epsilon=0.5, neighbours=neighbours)
    mu = _sensitivity(10, neighbours) / mechanism.sigma
    assert gaussian_delta(epsilon=0.5, mu=mu) <= stated.delta <= 1e-7
    back = mechanism.guarantee(delta=1e-7, neighbours=neighbours)
    assert back.epsilon == pytest.approx(0.5, rel=1e-3)
    assert back.delta <= 1e-7
    assert parse(str(mechanism)) == mechanism


def test_every_bin_is_published_also_empty_ones():
    mechanism = LeftOut(d=1, sigma=0.2)
    table = mechanism.release({BINS[3]: 40}, entropy=SystemEntropy())
    assert {tuple(r[k] for k in ("what", "words", "clicked")) for r in table.to_pylist()} == set(
        BINS
    )
    assert (
        np.abs(np.array(table["rows"].to_pylist()) - [40 * (b == BINS[3]) for b in BINS]).max() <= 3
    )


def test_every_bin_has_its_own_noise_also_empty_ones(monkeypatch):
    monkeypatch.setattr(module, "draw", lambda count, **_: np.arange(11, 11 + count))
    table = LeftOut(d=1, sigma=9.0).release({BINS[3]: 40}, entropy=SystemEntropy())
    expected = [40 * (b == BINS[3]) + n for n, b in enumerate(BINS, 11)]
    assert table["rows"].to_pylist() == expected


def test_it_is_released_verified_and_said_in_words(write_tsv, tmp_path):
    rows = [
        row(f"u{i}", query, second=s)
        for i in range(500)
        for s, query in enumerate(("weather", f"secret {i}", f"other {i}"))
    ]
    out = tmp_path / "out"
    done = murmurlog.release(
        str(write_tsv(rows)), out=out, tables=["left_out", "query"], epsilon=8, delta=1e-9,
        shares={"query": 0.5, "left_out": 0.5}, per_user=3,
    )  # fmt: skip
    assert done.rows == {"left_out": 30, "query": 1}
    assert murmurlog.verify(out).ok
    words = (out / "README.md").read_text(encoding="utf-8")
    assert "% of searches were of queries that are not here" in words.replace("\n", " ")
    assert 55 <= done.notes["left_out"]["searches left out, %"] <= 78  # two of three


def test_few_searches_are_not_put_into_words(write_tsv, tmp_path):
    done = murmurlog.release(
        str(write_tsv([row("a", "weather")])), out=tmp_path / "out", tables=["query", "left_out"]
    )
    assert done.notes["left_out"] == {"searches left out, %": None}


def test_it_needs_the_query_table(write_tsv, tmp_path):
    with pytest.raises(UsageError, match="left_out needs query"):
        murmurlog.release(
            str(write_tsv([row("a", "x")])), out=tmp_path / "out", tables=["click", "left_out"]
        )
    for name, text in itertools.product(["left-out"], ["chosen by --tables query,left_out"]):
        with pytest.raises(UsageError, match=text):
            murmurlog.release(
                str(write_tsv([row("a", "x")])), out=tmp_path / "out", tables=["query"],
                mechanism=name,
            )  # fmt: skip
