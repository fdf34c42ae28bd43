"""Public sets of keys: read, numbered, told apart from others, and chosen from without bias."""

import gzip
import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from counts import held_by_units
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from murmurlog.bundle.keys import normalise
from murmurlog.counting.items import ItemFinder
from murmurlog.counting.public_sets.sets import (
    Listed,
    Sequences,
    draw_distinct,
    least_threshold,
    read_pool,
    unheld,
)
from murmurlog.errors import InputError, UsageError
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.logs.text_keys import TextKeys
from murmurlog.privacy import survival
from murmurlog.privacy.sampler import SeededEntropy, SystemEntropy

TEXT_KEYS = TextKeys(SeededEntropy(1))


def queries(table, name="query"):
    return table[name].to_pylist()


def indices(domain, keys):
    """The numbers of sequences: indices(domain, domain.keys(i)) == i."""
    place, numbers = {word: i for i, word in enumerate(domain.words)}, []
    for key in queries(keys, domain.name):
        words = key.split(domain.between) if domain.between else key
        shorter = sum(len(place) ** n for n in range(domain.shortest, len(words)))
        value = 0
        for word in words:
            value = value * len(place) + place[word]
        numbers.append(shorter + value)
    return numbers


def test_a_pool_is_normalised_before_it_is_counted(tmp_path):
    path = tmp_path / "pool.txt"
    path.write_bytes("\ufeffWeather\r\nweather\nCaf\u00e9  au lait\nw\u00e4rme".encode())
    pool = read_pool(path)
    assert pool.size == 3
    assert queries(pool.table) == ["weather", "caf\u00e9 au lait", "w\u00e4rme"]
    assert pool.names == ("query",)


def test_a_pool_of_clicks_cleans_urls_as_the_log_does(tmp_path):
    path = tmp_path / "pool.tsv.gz"
    path.write_bytes(
        gzip.compress(
            b"Maps\thttps://www.example.org/a/\nmaps\texample.org/a\nmaps\texample.org/b\n"
        )
    )
    pool = read_pool(path, url="path")
    assert pool.table.to_pylist() == [
        {"query": "maps", "url": "example.org/a"},
        {"query": "maps", "url": "example.org/b"},
    ]
    assert read_pool(path, url="host").size == 1


@given(st.lists(st.text(st.characters(blacklist_characters="\n\t\r", codec="utf-8")), max_size=9))
def test_reading_a_pool_is_normalising_each_line(lines):
    import tempfile
    from pathlib import Path

    lines = [line for line in lines if normalise(line) and not line.startswith("\ufeff")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.txt"
        path.write_bytes("".join(f"{line}\n" for line in ["first", *lines]).encode())
        assert queries(read_pool(path).table) == list(
            dict.fromkeys(["first", *(normalise(line) for line in lines)])
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pool.txt is empty"),
        (b"maps\n\nnews\n", "pool.txt, line 2 has no readable query"),
        (b"maps\nnews\tsport\n", "pool.txt, line 2: a line of this pool is a query"),
        (b"maps\tm.org\nnews\n", "pool.txt, line 2: a line of this pool is query<TAB>url"),
        (b"maps\tm.org\nnews\t//\n", "pool.txt, line 2 has no readable url"),
        (b"maps\nne\xffws\n", "pool.txt, line 2 is not UTF-8"),
    ],
)
def test_a_bad_pool_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "pool.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_pool(path)


