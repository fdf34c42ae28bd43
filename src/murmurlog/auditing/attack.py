"""Attacks a mechanism end to end and computes a lower bound on its epsilon.

For every setting the audit writes a log of many worlds, releases it with `release`, and inspects only
the bundle on disk. A world is one of two neighbouring logs under a name of its own
(`neighbouring_logs`). White-box checks (`probes`) complete the attack. The verdict is never
"private": the audit found a violation, or it found none and states a bound that holds at the stated
confidence over everything that it tried.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.auditing.draw_record import check_draws, recorded_draws
from murmurlog.auditing.independent_total import check_total
from murmurlog.auditing.inspection import (
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
from murmurlog.auditing.measurement import Fault, has_own_items, measure
from murmurlog.auditing.neighbouring_logs import (
    LETTERS,
    SECRET,
    Pair,
    secrets_of,
    write_keys,
    write_log,
)
from murmurlog.auditing.noise_stages import stages
from murmurlog.auditing.observer import observe
from murmurlog.auditing.probes import (
    KNOWN,
    check_counts,
    check_order,
    check_shares,
    find_leaks,
    find_repeated_noise,
    replay,
)
from murmurlog.auditing.result import Audit
from murmurlog.auditing.settings import (
    COUNTED_PAIRS,
    FAKES,
    LISTS,
    MORE,
    POOL,
    QUICK,
    Setting,
    claimed_setting,
    standard_settings,
)
from murmurlog.auditing.verdict import omissions, power_of_attack
from murmurlog.bundle.progress import measure_all
from murmurlog.bundle.read import load, read_table
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import BundleError, UsageError
from murmurlog.mechanisms import View, named, parse
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import SystemEntropy, below
from murmurlog.publishing.options import takes_bound
from murmurlog.publishing.plan import DELTA, EPSILON, MECHANISM, Plan, mechanisms_for, plan_tables
from murmurlog.publishing.release import release

TRIALS = 4000
MOST_TRIALS = 26 ** (LETTERS - 1) // MORE  # every world needs a different name
CONFIDENCE = 0.99
ROWS, ROWS_OF_QUICK = 10, 40  # per trial; a pair with larger worlds gets fewer of them
REPLAYED = 6  # worlds of each pair that are replayed; counting involves little randomness
INSPECTED = 4000  # worlds that take as long as the inspection of a mechanism's stages
LEAK_EPSILON = 0.1  # a budget at which a moderate number of right guesses proves a leak


@dataclass(frozen=True, kw_only=True)
class _PlannedSetting:
    """A setting with its plan, its pairs and the number of worlds of each pair."""

    setting: Setting
    plans: Mapping[str, Plan]
    pairs: list[Pair]
    worlds: list[int]

    @property
    def tests(self) -> int:
        """The number of hypothesis tests, among which the audit divides its error probability.

        For each pair: samples in both directions, one run, own items. For each known item: the law
        of its noise, and the share of worlds in which it is published, on both sides.
        """
        laws = sum(item.table in self.plans for pair in self.pairs for item in pair.counts)
        shows = sum(item.table in self.plans for pair in self.pairs for item in pair.near)
        return (4 if self.setting.independent else 2) * len(self.pairs) + laws + 2 * shows


def audit(
    *,
    mechanism: str | Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    per_user: int | Mapping[str, int] | None = None,
    noise: str | None = None,
    tables: tuple[str, ...] | None = None,
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    only: Callable[[Setting], bool] = lambda _: True,
    until_found: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **more: Any,
) -> Audit:
    """Attacks a mechanism at the claimed budget and at the audit's standard budgets.

    `more` may hold `neighbours`, `options` of the mechanisms, and `files`: options that name public
    lists, which the audit writes itself. `trials` is the number of worlds of each pair in each
    release. `confidence` applies to the whole audit: with this probability all bounds hold at once.
    `until_found` stops at the first violation.
    """
    if not 0.5 <= confidence < 1:
        raise UsageError(f"--confidence must lie between 0.5 and 1, not {confidence!r}")
    if not 30 <= trials <= MOST_TRIALS:
        raise UsageError(f"--trials must lie between 30 and {MOST_TRIALS}, not {trials}")
    began = time.monotonic()
    mechanism = mechanism or (mechanisms_for(tables) if tables else MECHANISM)
    first = claimed_setting(
        mechanism=mechanism,
        epsilon=EPSILON if epsilon is None else epsilon,
        delta=DELTA if delta is None else delta,
        per_user=1 if per_user is None else per_user,
        noise=noise,
        **({} if tables is None else {"tables": tables}),
        **more,
    )
    names = dict.fromkeys(mechanisms_for(first.tables, mechanism).values())
    settings = [first, *(each for name in names for each in standard_settings(name, noise=noise))]
    side_channels = _for_leaks(first)
    with tempfile.TemporaryDirectory() as folder:
        attacker = _Attacker(Path(folder), trials)
        planned, skipped = attacker.plan([each for each in settings if only(each)])
        claim = attacker.claim(first)
        tests = sum(each.tests for each in planned) + 1
        result = Audit(
            mechanism=_text(mechanism), claim=claim, confidence=confidence, tests=tests,
            skipped=skipped,
        )  # fmt: skip
        alpha = (1 - confidence) / tests
        # Each step, and the number of worlds it looks at.
        steps: list[tuple[Callable[[], None], int]] = [
            (lambda: attacker.repeats(result), 0),
            *(
                (partial(attacker.replay, result, each, say), REPLAYED * len(each.pairs))
                for each in planned
                if each.setting.replayed
            ),
            *(
                [(partial(attacker.check_ledger, result, say), INSPECTED)]
                if only(ledger_setting(next(iter(names))))
                else []
            ),
            *(
                (partial(attacker.inspect, result, each, say), INSPECTED)
                for each in (pool_setting(name) for name in names)
                if each and only(each)
            ),
            *(
                [(partial(attacker.replay_paths, result, list(names), say), INSPECTED)]
                if only(path_setting(next(iter(names))))
                else []
            ),
            *(
                (partial(attacker.inspect, result, each, say), INSPECTED)
                for each in (stage_setting(name, noise=noise) for name in names)
                if each and only(each)
            ),
            *(
                [(partial(attacker.leaks, result, side_channels, alpha, say), 2 * KNOWN)]
                if only(side_channels)
                else []
            ),
            *(
                (partial(attacker.attack, result, each, alpha, say), sum(each.worlds))
                for each in planned
            ),
        ]
        total = sum(worlds for _, worlds in steps)
        advance = measure_all(say, "audit", total=total, unit="worlds")
        for step, worlds in steps:
            step()
            advance(worlds)
            result.releases = attacker.releases
            result.seconds = time.monotonic() - began
            if until_found and result.violations:
                break
    measured = {each.setting for each in result.measured}
    released = [each.setting for each in planned if each.setting.name in measured]
    result.not_attacked = omissions(
        tables=list(dict.fromkeys(table for name in names for table in named(name).tables)),
        attacked=[table for each in released for table in each.tables],
        tested=[each.table for each in result.power],
        skipped=result.skipped,
        mixed=not all(each.independent for each in released),
        staged=bool(result.power),
    )
    return result


def _text(mechanism: str | Mapping[str, str]) -> str:
    if isinstance(mechanism, str):
        return mechanism
    return ",".join(f"{table}={name}" for table, name in mechanism.items())


class _Attacker:
    """Makes the releases of an audit in a temporary folder and attacks them."""

    def __init__(self, folder: Path, trials: int) -> None:
        self.folder, self.trials, self.paths, self.releases = folder, trials, 0, 0
        self.entropy = SystemEntropy()

    def path(self, name: str) -> Path:
        """A new path in the folder."""
        self.paths += 1
        return self.folder / f"{self.paths}-{name}"

    def claim(self, setting: Setting) -> Guarantee:
        """The guarantee claimed at a setting; raises if the mechanism claims none."""
        _, total = self._plans(setting, {})
        if total.notion == "none":
            raise UsageError(
                f"{_text(setting.mechanism)} claims no guarantee, so there is nothing to audit"
            )
        return total

    def plan(self, settings: list[Setting]) -> tuple[list[_PlannedSetting], list[str]]:
        """The settings that the mechanism supports, with their pairs, and the names of the others."""
        found, skipped = [], []
        for setting in settings:
            try:
                plans, _ = self._plans(setting, {})
            except UsageError as error:
                if setting.name == "as claimed":
                    raise
                skipped.append(f"{setting.name}: {error}")
                continue
            pairs = setting.make_pairs({table: each.mechanism for table, each in plans.items()})
            worlds = [self._worlds(pair, setting.more) for pair in pairs]
            found.append(_PlannedSetting(setting=setting, plans=plans, pairs=pairs, worlds=worlds))
        return found, skipped

    def _worlds(self, pair: Pair, more: int) -> int:
        rows = max(1, len(pair.rows(0)), len(pair.rows(1)))
        trials = self.trials * more
        quick = pair.name.removesuffix(" for others") in (*QUICK, *COUNTED_PAIRS)
        most = trials * (ROWS_OF_QUICK if quick else ROWS) // rows
        return max(60, min(trials, most))

    def _plans(
        self, setting: Setting, files: Mapping[str, Any]
    ) -> tuple[dict[str, Plan], Guarantee]:
        """The plans that `release` would make; a pool or list not yet written has one key."""
        options = dict(setting.options)
        for name in setting.files:
            options[name] = files.get(name) or _one_key(name)
        if POOL in setting.files:
            options["fakes"] = max(0.2, FAKES * options[POOL]["query"].size)
        kinds = setting.tables
        bounds = (
            dict.fromkeys(kinds, setting.per_user)
            if isinstance(setting.per_user, int)
            else setting.per_user
        )
        return plan_tables(
            kinds,
            mechanism=setting.mechanism,
            epsilon=setting.epsilon,
            delta=setting.delta,
            per_user=bounds,
            noise=setting.noise,
            neighbours=setting.neighbours,
            options=options,
        )

    def _files(self, each: _PlannedSetting) -> dict[str, Path]:
        """Writes the public files of a setting for its worlds."""
        found = {}
        for name in each.setting.files:
            found[name] = self.path(f"{name}.tsv")
            write_keys(found[name], each.pairs, each.worlds, urls=name == LISTS)
        return found

    def release(self, setting: Setting, log: Path, **more: Any) -> Path:
        """Releases a log through `release` and returns the folder of the bundle."""
        self.releases += 1
        out = self.path("bundle")
        names = mechanisms_for(setting.tables, setting.mechanism)
        bounded = any(takes_bound(table, name) for table, name in names.items())
        release(
            str(log),
            out=out,
            tables=list(setting.tables),
            mechanism=setting.mechanism,
            epsilon=setting.epsilon,
            delta=setting.delta,
            per_user=setting.per_user if bounded else None,
            noise=setting.noise,
            neighbours=setting.neighbours,
            **setting.options,
            **more,
        )
        return out

    # --- the steps of an audit

    def repeats(self, result: Audit) -> None:
        """Checks that no noise repeats."""
        found = find_repeated_noise(SystemEntropy)
        result.faults += [Fault(setting="noise", what=what) for what in found]
        result.did("repeated noise")

    def replay(self, result: Audit, each: _PlannedSetting, say: Callable[[str], None]) -> None:
        """Checks by the mechanism's own counting how far one user moves the counts."""
        say(f"replaying {each.setting.name}")
        few = [REPLAYED] * len(each.pairs)
        small = _PlannedSetting(
            setting=each.setting, plans=each.plans, pairs=each.pairs, worlds=few
        )
        files = {name: _read(name, path) for name, path in self._files(small).items()}
        plans, _ = self._plans(each.setting, files)
        result.did("counting")
        for table, plan in plans.items():
            view = View(kind=table, way="first", options={**each.setting.options, **files})
            if plan.mechanism.waits:
                continue  # it counts tables published earlier: only whole releases can be attacked
            for what in replay(plan.mechanism, view, each.pairs, worlds=REPLAYED, seed=1):
                result.faults.append(Fault(setting=each.setting.name, what=f"{table}: {what}"))

    def replay_paths(self, result: Audit, names: list[str], say: Callable[[str], None]) -> None:
        """Checks reading and bounding on every path against plain models."""
        setting = path_setting(names[0]).name
        say(f"replaying {setting}")
        try:
            found = inspect_paths(names, folder=self.folder)
        except (
            UsageError,
            BundleError,
        ) as error:  # it refuses what it should do; a full disk is no fault
            found = [f"stops with an error: {error}"]
        result.faults += [Fault(setting=setting, what=what) for what in found]
        result.did("reading and bounds")

    def check_ledger(self, result: Audit, say: Callable[[str], None]) -> None:
        """Checks the account that a ledger keeps of releases, and when they are booked."""
        setting = ledger_setting(result.mechanism).name
        say(f"replaying {setting}")
        try:
            found = inspect_ledger(folder=self.folder, entropy=self.entropy)
        except (UsageError, BundleError) as error:
            found = [f"stops with an error: {error}"]
        result.faults += [Fault(setting=setting, what=what) for what in found]
        result.did("the ledger")

    def inspect(self, result: Audit, setting: Setting, say: Callable[[str], None]) -> None:
        """Checks the stated totals, and the noise of every stage, by the printed texts."""
        say(f"inspecting {setting.name}")
        try:
            found = inspect_totals(setting)
            tested = inspect_stages(setting, folder=self.folder, entropy=self.entropy, say=say)
        except UsageError as error:  # such as a noise that the mechanism does not have
            result.skipped.append(f"{setting.name}: {error}")
            return
        result.power += tested.power
        result.did("totals")
        if setting.name == POOLS:
            result.did("pools and earlier keys")
        elif setting.mechanism == "rounds":
            result.did("rounds")
        for what in (*found, *tested.faults):
            result.faults.append(Fault(setting=setting.name, what=what))

    def leaks(
        self, result: Audit, small: Setting, alpha: float, say: Callable[[str], None]
    ) -> None:
        """Checks everything in a bundle besides its rows for side channels."""
        say("looking for side channels")
        logs = {inside: self.path(f"{inside}.parquet") for inside in (False, True)}
        for inside, path in logs.items():
            pq.write_table(_small_log(inside), path)
        files = {name: self.path(f"{name}.tsv") for name in small.files}
        for name, path in files.items():
            path.write_text("weather\tweather.org\n" if name == LISTS else "weather\nnews\n")
        found = find_leaks(
            lambda inside: self.release(small, logs[inside], **files),
            coin=lambda: bool(below(2, entropy=self.entropy)[0]),
            epsilon=small.epsilon,
            delta=small.delta,
            alpha=alpha,
        )
        result.faults += [Fault(setting="side channels", what=what) for what in found]
        result.did("side channels")

    def attack(
        self, result: Audit, each: _PlannedSetting, alpha: float, say: Callable[[str], None]
    ) -> None:
        """Releases a log of many worlds and attacks the bundle alone."""
        setting, pairs = each.setting, each.pairs
        say(f"attacking {setting.name}: {sum(each.worlds)} worlds of {len(pairs)} pairs")
        sides = [below(2, count=many, entropy=self.entropy) for many in each.worlds]
        log = self.path("log.parquet")
        ends = [
            secrets_of(below(26, count=many * SECRET, entropy=self.entropy)) for many in each.worlds
        ]
        write_log(log, pairs, sides, ends)
        files: dict[str, Any] = dict(self._files(each))
        if POOL in files:
            keys = read_pools(files[POOL], tables=["query"], url="path")["query"].size
            files["fakes"] = FAKES * keys
        with recorded_draws() as draws:
            bundle = load(self.release(setting, log, screen=False, **files))
        result.worlds += sum(each.worlds)
        claim = bundle.guarantee
        # The files on disk: `load` rejects tables of unexpected types, an attacker would not.
        tables = {name: read_table(bundle.path, name) for name in bundle.certificate.tables}
        views = observe(tables, worlds=each.worlds)
        for pair, what, side in zip(pairs, views, sides, strict=True):
            result.measured += measure(claim, setting, pair, what, side == 1, alpha)
        own = (many for pair, many in zip(pairs, each.worlds, strict=True) if has_own_items(pair))
        result.attack_power.append(
            power_of_attack(
                setting.name, worlds=max(each.worlds), own=max(own, default=0), claim=claim.epsilon,
                delta=claim.delta, alpha=alpha, independent=setting.independent,
            )
        )  # fmt: skip
        result.did("totals")
        claims = bundle.certificate.tables
        texts = {name: claim.mechanism for name, claim in claims.items()}
        stated = {name: parse(text) for name, text in texts.items()}
        every = [stage for name, text in texts.items() for stage in stages(name, text)]
        odd = [
            *check_draws(every, draws),
            *check_total(texts, {name: each.guarantee for name, each in claims.items()}, claim),
            *check_order(tables),
            *check_counts(stated, pairs, views, sides, alpha=alpha),
            *check_shares(stated, pairs, views, sides, alpha=alpha),
        ]
        result.faults += [Fault(setting=setting.name, what=what) for what in odd]


def _for_leaks(first: Setting) -> Setting:
    """The same release at a budget so small that few right guesses prove a leak."""
    return Setting(
        name="side channels", mechanism=first.mechanism, epsilon=LEAK_EPSILON,
        delta=min(first.delta, 1e-6), tables=first.tables, noise=first.noise, files=first.files,
        options=first.options,
    )  # fmt: skip


def _one_key(name: str) -> Any:
    """A public pool or list of one key: enough to plan with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.tsv"
        path.write_text("weather\tweather.org\n" if name == LISTS else "weather\n")
        return _read(name, path)


def _read(name: str, path: Path) -> Any:
    if name == LISTS:
        return read_lists(path, url="path")
    return read_pools(path, tables=["query"], url="path")


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
