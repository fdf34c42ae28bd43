"""The commands that say how useful a release is. What they write looks at the raw log: internal."""

from collections.abc import Sequence
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

Tables = Annotated[
    str | None,
    flag("--tables", help="Of mechanisms named here. Default query,click,pair,keyword."),
]
PerUser = Annotated[
    int | None, flag("--per-user", help="Of mechanisms named here: distinct items a user.")
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", help="Which tasks, with commas. Default all.")
]
Repeats = Annotated[
    int, typer.Option("--repeats", help="Independent releases of each system; their mean is told.")
]
Planted = Annotated[
    Path | None, typer.Option("--labels", help="What was planted, as generate --labels writes it.")
]
DocFreq = Annotated[
    Path | None,
    typer.Option("--doc-freq", help="index-caching: a file of keyword<TAB>documents lines."),
]
CacheBytes = Annotated[
    int, typer.Option("--cache-bytes", help="index-caching: memory for posting lists.")
]
TopQueries = Annotated[
    int, typer.Option("--top-queries", help="substitution: the raw log's most frequent queries.")
]
Questions = Annotated[
    int, typer.Option("--questions", help="At most so many questions a task; always the same ones.")
]
Pattern = Annotated[str, typer.Option("--pattern", help="top-list: which queries, * for anything.")]
Deny = Annotated[
    Path | None, flag("--deny", help="The denied queries that a bundle was made with.")
]
Patterns = Annotated[
    Path | None, flag("--patterns", help="The screen that a bundle was made with.")
]


@app.command()
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
    tables: Tables = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    per_user: PerUser = None,
    tasks: Tasks = None,
    folds: Annotated[
        int, typer.Option("--folds", help="Parts of the users; 1 holds out one user in five.")
    ] = 5,
    repeats: Repeats = 1,
    labels: Planted = None,
    doc_freq: DocFreq = None,
    cache_bytes: CacheBytes = 1_000_000_000,
    top_queries: TopQueries = 100_000,
    questions: Questions = 10_000,
    pattern: Pattern = "fear of *",
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    url: Url = "path",
    deny: Deny = None,
    patterns: Patterns = None,
    pool: PoolFile = None,
    result_lists: ResultLists = None,
    map: Map = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Score bundles on every task of the papers, against the log they come from. Internal."""
    from murmurlog.evaluation import evaluate as evaluating
    from murmurlog.evaluation import report

    report.check_target(out)
    kinds = listed(tables)
    with progress() as say:
        done = evaluating.evaluate(
            source,
            bundles=bundle or (),
            test=test,
            baselines=listed(baselines) or (),
            mechanisms=listed(mechanisms) or (),
            tables=kinds,
            epsilon=epsilon,
            delta=delta,
            per_user=per_user,
            tasks=listed(tasks),
            folds=folds,
            repeats=repeats,
            labels=_planted(labels),
            settings=_settings(questions, pattern, doc_freq, cache_bytes, top_queries),
            columns=pairs(columns, "--columns"),
            encoding=encoding,
            shape=shape,
            url=url,
            deny=deny,
            patterns=patterns,
            options=_options(pool, result_lists, map, kinds, url, bundle or ()),
            memory=memory,
            say=say,
        )
    report.write(done, out)
    _tell(done, out, as_json)


@app.command()
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
    tables: Tables = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    per_user: PerUser = None,
    tasks: Annotated[
        str, typer.Option("--tasks", help="Which tasks, with commas, or all.")
    ] = "statistics",
    folds: Annotated[
        int, typer.Option("--folds", help="Parts of the users; 1 holds out one user in five.")
    ] = 1,
    repeats: Repeats = 1,
    labels: Planted = None,
    doc_freq: DocFreq = None,
    cache_bytes: CacheBytes = 1_000_000_000,
    top_queries: TopQueries = 100_000,
    questions: Questions = 10_000,
    pattern: Pattern = "fear of *",
    columns: Columns = None,
    encoding: Encoding = None,
    shape: Shape = None,
    url: Url = "path",
    deny: Deny = None,
    patterns: Patterns = None,
    pool: PoolFile = None,
    result_lists: ResultLists = None,
    map: Map = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Vary one parameter of mechanisms and see what use is left. Internal."""
    from murmurlog.evaluation import report
    from murmurlog.evaluation import sweep as sweeping

    report.check_folder(out)
    if x not in ("value", "evaluated"):
        raise UsageError(f"--x must be value or evaluated, not {x!r}")
    kinds = listed(tables)
    with progress() as say:
        done = sweeping.sweep(
            source,
            mechanisms=listed(mechanisms) or (),
            vary=varied(vary),
            baselines=listed(baselines) or (),
            tables=kinds,
            epsilon=epsilon,
            delta=delta,
            per_user=per_user,
            tasks=None if tasks == "all" else listed(tasks),
            folds=folds,
            repeats=repeats,
            labels=_planted(labels),
            settings=_settings(questions, pattern, doc_freq, cache_bytes, top_queries),
            columns=pairs(columns, "--columns"),
            encoding=encoding,
            shape=shape,
            url=url,
            deny=deny,
            patterns=patterns,
            options=_options(pool, result_lists, map, kinds, url),
            memory=memory,
            say=say,
        )
    report.write_folder(done, out, x=x)
    _tell(done, out / "report.html", as_json)


def listed(text: str | None) -> list[str] | None:
    """["a", "b"] from "a,b"; None stays None, and nothing is nothing."""
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def varied(text: str) -> tuple[str, list[float]]:
    """("epsilon", [0.5, 1.0]) from "epsilon=0.5,1"."""
    what, values = one_pair(text, "--vary")
    return what, [number(value) for value in listed(values) or ()]


def _planted(path: Path | None) -> Any:
    from murmurlog.evaluation.label_files import read_planted

    return None if path is None else read_planted(path)


def _settings(
    questions: int, pattern: str, doc_freq: Path | None, cache_bytes: int, top_queries: int
) -> Any:
    from murmurlog.evaluation.label_files import read_doc_freq
    from murmurlog.evaluation.tasks import Settings

    return Settings(
        questions=questions,
        pattern=pattern,
        doc_freq=None if doc_freq is None else read_doc_freq(doc_freq),
        cache_bytes=cache_bytes,
        top_queries=top_queries,
    )


def _options(
    pool: Path | None,
    lists: Path | None,
    map: str | None,
    kinds: list[str] | None,
    url: str,
    bundles: Sequence[Path] = (),
) -> dict[str, Any]:
    """The public files, read as the bundles' logs were, for all tables that may need them."""
    from murmurlog.bundle.read import read_certificate
    from murmurlog.evaluation.recipes import public_files, with_pools

    given = [read_certificate(bundle) for bundle in bundles]
    tables = [*(kinds or ()), *(name for each in given for name in with_pools(each))]
    return public_files(
        pool=pool,
        result_lists=lists,
        labels=map,
        tables=list(dict.fromkeys(tables)) or ["query"],
        url=given[0].text["url"] if given else url,
    )


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
