"""One-line requests: how they are read, what reaches the mechanisms, and what is refused."""

import json

import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st
from quick_cases import sample_cases

from murmurlog.cli.evaluate import read_vary
from murmurlog.errors import InputError, UsageError
from murmurlog.evaluation.evaluate import evaluate, plan_systems, sweep
from murmurlog.evaluation.request import (
    PlanContext,
    Recipe,
    RequestError,
    make_tables,
    parse_request,
    replace_parameter,
    split_requests,
)
from murmurlog.evaluation.setup import Setup
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.invented.generate import invent, write
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import find
from murmurlog.mechanisms import declared_options
from murmurlog.privacy.sampler import SeededEntropy

CONTEXT = PlanContext(columns=("user", "query", "time", "url"))


def plan(request):
    """The mechanism of the query table, or of the first one, of each request in a text."""
    recipes = {str(r): r.recipe(CONTEXT) for r in parse_request(request)}
    return {
        name: str(next(iter(recipe.plans.values())).mechanism) for name, recipe in recipes.items()
    }


@pytest.fixture(scope="module")
def small_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(invent(rows=3_000, seed=2), path)
    return str(path)


@pytest.mark.parametrize(
    ("text", "requests"),
    [
        ("threshold,rounds", ["threshold", "rounds"]),
        ("threshold(d=1, b=5, K=20), rounds", ["threshold(d=1, b=5, K=20)", "rounds"]),
        ("raw,rounds:epsilon=1,delta=1e-6,k-query:20,tables=[query,pair]",
         ["raw", "rounds:epsilon=1,delta=1e-6", "k-query:20,tables=[query,pair]"]),
        ("safelog-literal:K=10|20,b=5|10", ["safelog-literal:K=10|20,b=5|10"]),
        ("", []),
    ],
)  # fmt: skip
def test_a_comma_separates_requests_unless_a_key_follows(text, requests):
    assert split_requests(text) == requests


def test_a_list_of_values_stands_for_a_request_each():
    assert plan("safelog-literal:K=10|20,b=5|10") == {
        f"safelog-literal:K={K},b={b}": f"safelog-literal(q_f=10, c_f=10, b={b}, b_q=40, b_c=20, K={K})"
        for K in (10, 20)
        for b in (5, 10)
    }
    assert plan("k-query:5|20") == plan("k-query:k=5|20") == {
        "k-query:5": "k-query:5", "k-query:20": "k-query:20",
    }  # fmt: skip
    stated = "threshold(noise=geometric, d=1, scale=5.0, T=21|31)"
    assert list(plan(stated)) == list(plan(stated).values())


WORDS = st.text("abz09.-", min_size=1, max_size=5)
VALUES = st.one_of(WORDS, st.lists(WORDS, min_size=2, max_size=3).map(lambda w: f"[{','.join(w)}]"))


@given(
    st.sampled_from(["epsilon=1", "epsilon=2,delta=1e-6", "per-user=[query=3,click=2]"]),
    st.dictionaries(st.sampled_from(["deep", "x", "s_1"]), VALUES),
)
def test_a_request_is_its_own_name(general, parameters):
    text = ",".join([f"threshold:{general}", *(f"{n}={v}" for n, v in parameters.items())])
    (request,) = parse_request(text)
    assert str(request) == text
    assert parse_request(str(request)) == [request]
    assert split_requests(f"raw,{text},rounds") == ["raw", text, "rounds"]


@pytest.mark.parametrize(
    ("request_text", "shown"),
    sample_cases(
        [
            ("zealous:notion=pdp,users=5000", "users=5000"),
            ("hong:support=0.02", "support=0.02"),
            ("hong:objective=diverse", "objective=diverse"),
            ("korolova:count=rows", "count=rows"),
            ("sessions:queries-per-session=4", "l_q=4"),
            ("threshold:noise=gaussian", "gaussian"),
            ("threshold:b=7,K=30", "scale=7.0, T=31"),
            ("korolova:b=7,K=30", "b=7.0, T=31"),
            ("threshold(noise=geometric, d=1, scale=5.0):K=30", "d=1, scale=5.0, T=31"),
            ("threshold:per-user=[query=7,click=2]", "d=7"),
            ("rounds:rounds=1,tables=query", "own=1000"),
            ("rounds:query=zealous,click=threshold", "zealous("),
        ],
        every=2,
    ),
)
def test_options_and_parameters_reach_the_mechanism(request_text, shown):
    (mechanism,) = plan(request_text).values()
    assert shown in mechanism


