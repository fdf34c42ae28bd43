"""The whole audit: real mechanisms pass, twins are caught, and what was checked is said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from draw_record import StagePower
from twins import TWINS
from white_box import audit
from white_box_result import CHECKS, WhiteBoxAudit, noise_in_rows

from murmurlog.privacy import Guarantee

ROOT = Path(__file__).parents[2]

SURE = 1 - 1e-9  # so that a test of real noise fails once in a billion times


def one_item(setting):
    return setting.name == "large delta, one item a user"


def three_items(setting):
    return setting.name == "large delta, three items a user"


def test_nothing_is_found_wrong_inside_a_real_release():
    result = audit(mechanism="threshold", trials=100, confidence=SURE, only=one_item)
    assert result.violations == []
    assert {check.name for check in result.checks} == {"repeated noise", "totals"}
    assert json.loads(json.dumps(result.as_json()))["faults"] == []


QUICK = {
    "noise reused after fork": (lambda s: False, "two forked processes have the same noise"),
    "noise of a fixed seed": (lambda s: False, "two releases of one process have the same noise"),
    "bound skipped": (three_items, "a heavy user: one user moves 12 counts"),
    "repeats counted as users": (three_items, "its own item again and again: one user moves 1"),
    "bound after the tally": (three_items, "ties that steer bounds: one user moves "),
    "SafeLog's filter before limiting": (three_items, "items at the threshold: one user moves 3"),
}


@pytest.mark.parametrize(
    "twin", [t for t in TWINS if t.name in QUICK], ids=lambda t: t.name.replace(" ", "-")
)
def test_the_audit_catches_twins_at_once_and_for_what_is_wrong_with_them(twin):
    only, why = QUICK[twin.name]
    made, _ = twin.audited(only=only, confidence=SURE)
    assert why in " ".join(made.violations)
    assert "violation" in made.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda t: t.name.replace(" ", "-"))
def test_the_audit_catches_every_twin(twin):
    made, _ = twin.audited()
    assert made.violations, made.sentence()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["threshold", "rounds", "korolova", "zealous", "pool", "sessions", "session-tree"]
)  # fmt: skip
def test_no_real_mechanism_is_caught(mechanism):
    made = audit(mechanism=mechanism, confidence=SURE)
    assert made.violations == []
    assert made.best is not None
    # Samples cannot show the rare events in which Gaussian noise at a small delta costs its epsilon.
    if mechanism != "session-tree":
        assert made.best.near is None or made.best.near > 0.2 * made.best.claim
    if mechanism not in ("rounds", "sessions", "session-tree"):
        assert made.best.least > 0.3 * made.best.claim


@pytest.mark.slow
def test_a_stranger_can_run_it():
    script = ROOT / "audits" / "run.py"
    done = subprocess.run([sys.executable, script, "--only", "fixed seed"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 twins caught; 0 of 0 mechanisms violated" in done.stdout


def test_what_was_checked_and_what_would_have_been_seen_is_kept_and_listed():
    result = WhiteBoxAudit(
        mechanism="rounds", claim=Guarantee(epsilon=1.0, delta=1e-6), confidence=0.99, tests=2,
        power=[
            StagePower(table="query", stage="round 1", draws=9000, smallest=0.061),
            StagePower(table="query", stage="round 2", draws=8000, smallest=0.083),
            StagePower(table="query", stage="round 2 of pool keys", draws=8100, smallest=0.05),
        ],
    )  # fmt: skip
    for name in CHECKS:
        result.did(name)
        result.did(name)
    assert len(result.checks) == len(CHECKS)
    assert noise_in_rows(result)[1:] == [
        ("query", "2", "8,000 to 9,000", "6.1 % to 8.3 %"),
        ("query, pools and earlier keys", "1", "8,100", "5.0 %"),
    ]
    result.add("noise", ["noise comes twice"])
    assert result.violations == ["noise: noise comes twice"]
    assert {"faults", "power", "checked"} <= result.as_json().keys()
