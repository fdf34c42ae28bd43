"""Runs the steps of a mechanism on a log whose exact counts are known, and tests the noise of every stage.

The log has groups of users who ask the same two queries, so that every item of a group has as many users as
the group. What is left of a published or measured number without the known one is the noise that was added.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from draw_record import (
    StagePower,
    check_draw_number,
    check_draws,
    recorded_draws,
)
from log_rows import queries_of
from noise_stages import (
    STAGE_ALPHA,
    STEPS,
    Integers,
    Law,
    numbers,
    parameters_of,
    stages,
)
from pool_replay import RoundsRun
from replacement import replaced
from rounds_replay import holders_of, replayed_rounds

from murmurlog.auditing.neighbouring_logs import START
from murmurlog.bundle.schema import count_of, keys_of
from murmurlog.logs.engines.duckdb import connect
from murmurlog.logs.log import Log, read
from murmurlog.logs.source import find
from murmurlog.mechanisms import Mechanism, SessionTree, View
from murmurlog.mechanisms.rounds import count as counting
from murmurlog.mechanisms.rounds import mechanism as rounds
from murmurlog.mechanisms.synthetic import mechanism as synthetic
from murmurlog.privacy.sampler import Entropy

WANTED = (
    8000  # draws of a stage: 6 % less Gaussian noise is seen with 99 %, 9 % less geometric noise
)
GROUPS = 1500
MOST_RUNS = 12
HOURS = 3600
COUNTED = {"threshold": "selection", "korolova": "counts", "zealous": "selection", "sessions": "selection"}  # fmt: skip
FEW = 200  # published items where only the histogram is of interest


@dataclass
class StageResult:
    """What the stages of some tables showed."""

    faults: list[str] = field(default_factory=list)
    power: list[StagePower] = field(default_factory=list)

    def test(self, table: str, stage: str, law: Law, values: Sequence[Integers]) -> None:
        """Tests the noise of a stage, and notes what it would have shown."""
        drawn = np.concatenate(values) if values else np.zeros(0, np.int64)
        if not len(drawn):
            return
        p = law.p_value(drawn)
        if p < STAGE_ALPHA:
            size = math.sqrt(float((drawn.astype(np.float64) ** 2).mean()))
            self.faults.append(
                f"{table}, {stage}: the noise of {len(drawn)} numbers (root mean square {size:.6g}) is not "
                f"{law.noise} noise of scale {law.scale:.6g} (p = {p:.1g})"
            )
        smallest = law.smallest_deviation(len(drawn))
        self.power.append(StagePower(table=table, stage=stage, draws=len(drawn), smallest=smallest))


# --- the log ---------------------------------------------------------------------------------------


def write_stage_log(path: Path, *, near: int, sure: int, groups: int) -> None:
    """A log of groups of users who ask two queries of their own and click on both.

    near{n}: `near` users. sure{n}: `sure` users ask the queries hours apart, `near` others one after the
    other. many{n}: `sure` users, one query after the other. Ranks are 1 and 2.
    """
    parts = [
        group_rows("near", groups, near, gap=60, clicks=True),
        group_rows("sure", groups, sure, gap=20 * HOURS, clicks=False),
        group_rows("sure", groups, near, gap=60, clicks=True, users="n"),
        group_rows("many", groups, sure, gap=60, clicks=True),
    ]
    pq.write_table(pa.concat_tables(parts), path)


def group_rows(
    name: str, groups: int, size: int, *, gap: int, clicks: bool, users: str = "u"
) -> pa.Table:
    number = np.repeat(np.arange(groups), 2 * size)
    member = np.tile(np.repeat(np.arange(size), 2), groups)
    second = np.tile(np.array([0, 1]), groups * size)
    texts = [f"{name}{word(int(g))} {'second' if s else 'first'}" for g, s in zip(number, second, strict=True)]  # fmt: skip
    urls = [f"{text.replace(' ', '.')}.org" if clicks else None for text in texts]
    times = np.datetime64(START, "us") + (second * gap).astype("timedelta64[s]")
    return pa.table(
        {
            "user": [f"{name}{users}{g}x{m}" for g, m in zip(number, member, strict=True)],
            "query": texts,
            "url": pa.array(urls, pa.string()),
            "rank": pa.array([1 + int(s) if clicks else None for s in second], pa.int64()),
            "time": pa.array(times, pa.timestamp("us")),
        }
    )


def word(number: int) -> str:
    """Letters only: digits would be hidden from the screen's point of view."""
    return "".join(chr(97 + int(digit)) for digit in f"{number:05d}")


# --- the probe -------------------------------------------------------------------------------------


