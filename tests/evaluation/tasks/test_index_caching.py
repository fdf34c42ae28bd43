"""Index caching: what is kept in memory, and how often it is found there."""

import numpy as np
import pyarrow as pa
import pytest

from murmurlog.bundle.models.index_caching import LONGEST, POSTING, Index, words_to_cache
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.scores import results
from murmurlog.evaluation.tasks.index_caching import clicked_index, score
from murmurlog.evaluation.tasks.protocol import Settings, Unfit

CLICKS = pa.table(
    {
        "query": ["cheap hotels", "cheap hotels", "hotels", "hotels", "flights"],
        "url": ["a.com", "b.com", "b.com", "c.com", "d.com"],
        "users": [4, 3, 3, 1, 1],
    }
)
# cheap: a, b; hotels: a, b, c; flights: d. 6 postings, 48 bytes.
WORDS = pa.table({"keyword": ["hotels", "cheap", "flights"], "users": [9, 5, 2]})


def searches(*rows):
    """Of held-out users: user, session, query."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    urls = pa.nulls(len(rows), pa.string())
    return pa.table([*columns, urls], names=["user", "session", "query", "url"])


def truth(*rows, **other):
    tables = {"keyword": WORDS, "click": CLICKS}
    return Truth(tables=tables, holders={}, searches=searches(*rows), **other)


def greedy_choice(often, lengths, memory):
    """The greedy rule as one would write it down."""
    chosen = set()
    for word in sorted(often, key=lambda w: (-often[w] / lengths[w], w)):
        size = min(lengths[word], LONGEST) * POSTING
        if often[word] > 0 and size <= memory:
            chosen.add(word)
            memory -= size
    return chosen


def test_the_greedy_rule_by_hand():
    index = clicked_index(CLICKS)
    # Worth: hotels 9/3, cheap 5/2, flights 2/1; 24, 16 and 8 bytes.
    assert words_to_cache(WORDS, index, 24).to_pylist() == ["hotels"]
    assert words_to_cache(WORDS, index, 39).to_pylist() == [
        "hotels",
        "flights",
    ]  # cheap has no room
    assert words_to_cache(WORDS, index, 23).to_pylist() == ["cheap"]
    assert words_to_cache(WORDS, index, 48).to_pylist() == ["hotels", "cheap", "flights"]
    assert words_to_cache(WORDS, index, 7).to_pylist() == []


def test_the_greedy_rule_is_that_of_a_plain_loop():
    rng = np.random.default_rng(3)
    for memory in (0, 100, 1000, 20_000, 10_000_000):
        words = [f"w{i}" for i in range(300)]
        often = dict(zip(words, rng.integers(-3, 40, 300).tolist(), strict=True))
        lengths = dict(zip(words, (rng.pareto(0.5, 300) * 3 + 1).astype(int).tolist(), strict=True))
        table = pa.table({"keyword": words, "users": list(often.values())})
        index = Index(words=pa.array(words), lengths=np.array(list(lengths.values())))
        assert set(words_to_cache(table, index, memory).to_pylist()) == greedy_choice(
            often, lengths, memory
        )


def test_a_list_is_cut_in_memory_but_not_in_its_worth():
    words = pa.table({"keyword": ["the", "rare"], "users": [1000, 1]})
    index = Index(words=pa.array(["the", "rare"]), lengths=np.array([10 * LONGEST, 1]))
    assert index.size == (LONGEST + 1) * POSTING
    # 1000 of 2,000,000 documents is worth less than 1 of 1: both fit in the cut size.
    assert words_to_cache(words, index, index.size).to_pylist() == ["rare", "the"]
    assert words_to_cache(words, index, index.size - 1).to_pylist() == ["rare"]


def test_the_clicked_index_counts_each_url_of_a_word_once():
    index = clicked_index(CLICKS)
    lengths = dict(zip(index.words.to_pylist(), index.lengths.tolist(), strict=True))
    assert lengths == {"cheap": 2, "hotels": 3, "flights": 1}
    assert index.size == 48
    assert index.of(pa.array(["hotels", "never clicked"])).tolist() == [3, 1]
    assert clicked_index(CLICKS.slice(0, 0)).size == 0


def test_hit_probability_by_hand():
    workload = truth(
        (0, 0, "cheap hotels"),
        (0, 0, "cheap hotels"),  # a second click: the same search
        (0, 1, "cheap hotels"),
        (1, 2, "flights"),
        (1, 2, "trains"),
    )
    released = {"keyword": WORDS.slice(0, 2)}
    scores = score(released, workload, Settings(cache_bytes=24))
    first = scores[0]
    assert first.measure == "hit probability, 2.4e-08 GB, lengths by clicked urls"
    # cheap, hotels, cheap, hotels, flights, trains: hotels fits; the last two are not published.
    assert np.nan_to_num(first.values, nan=-1).tolist() == [0, 1, 0, 1, -1, -1]
    assert first.users.tolist() == [0, 0, 0, 0, 1, 1]
    by_label = {line.measure.split(" ")[-1]: line for line in results("s", "t", [first])}
    assert by_label["coverage"].value == pytest.approx(4 / 6)
    assert by_label["(covered)"].value == pytest.approx(1 / 2)
    assert by_label["(all)"].value == pytest.approx(2 / 6)
    assert [s.measure.split(", ")[1] for s in scores[1:]] == [
        "1% of the index",
        "5% of the index",
        "10% of the index",
    ]


def test_lengths_may_be_given():
    workload = truth((0, 0, "hotels cheap"))
    settings = Settings(cache_bytes=16, doc_freq={"hotels": 2, "cheap": 1000})
    scores = score({"keyword": WORDS}, workload, settings)[0]
    assert scores.measure.endswith("lengths by --doc-freq")
    assert scores.values.tolist() == [1, 0]


def test_words_of_published_queries_do_and_empty_releases_hit_nothing():
    workload = truth((0, 0, "hotels cheap"))
    queries = pa.table({"query": ["cheap", "hotels"], "users": [3, 3]})
    assert score({"query": queries}, workload, Settings())[0].values.tolist() == [1, 1]
    nothing = score({"query": queries.slice(0, 0)}, workload, Settings())[0]
    assert not nothing.has_answer.any()


def test_a_noisy_order_is_no_better_than_the_raw_one():
    """On the users it was made of the raw log's cache is near the best; a shuffled one is not."""
    rng = np.random.default_rng(5)
    words = [f"w{i}" for i in range(100)]
    users = (1000 / (np.arange(100) + 5)).astype(int)
    rows = [(n, n, word) for n, word in enumerate(np.repeat(words, users).tolist())]
    doc_freq = dict.fromkeys(words, 10)
    workload = Truth(tables={}, holders={}, searches=searches(*rows))
    tables = [
        {"keyword": pa.table({"keyword": words, "users": counts})}
        for counts in (users, rng.permutation(users))
    ]
    settings = Settings(doc_freq=doc_freq)
    raw, noise = (score(table, workload, settings)[3].values.mean() for table in tables)
    assert raw == users[:10].sum() / users.sum()
    assert noise < raw / 2


def test_what_is_missing_is_said():
    workload = truth((0, 0, "hotels"))
    with pytest.raises(Unfit, match="needs a keyword or query table"):
        score({"click": CLICKS}, workload, Settings())
    unclicked = Truth(tables={"keyword": WORDS}, holders={}, searches=workload.searches)
    with pytest.raises(Unfit, match="needs clicks in the log, or --doc-freq"):
        score({"keyword": WORDS}, unclicked, Settings())
    with pytest.raises(Unfit, match="has not seen"):
        score({"keyword": WORDS}, Truth(tables=workload.tables, holders={}), Settings())
