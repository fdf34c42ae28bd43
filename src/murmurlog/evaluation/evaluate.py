"""From a log, bundles and names of mechanisms to an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from typing import Any

from murmurlog.bundle.options import GAP
from murmurlog.bundle.read import Release, load
from murmurlog.errors import UsageError
from murmurlog.evaluation.recipes import Place, all_recipes
from murmurlog.evaluation.request import RAW, EvaluationRequest, request_of
from murmurlog.evaluation.result import Evaluation
from murmurlog.evaluation.runner import Runner
from murmurlog.logs.inputs import LogSource, local_source
from murmurlog.logs.options import ReadOptions
from murmurlog.logs.reading import Reading
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

    The keywords are those of `EvaluationRequest` and, for how the log is read, of `ReadOptions`.
    Books nothing.
    """
    request = request_of(source, keywords)
    return run(request, entropy=entropy or SystemEntropy(), say=say)


def run(request: EvaluationRequest, *, entropy: Entropy, say: Callable[[str], None]) -> Evaluation:
    """The evaluation that is requested."""
    with ExitStack() as copies:
        return _run(request, copies, entropy=entropy, say=say)


def _run(
    request: EvaluationRequest, copies: ExitStack, *, entropy: Entropy, say: Callable[[str], None]
) -> Evaluation:
    def find_log(source: LogSource) -> Source:
        return _find(
            copies.enter_context(local_source(source, request.read, say=say)), request.read
        )

    found = find_log(request.source)
    releases = _load(request.bundles)
    gap = _gap(releases)
    reading = reading_of(request.read, releases)
    place = Place(columns=found.columns, gap=gap, reading=reading, files=found.files)
    recipes = all_recipes(request, releases, place)
    runner = Runner(
        request=request,
        source=found,
        test=None if request.test is None else find_log(request.test),
        releases=releases,
        recipes=recipes.found,
        failed=recipes.failed,
        reading=reading,
        gap=gap,
        entropy=entropy,
        say=say,
    )
    return runner.run()


def _find(path: str, read: ReadOptions) -> Source:
    return find(path, read)


def _load(bundles: Sequence[str | Path]) -> dict[str, Release]:
    """The bundles by the names of their folders, which must differ."""
    found: dict[str, Release] = {}
    for bundle in bundles:
        name = Path(realpath(bundle)).name
        if name in found or name == RAW:
            raise UsageError(f"two systems are called {name}: give one of the folders another name")
        found[name] = load(bundle)
    return found


def _gap(releases: Mapping[str, Release]) -> float:
    """What ends a session in the bundles, as far as they say it; they must agree."""
    gaps = {name: release.certificate.text["gap"] for name, release in releases.items()}
    stated = {name: float(gap) for name, gap in gaps.items() if gap is not None}
    if len(set(stated.values())) > 1:
        raise UsageError(
            f"{' and '.join(stated)} have different sessions (--gap), so they are not about the "
            "same pairs: evaluate them apart"
        )
    return next(iter(stated.values()), GAP)


def reading_of(read: ReadOptions, releases: Mapping[str, Release]) -> Reading:
    """How the bundles' log was read; they must agree, or they are not about the same rows."""
    reading = replace(Reading.of(read), max_broken=1.0)  # it publishes nothing, and warns
    texts = {name: release.certificate.text for name, release in releases.items()}
    if not texts:
        return reading
    (first, text), *others = texts.items()
    for name, other in others:
        for what in ("keys", "url", "screen", "deny", "since", "until", "where"):
            if other.get(what) != text.get(what):
                raise UsageError(
                    f"{first} and {name} were read in different ways ({what}), so they are not about "
                    "the same rows: evaluate them apart"
                )
    if text["deny"] and not read.deny:
        raise UsageError(f"{first} was made with a list of denied queries: give --deny again")
    screen = reading.screen if text["screen"] else None
    if text["screen"] and (screen is None or list(screen.names) != text["screen"]):
        raise UsageError(f"{first} was made with another screen: give its --patterns again")
    rows: dict[str, Any] = {
        name: text.get(name) for name in ("keys", "url", "since", "until", "where")
    }
    return replace(reading, **rows, screen=screen)