def sizes_for(mechanisms: Sequence[Mechanism]) -> tuple[int, int]:
    """(users of an item that passes in about half of the runs, users of one that always passes)."""
    near, sure = 2.0, 2.0
    for mechanism in mechanisms:
        name, given = parameters_of(str(mechanism))
        if name in ("rounds", "session-tree"):
            own, past, T = (numbers(given.get(each, "")) for each in ("own", "past", "T"))
            bar = T[-1] / STEPS / (sum(past) + own[-1]) * math.sqrt(2)
            near, sure = max(near, bar * 0.95), max(sure, 3 * bar)
        elif "T" in given:
            spread = float(given.get("scale") or given.get("b") or given.get("lam") or 1)
            sure = max(sure, float(given["T"]) + 24 * spread + 4)
    return math.ceil(near), math.ceil(sure)


def probe_stages(
    mechanisms: Mapping[str, Mechanism],
    *,
    folder: Path,
    entropy: Entropy,
    wanted: int = WANTED,
    groups: int = GROUPS,
    say: Callable[[str], None] = lambda _: None,
) -> StageResult:
    """Tests the noise of every stage of these tables' mechanisms, by their printed texts."""
    result = StageResult()
    near, sure = sizes_for(list(mechanisms.values()))
    groups = max(100, min(groups, 120_000 // (near + sure)))
    path = folder / "stages.parquet"
    write_stage_log(path, near=near, sure=sure, groups=groups)
    with connect() as engine:
        log = read(find(str(path)), engine=engine)
        for table, mechanism in mechanisms.items():
            say(f"testing the noise of {table}")
            with recorded_draws() as draws:
                for probe in (_rounds, _published, _synthetic, _left_out):
                    probe(result, table, mechanism, log, sure=sure, entropy=entropy, wanted=wanted)
            expected = stages(table, str(mechanism))
            result.faults += [f"{table}: {what}" for what in check_draws(expected, draws)]
    return result


def _view(table: str, log: Log) -> View:
    """All queries of the log count as published, so that tables that follow them are counted."""
    queries = pa.table({"query": pa.array(sorted(queries_of(log)), pa.string())})
    return View(kind=table, way="first", published={} if table == "query" else {"query": queries})


def _runs(release: Callable[[], Any], enough: Callable[[], bool]) -> Iterator[Any]:
    """Repeats a release until there are enough draws."""
    for _ in range(MOST_RUNS):
        yield release()
        if enough():
            return


def _rounds(
    result: StageResult, table: str, mechanism: Mechanism, log: Log, *, sure: int, entropy: Entropy, wanted: int
) -> None:  # fmt: skip
    level = mechanism.selection if isinstance(mechanism, SessionTree) else mechanism
    if not isinstance(level, rounds.Rounds) or level.pools:
        return
    last = f"round {level.schedule.rounds}"
    counted = level.schedule.counts is not None
    follow_rounds(
        result, mechanism, log, _view(table, log), enough={last: wanted}, entropy=entropy,
        more={"histogram": noise_of_histograms(level, entropy, wanted)} if counted else {},
    )  # fmt: skip


def follow_rounds(
    result: StageResult,
    mechanism: Mechanism,
    log: Log,
    view: View,
    *,
    enough: Mapping[str, int],
    entropy: Entropy,
    more: Mapping[str, Sequence[Integers]] | None = None,
) -> RoundsRun:
    """Follows releases until stages have as many draws as named, and tests the noise of every stage.

    `more` is noise of some stages from elsewhere.
    """
    table, (_, given) = view.kind, parameters_of(str(mechanism))
    scales = numbers(given["s"])
    with replayed_rounds(table, earlier=view.earlier.get(table)) as run:

        def drawn(stage: str) -> int:
            """The draws of a stage; counts are drawn at scales of several d2."""
            found = (
                values for name, values in run.noise.items() if name.partition(" at ")[0] == stage
            )
            return sum(len(some) for values in found for some in values)

        held = mechanism.gather(log, view, entropy=entropy)
        for _ in _runs(
            lambda: mechanism.release(held, entropy=entropy),
            # A contradiction needs no more draws.
            lambda: bool(run.faults) or all(drawn(stage) >= many for stage, many in enough.items()),
        ):
            pass
    for stage, noise in (more or {}).items():
        run.noise.setdefault(stage, []).extend(noise)
    result.faults += [f"{table}: {what}" for what in run.faults]
    for stage, values in run.noise.items():
        if stage.startswith("round"):
            scale = scales[int(stage.split()[1]) - 1] * STEPS
        elif stage == "histogram":
            scale = float(given["sigma_h"])
        else:
            scale = STEPS * float(given["sigma1"]) * math.sqrt(int(stage.rpartition(" ")[2]))
        result.test(table, stage, Law(noise="gaussian", scale=scale), values)
    result.faults += [f"{table}: {stage} was never drawn" for stage in enough if not drawn(stage)]
    return run


def noise_of_histograms(mechanism: rounds.Rounds, entropy: Entropy, wanted: int) -> list[Integers]:
    """The noise of many histograms of few published items: one release has few bins."""
    unit, item = np.arange(FEW, dtype=np.int64), np.arange(FEW, dtype=np.int64)
    holders = holders_of(unit, item, size=FEW)
    true = np.zeros(len(holders.histogram()), np.int64)
    true[0] = FEW  # each unit holds one item
    noise = functools.partial(rounds._draw_noise, entropy)
    counts: Any = mechanism.schedule.counts
    # The estimates that follow are slow, and no noise is added to them.
    with (
        replaced(counting, "estimate_users", lambda *_, **__: None),
        replaced(counting, "misfit", lambda *_, **__: 0.0),
    ):
        return [
            counting.count_users(holders, counts, noise).histogram - true
            for _ in range(math.ceil(wanted / len(true)))
        ]


def _published(
    result: StageResult, table: str, mechanism: Mechanism, log: Log, *, sure: int, entropy: Entropy, wanted: int
) -> None:  # fmt: skip
    """The noise of published counts of items that always pass."""
    name, given = parameters_of(str(mechanism))
    if name not in COUNTED or given.get("count") == "rows":
        return
    stage = next((s for s in stages(table, str(mechanism)) if s.name == COUNTED[name]), None)
    if stage is None:
        return
    gathered = mechanism.gather(log, _view(table, log), entropy=entropy)
    items = sum(len(shard.keys) for shard in gathered)
    found: list[Integers] = []
    odd: list[str] = []

    def release() -> pa.Table:
        with recorded_draws() as draws:
            made = mechanism.release(gathered, entropy=entropy)
        needed = items + (made.num_rows if "b_q" in given else 0)
        odd.extend(check_draw_number(draws, needed=needed))
        return made

    for made in _runs(release, lambda: sum(map(len, found)) >= wanted):
        if not (count := count_of(made)):
            return
        first = made[keys_of(table)[0]].to_pylist()
        sure_item = np.array([_is_of_many(key) for key in first], bool)
        found.append(made[count].to_numpy()[sure_item] - sure)
    result.faults += [f"{table}: {what}" for what in odd[:1]]
    result.test(table, stage.name, stage.laws[0], found)


def _is_of_many(key: Any) -> bool:
    """Whether all users of the group hold the item. A session counts if both queries are in it."""
    if isinstance(key, list):
        return len(key) == 2 and key[0].startswith("many")
    return str(key).startswith("many")


def _left_out(
    result: StageResult, table: str, mechanism: Mechanism, log: Log, *, sure: int, entropy: Entropy, wanted: int
) -> None:  # fmt: skip
    if table != "left_out":
        return
    (stage,) = stages(table, str(mechanism))
    found: list[Integers] = []
    while sum(map(len, found)) < wanted:
        found.append(mechanism.release({}, entropy=entropy)["rows"].to_numpy())
    result.test(table, stage.name, stage.laws[0], found)


def _synthetic(
    result: StageResult, table: str, mechanism: Mechanism, log: Log, *, sure: int, entropy: Entropy, wanted: int
) -> None:  # fmt: skip
    """The noise of histograms, and that every unit is in one bin of each."""
    if not isinstance(mechanism, synthetic.Synthetic):
        return
    noise: dict[float, list[Integers]] = {}
    add_noise = synthetic._noisy
    counted: list[Integers] = []

    def noisy(true: Integers, scale: float, entropy: Entropy) -> Integers:
        made = add_noise(true, scale, entropy)
        counted.append(true)
        noise.setdefault(scale, []).append(made - true)
        return made

    gathered = mechanism.gather(log, _view(table, log), entropy=entropy)
    with replaced(synthetic, "_noisy", noisy):
        mechanism.release(gathered, entropy=entropy)
    units = sum(gathered.clicks.results(lambda clicks: clicks.units))
    for true in counted:
        if int(true.sum()) > units:
            result.faults.append(
                f"{table}: a histogram counts {int(true.sum())} entries of {units} units: a unit is in more "
                "than one bin"
            )
    for stage in stages(table, str(mechanism)):
        if stage.name.startswith("histogram"):
            scale = stage.laws[0].scale
            noise.setdefault(scale, []).append(
                add_noise(np.zeros(wanted, np.int64), scale, entropy)
            )
            result.test(table, stage.name, stage.laws[0], noise[scale])
