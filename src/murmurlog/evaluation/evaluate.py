"""From a log, bundles and names of mechanisms to an evaluation: what is asked is put together here."""

from collections.abc import Callable, Mapping, Sequence
from os.path import realpath
from pathlib import Path
from typing import Any

import pyarrow as pa

from murmurlog.bundle.options import GAP
from murmurlog.bundle.read import Release, load
from murmurlog.counting.bound import choose_way
from murmurlog.errors import UsageError
from murmurlog.evaluation.recipes import Wanted, of_bundle, of_mechanism
from murmurlog.evaluation.result import Evaluation
from murmurlog.evaluation.runner import RAW, Asked, chosen, run
from murmurlog.evaluation.tasks import Settings
from murmurlog.logs.reading import Reading
from murmurlog.logs.screen import load as load_screen
from murmurlog.logs.screen import load_deny
from murmurlog.logs.source import Source, find
from murmurlog.privacy.sampler import Entropy, SystemEntropy


def evaluate(
    source: str,
    *,
    bundles: Sequence[str | Path] = (),
    test: str | None = None,
    baselines: Sequence[str] = (RAW,),
    mechanisms: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    per_user: int | None = None,
    tasks: Sequence[str] | None = None,
    folds: int = 5,
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
    """Scores bundles, mechanisms and baselines on every task, against the raw log they come from.

    `mechanisms` are made for this evaluation alone, with `tables`, `epsilon` and `delta`; `bundles`
    bring their own. `options` are public files that a recipe needs, read. Books nothing.
    """
    found = find(source, columns=columns, encoding=encoding, shape=shape)
    releases = _named(bundles)
    gap = _gap(releases)
    wanted = Wanted(
        tables=tuple(tables or usual_tables(found)),
        epsilon=epsilon,
        delta=delta,
        per_user=per_user,
        way=choose_way(None, timed="time" in found.columns),
        gap=gap,
        options=options or {},
    )
    recipes = {
        name: of_bundle(name, release.certificate, options or {})
        for name, release in releases.items()
    }
    for name in (*mechanisms, *(b for b in baselines if b != RAW)):
        if name in recipes:
            raise UsageError(f"two systems are called {name}: name each once")
        recipes[name] = of_mechanism(name, wanted)
    if not recipes and RAW not in baselines:
        raise UsageError("there is nothing to evaluate: give --bundle, --mechanisms or --baselines")
    asked = Asked(
        source=found,
        test=None if test is None else find(test, columns=columns, encoding=encoding, shape=shape),
        releases=releases,
        recipes=recipes,
        raw=RAW in baselines,
        reading=_reading(releases, url=url, deny=deny, patterns=patterns),
        gap=gap,
        trials=chosen(tasks),
        settings=settings or Settings(),
        folds=folds,
        repeats=repeats,
        labels=labels,
        memory=memory,
        entropy=entropy or SystemEntropy(),
        say=say,
    )
    return run(asked)


def _named(bundles: Sequence[str | Path]) -> dict[str, Release]:
    """The bundles by the names of their folders, which must differ."""
    found: dict[str, Release] = {}
    for bundle in bundles:
        name = Path(realpath(bundle)).name
        if name in found or name == RAW:
            raise UsageError(f"two systems are called {name}: give one of the folders another name")
        found[name] = load(bundle)
    return found


def usual_tables(source: Source) -> tuple[str, ...]:
    """What a log has to be released for every task: all that its columns allow."""
    pair = ("pair",) if "time" in source.columns else ()
    click = ("click",) if "url" in source.columns else ()
    return ("query", *click, *pair, "keyword")


def _gap(releases: Mapping[str, Release]) -> float:
    """What ends a session in the bundles, as far as they say it; they must agree."""
    said = {name: r.certificate.text["gap"] for name, r in releases.items()}
    told = {name: float(gap) for name, gap in said.items() if gap is not None}
    if len(set(told.values())) > 1:
        raise UsageError(
            f"{' and '.join(told)} have different sessions (--gap), so they are not about the same "
            "pairs: evaluate them apart"
        )
    return next(iter(told.values()), GAP)


def _reading(
    releases: Mapping[str, Release],
    *,
    url: str,
    deny: str | Path | None,
    patterns: str | Path | None,
) -> Reading:
    """How the bundles' log was read; they must agree, or they are not about the same rows."""
    screen = load_screen(Path(patterns) if patterns else None)
    denied = load_deny(Path(deny)) if deny else frozenset()
    texts = {name: release.certificate.text for name, release in releases.items()}
    if not texts:
        return Reading(url=url, screen=screen, deny=denied)
    names = ("url", "screen", "deny", "since", "until", "where")
    (first, text), *others = texts.items()
    for name, other in others:
        for what in names:
            if other[what] != text[what]:
                raise UsageError(
                    f"{first} and {name} were read in different ways ({what}), so they are not about "
                    "the same rows: evaluate them apart"
                )
    if text["deny"] and not deny:
        raise UsageError(f"{first} was made with a list of denied queries: give --deny again")
    if text["screen"] and list(screen.names) != text["screen"]:
        raise UsageError(f"{first} was made with another screen: give its --patterns again")
    return Reading(
        url=text["url"],
        since=text["since"],
        until=text["until"],
        where=text["where"],
        screen=screen if text["screen"] else None,
        deny=denied,
    )
