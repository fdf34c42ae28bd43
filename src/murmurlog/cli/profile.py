"""The command that looks at a log, for its owner. Imports are late: --help answers at once."""

import click

from murmurlog.cli.options import command, json_option, memory_option, source_argument, takes
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.logs.options import ReadOptions

# Flags of reading that drop rows of a release; a profile counts these rows and drops none.
DROPPING = {"screen": "--screen", "deny": "--deny"}


@command(examples=["murmurlog profile log.parquet"])
@source_argument
@memory_option
@json_option
@takes(read=ReadOptions)
@click.pass_context
def profile(
    context: click.Context, source: str, memory: str | None, as_json: bool, read: ReadOptions
) -> None:
    """A first look at a log: exact figures, for its owner's eyes only."""
    from murmurlog.publishing.planning.exact_profile import look

    for name, flag in DROPPING.items():
        typed = context.get_parameter_source(name)
        if typed is not None and typed.name == "COMMANDLINE":
            raise UsageError(f"a profile drops no row: leave {flag} out")
    with progress() as say:
        figures = look(source, read, memory=memory, say=say)
    tell("exact numbers, for your eyes only: publishing them, or tuning on them, is a release")
    if flags := " ".join(f"--{name} {value}" for name, value in figures["proposed"].items()):
        tell(f"this was told from rows; a release asks you to say it: {flags}")
    if as_json:
        show_json(figures)
        return
    show(f"{figures['rows']} rows of {figures['users']} users, {figures['shape']}")
    show("columns: " + ", ".join(f"{r}={c}" for r, c in figures["columns"].items()))
    for reason, n in figures["broken"].items():
        show(f"broken: {n} x {reason}")
    for name, n in figures["screened"].items():
        show(f"looks like personal data: {n} x {name}")
    listing = [["distinct items a user", "mean", "median", "99 %"]]
    for kind, n in figures["items_per_user"].items():
        listing.append([kind, *(f"{n[name]:.1f}" for name in ("mean", "p50", "p99"))])
    show(align(listing))
