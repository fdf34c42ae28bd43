"""Tests how many keys of a public pool are published, by how many users hold them, in many small releases.

Keys that nobody holds are not drawn one by one, so no recorded draw says whether they pass as often as they
should. Here the pool is so small, and released so often, that their number must follow its binomial law.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from noise_stages import STAGE_ALPHA, Law, fit_p_value, parameters_of
from scipy.stats import binom

from murmurlog.auditing.neighbouring_logs import ALPHABET, START
from murmurlog.counting.public_sets.sets import Listed
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Pool, View
from murmurlog.privacy.sampler import SystemEntropy

EPSILON, DELTA = 1.0, 0.05
UNHELD, HELD = 26, 6  # keys of the pool
USERS = 3  # who hold a key
FAKES = 3.0  # published keys that nobody holds, on average
RELEASES = 250


def _keys(name: str, count: int) -> list[str]:
    return [f"{name} {letter}" for letter in ALPHABET[:count]]


NOBODY, SOME = _keys("nobody", UNHELD), _keys("some", HELD)


def check_pool_keys(folder: Path) -> list[str]:
    """One sentence for each class of keys whose number of published keys the printed text does not explain."""
    mechanism = Pool.solve(epsilon=EPSILON, delta=DELTA, d=1, size=UNHELD + HELD, fakes=FAKES)
    found = _published(mechanism, folder)
    faults = []
    for keys, users, T in _classes(str(mechanism)):
        shown = np.array([sum(key in table for key in keys) for table in found])
        chance = _chance(str(mechanism), T - users)
        mass = binom.pmf(np.arange(len(keys) + 1), len(keys), chance)
        if (p := fit_p_value(shown, mass, 0)) < STAGE_ALPHA:
            faults.append(
                f"pool: of {len(keys)} keys like {keys[0]!r} with {users} users {shown.mean():.3g} are "
                f"published on average of {len(shown)} releases, which is not binomial with a mean of "
                f"{len(keys) * chance:.3g} (p = {p:.1g})"
            )
    places = np.array([NOBODY.index(key) for table in found for key in table if key in NOBODY])
    if (p := fit_p_value(places, np.full(UNHELD, 1 / UNHELD), 0)) < STAGE_ALPHA:
        faults.append(f"pool: some keys that nobody holds show more often (p = {p:.1g})")
    return faults


def _classes(text: str) -> list[tuple[list[str], int, int]]:
    """The keys of each class, how many users hold one, and the threshold for it."""
    T = int(parameters_of(text)[1]["T"])
    return [(NOBODY, 0, T), (SOME, USERS, T)]


def _chance(text: str, needed: int) -> float:
    """The chance that the noise of the printed text is at least what is needed."""
    law = Law(noise="geometric", scale=float(parameters_of(text)[1]["b"]))
    return float(1 - law.below(np.array([needed]))[0])


def _published(mechanism: Any, folder: Path) -> list[Mapping[str, int]]:
    """The published numbers of users by key, of many releases."""
    rows = [(f"{key} {n}", key) for key in SOME for n in range(USERS)]
    users, queries = zip(*rows, strict=True)
    times = pa.array([START] * len(rows), pa.timestamp("us"))
    path = folder / "pool-keys.parquet"
    pq.write_table(pa.table({"user": users, "query": queries, "time": times}), path)
    pool = Listed(table=pa.table({"query": [*NOBODY, *SOME]}))
    view, entropy = (
        View(kind="query", way="first", options={"pool": {"query": pool}}),
        SystemEntropy(),
    )
    with connect() as engine:
        gathered = mechanism.gather(read(find(str(path)), engine=engine), view, entropy=entropy)
        tables = [mechanism.release(gathered, entropy=entropy) for _ in range(RELEASES)]
    return [
        dict(zip(table["query"].to_pylist(), table["users"].to_pylist(), strict=True))
        for table in tables
    ]
