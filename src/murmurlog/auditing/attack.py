"""Attacks a mechanism on the whole road, and says what is the least that is true of its epsilon.

For every setting a log of many worlds is written, released by `release`, and only the bundle on disk
is looked at. Beside it stand the probes. What comes out is never "private": it is a violation, or
that none was found, with a bound that holds at the stated confidence over everything that was tried.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from murmurlog.auditing.epsilon_bounds import at_least, least_by_guesses, loss
from murmurlog.auditing.neighbouring_logs import (
    LETTERS,
    OWN,
    SECRET,
    Pair,
    secrets_of,
    write_keys,
    write_log,
)
from murmurlog.auditing.observer import Flags, Seen, events, guesses, seen, shows_own
from murmurlog.auditing.probes import leaks, odd_counts, odd_shares, order, repeats, replay
from murmurlog.auditing.settings import (
    COUNTED,
    FAKES,
    LISTS,
    MORE,
    POOL,
    QUICK,
    Setting,
    claimed,
    standing,
)
from murmurlog.bundle.read import load, read_table
from murmurlog.counting.public_sets.result_lists import read_lists
from murmurlog.counting.public_sets.sets import read_pools
from murmurlog.errors import UsageError
from murmurlog.mechanisms import View, parse
from murmurlog.privacy import Guarantee
from murmurlog.privacy.sampler import SystemEntropy, below
from murmurlog.publishing import release as road
from murmurlog.publishing.plan import DELTA, EPSILON, MECHANISM, Plan, mechanisms_for, plan_tables

TRIALS = 4000
MOST_TRIALS = 26 ** (LETTERS - 1) // MORE  # worlds have names of their own
CONFIDENCE = 0.99
ROWS, ROWS_OF_QUICK = 10, 40  # a trial: of pairs with larger worlds there are fewer
REPLAYED = 6  # worlds of each pair that are replayed; counting has little chance in it
LEAK_EPSILON = 0.1  # a budget at which a score of right guesses proves a leak
SLACK = 1e-6
GUESSED = 2.0**-90  # more than the chance that somebody comes to a secret of 94 bits


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one attack at one setting says of epsilon, at the delta that is claimed there."""

    setting: str
    pair: str
    way: str  # "samples, with" or "without" the user, or "one run"
    claim: float
    delta: float
    least: float  # epsilon is at least this
    near: float | None = None  # what the shares say
    most: float | None = None  # the other end of the interval of this attack
    linked: int = 1

    @property
    def violates(self) -> bool:
        return self.least > self.claim * (1 + SLACK)

    def as_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "pair": self.pair,
            "way": self.way,
            "epsilon_claimed": self.claim,
            "delta_claimed": self.delta,
            "epsilon_at_least": self.least,
            "epsilon_near": self.near,
            "epsilon_at_most_by_this_attack": self.most,
            "linked_ids": self.linked,
            "violation": self.violates,
        }


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that a proof rests on and that is not so."""

    setting: str
    what: str

    def as_json(self) -> dict[str, str]:
        return {"setting": self.setting, "what": self.what}


@dataclass(kw_only=True)
class Audit:
    """Everything that was tried against a mechanism, and what came of it."""

    mechanism: str
    claim: Guarantee
    confidence: float
    tests: int
    measured: list[Measured] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # settings that the mechanism does not offer
    worlds: int = 0
    releases: int = 0
    seconds: float = 0.0

    @property
    def violations(self) -> list[str]:
        """What is wrong, in words."""
        found = [f"{fault.setting}: {fault.what}" for fault in self.faults]
        for each in self.measured:
            if each.violates:
                found.append(
                    f"{each.setting}, {each.pair} ({each.way}): claimed {each.claim:.4g}, "
                    f"measured at least {each.least:.3g} at delta {each.delta:.3g}"
                )
        return found

    @property
    def best(self) -> Measured | None:
        """The attack that came nearest to what is claimed for it; single ids only."""
        return max(
            (each for each in self.measured if each.linked == 1),
            key=lambda each: each.least / each.claim,
            default=None,
        )

    def at(self, setting: str) -> Measured | None:
        """The attack with the largest bound at a setting; single ids only."""
        here = [m for m in self.measured if m.setting == setting and m.linked == 1]
        return max(here, key=lambda each: each.least, default=None)

    def sentence(self) -> str:
        """The verdict: a violation, or that none was found."""
        sure = f"at {100 * self.confidence:.6g} %"
        if self.violations:
            what = f"{len(self.violations)} violation{'s' if len(self.violations) > 1 else ''}"
            return f"{what} found {sure}; first: {self.violations[0]}"
        here = self.at("as claimed")
        if here is None:
            return f"no violation found (nothing could be measured as claimed) {sure}"
        return f"no violation found (claimed {here.claim:.4g}, measured at least {here.least:.2f} {sure})"

    def as_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "claim": self.claim.as_json(),
            "verdict": self.sentence(),
            "violations": self.violations,
            "confidence": self.confidence,
            "tests": self.tests,
            "worlds": self.worlds,
            "releases": self.releases,
            "seconds": round(self.seconds, 1),
            "measured": [each.as_json() for each in self.measured],
            "faults": [each.as_json() for each in self.faults],
            "not_offered": self.skipped,
        }


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """A setting with its plan and its pairs."""

    setting: Setting
    plans: Mapping[str, Plan]
    pairs: list[Pair]
    worlds: list[int]  # of each pair

    @property
    def tests(self) -> int:
        """Samples in both directions, one run, own items; laws of noise; what shows, on both sides."""
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
    """Attacks a mechanism at a budget and at the audit's own; `until_found` stops at a violation.

    `more` may be `neighbours`, `options` of the mechanisms, and `files`: options that name public
    lists, of which the audit writes its own. `trials` are
    worlds of each pair in each release. The confidence is that of everything together:
    no bound of the whole audit is wrong but for a chance of 1 - confidence.
    """
    if not 0.5 <= confidence < 1:
        raise UsageError(f"--confidence must lie between 0.5 and 1, not {confidence!r}")
    if not 30 <= trials <= MOST_TRIALS:
        raise UsageError(f"--trials must lie between 30 and {MOST_TRIALS}, not {trials}")
    began = time.monotonic()
    mechanism = mechanism or (mechanisms_for(tables) if tables else MECHANISM)
    first = claimed(
        mechanism=mechanism,
        epsilon=EPSILON if epsilon is None else epsilon,
        delta=DELTA if delta is None else delta,
        per_user=1 if per_user is None else per_user,
        noise=noise,
        **({} if tables is None else {"tables": tables}),
        **more,
    )
    names = dict.fromkeys(mechanisms_for(first.tables, mechanism).values())
    settings = [first, *(each for name in names for each in standing(name, noise=noise))]
    beside = _for_leaks(first)
    with tempfile.TemporaryDirectory() as folder:
        running = _Running(Path(folder), trials)
        planned, skipped = running.plan([each for each in settings if only(each)])
        claim = running.claim(first)
        tests = sum(each.tests for each in planned) + 1
        made = Audit(
            mechanism=_text(mechanism), claim=claim, confidence=confidence, tests=tests,
            skipped=skipped,
        )  # fmt: skip
        alpha = (1 - confidence) / tests
        steps: list[Callable[[], None]] = [
            lambda: running.repeats(made),
            *(
                partial(running.replay, made, each, say)
                for each in planned
                if each.setting.replayed
            ),
            *([partial(running.leaks, made, beside, alpha, say)] if only(beside) else []),
            *(partial(running.attack, made, each, alpha, say) for each in planned),
        ]
        for step in steps:
            step()
            made.releases = running.releases
            made.seconds = time.monotonic() - began
            if until_found and made.violations:
                break
    return made


def _text(mechanism: str | Mapping[str, str]) -> str:
    if isinstance(mechanism, str):
        return mechanism
    return ",".join(f"{table}={name}" for table, name in mechanism.items())


class _Running:
    """The releases of an audit, in a folder of their own."""

    def __init__(self, folder: Path, trials: int) -> None:
        self.folder, self.trials, self.made, self.releases = folder, trials, 0, 0
        self.entropy = SystemEntropy()

    def path(self, name: str) -> Path:
        """A new path in the folder."""
        self.made += 1
        return self.folder / f"{self.made}-{name}"

    def claim(self, setting: Setting) -> Guarantee:
        """What is claimed at a setting; raises if nothing is."""
        _, total = self._plans(setting, {})
        if total.notion == "none":
            raise UsageError(
                f"{_text(setting.mechanism)} claims no guarantee, so there is nothing to audit"
            )
        return total

    def plan(self, settings: list[Setting]) -> tuple[list[_Planned], list[str]]:
        """The settings that the mechanism offers, with their pairs, and the names of the others."""
        found, skipped = [], []
        for setting in settings:
            try:
                plans, _ = self._plans(setting, {})
            except UsageError as error:
                if setting.name == "as claimed":
                    raise
                skipped.append(f"{setting.name}: {error}")
                continue
            pairs = setting.made({table: each.mechanism for table, each in plans.items()})
            worlds = [self._worlds(pair, setting.more) for pair in pairs]
            found.append(_Planned(setting=setting, plans=plans, pairs=pairs, worlds=worlds))
        return found, skipped

    def _worlds(self, pair: Pair, more: int) -> int:
        rows = max(1, len(pair.rows(0)), len(pair.rows(1)))
        trials = self.trials * more
        quick = pair.name.removesuffix(" for others") in (*QUICK, *COUNTED)
        most = trials * (ROWS_OF_QUICK if quick else ROWS) // rows
        return max(60, min(trials, most))

    def _plans(
        self, setting: Setting, files: Mapping[str, Any]
    ) -> tuple[dict[str, Plan], Guarantee]:
        """As `release` plans it; a pool or list that is not made yet has one key."""
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

    def _files(self, each: _Planned) -> dict[str, Path]:
        """The public files of a setting, written for its worlds."""
        found = {}
        for name in each.setting.files:
            found[name] = self.path(f"{name}.tsv")
            write_keys(found[name], each.pairs, each.worlds, urls=name == LISTS)
        return found

    def release(self, setting: Setting, log: Path, **more: Any) -> Path:
        """A bundle of the log, made by the whole road."""
        self.releases += 1
        out = self.path("bundle")
        road.release(
            str(log),
            out=out,
            tables=list(setting.tables),
            mechanism=setting.mechanism,
            epsilon=setting.epsilon,
            delta=setting.delta,
            per_user=setting.per_user,
            noise=setting.noise,
            neighbours=setting.neighbours,
            **setting.options,
            **more,
        )
        return out

    # --- the steps of an audit

    def repeats(self, made: Audit) -> None:
        """Noise that comes twice."""
        found = repeats(SystemEntropy)
        made.faults += [Fault(setting="noise", what=what) for what in found]

    def replay(self, made: Audit, each: _Planned, say: Callable[[str], None]) -> None:
        """What one user moves, by the mechanism's own counting."""
        say(f"replaying {each.setting.name}")
        few = [REPLAYED] * len(each.pairs)
        small = _Planned(setting=each.setting, plans=each.plans, pairs=each.pairs, worlds=few)
        files = {name: _read(name, path) for name, path in self._files(small).items()}
        plans, _ = self._plans(each.setting, files)
        for table, plan in plans.items():
            view = View(kind=table, way="first", options={**each.setting.options, **files})
            if plan.mechanism.waits:
                continue  # it counts what was published before: only whole releases show that
            for what in replay(plan.mechanism, view, each.pairs, worlds=REPLAYED, seed=1):
                made.faults.append(Fault(setting=each.setting.name, what=f"{table}: {what}"))

    def leaks(self, made: Audit, small: Setting, alpha: float, say: Callable[[str], None]) -> None:
        """Everything in a bundle besides its rows."""
        say("looking for side channels")
        logs = {inside: self.path(f"{inside}.parquet") for inside in (False, True)}
        for inside, path in logs.items():
            pq.write_table(_small_log(inside), path)
        files = {name: self.path(f"{name}.tsv") for name in small.files}
        for name, path in files.items():
            path.write_text("weather\tweather.org\n" if name == LISTS else "weather\nnews\n")
        found = leaks(
            lambda inside: self.release(small, logs[inside], **files),
            coin=lambda: bool(below(2, entropy=self.entropy)[0]),
            epsilon=small.epsilon,
            delta=small.delta,
            alpha=alpha,
        )
        made.faults += [Fault(setting="side channels", what=what) for what in found]

    def attack(self, made: Audit, each: _Planned, alpha: float, say: Callable[[str], None]) -> None:
        """A log of many worlds, released, and only its bundle looked at."""
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
        bundle = load(self.release(setting, log, screen=False, **files))
        made.worlds += sum(each.worlds)
        claim = bundle.guarantee
        # As they lie on disk: `load` would refuse tables of other types, an attacker would not.
        tables = {name: read_table(bundle.path, name) for name in bundle.certificate.tables}
        views = seen(tables, worlds=each.worlds)
        for pair, what, side in zip(pairs, views, sides, strict=True):
            made.measured += _against(claim, setting, pair, what, side == 1, alpha)
        stated = {name: parse(t.mechanism) for name, t in bundle.certificate.tables.items()}
        odd = [
            *order(tables),
            *odd_counts(stated, pairs, views, sides, alpha=alpha),
            *odd_shares(stated, pairs, views, sides, alpha=alpha),
        ]
        made.faults += [Fault(setting=setting.name, what=what) for what in odd]