def test_every_declared_option_is_a_key_of_the_mechanisms_that_take_it_and_of_no_other():
    for name, (_, owners) in declared_options().items():
        key = name.replace("_", "-")
        with pytest.raises(RequestError, match=f"k-query:20,{key}=1: {key} is for {owners[0]}"):
            parse_request(f"k-query:20,{key}=1")
        try:
            (request,) = parse_request(f"{owners[0]}:{key}=1")
        except RequestError as error:  # the value may be wrong; the key is not
            assert f"{key}: " in str(error)  # noqa: PT017
        else:
            assert name in request.options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rund:epsilon=1", "rund:epsilon=1: unknown mechanism 'rund'.*Did you mean 'rounds'"),
        ("rounds:query=tea", "rounds:query=tea: unknown mechanism 'tea'"),
        ("rounds:tables=query,click", r"click names a table.*tables=\[query,click\]"),
        ("epsilon=1", "name a mechanism first, as in rounds:epsilon=1"),
        ("rounds:epsilom=1", "rounds takes no 'epsilom': use epsilon, .*Did you mean 'epsilon'"),
        ("rounds:epsilon", "'epsilon' is not KEY=VALUE"),
        ("rounds:epsilon=", "epsilon needs values"),
        ("rounds:epsilon=1|1", "epsilon needs values, each once"),
        ("rounds:epsilon=1,epsilon=2", "gives epsilon twice: write its values as 1|2|4"),
        ("rounds:epsilon=x", "rounds:epsilon=x: epsilon: 'x' is no number"),
        ("threshold:per-user=1.5", "per-user: takes 20 or query=20"),
        ("rounds:set-only=1", "set-only: it takes true or false, not '1'"),
        ("rounds:T=5", "rounds has a T for each round"),
        ("threshold:K=x", "K takes numbers, not 'x'"),
        ("threshold:scale=wide", "scale must be a number, not 'wide'"),
        ("threshold(d=1, b=5, K=20):K=3", "K is given twice"),
        ("threshold(d=1, b=5, K=20)x:epsilon=3", "nothing may follow"),
        ("threshold(d=1", "not closed"),
        ("threshold(d=1, b=5)", r"threshold\(d=1, b=5\): give the threshold once"),
    ],
)
def test_a_wrong_request_is_refused_by_its_name_with_what_is_possible(text, message):
    with pytest.raises(RequestError, match=message):
        [plan(request) for request in split_requests(text)]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"baselines": ["safelog-literal(K=10):per-user=1|4"]}, "states its own bound"),
        ({"baselines": ["hong:per-user=1|4"]}, "hong keeps no number of items"),
        ({"baselines": ["threshold(d=1, b=5, K=20):epsilon=1|4"]}, "epsilon changes nothing in thresh"),
        ({"baselines": ["zealous:notion=pdp"]}, "--notion pdp needs --users"),
        ({"baselines": ["threshold:users=100"]}, "--users is for zealous"),
        ({"mechanisms": ["threshold:epsilon=2"], "vary": {"epsilon": [1]}}, "epsilon, which is var"),
        ({"mechanisms": ["korolova(d=1, b=2, K=9)"], "vary": {"K": [1]}}, "K, which is varied"),
        ({"mechanisms": ["threshold"], "vary": ("epsilon", [])}, "epsilon needs values"),
        ({"mechanisms": ["threshold"], "vary": ("colour", [1])}, "threshold takes no 'colour'"),
        ({"mechanisms": ["hong"], "vary": ("support", [2, 3]), "baselines": ["k-query:5"]},
         r"hong:support=2: --support is a share"),
    ],
)  # fmt: skip
def test_what_is_given_twice_or_changes_nothing_is_an_error(keywords, message):
    with pytest.raises(UsageError, match=message):
        plan_systems(Setup(source="", **keywords), {}, CONTEXT)


def test_one_request_that_cannot_be_planned_does_not_stop_the_others():
    requests = ["zealous:notion=pdp", "korolova", "hong:support=0.01|2"]
    recipes, failed = plan_systems(Setup(source="", baselines=requests), {}, CONTEXT)
    assert list(recipes) == ["korolova", "hong:support=0.01"]
    assert "--notion pdp needs --users" in failed["zealous:notion=pdp"]
    assert list(failed) == ["zealous:notion=pdp", "hong:support=2"]


@pytest.mark.parametrize("letter", ["T", "scale"])
def test_a_parameter_by_hand_gives_the_guarantee_that_follows(letter):
    fixed = "threshold:epsilon=1,delta=1e-6,per-user=5,noise=geometric,tables=query"
    (solved,) = (request.recipe(CONTEXT) for request in parse_request(fixed))
    before = solved.plans["query"].mechanism
    value = before.scale * 2 if letter == "scale" else before.T // 2
    (other,) = (request.recipe(CONTEXT) for request in parse_request(f"{fixed},{letter}={value}"))
    assert getattr(other.plans["query"].mechanism, letter) == pytest.approx(value)
    assert other.guarantee.delta > 100 * solved.guarantee.delta


