"""The commands that measure how useful a release is. They read the raw log: their output is internal."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option, read_list, read_pair
from murmurlog.cli.completion import complete_file
from murmurlog.cli.options import (
    FILE,
    INTEGER,
    command,
    json_option,
    memory_option,
    option,
    source_argument,
    takes,
)
from murmurlog.cli.output import align, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.logs.options import ReadOptions

if TYPE_CHECKING:
    from murmurlog.evaluation.result import Evaluation
    from murmurlog.evaluation.scores import Result

FOLDS = "Parts of the users; 1 holds out one user in five."


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Tasks."""

    repeats: Annotated[
        int,
        Option(
            help="Independent releases of each system; their mean is reported.",
            read=integer,
            variable=False,
        ),
    ] = 1
    labels: Annotated[
        Path | None,
        Option(help="What was planted, as generate --labels writes it.", read=Path, variable=False),
    ] = None
    doc_freq: Annotated[
        Path | None,
        Option(
            help="index-caching: a file of keyword<TAB>documents lines.", read=Path, variable=False
        ),
    ] = None
    cache_bytes: Annotated[
        int,
        Option(help="index-caching: memory for posting lists.", read=integer, variable=False),
    ] = 1_000_000_000
    top_queries: Annotated[
        int,
        Option(
            help="substitution: the raw log's most frequent queries.", read=integer, variable=False
        ),
    ] = 100_000
    questions: Annotated[
        int,
        Option(
            help="At most so many questions a task; always the same ones.",
            read=integer,
            variable=False,
        ),
    ] = 10_000
    pattern: Annotated[
        str, Option(help="top-list: which queries, * for anything.", variable=False)
    ] = "fear of *"


@command(
    examples=[
        "murmurlog evaluate log.parquet --bundle bundle --out report.html",
        "murmurlog evaluate log.parquet --baselines 'raw,rounds:epsilon=1|3' --out rounds.html",
    ]
)
@source_argument
@option(
    "--bundle",
    multiple=True,
    shell_complete=complete_file,
    help="A bundle made from this log, once for each; with public files: DIR:pool=FILE.",
)
@option(
    "--out",
    type=FILE,
    default="report.html",
    help="The report; numbers and charts are put beside it.",
)
@option("--test", help="A separate log to score the bundles on, instead of folds.")
@option(
    "--baselines",
    default="raw,k-query:20,users-30",
    help="raw, and requests that are released for this alone: rounds:epsilon=1|3,per-user=20.",
)
@option("--tasks", help="Which tasks, with commas. Default all.")
@option("--folds", type=INTEGER, default=5, help=FOLDS)
@memory_option
@json_option
@takes(scoring=Scoring, read=ReadOptions)
def evaluate(
    source: str,
    bundle: tuple[str, ...],
    out: Path,
    test: str | None,
    baselines: str,
    tasks: str | None,
    folds: int,
    memory: str | None,
    as_json: bool,
    scoring: Scoring,
    read: ReadOptions,
) -> None:
    """Score bundles on every task of the papers, against the log they come from. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation.evaluate import evaluate as run
    from murmurlog.evaluation.request import split_requests

    report.check_target(out)
    with progress() as say:
        evaluation = run(
            source,
            bundles=bundle,
            test=test,
            baselines=split_requests(baselines),
            tasks=None if tasks is None else read_list(tasks),
            folds=folds,
            say=say,
            memory=memory,
            **_keywords(scoring, read),
        )
    report.write(evaluation, out)
    _report(evaluation, out, as_json)


@command(
    examples=["murmurlog sweep log.parquet --mechanisms rounds --vary epsilon=1,4 --out sweep"]
)
@source_argument
@option(
    "--mechanisms",
    required=True,
    help="Requests: threshold,rounds:per-user=20,'zealous(m=1, lam=2, T=9)'.",
)
@option(
    "--vary",
    required=True,
    help="Values of a key of all requests: epsilon=0.5,1,2; of two: 'K=10,20;b=5,10'.",
)
@option("--out", type=FILE, default="sweep", help="A folder; must not exist.")
@option(
    "--baselines",
    default="k-query:20,users-30",
    help="Requests to compare with, at one value.",
)
@option(
    "--x", default="value", help="What the charts are over: value, or evaluated (how many were)."
)
@option("--tasks", default="statistics", help="Which tasks, with commas, or all.")
@option("--folds", type=INTEGER, default=1, help=FOLDS)
@memory_option
@json_option
@takes(scoring=Scoring, read=ReadOptions)
def sweep(
    source: str,
    mechanisms: str,
    vary: str,
    out: Path,
    baselines: str,
    x: str,
    tasks: str,
    folds: int,
    memory: str | None,
    as_json: bool,
    scoring: Scoring,
    read: ReadOptions,
) -> None:
    """Vary keys of requests and see what use is left. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation.evaluate import sweep as run
    from murmurlog.evaluation.request import split_requests

    report.check_folder(out)
    if x not in ("value", "evaluated"):
        raise UsageError(f"--x must be value or evaluated, not {x!r}")
    with progress() as say:
        evaluation = run(
            source,
            mechanisms=split_requests(mechanisms),
            vary=read_vary(vary),
            baselines=split_requests(baselines),
            tasks=None if tasks == "all" else read_list(tasks),
            folds=folds,
            say=say,
            memory=memory,
            **_keywords(scoring, read),
        )
    report.write_folder(evaluation, out, x=x)
    _report(evaluation, out / "report.html", as_json)