def _against(
    claim: Guarantee, setting: Setting, pair: Pair, what: Seen, inside: Flags, alpha: float
) -> list[Measured]:
    """The bounds by samples in both directions, if worlds are independent, and by one run."""
    epsilon, delta = claim.for_linked(pair.linked)
    shared: dict[str, Any] = {
        "setting": setting.name, "pair": pair.name, "claim": epsilon, "delta": delta,
        "linked": pair.linked,
    }  # fmt: skip
    made = []
    if setting.independent:
        made += [
            Measured(
                way=f"samples, {found.direction} the user" if not pair.other else "samples",
                least=found.counts.least(delta=delta, alpha=alpha),
                near=found.counts.near(delta=delta),
                most=found.counts.most(delta=delta, alpha=alpha),
                **shared,
            )
            for found in events(what, inside, delta=delta)
        ]
    told = guesses(what, inside)
    least = least_by_guesses(
        canaries=told.canaries, guesses=told.guesses, right=told.right, delta=delta, alpha=alpha
    )
    made.append(Measured(way="one run", least=least, **shared))
    # An item shows no more often than it passes its threshold, in every world by noise of its own.
    if pair.secret and any(
        (t or "").startswith(OWN) for row in pair.one for t in (row.query, row.url)
    ):
        made.append(_own(shows_own(what), inside, alpha, shared))
    return made


def _own(shown: Flags, inside: Flags, alpha: float, shared: Mapping[str, Any]) -> Measured:
    """Whether what is the user's own shows; without the user it does so with less than 2^-90."""
    hits, trials = int((shown & inside).sum()), int(inside.sum())
    p, delta = at_least(hits, trials, alpha), float(shared["delta"])
    return Measured(
        way=f"own items, {hits} of {trials} show, at least {p:.3g}",
        least=loss(p, GUESSED, delta),
        **shared,
    )


def _for_leaks(first: Setting) -> Setting:
    """The same release at a budget at which few right guesses prove much."""
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
    """Twenty users who ask and click the same; and one more, with a query of its own besides."""
    rows = [(f"user{n}", "weather", "weather.org") for n in range(20)]
    if inside:
        rows += [("another", "weather", "weather.org"), ("another", "news", "news.org")]
    users, queries, urls = zip(*rows, strict=True)
    times = [np.datetime64("2026-01-01T00:00:00", "us")] * len(rows)
    return pa.table(
        {"user": users, "query": queries, "url": urls, "time": pa.array(times, pa.timestamp("us"))}
    )
