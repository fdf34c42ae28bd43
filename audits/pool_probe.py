"""Tests `rounds` with a public pool and with keys of an earlier release, on a log whose holders are known.

Three kinds of keys must get the same noise, whoever holds them: pool keys that somebody holds, pool keys that
nobody holds, and earlier keys, which are counted without being selected.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from draw_record import check_draws, recorded_draws
from noise_stages import STAGE_ALPHA, fit_p_value, stages
from pool_replay import CELLS, EARLIER, UNHELD
from stage_probe import (
    WANTED,
    StageResult,
    follow_rounds,
    group_rows,
    noise_of_histograms,
    sizes_for,
    word,
)

from murmurlog.counting.public_sets.sets import Listed
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Rounds, View
from murmurlog.privacy.sampler import Entropy

FEW, NEAR, MANY, GONE = (
    1500,
    300,
    200,
    1000,
)  # groups of a user, of a dozen users, of many, of nobody
FAKES = 0.2  # of the pool: low thresholds, so that keys of a single user pass in some rounds
TABLE = "query"


def pool_options() -> dict[str, Any]:
    """A public pool: keys that one user holds, keys that some hold, and keys that nobody holds."""
    keys = [f"few{word(n)} {which}" for n in range(FEW) for which in ("first", "second")]
    keys += [f"near{word(n)} first" for n in range(NEAR)]
    keys += [f"nobody{word(n)}" for n in range(2 * FEW)]
    pool = Listed(table=pa.table({"query": pa.array(keys, pa.string())}))
    return {
        "pool": {TABLE: pool},
        "fakes": FAKES * pool.size,
        "rounds": 3,
        "count_per_user": 4,  # one scale for all counts
    }


def earlier_keys() -> pa.Table:
    """Keys of an earlier release: of half of them nobody asks any more."""
    keys = [f"many{word(n)} first" for n in range(MANY)]
    keys += [f"gone{word(n)}" for n in range(GONE)]
    return pa.table({"query": pa.array(keys, pa.string())})


def write_pool_log(path: Path, *, near: int, sure: int) -> None:
    """The holders of the keys above."""
    parts = [
        group_rows("few", FEW, 1, gap=60, clicks=False),
        group_rows("near", NEAR, near, gap=60, clicks=False),
        group_rows("many", MANY, sure, gap=60, clicks=False),
    ]
    pq.write_table(pa.concat_tables(parts), path)


def probe_pools(
    mechanism: Rounds,
    options: Mapping[str, Any],
    *,
    folder: Path,
    entropy: Entropy,
    wanted: int = WANTED,
    say: Callable[[str], None] = lambda _: None,
) -> StageResult:
    """Tests the noise of every class of keys, and that the published keys are those that passed."""
    say("testing the noise of pools and earlier keys")
    result = StageResult()
    near, sure = sizes_for([mechanism])
    path = folder / "pools.parquet"
    write_pool_log(path, near=near, sure=sure)
    last = f"round {mechanism.schedule.rounds}"
    enough = {
        f"{last} of pool keys": wanted,
        f"{last} of {UNHELD}": wanted,
        f"counts of {EARLIER}": wanted,
    }
    view = View(kind=TABLE, way="first", options=options, earlier={TABLE: earlier_keys()})
    with connect() as engine, recorded_draws() as draws:
        log = read(find(str(path)), engine=engine)
        run = follow_rounds(
            result, mechanism, log, view, enough=enough, entropy=entropy,
            more={"histogram": noise_of_histograms(mechanism, entropy, wanted)},
        )  # fmt: skip
    places = np.concatenate(run.places) if run.places else np.zeros(0, np.int64)
    p = fit_p_value(places, np.full(CELLS, 1 / CELLS), 0) if len(places) else 1.0
    if p < STAGE_ALPHA:
        result.faults.append(
            f"{TABLE}: which {UNHELD} are published is no uniform choice (p = {p:.1g})"
        )
    expected = stages(TABLE, str(mechanism))
    result.faults += [f"{TABLE}: {what}" for what in check_draws(expected, draws)]
    # Keys outside of pools have more draws where there is no pool.
    result.power = [each for each in result.power if " of " in each.stage]
    return result