def read_vary(text: str) -> dict[str, list[str]]:
    """{"K": ["10", "20"], "b": ["5"]} from "K=10,20;b=5"."""
    from murmurlog.evaluation.request import split

    values: dict[str, list[str]] = {}
    for key, items in (read_pair(part, "--vary") for part in text.split(";") if part.strip()):
        if key in values:
            raise UsageError(f"--vary names {key!r:.60} twice: write its values in one list")
        values[key] = split(items, ",")
    return values


def _keywords(scoring: Scoring, read: ReadOptions) -> dict[str, Any]:
    """The keywords of `murmurlog.evaluate` from the groups of options, with the contents of their files."""
    from murmurlog.evaluation.label_files import read_doc_freq, read_planted
    from murmurlog.evaluation.tasks import Settings

    labels, doc_freq = scoring.labels, scoring.doc_freq
    return {
        **vars(read),
        "repeats": scoring.repeats,
        "labels": None if labels is None else read_planted(labels),
        "settings": Settings(
            questions=scoring.questions,
            pattern=scoring.pattern,
            doc_freq=None if doc_freq is None else read_doc_freq(doc_freq),
            cache_bytes=scoring.cache_bytes,
            top_queries=scoring.top_queries,
        ),
    }


def _report(evaluation: "Evaluation", out: Path, as_json: bool) -> None:
    """Prints what was not run, the first results and where the report is."""
    from murmurlog.evaluation.report import finite

    for skipped in evaluation.skipped:
        tell(f"not run: {skipped.task} for {skipped.system}: {skipped.why}")
    if as_json:
        show_json(finite(evaluation.as_json()))
    else:
        show(align(_headlines(evaluation)))
    tell("INTERNAL: this was made from the raw log and protects nobody. Do not publish it.")
    tell(f"wrote {out}: open it in a browser; numbers and charts are beside it")


def _headlines(evaluation: "Evaluation") -> list[list[str]]:
    """The first measures of each task, a column for each system; the report has everything."""
    systems = [system.name for system in evaluation.systems]
    by_task: dict[str, dict[str, dict[str, Result]]] = {}
    for line in evaluation.results:
        by_task.setdefault(line.task, {}).setdefault(line.measure, {})[line.system] = line
    rows = [["task", "measure", *systems]]
    for task, measures in by_task.items():
        kept_measures = [measure for measure in measures if " kept" in measure]
        for measure in kept_measures if task == "statistics" else list(measures)[:3]:
            lines = measures[measure]
            cells = [_cell(lines.get(name)) for name in systems]
            rows.append([task, measure, *cells])
    return rows


def _cell(line: "Result | None") -> str:
    """A value, or - where there is none: the system was not scored, or the mean is over nothing."""
    return "-" if line is None or math.isnan(line.value) else f"{line.value:.4g}"
