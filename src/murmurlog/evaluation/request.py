"""What an evaluation compares, on which log and how: one value, checked before anything is read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import split_keywords
from murmurlog.errors import UsageError
from murmurlog.evaluation import tasks as registry
from murmurlog.evaluation.tasks import Settings
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.options import ReadOptions
from murmurlog.mechanisms import MECHANISMS

RAW = "raw"
VARIED = ("epsilon", "delta", "per-user", "threshold", "scale", "k")
WHOLE = ("per-user", "threshold", "k")  # of these, the parameters with integer values


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """Bundles, mechanisms and baselines, the log they come from, and the tasks to score them on.

    `mechanisms` and `baselines` are released for this evaluation alone, with `tables`, `epsilon`,
    `delta` and `per_user`; `bundles` bring their own. With `vary`, every mechanism is evaluated at
    every value of one parameter.
    """

    source: LogSource
    read: ReadOptions = field(default_factory=ReadOptions)
    bundles: Sequence[str | Path] = ()
    test: LogSource | None = None  # a separate log to score on, instead of folds
    baselines: Sequence[str] = (RAW,)
    mechanisms: Sequence[str] = ()
    vary: tuple[str, Sequence[float]] | None = None
    tables: Sequence[str] | None = None  # None: all that the log's columns allow
    epsilon: float | None = None
    delta: float | None = None
    per_user: int | None = None
    tasks: Sequence[str] | None = None  # None: all
    folds: int = 5
    repeats: int = 1
    labels: pa.Table | None = None  # kind, query, target: what was planted in a generated log
    settings: Settings = field(default_factory=Settings)
    options: Mapping[str, Any] = field(default_factory=dict)  # public files, read
    memory: str | None = None

    def __post_init__(self) -> None:
        if self.folds < 1 or self.repeats < 1:
            raise UsageError(
                f"--folds and --repeats must be at least 1, not {self.folds} and {self.repeats}"
            )
        registry.choose(self.tasks)
        if self.bundles:
            self._check_rows()
        if self.vary is not None:
            self._check_vary(*self.vary)
        elif not (self.bundles or self.mechanisms or self.baselines):
            raise UsageError(
                "there is nothing to evaluate: give --bundle, --mechanisms or --baselines"
            )

    def _check_rows(self) -> None:
        """Raises if rows are chosen here that the bundles have chosen themselves."""
        for name in ("since", "until", "where"):
            if getattr(self.read, name):
                raise UsageError(f"a bundle says which rows it was made from: leave out --{name}")

    def _check_vary(self, name: str, values: Sequence[float]) -> None:
        if name not in VARIED:
            raise UsageError(f"--vary cannot vary {name!r}: use one of {', '.join(VARIED)}")
        if not values or len(set(values)) < len(values):
            raise UsageError(f"--vary {name} needs values, each once: --vary {name}=1,2,4")
        for value in values if name in WHOLE else ():
            if not 1 <= value < math.inf or value != int(value):
                raise UsageError(f"--vary {name} takes whole numbers from 1 on, not {value:g}")
        if not self.mechanisms:
            raise UsageError("there is nothing to vary: name --mechanisms")
        for each in self.mechanisms if name == "k" else ():
            if each not in MECHANISMS or not each.startswith("k-"):
                raise UsageError(f"{each} has no k: --vary k is for k-query, k-click and such")


def request_of(source: LogSource, keywords: Mapping[str, Any]) -> EvaluationRequest:
    """The request that these keywords make; those of `ReadOptions` say how the log is read."""
    (read,), others = split_keywords(keywords, ReadOptions)
    # None stands for a default, as it does in every function of the package.
    given = {name: value for name, value in others.items() if value is not None}
    if unknown := sorted(given.keys() - {each.name for each in fields(EvaluationRequest)}):
        raise UsageError(f"an evaluation has no option {', '.join(unknown)}: leave it out")
    return EvaluationRequest(source=source, read=ReadOptions(**read), **given)
