"""The report of an evaluation: one HTML file to look at, its charts as SVG, its numbers as CSV, JSON.

It is made from the raw log and protects nobody. It says so on top and in a mark that machines read
(`INTERNAL`), and it is never written into a bundle.
"""

import csv as tables
import io
import json
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from os.path import realpath
from pathlib import Path
from typing import Any

from murmurlog.bundle.files import CERTIFICATE
from murmurlog.charts import html as paper
from murmurlog.charts.svg import alone, number
from murmurlog.errors import UsageError
from murmurlog.evaluation.figures import (
    ALL,
    COVERED,
    STATISTICS,
    Picture,
    SystemStyles,
    budgets,
    charts_by_name,
    curves,
    hero,
    is_protected,
    release_charts,
    score_charts,
    sweep_charts,
)
from murmurlog.evaluation.result import Evaluation
from murmurlog.evaluation.scores import Comparison, Result

MARK, INTERNAL = "murmurlog-report", "internal"
WARNING = (
    "INTERNAL. This report was made from the raw log. It is not differentially private and protects "
    "nobody. Do not publish it."
)
SHOWN = 6  # charts of a task that are seen at once
COLUMNS = ("system", "task", "measure", "value", "low", "high", "n", "vary", "at")
NO_GUARANTEE = "† has no privacy guarantee; for comparison only."


# --- what is written ------------------------------------------------------------------------------


def page(evaluation: Evaluation, *, x: str = "value") -> str:
    """The whole report as HTML. `x`: the x axis of sweeps, "value" or "evaluated"."""
    cast = SystemStyles(evaluation)
    log = evaluation.log
    rows, users = log.get("rows"), log.get("users")
    on = f" on {rows:,} rows of {users:,} users" if rows is not None and users is not None else ""
    count = len(evaluation.systems)
    first = [_systems(cast), *_survival_section(evaluation, cast, x)]
    parts = [
        paper.banner(WARNING),
        *(reversed(first) if evaluation.points else first),  # a sweep has many systems
        *(
            _sweep_sections(evaluation, cast, x)
            if evaluation.points
            else _single_run_sections(evaluation, cast)
        ),
        *_top_list(evaluation, cast),
        *_comparisons(evaluation, cast),
        *_skipped(evaluation),
        _everything(evaluation, cast),
    ]
    return paper.printed(
        title="Is it still useful?",
        kicker="Internal evaluation of private releases",
        lead=f"{count} {'system' if count == 1 else 'systems'} compared{on}. {evaluation.how}",
        parts=parts,
        foot="Settings: "
        + "; ".join(f"{name}: {_plain(value)}" for name, value in evaluation.settings.items())
        + ". Numbers are in the CSV and JSON beside this file.",
        marks={MARK: INTERNAL},
    )


def charts(evaluation: Evaluation, *, x: str = "value") -> dict[str, str]:
    """Every chart as an SVG file of its own, by name."""
    cast = SystemStyles(evaluation)
    pictures = [*hero(evaluation, cast, x=x)]
    for some in sweep_charts(evaluation, cast, x=x).values():
        pictures += some
    if not evaluation.points:
        pictures += [*release_charts(evaluation, cast), *budgets(cast)]
        for task, results in _by_task(evaluation):
            pictures += curves(results, cast)
            pictures += [] if task == STATISTICS else score_charts(results, cast)
    return {name: alone(svg) for name, svg in charts_by_name(pictures).items()}


def csv(evaluation: Evaluation) -> str:
    """Every result as a line; those of a sweep once more, with what was varied."""
    out = io.StringIO()
    writer = tables.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.as_json() for result in evaluation.results)
    writer.writerows(point.as_json() for point in evaluation.points)
    return out.getvalue()


def check_target(out: Path) -> None:
    """Raises unless a report and what is beside it can be put there without touching anything."""
    for path in (out, *_beside(out)):
        if path.exists() or path.is_symlink():
            raise UsageError(f"--out {str(out)!r}: {str(path)!r} exists: choose another name")
    if out.suffix != ".html":
        raise UsageError(f"--out {str(out)!r} must be an .html file")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    outside_bundles(out)


