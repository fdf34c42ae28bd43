"""Query substitution: phrases, candidates, and the measures against ir-measures."""

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from murmurlog.bundle.models.substitution import Substitutions, learn_phrases, likelihood_ratio
from murmurlog.evaluation.ground_truth import Truth
from murmurlog.evaluation.tasks.protocol import Settings, Unfit
from murmurlog.evaluation.tasks.substitution import literal_map, measure_answers, score

QUERIES = {
    "new york hotels": 30,
    "new york": 50,
    "cheap hotels": 60,
    "cheap motels": 50,
    "new car": 40,
    "hotels": 60,
    "york": 1,
    **{f"word{i}": 20 for i in range(100)},
}
PAIRS = {
    ("cheap hotels", "cheap motels"): 20,
    ("hotels", "motels"): 9,
    ("hotels", "new car"): 1,
    ("cheap hotels", "hostels"): 12,
    **{(f"word{i}", f"word{i + 1}"): 6 for i in range(99)},
}


def queries_of(counts):
    return pa.table({"query": list(counts), "users": list(counts.values())})


def pairs_of(counts):
    first, second = ([pair[side] for pair in counts] for side in (0, 1))
    users = pa.array(list(counts.values()), pa.int64())
    return pa.table(
        {
            "query": pa.array(first, pa.string()),
            "next_query": pa.array(second, pa.string()),
            "users": users,
        }
    )


def model(queries=QUERIES, pairs=PAIRS):
    return Substitutions(queries=queries_of(queries), pairs=pairs_of(pairs))


def truth():
    tables = {"query": queries_of(QUERIES), "pair": pairs_of(PAIRS)}
    return Truth(tables=tables, holders={})


def test_words_far_more_often_together_than_by_chance_are_a_phrase():
    # 100 words, a and b 40 each, c and d 10 each; 20 adjacent pairs, half of them each. By chance
    # a b would be 0.16 of all pairs and c d 0.01: ln(0.5 / 0.16) = 1.1, ln(0.5 / 0.01) = 3.9.
    phrases = learn_phrases(queries_of({"a b": 10, "c d": 10, "a": 30, "b": 30}))
    cut, ends = phrases.cut(pa.array(["a b c d", "d c", "a", "new c d"]))
    assert cut.to_pylist() == ["a", "b", "c d", "d", "c", "a", "new", "c d"]
    assert ends.tolist() == [0, 3, 5, 6, 8]


def test_one_person_makes_no_phrase():
    counts = {"rare word": 1, "twice seen": 2, **{f"w{i}": 10 for i in range(50)}}
    cut, _ = learn_phrases(queries_of(counts)).cut(pa.array(["rare word", "twice seen"]))
    assert cut.to_pylist() == ["rare", "word", "twice seen"]


def test_the_likelihood_ratio_is_that_of_scipy():
    rng = np.random.default_rng(1)
    cells = rng.integers(1, 60, (50, 2, 2)).astype(float)
    first, second = cells[:, 0].sum(axis=1), cells[:, :, 0].sum(axis=1)
    for table, row, column in zip(cells, first, second, strict=True):
        ours = likelihood_ratio(table[:1, 0], np.array([row]), np.array([column]), table.sum())
        theirs = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
        assert ours[0] == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)


def test_whole_queries_come_first_then_changed_phrases():
    counts = QUERIES | {"hotels": 3060, "cheap motels": 3000}
    substitutions = model(queries=counts)
    questions = pa.array(["cheap hotels", "new york hotels", "new car", "nothing known"])
    # "hotels" was changed to "motels" by 9 alone and by 20 after "cheap"; to "hostels" by none,
    # since those who went on to it left out "cheap" too.
    assert substitutions.top(questions, 5) == [
        ["cheap motels", "hostels"],
        ["new york motels"],
        [],
        [],
    ]
    assert substitutions.top(questions, 1) == [["cheap motels"], ["new york motels"], [], []]
    assert substitutions.answers(questions).tolist() == [True, True, False, False]


def test_what_follows_no_more_than_by_chance_is_no_substitution():
    popular = {(f"a{i}", f"b{j}"): 5 for i in range(12) for j in range(12)}
    questions = pa.array([f"a{i}" for i in range(12)])
    assert not model(pairs=popular).answers(questions).any()
    assert model(pairs=popular | {("a0", "b0"): 60}).top(questions[:1], 3) == [["b0"]]


def test_a_few_published_pairs_of_one_query_are_no_less_telling():
    few = {("hotels", "motels"): 30, ("hotels", "hostels"): 20}
    assert model(pairs=few).top(pa.array(["hotels"]), 5) == [["motels", "hostels"]]


def test_a_release_without_counts_has_substitutions():
    few = {("hotels", "motels"): 1, ("maps", "atlas"): 1, ("free", "cheap"): 1}
    tables = [queries_of(QUERIES).select(["query"]), pairs_of(few).drop_columns(["users"])]
    substitutions = Substitutions(queries=tables[0], pairs=tables[1])
    assert substitutions.top(pa.array(["hotels"]), 5) == [["motels"]]


