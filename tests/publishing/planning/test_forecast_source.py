"""The log that a forecast is based on: one of three, and what its use means."""

import pytest

from murmurlog.errors import UsageError
from murmurlog.logs.invented.generate import invent, write
from murmurlog.publishing.planning.forecast_source import ForecastSource
from murmurlog.publishing.planning.goals import Target, Terms, plan_for_target


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "a log that is not secret"),
        ({"public": "a", "raw": "b"}, "--public and --raw are two logs"),
        ({"like": "aol"}, "--like aol needs --users"),
    ],
)
def test_a_forecast_has_one_log(keywords, message):
    with pytest.raises(UsageError, match=message):
        ForecastSource(**keywords)


def test_a_generated_log_protects_nobody_and_needs_nobody():
    log = ForecastSource(users=300).load()
    assert (log.kind, log.exact) == ("query", False)
    assert log.description == "a generated log, plain, 300 users"


@pytest.mark.slow
def test_a_plan_for_a_target_is_a_value(tmp_path):
    write(invent(rows=3_000, seed=4), tmp_path / "log.parquet")
    source = ForecastSource(raw=str(tmp_path / "log.parquet"))
    terms = Terms(mechanism="threshold", per_user=3)
    planned = plan_for_target(source, terms, target=Target(name="volume", amount=0.9), epsilon=1.0)
    assert planned.met is False
    assert planned.shortfall.startswith("missed: volume=0.9 is not reached: the best at epsilon 1")
    assert planned.unprotected == []  # all of it was given
    assert planned.settings["per-user"] == 3
    assert planned.as_json()["release"] == planned.command
    chosen = plan_for_target(source, Terms(mechanism="threshold"), epsilon=1.0)
    assert [text.split()[0] for text in chosen.unprotected] == ["per-user"]
    assert chosen.met is chosen.shortfall is None
