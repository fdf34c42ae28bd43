"""One or two parameters varied: how utility changes with epsilon, a bound, a threshold or an option.

A sweep is one evaluation: every value makes one more system, and all are scored on the same users
and questions. Internal, as every evaluation is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from murmurlog.evaluation.evaluate import evaluate
from murmurlog.evaluation.result import Evaluation
from murmurlog.logs.inputs import LogSource


def sweep(
    source: LogSource,
    *,
    mechanisms: Sequence[str],
    vary: tuple[str, Sequence[Any]] | Mapping[str, Sequence[Any]],
    baselines: Sequence[str] = (),
    tasks: Sequence[str] | None = ("statistics",),
    folds: int = 1,
    **keywords: Any,
) -> Evaluation:
    """Evaluates every mechanism at every value of one parameter, or of two; baselines once.

    `vary` is ("epsilon", [0.5, 1, 2]) or {"K": [10, 20], "b": [5, 10]}: delta, per-user, users, noise,
    threshold, scale, k, an option of the mechanisms or a letter of theirs. The other keywords are
    those of `evaluate`.
    """
    return evaluate(
        source,
        mechanisms=mechanisms,
        vary=vary,
        baselines=baselines,
        tasks=tasks,
        folds=folds,
        **keywords,
    )
