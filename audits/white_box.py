"""The whole audit: the attacks of `murmurlog audit`, and checks that look inside a release.

`WhiteBox` attacks as `murmurlog.auditing.attack` does, records every draw of the sampler meanwhile, and adds steps:
replays of counting, bounds, reading and the ledger, the noise of every stage, stated totals and side channels.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from draw_record import check_draws, recorded_draws
from independent_total import check_total
from inspection import (
    POOLS,
    inspect_ledger,
    inspect_paths,
    inspect_stages,
    inspect_totals,
    ledger_setting,
    path_setting,
    pool_setting,
    stage_setting,
)
from noise_stages import stages
from probes import (
    KNOWN,
    check_counts,
    check_order,
    check_shares,
    find_leaks,
    find_repeated_noise,
    replay,
)
from white_box_result import WhiteBoxAudit

from murmurlog.auditing import attack
from murmurlog.auditing.attack import Attacker, PlannedSetting, ReleasedWorlds, Step, read_public
from murmurlog.auditing.settings import LISTS, Setting
from murmurlog.errors import BundleError, UsageError
from murmurlog.mechanisms import View, parse
from murmurlog.privacy.sampler import SystemEntropy, draw_below

REPLAYED = 6  # worlds of each pair that are replayed; counting involves little randomness
INSPECTED = 4000  # worlds that take as long as the inspection of a mechanism's stages
LEAK_EPSILON = 0.1  # a budget at which a moderate number of right guesses proves a leak


def audit(**request: Any) -> WhiteBoxAudit:
    """As `murmurlog.audit`, with everything that looks inside."""
    result = attack.audit(attacker=WhiteBox, **request)
    assert isinstance(result, WhiteBoxAudit)
    return result


class WhiteBox(Attacker):
    """Attacks bundles, and checks the steps that made them."""

    result_class = WhiteBoxAudit
    result: WhiteBoxAudit

    def count_tests(self, planned: list[PlannedSetting]) -> int:
        """The tests of the attacks; one for side channels; and for each known item the law of its noise, and the
        share of worlds in which it is published, on both sides."""
        tests = super().count_tests(planned) + 1
        for each in planned:
            tests += sum(item.table in each.plans for pair in each.pairs for item in pair.counts)
            tests += 2 * sum(item.table in each.plans for pair in each.pairs for item in pair.near)
        return tests

    def steps(self, planned: list[PlannedSetting], alpha: float) -> list[Step]:
        """What finds a fault soonest comes first, the attacks last."""
        steps: list[Step] = [(self.check_repeats, 0)]
        for each in planned:
            if each.setting.replayed:
                steps.append((partial(self.replay, each), REPLAYED * len(each.pairs)))
        if self.only(ledger_setting(self.names[0])):
            steps.append((self.check_ledger, INSPECTED))
        for setting in map(pool_setting, self.names):
            if setting and self.only(setting):
                steps.append((partial(self.inspect, setting), INSPECTED))
        if self.only(path_setting(self.names[0])):
            steps.append((self.replay_paths, INSPECTED))
        for name in self.names:
            setting = stage_setting(name, noise=self.first.noise)
            if setting and self.only(setting):
                steps.append((partial(self.inspect, setting), INSPECTED))
        side_channels = _for_leaks(self.first)
        if self.only(side_channels):
            steps.append((partial(self.check_leaks, side_channels, alpha), 2 * KNOWN))
        return steps + super().steps(planned, alpha)

    def check_repeats(self) -> None:
        """Checks that no noise repeats."""
        self.result.add("noise", find_repeated_noise(SystemEntropy))
        self.result.did("repeated noise")

    def replay(self, planned: PlannedSetting) -> None:
        """Checks by the mechanism's own counting how far one user moves the counts."""
        setting, pairs = planned.setting, planned.pairs
        self.say(f"replaying {setting.name}")
        few = PlannedSetting(
            setting=setting, plans=planned.plans, pairs=pairs, worlds=[REPLAYED] * len(pairs)
        )
        files = {name: read_public(name, path) for name, path in self.write_files(few).items()}
        plans, _ = self.plans(setting, files)
        self.result.did("counting")
        for table, plan in plans.items():
            view = View(kind=table, way="first", options={**setting.options, **files})
            if plan.mechanism.waits:
                continue  # it counts tables published earlier: only whole releases can be attacked
            faults = replay(plan.mechanism, view, pairs, worlds=REPLAYED, seed=1)
            self.result.add(setting.name, [f"{table}: {what}" for what in faults])

    def replay_paths(self) -> None:
        """Checks reading and bounding in any partitions against plain models."""
        setting = path_setting(self.names[0]).name
        self.say(f"replaying {setting}")
        try:
            faults = inspect_paths(self.names, folder=self.folder)
        # It refuses what it should do; a full disk is no fault.
        except (UsageError, BundleError) as error:
            faults = [f"stops with an error: {error}"]
        self.result.add(setting, faults)
        self.result.did("reading and bounds")

    def check_ledger(self) -> None:
        """Checks the account that a ledger keeps of releases, and when they are booked."""
        setting = ledger_setting(self.result.mechanism).name
        self.say(f"replaying {setting}")
        try:
            faults = inspect_ledger(folder=self.folder, entropy=self.entropy)
        except (UsageError, BundleError) as error:
            faults = [f"stops with an error: {error}"]
        self.result.add(setting, faults)
        self.result.did("the ledger")

    def inspect(self, setting: Setting) -> None:
        """Checks the stated totals, and the noise of every stage, by the printed texts."""
        self.say(f"inspecting {setting.name}")
        try:
            totals = inspect_totals(setting)
            noise = inspect_stages(
                setting, folder=self.folder, entropy=self.entropy, say=self.say
            )  # fmt: skip
        except UsageError as error:  # such as a noise that the mechanism does not have
            self.result.skipped.append(f"{setting.name}: {error}")
            return
        self.result.power += noise.power
        self.result.did("totals")
        if setting.name == POOLS:
            self.result.did("pools and earlier keys")
        elif setting.mechanism == "rounds":
            self.result.did("rounds")
        self.result.add(setting.name, [*totals, *noise.faults])

    def check_leaks(self, setting: Setting, alpha: float) -> None:
        """Checks everything in a bundle besides its rows for side channels."""
        self.say("looking for side channels")
        logs = {inside: self.path(f"{inside}.parquet") for inside in (False, True)}
        for inside, path in logs.items():
            pq.write_table(_small_log(inside), path)
        files = {name: self.path(f"{name}.tsv") for name in setting.files}
        for name, path in files.items():
            path.write_text("weather\tweather.org\n" if name == LISTS else "weather\nnews\n")

        def release(inside: bool) -> Path:
            return self.release(setting, logs[inside], files)

        faults = find_leaks(
            release,
            coin=lambda: bool(draw_below(2, entropy=self.entropy)[0]),
            epsilon=setting.epsilon,
            delta=setting.delta,
            alpha=alpha,
        )
        self.result.add("side channels", faults)
        self.result.did("side channels")

    def attack(self, planned: PlannedSetting, alpha: float) -> ReleasedWorlds:
        """Also compares the recorded draws, the totals and the published counts with the printed texts."""
        with recorded_draws() as draws:
            released = super().attack(planned, alpha)
        self.result.did("totals")
        claims = released.bundle.certificate.tables
        texts = {name: claim.mechanism for name, claim in claims.items()}
        stated = {name: parse(text) for name, text in texts.items()}
        guarantees = {name: claim.guarantee for name, claim in claims.items()}
        views = (stated, planned.pairs, released.views, released.sides)
        every = [stage for name, text in texts.items() for stage in stages(name, text)]
        faults = [
            *check_draws(every, draws),
            *check_total(texts, guarantees, released.bundle.guarantee),
            *check_order(released.tables),
            *check_counts(*views, alpha=alpha),
            *check_shares(*views, alpha=alpha),
        ]
        self.result.add(planned.setting.name, faults)
        return released


def _for_leaks(first: Setting) -> Setting:
    """The same release at a budget so small that few right guesses prove a leak."""
    return Setting(
        name="side channels", mechanism=first.mechanism, epsilon=LEAK_EPSILON,
        delta=min(first.delta, 1e-6), tables=first.tables, noise=first.noise, files=first.files,
        options=first.options,
    )  # fmt: skip


def _small_log(inside: bool) -> pa.Table:
    """Twenty users with the same query and click; with `inside`, one more with a second query."""
    rows = [(f"user{n}", "weather", "weather.org") for n in range(20)]
    if inside:
        rows += [("another", "weather", "weather.org"), ("another", "news", "news.org")]
    users, queries, urls = zip(*rows, strict=True)
    times = [np.datetime64("2026-01-01T00:00:00", "us")] * len(rows)
    return pa.table(
        {"user": users, "query": queries, "url": urls, "time": pa.array(times, pa.timestamp("us"))}
    )
