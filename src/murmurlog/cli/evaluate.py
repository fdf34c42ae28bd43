"""The commands that say how useful a release is. What they write looks at the raw log: internal."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from murmurlog.cli.app import app
from murmurlog.cli.flags import (
    Columns,
    Delta,
    Encoding,
    Epsilon,
    Json,
    Map,
    Memory,
    PoolFile,
    ResultLists,
    Shape,
    Source,
    Url,
    flag,
    number,
    one_pair,
    pairs,
)
from murmurlog.cli.output import aligned, progress, show, show_json, tell
from murmurlog.errors import UsageError

Folds = Annotated[
    int, typer.Option("--folds", help="Parts of the users; 1 holds out one user in five.")
]


def shared_options(
    tables: Annotated[
        str | None,
        flag("--tables", help="Of mechanisms named here. Default query,click,pair,keyword."),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    per_user: Annotated[
        int | None, flag("--per-user", help="Of mechanisms named here: distinct items a user.")
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", help="Independent releases of each system; their mean is reported."
        ),
    ] = 1,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="What was planted, as generate --labels writes it."),
    ] = None,
    doc_freq: Annotated[
        Path | None,
        typer.Option("--doc-freq", help="index-caching: a file of keyword<TAB>documents lines."),
    ] = None,
    cache_bytes: Annotated[
        int, typer.Option("--cache-bytes", help="index-caching: memory for posting lists.")
    ] = 1_000_000_000,
    top_queries: Annotated[
        int,
        typer.Option("--top-queries", help="substitution: the raw log's most frequent queries."),
    ] = 100_000,
    questions: Annotated[
        int,
        typer.Option("--questions", help="At most so many questions a task; always the same ones."),
    ] = 10_000,
    pattern: Annotated[
        str, typer.Option("--pattern", help="top-list: which queries, * for anything.")
    ] = "fear of *",
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    url: Url = "path",
    deny: Annotated[
        Path | None, flag("--deny", help="The denied queries that a bundle was made with.")
    ] = None,
    patterns: Annotated[
        Path | None, flag("--patterns", help="The screen that a bundle was made with.")
    ] = None,
    pool: PoolFile = None,
    result_lists: ResultLists = None,
    map: Map = None,
    memory: Memory = None,
) -> None:
    """Declares the options of both commands."""


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the shared options before its last one, --json."""
    *own, as_json = (
        each
        for each in inspect.signature(command).parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    )
    shared = inspect.signature(shared_options).parameters.values()
    merged = [*own, *shared, as_json]
    command.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in merged}
    return command


@app.command()
@with_shared_options
def evaluate(
    source: Source,
    bundle: Annotated[
        list[Path] | None,
        typer.Option("--bundle", help="A bundle made from this log; once for each."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="The report; numbers and charts are put beside it.")
    ] = Path("report.html"),
    test: Annotated[
        str | None,
        typer.Option("--test", help="A separate log to score the bundles on, instead of folds."),
    ] = None,
    baselines: Annotated[
        str, typer.Option("--baselines", help="raw and mechanisms to compare with.")
    ] = "raw,k-query:20,users-30",
    mechanisms: Annotated[
        str | None,
        typer.Option("--mechanisms", help="Also releases made for this alone: korolova,rounds."),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Which tasks, with commas. Default all.")
    ] = None,
    folds: Folds = 5,
    as_json: Json = False,
    **shared: Any,
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
            baselines=listed(baselines) or (),
            mechanisms=listed(mechanisms) or (),
            tasks=listed(tasks),
            folds=folds,
            say=say,
            **_keywords(shared, bundles=bundle or ()),
        )
    report.write(done, out)
    _tell(done, out, as_json)


@app.command()
@with_shared_options
def sweep(
    source: Source,
    mechanisms: Annotated[
        str, typer.Option("--mechanisms", help="Which ones, with commas: threshold,rounds.")
    ],
    vary: Annotated[
        str,
        typer.Option("--vary", help="epsilon=0.5,1,2; or delta, per-user, threshold, scale or k."),
    ],
    out: Annotated[Path, typer.Option("--out", help="A folder; must not exist.")] = Path("sweep"),
    baselines: Annotated[
        str, typer.Option("--baselines", help="Mechanisms to compare with, at one value.")
    ] = "k-query:20,users-30",
    x: Annotated[
        str,
        typer.Option("--x", help="What the charts are over: value, or evaluated (how many were)."),
    ] = "value",
    tasks: Annotated[
        str, typer.Option("--tasks", help="Which tasks, with commas, or all.")
    ] = "statistics",
    folds: Folds = 1,
    as_json: Json = False,
    **shared: Any,
) -> None:
    """Vary one parameter of mechanisms and see what use is left. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation.sweep import sweep as run

    report.check_folder(out)
    if x not in ("value", "evaluated"):
        raise UsageError(f"--x must be value or evaluated, not {x!r}")
    with progress() as say:
        done = run(
            source,
            mechanisms=listed(mechanisms) or (),
            vary=read_vary(vary),
            baselines=listed(baselines) or (),
            tasks=None if tasks == "all" else listed(tasks),
            folds=folds,
            say=say,
            **_keywords(shared),
        )
    report.write_folder(done, out, x=x)
    _tell(done, out / "report.html", as_json)


def listed(text: str | None) -> list[str] | None:
    """["a", "b"] from "a,b"; None stays None, and nothing is nothing."""
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def read_vary(text: str) -> tuple[str, list[float]]:
    """("epsilon", [0.5, 1.0]) from "epsilon=0.5,1"."""
    what, values = one_pair(text, "--vary")
    return what, [number(value) for value in listed(values) or ()]


def _keywords(shared: dict[str, Any], bundles: list[Path] | tuple[()] = ()) -> dict[str, Any]:
    """The keywords of `murmurlog.evaluate` that the shared options give, their files read."""
    from murmurlog.evaluation.label_files import read_doc_freq, read_planted
    from murmurlog.evaluation.recipes import public_files
    from murmurlog.evaluation.tasks import Settings

    given = dict(shared)
    tables = listed(given.pop("tables"))
    labels, doc_freq = given.pop("labels"), given.pop("doc_freq")
    chosen = ("questions", "pattern", "cache_bytes", "top_queries")
    return {
        "tables": tables,
        "columns": pairs(given.pop("columns"), "--columns"),
        "labels": None if labels is None else read_planted(labels),
        "settings": Settings(
            doc_freq=None if doc_freq is None else read_doc_freq(doc_freq),
            **{name: given.pop(name) for name in chosen},
        ),
        "options": public_files(
            pool=given.pop("pool"),
            result_lists=given.pop("result_lists"),
            labels=given.pop("map"),
            tables=tables,
            url=given["url"],
            bundles=bundles,
        ),
        **given,
    }


def _tell(done: Any, out: Path, as_json: bool) -> None:
    for skipped in done.skipped:
        tell(f"not run: {skipped.task} for {skipped.system}: {skipped.why}")
    if as_json:
        show_json(done.as_json())
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
            cells = [f"{lines[name].value:.4g}" if name in lines else "-" for name in systems]
            rows.append([task, measure, *cells])
    return rows
