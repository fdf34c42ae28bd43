"""Releases every system and scores it on every task.

A bundle is scored as it is on tasks about the whole log. Tasks with held-out users are scored on
users whom the release has not seen: its recipe is run again on the training users of each fold, or,
with a separate log to test on, the bundle is used as it is. Books nothing.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from murmurlog.bundle.progress import measure, measure_all
from murmurlog.bundle.read import Release
from murmurlog.errors import MurmurlogError
from murmurlog.evaluation import tasks
from murmurlog.evaluation.ground_truth import Truth, count_exactly, searches_of
from murmurlog.evaluation.parts import key_entropy, split
from murmurlog.evaluation.request import Recipe
from murmurlog.evaluation.result import Evaluation, Point, Skipped, System
from murmurlog.evaluation.scores import Comparison, Result, Scores, Scoring, compare, merge, results
from murmurlog.evaluation.setup import RAW, Setup
from murmurlog.evaluation.tasks import Tables, Task, Unfit
from murmurlog.evaluation.tasks.top_list import ranks
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.privacy.sampler import Entropy

RELEASE = "release"  # instead of a task, where a system could not be released
POINTS = 300  # of the rank-frequency chart
LISTED = 40  # queries of the top list
NEEDS = {"url": "clicked urls", "time": "times", "labels": "planted truth (--labels)"}


class Collector:
    """The scores so far, by task, system and repeat, in the order in which they were added."""

    def __init__(self) -> None:
        self._scorings: dict[tuple[str, str], list[list[Scoring]]] = {}
        self.skipped: dict[tuple[str, str], Skipped] = {}
        self.errors: list[MurmurlogError] = []  # of systems that could not be released

    def add(self, task: str, system: str, repeat: int, scoring: Scoring) -> None:
        repeats = self._scorings.setdefault((task, system), [])
        while len(repeats) <= repeat:
            repeats.append([])
        repeats[repeat].append(scoring)

    def skip(self, task: str, system: str, why: str) -> None:
        self.skipped[task, system] = Skipped(system=system, task=task, why=why)

    def forget(self, system: str, tasks: Sequence[str]) -> None:
        """Removes what a system scored on these tasks."""
        for task in tasks:
            self._scorings.pop((task, system), None)

    def lines(self, names: Sequence[str]) -> tuple[list[Result], list[Comparison]]:
        """All results, folds merged and repeats averaged, and each system against the raw log."""
        lines, tests = list[Result](), list[Comparison]()
        for task in dict.fromkeys(task for task, _ in self._scorings):
            means = dict[str, list[Scores]]()
            for system in (name for name in names if (task, name) in self._scorings):
                repeats = [merge(folds) for folds in self._scorings[task, system]]
                means[system] = _mean_scores(repeats)
                lines += average([results(system, task, scoring) for scoring in repeats])
            for system, scores in means.items():
                if RAW in means and system != RAW:
                    tests += compare(system, RAW, task, scores, means[RAW])
        return lines, tests


def _mean_scores(repeats: Sequence[Scoring]) -> list[Scores]:
    """The mean score of each question over repeated releases, misses as 0."""
    by_measure: dict[str, list[Scores]] = {}
    for scores in (part for repeat in repeats for part in repeat if isinstance(part, Scores)):
        by_measure.setdefault(scores.measure, []).append(scores)
    return [
        replace(same[0], values=np.mean([np.nan_to_num(part.values) for part in same], axis=0))
        for same in by_measure.values()
    ]


def average(repeats: Sequence[Sequence[Result]]) -> list[Result]:
    """The mean over repeated releases; intervals also include the spread between them."""
    if len(repeats) == 1:
        return list(repeats[0])
    lines = []
    for line in repeats[0]:
        same = [r for r in itertools.chain(*repeats) if r.measure == line.measure]
        values = np.array([r.value for r in same if not math.isnan(r.value)])
        if not len(values):  # a mean over nothing in every release
            lines.append(line)
            continue
        spread = 1.96 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
        value = float(values.mean())
        halves = [(r.high - r.low) / 2 for r in same if r.low is not None and r.high is not None]
        half = math.hypot(float(np.mean(halves)) if halves else 0.0, spread)
        n = round(float(np.mean([r.n for r in same])))
        lines.append(replace(line, value=value, low=value - half, high=value + half, n=n))
    return lines


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A setup with its source, its bundles and the recipes of its systems."""

    setup: Setup
    source: Source
    test: Source | None
    releases: Mapping[str, Release]  # bundles by name
    recipes: Mapping[str, Recipe]  # of all systems except the raw log; in the order of the report
    failed: Mapping[str, str]  # systems that cannot be released, and why
    reading: Reading
    gap: float  # seconds without a query that end a session
    entropy: Entropy
    say: Callable[[str], None]

    @property
    def names(self) -> list[str]:
        return [RAW] * (RAW in self.setup.baselines) + list(self.recipes)

    @property
    def how(self) -> str:
        if self.test is not None:
            return (
                "Tasks with held-out truth were scored on a separate log, statistics and tasks about "
                "the log as a whole on the log that each release was made from. Whether its users are "
                "others was not looked at."
            )
        folds = self.setup.folds
        split = "one part of the users" if folds == 1 else f"{folds} folds of the users"
        return (
            "Statistics compare each release, a given bundle as it is, with the log it was made from. "
            f"Tasks with held-out truth were scored on {split}: the recipe of each release was run again "
            "on the other users, and nothing of that was booked or published."
        )

    def run(self) -> Evaluation:
        """Scores every system on every task."""
        setup, collector = self.setup, Collector()
        for name, why in self.failed.items():
            collector.skip(RELEASE, name, why)
        chosen = tasks.choose(setup.tasks)
        whole_log, held_out = ([t for t in chosen if t.held_out == out] for out in (False, True))
        with connect(memory=setup.memory) as engine:
            log = self._read(self.source, engine, self.reading)
            # A system is released and scored once on the whole log, and once for each fold.
            rounds = 1 + (bool(held_out) and (1 if self.test else setup.folds))
            advance = measure_all(
                self.say, "evaluation", total=rounds * len(self.names), unit="systems"
            )
            self.say("counting exactly")
            truth = self._count(log)
            releases = dict[str, list[Tables]]()
            for name in self.names:
                if repeats := self._try(name, log, truth, collector, as_published=True):
                    releases[name] = repeats
                    self._score(name, whole_log, repeats, truth, collector)
                advance()
            complete = list(releases)  # systems that could be released in every fold so far
            for fold, training in self._held_out(log, truth) if held_out else ():
                for name in list(complete):
                    tables = (
                        releases[name]
                        if training is None
                        else self._try(name, training, fold, collector)
                    )
                    if tables:
                        self._score(name, held_out, tables, fold, collector)
                    else:  # the folds before are not comparable with all folds of the others
                        complete.remove(name)
                        collector.forget(name, [task.name for task in held_out])
                    advance()
        names = list(releases)
        if self.recipes and not set(names) - {RAW}:
            raise collector.errors[0]
        lines, tests = collector.lines(names)
        has_top_list = any(task.name == "top-list" for task in chosen)
        return Evaluation(
            results=tuple(lines),
            comparisons=tuple(tests),
            skipped=tuple(collector.skipped.values()),
            systems=tuple(self._system(name, releases[name][0]) for name in names),
            how=self.how,
            settings={
                "folds": setup.folds,
                "repeats": setup.repeats,
                "questions": setup.settings.questions,
                "tasks": [task.name for task in chosen],
                **({"vary": ", ".join(setup.varied_keys)} if setup.varied_keys else {}),
            },
            log={"rows": log.rows, "users": truth.holders["query"].users},
            ranks={name: _ranks(truth, tables[0]) for name, tables in releases.items()},
            top_list=_top_list(truth, releases, setup.settings.pattern) if has_top_list else (),
            points=tuple(self._points(lines)),
        )

    def _system(self, name: str, tables: Tables) -> System:
        recipe = self.recipes.get(name)
        return System(
            name=name,
            kind=RAW if recipe is None else "bundle" if name in self.releases else "mechanism",
            guarantee=recipe.guarantee if recipe else None,
            rows={table: rows.num_rows for table, rows in tables.items()},
            budget=recipe.budget if recipe else {},
        )

    def _points(self, lines: Sequence[Result]) -> Iterator[Point]:
        """The results at each value of the axis, by the lines of a chart."""
        axis, places = self.setup.axis, self.setup.points()
        for line in (row for row in lines if row.system in places):
            name, at = places[line.system]
            result = replace(line, system=name)
            yield Point(vary=str(axis), at=at, of=line.system, result=result)

    def _score(
        self,
        name: str,
        chosen: Sequence[Task],
        repeats: Sequence[Tables],
        truth: Truth,
        collector: Collector,
    ) -> None:
        """Scores the releases of one system on tasks that have the same truth."""
        available = {
            "url": truth.has_urls,
            "time": truth.has_times,
            "labels": truth.labels is not None,
        }
        for task in chosen:
            if missing := [NEEDS[need] for need in sorted(task.needs) if not available[need]]:
                collector.skip(task.name, name, f"the log has no {' and no '.join(missing)}")
                continue
            self.say(f"{task.name}: {name}")
            advance = measure(self.say, total=len(repeats), unit="releases")
            try:
                for repeat, tables in enumerate(repeats):
                    scores = task.run(tables, truth, self.setup.settings)
                    collector.add(task.name, name, repeat, scores)
                    advance()
            except (Unfit, MurmurlogError) as why:
                collector.skip(task.name, name, str(why))

    def _try(
        self, name: str, log: Log, truth: Truth, collector: Collector, *, as_published: bool = False
    ) -> list[Tables]:
        """The tables of a system; none if it cannot be released, which does not stop the others."""
        try:
            return self._release(name, log, truth, as_published=as_published)
        except MurmurlogError as why:
            collector.errors.append(why)
            collector.skip(RELEASE, name, str(why))
            return []

    def _release(
        self, name: str, log: Log, truth: Truth, *, as_published: bool = False
    ) -> list[Tables]:
        """The tables of a system, once for each repeat: exact, as published, or released from this log."""
        if name == RAW:
            return [dict(truth.tables)]
        if as_published and name in self.releases:
            return [self.releases[name].tables]
        self.say(f"releasing {name}")
        advance = measure(self.say, total=self.setup.repeats, unit="releases")
        releases: list[Tables] = []
        for _ in range(self.setup.repeats):
            releases.append(self.recipes[name].release(log, self.reading, entropy=self.entropy))
            advance()
        return releases

    def _held_out(self, log: Log, whole: Truth) -> Iterator[tuple[Truth, Log | None]]:
        """For each fold the truth and the users to release from; None: score the releases that exist."""
        if self.test is not None:
            with connect(memory=self.setup.memory) as apart:
                reading = replace(self.reading, since=None, until=None)
                other = self._read(self.test, apart, reading)
                urls, times = whole.has_urls and other.has_urls, other.has_times
                searches = searches_of(other, gap=self.gap)
            yield replace(whole, searches=searches, has_urls=urls, has_times=times), None
            return
        for fold in range(self.setup.folds):
            self.say(f"fold {fold + 1} of {self.setup.folds}")
            training, held_out = split(log, fold=fold, folds=self.setup.folds)
            searches = searches_of(held_out, gap=self.gap)
            held_out.partitions.close()
            yield replace(self._count(training), searches=searches), training
            training.partitions.close()

    def _count(self, log: Log) -> Truth:
        tables, holders = count_exactly(log, gap=self.gap)
        return Truth(
            tables=tables,
            holders=holders,
            labels=self.setup.labels,
            has_urls=log.has_urls,
            has_times=log.has_times,
        )

    def _read(self, source: Source, engine: Engine, reading: Reading) -> Log:
        reading.check(source)
        return reading.read(
            source, engine=engine, urls="url" in source.columns, entropy=key_entropy(), say=self.say
        )


