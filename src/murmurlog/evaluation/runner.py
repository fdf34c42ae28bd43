"""Every system on every trial: whose users a release is made from, and on whom it is scored.

A given bundle is scored as it is on what is about the whole log. What needs held-out truth is scored
on users whom the release has not seen: its recipe is run again on the training users of each fold,
or, with a separate log to test on, the bundle is used as it is. Books nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import ibis
import numpy as np
import pyarrow as pa

from murmurlog.bundle.read import Release
from murmurlog.errors import UsageError
from murmurlog.evaluation.ground_truth import Truth, count_exactly, searches_of
from murmurlog.evaluation.recipes import Recipe
from murmurlog.evaluation.result import Evaluation, Skipped, System
from murmurlog.evaluation.scores import Comparison, Figure, Result, Scores, compare, merge, results
from murmurlog.evaluation.tasks import TRIALS, Settings, Trial, Unfit
from murmurlog.evaluation.tasks.top_list import ranks
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.engines.protocol import Engine
from murmurlog.logs.log import Log
from murmurlog.logs.reading import Reading
from murmurlog.logs.source import Source
from murmurlog.privacy.sampler import Entropy

RAW = "raw"
TEST_SHARE = 5  # one fold holds out one user in five
POINTS = 300  # of the rank-frequency picture
LISTED = 40  # queries of the top list

Found = list[Scores | Figure]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be evaluated, on what and how."""

    source: Source
    test: Source | None
    releases: Mapping[str, Release]  # given bundles by name
    recipes: Mapping[str, Recipe]  # of all systems but the raw log; in the order of the report
    raw: bool
    reading: Reading
    gap: float  # seconds without a query that end a session
    trials: Sequence[Trial]
    settings: Settings
    folds: int
    repeats: int
    labels: pa.Table | None
    memory: str | None
    entropy: Entropy
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        if self.folds < 1 or self.repeats < 1:
            raise UsageError(
                f"--folds and --repeats must be at least 1, not {self.folds} and {self.repeats}"
            )

    @property
    def names(self) -> list[str]:
        return [RAW] * self.raw + list(self.recipes)

    @property
    def how(self) -> str:
        if self.test is not None:
            return (
                "Tasks with held-out truth were scored on a separate log, statistics and tasks about "
                "the log as a whole on the log that each release was made from. Whether its users are "
                "others was not looked at."
            )
        split = "one part of the users" if self.folds == 1 else f"{self.folds} folds of the users"
        return (
            "Statistics compare each release, a given bundle as it is, with the log it was made from. "
            f"Tasks with held-out truth were scored on {split}: the recipe of each release was run again "
            "on the other users, and nothing of that was booked or published."
        )


def chosen(tasks: Sequence[str] | None) -> list[Trial]:
    """The trials of these names; all of them if none is named."""
    if unknown := sorted(set(tasks or ()) - set(TRIALS)):
        raise UsageError(f"--tasks has no {', '.join(unknown)}: use {', '.join(TRIALS)}")
    return [trial for name, trial in TRIALS.items() if tasks is None or name in tasks]


def run(asked: Asked) -> Evaluation:
    """The evaluation that is asked for."""
    told = _Told()
    with connect(memory=asked.memory) as engine:
        log = _read(asked, asked.source, engine)
        asked.say("counting exactly")
        whole = _truth(log, asked)
        systems, made = _on_the_whole(asked, log, whole, told)
        if any(trial.held_out for trial in asked.trials):
            for truth, training in _held_out(asked, log, whole):
                _on_held_out(asked, truth, training, made, told)
    lines, tests = told.lines(asked.names)
    return Evaluation(
        results=tuple(lines),
        comparisons=tuple(tests),
        skipped=tuple(told.skipped.values()),
        systems=tuple(systems),
        how=asked.how,
        settings={
            "folds": asked.folds,
            "repeats": asked.repeats,
            "questions": asked.settings.questions,
            "tasks": [trial.name for trial in asked.trials],
        },
        log={"rows": log.rows, "users": whole.holders["query"].users},
        ranks={name: _ranks(whole, tables[0]) for name, tables in made.items()},
        top_list=_top_list(asked, whole, made),
    )


