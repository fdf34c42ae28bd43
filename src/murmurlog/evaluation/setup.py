"""What an evaluation compares, on which log and how: one value, checked before the log is read."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import read_number, split_keywords
from murmurlog.errors import UsageError
from murmurlog.evaluation import tasks as registry
from murmurlog.evaluation.request import Request, parse_request
from murmurlog.evaluation.tasks import Settings
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.options import ReadOptions

RAW = "raw"
MOST_FITS = 1_000  # folds, and repeats: a larger number is a slip, and would never end


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Bundles, mechanisms and baselines, the log they come from, and the tasks to score them on.

    `baselines` are one-line requests (`evaluation.request`), released for this evaluation alone. So are the
    `mechanisms` of a sweep; `vary` are values of more keys of each of them.
    """

    source: LogSource
    read: ReadOptions = field(default_factory=ReadOptions)
    bundles: Sequence[str | Path] = ()
    test: LogSource | None = None  # a separate log to score on, instead of folds
    baselines: Sequence[str] = (RAW,)
    mechanisms: Sequence[str] = ()
    vary: tuple[str, Sequence[Any]] | Mapping[str, Sequence[Any]] | None = None
    tasks: Sequence[str] | None = None  # None: all
    folds: int = 5
    repeats: int = 1
    labels: pa.Table | None = None  # kind, query, target: what was planted in a generated log
    settings: Settings = field(default_factory=Settings)
    memory: str | None = None

    def __post_init__(self) -> None:
        for name, number in (("folds", self.folds), ("repeats", self.repeats)):
            if not 1 <= number <= MOST_FITS:
                raise UsageError(f"--{name} must be from 1 to {MOST_FITS:,}, not {number:,}")
        registry.choose(self.tasks)
        for name in ("since", "until", "where") if self.bundles else ():
            if getattr(self.read, name):
                raise UsageError(f"a bundle says which rows it was made from: leave out --{name}")
        if self.vary is not None and not self.mechanisms:
            raise UsageError("there is nothing to vary: name --mechanisms")
        names = list(map(str, self.all_requests))
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"two systems are called {twice[0]}: leave one of them out")
        if not (self.bundles or names or self.baselines):
            raise UsageError("there is nothing to evaluate: give --bundle or --baselines")

    @cached_property
    def requests(self) -> list[list[Request]]:
        """The requests that each text stands for: the mechanisms', then the baselines'."""
        vary = dict([self.vary]) if isinstance(self.vary, tuple) else self.vary
        others = [text for text in self.baselines if text != RAW]
        return [
            *(parse_request(text, vary) for text in self.mechanisms),
            *(parse_request(text) for text in others),
        ]

    @property
    def all_requests(self) -> list[Request]:
        """The requests of all texts."""
        return list(itertools.chain(*self.requests))

    @cached_property
    def varied_keys(self) -> list[str]:
        """The keys that have several values."""
        return list(dict.fromkeys(key for r in self.all_requests for key in r.varied_keys))

    @cached_property
    def axis(self) -> str | None:
        """The key on the x axis of charts: the first varied one with numbers; None if there is none."""
        return next((key for key in self.varied_keys if self._has_numbers(key)), None)

    def _has_numbers(self, key: str) -> bool:
        try:
            for request in self.all_requests:
                if key in request.varied_keys:
                    read_number(request.texts[key])
        except UsageError:
            return False
        return True

    def points(self) -> dict[str, tuple[str, float]]:
        """The line of a chart and the place on it, of each system along the axis."""
        axis = self.axis
        return {
            str(request): (request.without(axis), read_number(request.texts[axis]))
            for request in self.all_requests
            if axis is not None and axis in request.varied_keys
        }


def setup_of(source: LogSource, keywords: Mapping[str, Any]) -> Setup:
    """The setup that these keywords make; those of `ReadOptions` say how the log is read."""
    (read,), others = split_keywords(keywords, ReadOptions)
    # None stands for a default, as it does in every function of the package.
    values = {name: value for name, value in others.items() if value is not None}
    if unknown := sorted(values.keys() - {option.name for option in fields(Setup)}):
        raise UsageError(f"an evaluation has no option {', '.join(unknown)}: leave it out")
    return Setup(source=source, read=ReadOptions(**read), **values)
