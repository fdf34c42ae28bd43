"""A second opinion: Google's DP-Auditorium on `threshold` and `rounds`, and on both with less noise.

DP-Auditorium is not on PyPI and needs older packages than murmurlog, so it gets an environment of its own:

    git clone https://github.com/google/differential-privacy
    python3.11 -m venv auditorium
    auditorium/bin/pip install ./differential-privacy/python/dp_auditorium
    python audits/outside_opinion.py --tool auditorium/bin/python

This process samples what murmurlog publishes about two neighbouring logs; the other one judges the samples.
Without the tool the script says so and ends with exit code 0. Otherwise the exit code is 0 only if no tester
rejects a real mechanism and some tester rejects each with half the noise.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

SAMPLES = 100_000  # of each log
COPIES = 10_000  # of the small log in a release; each has users and a query of its own
FAILURE = 0.01  # chance that a tester rejects what is private
WIDTH = 8  # how far numbers that are judged lie from the number of users; others are cut
FACTORS = (1.0, 0.8, 0.5)  # of the noise


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism with one item a user, and its budget."""

    name: str
    epsilon: float
    delta: float
    options: dict[str, Any]


CASES = (
    Case(name="threshold", epsilon=1.0, delta=0.01, options={"noise": "geometric"}),
    # Without counts: all counts of a release share a noisy histogram, so copies would not be independent.
    Case(name="rounds", epsilon=1.0, delta=0.1, options={"count_share": 0.0}),
)


# --- in murmurlog's environment ---------------------------------------------------------------------


