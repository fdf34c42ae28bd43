"""Looks behind the curtain: what sampling cannot see, or would see too late.

`replay` runs a mechanism's own counting on neighbouring logs with the same randomness and compares
what one user moves with what the proof allows. `law` holds published counts against the stated law
of the noise, `passing` how many items show; `odd_counts` and `odd_shares` do so for all tables of a
release. `repeats` looks for noise that comes twice. `leaks` looks for anything else in a bundle, line
by line and file by file, that tells who was there.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtr
from scipy.stats import fisher_exact

from murmurlog.auditing.epsilon_bounds import fit, p_value
from murmurlog.auditing.neighbouring_logs import LETTERS, Known, Pair, place_of, write_log
from murmurlog.auditing.observer import Seen
from murmurlog.bundle.files import CERTIFICATE, SUMS, sums
from murmurlog.bundle.schema import LISTS, in_order
from murmurlog.counting.tally import Tally
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import (
    FOLLOWING,
    Hybrid,
    Korolova,
    KorolovaLists,
    Mechanism,
    Pool,
    Profiles,
    Rounds,
    Sessions,
    Threshold,
    View,
    Zealous,
)
from murmurlog.mechanisms.pool import OnDomain
from murmurlog.mechanisms.rounds.weights import Held
from murmurlog.privacy.rounds import GRID
from murmurlog.privacy.sampler import Entropy, Integers, SeededEntropy, draw

DRAWS = 200  # equal by chance less often than one in 2^200
SIMULATED = 200_000  # items whose passing is computed
KNOWN = 3  # releases of either kind in which a leak is looked for
ENOUGH = 200  # published counts, of which their law can be told
# Whose items pass by their own noise alone, and whose published counts are their own noise alone
# once they are far above the threshold.
SINGLE = (Threshold, Korolova, Zealous, Sessions, Profiles)
COUNTING = (*SINGLE, KorolovaLists, Pool, Hybrid, Rounds)


# --- sensitivity ----------------------------------------------------------------------------------


def replay(
    mechanism: Mechanism, view: View, pairs: Sequence[Pair], *, worlds: int, seed: int
) -> list[str]:
    """What one user moves beyond the bound, in words; nothing if it never does.

    Both logs of every world are counted by the mechanism's own `gather` with the same randomness.
    A user may move at most d counts by one each (of rows: d in all). A replaced one may move twice
    as many, but still each by one: nobody holds an item more than once.
    """
    logs = []
    with tempfile.TemporaryDirectory() as folder:
        for side in (0, 1):
            path = Path(folder) / f"{side}.parquet"
            write_log(path, pairs, [np.full(worlds, side)] * len(pairs))
            with connect() as engine:
                log = read(find(str(path)), engine=engine, urls=view.kind in ("click", "log"))
                gathered = mechanism.gather(log, view, entropy=SeededEntropy(seed))
                logs.append(_exact(gathered))
    before, after = logs
    return [] if before is None or after is None else moved(pairs, before, after)


class Exact(NamedTuple):
    """The exact counts of a log."""

    counts: dict[str, int]  # by key
    d: int  # the bound that is claimed for them
    by_one: bool  # of users: each moves a count by one; rows may be of the same item


def _exact(gathered: Any) -> Exact | None:
    """The exact counts that a mechanism goes on with; None if it goes on with something else."""
    if isinstance(gathered, Tally):
        return _tallied([gathered])
    if isinstance(gathered, OnDomain):
        both = [gathered.inside, *([gathered.outside] if gathered.outside else [])]
        return _tallied(both)
    if isinstance(gathered, Held):
        rows = gathered.table.group_by("item").aggregate(users=gathered.table.count())
        table = gathered.names.join(rows, "item").select(*gathered.keys, "users").to_pyarrow()
        return Exact(_by_key(table, gathered.keys, "users"), gathered.per_user, by_one=True)
    return None


def _tallied(tallies: Sequence[Tally]) -> Exact:
    found: dict[str, int] = {}
    for tally in tallies:
        found |= _by_key(tally.table.to_pyarrow(), tally.keys, tally.count)
    return Exact(found, tallies[0].per_user, by_one=tallies[0].count == "users")


def _by_key(table: pa.Table, keys: Sequence[str], count: str) -> dict[str, int]:
    columns = [
        [" ".join(texts) for texts in table[key].to_pylist()]
        if key in LISTS
        else table[key].to_pylist()
        for key in keys
    ]
    names = ["|".join(texts) for texts in zip(*columns, strict=True)]
    return dict(zip(names, table[count].to_pylist(), strict=True))


def moved(pairs: Sequence[Pair], before: Exact, after: Exact) -> list[str]:
    """Which pairs' users move more than the bound allows; the worst world of each."""
    changes: dict[str, list[int]] = {}
    for key in before.counts.keys() | after.counts.keys():
        if change := abs(after.counts.get(key, 0) - before.counts.get(key, 0)):
            changes.setdefault(key[:LETTERS], []).append(change)
    worst: dict[int, tuple[int, int, int, str]] = {}
    for world, sizes in changes.items():
        number, _ = place_of(world)
        pair, total, most = pairs[number], sum(sizes), max(sizes)
        allowed = before.d * pair.linked * (2 if pair.other else 1)
        if total > allowed:
            far = (total, len(sizes), most, f"the proof allows {allowed}")
        elif before.by_one and most > pair.linked:
            far = (total, len(sizes), most, f"the proof allows {pair.linked} of each")
        else:
            continue
        worst[number] = max(worst.get(number, far), far)
    return [
        f"{pairs[number].name}: one user moves {items} counts by up to {most}, {total} in all; {why}"
        for number, (total, items, most, why) in sorted(worst.items())
    ]


