"""`murmurlog.plan`: parameters for a budget, or the release that reaches a target."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from murmurlog.bundle.options import read_number, read_pair
from murmurlog.errors import UsageError
from murmurlog.publishing.options import plan_mechanism
from murmurlog.publishing.plan import Plan
from murmurlog.publishing.planning.forecast_source import ForecastSource
from murmurlog.publishing.planning.goals import Target, TargetPlan, Terms, plan_for_target
from murmurlog.publishing.planning.series_forecast import SeriesForecast, forecast_series

FORECAST_MECHANISMS = (None, "rounds", "threshold", "korolova")
FORECAST_OPTIONS = ("rounds", "count_share", "count_per_user")  # what a forecast can vary
FORECAST = ("profile", "public", "like", "raw", "kind")
SHARED = ("users", "unit", "memory")  # of a plan and of the log that a forecast is made from
SERIES = ("of_cap", "releases", "counts_share")
SERIES_TERMS = ("epsilon", "delta", "neighbours", "per_user")
TERMS = ("delta", "neighbours", "set_only", "mechanism", "per_user")


def plan(
    *,
    mechanism: str | None = None,
    target: str | None = None,
    goal: str | None = None,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> Plan | TargetPlan | SeriesForecast:
    """The parameters of a mechanism for a budget; looks at no log.

    With a `target` ("volume=0.4" or "queries=10000") or a `goal` ("coverage" or "precision"): the
    release that reaches it at the least epsilon, by a forecast from `profile`, `public`, `like` (with
    `users`) or `raw`. With `users` alone: the forecast for a generated log of so many. With `of_cap` or
    `releases`: the forecast of a series under the cap (epsilon, delta), release by release. All
    keywords are named as the flags of `murmurlog plan` are.
    """
    asked = {**keywords, **(options or {})}
    if any(asked.get(name) is not None for name in SERIES):
        source = {n: asked.pop(n) for n in (*FORECAST, *SHARED) if n in asked}
        named = {n: asked.pop(n) for n in (*SERIES, *SERIES_TERMS) if n in asked}
        others: dict[str, Any] = {"target": target, "goal": goal}
        others |= {n: asked.pop(n) for n in ("letters", "noise", "set_only") if n in asked}
        return plan_releases(
            source, mechanism=mechanism, **named, others=others, options=asked, say=say
        )
    asks = any(asked.get(name) is not None for name in FORECAST)
    forecast = target is not None or goal is not None or asks
    if not forecast and not forecast_by_users(mechanism, asked):
        return plan_mechanism(mechanism, **asked)
    source = {n: asked.pop(n) for n in (*FORECAST, *SHARED) if asked.get(n) is not None}
    epsilon = asked.pop("epsilon", None)
    terms = {n: asked.pop(n) for n in TERMS if asked.get(n) is not None}
    if mechanism is not None:
        terms["mechanism"] = mechanism
    unknown = sorted(set(asked) - set(FORECAST_OPTIONS))
    if unknown:
        raise UsageError(f"a forecast does not vary {', '.join(unknown)}: leave it out")
    return plan_for_target(
        ForecastSource(**source),
        Terms(**terms, options=asked),
        target=None if target is None else read_target(target),
        goal=goal,
        epsilon=epsilon,
        say=say,
    )


def plan_releases(
    source: Mapping[str, Any],
    *,
    of_cap: float | None = None,
    releases: int | None = None,
    counts_share: Sequence[float] = (),
    mechanism: str | None = None,
    others: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **terms: Any,
) -> SeriesForecast:
    """The forecast of a series of releases under one cap; `others` are flags that do not go with it."""
    if mechanism not in (None, "rounds"):
        raise UsageError(f"a series is forecast for rounds, not for {mechanism:.60}")
    own = {name: value for name, value in (options or {}).items() if value is not None}
    unknown = {**(others or {}), **{n: own[n] for n in own if n not in FORECAST_OPTIONS}}
    if named := [name for name, value in unknown.items() if value not in (None, False)]:
        flag = "--" + named[0].replace("_", "-")
        raise UsageError(f"{flag} does not go with the forecast of a series: leave it out")
    if of_cap is None and releases is None:
        raise UsageError("--counts-share is about a series: give --of-cap or --releases, too")
    shares = own.pop("count_share", None)
    if shares is not None and counts_share:
        raise UsageError("--count-share and --counts-share say the same: give one")
    return forecast_series(
        ForecastSource(**{name: value for name, value in source.items() if value is not None}),
        of_cap=of_cap,
        releases=releases,
        count_shares=tuple(counts_share) or (() if shares is None else (shares,)),
        options=own,
        say=say,
        **{name: value for name, value in terms.items() if value is not None},
    )


def forecast_by_users(mechanism: str | None, asked: Mapping[str, Any]) -> bool:
    """Whether a number of users alone asks for a forecast: it has one, and nothing else is given."""
    known = {"users", "epsilon", "unit", "memory", *TERMS, *FORECAST_OPTIONS}
    given = {name for name, value in asked.items() if value is not None and value is not False}
    return "users" in given and mechanism in FORECAST_MECHANISMS and given <= known


def read_target(text: str) -> Target:
    """The target that is written as volume=0.4 or queries=10000."""
    name, amount = read_pair(text, "--target")
    return Target(name=name, amount=read_number(amount))
