"""What a sweep varies: reading it, reaching mechanisms with it, and refusing what changes nothing."""

import json

import pytest
from command import run
from quick_cases import sample_cases

from murmurlog.cli.evaluate import read_systems, read_vary
from murmurlog.errors import InputError, UsageError
from murmurlog.evaluation.evaluate import evaluate
from murmurlog.evaluation.grid import Grid, with_letters, without_effect
from murmurlog.evaluation.recipes import Place, Recipe, all_recipes
from murmurlog.evaluation.request import EvaluationRequest
from murmurlog.logs.invented.generate import invent, write
from murmurlog.mechanisms import declared_options

QUERIES = Place(columns=("user", "query", "time", "url"))


def plans(**asked):
    """The mechanisms that each system makes its query table with (or its first one)."""
    found = all_recipes(EvaluationRequest(source="", baselines=(), **asked), {}, QUERIES)
    return {
        name: str(next(iter(recipe.plans.values())).mechanism)
        for name, recipe in found.found.items()
    }, found.failed


@pytest.mark.parametrize(
    ("text", "systems"),
    [
        ("threshold,rounds", ["threshold", "rounds"]),
        ("threshold(d=1, b=5, K=20), rounds", ["threshold(d=1, b=5, K=20)", "rounds"]),
        ("query=rounds,click=zealous", ["query=rounds,click=zealous"]),
        (
            "k-query:20;query=threshold(d=1, b=5, K=20),click=zealous;raw",
            ["k-query:20", "query=threshold(d=1, b=5, K=20),click=zealous", "raw"],
        ),
        ("", []),
    ],
)
def test_systems_are_separated_outside_parentheses(text, systems):
    assert read_systems(text) == systems


def test_a_grid_is_read_and_its_axis_has_numbers():
    grid = Grid.of(read_vary("notion=dp,pdp; epsilon=ln(10),2"))
    assert grid.axis == "epsilon"
    assert [grid.name("zealous", point) for point in grid.points()] == [
        "zealous notion=dp epsilon=2.30259",
        "zealous notion=dp epsilon=2",
        "zealous notion=pdp epsilon=2.30259",
        "zealous notion=pdp epsilon=2",
    ]
    assert Grid.of(read_vary("notion=dp,pdp")).axis is None
    assert [
        Grid.of({"k": [5]}).name("k-query", point) for point in Grid.of({"k": [5]}).points()
    ] == ["k-query:5"]


def test_a_grid_of_two_letters_reaches_every_pair():
    found, failed = plans(mechanisms=["safelog-literal"], vary={"K": [10, 20], "b": ["5", "10"]})
    assert not failed
    assert [(name, text.partition(", b=")[2]) for name, text in found.items()] == [
        ("safelog-literal b=5 K=10", "5, b_q=40, b_c=20, K=10)"),
        ("safelog-literal b=5 K=20", "5, b_q=40, b_c=20, K=20)"),
        ("safelog-literal b=10 K=10", "10, b_q=40, b_c=20, K=10)"),
        ("safelog-literal b=10 K=20", "10, b_q=40, b_c=20, K=20)"),
    ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    sample_cases(
        [
            (
                {"mechanisms": ["zealous"], "vary": {"notion": ["dp", "pdp"]}, "users": 5000},
                "users=5000",
            ),
            ({"mechanisms": ["hong"], "vary": {"support": [0.01, 0.02]}}, "support=0.02"),
            ({"mechanisms": ["hong"], "options": {"objective": "diverse"}}, "objective=diverse"),
            ({"mechanisms": ["korolova"], "vary": {"count": ["rows"]}}, "count=rows"),
            ({"mechanisms": ["sessions"], "vary": {"queries-per-session": [2, 4]}}, "l_q=4"),
            (
                {"mechanisms": ["threshold"], "vary": {"noise": ["geometric", "gaussian"]}},
                "gaussian",
            ),
            ({"mechanisms": ["threshold"], "letters": {"b": "7", "K": "30"}}, "scale=7.0, T=31"),
            (
                {"mechanisms": ["korolova"], "letters": {"b": "7"}, "vary": {"K": [30]}},
                "b=7.0, T=31",
            ),
            (
                {"mechanisms": ["rounds"], "vary": {"rounds": [1, 2]}, "tables": ["query"]},
                "rounds(",
            ),
            (
                {"mechanisms": ["query=zealous,click=rounds"], "vary": {"notion": ["dp"]}},
                "zealous(",
            ),
        ],
        every=2,
    ),
)
def test_options_and_letters_reach_the_mechanisms_that_declare_them(asked, shown):
    found, failed = plans(**asked)
    assert not failed
    assert shown in list(found.values())[-1]


def test_every_declared_option_can_be_given_to_an_evaluation():
    """Refused is only what the mechanism itself refuses: a value, or a file that is not there."""
    for name, (_, owners) in declared_options().items():
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is for {owners[0]}"):
            plans(mechanisms=["threshold", "k-query:20"], options={name: "1"})