def test_a_pool_of_pairs_or_words_is_told_by_its_table(tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("Maps\tNews\n")
    assert read_pool(path, kind="pair").table.to_pylist() == [
        {"query": "maps", "next_query": "news"}
    ]
    path.write_text("Maps\n")
    assert read_pool(path, kind="keyword").names == ("keyword",)
    with pytest.raises(UsageError, match="--url must be one of"):
        read_pool(path, url="all")


def test_a_missing_or_damaged_pool_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no pool file"):
        read_pool(tmp_path / "none.txt")
    broken = tmp_path / "pool.txt.gz"
    broken.write_bytes(gzip.compress(b"maps\n" * 1000)[:-20])
    with pytest.raises(InputError, match=r"pool\.txt\.gz could not be read to its end"):
        read_pool(broken)


def test_a_listed_set_names_each_key_once():
    assert queries(Listed(table=pa.table({"query": ["a", "b", "a"]})).table) == ["a", "b"]
    pairs = pa.table({"query": ["a", "a", "a"], "url": ["x", "y", "x"]})
    assert Listed(table=pairs).size == 2
    with pytest.raises(UsageError, match="at least one key"):
        Listed(table=pa.table({"query": pa.array([], pa.string())}))
    with pytest.raises(UsageError, match="empty key"):
        Listed(table=pa.table({"query": ["a", None]}))


def test_only_keys_of_the_set_are_inside(engine, write_tsv):
    queries_of_users = ("a b", "c", "a b a", "d d", "b")
    rows = [{"user": f"u{n}", "query": query} for n, query in enumerate(queries_of_users)]
    log = read(find(str(write_tsv(rows, columns=("user", "query")))), engine=engine)

    def inside(domain):
        finder = ItemFinder(kind="query", only=domain.inside(log))
        items = log.partitions.derive(finder)
        return sorted(query for _, query in held_by_units(log, items, [f"u{n}" for n in range(5)]))

    assert inside(Listed(table=pa.table({"query": ["c", "b", "e"]}))) == ["b", "c"]
    assert inside(Sequences(words=("a", "b"), shortest=1, longest=2)) == ["a b", "b"]
    assert inside(Sequences(words=("a", "b", "d"), shortest=2, longest=3)) == [
        "a b",
        "a b a",
        "d d",
    ]


@pytest.mark.parametrize("between", [" ", None])
def test_sequences_are_numbered_without_gap_or_repeat(between):
    domain = Sequences(words=("x", "y", "z"), shortest=1, longest=3, between=between)
    assert domain.size == 3 + 9 + 27
    keys = domain.keys(np.arange(39))
    expected = [s for n in (1, 2, 3) for s in itertools.product("xyz", repeat=n)]
    joined = [" ".join(s) if between else list(s) for s in expected]
    assert queries(keys) == joined
    assert indices(domain, keys) == list(range(39))
    assert queries(domain.keys(np.array([38, 0, 12]))) == [joined[i] for i in (38, 0, 12)]


def test_sequences_may_be_more_than_64_bits_count():
    words = tuple(f"w{i}" for i in range(100_000))
    domain = Sequences(words=words, shortest=2, longest=4)
    numbers = [0, 10**10, domain.size - 1, 10**15 + 12_345]
    keys = domain.keys(np.array(numbers, dtype=object))
    assert queries(keys)[0] == "w0 w0"
    assert queries(keys)[2] == "w99999 w99999 w99999 w99999"
    assert indices(domain, keys) == numbers
    assert queries(domain.keys(np.array([1]))) == ["w0 w1"]
    with pytest.raises(UsageError, match="beyond them"):
        domain.keys(np.array([domain.size], dtype=object))


@pytest.mark.parametrize(
    ("words", "more", "message"),
    [
        (("a b",), {}, "the separator"),
        (("a", "a"), {}, "each word once"),
        ((), {}, "at least one word"),
        (("a",), {"shortest": 3}, "not from 3 to 2"),
    ],
)
def test_alphabets_in_which_two_sequences_read_alike_are_refused(words, more, message):
    with pytest.raises(UsageError, match=message):
        Sequences(words=words, longest=2, **more)


def test_a_choice_of_some_is_uniform_among_sets():
    entropy = SystemEntropy()
    for size, count in ((5, 2), (5, 3)):
        seen = Counter(
            tuple(sorted(draw_distinct(size, count=count, entropy=entropy).tolist()))
            for _ in range(6000)
        )
        assert len(seen) == 10
        statistic = sum((n - 600) ** 2 / 600 for n in seen.values())
        assert chi2.sf(statistic, 9) > 1e-9
    assert draw_distinct(4, count=4, entropy=entropy).tolist() == [0, 1, 2, 3]
    assert draw_distinct(4, count=0, entropy=entropy).tolist() == []


@pytest.mark.parametrize("listing", [True, False])
@pytest.mark.parametrize(
    "domain",
    [
        Listed(table=pa.table({"query": list("abcdefg")})),
        pytest.param(Sequences(words=tuple("abcdefg"), longest=1), marks=pytest.mark.slow),
    ],
)
def test_unheld_keys_are_chosen_uniformly_and_never_held_ones(monkeypatch, listing, domain):
    monkeypatch.setattr("murmurlog.counting.public_sets.sets.LIST_AT_MOST", 10 if listing else 0)
    held_keys, entropy = TEXT_KEYS.texts(pa.array(["b", "e"])), SeededEntropy(3)
    seen = Counter()
    for _ in range(100):
        chosen = queries(
            unheld(domain, count=2, held_keys=held_keys, text_keys=TEXT_KEYS, entropy=entropy)
        )
        assert len(set(chosen)) == 2
        seen[tuple(sorted(chosen))] += 1
    assert set(seen) == set(itertools.combinations("acdfg", 2))
    assert chi2.sf(sum((n - 10) ** 2 / 10 for n in seen.values()), 9) > 1e-9


def test_every_free_key_can_be_asked_for_and_no_more():
    domain = Listed(table=pa.table({"query": list("abcd")}))
    held_keys = TEXT_KEYS.texts(pa.array(["b"]))
    more = {"held_keys": held_keys, "text_keys": TEXT_KEYS, "entropy": SystemEntropy()}
    assert sorted(queries(unheld(domain, count=3, **more))) == ["a", "c", "d"]
    assert unheld(domain, count=0, **more).num_rows == 0
    with pytest.raises(UsageError, match="3 are held by nobody"):
        unheld(domain, count=4, **more)


def test_unheld_lists_of_words_are_found_in_a_huge_set():
    domain = Sequences(words=tuple(f"w{i}" for i in range(10**5)), longest=4, between=None)
    held_keys = TEXT_KEYS.columns(domain.keys(np.array([3, 10**17], dtype=object)).columns)
    fakes = unheld(
        domain, count=500, held_keys=held_keys, text_keys=TEXT_KEYS, entropy=SystemEntropy()
    )
    assert fakes.num_rows == 500
    assert len(set(indices(domain, fakes)) - {3, 10**17}) == 500


@pytest.mark.parametrize("size", [1, 1000, 10**7, 10**20])
@pytest.mark.parametrize("scale", [0.7, 20.0])
def test_the_threshold_lets_no_more_fakes_pass_than_asked_for(size, scale):
    T = least_threshold(scale=scale, size=size, fakes=10)
    share = survival(noise="geometric", scale=scale, x=T)
    assert size * share <= 10 * (1 + 1e-9)
    assert T == 1 or size * survival(noise="geometric", scale=scale, x=T - 1) > 10
    with pytest.raises(UsageError, match="must be positive"):
        least_threshold(scale=scale, size=size, fakes=0)