def sample(case: Case, factor: float, folder: Path, samples: int) -> tuple[int, list[Numbers]]:
    """How many users ask the query of the small log, and what is published of that log and of its neighbour.

    As many users as about half of the releases need; the neighbour has one less. What is published is the
    number of users (1 where there are no counts), or 0 for nothing.
    """
    import pyarrow.parquet as pq

    from murmurlog.logs.engines.duckdb import connect
    from murmurlog.logs.log import read
    from murmurlog.logs.source import find
    from murmurlog.mechanisms import Accounted, View, find_mechanism
    from murmurlog.privacy.sampler import SystemEntropy

    asked: dict[str, Any] = {"epsilon": case.epsilon, "delta": case.delta, "d": 1, **case.options}
    mechanism, entropy = find_mechanism(case.name).solve(**asked), SystemEntropy()
    assert isinstance(mechanism, Accounted)
    most, found = math.ceil(mechanism.needed_weight()), []
    for users in (most, most - 1):
        path = folder / f"{users}.parquet"
        pq.write_table(_log(users), path)
        shown = np.zeros((-(-samples // COPIES), COPIES), np.int64)
        with connect() as engine, _less_noise(factor):
            held = mechanism.gather(
                read(find(str(path)), engine=engine),
                View(kind="query", way="first"),
                entropy=entropy,
            )
            for row in shown:
                table = mechanism.release(held, entropy=entropy)
                copies = [int(query.removeprefix("query")) for query in table["query"].to_pylist()]
                row[copies] = table["users"].to_numpy() if "users" in table.column_names else 1
        found.append(shown.ravel()[:samples])
    return most, found


def _log(users: int) -> Any:
    """Copies of a log in which so many users ask one query."""
    import pyarrow as pa

    copy = np.repeat(np.arange(COPIES), users)
    return pa.table(
        {
            "user": [f"user{n}" for n in range(len(copy))],
            "query": [f"query{n}" for n in copy],
            "time": pa.array(np.zeros(len(copy), "datetime64[us]")),
        }
    )


@contextmanager
def _less_noise(factor: float) -> Iterator[None]:
    """While this lasts, both mechanisms draw noise of so many times the scale."""
    from murmurlog.mechanisms import threshold
    from murmurlog.mechanisms.rounds import select
    from murmurlog.privacy.sampler import draw

    def less(*, scale: float, **more: Any) -> Any:
        return draw(scale=scale * factor, **more)

    with mock.patch.object(select, "draw", less), mock.patch.object(threshold, "draw", less):
        yield


# --- in the tool's environment ----------------------------------------------------------------------


def judge(path: Path) -> list[dict[str, Any]]:
    """What each tester of DP-Auditorium says about the samples of a file."""
    import tensorflow as tf
    from dp_auditorium import privacy_test_runner
    from dp_auditorium.configs import privacy_property, privacy_test_runner_config
    from dp_auditorium.configs import property_tester_config as configs
    from dp_auditorium.generators import constant_dataset_generator
    from dp_auditorium.testers import histogram_tester, hockey_stick_tester, mmd_tester

    tf.keras.utils.set_random_seed(1)
    given = np.load(path)
    # A function of what is published and of public numbers. Networks learn little from uncentred numbers.
    centred = (given[name] - int(given["users"]) for name in ("one", "other"))
    pair = tuple(np.clip(each, -WIDTH, WIDTH) for each in centred)
    claim = privacy_property.ApproximateDp(
        epsilon=float(given["epsilon"]), delta=float(given["delta"])
    )
    names = privacy_test_runner_config.PropertyTester
    testers = {
        "hockey stick": (
            names.HOCKEY_STICK_TESTER,
            hockey_stick_tester.HockeyStickPropertyTester(
                config=configs.HockeyStickPropertyTesterConfig(
                    training_config=hockey_stick_tester.make_default_hs_training_config(),
                    approximate_dp=claim,
                ),
                base_model=hockey_stick_tester.make_default_hs_base_model(),
            ),
        ),
        "histogram": (
            names.HISTOGRAM_TESTER,
            histogram_tester.HistogramTester(
                configs.HistogramPropertyTesterConfig(
                    test_discrete_mechanism=False,  # that one takes no negative numbers
                    histogram_size=2 * WIDTH + 1,
                    min_value=-WIDTH - 0.5,
                    max_value=WIDTH + 0.5,
                    approximate_dp=claim,
                )
            ),
        ),
        "MMD": (
            names.MMD_TESTER,
            mmd_tester.MMDPropertyTester(
                configs.MMDPropertyTesterConfig(
                    kernel=configs.Kernel.KERNEL_LAPLACIAN, bandwidth=0.5, approximate_dp=claim
                )
            ),
        ),
    }
    said = []
    for name, (kind, tester) in testers.items():
        began = time.monotonic()
        runner = privacy_test_runner.PrivacyTestRunner(
            config=privacy_test_runner_config.PrivacyTestRunnerConfig(
                property_tester=kind,
                max_num_trials=1,
                failure_probability=FAILURE,
                num_samples=len(pair[0]),
                post_processing=privacy_test_runner_config.PostProcessing.NONE,
            ),
            dataset_generator=constant_dataset_generator.ConstantDatasetGenerator(pair),
            property_tester=tester,
        )
        # A "dataset" here is what murmurlog published about it, so many times.
        result = runner.test_privacy(lambda dataset, num_samples: dataset[:num_samples], name)
        said.append(
            {
                "tester": name,
                "delta at least": float(result.lower_bound_divergence_estimates[-1]),
                "rejected": result.found_privacy_violation is not None,
                "seconds": round(time.monotonic() - began, 1),
            }
        )
    return said


# --- both -------------------------------------------------------------------------------------------


def ask(
    tool: str, case: Case, users: int, pair: list[Numbers], folder: Path
) -> list[dict[str, Any]]:
    """Runs the testers in the tool's environment."""
    path = folder / "samples.npz"
    np.savez(path, one=pair[0], other=pair[1], users=users, epsilon=case.epsilon, delta=case.delta)
    command = [tool, __file__, "--judge", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    said: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return said


def missing(tool: str) -> str | None:
    """Why the tool cannot be run; None if it can."""
    try:
        done = subprocess.run(
            [tool, "-c", "import dp_auditorium"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"{tool} cannot be run ({error.strerror})"
    return (done.stderr.strip().splitlines() or ["it fails"])[-1] if done.returncode else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", default=sys.executable, help="a Python that has dp_auditorium")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each log")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        print(json.dumps(judge(given.judge)))
        return 0
    if why := missing(given.tool):
        print(f"skipped: DP-Auditorium is not there for {given.tool}: {why}\n\n{__doc__}")
        return 0
    good = True
    print(f"{'mechanism':10} {'noise':>6} {'tester':13} {'claimed':>16} {'delta at least':>15} {'verdict':>9} {'s':>5}")  # fmt: skip
    for case in CASES:
        for factor in FACTORS:
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                users, pair = sample(case, factor, Path(folder), given.samples)
                sampling = time.monotonic() - began
                said = ask(given.tool, case, users, pair, Path(folder))
            for each in said:
                verdict = "rejected" if each["rejected"] else "not"
                print(f"{case.name:10} {factor:6} {each['tester']:13} {f'({case.epsilon}, {case.delta})':>16} {each['delta at least']:15.4f} {verdict:>9} {each['seconds']:5}")  # fmt: skip
            print(f"{'':10} {users} and {users - 1} users, {given.samples} samples each in {sampling:.0f} s", flush=True)  # fmt: skip
            rejected = any(each["rejected"] for each in said)
            good &= rejected == (factor == 0.5) or factor not in (1.0, 0.5)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