# --- the law of the noise --------------------------------------------------------------------------


def mass(noise: str, scale: float, k: Integers) -> Any:
    """P(Z = k) of the laws that are drawn here, by formulas of their own."""
    size = np.abs(k).astype(np.float64)
    if noise == "gaussian":  # rounded
        return ndtr(-(size - 0.5) / scale) - ndtr(-(size + 0.5) / scale)
    a = np.exp(-1 / scale)
    return (1 - a) / (1 + a) * a**size


def law(
    parameters: Mapping[str, Any], values: Sequence[float], true: Sequence[int]
) -> tuple[float, str]:
    """The p-value of published counts of items whose true counts are known, and what is odd."""
    noise = str(parameters["noise"])
    scale = float(parameters.get("count_scale") or parameters["scale"])
    away = np.asarray(values, dtype=np.float64) - np.asarray(true)
    if (away != np.rint(away)).any():
        return 0.0, "published counts are not whole numbers: floating point tells by its digits"
    reach = int(12 * scale) + 12
    k = np.arange(-reach, reach + 1)
    p = fit(away.astype(np.int64), mass(noise, scale, k), -reach)
    return p, f"the noise of {len(away)} counts is not {noise} noise of scale {scale:.4g}"


def passing(mechanism: Mechanism, *, users: int, shown: int, trials: int) -> float | None:
    """The p-value of how many of some items show that have so many users each.

    None for mechanisms whose items pass by more than their own noise: in rounds, unless nobody has
    two of them.
    """
    alone = isinstance(mechanism, Rounds) and mechanism.schedule.d == 1
    if not alone and not isinstance(mechanism, SINGLE):
        return None
    would = int(_passed(mechanism, users).sum())
    return float(fisher_exact([[shown, trials - shown], [would, SIMULATED - would]]).pvalue)


def _passed(mechanism: Mechanism, users: int) -> Any:
    """Which of many such items pass by the stated parameters, with noise of another generator."""
    chance, parameters = np.random.default_rng(), mechanism.parameters()

    def noise(scale: float, count: int) -> Any:
        if parameters["noise"] == "gaussian":
            return np.rint(chance.normal(0, scale, count)).astype(np.int64)
        p = -np.expm1(-1 / scale)
        return chance.geometric(p, count) - chance.geometric(p, count)

    if users < max(1, parameters.get("first_threshold") or 1):  # there is nothing to show
        return np.zeros(SIMULATED, bool)
    if not isinstance(mechanism, Rounds):
        return users + noise(parameters["scale"], SIMULATED) >= parameters["threshold"]
    passed, alive = np.zeros(SIMULATED, bool), np.arange(SIMULATED)
    remembered = np.zeros(SIMULATED, np.int64)
    for k, scale in enumerate(mechanism.schedule.scales):
        # Who has one item gives it all of its weight.
        found = mechanism.judged(k, users * GRID + noise(scale * GRID, len(alive)), remembered)
        passed[alive[found.passed]] = True
        alive, remembered = alive[found.on], found.remembered
    return passed


def odd_counts(
    mechanisms: Mapping[str, Mechanism],
    pairs: Sequence[Pair],
    views: Sequence[Seen],
    sides: Sequence[Integers],
    *,
    alpha: float,
) -> list[str]:
    """Counts of items that are published for sure against the stated law of their noise."""
    found = []
    for pair, what, side in zip(pairs, views, sides, strict=True):
        for known, mechanism in _known(pair.counts, mechanisms):
            if not isinstance(mechanism, COUNTING):
                continue
            published = what.of((known.table, known.item), known.column)
            here = ~np.isnan(published)
            if here.sum() < ENOUGH:  # keys without counts, or hardly any
                continue
            true = np.asarray(known.users)[side[here]].tolist()
            p, odd = law(mechanism.parameters(), published[here].tolist(), true)
            if p < alpha:
                found.append(f"{known.table}: {odd} (p = {p:.1g})")
    return found


