"""White-box checks that sampling attacks cannot make, or would need too many samples for.

`replay` runs a mechanism's own counting on neighbouring logs with the same randomness and compares
the changes by one user with those that the proof allows. `check_noise` tests published counts against
the stated law of the noise, `pass_p_value` the number of published items; `check_counts` and
`check_shares` apply them to all tables of a release. `find_repeated_noise` looks for noise that
occurs twice. `find_leaks` looks for anything else in a bundle, line by line and file by file, that
reveals whether the one user is in the log.
"""

import json
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from noise_stages import fit_p_value
from scipy.special import ndtr
from scipy.stats import chi2, fisher_exact

from murmurlog.auditing.epsilon_bounds import p_value
from murmurlog.auditing.neighbouring_logs import LETTERS, KnownCount, Pair, place_of, write_log
from murmurlog.auditing.observer import Observation
from murmurlog.bundle.files import CERTIFICATE, SUMS, sums
from murmurlog.bundle.schema import LISTS, in_order
from murmurlog.counting.tally import Tally, count_items
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.partitions import Sums
from murmurlog.logs.source import find
from murmurlog.mechanisms import (
    FOLLOWING,
    Korolova,
    KorolovaLists,
    Mechanism,
    Pool,
    Rounds,
    Sessions,
    SessionTree,
    Threshold,
    View,
    Zealous,
)
from murmurlog.mechanisms.pool import OnDomain
from murmurlog.mechanisms.rounds.select import Candidates
from murmurlog.privacy.counts import CHOICES, GRID
from murmurlog.privacy.sampler import Entropy, Integers, SeededEntropy, draw

DRAWS = 200  # equal by chance with probability below 2^-200
SIMULATED = 200_000  # items in a simulation of the threshold
KNOWN = 3  # releases of either side in which candidate leaks are collected
MORE_KNOWN = 8  # further ones at most while there are many candidates, most of them by chance
MOST_CANDIDATES = 10  # each candidate that is tested lowers the level of all tests
LEAST_LEVEL = 5e-6  # of one test: guesses that are all right have p-values above twice delta (1e-6)
ENOUGH = 200  # published counts that suffice to test their law
# SINGLE: whether an item passes depends on its own noise alone. COUNTING: far above the threshold, a
# published count is the true count plus its own noise alone.
SINGLE = (Threshold, Korolova, Zealous, Sessions)
COUNTING = (*SINGLE, KorolovaLists, Pool, Rounds, SessionTree)


# --- sensitivity ----------------------------------------------------------------------------------


def replay(
    mechanism: Mechanism, view: View, pairs: Sequence[Pair], *, worlds: int, seed: int
) -> list[str]:
    """One sentence for each pair whose user changes the counts by more than the bound.

    The mechanism's own `gather` counts both logs of every world with the same randomness. A user may
    change at most d counts by one each (of rows: d in total). Replacing a user may change twice as
    many, but still each by one: nobody holds an item more than once.
    """
    logs = []
    with tempfile.TemporaryDirectory() as folder:
        for side in (0, 1):
            path = Path(folder) / f"{side}.parquet"
            write_log(path, pairs, [np.full(worlds, side)] * len(pairs))
            with connect() as engine:
                log = read(
                    find(str(path)),
                    engine=engine,
                    url="path" if view.kind in ("click", "log") else None,
                    entropy=SeededEntropy(seed),
                )
                gathered = mechanism.gather(log, view, entropy=SeededEntropy(seed))
                logs.append(exact_counts(gathered))
    before, after = logs
    return [] if before is None or after is None else excess_changes(pairs, before, after)


class ExactCounts(NamedTuple):
    """The exact counts of a log."""

    counts: dict[str, int]  # by key
    d: int  # the bound that is claimed for them
    by_one: bool  # counts of users: one user changes a count by at most one


