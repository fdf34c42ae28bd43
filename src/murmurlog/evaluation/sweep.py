"""One parameter varied: how utility changes with epsilon, a bound, a threshold, a noise scale or k.

A sweep is one evaluation: every value makes one more system, and all are scored on the same users
and questions. Internal, as every evaluation is.
"""

from collections.abc import Sequence
from typing import Any

from murmurlog.evaluation.evaluate import evaluate
from murmurlog.evaluation.result import Evaluation
from murmurlog.logs.inputs import LogSource


def sweep(
    source: LogSource,
    *,
    mechanisms: Sequence[str],
    vary: tuple[str, Sequence[float]],
    baselines: Sequence[str] = (),
    tasks: Sequence[str] | None = ("statistics",),
    folds: int = 1,
    **keywords: Any,
) -> Evaluation:
    """Evaluates every mechanism at every value of one parameter; baselines once.

    `vary` is ("epsilon", [0.5, 1, 2]), or delta, per-user, threshold, scale or k. The other keywords
    are those of `evaluate`.
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
