"""Completion: the right queries first, for every prefix, quickly; and how it is scored."""

import time

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from held_out import truth_of_sessions
from hypothesis import given, settings
from hypothesis import strategies as st

from murmurlog.bundle.models.autocomplete import BLOCK, Completer
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.autocomplete import places, prefix, score
from murmurlog.evaluation.tasks.protocol import Settings, Unfit

QUERY = pa.table(
    {
        "query": ["weather", "web", "west", "news", "we", "new york"],
        "users": [50, 40, 60, 30, 5, 35],
    }
)


def test_completions_by_hand():
    model = Completer({"query": QUERY})
    assert model.complete("we", 3) == [("west", 60.0), ("weather", 50.0), ("web", 40.0)]
    assert model.complete("new") == [("new york", 35.0), ("news", 30.0)]
    assert model.complete("new ") == [("new york", 35.0)]
    assert model.complete("web") == [("web", 40.0)]
    assert model.complete("x") == []
    assert [text for text, _ in model.complete("", 2)] == ["west", "weather"]
    assert Completer({"query": QUERY.slice(0, 0)}).complete("we") == []


def test_equal_counts_go_by_text_and_parts_of_a_count_add_up():
    table = pa.table({"query": ["ab", "aa", "ac", "aa"], "users": [2, 1, 2, 1]})
    assert Completer({"query": table}).complete("a") == [("aa", 2.0), ("ab", 2.0), ("ac", 2.0)]
    assert Completer({"query": table.select(["query"])}).complete("a")[0] == ("aa", 2.0)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab\u00e9\U0010ffff", max_size=5), st.integers(0, 9)), max_size=40),
    st.text("ab\u00e9\U0010ffff", max_size=3),
    st.integers(1, 6),
)
def test_completions_are_those_of_a_plain_search(rows, begun, k):
    counts = dict(rows)
    table = pa.table({"query": pa.array(counts, pa.string()), "users": list(counts.values())})
    wanted = sorted((t for t in counts if t.startswith(begun)), key=lambda t: (-counts[t], t))[:k]
    table = table.cast(pa.schema([("query", pa.string()), ("users", pa.int64())]))
    assert [text for text, _ in Completer({"query": table}).complete(begun, k)] == wanted


def test_long_stretches_are_searched_by_blocks():
    """More than ten whole blocks: the quick method, against a plain one."""
    rng = np.random.default_rng(2)
    names = sorted({f"{a:05x}" for a in rng.integers(0, 16**5, 20 * BLOCK)})
    counts = dict(zip(names, rng.integers(0, 300, len(names)).tolist(), strict=True))
    model = Completer({"query": pa.table({"query": names, "users": list(counts.values())})})
    for begun in ["", *"0123456789abcdef", "00", "7f"]:
        wanted = sorted((t for t in names if t.startswith(begun)), key=lambda t: (-counts[t], t))
        assert [text for text, _ in model.complete(begun)] == wanted[:10]


def test_a_completion_takes_far_less_than_a_page_allows():
    names = [f"{i * 7919 % 60_000:06}" for i in range(60_000)]
    model = Completer({"query": pa.table({"query": names, "users": np.arange(60_000) % 997})})
    times = []
    for begun in ("", *"0123456789", *(f"{i:03}" for i in range(190))):
        begin = time.perf_counter()
        model.complete(begun)
        times.append(time.perf_counter() - begin)
    assert np.median(times) < 0.01  # it is some 50 microseconds


# --- how it is scored -----------------------------------------------------------------------------


def test_what_has_been_typed():
    assert [prefix("weather", n) for n in (None, 1, 3, 5)] == ["wea", "w", "wea", "weath"]
    assert prefix("a", None) == "a"


def test_measures_by_hand():
    truth = truth_of_sessions(["west", "weather"], ["news"], ["weak"], ["zoo"], ["w"])
    scores = score({"query": QUERY}, truth, Settings())
    by = {s.measure: s for s in scores}
    # After half: we -> west 1st; wea -> weather 1st; ne -> new york, news: 2nd; we -> weak not
    # there; z -> nothing. A query of one character is not asked.
    assert by["MRR@10"].values == pytest.approx([1, 1, 1 / 2, 0, np.nan], nan_ok=True)
    assert by["success@10"].values == pytest.approx([1, 1, 1, 0, np.nan], nan_ok=True)
    assert by["MRR@10"].users.tolist() == [0, 0, 1, 2, 3]
    # After one: w -> west, weather, web, we.
    after = by["MRR@10 after 1 character"].values
    assert after == pytest.approx([1, 1 / 2, 1 / 2, 0, np.nan], nan_ok=True)
    assert len(by["MRR@10 after 3 characters"].values) == 4  # zoo has only three
    assert by["success@10 after 5 characters"].values.tolist() == [1.0]


def test_places_beyond_the_tenth_are_not_shown():
    table = pa.table({"query": [f"a{i:02}" for i in range(12)], "users": range(12, 0, -1)})
    model = Completer({"query": table})
    assert places(model, [("a", "a09"), ("a", "a10")]).tolist() == [10.0, 0.0]


def test_measures_are_those_of_ir_measures():
    rng = np.random.default_rng(4)
    names = sorted({"".join(rng.choice(list("abc"), rng.integers(2, 6))) for _ in range(200)})
    table = pa.table({"query": names, "users": rng.integers(0, 50, len(names))})
    truth = truth_of_sessions(*([name] for name in names))
    by = {e.measure: e for e in score({"query": table}, truth, Settings())}
    model = Completer({"query": table})
    run = [
        ir_measures.ScoredDoc(name, text, -place)
        for name in names
        for place, (text, _) in enumerate(model.complete(prefix(name, None)))
    ]
    qrels = [ir_measures.Qrel(name, name, 1) for name in names]
    for ours, theirs in (("MRR@10", ir_measures.RR @ 10), ("success@10", ir_measures.Success @ 10)):
        wanted = {m.query_id: m.value for m in ir_measures.iter_calc([theirs], qrels, run)}
        assert by[ours].values == pytest.approx([wanted[name] for name in names])


def test_what_it_cannot_do_it_says():
    with pytest.raises(Unfit, match="needs a query table"):
        score({}, truth_of_sessions(["a"]), Settings())
    with pytest.raises(Unfit, match="whom the release has not seen"):
        score({"query": QUERY}, Truth(tables={}, holders={}), Settings())


def test_a_smaller_release_is_of_less_use():
    """Over all questions; nothing of the kind holds over the answered ones."""
    rng = np.random.default_rng(6)
    names = sorted({"".join(rng.choice(list("abcd"), rng.integers(3, 7))) for _ in range(800)})
    users = np.sort(rng.zipf(1.5, len(names)).clip(max=500))[::-1]
    table = pa.table({"query": rng.permutation(names), "users": users})
    truth = truth_of_sessions(
        *([text] for text in rng.choice(table["query"], 500, p=users / users.sum()))
    )
    every = []
    for size in (1, 2, 5, 20, 100):
        published = table.filter(pc.greater_equal(table["users"], size))
        values = score({"query": published}, truth, Settings())[0].values
        every.append(np.nan_to_num(values).mean())
    # What is asked less never stands before what is asked more: it can only be missed.
    assert every == sorted(every, reverse=True)
    assert every[0] > every[-1]