def exact_counts(gathered: Any) -> ExactCounts | None:
    """The exact counts in a mechanism's intermediate result; None if it holds none."""
    if isinstance(gathered, Tally):
        return _counts_of(gathered)
    if isinstance(gathered, OnDomain):
        return _counts_of(gathered.inside)
    if isinstance(gathered, Candidates):
        shards = gathered.bounded.add_up(count_items)
        return ExactCounts(_by_key(gathered, shards), gathered.per_user, by_one=True)
    return None


def _counts_of(tally: Tally) -> ExactCounts:
    return ExactCounts(_by_key(tally, tally), tally.per_user, by_one=tally.count == "users")


def _by_key(counted: Tally | Candidates, shards: Iterable[Sums]) -> dict[str, int]:
    found: dict[str, int] = {}
    for shard in shards:
        table = counted.table(shard.keys)
        columns = [
            [" ".join(texts) for texts in column.to_pylist()]
            if key in LISTS
            else column.to_pylist()
            for key, column in zip(counted.keys, table.columns, strict=True)
        ]
        for texts, number in zip(zip(*columns, strict=True), shard.sums.tolist(), strict=True):
            name = "|".join(texts)  # two sums of one name would be two items of a user
            found[name] = found.get(name, 0) + number
    return found


def excess_changes(pairs: Sequence[Pair], before: ExactCounts, after: ExactCounts) -> list[str]:
    """The pairs whose user changes counts by more than the bound allows; the worst world of each."""
    changes: dict[str, list[int]] = {}
    for key in before.counts.keys() | after.counts.keys():
        if change := abs(after.counts.get(key, 0) - before.counts.get(key, 0)):
            changes.setdefault(key[:LETTERS], []).append(change)
    worst: dict[int, tuple[int, int, int, str]] = {}
    for world, sizes in changes.items():
        number, _ = place_of(world)
        pair, total, most = pairs[number], sum(sizes), max(sizes)
        allowed = before.d * pair.linked * (2 if pair.replacement else 1)
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
    """P(Z = k) of the noise, by formulas independent of the sampler's."""
    size = np.abs(k).astype(np.float64)
    if noise == "gaussian":  # rounded
        return ndtr(-(size - 0.5) / scale) - ndtr(-(size + 0.5) / scale)
    a = np.exp(-1 / scale)
    return (1 - a) / (1 + a) * a**size


def check_noise(
    parameters: Mapping[str, Any], values: Sequence[float], true: Sequence[int]
) -> tuple[float, str]:
    """The p-value of published counts whose true values are known, and a message if it is small."""
    noise = str(parameters["noise"])
    scale = float(parameters.get("count_scale") or parameters["scale"])
    away = np.asarray(values, dtype=np.float64) - np.asarray(true)
    if (away != np.rint(away)).any():
        return 0.0, "published counts are not whole numbers: floating-point digits leak information"
    if parameters.get("histogram_scale") is not None:
        # Estimates from weighted counts: d2 and the mean weight of holders only enlarge the noise.
        least = scale * math.sqrt(parameters.get("count_per_user") or CHOICES[0])
        p = float(chi2.cdf((away**2).sum() / least**2, len(away)))
        return p, f"the noise of {len(away)} counts is below {noise} noise of scale {least:.4g}"
    reach = int(12 * scale) + 12
    k = np.arange(-reach, reach + 1)
    p = fit_p_value(away.astype(np.int64), mass(noise, scale, k), -reach)
    return p, f"the noise of {len(away)} counts is not {noise} noise of scale {scale:.4g}"


def pass_p_value(
    mechanism: Mechanism, *, users: int, shown: int, trials: int, pool: int = 0
) -> float | None:
    """The p-value of publishing `shown` of `trials` items with `users` users each.

    `pool` is the number of the items' public pool, 0 outside of pools. None for mechanisms in which an item's publication depends on more than its own noise; in rounds
    it depends on its own noise alone if nobody has two items.
    """
    alone = isinstance(mechanism, Rounds) and mechanism.schedule.d == 1
    if not alone and not isinstance(mechanism, SINGLE):
        return None
    would = int(_passed(mechanism, users, pool).sum())
    return float(fisher_exact([[shown, trials - shown], [would, SIMULATED - would]]).pvalue)


