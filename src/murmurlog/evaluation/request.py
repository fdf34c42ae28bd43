"""What an evaluation compares, on which log and how: one value, checked before anything is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import split_keywords
from murmurlog.errors import UsageError
from murmurlog.evaluation import tasks as registry
from murmurlog.evaluation.grid import GENERAL, Grid, check_mechanism, mechanisms_in
from murmurlog.evaluation.tasks import Settings
from murmurlog.logs.inputs import LogSource
from murmurlog.logs.options import ReadOptions

RAW = "raw"


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """Bundles, mechanisms and baselines, the log they come from, and the tasks to score them on.

    `mechanisms` and `baselines` are released for this evaluation alone, with `tables`, `epsilon`,
    `delta` and `per_user`; `bundles` bring their own. A mechanism may be one for each table,
    query=rounds,click=threshold. `options` are those that mechanisms declare: each system takes its
    own. With `vary`, every mechanism is evaluated at every value of one parameter, or of two.
    """

    source: LogSource
    read: ReadOptions = field(default_factory=ReadOptions)
    bundles: Sequence[str | Path] = ()
    test: LogSource | None = None  # a separate log to score on, instead of folds
    baselines: Sequence[str] = (RAW,)
    mechanisms: Sequence[str] = ()
    vary: tuple[str, Sequence[Any]] | Mapping[str, Sequence[Any]] | None = None
    tables: Sequence[str] | None = None  # None: all that the log's columns allow
    epsilon: float | None = None
    delta: float | None = None
    per_user: int | None = None
    users: int | None = None
    noise: str | None = None
    letters: Mapping[str, str] | None = None  # of `mechanisms`, instead of epsilon
    set_only: bool = False  # `mechanisms` publish keys without counts
    tasks: Sequence[str] | None = None  # None: all
    folds: int = 5
    repeats: int = 1
    labels: pa.Table | None = None  # kind, query, target: what was planted in a generated log
    settings: Settings = field(default_factory=Settings)
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanisms' own
    memory: str | None = None

    def __post_init__(self) -> None:
        if self.folds < 1 or self.repeats < 1:
            raise UsageError(
                f"--folds and --repeats must be at least 1, not {self.folds} and {self.repeats}"
            )
        registry.choose(self.tasks)
        if self.bundles:
            self._check_rows()
        for name in (*self.mechanisms, *(name for name in self.baselines if name != RAW)):
            mechanisms_in(name)
        if self.vary is not None:
            self._check_vary()
        elif not (self.bundles or self.mechanisms or self.baselines):
            raise UsageError(
                "there is nothing to evaluate: give --bundle, --mechanisms or --baselines"
            )

    def _check_rows(self) -> None:
        """Raises if rows are chosen here that the bundles have chosen themselves."""
        for name in ("since", "until", "where"):
            if getattr(self.read, name):
                raise UsageError(f"a bundle says which rows it was made from: leave out --{name}")

    @property
    def grid(self) -> Grid | None:
        """What is varied; None if nothing is."""
        return None if self.vary is None else Grid.of(self.vary)

    def _check_vary(self) -> None:
        grid = Grid.of(self.vary)
        if not self.mechanisms:
            raise UsageError("there is nothing to vary: name --mechanisms")
        given = {name: getattr(self, keyword) for name, keyword in GENERAL.items()}
        given |= {name.replace("_", "-"): value for name, value in self.options.items()}
        given |= dict(self.letters or {})
        for each in self.mechanisms:
            check_mechanism(grid, each, given)


def request_of(source: LogSource, keywords: Mapping[str, Any]) -> EvaluationRequest:
    """The request that these keywords make; those of `ReadOptions` say how the log is read."""
    (read,), others = split_keywords(keywords, ReadOptions)
    # None stands for a default, as it does in every function of the package.
    given = {name: value for name, value in others.items() if value is not None}
    if unknown := sorted(given.keys() - {each.name for each in fields(EvaluationRequest)}):
        raise UsageError(f"an evaluation has no option {', '.join(unknown)}: leave it out")
    return EvaluationRequest(source=source, read=ReadOptions(**read), **given)
