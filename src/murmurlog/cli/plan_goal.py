"""What `plan` prints and writes when a release is planned on a forecast."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmurlog.cli.output import align, progress, show, show_json, tell, warn_about
from murmurlog.errors import UsageError

if TYPE_CHECKING:
    from murmurlog.publishing.planning.forecast_source import ForecastSource
    from murmurlog.publishing.planning.goals import TargetPlan, Terms


def plan_on_forecast(
    *,
    target: str | None,
    goal: str | None,
    epsilon: float | None,
    terms: Mapping[str, Any],
    others: Mapping[str, Any],
    source: Mapping[str, Any],
    sweep: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Chooses a release, prints its forecast, and writes its settings to --out."""
    for name, value in others.items():
        if value is not None:
            option = "--set" if name == "letters" else "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} does not go with a forecast: leave it out, or plan without one"
            )
    from murmurlog.publishing.planning.forecast_source import ForecastSource
    from murmurlog.publishing.planning.goals import Terms, plan_for_target
    from murmurlog.publishing.planning.planner import read_target

    release_terms = Terms(**{name: value for name, value in terms.items() if value is not None})
    if sweep:
        for flag, value in {"--target": target, "--epsilon": epsilon, "--out": out}.items():
            if value is not None:
                raise UsageError(f"--sweep prints what every epsilon gives: leave {flag} out")
        _show_sweep(ForecastSource(**source), release_terms, goal, as_json=as_json)
        return
    parsed_target = None if target is None else read_target(target)
    check_out(out)
    with progress() as say:
        planned = plan_for_target(
            ForecastSource(**source),
            release_terms,
            target=parsed_target,
            goal=goal,
            epsilon=epsilon,
            say=say,
        )
    _show(planned, as_json=as_json)
    if planned.shortfall:
        tell(planned.shortfall)
    if out is not None:
        _write_settings(out, planned)
    if planned.shortfall:
        sys.exit(1)


def _show_sweep(
    source: "ForecastSource", terms: "Terms", goal: str | None, *, as_json: bool
) -> None:
    """Prints what the mechanism publishes at each epsilon."""
    from murmurlog.publishing.planning.goals import sweep

    with progress() as say:
        log, rows = sweep(source, terms, goal=goal, say=say)
    if log.exact:
        tell("exact figures of the log itself: keep them private, and all that is tuned by them")
    if as_json:
        show_json({"from": log.description, "sweep": rows})
        return
    listing = [["epsilon", "per user", "items", "volume", "error"]]
    for row in rows:
        error = row["median_error"]
        numbers = [f"{row['epsilon']:g}", str(row["per_user"]), f"{row['queries']:,}"]
        shares = [f"{row['volume']:.1%}", "" if error is None else f"{error:.1%}"]
        listing.append([*numbers, *shares])
    show(align(listing))
    show(f"{terms.mechanism}, delta {terms.delta:g}; from: {log.description}")


def check_out(out: Path | None) -> None:
    """Raises unless the output can be written there."""
    if out is None:
        return
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out.name} exists: choose another --out, or remove it first")
    if out.suffix != ".toml":
        raise UsageError(f"--out {out.name} must end in .toml: it holds settings of a release")
    from murmurlog.evaluation.report import check_parent

    check_parent(out)


def _show(planned: "TargetPlan", *, as_json: bool) -> None:
    """Prints the choice and its forecast."""
    choice = planned.choice
    warn_about(choice.plan.guarantee)
    if as_json:
        show_json(planned.as_json())
        return
    f = choice.forecast
    (few, little), (many, much) = f.low, f.high
    counts = (
        ""
        if f.median_error is None
        else f"; the counts of the 100 most popular are off by {100 * f.median_error:.1f} % in the median"
    )
    show(planned.sentence)
    show(
        f"In the simulations it was {few:,.0f} to {many:,.0f}, {100 * little:.1f} to "
        f"{100 * much:.1f} % of the volume{counts}."
    )
    show(planned.explanation)
    show(str(choice.plan.mechanism))
    show(str(choice.plan.guarantee))
    show(f"from: {planned.log.description}")
    for text in planned.unprotected:
        show(f"unprotected: {text}")
    show(f"next: {planned.command}")


def _write_settings(path: Path, planned: "TargetPlan") -> None:
    """A [release] section that `murmurlog release` picks up, with the forecast as a comment."""
    texts = [planned.sentence, planned.shortfall or ""]
    lines = ["# Made by murmurlog plan.", *(f"# {text}" for text in texts if text), "[release]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in planned.settings.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tell(f"wrote {path}")