class _Told:
    """What was found so far, by task, system and repeat; in the order in which it came."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[list[Found]]] = {}
        self.skipped: dict[tuple[str, str], Skipped] = {}

    def add(self, task: str, system: str, repeat: int, found: Found) -> None:
        repeats = self._found.setdefault((task, system), [])
        while len(repeats) <= repeat:
            repeats.append([])
        repeats[repeat].append(found)

    def skip(self, task: str, system: str, why: str) -> None:
        self.skipped[task, system] = Skipped(system=system, task=task, why=why)

    def lines(self, names: Sequence[str]) -> tuple[list[Result], list[Comparison]]:
        """The lines of all, folds put together, repeats averaged, and each against the raw log."""
        lines, tests = list[Result](), list[Comparison]()
        for task in dict.fromkeys(task for task, _ in self._found):
            mean = dict[str, list[Scores]]()
            for system in (name for name in names if (task, name) in self._found):
                repeats = [merge(folds) for folds in self._found[task, system]]
                mean[system] = _on_average(repeats)
                lines += averaged([results(system, task, found) for found in repeats])
            for system, scores in mean.items():
                if RAW in mean and system != RAW:
                    tests += compare(system, RAW, task, scores, mean[RAW])
        return lines, tests


def _on_average(repeats: Sequence[Found]) -> list[Scores]:
    """What a system got on each question, over repeated releases, misses as 0."""
    found: dict[str, list[Scores]] = {}
    for scores in (each for repeat in repeats for each in repeat if isinstance(each, Scores)):
        found.setdefault(scores.measure, []).append(scores)
    return [
        replace(same[0], values=np.mean([np.nan_to_num(each.values) for each in same], axis=0))
        for same in found.values()
    ]


def averaged(repeats: Sequence[Sequence[Result]]) -> list[Result]:
    """The mean over repeated releases; intervals also hold the spread between them."""
    if len(repeats) == 1:
        return list(repeats[0])
    lines = []
    for line in repeats[0]:
        same = [r for each in repeats for r in each if r.measure == line.measure]
        values = np.array([r.value for r in same])
        spread = 1.96 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
        value = float(values.mean())
        halves = [(r.high - r.low) / 2 for r in same if r.low is not None and r.high is not None]
        half = math.hypot(float(np.mean(halves)) if halves else 0.0, spread)
        n = round(float(np.mean([r.n for r in same])))
        lines.append(replace(line, value=value, low=value - half, high=value + half, n=n))
    return lines


def _on_the_whole(
    asked: Asked, log: Log, whole: Truth, told: _Told
) -> tuple[list[System], dict[str, list[dict[str, pa.Table]]]]:
    """Scores every system on tasks about the whole log; the systems and the tables they had."""
    systems, made = list[System](), dict[str, list[dict[str, pa.Table]]]()
    trials = [trial for trial in asked.trials if not trial.held_out]
    for name in asked.names:
        made[name] = _tables(asked, name, log, whole, as_it_is=True)
        recipe = asked.recipes.get(name)
        kind = "raw" if recipe is None else "bundle" if name in asked.releases else "mechanism"
        systems.append(
            System(
                name=name,
                kind=kind,
                guarantee=recipe.guarantee if recipe else None,
                rows={table: rows.num_rows for table, rows in made[name][0].items()},
                budget=recipe.budget if recipe else {},
            )
        )
        for trial in trials:
            _try(asked, trial, name, made[name], whole, told)
    return systems, made


def _on_held_out(
    asked: Asked,
    truth: Truth,
    training: Log | None,
    made: Mapping[str, list[dict[str, pa.Table]]],
    told: _Told,
) -> None:
    """Scores every system on users whom it has not seen."""
    trials = [trial for trial in asked.trials if trial.held_out]
    for name in asked.names:
        tables = made[name] if training is None else _tables(asked, name, training, truth)
        for trial in trials:
            _try(asked, trial, name, tables, truth, told)


def _try(
    asked: Asked,
    trial: Trial,
    name: str,
    repeats: Sequence[Mapping[str, pa.Table]],
    truth: Truth,
    told: _Told,
) -> None:
    has = {"url": truth.has_urls, "time": truth.has_times, "labels": truth.labels is not None}
    words = {
        "url": "clicked urls",
        "time": "times",
        "labels": "planted truth (--labels)",
    }
    if missing := [words[need] for need in sorted(trial.needs) if not has[need]]:
        told.skip(trial.name, name, f"the log has no {' and no '.join(missing)}")
        return
    asked.say(f"{trial.name}: {name}")
    for repeat, tables in enumerate(repeats):
        try:
            told.add(trial.name, name, repeat, trial.run(tables, truth, asked.settings))
        except Unfit as why:
            told.skip(trial.name, name, str(why))
            return


def _tables(
    asked: Asked, name: str, log: Log, truth: Truth, *, as_it_is: bool = False
) -> list[dict[str, pa.Table]]:
    """The tables of a system, once for each repeat: exact, as given, or made from this log."""
    if name == RAW:
        return [dict(truth.tables)]
    if as_it_is and name in asked.releases:
        return [asked.releases[name].tables]
    asked.say(f"releasing {name}")
    recipe = asked.recipes[name]
    return [recipe.made(log, asked.reading, entropy=asked.entropy) for _ in range(asked.repeats)]


def _held_out(asked: Asked, log: Log, whole: Truth) -> Iterator[tuple[Truth, Log | None]]:
    """For each fold the truth and the users to make releases from; None: those made before."""
    if asked.test is not None:
        with connect(memory=asked.memory) as apart:
            other = _read(
                asked, asked.test, apart, reading=replace(asked.reading, since=None, until=None)
            )
            urls, times = whole.has_urls and other.has_urls, other.has_times
            searches = searches_of(other, gap=asked.gap)
            found = replace(whole, searches=searches, has_urls=urls, has_times=times)
        yield found, None
        return
    for fold in range(asked.folds):
        asked.say(f"fold {fold + 1} of {asked.folds}")
        training, held = split(log, fold=fold, folds=asked.folds)
        searches = searches_of(held, gap=asked.gap)
        yield replace(_truth(training, asked), searches=searches), training


def split(log: Log, *, fold: int, folds: int) -> tuple[Log, Log]:
    """The users to learn from and those held out; a user's fold is a hash of the id, always the same."""
    parts = TEST_SHARE if folds == 1 else folds
    head = log.table.user.hexdigest("md5").substr(0, 7)
    # Seven hexadecimal digits as a number below 2^28.
    part = (ibis.literal("0x") + head).cast("int64") % parts
    marked = log.table.mutate(part=part)
    kept, held = marked.filter(marked.part != fold), marked.filter(marked.part == fold)
    return log.only(kept.drop("part")), log.only(held.drop("part"))