def _passed(mechanism: Mechanism, users: int, pool: int) -> Any:
    """Simulates which items with this many users pass, with noise from another generator."""
    chance, parameters = np.random.default_rng(), mechanism.parameters()

    def noise(scale: float, count: int) -> Any:
        if parameters["noise"] == "gaussian":
            return np.rint(chance.normal(0, scale, count)).astype(np.int64)
        p = -np.expm1(-1 / scale)
        return chance.geometric(p, count) - chance.geometric(p, count)

    if not pool and users < max(1, parameters.get("first_threshold") or 1):
        return np.zeros(SIMULATED, bool)
    if not isinstance(mechanism, Rounds):
        return users + noise(parameters["scale"], SIMULATED) >= parameters["threshold"]
    passed, alive = np.zeros(SIMULATED, bool), np.arange(SIMULATED)
    remembered = np.zeros(SIMULATED, np.int64)
    for k, scale in enumerate(mechanism.schedule.scales):
        # A user with one item gives it its full weight.
        z = users * GRID + noise(scale * GRID, len(alive))
        found = mechanism.decide(k, z, remembered, pool)
        passed[alive[found.passed]] = True
        alive, remembered = alive[found.goes_on], found.remembered
    return passed


def check_counts(
    mechanisms: Mapping[str, Mechanism],
    pairs: Sequence[Pair],
    views: Sequence[Observation],
    sides: Sequence[Integers],
    *,
    alpha: float,
) -> list[str]:
    """Tests the counts of items that always pass against the stated law of their noise."""
    found = []
    for pair, what, side in zip(pairs, views, sides, strict=True):
        for known, mechanism in _known(pair.counts, mechanisms):
            if not isinstance(mechanism, COUNTING):
                continue
            published = what.of((known.table, known.item), known.column)
            here = ~np.isnan(published)
            if here.sum() < ENOUGH:  # keys without counts, or too few counts
                continue
            true = np.asarray(known.users)[side[here]].tolist()
            p, odd = check_noise(mechanism.parameters(), published[here].tolist(), true)
            if p < alpha:
                found.append(f"{known.table}: {odd} (p = {p:.1g})")
    return found


def check_shares(
    mechanisms: Mapping[str, Mechanism],
    pairs: Sequence[Pair],
    views: Sequence[Observation],
    sides: Sequence[Integers],
    *,
    alpha: float,
) -> list[str]:
    """Tests how often items near the threshold pass against the stated parameters."""
    found = []
    for pair, what, side in zip(pairs, views, sides, strict=True):
        for known, mechanism in _known(pair.near, mechanisms):
            there = ~np.isnan(what.of((known.table, known.item), "rows"))
            for number, users in enumerate(known.users):
                here = there[side == number]
                shown, trials = int(here.sum()), len(here)
                pool = int(
                    pair.in_pools and isinstance(mechanism, Rounds) and bool(mechanism.pools)
                )
                p = pass_p_value(mechanism, users=users, shown=shown, trials=trials, pool=pool)
                if p is not None and p < alpha:
                    found.append(
                        f"{known.table}: {shown} of {trials} items with {users} users are published, "
                        f"which the stated noise does not explain (p = {p:.1g})"
                    )
    return found


def _known(
    items: Sequence[KnownCount], mechanisms: Mapping[str, Mechanism]
) -> Iterator[tuple[KnownCount, Mechanism]]:
    """The items whose numbers of users are certain in this release, with their mechanisms."""
    query = mechanisms.get("query")
    for item in items:
        if item.table not in mechanisms:
            continue
        if query is not None and item.table in FOLLOWING:  # counts published queries only
            bound = query.parameters().get("per_user") or 0
            if not isinstance(query, COUNTING) or item.queries is None or bound < item.queries:
                continue
        yield item, mechanisms[item.table]


