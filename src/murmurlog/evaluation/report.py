"""The report of an evaluation: one HTML file to look at, its charts as SVG, its numbers as CSV, JSON.

It is made from the raw log and protects nobody. It says so at the top and in a meta element, and it is
never written into a bundle.
"""

import csv as tables
import io
import json
import math
from collections.abc import Iterable
from itertools import groupby
from os.path import realpath
from pathlib import Path
from typing import Any

from murmurlog.bundle.files import CERTIFICATE
from murmurlog.charts import pages
from murmurlog.charts.svg import alone, number
from murmurlog.errors import UsageError
from murmurlog.evaluation.figures import (
    STATISTICS,
    Picture,
    SystemStyles,
    budgets,
    charts_by_name,
    curves,
    is_protected,
    release_charts,
    score_charts,
    survival_charts,
    sweep_charts,
)
from murmurlog.evaluation.result import Evaluation
from murmurlog.evaluation.scores import Comparison, Result
from murmurlog.privacy.rounding import odds, round_up_text

COLUMNS = ("system", "task", "measure", "value", "low", "high", "n", "vary", "at")


# --- what is written ------------------------------------------------------------------------------


def page(evaluation: Evaluation, *, x: str = "value") -> str:
    """The whole report as HTML. `x`: the x axis of sweeps, "value" or "evaluated"."""
    styles = SystemStyles(evaluation)
    sweeps = sweep_charts(evaluation, styles, x=x)
    values: dict[str, Any] = {
        "evaluation": evaluation,
        "systems": _systems(styles),
        "varied": evaluation.points[0].vary if evaluation.points else None,
        "common_epsilon": None if evaluation.points else _common_epsilon(styles),
        "per_user": _per_user(evaluation),
        "survival_charts": _drawings(survival_charts(evaluation, styles, x=x)),
        "sweeps": {task: _drawings(pictures) for task, pictures in sweeps.items()},
        **_single_run_charts(evaluation, styles),
        "top_list": _top_list(evaluation, styles),
        "comparisons": _comparisons(evaluation, styles),
        "skipped": [(skip.task, skip.system, skip.why) for skip in evaluation.skipped],
        "results": _results(evaluation, styles),
        "settings": "; ".join(f"{name}: {_plain(v)}" for name, v in evaluation.settings.items()),
    }
    return pages.render("murmurlog.evaluation", "evaluation.html", values)


def charts(evaluation: Evaluation, *, x: str = "value") -> dict[str, str]:
    """Every chart as an SVG file of its own, by name."""
    styles = SystemStyles(evaluation)
    pictures = [*survival_charts(evaluation, styles, x=x)]
    for task_charts in sweep_charts(evaluation, styles, x=x).values():
        pictures += task_charts
    if not evaluation.points:
        pictures += [*release_charts(evaluation, styles), *budgets(styles)]
        for task, results in _by_task(evaluation).items():
            pictures += curves(results, styles)
            pictures += [] if task == STATISTICS else score_charts(results, styles)
    return {name: alone(svg) for name, svg in charts_by_name(pictures).items()}


def csv(evaluation: Evaluation) -> str:
    """Every result as a line; those of a sweep once more, with the value of the varied key."""
    out = io.StringIO()
    writer = tables.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.as_json() for result in evaluation.results)
    writer.writerows(point.as_json() for point in evaluation.points)
    return out.getvalue()


def check_target(out: Path) -> None:
    """Raises unless a report and the files beside it can be written there; no file is replaced."""
    for path in (out, *_beside(out)):
        if path.exists() or path.is_symlink():
            raise UsageError(f"--out {str(out)!r}: {str(path)!r} exists: choose another name")
    if out.suffix != ".html":
        raise UsageError(f"--out {str(out)!r} must be an .html file")
    check_parent(out)


def check_folder(out: Path) -> None:
    """Raises unless a folder for a report can be made there."""
    if out.exists() or out.is_symlink():
        raise UsageError(f"--out {str(out)!r} exists: choose another folder, or remove it first")
    check_parent(out)


def check_parent(out: Path) -> None:
    """Raises unless a path lies in a folder, and in no published bundle."""
    if not out.parent.is_dir():
        raise UsageError(
            f"--out {str(out)!r}: there is no folder {str(out.parent)!r}: make it first"
        )
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
    """Writes files that only their owner may read: they hold exact counts and queries of the log."""
    text = json.dumps(finite(evaluation.as_json()), indent=2, ensure_ascii=False) + "\n"
    folder.mkdir(mode=0o700)
    files = {folder / f"{name}.svg": svg for name, svg in charts(evaluation, x=x).items()}
    files |= {numbers: csv(evaluation), everything: text, out: page(evaluation, x=x)}
    for path, content in files.items():
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(content, encoding="utf-8")


# --- the parts ------------------------------------------------------------------------------------


