"""The commands that say how useful a release is. What they write looks at the raw log: internal."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.bundle.decimals import integer
from murmurlog.bundle.options import Option, read_list, read_pair
from murmurlog.cli.app import app
from murmurlog.cli.flags import Json, Memory, Source
from murmurlog.cli.options import GroupedCommand, takes
from murmurlog.cli.output import aligned, progress, show, show_json, tell
from murmurlog.errors import UsageError
from murmurlog.logs.options import ReadOptions

Folds = Annotated[
    int, typer.Option("--folds", help="Parts of the users; 1 holds out one user in five.")
]


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


GROUPS = {"scoring": Scoring, "read": ReadOptions}


@app.command(cls=GroupedCommand)
@takes(**GROUPS)
def evaluate(
    source: Source,
    bundle: Annotated[
        list[str] | None,
        typer.Option(
            "--bundle",
            help="A bundle made from this log, once for each; with public files: DIR:pool=FILE.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="The report; numbers and charts are put beside it.")
    ] = Path("report.html"),
    test: Annotated[
        str | None,
        typer.Option("--test", help="A separate log to score the bundles on, instead of folds."),
    ] = None,
    baselines: Annotated[
        str, typer.Option("--baselines", help="raw and requests to compare with.")
    ] = "raw,k-query:20,users-30",
    mechanisms: Annotated[
        str | None,
        typer.Option(
            "--mechanisms",
            help="Requests, released for this alone: rounds:epsilon=3,zealous:epsilon=1|2,per-user=5.",
        ),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Which tasks, with commas. Default all.")
    ] = None,
    folds: Folds = 5,
    memory: Memory = None,
    as_json: Json = False,
    **groups: Any,
) -> None:
    """Score bundles on every task of the papers, against the log they come from. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation.evaluate import evaluate as run

    report.check_target(out)
    with progress() as say:
        done = run(
            source,
            bundles=bundle or (),
            test=test,
            baselines=read_requests(baselines),
            mechanisms=read_requests(mechanisms or ""),
            tasks=None if tasks is None else read_list(tasks),
            folds=folds,
            say=say,
            memory=memory,
            **_keywords(**groups),
        )
    report.write(done, out)
    _tell(done, out, as_json)


@app.command(cls=GroupedCommand)
@takes(**GROUPS)
def sweep(
    source: Source,
    mechanisms: Annotated[
        str,
        typer.Option(
            "--mechanisms",
            help="Requests: threshold,rounds:per-user=20,'zealous(m=1, lam=2, T=9)'.",
        ),
    ],
    vary: Annotated[
        str,
        typer.Option(
            "--vary",
            help="Values of a key of all requests: epsilon=0.5,1,2; of two: 'K=10,20;b=5,10'.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="A folder; must not exist.")] = Path("sweep"),
    baselines: Annotated[
        str, typer.Option("--baselines", help="Requests to compare with, at one value.")
    ] = "k-query:20,users-30",
    x: Annotated[
        str,
        typer.Option("--x", help="What the charts are over: value, or evaluated (how many were)."),
    ] = "value",
    tasks: Annotated[
        str, typer.Option("--tasks", help="Which tasks, with commas, or all.")
    ] = "statistics",
    folds: Folds = 1,
    memory: Memory = None,
    as_json: Json = False,
    **groups: Any,
) -> None:
    """Vary keys of requests and see what use is left. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation.evaluate import sweep as run

    report.check_folder(out)
    if x not in ("value", "evaluated"):
        raise UsageError(f"--x must be value or evaluated, not {x!r}")
    with progress() as say:
        done = run(
            source,
            mechanisms=read_requests(mechanisms or ""),
            vary=read_vary(vary),
            baselines=read_requests(baselines),
            tasks=None if tasks == "all" else read_list(tasks),
            folds=folds,
            say=say,
            memory=memory,
            **_keywords(**groups),
        )
    report.write_folder(done, out, x=x)
    _tell(done, out / "report.html", as_json)


def read_vary(text: str) -> dict[str, list[str]]:
    """{"K": ["10", "20"], "b": ["5"]} from "K=10,20;b=5"."""
    from murmurlog.evaluation.request import split

    found: dict[str, list[str]] = {}
    for what, values in (read_pair(part, "--vary") for part in text.split(";") if part.strip()):
        if what in found:
            raise UsageError(f"--vary names {what!r:.60} twice: write its values in one list")
        found[what] = split(values, ",")
    return found


def read_requests(text: str) -> list[str]:
    """The requests in a list."""
    from murmurlog.evaluation.request import split_requests

    return split_requests(text)


def _keywords(scoring: Scoring, read: ReadOptions) -> dict[str, Any]:
    """The keywords of `murmurlog.evaluate` that the groups give, their files read."""
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


def _tell(done: Any, out: Path, as_json: bool) -> None:
    from murmurlog.evaluation.report import finite

    for skipped in done.skipped:
        tell(f"not run: {skipped.task} for {skipped.system}: {skipped.why}")
    if as_json:
        show_json(finite(done.as_json()))
    else:
        show(aligned(_headlines(done)))
    tell("INTERNAL: this was made from the raw log and protects nobody. Do not publish it.")
    tell(f"wrote {out}: open it in a browser; numbers and charts are beside it")


def _headlines(done: Any) -> list[list[str]]:
    """The first measures of each task, a column for each system; the report has everything."""
    systems = [system.name for system in done.systems]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in done.results:
        found.setdefault(line.task, {}).setdefault(line.measure, {})[line.system] = line
    rows = [["task", "measure", *systems]]
    for task, measures in found.items():
        kept = [measure for measure in measures if " kept" in measure]
        for measure in kept if task == "statistics" else list(measures)[:3]:
            lines = measures[measure]
            cells = [_cell(lines.get(name)) for name in systems]
            rows.append([task, measure, *cells])
    return rows


def _cell(line: Any) -> str:
    """A value, or - where there is none: the system was not scored, or the mean is over nothing."""
    return "-" if line is None or math.isnan(line.value) else f"{line.value:.4g}"
