"""Runs the experiments of a paper on one generated log, and keeps each result in a folder.

A stored result is taken again if experiment, log, seed and package version are the same. An experiment
that fails is reported, and the others run.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import murmurlog
from murmurlog.bundle.progress import measure_all
from murmurlog.errors import DiskError, UsageError, did_you_mean
from papers.experiments.experiment import (
    Experiment,
    LogSpec,
    Measured,
    Outcome,
)
from papers.experiments.prepared_log import PreparedLog, check_users


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: its experiments, and the generated log they run on."""

    name: str
    title: str
    spec: LogSpec
    experiments: Sequence[Experiment]


def choose(paper: Paper, only: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, with or without the name of the paper; all if none is given."""
    known = {each.name: each for each in paper.experiments}
    full = [name if "." in name else f"{paper.name}.{name}" for name in only]
    for name in full:
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(f"--only: there is no {name!r}: use {', '.join(known)}.{near}")
    return [each for name, each in known.items() if not full or name in full]


def run(
    paper: Paper,
    *,
    work: Path,
    users: int | None = None,
    seed: int | None = None,
    only: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """The outcomes of the experiments, those that were stored before included."""
    chosen = choose(paper, only)
    spec = replace(
        paper.spec,
        users=paper.spec.users if users is None else users,
        seed=paper.spec.seed if seed is None else seed,
        full_users=paper.spec.users,
    )
    check_users(spec.users)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"--out {str(work)!r}: {error.strerror}") from None
    advance = measure_all(say, f"{paper.name}", total=len(chosen), unit="experiments")
    outcomes = []
    with PreparedLog(spec, work, say) as log:
        for experiment in chosen:
            outcomes.append(_outcome(experiment, log, work, say))
            advance()
    return outcomes


def write_page(target: Path, text: str) -> None:
    """Writes the page of outcomes."""
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"cannot write {target.name}: {error.strerror}") from None


def _outcome(
    experiment: Experiment, log: PreparedLog, work: Path, say: Callable[[str], None]
) -> Outcome:
    file, key = _file(experiment, log.spec, work), _key(experiment, log.spec)
    if (stored := _load(file, key)) is not None:
        measured, seconds = stored
        say(f"{experiment.name}: taken from {file.name}")
        return Outcome(
            experiment=experiment, spec=log.spec, measured=measured, seconds=seconds, stored=True
        )
    say(f"{experiment.name}: {experiment.about}")
    started = time.monotonic()
    log.begin(experiment.name)
    try:
        measured = experiment.run(log)
        value = {"key": key, "measured": measured.as_json()}
        text = json.dumps(value | {"seconds": time.monotonic() - started}, indent=1)
    except Exception as error:  # one experiment must not cost the results of the others
        say(f"{experiment.name} failed: {type(error).__name__}: {error}")
        return Outcome(
            experiment=experiment, spec=log.spec, error=f"{type(error).__name__}: {error}"
        )
    part = file.with_name(file.name + ".part")
    try:
        part.write_text(text)
        part.replace(file)
    except OSError as error:
        raise DiskError(f"--out: cannot write {file.name}: {error.strerror}") from None
    seconds = time.monotonic() - started
    return Outcome(experiment=experiment, spec=log.spec, measured=measured, seconds=seconds)


def _key(experiment: Experiment, spec: LogSpec) -> dict[str, Any]:
    """What a result depends on."""
    log = {"like": spec.like, "users": spec.users, "seed": spec.seed}
    return {"experiment": experiment.name, "version": murmurlog.__version__, **log}


def _file(experiment: Experiment, spec: LogSpec, work: Path) -> Path:
    return work / f"{experiment.name}-{spec.like}-{spec.users}-{spec.seed}.json"


def _load(file: Path, key: dict[str, Any]) -> tuple[Measured, float] | None:
    """The stored result for this key; None if there is none, or it cannot be read."""
    try:
        stored = json.loads(file.read_text())
        if stored["key"] != key:
            return None
        return Measured.from_json(stored["measured"]), float(stored["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
