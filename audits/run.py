"""Every mechanism and every broken twin through the same audit, which also looks inside. `make audit` runs it.

    python audits/run.py [--trials 4000] [--confidence 0.99] [--only NAME] [--real | --blind] [--runs 1] [--json]

`--blind` runs the twins of `blind_twins` instead, which were written without a look at the audit.
`--real --runs 20` audits each mechanism 20 times: a violation there is a false alarm.
Exit code 0 only if every twin is caught and no real mechanism is.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from blind_twins import BLIND
from twins import TWINS
from white_box import audit
from white_box_result import noise_in_rows

from murmurlog.cli.output import align
from murmurlog.mechanisms import MECHANISMS
from murmurlog.mechanisms.protocol import Unprotected

# Everything with a guarantee that is chosen by its own name.
REAL = tuple(
    name
    for name, mechanism in MECHANISMS.items()
    if not mechanism.chosen_by and not issubclass(mechanism, Unprotected)
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table."""

    name: str
    violations: list[str]
    seconds: float
    said: str
    settings: list[tuple[str, float, float, float]]  # name, claim, delta, at least
    worlds: int
    noise: list[tuple[str, ...]]  # the power of the tests of the noise, in rows


def attacked(job: tuple[str, str, int, float]) -> tuple[str, Row]:
    """A mechanism or a twin by its name."""
    kind, name, trials, confidence = job
    began = time.monotonic()
    try:
        return kind, _audited(kind, name, trials, confidence, began)
    except Exception as error:  # the results of the others must not be lost
        traceback.print_exc()
        text = f"the audit itself fails: {type(error).__name__}: {error}"
        return "failed", Row(name=name, violations=[text], seconds=time.monotonic() - began,
                             said=text, settings=[], worlds=0, noise=[])  # fmt: skip


def _audited(kind: str, name: str, trials: int, confidence: float, began: float) -> Row:
    if kind == "twin":
        twin = next(each for each in (*TWINS, *BLIND) if each.name == name)
        made, _ = twin.audited(trials=trials, confidence=confidence)
    else:
        made = audit(mechanism=name, trials=trials, confidence=confidence)
    best = [made.at(setting) for setting in dict.fromkeys(m.setting for m in made.measured)]
    return Row(
        name=name,
        violations=made.violations,
        seconds=time.monotonic() - began,
        said=made.sentence(),
        settings=[(b.setting, b.claim, b.delta, b.least) for b in best if b],
        worlds=made.worlds,
        noise=noise_in_rows(made) if made.power else [],
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument("--only", help="names that hold this text")
    parser.add_argument("--real", action="store_true", help="mechanisms only, no twins")
    parser.add_argument("--blind", action="store_true", help="the twins of blind_twins only")
    parser.add_argument("--runs", type=int, default=1, help="audits of each name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    began = time.monotonic()
    names = [("real", name) for name in REAL] + [("twin", twin.name) for twin in TWINS]
    if given.blind:
        names = [("twin", twin.name) for twin in BLIND]
    jobs = [
        (kind, name, given.trials, given.confidence)
        for _ in range(given.runs)
        for kind, name in names
        if (not given.only or given.only in name) and (kind == "real" or not given.real)
    ]
    # A process for each: a twin's patches must never be where a real mechanism runs.
    pool = ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with pool:
        done = [pool.submit(attacked, job) for job in jobs]
        for number, future in enumerate(as_completed(done), start=1):
            _, row = future.result()
            what = "a violation" if row.violations else "nothing"
            print(f"{number} of {len(done)}: {row.name}: {what} found, {row.seconds:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
        rows = [future.result() for future in done]
    real = [row for kind, row in rows if kind == "real"]
    twins = [row for kind, row in rows if kind == "twin"]
    failed = [row for kind, row in rows if kind == "failed"]
    if given.json:
        print(json.dumps({"real": [asdict(r) for r in real], "twins": [asdict(r) for r in twins]}))
    else:
        show(real, twins, time.monotonic() - began)
    for row in failed:
        print(f"{row.name}: {row.said}", file=sys.stderr)
    good = all(row.violations for row in twins) and not any(row.violations for row in real + failed)
    return 0 if good else 1


def show(real: list[Row], twins: list[Row], seconds: float) -> None:
    print("mechanisms, attacked at the budget that is claimed and at larger ones")
    print(f"  {'mechanism':12} {'setting':34} {'claimed':>8} {'delta':>9} {'measured >=':>12}")
    for name, rows in itertools.groupby(sorted(real, key=lambda row: REAL.index(row.name)), _name):
        show_mechanism(name, list(rows))
    print("\nbroken twins")
    print(f"  {'twin':44} {'tried':>6} {'caught':>7} {'seconds':>8}  by")
    for row in twins:
        caught = "yes" if row.violations else "NO"
        by = row.violations[0] if row.violations else row.said
        print(f"  {row.name:44} {'yes':>6} {caught:>7} {row.seconds:8.0f}  {by}")
    found = sum(bool(row.violations) for row in twins)
    wrong = sum(bool(row.violations) for row in real)
    kinds = len({row.name for row in real})
    what = f"{wrong} of {kinds} mechanisms violated"
    if len(real) > kinds:
        what = f"{wrong} violations in {len(real)} audits of {kinds} mechanisms"
    print(f"\n{found} of {len(twins)} twins caught; {what}; {seconds:.0f} s")


def show_mechanism(name: str, rows: list[Row]) -> None:
    """The settings of one mechanism, each with the median bound of all its audits, and violations."""
    for number, settings in enumerate(zip(*(row.settings for row in rows), strict=True)):
        setting, claim, delta, _ = settings[0]
        least = statistics.median(each[3] for each in settings)
        shown = name if not number else ""
        print(f"  {shown:12} {setting:34} {claim:8.3g} {delta:9.2g} {least:12.2f}")
    took = max(row.seconds for row in rows)
    if len(rows) == 1:
        print(f"  {'':12} {rows[0].said} ({rows[0].worlds} worlds, {took:.0f} s)")
        for line in align(rows[0].noise).splitlines():
            print(f"  {'':12} {line}")
    else:
        wrong = sum(bool(row.violations) for row in rows)
        print(
            f"  {'':12} a violation found in {wrong} of {len(rows)} runs (each at most {took:.0f} s)"
        )
    for text in (text for row in rows for text in row.violations):
        print(f"  VIOLATION {text}")


def _name(row: Row) -> str:
    return row.name


if __name__ == "__main__":
    sys.exit(main())