def test_one_system_that_fails_does_not_stop_the_others():
    found, failed = plans(mechanisms=["zealous", "korolova"], options={"notion": "pdp"})
    assert list(found) == ["korolova"]
    assert "--notion pdp needs --users" in failed["zealous"]
    with pytest.raises(UsageError, match="--notion pdp needs --users"):
        plans(mechanisms=["zealous"], options={"notion": "pdp"})
    found, failed = plans(mechanisms=["hong"], vary={"support": [0.01, 2]})
    assert list(found) == ["hong support=0.01"]
    assert list(failed) == ["hong support=2"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"mechanisms": ["safelog-literal(K=10)"], "vary": {"per-user": [1, 4]}},
            "changes nothing",
        ),
        (
            {"mechanisms": ["threshold(d=1, b=5, K=20)"], "vary": {"epsilon": [1, 4]}},
            "changes nothing",
        ),
        (
            {"mechanisms": ["hong"], "vary": {"per-user": [1, 4]}},
            "per-user changes nothing in hong",
        ),
        ({"mechanisms": ["threshold"], "vary": {"epsilon": [1]}, "epsilon": 2}, "given and varied"),
        (
            {"mechanisms": ["korolova"], "vary": {"K": [1]}, "letters": {"K": "2"}},
            "given and varied",
        ),
        (
            {"mechanisms": ["korolova(d=1, b=2, K=9)"], "vary": {"K": [1]}},
            "states K, which is varied",
        ),
        ({"mechanisms": ["threshold"], "vary": {"a": [1], "b": [2], "c": [3]}}, "or two as"),
        (
            {"mechanisms": ["threshold"], "vary": {"noise": ["gaussian", 2]}},
            "mixes numbers and words",
        ),
        ({"mechanisms": ["rounds"], "vary": {"set-only": [1, 0]}}, "varied as true,false"),
        ({"mechanisms": ["threshold"], "vary": {"scale": ["wide"]}}, "takes numbers, not wide"),
        ({"mechanisms": ["threshold(d=1, b=5, K=20)"], "per_user": 3}, "takes no --per-user"),
        ({"mechanisms": ["threshold(d=1, b=5, K=20)"], "letters": {"K": "3"}}, "leave it out"),
        ({"mechanisms": ["threshold"], "users": 100}, "--users is for zealous"),
    ],
)
def test_what_is_given_twice_or_changes_nothing_is_an_error(asked, message):
    with pytest.raises(UsageError, match=message):
        plans(**asked)


def test_a_letter_replaces_the_one_that_means_the_same():
    assert with_letters("korolova(d=1, b=2.0, T=10)", {"K": "5"}) == "korolova(d=1, b=2.0, K=5)"
    assert with_letters("zealous(m=1, lam=2.0, T=9)", {"scale": "5"}) == "zealous(m=1, lam=5, T=9)"
    assert with_letters("rounds(d=1, T=1_2)", {"threshold": "5"}) is None


def test_a_parameter_has_an_effect_if_it_changes_a_release_anywhere():
    grid = Grid.of({"a": [1, 2], "b": [3, 4]})
    made = {tuple(point.values()): point["a"] for point in grid.points()}
    assert without_effect(grid, made) == "b"
    made[next(iter(made))] = "other"
    assert without_effect(grid, made) is None


def test_a_grid_is_charted_with_a_line_for_each_value_of_the_other(tmp_path):
    write(invent(rows=3_000, seed=2), tmp_path / "log.parquet")
    done = run(
        "sweep", tmp_path / "log.parquet", "--mechanisms", "safelog-literal;threshold(d=1, b=1, K=3)",
        "--vary", "b=1,2;K=5,9,14", "--tables", "query", "--baselines", "", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 2  # the second states both
    assert "states b, which is varied" in done.stderr
    done = run(
        "sweep", tmp_path / "log.parquet", "--mechanisms", "safelog-literal", "--json",
        "--vary", "b=1,2;K=5,9,14", "--tables", "query", "--baselines", "", "--out", tmp_path / "out",
    )  # fmt: skip
    points = [p for p in json.loads(done.stdout)["points"] if p["measure"] == "query distinct"]
    assert {(p["system"], p["vary"], p["at"]) for p in points} == {
        (f"safelog-literal K={K}", "b", b) for K in (5, 9, 14) for b in (1, 2)
    }
    chart = (tmp_path / "out" / "charts" / "kept-distinct.svg").read_text()
    for K in (5, 9, 14):
        assert f">K={K}" in chart  # all lines are of one mechanism


def test_a_system_that_fails_while_it_is_released_is_left_out(tmp_path, monkeypatch):
    write(invent(rows=3_000, seed=2), tmp_path / "log.parquet")
    log, fails = str(tmp_path / "log.parquet"), [2]
    released = Recipe.release

    def fail(self, *given, **more):
        if self.name == "threshold":
            fails[0] -= 1
            if fails[0] < 1:  # on the whole log it works, in the first fold it does not
                raise InputError("too little here")
        return released(self, *given, **more)

    monkeypatch.setattr(Recipe, "release", fail)
    asked = {"tasks": ["statistics", "autocomplete"], "tables": ["query"], "folds": 2}
    done = evaluate(log, mechanisms=["threshold", "k-query:9"], **asked)
    assert {(s.system, s.task, s.why) for s in done.skipped} == {
        ("threshold", "release", "too little here")
    }
    scored = {(r.system, r.task) for r in done.results}
    assert ("threshold", "statistics") in scored
    assert ("threshold", "autocomplete") not in scored
    assert ("k-query:9", "autocomplete") in scored
    with pytest.raises(InputError, match="too little here"):
        evaluate(log, mechanisms=["threshold"], **asked)