def test_nothing_published_answers_nothing():
    nothing = Substitutions(queries=queries_of(QUERIES).slice(0, 0), pairs=pairs_of({}))
    questions = pa.array(["hotels"])
    assert nothing.top(questions, 5) == [[]]
    assert not nothing.answers(questions).any()


def rankings():
    rng = np.random.default_rng(7)
    names = [f"q{i:02}" for i in range(30)]
    ours = [list(rng.permutation(names)[: rng.integers(0, 25)]) for _ in range(60)]
    right = [list(rng.permutation(names)[: rng.integers(1, 25)]) for _ in range(60)]
    return ours, right


@pytest.mark.parametrize("j", [2, 5, 20])
def test_measures_are_those_of_ir_measures(j):
    ours, right = rankings()
    values = measure_answers(ours, right, j)
    qrels = [
        ir_measures.Qrel(str(q), text, len(true[:j]) - i)
        for q, true in enumerate(right)
        for i, text in enumerate(true[:j])
    ]
    run = [
        ir_measures.ScoredDoc(str(q), text, -float(i))
        for q, mine in enumerate(ours)
        for i, text in enumerate(mine[:j])
    ]
    names = [f"{name}@{j}" for name in ("P", "R", "AP", "nDCG")]
    measures = [ir_measures.parse_measure(name) for name in names]
    theirs = {
        (str(m.measure), int(m.query_id)): m.value
        for m in ir_measures.iter_calc(measures, qrels, run)
    }
    for q, mine in enumerate(ours):
        for name in names:
            value = values[name][q]
            if not mine:
                assert np.isnan(value)
                continue
            # ir-measures divides a precision by j, the paper by how many there are.
            expected = theirs[name, q] * (j / min(j, len(mine)) if name.startswith("P@") else 1)
            assert value == pytest.approx(expected, abs=1e-9), name


def test_measures_by_hand():
    measures = measure_answers([["b", "x", "a"], []], [["a", "b", "c"], ["a"]], 5)
    # Right at places 1 and 3, out of three; worth 3, 2, 1.
    assert measures["P@5"][0] == pytest.approx(2 / 3)
    assert measures["R@5"][0] == pytest.approx(2 / 3)
    assert measures["AP@5"][0] == pytest.approx((1 + 2 / 3) / 3)
    assert measures["nDCG@5"][0] == pytest.approx((2 + 3 / 2) / (3 + 2 / np.log2(3) + 1 / 2))
    assert all(np.isnan(values[1]) for values in measures.values())


def test_the_papers_map_is_taken_to_the_letter():
    # a: 1/2, b: 2/1, c, which is lacking, counts as in the first place: 3/1.
    assert literal_map([["b", "a"]], [["a", "b", "c"]], 5) == pytest.approx([5.5])
    assert literal_map([["a", "b", "c"]], [["a", "b", "c"]], 2) == pytest.approx([2.0])


def test_the_raw_log_is_perfect_against_itself_and_noise_is_worth_nothing():
    exact = truth()
    perfect = {s.measure: s for s in score(exact.tables, exact, Settings())}
    copies = {kind: table.slice(0) for kind, table in exact.tables.items()}  # not the same objects
    again = score(copies, exact, Settings())
    for s in again:
        if s.measure.endswith("of the paper (covered)"):
            assert s.value == perfect[s.measure].value
        else:
            assert s.values.tolist() == [1.0] * len(s.values)
            assert perfect[s.measure].values.tolist() == s.values.tolist()
    noise = {"pair": pairs_of({(f"word{i}", f"word{i // 9 + 50}"): 9 for i in range(40)})}
    bad = score({**exact.tables, **noise}, exact, Settings())
    scores = [s for s in bad if hasattr(s, "values")]
    assert scores
    assert all(np.nansum(s.values) == 0 for s in scores)


def test_fewer_pairs_answer_fewer_questions():
    exact = truth()
    few = {**exact.tables, "pair": exact.tables["pair"].slice(0, 4)}
    scores = score(few, exact, Settings())
    assert 0 < scores[0].has_answer.sum() < len(scores[0].values)


def test_questions_are_of_the_most_asked_queries():
    exact = truth()
    every = score(exact.tables, exact, Settings())[0]
    some = score(exact.tables, exact, Settings(questions=10))[0]
    top = score(exact.tables, exact, Settings(top_queries=6))[0]
    # All words but the last, "cheap hotels" and "hotels".
    assert (len(every.values), len(some.values)) == (101, 10)
    assert len(top.values) == 2


def test_a_bundle_without_pairs_is_unfit():
    exact = truth()
    with pytest.raises(Unfit, match="needs a pair table"):
        score({"query": exact.tables["query"]}, exact, Settings())


def test_a_log_without_substitutions_says_so():
    tables = {"query": queries_of(QUERIES), "pair": pairs_of({("hotels", "motels"): 1})}
    with pytest.raises(Unfit, match="too small for any"):
        score(tables, Truth(tables=tables, holders={}), Settings())
