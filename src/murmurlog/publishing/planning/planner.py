"""`murmurlog.plan`: parameters for a budget, or the release that reaches a target."""

from collections.abc import Callable, Mapping
from typing import Any

from murmurlog.bundle.options import read_number, read_pair
from murmurlog.errors import UsageError
from murmurlog.publishing.plan import Plan, plan_mechanism
from murmurlog.publishing.planning.forecast_source import ForecastSource
from murmurlog.publishing.planning.goals import Target, TargetPlan, Terms, plan_for_target

FORECAST_MECHANISMS = (None, "rounds", "threshold", "korolova")
FORECAST_OPTIONS = ("rounds", "count_share", "count_per_user")  # what a forecast can vary
FORECAST = ("public", "like", "raw", "kind")
SHARED = ("users", "unit", "memory")  # of a plan and of the log that a forecast is made from
TERMS = ("delta", "neighbours", "set_only", "mechanism", "per_user")


def plan(
    *,
    mechanism: str | None = None,
    target: str | None = None,
    goal: str | None = None,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> Plan | TargetPlan:
    """The parameters of a mechanism for a budget; looks at no log.

    With a `target` ("volume=0.4" or "queries=10000") or a `goal` ("coverage" or "precision"): the
    release that reaches it at the least epsilon, by a forecast from `public`, `like` (with `users`) or
    `raw`. With `users` alone: the forecast for a generated log of so many. All keywords are named
    as the flags of `murmurlog plan` are.
    """
    settings = {**keywords, **(options or {})}
    asks = any(settings.get(name) is not None for name in FORECAST)
    forecast = target is not None or goal is not None or asks
    if not forecast and not forecast_by_users(mechanism, settings):
        return plan_mechanism(mechanism, **settings)
    source = {n: settings.pop(n) for n in (*FORECAST, *SHARED) if settings.get(n) is not None}
    epsilon = settings.pop("epsilon", None)
    terms = {n: settings.pop(n) for n in TERMS if settings.get(n) is not None}
    if mechanism is not None:
        terms["mechanism"] = mechanism
    unknown = sorted(set(settings) - set(FORECAST_OPTIONS))
    if unknown:
        raise UsageError(f"a forecast does not vary {', '.join(unknown)}: leave it out")
    return plan_for_target(
        ForecastSource(**source),
        Terms(**terms, options=settings),
        target=None if target is None else read_target(target),
        goal=goal,
        epsilon=epsilon,
        say=say,
    )


def forecast_by_users(mechanism: str | None, settings: Mapping[str, Any]) -> bool:
    """Whether a number of users alone asks for a forecast: it has one, and nothing else is given."""
    allowed = {"users", "epsilon", "unit", "memory", *TERMS, *FORECAST_OPTIONS}
    names = {name for name, value in settings.items() if value is not None and value is not False}
    return "users" in names and mechanism in FORECAST_MECHANISMS and names <= allowed


def read_target(text: str) -> Target:
    """The target that is written as volume=0.4 or queries=10000."""
    name, amount = read_pair(text, "--target")
    return Target(name=name, amount=read_number(amount))