def _ranks(truth: Truth, tables: Tables) -> list[tuple[int, int, bool]]:
    """Some queries by rank: how many users asked them, and whether the system has them."""
    true = truth.tables["query"]
    if not true.num_rows or "query" not in tables:
        return []
    places = np.unique(np.geomspace(1, true.num_rows, POINTS).astype(np.int64)) - 1
    published = set(tables["query"]["query"].to_pylist())
    rows = true.take(pa.array(places)).to_pylist()
    return [
        (place + 1, row["users"], row["query"] in published)
        for place, row in zip(places.tolist(), rows, strict=True)
    ]


def _top_list(
    truth: Truth, releases: Mapping[str, Sequence[Tables]], pattern: str
) -> list[tuple[str, int, dict[str, int | None]]]:
    """The first queries that match the pattern, and their rank in each system; for the owner only."""
    ranks_by_query: dict[tuple[str, int], dict[str, int | None]] = {}
    for name, tables in releases.items():
        try:
            rows = ranks(tables[0], truth, pattern).slice(0, LISTED)
        except Unfit:
            continue
        for row in rows.to_pylist():
            place = ranks_by_query.setdefault((row["query"], row["raw rank"]), {})
            place[name] = row["released rank"]
    return [(query, rank, places) for (query, rank), places in ranks_by_query.items()]