def _systems(styles: SystemStyles) -> dict[str, Any]:
    """The privacy label of each system as a row, the unit first."""
    rows, dim = list[list[str]](), list[int]()
    for place, system in enumerate(styles.systems.values()):
        sizes = ", ".join(f"{size:,} {table}" for table, size in system.rows.items())
        g = system.guarantee
        if g is None or not is_protected(system):
            dim.append(place)
            protects = "the log itself" if system.kind == "raw" else "nobody: no guarantee"
            rows.append([styles.label(system.name), protects, "", "", "", sizes])
            continue
        unit = f"one {g.unit}, {g.neighbours}"
        epsilon, delta = round_up_text(g.epsilon, 4), round_up_text(g.plain_delta)
        rows.append([styles.label(system.name), unit, f"× {odds(g)}", epsilon, delta, sizes])
    return {"rows": rows, "dim": dim}


def _common_epsilon(styles: SystemStyles) -> str | None:
    """The epsilon of all systems that have a guarantee, if it is one."""
    epsilons = {
        f"{s.guarantee.epsilon:.6g}"
        for s in styles.fixed_systems
        if s.guarantee is not None and is_protected(s)
    }
    return epsilons.pop() if len(epsilons) == 1 else None


def _per_user(evaluation: Evaluation) -> str:
    """How many different items a user has on average, by kind, to compare bounds with."""
    end = " items per user"
    means = {
        r.measure.removesuffix(end): r.value for r in evaluation.results if r.measure.endswith(end)
    }
    return ", ".join(f"{value:.3g} different {kind} items" for kind, value in means.items())


def _single_run_charts(evaluation: Evaluation, styles: SystemStyles) -> dict[str, Any]:
    """Charts of systems at one setting each: ranks, budgets, statistics, tasks. A sweep has none."""
    by_task = {} if evaluation.points else _by_task(evaluation)
    statistics = curves(by_task.pop(STATISTICS, []), styles)
    coverage = [p for p in statistics if p.name.endswith("-coverage")] or statistics[:4]
    return {
        "release_charts": []
        if evaluation.points
        else _drawings(release_charts(evaluation, styles)),
        "budget_charts": [] if evaluation.points else _drawings(budgets(styles)),
        "coverage_charts": _drawings(coverage),
        "distance_charts": _drawings(p for p in statistics if p not in coverage),
        "tasks": [
            {
                "name": task,
                "scores": _drawings(score_charts(results, styles)),
                "curves": _drawings(curves(results, styles)),
            }
            for task, results in by_task.items()
        ],
    }


def _top_list(evaluation: Evaluation, styles: SystemStyles) -> dict[str, Any]:
    """The queries of the top-list study by their rank in the raw log, and where systems have them."""
    names = [name for name in styles.systems if name != "raw"]
    rows = [
        [query, str(rank), *("–" if ranks.get(n) is None else str(ranks[n]) for n in names)]
        for query, rank, ranks in evaluation.top_list
    ]
    return {"head": ["query", "raw", *(styles.label(name) for name in names)], "rows": rows}


def _comparisons(evaluation: Evaluation, styles: SystemStyles) -> list[dict[str, Any]]:
    """The paired tests of each task; grey where the difference may be chance."""
    parts = []
    for task, group in groupby(evaluation.comparisons, key=lambda c: c.task):
        tests = list(group)
        parts.append(
            {
                "task": task,
                "rows": [_comparison_row(test, styles) for test in tests],
                "dim": [n for n, test in enumerate(tests) if test.p is None or test.p >= 0.05],
            }
        )
    return parts


def _comparison_row(test: Comparison, styles: SystemStyles) -> list[str]:
    if test.p is None:
        p = "–" if test.difference else "no difference"
    else:
        p = "< 0.001" if test.p < 0.001 else f"{test.p:.3f}"
    return [
        test.measure,
        styles.label(test.system),
        styles.label(test.against),
        f"{test.difference:+.4f}",
        p,
        f"{test.n:,}",
    ]


def _results(evaluation: Evaluation, styles: SystemStyles) -> list[dict[str, Any]]:
    """A table for each task: a row for each measure, a column for each system."""
    parts = []
    for task, results in _by_task(evaluation).items():
        measures: dict[str, dict[str, Result]] = {}
        for result in results:
            measures.setdefault(result.measure, {})[result.system] = result
        systems = [name for name in styles.systems if any(name in m for m in measures.values())]
        rows = [
            [measure, *(_figure(by_system.get(name)) for name in systems)]
            for measure, by_system in measures.items()
        ]
        head = ["measure", *(styles.label(name) for name in systems)]
        parts.append({"task": task, "head": head, "rows": rows})
    return parts


def _figure(result: Result | None) -> str:
    if result is None:
        return "–"
    if math.isnan(result.value):
        return f"–\nn {result.n:,}"
    size = f"n {result.n:,}"
    if result.low is not None and result.high is not None:
        size = f"{number(result.low)} to {number(result.high)}, {size}"
    return f"{number(result.value)}\n{size}"


def _drawings(pictures: Iterable[Picture]) -> list[str]:
    return [picture.svg for picture in pictures]


def _by_task(evaluation: Evaluation) -> dict[str, list[Result]]:
    by_task: dict[str, list[Result]] = {}
    for result in evaluation.results:
        by_task.setdefault(result.task, []).append(result)
    return by_task


def finite(value: Any) -> Any:
    """The value with None for every number that is not finite: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
