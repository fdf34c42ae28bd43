"""The plan command. Imports are late, so that --help is fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option
from murmurlog.cli.options import FILE, command, json_option, memory_option, option, takes
from murmurlog.cli.output import show, show_json, warn_about
from murmurlog.cli.plan_goal import plan_on_forecast
from murmurlog.errors import UsageError
from murmurlog.logs.options import SourceOptions
from murmurlog.publishing.request import Choice, Privacy


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Forecast."""

    target: Annotated[
        str | None, Option(help="What to reach: volume=0.4, or queries=10000.", variable=False)
    ] = None
    goal: Annotated[
        str | None,
        Option(help="What the budget goes to: coverage or precision.", variable=False),
    ] = None
    public: Annotated[
        str | None, Option(help="Forecast from a public or invented log.", variable=False)
    ] = None
    like: Annotated[
        str | None,
        Option(help="Forecast from a generated log: aol, zealous or plain.", variable=False),
    ] = None
    raw: Annotated[
        str | None, Option(help="Forecast from the log itself: NOT protected.", variable=False)
    ] = None
    kind: Annotated[
        str | None, Option(help="Of item: query, keyword, click or pair.", variable=False)
    ] = None
    sweep: Annotated[
        bool,
        Option(help="What is published at which epsilon.", switch=True, variable=False),
    ] = False

    @property
    def is_requested(self) -> bool:
        """Whether any forecast option is given."""
        chosen = (self.target, self.goal, self.public, self.like, self.raw)
        return self.sweep or any(value is not None for value in chosen)


@dataclass(frozen=True, kw_only=True)
class PlanBudget(Privacy):
    """Budget and unit of privacy."""

    users: Annotated[
        int | None, Option(help="A publicly known number (upper bound) of users.", read=integer)
    ] = None


@command(
    examples=[
        "murmurlog plan --epsilon 1 --delta 1e-6 --per-user 20",
        "murmurlog plan --like aol --users 10000 --target volume=0.1 --out plan.toml",
    ]
)
@option("--out", type=FILE, help="A .toml file for release. Must be new.")
@memory_option
@json_option
@takes(privacy=PlanBudget, choice=Choice, forecast=Forecast, read=SourceOptions, mechanisms=True)
def plan(
    out: Path | None,
    memory: str | None,
    as_json: bool,
    privacy: PlanBudget,
    choice: Choice,
    forecast: Forecast,
    read: SourceOptions,
    options: dict[str, Any],
) -> None:
    """Thresholds for a budget, or the budget for a target, before the log is read."""
    if isinstance(choice.per_user, Mapping) or isinstance(choice.mechanism, Mapping):
        raise UsageError("plan is for one table: --per-user takes one number, --mechanism one name")
    from murmurlog.publishing.planning.planner import FORECAST_OPTIONS, forecast_by_users

    source = {
        "public": forecast.public,
        "like": forecast.like,
        "raw": forecast.raw,
        "users": privacy.users,
        "kind": forecast.kind,
        "unit": privacy.unit,
        "read": read,
        "memory": memory,
    }
    choices = {**options, "letters": choice.letters, "noise": choice.noise, "users": privacy.users}
    if forecast.is_requested or forecast_by_users(choice.mechanism, choices):
        own_options = {
            name: options.pop(name) for name in list(options) if name in FORECAST_OPTIONS
        }
        plan_on_forecast(
            target=forecast.target,
            goal=forecast.goal,
            epsilon=privacy.epsilon,
            terms={
                "delta": privacy.delta,
                "neighbours": privacy.neighbours,
                "set_only": choice.set_only,
                "mechanism": choice.mechanism,
                "per_user": choice.per_user,
                "options": own_options,
            },
            others={"letters": choice.letters, "noise": choice.noise, **options},
            source=source,
            sweep=forecast.sweep,
            out=out,
            as_json=as_json,
        )
        return
    if out is not None:
        raise UsageError(
            "--out is for a forecast: give --users, --public, --raw, --target or --goal, too"
        )
    from murmurlog.publishing.plan import plan_mechanism
    from murmurlog.publishing.planning.forecast import explain

    planned = plan_mechanism(
        choice.mechanism,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        per_user=choice.per_user,
        noise=choice.noise,
        letters=choice.letters,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        users=privacy.users,
        set_only=choice.set_only or None,
        **options,
    )
    warn_about(planned.guarantee)
    if as_json:
        show_json(planned.as_json())
        return
    show(explain(planned))
    show(str(planned.mechanism))
    show(str(planned.guarantee))