def odd_shares(
    mechanisms: Mapping[str, Mechanism],
    pairs: Sequence[Pair],
    views: Sequence[Seen],
    sides: Sequence[Integers],
    *,
    alpha: float,
) -> list[str]:
    """How many items show that as often as not do, against what the parameters say."""
    found = []
    for pair, what, side in zip(pairs, views, sides, strict=True):
        for known, mechanism in _known(pair.near, mechanisms):
            there = ~np.isnan(what.of((known.table, known.item), "rows"))
            for number, users in enumerate(known.users):
                here = there[side == number]
                shown, trials = int(here.sum()), len(here)
                p = passing(mechanism, users=users, shown=shown, trials=trials)
                if p is not None and p < alpha:
                    words = f"{shown} of {trials} items of {users} users show"
                    found.append(
                        f"{known.table}: {words}, by their noise it is not so (p = {p:.1g})"
                    )
    return found


def _known(
    items: Sequence[Known], mechanisms: Mapping[str, Mechanism]
) -> Iterator[tuple[Known, Mechanism]]:
    """The items of published tables whose numbers of users are as known, with their mechanisms."""
    query = mechanisms.get("query")
    for item in items:
        if item.table not in mechanisms:
            continue
        if query is not None and item.table in FOLLOWING:  # counted among published queries only
            bound = query.parameters().get("per_user") or 0
            if not isinstance(query, COUNTING) or item.queries is None or bound < item.queries:
                continue
        yield item, mechanisms[item.table]


# --- noise that comes twice ------------------------------------------------------------------------


def repeats(made: Callable[[], Entropy]) -> list[str]:
    """Whether two forked processes, or two draws of one, have the same noise."""
    drawn = [_drawn(made()), _drawn(made()), _forked(made), _forked(made)]
    found = []
    if drawn[0] == drawn[1]:
        found.append("two releases of one process have the same noise")
    if drawn[2] == drawn[3]:
        found.append("two forked processes have the same noise")
    return found


def _drawn(entropy: Entropy) -> bytes:
    return draw(noise="geometric", scale=1e6, count=DRAWS, entropy=entropy).tobytes()


def _forked(made: Callable[[], Entropy]) -> bytes:
    """What a child of this process draws."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():  # newer Pythons warn of threads; the child only draws and ends
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.write(theirs, _drawn(made()))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data


# --- everything else in a bundle --------------------------------------------------------------------


def order(tables: Mapping[str, pa.Table]) -> list[str]:
    """Tables whose rows are not in the order of their counts and keys."""
    return [
        f"the rows of {name} are in an order of their own"
        for name, table in tables.items()
        if not in_order(table).equals(table)
    ]


def facts(root: Path) -> dict[str, str]:
    """Everything that can be read off a bundle besides its rows: files, sums, lines, metadata.

    A bundle's own id and sums are facts by themselves and taken out of all others, which would
    differ anyway with them. What else looks like a digest may be one of the log.
    """
    found = {f"{name}: sum": digest for name, digest in sums(root).items()}
    own = list(found.values())
    if (root / CERTIFICATE).exists():
        release = json.loads((root / CERTIFICATE).read_text(encoding="utf-8"))["release_id"]
        found["release_id"] = release
        own += [release, release[:8]]  # names of releases have the beginning of it
    names = [*sums(root), *([SUMS] if (root / SUMS).exists() else [])]
    for name in names:
        path = root / name
        found[f"{name}: size"] = str(path.stat().st_size)
        if path.suffix == ".parquet":
            metadata = pq.ParquetFile(path).metadata
            found[f"{name}: rows"] = str(metadata.num_rows)
            for key, value in (metadata.metadata or {}).items():
                found[f"{name}: {key.decode()}"] = _without(own, value.decode(errors="replace"))
        else:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
                found[f"{name}: line {number + 1}"] = _without(own, line)
    return found


def _without(texts: Sequence[str], line: str) -> str:
    for text in texts:
        line = line.replace(text, "")
    return line


def leaks(
    release: Callable[[bool], Path], *, coin: Callable[[], bool], epsilon: float, delta: float,
    alpha: float,
) -> list[str]:  # fmt: skip
    """Which facts of a bundle tell whether the one user was there.

    A fact that is always the same with the user and always another without it is put to the test:
    further releases by coin, guessed by that fact alone. So many right guesses prove it.
    """
    known = {inside: [facts(release(inside)) for _ in range(KNOWN)] for inside in (False, True)}
    names = {name for both in known.values() for each in both for name in each}
    telling = {}
    for name in sorted(names):
        values = [{each.get(name) for each in known[inside]} for inside in (False, True)]
        if all(len(value) == 1 for value in values) and values[0] != values[1]:
            telling[name] = values[1].pop()
    if not telling:
        return []
    share = alpha / len(telling)
    # As many as it takes if all guesses are right.
    needed = next(
        n
        for n in range(1, 10_000)
        if p_value(canaries=n, guesses=n, right=n, epsilon=epsilon, delta=delta) < share
    )
    for _ in range(needed):
        inside = coin()
        told = facts(release(inside))
        telling = {
            name: value for name, value in telling.items() if (told.get(name) == value) == inside
        }
        if not telling:
            return []
    return [f"{name} tells who was there, {needed} times of {needed}" for name in telling]
