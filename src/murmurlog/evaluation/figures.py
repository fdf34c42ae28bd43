"""The charts of an evaluation: what survives, which queries are released, scores of tasks.

Each has a name, under which it is also written as a file of its own. Colours belong to systems: the
same one in every picture, grey for the raw log. A cross marks what has no privacy guarantee.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from murmurlog.charts.charts import COLUMN, Bar, Dot, Mark, bars, lines, ranks, waterfall
from murmurlog.charts.svg import NEUTRAL
from murmurlog.evaluation.result import Evaluation, Point, System
from murmurlog.evaluation.scores import Result

STATISTICS = "statistics"
# The charts of what survives, by name: a title and a measure.
KEPT = {
    "volume": ("Searches whose query is published", "query volume kept (rows)"),
    "distinct": ("Different queries published", "query distinct kept"),
    "clicks": ("Clicks whose query and url are published", "click volume kept (rows)"),
}
CURVES = (  # points of curves: coverage@100, recall@1/100, and P@5, lambda 0.3
    re.compile(r"(?P<what>[^@]+)@(?P<j>)(?P<at>\d+)(?P<how>)"),
    re.compile(r"(?P<what>[^@]+)@1/(?P<frequent>)(?P<at>\d+)(?P<how>)"),
    re.compile(r"(?P<what>.*), (?P<name>[a-z]+) (?P<at>[\d.]+)(?P<how> \(all\)| \(covered\)|)"),
)
OVER = {"j": "the j most frequent", "frequent": "frequent: one in"}
ALL, COVERED = " (all)", " (covered)"
# Statistics that are plotted over the parameter of a sweep.
SWEPT_STATISTICS = re.compile(r" (distinct|distinct kept|total|items per user|volume kept \(users\)"
                  r"|(coverage|L1|KL|TV|RMS)@(100|1000)|difference \(scaled\)|inaccuracy@50)$")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A chart with the name of its file and what it is about."""

    name: str
    svg: str