def _truth(log: Log, asked: Asked) -> Truth:
    tables, holders = count_exactly(log, gap=asked.gap)
    return Truth(
        tables=tables,
        holders=holders,
        labels=asked.labels,
        has_urls=log.has_urls,
        has_times=log.has_times,
    )


def _read(asked: Asked, source: Source, engine: Engine, *, reading: Reading | None = None) -> Log:
    reading = reading or asked.reading
    reading.check(source)
    return reading.read(source, engine=engine, urls="url" in source.columns, say=asked.say)


def _ranks(truth: Truth, tables: Mapping[str, pa.Table]) -> list[tuple[int, int, bool]]:
    """Some queries by rank: how many users asked them, and whether the system has them."""
    true = truth.tables["query"]
    if not true.num_rows or "query" not in tables:
        return []
    places = np.unique(np.geomspace(1, true.num_rows, POINTS).astype(np.int64)) - 1
    known = set(tables["query"]["query"].to_pylist())
    some = true.take(pa.array(places))
    return [
        (int(place) + 1, users, query in known)
        for place, users, query in zip(
            places, some["users"].to_pylist(), some["query"].to_pylist(), strict=True
        )
    ]


def _top_list(
    asked: Asked, truth: Truth, made: Mapping[str, list[dict[str, pa.Table]]]
) -> list[tuple[str, int, dict[str, int | None]]]:
    """The first queries like the pattern, and where each system has them; for the owner's eyes."""
    if not any(trial.name == "top-list" for trial in asked.trials):
        return []
    found: dict[tuple[str, int], dict[str, int | None]] = {}
    for name, tables in made.items():
        try:
            rows = ranks(tables[0], truth, asked.settings.pattern).slice(0, LISTED)
        except Unfit:
            continue
        for row in rows.to_pylist():
            place = found.setdefault((row["query"], row["raw rank"]), {})
            place[name] = row["released rank"]
    return [(query, rank, places) for (query, rank), places in found.items()]
