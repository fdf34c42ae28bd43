"""From a log, bundles and one-line requests to an evaluation. Internal: it looks at the raw log."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from murmurlog.errors import MurmurlogError, UsageError
from murmurlog.evaluation.bundles import Bundle, gap_of, load_bundle, reading_of
from murmurlog.evaluation.request import PlanContext, Recipe, Request, RequestError
from murmurlog.evaluation.result import Evaluation
from murmurlog.evaluation.runner import Runner
from murmurlog.evaluation.setup import RAW, Setup, setup_of
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.source import Source, find
from murmurlog.privacy.sampler import Entropy, SystemEntropy


def evaluate(
    source: LogSource,
    *,
    entropy: Entropy | None = None,
    say: Callable[[str], None] = lambda _: None,
    **keywords: Any,
) -> Evaluation:
    """Scores bundles, mechanisms and baselines on every task, against the raw log they come from.

    The keywords are those of `Setup` and, for how the log is read, of `ReadOptions`. Books nothing.
    """
    setup = setup_of(source, keywords)
    with ExitStack() as copies:

        def find_log(source: LogSource) -> Source:
            return find(copies.enter_context(local_source(source, setup.read, say=say)), setup.read)

        log = find_log(source)
        bundles = _load(setup)
        releases = {name: bundle.release for name, bundle in bundles.items()}
        gap, reading = gap_of(releases), reading_of(setup.read, releases)
        context = PlanContext(columns=log.columns, gap=gap, reading=reading, files=log.files)
        recipes, failed = plan_systems(setup, bundles, context)
        return Runner(
            setup=setup,
            source=log,
            test=None if setup.test is None else find_log(setup.test),
            releases=releases,
            recipes=recipes,
            failed=failed,
            reading=reading,
            gap=gap,
            entropy=entropy or SystemEntropy(),
            say=say,
        ).run()


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
    """Evaluates every mechanism at every value of one key, or of several; baselines once.

    `vary` is ("epsilon", [0.5, 1, 2]) or {"K": [10, 20], "b": [5, 10]}, as if `epsilon=0.5|1|2` were written
    in each request. The other keywords are those of `evaluate`.
    """
    return evaluate(
        source, mechanisms=mechanisms, vary=vary, baselines=baselines, tasks=tasks, folds=folds, **keywords
    )  # fmt: skip


def _load(setup: Setup) -> dict[str, Bundle]:
    """The bundles by the names of their folders, which must differ from all other names."""
    others = {RAW, *map(str, setup.all_requests)}
    bundles: dict[str, Bundle] = {}
    for bundle in map(load_bundle, setup.bundles):
        if bundle.name in others or bundle.name in bundles:
            raise UsageError(
                f"two systems are called {bundle.name}: give one of the folders another name"
            )
        bundles[bundle.name] = bundle
    return bundles


def plan_systems(
    setup: Setup, bundles: Mapping[str, Bundle], context: PlanContext
) -> tuple[dict[str, Recipe], dict[str, str]]:
    """The recipe of every system except the raw log, and why some have none.

    A request that cannot be planned does not stop the others, unless that is all of them, or all that a
    sweep varies.
    """
    recipes = {name: bundle.recipe(context) for name, bundle in bundles.items()}
    failed: dict[str, MurmurlogError] = {}
    for requests in setup.requests:
        planned: dict[str, Recipe] = {}
        for request in requests:
            try:
                planned[str(request)] = request.recipe(context)
            except RequestError:
                raise
            except MurmurlogError as why:
                failed[str(request)] = why
        _check_effect(requests, planned)
        recipes |= planned
    needed = setup.requests[: len(setup.mechanisms) or None]
    names = list(map(str, itertools.chain(*needed)))
    if failed and not recipes.keys() & {*names, *bundles}:
        raise type(failed[names[0]])(f"{names[0]}: {failed[names[0]]}")
    return recipes, {name: str(why) for name, why in failed.items()}


def _check_effect(requests: Sequence[Request], planned: Mapping[str, Recipe]) -> None:
    """Raises if all values of a varied key make the same release."""
    for key in requests[0].varied_keys:
        groups: dict[str, list[object]] = {}
        for request in requests:
            if str(request) in planned:
                signature = planned[str(request)].signature
                groups.setdefault(request.without(key), []).append(signature)
        several = [group for group in groups.values() if len(group) > 1]
        if several and all(signature == group[0] for group in several for signature in group):
            raise RequestError(
                f"{key} changes nothing in {requests[0].without(key)}: vary a key that it takes, or leave "
                "its own parameters out"
            )
