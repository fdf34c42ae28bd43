"""A public pool from public text: what is in it, in which order, and what it is not made of."""

import gzip
import itertools
import json
from functools import partial

import pyarrow as pa
import pytest
from command import run

from murmurlog.bundle.keys import normalise
from murmurlog.counting.public_sets.sets import read_pool
from murmurlog.errors import InputError, Refused, UsageError
from tools import build_pool as pool_text
from tools import pool as pool_command
from tools.build_pool import (
    FUNCTION,
    build,
    coverage,
    dictionary,
    is_noun,
    write,
)

run_pool = partial(run, main=pool_command.main)
TEXT = "The old town hall. The town hall is near the old river!\nCheap hotels (in Berlin)\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "public.txt"
    path.write_text(TEXT)
    return path


def test_nouns_are_told_with_their_plurals():
    for word in ("hotel", "hotels", "city", "cities", "box", "boxes", "geese", "weather"):
        assert is_noun(word), word
    for word in ("cheaply", "the", "or", "xqzzys", "is", "glass5"):
        assert not is_noun(word), word


def test_n_grams_end_in_a_noun_and_stay_within_a_phrase(text):
    pool = build([text], size=60).to_pylist()
    assert {"town hall", "the old town hall", "old river", "cheap hotels", "berlin"} <= set(pool)
    assert "hotels in berlin" not in pool  # a bracket lies between
    assert "hall the town" not in pool  # the end of a sentence
    assert all(is_noun(query.split()[-1]) for query in pool)
    assert all(len(query.split()) <= 5 for query in pool)


def test_the_order_is_by_frequency_then_by_text(text):
    pool = build([text], size=8).to_pylist()
    assert pool[:5] == ["hall", "old", "the old", "town", "town hall"]  # twice each
    assert pool[5:] == ["berlin", "cheap hotels", "hall is near the old"]  # once each
    assert build([text], size=8) == build([text], size=8)
    assert build([text], size=200_000)[:8].to_pylist() == pool


def test_a_pool_has_the_size_asked_for_without_repeats(text):
    nouns, _ = dictionary()
    pool = build([text], size=100_000).to_pylist()
    assert len(pool) == len(set(pool)) == 100_000
    assert nouns - FUNCTION <= set(pool)
    assert all(normalise(query) == query for query in pool[::97])
    combined = [query for query in pool[len(nouns) :] if " " in query]
    assert len(combined) > 40_000  # words of the text first
    assert {word for query in combined[:100] for word in query.split()} & {"town", "hall", "old"}


def test_combinations_come_by_product_of_frequencies_then_by_text():
    left, right = {"a": 5, "b": 2, "c": 2, "d": 1}, {"a": 5, "x": 2, "y": 1}
    weights = {
        f"{first} {second}": left[first] * right[second]
        for first, second in itertools.product(left, right)
        if first != second
    }
    expected = sorted(weights, key=lambda pair: (-weights[pair], pair))
    assert list(pool_text._combined(left, right)) == expected


def test_rare_phrases_are_let_go_before_memory_is(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.build_pool.MOST_COUNTED", 50)
    monkeypatch.setattr("murmurlog.logs.formats.BLOCK", 1000)
    nouns = sorted(word for word in dictionary()[0] - FUNCTION if len(word) == 7)[:400]
    path = tmp_path / "long.txt"
    path.write_text("".join(f"common river\n{word}\n" for word in nouns))
    assert build([path], size=3).to_pylist() == ["common", "common river", "river"]


def test_a_pool_is_written_as_it_is_read(text, tmp_path):
    pool = build([text], size=30)
    for name in ("pool.txt", "pool.txt.gz", "pool.txt.zst"):
        write(pool, tmp_path / name)
        assert read_pool(tmp_path / name).table["query"].to_pylist() == pool.to_pylist()
    assert (
        gzip.decompress((tmp_path / "pool.txt.gz").read_bytes())
        == (tmp_path / "pool.txt").read_bytes()
    )
    with pytest.raises(UsageError, match=r"pool\.txt exists"):
        write(pool, tmp_path / "pool.txt")


def test_coverage_is_the_share_of_queries_of_rows_and_of_publishable_queries():
    asked = [("maps", n) for n in range(25)] + [("news", n) for n in range(12)]
    asked += [("my own", 1)] * 30 + [("maps", 1)] * 3
    rows = pa.table({"query": [q for q, _ in asked], "user": [str(user) for _, user in asked]})
    covered = coverage(pa.array(["maps", "weather"]), rows)
    assert covered.distinct == pytest.approx(1 / 3)
    assert covered.volume == pytest.approx(28 / 70)
    # Repeated rows of one user are one user: "my own" cannot be published.
    assert covered.publishable == {10: 0.5, 20: 1.0, 50: None}
    assert coverage(pa.array(["x"]), rows).volume == 0


LOGS = {
    "log.csv": "user,time,query\n1,2020-01-01,maps\n",
    "log.tsv": "uid\tq\n1\tmaps\n",
    "log.jsonl": '{"user": "1", "query": "maps"}\n',
    "aol.txt": "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\tmaps\t2006-03-01 00:00:00\t\t\n",
    "excite.txt": "2A9EABFB35F5B954\t970916105432\tmaps\n" * 3,
    "mine.txt": "user_id;query;time\n1;maps;2020\n",
    "headless.txt": "17\tmaps\n18\tnews\n19\tweather\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_a_pool_is_never_made_of_a_log(tmp_path, name):
    path = tmp_path / name
    path.write_text(LOGS[name])
    with pytest.raises(Refused, match="looks like a search log.* private data.* public text"):
        build([path], size=10)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.csv", b"title,year\nrivers,1999\n", "not plain text"),
        ("data.parquet", b"PAR1....", "not plain text"),
        ("empty.txt", b"", "no word in empty.txt"),
        ("marks.txt", b"... --- !!!\n", "no word in marks.txt"),
        ("latin.txt", b"first\nna\xefve\n", "latin.txt, line 2 is not UTF-8"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        build([path], size=10)


@pytest.mark.parametrize("size", [0, -1, 10**12])
def test_a_size_out_of_reach_is_a_usage_error(text, size):
    with pytest.raises(UsageError, match="--size must lie between 1 and"):
        build([text], size=size)


def test_the_command_writes_a_pool_and_says_what_it_covers(text, tmp_path):
    out = tmp_path / "pool.txt"
    done = run_pool("--from", text, "--size", 60_000, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["size"] == 60_000 == len(out.read_text().splitlines())
    for model in ("plain", "aol"):
        covered = result["coverage"][model]
        assert 0 < covered["distinct"] < covered["volume"] < 1
        assert covered["publishable"]["10"] > covered["distinct"]


@pytest.mark.parametrize(
    ("content", "out", "size", "code", "message"),
    [
        (TEXT, "there.txt", 10, 2, "there.txt exists"),
        (TEXT, "none/pool.txt", 10, 2, "there is no folder"),
        (TEXT, "pool.txt", 0, 2, "--size must lie"),
        (LOGS["aol.txt"], "pool.txt", 10, 3, "looks like a search log"),
        (None, "pool.txt", 10, 4, "there is no file of text"),
        ("", "pool.txt", 10, 4, "no word in"),
    ],
)
def test_bad_input_has_its_exit_code_and_leaves_no_file(
    tmp_path, content, out, size, code, message
):
    (tmp_path / "there.txt").write_text("x")
    if content is not None:
        (tmp_path / "in.txt").write_text(content)
    done = run_pool("--from", tmp_path / "in.txt", "--size", size, "--out", tmp_path / out)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "pool.txt").exists()
