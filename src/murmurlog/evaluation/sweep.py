"""One parameter varied: how use changes with epsilon, a bound, a threshold, a scale of noise or k.

Every value makes one more system, and all are evaluated in one go, on the same users and questions.
Internal, as every evaluation is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import GAP
from murmurlog.counting.bound import choose_way
from murmurlog.errors import UsageError
from murmurlog.evaluation.evaluate import usual_tables
from murmurlog.evaluation.recipes import Recipe, Wanted, of_mechanism
from murmurlog.evaluation.result import Evaluation, Point
from murmurlog.evaluation.runner import RAW, Asked, chosen, run
from murmurlog.evaluation.tasks import Settings
from murmurlog.logs.reading import Reading
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.screen import load_deny
from murmurlog.logs.source import find
from murmurlog.mechanisms import MECHANISMS
from murmurlog.privacy.sampler import Entropy, SystemEntropy

VARIED = ("epsilon", "delta", "per-user", "threshold", "scale", "k")


def sweep(
    source: str,
    *,
    mechanisms: Sequence[str],
    vary: tuple[str, Sequence[float]],
    baselines: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    per_user: int | None = None,
    tasks: Sequence[str] | None = ("statistics",),
    folds: int = 1,
    repeats: int = 1,
    labels: pa.Table | None = None,
    settings: Settings | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    shape: str | None = None,
    url: str = "path",
    deny: str | Path | None = None,
    patterns: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    memory: str | None = None,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Evaluates every mechanism at every value of one parameter; baselines once."""
    what, values = vary
    if what not in VARIED:
        raise UsageError(f"--vary cannot vary {what!r}: use one of {', '.join(VARIED)}")
    if not values or len(set(values)) < len(values):
        raise UsageError(f"--vary {what} needs values, each once: --vary {what}=1,2,4")
    found = find(source, columns=columns, encoding=encoding, shape=shape)
    wanted = Wanted(
        tables=tuple(tables or usual_tables(found)),
        epsilon=epsilon,
        delta=delta,
        per_user=per_user,
        way=choose_way(None, timed="time" in found.columns),
        options=options or {},
    )
    recipes, at = dict[str, Recipe](), dict[str, tuple[str, float]]()
    for mechanism in mechanisms:
        for value in values:
            recipe = varied(mechanism, wanted, what, value)
            recipes[recipe.name], at[recipe.name] = recipe, (mechanism, value)
    for name in baselines:
        if name != RAW:
            recipes.setdefault(name, of_mechanism(name, wanted))
    if not at:
        raise UsageError("there is nothing to vary: name --mechanisms")
    done = run(
        Asked(
            source=found,
            test=None,
            releases={},
            recipes=recipes,
            raw=RAW in baselines,
            reading=Reading(
                url=url,
                screen=load_screen(Path(patterns) if patterns else None),
                deny=load_deny(Path(deny)) if deny else frozenset(),
            ),
            gap=GAP,
            trials=chosen(tasks),
            settings=settings or Settings(),
            folds=folds,
            repeats=repeats,
            labels=labels,
            memory=memory,
            entropy=entropy or SystemEntropy(),
            say=say,
        )
    )
    points = [
        Point(vary=what, at=at[line.system][1], result=replace(line, system=at[line.system][0]))
        for line in done.results
        if line.system in at
    ]
    return replace(done, points=tuple(points), settings={**done.settings, "vary": what})


def varied(mechanism: str, wanted: Wanted, what: str, value: float) -> Recipe:
    """The recipe of a mechanism with one parameter at this value."""
    if what == "k":
        if MECHANISMS.get(mechanism) is None or not mechanism.startswith("k-"):
            raise UsageError(f"{mechanism} has no k: --vary k is for k-query, k-click and such")
        return of_mechanism(f"{mechanism}:{_whole(what, value)}", wanted)
    if what == "per-user":
        wanted = replace(wanted, per_user=_whole(what, value))
    elif what == "threshold":
        wanted = replace(wanted, letters={what: _whole(what, value)})
    elif what == "scale":
        wanted = replace(wanted, letters={what: value})
    elif what == "epsilon":
        wanted = replace(wanted, epsilon=value)
    else:
        wanted = replace(wanted, delta=value)
    return replace(of_mechanism(mechanism, wanted), name=f"{mechanism} {what}={value:g}")


def _whole(what: str, value: float) -> int:
    if not 1 <= value < math.inf or value != int(value):
        raise UsageError(f"--vary {what} takes whole numbers from 1 on, not {value:g}")
    return int(value)