def check_folder(out: Path) -> None:
    """Raises unless a folder for a report can be made there."""
    if out.exists() or out.is_symlink():
        raise UsageError(f"--out {str(out)!r} exists: choose another folder, or remove it first")
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
    outside_bundles(out)


def outside_bundles(out: Path) -> None:
    """Raises if a path lies in a published bundle."""
    for folder in Path(realpath(out)).parents:
        if (folder / CERTIFICATE).exists():
            raise UsageError(
                f"--out {str(out)!r} is inside a bundle, and an internal report is never part of "
                "one: choose another folder"
            )


def write(evaluation: Evaluation, out: Path, *, x: str = "value") -> None:
    """The report, and beside it its numbers as CSV and JSON and its charts in a folder."""
    check_target(out)
    _write(evaluation, out, *_beside(out), x=x)


def write_folder(evaluation: Evaluation, out: Path, *, x: str = "value") -> None:
    """The same in a folder of its own: report.html, results.csv, results.json, charts."""
    check_folder(out)
    out.mkdir(mode=0o700)
    beside = out / "results.csv", out / "results.json", out / "charts"
    _write(evaluation, out / "report.html", *beside, x=x)


def _beside(out: Path) -> tuple[Path, Path, Path]:
    return (
        out.with_suffix(".csv"),
        out.with_suffix(".json"),
        out.with_name(f"{out.stem}-charts"),
    )


def _write(
    evaluation: Evaluation, out: Path, numbers: Path, everything: Path, folder: Path, *, x: str
) -> None:
    """Writes what only its owner may read: exact counts, and queries of the log."""
    text = json.dumps(finite(evaluation.as_json()), indent=2, ensure_ascii=False) + "\n"
    folder.mkdir(mode=0o700)
    files = {folder / f"{name}.svg": svg for name, svg in charts(evaluation, x=x).items()}
    files |= {numbers: csv(evaluation), everything: text, out: page(evaluation, x=x)}
    for path, content in files.items():
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(content, encoding="utf-8")


# --- the parts ------------------------------------------------------------------------------------


def _systems(cast: SystemStyles) -> str:
    """Who is protected by what: the privacy label of each system as a row, the unit first."""
    cells, dim = list[list[str]](), list[int]()
    for place, system in enumerate(cast.systems.values()):
        made = ", ".join(f"{rows:,} {table}" for table, rows in system.rows.items())
        g = system.guarantee
        if g is None or not is_protected(system):
            dim.append(place)
            protects = "the log itself" if system.kind == "raw" else "nobody: no guarantee"
            cells.append([cast.shown(system.name), protects, "", "", "", made])
            continue
        unit = f"one {g.unit}, {g.neighbours}"
        odds, epsilon, delta = paper.odds(g), paper.up(g.epsilon, 4), paper.up(g.plain_delta)
        cells.append([cast.shown(system.name), unit, f"× {odds}", epsilon, delta, made])
    head = ["system", "protects", "odds, at most", "epsilon", "delta", "rows of its tables"]
    table = paper.grid(head, cells, numbers=(2, 3, 4), wide=(5,), dim=dim)
    note = (
        "A release moves anyone's odds on one unit, whether it is in the log or which of two it is, by "
        "no more than the factor, but for a chance of delta. " + NO_GUARANTEE
    )
    return paper.section("Privacy label", table, note=note)


def _survival_section(evaluation: Evaluation, cast: SystemStyles, x: str) -> list[str]:
    pictures = hero(evaluation, cast, x=x)
    if not pictures:
        return []
    vary = evaluation.points[0].vary if evaluation.points else "epsilon"
    places = {
        f"{s.guarantee.epsilon:.6g}"
        for s in cast.fixed
        if s.guarantee is not None and is_protected(s)
    }
    if evaluation.points or len(places) != 1:
        epsilon = "What survives at which epsilon"
    else:
        epsilon = f"What survives at epsilon {places.pop()}"
    title = {"epsilon": epsilon, "per-user": "What each bound keeps"}
    note = (
        "The share of all searches whose query is published, of all different queries, and of all "
        "clicks whose pair of query and url is published."
    )
    if vary == "epsilon" and evaluation.points:
        note += (
            " Further right is less privacy. Circles are systems at one setting; those without a "
            "guarantee have no epsilon."
        )
    body = [paper.figures(p.svg for p in pictures)]
    if vary == "per-user":
        body.append(paper.paragraph(_per_user(evaluation), "note"))
    return [paper.section(title.get(vary, f"What survives by {vary}"), *body, note=note)]


