"""The commands on a series of releases. Imports are late: --help answers at once."""

from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmurlog.cli.ledger import Decision
from murmurlog.cli.options import FILE, Group, json_option, option, takes
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import DiskError, InputError
from murmurlog.publishing.series_spec import SeriesOptions

if TYPE_CHECKING:
    from murmurlog.publishing.series import PeriodState, Status

spec_argument = click.argument("path", type=FILE, metavar="SPEC", help="The series, a TOML file.")


@click.group(cls=Group)
def series() -> None:
    """A release every month, week or day under one cap."""


@series.command(
    "init",
    examples=[
        "murmurlog series init series.toml --logs 'logs/{period}.parquet' --first 2026-01 --source monthly "
        "--epsilon 3 --delta 1e-5 --reason 'monthly tables'"
    ],
)
@spec_argument
@option(
    "--new-source", is_flag=True, help="Add a source to a ledger that has others: for other users."
)
@json_option
@takes(options=SeriesOptions, decision=Decision)
def series_init(
    path: Path, new_source: bool, as_json: bool, options: SeriesOptions, decision: Decision
) -> None:
    """Write the file of a series, and set the cap of its source if the ledger has none."""
    from murmurlog.publishing.series_init import init_series

    started = init_series(path, options, new_source=new_source, **asdict(decision))
    spec = started.spec
    cap = f'source "{spec.source}": epsilon {spec.epsilon:.4g}, delta {spec.delta:.3g} in all'
    tell(f"{cap}; " + ("set in " if started.cap_set else "as it was in ") + spec.ledger)
    if spec.name in started.series:
        tell(
            f'the ledger has releases of series "{spec.name}": their periods are not released again'
        )
    elif started.series:
        names = ", ".join(f'"{name}"' for name in started.series)
        tell(
            f"note: the ledger has releases of series {names} on this source; a series of another name "
            "releases their periods again"
        )
    tell(
        f"wrote {path}: each {spec.first.kind} from {spec.first} on spends 1/{spec.releases} of the cap; "
        f"next: murmurlog series run {path}"
    )
    if as_json:
        facts = {**vars(spec), "first": str(spec.first), "last": spec.last and str(spec.last)}
        facts |= {"skip": [str(period) for period in spec.skip]}
        facts |= {"period": spec.first.kind, "release": dict(spec.release)}
        show_json({"spec": str(path), "cap_set": started.cap_set, **facts})


@series.command(
    "run",
    examples=["murmurlog series run series.toml", "murmurlog series run series.toml --once"],
)
@spec_argument
@option("--once", is_flag=True, help="Release one period, not all that are due.")
@option(
    "--again",
    metavar="PERIOD",
    help="Release a period that was lost; spends another part of the cap.",
)
@option(
    "--same-users",
    is_flag=True,
    help="Accept another column of users or times than the source's releases had.",
)
@option("--expect", is_flag=True, help="Fail if the log of a period that is over is not there.")
@json_option
def series_run(
    path: Path, once: bool, again: str | None, same_users: bool, expect: bool, as_json: bool
) -> None:
    """Release every period that is due, each once. Fit for cron."""
    from murmurlog.publishing.series import run_series
    from murmurlog.publishing.series_spec import read_spec

    spec = read_spec(path)
    with chdir(path.parent):
        with progress() as say:
            run = run_series(
                spec, once=once, again=again, same_users=same_users, say=say,
                done=lambda period, outcome: say(f"{period}: published in {outcome.out}"),
            )  # fmt: skip
        for period in run.finished:
            tell(f"{period}: published; an earlier run had made it and ended before that")
        if as_json:
            show_json(run.as_json())
        if run.busy:
            tell(f'another run of series "{spec.name}" is at work: nothing was done')
            return
        if run.lost:
            names = ", ".join(run.lost)
            raise DiskError(
                f'{names} of series "{spec.name}" was booked by a run that ended before the bundle was made. '
                "It is lost: its part of the cap stays spent. The next run goes on with the periods after it; to "
                f"spend another part on it: murmurlog series run {path} --again {run.lost[0]}"
            )
        if run.waiting and expect:
            raise InputError(
                f"{run.waiting.period} is over, and its log {run.waiting.missing!r} is not there"
            )
        if run.waiting:
            tell(f"waiting for {run.waiting.missing}")
        elif not (run.released or run.finished):
            tell("nothing is due")


@series.command("status", examples=["murmurlog series status series.toml"])
@spec_argument
@json_option
def series_status(path: Path, as_json: bool) -> None:
    """Each period: published, lost, due or waiting for its log; and what is left of the cap."""
    from murmurlog.publishing.series import series_status as look
    from murmurlog.publishing.series_spec import read_spec

    spec = read_spec(path)
    with chdir(path.parent):
        status = look(spec)
    if as_json:
        show_json(status.as_json())
        return
    show(align([[str(state.period), *_describe(state, status)] for state in status.periods]))
    show(f'left of the cap of source "{status.account.name}": {status.left}')
    cap = status.account.epsilon_cap, status.account.delta_cap
    if cap != (spec.epsilon, spec.delta):
        tell(
            f"note: the ledger has a cap of epsilon {cap[0]:.6g}, delta {cap[1]:.3g}, which holds; {path.name} "
            "says another one"
        )
    if status.clock_behind:
        tell(
            f"warning: the clock is behind: the last release was booked at {status.clock_behind} UTC"
        )


def _describe(state: "PeriodState", status: "Status") -> tuple[str, str]:
    """The state of a period in a word, and what there is to say."""
    rows = ", ".join(f"{name} {rows:,} rows" for name, rows in state.rows.items())
    details = {
        "published": f"{state.bundle}  {rows}"
        if state.bundle
        else "its bundle was moved or removed",
        "lost": "booked, not published; its part of the cap is spent",
        "interrupted": "the next run finishes it, or reports it as lost",
        "skipped": "a later period is booked",
        "waiting": f"for {state.missing}",
        "future": f"over on {state.period.end}",
    }
    if state.state == "interrupted" and status.running:
        return "running", "a run is at work on it"
    return state.state, details.get(state.state, "")