def test_a_scale_that_costs_more_than_the_requested_epsilon_states_its_cost():
    (request,) = parse_request("zealous:epsilon=1,per-user=5,tables=query,scale=2.5")
    assert request.recipe(CONTEXT).guarantee.epsilon == pytest.approx(2 * 5 / 2.5 / 2)


def test_a_parameter_replaces_the_one_that_means_the_same():
    assert replace_parameter("korolova(d=1, b=2.0, T=10)", "K", "5") == "korolova(d=1, b=2.0, K=5)"
    assert (
        replace_parameter("zealous(m=1, lam=2.0, T=9)", "scale", "5")
        == "zealous(m=1, T=9, scale=5)"
    )
    assert replace_parameter("rounds(d=1, T=1_2)", "T", "5") is None


def test_a_request_makes_tables_and_a_list_of_values_does_not(small_log):
    reading = Reading()
    with connect() as engine:
        log = reading.read(find(small_log), engine=engine, urls=True, say=print)
        text = "threshold:epsilon=20,delta=1e-3,tables=[query,click]"
        tables, again = (
            make_tables(text, log, reading, entropy=SeededEntropy(1)) for _ in range(2)
        )
        assert list(tables) == ["query", "click"]
        assert tables["query"].num_rows > 2
        assert tables["query"].equals(again["query"])
        with pytest.raises(RequestError, match="is 2 requests: give each key one value"):
            make_tables("k-query:5|20", log, reading, entropy=SeededEntropy(1))


def test_values_to_vary_are_read_outside_brackets():
    assert read_vary("notion=dp,pdp; epsilon=ln(10),2") == {
        "notion": ["dp", "pdp"],
        "epsilon": ["ln(10)", "2"],
    }
    assert read_vary("tables=[query,click],query") == {"tables": ["[query,click]", "query"]}
    with pytest.raises(UsageError, match="names 'K' twice"):
        read_vary("K=1;K=2")


def test_a_sweep_over_two_keys_is_charted_with_a_line_for_each_value_of_the_other(
    small_log, tmp_path
):
    done = run(
        "sweep", small_log, "--mechanisms", "safelog-literal:tables=query", "--json",
        "--vary", "b=1,2;K=5,9,14", "--baselines", "", "--out", tmp_path / "out",
    )  # fmt: skip
    points = [p for p in json.loads(done.stdout)["points"] if p["measure"] == "query distinct"]
    assert {(p["system"], p["vary"], p["at"]) for p in points} == {
        (f"safelog-literal:tables=query,K={K}", "b", b) for K in (5, 9, 14) for b in (1, 2)
    }
    chart = (tmp_path / "out" / "charts" / "kept-distinct.svg").read_text()
    for K in (5, 9, 14):
        assert f">tables=query,K={K}<" in chart  # all lines are of one mechanism


def test_a_list_of_values_in_an_evaluation_is_charted_as_in_a_sweep(small_log):
    request = {"tasks": ["statistics"], "folds": 1}
    swept = sweep(small_log, mechanisms=["k-query"], vary=("k", [5, 9]), **request)
    evaluation = evaluate(small_log, baselines=["k-query:5|9"], **request)
    assert evaluation.points == swept.points
    assert {(p.at, p.result.system) for p in evaluation.points} == {(5, "k-query"), (9, "k-query")}


def test_a_system_that_fails_while_it_is_released_is_left_out(small_log, monkeypatch):
    fails = [2]
    release = Recipe.release

    def fail(self, *positional, **keywords):
        if "threshold" in str(self.plans["query"].mechanism):
            fails[0] -= 1
            if fails[0] < 1:  # on the whole log it works, in the first fold it does not
                raise InputError("too little here")
        return release(self, *positional, **keywords)

    monkeypatch.setattr(Recipe, "release", fail)
    request = {"tasks": ["statistics", "autocomplete"], "folds": 2}
    done = evaluate(small_log, baselines=["raw", "threshold:tables=query", "k-query:9"], **request)
    assert {(s.system, s.task, s.why) for s in done.skipped} == {
        ("threshold:tables=query", "release", "too little here")
    }
    scored = {(r.system, r.task) for r in done.results}
    assert ("threshold:tables=query", "statistics") in scored
    assert ("threshold:tables=query", "autocomplete") not in scored
    assert ("k-query:9", "autocomplete") in scored
    with pytest.raises(InputError, match="too little here"):
        evaluate(small_log, baselines=["raw", "threshold:tables=query"], **request)