def _per_user(evaluation: Evaluation) -> str:
    """How many items users have, to hold bounds against."""
    end = " items per user"
    found = {
        r.measure.removesuffix(end): r.value for r in evaluation.results if r.measure.endswith(end)
    }
    if not found:
        return ""
    means = ", ".join(f"{value:.3g} different {kind} items" for kind, value in found.items())
    return f"Users of this log have on average {means}."


def _release_section(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    pictures = release_charts(evaluation, cast)
    if not pictures:
        return []
    note = (
        "Every query of the log by rank, and how many users asked it; a sample is shown. Coloured "
        "ones are in the release, grey ones are not."
    )
    return [paper.section("Which queries are released", _figures(pictures), note=note)]


def _sweep_sections(evaluation: Evaluation, cast: SystemStyles, x: str) -> list[str]:
    """Of a sweep: tasks and statistics over what was varied."""
    sections = []
    vary = evaluation.points[0].vary
    for task, pictures in sweep_charts(evaluation, cast, x=x).items():
        if task == STATISTICS:
            note = "Against the exact counts of the same users."
        else:
            note = "A question that a release cannot answer counts 0; coverage is the share it can."
        title = f"{task.capitalize()} by {vary}"
        sections.append(paper.section(title, *_some(pictures, SHOWN), note=note))
    return sections


def _single_run_sections(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    """Of systems at one setting each: ranks, budgets, statistics, tasks."""
    return [
        *_release_section(evaluation, cast),
        *_budgets(cast),
        *_statistics(evaluation, cast),
        *_tasks(evaluation, cast),
    ]


def _budgets(cast: SystemStyles) -> list[str]:
    pictures = budgets(cast)
    if not pictures:
        return []
    note = (
        "Each table alone would cost what its bar shows. A release states their sum or, where all noise "
        "is one account, what that comes to, which is less."
    )
    return [paper.section("Where the budget went", _figures(pictures), note=note)]


def _statistics(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    results = [r for r in evaluation.results if r.task == STATISTICS]
    pictures = curves(results, cast)
    if not pictures:
        return []
    first = [p for p in pictures if p.name.endswith("-coverage")] or pictures[:4]
    rest = [p for p in pictures if p not in first]
    body = [_figures(first)]
    if rest:
        body.append(paper.folded(f"Distances and frequent pairs: {len(rest)} more", _figures(rest)))
    note = "Of the j items that most users of the log hold, the share that is published."
    return [paper.section("The most frequent items", *body, note=note)]


def _tasks(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    sections = []
    for task, results in _by_task(evaluation):
        if task == STATISTICS:
            continue
        body = _some(score_charts(results, cast), SHOWN)
        if more := curves(results, cast):
            body.append(_figures(more))
        sections.append(paper.heading(task) + "".join(body))
    if not sections:
        return []
    note = (
        "Solid: over all questions, a question without an answer counts 0. Light: over the questions "
        "that a system could answer, which flatters small releases. Lines are 95 % intervals over "
        "users; the number of questions is in the table of all results. " + NO_GUARANTEE
    )
    return [paper.section("Utility on the tasks", *sections, note=note)]


def _top_list(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    """The queries of the top-list study by their rank in the raw log, and where systems have them."""
    if not evaluation.top_list:
        return []
    names = [name for name in cast.systems if name != "raw"]
    cells = [
        [query, str(rank), *("–" if ranks.get(n) is None else str(ranks[n]) for n in names)]
        for query, rank, ranks in evaluation.top_list
    ]
    head = ["query", "raw", *(cast.shown(name) for name in names)]
    table = paper.grid(head, cells, numbers=range(1, len(head)), wide=(0,))
    return [paper.section("A top list, rank by rank", table, note="–: not published.")]


def _comparisons(evaluation: Evaluation, cast: SystemStyles) -> list[str]:
    parts = []
    for task, lines in groupby(evaluation.comparisons, key=lambda c: c.task):
        cells, dim = list[list[str]](), list[int]()
        for place, each in enumerate(lines):
            cells.append(_comparison_row(each, cast))
            dim += [place] if each.p is None or each.p >= 0.05 else []
        head = ["measure", "system", "against", "difference", "p", "questions"]
        table = paper.grid(head, cells, numbers=(3, 4, 5), wide=(0,), dim=dim)
        parts.append(paper.folded(f"{task}: {len(cells)} comparisons", table))
    if not parts:
        return []
    note = (
        "Paired t-tests on the same questions, misses as 0. Grey: the difference may be chance "
        "(p of 0.05 or more, not corrected for the number of tests)."
    )
    return [paper.section("Is the difference real?", *parts, note=note)]


def _comparison_row(each: Comparison, cast: SystemStyles) -> list[str]:
    if each.p is None:
        p = "–" if each.difference else "no difference"
    else:
        p = "< 0.001" if each.p < 0.001 else f"{each.p:.3f}"
    return [
        each.measure,
        cast.shown(each.system),
        cast.shown(each.against),
        f"{each.difference:+.4f}",
        p,
        f"{each.n:,}",
    ]


def _skipped(evaluation: Evaluation) -> list[str]:
    if not evaluation.skipped:
        return []
    cells = [[each.task, each.system, each.why] for each in evaluation.skipped]
    table = paper.grid(["task", "system", "why"], cells, wide=(2,))
    return [paper.section("What was not run", table)]


def _everything(evaluation: Evaluation, cast: SystemStyles) -> str:
    """A table for each task: a row for each measure, a column for each system."""
    parts = []
    for task, results in _by_task(evaluation):
        found: dict[str, dict[str, Result]] = {}
        for result in results:
            found.setdefault(result.measure, {})[result.system] = result
        systems = [name for name in cast.systems if any(name in row for row in found.values())]
        cells = [
            [measure, *(_figure(row.get(name)) for name in systems)]
            for measure, row in found.items()
        ]
        head = ["measure", *(cast.shown(name) for name in systems)]
        table = paper.grid(head, cells, numbers=range(1, len(head)), wide=(0,))
        parts.append(paper.folded(f"{task}: {len(cells)} measures", table))
    note = (
        "Value, 95 % interval where there is one, and n: how many questions, items or users it is "
        f"over. Measures with{ALL} count a miss as 0, those with{COVERED} leave misses out."
    )
    return paper.section("Everything", *parts, note=note)


def _figure(result: Result | None) -> str:
    if result is None:
        return "–"
    if math.isnan(result.value):
        return f"–\nn {result.n:,}"
    size = f"n {result.n:,}"
    if result.low is not None and result.high is not None:
        size = f"{number(result.low)} to {number(result.high)}, {size}"
    return f"{number(result.value)}\n{size}"


# --- helpers of layout ----------------------------------------------------------------------------


def _figures(pictures: Iterable[Picture]) -> str:
    return paper.figures(picture.svg for picture in pictures)


def _some(pictures: Sequence[Picture], most: int) -> list[str]:
    """So many charts at once, the others folded."""
    if not pictures:
        return []
    parts = [_figures(pictures[:most])]
    if rest := pictures[most:]:
        parts.append(paper.folded(f"{len(rest)} more measures", _figures(rest)))
    return parts


def _by_task(evaluation: Evaluation) -> list[tuple[str, list[Result]]]:
    found: dict[str, list[Result]] = {}
    for result in evaluation.results:
        found.setdefault(result.task, []).append(result)
    return list(found.items())


def finite(value: Any) -> Any:
    """The same with null where a number is not finite: JSON has no other word for it."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
