"""What `plan` prints and writes when a release is planned on a forecast."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from murmurlog.cli.output import progress, show, show_json, tell, warn_about
from murmurlog.errors import UsageError

if TYPE_CHECKING:
    from murmurlog.publishing.planning.goals import Choice, TargetPlan

SETTINGS = "murmurlog.toml"


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
    """Chooses a release, prints its forecast, and writes the files that --out asks for."""
    for name, value in others.items():
        if value is not None:
            given = "--set" if name == "letters" else "--" + name.replace("_", "-")
            raise UsageError(
                f"{given} does not go with a forecast: leave it out, or plan without one"
            )
    from murmurlog.publishing.planning.forecast_source import ForecastSource
    from murmurlog.publishing.planning.goals import Terms, plan_for_target
    from murmurlog.publishing.planning.planner import read_target
    from murmurlog.publishing.planning.sweep_report import FILES, write_sweep

    wanted = None if target is None else read_target(target)
    check_out(out, sweep=sweep)
    with progress() as say:
        planned = plan_for_target(
            ForecastSource(**source),
            Terms(**{name: value for name, value in terms.items() if value is not None}),
            target=wanted,
            goal=goal,
            epsilon=epsilon,
            with_sweep=sweep,
            say=say,
        )
    if planned.log.note:
        tell(planned.log.note)
    if out is not None and sweep:
        write_sweep(out, planned.sweep, planned.log)
        tell(f"wrote {out / FILES[0]} and {out / FILES[1]}")
        if planned.log.exact:
            tell(
                "they are exact figures of the log itself: keep them private, and all that is tuned by them"
            )
    if planned.choice is None:
        if as_json:
            show_json(planned.as_json())
        return
    _show(planned, planned.choice, as_json=as_json)
    if planned.shortfall:
        tell(planned.shortfall)
    if out is not None:
        _write_settings(out / SETTINGS if sweep else out, planned)
    if planned.shortfall:
        raise typer.Exit(1)


def check_out(out: Path | None, *, sweep: bool) -> None:
    """Raises unless the output can be written there."""
    if sweep and out is None:
        raise UsageError("--sweep writes a chart and a table: give --out, a folder for them")
    if out is None:
        return
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out.name} exists: choose another --out, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    if not sweep and out.suffix != ".toml":
        raise UsageError(f"--out {out.name} must end in .toml: it holds settings of a release")
    from murmurlog.evaluation.report import outside_bundles

    outside_bundles(out)


def _show(planned: "TargetPlan", choice: "Choice", *, as_json: bool) -> None:
    """Prints the choice and its forecast."""
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
    said = [planned.sentence, planned.shortfall or ""]
    lines = ["# Made by murmurlog plan.", *(f"# {text}" for text in said if text), "[release]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in planned.settings.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tell(f"wrote {path}")
