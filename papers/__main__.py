"""Computes the papers' tables again, and runs their experiments.

python -m papers [korolova|zealous|hong|safelog] [--json]
python -m papers hong --experiments --users 500 --only table-3
"""

from pathlib import Path

import click

from murmurlog.cli.options import FILE, INTEGER, command, json_option, option
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import UsageError
from papers.experiments import PAPERS as EXPERIMENTS
from papers.experiments import page, runner
from papers.tables import PAPERS, tables
from tools.command import run

OUT = Path("reproduced")


@command()
@click.argument("paper", required=False, help="korolova, zealous, hong or safelog. Default all.")
@option("--experiments", is_flag=True, help="Run the paper's experiments on a generated log.")
@option("--users", type=INTEGER, help="Of the generated log. Default one where the effects exist.")
@option("--seed", type=INTEGER, help="Of the generated log and the noise. Default 1.")
@option("--only", multiple=True, help="One experiment, such as table-3; once for each.")
@option(
    "--out",
    type=FILE,
    help=f"Folder for page, results and logs, kept for the next run. Default {OUT}.",
)
@json_option
def papers(
    paper: str | None,
    experiments: bool,
    users: int | None,
    seed: int | None,
    only: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """The papers' printed tables computed again, or their experiments run again, and what is true."""
    if experiments:
        _run_experiments(paper, users, seed, only, out or OUT, as_json)
        return
    given = {"--users": users, "--seed": seed, "--only": only or None, "--out": out}
    for flag, value in given.items():
        if value is not None:
            raise UsageError(f"{flag} goes with --experiments: add it, or leave {flag} out")
    _show_tables(paper, as_json)


def _show_tables(paper: str | None, as_json: bool) -> None:
    made = tables(PAPERS if paper is None else (paper,))
    if as_json:
        show_json({"tables": [table.as_json() for table in made]})
        return
    for table in made:
        show(f"{table.paper}, {table.name}: {table.about}")
        show(align(table.rows()))
        for note in table.notes():
            show(f"* {note}")
        show("")
    cells = [cell for table in made for cell in table.cells]
    printed = [cell for cell in cells if cell.printed is not None]
    matched = sum(cell.matched is True for cell in printed)
    show(f"{len(printed)} printed numbers, {matched} of them matched; {len(cells)} cells in all")


def _run_experiments(
    paper: str | None,
    users: int | None,
    seed: int | None,
    only: tuple[str, ...],
    out: Path,
    as_json: bool,
) -> None:
    if paper is not None and paper not in EXPERIMENTS:
        raise UsageError(f"unknown paper {paper!r}: use one of {', '.join(EXPERIMENTS)}")
    chosen = list(EXPERIMENTS.values()) if paper is None else [EXPERIMENTS[paper]]
    if paper is None and only:
        raise UsageError("--only is for one paper: name it")
    outcomes = []
    for each in chosen:
        with progress() as say:
            found = runner.run(each, work=out, users=users, seed=seed, only=only, say=say)
        target = out / f"{each.name}.html"
        runner.write_page(target, page.page(each.title, found))
        tell(f"wrote {target}")
        outcomes += found
    if as_json:
        show_json({"experiments": [outcome.as_json() for outcome in outcomes]})
        return
    for outcome in outcomes:
        show(f"{outcome.experiment.name}: {outcome.experiment.about}")
        show(f"on {page.log_text(outcome)}")
        for heading, rows in page.text_tables(outcome):
            show(align([heading, *rows]))
        if outcome.why:
            show(f"why it differs, most likely: {outcome.why}")
        show("")
    show(align([page.SUMMARY, *page.summary_rows(outcomes)]))
    show(page.RULE)


def main() -> None:
    run(papers, name="python -m papers")


if __name__ == "__main__":
    main()
