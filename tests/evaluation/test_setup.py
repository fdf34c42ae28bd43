"""What is evaluated is checked before anything is read."""

import pytest

import murmurlog
from murmurlog.errors import UsageError
from murmurlog.evaluation.setup import Setup, setup_of
from murmurlog.logs.options import ReadOptions


def test_keywords_of_reading_travel_as_one_value():
    setup = setup_of("log.csv", {"columns": {"user": "uid"}, "url": "host", "folds": 2})
    assert setup.read == ReadOptions(columns={"user": "uid"}, url="host")
    assert setup.folds == 2
    assert setup_of("log.csv", {"tasks": None, "settings": None}) == Setup(source="log.csv")


def test_a_keyword_that_does_not_exist_is_refused():
    for function in (murmurlog.evaluate, murmurlog.sweep):
        with pytest.raises(UsageError, match="has no option fold"):
            function("log.csv", mechanisms=["threshold"], vary=("epsilon", [1]), fold=3)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"folds": 0}, "--folds must be from 1 to 1,000, not 0"),
        ({"repeats": 0}, "--repeats must be from 1 to 1,000, not 0"),
        ({"repeats": 2**63}, "--repeats must be from 1 to 1,000, not 9,223,372,036,854,775,808"),
        ({"tasks": ["tea"]}, "--tasks has no tea"),
        ({"baselines": []}, "nothing to evaluate"),
        ({"by": ("country", ["DE"])}, "has no option by"),
        ({"bundles": ["b"], "since": "2026-01-01"}, "leave out --since"),
        ({"bundles": ["b"], "where": {"country": "DE"}}, "leave out --where"),
        ({"bundles": ["b"], "baselines": ["rund"]}, "rund: unknown mechanism"),
        ({"bundles": ["no-bundle:tea=x"]}, "a bundle takes .*pool.*, not tea"),
        ({"vary": ("epsilon", [1, 2])}, "nothing to vary: name --mechanisms"),
        ({"baselines": ["k-query:5|20", "k-query:20"]}, "two systems are called k-query:20"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_the_log_is_looked_for(
    keywords, message, tmp_path
):
    (tmp_path / "log.csv").write_text("user,query\n")
    log = str(tmp_path / "log.csv") if "tea=x" in str(keywords) else "no such file"
    with pytest.raises(UsageError, match=message):
        murmurlog.evaluate(log, **keywords)


@pytest.mark.parametrize(
    ("baselines", "axis", "points"),
    [
        (["rounds", "k-query:20"], None, {}),
        (["zealous:notion=dp|pdp,users=9"], None, {}),
        (
            ["zealous:notion=dp|pdp,users=9,epsilon=ln(10)|2"],
            "epsilon",
            {
                "zealous:notion=dp,users=9,epsilon=ln(10)": ("zealous:notion=dp,users=9", 2.302585),
                "zealous:notion=dp,users=9,epsilon=2": ("zealous:notion=dp,users=9", 2),
                "zealous:notion=pdp,users=9,epsilon=ln(10)": ("zealous:notion=pdp,users=9", 2.302585),
                "zealous:notion=pdp,users=9,epsilon=2": ("zealous:notion=pdp,users=9", 2),
            },
        ),
        (["k-query:5|20"], "k", {"k-query:5": ("k-query", 5), "k-query:20": ("k-query", 20)}),
    ],
)  # fmt: skip
def test_charts_are_over_the_first_key_that_has_several_numbers(baselines, axis, points):
    setup = Setup(source="log.csv", baselines=baselines)
    assert setup.axis == axis
    assert setup.points() == {
        name: (line, pytest.approx(at)) for name, (line, at) in points.items()
    }