# --- repeated noise --------------------------------------------------------------------------------


def find_repeated_noise(make: Callable[[], Entropy]) -> list[str]:
    """Checks that two forked processes, and two sources in one process, draw different noise."""
    found = []
    if _draw(make()) == _draw(make()):
        found.append("two releases of one process have the same noise")
    if _draw_in_child(make) == _draw_in_child(make):
        found.append("two forked processes have the same noise")
    return found


def _draw(entropy: Entropy) -> bytes:
    return draw(noise="geometric", scale=1e6, count=DRAWS, entropy=entropy).tobytes()


def _draw_in_child(make: Callable[[], Entropy]) -> bytes:
    """The noise that a forked child of this process draws."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():  # newer Pythons warn of threads; the child only draws and exits
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.write(theirs, _draw(make()))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data


# --- everything else in a bundle --------------------------------------------------------------------


def check_order(tables: Mapping[str, pa.Table]) -> list[str]:
    """Checks that all tables are in the canonical order of their counts and keys."""
    return [
        f"the rows of {name} are not in the canonical order"
        for name, table in tables.items()
        if not in_order(table).equals(table)
    ]


def facts(root: Path) -> dict[str, str]:
    """Everything in a bundle besides its rows: files, checksums, lines, metadata.

    The bundle's own id and checksums are separate facts, removed from all others, which would
    otherwise always differ. Any other text that looks like a digest may be a digest of the log.
    """
    found = {f"{name}: sum": digest for name, digest in sums(root).items()}
    own = list(found.values())
    if (root / CERTIFICATE).exists():
        release = json.loads((root / CERTIFICATE).read_text(encoding="utf-8"))["release_id"]
        found["release_id"] = release
        own += [release, release[:8]]  # default titles contain the beginning of the id
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


def _telling(known: Mapping[bool, Sequence[Mapping[str, str]]]) -> dict[str, str | None]:
    """The facts with one value in all releases with the user and another in all without it: the former."""
    found = {}
    for name in sorted({name for both in known.values() for each in both for name in each}):
        values = [{each.get(name) for each in known[inside]} for inside in (False, True)]
        if all(len(value) == 1 for value in values) and values[0] != values[1]:
            found[name] = values[1].pop()
    return found


def find_leaks(
    release: Callable[[bool], Path], *, coin: Callable[[], bool], epsilon: float, delta: float,
    alpha: float,
) -> list[str]:  # fmt: skip
    """The facts of a bundle that reveal whether the one user is in the log.

    Candidates have one value in all releases with the user and another in all without it. New
    releases, each with or without the user by a fair coin, are guessed by each candidate alone; a
    candidate that is right every time is a proven leak. A test has at least LEAST_LEVEL, whatever alpha.
    """
    known = {inside: [facts(release(inside)) for _ in range(KNOWN)] for inside in (False, True)}
    candidates = _telling(known)
    for _ in range(MORE_KNOWN):
        if len(candidates) <= MOST_CANDIDATES:
            break
        for inside, some in known.items():
            some.append(facts(release(inside)))
        candidates = _telling(known)
    if not candidates:
        return []
    candidates = dict(list(candidates.items())[:MOST_CANDIDATES])
    share = max(alpha / len(candidates), LEAST_LEVEL)
    # The smallest number of guesses that is significant if all are right.
    needed = next(
        n
        for n in range(1, 10_000)
        if p_value(canaries=n, guesses=n, right=n, epsilon=epsilon, delta=delta) < share
    )
    for _ in range(needed):
        inside = coin()
        found = facts(release(inside))
        candidates = {
            name: value
            for name, value in candidates.items()
            if (found.get(name) == value) == inside
        }
        if not candidates:
            return []
    return [
        f"{name} reveals whether one user is in the log, {needed} times of {needed}"
        for name in candidates
    ]
