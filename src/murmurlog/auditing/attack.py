"""Attacks a mechanism end to end and computes a lower bound on its epsilon.

For every setting the audit writes a log of many worlds, releases it with `release`, and inspects only
the bundle on disk. A world is one of two neighbouring logs under a name of its own
(`neighbouring_logs`). The verdict is never "private": the audit found a violation, or it found none and
states a bound that holds at the stated confidence over everything that it tried. What looks inside a
release is in `audits`, outside the package.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from murmurlog.auditing.measurement import has_own_items, measure
from murmurlog.auditing.neighbouring_logs import (
    LETTERS,
    SECRET,
    Pair,
    secrets_of,
    write_keys,
    write_log,
)
from murmurlog.auditing.observer import Observation, observe
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
from murmurlog.bundle.read import Release, load, read_table
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import UsageError
from murmurlog.mechanisms import find_mechanism
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import SystemEntropy, draw_below
from murmurlog.publishing.plan import (
    DELTA,
    EPSILON,
    MECHANISM,
    Plan,
    mechanisms_for,
    plan_tables,
    takes_bound,
)
from murmurlog.publishing.release import release

TRIALS = 4000
MOST_TRIALS = 26 ** (LETTERS - 1) // MORE  # every world needs a different name
CONFIDENCE = 0.99
ROWS, ROWS_OF_QUICK = 10, 40  # per trial; a pair with larger worlds gets fewer of them

Step = tuple[Callable[[], object], int]  # a step of an audit, and how many worlds it looks at


@dataclass(frozen=True, kw_only=True)
class PlannedSetting:
    """A setting with its plan, its pairs and the number of worlds of each pair."""

    setting: Setting
    plans: Mapping[str, Plan]
    pairs: list[Pair]
    worlds: list[int]


@dataclass(frozen=True, kw_only=True)
class ReleasedWorlds:
    """A released log of worlds: what its bundle shows of them, and on which side of its pair each is."""

    bundle: Release
    tables: dict[str, pa.Table]
    views: list[Observation]
    sides: list[npt.NDArray[np.int64]]


class Attacker:
    """Makes the releases of an audit in a folder and attacks their bundles.

    `first` is the setting that is claimed. A subclass adds steps, and their tests.
    """

    result_class: type[Audit] = Audit
    result: Audit

    def __init__(
        self,
        *,
        folder: Path,
        first: Setting,
        trials: int = TRIALS,
        confidence: float = CONFIDENCE,
        only: Callable[[Setting], bool] = lambda _: True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder, self.first, self.only, self.say = folder, first, only, say
        self.trials, self.confidence, self.paths = trials, confidence, 0
        mechanisms = mechanisms_for(first.tables, first.mechanism)
        self.names = list(dict.fromkeys(mechanisms.values()))
        self.entropy = SystemEntropy()

    def run(self, *, until_found: bool = False) -> Audit:
        """All steps, or those up to the first violation."""
        began = time.monotonic()
        settings = [self.first]
        for name in self.names:
            settings += standard_settings(name, noise=self.first.noise)
        planned, skipped = self.plan(list(filter(self.only, settings)))
        tests = self.count_tests(planned)
        self.result = self.result_class(
            mechanism=_text(self.first.mechanism), claim=self.claim(self.first),
            confidence=self.confidence, tests=tests, skipped=skipped,
        )  # fmt: skip
        steps = self.steps(planned, (1 - self.confidence) / max(1, tests))
        advance = measure_all(
            self.say, "audit", total=sum(worlds for _, worlds in steps), unit="worlds"
        )
        for step, worlds in steps:
            step()
            advance(worlds)
            self.result.seconds = time.monotonic() - began
            if until_found and self.result.violations:
                break
        measured = {measurement.setting for measurement in self.result.measured}
        released = [plan.setting for plan in planned if plan.setting.name in measured]
        tables = dict.fromkeys(
            table for name in self.names for table in find_mechanism(name).tables
        )
        self.result.not_attacked = omissions(
            tables=list(tables),
            attacked=[table for setting in released for table in setting.tables],
            skipped=skipped,
            mixed=not all(setting.independent for setting in released),
        )
        return self.result

    def count_tests(self, planned: list[PlannedSetting]) -> int:
        """The number of hypothesis tests, among which the audit divides its error probability.

        For each pair: samples in both directions, one run, own items.
        """
        return sum((4 if plan.setting.independent else 2) * len(plan.pairs) for plan in planned)

    def steps(self, planned: list[PlannedSetting], alpha: float) -> list[Step]:
        """The attacks, one for each setting; every test has the level alpha."""
        return [(partial(self.attack, plan, alpha), sum(plan.worlds)) for plan in planned]

    def path(self, name: str) -> Path:
        """A new path in the folder."""
        self.paths += 1
        return self.folder / f"{self.paths}-{name}"

    def claim(self, setting: Setting) -> Guarantee:
        """The guarantee claimed at a setting; raises if the mechanism claims none."""
        _, total = self.plans(setting, {})
        if total.notion == "none":
            raise UsageError(
                f"{_text(setting.mechanism)} claims no guarantee, so there is nothing to audit"
            )
        return total

    def plan(self, settings: list[Setting]) -> tuple[list[PlannedSetting], list[str]]:
        """The settings that the mechanism supports, planned, and why the others are skipped."""
        planned, skipped = [], []
        for setting in settings:
            try:
                plans, _ = self.plans(setting, {})
            except UsageError as error:
                if setting.name == "as claimed":
                    raise
                skipped.append(f"{setting.name}: {error}")
                continue
            pairs = setting.make_pairs({table: plan.mechanism for table, plan in plans.items()})
            worlds = [self._worlds(pair, setting.world_factor) for pair in pairs]
            planned.append(PlannedSetting(setting=setting, plans=plans, pairs=pairs, worlds=worlds))
        return planned, skipped

    def _worlds(self, pair: Pair, factor: int) -> int:
        rows = max(1, len(pair.rows(0)), len(pair.rows(1)))
        trials = self.trials * factor
        quick = pair.name.removesuffix(" for others") in (*QUICK, *COUNTED_PAIRS)
        most = trials * (ROWS_OF_QUICK if quick else ROWS) // rows
        return max(60, min(trials, most))

    def plans(
        self, setting: Setting, files: Mapping[str, Any]
    ) -> tuple[dict[str, Plan], Guarantee]:
        """The plans that `release` would make; a pool or list not yet written has one key."""
        options = dict(setting.options)
        for name in setting.files:
            options[name] = files.get(name) or _one_key(name)
        if POOL in setting.files:
            options["fakes"] = max(0.2, FAKES * options[POOL]["query"].size)
        bounds = (
            dict.fromkeys(setting.tables, setting.per_user)
            if isinstance(setting.per_user, int)
            else setting.per_user
        )
        return plan_tables(
            setting.tables,
            mechanism=setting.mechanism,
            epsilon=setting.epsilon,
            delta=setting.delta,
            per_user=bounds,
            noise=setting.noise,
            neighbours=setting.neighbours,
            options=options,
        )

    def write_files(self, planned: PlannedSetting) -> dict[str, Path]:
        """Writes the public files of a setting for its worlds."""
        paths = {}
        for name in planned.setting.files:
            paths[name] = self.path(f"{name}.tsv")
            write_keys(paths[name], planned.pairs, planned.worlds, urls=name == LISTS)
        return paths

    def release(self, setting: Setting, log: Path, options: Mapping[str, Any]) -> Path:
        """The folder of the bundle that `release` makes of a log with the setting and further options."""
        self.result.releases += 1
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
            **options,
        )
        return out

    def attack(self, planned: PlannedSetting, alpha: float) -> ReleasedWorlds:
        """Releases a log of many worlds and attacks the bundle alone."""
        setting, pairs = planned.setting, planned.pairs
        self.say(f"attacking {setting.name}: {sum(planned.worlds)} worlds of {len(pairs)} pairs")
        sides = [draw_below(2, count=worlds, entropy=self.entropy) for worlds in planned.worlds]
        log = self.path("log.parquet")
        ends = [
            secrets_of(draw_below(26, count=worlds * SECRET, entropy=self.entropy))
            for worlds in planned.worlds
        ]
        write_log(log, pairs, sides, ends)
        files: dict[str, Any] = dict(self.write_files(planned))
        if POOL in files:
            keys = read_pools(files[POOL], tables=["query"], url="path")["query"].size
            files["fakes"] = FAKES * keys
        bundle = load(self.release(setting, log, {"screen": False, **files}))
        self.result.worlds += sum(planned.worlds)
        claim = bundle.guarantee
        # The files on disk: `load` rejects tables of unexpected types, an attacker would not.
        tables = {name: read_table(bundle.path, name) for name in bundle.certificate.tables}
        views = observe(tables, worlds=planned.worlds)
        for pair, view, side in zip(pairs, views, sides, strict=True):
            self.result.measured += measure(claim, setting, pair, view, side == 1, alpha)
        own_worlds = (
            worlds
            for pair, worlds in zip(pairs, planned.worlds, strict=True)
            if has_own_items(pair)
        )
        self.result.attack_power.append(
            power_of_attack(
                setting.name, worlds=max(planned.worlds), own_worlds=max(own_worlds, default=0),
                claim=claim.epsilon, delta=claim.delta, alpha=alpha,
                independent=setting.independent,
            )
        )  # fmt: skip
        return ReleasedWorlds(bundle=bundle, tables=tables, views=views, sides=sides)


class MoreOfSetting(TypedDict, total=False):
    """What an audit may say of the setting to attack, besides its budget."""

    neighbours: str
    options: Mapping[str, Any]  # of the mechanisms
    files: tuple[str, ...]  # options that name public lists, which the audit writes itself


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
    attacker: type[Attacker] = Attacker,
    **more: Unpack[MoreOfSetting],
) -> Audit:
    """Attacks a mechanism at the claimed budget and at the audit's standard budgets.

    `trials` is the number of worlds of each pair in each release. `confidence` applies to the whole
    audit: with this probability all bounds hold at once. `until_found` stops at the first violation;
    `attacker` may be one that also looks inside.
    """
    if not 0.5 <= confidence < 1:
        raise UsageError(f"--confidence must lie between 0.5 and 1, not {confidence!r}")
    if not 30 <= trials <= MOST_TRIALS:
        raise UsageError(f"--trials must lie between 30 and {MOST_TRIALS}, not {trials}")
    mechanism = mechanism or (mechanisms_for(tables) if tables else MECHANISM)
    first = claimed_setting(
        mechanism=mechanism,
        epsilon=EPSILON if epsilon is None else epsilon,
        delta=DELTA if delta is None else delta,
        per_user=1 if per_user is None else per_user,
        noise=noise,
        tables=tables,
        **more,
    )
    with tempfile.TemporaryDirectory() as folder:
        return attacker(
            folder=Path(folder), first=first, trials=trials, confidence=confidence, only=only,
            say=say,
        ).run(until_found=until_found)  # fmt: skip


def _text(mechanism: str | Mapping[str, str]) -> str:
    if isinstance(mechanism, str):
        return mechanism
    return ",".join(f"{table}={name}" for table, name in mechanism.items())


def _one_key(name: str) -> Any:
    """A public pool or list of one key: enough to plan with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.tsv"
        path.write_text("weather\tweather.org\n" if name == LISTS else "weather\n")
        return read_public(name, path)


def read_public(name: str, path: Path) -> Any:
    """The public pool or lists that an option of this name takes from a file."""
    if name == LISTS:
        return read_lists(path, url="path")
    return read_pools(path, tables=["query"], url="path")
