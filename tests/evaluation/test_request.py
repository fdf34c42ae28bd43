"""A request is checked before anything is read."""

import pytest

import murmurlog
from murmurlog.errors import UsageError
from murmurlog.evaluation.request import EvaluationRequest, request_of
from murmurlog.logs.options import ReadOptions


def test_keywords_of_reading_travel_as_one_value():
    request = request_of("log.csv", {"columns": {"user": "uid"}, "url": "host", "folds": 2})
    assert request.read == ReadOptions(columns={"user": "uid"}, url="host")
    assert request.folds == 2
    assert request_of("log.csv", {"tables": None, "settings": None, "options": None}) == (
        EvaluationRequest(source="log.csv")
    )


def test_a_keyword_that_does_not_exist_is_refused():
    for function in (murmurlog.evaluate, murmurlog.sweep):
        with pytest.raises(UsageError, match="has no option fold"):
            function("log.csv", mechanisms=["threshold"], vary=("epsilon", [1]), fold=3)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"folds": 0}, "must be at least 1, not 0 and 1"),
        ({"tasks": ["tea"]}, "--tasks has no tea"),
        ({"baselines": []}, "nothing to evaluate"),
        ({"by": ("country", ["DE"])}, "has no option by"),
        ({"bundles": ["b"], "since": "2026-01-01"}, "leave out --since"),
        ({"bundles": ["b"], "where": {"country": "DE"}}, "leave out --where"),
        ({"vary": ("epsilon", [1, 2])}, "nothing to vary: name --mechanisms"),
        ({"mechanisms": ["threshold"], "vary": ("k", [5])}, "threshold has no k"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_the_log_is_looked_for(keywords, message):
    with pytest.raises(UsageError, match=message):
        murmurlog.evaluate("no such file", **keywords)
