"""Releases of one source, one after the other, with a ledger: what is booked when, and which keys are known.

Each release goes through `release` as an owner's does. While noise is drawn the ledger's file is read by a second
reader: the release must be booked in it. A later release counts the keys of the earlier bundle again; the replay
of `rounds` is given the keys of that bundle, not what the code makes of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from independent_total import cost_of_table
from noise_stages import STAGE_ALPHA, STEPS, Law, parameters_of
from pool_replay import EARLIER, RoundsRun
from replacement import replaced
from rounds_replay import replayed_rounds
from stage_probe import word

from murmurlog.auditing.neighbouring_logs import START
from murmurlog.bundle.read import load
from murmurlog.errors import Refused
from murmurlog.privacy import sampler
from murmurlog.publishing.ledger import Ledger
from murmurlog.publishing.release import release

SOURCE, EPSILON, DELTA = "audit", 6.0, 1e-4  # the cap
PART = 0.3  # of the cap, for each release
KEYS = 60  # of many users in the first log
SURE, SOME = 90, 8  # users of a query that is published for sure, and of one that is not
ROOM = 1e-9


class _Stopped(Exception):
    """A release that is stopped while its noise is drawn."""


@dataclass
class _Series:
    """One ledger, and releases that are booked in it."""

    folder: Path
    faults: list[str] = field(default_factory=list)
    draws: int = 0  # of the release that runs

    @property
    def ledger(self) -> Path:
        return self.folder / "series.ledger"

    def entries(self) -> list[Any]:
        """What the ledger's file says now."""
        return Ledger(self.ledger).entries()

    def fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)

    @contextmanager
    def watched(self, out: Path, *, stop: bool = False) -> Iterator[None]:
        """While a release runs, compares each draw and the commit with the ledger's file."""
        before, draw_batch, commit = (
            len(self.entries()),
            vars(sampler)["_draw_batch"],
            Ledger.commit,
        )
        self.draws = 0

        def draw_watched(*given: Any) -> Any:
            self.draws += 1
            booked = self.entries()[before:]
            if [entry.state for entry in booked] != ["reserved"]:
                self.fault("noise is drawn before the release is booked in the ledger")
            if stop:
                raise _Stopped
            return draw_batch(*given)

        def commit_watched(self_: Ledger, *given: Any, **more: Any) -> None:
            if out.exists():
                self.fault("a bundle is in its place before the ledger says that it is published")
            commit(self_, *given, **more)

        with (
            replaced(sampler, "_draw_batch", draw_watched),
            replaced(Ledger, "commit", commit_watched),
        ):
            yield

    def release(
        self, log: Path, name: str, *, part: float = PART, stop: bool = False, **more: Any
    ) -> Path:
        """A release of a part of the cap."""
        out = self.folder / name
        with self.watched(out, stop=stop):
            release(
                str(log), out=out, tables=["query"], mechanism="rounds", of_cap=part, per_user=2,
                ledger=self.ledger, source_name=SOURCE, **more,
            )  # fmt: skip
        return out

    def check_booked(self, out: Path) -> None:
        """The booking of a bundle costs no less than the texts of its certificate."""
        certificate = load(out).certificate
        entry = self.entries()[-1]
        if (entry.release_id, entry.state) != (certificate.release_id, "committed"):
            self.fault("the ledger does not say that the last bundle is published")
        costs = [
            cost_of_table(
                claim.mechanism, (claim.guarantee.epsilon, claim.guarantee.delta), "add-remove"
            )
            for claim in certificate.tables.values()
        ]
        for what, booked, own in (
            ("noise", entry.mu2, sum(cost.squares for cost in costs)),
            ("keys", entry.keys, sum(cost.keys for cost in costs)),
            ("epsilon", entry.epsilon, certificate.guarantee.epsilon),
        ):
            if booked is None or booked < own * (1 - ROOM):
                self.fault(f"a release is booked with less {what} than its certificate states")


def check_series(folder: Path) -> list[str]:
    """One sentence for each fault of booking, and of keys that an earlier release published."""
    series = _Series(folder=folder)
    Ledger(series.ledger).cap(SOURCE, epsilon=EPSILON, delta=DELTA, pure=0.0)
    first, later = folder / "first.parquet", folder / "later.parquet"
    held = [f"held{word(n)}" for n in range(KEYS)]
    gone = [f"gone{word(n)}" for n in range(KEYS)]
    _write(first, {**dict.fromkeys(held, SURE), **dict.fromkeys(gone, SURE)})
    # Half of the keys are asked no more; others are asked by too few to be published.
    some = {f"some{word(n)}": SOME for n in range(KEYS)}
    new = {f"new{word(n)}": SURE for n in range(KEYS)}
    _write(later, {**dict.fromkeys(held, SOME), **some, **new})
    bundle = series.release(first, "first")
    series.check_booked(bundle)
    known = load(bundle).tables["query"].select(["query"])
    if known.num_rows < 2 * KEYS:
        series.fault(f"{known.num_rows} of {2 * KEYS} keys of many users are published")
    with replayed_rounds("query", earlier=known) as run:
        again = series.release(later, "later", after=[bundle])
    series.check_booked(again)
    _check_earlier(series, run, known, load(again))
    _check_stopped(series, later)
    return [*series.faults, *(f"{EARLIER}: {what}" for what in run.faults)]


def _check_earlier(series: _Series, run: RoundsRun, known: pa.Table, later: Any) -> None:
    """Every earlier key has a row with noise of the printed scale, and nothing else is taken for one."""
    published = set(later.tables["query"]["query"].to_pylist())
    if missing := len(set(known["query"].to_pylist()) - published):
        run.fault(f"{missing} of {known.num_rows} have no row in a later release")
    _, given = parameters_of(later.certificate.tables["query"].mechanism)
    for stage, values in run.noise.items():
        if stage.startswith("counts"):
            d2 = int(stage.rpartition(" ")[2])
            law = Law(noise="gaussian", scale=STEPS * float(given["sigma1"]) * d2**0.5)
            if (p := law.p_value(np.concatenate(values))) < STAGE_ALPHA:
                run.fault(f"the noise of {stage} is not that of the certificate (p = {p:.1g})")


def _check_stopped(series: _Series, log: Path) -> None:
    """A release that fails stays booked; one that does not fit draws nothing."""
    before = len(series.entries())
    out = series.folder / "stopped"
    with suppress(_Stopped):
        series.release(log, "stopped", stop=True)
    booked = series.entries()[before:]
    if [entry.state for entry in booked] != ["reserved"] or not booked[-1].mu2:
        series.fault("a release that was stopped while noise was drawn is not booked")
    if out.exists():
        series.fault("a release that was stopped leaves a bundle")
    try:
        series.release(log, "refused")
        series.fault(
            "a release is made that exceeds what failed and published ones leave of the cap"
        )
    except Refused:
        if series.draws:
            series.fault("noise is drawn for a release that is refused")


def _write(path: Path, users: dict[str, int]) -> None:
    """A log in which as many users as stated ask each query, and nobody asks two."""
    queries: Sequence[str] = [query for query, many in users.items() for _ in range(many)]
    names = [f"{query}x{n}" for query, many in users.items() for n in range(many)]
    times = np.full(len(names), np.datetime64(START, "us"))
    columns = {"user": names, "query": queries, "time": pa.array(times, pa.timestamp("us"))}
    pq.write_table(pa.table(columns), path)