class SystemStyles:
    """The systems with their colours and labels."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.systems = {system.name: system for system in evaluation.systems}
        mechanisms = {point.result.system for point in evaluation.points}
        self.varied_systems = {point.of for point in evaluation.points}
        names = [*sorted(mechanisms, key=[p.result.system for p in evaluation.points].index)]
        names += [
            name
            for name in self.systems
            if name not in self.varied_systems and name not in mechanisms
        ]
        coloured = [n for n in names if n not in self.systems or self.systems[n].kind != "raw"]
        self.inks = {name: coloured.index(name) if name in coloured else NEUTRAL for name in names}

    @property
    def fixed_systems(self) -> list[System]:
        """The systems that a sweep does not vary: all of them where there is no sweep."""
        return [s for s in self.systems.values() if s.name not in self.varied_systems]

    def label(self, name: str) -> str:
        system = self.systems.get(name)
        return f"{name} †" if system is not None and not is_protected(system) else name

    def ink(self, name: str) -> int:
        return self.inks.get(name, NEUTRAL)


def is_protected(system: System) -> bool:
    """Whether anything is proved about it."""
    return system.guarantee is not None and system.guarantee.notion != "none"


# --- what survives --------------------------------------------------------------------------------


def survival_charts(
    evaluation: Evaluation, styles: SystemStyles, *, x: str = "value"
) -> list[Picture]:
    """Epsilon against the share of searches, of different queries and of clicks that is kept."""
    if evaluation.points:
        dots = evaluation.points[0].vary == "epsilon" and x == "value"
        return [
            _sweep_chart(
                evaluation, styles, f"kept-{name}", title, STATISTICS, measure, x=x, dots=dots
            )
            for name, (title, measure) in KEPT.items()
            if _points(evaluation, STATISTICS, measure)
        ]
    pictures = []
    for name, (title, measure) in KEPT.items():
        if rows := _rows(evaluation, styles, STATISTICS, measure):
            pictures.append(Picture(name=f"kept-{name}", svg=_at_epsilons(rows, styles, title)))
    return pictures


def _rows(
    evaluation: Evaluation, styles: SystemStyles, task: str, measure: str
) -> list[tuple[System, Result]]:
    """Every system except the raw log with its result in a measure."""
    results = (r for r in evaluation.results if (r.task, r.measure) == (task, measure))
    rows = [(styles.systems[result.system], result) for result in results]
    return [(system, result) for system, result in rows if system.kind != "raw"]


def _at_epsilons(rows: Sequence[tuple[System, Result]], styles: SystemStyles, title: str) -> str:
    """Dots over epsilon, or bars where all systems have the same epsilon."""
    places = {s.guarantee.epsilon for s, _ in rows if s.guarantee is not None and is_protected(s)}
    if len(places) < 2:
        return bars([_bar(result, styles) for _, result in rows], title=title, percent=True)
    dots = {styles.label(s.name): _dot(s, r, styles) for s, r in rows}
    return lines({}, title=title, x_label="epsilon", percent=True, dots=dots, frame=COLUMN)


def _dot(system: System, result: Result, styles: SystemStyles) -> Dot:
    return Dot(
        x=system.guarantee.epsilon if system.guarantee and is_protected(system) else None,
        y=result.value,
        low=result.low,
        high=result.high,
        ink=styles.ink(system.name),
    )


def _points(evaluation: Evaluation, task: str, measure: str) -> list[Point]:
    return [
        p
        for p in evaluation.points
        if (p.result.task, p.result.measure) == (task, measure) and math.isfinite(p.result.value)
    ]


def _sweep_chart(
    evaluation: Evaluation,
    styles: SystemStyles,
    name: str,
    title: str,
    task: str,
    measure: str,
    *,
    x: str = "value",
    dots: bool = False,
    percent: bool = True,
) -> Picture:
    """A measure over the varied key, or over how many were evaluated; a line for each mechanism."""
    points = _points(evaluation, task, measure)
    series: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        at = float(point.result.n) if x == "evaluated" else point.at
        series.setdefault(styles.label(point.result.system), []).append((at, point.result.value))
    for line in series.values():
        line.sort()
    rows = _rows(evaluation, styles, task, measure) if dots else []
    beside = {
        styles.label(s.name): _dot(s, r, styles)
        for s, r in rows
        if s.name not in styles.varied_systems
    }
    values = [at for line in series.values() for at, _ in line]
    start = _common_start(series)
    return Picture(
        name=name,
        svg=lines(
            {line.removeprefix(start): points for line, points in series.items()},
            title=title,
            x_label="how many were evaluated" if x == "evaluated" else points[0].vary,
            percent=percent,
            log=min(values) > 0,
            dots=beside,
            inks={styles.label(n).removeprefix(start): ink for n, ink in styles.inks.items()},
            frame=COLUMN,
        ),
    )


def _common_start(names: Iterable[str]) -> str:
    """The mechanism that all lines share: labels have no room for it beside its values."""
    starts = {name.partition(":")[0] for name in names}
    (start,) = starts if len(starts) == 1 else ("",)
    return f"{start}:" if start and all(name.startswith(f"{start}:") for name in names) else ""


def sweep_charts(
    evaluation: Evaluation, styles: SystemStyles, *, x: str = "value"
) -> dict[str, list[Picture]]:
    """Measures over the varied key, by task: those that count a miss as 0, and the coverage."""
    by_task: dict[str, list[Picture]] = {}
    names = dict.fromkeys((p.result.task, p.result.measure) for p in evaluation.points)
    for task, measure in names:
        if task == STATISTICS:
            wanted = SWEPT_STATISTICS.search(measure) is not None
        else:
            wanted = measure.endswith(ALL) or measure.startswith("coverage")
            wanted = wanted and curve_of(measure) is None
        if wanted and _points(evaluation, task, measure):
            title = measure.removesuffix(ALL)
            name = slug(f"by-{evaluation.points[0].vary}-{task}-{title}")
            picture = _sweep_chart(
                evaluation, styles, name, title, task, measure, x=x, percent=False
            )
            by_task.setdefault(task, []).append(picture)
    return {task: sorted(pictures, key=_kind) for task, pictures in by_task.items()}


def _kind(picture: Picture) -> int:
    """The sort key of a chart: statistics of queries first, all else in its order."""
    kinds = ("query", "click", "pair", "keyword")
    places = [n for n, kind in enumerate(kinds) if f"-{STATISTICS}-{kind}-" in picture.name]
    return places[0] if places else 0


# --- ranks, budgets -------------------------------------------------------------------------------


def release_charts(evaluation: Evaluation, styles: SystemStyles) -> list[Picture]:
    """Queries by rank, with the released ones in the colour of their system."""
    pictures = []
    for name, points in evaluation.ranks.items():
        system = styles.systems.get(name)
        if system is None or system.kind == "raw" or name in styles.varied_systems or not points:
            continue
        marks = [
            Mark(rank=rank, count=users, coloured=published) for rank, users, published in points
        ]
        label, ink = styles.label(name), styles.ink(name)
        svg = ranks(marks, title=label, x_label="rank of the query", ink=ink, curve=True)
        pictures.append(Picture(name=slug(f"ranks-{name}"), svg=svg))
    return pictures


def budgets(styles: SystemStyles) -> list[Picture]:
    """The epsilon of each table alone, their sum, and the epsilon of the release."""
    pictures = []
    for system in styles.fixed_systems:
        if is_protected(system) and system.guarantee is not None and len(system.budget) > 1:
            stated = system.guarantee.epsilon
            together = stated * (1 + 1e-9) < math.fsum(system.budget.values())
            total = ("in one account" if together else "stated", stated)
            svg = waterfall(
                list(system.budget.items()), title=f"{system.name}: epsilon", total=total
            )
            pictures.append(Picture(name=slug(f"budget-{system.name}"), svg=svg))
    return pictures


# --- tasks ----------------------------------------------------------------------------------------


def curve_of(measure: str) -> tuple[str, str, float] | None:
    """The curve, its x axis and the place of the point that a measure is; None if it is no such point."""
    for pattern in CURVES:
        if match := pattern.fullmatch(measure):
            parts = match.groupdict()
            over = parts.get("name") or next(name for name in OVER if name in parts)
            return parts["what"] + parts["how"], over, float(parts["at"])
    return None


def curves(results: Sequence[Result], styles: SystemStyles) -> list[Picture]:
    """Measures reported for at least three values of something, plotted over it."""
    grids: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = {}
    for result in results:
        point = curve_of(result.measure) if math.isfinite(result.value) else None
        if point is not None and not point[0].endswith(COVERED):
            what, over, at = point
            line = grids.setdefault((result.task, what, over), {})
            line.setdefault(styles.label(result.system), []).append((at, result.value))
    pictures = []
    for (task, what, over), series in grids.items():
        places = {at for line in series.values() for at, _ in line}
        if len(places) < 3:
            continue
        svg = lines(
            {name: sorted(line) for name, line in series.items()},
            title=what if over in OVER else f"{what.removesuffix(ALL)} by {over}",
            x_label=OVER.get(over, over),
            percent=False,
            log=over in OVER,
            inks={styles.label(n): ink for n, ink in styles.inks.items()},
            frame=COLUMN,
        )
        pictures.append(Picture(name=slug(f"curve-{task}-{what}"), svg=svg))
    return sorted(pictures, key=_kind)


def score_charts(results: Sequence[Result], styles: SystemStyles) -> list[Picture]:
    """Bars of every measure of a task: over all questions, and over the answered ones beside it."""
    by_name: dict[str, dict[str, Result]] = {}
    for result in results:
        if math.isfinite(result.value):
            by_name.setdefault(result.measure, {})[result.system] = result
    pictures = []
    for measure, whole in by_name.items():
        if measure.endswith(COVERED) and measure.removesuffix(COVERED) + ALL in by_name:
            continue
        if curve_of(measure) is not None and not _is_single(measure, by_name):
            continue
        title = measure.removesuffix(ALL)
        covered = by_name.get(title + COVERED, {}) if measure.endswith(ALL) else {}
        rows = []
        for name, result in whole.items():
            rows.append(_bar(result, styles))
            if name in covered and covered[name].n:
                rows.append(_bar(covered[name], styles, pale=True))
        task = results[0].task
        svg = bars(rows, title=title, percent=False)
        pictures.append(Picture(name=slug(f"{task}-{title}"), svg=svg))
    return pictures


def _is_single(measure: str, names: Iterable[str]) -> bool:
    """Whether a measure only looks like a point of a curve: P@5 beside P@10."""
    point = curve_of(measure)
    assert point is not None
    same = [other for name in names if (other := curve_of(name)) and other[:2] == point[:2]]
    return len({at for _, _, at in same}) < 3


def _bar(result: Result, styles: SystemStyles, *, pale: bool = False) -> Bar:
    return Bar(
        name=styles.label(result.system),
        value=result.value,
        low=result.low,
        high=result.high,
        ink=styles.ink(result.system),
        pale=pale,
    )


def slug(text: str) -> str:
    """A file name: small letters, digits, single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-") or "chart"


def charts_by_name(pictures: Iterable[Picture]) -> Mapping[str, str]:
    """The charts by name; equal names are numbered."""
    charts: dict[str, str] = {}
    for picture in pictures:
        name, n = picture.name, 2
        while name in charts:
            name, n = f"{picture.name}-{n}", n + 1
        charts[name] = picture.svg
    return charts
